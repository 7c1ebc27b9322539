// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of a constructed run: names and units stay, pictures and pages are well-formed, every arrow has both ends.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use selvedge_document::{Block, html};
use serde_json::Value;

use super::describe::{Deadlock, Facts};
use super::run::{Run, pairs_of};
use super::timeline::{self, Names, Written};
use super::{Fabric, Samples, Wall};
use crate::congestion::Header;
use crate::machine::Machine;
use crate::machine::load::from_text;
use crate::network::{Arrival, Network, NetworkEvent, Packet};
use crate::node::trace::{Span, Trace, Unit};
use crate::node::{End, Model, Outcome, Progress, RegionReports, RegisterSums, Statistics, Waiting};
use crate::program::results::{Mistake, Point, Results};
use crate::queue::Queue;
use crate::time::Time;
use selvedge_fabric::NodeId;

const MACHINE: &str = r#"
name = "small <&> odd"
about = "a torus for tests"
[topology]
kind = "torus"
dimensions = [4, { value = 4, source = "a \"square\"" }]
[routing]
algorithm = "dimension-order"
[link]
bandwidth_MBps = { value = 1000, source = "assumed" }
latency_ns = 10
flit_bytes = 32
packet_bytes = 1024
virtual_channels = 2
buffer_flits = 64
retransmission = { timeout_ns = 100, window_flits = 128 }
[switch]
latency_ns = 20
[host]
doorbell_ns = 100
dma_read_ns = 200
dma_write_ns = 200
dma_MBps = 2000
memory_access_ns = 80
copy_MBps = 4000
caches = [{ bytes = 32768, access_ns = 2 }]
[nic]
mode = "nic"
matching = "hash"
command_ns = 50
header_ns = 50
entry_search_ns = 5
"#;

fn machine() -> Arc<Machine> {
    Arc::new(from_text(Path::new("small.toml"), MACHINE, &[]).unwrap())
}

/// A network on which every node has sent to its neighbour, and the time at which the last packet arrived.
fn used_network(machine: &Machine) -> (Network, Time) {
    let mut network = Network::new(machine.topology.clone(), machine.routing.clone(), machine.network.clone()).unwrap();
    let mut queue: Queue<NetworkEvent> = Queue::new();
    for node in 0..16 {
        let to = NodeId((node + 5) % 16);
        let packet = Packet { from: NodeId(node), to, bytes: 64 * node, message: 0, last: true, header: Header::PLAIN };
        network.inject(Time::ZERO, packet, &mut queue);
    }
    let mut end = Time::ZERO;
    while let Some((now, event)) = queue.take() {
        network.handle(now, event, &mut queue);
        while let Some(arrival) = network.take_arrival() {
            assert!(matches!(arrival, Arrival::Delivered(_)));
            end = now;
        }
    }
    (network, end)
}

fn run(end: End) -> Run {
    let machine = machine();
    let (network, time) = used_network(&machine);
    let mut statistics = Statistics { events: 1000, messages: 16, payload_bytes: 7680, ..Statistics::default() };
    (1..=100).for_each(|n| statistics.latency.record(n * 10_000).unwrap());
    let mut samples = Samples::default();
    for n in 0..20 {
        samples.add(&Progress {
            time: Time::from_ns(n * 50),
            events: n,
            hops: n,
            messages: n,
            ranks_ended: 0,
            ranks: 16,
        });
    }
    Run {
        fabric: Fabric::of(&network, time),
        machine,
        program: "all-to-all".into(),
        parameters: vec![("bytes".into(), "64".into())],
        ranks: 16,
        nodes_used: 16,
        network: Model::Packet,
        options: vec![("seed".into(), "1".into())],
        results: Results {
            points: [(8.0, 1.5), (64.0, 2.5), (1024.0, 9.0)]
                .map(|(x, y)| Point { series: "half round trip, us", x, y })
                .into(),
            wrong: vec![Mistake { rank: 3, what: "byte 5 is 7, not 8".into() }],
            wrong_count: 9,
        },
        results_x: "bytes".into(),
        jobs: None,
        outcome: Outcome {
            end,
            time,
            ended: (0..16).map(|rank| Some(Time::from_ns(900 + rank))).collect(),
            codes: vec![Some(0); 16],
            commands: Vec::new(),
            fairness: None,
            registers: RegisterSums::default(),
            statistics,
            rerouting: None,
            regions: RegionReports::default(),
            observed: None,
        },
        samples,
        heat: None,
        pairs: pairs_of(&trace(3, 1000)),
        spans: Some((12, 3)),
        notes: vec!["rank 3 forked <once> & went on".into()],
        wall: None,
    }
}

