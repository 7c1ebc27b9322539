// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The front of the message processor (seed 000, section 3.2.3): selects the next command, decodes it, gives it its tag, and starts the
// unit that it needs first. completion.sv takes the commands in the order of their tags. Parameters out of range stop elaboration.
//
// 1. Seven sources take turns: the host's command buffer, three message buffers, the three ports at which triggered operations leave. A
//    source is skipped if its command may need a place that is not free: in a queue of the DMA, or among the records that wait for a
//    response. So a stalled port stops only commands that need it. A response needs no place.
// 2. One command starts a cycle, as soon as its unit accepts it. The status of all portal table entries is in registers, so a message is
//    refused or given to the list manager at once.
// 3. A command that changes the tables of the processor itself (PathTable) starts when no other is in progress, and nothing starts beside
//    it. So does a message to a portal table entry with flow control: `nic` refuses it before anything changes, so the room for its
//    events must be known first, and its result decides about the next message.
// 4. Invalid packets, and values that do not fit into the units' words, are found here.

module dispatch
  import pac_pkg::*;
  import engine_pkg::*;
#(
    parameter int unsigned InFlight = 4,  // commands between their start and their end, 2 to 16
    parameter int unsigned Portals  = 64, // 2 to 64
    parameter int unsigned RoomW    = 3   // bits of the room in a queue of the DMA
) (
    input logic clk_i,
    input logic rst_ni,
    input logic ready_i,  // all banks are cleared

    input  logic                [Sources-1:0] valid_i,  // numbered by source_e
    input  message_t            host_i,
    input  header_t             put_i,
    input  header_t             get_i,
    input  header_t             response_i,
    input  logic         [2:0][31:0] number_i,  // of the messages in their buffers: put, get, response
    input  counters_pkg::body_t fired_put_i,
    input  counters_pkg::body_t fired_get_i,
    input  counters_pkg::other_t fired_other_i,
    output logic                [Sources-1:0] pop_o,
    output logic                discarded_o,

    // Free places in the queues of the DMA; commands in progress may still take them.
    input logic [RoomW-1:0] reply_room_i,
    input logic [RoomW-1:0] put_room_i,
    input logic [RoomW-1:0] get_room_i,
    input logic [RoomW-1:0] receive_put_room_i,
    input logic [RoomW-1:0] receive_reply_room_i,
    input logic             pending_room_i,

    input logic [Portals-1:0] enabled_i,
    input logic [Portals-1:0] exists_i,
    input logic [Portals-1:0] controlled_i,

    // Flow control of a message's portal table entry (flow_control.sv).
    output logic        ask_o,
    output logic [5:0]  ask_portal_o,
    input  logic        asked_i,
    input  logic [1:0]  room_i,
    input  logic [31:0] epoch_i,

    output logic                  list_valid_o,
    input  logic                  list_ready_i,
    output lists_pkg::command_t   list_o,
    output logic                  descriptor_valid_o,
    input  logic                  descriptor_ready_i,
    output descriptors_pkg::command_t descriptor_o,

    output logic  work_valid_o,
    output work_t work_o,
    input  logic  work_room_i,
    input  logic  work_done_i,  // a command is complete
    input  tag_t  work_done_tag_i
);

  if (Portals < 2 || Portals > 64) $error("dispatch: Portals is %0d, and may be 2 to 64", Portals);
  if (InFlight < 2 || InFlight > 16) $error("dispatch: InFlight is %0d, and may be 2 to 16", InFlight);

  // ---- Commands in progress: of each source, and in all.

  localparam int unsigned CountW = $clog2(InFlight + 2);
  typedef logic [CountW-1:0] count_t;
  count_t all_q;
  count_t [Sources-1:0] count_q;
  logic start, table_q;
  source_e source_q, done_source;
  assign done_source = source_of(work_done_tag_i);
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      all_q   <= '0;
      count_q <= '0;
      table_q <= 1'b0;
    end else begin
      if (start != work_done_i) all_q <= start ? all_q + 1'b1 : all_q - 1'b1;
      for (int number = 0; number < int'(Sources); number++) begin
        if ((start && source_q == source_e'(number)) != (work_done_i && done_source == source_e'(number)))
          count_q[number] <= start && source_q == source_e'(number) ? count_q[number] + 1'b1 : count_q[number] - 1'b1;
      end
`ifdef MUTANT_37
      if (start && work_o.path == PathTable) table_q <= 1'b1;
`else
      if (start && (work_o.path == PathTable || work_o.path == PathControlled)) table_q <= 1'b1;
`endif
      else if (work_done_i) table_q <= 1'b0;
    end
  end

  // ---- The selection, made a cycle before: only a source whose command finds its places.

  function automatic logic fits_in(logic [RoomW-1:0] room, count_t under_way);
`ifdef MUTANT_29
    return room != '0 || under_way == '1;
`else
    return 8'(room) > 8'(under_way);
`endif
  endfunction
  host_t host;
  logic [Sources-1:0] eligible;
  logic host_puts, starts, reply_fits;
  count_t messages;
  assign host      = host_i;
  assign host_puts = host.opcode == Put;
  assign messages  = count_q[FromPut] + count_q[FromGet];
  always_comb begin
    // Only one command that may take a pending record is in progress at a time.
    starts = pending_room_i && count_q[FromHost] == '0 && count_q[FromFiredPut] == '0 && count_q[FromFiredGet] == '0;
    reply_fits = fits_in(reply_room_i, messages);
    eligible = valid_i;
    if (!reply_fits || !fits_in(receive_put_room_i, count_q[FromPut])) eligible[FromPut] = 1'b0;
    if (!reply_fits) eligible[FromGet] = 1'b0;
    if (!fits_in(receive_reply_room_i, count_q[FromResponse])) eligible[FromResponse] = 1'b0;
    if (!starts || put_room_i == '0) eligible[FromFiredPut] = 1'b0;
    if (!starts || get_room_i == '0) eligible[FromFiredGet] = 1'b0;
    if ((host_puts || host.opcode == Get) && (!starts || (host_puts ? put_room_i == '0 : get_room_i == '0)))
      eligible[FromHost] = 1'b0;
  end

  logic chosen_q;
  source_e next_source;
  logic any;
  always_comb begin
    next_source = source_q;
    any = 1'b0;
    // The source after the last selected one has priority.
    for (int step = int'(Sources); step >= 1; step--) begin
      int unsigned number;
      number = (int'(source_q) + step) % int'(Sources);
      if (eligible[number]) begin
        next_source = source_e'(number);
        any = 1'b1;
      end
    end
  end
  logic go;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      chosen_q <= 1'b0;
      source_q <= FromHost;
    end else if (start) begin
      // The starting source has its next command later.
      chosen_q <= 1'b0;
    end else if (!chosen_q) begin
      chosen_q <= any;
      source_q <= next_source;
    end
  end

  // ---- Decoding.

  logic [RunningW-1:0] running_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) running_q <= '0;
    else if (start) running_q <= running_q + 1'b1;
  end

  header_t header;
  logic [31:0] number;
  always_comb begin
    unique case (source_q)
      FromGet: {header, number} = {get_i, number_i[1]};
      FromResponse: {header, number} = {response_i, number_i[2]};
      default: {header, number} = {put_i, number_i[0]};
    endcase
  end

  logic [63:0] exists, enabled, controlled;
  logic host_exists;
  assign exists      = 64'(exists_i);
  assign enabled     = 64'(enabled_i);
  assign controlled  = 64'(controlled_i);
  assign host_exists = exists[host.portal];

  // Whether a packet is valid, of the kind of its buffer, and its values fit.
  logic is_packet, is_known, is_enabled, is_controlled;
  logic [5:0] portal;
  assign portal = header.portal[5:0];
  always_comb begin
    is_packet = header.version == Version && header.fail <= 8'd7 && header.ack <= 8'd3 && header.place == '0;
    unique case (source_q)
      FromPut: is_packet &= header.kind == KindPut;
      FromGet: is_packet &= header.kind == KindGet;
      default: is_packet &= header.kind == KindResponse;
    endcase
    if (source_q != FromResponse)
      is_packet &= header.length[63:32] == '0 && header.initiator[63:32] == '0;
    is_packet &= header.remote_offset[63:32] == '0;
    is_known   = header.portal[31:6] == '0 && exists[portal];
    is_enabled = is_known && enabled[portal];
    is_controlled = is_enabled && controlled[portal];
  end

  // Whether a command of the host fits into the words, and is supported.
  logic fits;
  always_comb begin
    fits = 1'b1;
    unique case (host.opcode)
      Append, Search: fits = host.length[63:32] == '0 && host.options[31:20] == '0 && !host.options[IoVector];
      Put, Get: fits = host.length[63:32] == '0;
      Arm:
      fits = (host.kind == counters_pkg::KindPut || host.kind == counters_pkg::KindGet ||
              host.kind == counters_pkg::KindCounterSet || host.kind == counters_pkg::KindCounterIncrement ||
              host.kind == counters_pkg::KindUnlink) &&
          host.length[63:32] == '0;
      QueueSet: fits = host.length[63:32] == '0 && host.start[63:32] == '0;
      Configure, PortalSet, QueueHead, Unlink, Bind, Unbind, CounterAlloc, CounterFree, CounterSet, CounterIncrement, CounterGet, Cancel, CancelOne: ;
      default: fits = 1'b0;
    endcase
  end

  // A triggered unlink is handled like one of the host.
  host_t unlink;
  always_comb begin
    unlink = '0;
    unlink.opcode = Unlink;
    unlink.object = fired_other_i.object;
  end

  logic other_epoch;
  assign other_epoch = asked_i && header.kind == KindPut && header.epoch != '0 && header.epoch != 64'(epoch_i);

  logic moves;  // the triggered operation moves data
  assign moves = host.kind == counters_pkg::KindPut || host.kind == counters_pkg::KindGet;
  always_comb begin
    work_o = '{tag: {source_q, running_q}, path: PathDiscard, fail: FailDropped, number: number, message: header};
    unique case (source_q)
      FromHost: begin
        work_o.message = host_i;
        unique case (host.opcode)
          Append, Search, Unlink: work_o.path = PathList;
          Bind, Unbind: work_o.path = PathDescriptor;
          Put, Get: work_o.path = PathIssue;
          Arm: work_o.path = moves ? PathArm : PathCounter;
          Configure, QueueSet, PortalSet, QueueHead: work_o.path = PathTable;
          default: work_o.path = PathCounter;
        endcase
        // An append or a search at a portal table entry that does not exist.
        if ((host.opcode == Append || host.opcode == Search) &&
            !host_exists) begin
          work_o.path = PathTooWide;
          work_o.fail = 8'(Invalid);
        end
        if (!fits) begin
          work_o.path = PathTooWide;
          work_o.fail = 8'(TooWide);
        end
      end
      FromPut, FromGet: begin
        if (is_packet) work_o.path = is_controlled ? PathControlled : is_enabled ? PathDeliver : PathRefuse;
        if (is_known && !is_enabled) work_o.fail = FailPortalDisabled;
        // A put with another epoch than the entry's: the entry was disabled since.
        if (work_o.path == PathControlled && other_epoch) begin
          work_o.path = PathRefuse;
          work_o.fail = FailPortalDisabled;
        end
      end
      FromResponse: if (is_packet) work_o.path = PathResponse;
      FromFiredPut: begin
        work_o.path = PathFire;
        work_o.message = message_t'(fired_put_i);
      end
      FromFiredGet: begin
        work_o.path = PathFire;
        work_o.message = message_t'(fired_get_i);
      end
      default: begin
        work_o.path = PathList;
        work_o.message = unlink;
      end
    endcase
  end

  // ---- The start.

  logic to_lists, to_descriptors, alone;
  assign to_lists = work_o.path == PathDeliver || work_o.path == PathControlled || work_o.path == PathList;
  assign to_descriptors = work_o.path == PathDescriptor || work_o.path == PathIssue || work_o.path == PathArm;
  assign alone        = ready_i && chosen_q && !table_q && all_q == '0;
  assign ask_o        = alone && work_o.path == PathControlled;
  assign ask_portal_o = portal;
  assign go = ready_i && chosen_q && work_room_i && !table_q && (work_o.path != PathTable || all_q == '0) &&
      (work_o.path != PathControlled || asked_i);
  assign list_valid_o       = go && to_lists;
  assign descriptor_valid_o = go && to_descriptors;
  assign start        = go && (!to_lists || list_ready_i) && (!to_descriptors || descriptor_ready_i);
  assign work_valid_o = start;
  assign pop_o        = Sources'(start) << source_q;
  assign discarded_o  = start && work_o.path == PathDiscard;

  always_comb begin
    list_o = '0;
    list_o.tag = work_o.tag;
    if (source_q == FromFiredOther) begin
      list_o.kind            = lists_pkg::Unlink;
      list_o.entry_reference = fired_other_i.object;
    end else if (source_q == FromHost) begin
      list_o.kind = host.opcode == Append ? lists_pkg::Append : host.opcode == Unlink ? lists_pkg::Unlink : lists_pkg::Search;
      list_o.overflow        = host.overflow;
      list_o.delete_found    = host.delete_found;
      list_o.portal          = host.portal;
      list_o.options         = host.options[lists_pkg::OptionsW-1:0];
      list_o.match_bits      = host.match_bits;
      list_o.ignore_bits     = host.ignore_bits;
      list_o.source          = host.source;
      list_o.source_ignore   = host.source_ignore;
      list_o.start           = host.start;
      list_o.length          = host.length[31:0];
      list_o.min_free        = host.min_free;
      list_o.user_ptr        = host.user_ptr;
      list_o.uid             = host.uid;
      list_o.counter         = host.counter;
      list_o.entry_reference = host.object;
    end else begin
      list_o.kind          = lists_pkg::Deliver;
      list_o.portal        = portal;
      list_o.match_bits    = header.match_bits;
      list_o.source        = header.initiator[31:0];
      list_o.length        = header.length[31:0];
      list_o.uid           = header.uid;
      list_o.remote_offset = header.remote_offset[31:0];
      list_o.header_data   = header.header_data;
      list_o.token         = header.kind == KindPut ? header.match_token[31:0] : '0;
      list_o.operation     = header.kind[3:0];
      list_o.controlled    = work_o.path == PathControlled;
      list_o.room          = room_i;
    end
    descriptor_o = '{
        tag: work_o.tag,
        operation: host.opcode == Bind ? descriptors_pkg::Bind :
                   host.opcode == Unbind ? descriptors_pkg::Release : descriptors_pkg::Get,
        descriptor: host.object,
        start: host.start,
        length: host.length,
        options: host.options,
        events: host.events,
        counter: host.counter
    };
  end

endmodule
