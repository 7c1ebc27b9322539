// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The sequencer's state machine (list_sequencer.sv): one command at a time. lists.sv checks the parameters.
//
// A state issues reads and names the state that uses them, two cycles later. The records' banks show the record `index_q`.
//
//   Deliver   Class > Head > Compare > Judge .. > Chosen > Weigh > Decide > Unchain > Own > Keep > Finish
//   Append    SearchHeaders > HeaderHead > HeaderCompare > HeaderJudge .. > Drop .. > Spend, or the frame inserts the entry
//   Search    SearchHeaders > HeaderHead > HeaderCompare > HeaderJudge .. > Drop ..
//   Unlink    Unlinking > Unchain > Own > Finish
//
// With banks of one port, states that make two writes to a bank, or read after a write, take two cycles (`twice`).

module list_sequencer_control
  import lists_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Entries = 256,  // of lists.sv, as all below
    parameter int unsigned Headers = 256,
    parameter int unsigned Buckets = 512,
    parameter int unsigned Ports   = 2,
    localparam int unsigned BucketW = $clog2(Buckets)
) (
    input logic clk_i,
    input logic rst_ni,

    input  start_t   start_i,
    input  logic     frame_commit_i,  // an older command makes its writes
    input  command_t message_i,
    input  command_t other_i,
    output logic     busy_o,
    output logic     waits_o,  // for a free record; no needed record is shown

    output logic    answer_valid_o,
    output answer_t answer_o,
    output plan_t   plan_o,
    output logic    retire_valid_o,
    output tag_t    retire_tag_o,

    // Words at the banks' outputs.
    input key_t         key_i,
    input logic [255:0] a_i,
    input logic [255:0] b_i,
    input chain_t       chain_i,

    input  logic   free_valid_i,
    input  logic   free_full_i,
    input  index_t free_index_i,
    output logic   free_take_o,
    input  logic   header_valid_i,
    input  logic   header_full_i,
    input  index_t header_index_i,  // of the table of headers

    input logic               hit_i,           // the shown entry matches
    input logic               follows_i,       // the judged record has a successor
    input logic               none_left_i,     // this list has no class left
    input logic               overflow_i,      // the list is the overflow list
    input logic               best_valid_i,
    input index_t             best_index_i,
    input logic [BucketW-1:0] best_bucket_i,
    input logic [BucketW-1:0] entry_bucket_i,
    input logic               has_headers_i,
    input logic               header_hit_i,    // the shown header matches
    input index_t             first_header_i,
    input index_t             next_header_i,

    output sequencer_t hand_o,
    output logic       freed_o,  // the current entry is returned
    input  read_t      read_i,   // the read of a record in this cycle

    output logic    append_resume_o,
    output length_t append_offset_o,
    output logic    append_reserved_o,
    output index_t  append_reserved_index_o,
    output logic    append_over_o
);

  localparam index_t HeaderBase = index_t'(Entries);
  function automatic logic is_entry(index_t index);
    return index < index_t'(Entries);
  endfunction
  function automatic logic is_header(index_t index);
    return index >= HeaderBase && index < index_t'(Entries + Headers);
  endfunction

  sequencer_e state_q, state_d;
  logic wait_q, reads;  // a read is in progress; its data arrive in the next cycle
  // A bit a state: the state's turn, with no read in progress.
  logic [SequencerStates-1:0] now_q;
  logic busy_q;  // state_q is not Idle
  logic reserves_q;
  entry_point_e point_q;
  index_t start_index_q;

  index_t index_q, index_d;
  logic [BucketW-1:0] bucket_q, bucket_d;

  effect_t effect_q, effect_d;
  logic keeps_q, keeps_d, freed_q, freed_d;
  index_t kept_q, kept_d;
  logic reserved_q, reserved_d;
  index_t reserved_index_q, reserved_index_d;
  length_t offset_q, offset_d;
  logic found_q, found_d;
  logic hit_q;  // the record compared in the previous cycle matches
  index_t owner_q, owner_d;
  logic no_payload_q;
  logic spends_q;  // the headers that an append has taken use its entry up

  entry_a_t  entry_a;
  entry_b_t  entry_b;
  header_a_t header_a;
  assign entry_a  = a_i;
  assign entry_b  = b_i;
  assign header_a = a_i;

  answer_e admitted;
  assign admitted = admission(key_i, entry_b.uid, message_i.uid, message_i.operation);

  logic [1:0] events;
`ifdef MUTANT_33
  assign events = events_of(key_i.options, effect_q.unlinks, 1'b0);
`else
  assign events = events_of(key_i.options, effect_q.unlinks, overflow_i && key_i.options[UnexpectedHeaderDisable]);
`endif

  logic delivers, once, local_by_rlength;
  assign delivers = point_q != Other;
  assign once = other_i.options[UseOnce];
  assign local_by_rlength = other_i.options[ManageLocal] && other_i.options[LocalIncByRlength];

  logic drained;  // the current header was the last of an entry that waits for it
  logic [LengthW:0] offset_after;

  // With one port a free record's link cannot be read later, so a command that may need a record waits for it at its start.
  logic waits;
  assign waits = Ports == 1 &&
      (delivers ? !header_valid_i && !header_full_i : other_i.kind == Append && !free_valid_i && !free_full_i);

  // With one port: the state's second cycle.
  logic twice, second_q;
  assign twice = Ports == 1 &&
      (now_q[Unchain] || now_q[Own] || now_q[Keep] || now_q[DropLinks] || now_q[DropOwn]);

  // Whether a command starts is a late signal.
  logic starts, start_acts;
  assign starts = start_i.valid && !busy_q;
`ifdef MUTANT_9
  assign start_acts = now_q[Start] && !waits;
