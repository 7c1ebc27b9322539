// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages between the manager, aggregation nodes and processes in sessions (`selvedge_net::session`), as JSON.
//!
//! ```text
//! node ──── Node ──────────> manager        process ── Share ────> manager
//!      <─── Welcome ────────                        <─ Granted ──            or Refused
//!      <─── Steps ──────────                        <─ Lost ─────
//!      ──── Done ──────────>
//! ```
//!
//! A session belongs to one node or process, and ends with it. An invalid message ends it with
//! [`ManagerReply::Refused`].

use selvedge_manager::Step;
use selvedge_net::{ADDRESS_BYTES, LinkAddress};
use selvedge_nic::aggregation::{Failure, Limits, Quota};
use serde::{Deserialize, Serialize};

/// Version of the messages.
pub const VERSION: u32 = 2;

/// A number that identifies a host: equal in all its processes, and different on other hosts.
pub type HostPlace = u64;
/// The name of a job among its processes: 128 random bits, unknown to others.
pub type JobName = [u64; 2];

/// A message to the manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ManagerRequest {
    /// Registers an aggregation node that knows these jobs, by number and key.
    Node { version: u32, place: HostPlace, host: String, link: LinkBytes, jobs: Vec<(u32, u64)> },
    /// The steps up to this number are carried out.
    Done { number: u64 },
    /// Asks for a process's share. `places`: known hosts of the job, its own first.
    Share { version: u32, job: JobName, places: Vec<HostPlace> },
    /// A request for the manager's report.
    Show { version: u32 },
}

/// A message of the manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ManagerReply {
    Refused {
        why: String,
    },
    /// To a node: its address in trees, and the limits of its tables: jobs, trees, groups, children, credits, blocks of operands.
    Welcome {
        address: u64,
        limits: [u32; 6],
    },
    /// To a node: transitions, in order, and the links of the nodes that they name.
    Steps {
        number: u64,
        steps: Vec<WireStep>,
        links: Vec<(u64, LinkBytes)>,
    },
    /// To a process.
    Granted(Box<Share>),
    /// To a process: its job has lost its resources.
    Lost {
        failure: u8,
    },
    Shown(ManagerReport),
}

/// The manager's report on its hosts, trees and jobs, and on their use of the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagerReport {
    pub hosts: Vec<HostReport>,
    pub trees: Vec<TreeReport>,
    pub jobs: Vec<JobReport>,
    pub uses: Vec<UseReport>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostReport {
    pub number: u32,
    pub name: String,
    /// The address from which its aggregation node is connected; `None`: it has none.
    pub node_address: Option<String>,
}

/// A tree of aggregation nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeReport {
    pub number: u64,
    /// The number of the node at its root.
    pub root: u64,
    pub nodes: u64,
}

/// A job that has a share of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobReport {
    pub number: u64,
    /// The first half of its name, in hexadecimal digits.
    pub name: String,
    /// Processes that are connected to the manager.
    pub processes: u64,
    /// Why it has lost its resources; `None`: it has them.
    pub failure: Option<String>,
}

/// The use of an aggregation node by jobs, beside its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseReport {
    pub node: u64,
    pub jobs: u64,
    pub jobs_max: u64,
    pub groups: u64,
    pub groups_max: u64,
    pub operand_blocks: u64,
    pub operand_blocks_max: u64,
}

/// A process's share of the aggregation nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// [`selvedge_manager::Granted::save`].
    pub grant: String,
    /// The links of the nodes of its trees.
    pub links: Vec<(u64, LinkBytes)>,
    /// The end node of each of the job's hosts.
    pub hosts: Vec<(HostPlace, u32)>,
    /// The process's number in the job: from 0, below [`PROCESSES_MAX`].
    pub process: u32,
}

/// Largest number of processes of a job that ask for its share.
pub const PROCESSES_MAX: u32 = 1 << 16;

/// A link's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct LinkBytes(pub [u8; ADDRESS_BYTES]);

impl From<LinkBytes> for Vec<u8> {
    fn from(link: LinkBytes) -> Vec<u8> {
        link.0.to_vec()
    }
}

impl TryFrom<Vec<u8>> for LinkBytes {
    type Error = String;

    fn try_from(bytes: Vec<u8>) -> Result<LinkBytes, String> {
        bytes.try_into().map(LinkBytes).map_err(|bytes| format!("{} bytes are not the address of links", bytes.len()))
    }
}

