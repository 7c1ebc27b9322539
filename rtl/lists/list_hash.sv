// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The bucket of a key: seed 000, section 3.2.4. (`bucket_index` of crates/core/nic/src/portals/matching.rs is another function of the
// same fields; chains are derived state, so results do not depend on it.) Combinational. Buckets out of range stops elaboration.
//
// `match_bits` and `source` come with their ignored bits cleared.

module list_hash
  import lists_pkg::*;
#(
    parameter int unsigned Buckets   = 512,  // a power of two, 2 to 65,536
    parameter bit          KeySource = 0,    // 1: the seed's key, the source alone
    parameter bit          HashCrc   = 0,    // 0: exclusive or of pieces; 1: the low bits of CRC-32C
    localparam int unsigned BucketW = $clog2(Buckets)
) (
    input  logic [       63:0] match_bits_i,
    input  source_t            source_i,
    input  portal_t            portal_i,
    input  logic               overflow_i,
    output logic [BucketW-1:0] bucket_o
);

  if (Buckets < 2 || Buckets > 65536 || 2 ** BucketW != Buckets)
    $error("list_hash: Buckets is %0d, and may be a power of two from 2 to 65,536", Buckets);

  logic [63:0] match_bits;
  assign match_bits = KeySource ? '0 : match_bits_i;

  if (HashCrc) begin : gen_crc
    localparam int unsigned Bits = 64 + SourceW + PortalW + 1;
    logic [Bits-1:0] data;
    logic [31:0] crc;
    assign data = {overflow_i, portal_i, source_i, match_bits};
    always_comb begin
      crc = '1;
      for (int at = 0; at < int'(Bits); at++) begin
        crc = {1'b0, crc[31:1]} ^ (crc[0] ^ data[at] ? 32'h82f6_3b78 : 32'h0);
      end
    end
    assign bucket_o = BucketW'(crc);
    if (BucketW < 32) begin : gen_unused
      logic unused;
      assign unused = ^crc[31:BucketW];
    end
  end else begin : gen_xor
    // The source is rotated by half of the width, because sources and tags that both count from 0 must not cancel.
    localparam int unsigned BitPieces = (64 + BucketW - 1) / BucketW;
    localparam int unsigned SourcePieces = (SourceW + BucketW - 1) / BucketW;
    localparam int unsigned PlacePieces = (PortalW + 1 + BucketW - 1) / BucketW;
    logic [BitPieces*BucketW-1:0] bits_padded;
    logic [SourcePieces*BucketW-1:0] source_padded;
    logic [PlacePieces*BucketW-1:0] place_padded;
    logic [BucketW-1:0] of_bits, of_source, of_place;
    always_comb begin
      bits_padded   = (BitPieces * BucketW)'(match_bits);
      source_padded = (SourcePieces * BucketW)'(source_i);
      place_padded  = (PlacePieces * BucketW)'({overflow_i, portal_i});
      of_bits       = '0;
      of_source     = '0;
      of_place      = '0;
      for (int piece = 0; piece < int'(BitPieces); piece++) of_bits ^= bits_padded[piece*BucketW+:BucketW];
      for (int piece = 0; piece < int'(SourcePieces); piece++) of_source ^= source_padded[piece*BucketW+:BucketW];
      for (int piece = 0; piece < int'(PlacePieces); piece++) of_place ^= place_padded[piece*BucketW+:BucketW];
      of_source = (of_source << BucketW / 2) | (of_source >> (BucketW - BucketW / 2));
      of_place  = (of_place << BucketW / 4) | (of_place >> (BucketW - BucketW / 4));
    end
    assign bucket_o = of_bits ^ of_source ^ of_place;
  end

endmodule
