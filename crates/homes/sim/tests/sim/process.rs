// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of [`Process`], one by one.

use std::path::Path;
use std::sync::Arc;

use selvedge_sim::machine::{Machine, load};
use selvedge_sim::node::{End, Options, Simulation};
use selvedge_sim::program::collectives::Sum;
use selvedge_sim::program::{ANY, Needs, Process, Tasks, Trigger};
use selvedge_sim::time::Time;

fn machine() -> Arc<Machine> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../machines/cluster.toml"));
    let text = std::fs::read_to_string(path).unwrap();
    Arc::new(load::from_text(path, &text, &[]).unwrap())
}

fn run<F: Future<Output = ()> + 'static>(ranks: u32, needs: Needs, body: impl Fn(Process) -> F) {
    let machine = machine();
    let tasks = Tasks::new(ranks, &machine, &needs, |process| {
        let body = body(process);
        Box::pin(async move {
            body.await;
            0
        })
    });
    let mut simulation = Simulation::new(machine.clone(), tasks, Options::default()).unwrap();
    assert_eq!(simulation.run(&mut |_| true).end, End::Completed);
}

#[test]
fn atomics_give_back_what_was() {
    run(5, Needs::default(), |process| async move {
        let rank = u64::from(process.rank());
        let before = process.fetch_add(0, 8, 1).await;
        assert!(before < 5);
        process.add(0, 16, rank).await;
        process.barrier(0).await;
        if process.rank() == 0 {
            assert_eq!(process.word(8), 5);
            process.wait_word(16, 10).await;
            assert_eq!(process.swap(1, 0, 7).await, 0);
            assert_eq!(process.compare_swap(1, 0, 6, 9).await, 7, "it was not what was expected");
            assert_eq!(process.compare_swap(1, 0, 7, 9).await, 7);
        }
        process.barrier(0).await;
        if process.rank() == 1 {
            assert_eq!(process.word(0), 9);
        }
    });
}

#[test]
fn a_probe_sees_what_a_receive_would_take() {
    let needs = Needs { eager_bytes_max: 100, ..Needs::default() };
    run(2, needs, |process| async move {
        if process.rank() == 0 {
            process.send(1, 3, &[1; 8]).await;
            let long = process.isend(1, 4, &[2; 1000]).await;
            process.send(1, 5, &[]).await;
            process.wait(long).await;
        } else {
            assert_eq!(process.probe(ANY, 9).await, None);
            while process.probe(0, 5).await.is_none() {}
            assert_eq!(process.probe(ANY, ANY).await, Some((0, 3, 8)), "the oldest");
            assert_eq!(process.probe(0, 4).await, Some((0, 4, 1000)));
            let message = process.recv(ANY, ANY, 8).await;
            assert_eq!((message.tag, &message.bytes[..]), (3, &[1; 8][..]));
            assert_eq!(process.recv(0, 4, 1000).await.bytes[..], [2; 1000][..]);
            assert_eq!(process.recv(0, 5, 8).await.bytes[..], [0u8; 0][..]);
        }
    });
}

#[test]
fn empty_messages_take_nobody_elses_bytes() {
    run(2, Needs::default(), |process| async move {
        if process.rank() == 0 {
            process.send(1, 0, &[]).await;
            process.send(1, 1, &[7; 16]).await;
            process.send(1, 0, &[]).await;
            process.send(1, 1, &[8; 16]).await;
        } else {
            process.compute(Time::from_ns(100_000)).await;
            for value in [7, 8] {
                assert_eq!(process.recv(0, 0, 16).await.bytes[..], [0u8; 0][..]);
                assert_eq!(process.recv(0, 1, 16).await.bytes[..], [value; 16][..]);
            }
        }
    });
}

#[test]
fn long_messages_that_are_fetched_together_keep_their_bytes() {
    let needs = Needs { eager_bytes_max: 0, ..Needs::default() };
    run(3, needs, |process| async move {
        let rank = process.rank();
        if rank == 0 {
            // The short message arrives first, although its receive was posted later.
            let long = process.irecv(1, 0, 100_000);
            let short = process.irecv(2, 0, 10);
            process.barrier(1).await;
            assert_eq!(process.wait(short).await.unwrap().bytes[..], [2; 10][..]);
            assert_eq!(process.wait(long).await.unwrap().bytes[..], vec![1; 100_000][..]);
        } else {
            process.barrier(1).await;
            let bytes = if rank == 1 { 100_000 } else { 10 };
            process.send(0, 0, &vec![rank as u8; bytes]).await;
        }
    });
}

