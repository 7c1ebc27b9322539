// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages between a launcher and its agents: the agent's greeting, requests down, reports up. An agent with hosts
//! below it is to its children what the launcher is to it, and forwards their messages.
//!
//! The agent begins with one line of text, [`greeting`], which has its version in a fixed form. Then [`Request`] and
//! [`Report`] travel as JSON, followed by bytes that belong to them ([`Message`]).

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::messages::{Event, Order};
use crate::options::JobOptions;

/// Changes with every change of the channel's wire format.
pub(super) const PROTOCOL: u32 = 5;
const GREETING: &str = "selvedge agent ";

/// The job, for an agent.
#[derive(Serialize, Deserialize)]
pub(super) struct Start {
    #[serde(rename = "args")]
    pub(super) options: JobOptions,
    pub(super) job: String,
    /// In ascending order.
    pub(super) ranks: Vec<usize>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) folder: PathBuf,
    /// Present with several hosts.
    #[serde(rename = "among")]
    pub(super) place: Option<HostPlace>,
}

/// The place of a host in a job of several hosts.
#[derive(Serialize, Deserialize)]
pub(super) struct HostPlace {
    pub(super) host: usize,
    pub(super) hosts: usize,
    /// The address by which processes of other hosts reach those of this one.
    pub(super) address: IpAddr,
    /// In hexadecimal digits.
    pub(super) secret: String,
    /// The address of the job's aggregation manager, if it has one.
    pub(super) manager: Option<String>,
}

/// The hosts below an agent, and the way to start agents on them.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Subtree {
    /// The agent's own host, as the user has named it.
    pub(super) name: String,
    /// The hosts below it, numbered from 1.
    pub(super) hosts: Vec<String>,
    /// The largest number of agents that one process starts.
    pub(super) fanout: usize,
    /// The remote shell: a program and its first arguments.
    pub(super) shell: Vec<String>,
    /// The agent's program.
    pub(super) agent: PathBuf,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) folder: PathBuf,
}

/// From an agent to the launcher.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// An agent below has answered. Its parent sends this in its name.
    Hello(Hello),
    /// An agent below is gone, with those below it. Its parent sends this in its name. The reason follows its name.
    Lost(String),
    /// Everything is prepared, and no rank is started yet.
    Ready,
    /// The ranks cannot be started here. The code is the job's exit code.
    Refused {
        code: u8,
        why: String,
    },
    Event(Event),
    /// Sent when the agent has had nothing else to send for some time.
    Alive,
    /// The job's directory is removed.
    Done,
}

/// From the launcher to an agent.
#[derive(Serialize, Deserialize)]
pub(super) enum Request {
    /// Start the agents below, and forward their messages.
    Subtree(Box<Subtree>),
    /// Watch the parent's host ([`super::presence`]) at this port. The text names the host.
    Watch {
        at: SocketAddr,
        host: String,
    },
    Start(Box<Start>),
    /// Start the ranks.
    Go,
    Order(Order),
    /// All ranks have ended: remove the job's directory, and end after the agents below.
    Finish,
}

/// A message. Some messages carry bytes.
pub(super) trait Message: Serialize + DeserializeOwned {
    /// The bytes that travel behind the message.
    fn bytes(&mut self) -> Option<&mut Vec<u8>>;
}

impl Message for Report {
    fn bytes(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Report::Event(Event::Output { bytes, .. }) => Some(bytes),
            _ => None,
        }
    }
}

impl Message for Request {
    fn bytes(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Request::Order(Order::Input(bytes) | Order::Table { text: bytes, .. }) => Some(bytes),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Equal for two agents whose processes share memory.
    pub(super) identity: String,
    /// The address of this host to which its parent has connected, if the remote shell reports it.
    pub(super) reached: Option<IpAddr>,
}

pub(super) fn greeting(hello: &Hello) -> String {
    let hello = serde_json::to_string(hello).unwrap_or_default();
    format!("{GREETING}{PROTOCOL} {} {hello}\n", env!("CARGO_PKG_VERSION"))
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    Hello(Hello),
    OtherVersion(String),
}

/// Parses the first line of an agent. `None`: it is another line.
pub(super) fn parse_greeting(line: &str) -> Option<Greeting> {
    let mut words = line.strip_prefix(GREETING)?.trim_end().splitn(3, ' ');
    let (protocol, version, rest) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    if version != env!("CARGO_PKG_VERSION") {
        return Some(Greeting::OtherVersion(version.to_owned()));
    }
    let hello = serde_json::from_str(rest).ok().filter(|_| protocol.parse() == Ok(PROTOCOL));
    Some(hello.map_or_else(|| Greeting::OtherVersion(format!("{version} (channel {protocol})")), Greeting::Hello))
}

impl Hello {
    /// Describes this host and this process.
    pub(super) fn own() -> Hello {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let link = |path: &str| std::fs::read_link(path).unwrap_or_default().display().to_string();
        let memory = std::fs::metadata("/dev/shm").map_or(0, |meta| meta.dev());
        let identity = [
            text("/proc/sys/kernel/random/boot_id"),
            link("/proc/self/ns/pid"),
            link("/proc/self/ns/ipc"),
            link("/proc/self/ns/net"),
            memory.to_string(),
        ];
        // "client address, client port, server address, server port"
        let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
        let reached = connection.split_ascii_whitespace().nth(2).and_then(|address| address.parse().ok());
        Hello { identity: identity.join(" "), reached }
    }
}
