// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Triggered operations (Portals 4.3, "Triggered Operations"): planned like immediate ones, and armed on a counter.

use std::ffi::c_void;

use selvedge_process::nic::handle::NONE;
use selvedge_process::nic::portals::ack;
use selvedge_process::nic::portals::triggered::Action;
use selvedge_process::nic::tables::kind;

use crate::abi::{CtEvent, Me, Process};
use crate::codes::{Code, Outcome, code};
use crate::lists::Draft;
use crate::plan::{Arithmetic, FetchDescriptors, Plan, Tag, Target};
use crate::state::{Kind, Ni, find, find_ni, out};

fn arm(plan: Outcome<Plan>, length: u64, target: &Target, tag: &Tag, trig_ct_handle: u32, threshold: u64) -> i32 {
    code((|| {
        let plan = plan?;
        let command = plan.command(length, target, tag);
        arm_action(plan.ni, trig_ct_handle, threshold, Action::Command(&command))
    })())
}

fn arm_action(ni: &Ni, trig_ct_handle: u32, threshold: u64, action: Action<'_>) -> Outcome {
    let counter = ni.counter(trig_ct_handle)?;
    if counter == NONE {
        return Err(Code::ArgInvalid);
    }
    let interface = ni.interface();
    let mut guard = interface.lock();
    guard.with_revocation(|nic| nic.triggered().arm(counter, threshold, action))?;
    let fired = guard.has_fired();
    drop(guard);
    interface.settle(fired);
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredPut(
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
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack_req };
    let plan = Plan::put(md_handle, local_offset, length, &target, &tag);
    arm(plan, length, &target, &tag, trig_ct_handle, threshold)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredGet(
    md_handle: u32,
    local_offset: u64,
    length: u64,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data: 0, ack: ack::NONE };
    arm(Plan::get(md_handle, local_offset, length, &target), length, &target, &tag, trig_ct_handle, threshold)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredAtomic(
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
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack_req };
    let arithmetic = Arithmetic { operation, datatype };
    let plan = Plan::atomic((md_handle, local_offset), length, &target, &tag, arithmetic);
    arm(plan, length, &target, &tag, trig_ct_handle, threshold)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredFetchAtomic(
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
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack::NONE };
    let descriptors =
        FetchDescriptors { get: (get_md_handle, local_get_offset), put: (put_md_handle, local_put_offset) };
    let arithmetic = Arithmetic { operation, datatype };
    let plan = Plan::fetch(kind::FETCH_ATOMIC, &descriptors, length, &target, arithmetic);
    arm(plan, length, &target, &tag, trig_ct_handle, threshold)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredSwap(
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
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack::NONE };
    let descriptors =
        FetchDescriptors { get: (get_md_handle, local_get_offset), put: (put_md_handle, local_put_offset) };
    let arithmetic = Arithmetic { operation, datatype };
    let plan = Plan::swap(&descriptors, length, &target, operand, arithmetic);
    arm(plan, length, &target, &tag, trig_ct_handle, threshold)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredCTInc(ct_handle: u32, increment: CtEvent, trig_ct_handle: u32, threshold: u64) -> i32 {
    code((|| {
        let (ni, counter) = live_counter(ct_handle)?;
        if increment.success != 0 && increment.failure != 0 {
            return Err(Code::ArgInvalid);
        }
        let CtEvent { success, failure } = increment;
        arm_action(ni, trig_ct_handle, threshold, Action::CounterIncrement { counter, success, failure })
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredCTSet(ct_handle: u32, new_ct: CtEvent, trig_ct_handle: u32, threshold: u64) -> i32 {
    code((|| {
        let (ni, counter) = live_counter(ct_handle)?;
        let CtEvent { success, failure } = new_ct;
        arm_action(ni, trig_ct_handle, threshold, Action::CounterSet { counter, success, failure })
    })())
}

fn live_counter(ct_handle: u32) -> Outcome<(&'static Ni, u32)> {
    let (ni, counter) = find(ct_handle, Kind::Ct)?;
    ni.interface().signals().counter(counter).map(|_| (ni, counter)).ok_or(Code::ArgInvalid)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredMEAppend(
    ni_handle: u32,
    pt_index: u32,
    me: *const Me,
    list: u8,
    user_ptr: u64,
    me_handle: *mut u32,
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        let handle = out(me_handle)?;
        let draft = Draft::of_me(ni, me, user_ptr)?;
        if list > 1 || ni.counter(trig_ct_handle)? == NONE {
            return Err(Code::ArgInvalid);
        }
        let spec = draft.into_spec(ni)?;
        let reserved = (|| {
            let mut guard = ni.interface().lock();
            guard.portal(pt_index)?;
            if !guard.triggered().has_free_record() {
                return Err(Code::NoSpace);
            }
            Ok(guard.lists().reserve(pt_index, &spec)?)
        })();
        match reserved {
            Ok(entry) => {
                *handle = ni.handle(Kind::Me, entry);
                arm_action(ni, trig_ct_handle, threshold, Action::Append { entry, list })
            }
            Err(error) => {
                ni.interface().lock().heap().free_iov(spec.iov);
                Err(error)
            }
        }
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredMEUnlink(me_handle: u32, trig_ct_handle: u32, threshold: u64) -> i32 {
    code((|| {
        let (ni, entry) = find(me_handle, Kind::Me)?;
        ni.interface().lock().entry_index(entry).ok_or(Code::ArgInvalid)?;
        arm_action(ni, trig_ct_handle, threshold, Action::Unlink { entry })
    })())
}
