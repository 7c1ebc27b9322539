// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The computing of a rank between its calls, and its CPU time before other ranks get a turn.

use std::time::Duration;

/// CPU time of a rank without a call before it is observed ([`super::spin::observe`]): at first; after its polling loop
/// was interrupted; and the maximum, after observations that it computes.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_AGAIN: Duration = Duration::from_micros(200);
const LOOK_MOST: Duration = Duration::from_millis(256);
/// CPU time before a rank without a NIC is observed. It loads libraries, and nothing that it could poll changes.
const LOOK_WITHOUT_NIC: Duration = LOOK_MOST;
/// CPU time of a rank without a call before it counts as polling memory, whatever an observation finds: at first, after
/// an interruption, and the minimum.
pub(super) const SPIN_FIRST: Duration = Duration::from_secs(2);
const SPIN_AGAIN: Duration = Duration::from_millis(20);
const SPIN_LEAST: Duration = Duration::from_millis(1);
/// After this many interruptions the time is halved.
const SPINS_HALVED_AFTER: u32 = 16;

/// The computing of a rank between its calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Computing {
    /// Interruptions since its last call because an observation found that it polls.
    polls: u32,
    /// Interruptions since its last call because it had used its CPU time.
    spins: u32,
    /// CPU time before the first observation in a turn.
    look_after: Duration,
    /// A note has already reported that it polls.
    is_noted: bool,
}

impl Default for Computing {
    fn default() -> Computing {
        Computing { polls: 0, spins: 0, look_after: LOOK_FIRST, is_noted: false }
    }
}

impl Computing {
    /// CPU time of the rank in this turn before other ranks get one, and before it is observed.
    pub(super) fn limits(&self, has_nic: bool) -> (Duration, Duration) {
        let most = match self.spins {
            0 => SPIN_FIRST,
            times => (SPIN_AGAIN / 2u32.pow((times / SPINS_HALVED_AFTER).min(8))).max(SPIN_LEAST),
        };
        let look_after = match self.polls {
            0 if has_nic => self.look_after,
            0 => LOOK_WITHOUT_NIC,
            _ => LOOK_AGAIN,
        };
        (most, look_after)
    }

    /// Records that the rank has called the library.
    pub(super) fn called(&mut self) {
        (self.polls, self.spins) = (0, 0);
    }

    /// Records an observation that it polls.
    pub(super) fn polled(&mut self) {
        self.polls = self.polls.saturating_add(1);
        self.look_after = LOOK_FIRST;
    }

    /// Records an observation that it computes, or an unknown result.
    pub(super) fn computed(&mut self) {
        self.look_after = (self.look_after * 2).min(LOOK_MOST);
    }

    /// Records that it has used its CPU time.
    pub(super) fn spun(&mut self) {
        self.spins += 1;
    }

    /// Whether a note that it polls is due. True once.
    pub(super) fn take_note(&mut self) -> bool {
        !std::mem::replace(&mut self.is_noted, true)
    }
}
