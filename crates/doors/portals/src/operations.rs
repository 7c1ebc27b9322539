// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Get, atomics and swaps without a trigger (Portals 4.3, "Data Movement Operations").
//!
//! A call checks its arguments, makes a command from them and from the descriptors ([`Plan`]), and starts it.

use std::ffi::c_void;

use selvedge_process::nic::portals::ack;
use selvedge_process::nic::tables::kind;

use crate::abi::Process;
use crate::codes::code;
use crate::plan::{Arithmetic, FetchDescriptors, Plan, Tag, Target, start};
use crate::state::initialised;

#[unsafe(no_mangle)]
pub extern "C" fn PtlGet(
    md_handle: u32,
    local_offset: u64,
    length: u64,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data: 0, ack: ack::NONE };
    start(Plan::get(md_handle, local_offset, length, &target), length, &target, &tag)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlAtomic(
    md_handle: u32,
    local_offset: u64,
    length: u64,
    ack_req: u8,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack_req };
    let arithmetic = Arithmetic { operation, datatype };
    start(Plan::atomic((md_handle, local_offset), length, &target, &tag, arithmetic), length, &target, &tag)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlFetchAtomic(
    get_md_handle: u32,
    local_get_offset: u64,
    put_md_handle: u32,
    local_put_offset: u64,
    length: u64,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack::NONE };
    let descriptors =
        FetchDescriptors { get: (get_md_handle, local_get_offset), put: (put_md_handle, local_put_offset) };
    let arithmetic = Arithmetic { operation, datatype };
    start(Plan::fetch(kind::FETCH_ATOMIC, &descriptors, length, &target, arithmetic), length, &target, &tag)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlSwap(
    get_md_handle: u32,
    local_get_offset: u64,
    put_md_handle: u32,
    local_put_offset: u64,
    length: u64,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
    operand: *const c_void,
    operation: u8,
    datatype: u8,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack::NONE };
    let descriptors =
        FetchDescriptors { get: (get_md_handle, local_get_offset), put: (put_md_handle, local_put_offset) };
    let arithmetic = Arithmetic { operation, datatype };
    start(Plan::swap(&descriptors, length, &target, operand, arithmetic), length, &target, &tag)
}

/// Atomics run on a core, under the target's lock, so memory is coherent when an atomic completes. The fence orders the
/// program's own accesses after it.
#[unsafe(no_mangle)]
pub extern "C" fn PtlAtomicSync() -> i32 {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    code(initialised())
}
