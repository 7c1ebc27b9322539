// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to another host, in a home whose links are this test.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use selvedge_nic::Limits;
use selvedge_nic::portals::{EntrySpec, ack, list};
use selvedge_nic::tables::{Command, Request, Side, kind};
use tempfile::TempDir;

use super::*;
use crate::backend::{Backend, Offers, WhenFull};
use crate::config::{Config, Mode};
use crate::interface::ArenaRange;
use crate::segment::SMALL;
use crate::shared_memory::SharedMemory;

const TARGET: u64 = 1 << 32 | 5;
const OTHER: u64 = 1 << 32 | 6;

#[derive(Default)]
struct Kept {
    packets: Mutex<Vec<Packet>>,
    is_lost: AtomicBool,
    /// The NIC that asks, whose lock must be free whenever the home is called.
    asker: Mutex<Option<Arc<Interface>>>,
}

impl Kept {
    fn keep(&self, packet: &Packet) {
        self.packets.lock().expect("no panic").push(*packet);
    }

    fn check_lock(&self) {
        if let Some(asker) = self.asker.lock().expect("no panic").as_ref() {
            // With the lock held, this would wait for ever.
            drop(asker.own.segment.lock(asker.word));
        }
    }
}

/// A home that reaches other hosts. The test keeps its packets.
struct Home(Arc<Kept>);

impl Backend for Home {
    fn offers(&self, config: &Config) -> Offers {
        Offers { reaches_hosts: true, ..SharedMemory.offers(config) }
    }
    fn start(&self, interface: &Interface, command: &Command, fired: u32, full: WhenFull) -> Result<(), StartError> {
        self.0.check_lock();
        let payload = payload_of(interface, command)?;
        interface.send_request(command, fired, full, payload, |packet, _| {
            self.0.check_lock();
            self.0.keep(packet);
            Ok(())
        })
    }
    fn answers(&self, id: u64) -> bool {
        self.0.check_lock();
        id != TARGET || !self.0.is_lost.load(SeqCst)
    }
    fn post(&self, _: &Interface, _: u64, packet: &Packet, _: &mut Vec<u8>) -> Result<(), PostError> {
        self.0.check_lock();
        self.0.keep(packet);
        Ok(())
    }
    fn receive(&self) {
        self.0.check_lock();
    }
    fn stop_fetching(&self, _: &Interface) {
        self.0.check_lock();
    }
}

/// Makes a packet that links hand in while the program polls.
fn arrival<'a>(interface: &Interface, packet: &'a Packet, is_sender: &'a dyn Fn(u64) -> bool) -> Arrival<'a> {
    Arrival { pid: interface.id() as u32, ni: interface.number(), packet, in_call: true, is_sender }
}

fn open(directory: &TempDir) -> (Arc<Interface>, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let config = Config {
        mode: Mode::Nic,
        path: Path::Auto,
        spin_ns: 10_000_000,
        nap_ns: 1_000_000,
        directory: directory.path().to_path_buf(),
        nid: 0,
        token: 0,
    };
    let limits = Limits { pending: 8, ..SMALL }.clamped();
    let interface = Interface::open(Box::new(Home(kept.clone())), config, 0, 1, 0, &limits, ArenaRange::default());
    let interface = interface.expect("an interface");
    *kept.asker.lock().expect("no panic") = Some(interface.clone());
    (interface, kept)
}

fn ask(interface: &Interface, kept: &Kept, target: u64) -> Packet {
    let request = Request { kind: kind::PUT, ack: ack::FULL, ..Request::default() };
    let command = Command { request, target, user_ptr: 0, source: Side::NOWHERE, sink: Side::NOWHERE };
    interface.start(&command).expect("there is room");
    *kept.packets.lock().expect("no panic").last().expect("it was sent")
}

fn pending(interface: &Interface) -> usize {
    let mut count = 0;
    interface.lock().pending().find(|_, _| {
        count += 1;
        false
    });
    count
}

#[test]
fn a_response_counts_only_if_its_sender_was_asked() {
    let directory = TempDir::new().expect("a directory");
    let (interface, kept) = open(&directory);
    let request = ask(&interface, &kept, TARGET);
    let response = Packet { kind: RESPONSE, ..request };
    let (pid, ni) = (interface.id() as u32, interface.ni());
    assert_eq!(asked_bytes(pid, ni, &response), 0, "a put brings nothing back");
    assert_eq!(arrival(&interface, &response, &|id| id == OTHER).hand_in(&[]), None);
    assert_eq!(pending(&interface), 1, "the right response is still awaited");
    let forged = Packet { token: request.token ^ 1, ..response };
    assert_eq!(arrival(&interface, &forged, &|id| id == OTHER).hand_in(&[]), None);
    assert_eq!(pending(&interface), 1);
    assert_eq!(arrival(&interface, &response, &|id| id == TARGET).hand_in(&[]), None);
    assert_eq!(pending(&interface), 0);
    *kept.asker.lock().expect("no panic") = None;
}

