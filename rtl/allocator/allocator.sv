// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The allocator of the 1 MB buffer: a buddy system over a tree in one bank of SRAM (seed 000, section 3.2.5). It gives the answers of
// crates/core/nic/src/buddy.rs to `alloc`, `free` and `size_of` for a fixed number of blocks. Alloc takes the lowest address at which the
// piece fits. Parameters out of range stop elaboration.
//
// The tree has nodes of 4 x Rows + 1 orders, in words of four (allocator_pkg.sv). Row r has the orders 4 r to 4 r + 3, and a sixteenth of
// the words of the row below it. If Blocks is no power of 16, the nodes above those of `nic` have the size of their left child. The path
// (`way`) of a block is the nodes that cover it.
//
// 1. Between commands the bank is equal to that of `nic`: its nodes depend only on the allocations.
// 2. A refused command writes nothing.
// 3. A command makes one read or one write a cycle, so the bank has one port.
//
// Cycles, for Groups = 4 x Rows / UnrollLevels: alloc goes down from the root, a group of levels a cycle, and waits a cycle for each
// further word; free and size_of go up, a group a cycle, without waiting. The path is written after the answer, a group a cycle, from the
// group of the piece upwards.
//
//   UnrollLevels, Rows = 3        1        2        4
//   alloc, order 8 to 12     2 to 5     2, 3        2
//   alloc, order 4 to 7      7 to 10    5, 6        4
//   alloc, order 0 to 3     12 to 15    8, 9        6
//   alloc, refused                2        2        2
//   free, size_of                13        7        4
//   writes behind it        1 to 12   1 to 6   1 to 3
//
// After reset: 2 x 16^(Rows - 1) cycles to clear the bank, then Rows cycles.
//
// Registers (Rows = 3): 48 bits for the sizes of the path's buddies, 12 for the path, 32 for the tag, 18 others.

