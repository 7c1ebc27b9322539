// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The sum of two floating-point numbers, rounded to nearest, ties to even: `Real::sum` of crates/core/nic/src/arithmetic. Another value
// of Bits stops elaboration with a message.
//
// 1. Subnormal numbers, infinities and signed zeros are those of IEEE 754. x - x is +0.
// 2. Each NaN result is the quiet NaN with a clear sign and no payload.
// 3. A number of a narrower format keeps its exponent, with its fraction at the upper end of the datapath; it is rounded at its own last
//    place. So all formats share the datapath, and none is rounded twice: a sum of 16 bits that nic computes in binary32 is also the
//    correctly rounded one (crates/core/nic/src/arithmetic/half.rs).
//
// Six stages of registers; a sum a cycle. The format arrives in cycle t - 1, the numbers in t, `sum_o` in t + 6:
//
//   F0 format | F1 unpack, compare, exponents' difference | F2 align | F3 add | F4 leading zeros | F5 normalise, decide rounding | F6 round |
//   F7 pack, in the reader's cycle
//
// A subnormal sum is exact, so normalising stops at the smallest exponent and nothing is rounded there.

module float_add
  import arithmetic_pkg::*;
#(
    // Bits of the widest format: 64 (double, float and those of 16 bits), 32 (float and those of 16 bits), 16 (half, bfloat16).
    parameter int unsigned Bits = 64
) (
    input logic clk_i,

    input element_t        element_i,  // the format, a cycle before the numbers; its size is at most that of Bits
    input logic [Bits-1:0] a_i,
    input logic [Bits-1:0] b_i,

    output logic [Bits-1:0] sum_o  // the low bits, if the format is narrower; the bits above are meaningless
);

  if (Bits != 64 && Bits != 32 && Bits != 16) $error("float_add: Bits is %0d, and may be 16, 32 or 64", Bits);

  localparam int unsigned ExponentW = Bits == 64 ? 11 : 8;
  localparam int unsigned FractionW = Bits == 64 ? 52 : Bits == 32 ? 23 : 10;
  localparam int unsigned DigitsW = FractionW + 1;       // with the leading one
  localparam int unsigned AlignedW = DigitsW + 3;        // and guard, round, sticky
  localparam int unsigned SumW = AlignedW + 1;           // and the carry
  localparam int unsigned ShiftW = $clog2(AlignedW + 1);

  typedef logic [ExponentW-1:0] exponent_t;
  typedef logic [FractionW-1:0] fraction_t;
  typedef logic [DigitsW-1:0] digits_t;
  typedef logic [ShiftW-1:0] shift_t;

  // One bit of four is set. Bits of formats that are wider than the datapath are 0.
  typedef struct packed {
    logic is_double;
    logic is_single;
    logic is_brain;
    logic is_half;
  } format_t;

  typedef struct packed {
    logic      sign;
    exponent_t exponent;
    fraction_t fraction;
    logic      is_special;  // the exponent is that of infinities and NaNs
  } number_t;

  // Attributes of a sum in the pipeline.
  typedef struct packed {
    format_t format;
    logic    sign;
    logic    is_nan;
    logic    is_infinite;
  } context_t;

  // F0

  format_t format_q;
  always_ff @(posedge clk_i) begin
    format_q.is_double <= Bits == 64 && element_i.size == 2'd3;
    format_q.is_single <= Bits >= 32 && element_i.size == 2'd2;
    format_q.is_brain  <= element_i.size == 2'd1 && element_i.is_brain;
    format_q.is_half   <= element_i.size == 2'd1 && !element_i.is_brain;
  end
  logic [63:0] packed_wide;
  logic unused;
  assign unused = ^{element_i, packed_wide};

  function automatic number_t unpack(format_t format, logic [Bits-1:0] bits);
    number_t result;
    logic [63:0] wide;
    logic [62:0] number;
    wide = 64'(bits);
    number = (wide[62:0] & {63{format.is_double}}) | ({3'b0, wide[30:0], 29'b0} & {63{format.is_single}}) |
        ({3'b0, wide[14:0], 45'b0} & {63{format.is_brain}}) | ({6'b0, wide[14:0], 42'b0} & {63{format.is_half}});
    result.sign = (wide[63] && format.is_double) || (wide[31] && format.is_single) ||
        (wide[15] && (format.is_brain || format.is_half));
    result.is_special = (&wide[62:52] && format.is_double) || (&wide[30:23] && format.is_single) ||
        (&wide[14:7] && format.is_brain) || (&wide[14:10] && format.is_half);
    result.exponent = exponent_t'(number[62:52]);
    result.fraction = fraction_t'(number[51:0] >> (52 - FractionW));
    return result;
  endfunction

  // F1: compares the numbers, and computes the shift of the smaller one.

  number_t a, b;
  exponent_t a_exponent, b_exponent;
  logic a_is_less, is_equal, is_subtraction;
  exponent_t difference;
  digits_t a_digits, b_digits;

  assign a = unpack(format_q, a_i);
  assign b = unpack(format_q, b_i);
  assign a_exponent = a.exponent | exponent_t'(a.exponent == 0);
  assign b_exponent = b.exponent | exponent_t'(b.exponent == 0);
  assign a_digits = {a.exponent != 0, a.fraction};
  assign b_digits = {b.exponent != 0, b.fraction};
  // In every format, magnitudes have the order of the bits below the sign.
  logic [Bits-1:0] magnitude_mask;
  assign magnitude_mask = Bits'({{32{format_q.is_double}} & 32'h7fff_ffff, format_q.is_double,
                                 {15{format_q.is_double || format_q.is_single}}, format_q.is_double || format_q.is_single,
                                 15'h7fff});
  assign a_is_less = (a_i & magnitude_mask) < (b_i & magnitude_mask);
  assign is_equal = (a_i & magnitude_mask) == (b_i & magnitude_mask);
  assign is_subtraction = a.sign != b.sign;
  always_comb begin
    exponent_t a_above_b, b_above_a;
    a_above_b  = a_exponent - b_exponent;
    b_above_a  = b_exponent - a_exponent;
    difference = a_is_less ? b_above_a : a_above_b;
  end

  context_t context1_d, context1_q, context2_q, context3_q, context4_q, context5_q, context6_q;
  exponent_t exponent1_q, exponent2_q, exponent3_q, exponent4_q;
  logic subtract1_q, subtract2_q;
  digits_t greater1_q, greater2_q, lesser1_q;
  shift_t move1_q;

  always_comb begin
    logic a_is_nan, b_is_nan;
    a_is_nan = a.is_special && a.fraction != 0;
    b_is_nan = b.is_special && b.fraction != 0;
    context1_d.format = format_q;
    context1_d.sign = is_subtraction && is_equal ? 1'b0 : a_is_less ? b.sign : a.sign;
    context1_d.is_nan = a_is_nan || b_is_nan || (a.is_special && b.is_special && is_subtraction);
    context1_d.is_infinite = a.is_special || b.is_special;
  end

  always_ff @(posedge clk_i) begin
    context1_q  <= context1_d;
    exponent1_q <= a_is_less ? b_exponent : a_exponent;
    subtract1_q <= is_subtraction;
    greater1_q  <= a_is_less ? b_digits : a_digits;
    lesser1_q   <= a_is_less ? a_digits : b_digits;
    // From AlignedW on, only the sticky bit is left, so all ones is equivalent.
    move1_q     <= difference[ExponentW-1:ShiftW] != 0 ? '1 : difference[ShiftW-1:0];
  end

  // F2: aligns the smaller number. The sticky bit collects the bits that fall off.

  logic [AlignedW-1:0] aligned_d, aligned2_q;

  always_comb begin
    logic sticky;
    logic [AlignedW-1:0] moved;
    moved  = {lesser1_q, 3'b0};
    sticky = 1'b0;
    for (int place = 0; place < int'(ShiftW); place++) begin
      if (move1_q[place]) begin
        for (int bit_ = 0; bit_ < (1 << place) && bit_ < int'(AlignedW); bit_++) sticky |= moved[bit_];
        moved = moved >> (1 << place);
      end
    end
`ifdef MUTANT_22
    sticky = 1'b0;
`endif
    aligned_d = moved | AlignedW'(sticky);
  end

  always_ff @(posedge clk_i) begin
    context2_q  <= context1_q;
    exponent2_q <= exponent1_q;
    subtract2_q <= subtract1_q;
    greater2_q  <= greater1_q;
    aligned2_q  <= aligned_d;
  end

  // F3: sum or difference, which is not negative.

  logic [SumW-1:0] sum3_q, sum4_q;

  always_ff @(posedge clk_i) begin
    context3_q  <= context2_q;
    exponent3_q <= exponent2_q;
    sum3_q      <= {1'b0, greater2_q, 3'b0} + ({SumW{subtract2_q}} ^ {1'b0, aligned2_q}) + SumW'(subtract2_q);
  end

  // F4: leading zeros. A mark, which counts as a one, limits them by the exponent.

  localparam int unsigned Leaves = 1 << ShiftW;

  shift_t shift_d, shift4_q;

  always_comb begin
    logic [Leaves-1:0] digits, any;
    logic [Leaves-1:0][ShiftW-1:0] zeros;
    digits = {sum3_q, (Leaves - SumW)'(0)};
    for (int unsigned place = 0; place < Leaves; place++) begin
      any[place]   = digits[Leaves-1-place] || exponent3_q == exponent_t'(place);
      zeros[place] = '0;
    end
    // A tree, in place: node `place` of a level has the leaves from place << level on; the first ones have priority.
    for (int unsigned level = 0; level < ShiftW; level++) begin
      for (int unsigned place = 0; place < Leaves >> (level + 1); place++) begin
        zeros[place] = any[2*place] ? zeros[2*place] : zeros[2*place+1] | shift_t'(1 << level);
        any[place]   = any[2*place] || any[2*place+1];
      end
    end
    shift_d = any[0] ? zeros[0] : '1;
  end

  always_ff @(posedge clk_i) begin
    context4_q  <= context3_q;
    exponent4_q <= exponent3_q;
    sum4_q      <= sum3_q;
    shift4_q    <= shift_d;
  end

  // F5: normalises the sum, and decides rounding at the last place of its format.

  logic [SumW-1:0] normal;
  exponent_t exponent5_d, exponent5_q;
  fraction_t fraction5_q;
  logic round_up_d;

  // The last place of a format in a fraction.
  function automatic fraction_t last_place(format_t format);
    logic [51:0] result;
    result = '0;
    result[0]  = format.is_double;
    result[29] = format.is_single;
    result[42] = format.is_half;
    result[45] = format.is_brain;
    return fraction_t'(result >> (52 - FractionW));
  endfunction

  format_t added_q;

  always_comb begin
    logic [SumW-1:0] last;
    normal = sum4_q << shift4_q;
    exponent5_d = normal[SumW-1] ? exponent4_q + 1'b1 - exponent_t'(shift4_q) : '0;
    last = {1'b0, last_place(context4_q.format), (SumW - 1 - FractionW)'(0)};
    // More than half of the last place, or half of it and the last place is odd.
`ifdef MUTANT_23
    round_up_d = |(normal & last >> 1);
`else
    round_up_d = |(normal & last >> 1) && (|(normal & last) || |(normal & ((last >> 1) - 1'b1)));
`endif
  end

  always_ff @(posedge clk_i) begin
    context5_q  <= context4_q;
    exponent5_q <= exponent5_d;
    fraction5_q <= normal[SumW-2-:FractionW];
    added_q     <= context4_q.format & {4{round_up_d}};
  end

  // F6: rounding may carry into the exponent, up to infinity.

  exponent_t exponent6_q;
  fraction_t fraction6_q;

  always_ff @(posedge clk_i) begin
    context6_q <= context5_q;
    {exponent6_q, fraction6_q} <= {exponent5_q, fraction5_q} + (ExponentW + FractionW)'(last_place(added_q));
  end

  // F7

  always_comb begin
    format_t format;
    fraction_t narrow;
    logic [51:0] fraction;
    logic is_top, is_number, sign;
    logic [10:0] exponent;
    format = context6_q.format;
    is_top = (format.is_half || (&exponent6_q[7:5] && (format.is_single || format.is_brain || &exponent6_q))) && &exponent6_q[4:0];
    is_number = !is_top && !context6_q.is_infinite && !context6_q.is_nan;
    sign = context6_q.sign && !context6_q.is_nan;
    exponent = is_number ? 11'(exponent6_q) : '1;
    narrow = is_number ? fraction6_q : {context6_q.is_nan, (FractionW - 1)'(0)};
    // Cuts off bits that a narrower format has no place for.
    fraction = 52'(narrow) << (52 - FractionW);
    packed_wide = {sign, exponent, fraction} & {64{format.is_double}};
    packed_wide[31:0] |= {sign, exponent[7:0], fraction[51-:23]} & {32{format.is_single}};
    packed_wide[15:0] |= {sign, exponent[7:0], fraction[51-:7]} & {16{format.is_brain}};
    packed_wide[15:0] |= {sign, exponent[4:0], fraction[51-:10]} & {16{format.is_half}};
    sum_o = Bits'(packed_wide);
  end

endmodule
