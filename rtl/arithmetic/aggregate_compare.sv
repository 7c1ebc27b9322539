// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Minimum and maximum of the elements of a lane: selects the bytes of the operand (crates/core/nic/src/arithmetic: `lesser` and `greater`
// of real.rs, half.rs and integer.rs; `beats` of located.rs). Combinational.
//
// 1. Values compare like C's fmin and fmax: a number precedes a NaN, of two NaNs the target stays, -0 is less than +0.
// 2. Pairs compare like MPI's MINLOC and MAXLOC: -0 equals +0, of equal values the lower index wins, of two NaNs the target stays
//    whatever its index.
//
// The bits compare as unsigned integers, first the bytes, which are then joined to elements of 2, 4 and 8 bytes. Signs turn the order at
// the end: the negative one of two numbers is less; of two negative floating-point numbers, the one with the greater bits.

module aggregate_compare
  import arithmetic_pkg::*;
(
    input element_t low_i,   // the type of the elements in the lane's low half
    input element_t high_i,  // type of the elements in the high half; of 8 bytes: as low_i
    input logic     is_maximum_i,

    input logic [63:0] target_i,
    input logic [63:0] operand_i,

    output logic [7:0] takes_o,      // of elements: the bytes to take from the operand
    output logic       is_better_o,  // of pairs: the lowest element, the value, selects the operand
    output logic       is_equal_o,   // of pairs: the values are equal, so the indices decide
    output logic       is_before_o,  // the lowest element of the operand is less
    output logic       high_is_before_o  // the high half, as one element, of the operand is less
);

  element_t [7:0] own;
  assign own = {{4{high_i}}, {4{low_i}}};

  // For each byte, whether its element is a NaN.
  function automatic logic [7:0] nan(logic [63:0] word);
    logic [7:0] result;
    logic [3:0] half, brain;
    logic [1:0] single;
    logic double;
    for (int place = 0; place < 4; place++) begin
      half[place]  = &word[16*place+10+:5] && word[16*place+:10] != 0;
      brain[place] = &word[16*place+7+:8] && word[16*place+:7] != 0;
    end
    for (int place = 0; place < 2; place++) single[place] = &word[32*place+23+:8] && word[32*place+:23] != 0;
    double = &word[52+:11] && word[0+:52] != 0;
    for (int place = 0; place < 8; place++) begin
      unique case (own[place].size)
        2'd0: result[place] = 1'b0;
        2'd1: result[place] = own[place].is_brain ? brain[place/2] : half[place/2];
        2'd2: result[place] = single[place/4];
        2'd3: result[place] = double;
      endcase
      result[place] &= own[place].is_float;
    end
    return result;
  endfunction

  // Whether the lowest element has no bits below its sign.
  function automatic logic is_zero(logic [62:0] magnitude);
    unique case (low_i.size)
      2'd0, 2'd1: return magnitude[14:0] == 0;
      2'd2:       return magnitude[30:0] == 0;
      2'd3:       return magnitude == 0;
    endcase
  endfunction

  logic [7:0] target_nan, operand_nan;
  always_comb begin
    target_nan  = nan(target_i);
    operand_nan = nan(operand_i);
  end

  // Whether the operand is less, and whether both are equal: by parts of 1, 2, 4 and 8 bytes.
  logic [7:0] less1, equal1;
  logic [3:0] less2, equal2;
  logic [1:0] less4, equal4;
  logic less8, equal8;
  always_comb begin
    for (int place = 0; place < 8; place++) begin
      less1[place]  = operand_i[8*place+:8] < target_i[8*place+:8];
      equal1[place] = operand_i[8*place+:8] == target_i[8*place+:8];
    end
    for (int place = 0; place < 4; place++) begin
      less2[place]  = less1[2*place+1] || (equal1[2*place+1] && less1[2*place]);
      equal2[place] = equal1[2*place+1] && equal1[2*place];
    end
    for (int place = 0; place < 2; place++) begin
      less4[place]  = less2[2*place+1] || (equal2[2*place+1] && less2[2*place]);
      equal4[place] = equal2[2*place+1] && equal2[2*place];
    end
    less8  = less4[1] || (equal4[1] && less4[0]);
    equal8 = equal4[1] && equal4[0];
  end

  // The order of the bits, turned by the signs.
  function automatic logic is_less(logic is_float, logic is_signed, logic target_sign, logic operand_sign, logic less_bits,
                                   logic equal_bits);
    if ((is_signed || is_float) && target_sign != operand_sign) return operand_sign;
    return is_float && target_sign ? !less_bits && !equal_bits : less_bits;
  endfunction

  // For each byte, the result of its element. The sign is in the element's highest byte.
  logic [7:0] less, equal;
  always_comb begin
    for (int place = 0; place < 8; place++) begin
      logic target_sign, operand_sign, less_bits;
      unique case (own[place].size)
        2'd0: begin
          {target_sign, operand_sign} = {target_i[8*place+7], operand_i[8*place+7]};
          {less_bits, equal[place]} = {less1[place], equal1[place]};
        end
        2'd1: begin
          {target_sign, operand_sign} = {target_i[8*(place|1)+7], operand_i[8*(place|1)+7]};
          {less_bits, equal[place]} = {less2[place/2], equal2[place/2]};
        end
        2'd2: begin
          {target_sign, operand_sign} = {target_i[8*(place|3)+7], operand_i[8*(place|3)+7]};
          {less_bits, equal[place]} = {less4[place/4], equal4[place/4]};
        end
        2'd3: begin
          {target_sign, operand_sign} = {target_i[63], operand_i[63]};
          {less_bits, equal[place]} = {less8, equal8};
        end
      endcase
      less[place] = is_less(own[place].is_float, own[place].is_signed, target_sign, operand_sign, less_bits, equal[place]);
    end
  end

  logic [7:0] is_ahead;
  assign is_ahead = is_maximum_i ? ~less & ~equal : less;
  assign takes_o  = (is_ahead | target_nan) & ~operand_nan;

  logic both_zero;
`ifdef MUTANT_24
  assign both_zero = 1'b0;
`else
  always_comb both_zero = low_i.is_float && is_zero(target_i[62:0]) && is_zero(operand_i[62:0]);
`endif
  assign is_better_o = takes_o[0] && !both_zero;
  assign is_equal_o  = (equal[0] || both_zero) && !target_nan[0] && !operand_nan[0];

  // Indices are integers of 4 or 8 bytes.
  always_comb begin
    is_before_o = low_i.size == 2'd3 ? is_less(1'b0, low_i.is_signed, target_i[63], operand_i[63], less8, 1'b0) :
        is_less(1'b0, low_i.is_signed, target_i[31], operand_i[31], less4[0], 1'b0);
    high_is_before_o = is_less(1'b0, high_i.is_signed, target_i[63], operand_i[63], less4[1], 1'b0);
  end

endmodule
