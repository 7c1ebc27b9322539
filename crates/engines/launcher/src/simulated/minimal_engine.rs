// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The smallest engine that runs processes, for tests: a network without latency, hosts without cost. Operations are
//! delivered and answered at once, and waiting ranks continue round robin. A failure here is independent of timing.
use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::tables::Command;
use selvedge_nic::{Fault, NoMemory, Step};
use selvedge_os::sync::IgnorePoison;
use selvedge_sim::node::{Incoming, Meter, RankRequest, Ranks};
use selvedge_sim::processes::Processes;
use selvedge_sim::time::Time;

use super::{Launch, SimulatedJob, launch};

struct Free;

impl Meter for Free {
    fn charge(&mut self, _: Step) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its turn comes at this time, or at an earlier change of its NIC.
    Waits {
        until: Time,
        nic: bool,
    },
    Blocked,
    Ended(i32),
}

const PAUSE: Time = Time::from_ns(100);
const PAUSE_LONGEST: Time = Time::from_ns(10_000_000);

const READY: State = State::Waits { until: Time::ZERO, nic: false };

pub struct Outcome {
    pub code: u8,
    pub hash: u64,
    pub turns: u64,
    pub codes: Vec<i32>,
    pub time: Time,
    pub stuck: bool,
    pub notes: Vec<String>,
    pub overhead: super::overhead::Overhead,
}

struct Engine {
    ranks: Processes<SimulatedJob>,
    states: Vec<State>,
    clocks: Vec<Time>,
    /// The pause of each rank after a poll that found nothing; doubles each time.
    pauses: Vec<Time>,
    hash: u64,
    turns: u64,
}

/// A process launches one job at a time, because the job's directory is named after the process.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Runs a job to its end.
pub fn run(what: Launch) -> Outcome {
    let _one = ONE.lock().ignore_poison();
    let ranks = launch(what).expect("a job");
    let size = ranks.size() as usize;
    let mut engine = Engine {
        ranks,
        states: vec![READY; size],
        clocks: vec![Time::ZERO; size],
        pauses: vec![PAUSE; size],
        hash: 0xcbf2_9ce4_8422_2325,
        turns: 0,
    };
    let stuck = engine.run();
    let codes = engine.states.iter().map(|state| if let State::Ended(code) = state { *code } else { -1 }).collect();
    let time = engine.clocks.iter().copied().max().unwrap_or(Time::ZERO);
    let job = engine.ranks.into_launcher();
    let (notes, overhead) = (job.notes().to_vec(), job.overhead());
    Outcome { code: job.finish(), hash: engine.hash, turns: engine.turns, codes, time, stuck, notes, overhead }
}

impl Engine {
    /// Runs the rank whose turn is next. True: no rank has a next turn, and not all have ended.
    fn run(&mut self) -> bool {
        let mut found_nothing = 0;
        while self.ranks.launcher().over().is_none() {
            let due = |rank: usize| match self.states[rank] {
                State::Waits { until, .. } if until != Time::MAX => Some((until.max(self.clocks[rank]), rank)),
                _ => None,
            };
            let Some((at, rank)) = (0..self.states.len()).filter_map(due).min() else {
                return self.states.iter().any(|state| !matches!(state, State::Ended(_)));
            };
            self.clocks[rank] = at;
            found_nothing = if self.turn(rank as u32) { found_nothing + 1 } else { 0 };
            if found_nothing > 100_000 {
                return true;
            }
        }
        false
    }

