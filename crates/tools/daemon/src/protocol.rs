// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol of the daemon's UNIX socket: a request is a line of JSON, and so is its answer. An answer is one line,
//! but for a log that is followed, which has no end.
//!
//! `{"ask":"status"}` gives `{"status":{…}}`; a request that is refused gives `{"refused":"reason"}`. Answers come in
//! the order of the requests, except those of other hosts (`at`), which come when they arrive.
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cable_test;

/// The longest request, with its end.
pub const REQUEST_BYTES_MAX: usize = 4096;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Status,
    Hosts,
    Links,
    Topology,
    Log {
        #[serde(default)]
        follow: bool,
    },
    /// An operator's act: root and the daemon's own user may. The port is one of this host.
    Link {
        port: String,
        act: Act,
    },
    /// The request to the daemon of another host, which its name or number gives; the answer is that daemon's.
    At {
        host: String,
        request: Box<Request>,
    },
    /// An act in the name of a user of the manager's page, whom the log names.
    By {
        user: String,
        request: Box<Request>,
    },
    /// The way between two hosts of the map, by name or number.
    Routes {
        from: String,
        to: String,
    },
    /// Loads of all hosts and links over the last minutes.
    Load,
    /// The NICs that processes of this host have registered, and the counters of their links on demand: those of all
    /// processes for operators, and of their own for other users.
    Nics {
        #[serde(default)]
        links: LinksOf,
    },
    /// Registers or mailboxes of a registered NIC, for an operator and its own user; or the routes of this host.
    Dump {
        what: DumpWhat,
        /// Number of the NIC, as [`Request::Nics`] gives it. Not for routes.
        #[serde(default)]
        nic: Option<u64>,
    },
    /// An operator's act: the daemon executes itself anew. Routes stay.
    Restart,
    /// An operator's act: the neighbours that the cables of this host should lead to. Another one gives a warning.
    Expect {
        ports: Vec<ExpectedPort>,
    },
    /// Of a process: it has opened a NIC. The registration ends with the connection.
    Register(Registration),
    /// Of a process: it has closed the NIC with this segment.
    Unregister {
        segment: PathBuf,
    },
    /// Of a process: a route to the host with this address. `{"withdrawn":…}` follows when it is no longer valid.
    Lease {
        to: IpAddr,
    },
    /// Of a process: it no longer needs a lease.
    Release {
        lease: u64,
    },
    /// An operator's act, which tests a cable of this host: frames go to the neighbour's daemon and back. The answer comes
    /// when it is over.
    Test {
        port: String,
        count: u32,
        /// Bytes of each IP packet; otherwise several sizes up to the MTU.
        #[serde(default)]
        size: Option<u32>,
        /// Frames in a second.
        rate: u32,
    },
}

/// A process's NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// Such as `portals`, `openshmem`, `mpi`, `extoll`.
    pub kind: String,
    pub job: Option<String>,
    pub rank: Option<u32>,
    /// Number of the process, as it sees itself.
    pub process: u32,
    /// The file of the NIC.
    pub segment: PathBuf,
}

impl Request {
    /// Whether only operators may ask.
    pub fn is_act(&self) -> bool {
        match self {
            Request::Link { .. } | Request::Restart | Request::Expect { .. } => true,
            Request::Test { .. } | Request::By { .. } => true,
            Request::At { request, .. } => request.is_act(),
            _ => false,
        }
    }

    /// Seconds that the request itself takes.
    pub fn seconds(&self) -> u64 {
        match self {
            Request::Test { count, rate, .. } => {
                u64::from(count.div_ceil((*rate).max(1)).min(cable_test::SECONDS_MAX)) + cable_test::PAUSES_S
            }
            Request::At { request, .. } => request.seconds(),
            _ => 0,
        }
    }

    /// Whether the answer tells of processes of users, of whom another host knows nothing: only operators may ask there.
    pub fn is_of_users(&self) -> bool {
        match self {
            Request::Nics { links } => *links != LinksOf::None,
            Request::Dump { what, .. } => *what != DumpWhat::Routes,
            _ => false,
        }
    }
}

/// Counters of links that are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinksOf {
    #[default]
    None,
    /// Sums of each process.
    Totals,
    /// Sums, and each link.
    All,
}

/// Tables that can be dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DumpWhat {
    /// The registers of a NIC.
    Nic,
    /// The mailboxes of a NIC.
    Mailbox,
    /// The kernel's table of the daemon, the source routes and the leases.
    Routes,
}

/// The neighbour that a port's cable should lead to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedPort {
    pub port: u16,
    /// Hexadecimal number of the neighbour.
    pub host: String,
    pub neighbour_port: u16,
}

