// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This process as a member of groups whose aggregation nodes are elsewhere: in the switches of a simulated machine, or processes of hosts (seed
//! 001, section III).
//!
//! ```text
//! grant of the job (a file, or the manager's) ──> Aggregation: a NIC with memberships
//!                                  │ Group::form: join, until all members have joined
//! Pending ──> Running ──> requests, a piece each ──> leaf node ... root ──> results, in the program's memory
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
//! 5. No process is a member of two groups of a job with one number.
//!
//! Costs: for each piece one request and one result; a copy of the vectors of broadcasts and allgathers.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use selvedge_fabric::NodeId;
use selvedge_host::aggregation::{Buffer, Carries, Elements, Entry, Exchange, Idle, Pending, What, part_of_window};
use selvedge_host::simulated::is_simulated;
use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::member::{GroupState, Pieces, StartError};
use selvedge_nic::aggregation::message::Reduction;
use selvedge_nic::arithmetic::{Datatype, Operation};

mod hello;
mod number;
mod operations;
mod share;
mod spanning;

/// The number of the NIC with which a process is a member of groups.
pub const MEMBER_NI: u16 = selvedge_host::config::MEMBER_NI as u16;

use hello::{Hello, VERSION};
use number::Number;
pub use operations::Operations;
pub use share::Aggregation;
use share::Wait;
pub use spanning::Spanning;

/// How long a member waits for its node before it says again how it stands. Exchanges of many processes take the cores from the nodes.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(20);

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
    /// The oldest operation of the node that was not over when they were last carried on.
    awaited: Option<u64>,
}

impl Group {
    /// Collective: agrees with the other processes on a group. The error says why there is none. `refuses`: why this one takes no part.
    pub fn form(
        (rank, size): (usize, usize),
        refuses: Option<String>,
        exchange: &mut dyn Exchange,
    ) -> Result<Group, String> {
        let own = refuses.map_or_else(Aggregation::of_process, Err);
        Group::form_with(Some(own), (rank, size), exchange)?.ok_or_else(|| "it takes no part".to_owned())
    }

    /// As [`Group::form`], for a process with a share. None: it is no member, and follows what members say; so is the group.
    fn form_with(
        own: Option<Result<&'static Aggregation, String>>,
        (rank, size): (usize, usize),
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Group>, String> {
        let share = own.as_ref().and_then(|own| own.as_ref().ok().copied());
        let taken = share.filter(|_| rank == 0).and_then(Aggregation::number);
        let hello = Hello {
            version: VERSION,
            node: share.map_or(0, |own| u64::from(own.node().0) + 1),
            number: taken.as_ref().map_or(u64::MAX, |number| number.get().into()),
            longest: share.map_or(0, Aggregation::longest),
        };
        let all = exchange.gather(&hello.words())?;
        let all = Hello::all(&all);
        let own = own.transpose()?;
        if all.len() != size || all.iter().any(|hello| hello.version != VERSION) {
            return Err("its processes have several versions of this library".to_owned());
        }
        if let Some(other) = all.iter().position(|hello| hello.node == 0) {
            return Err(format!("process {other} takes no part"));
        }
        let joined = own.map(|own| {
            let number = all.first().and_then(|first| u32::try_from(first.number).ok());
            let number = taken
                .or_else(|| Number::claim(own.granted().job, number.filter(|_| rank != 0)?))
                .ok_or(Failure::NoGroup)?;
            let nodes: Vec<NodeId> = all.iter().map(|hello| NodeId((hello.node - 1) as u32)).collect();
            let longest = all.iter().map(|hello| hello.longest).min().unwrap_or(0);
            Group::join(own, number, (rank, size), (&nodes, longest))
        });
        Group::finish(joined, exchange)
    }

    /// Asks the leaf node to join the group with this number.
    fn join(
        aggregation: &'static Aggregation,
        number: Number,
        (rank, size): (usize, usize),
        (nodes, longest): (&[NodeId], u64),
    ) -> Result<Group, Failure> {
        let granted = aggregation.granted();
        let (node, join) = granted.join(number.get(), rank, nodes).ok_or(Failure::NoTree)?;
        let node = aggregation.id_of(node).ok_or(Failure::NoTree)?;
        let made = aggregation.interface().lock().member().join(node, granted.key, &join);
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
            awaited: None,
        };
        aggregation.send(node, message, 0)?;
        Ok(group)
    }

