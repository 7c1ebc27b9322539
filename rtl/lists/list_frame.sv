// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The common case, overlapped: messages whose entry is the head of its chain, and appends without a matching unexpected header. All other
// commands go to the sequencer, which then has the banks alone. lists.sv checks the parameters.
//
// A command is accepted whenever the register for the next command is free, as another register shows. It starts in the cycle of its
// acceptance, or waits in that register; either way it is read there in the cycle after its start.
//
// Cycles of a message that starts in cycle 0, with c classes in use (D = c + 3, 4 with one class):
//
//   0 to c - 1   hash, read of a bucket
//   2 to c + 1   read of the head
//   4 to D       compare; in D the answer, and the next message starts
//   D + 1        writes: bucket, K, A
//
// Cycles of an append: 0 hash, read of the headers' bucket; 1 class, reads of the bucket and of the free record; 2 decision; 3 writes and
// answer. It starts in cycle D - 2 of a message, or when none is in progress, so that both decide in one cycle and write in the next.
//
// 1. A message decides before the append beside it. If it must go to the sequencer, the append restarts after it.
// 2. A message starts in an append's cycle 2 or later, so the bypass of the entry chains shows it the append's writes.
// 3. An append beside a message that uses its entry up takes that entry's record, as it would after it (the free list is a stack); the
//    record's own writes are then the append's.
// 4. With banks of one port no append is beside a message: it starts when the message writes, and its own writes take the cycles 3 and 4;
//    the next message starts in the latter. So only the first port has accesses in a cycle.
// 5. Nothing is undone. The banks' outputs keep the records that were read until the writes are made. A read of a chain for a message
//    that does not start does no harm; so the completion of the previous message, a late signal, selects no read.

