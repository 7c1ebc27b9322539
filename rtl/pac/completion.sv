// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The back of the message processor (seed 000, section 3.2.3): takes commands in the order of their tags, as soon as their units have
// answered, and sends their effects: transfers, events, counts, answers to the host.
//
// 1. Effects are in the order of tags, at each port and at each record. So a count is the same as if commands ran alone.
// 2. In the cycle after its answer a command's transfers enter their queues, where dispatch.sv has reserved room. Its first event, its
//    count and its answer leave in that cycle, too; each further event takes a cycle more. Then the command retires.
// 3. A command's word of P is read in the cycle in which the command before it is done, so a command takes at least 2 cycles of this
//    unit. The command before may take a response's record of X, so that record is read at its turn, which takes 3 cycles.
// 4. Commands of counters run here, to keep their place among counts.

module completion
  import pac_pkg::*;
  import engine_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input  logic  work_valid_i,
    input  work_t work_i,
    output logic  work_pop_o,

    input  logic         list_valid_i,
    input  list_answer_t list_i,
    output logic         list_pop_o,
    input  logic         plan_valid_i,
    input  plan_t        plan_i,
    output logic         plan_pop_o,

    input  logic                     descriptor_valid_i,
    input  descriptors_pkg::answer_t descriptor_i,
    output logic                     descriptor_pop_o,

    output logic                   counter_valid_o,
    input  logic                   counter_ready_i,
    output counters_pkg::command_t counter_o,
    input  logic                   counter_answer_valid_i,
    input  counters_pkg::answer_t  counter_answer_i,

    // The portal table entries of commands that are not read yet: of the current command, or of the next.
    input  logic  next_read_valid_i,
    input  read_t next_read_i,
    output logic  next_read_pop_o,

    output logic       portal_read_o,
    output logic [5:0] portal_o,
    input  reference_t portal_events_i,
    input  logic [31:0] portal_epoch_i,
    output logic       portal_set_o,

    input  logic [63:0]         token_i,
    output logic                pending_add_o,
    output logic                pending_get_o,
    output counters_pkg::body_t pending_body_o,
    output logic                pending_read_o,
    output logic [63:0]         pending_token_o,
    input  logic                pending_found_i,
    input  logic                pending_get_i,
    input  counters_pkg::body_t pending_body_i,
    output logic                pending_take_o,

    output logic queue_set_o,
    input  logic queue_idle_i,

    // Flow control: of the current command's portal table entry, and of the queue whose events the program has taken.
    output logic       exhaust_o,
    output logic [5:0] exhaust_portal_o,
    output logic       exhaust_quiet_o,
    output logic       head_o,
    input  logic       head_done_i,
    input  logic       head_valid_i,
    input  logic       control_busy_i,

    output host_t host_o,  // the host's command, for tables

    output logic     event_valid_o,
    input  logic     event_room_i,
    output posted_t  event_o,
    output effects_t effects_o,  // the transfers, in the cycle of `transfers_o`
    output logic     transfers_o,
    output logic     answer_valid_o,
    output answer_t  answer_o,

    output logic retire_valid_o,
    output tag_t retire_tag_o
);

  // ---- Tables' words for the current command, two cycles after it is read.

  logic [1:0] age_q;  // cycles since the read; 0: not read
  logic known, pop, read_ahead;
  header_t header;
  host_t host;
  counters_pkg::body_t fired;
  source_e source;
  logic from_host;
  assign header    = work_i.message;
  assign host      = work_i.message;
  assign host_o    = host;
  assign fired     = work_i.message[$bits(counters_pkg::body_t)-1:0];
  assign source    = source_of(work_i.tag);
  assign from_host = source == FromHost;
  assign known     = work_valid_i && age_q == 2'd2;
`ifdef MUTANT_32
  assign read_ahead = pop && age_q != '0 && next_read_valid_i;
`else
  assign read_ahead = pop && age_q != '0 && next_read_valid_i && !next_read_i.is_response;
