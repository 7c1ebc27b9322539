// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rank, as its program uses it.
//!
//! Calls that change the NIC's tables take the machine file's time. Puts and gets return when the NIC has it.

use std::cell::{Ref, RefCell, RefMut};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use selvedge_nic::arithmetic::{Datatype, Operation};
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{ack, options};
use selvedge_nic::tables::{Command, Request, Side, kind};

use crate::machine::{Machine, Mode};
use crate::node::{Bytes, RankRequest, StartFlags};
use crate::time::Time;

use super::shared::{Core, PORTAL_MEMORY, PORTAL_WINDOW, counted, failed};

const SUM: (u8, u8) = (Operation::Sum as u8, Datatype::Uint64 as u8);

/// The condition of a triggered operation: the counter of a window has reached a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    pub window: u32,
    pub count: u64,
}

/// A handle on a rank; clones refer to the same rank.
#[derive(Clone)]
pub struct Process {
    pub(super) core: Rc<RefCell<Core>>,
}

impl Process {
    pub(super) fn new(core: Core) -> Process {
        Process { core: Rc::new(RefCell::new(core)) }
    }

    pub fn rank(&self) -> u32 {
        self.core.borrow().rank
    }

    pub fn size(&self) -> u32 {
        self.core.borrow().size
    }

    /// Returns virtual time, as this rank's clock shows it.
    pub fn now(&self) -> Time {
        self.core.borrow().now
    }

    pub fn machine(&self) -> Arc<Machine> {
        self.core.borrow().machine.clone()
    }