module list_frame
  import lists_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Entries   = 256,
    parameter int unsigned Buckets   = 512,
    parameter bit          KeySource = 0,
    parameter bit          HashCrc   = 0,
    parameter int unsigned Ports     = 2,  // of the banks
    localparam int unsigned BucketW = $clog2(Buckets)
) (
    input logic clk_i,
    input logic rst_ni,
    input logic ready_i,  // the banks are cleared

    input  logic     command_valid_i,
    output logic     command_ready_o,
    input  command_t command_i,

    output logic    answer_valid_o,
    output answer_t answer_o,
    output plan_t   plan_o,
    output logic    retire_valid_o,
    output tag_t    retire_tag_o,

    output access_t  access_o,
    output read_t    append_chain_o,   // second read port of the entry chains
    output read_t    append_record_o,  // second read port of A
    input  key_t     key_i,
    input  logic     accepts_i,  // the entry in K and A accepts the message, apart from list and portal table entry
    input  entry_a_t a_i,
    input  entry_b_t b_i,
    input  chain_t   chain_i,
    input  chain_t   append_chain_i,
    input  chain_t   header_chain_i,
    input  entry_a_t append_record_i,

    input  logic   free_valid_i,
    input  logic   free_full_i,
    input  index_t free_index_i,
    output logic   free_take_o,
    output logic   free_give_o,
    output index_t free_give_index_o,

    // Classes and headers.
    input  logic     [Classes:0]   next_active_i,
    input  pattern_t [Classes-1:0] pattern_i,
    output pattern_t               append_pattern_o,  // of the append that started in the previous cycle
    input  class_t                 append_class_i,
    output logic                   count_o,
    output logic                   discount_o,
    output class_t                 discount_class_o,
    input  logic                   has_headers_i,
    output logic                   header_pattern_set_o,
    input  pattern_t               header_pattern_i,

    // The order of list operations.
    input  logic [63:0] sequence_i,
    output logic        sequence_next_o,

    input  logic     sequencer_busy_i,
    output start_t   start_o,
    output logic     commit_o,         // the frame's writes are made in this cycle
    output selects_t selects_o,        // the writer, by bank
    output logic     idle_o,           // nothing is in progress here
    output command_t message_o,        // while the sequencer delivers it
    output command_t other_o,          // while the sequencer executes it
    output class_t   append_class_o,
    input  logic     append_resume_i,  // the headers of the current append are searched: insert it
    input  length_t  append_offset_i,  // with this local offset
    input  logic     append_reserved_i,        // in this record, which is off the free list
    input  index_t   append_reserved_index_i,
    input  logic     append_over_i     // the current append is done
);

  function automatic logic is_entry(index_t index);
    return index < index_t'(Entries);
  endfunction

  // The next command, the current message, and the current append or other command.
  command_t next_q, message_q, other_q;
  assign message_o = message_q;
  assign other_o   = other_q;

  // `next_valid_q`: a command waits in `next_q`. `next_full_q`: `next_q` is needed in this cycle, so no command is accepted. An offered
  // command may start.
  logic next_valid_q, next_valid_d, next_full_q, next_full_d, offered;
  kind_e offered_kind;
  assign command_ready_o = !next_full_q;
  assign offered         = next_valid_q || (command_valid_i && !next_full_q);
  assign offered_kind    = next_full_q ? next_q.kind : command_i.kind;

  // Commands that started in the previous cycle.
  logic started_message_q, started_append_q, started_other_q;

  // ---- Messages: stages 0 (bucket), 2 (record), 4 (compare).

  typedef struct packed {
    logic               valid;
    logic               last;     // the message's last class
    logic [BucketW-1:0] bucket;
  } bucket_stage_t;
  typedef struct packed {
    logic               valid;
    logic               last;
    logic               present;  // the bucket has a head
    index_t             index;
    logic [BucketW-1:0] bucket;
  } record_stage_t;

  logic message_may_start, message_starts, message_valid_q;
  // `classes_q`: the classes still to read; `class_q`: the first, which the current read takes. `continues_q`: they belong to the current
  // message; otherwise they are all classes in use.
  logic [Classes:0] classes_q, class_q, classes_behind;
  logic issue, continues_q, continues_d, more;
  pattern_t issue_pattern;
  logic [BucketW-1:0] issue_bucket;
  bucket_stage_t stage1_q, stage2_q;
  record_stage_t stage3_q, stage4_q;

  // Registers alone select; whether the message starts is a late signal. Further classes are hashed from `next_q`.
  assign issue          = message_starts || continues_q;
  assign classes_behind = classes_q & ~class_q;
  assign more           = classes_behind != '0;
  assign continues_d    = issue && more;
  assign issue_pattern  = pattern_of(pattern_i, class_q);
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      classes_q   <= '0;
      class_q     <= '0;
      continues_q <= 1'b0;
    end else begin
      // If the message does not start, because the previous one goes to the sequencer, these are right again before they are used.
      classes_q   <= (message_may_start || continues_q) && more ? classes_behind : next_active_i;
      class_q     <= (message_may_start || continues_q) && more ? lowest(classes_behind) : lowest(next_active_i);
      continues_q <= continues_d;
    end
  end

  index_t head;
  assign head = ~chain_i.head;

  // The best candidate of the classes so far, and whether the banks still show it. Whether the last record is better is a late signal, so
  // the record is kept beside the previous best, and selected in the next cycle.
  logic best_valid_q, best_shown_q, walks_q, last_better_q;
  logic [63:0] best_sequence_q, last_sequence_q, best_sequence;
  index_t best_index_q, last_index_q, best_index, done_index;
  logic [BucketW-1:0] best_bucket_q, last_bucket_q, best_bucket, done_bucket;
  assign best_sequence = last_better_q ? last_sequence_q : best_sequence_q;
  assign best_index    = last_better_q ? last_index_q : best_index_q;
  assign best_bucket   = last_better_q ? last_bucket_q : best_bucket_q;
  // Of a completed message: from the current record, if there is one.
  assign done_index  = stage4_q.present ? stage4_q.index : best_index;
  assign done_bucket = stage4_q.present ? stage4_q.bucket : best_bucket;

  logic hit, walks, older, better, decide, best_valid, best_shown;
  answer_e admitted;
  always_comb begin
    decide = stage4_q.valid && stage4_q.last;
    hit = stage4_q.present && key_i.portal == message_q.portal && accepts_i;
`ifndef MUTANT_5
    hit &= key_i.status == Priority;
`endif
    walks = walks_q || (stage4_q.present && !hit && is_entry(key_i.next));
`ifdef MUTANT_8
    older = key_i.sequence_number > (last_better_q ? last_sequence_q : best_sequence_q);
`else
    older = last_better_q ? key_i.sequence_number < last_sequence_q : key_i.sequence_number < best_sequence_q;
