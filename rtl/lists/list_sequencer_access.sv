// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The sequencer's accesses by its state (list_sequencer.sv): reads and writes of banks, records taken and returned. Combinational, except
// the start of a header's payload. lists.sv checks the parameters.
//
// 1. One register a state (`now`), and little more, selects reads and writes: an unneeded read is made where it does no harm.
// 2. lists.sv writes the link of a returned record, in the first write to K of that cycle.
// 3. With banks of one port, a state that makes two writes to a bank, or reads after a write, takes two cycles: the first port's writes,
//    then (`second`) the second's and the reads.

module list_sequencer_access
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

    input sequencer_t hand_i,
    input command_t   message_i,
    input command_t   other_i,
    input class_t     append_class_i,

    // Words at the banks' outputs.
    input key_t         key_i,
    input logic [255:0] a_i,
    input logic [255:0] b_i,
    input chain_t       chain_i,
    input chain_t       header_chain_i,
    input chain_t       arrival_i,

    input logic [BucketW-1:0] entry_bucket_i,        // to be read
    input logic               best_valid_i,
    input index_t             best_index_i,
    input logic [BucketW-1:0] best_bucket_i,
    input index_t             first_header_i,
    input index_t             next_header_i,
    input portal_t            header_portal_i,
    input logic [BucketW-1:0] header_bucket_i,       // to be read
    input logic [BucketW-1:0] kept_header_bucket_i,  // of the current header
    input logic               freed_i,               // the current entry is returned
    input index_t             free_index_i,
    input logic [63:0]        sequence_i,

    output access_t access_o,
    output logic    free_give_o,
    output index_t  free_give_index_o,
    output logic    header_take_o,
    output logic    header_give_o,
    output index_t  header_give_index_o,
    output logic    sequence_next_o,
    output logic    discount_o,
    output class_t  discount_class_o
);

  localparam index_t HeaderBase = index_t'(Entries);
  function automatic logic is_entry(index_t index);
    return index < index_t'(Entries);
  endfunction
  function automatic logic is_header(index_t index);
    return index >= HeaderBase && index < index_t'(Entries + Headers);
  endfunction

  entry_a_t  entry_a;
  entry_b_t  entry_b;
  header_a_t header_a;
  header_b_t header_b;
  assign entry_a  = a_i;
  assign entry_b  = b_i;
  assign header_a = a_i;
  assign header_b = b_i;

  // The two cycles of a state with one port; with two ports they are one.
  logic first, last, once, delivers;
  assign first    = Ports == 2 || !hand_i.second;
  assign last     = Ports == 2 || hand_i.second;
  assign once     = other_i.options[UseOnce];
  assign delivers = hand_i.point != Other;

  // ---- Words: of the current entry, and of the header that a message leaves.

  key_t new_key;
  header_a_t new_a;
  header_b_t new_b;
  generation_t own_generation;
  length_t own_offset;
  index_t own_headers;
  logic moves_offset, head_of_chain, head_of_arrival, head_of_header_chain, has_next, has_class_next;
  logic [63:0] header_start_q;
  always_comb begin
    moves_offset   = delivers && key_i.options[ManageLocal];
    own_generation = next_generation(entry_a.generation, Entries);
`ifdef MUTANT_13
    own_offset = entry_a.local_offset + message_i.length;
`else
    own_offset = moved_offset(hand_i.effect, entry_a.local_offset, key_i.length);
