// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model of whole messages: latency of the empty network, reservations of a channel, order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::tests::{all_routings, config, speeds};
use super::super::{Arbitration, LinkSpeed, Network, Switching};
use super::*;

/// A message of one packet whose head leaves at `head`.
pub(in crate::network) fn packet(network: &MessageNetwork, from: u32, to: u32, bytes: u32, head: Time) -> Departure {
    let flits = u64::from(network.flits(bytes));
    Departure {
        from: NodeId(from),
        to: NodeId(to),
        bytes: bytes.into(),
        packets: 1,
        flits,
        first_flits: flits,
        missing: network.missing(bytes).into(),
        first_missing: network.missing(bytes).into(),
        head,
        tail: head + network.injection_time(NodeId(from), bytes),
        message: 0,
    }
}

#[test]
fn an_empty_network_takes_a_packet_as_long_as_packet_by_packet() {
    for (topology, routing) in all_routings() {
        for (node_link, has_classes) in [
            (None, true),
            (None, false),
            (Some(LinkSpeed { bandwidth_bytes_per_s: 300_000_000, latency: Time(7_001) }), false),
            (Some(LinkSpeed { bandwidth_bytes_per_s: 4_000_000_000, latency: Time(1) }), false),
        ] {
            let mut config = config(4, Switching::CutThrough, Arbitration::RoundRobin);
            (config.link.buffer_flits, config.node_link) = (64, node_link);
            if has_classes {
                config.class_links = speeds(64, &topology);
            }
            let packets = Network::new(topology.clone(), routing.clone(), config.clone()).unwrap();
            let mut messages = MessageNetwork::new(topology.clone(), routing.clone(), config.clone()).unwrap();
            let mut now = Time::ZERO;
            for (number, bytes) in [0, 1, 13, 14, 15, 200, 1024].into_iter().enumerate() {
                let from = number as u32 * 3 % topology.nodes();
                for to in (0..topology.nodes()).filter(|&to| to != from) {
                    now += Time::from_ns(1_000_000);
                    let departure = packet(&messages, from, to, bytes, now);
                    let arrival = messages.send(now, &departure).expect("a route");
                    assert_eq!((arrival.first, arrival.left), (arrival.tail, departure.tail));
                    if !routing.takes_detours() {
                        let empty = packets.latency_empty(NodeId(from), NodeId(to), bytes);
                        assert_eq!(arrival.tail - now, empty, "{}, {from} to {to}", routing.algorithm());
                        let speeds = config.speeds(&topology, true);
                        let slowest = speeds.iter().map(|speed| speed.flit_time).max().unwrap();
                        assert!(arrival.tail - arrival.head <= slowest * departure.flits);
                    }
                }
            }
            assert_eq!(messages.statistics().blocked, 0);
        }
    }
}

#[test]
fn the_last_channel_serves_all_messages_of_a_node_in_turn() {
    let (topology, routing) = all_routings().swap_remove(0);
    let config = config(4, Switching::CutThrough, Arbitration::RoundRobin);
    let mut network = MessageNetwork::new(topology.clone(), routing, config.clone()).unwrap();
    let senders = topology.nodes() - 1;
    let sent: Vec<Departure> = (1..=senders).map(|from| packet(&network, from, 0, 1000, Time::from_ns(10))).collect();
    let mut tails: Vec<Time> = sent.iter().map(|departure| network.send(Time::ZERO, departure).unwrap().tail).collect();
    tails.sort_unstable();
    let time = config.node_flit_time() * sent[0].flits;
    assert!(tails.windows(2).all(|pair| pair[1] - pair[0] >= time), "{tails:?}");
    let counted = network.channel_statistics({
        let (router, port) = topology.attachment(NodeId(0));
        topology.channel(router, port)
    });
    assert_eq!((counted.packets, counted.busy), (u64::from(senders), time * u64::from(senders)));
}

