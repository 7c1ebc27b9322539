// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ranks of a job in virtual time: their turns, their requests, their ends.

use std::collections::{BTreeSet, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use selvedge_host::segment::mark_dead;
use selvedge_job::{JobDirectory, Tombstone, write_missing_tombstones};
use selvedge_sim::node::KILLED;
use selvedge_sim::processes::{Launcher, TurnEnd};
use selvedge_sim::time::Time;
use selvedge_sim_protocol::{Asked, Costs, SimEnd, VARIABLE};

use super::rank::{RankProcess, Standing};
use super::spin;
use super::watchdog::{Activity, Watchdog};
use crate::run::connection::ConnectionState;
use crate::run::output::PrintedStream;
use crate::run::pmi_server::{Abort, Replies, Server};
use crate::run::report::{exit_code, how, signal_name, start_code};
use crate::run::signals::{Signals, signal_rank, stop_self};
use crate::run::spawn::SpawnPlan;

/// How often the rank's page is polled before the launcher sleeps: some tens of microseconds.
const POLLS: u32 = 2000;
/// Turns between checks for signals.
const TURNS_BETWEEN_SIGNAL_CHECKS: u64 = 1024;
/// The CPU time that a rank uses without a call before it is looked at ([`spin::look`]): at first; after the loop in which it was has
/// been interrupted; and at most, where looks have found that it computes.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_AGAIN: Duration = Duration::from_micros(200);
const LOOK_MOST: Duration = Duration::from_millis(256);
/// The CPU time that a rank may use without a call before it counts as one that polls memory, whatever a look finds: at first, after
/// an interruption, and the least.
const SPIN_FIRST: Duration = Duration::from_secs(2);
const SPIN_AGAIN: Duration = Duration::from_millis(20);
const SPIN_LEAST: Duration = Duration::from_millis(1);
/// After this many interruptions the time is halved.
const SPINS_HALVED_AFTER: u32 = 16;
/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);

/// The real time that turns have taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overhead {
    pub turns: u64,
    /// From handing the turn over to getting it back: both hand-overs, and the rank's own time between them.
    pub wall_ns: u64,
    /// The shortest turn.
    pub least_ns: u64,
}

