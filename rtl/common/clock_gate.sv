// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Stops a clock while nothing needs it. Synthesis replaces it by the library's cell. It samples the enable while the clock is low, so
// pulses are whole.

module clock_gate (
    input  logic clk_i,
    input  logic enable_i,
    output logic clk_o
);

  logic enable;
  /* verilator lint_off LATCH */
  always_latch begin
    if (!clk_i) enable = enable_i;
  end
  /* verilator lint_on LATCH */
  assign clk_o = clk_i & enable;

endmodule
