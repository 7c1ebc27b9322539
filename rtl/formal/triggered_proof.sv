// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Properties of triggered operations (docs/design/rtl-lockstep.md, "Proofs"), for two arbitrary operations, so for all. The user pointer
// identifies an operation: here it is the number of its arm.
//
// 1. An operation leaves at most once, not before it was armed, and only by the port of its kind.
// 2. A cancelled operation does not leave.
// 3. Of two operations of one counter that wait at the same time, the one with the lower threshold leaves first; of equal thresholds the
//    one that was armed first. (With ready ports and operations that move data by one port: a port that is not ready delays its own
//    operation, not earlier ones.)
// 4. An operation leaves once its counter has reached its threshold, and not before (without a set, so that counts only grow).
//
// Bounded: the environment is any history of commands; for 3 and 4 without cancels, frees and sets.

module triggered_proof
  import pac_pkg::*;
  import records_pkg::*;
  import counters_pkg::*;
#(
    parameter bit Ordered = 1'b0  // 1: 3 and 4, under their conditions; 0: 1 and 2
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        command_valid_i,
    input command_t    command_i,
    input outside_in_t outside_i,
    input logic [1:0][2:0] number_i  // the followed operations
);

  logic command_ready, answer_valid;
  answer_t answer;
  trace_t trace;
  outside_out_t outside;
  counters #(
      .Counters (2),
      .Triggered(3),
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

  logic accept;
  logic [2:0] arms_q;  // arms so far
  operation_e operation_q;  // of the last command: all but updates and reads run alone
  logic [2:0] arm_q;  // its number, if it is an arm
  index_t one_q;
  generation_t one_generation_q;
  assign accept = command_valid_i && command_ready;

  // Reset is in the first cycle. The followed operations stay the same.
  logic first_q = 1'b1;
  logic [1:0][2:0] number_q;
  always_ff @(posedge clk_i) begin
    first_q  <= 1'b0;
    number_q <= number_i;
  end
  always_comb begin
    assume (rst_ni == !first_q);
    if (!first_q) assume (number_i == number_q);
    assume (number_i[0] != number_i[1]);
    assume (arms_q != '1);
    assume (command_i.counter[26:4] == '0);
    assume (command_i.armed_generation[23:3] == '0);
    if (command_i.operation == Arm) begin
      assume (command_i.body.t1.user_ptr == 64'(arms_q));
      assume (command_i.kind != KindCounterSet && command_i.kind != KindCounterIncrement);
    end
    if (Ordered) begin
      assume (outside_i == '1);
      assume (command_i.operation == Alloc || command_i.operation == Increment || command_i.operation == Arm);
      if (command_i.operation == Arm) assume (command_i.kind == KindGet);
      if (command_i.operation == Increment) begin
        assume (command_i.body.t1.match_bits < 64'd4 && command_i.body.t1.header_data == '0);
      end
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) arms_q <= '0;
    else if (accept && command_i.operation == Arm) arms_q <= arms_q + 1'b1;
  end
  always_ff @(posedge clk_i) begin
    if (accept) begin
      operation_q      <= command_i.operation;
      arm_q            <= arms_q;
      one_q            <= command_i.armed;
      one_generation_q <= command_i.armed_generation;
    end
  end

  // A followed operation: its arm, and its state.
  typedef struct packed {
    logic        asked, armed, cancelled, left;
    logic [7:0]  kind;
    reference_t  counter;
    logic [63:0] threshold;
    index_t      index;
    generation_t generation;
  } followed_t;
  followed_t [1:0] seen_q, seen_d;
  logic [1:0] leaves, leaves_elsewhere;
  always_comb begin
    for (int which = 0; which < 2; which++) begin
      seen_d[which] = seen_q[which];
      leaves[which] = 1'b0;
      leaves_elsewhere[which] = 1'b0;
      if (outside.get_valid && outside_i.get_ready && outside.get.t1.user_ptr == 64'(number_i[which])) begin
        if (seen_q[which].kind == KindGet) leaves[which] = 1'b1;
        else leaves_elsewhere[which] = 1'b1;
      end
      if (outside.put_valid && outside_i.put_ready && outside.put.t1.user_ptr == 64'(number_i[which])) begin
        if (seen_q[which].kind == KindPut) leaves[which] = 1'b1;
        else leaves_elsewhere[which] = 1'b1;
      end
      if (outside.other_valid && outside_i.other_ready && outside.other.body.t1.user_ptr == 64'(number_i[which])) begin
        if (seen_q[which].kind != KindGet && seen_q[which].kind != KindPut) leaves[which] = 1'b1;
        else leaves_elsewhere[which] = 1'b1;
      end
      if (accept && command_i.operation == Arm && arms_q == number_i[which]) begin
        seen_d[which].asked     = 1'b1;
        seen_d[which].kind      = command_i.kind;
        seen_d[which].counter   = command_i.counter;
        seen_d[which].threshold = command_i.threshold;
      end
      if (answer_valid && operation_q == Arm && answer.status == Ok && arm_q == number_i[which]) begin
        seen_d[which].armed      = 1'b1;
        seen_d[which].index      = answer.armed;
        seen_d[which].generation = answer.armed_generation;
      end
      if (answer_valid && operation_q == CancelOne && answer.status == Ok && seen_q[which].armed && !seen_q[which].left &&
          one_q == seen_q[which].index && one_generation_q == seen_q[which].generation) begin
        seen_d[which].cancelled = 1'b1;
      end
      if (leaves[which]) seen_d[which].left = 1'b1;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) seen_q <= '0;
    else seen_q <= seen_d;
  end

  // Counts of the first operation's counter since it was allocated, which is before the arm that succeeds.
  logic [1:0][63:0] counted_q;  // of each of the two counters, in generation 0: nothing is freed in Ordered
  logic [63:0] counted;
  assign counted = counted_q[seen_q[0].counter[0]];
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      counted_q <= '0;
    end else if (u_counters.change && u_counters.second_q.counter[26:1] == '0) begin
      counted_q[u_counters.second_q.counter[0]] <= counted_q[u_counters.second_q.counter[0]] + u_counters.second_q.a;
    end
  end

  followed_t one, other;
  assign one   = seen_q[0];
  assign other = seen_q[1];
  always_comb begin
    if (!first_q) begin
      assert (!(leaves[0] && (!one.armed || one.left || one.cancelled)));
      assert (!(leaves_elsewhere[0] && one.asked));
      if (Ordered) begin
        // The other operation may not leave while an earlier one waits.
        if (leaves[1] && one.armed && !one.left && one.counter == other.counter) begin
          assert (other.threshold < one.threshold || (other.threshold == one.threshold && number_i[1] < number_i[0]));
        end
        if (leaves[0]) assert (counted >= one.threshold);
        // If nothing fires and no operation is at the port, no due operation waits.
        if (u_counters.run && one.armed && !one.left && !outside.get_valid) assert (counted < one.threshold);
      end
    end
  end

endmodule
