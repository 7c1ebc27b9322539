// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event loop of a simulation: how it begins, and when it ends.
//!
//! Turns of ranks are in `turns.rs`, the steps of messages in `transfers.rs` and the files beside it.

use std::rc::Rc;
use std::sync::Arc;

use crate::machine::Machine;
use crate::network::{Counted, Network, Observe, Reroute};
use crate::rerouting::Rerouter;
use crate::time::Time;

use super::background::Background;
use super::course::{Course, Ending, How, Status, Step};
use super::credits::Credits;
use super::events::{Event, Events};
use super::fabric::Fabric;
use super::fetch::fetch_ahead;
use super::hardware::Hardware;
use super::jobs::{JobCounts, JobTable};
use super::list_search;
use super::livelock::{Repetition, Watch};
use super::message::{Messages, NUMBER_MASK};
use super::nodes::Nodes;
use super::options::{Fault, Options, SimulationError};
use super::order::PairOrder;
use super::outcome::{End, Outcome, Progress, Statistics, Waiting};
use super::part::{Letter, Part};
use super::rank_commands::{RankCommands, fairness};
use super::rank_states::RankStates;
use super::ranks::{Ranks, RegisterSums};
use super::regions::{Change, Regions, Snapshot};
use super::same_node::Unpublished;
use super::slices::Slices;
use super::switches::Switches;
use super::trace::{Span, Trace, Unit};
use super::transfers::Transfers;

/// A machine with ranks on it.
pub struct Simulation<R: Ranks> {
    pub(super) transfers: Transfers<R>,
    pub(super) unpublished: Unpublished,
    pub(super) options: Options,
    pub(super) background: Background,
    /// Ranks of the foreground, those of them that have ended, and the time at which the last of them did.
    foreground: u32,
    pub(super) ended: u32,
    pub(super) ended_at: Time,
    /// The job was aborted or interrupted.
    pub(super) over: bool,
    /// A rank was killed, and the options end the job then.
    pub(super) died: bool,
    rerouter: Option<Box<Rerouter>>,
}

/// A run that is under way.
pub struct View<'a> {
    pub progress: Progress,
    pub network: &'a dyn Counted,
    states: &'a RankStates,
    watch: Option<&'a Watch>,
}

impl View<'_> {
    /// Returns the operations that the ranks repeat without progress, if this may be a livelock.
    pub fn repetition(&self) -> Option<Repetition> {
        self.watch.and_then(Watch::suspicion)
    }

    /// Returns the activity of a rank, in words.
    pub fn doing(&self, rank: u32) -> String {
        self.states[rank].doing(self.progress.time).0
    }
}

impl<R: Ranks> Simulation<R> {
    pub fn new(machine: Arc<Machine>, ranks: R, options: Options) -> Result<Simulation<R>, SimulationError> {
        Simulation::of_part(machine, ranks, options, Part::whole(), None)
    }

