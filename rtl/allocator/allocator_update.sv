// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The path up a word of the tree, over UnrollLevels of its levels, from the allocated or released piece: `take`, `release` and
// `update_above` in crates/core/nic/src/buddy.rs. Combinational. Its inputs are the buddies kept on the path down, so it does not read
// the word. allocator.sv checks the parameter.
//
// At each level, from the order of the piece upwards:
// 1. If the node of the path and its buddy are both free, they merge into their parent: both become 0.
// 2. Else the node gets its size, and a free buddy, which a split has made, is written.
// 3. The parent's size is the larger of the two.
//
// Whether the path's node is free is a chain of one bit a level. The sizes are maxima of buddies. Buddies below a node that was free on
// the path do no harm, because its own size is at least as large. So the maxima do not wait for the chain. Sizes are masks with one bit
// for each size up to a node's, so the larger of two masks is their union.

module allocator_update
  import allocator_pkg::*;
#(
    parameter int unsigned UnrollLevels = 4  // 1, 2 or 4
) (
    input logic [1:0] level_i,        // the lowest level of the group
    input logic [3:0] level_order_i,  // its order
    input logic       highest_i,      // the group has the level below the root
    input logic [3:0] place_i,        // the path in this word

    input logic       release_i,  // else take
    input logic [3:0] order_i,    // of the piece
    input logic [3:0] size_i,     // size of the path's node at the lowest level, if it is above the piece and not free
    input logic       free_i,     // that node is free
    input logic [UnrollLevels-1:0][3:0] buddy_i,

    output logic [3:0] size_o,  // of the node above the group
    output logic       free_o,
    output logic  [Lanes-1:0] lanes_o,
    output node_t [Lanes-1:0] word_o
);

  // The writes at each level of the group.
  logic  [UnrollLevels-1:0] own_write, buddy_write;
  node_t [UnrollLevels-1:0] own, buddy;

  function automatic node_t piece(logic release_it, logic [3:0] order);
    return release_it ? '{allocated: 1'b0, size: size_t'(order) + 1'b1} : '{allocated: 1'b1, size: '0};
  endfunction

  typedef logic [SizeMax:1] mask_t;

  function automatic mask_t mask_of(logic [3:0] size);
    mask_t mask;
    for (int unsigned other = 1; other <= SizeMax; other++) mask[other] = size >= 4'(other);
    return mask;
  endfunction

  function automatic logic [3:0] size_of(mask_t mask);
    logic [3:0] size;
    size = '0;
    for (int unsigned other = 1; other <= SizeMax; other++) begin
      if (mask[other] && (other == SizeMax || !mask[other == SizeMax ? SizeMax : other + 1])) size |= 4'(other);
    end
    return size;
  endfunction

  logic [UnrollLevels-1:0][3:0] order;
  logic [UnrollLevels-1:0] is_piece, merge;
  logic [UnrollLevels:0] free;
  mask_t [UnrollLevels:0] mask;  // of the path's node, unless it is free
  always_comb begin
    free = '0;
    mask = '0;
    free[0] = free_i;
    mask[0] = mask_of(size_i);
    for (int step = 0; step < int'(UnrollLevels); step++) begin
      order[step] = level_order_i + 4'(step);
      is_piece[step] = order[step] == order_i;
      own_write[step] = order[step] >= order_i;
      if (is_piece[step]) free[step] = release_i;
      buddy_write[step] = own_write[step] && buddy_i[step] == order[step] + 1'b1;
      merge[step] = free[step] && buddy_write[step];
      free[step+1] = merge[step];
      mask[step+1] = mask[step];
      if (own_write[step]) mask[step+1] |= mask_of(buddy_i[step]);
      if (free[step] && !merge[step]) mask[step+1] |= mask_of(order[step] + 1'b1);
    end
    for (int step = 0; step < int'(UnrollLevels); step++) begin
      own[step] = '{allocated: 1'b0, size: free[step] ? size_t'(order[step] + 1'b1) : size_t'(size_of(mask[step]))};
      if (is_piece[step]) own[step] = piece(release_i, order[step]);
      buddy[step] = '{allocated: 1'b0, size: size_t'(order[step] + 1'b1)};
      if (merge[step]) begin
        own[step]   = '0;
        buddy[step] = '0;
      end
`ifdef MUTANT_19
      if (level_i == '0 && step == 0 && level_order_i != '0 && !is_piece[0]) own_write[0] = 1'b0;
`endif
    end
  end
  assign size_o = size_of(mask[UnrollLevels]);
  assign free_o = free[UnrollLevels];

  logic [3:0] root_order;
  node_t root;
  assign root_order = level_order_i + 4'(UnrollLevels);
  always_comb begin
    root = '{allocated: 1'b0, size: free_o ? size_t'(root_order + 1'b1) : size_t'(size_o)};
    if (root_order == order_i) root = piece(release_i, root_order);
  end

  logic [4:1] place_wide;
  assign place_wide = {1'b0, place_i[3:1]};

  // The lanes of the word: each level's data go to all of its nodes, its write bits to the pair on the path.
  for (genvar level = 0; level < int'(Levels); level++) begin : gen_level
    localparam int unsigned Step = level % UnrollLevels;
    localparam int unsigned First = first_lane(level);
    logic here;
    assign here = int'(level_i) == level - int'(Step);
    for (genvar node = 0; node < 16 >> level; node++) begin : gen_node
      logic on_pair, is_own;
      assign on_pair = here && (4 - level)'(node / 2) == place_wide[4:level+1];
      assign is_own  = place_i[level] == 1'(node % 2);
      assign lanes_o[First+node] = on_pair && (is_own ? own_write[Step] : buddy_write[Step]);
      assign word_o[First+node] = is_own ? own[Step] : buddy[Step];
    end
  end
  assign lanes_o[RootLane] = highest_i;
  assign word_o[RootLane] = root;
  assign lanes_o[Lanes-1] = 1'b0;
  assign word_o[Lanes-1] = '0;

endmodule