`endif
    better = hit && (!best_valid_q || older);
    best_valid  = best_valid_q || hit;
    best_shown  = better || (best_shown_q && !stage4_q.present);
    admitted = admission(key_i, b_i.uid, message_q.uid, message_q.operation);
  end

  // The message completes here, without the sequencer: with the current head, or with an earlier one that is still shown. `hit` comes
  // last.
  logic done_by_hit, done_before, message_done;
  assign done_by_hit  = decide && !walks_q && (!best_valid_q || older);
  assign done_before  = decide && !walks_q && best_valid_q && best_shown_q && !stage4_q.present;
  assign message_done = (hit && done_by_hit) || done_before;

  // ---- Appends.

  logic append_starts, other_starts, replay;
  logic reserved, reserved_q, free_valid_q;
  index_t append_index;
  logic append_valid_q, replay_q, searched_q, same_pattern_q;
  logic [1:0] append_cycle_q;
  class_t append_class_q;
  length_t append_offset_q;
  logic [BucketW-1:0] append_bucket_q, append_header_bucket_q;
  logic [BucketW-1:0] entry_bucket, header_bucket, append_bucket, append_header_bucket;
  logic append_second, append_decides, append_clear, append_done;

  assign append_second    = append_valid_q && append_cycle_q == 2'd1;
  assign reserved         = !started_append_q && append_reserved_i;
  assign append_index     = reserved ? append_reserved_index_i : free_index_i;
  assign append_pattern_o = '{ignore_bits: next_q.ignore_bits, source_ignore: next_q.source_ignore};
  assign append_class_o   = append_class_q;

  list_frame_buckets #(
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_buckets (
      .waits_i        (next_full_q),
      .waiting_i      (next_q),
      .command_i,
      .pattern_i      (issue_pattern),
      .class_i        (append_class_i),
      .message_o      (issue_bucket),
      .append_header_o(header_bucket),
      .append_entry_o (entry_bucket)
  );
  // A restarted append keeps its buckets.
  always_comb begin
    append_bucket        = started_append_q ? entry_bucket : append_bucket_q;
    append_header_bucket = header_bucket;
    if (replay_q) append_header_bucket = append_header_bucket_q;
  end

  always_comb begin
    append_decides = append_valid_q && append_cycle_q == 2'd2;
    append_clear = other_q.overflow || searched_q || !has_headers_i ||
        (same_pattern_q && header_chain_i.head == '0);
`ifdef MUTANT_10
    append_done = append_decides && append_clear;
