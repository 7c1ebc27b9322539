// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Shows the layouts of atu_pkg to the test that compares them with crates/tools/rtl/src/atu: a word in which exactly one field of a
// struct is all ones. It has the ports of a unit, so the same shim drives it.

module atu_layout
  import atu_pkg::*;
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

  command_t command;
  answer_t answer;
  outside_in_t in;
  outside_out_t out;
  tlb_t tlb;
  trace_t trace;
  always_comb begin
    command = '0;
    answer  = '0;
    in      = '0;
    out     = '0;
    tlb     = '0;
    trace   = '0;
    case (command_i)
      8'd0: command.operation = operation_e'('1);
      8'd1: command.word = '1;
      8'd2: answer.done = '1;
      8'd3: answer.done_tag = '1;
      8'd4: answer.malformed = '1;
      8'd5: answer.read_refused = '1;
      8'd6: answer.answer_refused = '1;
      8'd7: answer.hit = '1;
      8'd8: answer.miss = '1;
      8'd9: answer.fault = '1;
      8'd10: answer.flushed = '1;
      8'd11: answer.units_flushed = '1;
      8'd12: in.tables = '1;
      8'd13: in.units_ready = '1;
      8'd14: in.memory_ready = '1;
      8'd15: in.read_valid = '1;
      8'd16: in.read_tag = '1;
      8'd17: in.read_word = '1;
      8'd18: in.answer_valid = '1;
      8'd19: in.answer = '1;
      8'd20: out.units_valid = '1;
      8'd21: out.units_peer = '1;
      8'd22: out.units = '1;
      8'd23: out.memory_valid = '1;
      8'd24: out.memory_tag = '1;
      8'd25: out.memory_page = '1;
      8'd26: tlb.page = '1;
      8'd27: tlb.entry.size = '1;
      8'd28: tlb.entry.target = '1;
      8'd29: tlb.entry.vpid = '1;
      8'd30: tlb.entry.rights = '1;
      8'd31: trace.submitted = '1;
      8'd32: trace.requested = '1;
      8'd33: trace.responded = '1;
      8'd34: trace.requests = '1;
      8'd35: trace.slots = '1;
      8'd36: trace.pending = '1;
      8'd37: trace.retire_valid = '1;
      8'd38: trace.retire_tag = '1;
      8'd39: trace.write[0].valid = '1;
      8'd40: trace.write[0].bank = '1;
      8'd41: trace.write[0].address = '1;
      8'd42: trace.write[0].tag = '1;
      8'd43: trace.write[0].old_known = '1;
      8'd44: trace.write[0].old_word = '1;
      8'd45: trace.write[0].new_word = '1;
      default: ;
    endcase
  end

  localparam int unsigned AnswerW = $bits(trace_t);
  assign answer_o = AnswerW'(command) | AnswerW'(answer) | AnswerW'(in) | AnswerW'(out) | AnswerW'(tlb) | trace;
  assign answer_valid_o  = command_valid_i;
  assign command_ready_o = 1'b1;
  assign trace_o         = 1'b0;

  logic unused;
  assign unused = ^{clk_i, rst_ni};

endmodule
