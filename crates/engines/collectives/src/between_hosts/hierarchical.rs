// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A group of processes of several hosts. Members on one host reduce in shared memory ([`Member`]). The first of them,
//! the leader, uses the tree ([`TreeGroup`]).
//!
//! ```text
//! host 0: members ─ reduce ─> leader ─┐                                      ┌─> leader ─ broadcast ─> members
//! host 1: members ─ reduce ─> leader ─┴─> aggregation nodes ─ results ─> ... ┴─> leader ─ broadcast ─> members
//! ```
//!
//! Broadcasts and gathers go the same way: from the root to its leader, down the tree, from the leaders to the members.
//!
//! Invariants
//! 1. All form the group or none: each step of forming is a gather of all processes.
//! 2. Operands are reduced in the order of the members of a host, and then of the hosts, in the order of their first
//!    members. So results have the same bits in every run with the same processes on the same hosts.
//! 3. A failure at a host or in the tree fails the operation everywhere: a leader fails its other group, too.
//!
//! Costs: two operations among the members of a host for each operation of the group, and one at their leader.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;

use crate::one_host::{
    Bootstrap, Buffer, Collective, Elements, Formation, Member, Participant, Pending, ProgressEngine, ProgressHook,
    Queue, QueueEntry, RoundResult, Shape, part_of_window,
};
use crate::service::wire::JobName;
use selvedge_host::backoff::SpinWait;
use selvedge_nic::aggregation::Failure;
use selvedge_os::sync::IgnorePoison;

use super::TreeGroup;
use super::aggregation::{Aggregation, NO_MANAGER, Wait};
use super::reduction::{bits, copy_part, supports};
use selvedge_process::settings::manager_name;

const VERSION: u64 = 1;

/// A group of processes of several hosts.
pub struct HierarchicalGroup {
    rank: usize,
    size: usize,
    /// The members of each host, in the order of the hosts' first members.
    hosts: Vec<Vec<usize>>,
    /// The index of this process's host, and its index among the members there.
    host: usize,
    place: usize,
    /// `None`: this process is alone on its host.
    local: Option<Queue<Member>>,
    /// The leaders' group, at a leader.
    tree: Option<Queue<TreeGroup>>,
    /// Longest operation, and longest element, in bytes.
    longest: u64,
    bytes: usize,
    failed: Option<Failure>,
    /// Whether the operation under way waits for the leaders' group.
    waits_for_leaders: bool,
}

/// A bootstrap among some of the processes of another one. All processes of that one take part in its gathers.
struct SubsetBootstrap<'a> {
    all: &'a mut dyn Bootstrap,
    ranks: &'a [usize],
}

impl Bootstrap for SubsetBootstrap<'_> {
    fn allgather(&mut self, own: &[u64]) -> Result<Vec<u64>, String> {
        let all = self.all.allgather(own)?;
        let of = |&rank: &usize| all.get(rank * own.len()..(rank + 1) * own.len()).ok_or("a process sent no words");
        Ok(self.ranks.iter().map(of).collect::<Result<Vec<_>, _>>()?.concat())
    }
}

/// The name of this process's job, once it has one.
static JOB: Mutex<Option<JobName>> = Mutex::new(None);

/// The job's name, if the process knows it. The first process of a group makes one.
fn own_job(is_first: bool) -> Option<JobName> {
    let mut job = JOB.lock().ignore_poison();
    if job.is_none() && is_first {
        let mut bytes = [0; 16];
        selvedge_net::fill_random(&mut bytes).ok()?;
        let number = u128::from_le_bytes(bytes);
        *job = Some([number as u64, (number >> 64) as u64]);
    }
    *job
}

