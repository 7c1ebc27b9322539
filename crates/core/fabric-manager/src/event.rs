// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events for people: each is a line of a log, and none asks the caller for an act.
use crate::id::{Boot, End, HostId};
use crate::wire::FrameError;
use alloc::string::{String, ToString};
use core::fmt;
use core::net::IpAddr;
use selvedge_fabric::Port;

/// An event for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    LinkUp {
        port: Port,
        neighbour: End,
    },
    LinkDown {
        port: Port,
        neighbour: End,
        cause: Cause,
    },
    /// Hellos have arrived for longer than the time of silence without an echo of this end.
    OneWay {
        port: Port,
        neighbour: End,
    },
    Blocked {
        port: Port,
        why: Block,
    },
    /// Another neighbour than before is at the other end.
    Moved {
        port: Port,
        before: (HostId, Port),
        after: (HostId, Port),
    },
    Crowded {
        port: Port,
        neighbour: End,
        other: End,
    },
    Miswired {
        port: Port,
        expected: (HostId, Port),
        found: (HostId, Port),
    },
    MtuDiffers {
        port: Port,
        own: u32,
        other: u32,
    },
    NoManager {
        port: Port,
    },
    Refused {
        port: Port,
        error: FrameError,
    },
    /// Another live host has the own number; `yields`: this host stays out of the fabric.
    SameHost {
        boot: Boot,
        yields: bool,
    },
    SameName {
        name: String,
        hosts: [HostId; 2],
    },
    SameAddress {
        address: IpAddr,
        hosts: [HostId; 2],
    },
    HostFound {
        host: HostId,
        name: String,
    },
    HostLost {
        host: HostId,
        name: String,
    },
    /// A host of the fabric has taken another name.
    Renamed {
        host: HostId,
        before: String,
        after: String,
    },
    /// A host of the fabric has taken another address, or has one no longer: its routes are replaced.
    Renumbered {
        host: HostId,
        name: String,
        before: Option<IpAddr>,
        after: Option<IpAddr>,
    },
    TableFull {
        host: HostId,
        limit: u32,
    },
    /// Source routes cannot be those of the configured strategy.
    OtherRoutes {
        why: String,
    },
}

/// Causes for which a link is no longer up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Carrier,
    Disabled,
    Silence,
    /// The neighbour no longer hears this end.
    NotHeard,
    Reboot,
    /// The other end took the link down.
    Reset,
    Moved,
    Blocked,
}

/// Reasons for which a port takes no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// The cable leads to this host's own port.
    Loop {
        port: Port,
    },
    SameHost {
        boot: Boot,
    },
    Version {
        is: u8,
    },
    Key,
    Unstable {
        drops: u32,
    },
}

impl Event {
    /// Whether someone should look at it: a wrong cable or setting, or a loss.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Event::LinkUp { .. } | Event::HostFound { .. } | Event::Renamed { .. })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::LinkUp { port, neighbour } => write!(f, "{port}: link to {neighbour} is up"),
            Event::LinkDown { port, neighbour, cause } => write!(f, "{port}: link to {neighbour} is down: {cause}"),
            Event::OneWay { port, neighbour } => {
                write!(f, "{port}: {neighbour} does not hear this host: check the cable's other direction")
            }
            Event::Blocked { port, why } => write!(f, "{port}: blocked: {why}"),
            Event::Moved { port, before: (old, old_port), after: (new, new_port) } => {
                write!(f, "{port}: the cable led to {old} {old_port}, now to {new} {new_port}")
            }
            Event::Crowded { port, neighbour, other } => write!(
                f,
                "{port}: {neighbour} and {other} are on one cable; only the first is used: give each pair its own cable"
            ),
            Event::Miswired { port, expected: (host, expected), found: (other, found) } => {
                let remedy = "check the cabling or the configuration";
                write!(f, "{port}: expected {host} {expected}, found {other} {found}: {remedy}")
            }
            Event::MtuDiffers { port, own, other } => {
                write!(f, "{port}: MTU {own} here and {other} at the other end: set both to one value")
            }
            Event::NoManager { port } => {
                write!(f, "{port}: a carrier, and no hello: start the daemon at the other end, or leave the port out")
            }
            Event::Refused { port, error } => write!(f, "{port}: frame refused: {error}"),
            Event::SameHost { boot, yields } => write!(
                f,
                "another host has this host's number ({boot}); {}: give one of them another number",
                if *yields { "this host stays out of the fabric" } else { "this host keeps it" }
            ),
            Event::SameName { name, hosts: [a, b] } => write!(f, "{a} and {b} are both named {name}: rename one"),
            Event::SameAddress { address, hosts: [a, b] } => {
                write!(f, "{a} and {b} both announce {address}; the first keeps it: give the second another one")
            }
            Event::HostFound { host, name } => write!(f, "{host} ({name}) is in the fabric"),
            Event::HostLost { host, name } => write!(f, "{host} ({name}) cannot be reached"),
            Event::Renamed { host, before, after } => write!(f, "{host} is now named {after}, before {before}"),
            Event::Renumbered { host, name, before, after } => {
                let address = |address: &Option<IpAddr>| address.map_or("none".to_string(), |ip| ip.to_string());
                let (before, after) = (address(before), address(after));
                write!(f, "{host} ({name}) has another address: {after}, before {before}; its routes are replaced")
            }
            Event::TableFull { host, limit } => {
                write!(f, "{host} is left out: the table holds {limit} hosts; raise the limit of hosts")
            }
            Event::OtherRoutes { why } => write!(f, "source routes take up*/down*: {why}"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Carrier => "no carrier",
            Cause::Disabled => "disabled",
            Cause::Silence => "nothing is heard",
            Cause::NotHeard => "the other end does not hear this one",
            Cause::Reboot => "the other end restarted",
            Cause::Reset => "the other end took it down",
            Cause::Moved => "the cable leads elsewhere",
            Cause::Blocked => "blocked",
        })
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Block::Loop { port } => write!(f, "the cable leads back to {port} of this host"),
            Block::SameHost { boot } => write!(f, "the neighbour ({boot}) has this host's number: change one of them"),
            Block::Version { is } => {
                write!(f, "the neighbour speaks version {is}: run the same release on both hosts")
            }
            Block::Key => f.write_str("the neighbour's frames cannot be opened: give both hosts the same key"),
            Block::Unstable { drops } => write!(f, "the link fell {drops} times in a short time: check the cable"),
        }
    }
}
