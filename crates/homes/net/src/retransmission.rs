// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Repeating frames on a link with a check, as go-back-N does: state without I/O; time is passed in.
//!
//! The sender keeps copies of its frames in a [`Window`] until the receiver has taken them. The receiver's [`Order`] takes frames by
//! their numbers, each once. It says now and then which number is next, and at once when that is missing.
//!
//! Invariants
//! 1. A frame is handed on once, after all with smaller numbers.
//! 2. A copy is dropped only when the receiver has said that it took the frame.
//! 3. A silent receiver is waited for, for ever: its program may compute. Its frames are repeated ever more rarely meanwhile.
//!
//! Cost: a copy of each frame, [`WINDOW_FRAMES`] at most; without a check nothing.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use crate::control_message::Word;

/// Frames of a link that are kept, at most: 1 MiB. Packets wait when there are more.
const WINDOW_FRAMES: usize = 64;
/// Frames that a receiver takes before it says so.
const SAY_EVERY: u64 = 16;
/// How long a receiver has taken a frame before it says so.
const SAY_AFTER: Duration = Duration::from_millis(1);
/// How long a receiver waits for a frame that it has asked for before it asks again. It doubles, up to `WAIT_MAX`.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(5);
/// How long a sender waits for a word before it asks: first, at least, at most. In between four times what a word took lately.
const WAIT_FIRST: Duration = Duration::from_millis(50);
const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_USUAL_MAX: Duration = Duration::from_millis(100);
/// Each time that it has waited it waits twice as long, but not longer than this.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The receiver speaks of a frame that was never sent, or takes back what it said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Impossible;

/// The sender's copies.
pub(crate) struct Window {
    kept: VecDeque<Vec<u8>>,
    /// The number of the first copy.
    first: u64,
    /// The number of the next copy to send. Those before are on their way.
    next: u64,
    /// After a time without a word only the first frame was repeated: the receiver's next word says from where to go on.
    asks: bool,
    /// Since when no word has come that says more.
    since: Option<Instant>,
    wait: Duration,
    /// A frame that was sent once, and when; None: all may have been repeated.
    timed: Option<(u64, Instant)>,
    /// How long a word takes, smoothed.
    usual: Option<Duration>,
    /// Where it went back to last, and when. What is on its way again need not be sent once more.
    went_back: Option<(u64, Instant)>,
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.first, self.end());
        write!(f, "frames {from}..{to} kept, {} is next, waits {:?} (usual {:?})", self.next, self.wait, self.usual)
    }
}

impl Default for Window {
    fn default() -> Window {
        Window {
            kept: VecDeque::new(),
            first: 0,
            next: 0,
            asks: false,
            since: None,
            wait: WAIT_FIRST,
            timed: None,
            usual: None,
            went_back: None,
        }
    }
}

impl Window {
    /// Whether a new frame may be sent.
    pub fn takes_more(&self) -> bool {
        self.kept.len() < WINDOW_FRAMES && self.next == self.end()
    }

    /// Whether the receiver has taken all.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Keeps a copy of a new frame. [`Window::has_sent`] says that it was sent.
    pub fn keep(&mut self, frame: Vec<u8>, now: Instant) {
        self.since.get_or_insert(now);
        self.timed.get_or_insert((self.end(), now));
        self.kept.push_back(frame);
    }

    /// The next copy to send.
    pub fn to_send(&self) -> Option<&[u8]> {
        let stops = self.asks && self.next != self.first;
        self.kept.get((self.next - self.first) as usize).filter(|_| !stops).map(Vec::as_slice)
    }

    /// The copy of [`Window::to_send`] was sent.
    pub fn has_sent(&mut self) {
        self.next += 1;
    }

    /// The receiver has taken all frames before this number.
    pub fn taken(&mut self, number: u64, now: Instant) -> Result<(), Impossible> {
        if number > self.end() {
            return Err(Impossible);
        }
        // What it said before may come late.
        let Some(count) = number.checked_sub(self.first).filter(|&count| count != 0) else { return Ok(()) };
        self.kept.drain(..count as usize);
        self.first = number;
        if self.asks {
            (self.asks, self.next) = (false, number);
        }
        self.next = self.next.max(number);
        if let Some((_, at)) = self.timed.take_if(|timed| timed.0 < number) {
            let took = now.saturating_duration_since(at);
            // A word that was late for once should not make the link slow.
            self.usual = Some(self.usual.map_or(took, |usual| took.min((usual * 7 + took) / 8)));
        }
        self.wait = self.usual.map_or(WAIT_FIRST, |usual| (usual * 4).clamp(WAIT_MIN, WAIT_USUAL_MAX));
        self.since = (!self.kept.is_empty()).then_some(now);
        Ok(())
    }