`else
  assign start_acts = now_q[Start] && !frame_commit_i && !waits;
`endif

  tag_t tag;
  assign tag = delivers ? message_i.tag : other_i.tag;

  always_comb begin
    state_d          = state_q;
    reads            = 1'b0;
    bucket_d         = bucket_q;
    keeps_d          = keeps_q;
    kept_d           = kept_q;
    reserved_d       = reserved_q;
    reserved_index_d = reserved_index_q;
    offset_d         = offset_q;
    found_d          = found_q;
    owner_d          = owner_q;

    append_resume_o     = 1'b0;
    append_over_o       = 1'b0;
    retire_valid_o      = 1'b0;

    answer_valid_o = 1'b0;
    answer_o = '{tag: tag, status: Matched, last: 1'b1, overflow: overflow_i, index: index_q,
                 entry_reference: reference_to(index_q, entry_a.generation, Entries), key: key_i, a: a_i, b: b_i};
    plan_o = '0;

    effect_d = now_q[Weigh] ? effect(key_i, entry_a.local_offset, entry_b.min_free, message_i.length,
                                          message_i.remote_offset, no_payload_q) : effect_q;

    // The entry after a message or an unlink.
    freed_d = now_q[Own] ? !delivers || (effect_q.unlinks && (!overflow_i || (!keeps_q && entry_b.headers == '0)))
                             : freed_q;
    offset_after = {1'b0, offset_q} + {1'b0, key_i.length};

    if (!wait_q) begin
      unique case (state_q)
        Idle: ;  // `starts` ends it

        Start: if (start_acts) begin
          keeps_d      = 1'b0;
          freed_d      = 1'b0;
          found_d      = 1'b0;
          offset_d     = '0;
          reserved_d   = 1'b0;
          unique case (point_q)
            FromStart, InOverflow: state_d = Class;
            Walk: begin
              reads   = 1'b1;
              state_d = Compare;
            end
            Known: begin
              reads   = 1'b1;
              state_d = Weigh;
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
          if (none_left_i) begin
            state_d = Chosen;
          end else begin
            bucket_d = entry_bucket_i;
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

        // The next record is read before this one is known not to match, which shortens the path.
        Compare: state_d = Judge;

        Judge: state_d = !hit_q && follows_i ? Compare : none_left_i ? Chosen : Class;

        Chosen: begin
          if (best_valid_i) begin
            state_d = Weigh;
            reads   = index_q != best_index_i;
          end else if (!overflow_i) begin
            state_d = Class;
          end else begin
            answer_valid_o  = 1'b1;
            answer_o.status = NoMatch;
            state_d         = Finish;
          end
        end

        Weigh: state_d = Decide;

        Decide: begin
          keeps_d = overflow_i && !key_i.options[UnexpectedHeaderDisable];
          kept_d  = header_index_i + HeaderBase;
          owner_d = index_q;
          // Reasons for refusal, in the order of `nic`.
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
              bucket_d = best_bucket_i;
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
              bucket_d        = entry_bucket_i;
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
          if (is_header(first_header_i)) begin
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
          end else if (is_header(next_header_i)) begin
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
          end else if (is_header(next_header_i)) begin
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
            // A use-once append takes the record at the top of the free list only for this message.
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

    if (twice && !second_q) begin
      state_d = state_q;
      reads   = 1'b0;
    end
  end

  // ---- Outputs to the other parts.

  assign drained = entry_b.headers == index_t'(1) && key_i.status == Draining;
  assign hand_o = '{
      now: now_q,
      state: state_q,
      reading: wait_q,
      starts: start_acts,
      second: second_q,
      point: point_q,
      tag: tag,
      start_index: start_index_q,
      index: index_q,
      hit: hit_q,
      bucket: index_t'(bucket_q),
      effect: effect_q,
      keeps: keeps_q,
      kept: kept_q,
      owner: owner_q,
      drained: drained,
      offset: offset_q,
      reserved: reserved_q,
      reserved_index: reserved_index_q
  };
  assign freed_o = freed_d;

  // The banks show the record that was read last.
  assign index_d = read_i.valid ? read_i.address : index_q;

  // The reserved record is taken a cycle later; no other record is taken meanwhile.
  assign free_take_o = reserves_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q  <= Idle;
      now_q    <= SequencerStates'(1) << Idle;
      wait_q   <= 1'b0;
      busy_q   <= 1'b0;
      reserves_q <= 1'b0;
      second_q <= 1'b0;
    end else begin
      state_q  <= starts ? Start : state_d;
      now_q    <= reads ? '0 : SequencerStates'(1) << state_d;
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
    index_q          <= index_d;
    effect_q         <= effect_d;
    keeps_q          <= keeps_d;
    freed_q          <= freed_d;
    kept_q           <= kept_d;
    reserved_q       <= reserved_d;
    reserved_index_q <= reserved_index_d;
    offset_q         <= offset_d;
    found_q          <= found_d;
    owner_q          <= owner_d;
    hit_q            <= now_q[HeaderCompare] ? header_hit_i : hit_i;
    spends_q <= local_by_rlength && other_i.min_free != '0 && exceeds_two(offset_q, other_i.min_free, other_i.length);
    no_payload_q <= overflow_i && message_i.token != '0;
  end

  assign busy_o = busy_q;
  assign waits_o = now_q[Start] && waits;
  assign retire_tag_o = tag;
  assign append_offset_o = offset_q;
  assign append_reserved_o = reserved_q;
  assign append_reserved_index_o = reserved_index_q;

endmodule
