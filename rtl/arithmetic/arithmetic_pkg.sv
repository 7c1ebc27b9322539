// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Commands, answers, trace and codes of aggregate.sv: the arithmetic of an aggregation node (seed 001, section III.F).
//
// Operations, datatypes and the index of a pair have the numbers of crates/core/nic/src/arithmetic and of `Reduction` in
// crates/core/nic/src/aggregation; a status up to 15 is its `Failure`.

/* verilator lint_off UNUSEDPARAM */
package arithmetic_pkg;
  import pac_pkg::*;

  // Bits of the widest word. A unit with a narrower DataW uses the low bits.
  parameter int unsigned MaxDataW = 128;
  typedef logic [MaxDataW-1:0] data_t;

  // Depths of the pipelines: cycles from the issue of a word to the write of its result.
  parameter int unsigned ShortDepth = 4;  // integers, minimum, maximum, pairs
  parameter int unsigned LongDepth = 8;   // floating-point sums

  typedef enum logic [1:0] {
    Open   = 2'd0,  // prepares a record for an operation with this number of children
    Header = 2'd1,  // starts a child's message: its reduction and its bytes
    Word   = 2'd2,  // the next word of the message
    Result = 2'd3   // reads a word of the result
  } kind_e;

  typedef struct packed {
    tag_t        tag;
    kind_e       kind;
    logic [7:0]  record;     // Open, Header, Result
    logic [7:0]  child;      // Header
    logic [7:0]  children;   // Open
    logic [7:0]  operation;  // Header
    logic [7:0]  datatype;   // Header
    logic [7:0]  index;      // Header; 0: values; else pairs, and 1 + the datatype of the indices
    logic [31:0] bytes;      // Header
    logic [7:0]  word;       // Result
    data_t       data;       // Word
  } command_t;

  typedef enum logic [4:0] {
    Ok                = 5'd0,
    NoRoom            = 5'd4,   // no such record, or too many children for it
    OperationMismatch = 5'd6,
    NoSuchOperation   = 5'd7,
    TooLong           = 5'd8,   // more bytes than a record holds; a word after the result's last
    Credit            = 5'd9,   // the child has already sent its operand
    NoGroup           = 5'd13,  // the record is not open, or has no such child
    NotHere           = 5'd16,  // a reduction of nic that this unit lacks: products, complex numbers, long doubles
    Busy              = 5'd17,  // a reduction is in progress (Open, Result)
    NoMessage         = 5'd18   // a word that no message announced
  } status_e;

  typedef struct packed {
    tag_t    tag;
    status_e status;
    data_t   data;    // of a Result that is Ok; else meaningless
  } answer_t;

  typedef struct packed {
    logic       valid;
    logic [3:0] bank;       // 0: operands; 1: results
    index_t     address;
    tag_t       tag;        // of the word; of a result: of its operand's last word
    logic       old_known;
    data_t      old_word;
    data_t      new_word;
  } write_t;

  typedef struct packed {
    logic         retire_valid;
    tag_t         retire_tag;
    write_t [1:0] write;
  } trace_t;

  // The reduction, as in the header.
  typedef struct packed {
    logic [7:0] operation;
    logic [7:0] datatype;
    logic [7:0] index;
  } reduction_t;

  parameter logic [3:0] Min = 4'd0, Max = 4'd1, Sum = 4'd2, Prod = 4'd3, Lor = 4'd4, Land = 4'd5, Bor = 4'd6, Band = 4'd7,
                        Lxor = 4'd8, Bxor = 4'd9;

  typedef struct packed {
    logic [1:0] size;       // log2 of its bytes
    logic       is_signed;
    logic       is_float;
    logic       is_brain;   // bfloat16
  } element_t;

  typedef enum logic [1:0] {
    Values   = 2'd0,
    PairIn   = 2'd1,  // a pair of 8 bytes: value in the low half of a lane, index in the high half
    PairOver = 2'd2   // a pair of 16 bytes: value in one lane (or word), index in the next
  } layout_e;

  // The lanes' plan for a word.
  typedef struct packed {
    logic       is_long;    // a floating-point sum
    logic [3:0] operation;
    layout_e    layout;
    element_t   value;
    element_t   index;
  } plan_t;

  typedef struct packed {
    status_e    status;  // Ok, NoSuchOperation or NotHere
    logic [2:0] size;    // log2 of an element's bytes
    plan_t      plan;
  } decoded_t;

  // The supported datatypes: integers, half, bfloat16, float, double.
  function automatic logic is_known(logic [7:0] datatype);
    return datatype < 8'd10 || datatype == 8'd14 || datatype == 8'd15;
  endfunction

  // log2 of an element's bytes, of any datatype of nic.
  function automatic logic [2:0] size_of(logic [3:0] datatype);
    unique case (datatype)
      4'd0, 4'd1:               return 3'd0;
      4'd2, 4'd3, 4'd14, 4'd15: return 3'd1;
      4'd4, 4'd5, 4'd6:         return 3'd2;
      4'd11, 4'd12:             return 3'd4;
      4'd13:                    return 3'd5;
      default:                  return 3'd3;
    endcase
  endfunction

  function automatic element_t element(logic [3:0] datatype);
    element_t result;
    result.size      = 2'(size_of(datatype));
    result.is_signed = datatype inside {4'd0, 4'd2, 4'd4, 4'd7};
    result.is_float  = datatype inside {4'd6, 4'd9, 4'd14, 4'd15};
    result.is_brain  = datatype == 4'd15;
    return result;
  endfunction

  // As `Kernel::new`, without the length. A pair's value is no complex number (10, 11, 13), its index an integer of 32 or 64 bits.
  function automatic decoded_t decode(reduction_t reduction);
    decoded_t result;
    logic is_float, is_complex, is_pair, is_valid;
    logic [7:0] index;
    logic [2:0] value_size, index_size;
    index = reduction.index - 8'd1;
    is_pair = reduction.index != 0;
    is_float = reduction.datatype inside {8'd6, 8'd9, [8'd10:8'd15]};
    is_complex = reduction.datatype inside {8'd10, 8'd11, 8'd13};
    value_size = size_of(reduction.datatype[3:0]);
    index_size = size_of(index[3:0]);
    result.size = value_size;
    if (is_pair) result.size = (value_size > index_size ? value_size : index_size) + 3'd1;
    result.plan.operation = reduction.operation[3:0];
    result.plan.value = element(reduction.datatype[3:0]);
    result.plan.index = element(index[3:0]);
    result.plan.is_long = reduction.operation == 8'(Sum) && is_float && !is_pair;
    result.plan.layout = !is_pair ? Values : result.size == 3'd4 ? PairOver : PairIn;
    is_valid = reduction.datatype < 8'd16 && reduction.operation <= 8'(Bxor);
    if (is_pair) begin
      is_valid &= reduction.operation <= 8'(Max) && !is_complex && index inside {8'd4, 8'd5, 8'd7, 8'd8};
    end else if (reduction.operation <= 8'(Max)) begin
      is_valid &= !is_complex;
    end else if (reduction.operation > 8'(Prod)) begin
      is_valid &= !is_float;
    end
    result.status = Ok;
    if (!is_valid) result.status = NoSuchOperation;
    else if (!is_known(reduction.datatype) || reduction.operation == 8'(Prod)) result.status = NotHere;
    return result;
  endfunction

endpackage
/* verilator lint_on UNUSEDPARAM */
