// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Properties of the allocator (docs/design/rtl-lockstep.md, "Proofs"), for one arbitrary block, so for all. The path (`way`) of the block
// is the nodes that cover it, one of each order, and their buddies.
//
// 1. Partition: between commands exactly one node of the path is free or allocated, and all below it are 0. Two buddies are never both
//    free. Each other node has the size of its larger child.
// 2. The block is never given twice: between an allocation that has it and its free, no other allocation has it. The path has an
//    allocated node exactly as long.
// 3. Alloc is refused only if no free node of the path is large enough, and it takes no piece beyond a free node of the path that is
//    large enough.
// 4. Every command is answered, once, within LatencyMax cycles; there are no other answers.
// 5. A write belongs to an alloc or a free that has been answered without an error.
// 6. A node of order k has a size of at most k + 1, or it is allocated and its size is 0.
//
// The memory is ram_followed.sv: it keeps only the words on the path of the block; any other word is read as an arbitrary value that
// satisfies 6. This is sound, because 6 is proved of every write under the assumption that it holds of all earlier ones. In the same way
// 1 is assumed of the path of a command, as far as the command has read it: this is 1 of another block before the command; proved is 1 of
// any block after the command.

module allocator_proof
  import allocator_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Blocks       = 16,  // 16, 256 or 4,096
    parameter int unsigned UnrollLevels = 4
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        command_valid_i,
    input command_t    command_i,
    input logic [31:0] block_i,  // the block
    input node_t [Lanes-1:0] elsewhere_i  // contents of a word that is not on its path
);

  localparam int unsigned Orders = $clog2(Blocks);
  localparam int unsigned Rows = Orders / Levels;
  localparam int unsigned Groups = Orders / UnrollLevels;
  localparam int unsigned LatencyMax = Groups + Rows;

  logic command_ready, answer_valid;
  answer_t answer;
  trace_t trace;
  allocator #(
      .Blocks      (Blocks),
      .UnrollLevels(UnrollLevels),
      .Trace       (1'b0)
  ) u_allocator (
      .clk_i,
      .rst_ni,
      .command_valid_i,
      .command_ready_o(command_ready),
      .command_i,
      .answer_valid_o (answer_valid),
      .answer_o       (answer),
      .trace_o        (trace)
  );

  // Reset is in the first cycle. The block stays the same.
  logic first_q = 1'b1;
  logic [31:0] block_q;
  always_ff @(posedge clk_i) begin
    first_q <= 1'b0;
    block_q <= block_i;
  end
  always_comb begin
    assume (rst_ni == !first_q);
    assume (block_i < Blocks);
    if (!first_q) assume (block_i == block_q);
  end

  // Addresses of the words on the path; the last one is repeated if there are fewer than three.
  logic [2:0][15:0] followed_address;
  always_comb begin
    followed_address[0] = 16'(block_i >> Levels);
    followed_address[1] = 16'(16 ** (Rows - 1)) | 16'(block_i >> (2 * Levels));
    followed_address[2] = 16'(16 ** (Rows - 1) + 16 ** (Rows - 2));
    if (Rows == 1) followed_address[1] = followed_address[0];
    if (Rows <= 2) followed_address[2] = followed_address[1];
  end

  // ---- 6 ----

  function automatic logic node_ok(node_t node, int unsigned order);
    return node.allocated ? node.size == '0 : node.size <= size_t'(order + 1);
  endfunction

  // Whether the lanes that count are valid for a row.
  function automatic logic word_ok(node_t [Lanes-1:0] word, logic [Lanes-1:0] lanes, int unsigned row);
    logic all;
    all = 1'b1;
    for (int unsigned level = 0; level <= Levels; level++) begin
      for (int unsigned node = first_lane(level); node < first_lane(level + 1); node++) begin
        all &= !lanes[node] || node_ok(word[node], Levels * row + level);
      end
    end
    return all;
  endfunction

  function automatic logic in_row(logic [15:0] address, int unsigned row);
    int unsigned base;
    base = row == 0 ? 0 : row == 1 ? 16 ** (Rows - 1) : 16 ** (Rows - 1) + 16 ** (Rows - 2);
    return int'(address) >= base && int'(address) < base + 16 ** (Rows - 1 - row);
  endfunction

  always_comb begin
    for (int unsigned row = 0; row < Rows; row++) begin
      if (in_row(16'(u_allocator.u_nodes.address_q), row)) begin
        assume (word_ok(elsewhere_i, '1, row));
      end
      if (!first_q) assert (word_ok(u_allocator.u_nodes.followed_q[row], '1, row));
      if (!first_q && u_allocator.write && in_row(16'(u_allocator.write_address), row)) begin
        assert (word_ok(u_allocator.write_word, u_allocator.write_lanes, row));
      end
    end
  end

  // ---- 1 ----

  node_t [Rows-1:0][Lanes-1:0] words;
  node_t [Orders:0] own, unused_own;
  logic [Orders:0] free, allocated, sound, unused_free, unused_allocated, command_sound;
  assign words = u_allocator.u_nodes.followed_q[Rows-1:0];
  allocator_way #(
      .Orders(Orders)
  ) u_way (
      .words_i     (words),
      .block_i     (block_i[Orders-1:0]),
      .rows_below_i('0),
      .own_o       (own),
      .free_o      (free),
      .allocated_o (allocated),
      .sound_o     (sound)
  );

  // The words that the command has read; the last one is at the bank's output.
  node_t [Rows-1:0][Lanes-1:0] read_q, read;
  logic walking;
  assign walking = u_allocator.state_q == Walk;
  always_comb begin
    read = read_q;
    for (int unsigned row = 0; row < Rows; row++) if (walking && u_allocator.row == row) read[row] = u_allocator.word;
  end
  always_ff @(posedge clk_i) read_q <= read;
  allocator_way #(
      .Orders(Orders)
  ) u_command_way (
      .words_i     (read),
      .block_i     (u_allocator.way_d),
      .rows_below_i(u_allocator.is_alloc ? 2'(u_allocator.row) : 2'd0),
      .own_o       (unused_own),
      .free_o      (unused_free),
      .allocated_o (unused_allocated),
      .sound_o     (command_sound)
  );
  always_comb if (!first_q && answer_valid) assume (&command_sound);

  // ---- Commands ----

  logic pending_q, ok_q, owned_q;
  logic [7:0] age_q;
  command_t command_q;
  logic is_alloc, in_range, has_block;
  logic [31:0] size;  // of the piece
  assign is_alloc = command_q.operation == OpAlloc;
  assign in_range = is_alloc ? command_q.argument != '0 && command_q.argument <= Blocks : command_q.argument < Blocks;
  always_comb begin
    size = answer.value;
    if (is_alloc) begin
      size = Blocks;
      for (int order = int'(Orders); order >= 0; order--) begin
        if (command_q.argument <= 32'(1 << order)) size = 32'(1 << order);
      end
    end
  end
  logic [31:0] first_block;
  assign first_block = is_alloc ? answer.value : command_q.argument;
  assign has_block = block_i >= first_block && block_i - first_block < size;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      pending_q <= 1'b0;
      ok_q      <= 1'b0;
      owned_q   <= 1'b0;
      age_q     <= '0;
      command_q <= '0;
    end else begin
      age_q <= age_q + 1'b1;
      if (command_valid_i && command_ready) begin
        pending_q <= 1'b1;
        command_q <= command_i;
        age_q     <= 8'd1;
        ok_q      <= 1'b0;
      end else if (answer_valid) begin
        pending_q <= 1'b0;
        ok_q      <= answer.status == StatusOk && command_q.operation != OpSizeOf;
        if (answer.status == StatusOk && has_block) begin
          if (command_q.operation == OpAlloc) owned_q <= 1'b1;
          if (command_q.operation == OpFree) owned_q <= 1'b0;
        end
      end
    end
  end

  logic idle, starting;
  assign idle = u_allocator.state_q == Idle;
  assign starting = u_allocator.state_q == Start;
  always_comb begin
    if (!first_q) begin
      // 1.
      assert (!idle || &sound);
      // The start writes only the root. Further conditions on registers for the induction.
      assert (3'(u_allocator.state_q) <= 3'(Update));
      assert (u_allocator.u_nodes.cleared_q <= 2'd2 && (starting || u_allocator.u_nodes.ready_o));
      assert (!starting || (u_allocator.u_nodes.followed_q[Rows-1:0] == '0 && int'(u_allocator.group_q) < Rows));
      assert (!starting || (!owned_q && !pending_q));
      // 2.
      assert (!idle || owned_q == |allocated);
      // 4.
      assert (!answer_valid || (pending_q && answer.tag == command_q.tag && int'(age_q) <= LatencyMax));
      assert (!pending_q || int'(age_q) <= LatencyMax);
      assert (!idle || !pending_q);
      assert (idle || starting || int'(age_q) <= LatencyMax + Groups);
      // 5.
      assert (!u_allocator.write || starting || ok_q);
    end
    if (!first_q && answer_valid && answer.status == StatusOk) begin
      assert (in_range && command_q.operation <= OpSizeOf);
      assert (first_block + size <= Blocks && (first_block & (size - 1)) == '0 && size != '0);
      // 2.
      assert (!(is_alloc && has_block && owned_q));
      assert (!(!is_alloc && has_block && !owned_q));
      for (int unsigned order = 0; order <= Orders; order++) begin
        // 3.
        if (is_alloc && block_i < first_block && size <= 32'(1 << order)) assert (!free[order]);
        // The whole allocation is freed.
        if (!is_alloc && has_block) assert (allocated[order] == (size == 32'(1 << order)));
      end
    end
    if (!first_q && answer_valid && answer.status != StatusOk) begin
      assert (answer.value == '0);
      for (int unsigned order = 0; order <= Orders; order++) begin
        // 3.
        if (is_alloc && in_range && size <= 32'(1 << order)) assert (!free[order]);
        // Free is refused only if no allocation starts there.
        if (!is_alloc && command_q.operation != 2'd3 && block_i == command_q.argument &&
            (block_i & 32'((1 << order) - 1)) == '0) begin
          assert (!allocated[order]);
        end
      end
    end
  end

  // Reachability: the block is given, freed, and joined with all others.
  logic given_q, again_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      given_q <= 1'b0;
      again_q <= 1'b0;
    end else if (answer_valid && answer.status == StatusOk && has_block) begin
      if (is_alloc && size == 32'd1) given_q <= 1'b1;
      if (command_q.operation == OpFree && given_q) again_q <= 1'b1;
    end
  end
  always_comb begin
    cover (idle && again_q && free[Orders]);
    cover (idle && given_q && allocated[0] && own[1].size == '0);
  end

endmodule
