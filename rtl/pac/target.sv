// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The target's side, combinational: effects of a message beyond the lists, and the host's results of an append, a search and an unlink
// from the answers of the lists: crates/core/nic/src/portals/deliver.rs (`commit`, `report`) and lists.rs.

module target
  import pac_pkg::*;
  import engine_pkg::*;
(
    input  work_t        work_i,
    input  list_answer_t answer_i,
    input  plan_t        plan_i,
    input  reference_t   events_i,  // the queue of the portal table entry
    input  logic [31:0]  epoch_i,
    output effects_t     message_o,
    output effects_t     command_o
);

  header_t header;
  host_t host;
  logic is_get, delivers, matched, exhausted;
  logic [7:0] fail;
  logic [31:0] mlength, offset;
  assign header = work_i.message;
  assign host   = work_i.message;
  assign is_get = header.kind == KindGet;

  lists_pkg::entry_a_t entry;
  lists_pkg::header_a_t kept;
  assign entry = answer_i.a;
  assign kept  = answer_i.a;

  always_comb begin
    delivers = work_i.path == PathDeliver || work_i.path == PathControlled;
    matched  = delivers && answer_i.status == lists_pkg::Matched;
    exhausted = work_i.path == PathControlled && (answer_i.status == lists_pkg::NoMatch ||
        answer_i.status == lists_pkg::HeadersFull || answer_i.status == lists_pkg::EventsFull);
    unique case (answer_i.status)
      lists_pkg::Matched: fail = FailOk;
      lists_pkg::Permission: fail = FailPermission;
      lists_pkg::Operation: fail = FailOperation;
      default: fail = FailDropped;
    endcase
    if (exhausted) fail = FailPortalDisabled;
    if (!delivers) fail = work_i.fail;
    mlength = matched ? plan_i.mlength : '0;
    offset  = matched ? plan_i.offset : '0;
    // The epoch after its end: a message that disables the entry is the first of the next.
