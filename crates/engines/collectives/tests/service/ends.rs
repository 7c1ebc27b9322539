// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Members, nodes and managers that end at random instants: all waiting processes get a failure, nothing hangs, and
//! nothing is left at the end.

mod common;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{
    Child, Choices, Folder, Job, Process, RETURNS_MS, SOON, jobs_shown, manager_at, node, nodes, serve, settings,
    until, wait_for_no_groups, wait_for_nodes, wait_for_nothing,
};
use selvedge_collectives::service::manager::{self, Service};
use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::member::GroupState;

#[test]
fn child() {
    common::child::main();
}

/// An address outside of the system's range of ephemeral ports.
fn address(nth: u16) -> SocketAddr {
    let first = 10_000 + (std::process::id() % 2000) as u16 * 10 + nth;
    let free = (first..first + 10).find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
    (Ipv4Addr::LOCALHOST, free.expect("a port is free")).into()
}

/// Joins a group and operates until it fails. After `has_ended` the job fails unanswered members, like a real job.
fn operate_to_the_end(process: &Process, order: usize, job: &Job, has_ended: &AtomicBool) -> Option<Failure> {
    let nodes = job.nodes();
    let handle = process.join(1, order, &nodes);
    let mut ended_since = None;
    let failure = loop {
        match process.state(handle).expect("a membership") {
            GroupState::Joining if has_ended.load(SeqCst) => {
                if ended_since.get_or_insert_with(Instant::now).elapsed() > Duration::from_millis(100) {
                    break None;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            GroupState::Joining => std::thread::sleep(Duration::from_micros(100)),
            GroupState::Failed(failure) => break Some(failure),
            GroupState::Ready { .. } => {
                if let Err(failure) = process.operate(handle, order, &nodes, 7, 20) {
                    break Some(failure);
                }
                break Some(operate_on(process, handle, order, job));
            }
        }
    };
    process.leave(handle);
    failure
}

/// Operates in a ready group until it fails.
fn operate_on(process: &Process, handle: u64, order: usize, job: &Job) -> Failure {
    let (nodes, since) = (job.nodes(), Instant::now());
    for seed in 0.. {
        assert!(since.elapsed() < SOON, "the group does not fail");
        if let Err(failure) = process.operate(handle, order, &nodes, seed, 20) {
            return failure;
        }
    }
    unreachable!("the group fails")
}

#[test]
fn a_member_that_ends_is_heard_by_all_others() {
    let manager = serve(settings());
    let nodes = nodes(&manager, 3);
    let mut choices = Choices(1);
    for round in 0..10 {
        let mut job = Job::begin(&manager, 100 + round, &[0, 0, 1, 1, 2, 2]).expect("a share");
        let victim = choices.below(6) as usize;
        // The first rounds most likely end while the group forms.
        let after = choices.milliseconds(if round < 5 { 4 } else { 40 });
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (order, process) in job.processes.iter().enumerate() {
                let (job, has_ended) = (&job, &has_ended);
                scope.spawn(move || {
                    let failure = operate_to_the_end(process, order, job, has_ended);
                    let is_right = matches!(failure, None | Some(Failure::Lost | Failure::Left));
                    assert!(is_right, "round {round}, member {order}: {failure:?}");
                });
            }
            std::thread::sleep(after);
            job.processes[victim].links.close();
            has_ended.store(true, SeqCst);
        });
        drop(job.processes.remove(victim));
        wait_for_no_groups(&nodes);
        job.works(2, round, 20);
    }
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn a_member_that_ends_at_rest_is_heard_by_all_others() {
    let manager = serve(settings());
    let nodes = nodes(&manager, 3);
    // The root's member, another node's, and one of two at a node.
    for (name, victim) in [(150, 0), (151, 2), (152, 3)] {
        let mut job = Job::begin(&manager, name, &[0, 1, 2, 2]).expect("a share");
        let handles = job.group(1).expect("room");
        assert!(job.operate(&handles, name, 20).iter().all(Result::is_ok));
        // It gets no more messages, so only its link shows that it has ended.
        job.processes[victim].links.close();
        for (order, process) in job.processes.iter().enumerate().filter(|(order, _)| *order != victim) {
            assert_eq!(process.wait_failed(handles[order]), Failure::Lost, "member {order}");
            process.leave(handles[order]);
        }
        drop(job.processes.remove(victim));
        wait_for_no_groups(&nodes);
        job.works(2, name, 20);
    }
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn a_node_that_is_killed_is_heard_and_comes_back() {
    let manager = serve(settings());
    let mut nodes: Vec<Option<Child>> = (0..3).map(|place| Some(Child::node(&manager, place))).collect();
    wait_for_nodes(&manager, 3);
    let mut choices = Choices(2);
    for round in 0..6 {
        let job = Job::begin(&manager, 200 + round, &[0, 1, 2, 2]).expect("a share");
        let victim = choices.below(3) as usize;
        let after = choices.milliseconds(if round < 3 { 4 } else { 40 });
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (order, process) in job.processes.iter().enumerate() {
                let (job, has_ended) = (&job, &has_ended);
                scope.spawn(move || {
                    let failure = operate_to_the_end(process, order, job, has_ended);
                    let known = [Failure::Lost, Failure::Left, Failure::Revoked, Failure::NoTree];
                    let is_right = failure.is_none_or(|failure| known.contains(&failure));
                    assert!(is_right, "round {round}, member {order}: {failure:?}");
                });
            }
            std::thread::sleep(after);
            nodes[victim].take().expect("it is there").kill();
            has_ended.store(true, SeqCst);
        });
        until("the processes learn that their job has lost its nodes", || {
            job.processes.iter().all(|process| process.session.is_lost())
        });
        wait_for_nodes(&manager, 2);
        nodes[victim] = Some(Child::node(&manager, victim as u64));
        wait_for_nodes(&manager, 3);
        let again = Job::begin(&manager, 300 + round, &[0, 1, 2]).expect("a share");
        again.works(1, round, 20);
    }
    wait_for_nothing(&manager, &[]);
    for node in nodes.iter_mut().flatten() {
        until("the nodes are empty", || node.is_empty_node());
    }
}

