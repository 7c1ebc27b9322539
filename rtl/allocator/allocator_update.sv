// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The way up a word of the tree, over UnrollLevels of its levels, from the piece that is taken or released: `take`, `release` and
// `update_above` in crates/nic/src/buddy.rs. Combinational; made of what the way down has kept of the buddies, so that it does
// not read the word.
//
// At each level, from the order of the piece upwards:
// 1. If the node of the way and its buddy are both free, they become their parent: both are 0.
// 2. Else the node gets its size, and the buddy is written if it is free, because a split has made it so.
// 3. The parent's size is the larger of the two.

module allocator_update
  import allocator_pkg::*;
#(
    parameter int unsigned UnrollLevels = 4  // 1, 2 or 4
) (
    input logic [1:0] level_i,        // the lowest level of the group
    input logic [3:0] level_order_i,  // its order
    input logic       highest_i,      // the group has the level below the root
    input logic [3:0] place_i,        // the way in this word

    input logic       release_i,  // else take
    input logic [3:0] order_i,    // of the piece
    input logic [3:0] size_i,     // of the way's node at the lowest level, if it is above the piece
    input logic [UnrollLevels-1:0][3:0] buddy_i,

    output logic [3:0] size_o,  // of the node above the group
    output logic  [Lanes-1:0] lanes_o,
    output node_t [Lanes-1:0] word_o
);

  // What is written at each level of the group.
  logic  [UnrollLevels-1:0] own_write, buddy_write;
  node_t [UnrollLevels-1:0] own, buddy;

  function automatic node_t piece(logic release_it, logic [3:0] order);
    return release_it ? '{allocated: 1'b0, size: size_t'(order) + 1'b1} : '{allocated: 1'b1, size: '0};
  endfunction

  logic [3:0] order, size;
  logic is_piece, buddy_free, merge;
  node_t root;
  always_comb begin
    size = size_i;
    for (int step = 0; step < int'(UnrollLevels); step++) begin
      order = level_order_i + 4'(step);
      is_piece = order == order_i;
      if (is_piece) size = release_i ? order + 1'b1 : '0;
      buddy_free = buddy_i[step] == order + 1'b1;
      merge = buddy_free && size == order + 1'b1;

      own_write[step]   = order >= order_i;
      buddy_write[step] = order >= order_i && buddy_free;
      own[step] = is_piece ? piece(release_i, order) : '{allocated: 1'b0, size: size_t'(size)};
      buddy[step] = '{allocated: 1'b0, size: size_t'(buddy_i[step])};
      if (merge) begin
        own[step]   = '0;
        buddy[step] = '0;
      end
`ifdef MUTANT_19
      if (level_i == '0 && step == 0 && level_order_i != '0 && !is_piece) own_write[step] = 1'b0;
`endif

      if (merge) size = order + 4'd2;
      else if (buddy_i[step] > size) size = buddy_i[step];
    end
    size_o = size;
    order  = level_order_i + 4'(UnrollLevels);
    root   = order == order_i ? piece(release_i, order) : '{allocated: 1'b0, size: size_t'(size)};
  end

  logic [4:1] place_wide;
  assign place_wide = {1'b0, place_i[3:1]};

  // The lanes of the word: each level's data go to all of its nodes, its write bits to the pair on the way.
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
