// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The operations under way at an aggregation node, and the message that is coming in: `Node::request` of
// crates/nic/src/aggregation/operations.rs, from the operand's header to the reduction's order.
//
// 1. The first operand says what the reduction is. One that disagrees makes the operation fail, and so does one that cannot be
//    reduced. The first failure stays; the operands of a failed operation are counted and dropped.
// 2. A child sends once. Its operand counts when its last word is there: a message that another header cuts off was never sent.
// 3. Operands are started in the order of the children: `started_q` is the next one, whatever has arrived behind it.
// 4. `done <= started <= children`. A record is not opened again while they differ.
// 5. A command that is refused changes nothing, but that a header ends the message before it and says what its words are answered.
//
// Registers for each record: 38 bits of operation, Children bits of arrivals, four counts of children.

module aggregate_records
  import arithmetic_pkg::*;
  import pac_pkg::*;
#(
    parameter int unsigned Records  = 4,    // operations under way: 2 to 16
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
    output status_e  status_o,         // in the cycle of the command

    output logic               write_o,         // the word of the command goes into the bank of operands
    output logic [RecordW-1:0] write_record_o,
    output logic [ ChildW-1:0] write_child_o,
    output logic [  WordW-1:0] write_word_o,
    output logic               arrives_o,       // and is its operand's last

    output logic       [Records-1:0]             eligible_o,   // the next operand in order is there
    output logic       [Records-1:0][ChildW-1:0] child_o,      // its child
    output reduction_t [Records-1:0]             reduction_o,
    output logic       [Records-1:0][ WordW-1:0] last_word_o,

    input logic               start_i,         // the next operand of this record is started
    input logic [RecordW-1:0] start_record_i,
    input logic               done_i,          // an operand of this record is reduced
    input logic [RecordW-1:0] done_record_i
);

  localparam int unsigned ByteW = $clog2(MaxBytes) + 1;
  localparam int unsigned WordBytes = DataW / 8;

  typedef logic [ChildW:0] count_t;

  typedef struct packed {
    logic                open;
    status_e             failure;
    reduction_t          reduction;
    logic [ByteW-1:0]    bytes;
    count_t              children;
    count_t              left;       // children that have not sent
    count_t              started;
    count_t              done;
    logic [Children-1:0] arrived;
  } record_t;

  typedef enum logic [1:0] {
    Idle,
    Taking,
    Dropping
  } receiving_e;

  // The message that is coming in.
  typedef struct packed {
    receiving_e         state;
    logic [RecordW-1:0] record;
    logic [ChildW-1:0]  child;
    logic [WordW-1:0]   word;
    logic [WordW-1:0]   last_word;
    status_e            status;     // Dropping: what its words are answered
  } message_t;

  record_t [Records-1:0] record_q, record_d;
  message_t message_q, message_d;

  function automatic logic [WordW-1:0] last_word(logic [ByteW-1:0] bytes);
    logic [ByteW-1:0] last_byte;
    last_byte = bytes - 1'b1;
    return WordW'(last_byte / ByteW'(WordBytes));
  endfunction

  // The command's record, child and reduction.

  logic [RecordW-1:0] index;
  logic [ChildW-1:0] child;
  logic is_record, is_child, is_first, is_complete;
  record_t own;
  reduction_t reduction;
  status_e failure;

  assign index = RecordW'(command_i.record);
  assign child = ChildW'(command_i.child);
  assign is_record = command_i.record < 8'(Records);
  assign own = record_q[index];
  assign is_child = command_i.child < 8'(own.children);
  assign is_first = own.left == own.children;
  assign is_complete = own.left == 0 && (own.failure != Ok || own.bytes == 0 || own.done == own.children);
  assign reduction = '{operation: command_i.operation, datatype: command_i.datatype, index: command_i.index};

  // Why the operation fails with this operand.
  decoded_t decoded;
  logic is_whole;
  always_comb begin
    decoded  = decode(reduction);
    is_whole = (command_i.bytes[4:0] & ~(5'h1f << decoded.size)) == 0;
    failure  = Ok;
    if (!is_first) begin
      if (own.failure != Ok) failure = own.failure;
      else if (reduction != own.reduction || command_i.bytes != 32'(own.bytes)) failure = OperationMismatch;
    end else if (command_i.bytes != 0) begin
      if (decoded.status == NoSuchOperation || !is_whole) failure = NoSuchOperation;
      else if (command_i.bytes > 32'(MaxBytes)) failure = TooLong;
      else failure = decoded.status;
    end
  end

  // A word of the message.

  logic takes_word, is_last_word;
  assign takes_word     = command_valid_i && command_i.kind == Word && message_q.state == Taking;
  assign is_last_word   = message_q.word == message_q.last_word;
  assign write_o        = takes_word;
  assign write_record_o = message_q.record;
  assign write_child_o  = message_q.child;
  assign write_word_o   = message_q.word;
  assign arrives_o      = takes_word && is_last_word;

  // What the command does.

  always_comb begin
    logic arrives;
    logic [RecordW-1:0] arrives_record;
    logic [ChildW-1:0] arrives_child;
    record_d = record_q;
    message_d = message_q;
    status_o = Ok;
    arrives = arrives_o;
    arrives_record = message_q.record;
    arrives_child = message_q.child;

    unique case (command_i.kind)
      Open: begin
        if (!is_record || command_i.children == 0 || command_i.children > 8'(Children)) status_o = NoRoom;
        else if (own.started != own.done) status_o = Busy;
        else if (command_valid_i) begin
          record_d[index].open     = 1'b1;
          record_d[index].failure  = Ok;
          record_d[index].children = count_t'(command_i.children);
          record_d[index].left     = count_t'(command_i.children);
          record_d[index].started  = '0;
          record_d[index].done     = '0;
          record_d[index].arrived  = '0;
          if (message_q.state == Taking && message_q.record == index) begin
            message_d.state  = Dropping;
            message_d.status = NoGroup;
          end
        end
      end
      Header: begin
        if (!is_record || !own.open || !is_child) status_o = NoGroup;
        else if (own.arrived[child]) status_o = Credit;
        else status_o = failure;
        if (command_valid_i) begin
          message_d.state  = Dropping;
          message_d.status = status_o;
          if (is_record && own.open && is_child && !own.arrived[child]) begin
            record_d[index].failure = failure;
            if (is_first) begin
              record_d[index].reduction = reduction;
              record_d[index].bytes     = ByteW'(command_i.bytes);
            end
            if (failure == Ok) message_d.state = command_i.bytes == 0 ? Idle : Taking;
            message_d.record    = index;
            message_d.child     = child;
            message_d.word      = '0;
            message_d.last_word = last_word(ByteW'(command_i.bytes));
            if (failure != Ok || command_i.bytes == 0) begin
              arrives = 1'b1;
              arrives_record = index;
              arrives_child = child;
            end
          end
        end
      end
      Word: begin
        unique case (message_q.state)
          Taking:   status_o = Ok;
          Dropping: status_o = message_q.status;
          default:  status_o = NoMessage;
        endcase
        if (takes_word) begin
          message_d.word = message_q.word + 1'b1;
          if (is_last_word) message_d.state = Idle;
        end
      end
      Result: begin
        if (!is_record || !own.open) status_o = NoGroup;
        else if (!is_complete) status_o = Busy;
        else if (own.failure != Ok) status_o = own.failure;
        else if (own.bytes == 0 || command_i.word > 8'(last_word(own.bytes))) status_o = TooLong;
      end
    endcase

    if (arrives) begin
      record_d[arrives_record].arrived[arrives_child] = 1'b1;
      record_d[arrives_record].left = record_q[arrives_record].left - 1'b1;
    end
    if (start_i) record_d[start_record_i].started = record_q[start_record_i].started + 1'b1;
    if (done_i) record_d[done_record_i].done = record_q[done_record_i].done + 1'b1;
  end

  // What is to be reduced next. A record that is being opened again has nothing.

  always_comb begin
    for (int unsigned number = 0; number < Records; number++) begin
      logic is_opened, has_arrived;
      is_opened = command_valid_i && command_i.kind == Open && index == RecordW'(number);
      child_o[number] = record_q[number].started[ChildW-1:0];
      has_arrived = record_q[number].arrived[record_q[number].started[ChildW-1:0]];
      eligible_o[number] = has_arrived && record_q[number].started != record_q[number].children &&
          record_q[number].failure == Ok && record_q[number].bytes != 0 && !is_opened;
      reduction_o[number] = record_q[number].reduction;
      last_word_o[number] = last_word(record_q[number].bytes);
    end
  end

  logic unused;
  assign unused = ^{command_i.tag, command_i.data, decoded.plan};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      record_q  <= '0;
      message_q <= '0;
    end else begin
      record_q  <= record_d;
      message_q <= message_d;
    end
  end

endmodule
