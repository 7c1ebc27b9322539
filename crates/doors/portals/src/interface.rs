// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Initialisation, interfaces, identities, logical maps (Portals 4.3, "Initialization and Cleanup", "Network Interfaces",
//! "User Identification", "Process Identification").
//!
//! Invariants
//! 1. A program gets exactly the limits that it asks for, up to what a table can hold: 2^20 records, 2^16 portal table indices.
//!    `max_pt_index` is never below 63, the least that the specification allows.
//! 2. A limit of zero is granted as zero, with two exceptions. Programs written before `max_triggered_ops` and
//!    `max_fetch_atomic_size` existed leave them at zero. They get the default number of triggered operations, and fetching
//!    atomics as large as other atomics.
//! 3. Interfaces are opened and closed one at a time, under a mutex of this process.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use selvedge_process::nic::{Limits, Register};
use selvedge_process::process::ProcessError;
use selvedge_process::{OpenError, Process as HostProcess};

use crate::abi::*;
use crate::codes::{Code, Outcome, code};
use crate::state::{
    Kind, Ni, REFERENCE, find_ni, initialised, inits, input, lock_openings, open_interface, out, publish, withdraw,
};

/// Limit of `max_msg_size`. It is beyond any address.
const MSG_BYTES_MAX: u64 = 1 << 62;
/// Size of the largest atomic: the default and the limit. The target's lock is held during an atomic.
const ATOMIC_BYTES_DEFAULT: u64 = 64 << 10;
const ATOMIC_BYTES_MAX: u64 = 1 << 30;
/// The smallest granted `max_pt_index`.
const PT_INDEX_MIN: i32 = 63;

