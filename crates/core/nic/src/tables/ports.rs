// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of the VELO and RMA units: ports, the TLB, kept lock requests.

use super::slot;

/// Pages that a global address table maps.
pub const PAGES: usize = 1 << 18;
/// Locks of each VPID (seed 002, section 7.5.4: a page of 32-bit words).
pub const LOCKS: usize = 1024;

/// Status of ports.
pub mod port {
    pub const OPEN: u32 = 1;
}

/// A port: a VPID that a program has opened, with its mailbox and its notification queue.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Port {
    pub slot: u32,
    /// Rights of the program ([`crate::rma::options`]), and options of the mailbox ([`crate::velo::options`]).
    pub options: u32,
    /// Slots of the mailbox that were written so far (WPLT).
    pub mailbox_tail: u64,
    /// Notifications that were written so far.
    pub notification_tail: u64,
    /// Messages and notifications that were discarded because there was no room.
    pub messages_discarded: u64,
    pub notifications_discarded: u64,
    /// An earlier value of the mailbox's head. The head may be further.
    pub mailbox_head_seen: u64,
    /// 1: a message has arrived since the interrupt was cleared, masked or not.
    pub interrupt: u64,
    pub reserved: u64,
}

impl Port {
    /// Whether a program has the port open.
    #[inline]
    pub fn is_open(&self) -> bool {
        slot::status(self.slot) == port::OPEN
    }
}

/// An entry of the TLB: a copy of a table's entry. `entry` 0: unused.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct TlbEntry {
    /// The page of the network logical address.
    pub page: u64,
    /// The entry of the global address table.
    pub entry: u64,
}

/// State of kept lock requests.
pub mod lock_waiter {
    /// Waits for a value with which it succeeds.
    pub const WAITS: u8 = 0;
    /// Succeeds: the lock is about to get its value. Recovery stores the value again.
    pub const CHANGES: u8 = 1;
    /// The answer is due: the home must send it.
    pub const DUE: u8 = 2;
    /// The process `executor` sends the answer.
    pub const SENDING: u8 = 3;
}

/// A failed lock request that is kept ([`crate::rma::locks`]). A store to `sequence` makes or frees it, to `state`
/// moves it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct LockWaiter {
    /// Number in order of arrival; 0: unused.
    pub sequence: u64,
    pub lock: u32,
    pub compare: i32,
    pub add: i32,
    /// The requesting port: VPID in 15:0, node in 31:16.
    pub source: u32,
    /// The home's names of the initiator ([`crate::bus::Asker`]).
    pub origin: u64,
    pub process: u64,
    pub token: u64,
    pub executor: u64,
    /// Of an answered request: the lock's value after it.
    pub value: i32,
    pub state: u8,
    /// Of an answered request: `PTL_NI_*`.
    pub fail: u8,
    /// Requested notifications, and the mode.
    pub operation: u8,
    pub mode: u8,
}

const _: () = {
    assert!(size_of::<Port>() == 64);
    assert!(size_of::<TlbEntry>() == 16);
    assert!(size_of::<LockWaiter>() == 64);
};
