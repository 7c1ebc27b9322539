// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Shows the layouts of lists_pkg to the test that compares them with crates/tools/rtl/src/lists.rs: a word in which exactly one field of
// a struct is all ones. It has the ports of a unit, so the same shim drives it.

module lists_layout
  import lists_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input  logic       command_valid_i,
    output logic       command_ready_o,
    input  logic [7:0] command_i,  // the field: structs and fields in the order of the test

    output logic                      answer_valid_o,
    output logic [$bits(trace_t)-1:0] answer_o,
    output logic                      trace_o
);

  command_t command;
  answer_t answer;
  plan_t plan;
  key_t key;
  entry_a_t entry_a;
  header_a_t header_a;
  entry_b_t entry_b;
  header_b_t header_b;
  chain_t chain;
  trace_t trace;
  always_comb begin
    command = '0;
    answer = '0;
    plan = '0;
    key = '0;
    entry_a = '0;
    header_a = '0;
    entry_b = '0;
    header_b = '0;
    chain = '0;
    trace = '0;
    case (command_i)
      8'd0: command.tag = '1;
      8'd1: command.kind = kind_e'('1);
      8'd2: command.overflow = '1;
      8'd3: command.delete_found = '1;
      8'd4: command.portal = '1;
      8'd5: command.options = '1;
      8'd6: command.match_bits = '1;
      8'd7: command.ignore_bits = '1;
      8'd8: command.source = '1;
      8'd9: command.source_ignore = '1;
      8'd10: command.start = '1;
      8'd11: command.length = '1;
      8'd12: command.min_free = '1;
      8'd13: command.user_ptr = '1;
      8'd14: command.uid = '1;
      8'd15: command.counter = '1;
      8'd16: command.remote_offset = '1;
      8'd17: command.header_data = '1;
      8'd18: command.token = '1;
      8'd19: command.operation = '1;
      8'd20: command.controlled = '1;
      8'd21: command.room = '1;
      8'd22: command.entry_reference = '1;
      8'd23: answer.tag = '1;
      8'd24: answer.status = answer_e'('1);
      8'd25: answer.last = '1;
      8'd26: answer.overflow = '1;
      8'd27: answer.index = '1;
      8'd28: answer.entry_reference = '1;
      8'd29: answer.key = '1;
      8'd30: answer.a = '1;
      8'd31: answer.b = '1;
      8'd32: plan.valid = '1;
      8'd33: plan.tag = '1;
      8'd34: plan.offset = '1;
      8'd35: plan.mlength = '1;
      8'd36: plan.unlinks = '1;
      8'd37: plan.freed = '1;
      8'd38: plan.kept = '1;
      8'd39: plan.header = '1;
      8'd40: key.sequence_number = '1;
      8'd41: key.length = '1;
      8'd42: key.prev = '1;
      8'd43: key.next = '1;
      8'd44: key.options = '1;
      8'd45: key.portal = '1;
      8'd46: key.status = status_e'('1);
      8'd47: key.class_number = '1;
      8'd48: key.source = '1;
      8'd49: key.match_bits = '1;
      8'd50: entry_a.spare = '1;
      8'd51: entry_a.generation = '1;
      8'd52: entry_a.counter = '1;
      8'd53: entry_a.start = '1;
      8'd54: entry_a.local_offset = '1;
      8'd55: entry_a.source_ignore = '1;
      8'd56: entry_a.ignore_bits = '1;
      8'd57: header_a.spare = '1;
      8'd58: header_a.generation = '1;
      8'd59: header_a.reserved = '1;
      8'd60: header_a.operation = '1;
      8'd61: header_a.entry = '1;
      8'd62: header_a.start = '1;
      8'd63: header_a.mlength = '1;
      8'd64: header_a.remote_offset = '1;
      8'd65: header_a.header_data = '1;
      8'd66: entry_b.spare = '1;
      8'd67: entry_b.headers = '1;
      8'd68: entry_b.min_free = '1;
      8'd69: entry_b.uid = '1;
      8'd70: entry_b.user_ptr = '1;
      8'd71: header_b.spare = '1;
      8'd72: header_b.class_prev = '1;
      8'd73: header_b.class_next = '1;
      8'd74: header_b.token = '1;
      8'd75: header_b.uid = '1;
      8'd76: chain.tail = '1;
      8'd77: chain.head = '1;
      8'd78: trace.retire_valid = '1;
      8'd79: trace.retire_tag = '1;
      8'd80: trace.write[0].valid = '1;
      8'd81: trace.write[0].bank = bank_e'('1);
      8'd82: trace.write[0].address = '1;
      8'd83: trace.write[0].tag = '1;
      8'd84: trace.write[0].old_known = '1;
      8'd85: trace.write[0].old_word = '1;
      8'd86: trace.write[0].new_word = '1;
      default: ;
    endcase
  end

  assign command_ready_o = 1'b1;
  assign answer_valid_o  = command_valid_i;
  assign answer_o = $bits(trace_t)'(command) |
      $bits(trace_t)'(answer) |
      $bits(trace_t)'(plan) |
      $bits(trace_t)'(key) |
      $bits(trace_t)'(entry_a) |
      $bits(trace_t)'(header_a) |
      $bits(trace_t)'(entry_b) |
      $bits(trace_t)'(header_b) |
      $bits(trace_t)'(chain) |
      $bits(trace_t)'(trace);
  assign trace_o = 1'b0;

  logic unused;
  assign unused = clk_i ^ rst_ni;

endmodule
