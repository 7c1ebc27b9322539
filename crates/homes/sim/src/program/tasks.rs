// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Futures as the ranks of a simulation.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use selvedge_nic::portals::Verdict;
use selvedge_nic::tables::{Command, Side};
use selvedge_nic::{Fault, Nic};
use selvedge_os::lines::about_to_change;

use crate::machine::Machine;
use crate::node::{Aggregation, Incoming, KILLED, Meter, RankRequest, Ranks, RegisterSums, TimedRequest};
use crate::time::Time;

use super::memory::MemoryBus;
use super::process::Process;
use super::results::{Results, Shared};
use super::shared::{Core, Spare};
use super::{Body, Needs};

/// Ranks that are futures.
pub struct Tasks {
    /// By rank; `None`: another part of the machine has it.
    tasks: Vec<Option<Task>>,
    /// The rank that ran last, if its calls have made triggered operations due.
    fired: Option<u32>,
    shared: Shared,
    spare: Spare,
}

struct Task {
    process: Process,
    body: Option<Body>,
    /// Whether the rank was killed, so that its NIC is gone.
    dead: bool,
}

impl Tasks {
    /// Makes `size` ranks; `body` makes the future of each.
    pub fn new(size: u32, machine: &Arc<Machine>, needs: &Needs, body: impl Fn(Process) -> Body) -> Tasks {
        Tasks::with_needs(size, machine, |_| *needs, body)
    }

    /// Like [`Tasks::new`], with different needs for each rank.
    pub fn with_needs(
        size: u32,
        machine: &Arc<Machine>,
        needs: impl Fn(u32) -> Needs,
        body: impl Fn(Process) -> Body,
    ) -> Tasks {
        Tasks::some(size, machine, &|_| true, &Shared::default(), needs, body)
    }

    /// Makes those of `size` ranks that `is_here` names. All that are made with the same `shared` have results together.
    pub fn part(
        size: u32,
        machine: &Arc<Machine>,
        is_here: &dyn Fn(u32) -> bool,
        shared: &Shared,
        needs: &Needs,
        body: impl Fn(Process) -> Body,
    ) -> Tasks {
        Tasks::some(size, machine, is_here, shared, |_| *needs, body)
    }

    /// Like [`Tasks::part`], with different needs for each rank.
    pub(super) fn some(
        size: u32,
        machine: &Arc<Machine>,
        is_here: &dyn Fn(u32) -> bool,
        shared: &Shared,
        needs: impl Fn(u32) -> Needs,
        body: impl Fn(Process) -> Body,
    ) -> Tasks {
        let spare = Spare::default();
        let make = |rank| {
            let core = Core::new(rank, size, machine.clone(), needs(rank), shared.clone(), Rc::clone(&spare));
            let process = Process::new(core);
            let body = Some(body(process.clone()));
            Task { process, body, dead: false }
        };
        let tasks = (0..size).map(|rank| is_here(rank).then(|| make(rank))).collect();
        Tasks { tasks, fired: None, shared: shared.clone(), spare }
    }

    fn task(&self, rank: u32) -> Option<&Task> {
        self.tasks.get(rank as usize)?.as_ref()
    }

    /// Returns the rank that the simulation knows to be here.
    fn known(&self, rank: u32) -> &Task {
        self.task(rank).expect("the simulation has this rank")
    }

    /// Gives the ranks the job's share of the aggregation nodes, the same as the simulation's
    /// ([`crate::node::Options::aggregation`]).
    pub fn grant(&mut self, aggregation: &Arc<Aggregation>) {
        for task in self.tasks.iter().flatten() {
            task.process.core.borrow_mut().aggregation = Some(Arc::clone(aggregation));
        }
    }

    /// Returns the results that the ranks have recorded so far.
    pub fn results(&self) -> Results {
        self.shared.results()
    }

    /// Returns a rank, for inspection after the run.
    pub fn process(&self, rank: u32) -> Option<&Process> {
        self.task(rank).map(|task| &task.process)
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // A body has a handle on its process, and a process has none on bodies. So bodies are dropped first.
        for task in self.tasks.iter_mut().flatten() {
            task.body = None;
        }
    }
}

impl Ranks for Tasks {
    fn size(&self) -> u32 {
        self.tasks.len() as u32
    }

