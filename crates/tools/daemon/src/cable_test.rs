// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of a cable (seed 002, section 2.5): frames to the neighbour, whose daemon sends them back.
//!
//! ```text
//! Ask ─> Told                      does the neighbour take part?
//! Frame 0, 1, 2 … ─> Echo 0, 1 …   patterns by size, at a rate
//! Ask ─> Told                      what has arrived there
//! ```
//!
//! Both ends are values: the daemon gives them the time and datagrams, and sends the heads that they return.
//!
//! # Invariants
//!
//! 1. A test has at most [`FRAMES_MAX`] frames, at most [`RATE_MAX`] in a second, and takes at most [`SECONDS_MAX`] and
//!    its pauses.
//! 2. A mirror answers at most [`ANSWERS_MAX`] datagrams in [`WINDOW_NS`], and sends no more bytes than it gets.
//! 3. A frame is counted once as arrived, whatever comes again.
use selvedge_fabric_manager::HostId;

use crate::protocol::{Percentiles, TestDirection, TestPattern, TestReport, TestSize};
use wire::{Body, HEAD_BYTES, Head, IP_UDP_BYTES, Pattern, Tally};

pub mod wire;

const MS: u64 = 1_000_000;
const SECOND_NS: u64 = 1000 * MS;
/// Frames of a test.
pub const FRAMES_MAX: u32 = 100_000;
/// Frames of a test in a second.
pub const RATE_MAX: u32 = 10_000;
/// Seconds that the frames of a test may take.
pub const SECONDS_MAX: u32 = 600;
/// Time for an answer, and for the last frames.
const PATIENCE_NS: u64 = SECOND_NS;
/// The most seconds of a test's pauses: before the first frame, after the last one, and for the mirror's counts.
pub const PAUSES_S: u64 = 3 * PATIENCE_NS / SECOND_NS;
const ASK_AGAIN_NS: u64 = 100 * MS;
/// Answers of a mirror in a window: a little more than a test asks for.
const ANSWERS_MAX: u32 = 1200;
const WINDOW_NS: u64 = 100 * MS;
/// Frames that are sent in a row by a tester that is late.
const BURST: u32 = 64;

/// The frames that have arrived at one end.
#[derive(Default)]
struct Arrivals {
    seen: Vec<u64>,
    next: u32,
    tally: Tally,
}

impl Arrivals {
    /// Counts a frame with its place in the order of sending; returns whether it is new.
    fn take(&mut self, number: u32, order: u32, is_damaged: bool) -> bool {
        if number >= FRAMES_MAX {
            return false;
        }
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.tally.duplicates = self.tally.duplicates.saturating_add(1);
            return false;
        }
        self.seen[word] |= bit;
        self.tally.arrived += 1;
        self.tally.damaged += u32::from(is_damaged);
        self.tally.disordered += u32::from(order < self.next);
        self.next = self.next.max(order.saturating_add(1));
        true
    }

    fn has(&self, number: u32) -> bool {
        self.seen.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// The end that sends frames back.
#[derive(Default)]
pub struct Mirror {
    test: Option<(HostId, u64)>,
    arrivals: Arrivals,
    window: u64,
    answers: u32,
}

impl Mirror {
    /// Takes a datagram for `own`; returns the answer.
    pub fn take(&mut self, now_ns: u64, own: HostId, head: &Head, payload: &[u8]) -> Option<Head> {
        if head.to != own {
            return None;
        }
        let window = now_ns / WINDOW_NS;
        if std::mem::replace(&mut self.window, window) != window {
            self.answers = 0;
        }
        if self.answers >= ANSWERS_MAX {
            return None;
        }
        let body = match head.body {
            Body::Frame { number, pattern, payload: bytes } => {
                if self.test != Some((head.from, head.test)) {
                    (self.test, self.arrivals) = (Some((head.from, head.test)), Arrivals::default());
                }
                let damaged = head.wrong_bytes(payload);
                if !self.arrivals.take(number, number, damaged != 0) {
                    return None;
                }
                let order = self.arrivals.tally.arrived;
                // A cut frame is not answered by a longer one.
                Body::Echo { number, pattern, payload: bytes.min(payload.len() as u16), damaged, order }
            }
            Body::Ask if self.test == Some((head.from, head.test)) => Body::Told(self.arrivals.tally),
            Body::Ask => Body::Told(Tally::default()),
            Body::Echo { .. } | Body::Told(_) => return None,
        };
        self.answers += 1;
        Some(Head { from: own, to: head.from, test: head.test, body })
    }

    /// Counts a datagram whose head cannot be read.
    pub fn unreadable(&mut self) {
        let count = &mut self.arrivals.tally.unreadable;
        *count = count.saturating_add(1);
    }
}

/// Frames of a test: number, size, rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub frames: u32,
    /// Bytes of each IP packet; None: several sizes up to the MTU.
    pub size: Option<u32>,
    /// Frames in a second.
    pub rate: u32,
}

