// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups of collective operations (fi_collective(3)): a live aggregation group for each
//! ([`selvedge_collectives::one_host`]), in which its members reduce.
//!
//! ```text
//! fi_join_collective ─> Joining (rounds of messages, crate::objects::group_endpoint) ─> Joined ─> FI_JOIN_COMPLETE
//!                                     └─> Failed ─> an error in the event queue
//! ```
//!
//! Invariants
//! 1. Nothing waits. Reads of queues and counters advance joins and operations ([`Groups::carry_on`]).
//! 2. The member with the lowest address collects the messages of the others in a round, and sends the conclusion, even
//!    if a member is lost. The others check that it is alive. So a join ends at all members whose processes are alive.
//! 3. If the program closes a group whose join is under way, the join still runs to its end for the other members.
//! 4. Operations of a group start in the order of the calls.
//!
//! Costs: a join takes three rounds of two messages for each member. An operation costs the same as in that group.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::time::{Duration, Instant};

use selvedge_collectives::one_host::{FormError, Formation, Member, Participant, Pending, Queue, RoundResult, Shape};
use selvedge_messages::Transport;
use selvedge_messages::bindings::{Bindings, Side};
use selvedge_messages::completion::Completion;
use selvedge_messages::error::Fault;
use selvedge_messages::ticket::Ticket;
use selvedge_nic::aggregation::Failure;
use selvedge_process::place::own_place;
use slab::Slab;

use crate::constants::*;
use crate::ffi::{FI_JOIN_COMPLETE, fi_eq_entry, fi_eq_err_entry, fid_mc};
use crate::objects::address::Address;
use crate::objects::events::{Event, Events};
use crate::objects::group_endpoint::GroupEndpoint;
use crate::{info_line, warn_line};

/// Operations of a group that its node may hold, and the node's longest operation.
const CREDITS: u32 = 8;
const BYTES: u32 = 16 << 10;
/// Operations of a group under way. Beyond this limit calls get -FI_EAGAIN until there is room.
const UNDER_WAY_MAX: usize = 1024;
/// Largest number of members of a group.
pub const MEMBERS_MAX: usize = Shape::MEMBERS_MAX as usize;

/// Collective addresses are not numbers of address vectors: these bits mark those of groups and of sets.
const OF_GROUP: u64 = 1 << 62;
const OF_SET: u64 = 1 << 61;

/// Time between checks that the members of a join are alive.
const PATIENCE: Duration = Duration::from_millis(20);

/// The groups of a domain.
#[derive(Default)]
pub struct Groups {
    /// The endpoint for messages between members.
    endpoint: Option<Box<GroupEndpoint>>,
    groups: Slab<Group>,
    sets: BTreeSet<u64>,
    next_set: u64,
}

/// A member of a group that is being joined.
pub struct NewMember {
    pub number: u64,
    pub address: Address,
    pub peer: u32,
}

struct Group {
    /// The program's object. Null: the program has closed it.
    object: *mut fid_mc,
    /// The bindings of the endpoint that has joined. The endpoint is open while the program has the group.
    bindings: *mut Bindings,
    /// The numbers of the members in the address vector.
    members: Vec<u64>,
    stage: Stage,
}

enum Stage {
    Joining(Box<Join>),
    Joined(Box<Working>),
    Failed,
}

struct Join {
    /// `None`: the join has ended.
    forming: Option<Formation>,
    round: u8,
    /// Digests of the set of members and of their order.
    key: u64,
    order: u64,
    /// The members in the order of their addresses: rank and peer.
    members: Vec<(usize, u32)>,
    /// This member's index among them.
    place: usize,
    /// The messages of this round: at the first member those of all members, at the others only the conclusion.
    incoming: Vec<Incoming>,
    checked_at: Instant,
    events: *const Events,
    context: *mut c_void,
}

enum Incoming {
    /// The number of the receive.
    Awaited(usize),
    Here(Vec<u64>),
}

struct Working {
    queue: Queue,
    running: VecDeque<Running>,
}

struct Running {
    number: u64,
    ticket: Ticket,
}

