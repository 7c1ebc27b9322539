// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event loop: turns of ranks, waiting ranks, stuck ranks.
//!
//! A rank runs until it makes a request; the request determines when it runs again. A rank that polls and finds nothing
//! runs again when one of its NICs has changed, or after a pause that doubles from turn to turn. So a polling loop does
//! not hang, costs few events, and sees virtual time advance.
//!
//! A run is stuck if its queue has no event, or only polls of ranks, and these have found nothing for
//! [`Options::stuck_after`] and for [`FAILED_POLLS_MAX`] polls. Time alone is no criterion: pauses double, so it passes
//! within some hundred polls, and a program may poll that often before it does something else.

use std::rc::Rc;
use std::sync::Arc;

use crate::machine::Machine;
use crate::machine::interface::WhenFull;
use crate::network::{Counted, NetworkEvent, Schedule};
use crate::queue::Queue;
use crate::random::Random;
use crate::time::Time;

use super::aggregation::Switches;
use super::arrival::Pairs;
use super::commands::RankCommands;
use super::credits::Credits;
use super::fabric::AnyNetwork;
use super::hardware::NodeHardware;
use super::livelock::{Repetition, Watch};
use super::message::{Message, Started};
use super::options::{Fault, Options, SimulationError};
use super::outcome::{End, Outcome, Progress, Statistics, Waiting};
use super::pace::Pace;
use super::ranks::{Ask, Ranks, RegisterSums, Wish};
use super::same_node::Unseen;
use super::trace::{Span, Trace, Unit};

/// An event. The tag is as wide as the fields, so that events are copied in whole words.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum Event {
    Network(NetworkEvent),
    /// The rank's turn. An event of another generation is stale: the rank had an earlier turn. `is_poll`: the rank
    /// polls.
    Resume {
        rank: u32,
        generation: u32,
        is_poll: bool,
    },
    /// The host of a waiting rank has handed its operation to the NIC.
    HandOver(u32),
    /// A program offers a command to the host interface.
    Offer(u32),
    /// A command that wants an answer is at the NIC's queue.
    Knock(u32),
    /// A command is in the NIC's queue.
    Queued(u32),
    /// A place in the queue of this node is free.
    Place(u32),
    /// A rank of this node may have read a mailbox that was full.
    Unblock(u32),
    /// The NIC has a command or a response.
    Issue(u32),
    /// The unit that keeps a message until it has left the node begins to send it.
    Read(u32),
    /// The next packet of a message has been read; or it is the message's turn to depart as a whole.
    Inject(u32),
    /// The first of several packets of a whole message has arrived.
    Head(u32),
    /// A whole message has been read from memory.
    Sent(u32),
    /// All of a message has arrived.
    Arrived(u32),
    /// A request is delivered.
    Deliver(u32),
    /// A response is delivered.
    Answer(u32),
    /// The fault with this index in the options happens.
    Fault(u32),
    /// This rank is killed.
    Kill(u32),
    /// The message with this index is visible in its ring.
    Publish(u32),
    /// Triggered operations of a NIC are due.
    Fire {
        rank: u32,
        ni: u32,
    },
}

/// What a rank is doing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Activity {
    /// Its next turn is in the event queue.
    Due,
    /// It waits for its NICs; it does not continue before `earliest`.
    Waiting {
        earliest: Time,
        since: Time,
        polls: bool,
    },
    Blocked {
        in_call: &'static str,
        since: Time,
    },
    /// It hands a command to its NIC; what it waits in, if the queue is full.
    Offering {
        since: Time,
        waits_in: Option<WhenFull>,
    },
    /// Its library waits for credits of a mailbox.
    Uncredited {
        since: Time,
    },
    Ended,
}

pub(super) struct RankState {
    pub activity: Activity,
    generation: u32,
    pause: Time,
    pub unanswered: u64,
    /// The message that its host is handing to the NIC, or `NONE`. The NIC has it at the rank's next turn, or, if the
    /// rank waits, at [`Event::HandOver`]. A message that is on its way to the NIC behind the processor is not its host's.
    handing_over: u32,
    pub pace: Pace,
    /// How long its processor has served interrupts for messages to it.
    pub served: Time,
    /// Its last command was refused.
    pub refused: bool,
    /// One of its NICs has changed since it began to hand a command over.
    pub changed: bool,
    /// It computes; what it had served when it began.
    computing: Option<Time>,
    /// What it has offered to its NIC.
    pub commands: RankCommands,
    /// Decides which of its stores are split.
    pub splits: Random,
    ended: Option<Time>,
    code: Option<i32>,
}