`ifdef MUTANT_36
    if (fail == FailPortalDisabled && !is_get && header.epoch != '0) offset = epoch_i;
`else
    if (fail == FailPortalDisabled && !is_get && header.epoch != '0) offset = epoch_i + 32'(exhausted);
`endif
  end

  // ---- A message.

  header_t reply;
  logic acknowledges;
`ifdef MUTANT_31
  assign acknowledges = 1'b1;
`else
  assign acknowledges = !(matched && answer_i.options[AckDisable]);
`endif
  always_comb begin
    reply = header;
    reply.kind          = KindResponse;
    reply.fail          = fail;
    reply.ack           = {6'd0, matched && answer_i.overflow, acknowledges};
    reply.length        = 64'(mlength);
    reply.remote_offset = 64'(offset);
    reply.payload_bytes = is_get ? 64'(mlength) : '0;
    reply.place_at      = '0;
    reply.sender        = '0;
    reply.crc           = '0;
  end

  logic [63:0] address;
  logic wants_unlink;
  assign address = entry.start + 64'(offset);
  assign wants_unlink = matched && plan_i.unlinks && !answer_i.options[EventUnlinkDisable];
  always_comb begin
    message_o = '0;
    message_o.events = events_i;
    message_o.event_valid = matched && !answer_i.options[EventCommDisable] && !answer_i.options[EventSuccessDisable];
    message_o.event_ = about_entry(header.portal[5:0], address, answer_i.user_ptr, is_get ? EventGet : EventPut,
                                   answer_i.overflow);
    message_o.event_.header_data   = header.header_data;
    message_o.event_.match_bits    = header.match_bits;
    message_o.event_.initiator     = header.initiator[31:0];
    message_o.event_.rlength       = header.length[31:0];
    message_o.event_.mlength       = mlength;
    message_o.event_.remote_offset = header.remote_offset[31:0];
    message_o.event_.uid           = header.uid;
    message_o.event_.operation     = header.operation[4:0];
    message_o.event_.datatype      = header.datatype[4:0];
    message_o.unlink_valid = wants_unlink;
    message_o.unlink_kind  = EventAutoUnlink;
    message_o.free_valid   = wants_unlink && answer_i.overflow && plan_i.freed;
    message_o.entry_start  = entry.start;
    message_o.count_valid  = matched && answer_i.options[CountComm];
    message_o.counter      = entry.counter;
    message_o.successes    = answer_i.options[CountBytes] ? mlength : 32'd1;
    message_o.send_reply   = header.token != '0;
    message_o.send         = '{length: is_get ? mlength : '0, start: address, header: reply};
    message_o.receive_put  = matched && !is_get && mlength != '0;
    message_o.receive      = '{length: mlength, start: address, number: work_i.number};
    message_o.counts.requests         = 1'b1;
    message_o.counts.matched_priority = matched && !answer_i.overflow;
    message_o.counts.matched_overflow = matched && answer_i.overflow;
    message_o.counts.unexpected       = matched && plan_i.kept;
    message_o.counts.truncated        = matched && mlength < header.length[31:0] && (is_get || header.match_token[31:0] == '0);
    message_o.counts.dropped               = fail == FailDropped;
    message_o.counts.permission_violations = fail == FailPermission;
    message_o.counts.operation_violations  = fail == FailOperation;
    message_o.counts.flow_control          = exhausted;
    message_o.counts.refused_disabled      = fail == FailPortalDisabled;
    message_o.counts.bytes_in              = is_get ? '0 : mlength;
    message_o.counts.bytes_out             = is_get ? mlength : '0;
    message_o.exhausts     = exhausted;
    message_o.quiet        = answer_i.status != lists_pkg::NoMatch && answer_i.options[EventFlowControlDisable];
    message_o.last         = 1'b1;
    message_o.tag          = work_i.tag;
  end

  // ---- A command of the host.

  logic search, once;
  assign search = host.opcode == Search;
  assign once   = host.options[lists_pkg::UseOnce];
  always_comb begin
    command_o = '0;
    command_o.events  = events_i;
    command_o.counter = host.counter;
    command_o.last    = answer_i.last;
    command_o.tag     = work_i.tag;
    command_o.answer_valid = answer_i.last;
    command_o.answer = '{tag: work_i.tag, status: Done, reference_to_it: answer_i.entry_reference, default: '0};
    command_o.event_ = about_entry(host.portal, host.start, host.user_ptr, EventLink, host.overflow);
    unique case (answer_i.status)
      lists_pkg::Matched: begin
        // The header that the entry, or the search, found.
        command_o.event_valid = !host.options[EventSuccessDisable] &&
            !host.options[search && !host.delete_found ? EventCommDisable : EventOverDisable];
        command_o.event_ = about_entry(answer_i.portal, kept.start, host.user_ptr,
                                       search && !host.delete_found ? EventSearch :
                                       kept.operation == 4'd2 ? EventGetOverflow : EventPutOverflow, 1'b1);
        command_o.event_.header_data   = kept.header_data;
        command_o.event_.match_bits    = answer_i.match_bits;
        command_o.event_.initiator     = answer_i.source;
        command_o.event_.rlength       = answer_i.length;
        command_o.event_.mlength       = kept.mlength;
        command_o.event_.remote_offset = kept.remote_offset;
        command_o.event_.uid           = answer_i.header_uid;
        command_o.count_valid = host.options[CountOverflow];
        command_o.successes   = host.options[CountBytes] ? kept.mlength : 32'd1;
      end
      lists_pkg::Drained: begin
        command_o.event_valid = !answer_i.options[EventUnlinkDisable];
        command_o.event_ = about_entry(answer_i.portal, entry.start, answer_i.user_ptr, EventAutoFree, 1'b1);
      end
      lists_pkg::Linked: command_o.event_valid = !host.options[EventLinkDisable];
      lists_pkg::Spent: begin
        command_o.event_valid  = !host.options[EventUnlinkDisable];
        command_o.event_.kind  = EventAutoUnlink;
        command_o.event_.overflow  = 1'b0;
        command_o.answer.status = Taken;
      end
      lists_pkg::EntriesFull: command_o.answer.status = Full;
      lists_pkg::InUse: command_o.answer.status = InUse;
      lists_pkg::Invalid: command_o.answer.status = Invalid;
      lists_pkg::NoMatch: begin
        command_o.event_valid = !host.options[EventCommDisable];
        command_o.event_.kind = EventSearch;
        command_o.event_.overflow = 1'b1;
        command_o.event_.fail = FailNoMatch[3:0];
        command_o.count_valid = host.options[CountOverflow];
        command_o.failures    = 1'b1;
      end
      lists_pkg::Complete: begin
        command_o.count_valid = host.options[CountOverflow] && !once;
        command_o.failures    = 1'b1;
      end
      default: ;
    endcase
  end

  logic unused;
  assign unused = ^{work_i, answer_i, plan_i, host, header, entry, kept};

endmodule
