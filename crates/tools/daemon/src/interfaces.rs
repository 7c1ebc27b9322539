// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's interfaces, and the ports that they are.
//!
//! # Invariants
//!
//! 1. A name keeps its port as long as the daemon runs, so an interface that comes back is the same port.
//! 2. There are at most [`PORTS_MAX`] ports.
use std::collections::BTreeMap;
use std::io;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage};
use selvedge_fabric_manager::PORTS_MAX;

use crate::netlink::Requests;

/// An interface, as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub index: u32,
    pub name: String,
    pub mtu: u32,
    pub has_carrier: bool,
    /// Counts the changes of the carrier: it may have come and gone between two readings.
    pub carrier_changes: u32,
    pub counters: InterfaceCounters,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub sent_packets: u64,
    pub received_packets: u64,
    pub errors: u64,
}

/// The interfaces that a cable can be at, by index: Ethernet or InfiniBand, with multicast, and no part of a bridge or
/// of a bond.
pub fn read(requests: &mut Requests) -> io::Result<Vec<Interface>> {
    let mut found: Vec<Interface> = requests
        .dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?
        .into_iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => interface(&link),
            _ => None,
        })
        .collect();
    found.sort_unstable_by_key(|interface| interface.index);
    Ok(found)
}

/// Index of the loopback interface.
pub fn loopback(requests: &mut Requests) -> io::Result<u32> {
    let links = requests.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    let is_loopback = |message: &RouteNetlinkMessage| match message {
        RouteNetlinkMessage::NewLink(link) => {
            link.header.flags.contains(LinkFlags::Loopback).then_some(link.header.index)
        }
        _ => None,
    };
    links.iter().find_map(is_loopback).ok_or_else(|| io::Error::other("this host has no loopback interface"))
}

fn interface(link: &LinkMessage) -> Option<Interface> {
    let flags = link.header.flags;
    let is_cable = matches!(link.header.link_layer_type, LinkLayerType::Ether | LinkLayerType::Infiniband);
    if !is_cable || flags.contains(LinkFlags::Loopback) || !flags.contains(LinkFlags::Multicast) {
        return None;
    }
    let mut found = Interface {
        index: link.header.index,
        has_carrier: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        ..Interface::default()
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => found.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => found.mtu = *mtu,
            LinkAttribute::CarrierChanges(changes) => found.carrier_changes = *changes,
            LinkAttribute::Controller(_) => return None,
            _ => {}
        }
    }
    Some(found)
}

/// Counters of all interfaces, by name, from `/proc/net/dev`. Reading it takes no lock of the kernel; a dump over netlink
/// waits for the one of the network's configuration, which others may hold for seconds.
pub fn counters(proc_net_dev: &str) -> BTreeMap<&str, InterfaceCounters> {
    let line = |line| {
        let (name, numbers): (&str, &str) = str::rsplit_once(line, ':')?;
        let numbers: Vec<u64> = numbers.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let counters = InterfaceCounters {
            sent_bytes: *numbers.get(8)?,
            received_bytes: *numbers.first()?,
            sent_packets: *numbers.get(9)?,
            received_packets: *numbers.get(1)?,
            errors: numbers.get(2)? + numbers.get(10)?,
        };
        Some((name.trim(), counters))
    };
    proc_net_dev.lines().skip(2).filter_map(line).collect()
}

/// A port, and its interface while there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInterface {
    pub name: String,
    pub interface: Option<Interface>,
}

/// A change that the manager hears: the MTU, or None without a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarrierChange {
    pub port: u16,
    pub mtu: Option<u32>,
}

/// The ports of this host.
#[derive(Debug, Default)]
pub struct Ports {
    /// Names of interfaces, which may end in `*`. None: all interfaces.
    patterns: Vec<String>,
    ports: Vec<PortInterface>,
    left_out: Vec<String>,
}

impl Ports {
    pub fn new(patterns: Vec<String>) -> Ports {
        Ports { patterns, ..Ports::default() }
    }

    pub fn iter(&self) -> impl Iterator<Item = (u16, &PortInterface)> {
        (0u16..).zip(&self.ports)
    }

    pub fn get(&self, port: u16) -> Option<&PortInterface> {
        self.ports.get(usize::from(port))
    }

    pub fn by_name(&self, name: &str) -> Option<u16> {
        self.iter().find(|(_, port)| port.name == name).map(|(number, _)| number)
    }

    /// Takes new counters.
    pub fn count(&mut self, counters: &BTreeMap<&str, InterfaceCounters>) {
        for port in &mut self.ports {
            if let (Some(interface), Some(now)) = (&mut port.interface, counters.get(port.name.as_str())) {
                interface.counters = *now;
            }
        }
    }

