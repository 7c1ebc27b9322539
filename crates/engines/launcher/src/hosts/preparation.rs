// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The start of a job over several hosts, until its ranks can start.
//!
//! 1. An agent is started on every host that gets ranks, in a tree; each reports its host's identity.
//! 2. Hosts whose processes share memory are one host, even with two names: the first agent gets the ranks. The other
//!    ends, or remains for the hosts below it.
//! 3. Each agent gets the job, and prepares it: environment, folder, program, directory.
//!
//! Invariants
//! 1. Every host that fails is reported. Then all agents are ended, and no rank was started.
//! 2. The job's secret and environment go through the channels only.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use selvedge_job::Identity;

use super::addresses::{self, Reached};
use super::agents::{AgentEvent, Agents, reached_through};
use super::aggregation::{Service, start_manager};
use super::below::Below;
use super::host_list::{HostEntry, place};
use super::job_environment::environment_to_forward;
use super::remote_shell::RemoteShell;
use super::tree::{FANOUT_MAX, Tree, fanout};
use super::wire::{HostPlace, Report, Request, Start, Subtree};
use crate::error::LauncherError;
use crate::options::JobOptions;
use crate::report::{EXIT_TIMEOUT, say, signal_name};
use crate::signals::{Signals, stop_self};

/// The longest silence of an agent while the job is prepared.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Agents that are ready to start the ranks of a job.
pub(super) struct Prepared {
    pub(super) agents: Agents,
    /// The agent of each rank.
    pub(super) agent_of: Vec<usize>,
    /// The number of its host in the job.
    pub(super) host_of: Vec<usize>,
    pub(super) job: String,
    /// It lives as long as the job.
    pub(super) manager: Option<Service>,
}

pub(super) enum NotPrepared {
    /// Hosts have failed, a signal came, or the time is over. Everything was reported.
    Reported {
        code: u8,
    },
    Failed(LauncherError),
}

impl From<LauncherError> for NotPrepared {
    fn from(error: LauncherError) -> NotPrepared {
        NotPrepared::Failed(error)
    }
}

impl From<io::Error> for NotPrepared {
    fn from(error: io::Error) -> NotPrepared {
        NotPrepared::Failed(error.into())
    }
}

pub(super) fn prepare(
    options: &JobOptions,
    entries: &[HostEntry],
    signals: &Signals,
    deadline: Option<Instant>,
) -> Result<Prepared, NotPrepared> {
    let shell = RemoteShell::new(signals.mask_before()).map_err(LauncherError::OwnFile)?;
    let (names, host_of) = used_hosts(entries, &place(options.ranks as usize, entries).map_err(LauncherError::Hosts)?);
    let (order, own) = launcher_first(&names);
    let fanout = fanout();
    let tree = Tree::new(names.len(), own, fanout);
    let root = Subtree {
        name: String::new(),
        hosts: order.iter().map(|&host| names[host].clone()).collect(),
        fanout,
        shell: shell.words,
        agent: shell.agent,
        environment: environment_to_forward(),
        folder: folder()?,
    };
    let mut agents = Agents::new(tree, Below::new(root, 0, signals.mask_before())?);
    for part in agents.tree.parts.clone() {
        let host = part.start;
        if let Err(why) = agents.below.start(part) {
            say(&format!("host {}: {why}", agents.name(host)));
            agents.below.end();
            return Err(NotPrepared::Reported { code: 1 });
        }
    }
    let mut agent_of_host = vec![0; order.len()];
    order.iter().enumerate().for_each(|(agent, &host)| agent_of_host[host] = agent);
    let mut preparation = Preparation { options, signals, deadline, agents, agent_of_host, host_of, manager: None };
    match preparation.run() {
        Ok(job) => {
            let Preparation { agents, agent_of_host, host_of, manager, .. } = preparation;
            let agent_of = host_of.iter().map(|&host| agent_of_host[host]).collect();
            Ok(Prepared { agents, agent_of, host_of, job, manager })
        }
        Err(reason) => {
            if let NotPrepared::Reported { .. } = reason {
                preparation.agents.below.end();
            }
            Err(reason)
        }
    }
}

/// The order of hosts in the tree: first those whose names mean another host elsewhere, and their number.
fn launcher_first(names: &[String]) -> (Vec<usize>, usize) {
    let (mut order, others): (Vec<usize>, Vec<usize>) =
        (0..names.len()).partition(|&host| addresses::means_this_host(&names[host]));
    let own = order.len();
    order.extend(others);
    (order, own)
}

