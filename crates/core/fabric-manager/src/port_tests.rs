// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::id::Boot;
use std::vec;
use std::vec::Vec;

const MS: u64 = 1_000_000;

fn end(host: u64) -> End {
    End { host: HostId(host), boot: Boot(host), port: Port(0), session: 1 }
}

struct Lab {
    port: LinkPort,
    now_ns: u64,
    timing: Timing,
    events: Vec<Event>,
}

impl Lab {
    fn new() -> Lab {
        let mut lab = Lab { port: LinkPort::new(end(1)), now_ns: 0, timing: Timing::default(), events: Vec::new() };
        lab.port.set_carrier(0, Some(1500));
        lab.wait(1);
        lab
    }

    fn wait(&mut self, ms: u64) {
        self.now_ns += ms * MS;
        self.port.evaluate(self.now_ns, &self.timing);
        self.port.note_lasting(self.now_ns, &self.timing, &mut self.events);
    }

    fn hear(&mut self, from: End, number: u32, echo: Option<End>) {
        let echo = echo.map(|end| Echo { end, sent_ns: self.now_ns - 5_000, held_ns: 2_000 });
        let hello = Hello { mtu: 1500, number, sent_ns: 7, echo };
        self.port.hear(self.now_ns, from, &hello, &self.timing, &mut self.events);
        self.port.evaluate(self.now_ns, &self.timing);
    }

    fn echoes(&mut self) -> Option<End> {
        self.port.hello(self.now_ns, &self.timing).echo.map(|echo| echo.end)
    }
}

#[test]
fn a_link_comes_up_through_one_way_and_falls_by_silence() {
    let mut lab = Lab::new();
    assert_eq!((lab.port.state(), lab.echoes()), (State::Probing, None));
    lab.hear(end(2), 1, None);
    assert_eq!((lab.port.state(), lab.echoes()), (State::OneWay, Some(end(2))));
    lab.hear(end(2), 2, Some(lab.port.end()));
    assert_eq!((lab.port.state(), lab.port.up()), (State::Up, Some(end(2))));
    assert_eq!(lab.port.rtt_ns(), Some(3_000), "round trip without the time held");
    lab.wait(349);
    assert_eq!(lab.port.state(), State::Up);
    lab.wait(1);
    assert_eq!((lab.port.state(), lab.echoes(), lab.port.end().session), (State::Probing, None, 2));
}

#[test]
fn an_echo_of_another_session_or_end_does_not_bring_the_link_up() {
    let mut lab = Lab::new();
    for wrong in [
        End { session: 9, ..lab.port.end() },
        End { boot: Boot(9), ..lab.port.end() },
        End { port: Port(9), ..lab.port.end() },
    ] {
        lab.hear(end(2), 1, Some(wrong));
        assert_eq!(lab.port.state(), State::OneWay, "{wrong:?}");
        lab.wait(400);
    }
}

#[test]
fn the_loss_of_the_echo_takes_the_link_down_at_once() {
    let mut lab = Lab::new();
    lab.hear(end(2), 1, Some(lab.port.end()));
    lab.hear(end(2), 2, None);
    assert_eq!(lab.port.state(), State::OneWay);
    for number in 3..12 {
        lab.wait(100);
        lab.hear(end(2), number, None);
    }
    assert!(matches!(lab.events[..], [Event::OneWay { .. }]), "{:?}", lab.events);
}

#[test]
fn late_hellos_are_ignored_and_missing_ones_counted() {
    let mut lab = Lab::new();
    lab.hear(end(2), 10, Some(lab.port.end()));
    lab.hear(end(2), 14, Some(lab.port.end()));
    assert_eq!(lab.port.counters().hellos_lost, 3);
    // A late one, without an echo, and one of an earlier session.
    lab.hear(end(2), 12, None);
    lab.hear(End { session: 0, ..end(2) }, 13, None);
    assert_eq!((lab.port.state(), lab.port.counters().hellos_lost), (State::Up, 3));
    // A number that begins anew after 2^32.
    lab.wait(400);
    lab.hear(end(2), u32::MAX, Some(lab.port.end()));
    lab.hear(end(2), 1, Some(lab.port.end()));
    assert_eq!(lab.port.counters().hellos_lost, 4);
}

