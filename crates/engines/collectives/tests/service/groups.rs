// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups of processes at nodes of one host and of a tree: every result against a sequential reduction, to the bit;
//! groups that form and end many times, several at once, of several jobs; refused requests.

mod common;

use common::{Choices, Job, jobs_shown, nodes, serve, settings, wait_for_no_groups, wait_for_nothing};
use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::message::Reduction;
use selvedge_nic::arithmetic::{Datatype, Operation};

#[test]
fn two_members_at_one_node_reduce() {
    let manager = serve(settings());
    let nodes = nodes(&manager, 1);
    let job = Job::begin(&manager, 1, &[0, 0]).expect("a share");
    job.works(1, 10, 2000);
    wait_for_no_groups(&nodes);
    drop(job);
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn members_at_a_tree_of_nodes_reduce_to_the_bit() {
    let manager = serve(settings());
    let nodes = nodes(&manager, 5);
    let job = Job::begin(&manager, 2, &[0, 1, 2, 3, 4]).expect("a share");
    let depths = job.processes[0].session.granted.trees[0].nodes().iter().filter(|node| node.parent.is_none());
    assert_eq!(depths.count(), 1, "one root");
    job.works(7, 20, 400);
    // Members in an order other than their hosts', and several on one.
    let mixed = Job::begin(&manager, 3, &[4, 1, 1, 0, 3, 2, 4]).expect("a share");
    mixed.works(7, 30, 300);
    assert_eq!(job.processes.iter().map(|process| process.refused()).sum::<u64>(), 0);
    drop((job, mixed));
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn groups_form_and_end_many_times() {
    let manager = serve(settings());
    let nodes = nodes(&manager, 3);
    let job = Job::begin(&manager, 4, &[0, 1, 2]).expect("a share");
    for round in 0..60 {
        // A number may be reused when its group has ended at all nodes.
        job.works(round, 40 + u64::from(round), 1 + u64::from(round) % 5);
    }
    wait_for_no_groups(&nodes);
    for _ in 0..3 {
        job.works(1, 50, 3);
        wait_for_no_groups(&nodes);
    }
    drop(job);
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn groups_of_two_jobs_at_once_do_not_meet() {
    let manager = serve(settings());
    let nodes = nodes(&manager, 3);
    let jobs: Vec<Job> = (0..2).map(|job| Job::begin(&manager, 10 + job, &[0, 1, 2]).expect("a share")).collect();
    assert_ne!(jobs[0].processes[0].session.granted.key, jobs[1].processes[0].session.granted.key);
    std::thread::scope(|scope| {
        for (nth, job) in jobs.iter().enumerate() {
            // The same numbers in both jobs.
            let handles: Vec<Vec<u64>> = (0..3).map(|number| job.group(number).expect("room")).collect();
            for (number, handles) in handles.into_iter().enumerate() {
                scope.spawn(move || {
                    let seed = 1000 * nth as u64 + number as u64;
                    assert!(job.operate(&handles, seed, 150).iter().all(Result::is_ok), "group {number} of job {nth}");
                    job.leave(&handles);
                });
            }
        }
    });
    wait_for_no_groups(&nodes);
    assert_eq!(jobs_shown(&manager).expect("it answers").len(), 2);
    drop(jobs);
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn what_is_refused_fails_clearly_and_others_go_on() {
    let manager = serve(settings());
    let nodes = nodes(&manager, 2);
    let good = Job::begin(&manager, 20, &[0, 1]).expect("a share");
    let mut bad = Job::begin(&manager, 21, &[0, 1]).expect("a share");
    let held = good.group(1).expect("room");
    std::thread::scope(|scope| {
        let operating = scope.spawn(|| good.operate(&held, 60, 1500));
        // An operation that is too long fails at all its members, and the group continues.
        let handles = bad.group(2).expect("room");
        let (_, bytes) = bad.processes[0].wait_ready(handles[0]).expect("it is ready");
        let long = Reduction::of_values(Operation::Sum, Datatype::Uint8, bytes + 1);
        let started: Vec<u64> = bad
            .processes
            .iter()
            .zip(&handles)
            .map(|(process, &handle)| process.start(handle, &long, &vec![1; bytes as usize + 1]).expect("a credit"))
            .collect();
        for ((process, &handle), number) in bad.processes.iter().zip(&handles).zip(started) {
            assert_eq!(process.wait(handle, number, 0), Err(Failure::TooLong));
        }
        assert_eq!(bad.operate(&handles, 61, 20), [Ok(()), Ok(())]);
        // Members that disagree on an operation.
        let mut choices = Choices(1);
        for (nth, (process, &handle)) in bad.processes.iter().zip(&handles).enumerate() {
            let operand = common::oracle::operand(&mut choices, Datatype::Double, 2);
            let operation = [Operation::Sum, Operation::Prod][nth];
            process.start(handle, &Reduction::of_values(operation, Datatype::Double, 16), &operand).expect("a credit");
        }
        for (process, &handle) in bad.processes.iter().zip(&handles) {
            assert_eq!(process.wait(handle, 21, 16), Err(Failure::OperationMismatch));
        }
        bad.leave(&handles);
        // A wrong key, and the number of another job or of none.
        let (job, key) = (bad.processes[0].session.granted.job, bad.processes[0].session.granted.key);
        let other = good.processes[0].session.granted.job;
        for (job, key) in [(job, key ^ 1), (other, key), (job + 100, key)] {
            for process in &mut bad.processes {
                (process.session.granted.job, process.session.granted.key) = (job, key);
            }
            assert_eq!(bad.group(1), Err(Failure::NoJob), "job {job}");
        }
        for process in &mut bad.processes {
            (process.session.granted.job, process.session.granted.key) = (job, key);
        }
        bad.works(3, 62, 20);
        assert_eq!(operating.join().expect("no panic"), [Ok(()), Ok(())]);
    });
    good.leave(&held);
    drop((good, bad));
    wait_for_nothing(&manager, &nodes);
}
