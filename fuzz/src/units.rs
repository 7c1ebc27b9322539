// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The EXTOLL units: descriptors of both generations, stores to requester pages, requests, pages of any content, and
//! tables that a hostile program has written to.
//!
//! Two NICs. Only the VPIDs above 0 of the target are hostile. After each execution the honest program of its VPID 0
//! still gets a notification and a message.

use std::sync::atomic::Ordering::Relaxed;

use selvedge_nic::atu::ats::Transaction;
use selvedge_nic::atu::{AddressEntry, FlushMode, NlaPage, PageSize, Rights, Unit};
use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::rma::options::TE;
use selvedge_nic::rma::{Descriptor, LockRequest, Requester, code, prototype, spec};
use selvedge_nic::tables::{Command, LockWaiter, PAGES, Request, TlbEntry, kind};
use selvedge_nic::velo::{Endpoint, Extent, Mailbox, Outgoing, Reassembler, Received, Status, Store, VeloMessage};
use selvedge_nic::{Limits, Nic, NoMemory};

use crate::campaign::{Fuzz, Source};
use crate::home::{Home, MEMORY_AT, TestBus};

const VPIDS: u32 = 4;
const HONEST: u16 = 0;
const NLA_PAGES: u64 = 8;
const PAGE: u64 = 4096;

const LIMITS: Limits = Limits {
    vpids: VPIDS,
    mailbox_slots: 8,
    velo_bytes: 120,
    notifications: 4,
    address_tables: 1,
    tlb_entries: 4,
    tlb_ways: 2,
    lock_waiters: 4,
    ..Limits::NONE
};

pub struct Target {
    /// A fresh NIC with open ports, kept because address tables take long to make.
    fresh: Home,
    initiator: Home,
    target: Home,
}

struct Scene<'a> {
    initiator: &'a mut Home,
    target: &'a mut Home,
    bus: TestBus,
    source: &'a mut Source,
}

impl Target {
    pub fn new() -> Target {
        assert!(LIMITS.are_sane());
        let mut fresh = Home::new(&LIMITS);
        for vpid in 0..VPIDS as u16 {
            fresh.nic().ports().open(Some(vpid), 0).expect("it is free");
        }
        for page in 0..NLA_PAGES {
            let entry = AddressEntry::new(Rights::ReadWrite, page as u16 % 4, MEMORY_AT / PAGE, PageSize::Kib4);
            fresh
                .nic()
                .atu()
                .write_entry(NlaPage::new(page).expect("in range"), entry.expect("in range"))
                .expect("in range");
        }
        Target { initiator: fresh.clone(), target: fresh.clone(), fresh }
    }
}

impl Fuzz for Target {
    fn execute(&mut self, source: &mut Source) {
        let bus = TestBus { payload: vec![0x5a; 8192], ..TestBus::default() };
        for home in [&mut self.initiator, &mut self.target] {
            home.memory.copy_from_slice(&self.fresh.memory);
        }
        let mut scene = Scene { initiator: &mut self.initiator, target: &mut self.target, bus, source };
        for _ in 0..scene.source.below(100) {
            scene.step();
        }
        scene.honest_port_works();
    }
}

