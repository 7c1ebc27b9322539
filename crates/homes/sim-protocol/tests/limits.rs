// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits with a limit, and timers, seen from the simulator's end: the requests of a rank end at its next timer, an event
//! that a thread of the rank causes comes before the limit, and events from outside are looked for.

mod common;

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use common::{await_request, exit_code, fork, has_ended, open};
use selvedge_sim_protocol::{Cause, Costs, LimitedWait, NEVER, RankEnd, Request, SimEnd, Watched};

fn page(folder: &std::path::Path) -> (std::path::PathBuf, SimEnd) {
    let path = folder.join("0.clock");
    let end = SimEnd::create(&path, &Costs::default()).expect("a page");
    (path, end)
}

fn wait_for(end: &RankEnd, until_ps: u64, cause: Cause, look: &mut dyn FnMut(u32) -> bool) -> bool {
    LimitedWait { end, until_ps, cause, signals: 0, watched: Watched::UNKNOWN }.run(look)
}

/// Gives every wait its time, until the process has ended. Returns the requests.
fn serve(end: &mut SimEnd, child: libc::pid_t) -> Vec<Request> {
    let mut requests = Vec::new();
    while !has_ended(child) {
        if !end.has_request() {
            std::thread::yield_now();
            continue;
        }
        let asked = end.request().expect("a valid one");
        match asked {
            Request::Sleep { until_ps } | Request::Wait { until_ps } | Request::Poll { until_ps, .. } => {
                end.give(until_ps)
            }
            _ => end.give(end.now_ps().expect("a time")),
        }
        requests.push(asked);
    }
    requests
}

#[test]
fn requests_end_at_the_next_timer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, mut end) = page(folder.path());
    let child = fork(|| {
        let rank = open(&path);
        rank.set_alarm(5000);
        assert!(rank.has_alarm() && !rank.is_alarm_due());
        rank.wait(NEVER, rank.changes());
        // No library expires timers in this process, so none is armed any more.
        assert!(!rank.has_alarm() && rank.now_ps() == 5000);
        rank.set_alarm(6000);
        rank.found_nothing();
        rank.set_alarm(7000);
        rank.sleep(9000);
        assert_eq!(rank.now_ps(), 9000);
        rank.set_alarm(9500);
        assert!(rank.start_and_wait(0, 0, &[], &[]));
        0
    });
    let first = [
        Request::Wait { until_ps: 5000 },
        Request::Poll { until_ps: 6000, in_call: false },
        Request::Sleep { until_ps: 7000 },
        Request::Sleep { until_ps: 9000 },
    ];
    let requests = serve(&mut end, child);
    assert_eq!(&requests[..4], first);
    assert!(matches!(requests[4], Request::Start { waits: false, .. }), "it waits by a request of its own");
    assert_eq!(exit_code(child), 0);
}

#[test]
fn a_wait_ends_with_its_event_or_its_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, mut end) = page(folder.path());
    let child = fork(|| {
        let rank = open(&path);
        assert!(wait_for(&rank, 9000, Cause::Inside, &mut |nap| nap == 0), "at once, without a request");
        assert!(!wait_for(&rank, 9000, Cause::Time, &mut |_| false));
        assert!(!wait_for(&rank, 9000, Cause::Inside, &mut |_| false), "its time has passed");
        rank.set_alarm(20_000);
        assert!(wait_for(&rank, NEVER, Cause::Inside, &mut |_| rank.now_ps() >= 20_000));
        assert_eq!(rank.now_ps(), 20_000);
        0
    });
    let requests = serve(&mut end, child);
    assert_eq!(requests, [Request::Sleep { until_ps: 9000 }, Request::Sleep { until_ps: 20_000 }]);
    assert_eq!(exit_code(child), 0);
}

/// The number of looks grows with the logarithm of the wait.
#[test]
fn events_from_outside_are_looked_for() {
    const S: u64 = 1_000_000_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    let (path, mut end) = page(folder.path());
    let child = fork(|| i32::from(wait_for(&open(&path), 100 * S, Cause::Outside, &mut |_| false)));
    let requests = serve(&mut end, child);
    assert_eq!(requests.first(), Some(&Request::Sleep { until_ps: 1_000_000 }));
    assert_eq!(requests.last(), Some(&Request::Sleep { until_ps: 100 * S }));
    assert!((20..200).contains(&requests.len()), "{} requests", requests.len());
    assert_eq!(exit_code(child), 0);
}