    /// Makes the simulation of a part of a machine, with its network; or of the whole.
    pub(super) fn of_part(
        machine: Arc<Machine>,
        ranks: R,
        mut options: Options,
        part: Part,
        network: Option<Box<Network>>,
    ) -> Result<Simulation<R>, SimulationError> {
        let size = ranks.size();
        options.sort_changes();
        let mut placement = placement(&machine, size, &options)?;
        options.network.check(&machine)?;
        let jobs = JobTable::new(&options.jobs, size, options.variation)?;
        let foreground = jobs.foreground_ranks();
        if foreground == 0 && size > 0 && options.time_limit == Time::MAX {
            return Err(SimulationError::NoEnd);
        }
        Credits::check(&machine, jobs.largest())?;
        let mut machine = Machine::clone(&machine);
        let switches = match &options.aggregation {
            Some(aggregation) => Switches::new(aggregation, size, &mut machine),
            None => Switches::default(),
        };
        placement.truncate(size as usize);
        placement.extend(switches.nodes());
        let mut fabric = match network {
            Some(network) => Fabric::Packets(network),
            None => Fabric::new(options.network, &machine, options.trace_limit > 0)?,
        };
        let of_fabric = |channel| options.aggregation.as_ref().map_or(channel, |made| made.channel(channel));
        fabric.expect_faults(sorted(&options.faults).into_iter().map(|f| Fault { channel: of_fabric(f.channel), ..f }));
        let rerouting = options.rerouting.clone();
        let rerouter = rerouting
            .map(|config| Rerouter::new(&machine.topology, &machine.routing, &machine.network, config))
            .transpose()?;
        if rerouter.is_some() {
            fabric.allow_rerouting();
        }
        let highest = placement.iter().copied().max().map_or(0, |node| node as usize + 1);
        let highest = if options.aggregation.is_some() { switches.all_nodes() } else { highest };
        let order = PairOrder::new(!machine.keeps_order() || !options.faults.is_empty());
        let memory_access = machine.host.memory_access;
        let mut nodes = Nodes {
            events: Events::new(),
            rank_states: RankStates::new(size, placement.len() as u32, &jobs, memory_access),
            hardware: Hardware::new(part.nodes_below(highest as u32), &machine.graph, machine.topology.rails().count()),
            part,
            lookahead: machine.network.lookahead(&machine.topology),
            placement,
            messages: Messages::default(),
            credits: Credits::default(),
            statistics: Statistics {
                jobs: if options.jobs.is_empty() { Vec::new() } else { vec![JobCounts::default(); jobs.count()] },
                ..Statistics::default()
            },
            jobs,
            trace: Trace { paused: options.region.is_some(), ..Trace::new(options.trace_limit) },
            regions: Regions::new(options.region.as_deref(), &machine.topology),
            watch: options.watch.then(|| Watch::new(size)),
            slices: Slices::new(options.variation),
            machine: Rc::new(machine),
            ranks,
        };
        let (part, placement) = (&nodes.part, &nodes.placement);
        nodes.rank_states.begin(&mut nodes.events, &nodes.jobs, |rank| part.has(placement[rank as usize]));
        let mut background = Background::default();
        if (1..size).contains(&foreground) {
            background.look_later(Time::ZERO, &mut nodes.events);
        }
        let transfers = Transfers { nodes, fabric, order, switches };
        let unpublished = Unpublished::default();
        let rerouter = rerouter.map(Box::new);
        Ok(Simulation {
            transfers,
            unpublished,
            options,
            background,
            foreground,
            ended: 0,
            ended_at: Time::ZERO,
            over: false,
            died: false,
            rerouter,
        })
    }

