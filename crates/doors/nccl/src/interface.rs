// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NCCL's collective network (`ncclCollNet_v6_t` to `_v12_t`). Parts common to versions are defined once.
//!
//! Invariant: all members of a table are pointers, so a table made of several structures has the layout of a flat one.

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

use selvedge_nic::arithmetic::{Datatype, Operation};

/// `ncclResult_t`.
pub const SUCCESS: c_int = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// System error: no memory for a group, or no connection to the other ranks.
    System = 2,
    Internal = 3,
    Argument = 4,
    /// Ranks disagree on an operation.
    Usage = 5,
    /// A rank has died.
    Remote = 6,
}

/// `NCCL_NET_HANDLE_MAXSIZE`.
pub const HANDLE_BYTES: usize = 128;
/// The kind of memory that is supported: the host's.
pub const PTR_HOST: c_int = 1;
/// Limit of an operation, because `test` returns lengths as an `int`.
pub const BYTES_MAX: usize = 1 << 30;

/// `ncclDataType_t` by number: from `ncclInt8` to `ncclBfloat16`.
const DATATYPES: [Datatype; 10] = [
    Datatype::Int8,
    Datatype::Uint8,
    Datatype::Int32,
    Datatype::Uint32,
    Datatype::Int64,
    Datatype::Uint64,
    Datatype::Half,
    Datatype::Float,
    Datatype::Double,
    Datatype::Bfloat16,
];

/// `ncclRedOp_t` by number: from `ncclSum` to `ncclMin`.
const OPERATIONS: [Operation; 4] = [Operation::Sum, Operation::Prod, Operation::Max, Operation::Min];

pub fn datatype(number: c_int) -> Option<Datatype> {
    DATATYPES.get(usize::try_from(number).ok()?).copied()
}

pub fn operation(number: c_int) -> Option<Operation> {
    OPERATIONS.get(usize::try_from(number).ok()?).copied()
}

/// The properties of the device, for NCCL.
const NAME: *const c_char = c"selvedge".as_ptr();
/// Mbit/s, about the speed of one host's memory. NCCL compares it with that of other networks.
const SPEED: c_int = 100_000;
const COMMS_MAX: c_int = 1 << 16;

/// The properties in a version's structure.
pub trait Properties {
    fn of(guid: u64) -> Self;
}

#[repr(C)]
pub struct Properties6 {
    name: *const c_char,
    pci_path: *const c_char,
    guid: u64,
    ptr_support: c_int,
    speed: c_int,
    port: c_int,
    latency: f32,
    max_comms: c_int,
    max_recvs: c_int,
}

impl Properties for Properties6 {
    fn of(guid: u64) -> Self {
        Properties6 {
            name: NAME,
            pci_path: ptr::null(),
            guid,
            ptr_support: PTR_HOST,
            speed: SPEED,
            port: 1,
            latency: 0.0,
            max_comms: COMMS_MAX,
            max_recvs: 1,
        }
    }
}

#[repr(C)]
pub struct Properties7 {
    before: Properties6,
    device_type: c_int,
    device_version: c_int,
}

impl Properties for Properties7 {
    fn of(guid: u64) -> Self {
        Properties7 { before: Properties6::of(guid), device_type: 0, device_version: 0 }
    }
}

#[repr(C)]
pub struct Properties8 {
    name: *const c_char,
    pci_path: *const c_char,
    guid: u64,
    ptr_support: c_int,
    /// A registration is valid for all communicators.
    reg_is_global: c_int,
    speed: c_int,
    port: c_int,
    latency: f32,
    max_comms: c_int,
    max_recvs: c_int,
    device_type: c_int,
    device_version: c_int,
}

impl Properties for Properties8 {
    fn of(guid: u64) -> Self {
        Properties8 {
            name: NAME,
            pci_path: ptr::null(),
            guid,
            ptr_support: PTR_HOST,
            reg_is_global: 1,
            speed: SPEED,
            port: 1,
            latency: 0.0,
            max_comms: COMMS_MAX,
            max_recvs: 1,
            device_type: 0,
            device_version: 0,
        }
    }
}

/// Versions 9 and 10, with room for 4 physical devices; later versions begin with it, too.
#[repr(C)]
pub struct Properties9<const DEVICES: usize = 4> {
    name: *const c_char,
    pci_path: *const c_char,
    guid: u64,
    ptr_support: c_int,
    reg_is_global: c_int,
    force_flush: c_int,
    speed: c_int,
    port: c_int,
    latency: f32,
    max_comms: c_int,
    max_recvs: c_int,
    device_type: c_int,
    device_version: c_int,
    devices: c_int,
    device: [c_int; DEVICES],
    max_p2p_bytes: usize,
    max_coll_bytes: usize,
}