`endif
    own_headers = hand_i.now[DropOwner] ? entry_b.headers - 1'b1 : entry_b.headers + 1'b1;

    new_key = '{sequence_number: sequence_i, length: message_i.length, prev: hand_i.now[Keep] ? ~arrival_i.tail : key_i.prev,
                next: None, options: '0, portal: message_i.portal, status: Live, class_number: '0, source: message_i.source,
                match_bits: message_i.match_bits};
    new_a = '{spare: '0, generation: header_a.generation, reserved: '0, operation: message_i.operation, entry: hand_i.owner,
              start: header_start_q, mlength: mlength_of(hand_i.effect), remote_offset: message_i.remote_offset,
              header_data: message_i.header_data};
    new_b = '{spare: '0, class_prev: hand_i.now[Keep] ? ~header_chain_i.tail : header_b.class_prev, class_next: None,
              token: message_i.token, uid: message_i.uid};

    head_of_chain        = ~chain_i.head == hand_i.index;
    head_of_arrival      = ~arrival_i.head == hand_i.index;
    head_of_header_chain = ~header_chain_i.head == hand_i.index;
    has_next             = hand_i.now[Unchain] ? is_entry(key_i.next) : is_header(key_i.next);
    has_class_next       = is_header(header_b.class_next);
  end
  always_ff @(posedge clk_i) if (hand_i.now[Own]) header_start_q <= entry_a.start + 64'(hand_i.effect.offset);

  // ---- Reads and writes.

  always_comb begin
    access_o = '0;

    access_o.records.valid = hand_i.starts || hand_i.now[Head] || (hand_i.now[Compare] && is_entry(key_i.next)) ||
        (hand_i.now[Chosen] && best_valid_i) || (hand_i.now[Own] && last && hand_i.keeps) || hand_i.now[HeaderHead] ||
        (hand_i.now[HeaderJudge] && !hand_i.hit && is_header(next_header_i)) ||
        (hand_i.now[HeaderFound] && other_i.kind != Append && !other_i.delete_found && is_header(next_header_i)) ||
        (hand_i.now[DropOwn] && last) || hand_i.now[Dropped];
    access_o.records.address =
        (hand_i.start_index & {IndexW{hand_i.now[Start]}}) |
        (~chain_i.head & {IndexW{hand_i.now[Head]}}) |
        (key_i.next & {IndexW{hand_i.now[Compare]}}) |
        (best_index_i & {IndexW{hand_i.now[Chosen]}}) |
        (hand_i.kept & {IndexW{hand_i.now[Own]}}) |
        (first_header_i & {IndexW{hand_i.now[HeaderHead]}}) |
        (next_header_i & {IndexW{hand_i.now[HeaderJudge] || hand_i.now[HeaderFound]}}) |
        (hand_i.owner & {IndexW{hand_i.now[DropOwn]}}) |
        ((once ? free_index_i : hand_i.reserved_index) & {IndexW{hand_i.now[Dropped]}});
    access_o.entry_chain  = '{valid: hand_i.now[Class] || hand_i.now[Decide] || hand_i.now[Unlinking],
                              address: hand_i.now[Decide] ? index_t'(best_bucket_i) : index_t'(entry_bucket_i)};
    access_o.header_chain = '{valid: (hand_i.now[Own] && last) || hand_i.now[SearchHeaders] || hand_i.now[Drop],
                              address: index_t'(header_bucket_i)};
    access_o.arrival      = '{valid: access_o.header_chain.valid, address: index_t'(header_portal_i)};

    // ---- Links of other records, and changes of the current record; then new words.
    access_o.gives = hand_i.now[Own] || hand_i.now[DropOwn] || hand_i.now[DropOwner] || hand_i.now[Spend];
    access_o.k[0].valid = (hand_i.now[Unchain] && first && !head_of_chain) ||
        (hand_i.now[Own] && first && (!delivers || hand_i.effect.unlinks)) ||
        (hand_i.now[Keep] && first && arrival_i.head != '0) ||
        (hand_i.now[DropLinks] && first && !head_of_arrival) || (hand_i.now[DropOwn] && first) ||
        (hand_i.now[DropOwner] && hand_i.drained) || (hand_i.now[Spend] && hand_i.reserved);
    access_o.k[0].address = hand_i.now[Unchain] || hand_i.now[DropLinks] ? key_i.prev : hand_i.now[Keep] ? ~arrival_i.tail : hand_i.index;
    access_o.k[0].lanes = (hand_i.now[Own] || hand_i.now[DropOwn] || hand_i.now[DropOwner] ? LanesStatus : '0) |
        (hand_i.now[Own] && !freed_i ? '0 : LaneNext);
    access_o.k[0].data = changed_key(key_i, hand_i.now[Own] && !freed_i ? Draining : Free, hand_i.now[Keep] ? hand_i.index : key_i.next);
    access_o.k[0].tag = hand_i.tag;
    access_o.k[1] = '{valid: ((hand_i.now[Unchain] || hand_i.now[DropLinks]) && last && has_next) || (hand_i.now[Keep] && last),
                      address: hand_i.now[Keep] ? hand_i.index : key_i.next, lanes: hand_i.now[Keep] ? LanesAll : LanePrev, data: new_key,
                      tag: hand_i.tag};

    access_o.a[0].valid = (hand_i.now[Own] && first && (freed_i || moves_offset)) || (hand_i.now[DropOwn] && first) ||
        (hand_i.now[DropOwner] && hand_i.drained) || hand_i.now[Spend];
    access_o.a[0].address = hand_i.index;
    access_o.a[0].lanes = (hand_i.now[Own] && !freed_i ? '0 : LanesGeneration) |
        (hand_i.now[Own] && moves_offset ? LanesLocalOffset : '0);
    access_o.a[0].data = changed_a(a_i, hand_i.now[DropOwn] ? header_a.generation + 1'b1 : own_generation, own_offset);
    access_o.a[0].tag = hand_i.tag;
    access_o.a[1] = '{valid: hand_i.now[Keep] && last, address: hand_i.index, lanes: LanesAll, data: new_a, tag: hand_i.tag};

    access_o.b[0].valid = (hand_i.now[Own] && first && hand_i.keeps) || (hand_i.now[Keep] && first && header_chain_i.head != '0) ||
        (hand_i.now[DropLinks] && first && !head_of_header_chain) || hand_i.now[DropOwner];
    access_o.b[0].address = hand_i.now[Keep] ? ~header_chain_i.tail : hand_i.now[DropLinks] ? header_b.class_prev : hand_i.index;
    access_o.b[0].lanes = hand_i.now[Keep] || hand_i.now[DropLinks] ? LaneClassNext : LaneHeaders;
    access_o.b[0].data = word_headers(own_headers) | word_class_next(hand_i.now[Keep] ? hand_i.index : header_b.class_next);
    access_o.b[0].tag = hand_i.tag;
    access_o.b[1] = '{valid: (hand_i.now[DropLinks] && last && has_class_next) || (hand_i.now[Keep] && last),
                      address: hand_i.now[Keep] ? hand_i.index : header_b.class_next,
                      lanes: hand_i.now[Keep] ? LanesAll : LaneClassPrev, data: new_b, tag: hand_i.tag};

    access_o.entry_chain_write[0] = '{valid: hand_i.now[Unchain] && first && (head_of_chain || !has_next),
        address: hand_i.bucket, lanes: {!has_next, head_of_chain},
        data: '{tail: head_of_chain ? '0 : ~key_i.prev, head: has_next ? ~key_i.next : '0}, tag: hand_i.tag};
    access_o.arrival_write = '{valid: (hand_i.now[Keep] && first) || (hand_i.now[DropLinks] && first && (head_of_arrival || !has_next)),
        address: hand_i.now[Keep] ? index_t'(message_i.portal) : index_t'(key_i.portal),
        lanes: hand_i.now[Keep] ? {1'b1, arrival_i.head == '0} : {!has_next, head_of_arrival},
        data: '{tail: hand_i.now[Keep] ? ~hand_i.index : head_of_arrival ? '0 : ~key_i.prev,
                head: hand_i.now[Keep] ? ~hand_i.index : has_next ? ~key_i.next : '0}, tag: hand_i.tag};
    access_o.header_chain_write = '{
        valid: (hand_i.now[Keep] && first) || (hand_i.now[DropLinks] && first && (head_of_header_chain || !has_class_next)),
        address: index_t'(kept_header_bucket_i),
        lanes: hand_i.now[Keep] ? {1'b1, header_chain_i.head == '0} : {!has_class_next, head_of_header_chain},
        data: '{tail: hand_i.now[Keep] ? ~hand_i.index : head_of_header_chain ? '0 : ~header_b.class_prev,
                head: hand_i.now[Keep] ? ~hand_i.index : has_class_next ? ~header_b.class_next : '0}, tag: hand_i.tag};

    if (Ports == 1) begin
      access_o.k[0] = either(access_o.k[0], access_o.k[1], hand_i.second, LanesChangedK);
      access_o.a[0] = either(access_o.a[0], access_o.a[1], hand_i.second, LanesChangedA);
      access_o.b[0] = either(access_o.b[0], access_o.b[1], hand_i.second, LanesChangedB);
      access_o.k[1].valid = 1'b0;
      access_o.a[1].valid = 1'b0;
      access_o.b[1].valid = 1'b0;
    end
  end

  // ---- Records and classes.

  assign free_give_o         = (hand_i.now[Own] && first && freed_i) || (hand_i.now[DropOwner] && hand_i.drained) || (hand_i.now[Spend] && hand_i.reserved);
  assign free_give_index_o   = hand_i.index;
  assign header_take_o       = hand_i.now[Keep] && last;
  assign header_give_o       = hand_i.now[DropOwn] && first;
  assign header_give_index_o = hand_i.index - HeaderBase;
  assign sequence_next_o     = hand_i.now[Keep] && last;
  assign discount_o          = (hand_i.now[Own] && first && (!delivers || hand_i.effect.unlinks)) || hand_i.now[Spend];
  assign discount_class_o    = hand_i.now[Spend] ? append_class_i : key_i.class_number;

endmodule
