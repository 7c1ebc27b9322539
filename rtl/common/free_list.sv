// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The free records of a table, last in, first out: `free_entry` and similar fields in crates/core/nic/src/portals. Records out of range
// stops elaboration.
//
// The list lies in the records themselves: each holds a relative link to the next (pac_pkg::free_link). The four indices at its top are
// here, so that taking one and giving one back take a cycle, even the same one. The unit that gives a record back writes its link, which
// is at `link_o` in that cycle.
//
// 1. `next_q[0]` is the top; `next_q[i + 1]` is the link of record `next_q[i]`, for i + 1 < count_q. Others are None.
// 2. The deepest index here is not handed out before its record's link has been read, unless it ends the list.
// 3. After reset all records are free, in order of their index.
//
// A read of a link starts when `refill_o` is granted, and its data come two cycles later.

module free_list
  import pac_pkg::*;
#(
    parameter int unsigned Records = 256  // 2 to 32,768
) (
    input logic clk_i,
    input logic rst_ni,

    output logic   valid_o,  // `index_o` may be taken
    output logic   full_o,   // no record is free, and none will be until one is given back
    output index_t index_o,
    input  logic   take_i,   // only with valid_o

    input  logic   give_i,
    input  index_t give_index_i,
    output index_t link_o,        // the link to write into the returned record

    output logic   refill_o,          // asks for a read of the record's link
    output index_t refill_address_o,
    input  logic   refill_grant_i,
    input  logic   refill_valid_i,    // two cycles after the grant
    input  index_t refill_link_i
);

  localparam int unsigned Depth = 4;

  if (Records < 2 || Records > 32768) $error("free_list: Records is %0d, and may be 2 to 32,768", Records);

  index_t [Depth-1:0] next_q, next_d, filled;
  logic [2:0] count_q, count_d;
  logic end_q, end_d;  // the deepest index here ends the list
  logic reading_q, reading_d;
  logic lost_q, lost_d;  // the record being read is no longer the deepest here

  assign full_o  = count_q == 0 && end_q;
  assign valid_o = count_q > 1 || (count_q == 1 && end_q);
  assign index_o = next_q[0];

  // The top that remains below a record returned in this cycle.
  index_t below;
  assign below  = take_i ? next_q[1] : next_q[0];
  assign link_o = free_link(give_index_i, below);

  // The deepest index here, whose record links to the rest of the list. `read_q` is the index whose link is read: the deepest, unless it
  // is lost. `base_q` is one more, when the link arrives.
  index_t read_q, base_q;
  assign refill_address_o = next_q[2'(count_q-3'd1)];
  assign refill_o = !reading_q && !end_q && count_q != 0 && count_q < 3'(Depth) && !give_i && !take_i;

  index_t linked;
  logic   linked_is_end;
  assign linked = refill_link_i + base_q;
  assign linked_is_end = linked >= index_t'(Records);

  always_comb begin
    next_d    = next_q;
    count_d   = count_q;
    end_d     = end_q;
    reading_d = reading_q || (refill_o && refill_grant_i);
    lost_d    = lost_q;
    if (refill_valid_i) begin
      reading_d = 1'b0;
      lost_d    = 1'b0;
      // A link of a record that is no longer here, or for which there is no room, is read again when needed.
      if (linked_is_end && !lost_q) begin
        end_d = 1'b1;
      end else if (count_q < 3'(Depth) && !lost_q) begin
        next_d[2'(count_q)] = linked;
        count_d = count_q + 1'b1;
      end
    end
    filled = next_d;
    if (take_i) count_d = count_d - 1'b1;
`ifdef MUTANT_12
    if (take_i) next_d = {None, filled[Depth-1:1]};
    if (give_i) begin
      if (count_d != 0 && count_d < 3'(Depth)) begin
        next_d[2'(count_d)] = give_index_i;
        count_d = count_d + 1'b1;
      end else begin
        next_d  = {next_d[Depth-2:0], give_index_i};
        if (count_d == 3'(Depth)) end_d = 1'b0;
        else count_d = count_d + 1'b1;
      end
    end
`else
    if (take_i && !give_i) next_d = {None, filled[Depth-1:1]};
    if (give_i && !take_i) next_d = {filled[Depth-2:0], give_index_i};
    if (give_i && take_i) next_d[0] = give_index_i;
    if (give_i) begin
      if (count_d == 3'(Depth)) begin
        end_d  = 1'b0;
        lost_d = reading_d;
      end else begin
        count_d = count_d + 1'b1;
      end
    end
`endif
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int place = 0; place < int'(Depth); place++) next_q[place] <= place < int'(Records) ? index_t'(place) : None;
      count_q   <= Records < Depth ? 3'(Records) : 3'(Depth);
      end_q     <= Records <= Depth;
      reading_q <= 1'b0;
      lost_q    <= 1'b0;
    end else begin
      next_q    <= next_d;
      count_q   <= count_d;
      end_q     <= end_d;
      reading_q <= reading_d;
      lost_q    <= lost_d;
    end
  end
  always_ff @(posedge clk_i) begin
    if (refill_o) read_q <= refill_address_o;
    base_q <= free_next(read_q, '0);
  end

endmodule
