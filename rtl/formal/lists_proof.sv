// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Properties of the list manager (docs/design/rtl-lockstep.md, "Proofs"), against plain lists in the bench: entries in the order of
// linking, unexpected headers in the order of arrival. Each answer is compared with the lists, and changes them.
//
// 1. No command is answered twice: answers are in the order of the commands, with their tags; the last one of each is marked, and no
//    other follows it. At most three commands wait. (That each is answered takes depths that these proofs do not reach.)
// 2. A message gets the oldest entry that accepts it, of the priority list before the overflow list; it gets none only if no live entry
//    accepts it. So no live entry is lost.
// 3. An entry is linked in a free record, and refused only if there is none. A reference is given once. So no record is live twice, and
//    none is lost.
// 4. An append or a search gets the oldest unexpected header that it accepts, and none only if there is none; a header is kept in a free
//    record, and refused only if there is none.
// 5. An unlink succeeds exactly if its reference is that of a live entry that no header holds.
//
// Commands have a few free bits: one bit of match bits (bit 8) and one of the source, each of which an entry may ignore; options, and
// lengths of two bits, if a task has them. They come in any cycle. The rest of a command is constant, and so are most bits of the banks:
// lists_ram.sv leaves these out.
//
// Bounded, to the depths of lists.sby. Mutants that the tasks find there: frame 1, 3, 4, 8, 10, 11; sources 7; overflow 5; local 14;
// headers 6. Not looked for: 13, 15. Out of reach: 9, which takes five commands with a kept header.

