// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A lane of the arithmetic: 64 bits of a word, which hold whole elements.
//
// The operands arrive in cycle t, the plan in t - 1. A short result is at the output in t + 2, a floating-point sum in t + 6.
//
//   E0 types | E1 integers; comparisons | E2 decision of pairs | E3 choice     all but floating-point sums
//   F0 ... F7                                                                  floating-point sums: `float_add`
//
// The first adder has 64 bits, the second 32, two have 16. So a double, two floats or four numbers of 16 bits have their adders, and each
// adder serves all formats that fit it. Each takes the number that begins at bit 0, 32, 16 or 48, so no number is moved.
//
// A pair of 16 bytes lies in two lanes, or in two words of this one. Each half needs the other's decision: the value the comparison of
// the indices, the index the decision of the values.

module aggregate_lane
  import arithmetic_pkg::*;
(
    input logic clk_i,
    input logic clk_float_i,  // runs during a floating-point sum

    input plan_t       plan_i,      // E0
    input logic        is_copy_i,   // E0; first operand: the result is the operand
    input logic        is_index_i,  // E0; of a pair of 16 bytes: this lane has the index
    input logic [63:0] target_i,    // E1
    input logic [63:0] operand_i,

    output logic is_before_o,       // E1: this index of the operand is less
    output logic is_before_q_o,     // E2: the same, a cycle later
    output logic beats_o,           // E2: this value selects the operand's pair
    input  logic partner_before_i,  // E2
    input  logic partner_beats_i,   // E2

    output logic [63:0] short_o,
    output logic [63:0] long_o
);

  // E0

  plan_t plan_q;
  element_t low_q, high_q;
  logic is_copy_q, is_index_q;
  always_ff @(posedge clk_i) begin
    plan_q     <= plan_i;
    low_q      <= plan_i.layout == PairOver && is_index_i ? plan_i.index : plan_i.value;
    high_q     <= plan_i.layout == PairIn || (plan_i.layout == PairOver && is_index_i) ? plan_i.index : plan_i.value;
    is_copy_q  <= is_copy_i;
    is_index_q <= is_index_i;
  end

  // E1

  logic [63:0] integer_result;
  aggregate_integer u_integer (
      .operation_i(plan_q.operation),
      .size_i     (plan_q.value.size),
      .target_i,
      .operand_i,
      .result_o   (integer_result)
  );

  logic [7:0] takes;
  logic is_better, is_equal, high_is_before;
  aggregate_compare u_compare (
      .low_i           (low_q),
      .high_i          (high_q),
      .is_maximum_i    (plan_q.operation == Max),
      .target_i,
      .operand_i,
      .takes_o         (takes),
      .is_better_o     (is_better),
      .is_equal_o      (is_equal),
      .is_before_o,
      .high_is_before_o(high_is_before)
  );

  // The bytes of the lowest element. The padding of a pair is that of the first operand.
  function automatic logic [7:0] bytes_of(logic [1:0] size);
    return 8'hff >> (4'd8 - (4'd1 << size));
  endfunction

  logic compares;
  assign compares = plan_q.operation == Min || plan_q.operation == Max;

  // Bytes taken from the operand: all (a copy), those of `takes_q` (values), or those of `mask_q` if its pair wins.
  logic [63:0] keep_q, take_q;
  logic [7:0] takes_q, mask_d, mask_q;
  logic is_better_q, is_equal_q, high_is_before_q, is_all_q, is_values_q, is_in_q, is_index2_q;

  always_comb begin
    mask_d = '0;
    if (compares) begin
      unique case (plan_q.layout)
        PairIn:   mask_d = bytes_of(plan_q.value.size) | 8'hf0;
`ifdef MUTANT_25
        PairOver: mask_d = '1;
`else
        PairOver: mask_d = bytes_of(low_q.size);
`endif
        default:  ;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    keep_q           <= compares ? target_i : integer_result;
    take_q           <= operand_i;
    takes_q          <= takes;
    mask_q           <= mask_d;
    is_better_q      <= is_better;
    is_equal_q       <= is_equal;
    high_is_before_q <= high_is_before;
    is_all_q         <= is_copy_q;
    is_values_q      <= compares && plan_q.layout == Values;
    is_in_q          <= plan_q.layout == PairIn;
    is_before_q_o    <= is_before_o;
    is_index2_q      <= is_index_q;
  end

  // E2

  assign beats_o = is_better_q || (is_equal_q && partner_before_i);

  logic in_beats, pair_beats;
  assign in_beats = is_better_q || (is_equal_q && high_is_before_q);
  assign pair_beats = is_in_q ? in_beats : is_index2_q ? partner_beats_i : beats_o;

  logic [7:0] chosen_q;
  logic [63:0] kept_q, taken_q;
  always_ff @(posedge clk_i) begin
    chosen_q <= is_all_q ? '1 : is_values_q ? takes_q : mask_q & {8{pair_beats}};
    kept_q   <= keep_q;
    taken_q  <= take_q;
  end

  // E3

  always_comb begin
    for (int at = 0; at < 8; at++) short_o[8*at+:8] = chosen_q[at] ? taken_q[8*at+:8] : kept_q[8*at+:8];
  end

  logic unused;
  assign unused = ^{plan_q.is_long, plan_q.index};

  // F0 to F7

  logic [63:0] sum0;
  logic [31:0] sum1;
  logic [15:0] sum2, sum3;
  logic [1:0] size0_q, size1_q, size2_q, size3_q, size4_q, size5_q, size6_q;

  float_add #(
      .Bits(64)
  ) u_add0 (
      .clk_i    (clk_float_i),
      .element_i(plan_i.value),
      .a_i      (target_i),
      .b_i      (operand_i),
      .sum_o    (sum0)
  );
  float_add #(
      .Bits(32)
  ) u_add1 (
      .clk_i    (clk_float_i),
      .element_i(plan_i.value),
      .a_i      (target_i[63:32]),
      .b_i      (operand_i[63:32]),
      .sum_o    (sum1)
  );
  float_add #(
      .Bits(16)
  ) u_add2 (
      .clk_i    (clk_float_i),
      .element_i(plan_i.value),
      .a_i      (target_i[31:16]),
      .b_i      (operand_i[31:16]),
      .sum_o    (sum2)
  );
  float_add #(
      .Bits(16)
  ) u_add3 (
      .clk_i    (clk_float_i),
      .element_i(plan_i.value),
      .a_i      (target_i[63:48]),
      .b_i      (operand_i[63:48]),
      .sum_o    (sum3)
  );

  always_ff @(posedge clk_float_i) begin
    {size0_q, size1_q, size2_q, size3_q, size4_q, size5_q, size6_q} <= {plan_i.value.size, size0_q, size1_q, size2_q, size3_q, size4_q, size5_q};
  end

  always_comb begin
    unique case (size6_q)
      2'd3:    long_o = sum0;
      2'd2:    long_o = {sum1, sum0[31:0]};
      default: long_o = {sum3, sum1[15:0], sum2, sum0[15:0]};
    endcase
  end

endmodule
