// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Regions that programs mark, and the counts of one of them that is observed (docs/design/regions.md).
//!
//! Invariants
//! 1. Marks take no virtual time and change nothing but these counts: a run is the same whatever is observed.
//! 2. The observed region is active while at least one rank is inside. Its counts are sums of differences over the times
//!    for which it was active.
//!
//! Costs: a message of a run without marks, one test. A change of the observed region, O(channels + ranks).

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::Topology;
use serde::Serialize;

use crate::network::{ChannelStatistics, Counted, NetworkStatistics};
use crate::time::Time;

use super::outcome::Statistics;
use super::ranks::RegisterSums;

/// Regions with a name of their own; marks of further names are only counted.
const REGIONS_MAX: usize = 64;
/// The number of a region beyond the limit.
pub(super) const UNNAMED: u32 = u32::MAX;

/// A region of a run for a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegionReport {
    pub name: String,
    /// Times that ranks have entered it, without those inside themselves.
    pub entered: u64,
    /// Ranks that have entered it.
    pub ranks: u32,
    /// Least, median and greatest time of these ranks in it.
    pub time_ps_min: u64,
    pub time_ps_median: u64,
    pub time_ps_max: u64,
    /// Messages that ranks started in it, and the bytes that these asked for.
    pub messages: u64,
    pub bytes: u64,
}

/// The regions of a run, in the order in which their names came up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionReports {
    pub regions: Vec<RegionReport>,
    /// Marks of names beyond the limit of [`REGIONS_MAX`].
    pub unnamed: u64,
    /// Ends without a begin, and regions that ended with their rank; the first: rank, region, whether it was an end.
    pub unbalanced: u64,
    pub unbalanced_first: Option<(u32, String, bool)>,
}

/// A rank in a region.
#[derive(Clone, Copy, Debug, Default)]
struct Inside {
    depth: u32,
    since: Time,
    total: Time,
}

#[derive(Debug)]
struct Region {
    name: String,
    entered: u64,
    ranks: BTreeMap<u32, Inside>,
    messages: u64,
    bytes: u64,
}

/// The counts over the times for which the observed region was active. Of the fabric, they are those of a network.
#[derive(Clone, Debug)]
pub struct RegionCounts {
    pub name: String,
    /// The sum of these times, and their number.
    pub time: Time,
    pub stretches: u64,
    pub statistics: Statistics,
    pub registers: RegisterSums,
    topology: Arc<Topology>,
    network: NetworkStatistics,
    channels: Vec<ChannelStatistics>,
}

impl Counted for RegionCounts {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn statistics(&self) -> &NetworkStatistics {
        &self.network
    }

    fn channel_statistics(&self, channel: u32) -> ChannelStatistics {
        self.channels.get(channel as usize).copied().unwrap_or_default()
    }
}

/// The counters of a simulation at one time.
pub(super) struct Snapshot {
    at: Time,
    statistics: Statistics,
    registers: RegisterSums,
    network: NetworkStatistics,
    channels: Vec<ChannelStatistics>,
}

impl Snapshot {
    pub fn take(at: Time, statistics: &mut Statistics, registers: RegisterSums, network: &dyn Counted) -> Snapshot {
        statistics.settle();
        Snapshot {
            at,
            statistics: statistics.clone(),
            registers,
            network: network.statistics().clone(),
            channels: (0..network.topology().channels()).map(|channel| network.channel_statistics(channel)).collect(),
        }
    }
}

/// The observed region.
struct Observed {
    /// Its number, once a rank has named it.
    number: Option<u32>,
    /// Ranks that are inside.
    inside: u32,
    entered: bool,
    began: Option<Snapshot>,
    counts: RegionCounts,
}

/// The change of the observed region by a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Begins,
    Ends,
}

/// The regions of a run.
#[derive(Default)]
pub(super) struct Regions {
    regions: Vec<Region>,
    /// The regions in which each rank is.
    open: BTreeMap<u32, Vec<u32>>,
    observed: Option<Observed>,
    unnamed: u64,
    unbalanced: u64,
    unbalanced_first: Option<(u32, String, bool)>,
}

impl Regions {
    /// Observes a region from the start.
    pub fn new(observed: Option<&str>, topology: &Arc<Topology>) -> Regions {
        let observed = observed.map(|name| Observed {
            number: None,
            inside: 0,
            entered: false,
            began: None,
            counts: RegionCounts {
                name: name.to_owned(),
                time: Time::ZERO,
                stretches: 0,
                statistics: Statistics::default(),
                registers: RegisterSums::default(),
                topology: topology.clone(),
                network: NetworkStatistics::default(),
                channels: vec![ChannelStatistics::default(); topology.channels() as usize],
            },
        });
        Regions { observed, ..Regions::default() }
    }

