// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Triggered operations: armed in order of their thresholds, fired, cancelled (`triggered.rs` in crates/core/nic/src/portals; seed 000,
// sections 2.5 and 3.3.1). Triggered out of range stops elaboration; counters.sv checks the others.
//
// 1. A counter's list is sorted by threshold; equal thresholds keep the order of arming.
// 2. A count that reaches the lowest threshold moves all due operations to the fire queue, in the order of the list. The fire queue is a
//    list in T0, first in, first out. While it is empty, an operation that moves data skips it and leaves at once.
// 3. Operations on counters run in the order of the fire queue. Operations that they make due go behind it.
// 4. While operations fire, no command moves: `run_o` is 0. So a command has the same effects as alone.
// 5. An operation whose port is not ready waits in the port's list and stops nothing else (fire_port.sv).
// 6. In state Run, with an empty pipeline, each record of T is free, in one counter's list, or in one port's list.
// 7. A state uses each bank of T once, so that banks with one port do as well.
//
// Cycles from the cycle 2 of an update that is due (F0): F0 T0, T1, T2 R at the head; F1 words into the registers of the banks; F2 into
// the port's register, T0 W free; F3 it is at the port; T0, T1, T2 R at the next; F5 as F2. So one leaves every 3 cycles. Arm: 4, and 2
// more for each operation passed but the head. Cancel: 2 if nothing waits, else 4, and 3 more for each after the first.

module triggered
  import pac_pkg::*;
  import records_pkg::*;
  import counters_pkg::*;
#(
    parameter int unsigned Counters  = 512,  // 2 to 4,096
    parameter int unsigned Triggered = 128,  // 2 to 4,096
    parameter int unsigned Ports     = 2,    // of the banks: 2 (two read and two write ports), 1 (one port for both)
    parameter bit          Trace     = 1     // 1: the trace shows writes
) (
    input  logic clk_i,
    input  logic rst_ni,
    output logic ready_o,  // the banks are cleared

    // The pipeline of counters.
    input  logic     accept_i,   // accepts the command
    input  command_t command_i,
    output logic     room_o,     // an arm may be accepted: the free list has its next record, or is empty
    input  logic     quiet_i,    // nothing in the pipeline needs the registers after T
    input  logic     empty_i,    // nothing is in the pipeline, and nothing is accepted
    input  logic     behind_i,   // commands wait behind one whose operations fire
    input  reference_t behind_counter_i,  // the counter of the later one
    output logic     run_o,      // the pipeline moves
    output logic     drain_o,    // no command may be accepted: an operation waits to leave
    input  stage_t   stage_i,
    input  c1_t      c1_i,       // the word of C1 beside it
    output request_t request_o,
    output logic     local_o,    // C0 and C1 of an operation's counter are at their outputs: apply the operation
    output t0_t      t0_o,       // the operation
    output t1_t      t1_o,

    input  outside_in_t  outside_i,
    output outside_out_t outside_o,

    input  tag_t         tag_i,   // of the command that has the banks
    output write_t [2:0] trace_o
);

  if (Triggered < 2 || Triggered > 4096) $error("triggered: Triggered is %0d, and may be 2 to 4,096", Triggered);

  localparam int unsigned AddressW = $clog2(Triggered);
  typedef logic [AddressW-1:0] address_t;

  typedef enum logic [4:0] {
    Run,
    MoveWait, Move, MoveDefer, MoveNext,  // due operations of a counter: fired, or appended to the fire queue
    Pop, PopWait, Fire, FireDefer,        // the head of the fire queue
    LocalWait, Local,                     // an operation on a counter
    ResumeFirst, ResumeSecond,            // the words of commands that waited are read again
    ArmWait, ArmWalk, ArmBefore, ArmBehind, ArmFire,
    DropWait, Drop, DropNext,             // all operations of a counter are cancelled
    OneWait, One, OneRead, OneReadWait, OneHead, OneBefore, OneBehind,
    RefillWait, Refill                    // a port takes the head of its list
  } state_e;

  state_e state_q, state_d;
  address_t cur_q, cur_d;          // the record whose words are in the registers after the banks
  address_t new_q;                 // the record for an arm
  generation_t new_generation_q;
  index_t counter_q, counter_d;    // the counter whose operations fire
  logic [63:0] reached_q;          // its count when it reached the threshold
  logic queued_q, queued_d;        // the fire queue has operations
  address_t first_q, first_d, last_q, last_d;  // its ends

  logic read, read_body, write;
  address_t read_address, write_address;
  logic [15:0] write_lanes;
  t0_t write_data, t0;
  t1_t t1;
  t2_t t2;
  logic write_body;
  address_t free_address;
  assign t0_o    = t0;
  assign t1_o    = t1;
  assign run_o   = state_q == Run;
  assign local_o = state_q == Local;

  logic list_valid, list_full, take, give;
  index_t list_index, list_link;
  assign room_o       = list_valid || list_full;
  assign free_address = address_t'(list_index);

  logic is_local, can_load, port_waits, port_load, port_append, port_advance;
  address_t port_tail, port_refill;
  assign is_local = t0.kind == KindCounterSet || t0.kind == KindCounterIncrement;

  fire_ports #(
      .AddressW(AddressW)
  ) u_ports (
      .clk_i,
      .rst_ni,
      .t0_i          (t0),
      .t1_i          (t1),
      .t2_i          (t2),
      .index_i       (cur_q),
      .free_o        (can_load),
      .waiting_o     (port_waits),
      .tail_o        (port_tail),
      .load_i        (port_load),
      .append_i      (port_append),
      .advance_i     (port_advance),
      .refill_o      (drain_o),
      .refill_index_o(port_refill),
      .outside_i,
      .outside_o
  );

  // The comparisons of an arm, from ArmWalk on: the registers after T0 and C1 keep their words meanwhile.
  logic list_empty, goes_behind, at_front;
  assign list_empty = c1_i.head == None;