#[test]
fn a_request_fails_alone_if_its_payload_is_unmapped_or_its_answer_cannot_be_read() {
    let directory = TempDir::new().expect("a directory");
    let (interface, kept) = open(&directory);
    let [one, two, three] = [(); 3].map(|()| ask(&interface, &kept, TARGET));
    fail_unreadable(&one, interface.number());
    assert_eq!(pending(&interface), 2);
    fail_unreadable(&one, interface.number());
    assert_eq!(pending(&interface), 2, "once");
    let answer = Packet { kind: RESPONSE, fail: fail::OK, length: 100, payload_bytes: 100, ..two };
    assert_eq!(arrival(&interface, &answer, &|id| id == OTHER).give_up(), None);
    assert_eq!(pending(&interface), 2, "another says so");
    assert_eq!(arrival(&interface, &answer, &|id| id == TARGET).give_up(), None);
    assert_eq!(pending(&interface), 1);
    assert_eq!(arrival(&interface, &Packet { kind: RESPONSE, ..three }, &|_| true).hand_in(&[]), None);
    assert_eq!(pending(&interface), 0);
    let request = Packet { origin: TARGET, ..one };
    let refused = arrival(&interface, &request, &|_| true).give_up().expect("it wants a response");
    assert_eq!((refused.kind, refused.fail, refused.token), (RESPONSE, fail::UNDELIVERABLE, one.token));
    let silent = Packet { token: 0, ..request };
    assert_eq!(arrival(&interface, &silent, &|_| true).give_up(), None);
    *kept.asker.lock().expect("no panic") = None;
}

#[test]
fn requests_to_a_lost_process_fail_and_the_others_wait() {
    let directory = TempDir::new().expect("a directory");
    let (interface, kept) = open(&directory);
    for target in [TARGET, OTHER, TARGET] {
        ask(&interface, &kept, target);
    }
    kept.is_lost.store(true, SeqCst);
    interface.must_tick.store(true, Relaxed);
    // The tick asks the home, which needs the NIC's lock.
    interface.tick();
    assert_eq!(pending(&interface), 1);
    assert_eq!(interface.lock().pending().find(|target, _| target != OTHER), None);
    *kept.asker.lock().expect("no panic") = None;
}

#[test]
fn the_payload_of_an_answer_goes_to_the_memory_that_asked_for_it() {
    let directory = TempDir::new().expect("a directory");
    let (interface, kept) = open(&directory);
    let mut memory = [0u8; 100];
    let sink = Side { start: memory.as_mut_ptr() as u64, ..Side::NOWHERE };
    let request = Request { kind: kind::GET, length: 100, ..Request::default() };
    let command = Command { request, target: TARGET, user_ptr: 0, source: Side::NOWHERE, sink };
    interface.start(&command).expect("there is room");
    let asked = *kept.packets.lock().expect("no panic").last().expect("it was sent");
    let response = Packet { kind: RESPONSE, length: 60, payload_bytes: 60, fail: fail::OK, ..asked };
    let is_target = |id| id == TARGET;
    let short = Packet { payload_bytes: 59, ..response };
    for (packet, is_sender) in [(&short, &is_target as &dyn Fn(u64) -> bool), (&response, &|id| id == OTHER)] {
        assert!(matches!(arrival(&interface, packet, is_sender).place(false), Placement::Whole));
    }
    let Placement::At { start, bytes, number, in_order } = arrival(&interface, &response, &is_target).place(false)
    else {
        panic!("it has a place");
    };
    assert_eq!((start as u64, bytes, in_order), (sink.start, 60, false));
    arrival(&interface, &response, &|id| id == OTHER).finish(number, PayloadEnd::Here);
    assert_eq!(pending(&interface), 1, "another says so");
    arrival(&interface, &response, &is_target).finish(number, PayloadEnd::Here);
    assert_eq!(pending(&interface), 0);
    *kept.asker.lock().expect("no panic") = None;
}

#[test]
fn the_payload_of_a_put_goes_to_the_entry_that_takes_it() {
    let directory = TempDir::new().expect("a directory");
    let (interface, kept) = open(&directory);
    let mut memory = [0u8; 64];
    {
        let mut nic = interface.lock();
        nic.portal_table().alloc(Some(0), 0, NONE).expect("room");
        let spec = EntrySpec {
            options: options::OP_PUT | options::USE_ONCE,
            start: memory.as_mut_ptr() as u64,
            length: 64,
            iov: NONE,
            iov_count: 0,
            match_bits: 1,
            ignore_bits: 0,
            source: 0,
            source_ignore: u64::MAX,
            min_free: 0,
            user_ptr: 0,
            counter: NONE,
            uid: u32::MAX,
        };
        nic.lists().append(&mut NoMemory, 0, list::PRIORITY, &spec).expect("room");
    }
    let put = Request { kind: kind::PUT, match_bits: 1, length: 100, ..Request::default() };
    let packet = Packet { origin: TARGET, token: 9, payload_bytes: 100, ..Packet::from(&put) };
    let is_target = |id| id == TARGET;
    let answers = || kept.packets.lock().expect("no panic").iter().map(|p| (p.fail, p.length)).collect::<Vec<_>>();
    let short = Packet { payload_bytes: 99, ..packet };
    assert!(matches!(arrival(&interface, &short, &is_target).place(false), Placement::Whole), "less than it claims");
    let placed = arrival(&interface, &packet, &is_target).place(false);
    let Placement::At { start, bytes, number, .. } = placed else { panic!("placed as {placed:?}") };
    assert_eq!((start, bytes), (memory.as_mut_ptr(), 64));
    assert_eq!(answers(), [], "its payload is to come");
    assert!(
        matches!(arrival(&interface, &packet, &is_target).place(false), Placement::Nothing),
        "a second packet is dropped, not placed"
    );
    assert_eq!(answers(), [(fail::DROPPED, 0)]);
    arrival(&interface, &packet, &is_target).finish(number, PayloadEnd::Lost);
    assert_eq!(answers()[1..], [(fail::UNDELIVERABLE, 0)]);
    arrival(&interface, &packet, &is_target).finish(number, PayloadEnd::Here);
    assert_eq!(answers().len(), 2, "it is finished once");
    *kept.asker.lock().expect("no panic") = None;
}
