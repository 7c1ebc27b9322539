// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The smallest engine that runs processes: a network without latency, hosts without cost. What is started is delivered at once
//! and answered at once; who waits is let go on, round robin. For tests: what fails here is no matter of time.
use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::tables::{Command, kind};
use selvedge_nic::{Fault, NoMemory, Step};
use selvedge_sim::node::{Ask, Meter, Ranks};
use selvedge_sim::processes::Processes;
use selvedge_sim::time::Time;

use super::{Job, Launch, launch};

struct Free;

impl Meter for Free {
    fn charge(&mut self, _: Step) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its turn comes at this time; sooner, if its NIC changes before.
    Waits { until: Time, nic: bool },
    Blocked,
    Ended(i32),
}

const PAUSE: Time = Time::from_ns(100);
const PAUSE_LONGEST: Time = Time::from_ns(10_000_000);

const READY: State = State::Waits { until: Time::ZERO, nic: false };

pub struct Ended {
    pub code: u8,
    pub hash: u64,
    pub turns: u64,
    pub codes: Vec<i32>,
    pub time: Time,
    pub stuck: bool,
    pub notes: Vec<String>,
    pub overhead: super::Overhead,
}

struct Twin {
    ranks: Processes<Job>,
    states: Vec<State>,
    clocks: Vec<Time>,
    /// How long each rests after a look in vain: longer each time.
    pauses: Vec<Time>,
    hash: u64,
    turns: u64,
}

/// Runs a job to its end.
pub fn run(what: Launch) -> Ended {
    let ranks = launch(what).expect("a job");
    let size = ranks.size() as usize;
    let mut twin =
        Twin { ranks, states: vec![READY; size], clocks: vec![Time::ZERO; size], pauses: vec![PAUSE; size], hash: 0xcbf2_9ce4_8422_2325, turns: 0 };
    let stuck = twin.run();
    let codes = twin.states.iter().map(|state| if let State::Ended(code) = state { *code } else { -1 }).collect();
    let time = twin.clocks.iter().copied().max().unwrap_or(Time::ZERO);
    let job = twin.ranks.into_launcher();
    let (notes, overhead) = (job.notes().to_vec(), job.overhead());
    Ended { code: job.finish(), hash: twin.hash, turns: twin.turns, codes, time, stuck, notes, overhead }
}

impl Twin {
    /// The rank whose turn is next goes first. True: nobody's is, and not all have ended.
    fn run(&mut self) -> bool {
        let mut in_vain = 0;
        while self.ranks.launcher().over().is_none() {
            let due = |rank: usize| match self.states[rank] {
                State::Waits { until, .. } if until != Time::MAX => Some((until.max(self.clocks[rank]), rank)),
                _ => None,
            };
            let Some((at, rank)) = (0..self.states.len()).filter_map(due).min() else {
                return self.states.iter().any(|state| !matches!(state, State::Ended(_)));
            };
            self.clocks[rank] = at;
            in_vain = if self.turn(rank as u32) { in_vain + 1 } else { 0 };
            if in_vain > 100_000 {
                return true;
            }
        }
        false
    }

