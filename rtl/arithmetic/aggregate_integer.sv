// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Sums, bitwise and logical operations on the integers of a lane: crates/core/nic/src/arithmetic/integer.rs. Combinational.
//
// 1. Sums wrap. One adder serves all sizes: it leaves out the highest bit of each element, so that no carry leaves an element; exclusive
//    or adds that bit.
// 2. Logical operations give 0 or 1.

module aggregate_integer
  import arithmetic_pkg::*;
(
    input  logic [ 3:0] operation_i,
    input  logic [ 1:0] size_i,       // log2 of an element's bytes
    input  logic [63:0] target_i,
    input  logic [63:0] operand_i,
    output logic [63:0] result_o      // meaningless for a minimum or maximum
);

  logic [63:0] top, low;
  always_comb begin
    unique case (size_i)
      2'd0: {top, low} = {64'h8080_8080_8080_8080, 64'h0101_0101_0101_0101};
      2'd1: {top, low} = {64'h8000_8000_8000_8000, 64'h0001_0001_0001_0001};
      2'd2: {top, low} = {64'h8000_0000_8000_0000, 64'h0000_0001_0000_0001};
      2'd3: {top, low} = {64'h8000_0000_0000_0000, 64'h0000_0000_0000_0001};
    endcase
  end

  logic [63:0] sum;
  assign sum = ((target_i & ~top) + (operand_i & ~top)) ^ ((target_i ^ operand_i) & top);

  // For each byte, whether its element is not zero.
  function automatic logic [7:0] truth(logic [1:0] size, logic [63:0] word);
    logic [7:0] bytes, result;
    for (int place = 0; place < 8; place++) bytes[place] = word[8*place+:8] != 0;
    for (int place = 0; place < 8; place++) begin
      unique case (size)
        2'd0: result[place] = bytes[place];
        2'd1: result[place] = |bytes[place/2*2+:2];
        2'd2: result[place] = |bytes[place/4*4+:4];
        2'd3: result[place] = |bytes;
      endcase
    end
    return result;
  endfunction

  logic [7:0] target_truth, operand_truth, logical;
  assign target_truth  = truth(size_i, target_i);
  assign operand_truth = truth(size_i, operand_i);

  always_comb begin
    unique case (operation_i)
      Land:    logical = target_truth & operand_truth;
      Lxor:    logical = target_truth ^ operand_truth;
      default: logical = target_truth | operand_truth;
    endcase
    unique case (operation_i)
      Bor:     result_o = target_i | operand_i;
      Band:    result_o = target_i & operand_i;
      Bxor:    result_o = target_i ^ operand_i;
      Sum:     result_o = sum;
      default: begin
        for (int place = 0; place < 8; place++) result_o[8*place+:8] = {7'b0, logical[place] & low[8*place]};
      end
    endcase
  end

endmodule
