// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine in several parts, each simulated by a thread of its own.
//!
//! ```text
//! PartedSimulation ── the calling thread: decides on spells and windows, exchanges letters, has the first part
//!   └─ thread of each other part: Simulation (ranks, NICs, network of the part)
//!          Order ↓ ↑ Answer
//! ```
//!
//! The method is that of traffic (`traffic/windows.rs`, docs/design/simulation-parallel.md): windows of the lookahead,
//! after which the parts exchange what they have sent each other. A part is made on its thread and stays there, since
//! its ranks are futures that no other thread may run.
//!
//! Costs: two messages between threads for each window in which a part has events.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::machine::{FullMailbox, Machine};
use crate::network::{Counted, Network, Networks, Partition, Undivided, set_link};
use crate::time::Time;

use super::changes::Scheduled;
use super::course::{Course, Ending, How, Status, Step};
use super::options::{Fault, Model, Options, SimulationError};
use super::outcome::{End, Outcome, Progress, Waiting};
use super::part::{Letter, Part};
use super::ranks::Ranks;
use super::run::{Simulation, View, fairness_of};

/// Makes the ranks of a part: those for which the function returns true.
pub trait MakeRanks: Sync {
    type Ranks: Ranks;

    fn make(&self, is_here: &dyn Fn(u32) -> bool) -> Self::Ranks;
}

impl<R: Ranks, F: Fn(&dyn Fn(u32) -> bool) -> R + Sync> MakeRanks for F {
    type Ranks = R;

    fn make(&self, is_here: &dyn Fn(u32) -> bool) -> R {
        self(is_here)
    }
}

/// Reason why a run of programs has one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    Messages,
    Fabric(Undivided),
    Rerouting,
    Jobs,
    Aggregation,
    Mailboxes,
    Locks,
    Trace,
}

impl Whole {
    /// Returns the reason as the end of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Whole::Fabric(why) => why.words(),
            Whole::Messages => "the model of whole messages computes a message's times on all channels at once",
            Whole::Rerouting => "managers that reroute look at the whole fabric",
            Whole::Jobs => "several jobs are watched together",
            Whole::Aggregation => "one manager knows all aggregation nodes",
            Whole::Mailboxes => "credits and full mailboxes are known at once to senders (nic.full_mailbox)",
            Whole::Locks => "kept lock requests are known at once to both ends (limits.lock_waiters)",
            Whole::Trace => "a timeline has the work of all nodes in order",
        }
    }

    /// Returns what a user can do about it, as the end of a sentence.
    pub fn remedy(self) -> &'static str {
        match self {
            Whole::Rerouting => "add --no-reroute",
            _ => "change what asks for it",
        }
    }
}

/// Returns why a run has one part, if so.
pub fn whole(machine: &Machine, options: &Options) -> Option<Whole> {
    let network = &machine.network;
    let fabric = network.undivided(&machine.topology, machine.routing.deadlock_free());
    let reasons = [
        (options.network == Model::Message, Whole::Messages),
        (options.rerouting.is_some(), Whole::Rerouting),
        (options.aggregation.is_some(), Whole::Aggregation),
        (!options.jobs.is_empty() || options.watch, Whole::Jobs),
        (options.trace_limit > 0, Whole::Trace),
        (machine.nic.full_mailbox != FullMailbox::Drop, Whole::Mailboxes),
        (machine.limits.lock_waiters.is_some(), Whole::Locks),
    ];
    let other = reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason));
    fabric.map(Whole::Fabric).or(other)
}

/// Tells a part what to do next.
enum Order {
    /// Take the letters, and handle all events before a time.
    Run(Time, Vec<Letter>),
    /// Lend the network.
    Lend,
    /// Take it back.
    Take(Box<Network>),
    /// Carry out the changes of a time, after those of the network, which has scheduled events.
    Change(Time, Option<(Box<Network>, Scheduled)>),
    /// End, at a time; of a stuck run, with what the ranks wait for.
    End { is_stuck: bool, at: Time },
}

enum Answer {
    /// The state, and a letter for each part.
    Ran(Status, Vec<Letter>),
    Lent(Box<Network>),
    Ended(Box<Ended>),
    Failed(SimulationError),
}