/// The hosts that get ranks, and the host of each rank among them.
fn used_hosts(entries: &[HostEntry], placed: &[usize]) -> (Vec<String>, Vec<usize>) {
    let mut used: Vec<usize> = placed.to_vec();
    used.sort_unstable();
    used.dedup();
    let host_of = placed.iter().filter_map(|host| used.binary_search(host).ok()).collect();
    (used.iter().map(|&host| entries[host].name.clone()).collect(), host_of)
}

struct Preparation<'a> {
    options: &'a JobOptions,
    signals: &'a Signals,
    deadline: Option<Instant>,
    agents: Agents,
    /// The agent of each host of the job.
    agent_of_host: Vec<usize>,
    /// The host of each rank.
    host_of: Vec<usize>,
    manager: Option<Service>,
}

impl Preparation<'_> {
    /// Prepares all agents. Returns the job's name.
    fn run(&mut self) -> Result<String, NotPrepared> {
        let all = self.agents.tree.hosts().collect();
        self.all_answer(all, |event| matches!(event, AgentEvent::Hello))?;
        self.join_same_hosts();
        let reached = |&agent: &usize| addresses::reached(self.agents.name(agent), self.agents.hello(agent));
        let reached: Vec<Reached> = self.agent_of_host.iter().map(reached).collect();
        let addresses = match addresses::addresses(&reached) {
            Ok(addresses) => addresses,
            Err((host, why)) => {
                say(&format!("host {}: {why}", self.agents.name(self.agent_of_host[host])));
                return Err(NotPrepared::Reported { code: 1 });
            }
        };
        let job = job_name()?;
        self.send_job(&job, &addresses)?;
        self.all_answer(self.agent_of_host.clone(), |event| matches!(event, AgentEvent::Report(Report::Ready)))?;
        Ok(job)
    }

    /// Waits until each of these agents has answered. Reports all failures.
    fn all_answer(&mut self, of: Vec<usize>, is_answer: fn(&AgentEvent) -> bool) -> Result<(), NotPrepared> {
        let mut pending = vec![false; self.agents.tree.hosts().len()];
        of.into_iter().for_each(|agent| pending[agent] = true);
        let mut failed = None;
        let mut elsewhere = false;
        let mut limit = Instant::now() + ANSWER_LIMIT;
        while pending.contains(&true) {
            for (agent, event) in self.next_events(limit)? {
                if matches!(event, AgentEvent::Hello) && !self.agents.tree.below(agent).is_empty() {
                    limit = Instant::now() + ANSWER_LIMIT;
                }
                let answered = is_answer(&event);
                let (code, why) = match event {
                    AgentEvent::Report(Report::Refused { code, why }) => (code, why),
                    AgentEvent::Lost(why) => {
                        elsewhere |= self.agents.tree.parent(agent).is_some();
                        (1, format!("{why}{}", self.untried(agent, &mut pending)))
                    }
                    AgentEvent::Hello | AgentEvent::Report(_) => {
                        pending[agent] &= !answered;
                        continue;
                    }
                };
                pending[agent] = false;
                say(&format!("host {}: {why}", self.agents.name_and_parent(agent)));
                failed = failed.or(Some(code));
            }
            if Instant::now() >= limit {
                while let Some(agent) = pending.iter().position(|&pending| pending) {
                    pending[agent] = false;
                    let (name, limit) = (self.agents.name_and_parent(agent), ANSWER_LIMIT.as_secs());
                    say(&format!("host {name}: no answer within {limit} s{}", self.untried(agent, &mut pending)));
                }
                failed = failed.or(Some(1));
            }
        }
        if elsewhere {
            let all = pending.len().min(FANOUT_MAX);
            say(&format!("hosts start agents for others; with SELVEDGE_RUN_FANOUT={all} this host starts all itself"));
        }
        failed.map_or(Ok(()), |code| Err(NotPrepared::Reported { code }))
    }

    /// The hosts below one that has failed, in words that follow the reason. They do not answer any more.
    fn untried(&self, agent: usize, pending: &mut [bool]) -> String {
        let below: Vec<usize> = self.agents.tree.below(agent).filter(|&below| pending[below]).collect();
        below.iter().for_each(|&below| pending[below] = false);
        let names: Vec<&str> = below.iter().map(|&below| self.agents.name(below)).collect();
        reached_through(&names)
    }

    fn next_events(&mut self, limit: Instant) -> Result<Vec<(usize, AgentEvent)>, NotPrepared> {
        let until = self.deadline.map_or(limit, |deadline| deadline.min(limit));
        let mut events = self.agents.wait(Some(self.signals), until)?;
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGCHLD => self.agents.child_ended(&mut events),
                libc::SIGCONT => {}
                libc::SIGTSTP => stop_self(),
                signal => {
                    say(&format!("{}; the job is not started", signal_name(signal)));
                    return Err(NotPrepared::Reported { code: u8::try_from(128 + signal).unwrap_or(1) });
                }
            }
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let limit = self.options.timeout.unwrap_or_default();
            say(&format!("the job has reached its time limit of {} s", limit.as_secs_f64()));
            return Err(NotPrepared::Reported { code: EXIT_TIMEOUT });
        }
        Ok(events)
    }

    /// Joins hosts that are one host with two names, and numbers the hosts of the job anew.
    fn join_same_hosts(&mut self) {
        let mut number_of_identity = BTreeMap::new();
        let mut kept: Vec<usize> = Vec::new();
        let mut number_of = Vec::new();
        for &agent in &self.agent_of_host {
            let identity = self.agents.hello(agent).map(|hello| hello.identity.clone());
            let number = *number_of_identity.entry(identity).or_insert(kept.len());
            number_of.push(number);
            if number == kept.len() {
                kept.push(agent);
                continue;
            }
            log::info!("{} and {} are one host", self.agents.name(kept[number]), self.agents.name(agent));
            // It forwards messages until those below it have ended.
            self.agents.send(agent, Request::Finish);
        }
        self.agent_of_host = kept;
        self.host_of.iter_mut().for_each(|host| *host = number_of[*host]);
    }

    fn send_job(&mut self, job: &str, addresses: &[IpAddr]) -> Result<(), LauncherError> {
        let secret = secret()?;
        let hosts = self.agent_of_host.len();
        let mut manager_at = None;
        if let Some(&first) = addresses.first().filter(|_| self.options.aggregation) {
            let (manager, at) = start_manager(first, &secret)?;
            (self.manager, manager_at) = (Some(manager), Some(at));
        }
        let mut ranks_of = vec![Vec::new(); hosts];
        self.host_of.iter().enumerate().for_each(|(rank, &host)| ranks_of[host].push(rank));
        let mut all: Vec<(usize, usize)> = self.agent_of_host.iter().copied().zip(0..).collect();
        // The deepest first: an agent that prepares itself forwards nothing meanwhile.
        all.sort_unstable_by(|a, b| b.cmp(a));
        for (agent, host) in all {
            let place = addresses.get(host).map(|&address| HostPlace {
                host,
                hosts,
                address,
                secret: secret.clone(),
                manager: manager_at.clone(),
            });
            let start = Start {
                options: self.options.clone(),
                job: job.to_owned(),
                ranks: std::mem::take(&mut ranks_of[host]),
                environment: self.agents.below.environment().to_vec(),
                folder: self.agents.below.folder().to_owned(),
                place,
            };
            self.agents.send(agent, Request::Start(Box::new(start)));
        }
        Ok(())
    }
}