fn waiting() -> Vec<Waiting> {
    let waiting = Waiting {
        rank: 7,
        what: "waits for its NIC".into(),
        since_ns: 1500,
        unanswered: 1,
        receives: vec!["portal 0, source any, bits 0x2a".into()],
    };
    vec![waiting; 30]
}

/// Messages between two nodes, through host, NICs, wire and one channel; number `n` starts at n ns.
fn trace(messages: u64, limit: usize) -> Trace {
    let mut trace = Trace::new(limit);
    for message in 1..=messages {
        let t = |ns: u64| Time::from_ps((message + ns) * 1000 + 250);
        let mut add = |node, unit, name, start, end| {
            trace.add(Span { node, unit, name, start: t(start), end: t(end), message, bytes: 8 * message });
        };
        add(0, Unit::Host, "send", 0, 10);
        add(0, Unit::NicSend, "command", 10, 30);
        add(1, Unit::NicReceive, "header", 90, 100);
        add(0, Unit::Wire, "request", 30, 100);
        add(1, Unit::Channel(4), "packet", 40, 90);
        add(1, Unit::NicReceive, "match", 100, 100);
    }
    let program = Span {
        node: 2,
        unit: Unit::Program,
        name: "runs",
        start: Time::ZERO,
        end: Time::from_ns(5),
        message: 0,
        bytes: 0,
    };
    trace.add(program);
    trace
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    words.sort_unstable();
    words
}

fn is_xml(text: &str) {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    if let Err(error) = roxmltree::Document::parse_with_options(text, options) {
        panic!("{error} in\n{text}");
    }
}

// ---- JSON
// ------------------------------------------------------------------------------------------------------------

#[test]
fn the_names_in_the_json_stay() {
    let mut run = run(End::Stuck(waiting()));
    run.wall = Some(Wall { seconds: 2.0, memory_peak_bytes: Some(1 << 20), more: Vec::new() });
    let json = run.json();
    assert_eq!(json["schema"], "selvedge.sim.run/1");
    let expected = "schema machine program ranks nodes_used options end exit_code virtual_time_ps rank_ends_ps rank_codes stuck \
                    results events turns hash messages registers network network_model samples notes spans wall";
    assert_eq!(keys(&json), sorted(expected));
    let expected =
        "delivered payload_bytes answers triggered entries_searched interrupts refused lost velo_discarded latency";
    assert_eq!(keys(&json["messages"]), sorted(expected));
    let expected = "count min_ps mean_ps p50_ps p90_ps p99_ps p999_ps max_ps";
    assert_eq!(keys(&json["messages"]["latency"]), sorted(expected));
    let expected = "packet_hops events packets_injected packets_delivered packets_lost delivered_bytes channel_requests blocked \
                    blocked_ps blocking_rate blocking_mean_ns link_losses link_corruptions retransmissions control_packets marked_packets deadlocks \
                    deadlocked_packets recovered_packets cycle_length_mean cycle_lengths links links_used utilisation_mean utilisation_steps \
                    busiest_channels";
    assert_eq!(keys(&json["network"]), sorted(expected));
    assert_eq!(keys(&json["network"]["busiest_channels"][0]), sorted("name packets flits busy_ps utilisation"));
    assert_eq!(keys(&json["machine"]), sorted("name about topology nodes routers routing figures"));
    assert_eq!(keys(&json["stuck"][0]), sorted("rank what since_ns unanswered receives"));
    assert_eq!(keys(&json["wall"]), sorted("seconds events_per_s packet_hops_per_s memory_peak_bytes more"));
    assert_eq!(json["wall"]["events_per_s"], 500.0);
    assert_eq!(keys(&json["results"]), sorted("x series wrong_count wrong"));
    assert_eq!(json["results"]["series"][0]["points"][1], serde_json::json!([64.0, 2.5]));
    assert_eq!(
        (&json["results"]["series"][0]["name"], &json["results"]["x"]),
        (&"half round trip, us".into(), &"bytes".into())
    );
}