module lists_proof
  import lists_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Entries   = 2,   // 2 to 4
    parameter int unsigned Ports     = 2,
    parameter bit          Sources   = 1,   // 1: sources may differ
    parameter bit          Local     = 0,   // 1: entries that are locally managed, and entries that do not truncate
    parameter bit          Overflows = 0,   // 1: appends to the overflow list, so unexpected headers
    parameter bit          Unlinks   = 0,
    parameter bit          Searches  = 0,
    parameter int unsigned Scripted  = 0,   // number of first commands that come from `script`
    parameter int unsigned Reach     = 0    // 1 to 3: asserts that a state is not reached (below), and must fail
) (
    input logic       clk_i,
    input logic       command_valid_i,
    input logic [1:0] kind_i,
    input logic       overflow_i,
    input logic       match_i,
    input logic       any_match_i,
    input logic       source_i,
    input logic       any_source_i,
    input logic       once_i,
    input logic       no_header_i,
    input logic       local_i,
    input logic       no_truncate_i,
    input logic [1:0] length_i,
    input logic [1:0] min_free_i,
    input logic       drops_i,
    input logic [4:0] reference_i
);

  localparam int unsigned Headers = 2;
  localparam int unsigned IndexBits = $clog2(Entries);

  logic first_q = 1'b1;
  logic rst_n;
  always_ff @(posedge clk_i) first_q <= 1'b0;
  assign rst_n = !first_q;

  // ---- Commands.

  typedef struct packed {
    logic [2:0] tag;
    kind_e      kind;
    logic       overflow, match, any_match, source, any_source, once, no_header, local_, no_truncate, drops;
    logic [1:0] length, min_free;
    logic [4:0] reference;
  } ask_t;

  logic [2:0] tag_q;
  logic accept, command_ready;
  assign accept = command_valid_i && command_ready;

  ask_t ask;
  command_t command;
  if (Unlinks && Searches) begin : gen_all_kinds
    assign ask.kind = kind_e'(kind_i);
  end else if (Unlinks) begin : gen_unlinks
    assign ask.kind = kind_e'(kind_i[1] ? 2'd2 : {1'b0, kind_i[0]});
  end else if (Searches) begin : gen_searches
    assign ask.kind = kind_e'(kind_i[1] ? 2'd3 : {1'b0, kind_i[0]});
  end else begin : gen_two_kinds
    assign ask.kind = kind_e'({1'b0, kind_i[0]});
  end
  assign ask.tag         = tag_q;
  assign ask.overflow    = Overflows && overflow_i;
  assign ask.match       = match_i;
  assign ask.any_match   = any_match_i;
  assign ask.source      = Sources && source_i;
  assign ask.any_source  = Sources && any_source_i;
  assign ask.once        = once_i;
  assign ask.no_header   = Overflows && no_header_i;
  assign ask.local_      = Local && local_i;
  assign ask.no_truncate = Local && no_truncate_i;
  assign ask.drops       = Searches && drops_i;
  assign ask.length      = Local ? length_i : 2'd0;
  assign ask.min_free    = Local ? min_free_i : 2'd0;
  assign ask.reference   = Unlinks ? reference_i & 5'((1 << (IndexBits + 3)) - 1) : 5'd0;

  always_comb begin
    command = '0;
    command.tag             = tag_t'(ask.tag);
    command.kind            = ask.kind;
    command.overflow        = ask.overflow;
    command.delete_found    = ask.drops;
    command.options[OpPut]  = 1'b1;
    command.options[UseOnce] = ask.once;
    command.options[UnexpectedHeaderDisable] = ask.no_header;
    command.options[ManageLocal] = ask.local_;
    command.options[NoTruncate]  = ask.no_truncate;
    command.match_bits[8]   = ask.match;
    command.ignore_bits[8]  = ask.any_match;
    command.source[0]       = ask.source;
    command.source_ignore[0] = ask.any_source;
    command.length          = length_t'(ask.length);
    command.min_free        = length_t'(ask.min_free);
    command.user_ptr        = 64'(ask.tag);
    command.header_data     = 64'(ask.tag);
    command.operation       = 4'd1;
    command.entry_reference = reference_t'(ask.reference);
  end

  logic answer_valid;
  answer_t answer;
  trace_t trace;
  plan_t plan;
  lists #(
      .Entries(Entries),
      .Headers(Headers),
      .Buckets(2),
      .Ports  (Ports),
      .Trace  (1'b0)
  ) u_lists (
      .clk_i,
      .rst_ni         (rst_n),
      .command_valid_i,
      .command_ready_o(command_ready),
      .command_i      (command),
      .answer_valid_o (answer_valid),
      .answer_o       (answer),
      .trace_o        (trace),
      .outside_o      (plan)
  );

  // The scripted commands: an overflow entry that accepts all, a message, an append that the message's header may match; with Unlinks
  // three entries of one chain.
  logic [1:0] scripted_q;
  always_comb begin
    if (!first_q && 32'(scripted_q) < Scripted) begin
      assume (command_valid_i);
      if (Unlinks) assume (kind_i == 2'd1 && !match_i && !any_match_i && !once_i);
      else unique case (scripted_q)
        2'd0: assume (kind_i == 2'd1 && overflow_i && any_match_i && !no_header_i);
        2'd1: assume (kind_i == 2'd0);
        default: assume (kind_i == 2'd1 && !overflow_i);
      endcase
    end
  end
  always_ff @(posedge clk_i or negedge rst_n) begin
    if (!rst_n) begin
      tag_q      <= '0;
      scripted_q <= '0;
    end else if (accept) begin
      tag_q <= tag_q + 1'b1;
      if (scripted_q != '1) scripted_q <= scripted_q + 1'b1;
    end
  end

  // ---- The lists.

  typedef struct packed {
    status_e    status;
    ask_t       by;          // the append
    logic [1:0] offset;
    logic [1:0] headers;
    logic [2:0] generation;
    logic [3:0] birth;
  } entry_t;
  typedef struct packed {
    logic       valid;
    logic       placed;      // its record is known
    ask_t       by;          // the message
    logic [1:0] owner;
    logic [2:0] index;
  } header_t;

  // Unanswered commands, the oldest in 0; known facts about the oldest.
  ask_t [3:0] asked_q, asked_d;
  logic [2:0] count_q, count_d;
  logic more_q, more_d;                // it was answered before
  logic drains_q, drains_d;            // its last header was the last of an entry that waits for it
  logic [1:0] owner_q, owner_d;
  logic [1:0] position_q, position_d;  // a search that drops nothing continues after this number of headers
  ask_t oldest;
  assign oldest = asked_q[0];

  entry_t [Entries-1:0] entry_q, entry_d;
  header_t [Headers-1:0] header_q, header_d;  // in order of arrival
  logic [3:0] births_q;

  function automatic logic same(ask_t pattern, ask_t message);
    return (pattern.any_match || pattern.match == message.match) && (pattern.any_source || pattern.source == message.source);
  endfunction
  function automatic logic fits(ask_t pattern, logic [1:0] offset, ask_t message);
    return 4'(pattern.local_ ? offset : 2'd0) + 4'(message.length) <= 4'(pattern.length);
  endfunction

  // The oldest entry of a list that accepts the message.
  logic [1:0] found;  // priority list, overflow list
  logic [1:0][1:0] found_index;
  always_comb begin
    found = '0;
    found_index = '0;
    for (int list = 0; list < 2; list++) begin
      for (int index = 0; index < int'(Entries); index++) begin
        if (entry_q[index].status == (list == 1 ? Overflow : Priority) && same(entry_q[index].by, oldest) &&
            (!entry_q[index].by.no_truncate || fits(entry_q[index].by, entry_q[index].offset, oldest)) &&
            (!found[list] || entry_q[index].birth < entry_q[found_index[list]].birth)) begin
          found[list] = 1'b1;
          found_index[list] = 2'(index);
        end
      end
    end
  end
  logic [1:0] hit_index;
  entry_t hit_entry;
  logic hit_overflow, unlinks, keeps;
  assign hit_overflow = !found[0];
  assign hit_index    = found[0] ? found_index[0] : found_index[1];
  assign hit_entry    = entry_q[hit_index];
  assign keeps        = hit_overflow && !hit_entry.by.no_header;
  assign unlinks      = hit_entry.by.once || (hit_entry.by.local_ && hit_entry.by.min_free != '0 &&
      4'(hit_entry.offset) + 4'(oldest.length) + 4'(hit_entry.by.min_free) > 4'(hit_entry.by.length));

  // The oldest header that the append or the search accepts.
  logic found_header, which_header;
  always_comb begin
    found_header = 1'b0;
    which_header = 1'b0;
    for (int place = int'(Headers) - 1; place >= 0; place--) begin
      if (header_q[place].valid && place >= int'(position_q) && same(oldest, header_q[place].by) &&
          (!oldest.no_truncate || fits(oldest, 2'd0, header_q[place].by))) begin
        found_header = 1'b1;
        which_header = 1'(place);
      end
    end
  end

  logic [Entries-1:0] is_free;
  always_comb for (int index = 0; index < int'(Entries); index++) is_free[index] = entry_q[index].status == Free;

  logic [IndexBits-1:0] unlink_index;
  entry_t unlink_entry;
  logic unlink_known;
  assign unlink_index = oldest.reference[IndexBits-1:0];
  assign unlink_entry = entry_q[unlink_index];
  assign unlink_known = 32'(unlink_index) < Entries && unlink_entry.status != Free &&
      3'(oldest.reference >> IndexBits) == unlink_entry.generation;

  answer_e expected;
  logic expected_last, names_entry, names_header;
  index_t expected_index;
  always_comb begin
    expected       = NoMatch;
    expected_last  = 1'b1;
    names_entry    = 1'b0;
    names_header   = 1'b0;
    expected_index = index_t'(hit_index);
    unique case (oldest.kind)
      Deliver: if (found != '0) begin
        names_entry = 1'b1;
        expected    = keeps && header_q[Headers-1].valid ? HeadersFull : Matched;
      end
      Unlink: begin
        expected       = !unlink_known ? Invalid :
            unlink_entry.status == Draining || unlink_entry.headers != '0 ? InUse : Unlinked;
        names_entry    = unlink_known;
        expected_index = index_t'(unlink_index);
      end
      default: begin
        if (drains_q) begin
          {expected, expected_last} = {Drained, 1'b0};
          names_entry    = 1'b1;
          expected_index = index_t'(owner_q);
        end else if (oldest.kind == Append && !more_q && is_free == '0) begin
          expected = EntriesFull;
        end else if (oldest.once && more_q) begin
          expected = oldest.kind == Append ? Spent : Complete;
        end else if (found_header && !oldest.overflow) begin
          {expected, expected_last} = {Matched, 1'b0};
          names_header = 1'b1;
        end else begin
          expected = oldest.kind == Append ? Linked : more_q ? Complete : NoMatch;
        end
      end
    endcase
  end

  logic [1:0] given;  // the record that an answer gives or shows as free
  assign given = 2'(answer.index);
  always_comb begin
    asked_d    = asked_q;
    count_d    = count_q;
    more_d     = more_q;
    drains_d   = drains_q;
    owner_d    = owner_q;
    position_d = position_q;
    entry_d    = entry_q;
    header_d   = header_q;
    if (answer_valid) begin
      more_d   = 1'b1;
      drains_d = 1'b0;
      unique case (expected)
        Matched: begin
          if (oldest.kind == Deliver) begin
            if (hit_entry.by.local_) begin
              if (fits(hit_entry.by, hit_entry.offset, oldest)) entry_d[hit_index].offset = hit_entry.offset + oldest.length;
              else if (hit_entry.by.length > hit_entry.offset) entry_d[hit_index].offset = hit_entry.by.length;
            end
            if (keeps) begin
              entry_d[hit_index].headers = hit_entry.headers + 1'b1;
              header_d[header_q[0].valid] = '{valid: 1'b1, placed: 1'b0, by: oldest, owner: hit_index, index: '0};
            end
            if (unlinks) begin
              entry_d[hit_index].status = Draining;
              if (entry_d[hit_index].headers == '0) begin
                entry_d[hit_index].status = Free;
                entry_d[hit_index].generation = hit_entry.generation + 1'b1;
              end
            end
          end else if (oldest.kind == Append || oldest.drops) begin
            owner_d = header_q[which_header].owner;
            entry_d[owner_d].headers = entry_q[owner_d].headers - 1'b1;
            drains_d = entry_q[owner_d].status == Draining && entry_q[owner_d].headers == 2'd1;
            if (!which_header) header_d[0] = header_q[1];
            header_d[1] = '0;
          end else begin
            position_d = 2'(which_header) + 1'b1;
          end
        end
        Linked: begin
          entry_d[given] = '{status: oldest.overflow ? Overflow : Priority, by: oldest, offset: '0, headers: '0,
                             generation: entry_q[given].generation, birth: births_q};
        end
        // The append had the record for a while.
        Spent: entry_d[given].generation = entry_q[given].generation + 1'b1;
        Unlinked: begin
          entry_d[unlink_index].status = Free;
          entry_d[unlink_index].generation = unlink_entry.generation + 1'b1;
        end
        Drained: begin
          entry_d[owner_q].status = Free;
          entry_d[owner_q].generation = entry_q[owner_q].generation + 1'b1;
        end
        default: ;
      endcase
      if (expected_last) begin
        asked_d    = {ask_t'('0), asked_q[3:1]};
        count_d    = count_q - 1'b1;
        more_d     = 1'b0;
        position_d = '0;
      end
    end
    for (int place = 0; place < int'(Headers); place++) begin
      if (plan.valid && plan.kept && header_q[place].valid && !header_q[place].placed) begin
        header_d[place].placed = 1'b1;
        header_d[place].index  = 3'(plan.header);
      end
    end
    if (accept) begin
      asked_d[count_d[1:0]] = ask;
      count_d = count_d + 1'b1;
    end
  end

  always_ff @(posedge clk_i or negedge rst_n) begin
    if (!rst_n) begin
      count_q    <= '0;
      more_q     <= 1'b0;
      drains_q   <= 1'b0;
      owner_q    <= '0;
      position_q <= '0;
      asked_q    <= '0;
      entry_q    <= '0;
      header_q   <= '0;
      births_q   <= '0;
    end else begin
      count_q    <= count_d;
      more_q     <= more_d;
      drains_q   <= drains_d;
      owner_q    <= owner_d;
      position_q <= position_d;
      asked_q    <= asked_d;
      entry_q    <= entry_d;
      header_q   <= header_d;
      if (answer_valid && expected == Linked) births_q <= births_q + 1'b1;
    end
  end

  key_t answer_key;
  entry_a_t answer_a;
  header_a_t answer_header;
  entry_b_t answer_b;
  assign answer_key    = answer.key;
  assign answer_a      = answer.a;
  assign answer_header = answer.a;
  assign answer_b      = answer.b;
  entry_t named;
  assign named = entry_q[expected_index[1:0]];
  always_comb begin
    if (!first_q) begin
      // 1.
      assert (count_q <= 3'd3);
      if (answer_valid) begin
        assert (count_q != '0 && answer.tag == tag_t'(oldest.tag));
        assert (answer.status == expected && answer.last == expected_last);
        // 2, 5.
        if (names_entry) begin
          assert (answer.index == expected_index && answer.entry_reference == reference_to(expected_index, 24'(named.generation), Entries));
          assert (answer_b.user_ptr == 64'(named.by.tag));
          if (Local) assert (answer_a.local_offset == length_t'(named.offset));
        end
        if (names_entry && oldest.kind == Deliver) assert (answer.overflow == hit_overflow);
        // 3.
        if (expected == Linked || expected == Spent) begin
          assert (32'(answer.index) < Entries && is_free[given]);
        end
        if (expected == Linked) begin
          assert (answer.entry_reference == reference_to(index_t'(given), 24'(entry_q[given].generation), Entries));
        end
        // 4.
        if (names_header) begin
          assert (answer_header.header_data == 64'(header_q[which_header].by.tag));
          assert (answer.index == index_t'(header_q[which_header].index) && header_q[which_header].placed);
        end
      end
      if (plan.valid && plan.kept) begin
        assert (32'(plan.header) >= Entries && 32'(plan.header) < Entries + Headers);
        assert (header_q[0].valid && !header_q[header_q[1].valid].placed);
        if (header_q[1].valid) assert (plan.header != index_t'(header_q[0].index));
      end
    end
  end

  // Reachability: a proof that these states are not reached must fail.
  logic [4:0] used;
  // The unlinked entry has one before it and one after it in its chain.
  logic middle_q;
  logic [1:0] beside;
  always_comb begin
    beside = '0;
    for (int index = 0; index < int'(Entries); index++) begin
      if (entry_q[index].status == unlink_entry.status && entry_q[index].by.match == unlink_entry.by.match &&
          !entry_q[index].by.any_match && !unlink_entry.by.any_match) begin
        if (entry_q[index].birth < unlink_entry.birth) beside[0] = 1'b1;
        if (entry_q[index].birth > unlink_entry.birth) beside[1] = 1'b1;
      end
    end
  end
  always_comb for (int number = 0; number <= int'(Classes); number++) used[number] = u_lists.active[number];
  always_comb begin
    if (!first_q) begin
      // A match in the second of two classes.
      if (Reach == 1) begin
        assert (!(answer_valid && expected == Matched && oldest.kind == Deliver && answer_key.class_number == 3'd1 && used == 5'b00011));
      end
      // An append takes an unexpected header.
      if (Reach == 2) assert (!(answer_valid && names_header && oldest.kind == Append));
      // The record in the middle of a chain is unlinked.
      if (Reach == 3) assert (!middle_q);
    end
  end
  always_ff @(posedge clk_i or negedge rst_n) begin
    if (!rst_n) middle_q <= 1'b0;
    else if (answer_valid && expected == Unlinked && beside == '1) middle_q <= 1'b1;
  end

endmodule
