// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a simulation ended, and its statistics.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::time::Time;

use super::rank_commands::RankCommands;
use super::ranks::RegisterSums;

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Every rank has ended.
    Completed,
    /// No event is left, and these ranks still wait.
    Stuck(Vec<Waiting>),
    /// The user, or a limit of virtual time, ended it.
    Interrupted,
    /// A rank was killed, and the options say that the job ends then.
    Died,
}

/// A rank that waits when the run is stuck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waiting {
    pub rank: u32,
    /// Its activity: "waits for its NIC", "polls", "is in a barrier".
    pub what: String,
    /// Virtual time since which it waits.
    pub since_ns: u64,
    /// Messages that it has sent and that are not complete.
    pub unanswered: u64,
    /// Posted receives without a message: portal table index, source, match bits.
    pub receives: Vec<String>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub end: End,
    /// Virtual time at the end.
    pub time: Time,
    /// When each rank ended.
    pub ended: Vec<Option<Time>>,
    /// Exit code of each rank that ended.
    pub codes: Vec<Option<i32>>,
    /// Commands that each rank has offered to its NIC; zero on a machine without a host interface.
    pub commands: Vec<RankCommands>,
    /// Jain's index of fairness among the ranks of the node that has taken most commands. None: no rank has a rate.
    pub fairness: Option<f64>,
    pub statistics: Statistics,
    /// Of all NICs of all ranks.
    pub registers: RegisterSums,
}

impl Outcome {
    /// The first exit code that is not 0, in order of time; at one time in order of ranks. 0: there is none.
    pub fn code(&self) -> i32 {
        let ends = self.ended.iter().zip(&self.codes);
        let failed = ends.filter_map(|(at, code)| Some((at.unwrap_or(Time::MAX), code.filter(|code| *code != 0)?)));
        failed.min_by_key(|(at, _)| *at).map_or(0, |(_, code)| code)
    }
}

/// Statistics of a run.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Events of all kinds.
    pub events: u64,
    /// Turns that ranks had.
    pub turns: u64,
    /// Messages delivered: puts, gets, atomics.
    pub messages: u64,
    pub payload_bytes: u64,
    /// Acknowledgements and replies.
    pub responses: u64,
    /// Triggered operations executed.
    pub triggered: u64,
    /// Entries and headers searched, by the machine's kind of search.
    pub entries_searched: u64,
    pub interrupts: u64,
    /// Messages that were refused because all streams of their target were in use, and were sent again.
    pub refused: u64,
    /// Messages that aggregation nodes have refused.
    pub aggregation_refused: u64,
    /// Copies of results that were sent by multicast and lost, and results that members have asked for again.
    pub casts_lost: u64,
    pub casts_repeated: u64,
    /// Messages that the fabric lost for good.
    pub lost: u64,
    /// Commands that a host interface has taken, attempts that it has refused, and commands that had to wait for a place.
    pub commands: u64,
    pub commands_refused: u64,
    pub commands_waited: u64,
    /// Messages whose store an interrupt has split.
    pub commands_split: u64,
    /// Offers of messages without credits.
    pub credits_lacked: u64,
    /// Times that a NIC has blocked because a mailbox was full.
    pub blocked: u64,
    /// VELO messages that their target has discarded: the mailbox was full, or the port not open.
    pub velo_discarded: u64,
    /// Picoseconds from the offer of a command until its NIC begins with it.
    pub command_start: Histogram<u64>,
    /// Picoseconds from command to delivery.
    pub latency: Histogram<u64>,
    /// The last latency and its number of repetitions, which are not in the histogram yet.
    pub(crate) latency_last: (u64, u64),
    /// A hash of all events, in order.
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
            aggregation_refused: 0,
            casts_lost: 0,
            casts_repeated: 0,
            lost: 0,
            commands: 0,
            commands_refused: 0,
            commands_waited: 0,
            commands_split: 0,
            credits_lacked: 0,
            blocked: 0,
            velo_discarded: 0,
            command_start: latency.clone(),
            latency,
            latency_last: (0, 0),
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }
}

impl Statistics {
    /// Records the latency of a message, from command to delivery. Equal latencies often follow each other, so they are
    /// counted and go to the histogram together.
    #[inline]
    pub(super) fn delivered_after(&mut self, latency: Time) {
        let latency = latency.0.max(1);
        if latency != self.latency_last.0 {
            self.settle();
            self.latency_last.0 = latency;
        }
        self.latency_last.1 += 1;
    }

    /// Records how long a command took from its offer until its NIC began.
    pub(super) fn command_started(&mut self, time: Time) {
        let _ = self.command_start.record(time.0.max(1));
    }

    /// Adds the counted latencies to the histogram.
    pub(super) fn settle(&mut self) {
        let (latency, count) = std::mem::take(&mut self.latency_last);
        if count > 0 {
            let _ = self.latency.record_n(latency, count);
        }
    }

    /// Mixes words into the hash: a multiplication and a rotation for each.
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
