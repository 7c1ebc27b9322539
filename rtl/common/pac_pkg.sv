// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Definitions that all units share: links of records, the status of a record, the word of a write in the trace.
//
// A record's slot is its generation (24 bits) above its status (8 bits), as in crates/core/nic/src/tables.rs.

/* verilator lint_off UNUSEDPARAM */
package pac_pkg;

  // An index of a record, or a link to one. A link out of its region ends a list.
  parameter int unsigned IndexW = 16;
  typedef logic [IndexW-1:0] index_t;
  parameter index_t None = '1;

  parameter int unsigned TagW = 32;
  typedef logic [TagW-1:0] tag_t;

  typedef logic [23:0] generation_t;

  // A reference that programs hold: an index and, above it, bits of the generation (crates/core/nic/src/handle.rs).
  parameter int unsigned ReferenceW = 27;
  typedef logic [ReferenceW-1:0] reference_t;
  parameter reference_t NoReference = '1;

  // Bits of the index in references to a table with this number of records.
  function automatic int unsigned index_bits(int unsigned records);
    return records <= 1 ? 1 : unsigned'($clog2(records));
  endfunction

  // The generation in a reference: the bits above the index, of which slots keep 24.
  function automatic generation_t generation_of(reference_t reference, int unsigned records);
    return 24'(reference >> index_bits(records));
  endfunction

  function automatic index_t index_of(reference_t reference, int unsigned records);
    return index_t'(reference & ((27'd1 << index_bits(records)) - 27'd1));
  endfunction

  function automatic reference_t reference_to(index_t index, generation_t generation, int unsigned records);
    return (27'(generation) << index_bits(records)) | 27'(index);
  endfunction

  // The next generation: all ones is skipped, so that no reference equals NoReference.
  function automatic generation_t next_generation(generation_t generation, int unsigned records);
    int unsigned bits;
    generation_t last;
    bits = ReferenceW - index_bits(records);
    last = bits >= 24 ? 24'hff_fffe : 24'((25'd1 << bits) - 25'd2);
`ifdef MUTANT_11
    return generation;
`else
    return generation >= last ? 24'd0 : generation + 24'd1;
`endif
  endfunction

  // The link of a free record is relative, so that cleared records form a free list, each linked to the next.
  function automatic index_t free_link(index_t index, index_t next);
    return next - index - 1'b1;
  endfunction

  function automatic index_t free_next(index_t index, index_t link);
    return link + index + 1'b1;
  endfunction

endpackage
/* verilator lint_on UNUSEDPARAM */
