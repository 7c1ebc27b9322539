// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans and operations as an archive in OTF2, for Vampir, Scalasca, Cube and Trace Compass.
//!
//! Each rank is a process with one location: a region of the whole program, in which it "runs", and its operations as
//! OTF2's events of remote memory access. The units of a node are the streams of an accelerator at that node, the
//! channels those of another, the fabric. Enters of their regions name the message and its bytes.
//!
//! Invariants
//! 1. Times are picoseconds of virtual time, exact, from 0.
//! 2. Spans of one location do not overlap: a unit with overlapping spans has several locations, as in
//!    [`super::timeline`].
//! 3. Two runs of the same simulation give the same bytes.
//!
//! Costs: O(spans log spans), and the archive's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use selvedge_otf2::archive::{About, Access, Archive, ArchiveError, Atomic, Completion, Events};
use selvedge_otf2::definitions::{
    Clock, Definitions, GroupKind, Location, LocationGroup, Paradigm, Region, Role, TreeNode, Window,
};

use crate::node::trace::{Operation, OperationKind, Span, Trace, Unit};
use crate::time::Time;

use super::timeline::{self, FABRIC, Names, Place, Written};

const TICKS_PER_SECOND: u64 = 1_000_000_000_000;

/// Facts of a run that its spans do not contain.
pub struct Facts<'a> {
    pub machine: &'a str,
    /// The end of the run, and of each rank; `None`: the rank has not ended.
    pub end: Time,
    pub ended: &'a [Option<Time>],
}

/// Writes an archive into a folder.
///
/// # Errors
/// The folder cannot be written or has an archive, or there is no OTF2 library.
pub fn write(trace: &Trace, names: &Names<'_>, facts: &Facts<'_>, folder: &Path) -> Result<Written, ArchiveError> {
    let mut archive = Archive::create(folder, About { machine: facts.machine, description: names.title })?;
    let mut order: Vec<u32> = (0..trace.spans.len() as u32).collect();
    let span = |at: u32| &trace.spans[at as usize];
    order.sort_by_key(|&at| (span(at).start, std::cmp::Reverse(span(at).end), at));
    let (threads, places) = timeline::threads(trace, names, &order, |time| time.0);
    let mut system = System::new(names, facts, regions(trace, names.title));
    // The spans of each thread, in order of time.
    let mut by_thread: Vec<Vec<&Span>> = vec![Vec::new(); places.len()];
    order.iter().for_each(|&at| by_thread[threads[at as usize] as usize].push(span(at)));
    let mut operations: Vec<Vec<&Operation>> = vec![Vec::new(); names.nodes.len()];
    for operation in &trace.operations {
        if let Some(own) = operations.get_mut(operation.from as usize) {
            own.push(operation);
        }
    }
    let mut runs_of: Vec<&[&Span]> = vec![&[]; names.nodes.len()];
    for (place, spans) in places.iter().zip(&by_thread).filter(|(place, _)| is_of_rank(place)) {
        runs_of[place.2 as usize] = spans;
    }
    let mut last = facts.end;
    for (rank, (operations, runs)) in operations.iter().zip(runs_of).enumerate() {
        let end = facts.ended.get(rank).copied().flatten().unwrap_or(facts.end);
        let rank_events = RankEvents { definitions: &system.definitions, runs, operations, end };
        last = last.max(rank_events.last());
        let count = archive.write_events(rank as u64, |events| rank_events.write(events))?;
        system.definitions.locations[rank].events = count;
    }
    for (place, spans) in places.iter().zip(&by_thread) {
        if is_of_rank(place) {
            continue;
        }
        last = spans.iter().map(|span| span.end.max(span.start)).fold(last, Time::max);
        let location = system.definitions.locations.len() as u64;
        let group = system.units_of(names, place.0);
        let events = archive.write_events(location, |events| {
            spans.iter().try_for_each(|span| {
                let region = region_of(&system.definitions, span);
                events.enter(span.start.0, region, &[span.message, span.bytes])?;
                events.leave(span.end.max(span.start).0, region)
            })
        })?;
        let name = timeline::thread_name(names, *place);
        system.definitions.locations.push(Location { name, group, events });
    }
    system.definitions.clock.length = last.0;
    archive.finish(&system.definitions)?;
    Ok(Written {
        spans: trace.spans.len() as u64,
        left_out: trace.left_out,
        flows: operations.iter().map(|own| own.len() as u64).sum(),
    })
}

/// Whether the thread is the location of a rank.
fn is_of_rank(place: &Place) -> bool {
    place.1 == 0 && place.3 == 0
}

/// Returns the regions in order: those of the spans, and the whole program.
fn regions(trace: &Trace, title: &str) -> Vec<Region> {
    let program = Region { name: title.to_owned(), role: Role::Artificial, paradigm: Paradigm::User };
    let names: BTreeSet<(&str, bool)> =
        trace.spans.iter().map(|span| (span.name, span.unit == Unit::Program)).collect();
    let regions = names.into_iter().map(|(name, is_program)| region(name, is_program));
    regions.chain([program]).collect::<BTreeSet<Region>>().into_iter().collect()
}

fn region(name: &str, is_program: bool) -> Region {
    match is_program {
        true => Region { name: name.to_owned(), role: Role::Code, paradigm: Paradigm::User },
        false => Region { name: name.to_owned(), role: Role::DataTransfer, paradigm: Paradigm::Hardware },
    }
}

