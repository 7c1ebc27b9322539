// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a simulation ended, and its statistics.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::rerouting::ReroutingReport;
use crate::time::Time;

use super::jobs::JobCounts;
use super::rank_commands::RankCommands;
use super::ranks::RegisterSums;
use super::regions::{RegionCounts, RegionReports};

/// Reason why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Every rank has ended.
    Completed,
    /// No event is left, but these ranks still wait.
    Stuck(Vec<Waiting>),
    /// The user, or a limit of virtual time, ended it.
    Interrupted,
    /// A rank was killed, and the options end the job then.
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
    /// End of each rank.
    pub ended: Vec<Option<Time>>,
    /// Exit code of each rank that ended.
    pub codes: Vec<Option<i32>>,
    /// Commands that each rank has offered to its NIC; zero on a machine without a host interface.
    pub commands: Vec<RankCommands>,
    /// Jain's index of fairness among the ranks of the node that has taken most commands. `None`: no rank has a rate.
    pub fairness: Option<f64>,
    pub statistics: Statistics,
    /// Sums over all NICs of all ranks.
    pub registers: RegisterSums,
    /// Changes of the fabric that the routers' managers have worked on.
    pub rerouting: Option<ReroutingReport>,
    /// Regions that the program has marked.
    pub regions: RegionReports,
    /// Counts of the observed region; `statistics` and `registers` are then these. `None`: no rank has entered it, or
    /// none is observed.
    pub observed: Option<RegionCounts>,
}

impl Outcome {
    /// Returns the time that the counts are about: of the observed region, else of the whole run.
    pub fn counted_time(&self) -> Time {
        self.observed.as_ref().map_or(self.time, |observed| observed.time)
    }

    /// Returns the first exit code other than 0, by time, then by rank; 0 if all are 0.
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
    /// Turns of ranks.
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
    /// Messages refused because all streams of their target were in use, and sent again.
    pub refused: u64,
    /// Messages refused by aggregation nodes.
    pub aggregation_refused: u64,
    /// Lost copies of multicast results, and results that members have requested again.
    pub casts_lost: u64,
    pub casts_repeated: u64,
    /// Messages that the fabric lost for good.
    pub lost: u64,
    /// Commands that a host interface has accepted, attempts that it has refused, and commands that waited for a place.
    pub commands: u64,
    pub commands_refused: u64,
    pub commands_waited: u64,
    /// Messages whose store was split by an interrupt.
    pub commands_split: u64,
    /// Offers of messages without credits.
    pub credits_lacked: u64,
    /// Times that a NIC has blocked because of a full mailbox.
    pub blocked: u64,
    /// VELO messages that their target has discarded: full mailbox, or port not open.
    pub velo_discarded: u64,
    /// Picoseconds from the offer of a command until its NIC begins with it.
    pub command_start: Histogram<u64>,
    /// Picoseconds from command to delivery.
    pub latency: Histogram<u64>,
    /// The last latency and its repetitions, not yet in the histogram.
    pub(crate) latency_last: (u64, u64),
    /// Messages of each job, if the options name jobs.
    pub jobs: Vec<JobCounts>,
    /// The sum of the hashes of all ranks: of the turns of each, and of what reached it, in order.
    pub hash: u64,
}

impl Default for Statistics {
    fn default() -> Statistics {
        let latency = Histogram::new(3).expect("a histogram may have three significant digits");
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
            jobs: Vec::new(),
            hash: 0,
        }
    }
}

impl Statistics {
    /// Records the latency of a message, from command to delivery. Equal latencies often follow each other, so they are
    /// counted and enter the histogram together.
    #[inline]
    pub(super) fn delivered_after(&mut self, latency: Time) {
        let latency = latency.0.max(1);
        if latency != self.latency_last.0 {
            self.settle();
            self.latency_last.0 = latency;
        }
        self.latency_last.1 += 1;
    }

    /// Records the time of a command from its offer until its NIC began.
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

    /// Adds the counts of another part of the machine.
    pub(super) fn add(&mut self, other: &Statistics) {
        self.change(other, |sum, count| *sum += count);
        // They resize themselves, so they take every value.
        let _ = self.command_start.add(&other.command_start);
        let _ = self.latency.add(&other.latency);
        self.hash = self.hash.wrapping_add(other.hash);
    }

    /// Takes away the counts of an earlier time, whose latencies are settled.
    pub(super) fn subtract(&mut self, before: &Statistics) {
        self.change(before, |sum, count| *sum -= count);
        // Every value of the earlier time is in the later ones.
        let _ = self.command_start.subtract(&before.command_start);
        let _ = self.latency.subtract(&before.latency);
        self.hash = self.hash.wrapping_sub(before.hash);
    }

    /// Changes each count by that of the same name.
    fn change(&mut self, other: &Statistics, change: fn(&mut u64, u64)) {
        // By name, so that a new field is not forgotten.
        let Statistics {
            events,
            turns,
            messages,
            payload_bytes,
            responses,
            triggered,
            entries_searched,
            interrupts,
            refused,
            aggregation_refused,
            casts_lost,
            casts_repeated,
            lost,
            commands,
            commands_refused,
            commands_waited,
            commands_split,
            credits_lacked,
            blocked,
            velo_discarded,
            command_start: _,
            latency: _,
            latency_last: _,
            jobs: _,
            hash: _,
        } = other;
        let counts = [
            (&mut self.events, events),
            (&mut self.turns, turns),
            (&mut self.messages, messages),
            (&mut self.payload_bytes, payload_bytes),
            (&mut self.responses, responses),
            (&mut self.triggered, triggered),
            (&mut self.entries_searched, entries_searched),
            (&mut self.interrupts, interrupts),
            (&mut self.refused, refused),
            (&mut self.aggregation_refused, aggregation_refused),
            (&mut self.casts_lost, casts_lost),
            (&mut self.casts_repeated, casts_repeated),
            (&mut self.lost, lost),
            (&mut self.commands, commands),
            (&mut self.commands_refused, commands_refused),
            (&mut self.commands_waited, commands_waited),
            (&mut self.commands_split, commands_split),
            (&mut self.credits_lacked, credits_lacked),
            (&mut self.blocked, blocked),
            (&mut self.velo_discarded, velo_discarded),
        ];
        counts.into_iter().for_each(|(sum, count)| change(sum, *count));
    }
}

/// State of a run that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub time: Time,
    pub events: u64,
    pub hops: u64,
    pub messages: u64,
    pub ranks_ended: u32,
    pub ranks: u32,
}
