// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The wildcard patterns that entries have, in registers: entries of a pattern share chains (`Class` of crates/nic/src/tables.rs, but
// one set for all portal table entries). Entries with a further pattern have one chain a list, under ClassOther.
//
// A pattern is here as long as an entry has it. An entry counts from the cycle behind the acceptance of its append on.

module list_classes
  import lists_pkg::*;
  import pac_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    output logic     [Classes:0]   active_o,   // classes that entries have, ClassOther last
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

  logic [Classes-1:0] same, unused_class;
  always_comb begin
    for (int number = 0; number < int'(Classes); number++) begin
      same[number] = active_q[number] && pattern_q[number] == pattern_i;
      unused_class[number] = !active_q[number];
    end
    class_o = ClassOther;
    for (int number = int'(Classes) - 1; number >= 0; number--) if (unused_class[number]) class_o = class_t'(number);
    for (int number = 0; number < int'(Classes); number++) if (same[number]) class_o = class_t'(number);
  end

  for (genvar number = 0; number <= int'(Classes); number++) begin : gen_class
    logic in, out;
    assign in  = count_i && class_o == class_t'(number);
    assign out = discount_i && discount_class_i == class_t'(number);
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        entries_q[number] <= '0;
        active_q[number]  <= 1'b0;
      end else if (in && !out) begin
        entries_q[number] <= entries_q[number] + 1'b1;
        active_q[number]  <= 1'b1;
      end else if (out && !in) begin
        entries_q[number] <= entries_q[number] - 1'b1;
        active_q[number]  <= entries_q[number] != index_t'(1);
      end
    end
    if (number < int'(Classes)) begin : gen_pattern
      always_ff @(posedge clk_i) if (in) pattern_q[number] <= pattern_i;
    end
  end

endmodule