    /// Waits until the group is formed, or has failed at any member: a node tells those alone that have joined. `joined`: None at a process that is
    /// no member.
    fn finish(joined: Option<Result<Group, Failure>>, exchange: &mut dyn Exchange) -> Result<Option<Group>, String> {
        loop {
            let state = joined.as_ref().map(|joined| match joined {
                Ok(group) => group.state(),
                Err(failure) => GroupState::Failed(*failure),
            });
            let own = match state {
                Some(GroupState::Ready { .. }) => joining::READY,
                Some(GroupState::Failed(_)) => joining::FAILED,
                Some(GroupState::Joining) | None => joining::GOES_ON,
            };
            let all = exchange.gather(&[own])?;
            if let Some(other) = all.iter().position(|&state| state == joining::FAILED) {
                return Err(match state {
                    Some(GroupState::Failed(failure)) => failure.to_string(),
                    _ => format!("process {other} could not join"),
                });
            }
            if all.iter().all(|&state| state == joining::READY) {
                let mut group = joined.transpose().map_err(|failure| failure.to_string())?;
                if let (Some(group), Some(GroupState::Ready { credits, bytes })) = (&mut group, state) {
                    (group.credits, group.bytes) = (credits as usize, bytes as usize);
                    (group.zeros, group.unwanted) = (vec![0; group.bytes], vec![0; group.bytes]);
                }
                return Ok(group);
            }
            if let Some(Ok(group)) = &joined {
                group.look();
            }
        }
    }

    /// Waits a while for the node, before members tell each other how they stand. In virtual time their exchange waits.
    fn look(&self) {
        let until = Instant::now() + BETWEEN_ROUNDS;
        let mut wait = Wait::default();
        while !is_simulated() && self.state() == GroupState::Joining && Instant::now() < until {
            self.aggregation.rest(self.node, &mut wait, || self.state() != GroupState::Joining);
        }
    }

    fn state(&self) -> GroupState {
        let state = self.aggregation.interface().lock().member().state(self.handle);
        state.unwrap_or(GroupState::Failed(Failure::NoGroup))
    }

    /// Starts an operation of the node. Returns its number.
    fn start(&self, reduction: &Reduction, operand: *const u8, result: *mut u8) -> Result<u64, StartError> {
        let (operand, result) = (operand.expose_provenance() as u64, result.expose_provenance() as u64);
        let made = self.aggregation.interface().lock_to_post().member().start(self.handle, reduction, result);
        let (number, message) = made?;
        self.aggregation.send(self.node, message, operand).map_err(StartError::Failed)?;
        Ok(number)
    }

    /// The outcome of an operation of the node. None: it is not over.
    fn take(&self, number: u64) -> Option<Result<(), Failure>> {
        self.aggregation.interface().lock_to_post().member().take(self.handle, number)
    }

    /// Carries an operation on. None: it is not over.
    fn carry_on(&mut self, running: &mut Running) -> Option<Result<(), Failure>> {
        let reducing = match running {
            Running::Reducing(reducing) => reducing,
            Running::Refused(failure) => return Some(Err(*failure)),
        };
        loop {
            if let Some(&oldest) = reducing.started.front().filter(|_| !reducing.may_start(self.credits)) {
                let Some(outcome) = self.take(oldest) else {
                    self.awaited = self.awaited.or(Some(oldest));
                    return None;
                };
                reducing.started.pop_front();
                reducing.outcome = reducing.outcome.and(outcome);
            } else if reducing.may_start(self.credits) {
                let piece = reducing.pieces.range(reducing.left.start);
                let (operand, result) = reducing.memory(&piece, (&self.zeros, &mut self.unwanted));
                match self.start(&reducing.elements.reduction(piece.len()), operand, result) {
                    Ok(number) => reducing.started.push_back(number),
                    // The operations before this one have them.
                    Err(StartError::Credit) => return None,
                    // Those under way still write to the result.
                    Err(failure) => {
                        reducing.outcome = reducing.outcome.and(Err(failure.into()));
                        reducing.left.end = reducing.left.start;
                        continue;
                    }
                }
                reducing.left.start += 1;
            } else {
                return Some(reducing.outcome.and_then(|()| reducing.finish()));
            }
        }
    }
}