#[test]
fn the_first_of_several_neighbours_stays() {
    let mut lab = Lab::new();
    let own = lab.port.end();
    for number in 1..5 {
        lab.hear(end(2), number, Some(own));
        lab.hear(end(3), number, Some(own));
        assert_eq!(lab.port.up(), Some(end(2)));
        lab.wait(100);
    }
    assert_eq!(lab.events, vec![Event::Crowded { port: Port(0), neighbour: end(2), other: end(3) }]);
    // The first one goes: the other takes its place after the silence.
    for number in 5..9 {
        lab.wait(100);
        lab.hear(end(3), number, None);
    }
    assert_eq!(lab.port.neighbour(), Some(end(3)));
    assert!(matches!(lab.events[1], Event::Moved { .. }));
}

#[test]
fn own_hellos_block_only_a_port_that_hears_no_other() {
    let mut lab = Lab::new();
    lab.hear(End { port: Port(4), ..end(1) }, 1, None);
    assert_eq!((lab.port.state(), lab.echoes()), (State::Blocked(Block::Loop { port: Port(4) }), None));
    lab.hear(end(2), 1, Some(lab.port.end()));
    assert_eq!(lab.port.state(), State::Up);
    lab.hear(End { boot: Boot(77), ..end(1) }, 1, None);
    assert_eq!(lab.port.state(), State::Up, "a frame thrown back disturbs nothing");
    lab.wait(400);
    lab.hear(End { boot: Boot(77), ..end(1) }, 1, None);
    assert_eq!(lab.port.state(), State::Blocked(Block::SameHost { boot: Boot(77) }));
    lab.wait(3_000);
    assert_eq!(lab.port.state(), State::Probing, "the block ends");
}

#[test]
fn refused_frames_block_an_idle_port_and_are_reported_rarely() {
    let mut lab = Lab::new();
    let mut reports = 0;
    for _ in 0..100 {
        reports += u32::from(lab.port.refuse(lab.now_ns, Some(Block::Key), &lab.timing));
        lab.wait(10);
    }
    assert_eq!((reports, lab.port.state()), (1, State::Blocked(Block::Key)));
    lab.hear(end(2), 1, Some(lab.port.end()));
    assert_eq!(lab.port.state(), State::Up, "a valid hello ends the block");
    lab.port.refuse(lab.now_ns, Some(Block::Version { is: 9 }), &lab.timing);
    lab.wait(1);
    assert_eq!(lab.port.state(), State::Up);
    assert_eq!(lab.port.counters().frames_refused, 101);
}

#[test]
fn drops_are_free_three_times_and_then_cost_more_each_time() {
    let mut lab = Lab::new();
    let (mut number, mut pauses) = (0, Vec::new());
    for _ in 0..7 {
        let mut pause_ms = 0;
        loop {
            number += 1;
            lab.hear(end(2), number, Some(lab.port.end()));
            if lab.port.state() == State::Up {
                break;
            }
            lab.wait(50);
            pause_ms += 50;
        }
        pauses.push(pause_ms);
        number += 1;
        lab.hear(end(2), number, None);
    }
    assert_eq!(pauses, [0, 0, 0, 0, 350, 700, 1400]);
    // A quiet time is the end of it.
    lab.wait(30_000);
    number += 1;
    lab.hear(end(2), number, Some(lab.port.end()));
    lab.hear(end(2), number + 1, None);
    assert_eq!(lab.port.state(), State::OneWay);
}

#[test]
fn hellos_become_rare_where_nobody_answers() {
    let mut lab = Lab::new();
    lab.port.hello(lab.now_ns, &lab.timing);
    assert_eq!(lab.port.due_ns(&lab.timing) - lab.now_ns, 100 * MS);
    lab.wait(5_001);
    lab.port.hello(lab.now_ns, &lab.timing);
    assert_eq!(lab.port.due_ns(&lab.timing) - lab.now_ns, 1_000 * MS);
    assert_eq!(lab.events, vec![Event::NoManager { port: Port(0) }]);
}
