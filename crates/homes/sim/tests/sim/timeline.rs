// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timelines of real runs, checked against Google's "Trace Event Format" by a reader written for this test; and the
//! spans of single messages.

use crate::common;

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::NodeId;
use selvedge_sim::machine::Machine;
use selvedge_sim::node::trace::{Span, Trace, Unit};
use selvedge_sim::node::{End, Options, Simulation};
use selvedge_sim::program::{Body, Needs, Process, Tasks};
use selvedge_sim::report::channels::channel_name;
use selvedge_sim::report::timeline::{self, Names};
use selvedge_sim::time::Time;
use serde_json::Value;

use common::machine;

fn run(
    machine: &Arc<Machine>,
    ranks: u32,
    options: Options,
    needs: Needs,
    body: impl Fn(Process) -> Body,
) -> Simulation<Tasks> {
    let tasks = Tasks::new(ranks, machine, &needs, body);
    let mut simulation = Simulation::new(machine.clone(), tasks, options).unwrap();
    let outcome = simulation.run(&mut |_| true);
    assert_eq!((outcome.end, outcome.codes), (End::Completed, vec![Some(0); ranks as usize]));
    simulation
}

fn text(machine: &Machine, trace: &Trace, nodes: &[u32]) -> String {
    let names = Names {
        title: "a test",
        nodes,
        node: &|node| machine.topology.node_name(NodeId(node)),
        channel: &|channel| channel_name(&machine.topology, channel),
    };
    let mut out = Vec::new();
    timeline::write(trace, &names, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A track of the viewer: process and thread.
type Track = (u64, u64);

/// A span of the file, in nanoseconds.
#[derive(Clone, Debug)]
struct Slice {
    track: Track,
    name: String,
    start: u64,
    end: u64,
    message: Option<u64>,
}

struct Timeline {
    processes: BTreeMap<u64, String>,
    threads: BTreeMap<Track, String>,
    slices: Vec<Slice>,
    /// Slices that the arrows of each message connect.
    flows: BTreeMap<u64, Vec<usize>>,
}

/// Converts microseconds with at most three decimals to nanoseconds.
fn nanoseconds(value: &Value) -> u64 {
    let ns = value.as_f64().unwrap_or_else(|| panic!("{value} is not a time")) * 1000.0;
    assert!(ns >= 0.0 && (ns - ns.round()).abs() < 1e-3 * ns.max(1.0), "{value} us");
    ns.round() as u64
}

/// Reads a timeline; panics at everything that the format does not allow.
fn read(text: &str) -> Timeline {
    let json: Value = serde_json::from_str(text).unwrap();
    assert!(matches!(json["displayTimeUnit"].as_str(), Some("ns" | "ms")));
    let (mut processes, mut threads) = (BTreeMap::new(), BTreeMap::new());
    let mut slices: Vec<Slice> = Vec::new();
    // By id: whether the flow has ended, the time of its last event, and its slices.
    let mut open: BTreeMap<u64, (bool, u64, Vec<usize>)> = BTreeMap::new();
    let mut last: BTreeMap<Track, u64> = BTreeMap::new();
    for event in json["traceEvents"].as_array().unwrap() {
        let phase = event["ph"].as_str().unwrap_or_else(|| panic!("no ph in {event}"));
        let id = |key: &str| event[key].as_u64().unwrap_or_else(|| panic!("no {key} in {event}"));
        let track = (id("pid"), id("tid"));
        let name = event["name"].as_str().unwrap_or_else(|| panic!("no name in {event}")).to_owned();
        if phase == "M" {
            let named = event["args"]["name"].as_str().map(str::to_owned);
            let twice = match name.as_str() {
                "process_name" => processes.insert(track.0, named.expect("a name")).is_some(),
                "thread_name" => threads.insert(track, named.expect("a name")).is_some(),
                "process_sort_index" | "thread_sort_index" => !event["args"]["sort_index"].is_u64(),
                other => panic!("unknown metadata {other}"),
            };
            assert!(!twice, "{event}");
            continue;
        }
        let at = nanoseconds(&event["ts"]);
        match phase {
            "X" => {
                let end = at + nanoseconds(&event["dur"]);
                let before = last.insert(track, at).unwrap_or(0);
                assert!(before <= at, "times of a track go back: {event}");
                let message = event["args"]["message"].as_u64();
                slices.push(Slice { track, name, start: at, end, message });
            }
            "s" | "t" | "f" => {
                let flow = id("id");
                assert!(event["cat"].is_string(), "{event}");
                // The slice that encloses the event, the innermost, which is the last. An end needs binding point "e" for that.
                assert!(phase != "f" || event["bp"] == "e", "{event}");
                let inside = |slice: &Slice| slice.track == track && slice.start <= at && at <= slice.end;
                let slice = slices.iter().rposition(inside).unwrap_or_else(|| panic!("no slice around {event}"));
                assert_eq!(slices[slice].message, Some(flow), "{event}");
                let state = open.get_mut(&flow);
                match (phase, state) {
                    ("s", None) => drop(open.insert(flow, (false, at, vec![slice]))),
                    ("t" | "f", Some((ended, time, through))) if !*ended && *time <= at => {
                        (*ended, *time) = (phase == "f", at);
                        through.push(slice);
                    }
                    (_, state) => panic!("{event} after {state:?}"),
                }
            }
            "i" => assert!(matches!(event["s"].as_str(), Some("g" | "p" | "t")), "{event}"),
            other => panic!("unknown phase {other}"),
        }
    }
    for slice in &slices {
        assert!(threads.contains_key(&slice.track), "the thread of {slice:?} has no name");
        assert!(processes.contains_key(&slice.track.0), "the process of {slice:?} has no name");
    }
    for (flow, (ended, _, through)) in &open {
        assert!(*ended && through.len() > 1, "flow {flow} has no end");
    }
    // Slices of one track are nested or disjoint.
    let mut tracks: BTreeMap<Track, Vec<&Slice>> = BTreeMap::new();
    slices.iter().for_each(|slice| tracks.entry(slice.track).or_default().push(slice));
    for slices in tracks.values() {
        let mut around: Vec<&Slice> = Vec::new();
        for slice in slices {
            around.retain(|outer| outer.end > slice.start);
            if let Some(outer) = around.last() {
                assert!(slice.end <= outer.end, "{slice:?} begins in {outer:?} and ends beyond it");
            }
            around.push(slice);
        }
    }
    let flows = open.into_iter().map(|(flow, (_, _, through))| (flow, through)).collect();
    Timeline { processes, threads, slices, flows }
}

impl Timeline {
    /// "node 0, host: send".
    fn words(&self, slice: usize) -> String {
        let Slice { track, name, .. } = &self.slices[slice];
        format!("{}, {}: {name}", self.processes[&track.0], self.threads[track])
    }
}

#[test]
fn a_message_can_be_followed_there_and_back() {
    let machine = machine(&[]);
    let options = Options { trace_limit: 10_000, ..Options::default() };
    let simulation = run(&machine, 2, options, Needs::default(), |process| {
        Box::pin(async move {
            if process.rank() == 0 {
                process.put_acknowledged(1, 0, &[7; 8]).await;
                process.fence().await;
                process.get(1, 0, 64, 2000).await;
                process.fence().await;
                process.put_counting(1, 0, 0, &[1]).await;
            } else {
                process.wait_count(0, 1).await;
            }
            0
        })
    });
    let timeline = read(&text(&machine, simulation.trace(), &[0, 1]));
    let routers = [0, 1].map(|router| machine.topology.router_name(selvedge_fabric::RouterId(router)));
    let there = [
        "node 0, host: send".to_owned(),
        "node 0, NIC, sending: command".to_owned(),
        "node 0, on the wire: request".to_owned(),
        format!("fabric, node 0 -> {}: packet", routers[0]),
        format!("fabric, {} -> {}: packet", routers[0], routers[1]),
        format!("fabric, {} -> node 1: packet", routers[1]),
        "node 1, NIC, receiving: header".to_owned(),
        "node 1, NIC, receiving: match".to_owned(),
    ];
    let back = [
        "node 1, NIC, sending: command".to_owned(),
        "node 1, on the wire: response".to_owned(),
        format!("fabric, node 1 -> {}: packet", routers[1]),
        format!("fabric, {} -> {}: packet", routers[1], routers[0]),
        format!("fabric, {} -> node 0: packet", routers[0]),
        "node 0, NIC, receiving: header".to_owned(),
    ];
    let whole: Vec<String> = there.iter().chain(&back).cloned().collect();
    let words = |message: u64| -> Vec<String> {
        let mut words: Vec<String> = timeline.flows[&message].iter().map(|&slice| timeline.words(slice)).collect();
        // Consecutive spans of one unit count once.
        words.dedup();
        words
    };
    assert_eq!(timeline.flows.len(), 3);
    assert_eq!(words(1), whole);
    // A reply of two packets: the same units, with the spans of the second packet between those of the first.
    let mut get = words(2);
    get.sort();
    get.dedup();
    let mut places = whole.clone();
    places.sort();
    assert_eq!(get, places);
    assert_eq!(words(3), there);
}

#[test]
fn busy_timelines_are_as_the_format_demands_and_the_same_again() {
    for (ranks, each, limit) in [(8, 1, 100_000), (8, 4, 100_000), (6, 2, 333), (1, 1, 100)] {
        let machine = machine(&[("nic.streams_max", "1"), ("nic.retry_ns", "500")]);
        let nodes: Vec<u32> = (0..ranks).map(|rank| rank / each).collect();
        let once = || {
            let options = Options { trace_limit: limit, placement: nodes.clone(), ..Options::default() };
            let needs = Needs { memory_bytes: 1 << 16, ..Needs::default() };
            let simulation = run(&machine, ranks, options, needs, |process| {
                Box::pin(async move {
                    let (rank, size) = (process.rank(), process.size());
                    for other in (1..size).map(|step| (rank + step) % size) {
                        process.put(other, 0, &vec![1; 3000]).await;
                        process.put_acknowledged(other, 4096, &[2; 200]).await;
                        process.compute(Time::from_ns(u64::from(rank) * 100)).await;
                        process.get(other, 0, 8192, 5000).await;
                    }
                    process.fence().await;
                    0
                })
            });
            let written = text(&machine, simulation.trace(), &nodes);
            let timeline = read(&written);
            let (kept, left_out) = (simulation.trace().spans.len(), simulation.trace().left_out);
            assert_eq!((timeline.slices.len(), left_out > 0), (kept, limit < 1000 && ranks > 1));
            assert!(ranks == 1 || timeline.flows.len() > 10, "{} flows", timeline.flows.len());
            written
        };
        assert!(once() == once(), "{ranks} ranks: two timelines differ");
    }
}

/// Messages of a node leave it one after the other: a message is on the wire when its own first byte leaves, not while
/// it is queued behind others.
#[test]
fn a_message_that_waits_behind_others_is_not_yet_on_the_wire() {
    // Buffers are never full, so only its own packets delay a node.
    let machine = machine(&[("link.buffer_flits", "1024")]);
    let options = Options { trace_limit: 10_000, ..Options::default() };
    let needs = Needs { memory_bytes: 1 << 16, ..Needs::default() };
    let simulation = run(&machine, 2, options, needs, |process| {
        Box::pin(async move {
            if process.rank() == 0 {
                for bytes in [16 << 10, 32 << 10, 8, 16 << 10, 0] {
                    process.put_counting(1, 0, 0, &vec![1; bytes]).await;
                }
            } else {
                process.wait_count(0, 5).await;
            }
            0
        })
    });
    let out = machine.topology.injection_channel(NodeId(0));
    let spans = &simulation.trace().spans;
    let first = |unit: Unit, message: u64| -> &Span {
        let all = spans.iter().filter(|span| span.unit == unit && span.message == message);
        all.min_by_key(|span| span.start).expect("a span")
    };
    for message in 1..=5 {
        let (wire, channel) = (first(Unit::Wire, message), first(Unit::Channel(out), message));
        assert_eq!(wire.start, channel.start, "message {message}: {wire:?} and {channel:?}");
    }
    let leaves = |message: u64| first(Unit::Wire, message).start;
    // The 32 KiB of the second message take this long to leave, whatever follows them.
    assert!(leaves(3) - leaves(2) > Time::from_ns(30_000), "{} and {}", leaves(2), leaves(3));
}
