// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A command or message buffer (seed 000, section 3.2.2): frames come in, whole messages go out, in order.
//
// 1. A message has four frames, the lowest bits first. Its frames are taken one a cycle while there is room.
// 2. `full_irq_o` is the interrupt of a full buffer: it is up while a frame waits for room.
// 3. The message at the output stays until `pop_i`; the next is there three cycles later at the earliest.
// 4. `number_o` counts messages: it says which payload belongs to the header.
//
// A bank of Depth words of 1,024 bits in four lanes, and its output register; no other copy of a message.

module message_buffer
  import engine_pkg::*;
#(
    parameter int unsigned Depth = 4  // messages, 2 to 4,096, a power of two
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic              frame_valid_i,
    output logic              frame_ready_o,
    input  logic [FrameW-1:0] frame_i,
    output logic              full_irq_o,

    output logic        valid_o,
    output message_t    message_o,
    output logic [31:0] number_o,
    input  logic        pop_i
);

  if (Depth < 2 || Depth > 4096 || (Depth & (Depth - 1)) != 0)
    $error("message_buffer: Depth is %0d, and may be a power of two from 2 to 4,096", Depth);

  localparam int unsigned PlaceW = $clog2(Depth);
  localparam int unsigned LaneW = $clog2(Frames);

  logic ready, read, take;
  logic [LaneW-1:0] lane_q;
  logic [PlaceW:0] stored_q;  // whole messages in the bank, with the one at the output
  logic [PlaceW-1:0] write_place_q, read_place_q;
  logic [1:0] reading_q;
  logic valid_q;
  logic [31:0] number_q;
  message_t unused_old, unused_new;

  assign frame_ready_o = ready && stored_q != (PlaceW + 1)'(Depth);
  assign full_irq_o    = ready && stored_q == (PlaceW + 1)'(Depth) && frame_valid_i;
  assign take          = frame_valid_i && frame_ready_o;
  assign read          = ready && stored_q != '0 && !valid_q && reading_q == '0;
  assign valid_o       = valid_q;
  assign number_o      = number_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      lane_q        <= '0;
      stored_q      <= '0;
      write_place_q <= '0;
      read_place_q  <= '0;
      reading_q     <= '0;
      valid_q       <= 1'b0;
      number_q      <= '0;
    end else begin
      if (take) lane_q <= lane_q + 1'b1;
      if (take && lane_q == '1) write_place_q <= write_place_q + 1'b1;
      if ((take && lane_q == '1) != pop_i) stored_q <= pop_i ? stored_q - 1'b1 : stored_q + 1'b1;
      reading_q <= {reading_q[0], read};
      if (reading_q[0]) valid_q <= 1'b1;
      else if (pop_i) valid_q <= 1'b0;
      if (pop_i) begin
        read_place_q <= read_place_q + 1'b1;
        number_q     <= number_q + 1'b1;
      end
    end
  end

  // The message lies in the bank's register from the second cycle behind its read on.
  bank #(
      .Words(Depth),
      .Width(MessageW),
      .LaneW(FrameW),
      .Ports(2)
  ) u_bank (
      .clk_i,
      .rst_ni,
      .ready_o        (ready),
      .read_i         (read),
      .read_address_i (read_place_q),
      .read_data_o    (message_o),
      .write_i        (take),
      .write_address_i(write_place_q),
      .write_lanes_i  (Frames'(1) << lane_q),
      .write_data_i   ({Frames{frame_i}}),
      .old_o          (unused_old),
      .new_o          (unused_new)
  );

  logic unused;
  assign unused = ^{unused_old, unused_new};

endmodule