    /// Names that found no port since the last call: there are too many.
    pub fn take_left_out(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left_out)
    }

    /// Takes the interfaces that there are now, and returns what has changed. A carrier that was away between two
    /// readings gives two changes.
    pub fn update(&mut self, interfaces: Vec<Interface>) -> Vec<CarrierChange> {
        let wanted = interfaces.into_iter().filter(|interface| is_wanted(&self.patterns, &interface.name));
        let mut now: Vec<Option<Interface>> = vec![None; self.ports.len()];
        for interface in wanted {
            if let Some(port) = self.by_name(&interface.name) {
                now[usize::from(port)] = Some(interface);
            } else if self.ports.len() < usize::from(PORTS_MAX) {
                self.ports.push(PortInterface { name: interface.name.clone(), interface: None });
                now.push(Some(interface));
            } else {
                self.left_out.push(interface.name);
            }
        }
        let mut changes = Vec::new();
        for (port, (before, now)) in (0u16..).zip(self.ports.iter_mut().zip(now)) {
            let before = std::mem::replace(&mut before.interface, now.clone());
            let carrier = |interface: &Option<Interface>| {
                interface.as_ref().filter(|interface| interface.has_carrier).map(|interface| interface.mtu)
            };
            let (was, is) = (carrier(&before), carrier(&now));
            let identity = |interface: &Interface| (interface.index, interface.carrier_changes);
            let was_away = was.is_some() && is.is_some() && before.as_ref().map(identity) != now.as_ref().map(identity);
            if was_away {
                changes.push(CarrierChange { port, mtu: None });
            }
            if was_away || was != is {
                changes.push(CarrierChange { port, mtu: is });
            }
        }
        changes
    }
}

fn is_wanted(patterns: &[String], name: &str) -> bool {
    patterns.is_empty()
        || patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, name: &str, has_carrier: bool) -> Interface {
        Interface { index, name: name.into(), mtu: 1500, has_carrier, ..Interface::default() }
    }

    #[test]
    fn names_keep_their_ports() {
        let mut ports = Ports::new(vec![]);
        let up = |port| CarrierChange { port, mtu: Some(1500) };
        let down = |port| CarrierChange { port, mtu: None };
        assert_eq!(ports.update(vec![interface(2, "a", true), interface(3, "b", false)]), [up(0)]);
        assert_eq!(ports.update(vec![interface(3, "b", true)]), [down(0), up(1)]);
        assert_eq!(ports.update(vec![interface(3, "b", true), interface(4, "c", true)]), [up(2)]);
        let back = vec![interface(3, "b", true), interface(4, "c", true), interface(5, "a", true)];
        assert_eq!(ports.update(back.clone()), [up(0)]);
        assert_eq!(ports.update(back), []);
        assert_eq!(ports.by_name("c"), Some(2));
    }

    #[test]
    fn a_carrier_that_was_away_between_two_readings_is_two_changes() {
        let mut ports = Ports::new(vec![]);
        let with = |carrier_changes| vec![Interface { carrier_changes, ..interface(2, "a", true) }];
        ports.update(with(1));
        assert_eq!(ports.update(with(1)), []);
        let away = [CarrierChange { port: 0, mtu: None }, CarrierChange { port: 0, mtu: Some(1500) }];
        assert_eq!(ports.update(with(3)), away);
        assert_eq!(
            ports.update(vec![Interface { carrier_changes: 3, ..interface(9, "a", true) }]),
            away,
            "a new index"
        );
    }

    #[test]
    fn counters_are_read_from_the_kernels_table() {
        let text = "Inter-|   Receive                                                |  Transmit\n\
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
             lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0\n\
             c.1: 2000      20    3    0    0     0          0         0      900       9    4    0    0     0       0          0\n\
             wrong\n x: 1 2\n";
        let found = counters(text);
        assert_eq!(found.len(), 2);
        let (sent_packets, received_packets) = (9, 20);
        let wanted =
            InterfaceCounters { sent_bytes: 900, received_bytes: 2000, sent_packets, received_packets, errors: 7 };
        assert_eq!(found["c.1"], wanted);
        let mut ports = Ports::new(vec![]);
        ports.update(vec![interface(2, "c.1", true), interface(3, "d", true)]);
        ports.count(&found);
        let of = |port| ports.get(port).unwrap().interface.as_ref().unwrap().counters;
        assert_eq!((of(0).sent_bytes, of(1)), (900, InterfaceCounters::default()));
    }

    #[test]
    fn an_mtu_that_changes_is_one_change() {
        let mut ports = Ports::new(vec![]);
        ports.update(vec![interface(2, "a", true)]);
        let larger = Interface { mtu: 9000, ..interface(2, "a", true) };
        assert_eq!(ports.update(vec![larger]), [CarrierChange { port: 0, mtu: Some(9000) }]);
    }

    #[test]
    fn patterns_and_the_limit_leave_interfaces_out() {
        let mut ports = Ports::new(vec!["cable*".into(), "eth1".into()]);
        let names = ["eth0", "eth1", "eth10", "cable1", "cable22"];
        ports.update((1..).zip(names).map(|(index, name)| interface(index, name, true)).collect());
        let taken: Vec<&str> = ports.iter().map(|(_, port)| port.name.as_str()).collect();
        assert_eq!(taken, ["eth1", "cable1", "cable22"]);
        let mut ports = Ports::new(vec![]);
        ports.update((1..=49).map(|index| interface(index, &format!("e{index}"), true)).collect());
        assert_eq!((ports.iter().count(), ports.take_left_out()), (48, vec!["e49".to_owned()]));
    }
}
