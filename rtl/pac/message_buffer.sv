// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A command or message buffer (seed 000, section 3.2.2): frames go in, whole messages come out, in order. bank_fifo.sv checks the
// parameter.
//
// 1. A message has four frames, the lowest bits first. Frames are accepted one a cycle while there is room.
// 2. `full_irq_o` is the interrupt of a full buffer: it is set while a frame waits for room.
// 3. The message at the output stays until `pop_i`; the next arrives at least three cycles later.
// 4. `number_o` counts messages: it identifies the payload of a header.

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

  logic take;
  logic [$clog2(Frames)-1:0] lane_q;
  logic [$clog2(Depth):0] room;
  logic [31:0] number_q;

  assign frame_ready_o = room != '0;
  assign full_irq_o    = room == '0 && frame_valid_i;
  assign take          = frame_valid_i && frame_ready_o;
  assign number_o      = number_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      lane_q   <= '0;
      number_q <= '0;
    end else begin
      if (take) lane_q <= lane_q + 1'b1;
      if (pop_i) number_q <= number_q + 1'b1;
    end
  end

  bank_fifo #(
      .Width(MessageW),
      .LaneW(FrameW),
      .Depth(Depth)
  ) u_messages (
      .clk_i,
      .rst_ni,
      .write_i(take),
      .lanes_i(Frames'(1) << lane_q),
      .last_i (lane_q == '1),
      .data_i ({Frames{frame_i}}),
      .room_o (room),
      .valid_o,
      .data_o (message_o),
      .pop_i
  );

endmodule
