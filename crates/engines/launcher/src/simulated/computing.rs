// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The computing of a rank between its calls, and the CPU time that it may use before other ranks have a turn.

use std::time::Duration;

/// The CPU time that a rank uses without a call before it is looked at ([`super::spin::observe`]): at first; after the loop in which it was has
/// been interrupted; and at most, where looks have found that it computes.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_AGAIN: Duration = Duration::from_micros(200);
const LOOK_MOST: Duration = Duration::from_millis(256);
/// The CPU time that a rank may use without a call before it counts as one that polls memory, whatever a look finds: at first, after
/// an interruption, and the least.
pub(super) const SPIN_FIRST: Duration = Duration::from_secs(2);
const SPIN_AGAIN: Duration = Duration::from_millis(20);
const SPIN_LEAST: Duration = Duration::from_millis(1);
/// After this many interruptions the time is halved.
const SPINS_HALVED_AFTER: u32 = 16;

/// The computing of a rank between its calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Computing {
    /// Interruptions since its last call because a look found that it polls.
    polls: u32,
    /// Interruptions since its last call because it had used its CPU time.
    spins: u32,
    /// The CPU time before the first look in a turn.
    look_after: Duration,
    /// A note says that it polls.
    is_noted: bool,
}

impl Default for Computing {
    fn default() -> Computing {
        Computing { polls: 0, spins: 0, look_after: LOOK_FIRST, is_noted: false }
    }
}

impl Computing {
    /// The CPU time that the rank may use in this turn before other ranks have one, and before it is looked at.
    pub(super) fn limits(&self) -> (Duration, Duration) {
        let most = match self.spins {
            0 => SPIN_FIRST,
            times => (SPIN_AGAIN / 2u32.pow((times / SPINS_HALVED_AFTER).min(8))).max(SPIN_LEAST),
        };
        (most, if self.polls > 0 { LOOK_AGAIN } else { self.look_after })
    }

    /// The rank has called the library.
    pub(super) fn called(&mut self) {
        (self.polls, self.spins) = (0, 0);
    }

    /// A look has found that it polls.
    pub(super) fn polled(&mut self) {
        self.polls = self.polls.saturating_add(1);
        self.look_after = LOOK_FIRST;
    }

    /// A look has found that it computes, or nothing.
    pub(super) fn computed(&mut self) {
        self.look_after = (self.look_after * 2).min(LOOK_MOST);
    }

    /// It has used all the CPU time that it may.
    pub(super) fn spun(&mut self) {
        self.spins += 1;
    }

    /// Whether a note that it polls is due: once.
    pub(super) fn take_note(&mut self) -> bool {
        !std::mem::replace(&mut self.is_noted, true)
    }
}
