// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Properties of ram.sv (docs/design/rtl-lockstep.md, "Proofs"), for one arbitrary word and lane, so for all.
//
// 1. A read in cycle t shows from t + 2 on, until the port's next read, the word after the writes of all cycles before t. In a lane with
//    bypass it has the writes of t and t + 1, too.
// 2. When the bank is ready after reset, its words are 0.
//
// Induction. The environment reads and writes freely, but two writes of a cycle do not meet in a lane, and one port has one access a
// cycle.
//
// Found: mutant 2, by both numbers of ports.

module ram_proof #(
    parameter int unsigned Ports  = 2,
    parameter bit          Bypass = 1
) (
    input logic                 clk_i,
    input logic                 rst_ni,
    input logic [Ports-1:0]      read_i,
    input logic [Ports-1:0][1:0] read_address_i,
    input logic [Ports-1:0]      write_i,
    input logic [Ports-1:0][1:0] write_address_i,
    input logic [Ports-1:0][1:0] write_lanes_i,
    input logic [Ports-1:0][3:0] write_data_i,
    input logic [1:0]           address_i,  // the followed word
    input logic                 lane_i      // and lane
);

  localparam int unsigned Words = 4;
  localparam int unsigned LaneW = 2;

  logic ready;
  logic [Ports-1:0][3:0] read_data, unused_old, unused_new;
  ram #(
      .Words (Words),
      .Width (2 * LaneW),
      .LaneW (LaneW),
      .Ports (Ports),
      .Trace (1'b0),
      .Bypass({2{Bypass}})
  ) u_ram (
      .clk_i,
      .rst_ni,
      .ready_o   (ready),
      .read_i,
      .read_address_i,
      .read_data_o(read_data),
      .write_i,
      .write_address_i,
      .write_lanes_i,
      .write_data_i,
      .old_data_o(unused_old),
      .new_data_o(unused_new)
  );

  // Reset is in the first cycle. The followed word and lane stay the same.
  logic first_q = 1'b1;
  logic [1:0] address_q;
  logic lane_q;
  always_ff @(posedge clk_i) begin
    first_q   <= 1'b0;
    address_q <= address_i;
    lane_q    <= lane_i;
  end
  always_comb begin
    assume (rst_ni == !first_q);
    if (!first_q) assume (address_i == address_q && lane_i == lane_q);
    assume (ready || (read_i == '0 && write_i == '0));
    if (Ports == 1) assume (!(read_i[0] && write_i[0]));
    if (Ports == 2) begin
      assume (write_i != '1 || write_address_i[0] != write_address_i[Ports-1] || (write_lanes_i[0] & write_lanes_i[Ports-1]) == '0);
    end
  end

  // The lane's value before the writes of this cycle, and before those of one and two cycles ago.
  logic [LaneW-1:0] value_q, value_d, value1_q, value2_q;
  always_comb begin
    value_d = value_q;
    for (int port = 0; port < int'(Ports); port++) begin
      if (write_i[port] && write_address_i[port] == address_i && write_lanes_i[port][lane_i]) begin
        value_d = write_data_i[port][lane_i*LaneW+:LaneW];
      end
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      value_q  <= '0;
      value1_q <= '0;
      value2_q <= '0;
    end else begin
      value_q  <= value_d;
      value1_q <= value_q;
      value2_q <= value1_q;
    end
  end

  // The port's last reads: of this word, one and two cycles ago; the expected output.
  logic [Ports-1:0] reads1_q, reads2_q, own1_q, own2_q, shows_q, shows;
  logic [Ports-1:0][LaneW-1:0] shown_q, shown;
  always_comb begin
    for (int port = 0; port < int'(Ports); port++) begin
      shows[port] = shows_q[port];
      shown[port] = shown_q[port];
      if (reads2_q[port]) begin
        shows[port] = own2_q[port];
        shown[port] = Bypass ? value_q : value2_q;
      end
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      reads1_q <= '0;
      reads2_q <= '0;
      own1_q   <= '0;
      own2_q   <= '0;
      shows_q  <= '0;
      shown_q  <= '0;
    end else begin
      reads1_q <= read_i;
      reads2_q <= reads1_q;
      for (int port = 0; port < int'(Ports); port++) own1_q[port] <= read_address_i[port] == address_i;
      own2_q   <= own1_q;
      shows_q  <= shows;
      shown_q  <= shown;
    end
  end

  // The lane in the memory.
  logic [LaneW-1:0] held;
  logic [Ports-1:0][LaneW-1:0] read_held;  // and the word read in the previous cycle, if any
  if (Ports == 2) begin : gen_two
    assign held = u_ram.gen_two.u_memory.memory[address_i][lane_i*LaneW+:LaneW];
  end else begin : gen_one
    assign held = u_ram.gen_one.u_memory.memory[address_i][lane_i*LaneW+:LaneW];
  end
  always_comb begin
    for (int port = 0; port < int'(Ports); port++) read_held[port] = u_ram.memory_data[port][lane_i*LaneW+:LaneW];
  end

  always_comb begin
    if (!first_q) begin
      for (int port = 0; port < int'(Ports); port++) begin
        // 1.
        if (shows[port]) assert (read_data[port][lane_i*LaneW+:LaneW] == shown[port]);
        // Conditions on registers for the induction.
        assert (u_ram.reading_q[port] == reads1_q[port]);
        if (reads1_q[port] && own1_q[port]) assert (read_held[port] == value1_q);
      end
      // 2.
      if (ready || u_ram.cleared_q > address_i) assert (held == value_q);
      assert (ready || (value_q == '0 && value1_q == '0 && value2_q == '0 && reads1_q == '0 && reads2_q == '0 && shows == '0));
    end
  end

endmodule
