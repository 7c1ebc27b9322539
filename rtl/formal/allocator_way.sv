// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The nodes that cover a block, one of each order, and their buddies; and whether they are valid (allocator_proof.sv, property 1).

module allocator_way
  import allocator_pkg::*;
#(
    parameter int unsigned Orders = 4  // a multiple of 4
) (
    input node_t [Orders/Levels-1:0][Lanes-1:0] words_i,  // a row's word each
    input logic  [Orders-1:0] block_i,
    input logic  [1:0] rows_below_i,                      // number of the lowest rows to ignore

    output node_t [Orders:0]   own_o,
    output logic  [Orders:0]   free_o,
    output logic  [Orders:0]   allocated_o,
    output logic  [Orders:0]   sound_o
);

  node_t [Orders-1:0] buddy;
  assign own_o[Orders] = words_i[Orders/Levels-1][RootLane];
  for (genvar order = 0; order < int'(Orders); order++) begin : gen_way
    localparam int unsigned Level = order % Levels;
    node_t [Lanes-1:0] word;
    logic [3:0] place;
    assign word = words_i[order/Levels];
    assign place = block_i[order/Levels*Levels+:Levels] >> Level;
    assign own_o[order] = word[5'(first_lane(Level))+5'(place)];
    assign buddy[order] = word[5'(first_lane(Level))+5'(place^4'd1)];
  end

  function automatic logic is_free(node_t node, int unsigned order);
    return !node.allocated && node.size == size_t'(order + 1);
  endfunction

  function automatic logic node_ok(node_t node, int unsigned order);
    return node.allocated ? node.size == '0 : node.size <= size_t'(order + 1);
  endfunction

  logic [Orders:0] covered;
  int unsigned lowest;
  always_comb begin
    lowest  = Levels * int'(rows_below_i);
    covered = '0;
    sound_o = '1;
    for (int unsigned order = 0; order <= Orders; order++) begin
      free_o[order] = is_free(own_o[order], order);
      allocated_o[order] = own_o[order].allocated;
    end
    for (int order = int'(Orders) - 1; order >= 0; order--) begin
      covered[order] = covered[order+1] || free_o[order+1] || allocated_o[order+1];
    end
    for (int unsigned order = 0; order <= Orders; order++) begin
      if (order >= lowest) begin
        sound_o[order] = node_ok(own_o[order], order);
        if (order < Orders) sound_o[order] &= node_ok(buddy[order], order);
        if (covered[order]) begin
          sound_o[order] &= own_o[order] == '0;
          if (order < Orders) sound_o[order] &= buddy[order] == '0;
        end else if (order == 0) begin
          sound_o[0] &= free_o[0] || allocated_o[0];
        end else if (order > lowest && !free_o[order] && !allocated_o[order]) begin
          sound_o[order] &= !(free_o[order-1] && is_free(buddy[order-1], order - 1));
          sound_o[order] &= own_o[order].size ==
              (own_o[order-1].size > buddy[order-1].size ? own_o[order-1].size : buddy[order-1].size);
        end
      end
    end
  end

endmodule