impl HierarchicalGroup {
    /// Collective: agrees with the other processes on a group. `place`: the number of the process's host. `refuses`:
    /// the reason why this process takes no part. The error is the reason if no group forms.
    pub fn form(
        (rank, size): (usize, usize),
        place: u64,
        shape: impl Fn(usize) -> Shape,
        refuses: Option<&'static str>,
        bootstrap: &mut dyn Bootstrap,
    ) -> Result<HierarchicalGroup, String> {
        let refuses = refuses.or_else(|| manager_name().is_none().then_some(NO_MANAGER));
        let job = own_job(rank == 0 && refuses.is_none()).unwrap_or_default();
        let all = bootstrap.allgather(&[VERSION, place, refuses.is_some().into(), job[0], job[1]])?;
        let all: Vec<[u64; 5]> = all.chunks_exact(5).filter_map(|words| words.try_into().ok()).collect();
        if let Some(reason) = refuses {
            return Err(reason.to_owned());
        }
        if all.len() != size || all.iter().any(|said| said[0] != VERSION) {
            return Err("its processes run different versions of Selvedge; install the same for all".to_owned());
        }
        if let Some(other) = all.iter().position(|said| said[2] != 0) {
            return Err(format!("process {other} takes no part"));
        }
        let job = [all[0][3], all[0][4]];
        JOB.lock().ignore_poison().get_or_insert(job);
        let hosts = hosts_of(all.iter().map(|said| said[1]));
        let at = |host: &Vec<usize>| host.iter().position(|&other| other == rank);
        let found = hosts.iter().enumerate().find_map(|(host, members)| Some((host, at(members)?)));
        let (host, own) = found.ok_or("a process sent no words")?;
        let local = form_local((own, place), &hosts[host], shape, bootstrap)?;
        let leaders: Vec<usize> = hosts.iter().filter_map(|members| members.first().copied()).collect();
        let (local, why) = match local {
            Ok(local) => (local, None),
            Err(why) => (None, Some(why)),
        };
        let share = (own == 0).then(|| match why {
            Some(why) => Err(why),
            None => {
                let others = leaders.iter().map(|&leader| all[leader][1]).filter(|&other| other != place);
                Aggregation::of_job(job, &std::iter::once(place).chain(others).collect::<Vec<_>>())
            }
        });
        let among = &mut SubsetBootstrap { all: bootstrap, ranks: &leaders };
        let formed = TreeGroup::form_with(share, (host, leaders.len()), among);
        // Only leaders know the limits of the tree.
        let own_words = match &formed {
            Ok(Some(group)) => [1, group.longest, group.bytes as u64],
            Ok(None) => [1, u64::MAX, u64::MAX],
            Err(_) => [0; 3],
        };
        let agreed = bootstrap.allgather(&own_words)?;
        let tree = formed?;
        let least = |at: usize| agreed.iter().skip(at).step_by(3).copied().min().unwrap_or(0);
        if least(0) == 0 {
            return Err("the group did not form".to_owned());
        }
        let bytes = usize::try_from(least(2)).unwrap_or(usize::MAX);
        let (local, tree) = (local.map(Queue::new), tree.map(Queue::new));
        let (longest, failed, waits_for_leaders) = (least(1), None, false);
        Ok(HierarchicalGroup {
            rank,
            size,
            hosts,
            host,
            place: own,
            local,
            tree,
            longest,
            bytes,
            failed,
            waits_for_leaders,
        })
    }

    /// The number of hosts with members.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Fails the groups of this host and of the leaders after an operation has failed.
    fn fail(&mut self, failure: Failure) {
        self.failed = Some(failure);
        if let Some(local) = &self.local {
            local.engine().fail(failure);
        }
        // A leader that leaves during an operation fails the others' groups.
        self.tree = None;
    }

    fn place_of(&self, member: usize) -> Result<(usize, usize), Failure> {
        let at = |members: &Vec<usize>| members.iter().position(|&other| other == member);
        let found = self.hosts.iter().enumerate().find_map(|(host, members)| Some((host, at(members)?)));
        found.ok_or(Failure::GroupMismatch)
    }

