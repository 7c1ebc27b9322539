// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VELO unit against a plain queue for each port.
//!
//! 1. Random histories of sends, takes, options, opening and closing: each result, and each message, is the model's.
//! 2. A hostile program harms its own port and no other; nothing panics, and each take makes progress.
//! 3. Wherever the completer dies, after recovery its message is whole or absent, and all others arrive once, in order.
//! 4. Messages split at any points arrive whole through requester, completer, mailbox and reassembly.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;

use crate::common::{Died, Home, TestBus};
use proptest::prelude::*;
use selvedge_nic::tables::blocked;
use selvedge_nic::velo::header::SLOT_BYTES;
use selvedge_nic::velo::{
    Endpoint, Extent, Mailbox, Page, PortError, PortId, Reassembler, Received, RequesterAddress, Status, Store,
    VeloMessage, options,
};
use selvedge_nic::{Fault, Limits, Nic, Register};

fn limits(vpids: u32, mailbox_slots: u32, velo_bytes: u32) -> Limits {
    let limits = Limits { vpids, mailbox_slots, velo_bytes, notifications: 2, ..Limits::NONE };
    assert!(limits.are_sane());
    limits
}

fn status(source: u16, tag: u8, extent: Extent) -> Status {
    Status { source: Endpoint { node: source, vpid: source % 7 }, extent, mtt: tag % 4, tag, error: false }
}

/// Bytes that identify their message. None is zero.
fn payload(seed: u8, bytes: u32) -> Vec<u8> {
    (0..bytes).map(|at| seed.wrapping_mul(31).wrapping_add(at as u8) | 1).collect()
}

/// A port as seen by its program and its senders.
#[derive(Clone)]
struct PortModel {
    queue: VecDeque<(Status, Vec<u8>)>,
    id: PortId,
    options: u32,
    reader: Mailbox,
    tail: u64,
    head: u64,
    published: u64,
    discarded: u64,
}

#[derive(Clone)]
struct Stage {
    home: Home,
    bus: TestBus,
    ports: Vec<Option<PortModel>>,
    publish_every: u32,
    received: u64,
    discarded: u64,
}

const OPTIONS: [u32; 4] = [0, options::REFUSE, options::INTERRUPT | 0xffff, options::REFUSE | options::INTERRUPT];

impl Stage {
    fn new(limits: &Limits, publish_every: u32) -> Stage {
        let mut stage = Stage {
            home: Home::new(limits),
            bus: TestBus::default(),
            ports: vec![None; limits.vpids as usize],
            publish_every,
            received: 0,
            discarded: 0,
        };
        for vpid in 0..limits.vpids as u16 {
            stage.open(vpid, OPTIONS[usize::from(vpid) % 4]);
        }
        stage
    }

    fn slots(&self) -> u64 {
        self.home.layout.limits.mailbox_slots.into()
    }

    fn open(&mut self, vpid: u16, options: u32) {
        let mut nic = self.home.nic();
        let opened = nic.ports().open(Some(vpid), options);
        if self.ports[usize::from(vpid)].is_some() {
            assert_eq!(opened, Err(PortError::AllUsed));
            return;
        }
        let id = opened.expect("it is free");
        let reader = Mailbox::new(&nic.signals, vpid, self.publish_every).expect("it exists");
        self.ports[usize::from(vpid)] = Some(PortModel {
            queue: VecDeque::new(),
            id,
            options,
            reader,
            tail: 0,
            head: 0,
            published: 0,
            discarded: 0,
        });
    }

    fn close(&mut self, vpid: u16) {
        if let Some(port) = self.ports[usize::from(vpid)].take() {
            let mut nic = self.home.nic();
            assert_eq!(nic.ports().close(port.id), Ok(()));
            assert_eq!(nic.ports().close(port.id), Err(PortError::NotOpen));
            assert_eq!(nic.ports().set_options(port.id, 0), Err(PortError::NotOpen));
        }
    }

    fn expected(&self, message: &VeloMessage) -> Received {
        let extent = message.status.extent;
        let is_padded = message.bytes.checked_next_multiple_of(8) == Some(extent.bytes());
        if extent.message_bytes() > self.home.layout.limits.velo_bytes || !is_padded {
            return Received::Malformed;
        }
        let Some(Some(port)) = self.ports.get(usize::from(message.vpid)) else { return Received::NotOpen };
        let is_enabled = port.options & options::MAILBOX_DISABLED == 0;
        let used = port.tail - port.published + u64::from(extent.bytes().div_ceil(SLOT_BYTES));
        match is_enabled && used <= self.slots() {
            true => Received::Written { interrupt: port.options & options::INTERRUPT != 0 },
            false if port.options & options::REFUSE != 0 => Received::Full,
            false => Received::Discarded,
        }
    }

