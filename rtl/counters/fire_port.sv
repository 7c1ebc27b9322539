// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A port at which fired operations leave, and the list of those that wait for it (seed 000, section 3.2: three DMA queues, so that none
// blocks another). Its parameters follow from those of counters.sv.
//
// 1. An operation loads the port's register only if `free_o`: the register is empty, and nothing waits. Otherwise it keeps its record of
//    T, and is appended to the list, which lies in the records' links.
// 2. `refill_o`: the register is empty and an operation waits, so that the head of the list is next.
//
// Registers: an operation, two indices.

module fire_port #(
    parameter int unsigned Width = 512,  // bits of an operation, at least 1
    parameter int unsigned AddressW = 7    // bits of an index of a record, at least 1
) (
    input logic clk_i,
    input logic rst_ni,

    input logic             load_i,
    input logic [Width-1:0] data_i,

    output logic             valid_o,
    input  logic             ready_i,
    output logic [Width-1:0] data_o,

    output logic              free_o,
    output logic              refill_o,
    output logic              waiting_o,
    output logic [AddressW-1:0] head_o,
    output logic [AddressW-1:0] tail_o,
    input  logic              append_i,
    input  logic [AddressW-1:0] index_i,
    input  logic              advance_i,  // the head of the list leaves
    input  logic [AddressW-1:0] next_i      // the link of the head
);

  logic valid_q, waiting_q;
  logic [Width-1:0] data_q;
  logic [AddressW-1:0] head_q, tail_q;

  assign valid_o   = valid_q;
  assign data_o    = data_q;
  assign free_o    = !valid_q && !waiting_q;
  assign refill_o  = !valid_q && waiting_q;
  assign waiting_o = waiting_q;
  assign head_o    = head_q;
  assign tail_o    = tail_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q   <= 1'b0;
      waiting_q <= 1'b0;
    end else begin
      if (load_i) valid_q <= 1'b1;
      else if (ready_i) valid_q <= 1'b0;
      if (append_i) waiting_q <= 1'b1;
      else if (advance_i && head_q == tail_q) waiting_q <= 1'b0;
    end
  end
  always_ff @(posedge clk_i) begin
    if (load_i) data_q <= data_i;
    if (append_i && !waiting_q) head_q <= index_i;
    else if (advance_i) head_q <= next_i;
    if (append_i) tail_q <= index_i;
  end

endmodule
