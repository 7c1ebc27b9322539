// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Properties of aggregate.sv, for one arbitrary record and one arbitrary word of its result, so for all. Commands are arbitrary, but with
// these reductions: a sum of 64-bit integers (short), a sum of doubles (long), a minimum of pairs of 16 bytes, and one that is refused;
// of 0, 8 or 16 bytes.
//
// 1. Every command is answered once, two cycles after its acceptance, with its tag; there are no other answers.
// 2. Every operand's word is reduced once, in the order of the children, and not before its operand is complete.
// 3. A result that is read as Ok is the fold of all operands in the order of the children. The lanes are aggregate_lanes_order.sv, whose
//    function shows the order.
// 4. An operation with all operands ends within EndMax cycles without reads of results and new operands.
// 5. The two pipelines never write in one cycle, and the words of a pair of 16 bytes are in the lanes in consecutive cycles.
//
// The bench derives operands from commands and their answers, so it trusts refusals; the lockstep checks them.

module aggregate_proof
  import arithmetic_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Records  = 2,
    parameter int unsigned Children = 2,
    parameter int unsigned EndMax   = 40
) (
    input logic       clk_i,
    input logic       rst_ni,
    input logic       command_valid_i,
    input command_t   command_i,
    input logic [7:0] record_i,  // the record
    input logic       word_i     // the word
);

  localparam int unsigned MaxBytes = 16;

  logic command_ready, answer_valid;
  answer_t answer;
  trace_t trace;
  command_t command;
  // The lanes use 8 bits of data.
  always_comb begin
    command = '0;
    command.tag      = tag_t'(command_i.tag[3:0]);
    command.kind     = command_i.kind;
    command.record   = 8'(command_i.record[1:0]);
    command.child    = 8'(command_i.child[2:0]);
    command.children = 8'(command_i.children[2:0]);
    command.bytes    = {27'b0, command_i.bytes[4:3], 3'b0};
    command.word     = 8'(command_i.word[1:0]);
    command.data     = data_t'(command_i.data[7:0]);
    unique case (command_i.operation[1:0])
      2'd0: {command.operation, command.datatype, command.index} = {8'(Sum), 8'd8, 8'd0};
      2'd1: {command.operation, command.datatype, command.index} = {8'(Sum), 8'd9, 8'd0};
      2'd2: {command.operation, command.datatype, command.index} = {8'(Min), 8'd9, 8'd5};
      2'd3: {command.operation, command.datatype, command.index} = {8'(Bor), 8'd9, 8'd0};
    endcase
  end
  aggregate #(
      .Records (Records),
      .Children(Children),
      .MaxBytes(MaxBytes),
      .DataW   (64),
      .Trace   (1'b0)
  ) u_aggregate (
      .clk_i,
      .rst_ni,
      .command_valid_i,
      .command_ready_o(command_ready),
      .command_i      (command),
      .answer_valid_o (answer_valid),
      .answer_o       (answer),
      .trace_o        (trace)
  );

  // Reset is in the first cycle. The record and the word stay the same.
  logic first_q = 1'b1;
  logic [7:0] record_q;
  logic word_q;
  always_ff @(posedge clk_i) begin
    first_q  <= 1'b0;
    record_q <= record_i;
    word_q   <= word_i;
  end
  always_comb begin
    assume (rst_ni == !first_q);
    assume (record_i < 8'(Records));
    if (!first_q) assume (record_i == record_q && word_i == word_q);
  end

  // 1: the commands of the last two cycles.

  logic valid1_q, valid2_q;
  command_t command1_q, command2_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid1_q <= 1'b0;
      valid2_q <= 1'b0;
    end else begin
      valid1_q <= command_valid_i && command_ready;
      valid2_q <= valid1_q;
    end
  end
  always_ff @(posedge clk_i) begin
    command1_q <= command;
    command2_q <= command1_q;
  end
  always_comb begin
    if (!first_q) begin
      assert (answer_valid == valid2_q);
      assert (!answer_valid || answer.tag == command2_q.tag);
    end
  end

  // State of the record and the word, from the answered commands.

  typedef struct packed {
    logic       open;
    logic       failed;
    logic       is_empty;
    logic       is_short;  // one word
    logic [7:0] children;
    logic [7:0] count;     // complete operands
    logic [7:0] reduced;   // words written into the result
    logic [Children-1:0] arrived;
    logic [Children-1:0][7:0] operand;
  } model_t;
  typedef struct packed {
    logic       taking;     // a message of the record
    logic       elsewhere;  // a message of another record
    logic       second;     // its next word is its second
    logic [7:0] child;
    logic [7:0] data;       // of the followed word
  } message_t;

  model_t model_q, model_d;
  message_t message_q, message_d;
  logic is_own, takes, completes;
  assign is_own = command2_q.record == record_i;

  always_comb begin
    logic completes_child;
    model_d = model_q;
    message_d = message_q;
    takes = 1'b0;
    completes = 1'b0;
    completes_child = 1'b0;
    if (answer_valid) begin
      unique case (command2_q.kind)
        Open: if (is_own && answer.status == Ok) begin
          model_d = '0;
          model_d.open = 1'b1;
          model_d.children = command2_q.children;
          message_d.taking = 1'b0;
        end
        Header: begin
          message_d = '0;
          message_d.child = command2_q.child;
          if (is_own && answer.status == Ok) begin
            message_d.taking = command2_q.bytes != 0;
            model_d.is_empty = command2_q.bytes == 0;
            model_d.is_short = command2_q.bytes <= 8;
            if (command2_q.bytes == 0) begin
              model_d.count = model_q.count + 1'b1;
              model_d.arrived[command2_q.child] = 1'b1;
            end
          end else if (is_own && answer.status != NoGroup && answer.status != Credit) begin
            model_d.failed = 1'b1;
            model_d.count = model_q.count + 1'b1;
            model_d.arrived[command2_q.child] = 1'b1;
          end
        end
        Word: if (message_q.taking) begin
          takes = 1'b1;
          message_d.second = 1'b1;
          if (message_q.second == word_i) message_d.data = command2_q.data[7:0];
          if (message_q.second || model_q.is_short) begin
            completes = 1'b1;
            message_d.taking = 1'b0;
            model_d.count = model_q.count + 1'b1;
            model_d.arrived[message_q.child] = 1'b1;
            model_d.operand[message_q.child] = message_d.data;
          end
        end
        default: ;
      endcase
    end
    if (u_aggregate.write_result && 8'(u_aggregate.result_record) == record_i && u_aggregate.result_word == word_i) begin
      model_d.reduced = model_d.reduced + 1'b1;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      model_q   <= '0;
      message_q <= '0;
    end else begin
      model_q   <= model_d;
      message_q <= message_d;
    end
  end

  // 2 and 3.

  logic [7:0] fold;
  logic is_all;
  always_comb begin
    fold = model_q.operand[0];
    for (int unsigned child = 1; child < Children; child++) begin
      if (8'(child) < model_q.children) fold = model_q.operand[child] ^ {fold[6:0], fold[7]};
    end
    is_all = model_q.open && model_q.count == model_q.children;
  end

  always_comb begin
    if (!first_q) begin
      assert (!model_q.open || (model_q.count <= model_q.children && 32'(model_q.children) <= Children));
      if (u_aggregate.write_result && 8'(u_aggregate.result_record) == record_i && u_aggregate.result_word == word_i) begin
        assert (model_q.open);
        assert (8'(u_aggregate.result_child) == model_q.reduced);
        assert (model_q.arrived[u_aggregate.result_child]);
      end
      assert (!takes || answer.status == Ok);
      if (answer_valid && command2_q.kind == Result && is_own && answer.status == Ok) begin
        assert (is_all && !model_q.failed && !model_q.is_empty);
        assert (command2_q.word == 8'd0 || (command2_q.word == 8'd1 && !model_q.is_short));
        if (command2_q.word == 8'(word_i)) begin
          assert (model_q.reduced == model_q.children);
          assert (answer.data == data_t'(fold));
        end
      end
      // The result reports a failure.
      if (answer_valid && command2_q.kind == Result && is_own && is_all && model_q.failed) begin
        assert (answer.status != Ok && answer.status != Busy);
      end
    end
  end

  // 4.

  logic [7:0] age_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) age_q <= '0;
    else if (!is_all || (command_valid_i && command.kind != Word) || completes) age_q <= '0;
    else age_q <= age_q + 1'b1;
  end
  always_comb begin
    if (!first_q) assert (int'(age_q) < int'(EndMax) || model_q.failed || model_q.is_empty || (word_i && model_q.is_short) ||
                          model_q.reduced == model_q.children);
  end

  // 5.

  always_comb begin
    if (!first_q) begin
      assert (!(u_aggregate.write_long && u_aggregate.u_engine.word_at_q[ShortDepth].valid &&
                !u_aggregate.u_engine.word_at_q[ShortDepth].is_long));
      if (u_aggregate.u_engine.word_at_q[1].valid && u_aggregate.plan.layout == PairOver &&
          !u_aggregate.u_engine.word_at_q[1].word) begin
        assert (u_aggregate.issue && u_aggregate.issue_word && u_aggregate.u_engine.plan_q.layout == PairOver);
        assert (u_aggregate.issue_record == u_aggregate.u_engine.word_at_q[1].record);
        assert (u_aggregate.issue_child == u_aggregate.u_engine.word_at_q[1].child);
      end
    end
  end

  // Reachability: operands arrive in the wrong order, and the result is read.

  logic wrong_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) wrong_q <= 1'b0;
    else if (completes && message_q.child == 8'd1 && !model_q.arrived[0]) wrong_q <= 1'b1;
  end
  always_comb begin
    cover (wrong_q && answer_valid && command2_q.kind == Result && is_own && answer.status == Ok && model_q.children == 8'd2 &&
           u_aggregate.u_engine.plan_q.is_long);
  end

endmodule
