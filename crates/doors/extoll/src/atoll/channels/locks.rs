// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The locks of a host port.
//!
//! The locks of a host port's VPID hold the parameters that its peers need, and the claims of its channels. A peer
//! reads and claims by fetch, compare and add, so it needs no action of the port's program.
//!
//! | lock | content |
//! |---|---|
//! | 0 | [`CONFIGURED`], while the port accepts connections |
//! | 1 | page number of its receive area |
//! | 2 | 7:0 credits of a channel, 19:8 channels, 24:20 log2 of the bytes of a piece |
//! | 8.. | one for each channel: minus its generation, plus [`CLAIMED`] if it is claimed |

pub(super) const CONFIG: u32 = 0;
pub(super) const AREA: u32 = 1;
pub(super) const SIZES: u32 = 2;
pub(super) const CLAIMS: u32 = 8;
/// Value of lock 0: a name, and the version of the protocol between peers.
pub(super) const CONFIGURED: i32 = 0x4154_4c01;
/// The addend of a claim.
pub(super) const CLAIMED: i32 = 1 << 24;
/// A value that no lock has: with it a request only reads.
pub(super) const NEVER: i32 = i32::MIN;

#[derive(Clone, Copy)]
pub(super) struct LockFields {
    pub number: u32,
    pub compare: i32,
    pub add: i32,
}

impl LockFields {
    pub fn read(number: u32) -> LockFields {
        LockFields { number, compare: NEVER, add: 0 }
    }
}
