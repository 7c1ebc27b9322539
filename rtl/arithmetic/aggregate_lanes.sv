// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// All lanes of a word, and the signals between the halves of a pair of 16 bytes. aggregate.sv checks the parameter.
//
// The plan arrives in cycle t - 1, operands in t, `short_o` in t + 2, `long_o` in t + 6. With one lane, a pair's value and index come in
// two consecutive cycles; with two, in one.

module aggregate_lanes
  import arithmetic_pkg::*;
#(
    parameter int unsigned DataW = 64  // bits of a word: 64 or 128
) (
    input logic clk_i,
    input logic float_i,  // a floating-point sum is in F0 to F6

    input plan_t            plan_i,
    input logic             is_copy_i,
    input logic             is_odd_i,  // the word's number is odd
    input logic [DataW-1:0] target_i,
    input logic [DataW-1:0] operand_i,

    output logic [DataW-1:0] short_o,
    output logic [DataW-1:0] long_o
);

  localparam int unsigned Lanes = DataW / 64;

  logic clk_float;
  clock_gate u_gate (
      .clk_i,
      .enable_i(float_i),
      .clk_o   (clk_float)
  );

  logic [Lanes-1:0] is_before, is_before_q, beats, partner_before, partner_beats, is_index;

  if (Lanes == 1) begin : gen_words
    // The value is in E2 while the index is in E1, so its decision waits a cycle for the index.
    logic beats_q;
    always_ff @(posedge clk_i) beats_q <= beats[0];
    assign partner_before = is_before;
    assign partner_beats  = beats_q;
    assign is_index       = is_odd_i;
    logic unused;
    assign unused = is_before_q[0];
  end else begin : gen_lanes
    always_comb begin
      for (int lane = 0; lane < int'(Lanes); lane++) begin
        is_index[lane] = lane % 2 == 1;
        partner_before[lane] = is_before_q[lane|1];
        partner_beats[lane] = beats[lane&~1];
      end
    end
    logic unused;
    assign unused = ^{is_odd_i, is_before};
  end

  for (genvar lane = 0; lane < int'(Lanes); lane++) begin : gen_lane
    aggregate_lane u_lane (
        .clk_i,
        .clk_float_i     (clk_float),
        .plan_i,
        .is_copy_i,
        .is_index_i      (is_index[lane]),
        .target_i        (target_i[64*lane+:64]),
        .operand_i       (operand_i[64*lane+:64]),
        .is_before_o     (is_before[lane]),
        .is_before_q_o   (is_before_q[lane]),
        .beats_o         (beats[lane]),
        .partner_before_i(partner_before[lane]),
        .partner_beats_i (partner_beats[lane]),
        .short_o         (short_o[64*lane+:64]),
        .long_o          (long_o[64*lane+:64])
    );
  end

endmodule