/// A job name that is unique on every host: two launchers on different hosts may have the same process id.
fn job_name() -> Result<String, LauncherError> {
    let launcher = Identity::own();
    Ok(format!("run-{}-{}-{}", launcher.pid, launcher.start, hexadecimal(&random::<4>()?)))
}

/// The secret of a job, in hexadecimal digits.
fn secret() -> Result<String, LauncherError> {
    Ok(hexadecimal(&random::<32>()?))
}

fn random<const N: usize>() -> Result<[u8; N], LauncherError> {
    let mut bytes = [0u8; N];
    // SAFETY: the buffer has N bytes, which is the most that the call writes. Up to 256 bytes come at once.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if usize::try_from(count) == Ok(N) { Ok(bytes) } else { Err(LauncherError::Random(io::Error::last_os_error())) }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The working folder, by the name under which the user entered it. Other hosts may know it only by that name.
fn folder() -> Result<PathBuf, LauncherError> {
    let real = std::env::current_dir().map_err(LauncherError::WorkingFolder)?;
    let named = std::env::var_os("PWD").map(PathBuf::from).filter(|named| named.is_absolute());
    let same = |named: &PathBuf| named.canonicalize().is_ok_and(|path| path == real);
    Ok(named.filter(same).unwrap_or(real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_without_ranks_are_left_out() {
        let entries = super::super::host_list::of_job(&JobOptions {
            hosts: Some("a:1,b:2,c:1,d:4".to_owned()),
            ..JobOptions::default()
        })
        .expect("good");
        let (names, host_of) = used_hosts(&entries, &place(3, &entries).expect("few"));
        assert_eq!((names, host_of), (vec!["a".to_owned(), "b".to_owned()], vec![0, 1, 1]));
    }

    #[test]
    fn secrets_differ() {
        let (one, two) = (secret().expect("random"), secret().expect("random"));
        assert!(one.len() == 64 && one.bytes().all(|digit| digit.is_ascii_hexdigit()));
        assert_ne!(one, two);
    }
}
