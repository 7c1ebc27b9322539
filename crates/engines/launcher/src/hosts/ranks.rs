// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ranks that run on this host: started, watched, signalled, reaped.
//!
//! `selvedge run` has them itself when the job is on one host. Otherwise each agent has those of its host. They decide
//! nothing: events go to the supervisor of the job ([`super::supervise`]), which gives orders.
//!
//! Invariants
//! 1. PMI requests that a rank sent before it died are reported before its death.
//! 2. A rank is signalled only before it is reaped, so the kernel cannot have given its number to another process. It
//!    is reaped when it is buried.
//! 3. Burying writes the tombstone of a rank that ended early, and marks its NICs dead, before anything else.
//!
//! Cost: a death takes one system call for each living rank.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::event::PollFlags;
use rustix::io::Errno;
use selvedge_host::segment::mark_dead;
use selvedge_job::{Identity, JobDirectory, LostRank, Tombstone, id_of_rank, write_missing_tombstones};

use super::messages::{Event, Order, Status};
use crate::error::with_causes;
use crate::rank::connection::{Connection, ConnectionState};
use crate::rank::output::Stream;
use crate::rank::spawn::SpawnPlan;
use crate::report::{describe_end, say, start_code, why_not_started};
use crate::signals::signal_rank;

pub(crate) struct Ranks {
    directory: JobDirectory,
    plan: SpawnPlan,
    mask: libc::sigset_t,
    /// The ranks that were started, in ascending order of their numbers.
    ranks: Vec<Rank>,
    input: Option<Input>,
    /// The ranks of all hosts that ended early while the job went on.
    lost: Vec<LostRank>,
}

struct Rank {
    number: usize,
    who: Identity,
    state: State,
    connection: Option<Connection>,
    streams: [Option<Stream>; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Alive,
    /// Has ended, and is not reaped.
    Dead(ExitStatus),
    Buried,
}

/// Input on its way to rank 0.
struct Input {
    pipe: OwnedFd,
    pending: Vec<u8>,
    /// The pipe is closed when nothing is pending.
    ends: bool,
}

/// The part of the ranks that owns a poll entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Input,
    Connection(usize),
    Stream(usize, usize),
}

impl Ranks {
    /// Creates the ranks without starting any. `mask`: the signal mask of the ranks.
    pub(crate) fn new(directory: JobDirectory, plan: SpawnPlan, mask: libc::sigset_t) -> Ranks {
        Ranks { directory, plan, mask, ranks: Vec::new(), input: None, lost: Vec::new() }
    }

    pub(crate) fn plan(&self) -> &SpawnPlan {
        &self.plan
    }

    pub(crate) fn remove_directory(self) {
        if let Err(error) = self.directory.remove() {
            say(&error.to_string());
        }
    }

    /// Starts the ranks of this host, in order, until one cannot be started.
    pub(crate) fn start(&mut self, events: &mut Vec<Event>) {
        for (nth_here, &rank) in self.plan.ranks.iter().enumerate() {
            match self.plan.start(rank, nth_here, self.mask, &[]) {
                Ok(started) => {
                    if let Some(pipe) = started.stdin {
                        let _ = rustix::io::ioctl_fionbio(&pipe, true);
                        self.input = Some(Input { pipe, pending: Vec::new(), ends: false });
                    }
                    events.push(Event::Started { rank, pid: started.who.pid });
                    let apart = (0..2).filter(|&which| self.plan.capture_output && started.streams[which].is_none());
                    events.extend(apart.map(|which| Event::OutputEnded { rank, which }));
                    self.ranks.push(Rank {
                        number: rank,
                        who: started.who,
                        state: State::Alive,
                        connection: Some(started.connection),
                        streams: started.streams,
                    });
                }
                Err(error) => {
                    events.push(Event::NotStarted { rank, code: start_code(&error), why: why_not_started(&error) });
                    return;
                }
            }
        }
    }

    /// Adds its descriptors to a poll. Without `with_output` the ranks' output stays in its pipes.
    pub(crate) fn poll_with<'a>(&'a self, with_output: bool, add: &mut dyn FnMut(Part, BorrowedFd<'a>, PollFlags)) {
        if let Some(input) = &self.input {
            // Poll even without anything to write, to detect that rank 0 has closed the pipe.
            let flags = if input.pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            add(Part::Input, input.pipe.as_fd(), flags);
        }
        for (at, rank) in self.ranks.iter().enumerate() {
            if let Some(connection) = &rank.connection {
                add(Part::Connection(at), connection.fd(), connection.interest());
            }
            for (which, stream) in rank.streams.iter().enumerate().filter(|_| with_output) {
                if let Some(stream) = stream {
                    add(Part::Stream(at, which), stream.fd(), PollFlags::IN);
                }
            }
        }
    }