    fn steps(&self, operation: &Pending) -> Result<Running, Failure> {
        let (bytes, buffer) = (operation.bytes(), operation.buffer());
        let mut running = Running::default();
        match *operation.collective() {
            Collective::Barrier => {
                running.local(Pending::barrier());
                running.leaders(Pending::barrier());
                running.local(Pending::barrier());
            }
            Collective::Reduce { ref elements, root: None } => {
                self.reduce(&mut running, elements, buffer, bytes);
                running.spread(0, buffer.to, bytes);
            }
            Collective::Reduce { ref elements, root: Some(root) } => {
                let (host, place) = self.place_of(root)?;
                let to = if root == self.rank { buffer.to } else { running.room(bytes) };
                self.reduce(&mut running, elements, Buffer { from: buffer.from, to }, bytes);
                if host == self.host && place != 0 {
                    running.spread(0, to, bytes);
                }
            }
            Collective::ReduceScatter { ref elements, ref own } => {
                let all = running.room(bytes);
                self.reduce(&mut running, elements, Buffer { from: buffer.from, to: all }, bytes);
                running.spread(0, all, bytes);
                running.steps.push_back(Step::Deliver(own.clone(), buffer.to));
            }
            Collective::Broadcast { root, own: None } => self.broadcast(&mut running, root, buffer.to, bytes)?,
            Collective::Broadcast { root, own: Some(ref own) } => {
                let all = running.room(bytes);
                if root == self.rank {
                    // SAFETY: the operation's operand has `bytes` bytes, by the contract of its constructor.
                    unsafe { all.copy_from_nonoverlapping(buffer.from, bytes) };
                }
                self.broadcast(&mut running, root, all, bytes)?;
                running.steps.push_back(Step::Deliver(own.clone(), buffer.to));
            }
            Collective::Allgather { ref window, root } => {
                let window = window.clone().unwrap_or(0..bytes.saturating_mul(self.size));
                self.gather(&mut running, buffer.from, bytes, &window)?;
                if root.is_none_or(|root| root == self.rank) {
                    running.steps.push_back(Step::Deliver(0..window.len(), buffer.to));
                }
            }
        }
        Ok(running)
    }

    /// Adds the steps that reduce the operands of all members. The leaders get the result in `buffer.to`.
    fn reduce(&self, running: &mut Running, elements: &Elements, buffer: Buffer, bytes: usize) {
        let Buffer { from, to } = buffer;
        // SAFETY: operand and result have `bytes` bytes, by the contract of the operation's constructor.
        running.local(unsafe { Pending::reduce(elements, 0, buffer, bytes) });
        let from = if self.local.is_none() { from } else { to.cast_const() };
        // SAFETY: the same.
        running.leaders(unsafe { Pending::allreduce(elements, Buffer { from, to }, bytes) });
    }

    /// Adds the steps that broadcast a member's memory to all.
    fn broadcast(&self, running: &mut Running, root: usize, memory: *mut u8, bytes: usize) -> Result<(), Failure> {
        let (host, place) = self.place_of(root)?;
        let is_own = host == self.host;
        if is_own {
            running.spread(place, memory, bytes);
        }
        // SAFETY: the memory has `bytes` bytes, by the contract of the operation's constructor.
        running.leaders(unsafe { Pending::broadcast(host, memory, bytes) });
        if !is_own {
            running.spread(0, memory, bytes);
        }
        Ok(())
    }

    /// Adds the steps that gather a window of all data, each member's at its place, in the operation's own memory.
    fn gather(
        &self,
        running: &mut Running,
        from: *const u8,
        bytes: usize,
        window: &Range<usize>,
    ) -> Result<(), Failure> {
        let members = self.hosts[self.host].len();
        running.local_data = vec![0; if self.place == 0 { bytes.saturating_mul(members) } else { 0 }];
        let local_data = running.local_data.as_mut_ptr();
        if self.local.is_none() {
            // SAFETY: the operand has `bytes` bytes, by its constructor's contract, and there is room for them.
            unsafe { local_data.copy_from_nonoverlapping(from, bytes) };
        }
        let (to, length, elements) = (running.room(window.len()), window.len(), bits()?);
        // SAFETY: the same; the leader has room for all.
        running.local(unsafe { Pending::gather(0, Buffer { from, to: local_data }, bytes) });
        running.steps.push_back(Step::Place { bytes, window: window.clone() });
        // SAFETY: there is room for `length` bytes.
        let reduction = unsafe { Pending::allreduce(&elements, Buffer { from: to.cast_const(), to }, length) };
        running.leaders(reduction);
        running.spread(0, to, length);
        Ok(())
    }

