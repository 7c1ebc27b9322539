// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One manager, and a neighbour that the test plays: which frames answer which.

mod common;

use common::{MS, config};
use selvedge_fabric::Port;
use selvedge_fabric_manager::announcement::{Announced, Announcement, LinkEnd};
use selvedge_fabric_manager::wire::{Body, Echo, Edition, Hello};
use selvedge_fabric_manager::{Block, Boot, Config, Effect, End, Frame, FrameError, HostId, Manager, State};

struct Lab {
    manager: Manager,
    now_ns: u64,
    number: u32,
}

fn neighbour(port: u16) -> End {
    End { host: HostId(50 + u64::from(port)), boot: Boot(5), port: Port(0), session: 1 }
}

fn announced(host: u64, sequence: u64) -> Announced {
    let body = Announcement { name: format!("n{host}"), ..Announcement::default() }.encode();
    let edition = Edition { host: HostId(host), sequence, boot: Boot(5) };
    Announced { edition, lifetime_ms: 60_000, body }
}

impl Lab {
    /// Two ports, both up.
    fn new() -> Lab {
        let config = Config { boot: Boot(9), ..config(0, 2) };
        let mut lab = Lab { manager: Manager::new(config, 0), now_ns: 0, number: 0 };
        for port in 0..2 {
            lab.manager.carrier(0, Port(port), Some(1500));
            lab.hello(port);
        }
        // The own announcement has been made, acknowledged, and is quiet.
        for _ in 0..10 {
            let sent = lab.wait(50);
            for port in 0..2 {
                let all = sent.iter().filter(|(at, _)| *at == port).flat_map(|(_, body)| match body {
                    Body::Announcements(all) => all.iter().map(|each| each.edition).collect(),
                    _ => Vec::new(),
                });
                let all: Vec<Edition> = all.collect();
                lab.say(port, Body::Acknowledgements(all));
            }
        }
        assert!(lab.manager.is_settled());
        assert!(lab.manager.ports().all(|port| port.state() == State::Up));
        lab
    }

    fn hello(&mut self, port: u16) {
        let frames = self.sent();
        let own = frames.iter().rev().find(|frame| frame.sender.port.0 == port).map(|frame| frame.sender);
        let own = own.unwrap_or(End { session: 1, host: common::id(0), boot: Boot(9), port: Port(port) });
        self.number += 1;
        let echo = Some(Echo { end: own, sent_ns: self.now_ns, held_ns: 0 });
        let hello = Hello { mtu: 1500, number: self.number, sent_ns: self.now_ns, echo };
        self.say(port, Body::Hello(hello));
    }

    fn say(&mut self, port: u16, body: Body) {
        let frame = Frame { sender: neighbour(port), body };
        self.manager.frame(self.now_ns, Port(port), &frame.encode());
    }

    fn sent(&mut self) -> Vec<Frame> {
        let effects = self.manager.take_effects();
        let frame = |effect: &Effect| match effect {
            Effect::Send { frame, .. } => Some(Frame::decode(frame).unwrap()),
            _ => None,
        };
        effects.iter().filter_map(frame).collect()
    }

    /// Lets time pass, with hellos; returns the other frames that were sent, by port.
    fn wait(&mut self, ms: u64) -> Vec<(u16, Body)> {
        let mut frames = self.sent();
        for _ in 0..ms {
            self.now_ns += MS;
            self.manager.tick(self.now_ns);
            frames.extend(self.sent());
            if self.now_ns % (100 * MS) == 0 {
                let own = |port| End { session: 1, host: common::id(0), boot: Boot(9), port: Port(port) };
                for port in 0..2 {
                    self.number += 1;
                    let echo = Some(Echo { end: own(port), sent_ns: self.now_ns, held_ns: 0 });
                    let hello = Hello { mtu: 1500, number: self.number, sent_ns: self.now_ns, echo };
                    self.say(port, Body::Hello(hello));
                }
                frames.extend(self.sent());
            }
        }
        let others = frames.into_iter().filter(|frame| !matches!(frame.body, Body::Hello(_)));
        others.map(|frame| (frame.sender.port.0, frame.body)).collect()
    }

    /// Says something, and returns the answers within 50 ms.
    fn ask(&mut self, port: u16, body: Body) -> Vec<(u16, Body)> {
        self.say(port, body);
        self.wait(50)
    }
}

fn editions(of: &[(u16, Body)], at: u16) -> Vec<Edition> {
    let announced = |body: &Body| match body {
        Body::Announcements(all) => all.iter().map(|each| each.edition).collect(),
        _ => Vec::new(),
    };
    of.iter().filter(|(port, _)| *port == at).flat_map(|(_, body)| announced(body)).collect()
}

fn acknowledged(of: &[(u16, Body)], at: u16) -> Vec<Edition> {
    let acknowledged = |body: &Body| match body {
        Body::Acknowledgements(all) => all.clone(),
        _ => Vec::new(),
    };
    of.iter().filter(|(port, _)| *port == at).flat_map(|(_, body)| acknowledged(body)).collect()
}