impl Scene<'_> {
    fn step(&mut self) {
        match self.source.below(12) {
            0..=2 => self.descriptor(),
            3 => self.request(),
            4 => self.store(),
            5 => self.message(),
            6 => self.spoil(),
            7 => self.pages(),
            8 => self.port(),
            9 => self.locks(),
            10 => self.program(),
            _ => self.transaction(),
        }
    }

    /// Returns a VPID, mostly an existing one; never the honest one.
    fn vpid(&mut self) -> u16 {
        1 + self.source.below(u64::from(VPIDS)) as u16
    }

    /// Returns a word: any, or one that is nearly right as an address or a count.
    fn word(&mut self) -> u64 {
        match self.source.below(6) {
            0..=3 => self.source.below(NLA_PAGES) * PAGE + self.source.pick(&[0, 0, 8, 100, 4088, 4095]),
            4 => MEMORY_AT + self.source.below(300),
            _ => self.source.nasty(),
        }
    }

    /// Writes a descriptor, and carries out the requester's command.
    fn descriptor(&mut self) {
        let [mut head, read, write] = [self.word(), self.word(), self.word()];
        if self.source.one_in(2) {
            // An existing command, with few bytes.
            head = head & !(0xf << 2 | 0x7f_ffff << 40) | self.source.below(7) << 2 | self.source.below(200) << 40;
        }
        let early = self.source.one_in(2);
        let descriptor = match early {
            true => prototype::decode(head & 0x3fff_fff8, &[read, write]).map(|command| command.descriptor).ok(),
            false => Descriptor::decode(&[head, read, write]).ok(),
        };
        let Some(descriptor) = descriptor else { return };
        if !early {
            assert_eq!(Descriptor::decode(&descriptor.encode()).ok(), Some(descriptor), "what decodes encodes");
        }
        let vpid = self.vpid();
        let options = if self.source.one_in(2) { TE } else { self.source.nasty32() };
        let from = Requester { node: 1, vpid, options, prototype: early, target: 5, uid: 6 };
        if let Ok(command) = self.initiator.nic().rma().request(&mut NoMemory, &from, &descriptor) {
            self.carry_out(&command);
        }
    }

    fn request(&mut self) {
        let kinds = [kind::RMA_PUT, kind::RMA_GET, kind::RMA_LOCK, kind::RMA_NOTIFICATION_PUT, kind::VELO_SEND];
        let number = if self.source.one_in(8) { self.source.word() as u8 } else { self.source.pick(&kinds) };
        let request = Request {
            kind: number,
            operation: self.source.word() as u8,
            datatype: self.source.word() as u8,
            ack: self.source.word() as u8,
            portal: self.source.below(u64::from(VPIDS) + 2) as u32,
            uid: self.source.nasty32(),
            initiator: self.source.nasty(),
            match_bits: self.source.nasty(),
            remote_offset: self.word(),
            header_data: self.source.nasty(),
            length: self.word(),
            operand: [self.word(), self.word(), self.word(), self.word()],
            ..Request::default()
        };
        if request.is_rma() || request.kind == kind::VELO_SEND {
            self.carry_out(&Command { request, ..Command::default() });
        }
    }

    fn carry_out(&mut self, command: &Command) {
        self.bus.mapped = self.source.one_in(2);
        self.bus.reachable = !self.source.one_in(8);
        self.bus.reply.clear();
        let verdict = self.target.nic().deliver(&mut self.bus, &command.request);
        let delivery = match verdict {
            Verdict::Done(delivery) => delivery,
            _ => Delivery::failed(self.source.below(8) as u8),
        };
        let mut nic = self.initiator.nic();
        let _ = nic.admits_reply(&mut NoMemory, command);
        nic.complete_send(command, delivery.fail);
        nic.complete_response(command, &delivery);
    }

    /// Writes to a requester page of the prototype; the write becomes a packet.
    fn store(&mut self) {
        let (address, bytes) = (self.source.nasty(), self.source.nasty32() % 256);
        let Ok(store) = Store::at(address, bytes) else { return };
        let Ok(header) = store.header(LIMITS.velo_bytes) else { return };
        let status = header.status(Endpoint { node: 3, vpid: store.page.source_vpid });
        let message = VeloMessage { vpid: header.destination.vpid, status, bytes };
        let _ = self.target.nic().velo().receive(&mut self.bus, &message);
    }

    fn message(&mut self) {
        let endpoint = |word: u64| Endpoint { node: (word >> 16) as u16, vpid: word as u16 % (VPIDS as u16 + 2) };
        let message = Outgoing {
            source: endpoint(self.source.word()),
            destination: endpoint(self.source.word()),
            target: 5,
            mtt: self.source.word() as u8,
            tag: self.source.word() as u8,
            start: self.word(),
            bytes: self.source.below(130) as u32,
        };
        if let Some(command) = message.command() {
            self.carry_out(&command);
        }
    }

    /// Spoils words of the memory that a hostile program has mapped.
    fn spoil(&mut self) {
        let vpid = usize::from(self.vpid()) % VPIDS as usize;
        let (word, more, at) = (self.word(), self.source.nasty(), self.source.word() as usize);
        if vpid == usize::from(HONEST) {
            return;
        }
        let nic = self.target.nic();
        let pointers = &nic.signals.port_pointers[vpid];
        let (slots, entries) = (LIMITS.mailbox_slots as usize * 8, LIMITS.notifications as usize * 2);
        match at % 8 {
            0 => pointers.notification_head.store(word, Relaxed),
            1 => pointers.mailbox_head.store(word, Relaxed),
            2 => nic.signals.mailboxes[vpid * slots + at / 8 % slots].store(word, Relaxed),
            3 => nic.signals.notifications[vpid * entries + at / 8 % entries].store(word, Relaxed),
            4 => nic.tables.ports[vpid].notification_tail = word,
            5 => nic.tables.ports[vpid].mailbox_tail = word,
            6 => nic.tables.tlb[at / 8 % 4] = TlbEntry { page: word, entry: more },
            _ => {
                let (lock, state) = (more as u32, (more >> 32) as u8 % 5);
                let waiter = LockWaiter { sequence: word, lock, state, token: word, ..LockWaiter::default() };
                nic.tables.lock_waiters[at / 8 % 4] = waiter;
            }
        }
    }

    /// Writes, clears and flushes entries of any content.
    fn pages(&mut self) {
        let (word, first) =
            (self.word(), if self.source.one_in(8) { self.source.nasty() } else { self.source.below(NLA_PAGES) });
        let entry = AddressEntry::from_bits(match self.source.one_in(3) {
            true => word,
            false => 3 | self.source.below(u64::from(VPIDS)) << 2 | (MEMORY_AT / PAGE + self.source.below(2)) << 12,
        });
        let Ok(first) = NlaPage::new(first % PAGES as u64) else { return };
        let mode = self.source.pick(&[FlushMode::Tlb, FlushMode::Units, FlushMode::Both]);
        let answers = self.source.word();
        for home in [&mut *self.initiator, &mut *self.target] {
            let mut nic = home.nic();
            match answers % 4 {
                0 => drop(nic.atu().write_large_page(first, entry)),
                1 | 2 => drop(nic.atu().write_entry(first, entry)),
                _ => drop(nic.atu().clear_entries(first, (answers >> 8) as u32 % 2000)),
            }
            if let Ok(mut flush) = nic.atu().flush_entries(first, (answers >> 20) as u32 % 2000, mode) {
                for unit in Unit::ALL.into_iter().cycle().take((answers >> 40) as usize % 8) {
                    let awaited = flush.awaits(unit);
                    assert_eq!(nic.atu().answer_flush(&mut flush, unit).is_ok(), awaited);
                }
            }
        }
    }

    fn port(&mut self) {
        let (vpid, options) = (self.vpid(), self.source.nasty32());
        let mut nic = self.target.nic();
        match nic.ports().open(Some(vpid), options) {
            Ok(id) if options & 1 != 0 => drop(nic.ports().close(id)),
            _ => {
                let generation = nic.tables.ports.get(usize::from(vpid)).map_or(0, |port| port.slot >> 8);
                let id = selvedge_nic::velo::PortId { vpid, generation };
                let _ = nic.ports().set_options(id, options);
                let _ = if options & 2 == 0 { Ok(()) } else { nic.ports().close(id) };
            }
        }
    }

    fn locks(&mut self) {
        let request = LockRequest {
            vpid: self.vpid(),
            number: self.source.nasty32() % 2048,
            compare: self.source.nasty() as i32,
            add: self.source.nasty() as i32,
        };
        let mut nic = self.target.nic();
        let (token, process) = (self.source.below(4), self.source.below(3));
        let source = self.source.nasty32();
        let kept = LockWaiter { source, token, process, ..LockWaiter::default() };
        let _ = nic.locks().request_or_keep(&mut NoMemory, &request, kept);
        let is_alive = |process: u64| process != 1;
        let mut answered = 0;
        while let Some(answer) = nic.locks().next_answer(2, is_alive) {
            nic.locks().finish_answer(answer.index, answer.sequence);
            answered += 1;
            assert!(answered <= LIMITS.lock_waiters, "more requests were answered than can wait");
        }
        let ended = self.source.below(4);
        nic.locks().forget_waiters(|waiter| waiter.token == ended);
    }

    /// Reads mailbox and queue of any content; and rebuilds the tables.
    fn program(&mut self) {
        let vpid = self.vpid();
        let mut nic = self.target.nic();
        if let Some(mut mailbox) = Mailbox::new(&nic.signals, vpid, 1) {
            let mut parts = Reassembler::<2>::default();
            read(&nic, &mut mailbox, |status, bytes| _ = parts.add(status, bytes));
        }
        let mut head = self.source.nasty();
        let _ = nic.signals.take_notification(vpid, &mut head);
        if self.source.one_in(4) {
            nic.recover(&mut self.bus, |_| true);
        }
    }

    /// Decodes a word of the address translation service.
    fn transaction(&mut self) {
        let word = self.source.nasty() | self.source.below(16) << 60;
        if let Ok(transaction) = Transaction::decode(word) {
            let again = transaction.encode().expect("a decoded word can be encoded again");
            assert_eq!(Transaction::decode(again), Ok(transaction));
        }
    }

    fn honest_port_works(&mut self) {
        let mut nic = self.target.nic();
        let mut head = nic.signals.port_pointers[usize::from(HONEST)].notification_head.load(Relaxed);
        while nic.signals.take_notification(HONEST, &mut head).is_some() {}
        let mut mailbox = Mailbox::new(&nic.signals, HONEST, 1).expect("it has one");
        read(&nic, &mut mailbox, |_, _| ());

        let put = Request {
            kind: kind::RMA_NOTIFICATION_PUT,
            operation: spec::COMPLETER,
            datatype: code::NOTIFICATION_PUT,
            portal: HONEST.into(),
            operand: [0xabcd, 1, 0, 0],
            ..Request::default()
        };
        let verdict = nic.deliver(&mut self.bus, &put);
        assert!(matches!(verdict, Verdict::Done(Delivery { fail: fail::OK, .. })), "{verdict:?}");
        let words = nic.signals.take_notification(HONEST, &mut head).expect("the notification came");
        assert_eq!(words[0], 0xabcd);

        let extent = Extent::whole(8).expect("a length");
        let status = Status { source: Endpoint { node: 9, vpid: 1 }, extent, mtt: 1, tag: 7, error: false };
        let message = VeloMessage { vpid: HONEST, status, bytes: 8 };
        let received = nic.velo().receive(&mut self.bus, &message);
        assert!(matches!(received, Received::Written { .. }), "{received:?}");
        let mut seen = Vec::new();
        read(&nic, &mut mailbox, |status, bytes| seen.push((*status, bytes.to_vec())));
        assert_eq!(seen, [(status, vec![0x5a; 8])]);
    }
}

/// Reads a mailbox until it is empty. Each take frees at least one slot, so this ends.
fn read(nic: &Nic<'_>, mailbox: &mut Mailbox, mut seen: impl FnMut(&Status, &[u8])) {
    let mut bytes = [0; 120];
    for _ in 0..=LIMITS.mailbox_slots {
        match mailbox.take(&nic.signals, &mut bytes) {
            Ok(Some((status, length))) => seen(&status, &bytes[..length]),
            Ok(None) => return,
            Err(_) => {}
        }
    }
    panic!("the mailbox does not become empty");
}
