// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The sequencer's walk over unexpected headers for an append or a search: their bucket, the first, the next. lists.sv checks the
// parameters.
//
// Headers are on the list of their portal table entry in order of arrival (K), and on the chain of their key under one pattern, that of
// the last append before there were headers (B). A search by another pattern walks the arrival list. So the oldest match comes first.

module list_header_walk
  import lists_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Buckets   = 512,  // of lists.sv, as all below
    parameter bit          KeySource = 0,
    parameter bit          HashCrc   = 0,
    localparam int unsigned BucketW = $clog2(Buckets)
) (
    input logic clk_i,

    input sequencer_t hand_i,
    input command_t   message_i,
    input command_t   other_i,
    input pattern_t   pattern_i,  // of the headers' chains

    // Words at the banks' outputs.
    input key_t      key_i,
    input header_a_t a_i,
    input header_b_t b_i,
    input chain_t    chain_i,
    input chain_t    arrival_i,

    output portal_t            portal_o,
    output logic [BucketW-1:0] bucket_o,       // to be read
    output logic [BucketW-1:0] kept_bucket_o,  // the last one read
    output logic               hit_o,          // the shown header matches
    output index_t             first_o,
    output index_t             next_o
);

  logic [63:0] header_bits;
  source_t header_source;
  portal_t header_portal;
  logic [BucketW-1:0] header_bucket, header_bucket_q;
  always_comb begin
    {header_bits, header_source, header_portal} = {message_i.match_bits, message_i.source, message_i.portal};
    if (hand_i.now[Drop]) {header_bits, header_source, header_portal} = {key_i.match_bits, key_i.source, key_i.portal};
    if (hand_i.now[SearchHeaders]) {header_bits, header_source, header_portal} = {other_i.match_bits, other_i.source, other_i.portal};
  end
  list_hash #(
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_header_hash (
      .match_bits_i(header_bits & ~pattern_i.ignore_bits),
      .source_i    (header_source & ~pattern_i.source_ignore),
      .portal_i    (header_portal),
      .overflow_i  (1'b0),
      .bucket_o    (header_bucket)
  );
  assign portal_o      = header_portal;
  assign bucket_o      = header_bucket;
  assign kept_bucket_o = header_bucket_q;
  always_ff @(posedge clk_i) begin
    if (hand_i.now[Own] || hand_i.now[SearchHeaders] || hand_i.now[Drop]) header_bucket_q <= header_bucket;
  end

  // Whether the headers' chains have the pattern of the search. It is known in the second cycle of a command, and kept.
  logic by_class_q;
  always_ff @(posedge clk_i) begin
    by_class_q <= other_i.ignore_bits == pattern_i.ignore_bits && other_i.source_ignore == pattern_i.source_ignore;
  end
  assign next_o  = by_class_q ? b_i.class_next : key_i.next;
  assign first_o = by_class_q ? ~chain_i.head : ~arrival_i.head;

  view_t view;
  message_t message;
  always_comb begin
    view = '{match_bits: other_i.match_bits, ignore_bits: other_i.ignore_bits, source: other_i.source,
             source_ignore: other_i.source_ignore, no_truncate: other_i.options[NoTruncate],
             manage_local: other_i.options[ManageLocal], length: other_i.length, local_offset: hand_i.offset};
    message = '{match_bits: key_i.match_bits, source: key_i.source, length: key_i.length, remote_offset: a_i.remote_offset};
    hit_o = key_i.status == Live && key_i.portal == other_i.portal && accepts(view, message);
  end

endmodule
