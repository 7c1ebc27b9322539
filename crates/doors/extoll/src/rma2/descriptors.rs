// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptors that a program fills itself, and may post any number of times.

use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;

use selvedge_process::nic::rma::{Descriptor, DescriptorError, Operation, code};
use selvedge_process::nic::tables::LOCKS;

use super::codes::{Code, Outcome, value};
use super::port::{Connection, Port, port_and_connection};

const DESCRIPTORS_MAX: u32 = 4096;

/// `RMA2_Descriptor`.
#[repr(C, align(16))]
pub struct UserDescriptor {
    list: [usize; 2],
    handle: *const c_void,
    reserved0: u64,
    value: [u64; 3],
    reserved1: u64,
}

const _: () = assert!(size_of::<UserDescriptor>() == 64);

/// # Safety
/// As `rma2.h` says: `descriptor` has room for a pointer, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_desc_alloc(port: *const c_void, descriptor: *mut *mut UserDescriptor) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::get(port) }.and_then(|port| {
        if descriptor.is_null() {
            return Err(Code::WrongArg);
        }
        if port.descriptors.fetch_add(1, Relaxed) >= DESCRIPTORS_MAX {
            port.descriptors.fetch_sub(1, Relaxed);
            return Err(Code::NoDescMem);
        }
        let made = Box::new(UserDescriptor {
            list: [0; 2],
            handle: std::ptr::null(),
            reserved0: 0,
            value: [0; 3],
            reserved1: 0,
        });
        // SAFETY: not null; the caller says that it has room.
        unsafe { descriptor.write(Box::into_raw(made)) };
        Ok(())
    }))
}

/// # Safety
/// As `rma2.h` says: `descriptor` is one of `rma2_desc_alloc` of this port, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_desc_free(port: *const c_void, descriptor: *mut UserDescriptor) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::get(port) }.and_then(|port| {
        if descriptor.is_null() {
            return Err(Code::WrongArg);
        }
        port.descriptors.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1)).map_err(|_| Code::InvValue)?;
        // SAFETY: not null; the caller says that `rma2_desc_alloc` made it, and it is freed once.
        drop(unsafe { Box::from_raw(descriptor) });
        Ok(())
    }))
}

/// # Safety
/// As `rma2.h` says: `count` has room for a number, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_desc_query_free(port: *const c_void, count: *mut i32) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::get(port) }.and_then(|port| {
        if count.is_null() {
            return Err(Code::WrongArg);
        }
        let free = DESCRIPTORS_MAX.saturating_sub(port.descriptors.load(Relaxed));
        // SAFETY: not null; the caller says that it has room.
        unsafe { count.write(free as i32) };
        Ok(())
    }))
}

/// Stores a command in a program's descriptor.
///
/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
unsafe fn set(
    descriptor: *mut UserDescriptor,
    handle: *const c_void,
    (spec, modifiers): (u32, u32),
    code: u8,
    operation: Operation,
) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let connection = unsafe { Connection::get(handle) }?;
        // SAFETY: the caller's.
        let descriptor = unsafe { descriptor.as_mut() }.ok_or(Code::WrongArg)?;
        if spec > 7 || modifiers > 15 {
            return Err(Code::InvValue);
        }
        let (node, vpid) = (connection.node, connection.vpid as u8);
        let command = Descriptor { code, node, vpid, spec: spec as u8, modifiers: modifiers as u8, operation };
        let words = command.encode();
        if matches!(Descriptor::decode(&words), Err(DescriptorError::Alignment)) {
            return Err(Code::InvValue);
        }
        descriptor.handle = handle;
        descriptor.value = words;
        Ok(())
    })())
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_desc_set_put_get(
    descriptor: *mut UserDescriptor,
    handle: *const c_void,
    command: u32,
    count: u32,
    spec: u32,
    modifiers: u32,
    read: u64,
    write: u64,
) -> i32 {
    let (code, operation) = match command as u8 {
        code @ (code::BT_PUT | code::QW_PUT) if command < 16 => (code, Operation::Put { read, write, bytes: count }),
        code @ (code::BT_GET | code::QW_GET) if command < 16 => (code, Operation::Get { read, write, bytes: count }),
        _ => return Code::WrongCmd as i32,
    };
    if !(1..=selvedge_process::nic::rma::descriptor::BYTES_MAX).contains(&count) {
        return Code::InvValue as i32;
    }
    // SAFETY: the caller's.
    unsafe { set(descriptor, handle, (spec, modifiers), code, operation) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_desc_set_immediate_put(
    descriptor: *mut UserDescriptor,
    handle: *const c_void,
    spec: u32,
    modifiers: u32,
    count: u32,
    write: u64,
    payload: u64,
) -> i32 {
    if !(1..=8).contains(&count) {
        return Code::InvValue as i32;
    }
    let operation = Operation::ImmediatePut { write, value: payload, bytes: count };
    // SAFETY: the caller's.
    unsafe { set(descriptor, handle, (spec, modifiers), code::IMMEDIATE_PUT, operation) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_desc_set_noti_put(
    descriptor: *mut UserDescriptor,
    handle: *const c_void,
    spec: u32,
    modifiers: u32,
    class: u8,
    payload: u64,
) -> i32 {
    let operation = Operation::NotificationPut { value: payload, class };
    // SAFETY: the caller's.
    unsafe { set(descriptor, handle, (spec, modifiers), code::NOTIFICATION_PUT, operation) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_desc_set_lock(
    descriptor: *mut UserDescriptor,
    handle: *const c_void,
    spec: u32,
    modifiers: u32,
    _unit: u8,
    number: u32,
    compare: u32,
    add: u32,
) -> i32 {
    if number as usize >= LOCKS {
        return Code::InvValue as i32;
    }
    let operation = Operation::Lock { number, compare: compare as i32, add: add as i32 };
    // SAFETY: the caller's.
    unsafe { set(descriptor, handle, (spec, modifiers), code::LOCK, operation) }
}

/// # Safety
/// As `rma2.h` says: the descriptor is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_desc_set_notification_value(
    descriptor: *mut UserDescriptor,
    class: u8,
    payload: u64,
) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let descriptor = unsafe { descriptor.as_mut() }.ok_or(Code::WrongArg)?;
        let mut command = decoded(&descriptor.value)?;
        if !matches!(command.operation, Operation::NotificationPut { .. }) {
            return Err(Code::WrongCmd);
        }
        command.operation = Operation::NotificationPut { value: payload, class };
        descriptor.value = command.encode();
        Ok(())
    })())
}

fn decoded(words: &[u64; 3]) -> Outcome<Descriptor> {
    // A descriptor that was never filled in.
    if words[0] & 3 != 3 {
        return Err(Code::WrongCmd);
    }
    Descriptor::decode(words).map_err(|error| match error {
        DescriptorError::Command(_) => Code::WrongCmd,
        DescriptorError::Alignment => Code::InvValue,
    })
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_post_descriptor(
    port: *const c_void,
    handle: *const c_void,
    descriptor: *const UserDescriptor,
) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let (port, connection) = unsafe { port_and_connection(port, handle) }?;
        // SAFETY: the caller's.
        let words = unsafe { descriptor.as_ref() }.ok_or(Code::WrongArg)?.value;
        let command = Descriptor { node: connection.node, vpid: connection.vpid as u8, ..decoded(&words)? };
        port.device.post(port.vpid, connection.options.load(Relaxed), &command)?;
        Ok(())
    })())
}