impl<const DEVICES: usize> Properties for Properties9<DEVICES> {
    fn of(guid: u64) -> Self {
        Properties9 {
            name: NAME,
            pci_path: ptr::null(),
            guid,
            ptr_support: PTR_HOST,
            reg_is_global: 1,
            force_flush: 0,
            speed: SPEED,
            port: 1,
            latency: 0.0,
            max_comms: COMMS_MAX,
            max_recvs: 1,
            device_type: 0,
            device_version: 0,
            devices: 1,
            device: [0; DEVICES],
            max_p2p_bytes: BYTES_MAX,
            max_coll_bytes: BYTES_MAX,
        }
    }
}

#[repr(C)]
pub struct Properties11 {
    before: Properties9,
    max_multi_request_size: c_int,
}

impl Properties for Properties11 {
    fn of(guid: u64) -> Self {
        Properties11 { before: Properties9::of(guid), max_multi_request_size: 1 }
    }
}

#[repr(C)]
pub struct Properties12 {
    before: Properties9<8>,
    max_multi_request_size: c_int,
    rail: i16,
    plane: i16,
}

impl Properties for Properties12 {
    fn of(guid: u64) -> Self {
        Properties12 { before: Properties9::of(guid), max_multi_request_size: 1, rail: -1, plane: -1 }
    }
}

/// A part of a buffer: `ncclNetSGE_v8_t` with lengths of 32 bits, later ones with `usize`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Part<L> {
    pub handle: *mut c_void,
    pub address: *mut u8,
    pub bytes: L,
}

/// The functions of a table, with types that differ: initialization `I`, properties `P`, listening `S`, registration
/// `R` and counts `C`.
#[repr(C)]
pub struct Begin<I, P, S, R, C> {
    pub name: *const c_char,
    pub init: I,
    pub devices: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub get_properties: unsafe extern "C" fn(c_int, *mut P) -> c_int,
    pub listen: S,
    pub connect: unsafe extern "C" fn(*mut *mut c_void, c_int, c_int, *mut c_void, *mut *mut c_void) -> c_int,
    pub reduce_support: unsafe extern "C" fn(c_int, c_int, *mut c_int) -> c_int,
    pub reg_mr: unsafe extern "C" fn(*mut c_void, *mut c_void, R, c_int, *mut *mut c_void) -> c_int,
    pub reg_mr_dmabuf:
        unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int, u64, c_int, *mut *mut c_void) -> c_int,
    pub dereg_mr: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    #[allow(clippy::type_complexity)]
    pub iallreduce: unsafe extern "C" fn(
        *mut c_void,
        *mut c_void,
        *mut c_void,
        C,
        c_int,
        c_int,
        *mut c_void,
        *mut c_void,
        *mut *mut c_void,
    ) -> c_int,
}

/// All-gather and reduce-scatter, from version 8 on. `L`: the type of a part's length.
#[repr(C)]
pub struct Parts<L> {
    #[allow(clippy::type_complexity)]
    pub iallgather: unsafe extern "C" fn(
        *mut c_void,
        *mut c_void,
        c_int,
        *const Part<L>,
        usize,
        usize,
        usize,
        *mut c_void,
        *mut *mut c_void,
    ) -> c_int,
    #[allow(clippy::type_complexity)]
    pub ireducescatter: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *const Part<L>,
        *mut c_void,
        usize,
        usize,
        usize,
        c_int,
        c_int,
        *mut c_void,
        *mut *mut c_void,
    ) -> c_int,
}

/// For functions that earlier versions do not have.
#[repr(C)]
pub struct Nothing;

#[repr(C)]
pub struct End {
    pub iflush: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, *mut c_void, *mut *mut c_void) -> c_int,
    pub test: unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int) -> c_int,
    pub close_coll: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub close_listen: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// From version 9 on: virtual devices made of several, which are not supported.
#[repr(C)]
pub struct NoVirtualDevice(PhantomData<()>, Option<unsafe extern "C" fn()>);

impl NoVirtualDevice {
    pub const fn new() -> Self {
        NoVirtualDevice(PhantomData, None)
    }
}

/// From version 11 on.
pub type Finalize = unsafe extern "C" fn(*mut c_void) -> c_int;

/// A table that C reads: its begin, the additions of version 8, its end, and the additions of later versions.
#[repr(C)]
pub struct Table<B, M, V, F> {
    pub begin: B,
    pub parts: M,
    pub end: End,
    pub virtual_device: V,
    pub finalize: F,
}

// SAFETY: a table is never written.
unsafe impl<B, M, V, F> Sync for Table<B, M, V, F> {}

const _: () = {
    assert!(size_of::<Properties6>() == 48);
    assert!(size_of::<Properties7>() == 56);
    assert!(size_of::<Properties8>() == 64);
    assert!(size_of::<Properties9>() == 104);
    assert!(size_of::<Properties11>() == 112);
    assert!(size_of::<Properties12>() == 128);
    assert!(std::mem::offset_of!(Properties9, max_coll_bytes) == 96);
    assert!(size_of::<Part<u32>>() == 24);
};