/// Acts at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Enable the port, and end its drain.
    Up,
    Down,
    Reset,
    /// Use the link only where no other path leads.
    Drain,
}

impl Act {
    /// Its word in requests.
    pub fn name(self) -> &'static str {
        match self {
            Act::Up => "up",
            Act::Down => "down",
            Act::Reset => "reset",
            Act::Drain => "drain",
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Status(Status),
    Hosts(Vec<Host>),
    Links(Vec<Link>),
    Topology(Topology),
    Log(Vec<LogLine>),
    Route(RouteView),
    Load(Vec<LoadSeries>),
    Nics(Vec<NicView>),
    Dump(DumpView),
    /// A NIC is registered.
    Registered {
        nic: u64,
    },
    Lease(LeaseView),
    /// A lease is no longer valid. It follows no request.
    Withdrawn {
        lease: u64,
        cause: Withdrawal,
    },
    Tested(Box<TestReport>),
    Done(String),
    Refused(String),
}

/// The result of a test of a cable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestReport {
    pub interface: String,
    /// Name or number of the host at the other end.
    pub neighbour: String,
    /// Frames that were sent, and those that came back.
    pub sent: u32,
    pub returned: u32,
    pub seconds: f64,
    /// The way to the neighbour; None: the neighbour has not told what it has counted, so losses of both ways are in `back`.
    pub there: Option<TestDirection>,
    pub back: TestDirection,
    /// None: no frame came back.
    pub round_trip_us: Option<Percentiles>,
    pub sizes: Vec<TestSize>,
    pub patterns: Vec<TestPattern>,
    /// Times that the link fell meanwhile, and frames that this host's interface counted as wrong.
    pub falls: u64,
    pub interface_errors: u64,
}

/// Frames of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestDirection {
    pub lost: u32,
    /// Frames that arrived with wrong bytes.
    pub damaged: u32,
    /// Frames that arrived after a later one.
    pub disordered: u32,
    pub duplicates: u32,
}

/// Frames of one size, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestSize {
    /// Bytes of the IP packet.
    pub size: u32,
    pub sent: u32,
    pub lost: u32,
    pub damaged: u32,
}

/// Frames of one content, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestPattern {
    pub pattern: String,
    pub sent: u32,
    pub lost: u32,
    pub damaged: u32,
}

/// Percentiles of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl TestReport {
    /// Whether no frame was lost, damaged, out of order or doubled.
    pub fn is_clean(&self) -> bool {
        self.returned == self.sent
            && self.falls == 0
            && [self.there.as_ref(), Some(&self.back)].into_iter().all(|way| way == Some(&TestDirection::default()))
    }
}

/// This host, as its daemon sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub name: String,
    /// Hexadecimal.
    pub host: String,
    pub address: Option<IpAddr>,
    /// Whether the daemon keeps kernel routes, and does not only observe.
    pub keeps_routes: bool,
    pub is_sealed: bool,
    pub uptime_s: f64,
    /// Hexadecimal; hosts with equal maps have equal digests.
    pub digest: String,
    /// Whether the neighbours have acknowledged all, and the map is new.
    pub is_settled: bool,
    pub hosts: usize,
    pub links: usize,
    pub routes: usize,
    pub ports: Vec<PortView>,
}

impl Status {
    /// The port of this host that `HOST:PORT` names: the host by name, number or nothing, the port by its interface or
    /// number.
    pub fn port_named(&self, text: &str) -> Result<&PortView, String> {
        let interfaces: Vec<&str> = self.ports.iter().map(|port| port.interface.as_str()).collect();
        named_port(text, &self.name, &self.host, &interfaces).map(|port| &self.ports[port])
    }
}

/// The place among a host's interfaces that `HOST:PORT` names.
pub(crate) fn named_port(text: &str, name: &str, number: &str, interfaces: &[&str]) -> Result<usize, String> {
    let (host, port) = text.split_once(':').unwrap_or(("", text));
    if !["", name, number, "localhost"].contains(&host) {
        return Err(format!("{text}: this is the daemon of {name}; give the command on {host}"));
    }
    let at = || port.parse().ok().filter(|&at| at < interfaces.len());
    interfaces
        .iter()
        .position(|&interface| interface == port)
        .or_else(at)
        .ok_or_else(|| format!("{text}: {port} is no port of this host, which has {}", interfaces.join(", ")))
}