`endif
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) age_q <= '0;
    else if (pop) age_q <= {1'b0, read_ahead};
    else if (work_valid_i && age_q != 2'd2) age_q <= age_q + 1'b1;
  end
  assign portal_read_o   = (work_valid_i && age_q == '0) || read_ahead;
  assign portal_o        = next_read_i.portal;
  assign next_read_pop_o = portal_read_o;
  assign pending_read_o  = work_valid_i && age_q == '0 && work_i.path == PathResponse;
  assign pending_token_o = header.token;
  assign work_pop_o      = pop;

  // ---- The identity of this NIC.

  logic [31:0] initiator_q, uid_q;
  logic [63:0] origin_q;
  logic configure;
  always_ff @(posedge clk_i) begin
    if (configure) begin
      initiator_q <= host.source;
      uid_q       <= host.uid;
      origin_q    <= host.start;
    end
  end

  // ---- The range of a descriptor, and the operation on it.

  logic reaches, has_place, is_get, is_put, may_start;
  logic [64:0] end_;
  counters_pkg::body_t body;
`ifdef MUTANT_30
  assign end_    = 65'(host.length[31:0]);
`else
  assign end_    = 65'(host.local_offset) + 65'(host.length[31:0]);
`endif
  assign reaches = descriptor_i.status == records_pkg::Ok && end_ <= 65'(descriptor_i.length);
  assign is_get  = host.opcode == Arm ? host.kind == counters_pkg::KindGet : host.opcode == Get;
  assign is_put  = !is_get;
  always_comb begin
    has_place = 1'b1;
    if (is_put && host.ack == AckFull) has_place = descriptor_i.events != NoReference;
    if (is_put && host.ack == AckCounting) has_place = descriptor_i.counter != NoReference;
    if (is_put && host.ack != AckNone && descriptor_i.options[DescriptorUnreliable]) has_place = 1'b0;
  end
  assign may_start = reaches && has_place;
  always_comb begin
    body = '0;
    body.t2.target        = host.target;
    body.t2.initiator     = initiator_q;
    body.t2.uid           = uid_q;
    body.t2.remote_offset = host.remote_offset;
    body.t2.length        = host.length[31:0];
    body.t2.events        = descriptor_i.events;
    body.t2.counter       = descriptor_i.counter;
    body.t2.options       = descriptor_i.options;
    body.t2.portal        = host.portal;
    body.t2.ack           = is_get ? AckNone : host.ack;
    body.t1.start         = descriptor_i.start + host.local_offset;
    body.t1.user_ptr      = host.user_ptr;
    body.t1.header_data   = host.header_data;
    body.t1.match_bits    = host.match_bits;
    if (host.opcode == Arm && host.kind != counters_pkg::KindPut && host.kind != counters_pkg::KindGet) begin
      body = '0;
      body.t1.match_bits  = host.match_bits;
      body.t1.header_data = host.header_data;
    end
  end

  logic launch_get, waits;
  counters_pkg::body_t launched;
  effects_t start_effects, end_effects, message_effects, command_effects;
  assign launch_get = from_host ? is_get : source == FromFiredGet;
  assign launched   = from_host ? body : fired;
  initiator u_initiator (
      .body_i     (launched),
      .is_get_i   (launch_get),
      .token_i,
      .origin_i   (origin_q),
      .waits_o    (waits),
      .start_o    (start_effects),
      .asked_i    (pending_body_i),
      .asked_get_i(pending_get_i),
      .response_i (header),
      .number_i   (work_i.number),
      .end_o      (end_effects)
  );
  target u_target (
      .work_i,
      .answer_i (list_i),
      .plan_i,
      .events_i (portal_events_i),
      .epoch_i  (portal_epoch_i),
      .message_o(message_effects),
      .command_o(command_effects)
  );
  assign pending_get_o  = launch_get;
  assign pending_body_o = launched;

  // ---- Effects, and the cycles in which they are sent.

  effects_t effects_q, effects_d;
  logic busy_q, fresh_q, load, done;
  logic event_left, unlink_left, free_left, count_left;
  assign event_left  = effects_q.event_valid;
  assign unlink_left = effects_q.unlink_valid;
  assign free_left   = effects_q.free_valid;
  assign count_left  = effects_q.count_valid;

  // ---- Counters: counts of effects, and the host's commands, one at a time.

  logic asked_q, asked_d, host_counts, host_asks, host_answered;
  assign host_counts = work_valid_i && (work_i.path == PathCounter || (work_i.path == PathArm && descriptor_valid_i && may_start));
  assign host_asks   = host_counts && !busy_q && !asked_q;
  assign host_answered = asked_q && counter_answer_valid_i && counter_answer_i.tag == work_i.tag;
  always_comb begin
    counter_o = '0;
    counter_o.tag = work_i.tag;
    counter_valid_o = host_asks;
    counter_o.counter = host.counter;
    counter_o.threshold = host.threshold;
    counter_o.kind = host.kind;
    counter_o.variant = host.variant;
    counter_o.object = work_i.path == PathArm ? '0 : host.object;  // of a put or a get it is the descriptor
    counter_o.armed = host.armed;
    counter_o.armed_generation = host.armed_generation;
    counter_o.body = body;
    unique case (host.opcode)
      CounterAlloc: counter_o.operation = counters_pkg::Alloc;
      CounterFree: counter_o.operation = counters_pkg::Release;
      CounterSet: counter_o.operation = counters_pkg::Set;
      CounterIncrement: counter_o.operation = counters_pkg::Increment;
      CounterGet: counter_o.operation = counters_pkg::Get;
      Arm: counter_o.operation = counters_pkg::Arm;
      Cancel: counter_o.operation = counters_pkg::Cancel;
      default: counter_o.operation = counters_pkg::CancelOne;
    endcase
    if (host.opcode == CounterSet || host.opcode == CounterIncrement) begin
      counter_o.body.t1.match_bits  = host.match_bits;
      counter_o.body.t1.header_data = host.header_data;
    end
    if (busy_q && count_left) begin
      counter_valid_o = 1'b1;
      counter_o = '0;
      counter_o.tag = effects_q.tag;
      counter_o.operation = counters_pkg::Increment;
      counter_o.counter = effects_q.counter;
      counter_o.body.t1.match_bits = 64'(effects_q.successes);
      counter_o.body.t1.header_data = 64'(effects_q.failures);
    end
  end
  assign asked_d = (asked_q || (host_asks && counter_ready_i)) && !host_answered;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) asked_q <= 1'b0;
    else asked_q <= asked_d;
  end

  // ---- A command whose units have answered.

  function automatic status_e status_of(records_pkg::status_e status);
    unique case (status)
      records_pkg::Ok: return Done;
      records_pkg::Invalid: return Invalid;
      records_pkg::Full: return Full;
      default: return TooWide;
    endcase
  endfunction

  assign head_o = work_valid_i && work_i.path == PathTable && host.opcode == QueueHead && !busy_q && queue_idle_i;
  assign exhaust_o        = load && effects_d.exhausts;
  assign exhaust_portal_o = header.portal[5:0];
  assign exhaust_quiet_o  = effects_d.quiet;

  logic free_;  // this cycle may load effects
  assign free_ = !busy_q || done;
  always_comb begin
    effects_d = '0;
    load = 1'b0;
    pop  = 1'b0;
    list_pop_o = 1'b0;
    plan_pop_o = 1'b0;
    descriptor_pop_o = 1'b0;
    pending_add_o  = 1'b0;
    pending_take_o = 1'b0;
    portal_set_o = 1'b0;
    queue_set_o  = 1'b0;
    configure    = 1'b0;
    if (work_valid_i && free_) begin
      unique case (work_i.path)
        PathDeliver, PathControlled:
        if (known && list_valid_i && (list_i.status != lists_pkg::Matched || plan_valid_i)) begin
          effects_d  = message_effects;
          load       = 1'b1;
          list_pop_o = 1'b1;
          plan_pop_o = list_i.status == lists_pkg::Matched;
        end
        PathRefuse:
        if (known) begin
          effects_d = message_effects;
          load      = 1'b1;
        end
        PathResponse:
        if (known) begin
          if (pending_found_i) effects_d = end_effects;
          load = 1'b1;
          pending_take_o = pending_found_i;
        end
        PathFire: begin
          effects_d = start_effects;
          load = 1'b1;
          pending_add_o = waits;
        end
        PathList:
        if (known && list_valid_i) begin
          effects_d  = command_effects;
