// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The queues of the three DMA ports: packets of puts, get headers, and replies with acknowledgements; payloads of puts and of replies to
// host memory. Each port has its own queues, so a stalled port delays no other. bank_fifo.sv and fifo.sv check the parameter.
//
// Packets lie in banks of SRAM, addresses of payloads in registers. Each queue has the word at its head in a register.

module transfer_queues
  import engine_pkg::*;
#(
    parameter int unsigned Transfers = 4,  // in each queue, a power of two, 2 to 64
    localparam int unsigned RoomW = $clog2(Transfers) + 1
) (
    input logic clk_i,
    input logic rst_ni,

    input logic     valid_i,  // the effects of a command; the queues that it uses have room
    input effects_t effects_i,

    output logic [RoomW-1:0] send_put_room_o,
    output logic [RoomW-1:0] send_get_room_o,
    output logic [RoomW-1:0] send_reply_room_o,
    output logic [RoomW-1:0] receive_put_room_o,
    output logic [RoomW-1:0] receive_reply_room_o,

    input  outside_in_t ready_i,
    output logic     send_put_valid_o,
    output send_t    send_put_o,
    output logic     send_get_valid_o,
    output send_t    send_get_o,
    output logic     send_reply_valid_o,
    output send_t    send_reply_o,
    output logic     receive_put_valid_o,
    output receive_t receive_put_o,
    output logic     receive_reply_valid_o,
    output receive_t receive_reply_o
);

  bank_fifo #(
      .Width($bits(send_t)),
      .LaneW($bits(send_t)),
      .Depth(Transfers)
  ) u_send_put (
      .clk_i,
      .rst_ni,
      .write_i(valid_i && effects_i.send_put),
      .lanes_i('1),
      .last_i (1'b1),
      .data_i (effects_i.send),
      .room_o (send_put_room_o),
      .valid_o(send_put_valid_o),
      .data_o (send_put_o),
      .pop_i  (send_put_valid_o && ready_i.send_put_ready)
  );
  bank_fifo #(
      .Width($bits(send_t)),
      .LaneW($bits(send_t)),
      .Depth(Transfers)
  ) u_send_get (
      .clk_i,
      .rst_ni,
      .write_i(valid_i && effects_i.send_get),
      .lanes_i('1),
      .last_i (1'b1),
      .data_i (effects_i.send),
      .room_o (send_get_room_o),
      .valid_o(send_get_valid_o),
      .data_o (send_get_o),
      .pop_i  (send_get_valid_o && ready_i.send_get_ready)
  );
  bank_fifo #(
      .Width($bits(send_t)),
      .LaneW($bits(send_t)),
      .Depth(Transfers)
  ) u_send_reply (
      .clk_i,
      .rst_ni,
      .write_i(valid_i && effects_i.send_reply),
      .lanes_i('1),
      .last_i (1'b1),
      .data_i (effects_i.send),
      .room_o (send_reply_room_o),
      .valid_o(send_reply_valid_o),
      .data_o (send_reply_o),
      .pop_i  (send_reply_valid_o && ready_i.send_reply_ready)
  );
  fifo #(
      .Width($bits(receive_t)),
      .Depth(Transfers)
  ) u_receive_put (
      .clk_i,
      .rst_ni,
      .push_i (valid_i && effects_i.receive_put),
      .data_i (effects_i.receive),
      .room_o (receive_put_room_o),
      .valid_o(receive_put_valid_o),
      .data_o (receive_put_o),
      .pop_i  (receive_put_valid_o && ready_i.receive_put_ready)
  );
  fifo #(
      .Width($bits(receive_t)),
      .Depth(Transfers)
  ) u_receive_reply (
      .clk_i,
      .rst_ni,
      .push_i (valid_i && effects_i.receive_reply),
      .data_i (effects_i.receive),
      .room_o (receive_reply_room_o),
      .valid_o(receive_reply_valid_o),
      .data_o (receive_reply_o),
      .pop_i  (receive_reply_valid_o && ready_i.receive_reply_ready)
  );

  logic unused;
  assign unused = ^{effects_i, ready_i};

endmodule
