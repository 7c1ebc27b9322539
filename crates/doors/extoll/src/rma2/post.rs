// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of librma2: from a call to a descriptor.
//!
//! The device splits transfers that are too long for one descriptor.

use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;

use selvedge_process::device::connection::Posted;
use selvedge_process::nic::rma::{Descriptor, Operation, code};
use selvedge_process::nic::tables::LOCKS;

use super::codes::{Code, Outcome, value};
use super::port::{Connection, Port, port_and_connection};
use super::regions::Region;

#[derive(Clone, Copy)]
struct Common {
    spec: u32,
    modifiers: u32,
}

impl Common {
    fn descriptor(self, connection: &Connection, code: u8, operation: Operation) -> Outcome<Descriptor> {
        if self.spec > 7 || self.modifiers > 15 {
            return Err(Code::InvValue);
        }
        Ok(Descriptor {
            code,
            node: connection.node,
            // `rma2_connect` has checked that the port exists, so the number has 8 bits.
            vpid: connection.vpid as u8,
            spec: self.spec as u8,
            modifiers: self.modifiers as u8,
            operation,
        })
    }
}

fn post(port: &Port, connection: &Connection, descriptor: &Descriptor) -> Outcome<Posted> {
    Ok(port.device.post(port.vpid, connection.options.load(Relaxed), descriptor)?)
}

fn transfer(
    (port, connection): (&Port, &Connection),
    code: u8,
    local: u64,
    bytes: u32,
    remote: u64,
    common: Common,
) -> Outcome {
    let quadwords = matches!(code, code::QW_PUT | code::QW_GET);
    if bytes == 0 || quadwords && (local | remote | u64::from(bytes)) % 8 != 0 {
        return Err(Code::InvValue);
    }
    let operation = match code {
        code::BT_PUT | code::QW_PUT => Operation::Put { read: local, write: remote, bytes },
        _ => Operation::Get { read: remote, write: local, bytes },
    };
    post(port, connection, &common.descriptor(connection, code, operation)?)?;
    Ok(())
}

/// Defines the two forms of a put or a get.
macro_rules! transfers {
    ($($name:ident, $direct:ident, $code:ident;)*) => {
        $(
            /// # Safety
            /// As `rma2.h` says: the pointers are valid or NULL.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                port: *const c_void,
                handle: *const c_void,
                region: *const Region,
                offset: u32,
                size: u32,
                remote: u64,
                spec: u32,
                modifiers: u32,
            ) -> i32 {
                value((|| {
                    // SAFETY: the caller's.
                    let objects = unsafe { port_and_connection(port, handle) }?;
                    // SAFETY: the caller's.
                    let region = unsafe { region.as_ref() }.ok_or(Code::WrongArg)?;
                    let local = region.nla_of(offset.into(), size.into())?;
                    transfer(objects, code::$code, local, size, remote, Common { spec, modifiers })
                })())
            }

            /// # Safety
            /// As `rma2.h` says: the pointers are valid or NULL.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $direct(
                port: *const c_void,
                handle: *const c_void,
                first: u64,
                size: u32,
                second: u64,
                spec: u32,
                modifiers: u32,
            ) -> i32 {
                // SAFETY: the caller's.
                value(unsafe { port_and_connection(port, handle) }.and_then(|objects| {
                    transfer(objects, code::$code, first, size, second, Common { spec, modifiers })
                }))
            }
        )*
    };
}

transfers! {
    rma2_post_put_bt, rma2_post_put_bt_direct, BT_PUT;
    rma2_post_put_qw, rma2_post_put_qw_direct, QW_PUT;
    rma2_post_get_bt, rma2_post_get_bt_direct, BT_GET;
    rma2_post_get_qw, rma2_post_get_qw_direct, QW_GET;
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_post_lock(
    port: *const c_void,
    handle: *const c_void,
    _target: u32,
    number: u32,
    compare: i32,
    add: i32,
    spec: u32,
    modifiers: u32,
) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { port_and_connection(port, handle) }.and_then(|(port, connection)| {
        if number as usize >= LOCKS {
            return Err(Code::InvValue);
        }
        let operation = Operation::Lock { number, compare, add };
        post(port, connection, &Common { spec, modifiers }.descriptor(connection, code::LOCK, operation)?).map(|_| ())
    }))
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_post_notification(
    port: *const c_void,
    handle: *const c_void,
    class: u8,
    payload: u64,
    spec: u32,
    modifiers: u32,
) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { port_and_connection(port, handle) }.and_then(|(port, connection)| {
        let operation = Operation::NotificationPut { value: payload, class };
        post(port, connection, &Common { spec, modifiers }.descriptor(connection, code::NOTIFICATION_PUT, operation)?)
            .map(|_| ())
    }))
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_post_immediate_put(
    port: *const c_void,
    handle: *const c_void,
    count: u32,
    payload: u64,
    destination: u64,
    spec: u32,
    modifiers: u32,
) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { port_and_connection(port, handle) }.and_then(|(port, connection)| {
        if !(1..=8).contains(&count) {
            return Err(Code::InvValue);
        }
        let operation = Operation::ImmediatePut { write: destination, value: payload, bytes: count };
        post(port, connection, &Common { spec, modifiers }.descriptor(connection, code::IMMEDIATE_PUT, operation)?)
            .map(|_| ())
    }))
}