/// The first word of a conclusion.
mod status {
    pub const GOES_ON: u64 = 0;
    /// The members disagree on their order.
    pub const ORDER: u64 = 1;
    /// A member is lost.
    pub const LOST: u64 = 2;
}

/// The reason why a join has ended without a group.
struct NoGroup {
    error: c_int,
    reason: String,
}

impl NoGroup {
    fn new(error: c_int, reason: &str) -> NoGroup {
        NoGroup { error, reason: reason.into() }
    }
}

impl Groups {
    /// Opens the endpoint for groups, when a program's endpoint needs it. Returns false if the NIC has no room.
    pub fn open(&mut self, transport: &mut Transport) -> bool {
        if self.endpoint.is_none() {
            self.endpoint = GroupEndpoint::open(transport);
        }
        self.endpoint.is_some()
    }

    /// Closes the endpoint, when the domain is closed. The program has closed all groups.
    pub fn close(&mut self, transport: &mut Transport) {
        self.groups.clear();
        if let Some(endpoint) = self.endpoint.take() {
            endpoint.close(transport);
        }
    }

    pub fn has_anything_under_way(&self) -> bool {
        let is_under_way = |group: &Group| match &group.stage {
            Stage::Joining(_) => true,
            Stage::Joined(working) => !working.running.is_empty(),
            Stage::Failed => false,
        };
        self.endpoint.as_ref().is_some_and(|endpoint| endpoint.has_to_send())
            || self.groups.iter().any(|(_, group)| is_under_way(group))
    }

    // ---- addresses ----

    /// The collective address of a new set.
    pub fn new_set(&mut self) -> u64 {
        self.next_set += 1;
        let address = OF_SET | self.next_set;
        self.sets.insert(address);
        address
    }

    pub fn forget_set(&mut self, address: u64) {
        self.sets.remove(&address);
    }

    /// The address of a group.
    pub fn address_of(number: usize) -> u64 {
        OF_GROUP | number as u64
    }

    fn number_of(&self, address: u64) -> Option<usize> {
        let number = usize::try_from(address & !OF_GROUP).ok().filter(|_| address & OF_GROUP != 0)?;
        self.groups.get(number).filter(|group| !group.object.is_null()).map(|_| number)
    }

    /// Whether this address may name the members of a new group: it is a set's, a group's, or none.
    pub fn has_address(&self, address: u64) -> bool {
        address == ADDR_ANY || self.sets.contains(&address) || self.number_of(address).is_some()
    }

    // ---- joins ----

    /// Begins to join a group of these members. This endpoint is number `rank`. Returns the group's number.
    pub fn join(
        &mut self,
        transport: &mut Transport,
        invited: &[NewMember],
        rank: usize,
        bindings: *mut Bindings,
        (events, context): (*const Events, *mut c_void),
    ) -> Result<usize, c_int> {
        let own = self.endpoint.as_mut().ok_or(EOPNOTSUPP)?;
        let process = Participant { rank, size: invited.len(), place: own_place(), refuses: None };
        let shape = Shape { members: invited.len() as u32, credits: CREDITS, bytes: BYTES };
        let mut join = Join::new(invited, Formation::new(process, shape), rank, events, context);
        if !join.begin_round(transport, own) {
            return Err(EAGAIN);
        }
        let members = invited.iter().map(|one| one.number).collect();
        let object = std::ptr::null_mut();
        Ok(self.groups.insert(Group { object, bindings, members, stage: Stage::Joining(Box::new(join)) }))
    }

    /// Sets the object of a new group, which its events refer to.
    pub fn set_object(&mut self, number: usize, object: *mut fid_mc) {
        if let Some(group) = self.groups.get_mut(number) {
            group.object = object;
        }
    }

    /// Closes a group for the program. Its operations under way end without completions. False: there is no such group.
    pub fn leave(&mut self, number: usize) -> bool {
        let Some(group) = self.groups.get_mut(number) else { return false };
        group.object = std::ptr::null_mut();
        match &mut group.stage {
            Stage::Joining(_) => {}
            Stage::Joined(working) => {
                working.abandon();
                self.groups.remove(number);
            }
            Stage::Failed => drop(self.groups.remove(number)),
        }
        true
    }

