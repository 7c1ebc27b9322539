// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list manager in a replay.
//!
//! | transition | command |
//! |---|---|
//! | append | append |
//! | a posted receive | append to the priority list; it takes the message that the receive matched |
//! | a put or get delivered, a receive taken | message |
//! | an unexpected message claimed or dropped, unless a posted receive has taken it here | search that deletes, for its source and bits |
//! | a freed portal table entry with unexpected messages | search that deletes, for all |
//! | unlink, search | the same |
//!
//! Commands follow each other without a pause. A drain precedes a command that needs a pending reference.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_nic::portals::{Delivery, EntrySpec, Posted, fail, list, options};
use selvedge_nic::tables::{Request, kind};
use selvedge_nic::tap::Transition;

use super::driver::{Driver, compare_with_trace, search_for};
use super::ids::Ids;
use super::statistics::Statistics;
use crate::error::LockstepError;
use crate::lists::{ListCommand, ListsLockstep, Outcome, PORTALS};
use crate::unit::Missing;

/// `lists` and `lists_one_port` of rtl/units.toml: entries, headers, buckets.
const SIZE: (u32, u32, usize) = (256, 256, 512);
/// Commands that run back to back before their results are read.
const BATCH: usize = 64;
/// Maximum cycles of a message that the frame decides, with four patterns in use, and of an append.
const FRAME_MESSAGE: u32 = 7;
const FRAME_APPEND: u32 = 3;

enum Traced {
    /// An entry: its reference, and whether it was linked, if known.
    Appended {
        entry: Option<u32>,
        is_linked: Option<bool>,
    },
    Delivered(Delivery),
    /// Bytes of a receive.
    Taken(u64),
    Unlinked(bool),
    Nothing,
}

pub struct Lists {
    both: ListsLockstep,
    gap: u64,
    statistics: Statistics,
    ids: Ids,
    queue: Vec<ListCommand>,
    /// Unanswered commands at the last look: record, kind, result in the trace.
    under_way: VecDeque<(u64, &'static str, Traced)>,
    /// References of the trace, with those here; `None` if not known yet.
    entries: BTreeMap<u32, Option<u32>>,
    /// Headers of the trace that a receive or a search has taken here already.
    taken: BTreeSet<u32>,
    /// Portal table entries with an entry that a message may change: use-once, locally managed, in an overflow list.
    changing: BTreeSet<u32>,
    answered: usize,
    until: u32,
}

impl Lists {
    pub fn new(unit: &'static str, gap: u64) -> Result<Lists, Missing> {
        let mut both = ListsLockstep::new(unit, SIZE, PORTALS as u32)?;
        both.compare_all = false;
        let statistics = Statistics { decided: Some((0, 0)), ..Statistics::of(unit) };
        Ok(Lists {
            both,
            gap,
            statistics,
            ids: Ids::default(),
            queue: Vec::new(),
            under_way: VecDeque::new(),
            entries: BTreeMap::new(),
            taken: BTreeSet::new(),
            changing: BTreeSet::new(),
            answered: 0,
            until: 0,
        })
    }

    /// Leaves out a command that would have changed the lists.
    fn leave_out(&mut self, number: u64, reason: &'static str) {
        self.statistics.leave_out(reason);
        self.statistics.differs_from.get_or_insert(number);
    }

    fn spec(&mut self, spec: &EntrySpec) -> Option<EntrySpec> {
        self.ids.spec(spec, &mut self.statistics)
    }

    /// Queues a command. `Err`: a value is too wide for the RTL.
    fn offer(
        &mut self,
        number: u64,
        kind: &'static str,
        command: ListCommand,
        traced: Traced,
    ) -> Result<(), LockstepError> {
        if let Err(wide) = command.words(0) {
            let reason = match wide.0 {
                "I/O vector" => "entries with I/O vectors",
                "operation" => "atomics",
                "length" | "remote_offset" => "lengths and offsets of 4 GiB",
                "portal" => "portal table entries above 63",
                _ => "values too wide",
            };
            self.leave_out(number, reason);
            return Ok(());
        }
        if let Traced::Appended { entry: Some(entry), .. } = traced {
            self.entries.insert(entry, None);
        }
        self.queue.push(command);
        self.under_way.push_back((number, kind, traced));
        if self.gap > 0 || self.queue.len() >= BATCH { self.run() } else { Ok(()) }
    }

