// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The initiator's side of an operation, combinational: the packet of a put or a get with the event of its start (SEND), and the events of
// its response (ACK, REPLY): crates/core/nic/src/portals/respond.rs.

module initiator
  import pac_pkg::*;
  import engine_pkg::*;
(
    input  counters_pkg::body_t body_i,
    input  logic                is_get_i,
    input  logic [63:0]         token_i,   // of the pending record
    input  logic [63:0]         origin_i,
    output logic                waits_o,   // a response is requested
    output effects_t            start_o,

    // The response to a pending command.
    input  counters_pkg::body_t asked_i,
    input  logic                asked_get_i,
    input  header_t             response_i,
    input  logic [31:0]         number_i,  // of the message with the reply
    output effects_t            end_o
);

  // ---- The start.

  header_t packet;
  counters_pkg::t2_t body2;
  counters_pkg::t1_t body1;
  assign body2   = body_i.t2;
  assign body1   = body_i.t1;
  assign waits_o = is_get_i || body2.ack != AckNone;
  always_comb begin
    packet = '0;
    packet.version       = Version;
    packet.kind          = is_get_i ? KindGet : KindPut;
    packet.operation     = 8'(body2.operation);
    packet.datatype      = 8'(body2.datatype);
    packet.ack           = 8'(body2.ack);
    packet.portal        = 32'(body2.portal);
    packet.uid           = body2.uid;
    packet.initiator     = 64'(body2.initiator);
    packet.origin        = origin_i;
    packet.token         = waits_o ? token_i : '0;
    packet.match_bits    = body1.match_bits;
    packet.remote_offset = 64'(body2.remote_offset);
    packet.header_data   = body1.header_data;
    packet.length        = 64'(body2.length);
    packet.payload_bytes = is_get_i ? '0 : 64'(body2.length);
  end

  always_comb begin
    start_o = '0;
    start_o.send_get = is_get_i;
    start_o.send_put = !is_get_i;
    start_o.send = '{length: is_get_i ? '0 : body2.length, start: body1.start, header: packet};
    start_o.events = body2.events;
    start_o.event_valid = !is_get_i && !body2.options[DescriptorSendDisable] && !body2.options[DescriptorSuccessDisable];
    start_o.event_ = about(body2, body1, EventSend);
    start_o.event_.mlength = body2.length;
    start_o.event_.remote_offset = body2.remote_offset;
    start_o.count_valid = !is_get_i && body2.options[DescriptorCountSend];
    start_o.counter = body2.counter;
    start_o.successes = body2.options[CountBytes] ? body2.length : 32'd1;
  end

  // ---- The end.

  counters_pkg::t2_t asked2;
  counters_pkg::t1_t asked1;
  logic ok, full, counts, counts_bytes;
  logic [31:0] mlength;
  assign asked2  = asked_i.t2;
  assign asked1  = asked_i.t1;
  assign mlength = response_i.length > 64'(asked2.length) ? asked2.length : response_i.length[31:0];
  always_comb begin
    if (asked_get_i) begin
      ok     = response_i.fail == FailOk;
      full   = 1'b1;
      counts = asked2.options[DescriptorCountReply];
    end else begin
      ok     = asked2.ack == AckCompleted ? response_i.fail != FailUndeliverable : response_i.fail == FailOk;
      full   = asked2.ack == AckFull && response_i.ack[0];
      counts = asked2.options[DescriptorCountAck] && asked2.ack != AckNone && response_i.ack[0];
    end
    counts_bytes = asked2.options[CountBytes] && (asked_get_i || asked2.ack != AckCompleted);

    end_o = '0;
    end_o.events = asked2.events;
    end_o.event_valid = full && (response_i.fail != FailOk || !asked2.options[DescriptorSuccessDisable]);
    end_o.event_ = about(asked2, asked1, asked_get_i ? EventReply : EventAck);
    end_o.event_.mlength = mlength;
    end_o.event_.remote_offset = response_i.remote_offset[31:0];
    end_o.event_.fail = response_i.fail[3:0];
    end_o.event_.overflow = response_i.ack[1];
    end_o.count_valid = counts && (ok || !asked2.options[DescriptorFailuresUncounted]);
    end_o.counter = asked2.counter;
    end_o.successes = !ok ? '0 : counts_bytes ? mlength : 32'd1;
    end_o.failures = !ok;
    end_o.receive_reply = asked_get_i && response_i.fail == FailOk && mlength != '0;
    end_o.receive = '{length: mlength, start: asked1.start, number: number_i};
  end

  // The common fields of an operation's events.
  function automatic event_t about(counters_pkg::t2_t rest, counters_pkg::t1_t first, logic [3:0] kind);
    event_t event_;
    event_ = '0;
    event_.start       = first.start;
    event_.user_ptr    = first.user_ptr;
    event_.header_data = first.header_data;
    event_.match_bits  = first.match_bits;
    event_.initiator   = rest.initiator;
    event_.rlength     = rest.length;
    event_.uid         = rest.uid;
    event_.portal      = rest.portal;
    event_.datatype    = 5'(rest.datatype);
    event_.operation   = rest.operation;
    event_.kind        = kind;
    return event_;
  endfunction

endmodule
