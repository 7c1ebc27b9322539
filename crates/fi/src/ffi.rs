// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libfabric's C types and constants, made from its headers by `build.rs`.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case, unsafe_op_in_unsafe_fn, dead_code, clippy::all)]
// Generated bindings have no SAFETY comments.
#![allow(clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/libfabric.rs"));
