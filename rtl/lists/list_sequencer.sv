// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// All but the common case (list_frame.sv), one command at a time, with the banks alone: walks of chains, the overflow list, unexpected
// headers, unlinks. lists.sv checks the parameters.
//
//   list_sequencer_control   the state machine: next state, answers
//   list_entry_walk          entries to compare with a message, the best so far
//   list_header_walk         unexpected headers to compare with an append or a search
//   list_sequencer_access    reads and writes of each state
//
// A command takes the entry with the lowest sequence number, or the oldest header.

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
    input  logic     frame_commit_i,  // an older command makes its writes
    input  command_t message_i,
    input  command_t other_i,
    input  class_t   append_class_i,
    output logic     busy_o,
    output logic     waits_o,  // for a free record; no needed record is shown

    output logic    answer_valid_o,
    output answer_t answer_o,
    output plan_t   plan_o,
    output logic    retire_valid_o,
    output tag_t    retire_tag_o,

    output access_t  access_o,
    input  key_t     key_i,
    input  logic     accepts_i,  // the entry in K and A accepts the message, apart from list and portal table entry
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

  sequencer_t hand;
  logic freed, hit, follows, none_left, overflow, best_valid, header_hit;
  index_t best_index, first_header, next_header;
  logic [BucketW-1:0] entry_bucket, best_bucket, header_bucket, kept_header_bucket;
  portal_t header_portal;

  list_sequencer_control #(
      .Entries(Entries),
      .Headers(Headers),
      .Buckets(Buckets),
      .Ports(Ports)
  ) u_control (
      .clk_i,
      .rst_ni,
      .start_i,
      .frame_commit_i,
      .message_i,
      .other_i,
      .busy_o,
      .waits_o,
      .answer_valid_o,
      .answer_o,
      .plan_o,
      .retire_valid_o,
      .retire_tag_o,
      .key_i,
      .a_i,
      .b_i,
      .chain_i,
      .free_valid_i,
      .free_full_i,
      .free_index_i,
      .free_take_o,
      .header_valid_i,
      .header_full_i,
      .header_index_i,
      .hit_i         (hit),
      .follows_i     (follows),
      .none_left_i   (none_left),
      .overflow_i    (overflow),
      .best_valid_i  (best_valid),
      .best_index_i  (best_index),
      .best_bucket_i (best_bucket),
      .entry_bucket_i(entry_bucket),
      .has_headers_i,
      .header_hit_i  (header_hit),
      .first_header_i(first_header),
      .next_header_i (next_header),
      .hand_o        (hand),
      .freed_o       (freed),
      .read_i        (access_o.records),
      .append_resume_o,
      .append_offset_o,
      .append_reserved_o,
      .append_reserved_index_o,
      .append_over_o
  );

  list_entry_walk #(
      .Entries(Entries),
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_entries (
      .clk_i,
      .hand_i       (hand),
      .message_i,
      .active_i,
      .pattern_i,
      .key_i,
      .a_i,
      .accepts_i,
      .bucket_o     (entry_bucket),
      .hit_o        (hit),
      .follows_o    (follows),
      .none_left_o  (none_left),
      .overflow_o   (overflow),
      .best_valid_o (best_valid),
      .best_index_o (best_index),
      .best_bucket_o(best_bucket)
  );

  list_header_walk #(
      .Buckets(Buckets),
      .KeySource(KeySource),
      .HashCrc(HashCrc)
  ) u_headers (
      .clk_i,
      .hand_i       (hand),
      .message_i,
      .other_i,
      .pattern_i    (header_pattern_i),
      .key_i,
      .a_i,
      .b_i,
      .chain_i      (header_chain_i),
      .arrival_i,
      .portal_o     (header_portal),
      .bucket_o     (header_bucket),
      .kept_bucket_o(kept_header_bucket),
      .hit_o        (header_hit),
      .first_o      (first_header),
      .next_o       (next_header)
  );

  list_sequencer_access #(
      .Entries(Entries),
      .Headers(Headers),
      .Buckets(Buckets),
      .Ports(Ports)
  ) u_access (
      .clk_i,
      .hand_i              (hand),
      .message_i,
      .other_i,
      .append_class_i,
      .key_i,
      .a_i,
      .b_i,
      .chain_i,
      .header_chain_i,
      .arrival_i,
      .entry_bucket_i      (entry_bucket),
      .best_valid_i        (best_valid),
      .best_index_i        (best_index),
      .best_bucket_i       (best_bucket),
      .first_header_i      (first_header),
      .next_header_i       (next_header),
      .header_portal_i     (header_portal),
      .header_bucket_i     (header_bucket),
      .kept_header_bucket_i(kept_header_bucket),
      .freed_i             (freed),
      .free_index_i,
      .sequence_i,
      .access_o,
      .free_give_o,
      .free_give_index_o,
      .header_take_o,
      .header_give_o,
      .header_give_index_o,
      .sequence_next_o,
      .discount_o,
      .discount_class_o
  );

endmodule
