// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The sum of two floating-point numbers, rounded to nearest, ties to even: `Real::sum` of crates/nic/src/arithmetic.
//
// 1. Subnormal numbers, infinities and signed zeros are those of IEEE 754. x - x is +0.
// 2. Each NaN that leaves is the quiet NaN with a clear sign and no payload.
// 3. A number of a narrower format has its exponent unchanged and its fraction at the upper end of the datapath; it is rounded at its
//    own last place. So all formats share the datapath, and none is rounded twice: a sum of 16 bits that nic computes in binary32 is
//    the correctly rounded one, too (crates/nic/src/arithmetic/half.rs).
//
// Six stages; a sum a cycle. `a_i` and `b_i` are taken in cycle t, `sum_o` is there in t + 5, to be registered by its reader:
//
//   F1 unpack, compare, exponents' difference | F2 align | F3 add | F4 leading zeros | F5 normalise, decide rounding | F6 round, pack
//
// A subnormal sum is exact, so normalising stops at the least exponent and nothing is rounded there.

module float_add
  import arithmetic_pkg::*;
#(
    // Bits of the widest format: 64 (double, float and those of 16 bits), 32 (float and those of 16 bits), 16 (half, bfloat16).
    parameter int unsigned Bits = 64
) (
    input logic clk_i,

    input element_t        element_i,  // the format; its size is at most that of Bits
    input logic [Bits-1:0] a_i,
    input logic [Bits-1:0] b_i,

    output logic [Bits-1:0] sum_o  // the low bits, if the format is narrower; what is above them has no meaning
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

  typedef enum logic [1:0] {
    Half   = 2'd0,
    Brain  = 2'd1,
    Single = 2'd2,
    Double = 2'd3
  } format_e;

  typedef struct packed {
    logic      sign;
    exponent_t exponent;
    fraction_t fraction;
    logic      is_special;  // the exponent is that of infinities and NaNs
  } number_t;

  // What accompanies a sum.
  typedef struct packed {
    format_e format;
    logic    sign;
    logic    is_nan;
    logic    is_infinite;
  } context_t;

  logic unused;
  assign unused = ^element_i;

  format_e format;
  always_comb begin
    if (Bits == 64 && element_i.size == 2'd3) format = Double;
    else if (Bits >= 32 && element_i.size == 2'd2) format = Single;
    else format = element_i.is_brain ? Brain : Half;
  end

  // The numbers of each format, in the datapath. A constant that is wider than the datapath belongs to a format that it lacks.
  function automatic number_t unpack(format_e of, logic [Bits-1:0] bits);
    number_t result;
    logic [63:0] wide;
    logic [51:0] fraction;
    logic [10:0] exponent;
    wide = 64'(bits);
    unique case (of)
      Double: begin
        {result.sign, exponent, fraction} = wide;
        result.is_special = &exponent;
      end
      Single: begin
        {result.sign, exponent, fraction} = {wide[31], 3'b0, wide[30:0], 29'b0};
        result.is_special = &exponent[7:0];
      end
      Brain: begin
        {result.sign, exponent, fraction} = {wide[15], 3'b0, wide[14:0], 45'b0};
        result.is_special = &exponent[7:0];
      end
      default: begin
        {result.sign, exponent, fraction} = {wide[15], 6'b0, wide[14:0], 42'b0};
        result.is_special = &exponent[4:0];
      end
    endcase
    result.exponent = exponent_t'(exponent);
    result.fraction = fraction_t'(fraction >> (52 - FractionW));
    return result;
  endfunction

  // F1: which number is the greater, and how far the lesser moves.

  number_t a, b;
  exponent_t a_exponent, b_exponent;
  logic a_is_less, is_equal, is_subtraction;
  exponent_t difference;
  digits_t a_digits, b_digits;

  assign a = unpack(format, a_i);
  assign b = unpack(format, b_i);
  assign a_exponent = a.exponent | exponent_t'(a.exponent == 0);
  assign b_exponent = b.exponent | exponent_t'(b.exponent == 0);
  assign a_digits = {a.exponent != 0, a.fraction};
  assign b_digits = {b.exponent != 0, b.fraction};
  assign a_is_less = {a.exponent, a.fraction} < {b.exponent, b.fraction};
  assign is_equal = {a.exponent, a.fraction} == {b.exponent, b.fraction};
  assign is_subtraction = a.sign != b.sign;
  always_comb begin
    exponent_t a_above_b, b_above_a;
    a_above_b  = a_exponent - b_exponent;
    b_above_a  = b_exponent - a_exponent;
    difference = a_is_less ? b_above_a : a_above_b;
  end

  context_t context1_d, context1_q, context2_q, context3_q, context4_q, context5_q;
  exponent_t exponent1_q, exponent2_q, exponent3_q, exponent4_q;
  logic subtract1_q, subtract2_q;
  digits_t greater1_q, greater2_q, lesser1_q;
  shift_t move1_q;

  always_comb begin
    logic a_is_nan, b_is_nan;
    a_is_nan = a.is_special && a.fraction != 0;
    b_is_nan = b.is_special && b.fraction != 0;
    context1_d.format = format;
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
    // From AlignedW on, only the sticky bit is left; all ones is as far.
    move1_q     <= difference[ExponentW-1:ShiftW] != 0 ? '1 : difference[ShiftW-1:0];
  end

  // F2: the lesser number is aligned. What falls off its end is in the sticky bit.

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

  // F4: leading zeros, of which the exponent allows as many as it counts.

  shift_t zeros, shift_d, shift4_q;

  always_comb begin
    // A tree: of each half of a node, whether it is zero, and how many zeros it begins with.
    logic [(1<<ShiftW)-1:0] tree;
    tree = {sum3_q, ((1 << ShiftW) - SumW)'(0)};
    zeros = '0;
    for (int place = int'(ShiftW) - 1; place >= 0; place--) begin
      logic is_zero;
      is_zero = 1'b1;
      for (int bit_ = 0; bit_ < (1 << place); bit_++) is_zero &= !tree[(1<<ShiftW)-1-bit_];
      zeros[place] = is_zero;
      if (is_zero) tree = tree << (1 << place);
    end
    shift_d = exponent_t'(zeros) > exponent3_q ? shift_t'(exponent3_q) : zeros;
  end

  always_ff @(posedge clk_i) begin
    context4_q  <= context3_q;
    exponent4_q <= exponent3_q;
    sum4_q      <= sum3_q;
    shift4_q    <= shift_d;
  end

  // F5: the sum is normalised, and whether it is rounded up is decided at the last place of its format.

  logic [SumW-1:0] normal;
  exponent_t exponent5_d, exponent5_q;
  fraction_t fraction5_q;
  logic round_up_d, round_up5_q;

  // The last place of a format in a fraction.
  function automatic fraction_t last_place(format_e of);
    unique case (of)
      Double:  return fraction_t'(1);
      Single:  return Bits >= 32 ? fraction_t'(1) << (FractionW - 23) : '0;
      Brain:   return fraction_t'(1) << (FractionW - 7);
      default: return fraction_t'(1) << (FractionW - 10);
    endcase
  endfunction

  always_comb begin
    logic [SumW-1:0] last;
    normal = sum4_q << shift4_q;
    exponent5_d = normal[SumW-1] ? exponent4_q + 1'b1 - exponent_t'(shift4_q) : '0;
    last = {1'b0, last_place(context4_q.format), (SumW - 1 - FractionW)'(0)};
    // More than half of the last place, or half of it and the last place is odd.
    round_up_d = |(normal & last >> 1) && (|(normal & last) || |(normal & ((last >> 1) - 1'b1)));
  end

  always_ff @(posedge clk_i) begin
    context5_q  <= context4_q;
    exponent5_q <= exponent5_d;
    fraction5_q <= normal[SumW-2-:FractionW];
    round_up5_q <= round_up_d;
  end

  // F6: rounding may carry into the exponent, up to infinity.

  always_comb begin
    logic [ExponentW+FractionW-1:0] rounded;
    exponent_t exponent;
    fraction_t narrow;
    logic [51:0] fraction;
    logic is_top, is_number;
    logic [10:0] wide;
    rounded = {exponent5_q, fraction5_q};
    if (round_up5_q) rounded = rounded + (ExponentW + FractionW)'(last_place(context5_q.format));
    exponent = rounded[FractionW+:ExponentW];
    unique case (context5_q.format)
      Double:        is_top = &exponent;
      Single, Brain: is_top = &exponent[7:0];
      default:       is_top = &exponent[4:0];
    endcase
    is_number = !is_top && !context5_q.is_infinite && !context5_q.is_nan;
    wide = is_number ? 11'(exponent) : '1;
    // What a narrower format has no place for is cut off below.
    narrow = is_number ? rounded[FractionW-1:0] : {context5_q.is_nan, (FractionW - 1)'(0)};
    fraction = 52'(narrow) << (52 - FractionW);
    sum_o = '0;
    unique case (context5_q.format)
      Double:  sum_o = Bits'({context5_q.sign && !context5_q.is_nan, wide, fraction});
      Single:  sum_o = Bits'({context5_q.sign && !context5_q.is_nan, wide[7:0], fraction[51-:23]});
      Brain:   sum_o = Bits'({context5_q.sign && !context5_q.is_nan, wide[7:0], fraction[51-:7]});
      default: sum_o = Bits'({context5_q.sign && !context5_q.is_nan, wide[4:0], fraction[51-:10]});
    endcase
  end

endmodule
