// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The engine behind the ports that all units have: a command is a message and its buffer. Answers, trace and transfers are the engine's.
// The units check the parameters.
//
// A register before each buffer takes the message and gives the buffer its four frames, the first in the next cycle. So four buffers fill
// side by side, and a full buffer delays only its own commands and those after them.

module pac_unit
#(
    parameter int unsigned Entries     = 256,  // of pac.sv, as all below
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
    parameter bit          Trace       = 1     // 1: `trace_o` shows writes
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

  import engine_pkg::Frames;
  import engine_pkg::FrameW;

  logic [3:0] valid_q, ready, taken, last;
  logic [3:0][FrameW-1:0] frame;
  assign command_ready_o = !valid_q[command_i.buffer_] || last[command_i.buffer_];
  assign taken = command_valid_i && command_ready_o ? 4'd1 << command_i.buffer_ : '0;
  for (genvar number = 0; number < 4; number++) begin : gen_buffers
    logic [Frames-1:0][FrameW-1:0] message_q;
    logic [$clog2(Frames)-1:0] frame_q;
    assign frame[number] = message_q[0];
    assign last[number]  = valid_q[number] && ready[number] && frame_q == '1;
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        valid_q[number] <= 1'b0;
        frame_q         <= '0;
      end else begin
        if (taken[number]) valid_q[number] <= 1'b1;
        else if (last[number]) valid_q[number] <= 1'b0;
        if (valid_q[number] && ready[number]) frame_q <= frame_q + 1'b1;
      end
    end
    always_ff @(posedge clk_i) begin
      if (taken[number]) message_q <= command_i.message;
      else if (valid_q[number] && ready[number]) message_q <= {message_q[0], message_q[Frames-1:1]};
    end
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
      .frame_valid_i(valid_q),
      .frame_ready_o(ready),
      .frame_i      (frame),
      .answer_valid_o,
      .answer_o,
      .outside_i,
      .outside_o,
      .trace_o
  );

endmodule
