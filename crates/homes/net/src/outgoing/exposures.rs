// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Payloads of a link that the receiver has not read yet from this process's memory.

use std::collections::VecDeque;

use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use crate::endpoint::{Endpoint, Exposed};
use crate::frame::FrameError;
use crate::ids::NicName;

/// Limits of a link: payloads that wait to be read, and frames sent after one, because the receiver must hold those.
const EXPOSURES_MAX: usize = 8;
const FRAMES_BEHIND_MAX: usize = 64;

/// A packet whose payload the receiver reads.
pub(super) struct ExposedPacket {
    pub(super) exposed: Exposed,
    /// Bytes of the packet, which count in the queue until its payload was read.
    pub(super) bytes: usize,
    pub(super) to: NicName,
    pub(super) packet: Box<[u8; PACKET_BYTES]>,
}

struct Exposure {
    packet: ExposedPacket,
    is_unreadable: bool,
}

/// The oldest payload is first.
#[derive(Default)]
pub(super) struct Exposures {
    waiting: VecDeque<Exposure>,
    /// Number of payloads read since the link was opened.
    read: u64,
    /// Frames sent since the receiver read its last payload.
    frames_behind: usize,
}

impl Exposures {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= EXPOSURES_MAX
    }

    /// Whether the receiver must read payloads before more is sent.
    pub(super) fn is_far_ahead(&self) -> bool {
        self.frames_behind >= FRAMES_BEHIND_MAX && !self.waiting.is_empty()
    }

    pub(super) fn frame_sent(&mut self) {
        self.frames_behind += 1;
    }

    pub(super) fn push(&mut self, packet: ExposedPacket) {
        if self.waiting.is_empty() {
            self.frames_behind = 0;
        }
        self.waiting.push_back(Exposure { packet, is_unreadable: false });
    }

    /// Notes that the program has unmapped a payload. Returns its packet, and its number since the link was opened. None:
    /// it is not of this link, or was noted before.
    pub(super) fn unmapped(&mut self, exposed: &Exposed) -> Option<(&ExposedPacket, u64)> {
        let at = self.waiting.iter().position(|exposure| exposure.packet.exposed == *exposed)?;
        let exposure = &mut self.waiting[at];
        let is_known = std::mem::replace(&mut exposure.is_unreadable, true);
        (!is_known).then_some((&exposure.packet, self.read + at as u64))
    }

    /// Withdraws payloads until the receiver has read `count` in all. Returns the bytes of their packets.
    pub(super) fn withdraw_read(&mut self, endpoint: &mut Endpoint, count: u64) -> Result<usize, FrameError> {
        let mut released = 0;
        while self.read < count {
            let ended = self.waiting.pop_front().ok_or(FrameError::ReadCount(count))?;
            let ExposedPacket { exposed, bytes, .. } = ended.packet;
            endpoint.withdraw(exposed);
            released += bytes;
            self.read += 1;
            self.frames_behind = 0;
        }
        Ok(released)
    }

    pub(super) fn withdraw_all(&mut self, endpoint: &mut Endpoint) {
        self.waiting.drain(..).for_each(|exposure| endpoint.withdraw(exposure.packet.exposed));
    }
}
