// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both ends of the protocol, with the rank in a forked process: requests arrive as sent, clocks are the simulator's,
//! an invalid request is an error, and children do not take part in the simulation.

mod common;

use std::path::Path;
use std::time::Instant;

use common::{await_request, exit_code, fork, has_ended, open};
use selvedge_sim_protocol::{Costs, InvalidRequest, NEVER, PAYLOAD_BYTES_MAX, Published, RankEnd, Request, SimEnd};

const COSTS: Costs = Costs {
    call_ps: 100,
    poll_ps: 10,
    clock_ps: 1000,
    compute_ppm: 0,
    copy_ps_per_kib: 0,
    tlb_entries: 0,
    tlb_ways: 0,
    lock_waiters: 0,
    units: 0,
    memory_ps: 0,
};

#[test]
fn requests_arrive_and_time_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("0.clock");
    let mut end = SimEnd::create(&path, &COSTS).expect("a page");
    let long: Vec<u8> = (0..300_000u32).map(|byte| byte as u8).collect();
    let child = fork(|| {
        let rank = open(&path);
        rank.charge_call();
        rank.charge_poll();
        assert_eq!(rank.now_ps(), 110);
        assert!(rank.start(3, 7, &[1, 2, 3], b"short"));
        if rank.now_ps() != 5000 || rank.read_clock() != 6000 {
            return 1;
        }
        rank.wait(90_000, rank.changes());
        rank.found_nothing();
        rank.sleep(80_000);
        // Of 80,000 ps the rank was idle from 6,000 on.
        if rank.busy_ps() != 7000 {
            return 2;
        }
        if !rank.start(3, 7, &[9; 256], &long) || rank.start(3, 7, &[9; 257], &[]) {
            return 3;
        }
        rank.announce(3, 7, b"/tmp/7.3.nic");
        rank.announce(4, 8, b"/tmp/8.4.nic");
        rank.withdraw(4, 8);
        rank.yield_turn();
        42
    });
    let Request::Start { ni: 3, origin: 7, command, payload, waits: false, or_refuse: false } = await_request(&end)
    else {
        panic!("a start")
    };
    assert_eq!((&command[..4], payload.as_slice()), (&[1u8, 2, 3, 0][..], &b"short"[..]));
    assert_eq!(end.now_ps(), Ok(110));
    end.give(5000);
    assert_eq!(await_request(&end), Request::Wait { until_ps: 90_000 });
    assert_eq!(end.now_ps(), Ok(6000));
    end.give(20_000);
    assert_eq!(await_request(&end), Request::Poll { until_ps: NEVER, in_call: false });
    end.give(30_000);
    assert_eq!(await_request(&end), Request::Sleep { until_ps: 80_000 });
    end.give(80_000);
    let Request::Start { payload, .. } = await_request(&end) else { panic!("a start") };
    assert_eq!(payload, long);
    end.give(90_000);
    assert_eq!(await_request(&end), Request::Sleep { until_ps: 90_000 });
    let nics = end.nics();
    assert_eq!(nics.len(), 1);
    assert_eq!((nics[0].ni, nics[0].id, nics[0].path.as_path()), (3, 7, Path::new("/tmp/7.3.nic")));
    end.give(90_000);
    assert_eq!(exit_code(child), 42);
    assert_eq!(end.counts(), (6, 0));
    drop(end);
    assert!(std::fs::read_dir(folder.path()).expect("a folder").next().is_none(), "dropping the end removes its files");
}

#[test]
fn a_message_in_a_ring_is_published_and_paid_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("0.clock");
    let costs = Costs { copy_ps_per_kib: 2048, ..COSTS };
    let mut end = SimEnd::create(&path, &costs).expect("a page");
    let message = Published { ring: 5, number: 1 << 40, header: u64::MAX, bytes: 300 };
    let child = fork(|| {
        let rank = open(&path);
        if !rank.shares_memory(8, 70) || rank.shares_memory(8, 71) {
            return 1;
        }
        rank.publish(8, 70, &message);
        let before = rank.now_ps();
        rank.charge_copy(512);
        if rank.now_ps() == before + 1024 { 42 } else { 2 }
    });
    assert_eq!(await_request(&end), Request::SharesMemory { ni: 8, target: 70 });
    end.reply(1);
    end.give(10);
    assert_eq!(await_request(&end), Request::SharesMemory { ni: 8, target: 71 });
    end.reply(0);
    end.give(20);
    assert_eq!(await_request(&end), Request::Publish { ni: 8, target: 70, message });
    end.give(30);
    assert_eq!(exit_code(child), 42);
}