    fn note(&mut self, words: &[u64]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
        }
    }

    /// Runs one turn of a rank. Returns whether it was a poll that found nothing.
    fn turn(&mut self, rank: u32) -> bool {
        let at = rank as usize;
        self.states[at] = READY;
        let turn = self.ranks.resume(rank, self.clocks[at]);
        self.turns += 1;
        assert!(turn.at >= self.clocks[at], "time never goes back");
        self.clocks[at] = turn.at;
        if std::env::var_os("SELVEDGE_TWIN_TRACE").is_some() {
            eprintln!("{rank} {:?} {:?}", turn.at, turn.request);
        }
        let found_nothing = matches!(turn.request, RankRequest::Poll { .. });
        if !found_nothing {
            self.pauses[at] = PAUSE;
        }
        match turn.request {
            RankRequest::Start { ni, command, payload, .. } => {
                self.note(&[u64::from(rank), turn.at.0, u64::from(command.kind), command.target, command.length]);
                self.start(rank, ni, &command, &payload);
            }
            // Every rank has its own node.
            RankRequest::Publish { .. } => unreachable!("no rank shares memory with another"),
            RankRequest::SharesMemory { .. } => self.ranks.reply(rank, false),
            RankRequest::Region { .. } => {}
            RankRequest::Wait { until } => {
                self.note(&[u64::from(rank), turn.at.0, 101]);
                self.states[at] = State::Waits { until, nic: true };
            }
            RankRequest::Poll { until, .. } => {
                self.note(&[u64::from(rank), turn.at.0, 102]);
                self.states[at] =
                    State::Waits { until: (turn.at + self.pauses[at]).min(until.max(turn.at)), nic: true };
                self.pauses[at] = (self.pauses[at] * 2).min(PAUSE_LONGEST);
            }
            RankRequest::Sleep { until } | RankRequest::Compute { until } => {
                self.note(&[u64::from(rank), turn.at.0, 103, until.0]);
                self.states[at] = State::Waits { until, nic: false };
            }
            RankRequest::Blocked { .. } => {
                self.note(&[u64::from(rank), turn.at.0, 104]);
                self.states[at] = State::Blocked;
            }
            RankRequest::Ended { code } => {
                self.note(&[u64::from(rank), turn.at.0, 105, code as u64]);
                self.states[at] = State::Ended(code);
            }
        }
        while let Some((rank, ni)) = self.ranks.take_fired() {
            self.fire(rank, ni);
        }
        while let Some(released) = self.ranks.take_released() {
            assert_eq!(self.states[released as usize], State::Blocked);
            self.states[released as usize] = READY;
            self.clocks[released as usize] = self.clocks[released as usize].max(turn.at);
        }
        found_nothing
    }

    fn wake(&mut self, rank: u32, now: Time) {
        if let State::Waits { until, nic: true } = &mut self.states[rank as usize] {
            *until = now.min(*until);
        }
    }

    fn start(&mut self, from: u32, ni: u32, command: &Command, payload: &[u8]) {
        let now = self.clocks[from as usize];
        let mut reply = Vec::new();
        let to = self.ranks.find(from, command.target, ni);
        let incoming = Incoming { request: &command.request, payload, token: 0 };
        let delivery = match to {
            None => Delivery::failed(fail::UNDELIVERABLE),
            Some((to, ni)) => match self.ranks.deliver(to, ni, &incoming, &mut reply, &mut Free) {
                Verdict::Done(delivery) => delivery,
                // No NIC in these tests keeps requests.
                Verdict::Unreachable | Verdict::Full | Verdict::Kept => Delivery::failed(fail::DROPPED),
                Verdict::Initiator(Fault::Gone) => Delivery::failed(fail::UNDELIVERABLE),
                Verdict::Initiator(_) => Delivery::failed(fail::SEGV),
            },
        };
        let mut delivery = delivery;
        if command.has_reply() && delivery.fail == fail::OK {
            let bytes = reply.len().min(delivery.mlength as usize);
            let mut is_admitted = true;
            self.ranks.with_nic(from, ni, &mut |nic| is_admitted = nic.admits_reply(&mut NoMemory, command));
            if !is_admitted || self.ranks.scatter(from, ni, &command.sink, &reply[..bytes]).is_err() {
                (delivery.fail, delivery.mlength) = (fail::SEGV, 0);
            }
        }
        let mut fired = false;
        let sent = if to.is_none() { fail::UNDELIVERABLE } else { fail::OK };
        self.ranks.with_nic(from, ni, &mut |nic| {
            nic.complete_send(command, sent);
            nic.complete_response(command, &delivery);
            fired = nic.has_fired();
        });
        self.wake(from, now);
        if fired {
            self.fire(from, ni);
        }
        if let Some((to, ni)) = to {
            let mut fired = false;
            self.ranks.with_nic(to, ni, &mut |nic| fired = nic.has_fired());
            self.wake(to, now);
            if fired {
                self.fire(to, ni);
            }
        }
    }

    fn fire(&mut self, rank: u32, ni: u32) {
        loop {
            let mut fired = None;
            self.ranks.with_nic(rank, ni, &mut |nic| {
                // A simulated NIC has no grants.
                fired = nic.triggered().next_fired(&mut NoMemory, u64::from(rank) + 1).unwrap_or(None);
                if let Some(fired) = &fired {
                    nic.triggered().finish_fired(fired.index);
                }
            });
            let now = self.clocks[rank as usize];
            self.wake(rank, now);
            let Some(fired) = fired else { return };
            let mut payload = Vec::new();
            if fired.command.has_payload() {
                let command = &fired.command;
                if self.ranks.gather(rank, ni, &command.source, command.length, &mut payload).is_err() {
                    continue;
                }
            }
            self.start(rank, ni, &fired.command, &payload);
        }
    }
}

