// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Definitions that descriptors and counters share: the status of answers, and of a free record.

/* verilator lint_off UNUSEDPARAM */
package records_pkg;
  // The result of a command. A refused command has changed nothing that a program can see.
  typedef enum logic [1:0] {
    Ok      = 2'd0,
    Invalid = 2'd1,  // no such record: the reference is stale, or out of the table
    Full    = 2'd2,  // no free record; of an arm also: no such counter, as `ArmError::Full`
    TooWide = 2'd3   // a value does not fit into the words here
  } status_e;

  parameter logic [7:0] Free = 8'd0;  // status of a record on the free list
endpackage
/* verilator lint_on UNUSEDPARAM */
