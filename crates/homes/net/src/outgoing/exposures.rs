// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Payloads of a link that the receiver has yet to read from this process's memory.

use std::collections::VecDeque;

use crate::endpoint::{Endpoint, Exposed};
use crate::frame::FrameError;

/// Payloads of a link that wait to be read, at most, and frames that may leave behind one: the receiver keeps what comes behind.
const EXPOSURES_MAX: usize = 8;
const FRAMES_BEHIND_MAX: usize = 64;

/// A payload that the receiver may read.
struct Exposure {
    exposed: Exposed,
    /// Bytes of its packet that count in the queue until then.
    bytes: usize,
}

/// The payloads, the oldest first.
#[derive(Default)]
pub(super) struct Exposures {
    waiting: VecDeque<Exposure>,
    /// Payloads that were read since the link was opened.
    read: u64,
    /// Frames that have left since the receiver has read the last one.
    frames_behind: usize,
}

impl Exposures {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= EXPOSURES_MAX
    }

    /// Whether the receiver has to read payloads before more comes.
    pub(super) fn is_far_ahead(&self) -> bool {
        self.frames_behind >= FRAMES_BEHIND_MAX && !self.waiting.is_empty()
    }

    /// Counts a frame that has left.
    pub(super) fn frame_sent(&mut self) {
        self.frames_behind += 1;
    }

    pub(super) fn push(&mut self, exposed: Exposed, bytes: usize) {
        if self.waiting.is_empty() {
            self.frames_behind = 0;
        }
        self.waiting.push_back(Exposure { exposed, bytes });
    }

    /// Withdraws payloads until the receiver has read `count` in all. Returns the bytes of their packets.
    pub(super) fn withdraw_read(&mut self, endpoint: &mut Endpoint, count: u64) -> Result<usize, FrameError> {
        let mut released = 0;
        while self.read < count {
            let Exposure { exposed, bytes } = self.waiting.pop_front().ok_or(FrameError::ReadCount(count))?;
            endpoint.withdraw(exposed);
            released += bytes;
            self.read += 1;
            self.frames_behind = 0;
        }
        Ok(released)
    }

    /// Withdraws all.
    pub(super) fn withdraw_all(&mut self, endpoint: &mut Endpoint) {
        self.waiting.drain(..).for_each(|exposure| endpoint.withdraw(exposure.exposed));
    }
}
