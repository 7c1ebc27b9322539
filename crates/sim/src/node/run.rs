// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event loop: whose turn it is, who waits, who is stuck.
//!
//! A rank runs until it asks for something; what it asks decides when it runs again. A rank that polls and finds nothing runs again when
//! one of its NICs has changed, else after a pause that doubles from turn to turn: so loops that poll neither hang nor burn, and
//! loops that look at the clock see it go on.
//!
//! Stuck is a run in which nothing is left to happen, or nothing but looks by ranks that have found nothing for
//! [`Options::stuck_after`] and [`LOOKS_IN_VAIN`] looks: pauses double, so time alone is over after some hundred looks, and a program
//! may well look that often before it goes on with something else.

use std::rc::Rc;
use std::sync::Arc;

use crate::machine::Machine;
use crate::network::{Counted, NetworkError, NetworkEvent, Schedule};
use crate::queue::Queue;
use crate::time::Time;

use super::arrival::Pairs;
use super::fabric::{Fabric, Model};
use super::message::Flight;
use super::outcome::{End, Outcome, Progress, Statistics, Waiting};
use super::ranks::{Ask, Ranks};
use super::station::Station;
use super::trace::{Span, Trace, Unit};

/// What happens at a time. The tag is as wide as the fields, so that events are copied in whole words.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum Event {
    Network(NetworkEvent),
    /// The rank's turn; of another generation: overtaken by something earlier.
    Resume {
        rank: u32,
        generation: u32,
        look: bool,
    },
    /// The host of a rank that waits has handed its operation over.
    Leave(u32),
    /// A command has reached the NIC.
    Issue(u32),
    /// The next packet of a message has been read, or its turn to leave as a whole has come.
    Inject(u32),
    /// The first of several packets of a message that crosses as a whole is there.
    Head(u32),
    /// Such a message has been read.
    Sent(u32),
    /// All of a message is there.
    Landed(u32),
    /// A request is delivered.
    Deliver(u32),
    /// A response is taken.
    Answer(u32),
    /// The fault of this number.
    Fault(u32),
    /// This rank is killed.
    Kill(u32),
    /// Triggered operations of a NIC are due.
    Fire {
        rank: u32,
        ni: u32,
    },
}

/// A channel of the fabric that fails, or works again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    pub at: Time,
    pub channel: u32,
    pub up: bool,
}

/// A rank that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Death {
    pub at: Time,
    pub rank: u32,
}

/// How a simulation is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the fabric is simulated.
    pub network: Model,
    /// Which node each rank is on; empty: rank r on node r.
    pub placement: Vec<u32>,
    /// Spans to keep; 0: none.
    pub trace_limit: usize,
    /// Links that fail and come back.
    pub faults: Vec<Fault>,
    /// Ranks that are killed. At one time, before anything that ranks and messages do then.
    pub deaths: Vec<Death>,
    /// Whether the others go on when a rank is killed.
    pub keep_going: bool,
    /// Virtual time at which the run is ended.
    pub time_limit: Time,
    /// How long ranks may poll in vain, all of them, before they are called stuck.
    pub stuck_after: Time,
    /// How many events there are between looks at the observer.
    pub observe_every: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            network: Model::Packet,
            placement: Vec::new(),
            trace_limit: 0,
            faults: Vec::new(),
            deaths: Vec::new(),
            keep_going: false,
            time_limit: Time::MAX,
            stuck_after: Time::from_ns(10_000_000_000),
            observe_every: 1 << 14,
        }
    }
}

/// Why a simulation cannot be.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    #[error(
        "{ranks} ranks do not fit on the {nodes} nodes of this machine: ask for fewer, put several on a node (--ranks-per-node), or take a larger machine"
    )]
    TooManyRanks { ranks: u32, nodes: u32 },
    #[error("rank {rank} was put on node {node}, and the machine has nodes 0 to {last}")]
    NoSuchNode { rank: u32, node: u32, last: u32 },
    #[error("rank {rank} is to be killed, and there are ranks 0 to {last}")]
    NoSuchRank { rank: u32, last: u32 },
    #[error(
        "where each message crosses the network as a whole (--network message) there are no {what}: simulate packets (--network packet), or {instead}"
    )]
    Model { what: &'static str, instead: &'static str },
    #[error(transparent)]
    Network(#[from] NetworkError),
}

/// What a rank is doing.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// Its turn is in the event queue.
    Due,
    /// It waits for its NIC; it cannot go on before `earliest`.
    Waiting {
        earliest: Time,
        since: Time,
        polls: bool,
    },
    Blocked {
        in_call: &'static str,
        since: Time,
    },
    Ended,
}

pub(super) struct Rank {
    pub state: State,
    generation: u32,
    pause: Time,
    pub unanswered: u64,
    /// The operation that its host is handing over: it leaves at the rank's next turn, or, if the rank waits, before.
    leaves: u32,
    ended: Option<Time>,
    code: Option<i32>,
}

