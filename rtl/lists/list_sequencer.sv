// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Everything but the common case (list_frame.sv), one command at a time, with the banks for itself: walks of chains, the overflow
// list, unexpected headers, unlinks.
//
// A state issues reads and names the state that uses them, two cycles later. The records' banks show the record `index_q`.
//
//   Deliver   Class > Head > Compare > Judge .. > Chosen > Weigh > Decide > Unchain > Own > Keep > Finish
//   Append    Headers > HeaderHead > HeaderCompare > HeaderJudge .. > Drop .. > Spend, or the frame inserts the entry
//   Search    Headers > HeaderHead > HeaderCompare > HeaderJudge .. > Drop ..
//   Unlink    Unlinking > Unchain > Own > Finish
//
// 1. Unexpected headers are on the list of their portal table entry in order of arrival (K), and on the chain of their key under
//    one pattern, that of the last append before there were headers (B). A search by another pattern walks the arrival list.
// 2. lists.sv writes the link of a record that is given back, in the first write to K of that cycle.
// 3. With banks of one port, states that make two writes to a bank, or read behind a write, take two cycles: the first port's writes,
//    then the second's and the reads.
// 4. A read that is not needed is made where it does no harm. So reads and writes are chosen by one register a state (`now_q`), and by
//    little more.
// 5. What a command finds first decides: lowest sequence number among entries, oldest among headers.

