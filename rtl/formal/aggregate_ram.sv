// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The bank of common/ram.sv for the proof of aggregate.sv, without the clearing: its words start with any value. So the proof also shows
// that no word is read before it is written. It keeps the 8 bits of a word that the lanes of the proof use. One port of two is used; no
// bypass, no trace.

module ram #(
    parameter int unsigned Words = 512,
    parameter int unsigned Width = 256,
    parameter int unsigned LaneW = 16,
    parameter int unsigned Ports = 2,
    parameter bit          Trace = 0,
    localparam int unsigned Lanes = Width / LaneW,
    localparam int unsigned AddressW = $clog2(Words),
    parameter logic [Lanes-1:0] Bypass = '0
) (
    input  logic clk_i,
    input  logic rst_ni,
    output logic ready_o,

    input  logic [Ports-1:0]               read_i,
    input  logic [Ports-1:0][AddressW-1:0] read_address_i,
    output logic [Ports-1:0][   Width-1:0] read_data_o,

    input logic [Ports-1:0]               write_i,
    input logic [Ports-1:0][AddressW-1:0] write_address_i,
    input logic [Ports-1:0][   Lanes-1:0] write_lanes_i,
    input logic [Ports-1:0][   Width-1:0] write_data_i,

    output logic [Ports-1:0][Width-1:0] old_data_o,
    output logic [Ports-1:0][Width-1:0] new_data_o
);

  if (Ports != 2 || Bypass != '0 || Trace || Lanes != 1) $error("aggregate_ram: it has whole words, no bypass and no trace");

  logic [7:0] memory[Words];
  logic [7:0] memory_data_q, data_q;
  logic reading_q;
  always_ff @(posedge clk_i) begin
    if (write_i[0]) memory[write_address_i[0]] <= write_data_i[0][7:0];
    if (read_i[0]) memory_data_q <= memory[read_address_i[0]];
    if (reading_q) data_q <= memory_data_q;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) reading_q <= 1'b0;
    else reading_q <= read_i[0];
  end

  assign ready_o = 1'b1;
  assign read_data_o = {Width'(0), Width'(data_q)};
  assign old_data_o = '0;
  assign new_data_o = '0;

endmodule
