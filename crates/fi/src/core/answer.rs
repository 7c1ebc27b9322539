// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When to look for the answer to what was sent.
//!
//! A look at a line that another core is about to write makes it write twice as slowly: the line is then here, too, and must be asked
//! back before the store, and fetched after it. Between near cores that is 35 of 70 ns, as much again as everything this provider does
//! for a message. A program whose messages are answered after the same time each time, which is what one does that waits for answers
//! and does nothing else, need not pay it: its first look comes when the answer has most likely been written, and no look before.
//!
//! Time is counted in looks, as long as [`selvedge_shm::os::lines::a_moment`] each. The program is held up for no more than
//! [`WAIT_MAX`] of them, and only while answers keep coming within [`LOOKS_MAX`].

/// Answers that take longer are late.
pub(super) const LOOKS_MAX: u32 = 20;
/// The first look comes no later.
const WAIT_MAX: u32 = 8;
/// Parts of a look, in which the wait is adjusted: ...
const PARTS: u32 = 8;
/// ... by so many less where an answer was there at the first look, which may have come too late, ...
const LESS: u32 = 1;
/// ... and by so many more where it was not. So one of three first looks comes too early.
const MORE: u32 = 2;

/// What came of waiting for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing is known, or all has been learned from.
    #[default]
    Unknown,
    /// It was there at the first look.
    WasThere,
    /// It was seen by a later one.
    CameLater,
    /// It did not come in [`LOOKS_MAX`].
    IsLate,
}

impl Outcome {
    /// Of looks after the first.
    pub fn of_later_looks(found: bool) -> Outcome {
        if found { Outcome::CameLater } else { Outcome::IsLate }
    }
}

/// What is known of answers.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// When the first look for the next comes, in parts of a look.
    wait: u32,
    /// What was found last. It is learned from when the next is waited for: when it is found the program is waited for.
    pub found: Outcome,
}

impl Answers {
    /// How many looks' time to wait until the first look.
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

    /// How much later than they are written answers are seen, in the mean, that are written at these times, after some to learn from.
    fn delay(written: impl Fn(u32) -> u32) -> f64 {
        let (mut answers, mut sum) = (Answers::default(), 0);
        for number in 0..10_000 {
            let written = written(number);
            let wait = answers.wait();
            // To fetch the line takes 5 looks, and to ask it back before that as many.
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