module list_sequencer
  import lists_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Entries   = 256,
    parameter int unsigned Headers   = 256,
    parameter int unsigned Buckets   = 512,
    parameter bit          KeySource = 0,
    parameter bit          HashCrc   = 0,
    parameter int unsigned Ports     = 2,  // of the banks
    localparam int unsigned BucketW = $clog2(Buckets)
) (
    input logic clk_i,
    input logic rst_ni,

    input  start_t   start_i,
    input  logic     frame_commit_i,  // a command that is older makes its writes
    input  command_t message_i,
    input  command_t other_i,
    input  class_t   append_class_i,
    output logic     busy_o,
    output logic     waits_o,  // for a free record; no record is shown that is needed

    output logic    answer_valid_o,
    output answer_t answer_o,
    output plan_t   plan_o,
    output logic    retire_valid_o,
    output tag_t    retire_tag_o,

    output access_t  access_o,
    input  key_t     key_i,
    input  logic     accepts_i,  // the entry that K and A show accepts the message, but for list and portal table entry
    input  logic [255:0] a_i,
    input  logic [255:0] b_i,
    input  chain_t   chain_i,
    input  chain_t   header_chain_i,
    input  chain_t   arrival_i,

    input  logic   free_valid_i,
    input  logic   free_full_i,
    input  index_t free_index_i,
    output logic   free_take_o,
    output logic   free_give_o,
    output index_t free_give_index_o,

    input  logic   header_valid_i,
    input  logic   header_full_i,
    input  index_t header_index_i,  // of the table of headers
    output logic   header_take_o,
    output logic   header_give_o,
    output index_t header_give_index_o,

    input  logic     [Classes:0]   active_i,
    input  pattern_t [Classes-1:0] pattern_i,
    output logic                   discount_o,
    output class_t                 discount_class_o,
    input  logic                   has_headers_i,
    input  pattern_t               header_pattern_i,

    input  logic [63:0] sequence_i,
    output logic        sequence_next_o,

    output logic    append_resume_o,
    output length_t append_offset_o,
    output logic    append_reserved_o,
    output index_t  append_reserved_index_o,
    output logic    append_over_o
);

  typedef enum logic [4:0] {
    Idle,
    Start,
    Class,
    Head,
    Compare,
    Judge,
    Chosen,
    Weigh,
    Decide,
    Unlinking,
    Unchain,
    Own,
    Keep,
    Finish,
    SearchHeaders,
    HeaderHead,
    HeaderCompare,
    HeaderJudge,
    HeaderFound,
    Drop,
    DropLinks,
    DropOwn,
    DropOwner,
    Dropped,
    NotFound,
    Spend
  } state_e;

  localparam index_t HeaderBase = index_t'(Entries);
  function automatic logic is_entry(index_t index);
    return index < index_t'(Entries);
  endfunction
  function automatic logic is_header(index_t index);
    return index >= HeaderBase && index < index_t'(Entries + Headers);
  endfunction

  state_e state_q, state_d;
  logic wait_q, reads;  // a read is under way; its data are there in the next cycle
  // A bit a state: it is this state's turn, and no read is under way.
  localparam int unsigned States = 32;
  logic [States-1:0] now_q;
  logic busy_q;  // state_q is not Idle
  logic reserves_q;
  entry_point_e point_q;
  index_t start_index_q;

  logic [Classes:0] left_q, left_d;
  logic overflow_q, overflow_d;  // the list that is searched
  index_t index_q, index_d;
  logic [BucketW-1:0] bucket_q, bucket_d;
  logic best_valid_q, best_valid_d;
  logic [63:0] best_sequence_q, best_sequence_d;
  index_t best_index_q, best_index_d;
  logic [BucketW-1:0] best_bucket_q, best_bucket_d;

  effect_t effect_q, effect_d;
  logic keeps_q, keeps_d, freed_q, freed_d;
  index_t kept_q, kept_d;
  logic reserved_q, reserved_d;
  index_t reserved_index_q, reserved_index_d;
  length_t offset_q, offset_d;
  logic found_q, found_d;
  // Of the record that was compared in the cycle before: whether it is a match, older than the best, followed by another.
  logic hit_q, older_q, follows_q, follows_d;
  index_t judged_q;
  logic [63:0] judged_sequence_q;
  index_t owner_q, owner_d;
  logic [63:0] header_start_q;
  logic no_payload_q;
  logic spends_q;  // the headers that an append has taken use its entry up

  entry_a_t  entry_a;
  entry_b_t  entry_b;
  header_a_t header_a;
  header_b_t header_b;
  assign entry_a  = a_i;
  assign entry_b  = b_i;
  assign header_a = a_i;
  assign header_b = b_i;

  // ---- Keys.

  logic [Classes:0] class_now_q;  // the first that is left
  pattern_t class_pattern;
  assign class_pattern = pattern_of(pattern_i, class_now_q);

  logic [63:0] hash_bits;
  source_t hash_source;
  portal_t hash_portal;
  logic hash_overflow;
  logic [BucketW-1:0] hash_bucket;
  always_comb begin
    if (now_q[Unlinking]) begin
      hash_bits     = key_i.class_number == ClassOther ? '0 : key_i.match_bits & ~entry_a.ignore_bits;
      hash_source   = key_i.class_number == ClassOther ? '0 : key_i.source & ~entry_a.source_ignore;
      hash_portal   = key_i.portal;
      hash_overflow = key_i.status == Overflow;
    end else begin
      hash_bits     = message_i.match_bits & ~class_pattern.ignore_bits;
      hash_source   = message_i.source & ~class_pattern.source_ignore;
      hash_portal   = message_i.portal;
      hash_overflow = overflow_q;
    end
  end
  list_hash #(
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_entry_hash (
      .match_bits_i(hash_bits),
      .source_i    (hash_source),
      .portal_i    (hash_portal),
      .overflow_i  (hash_overflow),
      .bucket_o    (hash_bucket)
  );

  logic [63:0] header_bits;
  source_t header_source;
  portal_t header_portal;
  logic [BucketW-1:0] header_bucket, header_bucket_q;
  always_comb begin
    {header_bits, header_source, header_portal} = {message_i.match_bits, message_i.source, message_i.portal};
    if (now_q[Drop]) {header_bits, header_source, header_portal} = {key_i.match_bits, key_i.source, key_i.portal};
    if (now_q[SearchHeaders]) {header_bits, header_source, header_portal} = {other_i.match_bits, other_i.source, other_i.portal};
  end
  list_hash #(
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_header_hash (
      .match_bits_i(header_bits & ~header_pattern_i.ignore_bits),
      .source_i    (header_source & ~header_pattern_i.source_ignore),
      .portal_i    (header_portal),
      .overflow_i  (1'b0),
      .bucket_o    (header_bucket)
  );

  // Whether the headers' chains are those of the pattern that is searched. It is known in the second cycle of a command, and kept.
  logic by_class_q;
  always_ff @(posedge clk_i) begin
    by_class_q <= other_i.ignore_bits == header_pattern_i.ignore_bits &&
        other_i.source_ignore == header_pattern_i.source_ignore;
  end

  // ---- Comparison.

  view_t view;
  message_t message;
  logic hit, header_hit;
  always_comb begin
    hit = key_i.portal == message_i.portal && accepts_i;
`ifndef MUTANT_5
    hit &= key_i.status == (overflow_q ? Overflow : Priority);
`endif
    view = '{match_bits: other_i.match_bits, ignore_bits: other_i.ignore_bits, source: other_i.source,
             source_ignore: other_i.source_ignore, no_truncate: other_i.options[NoTruncate],
             manage_local: other_i.options[ManageLocal], length: other_i.length, local_offset: offset_q};
    message = '{match_bits: key_i.match_bits, source: key_i.source, length: key_i.length,
                remote_offset: header_a.remote_offset};
    header_hit = key_i.status == Live && key_i.portal == other_i.portal && accepts(view, message);
  end

  answer_e admitted;
  assign admitted = admission(key_i, entry_b.uid, message_i.uid, message_i.operation);

  logic [1:0] events;
