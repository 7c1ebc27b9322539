// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples of a network: a row for each interval and each channel that was used in it, as CSV.
//!
//! | column | unit | contents |
//! |---|---|---|
//! | `start_ns` | ns | begin of the interval |
//! | `interval_ns` | ns | its length; the last one ends with the run |
//! | `channel` | | number of the channel, one direction of a link |
//! | `from`, `to` | | names of its ends, routers or nodes |
//! | `bytes` | bytes | on the wire, with headers and CRCs, without repetitions |
//! | `utilisation` | share | part of the interval in which it carried flits, repeated them, or waited for a repetition |
//! | `queue` | packets | heads that wait for it at the end of the interval |
//! | `queue_max` | packets | the most heads that waited for it at one time |
//! | `blocked_ns` | ns | sum over the heads of the time for which they waited in the interval |
//!
//! # Invariants
//!
//! 1. Over all rows, the bytes of a channel sum up to those that it carried.
//! 2. A row has a value that is not 0. Rows are in the order of time, then of channels.
//!
//! # Costs
//!
//! O(log channels) for each call, O(channels in use) for each interval; 64 bytes for each channel.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io::{self, Write};

use selvedge_fabric::Topology;

use crate::network::{Observe, Packet, Transmission};
use crate::report::channels::{channel_source_name, channel_target_name};
use crate::time::Time;

const HEADER: &str = "start_ns,interval_ns,channel,from,to,bytes,utilisation,queue,queue_max,blocked_ns";

/// Writes the samples of a network.
pub struct Sampler {
    topology: Topology,
    interval: Time,
    /// Begin of the open interval.
    start: Time,
    channels: Vec<Channel>,
    /// Channels that carry something, or that something waits for.
    used: BTreeSet<u32>,
    out: Box<dyn Write + Send>,
    /// The first error of a write. Nothing is written after it.
    failed: Option<io::Error>,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    /// Transmissions that do not end before the open interval, in order of time.
    spans: VecDeque<Span>,
    waiting: u32,
    waiting_max: u32,
    /// Time up to which `blocked` counts.
    since: Time,
    blocked: Time,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: Time,
    end: Time,
    bytes: u64,
}

impl Span {
    /// The bytes that have passed by `at`.
    fn bytes_by(&self, at: Time) -> u64 {
        if at >= self.end {
            return self.bytes;
        }
        let passed = at.saturating_sub(self.start).0;
        (u128::from(self.bytes) * u128::from(passed) / u128::from((self.end - self.start).0)) as u64
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Sampler")
            .field("interval", &self.interval)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}

impl Sampler {
    /// Samples a network over `topology`, from time 0 on. The interval is more than 0.
    pub fn new(topology: &Topology, interval: Time, out: Box<dyn Write + Send>) -> Sampler {
        assert!(interval > Time::ZERO, "an interval without a length");
        let channels = vec![Channel::default(); topology.channels() as usize];
        let topology = topology.clone();
        let mut sampler =
            Sampler { topology, interval, start: Time::ZERO, channels, used: BTreeSet::new(), out, failed: None };
        sampler.write(format_args!("{HEADER}"));
        sampler
    }

    /// Closes the intervals that end by `now`.
    fn advance(&mut self, now: Time) {
        while now >= self.start + self.interval {
            let end = self.start + self.interval;
            self.close(end);
            self.start = end;
            if self.used.is_empty() {
                self.start = Time(now.0 - now.0 % self.interval.0);
            }
        }
    }

    /// Writes the rows of the open interval up to `end`.
    fn close(&mut self, end: Time) {
        let start = self.start;
        let mut unused = Vec::new();
        for number in std::mem::take(&mut self.used).into_iter().inspect(|number| unused.push(*number)) {
            let channel = &mut self.channels[number as usize];
            channel.count(end);
            let (mut bytes, mut busy) = (0, Time::ZERO);
            for span in &channel.spans {
                bytes += span.bytes_by(end) - span.bytes_by(start);
                busy += span.end.min(end).saturating_sub(span.start.max(start));
            }
            let (queue, most, blocked) = (channel.waiting, channel.waiting_max, channel.blocked);
            channel.spans.retain(|span| span.end > end);
            (channel.waiting_max, channel.blocked) = (channel.waiting, Time::ZERO);
            if bytes > 0 || busy > Time::ZERO || most > 0 {
                self.row(number, end, bytes, busy, (queue, most, blocked));
            }
        }
        unused.retain(|&number| {
            let channel = &self.channels[number as usize];
            channel.waiting > 0 || !channel.spans.is_empty()
        });
        self.used.extend(unused);
    }

    fn row(&mut self, channel: u32, end: Time, bytes: u64, busy: Time, (queue, most, blocked): (u32, u32, Time)) {
        let length = end - self.start;
        let millionths = (u128::from(busy.0) * 1_000_000 / u128::from(length.0.max(1))).min(1_000_000) as u64;
        let (from, to) = (channel_source_name(&self.topology, channel), channel_target_name(&self.topology, channel));
        self.write(format_args!(
            "{},{},{channel},{},{},{bytes},{}.{:06},{queue},{most},{}",
            ns(self.start),
            ns(length),
            quoted(&from),
            quoted(&to),
            millionths / 1_000_000,
            millionths % 1_000_000,
            ns(blocked)
        ));
    }

    fn write(&mut self, line: fmt::Arguments<'_>) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{line}").err();
        }
    }
}

impl Channel {
    /// Counts the time for which heads have waited up to `now`.
    fn count(&mut self, now: Time) {
        self.blocked += now.saturating_sub(self.since) * u64::from(self.waiting);
        self.since = now;
    }

    fn leave(&mut self, now: Time) {
        self.count(now);
        self.waiting = self.waiting.saturating_sub(1);
    }
}

/// Nanoseconds, with picoseconds as the fraction where it is not 0.
fn ns(time: Time) -> String {
    match time.0 % 1000 {
        0 => (time.0 / 1000).to_string(),
        ps => format!("{}.{ps:03}", time.0 / 1000),
    }
}

/// A field of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

impl Observe for Sampler {
    fn blocked(&mut self, now: Time, number: u32, _packet: &Packet, _at_router: bool) {
        self.advance(now);
        let channel = &mut self.channels[number as usize];
        channel.count(now);
        channel.waiting += 1;
        channel.waiting_max = channel.waiting_max.max(channel.waiting);
        self.used.insert(number);
    }

    fn withdrawn(&mut self, now: Time, number: u32) {
        self.advance(now);
        self.channels[number as usize].leave(now);
    }

    fn sent(&mut self, sent: &Transmission<'_>) {
        self.advance(sent.begin);
        let channel = &mut self.channels[sent.channel as usize];
        if sent.waited.is_some() {
            channel.leave(sent.begin);
        }
        channel.spans.push_back(Span { start: sent.begin, end: sent.end, bytes: sent.bytes });
        self.used.insert(sent.channel);
    }

    fn end(&mut self, now: Time) -> io::Result<()> {
        self.advance(now);
        // A transmission that is under way counts with the bytes that have passed.
        if now > self.start {
            self.close(now);
        }
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
