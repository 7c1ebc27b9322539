// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C types of `portals4.h` (Portals 4.3, "Base Types" and the clause of each structure), and the constants that the
//! NIC does not define.
//!
//! Invariant: sizes and offsets are those of the C header; the assertions below check them at compile time.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Code;
    use selvedge_process::nic::portals::{ack, event_kind, fail, list, options};

    /// The numbers of the reference's header.
    const REFERENCE: &str = include_str!("../../../../tests/headers/portals4.c");

    /// The reference's number for a name.
    fn of_reference(name: &str) -> u64 {
        let start = format!("VALUE({name}, ");
        let line = REFERENCE.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("no {name}"));
        let value = line.strip_suffix(");").expect("the end of a line");
        match (value.strip_prefix("0x"), value.split_once(" << ")) {
            (Some(digits), _) => u64::from_str_radix(digits, 16).expect("a number"),
            (None, Some((one, places))) => {
                one.parse::<u64>().expect("a number") << places.parse::<u32>().expect("places")
            }
            (None, None) => value.parse().expect("a number"),
        }
    }

    #[test]
    fn the_librarys_numbers_are_those_of_the_reference() {
        for (name, number) in numbers() {
            assert_eq!(number, of_reference(name), "{name}");
        }
    }

    /// The numbers of the library and the NIC for these names.
    fn numbers() -> Vec<(&'static str, u64)> {
        let words = [
            ("PTL_EQ_NONE", EQ_NONE),
            ("PTL_CT_NONE", CT_NONE),
            ("PTL_INVALID_HANDLE", INVALID_HANDLE),
            ("PTL_IFACE_DEFAULT", IFACE_DEFAULT),
            ("PTL_PID_ANY", PID_ANY),
            ("PTL_PID_MAX", PID_MAX),
            ("PTL_NID_ANY", NID_ANY),
            ("PTL_UID_ANY", UID_ANY),
            ("PTL_PT_ANY", PT_ANY),
            ("PTL_RANK_ANY", RANK_ANY),
            ("PTL_TIME_FOREVER", TIME_FOREVER),
            ("PTL_NI_MATCHING", NI_MATCHING),
            ("PTL_NI_NO_MATCHING", NI_NO_MATCHING),
            ("PTL_NI_LOGICAL", NI_LOGICAL),
            ("PTL_NI_PHYSICAL", NI_PHYSICAL),
            ("PTL_TARGET_BIND_INACCESSIBLE", FEATURE_BIND_INACCESSIBLE),
            ("PTL_TOTAL_DATA_ORDERING", FEATURE_TOTAL_DATA_ORDERING),
            ("PTL_IOVEC", options::IOVEC),
            ("PTL_ME_OP_PUT", options::OP_PUT),
            ("PTL_ME_OP_GET", options::OP_GET),
            ("PTL_ME_USE_ONCE", options::USE_ONCE),
            ("PTL_ME_UNEXPECTED_HDR_DISABLE", options::UNEXPECTED_HDR_DISABLE),
            ("PTL_ME_IS_ACCESSIBLE", options::IS_ACCESSIBLE),
            ("PTL_ME_EVENT_LINK_DISABLE", options::EVENT_LINK_DISABLE),
            ("PTL_ME_EVENT_COMM_DISABLE", options::EVENT_COMM_DISABLE),
            ("PTL_ME_EVENT_FLOWCTRL_DISABLE", options::EVENT_FLOWCTRL_DISABLE),
            ("PTL_ME_EVENT_SUCCESS_DISABLE", options::EVENT_SUCCESS_DISABLE),
            ("PTL_ME_EVENT_OVER_DISABLE", options::EVENT_OVER_DISABLE),
            ("PTL_ME_EVENT_UNLINK_DISABLE", options::EVENT_UNLINK_DISABLE),
            ("PTL_ME_EVENT_CT_COMM", options::EVENT_CT_COMM),
            ("PTL_ME_EVENT_CT_OVERFLOW", options::EVENT_CT_OVERFLOW),
            ("PTL_ME_EVENT_CT_BYTES", options::EVENT_CT_BYTES),
            ("PTL_ME_MANAGE_LOCAL", options::MANAGE_LOCAL),
            ("PTL_ME_NO_TRUNCATE", options::NO_TRUNCATE),
            ("PTL_ME_MAY_ALIGN", options::MAY_ALIGN),
            ("PTL_ME_LOCAL_INC_UH_RLENGTH", options::LOCAL_INC_UH_RLENGTH),
            ("PTL_ME_ACK_DISABLE", options::ACK_DISABLE),
            ("PTL_LE_APPEND_OPTIONS_MASK", options::LE_MASK & !options::ACK_DISABLE),
            ("PTL_ME_APPEND_OPTIONS_MASK", options::ME_MASK & !options::ACK_DISABLE),
            ("PTL_MD_EVENT_CT_SEND", options::MD_EVENT_CT_SEND),
            ("PTL_MD_EVENT_CT_REPLY", options::MD_EVENT_CT_REPLY),
            ("PTL_MD_EVENT_CT_ACK", options::MD_EVENT_CT_ACK),
            ("PTL_MD_EVENT_CT_BYTES", options::MD_EVENT_CT_BYTES),
            ("PTL_MD_UNORDERED", options::MD_UNORDERED),
            ("PTL_MD_EVENT_SUCCESS_DISABLE", options::MD_EVENT_SUCCESS_DISABLE),
            ("PTL_MD_VOLATILE", options::MD_VOLATILE),
            ("PTL_MD_EVENT_SEND_DISABLE", options::MD_EVENT_SEND_DISABLE),
            ("PTL_MD_UNRELIABLE", options::MD_UNRELIABLE),
            ("PTL_MD_OPTIONS_MASK", options::MD_MASK),
            ("PTL_PT_ONLY_USE_ONCE", options::PT_ONLY_USE_ONCE),
            ("PTL_PT_FLOWCTRL", options::PT_FLOWCTRL),
            ("PTL_PT_ONLY_TRUNCATE", options::PT_ONLY_TRUNCATE),
            ("PTL_PT_MATCH_UNORDERED", options::PT_MATCH_UNORDERED),
            ("PTL_PT_ALLOC_DISABLED", options::PT_ALLOC_DISABLED),
            ("PTL_PT_ALLOC_OPTIONS_MASK", options::PT_MASK),
        ];
        let bytes = [
            ("PTL_NO_ACK_REQ", ack::NONE),
            ("PTL_ACK_REQ", ack::FULL),
            ("PTL_CT_ACK_REQ", ack::COUNTING),
            ("PTL_OC_ACK_REQ", ack::OPERATION_COMPLETED),
            ("PTL_NI_OK", fail::OK),
            ("PTL_NI_UNDELIVERABLE", fail::UNDELIVERABLE),
            ("PTL_NI_DROPPED", fail::DROPPED),
            ("PTL_NI_PT_DISABLED", fail::PT_DISABLED),
            ("PTL_NI_PERM_VIOLATION", fail::PERM_VIOLATION),
            ("PTL_NI_OP_VIOLATION", fail::OP_VIOLATION),
            ("PTL_NI_NO_MATCH", fail::NO_MATCH),
            ("PTL_NI_SEGV", fail::SEGV),
            ("PTL_PRIORITY_LIST", list::PRIORITY),
            ("PTL_OVERFLOW_LIST", list::OVERFLOW),
            ("PTL_EVENT_GET", event_kind::GET),
            ("PTL_EVENT_GET_OVERFLOW", event_kind::GET_OVERFLOW),
            ("PTL_EVENT_PUT", event_kind::PUT),
            ("PTL_EVENT_PUT_OVERFLOW", event_kind::PUT_OVERFLOW),
            ("PTL_EVENT_ATOMIC", event_kind::ATOMIC),
            ("PTL_EVENT_ATOMIC_OVERFLOW", event_kind::ATOMIC_OVERFLOW),
            ("PTL_EVENT_FETCH_ATOMIC", event_kind::FETCH_ATOMIC),
            ("PTL_EVENT_FETCH_ATOMIC_OVERFLOW", event_kind::FETCH_ATOMIC_OVERFLOW),
            ("PTL_EVENT_REPLY", event_kind::REPLY),
            ("PTL_EVENT_SEND", event_kind::SEND),
            ("PTL_EVENT_ACK", event_kind::ACK),
            ("PTL_EVENT_PT_DISABLED", event_kind::PT_DISABLED),
            ("PTL_EVENT_LINK", event_kind::LINK),
            ("PTL_EVENT_AUTO_UNLINK", event_kind::AUTO_UNLINK),
            ("PTL_EVENT_AUTO_FREE", event_kind::AUTO_FREE),
            ("PTL_EVENT_SEARCH", event_kind::SEARCH),
        ];
        let codes = [
            ("PTL_OK", Code::Ok),
            ("PTL_ARG_INVALID", Code::ArgInvalid),
            ("PTL_CT_NONE_REACHED", Code::CtNoneReached),
            ("PTL_EQ_DROPPED", Code::EqDropped),
            ("PTL_EQ_EMPTY", Code::EqEmpty),
            ("PTL_FAIL", Code::Fail),
            ("PTL_IGNORED", Code::Ignored),
            ("PTL_IN_USE", Code::InUse),
            ("PTL_LIST_TOO_LONG", Code::ListTooLong),
            ("PTL_NO_INIT", Code::NoInit),
            ("PTL_NO_SPACE", Code::NoSpace),
            ("PTL_PID_IN_USE", Code::PidInUse),
            ("PTL_PT_FULL", Code::PtFull),
            ("PTL_PT_EQ_NEEDED", Code::PtEqNeeded),
            ("PTL_PT_IN_USE", Code::PtInUse),
            ("PTL_ABORTED", Code::Aborted),
            ("PTL_INTERRUPTED", Code::Interrupted),
        ];
        let words = words.into_iter().map(|(name, number)| (name, number.into()));
        let bytes = bytes.into_iter().map(|(name, number)| (name, number.into()));
        words.chain(bytes).chain(codes.into_iter().map(|(name, code)| (name, code as u64))).collect()
    }
}
