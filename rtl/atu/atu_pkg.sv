// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Commands, answers, words and trace of the address translation unit (docs/design/rtl.md, "Address translation"): the transactions
// of crates/core/nic/src/atu/ats.rs, the entry of entry.rs, the slots of pipeline.rs.

/* verilator lint_off UNUSEDPARAM */
package atu_pkg;
  import pac_pkg::*;

  parameter int unsigned PageW = 27;   // of a network logical address: 9 bits of the table, 18 of the entry in it
  parameter int unsigned EntryW = 18;
  typedef logic [PageW-1:0] page_t;
  typedef logic [15:0] name_t;         // identifies a transaction for a unit, the driver and the ATU

  // The operation of a request, beside its word.
  typedef enum logic [2:0] {
    Translate  = 3'd0,  // by a unit
    FlushTlb   = 3'd1,  // by the driver, as all below
    FlushUnits = 3'd2,
    FlushBoth  = 3'd3,
    Fence      = 3'd4   // its word has only the tag
  } operation_e;

  // ---- Transactions ----

  parameter logic [3:0] TranslationRequest  = 4'd1;
  parameter logic [3:0] TranslationResponse = 4'd2;
  parameter logic [3:0] FlushRequest        = 4'd3;
  parameter logic [3:0] FlushResponse       = 4'd4;

  parameter int unsigned Units = 3;  // requester, responder, completer of the RMA unit

  // A transaction's word without its kind. `low` is a page (0-26) below a VPID, or pages less one; of a response the target's page.
  typedef struct packed {
    name_t       tag;
    logic [1:0]  peer;  // the unit
    logic [1:0]  code;  // access, result, or kind of flush
    logic [39:0] low;
  } body_t;

  typedef struct packed {
    logic [3:0] kind;
    body_t      body;
  } ats_t;

  parameter logic [1:0] Done         = 2'd0;  // results
  parameter logic [1:0] NotRegistered = 2'd1;
  parameter logic [1:0] WrongVpid    = 2'd2;
  parameter logic [1:0] NoRight      = 2'd3;

  function automatic page_t page_of(body_t body);
    return body.low[PageW-1:0];
  endfunction

  // A VPID, or the pages of a flush less one.
  function automatic logic [9:0] high_of(body_t body);
    return body.low[PageW+:10];
  endfunction

  typedef struct packed {
    operation_e operation;
    ats_t       word;
  } command_t;

  // Whether `Transaction::decode` accepts the word, and it is one of this operation.
  function automatic logic well_formed(command_t command);
    body_t body;
    logic [PageW:0] last;
    logic no_more;
    body    = command.word.body;
    no_more = body.low[39:37] == '0;
    last    = {1'b0, page_of(body)} + (PageW + 1)'(high_of(body));
    case (command.operation)
      Translate: return command.word.kind == TranslationRequest && body.peer != 2'd3 && !body.code[1] && no_more;
      FlushTlb, FlushUnits, FlushBoth:
      return command.word.kind == FlushRequest && body.peer == 2'd0 && !body.code[1] && no_more &&
             (body.code[0] ? page_of(body) == '0 : !last[PageW]);
      Fence: return command.word.kind == '0 && {body.peer, body.code, body.low} == '0;
      default: return 1'b0;
    endcase
  endfunction

  // Whether the word is an answer of a unit to a flush.
  function automatic logic is_flush_response(ats_t word);
    return word.kind == FlushResponse && word.body.peer != 2'd3 && {word.body.code, word.body.low} == '0;
  endfunction

  // ---- Requests and slots ----

  typedef struct packed {
    operation_e operation;
    body_t      body;
  } request_t;

  function automatic logic flushes_tlb(request_t request);
    return request.operation == FlushTlb || request.operation == FlushBoth;
  endfunction

  typedef enum logic [1:0] {
    Answered = 2'd0,  // the body is the response
    Reading  = 2'd1,  // the body is the request; its entry, once read, is in E
    Asks     = 2'd2,  // a flush that units must answer
    Passes   = 2'd3   // a flush of only the TLB, or a fence
  } kind_e;

  typedef struct packed {
    kind_e kind;
    body_t body;
  } slot_t;

  // ---- Entries ----

  // An entry without its reserved bits. All 0: it translates for no VPID.
  typedef struct packed {
    logic [1:0]  size;    // 4 KiB, 64 KiB, 2 MiB, 1 GiB
    logic [39:0] target;
    logic [9:0]  vpid;
    logic [1:0]  rights;  // bit 0: to read; bit 1: to write
  } entry_t;

  function automatic entry_t entry_of(logic [63:0] word);
    entry_t entry;
    logic   known;
    known = 1'b1;
    entry = '{size: '0, target: word[51:12], vpid: word[11:2], rights: word[1:0]};
    case (word[63:59])
      5'd0: entry.size = 2'd0;
      5'd4: entry.size = 2'd1;
      5'd9: entry.size = 2'd2;
      5'd18: entry.size = 2'd3;
      default: known = 1'b0;
    endcase
    return known && word[1:0] != '0 ? entry : '0;
  endfunction

  // The response to a request whose page has this entry (`AddressEntry::check`).
  function automatic body_t check(entry_t entry, body_t request);
    body_t response;
    logic [17:0] from_page;
    case (entry.size)
      2'd0: from_page = '0;
      2'd1: from_page = 18'hf;
      2'd2: from_page = 18'h1ff;
      default: from_page = '1;
    endcase
    response = request;
    response.low = {entry.target[39:18], (entry.target[17:0] & ~from_page) | (request.low[17:0] & from_page)};
    if (entry.rights == '0) response.code = NotRegistered;
    else if (entry.vpid != high_of(request)) response.code = WrongVpid;
    else if ((request.code[0] ? entry.rights[1] : entry.rights[0]) == 1'b0) response.code = NoRight;
    else response.code = Done;
    if (response.code != Done) response.low = '0;
    return response;
  endfunction

  // A word of the TLB. The bank does not keep the page's low bits, which are its address.
  typedef struct packed {
    page_t  page;
    entry_t entry;
  } tlb_t;

  // Whether a flush may take the entry of this page (`FlushTarget::may_include`). A flush's last page exists, so no difference wraps.
  function automatic logic may_include(body_t flush, page_t page);
    page_t behind;
    behind = page - page_of(flush);
    return flush.code[0] || behind <= page_t'(high_of(flush));
  endfunction

  // ---- Ports ----

  // Outputs to the register block in a cycle; bits are events.
  typedef struct packed {
    logic  done;             // the flush or fence `done_tag` is complete
    name_t done_tag;
    logic  malformed;        // a malformed request, which was dropped
    logic  read_refused;     // a word read that no slot waits for
    logic  answer_refused;   // an answer that no flush waits for, or a malformed one
    logic  hit;
    logic  miss;
    logic  fault;            // a translation was refused
    logic  flushed;          // a flush has removed an entry of the TLB
    logic  units_flushed;    // the last unit has answered a flush
  } answer_t;

  typedef struct packed {
    logic [9:0]  tables;       // number of tables, 0 to 512; changes only while the unit is idle
    logic        units_ready;  // the port accepts its word
    logic        memory_ready;
    logic        read_valid;   // a word was read for the slot `read_tag`; accepted at once
    name_t       read_tag;
    logic [63:0] read_word;
    logic        answer_valid; // a unit's answer to a flush; accepted at once
    ats_t        answer;
  } outside_in_t;

  typedef struct packed {
    logic       units_valid;
    logic [1:0] units_peer;   // for which unit
    ats_t       units;        // the receiving unit
    logic       memory_valid;
    name_t      memory_tag;   // the slot
    page_t      memory_page;  // page of the entry to read
  } outside_out_t;

  // ---- Trace ----

  typedef struct packed {
    logic       valid;
    logic [3:0] bank;
    index_t     address;
    tag_t       tag;        // slot of a fill; of a flush: all ones
    logic       old_known;
    tlb_t       old_word;
    tlb_t       new_word;
  } write_t;

  // Steps of the blocks in a cycle, and the numbers of requests, slots, flushes and fences before it. A slot retires when the responder
  // has passed it.
  typedef struct packed {
    logic         submitted;
    logic         requested;
    logic         responded;
    index_t       requests;
    index_t       slots;
    index_t       pending;
    logic         retire_valid;
    tag_t         retire_tag;    // the slot
    write_t [0:0] write;         // of the TLB
  } trace_t;
endpackage
/* verilator lint_on UNUSEDPARAM */
