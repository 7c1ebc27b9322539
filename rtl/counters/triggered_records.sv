// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The records of triggered operations: the banks T0, T1 and T2, the list of free records, and the writes in the trace. triggered.sv and
// counters.sv check the parameters.
//
// 1. Walks read T0 alone; firing reads it with T1 and T2 at the same address. An arm writes T1 and T2, whole.
// 2. The free list reads a link in a cycle without other reads. The unit that gives a record back writes `link_o` into it.

module triggered_records
  import pac_pkg::*;
  import counters_pkg::*;
#(
    parameter int unsigned Triggered = 128,  // 2 to 4,096
    parameter int unsigned Ports     = 2,    // 2 (two read and two write ports), 1 (one port for both)
    parameter bit          Trace     = 1,    // 1: the trace shows writes
    localparam int unsigned AddressW = $clog2(Triggered)
) (
    input  logic clk_i,
    input  logic rst_ni,
    output logic ready_o,

    input  logic                read_i,
    input  logic                read_body_i,     // T1 and T2 at the same address
    input  logic [AddressW-1:0] read_address_i,
    input  logic                idle_i,          // nothing needs the registers after T
    output t0_t                 t0_o,
    output t1_t                 t1_o,
    output t2_t                 t2_o,

    input logic                write_i,
    input logic [AddressW-1:0] write_address_i,
    input logic [        15:0] write_lanes_i,
    input t0_t                 write_data_i,

    input logic                write_body_i,
    input logic [AddressW-1:0] write_body_address_i,
    input body_t               write_body_data_i,

    output logic   valid_o,
    output logic   full_o,
    output index_t index_o,
    input  logic   take_i,
    input  logic   give_i,
    input  index_t give_index_i,
    output index_t link_o,

    input  tag_t         tag_i,       // of the write to T0
    input  tag_t         body_tag_i,  // of the write to T1 and T2
    output write_t [2:0] trace_o
);

  logic t0_ready, t1_ready, t2_ready;
  assign ready_o = t0_ready && t1_ready && t2_ready;

  logic refill, refill_grant, t0_read;
  logic [1:0] refill_q;
  index_t refill_address;
  logic [AddressW-1:0] t0_read_address;
  free_list #(
      .Records(Triggered)
  ) u_list (
      .clk_i,
      .rst_ni,
      .valid_o,
      .full_o,
      .index_o,
      .take_i,
      .give_i,
      .give_index_i,
      .link_o,
      .refill_o        (refill),
      .refill_address_o(refill_address),
      .refill_grant_i  (refill_grant),
      .refill_valid_i  (refill_q[1]),
      .refill_link_i   (t0_o.next)
  );
  assign refill_grant    = idle_i && !read_i && ready_o;
  assign t0_read         = read_i || (refill && refill_grant);
  assign t0_read_address = read_i ? read_address_i : AddressW'(refill_address);
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) refill_q <= '0;
    else refill_q <= {refill_q[0], refill && refill_grant};
  end

  logic [255:0] t0_old, t0_new, t1_old, t1_new, t2_old, t2_new;
  bank #(
      .Words(Triggered),
      .Width($bits(t0_t)),
      .Ports(Ports),
      .Trace(Trace)
  ) u_t0 (
      .clk_i,
      .rst_ni,
      .ready_o        (t0_ready),
      .read_i         (t0_read),
      .read_address_i (t0_read_address),
      .read_data_o    (t0_o),
      .write_i,
      .write_address_i,
      .write_lanes_i,
      .write_data_i,
      .old_o          (t0_old),
      .new_o          (t0_new)
  );
  bank #(
      .Words(Triggered),
      .Width($bits(t1_t)),
      .Ports(Ports),
      .Trace(Trace)
  ) u_t1 (
      .clk_i,
      .rst_ni,
      .ready_o        (t1_ready),
      .read_i         (read_body_i),
      .read_address_i (read_address_i),
      .read_data_o    (t1_o),
      .write_i        (write_body_i),
      .write_address_i(write_body_address_i),
      .write_lanes_i  ('1),
      .write_data_i   (write_body_data_i.t1),
      .old_o          (t1_old),
      .new_o          (t1_new)
  );
  bank #(
      .Words(Triggered),
      .Width($bits(t2_t)),
      .Ports(Ports),
      .Trace(Trace)
  ) u_t2 (
      .clk_i,
      .rst_ni,
      .ready_o        (t2_ready),
      .read_i         (read_body_i),
      .read_address_i (read_address_i),
      .read_data_o    (t2_o),
      .write_i        (write_body_i),
      .write_address_i(write_body_address_i),
      .write_lanes_i  ('1),
      .write_data_i   (write_body_data_i.t2),
      .old_o          (t2_old),
      .new_o          (t2_new)
  );

  always_comb begin
    trace_o = '0;
    if (Trace && write_i) begin
      trace_o[0] = '{valid: 1'b1, bank: 4'd2, address: index_t'(write_address_i), tag: tag_i, old_known: 1'b1,
                     old_word: t0_old, new_word: t0_new};
    end
    if (Trace && write_body_i) begin
      trace_o[1] = '{valid: 1'b1, bank: 4'd3, address: index_t'(write_body_address_i), tag: body_tag_i, old_known: 1'b1,
                     old_word: t1_old, new_word: t1_new};
      trace_o[2] = '{valid: 1'b1, bank: 4'd4, address: index_t'(write_body_address_i), tag: body_tag_i, old_known: 1'b1,
                     old_word: t2_old, new_word: t2_new};
    end
  end

  logic unused;
  assign unused = ^{refill_address, tag_i, body_tag_i, t0_old, t0_new, t1_old, t1_new, t2_old, t2_new};

endmodule