    pub(crate) fn serve(&mut self, part: Part, flags: PollFlags, events: &mut Vec<Event>) {
        match part {
            Part::Input => self.feed_rank_0(flags, events),
            Part::Connection(at) => {
                if flags.contains(PollFlags::OUT) {
                    if let Some(connection) = &mut self.ranks[at].connection {
                        connection.flush();
                    }
                }
                if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                    self.ranks[at].receive(events);
                }
            }
            Part::Stream(at, which) => self.ranks[at].read(which, events),
        }
    }

    pub(crate) fn find_dead(&mut self, events: &mut Vec<Event>) {
        for rank in self.ranks.iter_mut().filter(|rank| rank.state == State::Alive) {
            let Some(status) = status_of_dead(rank.who.pid) else {
                if self.plan.screens.stops_job(rank.number) && has_stopped(rank.who.pid) {
                    self.plan.screens.stopped();
                    events.push(Event::Stopped);
                }
                continue;
            };
            rank.receive(events);
            rank.state = State::Dead(status);
            rank.connection = None;
            if rank.number == 0 && self.input.take().is_some() {
                events.push(Event::InputClosed);
            }
            events.push(Event::Ended { rank: rank.number, status: Status(status) });
        }
    }

    /// Carries out an order. An order for a rank of another host does nothing.
    pub(crate) fn execute(&mut self, order: Order, events: &mut Vec<Event>) {
        match order {
            Order::Answer { rank, line } => {
                if let Some(connection) = self.rank_mut(rank).and_then(|rank| rank.connection.as_mut()) {
                    // A closed connection is detected at the next read.
                    connection.send(&line);
                }
            }
            Order::Table { number, text } => {
                if let Err(error) = self.directory.write_exchange(number, &text) {
                    say(&format!("the start of the job's ranks fails on this host: {}", with_causes(&error)));
                }
            }
            Order::Bury { rank, orderly, job_goes_on } => self.bury(rank, orderly, job_goes_on),
            Order::Lost { rank, has_failed, how } => {
                let rank = u32::try_from(rank).unwrap_or(u32::MAX);
                self.record_lost(LostRank { rank, has_failed, how });
            }
            Order::Signal(signal) => self.signal(signal),
            Order::Input(bytes) => {
                if let Some(input) = &mut self.input {
                    input.pending.extend_from_slice(&bytes);
                    self.feed_rank_0(PollFlags::OUT, events);
                }
            }
            Order::InputEnded => {
                if let Some(input) = &mut self.input {
                    input.ends = true;
                    self.feed_rank_0(PollFlags::OUT, events);
                }
            }
            Order::CloseOutput { rank, which } => {
                if let Some(stream) = self.rank_mut(rank).and_then(|rank| rank.streams.get_mut(which)) {
                    *stream = None;
                }
            }
        }
    }

    /// Kills all ranks and the processes that they have started, and waits for them. For an agent without a supervisor.
    pub(crate) fn end_at_once(&mut self) {
        self.signal(libc::SIGKILL);
        for rank in self.ranks.iter_mut().filter(|rank| rank.state != State::Buried) {
            if let State::Dead(_) = rank.state {
                signal_rank(rank.who.pid, libc::SIGKILL);
            }
            rank.reap();
        }
    }

    fn rank_mut(&mut self, number: usize) -> Option<&mut Rank> {
        let at = self.ranks.binary_search_by_key(&number, |rank| rank.number).ok()?;
        self.ranks.get_mut(at)
    }

    fn signal(&mut self, signal: i32) {
        for rank in self.ranks.iter().filter(|rank| rank.state == State::Alive) {
            if signal == libc::SIGCONT {
                self.plan.screens.continued(rank.number, rank.who.pid);
            }
            signal_rank(rank.who.pid, signal);
        }
    }

    fn bury(&mut self, number: usize, orderly: bool, job_goes_on: bool) {
        let Ok(at) = self.ranks.binary_search_by_key(&number, |rank| rank.number) else { return };
        let State::Dead(status) = self.ranks[at].state else { return };
        let who = self.ranks[at].who;
        if !orderly {
            self.write_tombstones(number, who, status, job_goes_on);
        } else if job_goes_on {
            self.mark_open_nics(number, who);
        }
        if !status.success() {
            signal_rank(who.pid, libc::SIGKILL);
        }
        self.ranks[at].reap();
        self.plan.screens.close(number);
    }

    fn record_lost(&mut self, lost: LostRank) {
        self.lost.push(lost);
        if let Err(error) = self.directory.write_lost_ranks(&self.lost) {
            say(&error.to_string());
        }
    }

    fn write_tombstones(&self, rank: usize, who: Identity, status: ExitStatus, job_goes_on: bool) {
        let number = u32::try_from(rank).unwrap_or(u32::MAX);
        // The process that joined the job may have been a child of the rank (the program of a script).
        let claimants = self.directory.claimants().unwrap_or_else(|error| {
            say(&error.to_string());
            Vec::new()
        });
        let mut dead: Vec<u32> = claimants
            .into_iter()
            .map(|(_, who)| who)
            .filter(|&who| !who.is_alive() && self.directory.tombstone_of(who).is_none())
            .map(|who| who.pid)
            .collect();
        dead.push(who.pid);
        dead.sort_unstable();
        dead.dedup();
        let stone = Tombstone { who, rank: number, how: describe_end(status) };
        if let Err(error) = self.directory.write_tombstone(&stone) {
            say(&error.to_string());
        }
        if let Err(error) = write_missing_tombstones(&self.directory, number) {
            say(&error.to_string());
        }
        // Marking the NICs notifies peers that use them or wait for them at once, before they check by themselves. When
        // the whole job is ending, no peer needs it.
        if job_goes_on {
            dead.iter().for_each(|&os_pid| self.mark_dead(os_pid));
        }
    }

    /// Marks the NICs of a rank that has finalized and has ended without closing them. A rank that has closed them has also
    /// released its Portals process id, so a normal end needs no search through all segments.
    fn mark_open_nics(&self, rank: usize, who: Identity) {
        if u32::try_from(rank).is_ok_and(|rank| self.directory.claim_file(id_of_rank(rank)).exists()) {
            self.mark_dead(who.pid);
        }
    }

    fn mark_dead(&self, os_pid: u32) {
        if let Err(shortage) = mark_dead(self.directory.path(), os_pid) {
            say(&format!("the end of process {os_pid} is noticed late: {shortage}"));
        }
    }

    fn feed_rank_0(&mut self, flags: PollFlags, events: &mut Vec<Event>) {
        let Some(input) = &mut self.input else { return };
        let before = input.pending.len();
        let closed = flags.contains(PollFlags::ERR) || !input.write();
        let taken = before - input.pending.len();
        if taken > 0 {
            events.push(Event::InputTaken(taken));
        }
        if closed || (input.ends && input.pending.is_empty()) {
            self.input = None;
            events.push(Event::InputClosed);
        }
    }
}