/// Compiles a C program for a test. `None`: no library to run it (run `make build`, or set SELVEDGE_PREFIX).
fn program(folder: &std::path::Path, text: &str) -> Option<std::path::PathBuf> {
    let workspace = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let prefix = std::env::var_os("SELVEDGE_PREFIX").map_or_else(|| workspace.join("build"), Into::into);
    let library = prefix.join("lib");
    if !library.join(super::PRELOAD).exists() {
        return None;
    }
    let (source, made) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, text).expect("written");
    let status = std::process::Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()))
        .args(["-std=gnu11", "-O1", "-w", "-pthread", "-I"])
        .arg(workspace.join("include"))
        .arg(&source)
        .arg("-o")
        .arg(&made)
        .arg("-L")
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-lportals")
        .status()
        .expect("a compiler");
    assert!(status.success());
    Some(made)
}

/// Runs a C program whose exit code is the number of the failed check.
fn run_text(ranks: u32, keep_going: bool, text: &str) -> Option<Outcome> {
    let folder = tempfile::tempdir().expect("a folder");
    let made = program(folder.path(), text)?;
    let costs = selvedge_sim_protocol::Costs {
        call_ps: 50_000,
        poll_ps: 10_000,
        clock_ps: 20_000,
        compute_ppm: 0,
        copy_ps_per_kib: 0,
        ..selvedge_sim_protocol::Costs::default()
    };
    Some(run(Launch { ranks, command: vec![made.into()], costs, keep_going, ..Launch::default() }))
}

const CLOCKS: &str = r#"
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
#include <poll.h>
#include <sched.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/resource.h>
#include <sys/select.h>
static long long ns(clockid_t c) { struct timespec t; clock_gettime(c, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
int main(void)
{
    if (time(NULL) != 946684800) return 1;
    long long a = ns(CLOCK_MONOTONIC), b = ns(CLOCK_MONOTONIC);
    if (b - a != 20) return 2; /* what a reading costs */
    sleep(3);
    struct timeval tv; gettimeofday(&tv, NULL);
    if (tv.tv_sec != 946684803) return 3;
    usleep(250000);
    struct timespec half = {0, 500000000}; nanosleep(&half, NULL);
    poll(NULL, 0, 250);
    struct timeval second = {1, 0}; select(0, NULL, NULL, NULL, &second);
    if (time(NULL) != 946684805) return 4;
    struct timespec until = {946684900, 0};
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
    if (time(NULL) != 946684900) return 5;
    if (clock() > 1000 || ns(CLOCK_PROCESS_CPUTIME_ID) > 1000000) return 6; /* it slept */
    struct rusage used; getrusage(RUSAGE_SELF, &used);
    if (used.ru_utime.tv_sec || used.ru_utime.tv_usec > 1000) return 7;
    struct timespec got; if (timespec_get(&got, TIME_UTC) != TIME_UTC || got.tv_sec != 946684900) return 8;
    struct timespec wrong = {0, 1000000000}; if (nanosleep(&wrong, NULL) != -1) return 9;
#ifdef __x86_64__
    unsigned long long c = __builtin_ia32_rdtsc(); sleep(2); unsigned x; c = __builtin_ia32_rdtscp(&x) - c;
    if (c < 2000000000ull || c > 2000001000ull) return 10;
#endif
    long long before = ns(CLOCK_MONOTONIC);
    for (int i = 0; i < 100; i++) sched_yield();
    if (ns(CLOCK_MONOTONIC) <= before) return 11;
    return 0;
}
"#;

#[test]
fn clocks_and_sleeps_are_virtual() {
    let Some(ended) = run_text(2, false, CLOCKS) else { return };
    assert_eq!((ended.code, ended.stuck), (0, false), "{:?}", ended.codes);
    assert!(ended.time > Time::from_ns(102_000_000_000), "{:?}", ended.time);
    let again = run_text(2, false, CLOCKS).expect("as before");
    assert_eq!((ended.hash, ended.turns, ended.time), (again.hash, again.turns, again.time));
}

/// Shells and wrappers: children of a rank, and a program that it executes in its own place, run normally.
#[test]
fn a_rank_may_start_other_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    if program(folder.path(), "int main(void) { return 0; }").is_none() {
        return;
    }
    let command = ["sh", "-c", "date >&2; exec env sh -c true"].map(Into::into).to_vec();
    let ended = run(Launch { ranks: 2, command, ..Launch::default() });
    assert_eq!((ended.code, ended.stuck), (0, false), "{:?}", ended.codes);
}

#[test]
fn ranks_print_into_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    if program(folder.path(), "int main(void) { return 0; }").is_none() {
        return;
    }
    let path = folder.path().join("printed");
    let file = std::fs::File::create(&path).expect("a file");
    let command = ["sh", "-c", "echo rank $SELVEDGE_RANK"].map(Into::into).to_vec();
    let ended = run(Launch { ranks: 2, command, output: Some(file.into()), ..Launch::default() });
    assert_eq!(ended.code, 0, "{:?}", ended.codes);
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "rank 0\nrank 1\n");
}