#[test]
fn only_wall_sections_depend_on_the_clock() {
    let mut quick = run(End::Completed);
    let mut slow = quick.clone();
    quick.wall = Some(Wall { seconds: 1.0, ..Wall::default() });
    slow.wall = Some(Wall { seconds: 9.0, memory_peak_bytes: Some(5), more: vec![("ns_per_call".into(), 3.0)] });
    let (mut one, mut other) = (quick.json(), slow.json());
    assert_ne!(one, other);
    one.as_object_mut().unwrap().remove("wall");
    other.as_object_mut().unwrap().remove("wall");
    assert_eq!(one.to_string(), other.to_string());
    let without = |run: &Run| {
        let mut document = run.document();
        document.sections.retain(|section| !section.wall);
        html::page(&document, None)
    };
    assert_eq!(without(&quick), without(&slow));
    assert_ne!(html::page(&quick.document(), None), html::page(&slow.document(), None));
    let walls = slow.document().sections.into_iter().filter(|section| section.wall);
    for block in walls.flat_map(|section| section.blocks) {
        let Block::Table(table) = block else { panic!("words of the clock outside of a table") };
        assert!(table.rows.iter().all(|row| row[0].starts_with("wall ")), "{table:?}");
    }
}

#[test]
fn a_machines_numbers_come_with_their_sources() {
    let run = run(End::Completed);
    let json = run.json();
    let figures = json["machine"]["figures"].as_array().unwrap();
    let figure = |key: &str| figures.iter().find(|figure| figure["key"] == key).unwrap_or_else(|| panic!("no {key}"));
    assert_eq!(figure("link.bandwidth_MBps")["value"], 1000.0);
    assert_eq!(figure("link.bandwidth_MBps")["source"], "assumed");
    assert_eq!(figure("topology.dimensions")["value"], "[4, 4]");
    assert_eq!(figure("link.retransmission.timeout_ns")["value"], 100.0);
    assert_eq!(figure("host.caches.0.access_ns")["value"], 2.0);
    assert!(figure("link.latency_ns")["source"].is_null());
    let page = html::page(&run.document(), None);
    assert!(page.contains("a &quot;square&quot;") && page.contains("link.bandwidth_MBps") && page.contains("MB/s"));
}

// ---- Pictures and the page
// -------------------------------------------------------------------------------------------

#[test]
fn every_picture_is_xml_and_the_page_stands_alone() {
    let run = run(End::Stuck(waiting()));
    let document = run.document();
    let names: Vec<&str> = document.plots().map(|plot| plot.name.as_str()).collect();
    for name in [
        "result-half-round-trip-us",
        "latency",
        "message-rate",
        "traffic-matrix",
        "link-utilisation",
        "hot-channels",
        "nodes",
        "ranks",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    for plot in document.plots() {
        let svg = plot.svg();
        is_xml(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("#000000"), "{svg}");
        assert!(svg.contains(&selvedge_document::plot::escaped(&plot.title)));
    }
    let page = html::page(&document, None);
    is_xml(&page);
    let without_names = page.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "src=", "<script", "<link", "url(", "@import"] {
        assert!(!without_names.contains(outside), "the page refers to {outside}");
    }
    for name in ["result-half-round-trip-us", "latency", "hot-channels"] {
        let tables = document.sections.iter().flat_map(|section| &section.blocks);
        let draws =
            |block: &&Block| matches!(block, Block::Table(table) if table.plots.iter().any(|plot| plot == name));
        assert_eq!(tables.filter(draws).count(), 1, "{name} draws a table");
        assert!(page.contains(&format!("href=\"#plot-{name}\"")), "{name}");
    }
    assert!(page.contains("prefers-color-scheme:dark"));
    assert!(page.contains("small &lt;&amp;&gt; odd") && page.contains("forked &lt;once&gt; &amp; went on"));
    assert!(page.contains("waits for its NIC") && page.contains("and 10 more"));
    assert!(page.contains("9 things wrong") && page.contains("byte 5 is 7"));
}