impl Input {
    /// Writes as much as the pipe takes. False: rank 0 has closed it.
    fn write(&mut self) -> bool {
        while !self.pending.is_empty() {
            match rustix::io::write(&self.pipe, &self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

impl Rank {
    fn receive(&mut self, events: &mut Vec<Event>) {
        let Some(connection) = &mut self.connection else { return };
        let mut lines = Vec::new();
        let state = connection.receive(&mut lines);
        events.extend(lines.into_iter().map(|line| Event::Line { rank: self.number, line }));
        if state == ConnectionState::TooLong {
            events.push(Event::Endless { rank: self.number });
        }
        if state != ConnectionState::Open {
            self.connection = None;
        }
    }

    fn read(&mut self, which: usize, events: &mut Vec<Event>) {
        let Some(stream) = &self.streams[which] else { return };
        match stream.read() {
            Some(bytes) if bytes.is_empty() => {}
            Some(bytes) => events.push(Event::Output { rank: self.number, which, bytes }),
            None => {
                self.streams[which] = None;
                events.push(Event::OutputEnded { rank: self.number, which });
            }
        }
    }

    /// Waits for the process, which has ended or is about to.
    fn reap(&mut self) {
        // SAFETY: a null status pointer is allowed; the process is our child, and only this code reaps it.
        unsafe { libc::waitpid(self.who.pid as libc::pid_t, std::ptr::null_mut(), 0) };
        self.state = State::Buried;
    }
}

/// Whether a child was stopped since the last call.
fn has_stopped(pid: u32) -> bool {
    // SAFETY: all bits zero is a valid siginfo_t; waitid fills it, or leaves `si_pid` 0 if the child was not stopped.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, pid, &mut info, libc::WSTOPPED | libc::WNOHANG) == 0 && info.si_pid() != 0
    }
}

/// The exit status of a child that is not reaped yet; `None` while it runs.
fn status_of_dead(pid: u32) -> Option<ExitStatus> {
    // SAFETY: all bits zero is a valid siginfo_t; waitid fills it, or leaves `si_pid` 0 if the child has not ended.
    let info = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_PID, pid, &mut info, flags) != 0 || info.si_pid() == 0 {
            return None;
        }
        info
    };
    // SAFETY: waitid filled the structure for a child, so this is a field that is set.
    let status = unsafe { info.si_status() };
    Some(ExitStatus::from_raw(match info.si_code {
        libc::CLD_EXITED => (status & 0xff) << 8,
        libc::CLD_DUMPED => status | 0x80,
        _ => status,
    }))
}
