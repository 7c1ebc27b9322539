// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The agents of a job over several hosts, from their start until the ranks can start, and after the ranks have ended.
//!
//! 1. An agent is started on every host that gets ranks; each reports its host's identity.
//! 2. Hosts whose processes share memory are one host, even with two names: the first agent gets the ranks, the other
//!    ends.
//! 3. Each agent gets the job, and prepares it: environment, folder, program, directory.
//!
//! Invariants
//! 1. Every host that fails is reported. Then all agents are ended, and no rank was started.
//! 2. The job's secret and environment go through the channels only.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use selvedge_job::Identity;

use super::addresses::{self, Reached};
use super::aggregation::{Service, start_manager};
use super::host_list::{HostEntry, place};
use super::job_environment::environment_to_forward;
use super::link::{Link, LinkEvent};
use super::poll_set::PollSet;
use super::presence::Presence;
use super::remote_shell::RemoteShell;
use super::wire::{HostPlace, Report, Request, Start};
use crate::error::LauncherError;
use crate::options::JobOptions;
use crate::rank::spawn::allow_open_files;
use crate::report::{EXIT_TIMEOUT, say, signal_name};
use crate::signals::{Signals, stop_self};

/// The longest silence of an agent while the job is prepared.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(3);

/// Time for a remote shell to end that has started no agent.
const UNANSWERED_END_LIMIT: Duration = Duration::from_millis(200);

/// Agents that are ready to start the ranks of a job.
pub(super) struct Agents {
    pub(super) links: Vec<Link>,
    /// The host of each rank.
    pub(super) host_of: Vec<usize>,
    pub(super) job: String,
    /// They live as long as the job.
    pub(super) manager: Option<Service>,
    pub(super) presence: Presence,
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
) -> Result<Agents, NotPrepared> {
    let shell = RemoteShell::new(signals.mask_before()).map_err(LauncherError::OwnFile)?;
    let (names, host_of) = used_hosts(entries, &place(options.ranks as usize, entries).map_err(LauncherError::Hosts)?);
    // Three pipes for each.
    allow_open_files(3 * names.len() + 64)?;
    let mut links = Vec::with_capacity(names.len());
    for name in &names {
        match Link::start(name, &shell, &[]) {
            Ok(link) => links.push(link),
            Err(why) => {
                say(&format!("host {name}: {why}"));
                end(&mut links);
                return Err(NotPrepared::Reported { code: 1 });
            }
        }
    }
    let mut preparation =
        Preparation { options, signals, deadline, links, host_of, manager: None, presence: Presence::default() };
    match preparation.run() {
        Ok(job) => {
            let Preparation { links, host_of, manager, presence, .. } = preparation;
            Ok(Agents { links, host_of, job, manager, presence })
        }
        Err(reason) => {
            if let NotPrepared::Reported { .. } = reason {
                end(&mut preparation.links);
            }
            Err(reason)
        }
    }
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
    links: Vec<Link>,
    host_of: Vec<usize>,
    manager: Option<Service>,
    presence: Presence,
}

