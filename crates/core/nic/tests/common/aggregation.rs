// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Aggregation nodes and members on queues, one for each pair of ends, with any order of arrival between pairs.

use std::collections::{BTreeMap, VecDeque};

pub use selvedge_nic::aggregation::OwnNode;
use selvedge_nic::aggregation::member::{GroupState, Started};
use selvedge_nic::aggregation::message::{Join, Message, Reduction, Sender};
use selvedge_nic::aggregation::records::LEVELS_MAX;
use selvedge_nic::aggregation::{Failure, Limits, Member, Membership, Quota, Refusal, SendId, StartError};
use selvedge_nic::tables::Request;
use selvedge_nic::{Bus, Fault};

/// Checks of a node.
pub trait Inspect {
    /// No record of a group, no use of a quota, no operand is left.
    fn assert_empty(&mut self);
}

impl Inspect for OwnNode {
    fn assert_empty(&mut self) {
        assert!(self.is_empty(), "{:?} {:?}", self.groups, self.operand_map);
        assert!(self.jobs.iter().all(|job| job.groups == 0 && job.credits == 0), "{:?}", self.jobs);
    }
}

/// A member's tables and its memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberHome {
    pub memberships: Vec<Membership>,
    pub started: Vec<Started>,
    pub memory: Vec<u8>,
}

impl MemberHome {
    pub fn new(memberships: usize, credits: usize, memory: usize) -> MemberHome {
        MemberHome {
            memberships: vec![Membership::default(); memberships],
            started: vec![Started::default(); memberships * credits],
            memory: vec![0; memory],
        }
    }

    pub fn member(&mut self) -> Member<'_> {
        Member { memberships: &mut self.memberships, started: &mut self.started }
    }
}

/// The payload of a message, and the memory for a member's results.
pub struct Wire<'a> {
    pub payload: &'a [u8],
    pub memory: &'a mut [u8],
    /// The payload cannot be read.
    pub is_broken: bool,
}

impl Bus for Wire<'_> {
    fn payload(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Fault> {
        let from = self.payload.get(offset as usize..offset as usize + into.len()).ok_or(Fault::Initiator)?;
        if self.is_broken {
            return Err(Fault::Initiator);
        }
        into.copy_from_slice(from);
        Ok(())
    }

    fn put(&mut self, offset: u64, address: u64, bytes: u64) -> Result<(), Fault> {
        let from = self.payload.get(offset as usize..(offset + bytes) as usize).ok_or(Fault::Initiator)?;
        let into =
            self.memory.get_mut(address as usize..address.saturating_add(bytes) as usize).ok_or(Fault::Target)?;
        into.copy_from_slice(from);
        Ok(())
    }
}

/// The address of a node or of a member.
pub const fn node_at(index: usize) -> u64 {
    1 << 32 | index as u64
}
pub const fn member_at(index: usize) -> u64 {
    2 << 32 | index as u64
}

/// The address of a multicast group.
pub const fn group_at(index: usize) -> u64 {
    GROUPS << 32 | index as u64
}
const GROUPS: u64 = 3;

/// Whether a link carries casts to a member: it may lose and reorder.
pub fn is_cast(link: (u64, u64)) -> bool {
    link.0 >> 32 == GROUPS
}

/// Messages under way and their payloads, by source and destination.
pub type Links = BTreeMap<(u64, u64), VecDeque<(Request, Vec<u8>)>>;

/// Nodes and members, and the messages between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub nodes: Vec<OwnNode>,
    pub members: Vec<MemberHome>,
    /// By source and destination. No queue is empty.
    pub links: Links,
    /// Lost ends: messages to them are dropped.
    pub lost: Vec<u64>,
    /// The members of each multicast group.
    pub casts: Vec<Vec<usize>>,
}

impl World {
    pub fn new(nodes: usize, limits: Limits, members: usize, member: MemberHome) -> World {
        World {
            nodes: vec![OwnNode::new(limits); nodes],
            members: vec![member; members],
            links: BTreeMap::new(),
            lost: Vec::new(),
            casts: Vec::new(),
        }
    }

    /// Puts a message on its link.
    pub fn post(&mut self, from: u64, to: u64, request: Request, payload: Vec<u8>) {
        assert_eq!(request.length, payload.len() as u64, "payload length differs from the message's");
        if to >> 32 == GROUPS {
            for member in self.casts[to as u32 as usize].clone() {
                self.post_to_one(to, member_at(member), request, payload.clone());
            }
        } else {
            self.post_to_one(from, to, request, payload);
        }
    }

    fn post_to_one(&mut self, from: u64, to: u64, request: Request, payload: Vec<u8>) {
        if !self.lost.contains(&to) && !self.lost.contains(&from) {
            self.links.entry((from, to)).or_default().push_back((request, payload));
        }
    }

    /// Delivers the oldest message of a link.
    pub fn deliver(&mut self, link: (u64, u64)) {
        let Some(queue) = self.links.get_mut(&link) else { return };
        let Some((request, payload)) = queue.pop_front() else { return };
        if queue.is_empty() {
            self.links.remove(&link);
        }
        let (from, to) = link;
        let (kind, index) = (to >> 32, to as u32 as usize);
        let refusal = if kind == 1 {
            let mut wire = Wire { payload: &payload, memory: &mut [], is_broken: false };
            self.nodes[index].node().receive(&mut wire, &request)
        } else {
            let MemberHome { memberships, started, memory } = &mut self.members[index];
            let mut wire = Wire { payload: &payload, memory, is_broken: false };
            Member { memberships, started }.receive(&mut wire, &request)
        };
        match refusal {
            Ok(()) => {}
            Err(Refusal::Failed(failure)) => self.refused(from, &request, failure),
            Err(other) => panic!("{other:?}: {request:?}"),
        }
    }

