// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Shows the layouts of allocator_pkg to the test that compares them with crates/tools/rtl/src/allocator.rs: a word in which exactly one
// field of a struct is all ones. It has the ports of a unit, so the same shim drives it.

module allocator_layout
  import allocator_pkg::*;
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
  node_t    node;
  trace_t   trace;
  always_comb begin
    command = '0;
    answer  = '0;
    node    = '0;
    trace   = '0;
    case (command_i)
      8'd0: command.tag = '1;
      8'd1: command.operation = '1;
      8'd2: command.argument = '1;
      8'd3: answer.tag = '1;
      8'd4: answer.status = status_e'('1);
      8'd5: answer.value = '1;
      8'd6: node.allocated = '1;
      8'd7: node.size = '1;
      8'd8: trace.retire_valid = '1;
      8'd9: trace.retire_tag = '1;
      8'd10: trace.write[0].valid = '1;
      8'd11: trace.write[0].bank = '1;
      8'd12: trace.write[0].address = '1;
      8'd13: trace.write[0].tag = '1;
      8'd14: trace.write[0].old_known = '1;
      8'd15: trace.write[0].old_word = '1;
      8'd16: trace.write[0].new_word = '1;
      default: ;
    endcase
  end

  localparam int unsigned AnswerW = $bits(trace_t);
  assign answer_o = AnswerW'(command) | AnswerW'(answer) | AnswerW'(node) | trace;
  assign answer_valid_o  = command_valid_i;
  assign command_ready_o = 1'b1;
  assign trace_o = 1'b0;

  logic unused;
  assign unused = ^{clk_i, rst_ni};

endmodule