#[test]
fn groups_go_on_without_the_manager_and_it_comes_back() {
    let (folder, at) = (Folder::new("returns"), address(0));
    let child = Child::manager(at, &folder.state(), RETURNS_MS);
    let manager = manager_at(at);
    let nodes = nodes(&manager, 3);
    let job = Job::begin(&manager, 400, &[0, 1, 2]).expect("a share");
    let gone = Job::begin(&manager, 401, &[0, 1]).expect("a share");
    let handles = job.group(1).expect("room");
    assert!(job.operate(&handles, 1, 30).iter().all(Result::is_ok));
    child.kill();
    drop(gone);
    assert!(job.operate(&handles, 2, 100).iter().all(Result::is_ok), "the group continues");
    job.works(2, 3, 20);
    let _child = Child::manager(at, &folder.state(), RETURNS_MS);
    // It is asked before the nodes are back.
    let new = Job::begin(&manager, 402, &[2, 1, 0]).expect("a share");
    new.works(1, 4, 50);
    assert!(job.operate(&handles, 5, 50).iter().all(Result::is_ok), "the group continues");
    until("the job of ended processes ends", || jobs_shown(&manager).is_some_and(|jobs| jobs.len() == 2));
    until("the nodes forget it", || nodes.iter().all(|node| node.in_use().0 == 2));
    assert!(job.operate(&handles, 6, 50).iter().all(Result::is_ok), "the group continues");
    job.leave(&handles);
    job.works(3, 7, 20);
    assert!(!job.processes.iter().chain(&new.processes).any(|process| process.session.is_lost()));
    drop((job, new));
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn a_manager_that_is_killed_while_jobs_begin_and_end_leaves_nothing() {
    let (folder, at) = (Folder::new("killed"), address(10));
    let mut child = Some(Child::manager(at, &folder.state(), RETURNS_MS));
    let manager = manager_at(at);
    let nodes = nodes(&manager, 3);
    let mut choices = Choices(3);
    for round in 0..6 {
        std::thread::scope(|scope| {
            let after = choices.milliseconds(8);
            // Half of the rounds have a job that begins before the manager ends, and ends meanwhile.
            let begun = (round % 2 == 1).then(|| Job::begin(&manager, 500 + round, &[0, 1, 2]).expect("a share"));
            let manager = &manager;
            scope.spawn(move || match begun {
                Some(begun) => drop(begun),
                // It may be granted, or not.
                None => drop(Job::begin(manager, 500 + round, &[0, 1, 2])),
            });
            std::thread::sleep(after);
            child.take().expect("it is there").kill();
        });
        child = Some(Child::manager(at, &folder.state(), RETURNS_MS));
    }
    let job = Job::begin(&manager, 600, &[0, 1, 2]).expect("a share");
    job.works(1, 1, 20);
    drop(job);
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn nodes_forget_a_job_that_the_manager_does_not_know_any_more() {
    let (folder, at) = (Folder::new("older"), address(30));
    let child = Child::manager(at, &folder.state(), RETURNS_MS);
    let manager = manager_at(at);
    let nodes = nodes(&manager, 3);
    let before = std::fs::read(folder.state()).expect("the state");
    let job = Job::begin(&manager, 650, &[0, 1, 2]).expect("a share");
    let handles = job.group(1).expect("room");
    child.kill();
    std::fs::write(folder.state(), before).expect("the previous state");
    let _child = Child::manager(at, &folder.state(), RETURNS_MS);
    until("the processes learn that their job is lost", || {
        job.processes.iter().all(|process| process.session.is_lost())
    });
    // The processes still run, and for all they know, so do their groups.
    wait_for_nothing(&manager, &nodes);
    job.leave(&handles);
    Job::begin(&manager, 651, &[0, 1, 2]).expect("a share").works(1, 1, 20);
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn a_node_waits_for_a_manager_that_ends_in_the_greeting() {
    let at = address(20);
    let listener = TcpListener::bind(at).expect("the port is free");
    let node = node(&manager_at(at), 0);
    listener.set_nonblocking(true).expect("a listener");
    for _ in 0..2 {
        until("the node connects", || listener.accept().is_ok());
    }
    drop(listener);
    let service = Service::open(at, settings()).expect("the port is free again");
    std::thread::spawn(move || service.run());
    let manager = manager_at(at);
    wait_for_nodes(&manager, 1);
    let job = Job::begin(&manager, 700, &[0, 0]).expect("a share");
    job.works(1, 1, 10);
    drop(job);
    wait_for_nothing(&manager, &[node]);
}

#[test]
fn a_node_that_stops_holds_up_the_service_for_its_silence_only() {
    // Running nodes must not be silent for this time, even on a busy machine.
    let silence = Duration::from_secs(5);
    let manager = serve(manager::Settings { silence, ..settings() });
    let nodes = nodes(&manager, 2);
    let mut stopped = Child::node(&manager, 2);
    wait_for_nodes(&manager, 3);
    stopped.stop();
    // The first job that needs the node finds it silent, and loses its resources. Later ones begin without the node.
    let mut number = 800;
    until("jobs begin without the node", || {
        number += 1;
        let Ok(job) = Job::begin(&manager, number, &[0, 1, 0]) else { return false };
        let Ok(handles) = job.group(1) else { return false };
        let works = job.operate(&handles, number, 20).iter().all(Result::is_ok);
        job.leave(&handles);
        works
    });
    wait_for_nodes(&manager, 2);
    stopped.go_on();
    wait_for_nodes(&manager, 3);
    let job = Job::begin(&manager, 900, &[0, 1, 2]).expect("a share");
    job.works(1, 1, 20);
    drop(job);
    wait_for_nothing(&manager, &nodes);
    until("the node that was stopped is empty", || stopped.is_empty_node());
}
