// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Event queues: `post` of crates/core/nic/src/portals/event_queue.rs. An event becomes one or two lines of 64 bytes in host memory.
// Queues out of range stops elaboration.
//
// 1. Events are written in the order of arrival. The line whose first word is the event's number comes last, so a reader that sees the
//    number sees the event.
// 2. A full queue overwrites its oldest events; their reader detects the loss by the number. A reference to no live queue gives no event.
//    The host reports the number of events that the program has taken; only flow control needs it.
// 3. The forms of events are those of crates/core/nic/src/portals/event.rs: ordinary, nothing requested, long.
// 4. After an event of the same queue its words are known: the second and all further take 2 cycles, the first 3; a long one 1 more.
//
// Q, two words of 128 bits: the host's settings, and the part that events change. Registers: the words of the last event's queue.

module event_queues
  import pac_pkg::*;
  import engine_pkg::*;
#(
    parameter int unsigned Queues = 32,  // 2 to 256
    parameter int unsigned Depth  = 4    // waiting events, 2 to 64
) (
    input  logic clk_i,
    input  logic rst_ni,
    output logic ready_o,

    // A queue is made, or freed by a length of 0. Only while `idle_o`.
    input  logic        set_i,
    input  reference_t  set_events_i,
    input  logic [31:0] set_ring_i,    // first block
    input  logic [31:0] set_length_i,  // blocks

    input  logic    post_i,
    input  posted_t posted_i,
    output logic    room_o,
    output logic    idle_o,  // no event is in progress

    // Reads a queue's state, while `idle_o`. It is valid two cycles later, with `look_events_i` unchanged.
    input  logic        look_i,
    input  reference_t  look_events_i,
    output logic        live_o,
    output logic [1:0]  free_o,         // room for this number of events; 3: three or more, or there is no such queue
    input  logic [63:0] taken_i,        // number of its events that the program has taken
    output logic        taken_valid_o,  // it neither shrinks nor exceeds the number of posted events
    input  logic        take_i,

    output logic        line_valid_o,
    input  logic        line_ready_i,
    output event_line_t line_o,

    output logic written_o,     // an event
    output logic overwritten_o  // and it overwrites another one
);

  if (Queues < 2 || Queues > 256) $error("event_queues: Queues is %0d, and may be 2 to 256", Queues);

  localparam int unsigned AddressW = $clog2(Queues);
  typedef logic [AddressW-1:0] address_t;

  typedef struct packed {
    logic [38:0] spare;
    logic        live;
    generation_t generation;
    logic [31:0] length;
    logic [31:0] ring;
  } q0_t;
  typedef struct packed {
    logic [31:0] used;   // events that are neither taken nor overwritten
    logic [31:0] place;
    logic [63:0] tail;
  } q1_t;

  localparam logic [1:0] Ordinary = 2'd0;
  localparam logic [1:0] NothingRequested = 2'd1;
  localparam logic [1:0] Long = 2'd2;

  posted_t posted;
  logic posted_valid, pop, q0_ready, q1_ready;
  localparam int unsigned CountW = $clog2(Depth + 1);
  logic [CountW-1:0] room;
  assign room_o = room != '0;

  fifo #(
      .Width($bits(posted_t)),
      .Depth(Depth)
  ) u_posted (
      .clk_i,
      .rst_ni,
      .push_i (post_i),
      .data_i (posted_i),
      .room_o (room),
      .valid_o(posted_valid),
      .data_o (posted),
      .pop_i  (pop)
  );

  // Read, wait, write: the first line of a long event, then the line with the number.
  typedef enum logic [1:0] { Idle, Wait, Second, First } state_e;
  state_e state_q, state_d;
  q0_t q0, set0, unused_old0, unused_new0;
  q1_t q1, next1, unused_old1, unused_new1;
  logic read, advance, live;
  logic [1:0] form;
  address_t address, look_address;
  event_t event_;

  assign event_  = posted.event_;
  assign address = address_t'(index_of(posted.events, Queues));
  assign look_address = address_t'(index_of(look_events_i, Queues));
  assign ready_o = q0_ready && q1_ready;
  assign idle_o  = !posted_valid && state_q == Idle;
  // The queue of the last event: its first word is still at the bank's output.
  logic held_q, same_queue;
  reference_t held_events_q;
  q1_t held_word_q, word1;
`ifdef MUTANT_27
  assign same_queue = held_q;
`else
  assign same_queue = held_q && held_events_q == posted.events;