`else
    append_done = append_decides && append_clear && (!message_valid_q || message_done);
`endif
  end

  // ---- What starts.

  logic commit_message_q, commit_append_q, commit_behind_q, commit, only_class_q;
  logic flight;
  // In the cycle of the writes: an entry is used up; an entry is linked, perhaps in the record of the used-up one.
  logic frees_q, frees_d, inserts_q, inserts_d, takes_over_q;
  assign commit_o = commit;
  // A register or two for each, since they select many bits. With one port, whole words are written after the others.
  assign selects_o.first  = Ports == 2 ? commit_message_q || inserts_q : commit_message_q || commit_append_q || commit_behind_q;
  assign selects_o.second = Ports == 2 ? inserts_q : commit_behind_q;
  assign selects_o.chains = frees_q || inserts_q;
  assign idle_o   = !flight && !commit;
  assign commit = commit_message_q || commit_append_q || commit_behind_q;
  // With one port, a message's reads in its first cycles must not meet the writes of the previous command: a message's writes come after
  // the read for one class.
  logic one_port_free;
  assign one_port_free = !append_valid_q && !commit_message_q && !commit_append_q &&
      (!message_valid_q || !more);
  assign flight = message_valid_q || append_valid_q || replay_q || started_other_q;
  assign message_may_start = offered && offered_kind == Deliver && !sequencer_busy_i && !replay_q && !started_other_q &&
      (!message_valid_q || decide) && (Ports == 2 ? !append_valid_q || (append_decides && append_clear) : one_port_free);
  assign message_starts = message_may_start && (!message_valid_q || message_done);
  assign append_starts = offered && offered_kind == Append && !sequencer_busy_i && !replay_q && !started_other_q &&
      !append_valid_q && !commit_append_q && (free_valid_i || free_full_i) &&
      (!message_valid_q || (Ports == 2 && stage2_q.valid && stage2_q.last));
  assign other_starts = offered && (offered_kind == Unlink || offered_kind == Search) && !sequencer_busy_i && !flight && !commit;
  assign replay = replay_q && !sequencer_busy_i && !commit && !message_valid_q &&
      (append_reserved_i || free_valid_i || free_full_i);
  assign next_valid_d = offered && !(message_starts || append_starts || other_starts);
  assign next_full_d  = !ready_i || next_valid_d || continues_d;

  // `hit` comes last, so both outcomes are computed, and one is selected.
  entry_point_e point_hit, point_miss;
  logic starts_other, starts_message;
  always_comb begin
    starts_other   = started_other_q || (append_decides && !append_clear);  // if the current message, if any, is done
    starts_message = started_other_q || decide || (append_decides && !append_clear && !message_valid_q);
    point_hit = walks_q ? FromStart : Known;
    point_miss = FromStart;
    if (!walks_q && !(stage4_q.present && is_entry(key_i.next))) point_miss = best_valid_q ? Known : InOverflow;
    // With one class, the chain is the one whose head is shown.
    else if (Ports == 2 && !walks_q && !best_valid_q && stage4_q.present && only_class_q) point_miss = Walk;
    if (!decide) {point_hit, point_miss} = {Other, Other};
    start_o.index  = started_other_q ? index_of(next_q.entry_reference, Entries) : best_valid_q ? best_index : key_i.next;
    start_o.bucket = best_valid_q ? index_t'(best_bucket) : index_t'(stage4_q.bucket);
    start_o.valid = hit ? (done_by_hit ? starts_other : starts_message) : (done_before ? starts_other : starts_message);
    start_o.point = hit ? (done_by_hit ? Other : point_hit) : (done_before ? Other : point_miss);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      next_valid_q     <= 1'b0;
      next_full_q      <= 1'b1;
      started_message_q <= 1'b0;
      started_append_q <= 1'b0;
      started_other_q  <= 1'b0;
      message_valid_q  <= 1'b0;
      stage1_q         <= '0;
      stage2_q         <= '0;
      stage3_q         <= '0;
      stage4_q         <= '0;
      best_valid_q     <= 1'b0;
      best_shown_q     <= 1'b0;
      last_better_q    <= 1'b0;
      walks_q          <= 1'b0;
      append_valid_q   <= 1'b0;
      append_cycle_q   <= '0;
      replay_q         <= 1'b0;
      searched_q       <= 1'b0;
      commit_message_q <= 1'b0;
      commit_append_q  <= 1'b0;
      frees_q            <= 1'b0;
      inserts_q          <= 1'b0;
      takes_over_q       <= 1'b0;
      commit_behind_q  <= 1'b0;
      only_class_q     <= 1'b0;
    end else begin
      next_valid_q      <= next_valid_d;
      next_full_q       <= next_full_d;
      started_message_q <= message_starts;
      started_append_q  <= append_starts;
      started_other_q   <= other_starts;

      stage1_q <= '{valid: issue, last: !more, bucket: issue_bucket};
      stage2_q <= stage1_q;
      stage3_q <= '{valid: stage2_q.valid, last: stage2_q.last, present: stage2_q.valid && chain_i.head != '0,
                    index: head, bucket: stage2_q.bucket};
      stage4_q <= stage3_q;
      if (message_starts) only_class_q <= !more;

      if (message_starts) message_valid_q <= 1'b1;
      else if (decide) message_valid_q <= 1'b0;
      last_better_q <= better && !decide;
      if (decide || !stage4_q.valid) begin
        best_valid_q <= 1'b0;
        best_shown_q <= 1'b0;
        // With flow control the sequencer decides: the result would be too late here.
        walks_q      <= message_q.controlled;
      end else begin
        best_valid_q <= best_valid;
        best_shown_q <= best_shown;
        walks_q      <= walks;
      end
      commit_message_q <= message_done && admitted == Matched;

      if (append_starts || replay) append_cycle_q <= 2'd1;
      else if (append_valid_q) append_cycle_q <= append_cycle_q + 1'b1;
      if (append_starts || replay) append_valid_q <= 1'b1;
      else if (append_decides) append_valid_q <= 1'b0;
      // An undecided append restarts after the sequencer, unless the sequencer ends it.
      if (append_decides && !append_done) replay_q <= 1'b1;
      else if (replay || append_over_i) replay_q <= 1'b0;
      if (append_starts) searched_q <= 1'b0;
      else if (append_resume_i) searched_q <= 1'b1;
      commit_append_q <= append_done;
      frees_q           <= frees_d;
      inserts_q         <= inserts_d;
      takes_over_q      <= append_done && frees_d;
      commit_behind_q <= Ports == 1 && inserts_q;
    end
  end

  effect_t effect_q, effect_d;  // what the message does to its entry
  assign effect_d  = effect(key_i, a_i.local_offset, b_i.min_free, message_q.length, message_q.remote_offset, 1'b0);
  assign frees_d   = message_done && admitted == Matched && effect_d.unlinks;
  assign inserts_d = append_done && (frees_d || free_valid_q);
  index_t commit_index_q, free_index_q;
  logic [BucketW-1:0] commit_bucket_q;
  tag_t commit_tag_q;
  always_ff @(posedge clk_i) begin
    if (command_valid_i && command_ready_o) next_q <= command_i;
    if (started_message_q) message_q <= next_q;
    if (started_append_q || started_other_q) other_q <= next_q;
    if (append_starts) append_header_bucket_q <= append_header_bucket;
    if (started_append_q) begin
      append_class_q  <= append_class_i;
      append_bucket_q <= append_bucket;
      // The headers' chains have the pattern of the last append before there were headers.
      same_pattern_q  <= header_pattern_set_o ||
          (header_pattern_i.ignore_bits == next_q.ignore_bits && header_pattern_i.source_ignore == next_q.source_ignore);
    end
    if (append_second) begin
      free_index_q <= append_index;
      free_valid_q <= reserved || free_valid_i;
      reserved_q   <= reserved;
    end
    if (append_starts) append_offset_q <= '0;
    else if (append_resume_i) append_offset_q <= append_offset_i;
    best_sequence_q <= best_sequence;
    best_index_q    <= best_index;
    best_bucket_q   <= best_bucket;
    last_sequence_q <= key_i.sequence_number;
    last_index_q    <= stage4_q.index;
    last_bucket_q   <= stage4_q.bucket;
    if (decide) begin
      commit_index_q  <= done_index;
      commit_bucket_q <= done_bucket;
      effect_q        <= effect_d;
      commit_tag_q    <= message_q.tag;
    end
  end

  // ---- Reads and writes.

  logic same_chain, alone, is_first;
  index_t new_index, tail, next_head;
  key_t new_key;
  entry_a_t new_a;
  generation_t freed_generation;
  entry_b_t new_b;
  assign next_head = is_entry(key_i.next) ? ~key_i.next : '0;

  always_comb begin
    access_o = '0;
    access_o.entry_chain  = '{valid: message_may_start || continues_q, address: index_t'(issue_bucket)};
    access_o.records      = '{valid: stage2_q.valid && chain_i.head != '0, address: head};
    access_o.header_chain = '{valid: append_starts || replay, address: index_t'(append_header_bucket)};
    append_chain_o  = '{valid: append_second, address: index_t'(append_bucket)};
    append_record_o = '{valid: append_second, address: append_index};

    // ---- Writes, in the cycle after the decision.
    new_index = takes_over_q ? commit_index_q : free_index_q;
    same_chain = frees_q && commit_bucket_q == append_bucket_q;
    tail = ~append_chain_i.tail;
    // The message uses up the only record of the append's chain.
    alone = same_chain && tail == commit_index_q;
    is_first = append_chain_i.head == '0 || alone;

    freed_generation = next_generation(a_i.generation, Entries);
    new_key = '{sequence_number: sequence_i, length: other_q.length, prev: tail, next: None, options: other_q.options,
                portal: other_q.portal, status: other_q.overflow ? Overflow : Priority, class_number: append_class_q,
                source: other_q.source, match_bits: other_q.match_bits};
    new_a = '{spare: '0, generation: takes_over_q ? freed_generation : append_record_i.generation,
              counter: other_q.counter, start: other_q.start, local_offset: append_offset_q,
              source_ignore: other_q.source_ignore, ignore_bits: other_q.ignore_bits};
    new_b = '{spare: '0, headers: '0, min_free: other_q.min_free, uid: other_q.uid, user_ptr: other_q.user_ptr};

    access_o.gives = frees_q && !takes_over_q;
    access_o.k[0] = '{valid: frees_q ? !takes_over_q || !is_first : inserts_q && !is_first,
                      address: frees_q && !takes_over_q ? commit_index_q : tail,
                      lanes: frees_q && !takes_over_q ? LanesStatus | LaneNext : LaneNext,
                      data: changed_key(key_i, Free, new_index), tag: frees_q && !takes_over_q ? commit_tag_q : other_q.tag};
    access_o.k[1] = '{valid: inserts_q, address: new_index, lanes: LanesAll, data: new_key, tag: other_q.tag};
    access_o.a[0] = '{valid: commit_message_q && !takes_over_q && (frees_q || key_i.options[ManageLocal]),
                      address: commit_index_q, lanes: frees_q ? LanesGeneration : LanesLocalOffset,
                      data: changed_a(a_i, freed_generation, moved_offset(effect_q, a_i.local_offset, key_i.length)), tag: commit_tag_q};
    access_o.a[1] = '{valid: inserts_q, address: new_index, lanes: LanesAll, data: new_a, tag: other_q.tag};
    access_o.b[1] = '{valid: inserts_q, address: new_index, lanes: LanesAll, data: new_b, tag: other_q.tag};

    // A chain has one write: with the message's head, the append's tail, or both.
    access_o.entry_chain_write[0] = '{valid: frees_q && !(inserts_q && same_chain), address: index_t'(commit_bucket_q),
                                      lanes: LaneHead, data: '{tail: '0, head: next_head}, tag: commit_tag_q};
    access_o.entry_chain_write[1] = '{valid: inserts_q, address: index_t'(append_bucket_q),
                                      lanes: LaneTail | (is_first || same_chain ? LaneHead : 2'b00),
                                      data: '{tail: ~new_index, head: is_first ? ~new_index : next_head},
                                      tag: other_q.tag};
