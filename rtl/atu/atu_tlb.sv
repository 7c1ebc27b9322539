// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The TLB, direct mapped: `tlb.rs` with one way. The low bits of a page are its address. atu.sv checks the parameters.
//
// 1. A read has its word at the output two cycles later, with all writes of earlier cycles than its own.
// 2. A word is all 0, or the valid entry of a page.
// 3. With one port a cycle takes a read or a write.

module atu_tlb
  import atu_pkg::*;
#(
    parameter int unsigned TlbEntries = 1024,  // a power of two, 2 to 65,536
    parameter int unsigned Ports      = 1,     // 1: one port for both; 2: a cycle takes a read and a write
    parameter bit          Trace      = 0
) (
    input  logic clk_i,
    input  logic rst_ni,
    output logic ready_o,

    input  logic  read_i,
    input  page_t read_page_i,
    output tlb_t  word_o,       // its page without the low bits

    input logic   write_i,
    input page_t  write_page_i,
    input entry_t write_entry_i,  // 0 clears the word

    output tlb_t old_o,
    output tlb_t new_o
);

  localparam int unsigned AddressW = $clog2(TlbEntries);
  localparam int unsigned EntryBits = $bits(entry_t);
  localparam int unsigned HighW = PageW - AddressW;
  localparam int unsigned Width = HighW + EntryBits;

  logic [Width-1:0] data, written, old_word, new_word;
  assign written = write_entry_i == '0 ? '0 : {write_page_i[PageW-1:AddressW], write_entry_i};
  assign word_o  = '{page: {data[Width-1-:HighW], AddressW'(0)}, entry: data[EntryBits-1:0]};

  bank #(
      .Words (TlbEntries),
      .Width (Width),
      .LaneW (Width),
      .Ports (Ports),
      .Trace (Trace),
`ifdef MUTANT_38
      .Bypass(1'b0)
`else
      .Bypass(1'b1)
`endif
  ) u_bank (
      .clk_i,
      .rst_ni,
      .ready_o,
      .read_i,
      .read_address_i (read_page_i[AddressW-1:0]),
      .read_data_o    (data),
      .write_i,
      .write_address_i(write_page_i[AddressW-1:0]),
      .write_lanes_i  (1'b1),
      .write_data_i   (written),
      .old_o          (old_word),
      .new_o          (new_word)
  );

  function automatic tlb_t whole(logic [Width-1:0] word);
    return word == '0 ? '0 : '{page: {word[Width-1-:HighW], write_page_i[AddressW-1:0]}, entry: word[EntryBits-1:0]};
  endfunction
  assign old_o = Trace ? whole(old_word) : '0;
  assign new_o = Trace ? whole(new_word) : '0;

  logic unused;
  assign unused = ^{read_page_i, old_word, new_word};

endmodule
