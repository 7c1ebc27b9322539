// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notifications of librma2: probing, matching, reading.

use std::ffi::{CString, c_char, c_void};
use std::fmt::Write as _;
use std::io::Write as _;

use selvedge_process::nic::rma::{Notification, code, spec};

use super::codes::{Code, Outcome, value, write_text};
use super::port::Port;

#[unsafe(no_mangle)]
pub static RMA2_CLASS_ANY: u8 = u8::MAX;
#[unsafe(no_mangle)]
pub static RMA2_NODEID_ANY: u16 = u16::MAX;
#[unsafe(no_mangle)]
pub static RMA2_VPID_ANY: u16 = u16::MAX;
#[unsafe(no_mangle)]
pub static RMA2_LOCK_ANY: u32 = u32::MAX;
#[unsafe(no_mangle)]
pub static RMA2_ANY_NLA: u64 = u64::MAX;
#[unsafe(no_mangle)]
pub static RMA2_DEFAULT_FLAG: u32 = 0;
#[unsafe(no_mangle)]
pub static RMA2_BLOCK_FLAG: u32 = BLOCK;
#[unsafe(no_mangle)]
pub static RMA2_MATCH_LAST_NLA_FLAG: u32 = LAST_NLA;

const BLOCK: u32 = 1;
const LAST_NLA: u32 = 2;
/// Values of `RMA2_Command` that each match several commands.
const PUTS: u32 = 7;
const GETS: u32 = 14;
const ANY: u32 = 15;

/// Finds a notification, and stores its address.
///
/// # Safety
/// The port is valid or NULL; `output` has room for a pointer, or is NULL.
unsafe fn find(
    port: *const c_void,
    waits: bool,
    output: *mut *mut [u64; 2],
    matches: impl Fn(Notification) -> bool,
) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::get(port) }.and_then(|port| {
        if output.is_null() {
            return Err(Code::WrongArg);
        }
        let found = look(port, waits, |words| matches(Notification::decode(words)))?;
        // SAFETY: not null; the caller says that it has room.
        unsafe { output.write(found) };
        Ok(())
    }))
}