/// Rank 1 only polls its memory; rank 0 waits, then puts 42 there.
fn program_that_polls_for_a_put(how_rank_1_polls: &str, how_rank_0_waits: &str) -> String {
    let text = r#"
#include <portals4.h>
#include <selvedge.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static long long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
int main(void)
{
    ptl_handle_ni_t ni; ptl_handle_md_t md; ptl_handle_me_t me; ptl_pt_index_t pt; ptl_handle_ct_t ct;
    static volatile long cell, source = 42;
    int rank = atoi(getenv("SELVEDGE_RANK"));
    if (selvedge_init() || PtlInit()) return 1;
    if (PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, (ptl_pid_t)rank, NULL, NULL, &ni)) return 5;
    if (PtlPTAlloc(ni, 0, PTL_EQ_NONE, 3, &pt) || PtlCTAlloc(ni, &ct)) return 2;
    ptl_me_t entry = {.start = (void *)&cell, .length = 8, .ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY,
                      .options = PTL_ME_OP_PUT, .match_id.phys = {PTL_NID_ANY, PTL_PID_ANY}};
    if (PtlMEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &me)) return 3;
    selvedge_barrier();
    if (rank == 1) { LOOKS }
    WAITS
    ptl_md_t whole = {.start = (void *)&source, .length = 8, .options = PTL_MD_EVENT_CT_ACK, .eq_handle = PTL_EQ_NONE, .ct_handle = ct};
    ptl_process_t to = {.phys = {0, 1}};
    ptl_ct_event_t event;
    if (PtlMDBind(ni, &whole, &md) || PtlPut(md, 0, 8, PTL_CT_ACK_REQ, to, pt, 0, 0, NULL, 0)) return 4;
    return PtlCTWait(ct, 1, &event) || event.success != 1;
}
"#;
    text.replace("LOOKS", how_rank_1_polls).replace("WAITS", how_rank_0_waits)
}

/// Rank 1 reads the clock, and makes no other call.
#[test]
fn reading_the_clock_lets_other_ranks_run() {
    let polls = r#"
        long long began = now(), until = began + 30000000;
        while (cell != 42)
            if (now() > until) return 8;
        long long took = now() - began;
        return took > 9000000 && took < 11000000 ? 0 : 9; /* it is seen when it comes */
"#;
    let Some(ended) = run_text(2, false, &program_that_polls_for_a_put(polls, "usleep(10000);")) else { return };
    assert_eq!((ended.code, ended.stuck), (0, false), "{:?}", ended.codes);
}

/// Program loaders read the processor's counter. The rank's own counter is virtual before, between and after.
#[test]
fn programs_that_a_rank_starts_have_the_processors_counter() {
    let text = r#"
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
static int is_virtual(void)
{
#ifdef __x86_64__
    unsigned long long before = __builtin_ia32_rdtsc();
    sleep(7);
    unsigned long long passed = __builtin_ia32_rdtsc() - before;
    return passed >= 7000000000ull && passed < 7000001000ull;
#else
    return 1;
#endif
}
int main(int argc, char **argv)
{
    char *words[] = {"true", NULL}, line[8];
    int status;
    pid_t child;
    if (argc > 1) return is_virtual() ? 0 : 9; /* executed in the place of itself */
    if (!is_virtual()) return 1;
    if (system("true") != 0 || !is_virtual()) return 2;
    if (posix_spawnp(&child, "true", NULL, NULL, words, environ) != 0) return 3;
    if (waitpid(child, &status, 0) != child || status != 0 || !is_virtual()) return 4;
    FILE *pipe = popen("echo yes", "r");
    if (!pipe || !fgets(line, sizeof line, pipe) || pclose(pipe) != 0 || !is_virtual()) return 5;
    if ((child = vfork()) == 0) { execvp("true", words); _exit(1); }
    if (waitpid(child, &status, 0) != child || status != 0 || !is_virtual()) return 6;
    if ((child = fork()) == 0) { execlp("true", "true", NULL); _exit(1); }
    if (waitpid(child, &status, 0) != child || status != 0 || !is_virtual()) return 7;
    execv("/nowhere/to/be/found", words);
    if (!is_virtual()) return 8;
    char *again[] = {argv[0], "again", NULL};
    execv(argv[0], again);
    return 10;
}
"#;
    let Some(ended) = run_text(1, false, text) else { return };
    assert_eq!((ended.code, ended.stuck), (0, false), "{:?}", ended.codes);
}

