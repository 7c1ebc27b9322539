// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures packet-hop events per second: a 16 x 16 torus under uniform traffic at 30 % load, and a larger one.
//!
//! `cargo run --release --example hops [PACKETS [small]]`, on one core. The result depends on the computer.

use std::sync::Arc;
use std::time::Instant;

use selvedge_fabric::{Algorithm, NodeId, Routing, Topology};
use selvedge_sim::congestion::Header;
use selvedge_sim::network::{Network, NetworkConfig, NetworkEvent, Packet, Schedule};
use selvedge_sim::queue::Queue;
use selvedge_sim::random::Random;
use selvedge_sim::time::Time;

#[derive(Clone, Copy)]
enum Event {
    Network(NetworkEvent),
    Source(u32),
}

struct Events(Queue<Event>);

impl Schedule for Events {
    fn schedule(&mut self, at: Time, place: u32, event: NetworkEvent) {
        self.0.schedule_as(at, event.order(place), Event::Network(event));
    }
}

fn main() {
    let packets: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1_000_000);
    run("16 x 16 torus", &[16, 16], packets, 0.3);
    if std::env::args().nth(2).is_none() {
        run("40 x 40 x 40 torus", &[40, 40, 40], packets / 4, 0.1);
    }
}

fn run(name: &str, dimensions: &[u32], packets: u64, load: f64) {
    let topology = Arc::new(Topology::torus(dimensions, &[], 1).expect("a torus"));
    let routing = Routing::new(&topology, Algorithm::DimensionOrder, 2).expect("a routing");
    let mut network = Network::new(topology.clone(), routing, NetworkConfig::default()).expect("a network");
    let bytes = 256;
    let gap = network.injection_time(NodeId(0), bytes).as_ps() as f64 / load;
    let mut random = Random::new(1, 0);
    let mut queue = Events(Queue::new());
    let nodes = topology.nodes();
    for node in 0..nodes {
        queue.0.schedule(Time(random.exponential(gap) as u64), Event::Source(node));
    }
    let started = Instant::now();
    let mut left = packets;
    while let Some((now, event)) = queue.0.take() {
        match event {
            Event::Network(event) => {
                network.handle(now, event, &mut queue);
                while network.take_arrival().is_some() {}
            }
            Event::Source(node) if left > 0 => {
                left -= 1;
                let to = (node + 1 + random.below(u64::from(nodes) - 1) as u32) % nodes;
                let packet = Packet {
                    from: NodeId(node),
                    to: NodeId(to),
                    bytes,
                    message: left,
                    last: true,
                    header: Header::PLAIN,
                };
                network.inject(now, packet, &mut queue);
                queue.0.schedule(now + Time(random.exponential(gap) as u64), Event::Source(node));
            }
            Event::Source(_) => {}
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let statistics = network.statistics();
    println!(
        "{name}: {} packet-hop events in {seconds:.2} s: {:.2} million a second ({:.2} events a hop, {:.1} % blocked, {:.1} hops a packet)",
        statistics.hops,
        statistics.hops as f64 / seconds / 1e6,
        queue.0.taken() as f64 / statistics.hops as f64,
        100.0 * statistics.blocking_rate(),
        statistics.hops as f64 / statistics.injected as f64,
    );
}
