// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A bank with one read and one write a cycle; with one port, one of the two. common/ram.sv checks the parameters.

module bank #(
    parameter int unsigned Words = 512,  // 2 to 65,536
    parameter int unsigned Width = 256,  // bits of a word, a multiple of LaneW
    parameter int unsigned LaneW = 16,   // bits for each bit of a write mask
    parameter int unsigned Ports = 2,    // 2: two read and two write ports, one of each in use; 1: one port for both
    parameter bit          Trace = 0,    // 1: `old_o` and `new_o` show the word before and after the write of a cycle
    localparam int unsigned Lanes = Width / LaneW,
    localparam int unsigned AddressW = $clog2(Words),
    parameter logic [Lanes-1:0] Bypass = '0  // lanes in which a read includes the writes of its cycle and of the next
) (
    input  logic clk_i,
    input  logic rst_ni,
    output logic ready_o,

    input  logic                read_i,
    input  logic [AddressW-1:0] read_address_i,
    output logic [   Width-1:0] read_data_o,

    input  logic                write_i,
    input  logic [AddressW-1:0] write_address_i,
    input  logic [   Lanes-1:0] write_lanes_i,
    input  logic [   Width-1:0] write_data_i,

    output logic [Width-1:0] old_o,
    output logic [Width-1:0] new_o
);

  logic [Ports-1:0][Width-1:0] data, old_data, new_data;

  ram #(
      .Words (Words),
      .Width (Width),
      .LaneW (LaneW),
      .Ports (Ports),
      .Trace (Trace),
      .Bypass(Bypass)
  ) u_ram (
      .clk_i,
      .rst_ni,
      .ready_o,
      .read_i         (Ports'(read_i)),
      .read_address_i ((Ports * AddressW)'(read_address_i)),
      .read_data_o    (data),
      .write_i        (Ports'(write_i)),
      .write_address_i((Ports * AddressW)'(write_address_i)),
      .write_lanes_i  ((Ports * Lanes)'(write_lanes_i)),
      .write_data_i   ((Ports * Width)'(write_data_i)),
      .old_data_o     (old_data),
      .new_data_o     (new_data)
  );

  assign read_data_o = data[0];
  assign old_o       = old_data[0];
  assign new_o       = new_data[0];
  if (Ports == 2) begin : gen_unused
    logic unused;
    assign unused = ^{data[1], old_data[1], new_data[1]};
  end

endmodule