    fn note(&mut self, words: &[u64]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
        }
    }

    /// Whether it was a look in vain.
    fn turn(&mut self, rank: u32) -> bool {
        let at = rank as usize;
        self.states[at] = READY;
        let turn = self.ranks.resume(rank, self.clocks[at]);
        self.turns += 1;
        assert!(turn.at >= self.clocks[at], "time goes on");
        self.clocks[at] = turn.at;
        if std::env::var_os("SELVEDGE_TWIN_TRACE").is_some() {
            eprintln!("{rank} {:?} {:?}", turn.at, turn.ask);
        }
        let in_vain = matches!(turn.ask, Ask::Poll);
        if !in_vain {
            self.pauses[at] = PAUSE;
        }
        match turn.ask {
            Ask::Start { ni, command, payload } => {
                self.note(&[u64::from(rank), turn.at.0, u64::from(command.kind), command.target, command.length]);
                self.start(rank, ni, &command, &payload);
            }
            Ask::Wait { until } => {
                self.note(&[u64::from(rank), turn.at.0, 101]);
                self.states[at] = State::Waits { until, nic: true };
            }
            Ask::Poll => {
                self.note(&[u64::from(rank), turn.at.0, 102]);
                self.states[at] = State::Waits { until: turn.at + self.pauses[at], nic: true };
                self.pauses[at] = (self.pauses[at] * 2).min(PAUSE_LONGEST);
            }
            Ask::Sleep { until } => {
                self.note(&[u64::from(rank), turn.at.0, 103, until.0]);
                self.states[at] = State::Waits { until, nic: false };
            }
            Ask::Blocked { .. } => {
                self.note(&[u64::from(rank), turn.at.0, 104]);
                self.states[at] = State::Blocked;
            }
            Ask::Ended { code } => {
                self.note(&[u64::from(rank), turn.at.0, 105, code as u64]);
                self.states[at] = State::Ended(code);
            }
        }
        while let Some((rank, ni)) = self.ranks.take_fired() {
            self.fire(rank, ni);
        }
        while let Some(released) = self.ranks.take_released() {
            assert_eq!(self.states[released as usize], State::Blocked);
            self.states[released as usize] = READY;
            self.clocks[released as usize] = self.clocks[released as usize].max(turn.at);
        }
        in_vain
    }

    fn wake(&mut self, rank: u32, now: Time) {
        if let State::Waits { until, nic: true } = &mut self.states[rank as usize] {
            *until = now.min(*until);
        }
    }

    fn start(&mut self, from: u32, ni: u32, command: &Command, payload: &[u8]) {
        let now = self.clocks[from as usize];
        let mut reply = Vec::new();
        let to = self.ranks.find(command.target, ni);
        let delivery = match to {
            None => Delivery::failed(fail::UNDELIVERABLE),
            Some(to) => match self.ranks.deliver(to, ni, &command.request, payload, &mut reply, &mut Free) {
                Verdict::Done(delivery) => delivery,
                Verdict::Unreachable => Delivery::failed(fail::DROPPED),
                Verdict::Initiator(Fault::Gone) => Delivery::failed(fail::UNDELIVERABLE),
                Verdict::Initiator(_) => Delivery::failed(fail::SEGV),
            },
        };
        let mut delivery = delivery;
        let fetches = !matches!(command.kind, kind::PUT | kind::ATOMIC);
        if fetches && delivery.fail == fail::OK {
            let bytes = reply.len().min(delivery.mlength as usize);
            if self.ranks.scatter(from, ni, &command.sink, &reply[..bytes]).is_err() {
                (delivery.fail, delivery.mlength) = (fail::SEGV, 0);
            }
        }
        let mut fired = false;
        let sent = if to.is_none() { fail::UNDELIVERABLE } else { fail::OK };
        self.ranks.with_nic(from, ni, &mut |nic| {
            nic.complete_send(command, sent);
            nic.complete_response(command, &delivery);
            fired = nic.has_fired();
        });
        self.wake(from, now);
        if fired {
            self.fire(from, ni);
        }
        if let Some(to) = to {
            let mut fired = false;
            self.ranks.with_nic(to, ni, &mut |nic| fired = nic.has_fired());
            self.wake(to, now);
            if fired {
                self.fire(to, ni);
            }
        }
    }

    fn fire(&mut self, rank: u32, ni: u32) {
        loop {
            let mut fired = None;
            self.ranks.with_nic(rank, ni, &mut |nic| {
                fired = nic.next_fired(&mut NoMemory, u64::from(rank) + 1);
                if let Some(fired) = &fired {
                    nic.finish_fired(fired.index);
                }
            });
            let now = self.clocks[rank as usize];
            self.wake(rank, now);
            let Some(fired) = fired else { return };
            let mut payload = Vec::new();
            if fired.command.kind != kind::GET {
                let command = &fired.command;
                if self.ranks.gather(rank, ni, &command.source, command.length, &mut payload).is_err() {
                    continue;
                }
            }
            self.start(rank, ni, &fired.command, &payload);
        }
    }
}

/// `SELVEDGE_TWIN="4 program args"`: runs that, for a look.
#[test]
fn runs_what_is_asked_for() {
    let Ok(line) = std::env::var("SELVEDGE_TWIN") else { return };
    let mut words = line.split_ascii_whitespace();
    let ranks = words.next().and_then(|word| word.parse().ok()).expect("ranks");
    let command = words.map(Into::into).collect();
    let costs = selvedge_vclock::Costs { call_ps: 50_000, look_ps: 10_000, clock_ps: 20_000, compute_ppm: 0 };
    let start = std::time::Instant::now();
    let tag_output = std::env::var_os("SELVEDGE_TWIN_TAG").is_some();
    let ended = run(Launch { ranks, command, costs, tag_output, ..Launch::default() });
    eprintln!(
        "twin: code {}, codes {:?}, stuck {}, {} turns, time {:?}, hash {:016x}, {:.0} ns for a turn (least {}), {} ms, {:?}",
        ended.code,
        ended.codes,
        ended.stuck,
        ended.turns,
        ended.time,
        ended.hash,
        ended.overhead.wall_ns as f64 / ended.overhead.turns as f64,
        ended.overhead.least_ns,
        start.elapsed().as_millis(),
        ended.notes,
    );
}