fn region_of(definitions: &Definitions, span: &Span) -> u32 {
    place_of(definitions, &region(span.name, span.unit == Unit::Program))
}

fn place_of(definitions: &Definitions, region: &Region) -> u32 {
    definitions.regions.binary_search(region).map_or(u32::MAX, |place| place as u32)
}

/// The definitions, and the numbers of those that are looked for by name.
struct System {
    definitions: Definitions,
    nodes: BTreeMap<String, u32>,
    units: BTreeMap<u32, u32>,
}

impl System {
    /// Defines the machine, its nodes with ranks, and the ranks.
    fn new(names: &Names<'_>, facts: &Facts<'_>, regions: Vec<Region>) -> System {
        let root = TreeNode { name: facts.machine.to_owned(), class: "machine", parent: None };
        let definitions = Definitions {
            clock: Clock { ticks_per_second: TICKS_PER_SECOND, first: 0, length: 0, realtime_ns: u64::MAX },
            tree: vec![root],
            groups: Vec::new(),
            locations: Vec::new(),
            regions,
            window: Window { name: "memory of the ranks".to_owned(), members: (0..names.nodes.len() as u64).collect() },
        };
        let mut system = System { definitions, nodes: BTreeMap::new(), units: BTreeMap::new() };
        for (rank, &node) in names.nodes.iter().enumerate() {
            let node = system.node((names.node)(node), "node");
            let group = system.definitions.groups.len() as u32;
            let name = format!("rank {rank}");
            system.definitions.groups.push(LocationGroup { name: name.clone(), kind: GroupKind::Process, node });
            system.definitions.locations.push(Location { name, group, events: 0 });
        }
        system
    }

    /// Returns the number of a node below the machine, which is added if it is new.
    fn node(&mut self, name: String, class: &'static str) -> u32 {
        let tree = &mut self.definitions.tree;
        *self.nodes.entry(name.clone()).or_insert_with(|| {
            tree.push(TreeNode { name, class, parent: Some(0) });
            tree.len() as u32 - 1
        })
    }

    /// Returns the group of a node's units, or of the channels, which is added if it is new. `process` is the timeline's.
    fn units_of(&mut self, names: &Names<'_>, process: u32) -> u32 {
        if let Some(&group) = self.units.get(&process) {
            return group;
        }
        let (node, class, name) = match process {
            FABRIC => ("fabric".to_owned(), "fabric", "fabric".to_owned()),
            process => {
                let node = (names.node)(process - 2);
                (node.clone(), "node", format!("units of {node}"))
            }
        };
        let node = self.node(node, class);
        self.definitions.groups.push(LocationGroup { name, kind: GroupKind::Accelerator, node });
        let group = self.definitions.groups.len() as u32 - 1;
        self.units.insert(process, group);
        group
    }
}

/// The events of a rank.
struct RankEvents<'a> {
    definitions: &'a Definitions,
    runs: &'a [&'a Span],
    operations: &'a [&'a Operation],
    end: Time,
}

/// An event of a rank; events at one time are written in this order, the enters last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RankEvent {
    Leave(u32),
    Start(usize),
    Complete(u64),
    Enter(u32),
}

impl RankEvents<'_> {
    fn last(&self) -> Time {
        let runs = self.runs.iter().map(|span| span.end);
        let operations = self.operations.iter().map(|operation| operation.end.max(operation.start));
        runs.chain(operations).fold(self.end, Time::max)
    }

    fn write(&self, events: &mut Events<'_>) -> Result<(), ArchiveError> {
        // Spans of a rank have a length, so no leave precedes its enter.
        let runs = self.runs.iter().flat_map(|span| {
            let region = region_of(self.definitions, span);
            [(span.start, RankEvent::Enter(region)), (span.end, RankEvent::Leave(region))]
        });
        let operations = self.operations.iter().enumerate().flat_map(|(place, operation)| {
            let end = operation.end.max(operation.start);
            [(operation.start, RankEvent::Start(place)), (end, RankEvent::Complete(operation.message))]
        });
        let mut all: Vec<(Time, RankEvent)> = runs.chain(operations).collect();
        all.sort_unstable();
        let program = self.definitions.regions.iter().position(|region| region.role == Role::Artificial);
        let program = program.unwrap_or_default() as u32;
        events.enter(0, program, &[])?;
        for (time, event) in all {
            match event {
                RankEvent::Enter(region) => events.enter(time.0, region, &[])?,
                RankEvent::Leave(region) => events.leave(time.0, region)?,
                RankEvent::Start(place) => {
                    let operation = self.operations[place];
                    let (access, bytes) = access(operation);
                    events.access(time.0, access, operation.to, bytes, operation.message)?;
                }
                RankEvent::Complete(message) => events.complete(time.0, Completion::Remote, message)?,
            }
        }
        events.leave(self.last().0, program)
    }
}

/// Returns the operation of OTF2, with the bytes that go to the target and those that come back.
fn access(operation: &Operation) -> (Access, (u64, u64)) {
    let bytes = operation.bytes;
    match operation.kind {
        OperationKind::Put => (Access::Put, (bytes, 0)),
        OperationKind::Get => (Access::Get, (0, bytes)),
        OperationKind::Atomic => (Access::Atomic(Atomic::Accumulate), (bytes, 0)),
        OperationKind::FetchAtomic => (Access::Atomic(Atomic::FetchAndAccumulate), (bytes, bytes)),
        OperationKind::Swap => (Access::Atomic(Atomic::Swap), (bytes, bytes)),
    }
}
