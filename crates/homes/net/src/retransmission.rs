// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Retransmission of frames on a link with a check (go-back-N): state without I/O; time is passed in.
//!
//! The sender keeps copies of its frames in a [`Window`] until the receiver has taken them. The receiver's
//! [`FrameOrder`] takes frames in the order of their numbers, each once. It acknowledges now and then, and asks at once
//! for a frame that is missing.
//!
//! Invariants
//! 1. A frame is handed on once, after all frames with smaller numbers.
//! 2. A copy is dropped only when the receiver has acknowledged the frame.
//! 3. The sender waits for a silent receiver without limit, because its program may compute. It repeats frames at
//!    growing intervals.
//!
//! Cost: a copy of each frame, [`WINDOW_FRAMES`] at most; nothing without a check.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use crate::control_message::ControlMessage;

/// Limit of a link's kept frames: 1 MiB. When it is reached, packets wait.
const WINDOW_FRAMES: usize = 64;
/// Number of frames that a receiver takes before it acknowledges them.
const ACK_EVERY: u64 = 16;
/// The longest time between a frame and its acknowledgement.
const ACK_AFTER: Duration = Duration::from_millis(1);
/// The time after which a receiver asks again for a missing frame. It doubles, up to `WAIT_MAX`.
const NACK_AGAIN_AFTER: Duration = Duration::from_millis(5);
/// The time without an acknowledgement after which a sender probes: at first, at least, at most. In between it is four
/// times the round trip.
const WAIT_FIRST: Duration = Duration::from_millis(50);
const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_ROUND_TRIPS_MAX: Duration = Duration::from_millis(100);
/// The longest such time: it doubles with each probe.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// An acknowledgement of a frame that was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidAck;

/// The sender's copies.
pub(crate) struct Window {
    kept: VecDeque<Vec<u8>>,
    first: u64,
    /// The number of the next copy to send. Earlier ones are in flight.
    next: u64,
    /// The number of the first copy that was never sent.
    unsent: u64,
    /// After a time without an acknowledgement only the first frame was repeated: the receiver's next message says
    /// where to continue.
    probes: bool,
    /// The time of the last acknowledgement that moved the window.
    silent_since: Option<Instant>,
    wait: Duration,
    /// A frame that was sent once, and its time; None if all may have been repeated.
    timed: Option<(u64, Instant)>,
    /// The smoothed time between a frame and its acknowledgement.
    round_trip: Option<Duration>,
    /// The number that the window went back to last, and the time. Frames that are in flight again need not be sent
    /// once more.
    went_back: Option<(u64, Instant)>,
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.first, self.end());
        write!(
            f,
            "frames {from}..{to} kept, {} is next, waits {:?} (round trip {:?})",
            self.next, self.wait, self.round_trip
        )
    }
}

impl Default for Window {
    fn default() -> Window {
        Window {
            kept: VecDeque::new(),
            first: 0,
            next: 0,
            unsent: 0,
            probes: false,
            silent_since: None,
            wait: WAIT_FIRST,
            timed: None,
            round_trip: None,
            went_back: None,
        }
    }
}

impl Window {
    /// Whether a new frame may be sent.
    pub fn has_room(&self) -> bool {
        self.kept.len() < WINDOW_FRAMES && self.next == self.end()
    }

    /// Whether the receiver has taken all frames.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Keeps a copy of a new frame. [`Window::frame_sent`] records that it was sent.
    pub fn keep(&mut self, frame: Vec<u8>, now: Instant) {
        self.silent_since.get_or_insert(now);
        self.timed.get_or_insert((self.end(), now));
        self.kept.push_back(frame);
    }

    /// Returns the next copy to send.
    pub fn next_to_send(&self) -> Option<&[u8]> {
        let stops = self.probes && self.next != self.first;
        self.kept.get((self.next - self.first) as usize).filter(|_| !stops).map(Vec::as_slice)
    }

    /// Notes that the copy of [`Window::next_to_send`] was sent. Returns whether it had been sent before.
    pub fn frame_sent(&mut self) -> bool {
        let is_repeated = self.next < self.unsent;
        self.next += 1;
        self.unsent = self.unsent.max(self.next);
        is_repeated
    }

    /// Returns the smoothed time between a frame and its acknowledgement, once it is known.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Returns the number of frames that the receiver has not taken.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Notes that the receiver has taken all frames before this number.
    pub fn on_ack(&mut self, number: u64, now: Instant) -> Result<(), InvalidAck> {
        if number > self.end() {
            return Err(InvalidAck);
        }
        // An earlier acknowledgement may come late.
        let Some(count) = number.checked_sub(self.first).filter(|&count| count != 0) else { return Ok(()) };
        self.kept.drain(..count as usize);
        self.first = number;
        if self.probes {
            (self.probes, self.next) = (false, number);
        }
        self.next = self.next.max(number);
        if let Some((_, at)) = self.timed.take_if(|timed| timed.0 < number) {
            let took = now.saturating_duration_since(at);
            // One late acknowledgement should not make the link slow.
            self.round_trip = Some(self.round_trip.map_or(took, |before| took.min((before * 7 + took) / 8)));
        }
        self.wait =
            self.round_trip.map_or(WAIT_FIRST, |round_trip| (round_trip * 4).clamp(WAIT_MIN, WAIT_ROUND_TRIPS_MAX));
        self.silent_since = (!self.kept.is_empty()).then_some(now);
        Ok(())
    }

