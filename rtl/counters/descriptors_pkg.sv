// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Commands, answers, words and trace of the unit of memory descriptors (docs/design/rtl.md, "Words").

/* verilator lint_off UNUSEDPARAM */
package descriptors_pkg;
  import pac_pkg::*;

  typedef enum logic [1:0] {
    Bind    = 2'd0,
    Release = 2'd1,
    Get     = 2'd2   // reads a descriptor by its reference
  } operation_e;

  parameter logic [7:0] Live = 8'd1;        // status
  parameter logic [16:0] IoVector = 17'd1;  // option: the memory is a list of pieces, which does not fit into the words here

  typedef struct packed {
    logic [7:0]  status;
    generation_t generation;
    logic [31:0] length;
    logic [63:0] start;
  } m0_t;
  parameter logic [7:0] LanesSlot = 8'hc0;

  typedef struct packed {
    logic [40:0] spare;
    logic [16:0] options;
    reference_t  counter;
    reference_t  events;  // the event queue
    index_t      link;    // of a free record: the free list's
  } m1_t;
  parameter logic [7:0] LanesLink = 8'h01;

  typedef struct packed {
    tag_t        tag;
    operation_e  operation;
    reference_t  descriptor;  // Release, Get
    logic [63:0] start;       // Bind, as all below
    logic [63:0] length;
    logic [31:0] options;
    reference_t  events;
    reference_t  counter;
  } command_t;

  typedef struct packed {
    tag_t                 tag;
    records_pkg::status_e status;
    reference_t           descriptor;  // Bind
    logic [63:0]          start;       // Get, as all below
    logic [31:0]          length;
    logic [16:0]          options;
    reference_t           events;
    reference_t           counter;
  } answer_t;

  typedef struct packed {
    logic         valid;
    logic [3:0]   bank;  // M0, M1
    index_t       address;
    tag_t         tag;
    logic         old_known;
    logic [127:0] old_word;
    logic [127:0] new_word;
  } write_t;

  typedef struct packed {
    logic         retire_valid;
    tag_t         retire_tag;
    write_t [1:0] write;
  } trace_t;
endpackage
/* verilator lint_on UNUSEDPARAM */
