// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the units of the RTL, in one program. Without Verilator they say so and pass.

mod allocator;
mod common;
mod free_list;
mod lists;
mod refinement;