    /// Notes that the receiver has taken all frames before this number, and misses the one with it.
    pub fn on_nack(&mut self, number: u64, now: Instant) -> Result<(), InvalidAck> {
        self.on_ack(number, now)?;
        let round_trip = self.round_trip.unwrap_or(NACK_AGAIN_AFTER);
        let is_new = |&(to, at): &(u64, Instant)| to != number || now.saturating_duration_since(at) >= round_trip;
        if number == self.first && self.went_back.as_ref().is_none_or(is_new) {
            self.went_back = Some((number, now));
            (self.next, self.probes, self.timed) = (number, false, None);
            self.silent_since = (!self.kept.is_empty()).then_some(now);
        }
        Ok(())
    }

    /// Repeats the first frame if the receiver has been silent for too long. Returns whether it does.
    pub fn check_timeout(&mut self, now: Instant) -> bool {
        let is_due = self.silent_since.is_some_and(|since| now.saturating_duration_since(since) >= self.wait);
        if is_due {
            (self.next, self.probes, self.timed, self.silent_since) = (self.first, true, None, Some(now));
            self.wait = (self.wait * 2).min(WAIT_MAX);
        }
        is_due
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Next,
    Duplicate,
    /// The frame `expected` before it is missing.
    Early {
        expected: u64,
    },
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Missing {
    #[default]
    No,
    /// The receiver asks for it once.
    Perhaps,
    /// The receiver asks for it until it comes.
    Surely,
}

/// The order of a link's frames at its receiver.
#[derive(Default)]
pub(crate) struct FrameOrder {
    expected: u64,
    acked: u64,
    ack_due_since: Option<Instant>,
    /// A duplicate came, or the sender ends: it waits for an acknowledgement.
    ack_now: bool,
    /// Frames behind the next one have come, or a damaged frame that may be the next one.
    missing: Missing,
    /// The time of the last request for the next frame, and the wait until the next request.
    nacked: Option<(Instant, Duration)>,
    /// The sender sends no frame from this number on.
    last: Option<u64>,
}

impl FrameOrder {
    /// Compares the number of a frame with the next one, and takes it if they are equal.
    pub fn accept(&mut self, number: u64) -> Arrival {
        match number.cmp(&self.expected) {
            Ordering::Equal => {
                self.expected += 1;
                (self.missing, self.nacked) = (Missing::No, None);
                self.ack_now |= self.last == Some(self.expected);
                Arrival::Next
            }
            Ordering::Less => {
                self.ack_now = true;
                Arrival::Duplicate
            }
            Ordering::Greater => {
                self.missing = Missing::Surely;
                Arrival::Early { expected: self.expected }
            }
        }
    }

    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Notes that a damaged frame came. It may be the next one.
    pub fn frame_damaged(&mut self) {
        if self.missing == Missing::No {
            self.missing = Missing::Perhaps;
        }
    }

    /// Notes that the sender sends no frame from this number on. After the last frame, the next acknowledgement covers
    /// all.
    pub fn end_announced(&mut self, number: u64) {
        self.last = Some(number);
        self.ack_now |= number == self.expected;
    }

    /// Whether the sender has announced its end.
    pub fn is_end_announced(&self) -> bool {
        self.last.is_some()
    }

    /// Whether the sender has ended, and all its frames were taken.
    pub fn is_complete(&self) -> bool {
        self.last == Some(self.expected)
    }

    /// Whether a message is due, now or later.
    pub fn has_message(&self) -> bool {
        self.ack_now || self.missing != Missing::No || self.acked != self.expected
    }

    /// Returns the message to send now.
    pub fn message(&mut self, now: Instant) -> Option<ControlMessage> {
        let waits = self.nacked.is_some_and(|(at, wait)| now.saturating_duration_since(at) < wait);
        if self.missing != Missing::No && !waits {
            let wait = self.nacked.map_or(NACK_AGAIN_AFTER, |(_, wait)| (wait * 2).min(WAIT_MAX));
            self.nacked = Some((now, wait));
            self.message_sent();
            if self.missing == Missing::Perhaps {
                self.missing = Missing::No;
            }
            return Some(ControlMessage::Nack(self.expected));
        }
        if self.acked == self.expected && !self.ack_now {
            return None;
        }
        let since = *self.ack_due_since.get_or_insert(now);
        let is_due = self.expected - self.acked >= ACK_EVERY || now.saturating_duration_since(since) >= ACK_AFTER;
        if is_due || self.ack_now {
            self.message_sent();
            return Some(ControlMessage::Ack(self.expected));
        }
        None
    }

    fn message_sent(&mut self) {
        (self.acked, self.ack_due_since, self.ack_now) = (self.expected, None, false);
    }
}

#[cfg(test)]
#[path = "retransmission_tests.rs"]
mod tests;
