// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looking after the ranks: one thread, one `poll`.
//!
//! Invariants
//! 1. What a rank said before it died is heard before its death is.
//! 2. The tombstone of a rank that ended early is written, and its NICs are marked dead, before anything else is done
//!    about its death.
//! 3. A rank's process group is signalled only while the rank is not reaped, so its number cannot have been given to
//!    somebody else.
//! 4. Only the first failure decides the exit code; what dies because the job is being ended is not reported.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use selvedge_job::{Identity, JobDirectory, Tombstone, write_missing_tombstones};
use selvedge_shm::segment::mark_dead;

use super::Args;
use super::connection::{Connection, Link};
use super::output::Stream;
use super::pmi_server::{Abort, Replies, Server};
use super::report::{exit_code, how, say, signal_name, start_code};
use super::signals::{Signals, signal_rank, stop_self};
use super::spawn::Plan;

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// How long output is waited for that somebody else still holds open when all ranks have ended.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// How often it is looked whether this command is in the terminal's foreground (again) and may read from it.
const FOREGROUND_CHECK: Duration = Duration::from_millis(300);

const EXIT_TIMEOUT: u8 = 124;

/// How the user wants failures treated.
pub(super) struct Rules {
    timeout: Option<Duration>,
    keep_going: bool,
}

impl From<&Args> for Rules {
    fn from(args: &Args) -> Rules {
        Rules { timeout: args.timeout, keep_going: args.keep_going }
    }
}

struct Rank {
    who: Identity,
    alive: bool,
    connection: Option<Connection>,
    streams: [Option<Stream>; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Told to end; killed when the time comes.
    Ending {
        kill_at: Instant,
    },
    Killed,
}

/// The terminal's input on its way to rank 0.
struct Pump {
    pipe: OwnedFd,
    pending: Vec<u8>,
}

/// What a poll entry belongs to.
#[derive(Clone, Copy)]
enum Source {
    Signals,
    Stdin,
    StdinPipe,
    Connection(usize),
    Stream(usize, usize),
}

struct Supervisor<'a> {
    directory: &'a JobDirectory,
    rules: &'a Rules,
    signals: Signals,
    program: String,
    server: Server,
    ranks: Vec<Rank>,
    pump: Option<Pump>,
    phase: Phase,
    deadline: Option<Instant>,
    interrupted: bool,
    /// The exit code, once something has failed.
    failure: Option<u8>,
}

/// Starts all ranks, and returns the job's exit code when all have ended.
pub(super) fn supervise(plan: &Plan, signals: Signals, directory: &JobDirectory, rules: &Rules) -> Result<u8> {
    let mut supervisor = Supervisor {
        directory,
        rules,
        signals,
        program: plan.program(),
        server: Server::new(directory.name(), plan.size),
        ranks: Vec::with_capacity(plan.size),
        pump: None,
        phase: Phase::Running,
        deadline: rules.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        interrupted: false,
        failure: None,
    };
    supervisor.start_all(plan);
    while supervisor.ranks.iter().any(|rank| rank.alive) {
        supervisor.turn(None)?;
    }
    supervisor.take_last_output()?;
    Ok(supervisor.failure.unwrap_or(0))
}