/// An operation of a group under way.
pub enum Running {
    Reducing(Box<Reducing>),
    Refused(Failure),
}

/// Vectors that are reduced in pieces, each an operation of the node.
pub struct Reducing {
    elements: Elements,
    /// This member's operand. None: it is 0.
    from: Option<*const u8>,
    /// Where the result goes. None: it is not wanted.
    to: Option<*mut u8>,
    pieces: Pieces,
    /// The pieces that are not started.
    left: Range<usize>,
    /// The numbers of those under way.
    started: VecDeque<u64>,
    outcome: Result<(), Failure>,
    /// An operand, or a result, that the program does not have as a whole.
    whole: Vec<u8>,
    /// The part of the result that the program gets, and where.
    part: Option<(Range<usize>, *mut u8)>,
}

impl Reducing {
    fn new(
        elements: Elements,
        from: Option<*const u8>,
        to: Option<*mut u8>,
        bytes: usize,
        most: usize,
    ) -> Result<Box<Reducing>, Failure> {
        if bytes % elements.size_bytes() != 0 {
            return Err(Failure::NoSuchOperation);
        }
        let pieces = Pieces::new(bytes, elements.size_bytes(), most)?;
        let (left, started) = (0..pieces.count(), VecDeque::new());
        let (whole, part) = (Vec::new(), None);
        Ok(Box::new(Reducing { elements, from, to, pieces, left, started, outcome: Ok(()), whole, part }))
    }

    /// As [`Reducing::new`], with the part of the result that goes to a buffer.
    fn of_part(
        elements: Elements,
        from: Option<*const u8>,
        own: Range<usize>,
        to: *mut u8,
        bytes: usize,
        most: usize,
    ) -> Result<Box<Reducing>, Failure> {
        let mut whole = vec![0; bytes];
        let mut reducing = Reducing::new(elements, from, Some(whole.as_mut_ptr()), bytes, most)?;
        (reducing.whole, reducing.part) = (whole, Some((own, to)));
        Ok(reducing)
    }

    fn may_start(&self, credits: usize) -> bool {
        !self.left.is_empty() && self.started.len() < credits
    }

    /// The operand and the result of a piece. Without an operand the member gives zeros; a result that it does not want goes to `unwanted`.
    fn memory(&self, piece: &Range<usize>, (zeros, unwanted): (&[u8], &mut [u8])) -> (*const u8, *mut u8) {
        let operand = self.from.map_or(zeros.as_ptr(), |from| from.wrapping_add(piece.start));
        (operand, self.to.map_or(unwanted.as_mut_ptr(), |to| to.wrapping_add(piece.start)))
    }

    /// All pieces are over.
    fn finish(&self) -> Result<(), Failure> {
        let Some((own, to)) = &self.part else { return Ok(()) };
        copy_part(&self.whole, own.clone(), *to)
    }
}

impl Carries for Group {
    type Running = Running;

    fn takes(&self, operation: &Pending) -> bool {
        takes(operation, self.size, self.longest, self.bytes)
    }

    fn begin(&mut self, operation: Pending) -> Running {
        self.reduction(&operation).map_or_else(Running::Refused, Running::Reducing)
    }

    fn advance(&mut self, entries: &mut VecDeque<Entry<Running>>) {
        self.aggregation.poll();
        self.awaited = None;
        for Entry { running, outcome, .. } in entries.iter_mut() {
            if outcome.is_none() {
                *outcome = self.carry_on(running);
            }
            if matches!(running, Running::Reducing(reducing) if !reducing.left.is_empty()) {
                break;
            }
        }
    }

    fn look_after_members(&mut self) {
        self.aggregation.look_after(self.node);
    }