#[test]
fn threads_of_a_rank_wait_for_each_other() {
    let text = r#"
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int step;
static void *other(void *unused)
{
    sleep(5);
    pthread_mutex_lock(&lock); step = 1; pthread_cond_signal(&changed); pthread_mutex_unlock(&lock);
    sleep(5);
    return NULL;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    sleep(1);
    pthread_mutex_lock(&lock);
    while (!step) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    if (time(NULL) != 946684805) return 1;
    pthread_join(thread, NULL);
    return time(NULL) == 946684810 ? 0 : 2;
}
"#;
    let Some(ended) = run_text(2, false, text) else { return };
    assert_eq!((ended.code, ended.stuck), (0, false), "{:?}", ended.codes);
}

#[test]
fn a_rank_that_cannot_continue_fails_alone() {
    let text = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
    switch (atoi(getenv("SELVEDGE_RANK"))) {
    case 0: { int ends[2]; char byte; pipe(ends); read(ends[0], &byte, 1); return 0; }
    case 1: abort();
    case 2: { int status; if (!fork()) _exit(time(NULL) > 1000000000 ? 5 : 6); wait(&status); return WEXITSTATUS(status); }
    default: return 0;
    }
}
"#;
    let Some(ended) = run_text(4, true, text) else { return };
    assert_eq!(ended.codes, [1, 134, 5, 0], "blocks outside; aborts; forks a child with real clocks; does nothing");
    assert_eq!(ended.code, 1, "that of the first that failed");
    assert!(ended.notes.iter().any(|note| note.starts_with("rank 2 started")), "{:?}", ended.notes);
    assert!(ended.notes.iter().any(|note| note.starts_with("rank 3 ended without")), "{:?}", ended.notes);
}

#[test]
fn a_put_to_memory_that_is_only_polled_is_seen() {
    let polls = "while (cell != 42) ; /* no call */ return 0;";
    let Some(ended) = run_text(2, false, &program_that_polls_for_a_put(polls, "sleep(1);")) else { return };
    assert_eq!((ended.code, ended.stuck), (0, false), "{:?}", ended.codes);
    assert!(
        ended.notes.iter().any(|note| note.starts_with("rank 1 used the processor in a loop")),
        "{:?}",
        ended.notes
    );
}

/// `SELVEDGE_TWIN="4 program args"` runs that program, to look at the result.
#[test]
fn runs_the_program_of_the_environment() {
    let Ok(line) = std::env::var("SELVEDGE_TWIN") else { return };
    let mut words = line.split_ascii_whitespace();
    let ranks = words.next().and_then(|word| word.parse().ok()).expect("ranks");
    let command = words.map(Into::into).collect();
    let costs = selvedge_sim_protocol::Costs {
        call_ps: 50_000,
        poll_ps: 10_000,
        clock_ps: 20_000,
        compute_ppm: 0,
        copy_ps_per_kib: 0,
        ..selvedge_sim_protocol::Costs::default()
    };
    let start = std::time::Instant::now();
    let tag_output = std::env::var_os("SELVEDGE_TWIN_TAG").is_some();
    let ended = run(Launch { ranks, command, costs, tag_output, ..Launch::default() });
    eprintln!(
        "twin: code {}, codes {:?}, stuck {}, {} turns, time {:?}, hash {:016x}, {:.0} ns for a turn (least {}), {} ms, {:?}",
        ended.code,
        ended.codes,
        ended.stuck,
        ended.turns,
        ended.time,
        ended.hash,
        ended.overhead.wall_ns as f64 / ended.overhead.turns as f64,
        ended.overhead.least_ns,
        start.elapsed().as_millis(),
        ended.notes,
    );
}
