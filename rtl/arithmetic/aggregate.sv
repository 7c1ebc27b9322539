// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The arithmetic of an aggregation node (seed 001, section III.F): children send vectors, word by word, and the unit reduces them in the
// order of the children, whatever the order of arrival. crates/core/nic/src/arithmetic (`apply`, `apply_located`), in the order of
// crates/core/nic/src/aggregation/operations.rs. Parameters out of range stop elaboration.
//
// sum, min, max, minloc, maxloc, band, bor, bxor, land, lor, lxor; integers of 8 to 64 bits, half, bfloat16, float, double.
//
//   Open                ─> aggregate_records ─ next operand in order ─> aggregate_engine
//   Header, Word ... ──┘          │ words                                  │ reads
//                                 └─> bank 0, operands ──┬──> aggregate_lanes ─> bank 1, results ─> Result
//                                                        └────────────────────────────┘
//
// 1. A word of a result depends on the operands and on the children's order, never on the order or the time of arrival.
// 2. Each command is answered once, in order, two cycles after its acceptance. After reset a command waits for the clearing of the banks;
//    a Result waits a cycle at most, so that the two words of a pair of 16 bytes stay together.
// 3. A word may be accepted in every cycle, and an operand's words are reduced at one a cycle at the same time, in integers and in
//    floating point alike.
//
// Cycles of an operand whose last word is accepted in cycle 0, if nothing is before it: its first word is issued in cycle 5, and written
// in 9 (integers, minima, maxima, pairs, the first operand) or in 13 (floating-point sums); the others follow, a word a cycle. A Result
// that is accepted a cycle after the last write has it. A pass of a record starts at the earliest 5 (9) cycles after its last one; a pass
// of another record without a gap, but a short pass 4 cycles after a long one.
//
// Banks: operands, Records x Children x words; results, Records x words. Each needs a port to read and one to write.

module aggregate
  import arithmetic_pkg::*;
  import pac_pkg::*;
