// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The bank of common/ram.sv for the proof of the lists: its rules 1, 2 and 4 (proved by ram_proof.sv) in a form without a bypass, and
// without the clearing: its words are 0 after reset, and it is ready a cycle later.
//
// It keeps the bits of a word that vary in the proof: four bits of indices and links, which the lane's others repeat. Of the arrival
// lists it keeps the first word. An assertion catches a write of any other value, so nothing is lost.

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

  if (Trace || LaneW != 16 || (Width != 256 && Width != 32)) $error("lists_ram: it has the lists' words, without a trace");

  // The kept bits of a lane, and whether the others repeat the fourth: lanes with indices and links.
  function automatic logic [15:0] kept_bits(int lane);
    if (Width == 32) return 16'h000f;
    unique case (lane)
      0: return 16'h0107;              // K match_bits, A ignore_bits and header_data, B user_ptr
      4, 5, 8, 9: return 16'h000f;     // links; sources, offsets of messages, start, headers of an entry
      6: return 16'ha03f;              // K class, status, options; A local_offset and mlength; B min_free
      7: return 16'h1801;              // K options
      10: return 16'h0003;             // K length
      12: return 16'h000f;             // K sequence; A entry of a header
      13: return 16'h3801;             // A generation, operation
      default: return '0;
    endcase
  endfunction
  function automatic logic repeats(int lane);
    return Width == 32 || lane == 4 || lane == 5 || lane == 8 || lane == 9;
  endfunction
  function automatic logic [15:0] kept(int lane, logic [15:0] data);
    return (data & kept_bits(lane)) | (repeats(lane) && data[3] ? 16'hfff0 : 16'h0);
  endfunction

  localparam int unsigned WordsKept = Words > 8 ? 1 : Words;
  localparam int unsigned KeptW = WordsKept > 1 ? $clog2(WordsKept) : 1;

  logic [WordsKept-1:0][Width-1:0] memory_q;
  logic [Ports-1:0][Width-1:0] memory_data, memory_data_q, data_q;
  logic [Ports-1:0] reading_q;
  logic [Ports-1:0][KeptW-1:0] address, address_q, write_address;
  logic ready_q;
  assign ready_o = ready_q;

  always_comb begin
    for (int port = 0; port < int'(Ports); port++) begin
      address[port]       = WordsKept > 1 ? KeptW'(read_address_i[port]) : '0;
      write_address[port] = WordsKept > 1 ? KeptW'(write_address_i[port]) : '0;
    end
  end

  // A lane with bypass is read a cycle later, with the writes of that cycle.
  always_comb begin
    for (int port = 0; port < int'(Ports); port++) begin
      memory_data[port] = memory_data_q[port];
      for (int lane = 0; lane < int'(Lanes); lane++) begin
        if (Bypass[lane]) begin
          memory_data[port][lane*LaneW+:LaneW] = memory_q[address_q[port]][lane*LaneW+:LaneW];
          for (int writer = 0; writer < int'(Ports); writer++) begin
            if (write_i[writer] && write_lanes_i[writer][lane] && write_address[writer] == address_q[port]) begin
              memory_data[port][lane*LaneW+:LaneW] = write_data_i[writer][lane*LaneW+:LaneW];
            end
          end
        end
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      ready_q       <= 1'b0;
      memory_q      <= '0;
      reading_q     <= '0;
      address_q     <= '0;
      memory_data_q <= '0;
      data_q        <= '0;
    end else begin
      ready_q   <= 1'b1;
      reading_q <= read_i;
      for (int port = 0; port < int'(Ports); port++) begin
        if (read_i[port]) address_q[port] <= address[port];
        if (read_i[port]) memory_data_q[port] <= memory_q[address[port]];
        if (reading_q[port]) data_q[port] <= memory_data[port];
        for (int lane = 0; lane < int'(Lanes); lane++) begin
          if (write_i[port] && write_lanes_i[port][lane]) begin
            memory_q[write_address[port]][lane*LaneW+:LaneW] <= write_data_i[port][lane*LaneW+:LaneW];
          end
        end
      end
    end
  end

  // Bits that are not kept are never read, so they do not exist.
  always_comb begin
    for (int port = 0; port < int'(Ports); port++) begin
      for (int lane = 0; lane < int'(Lanes); lane++) begin
        read_data_o[port][lane*LaneW+:LaneW] = kept(lane, data_q[port][lane*LaneW+:LaneW]);
      end
    end
  end
  assign old_data_o  = '0;
  assign new_data_o  = '0;

  // Rule 4 of ram.sv; and that the kept bits are the written ones.
  always_comb begin
    if (rst_ni && ready_q) begin
      if (Ports == 1) assert (!(read_i[0] && write_i[0]));
      for (int port = 0; port < int'(Ports); port++) begin
        if (write_i[port]) assert (WordsKept > 1 ? 32'(write_address_i[port]) < Words : write_address_i[port] == '0);
        for (int lane = 0; lane < int'(Lanes); lane++) begin
          if (write_i[port] && write_lanes_i[port][lane]) begin
            assert (write_data_i[port][lane*LaneW+:LaneW] == kept(lane, write_data_i[port][lane*LaneW+:LaneW]));
          end
        end
      end
      if (Ports == 2 && write_i == '1 && write_address_i[0] == write_address_i[Ports-1]) begin
        assert ((write_lanes_i[0] & write_lanes_i[Ports-1]) == '0);
      end
    end
  end

endmodule
