// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A lane of the arithmetic: 64 bits of a word, in which whole elements lie side by side.
//
// The operands are there in cycle t. A short result is at the output in t + 1, a floating-point sum in t + 5; the reader registers it.
//
//   E1 integers; comparisons   E2 choice       all but floating-point sums
//   F1 ... F6                                  floating-point sums: `float_add`
//
// The first adder has 64 bits, the second 32, two have 16. So a double, two floats or four numbers of 16 bits have their adders, and
// each adder serves all formats that fit it.
//
// A pair of 16 bytes lies in two lanes, or in two words of this one. The half that decides comes from the partner: the index's
// comparison for the value, and the decision for the index.

module aggregate_lane
  import arithmetic_pkg::*;
(
    input logic clk_i,
    input logic clk_float_i,  // runs while a floating-point sum is under way

    input plan_t       plan_i,
    input logic        is_copy_i,   // the first operand: the result is the operand
    input logic        is_index_i,  // of a pair of 16 bytes: here is the index
    input logic [63:0] target_i,
    input logic [63:0] operand_i,

    output logic is_before_o,       // E1: this index of the operand is less
    output logic is_before_q_o,     // E2: the same, a cycle later
    output logic beats_o,           // E2: this value's pair is the operand's
    input  logic partner_before_i,  // E2
    input  logic partner_beats_i,   // E2

    output logic [63:0] short_o,
    output logic [63:0] long_o
);

  // E1

  element_t low, high;
  always_comb begin
    low  = plan_i.value;
    high = plan_i.value;
    unique case (plan_i.layout)
      PairIn:   high = plan_i.index;
      PairOver: if (is_index_i) {low, high} = {2{plan_i.index}};
      default:  ;
    endcase
  end

  logic [63:0] integer_result;
  aggregate_integer u_integer (
      .operation_i(plan_i.operation),
      .size_i     (plan_i.value.size),
      .target_i,
      .operand_i,
      .result_o   (integer_result)
  );

  logic [7:0] takes;
  logic is_better, is_equal, high_is_before;
  aggregate_compare u_compare (
      .low_i           (low),
      .high_i          (high),
      .is_maximum_i    (plan_i.operation == Max),
      .target_i,
      .operand_i,
      .takes_o         (takes),
      .is_better_o     (is_better),
      .is_equal_o      (is_equal),
      .is_before_o,
      .high_is_before_o(high_is_before)
  );

  // The bytes of the lowest element. Padding of a pair stays as the first operand has it.
  function automatic logic [7:0] bytes_of(logic [1:0] size);
    return 8'hff >> (4'd8 - (4'd1 << size));
  endfunction

  logic compares;
  assign compares = plan_i.operation == Min || plan_i.operation == Max;

  // The result is `take_q` in bytes of `takes_q`, else `keep_q`. Of a pair of 16 bytes, the bytes of `mask_q` are decided in E2.
  logic [63:0] keep_q, take_q;
  logic [7:0] takes_d, takes_q, mask_d, mask_q;
  logic is_better_q, is_equal_q, is_index_q;

  always_comb begin
    takes_d = '0;
    mask_d  = '0;
    if (is_copy_i) takes_d = '1;
    else if (compares) begin
      unique case (plan_i.layout)
        PairIn:   if (is_better || (is_equal && high_is_before)) takes_d = bytes_of(plan_i.value.size) | 8'hf0;
        PairOver: mask_d = bytes_of(low.size);
        default:  takes_d = takes;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    keep_q        <= compares ? target_i : integer_result;
    take_q        <= operand_i;
    takes_q       <= takes_d;
    mask_q        <= mask_d;
    is_better_q   <= is_better;
    is_equal_q    <= is_equal;
    is_before_q_o <= is_before_o;
    is_index_q    <= is_index_i;
  end

  // E2

  assign beats_o = is_better_q || (is_equal_q && partner_before_i);

  logic [7:0] chosen;
  always_comb begin
    chosen = takes_q | (mask_q & {8{is_index_q ? partner_beats_i : beats_o}});
    for (int at = 0; at < 8; at++) short_o[8*at+:8] = chosen[at] ? take_q[8*at+:8] : keep_q[8*at+:8];
  end

  logic unused;
  assign unused = plan_i.is_long;

  // F1 to F6

  logic [63:0] sum0;
  logic [31:0] sum1, target1, operand1;
  logic [15:0] sum2, sum3;
  logic is_single;
  logic [1:0] size1_q, size2_q, size3_q, size4_q, size5_q;

  assign is_single = plan_i.value.size == 2'd2;
  assign target1   = is_single ? target_i[63:32] : {16'b0, target_i[31:16]};
  assign operand1  = is_single ? operand_i[63:32] : {16'b0, operand_i[31:16]};

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
      .a_i      (target1),
      .b_i      (operand1),
      .sum_o    (sum1)
  );
  float_add #(
      .Bits(16)
  ) u_add2 (
      .clk_i    (clk_float_i),
      .element_i(plan_i.value),
      .a_i      (target_i[47:32]),
      .b_i      (operand_i[47:32]),
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
    {size1_q, size2_q, size3_q, size4_q, size5_q} <= {plan_i.value.size, size1_q, size2_q, size3_q, size4_q};
  end

  always_comb begin
    unique case (size5_q)
      2'd3:    long_o = sum0;
      2'd2:    long_o = {sum1, sum0[31:0]};
      default: long_o = {sum3, sum2, sum1[15:0], sum0[15:0]};
    endcase
  end

endmodule
