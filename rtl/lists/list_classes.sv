// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The wildcard patterns of entries, in registers: entries of a pattern share chains (`Class` of crates/core/nic/src/tables.rs, but one
// set for all portal table entries). Entries with a further pattern have one chain a list, under ClassOther.
//
// A pattern stays as long as an entry has it, and a cycle longer. An entry counts from the cycle after the start of its append on.

module list_classes
  import lists_pkg::*;
  import pac_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    output logic     [Classes:0]   active_o,   // classes of entries, ClassOther last
    output logic     [Classes:0]   next_active_o,  // the same in the next cycle
    output pattern_t [Classes-1:0] pattern_o,

    // The class of a pattern: the one that has it, a free one, or ClassOther. `count_i` counts an entry in.
    input  pattern_t pattern_i,
    output class_t   class_o,
    input  logic     count_i,

    input logic   discount_i,
    input class_t discount_class_i
);

  pattern_t [Classes-1:0] pattern_q;
  index_t   [Classes:0]   entries_q;
  logic     [Classes:0]   active_q;  // entries_q is not 0
  assign pattern_o = pattern_q;
  assign active_o  = active_q;

  // One bit a class: the class of the pattern; and the counts in and out.
  logic [Classes-1:0] same, unused_class;
  logic discount_q;
  class_t discount_class_q;
  logic [Classes:0] chosen, unused_first, in, in_q, out, last, active_d;
  assign next_active_o = active_d;
  always_comb begin
    for (int number = 0; number < int'(Classes); number++) begin
      same[number] = active_q[number] && pattern_q[number] == pattern_i;
      unused_class[number] = !active_q[number];
    end
    unused_first = lowest({1'b1, unused_class});
    chosen = same != '0 ? {1'b0, same} : unused_first;
    class_o = '0;
    for (int number = 0; number <= int'(Classes); number++) if (chosen[number]) class_o |= class_t'(number);
    for (int number = 0; number <= int'(Classes); number++) begin
      in[number]  = count_i && chosen[number];
      out[number] = discount_q && discount_class_q == class_t'(number);
      last[number] = entries_q[number] == (in_q[number] ? '0 : index_t'(1));
      active_d[number] = in[number] || (active_q[number] && !(out[number] && last[number]));
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      active_q   <= '0;
      in_q       <= '0;
      discount_q <= 1'b0;
    end else begin
      active_q   <= active_d;
      in_q       <= in;
      discount_q <= discount_i;
    end
  end
  always_ff @(posedge clk_i) discount_class_q <= discount_class_i;

  for (genvar number = 0; number <= int'(Classes); number++) begin : gen_class
    // A counted-in entry is in the sum a cycle later.
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) entries_q[number] <= '0;
      else if (in_q[number] && !out[number]) entries_q[number] <= entries_q[number] + 1'b1;
      else if (out[number] && !in_q[number]) entries_q[number] <= entries_q[number] - 1'b1;
    end
    if (number < int'(Classes)) begin : gen_pattern
      // The first free class takes the pattern, even if another class has it too: the contents of a free class do not matter.
      always_ff @(posedge clk_i) if (count_i && unused_first[number]) pattern_q[number] <= pattern_i;
    end
  end

endmodule
