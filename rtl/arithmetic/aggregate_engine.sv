// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Reduces operands into results: `Node::reduce_in_order` of crates/core/nic/src/aggregation/operations.rs. aggregate.sv checks the
// parameters.
//
// A pass is the words of one operand: each is read with the result so far, passes the lanes, and is written to the result. The first pass
// copies.
//
// 1. Passes of a record are in the order of its children. A word is not issued while the same word of the last pass is in the pipeline.
//    The next pass is selected shortly before the first word is written, so that it delays no other record.
// 2. A pass issues a word a cycle. It waits a cycle for a result that is read at its port. The two words of a pair never part: a result
//    is not read between them, and the second one is written directly after the first.
// 3. Short and long pipelines share the write port: a short pass waits until no long word would come out in the same cycle.
//
// Cycles of a word issued in c: read in c, at the lanes in c + 2, written in c + ShortDepth or c + LongDepth.

module aggregate_engine
  import arithmetic_pkg::*;
#(
    parameter int unsigned Records  = 4,
    parameter int unsigned Children = 8,
    parameter int unsigned MaxBytes = 256,
    parameter int unsigned DataW    = 64,
    localparam int unsigned RecordW = Records < 2 ? 1 : $clog2(Records),
    localparam int unsigned ChildW = Children < 2 ? 1 : $clog2(Children),
    localparam int unsigned WordW = MaxBytes * 8 < 2 * DataW ? 1 : $clog2(MaxBytes * 8 / DataW)
) (
    input logic clk_i,
    input logic rst_ni,

    // From aggregate_records, and back.
    input  logic       [Records-1:0]             eligible_i,
    input  logic       [Records-1:0][ChildW-1:0] child_i,
    input  reduction_t [Records-1:0]             reduction_i,
    input  logic       [Records-1:0][ WordW-1:0] last_word_i,
    output logic                                 start_o,
    output logic       [RecordW-1:0]             start_record_o,
    output logic                                 done_o,
    output logic       [RecordW-1:0]             done_record_o,

    input  logic can_read_i,       // 0: a result is read in this cycle, so no word is issued
    output logic between_pairs_o,  // a result may be read in this cycle

    // Reads of both banks.
    output logic               read_o,
    output logic [RecordW-1:0] read_record_o,
    output logic [ ChildW-1:0] read_child_o,
    output logic [  WordW-1:0] read_word_o,

    // To the lanes, a cycle before the operands.
    output plan_t plan_o,
    output logic  is_copy_o,
    output logic  is_odd_o,
    output logic  float_o,

    // A word from the lanes, to be written.
    output logic               write_o,
    output logic               write_long_o,  // from the long pipeline
    output logic [RecordW-1:0] write_record_o,
    output logic [ ChildW-1:0] write_child_o,
    output logic [  WordW-1:0] write_word_o
);

  localparam int unsigned Gap = LongDepth - ShortDepth;
  localparam int unsigned GapW = $clog2(Gap + 1);

  typedef struct packed {
    logic [RecordW-1:0] record;
    logic [ChildW-1:0]  child;
    logic [WordW-1:0]   last_word;
    reduction_t         reduction;
  } pass_t;

  typedef struct packed {
    logic               valid;
    logic               is_long;
    logic [RecordW-1:0] record;
    logic [ChildW-1:0]  child;
    logic [WordW-1:0]   word;
    logic               is_last;
  } word_t;

  // Selection of the next pass, round robin over the records.

  logic next_valid_q, next_valid_d;
  pass_t next_q, next_d;
  logic [RecordW-1:0] turn_q, turn_d, chosen;
  logic [Records-1:0] wait_q, wait_d;  // a pass whose first word is not written
  logic [Records-1:0] ready;
  logic take_next;

  assign ready = eligible_i & ~wait_q;
  always_comb begin
    chosen = '0;
    for (int number = int'(Records) - 1; number >= 0; number--) if (ready[number]) chosen = RecordW'(number);
    for (int number = int'(Records) - 1; number >= 0; number--) begin
      if (ready[number] && RecordW'(number) > turn_q) chosen = RecordW'(number);
    end
  end
  assign start_o = !next_valid_q && ready != 0;
  assign start_record_o = chosen;

  always_comb begin
    next_valid_d = next_valid_q && !take_next;
    next_d = next_q;
    turn_d = turn_q;
    if (start_o) begin
      next_valid_d = 1'b1;
      next_d = '{record: chosen, child: child_i[chosen], last_word: last_word_i[chosen], reduction: reduction_i[chosen]};
      turn_d = chosen;
    end
  end

  // The pass whose words are issued.

  logic active_q, active_d, is_copy_q, is_copy_d;
  logic [RecordW-1:0] record_q, record_d;
  logic [ChildW-1:0] child_q, child_d;
  logic [WordW-1:0] word_q, word_d, last_word_q, last_word_d;
  plan_t plan_q, plan_d;
  logic [GapW-1:0] gap_q, gap_d;
  logic is_long, is_pending, issue, is_last;

  assign is_long = plan_q.is_long && !is_copy_q;
  assign issue = active_q && can_read_i && !is_pending && (is_long || gap_q == 0);
  assign is_last = word_q == last_word_q;
  assign take_next = next_valid_q && (!active_q || (issue && is_last));
  assign between_pairs_o = !(active_q && DataW == 64 && plan_q.layout == PairOver && word_q[0]);

  decoded_t decoded;
  assign decoded = decode(next_q.reduction);
  always_comb begin
    active_d = active_q && !(issue && is_last);
    record_d = record_q;
    child_d = child_q;
    word_d = word_q;
    last_word_d = last_word_q;
    is_copy_d = is_copy_q;
    plan_d = plan_q;
    if (issue) word_d = word_q + 1'b1;
    if (take_next) begin
      active_d = 1'b1;
      record_d = next_q.record;
      child_d = next_q.child;
      word_d = '0;
      last_word_d = next_q.last_word;
      is_copy_d = next_q.child == 0;
      plan_d = decoded.plan;
    end
    gap_d = gap_q != 0 ? gap_q - 1'b1 : '0;
    if (issue && is_long) gap_d = GapW'(Gap);
  end

  assign read_o = issue;
  assign read_record_o = record_q;
  assign read_child_o = child_q;
  assign read_word_o = word_q;

  // Words in the pipeline. `word_at_q[n]`: issued n cycles ago. A short word leaves at ShortDepth.

  word_t word_at_q[1:LongDepth];
  plan_t plan1_q;
  logic is_copy1_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int stage = 1; stage <= int'(LongDepth); stage++) word_at_q[stage] <= '0;
    end else begin
      word_at_q[1] <= '{valid: issue, is_long: is_long, record: record_q, child: child_q, word: word_q, is_last: is_last};
      for (int stage = 2; stage <= int'(LongDepth); stage++) begin
        word_at_q[stage] <= word_at_q[stage-1];
        if (stage == int'(ShortDepth) + 1) word_at_q[stage].valid <= word_at_q[ShortDepth].valid && word_at_q[ShortDepth].is_long;
      end
    end
  end

  // A result that is written in this cycle cannot be read, either.
  always_comb begin
    is_pending = 1'b0;
    for (int stage = 1; stage <= int'(LongDepth); stage++) begin
`ifndef MUTANT_21
      is_pending |= word_at_q[stage].valid && word_at_q[stage].record == record_q && word_at_q[stage].word == word_q;
`endif
    end
  end

  always_ff @(posedge clk_i) begin
    plan1_q    <= plan_q;
    is_copy1_q <= is_copy_q;
  end

  assign plan_o    = plan1_q;
  assign is_copy_o = is_copy1_q;
  assign is_odd_o  = word_at_q[1].word[0];

  always_comb begin
    float_o = 1'b0;
    for (int stage = 1; stage < int'(LongDepth); stage++) float_o |= word_at_q[stage].valid && word_at_q[stage].is_long;
  end

  word_t written;
  assign write_long_o   = word_at_q[LongDepth].valid;
  assign written        = write_long_o ? word_at_q[LongDepth] : word_at_q[ShortDepth];
  assign write_o        = write_long_o || (word_at_q[ShortDepth].valid && !word_at_q[ShortDepth].is_long);
  assign write_record_o = written.record;
  assign write_child_o  = written.child;
  assign write_word_o   = written.word;

  // A selection in the cycle before the first word's write is safe: the pass is issued two cycles later, so it reads after the write.
  always_comb begin
    wait_d = wait_q;
    for (int stage = 1; stage <= int'(LongDepth); stage++) begin
      // The pipeline that is two stages from its write here. Earlier stages of a long word hold short ones, too.
      logic is_due;
      is_due = stage == int'(ShortDepth) - 2 ? !word_at_q[stage].is_long : stage == int'(LongDepth) - 2;
      if (word_at_q[stage].valid && is_due && word_at_q[stage].word == 0) wait_d[word_at_q[stage].record] = 1'b0;
    end
    if (start_o) wait_d[chosen] = 1'b1;
  end

  logic unused;
  assign unused = ^{decoded.status, decoded.size, written.valid, written.is_long};

  // An operand is done when its last word can be read.
  logic done_q;
  logic [RecordW-1:0] done_record_q;
  assign done_o = done_q;
  assign done_record_o = done_record_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      next_valid_q  <= 1'b0;
      next_q        <= '0;
      turn_q        <= '0;
      wait_q        <= '0;
      active_q      <= 1'b0;
      record_q      <= '0;
      child_q       <= '0;
      word_q        <= '0;
      last_word_q   <= '0;
      is_copy_q     <= 1'b0;
      plan_q        <= '0;
      gap_q         <= '0;
      done_q        <= 1'b0;
      done_record_q <= '0;
    end else begin
      next_valid_q  <= next_valid_d;
      next_q        <= next_d;
      turn_q        <= turn_d;
      wait_q        <= wait_d;
      active_q      <= active_d;
      record_q      <= record_d;
      child_q       <= child_d;
      word_q        <= word_d;
      last_word_q   <= last_word_d;
      is_copy_q     <= is_copy_d;
      plan_q        <= plan_d;
      gap_q         <= gap_d;
      done_q        <= write_o && written.is_last;
      done_record_q <= written.record;
    end
  end

endmodule
