// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The engine behind the ports that all units have: a command is a message and the buffer into which its four frames go. It is accepted
// with its last frame, so a full buffer holds up the commands behind it. Answers, trace and transfers are the engine's.

module pac_unit
#(
    parameter int unsigned Entries     = 256,  // of pac.sv, as all that follow
    parameter int unsigned Headers     = 256,
    parameter int unsigned Buckets     = 512,
    parameter bit          KeySource   = 0,
    parameter int unsigned Ports       = 2,
    parameter int unsigned Descriptors = 256,
    parameter int unsigned Counters    = 512,
    parameter int unsigned Triggered   = 128,
    parameter int unsigned Portals     = 64,
    parameter int unsigned Queues      = 32,
    parameter int unsigned Pending     = 64,
    parameter int unsigned Messages    = 4,
    parameter int unsigned Transfers   = 4,
    parameter bit          Trace       = 1     // 1: `trace_o` shows what is written
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic                   command_valid_i,
    output logic                   command_ready_o,
    input  pac_unit_pkg::command_t command_i,

    output logic answer_valid_o,
    output engine_pkg::answer_t answer_o,
    input  engine_pkg::outside_in_t outside_i,
    output engine_pkg::outside_out_t outside_o,
    output engine_pkg::trace_t trace_o
);

  logic [$clog2(engine_pkg::Frames)-1:0] frame_q;
  logic [3:0] valid, ready;
  logic [engine_pkg::FrameW-1:0] frame;
  assign frame = command_i.message[engine_pkg::FrameW*frame_q+:engine_pkg::FrameW];
  assign valid = command_valid_i ? 4'd1 << command_i.buffer_ : '0;
  assign command_ready_o = ready[command_i.buffer_] && frame_q == '1;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) frame_q <= '0;
    else if (command_valid_i && ready[command_i.buffer_]) frame_q <= frame_q + 1'b1;
  end

  pac #(
      .Entries    (Entries),
      .Headers    (Headers),
      .Buckets    (Buckets),
      .KeySource  (KeySource),
      .Ports      (Ports),
      .Descriptors(Descriptors),
      .Counters   (Counters),
      .Triggered  (Triggered),
      .Portals    (Portals),
      .Queues     (Queues),
      .Pending    (Pending),
      .Messages   (Messages),
      .Transfers  (Transfers),
      .Trace      (Trace)
  ) u_pac (
      .clk_i,
      .rst_ni,
      .frame_valid_i(valid),
      .frame_ready_o(ready),
      .frame_i      ({4{frame}}),
      .answer_valid_o,
      .answer_o,
      .outside_i,
      .outside_o,
      .trace_o
  );

endmodule
