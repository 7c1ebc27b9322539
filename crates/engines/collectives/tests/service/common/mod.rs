// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared parts of the suites: a manager, nodes and processes of jobs, on loopback, in the test process or its
//! children.
//!
//! Each wait has a deadline ([`SOON`]), after which the test fails. A child ends with its parent.

#![allow(dead_code, unused_imports, reason = "each suite uses a part of it")]

pub mod child;
pub mod oracle;
pub mod process;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use selvedge_collectives::service::manager::{self, Service};
use selvedge_collectives::service::node::{self, AggregationNode};
use selvedge_collectives::service::session;
use selvedge_collectives::service::wire::JobReport;
use selvedge_net::{Check, Progress};
use selvedge_process::settings::ManagerAt;

pub use child::Child;
pub use process::{Job, Process};

/// Longer than any step here takes, even on a busy machine. It ends a test that hangs.
pub const SOON: Duration = Duration::from_secs(120);
pub const SECRET: &[u8] = b"weft and warp";
/// Time of silence after which a host is lost: longer than a busy machine delays a process. No test waits for it.
pub const SILENCE: Duration = Duration::from_secs(60);
/// Time in ms for nodes and processes to reconnect to a restarted manager. Tests wait for it if a process does not.
pub const RETURNS_MS: u64 = 8000;
/// The NIC with which processes are members.
pub const NI: u16 = 5;

/// The longest time of all tests of a binary. Some calls wait as long as the manager does, and nothing else ends them.
const ALL_TESTS: Duration = Duration::from_secs(900);

fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        std::thread::spawn(|| {
            std::thread::sleep(ALL_TESTS);
            eprintln!("a test hangs");
            std::process::abort();
        });
    });
}

/// Waits until `is_so` returns true.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A generator of reproducible numbers (splitmix64).
#[derive(Clone)]
pub struct Choices(pub u64);

impl Choices {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn milliseconds(&mut self, end: u64) -> Duration {
        Duration::from_micros(self.below(end * 1000))
    }
}

/// A folder for a state file. It is removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("selvedge-aggregator-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }

    pub fn state(&self) -> PathBuf {
        self.0.join("state")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A narrow tree, so that few nodes have several levels.
pub fn settings() -> manager::Settings {
    watch();
    manager::Settings {
        secret: SECRET.to_vec(),
        silence: SILENCE,
        hosts: 16,
        radix: 3,
        bytes: 4096,
        ..Default::default()
    }
}

/// Starts a manager in this process.
pub fn serve(settings: manager::Settings) -> ManagerAt {
    let service = Service::open((Ipv4Addr::LOCALHOST, 0).into(), settings).expect("a port, and trees");
    let at = service.at().expect("it listens");
    std::thread::spawn(move || service.run());
    manager_at(at)
}

pub fn manager_at(at: SocketAddr) -> ManagerAt {
    ManagerAt { at, secret: SECRET.to_vec(), silence: SILENCE }
}

pub fn link_settings() -> selvedge_net::Settings {
    selvedge_net::Settings {
        at: Ipv4Addr::LOCALHOST.into(),
        provider: None,
        secret: SECRET.to_vec(),
        nid: None,
        check: Check::Crc,
        progress: Progress::Thread,
        links_max: 256,
        timeout: Duration::from_secs(5),
        faults: None,
    }
}

pub fn node_settings(manager: &ManagerAt, place: u64) -> node::Settings {
    node::Settings {
        manager: manager.at,
        secret: SECRET.to_vec(),
        silence: SILENCE,
        place,
        host: format!("place {place}"),
        member_ni: NI,
    }
}

/// Starts an aggregation node in this process. It ends with the process.
pub fn node(manager: &ManagerAt, place: u64) -> Arc<AggregationNode> {
    let node = AggregationNode::open(node_settings(manager, place), link_settings()).expect("links");
    let node = Arc::new(node);
    let running = node.clone();
    std::thread::spawn(move || running.run(|| ()));
    node
}

/// Starts nodes at the places from 0, and waits until the manager knows them.
pub fn nodes(manager: &ManagerAt, count: u64) -> Vec<Arc<AggregationNode>> {
    let nodes = (0..count).map(|place| node(manager, place)).collect();
    wait_for_nodes(manager, count);
    nodes
}

pub fn wait_for_nodes(manager: &ManagerAt, count: u64) {
    until("the nodes are at the manager", || {
        let shown = session::manager_report(manager).unwrap_or_default();
        shown.hosts.iter().filter(|host| host.node_address.is_some()).count() as u64 == count
    });
}

/// The jobs in the manager's report.
pub fn jobs_shown(manager: &ManagerAt) -> Option<Vec<JobReport>> {
    session::manager_report(manager).ok().map(|report| report.jobs)
}

/// Waits until the manager has no job, and nodes have neither jobs nor groups.
pub fn wait_for_nothing(manager: &ManagerAt, nodes: &[Arc<AggregationNode>]) {
    until("the manager has no jobs", || jobs_shown(manager).is_some_and(|jobs| jobs.is_empty()));
    until("the nodes have no jobs and no groups", || {
        nodes.iter().all(|node| node.in_use() == (0, 0) && node.is_empty())
    });
}

/// Waits until nodes have no groups. They may know jobs.
pub fn wait_for_no_groups(nodes: &[Arc<AggregationNode>]) {
    until("the nodes have no groups", || nodes.iter().all(|node| node.is_empty()));
}
