// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Supervises a job: PMI, output, input, signals, the time limit, the exit code. One thread, one `poll`.
//!
//! The ranks are behind [`JobHosts`]: this process's own, or those of agents on other hosts.
//!
//! Invariants
//! 1. PMI requests that a rank sent before it died are handled before its death.
//! 2. A dead rank is recorded as lost on all hosts if the job goes on, and buried, before its death has any other
//!    effect: its tombstone is written, its NICs are marked dead.
//! 3. Only the first failure decides the exit code. Deaths after the job has begun to end are not reported.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::agents::reached_through;
use super::host_list::process_mapping;
use super::job_hosts::{HostEvents, JobHosts, Part};
use super::messages::{Event, Order};
use super::poll_set::PollSet;
use super::preparation::Prepared;
use super::ranks::Ranks;
use crate::options::JobOptions;
use crate::pmi_server::{Abort, Replies, Server, Table};
use crate::rank::output::{Printer, STANDARD_STREAMS};
use crate::report::{EXIT_TIMEOUT, describe_end, exit_code, say, signal_name};
use crate::signals::{Signals, stop_self};

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// Time to wait for output after all ranks have ended, while another process holds the pipe open.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// The same for other hosts, while output arrives.
const LAST_OUTPUT_FROM_HOSTS: Duration = Duration::from_secs(30);
/// Time between checks whether the launcher is in the terminal's foreground again and may read from it.
const FOREGROUND_CHECK: Duration = Duration::from_millis(300);
/// Largest number of input bytes on their way to rank 0.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Time for other hosts to report the ends of killed ranks.
const KILL_LIMIT: Duration = Duration::from_secs(5);

struct Member {
    host: usize,
    state: State,
    pid: u32,
    /// The printers of its output. `None`: it has ended, or goes elsewhere.
    printers: [Option<Printer>; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Expected,
    Alive,
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// The ranks got SIGTERM, and get SIGKILL at this time.
    Ending {
        kill_at: Instant,
    },
    /// They got SIGKILL. Other hosts count as lost at this time.
    Killed {
        lost_at: Option<Instant>,
    },
}

#[derive(Clone, Copy)]
enum Source {
    Signals,
    Stdin,
    Hosts(Part),
}

struct Supervisor<'a> {
    options: &'a JobOptions,
    signals: Signals,
    job: String,
    program: String,
    server: Server,
    hosts: JobHosts,
    members: Vec<Member>,
    /// Number of input bytes on their way to rank 0. `None`: it takes no input from here.
    input: Option<usize>,
    phase: Phase,
    deadline: Option<Instant>,
    interrupted: bool,
    output_at: Instant,
    /// Hosts whose agents were lost while they had ranks.
    lost: Vec<String>,
    /// The exit code, once something has failed.
    failure: Option<u8>,
}

/// Runs a job whose ranks are all on this host, and then removes its directory. Returns the exit code.
pub(super) fn here(ranks: Ranks, job: &str, signals: Signals, options: &JobOptions) -> io::Result<u8> {
    let server = Server::new(job, options.ranks as usize);
    let plan = ranks.plan();
    let (captured, forward_stdin) = (plan.capture_output, plan.forward_stdin);
    let deadline = options.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let hosts = JobHosts::Here(Box::new(ranks));
    let host_of = vec![0; options.ranks as usize];
    let mut supervisor = Supervisor::new(options, signals, server, hosts, &host_of, captured, deadline);
    supervisor.input = forward_stdin.then_some(0);
    supervisor.run_and_clean_up()
}

/// Runs a job whose ranks are on other hosts. Returns its exit code when all have ended. Then the agents are ended.
pub(super) fn on_hosts(
    prepared: Prepared,
    signals: Signals,
    deadline: Option<Instant>,
    options: &JobOptions,
) -> io::Result<u8> {
    let Prepared { agents, agent_of, host_of, job, manager: _manager } = prepared;
    let mut server = Server::new(&job, options.ranks as usize);
    server.set_mapping(process_mapping(&host_of));
    let hosts = JobHosts::Agents(Box::new(agents));
    let mut supervisor = Supervisor::new(options, signals, server, hosts, &agent_of, true, deadline);
    supervisor.input = Some(0);
    supervisor.run_and_clean_up()
}

