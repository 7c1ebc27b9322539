// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Memory descriptors: `bind` and `release` of crates/core/nic/src/portals/descriptors.rs (seed 000, sections 4.3.1 and 5.4.1). Parameters
// out of range stop elaboration.
//
// 1. Bind takes 1 cycle by free list, n + 2 by scan, where n is the index. Release and Get take 2. One Get is accepted each cycle; the
//    other commands have the pipeline alone.
// 2. A bind whose values do not fit into the words, or that names an I/O vector, is refused with TooWide, before any other check.
//
// Cycles of Release and Get: 0 M0, M1 R. 1 words into the registers of the banks. 2 generation; M0, M1 W; answer. Bind by free list: 0
// M0, M1 W. 1 answer. By scan: M0, M1 W with the answer; only then a bind needs registers.

module descriptors
  import pac_pkg::*;
  import records_pkg::*;
  import descriptors_pkg::*;
#(
    parameter int unsigned Descriptors = 256,   // 2 to 4,096
    parameter bit          Scan        = 1'b0,  // 1: a scan finds free descriptors
    parameter int unsigned Ports       = 2,     // of the banks: 2 (two read and two write ports), 1 (one port for both)
    parameter bit          Trace       = 1      // 1: `trace_o` shows writes
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic     command_valid_i,
    output logic     command_ready_o,
    input  command_t command_i,

    output logic    answer_valid_o,
    output answer_t answer_o,

    output trace_t trace_o
);

  if (Descriptors < 2 || Descriptors > 4096) $error("descriptors: Descriptors is %0d, and may be 2 to 4,096", Descriptors);
  if (Ports != 1 && Ports != 2) $error("descriptors: Ports is %0d, and may be 1 or 2", Ports);

  localparam int unsigned AddressW = $clog2(Descriptors);
  typedef logic [AddressW-1:0] address_t;

  // A command in the pipeline, and for a bind the known part of its answer.
  typedef struct packed {
    tag_t       tag;
    operation_e operation;
    reference_t descriptor;
    status_e    status;
  } held_t;
  held_t first_q, second_q;
  logic first_valid_q, second_valid_q;

  logic m0_ready, m1_ready, ready, accept, accept_bind, empty, binding, bound, taken, too_wide;
  logic slot_valid, slot_full;
  index_t slot_index, slot_link, slot_address;
  generation_t slot_generation;
  assign ready       = m0_ready && m1_ready;
  assign empty       = !first_valid_q && !second_valid_q;
  assign binding     = first_valid_q && first_q.operation == Bind;
  assign accept      = command_valid_i && command_ready_o;
  assign accept_bind = accept && command_i.operation == Bind;
  assign too_wide    = command_i.length[63:32] != '0 || command_i.options[31:17] != '0 ||
                       (command_i.options[16:0] & IoVector) != '0;
  always_comb begin
    command_ready_o = ready;
    if (command_i.operation == Get) begin
      if ((first_valid_q && first_q.operation != Get) || (second_valid_q && second_q.operation != Get)) command_ready_o = 1'b0;
    end else begin
      if (!empty || (command_i.operation == Bind && !Scan && !slot_valid && !slot_full)) command_ready_o = 1'b0;
    end
  end

  m0_t bind0, command0;
  m1_t bind1, command1;
  held_t answer_first;
  assign command0 = '{status: Live, generation: '0, length: command_i.length[31:0], start: command_i.start};
  assign command1 = '{spare: '0, options: command_i.options[16:0], counter: command_i.counter, events: command_i.events, link: '0};
  if (Scan) begin : gen_scan
    m0_t bind0_q;
    m1_t bind1_q;
    always_ff @(posedge clk_i) begin
      if (accept_bind) begin
        bind0_q <= command0;
        bind1_q <= command1;
      end
    end
    assign bind0 = bind0_q;
    assign bind1 = bind1_q;
    assign taken = binding && slot_valid && first_q.status != TooWide;
    assign bound = binding && (slot_valid || slot_full || first_q.status == TooWide);
    always_comb begin
      answer_first            = first_q;
      answer_first.descriptor = reference_to(slot_index, slot_generation, Descriptors);
      if (first_q.status != TooWide) answer_first.status = slot_valid ? Ok : Full;
    end
  end else begin : gen_list
    assign bind0 = command0;
    assign bind1 = command1;
    assign taken = accept_bind && slot_valid && !too_wide;
    assign bound = binding;
    assign answer_first = first_q;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_valid_q  <= 1'b0;
      second_valid_q <= 1'b0;
    end else begin
      first_valid_q  <= accept || (binding && !bound);
      second_valid_q <= first_valid_q && !binding;
    end
  end
  always_ff @(posedge clk_i) begin
    if (accept) begin
      first_q <= '{
          tag: command_i.tag,
          operation: command_i.operation,
          descriptor: accept_bind ? reference_to(slot_index, slot_generation, Descriptors) : command_i.descriptor,
          status: too_wide ? TooWide : slot_valid ? Ok : Full
      };
    end
    if (first_valid_q && !binding) second_q <= first_q;
  end

  m0_t m0;
  m1_t m1;
  logic live, release_it;
  generation_t freed_generation;
  assign live = index_of(second_q.descriptor, Descriptors) < index_t'(Descriptors) && m0.status == Live &&
                m0.generation == generation_of(second_q.descriptor, Descriptors);
  assign release_it = second_valid_q && second_q.operation == Release && live;
  assign freed_generation = next_generation(m0.generation, Descriptors);

  logic slot_read, slot_grant, read, m_read;
  address_t read_address;
  // A refill must not disturb the words of a command, so it is not granted beside one.
  assign read         = accept && command_i.operation != Bind;
  assign slot_grant   = ready && !read && (!first_valid_q || binding) && (Ports == 2 || !release_it);
  assign m_read       = read || (slot_read && slot_grant);
  assign read_address = read ? address_t'(index_of(command_i.descriptor, Descriptors)) : address_t'(slot_address);

  slots #(
      .Records(Descriptors),
      .Scan   (Scan)
  ) u_slots (
      .clk_i,
      .rst_ni,
      .request_i        (accept_bind && !too_wide),
      .valid_o          (slot_valid),
      .full_o           (slot_full),
      .index_o          (slot_index),
      .generation_o     (slot_generation),
      .take_i           (taken),
      .give_i           (release_it),
      .give_index_i     (index_of(second_q.descriptor, Descriptors)),
      .give_generation_i(freed_generation),
      .link_o           (slot_link),
      .read_o           (slot_read),
      .read_address_o   (slot_address),
      .read_grant_i     (slot_grant),
      .status_i         (m0.status),
      .generation_i     (m0.generation),
      .link_i           (m1.link)
  );

  logic write;
  address_t write_address;
  logic [7:0] m0_lanes, m1_lanes;
  m0_t m0_data;
  m1_t m1_data;
  always_comb begin
    write              = taken || release_it;
    write_address      = taken ? address_t'(slot_index) : address_t'(index_of(second_q.descriptor, Descriptors));
    m0_lanes           = taken ? '1 : LanesSlot;
    m0_data            = bind0;
    m0_data.generation = slot_generation;
    m1_lanes           = taken ? '1 : LanesLink;
    m1_data            = bind1;
    if (!taken) begin
      m0_data.status     = Free;
      m0_data.generation = freed_generation;
      m1_data.link       = slot_link;
    end
  end

  always_comb begin
    answer_valid_o = bound || second_valid_q;
    answer_o = '{
        tag: bound ? answer_first.tag : second_q.tag,
        status: bound ? answer_first.status : live ? Ok : Invalid,
        descriptor: answer_first.descriptor,
        start: m0.start,
        length: m0.length,
        options: m1.options,
        events: m1.events,
        counter: m1.counter
    };
  end

  logic [127:0] m0_old, m0_new, m1_old, m1_new;
  bank #(
      .Words(Descriptors),
      .Width($bits(m0_t)),
      .Ports(Ports),
      .Trace(Trace)
  ) u_m0 (
      .clk_i,
      .rst_ni,
      .ready_o        (m0_ready),
      .read_i         (m_read),
      .read_address_i (read_address),
      .read_data_o    (m0),
      .write_i        (write),
      .write_address_i(write_address),
      .write_lanes_i  (m0_lanes),
      .write_data_i   (m0_data),
      .old_o          (m0_old),
      .new_o          (m0_new)
  );
  bank #(
      .Words(Descriptors),
      .Width($bits(m1_t)),
      .Ports(Ports),
      .Trace(Trace)
  ) u_m1 (
      .clk_i,
      .rst_ni,
      .ready_o        (m1_ready),
      .read_i         (m_read),
      .read_address_i (read_address),
      .read_data_o    (m1),
      .write_i        (write),
      .write_address_i(write_address),
      .write_lanes_i  (m1_lanes),
      .write_data_i   (m1_data),
      .old_o          (m1_old),
      .new_o          (m1_new)
  );

  tag_t write_tag;
  assign write_tag = !taken ? second_q.tag : Scan ? first_q.tag : command_i.tag;
  always_comb begin
    trace_o = '0;
    if (Trace && answer_valid_o) begin
      trace_o.retire_valid = 1'b1;
      trace_o.retire_tag   = answer_o.tag;
    end
    if (Trace && write) begin
      trace_o.write[0] = '{valid: 1'b1, bank: 4'd0, address: index_t'(write_address), tag: write_tag, old_known: 1'b1,
                           old_word: m0_old, new_word: m0_new};
      trace_o.write[1] = '{valid: 1'b1, bank: 4'd1, address: index_t'(write_address), tag: write_tag, old_known: 1'b1,
                           old_word: m1_old, new_word: m1_new};
    end
  end

  logic unused;
  assign unused = ^{slot_address, m1.spare, answer_first, second_q, write_tag, m0_old, m0_new, m1_old, m1_new};

endmodule