    fn resume(&mut self, rank: u32, now: Time) -> TimedRequest {
        let Some(task) = self.tasks.get_mut(rank as usize).and_then(Option::as_mut) else {
            return TimedRequest { at: now, request: RankRequest::Ended { code: 0 } };
        };
        {
            let mut core = task.process.core.borrow_mut();
            core.now = core.now.max(now);
        }
        let mut context = Context::from_waker(Waker::noop());
        let Some(body) = task.body.as_mut() else {
            return TimedRequest { at: now, request: RankRequest::Ended { code: 0 } };
        };
        match body.as_mut().poll(&mut context) {
            Poll::Ready(code) => {
                task.body = None;
                TimedRequest { at: task.process.now(), request: RankRequest::Ended { code } }
            }
            Poll::Pending => {
                let core = &mut *task.process.core.borrow_mut();
                self.fired = core.tables.has_fired().then_some(rank);
                core.take_turn()
            }
        }
    }

    fn kill(&mut self, rank: u32) -> i32 {
        if let Some(task) = self.tasks.get_mut(rank as usize).and_then(Option::as_mut) {
            (task.body, task.dead) = (None, true);
        }
        KILLED
    }

    fn take_released(&mut self) -> Option<u32> {
        None
    }

    fn take_fired(&mut self) -> Option<(u32, u32)> {
        self.fired.take().map(|rank| (rank, 0))
    }

    fn find(&mut self, from: u32, target: u64, ni: u32) -> Option<(u32, u32)> {
        // The NIC outlives a program that returns: messages in flight still arrive.
        let rank = self.route(from, target, ni)?;
        self.task(rank).is_none_or(|task| !task.dead).then_some((rank, ni))
    }

    fn route(&mut self, _: u32, target: u64, ni: u32) -> Option<u32> {
        let rank = u32::try_from(target).ok()?;
        (ni == 0 && (rank as usize) < self.tasks.len()).then_some(rank)
    }

    fn with_nic(&mut self, rank: u32, ni: u32, work: &mut dyn FnMut(&mut Nic<'_>)) -> bool {
        let Some(task) = self.task(rank).filter(|task| ni == 0 && !task.dead) else { return false };
        work(&mut task.process.core.borrow_mut().tables.nic());
        true
    }

    fn refused(&mut self, rank: u32) {
        self.known(rank).process.core.borrow_mut().refused = true;
    }

    fn has_fired(&mut self, rank: u32, ni: u32) -> bool {
        let task = self.task(rank).filter(|task| ni == 0 && !task.dead);
        task.is_some_and(|task| task.process.core.borrow().tables.has_fired())
    }

    fn sum_registers(&self, sums: &mut RegisterSums) {
        self.tasks.iter().flatten().for_each(|task| sums.add(task.process.core.borrow().tables.signals().registers));
    }

    fn fetch(&self, rank: u32) {
        self.task(rank).into_iter().for_each(about_to_change);
    }

    fn recycle(&mut self, _: u32, command: Box<Command>) {
        self.spare.borrow_mut().push(command);
    }

    fn deliver(
        &mut self,
        rank: u32,
        _: u32,
        incoming: &Incoming<'_>,
        reply: &mut Vec<u8>,
        meter: &mut dyn Meter,
    ) -> Verdict {
        let Incoming { request, payload, token } = *incoming;
        let core = Rc::clone(&self.known(rank).process.core);
        let core = &mut *core.borrow_mut();
        let mut bus = MemoryBus { memory: &mut core.memory, payload, token, reply, meter };
        core.tables.nic().deliver(&mut bus, request)
    }

    fn lose_aggregation_node(&mut self, rank: u32, address: u64) {
        if let Some(task) = self.task(rank) {
            task.process.core.borrow_mut().tables.nic().member().lose(address);
        }
    }

    fn gather(&mut self, rank: u32, _: u32, side: &Side, bytes: u64, into: &mut Vec<u8>) -> Result<(), Fault> {
        let task = self.known(rank);
        if task.dead {
            return Err(Fault::Gone);
        }
        let core = task.process.core.borrow();
        into.resize(usize::try_from(bytes).map_err(|_| Fault::Initiator)?, 0);
        core.memory.read(side.start, into).map_err(|_| Fault::Initiator)
    }

    fn scatter(&mut self, rank: u32, _: u32, side: &Side, from: &[u8]) -> Result<(), Fault> {
        let task = self.known(rank);
        if task.dead {
            return Err(Fault::Gone);
        }
        let mut core = task.process.core.borrow_mut();
        core.memory.write(side.start, from).map_err(|_| Fault::Initiator)
    }
}
