// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Shows the layouts of arithmetic_pkg to the test that compares them with crates/tools/rtl/src/arithmetic.rs: a word in which exactly one
// field of a struct is all ones. It has the ports of a unit, so the same shim drives it.

module aggregate_layout
  import arithmetic_pkg::*;
  import pac_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input  logic       command_valid_i,
    output logic       command_ready_o,
    input  logic [7:0] command_i,  // the field: structs and fields in the order of the package

    output logic                      answer_valid_o,
    output logic [$bits(trace_t)-1:0] answer_o,
    output logic                      trace_o
);

  command_t command;
  answer_t  answer;
  trace_t   trace;
  always_comb begin
    command = '0;
    answer  = '0;
    trace   = '0;
    case (command_i)
      8'd0: command.tag = '1;
      8'd1: command.kind = kind_e'('1);
      8'd2: command.record = '1;
      8'd3: command.child = '1;
      8'd4: command.children = '1;
      8'd5: command.operation = '1;
      8'd6: command.datatype = '1;
      8'd7: command.index = '1;
      8'd8: command.bytes = '1;
      8'd9: command.word = '1;
      8'd10: command.data = '1;
      8'd11: answer.tag = '1;
      8'd12: answer.status = status_e'('1);
      8'd13: answer.data = '1;
      8'd14: trace.retire_valid = '1;
      8'd15: trace.retire_tag = '1;
      8'd16: trace.write[0].valid = '1;
      8'd17: trace.write[0].bank = '1;
      8'd18: trace.write[0].address = '1;
      8'd19: trace.write[0].tag = '1;
      8'd20: trace.write[0].old_known = '1;
      8'd21: trace.write[0].old_word = '1;
      8'd22: trace.write[0].new_word = '1;
      default: ;
    endcase
  end

  localparam int unsigned AnswerW = $bits(trace_t);
  assign answer_o = AnswerW'(command) | AnswerW'(answer) | trace;
  assign answer_valid_o  = command_valid_i;
  assign command_ready_o = 1'b1;
  assign trace_o = 1'b0;

  logic unused;
  assign unused = ^{clk_i, rst_ni};

endmodule
