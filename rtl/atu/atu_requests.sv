// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The request FIFO: `Pipeline::submit`. atu.sv checks the parameter.
//
// 1. Requests leave in the order of arrival. One may enter and one leave in each cycle.
// 2. The first four are in registers: a request that enters an empty FIFO is at the output in the next cycle. Others go through the bank.
// 3. A request counts until the requester is done with it (`done_i`), so that the FIFO is full when that of `nic` is.

module atu_requests
  import atu_pkg::*;
#(
    parameter int unsigned Requests = 64,  // 2 to 4,096
    localparam int unsigned CountW = $clog2(Requests + 1)
) (
    input logic clk_i,
    input logic rst_ni,

    output logic     room_o,
    input  logic     push_i,  // only with room_o
    input  request_t request_i,

    output logic     valid_o,
    output request_t request_o,
    input  logic     take_i,   // only with valid_o
    input  logic     done_i,

    output logic [CountW-1:0] count_o
);

  localparam int unsigned Front = 4;
  localparam int unsigned PlaceW = $clog2(Requests);
  localparam int unsigned Width = $bits(request_t);
  localparam logic [PlaceW-1:0] Last = PlaceW'(Requests - 1);
  localparam int unsigned FrontW = $clog2(Front + 1);

  logic ready, direct, write, read, arrives;
  logic [CountW-1:0] count_q;
  logic [CountW-1:0] kept_q;    // in the bank, or leaving it
  logic [CountW-1:0] unread_q;  // of these, not yet leaving
  logic [PlaceW-1:0] write_place_q, read_place_q;
  logic [1:0] reading_q;
  logic [FrontW-1:0] front_room;
  logic [Width-1:0] kept;

  assign room_o  = ready && count_q != CountW'(Requests);
  assign count_o = count_q;
  assign direct  = push_i && kept_q == '0 && front_room != '0;
  assign write   = push_i && !direct;
  assign read    = unread_q != '0 && front_room > FrontW'(reading_q[0]) + FrontW'(reading_q[1]);
  assign arrives = reading_q[1];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q       <= '0;
      kept_q        <= '0;
      unread_q      <= '0;
      write_place_q <= '0;
      read_place_q  <= '0;
      reading_q     <= '0;
    end else begin
      if (push_i != done_i) count_q <= push_i ? count_q + 1'b1 : count_q - 1'b1;
      if (write != arrives) kept_q <= write ? kept_q + 1'b1 : kept_q - 1'b1;
      if (write != read) unread_q <= write ? unread_q + 1'b1 : unread_q - 1'b1;
      if (write) write_place_q <= write_place_q == Last ? '0 : write_place_q + 1'b1;
      if (read) read_place_q <= read_place_q == Last ? '0 : read_place_q + 1'b1;
      reading_q <= {reading_q[0], read};
    end
  end

  logic [Width-1:0] unused_old, unused_new;
  bank #(
      .Words(Requests),
      .Width(Width),
      .LaneW(Width),
      .Ports(2)
  ) u_bank (
      .clk_i,
      .rst_ni,
      .ready_o        (ready),
      .read_i         (read),
      .read_address_i (read_place_q),
      .read_data_o    (kept),
      .write_i        (write),
      .write_address_i(write_place_q),
      .write_lanes_i  (1'b1),
      .write_data_i   (request_i),
      .old_o          (unused_old),
      .new_o          (unused_new)
  );

  fifo #(
      .Width(Width),
      .Depth(Front)
  ) u_front (
      .clk_i,
      .rst_ni,
      .push_i (direct || arrives),
      .data_i (arrives ? kept : request_i),
      .room_o (front_room),
      .valid_o,
      .data_o (request_o),
      .pop_i  (take_i)
  );

  logic unused;
  assign unused = ^{unused_old, unused_new};

endmodule
