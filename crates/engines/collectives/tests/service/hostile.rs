// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invalid messages to the manager and to a node: they harm at most their sender, and groups of others stay right.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::process::{packet_of, send};
use common::{
    Choices, Job, Process, SECRET, SILENCE, jobs_shown, link_settings, nodes, serve, settings, until, wait_for_nothing,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use selvedge_collectives::service::NODES_AT;
use selvedge_collectives::service::session;
use selvedge_collectives::service::wire::{LinkBytes, ManagerReply, ManagerRequest, VERSION, from_bytes, to_bytes};
use selvedge_net::session::{MESSAGE_BYTES_MAX, Session};
use selvedge_net::{ADDRESS_BYTES, Links, PeerId};
use selvedge_nic::aggregation::message::{Distribution, Failed, Join, Operand, Reduction, Sender, Target};
use selvedge_nic::aggregation::{Failure, Message};
use selvedge_nic::packet::Packet;
use selvedge_nic::tables::kind;
use selvedge_process::settings::ManagerAt;

const LINK: LinkBytes = LinkBytes([9; ADDRESS_BYTES]);

fn begin(manager: &ManagerAt) -> Session {
    Session::connect(manager.at, SECRET, SILENCE).expect("the right secret")
}

/// The manager's last message in a session.
fn last_answer(session: &Session) -> Option<ManagerReply> {
    let mut last = None;
    while let Ok(message) = session.receive() {
        last = Some(from_bytes(&message).expect("the manager's words"));
    }
    last
}

#[test]
fn nonsense_to_the_manager_ends_only_its_own_session() {
    let manager = serve(settings());
    let nodes = nodes(&manager, 2);
    let job = Job::begin(&manager, 1, &[0, 1]).expect("a share");
    let handles = job.group(1).expect("room");
    let mut choices = Choices(5);
    let mut open = Vec::new();
    for round in 0..40 {
        let mut stream = TcpStream::connect(manager.at).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a time");
        let mut junk: Vec<u8> = (0..choices.below(200)).map(|_| choices.next() as u8).collect();
        if round % 4 == 0 {
            // A length that no message has.
            junk.splice(0..0, [0xff; 4]);
        }
        let _ = stream.write_all(&junk);
        let _ = stream.read(&mut [0; 64]);
        open.push(stream);
    }
    let say = |words: &ManagerRequest| to_bytes(words);
    let node =
        |version, place| ManagerRequest::Node { version, place, host: String::new(), link: LINK, jobs: Vec::new() };
    let nested = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let first_words = [
        (b"".to_vec(), "invalid message"),
        (b"\xff\xfe".to_vec(), "invalid message"),
        (b"{\"Nothing\":{}}".to_vec(), "invalid message"),
        (nested, "invalid message"),
        (say(&node(VERSION + 1, 0)), "speaks version"),
        (say(&ManagerRequest::Show { version: u32::MAX }), "speaks version"),
        (say(&ManagerRequest::Share { version: 0, job: [1, !1], places: vec![0] }), "speaks version"),
        (say(&ManagerRequest::Share { version: VERSION, job: [2, 2], places: Vec::new() }), "names no host"),
        (
            say(&ManagerRequest::Share { version: VERSION, job: [2, 2], places: (0..10_000).collect() }),
            "hosts is reached",
        ),
        (say(&ManagerRequest::Done { number: 7 }), "never sent"),
    ];
    for (words, expected) in &first_words {
        let session = begin(&manager);
        session.send(words).expect("it listens");
        match last_answer(&session) {
            Some(ManagerReply::Refused { why }) => assert!(why.contains(expected), "{why} instead of {expected}"),
            other => panic!("{other:?} instead of {expected}"),
        }
    }
    // Longer than any message.
    let session = begin(&manager);
    let _ = session.send(&vec![b' '; MESSAGE_BYTES_MAX + 1]);
    assert_eq!(last_answer(&session), None);
    // Another secret.
    let other = ManagerAt { secret: b"another".to_vec(), ..manager.clone() };
    assert!(session::manager_report(&other).is_err());
    assert!(session::request_share(&other, [3, 3], &[0]).is_err());
    // The manager ignores messages of a process after its share.
    let session = begin(&manager);
    session.send(&say(&ManagerRequest::Share { version: VERSION, job: [4, 4], places: vec![1] })).expect("it listens");
    session.receive().expect("a share");
    for words in [say(&ManagerRequest::Done { number: 1 }), say(&node(VERSION, 1)), b"nothing".to_vec()] {
        session.send(&words).expect("it listens");
    }
    drop(session);
    assert!(job.operate(&handles, 1, 20).iter().all(Result::is_ok), "the group continues");
    job.leave(&handles);
    job.works(2, 2, 20);
    drop(job);
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn a_node_that_lies_about_its_steps_is_without_effect_when_it_has_ended() {
    let manager = serve(settings());
    let nodes = nodes(&manager, 2);
    for round in 0..4 {
        let session = begin(&manager);
        let node = ManagerRequest::Node {
            version: VERSION,
            place: 40,
            host: "liar".to_owned(),
            link: LINK,
            jobs: vec![(1, 1)],
        };
        session.send(&to_bytes(&node)).expect("it listens");
        assert!(matches!(from_bytes(&session.receive().expect("an answer")), Ok(ManagerReply::Welcome { .. })));
        for number in [0, 99, u64::MAX] {
            session.send(&to_bytes(&ManagerRequest::Done { number })).expect("it listens");
        }
        if round % 2 == 0 {
            session.send(b"and more").expect("it listens");
        }
        drop(session);
        until("it is gone", || {
            let shown = session::manager_report(&manager).unwrap_or_default();
            !shown.hosts.iter().any(|host| host.name == "liar" && host.node_address.is_some())
        });
        let job = Job::begin(&manager, 10 + round, &[0, 1]).expect("a share");
        job.works(1, round, 20);
    }
    wait_for_nothing(&manager, &nodes);
}

/// A packet of an attacker. Small numbers select values that are valid at the node.
#[derive(Clone, Debug)]
struct Forged {
    is_message: bool,
    kind: u8,
    choices: [u8; 8],
    wild: [u64; 4],
    payload: usize,
    length: u8,
    pid: u32,
}

fn forged() -> impl Strategy<Value = Forged> {
    let wild =
        prop::array::uniform4(prop_oneof![0..40u64, any::<u64>(), any::<u32>().prop_map(|high| u64::from(high) << 32)]);
    let kinds = prop_oneof![9 => kind::AGGREGATION_REQUEST..=kind::AGGREGATION_DOWN, 1 => any::<u8>()];
    let sizes = prop_oneof![Just(0), Just(8), 0..600usize];
    let pids = prop_oneof![3 => Just(1000u32), 1 => any::<u32>()];
    (any::<bool>(), kinds, any::<[u8; 8]>(), wild, sizes, any::<u8>(), pids).prop_map(
        |(is_message, kind, choices, wild, payload, length, pid)| Forged {
            is_message,
            kind,
            choices,
            wild,
            payload,
            length,
            pid,
        },
    )
}

/// The attacker's knowledge: its own job's key and group, and the numbers of another's.
struct Known {
    key: u64,
    jobs: [u32; 2],
    handles: [u64; 3],
    bytes: u32,
    join: Join,
}

impl Forged {
    fn packet(&self, known: &Known) -> Packet {
        let [a, b, c, d, e, f, g, h] = self.choices.map(usize::from);
        let [first, second, third, fourth] = self.wild;
        let job = [known.jobs[0], known.jobs[1], first as u32][a % 3];
        let handle = [known.handles[0], known.handles[1], known.handles[2], second][b % 4];
        let number = [first % 8, first, third][c % 3];
        let bytes = [self.payload as u32, known.bytes + 1, second as u32][usize::from(self.length) % 3];
        // A random target: members are numbered from 1 by their links.
        let address = [u64::from(d as u32 % 8) << 32 | 1000, NODES_AT | (d as u64 % 4), fourth][e % 3];
        let target = (f % 4 == 0).then(|| {
            let way = [Distribution::Alone, Distribution::Multicast, Distribution::Both][f / 4 % 3];
            Target { distribution: way, address, handle: second }
        });
        let operation = [2, 0, 9, self.choices[6]][g % 4];
        let datatype = [9, 1, self.choices[7]][h % 3];
        let reduction = Reduction { operation, datatype, index: 0, bytes, target };
        let child = selvedge_nic::aggregation::message::Child { job, number: number as u32, handle };
        let message = match self.kind % 8 {
            0..3 => {
                Message::Request(Operand { group: handle, child: (d % 3) as u32, number, reduction, failure: None })
            }
            3 => Message::Leave(child),
            4 => Message::Fail(child, Failure::Lost),
            5 => Message::Failed(Failed { group: handle, failure: Failure::Left }),
            _ => {
                let expected = std::array::from_fn(|level| [1, 2, third as u16][self.choices[level % 8] as usize % 3]);
                let (options, credits) = (self.choices[0], [1, 4, u16::MAX][f % 3]);
                let members = [1, 2, fourth as u32][e % 3];
                Message::Join(Join {
                    job,
                    number: number as u32,
                    options,
                    expected,
                    credits,
                    members,
                    order: d as u32,
                    ..known.join
                })
            }
        };
        let key = if a % 5 == 4 { fourth } else { known.key };
        let request = message.encode(Sender { address: 0, key });
        let packet = packet_of(&request, self.pid, &[]);
        let payload_bytes = self.payload as u64;
        if self.is_message {
            return Packet { payload_bytes, ..packet };
        }
        Packet {
            kind: self.kind,
            operand: [[request.operand[0], second][a % 2], first, third, fourth],
            header_data: [number, first << 32 | second][b % 2],
            portal: [job, d as u32 % 3, third as u32][c % 3],
            length: [payload_bytes, u64::from(bytes), u64::MAX][usize::from(self.length) % 3],
            payload_bytes,
            ..packet
        }
    }
}

#[test]
fn forged_packets_of_a_member_harm_no_other_job() {
    let manager = serve(settings());
    let nodes = nodes(&manager, 2);
    let good = Job::begin(&manager, 1, &[0, 1, 0]).expect("a share");
    let handles = good.group(1).expect("room");
    let of_good = good.processes[0].membership(handles[0]);
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let name = std::cell::Cell::new(100);
    let forged = proptest::collection::vec(forged(), 1..60);
    let tested = runner.run(&forged, |forged| {
        name.set(name.get() + 1);
        let bad = Job::begin(&manager, name.get(), &[0, 1]).expect("a share");
        let group = bad.group(1).expect("room");
        let attacker: &Process = &bad.processes[0];
        let of_bad = attacker.membership(group[0]);
        let granted = &attacker.session.granted;
        let (to, join) = granted.join(2, 0, &bad.nodes()).expect("a tree");
        let known = Known {
            key: granted.key,
            jobs: [granted.job, of_good.job],
            handles: [of_bad.handle, of_good.handle, group[0]],
            bytes: of_bad.bytes,
            join,
        };
        for packet in &forged {
            attacker.send_packet(to, &packet.packet(&known), &vec![0x3f; packet.payload]);
        }
        let ended = good.operate(&handles, name.get(), 3);
        prop_assert!(ended.iter().all(Result::is_ok), "{ended:?}");
        drop(bad);
        until("no group of the attacker is left", || nodes.iter().all(|node| node.in_use() == (1, 1)));
        Ok(())
    });
    tested.unwrap_or_else(|error| panic!("{error}"));
    good.leave(&handles);
    good.works(2, 1, 20);
    drop(good);
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn packets_that_links_refuse_end_their_sender_only() {
    let manager = serve(settings());
    let nodes = nodes(&manager, 2);
    let good = Job::begin(&manager, 1, &[0, 1]).expect("a share");
    let handles = good.group(1).expect("room");
    for (nth, (payload_bytes, length)) in
        [(u64::MAX, u64::MAX), (1 << 40, 1 << 40), (1 << 20, 1 << 20), (u64::MAX, 0), (0, 64), (3, 64)]
            .into_iter()
            .enumerate()
    {
        let bad = Job::begin(&manager, 10 + nth as u64, &[0, 1]).expect("a share");
        let group = bad.group(1).expect("room");
        let attacker = &bad.processes[0];
        let record = attacker.membership(group[0]);
        let reduction = Reduction { operation: 2, datatype: 1, index: 0, bytes: 64, target: None };
        let operand = Operand { group: record.handle, child: record.child, number: 0, reduction, failure: None };
        let request = Message::Request(operand).encode(Sender { address: 0, key: record.key });
        let packet = Packet { payload_bytes, length, ..packet_of(&request, attacker.pid, &[]) };
        attacker.send_packet(record.node, &packet, &[1; 64]);
        assert!(good.operate(&handles, nth as u64, 10).iter().all(Result::is_ok), "the group continues");
    }
    // Links without the secret.
    let settings = selvedge_net::Settings { secret: b"another".to_vec(), ..link_settings() };
    struct Nobody(std::sync::atomic::AtomicBool);
    impl selvedge_net::Sink for Nobody {
        fn packet(
            &self,
            _: PeerId,
            _: selvedge_net::NicName,
            _: &[u8; 128],
            _: &[u8],
            _: selvedge_net::ProgressCaller,
        ) {
        }
        fn payload_max(&self, _: PeerId, _: selvedge_net::NicName, _: &[u8; 128]) -> u64 {
            0
        }
        fn lost(&self, _: PeerId) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }
    let nobody = std::sync::Arc::new(Nobody(false.into()));
    let links = Links::open(settings, nobody.clone()).expect("links");
    let peer = links.peer(good.processes[0].session.links[0].1);
    let _ = send(&links, peer, 1, &Packet { kind: kind::AGGREGATION_UP, ..Packet::default() }, &[]);
    until("it is refused", || nobody.0.load(std::sync::atomic::Ordering::SeqCst));
    links.close();
    assert!(good.operate(&handles, 99, 10).iter().all(Result::is_ok), "the group continues");
    assert_eq!(jobs_shown(&manager).map(|_| ()), Some(()));
    good.leave(&handles);
    drop(good);
    wait_for_nothing(&manager, &nodes);
}