proptest! {
    /// Reservations of a channel do not overlap. Each begins at the requested time or later, and no later than if
    /// requests were served in the order in which they are made.
    #[test]
    fn a_channel_serves_one_at_a_time(asked in prop::collection::vec((0u64..50, 0u64..3000, 1u64..400), 1..200)) {
        let flit_time = Time(10);
        let mut schedule = ChannelSchedule { free_at: Time::ZERO, idle: Default::default(), idle_earlier: Vec::new(), flit_time, latency: Time::ZERO, counted: ChannelStatistics::default() };
        let (mut now, mut in_turn) = (Time::ZERO, Time::ZERO);
        let mut promised: BTreeMap<Time, Time> = BTreeMap::new();
        for (pause, ahead, time) in asked {
            now += Time(pause);
            let (at, time) = (now + Time(ahead), Time(time));
            let start = schedule.reserve(now, at, time);
            in_turn = in_turn.max(at) + time;
            prop_assert!(start >= at && start + time <= in_turn);
            if let Some((_, &end)) = promised.range(..=start).next_back() {
                prop_assert!(end <= start, "{start:?} while another is served until {end:?}");
            }
            if let Some((&next, _)) = promised.range(start..).next() {
                prop_assert!(start + time <= next);
            }
            promised.insert(start, start + time);
            let idle: Vec<_> = schedule.idle_earlier.iter().chain([&schedule.idle]).collect();
            prop_assert!(idle.iter().all(|(from, until)| from < until || *until == Time::ZERO));
            prop_assert!(idle.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
    }

    /// Under any traffic, messages of a pair arrive in order, none earlier than on an empty network; runs are equal.
    #[test]
    fn a_pair_keeps_its_order(which in 0usize..25, sent in prop::collection::vec((0u32..64, 0u32..64, 0u32..3000, 0u64..900), 2..150)) {
        let all = all_routings();
        let (topology, routing) = &all[which % all.len()];
        let config = config(4, Switching::CutThrough, Arbitration::RoundRobin);
        let alone = Network::new(topology.clone(), routing.clone(), config.clone()).unwrap();
        let run = || {
            let mut network = MessageNetwork::new(topology.clone(), routing.clone(), config.clone()).unwrap();
            let nodes = topology.nodes();
            let (mut now, mut free) = (Time::ZERO, vec![Time::ZERO; nodes as usize]);
            let mut arrivals = Vec::new();
            for &(from, to, bytes, pause) in &sent {
                let (from, to) = (from % nodes, to % nodes);
                if from == to {
                    continue;
                }
                now += Time(pause * 1000);
                let (full, rest) = (bytes / 1024, bytes % 1024);
                let mut departure = packet(&network, from, to, rest, free[from as usize].max(now));
                departure.packets += full;
                departure.flits += u64::from(full * network.flits(1024));
                departure.first_flits = if full > 0 { network.flits(1024).into() } else { departure.flits };
                departure.tail += network.injection_time(departure.from, 1024) * u64::from(full);
                let arrival = network.send(now, &departure).unwrap();
                assert!(arrival.head <= arrival.first && arrival.first <= arrival.tail);
                free[from as usize] = arrival.left;
                arrivals.push((from, to, departure, arrival));
            }
            arrivals
        };
        let arrivals = run();
        let single_route = routing.has_one_route();
        let mut last: BTreeMap<(u32, u32), ArrivalTimes> = BTreeMap::new();
        for &(from, to, departure, arrival) in &arrivals {
            if single_route {
                let empty = alone.latency_empty(NodeId(from), NodeId(to), 0) - config.flit_time();
                prop_assert!(arrival.head >= departure.head + empty);
                if let Some(before) = last.insert((from, to), arrival) {
                    prop_assert!(arrival.head >= before.head && arrival.tail > before.tail, "{before:?} {arrival:?}");
                }
            }
        }
        prop_assert_eq!(arrivals, run());
    }
}
