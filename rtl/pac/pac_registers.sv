// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The registers of the Portals unit, as software reads them: what the engine counts, in the block that `make registers` generates of
// registers/*.rdl (docs/reference/registers.md has the addresses). The bus is that of the block, in bytes.
//
// The counters of VELO, RMA and the ATU, list steps (chains here are not those of crates/core/nic), triggered operations and what a home
// counts (packets, recoveries) stay 0.

module pac_registers
  import engine_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input counts_t counts_i,

    input  logic        request_i,
    input  logic        write_i,
    input  logic [22:0] address_i,
    input  logic [63:0] data_i,
    input  logic [63:0] mask_i,  // bits that a write changes
    output logic        stall_o,
    output logic        done_o,
    output logic        error_o,
    output logic [63:0] data_o
);

  selvedge_nic_pkg::selvedge_nic__in_t in;
  selvedge_nic_pkg::selvedge_nic__out_t out;
  logic [4:0] read_q, write_q;
  logic stall_write, stall_read, read_done, read_error, write_done, write_error;

  always_comb begin
    in.portals.requests.count.incr              = counts_i.message.requests;
    in.portals.matched_priority.count.incr      = counts_i.message.matched_priority;
    in.portals.matched_overflow.count.incr      = counts_i.message.matched_overflow;
    in.portals.unexpected.count.incr            = counts_i.message.unexpected;
    in.portals.truncated.count.incr             = counts_i.message.truncated;
    in.portals.dropped.count.incr               = counts_i.message.dropped;
    in.portals.permission_violations.count.incr = counts_i.message.permission_violations;
    in.portals.operation_violations.count.incr  = counts_i.message.operation_violations;
    in.portals.flow_control.count.incr          = counts_i.message.flow_control;
    in.portals.refused_disabled.count.incr      = counts_i.message.refused_disabled;
    in.portals.bytes_in.count.incr              = counts_i.message.bytes_in != '0;
    in.portals.bytes_in.count.incrvalue         = counts_i.message.bytes_in;
    in.portals.bytes_out.count.incr             = counts_i.message.bytes_out != '0;
    in.portals.bytes_out.count.incrvalue        = counts_i.message.bytes_out;
    in.portals.events.count.incr                = counts_i.events;
    in.portals.events_overwritten.count.incr    = counts_i.events_overwritten;
    // Not the engine's.
    in.portals.list_steps.count.incr      = 1'b0;
    in.portals.list_steps.count.incrvalue = '0;
    in.portals.segv.count.incr            = 1'b0;
    in.portals.triggered_fired.count.incr = 1'b0;
    in.portals.undeliverable.count.incr   = 1'b0;
    in.portals.packets.count.incr         = 1'b0;
    in.portals.recoveries.count.incr      = 1'b0;
    in.velo.velo_sent.count.incr          = 1'b0;
    in.velo.velo_received.count.incr      = 1'b0;
    in.velo.velo_discarded.count.incr     = 1'b0;
    in.rma.requester_puts.count.incr      = 1'b0;
    in.rma.requester_gets.count.incr      = 1'b0;
    in.rma.responder_gets.count.incr      = 1'b0;
    in.rma.responder_locks.count.incr     = 1'b0;
    in.rma.completer_puts.count.incr      = 1'b0;
    in.rma.completer_gets.count.incr      = 1'b0;
    in.rma.notifications_discarded.count.incr = 1'b0;
    in.atu.tlb_hits.count.incr            = 1'b0;
    in.atu.tlb_misses.count.incr          = 1'b0;
    in.atu.tlb_flushes.count.incr         = 1'b0;
    in.atu.tlb_flushes.count.incrvalue    = '0;
    in.atu.atu_flushes.count.incr         = 1'b0;
    in.atu.translation_faults.count.incr  = 1'b0;
    in.velo_tables.rd_ack = read_q[0];
    in.velo_tables.wr_ack = write_q[0];
    in.velo_tables.rd_data = '0;
    in.velo_pages.rd_ack = read_q[1];
    in.velo_pages.wr_ack = write_q[1];
    in.velo_pages.rd_data = '0;
    in.rma_tables.rd_ack = read_q[2];
    in.rma_tables.wr_ack = write_q[2];
    in.rma_tables.rd_data = '0;
    in.rma_pages.rd_ack = read_q[3];
    in.rma_pages.wr_ack = write_q[3];
    in.rma_pages.rd_data = '0;
    in.atu_tables.rd_ack = read_q[4];
    in.atu_tables.wr_ack = write_q[4];
    in.atu_tables.rd_data = '0;
  end

  // Tables and pages of units that are not there read as 0.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_q  <= '0;
      write_q <= '0;
    end else begin
      read_q[0]  <= out.velo_tables.req && !out.velo_tables.req_is_wr;
      write_q[0] <= out.velo_tables.req && out.velo_tables.req_is_wr;
      read_q[1]  <= out.velo_pages.req && !out.velo_pages.req_is_wr;
      write_q[1] <= out.velo_pages.req && out.velo_pages.req_is_wr;
      read_q[2]  <= out.rma_tables.req && !out.rma_tables.req_is_wr;
      write_q[2] <= out.rma_tables.req && out.rma_tables.req_is_wr;
      read_q[3]  <= out.rma_pages.req && !out.rma_pages.req_is_wr;
      write_q[3] <= out.rma_pages.req && out.rma_pages.req_is_wr;
      read_q[4]  <= out.atu_tables.req && !out.atu_tables.req_is_wr;
      write_q[4] <= out.atu_tables.req && out.atu_tables.req_is_wr;
    end
  end

  selvedge_nic u_block (
      .clk                 (clk_i),
      .rst                 (!rst_ni),
      .s_cpuif_req         (request_i),
      .s_cpuif_req_is_wr   (write_i),
      .s_cpuif_addr        (address_i),
      .s_cpuif_wr_data     (data_i),
      .s_cpuif_wr_biten    (mask_i),
      .s_cpuif_req_stall_wr(stall_write),
      .s_cpuif_req_stall_rd(stall_read),
      .s_cpuif_rd_ack      (read_done),
      .s_cpuif_rd_err      (read_error),
      .s_cpuif_rd_data     (data_o),
      .s_cpuif_wr_ack      (write_done),
      .s_cpuif_wr_err      (write_error),
      .hwif_in             (in),
      .hwif_out            (out)
  );
  assign stall_o = write_i ? stall_write : stall_read;
  assign done_o  = read_done || write_done;
  assign error_o = read_error || write_error;

endmodule