#[unsafe(no_mangle)]
pub extern "C" fn PtlInit() -> i32 {
    let _openings = lock_openings();
    if HostProcess::current().map_err(|error| log::error!("PtlInit: {error}")).is_err() {
        return Code::Fail as i32;
    }
    if inits().fetch_add(1, SeqCst) == 0 {
        selvedge_process::abort_reset();
    }
    Code::Ok as i32
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlFini() {
    let _openings = lock_openings();
    match inits().load(SeqCst) {
        0 => {}
        1 => {
            for number in 0..crate::state::INTERFACES as u32 {
                close(number);
            }
            inits().store(0, SeqCst);
        }
        _ => {
            inits().fetch_sub(1, SeqCst);
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlAbort() {
    selvedge_process::abort_waits();
    for number in 0..crate::state::INTERFACES as u32 {
        if let Some(ni) = open_interface(number) {
            ni.interface().wake();
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlNIInit(
    iface: u32,
    options: u32,
    pid: u32,
    desired: *const NiLimits,
    actual: *mut NiLimits,
    ni_handle: *mut u32,
) -> i32 {
    code(ni_init(iface, options, pid, desired, actual, ni_handle))
}

fn ni_init(
    iface: u32,
    options: u32,
    pid: u32,
    desired: *const NiLimits,
    actual: *mut NiLimits,
    ni_handle: *mut u32,
) -> Outcome {
    initialised()?;
    let handle = out(ni_handle)?;
    if iface != IFACE_DEFAULT && iface != 0 {
        return Err(Code::ArgInvalid);
    }
    let (matching, logical) = match options {
        o if o == NI_MATCHING | NI_LOGICAL => (true, true),
        o if o == NI_NO_MATCHING | NI_LOGICAL => (false, true),
        o if o == NI_MATCHING | NI_PHYSICAL => (true, false),
        o if o == NI_NO_MATCHING | NI_PHYSICAL => (false, false),
        _ => return Err(Code::ArgInvalid),
    };
    if pid > PID_MAX && pid != PID_ANY {
        return Err(Code::ArgInvalid);
    }
    let (limits, actual_limits) = limits_for(input(desired).ok())?;
    let number = u32::from(!matching) | u32::from(!logical) << 1;
    let _openings = lock_openings();
    let ni = match open_interface(number) {
        Some(ni) => {
            ni.openings.fetch_add(1, SeqCst);
            ni
        }
        None => {
            let process = HostProcess::current().map_err(|error| failed("PtlNIInit", &error))?;
            let wanted = (pid != PID_ANY).then_some(pid as u16);
            let opened = process.open(number, wanted, &limits).map_err(|error| failed("PtlNIInit", &error))?;
            publish(Box::new(Ni::new(opened, number, logical, matching, actual_limits, own_uid())))
        }
    };
    if let Ok(actual) = out(actual) {
        *actual = ni.limits;
    }
    *handle = ni.handle(Kind::Ni, 0);
    Ok(())
}

/// The code of a failure to open. Logs the error, except for a pid in use, which the code expresses fully.
fn failed(call: &str, error: &ProcessError) -> Code {
    use selvedge_process::process::ClaimError;
    let code = match error {
        ProcessError::Claim(ClaimError::InUse { .. }) => Code::PidInUse,
        ProcessError::Claim(ClaimError::OutOfRange { .. }) => Code::ArgInvalid,
        ProcessError::Claim(ClaimError::Exhausted)
        | ProcessError::Open(OpenError::NoSpace(_) | OpenError::Shortage(_)) => Code::NoSpace,
        _ => Code::Fail,
    };
    if code != Code::PidInUse {
        log::error!("{call}: {error}");
    }
    code
}

fn own_uid() -> u32 {
    selvedge_process::process::own_uid()
}

/// The NIC's limits for a program's desired limits, and the granted ones in C form.
fn limits_for(desired: Option<&NiLimits>) -> Outcome<(Limits, NiLimits)> {
    let default = Limits::DEFAULT;
    let Some(desired) = desired else {
        return Ok((default, granted(&default, None)));
    };
    let wish = |value: i32| u32::try_from(value).map_err(|_| Code::ArgInvalid);
    let limits = Limits {
        entries: wish(desired.max_entries)?,
        headers: wish(desired.max_unexpected_headers)?,
        descriptors: wish(desired.max_mds)?,
        counters: wish(desired.max_cts)?,
        queues: wish(desired.max_eqs)?,
        portals: wish(desired.max_pt_index)?.max(PT_INDEX_MIN as u32).saturating_add(1),
        triggered: match wish(desired.max_triggered_ops)? {
            0 => default.triggered,
            wanted => wanted,
        },
        iovecs: wish(desired.max_iovecs)?,
        list: wish(desired.max_list_size)?,
        ..default
    }
    .clamped();
    Ok((limits, granted(&limits, Some(desired))))
}

/// The limits in the C form. Sizes of messages have no table in the NIC, so they are taken from `desired`.
fn granted(limits: &Limits, desired: Option<&NiLimits>) -> NiLimits {
    let size = |wish: fn(&NiLimits) -> u64, default: u64, most: u64| desired.map_or(default, |d| wish(d).min(most));
    let count = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    NiLimits {
        max_entries: count(limits.entries),
        max_unexpected_headers: count(limits.headers),
        max_mds: count(limits.descriptors),
        max_cts: count(limits.counters),
        max_eqs: count(limits.queues),
        max_pt_index: count(limits.portals - 1),
        max_iovecs: count(limits.iovecs),
        max_list_size: count(limits.list),
        max_triggered_ops: count(limits.triggered),
        max_msg_size: size(|d| d.max_msg_size, MSG_BYTES_MAX, MSG_BYTES_MAX),
        max_atomic_size: size(|d| d.max_atomic_size, ATOMIC_BYTES_DEFAULT, ATOMIC_BYTES_MAX),
        max_fetch_atomic_size: match size(|d| d.max_fetch_atomic_size, ATOMIC_BYTES_DEFAULT, ATOMIC_BYTES_MAX) {
            0 => size(|d| d.max_atomic_size, ATOMIC_BYTES_DEFAULT, ATOMIC_BYTES_MAX),
            wanted => wanted,
        },
        max_waw_ordered_size: size(|d| d.max_waw_ordered_size.max(64), MSG_BYTES_MAX, MSG_BYTES_MAX),
        max_war_ordered_size: size(|d| d.max_war_ordered_size.max(8), MSG_BYTES_MAX, MSG_BYTES_MAX),
        max_volatile_size: size(|d| d.max_volatile_size, MSG_BYTES_MAX, MSG_BYTES_MAX),
        features: FEATURE_BIND_INACCESSIBLE | FEATURE_TOTAL_DATA_ORDERING,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlNIFini(ni_handle: u32) -> i32 {
    code((|| {
        initialised()?;
        let _openings = lock_openings();
        let ni = find_ni(ni_handle)?;
        if ni.openings.fetch_sub(1, SeqCst) == 1 {
            close(ni.number);
        }
        Ok(())
    })())
}

/// Closes an interface: first ends the waits of other threads, then frees its objects.
fn close(number: u32) {
    let Some(ni) = open_interface(number) else { return };
    ni.interface().shut();
    if let Some(ni) = withdraw(number) {
        let interface = Arc::clone(&ni.opened.interface);
        drop(ni);
        drop(interface);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlNIStatus(ni_handle: u32, status_register: u32, status: *mut i32) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        let registers = ni.interface().signals().registers;
        let value = match status_register {
            0 => registers.get(Register::Dropped) + registers.get(Register::RefusedDisabled),
            1 => registers.get(Register::PermissionViolations),
            2 => registers.get(Register::OperationViolations),
            _ => return Err(Code::ArgInvalid),
        };
        *out(status)? = i32::try_from(value).unwrap_or(i32::MAX);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlNIHandle(handle: u32, ni_handle: *mut u32) -> i32 {
    code((|| {
        initialised()?;
        let result = out(ni_handle)?;
        let ni = open_interface(handle >> 27 & 3).ok_or(Code::ArgInvalid)?;
        let reference = handle & REFERENCE;
        let signals = ni.interface().signals();
        let live = match handle >> 29 {
            kind if kind == Kind::Ni as u32 => reference == 0,
            kind if kind == Kind::Eq as u32 => signals.queue(reference).is_some(),
            kind if kind == Kind::Ct as u32 => signals.counter(reference).is_some(),
            kind if kind == Kind::Md as u32 => signals.descriptor(reference).is_some(),
            kind if kind == Kind::Le as u32 => !ni.matching && ni.interface().lock().entry_index(reference).is_some(),
            kind if kind == Kind::Me as u32 => ni.matching && ni.interface().lock().entry_index(reference).is_some(),
            _ => false,
        };
        if !live {
            return Err(Code::ArgInvalid);
        }
        *result = ni.handle(Kind::Ni, 0);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlSetMap(ni_handle: u32, map_size: u64, mapping: *const Process) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        let most = u64::from(PID_MAX) * 64;
        if !ni.logical || map_size == 0 || map_size > most || mapping.is_null() {
            return Err(Code::ArgInvalid);
        }
        if !selvedge_process::memory_is_readable(mapping as u64, map_size * size_of::<Process>() as u64) {
            return Err(Code::ArgInvalid);
        }
        // SAFETY: not null, and `map_size` elements were just found readable. The clause of `PtlSetMap` gives them to the call to read.
        let mapping = unsafe { std::slice::from_raw_parts(mapping, map_size as usize) };
        ni.set_map(mapping.iter().map(|process| u64::from(process.nid) << 32 | u64::from(process.pid)).collect())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlGetMap(ni_handle: u32, map_size: u64, mapping: *mut Process, actual_map_size: *mut u64) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        if !ni.logical || (map_size != 0 && mapping.is_null()) || (map_size == 0 && actual_map_size.is_null()) {
            return Err(Code::ArgInvalid);
        }
        let map: &[u64] = ni.map().map_or(&[], |map| map);
        for (index, id) in map.iter().enumerate().take(usize::try_from(map_size).unwrap_or(usize::MAX)) {
            // SAFETY: not null where `map_size` is above zero, and the index is below `map_size`: the clause of
            // `PtlGetMap` says that `mapping` has room for `map_size` elements.
            unsafe { mapping.add(index).write(Process { nid: (id >> 32) as u32, pid: *id as u32 }) };
        }
        if let Ok(actual) = out(actual_map_size) {
            *actual = map.len() as u64;
        }
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlGetUid(ni_handle: u32, uid: *mut u32) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        *out(uid)? = ni.uid;
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlGetId(ni_handle: u32, id: *mut Process) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        *out(id)? = ni.process(ni.initiator_id());
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlGetPhysId(ni_handle: u32, id: *mut Process) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        *out(id)? = Process { nid: (ni.interface().id() >> 32) as u32, pid: ni.interface().id() as u32 };
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlHandleIsEqual(handle1: u32, handle2: u32) -> i32 {
    i32::from(handle1 == handle2)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlStartBundle(ni_handle: u32) -> i32 {
    code(find_ni(ni_handle).map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlEndBundle(ni_handle: u32) -> i32 {
    code(find_ni(ni_handle).map(|_| ()))
}
