// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A job over several hosts, until its ranks can start and after they have ended: an agent on each host.
//!
//! 1. An agent is started on every host that gets ranks; all tell who they are.
//! 2. Hosts whose processes share memory are one host, whatever their names: the first agent gets the ranks, the other is ended.
//! 3. Each agent gets the job, and prepares it: environment, folder, program, directory.
//!
//! Invariants
//! 1. Every host that fails is reported. Then all agents are ended, and no rank was started.
//! 2. The job's secret and environment go through the channels only.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use selvedge_job::Identity;

use super::Args;
use super::agent::{Among, Start, environment_to_forward};
use super::aggregation::{Service, start_manager};
use super::channel::{Report, Request};
use super::host_list::{HostEntry, place};
use super::link::{Heard, Link, RemoteShell, is_this_host};
use super::presence::Presence;
use super::supervise::time_until;
use crate::rank::spawn::allow_open_files;
use crate::report::{EXIT_TIMEOUT, say, signal_name};
use crate::signals::{Signals, stop_self};

/// How long an agent may be silent while the job is prepared.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// How long agents may take to end.
const END_LIMIT: Duration = Duration::from_secs(3);

/// How long a remote shell may take to end that has not brought an agent.
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

/// Why there is no job. Everything is reported.
struct Failed {
    /// The command's exit code.
    code: u8,
}

/// Starts and prepares agents. `Ok(Err)`: the command's exit code, if there is no job; the reason is printed.
pub(super) fn prepare(
    args: &Args,
    entries: &[HostEntry],
    signals: &Signals,
    deadline: Option<Instant>,
) -> Result<Result<Agents, u8>> {
    let shell = RemoteShell::new(signals.mask_before()).context("cannot find this command's own file")?;
    let (names, host_of) = used_hosts(entries, &place(args.ranks as usize, entries));
    // Three pipes for each.
    allow_open_files(3 * names.len() + 64)?;
    let mut links = Vec::with_capacity(names.len());
    for name in &names {
        match Link::start(name, &shell, &[]) {
            Ok(link) => links.push(link),
            Err(why) => {
                say(&format!("host {name}: {why}"));
                end(&mut links);
                return Ok(Err(1));
            }
        }
    }
    let mut preparation =
        Preparation { args, signals, deadline, links, host_of, manager: None, presence: Presence::default() };
    match preparation.run()? {
        Ok(job) => {
            let Preparation { links, host_of, manager, presence, .. } = preparation;
            Ok(Ok(Agents { links, host_of, job, manager, presence }))
        }
        Err(Failed { code }) => {
            end(&mut preparation.links);
            Ok(Err(code))
        }
    }
}

/// The hosts that get ranks, and for each rank its host among them.
fn used_hosts(entries: &[HostEntry], placed: &[usize]) -> (Vec<String>, Vec<usize>) {
    let mut used: Vec<usize> = placed.to_vec();
    used.sort_unstable();
    used.dedup();
    let host_of = placed.iter().filter_map(|host| used.binary_search(host).ok()).collect();
    (used.iter().map(|&host| entries[host].name.clone()).collect(), host_of)
}

struct Preparation<'a> {
    args: &'a Args,
    signals: &'a Signals,
    deadline: Option<Instant>,
    links: Vec<Link>,
    host_of: Vec<usize>,
    manager: Option<Service>,
    presence: Presence,
}