/// A part after its run.
struct Ended {
    outcome: Outcome,
    waiting: Vec<Waiting>,
    unanswered: Vec<u64>,
    network: Box<Network>,
}

/// A machine with ranks on it, in several parts.
pub struct PartedSimulation<M> {
    machine: Arc<Machine>,
    make: M,
    options: Options,
    ranks: u32,
    /// The node of each rank.
    placement: Vec<u32>,
    lookahead: Time,
    /// End of the nodes of each part.
    ends: Arc<[u32]>,
    /// Before and after the run.
    networks: Networks<Network>,
    status: Status,
}

impl<M: MakeRanks> PartedSimulation<M> {
    /// Divides a machine with `ranks` ranks, made by `make`, into at most `threads` parts. Not for machines and options
    /// for which [`whole`] has a reason.
    pub fn new(
        machine: Arc<Machine>,
        ranks: u32,
        make: M,
        options: Options,
        threads: u32,
    ) -> Result<PartedSimulation<M>, SimulationError> {
        let placement = super::run::placement(&machine, ranks, &options)?;
        let mut weights = vec![0u64; machine.topology.routers() as usize];
        for node in placement.iter().take(ranks as usize) {
            // All rails of a node are in one part.
            let endpoint = machine.topology.rails().endpoint(*node, 0);
            weights[machine.topology.attachment(endpoint).0.0 as usize] += RANK_PORTS;
        }
        let partitions = Partition::divide_by(&machine.topology, machine.routing.algorithm(), threads, |router| {
            weights[router as usize]
        });
        let rails = machine.topology.rails();
        let ends: Arc<[u32]> = partitions.iter().map(|partition| partition.nodes.end / rails.count()).collect();
        let lookahead = machine.network.lookahead(&machine.topology);
        let routing = Arc::new(machine.routing.clone());
        let networks = Network::divided(machine.topology.clone(), routing, &machine.network, partitions)?;
        let networks = Networks::new(networks);
        let status = Status::default();
        Ok(PartedSimulation { machine, make, options, ranks, placement, lookahead, ends, networks, status })
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> usize {
        self.ends.len()
    }

    pub fn progress(&self) -> Progress {
        progress(&self.status, &self.networks, self.ranks)
    }

    /// Returns the statistics of the fabric, before and after the run.
    pub fn network(&self) -> &dyn Counted {
        &self.networks
    }

    /// Runs the simulation to its end, once. If `observe`, called from time to time, returns false, it is interrupted.
    ///
    /// # Errors
    /// A part cannot be made, or has no thread.
    pub fn run(&mut self, observe: &mut dyn FnMut(&View<'_>) -> bool) -> Result<Outcome, SimulationError> {
        let networks = self.networks.take();
        let PartedSimulation { machine, make, options, placement, ends, .. } = &*self;
        let (ranks, lookahead) = (self.ranks, self.lookahead);
        let mut networks = networks.into_iter();
        let first = networks.next().expect("a machine has one part at least");
        let (ending, ended, status) = thread::scope(|scope| {
            let mut workers = Vec::new();
            for (place, network) in networks.enumerate() {
                let (orders, ordered) = channel();
                let (answer, answers) = channel();
                let work = move || {
                    let part = Part::new(place + 1, ends);
                    match simulation(machine, options, make, placement, part, network) {
                        Ok(simulation) => work(simulation, ends.len(), &ordered, &answer),
                        Err(error) => _ = answer.send(Answer::Failed(error)),
                    }
                };
                let thread = thread::Builder::new().name(format!("part {}", place + 1)).spawn_scoped(scope, work);
                thread.map_err(|error| SimulationError::Threads { why: error.to_string() })?;
                workers.push(Worker { orders, answers });
            }
            let first = simulation(machine, options, make, placement, Part::new(0, ends), first)?;
            let mut parts = Parts::new(first, workers, lookahead)?;
            let mut course = Course::new(options, Some(ranks), lookahead);
            let mut status;
            let ending = loop {
                status = parts.take_status();
                match course.next(&status) {
                    Step::Until(end) => parts.run_spell(end)?,
                    Step::Change(at) => parts.change(at)?,
                    Step::Observe => {
                        let mut networks = Networks::new(parts.borrow_networks()?);
                        let goes_on = observe(&parts.first.view(progress(&status, &networks, ranks), &networks));
                        parts.give_back(networks.take());
                        if !goes_on {
                            break Ending { how: How::Interrupted, at: status.last };
                        }
                    }
                    Step::End(ending) => break ending,
                }
            };
            Ok::<_, SimulationError>((ending, parts.end(ending)?, status))
        })?;
        self.status = status;
        Ok(self.outcome(ending, ended))
    }

    /// Puts the outcome together from those of the parts.
    fn outcome(&mut self, ending: Ending, ended: Vec<Ended>) -> Outcome {
        let part_of = |node: u32| self.ends.partition_point(|&end| end <= node);
        let mut networks = Vec::new();
        let mut sum: Option<Outcome> = None;
        let (mut waiting, mut unanswered) = (Vec::new(), vec![0u64; self.ranks as usize]);
        for (number, part) in ended.into_iter().enumerate() {
            networks.push(*part.network);
            waiting.extend(part.waiting);
            for (sum, of_part) in unanswered.iter_mut().zip(part.unanswered) {
                *sum = sum.wrapping_add(of_part);
            }
            let Some(sum) = &mut sum else {
                sum = Some(part.outcome);
                continue;
            };
            let here = (0..self.ranks as usize).filter(|&rank| part_of(self.placement[rank]) == number);
            for rank in here {
                (sum.ended[rank], sum.codes[rank]) = (part.outcome.ended[rank], part.outcome.codes[rank]);
                sum.commands[rank] = part.outcome.commands[rank];
            }
            sum.statistics.add(&part.outcome.statistics);
            sum.registers.join(&part.outcome.registers);
        }
        self.networks = Networks::new(networks);
        let mut outcome = sum.expect("a machine has one part at least");
        waiting.sort_by_key(|waiting: &Waiting| waiting.rank);
        waiting.iter_mut().for_each(|waiting| waiting.unanswered = unanswered[waiting.rank as usize]);
        outcome.end = ending.how.with(waiting);
        outcome.fairness = fairness_of(&self.placement, &outcome.commands);
        outcome
    }
}

fn progress(status: &Status, network: &dyn Counted, ranks: u32) -> Progress {
    let Status { last, events, messages, ended, .. } = *status;
    let hops = network.statistics().hops;
    Progress { time: last, events, hops, messages, ranks_ended: ended, ranks }
}

/// Ports of a router that take about as long to simulate as one rank.
const RANK_PORTS: u64 = 64;

/// Makes the simulation of a part.
fn simulation<M: MakeRanks>(
    machine: &Arc<Machine>,
    options: &Options,
    make: &M,
    placement: &[u32],
    part: Part,
    network: Network,
) -> Result<Simulation<M::Ranks>, SimulationError> {
    let ranks = make.make(&|rank| part.has(placement[rank as usize]));
    Simulation::of_part(machine.clone(), ranks, options.clone(), part, Some(Box::new(network)))
}

/// Carries out orders until the run ends, or the other side is gone.
fn work<R: Ranks>(mut part: Simulation<R>, parts: usize, orders: &Receiver<Order>, answers: &Sender<Answer>) {
    let mut answer = Answer::Ran(part.status(), Vec::new());
    loop {
        if answers.send(answer).is_err() {
            return;
        }
        answer = loop {
            match orders.recv() {
                Err(_) => return,
                Ok(Order::Take(network)) => part.take_network(network),
                Ok(Order::Lend) => break Answer::Lent(part.lend_network()),
                Ok(Order::Run(end, letters)) => {
                    let (status, letters) = run_window(&mut part, parts, end, letters);
                    break Answer::Ran(status, letters);
                }
                Ok(Order::Change(at, network)) => {
                    let (status, letters) = change(&mut part, parts, at, network);
                    break Answer::Ran(status, letters);
                }
                Ok(Order::End { is_stuck, at }) => break Answer::Ended(Box::new(end(&mut part, is_stuck, at))),
            }
        };
    }
}

/// Takes letters and handles all events before `end`. Returns the state, and a letter for each part.
fn run_window<R: Ranks>(
    part: &mut Simulation<R>,
    parts: usize,
    end: Time,
    letters: Vec<Letter>,
) -> (Status, Vec<Letter>) {
    part.accept(letters);
    part.handle_before(end);
    written(part, parts)
}

/// Carries out the changes of a time. Returns the same as [`run_window`].
fn change<R: Ranks>(
    part: &mut Simulation<R>,
    parts: usize,
    at: Time,
    network: Option<(Box<Network>, Scheduled)>,
) -> (Status, Vec<Letter>) {
    if let Some((network, scheduled)) = network {
        part.take_network(network);
        scheduled.pass_on(&mut part.transfers.nodes.events);
    }
    part.changed(at);
    written(part, parts)
}

/// Returns the state of a part, and the letters that it has written.
fn written<R: Ranks>(part: &mut Simulation<R>, parts: usize) -> (Status, Vec<Letter>) {
    let letters = (0..parts).map(|to| part.take_letter(to)).collect();
    (part.status(), letters)
}

fn end<R: Ranks>(part: &mut Simulation<R>, is_stuck: bool, at: Time) -> Ended {
    let waiting = if is_stuck { part.waiting() } else { Vec::new() };
    let (unanswered, outcome) = (part.unanswered(), part.outcome(End::Completed, at));
    Ended { outcome, waiting, unanswered, network: part.lend_network() }
}

/// The thread of a part.
struct Worker {
    orders: Sender<Order>,
    answers: Receiver<Answer>,
}

impl Worker {
    fn order(&self, order: Order) {
        // A thread that is gone has panicked, and the next answer is missing.
        let _ = self.orders.send(order);
    }

    fn answer(&self) -> Result<Answer, SimulationError> {
        match self.answers.recv() {
            Ok(Answer::Failed(error)) => Err(error),
            Ok(answer) => Ok(answer),
            Err(_) => panic!("the thread of a part has ended early"),
        }
    }
}

/// All parts during a run: the first one here, the others on their threads.
struct Parts<R: Ranks> {
    first: Simulation<R>,
    workers: Vec<Worker>,
    /// By part: its state after its last window, without its polls.
    states: Vec<Status>,
    /// Letters for each part that it has not taken.
    letters: Vec<Vec<Letter>>,
    /// Polls of all parts since the last spell.
    polls: Status,
    lookahead: Time,
}

impl<R: Ranks> Parts<R> {
    fn new(mut first: Simulation<R>, workers: Vec<Worker>, lookahead: Time) -> Result<Parts<R>, SimulationError> {
        let mut states = vec![first.status()];
        for worker in &workers {
            if let Answer::Ran(status, _) = worker.answer()? {
                states.push(status);
            }
        }
        let letters = states.iter().map(|_| Vec::new()).collect();
        Ok(Parts { first, workers, states, letters, polls: Status::default(), lookahead })
    }

    /// Returns the state of the whole run, and begins to count polls anew.
    fn take_status(&mut self) -> Status {
        let mut status = std::mem::take(&mut self.polls);
        self.states.iter().for_each(|state| status.add(state));
        let under_way = self.letters.iter().flatten().filter(|letter| !letter.is_empty());
        for letter in under_way {
            status.next = status.next.into_iter().chain(letter.earliest()).min();
            status.queued += 1;
        }
        status
    }

    /// Returns the time of a part's next event, or of what others have sent it.
    fn next_of(&self, part: usize) -> Option<Time> {
        let letters = self.letters[part].iter().filter_map(Letter::earliest);
        self.states[part].next.into_iter().chain(letters).min()
    }

    /// Lets all parts handle their events before `end`, window by window.
    fn run_spell(&mut self, end: Time) -> Result<(), SimulationError> {
        let length = self.lookahead.0;
        loop {
            let next = (0..self.states.len()).filter_map(|part| self.next_of(part)).min();
            let Some(next) = next.filter(|&next| next < end) else { return Ok(()) };
            let window = end.min(Time((next.0 / length + 1).saturating_mul(length)));
            let has_events = |part: &usize| self.next_of(*part).is_some_and(|next| next < window);
            let busy: Vec<usize> = (0..self.states.len()).filter(has_events).collect();
            self.run_window(&busy, window)?;
        }
    }

    /// Lets some parts, in order, take their letters and handle their events before `end`.
    fn run_window(&mut self, busy: &[usize], end: Time) -> Result<(), SimulationError> {
        let (first, others) = busy.split_at(usize::from(busy.first() == Some(&0)));
        for &part in others {
            let letters = std::mem::take(&mut self.letters[part]);
            self.workers[part - 1].order(Order::Run(end, letters));
        }
        if !first.is_empty() {
            let letters = std::mem::take(&mut self.letters[0]);
            let (status, letters) = run_window(&mut self.first, self.states.len(), end, letters);
            self.ran(0, status, letters);
        }
        self.take_answers(others)
    }

    fn take_answers(&mut self, of: &[usize]) -> Result<(), SimulationError> {
        for &part in of {
            if let Answer::Ran(status, letters) = self.workers[part - 1].answer()? {
                self.ran(part, status, letters);
            }
        }
        Ok(())
    }

    /// Carries out the changes of a time, before all events of that time.
    fn change(&mut self, at: Time) -> Result<(), SimulationError> {
        let has_letters = |part: &usize| !self.letters[*part].is_empty();
        let waiting: Vec<usize> = (0..self.states.len()).filter(has_letters).collect();
        self.run_window(&waiting, at)?;
        let mut networks: Vec<Option<(Box<Network>, Scheduled)>> = self.states.iter().map(|_| None).collect();
        let faults = self.first.options.faults_at(at).to_vec();
        if !faults.is_empty() {
            let lent = self.borrow_networks()?.into_iter();
            networks = lent.map(|network| Some((Box::new(network), Scheduled::default()))).collect();
        }
        for Fault { channel, up, .. } in faults {
            let lent = networks.iter_mut().flatten().map(|(network, scheduled)| (&mut **network, scheduled));
            set_link(&mut lent.collect::<Vec<_>>(), at, channel, up);
        }
        let mut networks = networks.into_iter();
        let first = networks.next().flatten();
        self.workers.iter().zip(networks).for_each(|(worker, network)| worker.order(Order::Change(at, network)));
        let (status, letters) = change(&mut self.first, self.states.len(), at, first);
        self.ran(0, status, letters);
        let others: Vec<usize> = (1..self.states.len()).collect();
        self.take_answers(&others)
    }

    /// Records the state of a part after a window, and the letters that it has written.
    fn ran(&mut self, part: usize, mut status: Status, letters: Vec<Letter>) {
        let polls = Status { polls: std::mem::take(&mut status.polls), ..Status::default() };
        self.polls.add(&polls);
        self.states[part] = status;
        for (to, letter) in letters.into_iter().enumerate().filter(|(_, letter)| !letter.is_empty()) {
            self.letters[to].push(letter);
        }
    }

    fn borrow_networks(&mut self) -> Result<Vec<Network>, SimulationError> {
        self.workers.iter().for_each(|worker| worker.order(Order::Lend));
        let mut networks = vec![*self.first.lend_network()];
        for worker in &self.workers {
            if let Answer::Lent(network) = worker.answer()? {
                networks.push(*network);
            }
        }
        Ok(networks)
    }

    fn give_back(&mut self, networks: Vec<Network>) {
        let mut networks = networks.into_iter();
        networks.next().into_iter().for_each(|network| self.first.take_network(Box::new(network)));
        for (worker, network) in self.workers.iter().zip(networks) {
            worker.order(Order::Take(Box::new(network)));
        }
    }

    fn end(mut self, Ending { how, at }: Ending) -> Result<Vec<Ended>, SimulationError> {
        let is_stuck = how == How::Stuck;
        self.workers.iter().for_each(|worker| worker.order(Order::End { is_stuck, at }));
        let mut ended = vec![end(&mut self.first, is_stuck, at)];
        for worker in &self.workers {
            if let Answer::Ended(part) = worker.answer()? {
                ended.push(*part);
            }
        }
        Ok(ended)
    }
}
