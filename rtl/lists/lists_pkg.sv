// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The list manager's words of SRAM, commands and answers (docs/design/rtl.md, "Words").
//
// Entries and unexpected headers share a pool: an entry at its index, a header after all entries. Each record has a word in three banks:
// K has all fields that a search compares, except the ignore bits; A and B have the rest.
//
// PAC_SOURCE_W: bits of a source, 32 (a rank) or 64 (node and process). PAC_LENGTH_W: bits of lengths and offsets, 32 to 64. Words grow
// with them: the widths of K, A and B must stay multiples of 16 bits, a lane.

`ifndef PAC_SOURCE_W
`define PAC_SOURCE_W 32
`endif
`ifndef PAC_LENGTH_W
`define PAC_LENGTH_W 32
`endif

/* verilator lint_off UNUSEDPARAM */
package lists_pkg;
  import pac_pkg::*;

  parameter int unsigned SourceW = `PAC_SOURCE_W;
  parameter int unsigned LengthW = `PAC_LENGTH_W;
  parameter int unsigned PortalW = 6;
  parameter int unsigned LaneW = 16;

  typedef logic [SourceW-1:0] source_t;
  typedef logic [LengthW-1:0] length_t;
  typedef logic [PortalW-1:0] portal_t;

  // Options of entries, with the API's values (crates/core/nic/src/portals/constants.rs).
  parameter int unsigned OptionsW = 20;
  typedef logic [OptionsW-1:0] options_t;
  parameter int unsigned OpPut = 1;
  parameter int unsigned OpGet = 2;
  parameter int unsigned UseOnce = 3;
  parameter int unsigned UnexpectedHeaderDisable = 4;
  parameter int unsigned EventCommDisable = 7;
  parameter int unsigned EventUnlinkDisable = 11;
  parameter int unsigned ManageLocal = 15;
  parameter int unsigned NoTruncate = 16;
  parameter int unsigned LocalIncByRlength = 18;

  // Status of a record, with the values of crates/core/nic/src/tables.rs (`entry`, `header`).
  typedef enum logic [2:0] {
    Free     = 3'd0,
    Live     = 3'd1,  // of a header
    Priority = 3'd2,
    Overflow = 3'd3,
    Draining = 3'd4
  } status_e;

  // Wildcard patterns with their own chains, and the one chain of all others.
  parameter int unsigned Classes = 4;
  typedef logic [2:0] class_t;
  parameter class_t ClassOther = 3'd4;

  typedef struct packed {
    logic [63:0] ignore_bits;
    source_t     source_ignore;
  } pattern_t;

  typedef struct packed {
    logic [63:0] sequence_number;
    length_t     length;  // of a header: the requested length
    index_t      prev;    // not read in the head of a chain
    index_t      next;    // of a free record: its relative link
    options_t    options;
    portal_t     portal;
    status_e     status;
    class_t      class_number;
    source_t     source;
    logic [63:0] match_bits;
  } key_t;

  typedef struct packed {
    logic [12:0]  spare;
    generation_t  generation;
    reference_t   counter;
    logic [63:0]  start;
    length_t      local_offset;
    source_t      source_ignore;
    logic [63:0]  ignore_bits;
  } entry_a_t;

  typedef struct packed {
    logic [12:0]  spare;
    generation_t  generation;
    logic [6:0]   reserved;
    logic [3:0]   operation;  // `kind` of crates/core/nic/src/tables.rs
    index_t       entry;      // the entry whose memory has the payload
    logic [63:0]  start;
    length_t      mlength;
    length_t      remote_offset;
    logic [63:0]  header_data;
  } header_a_t;

  typedef struct packed {
    logic [111:0] spare;
    index_t       headers;  // number of unexpected headers whose payload is in this entry's memory
    length_t      min_free;
    logic [31:0]  uid;
    logic [63:0]  user_ptr;
  } entry_b_t;

  typedef struct packed {
    logic [159:0] spare;
    index_t       class_prev;
    index_t       class_next;
    logic [31:0]  token;
    logic [31:0]  uid;
  } header_b_t;

  // First and last record of a chain, as complements of their indices, so that cleared chains are empty. Without a head there is no tail.
  typedef struct packed {
    index_t tail;
    index_t head;
  } chain_t;

  typedef enum logic [3:0] {
    Matched       = 4'd0,   // Deliver: the entry. Append, Search: a header; further answers follow
    NoMatch       = 4'd1,
    Permission    = 4'd2,   // the matching entry is for another user
    Operation     = 4'd3,   // the matching entry is for another operation
    HeadersFull   = 4'd4,   // the overflow entry matches, but no header is free
    Linked        = 4'd5,   // Append
    Spent         = 4'd6,   // Append: headers used the entry up
    EntriesFull   = 4'd7,
    Unlinked      = 4'd8,
    InUse         = 4'd9,
    Invalid       = 4'd10,
    Drained       = 4'd11,  // Append, Search: an overflow entry that had waited for its last header is free
    Complete      = 4'd12,  // Search: no more headers
    EventsFull    = 4'd13   // the entry matches, but its event queue has no room for the message's events
  } answer_e;

  // Accesses to banks, before they are cut to a bank's size.
  typedef struct packed {
    logic   valid;
    index_t address;
  } read_t;

  typedef struct packed {
    logic         valid;
    index_t       address;
    logic [15:0]  lanes;
    logic [255:0] data;
    tag_t         tag;
  } bank_write_t;

  typedef struct packed {
    logic       valid;
    index_t     address;
    logic [1:0] lanes;  // tail, head
    chain_t     data;
    tag_t       tag;
  } chain_write_t;

  parameter logic [1:0] LaneHead = 2'b01;
  parameter logic [1:0] LaneTail = 2'b10;

  // All accesses of one part of the list manager.
  typedef struct packed {
    read_t               records;        // K, A and B at one address
    logic                gives;          // the record of k[0] is returned: its link is that of the free list
    bank_write_t [1:0]   k;
    bank_write_t [1:0]   a;
    bank_write_t [1:0]   b;
    read_t               entry_chain;
    chain_write_t [1:0]  entry_chain_write;
    read_t               header_chain;
    chain_write_t        header_chain_write;
    read_t               arrival;
    chain_write_t        arrival_write;
  } access_t;

  // Whether writes are the frame's or the sequencer's. They are never both.
  typedef struct packed {
    logic first;   // of the first port of K and A
    logic second;  // of B, and of the second ports
    logic chains;
  } selects_t;

  // The effect of the current message on an entry, before the final selection.
  typedef struct packed {
    length_t offset;
    length_t taken;   // the message's payload
    length_t rest;    // room for it, if it does not fit and there is any
    logic    room;
    logic    fits;
    logic    unlinks;
  } effect_t;

  // Whether a + b > limit: a row of full adders, then one carry chain.
  function automatic logic exceeds_two(length_t a, length_t b, length_t limit);
    logic [LengthW+1:0] wide_a, wide_b, below, sum, carry, total;
    wide_a = (LengthW + 2)'(a);
    wide_b = (LengthW + 2)'(b);
    below  = ~(LengthW + 2)'(limit);  // -limit - 1
    sum    = wide_a ^ wide_b ^ below;
    carry  = ((wide_a & wide_b) | (wide_a & below) | (wide_b & below)) << 1;
    total  = sum + carry;
    return !total[LengthW+1];
  endfunction

  // Whether a + b + c > limit: two rows of full adders, then one carry chain.
  function automatic logic exceeds(length_t a, length_t b, length_t c, length_t limit);
    logic [LengthW+2:0] wide_a, wide_b, wide_c, below, sum, carry, total;
    wide_a = (LengthW + 3)'(a);
    wide_b = (LengthW + 3)'(b);
    wide_c = (LengthW + 3)'(c);
    below  = ~(LengthW + 3)'(limit);  // -limit - 1
    sum    = wide_a ^ wide_b ^ wide_c;
    carry  = ((wide_a & wide_b) | (wide_a & wide_c) | (wide_b & wide_c)) << 1;
    total  = (sum ^ carry ^ below) + (((sum & carry) | (sum & below) | (carry & below)) << 1);
    return !total[LengthW+2];
  endfunction

  // `Plan` of crates/core/nic/src/portals/deliver.rs. An entry is used up when less than `min_free` is left of it, that is when offset +
  // length + min_free exceeds its length, even if the message is truncated.
  function automatic effect_t effect(key_t entry, length_t local_offset, length_t min_free, length_t length,
                                     length_t remote_offset, logic no_payload);
    effect_t result;
    logic local_;
    local_ = entry.options[ManageLocal];
    result.offset = local_ ? local_offset : remote_offset;
    result.taken = no_payload ? '0 : length;
    result.fits = no_payload ||
        !(local_ ? exceeds_two(local_offset, length, entry.length) : exceeds_two(remote_offset, length, entry.length));
    result.rest = local_ ? entry.length - local_offset : entry.length - remote_offset;
    result.room = local_ ? entry.length > local_offset : entry.length > remote_offset;
