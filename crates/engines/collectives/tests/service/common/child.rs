// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Managers, nodes and processes of jobs as children that a test stops and kills.
//!
//! A child is this test binary, running only the test `child`. It reads questions from its input, a line each, and its
//! answers are lines that begin with a mark. It ends when its input ends.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal};
use selvedge_collectives::service::manager::{self, Service};
use selvedge_collectives::service::node::AggregationNode;
use selvedge_process::settings::ManagerAt;

use super::{SOON, link_settings, manager_at, node_settings, settings};

const ROLE: &str = "AGGREGATOR_TEST_ROLE";
const AT: &str = "AGGREGATOR_TEST_AT";
const PLACE: &str = "AGGREGATOR_TEST_PLACE";
const STATE: &str = "AGGREGATOR_TEST_STATE";
const RETURNS: &str = "AGGREGATOR_TEST_RETURNS_MS";
const MARK: &str = "@@ ";

/// A child process.
pub struct Child {
    child: std::process::Child,
    lines: Receiver<String>,
}

impl Child {
    fn start(role: &str, environment: &[(&str, String)]) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]).env(ROLE, role);
        command.envs(environment.iter().map(|(name, value)| (name, value.as_str())));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("this program runs");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once(MARK) {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Child { child, lines }
    }

    /// An aggregation node.
    pub fn node(manager: &ManagerAt, place: u64) -> Child {
        let child = Child::start("node", &[(AT, manager.at.to_string()), (PLACE, place.to_string())]);
        assert_eq!(child.line(), "node");
        child
    }

    /// A manager with a state file, at a fixed address.
    pub fn manager(at: SocketAddr, state: &Path, returns_ms: u64) -> Child {
        let state = state.to_str().expect("plain letters").to_owned();
        let child = Child::start("manager", &[(AT, at.to_string()), (STATE, state), (RETURNS, returns_ms.to_string())]);
        assert_eq!(child.line(), "manager");
        child
    }

    pub fn line(&self) -> String {
        self.lines.recv_timeout(SOON).expect("the child answers")
    }

    pub fn ask(&mut self, question: &str) -> String {
        let input = self.child.stdin.as_mut().expect("it is piped");
        writeln!(input, "{question}").expect("the child is alive");
        self.line()
    }

    /// Whether a node has no jobs, no groups and no operands.
    pub fn is_empty_node(&mut self) -> bool {
        self.ask("in use?") == "0 0 true"
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it is there");
    }

    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it, and waits for its end.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

fn say(what: &str) {
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{MARK}{what}").and_then(|()| output.flush());
}

/// Runs the role of a child. In the test process itself it returns at once.
pub fn main() {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let Ok(role) = std::env::var(ROLE) else { return };
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let at: SocketAddr = of(AT).parse().expect("an address");
    match role.as_str() {
        "node" => {
            let place = of(PLACE).parse().expect("a number");
            let node = AggregationNode::open(node_settings(&manager_at(at), place), link_settings()).expect("links");
            let node = Arc::new(node);
            let asked = node.clone();
            std::thread::spawn(move || {
                for _ in std::io::stdin().lines().map_while(Result::ok) {
                    let (jobs, groups) = asked.in_use();
                    say(&format!("{jobs} {groups} {}", asked.is_empty()));
                }
                std::process::exit(0);
            });
            say("node");
            let Err(error) = node.run(|| ());
            say(&format!("the node has ended: {error}"));
        }
        "manager" => {
            let returns = std::time::Duration::from_millis(of(RETURNS).parse().expect("a number"));
            let settings = manager::Settings { state: Some(of(STATE).into()), grace: returns, ..settings() };
            let service = Service::open(at, settings).expect("the port is free, and the state is one");
            std::thread::spawn(|| {
                for _ in std::io::stdin().lines().map_while(Result::ok) {}
                std::process::exit(0);
            });
            say("manager");
            let error = service.run();
            say(&format!("the manager has ended: {error}"));
        }
        other => panic!("no child has the role {other}"),
    }
    std::process::exit(1);
}
