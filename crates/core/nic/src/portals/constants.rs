// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Constants of the Portals API, with its values: options, acknowledgement requests, lists, kinds of events, failures.

/// Option bits, with the values of the API.
pub mod options {
    pub const IOVEC: u32 = 1 << 0;
    pub const OP_PUT: u32 = 1 << 1;
    pub const OP_GET: u32 = 1 << 2;
    pub const USE_ONCE: u32 = 1 << 3;
    pub const UNEXPECTED_HDR_DISABLE: u32 = 1 << 4;
    pub const IS_ACCESSIBLE: u32 = 1 << 5;
    pub const EVENT_LINK_DISABLE: u32 = 1 << 6;
    pub const EVENT_COMM_DISABLE: u32 = 1 << 7;
    pub const EVENT_FLOWCTRL_DISABLE: u32 = 1 << 8;
    pub const EVENT_SUCCESS_DISABLE: u32 = 1 << 9;
    pub const EVENT_OVER_DISABLE: u32 = 1 << 10;
    pub const EVENT_UNLINK_DISABLE: u32 = 1 << 11;
    pub const EVENT_CT_COMM: u32 = 1 << 12;
    pub const EVENT_CT_OVERFLOW: u32 = 1 << 13;
    pub const EVENT_CT_BYTES: u32 = 1 << 14;
    pub const MANAGE_LOCAL: u32 = 1 << 15;
    pub const NO_TRUNCATE: u32 = 1 << 16;
    pub const MAY_ALIGN: u32 = 1 << 17;
    pub const LOCAL_INC_UH_RLENGTH: u32 = 1 << 18;
    pub const ACK_DISABLE: u32 = 1 << 19;
    /// Options that list entries of a non-matching interface may carry.
    pub const LE_MASK: u32 = ((1 << 15) - 1) | ACK_DISABLE;
    /// Options that match entries may carry.
    pub const ME_MASK: u32 = ((1 << 19) - 1) | ACK_DISABLE;

    pub const MD_EVENT_CT_SEND: u32 = 1 << 1;
    pub const MD_EVENT_CT_REPLY: u32 = 1 << 2;
    pub const MD_EVENT_CT_ACK: u32 = 1 << 3;
    pub const MD_UNORDERED: u32 = 1 << 4;
    pub const MD_EVENT_SUCCESS_DISABLE: u32 = 1 << 5;
    pub const MD_VOLATILE: u32 = 1 << 6;
    pub const MD_EVENT_SEND_DISABLE: u32 = 1 << 7;
    pub const MD_UNRELIABLE: u32 = 1 << 8;
    pub const MD_EVENT_CT_BYTES: u32 = 1 << 14;
    /// For libraries only: failures of ACK and REPLY are reported as events and not counted. So a wait for the counter
    /// is a wait for successes.
    pub const MD_FAILURES_UNCOUNTED: u32 = 1 << 15;
    /// For libraries only: the payload stays readable and unchanged until the acknowledgement. So no copy is needed.
    pub const MD_PAYLOAD_STAYS: u32 = 1 << 16;
    /// Options that memory descriptors may carry.
    pub const MD_MASK: u32 = ((1 << 9) - 1) | MD_EVENT_CT_BYTES;

    pub const PT_ONLY_USE_ONCE: u32 = 1 << 0;
    pub const PT_FLOWCTRL: u32 = 1 << 1;
    pub const PT_ONLY_TRUNCATE: u32 = 1 << 2;
    pub const PT_MATCH_UNORDERED: u32 = 1 << 3;
    pub const PT_ALLOC_DISABLED: u32 = 1 << 4;
    pub const PT_MASK: u32 = (1 << 5) - 1;
}

/// Acknowledgement requests, with the values of the API.
pub mod ack {
    pub const NONE: u8 = 0;
    pub const FULL: u8 = 1;
    pub const COUNTING: u8 = 2;
    pub const OPERATION_COMPLETED: u8 = 3;
}

/// Failure kinds of events, with the values of the API (`PTL_NI_*`).
pub mod fail {
    pub const OK: u8 = 0;
    pub const UNDELIVERABLE: u8 = 1;
    pub const DROPPED: u8 = 2;
    pub const PT_DISABLED: u8 = 3;
    pub const PERM_VIOLATION: u8 = 4;
    pub const OP_VIOLATION: u8 = 5;
    pub const NO_MATCH: u8 = 6;
    pub const SEGV: u8 = 7;
}

/// The lists of a portal table entry, with the values of the API.
pub mod list {
    pub const PRIORITY: u8 = 0;
    pub const OVERFLOW: u8 = 1;
}

/// Kinds of events, with the values of the Portals API.
pub mod event_kind {
    pub const GET: u8 = 0;
    pub const GET_OVERFLOW: u8 = 1;
    pub const PUT: u8 = 2;
    pub const PUT_OVERFLOW: u8 = 3;
    pub const ATOMIC: u8 = 4;
    pub const ATOMIC_OVERFLOW: u8 = 5;
    pub const FETCH_ATOMIC: u8 = 6;
    pub const FETCH_ATOMIC_OVERFLOW: u8 = 7;
    pub const REPLY: u8 = 8;
    pub const SEND: u8 = 9;
    pub const ACK: u8 = 10;
    pub const PT_DISABLED: u8 = 11;
    pub const LINK: u8 = 12;
    pub const AUTO_UNLINK: u8 = 13;
    pub const AUTO_FREE: u8 = 14;
    pub const SEARCH: u8 = 15;
}
