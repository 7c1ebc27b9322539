// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Properties of descriptors (docs/design/rtl-lockstep.md, "Proofs"), for one arbitrary reference, so for all.
//
// 1. Every command is answered once, in order; there are no other answers.
// 2. A live descriptor is not given again. Release and Get are refused exactly if it is not live, as with a stale handle.
// 3. A live descriptor has the values of its bind.
// 4. A refused command writes nothing, and neither takes nor returns a record.
//
// Bounded: the environment is any history of commands.

module descriptors_proof
  import pac_pkg::*;
  import records_pkg::*;
  import descriptors_pkg::*;
#(
    parameter int unsigned Descriptors = 3,
    parameter bit          Scan = 1'b0,
    parameter int unsigned Ports = 2
) (
    input logic       clk_i,
    input logic       rst_ni,
    input logic       command_valid_i,
    input command_t   command_i,
    input reference_t reference_i  // the followed reference
);

  logic command_ready, answer_valid;
  answer_t answer;
  trace_t trace;
  descriptors #(
      .Descriptors(Descriptors),
      .Scan       (Scan),
      .Ports      (Ports),
      .Trace      (1'b0)
  ) u_descriptors (
      .clk_i,
      .rst_ni,
      .command_valid_i,
      .command_ready_o(command_ready),
      .command_i,
      .answer_valid_o (answer_valid),
      .answer_o       (answer),
      .trace_o        (trace)
  );

  // Reset is in the first cycle. The reference stays the same.
  logic first_q = 1'b1;
  reference_t reference_q;
  always_ff @(posedge clk_i) begin
    first_q     <= 1'b0;
    reference_q <= reference_i;
  end
  always_comb begin
    assume (rst_ni == !first_q);
    if (!first_q) assume (reference_i == reference_q);
    // Eight generations: bind and release take 5 cycles, so a history of 40 has no more.
    assume (reference_i[26:5] == '0);
    assume (command_i.descriptor[26:5] == '0);
    assume (command_i.operation == Bind || command_i.operation == Release || command_i.operation == Get);
  end

  // Unanswered commands, the oldest in 0.
  command_t [2:0] asked_q, asked_d;
  logic [1:0] count_q, count_d;
  command_t oldest, bound_q, bound_d;
  logic live_q, live_d;
  assign oldest = asked_q[0];
  always_comb begin
    asked_d = asked_q;
    count_d = count_q;
    live_d  = live_q;
    bound_d = bound_q;
    if (answer_valid) begin
      asked_d = {command_t'('0), asked_q[2:1]};
      count_d = count_q - 1'b1;
      if (answer.status == Ok && oldest.operation == Bind && answer.descriptor == reference_i) begin
        live_d  = 1'b1;
        bound_d = oldest;
      end
      if (answer.status == Ok && oldest.operation == Release && oldest.descriptor == reference_i) live_d = 1'b0;
    end
    if (command_valid_i && command_ready) begin
      asked_d[count_d] = command_i;
      count_d = count_d + 1'b1;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q <= '0;
      live_q  <= 1'b0;
    end else begin
      count_q <= count_d;
      live_q  <= live_d;
    end
  end
  always_ff @(posedge clk_i) begin
    asked_q <= asked_d;
    bound_q <= bound_d;
  end

  always_comb begin
    if (!first_q) assert (count_q <= 2'd2);
    if (!first_q && answer_valid) begin
      assert (count_q != '0);
      if (oldest.operation == Bind) begin
        if (answer.status == Ok) assert (!(live_q && answer.descriptor == reference_i));
      end else if (oldest.descriptor == reference_i) begin
        assert (answer.status == (live_q ? Ok : Invalid));
        if (oldest.operation == Get && live_q) begin
          assert (answer.start == bound_q.start && answer.length == bound_q.length[31:0]);
          assert (answer.options == bound_q.options[16:0] && answer.events == bound_q.events);
          assert (answer.counter == bound_q.counter && bound_q.length[63:32] == '0 && bound_q.options[31:17] == '0);
        end
      end
      if (answer.status != Ok) assert (!u_descriptors.write && !u_descriptors.taken && !u_descriptors.release_it);
    end
  end

endmodule
