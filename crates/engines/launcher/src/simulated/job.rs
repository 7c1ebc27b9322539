// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ranks of a job in virtual time: their turns, their requests, their ends.

use std::collections::{BTreeSet, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use selvedge_host::segment::mark_dead;
use selvedge_job::{JobDirectory, Tombstone, write_missing_tombstones};
use selvedge_sim::node::KILLED;
use selvedge_sim::processes::{Launcher, TurnEnd};
use selvedge_sim::time::Time;
use selvedge_sim_protocol::{Costs, CreateError, NEVER, Request, SimEnd, VARIABLE};

use super::computing::{Computing, SPIN_FIRST};
use super::notes::{Notes, say};
use super::overhead::Overhead;
use super::rank::{RankProcess, RankState, has_ended};
use super::spin;
use super::watchdog::{Activity, FirstThread, Watchdog};
use crate::error::with_causes;
use crate::pmi_server::{Abort, Replies, Server, Table, waits_for_others};
use crate::rank::connection::ConnectionState;
use crate::rank::output::PrintedStream;
use crate::rank::spawn::SpawnPlan;
use crate::report::{describe_end, exit_code, signal_name, start_code};
use crate::signals::{Signals, signal_rank, stop_self};

/// Polls of the rank's page before the launcher sleeps: a microsecond. A launcher that polls keeps its processor, and waking
/// the rank on another one takes ten times as long.
const POLLS: u32 = 40;
/// First sleep of the launcher in a turn; most turns end within it. Then the rank is watched.
const FIRST_SLEEP: Duration = Duration::from_millis(1);
/// Turns between checks for signals; a prime, so that of ranks that take turns each is the one that is checked.
const TURNS_BETWEEN_SIGNAL_CHECKS: u64 = 1021;
/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("the job has no directory")]
    NoDirectory,
    #[error(transparent)]
    Page(#[from] CreateError),
    #[error(transparent)]
    Process(#[from] std::io::Error),
}

/// The ranks of a job in virtual time.
pub struct SimulatedJob {
    plan: SpawnPlan,
    directory: Option<JobDirectory>,
    costs: Costs,
    keep_going: bool,
    signals: Signals,
    server: Server,
    ranks: Vec<Option<RankProcess>>,
    released: VecDeque<u32>,
    /// The exit code, once something has failed.
    failure: Option<u8>,
    over: bool,
    /// The rank that has aborted the job, and the code that it gave: its exit code, however its process then ends.
    aborter: Option<(u32, u8)>,
    notes: Notes,
    overhead: Overhead,
    /// By rank: the record of its computing.
    computing: Vec<Computing>,
    /// Ranks that have sent a line to the launcher.
    has_sent: BTreeSet<u32>,
    /// By rank: whether its first thread stands still.
    first_threads: Vec<FirstThread>,
}

impl SimulatedJob {
    pub(super) fn new(
        plan: SpawnPlan,
        directory: JobDirectory,
        signals: Signals,
        costs: Costs,
        keep_going: bool,
    ) -> SimulatedJob {
        let mut server = Server::new(directory.name(), plan.size);
        server.set_separate_nodes();
        SimulatedJob {
            ranks: (0..plan.size).map(|_| None).collect(),
            computing: vec![Computing::default(); plan.size],
            first_threads: vec![FirstThread::default(); plan.size],
            plan,
            directory: Some(directory),
            costs,
            keep_going,
            signals,
            server,
            released: VecDeque::new(),
            failure: None,
            over: false,
            aborter: None,
            notes: Notes::default(),
            has_sent: BTreeSet::new(),
            overhead: Overhead { least_ns: u64::MAX, ..Overhead::default() },
        }
    }

    /// The job's exit code, if the job must end before its ranks: one failed or aborted, or the user interrupted it.
    pub fn over(&self) -> Option<u8> {
        self.over.then(|| self.failure.unwrap_or(1))
    }

    /// The real time of turns.
    pub fn overhead(&self) -> Overhead {
        self.overhead
    }

    /// Notes for the user on how ranks behaved, after the run.
    pub fn notes(&self) -> Vec<String> {
        self.notes.of_job(self.plan.size, &self.plan.program())
    }

    /// Ends ranks that still run, and returns the job's exit code.
    pub fn finish(mut self) -> u8 {
        self.end_all();
        for rank in self.ranks.iter_mut().flatten() {
            rank.pass_output();
            rank.streams.iter_mut().filter_map(Option::take).for_each(PrintedStream::close);
        }
        self.ranks.clear();
        if let Some(Err(error)) = self.directory.take().map(JobDirectory::remove) {
            say(&error.to_string());
        }
        if let Some(note) = self.notes.on_strangers(self.plan.size, &self.plan.program()) {
            say(&note);
        }
        self.failure.unwrap_or(0)
    }

    // ---- a rank's turn ----

    /// Hands the turn to a rank. `Err`: its process could not be started, and the reason was printed.
    fn give_turn(&mut self, number: u32, now: Time) -> Result<(), i32> {
        if self.ranks[number as usize].is_none() {
            return self.start(number, now);
        }
        let Some(rank) = &mut self.ranks[number as usize] else { return Ok(()) };
        match rank.state {
            RankState::Ended => {}
            RankState::Turns => rank.page.give(now.0),
            RankState::Stopped => {
                rank.page.set_time(now.0);
                if let Some(signal) = rank.page.alarm_signal().filter(|_| rank.page.alarm_ps() <= now.0) {
                    signal_rank(rank.who.pid, signal);
                }
                rank.resume();
            }
            RankState::Blocked => {
                rank.state = RankState::Turns;
                rank.page.set_time(now.0);
                for line in std::mem::take(&mut rank.held_lines) {
                    rank.send_line(&line);
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, number: u32, now: Time) -> Result<(), i32> {
        let started = self.try_start(number, now);
        match started {
            Ok(rank) => {
                self.ranks[number as usize] = Some(rank);
                Ok(())
            }
            Err(error) => {
                let program = self.plan.program();
                say(&format!("cannot start rank {number} ({program}): {}", with_causes(&error)));
                let code = match &error {
                    StartError::Process(error) => start_code(error),
                    StartError::NoDirectory | StartError::Page(_) => 1,
                };
                self.fail(code);
                Err(code.into())
            }
        }
    }

    fn try_start(&self, number: u32, now: Time) -> Result<RankProcess, StartError> {
        let directory = self.directory.as_ref().ok_or(StartError::NoDirectory)?;
        let path = directory.path().join(format!("{number}.clock"));
        let mut page = SimEnd::create(&path, &self.costs)?;
        page.set_time(now.0);
        let own = [(VARIABLE, page.path().as_os_str())];
        let started = self.plan.start(number as usize, number as usize, self.signals.mask_before(), &own)?;
        page.reserve_for(started.who.pid);
        Ok(RankProcess::new(number, started.who, page, started.connection, started.streams)?)
    }

    /// Serves a rank that has the turn, until it hands the turn back, blocks, or ends.
    fn serve(&mut self, number: u32) -> TurnEnd {
        let mut watchdog: Option<Watchdog> = None;
        let mut polls = POLLS;
        loop {
            let Some(rank) = &mut self.ranks[number as usize] else { return TurnEnd::Ended(1) };
            while polls > 0 && !rank.page.has_request() {
                std::hint::spin_loop();
                polls -= 1;
            }
            if rank.page.has_request() {
                rank.pass_output();
                self.computing[number as usize].called();
                return match rank.page.request() {
                    Ok(asked) => TurnEnd::Request(asked),
                    Err(why) => TurnEnd::Ended(self.accuse(number, &format!("it sent {why}"))),
                };
            }
            let pid = rank.who.pid;
            let limit = watchdog.as_ref().map_or(FIRST_SLEEP, Watchdog::next_check);
            let ready = rank.sleep(self.signals.fd(), limit);
            if ready.output {
                rank.pass_output();
            }
            if ready.signals {
                self.take_signals();
                if self.over {
                    return TurnEnd::Ended(self.end_now(number));
                }
            }
            if ready.connection && self.receive_lines(number) {
                return TurnEnd::Blocked("a barrier of the launcher's");
            }
            if self.over {
                return TurnEnd::Ended(self.end_now(number));
            }
            if ready.process {
                return TurnEnd::Ended(self.ended(number));
            }
            if !ready.request && !ready.connection && !ready.output {
                let watchdog = watchdog.get_or_insert_with(|| Watchdog::new(pid, self.limits(number)));
                match watchdog.check(pid) {
                    Activity::Working => {}
                    Activity::Busy => {
                        // The search for leaks at a rank's end traces it, which it cannot while the launcher does.
                        let may_trace = !self.plan.is_sanitized();
                        let found = if may_trace { spin::observe(pid) } else { spin::Behaviour::Unknown };
                        watchdog.looked();
                        if let Some(heard) = self.looked(number, found) {
                            return heard;
                        }
                    }
                    Activity::Spinning => {
                        self.computing[number as usize].spun();
                        let why = format!("for {} s without calling the library", SPIN_FIRST.as_secs());
                        if let Some(heard) = self.interrupt(number, &why) {
                            return heard;
                        }
                    }
                    Activity::Blocked(call) => {
                        let why = format!(
                            "it blocks outside of the library, in {call}: in virtual time no other rank runs until it continues; {}",
                            call.remedy()
                        );
                        return TurnEnd::Ended(self.accuse(number, &why));
                    }
                    Activity::Waiting(call) => {
                        let why = format!(
                            "it waits in real time, again and again, in {call}: virtual time stands still meanwhile; {}",
                            call.remedy()
                        );
                        return TurnEnd::Ended(self.accuse(number, &why));
                    }
                }
            }
        }
    }

    /// CPU time of a rank in this turn before other ranks get one, and before it is observed.
    fn limits(&self, number: u32) -> (Duration, Duration) {
        let has_nic = self.ranks[number as usize].as_ref().is_some_and(|rank| rank.page.has_nic());
        self.computing[number as usize].limits(has_nic)
    }

    /// Handles an observation of a rank that computes.
    fn looked(&mut self, number: u32, found: spin::Behaviour) -> Option<TurnEnd> {
        let computing = &mut self.computing[number as usize];
        match found {
            spin::Behaviour::Polls => {
                computing.polled();
                self.interrupt(number, "in a loop without calling the library")
            }
            spin::Behaviour::Computes | spin::Behaviour::Unknown => {
                computing.computed();
                None
            }
        }
    }

    /// Stops a rank that polls memory, or has used so much CPU time without a call that it counts as polling. This is
    /// handled as a poll that found nothing. `None`: it has made a request at the last moment.
    fn interrupt(&mut self, number: u32, why: &str) -> Option<TurnEnd> {
        let rank = self.ranks[number as usize].as_mut()?;
        if !rank.stop() {
            rank.state = RankState::Turns;
            return None;
        }
        if rank.page.has_request() {
            rank.resume();
            return None;
        }
        if self.computing[number as usize].take_note() {
            let note = format!(
                "rank {number} used the processor {why}: it counts as polling memory that does not change, and other ranks run; a call in \
                 the loop, such as sched_yield(), takes less real time"
            );
            self.notes.add(note);
        }
        let until_ps = self.ranks[number as usize].as_ref().map_or(NEVER, |rank| rank.page.alarm_ps());
        Some(TurnEnd::Request(Request::Poll { until_ps, in_call: false }))
    }

    /// Handles the lines that a rank has sent over PMI. True: the rank waits for other ranks, and has no answer yet.
    fn receive_lines(&mut self, number: u32) -> bool {
        let Some(rank) = &mut self.ranks[number as usize] else { return false };
        let (lines, state) = rank.receive_lines();
        if !lines.is_empty() {
            self.has_sent.insert(number);
        }
        if state == ConnectionState::TooLong {
            say(&format!("{} sent an endless line on its PMI socket, which is now closed", self.describe(number)));
        }
        let mut waits = false;
        for line in lines {
            let mut replies = Replies::new();
            let abort = self.server.line(number as usize, &line, &mut replies);
            if abort.is_none() && waits_for_others(&replies, number, &line) {
                waits = true;
                if let Some(rank) = &mut self.ranks[number as usize] {
                    rank.state = RankState::Blocked;
                }
            }
            self.pass_replies(replies);
            if let Some(Abort { code, finished }) = abort {
                self.aborted(number, code, finished);
            }
        }
        waits && !self.over
    }

    /// Sends answers: at once to the rank that has the turn; to a blocked rank at its next turn.
    fn pass_replies(&mut self, replies: Replies) {
        for Table { number, text } in self.server.take_tables() {
            if let Some(Err(error)) = self.directory.as_ref().map(|here| here.write_exchange(number, text.as_bytes())) {
                say(&error.to_string());
            }
        }
        for (to, line) in replies {
            let Some(rank) = &mut self.ranks[to] else { continue };
            match rank.state {
                RankState::Blocked => {
                    if rank.held_lines.is_empty() {
                        self.released.push_back(to as u32);
                    }
                    rank.held_lines.push(line);
                }
                RankState::Turns | RankState::Stopped => rank.send_line(&line),
                RankState::Ended => {}
            }
        }
    }

    fn aborted(&mut self, number: u32, code: i32, finished: bool) {
        let code = (code & 0xff) as u8;
        if finished {
            self.failure.get_or_insert(code);
            self.over = true;
        } else {
            say(&format!("{} aborted the job with code {code}", self.describe(number)));
            self.aborter.get_or_insert((number, code.max(1)));
            self.fail(code.max(1));
        }
    }

    // ---- ends ----

    fn ended(&mut self, number: u32) -> i32 {
        self.receive_lines(number);
        let Some(rank) = &mut self.ranks[number as usize] else { return 1 };
        let status = rank.reap();
        rank.pass_output();
        let (_, forks) = rank.page.counts();
        if forks > 0 {
            let note =
                format!("rank {number} started {forks} processes: they are not simulated, and their clocks are real");
            say(&note);
            self.notes.add(note);
        }
        self.mark_dead_rank(number, status);
        if !status.success() {
            if !self.over {
                say(&format!("{} {}", self.describe(number), describe_end(status)));
            }
            self.failure.get_or_insert(exit_code(status));
            self.over |= !self.keep_going;
        } else if !self.has_sent.contains(&number)
            && self.ranks[number as usize].as_ref().is_some_and(|rank| rank.page.counts().0 == 0)
        {
            self.notes.add_stranger(number);
        }
        self.code_of(number, status)
    }

    /// Returns the exit code of a rank whose process has ended. A rank that has told the launcher to abort the job ends
    /// itself or is killed, whichever comes first in real time, so its status is not its code.
    fn code_of(&self, number: u32, status: ExitStatus) -> i32 {
        let aborted = self.aborter.filter(|&(aborter, _)| aborter == number);
        aborted.map_or(exit_code(status), |(_, code)| code).into()
    }

    /// Marks a rank as dead for the others.
    fn mark_dead_rank(&mut self, number: u32, status: ExitStatus) {
        let Some(rank) = &self.ranks[number as usize] else { return };
        let who = rank.who;
        let orderly = status.success() && self.server.has_left(number as usize);
        if let Some(directory) = self.directory.as_ref().filter(|_| !orderly) {
            let stone = Tombstone { who, rank: number, how: describe_end(status) };
            if let Err(error) = directory.write_tombstone(&stone) {
                say(&error.to_string());
            }
            if let Err(error) = write_missing_tombstones(directory, number) {
                say(&error.to_string());
            }
            let marked = if self.over { Ok(()) } else { mark_dead(directory.path(), who.pid) };
            if let Err(shortage) = marked {
                say(&format!("the end of rank {number} is noticed late: {shortage}"));
            }
        }
        self.leave_barriers(number);
    }

    /// Removes a rank from the launcher's barriers.
    fn leave_barriers(&mut self, number: u32) {
        let mut replies = Replies::new();
        self.server.rank_ended(number as usize, &mut replies);
        self.pass_replies(replies);
    }

    fn end_now(&mut self, number: u32) -> i32 {
        let Some(rank) = &mut self.ranks[number as usize] else { return 1 };
        if rank.state == RankState::Ended {
            return 1;
        }
        signal_rank(rank.who.pid, libc::SIGKILL);
        let status = rank.reap();
        rank.pass_output();
        self.mark_dead_rank(number, status);
        self.code_of(number, status)
    }

    /// Ends all living ranks: SIGTERM, and SIGKILL after the grace time.
    fn end_all(&mut self) {
        let living = |job: &SimulatedJob| -> Vec<u32> {
            let ranks = job.ranks.iter().flatten().filter(|rank| rank.state != RankState::Ended);
            ranks.map(|rank| rank.who.pid).collect()
        };
        let pids = living(self);
        if pids.is_empty() {
            return;
        }
        pids.iter().for_each(|&pid| signal_rank(pid, libc::SIGTERM));
        let until = Instant::now() + GRACE;
        while pids.iter().any(|&pid| !has_ended(pid)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        pids.iter().for_each(|&pid| signal_rank(pid, libc::SIGKILL));
        for rank in self.ranks.iter_mut().flatten().filter(|rank| rank.state != RankState::Ended) {
            rank.reap();
        }
    }

    fn fail(&mut self, code: u8) {
        self.failure.get_or_insert(code);
        self.over = true;
    }

    fn take_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGCHLD | libc::SIGCONT => {}
                libc::SIGTSTP => stop_self(),
                signal => {
                    say(&format!("{}: the simulation ends here", signal_name(signal)));
                    self.fail(exit_code(ExitStatus::from_raw(signal)));
                }
            }
        }
    }

    /// Warns that the first thread of a rank waits outside of the library, while its other threads let time pass.
    fn warn_if_still(&mut self, number: u32) {
        let Some(rank) = &self.ranks[number as usize] else { return };
        if let Some(call) = self.first_threads[number as usize].check(rank.who.pid) {
            let text = "waits outside of the library, in";
            say(&format!(
                "{} {text} {call}, while other threads let time pass; {}",
                self.describe(number),
                call.remedy()
            ));
        }
    }

    fn describe(&self, number: u32) -> String {
        match &self.ranks[number as usize] {
            Some(rank) => format!("rank {number} (pid {}, {})", rank.who.pid, self.plan.program()),
            None => format!("rank {number} (not yet started, {})", self.plan.program()),
        }
    }
}

impl Drop for SimulatedJob {
    fn drop(&mut self) {
        for number in 0..self.ranks.len() as u32 {
            self.end_now(number);
        }
        self.ranks.clear();
        if let Some(directory) = self.directory.take() {
            let _ = directory.remove();
        }
    }
}

impl Launcher for SimulatedJob {
    fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    fn run(&mut self, rank: u32, now: Time) -> (Time, TurnEnd) {
        self.overhead.turns += 1;
        if self.overhead.turns % TURNS_BETWEEN_SIGNAL_CHECKS == 0 {
            self.take_signals();
            self.warn_if_still(rank);
        }
        if self.over {
            return (now, TurnEnd::Ended(self.end_now(rank)));
        }
        let start = Instant::now();
        if let Err(code) = self.give_turn(rank, now) {
            return (now, TurnEnd::Ended(code));
        }
        let heard = self.serve(rank);
        let spent = start.elapsed().as_nanos() as u64;
        self.overhead.wall_ns += spent;
        if matches!(heard, TurnEnd::Request(_)) {
            self.overhead.least_ns = self.overhead.least_ns.min(spent);
        }
        let at = self.ranks[rank as usize].as_ref().map(|rank| rank.page.now_ps());
        match at {
            Some(Ok(at)) => (Time(at), heard),
            Some(Err(why)) if !matches!(heard, TurnEnd::Ended(_)) => {
                (now, TurnEnd::Ended(self.accuse(rank, &format!("it has {why}"))))
            }
            _ => (now, heard),
        }
    }

    fn kill(&mut self, rank: u32) -> i32 {
        say(&format!("{} is killed by --kill", self.describe(rank)));
        self.failure.get_or_insert(KILLED as u8);
        self.over |= !self.keep_going;
        match self.ranks[rank as usize] {
            Some(_) => _ = self.end_now(rank),
            None => self.leave_barriers(rank),
        }
        KILLED
    }

    fn take_released(&mut self) -> Option<u32> {
        self.released.pop_front()
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn wire(&self, rank: u32) -> Option<(&SimEnd, u32)> {
        let rank = self.ranks.get(rank as usize)?.as_ref()?;
        Some((&rank.page, rank.who.pid))
    }

    fn accuse(&mut self, rank: u32, why: &str) -> i32 {
        say(&format!("{} is ended: {why}", self.describe(rank)));
        self.failure.get_or_insert(1);
        self.over |= !self.keep_going;
        self.end_now(rank);
        1
    }
}