impl Preparation<'_> {
    /// Returns the job's name.
    fn run(&mut self) -> Result<Result<String, Failed>> {
        if let Err(failed) = self.all_answer()? {
            return Ok(Err(failed));
        }
        self.join_same_hosts();
        let reached: Vec<Reached> = self.links.iter().map(reached).collect();
        let addresses = match addresses(&reached) {
            Ok(addresses) => addresses,
            Err((host, why)) => {
                say(&format!("host {}: {why}", self.links[host].name));
                return Ok(Err(Failed { code: 1 }));
            }
        };
        let job = job_name()?;
        self.send_job(&job, &reached, &addresses)?;
        Ok(self.all_answer()?.map(|()| job))
    }

    /// Waits until every agent has said the next thing that it has to say. Reports all that fail.
    fn all_answer(&mut self) -> Result<Result<(), Failed>> {
        let mut pending = vec![true; self.links.len()];
        let mut failed = None;
        let limit = Instant::now() + ANSWER_LIMIT;
        while pending.contains(&true) {
            let all_heard = match self.hear(limit)? {
                Ok(heard) => heard,
                Err(failed) => return Ok(Err(failed)),
            };
            for (host, heard) in all_heard {
                pending[host] = false;
                let (code, why) = match heard {
                    Heard::Report(Report::Refused { code, why }) => (code, why),
                    Heard::Lost(why) => (1, why),
                    Heard::Hello | Heard::Report(_) => continue,
                };
                say(&format!("host {}: {why}", self.links[host].name));
                failed = failed.or(Some(Failed { code }));
            }
            if Instant::now() >= limit {
                for (link, _) in self.links.iter().zip(&pending).filter(|(_, pending)| **pending) {
                    say(&format!("host {}: no answer within {} s", link.name, ANSWER_LIMIT.as_secs()));
                }
                return Ok(Err(failed.unwrap_or(Failed { code: 1 })));
            }
        }
        Ok(failed.map_or(Ok(()), Err))
    }

    /// Waits for agents, signals or the time limit.
    fn hear(&mut self, limit: Instant) -> Result<Result<Vec<(usize, Heard)>, Failed>> {
        let until = self.deadline.map_or(limit, |deadline| deadline.min(limit));
        let mut heard = hear(&mut self.links, Some(self.signals), until)?;
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGCHLD => heard.extend(children_ended(&mut self.links)),
                libc::SIGCONT => {}
                libc::SIGTSTP => stop_self(),
                signal => {
                    say(&format!("{}; the job is not started", signal_name(signal)));
                    return Ok(Err(Failed { code: u8::try_from(128 + signal).unwrap_or(1) }));
                }
            }
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let limit = self.args.timeout.unwrap_or_default();
            say(&format!("the job has reached its time limit of {} s", limit.as_secs_f64()));
            return Ok(Err(Failed { code: EXIT_TIMEOUT }));
        }
        Ok(Ok(heard))
    }

    /// Two names of one host are one host.
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

    fn send_job(&mut self, job: &str, reached: &[Reached], addresses: &[IpAddr]) -> Result<()> {
        let (folder, environment, secret) = (folder()?, environment_to_forward(), secret()?);
        let hosts = self.links.len();
        let mut manager_at = None;
        if let Some(&first) = addresses.first().filter(|_| self.args.aggregation) {
            let (manager, at) = start_manager(first, &secret)?;
            (self.manager, manager_at) = (Some(manager), Some(at));
        }
        for (host, link) in self.links.iter_mut().enumerate() {
            let ranks = (0..self.host_of.len()).filter(|&rank| self.host_of[rank] == host).collect();
            let among = addresses.get(host).map(|&address| Among {
                host,
                hosts,
                address,
                secret: secret.clone(),
                manager: manager_at.clone(),
            });
            let at = reached.get(host).and_then(|reached| reached.as_ref().ok().copied().flatten());
            let launcher = at.and_then(|at| self.presence.towards(at).ok());
            link.send(Request::Start(Box::new(Start {
                args: self.args.clone(),
                job: job.to_owned(),
                ranks,
                environment: environment.clone(),
                folder: folder.clone(),
                launcher,
                among,
            })));
        }
        Ok(())
    }
}

/// Waits until agents have something to say, or until this time.
fn hear(links: &mut [Link], signals: Option<&Signals>, until: Instant) -> Result<Vec<(usize, Heard)>> {
    let mut sources = Vec::new();
    let mut polled: Vec<PollFd<'_>> = Vec::new();
    polled.extend(signals.map(|signals| PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)));
    let skipped = polled.len();
    for (host, link) in links.iter().enumerate() {
        link.poll_with(&mut |part, fd, flags| {
            sources.push((host, part));
            polled.push(PollFd::from_borrowed_fd(fd, flags));
        });
    }
    match poll(&mut polled, Some(&time_until(until))) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let flags: Vec<PollFlags> = polled[skipped..].iter().map(PollFd::revents).collect();
    let mut all = Vec::new();
    for ((host, part), flags) in sources.into_iter().zip(flags).filter(|(_, flags)| !flags.is_empty()) {
        let mut heard = Vec::new();
        links[host].serve(part, flags, &mut heard);
        all.extend(heard.into_iter().map(|heard| (host, heard)));
    }
    Ok(all)
}

fn children_ended(links: &mut [Link]) -> Vec<(usize, Heard)> {
    let mut all = Vec::new();
    for (host, link) in links.iter_mut().enumerate() {
        let mut heard = Vec::new();
        link.child_ended(&mut heard);
        all.extend(heard.into_iter().map(|heard| (host, heard)));
    }
    all
}

/// Ends the agents of a job whose ranks have ended: they remove its directory.
pub(super) fn finish(links: &mut [Link]) {
    links.iter_mut().for_each(|link| link.send(Request::Finish));
    let until = Instant::now() + END_LIMIT;
    while links.iter().any(Link::is_open) && Instant::now() < until {
        // An agent that has said that it is done closes its end. One that is lost now has no ranks, and nothing else to say.
        if hear(links, None, until).is_err() {
            break;
        }
    }
    end(links);
}