    /// Copies the data of this host's members to their places in a window.
    fn place_data(&self, running: &mut Running, bytes: usize, window: &Range<usize>) -> Result<(), Failure> {
        if self.place != 0 {
            return Ok(());
        }
        for (place, &member) in self.hosts[self.host].iter().enumerate() {
            // The member's part of the window, and the start of that part in its data.
            let part = part_of_window(window, bytes, member);
            let skipped = window.start.saturating_sub(member * bytes);
            let data = running.local_data.get(place * bytes + skipped..(place + 1) * bytes).unwrap_or_default();
            let to = running.whole.get_mut(part).ok_or(Failure::GroupMismatch)?;
            to.copy_from_slice(data.get(..to.len()).ok_or(Failure::GroupMismatch)?);
        }
        Ok(())
    }

    fn advance_operation(&mut self, running: &mut Running) -> Option<Result<(), Failure>> {
        let mut outcome = running.refused.or(self.failed).map_or(Ok(()), Err);
        while let (Ok(()), Some(mut step)) = (outcome, running.steps.pop_front()) {
            let over = match &mut step {
                Step::Local(part) => part.advance_operation(&mut self.local),
                Step::Leaders(part) => part.advance_operation(&mut self.tree),
                Step::Place { bytes, window } => Some(self.place_data(running, *bytes, window)),
                Step::Deliver(part, to) => Some(copy_part(&running.whole, part.clone(), *to)),
            };
            let Some(over) = over else {
                self.waits_for_leaders = matches!(step, Step::Leaders(_));
                running.steps.push_front(step);
                return None;
            };
            outcome = over;
        }
        if let (Err(failure), None) = (outcome, self.failed) {
            self.fail(failure);
        }
        Some(outcome)
    }
}

/// An operation under way: its remaining steps. The first may be under way.
#[derive(Default)]
pub struct Running {
    steps: VecDeque<Step>,
    refused: Option<Failure>,
    /// Data that the program does not have in one piece.
    whole: Vec<u8>,
    local_data: Vec<u8>,
}

enum Step {
    /// Among the members of this host.
    Local(StepOperation),
    /// Among the leaders. Other members skip it.
    Leaders(StepOperation),
    /// Copies the data of this host's members, `bytes` of each, to their places in a window.
    Place { bytes: usize, window: Range<usize> },
    /// Copies a part of the result to the program.
    Deliver(Range<usize>, *mut u8),
}

/// An operation of one of the two groups.
enum StepOperation {
    New(Pending),
    /// Its number.
    Started(u64),
}

impl StepOperation {
    /// Advances the operation. `None`: it has not ended. A process without the group skips it.
    fn advance_operation<C: ProgressEngine>(&mut self, queue: &mut Option<Queue<C>>) -> Option<Result<(), Failure>> {
        let Some(queue) = queue else { return Some(Ok(())) };
        let (number, outcome) = match std::mem::replace(self, StepOperation::Started(0)) {
            StepOperation::New(operation) => {
                let number = queue.add(operation);
                (number, queue.outcome(number))
            }
            StepOperation::Started(number) => (number, queue.test(number)),
        };
        *self = StepOperation::Started(number);
        let outcome = outcome?;
        queue.take(number);
        Some(outcome)
    }
}

impl Running {
    fn local(&mut self, operation: Pending) {
        self.steps.push_back(Step::Local(StepOperation::New(operation)));
    }

    fn leaders(&mut self, operation: Pending) {
        self.steps.push_back(Step::Leaders(StepOperation::New(operation)));
    }

    /// Adds a broadcast of a member's memory to all members of this host.
    fn spread(&mut self, place: usize, memory: *mut u8, bytes: usize) {
        // SAFETY: the memory has `bytes` bytes, by the contract of the operation's constructor.
        self.local(unsafe { Pending::broadcast(place, memory, bytes) });
    }

    /// Allocates memory for data that the program does not have in one piece.
    fn room(&mut self, bytes: usize) -> *mut u8 {
        self.whole = vec![0; bytes];
        self.whole.as_mut_ptr()
    }
}

impl ProgressEngine for HierarchicalGroup {
    type Running = Running;

    fn supports(&self, operation: &Pending) -> bool {
        supports(operation, self.size, self.longest, self.bytes)
    }

    fn begin(&mut self, operation: Pending) -> Running {
        let refused = |failure| Running { refused: Some(failure), ..Running::default() };
        self.steps(&operation).unwrap_or_else(refused)
    }

