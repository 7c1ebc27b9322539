// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The Portals engine (PAC, seed 000, figure 6): buffers, message processor, list manager, tables, counters with triggered operations,
// event queues, and the queues of three DMA ports. docs/design/rtl-engine.md. The units check the parameters.
//
//   buffers > dispatch > lists, descriptors > completion > counters, events, transfers
//
// 1. Commands have the same effects as in crates/core/nic when they run alone, in the order of their tags.
// 2. Payload does not pass through the engine: a port's DMA moves it, by the transfers. It writes the bytes of a message before the event
//    lines that follow its transfer.
// 3. Three ports (put, get header, get payload), each with its own queues: a stalled one delays no command that does not need it.
//    Acknowledgements leave at the port of get payloads, since a receiver always takes both.
// 4. The list manager's clock stops while its answers have no room (pac_lists.sv).
//
// Registers beside the units': InFlight commands, Answers answers of lists, and the packet at the head of each queue and buffer.

module pac
  import pac_pkg::*;
  import engine_pkg::*;
#(
    parameter int unsigned Entries     = 256,  // of lists.sv, as all below
    parameter int unsigned Headers     = 256,
    parameter int unsigned Buckets     = 512,
    parameter bit          KeySource   = 0,
    parameter bit          HashCrc     = 0,
    parameter int unsigned Ports       = 2,    // of the banks of lists, descriptors and counters
    parameter int unsigned Descriptors = 256,
    parameter int unsigned Counters    = 512,
    parameter int unsigned Triggered   = 128,
    parameter bit          Scan        = 1'b0, // 1: a scan finds descriptors and counters
    parameter int unsigned Portals     = 64,   // 2 to 64
    parameter int unsigned Queues      = 32,   // 2 to 256
    parameter int unsigned Pending     = 64,   // commands that wait for a response, 2 to 4,096
    parameter int unsigned Messages    = 4,    // in each buffer, a power of two, 2 to 4,096
    parameter int unsigned InFlight    = 4,    // commands in progress, 2 to 16
    parameter int unsigned Transfers   = 4,    // in each queue of the DMA, a power of two, 2 to 64
    parameter bit          Trace       = 1     // 1: `trace_o` shows writes; for simulation only
) (
    input logic clk_i,
    input logic rst_ni,

    // Buffers: command, put, get header, get payload and acknowledgement.
    input  logic [3:0]             frame_valid_i,
    output logic [3:0]             frame_ready_o,
    input  logic [3:0][FrameW-1:0] frame_i,

    output logic    answer_valid_o,
    output answer_t answer_o,

    input  outside_in_t  outside_i,
    output outside_out_t outside_o,
    output trace_t       trace_o
);

  localparam int unsigned Answers = 4;
  localparam int unsigned WorkCountW = $clog2(InFlight + 1);
  localparam int unsigned RoomW = $clog2(Transfers) + 1;

  outside_out_t outside;

  // ---- Buffers.

  logic [3:0] buffer_valid, buffer_pop, full_irq;
  message_t [3:0] buffer_message;
  logic [3:0][31:0] buffer_number;
  for (genvar number = 0; number < 4; number++) begin : gen_buffers
    message_buffer #(
        .Depth(Messages)
    ) u_buffer (
        .clk_i,
        .rst_ni,
        .frame_valid_i(frame_valid_i[number]),
        .frame_ready_o(frame_ready_o[number]),
        .frame_i      (frame_i[number]),
        .full_irq_o   (full_irq[number]),
        .valid_o      (buffer_valid[number]),
        .message_o    (buffer_message[number]),
        .number_o     (buffer_number[number]),
        .pop_i        (buffer_pop[number])
    );
  end

  // ---- Dispatch.

  counters_pkg::outside_in_t fired_ready;
  counters_pkg::outside_out_t fired;
  logic [Sources-1:0] valid, source_pop;
  logic discarded, portals_ready, queues_ready, pending_ready, pending_valid, ready;
  logic [Portals-1:0] exists, enabled, controlled;
  logic ask, asked;
  logic [5:0] ask_portal;
  logic [1:0] asked_room;
  reference_t portal_events;
  logic [31:0] portal_epoch;
  logic list_command_valid, list_command_ready;
  lists_pkg::command_t list_command;
  logic descriptor_command_valid, descriptor_command_ready;
  descriptors_pkg::command_t descriptor_command;
  logic work_push, work_valid, work_pop, retire;
  work_t work_in, work;
  logic [WorkCountW-1:0] work_room;
  tag_t retire_tag;
  logic [RoomW-1:0] reply_room, put_room, get_room, receive_put_room, receive_reply_room;

  assign ready = portals_ready && queues_ready && pending_ready;
  always_comb begin
    valid = '0;
    valid[FromHost]     = buffer_valid[0];
    valid[FromPut]      = buffer_valid[1];
    valid[FromGet]      = buffer_valid[2];
    valid[FromResponse] = buffer_valid[3];
    valid[FromFiredPut] = fired.put_valid;
    valid[FromFiredGet] = fired.get_valid;
    valid[FromFiredOther] = fired.other_valid;
    buffer_pop  = source_pop[3:0];
    fired_ready = '{get_ready: source_pop[FromFiredGet], put_ready: source_pop[FromFiredPut],
                    other_ready: source_pop[FromFiredOther]};
  end

  dispatch #(
      .InFlight(InFlight),
      .Portals (Portals),
      .RoomW   (RoomW)
  ) u_dispatch (
      .clk_i,
      .rst_ni,
      .ready_i             (ready),
      .valid_i             (valid),
      .host_i              (buffer_message[0]),
      .put_i               (buffer_message[1]),
      .get_i               (buffer_message[2]),
      .response_i          (buffer_message[3]),
      .number_i            (buffer_number[3:1]),
      .fired_put_i         (fired.put),
      .fired_get_i         (fired.get),
      .fired_other_i       (fired.other),
      .pop_o               (source_pop),
      .discarded_o         (discarded),
      .reply_room_i        (reply_room),
      .put_room_i          (put_room),
      .get_room_i          (get_room),
      .receive_put_room_i  (receive_put_room),
      .receive_reply_room_i(receive_reply_room),
      .pending_room_i      (pending_valid),
      .enabled_i           (enabled),
      .exists_i            (exists),
      .controlled_i        (controlled),
      .ask_o               (ask),
      .ask_portal_o        (ask_portal),
      .asked_i             (asked),
      .room_i              (asked_room),
      .epoch_i             (portal_epoch),
      .list_valid_o        (list_command_valid),
      .list_ready_i        (list_command_ready),
      .list_o              (list_command),
      .descriptor_valid_o  (descriptor_command_valid),
      .descriptor_ready_i  (descriptor_command_ready),
      .descriptor_o        (descriptor_command),
      .work_valid_o        (work_push),
      .work_o              (work_in),
      .work_room_i         (work_room != '0),
      .work_done_i         (retire),
      .work_done_tag_i     (retire_tag)
  );

  fifo #(
      .Width($bits(work_t)),
      .Depth(InFlight)
  ) u_work (
      .clk_i,
      .rst_ni,
      .push_i (work_push),
      .data_i (work_in),
      .room_o (work_room),
      .valid_o(work_valid),
      .data_o (work),
      .pop_i  (work_pop)
  );

  // The reads of the tables for them are one ahead.
  read_t read_in, next_read;
  host_t host_in;
  header_t header_in;
  logic next_read_valid, next_read_pop;
  logic [WorkCountW-1:0] unused_read_room;
  assign host_in   = work_in.message;
  assign header_in = work_in.message;
  assign read_in   = '{
      is_response: work_in.path == PathResponse,
      portal: source_of(work_in.tag) == FromHost ? host_in.portal : header_in.portal[5:0]
  };
  fifo #(
      .Width($bits(read_t)),
      .Depth(InFlight)
  ) u_reads (
      .clk_i,
      .rst_ni,
      .push_i (work_push),
      .data_i (read_in),
      .room_o (unused_read_room),
      .valid_o(next_read_valid),
      .data_o (next_read),
      .pop_i  (next_read_pop)
  );

  // ---- Lists.

  logic list_run, list_valid, list_pop, plan_valid, plan_pop;
  lists_pkg::trace_t list_trace;
  list_answer_t list_head;
  plan_t plan_head;
  pac_lists #(
      .Entries  (Entries),
      .Headers  (Headers),
      .Buckets  (Buckets),
      .KeySource(KeySource),
      .HashCrc  (HashCrc),
      .Ports    (Ports),
      .Answers  (Answers),
      .Trace    (Trace)
  ) u_lists (
      .clk_i,
      .rst_ni,
      .command_valid_i(list_command_valid),
      .command_ready_o(list_command_ready),
      .command_i      (list_command),
      .answer_valid_o (list_valid),
      .answer_o       (list_head),
      .answer_pop_i   (list_pop),
      .plan_valid_o   (plan_valid),
      .plan_o         (plan_head),
      .plan_pop_i     (plan_pop),
      .run_o          (list_run),
      .trace_o        (list_trace)
  );

  // ---- Descriptors: one command at a time, whose answer stays until its turn.

  logic descriptors_ready, descriptor_answer_valid, descriptor_valid_q, descriptor_busy_q, descriptor_pop;
  descriptors_pkg::answer_t descriptor_answer, descriptor_q;
  descriptors_pkg::trace_t unused_descriptor_trace;
  descriptors #(
      .Descriptors(Descriptors),
      .Scan       (Scan),
      .Ports      (Ports),
      .Trace      (1'b0)
  ) u_descriptors (
      .clk_i,
      .rst_ni,
      .command_valid_i(descriptor_command_valid && !descriptor_busy_q),
      .command_ready_o(descriptors_ready),
      .command_i      (descriptor_command),
      .answer_valid_o (descriptor_answer_valid),
      .answer_o       (descriptor_answer),
      .trace_o        (unused_descriptor_trace)
  );
  assign descriptor_command_ready = descriptors_ready && !descriptor_busy_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      descriptor_busy_q  <= 1'b0;
      descriptor_valid_q <= 1'b0;
    end else begin
      if (descriptor_command_valid && descriptor_command_ready) descriptor_busy_q <= 1'b1;
      else if (descriptor_pop) descriptor_busy_q <= 1'b0;
      if (descriptor_answer_valid) descriptor_valid_q <= 1'b1;
      else if (descriptor_pop) descriptor_valid_q <= 1'b0;
    end
  end
  always_ff @(posedge clk_i) if (descriptor_answer_valid) descriptor_q <= descriptor_answer;

  // ---- Counters.

  logic counter_valid, counter_ready, counter_answer_valid;
  counters_pkg::command_t counter_command;
  counters_pkg::answer_t counter_answer;
  counters_pkg::trace_t counter_trace;
  counters #(
      .Counters (Counters),
      .Triggered(Triggered),
      .Scan     (Scan),
      .Ports    (Ports),
      .Trace    (Trace)
  ) u_counters (
      .clk_i,
      .rst_ni,
      .command_valid_i(counter_valid),
      .command_ready_o(counter_ready),
      .command_i      (counter_command),
      .answer_valid_o (counter_answer_valid),
      .answer_o       (counter_answer),
      .outside_i      (fired_ready),
      .outside_o      (fired),
      .trace_o        (counter_trace)
  );

  // ---- Tables of the processor.

  host_t host;
  logic portal_read, portal_set, queue_set, queue_idle;
  logic [5:0] portal;
  portal_status_e set_status;
  logic control_read, disables;
  logic [5:0] control_portal;
  assign set_status = portal_status_e'(host.options[PortalStatusAt+:2]);
  portal_table #(
      .Portals(Portals)
  ) u_portals (
      .clk_i,
      .rst_ni,
      .ready_o     (portals_ready),
      .set_i       (portal_set),
      .set_portal_i(host.portal),
      .set_status_i(set_status),
      .set_controlled_i(host.options[FlowControl]),
      .set_events_i(host.events),
      .set_epoch_i (host.header_data[31:0]),
      .disable_i   (disables),
      .exists_o    (exists),
      .enabled_o   (enabled),
      .controlled_o(controlled),
      .read_i      (portal_read || control_read),
      .portal_i    (control_read || disables ? control_portal : portal),
      .events_o    (portal_events),
      .epoch_o     (portal_epoch)
  );

  logic pending_add, pending_is_get, pending_read, pending_found, pending_was_get, pending_take;
  logic [63:0] new_token, asked_token;
  counters_pkg::body_t pending_body, pending_asked;
  pending #(
      .Pending(Pending)
  ) u_pending (
      .clk_i,
      .rst_ni,
      .ready_o (pending_ready),
      .valid_o (pending_valid),
      .token_o (new_token),
      .add_i   (pending_add),
      .is_get_i(pending_is_get),
      .body_i  (pending_body),
      .read_i  (pending_read),
      .token_i (asked_token),
      .found_o (pending_found),
      .is_get_o(pending_was_get),
      .body_o  (pending_asked),
      .take_i  (pending_take)
  );

  logic event_valid, event_room, look, queue_live, taken_valid, take, control_posts;
  logic [1:0] queue_room;
  reference_t look_events;
  posted_t event_, control_event;
  event_queues #(
      .Queues(Queues)
  ) u_events (
      .clk_i,
      .rst_ni,
      .ready_o     (queues_ready),
      .set_i       (queue_set),
      .set_events_i(host.object),
      .set_ring_i  (host.start[31:0]),
      .set_length_i(host.length[31:0]),
      .post_i      (control_posts || (event_valid && event_room)),
      .posted_i    (control_posts ? control_event : event_),
      .room_o      (event_room),
      .idle_o      (queue_idle),
      .look_i      (look),
      .look_events_i(look_events),
      .live_o      (queue_live),
      .free_o      (queue_room),
      .taken_i     (host.header_data),
      .taken_valid_o(taken_valid),
      .take_i      (take),
      .line_valid_o(outside.event_valid),
      .line_ready_i(outside_i.event_ready),
      .line_o      (outside.event_line),
      .written_o   (outside.counts.events),
      .overwritten_o(outside.counts.events_overwritten)
  );

  logic exhaust, exhaust_quiet, head, head_done, head_valid, control_busy;
  logic [5:0] exhaust_portal;
  flow_control #(
      .Portals(Portals)
  ) u_control (
      .clk_i,
      .rst_ni,
      .ask_i           (ask),
      .ask_portal_i    (ask_portal),
      .asked_o         (asked),
      .room_o          (asked_room),
      .exhaust_i       (exhaust),
      .exhaust_portal_i(exhaust_portal),
      .quiet_i         (exhaust_quiet),
      .head_i          (head),
      .head_events_i   (host.object),
      .head_done_o     (head_done),
      .head_valid_o    (head_valid),
      .busy_o          (control_busy),
      .set_i           (portal_set),
      .set_portal_i    (host.portal),
      .set_keeps_i     (exists[$clog2(Portals)'(host.portal)] && set_status != PortalFree),
      .portal_read_o   (control_read),
      .portal_o        (control_portal),
      .portal_events_i (portal_events),
      .disable_o       (disables),
      .look_o          (look),
      .events_o        (look_events),
      .queue_idle_i    (queue_idle),
      .live_i          (queue_live),
      .room_i          (queue_room),
      .taken_valid_i   (taken_valid),
      .take_o          (take),
      .post_o          (control_posts),
      .posted_o        (control_event)
  );

  // ---- Completion.

  effects_t effects;
  logic transfers;
  completion u_completion (
      .clk_i,
      .rst_ni,
      .work_valid_i          (work_valid),
      .work_i                (work),
      .work_pop_o            (work_pop),
      .list_valid_i          (list_valid),
      .list_i                (list_head),
      .list_pop_o            (list_pop),
      .plan_valid_i          (plan_valid),
      .plan_i                (plan_head),
      .plan_pop_o            (plan_pop),
      .descriptor_valid_i    (descriptor_valid_q),
      .descriptor_i          (descriptor_q),
      .descriptor_pop_o      (descriptor_pop),
      .counter_valid_o       (counter_valid),
      .counter_ready_i       (counter_ready),
      .counter_o             (counter_command),
      .counter_answer_valid_i(counter_answer_valid),
      .counter_answer_i      (counter_answer),
      .next_read_valid_i     (next_read_valid),
      .next_read_i           (next_read),
      .next_read_pop_o       (next_read_pop),
      .portal_read_o         (portal_read),
      .portal_o              (portal),
      .portal_events_i       (portal_events),
      .portal_epoch_i        (portal_epoch),
      .portal_set_o          (portal_set),
      .token_i               (new_token),
      .pending_add_o         (pending_add),
      .pending_get_o         (pending_is_get),
      .pending_body_o        (pending_body),
      .pending_read_o        (pending_read),
      .pending_token_o       (asked_token),
      .pending_found_i       (pending_found),
      .pending_get_i         (pending_was_get),
      .pending_body_i        (pending_asked),
      .pending_take_o        (pending_take),
      .queue_set_o           (queue_set),
      .queue_idle_i          (queue_idle),
      .exhaust_o             (exhaust),
      .exhaust_portal_o      (exhaust_portal),
      .exhaust_quiet_o       (exhaust_quiet),
      .head_o                (head),
      .head_done_i           (head_done),
      .head_valid_i          (head_valid),
      .control_busy_i        (control_busy),
      .host_o                (host),
      .event_valid_o         (event_valid),
      .event_room_i          (event_room),
      .event_o               (event_),
      .effects_o             (effects),
      .transfers_o           (transfers),
      .answer_valid_o,
      .answer_o,
      .retire_valid_o        (retire),
      .retire_tag_o          (retire_tag)
  );

  // ---- The queues of the DMA ports.

  assign outside.counts.message = transfers ? effects.counts : '0;
  assign outside.discarded = discarded;
  assign outside.full_irq  = full_irq;
  transfer_queues #(
      .Transfers(Transfers)
  ) u_transfers (
      .clk_i,
      .rst_ni,
      .valid_i              (transfers),
      .effects_i            (effects),
      .send_put_room_o      (put_room),
      .send_get_room_o      (get_room),
      .send_reply_room_o    (reply_room),
      .receive_put_room_o   (receive_put_room),
      .receive_reply_room_o (receive_reply_room),
      .ready_i              (outside_i),
      .send_put_valid_o     (outside.send_put_valid),
      .send_put_o           (outside.send_put),
      .send_get_valid_o     (outside.send_get_valid),
      .send_get_o           (outside.send_get),
      .send_reply_valid_o   (outside.send_reply_valid),
      .send_reply_o         (outside.send_reply),
      .receive_put_valid_o  (outside.receive_put_valid),
      .receive_put_o        (outside.receive_put),
      .receive_reply_valid_o(outside.receive_reply_valid),
      .receive_reply_o      (outside.receive_reply)
  );

  // A port without output shows 0.
  always_comb begin
    outside_o = outside;
    if (Trace) begin
      if (!outside.send_put_valid) outside_o.send_put = '0;
      if (!outside.send_get_valid) outside_o.send_get = '0;
      if (!outside.send_reply_valid) outside_o.send_reply = '0;
      if (!outside.receive_put_valid) outside_o.receive_put = '0;
      if (!outside.receive_reply_valid) outside_o.receive_reply = '0;
      if (!outside.event_valid) outside_o.event_line = '0;
    end
  end

  // ---- Trace: writes of the lists and of the counters, and the retiring command.

  always_comb begin
    trace_o.asked_valid   = 1'b0;
    trace_o.asked_tag     = '0;
    trace_o.counted_valid = 1'b0;
    trace_o.counted_tag   = '0;
    trace_o.retire_valid  = 1'b0;
    trace_o.retire_tag    = '0;
    for (int port = 0; port < int'(ListWrites + CounterWrites); port++) trace_o.write[port] = '0;
    if (Trace) begin
      trace_o.asked_valid = counter_valid && counter_ready;
      if (trace_o.asked_valid) trace_o.asked_tag = counter_command.tag;
      trace_o.counted_valid = counter_trace.retire_valid;
      trace_o.counted_tag   = counter_trace.retire_tag;
      trace_o.retire_valid  = retire;
      if (retire) trace_o.retire_tag = retire_tag;
      if (list_run) trace_o.write[ListWrites-1:0] = list_trace.write;
      for (int port = 0; port < int'(CounterWrites); port++) begin
        trace_o.write[ListWrites+port] = counter_trace.write[port];
        if (counter_trace.write[port].valid)
          trace_o.write[ListWrites+port].bank = lists_pkg::bank_e'(counter_trace.write[port].bank + CounterBanks);
      end
    end
  end

  logic unused;
  assign unused = ^{list_trace, counter_trace, effects, fired,
                    unused_descriptor_trace, unused_read_room, host, host_in, header_in};

endmodule
