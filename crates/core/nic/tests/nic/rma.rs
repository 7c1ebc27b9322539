// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The RMA unit against a sequential model: three nodes with plain memories, notification queues, locks and counts.
//!
//! 1. Random histories of commands, ports and registrations: each notification, byte, lock and count is the model's.
//! 2. Local memory that is not contiguous is split; remote memory that is not contiguous is written in runs.
//!
//! The model has table 7-2 as printed in the seed, and translates byte by byte.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use crate::common::rma::{FIRST_PAGE, PAGE, Recorder, fresh, limits, pattern, register, take, unregister};
use crate::common::rma_model::*;
use crate::common::{Home, TestBus};
use proptest::prelude::*;
use selvedge_nic::atu::{Access, Rights};
use selvedge_nic::packet::{Packet, Place};
use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::rma::notification::lock_word;
use selvedge_nic::rma::prototype::{self, PrototypeCommand};
use selvedge_nic::rma::{
    Descriptor, DescriptorError, Notification, Operation, RequestError, Requester, code, error, mode, modifier,
    options, spec,
};
use selvedge_nic::tables::{Command, LOCKS, Request};
use selvedge_nic::{Fault, Limits, Nic, Register};

// ---- both side by side ----

struct Node {
    home: Home,
    bus: Recorder,
    model: NodeModel,
}

struct Stage {
    nodes: Vec<Node>,
}

impl Stage {
    fn new(tlb_entries: u32) -> Stage {
        let nodes = (0..NODES as u16).map(|number| {
            let memory = pattern(number.into(), (MEMORY_PAGES * PAGE) as usize);
            let bus = TestBus { memory: memory.clone(), ..TestBus::default() };
            let model = NodeModel {
                number,
                memory,
                pages: [None; NLA_PAGES as usize],
                ports: [None, None],
                locks: BTreeMap::new(),
                counts: BTreeMap::new(),
            };
            let limits: Limits = limits(VPIDS.into(), QUEUE as u32, tlb_entries, 0);
            Node { home: fresh(&limits), bus: Recorder { bus, ..Recorder::default() }, model }
        });
        let mut stage = Stage { nodes: nodes.collect() };
        for node in 0..NODES {
            for vpid in 0..VPIDS {
                stage.run(&Op::Open(node, vpid, if node == 2 { options::PHYSICAL } else { 0 }));
            }
            // Pages 0 to 4 belong to one program: two pairs of them are contiguous.
            for (page, target) in [(0, 0), (1, 1), (2, 4), (3, 2), (4, 3)] {
                stage.run(&Op::Register(node, page, Rights::ReadWrite, 0, target));
            }
        }
        stage
    }