impl From<LinkAddress> for LinkBytes {
    fn from(address: LinkAddress) -> LinkBytes {
        LinkBytes(address.to_bytes())
    }
}

impl From<LinkBytes> for LinkAddress {
    fn from(link: LinkBytes) -> LinkAddress {
        LinkAddress::from_bytes(&link.0)
    }
}

/// A [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum WireStep {
    Revoke { job: u32, key: u64, failure: u8 },
    Lose { address: u64 },
    Forget { job: u32, key: u64 },
    ClearTree { number: u16, failure: u8 },
    SetTree { number: u16, parent: Option<u64> },
    Admit { job: u32, key: u64, quota: (u32, u32, u32) },
}

impl From<Step> for WireStep {
    fn from(step: Step) -> WireStep {
        match step {
            Step::Revoke { job, key, failure } => WireStep::Revoke { job, key, failure: failure as u8 },
            Step::Lose { address } => WireStep::Lose { address },
            Step::Forget { job, key } => WireStep::Forget { job, key },
            Step::ClearTree { number, failure } => WireStep::ClearTree { number, failure: failure as u8 },
            Step::SetTree { number, parent } => WireStep::SetTree { number, parent },
            Step::Admit { job, key, quota: Quota { groups, credits, bytes } } => {
                WireStep::Admit { job, key, quota: (groups, credits, bytes) }
            }
        }
    }
}

impl WireStep {
    /// Converts it to a step. `None`: there is no such failure.
    pub fn step(self) -> Option<Step> {
        Some(match self {
            WireStep::Revoke { job, key, failure } => Step::Revoke { job, key, failure: Failure::from_u8(failure)? },
            WireStep::Lose { address } => Step::Lose { address },
            WireStep::Forget { job, key } => Step::Forget { job, key },
            WireStep::ClearTree { number, failure } => Step::ClearTree { number, failure: Failure::from_u8(failure)? },
            WireStep::SetTree { number, parent } => Step::SetTree { number, parent },
            WireStep::Admit { job, key, quota: (groups, credits, bytes) } => {
                Step::Admit { job, key, quota: Quota { groups, credits, bytes } }
            }
        })
    }
}

/// Encodes the limits of a node's tables.
pub fn encode_limits(limits: &Limits) -> [u32; 6] {
    let Limits { jobs, trees, groups, children, credits, operand_blocks } = *limits;
    [jobs, trees, groups, children, credits, operand_blocks]
}

/// Decodes the limits that the manager has sent.
pub fn decode_limits([jobs, trees, groups, children, credits, operand_blocks]: [u32; 6]) -> Limits {
    Limits { jobs, trees, groups, children, credits, operand_blocks }.clamped()
}

/// Encodes a message.
pub fn to_bytes(words: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(words).unwrap_or_default()
}

/// Decodes a message.
pub fn from_bytes<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("invalid message: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_and_nonsense_does_not() {
        let link = LinkBytes([7; ADDRESS_BYTES]);
        let requests = [
            ManagerRequest::Node {
                version: VERSION,
                place: u64::MAX,
                host: "a".to_owned(),
                link,
                jobs: vec![(1, u64::MAX)],
            },
            ManagerRequest::Share { version: VERSION, job: [1, u64::MAX], places: vec![3, 4] },
            ManagerRequest::Done { number: 9 },
        ];
        for request in requests {
            assert_eq!(from_bytes(&to_bytes(&request)), Ok(request));
        }
        let quota = Quota { groups: 1, credits: 2, bytes: 3 };
        let steps = [
            Step::Revoke { job: 1, key: u64::MAX, failure: Failure::Lost },
            Step::Lose { address: 5 },
            Step::Forget { job: 1, key: 2 },
            Step::ClearTree { number: 3, failure: Failure::NoTree },
            Step::SetTree { number: 3, parent: Some(4) },
            Step::Admit { job: 1, key: 2, quota },
        ];
        for step in steps {
            let read: Result<WireStep, String> = from_bytes(&to_bytes(&WireStep::from(step)));
            assert_eq!(read.map(WireStep::step), Ok(Some(step)));
        }
        assert_eq!(WireStep::Revoke { job: 1, key: 2, failure: 255 }.step(), None);
        for nonsense in [
            &b""[..],
            b"{}",
            b"{\"Done\":{\"number\":-1}}",
            b"{\"Node\":{\"version\":1,\"place\":1,\"host\":\"\",\"link\":[1],\"jobs\":[]}}",
        ] {
            assert!(from_bytes::<ManagerRequest>(nonsense).is_err());
        }
    }
}