    fn run(&mut self) -> Result<(), LockstepError> {
        let commands = std::mem::take(&mut self.queue);
        self.both.run(&commands, self.gap)?;
        self.look()
    }

    fn drain(&mut self) -> Result<(), LockstepError> {
        self.run()?;
        self.both.drain()?;
        self.look()
    }

    /// Reads the results of the answered commands.
    fn look(&mut self) -> Result<(), LockstepError> {
        for outcome in self.both.take_outcomes() {
            let (number, kind, traced) = self.under_way.pop_front().ok_or("more answers than commands")?;
            let timing = self.both.timings()[self.answered];
            self.answered += 1;
            let latency = timing.answered - timing.accepted;
            self.statistics.commands.entry(kind).or_default().add(latency);
            let began = timing.accepted.max(self.until);
            self.statistics.cycles += u64::from(timing.answered.saturating_sub(began));
            self.until = timing.answered.max(self.until);
            let frame = match kind {
                "message" => FRAME_MESSAGE,
                "append" => FRAME_APPEND,
                _ => 0,
            };
            let (by_frame, by_sequencer) = self.statistics.decided.get_or_insert_default();
            *(if latency <= frame { by_frame } else { by_sequencer }) += 1;
            self.compare(number, kind, &traced, &outcome)?;
        }
        for (name, longest) in ["on a priority list", "on an overflow list", "unexpected"].iter().zip(self.both.longest)
        {
            self.statistics.note_largest(name, longest.into());
        }
        Ok(())
    }

    fn compare(&mut self, number: u64, kind: &str, traced: &Traced, outcome: &Outcome) -> Result<(), LockstepError> {
        match *traced {
            Traced::Appended { entry, is_linked } => {
                let here = outcome.appended.and_then(Result::ok);
                if let Some(entry) = entry {
                    self.entries.insert(entry, here);
                }
                if here.is_none() {
                    self.leave_out(number, "entries beyond 256");
                    return Ok(());
                }
                match is_linked {
                    Some(linked) => {
                        compare_with_trace(&mut self.statistics, number, "is linked", outcome.is_linked, linked)
                    }
                    None => Ok(()),
                }
            }
            Traced::Delivered(delivery) => {
                let here = outcome.delivery.ok_or("a message without a result")?;
                if here.fail == fail::DROPPED && delivery.fail == fail::OK && delivery.list == list::OVERFLOW {
                    self.leave_out(number, "unexpected messages beyond 256");
                    return Ok(());
                }
                compare_with_trace(&mut self.statistics, number, kind, here, delivery)
            }
            Traced::Taken(bytes) => {
                let here = outcome.delivery.ok_or("a message without a result")?;
                let here = (here.fail, here.list, here.mlength);
                compare_with_trace(&mut self.statistics, number, kind, here, (fail::OK, list::PRIORITY, bytes))
            }
            Traced::Unlinked(is_done) => {
                compare_with_trace(&mut self.statistics, number, kind, outcome.unlinked == Some(Ok(())), is_done)
            }
            Traced::Nothing => Ok(()),
        }
    }

    fn append(
        &mut self,
        number: u64,
        (portal, which): (u32, u8),
        spec: &EntrySpec,
        entry: Option<u32>,
        is_linked: Option<bool>,
    ) -> Result<(), LockstepError> {
        let Some(spec) = self.spec(spec) else {
            self.leave_out(number, "process ids too wide");
            return Ok(());
        };
        if which == list::OVERFLOW || spec.options & (options::USE_ONCE | options::MANAGE_LOCAL) != 0 {
            self.changing.insert(portal);
        }
        let traced = Traced::Appended { entry, is_linked };
        self.offer(number, "append", ListCommand::Append { portal, which, spec }, traced)
    }