impl Preparation<'_> {
    /// Prepares all agents. Returns the job's name.
    fn run(&mut self) -> Result<String, NotPrepared> {
        self.all_answer()?;
        self.join_same_hosts();
        let reached = |link: &Link| addresses::reached(&link.name, link.hello.as_ref());
        let reached: Vec<Reached> = self.links.iter().map(reached).collect();
        let addresses = match addresses::addresses(&reached) {
            Ok(addresses) => addresses,
            Err((host, why)) => {
                say(&format!("host {}: {why}", self.links[host].name));
                return Err(NotPrepared::Reported { code: 1 });
            }
        };
        let job = job_name()?;
        self.send_job(&job, &reached, &addresses)?;
        self.all_answer()?;
        Ok(job)
    }

    /// Waits until every agent has sent its next message. Reports all failures.
    fn all_answer(&mut self) -> Result<(), NotPrepared> {
        let mut pending = vec![true; self.links.len()];
        let mut failed = None;
        let limit = Instant::now() + ANSWER_LIMIT;
        while pending.contains(&true) {
            for (host, event) in self.next_events(limit)? {
                pending[host] = false;
                let (code, why) = match event {
                    LinkEvent::Report(Report::Refused { code, why }) => (code, why),
                    LinkEvent::Lost(why) => (1, why),
                    LinkEvent::Hello | LinkEvent::Report(_) => continue,
                };
                say(&format!("host {}: {why}", self.links[host].name));
                failed = failed.or(Some(code));
            }
            if Instant::now() >= limit {
                for (link, _) in self.links.iter().zip(&pending).filter(|(_, pending)| **pending) {
                    say(&format!("host {}: no answer within {} s", link.name, ANSWER_LIMIT.as_secs()));
                }
                failed = failed.or(Some(1));
                break;
            }
        }
        failed.map_or(Ok(()), |code| Err(NotPrepared::Reported { code }))
    }

    fn next_events(&mut self, limit: Instant) -> Result<Vec<(usize, LinkEvent)>, NotPrepared> {
        let until = self.deadline.map_or(limit, |deadline| deadline.min(limit));
        let mut events = wait(&mut self.links, Some(self.signals), until)?;
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGCHLD => events.extend(children_ended(&mut self.links)),
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

    /// Joins hosts that are one host with two names.
    fn join_same_hosts(&mut self) {
        let mut kept: Vec<Link> = Vec::new();
        let mut ended = Vec::new();
        let mut number_of = Vec::new();
        for link in self.links.drain(..) {
            match kept.iter().position(|other| other.identity() == link.identity()) {
                Some(same) => {
                    log::info!("{} and {} are one host", kept[same].name, link.name);
                    number_of.push(same);
                    ended.push(link);
                }
                None => {
                    number_of.push(kept.len());
                    kept.push(link);
                }
            }
        }
        self.links = kept;
        self.host_of.iter_mut().for_each(|host| *host = number_of[*host]);
        end(&mut ended);
    }

    fn send_job(&mut self, job: &str, reached: &[Reached], addresses: &[IpAddr]) -> Result<(), LauncherError> {
        let (folder, environment, secret) = (folder()?, environment_to_forward(), secret()?);
        let hosts = self.links.len();
        let mut manager_at = None;
        if let Some(&first) = addresses.first().filter(|_| self.options.aggregation) {
            let (manager, at) = start_manager(first, &secret)?;
            (self.manager, manager_at) = (Some(manager), Some(at));
        }
        for (host, link) in self.links.iter_mut().enumerate() {
            let ranks = (0..self.host_of.len()).filter(|&rank| self.host_of[rank] == host).collect();
            let place = addresses.get(host).map(|&address| HostPlace {
                host,
                hosts,
                address,
                secret: secret.clone(),
                manager: manager_at.clone(),
            });
            let at = reached.get(host).and_then(|reached| reached.as_ref().ok().copied().flatten());
            let launcher = at.and_then(|at| self.presence.towards(at).ok());
            link.send(Request::Start(Box::new(Start {
                options: self.options.clone(),
                job: job.to_owned(),
                ranks,
                environment: environment.clone(),
                folder: folder.clone(),
                launcher,
                place,
            })));
        }
        Ok(())
    }
}

/// Waits for events of agents, at most until this time. Signals only end the wait.
fn wait(links: &mut [Link], signals: Option<&Signals>, until: Instant) -> io::Result<Vec<(usize, LinkEvent)>> {
    let mut polled = PollSet::default();
    if let Some(signals) = signals {
        polled.add(None, signals.fd(), PollFlags::IN);
    }
    for (host, link) in links.iter().enumerate() {
        link.poll_with(&mut |part, fd, flags| polled.add(Some((host, part)), fd, flags));
    }
    let mut all = Vec::new();
    for (source, flags) in polled.wait(Some(until))? {
        let Some((host, part)) = source else { continue };
        let mut events = Vec::new();
        links[host].serve(part, flags, &mut events);
        all.extend(events.into_iter().map(|event| (host, event)));
    }
    Ok(all)
}

fn children_ended(links: &mut [Link]) -> Vec<(usize, LinkEvent)> {
    let mut all = Vec::new();
    for (host, link) in links.iter_mut().enumerate() {
        let mut events = Vec::new();
        link.child_ended(&mut events);
        all.extend(events.into_iter().map(|event| (host, event)));
    }
    all
}

/// Ends the agents of a job whose ranks have ended. The agents remove the job's directory.
pub(super) fn finish(links: &mut [Link]) {
    links.iter_mut().for_each(|link| link.send(Request::Finish));
    let until = Instant::now() + END_LIMIT;
    while links.iter().any(Link::is_open) && Instant::now() < until {
        // An agent that has reported `Done` closes its end. An agent lost now has no ranks, and nothing more to report.
        if wait(links, None, until).is_err() {
            break;
        }
    }
    end(links);
}

/// Ends the processes that lost agents have left on their hosts, if the hosts can still be reached.
pub(super) fn clean(lost: &[String], job: &str, signals: &Signals) {
    let Ok(shell) = RemoteShell::new(signals.mask_before()) else { return };
    let parent = selvedge_settings::text("SELVEDGE_DIR").unwrap_or_default();
    let words = ["--end", job, "--directory", &parent];
    let words = if parent.is_empty() { &words[..2] } else { &words[..] };
    let links: Vec<Link> = lost.iter().filter_map(|name| Link::start(name, &shell, words).ok()).collect();
    let until = Instant::now() + END_LIMIT;
    for mut link in links {
        // A lost host that cannot be reached was already reported.
        link.wait(until);
    }
}

/// Ends agents in any state.
pub(super) fn end(links: &mut [Link]) {
    links.iter_mut().for_each(Link::close);
    let now = Instant::now();
    for link in links {
        // A host without an agent needs no wait.
        let has_agent = link.hello.is_some();
        if !link.wait(now + if has_agent { END_LIMIT } else { UNANSWERED_END_LIMIT }) && has_agent {
            say(&format!(
                "host {}: the connection to its agent did not end within {} s",
                link.name,
                END_LIMIT.as_secs()
            ));
        }
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
