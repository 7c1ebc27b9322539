// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process of a job: its share, its links, and its memberships in vectors. It exchanges messages as a home does.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use selvedge_collectives::service::session::{ShareSession, request_share};
use selvedge_fabric::NodeId;
use selvedge_net::{LinkAddress, Links, NicName, PeerId, ProgressCaller, SendError, SendTiming, Sink, Source};
use selvedge_nic::aggregation::member::{GroupState, Started};
use selvedge_nic::aggregation::message::{Reduction, Sender};
use selvedge_nic::aggregation::{Failure, Member, Membership, Message, StartError};
use selvedge_nic::packet::{HEADER_BYTES, Packet, Place};
use selvedge_nic::tables::Request;
use selvedge_nic::{Bus, Fault};
use selvedge_process::settings::ManagerAt;

use super::oracle::{self, KINDS};
use super::{Choices, NI, SOON, link_settings};

/// Memberships of a process, and operations of each under way.
const GROUPS: usize = 32;
const CREDITS: usize = 8;
const BYTES: usize = 4096;

/// A process of a job. Dropping it ends its links and its share.
pub struct Process {
    pub session: ShareSession,
    pub pid: u32,
    pub node: NodeId,
    pub links: Arc<Links>,
    inside: Arc<Inside>,
}

#[derive(Default)]
struct Inside {
    links: OnceLock<BTreeMap<PeerId, u64>>,
    tables: Mutex<Tables>,
    changed: Condvar,
}

struct Tables {
    memberships: Vec<Membership>,
    started: Vec<Started>,
    memory: Vec<u8>,
    /// Number of messages from nodes that were for no member.
    refused: u64,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables {
            memberships: vec![Membership::default(); GROUPS],
            started: vec![Started::default(); GROUPS * CREDITS],
            memory: vec![0; GROUPS * CREDITS * BYTES],
            refused: 0,
        }
    }
}

impl Tables {
    fn member(&mut self) -> Member<'_> {
        Member { memberships: &mut self.memberships, started: &mut self.started }
    }
}

/// The payload of a message, and the results of the process.
struct Memory<'a>(&'a [u8], &'a mut [u8]);

impl Bus for Memory<'_> {
    fn put(&mut self, offset: u64, address: u64, bytes: u64) -> Result<(), Fault> {
        let from = self.0.get(offset as usize..(offset + bytes) as usize).ok_or(Fault::Initiator)?;
        self.1.get_mut(address as usize..(address + bytes) as usize).ok_or(Fault::Target)?.copy_from_slice(from);
        Ok(())
    }
}

impl Inside {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("no panic")
    }

    fn node(&self, peer: PeerId) -> Option<u64> {
        self.links.get()?.get(&peer).copied()
    }
}

impl Sink for Inside {
    fn packet(&self, from: PeerId, _: NicName, packet: &[u8; HEADER_BYTES], payload: &[u8], _: ProgressCaller) {
        let packet = Packet::decode(packet).expect("a node sends packets");
        let mut tables = self.lock();
        let Tables { memberships, started, memory, refused } = &mut *tables;
        let request = Request { initiator: self.node(from).unwrap_or(0), ..Request::from(&packet) };
        let mut member = Member { memberships, started };
        if member.receive(&mut Memory(payload, memory), &request).is_err() {
            *refused += 1;
        }
        self.changed.notify_all();
    }

    fn payload_max(&self, _: PeerId, _: NicName, _: &[u8; HEADER_BYTES]) -> u64 {
        BYTES as u64
    }

    fn lost(&self, peer: PeerId) {
        if let Some(node) = self.node(peer) {
            self.lock().member().lose(node);
            self.changed.notify_all();
        }
    }
}

/// The packet of a request.
pub fn packet_of(request: &Request, pid: u32, payload: &[u8]) -> Packet {
    Packet { origin: pid.into(), payload_bytes: payload.len() as u64, ..Packet::from(request) }
}

/// Sends a packet to a peer, retrying while its link is full.
pub fn send(links: &Links, peer: PeerId, pid: u32, packet: &Packet, payload: &[u8]) -> Result<(), SendError> {
    let since = Instant::now();
    loop {
        let to = NicName { pid, ni: NI };
        match links.send(peer, to, &packet.encode(false), Source::Taken(&mut payload.to_vec()), SendTiming::Now) {
            Err(SendError::Full) if since.elapsed() < SOON => std::thread::yield_now(),
            other => return other,
        }
    }
}