    /// Returns the rank's memory.
    pub fn memory(&self) -> Ref<'_, [u8]> {
        Ref::map(self.core.borrow(), |core| &core.memory.own[..core.needs.memory_bytes])
    }

    pub fn memory_mut(&self) -> RefMut<'_, [u8]> {
        RefMut::map(self.core.borrow_mut(), |core| {
            let reached = core.needs.memory_bytes;
            &mut core.memory.own[..reached]
        })
    }

    /// Returns an 8-byte word of the rank's memory; 0 outside of it.
    pub fn word(&self, offset: u64) -> u64 {
        let mut word = [0; 8];
        let read = self.core.borrow().memory.read(offset, &mut word);
        if read.is_ok() { u64::from_le_bytes(word) } else { 0 }
    }

    // ---- Results -------------------------------------------------------------------------------------------------

    /// Adds a point to the results of the run. A series' name ends with its unit: "half round trip, us".
    pub fn record(&self, series: &'static str, x: f64, y: f64) {
        let core = self.core.borrow();
        core.shared.observer().record((core.now, core.rank), series, x, y);
    }

    /// Records that this rank has executed n iterations from `start` until now; all ranks execute them. The point of
    /// the series at `x` is `y` of the mean time of an iteration, from the start of the first rank to the end of the
    /// last, over all laps so far.
    pub fn lap(&self, series: &'static str, x: f64, start: Time, iterations: u64, y: impl Fn(Time) -> f64) {
        let core = self.core.borrow();
        let (rank, times) = ((core.rank, core.size), (start, core.now));
        core.shared.observer().lap((series, x), rank, times, iterations, y);
    }

    /// Adds to a count that all ranks share outside the simulated machine, and returns it. For checks.
    pub fn witness(&self, add: u64) -> u64 {
        let core = self.core.borrow();
        core.shared.observer().witness(add)
    }

    /// Records a mistake in the results; returns its exit code.
    pub fn wrong(&self, what: impl Into<String>) -> i32 {
        let core = self.core.borrow();
        core.shared.observer().wrong((core.now, core.rank), what.into());
        1
    }

    // ---- Time ----------------------------------------------------------------------------------------------------

    /// Computes for this time, and longer by the interrupts that take its processor meanwhile.
    pub async fn compute(&self, time: Time) {
        if time > Time::ZERO {
            let until = self.now() + time;
            self.ask(RankRequest::Compute { until }).await;
        }
    }

    /// Waits for this time, whatever its NIC does.
    pub async fn sleep(&self, time: Time) {
        if time > Time::ZERO {
            let until = self.now() + time;
            self.ask(RankRequest::Sleep { until }).await;
        }
    }

    /// Ends a turn that has found nothing: the program polls again when a NIC has changed, or after a growing pause.
    pub async fn poll(&self) {
        self.ask(RankRequest::Poll { until: Time::MAX, in_call: false }).await;
    }

    /// Copies n bytes with the processor.
    pub async fn copy(&self, bytes: u64) {
        let time = self.core.borrow().machine.host.copy(bytes);
        self.compute(time).await;
    }

    /// Keeps the processor busy for this time. The turn continues; the next request is later by it.
    pub fn spend(&self, time: Time) {
        self.core.borrow_mut().now += time;
    }

    // ---- One-sided -----------------------------------------------------------------------------------------------

    /// Puts bytes into a rank's memory, without an acknowledgement.
    pub async fn put(&self, to: u32, offset: u64, bytes: &[u8]) {
        let command = self.command(kind::PUT, to, PORTAL_MEMORY, 0, offset, bytes.len() as u64);
        self.start(command, Bytes::from_slice(bytes)).await;
    }

    /// Puts bytes, and increments counter `window` of the target: the counting put of seed 004.
    pub async fn put_counting(&self, to: u32, window: u32, offset: u64, bytes: &[u8]) {
        let command = self.command(kind::PUT, to, PORTAL_WINDOW, window.into(), offset, bytes.len() as u64);
        self.start(command, Bytes::from_slice(bytes)).await;
    }

    /// Puts bytes and requests an acknowledgement, for which [`Process::fence`] waits.
    pub async fn put_acknowledged(&self, to: u32, offset: u64, bytes: &[u8]) {
        let mut command = self.command(kind::PUT, to, PORTAL_MEMORY, 0, offset, bytes.len() as u64);
        command.request.ack = ack::COUNTING;
        {
            let mut core = self.core.borrow_mut();
            core.unacknowledged += 1;
            command.source.counter = core.acknowledged;
        }
        command.source.options = options::MD_EVENT_CT_ACK;
        self.start(command, Bytes::from_slice(bytes)).await;
    }

    /// Waits until every acknowledged put has arrived or failed.
    pub async fn fence(&self) {
        self.limit_unacknowledged(0).await;
    }

    /// Waits until at most n acknowledged puts have neither arrived nor failed.
    pub async fn limit_unacknowledged(&self, most: u64) {
        let (counter, count) = (self.core.borrow().acknowledged, self.core.borrow().unacknowledged);
        self.wait_for_answers(counter, count.saturating_sub(most)).await;
    }

    /// Puts bytes without an acknowledgement, and increments counter `window` of this rank when they have left its node.
    pub async fn put_counting_departure(&self, to: u32, offset: u64, bytes: &[u8], window: u32) {
        let mut command = self.command(kind::PUT, to, PORTAL_MEMORY, 0, offset, bytes.len() as u64);
        command.source.counter = self.core.borrow().windows[window as usize];
        command.source.options = options::MD_EVENT_CT_SEND;
        self.start(command, Bytes::from_slice(bytes)).await;
    }

    /// Returns the number of acknowledged puts, gets and fetching atomics that have failed: their target is dead, or
    /// the fabric lost them. They have fetched nothing.
    pub fn failed(&self) -> u64 {
        let core = self.core.borrow();
        failed(&core.tables, core.acknowledged) + failed(&core.tables, core.replied)
    }

    /// Gets bytes of a rank's memory into the memory of this rank.
    pub async fn get(&self, from: u32, offset: u64, into: u64, bytes: u64) {
        let mut command = self.command(kind::GET, from, PORTAL_MEMORY, 0, offset, bytes);
        let (counter, count) = {
            let mut core = self.core.borrow_mut();
            core.asked += 1;
            (core.replied, core.asked)
        };
        command.sink = Side { start: into, counter, options: options::MD_EVENT_CT_REPLY, ..Side::NOWHERE };
        self.start(command, Bytes::new()).await;
        self.wait_for_answers(counter, count).await;
    }

    /// Returns the value of a window's counter.
    pub fn count(&self, window: u32) -> u64 {
        let core = self.core.borrow();
        core.windows.get(window as usize).map_or(0, |counter| counted(&core.tables, *counter))
    }

    /// Waits until the counter of a window has reached a value.
    pub async fn wait_count(&self, window: u32, count: u64) {
        let counter = self.core.borrow().windows[window as usize];
        self.wait_for_counter(counter, count).await;
    }

    /// Adds to the counter of a window of this rank's NIC, without a message.
    pub fn count_up(&self, window: u32, by: u64) {
        let core = &mut *self.core.borrow_mut();
        core.now += match core.machine.nic.mode {
            Mode::Nic => core.machine.host.doorbell,
            Mode::Host => core.machine.local_command(),
        };
        if let Some(counter) = core.windows.get(window as usize) {
            core.tables.nic().counters().increment(*counter, by, 0);
        }
    }

    /// Waits until an 8-byte word of this rank's memory, written by puts, has at least a value.
    pub async fn wait_word(&self, offset: u64, value: u64) {
        loop {
            if self.word(offset) >= value {
                return;
            }
            self.ask(RankRequest::Wait { until: Time::MAX }).await;
        }
    }

    // ---- Triggered operations ------------------------------------------------------------------------------------

    /// Arms a triggered counting put. It reads its payload when it starts: `bytes` from address `from`. False: no room
    /// ([`super::Needs::triggered`]).
    pub fn put_triggered(&self, trigger: Trigger, to: u32, window: u32, offset: u64, from: u64, bytes: u64) -> bool {
        let mut command = self.command(kind::PUT, to, PORTAL_WINDOW, window.into(), offset, bytes);
        command.source.start = from;
        self.arm(trigger, Action::Command(&command))
    }

    /// Arms a triggered counting atomic, which adds 8-byte words to those of the target.
    pub fn add_triggered(&self, trigger: Trigger, to: u32, window: u32, offset: u64, from: u64, bytes: u64) -> bool {
        let mut command = self.command(kind::ATOMIC, to, PORTAL_WINDOW, window.into(), offset, bytes);
        (command.request.operation, command.request.datatype) = SUM;
        command.source.start = from;
        self.arm(trigger, Action::Command(&command))
    }

    /// Arms a triggered get of `bytes` at `offset` of a rank's memory to address `into`; its reply counts in `counted`.
    pub fn get_triggered(&self, trigger: Trigger, from: u32, offset: u64, into: u64, bytes: u64, counted: u32) -> bool {
        let mut command = self.command(kind::GET, from, PORTAL_MEMORY, 0, offset, bytes);
        let Some(counter) = self.core.borrow().windows.get(counted as usize).copied() else { return false };
        command.sink = Side { start: into, counter, options: options::MD_EVENT_CT_REPLY, ..Side::NOWHERE };
        self.arm(trigger, Action::Command(&command))
    }

    /// Arms a triggered addition to the counter of another window of the same NIC.
    pub fn count_triggered(&self, trigger: Trigger, window: u32, by: u64) -> bool {
        let Some(counter) = self.core.borrow().windows.get(window as usize).copied() else { return false };
        self.arm(trigger, Action::CounterIncrement { counter, success: by, failure: 0 })
    }

    fn arm(&self, trigger: Trigger, action: Action<'_>) -> bool {
        let core = &mut *self.core.borrow_mut();
        core.now += core.machine.local_command();
        let Some(&counter) = core.windows.get(trigger.window as usize) else { return false };
        core.tables.nic().triggered().arm(counter, trigger.count, action).is_ok()
    }

    // ---- Atomics -------------------------------------------------------------------------------------------------

    /// Adds to an 8-byte word of a rank's memory, without an acknowledgement.
    pub async fn add(&self, to: u32, offset: u64, value: u64) {
        let mut command = self.command(kind::ATOMIC, to, PORTAL_MEMORY, 0, offset, 8);
        (command.request.operation, command.request.datatype) = SUM;
        self.start(command, Bytes::from_slice(&value.to_le_bytes())).await;
    }

    /// Adds 8-byte words to those of a rank's memory, and increments the counter of a window of the target.
    pub async fn add_counting(&self, to: u32, window: u32, offset: u64, words: &[u8]) {
        let mut command = self.command(kind::ATOMIC, to, PORTAL_WINDOW, window.into(), offset, words.len() as u64);
        (command.request.operation, command.request.datatype) = SUM;
        self.start(command, Bytes::from_slice(words)).await;
    }

    /// Adds to an 8-byte word of a rank's memory; returns its old value.
    pub async fn fetch_add(&self, to: u32, offset: u64, value: u64) -> u64 {
        self.fetching(kind::FETCH_ATOMIC, Operation::Sum, to, offset, value, 0).await
    }

    /// Replaces an 8-byte word of a rank's memory; returns its old value.
    pub async fn swap(&self, to: u32, offset: u64, value: u64) -> u64 {
        self.fetching(kind::SWAP, Operation::Swap, to, offset, value, 0).await
    }

    /// Replaces an 8-byte word of a rank's memory if it has the expected value; returns its old value.
    pub async fn compare_swap(&self, to: u32, offset: u64, expected: u64, value: u64) -> u64 {
        self.fetching(kind::SWAP, Operation::CompareSwap, to, offset, value, expected).await
    }

    async fn fetching(&self, kind: u8, operation: Operation, to: u32, offset: u64, value: u64, operand: u64) -> u64 {
        let mut command = self.command(kind, to, PORTAL_MEMORY, 0, offset, 8);
        command.request.operation = operation as u8;
        command.request.datatype = Datatype::Uint64 as u8;
        command.request.operand[0] = operand;
        let (counter, count, scratch) = {
            let mut core = self.core.borrow_mut();
            core.asked += 1;
            (core.replied, core.asked, core.needs.memory_bytes as u64)
        };
        command.sink = Side { start: scratch, counter, options: options::MD_EVENT_CT_REPLY, ..Side::NOWHERE };
        self.start(command, Bytes::from_slice(&value.to_le_bytes())).await;
        self.wait_for_answers(counter, count).await;
        self.word(scratch)
    }

    // ---- Commands and requests -----------------------------------------------------------------------------------

    /// Makes a command of this rank without counters and events.
    pub fn command(&self, kind: u8, to: u32, portal: u32, match_bits: u64, offset: u64, length: u64) -> Box<Command> {
        let core = self.core.borrow();
        let mut command = core.spare.borrow_mut().pop().unwrap_or_default();
        *command = Command {
            request: Request {
                kind,
                portal,
                initiator: core.rank.into(),
                match_bits,
                remote_offset: offset,
                length,
                ..Request::default()
            },
            target: to.into(),
            user_ptr: 0,
            source: Side::NOWHERE,
            sink: Side::NOWHERE,
        };
        command
    }

    /// Starts an operation; returns when the NIC has the command.
    pub fn start(&self, command: Box<Command>, payload: Bytes) -> impl Future<Output = ()> + use<> {
        self.ask(RankRequest::Start { ni: 0, command, payload, flags: StartFlags::default() })
    }

    /// Starts an operation; returns when the NIC has the command and one of the rank's NICs has changed after that.
    pub(super) fn start_and_wait(&self, command: Box<Command>, payload: Bytes) -> NextTurn {
        self.ask(RankRequest::Start { ni: 0, command, payload, flags: StartFlags { waits: true, or_refuse: false } })
    }

    async fn wait_for_counter(&self, counter: u32, count: u64) {
        while counted(&self.core.borrow().tables, counter) < count {
            self.ask(RankRequest::Wait { until: Time::MAX }).await;
        }
    }

    /// Waits until a counter of answers has reached a value; failures count as answers.
    async fn wait_for_answers(&self, counter: u32, count: u64) {
        let answers = || {
            let tables = &self.core.borrow().tables;
            counted(tables, counter) + failed(tables, counter)
        };
        while answers() < count {
            self.ask(RankRequest::Wait { until: Time::MAX }).await;
        }
    }

    /// Ends the turn with a request to the simulation; the future is ready at this rank's next turn.
    pub(super) fn ask(&self, request: RankRequest) -> NextTurn {
        self.core.borrow_mut().request = Some(request);
        NextTurn { come: false }
    }
}

/// A future that is pending at its first poll and ready at its second.
#[must_use = "a request takes effect when the rank ends its turn by awaiting this"]
pub(super) struct NextTurn {
    come: bool,
}

impl Future for NextTurn {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.come, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}
