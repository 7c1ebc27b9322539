// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Machines in several parts whose links, routers and ranks fail, and whose links lose packets: the same as in one part.

use std::sync::Arc;

use selvedge_fabric::RouterId;
use selvedge_sim::machine::Machine;
use selvedge_sim::node::{Death, Fault, Options, whole};
use selvedge_sim::random::Random;
use selvedge_sim::rerouting::channels_of;
use selvedge_sim::time::Time;

use crate::common;
use crate::parts::{Seen, assert_alike, in_one_part, in_parts, prepared};
use crate::ready::LINES;

const TORUS: [(&str, &str); 2] = [("topology.dimensions", "[4, 3]"), ("host.round_trip_ns", "120")];

fn torus(overrides: &[(&str, &str)]) -> Arc<Machine> {
    common::machine(&[&TORUS, overrides].concat())
}

/// Small machines without losses.
fn sound() -> Vec<Arc<Machine>> {
    let retransmission = [("link.retransmission", "{ timeout_ns = 3000, window_flits = 256 }")];
    vec![
        torus(&[]),
        common::dragonfly(),
        torus(&[("nic.mode", "\"host\""), ("nic.matching", "\"list\"")]),
        torus(&retransmission),
        torus(&[("nic.streams_max", "1"), ("nic.retry_ns", "700")]),
        torus(&[("switch.speed_up", "2"), ("nic.receive_flits", "256")]),
    ]
}

fn ns(random: &mut Random, below: u64) -> Time {
    Time::from_ns(random.below(below))
}

/// Some links and a router that fail. About half of them return.
fn faults(machine: &Machine, random: &mut Random, number: u64) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fail = |channels: Vec<u32>, at: Time, back: Option<Time>| {
        for channel in channels {
            faults.push(Fault { at, channel, up: false });
            faults.extend(back.map(|back| Fault { at: at + Time(1) + back, channel, up: true }));
        }
    };
    for _ in 0..number {
        let channel = random.below(machine.topology.channels().into()) as u32;
        let (at, back) = (ns(random, 15_000), ns(random, 8_000));
        fail(vec![channel], at, random.chance(0.5).then_some(back));
    }
    if random.chance(0.3) {
        let router = RouterId(random.below(machine.topology.routers().into()) as u32);
        let (at, back) = (ns(random, 15_000), ns(random, 8_000));
        fail(channels_of(&machine.topology, router), at, random.chance(0.5).then_some(back));
    }
    faults
}

fn deaths(random: &mut Random, ranks: u32) -> Vec<Death> {
    let number = random.below(3);
    (0..number).map(|_| Death { at: ns(random, 15_000), rank: random.below(ranks.into()) as u32 }).collect()
}

/// Runs all programs in one part and in several. `case` draws a machine and options, which say nothing of placement.
/// Returns what each run in one part showed, and the number of runs that were divided.
fn run_all(seed: u64, case: impl Fn(&mut Random, u32) -> (Arc<Machine>, Options)) -> (Vec<Seen>, usize) {
    let (mut all, mut divided) = (Vec::new(), 0);
    let cases = LINES.iter().flat_map(|(line, sizes, _)| sizes.iter().map(move |&ranks| (line, ranks)));
    for (number, (line, ranks)) in cases.enumerate() {
        let mut random = Random::new(seed, number as u64);
        let (machine, options) = case(&mut random, ranks);
        let nodes = machine.topology.nodes();
        let placement = (0..ranks).map(|rank| rank * 5 % nodes).collect();
        let options = Options { placement, ..options };
        assert_eq!(whole(&machine, &options), None);
        let prepared = prepared(&machine, ranks, line);
        let one = in_one_part(&machine, ranks, &prepared, &options);
        let threads = 1 + number as u32 % 8;
        let (several, parts) = in_parts(&machine, ranks, &prepared, &options, threads);
        assert_alike(&one, &several, &format!("{line}, {ranks} ranks, {threads} threads, case {number}"));
        divided += usize::from(parts > 1);
        all.push(one);
    }
    (all, divided)
}

/// Returns the number of runs whose field of this name contains a text.
fn with(all: &[Seen], name: &str, text: &str) -> usize {
    all.iter().flatten().filter(|(field, seen)| *field == name && seen.contains(text)).count()
}

/// Returns the number of runs that have lost messages.
fn lossy(all: &[Seen]) -> usize {
    all.len() - with(all, "statistics", " lost: 0,")
}

#[test]
fn every_number_of_threads_runs_programs_with_faults_alike() {
    let machines = sound();
    let (all, divided) = run_all(11, |random, _| {
        let machine = &machines[random.below(machines.len() as u64) as usize];
        let number = 1 + random.below(5);
        let faults = faults(machine, random, number);
        (machine.clone(), Options { faults, ..Options::default() })
    });
    let (stuck, completed) = (with(&all, "end", "Stuck"), with(&all, "end", "Completed"));
    let lossy = lossy(&all);
    assert!(divided > 80 && lossy > 20 && stuck > 10 && completed > 30, "{divided} {lossy} {stuck} {completed}");
}

#[test]
fn every_number_of_threads_loses_the_same_packets() {
    let rates = |loss: &'static str, corruption: &'static str| [("link.loss", loss), ("link.corruption", corruption)];
    let retransmission = [("link.retransmission", "{ timeout_ns = 3000, window_flits = 256 }")];
    let streams = [("nic.streams_max", "1"), ("nic.retry_ns", "700")];
    let machines = [
        torus(&rates("0.002", "0.001")),
        torus(&[&rates("0.001", "0.001")[..], &streams].concat()),
        torus(&[&rates("0.02", "0.01")[..], &retransmission].concat()),
        torus(&[&rates("0.001", "0")[..], &[("nic.mode", "\"host\""), ("nic.matching", "\"list\"")]].concat()),
    ];
    let (all, divided) = run_all(12, |random, _| {
        let machine = &machines[random.below(machines.len() as u64) as usize];
        let number = random.below(2);
        let faults = faults(machine, random, number);
        (machine.clone(), Options { faults, ..Options::default() })
    });
    let (stuck, completed) = (with(&all, "end", "Stuck"), with(&all, "end", "Completed"));
    let lossy = lossy(&all);
    assert!(divided > 80 && lossy > 20 && stuck > 10 && completed > 30, "{divided} {lossy} {stuck} {completed}");
}

#[test]
fn every_number_of_threads_kills_ranks_alike() {
    let machines = sound();
    let (all, divided) = run_all(13, |random, ranks| {
        let machine = &machines[random.below(machines.len() as u64) as usize];
        let (deaths, number) = (deaths(random, ranks), random.below(2));
        let faults = faults(machine, random, number);
        let keep_going = random.chance(0.7);
        (machine.clone(), Options { faults, deaths, keep_going, ..Options::default() })
    });
    let killed = with(&all, "ranks", "Some(137)");
    let (stuck, died) = (with(&all, "end", "Stuck"), with(&all, "end", "Died"));
    assert!(divided > 80 && killed > 40 && stuck > 10 && died > 10, "{divided} {killed} {stuck} {died}");
}
