// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Selects the next free record of a table, with its generation: `counters.rs` and similar files in crates/core/nic/src/portals, or the
// seed's scan (seed 000, sections 4.3.1 and 5.4.1). Records out of range stops elaboration.
//
// 1. Scan = 0: the record is the top of the free list. Its generation is read as soon as it is the top, or is known from the command that
//    freed it. So a command has its record in the cycle of its acceptance.
// 2. Scan = 1: the records are read in order from the cycle of `request_i` on, one a cycle, until a free one is found. Index n is found n
//    + 2 cycles later. `full_o` comes in cycle Records + 2.
// 3. Reads take cycles of the bank without other reads: `read_grant_i`. A scan needs all of them.
//
// Registers: free list (4 indices), a generation of 24 bits; or an index (scan).

module slots
  import pac_pkg::*;
  import records_pkg::Free;
#(
    parameter int unsigned Records = 256,  // 2 to 4,096
    parameter bit          Scan    = 0     // 1: a scan of the records instead of a free list
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic        request_i,  // a command that needs a record is accepted
    output logic        valid_o,    // the record below is free
    output logic        full_o,     // no record is free
    output index_t      index_o,
    output generation_t generation_o,
    input  logic        take_i,     // only with valid_o

    input  logic        give_i,
    input  index_t      give_index_i,
    input  generation_t give_generation_i,
    output index_t      link_o,             // the link to write into the returned record

    output logic        read_o,
    output index_t      read_address_o,
    input  logic        read_grant_i,
    // The record that was read, two cycles after the grant.
    input  logic  [7:0] status_i,
    input  generation_t generation_i,
    input  index_t      link_i
);

  if (Records < 2 || Records > 4096) $error("slots: Records is %0d, and may be 2 to 4,096", Records);

  if (Scan) begin : gen_scan
    // One bit more than an index has: `Records` is one beyond the last.
    localparam int unsigned CountW = $clog2(Records + 1);
    logic scanning_q;
    logic [CountW-1:0] next_q;
    logic read, found;
    logic [1:0] pending_q;

    // The record at the bank's output has the index before the one in flight.
    logic [1:0][CountW-1:0] index_q;
    assign found        = pending_q[1] && status_i == Free;
    assign valid_o      = scanning_q && found;
    assign full_o       = scanning_q && !found && next_q == CountW'(Records) && pending_q == 2'b00;
    assign index_o      = index_t'(index_q[1]);
    assign generation_o = generation_i;
    assign link_o       = '0;
    assign read         = request_i || (scanning_q && !found && next_q != CountW'(Records));
    assign read_o         = read;
    assign read_address_o = request_i ? '0 : index_t'(next_q);

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        scanning_q <= 1'b0;
        pending_q  <= '0;
      end else begin
        if (request_i) scanning_q <= 1'b1;
        else if (take_i || full_o) scanning_q <= 1'b0;
        pending_q <= take_i ? 2'b00 : {pending_q[0], read && read_grant_i};
      end
    end
    always_ff @(posedge clk_i) begin
      if (request_i) next_q <= CountW'(1);
      else if (read && read_grant_i) next_q <= next_q + 1'b1;
      index_q <= {index_q[0], CountW'(read_address_o)};
    end

    logic unused;
    assign unused = ^{give_i, give_index_i, give_generation_i, link_i};
  end else begin : gen_list
    logic list_valid, list_full;
    logic known_q;
    generation_t generation_q;
    logic refill;
    index_t refill_address;
    // The current read: nothing, a link, or the generation of the top.
    logic [1:0] link_q, top_q;
    logic fetch;

    free_list #(
        .Records(Records)
    ) u_list (
        .clk_i,
        .rst_ni,
        .valid_o         (list_valid),
        .full_o          (list_full),
        .index_o,
        .take_i,
        .give_i,
        .give_index_i,
        .link_o,
        .refill_o        (refill),
        .refill_address_o(refill_address),
        .refill_grant_i  (read_grant_i && !fetch),
        .refill_valid_i  (link_q[1]),
        .refill_link_i   (link_i)
    );

    assign fetch          = list_valid && !known_q && top_q == 2'b00;
    assign read_o         = fetch || refill;
    assign read_address_o = fetch ? index_o : refill_address;
    assign valid_o        = list_valid && known_q;
    assign full_o         = list_full;
    assign generation_o   = generation_q;

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        known_q <= 1'b0;
        link_q  <= '0;
        top_q   <= '0;
      end else begin
        if (give_i) known_q <= 1'b1;
        else if (take_i) known_q <= 1'b0;
        else if (top_q[1]) known_q <= 1'b1;
        link_q <= {link_q[0], refill && !fetch && read_grant_i};
        // A returned record is the top with a known generation: a read of the old top is dropped.
        top_q <= give_i ? 2'b00 : {top_q[0], fetch && read_grant_i};
      end
    end
    always_ff @(posedge clk_i) begin
      if (give_i) generation_q <= give_generation_i;
      else if (top_q[1]) generation_q <= generation_i;
    end

    logic unused;
    assign unused = ^{request_i, status_i};
  end

endmodule