    fn run(&mut self, op: &Op) {
        self.apply(op);
        self.check();
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Open(node, vpid, options) => self.open(*node, *vpid, *options),
            Op::Close(node, vpid) => self.close(*node, *vpid),
            Op::Register(node, page, rights, vpid, place) => {
                let target = FIRST_PAGE + place;
                register(&mut self.nodes[*node].home.nic(), *page, *rights, *vpid, target);
                let model = PageModel { rights: *rights, vpid: *vpid, target };
                self.nodes[*node].model.pages[*page as usize] = Some(model);
            }
            Op::Unregister(node, page) => {
                unregister(&mut self.nodes[*node].home.nic(), *page, 1);
                self.nodes[*node].model.pages[*page as usize] = None;
            }
            Op::Post(post) => self.post(post),
            Op::Take(node, vpid, count) => (0..*count).for_each(|_| _ = self.take(*node, *vpid)),
            Op::Recover(node) => self.nodes[*node].home.nic().notifications().recover(),
        }
    }

    fn open(&mut self, node: usize, vpid: u16, options: u32) {
        let Node { home, model, .. } = &mut self.nodes[node];
        let port = &mut model.ports[usize::from(vpid)];
        if let Ok(id) = home.nic().ports().open(Some(vpid), options) {
            assert!(port.is_none());
            *port = Some(PortModel { id, options, queue: VecDeque::new(), head: 0 });
            let of_port = model.locks.iter_mut().filter(|((of, _), _)| *of == vpid);
            of_port.for_each(|(_, value)| *value = 0);
        }
    }

    fn close(&mut self, node: usize, vpid: u16) {
        let Node { home, model, .. } = &mut self.nodes[node];
        if let Some(Some(port)) = model.ports.get_mut(usize::from(vpid)).map(Option::take) {
            home.nic().ports().close(port.id).expect("it is open");
        }
    }

    fn take(&mut self, node: usize, vpid: u16) -> bool {
        let Node { home, model, .. } = &mut self.nodes[node];
        let Some(port) = &mut model.ports[usize::from(vpid)] else { return false };
        let expected = port.queue.pop_front();
        assert_eq!(take(home, vpid, &mut port.head), expected, "node {node}, port {vpid}");
        expected.is_some()
    }

    fn check(&mut self) {
        for Node { home, bus, model } in &mut self.nodes {
            assert!(bus.bus.memory == model.memory, "memory of node {}", model.number);
            let nic = home.nic();
            for register in COUNTS {
                let expected = model.counts.get(&(register as usize)).copied().unwrap_or(0);
                assert_eq!(nic.signals.registers.get(register), expected, "{register:?} of node {}", model.number);
            }
            for (vpid, port) in model.ports.iter().enumerate() {
                let Some(port) = port else { continue };
                let tail = port.head + port.queue.len() as u64;
                assert_eq!(nic.tables.ports[vpid].notification_tail, tail, "node {}, port {vpid}", model.number);
            }
            for (&(vpid, number), lock) in &model.locks {
                let at = usize::from(vpid) * LOCKS + number as usize;
                assert_eq!(nic.tables.locks[at] as i32, *lock, "lock {number} of node {}, port {vpid}", model.number);
            }
        }
    }

    /// A command as the program stores it, decoded. None: there is no such command.
    fn stored(post: &Post) -> Option<(bool, u32, Descriptor)> {
        if post.prototype {
            let command =
                PrototypeCommand { source_vpid: post.vpid, options: post.options, descriptor: post.descriptor };
            if let Some((address, words)) = prototype::encode(&command) {
                let decoded = prototype::decode(address, &words).expect("it was encoded");
                assert_eq!(decoded.source_vpid, post.vpid);
                return Some((true, decoded.options, decoded.descriptor));
            }
        }
        match Descriptor::decode(&post.descriptor.encode()) {
            Ok(descriptor) => {
                assert_eq!(descriptor, post.descriptor);
                Some((false, post.options, descriptor))
            }
            Err(error) => {
                assert_eq!(error, DescriptorError::Alignment);
                None
            }
        }
    }

    fn post(&mut self, post: &Post) {
        let Some((prototype, options, descriptor)) = Stage::stored(post) else { return };
        let model = Expectation::new(&mut self.nodes, post, prototype, options, &descriptor);
        let from = Requester { node: post.from as u16, vpid: post.vpid, options, prototype, target: 7, uid: 4 };
        let node = &mut self.nodes[post.from];
        let made = node.home.nic().rma().request(&mut node.bus, &from, &descriptor);
        let (command, model) = match (made, model) {
            (Ok(command), Ok(model)) => (command, model),
            (made, model) => return assert_eq!(made.err(), model.err(), "{post:?}"),
        };
        assert_eq!((command.target, command.uid, command.destination_node()), (7, 4, descriptor.node));
        if let Meanwhile::Close = post.meanwhile {
            self.close(post.to, descriptor.vpid.into());
        }
        let expected = model.arrive(&mut self.nodes);
        let delivery = self.carry(post, &command);
        assert_eq!(delivery.fail, expected, "{post:?}");
        // For a get, its own page, so that the reply meets the change.
        let moved = |page| match descriptor.operation {
            Operation::Get { write, .. } if write / PAGE < NLA_PAGES => write / PAGE,
            _ => page,
        };
        match post.meanwhile {
            Meanwhile::Move(page, None) => self.apply(&Op::Unregister(post.from, moved(page))),
            Meanwhile::Move(page, Some(place)) => {
                self.apply(&Op::Register(post.from, moved(page), Rights::ReadWrite, post.vpid, place));
            }
            _ => {}
        }
        model.end(&mut self.nodes, expected);
        self.end(post.from, &command, delivery);
    }

    /// Carries a command to its target, as a home does.
    fn carry(&mut self, post: &Post, command: &Command) -> Delivery {
        let source = &self.nodes[post.from];
        let place = source.model.place(command.source.start, command.length).filter(|_| command.has_payload());
        let payload = place.map_or(Vec::new(), |range| source.bus.bus.memory[range].to_vec());
        let request = if post.packet { through_packet(&command.request) } else { command.request };
        let target = &mut self.nodes[post.to];
        (target.bus.bus.payload, target.bus.bus.mapped) = (payload, post.mapped);
        target.bus.bus.reply.clear();
        match target.home.nic().deliver(&mut target.bus, &request) {
            Verdict::Done(delivery) => delivery,
            Verdict::Initiator(Fault::Initiator) => Delivery::failed(fail::SEGV),
            other => panic!("{other:?}"),
        }
    }

    /// Ends a command at its initiator, as a home does. The reply lies in the bus of the target.
    fn end(&mut self, from: usize, command: &Command, mut delivery: Delivery) {
        let to = usize::from(command.destination_node());
        let reply = std::mem::take(&mut self.nodes[to].bus.bus.reply);
        let node = &mut self.nodes[from];
        let mut nic: Nic<'_> = node.home.nic();
        if command.has_reply() && delivery.fail == fail::OK {
            let place = node.model.place(command.sink.start, command.length);
            match place.filter(|_| nic.admits_reply(&mut node.bus, command)) {
                Some(range) => node.bus.bus.memory[range].copy_from_slice(&reply),
                None => (delivery.fail, delivery.mlength) = (fail::SEGV, 0),
            }
        }
        nic.complete_send(command, fail::OK);
        if command.wants_response() && (command.is_answered(&delivery) || delivery.fail == fail::OK) {
            nic.complete_response(command, &delivery);
        }
    }
}

