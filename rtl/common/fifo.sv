// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A queue in registers: first in, first out. A Depth out of range stops elaboration.
//
// 1. A word that enters in cycle t is at the output from cycle t + 1 on, if nothing is before it.
// 2. `room_o` is the room at the beginning of the cycle.
//
// Registers: Depth words and three counts.

module fifo #(
    parameter int unsigned Width = 32,  // bits of a word, at least 1
    parameter int unsigned Depth = 4,   // 2 to 64
    localparam int unsigned CountW = $clog2(Depth + 1)
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic             push_i,  // only while `room_o` is not 0
    input  logic [Width-1:0] data_i,
    output logic [CountW-1:0] room_o,

    output logic             valid_o,
    output logic [Width-1:0] data_o,
    input  logic             pop_i    // only while `valid_o`
);

  if (Depth < 2 || Depth > 64) $error("fifo: Depth is %0d, and may be 2 to 64", Depth);

  localparam int unsigned PlaceW = $clog2(Depth);
  localparam logic [PlaceW-1:0] Last = PlaceW'(Depth - 1);

  logic [Depth-1:0][Width-1:0] words_q;
  logic [PlaceW-1:0] first_q, next_q;
  logic [CountW-1:0] count_q;

  assign valid_o = count_q != '0;
  assign data_o  = words_q[first_q];
  assign room_o  = CountW'(Depth) - count_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_q <= '0;
      next_q  <= '0;
      count_q <= '0;
    end else begin
      if (push_i) next_q <= next_q == Last ? '0 : next_q + 1'b1;
      if (pop_i) first_q <= first_q == Last ? '0 : first_q + 1'b1;
      if (push_i != pop_i) count_q <= push_i ? count_q + 1'b1 : count_q - 1'b1;
    end
  end
  always_ff @(posedge clk_i) if (push_i) words_q[next_q] <= data_i;

`ifdef VERILATOR
  always_ff @(posedge clk_i) begin
    assert (!rst_ni || !push_i || count_q != CountW'(Depth)) else $fatal(1, "fifo: %m is full");
    assert (!rst_ni || !pop_i || valid_o) else $fatal(1, "fifo: %m is empty");
  end
`endif

endmodule
