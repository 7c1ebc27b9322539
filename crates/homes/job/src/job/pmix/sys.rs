// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of `pmix.h` that is used: types, constants and prototypes of the PMIx standard, in its C layout.

use std::ffi::{c_char, c_int};

pub(crate) const SUCCESS: c_int = 0;
pub(crate) const ERR_NOT_FOUND: c_int = -46;
pub(crate) const RANK_WILDCARD: u32 = u32::MAX - 1;
pub(crate) const SCOPE_GLOBAL: u8 = 3;

const TYPE_BOOL: u16 = 1;
const TYPE_SIZE: u16 = 4;
const TYPE_INT: u16 = 6;
const TYPE_UINT: u16 = 11;
const TYPE_UINT32: u16 = 14;
const TYPE_UINT64: u16 = 15;
const TYPE_BYTE_OBJECT: u16 = 27;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Proc {
    pub(crate) nspace: [u8; 256],
    pub(crate) rank: u32,
}

/// `pmix_value_t`: a type and a union whose largest member has two pointers and a character.
#[repr(C)]
pub(crate) struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    flag: bool,
    uint32: u32,
    int: c_int,
    uint64: u64,
    bytes: ByteObject,
    words: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ByteObject {
    bytes: *const u8,
    size: usize,
}

/// `pmix_info_t`.
#[repr(C)]
pub(crate) struct Info {
    key: [u8; 512],
    flags: u32,
    value: Value,
}

pub(crate) type Init = unsafe extern "C" fn(*mut Proc, *const Info, usize) -> c_int;
pub(crate) type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
pub(crate) type Commit = unsafe extern "C" fn() -> c_int;
pub(crate) type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
pub(crate) type Get = unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
pub(crate) type Abort = unsafe extern "C" fn(c_int, *const c_char, *const Proc, usize) -> c_int;
pub(crate) type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Proc>() == 260);
    assert!(size_of::<Value>() == 32);
    assert!(std::mem::offset_of!(Value, data) == 8);
    assert!(std::mem::offset_of!(Info, value) == 520);
    assert!(size_of::<Info>() == 552);
};

impl Proc {
    pub(crate) fn empty() -> Proc {
        Proc { nspace: [0; 256], rank: u32::MAX }
    }
}

impl Value {
    fn zeroed(kind: u16) -> Value {
        Value { kind, data: Data { words: [0; 3] } }
    }

    /// Makes a value that points to these bytes, which must outlive it.
    pub(crate) fn byte_object(bytes: &[u8]) -> Value {
        let mut value = Value::zeroed(TYPE_BYTE_OBJECT);
        value.data.bytes = ByteObject { bytes: bytes.as_ptr(), size: bytes.len() };
        value
    }

    /// Returns pointer and length of a byte object; None for other values.
    pub(crate) fn bytes(&self) -> Option<(*const u8, usize)> {
        if self.kind != TYPE_BYTE_OBJECT {
            return None;
        }
        // SAFETY: `kind` is TYPE_BYTE_OBJECT, so `bytes` is the member that was written.
        let ByteObject { bytes, size } = unsafe { self.data.bytes };
        Some((bytes, size))
    }

    /// Returns the number, if its type can count ranks.
    pub(crate) fn count(&self) -> Option<u32> {
        // SAFETY: `kind` says which member was written. Every member starts at the union's start, and any bits are a valid integer.
        unsafe {
            match self.kind {
                TYPE_UINT | TYPE_UINT32 => Some(self.data.uint32),
                TYPE_INT => u32::try_from(self.data.int).ok(),
                TYPE_SIZE | TYPE_UINT64 => u32::try_from(self.data.uint64).ok(),
                _ => None,
            }
        }
    }
}

impl Info {
    /// Makes a directive that is on or off.
    pub(crate) fn flag(name: &str, on: bool) -> Info {
        let mut info = Info { key: [0; 512], flags: 0, value: Value::zeroed(TYPE_BOOL) };
        info.value.data.flag = on;
        for (to, from) in info.key.iter_mut().take(511).zip(name.bytes()) {
            *to = from;
        }
        info
    }
}
