// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A memory with two read and two write ports (seed 000, section 4.3.2). Synthesis replaces it by memory of the target. common/ram.sv
// checks the parameters.
//
// A read shows its word in the next cycle: the word before the writes of its own cycle. Two writes of a cycle never meet in a lane.

module ram_2r2w #(
    parameter int unsigned Words = 512,  // at least 2
    parameter int unsigned Width = 256,  // bits of a word, a multiple of LaneW
    parameter int unsigned LaneW = 16,   // bits for each bit of a write mask
    parameter bit          Trace = 0,    // 1: `old_data_o` shows the words before the writes; for simulation only
    localparam int unsigned Lanes = Width / LaneW,
    localparam int unsigned AddressW = $clog2(Words)
) (
    input logic clk_i,

    input  logic [1:0]               read_i,
    input  logic [1:0][AddressW-1:0] read_address_i,
    output logic [1:0][   Width-1:0] read_data_o,

    input logic [1:0]               write_i,
    input logic [1:0][AddressW-1:0] write_address_i,
    input logic [1:0][   Lanes-1:0] write_lanes_i,
    input logic [1:0][   Width-1:0] write_data_i,
    output logic [1:0][  Width-1:0] old_data_o
);

  logic [Width-1:0] memory[Words];

  for (genvar port = 0; port < 2; port++) begin : gen_read
    always_ff @(posedge clk_i) begin
      if (read_i[port]) read_data_o[port] <= memory[read_address_i[port]];
    end
  end

  always_ff @(posedge clk_i) begin
    for (int port = 0; port < 2; port++) begin
      for (int lane = 0; lane < int'(Lanes); lane++) begin
        if (write_i[port] && write_lanes_i[port][lane]) begin
          memory[write_address_i[port]][lane*LaneW+:LaneW] <= write_data_i[port][lane*LaneW+:LaneW];
        end
      end
    end
  end

  for (genvar port = 0; port < 2; port++) begin : gen_old
    assign old_data_o[port] = Trace && write_i[port] ? memory[write_address_i[port]] : '0;
  end

endmodule
