// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Shows the layouts of counters_pkg to the test that compares them with crates/tools/rtl/src/counters.rs: a word in which exactly one
// field of a struct is all ones. It has the ports of a unit, so the same shim drives it.

module counters_layout
  import counters_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input  logic       command_valid_i,
    output logic       command_ready_o,
    input  logic [7:0] command_i,  // the field: structs and fields in the order of crates/tools/rtl

    output logic                      answer_valid_o,
    output logic [$bits(trace_t)-1:0] answer_o,
    output logic                      trace_o
);

  c0_t c0;
  c1_t c1;
  t0_t t0;
  body_t body;
  command_t command;
  answer_t answer;
  outside_in_t outside_in;
  outside_out_t outside_out;
  trace_t trace;
  always_comb begin
    c0 = '0;
    c1 = '0;
    t0 = '0;
    body = '0;
    command = '0;
    answer = '0;
    outside_in = '0;
    outside_out = '0;
    trace = '0;
    case (command_i)
      8'd0: c0.failure = '1;
      8'd1: c0.success = '1;
      8'd2: c1.generation = '1;
      8'd3: c1.status = '1;
      8'd4: c1.tail = '1;
      8'd5: c1.head = '1;
      8'd6: c1.threshold_next = '1;
      8'd7: t0.spare = '1;
      8'd8: t0.kind = '1;
      8'd9: t0.variant = '1;
      8'd10: t0.object = '1;
      8'd11: t0.counter = '1;
      8'd12: t0.generation = '1;
      8'd13: t0.status = '1;
      8'd14: t0.prev = '1;
      8'd15: t0.next = '1;
      8'd16: t0.threshold = '1;
      8'd17: body.t2.spare = '1;
      8'd18: body.t2.target = '1;
      8'd19: body.t2.initiator = '1;
      8'd20: body.t2.uid = '1;
      8'd21: body.t2.remote_offset = '1;
      8'd22: body.t2.length = '1;
      8'd23: body.t2.events = '1;
      8'd24: body.t2.counter = '1;
      8'd25: body.t2.options = '1;
      8'd26: body.t2.portal = '1;
      8'd27: body.t2.ack = '1;
      8'd28: body.t2.operation = '1;
      8'd29: body.t2.datatype = '1;
      8'd30: body.t1.start = '1;
      8'd31: body.t1.user_ptr = '1;
      8'd32: body.t1.header_data = '1;
      8'd33: body.t1.match_bits = '1;
      8'd34: command.tag = '1;
      8'd35: command.operation = operation_e'('1);
      8'd36: command.counter = '1;
      8'd37: command.threshold = '1;
      8'd38: command.kind = '1;
      8'd39: command.variant = '1;
      8'd40: command.object = '1;
      8'd41: command.armed = '1;
      8'd42: command.armed_generation = '1;
      8'd43: command.body = '1;
      8'd44: answer.tag = '1;
      8'd45: answer.status = records_pkg::status_e'('1);
      8'd46: answer.counter = '1;
      8'd47: answer.armed = '1;
      8'd48: answer.armed_generation = '1;
      8'd49: answer.success = '1;
      8'd50: answer.failure = '1;
      8'd51: outside_in.get_ready = '1;
      8'd52: outside_in.put_ready = '1;
      8'd53: outside_in.other_ready = '1;
      8'd54: outside_out.get_valid = '1;
      8'd55: outside_out.get = '1;
      8'd56: outside_out.put_valid = '1;
      8'd57: outside_out.put = '1;
      8'd58: outside_out.other_valid = '1;
      8'd59: outside_out.other.kind = '1;
      8'd60: outside_out.other.variant = '1;
      8'd61: outside_out.other.object = '1;
      8'd62: outside_out.other.body = '1;
      8'd63: trace.retire_valid = '1;
      8'd64: trace.retire_tag = '1;
      8'd65: trace.write[0].valid = '1;
      8'd66: trace.write[0].bank = '1;
      8'd67: trace.write[0].address = '1;
      8'd68: trace.write[0].tag = '1;
      8'd69: trace.write[0].old_known = '1;
      8'd70: trace.write[0].old_word = '1;
      8'd71: trace.write[0].new_word = '1;
      default: ;
    endcase
  end

  localparam int unsigned AnswerW = $bits(trace_t);
  assign answer_o = AnswerW'(c0) | AnswerW'(c1) | AnswerW'(t0) | AnswerW'(body) | AnswerW'(command) | AnswerW'(answer) | AnswerW'(outside_in) | AnswerW'(outside_out) | trace;
  assign answer_valid_o  = command_valid_i;
  assign command_ready_o = 1'b1;
  assign trace_o         = 1'b0;

  logic unused;
  assign unused = ^{clk_i, rst_ni};

endmodule
