// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The list manager: seed 000, section 3.2.4 (PRQ, UMQ and OFQ in one pool); `crates/core/nic/src/portals/matching.rs`, `lists.rs` and the
// list half of `deliver.rs`. docs/design/rtl.md has words, classes and cycles. Parameters out of range stop elaboration.
//
// Commands: Deliver (a message looks for its entry), Append, Unlink, Search. They take effect as if each ran alone, in the order of
// acceptance.
//
//   Deliver   4 cycles to the answer at the head of its chain, with one class of patterns in use; c + 3 with c
//   Append    3 cycles, if no unexpected header can match
//   both      a message every 4 cycles, with an append beside each; with banks of one port a message every 4, a message and an append
//             every 9
//
// Cycles count from the start of a command: the cycle of its acceptance, if nothing is in progress. `command_ready_o` is a register: one
// command is accepted before it can start.
//
// This file has the banks, the free lists and the class table; list_frame.sv and list_sequencer.sv use them in turn.

module lists
  import lists_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Entries   = 256,  // 2 to 32,768 together with Headers
    parameter int unsigned Headers   = 256,  // at least 2
    parameter int unsigned Buckets   = 512,  // a power of two, 2 to 65,536
    parameter bit          KeySource = 0,    // 1: the seed's hash key, the source alone
    parameter bit          HashCrc   = 0,    // 1: hash by CRC-32C instead of exclusive or
    parameter int unsigned Ports     = 2,    // of the banks: 2 to read and 2 to write, or 1 for both
    parameter bit          Trace     = 1     // 1: `trace_o` shows writes; for simulation only
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic     command_valid_i,
    output logic     command_ready_o,
    input  command_t command_i,

    output logic    answer_valid_o,
    output answer_t answer_o,
    output trace_t  trace_o,
    output plan_t   outside_o  // effect of a message on its entry, after its answer
);

  localparam int unsigned Pool = Entries + Headers;
  if (Entries < 2 || Headers < 2 || Pool > 32768)
    $error("lists: Entries is %0d and Headers %0d: at least 2 each, and 32,768 together", Entries, Headers);
  if (Ports != 1 && Ports != 2) $error("lists: Ports is %0d, and may be 1 or 2", Ports);
  if (SourceW != 32 || LengthW != 32) $error("lists: K, A and B have room for sources and lengths of 32 bits");

  localparam int unsigned PoolW = $clog2(Pool);
  localparam int unsigned BucketW = $clog2(Buckets);
  localparam int unsigned Portals = 2 ** PortalW;

  // ---- The two parts that use the banks.

  access_t frame_access, sequencer_access;
  logic sequencer_busy, sequencer_waits, frame_commit, frame_idle;
  selects_t selects;
  start_t start;
  command_t message, other;
  class_t append_class_held;
  logic append_resume, append_reserved, append_over;
  length_t append_offset;
  index_t append_reserved_index;
  read_t append_chain, append_record;

  key_t key;
  logic [255:0] a, b;
  // With one port, it serves both.
  logic [Ports-1:0][255:0] a_data;
  chain_t [Ports-1:0] entry_chains;
  chain_t header_chain, arrival;

  logic frame_answer_valid, sequencer_answer_valid;
  answer_t frame_answer, sequencer_answer;
  plan_t frame_plan, sequencer_plan;
  logic frame_retire, sequencer_retire;
  tag_t frame_retire_tag, sequencer_retire_tag;

  logic free_valid, free_full, frame_take, frame_give, sequencer_take, sequencer_give;
  index_t free_index, entry_link, frame_give_index, sequencer_give_index;
  logic header_valid, header_full, header_take, header_give;
  index_t header_index, header_link, header_give_index;

  logic [Classes:0] active, next_active;
  pattern_t [Classes-1:0] patterns;
  pattern_t append_pattern;
  class_t append_class;
  logic count, frame_discount, sequencer_discount;
  class_t frame_discount_class, sequencer_discount_class;

  logic ready_k, ready_a, ready_b, ready_entry, ready_header, ready_arrival, ready;
  assign ready = ready_k && ready_a && ready_b && ready_entry && ready_header && ready_arrival;

  // Registers: order of list operations, count of live headers, pattern of their chains.
  logic [63:0] sequence_q;  // of the next operation
  logic low_full_q, header_taken_q, header_given_q;
  index_t headers_q;
  pattern_t header_pattern_q;
  logic header_pattern_set, frame_sequence_next, sequencer_sequence_next;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      sequence_q       <= 64'd1;
      low_full_q       <= 1'b0;
      header_taken_q   <= 1'b0;
      header_given_q   <= 1'b0;
      headers_q        <= '0;
      header_pattern_q <= '0;
    end else begin
      // Operations are at least two cycles apart, so the carry into the upper half is ready in time.
      low_full_q <= sequence_q[31:0] == '1;
      if (frame_sequence_next || sequencer_sequence_next)
        sequence_q <= {sequence_q[63:32] + 32'(low_full_q), sequence_q[31:0] + 1'b1};
      // A cycle late, which is early enough.
      header_taken_q <= header_take;
      header_given_q <= header_give;
      if (header_taken_q) headers_q <= headers_q + 1'b1;
      else if (header_given_q) headers_q <= headers_q - 1'b1;
      if (header_pattern_set) header_pattern_q <= append_pattern;
    end
  end

  // The one comparison of an entry with the current message.
  view_t view;
  message_t message_key;
  logic entry_accepts;
  entry_a_t entry_a;
  assign entry_a = a;
  assign view = '{match_bits: key.match_bits, ignore_bits: entry_a.ignore_bits, source: key.source,
                  source_ignore: entry_a.source_ignore, no_truncate: key.options[NoTruncate],
                  manage_local: key.options[ManageLocal], length: key.length, local_offset: entry_a.local_offset};
  assign message_key = '{match_bits: message.match_bits, source: message.source, length: message.length,
                         remote_offset: message.remote_offset};
  assign entry_accepts = accepts(view, message_key);

  list_frame #(
      .Entries(Entries),
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc),
      .Ports(Ports)
  ) u_frame (
      .clk_i,
      .rst_ni,
      .ready_i(ready),
      .command_valid_i,
      .command_ready_o,
      .command_i,
      .answer_valid_o(frame_answer_valid),
      .answer_o(frame_answer),
      .plan_o(frame_plan),
      .retire_valid_o(frame_retire),
      .retire_tag_o(frame_retire_tag),
      .access_o(frame_access),
      .append_chain_o(append_chain),
      .append_record_o(append_record),
      .key_i(key),
      .accepts_i(entry_accepts),
      .a_i(a),
      .b_i(b),
      .chain_i(entry_chains[0]),
      .append_chain_i(entry_chains[Ports-1]),
      .header_chain_i(header_chain),
      .append_record_i(a_data[Ports-1]),
      .free_valid_i(free_valid),
      .free_full_i(free_full),
      .free_index_i(free_index),
      .free_take_o(frame_take),
      .free_give_o(frame_give),
      .free_give_index_o(frame_give_index),
      .next_active_i(next_active),
      .pattern_i(patterns),
      .append_pattern_o(append_pattern),
      .append_class_i(append_class),
      .count_o(count),
      .discount_o(frame_discount),
      .discount_class_o(frame_discount_class),
      .has_headers_i(headers_q != '0),
      .header_pattern_set_o(header_pattern_set),
      .header_pattern_i(header_pattern_q),
      .sequence_i(sequence_q),
      .sequence_next_o(frame_sequence_next),
      .sequencer_busy_i(sequencer_busy),
      .start_o(start),
      .commit_o(frame_commit),
      .selects_o(selects),
      .idle_o(frame_idle),
      .message_o(message),
      .other_o(other),
      .append_class_o(append_class_held),
      .append_resume_i(append_resume),
      .append_offset_i(append_offset),
      .append_reserved_i(append_reserved),
      .append_reserved_index_i(append_reserved_index),
      .append_over_i(append_over)
  );

  list_sequencer #(
      .Entries(Entries),
      .Headers(Headers),
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc),
      .Ports(Ports)
  ) u_sequencer (
      .clk_i,
      .rst_ni,
      .start_i(start),
      .frame_commit_i(frame_commit),
      .message_i(message),
      .other_i(other),
      .append_class_i(append_class_held),
      .busy_o(sequencer_busy),
      .waits_o(sequencer_waits),
      .answer_valid_o(sequencer_answer_valid),
      .answer_o(sequencer_answer),
      .plan_o(sequencer_plan),
      .retire_valid_o(sequencer_retire),
      .retire_tag_o(sequencer_retire_tag),
      .access_o(sequencer_access),
      .key_i(key),
      .accepts_i(entry_accepts),
      .a_i(a),
      .b_i(b),
      .chain_i(entry_chains[0]),
      .header_chain_i(header_chain),
      .arrival_i(arrival),
      .free_valid_i(free_valid),
      .free_full_i(free_full),
      .free_index_i(free_index),
      .free_take_o(sequencer_take),
      .free_give_o(sequencer_give),
      .free_give_index_o(sequencer_give_index),
      .header_valid_i(header_valid),
      .header_full_i(header_full),
      .header_index_i(header_index),
      .header_take_o(header_take),
      .header_give_o(header_give),
      .header_give_index_o(header_give_index),
      .active_i(active),
      .pattern_i(patterns),
      .discount_o(sequencer_discount),
      .discount_class_o(sequencer_discount_class),
      .has_headers_i(headers_q != '0),
      .header_pattern_i(header_pattern_q),
      .sequence_i(sequence_q),
      .sequence_next_o(sequencer_sequence_next),
      .append_resume_o(append_resume),
      .append_offset_o(append_offset),
      .append_reserved_o(append_reserved),
      .append_reserved_index_o(append_reserved_index),
      .append_over_o(append_over)
  );

  list_classes u_classes (
      .clk_i,
      .rst_ni,
      .active_o        (active),
      .next_active_o   (next_active),
      .pattern_o       (patterns),
      .pattern_i       (append_pattern),
      .class_o         (append_class),
      .count_i         (count),
      .discount_i      (frame_discount || sequencer_discount),
      .discount_class_i(frame_discount ? frame_discount_class : sequencer_discount_class)
  );

  // ---- Reads of the active part.

  read_t records, entry_chain_read, header_chain_read, arrival_read;
  always_comb begin
    records           = sequencer_busy ? sequencer_access.records : frame_access.records;
    entry_chain_read  = sequencer_busy ? sequencer_access.entry_chain : frame_access.entry_chain;
    header_chain_read = sequencer_busy ? sequencer_access.header_chain : frame_access.header_chain;
    arrival_read      = sequencer_access.arrival;
  end

  // ---- Free records. The second read port of K reads their links, one at a time.

  logic entry_refill, header_refill, refill_wanted_q, wanted_header_q, refill_header_q;
  logic [1:0] refill_q;  // a read of the last cycle, and of the one before
  index_t entry_refill_address, header_refill_address;
  logic refill_read, refill_entry, refill_header;
  key_t [Ports-1:0] k_data;
  // A register requests a read. If it is no longer needed, a late signal, the read is made and not used. With one port the read must not
  // replace a record that is shown and needed.
  assign refill_read = refill_wanted_q && refill_q == '0 &&
      (Ports == 2 || (frame_idle && (!sequencer_busy || sequencer_waits)));
  assign refill_entry  = refill_read && !wanted_header_q;
  assign refill_header = refill_read && wanted_header_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      refill_wanted_q <= 1'b0;
      wanted_header_q <= 1'b0;
      refill_q        <= '0;
      refill_header_q <= 1'b0;
    end else begin
      refill_wanted_q <= ready && (entry_refill || header_refill);
      wanted_header_q <= !entry_refill;
      refill_q        <= {refill_q[0], (refill_entry && entry_refill) || (refill_header && header_refill)};
      if (refill_read) refill_header_q <= wanted_header_q;
    end
  end

  free_list #(
      .Records(Entries)
  ) u_free_entries (
      .clk_i,
      .rst_ni,
      .valid_o         (free_valid),
      .full_o          (free_full),
      .index_o         (free_index),
      .take_i          (frame_take || sequencer_take),
      .give_i          (frame_give || sequencer_give),
      .give_index_i    (sequencer_access.gives ? sequencer_give_index : frame_give_index),
      .link_o          (entry_link),
      .refill_o        (entry_refill),
      .refill_address_o(entry_refill_address),
      .refill_grant_i  (refill_entry),
      .refill_valid_i  (refill_q[1] && !refill_header_q),
      .refill_link_i   (k_data[Ports-1].next)
  );
  free_list #(
      .Records(Headers)
  ) u_free_headers (
      .clk_i,
      .rst_ni,
      .valid_o         (header_valid),
      .full_o          (header_full),
      .index_o         (header_index),
      .take_i          (header_take),
      .give_i          (header_give),
      .give_index_i    (header_give_index),
      .link_o          (header_link),
      .refill_o        (header_refill),
      .refill_address_o(header_refill_address),
      .refill_grant_i  (refill_header),
      .refill_valid_i  (refill_q[1] && refill_header_q),
      .refill_link_i   (k_data[Ports-1].next)
  );

  // ---- Banks.

  key_t given;
  bank_write_t [1:0] k_write, a_write, b_write;
  chain_write_t [1:0] entry_write;
  // The sequencer makes no write in a cycle of the frame's writes.
  always_comb begin
    k_write[0]  = selects.first ? frame_access.k[0] : sequencer_access.k[0];
    k_write[1]  = selects.second ? frame_access.k[1] : sequencer_access.k[1];
    a_write[0]  = selects.first ? frame_access.a[0] : sequencer_access.a[0];
    a_write[1]  = selects.second ? frame_access.a[1] : sequencer_access.a[1];
    b_write[0]  = Ports == 1 && selects.second ? frame_access.b[0] : sequencer_access.b[0];
    b_write[1]  = selects.second ? frame_access.b[1] : sequencer_access.b[1];
    entry_write = selects.chains ? frame_access.entry_chain_write : sequencer_access.entry_chain_write;
    // The second port writes whole words; with one port, they are written alone.
    if (Ports == 1) begin
      k_write[0].data = merged(selects.second ? frame_access.k[0].data : sequencer_access.k[0].data, k_write[0].data, LanesChangedK);
      a_write[0].data = merged(selects.second ? frame_access.a[0].data : sequencer_access.a[0].data, a_write[0].data, LanesChangedA);
    end
    given = k_write[0].data;
    if (selects.first ? frame_access.gives : sequencer_access.gives) given.next = header_give ? header_link : entry_link;
    k_write[0].data = given;
  end

  logic [Ports-1:0][255:0] k_old, k_new, a_old, a_new, b_old, b_new, b_data;
  logic [Ports-1:0][31:0] entry_old, entry_new;
  logic [31:0] header_old, header_new, arrival_old, arrival_new;

  assign key = k_data[0];
  assign a   = a_data[0];
  assign b   = b_data[0];

  index_t refill_address;
  assign refill_address = !wanted_header_q ? entry_refill_address : header_refill_address + index_t'(Entries);

  logic [1:0] k_read;
  logic [1:0][PoolW-1:0] k_read_address;
  always_comb begin
    k_read         = {refill_read, records.valid};
    k_read_address = {PoolW'(refill_address), PoolW'(records.address)};
    if (Ports == 1 && k_read[1]) begin
      k_read[0]         = 1'b1;
      k_read_address[0] = k_read_address[1];
    end
  end
  ram #(
      .Ports(Ports),
      .Words(Pool),
      .Width(256),
      .Trace(Trace)
  ) u_k (
      .clk_i,
      .rst_ni,
      .ready_o        (ready_k),
      .read_i         (k_read[Ports-1:0]),
      .read_address_i (k_read_address[Ports-1:0]),
      .read_data_o    (k_data),
      .write_i        (Ports'({k_write[1].valid, k_write[0].valid})),
      .write_address_i((Ports * PoolW)'({PoolW'(k_write[1].address), PoolW'(k_write[0].address)})),
      .write_lanes_i  ((Ports * 16)'({k_write[1].lanes, k_write[0].lanes})),
      .write_data_i   ((Ports * 256)'({k_write[1].data, k_write[0].data})),
      .old_data_o     (k_old),
      .new_data_o     (k_new)
  );
  ram #(
      .Ports(Ports),
      .Words(Pool),
      .Width(256),
      .Trace(Trace)
  ) u_a (
      .clk_i,
      .rst_ni,
      .ready_o        (ready_a),
      .read_i         (Ports'({append_record.valid, records.valid})),
      .read_address_i ((Ports * PoolW)'({PoolW'(append_record.address), PoolW'(records.address)})),
      .read_data_o    (a_data),
      .write_i        (Ports'({a_write[1].valid, a_write[0].valid})),
      .write_address_i((Ports * PoolW)'({PoolW'(a_write[1].address), PoolW'(a_write[0].address)})),
      .write_lanes_i  ((Ports * 16)'({a_write[1].lanes, a_write[0].lanes})),
      .write_data_i   ((Ports * 256)'({a_write[1].data, a_write[0].data})),
      .old_data_o     (a_old),
      .new_data_o     (a_new)
  );
  ram #(
      .Ports(Ports),
      .Words(Pool),
      .Width(256),
      .Trace(Trace)
  ) u_b (
      .clk_i,
      .rst_ni,
      .ready_o        (ready_b),
      .read_i         (Ports'({1'b0, records.valid})),
      .read_address_i ((Ports * PoolW)'({PoolW'(0), PoolW'(records.address)})),
      .read_data_o    (b_data),
      .write_i        (Ports'({b_write[1].valid, b_write[0].valid})),
      .write_address_i((Ports * PoolW)'({PoolW'(b_write[1].address), PoolW'(b_write[0].address)})),
      .write_lanes_i  ((Ports * 16)'({b_write[1].lanes, b_write[0].lanes})),
      .write_data_i   ((Ports * 256)'({b_write[1].data, b_write[0].data})),
      .old_data_o     (b_old),
      .new_data_o     (b_new)
  );
  // A message reads its chain in the cycle before, or the cycle of, the last frame's writes.
  ram #(
      .Ports(Ports),
      .Words (Buckets),
      .Width (32),
`ifdef MUTANT_1
      .Bypass('0),
`else
      .Bypass('1),
`endif
      .Trace (Trace)
  ) u_entry_chains (
      .clk_i,
      .rst_ni,
      .ready_o        (ready_entry),
      .read_i         (Ports'({append_chain.valid, entry_chain_read.valid})),
      .read_address_i ((Ports * BucketW)'({BucketW'(append_chain.address), BucketW'(entry_chain_read.address)})),
      .read_data_o    (entry_chains),
      .write_i        (Ports'({entry_write[1].valid, entry_write[0].valid})),
      .write_address_i((Ports * BucketW)'({BucketW'(entry_write[1].address), BucketW'(entry_write[0].address)})),
      .write_lanes_i  ((Ports * 2)'({entry_write[1].lanes, entry_write[0].lanes})),
      .write_data_i   ((Ports * 32)'({entry_write[1].data, entry_write[0].data})),
      .old_data_o     (entry_old),
      .new_data_o     (entry_new)
  );
  ram #(
      .Words(Buckets),
      .Width(32),
      .Ports(1),
      .Trace(Trace)
  ) u_header_chains (
      .clk_i,
      .rst_ni,
      .ready_o        (ready_header),
      .read_i         (header_chain_read.valid),
      .read_address_i (BucketW'(header_chain_read.address)),
      .read_data_o    (header_chain),
      .write_i        (sequencer_access.header_chain_write.valid),
      .write_address_i(BucketW'(sequencer_access.header_chain_write.address)),
      .write_lanes_i  (sequencer_access.header_chain_write.lanes),
      .write_data_i   (sequencer_access.header_chain_write.data),
      .old_data_o     (header_old),
      .new_data_o     (header_new)
  );
  ram #(
      .Words(Portals),
      .Width(32),
      .Ports(1),
      .Trace(Trace)
  ) u_arrival (
      .clk_i,
      .rst_ni,
      .ready_o        (ready_arrival),
      .read_i         (arrival_read.valid),
      .read_address_i (PortalW'(arrival_read.address)),
      .read_data_o    (arrival),
      .write_i        (sequencer_access.arrival_write.valid),
      .write_address_i(PortalW'(sequencer_access.arrival_write.address)),
      .write_lanes_i  (sequencer_access.arrival_write.lanes),
      .write_data_i   (sequencer_access.arrival_write.data),
      .old_data_o     (arrival_old),
      .new_data_o     (arrival_new)
  );

  // ---- Outputs.

  assign answer_valid_o = frame_answer_valid || sequencer_answer_valid;
  assign answer_o       = frame_answer_valid ? frame_answer : sequencer_answer;
  assign outside_o      = frame_plan.valid ? frame_plan : sequencer_plan;

  always_comb begin
    trace_o = '0;
    if (Trace) begin
      trace_o.retire_valid = frame_retire || sequencer_retire;
      if (trace_o.retire_valid) trace_o.retire_tag = frame_retire ? frame_retire_tag : sequencer_retire_tag;
      for (int port = 0; port < int'(Ports); port++) begin
        if (k_write[port].valid)
          trace_o.write[port] = shown(BankK, k_write[port].address, k_write[port].tag, k_old[port], k_new[port]);
        if (a_write[port].valid)
          trace_o.write[2+port] = shown(BankA, a_write[port].address, a_write[port].tag, a_old[port], a_new[port]);
        if (b_write[port].valid)
          trace_o.write[4+port] = shown(BankB, b_write[port].address, b_write[port].tag, b_old[port], b_new[port]);
        if (entry_write[port].valid)
          trace_o.write[6+port] = shown(BankEntryChains, entry_write[port].address, entry_write[port].tag,
                                        256'(entry_old[port]), 256'(entry_new[port]));
      end
      if (sequencer_access.header_chain_write.valid)
        trace_o.write[8] = shown(BankHeaderChains, sequencer_access.header_chain_write.address,
                                 sequencer_access.header_chain_write.tag, 256'(header_old), 256'(header_new));
      if (sequencer_access.arrival_write.valid)
        trace_o.write[9] = shown(BankArrival, sequencer_access.arrival_write.address, sequencer_access.arrival_write.tag,
                                 256'(arrival_old), 256'(arrival_new));
    end
  end

  function automatic write_t shown(bank_e bank, index_t address, tag_t tag, logic [255:0] old_word,
                                   logic [255:0] new_word);
    return '{valid: 1'b1, bank: bank, address: address, tag: tag, old_known: 1'b1, old_word: old_word, new_word: new_word};
  endfunction

endmodule
