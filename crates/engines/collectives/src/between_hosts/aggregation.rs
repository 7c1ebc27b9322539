// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This process's share of the aggregation nodes, and the NIC of its memberships.
//!
//! | machine | grant | way to the nodes |
//! |---|---|---|
//! | simulated | a file in the job's directory | the fabric: an address in a tree is an id |
//! | hosts | from the manager in `SELVEDGE_MANAGER` | links: a node has an id here once its link is known |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::service::session::{ShareSession, request_share};
use crate::service::wire::{HostPlace, JobName, PROCESSES_MAX};
use selvedge_fabric::NodeId;
use selvedge_host::config::MEMBER_NI;
use selvedge_host::interface::ArenaRange;
use selvedge_host::{Config, Interface};
use selvedge_manager::Granted;
use selvedge_net::LinkAddress;
use selvedge_nic::Limits;
use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::message::{Message, Sender};
use selvedge_nic::tables::{Command, Side};
use selvedge_os::sync::IgnorePoison;

use super::group_number::GroupNumber;
use selvedge_net::remote_hosts::RemoteHosts;
use selvedge_process::hosts;
use selvedge_process::process::{Opened, Process};
use selvedge_process::rendezvous_directory::{self, Rendezvous};
use selvedge_process::settings::{self, HostSettings, Settings};

/// Default of the longest operation of the nodes, in requests. `SELVEDGE_AGGREGATION_BYTES` overrides it. Longer
/// operations are faster with the hosts' own algorithms on switches whose data path is no faster than one link.
const LONGEST_REQUESTS: u64 = 16;

/// Time for which a wait for a node of another host polls before it sleeps between polls, and the length of a sleep.
const POLLS: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(50);
/// Time between checks that a node of another host is alive.
const LOOK: Duration = Duration::from_millis(20);

/// This process's share of the aggregation nodes.
pub struct Aggregation {
    interface: Arc<Interface>,
    granted: Granted,
    /// The end node of this process.
    node: NodeId,
    /// Longest operation that this process wants nodes to carry out, in bytes.
    longest: u64,
    reach: Reach,
}

enum Reach {
    /// Holds the claim to the process's id.
    Fabric {
        _opened: Opened,
        process: u64,
        processes: u64,
    },
    Links {
        _rendezvous: Rendezvous,
        hosts: Arc<RemoteHosts>,
        links: BTreeMap<u64, LinkAddress>,
        session: ShareSession,
    },
}

