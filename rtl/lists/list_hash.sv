// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The bucket of a key: seed 000, section 3.2.4 (`bucket_index` of crates/nic/src/portals/matching.rs is another function of the
// same fields; chains are derived state, so results do not depend on it). Combinational.
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
    // Sources and tags that both count from 0 must not cancel: the source is turned by half of the width.
    logic [BucketW-1:0] of_bits, of_source, of_place;
    always_comb begin
      of_bits   = '0;
      of_source = '0;
      of_place  = '0;
      for (int at = 0; at < 64; at++) of_bits[at%int'(BucketW)] ^= match_bits[at];
      for (int at = 0; at < int'(SourceW); at++) begin
        of_source[(at+int'(BucketW)/2)%int'(BucketW)] ^= source_i[at];
      end
      for (int at = 0; at < int'(PortalW); at++) begin
        of_place[(at+int'(BucketW)/4)%int'(BucketW)] ^= portal_i[at];
      end
      of_place[(int'(PortalW)+int'(BucketW)/4)%int'(BucketW)] ^= overflow_i;
    end
    assign bucket_o = of_bits ^ of_source ^ of_place;
  end

endmodule
