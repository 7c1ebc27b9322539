// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Properties of counters (docs/design/rtl-lockstep.md, "Proofs"), for one arbitrary reference, so for all.
//
// 1. Every command is answered once, in order; there are no other answers.
// 2. A counter has the sum of its updates since it was allocated or set, by commands and by operations that fired.
// 3. A live counter is not given again. A command is refused exactly if its counter is not live, as with a stale handle.
// 4. A refused command writes nothing that is read before it is written again, and neither takes nor returns a record.
//
// Bounded: the environment is any history of commands and of ready ports.

module counters_proof
  import pac_pkg::*;
  import records_pkg::*;
  import counters_pkg::*;
#(
    parameter int unsigned Counters = 2,
    parameter int unsigned Ports = 2
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        command_valid_i,
    input command_t    command_i,
    input outside_in_t outside_i,
    input reference_t  reference_i  // the followed reference
);

  logic command_ready, answer_valid;
  answer_t answer;
  trace_t trace;
  outside_out_t outside;
  counters #(
      .Counters (Counters),
      .Triggered(2),
      .Ports    (Ports),
      .Trace    (1'b0)
  ) u_counters (
      .clk_i,
      .rst_ni,
      .command_valid_i,
      .command_ready_o(command_ready),
      .command_i,
      .answer_valid_o (answer_valid),
      .answer_o       (answer),
      .outside_i,
      .outside_o      (outside),
      .trace_o        (trace)
  );

  // Reset is in the first cycle. The reference stays the same.
  logic first_q = 1'b1;
  reference_t reference_q;
  always_ff @(posedge clk_i) begin
    first_q     <= 1'b0;
    reference_q <= reference_i;
  end
  always_comb begin
    assume (rst_ni == !first_q);
    if (!first_q) assume (reference_i == reference_q);
    // Eight generations: alloc and free of a counter take 5 cycles, so a history of 40 has no more.
    assume (reference_i[26:4] == '0);
    assume (command_i.counter[26:4] == '0);
    assume (command_i.object[26:4] == '0);
  end

  // Unanswered commands, the oldest in 0.
  typedef struct packed {
    operation_e  operation;
    reference_t  counter;
    logic [63:0] success, failure;
  } asked_t;
  asked_t [2:0] asked_q, asked_d;
  logic [1:0] count_q, count_d;
  asked_t oldest;
  assign oldest = asked_q[0];

  // State of the counter, if it is live.
  logic live_q, live_d;
  logic [63:0] success_q, success_d, failure_q, failure_d;

  always_comb begin
    asked_d   = asked_q;
    count_d   = count_q;
    live_d    = live_q;
    success_d = success_q;
    failure_d = failure_q;
    if (answer_valid) begin
      asked_d = {asked_t'('0), asked_q[2:1]};
      count_d = count_q - 1'b1;
      if (oldest.operation == Alloc && answer.status == Ok && answer.counter == reference_i) begin
        live_d    = 1'b1;
        success_d = '0;
        failure_d = '0;
      end
      if (answer.status == Ok && oldest.counter == reference_i) begin
        if (oldest.operation == Release) live_d = 1'b0;
        if (oldest.operation == Set) begin
          success_d = oldest.success;
          failure_d = oldest.failure;
        end
        if (oldest.operation == Increment) begin
          success_d = success_q + oldest.success;
          failure_d = failure_q + oldest.failure;
        end
      end
    end
    if (u_counters.local_run && u_counters.t0.object == reference_i && live_q) begin
      if (u_counters.t0.kind == KindCounterSet) begin
        success_d = u_counters.t1.match_bits;
        if (u_counters.t0.variant != KeepsFailures) failure_d = u_counters.t1.header_data;
      end else begin
        success_d = success_q + u_counters.t1.match_bits;
        failure_d = failure_q + u_counters.t1.header_data;
      end
    end
    if (command_valid_i && command_ready) begin
      asked_d[count_d] = '{operation: command_i.operation, counter: command_i.counter,
                           success: command_i.body.t1.match_bits, failure: command_i.body.t1.header_data};
      count_d = count_d + 1'b1;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q <= '0;
      live_q  <= 1'b0;
    end else begin
      count_q <= count_d;
      live_q  <= live_d;
    end
  end
  always_ff @(posedge clk_i) begin
    asked_q   <= asked_d;
    success_q <= success_d;
    failure_q <= failure_d;
  end

  // Contents of the banks for the counter, and words at their outputs, so that each induction step needs only the step before.
  c0_t c0;
  c1_t c1;
  index_t index;
  assign index = index_of(reference_i, Counters);
  if (Ports == 2) begin : gen_two
    assign c0 = u_counters.u_c0.u_ram.gen_two.u_memory.memory[index[0]];
    assign c1 = u_counters.u_c1.u_ram.gen_two.u_memory.memory[index[0]];
  end else begin : gen_one
    assign c0 = u_counters.u_c0.u_ram.gen_one.u_memory.memory[index[0]];
    assign c1 = u_counters.u_c1.u_ram.gen_one.u_memory.memory[index[0]];
  end
  logic at_output;
  assign at_output = (u_counters.stage.valid && u_counters.second_q.operation != CancelOne &&
                      index_of(u_counters.second_q.counter, Counters) == index) ||
                     (u_counters.local_run && index_of(u_counters.t0.object, Counters) == index);
  always_comb begin
    if (!first_q && u_counters.ready) begin
      if (live_q) assert (c0.success == success_q && c0.failure == failure_q);
      assert (live_q == (c1.status == Live && c1.generation == generation_of(reference_i, Counters)));
      if (at_output) assert (u_counters.c0 == c0 && u_counters.c1 == c1);
    end
  end

  logic on_it;
  assign on_it = oldest.operation != Alloc && oldest.operation != CancelOne && oldest.counter == reference_i;
  always_comb begin
    if (!first_q && answer_valid) begin
      assert (count_q != '0);
      if (oldest.operation == Alloc && answer.status == Ok) assert (!(live_q && answer.counter == reference_i));
      if (on_it && oldest.operation == Arm) assert (answer.status == Full || (answer.status == Ok && live_q));
      if (on_it && oldest.operation != Arm) assert (answer.status == (live_q ? Ok : Invalid));
      if (on_it && oldest.operation == Get && live_q) assert (answer.success == success_q && answer.failure == failure_q);
      if (answer.status != Ok) begin
        assert (!u_counters.c0_write && !u_counters.c1_write && !u_counters.taken && !u_counters.request.give);
        assert (!u_counters.u_triggered.write && !u_counters.u_triggered.take && !u_counters.u_triggered.give);
      end
    end
    if (!first_q) assert (count_q <= 2'd2);
  end

endmodule