impl RankState {
    /// Makes it wait for its NICs from a time on.
    pub(super) fn wait(&mut self, since: Time) {
        self.activity = Activity::Waiting { earliest: since, since, polls: false };
        self.generation = self.generation.wrapping_add(1);
    }

    /// What it does, and since when.
    fn doing(&self, now: Time) -> (String, Time) {
        match self.activity {
            Activity::Ended => ("has ended".to_owned(), now),
            Activity::Due => ("has a turn to come".to_owned(), now),
            Activity::Waiting { since, polls: false, .. } => ("waits for its NIC".to_owned(), since),
            Activity::Waiting { since, polls: true, .. } => ("polls".to_owned(), since),
            Activity::Offering { since, waits_in } => {
                let what = match waits_in {
                    None => "offers a command to its NIC",
                    Some(WhenFull::Sleep) => "sleeps in the driver: the command queue of its NIC is full",
                    Some(_) => "stands still in a store: the command queue of its NIC is full",
                };
                (what.to_owned(), since)
            }
            Activity::Uncredited { since } => ("waits for credits of a mailbox".to_owned(), since),
            Activity::Blocked { in_call, since } => (format!("is in {in_call}, which others have not called"), since),
        }
    }
}

/// Parts of the random numbers for split stores, one for each rank, begin here.
const SPLITS: u64 = 0x7370_6c69_7400_0000;

/// The index of no message.
pub(super) const NONE: u32 = u32::MAX;

/// The first and the longest pause of a rank that polls and finds nothing.
const PAUSE_FIRST: Time = Time::from_ns(100);
const PAUSE_LONGEST: Time = Time::from_ns(100_000_000);

/// Polls of all ranks together that find nothing, one after the other, before the run counts as stuck.
const FAILED_POLLS_MAX: u32 = 5_000;

/// A machine with ranks on it.
pub struct Simulation<R: Ranks> {
    /// In an `Rc`, for it is cloned for most events.
    pub(super) machine: Rc<Machine>,
    pub(super) queue: Queue<Event>,
    pub(super) network: AnyNetwork,
    pub(super) ranks: R,
    /// Of the ranks, and behind them of the aggregation nodes, which have no turns.
    pub(super) rank_states: Vec<RankState>,
    /// The node of each rank and aggregation node.
    pub(super) nodes: Vec<u32>,
    /// By node, up to the last node that has a rank.
    pub(super) hardware: Vec<NodeHardware>,
    pub(super) messages: Vec<Message>,
    pub(super) free_messages: Vec<u32>,
    /// Messages in rings that are not visible yet.
    pub(super) unseen: Unseen,
    pub(super) pairs: Pairs,
    /// The aggregation nodes of the switches, if they reduce.
    pub(super) aggregation: Switches,
    /// Credits of mailboxes, on a machine that has them.
    pub(super) credits: Credits,
    pub(super) statistics: Statistics,
    pub(super) trace: Trace,
    /// What ranks repeat, if the options want to know.
    pub(super) watch: Option<Watch>,
    options: Options,
    /// Polls in the event queue, and attempts of commands that were refused often.
    pub(super) queued_polls: usize,
    /// When the last event happened that was not a poll that found nothing.
    pub(super) last_progress: Time,
    /// Polls since then.
    pub(super) failed_polls: u32,
    /// Ranks that have ended.
    ended: u32,
    /// The job was aborted or interrupted.
    over: bool,
    /// A rank was killed, and the options say that the job ends then.
    died: bool,
}

/// A run that goes on.
pub struct View<'a> {
    pub progress: Progress,
    states: &'a [RankState],
    watch: Option<&'a Watch>,
}

