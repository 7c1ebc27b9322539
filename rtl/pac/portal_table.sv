// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The portal table: the status of each entry in registers, the rest in a bank (P). Portals out of range stops elaboration.
//
// 1. The host allocates, enables and disables entries (PortalSet); flow control disables them (flow_control.sv). Never both at once.
// 2. A read in cycle t has its word at the output from cycle t + 2 on, until the next read.
//
// P: Portals words of 64 bits. Registers: three bits an entry.

module portal_table
  import pac_pkg::*;
  import engine_pkg::*;
#(
    parameter int unsigned Portals = 64  // 2 to 64
) (
    input  logic clk_i,
    input  logic rst_ni,
    output logic ready_o,

    input logic           set_i,
    input logic [5:0]     set_portal_i,
    input portal_status_e set_status_i,
    input logic           set_controlled_i,  // with flow control
    input reference_t     set_events_i,
    input logic [31:0]    set_epoch_i,

    // Ends the epoch of the shown entry, `portal_i`.
    input logic disable_i,

    output logic [Portals-1:0] exists_o,
    output logic [Portals-1:0] enabled_o,
    output logic [Portals-1:0] controlled_o,

    input  logic        read_i,
    input  logic [5:0]  portal_i,
    output reference_t  events_o,
    output logic [31:0] epoch_o
);

  if (Portals < 2 || Portals > 64) $error("portal_table: Portals is %0d, and may be 2 to 64", Portals);

  localparam int unsigned AddressW = $clog2(Portals);
  typedef struct packed {
    logic [4:0]  spare;
    reference_t  events;
    logic [31:0] epoch;
  } p_t;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      exists_o  <= '0;
      enabled_o <= '0;
      controlled_o <= '0;
    end else if (disable_i) begin
      enabled_o[AddressW'(portal_i)] <= 1'b0;
    end else if (set_i) begin
      exists_o[AddressW'(set_portal_i)]  <= set_status_i != PortalFree;
      enabled_o[AddressW'(set_portal_i)] <= set_status_i == PortalEnabled;
      controlled_o[AddressW'(set_portal_i)] <= set_controlled_i;
    end
  end

  p_t word, written, unused_old, unused_new;
  assign written  = disable_i ? '{spare: '0, events: word.events, epoch: word.epoch + 1'b1} :
                                '{spare: '0, events: set_events_i, epoch: set_epoch_i};
  assign events_o = word.events;
  assign epoch_o  = word.epoch;
  bank #(
      .Words(Portals),
      .Width($bits(p_t))
  ) u_p (
      .clk_i,
      .rst_ni,
      .ready_o,
      .read_i,
      .read_address_i (AddressW'(portal_i)),
      .read_data_o    (word),
      .write_i        (set_i || disable_i),
      .write_address_i(disable_i ? AddressW'(portal_i) : AddressW'(set_portal_i)),
      .write_lanes_i  ('1),
      .write_data_i   (written),
      .old_o          (unused_old),
      .new_o          (unused_new)
  );

  logic unused;
  assign unused = ^{unused_old, unused_new, word};

endmodule
