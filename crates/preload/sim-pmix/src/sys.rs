// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The used part of `pmix.h`. It is the same from version 2 of the standard on.

use std::ffi::{CStr, c_char, c_int, c_void};

pub type Status = c_int;

pub const SUCCESS: Status = 0;
pub const ERROR: Status = -1;
pub const ERR_BAD_PARAM: Status = -27;
pub const ERR_INIT: Status = -31;
pub const ERR_NOMEM: Status = -32;
pub const ERR_NOT_FOUND: Status = -46;
pub const ERR_NOT_SUPPORTED: Status = -47;

pub const RANK_UNDEF: u32 = u32::MAX;
pub const RANK_WILDCARD: u32 = u32::MAX - 1;

pub const KEY_BYTES: usize = 512;
pub const NSPACE_BYTES: usize = 256;

/// Types of values.
pub mod kind {
    pub const BOOL: u16 = 1;
    pub const STRING: u16 = 3;
    pub const SIZE: u16 = 4;
    pub const UINT16: u16 = 13;
    pub const UINT32: u16 = 14;
    pub const PROC: u16 = 22;
    pub const BYTE_OBJECT: u16 = 27;
    pub const PROC_RANK: u16 = 40;
}

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Proc {
    pub nspace: [u8; NSPACE_BYTES],
    pub rank: u32,
}

/// `pmix_value_t`.
#[repr(C)]
pub struct Value {
    pub kind: u16,
    pub data: Data,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union Data {
    pub flag: bool,
    pub uint16: u16,
    pub uint32: u32,
    pub size: usize,
    pub string: *mut c_char,
    pub process: *mut Proc,
    pub bytes: ByteObject,
    pub words: [u64; 3],
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ByteObject {
    pub bytes: *mut u8,
    pub size: usize,
}

/// `pmix_info_t`.
#[repr(C)]
pub struct Info {
    pub key: [u8; KEY_BYTES],
    pub flags: u32,
    pub value: Value,
}

pub type OperationCallback = Option<unsafe extern "C" fn(Status, *mut c_void)>;
pub type ValueCallback = Option<unsafe extern "C" fn(Status, *mut Value, *mut c_void)>;
pub type ReleaseCallback = Option<unsafe extern "C" fn(*mut c_void)>;
pub type InfoCallback =
    Option<unsafe extern "C" fn(Status, *mut Info, usize, *mut c_void, ReleaseCallback, *mut c_void)>;
pub type RegistrationCallback = Option<unsafe extern "C" fn(Status, usize, *mut c_void)>;

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Proc>() == 260);
    assert!(size_of::<Value>() == 32 && std::mem::offset_of!(Value, data) == 8);
    assert!(size_of::<Info>() == 552 && std::mem::offset_of!(Info, value) == 520);
};

/// The text of an array that may lack a terminator.
pub fn text_in(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).unwrap_or_default()
}

/// The text of a C string; `None` if it is null or not UTF-8.
///
/// # Safety
/// `key` is null or a C string that stays valid for `'a`.
pub unsafe fn key_at<'a>(key: *const c_char) -> Option<&'a str> {
    // SAFETY: `key` is not null, so this function requires it to be a C string that lives for `'a`.
    if key.is_null() { None } else { unsafe { CStr::from_ptr(key) }.to_str().ok() }
}

/// The elements of an array, whose pointer may be null when it is empty.
///
/// # Safety
/// `start` is null or points to `count` elements that stay valid and unchanged for `'a`.
pub unsafe fn slice_at<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: `start` is not null, so this function requires it to point to `count` elements that live for `'a`.
    unsafe { std::slice::from_raw_parts(start, count) }
}
