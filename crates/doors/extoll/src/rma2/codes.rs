// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `RMA2_ERROR`, its texts, and the one place that maps the device's errors to it.

use std::ffi::{CStr, c_char};
use std::io::Write;

use selvedge_process::device::DeviceError;
use selvedge_process::device::connection::PostError;

use crate::codes::codes;

codes! {
    texts: &'static str;
    Error = -1, "the library failed";
    InvHandle = -2, "not a connection";
    InvPort = -3, "not an open port";
    InvValue = -4, "an argument is out of range";
    NoRoute = -5, "no such node or port";
    PortsUsed = -6, "all ports of the node are open";
    NoMem = -7, "the memory is not mapped, or the address tables are full (SELVEDGE_ADDRESS_TABLES)";
    NoNoti = -9, "no notification is there";
    PollExceeded = -10, "the wait was aborted";
    WrongArg = -11, "a pointer is NULL";
    NotYet = -12, "this NIC does not have the feature";
    NoDescMem = -13, "no room for the command; try again";
    NoMatch = -15, "no notification matches";
    WrongCmd = -16, "the descriptor holds no command";
    NoDevice = -17, "the process cannot join a job";
    NoConnect = -18, "the connection is closed";
    InvalidVersion = -22, "the versions of the library and of the device differ";
    Ioctl = -23, "the device refused the call";
    Mmap = -24, "no memory for the node's tables";
    Fd = -25, "the device cannot be opened";
    Map = -26, "no memory for the region's record";
    DoubleMap = 27, "the table is there already";
    NoTable = 28, "the region is not registered";
    NotFree = 29, "the region is in use";
    Part = 30, "the range is not within the region";
    Atu = 31, "the address translation unit refused the call";
    MlockLimit = 32, "the limit of locked memory is reached";
}

impl From<DeviceError> for Code {
    fn from(error: DeviceError) -> Code {
        match error {
            DeviceError::Process(error) => {
                log::error!("librma2: {error}");
                Code::NoDevice
            }
            DeviceError::Forked => Code::NoDevice,
            DeviceError::PortsUsed(_) => Code::PortsUsed,
            DeviceError::NotOpen => Code::InvPort,
            DeviceError::NotMapped { .. } => Code::NoMem,
            DeviceError::TablesFull { .. } => {
                log::warn!("librma2: {error}");
                Code::NoMem
            }
            DeviceError::NoRegion { .. } => Code::NoTable,
        }
    }
}

impl From<PostError> for Code {
    fn from(error: PostError) -> Code {
        match error {
            PostError::NotOpen => Code::InvPort,
            PostError::Full | PostError::Shortage => Code::NoDescMem,
            PostError::Memory => Code::NoMem,
            PostError::NoNode => Code::NoRoute,
            PostError::Length => Code::InvValue,
        }
    }
}

fn text_of(code: i32) -> &'static str {
    if code == 0 {
        return "success";
    }
    Code::text_of(code).unwrap_or("an unknown error")
}

/// Writes a text and its end into a buffer of C, cut to its length.
///
/// # Safety
/// The buffer has `length` writable bytes, or is NULL.
pub(super) unsafe fn write_text(text: &str, buffer: *mut c_char, length: i32) {
    let Ok(room @ 1..) = usize::try_from(length) else { return };
    if buffer.is_null() {
        return;
    }
    let bytes = text.len().min(room - 1);
    // SAFETY: the buffer has `room` bytes, and `bytes + 1` are written.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), bytes);
        buffer.add(bytes).write(0);
    }
}

/// # Safety
/// As `rma2.h` says: the buffer has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_serror(error: i32, buffer: *mut c_char, length: i32) {
    // SAFETY: the caller's.
    unsafe { write_text(text_of(error), buffer, length) };
}

/// # Safety
/// As `rma2.h` says: the header is a string, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_perror(error: i32, header: *const c_char) {
    if header.is_null() {
        let _ = writeln!(std::io::stderr(), "{}", text_of(error));
    } else {
        // SAFETY: not null; the caller says that it is a string.
        let header = unsafe { CStr::from_ptr(header) }.to_string_lossy();
        let _ = writeln!(std::io::stderr(), "{header}: {}", text_of(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_texts() {
        assert_eq!(text_of(0), "success");
        assert_eq!(text_of(-3), "not an open port");
        assert_eq!(text_of(1000), "an unknown error");
    }

    #[test]
    fn texts_are_cut_to_their_buffer() {
        let mut buffer = [1 as c_char; 8];
        // SAFETY: the buffer has 8 bytes.
        unsafe { rma2_serror(-3, buffer.as_mut_ptr(), 8) };
        assert_eq!(buffer.map(|byte| byte as u8), *b"not an \0");
        // SAFETY: nothing is written.
        unsafe { rma2_serror(-3, buffer.as_mut_ptr(), 0) };
        // SAFETY: NULL is allowed.
        unsafe { rma2_serror(-3, std::ptr::null_mut(), 8) };
        assert_eq!(buffer[7], 0);
    }
}