    fn send(&mut self, message: &VeloMessage) -> Received {
        let seed = message.status.tag;
        // A malformed message may claim any length.
        self.bus.payload = payload(seed, message.bytes.min(1 << 10));
        let expected = self.expected(message);
        let before = matches!(expected, Received::Full | Received::Malformed).then(|| self.home.memory.clone());
        assert_eq!(self.home.nic().velo().receive(&mut self.bus, message), expected);
        if let Some(before) = before {
            assert!(self.home.memory == before, "a refused message has changed something");
        }
        self.expect(message, expected);
        expected
    }

    /// The model's part of a send.
    fn expect(&mut self, message: &VeloMessage, received: Received) {
        let port = self.ports.get_mut(usize::from(message.vpid)).and_then(Option::as_mut);
        let extent = message.status.extent;
        match (received, port) {
            (Received::Written { .. }, Some(port)) => {
                let mut bytes = payload(message.status.tag, message.bytes);
                bytes.resize(extent.bytes() as usize, 0);
                port.queue.push_back((message.status, bytes));
                port.tail += u64::from(extent.bytes().div_ceil(SLOT_BYTES));
                self.received += 1;
            }
            (Received::Discarded, Some(port)) => {
                port.discarded += 1;
                self.discarded += 1;
            }
            (Received::NotOpen, _) => self.discarded += 1,
            _ => {}
        }
    }

    /// Takes a message into memory of `room` bytes. False: no message.
    fn take(&mut self, vpid: u16, room: usize) -> bool {
        let quarter = (self.slots() / 4).max(1);
        let Some(port) = &mut self.ports[usize::from(vpid)] else { return false };
        let signals = self.home.nic().signals;
        let mut into = vec![0xee; room];
        assert_eq!(port.reader.peek(&signals), Ok(port.queue.front().map(|(status, _)| *status)));
        let taken = port.reader.take(&signals, &mut into).expect("well-formed");
        let Some((status, bytes)) = port.queue.pop_front() else {
            assert_eq!(taken, None);
            return false;
        };
        assert_eq!(taken, Some((status, bytes.len().min(room))));
        let copied = bytes.len().min(room);
        assert_eq!(into[..copied], bytes[..copied]);
        assert!(into[copied..].iter().all(|&byte| byte == 0xee), "bytes behind the message");
        port.head += u64::from(status.extent.slots());
        assert_eq!(port.reader.head(), port.head);
        if port.head - port.published >= u64::from(self.publish_every).min(quarter).max(1) {
            port.published = port.head;
        }
        true
    }

    fn publish(&mut self, vpid: u16) {
        if let Some(port) = &mut self.ports[usize::from(vpid)] {
            port.reader.publish(&self.home.nic().signals);
            port.published = port.head;
        }
    }

    fn set_options(&mut self, vpid: u16, options: u32) {
        if let Some(port) = &mut self.ports[usize::from(vpid)] {
            let mut nic = self.home.nic();
            assert_eq!(nic.ports().options(port.id), Ok(port.options));
            assert_eq!(nic.ports().set_options(port.id, options), Ok(()));
            port.options = options;
        }
    }

    fn enable(&mut self, vpid: u16, is_enabled: bool) {
        if let Some(port) = &mut self.ports[usize::from(vpid)] {
            assert_eq!(self.home.nic().ports().enable_mailbox(port.id, is_enabled), Ok(()));
            port.options &= !options::MAILBOX_DISABLED;
            port.options |= if is_enabled { 0 } else { options::MAILBOX_DISABLED };
        }
    }

    /// Another thread of the program continues to read.
    fn change_reader(&mut self, vpid: u16) {
        if let Some(port) = &mut self.ports[usize::from(vpid)] {
            let signals = self.home.nic().signals;
            port.reader = Mailbox::new(&signals, vpid, self.publish_every).expect("it exists");
        }
    }