    /// Runs operations one after the other: members of a host must start the same operations of their live group in the
    /// same order, and an operation has two of them.
    fn advance(&mut self, entries: &mut VecDeque<QueueEntry<Running>>) {
        for QueueEntry { running, outcome, .. } in entries.iter_mut().filter(|entry| entry.outcome.is_none()) {
            *outcome = self.advance_operation(running);
            if outcome.is_none() {
                return;
            }
        }
    }

    /// Does nothing, because the two groups check their members.
    fn check_members_if_due(&mut self) {}

    fn wait(
        &mut self,
        idle: ProgressHook<'_>,
        look: &mut dyn FnMut(&mut HierarchicalGroup) -> Option<Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let (mut looks, mut wait) = (SpinWait::new(), Wait::default());
        loop {
            if let Some(outcome) = look(self) {
                return outcome;
            }
            match self.tree.as_ref().filter(|_| self.waits_for_leaders) {
                Some(tree) => {
                    idle();
                    tree.engine().wait_briefly(&mut wait);
                }
                None => {
                    if looks.is_due_for_progress() {
                        idle();
                    }
                    looks.rest();
                }
            }
        }
    }
}

/// The processes of each host, from the hosts' numbers in the order of the processes.
fn hosts_of(places: impl Iterator<Item = u64>) -> Vec<Vec<usize>> {
    let (mut known, mut hosts): (Vec<u64>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    for (rank, place) in places.enumerate() {
        match known.iter().position(|&other| other == place) {
            Some(host) => hosts[host].push(rank),
            None => {
                known.push(place);
                hosts.push(vec![rank]);
            }
        }
    }
    hosts
}

/// Forms the live group of the processes `ranks` of a host. The inner error is the reason if none forms. All processes
/// of all hosts take part in each gather, even if their own group fails.
fn form_local(
    (rank, place): (usize, u64),
    ranks: &[usize],
    shape: impl Fn(usize) -> Shape,
    bootstrap: &mut dyn Bootstrap,
) -> Result<Result<Option<Member>, String>, String> {
    let process = Participant { rank, size: ranks.len(), place, refuses: None };
    let mut result =
        (ranks.len() > 1).then(|| Ok(RoundResult::Again(Box::new(Formation::new(process, shape(ranks.len()))))));
    for _ in 0..Formation::ROUNDS {
        let mut words = [0; Formation::WORDS_MAX];
        let said = match &result {
            Some(Ok(RoundResult::Again(formation))) => formation.words(),
            _ => &[],
        };
        let count = said.len();
        words[..count].copy_from_slice(said);
        let all = SubsetBootstrap { all: bootstrap, ranks }.allgather(&words)?;
        result = match result {
            Some(Ok(RoundResult::Again(formation))) => {
                let own: Vec<u64> = all.chunks(words.len()).flat_map(|words| &words[..count]).copied().collect();
                let conclusion = formation.conclusion_of(&own);
                Some(formation.advance(&conclusion))
            }
            other => other,
        };
    }
    Ok(match result {
        None => Ok(None),
        Some(Ok(RoundResult::Formed(member))) => Ok(Some(*member)),
        Some(Ok(RoundResult::Again(_))) => Err("the group of its host did not form".to_owned()),
        Some(Err(error)) => Err(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_the_order_of_their_first_members() {
        assert_eq!(hosts_of([9, 4, 9, 5, 4].into_iter()), [vec![0, 2], vec![1, 4], vec![3]]);
    }

    #[test]
    fn a_subset_bootstrap_gathers_the_words_of_the_subset() {
        struct Numbered;
        impl Bootstrap for Numbered {
            fn allgather(&mut self, own: &[u64]) -> Result<Vec<u64>, String> {
                Ok((0..4 * own.len() as u64).collect())
            }
        }
        let mut subset = SubsetBootstrap { all: &mut Numbered, ranks: &[1, 3] };
        assert_eq!(subset.allgather(&[0, 0]), Ok(vec![2, 3, 6, 7]));
        let mut subset = SubsetBootstrap { all: &mut Numbered, ranks: &[4] };
        assert!(subset.allgather(&[0]).is_err());
    }
}
