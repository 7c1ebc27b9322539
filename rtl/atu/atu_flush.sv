// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A flush of the TLB: `tlb::remove`, `tlb::remove_vpid`, and `Pipeline::keep_out_of_tlb` for the table reads in flight. atu.sv checks the
// parameters.
//
// 1. It begins when requester and responder are empty. From then on until the flush has its slot, nothing fills the TLB.
// 2. Words of the TLB: one every second cycle, read in its cycle 0, compared in 2, cleared in 3. A flush of a few pages visits one word a
//    page; a flush of many pages, or of a VPID, visits all.
// 3. Slots: one a cycle, if a read in flight may fill the TLB; read in its cycle 0, compared in 2, marked in 3. Until they are done
//    (`stop_o`), the responder takes nothing, because both read the same bank.

module atu_flush
  import atu_pkg::*;
#(
    parameter int unsigned TlbEntries = 1024,
    parameter int unsigned Reorder    = 32,
    localparam int unsigned PlaceW = $clog2(Reorder)
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic  wanted_i,  // stays, with the flush, until it is taken
    input  body_t flush_i,
    input  logic  quiet_i,
    output logic  hold_o,
    output logic  stop_o,
    output logic  done_o,
    input  logic  taken_i,

    output logic  tlb_read_o,
    output page_t tlb_page_o,     // of the read
    input  tlb_t  tlb_word_i,
    output logic  tlb_clear_o,
    output page_t tlb_cleared_o,

    input  logic              cached_i,       // a read in flight may fill the TLB
    output logic              slot_read_o,
    output logic [PlaceW-1:0] slot_address_o,
    input  slot_t             slot_i,
    output logic              keep_out_o,     // the read of this slot must not fill the TLB
    output logic [PlaceW-1:0] kept_out_o,
    output logic              keep_all_out_o
);

  localparam int unsigned AddressW = $clog2(TlbEntries);
  localparam logic [PlaceW-1:0] LastSlot = PlaceW'(Reorder - 1);
  typedef logic [AddressW-1:0] address_t;

  typedef enum logic [1:0] {
    Idle,
    Run,
    Over
  } state_e;
  state_e state_q;

  // `wanted_q` lags a cycle, and so is off the path from the request FIFO to the responder. A slot that the responder takes in the first
  // cycle clears its quiet signal in the next.
  logic is_vpid, begins, all_read, all_walked, wanted_q, begun_q;
  body_t flush_q;  // the current flush
  assign is_vpid = flush_q.code[0];
  assign begins  = state_q == Idle && wanted_q && quiet_i;
  assign done_o  = state_q == Over;
  assign hold_o  = wanted_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q  <= Idle;
      wanted_q <= 1'b0;
      begun_q  <= 1'b0;
    end else begin
      wanted_q <= wanted_i;
      begun_q  <= begins;
      case (state_q)
        Idle: if (begins) state_q <= Run;
        Run: if (all_read && all_walked) state_q <= Over;
        default: if (taken_i) state_q <= Idle;
      endcase
    end
  end

  always_ff @(posedge clk_i) if (state_q == Idle) flush_q <= flush_i;

  // ---- Words of the TLB ----

  // As many words as pages, or all.
  localparam int unsigned LeftW = AddressW + 1;
  logic [LeftW-1:0] left_q, words;
  address_t next_q, read_q, compared_q;
  logic second_q;               // the cycle after a read
  logic reading_q, there_q, clear_q;
  logic [9:0] more;
  assign more  = high_of(flush_i);
  assign words = flush_i.code[0] || 32'(more) >= TlbEntries ? LeftW'(TlbEntries) : LeftW'(more) + 1'b1;

  assign tlb_read_o    = state_q == Run && left_q != '0 && !second_q;
  assign tlb_page_o    = page_t'(next_q);
  assign tlb_clear_o   = clear_q;
  assign tlb_cleared_o = page_t'(compared_q);
  assign all_read      = left_q == '0 && !reading_q && !there_q;

  page_t page;
  logic is_flushed;
  assign page = tlb_word_i.page | page_t'(compared_q);
  assign is_flushed = tlb_word_i.entry.rights != '0 &&
                   (is_vpid ? tlb_word_i.entry.vpid == high_of(flush_q) : may_include(flush_q, page));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      left_q    <= '0;
      second_q  <= 1'b0;
      reading_q <= 1'b0;
      there_q   <= 1'b0;
      clear_q   <= 1'b0;
    end else begin
      if (state_q == Idle) left_q <= words;
      else if (tlb_read_o) left_q <= left_q - 1'b1;
      second_q  <= tlb_read_o;
      reading_q <= tlb_read_o;
      there_q   <= reading_q;
      clear_q   <= there_q && is_flushed;
    end
  end
  always_ff @(posedge clk_i) begin
    if (state_q == Idle) next_q <= flush_i.code[0] ? '0 : address_t'(page_of(flush_i));
    else if (tlb_read_o) next_q <= next_q + 1'b1;
    if (tlb_read_o) read_q <= next_q;
    if (reading_q) compared_q <= read_q;
  end

  // ---- Slots ----

  logic walk_q;
  logic [PlaceW-1:0] slot_q, slot_read_q, slot_there_q, kept_out_q;
  logic slot_reading_q, slot_is_there_q, keep_out_q;
  assign keep_all_out_o = begun_q && is_vpid;
  assign slot_read_o    = walk_q;
  assign slot_address_o = slot_q;
  assign all_walked     = !walk_q && !slot_reading_q && !slot_is_there_q;
`ifdef MUTANT_43
  assign keep_out_o     = 1'b0;
`else
  assign keep_out_o     = keep_out_q;
`endif
  assign kept_out_o     = kept_out_q;
  assign stop_o         = wanted_q && (state_q == Idle || !all_walked);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      walk_q          <= 1'b0;
      slot_reading_q  <= 1'b0;
      slot_is_there_q <= 1'b0;
      keep_out_q      <= 1'b0;
    end else begin
      if (begins) walk_q <= !is_vpid && cached_i;
      else if (slot_q == LastSlot) walk_q <= 1'b0;
      slot_reading_q  <= walk_q;
      slot_is_there_q <= slot_reading_q;
      keep_out_q      <= slot_is_there_q && may_include(flush_q, page_of(slot_i.body));
    end
  end
  always_ff @(posedge clk_i) begin
    if (begins) slot_q <= '0;
    else if (walk_q) slot_q <= slot_q + 1'b1;
    slot_read_q  <= slot_q;
    slot_there_q <= slot_read_q;
    kept_out_q   <= slot_there_q;
  end

endmodule
