// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The bank of common/ram.sv for the proof of the allocator: it holds only the words on the path of a block. A read of any other word
// shows a free input of the proof, so the proof covers all contents of such words.
//
// Clearing takes two cycles instead of one a word. One port, no bypass, no trace.

module ram #(
    parameter int unsigned Words = 512,
    parameter int unsigned Width = 256,
    parameter int unsigned LaneW = 16,
    parameter int unsigned Ports = 1,
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

  if (Ports != 1 || Bypass != '0 || Trace) $error("ram_followed: it has one port, no bypass and no trace");

  localparam int unsigned Followed = 3;

  logic [Followed-1:0][AddressW-1:0] followed_address;
  always_comb begin
    for (int word = 0; word < int'(Followed); word++) begin
      followed_address[word] = AddressW'(allocator_proof.followed_address[word]);
    end
  end

  logic [Followed-1:0][Width-1:0] followed_q;
  logic [1:0] cleared_q;
  logic reading_q;
  logic [AddressW-1:0] address_q;
  logic [Width-1:0] memory_data;
  logic [Width-1:0] data_q;

  assign ready_o = cleared_q == 2'd2;
  always_comb begin
    memory_data = allocator_proof.elsewhere_i;
    for (int word = int'(Followed) - 1; word >= 0; word--) begin
      if (address_q == followed_address[word]) memory_data = followed_q[word];
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      followed_q <= '0;
      cleared_q  <= '0;
      reading_q  <= 1'b0;
      address_q  <= '0;
      data_q     <= '0;
    end else begin
      if (!ready_o) cleared_q <= cleared_q + 1'b1;
      reading_q <= read_i[0];
      if (read_i[0]) address_q <= read_address_i[0];
      if (reading_q) data_q <= memory_data;
      for (int word = 0; word < int'(Followed); word++) begin
        for (int lane = 0; lane < int'(Lanes); lane++) begin
          if (write_i[0] && write_lanes_i[0][lane] && write_address_i[0] == followed_address[word]) begin
            followed_q[word][lane*LaneW+:LaneW] <= write_data_i[0][lane*LaneW+:LaneW];
          end
        end
      end
    end
  end

  assign read_data_o = data_q;
  assign old_data_o  = '0;
  assign new_data_o  = '0;

endmodule
