// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Shows the layouts of descriptors_pkg to the test that compares them with crates/tools/rtl/src/descriptors.rs: a word in which exactly
// one field of a struct is all ones. It has the ports of a unit, so the same shim drives it.

module descriptors_layout
  import descriptors_pkg::*;
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

  m0_t m0;
  m1_t m1;
  command_t command;
  answer_t answer;
  trace_t trace;
  always_comb begin
    m0 = '0;
    m1 = '0;
    command = '0;
    answer = '0;
    trace = '0;
    case (command_i)
      8'd0: m0.status = '1;
      8'd1: m0.generation = '1;
      8'd2: m0.length = '1;
      8'd3: m0.start = '1;
      8'd4: m1.spare = '1;
      8'd5: m1.options = '1;
      8'd6: m1.counter = '1;
      8'd7: m1.events = '1;
      8'd8: m1.link = '1;
      8'd9: command.tag = '1;
      8'd10: command.operation = operation_e'('1);
      8'd11: command.descriptor = '1;
      8'd12: command.start = '1;
      8'd13: command.length = '1;
      8'd14: command.options = '1;
      8'd15: command.events = '1;
      8'd16: command.counter = '1;
      8'd17: answer.tag = '1;
      8'd18: answer.status = records_pkg::status_e'('1);
      8'd19: answer.descriptor = '1;
      8'd20: answer.start = '1;
      8'd21: answer.length = '1;
      8'd22: answer.options = '1;
      8'd23: answer.events = '1;
      8'd24: answer.counter = '1;
      8'd25: trace.retire_valid = '1;
      8'd26: trace.retire_tag = '1;
      8'd27: trace.write[0].valid = '1;
      8'd28: trace.write[0].bank = '1;
      8'd29: trace.write[0].address = '1;
      8'd30: trace.write[0].tag = '1;
      8'd31: trace.write[0].old_known = '1;
      8'd32: trace.write[0].old_word = '1;
      8'd33: trace.write[0].new_word = '1;
      default: ;
    endcase
  end

  localparam int unsigned AnswerW = $bits(trace_t);
  assign answer_o = AnswerW'(m0) | AnswerW'(m1) | AnswerW'(command) | AnswerW'(answer) | trace;
  assign answer_valid_o  = command_valid_i;
  assign command_ready_o = 1'b1;
  assign trace_o         = 1'b0;

  logic unused;
  assign unused = ^{clk_i, rst_ni};

endmodule