/// A port of this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortView {
    pub port: u16,
    pub interface: String,
    pub state: String,
    /// Name or number of the host at the other end, while it is heard.
    pub neighbour: Option<String>,
    pub neighbour_port: Option<u16>,
    pub mtu: Option<u32>,
    pub round_trip_us: Option<f64>,
    pub is_enabled: bool,
    pub is_drained: bool,
    pub frames_sent: u64,
    pub frames_received: u64,
    pub frames_refused: u64,
    /// Frames that were sent before, by one who recorded them.
    pub replays: u64,
    pub hellos_lost: u64,
    pub repeats: u64,
    pub drops: u64,
    /// All traffic of the interface, with Ethernet's headers, as of the last second.
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub received_bytes: u64,
    pub interface_errors: u64,
}

/// A host of the fabric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub host: String,
    pub address: Option<IpAddr>,
    pub is_self: bool,
    /// Links on the way, and the first host on it.
    pub hops: Option<u64>,
    pub via: Option<String>,
    pub mtu: Option<u16>,
    pub processor_percent: Option<f64>,
    pub temperature_c: Option<f64>,
}

/// A link between two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    pub ends: [LinkEnd; 2],
    pub mtu: u16,
    pub is_drained: bool,
}

/// An end of a link, and what its host has measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkEnd {
    pub name: String,
    pub host: String,
    pub port: u16,
    /// Known of this host's ports.
    pub interface: Option<String>,
    pub sent_bytes_s: Option<u64>,
    pub load_percent: Option<f64>,
    pub errors: Option<u16>,
    pub round_trip_us: Option<f64>,
    /// Bytes that wait at this end.
    pub queue_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    pub digest: String,
    pub hosts: Vec<Host>,
    pub links: Vec<Link>,
}

/// Name and number of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostName {
    pub name: String,
    /// Hexadecimal.
    pub host: String,
}

/// The way between two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteView {
    pub from: HostName,
    pub to: HostName,
    /// Hosts on the way of kernel routes, both ends included; equal if the two are one.
    pub hosts: Vec<HostName>,
    /// Links between them, one fewer. The first end of each is the nearer one to `from`.
    pub links: Vec<Link>,
    /// The smallest MTU on the way; 65,535 stands for that or more.
    pub mtu: u16,
    /// The route in the kernel of this host, if `from` is this host and its daemon keeps routes.
    pub kernel: Option<String>,
    pub source: Option<SourceRoute>,
}

/// A source route: free of deadlock together with those of all other pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRoute {
    pub algorithm: String,
    pub hosts: Vec<HostName>,
    /// Ports out of each host but the last one.
    pub ports: Vec<u16>,
}

/// Loads of a host or of one end of a link over the last minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadSeries {
    pub name: String,
    /// Hexadecimal.
    pub host: String,
    /// None: the host itself.
    pub port: Option<u16>,
    /// Time of the last sample, in seconds since 1970. The others are a second apart.
    pub end_s: f64,
    /// Of a link's end. Oldest first, as all.
    pub sent_bytes_s: Vec<u64>,
    /// Of a link's end whose speed is known, otherwise empty: the busier direction.
    pub load_percent: Vec<f32>,
    /// Of a host.
    pub processor_percent: Vec<f32>,
}

/// A NIC that a process has registered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NicView {
    /// Number of the registration, never given twice by one daemon.
    pub id: u64,
    pub job: Option<String>,
    pub rank: Option<u32>,
    pub process: u32,
    /// Number of the user.
    pub user: u32,
    /// Such as `portals`, `openshmem`, `mpi`, `extoll`.
    pub kind: String,
    /// Name of the host.
    pub host: String,
    /// Those of its process, with the first NIC of the process.
    pub leases: Vec<LeaseView>,
    /// The same, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<LinksView>,
}

/// The links of a process with its peers, as the process counts them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinksView {
    /// The address at which other hosts reach the process; empty without one.
    pub address: String,
    pub totals: Vec<WayTotal>,
    /// Those on which something has happened, and all between hosts.
    pub links: Vec<LinkView>,
    /// Links that are in the sums, and not listed.
    pub left_out: u64,
    /// The reason for which nothing is seen.
    pub unseen: Option<String>,
}

impl LinksView {
    /// Counters that are not seen.
    pub fn unseen(reason: &str) -> LinksView {
        LinksView { unseen: Some(reason.to_owned()), ..LinksView::default() }
    }
}

/// The links of a process of one way, added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WayTotal {
    /// `memory`: within the host. `network`: between hosts. `others`: peers for which the process had no record left.
    pub way: String,
    pub links: u64,
    /// Links by state, of those between hosts.
    pub states: BTreeMap<String, u64>,
    /// Puts, gets, atomics and messages.
    pub operations: u64,
    /// By their names in `selvedge top --json`. The round trip is the greatest.
    #[serde(flatten)]
    pub counters: BTreeMap<String, u64>,
}

