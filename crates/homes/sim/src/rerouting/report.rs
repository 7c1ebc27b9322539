// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of a fabric and their consequences, for the report.
//!
//! An episode begins with a change of a fabric at rest, and ends when all managers have its true map. Changes before
//! that belong to it.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric_manager::{Strategy, Timing};
use serde::Serialize;

use super::Detection;
use crate::network::{LossReason, Losses};
use crate::time::Time;

/// Names of changes that an episode keeps.
const CHANGES_MAX: usize = 16;

/// Rerouting of a whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReroutingReport {
    pub detection: Detection,
    /// The routes of a fabric in which links are missing.
    pub routes: &'static str,
    /// Maps that packets have followed: with the machine's routes and detours, and with the managers' routes.
    pub maps_with_detours: u64,
    pub maps_without: u64,
    /// Between hellos of a port, and without one until the other end counts as silent.
    pub hello_ps: u64,
    pub silence_ps: u64,
    pub episodes: Vec<Episode>,
    /// Lost packets up to the end of the last episode's flood.
    #[serde(skip)]
    counted: Losses,
}

/// A change of the fabric, or several that overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Episode {
    pub at_ps: u64,
    /// In words: `link a-b fails`.
    pub changes: Vec<String>,
    /// Further changes, which are not named.
    pub more_changes: u64,
    /// Time from the first change until the first router noticed that a link is down.
    pub noticed_ps: Option<u64>,
    /// Time from the first change until all routers had the true map of their part. `None`: the run ended before, or it
    /// never came to that.
    pub converged_ps: Option<u64>,
    /// Routers whose nodes have got other routes.
    pub routers_rerouted: u64,
    /// Management frames and their bytes, until all was at rest.
    pub frames: u64,
    pub frame_bytes: u64,
    /// Packets lost until all routers had the map; and later, until the next episode.
    pub lost_until_converged: BTreeMap<LossReason, u64>,
    pub lost_later: BTreeMap<LossReason, u64>,
}

/// An episode that is under way.
#[derive(Debug)]
pub(super) struct Open {
    begin: Time,
    /// Its last change, by the time of the run and by the managers' clock.
    last: Time,
    last_own: Time,
    episode: Episode,
    /// Packets lost before it, once they are known, and until it converged.
    lost_before: Option<Losses>,
    converged: Option<(Time, Losses)>,
    /// Routers that failed or returned at a time: their links are not named.
    routers: (Time, BTreeSet<u32>),
    rerouted: BTreeSet<u32>,
}

impl Open {
    pub fn new(now: Time, last_own: Time) -> Open {
        Open {
            begin: now,
            last: now,
            last_own,
            episode: Episode { at_ps: now.0, ..Episode::default() },
            lost_before: None,
            converged: None,
            routers: (now, BTreeSet::new()),
            rerouted: BTreeSet::new(),
        }
    }

    pub fn last_change(&self) -> Time {
        self.last
    }

    pub fn last_change_own(&self) -> Time {
        self.last_own
    }

    pub fn changes_again(&mut self, now: Time, own: Time) {
        (self.last, self.last_own) = (now, own);
    }

    fn name(&mut self, name: String) {
        match self.episode.changes.len() < CHANGES_MAX {
            true => self.episode.changes.push(name),
            false => self.episode.more_changes += 1,
        }
    }

    pub fn router(&mut self, now: Time, router: u32, name: &str, is_up: bool) {
        if self.routers.0 != now {
            self.routers = (now, BTreeSet::new());
        }
        self.routers.1.insert(router);
        self.name(format!("router {} {}", name.trim_start_matches("router "), words(is_up)));
    }

    pub fn link(&mut self, now: Time, name: &str, ends: [u32; 2], is_up: bool) {
        if self.routers.0 == now && ends.iter().any(|end| self.routers.1.contains(end)) {
            return;
        }
        self.name(format!("{name} {}", words(is_up)));
    }

    pub fn notice(&mut self, now: Time) {
        self.episode.noticed_ps.get_or_insert(now.saturating_sub(self.begin).0);
    }

    pub fn reroutes(&mut self, router: u32) {
        self.rerouted.insert(router);
    }

    pub fn send(&mut self, bytes: u64) {
        self.episode.frames += 1;
        self.episode.frame_bytes += bytes;
    }

    pub fn review(&mut self, now: Time, is_agreed: bool, losses: impl Fn() -> Losses) {
        self.lost_before.get_or_insert_with(&losses);
        match is_agreed {
            true => _ = self.converged.get_or_insert_with(|| (now, losses())),
            false => self.converged = None,
        }
    }

    /// Returns the episode, if it ends with these losses.
    fn episode(&self, losses: Losses) -> Episode {
        let before = self.lost_before.unwrap_or_default();
        let until = self.converged.map_or(losses, |(_, losses)| losses);
        Episode {
            converged_ps: self.converged.map(|(at, _)| at.saturating_sub(self.begin).0),
            routers_rerouted: self.rerouted.len() as u64,
            lost_until_converged: between(before, until),
            lost_later: between(until, losses),
            ..self.episode.clone()
        }
    }
}

impl ReroutingReport {
    pub(super) fn new(detection: Detection, strategy: Strategy, timing: &Timing) -> ReroutingReport {
        ReroutingReport {
            detection,
            routes: match strategy {
                Strategy::WestFirst => "west-first, or up-down",
                _ => "the machine's with detours, or up-down",
            },
            maps_with_detours: 0,
            maps_without: 0,
            hello_ps: Time::from_ns(timing.hello_ns).0,
            silence_ps: Time::from_ns(timing.silence_ns).0,
            episodes: Vec::new(),
            counted: Losses::default(),
        }
    }

    pub(super) fn add(&mut self, open: Open, losses: impl Fn() -> Losses) {
        let begin = open.lost_before.unwrap_or_default();
        self.count_later(begin);
        let losses = losses();
        self.episodes.push(open.episode(losses));
        self.counted = losses;
    }

    /// Adds what was lost since the last episode to it.
    fn count_later(&mut self, losses: Losses) {
        if let Some(last) = self.episodes.last_mut() {
            for (why, more) in between(self.counted, losses) {
                *last.lost_later.entry(why).or_default() += more;
            }
        }
        self.counted = losses;
    }

    pub(super) fn finish(&mut self, open: Option<&Open>, losses: Losses) {
        match open {
            None => self.count_later(losses),
            Some(open) => {
                self.count_later(open.lost_before.unwrap_or_default());
                self.episodes.push(open.episode(losses));
                self.counted = losses;
            }
        }
    }
}

fn words(is_up: bool) -> &'static str {
    if is_up { "returns" } else { "fails" }
}

/// Returns the packets lost between two counts. The causes that rerouting has are always there.
fn between(before: Losses, after: Losses) -> BTreeMap<LossReason, u64> {
    let lost = LossReason::ALL.into_iter().map(|why| (why, after[why as usize] - before[why as usize]));
    lost.filter(|&(why, count)| count > 0 || matches!(why, LossReason::LinkDown | LossReason::Unreachable)).collect()
}