    fn message(&mut self, number: u64, request: &Request, traced: Traced) -> Result<(), LockstepError> {
        let Some(initiator) = self.ids.id(request.initiator) else {
            self.leave_out(number, "process ids too wide");
            return Ok(());
        };
        self.offer(number, "message", ListCommand::Deliver(Request { initiator, ..*request }), traced)
    }

    /// Takes the oldest unexpected message of this source and bits off its list, or the whole list, if it has any.
    fn take_unexpected(
        &mut self,
        number: u64,
        portal: u32,
        key: Option<(u64, u64)>,
        has_some: bool,
    ) -> Result<(), LockstepError> {
        if !has_some {
            return Ok(());
        }
        let spec = search_for(key);
        let Some(spec) = self.spec(&spec) else {
            self.leave_out(number, "process ids too wide");
            return Ok(());
        };
        self.offer(number, "take", ListCommand::Search { portal, spec, delete: true }, Traced::Nothing)
    }
}

impl Driver for Lists {
    fn take(&mut self, number: u64, transition: &Transition) -> Result<(), LockstepError> {
        match *transition {
            Transition::Append { entry: None, .. }
            | Transition::PostReceive { posted: None, .. }
            | Transition::Search { is_done: false, .. } => {
                self.statistics.leave_out("commands that the recorded NIC refused")
            }
            Transition::Append { portal, list, spec, entry } => {
                return self.append(number, (portal, list), &spec, entry, None);
            }
            Transition::PostReceive { portal, spec, posted: Some(posted) } => {
                let (entry, is_linked) = match posted {
                    Posted::Linked(entry) => (Some(entry), true),
                    Posted::Matched(header) => {
                        self.taken.insert(header);
                        (None, false)
                    }
                };
                return self.append(number, (portal, list::PRIORITY), &spec, entry, Some(is_linked));
            }
            Transition::Deliver { request, delivery } => match delivery.fail {
                _ if !matches!(request.kind, kind::PUT | kind::GET) => match self.changing.contains(&request.portal) {
                    true => self.leave_out(number, "atomics"),
                    // It did not change its entry.
                    false => self.statistics.leave_out("atomics"),
                },
                fail::PT_DISABLED | fail::SEGV => {
                    self.leave_out(number, "messages to disabled entries or unmapped memory")
                }
                _ => return self.message(number, &request, Traced::Delivered(delivery)),
            },
            Transition::TakeReceive { put, receive } => {
                let traced = match put.remote_offset {
                    0 => Traced::Taken(put.length.min(receive.length)),
                    _ => Traced::Nothing,
                };
                return self.message(number, &Request::from(&put), traced);
            }
            Transition::ClaimUnexpected { header, portal, source, match_bits } => {
                let is_on_its_list = self.taken.insert(header);
                return self.take_unexpected(number, portal, Some((source, match_bits)), is_on_its_list);
            }
            Transition::DropUnexpected { header, portal, source, match_bits } => {
                let is_on_its_list = !self.taken.remove(&header);
                return self.take_unexpected(number, portal, Some((source, match_bits)), is_on_its_list);
            }
            Transition::Unlink { entry, is_done } => {
                if self.entries.get(&entry) == Some(&None) {
                    self.drain()?;
                }
                match self.entries.get(&entry) {
                    Some(&Some(here)) => {
                        return self.offer(number, "unlink", ListCommand::Unlink(here), Traced::Unlinked(is_done));
                    }
                    _ => self.statistics.leave_out("unlinks of entries that were left out"),
                }
            }
            Transition::Search { portal, spec, deletes, .. } => match self.spec(&spec) {
                Some(spec) => {
                    let command = ListCommand::Search { portal, spec, delete: deletes };
                    return self.offer(number, "search", command, Traced::Nothing);
                }
                None => self.leave_out(number, "process ids too wide"),
            },
            Transition::PortalFree { portal, is_done: true } => {
                self.drain()?;
                let has_some = self.both.has_unexpected(portal);
                return self.take_unexpected(number, portal, None, has_some);
            }
            Transition::PortalSet { .. } => self.statistics.leave_out("portal table entries enabled or disabled"),
            Transition::Reserve { .. } => self.leave_out(number, "triggered appends"),
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), LockstepError> {
        self.drain()
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