impl<'a> Supervisor<'a> {
    /// `captured`: the ranks' output comes to the supervisor.
    fn new(
        options: &'a JobOptions,
        signals: Signals,
        server: Server,
        hosts: JobHosts,
        host_of: &[usize],
        captured: bool,
        deadline: Option<Instant>,
    ) -> Supervisor<'a> {
        let member = |(rank, &host): (usize, &usize)| {
            let tag = options.tag_output.then_some(rank);
            let printers = STANDARD_STREAMS.map(|stream| captured.then(|| Printer::new(stream, tag)));
            Member { host, state: State::Expected, pid: 0, printers }
        };
        Supervisor {
            options,
            signals,
            job: server.name().to_owned(),
            program: options.program().to_string_lossy().into_owned(),
            server,
            hosts,
            members: host_of.iter().enumerate().map(member).collect(),
            input: None,
            phase: Phase::Running,
            deadline,
            interrupted: false,
            output_at: Instant::now(),
            lost: Vec::new(),
            failure: None,
        }
    }

    /// Returns the job's exit code.
    fn run_and_clean_up(mut self) -> io::Result<u8> {
        let ended = self.run();
        match self.hosts {
            JobHosts::Here(ranks) => ranks.remove_directory(),
            JobHosts::Agents(mut agents) => {
                agents.finish();
                agents.clean(&self.lost, &self.job);
            }
        }
        ended.map(|()| self.failure.unwrap_or(0))
    }

    fn run(&mut self) -> io::Result<()> {
        self.with_hosts(JobHosts::start);
        while self.members.iter().any(|member| member.state != State::Gone) {
            self.turn(None)?;
        }
        self.take_last_output()
    }

    fn turn(&mut self, until: Option<Instant>) -> io::Result<()> {
        let ready = self.wait(until)?;
        for (source, flags) in ready {
            match source {
                Source::Signals => self.take_signals(),
                Source::Stdin => self.read_stdin(),
                Source::Hosts(part) => self.with_hosts(|hosts, events| hosts.serve(part, flags, events)),
            }
        }
        self.check_clock();
        Ok(())
    }

    fn wait(&self, until: Option<Instant>) -> io::Result<Vec<(Source, PollFlags)>> {
        let mut polled = PollSet::default();
        polled.add(Source::Signals, self.signals.fd(), PollFlags::IN);
        let may_read = self.input.is_none() || may_read_stdin();
        if may_read && self.input.is_some_and(|under_way| under_way < INPUT_BYTES_MAX) {
            polled.add(Source::Stdin, rustix::stdio::stdin(), PollFlags::IN);
        }
        self.hosts.poll_with(&mut |part, fd, flags| polled.add(Source::Hosts(part), fd, flags));
        let check_again = (!may_read).then(|| Instant::now() + FOREGROUND_CHECK);
        polled.wait([until, check_again, self.next_deadline()].into_iter().flatten().min())
    }

    // ---- time and signals ----

    fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => self.deadline,
            Phase::Ending { kill_at } => Some(kill_at),
            Phase::Killed { lost_at } => lost_at,
        }
    }

    fn check_clock(&mut self) {
        let Some(deadline) = self.next_deadline().filter(|&deadline| Instant::now() >= deadline) else { return };
        if let Phase::Killed { .. } = self.phase {
            self.give_up_hosts();
        } else if self.phase == Phase::Running {
            let limit = self.options.timeout.unwrap_or_default();
            say(&format!("the job has reached its time limit of {} s", limit.as_secs_f64()));
            self.failure.get_or_insert(EXIT_TIMEOUT);
            self.end();
        } else {
            log::debug!("killing what did not end by {deadline:?}");
            self.kill();
        }
    }

    fn take_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGCHLD => self.with_hosts(JobHosts::child_ended),
                libc::SIGCONT => self.signal_all(libc::SIGCONT),
                libc::SIGTSTP => self.stop(),
                signal if self.interrupted => {
                    say(&format!("{} again; killing the ranks", signal_name(signal)));
                    self.failure.get_or_insert(exit_code(ExitStatus::from_raw(signal)));
                    self.kill();
                }
                signal => {
                    say(&format!("{} passed on to the ranks; send it again to kill them", signal_name(signal)));
                    self.interrupted = true;
                    self.signal_all(signal);
                    // A stopped rank must run to handle the signal.
                    self.signal_all(libc::SIGCONT);
                }
            }
        }
    }

    /// Stops the job, and this process until the shell continues it.
    fn stop(&mut self) {
        self.signal_all(libc::SIGTSTP);
        stop_self();
    }

    /// Ends the job: SIGTERM, and SIGKILL after the grace time.
    fn end(&mut self) {
        if self.phase == Phase::Running {
            self.phase = Phase::Ending { kill_at: Instant::now() + GRACE };
            self.signal_all(libc::SIGTERM);
            self.signal_all(libc::SIGCONT);
        }
    }

    fn kill(&mut self) {
        self.phase = Phase::Killed { lost_at: self.has_agents().then(|| Instant::now() + KILL_LIMIT) };
        self.signal_all(libc::SIGKILL);
    }

    fn has_agents(&self) -> bool {
        matches!(self.hosts, JobHosts::Agents(_))
    }

    /// Gives up hosts that have not reported the ends of killed ranks.
    fn give_up_hosts(&mut self) {
        self.phase = Phase::Killed { lost_at: None };
        for host in self.hosts.numbers() {
            if self.ranks_left(host).next().is_some() {
                self.host_lost(host, "its agent does not answer");
            }
        }
    }

    fn signal_all(&mut self, signal: i32) {
        for host in self.hosts.numbers() {
            self.order(host, Order::Signal(signal));
        }
    }

    // ---- events and orders ----

    /// Runs an action on the hosts, and handles their events.
    fn with_hosts(&mut self, act: impl FnOnce(&mut JobHosts, &mut HostEvents)) {
        let mut events = Vec::new();
        act(&mut self.hosts, &mut events);
        for (host, event) in events {
            self.handle(host, event);
        }
    }

    fn order(&mut self, host: usize, order: Order) {
        self.with_hosts(|hosts, events| hosts.execute(host, order, events));
    }

    fn order_for(&mut self, rank: usize, order: Order) {
        self.order(self.members[rank].host, order);
    }

    fn handle(&mut self, host: usize, event: Event) {
        let own = |(rank, which): (usize, usize)| {
            which < 2 && self.members.get(rank).is_some_and(|member| member.host == host)
        };
        if !event.rank_and_stream().is_none_or(own) {
            log::error!("an agent reported an event of a rank that is not on its host");
            return;
        }
        match event {
            Event::Started { rank, pid } => {
                self.members[rank].pid = pid;
                self.members[rank].state = State::Alive;
            }
            Event::NotStarted { rank, code, why } => self.not_started(host, rank, code, &why),
            Event::Line { rank, line } => self.line(rank, &line),
            Event::Endless { rank } => {
                say(&format!("{} sent an endless line on its PMI socket, which is now closed", self.describe(rank)));
            }
            Event::Ended { rank, status } => self.rank_ended(rank, status.0),
            Event::Output { rank, which, bytes } => {
                self.output_at = Instant::now();
                let printer = &mut self.members[rank].printers[which];
                if printer.as_mut().is_some_and(|printer| !printer.take(&bytes)) {
                    *printer = None;
                    self.order_for(rank, Order::CloseOutput { rank, which });
                }
            }
            Event::OutputEnded { rank, which } => self.end_output(rank, which),
            Event::InputTaken(count) => {
                self.input = self.input.map(|under_way| under_way.saturating_sub(count));
            }
            Event::InputClosed => self.input = None,
            Event::Stopped => self.stop(),
            Event::HostLost(why) => self.host_lost(host, &why),
        }
    }

    /// The ranks of a host that have not ended.
    fn ranks_left(&self, host: usize) -> impl Iterator<Item = usize> {
        let left = move |(_, member): &(usize, &Member)| member.host == host && member.state != State::Gone;
        self.members.iter().enumerate().filter(left).map(|(rank, _)| rank)
    }

    /// A host is lost, with those that were reached through it.
    fn host_lost(&mut self, host: usize, why: &str) {
        let hosts = self.hosts.lost_with(host);
        for rank in 0..self.members.len() {
            if hosts.contains(&self.members[rank].host) {
                (0..2).for_each(|which| self.end_output(rank, which));
            }
        }
        let lost: Vec<usize> = hosts.clone().flat_map(|host| self.ranks_left(host)).collect();
        if lost.is_empty() {
            return;
        }
        let name = |host: usize| self.hosts.name(host).unwrap_or_default();
        let has_ranks = |host: &usize| self.ranks_left(*host).next().is_some();
        let below: Vec<&str> = hosts.skip(1).filter(has_ranks).map(name).collect();
        say(&format!("host {} is lost: {why}{}", name(host), reached_through(&below)));
        let all = std::iter::once(name(host)).chain(below).map(str::to_owned);
        self.lost.extend(all.collect::<Vec<String>>());
        let mut replies = Replies::new();
        lost.iter().for_each(|&rank| self.members[rank].state = State::Gone);
        for rank in lost {
            if self.options.keep_going {
                self.tell_lost(rank, true, &format!("its host is lost: {why}"));
            }
            self.server.rank_ended(rank, &mut replies);
            if rank == 0 {
                self.input = None;
            }
        }
        self.deliver(replies);
        self.failure.get_or_insert(1);
        if !self.options.keep_going {
            self.end();
        }
    }

    fn not_started(&mut self, host: usize, rank: usize, code: u8, why: &str) {
        let at = self.hosts.name(host).map(|name| format!("{name}, ")).unwrap_or_default();
        say(&format!("cannot start rank {rank} ({at}{}): {why}", self.program));
        let never_started: Vec<usize> =
            self.ranks_left(host).filter(|&rank| self.members[rank].state == State::Expected).collect();
        for rank in never_started {
            self.members[rank].state = State::Gone;
            (0..2).for_each(|which| self.end_output(rank, which));
        }
        self.failure.get_or_insert(code);
        self.end();
    }

    fn rank_ended(&mut self, rank: usize, status: ExitStatus) {
        let orderly = status.success() && self.server.has_left(rank);
        let job_goes_on = self.phase == Phase::Running;
        if !self.server.has_left(rank) && job_goes_on && (status.success() || self.options.keep_going) {
            let before = if status.success() { " before it had finalized" } else { "" };
            self.tell_lost(rank, !status.success(), &format!("it {}{before}", describe_end(status)));
        }
        self.order_for(rank, Order::Bury { rank, orderly, job_goes_on });
        self.members[rank].state = State::Gone;
        let mut replies = Replies::new();
        self.server.rank_ended(rank, &mut replies);
        self.deliver(replies);
        if !status.success() && self.phase == Phase::Running {
            say(&format!("{} {}", self.describe(rank), describe_end(status)));
            self.failure.get_or_insert(exit_code(status));
            if !self.options.keep_going {
                self.end();
            }
        }
    }

    /// Tells all hosts that a rank has ended early, while the job goes on: programs that wait for it end.
    fn tell_lost(&mut self, rank: usize, has_failed: bool, how: &str) {
        for host in self.hosts.numbers() {
            self.order(host, Order::Lost { rank, has_failed, how: how.to_owned() });
        }
    }

    fn describe(&self, rank: usize) -> String {
        let Member { host, pid, .. } = self.members[rank];
        let at = self.hosts.name(host).map(|name| format!(" on {name}")).unwrap_or_default();
        format!("rank {rank} (pid {pid}{at}, {})", self.program)
    }

    fn line(&mut self, rank: usize, line: &str) {
        let mut replies = Replies::new();
        let abort = self.server.line(rank, line, &mut replies);
        self.deliver(replies);
        match abort {
            Some(Abort { code, finished: true }) => self.finish(code),
            Some(Abort { code, finished: false }) => self.aborted(rank, code),
            None => {}
        }
    }

    fn aborted(&mut self, rank: usize, code: i32) {
        if self.phase == Phase::Running {
            say(&format!("{} aborted the job with code {code}", self.describe(rank)));
            let code = u8::try_from(code & 0xff).ok().filter(|&code| code != 0).unwrap_or(1);
            self.failure.get_or_insert(code);
            self.end();
        }
    }

    /// Handles a rank's report that the job is finished.
    fn finish(&mut self, code: i32) {
        if self.phase == Phase::Running {
            self.failure.get_or_insert((code & 0xff) as u8);
            self.end();
        }
    }

    fn deliver(&mut self, replies: Replies) {
        for Table { number, text } in self.server.take_tables() {
            for host in self.hosts.numbers() {
                self.order(host, Order::Table { number, text: text.clone().into_bytes() });
            }
        }
        for (rank, line) in replies {
            self.order_for(rank, Order::Answer { rank, line });
        }
    }

    // ---- output and input ----

    fn end_output(&mut self, rank: usize, which: usize) {
        if let Some(mut printer) = self.members[rank].printers[which].take() {
            printer.end();
        }
    }

    /// Prints output that is still in the pipes after all ranks have ended.
    fn take_last_output(&mut self) -> io::Result<()> {
        let limit = Instant::now() + if self.has_agents() { LAST_OUTPUT_FROM_HOSTS } else { LAST_OUTPUT };
        let open = |member: &Member| member.printers.iter().any(Option::is_some);
        self.output_at = Instant::now();
        while self.members.iter().any(open) {
            let until = limit.min(self.output_at + LAST_OUTPUT);
            if Instant::now() >= until {
                break;
            }
            self.turn(Some(until))?;
        }
        for rank in 0..self.members.len() {
            (0..2).for_each(|which| self.end_output(rank, which));
        }
        Ok(())
    }

    fn read_stdin(&mut self) {
        let mut chunk = [0u8; 4096];
        match rustix::io::read(rustix::stdio::stdin(), &mut chunk[..]) {
            Ok(count) if count > 0 => {
                self.input = self.input.map(|under_way| under_way + count);
                self.order_for(0, Order::Input(chunk[..count].to_vec()));
            }
            Err(Errno::INTR | Errno::WOULDBLOCK) => {}
            Ok(_) | Err(_) => {
                self.input = None;
                self.order_for(0, Order::InputEnded);
            }
        }
    }
}

/// Whether this command may read its standard input: a terminal only in its foreground. The kernel stops background
/// readers.
fn may_read_stdin() -> bool {
    let stdin = rustix::stdio::stdin();
    !rustix::termios::isatty(stdin)
        || rustix::termios::tcgetpgrp(stdin).is_ok_and(|group| group == rustix::process::getpgrp())
}