impl Supervisor<'_> {
    fn start_all(&mut self, plan: &Plan) {
        let mask = self.signals.mask_before();
        for rank in 0..plan.size {
            match plan.start(rank, mask, &[]) {
                Ok(started) => {
                    if let Some(pipe) = started.stdin {
                        let _ = rustix::io::ioctl_fionbio(&pipe, true);
                        self.pump = Some(Pump { pipe, pending: Vec::new() });
                    }
                    self.ranks.push(Rank {
                        who: started.who,
                        alive: true,
                        connection: Some(started.connection),
                        streams: started.streams,
                    });
                }
                Err(error) => {
                    say(&format!("cannot start rank {rank} ({}): {error}", self.program));
                    self.failure = Some(start_code(&error));
                    self.end();
                    return;
                }
            }
        }
    }

    /// Waits for something to happen, and deals with it.
    fn turn(&mut self, until: Option<Instant>) -> Result<()> {
        let ready = self.wait(until)?;
        for (source, flags) in ready {
            match source {
                Source::Signals => self.take_signals(),
                Source::Stdin => self.read_stdin(),
                Source::StdinPipe => self.feed_rank_0(flags),
                Source::Connection(rank) => self.serve(rank, flags),
                Source::Stream(rank, which) => self.pass_output(rank, which),
            }
        }
        self.check_clock();
        Ok(())
    }

    fn wait(&self, until: Option<Instant>) -> Result<Vec<(Source, PollFlags)>> {
        let stdin = rustix::stdio::stdin();
        let mut sources = vec![Source::Signals];
        let signals = self.signals.fd();
        let mut polled = vec![PollFd::from_borrowed_fd(signals, PollFlags::IN)];
        let mut add = |source, fd, flags| {
            sources.push(source);
            polled.push(PollFd::from_borrowed_fd(fd, flags));
        };
        let in_foreground = self.pump.is_none() || may_read_terminal();
        if let Some(pump) = &self.pump {
            let blocked = !pump.pending.is_empty();
            // Also without anything to write, to learn that rank 0 has closed it.
            add(Source::StdinPipe, pump.pipe.as_fd(), if blocked { PollFlags::OUT } else { PollFlags::empty() });
            if !blocked && in_foreground {
                add(Source::Stdin, stdin, PollFlags::IN);
            }
        }
        for (number, rank) in self.ranks.iter().enumerate() {
            if let Some(connection) = &rank.connection {
                add(Source::Connection(number), connection.fd(), connection.interest());
            }
            for (which, stream) in rank.streams.iter().enumerate() {
                if let Some(stream) = stream {
                    add(Source::Stream(number, which), stream.fd(), PollFlags::IN);
                }
            }
        }
        let look_again = (!in_foreground).then(|| Instant::now() + FOREGROUND_CHECK);
        let timeout = [until, look_again, self.next_deadline()].into_iter().flatten().min().map(time_until);
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = sources.into_iter().zip(polled.iter().map(PollFd::revents));
        Ok(ready.filter(|(_, flags)| !flags.is_empty()).collect())
    }

    fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => self.deadline,
            Phase::Ending { kill_at } => Some(kill_at),
            Phase::Killed => None,
        }
    }

    fn check_clock(&mut self) {
        let Some(deadline) = self.next_deadline().filter(|&deadline| Instant::now() >= deadline) else { return };
        if self.phase == Phase::Running {
            let limit = self.rules.timeout.unwrap_or_default();
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
                libc::SIGCHLD => self.reap(),
                libc::SIGCONT => self.signal_all(libc::SIGCONT),
                libc::SIGTSTP => {
                    self.signal_all(libc::SIGTSTP);
                    stop_self();
                }
                signal if self.interrupted => {
                    say(&format!("{} again; killing the ranks", signal_name(signal)));
                    self.failure.get_or_insert(exit_code(ExitStatus::from_raw(signal)));
                    self.kill();
                }
                signal => {
                    say(&format!("{} passed on to the ranks (once more to kill them)", signal_name(signal)));
                    self.interrupted = true;
                    self.signal_all(signal);
                    // A stopped rank could not act on it.
                    self.signal_all(libc::SIGCONT);
                }
            }
        }
    }

    /// Ends the job: SIGTERM, and SIGKILL when the grace is over.
    fn end(&mut self) {
        if self.phase == Phase::Running {
            self.phase = Phase::Ending { kill_at: Instant::now() + GRACE };
            self.signal_all(libc::SIGTERM);
            self.signal_all(libc::SIGCONT);
        }
    }

    fn kill(&mut self) {
        self.phase = Phase::Killed;
        self.signal_all(libc::SIGKILL);
    }

    fn signal_all(&self, signal: i32) {
        for rank in self.ranks.iter().filter(|rank| rank.alive) {
            signal_rank(rank.who.pid, signal);
        }
    }

    /// Takes every death that has happened.
    fn reap(&mut self) {
        while let Some((pid, status)) = next_dead() {
            if let Some(rank) = self.ranks.iter().position(|rank| rank.alive && rank.who.pid == pid) {
                self.rank_ended(rank, status);
            }
            // SAFETY: a child that is dead and not reaped, as just found; no status is asked for.
            unsafe { libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), 0) };
        }
    }

    /// The rank is dead, and not yet reaped.
    fn rank_ended(&mut self, rank: usize, status: ExitStatus) {
        self.hear(rank);
        let in_order = status.success() && self.server.has_left(rank);
        if in_order {
            self.mark_what_it_left_open(rank);
        } else {
            self.bury(rank, status);
        }
        if !status.success() {
            signal_rank(self.ranks[rank].who.pid, libc::SIGKILL);
        }
        self.ranks[rank].alive = false;
        self.ranks[rank].connection = None;
        if rank == 0 {
            self.pump = None;
        }
        let mut replies = Replies::new();
        self.server.gone(rank, &mut replies);
        self.deliver(replies);
        if !status.success() && self.phase == Phase::Running {
            say(&format!("{} {}", self.rank_in_words(rank), how(status)));
            self.failure.get_or_insert(exit_code(status));
            if !self.rules.keep_going {
                self.end();
            }
        }
    }

    fn bury(&self, rank: usize, status: ExitStatus) {
        let number = u32::try_from(rank).unwrap_or(u32::MAX);
        let who = self.ranks[rank].who;
        // The process that took part may have been a child of the rank's own (a script's program).
        let claimants = self.directory.claimants().into_iter().map(|(_, who)| who);
        let mut dead: Vec<u32> = claimants
            .filter(|&who| !who.is_alive() && self.directory.tombstone_of(who).is_none())
            .map(|who| who.pid)
            .collect();
        dead.push(who.pid);
        dead.sort_unstable();
        dead.dedup();
        let stone = Tombstone { who, rank: number, how: how(status) };
        if let Err(error) = stone.write(self.directory) {
            say(&error.to_string());
        }
        write_missing_tombstones(self.directory, number);
        // Peers that use their NICs, or wait for them, learn of it now and not when they next ask. When the whole job
        // is ending, nobody is left to be told.
        if self.phase == Phase::Running {
            dead.iter().for_each(|&os_pid| mark_dead(self.directory.path(), os_pid));
        }
    }

    /// A rank that has left in order, and has ended without closing its NICs. One that has closed them has given its
    /// Portals process id back, so that an end in order costs no look at everybody's segments.
    fn mark_what_it_left_open(&self, rank: usize) {
        let claimed = u16::try_from(rank).is_ok_and(|pid| self.directory.claim_file(pid).exists());
        if claimed && self.phase == Phase::Running {
            mark_dead(self.directory.path(), self.ranks[rank].who.pid);
        }
    }

    fn rank_in_words(&self, rank: usize) -> String {
        format!("rank {rank} (pid {}, {})", self.ranks[rank].who.pid, self.program)
    }

    fn serve(&mut self, rank: usize, flags: PollFlags) {
        if flags.contains(PollFlags::OUT) {
            if let Some(connection) = &mut self.ranks[rank].connection {
                connection.flush();
            }
        }
        if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.hear(rank);
        }
    }

    /// Takes what the rank has said over PMI.
    fn hear(&mut self, rank: usize) {
        let Some(connection) = &mut self.ranks[rank].connection else { return };
        let mut lines = Vec::new();
        let link = connection.receive(&mut lines);
        for line in lines {
            let mut replies = Replies::new();
            let abort = self.server.line(rank, &line, &mut replies);
            self.deliver(replies);
            match abort {
                Some(Abort { code, asked: true }) => self.asked_to_end(code),
                Some(Abort { code, asked: false }) => self.aborted(rank, code),
                None => {}
            }
        }
        if link == Link::Abused {
            say(&format!("{} does not speak PMI on its PMI socket; closed", self.rank_in_words(rank)));
        }
        if link != Link::Open {
            self.ranks[rank].connection = None;
        }
    }

    fn aborted(&mut self, rank: usize, code: i32) {
        if self.phase == Phase::Running {
            say(&format!("{} aborted the job with code {code}", self.rank_in_words(rank)));
            let code = u8::try_from(code & 0xff).ok().filter(|&code| code != 0).unwrap_or(1);
            self.failure.get_or_insert(code);
            self.end();
        }
    }

    /// A rank's program says that the job is done.
    fn asked_to_end(&mut self, code: i32) {
        if self.phase == Phase::Running {
            self.failure.get_or_insert((code & 0xff) as u8);
            self.end();
        }
    }

    fn deliver(&mut self, replies: Replies) {
        for (rank, line) in replies {
            if let Some(connection) = &mut self.ranks[rank].connection {
                // A closed one is noticed when it is next read.
                connection.send(&line);
            }
        }
    }

    fn pass_output(&mut self, rank: usize, which: usize) {
        let stream = &mut self.ranks[rank].streams[which];
        if stream.as_mut().is_some_and(|stream| !stream.pass_on()) {
            *stream = None;
        }
    }

    /// All ranks have ended; what they wrote may still be in the pipes.
    fn take_last_output(&mut self) -> Result<()> {
        let until = Instant::now() + LAST_OUTPUT;
        while self.ranks.iter().any(|rank| rank.streams.iter().any(Option::is_some)) && Instant::now() < until {
            self.turn(Some(until))?;
        }
        self.ranks.iter_mut().flat_map(|rank| &mut rank.streams).filter_map(Option::take).for_each(Stream::close);
        Ok(())
    }

    fn read_stdin(&mut self) {
        let Some(pump) = &mut self.pump else { return };
        let mut chunk = [0u8; 4096];
        match rustix::io::read(rustix::stdio::stdin(), &mut chunk[..]) {
            Ok(0) => self.pump = None,
            Ok(count) => {
                pump.pending.extend_from_slice(&chunk[..count]);
                self.feed_rank_0(PollFlags::OUT);
            }
            Err(Errno::INTR | Errno::WOULDBLOCK) => {}
            Err(_) => self.pump = None,
        }
    }

    fn feed_rank_0(&mut self, flags: PollFlags) {
        let Some(pump) = &mut self.pump else { return };
        if flags.contains(PollFlags::ERR) {
            self.pump = None;
            return;
        }
        while !pump.pending.is_empty() {
            match rustix::io::write(&pump.pipe, &pump.pending) {
                Ok(count) => drop(pump.pending.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return,
                Err(_) => {
                    self.pump = None;
                    return;
                }
            }
        }
    }
}

/// A child that has ended, left for `waitpid`.
fn next_dead() -> Option<(u32, ExitStatus)> {
    // SAFETY: all-zero is a valid siginfo_t; waitid fills it, and leaves it as it is when no child has ended.
    let info = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_ALL, 0, &mut info, flags) != 0 || info.si_pid() == 0 {
            return None;
        }
        info
    };
    // SAFETY: filled for a child that ended.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let raw = match info.si_code {
        libc::CLD_EXITED => (status & 0xff) << 8,
        libc::CLD_DUMPED => status | 0x80,
        _ => status,
    };
    Some((u32::try_from(pid).ok()?, ExitStatus::from_raw(raw)))
}

/// A command in the background that reads from the terminal would be stopped.
fn may_read_terminal() -> bool {
    rustix::termios::tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

fn time_until(when: Instant) -> Timespec {
    // Rounded up to a millisecond: waking too early would only mean waiting again.
    let wait = when.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    Timespec { tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(wait.subsec_nanos()) }
}
