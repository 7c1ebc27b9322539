// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the RTL units, in one program. Without Verilator they print a message and pass.

mod allocator;
mod arithmetic;
mod atu;
mod common;
mod counters;
mod counters_cycles;
mod descriptors;
mod free_list;
mod layout;
mod lists;
mod pac;
mod refinement;
mod replay;