    /// Returns the number of a name, or [`UNNAMED`].
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(known) = self.regions.iter().position(|region| region.name == name) {
            return known as u32;
        }
        if self.regions.len() == REGIONS_MAX {
            return UNNAMED;
        }
        let number = self.regions.len() as u32;
        if let Some(observed) = self.observed.as_mut().filter(|observed| observed.counts.name == name) {
            observed.number = Some(number);
        }
        let name = name.to_owned();
        self.regions.push(Region { name, entered: 0, ranks: BTreeMap::new(), messages: 0, bytes: 0 });
        number
    }

    /// Counts a message that a rank starts.
    #[inline]
    pub fn sent(&mut self, rank: u32, bytes: u64) {
        if self.open.is_empty() {
            return;
        }
        for number in self.open.get(&rank).into_iter().flatten() {
            let region = &mut self.regions[*number as usize];
            region.messages += 1;
            region.bytes += bytes;
        }
    }

    /// A rank begins or ends a region.
    pub fn mark(&mut self, now: Time, rank: u32, number: u32, begins: bool) -> Change {
        let Some(region) = self.regions.get_mut(number as usize) else {
            self.unnamed += 1;
            return Change::None;
        };
        let depth = region.ranks.get(&rank).map_or(0, |inside| inside.depth);
        match (begins, depth) {
            (true, depth) => {
                let inside = region.ranks.entry(rank).or_default();
                inside.depth += 1;
                if depth > 0 {
                    return Change::None;
                }
                inside.since = now;
                region.entered += 1;
                self.open.entry(rank).or_default().push(number);
                self.observed_enters(number)
            }
            (false, 0) => {
                self.note_unbalanced(rank, number, true);
                Change::None
            }
            (false, 1) => self.leave(now, rank, number),
            (false, _) => {
                region.ranks.entry(rank).or_default().depth -= 1;
                Change::None
            }
        }
    }

    fn leave(&mut self, now: Time, rank: u32, number: u32) -> Change {
        let region = &mut self.regions[number as usize];
        let inside = region.ranks.entry(rank).or_default();
        inside.depth = 0;
        inside.total += now.saturating_sub(inside.since);
        if let Some(open) = self.open.get_mut(&rank) {
            open.retain(|other| *other != number);
            if open.is_empty() {
                self.open.remove(&rank);
            }
        }
        let Some(observed) = self.observed.as_mut().filter(|observed| observed.number == Some(number)) else {
            return Change::None;
        };
        observed.inside -= 1;
        if observed.inside == 0 { Change::Ends } else { Change::None }
    }

    fn observed_enters(&mut self, number: u32) -> Change {
        let Some(observed) = self.observed.as_mut().filter(|observed| observed.number == Some(number)) else {
            return Change::None;
        };
        observed.entered = true;
        observed.inside += 1;
        if observed.inside == 1 { Change::Begins } else { Change::None }
    }

    fn note_unbalanced(&mut self, rank: u32, number: u32, is_end: bool) {
        self.unbalanced += 1;
        let name = &self.regions[number as usize].name;
        self.unbalanced_first.get_or_insert_with(|| (rank, name.clone(), is_end));
    }

    /// A rank ends, and so do the regions in which it is. The observed one may change.
    pub fn rank_ended(&mut self, now: Time, rank: u32) -> Change {
        let mut change = Change::None;
        for number in self.open.get(&rank).cloned().unwrap_or_default() {
            self.note_unbalanced(rank, number, false);
            if self.leave(now, rank, number) == Change::Ends {
                change = Change::Ends;
            }
        }
        change
    }

    /// The run ends, without a note on the ranks that are still in regions: they have not ended.
    pub fn run_ended(&mut self, now: Time) -> Change {
        let open = std::mem::take(&mut self.open);
        let mut change = Change::None;
        for (rank, number) in open.into_iter().flat_map(|(rank, open)| open.into_iter().map(move |each| (rank, each))) {
            if self.leave(now, rank, number) == Change::Ends {
                change = Change::Ends;
            }
        }
        change
    }

    /// Whether a region is observed and no rank is inside.
    pub fn is_outside(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| observed.began.is_none())
    }

    /// The observed region becomes active.
    pub fn begin(&mut self, snapshot: Snapshot) {
        if let Some(observed) = &mut self.observed {
            observed.began = Some(snapshot);
        }
    }

    /// The observed region ends to be active.
    pub fn end(&mut self, snapshot: &Snapshot) {
        let Some(observed) = &mut self.observed else { return };
        let Some(began) = observed.began.take() else { return };
        let counts = &mut observed.counts;
        counts.time += snapshot.at.saturating_sub(began.at);
        counts.stretches += 1;
        counts.statistics.add(&snapshot.statistics);
        counts.statistics.subtract(&began.statistics);
        counts.registers.join(&snapshot.registers);
        counts.registers.subtract(&began.registers);
        counts.network.add(&snapshot.network);
        counts.network.subtract(&began.network);
        for ((sum, now), before) in counts.channels.iter_mut().zip(&snapshot.channels).zip(&began.channels) {
            *sum = sum.add(*now).less(*before);
        }
    }

    /// Returns the counts of the observed region. `None`: none is observed, or no rank has entered it.
    pub fn counts(&self) -> Option<RegionCounts> {
        self.observed.as_ref().filter(|observed| observed.entered).map(|observed| observed.counts.clone())
    }

    pub fn reports(&self) -> RegionReports {
        let regions = self.regions.iter().filter(|region| region.entered > 0).map(|region| {
            let mut times: Vec<u64> = region.ranks.values().map(|inside| inside.total.0).collect();
            times.sort_unstable();
            RegionReport {
                name: region.name.clone(),
                entered: region.entered,
                ranks: times.len() as u32,
                time_ps_min: times.first().copied().unwrap_or(0),
                time_ps_median: times.get(times.len() / 2).copied().unwrap_or(0),
                time_ps_max: times.last().copied().unwrap_or(0),
                messages: region.messages,
                bytes: region.bytes,
            }
        });
        RegionReports {
            regions: regions.collect(),
            unnamed: self.unnamed,
            unbalanced: self.unbalanced,
            unbalanced_first: self.unbalanced_first.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(time: u64) -> Time {
        Time::from_ns(time)
    }

    #[test]
    fn times_of_nested_and_repeated_regions_are_those_of_the_outermost() {
        let mut regions = Regions::default();
        let (solve, inner) = (regions.number("solve"), regions.number("inner"));
        assert_eq!((regions.number("solve"), solve, inner), (0, 0, 1));
        for (at, rank, number, begins) in [
            (10, 0, solve, true),
            (12, 0, inner, true),
            (13, 0, solve, true),
            (20, 0, solve, false),
            (22, 0, inner, false),
            (30, 0, solve, false),
            (40, 0, solve, true),
            (45, 0, solve, false),
            (10, 1, solve, true),
            (17, 1, solve, false),
        ] {
            if at == 20 {
                regions.sent(0, 100);
            }
            regions.mark(ns(at), rank, number, begins);
        }
        regions.sent(0, 1000);
        let reports = regions.reports();
        let [solve, inner] = &reports.regions[..] else { panic!("two regions") };
        assert_eq!((solve.entered, solve.ranks), (3, 2));
        assert_eq!((solve.time_ps_min, solve.time_ps_max), (7000, 25_000));
        assert_eq!((inner.entered, inner.time_ps_max), (1, 10_000));
        assert_eq!((solve.messages, solve.bytes, inner.messages), (1, 100, 1));
        assert_eq!(reports.unbalanced, 0);
    }

    #[test]
    fn unbalanced_marks_are_counted_and_the_first_is_kept() {
        let mut regions = Regions::default();
        let number = regions.number("a");
        regions.mark(ns(5), 3, number, false);
        regions.mark(ns(6), 4, number, true);
        regions.rank_ended(ns(9), 4);
        regions.rank_ended(ns(9), 5);
        let reports = regions.reports();
        assert_eq!((reports.unbalanced, reports.unbalanced_first), (2, Some((3, "a".to_owned(), true))));
        let region = &reports.regions[0];
        assert_eq!((region.ranks, region.time_ps_max), (1, 3000), "a rank that never entered is none of its ranks");
    }

    #[test]
    fn names_beyond_the_limit_are_counted() {
        let mut regions = Regions::default();
        for name in 0..REGIONS_MAX + 2 {
            let number = regions.number(&name.to_string());
            regions.mark(ns(1), 0, number, true);
        }
        assert_eq!((regions.reports().regions.len(), regions.reports().unnamed), (REGIONS_MAX, 2));
        assert_eq!(regions.number("7"), 7);
    }

    #[test]
    fn an_observed_region_is_active_while_a_rank_is_inside() {
        let topology = Arc::new(Topology::crossbar(2).unwrap());
        let mut regions = Regions::new(Some("b"), &topology);
        let (a, b) = (regions.number("a"), regions.number("b"));
        assert_eq!(regions.mark(ns(1), 0, a, true), Change::None);
        assert!(regions.is_outside());
        assert_eq!(regions.mark(ns(2), 0, b, true), Change::Begins);
        assert_eq!(regions.mark(ns(3), 1, b, true), Change::None);
        assert_eq!(regions.mark(ns(4), 0, b, false), Change::None);
        assert_eq!(regions.rank_ended(ns(5), 1), Change::Ends);
        assert!(regions.counts().is_some());
        assert!(Regions::new(Some("c"), &topology).counts().is_none());
    }
}
