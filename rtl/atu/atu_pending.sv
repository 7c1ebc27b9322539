// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Incomplete flushes and fences: `Pipeline::pending`, `flush_answered` and `step_completion`. atu.sv checks the parameter.
//
// 1. They are listed and complete in the order of acceptance.
// 2. A unit's answer goes to the oldest flush with its tag that waits for this unit. Without one it changes nothing.
// 3. The first is complete when the responder has passed it and all asked units have answered.

module atu_pending
  import atu_pkg::*;
#(
    parameter int unsigned Pending = 16,
    localparam int unsigned CountW = $clog2(Pending + 1)
) (
    input logic clk_i,
    input logic rst_ni,

    output logic              room_o,
    output logic [CountW-1:0] count_o,
    input  logic              push_i,
    input  name_t             tag_i,

    // The responder, at the oldest that it has not passed.
    input logic       ask_i,
    input logic [1:0] asked_i,
    input logic       pass_i,

    input  logic answer_valid_i,
    input  ats_t answer_i,
    output logic refused_o,
    output logic units_flushed_o,  // this was a flush's last answer

    output logic  done_o,
    output name_t done_tag_o
);

  localparam int unsigned PlaceW = $clog2(Pending);
  localparam logic [PlaceW-1:0] Last = PlaceW'(Pending - 1);

  function automatic logic [PlaceW-1:0] after(logic [PlaceW-1:0] place);
    return place == Last ? '0 : place + 1'b1;
  endfunction

  logic [Pending-1:0][15:0] tag_q;
  logic [Pending-1:0] passed_q;
  logic [Pending-1:0][Units-1:0] open_q;  // units that were asked and have not answered
  logic [PlaceW-1:0] head_q, tail_q, passing_q;
  logic [CountW-1:0] count_q;
  assign room_o     = count_q != CountW'(Pending);
  assign count_o    = count_q;
  assign done_o     = count_q != '0 && passed_q[head_q] && open_q[head_q] == '0;
  assign done_tag_o = tag_q[head_q];

  // The oldest flush that waits for the answer.
  logic [Pending-1:0] waits, chosen;
  logic [3:0] unit_is;
  logic found;
  assign unit_is = 4'd1 << answer_i.body.peer;
  always_comb begin
    for (int place = 0; place < int'(Pending); place++) begin
      waits[place] = (open_q[place] & unit_is[Units-1:0]) != '0 && tag_q[place] == answer_i.body.tag;
    end
    // From the head to the last place first, then from place 0.
    chosen = '0;
    found  = 1'b0;
    for (int place = 0; place < int'(Pending); place++) begin
`ifdef MUTANT_40
      if (waits[place] && !found) begin
`else
      if (waits[place] && place >= int'(head_q) && !found) begin
`endif
        chosen[place] = 1'b1;
        found         = 1'b1;
      end
    end
    for (int place = 0; place < int'(Pending); place++) begin
      if (waits[place] && !found) begin
        chosen[place] = 1'b1;
        found         = 1'b1;
      end
    end
  end

  logic taken;
  assign taken     = answer_valid_i && is_flush_response(answer_i) && chosen != '0;
  assign refused_o = answer_valid_i && !taken;
  always_comb begin
    units_flushed_o = 1'b0;
    for (int place = 0; place < int'(Pending); place++) begin
      if (taken && chosen[place] && passed_q[place] && open_q[place] == unit_is[Units-1:0]) units_flushed_o = 1'b1;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      passed_q  <= '0;
      open_q    <= '0;
      head_q    <= '0;
      tail_q    <= '0;
      passing_q <= '0;
      count_q   <= '0;
    end else begin
      for (int place = 0; place < int'(Pending); place++) begin
        if (taken && chosen[place]) open_q[place] <= open_q[place] & ~unit_is[Units-1:0];
      end
      if (ask_i) open_q[passing_q][asked_i] <= 1'b1;
      if (pass_i) begin
        passed_q[passing_q] <= 1'b1;
        passing_q           <= after(passing_q);
      end
      if (push_i) begin
        passed_q[tail_q] <= 1'b0;
        tail_q           <= after(tail_q);
      end
      if (done_o) head_q <= after(head_q);
      if (push_i != done_o) count_q <= push_i ? count_q + 1'b1 : count_q - 1'b1;
    end
  end
  always_ff @(posedge clk_i) if (push_i) tag_q[tail_q] <= tag_i;

  logic unused;
  assign unused = ^{answer_i, unit_is};

endmodule