#(
    // Concurrent operations: 2 to 16.
    parameter int unsigned Records  = 4,
    // Maximum children of an operation: a power of two, 2 to 64. Open answers NoRoom for more.
    parameter int unsigned Children = 8,
    // Maximum bytes of an operand: a power of two, two words to 256 bytes. A longer operand fails with TooLong.
    parameter int unsigned MaxBytes = 256,
    // Bits of a word: 64 or 128.
    parameter int unsigned DataW    = 64,
    // 1: `trace_o` shows writes.
    parameter bit          Trace    = 1
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic     command_valid_i,
    output logic     command_ready_o,
    input  command_t command_i,

    output logic    answer_valid_o,
    output answer_t answer_o,
    output trace_t  trace_o
);

  if (Records < 2 || Records > 16) $error("aggregate: Records is %0d, and may be 2 to 16", Records);
  if (Children < 2 || Children > 64 || 2 ** $clog2(Children) != Children)
    $error("aggregate: Children is %0d, and may be a power of two from 2 to 64", Children);
  if (DataW != 64 && DataW != 128) $error("aggregate: DataW is %0d, and may be 64 or 128", DataW);
  if (MaxBytes < DataW / 4 || MaxBytes > 256 || 2 ** $clog2(MaxBytes) != MaxBytes)
    $error("aggregate: MaxBytes is %0d, and may be a power of two from %0d (two words) to 256", MaxBytes, DataW / 4);

  localparam int unsigned RecordW = Records < 2 ? 1 : $clog2(Records);
  localparam int unsigned ChildW = Children < 2 ? 1 : $clog2(Children);
  localparam int unsigned WordW = MaxBytes * 8 < 2 * DataW ? 1 : $clog2(MaxBytes * 8 / DataW);
  localparam int unsigned ResultW = RecordW + WordW;
  localparam int unsigned OperandW = ResultW + ChildW;

  // A command in its cycle 1, and its answer in cycle 2.

  logic operands_ready, results_ready, ready_q, between_pairs, accept, read_result;
  logic command_valid_q, answer_valid_q;
  logic [DataW-1:0] data_q;
  status_e status, status_q;
  tag_t command_tag_q, tag_q;
  logic [DataW-1:0] result_data;

  assign command_ready_o = ready_q && (command_i.kind != Result || between_pairs);
  assign accept = command_valid_i && command_ready_o;
  assign read_result = accept && command_i.kind == Result;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      ready_q         <= 1'b0;
      command_valid_q <= 1'b0;
      answer_valid_q  <= 1'b0;
    end else begin
      ready_q         <= operands_ready && results_ready;
      command_valid_q <= accept;
      answer_valid_q  <= command_valid_q;
    end
  end
  always_ff @(posedge clk_i) begin
    if (accept) begin
      data_q        <= command_i.data[DataW-1:0];
      command_tag_q <= command_i.tag;
    end
    if (command_valid_q) begin
      status_q <= status;
      tag_q    <= command_tag_q;
    end
  end

  assign answer_valid_o = answer_valid_q;
  assign answer_o = '{tag: tag_q, status: status_q, data: data_t'(result_data)};

  // Records and engine.

  logic write_operand, arrives;
  logic [RecordW-1:0] operand_record;
  logic [ChildW-1:0] operand_child;
  logic [WordW-1:0] operand_word;
  logic [Records-1:0] eligible;
  logic [Records-1:0][ChildW-1:0] next_child;
  reduction_t [Records-1:0] reduction;
  logic [Records-1:0][WordW-1:0] last_word;
  logic start, done;
  logic [RecordW-1:0] start_record, done_record;

  aggregate_records #(
      .Records (Records),
      .Children(Children),
      .MaxBytes(MaxBytes),
      .DataW   (DataW)
  ) u_records (
      .clk_i,
      .rst_ni,
      .command_valid_i(accept),
      .command_i,
      .status_o       (status),
      .write_o        (write_operand),
      .write_record_o (operand_record),
      .write_child_o  (operand_child),
      .write_word_o   (operand_word),
      .arrives_o      (arrives),
      .eligible_o     (eligible),
      .child_o        (next_child),
      .reduction_o    (reduction),
      .last_word_o    (last_word),
      .start_i        (start),
      .start_record_i (start_record),
      .done_i         (done),
      .done_record_i  (done_record)
  );

  logic issue, is_copy, is_odd, float, write_result, write_long;
  logic [RecordW-1:0] issue_record, result_record;
  logic [ChildW-1:0] issue_child, result_child;
  logic [WordW-1:0] issue_word, result_word;
  plan_t plan;

  aggregate_engine #(
      .Records (Records),
      .Children(Children),
      .MaxBytes(MaxBytes),
      .DataW   (DataW)
  ) u_engine (
      .clk_i,
      .rst_ni,
      .eligible_i     (eligible),
      .child_i        (next_child),
      .reduction_i    (reduction),
      .last_word_i    (last_word),
      .start_o        (start),
      .start_record_o (start_record),
      .done_o         (done),
      .done_record_o  (done_record),
      .can_read_i     (!read_result),
      .between_pairs_o(between_pairs),
      .read_o         (issue),
      .read_record_o  (issue_record),
      .read_child_o   (issue_child),
      .read_word_o    (issue_word),
      .plan_o         (plan),
      .is_copy_o      (is_copy),
      .is_odd_o       (is_odd),
      .float_o        (float),
      .write_o        (write_result),
      .write_long_o   (write_long),
      .write_record_o (result_record),
      .write_child_o  (result_child),
      .write_word_o   (result_word)
  );

  // Banks and lanes.

  logic [DataW-1:0] operand_data, short_data, long_data, written, unused_operand, unused_result;
  logic [1:0][DataW-1:0] operand_before, operand_after, result_before, result_after;
  logic [ResultW-1:0] result_read_address;
  assign written = write_long ? long_data : short_data;
  assign result_read_address = read_result ? {RecordW'(command_i.record), WordW'(command_i.word)} : {issue_record, issue_word};

  ram #(
      .Words(Records << (ChildW + WordW)),
      .Width(DataW),
      .LaneW(DataW),
      .Ports(2),
      .Trace(Trace)
  ) u_operands (
      .clk_i,
      .rst_ni,
      .ready_o        (operands_ready),
      .read_i         ({1'b0, issue}),
      .read_address_i ({OperandW'(0), issue_record, issue_child, issue_word}),
      .read_data_o    ({unused_operand, operand_data}),
      .write_i        ({1'b0, write_operand}),
      .write_address_i({OperandW'(0), operand_record, operand_child, operand_word}),
      .write_lanes_i  ({1'b0, write_operand}),
      .write_data_i   ({DataW'(0), data_q}),
      .old_data_o     (operand_before),
      .new_data_o     (operand_after)
  );

  ram #(
      .Words(Records << WordW),
      .Width(DataW),
      .LaneW(DataW),
      .Ports(2),
      .Trace(Trace)
  ) u_results (
      .clk_i,
      .rst_ni,
      .ready_o        (results_ready),
      .read_i         ({1'b0, issue || read_result}),
      .read_address_i ({ResultW'(0), result_read_address}),
      .read_data_o    ({unused_result, result_data}),
      .write_i        ({1'b0, write_result}),
      .write_address_i({ResultW'(0), result_record, result_word}),
      .write_lanes_i  ({1'b0, write_result}),
      .write_data_i   ({DataW'(0), written}),
      .old_data_o     (result_before),
      .new_data_o     (result_after)
  );

  aggregate_lanes #(
      .DataW(DataW)
  ) u_lanes (
      .clk_i,
      .float_i  (float),
      .plan_i   (plan),
      .is_copy_i(is_copy),
      .is_odd_i (is_odd),
      .target_i (result_data),
      .operand_i(operand_data),
      .short_o  (short_data),
      .long_o   (long_data)
  );


  logic unused;
  assign unused = ^{unused_operand, unused_result, operand_before, operand_after, result_before, result_after};

  if (Trace) begin : gen_trace
    tag_t [Records-1:0][Children-1:0] arrival_q;
    always_ff @(posedge clk_i) begin
      if (arrives) arrival_q[operand_record][operand_child] <= command_tag_q;
    end
    always_comb begin
      trace_o = '0;
      trace_o.retire_valid = answer_valid_q;
      trace_o.retire_tag = answer_valid_q ? tag_q : '0;
      if (write_operand) begin
        trace_o.write[0] = '{valid: 1'b1, bank: 4'd0, address: index_t'({operand_record, operand_child, operand_word}),
                             tag: command_tag_q, old_known: 1'b1, old_word: data_t'(operand_before[0]),
                             new_word: data_t'(operand_after[0])};
      end
      if (write_result) begin
        trace_o.write[1] = '{valid: 1'b1, bank: 4'd1, address: index_t'({result_record, result_word}),
                             tag: arrival_q[result_record][result_child], old_known: 1'b1,
                             old_word: data_t'(result_before[0]), new_word: data_t'(result_after[0])};
      end
    end
  end else begin : gen_no_trace
    assign trace_o = '0;
    logic unused_trace;
    assign unused_trace = ^{arrives, result_child};
  end

endmodule
