// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This process as a member of groups whose aggregation nodes are elsewhere: in the switches of a simulated machine (seed 001, section III).
//!
//! ```text
//! grant of the job (a file) ──> Aggregation: a NIC with memberships
//!                                  │ Group::form: join, until all members have joined
//! Pending ──> Group::complete ──> requests, a piece each ──> leaf node ... root ──> results, in the program's memory
//! ```
//!
//! The collective operations are those of a live group ([`Pending`]). All become reductions, as in SHARP: a broadcast is the OR of the root's
//! bytes and zeros, an allgather the OR of vectors that are zero but for a member's own part, and who does not want a result drops it.
//!
//! Invariants
//! 1. Members choose alike whether the nodes carry an operation out: by its kind and its length, on which they agree, and by the least of their
//!    limits, which they tell each other when the group forms.
//! 2. At most as many pieces as the group has credits are under way. If one fails the others are reduced all the same, so members agree on the
//!    operations that the group has had.
//! 3. Operands are reduced in the order of the members, so each result has the same bits in every run.
//! 4. When an operation returns, with success or without, no node writes its result any more, unless the program is being aborted.
//! 5. No process is a member of two groups with one number.
//!
//! Costs: for each piece one request and one result; a copy of the vectors of broadcasts and allgathers.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use selvedge_fabric::NodeId;
use selvedge_manager::Granted;
use selvedge_nic::Limits;
use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::member::{GroupState, Pieces};
use selvedge_nic::aggregation::message::{Message, Reduction, Sender};
use selvedge_nic::arithmetic::{Datatype, Operation};
use selvedge_nic::tables::{Command, Side};
use selvedge_shm::Interface;
use selvedge_shm::aggregation::{Buffer, Elements, Exchange, Idle, Pending, What, part_of_window};
use selvedge_shm::config::MEMBER_NI;

use crate::process::{Opened, Process};

mod hello;
mod number;

use hello::{Hello, VERSION};
use number::Number;

/// The longest operation that nodes carry out, in requests, unless `SELVEDGE_AGGREGATION_BYTES` says otherwise: beyond, the hosts' own algorithms are
/// faster on switches whose data path is no faster than one link.
const LONGEST_REQUESTS: u64 = 16;

/// This process's share of the aggregation nodes.
pub struct Aggregation {
    /// The claim to its id lasts as long.
    opened: Opened,
    granted: Granted,
    /// This process's number in the job.
    process: u64,
    /// Bytes of the longest operation that it wants nodes to carry out.
    longest: u64,
}

