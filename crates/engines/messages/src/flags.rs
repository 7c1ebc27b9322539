// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flags of completions. They have libfabric's values (`fabric.h`), so the provider needs no translation. It checks at
//! compile time that they are equal.

pub const MSG: u64 = 1 << 1;
pub const RMA: u64 = 1 << 2;
pub const TAGGED: u64 = 1 << 3;
pub const READ: u64 = 1 << 8;
pub const WRITE: u64 = 1 << 9;
pub const RECV: u64 = 1 << 10;
pub const SEND: u64 = 1 << 11;
pub const REMOTE_READ: u64 = 1 << 12;
pub const REMOTE_WRITE: u64 = 1 << 13;
/// The buffer of a receive for many messages is returned to the program.
pub const MULTI_RECV: u64 = 1 << 16;
/// The completion has data from the sender.
pub const REMOTE_CQ_DATA: u64 = 1 << 17;

/// No address, or any.
pub const ADDR_ANY: u64 = u64::MAX;