`ifdef MUTANT_14
    result.unlinks = entry.options[UseOnce] ||
        (local_ && min_free != '0 && exceeds(local_offset, result.taken, min_free + 1'b1, entry.length));
`else
    result.unlinks = entry.options[UseOnce] ||
        (local_ && min_free != '0 && exceeds(local_offset, result.taken, min_free, entry.length));
`endif
    return result;
  endfunction

  function automatic length_t mlength_of(effect_t effect_);
    return effect_.fits ? effect_.taken : effect_.room ? effect_.rest : '0;
  endfunction

  // The local offset after the message. A truncated message ends at the end of the entry.
  function automatic length_t moved_offset(effect_t effect_, length_t local_offset, length_t length);
    return effect_.fits ? local_offset + effect_.taken : effect_.room ? length : local_offset;
  endfunction

  // Whether the matching entry admits the message: its user, then its operation (the values of `kind` in crates/core/nic/src/tables.rs: 1
  // a put, 2 a get).
  function automatic answer_e admission(key_t entry, logic [31:0] entry_uid, logic [31:0] uid, logic [3:0] operation);
    if (entry_uid != '1 && entry_uid != uid) return Permission;
    if (operation == 4'd2 ? !entry.options[OpGet] : !entry.options[OpPut]) return Operation;
    return Matched;
  endfunction

  // Maximum events that a message writes (`Plan` of crates/core/nic/src/portals/deliver.rs): its own, AUTO_UNLINK, AUTO_FREE.
  function automatic logic [1:0] events_of(options_t options, logic unlinks, logic frees);
    logic unlink_event;
    unlink_event = unlinks && !options[EventUnlinkDisable];
    return 2'(!options[EventCommDisable]) + 2'(unlink_event) + 2'(unlink_event && frees);
  endfunction

  // The sequencer's entry point for a command.
  typedef enum logic [2:0] {
    FromStart  = 3'd0,  // Deliver, from the first class
    Walk       = 3'd1,  // Deliver, after the record that the banks show
    Known      = 3'd2,  // Deliver, to a known entry
    InOverflow = 3'd3,  // Deliver, from the overflow list on
    Other      = 3'd4   // Append (its search of the headers), Unlink, Search
  } entry_point_e;

  // States of the sequencer (list_sequencer.sv), and the width of a one-hot set of them.
  typedef enum logic [4:0] {
    Idle,
    Start,
    Class, Head, Compare, Judge, Chosen, Weigh, Decide,  // Deliver
    Unlinking,                                           // Unlink
    Unchain, Own, Keep, Finish,                          // both
    SearchHeaders, HeaderHead, HeaderCompare, HeaderJudge, HeaderFound,  // Append, Search
    Drop, DropLinks, DropOwn, DropOwner, Dropped,        // of a header that was found
    NotFound,
    Spend
  } sequencer_e;
  parameter int unsigned SequencerStates = 32;

  // The sequencer's state and current records, for the parts that compare, read and write by it.
  typedef struct packed {
    logic [SequencerStates-1:0] now;  // a bit a state: the state's turn, with no read in progress
    sequencer_e   state;
    logic         reading;   // a read is in progress: nothing moves
    logic         starts;    // in Start: the command begins
    logic         second;    // the second cycle of a state, with one port
    entry_point_e point;     // Other: `other` is current, else `message`
    tag_t         tag;
    index_t       start_index;
    index_t       index;     // of the record that the banks show
    logic         hit;       // the record compared in the previous cycle matches
    index_t       bucket;    // of the current chain, or of the current entry
    effect_t      effect;    // effect of the message on its entry
    logic         keeps;     // a header is kept,
    index_t       kept;      // in this record,
    index_t       owner;     // whose payload is in this entry's memory; or the entry of a dropped header
    logic         drained;   // the current header was the last of an entry that waits for it
    length_t      offset;    // local offset of the current append
    logic         reserved;  // it has a record off the free list,
    index_t       reserved_index;
  } sequencer_t;

  typedef struct packed {
    logic         valid;
    entry_point_e point;
    index_t       index;   // Known
    index_t       bucket;  // Known, Walk
  } start_t;

  typedef enum logic [1:0] {
    Deliver = 2'd0,  // a message looks for its entry
    Append  = 2'd1,
    Unlink  = 2'd2,
    Search  = 2'd3   // of the unexpected headers
  } kind_e;

  typedef struct packed {
    tag_t        tag;
    kind_e       kind;
    logic        overflow;       // Append: to the overflow list
    logic        delete_found;   // Search: found headers are dropped
    portal_t     portal;
    options_t    options;
    logic [63:0] match_bits;
    logic [63:0] ignore_bits;
    source_t     source;
    source_t     source_ignore;
    logic [63:0] start;
    length_t     length;
    length_t     min_free;
    logic [63:0] user_ptr;
    logic [31:0] uid;
    reference_t  counter;
    length_t     remote_offset;
    logic [63:0] header_data;
    logic [31:0] token;
    logic [3:0]  operation;
    logic        controlled;  // Deliver: with flow control, so it needs room for its events
    logic [1:0]  room;        // room for this number of events; 3: three or more
    reference_t  entry_reference;  // Unlink
  } command_t;

  typedef struct packed {
    tag_t       tag;
    answer_e    status;
    logic       last;          // no further answer to this command follows
    logic       overflow;      // the entry is of the overflow list
    index_t     index;         // of the record in the pool
    reference_t entry_reference;
    key_t       key;           // the record's words, as found
    logic [255:0] a;
    logic [255:0] b;
  } answer_t;

  // The effect of a message on its matching entry, a cycle or more after the answer.
  typedef struct packed {
    logic    valid;
    tag_t    tag;
    length_t offset;
    length_t mlength;
    logic    unlinks;
    logic    freed;
    logic    kept;      // a header was kept
    index_t  header;    // which
  } plan_t;

  // The first class of a set, as a set, and its pattern; that of ClassOther leaves nothing to compare.
  function automatic logic [Classes:0] lowest(logic [Classes:0] classes);
    return classes & ~(classes - 1'b1);
  endfunction

  function automatic pattern_t pattern_of(pattern_t [Classes-1:0] patterns, logic [Classes:0] class_set);
    pattern_t pattern;
    pattern = class_set[Classes] ? '1 : '0;
    for (int number = 0; number < int'(Classes); number++) if (class_set[number]) pattern |= patterns[number];
    return pattern;
  endfunction

  // Lanes that change in an existing record. The first port writes no others.
  parameter logic [15:0] LanesChangedK = 16'h01c0;
  parameter logic [15:0] LanesChangedA = 16'he0c0;
  parameter logic [15:0] LanesChangedB = 16'h0110;
  function automatic logic [255:0] changed_key(key_t key, status_e status, index_t next);
    key_t word;
    word = '0;
    word.next = next;
    word.options = key.options;
    word.portal = key.portal;
    word.status = status;
    word.class_number = key.class_number;
    return word;
  endfunction
  function automatic logic [255:0] changed_a(logic [255:0] a, generation_t generation, length_t local_offset);
    entry_a_t word;
    word = '0;
    word[255:208] = a[255:208];  // whole lanes
    word.generation = generation;
    word.local_offset = local_offset;
    return word;
  endfunction
  function automatic logic [255:0] word_headers(index_t headers);
    entry_b_t word;
    word = '0;
    word.headers = headers;
    return word;
  endfunction

  // With one port: the first port's write, or the second's. If the first writes nothing, the data are the second's.
  function automatic bank_write_t either(bank_write_t first, bank_write_t second, logic use_second, logic [15:0] lanes);
    bank_write_t result;
    result = use_second ? second : first;
    result.data = merged(second.data, result.data, lanes);
    return result;
  endfunction

  function automatic logic [255:0] merged(logic [255:0] whole, logic [255:0] changed, logic [15:0] lanes);
    logic [255:0] result;
    result = whole;
    for (int lane = 0; lane < 16; lane++) if (lanes[lane]) result[lane*LaneW+:LaneW] = changed[lane*LaneW+:LaneW];
    return result;
  endfunction

  function automatic logic [255:0] word_class_next(index_t index);
    header_b_t word;
    word = '0;
    word.class_next = index;
    return word;
  endfunction

  typedef struct packed {
    logic [63:0] match_bits;
    source_t     source;
    length_t     length;
    length_t     remote_offset;
  } message_t;

  typedef struct packed {
    logic [63:0] match_bits;
    logic [63:0] ignore_bits;
    source_t     source;
    source_t     source_ignore;
    logic        no_truncate;
    logic        manage_local;
    length_t     length;
    length_t     local_offset;
  } view_t;

  // Whether an entry or a search accepts a message: bits, source, and length if it may not be truncated (`accepts` of
  // crates/core/nic/src/portals/search.rs).
  function automatic logic accepts(view_t view, message_t message);
    logic same, fits;
    logic fits_local, fits_remote;
`ifdef MUTANT_6
    same = ((view.match_bits ^ message.match_bits) & ~(view.ignore_bits ^ 64'h100)) == '0;
`else
    same = ((view.match_bits ^ message.match_bits) & ~view.ignore_bits) == '0;
`endif
`ifdef MUTANT_7
    same &= view.source == message.source;
`else
    same &= ((view.source ^ message.source) & ~view.source_ignore) == '0;
`endif
`ifdef MUTANT_15
    fits_local  = message.length <= view.length;
    fits_remote = message.length <= view.length;
`else
    // Two sums, of which the option selects one, so that it does not lie before a carry.
    fits_local  = !exceeds_two(view.local_offset, message.length, view.length);
    fits_remote = !exceeds_two(message.remote_offset, message.length, view.length);
`endif
    fits = view.manage_local ? fits_local : fits_remote;
    return same && (fits || !view.no_truncate);
  endfunction

  parameter logic [15:0] LanesAll = '1;
  parameter logic [15:0] LaneNext = 16'h0100;
  parameter logic [15:0] LanePrev = 16'h0200;
  parameter logic [15:0] LanesStatus = 16'h00c0;      // class, status, portal, options
  parameter logic [15:0] LanesLocalOffset = 16'h00c0;  // of A
  parameter logic [15:0] LanesGeneration = 16'he000;   // of A
  parameter logic [15:0] LaneHeaders = 16'h0100;       // of B
  parameter logic [15:0] LaneClassNext = 16'h0010;     // of B
  parameter logic [15:0] LaneClassPrev = 16'h0020;     // of B

  // Banks, as the trace numbers them.
  typedef enum logic [3:0] {
    BankK = 4'd0,
    BankA = 4'd1,
    BankB = 4'd2,
    BankEntryChains = 4'd3,
    BankHeaderChains = 4'd4,
    BankArrival = 4'd5
  } bank_e;

  typedef struct packed {
    logic         valid;
    bank_e        bank;
    index_t       address;
    tag_t         tag;
    logic         old_known;
    logic [255:0] old_word;
    logic [255:0] new_word;
  } write_t;

  parameter int unsigned Writes = 10;

  typedef struct packed {
    logic retire_valid;
    tag_t retire_tag;
    write_t [Writes-1:0] write;
  } trace_t;

endpackage
/* verilator lint_on UNUSEDPARAM */