#[test]
fn a_real_programs_page_is_called_by_its_file() {
    let mut run = run(End::Completed);
    run.program = "/home/somebody/build/halo2d".into();
    let document = run.document();
    assert_eq!(document.title, "halo2d on small <&> odd");
    assert!(html::page(&document, None).contains("/home/somebody/build/halo2d"));
}

#[test]
fn the_fabric_is_counted_where_it_was_used() {
    let machine = machine();
    let (network, time) = used_network(&machine);
    let fabric = Fabric::of(&network, time);
    assert_eq!(fabric.statistics.delivered, 16);
    let flits: u64 = (0..16).map(|node| u64::from(network.flits(64 * node))).sum();
    assert_eq!(fabric.flits_out.iter().sum::<u64>(), flits);
    assert_eq!(fabric.flits_in.iter().sum::<u64>(), flits);
    assert_eq!((fabric.links, fabric.utilisation_steps.iter().sum::<u64>()), (64, fabric.links_used));
    // One channel in each dimension, or two where the row wraps.
    assert!((32..64).contains(&fabric.links_used), "{}", fabric.links_used);
    assert!(fabric.busiest.windows(2).all(|pair| pair[0].busy >= pair[1].busy) && !fabric.busiest.is_empty());
    assert!(fabric.busiest[0].name.contains(" -> "), "{}", fabric.busiest[0].name);
    assert!(fabric.utilisation_mean > 0.0 && fabric.utilisation_mean <= 1.0);
}

// ---- The timeline
// ----------------------------------------------------------------------------------------------------

fn written(trace: &Trace) -> (Value, Written) {
    let names = Names {
        title: "test",
        nodes: &[0, 1, 1],
        node: &|node| format!("node {node}"),
        channel: &|channel| format!("channel \"{channel}\""),
    };
    let mut out = Vec::new();
    let written = timeline::write(trace, &names, &mut out).unwrap();
    (serde_json::from_slice(&out).unwrap(), written)
}

fn events<'a>(trace: &'a Value, phase: &str) -> Vec<&'a Value> {
    trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == phase).collect()
}

fn nanoseconds(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1000.0).round() as u64
}

#[test]
fn every_arrow_has_both_ends_at_spans_of_its_message() {
    let (json, written) = written(&trace(20, 1000));
    assert_eq!(written, Written { spans: 121, left_out: 0, flows: 20 });
    assert_eq!((events(&json, "s").len(), events(&json, "f").len(), events(&json, "t").len()), (20, 20, 80));
    let mut flows: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    let all = json["traceEvents"].as_array().unwrap();
    for (at, event) in all.iter().enumerate() {
        if let "s" | "t" | "f" = event["ph"].as_str().unwrap() {
            let before = &all[at - 1];
            assert_eq!((&before["ph"], &before["args"]["message"]), (&"X".into(), &event["id"]));
            for key in ["pid", "tid", "ts"] {
                assert_eq!(before[key], event[key], "{event}");
            }
            flows.entry(event["id"].as_u64().unwrap()).or_default().push(event);
        }
    }
    for (message, ends) in flows {
        let phases: Vec<&str> = ends.iter().map(|event| event["ph"].as_str().unwrap()).collect();
        assert_eq!(phases, ["s", "t", "t", "t", "t", "f"], "message {message}");
        let times: Vec<u64> = ends.iter().map(|event| nanoseconds(&event["ts"])).collect();
        assert!(times.is_sorted(), "message {message}: {times:?}");
    }
}

#[test]
fn spans_of_one_thread_do_not_overlap_and_keep_their_exact_times() {
    let trace = trace(20, 1000);
    let (json, _) = written(&trace);
    let mut ends: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut exact = Vec::new();
    for event in events(&json, "X") {
        let thread = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        let (start, length) = (nanoseconds(&event["ts"]), nanoseconds(&event["dur"]));
        let end = ends.entry(thread).or_default();
        assert!(start >= *end, "{event} begins before {end}");
        *end = start + length;
        let ps = |key: &str| event["args"][key].as_u64().unwrap();
        let (start_ps, end_ps) = (ps("start_ps"), ps("start_ps") + ps("dur_ps"));
        assert_eq!((start_ps / 1000, end_ps / 1000), (start, start + length));
        exact.push((start_ps, end_ps));
    }
    let mut expected: Vec<_> = trace.spans.iter().map(|span| (span.start.0, span.end.0)).collect();
    exact.sort_unstable();
    expected.sort_unstable();
    assert_eq!(exact, expected);
}

