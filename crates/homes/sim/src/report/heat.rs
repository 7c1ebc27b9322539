// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Heat of links over virtual time: the share of each interval for which each channel was busy, for the page that
//! draws the topology.
//!
//! # Invariants
//!
//! 1. At most [`FRAMES_MAX`] frames are kept, and fewer of many channels, so that the page holds at most [`BYTES_MAX`] of
//!    them. If there are more, every second one is dropped, and from then on only every second new one is kept. So
//!    their times depend only on the run's events.
//! 2. A frame holds sums since the start, so dropping one loses nothing but detail.
use selvedge_fabric::{NodeId, Peer, Port, RouterId, Topology};
use serde_json::{Value, json};

use super::places;
use crate::network::Counted;
use crate::node::Fault;
use crate::time::Time;

pub const FRAMES_MAX: usize = 96;
const BYTES_MAX: usize = 2 << 20;
/// Digits of a heat: one character for each direction of a link in each frame.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A link of the drawing, and its channels there and back.
#[derive(Clone, Copy, Debug)]
struct Link {
    a: u32,
    b: u32,
    channels: [u32; 2],
    bend: f64,
}

#[derive(Clone, Debug)]
struct Frame {
    at: Time,
    /// Of each link there and back: time for which it was busy, in picoseconds.
    busy: Vec<[u64; 2]>,
}

/// Links of a network, and their heat.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    vertices: Vec<Value>,
    links: Vec<Link>,
    /// By link: times of its failures, and of its repairs.
    failures: Vec<Vec<(Time, bool)>>,
    frames: Vec<Frame>,
    frames_max: usize,
    skip: u64,
    passed: u64,
}

impl Heat {
    pub fn new(topology: &Topology, faults: &[Fault]) -> Heat {
        let places = places::routers(topology);
        let is_merged = is_one_each(topology);
        let place = |at: Option<places::Place>| at.map(|(x, y)| json!([rounded(x), rounded(y)]));
        let mut vertices: Vec<Value> = (0..topology.routers())
            .map(|at| {
                let own = places.as_ref().map(|places| places[at as usize]);
                json!({ "name": topology.router_name(RouterId(at)), "router": !is_merged, "at": place(own) })
            })
            .collect();
        let mut links = Vec::new();
        for at in (0..topology.routers()).map(RouterId) {
            for port in (0..topology.ports(at)).map(Port) {
                let Peer::Router { router, port: back } = topology.peer(at, port) else { continue };
                if (at, port) > (router, back) {
                    continue;
                }
                let channels = [topology.channel(at, port), topology.channel(router, back)];
                links.push(Link { a: at.0, b: router.0, channels, bend: places::bend(topology, at, router) });
            }
        }
        if !is_merged {
            for node in (0..topology.nodes()).map(NodeId) {
                let (router, port) = topology.attachment(node);
                let own = places.as_ref().map(|places| places::node(topology, places, node));
                let b = vertices.len() as u32;
                vertices.push(json!({ "name": topology.node_name(node), "router": false, "at": place(own) }));
                let channels = [topology.channel(router, port), topology.injection_channel(node)];
                links.push(Link { a: router.0, b, channels, bend: 0.0 });
            }
        }
        let of = |link: &Link| {
            let own = faults.iter().filter(|fault| fault.channel == link.channels[0]);
            own.map(|fault| (fault.at, fault.up)).collect()
        };
        let failures = match faults.is_empty() {
            true => Vec::new(),
            false => links.iter().map(of).collect(),
        };
        let frames_max = (BYTES_MAX / (2 * links.len().max(1))).clamp(2, FRAMES_MAX);
        Heat { vertices, links, failures, frames_max, ..Heat::default() }
    }

    /// Takes a frame. Called for every call of the run's observer.
    pub fn look(&mut self, network: &dyn Counted, at: Time) {
        if self.passed < self.skip {
            self.passed += 1;
            return;
        }
        self.passed = 0;
        self.take(network, at);
        if self.frames.len() >= self.frames_max {
            let mut number = 0;
            self.frames.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.skip = self.skip * 2 + 1;
        }
    }

    /// Takes the last frame of a run.
    pub fn end(&mut self, network: &dyn Counted, at: Time) {
        self.take(network, at);
    }

    fn take(&mut self, network: &dyn Counted, at: Time) {
        if self.frames.last().is_some_and(|last| last.at >= at) {
            self.frames.pop();
        }
        let busy = |link: &Link| link.channels.map(|channel| network.channel_statistics(channel).busy.0);
        self.frames.push(Frame { at, busy: self.links.iter().map(busy).collect() });
    }