`ifdef MUTANT_33
  assign events = events_of(key_i.options, effect_q.unlinks, 1'b0);
`else
  assign events = events_of(key_i.options, effect_q.unlinks, overflow_q && key_i.options[UnexpectedHeaderDisable]);
`endif

  logic delivers, once, local_by_rlength;
  assign delivers = point_q != Other;
  assign once = other_i.options[UseOnce];
  assign local_by_rlength = other_i.options[ManageLocal] && other_i.options[LocalIncByRlength];

  // A message's header, and what it leaves of the entry.
  key_t new_key;
  header_a_t new_a;
  header_b_t new_b;
  generation_t own_generation;
  length_t own_offset;
  index_t own_headers;
  logic drained;  // the header in hand was the last of an entry that waits for it
  logic moves_offset;
  logic [LengthW:0] offset_after;
  assign moves_offset = delivers && key_i.options[ManageLocal];

  // With one port a free record's link cannot be read later on, so a command that may need a record waits for it at its start.
  logic waits;
  assign waits = Ports == 1 &&
      (delivers ? !header_valid_i && !header_full_i : other_i.kind == Append && !free_valid_i && !free_full_i);

  // With one port: the state's second cycle. `first` and `last` are the two; with two ports they are one.
  logic twice, second_q, first, last;
  assign first = Ports == 2 || !second_q;
  assign last  = Ports == 2 || second_q;
  assign twice = Ports == 1 &&
      (now_q[Unchain] || now_q[Own] || now_q[Keep] || now_q[DropLinks] || now_q[DropOwn]);

  // It is known late that there is something to do.
  logic starts, start_acts;
  assign starts = start_i.valid && !busy_q;
`ifdef MUTANT_9
  assign start_acts = now_q[Start] && !waits;
