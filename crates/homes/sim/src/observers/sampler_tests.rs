// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the sampler: rows from chosen calls, and sums over a run of traffic.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::Mutex;

use selvedge_fabric::{Algorithm, NodeId, Routing, Topology};

use super::*;
use crate::congestion::Header;
use crate::network::NetworkConfig;
use crate::observers::tests::Shared;
use crate::traffic::{TrafficConfig, run_observed};

const PACKET: Packet =
    Packet { from: NodeId(0), to: NodeId(1), bytes: 0, message: 0, last: true, header: Header::PLAIN };

fn sent(channel: u32, bytes: u64, waited: Option<Time>, begin: u64, end: u64) -> Transmission<'static> {
    let (begin, end) = (Time::from_ns(begin), Time::from_ns(end));
    let (head, tail, from_router, lost) = (true, true, true, false);
    Transmission {
        packet: &PACKET,
        channel,
        vc: 0,
        flits: 1,
        bytes,
        head,
        tail,
        waited,
        from_router,
        begin,
        start: begin,
        end,
        lost,
    }
}

fn rows(feed: impl FnOnce(&mut Sampler), end: u64) -> Vec<String> {
    let mesh = Topology::mesh(&[2], 1).unwrap();
    let out = Shared::default();
    let mut sampler = Sampler::new(&mesh, Time::from_ns(100), Box::new(out.clone()));
    feed(&mut sampler);
    sampler.end(Time::from_ns(end)).unwrap();
    let text = out.text();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(HEADER));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_transmission_is_divided_among_intervals() {
    let got = rows(|sampler| sampler.sent(&sent(0, 1000, None, 50, 250)), 300);
    let want = ["0,100,0,250,0.500000,0,0,0", "100,100,0,500,1.000000,0,0,0", "200,100,0,250,0.500000,0,0,0"];
    assert_eq!(got.iter().map(|row| without_names(row)).collect::<Vec<_>>(), want);
}

/// A row without the names of its ends.
fn without_names(row: &str) -> String {
    let words: Vec<&str> = row.split(',').collect();
    [&words[..3], &words[5..]].concat().join(",")
}

#[test]
fn a_queue_counts_while_it_waits() {
    let got = rows(
        |sampler| {
            sampler.blocked(Time::from_ns(20), 0, &PACKET, true);
            sampler.blocked(Time::from_ns(70), 0, &PACKET, true);
            sampler.withdrawn(Time::from_ns(110), 0);
            sampler.sent(&sent(0, 10, Some(Time::from_ns(200)), 270, 280));
        },
        1000,
    );
    let want = ["0,100,0,0,0.000000,2,2,110", "100,100,0,0,0.000000,1,2,110", "200,100,0,10,0.100000,0,1,70"];
    assert_eq!(got.iter().map(|row| without_names(row)).collect::<Vec<_>>(), want);
}

#[test]
fn intervals_without_traffic_have_no_rows_and_the_last_is_short() {
    let got = rows(
        |sampler| {
            sampler.sent(&sent(0, 10, None, 10, 20));
            sampler.sent(&sent(1, 10, None, 1_000_000_010, 1_000_000_050));
        },
        1_000_000_030,
    );
    let got: Vec<String> = got.iter().map(|row| without_names(row)).collect();
    assert_eq!(got, ["0,100,0,10,0.100000,0,0,0", "1000000000,30,1,5,0.666666,0,0,0"]);
}

#[test]
fn names_with_commas_are_quoted_and_times_keep_their_picoseconds() {
    assert_eq!(quoted("(0,1)"), "\"(0,1)\"");
    assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    assert_eq!((ns(Time(1001)), ns(Time(2000))), ("1.001".to_owned(), "2".to_owned()));
}

/// The bytes of each channel, and the time for which heads were blocked.
#[derive(Debug, Default)]
struct Counts {
    bytes: BTreeMap<u32, u64>,
    waited: Time,
}

#[derive(Debug)]
struct Counter(Arc<Mutex<Counts>>);

impl Observe for Counter {
    fn sent(&mut self, sent: &Transmission<'_>) {
        let mut counts = self.0.lock().unwrap();
        *counts.bytes.entry(sent.channel).or_default() += sent.bytes;
        counts.waited += sent.waited.unwrap_or_default();
    }

    fn end(&mut self, _now: Time) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_rows_of_a_run_sum_up_to_its_statistics_and_change_nothing() {
    let topology = Arc::new(Topology::mesh(&[4, 4], 1).unwrap());
    let routing = Routing::new(&topology, Algorithm::DimensionOrder, 2).unwrap();
    let traffic = TrafficConfig {
        load: 0.5,
        warm_up: Time::from_ns(1),
        measured: Time::from_ns(20_000),
        ..TrafficConfig::default()
    };
    let out = Shared::default();
    let run = |observers| {
        let progress = &mut |_: crate::traffic::Progress<'_>| ControlFlow::Continue(());
        run_observed(topology.clone(), routing.clone(), NetworkConfig::default(), &traffic, observers, progress)
            .unwrap()
    };
    let sampler = Sampler::new(&topology, Time::from_ns(1000), Box::new(out.clone()));
    let counted = Arc::new(Mutex::new(Counts::default()));
    let observed = run(vec![Box::new(sampler) as Box<dyn Observe>, Box::new(Counter(counted.clone()))]);
    assert_eq!(observed, run(Vec::new()));
    let mut blocked_ns = 0.0;
    let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
    for row in out.text().lines().skip(1) {
        // Names of routers have commas, and stand between quotes.
        let outside: String = row.split('"').step_by(2).collect();
        let words: Vec<&str> = outside.split(',').collect();
        *bytes.entry(words[2].parse().unwrap()).or_default() += words[5].parse::<u64>().unwrap();
        assert!(words[6].parse::<f64>().unwrap() <= 1.0);
        blocked_ns += words[9].parse::<f64>().unwrap();
    }
    assert_eq!(bytes, counted.lock().unwrap().bytes);
    assert!((blocked_ns - counted.lock().unwrap().waited.as_ns_f64()).abs() < 0.01, "{blocked_ns}");
}
