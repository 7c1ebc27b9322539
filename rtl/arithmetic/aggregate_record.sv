// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// An operation in progress at an aggregation node: its reduction, the operands that have arrived, and its progress. Each record compares
// each command with itself, also commands of other records, so that nothing waits for the selection of a record. aggregate.sv checks the
// parameters.
//
// 1. The first operand defines the reduction. An operand that disagrees makes the operation fail, and so does one that cannot be reduced.
//    The first failure stays; the operands of a failed operation are counted and dropped.
// 2. A child sends once.
// 3. Operands are started in the order of the children: `started_q` is the next one, even if later ones have arrived.
// 4. `done_q <= started_q <= children_q`. The record is not opened again while the first two differ.
// 5. `eligible_q` lags a cycle. It is 0 in the cycle after Open; a stale cycle after a failure does no harm.
//
// Registers: 38 bits of operation, Children bits of arrivals, four counts of children, 2 flags.

module aggregate_record
  import arithmetic_pkg::*;
#(
    parameter int unsigned Children = 8,    // a power of two
    parameter int unsigned MaxBytes = 256,  // a power of two
    parameter int unsigned DataW    = 64,
    localparam int unsigned ChildW = Children < 2 ? 1 : $clog2(Children),
    localparam int unsigned ByteW = $clog2(MaxBytes),
    localparam int unsigned WordW = MaxBytes * 8 < 2 * DataW ? 1 : $clog2(MaxBytes * 8 / DataW)
) (
    input logic clk_i,
    input logic rst_ni,

    input logic              open_i,
    input logic [ChildW:0]   children_i,
    input logic              header_i,
    input logic              is_child_i,   // some record could have this child
    input logic [ChildW-1:0] child_i,
    input reduction_t        reduction_i,
    input status_e           refusal_i,    // of the first operand
    input logic              is_long_i,
    input logic              is_empty_i,
    input logic [ByteW-1:0]  last_byte_i,
    input logic [7:0]        word_i,

    // The answers that the commands would get.
    output status_e open_status_o,
    output status_e header_status_o,
    output status_e result_status_o,

    input logic              arrives_i,
    input logic [ChildW-1:0] arrives_child_i,

    output logic              eligible_o,
    output logic [ChildW-1:0] child_o,
    output reduction_t        reduction_o,
    output logic [WordW-1:0]  last_word_o,
    input  logic              start_i,
    input  logic              done_i
);

  typedef logic [ChildW:0] count_t;

  logic open_q, is_first_q, is_empty_q, eligible_q, eligible_d;
  status_e failure_q;
  reduction_t reduction_q;
  logic [ByteW-1:0] last_byte_q;
  count_t children_q, left_q, started_q, done_q;
  logic [Children-1:0] arrived_q;

  assign last_word_o = WordW'(last_byte_q / ByteW'(DataW / 8));
  assign reduction_o = reduction_q;
  assign child_o = started_q[ChildW-1:0];

  // Whether a header is of a child that has not sent, and the failure that it causes.
  logic is_child, is_same, is_new;
  status_e failure;
  assign is_child = open_q && is_child_i && {1'b0, child_i} < children_q;
  assign is_new = is_child && !arrived_q[child_i];
  assign is_same = reduction_i == reduction_q && !is_long_i && is_empty_i == is_empty_q && last_byte_i == last_byte_q;
  always_comb begin
    if (is_first_q) failure = refusal_i;
    else if (failure_q != Ok) failure = failure_q;
    else failure = is_same ? Ok : OperationMismatch;
  end

  assign open_status_o = started_q == done_q ? Ok : Busy;
  always_comb begin
    if (!is_child) header_status_o = NoGroup;
    else header_status_o = is_new ? failure : Credit;
    if (!open_q) result_status_o = NoGroup;
    else if (left_q != 0) result_status_o = Busy;
    else if (failure_q != Ok) result_status_o = failure_q;
    else if (is_empty_q) result_status_o = TooLong;
    else if (done_q != children_q) result_status_o = Busy;
    else result_status_o = word_i > 8'(last_word_o) ? TooLong : Ok;
  end

  // An operand without words, or with dropped words, has arrived with its header.
  logic arrives_at_once, opens;
  assign arrives_at_once = header_i && is_new && (failure != Ok || is_empty_i);
  assign opens = open_i && open_status_o == Ok;
  assign eligible_d = arrived_q[started_q[ChildW-1:0]] && started_q != children_q && failure_q == Ok && !is_empty_q && !open_i;
  assign eligible_o = eligible_q && !open_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      open_q      <= 1'b0;
      is_first_q  <= 1'b1;
      is_empty_q  <= 1'b0;
      eligible_q  <= 1'b0;
      failure_q   <= Ok;
      reduction_q <= '0;
      last_byte_q <= '0;
      children_q  <= '0;
      left_q      <= '0;
      started_q   <= '0;
      done_q      <= '0;
      arrived_q   <= '0;
    end else begin
      eligible_q <= eligible_d;
      if (start_i) started_q <= started_q + 1'b1;
      if (done_i) done_q <= done_q + 1'b1;
      if (arrives_at_once) arrived_q[child_i] <= 1'b1;
      if (arrives_i) arrived_q[arrives_child_i] <= 1'b1;
      if (arrives_at_once || arrives_i) begin
        left_q     <= left_q - 1'b1;
        is_first_q <= 1'b0;
      end
      if (header_i && is_new) begin
        failure_q <= failure;
        if (is_first_q) begin
          reduction_q <= reduction_i;
          is_empty_q  <= is_empty_i;
          last_byte_q <= last_byte_i;
        end
      end
      if (opens) begin
        open_q     <= 1'b1;
        is_first_q <= 1'b1;
        failure_q  <= Ok;
        children_q <= children_i;
        left_q     <= children_i;
        started_q  <= '0;
        done_q     <= '0;
        arrived_q  <= '0;
      end
    end
  end

endmodule