impl Rank {
    /// It waits for its NIC, from a time on.
    fn wait(&mut self, since: Time) {
        self.state = State::Waiting { earliest: since, since, polls: false };
        self.generation = self.generation.wrapping_add(1);
    }
}

/// No flight.
const NONE: u32 = u32::MAX;

/// The first pause of a rank that polls in vain, and the longest.
const PAUSE_FIRST: Time = Time::from_ns(100);
const PAUSE_LONGEST: Time = Time::from_ns(100_000_000);

/// So many looks in vain, of all ranks together, have to be made before they are called stuck.
const LOOKS_IN_VAIN: u32 = 5_000;

/// A machine with ranks on it.
pub struct Simulation<R: Ranks> {
    /// Cloned in passing all the time, which an `Rc` makes cheap.
    pub(super) machine: Rc<Machine>,
    pub(super) queue: Queue<Event>,
    pub(super) network: Fabric,
    pub(super) ranks: R,
    pub(super) members: Vec<Rank>,
    /// The node of each rank.
    pub(super) nodes: Vec<u32>,
    /// By node; only those that have ranks are ever touched.
    pub(super) stations: Vec<Station>,
    pub(super) flights: Vec<Flight>,
    pub(super) free_flights: Vec<u32>,
    pub(super) pairs: Pairs,
    pub(super) statistics: Statistics,
    pub(super) trace: Trace,
    options: Options,
    /// Looks of polling ranks in the event queue.
    looks: usize,
    /// When something happened that was not a look in vain.
    pub(super) moved: Time,
    /// Looks since.
    looks_in_vain: u32,
    ended: u32,
    /// The job was ended from outside.
    over: bool,
    /// A rank was killed, and the others are not to go on.
    died: bool,
}

/// The event queue, as the network sees it.
pub(super) struct NetworkQueue<'a>(pub &'a mut Queue<Event>);

impl Schedule for NetworkQueue<'_> {
    #[inline]
    fn schedule(&mut self, at: Time, event: NetworkEvent) {
        self.0.schedule(at, Event::Network(event));
    }
}

impl<R: Ranks> Simulation<R> {
    pub fn new(machine: Arc<Machine>, ranks: R, options: Options) -> Result<Simulation<R>, SimulationError> {
        let (size, node_count) = (ranks.size(), machine.topology.nodes());
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
        options.network.check(&machine, &options.faults)?;
        let network = Fabric::new(options.network, &machine, options.trace_limit > 0)?;
        let highest = nodes.iter().copied().max().map_or(0, |node| node as usize + 1);
        let ordered = !machine.keeps_order() || !options.faults.is_empty();
        let new_rank = || Rank {
            state: State::Due,
            generation: 0,
            pause: PAUSE_FIRST,
            unanswered: 0,
            leaves: NONE,
            ended: None,
            code: None,
        };
        let mut simulation = Simulation {
            network,
            members: (0..size).map(|_| new_rank()).collect(),
            stations: vec![Station::default(); highest],
            nodes,
            flights: Vec::new(),
            free_flights: Vec::new(),
            pairs: Pairs::new(ordered),
            statistics: Statistics::default(),
            trace: Trace::new(options.trace_limit),
            queue: Queue::new(),
            looks: 0,
            moved: Time::ZERO,
            looks_in_vain: 0,
            ended: 0,
            over: false,
            died: false,
            machine: Rc::new(Machine::clone(&machine)),
            ranks,
            options,
        };
        for (number, fault) in simulation.options.faults.iter().enumerate() {
            simulation.queue.schedule(fault.at, Event::Fault(number as u32));
        }
        for death in &simulation.options.deaths {
            simulation.queue.schedule(death.at, Event::Kill(death.rank));
        }
        for rank in 0..size {
            simulation.queue.schedule(Time::ZERO, Event::Resume { rank, generation: 0, look: false });
        }
        Ok(simulation)
    }

    /// Runs to the end. `observe` is shown the progress now and then and says whether to go on.
    pub fn run(&mut self, observe: &mut dyn FnMut(&Progress) -> bool) -> Outcome {
        let mut until_look = self.options.observe_every;
        let end = loop {
            if self.ended == self.members.len() as u32 {
                break End::Completed;
            }
            if self.queue.len() == self.looks {
                let idle = self.queue.now().saturating_sub(self.moved);
                let in_vain = idle >= self.options.stuck_after && self.looks_in_vain >= LOOKS_IN_VAIN;
                if self.queue.is_empty() || in_vain {
                    break End::Stuck(self.waiting());
                }
            }
            let Some((now, event)) = self.queue.take() else { break End::Stuck(self.waiting()) };
            if now >= self.options.time_limit {
                break End::Interrupted;
            }
            self.happen(now, event);
            if self.died {
                break End::Died;
            }
            if self.over {
                break End::Interrupted;
            }
            until_look -= 1;
            if until_look == 0 {
                until_look = self.options.observe_every;
                self.collect_spans();
                if !observe(&self.progress()) {
                    break End::Interrupted;
                }
            }
        };
        self.collect_spans();
        self.statistics.events = self.queue.taken();
        self.statistics.settle();
        Outcome {
            end,
            time: self.queue.now(),
            ended: self.members.iter().map(|rank| rank.ended).collect(),
            codes: self.members.iter().map(|rank| rank.code).collect(),
            statistics: self.statistics.clone(),
        }
    }

