// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The responder: `Pipeline::step_responder`. It takes slots in order, sends responses, asks units to flush, and fills the TLB. atu.sv
// checks the parameter.
//
// Cycles of a slot: 0 taken, R and E R. 1. 2 the words; its output enters the queue of the units' port; the TLB W; the slot leaves. One
// slot each cycle. A flush that asks units stays for one cycle a unit, and more while the port stops; later slots wait.
//
// 1. A slot is taken only if there is room for its output. So a fill is made in the cycle in which its response is sent.
// 2. During a flush of the TLB (`hold_i`), a slot of a table read is not taken, even if the flush keeps its entry out: until the flush
//    has its slot, it would have filled the TLB. With `stop_i` none is taken.

module atu_responder
  import atu_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Reorder = 32,
    localparam int unsigned PlaceW = $clog2(Reorder)
) (
    input logic clk_i,
    input logic rst_ni,

    input logic hold_i,
    input logic stop_i,
    output logic quiet_o,  // no slot is in progress

    input  logic              next_ready_i,
    input  logic              next_fills_i,
    input  logic              next_asks_i,
    input  logic              next_reads_i,
    input  logic [PlaceW-1:0] next_i,
    output logic              take_o,
    input  slot_t             slot_i,
    input  entry_t            entry_i,

    output logic              moves_o,   // a step of `nic`'s responder
    output logic              leave_o,
    output logic [PlaceW-1:0] left_o,    // the slot that leaves
    output logic              passes_o,  // it is a flush or a fence
    output logic              fault_o,

    output logic              may_fill_o,    // this cycle may need the TLB's port
    output logic              fill_o,
    output page_t             fill_page_o,
    output entry_t            fill_entry_o,

    output logic       ask_o,
    output logic [1:0] asked_o,

    output logic       units_valid_o,
    output logic [1:0] units_peer_o,
    output ats_t       units_o,
    input  logic       units_ready_i
);

  typedef struct packed {
    logic              fills;
    logic              asks;
    logic [PlaceW-1:0] place;
  } held_t;

  // The waiting words for the port: a flush's word does not name its unit, a response's does.
  typedef struct packed {
    logic        is_flush;
    logic [1:0]  peer;
    name_t       tag;
    logic [1:0]  code;
    logic [39:0] low;
  } sent_t;

  logic first_valid_q, second_valid_q, asking, send;
  held_t first_q, second_q;
  logic [1:0] asked_q;
  logic [2:0] room;
  sent_t sent, at_port;
  body_t response;

  assign quiet_o = !first_valid_q && !second_valid_q;
  assign asking  = (first_valid_q && first_q.asks) || (second_valid_q && second_q.asks);
  logic held;
`ifdef MUTANT_41
  assign held = hold_i && next_fills_i;
`else
  assign held = hold_i && next_reads_i;
`endif
  assign take_o = next_ready_i && !stop_i && !held && !asking && room > 3'(first_valid_q) + 3'(second_valid_q);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_valid_q  <= 1'b0;
      second_valid_q <= 1'b0;
      asked_q        <= '0;
    end else begin
      first_valid_q <= take_o;
      if (first_valid_q) second_valid_q <= 1'b1;
      else if (leave_o) second_valid_q <= 1'b0;
      if (ask_o) asked_q <= leave_o ? '0 : asked_q + 1'b1;
    end
  end
  always_ff @(posedge clk_i) begin
    if (take_o) first_q <= '{fills: next_fills_i, asks: next_asks_i, place: next_i};
    if (first_valid_q) second_q <= first_q;
  end

  // Cycle 2.
  assign ask_o    = second_valid_q && second_q.asks && room != '0;
  assign asked_o  = asked_q;
  assign moves_o  = second_valid_q && (!second_q.asks || ask_o);
  assign leave_o  = second_valid_q && (!second_q.asks || (ask_o && asked_q == 2'(Units - 1)));
  assign left_o   = second_q.place;
  assign passes_o = leave_o && (slot_i.kind == Asks || slot_i.kind == Passes);
  assign response = slot_i.kind == Reading ? check(entry_i, slot_i.body) : slot_i.body;
  assign send     = moves_o && slot_i.kind != Passes;
  assign fault_o  = send && !second_q.asks && response.code != Done;

  assign may_fill_o   = second_valid_q && second_q.fills;
`ifdef MUTANT_39
  assign fill_o       = may_fill_o;
`else
  assign fill_o       = may_fill_o && entry_i.rights != '0;
`endif
  assign fill_page_o  = page_of(slot_i.body);
  assign fill_entry_o = entry_i;

  assign sent = '{
      is_flush: second_q.asks,
      peer: second_q.asks ? asked_q : response.peer,
      tag: response.tag,
      code: response.code,
      low: response.low
  };
  fifo #(
      .Width($bits(sent_t)),
      .Depth(4)
  ) u_sent (
      .clk_i,
      .rst_ni,
      .push_i (send),
      .data_i (sent),
      .room_o (room),
      .valid_o(units_valid_o),
      .data_o (at_port),
      .pop_i  (units_valid_o && units_ready_i)
  );
  assign units_peer_o = at_port.peer;
  assign units_o = '{
      kind: at_port.is_flush ? FlushRequest : TranslationResponse,
      body: '{tag: at_port.tag, peer: at_port.is_flush ? 2'd0 : at_port.peer, code: at_port.code, low: at_port.low}
  };

endmodule