/// The request after encoding and decoding as a packet.
fn through_packet(request: &Request) -> Request {
    let packet = Packet {
        kind: request.kind,
        fail: 0,
        operation: request.operation,
        datatype: request.datatype,
        ack: request.ack,
        place: Place::Inline,
        portal: request.portal,
        uid: request.uid,
        initiator: request.initiator,
        origin: 1,
        token: 2,
        match_bits: request.match_bits,
        remote_offset: request.remote_offset,
        header_data: request.header_data,
        length: request.length,
        operand: request.operand,
        payload_bytes: 3,
        sender: 4,
    };
    let arrived = Packet::decode(&packet.encode(true)).expect("it is a packet");
    let arrived = Request::from(&arrived);
    // The source's look-ups are useless at the target.
    assert_eq!(arrived, Request { lookups: 0, ..*request }, "the format loses nothing");
    arrived
}

// ---- what a command does in the model ----

/// A command that the model's requester has accepted.
struct Expectation {
    from: usize,
    to: usize,
    vpid: u16,
    descriptor: Descriptor,
    written: u8,
    physical: bool,
    /// The place of a put's source, or of a get's destination.
    local: u64,
    /// The notification of the initiator and of the target, without unit and code.
    here: Notification,
    there: Notification,
    /// The answer of a lock, and the bytes of a get.
    answer: Cell<u64>,
    read: RefCell<Vec<u8>>,
}

impl Expectation {
    fn new(
        nodes: &mut [Node],
        post: &Post,
        prototype: bool,
        connection: u32,
        descriptor: &Descriptor,
    ) -> Result<Expectation, RequestError> {
        let model = &mut nodes[post.from].model;
        let permitted = model.port(post.vpid).ok_or(RequestError::Closed)?.options;
        let has = |option: u32| connection & permitted & option != 0;
        let is = |modifier: u8| descriptor.modifiers & modifier != 0;
        let physical = connection & options::TE == 0 && permitted & options::PHYSICAL != 0;
        let modes = [
            (has(options::RRA), mode::RRA),
            (has(options::IRQ), mode::IRQ),
            (!physical, mode::TE),
            (is(modifier::EWA), mode::EWA),
            (is(modifier::NTR), mode::NTR),
            (is(modifier::ERA), mode::ERA),
        ];
        let mode = modes.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum();
        // The address in each side's notification (its own), or the value.
        let (here, there, size) = match descriptor.operation {
            Operation::Put { read, write, bytes } => (read, write, bytes - 1),
            Operation::Get { read, write, bytes } => (write, read, bytes - 1),
            Operation::ImmediatePut { write, bytes, .. } => (write, write, bytes - 1),
            Operation::NotificationPut { value, class } => (value, value, class.into()),
            Operation::Lock { number, compare, .. } => (lock_word(compare, false, number), number.into(), 0),
        };
        let side = |word0, node, vpid| Notification { word0, size, node, vpid, mode, ..Notification::default() };
        let mut expectation = Expectation {
            from: post.from,
            to: post.to,
            vpid: post.vpid,
            descriptor: *descriptor,
            written: written(prototype, descriptor),
            physical,
            local: 0,
            here: side(here, descriptor.node, descriptor.vpid),
            there: side(there, post.from as u16, post.vpid as u8),
            answer: Cell::new(0),
            read: RefCell::default(),
        };
        if is(modifier::MC) || is(modifier::ERA) || is(modifier::EWA) || connection & options::RRA != 0 {
            expectation.error(model, error::REQUESTER);
            return Err(RequestError::Refused);
        }
        let (address, bytes, access) = match descriptor.operation {
            Operation::Put { read, bytes, .. } => (read, bytes, Access::Read),
            Operation::Get { write, bytes, .. } => (write, bytes, Access::Write),
            Operation::Lock { .. } => {
                expectation.sent(model);
                return Ok(expectation);
            }
            _ => {
                model.count(Register::RequesterPuts, 1);
                expectation.sent(model);
                return Ok(expectation);
            }
        };
        // The longest prefix of the range that is one run.
        let whole = |bytes: u64| {
            let ask = Ask { vpid: post.vpid, physical, address, bytes, access };
            model.runs(&ask).ok().filter(|runs| runs.len() == 1).map(|runs| runs[0].0)
        };
        let in_page = PAGE - address % PAGE;
        let lengths = (0..=NLA_PAGES).map(|pages| in_page + pages * PAGE).chain([bytes.into()]);
        let longest = lengths.filter(|&length| length <= bytes.into() && whole(length).is_some()).max();
        let longest =
            longest.or(if u64::from(bytes) < in_page { whole(bytes.into()).map(|_| bytes.into()) } else { None });
        match longest {
            None => {
                expectation.error(model, error::REQUESTER);
                return Err(RequestError::Refused);
            }
            Some(length) if length < bytes.into() => {
                let ask = Ask { vpid: post.vpid, physical, address, bytes: bytes.into(), access };
                if model.runs(&ask).is_err() {
                    expectation.error(model, error::REQUESTER);
                    return Err(RequestError::Refused);
                }
                return Err(RequestError::Cut(length as u32));
            }
            Some(_) => expectation.local = whole(bytes.into()).expect("it is"),
        }
        let is_put = access == Access::Read;
        model.count(if is_put { Register::RequesterPuts } else { Register::RequesterGets }, 1);
        if !is_put {
            expectation.sent(model);
        }
        Ok(expectation)
    }

