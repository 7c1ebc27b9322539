// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The operations in progress at an aggregation node, and the incoming message: `Node::request` of
// crates/core/nic/src/aggregation/operations.rs, from the operand's header to the reduction's order. aggregate.sv checks the parameters.
//
// 1. aggregate_record.sv holds each operation and the order of its operands.
// 2. An operand counts when its last word has arrived: a message that another header cuts off has no effect.
// 3. A refused command changes nothing, except that a header ends the message before it and sets the status of its own words.
//
// A command is decoded in its cycle 0, and takes effect and gets its status in cycle 1.

module aggregate_records
  import arithmetic_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Records  = 4,    // operations in progress: 2 to 16
    parameter int unsigned Children = 8,    // of an operation: a power of two, 2 to 64
    parameter int unsigned MaxBytes = 256,  // of an operand: a power of two, 2 words to 256 bytes
    parameter int unsigned DataW    = 64,   // bits of a word
    localparam int unsigned RecordW = Records < 2 ? 1 : $clog2(Records),
    localparam int unsigned ChildW = Children < 2 ? 1 : $clog2(Children),
    localparam int unsigned WordW = MaxBytes * 8 < 2 * DataW ? 1 : $clog2(MaxBytes * 8 / DataW)
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic     command_valid_i,
    input  command_t command_i,
    output status_e  status_o,         // in the cycle after the command's

    output logic               write_o,         // in the same cycle: the command's word is written into the bank of operands
    output logic [RecordW-1:0] write_record_o,
    output logic [ ChildW-1:0] write_child_o,
    output logic [  WordW-1:0] write_word_o,
    output logic               arrives_o,       // and is its operand's last

    output logic       [Records-1:0]             eligible_o,   // the next operand in order has arrived
    output logic       [Records-1:0][ChildW-1:0] child_o,      // its child
    output reduction_t [Records-1:0]             reduction_o,
    output logic       [Records-1:0][ WordW-1:0] last_word_o,

    input logic               start_i,         // the next operand of this record is started
    input logic [RecordW-1:0] start_record_i,
    input logic               done_i,          // an operand of this record is reduced
    input logic [RecordW-1:0] done_record_i
);

  localparam int unsigned ByteW = $clog2(MaxBytes);
  localparam int unsigned WordBytes = DataW / 8;

  typedef logic [ChildW:0] count_t;

  typedef struct packed {
    logic [Records-1:0] at;           // the record of the command; 0: no such record
    logic               is_open;
    logic               is_header;
    logic               is_word;
    logic [RecordW-1:0] record;
    logic               is_child;     // some record could have this child
    logic [ChildW-1:0]  child;
    logic               is_children;  // a record can have this number of children
    count_t             children;
    reduction_t         reduction;
    status_e            refusal;      // of the first operand
    logic               is_long;
    logic               is_empty;
    logic [ByteW-1:0]   last_byte;
    logic [7:0]         word;
  } request_t;

  typedef enum logic [1:0] {
    Idle,
    Taking,
    Dropping
  } receiving_e;

  typedef struct packed {
    receiving_e         state;
    logic [RecordW-1:0] record;
    logic [ChildW-1:0]  child;
    logic [WordW-1:0]   word;
    logic [WordW-1:0]   last_word;
    status_e            status;     // Dropping: the status of its words
  } message_t;

  request_t request_q, request_d;
  message_t message_q, message_d;

  // Cycle 0.

  decoded_t decoded;
  always_comb begin
    logic is_whole;
    for (int unsigned number = 0; number < Records; number++) request_d.at[number] = command_i.record == 8'(number);
    request_d.is_open     = command_valid_i && command_i.kind == Open;
    request_d.is_header   = command_valid_i && command_i.kind == Header;
    request_d.is_word     = command_valid_i && command_i.kind == Word;
    request_d.record      = RecordW'(command_i.record);
    request_d.is_child    = command_i.child < 8'(Children);
    request_d.child       = ChildW'(command_i.child);
    request_d.is_children = command_i.children != 0 && command_i.children <= 8'(Children);
    request_d.children    = count_t'(command_i.children);
    request_d.reduction   = '{operation: command_i.operation, datatype: command_i.datatype, index: command_i.index};
    request_d.is_long     = command_i.bytes > 32'(MaxBytes);
    request_d.is_empty    = command_i.bytes == 0;
    request_d.last_byte   = command_i.bytes[ByteW-1:0] - 1'b1;
    request_d.word        = command_i.word;
    decoded  = decode(request_d.reduction);
    is_whole = (command_i.bytes[4:0] & ~(5'h1f << decoded.size)) == 0;
    if (request_d.is_empty) request_d.refusal = Ok;
    else if (decoded.status == NoSuchOperation || !is_whole) request_d.refusal = NoSuchOperation;
    else if (request_d.is_long) request_d.refusal = TooLong;
    else request_d.refusal = decoded.status;
  end

  // Cycle 1: the records.

  status_e [Records-1:0] open_status, header_status, result_status;

  for (genvar number = 0; number < int'(Records); number++) begin : gen_record
    aggregate_record #(
        .Children(Children),
        .MaxBytes(MaxBytes),
        .DataW   (DataW)
    ) u_record (
        .clk_i,
        .rst_ni,
        .open_i         (request_q.is_open && request_q.at[number] && request_q.is_children),
        .children_i     (request_q.children),
        .header_i       (request_q.is_header && request_q.at[number]),
        .is_child_i     (request_q.is_child),
        .child_i        (request_q.child),
        .reduction_i    (request_q.reduction),
        .refusal_i      (request_q.refusal),
        .is_long_i      (request_q.is_long),
        .is_empty_i     (request_q.is_empty),
        .last_byte_i    (request_q.last_byte),
        .word_i         (request_q.word),
        .open_status_o  (open_status[number]),
        .header_status_o(header_status[number]),
        .result_status_o(result_status[number]),
        .arrives_i      (arrives_o && message_q.record == RecordW'(number)),
        .arrives_child_i(message_q.child),
        .eligible_o     (eligible_o[number]),
        .child_o        (child_o[number]),
        .reduction_o    (reduction_o[number]),
        .last_word_o    (last_word_o[number]),
        .start_i        (start_i && start_record_i == RecordW'(number)),
        .done_i         (done_i && done_record_i == RecordW'(number))
    );
  end

  // A word of the message.

  logic takes_word, is_last_word;
  assign takes_word     = request_q.is_word && message_q.state == Taking;
  assign is_last_word   = message_q.word == message_q.last_word;
  assign write_o        = takes_word;
  assign write_record_o = message_q.record;
  assign write_child_o  = message_q.child;
  assign write_word_o   = message_q.word;
  assign arrives_o      = takes_word && is_last_word;

  // The status, and the message.

  always_comb begin
    status_e open_own, header_own, result_own, word_own;
    open_own   = NoRoom;
    header_own = NoGroup;
    result_own = NoGroup;
    for (int unsigned number = 0; number < Records; number++) begin
      if (request_q.at[number]) begin
        if (request_q.is_children) open_own = open_status[number];
        header_own = header_status[number];
        result_own = result_status[number];
      end
    end
    unique case (message_q.state)
      Taking:   word_own = Ok;
      Dropping: word_own = message_q.status;
      default:  word_own = NoMessage;
    endcase

    message_d = message_q;
    status_o  = result_own;
    if (request_q.is_open) begin
      status_o = open_own;
      if (open_own == Ok && message_q.state == Taking && message_q.record == request_q.record) begin
        message_d.state  = Dropping;
        message_d.status = NoGroup;
      end
    end
    if (request_q.is_header) begin
      status_o            = header_own;
      message_d.state     = header_own != Ok ? Dropping : request_q.is_empty ? Idle : Taking;
      message_d.status    = header_own;
      message_d.record    = request_q.record;
      message_d.child     = request_q.child;
      message_d.word      = '0;
      message_d.last_word = WordW'(request_q.last_byte / ByteW'(WordBytes));
    end
    if (request_q.is_word) status_o = word_own;
    if (takes_word) begin
      message_d.word = message_q.word + 1'b1;
      if (is_last_word) message_d.state = Idle;
    end
  end

  logic unused;
  assign unused = ^{command_i.tag, command_i.data, decoded.plan};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      message_q <= '0;
      request_q <= '0;
    end else begin
      message_q <= message_d;
      request_q <= request_d;
    end
  end

endmodule
