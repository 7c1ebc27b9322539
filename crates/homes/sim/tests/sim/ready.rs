// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Built-in programs: each succeeds on a small machine and detects a wrong byte, and its measurements follow from the
//! machine's numbers.

use crate::common;

use std::sync::Arc;

use selvedge_fabric::NodeId;
use selvedge_nic::portals::Verdict;
use selvedge_nic::tables::Side;
use selvedge_nic::{Fault, Nic};
use selvedge_sim::machine::Machine;
use selvedge_sim::network::Network;
use selvedge_sim::node::{End, Incoming, Meter, Model, Options, Outcome, Ranks, Simulation, TimedRequest};
use selvedge_sim::program::ready::{self, ProgramError};
use selvedge_sim::program::{Results, Tasks};
use selvedge_sim::time::Time;

/// The small machine with fewer nodes, where changing a NIC's tables costs a round trip.
fn machine(overrides: &[(&str, &str)]) -> Arc<Machine> {
    let base = [("topology.dimensions", "[4, 3]"), ("host.round_trip_ns", "120")];
    common::machine(&[&base, overrides].concat())
}

/// Returns the name and the parameters of a program, from a command line.
pub fn words(line: &str) -> (String, Vec<(String, String)>) {
    let mut words = line.split_whitespace().map(str::to_owned);
    let name = words.next().unwrap();
    let rest: Vec<String> = words.collect();
    (name, rest.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

fn prepare(machine: &Arc<Machine>, ranks: u32, line: &str) -> Result<Tasks, ProgramError> {
    let (name, arguments) = words(line);
    Ok(ready::find(&name)?.prepare(ranks, machine, &arguments)?.tasks(ranks, machine))
}

fn run(machine: &Arc<Machine>, ranks: u32, line: &str) -> (Outcome, Results) {
    run_by(Model::Packet, machine, ranks, line)
}

fn run_by(network: Model, machine: &Arc<Machine>, ranks: u32, line: &str) -> (Outcome, Results) {
    let tasks = prepare(machine, ranks, line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let options = Options { network, ..Options::default() };
    let mut simulation = Simulation::new(machine.clone(), tasks, options).unwrap();
    let outcome = simulation.run(&mut |_| true);
    let results = simulation.ranks().results();
    (outcome, results)
}

fn first_of(results: &Results, series: &str, x: f64) -> f64 {
    let found = results.of(series).find(|(at, _)| *at == x);
    found.unwrap_or_else(|| panic!("no {series} at {x}: {results:?}")).1
}

/// Every program with all of its variants, small; the numbers of ranks; whether it has payload.
pub const LINES: &[(&str, &[u32], bool)] = &[
    ("ping-pong sizes 0,8,100,9000 iterations 3", &[2, 5], true),
    ("ping-pong sizes 8,2000 how counting iterations 3", &[2, 3], true),
    ("ping-pong sizes 8,2000 how flag iterations 3", &[2, 3], true),
    ("counting sizes 8,2000 iterations 3", &[2, 4], true),
    ("stream sizes 8,3000 iterations 2 window 8", &[2, 6], true),
    ("stream sizes 8,9000 iterations 2 window 4 directions both", &[2, 4], true),
    ("incast bytes 3000 messages 3", &[2, 9], true),
    ("incast bytes 3000 messages 3 eager-bytes 0", &[2, 9], true),
    ("overlap sizes 64,20000 iterations 2", &[2, 3], true),
    ("overlap sizes 64,20000 iterations 2 looks some", &[2], true),
    ("all-to-all sizes 1,40 iterations 3", &[2, 5, 9], true),
    ("all-to-all sizes 40,3000 iterations 3 protocol eager", &[2, 5], true),
    ("all-to-all sizes 40,3000 iterations 3 protocol eager receives after", &[2, 5], true),
    ("all-to-all sizes 40,3000 iterations 3 protocol rendezvous", &[2, 5], true),
    ("all-to-all sizes 8,40,3000 iterations 3 protocol triggered eager-bytes 0", &[2, 5, 9], true),
    ("all-to-all sizes 8,3000,40 iterations 3 protocol triggered eager-bytes 100", &[2, 5, 9], true),
    ("all-to-all sizes 40,3000 iterations 3 protocol counting", &[2, 5, 9], true),
    ("all-to-all sizes 40,3000 iterations 3 protocol flags", &[2, 5, 9], true),
    ("all-to-all sizes 40,3000 iterations 3 protocol barrier", &[2, 5, 9], true),
    ("halo cells 4 iterations 3", &[2, 6, 8], true),
    ("halo cells 5 iterations 3 dimensions 2", &[3, 9], true),
    ("halo cells 12 iterations 3 eager-bytes 0", &[8], true),
    ("halo cells 4 iterations 3 edges open", &[1, 2, 9], true),
    ("halo cells 5 iterations 4 dimensions 2 edges open sums 3 sum-ns 250", &[1, 2, 5, 9], true),
    ("commands bytes 40 count 30", &[2, 6], true),
    ("commands count 10 pause-ns 500", &[4], true),
    ("crossfire count 50", &[2, 6], true),
    ("crossfire count 50 refused receive", &[2], true),
    ("wavefront columns 20 rows 9 how counting", &[2, 5, 9], true),
    ("wavefront columns 20 rows 9 group 3 how flag", &[2, 5, 9], true),
    ("wavefront columns 20 rows 9 group 2 how messages", &[2, 5], true),
    ("barrier iterations 5", &[1, 2, 5, 9], false),
    ("barrier iterations 5 algorithm tree", &[2, 5, 9], false),
    ("barrier iterations 7 algorithm nic ahead 3", &[1, 2, 3, 5, 8, 9], false),
    ("allreduce sizes 8,160 iterations 3", &[1, 2, 5, 9], true),
    ("allreduce sizes 8,160 iterations 3 algorithm ring", &[1, 2, 5, 9], true),
    ("allreduce sizes 8,16000 iterations 3 algorithm binomial", &[1, 2, 5, 9], true),
    ("allreduce sizes 8,16000 iterations 3 algorithm rabenseifner", &[1, 2, 5, 7, 9], true),
    ("allreduce sizes 8,160 iterations 7 algorithm nic ahead 3", &[1, 2, 5, 8, 9], true),
    ("broadcast sizes 8,16000 iterations 3", &[2, 5, 9], true),
    ("broadcast sizes 8,16000 iterations 7 algorithm nic ahead 3", &[2, 5, 9], true),
    ("unexpected messages 4,30 bytes 24", &[2, 5], true),
    ("unexpected messages 4,30 order forward", &[2, 5], true),
    ("posted entries 0,5,20 bytes 16 iterations 3", &[2, 3], true),
    ("uniform messages 10 loads 0.2,0.9", &[2, 9], true),
    ("hotspot messages 10 loads 0.2", &[2, 9], true),
    ("locality messages 10 loads 0.2", &[2, 9, 12], true),
];

const MODELS: [Model; 2] = [Model::Packet, Model::Message];

#[test]
fn every_program_ends_well() {
    let machines = [machine(&[]), machine(&[("nic.mode", "\"host\""), ("nic.matching", "\"list\"")])];
    for (line, sizes, _) in LINES {
        for ranks in *sizes {
            for (machine, network) in machines.iter().flat_map(|machine| MODELS.map(|network| (machine, network))) {
                let (outcome, results) = run_by(network, machine, *ranks, line);
                let at = format!("{line}, {ranks} ranks, {:?}, {network:?}", machine.nic.mode);
                assert_eq!(outcome.end, End::Completed, "{at}");
                assert_eq!(outcome.code(), 0, "{at}: {:?}", results.wrong);
                assert!(results.wrong.is_empty(), "{at}");
                assert!(!results.points.is_empty(), "{at}: no results");
                assert!(
                    results.points.iter().all(|point| point.y.is_finite() && point.x.is_finite()),
                    "{at}: {results:?}"
                );
            }
        }
    }
    for ready in ready::all() {
        let known = ready.name == "replay" || LINES.iter().any(|(line, ..)| words(line).0 == ready.name);
        assert!(known, "{} is not tried", ready.name);
    }
}

/// Ranks in which one delivery with payload has one wrong bit.
struct Flipping {
    tasks: Tasks,
    seen: u64,
    at: u64,
}

impl Ranks for Flipping {
    fn size(&self) -> u32 {
        self.tasks.size()
    }
    fn resume(&mut self, rank: u32, now: Time) -> TimedRequest {
        self.tasks.resume(rank, now)
    }
    fn kill(&mut self, rank: u32) -> i32 {
        self.tasks.kill(rank)
    }
    fn take_released(&mut self) -> Option<u32> {
        self.tasks.take_released()
    }
    fn take_fired(&mut self) -> Option<(u32, u32)> {
        self.tasks.take_fired()
    }
    fn find(&mut self, from: u32, target: u64, ni: u32) -> Option<(u32, u32)> {
        self.tasks.find(from, target, ni)
    }
    fn route(&mut self, from: u32, target: u64, ni: u32) -> Option<u32> {
        self.tasks.route(from, target, ni)
    }
    fn with_nic(&mut self, rank: u32, ni: u32, work: &mut dyn FnMut(&mut Nic<'_>)) -> bool {
        self.tasks.with_nic(rank, ni, work)
    }
    fn deliver(
        &mut self,
        rank: u32,
        ni: u32,
        incoming: &Incoming<'_>,
        reply: &mut Vec<u8>,
        meter: &mut dyn Meter,
    ) -> Verdict {
        let Incoming { request, payload, .. } = *incoming;
        let mut changed = payload.to_vec();
        // The announcement of a long message has no payload of the program: the receive limits a wrong length.
        let is_word = request.portal == 0 && request.match_bits >> 63 != 0;
        if let Some(byte) = changed.last_mut().filter(|_| !is_word) {
            *byte ^= u8::from(self.seen == self.at);
            self.seen += 1;
        }
        let verdict = self.tasks.deliver(rank, ni, &Incoming { payload: &changed, ..*incoming }, reply, meter);
        if payload.is_empty() && !reply.is_empty() {
            let last = reply.len() - 1;
            reply[last] ^= u8::from(self.seen == self.at);
            self.seen += 1;
        }
        verdict
    }
    fn gather(&mut self, rank: u32, ni: u32, side: &Side, bytes: u64, into: &mut Vec<u8>) -> Result<(), Fault> {
        self.tasks.gather(rank, ni, side, bytes, into)
    }
    fn scatter(&mut self, rank: u32, ni: u32, side: &Side, from: &[u8]) -> Result<(), Fault> {
        self.tasks.scatter(rank, ni, side, from)
    }
}

#[test]
fn every_program_finds_a_wrong_bit() {
    let machine = machine(&[]);
    for (line, sizes, carries) in LINES.iter().filter(|(.., carries)| *carries) {
        let ranks = *sizes.last().unwrap();
        let run = |at: u64| {
            let tasks = prepare(&machine, ranks, line).unwrap();
            let flipping = Flipping { tasks, seen: 0, at };
            let options = Options { stuck_after: Time::from_ns(1_000_000), ..Options::default() };
            let mut simulation = Simulation::new(machine.clone(), flipping, options).unwrap();
            let outcome = simulation.run(&mut |_| true);
            (outcome, simulation.ranks().seen)
        };
        let (outcome, deliveries) = run(u64::MAX);
        assert_eq!((outcome.code(), *carries), (0, deliveries > 0), "{line}");
        for at in [0, deliveries / 3, deliveries / 2, deliveries - 1] {
            let (outcome, _) = run(at);
            let found = outcome.code() != 0 || outcome.end != End::Completed;
            assert!(found, "{line}, {ranks} ranks: delivery {at} of {deliveries} was wrong and nobody saw it");
        }
    }
}

#[test]
fn a_ping_takes_as_long_as_its_steps() {
    for (bytes, transfers) in [(8u64, false), (1024, true)] {
        let machine = machine(&[("nic.transfer_ns", "70"), ("nic.event_ns", "15")]);
        let (_, results) = run(&machine, 4, &format!("ping-pong sizes {bytes}"));
        let (host, nic) = (&machine.host, &machine.nic);
        let mut sent = host.software_send + host.doorbell + nic.command;
        if transfers {
            sent += nic.transfer + host.dma_read + Time::of_bytes(bytes, host.dma_bytes_per_s);
        }
        let network = Network::new(machine.topology.clone(), machine.routing.clone(), machine.network.clone()).unwrap();
        let wire = network.latency_empty(NodeId(0), NodeId(3), bytes as u32);
        let matched = nic.event + nic.entry_search + if bytes > 0 { nic.transfer } else { Time::ZERO };
        let told = host.software_receive + host.memory_access;
        let expected = (sent + wire + host.dma_write + matched + told).as_us_f64();
        let half = first_of(&results, "half round trip, us", bytes as f64);
        // Writing to memory starts when the header has been processed, and may end after the last byte has arrived.
        let slack = (nic.header + Time::of_bytes(bytes, host.dma_bytes_per_s)).as_us_f64();
        assert!(half >= expected - 1e-6 && half <= expected + slack, "{bytes} bytes: {half} us, not {expected} us");
    }
}

#[test]
fn a_run_is_the_same_every_time() {
    let machine = machine(&[]);
    for line in ["uniform messages 20", "allreduce sizes 8,800 algorithm ring", "all-to-all protocol triggered"] {
        let hash = || {
            let (outcome, results) = run(&machine, 9, line);
            (outcome.statistics.hash, outcome.time, results)
        };
        assert_eq!(hash(), hash(), "{line}");
    }
    let hash = |seed: u32| run(&machine, 9, &format!("uniform seed {seed}")).0.statistics.hash;
    assert_ne!(hash(1), hash(2), "the seed is of no use");
}

#[test]
fn invalid_parameters_are_named() {
    let machine = machine(&[]);
    let said = |ranks, line| match prepare(&machine, ranks, line) {
        Ok(_) => panic!("{line} is taken"),
        Err(error) => error.to_string(),
    };
    for (ranks, line, expected) in [
        (2, "pingpong", "known: ping-pong, counting, stream"),
        (2, "ping-pong length 8", "known: sizes, iterations, warm-up, how, eager-bytes"),
        (2, "ping-pong sizes eight", "whole numbers from 0"),
        (2, "ping-pong sizes 8 sizes 9", "given twice"),
        (2, "ping-pong iterations 0", "from 1 to"),
        (2, "barrier algorithm magic", "one of dissemination, tree, nic"),
        (1, "ping-pong", "at least 2 ranks, but the job has 1"),
        (3, "stream", "an even number of ranks"),
        (2, "allreduce sizes 12", "multiples of 8"),
        (9, "wavefront columns 5", "at least as many as there are ranks"),
        (2, "hotspot share 1.5", "from 0 to 1"),
        (12, "all-to-all sizes 1M..1024M protocol counting", "16 GB"),
        (2, "replay", "the path of a file"),
        (2, "replay trace /nowhere/at.all", "cannot read the trace /nowhere/at.all"),
    ] {
        let error = said(ranks, line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn a_trace_is_replayed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/traces/ring.trace");
    let machine = machine(&[]);
    let (outcome, results) = run(&machine, 4, &format!("replay trace {path}"));
    assert_eq!(results.wrong, []);
    assert_eq!(outcome.end, End::Completed);
    assert_eq!(results.of("end, us").count(), 4);
    let error = prepare(&machine, 5, &format!("replay trace {path}")).err().unwrap().to_string();
    assert!(error.contains("the 4 ranks of its trace"), "{error}");

    let text = std::fs::read_to_string(path).unwrap();
    let cut = std::env::temp_dir().join(format!("selvedge-cut-{}.trace", std::process::id()));
    std::fs::write(&cut, &text[..text.len() / 2]).unwrap();
    let error = prepare(&machine, 4, &format!("replay trace {}", cut.display())).err().unwrap().to_string();
    std::fs::remove_file(&cut).unwrap();
    assert!(error.contains(&format!("{}:", cut.display())), "{error}");
}

// ---- Measurements follow from the machine's numbers -----------------------------------------------------------------

#[test]
fn each_posted_receive_costs_its_search() {
    let machine = machine(&[("nic.matching", "\"list\""), ("nic.entry_search_ns", "30")]);
    let (_, results) = run(&machine, 2, "posted entries 0,100");
    let series = "half round trip, us";
    let each = (first_of(&results, series, 100.0) - first_of(&results, series, 0.0)) / 100.0;
    assert!((each - 0.030).abs() < 1e-6, "{each} us an entry");
}

#[test]
fn a_queue_of_unexpected_messages_is_walked_to_its_end() {
    let each = |matching: &str, messages: u32| {
        let machine = machine(&[("nic.matching", matching)]);
        let (_, results) = run(&machine, 2, &format!("unexpected messages {messages}"));
        first_of(&results, "a receive, ns", messages.into())
    };
    let list = each("\"list\"", 200) - each("\"list\"", 100);
    // On average 50 more entries are compared, at 10 ns each.
    assert!((list - 500.0).abs() < 20.0, "{list} ns");
    let hash = each("\"hash\"", 200) - each("\"hash\"", 100);
    assert!(hash.abs() < 10.0, "{hash} ns");
}

#[test]
fn counting_saves_a_round_trip() {
    let (_, results) = run(&machine(&[]), 2, "counting sizes 8");
    let ratio = first_of(&results, "flag over counting, ratio", 8.0);
    assert!(ratio > 1.8 && ratio < 3.5, "{ratio}");
}

#[test]
fn triggered_gets_need_no_program() {
    let machine = machine(&[("host.software_receive_ns", "3000")]);
    let time = |protocol: &str| {
        let (_, results) = run(&machine, 6, &format!("all-to-all sizes 512 protocol {protocol} eager-bytes 0"));
        first_of(&results, "all-to-all, us", 512.0)
    };
    let (triggered, rendezvous) = (time("triggered"), time("rendezvous"));
    assert!(triggered < rendezvous, "{triggered} {rendezvous}");
}

#[test]
fn a_nic_does_a_barrier_faster_than_its_hosts() {
    let machine = machine(&[("host.software_receive_ns", "1000"), ("host.software_send_ns", "1000")]);
    let time = |algorithm: &str| {
        let (_, results) = run(&machine, 9, &format!("barrier algorithm {algorithm}"));
        first_of(&results, "barrier, us", 9.0)
    };
    assert!(time("nic") < time("dissemination"));
}

/// When a count arrives, when the NIC has read what the count triggers, and when the program looks, differs with each
/// of these machines.
#[test]
fn collectives_by_nics_are_right_whoever_is_first() {
    let lines = [
        "barrier iterations 5 algorithm nic ahead 3",
        "allreduce sizes 8,2000 iterations 5 algorithm nic ahead 3",
        "broadcast sizes 8,2000 iterations 5 algorithm nic ahead 3",
        "all-to-all sizes 8,2000 iterations 5 protocol triggered eager-bytes 0",
    ];
    for latency in ["1", "100", "1000"] {
        for command in ["5", "70", "500"] {
            let machine = machine(&[("link.latency_ns", latency), ("nic.command_ns", command)]);
            for (line, ranks, network) in lines.iter().flat_map(|line| {
                [2, 3, 7, 8, 12].into_iter().flat_map(move |ranks| MODELS.map(|network| (line, ranks, network)))
            }) {
                let (outcome, results) = run_by(network, &machine, ranks, line);
                let at = format!("{line}, {ranks} ranks, latency {latency}, command {command}, {network:?}");
                assert_eq!((outcome.code(), &outcome.end), (0, &End::Completed), "{at}: {:?}", results.wrong);
            }
        }
    }
}

#[test]
fn more_streams_than_a_nic_knows_cost_time_but_no_message() {
    let time = |most: &str| {
        let machine = machine(&[("nic.streams_max", most), ("nic.retry_ns", "5000")]);
        let (outcome, results) = run(&machine, 9, "incast bytes 20000 messages 4");
        assert_eq!(outcome.code(), 0, "{:?}", results.wrong);
        (outcome.statistics.refused, first_of(&results, "until the last message, us", 8.0))
    };
    let ((none, free), (some, limited)) = (time("0"), time("2"));
    assert_eq!(none, 0);
    assert!(some > 0 && limited > free, "{some} refused, {limited} us against {free} us");
}
