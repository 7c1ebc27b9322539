// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C types of `portals4.h` (Portals 4.3, "Base Types" and the clause of each structure), and those of its constants that the
//! NIC does not define.
//!
//! Invariant: sizes and offsets are those of the C header; the assertions below check them when the crate is compiled.

use std::ffi::c_void;

/// `ptl_process_t`: a union of a rank and (nid, pid).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The nid, or the rank.
    pub nid: u32,
    pub pid: u32,
}

/// `ptl_md_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Md {
    pub start: *mut c_void,
    pub length: u64,
    pub options: u32,
    pub eq_handle: u32,
    pub ct_handle: u32,
}

/// `ptl_iovec_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IoVec {
    pub base: *mut c_void,
    pub length: u64,
}

/// `ptl_le_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Le {
    pub start: *mut c_void,
    pub length: u64,
    pub ct_handle: u32,
    pub uid: u32,
    pub options: u32,
}

/// `ptl_me_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Me {
    pub start: *mut c_void,
    pub length: u64,
    pub ct_handle: u32,
    pub uid: u32,
    pub options: u32,
    pub match_id: Process,
    pub match_bits: u64,
    pub ignore_bits: u64,
    pub min_free: u64,
}

/// `ptl_ct_event_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtEvent {
    pub success: u64,
    pub failure: u64,
}

/// `ptl_event_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    pub start: *mut c_void,
    pub user_ptr: *mut c_void,
    pub hdr_data: u64,
    pub match_bits: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub remote_offset: u64,
    pub initiator: Process,
    pub uid: u32,
    pub pt_index: u32,
    pub kind: u8,
    pub ptl_list: u8,
    pub ni_fail_type: u8,
    pub atomic_operation: u8,
    pub atomic_type: u8,
}

/// `ptl_ni_limits_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NiLimits {
    pub max_entries: i32,
    pub max_unexpected_headers: i32,
    pub max_mds: i32,
    pub max_cts: i32,
    pub max_eqs: i32,
    pub max_pt_index: i32,
    pub max_iovecs: i32,
    pub max_list_size: i32,
    pub max_triggered_ops: i32,
    pub max_msg_size: u64,
    pub max_atomic_size: u64,
    pub max_fetch_atomic_size: u64,
    pub max_waw_ordered_size: u64,
    pub max_war_ordered_size: u64,
    pub max_volatile_size: u64,
    pub features: u32,
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<Process>() == 8);
    assert!(size_of::<Md>() == 32 && offset_of!(Md, ct_handle) == 24);
    assert!(size_of::<IoVec>() == 16);
    assert!(size_of::<Le>() == 32 && offset_of!(Le, options) == 24);
    assert!(size_of::<Me>() == 64 && offset_of!(Me, match_id) == 28 && offset_of!(Me, match_bits) == 40);
    assert!(size_of::<Event>() == 80 && offset_of!(Event, kind) == 72);
    assert!(size_of::<NiLimits>() == 96 && offset_of!(NiLimits, max_msg_size) == 40);
};

pub const EQ_NONE: u32 = 0x3fff_ffff;
pub const CT_NONE: u32 = 0x5fff_ffff;
pub const INVALID_HANDLE: u32 = u32::MAX;
pub const IFACE_DEFAULT: u32 = u32::MAX;
pub const PID_ANY: u32 = 0xffff;
pub const PID_MAX: u32 = 1024;
pub const NID_ANY: u32 = 0xffff;
pub const UID_ANY: u32 = u32::MAX;
pub const PT_ANY: u32 = u32::MAX;
pub const RANK_ANY: u32 = u32::MAX;
pub const TIME_FOREVER: u32 = u32::MAX;

pub const NI_MATCHING: u32 = 1;
pub const NI_NO_MATCHING: u32 = 2;
pub const NI_LOGICAL: u32 = 4;
pub const NI_PHYSICAL: u32 = 8;

pub const FEATURE_BIND_INACCESSIBLE: u32 = 1;
pub const FEATURE_TOTAL_DATA_ORDERING: u32 = 2;