impl Aggregation {
    /// The share of this process of a simulated machine. The error is the reason if it has none.
    pub fn of_process() -> Result<&'static Aggregation, String> {
        static FOUND: OnceLock<Result<Aggregation, String>> = OnceLock::new();
        FOUND.get_or_init(Aggregation::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Aggregation, String> {
        let process = Process::current().map_err(|error| error.to_string())?;
        let path = process.directory().grant();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err("the job has no share of aggregation nodes".to_owned());
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let granted = Granted::restore(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        let number = u64::from(process.rank());
        let own = granted.members.iter().find(|member| member.process == number);
        let node = own.ok_or("the job's share of aggregation nodes does not include this process")?.node;
        let processes = granted.members.iter().map(|member| member.process.saturating_add(1)).max().unwrap_or(0);
        let opened = process.open(MEMBER_NI, None, &limits(&granted)).map_err(|error| error.to_string())?;
        let longest = longest(&granted, &process.settings);
        let interface = opened.interface.clone();
        let reach = Reach::Fabric { _opened: opened, process: number, processes };
        Ok(Aggregation { interface, granted, node, longest, reach })
    }

    /// The share of this process, the leader of its host's members, in a job of several hosts. `places`: known hosts of
    /// the job, its own first. The error is the reason if it has none.
    pub fn of_job(job: JobName, places: &[HostPlace]) -> Result<&'static Aggregation, String> {
        static FOUND: Mutex<BTreeMap<JobName, &'static Aggregation>> = Mutex::new(BTreeMap::new());
        let mut found = FOUND.lock().ignore_poison();
        if let Some(&known) = found.get(&job) {
            return if known.is_lost() { Err("its job has lost its aggregation nodes".to_owned()) } else { Ok(known) };
        }
        // A process without a share may ask again.
        let requested: &'static Aggregation = Box::leak(Box::new(Aggregation::request(job, places)?));
        found.insert(job, requested);
        Ok(requested)
    }

    fn request(job: JobName, places: &[HostPlace]) -> Result<Aggregation, String> {
        let host_settings = HostSettings::from_environment();
        let manager = settings::manager(host_settings.timeout)?.ok_or(NO_MANAGER)?;
        let session = request_share(&manager, job, places)?;
        let own = session.hosts.iter().find(|(place, _)| Some(place) == places.first());
        let node = NodeId(own.ok_or("the job's share of aggregation nodes does not include this host")?.1);
        let granted = session.granted.clone();
        let hosts =
            hosts::of_aggregation(&host_settings.of_aggregation(manager.secret)).map_err(|error| error.to_string())?;
        let settings = Settings::from_environment();
        let rendezvous = rendezvous_directory::join().map_err(|error| error.to_string())?;
        let config = Config {
            mode: settings.mode,
            path: settings.path,
            spin_ns: 0,
            nap_ns: NAP.as_nanos() as u64,
            directory: rendezvous.directory.path().to_path_buf(),
            nid: 0,
            token: hosts.address().token(),
        };
        let pid = rendezvous.claim.pid();
        let opened = Interface::open(hosts.home(), config, MEMBER_NI, pid, 0, &limits(&granted), ArenaRange::default());
        let interface = opened.map_err(|error| error.to_string())?;
        let longest = longest(&granted, &settings);
        let links = session.links.iter().copied().collect();
        let reach = Reach::Links { _rendezvous: rendezvous, hosts, links, session };
        Ok(Aggregation { interface, granted, node, longest, reach })
    }

    pub(super) fn granted(&self) -> &Granted {
        &self.granted
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    pub(super) fn interface(&self) -> &Arc<Interface> {
        &self.interface
    }

    /// A number for a group whose first member is this process. `None`: none is free.
    pub(super) fn number(&self) -> Option<GroupNumber> {
        match &self.reach {
            Reach::Fabric { process, processes, .. } => GroupNumber::take(self.granted.job, *process, *processes),
            Reach::Links { session, .. } => {
                GroupNumber::take(self.granted.job, session.process().into(), PROCESSES_MAX.into())
            }
        }
    }

    /// The local id of the node with an address in trees. `None`: its link is unknown.
    pub(super) fn id_of(&self, address: u64) -> Option<u64> {
        match &self.reach {
            Reach::Fabric { .. } => Some(address),
            Reach::Links { hosts, links, .. } => links.get(&address).map(|&link| hosts.meet(link, 0)),
        }
    }

    fn is_lost(&self) -> bool {
        matches!(&self.reach, Reach::Links { session, .. } if session.is_lost())
    }

    pub(super) fn send(&self, node: u64, message: Message, payload: u64) -> Result<(), Failure> {
        let sender = Sender { address: self.interface.id(), key: self.granted.key };
        let source = Side { start: payload, ..Side::NOWHERE };
        let request = message.encode(sender);
        let command = Command { request, target: node, user_ptr: 0, source, sink: Side::NOWHERE };
        self.interface.start(&command).map_err(|_| Failure::Lost)
    }

    /// Handles messages from nodes. In virtual time the simulator delivers them.
    pub(super) fn poll(&self) {
        if matches!(self.reach, Reach::Links { .. }) {
            self.interface.poll();
        }
    }

    /// Fails the groups of a lost node. In virtual time the simulator does this.
    pub(super) fn check_node(&self, node: u64) {
        if matches!(self.reach, Reach::Links { .. }) && !self.interface.answers_remotely(node) {
            self.interface.lock().member().lose(node);
        }
    }

    /// Waits until `is_done`, or a change of this NIC, or for a short time. Fails the groups of a lost node.
    pub(super) fn wait_briefly(&self, node: u64, wait: &mut Wait, mut is_done: impl FnMut() -> bool) {
        match &self.reach {
            Reach::Fabric { .. } => {
                let mut looks = 0;
                let changed = || {
                    looks += 1;
                    (is_done() || looks > 1).then_some(())
                };
                if self.interface.wait(None, changed).is_err() {
                    self.interface.lock().member().lose(node);
                }
            }
            Reach::Links { .. } => {
                self.interface.poll();
                if is_done() {
                    return;
                }
                let now = Instant::now();
                let since = *wait.since.get_or_insert(now);
                if now - wait.looked.unwrap_or(since) >= LOOK {
                    wait.looked = Some(now);
                    self.check_node(node);
                }
                if now - since > POLLS {
                    std::thread::sleep(NAP);
                }
            }
        }
    }
}

/// The reason if no manager is set.
pub const NO_MANAGER: &str = "SELVEDGE_MANAGER names no aggregation manager";

#[derive(Default)]
pub(super) struct Wait {
    since: Option<Instant>,
    looked: Option<Instant>,
}

fn limits(granted: &Granted) -> Limits {
    let quota = granted.quota;
    Limits { memberships: quota.groups, member_operations: quota.credits_each(), ..Limits::NONE }.clamped()
}

fn longest(granted: &Granted, settings: &Settings) -> u64 {
    settings.aggregation_bytes.unwrap_or(u64::from(granted.quota.bytes) * LONGEST_REQUESTS)
}