    /// Recovery without a death changes nothing.
    fn recover(&mut self) {
        let before = self.home.memory.clone();
        assert_eq!(self.home.nic().velo().recover(), 0);
        assert!(self.home.memory == before);
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Send(ref message) => {
                let _ = self.send(message);
            }
            Op::Take(vpid, room) => {
                self.take(vpid, room);
            }
            Op::Publish(vpid) => self.publish(vpid),
            Op::SetOptions(vpid, options) => self.set_options(vpid, options),
            Op::Enable(vpid, is_enabled) => self.enable(vpid, is_enabled),
            Op::Open(vpid, options) => self.open(vpid, options),
            Op::Close(vpid) => self.close(vpid),
            Op::ChangeReader(vpid) => self.change_reader(vpid),
            Op::Recover => self.recover(),
        }
    }

    /// All written messages arrive, and the counters are right.
    fn finish(&mut self) {
        for vpid in 0..self.ports.len() as u16 {
            while self.take(vpid, 120) {}
        }
        let nic = self.home.nic();
        assert_eq!(nic.signals.register(Register::VeloReceived), self.received);
        assert_eq!(nic.signals.register(Register::VeloDiscarded), self.discarded);
        for (record, port) in nic.tables.ports.iter().zip(&self.ports) {
            if let Some(port) = port {
                assert_eq!((record.mailbox_tail, record.messages_discarded), (port.tail, port.discarded));
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send(VeloMessage),
    Take(u16, usize),
    Publish(u16),
    SetOptions(u16, u32),
    Enable(u16, bool),
    Open(u16, u32),
    Close(u16),
    ChangeReader(u16),
    Recover,
}

fn extent(units_max: u32) -> impl Strategy<Value = Extent> {
    (1..=units_max, any::<u32>(), any::<u32>(), any::<bool>()).prop_map(|(units, a, b, is_split)| {
        let (offset, bytes) = if is_split { (a % units, 1 + b % (units - a % units)) } else { (0, units) };
        Extent::part(units * 8, offset * 8, bytes * 8).expect("legal")
    })
}

/// A message; some are malformed, and some go to no port.
fn message(vpids: u16) -> impl Strategy<Value = VeloMessage> {
    let bytes = prop_oneof![6 => 0..8u32, 1 => Just(8u32), 1 => any::<u32>()];
    (0..=vpids, extent(15), any::<u16>(), any::<u8>(), bytes).prop_map(|(vpid, extent, source, tag, missing)| {
        let bytes = extent.bytes().wrapping_sub(missing).min(1 << 10);
        VeloMessage { vpid, status: status(source, tag, extent), bytes }
    })
}

fn op(vpids: u16) -> impl Strategy<Value = Op> {
    let vpid = move || 0..vpids;
    let flags = || prop_oneof![Just(OPTIONS[0]), Just(OPTIONS[1]), Just(OPTIONS[2]), Just(OPTIONS[3])];
    let room = prop_oneof![4 => Just(120usize), 1 => 0..120usize];
    prop_oneof![
        12 => message(vpids).prop_map(Op::Send),
        12 => (vpid(), room).prop_map(|(vpid, room)| Op::Take(vpid, room)),
        1 => vpid().prop_map(Op::Publish),
        1 => (vpid(), flags()).prop_map(|(vpid, options)| Op::SetOptions(vpid, options)),
        1 => (vpid(), prop::bool::weighted(0.7)).prop_map(|(vpid, is_enabled)| Op::Enable(vpid, is_enabled)),
        1 => (vpid(), flags()).prop_map(|(vpid, options)| Op::Open(vpid, options)),
        1 => vpid().prop_map(Op::Close),
        1 => vpid().prop_map(Op::ChangeReader),
        1 => Just(Op::Recover),
    ]
}

fn velo_bytes() -> impl Strategy<Value = u32> {
    prop_oneof![Just(64u32), Just(120)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_few_ports_are_queues(
        ops in prop::collection::vec(op(3), 1..150),
        slots in 2..5u32,
        velo_bytes in velo_bytes(),
        publish_every in 0..9u32,
    ) {
        let mut stage = Stage::new(&limits(3, 1 << slots, velo_bytes), publish_every);
        ops.iter().for_each(|op| stage.step(op));
        stage.finish();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn all_ports_of_the_prototype_are_queues(
        ops in prop::collection::vec(op(32), 2000),
        velo_bytes in velo_bytes(),
        publish_every in 0..9u32,
    ) {
        let mut stage = Stage::new(&limits(32, 16, velo_bytes), publish_every);
        ops.iter().for_each(|op| stage.step(op));
        stage.finish();
    }
}

#[test]
fn all_lengths_come_as_they_were_sent_and_padded_with_zeros() {
    for velo_bytes in [64, 120] {
        let mut stage = Stage::new(&limits(1, 4, velo_bytes), 1);
        for bytes in 1..=velo_bytes {
            let extent = Extent::whole(bytes.next_multiple_of(8)).expect("legal");
            let message = VeloMessage { vpid: 0, status: status(5, bytes as u8, extent), bytes };
            assert_eq!(stage.send(&message), Received::Written { interrupt: false });
            assert!(stage.take(0, 120));
        }
        let extent = Extent::whole(velo_bytes).expect("legal");
        for bytes in [0, velo_bytes - 8, velo_bytes + 1, u32::MAX] {
            let message = VeloMessage { vpid: 0, status: status(5, 1, extent), bytes };
            assert_eq!(stage.send(&message), Received::Malformed);
        }
        stage.finish();
    }
}

/// A refused message fits once the reader has taken all others, however lazy the reader is.
#[test]
fn a_sender_that_tries_again_succeeds() {
    for (slots, publish_every) in [(4, 1), (4, 100), (8, 100), (16, 3), (64, 1000)] {
        for bytes in (8..=120).step_by(8) {
            let mut stage = Stage::new(&limits(2, slots, 120), publish_every);
            let extent = Extent::whole(bytes).expect("legal");
            let message = |tag| VeloMessage { vpid: 1, status: status(1, tag, extent), bytes };
            for tag in 0..200 {
                while stage.send(&message(tag)) == Received::Full {
                    assert!(stage.take(1, 120), "the mailbox is empty and full");
                }
            }
            stage.finish();
        }
    }
}

#[test]
fn a_payload_that_cannot_be_read_changes_nothing() {
    let mut stage = Stage::new(&limits(1, 4, 64), 1);
    let message = VeloMessage { vpid: 0, status: status(1, 1, Extent::UNIT), bytes: 8 };
    for fault in [Fault::Initiator, Fault::Gone] {
        stage.bus.initiator_fault = Some(fault);
        let before = stage.home.memory.clone();
        assert_eq!(stage.home.nic().velo().receive(&mut stage.bus, &message), Received::Initiator(fault));
        assert!(stage.home.memory == before);
    }
}

// ---- ports ----

#[test]
fn ports_open_lowest_first_until_all_are_used() {
    let mut home = Home::new(&limits(3, 4, 64));
    let mut nic = home.nic();
    assert_eq!(nic.ports().open(Some(1), 0).map(|id| id.vpid), Ok(1));
    assert_eq!(nic.ports().open(Some(1), 0), Err(PortError::AllUsed));
    assert_eq!(nic.ports().open(Some(3), 0), Err(PortError::NoSuchVpid));
    let zero = nic.ports().open(None, 0).expect("it is free");
    assert_eq!((zero.vpid, nic.ports().open(None, 0).map(|id| id.vpid)), (0, Ok(2)));
    assert_eq!(nic.ports().open(None, 0), Err(PortError::AllUsed));
    assert_eq!(nic.ports().close(zero), Ok(()));
    let again = nic.ports().open(None, 0).expect("it is free");
    assert!(again.vpid == 0 && again.generation != zero.generation);
    assert_eq!(nic.ports().enable_mailbox(zero, true), Err(PortError::NotOpen));
    assert_eq!(nic.ports().options(zero), Err(PortError::NotOpen));
    let far = PortId { vpid: 9, generation: 0 };
    assert_eq!(nic.ports().close(far), Err(PortError::NotOpen));
}

#[test]
fn messages_that_lie_unread_leave_their_heads_when_the_port_is_closed() {
    let mut home = Home::new(&limits(2, 16, 120));
    let mut nic = home.nic();
    let port = nic.ports().open(Some(1), 0).expect("it is free");
    let send = |nic: &mut Nic<'_>, tag, bytes| {
        let extent = Extent::whole(bytes).expect("a legal length");
        let message = VeloMessage { vpid: 1, status: status(tag, 3, extent), bytes: extent.bytes() };
        let mut bus = TestBus { payload: payload(1, message.bytes), ..TestBus::default() };
        assert!(matches!(nic.velo().receive(&mut bus, &message), Received::Written { .. }));
    };
    let mut reader = Mailbox::new(&nic.signals, 1, 4).expect("it exists");
    for (tag, bytes) in [(1, 8), (2, 120), (3, 57)] {
        send(&mut nic, tag, bytes);
    }
    assert!(reader.take(&nic.signals, &mut [0; 120]).is_ok_and(|taken| taken.is_some()));
    assert_eq!(nic.ports().note_unread(port, 77), Ok(2));
    let heads: Vec<_> = nic
        .tables
        .blocked
        .as_deref()
        .unwrap()
        .kept()
        .map(|head| (head.length, head.target, head.port, head.why))
        .collect();
    assert_eq!(heads, [(120, 77, 1, blocked::UNREAD), (57, 77, 1, blocked::UNREAD)]);
    assert_eq!(nic.signals.registers.get(Register::VeloDiscarded), 2);
    assert_eq!(nic.ports().close(port), Ok(()));
    assert_eq!(nic.ports().note_unread(port, 77), Err(PortError::NotOpen));
    // No more than the mailbox holds, whatever its words are.
    let again = nic.ports().open(Some(1), 0).expect("it is free");
    nic.tables.ports[1].mailbox_tail = u64::MAX / 2;
    assert!(nic.ports().note_unread(again, 77).is_ok_and(|found| found <= 16));
}

#[test]
fn a_nic_without_the_unit_has_no_ports() {
    let mut home = Home::new(&Limits::NONE);
    let mut nic = home.nic();
    assert_eq!(nic.ports().open(None, 0), Err(PortError::AllUsed));
    assert!(Mailbox::new(&nic.signals, 0, 1).is_none());
    let message = VeloMessage { vpid: 0, status: status(1, 1, Extent::UNIT), bytes: 8 };
    assert_eq!(nic.velo().receive(&mut TestBus::default(), &message), Received::Malformed, "its longest has no bytes");
    assert_eq!(nic.velo().recover(), 0);
}

#[test]
fn generations_start_over() {
    let mut home = Home::new(&limits(1, 4, 64));
    let mut nic = home.nic();
    nic.tables.ports[0].slot = 0xffff_ff00;
    let last = nic.ports().open(None, 0).expect("it is free");
    assert_eq!((last.generation, nic.ports().close(last)), (0xff_ffff, Ok(())));
    assert_eq!(nic.ports().open(None, 0), Ok(PortId { vpid: 0, generation: 0 }));
    assert_eq!(nic.ports().options(PortId { vpid: 0, generation: u32::MAX }), Err(PortError::NotOpen));
}

#[test]
fn opening_empties_what_the_last_program_has_left() {
    let mut stage = Stage::new(&limits(2, 8, 120), 2);
    let extent = Extent::whole(120).expect("legal");
    for tag in 0..3 {
        let message = VeloMessage { vpid: 0, status: status(1, tag, extent), bytes: 120 };
        let _ = stage.send(&message);
    }
    assert!(stage.take(0, 120));
    stage.home.nic().signals.notifications[1].store(7, Relaxed);
    stage.close(0);
    stage.open(0, 0);
    assert!(!stage.take(0, 120));
    let signals = stage.home.nic().signals;
    assert!(signals.mailboxes[..64].iter().step_by(8).all(|word| word.load(Relaxed) == 0));
    assert_eq!(signals.notifications[1].load(Relaxed), 0);
}

// ---- hostile programs ----

fn word() -> impl Strategy<Value = u64> {
    let near =
        (extent(15), any::<u16>(), any::<u8>(), 0..3u32, 0..80u32).prop_map(|(extent, source, tag, slot, bit)| {
            status(source, tag, extent).word(slot) ^ 1u64.checked_shl(bit).unwrap_or(0)
        });
    prop_oneof![2 => near, 1 => any::<u64>(), 1 => 0..20u64, 1 => (0..20u64).prop_map(|back| u64::MAX - back)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_hostile_program_costs_its_own_port_only(
        ops in prop::collection::vec((op(2), prop::collection::vec((any::<prop::sample::Index>(), word()), 0..6)), 1..80),
        publish_every in 0..9u32,
    ) {
        // Port 2 is the hostile one; the model knows ports 0 and 1.
        let mut stage = Stage::new(&limits(3, 8, 120), publish_every);
        let mut reader = stage.ports[2].take().expect("it is open").reader;
        stage.ports.truncate(2);
        for (op, spoiled) in &ops {
            for (index, word) in spoiled {
                let nic = stage.home.nic();
                let targets = nic.signals.mailboxes[2 * 64..].iter();
                let pointers = &nic.signals.port_pointers[2];
                let targets: Vec<_> = targets.chain([&pointers.mailbox_head, &pointers.mailbox_taken]).collect();
                index.get(&targets).store(*word, Relaxed);
                let port = &mut nic.tables.ports[2];
                let fields = [&mut port.mailbox_tail, &mut port.mailbox_head_seen, &mut port.messages_discarded];
                if word % 5 == 0 {
                    *fields.into_iter().nth(index.index(3)).expect("one of them") = *word;
                }
                if word % 11 == 0 {
                    (port.slot, port.options) = (*word as u32, (*word >> 32) as u32);
                }
            }
            stage.step(&beside_hostile(op));
            let mut nic = stage.home.nic();
            if let Op::Send(message) = op {
                stage.bus.payload = payload(1, message.bytes);
                let _ = nic.velo().receive(&mut stage.bus, &VeloMessage { vpid: 2, ..*message });
            }
            nic.velo().recover();
            let mut bytes = [0; 120];
            let _ = reader.peek(&nic.signals);
            // All slots may be full of messages, but each take empties at least one.
            let is_empty = (0..9).any(|_| reader.take(&nic.signals, &mut bytes) == Ok(None));
            prop_assert!(is_empty);
        }
        let nic = stage.home.nic();
        (stage.received, stage.discarded) =
            (nic.signals.register(Register::VeloReceived), nic.signals.register(Register::VeloDiscarded));
        stage.finish();
    }
}

/// Beside a hostile program recovery may change something, and its port may take messages.
fn beside_hostile(op: &Op) -> Op {
    match op {
        Op::Recover => Op::ChangeReader(0),
        Op::Send(message) => Op::Send(VeloMessage { vpid: message.vpid % 2, ..*message }),
        other => other.clone(),
    }
}

#[test]
fn impossible_heads_mean_no_room_and_malformed_slots_are_skipped() {
    let mut stage = Stage::new(&limits(2, 8, 64), 1);
    let extent = Extent::whole(64).expect("legal");
    let message = |tag| VeloMessage { vpid: 1, status: status(1, tag, extent), bytes: 64 };
    for tag in 0..4 {
        assert_eq!(stage.send(&message(tag)), Received::Written { interrupt: false });
    }
    for head in [9, 100, u64::MAX, 1 << 63] {
        stage.home.nic().signals.port_pointers[1].mailbox_head.store(head, Relaxed);
        assert_eq!(stage.send(&message(9)), Received::Full, "head {head}");
    }
    stage.home.nic().signals.port_pointers[1].mailbox_head.store(0, Relaxed);
    // The first message has a wrong second slot, the second one a wrong first slot.
    let signals = stage.home.nic().signals;
    signals.mailboxes[(8 + 1) * 8].fetch_xor(1 << 40, Relaxed);
    signals.mailboxes[(8 + 2) * 8].store(1, Relaxed);
    let port = stage.ports[1].as_mut().expect("it is open");
    let mut into = [0; 64];
    assert!(port.reader.take(&signals, &mut into).is_err());
    assert!(port.reader.peek(&signals).is_err());
    assert!(port.reader.take(&signals, &mut into).is_err(), "its first slot");
    assert!(port.reader.take(&signals, &mut into).is_err(), "its second slot");
    assert_eq!(port.reader.take(&signals, &mut into), Ok(Some((message(2).status, 64))));
    assert_eq!(port.reader.take(&signals, &mut into), Ok(Some((message(3).status, 64))));
    assert_eq!(port.reader.take(&signals, &mut into), Ok(None));
}

// ---- deaths ----

/// The reader's actions between death and recovery.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Nothing,
    Takes,
    TakesAndPublishes,
}

const MEANWHILE: [Meanwhile; 3] = [Meanwhile::Nothing, Meanwhile::Takes, Meanwhile::TakesAndPublishes];

/// Recovers a stage whose completer has died with a message that the model has not counted. The message is whole or
/// absent, and the port continues. Returns whether the message was there.
fn recovers(mut stage: Stage, message: &VeloMessage, meanwhile: Meanwhile) -> bool {
    let vpid = message.vpid;
    let port = |stage: &Stage| stage.ports[usize::from(vpid)].clone().expect("it is open");
    let is_there = |stage: &mut Stage| {
        // One take for each message of the model; then one more message, or none.
        let mut seen = stage.clone();
        while !port(&seen).queue.is_empty() {
            assert!(seen.take(vpid, 120));
        }
        let reader = port(&seen).reader;
        reader.peek(&seen.home.nic().signals).expect("whole messages only").is_some()
    };
    let was_visible = is_there(&mut stage);
    if was_visible {
        stage.expect(message, Received::Written { interrupt: false });
    }
    if !matches!(meanwhile, Meanwhile::Nothing) {
        while stage.take(vpid, 120) {}
    }
    if matches!(meanwhile, Meanwhile::TakesAndPublishes) {
        stage.publish(vpid);
    }
    let tail = stage.home.nic().tables.ports[usize::from(vpid)].mailbox_tail;
    let mut died_recovering = stage.clone();
    let found = stage.home.nic().velo().recover();
    let counted = tail == port(&stage).tail;
    assert_eq!(found, u32::from(was_visible && !counted));
    // A death in the middle of recovery: some of its stores are missing.
    let recovered = stage.home.words().to_vec();
    for (index, &word) in recovered.iter().enumerate() {
        if died_recovering.home.words()[index] != word {
            let mut partly = died_recovering.clone();
            partly.home.nic().velo().recover();
            let registers = partly.home.layout.registers / 8..partly.home.layout.portals / 8;
            let differs = |(index, (a, b)): (usize, (&u64, &u64))| a != b && !registers.contains(&(index as u64));
            assert!(!partly.home.words().iter().zip(&recovered).enumerate().any(differs), "another result");
            died_recovering.home.words()[index] = word;
        }
    }
    stage.received = stage.home.nic().signals.register(Register::VeloReceived);
    stage.recover();
    // The port continues: several laps of messages.
    for tag in 0..24 {
        let extent = Extent::whole(8 + u32::from(tag) % 8 * 8).expect("legal");
        let next = VeloMessage { vpid, status: status(3, tag, extent), bytes: extent.bytes() };
        let _ = stage.send(&next);
        match tag % 3 {
            // The reader meets the slot behind the message before another message lies there.
            0 => while stage.take(vpid, 120) {},
            1 => {}
            _ => {
                stage.take(vpid, 120);
            }
        }
    }
    stage.finish();
    was_visible
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Dies at each call of the bus: there is one after each slot.
    #[test]
    fn a_completer_that_dies_leaves_whole_messages_only(
        before in prop::collection::vec(op(2), 0..60),
        message in message(1),
        slots in 2..5u32,
        publish_every in 0..5u32,
    ) {
        let mut stage = Stage::new(&limits(2, 1 << slots, 120), publish_every);
        before.iter().for_each(|op| stage.step(op));
        stage.open(0, 0);
        let message = VeloMessage { vpid: 0, ..message };
        if !matches!(stage.expected(&message), Received::Written { .. }) {
            return Ok(());
        }
        stage.bus.payload = payload(message.status.tag, message.bytes);
        let mut seen = Vec::new();
        for call in 0.. {
            let mut dead = stage.clone();
            dead.bus.calls_left = Some(call);
            let (home, bus) = (&mut dead.home, &mut dead.bus);
            let outcome = catch_unwind(AssertUnwindSafe(|| home.nic().velo().receive(bus, &message)));
            match outcome {
                Err(cause) if cause.is::<Died>() => {}
                Err(cause) => resume_unwind(cause),
                Ok(_) => break,
            }
            dead.bus.calls_left = None;
            let there = MEANWHILE.map(|meanwhile| recovers(dead.clone(), &message, meanwhile));
            prop_assert!(there == [there[0]; 3]);
            seen.push(there[0]);
        }
        // Table, payload, and after each slot. The message is there after its first slot, which is the last store.
        let slots = message.status.extent.slots() as usize;
        prop_assert_eq!(seen.len(), 2 + slots);
        prop_assert_eq!(seen.iter().position(|&there| there), Some(seen.len() - 1));
    }

    /// Applies the completer's stores one by one: those to the bytes of the message in any order, then the status words
    /// from the last slot to the first, then the tail.
    #[test]
    fn every_prefix_of_the_stores_leaves_whole_messages_only(
        before in prop::collection::vec(op(2), 0..60),
        message in message(1),
        order: u64,
        publish_every in 0..5u32,
    ) {
        let mut stage = Stage::new(&limits(2, 8, 120), publish_every);
        before.iter().for_each(|op| stage.step(op));
        stage.open(0, 0);
        let message = VeloMessage { vpid: 0, ..message };
        if !matches!(stage.expected(&message), Received::Written { .. }) {
            return Ok(());
        }
        let mut after = stage.clone();
        let _ = after.send(&message);
        let first = stage.ports[0].as_ref().expect("it is open").tail;
        let (mailboxes, ports) = (stage.home.layout.mailboxes as usize / 8, stage.home.layout.ports as usize / 8);
        let registers = stage.home.layout.registers as usize / 8..stage.home.layout.portals as usize / 8;
        let rank = |index: usize| match index.checked_sub(mailboxes) {
            Some(at) if at % 8 != 0 => order.rotate_left(at as u32) % 64,
            Some(at) => 64 + 8 - (at as u64 / 8).wrapping_sub(first) % 8,
            None if index >= ports => 100,
            None => 101,
        };
        let (was, is) = (stage.home.words().to_vec(), after.home.words().to_vec());
        let mut stores: Vec<usize> = (0..was.len()).filter(|&index| was[index] != is[index]).collect();
        stores.sort_by_key(|&index| rank(index));
        prop_assert!(stores.iter().filter(|index| registers.contains(*index)).count() == 1);
        let mut there = Vec::new();
        for store in stores {
            stage.home.words()[store] = is[store];
            // No word of the program depends on the bytes, so one prefix among them stands for all.
            let is_first = there.is_empty();
            if !registers.contains(&store) && (is_first || rank(store) >= 64) {
                there.push(recovers(stage.clone(), &message, MEANWHILE[store % 3]));
            }
        }
        prop_assert!(there.is_sorted() && there.last() == Some(&true));
    }
}

// ---- split messages ----

/// Sends a message whose store is cut at the units whose bits are set.
fn send_split(stage: &mut Stage, address: &RequesterAddress, cuts: u32, tag: u8, whole: &[u8]) {
    let units = address.message_bytes / 8;
    let mut start = 0;
    for end in (1..=units).filter(|&end| end == units || cuts >> (end - 1) & 1 != 0) {
        let (offset, bytes) = (start * 8, (end - start) * 8);
        let store = match address.message_bytes {
            // An address of the prototype has all fields but the tag.
            ..=64 => {
                let at = RequesterAddress { offset, ..*address }.encode().expect("legal");
                Store { tag, ..Store::at(at, bytes).expect("legal") }
            }
            message_bytes => {
                Store { page: address.page, message_bytes, offset, bytes, mtt: address.mtt, tag, interrupt: false }
            }
        };
        let header = store.header(stage.home.layout.limits.velo_bytes).expect("legal");
        let source = Endpoint { node: 77, vpid: store.page.source_vpid };
        let message = VeloMessage { vpid: header.destination.vpid, status: header.status(source), bytes };
        stage.bus.payload = whole[offset as usize..][..bytes as usize].to_vec();
        let written = stage.home.nic().velo().receive(&mut stage.bus, &message);
        assert_eq!(written, Received::Written { interrupt: false });
        start = end;
    }
}

#[test]
fn all_splits_of_a_message_come_whole() {
    for velo_bytes in [64, 120] {
        let mut stage = Stage::new(&limits(2, 16, velo_bytes), 4);
        let mut reassembler = Reassembler::<4>::default();
        let mut reader = stage.ports[1].as_ref().expect("it is open").reader;
        let page = Page { destination: Endpoint { node: 0, vpid: 1 }, source_vpid: 3 };
        for units in 1..=velo_bytes / 8 {
            let address = RequesterAddress { page, mtt: units as u8 % 4, message_bytes: units * 8, offset: 0 };
            // All splits of a message of the prototype; of a longer one each pair of cuts.
            let all = 1u32 << (units - 1);
            for cuts in (0..all).filter(|cuts| units <= 8 || cuts.count_ones() <= 2) {
                let whole = payload(cuts as u8 ^ units as u8, units * 8);
                send_split(&mut stage, &address, cuts, units as u8, &whole);
                let signals = stage.home.nic().signals;
                let (mut bytes, mut came) = ([0; 120], 0);
                while let Some((status, length)) = reader.take(&signals, &mut bytes).expect("well-formed") {
                    if let Some((status, bytes)) = reassembler.add(&status, &bytes[..length]).expect("in order") {
                        assert_eq!((status.source, status.tag), (Endpoint { node: 77, vpid: 3 }, units as u8));
                        assert!(status.extent.is_whole() && bytes == whole);
                        came += 1;
                    }
                }
                assert_eq!(came, 1);
            }
        }
        assert_eq!(reassembler.abandoned(), 0);
    }
}

// ---- threads ----

#[test]
fn a_reader_without_the_lock_sees_whole_messages_in_order() {
    const MESSAGES: u32 = 5000;
    for (slots, publish_every) in [(4, 1), (16, 8)] {
        let mut stage = Stage::new(&limits(2, slots, 120), publish_every);
        let mut reader = stage.ports[1].as_ref().expect("it is open").reader;
        let (mut nic, mut bus) = (stage.home.nic(), stage.bus.clone());
        let signals = nic.signals;
        let content = |number: u32| {
            let bytes = 8 + number % 15 * 8;
            let words = (0..bytes / 8).flat_map(move |at| (u64::from(number) << 8 | u64::from(at)).to_le_bytes());
            (bytes, words.collect::<Vec<u8>>())
        };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    let (bytes, payload) = content(number);
                    bus.payload = payload;
                    let extent = Extent::whole(bytes).expect("legal");
                    let message = VeloMessage { vpid: 1, status: status(1, number as u8, extent), bytes };
                    while nic.velo().receive(&mut bus, &message) == Received::Full {
                        std::thread::yield_now();
                    }
                }
            });
            let mut into = [0; 120];
            for number in 0..MESSAGES {
                let (status, length) = loop {
                    match reader.take(&signals, &mut into).expect("well-formed") {
                        Some(taken) => break taken,
                        None => std::thread::yield_now(),
                    }
                };
                let (bytes, payload) = content(number);
                assert_eq!((status.tag, length), (number as u8, bytes as usize));
                assert_eq!(into[..length], payload);
            }
            assert_eq!(reader.take(&signals, &mut into), Ok(None));
        });
    }
}
