// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol of the daemon's UNIX socket: a request is a line of JSON, and so is its answer. An answer is one line,
//! but for a log that is followed, which has no end.
//!
//! `{"ask":"status"}` gives `{"status":{…}}`; a request that is refused gives `{"refused":"reason"}`.
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

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
    /// An operator's act: root and the daemon's own user may.
    Link {
        port: String,
        act: Act,
    },
}

/// Acts at a port of this host.
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

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Status(Status),
    Hosts(Vec<Host>),
    Links(Vec<Link>),
    Topology(Topology),
    Log(Vec<LogLine>),
    Done(String),
    Refused(String),
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
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    pub digest: String,
    pub hosts: Vec<Host>,
    pub links: Vec<Link>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// Seconds since 1970.
    pub at_s: f64,
    pub is_warning: bool,
    pub text: String,
}

/// The socket of a daemon that this user runs.
pub fn own_socket() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    match runtime.filter(|_| !rustix::process::geteuid().is_root()) {
        Some(folder) => Path::new(&folder).join("selvedge-daemon.sock"),
        None => PathBuf::from(SYSTEM_SOCKET),
    }
}

/// The socket of root's daemon.
pub const SYSTEM_SOCKET: &str = "/run/selvedge-daemon.sock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines_of_json() {
        let read = |line: &str| serde_json::from_str::<Request>(line).ok();
        assert_eq!(read(r#"{"ask":"status"}"#), Some(Request::Status));
        assert_eq!(read(r#"{"ask":"log"}"#), Some(Request::Log { follow: false }));
        let drain = Request::Link { port: "a:eth1".into(), act: Act::Drain };
        assert_eq!(read(r#"{"ask":"link","port":"a:eth1","act":"drain"}"#), Some(drain));
        for wrong in ["", "{}", "[]", r#"{"ask":"other"}"#, r#"{"ask":"link","port":"a","act":"burn"}"#] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        let refused = serde_json::to_string(&Answer::Refused("no".into())).unwrap();
        assert_eq!(refused, r#"{"refused":"no"}"#);
    }
}