fn look(port: &Port, waits: bool, matches: impl Fn([u64; 2]) -> bool) -> Outcome<*mut [u64; 2]> {
    let mut reader = port.reader();
    let interface = port.device.interface();
    if waits {
        return reader.wait(interface, None, matches).map_err(|_| Code::PollExceeded);
    }
    match reader.probe(interface, matches) {
        Some(found) => Ok(found),
        None if reader.is_empty() => Err(Code::NoNoti),
        None => Err(Code::NoMatch),
    }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_probe(port: *const c_void, output: *mut *mut [u64; 2]) -> i32 {
    // SAFETY: the caller's.
    unsafe { find(port, false, output, |_| true) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_get_block(port: *const c_void, output: *mut *mut [u64; 2]) -> i32 {
    // SAFETY: the caller's.
    unsafe { find(port, true, output, |_| true) }
}

fn is_from(notification: &Notification, node: u16, vpid: u16) -> bool {
    (node == RMA2_NODEID_ANY || node == notification.node)
        && (vpid == RMA2_VPID_ANY || vpid == u16::from(notification.vpid))
}

fn is_command(notification: &Notification, command: u32) -> bool {
    let code = notification.code;
    match command {
        ANY => true,
        PUTS => matches!(code, code::BT_PUT | code::QW_PUT | code::IMMEDIATE_PUT | code::NOTIFICATION_PUT),
        GETS => matches!(code, code::BT_GET | code::QW_GET | code::GET_BT_RSP | code::GET_QW_RSP),
        other => other == u32::from(code),
    }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_match(
    port: *const c_void,
    command: u32,
    node: u16,
    vpid: u16,
    unit: u32,
    nla: u64,
    flags: i32,
    output: *mut *mut [u64; 2],
) -> i32 {
    let flags = flags as u32;
    let matches = |notification: Notification| {
        let at = match flags & LAST_NLA {
            0 => notification.word0,
            _ => notification.word0.wrapping_add(u64::from(notification.size) + 1),
        };
        is_command(&notification, command)
            && is_from(&notification, node, vpid)
            && u32::from(notification.unit) & unit != 0
            && (nla == RMA2_ANY_NLA || nla == at)
    };
    // SAFETY: the caller's.
    unsafe { find(port, flags & BLOCK != 0, output, matches) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_match_block(
    port: *const c_void,
    command: u32,
    node: u16,
    vpid: u16,
    unit: u32,
    nla: u64,
    flags: i32,
    output: *mut *mut [u64; 2],
) -> i32 {
    // SAFETY: the caller's.
    unsafe { rma2_noti_match(port, command, node, vpid, unit, nla, flags | BLOCK as i32, output) }
}

/// Finds a notification of a notification put at its destination.
///
/// # Safety
/// As [`find`].
unsafe fn find_class(
    port: *const c_void,
    class: u8,
    node: u16,
    vpid: u16,
    waits: bool,
    output: *mut *mut [u64; 2],
) -> i32 {
    let matches = |notification: Notification| {
        notification.code == code::NOTIFICATION_PUT
            && notification.unit == spec::COMPLETER
            && is_from(&notification, node, vpid)
            && (class == RMA2_CLASS_ANY || notification.size as u8 == class)
    };
    // SAFETY: the caller's.
    unsafe { find(port, waits, output, matches) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_noti_match(
    port: *const c_void,
    class: u8,
    node: u16,
    vpid: u16,
    output: *mut *mut [u64; 2],
) -> i32 {
    // SAFETY: the caller's.
    unsafe { find_class(port, class, node, vpid, false, output) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_noti_match_block(
    port: *const c_void,
    class: u8,
    node: u16,
    vpid: u16,
    output: *mut *mut [u64; 2],
) -> i32 {
    // SAFETY: the caller's.
    unsafe { find_class(port, class, node, vpid, true, output) }
}

/// Finds a notification of a lock.
///
/// # Safety
/// As [`find`].
unsafe fn find_lock(
    port: *const c_void,
    lock: u32,
    node: u16,
    vpid: u16,
    waits: bool,
    output: *mut *mut [u64; 2],
) -> i32 {
    let matches = |notification: Notification| {
        let is_refused = notification.code == code::LOCK && notification.error != 0;
        (is_refused || matches!(notification.code, code::LOCK_REQ | code::LOCK_RSP))
            && is_from(&notification, node, vpid)
            && (lock == RMA2_LOCK_ANY || notification.word0 & 0xff_ffff == u64::from(lock))
    };
    // SAFETY: the caller's.
    unsafe { find(port, waits, output, matches) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_lock_match(
    port: *const c_void,
    lock: u32,
    node: u16,
    vpid: u16,
    output: *mut *mut [u64; 2],
) -> i32 {
    // SAFETY: the caller's.
    unsafe { find_lock(port, lock, node, vpid, false, output) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_lock_match_block(
    port: *const c_void,
    lock: u32,
    node: u16,
    vpid: u16,
    output: *mut *mut [u64; 2],
) -> i32 {
    // SAFETY: the caller's.
    unsafe { find_lock(port, lock, node, vpid, true, output) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_free(port: *const c_void, notification: *const [u64; 2]) -> i32 {
    // SAFETY: the caller's.
    value(
        unsafe { Port::get(port) }
            .and_then(|port| if port.reader().free(notification) { Ok(()) } else { Err(Code::InvValue) }),
    )
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_dup(input: *const [u64; 2], output: *mut [u64; 2]) -> i32 {
    if input.is_null() || output.is_null() {
        return Code::WrongArg as i32;
    }
    // SAFETY: not null; the caller says that they are notifications.
    unsafe { output.write(input.read()) };
    0
}

/// Defines a function that reads a field of a notification. NULL gives 0.
macro_rules! fields {
    ($($name:ident -> $type:ty, $get:expr;)*) => {
        $(
            /// # Safety
            /// As `rma2.h` says: the notification is valid or NULL.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(notification: *const [u64; 2]) -> $type {
                let get: fn(Notification) -> $type = $get;
                // SAFETY: the caller's.
                unsafe { notification.as_ref() }.map_or(0, |words| get(Notification::decode(*words)))
            }
        )*
    };
}

fields! {
    rma2_noti_get_cmd -> u32, |notification| notification.code.into();
    rma2_noti_get_notification_type -> u32, |notification| notification.unit.into();
    rma2_noti_get_mode -> u32, |notification| notification.mode.into();
    rma2_noti_get_error -> u8, |notification| notification.error;
    rma2_noti_get_remote_nodeid -> u16, |notification| notification.node;
    rma2_noti_get_remote_vpid -> u16, |notification| notification.vpid.into();
    rma2_noti_get_local_address -> u64, |notification| notification.word0;
    rma2_noti_get_size -> u32, |notification| notification.size + 1;
    rma2_noti_get_lock_value -> u32, |notification| (notification.word0 >> 32) as u32;
    rma2_noti_get_lock_number -> u32, |notification| (notification.word0 & 0xff_ffff) as u32;
    rma2_noti_get_lock_result -> u8, |notification| (notification.word0 >> 24 & 1) as u8;
    rma2_noti_get_notiput_payload -> u64, |notification| notification.word0;
    rma2_noti_get_notiput_class -> u8, |notification| notification.size as u8;
}

/// # Safety
/// As `rma2.h` says: the notification is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_get_total_size(start: u64, notification: *const [u64; 2]) -> u32 {
    // SAFETY: the caller's.
    let Some(words) = (unsafe { notification.as_ref() }) else { return 0 };
    let notification = Notification::decode(*words);
    notification.word0.wrapping_add(u64::from(notification.size) + 1).wrapping_sub(start) as u32
}

fn described(notification: &Notification) -> String {
    let mut text = String::new();
    let command = match notification.code {
        code::BT_GET => "byte get",
        code::QW_GET => "quadword get",
        code::BT_PUT => "byte put",
        code::QW_PUT => "quadword put",
        code::LOCK => "lock",
        code::NOTIFICATION_PUT => "notification put",
        code::IMMEDIATE_PUT => "immediate put",
        code::GET_BT_RSP => "response to a byte get",
        code::GET_QW_RSP => "response to a quadword get",
        code::LOCK_REQ => "lock request",
        code::LOCK_RSP => "response to a lock",
        _ => "unknown command",
    };
    let unit = match notification.unit {
        spec::REQUESTER => "requester",
        spec::RESPONDER => "responder",
        spec::COMPLETER => "completer",
        _ => "several units",
    };
    let Notification { node, vpid, mode, error, word0, size, .. } = notification;
    let _ =
        write!(text, "{unit} notification: {command}, node {node}, vpid {vpid}, mode {mode:#x}, error {error:#x}, ");
    let _ = match notification.code {
        code::NOTIFICATION_PUT => write!(text, "class {size}, value {word0:#x}"),
        code::LOCK | code::LOCK_REQ | code::LOCK_RSP => {
            write!(text, "lock {}, value {}, success {}", word0 & 0xff_ffff, (word0 >> 32) as i32, word0 >> 24 & 1)
        }
        _ => write!(text, "address {word0:#x}, {} bytes", size + 1),
    };
    text
}

/// # Safety
/// As `rma2.h` says: the notification is valid or NULL; the text has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_sdump(notification: *const [u64; 2], text: *mut c_char, size: i32) {
    // SAFETY: the caller's.
    if let Some(words) = unsafe { notification.as_ref() } {
        // SAFETY: the caller's.
        unsafe { write_text(&described(&Notification::decode(*words)), text, size) };
    }
}

/// # Safety
/// As `rma2.h` says: the notification is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_dump(notification: *const [u64; 2]) {
    // SAFETY: the caller's.
    if let Some(words) = unsafe { notification.as_ref() } {
        // A closed output must not end the program.
        let _ = writeln!(std::io::stdout(), "{}", described(&Notification::decode(*words)));
    }
}

/// # Safety
/// As `rma2.h` says: the notification and the file are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_noti_fdump(notification: *const [u64; 2], file: *mut libc::FILE) {
    // SAFETY: the caller's.
    let Some(words) = (unsafe { notification.as_ref() }) else { return };
    let Ok(line) = CString::new(described(&Notification::decode(*words)) + "\n") else { return };
    if !file.is_null() {
        // SAFETY: not null; the caller says that it is a file. The line is a string.
        unsafe { libc::fputs(line.as_ptr(), file) };
    }
}
