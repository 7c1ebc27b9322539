// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a simulation ended, and what was counted on the way.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::time::Time;

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Every rank has ended.
    Completed,
    /// Nothing can happen any more, and these ranks still wait.
    Stuck(Vec<Waiting>),
    /// The user, or a limit of virtual time, ended it.
    Interrupted,
    /// A rank was killed, and the others were not to go on.
    Died,
}

/// A rank that waits, and what for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waiting {
    pub rank: u32,
    /// What it does: "waits for its NIC", "polls", "is in a barrier".
    pub what: String,
    /// Since when, virtual.
    pub since_ns: u64,
    /// Messages that it has sent and that have not been answered.
    pub unanswered: u64,
    /// Receives that no message has met: portal table index, source (any: all ones), match bits.
    pub receives: Vec<String>,
}

/// What a run was and did.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub end: End,
    /// Virtual time at the end.
    pub time: Time,
    /// When each rank ended.
    pub ended: Vec<Option<Time>>,
    /// Exit code of each rank that ended.
    pub codes: Vec<Option<i32>>,
    pub statistics: Statistics,
}

impl Outcome {
    /// The first exit code that is not 0: by time, and at one time by rank.
    pub fn code(&self) -> i32 {
        let ends = self.ended.iter().zip(&self.codes);
        let failed = ends.filter_map(|(at, code)| Some((at.unwrap_or(Time::MAX), code.filter(|code| *code != 0)?)));
        failed.min_by_key(|(at, _)| *at).map_or(0, |(_, code)| code)
    }
}

/// Counted over a run.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Events of all kinds.
    pub events: u64,
    /// Turns that ranks had.
    pub turns: u64,
    /// Messages delivered: puts, gets, atomics.
    pub messages: u64,
    pub payload_bytes: u64,
    /// Answers: acknowledgements and replies.
    pub responses: u64,
    /// Triggered operations executed.
    pub triggered: u64,
    /// Entries and headers that were searched, as the machine searches.
    pub entries_searched: u64,
    pub interrupts: u64,
    /// Messages that found all streams of their target taken, and were sent again.
    pub refused: u64,
    /// Messages that the fabric lost for good.
    pub lost: u64,
    /// Picoseconds from command to delivery.
    pub latency: Histogram<u64>,
    /// The last latency, and how often it came in a row: not yet in the histogram.
    pub(crate) latency_last: (u64, u64),
    /// A hash of everything that happened, in order.
    pub hash: u64,
}

impl Default for Statistics {
    fn default() -> Statistics {
        let latency = Histogram::new(3).expect("three digits are a precision that histograms have");
        Statistics {
            events: 0,
            turns: 0,
            messages: 0,
            payload_bytes: 0,
            responses: 0,
            triggered: 0,
            entries_searched: 0,
            interrupts: 0,
            refused: 0,
            lost: 0,
            latency,
            latency_last: (0, 0),
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }
}

impl Statistics {
    /// A message was delivered so long after its command. Messages that cross a machine alike come in runs.
    #[inline]
    pub(super) fn delivered_after(&mut self, latency: Time) {
        let latency = latency.0.max(1);
        if latency != self.latency_last.0 {
            self.settle();
            self.latency_last.0 = latency;
        }
        self.latency_last.1 += 1;
    }

    /// Brings the histogram up to date.
    pub(super) fn settle(&mut self) {
        let (latency, count) = std::mem::take(&mut self.latency_last);
        if count > 0 {
            let _ = self.latency.record_n(latency, count);
        }
    }

    /// Mixes what happened into the hash: a multiplication and a rotation for each word.
    #[inline]
    pub(super) fn note(&mut self, words: &[u64]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub time: Time,
    pub events: u64,
    pub hops: u64,
    pub messages: u64,
    pub ranks_ended: u32,
    pub ranks: u32,
}