    /// Advances joins and operations as far as possible.
    pub fn carry_on(&mut self, transport: &mut Transport) {
        let Some(endpoint) = self.endpoint.as_mut() else { return };
        endpoint.carry_on(transport);
        for (_, group) in &mut self.groups {
            match &mut group.stage {
                Stage::Joining(join) => {
                    if let Some(outcome) = join.carry_on(transport, endpoint) {
                        group.end_join(outcome);
                    }
                }
                Stage::Joined(working) if !working.running.is_empty() => working.carry_on(transport),
                _ => {}
            }
        }
        // Keeps groups that the program has closed before their joins ended.
        self.groups.retain(|_, group| !group.object.is_null() || matches!(group.stage, Stage::Joining(_)));
    }

    // ---- operations ----

    /// Starts an operation of an endpoint in the group with this address.
    pub fn start(
        &mut self,
        transport: &mut Transport,
        address: u64,
        ticket: Ticket,
        operation: impl FnOnce(&Roster<'_>) -> Result<Pending, c_int>,
    ) -> Result<(), c_int> {
        let number = self.number_of(address).ok_or(EINVAL)?;
        let group = &mut self.groups[number];
        if group.bindings != ticket.bindings {
            return Err(EINVAL);
        }
        let Stage::Joined(working) = &mut group.stage else { return Err(EOPBADSTATE) };
        if working.running.len() >= UNDER_WAY_MAX {
            return Err(EAGAIN);
        }
        let pending = operation(&Roster { member: working.queue.engine(), numbers: &group.members })?;
        let number = working.queue.add(pending);
        working.running.push_back(Running { number, ticket });
        working.carry_on(transport);
        Ok(())
    }
}

/// The members of a group, for an operation.
pub struct Roster<'a> {
    member: &'a Member,
    numbers: &'a [u64],
}

impl Roster<'_> {
    pub fn rank(&self) -> usize {
        self.member.rank()
    }

    pub fn size(&self) -> usize {
        self.member.size()
    }

    /// This member's part of `bytes` bytes, divided equally.
    pub fn own_part(&self, bytes: usize) -> Range<usize> {
        let each = bytes / self.size();
        self.rank() * each..(self.rank() + 1) * each
    }

    /// The member with this number in the address vector.
    pub fn rank_of(&self, number: u64) -> Result<usize, c_int> {
        self.numbers.iter().position(|&member| member == number).ok_or(EINVAL)
    }
}

impl Group {
    fn end_join(&mut self, outcome: Result<Member, NoGroup>) {
        let Stage::Joining(join) = &self.stage else { return };
        let (events, context, object) = (join.events, join.context, self.object);
        // A program that has closed the group gets no event.
        let is_open = !object.is_null();
        let fid = object.cast();
        let event = match outcome {
            Ok(member) => {
                self.stage = Stage::Joined(Box::new(Working { queue: Queue::new(member), running: VecDeque::new() }));
                let entry = fi_eq_entry { fid, context, data: 0 };
                // SAFETY: the entry has two pointers and a number, without padding.
                let bytes = unsafe { std::slice::from_raw_parts((&raw const entry).cast::<u8>(), size_of_val(&entry)) };
                Event::Success(FI_JOIN_COMPLETE, bytes.to_vec())
            }
            Err(NoGroup { error, reason }) => {
                if is_open {
                    warn_line!("fi_join_collective: no group was formed: {reason}");
                }
                self.stage = Stage::Failed;
                Event::Failure(fi_eq_err_entry { fid, context, err: error, prov_errno: error, ..Default::default() })
            }
        };
        if is_open {
            // SAFETY: the endpoint is bound to the queue, and is open while the group is.
            unsafe { (*events).push(event) };
        }
    }
}

