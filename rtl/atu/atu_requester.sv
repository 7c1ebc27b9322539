// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The requester: `Pipeline::step_requester`. It takes requests in order, looks pages up, and gives each request its slot. atu.sv checks
// the parameters.
//
// Cycles of a request: 0 taken, TLB R. 1. 2 the TLB's word; the slot is written; a table read enters its queue. One request each cycle.
//
// 1. A request is taken only if it has its slot and a place in the queue of table reads. So it never waits in between, and the TLB's word
//    is still valid in the cycle in which the slot is written.
// 2. A flush of the TLB is taken when atu_flush.sv is done with it. Nothing is looked up meanwhile.

module atu_requester
  import atu_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned TlbEntries = 1024,
    parameter int unsigned Reorder    = 32,
    localparam int unsigned PlaceW = $clog2(Reorder),
    localparam int unsigned CountW = $clog2(Reorder + 1)
) (
    input logic clk_i,
    input logic rst_ni,

    input logic [9:0] tables_i,

    input  logic     valid_i,
    input  request_t request_i,
    output logic     take_o,

    output logic  tlb_read_o,
    output page_t tlb_page_o,
    input  tlb_t  tlb_word_i,
    input  logic  tlb_busy_i,  // the port is in use

    output logic flush_o,       // the next request flushes the TLB
    input  logic flush_done_i,
    output logic flushing_o,    // a flush of the TLB is moving to its slot
    output logic quiet_o,       // no request is moving to its slot

    input  logic [CountW-1:0] slots_i,  // in use
    input  logic [PlaceW-1:0] tag_i,    // of the next slot
    output logic              push_o,
    output slot_t             slot_o,
    output logic              hit_o,
    output logic              miss_o,

    output logic              memory_valid_o,
    output logic [PlaceW-1:0] memory_tag_o,
    output page_t             memory_page_o,
    input  logic              memory_ready_i
);

  localparam int unsigned AddressW = $clog2(TlbEntries);
  localparam int unsigned ReadW = PlaceW + PageW;

  logic first_valid_q, second_valid_q;
  request_t first_q, second_q;
  logic [1:0] under_way;
  logic slot_room, read_room, look_up;
  logic [2:0] reads_room;
  assign under_way = 2'(first_valid_q) + 2'(second_valid_q);
  assign slot_room = (CountW + 1)'(slots_i) + (CountW + 1)'(under_way) < (CountW + 1)'(Reorder);
  assign read_room = reads_room > 3'(under_way);
  assign look_up   = request_i.operation == Translate;

  // A flush begins only with a free slot, because slots that fill the TLB do not leave during a flush.
`ifdef MUTANT_42
  assign flush_o    = valid_i && flushes_tlb(request_i);
`else
  assign flush_o    = valid_i && flushes_tlb(request_i) && slot_room;
`endif
  assign flushing_o = (first_valid_q && flushes_tlb(first_q)) || (second_valid_q && flushes_tlb(second_q));
  assign quiet_o    = under_way == '0;
  assign take_o     = valid_i && slot_room && (look_up ? read_room && !tlb_busy_i : !flush_o || flush_done_i);
  assign tlb_read_o = take_o && look_up;
  assign tlb_page_o = page_of(request_i.body);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_valid_q  <= 1'b0;
      second_valid_q <= 1'b0;
    end else begin
      first_valid_q  <= take_o;
      second_valid_q <= first_valid_q;
    end
  end
  always_ff @(posedge clk_i) begin
    if (take_o) first_q <= request_i;
    if (first_valid_q) second_q <= first_q;
  end

  // Cycle 2.
  page_t page;
  logic is_translation, has_page, hit, miss;
  assign page           = page_of(second_q.body);
  assign is_translation = second_q.operation == Translate;
  assign has_page       = {1'b0, page[PageW-1:EntryW]} < tables_i;
  assign hit  = has_page && tlb_word_i.entry.rights != '0 && tlb_word_i.page[PageW-1:AddressW] == page[PageW-1:AddressW];
  assign miss = has_page && !hit;
  assign push_o = second_valid_q;
  assign hit_o  = second_valid_q && is_translation && hit;
  assign miss_o = second_valid_q && is_translation && miss;

  always_comb begin
    slot_o = '{kind: Passes, body: second_q.body};
    if (is_translation) begin
      slot_o.kind = miss ? Reading : Answered;
      if (!miss) slot_o.body = check(has_page ? tlb_word_i.entry : '0, second_q.body);
    end else if (second_q.operation == FlushUnits || second_q.operation == FlushBoth) begin
      slot_o.kind = Asks;
    end
  end

  fifo #(
      .Width(ReadW),
      .Depth(4)
  ) u_reads (
      .clk_i,
      .rst_ni,
      .push_i (miss_o),
      .data_i ({tag_i, page}),
      .room_o (reads_room),
      .valid_o(memory_valid_o),
      .data_o ({memory_tag_o, memory_page_o}),
      .pop_i  (memory_valid_o && memory_ready_i)
  );

  logic unused;
  assign unused = ^tlb_word_i.page;

endmodule
