// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The reorder buffer: `Pipeline::reorder` and `table_read_done`. Requests get slots in order; words that were read come in any order.
// atu.sv checks the parameter.
//
// 1. R has a slot's kind and transaction, E the entry that was read for it. The responder and atu_flush.sv share the port of R.
// 2. Registers hold for each slot whether it may leave, awaits a word, may fill the TLB, asks units, or is of a table read. A slot that
//    has left, or was never used, awaits nothing.
// 3. A word that no slot awaits changes nothing (`refused_o`).

module atu_reorder
  import atu_pkg::*;
#(
    parameter int unsigned Reorder = 32,
    localparam int unsigned PlaceW = $clog2(Reorder),
    localparam int unsigned CountW = $clog2(Reorder + 1)
) (
    input  logic clk_i,
    input  logic rst_ni,
    output logic ready_o,

    output logic [CountW-1:0] count_o,
    output logic [PlaceW-1:0] tag_o,    // of the next slot
    input  logic              push_i,
    input  slot_t             slot_i,

    input  logic        word_valid_i,
    input  name_t       word_tag_i,
    input  logic [63:0] word_i,
    output logic        refused_o,

    // The responder: the first slot that it has not taken.
    output logic              next_ready_o,
    output logic              next_fills_o,
    output logic              next_asks_o,
    output logic              next_reads_o,  // its entry was read from a table
    output logic [PlaceW-1:0] next_o,
    input  logic              take_i,
    input  logic              leave_i,       // a slot has been passed

    // A flush of the TLB.
    output logic              cached_o,
    input  logic              walk_i,
    input  logic [PlaceW-1:0] walk_address_i,
    input  logic              keep_out_i,
    input  logic [PlaceW-1:0] kept_out_i,
    input  logic              keep_all_out_i,

    output slot_t  slot_o,   // two cycles after take_i or walk_i
    output entry_t entry_o   // two cycles after take_i
);

  localparam logic [PlaceW-1:0] Last = PlaceW'(Reorder - 1);

  function automatic logic [PlaceW-1:0] after(logic [PlaceW-1:0] place);
    return place == Last ? '0 : place + 1'b1;
  endfunction

  logic [Reorder-1:0] may_leave_q, awaits_q, fills_q, asks_q, reads_q;
  logic [PlaceW-1:0] tail_q, next_q, word_place;
  logic [CountW-1:0] count_q;
  logic r_ready, e_ready, word_taken, reads;
  assign ready_o      = r_ready && e_ready;
  assign count_o      = count_q;
  assign tag_o        = tail_q;
  assign next_o       = next_q;
  assign next_ready_o = may_leave_q[next_q];
  assign next_fills_o = fills_q[next_q];
  assign next_asks_o  = asks_q[next_q];
  assign next_reads_o = reads_q[next_q];
  assign cached_o     = fills_q != '0;
  assign word_place   = word_tag_i[PlaceW-1:0];
  assign word_taken   = word_valid_i && 32'(word_tag_i) < Reorder && awaits_q[word_place];
  assign refused_o    = word_valid_i && !word_taken;
  assign reads        = slot_i.kind == Reading;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      may_leave_q <= '0;
      awaits_q    <= '0;
      fills_q     <= '0;
      tail_q      <= '0;
      next_q      <= '0;
      count_q     <= '0;
    end else begin
      if (word_taken) begin
        awaits_q[word_place]    <= 1'b0;
        may_leave_q[word_place] <= 1'b1;
      end
      if (take_i) begin
        may_leave_q[next_q] <= 1'b0;
        fills_q[next_q]     <= 1'b0;
        next_q              <= after(next_q);
      end
      if (keep_out_i) fills_q[kept_out_i] <= 1'b0;
      if (keep_all_out_i) fills_q <= '0;
      if (push_i) begin
        may_leave_q[tail_q] <= !reads;
        awaits_q[tail_q]    <= reads;
        fills_q[tail_q]     <= reads;
        tail_q              <= after(tail_q);
      end
      if (push_i != leave_i) count_q <= push_i ? count_q + 1'b1 : count_q - 1'b1;
    end
  end
  always_ff @(posedge clk_i) begin
    if (push_i) begin
      asks_q[tail_q]  <= slot_i.kind == Asks;
      reads_q[tail_q] <= reads;
    end
  end

  logic [$bits(slot_t)-1:0] unused_r_old, unused_r_new;
  logic [$bits(entry_t)-1:0] unused_e_old, unused_e_new;
  bank #(
      .Words(Reorder),
      .Width($bits(slot_t)),
      .LaneW($bits(slot_t)),
      .Ports(2)
  ) u_r (
      .clk_i,
      .rst_ni,
      .ready_o        (r_ready),
      .read_i         (take_i || walk_i),
      .read_address_i (walk_i ? walk_address_i : next_q),
      .read_data_o    (slot_o),
      .write_i        (push_i),
      .write_address_i(tail_q),
      .write_lanes_i  (1'b1),
      .write_data_i   (slot_i),
      .old_o          (unused_r_old),
      .new_o          (unused_r_new)
  );
  bank #(
      .Words(Reorder),
      .Width($bits(entry_t)),
      .LaneW($bits(entry_t)),
      .Ports(2)
  ) u_e (
      .clk_i,
      .rst_ni,
      .ready_o        (e_ready),
      .read_i         (take_i),
      .read_address_i (next_q),
      .read_data_o    (entry_o),
      .write_i        (word_taken),
      .write_address_i(word_place),
      .write_lanes_i  (1'b1),
      .write_data_i   (entry_of(word_i)),
      .old_o          (unused_e_old),
      .new_o          (unused_e_new)
  );

  logic unused;
  assign unused = ^{unused_r_old, unused_r_new, unused_e_old, unused_e_new, word_tag_i, word_i};

endmodule
