// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A queue in a bank of SRAM: first in, first out, for wide words. Parameters out of range stop elaboration.
//
// 1. A word is written by lanes, in one cycle or several; the write with `last_i` puts it into the queue.
// 2. The first word is at the bank's output, the only register that holds it. It arrives three cycles after its last write, or after the
//    `pop_i` of the word before, whichever is later.
// 3. `room_o` is the room at the beginning of the cycle. After reset the bank clears itself; until then there is no room.

module bank_fifo #(
    parameter int unsigned Width = 1024,  // bits of a word, a multiple of LaneW
    parameter int unsigned LaneW = 16,    // bits for each bit of a write mask; at most 64 lanes
    parameter int unsigned Depth = 4,     // words, a power of two, 2 to 4,096
    localparam int unsigned Lanes = Width / LaneW,
    localparam int unsigned CountW = $clog2(Depth) + 1
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic              write_i,  // only while `room_o` is not 0
    input  logic [ Lanes-1:0] lanes_i,
    input  logic              last_i,
    input  logic [ Width-1:0] data_i,
    output logic [CountW-1:0] room_o,

    output logic             valid_o,
    output logic [Width-1:0] data_o,
    input  logic             pop_i    // only while `valid_o`
);

  if (Depth < 2 || Depth > 4096 || (Depth & (Depth - 1)) != 0)
    $error("bank_fifo: Depth is %0d, and may be a power of two from 2 to 4,096", Depth);

  localparam int unsigned PlaceW = $clog2(Depth);

  logic ready, read, push;
  logic [CountW-1:0] count_q;  // whole words in the bank, including the one at the output
  logic [PlaceW-1:0] write_place_q, read_place_q;
  logic reading_q, valid_q;
  logic [Width-1:0] unused_old, unused_new;

  assign push    = write_i && last_i;
  assign read    = ready && count_q != '0 && !valid_q && !reading_q;
  assign room_o  = ready ? CountW'(Depth) - count_q : '0;
  assign valid_o = valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q       <= '0;
      write_place_q <= '0;
      read_place_q  <= '0;
      reading_q     <= 1'b0;
      valid_q       <= 1'b0;
    end else begin
      if (push) write_place_q <= write_place_q + 1'b1;
      if (push != pop_i) count_q <= pop_i ? count_q - 1'b1 : count_q + 1'b1;
      reading_q <= read;
      if (reading_q) valid_q <= 1'b1;
      else if (pop_i) valid_q <= 1'b0;
      if (pop_i) read_place_q <= read_place_q + 1'b1;
    end
  end

  bank #(
      .Words(Depth),
      .Width(Width),
      .LaneW(LaneW),
      .Ports(2)
  ) u_bank (
      .clk_i,
      .rst_ni,
      .ready_o        (ready),
      .read_i         (read),
      .read_address_i (read_place_q),
      .read_data_o    (data_o),
      .write_i,
      .write_address_i(write_place_q),
      .write_lanes_i  (lanes_i),
      .write_data_i   (data_i),
      .old_o          (unused_old),
      .new_o          (unused_new)
  );

`ifdef VERILATOR
  always_ff @(posedge clk_i) begin
    assert (!rst_ni || !write_i || room_o != '0) else $fatal(1, "bank_fifo: %m is full");
    assert (!rst_ni || !pop_i || valid_q) else $fatal(1, "bank_fifo: %m is empty");
  end
`endif

  logic unused;
  assign unused = ^{unused_old, unused_new};

endmodule
