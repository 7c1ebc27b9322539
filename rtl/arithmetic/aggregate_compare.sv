// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Minimum and maximum of the elements of a lane: which bytes the operand takes (crates/nic/src/arithmetic: `lesser` and `greater` of
// real.rs, half.rs and integer.rs; `beats` of located.rs). Combinational.
//
// 1. Values compare as C's fmin and fmax do: a number goes before a NaN, of two NaNs the target stays, -0 is less than +0.
// 2. Pairs compare as MPI's MINLOC and MAXLOC do: -0 equals +0, of equal values the lower index goes before, of two NaNs the target
//    stays whatever its index.
//
// A number becomes a key of the same size, and the keys compare as unsigned integers: a signed number has its highest bit inverted, a
// negative floating-point number all of its bits. The bytes are compared first, then joined to elements of 2, 4 and 8 bytes.

module aggregate_compare
  import arithmetic_pkg::*;
(
    input element_t low_i,   // the type of the elements in the lane's low half
    input element_t high_i,  // in its high half; of 8 bytes: as low_i
    input logic     is_maximum_i,

    input logic [63:0] target_i,
    input logic [63:0] operand_i,

    output logic [7:0] takes_o,      // of elements: the bytes that are the operand's
    output logic       is_better_o,  // of pairs: the lowest element, the value, decides for the operand
    output logic       is_equal_o,   // of pairs: the values are equal, so the indices decide
    output logic       is_before_o,  // the lowest element of the operand is less
    output logic       high_is_before_o  // the high half, as one element, of the operand is less
);

  // For each byte, the type of its element.
  element_t [7:0] own;
  assign own = {{4{high_i}}, {4{low_i}}};

  function automatic logic [63:0] key(logic [63:0] word);
    logic [63:0] result;
    for (int place = 0; place < 8; place++) begin
      logic sign, is_top;
      unique case (own[place].size)
        2'd0: {is_top, sign} = {1'b1, word[8*place+7]};
        2'd1: {is_top, sign} = {place % 2 == 1, word[8*(place/2*2)+15]};
        2'd2: {is_top, sign} = {place % 4 == 3, word[8*(place/4*4)+31]};
        2'd3: {is_top, sign} = {place == 7, word[63]};
      endcase
      result[8*place+:8] = word[8*place+:8] ^ {8{own[place].is_float && sign}};
      if (is_top) result[8*place+7] = word[8*place+7] ^ (own[place].is_float || own[place].is_signed);
    end
    return result;
  endfunction

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

  logic [63:0] target_key, operand_key;
  logic [7:0] target_nan, operand_nan;
  always_comb begin
    target_key  = key(target_i);
    operand_key = key(operand_i);
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
      less1[place]  = operand_key[8*place+:8] < target_key[8*place+:8];
      equal1[place] = operand_key[8*place+:8] == target_key[8*place+:8];
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

  // For each byte, of its element.
  logic [7:0] less, equal;
  always_comb begin
    for (int place = 0; place < 8; place++) begin
      unique case (own[place].size)
        2'd0: {less[place], equal[place]} = {less1[place], equal1[place]};
        2'd1: {less[place], equal[place]} = {less2[place/2], equal2[place/2]};
        2'd2: {less[place], equal[place]} = {less4[place/4], equal4[place/4]};
        2'd3: {less[place], equal[place]} = {less8, equal8};
      endcase
    end
  end

  logic [7:0] is_ahead;
  assign is_ahead = is_maximum_i ? ~less & ~equal : less;
  assign takes_o  = (is_ahead | target_nan) & ~operand_nan;

  logic both_zero;
  always_comb both_zero = low_i.is_float && is_zero(target_i[62:0]) && is_zero(operand_i[62:0]);
  assign is_better_o = takes_o[0] && !both_zero;
  assign is_equal_o  = (equal[0] || both_zero) && !target_nan[0] && !operand_nan[0];

  assign is_before_o      = less[0];
  assign high_is_before_o = less4[1];

endmodule
