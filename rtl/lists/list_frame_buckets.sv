// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The buckets that the frame reads for a starting command (list_frame.sv). Combinational. lists.sv checks the parameters.
//
// A command starts as it is offered, or from the register in which it waits, which is an early signal. So both are hashed, and one is
// selected. An append's own bucket is hashed a cycle after its start, when the command is in that register and its class is known.

module list_frame_buckets
  import lists_pkg::*;
#(
    parameter int unsigned Buckets   = 512,  // of lists.sv, as all below
    parameter bit          KeySource = 0,
    parameter bit          HashCrc   = 0,
    localparam int unsigned BucketW = $clog2(Buckets)
) (
    input logic     waits_i,    // the starting command is the waiting one
    input command_t waiting_i,
    input command_t command_i,  // the offered command

    input  pattern_t           pattern_i,        // of the class in which a message is searched
    input  class_t             class_i,          // of the waiting append
    output logic [BucketW-1:0] message_o,        // of a starting message, under that pattern
    output logic [BucketW-1:0] append_header_o,  // of the headers that a starting append may take
    output logic [BucketW-1:0] append_entry_o    // of the entry of the waiting append
);

  logic [BucketW-1:0] waiting_bucket, offered_bucket, waiting_header_bucket, offered_header_bucket, own_bucket, other_bucket;

  list_hash #(
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_waiting (
      .match_bits_i(waiting_i.match_bits & ~pattern_i.ignore_bits),
      .source_i    (waiting_i.source & ~pattern_i.source_ignore),
      .portal_i    (waiting_i.portal),
      .overflow_i  (1'b0),
      .bucket_o    (waiting_bucket)
  );
  list_hash #(
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_offered (
      .match_bits_i(command_i.match_bits & ~pattern_i.ignore_bits),
      .source_i    (command_i.source & ~pattern_i.source_ignore),
      .portal_i    (command_i.portal),
      .overflow_i  (1'b0),
      .bucket_o    (offered_bucket)
  );
  assign message_o = waits_i ? waiting_bucket : offered_bucket;

  list_hash #(
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_waiting_header (
      .match_bits_i(waiting_i.match_bits & ~waiting_i.ignore_bits),
      .source_i    (waiting_i.source & ~waiting_i.source_ignore),
      .portal_i    (waiting_i.portal),
      .overflow_i  (1'b0),
      .bucket_o    (waiting_header_bucket)
  );
  list_hash #(
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_offered_header (
      .match_bits_i(command_i.match_bits & ~command_i.ignore_bits),
      .source_i    (command_i.source & ~command_i.source_ignore),
      .portal_i    (command_i.portal),
      .overflow_i  (1'b0),
      .bucket_o    (offered_header_bucket)
  );
  assign append_header_o = waits_i ? waiting_header_bucket : offered_header_bucket;

  list_hash #(
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_own (
      .match_bits_i(waiting_i.match_bits & ~waiting_i.ignore_bits),
      .source_i    (waiting_i.source & ~waiting_i.source_ignore),
      .portal_i    (waiting_i.portal),
      .overflow_i  (waiting_i.overflow),
      .bucket_o    (own_bucket)
  );
  // Entries of ClassOther have one chain a list.
  list_hash #(
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_other (
      .match_bits_i('0),
      .source_i    ('0),
      .portal_i    (waiting_i.portal),
      .overflow_i  (waiting_i.overflow),
      .bucket_o    (other_bucket)
  );
  assign append_entry_o = class_i == ClassOther ? other_bucket : own_bucket;

endmodule
