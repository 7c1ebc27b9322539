// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The address translation unit (seed 002, section 5.4, figure 5-12): `Pipeline` of crates/core/nic/src/atu/pipeline.rs, block by block.
//
// 1. Responses leave in the order of their requests, through one port with the flush requests. So a unit that is asked to forget a page
//    has received every earlier translation.
// 2. The TLB is filled in the order of requests. It does not get an entry that a flush removes, or that was read before the flush.
// 3. No response waits for a unit's answer. Flushes and fences complete in the order of their acceptance.
// 4. Words of memory and answers of units are accepted at once. One that nothing waits for changes nothing and is reported.
// 5. A request is accepted if the FIFO has room and, for a flush or fence, the list of pending ones. A malformed word is accepted and
//    dropped.
//
// Blocks change their state in the cycle that the trace shows; within a cycle in the order: submit, word read, answer to a flush,
// requester, responder, completion. Cycles: docs/design/rtl-atu.md. Parameters out of range stop elaboration.

module atu
  import atu_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned TlbEntries = 1024,  // words of the TLB: a power of two, 2 to 65,536
    parameter int unsigned Reorder    = 32,    // requests in progress: 2 to 4,096
    parameter int unsigned Requests   = 64,    // waiting requests: 2 to 4,096
    parameter int unsigned Pending    = 16,    // incomplete flushes and fences: 2 to 64
    parameter int unsigned Ports      = 1,     // of the TLB: 1 (one port for both), 2 (a read and a write a cycle)
    parameter bit          Trace      = 1      // 1: `trace_o` shows the steps of the blocks
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic     command_valid_i,
    output logic     command_ready_o,
    input  command_t command_i,

    output logic    answer_valid_o,
    output answer_t answer_o,

    input  outside_in_t  outside_i,
    output outside_out_t outside_o,

    output trace_t trace_o
);

  if (TlbEntries < 2 || TlbEntries > 65536 || (TlbEntries & (TlbEntries - 1)) != 0)
    $error("atu: TlbEntries is %0d, and may be a power of two from 2 to 65,536", TlbEntries);
  if (Reorder < 2 || Reorder > 4096) $error("atu: Reorder is %0d, and may be 2 to 4,096", Reorder);
  if (Requests < 2 || Requests > 4096) $error("atu: Requests is %0d, and may be 2 to 4,096", Requests);
  if (Pending < 2 || Pending > 64) $error("atu: Pending is %0d, and may be 2 to 64", Pending);
  if (Ports != 1 && Ports != 2) $error("atu: Ports is %0d, and may be 1 or 2", Ports);

  // Clamp: zero-width types abort elaboration before `$error` prints.
  localparam int unsigned Slots = Reorder < 2 ? 2 : Reorder;
  localparam int unsigned Waiting = Requests < 2 ? 2 : Requests;
  localparam int unsigned Incomplete = Pending < 2 ? 2 : Pending;
  localparam int unsigned PlaceW = $clog2(Slots);
  localparam int unsigned CountW = $clog2(Slots + 1);
  localparam int unsigned RequestsW = $clog2(Waiting + 1);
  localparam int unsigned PendingW = $clog2(Incomplete + 1);

  // ---- Requests ----

  logic is_control, is_well_formed, accept, submit;
  logic tlb_ready, slots_ready, requests_room, pending_room;
  assign is_control      = command_i.operation != Translate;
  assign is_well_formed  = well_formed(command_i);
  assign command_ready_o = tlb_ready && slots_ready && requests_room && (!is_control || pending_room);
  assign accept          = command_valid_i && command_ready_o;
  assign submit          = accept && is_well_formed;

  logic request_valid, request_take, push;
  request_t request;
  logic [RequestsW-1:0] requests;
  atu_requests #(
      .Requests(Waiting)
  ) u_requests (
      .clk_i,
      .rst_ni,
      .room_o   (requests_room),
      .push_i   (submit),
      .request_i('{operation: command_i.operation, body: command_i.word.body}),
      .valid_o  (request_valid),
      .request_o(request),
      .take_i   (request_take),
      .done_i   (push),
      .count_o  (requests)
  );

  // ---- The requester ----

  logic look_up, flush, flush_done, flush_holds, flushing, requester_quiet, hit, miss, may_fill;
  page_t look_up_page;
  tlb_t tlb_word;
  slot_t pushed;
  logic [CountW-1:0] slots;
  logic [PlaceW-1:0] tail, memory_tag;
  atu_requester #(
      .TlbEntries(TlbEntries),
      .Reorder   (Slots)
  ) u_requester (
      .clk_i,
      .rst_ni,
      .tables_i      (outside_i.tables),
      .valid_i       (request_valid),
      .request_i     (request),
      .take_o        (request_take),
      .tlb_read_o    (look_up),
      .tlb_page_o    (look_up_page),
      .tlb_word_i    (tlb_word),
      .tlb_busy_i    (Ports == 1 && may_fill),
      .flush_o       (flush),
      .flush_done_i  (flush_done),
      .flushing_o    (flushing),
      .quiet_o       (requester_quiet),
      .slots_i       (slots),
      .tag_i         (tail),
      .push_o        (push),
      .slot_o        (pushed),
      .hit_o         (hit),
      .miss_o        (miss),
      .memory_valid_o(outside_o.memory_valid),
      .memory_tag_o  (memory_tag),
      .memory_page_o (outside_o.memory_page),
      .memory_ready_i(outside_i.memory_ready)
  );
  assign outside_o.memory_tag = name_t'(memory_tag);

  // ---- A flush of the TLB ----

  logic stop, responder_quiet, flush_read, clear, cached, walk, keep_out, keep_all_out;
  page_t flush_page, cleared_page;
  logic [PlaceW-1:0] walk_address, kept_out;
  slot_t slot;
  entry_t entry;
  atu_flush #(
      .TlbEntries(TlbEntries),
      .Reorder   (Slots)
  ) u_flush (
      .clk_i,
      .rst_ni,
      .wanted_i      (flush),
      .flush_i       (request.body),
      .quiet_i       (requester_quiet && responder_quiet),
      .hold_o        (flush_holds),
      .stop_o        (stop),
      .done_o        (flush_done),
      .taken_i       (request_take),
      .tlb_read_o    (flush_read),
      .tlb_page_o    (flush_page),
      .tlb_word_i    (tlb_word),
      .tlb_clear_o   (clear),
      .tlb_cleared_o (cleared_page),
      .cached_i      (cached),
      .slot_read_o   (walk),
      .slot_address_o(walk_address),
      .slot_i        (slot),
      .keep_out_o    (keep_out),
      .kept_out_o    (kept_out),
      .keep_all_out_o(keep_all_out)
  );

  // ---- The TLB ----

  logic fill;
  page_t fill_page;
  entry_t fill_entry;
  tlb_t tlb_old, tlb_new;
  atu_tlb #(
      .TlbEntries(TlbEntries),
      .Ports     (Ports),
      .Trace     (Trace)
  ) u_tlb (
      .clk_i,
      .rst_ni,
      .ready_o      (tlb_ready),
      .read_i       (look_up || flush_read),
      .read_page_i  (flush_read ? flush_page : look_up_page),
      .word_o       (tlb_word),
      .write_i      (fill || clear),
      .write_page_i (clear ? cleared_page : fill_page),
      .write_entry_i(clear ? '0 : fill_entry),
      .old_o        (tlb_old),
      .new_o        (tlb_new)
  );

  // ---- The reorder buffer and the responder ----

  logic next_ready, next_fills, next_asks, next_reads, slot_take, leave;
  logic [PlaceW-1:0] next, left;
  atu_reorder #(
      .Reorder(Slots)
  ) u_reorder (
      .clk_i,
      .rst_ni,
      .ready_o       (slots_ready),
      .count_o       (slots),
      .tag_o         (tail),
      .push_i        (push),
      .slot_i        (pushed),
      .word_valid_i  (outside_i.read_valid),
      .word_tag_i    (outside_i.read_tag),
      .word_i        (outside_i.read_word),
      .refused_o     (answer_o.read_refused),
      .next_ready_o  (next_ready),
      .next_fills_o  (next_fills),
      .next_asks_o   (next_asks),
      .next_reads_o  (next_reads),
      .next_o        (next),
      .take_i        (slot_take),
      .leave_i       (leave),
      .cached_o      (cached),
      .walk_i        (walk),
      .walk_address_i(walk_address),
      .keep_out_i    (keep_out),
      .kept_out_i    (kept_out),
      .keep_all_out_i(keep_all_out),
      .slot_o        (slot),
      .entry_o       (entry)
  );

  logic moves, passes, ask;
  logic [1:0] asked;
  atu_responder #(
      .Reorder(Slots)
  ) u_responder (
      .clk_i,
      .rst_ni,
      .hold_i       (flush_holds || flushing),
      .stop_i       (stop),
      .quiet_o      (responder_quiet),
      .next_ready_i (next_ready),
      .next_fills_i (next_fills),
      .next_asks_i  (next_asks),
      .next_reads_i (next_reads),
      .next_i       (next),
      .take_o       (slot_take),
      .slot_i       (slot),
      .entry_i      (entry),
      .moves_o      (moves),
      .leave_o      (leave),
      .left_o       (left),
      .passes_o     (passes),
      .fault_o      (answer_o.fault),
      .may_fill_o   (may_fill),
      .fill_o       (fill),
      .fill_page_o  (fill_page),
      .fill_entry_o (fill_entry),
      .ask_o        (ask),
      .asked_o      (asked),
      .units_valid_o(outside_o.units_valid),
      .units_peer_o (outside_o.units_peer),
      .units_o      (outside_o.units),
      .units_ready_i(outside_i.units_ready)
  );

  // ---- Pending flushes and fences ----

  logic [PendingW-1:0] pending;
  atu_pending #(
      .Pending(Incomplete)
  ) u_pending (
      .clk_i,
      .rst_ni,
      .room_o         (pending_room),
      .count_o        (pending),
      .push_i         (submit && is_control),
      .tag_i          (command_i.word.body.tag),
      .ask_i          (ask),
      .asked_i        (asked),
      .pass_i         (passes),
      .answer_valid_i (outside_i.answer_valid),
      .answer_i       (outside_i.answer),
      .refused_o      (answer_o.answer_refused),
      .units_flushed_o(answer_o.units_flushed),
      .done_o         (answer_o.done),
      .done_tag_o     (answer_o.done_tag)
  );

  // ---- Events and trace ----

  assign answer_o.malformed = accept && !is_well_formed;
  assign answer_o.hit       = hit;
  assign answer_o.miss      = miss;
  assign answer_o.flushed   = clear;
  assign answer_valid_o = answer_o.done || answer_o.malformed || answer_o.read_refused || answer_o.answer_refused || hit || miss ||
                          answer_o.fault || clear || answer_o.units_flushed;

  always_comb begin
    trace_o = '0;
    if (Trace) begin
      trace_o.submitted    = submit;
      trace_o.requested    = push;
      trace_o.responded    = moves;
      trace_o.requests     = index_t'(requests);
      trace_o.slots        = index_t'(slots);
      trace_o.pending      = index_t'(pending);
      trace_o.retire_valid = leave;
      trace_o.retire_tag   = leave ? tag_t'(left) : '0;
      if (fill || clear) begin
        trace_o.write[0] = '{
            valid: 1'b1,
            bank: '0,
            address: index_t'((clear ? cleared_page : fill_page) & page_t'(TlbEntries - 1)),
            tag: clear ? '1 : tag_t'(left),
            old_known: 1'b1,
            old_word: tlb_old,
            new_word: tlb_new
        };
      end
    end
  end

  logic unused;
  assign unused = ^{tlb_old, tlb_new, left, moves};

endmodule