    /// `idle` may use other NICs of the process, so it is called between waits.
    fn wait(
        &mut self,
        idle: Idle<'_>,
        look: &mut dyn FnMut(&mut Group) -> Option<Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let mut wait = Wait::default();
        loop {
            if let Some(outcome) = look(self) {
                return outcome;
            }
            idle();
            self.rest(&mut wait);
        }
    }
}

impl Group {
    /// Waits until the oldest operation of the node is over, or for a short time.
    fn rest(&self, wait: &mut Wait) {
        let is_over = |number| self.aggregation.interface().lock_to_post().member().is_over(self.handle, number);
        self.aggregation.rest(self.node, wait, || self.awaited.is_some_and(is_over));
    }

    /// An operation as a reduction.
    fn reduction(&self, operation: &Pending) -> Result<Box<Reducing>, Failure> {
        let (bytes, Buffer { from, to }, most) = (operation.bytes(), operation.buffer(), self.bytes);
        match *operation.what() {
            What::Barrier => Reducing::new(bits()?, None, None, 0, most),
            What::Reduce { root: Some(root), .. }
            | What::Broadcast { root, .. }
            | What::Allgather { root: Some(root), .. }
                if root >= self.size =>
            {
                Err(Failure::GroupMismatch)
            }
            What::Reduce { elements, root } => {
                let wants = root.is_none_or(|root| root == self.rank);
                Reducing::new(elements, Some(from), wants.then_some(to), bytes, most)
            }
            What::ReduceScatter { elements, ref own } => {
                Reducing::of_part(elements, Some(from), own.clone(), to, bytes, most)
            }
            What::Broadcast { root, ref own } => {
                let from = (root == self.rank).then_some(from);
                match own {
                    None => Reducing::new(bits()?, from, from.is_none().then_some(to), bytes, most),
                    Some(own) => Reducing::of_part(bits()?, from, own.clone(), to, bytes, most),
                }
            }
            What::Allgather { ref window, root } => {
                let all = window.clone().unwrap_or(0..bytes.saturating_mul(self.size));
                let mut operand = vec![0; all.len()];
                let part = operand.get_mut(part_of_window(&all, bytes, self.rank)).ok_or(Failure::GroupMismatch)?;
                // SAFETY: who made the operation has an operand of so many bytes.
                unsafe { part.as_mut_ptr().copy_from_nonoverlapping(from, part.len()) };
                let wants = root.is_none_or(|root| root == self.rank);
                let operand_at = operand.as_ptr();
                let mut reducing = Reducing::new(bits()?, Some(operand_at), wants.then_some(to), operand.len(), most)?;
                reducing.whole = operand;
                Ok(reducing)
            }
        }
    }
}

/// Whether nodes carry an operation of so many members out: up to a length, with elements of no more bytes than a request has.
fn takes(operation: &Pending, members: usize, longest: u64, request_bytes: usize) -> bool {
    let bytes = match operation.what() {
        What::Allgather { .. } => operation.bytes().saturating_mul(members),
        _ => operation.bytes(),
    };
    let element = match operation.what() {
        What::Reduce { elements, .. } | What::ReduceScatter { elements, .. } => elements.size_bytes(),
        _ => 1,
    };
    bytes as u64 <= longest && (bytes == 0 || element <= request_bytes)
}

/// The reduction by which bytes of one member reach all.
fn bits() -> Result<Elements, Failure> {
    Elements::of_values(Operation::Bor, Datatype::Uint8).ok_or(Failure::NoSuchOperation)
}

/// Copies a part of a result to the program.
fn copy_part(all: &[u8], part: Range<usize>, to: *mut u8) -> Result<(), Failure> {
    let part = all.get(part).ok_or(Failure::GroupMismatch)?;
    // SAFETY: who made the operation has room for this part.
    unsafe { to.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
    Ok(())
}

impl Drop for Group {
    /// Leaves the group. No node writes a result here any more.
    fn drop(&mut self) {
        let left = self.aggregation.interface().lock().member().leave(self.handle);
        if let Some((node, message)) = left {
            let _ = self.aggregation.send(node, message, 0);
        }
    }
}