/// Threads hand a token round, each waiting for it with a limit; whoever has it sleeps. No limit passes, although each is
/// shorter than the round.
#[test]
fn an_event_of_another_thread_comes_before_the_limit() {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 100;
    let folder = tempfile::tempdir().expect("a folder");
    let (path, mut end) = page(folder.path());
    let child = fork(|| {
        let rank: &RankEnd = Box::leak(Box::new(open(&path)));
        let token: &AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        let threads: Vec<_> = (0..THREADS)
            .map(|own| {
                std::thread::spawn(move || {
                    (0..ROUNDS).all(|_| {
                        let mut has_come = |nap: u32| {
                            if token.load(SeqCst) % THREADS != own && nap > 0 {
                                let word = token.load(SeqCst);
                                if word % THREADS != own {
                                    selvedge_sim_protocol::system::sleep_on_for(token, word, nap);
                                }
                            }
                            token.load(SeqCst) % THREADS == own
                        };
                        let limit = rank.now_ps() + u64::from(THREADS) * 1000;
                        if !wait_for(rank, limit, Cause::Inside, &mut has_come) {
                            return false;
                        }
                        rank.sleep(rank.now_ps() + 1000);
                        token.fetch_add(1, SeqCst);
                        selvedge_sim_protocol::system::wake(token, i32::MAX);
                        true
                    })
                })
            })
            .collect();
        i32::from(!threads.into_iter().all(|thread| thread.join().unwrap_or(false)))
    });
    let requests = serve(&mut end, child);
    assert_eq!(exit_code(child), 0, "a limit passed");
    assert_eq!(end.now_ps(), Ok(u64::from(THREADS * ROUNDS) * 1000), "{} requests", requests.len());
}

/// The first request of a rank with threads whose limits are far, beside one that waits for its NIC, has no limit.
#[test]
fn far_limits_do_not_count_beside_a_wait_for_the_nic() {
    const HOUR: u64 = 3600 * 1_000_000_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    let (path, mut end) = page(folder.path());
    let child = fork(|| {
        let rank: &RankEnd = Box::leak(Box::new(open(&path)));
        std::thread::spawn(move || {
            wait_for(rank, HOUR, Cause::Outside, &mut |nap| {
                std::thread::sleep(std::time::Duration::from_nanos(nap.into()));
                false
            })
        });
        rank.wait(NEVER, rank.changes());
        0
    });
    assert_eq!(await_request(&end), Request::Wait { until_ps: NEVER });
    end.give(1000);
    assert_eq!(exit_code(child), 0);
}

/// As above, with a pipe for each thread. A thread that is about to let time pass looks at the pipes of the others.
#[test]
fn an_event_in_a_pipe_comes_before_the_limit() {
    const THREADS: usize = 3;
    const ROUNDS: usize = 200;
    let folder = tempfile::tempdir().expect("a folder");
    let (path, mut end) = page(folder.path());
    let child = fork(|| {
        let rank: &RankEnd = Box::leak(Box::new(open(&path)));
        let pipes: [[i32; 2]; THREADS] = std::array::from_fn(|_| {
            let mut ends = [0; 2];
            // SAFETY: the call fills two descriptors.
            assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK) }, 0);
            ends
        });
        // SAFETY: each call reads or writes one byte of an array of one.
        let put = move |to: usize| unsafe { libc::write(pipes[to][1], [1u8].as_ptr().cast(), 1) };
        // SAFETY: as above.
        let take = move |from: usize| unsafe { libc::read(pipes[from][0], [0u8].as_mut_ptr().cast(), 1) == 1 };
        put(0);
        let threads: Vec<_> = (0..THREADS)
            .map(|own| {
                std::thread::spawn(move || {
                    let watched = Watched::of([(pipes[own][0], libc::POLLIN)].into_iter());
                    (0..ROUNDS).all(|_| {
                        let until_ps = rank.now_ps() + THREADS as u64 * 1000;
                        let wait = LimitedWait { end: rank, until_ps, cause: Cause::Outside, signals: 0, watched };
                        let has_come = wait.run(&mut |_| take(own));
                        rank.sleep(rank.now_ps() + 1000);
                        put((own + 1) % THREADS);
                        has_come
                    })
                })
            })
            .collect();
        i32::from(!threads.into_iter().all(|thread| thread.join().unwrap_or(false)))
    });
    serve(&mut end, child);
    assert_eq!(exit_code(child), 0, "a limit passed");
    assert_eq!(end.now_ps(), Ok((THREADS * ROUNDS) as u64 * 1000));
}
