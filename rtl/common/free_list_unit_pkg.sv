// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Commands, answers and trace of free_list_unit.

package free_list_unit_pkg;
  import pac_pkg::*;

  typedef struct packed {
    tag_t   tag;
    logic   give;   // else take
    index_t index;  // of the returned record
  } command_t;

  typedef struct packed {
    tag_t   tag;
    logic   full;   // no record was free
    index_t index;
  } answer_t;

  typedef struct packed {
    logic        valid;
    logic [3:0]  bank;
    index_t      address;
    tag_t        tag;
    logic        old_known;
    index_t      old_word;
    index_t      new_word;
  } write_t;

  typedef struct packed {
    logic           retire_valid;
    tag_t           retire_tag;
    write_t [0:0]   write;
  } trace_t;
endpackage
