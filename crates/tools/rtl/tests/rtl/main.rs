// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the units of the RTL, in one program. Without Verilator they say so and pass.

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
