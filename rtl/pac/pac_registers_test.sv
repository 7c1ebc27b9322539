// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The engine's registers as software reads them (pac_registers_test.sh runs this). Prints "passed", or the fault.

module pac_registers_test;
  logic clk = 0, rst_n = 0;
  always #1 clk = ~clk;

  engine_pkg::counts_t counts = '0;
  logic request = 0, write = 0, stall, done, error;
  logic [22:0] address = 0;
  logic [63:0] data;
  pac_registers u_registers (
      .clk_i    (clk),
      .rst_ni   (rst_n),
      .counts_i (counts),
      .request_i(request),
      .write_i  (write),
      .address_i(address),
      .data_i   ('1),
      .mask_i   ('1),
      .stall_o  (stall),
      .done_o   (done),
      .error_o  (error),
      .data_o   (data)
  );

  int wrong = 0;
  // Reads a register, or writes to it; it must be done within 16 cycles.
  task automatic access(input logic [22:0] at, input logic writes, input logic [63:0] wanted);
    int cycles;
    @(negedge clk);
    request = 1;
    write   = writes;
    address = at;
    @(negedge clk);
    request = 0;
    for (cycles = 0; !done && cycles < 16; cycles++) @(negedge clk);
    if (!done || (!writes && data !== wanted)) begin
      $display("address %h: %0d after %0d cycles, wanted %0d", at, data, cycles, wanted);
      wrong++;
    end
  endtask

  initial begin
    repeat (4) @(negedge clk);
    rst_n = 1;
    // Each count as often as its place in the structure, bytes 100 and 7 a message.
    for (int round = 1; round <= 12; round++) begin
      @(negedge clk);
      counts.events                        = round <= 1;
      counts.events_overwritten            = round <= 2;
      counts.message.requests              = round <= 3;
      counts.message.matched_priority      = round <= 4;
      counts.message.matched_overflow      = round <= 5;
      counts.message.unexpected            = round <= 6;
      counts.message.truncated             = round <= 7;
      counts.message.dropped               = round <= 8;
      counts.message.permission_violations = round <= 9;
      counts.message.operation_violations  = round <= 10;
      counts.message.flow_control          = round <= 11;
      counts.message.refused_disabled      = round <= 12;
      counts.message.bytes_in              = round <= 2 ? 100 : 0;
      counts.message.bytes_out             = round <= 3 ? 7 : 0;
    end
    @(negedge clk);
    counts = '0;
    // docs/reference/registers.md, "Portals".
    access('h08, 0, 3);
    access('h10, 0, 4);
    access('h18, 0, 0);
    access('h20, 0, 200);
    access('h28, 0, 21);
    access('h30, 0, 5);
    access('h38, 0, 6);
    access('h40, 0, 7);
    access('h48, 0, 8);
    access('h50, 0, 9);
    access('h58, 0, 10);
    access('h60, 0, 0);
    access('h68, 0, 1);
    access('h70, 0, 2);
    access('h78, 0, 11);
    access('h80, 0, 12);
    access('h88, 0, 0);
    // Tables of units that do not exist.
    access('h200000, 0, 0);
    access('h600000, 0, 0);
    access('h400000, 1, 0);
    access('h08, 0, 3);
    if (wrong == 0) $display("passed");
    $finish;
  end
endmodule
