// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Properties of free_list.sv (docs/design/rtl-lockstep.md, "Proofs"), against a stack in the bench.
//
// 1. The list hands out the record that was returned last and not taken since: so a record is free or taken, never both, and none is
//    lost.
// 2. It reports no free record exactly if the stack is empty.
// 3. A link that it writes is the record below in the stack, so the list in memory is the stack.
//
// Induction. The environment takes records if `valid_o` is set, returns taken records, and grants reads in any cycle. The memory shows a
// word two cycles after its read, as it was before the writes of the read's cycle: bank K of lists.sv.
//
// Found: mutant 12.

module free_list_proof
  import pac_pkg::*;
#(
    parameter int unsigned Records = 6  // more than the four in registers
) (
    input logic       clk_i,
    input logic       rst_ni,
    input logic       take_i,
    input logic       give_i,
    input logic [2:0] give_index_i,
    input logic       grant_i
);

  logic valid, full, refill, refill_valid;
  index_t index, link, refill_address, refill_link;
  free_list #(
      .Records(Records)
  ) u_list (
      .clk_i,
      .rst_ni,
      .valid_o         (valid),
      .full_o          (full),
      .index_o         (index),
      .take_i,
      .give_i,
      .give_index_i    (index_t'(give_index_i)),
      .link_o          (link),
      .refill_o        (refill),
      .refill_address_o(refill_address),
      .refill_grant_i  (grant_i),
      .refill_valid_i  (refill_valid),
      .refill_link_i   (refill_link)
  );

  logic first_q = 1'b1;
  always_ff @(posedge clk_i) first_q <= 1'b0;
  always_comb assume (rst_ni == !first_q);

  index_t [Records-1:0] links_q;
  index_t [1:0] read_link_q;
  logic [1:0] reads_q;
  assign refill_valid = reads_q[1];
  assign refill_link  = read_link_q[1];

  // The stack, its top in 0.
  index_t [Records-1:0] stack_q, stack_d;
  logic [2:0] height_q, height_d;
  logic [Records-1:0] is_free;
  always_comb begin
    stack_d  = stack_q;
    height_d = height_q;
    if (take_i) begin
      stack_d  = {index_t'('0), stack_d[Records-1:1]};
      height_d = height_d - 1'b1;
    end
    if (give_i) begin
      stack_d  = {stack_d[Records-2:0], index_t'(give_index_i)};
      height_d = height_d + 1'b1;
    end
    is_free = '0;
    for (int unsigned place = 0; place < Records; place++) begin
      if (place < 32'(height_q)) is_free[stack_q[place][2:0]] = 1'b1;
    end
  end
  always_comb begin
    assume (!take_i || valid);
    assume (32'(give_index_i) < Records);
    assume (!give_i || !is_free[give_index_i]);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int place = 0; place < int'(Records); place++) stack_q[place] <= index_t'(place);
      height_q    <= 3'(Records);
      links_q     <= '0;
      reads_q     <= '0;
      read_link_q <= '0;
    end else begin
      stack_q     <= stack_d;
      height_q    <= height_d;
      reads_q     <= {reads_q[0], refill && grant_i};
      read_link_q <= {read_link_q[0], links_q[refill_address[2:0]]};
      if (give_i) links_q[give_index_i] <= link;
    end
  end

  always_comb begin
    if (!first_q) begin
      // 1 and 2.
      assert (!valid || (height_q != '0 && index == stack_q[0]));
      assert (!full || height_q == '0);
      assert (height_q != '0 || full);
      // 3.
      for (int unsigned place = 0; place < Records; place++) begin
        if (place < 32'(height_q)) begin
          index_t below;
          below = free_next(stack_q[place], links_q[stack_q[place][2:0]]);
          assert (place + 1 < 32'(height_q) ? below == stack_q[place+1] : 32'(below) >= Records);
        end
      end

      // Conditions on registers for the induction: the stack holds each record once; the list's registers are its top; a current read is
      // of the deepest record there, unless it is lost.
      assert (32'(height_q) <= Records);
      for (int unsigned place = 0; place < Records; place++) begin
        if (place < 32'(height_q)) begin
          assert (32'(stack_q[place]) < Records);
          for (int unsigned other = 0; other < place; other++) assert (stack_q[other] != stack_q[place]);
        end
      end
      assert (u_list.count_q <= 3'd4 && u_list.count_q <= height_q);
      for (int unsigned place = 0; place < 4; place++) begin
        assert (u_list.next_q[place] == (place < 32'(u_list.count_q) ? stack_q[place] : None));
      end
      assert (u_list.end_q ? u_list.count_q == height_q : u_list.count_q != '0);
      assert (u_list.reading_q == (reads_q != '0) && reads_q != '1);
      assert (!u_list.lost_q || u_list.reading_q);
      if (u_list.reading_q && !u_list.lost_q) begin
        assert (!u_list.end_q && u_list.read_q == stack_q[u_list.count_q-1'b1]);
        assert ((reads_q[0] ? read_link_q[0] : read_link_q[1]) == links_q[u_list.read_q[2:0]]);
        assert (reads_q[0] || u_list.base_q == u_list.read_q + 1'b1);
      end
    end
  end

  // Reachability: the list becomes empty, then longer than its registers, and reads them again.
  logic empty_q, deep_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      empty_q <= 1'b0;
      deep_q  <= 1'b0;
    end else begin
      if (full) empty_q <= 1'b1;
      if (empty_q && 32'(height_q) == Records) deep_q <= 1'b1;
    end
  end
  always_comb cover (deep_q && height_q == 3'd1 && valid);

endmodule
