// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The jobs of a run, as spans of ranks. A run without jobs is one job of all ranks.

use hdrhistogram::Histogram;

use crate::time::Time;

use super::options::SimulationError;
use super::pace::Variation;

/// A job: the ranks after those of the jobs before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpan {
    pub ranks: u32,
    /// Time at which its ranks begin.
    pub start: Time,
    /// The run does not wait for its end.
    pub background: bool,
    /// Variation of its hosts, with a seed of its own.
    pub variation: Variation,
}

/// The messages of a job.
#[derive(Clone, Debug)]
pub struct JobCounts {
    /// Messages delivered: puts, gets, atomics.
    pub messages: u64,
    pub payload_bytes: u64,
    /// Picoseconds from command to delivery.
    pub latency: Histogram<u64>,
}

impl Default for JobCounts {
    fn default() -> JobCounts {
        let latency = Histogram::new(3).expect("a histogram may have three significant digits");
        JobCounts { messages: 0, payload_bytes: 0, latency }
    }
}

impl JobCounts {
    #[inline]
    pub(super) fn delivered(&mut self, payload_bytes: u64, latency: Option<Time>) {
        self.messages += 1;
        self.payload_bytes += payload_bytes;
        if let Some(latency) = latency {
            let _ = self.latency.record(latency.0.max(1));
        }
    }
}

/// The jobs of a run, by rank.
#[derive(Debug)]
pub(super) struct JobTable {
    spans: Vec<JobSpan>,
    /// The first rank of each job.
    first: Vec<u32>,
}

impl JobTable {
    /// Makes the table for so many ranks. Without spans, all of them are one job.
    pub fn new(spans: &[JobSpan], ranks: u32, variation: Variation) -> Result<JobTable, SimulationError> {
        let one = || vec![JobSpan { ranks, start: Time::ZERO, background: false, variation }];
        let spans = if spans.is_empty() { one() } else { spans.to_vec() };
        let mut first = Vec::new();
        let of_jobs = spans.iter().fold(0, |sum: u32, span| {
            first.push(sum);
            sum.saturating_add(span.ranks)
        });
        if of_jobs != ranks {
            return Err(SimulationError::RanksOfJobs { ranks, of_jobs });
        }
        Ok(JobTable { spans, first })
    }

    /// Returns the number of a rank's job. Aggregation nodes, whose numbers are higher, belong to the first job.
    #[inline]
    pub fn number(&self, rank: u32) -> usize {
        let after = self.first.partition_point(|first| *first <= rank);
        let number = after.saturating_sub(1);
        let span = &self.spans[number];
        if rank - self.first[number] < span.ranks { number } else { 0 }
    }

    /// Returns a rank's job, and its number in it.
    pub fn of(&self, rank: u32) -> (&JobSpan, u32) {
        let number = self.number(rank);
        (&self.spans[number], rank - self.first[number])
    }

    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// Returns the number of ranks whose end the run waits for.
    pub fn foreground_ranks(&self) -> u32 {
        self.spans.iter().filter(|span| !span.background).map(|span| span.ranks).sum()
    }

    pub fn largest(&self) -> u32 {
        self.spans.iter().map(|span| span.ranks).max().unwrap_or(0)
    }
}
