// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of the thread that makes progress, under one lock: the links from peers, and the reads in flight on them.

use std::collections::HashMap;
use std::time::Instant;

use crate::endpoint::Completion;
use crate::faults::{Faults, FaultyNetwork};
use crate::ids::PeerId;
use crate::incoming::Incoming;
use crate::read_queue::ReadQueue;

use super::strangers::Strangers;

/// The links from peers, by their numbers, which frames carry.
#[derive(Default)]
pub(super) struct IncomingLinks {
    links: Vec<Option<Incoming>>,
}

impl IncomingLinks {
    pub(super) fn insert(&mut self, link: Incoming) -> usize {
        let number = self.links.iter().position(Option::is_none).unwrap_or(self.links.len());
        match self.links.get_mut(number) {
            Some(place) => *place = Some(link),
            None => self.links.push(Some(link)),
        }
        number
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Incoming> {
        self.links.get_mut(number)?.as_mut()
    }

    /// Returns the peer of a link, and its packets that wait for their payload.
    pub(super) fn reads_of(&mut self, number: usize) -> Option<(PeerId, &mut ReadQueue)> {
        let incoming = self.get_mut(number)?;
        Some((incoming.peer()?, incoming.reads()?))
    }

    pub(super) fn remove(&mut self, number: usize) -> Option<Incoming> {
        self.links.get_mut(number)?.take()
    }

    pub(super) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.links.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Incoming> {
        self.links.iter().flatten()
    }

    /// Returns the numbers of the links whose senders have not proved themselves.
    pub(super) fn unproven(&self) -> Vec<usize> {
        let is_unproven = |link: &Option<Incoming>| link.as_ref().is_some_and(Incoming::is_unproven);
        (0..).zip(&self.links).filter(|(_, link)| is_unproven(link)).map(|(number, _)| number).collect()
    }
}

#[derive(Default)]
pub(super) struct StartedReads {
    /// The number of the link, by tag. Tags increase.
    links: HashMap<u64, usize>,
    next_tag: u64,
    /// Number of readers closed before these reads were started.
    readers_closed: u64,
}

impl StartedReads {
    pub(super) fn restart(&mut self, readers_closed: u64) {
        if std::mem::replace(&mut self.readers_closed, readers_closed) != readers_closed {
            self.links.clear();
        }
    }

    pub(super) fn next_tag(&self) -> u64 {
        self.next_tag
    }

    pub(super) fn push(&mut self, link: usize) {
        self.links.insert(self.next_tag, link);
        self.next_tag += 1;
    }

    pub(super) fn remove(&mut self, tag: u64) -> Option<usize> {
        self.links.remove(&tag)
    }

    pub(super) fn link_of(&self, tag: u64) -> Option<usize> {
        self.links.get(&tag).copied()
    }
}

#[derive(Default)]
pub(super) struct ProgressState {
    pub(super) incoming: IncomingLinks,
    pub(super) completions: Vec<Completion>,
    pub(super) reads: StartedReads,
    /// Numbers of the links with packets that wait for their payloads.
    pub(super) waiting: Vec<usize>,
    /// A network that frames pass first, in tests.
    pub(super) faulty: Option<FaultyNetwork>,
    pub(super) strangers: Strangers,
    /// The time since which no connection can be accepted, for want of descriptors.
    pub(super) refuses_since: Option<Instant>,
    /// The last look at the times of all links, and whether a link waits for time to pass since then.
    pub(super) checked: Option<Instant>,
    pub(super) waits: bool,
    /// The end of the last step, if libfabric may access memory of the program in the next.
    pub(super) stepped: Option<Instant>,
    pub(super) rounds: u32,
    pub(super) idle_rounds: u32,
}

impl ProgressState {
    pub(super) fn new(faults: Option<Faults>) -> ProgressState {
        ProgressState { faulty: faults.map(FaultyNetwork::new), ..ProgressState::default() }
    }
}