/// Ends what agents that were lost have left on their hosts, where these can still be reached.
pub(super) fn clean(lost: &[String], job: &str, signals: &Signals) {
    let Ok(shell) = RemoteShell::new(signals.mask_before()) else { return };
    let parent = std::env::var("SELVEDGE_DIR").unwrap_or_default();
    let words = ["--end", job, "--directory", &parent];
    let words = if parent.is_empty() { &words[..2] } else { &words[..] };
    let links: Vec<Link> = lost.iter().filter_map(|name| Link::start(name, &shell, words).ok()).collect();
    let until = Instant::now() + END_LIMIT;
    for mut link in links {
        // That a lost host cannot be reached is no news.
        link.wait(until);
    }
}

/// Ends agents, whatever they are doing.
pub(super) fn end(links: &mut [Link]) {
    links.iter_mut().for_each(Link::close);
    let now = Instant::now();
    for link in links {
        // Where no agent has answered there is nothing to wait for.
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

/// Where processes of other hosts reach those of each host; empty with one host. `Err`: the host that has no such address, and why.
///
/// It is the address by which the remote shell has reached the host, or that of its name. For the launcher's own host it is the address
/// from which that reaches the others.
fn addresses(reached: &[Reached]) -> Result<Vec<IpAddr>, (usize, String)> {
    if reached.len() == 1 {
        return Ok(Vec::new());
    }
    let other = reached.iter().flatten().flatten().next().copied();
    let own = || address_towards(other?).ok().filter(is_usable);
    let each = reached.iter().enumerate().map(|(host, reached)| match reached {
        Ok(Some(address)) => Ok(*address),
        Ok(None) => own().ok_or_else(|| {
            (host, "its name has a loopback address only; name it by a name or address that all hosts know".to_owned())
        }),
        Err(why) => Err((host, why.clone())),
    });
    each.collect()
}

/// The address by which the launcher reaches a host. `Ok(None)`: it is the launcher's own, or its name has a loopback address only. `Err`: why
/// there is none.
type Reached = Result<Option<IpAddr>, String>;

fn reached(link: &Link) -> Reached {
    if is_this_host(&link.name) {
        return Ok(None);
    }
    let reached = link.hello.as_ref().and_then(|hello| hello.reached).filter(is_usable);
    if reached.is_some() {
        return Ok(reached);
    }
    let name = link.name.rsplit('@').next().unwrap_or_default();
    let all = (name, 0).to_socket_addrs().map_err(|error| {
        format!("its name has no address here ({error}); name it by a name or address that all hosts know")
    })?;
    Ok(all.map(|address| address.ip()).find(is_usable))
}

fn is_usable(address: &IpAddr) -> bool {
    !address.is_loopback() && !address.is_unspecified()
}

/// This host's address on the way to another. Nothing is sent.
pub(super) fn address_towards(other: IpAddr) -> std::io::Result<IpAddr> {
    let socket = UdpSocket::bind(if other.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect((other, 9))?;
    Ok(socket.local_addr()?.ip())
}

/// Unique on every host: two launchers on different hosts may have the same process id.
fn job_name() -> Result<String> {
    let launcher = Identity::own();
    Ok(format!("run-{}-{}-{}", launcher.pid, launcher.start, hexadecimal(&random::<4>()?)))
}

/// The secret of a job, in hexadecimal digits.
fn secret() -> Result<String> {
    Ok(hexadecimal(&random::<32>()?))
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0u8; N];
    // SAFETY: the buffer has N bytes, which is the most that the call writes. Up to 256 bytes come at once.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    anyhow::ensure!(
        usize::try_from(count) == Ok(N),
        "the kernel gives no random bytes: {}",
        std::io::Error::last_os_error()
    );
    Ok(bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The working folder, by the name under which the user entered it, because other hosts may know it by that name only.
fn folder() -> Result<PathBuf> {
    let real = std::env::current_dir().context("the working folder has no name")?;
    let named = std::env::var_os("PWD").map(PathBuf::from).filter(|named| named.is_absolute());
    let same = |named: &PathBuf| named.canonicalize().is_ok_and(|path| path == real);
    Ok(named.filter(same).unwrap_or(real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_without_ranks_are_left_out() {
        let entries = super::super::host_list::from_list("a:1,b:2,c:1,d:4").expect("good");
        let (names, host_of) = used_hosts(&entries, &place(3, &entries));
        assert_eq!((names, host_of), (vec!["a".to_owned(), "b".to_owned()], vec![0, 1, 1]));
    }

    #[test]
    fn secrets_differ() {
        let (one, two) = (secret().expect("random"), secret().expect("random"));
        assert!(one.len() == 64 && one.bytes().all(|digit| digit.is_ascii_hexdigit()));
        assert_ne!(one, two);
    }
}