impl Process {
    /// Asks for a share as a process of the first of these places. The others are hosts of the job, too.
    pub fn new(manager: &ManagerAt, job: [u64; 2], places: &[u64], pid: u32) -> Result<Process, String> {
        let session = request_share(manager, job, places)?;
        let inside = Arc::new(Inside::default());
        let links = Links::open(link_settings(), inside.clone()).map_err(|error| error.to_string())?;
        let peers = session.links.iter().map(|&(address, link)| (links.peer(link), address)).collect();
        inside.links.set(peers).expect("once");
        let known = session.hosts.iter().find(|host| host.0 == places[0]);
        let node = NodeId(known.ok_or("its host is not among the job's")?.1);
        Ok(Process { session, pid, node, links, inside })
    }

    pub fn link_of(&self, address: u64) -> LinkAddress {
        self.session.links.iter().find(|link| link.0 == address).expect("it is there").1
    }

    /// Sends a message to a node.
    pub fn send(&self, to: u64, key: u64, message: &Message, payload: &[u8]) {
        let packet = packet_of(&message.encode(Sender { address: 0, key }), self.pid, payload);
        self.send_packet(to, &packet, payload);
    }

    pub fn send_packet(&self, to: u64, packet: &Packet, payload: &[u8]) {
        let link = self.session.links.iter().find(|link| link.0 == to).map(|link| self.links.peer(link.1));
        if link.is_none_or(|peer| send(&self.links, peer, self.pid, packet, payload).is_err()) {
            self.inside.lock().member().lose(to);
        }
    }

    /// Joins a group of members on these end nodes as the member `order`.
    pub fn join(&self, number: u32, order: usize, nodes: &[NodeId]) -> u64 {
        let (to, join) = self.session.granted.join(number, order, nodes).expect("a tree of the job");
        let key = self.session.granted.key;
        let (handle, message) = self.inside.lock().member().join(to, key, &join).expect("room for a membership");
        self.send(to, key, &message, &[]);
        handle
    }

    pub fn state(&self, handle: u64) -> Option<GroupState> {
        self.inside.lock().member().state(handle)
    }

    /// The record of a membership.
    pub fn membership(&self, handle: u64) -> Membership {
        self.inside.lock().memberships[handle as u32 as usize]
    }

    /// Number of messages from nodes that this process did not take.
    pub fn refused(&self) -> u64 {
        self.inside.lock().refused
    }

    /// Waits for an answer to a join. Returns credits and bytes.
    pub fn wait_ready(&self, handle: u64) -> Result<(u32, u32), Failure> {
        self.wait_for("the answer to a join", |tables| match tables.member().state(handle).expect("a membership") {
            GroupState::Joining => None,
            GroupState::Ready { credits, bytes } => Some(Ok((credits, bytes))),
            GroupState::Failed(failure) => Some(Err(failure)),
        })
    }

    /// Waits for the end of a group.
    pub fn wait_failed(&self, handle: u64) -> Failure {
        self.wait_for("the end of a group", |tables| match tables.member().state(handle).expect("a membership") {
            GroupState::Failed(failure) => Some(failure),
            _ => None,
        })
    }

    fn wait_for<T>(&self, what: &str, mut found: impl FnMut(&mut Tables) -> Option<T>) -> T {
        let since = Instant::now();
        let mut tables = self.inside.lock();
        loop {
            if let Some(found) = found(&mut tables) {
                return found;
            }
            let left = SOON.saturating_sub(since.elapsed());
            assert!(!left.is_zero(), "process {} waits too long for {what}", self.pid);
            tables = self.inside.changed.wait_timeout(tables, left).expect("no panic").0;
        }
    }

    /// Starts an operation. Returns its number.
    pub fn start(&self, handle: u64, reduction: &Reduction, operand: &[u8]) -> Result<u64, StartError> {
        let mut tables = self.inside.lock();
        let index = handle as u32 as usize;
        let Membership { next, node, key, .. } = tables.memberships[index];
        let result = result_at(index, next);
        let (number, message) = tables.member().start(handle, reduction, result as u64)?;
        drop(tables);
        self.send(node, key, &message, operand);
        Ok(number)
    }

    /// Waits for the result of an operation.
    pub fn wait(&self, handle: u64, number: u64, bytes: usize) -> Result<Vec<u8>, Failure> {
        self.wait_for("a result", |tables| {
            let taken = tables.member().take(handle, number)?;
            let at = result_at(handle as u32 as usize, number);
            Some(taken.map(|()| tables.memory[at..at + bytes].to_vec()))
        })
    }

    /// Leaves a group.
    pub fn leave(&self, handle: u64) {
        let mut tables = self.inside.lock();
        let key = tables.memberships[handle as u32 as usize].key;
        let left = tables.member().leave(handle);
        drop(tables);
        if let Some((to, message)) = left {
            self.send(to, key, &message, &[]);
        }
    }