`ifdef MUTANT_3
    access_o.entry_chain_write[1].lanes &= ~LaneTail;
`endif
`ifdef MUTANT_4
    access_o.entry_chain_write[0].valid = 1'b0;
`endif

    if (Ports == 1) begin
      if (append_chain_o.valid) access_o.entry_chain = append_chain_o;
      if (append_record_o.valid) access_o.records = append_record_o;
      if (inserts_q) access_o.entry_chain_write[0] = access_o.entry_chain_write[1];
      // The new record is written in the second cycle. The record of the first cycle is still shown.
      access_o.k[1].valid = commit_behind_q;
      access_o.a[1].valid = commit_behind_q;
      access_o.b[1].valid = commit_behind_q;
      access_o.k[0] = either(access_o.k[0], access_o.k[1], commit_behind_q, LanesChangedK);
      access_o.a[0] = either(access_o.a[0], access_o.a[1], commit_behind_q, LanesChangedA);
      access_o.b[0] = either(access_o.b[0], access_o.b[1], commit_behind_q, LanesChangedB);
      access_o.k[1].valid = 1'b0;
      access_o.a[1].valid = 1'b0;
      access_o.b[1].valid = 1'b0;
      access_o.entry_chain_write[1].valid = 1'b0;
    end
  end

  assign free_take_o       = inserts_q && !takes_over_q && !reserved_q;
  assign free_give_o       = frees_q && !takes_over_q;
  assign free_give_index_o = commit_index_q;

  assign count_o          = started_append_q;
  assign discount_o       = frees_q || (commit_append_q && !inserts_q);
  assign discount_class_o = frees_q ? key_i.class_number : append_class_q;
  assign header_pattern_set_o = started_append_q && !next_q.overflow && !has_headers_i;
  assign sequence_next_o  = Ports == 1 ? commit_behind_q : inserts_q;

  // ---- Answers.

  always_comb begin
    answer_valid_o = message_done || commit_append_q;
    answer_o = '{tag: message_q.tag, status: admitted, last: 1'b1, overflow: 1'b0, index: done_index,
                 entry_reference: reference_to(done_index, a_i.generation, Entries), key: key_i, a: a_i, b: b_i};
    if (commit_append_q) begin
      answer_o = '{tag: other_q.tag, status: inserts_q ? Linked : EntriesFull, last: 1'b1,
                   overflow: other_q.overflow, index: new_index,
                   entry_reference: reference_to(new_index, new_a.generation, Entries), key: new_key, a: new_a, b: new_b};
    end
    plan_o = '0;
    if (commit_message_q) begin
      plan_o = '{valid: 1'b1, tag: commit_tag_q, offset: effect_q.offset, mlength: mlength_of(effect_q),
                 unlinks: effect_q.unlinks, freed: frees_q, kept: 1'b0, header: '0};
    end
  end

  // A command retires in the cycle of its last write or later: a message in D + 1, the append beside it a cycle later.
  logic retire_append_q, retire_refused_q;
  tag_t retire_append_tag_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      retire_append_q  <= 1'b0;
      retire_refused_q <= 1'b0;
    end else begin
      retire_append_q  <= commit_append_q;
      retire_refused_q <= message_done && admitted != Matched;
    end
  end
  always_ff @(posedge clk_i) retire_append_tag_q <= other_q.tag;
  assign retire_valid_o = commit_message_q || retire_append_q || retire_refused_q;
  assign retire_tag_o   = commit_message_q || retire_refused_q ? commit_tag_q : retire_append_tag_q;

endmodule