/// A link with a peer, as in `selvedge top --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkView {
    pub way: String,
    /// The NIC of both ends; None: of all NICs of the process.
    pub ni: Option<u32>,
    pub peer_rank: Option<u32>,
    /// 0 if it is unknown.
    pub peer_nid: u32,
    pub peer_pid: u32,
    /// The peer's address, of a link between hosts.
    pub address: String,
    pub state: String,
    /// The reason for the state; empty without one.
    pub why: String,
    pub operations: u64,
    #[serde(flatten)]
    pub counters: BTreeMap<String, u64>,
}

/// Causes of a lease's withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withdrawal {
    /// The host is gone, or no path leads to it.
    Unreachable,
    /// The path has changed: the process asks for the new one.
    Rerouted,
}

/// A route that a process has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseView {
    pub id: u64,
    pub to: HostName,
    pub address: Option<IpAddr>,
    /// Number of the map that the route was made from.
    pub generation: u64,
    /// Ports out of each host on the way.
    pub ports: Vec<u16>,
}

/// Registers, mailboxes or routes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DumpView {
    /// For people.
    pub text: String,
    /// For programs.
    pub value: serde_json::Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// Seconds since 1970.
    pub at_s: f64,
    pub is_warning: bool,
    pub text: String,
}

pub use selvedge_job::fabric::{SYSTEM_SOCKET, own_socket};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_named_by_host_and_interface_or_number() {
        let named = |text| named_port(text, "a", "1f", &["eth0", "7", "eth1"]);
        for (text, at) in [("eth1", 2), (":eth1", 2), ("a:eth1", 2), ("1f:2", 2), ("localhost:0", 0), (":7", 1)] {
            assert_eq!(named(text), Ok(at), "{text}");
        }
        assert_eq!(named("b:eth0"), Err("b:eth0: this is the daemon of a; give the command on b".into()));
        let none = ":3: 3 is no port of this host, which has eth0, 7, eth1";
        assert_eq!(named(":3"), Err(none.into()));
    }

    #[test]
    fn requests_are_lines_of_json() {
        let read = |line: &str| serde_json::from_str::<Request>(line).ok();
        assert_eq!(read(r#"{"ask":"status"}"#), Some(Request::Status));
        assert_eq!(read(r#"{"ask":"log"}"#), Some(Request::Log { follow: false }));
        let drain = Request::Link { port: "a:eth1".into(), act: Act::Drain };
        assert_eq!(read(r#"{"ask":"link","port":"a:eth1","act":"drain"}"#), Some(drain.clone()));
        let at = Request::At { host: "b".into(), request: Box::new(drain.clone()) };
        let text = r#"{"ask":"at","host":"b","request":{"ask":"link","port":"a:eth1","act":"drain"}}"#;
        assert_eq!(read(text), Some(at.clone()));
        assert!(at.is_act() && drain.is_act() && !Request::Load.is_act());
        let test = Request::Test { port: "a:eth1".into(), count: 1001, size: None, rate: 500 };
        assert!(test.is_act());
        let at_other = Request::At { host: "b".into(), request: Box::new(test) };
        assert_eq!((at_other.is_act(), at_other.seconds(), at.seconds()), (true, 3 + cable_test::PAUSES_S, 0));
        let nics = Request::Nics { links: LinksOf::None };
        assert_eq!(read(r#"{"ask":"nics"}"#), Some(nics.clone()));
        let totals = Request::Nics { links: LinksOf::Totals };
        assert_eq!(read(r#"{"ask":"nics","links":"totals"}"#), Some(totals.clone()));
        assert!(!nics.is_of_users() && totals.is_of_users());
        assert_eq!(
            read(r#"{"ask":"dump","what":"routes"}"#),
            Some(Request::Dump { what: DumpWhat::Routes, nic: None })
        );
        assert_eq!(serde_json::to_string(&Act::Reset).unwrap(), format!("\"{}\"", Act::Reset.name()));
        // However deep, it is read or refused.
        let deep = r#"{"ask":"at","host":"b","request":"#.repeat(100);
        assert_eq!(read(&deep[..deep.len().min(REQUEST_BYTES_MAX)]), None);
        for wrong in ["", "{}", "[]", r#"{"ask":"other"}"#, r#"{"ask":"link","port":"a","act":"burn"}"#] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        let refused = serde_json::to_string(&Answer::Refused("no".into())).unwrap();
        assert_eq!(refused, r#"{"refused":"no"}"#);
    }
}