#[test]
fn newer_goes_on_equal_is_acknowledged_older_is_answered() {
    let mut lab = Lab::new();
    let new = announced(7, 5);
    let answers = lab.ask(0, Body::Announcements(vec![new.clone()]));
    assert_eq!((acknowledged(&answers, 0), editions(&answers, 0)), (vec![new.edition], vec![]));
    assert_eq!(editions(&answers, 1), [new.edition]);
    // The other neighbour acknowledges, and then sends it too.
    lab.ask(1, Body::Acknowledgements(vec![new.edition]));
    let answers = lab.ask(1, Body::Announcements(vec![new.clone()]));
    assert_eq!(acknowledged(&answers, 1), [new.edition]);
    assert_eq!((editions(&answers, 0), editions(&answers, 1)), (vec![], vec![]));
    let older = announced(7, 4);
    let answers = lab.ask(1, Body::Announcements(vec![older.clone()]));
    assert_eq!(acknowledged(&answers, 1), [older.edition]);
    assert_eq!(editions(&answers, 1), [new.edition], "ours");
    assert_eq!(editions(&answers, 0), []);
}

#[test]
fn an_announcement_is_repeated_until_it_is_acknowledged() {
    let mut lab = Lab::new();
    let new = announced(7, 5);
    lab.say(0, Body::Announcements(vec![new.clone()]));
    let sent = editions(&lab.wait(450), 1);
    assert_eq!(sent, vec![new.edition; 5]);
    // An acknowledgement of an earlier one changes nothing.
    lab.say(1, Body::Acknowledgements(vec![announced(7, 4).edition]));
    assert_eq!(editions(&lab.wait(100), 1).len(), 1);
    lab.say(1, Body::Acknowledgements(vec![new.edition]));
    assert_eq!(editions(&lab.wait(500), 1), []);
    assert!(lab.manager.is_settled());
    assert_eq!(lab.manager.ports().nth(1).unwrap().counters().repeats, 5);
}

#[test]
fn the_own_announcement_outbids_one_of_the_past() {
    let mut lab = Lab::new();
    let mut past = announced(0, 40);
    past.edition.host = common::id(0);
    lab.say(0, Body::Announcements(vec![past.clone()]));
    let answers = lab.wait(200);
    for port in 0..2 {
        let mut sent = editions(&answers, port);
        sent.dedup();
        assert_eq!(sent.iter().map(|each| (each.sequence, each.boot)).collect::<Vec<_>>(), [(41, Boot(9))]);
    }
}

#[test]
fn frames_of_another_session_or_sender_change_nothing() {
    let mut lab = Lab::new();
    for wrong in [
        End { session: 2, ..neighbour(0) },
        End { boot: Boot(6), ..neighbour(0) },
        End { port: Port(3), ..neighbour(0) },
        neighbour(1),
    ] {
        let frame = Frame { sender: wrong, body: Body::Announcements(vec![announced(7, 5)]) };
        lab.manager.frame(lab.now_ns, Port(0), &frame.encode());
    }
    assert_eq!(lab.wait(50), []);
    assert_eq!(lab.manager.ports().next().unwrap().counters().frames_refused, 4);
    assert_eq!(lab.manager.announcements(), 1);
}

#[test]
fn a_large_table_waits_for_acknowledgements() {
    let mut lab = Lab::new();
    for host in 100..700 {
        lab.say(0, Body::Announcements(vec![announced(host, 1)]));
    }
    let sent = editions(&lab.wait(90), 1);
    assert_eq!(sent.len(), 256, "a window of announcements");
    sent.chunks(40).for_each(|some| lab.say(1, Body::Acknowledgements(some.to_vec())));
    assert_eq!(editions(&lab.wait(90), 1).len(), 256);
}

#[test]
fn another_version_blocks_an_idle_port_and_leaves_one_that_is_up() {
    let mut lab = Lab::new();
    let mut bytes = Frame { sender: neighbour(0), body: Body::Hello(Hello::default()) }.encode();
    bytes[4] = 2;
    assert_eq!(Frame::decode(&bytes), Err(FrameError::Version { is: 2 }));
    lab.manager.frame(lab.now_ns, Port(0), &bytes);
    assert_eq!(lab.manager.ports().next().unwrap().state(), State::Up);
    lab.now_ns += 1_000 * MS;
    lab.manager.tick(lab.now_ns);
    lab.manager.frame(lab.now_ns, Port(0), &bytes);
    assert_eq!(lab.manager.ports().next().unwrap().state(), State::Blocked(Block::Version { is: 2 }));
}

#[test]
fn links_that_only_the_neighbour_announces_give_no_route() {
    let mut lab = Lab::new();
    let link = LinkEnd {
        port: Port(0),
        neighbour: common::id(0),
        check: Boot(8).check(),
        neighbour_port: Port(0),
        cost: 1,
        mtu: 1500,
    };
    let say = |lab: &mut Lab, sequence, check| {
        let body = Announcement { links: vec![LinkEnd { check, ..link }], ..Announcement::default() }.encode();
        let edition = Edition { host: HostId(50), sequence, boot: Boot(5) };
        lab.ask(0, Body::Announcements(vec![Announced { edition, lifetime_ms: 60_000, body }]));
    };
    say(&mut lab, 1, Boot(8).check());
    assert_eq!(lab.manager.routes().count(), 0, "a link to an earlier boot of this host");
    say(&mut lab, 2, Boot(9).check());
    assert_eq!(lab.manager.routes().count(), 1);
}