`else
  assign start_acts = now_q[Start] && !frame_commit_i && !waits;
`endif

  tag_t tag;
  assign tag = delivers ? message_i.tag : other_i.tag;

  logic head_of_chain, head_of_arrival, head_of_header_chain, has_next, has_class_next;
  index_t walk_next, first_header;

  always_comb begin
    state_d          = state_q;
    reads            = 1'b0;
    left_d           = left_q;
    overflow_d       = overflow_q;
    bucket_d         = bucket_q;
    best_valid_d     = best_valid_q;
    best_sequence_d  = best_sequence_q;
    best_index_d     = best_index_q;
    best_bucket_d    = best_bucket_q;
    keeps_d          = keeps_q;
    kept_d           = kept_q;
    reserved_d       = reserved_q;
    reserved_index_d = reserved_index_q;
    offset_d         = offset_q;
    found_d          = found_q;
    owner_d          = owner_q;
    follows_d        = 1'b0;

    append_resume_o     = 1'b0;
    append_over_o       = 1'b0;
    retire_valid_o      = 1'b0;

    answer_valid_o = 1'b0;
    answer_o = '{tag: tag, status: Matched, last: 1'b1, overflow: overflow_q, index: index_q,
                 entry_reference: reference_to(index_q, entry_a.generation, Entries), key: key_i, a: a_i, b: b_i};
    plan_o = '0;

    effect_d = now_q[Weigh] ? effect(key_i, entry_a.local_offset, entry_b.min_free, message_i.length,
                                          message_i.remote_offset, no_payload_q) : effect_q;

    // The entry behind a message or an unlink.
    freed_d = now_q[Own] ? !delivers || (effect_q.unlinks && (!overflow_q || (!keeps_q && entry_b.headers == '0)))
                             : freed_q;
    own_generation = next_generation(entry_a.generation, Entries);
`ifdef MUTANT_13
    own_offset = entry_a.local_offset + message_i.length;
`else
    own_offset = moved_offset(effect_q, entry_a.local_offset, key_i.length);
`endif
    own_headers = now_q[DropOwner] ? entry_b.headers - 1'b1 : entry_b.headers + 1'b1;
    drained     = entry_b.headers == index_t'(1) && key_i.status == Draining;

    // The header that a message leaves.
    new_key = '{sequence_number: sequence_i, length: message_i.length, prev: now_q[Keep] ? ~arrival_i.tail : key_i.prev,
                next: None, options: '0, portal: message_i.portal, status: Live, class_number: '0, source: message_i.source,
                match_bits: message_i.match_bits};
    new_a = '{spare: '0, generation: header_a.generation, reserved: '0, operation: message_i.operation, entry: owner_q,
              start: header_start_q, mlength: mlength_of(effect_q), remote_offset: message_i.remote_offset,
              header_data: message_i.header_data};
    new_b = '{spare: '0, class_prev: now_q[Keep] ? ~header_chain_i.tail : header_b.class_prev, class_next: None,
              token: message_i.token, uid: message_i.uid};

    head_of_chain        = ~chain_i.head == index_q;
    head_of_arrival      = ~arrival_i.head == index_q;
    head_of_header_chain = ~header_chain_i.head == index_q;
    has_next             = now_q[Unchain] ? is_entry(key_i.next) : is_header(key_i.next);
    has_class_next       = is_header(header_b.class_next);
    walk_next            = by_class_q ? header_b.class_next : key_i.next;
    first_header         = by_class_q ? ~header_chain_i.head : ~arrival_i.head;
    offset_after         = {1'b0, offset_q} + {1'b0, key_i.length};

    if (!wait_q) begin
      unique case (state_q)
        Idle: ;  // `starts` ends it

        Start: if (start_acts) begin
          left_d       = active_i;
          overflow_d   = point_q == InOverflow;
          best_valid_d = 1'b0;
          keeps_d      = 1'b0;
          freed_d      = 1'b0;
          found_d      = 1'b0;
          offset_d     = '0;
          reserved_d   = 1'b0;
          unique case (point_q)
            FromStart, InOverflow: state_d = Class;
            Walk: begin
              left_d  = '0;
              reads   = 1'b1;
              state_d = Compare;
            end
            Known: begin
              best_index_d  = start_index_q;
              best_bucket_d = bucket_q;
              reads         = 1'b1;
              state_d       = Weigh;
            end
            default: begin
              unique case (other_i.kind)
                Unlink: begin
                  if (is_entry(start_index_q)) begin
                    reads   = 1'b1;
                    state_d = Unlinking;
                  end else begin
                    answer_valid_o  = 1'b1;
                    answer_o.status = Invalid;
                    state_d         = Finish;
                  end
                end
                Append: begin
                  if (free_full_i) begin
                    append_resume_o = 1'b1;
                    state_d         = Idle;
                  end else if (once) begin
                    state_d = SearchHeaders;
                  end else if (free_valid_i) begin
                    reserved_d       = 1'b1;
                    reserved_index_d = free_index_i;
                    state_d          = SearchHeaders;
                  end
                end
                default: state_d = SearchHeaders;
              endcase
            end
          endcase
        end

        Class: begin
          if (left_q == '0) begin
            state_d = Chosen;
          end else begin
            left_d   = left_q & ~class_now_q;
            bucket_d = hash_bucket;
            reads    = 1'b1;
            state_d  = Head;
          end
        end

        Head: begin
          if (chain_i.head == '0) begin
            state_d = Class;
          end else begin
            reads   = 1'b1;
            state_d = Compare;
          end
        end

        // The record behind is read before it is known whether this one is the match, which shortens the path.
        Compare: begin
          state_d = Judge;
          follows_d = is_entry(key_i.next);
        end

        Judge: begin
          if (hit_q) begin
            if (older_q) begin
              best_valid_d    = 1'b1;
              best_sequence_d = judged_sequence_q;
              best_index_d    = judged_q;
              best_bucket_d   = bucket_q;
            end
            state_d = left_q == '0 ? Chosen : Class;
          end else if (follows_q) begin
            state_d = Compare;
          end else begin
            state_d = left_q == '0 ? Chosen : Class;
          end
        end

        Chosen: begin
          if (best_valid_q) begin
            state_d = Weigh;
            reads   = index_q != best_index_q;
          end else if (!overflow_q) begin
            overflow_d = 1'b1;
            left_d     = active_i;
            state_d    = Class;
          end else begin
            answer_valid_o  = 1'b1;
            answer_o.status = NoMatch;
            state_d         = Finish;
          end
        end

        Weigh: state_d = Decide;

        Decide: begin
          keeps_d = overflow_q && !key_i.options[UnexpectedHeaderDisable];
          kept_d  = header_index_i + HeaderBase;
          owner_d = index_q;
          // What keeps the message from its entry, in the order of `nic`.
          if (admitted != Matched) answer_o.status = admitted;
          else if (keeps_d && header_full_i) answer_o.status = HeadersFull;
          else if (message_i.controlled && message_i.room < events) answer_o.status = EventsFull;
          if (answer_o.status != Matched) begin
            keeps_d        = 1'b0;
            effect_d       = '0;
            answer_valid_o = 1'b1;
            state_d        = Finish;
          end else if (!keeps_d || header_valid_i) begin
            answer_valid_o = 1'b1;
            found_d        = 1'b1;
            state_d        = Own;
            if (effect_q.unlinks) begin
              reads    = 1'b1;
              bucket_d = best_bucket_q;
              state_d  = Unchain;
            end
          end
        end

        Unlinking: begin
          answer_o.status = Invalid;
          answer_valid_o  = 1'b1;
          state_d         = Finish;
          if (reference_to(index_q, entry_a.generation, Entries) == other_i.entry_reference) begin
            if (key_i.status == Draining || (key_i.status == Overflow && entry_b.headers != '0)) begin
              answer_o.status = InUse;
            end else if (key_i.status == Priority || key_i.status == Overflow) begin
              answer_o.status = Unlinked;
              bucket_d        = hash_bucket;
              reads           = 1'b1;
              state_d         = Unchain;
            end
          end
        end

        Unchain: state_d = Own;

        Own: begin
          state_d = Finish;
          if (keeps_q) begin
            reads   = 1'b1;
            state_d = Keep;
          end
        end

        Keep: begin
          state_d = Finish;
        end

        Finish: begin
          if (delivers && found_q) begin
            plan_o = '{valid: 1'b1, tag: tag, offset: effect_q.offset, mlength: mlength_of(effect_q),
                       unlinks: effect_q.unlinks, freed: freed_q, kept: keeps_q, header: kept_q};
          end
          retire_valid_o = 1'b1;
          state_d        = Idle;
        end

        SearchHeaders: begin
          if (!has_headers_i) begin
            state_d = NotFound;
          end else begin
            reads = 1'b1;
            state_d = HeaderHead;
          end
        end

        HeaderHead: begin
          if (is_header(first_header)) begin
            reads   = 1'b1;
            state_d = HeaderCompare;
          end else begin
            state_d = NotFound;
          end
        end

        HeaderCompare: state_d = HeaderJudge;

        HeaderJudge: begin
          if (hit_q) begin
            state_d = HeaderFound;
          end else if (is_header(walk_next)) begin
            reads   = 1'b1;
            state_d = HeaderCompare;
          end else begin
            state_d = NotFound;
          end
        end

        HeaderFound: begin
          answer_valid_o    = 1'b1;
          answer_o.last     = 1'b0;
          answer_o.overflow = 1'b1;
          found_d           = 1'b1;
          if (other_i.kind == Append && local_by_rlength) offset_d = offset_after[LengthW] ? '1 : offset_after[LengthW-1:0];
          if (other_i.kind == Append || other_i.delete_found) begin
            state_d = Drop;
          end else if (once) begin
            state_d = NotFound;
          end else if (is_header(walk_next)) begin
            reads   = 1'b1;
            state_d = HeaderCompare;
          end else begin
            state_d = NotFound;
          end
        end

        Drop: begin
          owner_d = header_a.entry;
          reads   = 1'b1;
          state_d = DropLinks;
        end

        DropLinks: state_d = DropOwn;

        DropOwn: begin
          reads   = 1'b1;
          state_d = DropOwner;
        end

        DropOwner: begin
          if (drained) begin
            answer_valid_o  = 1'b1;
            answer_o.last   = 1'b0;
            answer_o.overflow = 1'b1;
            answer_o.status = Drained;
          end
          state_d = Dropped;
        end

        Dropped: begin
          if (other_i.kind == Search) begin
            state_d = once ? NotFound : SearchHeaders;
          end else if (once) begin
            // The record at the top of the free list was the append's, for this one message.
            if (free_valid_i) begin
              reads   = 1'b1;
              state_d = Spend;
            end
          end else if (spends_q) begin
            reads   = 1'b1;
            state_d = Spend;
          end else begin
            state_d = SearchHeaders;
          end
        end

        NotFound: begin
          if (other_i.kind == Append) begin
            append_resume_o = 1'b1;
            state_d         = Idle;
          end else begin
            answer_valid_o  = 1'b1;
            answer_o.status = found_q ? Complete : NoMatch;
            state_d         = Finish;
          end
        end

        Spend: begin
          answer_valid_o   = 1'b1;
          answer_o.status  = Spent;
          answer_o.overflow = 1'b0;
          append_over_o    = 1'b1;
          state_d          = Finish;
        end

        default: state_d = Idle;
      endcase
    end

    // With one port: the first cycle, then the second.
    if (twice && !second_q) begin
      state_d = state_q;
      reads   = 1'b0;
    end
  end

  // ---- Reads and writes.

  always_comb begin
    access_o = '0;

    access_o.records.valid = start_acts || now_q[Head] || (now_q[Compare] && is_entry(key_i.next)) ||
        (now_q[Chosen] && best_valid_q) || (now_q[Own] && last && keeps_q) || now_q[HeaderHead] ||
        (now_q[HeaderJudge] && !hit_q && is_header(walk_next)) ||
        (now_q[HeaderFound] && other_i.kind != Append && !other_i.delete_found && is_header(walk_next)) ||
        (now_q[DropOwn] && last) || now_q[Dropped];
    access_o.records.address =
        (start_index_q & {IndexW{now_q[Start]}}) |
        (~chain_i.head & {IndexW{now_q[Head]}}) |
        (key_i.next & {IndexW{now_q[Compare]}}) |
        (best_index_q & {IndexW{now_q[Chosen]}}) |
        (kept_q & {IndexW{now_q[Own]}}) |
        (first_header & {IndexW{now_q[HeaderHead]}}) |
        (walk_next & {IndexW{now_q[HeaderJudge] || now_q[HeaderFound]}}) |
        (owner_q & {IndexW{now_q[DropOwn]}}) |
        ((once ? free_index_i : reserved_index_q) & {IndexW{now_q[Dropped]}});
    access_o.entry_chain  = '{valid: now_q[Class] || now_q[Decide] || now_q[Unlinking],
                              address: now_q[Decide] ? index_t'(best_bucket_q) : index_t'(hash_bucket)};
    access_o.header_chain = '{valid: (now_q[Own] && last) || now_q[SearchHeaders] || now_q[Drop],
                              address: index_t'(header_bucket)};
    access_o.arrival      = '{valid: access_o.header_chain.valid, address: index_t'(header_portal)};

    // ---- Links of other records, and what changes of the record in hand; then what has a word of its own.
    access_o.gives = now_q[Own] || now_q[DropOwn] || now_q[DropOwner] || now_q[Spend];
    access_o.k[0].valid = (now_q[Unchain] && first && !head_of_chain) ||
        (now_q[Own] && first && (!delivers || effect_q.unlinks)) ||
        (now_q[Keep] && first && arrival_i.head != '0) ||
        (now_q[DropLinks] && first && !head_of_arrival) || (now_q[DropOwn] && first) ||
        (now_q[DropOwner] && drained) || (now_q[Spend] && reserved_q);
    access_o.k[0].address = now_q[Unchain] || now_q[DropLinks] ? key_i.prev : now_q[Keep] ? ~arrival_i.tail : index_q;
    access_o.k[0].lanes = (now_q[Own] || now_q[DropOwn] || now_q[DropOwner] ? LanesStatus : '0) |
        (now_q[Own] && !freed_d ? '0 : LaneNext);
    access_o.k[0].data = changed_key(key_i, now_q[Own] && !freed_d ? Draining : Free, now_q[Keep] ? index_q : key_i.next);
    access_o.k[0].tag = tag;
    access_o.k[1] = '{valid: ((now_q[Unchain] || now_q[DropLinks]) && last && has_next) || (now_q[Keep] && last),
                      address: now_q[Keep] ? index_q : key_i.next, lanes: now_q[Keep] ? LanesAll : LanePrev, data: new_key,
                      tag: tag};

    access_o.a[0].valid = (now_q[Own] && first && (freed_d || moves_offset)) || (now_q[DropOwn] && first) ||
        (now_q[DropOwner] && drained) || now_q[Spend];
    access_o.a[0].address = index_q;
    access_o.a[0].lanes = (now_q[Own] && !freed_d ? '0 : LanesGeneration) |
        (now_q[Own] && moves_offset ? LanesLocalOffset : '0);
    access_o.a[0].data = changed_a(a_i, now_q[DropOwn] ? header_a.generation + 1'b1 : own_generation, own_offset);
    access_o.a[0].tag = tag;
    access_o.a[1] = '{valid: now_q[Keep] && last, address: index_q, lanes: LanesAll, data: new_a, tag: tag};

    access_o.b[0].valid = (now_q[Own] && first && keeps_q) || (now_q[Keep] && first && header_chain_i.head != '0) ||
        (now_q[DropLinks] && first && !head_of_header_chain) || now_q[DropOwner];
    access_o.b[0].address = now_q[Keep] ? ~header_chain_i.tail : now_q[DropLinks] ? header_b.class_prev : index_q;
    access_o.b[0].lanes = now_q[Keep] || now_q[DropLinks] ? LaneClassNext : LaneHeaders;
    access_o.b[0].data = word_headers(own_headers) | word_class_next(now_q[Keep] ? index_q : header_b.class_next);
    access_o.b[0].tag = tag;
    access_o.b[1] = '{valid: (now_q[DropLinks] && last && has_class_next) || (now_q[Keep] && last),
                      address: now_q[Keep] ? index_q : header_b.class_next,
                      lanes: now_q[Keep] ? LanesAll : LaneClassPrev, data: new_b, tag: tag};

    access_o.entry_chain_write[0] = '{valid: now_q[Unchain] && first && (head_of_chain || !has_next),
        address: index_t'(bucket_q), lanes: {!has_next, head_of_chain},
        data: '{tail: head_of_chain ? '0 : ~key_i.prev, head: has_next ? ~key_i.next : '0}, tag: tag};
    access_o.arrival_write = '{valid: (now_q[Keep] && first) || (now_q[DropLinks] && first && (head_of_arrival || !has_next)),
        address: now_q[Keep] ? index_t'(message_i.portal) : index_t'(key_i.portal),
        lanes: now_q[Keep] ? {1'b1, arrival_i.head == '0} : {!has_next, head_of_arrival},
        data: '{tail: now_q[Keep] ? ~index_q : head_of_arrival ? '0 : ~key_i.prev,
                head: now_q[Keep] ? ~index_q : has_next ? ~key_i.next : '0}, tag: tag};
    access_o.header_chain_write = '{
        valid: (now_q[Keep] && first) || (now_q[DropLinks] && first && (head_of_header_chain || !has_class_next)),
        address: index_t'(header_bucket_q),
        lanes: now_q[Keep] ? {1'b1, header_chain_i.head == '0} : {!has_class_next, head_of_header_chain},
        data: '{tail: now_q[Keep] ? ~index_q : head_of_header_chain ? '0 : ~header_b.class_prev,
                head: now_q[Keep] ? ~index_q : has_class_next ? ~header_b.class_next : '0}, tag: tag};

    if (Ports == 1) begin
      access_o.k[0] = either(access_o.k[0], access_o.k[1], second_q, LanesChangedK);
      access_o.a[0] = either(access_o.a[0], access_o.a[1], second_q, LanesChangedA);
      access_o.b[0] = either(access_o.b[0], access_o.b[1], second_q, LanesChangedB);
      access_o.k[1].valid = 1'b0;
      access_o.a[1].valid = 1'b0;
      access_o.b[1].valid = 1'b0;
    end
  end
  // The record that the banks show is the last that was read.
  assign index_d = access_o.records.valid ? access_o.records.address : index_q;

  // The record that is reserved is taken a cycle later; nobody else takes one meanwhile.
  assign free_take_o         = reserves_q;
  assign free_give_o         = (now_q[Own] && first && freed_d) || (now_q[DropOwner] && drained) || (now_q[Spend] && reserved_q);
  assign free_give_index_o   = index_q;
  assign header_take_o       = now_q[Keep] && last;
  assign header_give_o       = now_q[DropOwn] && first;
  assign header_give_index_o = index_q - HeaderBase;
  assign sequence_next_o     = now_q[Keep] && last;
  assign discount_o          = (now_q[Own] && first && (!delivers || effect_q.unlinks)) || now_q[Spend];
  assign discount_class_o    = now_q[Spend] ? append_class_i : key_i.class_number;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q  <= Idle;
      now_q    <= States'(1) << Idle;
      wait_q   <= 1'b0;
      busy_q   <= 1'b0;
      reserves_q <= 1'b0;
      second_q <= 1'b0;
    end else begin
      state_q  <= starts ? Start : state_d;
      now_q    <= reads ? '0 : States'(1) << state_d;
      if (starts) now_q[Idle] <= 1'b0;
      if (starts) now_q[Start] <= 1'b1;
      wait_q   <= reads;
      reserves_q <= start_acts && point_q == Other && other_i.kind == Append && !free_full_i && !once && free_valid_i;
      busy_q   <= starts || state_d != Idle;
      second_q <= twice && !wait_q && !second_q;
    end
  end
  always_ff @(posedge clk_i) begin
    if (!busy_q) begin
      point_q       <= start_i.point;
      start_index_q <= start_i.index;
      bucket_q      <= BucketW'(start_i.bucket);
    end else begin
      bucket_q <= bucket_d;
    end
    left_q           <= left_d;
    class_now_q        <= lowest(left_d);
    overflow_q       <= overflow_d;
    index_q          <= index_d;
    best_valid_q     <= best_valid_d;
    best_sequence_q  <= best_sequence_d;
    best_index_q     <= best_index_d;
    best_bucket_q    <= best_bucket_d;
    effect_q         <= effect_d;
    keeps_q          <= keeps_d;
    freed_q          <= freed_d;
    kept_q           <= kept_d;
    reserved_q       <= reserved_d;
    reserved_index_q <= reserved_index_d;
    offset_q         <= offset_d;
    found_q          <= found_d;
    owner_q          <= owner_d;
    follows_q        <= follows_d;
    hit_q            <= now_q[HeaderCompare] ? header_hit : hit;
`ifdef MUTANT_8
    older_q          <= !best_valid_q || key_i.sequence_number > best_sequence_q;
`else
    older_q          <= !best_valid_q || key_i.sequence_number < best_sequence_q;
`endif
    judged_q          <= index_q;
    judged_sequence_q <= key_i.sequence_number;
    if (now_q[Own]) header_start_q <= entry_a.start + 64'(effect_q.offset);
    spends_q <= local_by_rlength && other_i.min_free != '0 && exceeds_two(offset_q, other_i.min_free, other_i.length);
    no_payload_q <= overflow_q && message_i.token != '0;
    if (now_q[Own] || now_q[SearchHeaders] || now_q[Drop]) header_bucket_q <= header_bucket;
  end

  assign busy_o = busy_q;
  assign waits_o = now_q[Start] && waits;
  assign retire_tag_o = tag;
  assign append_offset_o = offset_q;
  assign append_reserved_o = reserved_q;
  assign append_reserved_index_o = reserved_index_q;

endmodule
