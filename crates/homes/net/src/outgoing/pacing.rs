// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The times at which frames of a link leave: at once, with others, or when the endpoint has room again.

use std::time::{Duration, Instant};

/// Frames of a link that go at once, until the peer's next frame comes or the program is at rest.
const AT_ONCE: usize = 2;
/// Frames of a link that may be on their way, so that a peer that does not read leaves buffers to the others.
const IN_FLIGHT_MAX: usize = 8;

/// Frames on their way, and in the burst.
#[derive(Default)]
pub(super) struct Pacing {
    /// Frames that were sent and have not completed.
    in_flight: usize,
    /// Frames that have left since the peer's last frame, or since the program's last rest, which has a number.
    in_burst: usize,
    rest: u64,
    blocked: Blocked,
}

/// Whether the endpoint takes nothing, though nothing is on its way.
#[derive(Default)]
enum Blocked {
    #[default]
    No,
    Since(Instant),
    /// That was reported, which happens once.
    Reported,
}

impl Pacing {
    /// Whether frames are on their way.
    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight != 0
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether one more frame may be on its way.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < IN_FLIGHT_MAX
    }

    /// Whether the next frame gathers packets instead of leaving at once.
    pub(super) fn is_burst(&self) -> bool {
        self.in_flight.max(self.in_burst) >= AT_ONCE
    }

    /// A frame of the peer has come.
    pub(super) fn peer_answered(&mut self) {
        self.in_burst = 0;
    }

    /// The program was at rest for this number of times.
    pub(super) fn note_rest(&mut self, rest: u64) {
        if self.rest != rest {
            (self.rest, self.in_burst) = (rest, 0);
        }
    }

    /// A frame has left.
    pub(super) fn frame_sent(&mut self) {
        self.in_flight += 1;
        self.in_burst += 1;
        if let Blocked::Since(_) = self.blocked {
            self.blocked = Blocked::No;
        }
    }

    /// A frame has completed.
    pub(super) fn frame_completed(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// The endpoint has no room. Reports a link on which nothing leaves, though its control connection is open.
    pub(super) fn endpoint_full(&mut self, timeout: Duration) {
        if self.in_flight != 0 {
            return;
        }
        let since = match self.blocked {
            Blocked::No => Instant::now(),
            Blocked::Since(since) => since,
            Blocked::Reported => return,
        };
        self.blocked = Blocked::Since(since);
        if since.elapsed() > timeout {
            self.blocked = Blocked::Reported;
            let seconds = timeout.as_secs();
            log::warn!(
                "libfabric has taken nothing for a process for {seconds} s: a firewall, or its program makes no calls"
            );
        }
    }
}