    /// Runs the simulation to its end. If `observe`, called from time to time, returns false, it is interrupted.
    pub fn run(&mut self, observe: &mut dyn FnMut(&View<'_>) -> bool) -> Outcome {
        let machine = &self.transfers.nodes.machine;
        let lookahead = machine.network.lookahead(&machine.topology);
        let mut course = Course::new(&self.options, self.waits_for(), lookahead);
        let ending = loop {
            match course.next(&self.status()) {
                Step::Until(end) => self.handle_before(end),
                Step::Change(at) => self.change(at),
                Step::Observe => {
                    self.collect_spans();
                    if !observe(&self.view(self.progress(), self.network())) {
                        break Ending { how: How::Interrupted, at: self.transfers.nodes.events.last() };
                    }
                }
                Step::End(ending) => break ending,
            }
        };
        self.collect_spans();
        let change = self.transfers.nodes.regions.run_ended(ending.at);
        self.region_changes(ending.at, change);
        let waiting = if ending.how == How::Stuck { self.waiting() } else { Vec::new() };
        let mut outcome = self.outcome(ending.how.with(waiting), ending.at);
        outcome.fairness = fairness_of(&self.transfers.nodes.placement, &outcome.commands);
        outcome
    }

    /// Handles all events before a time, or until the job ends early.
    pub(super) fn handle_before(&mut self, end: Time) {
        let last = Time(end.0.saturating_sub(1));
        loop {
            fetch_ahead(&mut self.transfers);
            let Some((now, event)) = self.transfers.nodes.events.take_by(last) else { return };
            self.handle(now, event);
            if self.over {
                return;
            }
        }
    }

    /// Returns the state of the run, and begins to count polls anew.
    pub(super) fn status(&mut self) -> Status {
        let events = &mut self.transfers.nodes.events;
        Status {
            next: events.next_at(),
            queued: events.queued_without_polls(),
            polls: events.take_polls(),
            ended: self.ended,
            ended_at: self.ended_at,
            events: events.counted(),
            last: events.last(),
            messages: self.transfers.nodes.statistics.messages,
            died: self.died,
            over: self.over,
        }
    }

    // ---- A part of a machine -------------------------------------------------------------------------------------

    /// Takes what other parts have sent: the records of messages, their packets, then notices.
    pub(super) fn accept(&mut self, letters: Vec<Letter>) {
        let Transfers { nodes, fabric, .. } = &mut self.transfers;
        let mut notices = Vec::new();
        for mut letter in letters {
            for message in letter.messages {
                let from = message.from();
                if let Some(command) = nodes.part.accept(message, &mut nodes.messages) {
                    nodes.ranks.recycle(from, command);
                }
            }
            if let Fabric::Packets(network) = fabric {
                network.accept(&mut letter.parcel, &mut nodes.events);
            }
            notices.append(&mut letter.notices);
        }
        // The record of a message may come from another part than news of it.
        for (at, notice) in notices {
            nodes.take_notice(at, notice);
        }
    }

    /// Takes what was sent to another part.
    pub(super) fn take_letter(&mut self, to: usize) -> Letter {
        let Transfers { nodes, fabric, .. } = &mut self.transfers;
        let (messages, notices) = (nodes.part.take_leaving(to), nodes.part.take_told(to));
        let mut letter = Letter { messages, notices, ..Letter::default() };
        if let Fabric::Packets(network) = fabric {
            network.exchange_parcel(to, &mut letter.parcel);
        }
        letter
    }

    /// Gives the network away until [`Simulation::take_network`].
    pub(super) fn lend_network(&mut self) -> Box<Network> {
        match std::mem::replace(&mut self.transfers.fabric, Fabric::Lent) {
            Fabric::Packets(network) => network,
            Fabric::Messages(_) | Fabric::Lent => panic!("a part has a network of packets"),
        }
    }

    pub(super) fn take_network(&mut self, network: Box<Network>) {
        self.transfers.fabric = Fabric::Packets(network);
    }

    pub(super) fn view<'a>(&'a self, progress: Progress, network: &'a dyn Counted) -> View<'a> {
        let nodes = &self.transfers.nodes;
        View { progress, network, states: &nodes.rank_states, watch: nodes.watch.as_ref() }
    }

    /// Returns the number of ranks for whose end the run waits. `None`: only a limit of time ends it.
    fn waits_for(&self) -> Option<u32> {
        (self.foreground > 0 || self.transfers.nodes.ranks.size() == 0).then_some(self.foreground)
    }

    /// Returns the outcome, without fairness.
    pub(super) fn outcome(&mut self, end: End, time: Time) -> Outcome {
        let nodes = &mut self.transfers.nodes;
        nodes.statistics.events = nodes.events.counted();
        nodes.statistics.settle();
        let (part, placement) = (&nodes.part, &nodes.placement);
        let ranks = nodes.rank_states.of_ranks();
        let here = ranks.iter().zip(placement).filter(|(_, node)| part.has(**node));
        nodes.statistics.hash = here.fold(0, |sum: u64, (rank, _)| sum.wrapping_add(rank.hash));
        let hash = nodes.statistics.hash;
        let observed = nodes.regions.counts();
        let (statistics, registers) = match &observed {
            Some(counts) => (Statistics { hash, ..counts.statistics.clone() }, counts.registers.clone()),
            None => (nodes.statistics.clone(), sum_of_registers(&nodes.ranks)),
        };
        Outcome {
            regions: nodes.regions.reports(),
            observed,
            registers,
            end,
            time,
            ended: ranks.iter().map(|rank| rank.ended).collect(),
            codes: ranks.iter().map(|rank| rank.code).collect(),
            fairness: None,
            commands: ranks.iter().map(|rank| rank.commands).collect(),
            statistics,
            rerouting: self.rerouter.as_ref().map(|rerouter| rerouter.finish(&self.transfers.fabric)),
        }
    }

    pub fn progress(&self) -> Progress {
        let nodes = &self.transfers.nodes;
        Progress {
            time: nodes.events.last(),
            events: nodes.events.counted(),
            hops: self.network().statistics().hops,
            messages: nodes.statistics.messages,
            ranks_ended: self.ended,
            ranks: self.foreground,
        }
    }

    /// Returns the statistics of the fabric.
    pub fn network(&self) -> &dyn Counted {
        self.transfers.fabric.counted()
    }

    /// Adds an observer of the network, before the run.
    ///
    /// # Panics
    /// In the model of whole messages, which has no packets to observe; a bug of the caller.
    pub fn observe(&mut self, observer: Box<dyn Observe>) {
        assert!(self.transfers.fabric.observe(observer), "an observer of packets in the model of whole messages");
    }

    /// Ends the observation, after the run.
    ///
    /// # Errors
    /// The first one of an observer.
    pub fn end_observation(&mut self) -> std::io::Result<()> {
        let now = self.transfers.nodes.events.now();
        self.transfers.fabric.end_observation(now)
    }

    pub fn machine(&self) -> &Machine {
        &self.transfers.nodes.machine
    }

    pub fn ranks(&mut self) -> &mut R {
        &mut self.transfers.nodes.ranks
    }

    pub fn into_ranks(self) -> R {
        self.transfers.nodes.ranks
    }

    /// Returns the spans of the run; none if `trace_limit` is 0.
    pub fn trace(&self) -> &Trace {
        &self.transfers.nodes.trace
    }

    fn handle(&mut self, now: Time, event: Event) {
        let is_retry = self.is_retry(&event);
        let Transfers { nodes, fabric, .. } = &mut self.transfers;
        match event {
            Event::Network(event) => {
                fabric.handle(now, event, &mut nodes.events);
                self.transfers.take_arrivals(now);
            }
            Event::Resume { rank, generation, is_poll } => {
                nodes.events.leave_poll(is_poll);
                nodes.events.count_poll(is_poll);
                if nodes.rank_states.is_turn(&mut nodes.events, now, rank, generation) {
                    if nodes.rank_states[rank].background && self.background.keeps(rank, is_poll) {
                        return;
                    }
                    self.turn(now, rank, is_poll);
                }
            }
            Event::HandOver(rank) => self.hand_over(now, rank),
            Event::Offer(message) => {
                nodes.events.leave_poll(is_retry);
                nodes.events.count_poll(is_retry);
                self.transfers.offer(now, message);
            }
            Event::RequestPlace(message) => {
                nodes.events.leave_poll(is_retry);
                self.transfers.request_place(now, message);
            }
            Event::Queued(message) => self.transfers.queued(now, message),
            Event::PlaceFreed(node) => self.transfers.place_freed(now, node),
            Event::Unblock(node) => self.transfers.unblock(now, node),
            Event::Issue(message) => self.transfers.issue(now, message),
            Event::Read(message) => self.transfers.read(now, now, message),
            Event::Inject(message) => self.transfers.inject(now, message),
            Event::Head(message) => {
                self.transfers.first_packet_arrived(message);
            }
            Event::Sent(message) => nodes.complete_send(now, message),
            Event::Arrived(message) => self.transfers.whole_arrived(now, message),
            Event::Missing(message) => self.transfers.packet_missing(now, message),
            Event::Failed(message) => self.transfers.message_failed(now, message),
            Event::Deliver(message) => self.transfers.deliver(now, message),
            Event::Answer(message) => self.transfers.answer(now, message),
            Event::Publish(index) => self.unpublished.publish(nodes, now, index),
            Event::Mark { rank, region, begins } => {
                let change = nodes.regions.mark(now, rank, region, begins);
                self.region_changes(now, change);
            }
            Event::Fire { rank, ni } => nodes.fire(now, rank, ni),
            Event::Look => {
                nodes.events.leave_poll(true);
                return self.look(now);
            }
            // Progress of the managers is none of the ranks.
            Event::Manage => return self.manage(now, None),
        }
        if !is_retry && !matches!(event, Event::Resume { is_poll: true, .. }) {
            self.transfers.nodes.events.progress(now);
        }
    }

    /// Whether the event offers a command that was refused often.
    #[inline]
    fn is_retry(&self, event: &Event) -> bool {
        match *event {
            Event::Offer(message) | Event::RequestPlace(message) => {
                self.transfers.nodes.messages[message].offer.is_retry()
            }
            _ => false,
        }
    }

    pub(super) fn change_link(&mut self, now: Time, Fault { channel, up, .. }: Fault) {
        let Transfers { nodes, fabric, switches, .. } = &mut self.transfers;
        switches.change(nodes, now, |manager| match up {
            true => manager.link_back(channel),
            false => manager.link_lost(channel),
        });
        let channel = self.options.aggregation.as_ref().map_or(channel, |made| made.channel(channel));
        fabric.set_link(now, channel, up, &mut nodes.events);
        self.manage(now, Some((channel, up)));
    }

    /// Lets the routers' managers work, after a change of a channel or at their time.
    fn manage(&mut self, now: Time, change: Option<(u32, bool)>) {
        let Some(rerouter) = &mut self.rerouter else { return };
        let Transfers { nodes, fabric, .. } = &mut self.transfers;
        match change {
            Some(change) => rerouter.change(now, change, fabric, &mut nodes.events),
            None => rerouter.step(now, fabric, &mut nodes.events),
        }
        if let Some(at) = rerouter.take_due() {
            nodes.events.schedule(at, Event::Manage);
        }
    }

    // ---- The end -------------------------------------------------------------------------------------------------

    /// Returns the ranks that have not ended, and what they wait for.
    pub(super) fn waiting(&mut self) -> Vec<Waiting> {
        let nodes = &mut self.transfers.nodes;
        let mut waiting = Vec::new();
        for rank in nodes.rank_states.numbers() {
            let rank_state = &nodes.rank_states[rank];
            if rank_state.has_ended() || rank_state.background || !nodes.part.has(nodes.node_of(rank)) {
                continue;
            }
            let (mut what, since) = rank_state.doing(nodes.events.last());
            let unanswered = rank_state.unanswered;
            what.push_str(&nodes.why_full(rank).unwrap_or_default());
            let receives = open_receives(nodes, rank);
            waiting.push(Waiting { rank, what, since_ns: since.as_ns(), unanswered, receives });
        }
        waiting
    }

    /// Returns for each rank the messages that were begun here less those that ended here, with wrap-around.
    pub(super) fn unanswered(&self) -> Vec<u64> {
        self.transfers.nodes.rank_states.of_ranks().iter().map(|rank| rank.unanswered).collect()
    }

    /// Takes note of a change of the observed region: of its counts, and of the trace.
    pub(super) fn region_changes(&mut self, now: Time, change: Change) {
        if change == Change::None {
            return;
        }
        self.collect_spans();
        let Transfers { nodes, fabric, .. } = &mut self.transfers;
        nodes.statistics.events = nodes.events.counted();
        let registers = sum_of_registers(&nodes.ranks);
        let snapshot = Snapshot::take(now, &mut nodes.statistics, registers, fabric.counted());
        match change {
            Change::Begins => nodes.regions.begin(snapshot),
            _ => nodes.regions.end(&snapshot),
        }
        nodes.trace.paused = nodes.regions.is_outside();
    }

    fn collect_spans(&mut self) {
        let Transfers { nodes, fabric, .. } = &mut self.transfers;
        if nodes.trace.limit == 0 {
            return;
        }
        if nodes.trace.left_out > 0 {
            // The trace is full.
            return fabric.stop_trace();
        }
        let (name, hops) = fabric.take_spans();
        for hop in hops {
            let channel = Unit::Channel(hop.channel);
            let message = hop.message & NUMBER_MASK;
            let (start, end) = (hop.start, hop.end);
            let node = nodes.machine.topology.rails().node(hop.to);
            nodes.trace.add(Span { node, unit: channel, name, start, end, message, bytes: 0 });
        }
    }
}

fn sum_of_registers<R: Ranks>(ranks: &R) -> RegisterSums {
    let mut registers = RegisterSums::default();
    ranks.sum_registers(&mut registers);
    registers
}

fn sorted(faults: &[Fault]) -> Vec<Fault> {
    let mut faults = faults.to_vec();
    faults.sort_unstable();
    faults
}

/// Returns the node of each rank, from the options or by default.
pub(super) fn placement(machine: &Machine, size: u32, options: &Options) -> Result<Vec<u32>, SimulationError> {
    let node_count = machine.topology.rails().nodes();
    let nodes = if options.placement.is_empty() {
        if size > node_count {
            return Err(SimulationError::TooManyRanks { ranks: size, nodes: node_count });
        }
        (0..size).collect()
    } else {
        options.placement.clone()
    };
    if (nodes.len() as u32) < size {
        return Err(SimulationError::TooManyRanks { ranks: size, nodes: nodes.len() as u32 });
    }
    if let Some(rank) = nodes.iter().position(|node| *node >= node_count) {
        return Err(SimulationError::NoSuchNode { rank: rank as u32, node: nodes[rank], last: node_count - 1 });
    }
    if let Some(death) = options.deaths.iter().find(|death| death.rank >= size) {
        return Err(SimulationError::NoSuchRank { rank: death.rank, last: size.saturating_sub(1) });
    }
    Ok(nodes)
}

/// Returns the fairness among the ranks of the node that has taken most commands.
pub(super) fn fairness_of(placement: &[u32], commands: &[RankCommands]) -> Option<f64> {
    let ranks = || commands.iter().zip(placement);
    let mut taken = vec![0; placement.iter().max().map_or(0, |node| *node as usize + 1)];
    ranks().for_each(|(commands, node)| taken[*node as usize] += commands.accepted);
    let most = taken.iter().max()?;
    let busiest = taken.iter().position(|count| count == most)? as u32;
    fairness(ranks().filter(|(_, node)| **node == busiest).map(|(commands, _)| *commands))
}

/// Returns the posted receives of a rank, for the report on stuck ranks.
fn open_receives<R: Ranks>(nodes: &mut Nodes<R>, rank: u32) -> Vec<String> {
    let mut receives = Vec::new();
    for ni in 0..=8 {
        nodes.ranks.with_nic(rank, ni, &mut |nic| receives.extend(list_search::posted_receives(nic)));
    }
    receives.truncate(8);
    receives
}
