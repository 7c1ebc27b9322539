// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The heads of messages that found no destination: a port that is closed, or a process that has ended (seed 002,
//! section 2.3: the daemon pulls such a message out of the crossbar, so that it holds up no other). And of those that
//! lay unread at a port when it was closed.
//!
//! The message itself is dropped, and its sender learns that. Its head stays here, at the NIC that had the port; for a
//! process that has ended, at the NIC of the sender.
//!
//! Invariants
//! 1. The newest [`HEADS`] heads are kept; a new one takes the place of the oldest. `count` counts all.
//! 2. A head's `number` is 0 while the head is written, and stored last. A process that dies meanwhile leaves a head
//!    without a number, and the next message takes its place. So nothing needs recovery.
//!
//! Cost: 16 KiB; a message without a destination writes two lines. Others touch nothing of it.

use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use super::{Request, kind};
use crate::velo::{Endpoint, Extent, Header, Label};

/// Heads that are kept.
pub const HEADS: usize = 256;

/// Reasons for which a message found no destination.
pub mod blocked {
    /// The port is not open.
    pub const CLOSED: u16 = 1;
    /// No living process has the id.
    pub const DEAD: u16 = 2;
    /// The port was closed before the message was read.
    pub const UNREAD: u16 = 3;
}

/// The head of a message.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockedHead {
    /// Its number among all such messages of the NIC, from 1 on; 0: none.
    pub number: u64,
    /// The process that sent it, and the one that it was for: nid << 32 | pid, or the rank; of a message of VELO or RMA
    /// to a closed port, their nodes.
    pub source: u64,
    pub target: u64,
    /// Match bits; of a VELO message, its header ([`crate::velo::Header`]).
    pub tag: u64,
    pub header_data: u64,
    /// Bytes of its payload.
    pub length: u64,
    /// The destination: VPID or portal table entry. The VPID of the sender, of messages of VELO and RMA.
    pub port: u32,
    pub source_port: u32,
    /// Kind of the request ([`super::kind`]).
    pub kind: u16,
    pub why: u16,
    pub reserved: u32,
}

/// The newest heads, and the number of all.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct BlockedRing {
    pub count: u64,
    /// The number of the last message that a process has written to its log.
    pub logged: u64,
    pub reserved: [u64; 6],
    pub heads: [BlockedHead; HEADS],
}

impl Default for BlockedRing {
    fn default() -> BlockedRing {
        BlockedRing { count: 0, logged: 0, reserved: [0; 6], heads: [BlockedHead::default(); HEADS] }
    }
}

impl BlockedHead {
    /// The head of a message of VELO that lies unread at a port of a node.
    pub fn unread(label: Label, node: u16, vpid: u16) -> BlockedHead {
        let destination = Endpoint { node, vpid };
        let extent = Extent::whole(label.bytes()).unwrap_or(Extent::UNIT);
        let (mtt, tag) = (label.mtt(), label.tag());
        let header = Header { destination, extent, mtt, tag, multicast: false, interrupt: false };
        BlockedHead {
            number: 0,
            source: label.source().node.into(),
            target: node.into(),
            tag: header.word(),
            header_data: 0,
            length: label.bytes().into(),
            port: vpid.into(),
            source_port: label.source().vpid.into(),
            kind: kind::VELO_SEND.into(),
            why: blocked::UNREAD,
            reserved: 0,
        }
    }

    /// The head of a request to the process `target`. `port`, `source_port`: its ends.
    pub fn of(request: &Request, target: u64, (port, source_port): (u32, u32), why: u16) -> BlockedHead {
        BlockedHead {
            number: 0,
            source: request.initiator,
            target,
            tag: request.match_bits,
            header_data: request.header_data,
            length: request.length,
            port,
            source_port,
            kind: request.kind.into(),
            why,
            reserved: 0,
        }
    }
}

impl BlockedRing {
    /// Keeps the head of a message. The oldest one goes.
    #[cold]
    pub fn push(&mut self, head: &BlockedHead) {
        let number = self.count.wrapping_add(1);
        let Some(slot) = self.heads.get_mut(self.count as usize % HEADS) else { return };
        slot.number = 0;
        compiler_fence(SeqCst);
        *slot = BlockedHead { number: 0, ..*head };
        compiler_fence(SeqCst);
        slot.number = number;
        self.count = number;
    }

    /// The newest head, if no process has logged it yet, and the number of messages that the log misses. It is then
    /// logged.
    pub fn take_unlogged(&mut self) -> Option<(BlockedHead, u64)> {
        let missed = self.count.wrapping_sub(self.logged);
        let newest = self.heads.get(self.count.wrapping_sub(1) as usize % HEADS)?;
        self.logged = self.count;
        (missed != 0).then_some((*newest, missed))
    }

    /// The heads that are kept, oldest first.
    pub fn kept(&self) -> impl Iterator<Item = &BlockedHead> {
        let first = self.count as usize % HEADS;
        let (newer, older) = self.heads.split_at(first);
        older.iter().chain(newer).filter(|head| head.number != 0)
    }
}

const _: () = {
    assert!(size_of::<BlockedHead>() == 64);
    assert!(size_of::<BlockedRing>() == 64 * (1 + HEADS));
};

#[cfg(test)]
mod tests {
    use super::*;

    fn head(length: u64) -> BlockedHead {
        let request = Request { kind: 6, initiator: 1 << 32 | 7, match_bits: 9, length, ..Request::default() };
        BlockedHead::of(&request, 3, (5, 2), blocked::CLOSED)
    }

    #[test]
    fn the_newest_heads_are_kept_in_order_and_all_are_counted() {
        let mut ring = BlockedRing::default();
        assert_eq!((ring.kept().count(), ring.take_unlogged()), (0, None));
        for length in 0..HEADS as u64 + 3 {
            ring.push(&head(length));
        }
        assert_eq!(ring.count, HEADS as u64 + 3);
        assert!(ring.kept().map(|head| head.length).eq(3..HEADS as u64 + 3));
        assert!(ring.kept().map(|head| head.number).eq(4..=HEADS as u64 + 3));
        let newest = BlockedHead { number: HEADS as u64 + 3, ..head(HEADS as u64 + 2) };
        assert_eq!(ring.take_unlogged(), Some((newest, HEADS as u64 + 3)));
        assert_eq!(ring.take_unlogged(), None);
        assert_eq!((newest.port, newest.source_port, newest.why, newest.kind), (5, 2, blocked::CLOSED, 6));
    }

    #[test]
    fn a_head_that_a_dead_process_has_not_finished_is_replaced() {
        let mut ring = BlockedRing::default();
        ring.push(&head(1));
        // The next one was written up to its number.
        ring.heads[1] = BlockedHead { number: 0, ..head(2) };
        assert_eq!(ring.kept().count(), 1);
        ring.push(&head(3));
        assert!(ring.kept().map(|head| head.length).eq([1, 3]));
        // A count that no NIC has written does no harm.
        ring.count = u64::MAX - 5;
        ring.push(&head(4));
        assert!(ring.take_unlogged().is_some() && ring.kept().count() <= HEADS);
    }
}
