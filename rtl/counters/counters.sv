// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Counters, and with triggered.sv the triggered operations that wait for them: `increment`, `set`, `alloc` and `free` of `Counters` in
// crates/core/nic/src/portals (seed 000, sections 2.5 and 3.3.1). This is the top of the unit. Parameters out of range stop elaboration.
//
// 1. An update takes 2 cycles, and one is accepted each cycle: the bypass of C0 covers two writes. With one port, two are accepted in
//    four cycles.
// 2. Set, Increment and Get follow each other in the pipeline. Any other command has it alone.
// 3. An update with due operations holds the commands after it until they have fired (triggered.sv). Their words are then read again.
// 4. A counter is allocated in 1 cycle by free list, in n + 2 by scan, where n is its index.
//
// Cycles: 0 C0, C1 R. 1 words into the registers of the banks. 2 (F0) sum, C0 W, answer; comparison, T R.

module counters
  import pac_pkg::*;
  import records_pkg::*;
  import counters_pkg::*;
#(
    parameter int unsigned Counters  = 512,  // 2 to 4,096
    parameter int unsigned Triggered = 128,  // 2 to 4,096
    parameter bit          Scan      = 1'b0,    // 1: a scan finds free counters
    parameter int unsigned Ports     = 2,    // of the banks: 2 (two read and two write ports), 1 (one port for both)
    parameter bit          Trace     = 1     // 1: `trace_o` shows writes
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic     command_valid_i,
    output logic     command_ready_o,
    input  command_t command_i,

    output logic    answer_valid_o,
    output answer_t answer_o,

    input  outside_in_t  outside_i,
    output outside_out_t outside_o,

    output trace_t trace_o
);

  if (Counters < 2 || Counters > 4096) $error("counters: Counters is %0d, and may be 2 to 4,096", Counters);
  if (Ports != 1 && Ports != 2) $error("counters: Ports is %0d, and may be 1 or 2", Ports);

  localparam int unsigned AddressW = $clog2(Counters);
  typedef logic [AddressW-1:0] address_t;

  typedef struct packed {
    tag_t        tag;
    operation_e  operation;
    reference_t  counter;
    logic [63:0] a;  // successes; threshold; generation and index of an armed operation
    logic [63:0] b;  // failures; kind, variant and object of an operation
  } held_t;

  held_t first_q, second_q;  // accepted one and two cycles ago
  logic first_valid_q, first_valid_d, second_valid_q, second_valid_d;

  function automatic logic is_plain(operation_e operation);
    return operation == Set || operation == Increment || operation == Get;
  endfunction

  logic first_plain, second_plain;
  assign first_plain  = first_valid_q && is_plain(first_q.operation);
  assign second_plain = second_valid_q && is_plain(second_q.operation);

  logic c0_ready, c1_ready, t_ready, ready;
  logic run, drain, room, plain, accept;
  logic slot_valid, slot_full, second_writes;
  assign ready = c0_ready && c1_ready && t_ready;
  assign plain = is_plain(command_i.operation);
  assign second_writes = second_plain && second_q.operation != Get;
  always_comb begin
    command_ready_o = ready && run && !drain;
    if (plain) begin
      if ((first_valid_q && !first_plain) || (second_valid_q && !second_plain)) command_ready_o = 1'b0;
      if (Ports == 1 && second_writes) command_ready_o = 1'b0;
    end else begin
      if (first_valid_q || second_valid_q) command_ready_o = 1'b0;
      if (command_i.operation == Alloc && !Scan && !slot_valid && !slot_full) command_ready_o = 1'b0;
      if (command_i.operation == Arm && !room) command_ready_o = 1'b0;
    end
  end
  assign accept = command_valid_i && command_ready_o;

  // The words at the outputs, and the source of a change: the second command, or an operation that fires.
  request_t request;
  stage_t stage;
  c0_t c0, c0_new;
  c1_t c1;
  t0_t t0;
  t1_t t1;
  reference_t counter;
  logic local_run, update, set, keep, live, change;
  logic [63:0] success_add, failure_add;
  assign counter = local_run ? t0.object : second_q.counter;
  assign live    = index_of(counter, Counters) < index_t'(Counters) && c1.status == Live &&
                   c1.generation == generation_of(counter, Counters);
  assign update  = local_run || second_q.operation == Set || second_q.operation == Increment;
  assign set     = local_run ? t0.kind == KindCounterSet : second_q.operation == Set;
  assign keep    = local_run && set && t0.variant == KeepsFailures;
  assign success_add = local_run ? t1.match_bits : second_q.a;
  assign failure_add = local_run ? t1.header_data : second_q.b;
  always_comb begin
    c0_new.success = (set ? 64'd0 : c0.success) + (update ? success_add : 64'd0);
    c0_new.failure = (set && !keep ? 64'd0 : c0.failure) + (update && !keep ? failure_add : 64'd0);
  end
  assign change = live && update && (local_run || (run && second_valid_q));

  assign stage = '{
      valid: run && second_valid_q,
      update: second_plain && second_q.operation != Get,
      operation: second_q.operation,
      counter: second_q.counter,
      threshold: second_q.a,
      action: second_q.b,
      live: live,
      reached: c0_new.success + c0_new.failure,
      due: change && c1.head != None && c0_new.success + c0_new.failure >= c1.threshold_next
  };

  // An allocation, in the cycle after its acceptance; a scan holds it there.
  logic allocating, allocated, taken;
  index_t slot_index, slot_link;
  generation_t slot_generation;
  assign allocating = first_valid_q && first_q.operation == Alloc;
  assign allocated  = allocating && (slot_valid || slot_full);
  assign taken      = allocating && slot_valid;

  // Frees the counter of the second command.
  generation_t freed_generation;
  assign freed_generation = next_generation(c1.generation, Counters);

  // The pipeline moves, or keeps its contents.
  always_comb begin
    first_valid_d  = first_valid_q;
    second_valid_d = second_valid_q && !request.leave;
    if (run) begin
      first_valid_d = accept || (allocating && !allocated);
      if (!second_valid_q || second_plain) second_valid_d = first_valid_q && !allocating;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_valid_q  <= 1'b0;
      second_valid_q <= 1'b0;
    end else begin
      first_valid_q  <= first_valid_d;
      second_valid_q <= second_valid_d;
    end
  end
  always_ff @(posedge clk_i) begin
    if (accept) begin
      first_q.tag       <= command_i.tag;
      first_q.operation <= command_i.operation;
      first_q.counter   <= command_i.counter;
      first_q.a <= command_i.operation == Arm ? command_i.threshold :
                   command_i.operation == CancelOne ? 64'({command_i.armed_generation, command_i.armed}) :
                   command_i.body.t1.match_bits;
      first_q.b <= command_i.operation == Arm ? 64'({command_i.kind, command_i.variant, command_i.object}) :
                   command_i.body.t1.header_data;
    end
    if (run && first_valid_q && !allocating) second_q <= first_q;
  end

  // Reads of C0 and C1, by a state of triggered.sv, a command, the free list or the scan.
  logic read, c1_read, slot_read, slot_grant, quiet;
  address_t read_address, c1_read_address;
  index_t slot_address;
  assign quiet = !accept && (!first_valid_q || first_plain || allocating) && (!second_valid_q || second_plain);
  assign read  = request.read || accept;
  assign read_address    = address_t'(index_of(request.read ? request.counter : command_i.counter, Counters));
  assign slot_grant      = ready && run && (quiet || (Scan && accept && command_i.operation == Alloc)) && !request.read;
  assign c1_read         = read || (slot_read && slot_grant);
  assign c1_read_address = slot_read && slot_grant ? address_t'(slot_address) : read_address;

  slots #(
      .Records(Counters),
      .Scan   (Scan)
  ) u_slots (
      .clk_i,
      .rst_ni,
      .request_i        (accept && command_i.operation == Alloc),
      .valid_o          (slot_valid),
      .full_o           (slot_full),
      .index_o          (slot_index),
      .generation_o     (slot_generation),
      .take_i           (taken),
      .give_i           (request.give),
      .give_index_i     (index_of(second_q.counter, Counters)),
      .give_generation_i(freed_generation),
      .link_o           (slot_link),
      .read_o           (slot_read),
      .read_address_o   (slot_address),
      .read_grant_i     (slot_grant),
      .status_i         (c1.status),
      .generation_i     (c1.generation),
      .link_i           (c1.head)
  );

  logic c0_write, c1_write;
  address_t c0_address, c1_address;
  logic [7:0] c1_lanes;
  c0_t c0_data;
  c1_t c1_data;
  always_comb begin
    c0_write   = change || taken;
    c0_address = taken ? address_t'(slot_index) : address_t'(index_of(counter, Counters));
    c0_data    = taken ? '0 : c0_new;
    c1_write   = taken || request.give || request.c1_write;
    c1_address = address_t'(request.c1_address);
    c1_lanes   = request.c1_lanes;
    c1_data    = request.c1;
    if (taken) begin
      c1_address         = address_t'(slot_index);
      c1_lanes           = '1;
      c1_data.generation = slot_generation;
    end else if (request.give) begin
      c1_address         = address_t'(index_of(second_q.counter, Counters));
      c1_lanes           = '1;
      c1_data.status     = Free;
      c1_data.generation = freed_generation;
      c1_data.head       = slot_link;
    end
  end

  always_comb begin
    answer_valid_o = (stage.valid && second_plain) || allocated || request.answer;
    answer_o = '{
        tag: allocated ? first_q.tag : second_q.tag,
        status: allocated ? (slot_valid ? Ok : Full) : second_plain ? (live ? Ok : Invalid) : request.status,
        counter: reference_to(slot_index, slot_generation, Counters),
        armed: request.armed,
        armed_generation: request.armed_generation,
        success: c0.success,
        failure: c0.failure
    };
  end

  logic [127:0] c0_old, c0_whole, c1_old, c1_whole;
  bank #(
      .Words (Counters),
      .Width ($bits(c0_t)),
      .Ports (Ports),
      .Trace (Trace),
      .Bypass(8'hff)
  ) u_c0 (
      .clk_i,
      .rst_ni,
      .ready_o        (c0_ready),
      .read_i         (read),
      .read_address_i (read_address),
      .read_data_o    (c0),
      .write_i        (c0_write),
      .write_address_i(c0_address),
      .write_lanes_i  ('1),
      .write_data_i   (c0_data),
      .old_o          (c0_old),
      .new_o          (c0_whole)
  );
  bank #(
      .Words(Counters),
      .Width($bits(c1_t)),
      .Ports(Ports),
      .Trace(Trace)
  ) u_c1 (
      .clk_i,
      .rst_ni,
      .ready_o        (c1_ready),
      .read_i         (c1_read),
      .read_address_i (c1_read_address),
      .read_data_o    (c1),
      .write_i        (c1_write),
      .write_address_i(c1_address),
      .write_lanes_i  (c1_lanes),
      .write_data_i   (c1_data),
      .old_o          (c1_old),
      .new_o          (c1_whole)
  );

  outside_out_t outside;
  tag_t firing_tag;
  write_t [2:0] t_trace;
  triggered #(
      .Counters (Counters),
      .Triggered(Triggered),
      .Ports    (Ports),
      .Trace    (Trace)
  ) u_triggered (
      .clk_i,
      .rst_ni,
      .ready_o         (t_ready),
      .accept_i        (accept),
      .command_i,
      .room_o          (room),
      .quiet_i         (quiet),
      .empty_i         (!accept && !first_valid_q && !second_valid_q),
      .behind_i        (first_plain || second_plain),
      .behind_counter_i(first_q.counter),
      .run_o           (run),
      .drain_o         (drain),
      .stage_i         (stage),
      .c1_i            (c1),
      .request_o       (request),
      .local_o         (local_run),
      .t0_o            (t0),
      .t1_o            (t1),
      .outside_i,
      .outside_o       (outside),
      .tag_i           (firing_tag),
      .trace_o         (t_trace)
  );

  if (Trace) begin : gen_trace
    // The command whose operations fire has left the pipeline.
    tag_t left_tag_q;
    logic left_q;
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        left_tag_q <= '0;
        left_q     <= 1'b0;
      end else if ((stage.valid && stage.due) || (request.leave && !request.retire)) begin
        left_tag_q <= second_q.tag;
        left_q     <= 1'b1;
      end else if (request.retire) begin
        left_q <= 1'b0;
      end
    end
    assign firing_tag = left_q ? left_tag_q : second_q.tag;

    always_comb begin
      trace_o = '0;
      trace_o.retire_valid = (stage.valid && second_plain && !stage.due) || allocated || request.retire;
      trace_o.retire_tag   = allocated ? first_q.tag : firing_tag;
      if (!trace_o.retire_valid) trace_o.retire_tag = '0;
      trace_o.write[4:2] = t_trace;
      if (c0_write) begin
        trace_o.write[0] = '{valid: 1'b1, bank: 4'd0, address: index_t'(c0_address),
                             tag: taken ? first_q.tag : firing_tag, old_known: 1'b1,
                             old_word: 256'(c0_old), new_word: 256'(c0_whole)};
      end
      if (c1_write) begin
        trace_o.write[1] = '{valid: 1'b1, bank: 4'd1, address: index_t'(c1_address),
                             tag: taken ? first_q.tag : firing_tag, old_known: 1'b1,
                             old_word: 256'(c1_old), new_word: 256'(c1_whole)};
      end
      // A port without output shows 0.
      outside_o = outside;
      if (!outside.get_valid) outside_o.get = '0;
      if (!outside.put_valid) outside_o.put = '0;
      if (!outside.other_valid) outside_o.other = '0;
    end
  end else begin : gen_no_trace
    assign firing_tag = '0;
    assign trace_o    = '0;
    assign outside_o  = outside;
  end

  logic unused;
  assign unused = ^{request, t_trace, t0, t1, slot_address, c0_old, c0_whole, c1_old, c1_whole};

endmodule
