// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The path down a word of the tree, over UnrollLevels of its levels: the loop of `lowest_free` in crates/core/nic/src/buddy.rs, and of
// `allocated_order`. Combinational. allocator.sv checks the parameter.
//
// At each level the path goes to one of two buddies. Alloc takes the left one, unless only the right one has a large enough piece. Free
// knows the path. If neither buddy has such a piece, a node above them is free and covers both, so their nodes are 0. Alloc splits that
// node, so the buddy of the path becomes free.
//
// With one level, the comparison follows the selection of the pair. With more, all nodes are compared at once, so a level costs a 1-bit
// multiplexer.

module allocator_walk
  import allocator_pkg::*;
#(
    parameter int unsigned UnrollLevels = 4  // 1, 2 or 4
) (
    input node_t [Lanes-1:0] word_i,
    input logic [1:0] level_i,        // the lowest level of the group
    input logic [3:0] level_order_i,  // its order
    input logic [3:0] place_i,        // the known part of the path in this word, the highest level first

    input logic       alloc_i,
    input logic [3:0] order_i,  // requested by alloc

    output logic [3:0] place_o,
    output logic [UnrollLevels-1:0][3:0] buddy_o,     // sizes of the path's buddies after a split
    output logic [UnrollLevels-1:0]      allocated_o  // nodes of the path
);

  typedef node_t [1:0] pair_t;

  function automatic logic has(node_t node, logic [3:0] order);
    return !node.allocated && node.size[3:0] > order;
  endfunction

  // The pair of buddies on the path at each level.
  pair_t [7:0] pairs_0;
  pair_t [3:0] pairs_1;
  pair_t [1:0] pairs_2;
  pair_t       pair_3;
  assign {pair_3, pairs_2, pairs_1, pairs_0} = word_i[RootLane-1:0];

  logic [1:0][Lanes/2-1:0] unused;
  for (genvar lane = 0; lane < int'(Lanes); lane++) begin : gen_unused
    assign unused[lane%2][lane/2] = word_i[lane].size[SizeW-1] ^ (lane >= int'(RootLane) ? ^word_i[lane] : 1'b0);
  end
  logic unused_all;
  assign unused_all = ^unused;

  // The nodes with a large enough piece, in the same order.
  logic [7:0][1:0] has_0;
  logic [3:0][1:0] has_1;
  logic [1:0][1:0] has_2;
  logic [1:0]      has_3;
  logic [RootLane-1:0] has_all;
  always_comb begin
    for (int unsigned lane = 0; lane < RootLane; lane++) has_all[lane] = has(word_i[lane], order_i);
    {has_3, has_2, has_1, has_0} = has_all;
  end

  logic [1:0] level;
  logic [3:0] place;
  pair_t pair;
  logic [1:0] fits;
  logic right;
  always_comb begin
    place = place_i;
    buddy_o = '0;
    allocated_o = '0;
    for (int step = int'(UnrollLevels) - 1; step >= 0; step--) begin
      level = level_i + 2'(step);
      unique case (level)
        2'd0: begin
          pair = pairs_0[place[3:1]];
          fits = has_0[place[3:1]];
        end
        2'd1: begin
          pair = pairs_1[place[3:2]];
          fits = has_1[place[3:2]];
        end
        2'd2: begin
          pair = pairs_2[place[3]];
          fits = has_2[place[3]];
        end
        default: begin
          pair = pair_3;
          fits = has_3;
        end
      endcase
      if (UnrollLevels == 1) fits = {has(pair[1], order_i), has(pair[0], order_i)};
      right = alloc_i ? fits == 2'b10 : place[level];
      place[level] = right;
      allocated_o[step] = right ? pair[1].allocated : pair[0].allocated;
      // The bank holds size 0 for an allocated node.
`ifdef MUTANT_18
      if (right ? pair[0].allocated : pair[1].allocated) buddy_o[step] = level_order_i + 4'(step + 1);
      else
`endif
      buddy_o[step] = right ? pair[0].size[3:0] : pair[1].size[3:0];
      if (alloc_i && fits == 2'b00) buddy_o[step] = level_order_i + 4'(step + 1);
    end
    place_o = place;
  end

endmodule
