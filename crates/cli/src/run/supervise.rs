// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Supervises the ranks: one thread, one `poll`.
//!
//! Invariants
//! 1. PMI requests that a rank sent before it died are handled before its death.
//! 2. The tombstone of a rank that ended early is written, and its NICs are marked dead, before its death has any other
//!    effect.
//! 3. A rank's process group is signalled only while the rank is not reaped, so the kernel cannot have given its number to
//!    another process.
//! 4. Only the first failure decides the exit code. Deaths after the job has begun to end are not reported.

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
use super::connection::{Connection, ConnectionState};
use super::output::Stream;
use super::pmi_server::{Abort, Replies, Server};
use super::report::{exit_code, how, say, signal_name, start_code};
use super::signals::{Signals, signal_rank, stop_self};
use super::spawn::SpawnPlan;

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// How long the launcher waits for output after all ranks have ended, while another process holds the pipe open.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// How often the launcher checks whether it is in the terminal's foreground again and may read from it.
const FOREGROUND_CHECK: Duration = Duration::from_millis(300);

const EXIT_TIMEOUT: u8 = 124;

/// How failures are treated, as the user has chosen.
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
    /// The ranks got SIGTERM, and get SIGKILL at this time.
    Ending {
        kill_at: Instant,
    },
    Killed,
}

/// Forwards the terminal's input to rank 0.
struct StdinForward {
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
    stdin_forward: Option<StdinForward>,
    phase: Phase,
    deadline: Option<Instant>,
    interrupted: bool,
    /// The exit code, once something has failed.
    failure: Option<u8>,
}