/// A digest of words: FNV-1a, mixed, so that each bit counts.
fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325u64;
    for word in words {
        state = (state ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        state = (state ^ state >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    state ^ state >> 32
}

fn words_of(address: &Address) -> impl Iterator<Item = u64> {
    let bytes = address.to_bytes();
    let words: Vec<u64> =
        bytes.chunks(8).map(|chunk| chunk.iter().fold(0, |word, &byte| word << 8 | u64::from(byte))).collect();
    words.into_iter()
}

impl Join {
    fn new(
        invited: &[NewMember],
        forming: Formation,
        rank: usize,
        events: *const Events,
        context: *mut c_void,
    ) -> Join {
        let mut sorted: Vec<_> = invited.iter().enumerate().map(|(rank, one)| (one.address.to_bytes(), rank)).collect();
        sorted.sort_unstable();
        let order = digest(invited.iter().flat_map(|one| words_of(&one.address)));
        let key = digest(sorted.iter().flat_map(|(_, rank)| words_of(&invited[*rank].address)));
        let members: Vec<_> = sorted.iter().map(|&(_, rank)| (rank, invited[rank].peer)).collect();
        let place = members.iter().position(|&(member, _)| member == rank).unwrap_or(0);
        let incoming = Vec::new();
        let checked_at = Instant::now();
        Join { forming: Some(forming), round: 0, key, order, members, place, incoming, checked_at, events, context }
    }

    fn tag(&self, from: usize, to: usize) -> u64 {
        digest([self.key, self.round.into(), from as u64, to as u64])
    }

    /// Sends this member's words, and posts the receives for those of others. Returns false if there is no room.
    fn begin_round(&mut self, transport: &mut Transport, endpoint: &mut GroupEndpoint) -> bool {
        let mut words = vec![self.order];
        words.extend(self.forming.iter().flat_map(Formation::words));
        self.incoming.clear();
        if self.place != 0 {
            let Some(receive) = endpoint.receive(transport, self.tag(0, self.place)) else { return false };
            self.incoming.push(Incoming::Awaited(receive));
            endpoint.send(transport, self.members[0].1, self.tag(self.place, 0), words);
            return true;
        }
        self.incoming.push(Incoming::Here(words));
        for from in 1..self.members.len() {
            let Some(receive) = endpoint.receive(transport, self.tag(from, 0)) else {
                self.forget_receives(endpoint);
                return false;
            };
            self.incoming.push(Incoming::Awaited(receive));
        }
        true
    }

    fn forget_receives(&mut self, endpoint: &mut GroupEndpoint) {
        for incoming in self.incoming.drain(..) {
            if let Incoming::Awaited(receive) = incoming {
                endpoint.forget_receive(receive);
            }
        }
    }

    /// Advances the join as far as possible. `None`: it has not ended.
    fn carry_on(&mut self, transport: &mut Transport, endpoint: &mut GroupEndpoint) -> Option<Result<Member, NoGroup>> {
        loop {
            let mut is_whole = true;
            for incoming in &mut self.incoming {
                let Incoming::Awaited(receive) = *incoming else { continue };
                match endpoint.take(receive) {
                    Some(words) => *incoming = Incoming::Here(words),
                    None => is_whole = false,
                }
            }
            let conclusion = match (is_whole, self.place) {
                (false, _) => self.check_members(transport, endpoint)?,
                (true, 0) => self.conclude(),
                (true, _) => self.words(0).to_vec(),
            };
            if self.place == 0 {
                for to in 1..self.members.len() {
                    endpoint.send(transport, self.members[to].1, self.tag(0, to), conclusion.clone());
                }
            }
            match self.take_conclusion(&conclusion) {
                Ok(Some(member)) => return Some(Ok(member)),
                Ok(None) => {}
                Err(failure) => {
                    self.forget_receives(endpoint);
                    return Some(Err(failure));
                }
            }
            self.round += 1;
            if !self.begin_round(transport, endpoint) {
                return Some(Err(NoGroup::new(ENOMEM, "the NIC has no room for the messages of the join")));
            }
        }
    }

    fn words(&self, place: usize) -> &[u64] {
        match self.incoming.get(place) {
            Some(Incoming::Here(words)) => words,
            _ => &[],
        }
    }

    /// Checks at intervals that the members of awaited messages are alive. Returns the conclusion that one is lost.
    fn check_members(&mut self, transport: &Transport, endpoint: &GroupEndpoint) -> Option<Vec<u64>> {
        if self.checked_at.elapsed() < PATIENCE {
            return None;
        }
        self.checked_at = Instant::now();
        let awaited = |(at, incoming): (usize, &Incoming)| matches!(incoming, Incoming::Awaited(_)).then_some(at);
        let mut awaited = self.incoming.iter().enumerate().filter_map(awaited);
        let lost = awaited.find(|&at| endpoint.has_lost(transport, self.members[at].1))?;
        Some(vec![status::LOST, self.members[lost].0 as u64])
    }

    fn conclude(&self) -> Vec<u64> {
        let places = 0..self.members.len();
        if places.clone().any(|place| self.words(place).first() != Some(&self.order)) {
            return vec![status::ORDER];
        }
        let mut by_rank: Vec<&[u64]> = vec![&[]; self.members.len()];
        for place in places {
            by_rank[self.members[place].0] = &self.words(place)[1..];
        }
        let all: Vec<u64> = by_rank.concat();
        let conclusion = self.forming.as_ref().map_or_else(Vec::new, |forming| forming.conclusion_of(&all));
        [status::GOES_ON].into_iter().chain(conclusion).collect()
    }

    /// Handles a conclusion. Returns the formed member. `None`: another round follows.
    fn take_conclusion(&mut self, conclusion: &[u64]) -> Result<Option<Member>, NoGroup> {
        let (first, rest) = conclusion.split_first().unwrap_or((&status::ORDER, &[]));
        match *first {
            status::GOES_ON => {}
            status::LOST => {
                let rank = rest.first().copied().unwrap_or(0);
                return Err(NoGroup::new(EHOSTDOWN, &format!("the process of member {rank} has ended")));
            }
            _ => return Err(NoGroup::new(EINVAL, "its members disagree on their order")),
        }
        let forming = self.forming.take().ok_or_else(|| NoGroup::new(EIO, "it is over"))?;
        match forming.advance(rest) {
            Ok(RoundResult::Formed(member)) => {
                let size = self.members.len();
                info_line!("fi_join_collective: a group of {size} members uses an aggregation node");
                Ok(Some(*member))
            }
            Ok(RoundResult::Again(forming)) => {
                self.forming = Some(*forming);
                Ok(None)
            }
            Err(reason) => {
                let error = if matches!(reason, FormError::SeveralHosts) { EOPNOTSUPP } else { ENOMEM };
                Err(NoGroup { error, reason: reason.to_string() })
            }
        }
    }
}

impl Working {
    fn carry_on(&mut self, transport: &mut Transport) {
        let Working { queue, running } = self;
        queue.advance();
        running.retain(|one| {
            let Some(outcome) = queue.outcome(one.number) else { return true };
            queue.take(one.number);
            let completion = Completion { context: one.ticket.context, flags: COLLECTIVE, ..Completion::default() };
            match outcome {
                Ok(()) => transport.complete(&one.ticket, Side::Transmit, completion, ADDR_ANY),
                Err(failure) => transport.fail(&one.ticket, Side::Transmit, completion, fault_of(failure)),
            }
            false
        });
    }

    /// Ends operations under way without completions. Afterwards no other member accesses this one's memory.
    fn abandon(&mut self) {
        let Working { queue, running } = self;
        let mut has_failed = false;
        while running.iter().any(|one| queue.outcome(one.number).is_none()) {
            queue.advance();
            if !has_failed {
                queue.engine().fail(Failure::Left);
                has_failed = true;
            }
            std::hint::spin_loop();
        }
    }
}

fn fault_of(failure: Failure) -> Fault {
    match failure {
        Failure::OperationMismatch | Failure::GroupMismatch => Fault::Invalid,
        Failure::NoSuchOperation => Fault::Unsupported,
        Failure::TooLong => Fault::TooLong,
        Failure::NoRoom | Failure::Quota => Fault::NoMemory,
        Failure::Lost => Fault::PeerGone,
        Failure::Left | Failure::Revoked => Fault::Cancelled,
        _ => Fault::Other,
    }
}