module allocator
  import allocator_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Blocks       = 4096,  // 1 to 4,096; 4,096 blocks of 256 bytes are 1 MB
    parameter int unsigned UnrollLevels = 4,     // levels of the tree that one cycle decides: 1, 2, 4
    parameter bit          Trace        = 1'b1   // 1: `trace_o` shows writes
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic     command_valid_i,
    output logic     command_ready_o,
    input  command_t command_i,

    output logic    answer_valid_o,
    output answer_t answer_o,
    output trace_t  trace_o
);

  if (Blocks < 1 || Blocks > 4096) $error("allocator: Blocks is %0d, and may be 1 to 4,096", Blocks);
  if (UnrollLevels != 1 && UnrollLevels != 2 && UnrollLevels != 4)
    $error("allocator: UnrollLevels is %0d, and may be 1, 2 or 4", UnrollLevels);

  localparam int unsigned Rows = Blocks <= 16 ? 1 : Blocks <= 256 ? 2 : 3;
  localparam int unsigned Orders = Levels * Rows;  // the order of the root
  localparam int unsigned RowGroups = Levels / UnrollLevels;
  localparam int unsigned Groups = Rows * RowGroups;
  localparam int unsigned GroupW = Groups == 1 ? 1 : $clog2(Groups);
  localparam int unsigned Words = 2 * 16 ** (Rows - 1);
  localparam int unsigned AddressW = $clog2(Words);
  typedef logic [GroupW-1:0] group_t;
  typedef logic [AddressW-1:0] address_t;
  typedef logic [Orders-1:0] way_t;  // a block: bit k chooses between the buddies of order k
  localparam group_t Highest = group_t'(Groups - 1);

  // ---- The bank ----

  // The word of a row on the path to a block. The rows lie in sequence, the lowest first.
  function automatic address_t address_of(int unsigned row, way_t way);
    unique case (row)
      0: return address_t'(32'(way) >> Levels);
      1: return address_t'(16 ** (Rows - 1)) | address_t'(32'(way) >> (2 * Levels));
      default: return address_t'(16 ** (Rows - 1) + 16 ** (Rows - 2));
    endcase
  endfunction

  logic bank_ready, read, write;
  address_t read_address, write_address;
  logic [Lanes-1:0] write_lanes;
  node_t [Lanes-1:0] word, write_word;
  logic [WordW-1:0] old_word, new_word;  // for the trace

  ram #(
      .Words (Words),
      .Width (WordW),
      .LaneW (NodeW),
      .Ports (1),
      .Trace (Trace),
      .Bypass('0)
  ) u_nodes (
      .clk_i,
      .rst_ni,
      .ready_o        (bank_ready),
      .read_i         (read),
      .read_address_i (read_address),
      .read_data_o    (word),
      .write_i        (write),
      .write_address_i(write_address),
      .write_lanes_i  (write_lanes),
      .write_data_i   (write_word),
      .old_data_o     (old_word),
      .new_data_o     (new_word)
  );

  // The nonzero words of an empty allocator: in each row the word in which Blocks ends.
  function automatic int unsigned floor_log2(int unsigned value);
    int unsigned order;
    order = 0;
    for (int unsigned other = 1; other <= Orders; other++) if (value >> other != 0) order = other;
    return order;
  endfunction

  function automatic int unsigned size_at_start(int unsigned order, int unsigned index);
    int unsigned from;
    int unsigned parent_end;
    from = index << order;
    parent_end = ((index >> 1) + 1) << (order + 1);
    if (from >= Blocks) return 0;
    if (from + (1 << order) > Blocks) return floor_log2(Blocks - from) + 1;
    return parent_end <= Blocks && order < Orders ? 0 : order + 1;
  endfunction

  function automatic node_t [Lanes-1:0] word_at_start(int unsigned row);
    node_t [Lanes-1:0] nodes;
    int unsigned at;
    nodes = '0;
    at = row == Rows - 1 ? 0 : Blocks >> (Levels * (row + 1));
    for (int unsigned level = 0; level < Levels; level++) begin
      for (int unsigned node = 0; node < 16 >> level; node++) begin
        nodes[first_lane(level)+node].size = size_t'(size_at_start(Levels * row + level, at * (16 >> level) + node));
      end
    end
    if (row == Rows - 1) nodes[RootLane].size = size_t'(size_at_start(Orders, 0));
    return nodes;
  endfunction

  node_t [Rows-1:0][Lanes-1:0] at_start;
  for (genvar row = 0; row < int'(Rows); row++) begin : gen_at_start
    localparam node_t [Lanes-1:0] Word = word_at_start(row);
    assign at_start[row] = Word;
  end

  // ---- The command ----

  state_e state_q, state_d;
  group_t group_q, group_d;
  way_t way_q, way_d;
  logic [3:0] order_q, order_d;    // alloc: requested order; else: order of the allocation, if found
  logic found_q, found_d;          // free, size_of: an allocation starts at the block
  logic in_range_q, in_range_d;    // the argument is in range
  logic [3:0] size_q, size_d;      // of the node that the update has reached
  logic free_q, free_d;            // that node is free
  logic [Orders-1:0][3:0] buddy_q, buddy_d;  // sizes, by order
  logic [1:0] operation_q, operation_d;
  tag_t tag_q, tag_d;

  logic go, is_alloc;
  assign command_ready_o = state_q == Idle;
  assign go = command_valid_i && command_ready_o;
  assign is_alloc = operation_q == OpAlloc;

  function automatic logic [3:0] order_for(logic [Orders:0] blocks);
    logic [3:0] order;
    order = '0;
    for (int unsigned other = 0; other < Orders; other++) if (blocks > (Orders + 1)'(1 << other)) order = 4'(other + 1);
    return order;
  endfunction

  function automatic group_t group_of(logic [3:0] order);
    return int'(order) >= int'(Orders) ? Highest : group_t'(order / 4'(UnrollLevels));
  endfunction

  // ---- A group of levels ----

  int unsigned row;
  logic [1:0] level;
  logic [3:0] level_order, place;
  assign row = int'(group_q) / RowGroups;
  assign level_order = 4'(int'(group_q) * UnrollLevels);
  assign level = level_order[1:0];
  assign place = 4'(way_q >> (Levels * row));

  logic [3:0] place_walked;
  logic [UnrollLevels-1:0][3:0] buddies_walked;
  logic [UnrollLevels-1:0] allocated;
  allocator_walk #(
      .UnrollLevels(UnrollLevels)
  ) u_walk (
      .word_i       (word),
      .level_i      (level),
      .level_order_i(level_order),
      .place_i      (place),
      .alloc_i      (is_alloc),
      .order_i      (order_q),
      .place_o      (place_walked),
      .buddy_o      (buddies_walked),
      .allocated_o  (allocated)
  );

  logic [3:0] size_updated;
  logic free_updated;
  logic [Lanes-1:0] update_lanes;
  node_t [Lanes-1:0] update_word;
  logic [UnrollLevels-1:0][3:0] buddies;
  assign buddies = buddy_q[level_order+:UnrollLevels];
  allocator_update #(
      .UnrollLevels(UnrollLevels)
  ) u_update (
      .level_i      (level),
      .level_order_i(level_order),
      .highest_i    (group_q == Highest),
      .place_i      (place),
      .release_i    (!is_alloc),
      .order_i      (order_q),
      .size_i       (size_q),
      .free_i       (free_q),
      .buddy_i      (buddies),
      .size_o       (size_updated),
      .free_o       (free_updated),
      .lanes_o      (update_lanes),
      .word_o       (update_word)
  );

  node_t root;
  assign root = word[RootLane];

  // Whether an allocation of this order may start at the block.
  logic [Orders:0] aligned;
  for (genvar order = 0; order <= int'(Orders); order++) begin : gen_aligned
    assign aligned[order] = (way_q & way_t'((1 << order) - 1)) == '0;
  end
  // The order of the allocation that starts there, as one bit, if the group has it. At most one node of a path is allocated.
  logic [UnrollLevels-1:0] starts;
  logic [Orders:0] blocks;
  assign starts = in_range_q ? allocated & UnrollLevels'(aligned >> level_order) : '0;
  assign blocks[Orders-1:0] = way_t'(starts) << level_order;
  assign blocks[Orders] = in_range_q && group_q == Highest && root.allocated && aligned[Orders];

  logic answer;
  always_comb begin
    state_d     = state_q;
    group_d     = group_q;
    way_d       = way_q;
    order_d     = order_q;
    found_d     = found_q;
    in_range_d  = in_range_q;
    size_d      = size_q;
    free_d      = free_q;
    buddy_d     = buddy_q;
    operation_d = operation_q;
    tag_d       = tag_q;
    read          = 1'b0;
    read_address  = '0;
    write         = 1'b0;
    write_lanes   = update_lanes;
    write_word    = update_word;
    write_address = address_of(row, way_q);
    answer = 1'b0;

    unique case (state_q)
      // A group counts as a row here.
      Start: begin
        write_lanes   = '1;
        write_address = '0;
        write_word    = '0;
        for (int unsigned other = 0; other < Rows; other++) begin
          if (int'(group_q) == other) begin
            write_address = address_of(other, other == Rows - 1 ? '0 : way_t'(Blocks));
            write_word    = at_start[other];
          end
        end
        write = bank_ready && write_word != '0;
        if (bank_ready) begin
          group_d = group_q + 1'b1;
          if (int'(group_q) == Rows - 1) state_d = Idle;
        end
      end

      Idle: if (go) begin
        operation_d = command_i.operation;
        tag_d       = command_i.tag;
        found_d     = 1'b0;
        order_d     = '0;
        size_d      = '0;
        free_d      = 1'b0;
        if (command_i.operation == OpAlloc) begin
          group_d      = Highest;
          way_d        = '0;
          order_d      = order_for(command_i.argument[Orders:0]);
          in_range_d   = command_i.argument != '0 && command_i.argument <= Blocks;
          read_address = address_of(Rows - 1, '0);
        end else begin
          group_d      = '0;
          way_d        = command_i.argument[Orders-1:0];
          in_range_d   = command_i.argument < Blocks;
          read_address = address_of(0, way_d);
        end
        read    = 1'b1;
        state_d = Wait;
      end

      Wait: begin
        if (!is_alloc && RowGroups == 1 && Rows > 1) begin
          read         = 1'b1;
          read_address = address_of(1, way_q);
        end
        state_d = Walk;
      end

      Walk: begin
        buddy_d[level_order+:UnrollLevels] = buddies_walked;
        if (is_alloc) begin
          for (int unsigned other = 0; other < Rows; other++) begin
            if (row == other) way_d[Levels*other+:Levels] = place_walked;
          end
          if (group_q == Highest && (!in_range_q || root.allocated || root.size[3:0] <= order_q)) begin
            answer  = 1'b1;
            state_d = Idle;
          end else if (group_q == group_of(order_q)) begin
            answer  = 1'b1;
            found_d = 1'b1;
            state_d = Update;
          end else begin
            group_d = group_q - 1'b1;
            if (level == '0) begin
              read         = 1'b1;
              read_address = address_of(row - 1, way_d);
              state_d      = Wait;
            end
          end
        end else begin
          found_d = found_q || blocks != '0;
          for (int unsigned order = 0; order <= Orders; order++) if (blocks[order]) order_d |= 4'(order);
          group_d = group_q + 1'b1;
          // The word that is read here is used in two cycles.
          for (int unsigned other = 1; other < Rows; other++) begin
            if (int'(group_q) + 2 == other * RowGroups) begin
              read         = 1'b1;
              read_address = address_of(other, way_q);
            end
          end
          if (group_q == Highest) begin
            answer  = 1'b1;
            group_d = group_of(order_d);
            state_d = found_d && operation_q == OpFree ? Update : Idle;
          end
        end
      end

      Update: begin
        write   = 1'b1;
        size_d  = size_updated;
        free_d  = free_updated;
        group_d = group_q + 1'b1;
        if (group_q == Highest) state_d = Idle;
      end

      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q     <= Start;
      group_q     <= '0;
      way_q       <= '0;
      order_q     <= '0;
      found_q     <= 1'b0;
      in_range_q  <= 1'b0;
      size_q      <= '0;
      free_q      <= 1'b0;
      buddy_q     <= '0;
      operation_q <= '0;
      tag_q       <= '0;
    end else begin
      state_q     <= state_d;
      group_q     <= group_d;
      way_q       <= way_d;
      order_q     <= order_d;
      found_q     <= found_d;
      in_range_q  <= in_range_d;
      size_q      <= size_d;
      free_q      <= free_d;
      buddy_q     <= buddy_d;
      operation_q <= operation_d;
      tag_q       <= tag_d;
    end
  end

  // ---- The answer ----

  assign answer_valid_o = answer;
  always_comb begin
    answer_o = '{tag: tag_q, status: StatusOk, value: '0};
    if (operation_q == 2'd3) answer_o.status = StatusBadCommand;
    else if (!found_d) answer_o.status = is_alloc ? StatusNoMemory : StatusNotAllocated;
    else if (is_alloc) answer_o.value = 32'(way_d);
    else answer_o.value = 32'(blocks) | (found_q ? 32'd1 << order_q : '0);
  end

  // ---- The trace ----

  if (Trace) begin : gen_trace
    always_comb begin
      trace_o = '0;
      if (write) begin
        trace_o.write[0] = '{
            valid: 1'b1,
            bank: '0,
            address: index_t'(write_address),
            tag: tag_q,
            old_known: 1'b1,
            old_word: old_word,
            new_word: new_word
        };
      end
      if (state_q != Start && state_q != Idle && state_d == Idle) begin
        trace_o.retire_valid = 1'b1;
        trace_o.retire_tag   = tag_q;
      end
    end
  end else begin : gen_no_trace
    logic unused;
    assign unused  = ^{old_word, new_word};
    assign trace_o = '0;
  end

endmodule