    fn sent(&self, initiator: &mut NodeModel) {
        if self.written & spec::REQUESTER != 0 {
            let sent = Notification { unit: spec::REQUESTER, code: self.descriptor.code, ..self.here };
            initiator.notify(self.vpid, sent);
        }
    }

    fn error(&self, initiator: &mut NodeModel, unit: u8) {
        let notification = Notification { unit: spec::REQUESTER, code: self.descriptor.code, error: unit, ..self.here };
        initiator.notify(self.vpid, notification);
    }

    /// The target's part. Returns the outcome.
    fn arrive(&self, nodes: &mut [Node]) -> u8 {
        let vpid = self.descriptor.vpid.into();
        let payload = match self.descriptor.operation {
            Operation::Put { bytes, .. } => {
                let source = &nodes[self.from].model;
                source.place(self.local, bytes.into()).map(|range| source.memory[range].to_vec())
            }
            Operation::ImmediatePut { value, bytes, .. } => Some(value.to_le_bytes()[..bytes as usize].to_vec()),
            _ => None,
        };
        let target = &mut nodes[self.to].model;
        let Some(port) = target.port(vpid) else { return fail::UNDELIVERABLE };
        let may = !self.physical || port.options & options::PHYSICAL != 0;
        let ask =
            |address, bytes: u32, access| Ask { vpid, physical: self.physical, address, bytes: bytes.into(), access };
        let moved = match self.descriptor.operation {
            Operation::Put { write, bytes, .. } | Operation::ImmediatePut { write, bytes, .. } => {
                let runs = if may { target.runs(&ask(write, bytes, Access::Write)) } else { Err(Refused::Translation) };
                let is_lost = payload.is_none() && runs.is_ok();
                if is_lost {
                    return fail::SEGV;
                }
                runs.and_then(|runs| write_runs(target, &runs, &payload.unwrap_or_default()))
            }
            Operation::Get { read, bytes, .. } => {
                let runs = if may { target.runs(&ask(read, bytes, Access::Read)) } else { Err(Refused::Translation) };
                runs.and_then(|runs| {
                    for (address, bytes) in runs {
                        let place = target.place(address, bytes).ok_or(Refused::Memory)?;
                        self.read.borrow_mut().extend_from_slice(&target.memory[place]);
                    }
                    Ok(())
                })
            }
            Operation::NotificationPut { .. } => Ok(()),
            Operation::Lock { number, compare, add } => return self.lock(target, vpid, number, compare, add),
        };
        if moved.is_err() {
            target.count(Register::Segv, 1);
            return fail::SEGV;
        }
        let bytes = match self.descriptor.operation {
            Operation::NotificationPut { .. } => 0,
            _ => u64::from(self.there.size) + 1,
        };
        let (unit, register, flow) = match self.descriptor.operation {
            Operation::Get { .. } => (spec::RESPONDER, Register::ResponderGets, Register::BytesOut),
            _ => (spec::COMPLETER, Register::CompleterPuts, Register::BytesIn),
        };
        target.count(register, 1);
        target.count(flow, bytes);
        if self.written & unit != 0 {
            target.notify(vpid, Notification { unit, code: self.descriptor.code, ..self.there });
        }
        fail::OK
    }