    /// Vertices, links and failures.
    pub fn structure(&self, title: &str) -> Value {
        let link = |(at, link): (usize, &Link)| {
            let failures = self
                .failures
                .get(at)
                .map_or(Value::Null, |changes| changes.iter().map(|(at, up)| json!([at.as_ns_f64(), up])).collect());
            json!([link.a, link.b, link.bend, failures])
        };
        json!({
            "title": title,
            "vertices": self.vertices,
            "links": self.links.iter().enumerate().map(link).collect::<Vec<_>>(),
        })
    }

    /// Ends of the intervals in nanoseconds, and a text of one character for each direction of each link in each.
    pub fn frames(&self) -> Value {
        let mut text = Vec::with_capacity(self.frames.len() * self.links.len() * 2);
        let (mut ends, mut before) = (Vec::new(), None::<&Frame>);
        for frame in self.frames.iter().filter(|frame| frame.at > Time::ZERO) {
            let span = frame.at.0 - before.map_or(0, |before| before.at.0);
            ends.push(frame.at.as_ns_f64());
            for (at, busy) in frame.busy.iter().enumerate() {
                for (of, busy) in busy.iter().enumerate() {
                    let grown = busy.saturating_sub(before.map_or(0, |before| before.busy[at][of]));
                    text.push(digit(grown, span));
                }
            }
            before = Some(frame);
        }
        json!({ "ends_ns": ends, "heat": String::from_utf8_lossy(&text) })
    }

    /// All, for a page that stands alone.
    pub fn json(&self, title: &str) -> Value {
        let mut all = self.structure(title);
        all["frames"] = self.frames();
        all
    }
}

/// Whether each router has one node, which then is drawn as the router.
fn is_one_each(topology: &Topology) -> bool {
    topology.nodes() == topology.routers()
        && (0..topology.nodes()).all(|at| topology.attachment(NodeId(at)).0 == RouterId(at))
}

/// A share of 0 to 1 as a digit. Any use is more than none.
fn digit(busy: u64, span: u64) -> u8 {
    let share = if span == 0 { 0.0 } else { (busy as f64 / span as f64).min(1.0) };
    let step = (share * 63.0).round() as usize;
    DIGITS[if busy > 0 { step.max(1) } else { step }]
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{ChannelStatistics, NetworkStatistics};

    struct Made(Topology, NetworkStatistics, u64);

    impl Counted for Made {
        fn topology(&self) -> &Topology {
            &self.0
        }

        fn statistics(&self) -> &NetworkStatistics {
            &self.1
        }

        fn channel_statistics(&self, channel: u32) -> ChannelStatistics {
            // Channel 0 is always busy, channel 1 half the time.
            let busy = Time(if channel == 0 {
                self.2
            } else if channel == 1 {
                self.2 / 2
            } else {
                0
            });
            ChannelStatistics { packets: 0, flits: 0, busy }
        }
    }

    #[test]
    fn frames_are_few_and_hold_the_share_of_each_interval() {
        let topology = Topology::mesh(&[3], 1).unwrap();
        let fault = Fault { at: Time::from_ns(5), channel: 0, up: false };
        let mut heat = Heat::new(&topology, &[fault]);
        assert_eq!(heat.links.len(), 2);
        let mut made = Made(topology, NetworkStatistics::default(), 0);
        for at in 0..10_000 {
            made.2 = at * 1000;
            heat.look(&made, Time(at * 1000));
        }
        made.2 = 10_000_500;
        heat.end(&made, Time(10_000_500));
        assert!((FRAMES_MAX / 4..=FRAMES_MAX).contains(&heat.frames.len()), "{}", heat.frames.len());
        let all = heat.json("line");
        let (ends, text) = (&all["frames"]["ends_ns"], all["frames"]["heat"].as_str().unwrap());
        assert_eq!(text.len(), ends.as_array().unwrap().len() * 4);
        assert_eq!(ends.as_array().unwrap().last().unwrap(), 10_000.5);
        assert!(text.starts_with('/') && text.chars().step_by(4).all(|digit| digit == '/'), "{text}");
        assert_eq!(all["links"][0][3], json!([[5.0, false]]));
        assert_eq!(all["vertices"][2]["at"], json!([2.0, 0.0]));
    }

    #[test]
    fn nodes_are_drawn_where_routers_have_several() {
        let heat = Heat::new(&Topology::fat_tree(2, 4, (1, 1), None).unwrap(), &[]);
        let (routers, nodes) = (4 + 2, 8);
        assert_eq!((heat.vertices.len(), heat.links.len()), (routers + nodes, 8 + nodes));
        assert_eq!((digit(0, 10), digit(1, 1_000_000), digit(10, 10), digit(1, 0)), (b'A', b'B', b'/', b'B'));
    }
}
