// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// What descriptors and counters share: their answers' status, and how references name their records.
//
// A reference is an index and, above it, bits of the generation (crates/nic/src/handle.rs).

/* verilator lint_off UNUSEDPARAM */
package records_pkg;
  import pac_pkg::*;

  // What became of a command. A refused command has changed nothing that a program can see.
  typedef enum logic [1:0] {
    Ok      = 2'd0,
    Invalid = 2'd1,  // no such record: the reference is stale, or out of the table
    Full    = 2'd2,  // no free record; of an arm also: no such counter, as `ArmError::Full`
    TooWide = 2'd3   // a value that the words here have no room for
  } status_e;

  parameter logic [7:0] Free = 8'd0;  // status of a record on the free list

  // Bits of the index in references to a table with so many records.
  function automatic int unsigned index_bits(int unsigned records);
    return records <= 1 ? 1 : unsigned'($clog2(records));
  endfunction

  // A generation as references hold it: what is above the index, of which slots keep 24 bits.
  function automatic generation_t generation_of(reference_t reference, int unsigned records);
    return 24'(reference >> index_bits(records));
  endfunction

  function automatic index_t index_of(reference_t reference, int unsigned records);
    return index_t'(reference & ((27'd1 << index_bits(records)) - 27'd1));
  endfunction

  function automatic reference_t reference_to(index_t index, generation_t generation, int unsigned records);
    return (27'(generation) << index_bits(records)) | 27'(index);
  endfunction

  // The generation that follows: the one of all ones is left out, so that no reference reads as NoReference.
  function automatic generation_t next_generation(generation_t generation, int unsigned records);
    int unsigned bits;
    generation_t last;
    bits = 27 - index_bits(records);
    last = bits >= 24 ? 24'hff_fffe : 24'((25'd1 << bits) - 25'd2);
    return generation >= last ? 24'd0 : generation + 24'd1;
  endfunction
endpackage
/* verilator lint_on UNUSEDPARAM */