/// A program that finds something after long pauses polls again at once. Then other ranks still run.
#[test]
fn a_program_that_finds_something_polls_again_soon() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("0.clock");
    let mut end = SimEnd::create(&path, &COSTS).expect("a page");
    let child = fork(|| {
        let rank = open(&path);
        for _ in 0..8 {
            rank.found_nothing();
        }
        rank.found_something();
        rank.found_nothing();
        rank.found_nothing();
        for _ in 0..300 {
            rank.found_something();
        }
        0
    });
    for turn in 0..8 {
        assert_eq!(await_request(&end), Request::Poll { until_ps: NEVER, in_call: false }, "turn {turn}");
        end.give(1000);
    }
    assert_eq!(await_request(&end), Request::Wait { until_ps: 1000 + COSTS.poll_ps + 100_000 });
    end.give(2000);
    assert_eq!(await_request(&end), Request::Poll { until_ps: NEVER, in_call: false });
    end.give(3000);
    let Request::Sleep { until_ps } = await_request(&end) else { panic!("other ranks run") };
    assert_eq!(end.now_ps(), Ok(until_ps));
    end.give(until_ps);
    assert_eq!(exit_code(child), 0);
}

#[test]
fn invalid_requests_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("0.clock");
    let mut end = SimEnd::create(&path, &COSTS).expect("a page");
    // Writes words of the page as a broken rank might.
    let write = |at: u64, bytes: &[u8]| {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the page");
        file.write_all_at(bytes, at).expect("written");
    };
    let request = 384;
    write(request, &77u32.to_le_bytes());
    assert_eq!(end.request(), Err(InvalidRequest::Kind(77)));
    write(request, &1u32.to_le_bytes());
    write(request + 24, &u64::MAX.to_le_bytes());
    assert_eq!(end.request(), Err(InvalidRequest::Payload { bytes: u64::MAX }));
    write(request + 24, &PAYLOAD_BYTES_MAX.to_le_bytes());
    assert_eq!(end.request(), Err(InvalidRequest::Short { bytes: PAYLOAD_BYTES_MAX }));
    end.give(1000);
    write(256, &999u64.to_le_bytes());
    assert_eq!(end.now_ps(), Err(InvalidRequest::Clock { now_ps: 999 }));
    write(256, &(u64::MAX - 5).to_le_bytes());
    assert!(end.now_ps().is_err());
    // A NIC whose path length is larger than the slot.
    write(768, &1u32.to_le_bytes());
    write(768 + 16, &u64::MAX.to_le_bytes());
    assert_eq!(end.nics().len(), 1);
}

#[test]
fn threads_of_a_rank_make_requests_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("0.clock");
    let mut end = SimEnd::create(&path, &COSTS).expect("a page");
    const EACH: u64 = 200;
    let child = fork(|| {
        let rank = &*Box::leak(Box::new(open(&path)));
        let threads: Vec<_> = (0..4)
            .map(|number| {
                std::thread::spawn(move || {
                    (0..EACH).all(|_| rank.start(number, 0, &[number as u8; 64], &[number as u8]))
                })
            })
            .collect();
        let fine = threads.into_iter().all(|thread| thread.join().unwrap_or(false));
        rank.sleep(1 << 40);
        i32::from(!fine)
    });
    let mut seen = [0u64; 4];
    for now in 1.. {
        match await_request(&end) {
            Request::Start { ni, command, payload, .. } => {
                assert_eq!((command[0], payload), (ni as u8, vec![ni as u8]), "of one thread");
                seen[ni as usize] += 1;
            }
            Request::Sleep { .. } => break,
            other => panic!("{other:?}"),
        }
        end.give(now);
    }
    assert_eq!(seen, [EACH; 4]);
    end.give(1 << 41);
    assert_eq!(exit_code(child), 0);
}