/// Starts all ranks, and returns the job's exit code when all have ended.
pub(super) fn supervise(plan: &SpawnPlan, signals: Signals, directory: &JobDirectory, rules: &Rules) -> Result<u8> {
    let mut supervisor = Supervisor {
        directory,
        rules,
        signals,
        program: plan.program(),
        server: Server::new(directory.name(), plan.size),
        ranks: Vec::with_capacity(plan.size),
        stdin_forward: None,
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
    fn start_all(&mut self, plan: &SpawnPlan) {
        let mask = self.signals.mask_before();
        for rank in 0..plan.size {
            match plan.start(rank, mask, &[]) {
                Ok(started) => {
                    if let Some(pipe) = started.stdin {
                        let _ = rustix::io::ioctl_fionbio(&pipe, true);
                        self.stdin_forward = Some(StdinForward { pipe, pending: Vec::new() });
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

    /// Waits for an event, and handles it.
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
        let in_foreground = self.stdin_forward.is_none() || may_read_terminal();
        if let Some(stdin_forward) = &self.stdin_forward {
            let blocked = !stdin_forward.pending.is_empty();
            // Poll even without anything to write, to detect that rank 0 has closed the pipe.
            add(
                Source::StdinPipe,
                stdin_forward.pipe.as_fd(),
                if blocked { PollFlags::OUT } else { PollFlags::empty() },
            );
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
        let check_again = (!in_foreground).then(|| Instant::now() + FOREGROUND_CHECK);
        let timeout = [until, check_again, self.next_deadline()].into_iter().flatten().min().map(time_until);
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
                    say(&format!("{} passed on to the ranks; send it again to kill them", signal_name(signal)));
                    self.interrupted = true;
                    self.signal_all(signal);
                    // A stopped rank must run to handle the signal.
                    self.signal_all(libc::SIGCONT);
                }
            }
        }
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
        self.phase = Phase::Killed;
        self.signal_all(libc::SIGKILL);
    }

    fn signal_all(&self, signal: i32) {
        for rank in self.ranks.iter().filter(|rank| rank.alive) {
            signal_rank(rank.who.pid, signal);
        }
    }

    /// Handles and reaps every rank that has died.
    fn reap(&mut self) {
        while let Some((pid, status)) = next_dead() {
            if let Some(rank) = self.ranks.iter().position(|rank| rank.alive && rank.who.pid == pid) {
                self.rank_ended(rank, status);
            }
            // SAFETY: a null status pointer is allowed; `pid` is a dead child that only this code reaps.
            unsafe { libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), 0) };
        }
    }

    /// Handles the death of a rank that is not reaped yet.
    fn rank_ended(&mut self, rank: usize, status: ExitStatus) {
        self.receive_requests(rank);
        let orderly = status.success() && self.server.has_left(rank);
        if orderly {
            self.mark_open_nics(rank);
        } else {
            self.write_tombstones(rank, status);
        }
        if !status.success() {
            signal_rank(self.ranks[rank].who.pid, libc::SIGKILL);
        }
        self.ranks[rank].alive = false;
        self.ranks[rank].connection = None;
        if rank == 0 {
            self.stdin_forward = None;
        }
        let mut replies = Replies::new();
        self.server.rank_ended(rank, &mut replies);
        self.deliver(replies);
        if !status.success() && self.phase == Phase::Running {
            say(&format!("{} {}", self.describe(rank), how(status)));
            self.failure.get_or_insert(exit_code(status));
            if !self.rules.keep_going {
                self.end();
            }
        }
    }

    fn write_tombstones(&self, rank: usize, status: ExitStatus) {
        let number = u32::try_from(rank).unwrap_or(u32::MAX);
        let who = self.ranks[rank].who;
        // The process that joined the job may have been a child of the rank (the program of a script).
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
        // Marking the NICs notifies peers that use them or wait for them at once, before they check by themselves. When the whole job
        // is ending, no peer needs it.
        if self.phase == Phase::Running {
            dead.iter().for_each(|&os_pid| mark_dead(self.directory.path(), os_pid));
        }
    }

    /// Marks the NICs of a rank that has finalized and has ended without closing them. A rank that has closed them has also
    /// released its Portals process id, so a normal end needs no search through all segments.
    fn mark_open_nics(&self, rank: usize) {
        let claimed = u16::try_from(rank).is_ok_and(|pid| self.directory.claim_file(pid).exists());
        if claimed && self.phase == Phase::Running {
            mark_dead(self.directory.path(), self.ranks[rank].who.pid);
        }
    }

    fn describe(&self, rank: usize) -> String {
        format!("rank {rank} (pid {}, {})", self.ranks[rank].who.pid, self.program)
    }

    fn serve(&mut self, rank: usize, flags: PollFlags) {
        if flags.contains(PollFlags::OUT) {
            if let Some(connection) = &mut self.ranks[rank].connection {
                connection.flush();
            }
        }
        if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.receive_requests(rank);
        }
    }

    /// Handles the requests that the rank has sent over PMI.
    fn receive_requests(&mut self, rank: usize) {
        let Some(connection) = &mut self.ranks[rank].connection else { return };
        let mut lines = Vec::new();
        let state = connection.receive(&mut lines);
        for line in lines {
            let mut replies = Replies::new();
            let abort = self.server.line(rank, &line, &mut replies);
            self.deliver(replies);
            match abort {
                Some(Abort { code, finished: true }) => self.finish(code),
                Some(Abort { code, finished: false }) => self.aborted(rank, code),
                None => {}
            }
        }
        if state == ConnectionState::TooLong {
            say(&format!("{} sent an endless line on its PMI socket, which is now closed", self.describe(rank)));
        }
        if state != ConnectionState::Open {
            self.ranks[rank].connection = None;
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

    /// A rank's program has reported that the job is finished.
    fn finish(&mut self, code: i32) {
        if self.phase == Phase::Running {
            self.failure.get_or_insert((code & 0xff) as u8);
            self.end();
        }
    }

    fn deliver(&mut self, replies: Replies) {
        for (rank, line) in replies {
            if let Some(connection) = &mut self.ranks[rank].connection {
                // A closed connection is detected at the next read.
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

    /// Passes on output that is still in the pipes after all ranks have ended.
    fn take_last_output(&mut self) -> Result<()> {
        let until = Instant::now() + LAST_OUTPUT;
        while self.ranks.iter().any(|rank| rank.streams.iter().any(Option::is_some)) && Instant::now() < until {
            self.turn(Some(until))?;
        }
        self.ranks.iter_mut().flat_map(|rank| &mut rank.streams).filter_map(Option::take).for_each(Stream::close);
        Ok(())
    }

    fn read_stdin(&mut self) {
        let Some(stdin_forward) = &mut self.stdin_forward else { return };
        let mut chunk = [0u8; 4096];
        match rustix::io::read(rustix::stdio::stdin(), &mut chunk[..]) {
            Ok(0) => self.stdin_forward = None,
            Ok(count) => {
                stdin_forward.pending.extend_from_slice(&chunk[..count]);
                self.feed_rank_0(PollFlags::OUT);
            }
            Err(Errno::INTR | Errno::WOULDBLOCK) => {}
            Err(_) => self.stdin_forward = None,
        }
    }

    fn feed_rank_0(&mut self, flags: PollFlags) {
        let Some(stdin_forward) = &mut self.stdin_forward else { return };
        if flags.contains(PollFlags::ERR) {
            self.stdin_forward = None;
            return;
        }
        while !stdin_forward.pending.is_empty() {
            match rustix::io::write(&stdin_forward.pipe, &stdin_forward.pending) {
                Ok(count) => drop(stdin_forward.pending.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return,
                Err(_) => {
                    self.stdin_forward = None;
                    return;
                }
            }
        }
    }
}

/// A child that has ended and is not reaped yet.
fn next_dead() -> Option<(u32, ExitStatus)> {
    // SAFETY: all bits zero is a valid siginfo_t; waitid fills it, or leaves it unchanged when no child has ended. `si_pid` is then
    // the pid, or 0.
    let info = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_ALL, 0, &mut info, flags) != 0 || info.si_pid() == 0 {
            return None;
        }
        info
    };
    // SAFETY: waitid filled the structure for a child, so these are the fields that are set.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let raw = match info.si_code {
        libc::CLD_EXITED => (status & 0xff) << 8,
        libc::CLD_DUMPED => status | 0x80,
        _ => status,
    };
    Some((u32::try_from(pid).ok()?, ExitStatus::from_raw(raw)))
}

/// Whether this command is in the terminal's foreground. The kernel would stop it if it read from the terminal in the background.
fn may_read_terminal() -> bool {
    rustix::termios::tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

fn time_until(when: Instant) -> Timespec {
    // Rounded up to a millisecond, because waking too early would only mean waiting again.
    let wait = when.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    Timespec { tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(wait.subsec_nanos()) }
}
