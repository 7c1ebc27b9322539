// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When to poll for the reply to a message.
//!
//! A poll of a cache line that another core is about to write makes that write twice as slow: the writer must first
//! invalidate the copy here, and this core must fetch the line again. Between near cores that is 35 of 70 ns, as much
//! as everything else this provider does for a message. A program that only waits for replies often gets each one after
//! the same time. Its first poll then comes when the reply has most likely been written, and not before.
//!
//! Time is counted in polls of [`selvedge_shm::os::lines::a_moment`] each. The program is delayed by at most
//! [`WAIT_MAX`] of them, and only while replies keep coming within [`LOOKS_MAX`].

/// Replies that take longer are late.
pub(super) const LOOKS_MAX: u32 = 20;
/// The longest wait before the first poll.
const WAIT_MAX: u32 = 8;
/// Parts of a poll, the unit of the wait. ...
const PARTS: u32 = 8;
/// ... If the first poll finds the reply, it may have come too late, and the wait shrinks by so many parts. ...
const LESS: u32 = 1;
/// ... If it does not, the wait grows by so many. So one of three first polls comes too early.
const MORE: u32 = 2;

/// The outcome of waiting for a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing is known, or the last outcome has already been used.
    #[default]
    Unknown,
    /// The first poll found the reply.
    WasThere,
    /// A later poll found the reply.
    CameLater,
    /// The reply did not come within [`LOOKS_MAX`].
    IsLate,
}

impl Outcome {
    /// The outcome of the polls after the first.
    pub fn of_later_looks(found: bool) -> Outcome {
        if found { Outcome::CameLater } else { Outcome::IsLate }
    }
}

/// What was learned about replies.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The time until the first poll for the next reply, in parts of a poll.
    wait: u32,
    /// The last outcome. It is used when the wait for the next reply begins, because the program needs the CPU when a
    /// reply is found.
    pub found: Outcome,
}

impl Answers {
    /// The time until the first poll, in polls.
    #[inline(always)]
    pub fn wait(&mut self) -> u32 {
        match std::mem::take(&mut self.found) {
            Outcome::Unknown => {}
            Outcome::WasThere => self.wait = self.wait.saturating_sub(LESS),
            Outcome::CameLater => self.wait = (self.wait + MORE).min(WAIT_MAX * PARTS),
            Outcome::IsLate => self.wait /= 2,
        }
        self.wait / PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean delay between the writing of a reply and its discovery, for replies written at these times, after some
    /// to learn from.
    fn delay(written: impl Fn(u32) -> u32) -> f64 {
        let (mut answers, mut sum) = (Answers::default(), 0);
        for number in 0..10_000 {
            let written = written(number);
            let wait = answers.wait();
            // To fetch the line takes 5 polls, and to invalidate the copy here as many.
            let seen = if wait >= written { wait + 5 } else { written + 10 };
            answers.found = match () {
                _ if wait >= written => Outcome::WasThere,
                _ if seen < LOOKS_MAX => Outcome::CameLater,
                _ => Outcome::IsLate,
            };
            if number >= 100 {
                sum += seen - written;
            }
        }
        f64::from(sum) / 9900.0
    }

    fn random(number: u32, below: u32) -> u32 {
        (number.wrapping_mul(2654435761) >> 8) % below
    }

    #[test]
    fn answers_after_the_same_time_are_mostly_there_at_the_first_look() {
        let steady = delay(|_| 6);
        assert!(steady < 7.5, "{steady}");
        let jitters = delay(|number| 5 + random(number, 3));
        assert!(jitters < 7.5, "{jitters}");
        let changes = delay(|number| if number < 5000 { 3 } else { 8 });
        assert!(changes < 7.5, "{changes}");
    }

    #[test]
    fn answers_at_any_time_are_hardly_later_than_with_looks_all_the_time() {
        for most in [5, 10, 15, 20, 40, 100, 1000] {
            let mean = delay(|number| random(number, most));
            assert!(mean < 10.5, "{most}: {mean}");
        }
    }

    #[test]
    fn late_answers_are_not_waited_for_blindly() {
        assert_eq!(delay(|_| 1000), 10.0);
        let mut answers = Answers::default();
        for _ in 0..80 {
            answers.found = Outcome::CameLater;
            answers.wait();
        }
        assert_eq!(answers.wait(), WAIT_MAX);
        for _ in 0..10 {
            answers.found = Outcome::IsLate;
            answers.wait();
        }
        assert_eq!(answers.wait(), 0);
    }
}
