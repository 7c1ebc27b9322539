// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A bank of SRAM: a memory, a register after it, a bypass beside the register. Parameters out of range stop elaboration.
//
// 1. A read in cycle t has its word at the output from cycle t + 2 on, until the port's next read. No logic lies between the memory and
//    its register.
// 2. The word includes all writes of cycles before t. Lanes of `Bypass` include those of t and t + 1, too: a multiplexer after the
//    register takes them from a register of the port.
// 3. After reset the bank writes zero to all of its words, which takes `Words` cycles; `ready_o` is 0 meanwhile.
// 4. Two writes of one cycle never meet in a lane of a word. With one port there is one access a cycle.
//
// No comparison of addresses follows a port directly: the bypass compares registers, and a read's with the writes of the next cycle.
// Registers: Width bits for each read port; for each lane of the bypass, LaneW + 1 bits a read port and, with two ports, a write port.

module ram #(
    parameter int unsigned Words = 512,  // 2 to 65,536
    parameter int unsigned Width = 256,  // bits of a word, a multiple of LaneW
    parameter int unsigned LaneW = 16,   // bits for each bit of a write mask
    parameter int unsigned Ports = 2,    // 2: two read and two write ports; 1: one port for both
    parameter bit          Trace = 0,    // 1: `old_data_o` and `new_data_o` show whole words before and after the writes of a cycle
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

  if (Words < 2 || Words > 65536) $error("ram: Words is %0d, and may be 2 to 65,536", Words);
  if (Width % LaneW != 0) $error("ram: Width is %0d, and must be a multiple of LaneW, which is %0d", Width, LaneW);
  if (Ports != 1 && Ports != 2) $error("ram: Ports is %0d, and may be 1 or 2", Ports);

  // Clearing after reset.
  logic [AddressW-1:0] cleared_q;
  logic ready_q;
  assign ready_o = ready_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      cleared_q <= '0;
      ready_q   <= 1'b0;
    end else if (!ready_q) begin
      cleared_q <= cleared_q + 1'b1;
      ready_q   <= cleared_q == AddressW'(Words - 1);
    end
  end

  logic [Ports-1:0]               write;
  logic [Ports-1:0][AddressW-1:0] write_address;
  logic [Ports-1:0][   Lanes-1:0] write_lanes;
  logic [Ports-1:0][   Width-1:0] write_data;
  always_comb begin
    write         = write_i;
    write_address = write_address_i;
    write_lanes   = write_lanes_i;
    write_data    = write_data_i;
    if (!ready_q) begin
      write            = '0;
      write[0]         = 1'b1;
      write_address[0] = cleared_q;
      write_lanes[0]   = '1;
      write_data[0]    = '0;
    end
  end

