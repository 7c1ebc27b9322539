// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Commands, answers, words and trace of the unit of counters and triggered operations (docs/design/rtl.md, "Words").

/* verilator lint_off UNUSEDPARAM */
package counters_pkg;
  import pac_pkg::*;

  typedef enum logic [2:0] {
    Alloc     = 3'd0,  // a counter, at zero
    Release   = 3'd1,  // frees a counter, and cancels its waiting operations
    Set       = 3'd2,
    Increment = 3'd3,
    Get       = 3'd4,
    Arm       = 3'd5,
    Cancel    = 3'd6,  // all operations that wait for a counter
    CancelOne = 3'd7   // the operation `armed`, if it waits
  } operation_e;

  // Kinds of triggered operations, of `kind` in crates/core/nic/src/tables.rs. All others leave at the third port unchanged.
  parameter logic [7:0] KindPut = 8'd1;
  parameter logic [7:0] KindGet = 8'd2;
  parameter logic [7:0] KindCounterSet = 8'd16;
  parameter logic [7:0] KindCounterIncrement = 8'd17;
  parameter logic [7:0] KindUnlink = 8'd19;
  // Value of `variant` (`list` in tables.rs): the operation sets the successes and keeps the failures.
  parameter logic [1:0] KeepsFailures = 2'd1;

  // Status of a counter, and of a triggered operation.
  parameter logic [7:0] Live = 8'd1;
  parameter logic [7:0] Armed = 8'd1;
  // Due, but its port is not ready: it waits in the port's list.
  parameter logic [7:0] Firing = 8'd3;

  // Contents of an operation that moves data: request and one side (source of a put, sink of a get).
  typedef struct packed {
    logic [7:0]  spare;
    logic [31:0] target;
    logic [31:0] initiator;
    logic [31:0] uid;
    logic [31:0] remote_offset;
    logic [31:0] length;
    reference_t  events;  // the event queue
    reference_t  counter;
    logic [16:0] options;
    logic [5:0]  portal;
    logic [1:0]  ack;
    logic [4:0]  operation;
    logic [3:0]  datatype;
  } t2_t;

  typedef struct packed {
    logic [63:0] start;
    logic [63:0] user_ptr;
    logic [63:0] header_data;  // of an operation on a counter: failures
    logic [63:0] match_bits;   // of an operation on a counter: successes
  } t1_t;

  typedef struct packed {
    t2_t t2;
    t1_t t1;
  } body_t;

  // T0. A link of all ones ends a list. `prev` is not read in the head of a list.
  typedef struct packed {
    logic [63:0] spare;
    logic [7:0]  kind;
    logic [1:0]  variant;
    reference_t  object;
    reference_t  counter;
    generation_t generation;
    logic [7:0]  status;
    index_t      prev;
    index_t      next;  // of a free record: the free list's link
    logic [63:0] threshold;
  } t0_t;
  // Lanes of T0 that are written alone.
  parameter logic [15:0] LanesNext = 16'h0010;
  parameter logic [15:0] LanesPrev = 16'h0020;
  parameter logic [15:0] LanesSlot = 16'h00c0;

  typedef struct packed {
    logic [63:0] failure;
    logic [63:0] success;
  } c0_t;

  typedef struct packed {
    generation_t generation;
    logic [7:0]  status;
    index_t      tail;
    index_t      head;  // of a free record: the free list's link
    logic [63:0] threshold_next;
  } c1_t;
  parameter logic [7:0] LanesThreshold = 8'h0f;
  parameter logic [7:0] LanesHead = 8'h10;
  parameter logic [7:0] LanesTail = 8'h20;
  parameter logic [7:0] LanesState = 8'hc0;

  typedef struct packed {
    tag_t        tag;
    operation_e  operation;
    reference_t  counter;
    logic [63:0] threshold;          // Arm
    logic [7:0]  kind;               // Arm
    logic [1:0]  variant;               // Arm
    reference_t  object;             // Arm: the counter or the entry that the operation changes
    index_t      armed;              // CancelOne
    generation_t armed_generation;   // CancelOne
    body_t       body;               // Arm; Set and Increment: successes and failures, as in an operation on a counter
  } command_t;

  typedef struct packed {
    tag_t                tag;
    records_pkg::status_e status;
    reference_t          counter;           // Alloc
    index_t              armed;             // Arm
    generation_t         armed_generation;  // Arm
    logic [63:0]         success;           // Get
    logic [63:0]         failure;           // Get
  } answer_t;

  typedef struct packed {
    logic [7:0] kind;
    logic [1:0] variant;
    reference_t object;
    body_t      body;
  } other_t;

  // The ports at which fired operations leave. Each has its own valid and ready.
  typedef struct packed {
    logic get_ready;
    logic put_ready;
    logic other_ready;
  } outside_in_t;

  typedef struct packed {
    logic   get_valid;
    body_t  get;
    logic   put_valid;
    body_t  put;
    logic   other_valid;
    other_t other;
  } outside_out_t;

  typedef struct packed {
    logic         valid;
    logic [3:0]   bank;  // C0, C1, T0, T1, T2
    index_t       address;
    tag_t         tag;
    logic         old_known;
    logic [255:0] old_word;
    logic [255:0] new_word;
  } write_t;

  typedef struct packed {
    logic         retire_valid;
    tag_t         retire_tag;
    write_t [4:0] write;
  } trace_t;

  // The view of the counters' pipeline for triggered.sv, in the cycle in which a command's C0 and C1 are at their outputs.
  typedef struct packed {
    logic        valid;      // a command is here, and nothing holds it
    logic        update;     // it changes an amount
    operation_e  operation;
    reference_t  counter;
    logic [63:0] threshold;  // Arm. CancelOne: generation and index of the operation
    logic [63:0] action;     // Arm: kind, variant, object
    logic        live;       // its counter is live
    logic        due;        // its new count reaches the lowest threshold
    logic [63:0] reached;    // successes plus failures, after the update
  } stage_t;

  // Requests of triggered.sv to the counters' banks and answers.
  typedef struct packed {
    logic        read;       // of C0 and C1
    reference_t  counter;
    logic        c1_write;   // not of slots and free records
    logic [7:0]  c1_lanes;
    index_t      c1_address;
    c1_t         c1;
    logic        give;       // frees the counter of the command
    logic        answer;
    records_pkg::status_e status;
    index_t      armed;
    generation_t armed_generation;
    logic        leave;      // the command leaves the pipeline
    logic        retire;     // all of its writes are done
  } request_t;
endpackage
/* verilator lint_on UNUSEDPARAM */