impl Aggregation {
    /// The share of this process. The error says why it has none.
    pub fn of_process() -> Result<&'static Aggregation, String> {
        static FOUND: OnceLock<Result<Aggregation, String>> = OnceLock::new();
        FOUND.get_or_init(Aggregation::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Aggregation, String> {
        let process = Process::current().map_err(|error| error.to_string())?;
        let path = process.directory().grant();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err("the job has no share of aggregation nodes".to_owned());
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let granted = Granted::restore(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        let number = u64::from(process.rank());
        node_of(&granted, number).ok_or("the job's share of aggregation nodes is not this process's")?;
        let quota = granted.quota;
        let limits = Limits { memberships: quota.groups, member_operations: quota.credits_each(), ..Limits::NONE };
        let opened = process.open(MEMBER_NI, None, &limits.clamped()).map_err(|error| error.to_string())?;
        let longest = process.settings.aggregation_bytes.unwrap_or(u64::from(quota.bytes) * LONGEST_REQUESTS);
        Ok(Aggregation { opened, granted, process: number, longest })
    }

    /// A number for a group whose first member is this process. None: none is free.
    fn number(&self) -> Option<Number> {
        let processes = self.granted.members.iter().map(|member| member.process.saturating_add(1)).max()?;
        Number::take(self.process, processes)
    }

    fn interface(&self) -> &Arc<Interface> {
        &self.opened.interface
    }

    fn send(&self, node: u64, message: Message, payload: u64) -> Result<(), Failure> {
        let sender = Sender { address: self.interface().id(), key: self.granted.key };
        let source = Side { start: payload, ..Side::NOWHERE };
        let request = message.encode(sender);
        let command = Command { request, target: node, user_ptr: 0, source, sink: Side::NOWHERE };
        self.interface().start(&command).map_err(|_| Failure::Lost)
    }
}

/// The end node of a process of the job.
fn node_of(granted: &Granted, process: u64) -> Option<NodeId> {
    granted.members.iter().find(|member| member.process == process).map(|member| member.node)
}

/// What a process says while a group forms.
mod joining {
    pub const GOES_ON: u64 = 1;
    pub const READY: u64 = 2;
    pub const FAILED: u64 = 0;
}

/// A group that this process is a member of.
pub struct Group {
    aggregation: &'static Aggregation,
    /// It is this group's until this process has left.
    _number: Number,
    handle: u64,
    node: u64,
    rank: usize,
    size: usize,
    credits: usize,
    /// The most bytes of one request, and of an operation that the nodes carry out.
    bytes: usize,
    longest: u64,
    /// What does not concern this member: operands without a value, and where unwanted results go.
    zeros: Vec<u8>,
    unwanted: Vec<u8>,
}

impl Group {
    /// Collective: agrees with the other processes on a group. The error says why there is none. `refuses`: why this one takes no part.
    pub fn form(
        (rank, size): (usize, usize),
        refuses: Option<String>,
        exchange: &mut dyn Exchange,
    ) -> Result<Group, String> {
        let own = refuses.map_or_else(Aggregation::of_process, Err);
        let taken = own.as_ref().ok().filter(|_| rank == 0).and_then(|own| own.number());
        let hello = Hello {
            version: VERSION,
            process: own.as_ref().map_or(0, |own| own.process + 1),
            number: taken.as_ref().map_or(u64::MAX, |number| number.get().into()),
            longest: own.as_ref().map_or(0, |own| own.longest),
        };
        let all = exchange.gather(&hello.words())?;
        let all = Hello::all(&all);
        let own = own?;
        if all.len() != size || all.iter().any(|hello| hello.version != VERSION) {
            return Err("its processes have several versions of this library".to_owned());
        }
        if let Some(other) = all.iter().position(|hello| hello.process == 0) {
            return Err(format!("process {other} takes no part"));
        }
        let number = all.first().and_then(|first| u32::try_from(first.number).ok());
        let number = taken.or_else(|| Number::claim(number.filter(|_| rank != 0)?));
        let nodes: Option<Vec<NodeId>> = all.iter().map(|hello| node_of(&own.granted, hello.process - 1)).collect();
        let longest = all.iter().map(|hello| hello.longest).min().unwrap_or(0);
        let joined = match (number, nodes) {
            (Some(number), Some(nodes)) => Group::join(own, number, (rank, size), (&nodes, longest)),
            _ => Err(Failure::NoGroup),
        };
        Group::finish(joined, exchange)
    }

    /// Asks the leaf node to join the group with this number.
    fn join(
        aggregation: &'static Aggregation,
        number: Number,
        (rank, size): (usize, usize),
        (nodes, longest): (&[NodeId], u64),
    ) -> Result<Group, Failure> {
        let (node, join) = aggregation.granted.join(number.get(), rank, nodes).ok_or(Failure::NoTree)?;
        let made = aggregation.interface().lock().member().join(node, aggregation.granted.key, &join);
        let (handle, message) = made.map_err(|_| Failure::NoRoom)?;
        let group = Group {
            aggregation,
            _number: number,
            handle,
            node,
            rank,
            size,
            credits: 0,
            bytes: 0,
            longest,
            zeros: Vec::new(),
            unwanted: Vec::new(),
        };
        aggregation.send(node, message, 0)?;
        Ok(group)
    }

    /// Waits until the group is formed, or has failed at any member: a node tells those alone that have joined.
    fn finish(joined: Result<Group, Failure>, exchange: &mut dyn Exchange) -> Result<Group, String> {
        loop {
            let state = match &joined {
                Ok(group) => group.state(),
                Err(failure) => GroupState::Failed(*failure),
            };
            let own = match state {
                GroupState::Joining => joining::GOES_ON,
                GroupState::Ready { .. } => joining::READY,
                GroupState::Failed(_) => joining::FAILED,
            };
            let all = exchange.gather(&[own])?;
            if let Some(other) = all.iter().position(|&state| state == joining::FAILED) {
                return Err(match state {
                    GroupState::Failed(failure) => failure.to_string(),
                    _ => format!("process {other} could not join"),
                });
            }
            if let (GroupState::Ready { credits, bytes }, true) =
                (state, all.iter().all(|&state| state == joining::READY))
            {
                let mut group = joined.map_err(|failure| failure.to_string())?;
                (group.credits, group.bytes) = (credits as usize, bytes as usize);
                (group.zeros, group.unwanted) = (vec![0; group.bytes], vec![0; group.bytes]);
                return Ok(group);
            }
        }
    }

    fn state(&self) -> GroupState {
        let state = self.aggregation.interface().lock().member().state(self.handle);
        state.unwrap_or(GroupState::Failed(Failure::NoGroup))
    }

    /// This member's number, and how many there are.
    pub fn rank(&self) -> usize {
        self.rank
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether the nodes carry an operation out. All members say the same.
    pub fn takes(&self, operation: &Pending) -> bool {
        let bytes = match operation.what() {
            What::Allgather { .. } => operation.bytes().saturating_mul(self.size),
            _ => operation.bytes(),
        };
        let element = match operation.what() {
            What::Reduce { elements, .. } | What::ReduceScatter { elements, .. } => elements.size_bytes(),
            _ => 1,
        };
        bytes as u64 <= self.longest && (bytes == 0 || element <= self.bytes)
    }

    /// Carries an operation out, which the nodes take ([`Group::takes`]). `idle` is called while it waits.
    pub fn complete(&mut self, operation: &Pending, idle: Idle<'_>) -> Result<(), Failure> {
        let (bytes, buffer) = (operation.bytes(), operation.buffer());
        match *operation.what() {
            What::Barrier => self.reduce(&bits()?, None, None, 0, idle),
            What::Reduce { root: Some(root), .. }
            | What::Broadcast { root, .. }
            | What::Allgather { root: Some(root), .. }
                if root >= self.size =>
            {
                Err(Failure::GroupMismatch)
            }
            What::Reduce { ref elements, root } => {
                let wants = root.is_none_or(|root| root == self.rank);
                self.reduce(elements, Some(buffer.from), wants.then_some(buffer.to), bytes, idle)
            }
            What::ReduceScatter { ref elements, ref own } => {
                self.reduce_for_part(elements, Some(buffer.from), own, &buffer, bytes, idle)
            }
            What::Broadcast { root, ref own } => {
                let from = (root == self.rank).then_some(buffer.from);
                match own {
                    None => self.reduce(&bits()?, from, from.is_none().then_some(buffer.to), bytes, idle),
                    Some(own) => self.reduce_for_part(&bits()?, from, own, &buffer, bytes, idle),
                }
            }
            What::Allgather { ref window, root } => {
                let all = window.clone().unwrap_or(0..bytes.saturating_mul(self.size));
                let mut operand = vec![0; all.len()];
                let part = operand.get_mut(part_of_window(&all, bytes, self.rank)).ok_or(Failure::GroupMismatch)?;
                // SAFETY: who made the operation has an operand of so many bytes.
                unsafe { part.as_mut_ptr().copy_from_nonoverlapping(buffer.from, part.len()) };
                let wants = root.is_none_or(|root| root == self.rank);
                self.reduce(&bits()?, Some(operand.as_ptr()), wants.then_some(buffer.to), all.len(), idle)
            }
        }
    }

    /// As [`Group::reduce`], for a part of the result, which goes to the buffer.
    fn reduce_for_part(
        &mut self,
        elements: &Elements,
        from: Option<*const u8>,
        own: &Range<usize>,
        buffer: &Buffer,
        bytes: usize,
        idle: Idle<'_>,
    ) -> Result<(), Failure> {
        let mut result = vec![0; bytes];
        self.reduce(elements, from, Some(result.as_mut_ptr()), bytes, idle)?;
        let part = result.get(own.clone()).ok_or(Failure::GroupMismatch)?;
        // SAFETY: who made the operation has room for this part.
        unsafe { buffer.to.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
        Ok(())
    }

    /// Reduces vectors, of which this member's lies at `from`, or is 0. The result goes to `to`, if it is wanted.
    fn reduce(
        &mut self,
        elements: &Elements,
        from: Option<*const u8>,
        to: Option<*mut u8>,
        bytes: usize,
        idle: Idle<'_>,
    ) -> Result<(), Failure> {
        if bytes % elements.size_bytes() != 0 {
            return Err(Failure::NoSuchOperation);
        }
        let pieces = Pieces::new(bytes, elements.size_bytes(), self.bytes)?;
        let mut left = 0..pieces.count();
        let (mut started, mut outcome) = (VecDeque::new(), Ok(()));
        while !left.is_empty() || !started.is_empty() {
            if !left.is_empty() && started.len() < self.credits {
                let at = pieces.range(left.start);
                let operand = from.map_or(self.zeros.as_ptr(), |from| from.wrapping_add(at.start));
                let result = to.map_or(self.unwanted.as_mut_ptr(), |to| to.wrapping_add(at.start));
                left.start += 1;
                match self.start(&elements.reduction(at.len()), operand, result) {
                    Ok(number) => started.push_back(number),
                    // Those under way still write to the result.
                    Err(failure) => (outcome, left.end) = (outcome.and(Err(failure)), left.start),
                }
            } else if let Some(oldest) = started.pop_front() {
                outcome = outcome.and(self.wait(oldest, idle));
            }
        }
        outcome
    }

    /// Starts an operation of the node. Returns its number.
    fn start(&self, reduction: &Reduction, operand: *const u8, result: *mut u8) -> Result<u64, Failure> {
        let (operand, result) = (operand.expose_provenance() as u64, result.expose_provenance() as u64);
        let made = self.aggregation.interface().lock_to_post().member().start(self.handle, reduction, result);
        let (number, message) = made?;
        self.aggregation.send(self.node, message, operand)?;
        Ok(number)
    }

    /// Waits for the outcome of an operation of the node. `idle` may use other NICs of the process, so it is called between waits: one of
    /// them ends with each change.
    fn wait(&self, number: u64, idle: Idle<'_>) -> Result<(), Failure> {
        let interface = self.aggregation.interface();
        let take = || interface.lock_to_post().member().take(self.handle, number);
        loop {
            if let Some(outcome) = take() {
                return outcome;
            }
            idle();
            let mut looks = 0;
            let changed = || {
                looks += 1;
                take().map(Some).or((looks > 1).then_some(None))
            };
            match interface.wait(None, changed) {
                Ok(Some(outcome)) => return outcome,
                Ok(None) => {}
                Err(_) => return Err(Failure::Lost),
            }
        }
    }
}

/// The reduction by which bytes of one member reach all.
fn bits() -> Result<Elements, Failure> {
    Elements::of_values(Operation::Bor, Datatype::Uint8).ok_or(Failure::NoSuchOperation)
}

impl Drop for Group {
    /// Leaves the group.
    fn drop(&mut self) {
        let left = self.aggregation.interface().lock().member().leave(self.handle);
        if let Some((node, message)) = left {
            let _ = self.aggregation.send(node, message, 0);
        }
    }
}
