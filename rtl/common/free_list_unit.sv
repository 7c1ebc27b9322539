// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A free list and a bank of links as a unit, for tests and proofs. Commands take a record or give one back. A command waits until the
// list can answer. free_list.sv checks Records.

module free_list_unit
  import free_list_unit_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Records = 16,  // 2 to 32,768
    parameter bit          Trace   = 1    // 1: `trace_o` shows writes
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic     command_valid_i,
    output logic     command_ready_o,
    input  command_t command_i,

    output logic    answer_valid_o,
    output answer_t answer_o,
    output trace_t  trace_o
);

  localparam int unsigned AddressW = $clog2(Records);

  logic ready, valid, full, refill, refill_valid_q, refill_pending_q;
  index_t index, link, refill_address, refill_link, unused_data;
  index_t [1:0] unused_old, unused_new;
  logic take, give, go;

  assign command_ready_o = ready && (command_i.give || valid || full);
  assign go   = command_valid_i && command_ready_o;
  assign give = go && command_i.give;
  assign take = go && !command_i.give && valid;

  ram #(
      .Words (Records),
      .Width (IndexW),
      .Ports (2),
      .Bypass(1'b1)
  ) u_links (
      .clk_i,
      .rst_ni,
      .ready_o        (ready),
      .read_i         ({1'b0, refill && ready}),
      .read_address_i ({AddressW'(0), AddressW'(refill_address)}),
      .read_data_o    ({unused_data, refill_link}),
      .write_i        ({1'b0, give}),
      .write_address_i({AddressW'(0), AddressW'(command_i.index)}),
      .write_lanes_i  ({1'b0, give}),
      .write_data_i   ({index_t'(0), link}),
      .old_data_o     (unused_old),
      .new_data_o     (unused_new)
  );
  logic unused;
  assign unused = ^{unused_data, unused_old, unused_new, refill_address};

  free_list #(
      .Records(Records)
  ) u_list (
      .clk_i,
      .rst_ni,
      .valid_o         (valid),
      .full_o          (full),
      .index_o         (index),
      .take_i          (take),
      .give_i          (give),
      .give_index_i    (command_i.index),
      .link_o          (link),
      .refill_o        (refill),
      .refill_address_o(refill_address),
      .refill_grant_i  (ready),
      .refill_valid_i  (refill_valid_q),
      .refill_link_i   (refill_link)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      refill_pending_q <= 1'b0;
      refill_valid_q   <= 1'b0;
    end else begin
      refill_pending_q <= refill && ready;
      refill_valid_q   <= refill_pending_q;
    end
  end

  assign answer_valid_o = go;
  assign answer_o = '{tag: command_i.tag, full: !command_i.give && !valid, index: command_i.give ? command_i.index : index};

  always_comb begin
    trace_o = '0;
    if (Trace && go) begin
      trace_o.retire_valid = 1'b1;
      trace_o.retire_tag   = command_i.tag;
      if (give) begin
        trace_o.write[0] = '{valid: 1'b1, bank: '0, address: command_i.index, tag: command_i.tag, old_known: 1'b0,
                             old_word: '0, new_word: link};
      end
    end
  end

endmodule
