// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The words, commands, answers and trace of the allocator.
//
// A node is ALLOCATED (bit 5) and a size: 0, or one more than the order of the largest free piece at or below it. This is the byte of
// crates/core/nic/src/buddy.rs with bit 7 moved to bit 5. A word of the bank N has the nodes of four orders below one node of the next
// order: 16, 8, 4 and 2 of them, at lanes 0, 16, 24 and 28. Lane 30 is the root, only in the highest word: the root of another word is a
// node of the word above. Lane 31 is spare.

/* verilator lint_off UNUSEDPARAM */
package allocator_pkg;
  import pac_pkg::*;

  // Orders of nodes in a word, and so in a row of words.
  parameter int unsigned Levels = 4;

  parameter int unsigned SizeW = 5;
  parameter int unsigned SizeMax = 13;  // of the root of three rows
  parameter int unsigned NodeW = SizeW + 1;
  parameter int unsigned Lanes = 32;
  parameter int unsigned RootLane = 30;
  parameter int unsigned WordW = Lanes * NodeW;
  typedef logic [SizeW-1:0] size_t;

  typedef struct packed {
    logic  allocated;
    size_t size;
  } node_t;

  // Lane of the leftmost node of a level of a word; level 0 is its lowest order.
  function automatic int unsigned first_lane(int unsigned level);
    return 32 - (32 >> level);
  endfunction

  typedef enum logic [1:0] {
    OpAlloc  = 2'd0,  // argument: blocks; value: the first block
    OpFree   = 2'd1,  // argument: the first block; value: blocks
    OpSizeOf = 2'd2   // argument: the first block; value: blocks; changes nothing
  } operation_e;

  typedef enum logic [1:0] {
    StatusOk           = 2'd0,
    StatusNoMemory     = 2'd1,  // alloc: no such piece is free, or the number of blocks is 0 or too large
    StatusNotAllocated = 2'd2,  // free, size_of: no allocation starts at this block
    StatusBadCommand   = 2'd3   // no such operation
  } status_e;

  // States of allocator.sv.
  typedef enum logic [2:0] {
    Start,   // writes the words of an empty allocator
    Idle,    // accepts a command, reads the first word
    Wait,    // for the word
    Walk,    // goes along the path; answers in the last such cycle
    Update   // writes the path
  } state_e;

  typedef struct packed {
    tag_t        tag;
    logic [1:0]  operation;
    logic [31:0] argument;
  } command_t;

  typedef struct packed {
    tag_t        tag;
    status_e     status;
    logic [31:0] value;  // 0 with an error
  } answer_t;

  typedef struct packed {
    logic             valid;
    logic [3:0]       bank;
    index_t           address;
    tag_t             tag;
    logic             old_known;
    logic [WordW-1:0] old_word;
    logic [WordW-1:0] new_word;
  } write_t;

  typedef struct packed {
    logic         retire_valid;
    tag_t         retire_tag;
    write_t [0:0] write;
  } trace_t;
endpackage
/* verilator lint_on UNUSEDPARAM */