`ifndef MUTANT_44
          effects_d.answer_valid &= from_host;
`endif
          load       = 1'b1;
          list_pop_o = 1'b1;
        end
        PathDescriptor:
        if (descriptor_valid_i) begin
          load = 1'b1;
          descriptor_pop_o = 1'b1;
          effects_d.answer = '{status: status_of(descriptor_i.status), reference_to_it: descriptor_i.descriptor, default: '0};
        end
        PathIssue:
        if (descriptor_valid_i) begin
          if (may_start) effects_d = start_effects;
          load = 1'b1;
          descriptor_pop_o = 1'b1;
          pending_add_o = may_start && waits;
          effects_d.answer = '{status: may_start ? Done : Invalid, default: '0};
        end
        PathArm:
        if (descriptor_valid_i && (!may_start || host_answered)) begin
          load = 1'b1;
          descriptor_pop_o = 1'b1;
          effects_d.answer = '{status: may_start ? status_of(counter_answer_i.status) : Invalid,
                               armed: counter_answer_i.armed, armed_generation: counter_answer_i.armed_generation, default: '0};
        end
        PathCounter:
        if (host_answered) begin
          load = 1'b1;
          effects_d.answer = '{status: status_of(counter_answer_i.status), reference_to_it: counter_answer_i.counter,
                               armed: counter_answer_i.armed, armed_generation: counter_answer_i.armed_generation,
                               success: counter_answer_i.success, failure: counter_answer_i.failure, default: '0};
        end
        PathTable:
        if (host.opcode == QueueHead) begin
          load             = head_done_i;
          effects_d.answer = '{status: head_valid_i ? Done : Invalid, default: '0};
        end else if (!busy_q && queue_idle_i) begin
          load         = 1'b1;
          configure    = host.opcode == Configure;
          queue_set_o  = host.opcode == QueueSet;
          portal_set_o = host.opcode == PortalSet;
          effects_d.answer = '{status: Done, default: '0};
        end
        PathTooWide: begin
          load = 1'b1;
          effects_d.answer = '{status: status_e'(work_i.fail[2:0]), default: '0};
        end
        default: load = 1'b1;
      endcase
      if (work_i.path != PathList) begin
        effects_d.last = 1'b1;
        effects_d.tag  = work_i.tag;
        effects_d.answer_valid = from_host;
        effects_d.answer.tag   = work_i.tag;
      end
      if (effects_d.events == NoReference) begin
        effects_d.event_valid  = 1'b0;
        effects_d.unlink_valid = 1'b0;
        effects_d.free_valid   = 1'b0;
      end
      pop = load && effects_d.last;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q  <= 1'b0;
      fresh_q <= 1'b0;
    end else begin
      busy_q  <= load || (busy_q && !done);
      fresh_q <= load;
    end
  end

  logic event_gone, count_gone;
  assign event_gone = event_valid_o && event_room_i;
  assign count_gone = count_left && counter_ready_i;
  always_ff @(posedge clk_i) begin
    if (load) effects_q <= effects_d;
    else if (busy_q) begin
      if (event_gone) begin
        if (event_left) effects_q.event_valid <= 1'b0;
        else if (unlink_left) effects_q.unlink_valid <= 1'b0;
        else effects_q.free_valid <= 1'b0;
      end
      if (count_gone) effects_q.count_valid <= 1'b0;
    end
  end

  event_t about;
  always_comb begin
    about = '0;
    about.start    = effects_q.entry_start;
    about.user_ptr = effects_q.event_.user_ptr;
    about.portal   = effects_q.event_.portal;
    about.overflow     = effects_q.event_.overflow;
    about.kind     = unlink_left ? effects_q.unlink_kind : EventAutoFree;
    event_valid_o = busy_q && (event_left || unlink_left || free_left);
    event_o = '{events: effects_q.events, event_: event_left ? effects_q.event_ : about};
    done = busy_q && (!count_left || counter_ready_i) && !(effects_q.exhausts && control_busy_i) &&
        (2'(event_left) + 2'(unlink_left) + 2'(free_left) <= 2'(event_gone));
    transfers_o    = fresh_q;
    effects_o      = effects_q;
    answer_valid_o = fresh_q && effects_q.answer_valid;
    answer_o       = effects_q.answer;
    retire_valid_o = done && effects_q.last;
    retire_tag_o   = effects_q.tag;
  end

  logic unused;
  assign unused = ^{header, host, fired};

endmodule