/// The thread with the earliest wake-up time decides how far time advances, even before its request.
#[test]
fn no_thread_misses_its_time() {
    const WAITING: usize = 12;
    const NAPS: u64 = 400;
    const FAR: u64 = 1 << 40;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("0.clock");
    let mut end = SimEnd::create(&path, &COSTS).expect("a page");
    let child = fork(|| {
        let rank = &*Box::leak(Box::new(open(&path)));
        let waiting: Vec<_> = (0..WAITING)
            .map(|_| {
                std::thread::spawn(move || {
                    while rank.now_ps() < FAR {
                        rank.wait(FAR, rank.changes());
                    }
                })
            })
            .collect();
        for _ in (0..NAPS).take_while(|_| rank.now_ps() < FAR) {
            rank.sleep(rank.now_ps() + 1000);
        }
        let fine = rank.now_ps() < FAR;
        i32::from(waiting.into_iter().any(|thread| thread.join().is_err()) || !fine)
    });
    loop {
        match await_request(&end) {
            Request::Wait { until_ps: FAR } => break,
            Request::Wait { until_ps } | Request::Sleep { until_ps } => end.give(until_ps),
            other => panic!("{other:?}"),
        }
    }
    // A thread that missed its time makes one more request.
    end.give(FAR);
    while !has_ended(child) {
        if end.has_request() {
            end.give(2 * FAR);
        }
        std::thread::yield_now();
    }
    assert_eq!(exit_code(child), 0, "time went past a sleep that had begun");
}

/// Prints the cost of a turn on this machine; asserts only that turns come.
#[test]
fn round_trip() {
    let folder = tempfile::tempdir().expect("a folder");
    for ranks in [1usize, 8] {
        const TURNS: usize = 20_000;
        let paths: Vec<_> = (0..ranks).map(|rank| folder.path().join(format!("{ranks}-{rank}.clock"))).collect();
        let mut ends: Vec<SimEnd> = paths.iter().map(|path| SimEnd::create(path, &COSTS).expect("a page")).collect();
        let children: Vec<_> = paths
            .iter()
            .map(|path| {
                fork(|| {
                    let rank = open(path);
                    for _ in 0..TURNS / ranks + 1 {
                        rank.start(0, 0, &[], &[]);
                    }
                    0
                })
            })
            .collect();
        ends.iter().for_each(|end| drop(await_request(end)));
        let start = Instant::now();
        for turn in 0..TURNS / ranks {
            for end in &mut ends {
                end.give(turn as u64);
                let mut looks = 0;
                while !end.has_request() {
                    looks += 1;
                    if looks > 20_000 {
                        await_request(end);
                    } else {
                        std::hint::spin_loop();
                    }
                }
            }
        }
        let each = start.elapsed().as_nanos() / TURNS as u128;
        println!("{ranks} ranks: {each} ns for a turn");
        ends.iter_mut().for_each(|end| end.give(TURNS as u64));
        assert!(children.into_iter().all(|child| exit_code(child) == 0));
    }
}

#[test]
fn a_poll_says_whether_its_thread_is_in_a_call_that_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("0.clock");
    let mut end = SimEnd::create(&path, &COSTS).expect("a page");
    let child = fork(|| {
        let rank: &RankEnd = Box::leak(Box::new(open(&path)));
        let enters = || (rank.enter_call(), std::thread::spawn(|| rank.enter_call()).join().is_ok_and(|enters| enters));
        rank.found_nothing();
        if enters() != (true, false) || rank.enter_call() {
            return 1;
        }
        rank.found_nothing();
        rank.leave_call();
        rank.found_nothing();
        0
    });
    for (turn, in_call) in (1..).zip([false, true, false]) {
        assert_eq!(await_request(&end), Request::Poll { until_ps: NEVER, in_call });
        end.give(turn * 1000);
    }
    assert_eq!(exit_code(child), 0);
}