`endif
  assign word1      = same_queue ? held_word_q : q1;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) held_q <= 1'b0;
    else if (set_i || read || look_i) held_q <= 1'b0;
    else if (advance) held_q <= 1'b1;
  end
  always_ff @(posedge clk_i) begin
    if (advance) begin
      held_events_q <= posted.events;
      held_word_q   <= next1;
    end
  end

  function automatic logic is_live(q0_t word, reference_t events);
    return word.live && word.generation == generation_of(events, Queues) && index_of(events, Queues) < index_t'(Queues);
  endfunction
  assign live = is_live(q0, posted.events);

  // The result of a look, and the queue after events are taken.
  logic [31:0] room_left;
  logic [63:0] not_taken;
  q1_t taken1;
  assign live_o    = is_live(q0, look_events_i);
  assign written_o     = advance;
  assign overwritten_o = advance && word1.used == q0.length;
  assign room_left = q0.length - q1.used;
  assign free_o    = !live_o || room_left > 32'd3 ? 2'd3 : room_left[1:0];
  assign not_taken = q1.tail - taken_i;
  assign taken_valid_o = live_o && not_taken <= 64'(q1.used);
  assign taken1    = '{used: not_taken[31:0], place: q1.place, tail: q1.tail};
  assign form = event_.rlength == event_.mlength ? Ordinary : event_.rlength == '0 ? NothingRequested : Long;

  always_comb begin
    state_d = state_q;
    read    = 1'b0;
    advance = 1'b0;
    pop     = 1'b0;
    line_valid_o = 1'b0;
    unique case (state_q)
      Idle:
      if (posted_valid && ready_o) begin
        read    = !same_queue;
        state_d = !same_queue ? Wait : form == Long ? Second : First;
      end
      Wait: state_d = form == Long ? Second : First;
      Second: begin
        line_valid_o = live;
        if (!live || line_ready_i) state_d = First;
      end
      default: begin
        line_valid_o = live;
        if (!live || line_ready_i) begin
          advance = live;
          pop     = 1'b1;
          state_d = Idle;
        end
      end
    endcase
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Idle;
    else state_q <= state_d;
  end

  logic [31:0] kinds;
  always_comb begin
    kinds = {5'd0, event_.portal, form, event_.datatype, event_.operation, event_.fail, event_.overflow, event_.kind};
    line_o.line = {q0.ring + word1.place, state_q == Second};
    if (state_q == Second) begin
      // The words of 64 bits, the last first.
      line_o.data = {
        64'd0, 64'd0, 64'd0,
        {24'd0, 3'd0, event_.datatype, 3'd0, event_.operation, 4'd0, event_.fail, 7'd0, event_.overflow, 4'd0, event_.kind},
        {58'd0, event_.portal},
        {32'd0, event_.remote_offset},
        {32'd0, event_.mlength},
        {32'd0, event_.rlength}
      };
    end else begin
      line_o.data = {
        {event_.uid, kinds},
        {event_.remote_offset, event_.mlength},
        {32'd0, event_.initiator},
        event_.match_bits,
        event_.header_data,
        event_.user_ptr,
        event_.start,
        word1.tail + 64'd1
      };
    end
  end

  // ---- The banks.

  assign set0 = '{spare: '0, live: set_length_i != '0, generation: generation_of(set_events_i, Queues),
                  length: set_length_i, ring: set_ring_i};
`ifdef MUTANT_35
  assign next1 = '{used: word1.used + 1'b1,
`else
  assign next1 = '{used: word1.used == q0.length ? word1.used : word1.used + 1'b1,
`endif
                   place: word1.place + 1'b1 == q0.length ? '0 : word1.place + 1'b1, tail: word1.tail + 64'd1};

  bank #(
      .Words(Queues),
      .Width($bits(q0_t))
  ) u_q0 (
      .clk_i,
      .rst_ni,
      .ready_o        (q0_ready),
      .read_i         (read || look_i),
      .read_address_i (look_i ? look_address : address),
      .read_data_o    (q0),
      .write_i        (set_i),
      .write_address_i(address_t'(index_of(set_events_i, Queues))),
      .write_lanes_i  ('1),
      .write_data_i   (set0),
      .old_o          (unused_old0),
      .new_o          (unused_new0)
  );
  bank #(
      .Words(Queues),
      .Width($bits(q1_t))
  ) u_q1 (
      .clk_i,
      .rst_ni,
      .ready_o        (q1_ready),
      .read_i         (read || look_i),
      .read_address_i (look_i ? look_address : address),
      .read_data_o    (q1),
      .write_i        (set_i || take_i || advance),
      .write_address_i(set_i ? address_t'(index_of(set_events_i, Queues)) : take_i ? look_address : address),
      .write_lanes_i  ('1),
      .write_data_i   (set_i ? '0 : take_i ? taken1 : next1),
      .old_o          (unused_old1),
      .new_o          (unused_new1)
  );

  logic unused;
  assign unused = ^{unused_old0, unused_new0, unused_old1, unused_new1};

endmodule
