// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The list manager in the engine, with queues for its answers and plans. Its clock stops while waiting answers fill their queue. lists.sv
// and fifo.sv check the parameters.
//
// Registers beside the list manager's: `Answers` answers and as many plans.

module pac_lists
  import pac_pkg::*;
  import engine_pkg::*;
#(
    parameter int unsigned Entries   = 256,  // of lists.sv, as all below
    parameter int unsigned Headers   = 256,
    parameter int unsigned Buckets   = 512,
    parameter bit          KeySource = 0,
    parameter bit          HashCrc   = 0,
    parameter int unsigned Ports     = 2,
    parameter bit          Trace     = 1,
    parameter int unsigned Answers   = 4     // waiting answers, 2 to 64
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic                command_valid_i,
    output logic                command_ready_o,
    input  lists_pkg::command_t command_i,

    output logic         answer_valid_o,
    output list_answer_t answer_o,
    input  logic         answer_pop_i,
    output logic         plan_valid_o,
    output plan_t        plan_o,
    input  logic         plan_pop_i,

    output logic              run_o,   // the clock runs
    output lists_pkg::trace_t trace_o  // valid while it does
);

  localparam int unsigned CountW = $clog2(Answers + 1);

  logic run, clock, ready, answer_valid;
  logic [CountW-1:0] room, unused_plan_room;
  lists_pkg::answer_t answer;
  lists_pkg::key_t key;
  lists_pkg::entry_b_t entry;
  lists_pkg::header_b_t header;
  lists_pkg::plan_t plan;
  list_answer_t kept_answer;
  plan_t kept_plan;

`ifdef MUTANT_28
  assign run = 1'b1;
`else
  assign run = room != '0;
`endif
  assign run_o           = run;
  assign command_ready_o = ready && run;
  clock_gate u_clock (
      .clk_i,
      .enable_i(run),
      .clk_o   (clock)
  );
  lists #(
      .Entries  (Entries),
      .Headers  (Headers),
      .Buckets  (Buckets),
      .KeySource(KeySource),
      .HashCrc  (HashCrc),
      .Ports    (Ports),
      .Trace    (Trace)
  ) u_lists (
      .clk_i          (clock),
      .rst_ni,
      .command_valid_i(command_valid_i && run),
      .command_ready_o(ready),
      .command_i,
      .answer_valid_o (answer_valid),
      .answer_o       (answer),
      .trace_o,
      .outside_o      (plan)
  );

  assign key    = answer.key;
  assign entry  = answer.b;
  assign header = answer.b;
  assign kept_answer = '{
      status: answer.status,
      last: answer.last,
      overflow: answer.overflow,
      entry_reference: answer.entry_reference,
      options: key.options,
      portal: key.portal,
      source: key.source,
      length: key.length,
      match_bits: key.match_bits,
      a: answer.a,
      user_ptr: entry.user_ptr,
      header_uid: header.uid
  };
  assign kept_plan = '{offset: plan.offset, mlength: plan.mlength, unlinks: plan.unlinks, freed: plan.freed, kept: plan.kept};
  fifo #(
      .Width($bits(list_answer_t)),
      .Depth(Answers)
  ) u_answers (
      .clk_i,
      .rst_ni,
      .push_i (answer_valid && run),
      .data_i (kept_answer),
      .room_o (room),
      .valid_o(answer_valid_o),
      .data_o (answer_o),
      .pop_i  (answer_pop_i)
  );
  // A message's plan waits at most as long as its answer.
  fifo #(
      .Width($bits(plan_t)),
      .Depth(Answers)
  ) u_plans (
      .clk_i,
      .rst_ni,
      .push_i (plan.valid && run),
      .data_i (kept_plan),
      .room_o (unused_plan_room),
      .valid_o(plan_valid_o),
      .data_o (plan_o),
      .pop_i  (plan_pop_i)
  );

  logic unused;
  assign unused = ^{answer, plan, key, entry, header, unused_plan_room};

endmodule