#[test]
fn a_synchronous_send_waits_for_its_receive() {
    run(2, Needs::default(), |process| async move {
        let late = Time::from_ns(50_000);
        if process.rank() == 0 {
            let eager = process.isend(1, 0, &[1]).await;
            process.wait(eager).await;
            assert!(process.now() < late);
            let request = process.issend(1, 1, &[]).await;
            assert!(process.test(request).await.is_none());
            process.wait(request).await;
            assert!(process.now() > late);
        } else {
            process.compute(late).await;
            process.recv(0, 0, 1).await;
            process.recv(0, 1, 1).await;
        }
    });
}

#[test]
fn a_message_is_truncated_to_its_receive() {
    for eager_bytes_max in [0, 1000] {
        let needs = Needs { eager_bytes_max, ..Needs::default() };
        run(2, needs, |process| async move {
            if process.rank() == 0 {
                process.send(1, 0, &[3; 40]).await;
                process.send(1, 0, &[4; 40]).await;
            } else {
                assert_eq!(process.recv(0, 0, 4).await.bytes[..], [3; 4][..]);
                assert_eq!(process.recv(0, 0, 100).await.bytes[..], [4; 40][..]);
            }
        });
    }
}

#[test]
fn wait_any_gives_the_first_request_that_is_done() {
    run(3, Needs::default(), |process| async move {
        if process.rank() == 0 {
            let both = [process.irecv(1, 0, 8), process.irecv(2, 0, 8)];
            let (at, message) = process.wait_any(&both).await;
            assert_eq!((at, message.unwrap().source), (1, 2));
            assert_eq!(process.wait(both[0]).await.unwrap().source, 1);
        } else {
            process.compute(Time::from_ns(if process.rank() == 1 { 90_000 } else { 10 })).await;
            process.send(0, 0, &[0; 8]).await;
        }
    });
}

#[test]
fn triggered_operations_follow_their_counter() {
    let needs = Needs { windows: 3, triggered: 4, ..Needs::default() };
    run(2, needs, |process| async move {
        if process.rank() == 0 {
            process.memory_mut()[64..72].copy_from_slice(&5u64.to_le_bytes());
            let twice = Trigger { window: 0, count: 2 };
            assert!(process.put_triggered(twice, 1, 0, 0, 64, 8));
            assert!(process.add_triggered(twice, 1, 1, 8, 64, 8));
            assert!(process.get_triggered(twice, 1, 16, 128, 8, 2));
            assert!(process.count_triggered(twice, 1, 1));
            process.count_up(0, 1);
            process.compute(Time::from_ns(20_000)).await;
            assert_eq!(process.count(1), 0, "once is not enough");
            process.count_up(0, 1);
            process.wait_count(2, 1).await;
            assert_eq!((process.word(128), process.count(1)), (9, 1));
        } else {
            process.memory_mut()[16..24].copy_from_slice(&9u64.to_le_bytes());
            process.wait_count(0, 1).await;
            process.wait_count(1, 1).await;
            assert_eq!((process.word(0), process.word(8)), (5, 5));
            assert!(process.now() > Time::from_ns(20_000));
        }
    });
}

#[test]
fn sums_are_right_for_any_number_of_ranks() {
    for ranks in 1..=17 {
        for algorithm in [Sum::RecursiveDoubling, Sum::Ring, Sum::Binomial, Sum::Rabenseifner] {
            for words in [1usize, 3, 40] {
                let needs = Needs { eager_bytes_max: 64, ..Needs::default() };
                run(ranks, needs, move |process| async move {
                    let mut data: Vec<u8> =
                        (0..words as u64).flat_map(|word| (word + u64::from(process.rank())).to_le_bytes()).collect();
                    process.allreduce(algorithm, 0, &mut data).await;
                    let ranks = u64::from(ranks);
                    let expected: Vec<u8> = (0..words as u64)
                        .flat_map(|word| (word * ranks + ranks * (ranks - 1) / 2).to_le_bytes())
                        .collect();
                    assert_eq!(data, expected, "{algorithm:?} of {words} words, {ranks} ranks");
                });
            }
        }
    }
}

#[test]
fn a_short_message_does_not_overtake_a_long_one() {
    run(2, Needs::default(), |process| async move {
        let sizes = [3000, 8, 5000, 0, 64, 1000];
        if process.rank() == 0 {
            for bytes in sizes {
                process.send(1, 0, &vec![1; bytes]).await;
            }
        } else {
            for bytes in sizes {
                assert_eq!(process.recv(0, 0, 8000).await.bytes.len(), bytes);
            }
        }
    });
}
