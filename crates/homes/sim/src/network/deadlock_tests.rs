// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deadlocks on a ring, with and without stages.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{Algorithm, NodeId, Routing, Topology};

use super::super::tests::{LinksOnly, Script, config, run};
use super::super::*;
use crate::congestion::Header;

#[test]
fn a_deadlock_that_is_left_is_described() {
    for factor in [None, Some(2)] {
        let (network, arrivals) = ring(DeadlockPolicy::Detect, factor);
        assert!(arrivals < 48);
        let deadlock = network.deadlock().expect("a deadlock").clone();
        assert_eq!(deadlock.cycle.len(), 8);
        assert_eq!(network.find_deadlock(deadlock.at).map(|found| found.cycle.len()), Some(8));
        assert_eq!(network.statistics().deadlocks, 1);
        assert_eq!(network.statistics().cycle_lengths, BTreeMap::from([(8, 1)]));
        // Each packet waits for the next: the channels of the cycle follow each other round the ring.
        let routers: Vec<u32> =
            deadlock.cycle.iter().map(|stuck| network.buffers.vcs[stuck.channel as usize].router).collect();
        let steps: Vec<u32> = (0..8).map(|at| (routers[(at + 1) % 8] + 8 - routers[at]) % 8).collect();
        assert!(steps.iter().all(|&step| step == steps[0] && (step == 1 || step == 7)), "{routers:?}");
    }
}

#[test]
fn a_deadlock_with_stages_is_resolved_and_observers_learn_of_links_alone() {
    let (network, arrivals) = ring(DeadlockPolicy::Resolve { delay: Time(1_000) }, Some(2));
    assert_eq!(arrivals, 48);
    assert!(network.statistics().recovered > 0, "{:?}", network.statistics());
    // A request for each hop of a router, and none for a stage.
    let statistics = network.statistics();
    assert!(statistics.requests <= 48 * 4 && statistics.requests >= statistics.hops, "{statistics:?}");
}

/// A ring whose nodes send more than it holds, all to the right, so that no packet can move.
fn ring(deadlock: DeadlockPolicy, factor: Option<u32>) -> (Network, usize) {
    let topology = Arc::new(Topology::torus(&[8], &[], 1).unwrap());
    let mut config = config(1, Switching::CutThrough, Arbitration::Fifo);
    config.link.buffer_flits = config.flits(1024);
    config.switch.speed_up = factor.map(|factor| SpeedUp { factor, output_flits: config.flits(1024) });
    config.deadlock = deadlock;
    let routing = Routing::new(&topology, Algorithm::DimensionOrderUnguarded, 1).unwrap();
    let links = LinksOnly(topology.channels());
    let mut network = Network::new(topology, routing, config).unwrap();
    network.observe(Box::new(links));
    let script: Vec<_> = (0..48)
        .map(|number| {
            let (from, to) = (NodeId(number % 8), NodeId((number + 3) % 8));
            (
                Time::ZERO,
                Script::Inject(Packet {
                    from,
                    to,
                    bytes: 1024,
                    message: number.into(),
                    last: true,
                    header: Header::PLAIN,
                }),
            )
        })
        .collect();
    let arrivals = run(&mut network, &script);
    (network, arrivals.len())
}
