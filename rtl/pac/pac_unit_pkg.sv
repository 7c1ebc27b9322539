// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The engine as a unit for tests: one input port for its four buffers.

package pac_unit_pkg;
  typedef struct packed {
    logic [1:0] buffer_;  // command, put, get header, response
    engine_pkg::message_t message;
  } command_t;
endpackage
