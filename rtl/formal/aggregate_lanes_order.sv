// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The lanes of aggregate_lanes.sv for the proof of the order: a function whose result shows the order of its operands, with the same
// cycles. An operand's bits are added by exclusive or to the rotated target, so each bit of the result shows its origin.

module aggregate_lanes
  import arithmetic_pkg::*;
#(
    parameter int unsigned DataW = 64
) (
    input logic clk_i,
    input logic float_i,

    input plan_t            plan_i,
    input logic             is_copy_i,
    input logic             is_odd_i,
    input logic [DataW-1:0] target_i,
    input logic [DataW-1:0] operand_i,

    output logic [DataW-1:0] short_o,
    output logic [DataW-1:0] long_o
);

  localparam int unsigned Stages = LongDepth - 2;

  logic is_copy_q;
  logic [7:0] result, early_q, short_q;
  assign result = operand_i[7:0] ^ (is_copy_q ? 8'd0 : {target_i[6:0], target_i[7]});

  // Registers of the long pipeline move only while `float_i` is set, like their clock.
  logic [7:0] long_q[Stages];
  always_ff @(posedge clk_i) begin
    is_copy_q <= is_copy_i;
    early_q   <= result;
    short_q   <= early_q;
    if (float_i) begin
      long_q[0] <= result;
      for (int stage = 1; stage < int'(Stages); stage++) long_q[stage] <= long_q[stage-1];
    end
  end
  assign short_o = DataW'(short_q);
  assign long_o  = DataW'(long_q[Stages-1]);

endmodule