#[test]
fn threads_have_names_and_numbers_that_viewers_take() {
    let (json, _) = written(&trace(3, 1000));
    let mut names = BTreeMap::new();
    for event in events(&json, "M") {
        let (pid, tid) = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        assert!(u32::try_from(tid).is_ok() && tid != pid && pid > 0);
        if event["name"] == "thread_name" {
            assert!(names.insert((pid, tid), event["args"]["name"].as_str().unwrap().to_owned()).is_none());
        }
    }
    for event in events(&json, "X") {
        assert!(names.contains_key(&(event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap())), "{event}");
    }
    let all: Vec<&str> = names.values().map(String::as_str).collect();
    // Rank 2 is on node 1; three messages at once need three threads.
    assert_eq!(names[&(3, names.keys().find(|key| key.0 == 3).unwrap().1)], "rank 2");
    assert!(
        all.contains(&"channel \"4\"") && all.contains(&"on the wire (3)") && all.contains(&"NIC, sending"),
        "{all:?}"
    );
}

#[test]
fn a_trace_says_what_was_left_out() {
    let cut = trace(20, 10);
    assert_eq!(cut.left_out, 111);
    let (json, written) = written(&cut);
    assert_eq!((written.spans, written.left_out), (10, 111));
    assert_eq!(json["otherData"]["spans_left_out"], 111);
    let notes = events(&json, "i");
    assert_eq!(notes.len(), 1);
    assert!(notes[0]["name"].as_str().unwrap().starts_with("111 spans are left out"));
    // The arrows of messages with missing spans still have both ends.
    assert_eq!(events(&json, "s").len(), events(&json, "f").len());
    let (empty, nothing) = self::written(&Trace::new(0));
    assert_eq!((nothing, events(&empty, "X").len()), (Written::default(), 0));
}

#[test]
fn pairs_are_counted_once() {
    assert_eq!(pairs_of(&trace(3, 1000)), [(0, 1, 8 + 16 + 24)]);
    assert!(pairs_of(&Trace::new(0)).is_empty());
}

// ---- Machines
// --------------------------------------------------------------------------------------------------------

#[test]
fn a_machine_is_described() {
    let machine = machine();
    let facts = Facts::of(&machine).unwrap();
    assert_eq!((facts.nodes, facts.routers, facts.diameter_links, facts.bisection_channels), (16, 16, 4, Some(8)));
    assert!(matches!(facts.deadlock, Deadlock::Acyclic(edges) if edges > 0), "{:?}", facts.deadlock);
    assert_eq!(facts.latencies.len(), 4);
    // One link of 10 ns, a node's link at each end, two switches of 20 ns, one flit of 32 ns.
    assert_eq!(facts.latencies[0], ("the nearest", 8, Time::from_ns(3 * 10 + 2 * 20 + 32)));
    assert_eq!(facts.latencies[2].2, Time::from_ns(6 * 10 + 5 * 20 + 32));
    let json = facts.json(&machine);
    assert_eq!(json["deadlock_free"], true);
    assert_eq!(json["schema"], "selvedge.sim.machine/1");
    is_xml(&html::page(&facts.document(&machine), None));
    let unguarded = [
        ("routing.algorithm".to_owned(), "\"dimension-order-unguarded\"".to_owned()),
        ("topology.dimensions".to_owned(), "[6, 6]".to_owned()),
    ];
    let unguarded = from_text(Path::new("small.toml"), MACHINE, &unguarded).unwrap();
    let facts = Facts::of(&unguarded).unwrap();
    assert!(matches!(&facts.deadlock, Deadlock::Cycle(cycle) if !cycle.is_empty()), "{:?}", facts.deadlock);
}