impl Plan {
    /// Checks a plan against the limits and the MTU. `seal` is the bytes of a head's seal.
    pub fn checked(self, mtu: u32, seal: usize) -> Result<Vec<u32>, String> {
        let limits = |name: &str, value: u32, limit: u32| match (1..=limit).contains(&value) {
            true => Ok(()),
            false => Err(format!("--{name} {value}: give 1 to {limit}")),
        };
        limits("count", self.frames, FRAMES_MAX)?;
        limits("rate", self.rate, RATE_MAX)?;
        if self.frames.div_ceil(self.rate) > SECONDS_MAX {
            return Err(format!("--count {} at --rate {} takes more than {SECONDS_MAX} s", self.frames, self.rate));
        }
        let (least, most) = ((HEAD_BYTES + seal) as u32 + IP_UDP_BYTES, mtu.min(u16::MAX.into()));
        if most < least {
            return Err(format!("the link's MTU is {mtu}: a test needs {least}"));
        }
        match self.size {
            Some(size) if !(least..=most).contains(&size) => {
                Err(format!("--size {size}: give {least} to {most}, the link's MTU"))
            }
            Some(size) => Ok(vec![size]),
            None => {
                let doubled = (8..16).map(|power| 1 << power).filter(|size| (least + 1..most).contains(size));
                let mut sizes: Vec<u32> = std::iter::once(least).chain(doubled).chain([most]).collect();
                sizes.dedup();
                Ok(sizes)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Until the neighbour has answered.
    Asking,
    Sending,
    /// Until the last frames are back.
    Waiting,
    /// Until the mirror has told what it has counted.
    Closing,
}

/// The end that tests.
pub struct Tester {
    own: HostId,
    to: HostId,
    test: u64,
    plan: Plan,
    sizes: Vec<u32>,
    seal: usize,
    phase: Phase,
    phase_ns: u64,
    /// The next datagram.
    due_ns: u64,
    began_ns: u64,
    sent_ns: Vec<u64>,
    round_trips_ns: Vec<u64>,
    arrivals: Arrivals,
    /// Frames that came back and were damaged on either way.
    damaged: Vec<u32>,
    there: Option<Tally>,
}

/// The end of a test.
#[derive(Debug)]
pub enum Outcome {
    Done(Box<TestReport>),
    /// The neighbour has not answered.
    NoMirror,
}

impl Tester {
    /// `test` is a number that the neighbour has not heard before.
    pub fn new(now_ns: u64, own: HostId, to: HostId, test: u64, plan: Plan, sizes: Vec<u32>, seal: usize) -> Tester {
        Tester {
            own,
            to,
            test,
            plan,
            sizes,
            seal,
            phase: Phase::Asking,
            phase_ns: now_ns,
            due_ns: now_ns,
            began_ns: now_ns,
            sent_ns: Vec::new(),
            round_trips_ns: Vec::new(),
            arrivals: Arrivals::default(),
            damaged: Vec::new(),
            there: None,
        }
    }

    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    fn enter(&mut self, now_ns: u64, phase: Phase) {
        (self.phase, self.phase_ns, self.due_ns) = (phase, now_ns, now_ns);
    }

    /// Frame `number`: patterns change from frame to frame, sizes after each round of patterns.
    fn frame(&self, number: u32) -> (Pattern, u32) {
        let patterns = Pattern::ALL.len();
        let (pattern, round) = (number as usize % patterns, number as usize / patterns);
        (Pattern::ALL[pattern], self.sizes[round % self.sizes.len()])
    }

    fn head(&self, body: Body) -> Head {
        Head { from: self.own, to: self.to, test: self.test, body }
    }

    /// Returns the heads to be sent, or the outcome.
    pub fn tick(&mut self, now_ns: u64) -> Result<Vec<Head>, Outcome> {
        if now_ns < self.due_ns {
            return Ok(Vec::new());
        }
        let is_over = now_ns >= self.phase_ns + PATIENCE_NS;
        match self.phase {
            Phase::Asking if is_over => return Err(Outcome::NoMirror),
            Phase::Closing if is_over || self.there.is_some() => return Err(Outcome::Done(self.report(now_ns))),
            Phase::Asking | Phase::Closing => {
                self.due_ns = now_ns + ASK_AGAIN_NS;
                return Ok(vec![self.head(Body::Ask)]);
            }
            Phase::Waiting => {
                self.enter(now_ns, Phase::Closing);
                return self.tick(now_ns);
            }
            Phase::Sending => {}
        }
        let mut heads = Vec::new();
        while self.due_ns <= now_ns && heads.len() < BURST as usize {
            let number = self.sent_ns.len() as u32;
            if number == self.plan.frames {
                self.enter(now_ns, Phase::Waiting);
                self.due_ns = now_ns + PATIENCE_NS;
                break;
            }
            let (pattern, size) = self.frame(number);
            let payload = (size as usize - HEAD_BYTES - self.seal - IP_UDP_BYTES as usize) as u16;
            heads.push(self.head(Body::Frame { number, pattern, payload }));
            self.sent_ns.push(now_ns);
            self.due_ns = self.phase_ns + (u64::from(number) + 1) * SECOND_NS / u64::from(self.plan.rate);
        }
        Ok(heads)
    }

    /// Takes a datagram that has come back.
    pub fn take(&mut self, now_ns: u64, head: &Head, payload: &[u8]) {
        if (head.from, head.to, head.test) != (self.to, self.own, self.test) {
            return;
        }
        match head.body {
            Body::Told(_) if self.phase == Phase::Asking => {
                self.began_ns = now_ns;
                self.enter(now_ns, Phase::Sending);
            }
            Body::Told(tally) if self.phase == Phase::Closing => (self.there, self.due_ns) = (Some(tally), now_ns),
            Body::Echo { number, damaged, order, .. } => {
                let Some(&sent_ns) = self.sent_ns.get(number as usize) else { return };
                let is_wrong = head.wrong_bytes(payload) != 0;
                if !self.arrivals.take(number, order, is_wrong) {
                    return;
                }
                self.round_trips_ns.push(now_ns.saturating_sub(sent_ns));
                if is_wrong || damaged != 0 {
                    self.damaged.push(number);
                }
                if self.phase == Phase::Waiting && self.arrivals.tally.arrived == self.plan.frames {
                    // For duplicates of the last ones.
                    self.due_ns = self.due_ns.min(now_ns + ASK_AGAIN_NS);
                }
            }
            _ => {}
        }
    }

    /// Counts a datagram whose head cannot be read.
    pub fn unreadable(&mut self) {
        self.arrivals.tally.unreadable = self.arrivals.tally.unreadable.saturating_add(1);
    }

    fn report(&mut self, now_ns: u64) -> Box<TestReport> {
        let sent = self.sent_ns.len() as u32;
        let back = self.arrivals.tally;
        self.damaged.sort_unstable();
        let mut sizes: Vec<TestSize> =
            self.sizes.iter().map(|&size| TestSize { size, ..TestSize::default() }).collect();
        let mut patterns =
            Pattern::ALL.map(|pattern| TestPattern { pattern: pattern.name().into(), ..TestPattern::default() });
        for number in 0..sent {
            let (pattern, size) = self.frame(number);
            let (is_lost, is_damaged) =
                (u32::from(!self.arrivals.has(number)), u32::from(self.damaged.binary_search(&number).is_ok()));
            if let Some(row) = sizes.iter_mut().find(|row| row.size == size) {
                (row.sent, row.lost, row.damaged) = (row.sent + 1, row.lost + is_lost, row.damaged + is_damaged);
            }
            let row = &mut patterns[pattern as usize];
            (row.sent, row.lost, row.damaged) = (row.sent + 1, row.lost + is_lost, row.damaged + is_damaged);
        }
        Box::new(TestReport {
            sent,
            returned: back.arrived,
            seconds: (now_ns - self.began_ns) as f64 / 1e9,
            there: self.there.map(|there| direction(sent, there)),
            // Without the mirror's word, all that is missing may have been lost on either way.
            back: direction(self.there.map_or(sent, |there| there.arrived), back),
            round_trip_us: percentiles(&mut self.round_trips_ns),
            sizes,
            patterns: patterns.into(),
            ..TestReport::default()
        })
    }
}

fn direction(sent: u32, tally: Tally) -> TestDirection {
    let unreadable = tally.unreadable.min(sent.saturating_sub(tally.arrived));
    TestDirection {
        lost: sent.saturating_sub(tally.arrived + unreadable),
        damaged: tally.damaged + unreadable,
        disordered: tally.disordered,
        duplicates: tally.duplicates,
    }
}

fn percentiles(times_ns: &mut [u64]) -> Option<Percentiles> {
    times_ns.sort_unstable();
    let last = times_ns.len().checked_sub(1)?;
    let at = |permille: usize| times_ns[(last * permille).div_ceil(1000)] as f64 / 1000.0;
    Some(Percentiles { min: at(0), p50: at(500), p90: at(900), p99: at(990), p999: at(999), max: at(1000) })
}

#[cfg(test)]
#[path = "cable_test/tests.rs"]
mod tests;