    /// Runs `count` operations with as many under way as it has credits, and compares each result with the oracle's.
    /// `seed` is the same at all members. Ends with the first failure.
    pub fn operate(&self, handle: u64, order: usize, nodes: &[NodeId], seed: u64, count: u64) -> Result<(), Failure> {
        let (credits, _) = self.wait_ready(handle)?;
        let tree = &self.session.granted.trees[0];
        let mut under_way: std::collections::VecDeque<(u64, Vec<u8>)> = Default::default();
        let mut choices = Choices(seed);
        let take = |(number, expected): (u64, Vec<u8>)| {
            let result = self.wait(handle, number, expected.len())?;
            assert!(result == expected, "process {}, operation {number}: {result:?} instead of {expected:?}", self.pid);
            Ok(())
        };
        for _ in 0..count {
            let (operation, datatype, size) = KINDS[choices.below(KINDS.len() as u64) as usize];
            let end = [2, 20, 500][choices.below(3) as usize];
            let elements = choices.below(end) as usize;
            let operands: Vec<Vec<u8>> =
                nodes.iter().map(|_| oracle::operand(&mut choices, datatype, elements)).collect();
            let expected = oracle::result(tree, nodes, (operation, datatype), &operands);
            if under_way.len() == credits as usize {
                take(under_way.pop_front().expect("there are credits"))?;
            }
            let reduction = Reduction::of_values(operation, datatype, (elements * size) as u32);
            match self.start(handle, &reduction, &operands[order]) {
                Ok(number) => under_way.push_back((number, expected)),
                Err(StartError::Failed(failure)) => return Err(failure),
                Err(error) => panic!("an operation did not start: {error:?}"),
            }
        }
        under_way.into_iter().try_for_each(take)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.links.close();
    }
}

fn result_at(index: usize, number: u64) -> usize {
    (index * CREDITS + number as usize % CREDITS) * BYTES
}

/// The processes of a job.
pub struct Job {
    pub name: [u64; 2],
    pub processes: Vec<Process>,
}

impl Job {
    /// Starts a process at each of these places. A place may occur several times.
    pub fn begin(manager: &ManagerAt, name: u64, places: &[u64]) -> Result<Job, String> {
        let name = [name, !name];
        let process = |(nth, &place): (usize, &u64)| {
            let others = places.iter().copied().filter(|&other| other != place);
            let places: Vec<u64> = std::iter::once(place).chain(others).collect();
            Process::new(manager, name, &places, 1000 + nth as u32)
        };
        Ok(Job { name, processes: places.iter().enumerate().map(process).collect::<Result<_, _>>()? })
    }

    pub fn nodes(&self) -> Vec<NodeId> {
        self.processes.iter().map(|process| process.node).collect()
    }

    /// Lets all processes join a group. The error is the first failure; then all have left.
    pub fn group(&self, number: u32) -> Result<Vec<u64>, Failure> {
        let nodes = self.nodes();
        let processes = self.processes.iter().enumerate();
        let handles: Vec<u64> = processes.map(|(order, process)| process.join(number, order, &nodes)).collect();
        // No node tells members that have joined of a refused join. The job does (docs/design/aggregation.md).
        let since = Instant::now();
        loop {
            let states: Vec<GroupState> =
                self.processes.iter().zip(&handles).filter_map(|(process, &handle)| process.state(handle)).collect();
            let failed = states.iter().find_map(|state| match state {
                GroupState::Failed(failure) => Some(*failure),
                _ => None,
            });
            if let Some(failure) = failed {
                self.leave(&handles);
                return Err(failure);
            }
            if states.iter().all(|state| matches!(state, GroupState::Ready { .. })) {
                return Ok(handles);
            }
            assert!(since.elapsed() < SOON, "group {number} does not form: {states:?}");
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }

    pub fn leave(&self, handles: &[u64]) {
        self.processes.iter().zip(handles).for_each(|(process, &handle)| process.leave(handle));
    }

    /// Runs operations at all members at once. Returns how each ended.
    pub fn operate(&self, handles: &[u64], seed: u64, count: u64) -> Vec<Result<(), Failure>> {
        let nodes = self.nodes();
        std::thread::scope(|scope| {
            let operate = |(order, &handle): (usize, &u64)| {
                let (process, nodes) = (&self.processes[order], &nodes);
                scope.spawn(move || process.operate(handle, order, nodes, seed, count))
            };
            let threads: Vec<_> = handles.iter().enumerate().map(operate).collect();
            threads.into_iter().map(|thread| thread.join().expect("no member panics")).collect()
        })
    }

    /// Forms a group, runs operations, and ends it, all without a failure.
    pub fn works(&self, number: u32, seed: u64, count: u64) {
        let handles = self.group(number).unwrap_or_else(|failure| panic!("group {number} does not form: {failure}"));
        for (order, ended) in self.operate(&handles, seed, count).into_iter().enumerate() {
            assert_eq!(ended, Ok(()), "member {order} of group {number}");
        }
        self.leave(&handles);
    }
}