    fn lock(&self, target: &mut NodeModel, vpid: u16, number: u32, compare: i32, add: i32) -> u8 {
        if number >= LOCKS as u32 {
            return fail::SEGV;
        }
        let lock = target.locks.entry((vpid, number)).or_default();
        let success = *lock <= compare;
        if success {
            *lock = lock.wrapping_add(add);
        }
        let word0 = lock_word(*lock, success, number);
        self.answer.set(word0);
        target.count(Register::ResponderLocks, 1);
        if self.written & spec::RESPONDER != 0 {
            target.notify(vpid, Notification { unit: spec::RESPONDER, code: code::LOCK_REQ, word0, ..self.there });
        }
        fail::OK
    }

    /// The initiator's part at the end.
    fn end(&self, nodes: &mut [Node], outcome: u8) {
        if matches!(self.descriptor.operation, Operation::Put { .. }) {
            self.sent(&mut nodes[self.from].model);
        }
        let response = |code: u8| Notification { unit: spec::COMPLETER, code, ..self.here };
        let asks = self.written & spec::COMPLETER != 0;
        match self.descriptor.operation {
            Operation::Get { write, bytes, .. } => {
                let reply = if outcome == fail::OK { self.reply(nodes, write, bytes) } else { None };
                let initiator = &mut nodes[self.from].model;
                let Some((place, reply)) = reply else { return self.error(initiator, error::RESPONDER) };
                initiator.memory[place].copy_from_slice(&reply);
                initiator.count(Register::CompleterGets, 1);
                initiator.count(Register::BytesIn, bytes.into());
                if asks {
                    let is_words = self.descriptor.code == code::QW_GET;
                    initiator.notify(self.vpid, response(if is_words { code::GET_QW_RSP } else { code::GET_BT_RSP }));
                }
            }
            _ if outcome != fail::OK => {
                let is_lock = matches!(self.descriptor.operation, Operation::Lock { .. });
                let unit = if is_lock { error::RESPONDER } else { error::COMPLETER };
                self.error(&mut nodes[self.from].model, unit);
            }
            Operation::Lock { .. } if asks => {
                let answer = Notification { word0: self.answer.get(), ..response(code::LOCK_RSP) };
                nodes[self.from].model.notify(self.vpid, answer);
            }
            _ => {}
        }
    }

    /// The reply of a get that the target has answered, if its destination is unchanged since the start.
    fn reply(&self, nodes: &[Node], write: u64, bytes: u32) -> Option<(std::ops::Range<usize>, Vec<u8>)> {
        let initiator = &nodes[self.from].model;
        let access = Access::Write;
        let ask = Ask { vpid: self.vpid, physical: self.physical, address: write, bytes: bytes.into(), access };
        let runs = initiator.runs(&ask).ok()?;
        let is_same = runs == [(self.local, u64::from(bytes))];
        let place = initiator.place(self.local, bytes.into()).filter(|_| is_same)?;
        Some((place, self.read.borrow().clone()))
    }
}

/// Writes runs as far as the memory is mapped: a run is written whole or not at all.
fn write_runs(target: &mut NodeModel, runs: &[(u64, u64)], payload: &[u8]) -> Result<(), Refused> {
    let mut at = 0;
    for &(address, bytes) in runs {
        let range = target.place(address, bytes).ok_or(Refused::Memory)?;
        target.memory[range].copy_from_slice(&payload[at..at + bytes as usize]);
        at += bytes as usize;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn histories_are_those_of_the_model(ops in prop::collection::vec(op(), 1..60), tlb in 0..3u32) {
        let mut stage = Stage::new([0, 1, 4][tlb as usize]);
        ops.iter().for_each(|op| stage.run(op));
        for node in 0..NODES {
            for vpid in 0..VPIDS {
                while stage.take(node, vpid) {}
            }
            let Node { home, model, .. } = &mut stage.nodes[node];
            let used = home.nic().tables.locks.iter().filter(|lock| **lock != 0).count();
            prop_assert_eq!(used, model.locks.values().filter(|lock| **lock != 0).count(), "other locks have changed");
        }
    }
}