impl View<'_> {
    /// What the ranks repeat without progress, if it may be a livelock.
    pub fn repetition(&self) -> Option<Repetition> {
        self.watch.and_then(Watch::suspicion)
    }

    /// What a rank is doing.
    pub fn doing(&self, rank: u32) -> String {
        self.states[rank as usize].doing(self.progress.time).0
    }
}

/// The event queue, for the events of the network.
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
        let mut nodes = if options.placement.is_empty() {
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
        Credits::check(&machine, size)?;
        let mut machine = Machine::clone(&machine);
        let aggregation = match &options.aggregation {
            Some(aggregation) => Switches::new(aggregation, size, &mut machine),
            None => Switches::default(),
        };
        nodes.truncate(size as usize);
        nodes.extend(aggregation.nodes());
        let network = AnyNetwork::new(options.network, &machine, options.trace_limit > 0)?;
        let highest = nodes.iter().copied().max().map_or(0, |node| node as usize + 1);
        let highest = if options.aggregation.is_some() { aggregation.all_nodes() } else { highest };
        let ordered = !machine.keeps_order() || !options.faults.is_empty();
        let new_rank = |rank| RankState {
            activity: if rank < size { Activity::Due } else { Activity::Ended },
            generation: 0,
            pause: PAUSE_FIRST,
            unanswered: 0,
            handing_over: NONE,
            pace: Pace::new(options.variation, rank),
            served: Time::ZERO,
            refused: false,
            changed: false,
            computing: None,
            commands: RankCommands::default(),
            splits: Random::new(options.variation.seed, SPLITS + u64::from(rank)),
            ended: None,
            code: None,
        };
        let mut simulation = Simulation {
            network,
            rank_states: (0..nodes.len() as u32).map(new_rank).collect(),
            hardware: vec![NodeHardware::new(&machine.graph); highest],
            nodes,
            messages: Vec::new(),
            free_messages: Vec::new(),
            unseen: Unseen::default(),
            pairs: Pairs::new(ordered),
            credits: Credits::default(),
            statistics: Statistics::default(),
            trace: Trace::new(options.trace_limit),
            watch: options.watch.then(|| Watch::new(size)),
            queue: Queue::new(),
            queued_polls: 0,
            last_progress: Time::ZERO,
            failed_polls: 0,
            ended: 0,
            over: false,
            died: false,
            aggregation,
            machine: Rc::new(machine),
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
            simulation.queue.schedule(Time::ZERO, Event::Resume { rank, generation: 0, is_poll: false });
        }
        Ok(simulation)
    }

    /// Runs the simulation to its end. `observe` is called from time to time; if it gives false, the run is interrupted.
    pub fn run(&mut self, observe: &mut dyn FnMut(&View<'_>) -> bool) -> Outcome {
        let mut until_observed = self.options.observe_every;
        let end = loop {
            if self.ended == self.ranks.size() {
                break End::Completed;
            }
            if self.queue.len() == self.queued_polls {
                let idle = self.queue.now().saturating_sub(self.last_progress);
                let stuck = idle >= self.options.stuck_after && self.failed_polls >= FAILED_POLLS_MAX;
                if self.queue.is_empty() || stuck {
                    break End::Stuck(self.waiting());
                }
            }
            let Some((now, event)) = self.queue.take() else { break End::Stuck(self.waiting()) };
            if now >= self.options.time_limit {
                break End::Interrupted;
            }
            self.handle(now, event);
            if self.died {
                break End::Died;
            }
            if self.over {
                break End::Interrupted;
            }
            until_observed -= 1;
            if until_observed == 0 {
                until_observed = self.options.observe_every;
                self.collect_spans();
                let view = View { progress: self.progress(), states: &self.rank_states, watch: self.watch.as_ref() };
                if !observe(&view) {
                    break End::Interrupted;
                }
            }
        };
        self.collect_spans();
        self.statistics.events = self.queue.taken();
        self.statistics.settle();
        let mut registers = RegisterSums::default();
        self.ranks.sum_registers(&mut registers);
        let ranks = || self.rank_states.iter().take(self.ranks.size() as usize);
        Outcome {
            registers,
            end,
            time: self.queue.now(),
            ended: ranks().map(|rank| rank.ended).collect(),
            codes: ranks().map(|rank| rank.code).collect(),
            fairness: self.fairness(),
            commands: ranks().map(|rank| rank.commands).collect(),
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
            ranks: self.ranks.size(),
        }
    }

    /// The statistics of the fabric.
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

    /// Spans of the run; none if `trace_limit` is 0.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    fn handle(&mut self, now: Time, event: Event) {
        let is_retry = self.is_retry(&event);
        match event {
            Event::Network(event) => {
                if let AnyNetwork::Packets(network) = &mut self.network {
                    network.handle(now, event, &mut NetworkQueue(&mut self.queue));
                }
                self.take_arrivals(now);
            }
            Event::Resume { rank, generation, is_poll } => {
                self.queued_polls -= usize::from(is_poll);
                self.failed_polls = self.failed_polls.saturating_add(u32::from(is_poll));
                if self.rank_states[rank as usize].generation == generation && !self.is_delayed(now, rank) {
                    self.turn(now, rank, is_poll);
                }
            }
            Event::HandOver(rank) => self.hand_over(now, rank),
            Event::Offer(message) => {
                self.queued_polls -= usize::from(is_retry);
                self.failed_polls = self.failed_polls.saturating_add(u32::from(is_retry));
                self.offer(now, message);
            }
            Event::Knock(message) => {
                self.queued_polls -= usize::from(is_retry);
                self.knock(now, message);
            }
            Event::Queued(message) => self.queued(now, message),
            Event::Place(node) => self.place_freed(now, node),
            Event::Unblock(node) => self.unblock(now, node),
            Event::Issue(message) => self.issue(now, message),
            Event::Read(message) => self.read(now, now, message),
            Event::Inject(message) => self.inject(now, message),
            Event::Head(message) => {
                self.first_packet_arrived(message);
            }
            Event::Sent(message) => self.complete_send(now, message),
            Event::Arrived(message) => self.whole_arrived(now, message),
            Event::Deliver(message) => self.deliver(now, message),
            Event::Answer(message) => self.answer(now, message),
            Event::Publish(index) => self.publish(now, index),
            Event::Fire { rank, ni } => self.fire(now, rank, ni),
            Event::Fault(number) => {
                let Fault { channel, up, .. } = self.options.faults[number as usize];
                self.aggregation_changes(now, |manager| match up {
                    true => manager.link_back(channel),
                    false => manager.link_lost(channel),
                });
                let channel = self.options.aggregation.as_ref().map_or(channel, |made| made.channel(channel));
                let queue = &mut NetworkQueue(&mut self.queue);
                match (&mut self.network, up) {
                    (AnyNetwork::Packets(network), true) => network.repair_link(now, channel, queue),
                    (AnyNetwork::Packets(network), false) => network.fail_link(now, channel, queue),
                    (AnyNetwork::Messages(_), _) => {}
                }
                self.take_arrivals(now);
            }
            Event::Kill(rank) => self.kill(now, rank),
        }
        if !is_retry && !matches!(event, Event::Resume { is_poll: true, .. }) {
            (self.last_progress, self.failed_polls) = (now, 0);
        }
    }

    /// Whether a command is offered that was refused often.
    #[inline]
    fn is_retry(&self, event: &Event) -> bool {
        match *event {
            Event::Offer(message) | Event::Knock(message) => self.messages[message as usize].offer.is_retry(),
            _ => false,
        }
    }

    /// Whether a rank that computes has served interrupts since it began: then it computes for as long again as they took.
    #[inline]
    fn is_delayed(&mut self, now: Time, rank: u32) -> bool {
        let state = &mut self.rank_states[rank as usize];
        let Some(served) = state.computing.take() else { return false };
        let delay = state.served.saturating_sub(served);
        if delay == Time::ZERO {
            return false;
        }
        state.computing = Some(state.served);
        self.schedule_turn(rank, now + delay, false);
        true
    }

    /// Schedules a rank's next turn; a turn that is queued for it becomes stale.
    pub(super) fn schedule_turn(&mut self, rank: u32, at: Time, is_poll: bool) {
        let rank_state = &mut self.rank_states[rank as usize];
        rank_state.generation = rank_state.generation.wrapping_add(1);
        let generation = rank_state.generation;
        self.queued_polls += usize::from(is_poll);
        self.queue.schedule(at, Event::Resume { rank, generation, is_poll });
    }

    /// The host of a rank has handed the rank's operation to the NIC, if there is one.
    #[inline]
    fn hand_over(&mut self, now: Time, rank: u32) {
        let handing_over = std::mem::replace(&mut self.rank_states[rank as usize].handing_over, NONE);
        if handing_over != NONE {
            self.issue(now, handing_over);
        }
    }

    /// One turn of a rank. The operation of its last turn has been handed over by then.
    fn turn(&mut self, now: Time, rank: u32, is_poll: bool) {
        self.hand_over(now, rank);
        let turn = self.ranks.resume(rank, now);
        let at = turn.at.max(now);
        self.statistics.turns += 1;
        self.over = self.ranks.is_over();
        let asked = match &turn.ask {
            Ask::Start { command, .. } => u64::from(command.kind),
            Ask::Publish { message, .. } => 2000 + message.bytes,
            Ask::SharesMemory { .. } => 105,
            Ask::Wait { .. } => 101,
            Ask::Poll => 102,
            Ask::Sleep { .. } | Ask::Compute { .. } => 103,
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
            self.rank_states[rank as usize].pause = PAUSE_FIRST;
            let is_again = match &turn.ask {
                Ask::Wait { .. } => is_poll,
                Ask::Start { wish, .. } => is_poll && wish.or_refuse && self.rank_states[rank as usize].refused,
                _ => false,
            };
            if !is_again {
                (self.last_progress, self.failed_polls) = (now, 0);
            }
        }
        if matches!(turn.ask, Ask::Publish { .. } | Ask::Blocked { .. } | Ask::Ended { .. }) {
            self.made_progress(at);
        }
        // Triggered operations that its own calls have made due fire before its next turn.
        while let Some((rank, ni)) = self.ranks.take_fired() {
            self.queue.schedule(at, Event::Fire { rank, ni });
        }
        match turn.ask {
            Ask::Start { ni, command, payload, wish } if self.goes_by_interface(rank, command.target, ni) => {
                self.hand_to_nic(at, rank, ni, (command, payload), wish);
            }
            Ask::Start { ni, command, payload, wish: Wish { waits, .. } } => {
                let Started { goes_on, issued, message } = self.start(at, rank, ni, command, payload);
                let rank_state = &mut self.rank_states[rank as usize];
                match issued {
                    Some(issued) => self.queue.schedule(issued, Event::Issue(message)),
                    None => rank_state.handing_over = message,
                }
                if waits {
                    rank_state.wait(goes_on);
                    self.ranks.started(rank, goes_on);
                    if issued.is_none() {
                        self.queue.schedule(goes_on, Event::HandOver(rank));
                    }
                } else {
                    rank_state.activity = Activity::Due;
                    self.schedule_turn(rank, goes_on, false);
                }
            }
            Ask::Publish { ni, target, message } => {
                let goes_on = self.copy_to_ring(at, rank, (target, ni), message);
                self.rank_states[rank as usize].activity = Activity::Due;
                self.schedule_turn(rank, goes_on, false);
            }
            Ask::SharesMemory { ni, target } => {
                let shares = self.shares_memory(rank, target, ni);
                self.ranks.reply(rank, shares);
                self.rank_states[rank as usize].activity = Activity::Due;
                self.schedule_turn(rank, at, false);
            }
            Ask::Wait { until } => {
                self.rank_states[rank as usize].wait(at);
                if until != Time::MAX {
                    self.schedule_turn(rank, until.max(at), false);
                }
            }
            Ask::Poll => {
                let rank_state = &mut self.rank_states[rank as usize];
                rank_state.activity = Activity::Waiting { earliest: at, since: at, polls: true };
                let pause = rank_state.pace.step(rank_state.pause);
                rank_state.pause = (rank_state.pause * 2).min(PAUSE_LONGEST);
                self.schedule_turn(rank, at + pause, true);
            }
            Ask::Sleep { until } => {
                self.rank_states[rank as usize].activity = Activity::Due;
                self.schedule_turn(rank, until.max(at), false);
            }
            Ask::Compute { until } => {
                let rank_state = &mut self.rank_states[rank as usize];
                rank_state.activity = Activity::Due;
                rank_state.computing = Some(rank_state.served);
                self.schedule_turn(rank, until.max(at), false);
            }
            Ask::Blocked { in_call } => {
                let rank_state = &mut self.rank_states[rank as usize];
                rank_state.activity = Activity::Blocked { in_call, since: at };
                rank_state.generation = rank_state.generation.wrapping_add(1);
            }
            Ask::Ended { code } => {
                self.end(rank, at, code);
                // It may not have left its groups. One that ends well has, or nobody waits for it.
                if code != 0 {
                    self.aggregation_changes(at, |manager| manager.process_lost(rank.into()));
                }
            }
        }
        self.resume_released(at);
        self.after_turn(rank, at);
    }

    /// Whether commands of a rank to a target go by a host interface.
    fn goes_by_interface(&mut self, rank: u32, target: u64, ni: u32) -> bool {
        self.machine.interface.is_some() && !self.shares_memory(rank, target, ni)
    }

    /// Kills a rank, unless it has ended. An operation that its host is still handing to the NIC is dropped.
    fn kill(&mut self, now: Time, rank: u32) {
        if matches!(self.rank_states[rank as usize].activity, Activity::Ended) {
            return;
        }
        let handing_over = std::mem::replace(&mut self.rank_states[rank as usize].handing_over, NONE);
        if handing_over != NONE {
            self.free_message(handing_over);
        }
        self.made_progress(now);
        let code = self.ranks.kill(rank);
        self.statistics.note(&[u64::from(rank), now.0, 2000 + u64::from(code as u32)]);
        self.end(rank, now, code);
        self.aggregation_changes(now, |manager| manager.process_lost(rank.into()));
        self.died |= !self.options.keep_going;
        self.resume_released(now);
    }

    fn end(&mut self, rank: u32, at: Time, code: i32) {
        let rank_state = &mut self.rank_states[rank as usize];
        rank_state.activity = Activity::Ended;
        rank_state.generation = rank_state.generation.wrapping_add(1);
        rank_state.ended = Some(at);
        rank_state.code = Some(code);
        self.ended += 1;
        self.mailboxes_ended(rank, at);
        self.kept_ended(rank, at);
    }

    /// A rank does something else than repeat its operations.
    fn made_progress(&mut self, now: Time) {
        if let Some(watch) = &mut self.watch {
            watch.progress(now);
        }
    }

    /// Schedules the ranks whose blocking call may return.
    fn resume_released(&mut self, at: Time) {
        while let Some(released) = self.ranks.take_released() {
            if let Some(RankState { activity: Activity::Blocked { since, .. }, .. }) =
                self.rank_states.get(released as usize)
            {
                let at = at.max(*since);
                self.rank_states[released as usize].activity = Activity::Due;
                self.schedule_turn(released, at, false);
            }
        }
    }

    /// A NIC of a rank has changed: if the rank waits, it continues.
    pub(super) fn wake(&mut self, rank: u32, at: Time) {
        let Some(rank_state) = self.rank_states.get_mut(rank as usize) else { return };
        rank_state.changed = true;
        if let Activity::Waiting { earliest, .. } = rank_state.activity {
            rank_state.activity = Activity::Due;
            rank_state.pause = PAUSE_FIRST;
            let access = rank_state.pace.step(self.machine.host.memory_access);
            let at = (at + access).max(earliest);
            self.schedule_turn(rank, at, false);
        }
    }

    /// The ranks that have not ended, and what they wait for.
    fn waiting(&mut self) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        for rank in 0..self.rank_states.len() as u32 {
            let rank_state = &self.rank_states[rank as usize];
            if matches!(rank_state.activity, Activity::Ended) {
                continue;
            }
            let (mut what, since) = rank_state.doing(self.queue.now());
            let unanswered = rank_state.unanswered;
            what.push_str(&self.why_full(rank).unwrap_or_default());
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
            // The trace is full.
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