`ifdef MUTANT_16
  assign goes_behind = !list_empty && t0.threshold < stage_i.threshold;
`else
  assign goes_behind = !list_empty && t0.threshold <= stage_i.threshold;
`endif
  assign at_front = list_empty || (!goes_behind && index_t'(cur_q) == c1_i.head);

  logic is_due;
`ifdef MUTANT_17
  logic second_q;
  always_ff @(posedge clk_i) second_q <= state_q == MoveNext || (second_q && state_q == MoveWait);
  assign is_due = !second_q && t0.threshold <= reached_q;
`else
  assign is_due = t0.threshold <= reached_q;
`endif

  // The operation of CancelOne: its words are in the registers after T0.
  index_t one;
  logic   one_waits;
  assign one       = stage_i.threshold[15:0];
  assign one_waits = one < index_t'(Triggered) && t0.status == Armed && t0.generation == stage_i.threshold[39:16];

  // A read of T, for a command's acceptance, for a count that may be due, or by a state.
  logic accept_reads;
  assign accept_reads = accept_i && (command_i.operation == Arm || command_i.operation == CancelOne);

  // The ends of a walk, of the fire queue, of a command.
  logic moved, popped, finished;

  always_comb begin
    state_d    = state_q;
    cur_d      = cur_q;
    counter_d  = counter_q;
    queued_d   = queued_q;
    first_d    = first_q;
    last_d     = last_q;

    read          = 1'b0;
    read_body     = 1'b0;
    read_address  = cur_q;
    write         = 1'b0;
    write_address = cur_q;
    write_lanes   = LanesSlot;
    write_data    = '{
        threshold: stage_i.threshold,
        next: None,
        prev: None,
        status: Free,
        generation: t0.generation + 24'd1,
        counter: stage_i.counter,
        object: stage_i.action[26:0],
        variant: stage_i.action[28:27],
        kind: stage_i.action[36:29],
        spare: '0
    };
    take         = 1'b0;
    give         = 1'b0;
    port_load    = 1'b0;
    port_append  = 1'b0;
    port_advance = 1'b0;
    moved        = 1'b0;
    popped       = 1'b0;
    finished     = 1'b0;

    request_o = '{
        counter: t0.object,
        c1_lanes: LanesHead | LanesTail | LanesThreshold,
        c1_address: index_of(stage_i.counter, Counters),
        c1: '{threshold_next: '1, head: None, tail: None, status: Live, generation: '0},
        status: Ok,
        armed: index_t'(new_q),
        armed_generation: new_generation_q,
        default: '0
    };

    unique case (state_q)
      Run: begin
        if (stage_i.valid && stage_i.update && c1_i.head != None) begin
          read         = 1'b1;
          read_body    = 1'b1;
          read_address = address_t'(c1_i.head);
        end
        if (accept_reads) begin
          read         = 1'b1;
          read_address = command_i.operation == Arm ? free_address : address_t'(command_i.armed);
        end
        if (stage_i.valid && stage_i.update) begin
          if (stage_i.due) begin
            state_d   = MoveWait;
            cur_d     = address_t'(c1_i.head);
            counter_d = index_of(stage_i.counter, Counters);
          end
        end else if (stage_i.valid) begin
          unique case (stage_i.operation)
            Arm: begin
              if (list_full || !stage_i.live) begin
                request_o.answer = 1'b1;
                request_o.status = Full;
                request_o.leave  = 1'b1;
                request_o.retire = 1'b1;
              end else begin
                read         = !list_empty;
                read_address = address_t'(c1_i.tail);
                cur_d        = address_t'(c1_i.tail);
                counter_d    = index_of(stage_i.counter, Counters);
                state_d      = ArmWait;
              end
            end
            Cancel, Release: begin
              cur_d = address_t'(c1_i.head);
              if (stage_i.live && !list_empty) begin
                read         = 1'b1;
                read_address = address_t'(c1_i.head);
                state_d      = DropWait;
              end else begin
                request_o.answer = 1'b1;
                request_o.status = stage_i.live ? Ok : Invalid;
                request_o.give   = stage_i.live && stage_i.operation == Release;
                request_o.leave  = 1'b1;
                request_o.retire = 1'b1;
              end
            end
            CancelOne: begin
              cur_d = address_t'(one);
              if (one_waits) begin
                request_o.read    = 1'b1;
                request_o.counter = t0.counter;
                state_d           = OneWait;
              end else begin
                request_o.answer = 1'b1;
                request_o.status = Invalid;
                request_o.leave  = 1'b1;
                request_o.retire = 1'b1;
              end
            end
            default: ;
          endcase
        end else if (empty_i && drain_o) begin
          read         = 1'b1;
          read_body    = 1'b1;
          read_address = port_refill;
          cur_d        = port_refill;
          state_d      = RefillWait;
        end
      end

      MoveWait: state_d = Move;
      Move: begin
        if (!is_due) begin
          request_o.c1_write          = 1'b1;
          request_o.c1_lanes          = LanesHead | LanesThreshold;
          request_o.c1_address        = counter_q;
          request_o.c1.head           = index_t'(cur_q);
          request_o.c1.threshold_next = t0.threshold;
          moved                       = 1'b1;
        end else if (queued_q || is_local) begin
          write           = queued_q;
          write_address   = last_q;
          write_lanes     = LanesNext;
          write_data.next = index_t'(cur_q);
          queued_d        = 1'b1;
          last_d          = cur_q;
          if (!queued_q) first_d = cur_q;
          state_d = MoveNext;
        end else if (can_load) begin
          port_load = 1'b1;
          give      = 1'b1;
          state_d   = MoveNext;
        end else begin
          write                 = 1'b1;
          write_data.status     = Firing;
          write_data.generation = t0.generation;
          state_d               = MoveDefer;
        end
      end
      MoveNext: begin
        if (t0.next == None) begin
          request_o.c1_write   = 1'b1;
          request_o.c1_address = counter_q;
          moved                = 1'b1;
        end else begin
          read         = 1'b1;
          read_body    = 1'b1;
          read_address = address_t'(t0.next);
          cur_d        = address_t'(t0.next);
          state_d      = MoveWait;
        end
      end

      Pop: begin
        read         = 1'b1;
        read_body    = 1'b1;
        read_address = first_q;
        cur_d        = first_q;
        state_d      = PopWait;
      end
      PopWait: state_d = Fire;
      Fire: begin
        first_d  = address_t'(t0.next);
        queued_d = cur_q != last_q;
        if (is_local) begin
          give           = 1'b1;
          request_o.read = 1'b1;
          state_d        = LocalWait;
        end else if (can_load) begin
          port_load = 1'b1;
          give      = 1'b1;
          popped    = 1'b1;
        end else begin
          write                 = 1'b1;
          write_data.status     = Firing;
          write_data.generation = t0.generation;
          state_d               = FireDefer;
        end
      end
      // An operation that cannot leave goes to its port's list.
      MoveDefer, FireDefer: begin
        write           = port_waits;
        write_address   = port_tail;
        write_lanes     = LanesNext;
        write_data.next = index_t'(cur_q);
        port_append     = 1'b1;
        if (state_q == FireDefer) popped = 1'b1;
        else state_d = MoveNext;
      end
      LocalWait: state_d = Local;
      Local: begin
        if (stage_i.due) begin
          read         = 1'b1;
          read_body    = 1'b1;
          read_address = address_t'(c1_i.head);
          cur_d        = address_t'(c1_i.head);
          counter_d    = index_of(t0.object, Counters);
          state_d      = MoveWait;
        end else begin
          popped = 1'b1;
        end
      end
      ResumeFirst: begin
        request_o.read    = 1'b1;
        request_o.counter = stage_i.counter;
        state_d           = ResumeSecond;
      end
      ResumeSecond: begin
        request_o.read    = 1'b1;
        request_o.counter = behind_counter_i;
        state_d           = Run;
      end

      ArmWait: state_d = ArmWalk;
      ArmWalk: begin
        write_address            = new_q;
        write_lanes              = '1;
        write_data.status        = Armed;
        write_data.generation    = new_generation_q;
        write_data.next          = list_empty ? None : goes_behind ? t0.next : index_t'(cur_q);
        write_data.prev          = at_front ? None : index_t'(cur_q);
        request_o.c1.head           = index_t'(new_q);
        request_o.c1.tail           = index_t'(new_q);
        request_o.c1.threshold_next = stage_i.threshold;
        request_o.c1_lanes = (at_front ? LanesHead | LanesThreshold : '0) |
                             (list_empty || (goes_behind && t0.next == None) ? LanesTail : '0);
        if (goes_behind || at_front) begin
          write              = 1'b1;
          take               = 1'b1;
          request_o.c1_write = 1'b1;
          request_o.answer   = 1'b1;
          state_d            = ArmBefore;
        end else begin
          read         = 1'b1;
          read_address = address_t'(t0.prev);
          cur_d        = address_t'(t0.prev);
          state_d      = ArmWait;
        end
      end
      ArmBefore: begin
        write           = !at_front;
        write_lanes     = LanesNext;
        write_data.next = index_t'(new_q);
        state_d         = ArmBehind;
      end
      ArmBehind: begin
        write           = at_front ? !list_empty : t0.next != None;
        write_address   = at_front ? cur_q : address_t'(t0.next);
        write_lanes     = LanesPrev;
        write_data.prev = index_t'(new_q);
        request_o.leave = 1'b1;
        if (stage_i.threshold <= reached_q) begin
          cur_d   = new_q;
          state_d = ArmFire;
        end else begin
          finished = 1'b1;
        end
      end
      ArmFire: begin
        read      = 1'b1;
        read_body = 1'b1;
        state_d   = MoveWait;
      end

      DropWait: state_d = Drop;
      Drop: begin
        give    = 1'b1;
        state_d = DropNext;
        if (t0.next == None) begin
          request_o.answer   = 1'b1;
          request_o.c1_write = stage_i.operation == Cancel;
          request_o.give     = stage_i.operation == Release;
          request_o.leave    = 1'b1;
          finished           = 1'b1;
        end
      end
      DropNext: begin
        read         = 1'b1;
        read_address = address_t'(t0.next);
        cur_d        = address_t'(t0.next);
        state_d      = DropWait;
      end
      OneWait: state_d = One;
      One: begin
        give                 = 1'b1;
        request_o.answer     = 1'b1;
        request_o.c1_address = index_of(t0.counter, Counters);
        counter_d            = index_of(t0.counter, Counters);
        if (index_t'(cur_q) != c1_i.head) begin
          state_d = OneBefore;
        end else if (t0.next != None) begin
          state_d = OneRead;
        end else begin
          request_o.c1_write = 1'b1;
          request_o.leave    = 1'b1;
          finished           = 1'b1;
        end
      end
      OneRead: begin
        read         = 1'b1;
        read_address = address_t'(t0.next);
        cur_d        = address_t'(t0.next);
        state_d      = OneReadWait;
      end
      OneReadWait: state_d = OneHead;
      OneHead: begin
        request_o.c1_write          = 1'b1;
        request_o.c1_lanes          = LanesHead | LanesThreshold;
        request_o.c1_address        = counter_q;
        request_o.c1.head           = index_t'(cur_q);
        request_o.c1.threshold_next = t0.threshold;
        request_o.leave             = 1'b1;
        finished                    = 1'b1;
      end
      OneBefore: begin
        write           = 1'b1;
        write_address   = address_t'(t0.prev);
        write_lanes     = LanesNext;
        write_data.next = t0.next;
        state_d         = OneBehind;
      end
      OneBehind: begin
        write                = t0.next != None;
        write_address        = address_t'(t0.next);
        write_lanes          = LanesPrev;
        write_data.prev      = t0.prev;
        request_o.c1_write   = t0.next == None;
        request_o.c1_lanes   = LanesTail;
        request_o.c1_address = counter_q;
        request_o.c1.tail    = t0.prev;
        request_o.leave      = 1'b1;
        finished             = 1'b1;
      end

      RefillWait: state_d = Refill;
      Refill: begin
        port_load    = 1'b1;
        port_advance = 1'b1;
        give         = 1'b1;
        state_d      = Run;
      end
      default: state_d = Run;
    endcase

    if (give) begin
      write           = 1'b1;
      write_lanes     = LanesSlot | LanesNext;
      write_data.next = list_link;
    end
    if (moved || popped) begin
      if (queued_d) state_d = Pop;
      else finished = 1'b1;
    end
    if (finished) begin
      request_o.retire = 1'b1;
      state_d          = behind_i ? ResumeFirst : Run;
    end

  end

  assign write_body = accept_i && command_i.operation == Arm && list_valid;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q  <= Run;
      queued_q <= 1'b0;
    end else begin
      state_q  <= state_d;
      queued_q <= queued_d;
    end
  end
  always_ff @(posedge clk_i) begin
    cur_q     <= cur_d;
    counter_q <= counter_d;
    first_q   <= first_d;
    last_q    <= last_d;
    if ((state_q == Run && stage_i.valid) || state_q == Local) reached_q <= stage_i.reached;
    if (state_q == Run && stage_i.valid) begin
      new_q            <= free_address;
      new_generation_q <= t0.generation;
    end
  end

  triggered_records #(
      .Triggered(Triggered),
      .Ports    (Ports),
      .Trace    (Trace)
  ) u_records (
      .clk_i,
      .rst_ni,
      .ready_o,
      .read_i              (read),
      .read_body_i         (read_body),
      .read_address_i      (read_address),
      .idle_i              (state_q == Run && quiet_i),
      .t0_o                (t0),
      .t1_o                (t1),
      .t2_o                (t2),
      .write_i             (write),
      .write_address_i     (write_address),
      .write_lanes_i       (write_lanes),
      .write_data_i        (write_data),
      .write_body_i        (write_body),
      .write_body_address_i(free_address),
      .write_body_data_i   (command_i.body),
      .valid_o             (list_valid),
      .full_o              (list_full),
      .index_o             (list_index),
      .take_i              (take),
      .give_i              (give),
      .give_index_i        (index_t'(cur_q)),
      .link_o              (list_link),
      .tag_i,
      .body_tag_i          (command_i.tag),
      .trace_o
  );

  logic unused;
  assign unused = ^{command_i, list_index, c1_i, t0};

endmodule