    pub fn progress(&self) -> Progress {
        Progress {
            time: self.queue.now(),
            events: self.queue.taken(),
            hops: self.network.moved(),
            messages: self.statistics.messages,
            ranks_ended: self.ended,
            ranks: self.members.len() as u32,
        }
    }

    /// What the fabric has counted.
    pub fn network(&self) -> &dyn Counted {
        self.network.counted()
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn ranks(&mut self) -> &mut R {
        &mut self.ranks
    }

    pub fn into_ranks(self) -> R {
        self.ranks
    }

    /// Spans of the run, where they were asked for.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::Network(event) => {
                if let Fabric::Packets(network) = &mut self.network {
                    network.handle(now, event, &mut NetworkQueue(&mut self.queue));
                }
                self.take_arrivals(now);
            }
            Event::Resume { rank, generation, look } => {
                self.looks -= usize::from(look);
                self.looks_in_vain = self.looks_in_vain.saturating_add(u32::from(look));
                if self.members[rank as usize].generation == generation {
                    self.turn(now, rank, look);
                }
            }
            Event::Leave(rank) => self.leave(now, rank),
            Event::Issue(flight) => self.issue(now, flight),
            Event::Inject(flight) => self.inject(now, flight),
            Event::Head(flight) => self.begins_to_arrive(flight),
            Event::Sent(flight) => self.told_of_sending(now, flight),
            Event::Landed(flight) => self.landed(now, flight),
            Event::Deliver(flight) => self.deliver(now, flight),
            Event::Answer(flight) => self.answer(now, flight),
            Event::Fire { rank, ni } => self.fire(now, rank, ni),
            Event::Fault(number) => {
                let Fault { channel, up, .. } = self.options.faults[number as usize];
                let queue = &mut NetworkQueue(&mut self.queue);
                match (&mut self.network, up) {
                    (Fabric::Packets(network), true) => network.repair_link(now, channel, queue),
                    (Fabric::Packets(network), false) => network.fail_link(now, channel, queue),
                    (Fabric::Messages(_), _) => {}
                }
                self.take_arrivals(now);
            }
            Event::Kill(rank) => self.kill(now, rank),
        }
        if !matches!(event, Event::Resume { look: true, .. }) {
            (self.moved, self.looks_in_vain) = (now, 0);
        }
    }

    /// Schedules a rank's next turn in place of any other.
    fn due(&mut self, rank: u32, at: Time, look: bool) {
        let member = &mut self.members[rank as usize];
        member.generation = member.generation.wrapping_add(1);
        let generation = member.generation;
        self.looks += usize::from(look);
        self.queue.schedule(at, Event::Resume { rank, generation, look });
    }

    /// What a rank has started has left its host.
    #[inline]
    fn leave(&mut self, now: Time, rank: u32) {
        let leaves = std::mem::replace(&mut self.members[rank as usize].leaves, NONE);
        if leaves != NONE {
            self.issue(now, leaves);
        }
    }

    /// One turn of a rank. What it started before has left the host by now.
    fn turn(&mut self, now: Time, rank: u32, look: bool) {
        self.leave(now, rank);
        let turn = self.ranks.resume(rank, now);
        let at = turn.at.max(now);
        self.statistics.turns += 1;
        self.over = self.ranks.is_over();
        let asked = match &turn.ask {
            Ask::Start { command, .. } => u64::from(command.kind),
            Ask::Wait { .. } => 101,
            Ask::Poll => 102,
            Ask::Sleep { .. } => 103,
            Ask::Blocked { .. } => 104,
            Ask::Ended { code } => 1000 + u64::from(*code as u32),
        };
        self.statistics.note(&[u64::from(rank), at.0, asked]);
        if at > now && self.trace.limit > 0 {
            let span =
                Span { node: rank, unit: Unit::Program, name: "runs", start: now, end: at, message: 0, bytes: 0 };
            self.trace.add(span);
        }
        if !matches!(turn.ask, Ask::Poll) {
            self.members[rank as usize].pause = PAUSE_FIRST;
            if !look || !matches!(turn.ask, Ask::Wait { .. }) {
                (self.moved, self.looks_in_vain) = (now, 0);
            }
        }
        // What its own calls have set off happens before it looks again.
        while let Some((rank, ni)) = self.ranks.take_fired() {
            self.queue.schedule(at, Event::Fire { rank, ni });
        }
        match turn.ask {
            Ask::Start { ni, command, payload, waits } => {
                let (goes_on, flight) = self.start(at, rank, ni, command, payload);
                let member = &mut self.members[rank as usize];
                member.leaves = flight;
                if waits {
                    member.wait(goes_on);
                    self.queue.schedule(goes_on, Event::Leave(rank));
                } else {
                    member.state = State::Due;
                    self.due(rank, goes_on, false);
                }
            }
            Ask::Wait { until } => {
                self.members[rank as usize].wait(at);
                if until != Time::MAX {
                    self.due(rank, until.max(at), false);
                }
            }
            Ask::Poll => {
                let member = &mut self.members[rank as usize];
                member.state = State::Waiting { earliest: at, since: at, polls: true };
                let pause = member.pause;
                member.pause = (pause * 2).min(PAUSE_LONGEST);
                self.due(rank, at + pause, true);
            }
            Ask::Sleep { until } => {
                self.members[rank as usize].state = State::Due;
                self.due(rank, until.max(at), false);
            }
            Ask::Blocked { in_call } => {
                let member = &mut self.members[rank as usize];
                member.state = State::Blocked { in_call, since: at };
                member.generation = member.generation.wrapping_add(1);
            }
            Ask::Ended { code } => self.end(rank, at, code),
        }
        self.let_go(at);
    }

    /// A rank dies, unless it has ended. What the host was still handing over to its NIC never gets there.
    fn kill(&mut self, now: Time, rank: u32) {
        if matches!(self.members[rank as usize].state, State::Ended) {
            return;
        }
        let leaves = std::mem::replace(&mut self.members[rank as usize].leaves, NONE);
        if leaves != NONE {
            self.free_flight(leaves);
        }
        let code = self.ranks.kill(rank);
        self.statistics.note(&[u64::from(rank), now.0, 2000 + u64::from(code as u32)]);
        self.end(rank, now, code);
        self.died |= !self.options.keep_going;
        self.let_go(now);
    }

    fn end(&mut self, rank: u32, at: Time, code: i32) {
        let member = &mut self.members[rank as usize];
        member.state = State::Ended;
        member.generation = member.generation.wrapping_add(1);
        member.ended = Some(at);
        member.code = Some(code);
        self.ended += 1;
    }

    /// Ranks that have been let out of a call go on.
    fn let_go(&mut self, at: Time) {
        while let Some(released) = self.ranks.take_released() {
            if let Some(Rank { state: State::Blocked { since, .. }, .. }) = self.members.get(released as usize) {
                let at = at.max(*since);
                self.members[released as usize].state = State::Due;
                self.due(released, at, false);
            }
        }
    }

    /// Something of a rank's NIC has changed: if it waits, it goes on.
    pub(super) fn wake(&mut self, rank: u32, at: Time) {
        let Some(member) = self.members.get_mut(rank as usize) else { return };
        if let State::Waiting { earliest, .. } = member.state {
            member.state = State::Due;
            member.pause = PAUSE_FIRST;
            let at = (at + self.machine.host.memory_access).max(earliest);
            self.due(rank, at, false);
        }
    }

    /// Who has not ended, and what for.
    fn waiting(&mut self) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        for rank in 0..self.members.len() as u32 {
            let member = &self.members[rank as usize];
            let (what, since) = match member.state {
                State::Ended => continue,
                State::Due => ("has a turn to come".to_owned(), self.queue.now()),
                State::Waiting { since, polls: false, .. } => ("waits for its NIC".to_owned(), since),
                State::Waiting { since, polls: true, .. } => ("polls".to_owned(), since),
                State::Blocked { in_call, since } => (format!("is in {in_call}, which others have not called"), since),
            };
            let unanswered = member.unanswered;
            let receives = self.open_receives(rank);
            waiting.push(Waiting { rank, what, since_ns: since.as_ns(), unanswered, receives });
        }
        waiting
    }

    fn collect_spans(&mut self) {
        if self.trace.limit == 0 {
            return;
        }
        if self.trace.left_out > 0 {
            // There is no room for what the fabric would tell.
            return self.network.stop_trace();
        }
        let (name, hops) = self.network.take_spans();
        for hop in hops {
            let channel = Unit::Channel(hop.channel);
            let span = Span {
                node: hop.to.0,
                unit: channel,
                name,
                start: hop.start,
                end: hop.end,
                message: hop.message & super::message::NUMBER_MASK,
                bytes: 0,
            };
            self.trace.add(span);
        }
    }
}
