// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Flow control of portal table entries: `disable_portal` and `post_waiting_disabled` of crates/core/nic/src/portals/event_queue.rs
// (Portals 4.3, section 2.5). One task at a time, while no other command is in progress. Portals out of range stops elaboration.
//
//   Ask      a message waits to start: reads the room in its entry's event queue
//   Exhaust  the message found no entry, no header or no room: disables its entry, and PT_DISABLED becomes due
//   Head     the program has taken events from a queue: posts due events, as far as there is room
//
// 1. A due event waits until its queue has room. It never overwrites another one.
// 2. Events of several entries that wait for one queue are posted in the order of the entries.
// 3. Freeing an entry drops its due event.
//
// Cycles: Ask 5, Exhaust 3 and 7 for the event, Head 3 and 7 for each event. Registers: a bit an entry, and the task.

module flow_control
  import pac_pkg::*;
  import engine_pkg::*;
#(
    parameter int unsigned Portals = 64  // 2 to 64
) (
    input logic clk_i,
    input logic rst_ni,

    // Ask, while it is 1. `asked_o`: `room_o` is known (3: three or more), and the portal table shows the entry.
    input  logic       ask_i,
    input  logic [5:0] ask_portal_i,
    output logic       asked_o,
    output logic [1:0] room_o,

    // Exhaust, in one cycle.
    input logic       exhaust_i,
    input logic [5:0] exhaust_portal_i,
    input logic       quiet_i,  // without an event

    // Head, while it is 1, to the cycle of `head_done_o`.
    input  logic        head_i,
    input  reference_t  head_events_i,
    output logic        head_done_o,
    output logic        head_valid_o,  // the queue exists, and has had this number of events
    output logic        busy_o,

    input  logic       set_i,  // the host sets an entry
    input  logic [5:0] set_portal_i,
    input  logic       set_keeps_i,  // an existing entry that stays
    output logic       portal_read_o,
    output logic [5:0] portal_o,
    input  reference_t portal_events_i,
    output logic       disable_o,  // of the shown entry

    output logic        look_o,
    output reference_t  events_o,
    input  logic        queue_idle_i,
    input  logic        live_i,      // two cycles after the look
    input  logic [1:0]  room_i,
    input  logic        taken_valid_i,
    output logic        take_o,
    output logic        post_o,
    output posted_t     posted_o
);

  if (Portals < 2 || Portals > 64) $error("flow_control: Portals is %0d, and may be 2 to 64", Portals);
  localparam int unsigned PortalW = $clog2(Portals);

  typedef enum logic [1:0] { Ask, Exhaust, Head } task_e;
  typedef enum logic [3:0] { Idle, PortalWait, Portal, QueueWait, Queue, Post, Posted, Scan, Asked, End } state_e;
  task_e task_q, task_d;
  state_e state_q, state_d;
  logic scans_q, scans_d, quiet_q, valid_q, valid_d;
  logic [1:0] room_q;
  logic [5:0] portal_q, portal_d;
  reference_t events_q, events_d;
  logic [Portals-1:0] due_q, due_d;

  logic any;
  logic [5:0] next;
  always_comb begin
    any  = 1'b0;
    next = '0;
    for (int number = int'(Portals) - 1; number >= 0; number--) begin
      if (due_q[number] && number >= int'(portal_q)) begin
        any  = 1'b1;
        next = 6'(number);
      end
    end
  end

  always_comb begin
    state_d  = state_q;
    task_d   = task_q;
    scans_d  = scans_q;
    valid_d  = valid_q;
    portal_d = portal_q;
    events_d = events_q;
    due_d    = due_q;
    portal_read_o = 1'b0;
    portal_o  = portal_q;
    disable_o = 1'b0;
    look_o    = 1'b0;
    take_o    = 1'b0;
    post_o    = 1'b0;
    unique case (state_q)
      Idle: begin
        scans_d = 1'b0;
        if (exhaust_i) begin
          task_d   = Exhaust;
          portal_d = exhaust_portal_i;
          portal_o = exhaust_portal_i;
          portal_read_o = 1'b1;
          state_d  = PortalWait;
        end else if (head_i) begin
          task_d   = Head;
          portal_d = '0;
          events_d = head_events_i;
          look_o   = 1'b1;
          state_d  = QueueWait;
        end else if (ask_i) begin
          task_d   = Ask;
          portal_d = ask_portal_i;
          portal_o = ask_portal_i;
          portal_read_o = 1'b1;
          state_d  = PortalWait;
        end
      end

      PortalWait: state_d = Portal;

      Portal: begin
        if (task_q == Exhaust && !scans_q) begin
          disable_o = 1'b1;
          events_d  = portal_events_i;
          scans_d   = 1'b1;
          state_d   = End;
          if (!quiet_q && !due_q[PortalW'(portal_q)]) begin
            due_d[PortalW'(portal_q)] = 1'b1;
            portal_d = '0;
            state_d  = Scan;
          end
        end else if (task_q == Ask) begin
          // Events of earlier commands may still be in progress.
          if (queue_idle_i) begin
            events_d = portal_events_i;
            look_o   = 1'b1;
            state_d  = QueueWait;
          end
        end else if (portal_events_i != events_q) begin
          state_d  = Scan;
          portal_d = portal_q + 1'b1;
          if (portal_q == 6'(Portals - 1)) state_d = End;
        end else begin
          look_o  = 1'b1;
          state_d = QueueWait;
        end
      end

      QueueWait: state_d = Queue;

      Queue: begin
        if (task_q == Ask) begin
          state_d = Asked;
        end else if (task_q == Head && !scans_q) begin
          take_o  = taken_valid_i;
          valid_d = taken_valid_i;
          scans_d = 1'b1;
          state_d = taken_valid_i ? Scan : End;
        end else begin
`ifdef MUTANT_34
          state_d = live_i ? Post : End;
`else
          state_d = live_i && room_i != '0 ? Post : End;
`endif
        end
      end

      Post: begin
        post_o = 1'b1;
        due_d[PortalW'(portal_q)] = 1'b0;
        state_d = Posted;
      end

      // The event counts in the queue when it is written.
      Posted: if (queue_idle_i) state_d = Scan;

      Scan: begin
        portal_d = next;
        portal_o = next;
        portal_read_o = any;
        state_d  = any ? PortalWait : End;
      end

      Asked: if (!ask_i) state_d = Idle;

      default: state_d = Idle;
    endcase
    if (set_i && !set_keeps_i) due_d[PortalW'(set_portal_i)] = 1'b0;

    events_o     = look_o ? events_d : events_q;
    asked_o      = state_q == Asked;
    room_o       = room_q;
    head_done_o  = state_q == End && task_q == Head;
    head_valid_o = valid_q;
    busy_o       = state_q != Idle;
    posted_o     = '{events: events_q, event_: about_entry(portal_q, '0, '0, EventPortalDisabled, 1'b0)};
    posted_o.event_.fail = FailPortalDisabled[3:0];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      due_q   <= '0;
    end else begin
      state_q <= state_d;
      due_q   <= due_d;
    end
  end
  always_ff @(posedge clk_i) begin
    task_q   <= task_d;
    scans_q  <= scans_d;
    valid_q  <= valid_d;
    portal_q <= portal_d;
    events_q <= events_d;
    if (exhaust_i) quiet_q <= quiet_i;
    if (state_q == Queue) room_q <= room_i;
  end

endmodule
