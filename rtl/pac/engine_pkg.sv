// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Inputs and outputs of the engine: packets, commands of the host, answers, transfers, events (docs/design/rtl-engine.md).
//
// A packet's header is that of crates/core/nic/src/packet.rs, byte 0 in bits 7:0. A command of the host has the same size.

/* verilator lint_off UNUSEDPARAM */
package engine_pkg;
  import pac_pkg::*;

  parameter int unsigned FrameW = 256;  // bits that enter a buffer in a cycle
  parameter int unsigned MessageW = 1024;
  parameter int unsigned Frames = MessageW / FrameW;
  typedef logic [MessageW-1:0] message_t;

  // ---- Packets.

  parameter logic [15:0] Version = 16'd2;
  parameter logic [7:0] KindPut = counters_pkg::KindPut;
  parameter logic [7:0] KindGet = counters_pkg::KindGet;
  parameter logic [7:0] KindResponse = 8'd64;

  // Failures of crates/core/nic/src/portals/constants.rs.
  parameter logic [7:0] FailOk = 8'd0;
  parameter logic [7:0] FailUndeliverable = 8'd1;
  parameter logic [7:0] FailDropped = 8'd2;
  parameter logic [7:0] FailPortalDisabled = 8'd3;
  parameter logic [7:0] FailPermission = 8'd4;
  parameter logic [7:0] FailOperation = 8'd5;
  parameter logic [7:0] FailNoMatch = 8'd6;

  // Acknowledgement requests.
  parameter logic [1:0] AckNone = 2'd0;
  parameter logic [1:0] AckFull = 2'd1;
  parameter logic [1:0] AckCounting = 2'd2;
  parameter logic [1:0] AckCompleted = 2'd3;

  typedef struct packed {
    logic [31:0] crc;
    logic [31:0] sender;
    logic [63:0] place_at;
    logic [63:0] payload_bytes;
    logic [127:0] operand_rest;
    logic [63:0] epoch;  // of a put
    logic [63:0] match_token;  // of a put whose payload stays with its sender if it is unexpected
    logic [63:0] length;
    logic [63:0] header_data;
    logic [63:0] remote_offset;
    logic [63:0] match_bits;
    logic [63:0] token;  // nonzero: an answer is requested, and carries it
    logic [63:0] origin;
    logic [63:0] initiator;
    logic [31:0] uid;
    logic [31:0] portal;
    logic [7:0]  place;
    logic [7:0]  ack;
    logic [7:0]  datatype;
    logic [7:0]  operation;
    logic [7:0]  fail;
    logic [7:0]  kind;
    logic [15:0] version;
  } header_t;

  // ---- Commands of the host.

  typedef enum logic [7:0] {
    Configure = 8'd0,  // the identity of this NIC: source, uid, start (its address in packets)
    QueueSet  = 8'd1,  // an event queue: object, start (block of its ring), length (events); length 0: none
    PortalSet = 8'd2,  // a portal table entry: portal, options (its options, and its status above them), events, header_data (epoch)
    Append    = 8'd3,
    Unlink    = 8'd4,
    Search    = 8'd5,
    Bind      = 8'd6,  // a memory descriptor
    Unbind    = 8'd7,
    CounterAlloc     = 8'd8,
    CounterFree      = 8'd9,
    CounterSet       = 8'd10,
    CounterIncrement = 8'd11,
    CounterGet       = 8'd12,
    Arm              = 8'd13,  // a triggered operation of this `kind`
    Cancel           = 8'd14,
    CancelOne        = 8'd15,
    Put              = 8'd16,
    Get              = 8'd17,
    QueueHead        = 8'd18  // object, header_data: total number of events that the program has taken from the queue
  } opcode_e;

  typedef struct packed {
    logic [134:0] spare;
    generation_t  armed_generation;
    index_t       armed;
    logic [63:0]  threshold;
    logic [63:0]  header_data;   // also: failures
    logic [63:0]  local_offset;  // in the descriptor
    logic [31:0]  remote_offset;
    logic [31:0]  target;
    reference_t   events;
    reference_t   object;   // entry, descriptor, queue, or the counter that a triggered operation changes
    reference_t   counter;
    logic [31:0]  uid;
    logic [63:0]  user_ptr;
    logic [31:0]  min_free;
    logic [63:0]  length;
    logic [63:0]  start;
    logic [31:0]  source_ignore;
    logic [31:0]  source;
    logic [63:0]  ignore_bits;
    logic [63:0]  match_bits;  // also: successes
    logic [31:0]  options;
    logic [3:0]   reserved;
    logic [5:0]   portal;
    logic [1:0]   variant;  // Arm, as in counters_pkg
    logic [7:0]   kind;     // Arm: the action, as in counters_pkg
    logic [1:0]   ack;
    logic         delete_found;
    logic         overflow;
    opcode_e      opcode;
  } host_t;

  // Status of a portal table entry, above its options in PortalSet.
  typedef enum logic [1:0] {
    PortalFree     = 2'd0,
    PortalEnabled  = 2'd1,
    PortalDisabled = 2'd2
  } portal_status_e;
  parameter int unsigned PortalStatusAt = 8;
  parameter int unsigned FlowControl = 1;  // bit of its options

  typedef enum logic [2:0] {
    Done    = 3'd0,
    Invalid = 3'd1,  // a stale reference, a range outside its descriptor, an acknowledgement without a target
    Full    = 3'd2,
    InUse   = 3'd3,
    TooWide = 3'd4,  // a value that does not fit into the words here, or an unsupported command
    Taken   = 3'd5   // Append: an unexpected message used the entry up
  } status_e;

  typedef struct packed {
    tag_t        tag;
    status_e     status;
    reference_t  reference_to_it;  // the new record: entry, descriptor, counter
    index_t      armed;
    generation_t armed_generation;
    logic [63:0] success;
    logic [63:0] failure;
  } answer_t;

  // ---- The engine's commands.

  // Source of a command: the high bits of its tag.
  typedef enum logic [2:0] {
    FromHost     = 3'd0,
    FromPut      = 3'd1,
    FromGet      = 3'd2,
    FromResponse = 3'd3,
    FromFiredPut = 3'd4,
    FromFiredGet = 3'd5,
    FromFiredOther = 3'd6  // an unlink
  } source_e;
  parameter int unsigned Sources = 7;
  parameter int unsigned RunningW = TagW - 3;

  // Path of a command through the engine.
  typedef enum logic [3:0] {
    PathDiscard    = 4'd0,  // an invalid packet: only counted
    PathRefuse     = 4'd1,  // a message whose portal table entry is not enabled
    PathDeliver    = 4'd2,
    PathResponse   = 4'd3,
    PathFire       = 4'd4,  // a triggered put or get
    PathList       = 4'd5,
    PathDescriptor = 4'd6,
    PathIssue      = 4'd7,
    PathArm        = 4'd8,  // with a descriptor
    PathCounter    = 4'd9,
    PathTable      = 4'd10,
    PathTooWide    = 4'd11, // an unsupported command
    PathControlled = 4'd12  // as PathDeliver, but the portal table entry has flow control: alone
  } path_e;

  typedef struct packed {
    tag_t        tag;
    path_e       path;
    logic [7:0]  fail;    // PathRefuse
    logic [31:0] number;  // of a message, in its buffer
    message_t    message;
  } work_t;

  // Table words that completion.sv reads for a command.
  typedef struct packed {
    logic       is_response;
    logic [5:0] portal;
  } read_t;

  function automatic source_e source_of(tag_t tag);
    return source_e'(tag[TagW-1:RunningW]);
  endfunction

  // ---- Outputs of the engine.

  // A packet to send, with the payload's address in host memory.
  typedef struct packed {
    logic [31:0] length;
    logic [63:0] start;
    header_t     header;
  } send_t;

  // The payload of message `number` of a buffer, to host memory.
  typedef struct packed {
    logic [31:0] length;
    logic [63:0] start;
    logic [31:0] number;
  } receive_t;

  // A line of 64 bytes of an event queue's ring: two lines are a block, blocks count from the start of the NIC's memory.
  typedef struct packed {
    logic [32:0]  line;
    logic [511:0] data;
  } event_line_t;

  typedef struct packed {
    logic send_put_ready;
    logic send_get_ready;
    logic send_reply_ready;
    logic receive_put_ready;
    logic receive_reply_ready;
    logic event_ready;
  } outside_in_t;

  // Counts of a message in the registers of the Portals unit (registers/portals.rdl), by their names.
  typedef struct packed {
    logic requests;
    logic matched_priority;
    logic matched_overflow;
    logic unexpected;
    logic truncated;
    logic dropped;
    logic permission_violations;
    logic operation_violations;
    logic flow_control;
    logic refused_disabled;
    logic [31:0] bytes_in;
    logic [31:0] bytes_out;
  } message_counts_t;
  typedef struct packed {
    logic events;
    logic events_overwritten;
    message_counts_t message;
  } counts_t;

  typedef struct packed {
    counts_t     counts;     // of this cycle
    logic        discarded;  // an invalid packet
    logic [3:0]  full_irq;   // of the buffers: response, get header, put, command
    logic        send_put_valid;
    send_t       send_put;
    logic        send_get_valid;
    send_t       send_get;
    logic        send_reply_valid;
    send_t       send_reply;
    logic        receive_put_valid;
    receive_t    receive_put;
    logic        receive_reply_valid;
    receive_t    receive_reply;
    logic        event_valid;
    event_line_t event_line;
  } outside_out_t;

  // ---- Events.

  parameter logic [3:0] EventGet = 4'd0;
  parameter logic [3:0] EventGetOverflow = 4'd1;
  parameter logic [3:0] EventPut = 4'd2;
  parameter logic [3:0] EventPutOverflow = 4'd3;
  parameter logic [3:0] EventReply = 4'd8;
  parameter logic [3:0] EventSend = 4'd9;
  parameter logic [3:0] EventAck = 4'd10;
  parameter logic [3:0] EventPortalDisabled = 4'd11;
  parameter logic [3:0] EventLink = 4'd12;
  parameter logic [3:0] EventAutoUnlink = 4'd13;
  parameter logic [3:0] EventAutoFree = 4'd14;
  parameter logic [3:0] EventSearch = 4'd15;

  typedef struct packed {
    logic [63:0] start;
    logic [63:0] user_ptr;
    logic [63:0] header_data;
    logic [63:0] match_bits;
    logic [31:0] initiator;
    logic [31:0] rlength;
    logic [31:0] mlength;
    logic [31:0] remote_offset;
    logic [31:0] uid;
    logic [5:0]  portal;
    logic [4:0]  datatype;
    logic [4:0]  operation;
    logic [3:0]  fail;
    logic        overflow;
    logic [3:0]  kind;
  } event_t;

  typedef struct packed {
    reference_t events;
    event_t     event_;
  } posted_t;

  // An event about an entry of a list, or about one of the portal table.
  function automatic event_t about_entry(logic [5:0] portal, logic [63:0] start, logic [63:0] user_ptr, logic [3:0] kind,
                                         logic overflow);
    event_t event_;
    event_ = '0;
    event_.start    = start;
    event_.user_ptr = user_ptr;
    event_.portal   = portal;
    event_.kind     = kind;
    event_.overflow = overflow;
    return event_;
  endfunction

  // Options, with the API's values (crates/core/nic/src/portals/constants.rs).
  parameter int unsigned IoVector = 0;
  parameter int unsigned EventLinkDisable = 6;
  parameter int unsigned EventCommDisable = lists_pkg::EventCommDisable;
  parameter int unsigned EventFlowControlDisable = 8;
  parameter int unsigned EventSuccessDisable = 9;
  parameter int unsigned EventOverDisable = 10;
  parameter int unsigned EventUnlinkDisable = lists_pkg::EventUnlinkDisable;
  parameter int unsigned CountComm = 12;
  parameter int unsigned CountOverflow = 13;
  parameter int unsigned CountBytes = 14;
  parameter int unsigned AckDisable = 19;
  parameter int unsigned DescriptorCountSend = 1;
  parameter int unsigned DescriptorCountReply = 2;
  parameter int unsigned DescriptorCountAck = 3;
  parameter int unsigned DescriptorSuccessDisable = 5;
  parameter int unsigned DescriptorSendDisable = 7;
  parameter int unsigned DescriptorUnreliable = 8;
  parameter int unsigned DescriptorFailuresUncounted = 15;

  // ---- Parts of the lists' answers (lists_pkg.sv) that are kept until their command's turn.

  typedef struct packed {
    lists_pkg::answer_e  status;
    logic                last;
    logic                overflow;
    reference_t          entry_reference;
    lists_pkg::options_t options;
    logic [5:0]          portal;
    logic [31:0]         source;
    logic [31:0]         length;
    logic [63:0]         match_bits;
    logic [255:0]        a;
    logic [63:0]         user_ptr;    // of an entry
    logic [31:0]         header_uid;  // of a header
  } list_answer_t;

  typedef struct packed {
    logic [31:0] offset;
    logic [31:0] mlength;
    logic        unlinks;
    logic        freed;
    logic        kept;
  } plan_t;

  // ---- The effects that complete a command, beyond its answer.

  typedef struct packed {
    logic        event_valid;
    event_t      event_;
    logic        unlink_valid;  // AUTO_UNLINK, or LINK of an append: an event about an entry
    logic [3:0]  unlink_kind;
    logic        free_valid;    // AUTO_FREE
    logic [63:0] entry_start;
    reference_t  events;
    logic        count_valid;
    reference_t  counter;
    logic [31:0] successes;
    logic        failures;
    logic        send_put;
    logic        send_get;
    logic        send_reply;
    send_t       send;
    logic        receive_put;
    logic        receive_reply;
    receive_t    receive;
    logic        answer_valid;
    answer_t     answer;
    message_counts_t counts;
    logic        exhausts;  // nothing takes the message, and its portal table entry has flow control
    logic        quiet;     // without an event for that
    logic        last;  // the command is complete with it
    tag_t        tag;
  } effects_t;

  // ---- Trace.

  parameter int unsigned ListWrites = lists_pkg::Writes;
  parameter int unsigned CounterWrites = 5;
  parameter logic [3:0] CounterBanks = 4'd8;  // number of the first bank of counters

  // A command may retire before the counters have made its count and fired the operations that the count makes due.
  typedef struct packed {
    logic asked_valid;    // the counters accept a command
    tag_t asked_tag;
    logic counted_valid;  // they have executed it
    tag_t counted_tag;
    logic retire_valid;
    tag_t retire_tag;
    lists_pkg::write_t [ListWrites+CounterWrites-1:0] write;
  } trace_t;

endpackage
/* verilator lint_on UNUSEDPARAM */