    /// Drops the oldest message of a link.
    pub fn drop_one(&mut self, link: (u64, u64)) {
        let Some(queue) = self.links.get_mut(&link) else { return };
        queue.pop_front();
        if queue.is_empty() {
            self.links.remove(&link);
        }
    }

    /// A member re-requests a lost cast result. False: none is lost, or it has asked already.
    pub fn ask_again(&mut self, member: usize, (handle, key, node): (u64, u64, usize)) -> bool {
        let Some(message) = self.members[member].member().repeat(handle) else { return false };
        let sender = Sender { address: member_at(member), key };
        self.post(sender.address, node_at(node), message.encode(sender), Vec::new());
        true
    }

    /// Informs the sender of a refused message. The message names the sender's group.
    fn refused(&mut self, from: u64, request: &Request, failure: Failure) {
        let (sender, message) = Message::decode(request).expect("it was sent");
        let (kind, index) = (from >> 32, from as u32 as usize);
        let handle = match message {
            Message::Join(join) => Some(join.handle),
            // A home keeps the group of a request. Here it is found by the receiver's handle.
            Message::Request(operand) => self.group_below(from, operand.group),
            _ => None,
        };
        let Some(handle) = handle else { return };
        match kind {
            1 => self.nodes[index].node().refused(handle, sender.key, failure),
            _ => self.members[index].member().refused(handle, failure),
        }
    }

    fn group_below(&self, from: u64, above: u64) -> Option<u64> {
        let index = from as u32 as usize;
        if from >> 32 == 1 {
            let at = self.nodes[index]
                .groups
                .iter()
                .position(|group| group.parent_handle == above && group.has_joined != 0)?;
            let group = &self.nodes[index].groups[at];
            return Some(u64::from(group.slot >> 8) << 32 | at as u64);
        }
        let at = self.members[index].memberships.iter().position(|it| it.handle == above && it.slot & 0xff == 2)?;
        Some(u64::from(self.members[index].memberships[at].slot >> 8) << 32 | at as u64)
    }

    /// A node sends one message. False: it has none.
    pub fn pump(&mut self, index: usize) -> bool {
        let Some((id, _)) = self.pump_unfinished(index, 7) else { return false };
        self.nodes[index].node().finish_send(id);
        true
    }

    /// As [`World::pump`], but the send is not reported.
    pub fn pump_unfinished(&mut self, index: usize, executor: u64) -> Option<(SendId, u64)> {
        let own = node_at(index);
        let send = self.nodes[index].node().next_send(executor)?;
        let payload = self.nodes[index].operands[send.payload.clone()].to_vec();
        self.post(own, send.to, send.request(own), payload);
        Some((send.id, send.to))
    }

    /// Nodes that have something to send.
    pub fn nodes_with_sends(&mut self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&index| self.nodes[index].node().has_sends()).collect()
    }

    /// A member joins.
    pub fn join(&mut self, member: usize, node: usize, key: u64, join: &Join) -> u64 {
        let (handle, message) = self.members[member].member().join(node_at(node), key, join).expect("there is room");
        let sender = Sender { address: member_at(member), key };
        self.post(sender.address, node_at(node), message.encode(sender), Vec::new());
        handle
    }

    /// A member starts an operation.
    pub fn start(
        &mut self,
        member: usize,
        (handle, key, node): (u64, u64, usize),
        reduction: &Reduction,
        operand: &[u8],
        result: u64,
    ) -> Result<u64, StartError> {
        let (number, message) = self.members[member].member().start(handle, reduction, result)?;
        let sender = Sender { address: member_at(member), key };
        self.post(sender.address, node_at(node), message.encode(sender), operand.to_vec());
        Ok(number)
    }

    pub fn leave(&mut self, member: usize, handle: u64, key: u64) {
        if let Some((node, message)) = self.members[member].member().leave(handle) {
            let sender = Sender { address: member_at(member), key };
            self.post(sender.address, node, message.encode(sender), Vec::new());
        }
    }

    pub fn state(&mut self, member: usize, handle: u64) -> GroupState {
        self.members[member].member().state(handle).expect("a member")
    }

    /// The manager revokes a job's resources.
    pub fn revoke(&mut self, job: u32, key: u64) {
        self.nodes.iter_mut().for_each(|home| home.node().revoke(job, key, Failure::Revoked));
    }

    /// An end is lost: messages to it and from it are dropped, and the nodes are informed.
    pub fn lose(&mut self, address: u64) {
        self.lost.push(address);
        self.links.retain(|&(from, to), _| from != address && to != address);
        self.nodes.iter_mut().for_each(|home| home.node().lose(address));
    }

    /// Delivers and sends until nothing is left, in one order.
    pub fn settle(&mut self) {
        self.settle_but(&[]);
    }

    /// As [`World::settle`], but the `held` links deliver nothing.
    pub fn settle_but(&mut self, held: &[(u64, u64)]) {
        loop {
            if let Some(&link) = self.links.keys().find(|link| !held.contains(link)) {
                self.deliver(link);
            } else if let Some(&node) = self.nodes_with_sends().first() {
                self.pump(node);
            } else {
                return;
            }
        }
    }
}

/// A quota that no test exceeds.
pub const AMPLE: Quota = Quota { groups: 64, credits: 1024, bytes: 4096 };

/// A join of one member of a group.
pub fn join_of(job: u32, number: u32, order: u32, total: u32, expected: &[u16]) -> Join {
    let mut levels = [0; LEVELS_MAX];
    levels[..expected.len()].copy_from_slice(expected);
    Join {
        job,
        number,
        tree: 0,
        options: 3,
        handle: 0,
        order,
        members: 1,
        total,
        expected: levels,
        credits: 2,
        bytes: 16,
    }
}