`ifdef VERILATOR
  always_ff @(posedge clk_i) begin
    if (Ports == 1 && rst_ni && ready_q) assert (!(read_i[0] && write[0]))
      else $fatal(1, "ram: a read and a write meet at the one port of %m");
  end
`endif

  logic [Ports-1:0][Width-1:0] memory_data;
  if (Ports == 2) begin : gen_two
    ram_2r2w #(
        .Words(Words),
        .Width(Width),
        .LaneW(LaneW),
        .Trace(Trace)
    ) u_memory (
        .clk_i,
        .read_i,
        .read_address_i,
        .read_data_o    (memory_data),
        .write_i        (write),
        .write_address_i(write_address),
        .write_lanes_i  (write_lanes),
        .write_data_i   (write_data),
        .old_data_o
    );
  end else begin : gen_one
    ram_1rw #(
        .Words(Words),
        .Width(Width),
        .LaneW(LaneW),
        .Trace(Trace)
    ) u_memory (
        .clk_i,
        .enable_i (read_i[0] || write[0]),
        .write_i  (write[0]),
        .address_i(write[0] ? write_address[0] : read_address_i[0]),
        .lanes_i  (write_lanes[0]),
        .data_i   (write_data[0]),
        .data_o   (memory_data[0]),
        .old_data_o(old_data_o[0])
    );
  end

  always_comb begin
    new_data_o = '0;
    for (int port = 0; port < int'(Ports); port++) begin
      if (Trace && write[port]) begin
        for (int lane = 0; lane < int'(Lanes); lane++) begin
          new_data_o[port][lane*LaneW+:LaneW] =
              write_lanes[port][lane] ? write_data[port][lane*LaneW+:LaneW] : old_data_o[port][lane*LaneW+:LaneW];
        end
      end
    end
  end

  // The register after the memory.
  logic [Ports-1:0]            reading_q;
  logic [Ports-1:0][Width-1:0] data_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) reading_q <= '0;
    else reading_q <= read_i;
  end
  for (genvar port = 0; port < int'(Ports); port++) begin : gen_register
    always_ff @(posedge clk_i) begin
      if (reading_q[port]) data_q[port] <= memory_data[port];
    end
  end

  // The bypass: of the writes of cycles t and t + 1, for a read in t. Both are selected in t + 1. With one port no write is in t.
  if (Bypass == '0) begin : gen_no_bypass
    assign read_data_o = data_q;
  end else begin : gen_bypass
    logic [Ports-1:0][AddressW-1:0] read_address_q;
    logic [Ports-1:0] wrote_q;
    logic [Ports-1:0][AddressW-1:0] write_address_q;
    logic [Ports-1:0][Lanes-1:0] write_lanes_q;
    logic [Ports-1:0][Width-1:0] write_data_q;
    // Lanes that a write has changed, for each read port and write port.
    logic [Ports-1:0][Ports-1:0][Lanes-1:0] same, next;
    logic [Ports-1:0][Lanes-1:0] taken_q, taken_d;
    logic [Ports-1:0][Width-1:0] bypass_q, bypass_d;

    always_comb begin
      for (int port = 0; port < int'(Ports); port++) begin
        for (int writer = 0; writer < int'(Ports); writer++) begin
          same[port][writer] = write_lanes_q[writer] & Bypass &
              {Lanes{Ports == 2 && wrote_q[writer] && write_address_q[writer] == read_address_q[port]}};
          next[port][writer] = write_lanes[writer] & Bypass &
              {Lanes{write[writer] && write_address[writer] == read_address_q[port]}};
        end
        taken_d[port]  = '0;
        bypass_d[port] = '0;
        for (int lane = 0; lane < int'(Lanes); lane++) begin
          for (int writer = 0; writer < int'(Ports); writer++) begin
            if (same[port][writer][lane]) begin
              taken_d[port][lane] = 1'b1;
              bypass_d[port][lane*LaneW+:LaneW] = write_data_q[writer][lane*LaneW+:LaneW];
            end
          end
`ifndef MUTANT_2
          for (int writer = 0; writer < int'(Ports); writer++) begin
            if (next[port][writer][lane]) begin
              taken_d[port][lane] = 1'b1;
              bypass_d[port][lane*LaneW+:LaneW] = write_data[writer][lane*LaneW+:LaneW];
            end
          end
`endif
        end
      end
    end

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        wrote_q <= '0;
        taken_q <= '0;
      end else begin
        wrote_q <= write;
        for (int port = 0; port < int'(Ports); port++) begin
          if (reading_q[port]) taken_q[port] <= taken_d[port];
        end
      end
    end
    always_ff @(posedge clk_i) begin
      for (int port = 0; port < int'(Ports); port++) begin
        if (read_i[port]) read_address_q[port] <= read_address_i[port];
        if (write[port]) begin
          write_address_q[port] <= write_address[port];
          write_lanes_q[port]   <= write_lanes[port];
          write_data_q[port]    <= write_data[port];
        end
        if (reading_q[port]) bypass_q[port] <= bypass_d[port];
      end
    end

    always_comb begin
      for (int port = 0; port < int'(Ports); port++) begin
        for (int lane = 0; lane < int'(Lanes); lane++) begin
          read_data_o[port][lane*LaneW+:LaneW] = Bypass[lane] && taken_q[port][lane] ?
              bypass_q[port][lane*LaneW+:LaneW] : data_q[port][lane*LaneW+:LaneW];
        end
      end
    end
  end

endmodule
