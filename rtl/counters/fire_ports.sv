// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The three ports at which fired operations leave: gets, puts, and all kinds that this unit does not execute (fire_port.sv).
//
// The operation in the registers after T0, T1 and T2 loads a port, is appended to its list, or leaves it.

module fire_ports
  import counters_pkg::*;
#(
    parameter int unsigned AddressW = 7  // bits of an index of a record, at least 1
) (
    input logic clk_i,
    input logic rst_ni,

    input t0_t               t0_i,
    input t1_t               t1_i,
    input t2_t               t2_i,
    input logic [AddressW-1:0] index_i,  // its record

    output logic              free_o,     // its port accepts it at once
    output logic              waiting_o,  // its port's list is not empty
    output logic [AddressW-1:0] tail_o,     // the last operation of the list
    input  logic              load_i,
    input  logic              append_i,
    input  logic              advance_i,  // it is the head of the list, and leaves it

    output logic              refill_o,  // it is the head of the list, and leaves it
    output logic [AddressW-1:0] refill_index_o,

    input  outside_in_t  outside_i,
    output outside_out_t outside_o
);

  typedef enum logic [1:0] { ToGet = 2'd0, ToPut = 2'd1, ToOther = 2'd2 } port_e;
  port_e port;
  logic [2:0] free, refill, waiting, select;
  logic [2:0][AddressW-1:0] head, tail;

  assign port   = t0_i.kind == KindGet ? ToGet : t0_i.kind == KindPut ? ToPut : ToOther;
  assign select = 3'b001 << port;

`ifdef MUTANT_20
  assign free_o = free[port] && (port != ToGet || free[ToPut]);
`else
  assign free_o = free[port];
`endif
  assign waiting_o      = waiting[port];
  assign tail_o         = tail[port];
  assign refill_o       = refill != '0;
  assign refill_index_o = refill[ToGet] ? head[ToGet] : refill[ToPut] ? head[ToPut] : head[ToOther];

  fire_port #(
      .Width ($bits(body_t)),
      .AddressW(AddressW)
  ) u_get (
      .clk_i,
      .rst_ni,
      .load_i   (load_i && select[ToGet]),
      .data_i   ({t2_i, t1_i}),
      .valid_o  (outside_o.get_valid),
      .ready_i  (outside_i.get_ready),
      .data_o   (outside_o.get),
      .free_o   (free[ToGet]),
      .refill_o (refill[ToGet]),
      .waiting_o(waiting[ToGet]),
      .head_o   (head[ToGet]),
      .tail_o   (tail[ToGet]),
      .append_i (append_i && select[ToGet]),
      .index_i,
      .advance_i(advance_i && select[ToGet]),
      .next_i   (AddressW'(t0_i.next))
  );
  fire_port #(
      .Width ($bits(body_t)),
      .AddressW(AddressW)
  ) u_put (
      .clk_i,
      .rst_ni,
      .load_i   (load_i && select[ToPut]),
      .data_i   ({t2_i, t1_i}),
      .valid_o  (outside_o.put_valid),
      .ready_i  (outside_i.put_ready),
      .data_o   (outside_o.put),
      .free_o   (free[ToPut]),
      .refill_o (refill[ToPut]),
      .waiting_o(waiting[ToPut]),
      .head_o   (head[ToPut]),
      .tail_o   (tail[ToPut]),
      .append_i (append_i && select[ToPut]),
      .index_i,
      .advance_i(advance_i && select[ToPut]),
      .next_i   (AddressW'(t0_i.next))
  );
  fire_port #(
      .Width ($bits(other_t)),
      .AddressW(AddressW)
  ) u_other (
      .clk_i,
      .rst_ni,
      .load_i   (load_i && select[ToOther]),
      .data_i   ({t0_i.kind, t0_i.variant, t0_i.object, t2_i, t1_i}),
      .valid_o  (outside_o.other_valid),
      .ready_i  (outside_i.other_ready),
      .data_o   (outside_o.other),
      .free_o   (free[ToOther]),
      .refill_o (refill[ToOther]),
      .waiting_o(waiting[ToOther]),
      .head_o   (head[ToOther]),
      .tail_o   (tail[ToOther]),
      .append_i (append_i && select[ToOther]),
      .index_i,
      .advance_i(advance_i && select[ToOther]),
      .next_i   (AddressW'(t0_i.next))
  );

  logic unused;
  assign unused = ^t0_i;

endmodule
