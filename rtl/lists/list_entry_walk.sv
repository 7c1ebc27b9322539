// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The sequencer's walk over entries for a message: the chain of each class, in one list after the other, and the best entry so far.
// lists.sv checks the parameters.
//
//   Class > Head > Compare > Judge .. > Chosen
//
// The lowest sequence number wins. A record is compared in one cycle (Compare) and judged in the next.

module list_entry_walk
  import lists_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Entries   = 256,  // of lists.sv, as all below
    parameter int unsigned Buckets   = 512,
    parameter bit          KeySource = 0,
    parameter bit          HashCrc   = 0,
    localparam int unsigned BucketW = $clog2(Buckets)
) (
    input logic clk_i,

    input sequencer_t hand_i,
    input command_t   message_i,

    // Classes, and the words at the banks' outputs.
    input logic     [Classes:0]   active_i,
    input pattern_t [Classes-1:0] pattern_i,
    input key_t                   key_i,
    input entry_a_t               a_i,
    input logic                   accepts_i,  // the shown entry accepts the message, apart from list and portal table entry

    output logic [BucketW-1:0] bucket_o,        // to be read
    output logic               hit_o,           // the shown record matches
    output logic               follows_o,       // the judged record has a successor
    output logic               none_left_o,     // no class of this list is left
    output logic               overflow_o,      // the list that is searched
    output logic               best_valid_o,
    output index_t             best_index_o,
    output logic [BucketW-1:0] best_bucket_o
);

  function automatic logic is_entry(index_t index);
    return index < index_t'(Entries);
  endfunction

  // Classes whose chains are not searched yet, the first of them, the list.
  logic [Classes:0] left_q, left_d, class_now_q;
  logic overflow_q, overflow_d;
  logic best_valid_q, best_valid_d;
  logic [63:0] best_sequence_q, best_sequence_d;
  index_t best_index_q, best_index_d;
  logic [BucketW-1:0] best_bucket_q, best_bucket_d;
  // Whether the record compared in the previous cycle is older than the best, and has a successor.
  logic older_q, follows_q, follows_d;
  index_t judged_q;
  logic [63:0] judged_sequence_q;

  assign follows_o     = follows_q;
  assign none_left_o   = left_q == '0;
  assign overflow_o    = overflow_q;
  assign best_valid_o  = best_valid_q;
  assign best_index_o  = best_index_q;
  assign best_bucket_o = best_bucket_q;

  // ---- The bucket.

  pattern_t class_pattern;
  assign class_pattern = pattern_of(pattern_i, class_now_q);

  logic [63:0] hash_bits;
  source_t hash_source;
  portal_t hash_portal;
  logic hash_overflow;
  always_comb begin
    if (hand_i.now[Unlinking]) begin
      hash_bits     = key_i.class_number == ClassOther ? '0 : key_i.match_bits & ~a_i.ignore_bits;
      hash_source   = key_i.class_number == ClassOther ? '0 : key_i.source & ~a_i.source_ignore;
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
      .bucket_o
  );

  // ---- The walk.

  always_comb begin
    hit_o = key_i.portal == message_i.portal && accepts_i;
`ifndef MUTANT_5
    hit_o &= key_i.status == (overflow_q ? Overflow : Priority);
`endif

    left_d          = left_q;
    overflow_d      = overflow_q;
    best_valid_d    = best_valid_q;
    best_sequence_d = best_sequence_q;
    best_index_d    = best_index_q;
    best_bucket_d   = best_bucket_q;
    follows_d       = 1'b0;

    if (!hand_i.reading) begin
      unique case (hand_i.state)
        Start: if (hand_i.starts) begin
          left_d       = hand_i.point == Walk ? '0 : active_i;
          overflow_d   = hand_i.point == InOverflow;
          best_valid_d = 1'b0;
          if (hand_i.point == Known) begin
            best_index_d  = hand_i.start_index;
            best_bucket_d = BucketW'(hand_i.bucket);
          end
        end

        Class: if (left_q != '0) left_d = left_q & ~class_now_q;

        Compare: follows_d = is_entry(key_i.next);

        Judge: if (hand_i.hit && older_q) begin
          best_valid_d    = 1'b1;
          best_sequence_d = judged_sequence_q;
          best_index_d    = judged_q;
          best_bucket_d   = BucketW'(hand_i.bucket);
        end

        Chosen: if (!best_valid_q && !overflow_q) begin
          overflow_d = 1'b1;
          left_d     = active_i;
        end

        default: ;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    left_q          <= left_d;
    class_now_q     <= lowest(left_d);
    overflow_q      <= overflow_d;
    best_valid_q    <= best_valid_d;
    best_sequence_q <= best_sequence_d;
    best_index_q    <= best_index_d;
    best_bucket_q   <= best_bucket_d;
    follows_q       <= follows_d;
`ifdef MUTANT_8
    older_q         <= !best_valid_q || key_i.sequence_number > best_sequence_q;
`else
    older_q         <= !best_valid_q || key_i.sequence_number < best_sequence_q;
`endif
    judged_q          <= hand_i.index;
    judged_sequence_q <= key_i.sequence_number;
  end

endmodule
