// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Commands that wait for a response: `add` and `take` of crates/core/nic/src/pending.rs. Pending out of range stops elaboration.
//
// 1. `add_i` takes the record of `token_o`, only with `valid_o`. A packet carries the token; it is never 0.
// 2. `read_i` reads the record of a token. It is at the output two cycles later, until the next `read_i`. `found_o` shows whether it
//    waits; `take_i` then frees it.
// 3. A freed record gets another generation, so a duplicate answer finds nothing.
//
// X: Pending words of 576 bits: state, and the command as the body of a triggered operation.

module pending
  import pac_pkg::*;
#(
    parameter int unsigned Pending = 64  // 2 to 4,096
) (
    input  logic clk_i,
    input  logic rst_ni,
    output logic ready_o,

    output logic                  valid_o,  // a record is free
    output logic [63:0]           token_o,
    input  logic                  add_i,
    input  logic                  is_get_i,
    input  counters_pkg::body_t   body_i,

    input  logic                  read_i,
    input  logic [63:0]           token_i,  // stays until `take_i`
    output logic                  found_o,
    output logic                  is_get_o,
    output counters_pkg::body_t   body_o,
    input  logic                  take_i
);

  if (Pending < 2 || Pending > 4096) $error("pending: Pending is %0d, and may be 2 to 4,096", Pending);

  localparam int unsigned AddressW = $clog2(Pending);
  localparam logic [7:0] Waiting = 8'd1;
  typedef logic [AddressW-1:0] address_t;

  typedef struct packed {
    logic [14:0]         spare;
    logic                is_get;
    index_t              link;  // of a free record
    generation_t         generation;
    logic [7:0]          status;
    counters_pkg::body_t body;
  } x_t;
  localparam int unsigned Lanes = $bits(x_t) / 16;
  localparam logic [Lanes-1:0] LanesState = {4'hf, {(Lanes - 4) {1'b0}}};

  logic slot_valid, slot_full, slot_read, slot_grant;
  index_t slot_index, slot_link, slot_address;
  generation_t slot_generation, taken_generation;
  x_t [1:0] x, unused_old, unused_new;
  x_t written;
  reference_t reference_, asked;
  logic small_;

  assign reference_ = reference_to(slot_index, slot_generation, Pending);
  assign token_o = 64'(reference_) + 64'd1;
  assign valid_o = slot_valid && ready_o;
  assign asked   = reference_t'(token_i - 64'd1);
  assign small_  = token_i != '0 && token_i[63:32] == '0 && ((token_i - 64'd1) >> ReferenceW) == '0;
  assign found_o = small_ && index_of(asked, Pending) < index_t'(Pending) && x[0].status == Waiting &&
                   x[0].generation == generation_of(asked, Pending);
  assign is_get_o = x[0].is_get;
  assign body_o   = x[0].body;
`ifdef MUTANT_26
  assign taken_generation = x[0].generation;
`else
  assign taken_generation = next_generation(x[0].generation, Pending);
`endif
  assign slot_grant = ready_o;

  slots #(
      .Records(Pending),
      .Scan   (1'b0)
  ) u_slots (
      .clk_i,
      .rst_ni,
      .request_i        (1'b0),
      .valid_o          (slot_valid),
      .full_o           (slot_full),
      .index_o          (slot_index),
      .generation_o     (slot_generation),
      .take_i           (add_i),
      .give_i           (take_i),
      .give_index_i     (index_of(asked, Pending)),
      .give_generation_i(taken_generation),
      .link_o           (slot_link),
      .read_o           (slot_read),
      .read_address_o   (slot_address),
      .read_grant_i     (slot_grant),
      .status_i         (x[1].status),
      .generation_i     (x[1].generation),
      .link_i           (x[1].link)
  );

  always_comb begin
    written = '{spare: '0, is_get: is_get_i, link: '0, generation: slot_generation, status: Waiting, body: body_i};
    if (take_i) begin
      written.status     = records_pkg::Free;
      written.generation = taken_generation;
      written.link       = slot_link;
    end
  end

  ram #(
      .Words(Pending),
      .Width($bits(x_t)),
      .LaneW(16),
      .Ports(2)
  ) u_x (
      .clk_i,
      .rst_ni,
      .ready_o,
      .read_i         ({slot_read && slot_grant, read_i}),
      .read_address_i ({address_t'(slot_address), address_t'(index_of(asked, Pending))}),
      .read_data_o    (x),
      .write_i        ({1'b0, add_i || take_i}),
      .write_address_i({address_t'(0), address_t'(take_i ? index_of(asked, Pending) : slot_index)}),
      .write_lanes_i  ({Lanes'(0), take_i ? LanesState : {Lanes{1'b1}}}),
      .write_data_i   ({$bits(x_t)'(0), written}),
      .old_data_o     (unused_old),
      .new_data_o     (unused_new)
  );

  logic unused;
  assign unused = ^{unused_old, unused_new, slot_full};

endmodule
