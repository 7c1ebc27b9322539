// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pacing of a link's frames: sent at once, with others, or when the endpoint has room again.

use std::time::{Duration, Instant};

/// Frames of a link that are sent at once, until the peer's next frame comes or the program is at rest.
const AT_ONCE: usize = 2;
/// Limit of a link's frames in flight, so that a peer that does not read leaves buffers to the others.
const IN_FLIGHT_MAX: usize = 8;

#[derive(Default)]
pub(super) struct Pacing {
    in_flight: usize,
    /// Frames sent since the peer's last frame, or since the program's rest number `rest`.
    in_burst: usize,
    rest: u64,
    blocked: Blocked,
}

/// Whether the endpoint takes no frame, though none is in flight.
#[derive(Default)]
enum Blocked {
    #[default]
    No,
    Since(Instant),
    /// The block was reported, which happens once.
    Reported,
}

impl Pacing {
    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight != 0
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn has_room(&self) -> bool {
        self.in_flight < IN_FLIGHT_MAX
    }

    /// Whether the next frame gathers packets instead of leaving at once.
    pub(super) fn is_burst(&self) -> bool {
        self.in_flight.max(self.in_burst) >= AT_ONCE
    }

    pub(super) fn peer_answered(&mut self) {
        self.in_burst = 0;
    }

    /// Notes that the program was at rest for this number of times.
    pub(super) fn note_rest(&mut self, rest: u64) {
        if self.rest != rest {
            (self.rest, self.in_burst) = (rest, 0);
        }
    }

    pub(super) fn frame_sent(&mut self) {
        self.in_flight += 1;
        self.in_burst += 1;
        if let Blocked::Since(_) = self.blocked {
            self.blocked = Blocked::No;
        }
    }

    pub(super) fn frame_completed(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Notes that the endpoint has no room. Reports a link on which nothing was sent for `timeout`, though its control
    /// connection is open.
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
                "libfabric has sent no frame to a process for {seconds} s: a firewall, or its program makes no calls"
            );
        }
    }
}