    /// The receiver has taken all frames before this number, and misses the one with it.
    pub fn again(&mut self, number: u64, now: Instant) -> Result<(), Impossible> {
        self.taken(number, now)?;
        let usual = self.usual.unwrap_or(ASK_AGAIN_AFTER);
        let is_new = |&(to, at): &(u64, Instant)| to != number || now.saturating_duration_since(at) >= usual;
        if number == self.first && self.went_back.as_ref().is_none_or(is_new) {
            self.went_back = Some((number, now));
            (self.next, self.asks, self.timed) = (number, false, None);
            self.since = (!self.kept.is_empty()).then_some(now);
        }
        Ok(())
    }

    /// Repeats the first frame if the receiver has been silent for too long. Returns whether it does.
    pub fn look_at_time(&mut self, now: Instant) -> bool {
        let is_due = self.since.is_some_and(|since| now.saturating_duration_since(since) >= self.wait);
        if is_due {
            (self.next, self.asks, self.timed, self.since) = (self.first, true, None, Some(now));
            self.wait = (self.wait * 2).min(WAIT_MAX);
        }
        is_due
    }
}

/// What a frame's number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is the next.
    Next,
    /// It was taken before.
    Doubled,
    /// One before it is missing: this one.
    Early { expected: u64 },
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Missing {
    #[default]
    No,
    /// It is asked for once.
    Perhaps,
    /// It is asked for until it comes.
    Surely,
}

/// The order of a link's frames at its receiver.
#[derive(Default)]
pub(crate) struct Order {
    /// The number of the next frame.
    expected: u64,
    /// The number that was said last.
    said: u64,
    /// Since when there is something to say.
    unsaid_since: Option<Instant>,
    /// A frame came again, or the sender ends: it waits for a word.
    is_asked: bool,
    /// Frames behind the next one have come, or one was damaged that may be it.
    missing: Missing,
    /// When the next frame was asked for, and how long to wait until it is asked for again.
    asked: Option<(Instant, Duration)>,
    /// The sender ends before this number.
    last: Option<u64>,
}

impl Order {
    /// Sees the number of a frame. The next one is taken by that.
    pub fn see(&mut self, number: u64) -> Place {
        match number.cmp(&self.expected) {
            Ordering::Equal => {
                self.expected += 1;
                (self.missing, self.asked) = (Missing::No, None);
                self.is_asked |= self.last == Some(self.expected);
                Place::Next
            }
            Ordering::Less => {
                self.is_asked = true;
                Place::Doubled
            }
            Ordering::Greater => {
                self.missing = Missing::Surely;
                Place::Early { expected: self.expected }
            }
        }
    }

    /// The number of the next frame.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// A frame came that was damaged. It may be the next one.
    pub fn miss(&mut self) {
        if self.missing == Missing::No {
            self.missing = Missing::Perhaps;
        }
    }

    /// The sender announces the end of the link: it sends no frame from this number on. The next word after the last frame acknowledges all.
    pub fn set_last(&mut self, number: u64) {
        self.last = Some(number);
        self.is_asked |= number == self.expected;
    }

    /// Whether the sender has ended, and all its frames were taken.
    pub fn is_complete(&self) -> bool {
        self.last == Some(self.expected)
    }

    /// Whether there is something to say, now or later.
    pub fn has_to_say(&self) -> bool {
        self.is_asked || self.missing != Missing::No || self.said != self.expected
    }

    /// What to say now.
    pub fn word(&mut self, now: Instant) -> Option<Word> {
        let waits = self.asked.is_some_and(|(at, wait)| now.saturating_duration_since(at) < wait);
        if self.missing != Missing::No && !waits {
            let wait = self.asked.map_or(ASK_AGAIN_AFTER, |(_, wait)| (wait * 2).min(WAIT_MAX));
            self.asked = Some((now, wait));
            self.has_said();
            if self.missing == Missing::Perhaps {
                self.missing = Missing::No;
            }
            return Some(Word::Again(self.expected));
        }
        if self.said == self.expected && !self.is_asked {
            return None;
        }
        let since = *self.unsaid_since.get_or_insert(now);
        let is_due = self.expected - self.said >= SAY_EVERY || now.saturating_duration_since(since) >= SAY_AFTER;
        if is_due || self.is_asked {
            self.has_said();
            return Some(Word::Taken(self.expected));
        }
        None
    }

    fn has_said(&mut self) {
        (self.said, self.unsaid_since, self.is_asked) = (self.expected, None, false);
    }
}

#[cfg(test)]
#[path = "retransmission_tests.rs"]
mod tests;
