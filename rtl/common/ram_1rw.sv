// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A memory with one port for a read or a write. A read shows its word in the next cycle. Synthesis replaces it by macros or block memory
// of the target. common/ram.sv checks the parameters.

module ram_1rw #(
    parameter int unsigned Words = 512,  // at least 2
    parameter int unsigned Width = 256,  // bits of a word, a multiple of LaneW
    parameter int unsigned LaneW = 16,   // bits for each bit of a write mask
    parameter bit          Trace = 0,    // 1: `old_data_o` shows the word before a write; for simulation only
    localparam int unsigned Lanes = Width / LaneW,
    localparam int unsigned AddressW = $clog2(Words)
) (
    input logic clk_i,

    input  logic                enable_i,
    input  logic                write_i,   // else a read
    input  logic [AddressW-1:0] address_i,
    input  logic [   Lanes-1:0] lanes_i,
    input  logic [   Width-1:0] data_i,
    output logic [   Width-1:0] data_o,
    output logic [   Width-1:0] old_data_o
);

  logic [Width-1:0] memory[Words];

  always_ff @(posedge clk_i) begin
    if (enable_i && write_i) begin
      for (int lane = 0; lane < int'(Lanes); lane++) begin
        if (lanes_i[lane]) memory[address_i][lane*LaneW+:LaneW] <= data_i[lane*LaneW+:LaneW];
      end
    end else if (enable_i) begin
      data_o <= memory[address_i];
    end
  end

  assign old_data_o = Trace && write_i ? memory[address_i] : '0;

endmodule