/// How a rank computes between its calls.
#[derive(Clone, Copy, Debug)]
struct Computing {
    /// How often it has been interrupted since its last call because a look found that it polls, and for its CPU time.
    polls: u32,
    spins: u32,
    /// The CPU time before the first look in a turn.
    look_after: Duration,
    /// A note says that it polls.
    is_noted: bool,
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
    notes: Vec<String>,
    overhead: Overhead,
    /// By rank: what is known of how it computes.
    computing: Vec<Computing>,
    /// Ranks that have sent a line to the launcher.
    has_sent: BTreeSet<u32>,
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
            computing: vec![Computing { polls: 0, spins: 0, look_after: LOOK_FIRST, is_noted: false }; plan.size],
            plan,
            directory: Some(directory),
            costs,
            keep_going,
            signals,
            server,
            released: VecDeque::new(),
            failure: None,
            over: false,
            notes: Vec::new(),
            has_sent: BTreeSet::new(),
            overhead: Overhead { least_ns: u64::MAX, ..Overhead::default() },
        }
    }

    /// The job's exit code, if the job is to end before its ranks have: one failed or aborted, or the user interrupted it.
    pub fn over(&self) -> Option<u8> {
        self.over.then(|| self.failure.unwrap_or(1))
    }

    /// The real time that turns have taken.
    pub fn overhead(&self) -> Overhead {
        self.overhead
    }

    /// Notes for the user on how ranks behaved.
    pub fn notes(&self) -> &[String] {
        &self.notes
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
        self.failure.unwrap_or(0)
    }

    // ---- a rank's turn ----

    /// Hands the turn to a rank. `Err`: its process could not be started, and the reason is printed.
    fn give_turn(&mut self, number: u32, now: Time) -> Result<(), i32> {
        if self.ranks[number as usize].is_none() {
            return self.start(number, now);
        }
        let Some(rank) = &mut self.ranks[number as usize] else { return Ok(()) };
        match rank.standing {
            Standing::Ended => {}
            Standing::Turns => rank.page.give(now.0),
            Standing::Stopped => {
                rank.page.set_time(now.0);
                rank.resume();
            }
            Standing::Blocked => {
                rank.standing = Standing::Turns;
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
                say(&format!("cannot start rank {number} ({program}): {error:#}"));
                let code = error.downcast_ref().map_or(1, start_code);
                self.fail(code);
                Err(code.into())
            }
        }
    }

    fn try_start(&self, number: u32, now: Time) -> Result<RankProcess> {
        let directory = self.directory.as_ref().context("the job has no directory")?;
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
        let mut watchdog = None;
        let (cpu_time_max, look_after) = self.computing[number as usize].limits();
        let mut polls = POLLS;
        loop {
            let Some(rank) = &mut self.ranks[number as usize] else { return TurnEnd::Ended(1) };
            while polls > 0 && !rank.page.has_asked() {
                std::hint::spin_loop();
                polls -= 1;
            }
            if rank.page.has_asked() {
                rank.pass_output();
                let computing = &mut self.computing[number as usize];
                (computing.polls, computing.spins) = (0, 0);
                return match rank.page.request() {
                    Ok(asked) => TurnEnd::Asked(asked),
                    Err(why) => TurnEnd::Ended(self.accuse(number, &format!("it sent {why}"))),
                };
            }
            let pid = rank.who.pid;
            let watchdog = watchdog.get_or_insert_with(|| Watchdog::new(pid, cpu_time_max, look_after));
            let ready = rank.sleep(self.signals.fd(), watchdog.next_check());
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
                match watchdog.check(pid) {
                    Activity::Working => {}
                    Activity::Busy => {
                        let found = spin::look(pid);
                        watchdog.looked();
                        if let Some(heard) = self.looked(number, found) {
                            return heard;
                        }
                    }
                    Activity::Spinning => {
                        self.computing[number as usize].spins += 1;
                        let why = format!("for {} s without calling the library", SPIN_FIRST.as_secs());
                        if let Some(heard) = self.interrupt(number, &why) {
                            return heard;
                        }
                    }
                    Activity::Blocked(call) => {
                        let why = format!(
                            "it blocks outside of the library, in {call}: in virtual time no other rank runs until it continues"
                        );
                        return TurnEnd::Ended(self.accuse(number, &why));
                    }
                }
            }
        }
    }

    /// A rank that computes has been looked at.
    fn looked(&mut self, number: u32, found: spin::Loop) -> Option<TurnEnd> {
        let computing = &mut self.computing[number as usize];
        match found {
            spin::Loop::Polls => {
                computing.polls = computing.polls.saturating_add(1);
                computing.look_after = LOOK_FIRST;
                self.interrupt(number, "in a loop without calling the library")
            }
            spin::Loop::Computes | spin::Loop::Unknown => {
                computing.look_after = (computing.look_after * 2).min(LOOK_MOST);
                None
            }
        }
    }

    /// A rank polls memory, or has used so much CPU time without a call that it is taken to. It is stopped and handled as a poll that
    /// found nothing. None: it has made a request at the last moment.
    fn interrupt(&mut self, number: u32, why: &str) -> Option<TurnEnd> {
        let rank = self.ranks[number as usize].as_mut()?;
        if !rank.stop() {
            rank.standing = Standing::Turns;
            return None;
        }
        if rank.page.has_asked() {
            rank.resume();
            return None;
        }
        if !std::mem::replace(&mut self.computing[number as usize].is_noted, true) {
            let note = format!(
                "rank {number} used the processor {why}: it counts as polling memory that does not change, and other ranks run; a call in \
                 the loop, such as sched_yield(), takes less real time"
            );
            self.notes.push(note);
        }
        Some(TurnEnd::Asked(Asked::Poll))
    }

    /// Handles the lines that a rank has sent over PMI. True: it waits for other ranks, and has no answer yet.
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
                    rank.standing = Standing::Blocked;
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
        for (to, line) in replies {
            let Some(rank) = &mut self.ranks[to] else { continue };
            match rank.standing {
                Standing::Blocked => {
                    if rank.held_lines.is_empty() {
                        self.released.push_back(to as u32);
                    }
                    rank.held_lines.push(line);
                }
                Standing::Turns | Standing::Stopped => rank.send_line(&line),
                Standing::Ended => {}
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
            self.fail(code.max(1));
        }
    }

    // ---- ends ----

    /// Handles the end of a rank's process.
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
            self.notes.push(note);
        }
        self.mark_dead_rank(number, status);
        if !status.success() {
            if !self.over {
                say(&format!("{} {}", self.describe(number), how(status)));
            }
            self.failure.get_or_insert(exit_code(status));
            self.over |= !self.keep_going;
        } else if !self.has_sent.contains(&number)
            && self.ranks[number as usize].as_ref().is_some_and(|rank| rank.page.counts().0 == 0)
        {
            self.notes.push(format!("rank {number} ended without having called the library"));
        }
        exit_code(status).into()
    }

    /// Marks a rank as dead for the others.
    fn mark_dead_rank(&mut self, number: u32, status: ExitStatus) {
        let Some(rank) = &self.ranks[number as usize] else { return };
        let who = rank.who;
        let orderly = status.success() && self.server.has_left(number as usize);
        if let Some(directory) = self.directory.as_ref().filter(|_| !orderly) {
            let stone = Tombstone { who, rank: number, how: how(status) };
            if let Err(error) = stone.write(directory) {
                say(&error.to_string());
            }
            write_missing_tombstones(directory, number);
            if !self.over {
                mark_dead(directory.path(), who.pid);
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

    /// Kills a rank.
    fn end_now(&mut self, number: u32) -> i32 {
        let Some(rank) = &mut self.ranks[number as usize] else { return 1 };
        if rank.standing == Standing::Ended {
            return 1;
        }
        signal_rank(rank.who.pid, libc::SIGKILL);
        let status = rank.reap();
        rank.pass_output();
        self.mark_dead_rank(number, status);
        exit_code(status).into()
    }

    /// Ends all living ranks: SIGTERM, and SIGKILL after the grace time.
    fn end_all(&mut self) {
        let living = |job: &SimulatedJob| -> Vec<u32> {
            let ranks = job.ranks.iter().flatten().filter(|rank| rank.standing != Standing::Ended);
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
        for rank in self.ranks.iter_mut().flatten().filter(|rank| rank.standing != Standing::Ended) {
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

    fn describe(&self, number: u32) -> String {
        match &self.ranks[number as usize] {
            Some(rank) => format!("rank {number} (pid {}, {})", rank.who.pid, self.plan.program()),
            None => format!("rank {number} (not yet started, {})", self.plan.program()),
        }
    }
}

impl Computing {
    /// The CPU time that the rank may use in this turn before other ranks have one, and before it is looked at.
    fn limits(&self) -> (Duration, Duration) {
        let most = match self.spins {
            0 => SPIN_FIRST,
            times => (SPIN_AGAIN / 2u32.pow((times / SPINS_HALVED_AFTER).min(8))).max(SPIN_LEAST),
        };
        (most, if self.polls > 0 { LOOK_AGAIN } else { self.look_after })
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

/// Whether the rank that sent this line waits for others. A rank that completes a barrier also waits: it continues when all do.
fn waits_for_others(replies: &Replies, number: u32, line: &str) -> bool {
    let answered = replies.iter().any(|(to, _)| *to == number as usize);
    match line.split_ascii_whitespace().find_map(|word| word.strip_prefix("cmd=")) {
        Some("barrier_in") => true,
        Some("init") => !answered,
        _ => false,
    }
}

/// Whether a child has ended; it is not reaped.
fn has_ended(pid: u32) -> bool {
    // SAFETY: all bits zero is a valid siginfo_t; waitid fills it, or leaves it unchanged, and `si_pid` is then the pid or 0.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_PID, pid, &mut info, flags) != 0 || info.si_pid() != 0
    }
}

fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "selvedge sim: {text}");
}

impl Launcher for SimulatedJob {
    fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    fn run(&mut self, rank: u32, now: Time) -> (Time, TurnEnd) {
        self.overhead.turns += 1;
        if self.overhead.turns % TURNS_BETWEEN_SIGNAL_CHECKS == 0 {
            self.take_signals();
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
        if matches!(heard, TurnEnd::Asked(_)) {
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
