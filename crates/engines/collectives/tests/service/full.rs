// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Full tables: jobs until the manager refuses, groups until nodes refuse, hosts up to the limit. A refusal has a
//! reason, leaves nothing, and does not disturb the others.

mod common;

use common::{Folder, Job, jobs_shown, node, nodes, serve, settings, until, wait_for_nodes, wait_for_nothing};
use selvedge_collectives::service::manager;
use selvedge_nic::aggregation::{Failure, Limits};

#[test]
fn jobs_and_groups_until_nothing_has_room() {
    let limits = Limits { groups: 10, credits: 4, ..settings().limits };
    let manager = serve(manager::Settings { limits, ..settings() });
    let nodes = nodes(&manager, 3);
    let mut jobs = Vec::new();
    let why = loop {
        match Job::begin(&manager, 1 + jobs.len() as u64, &[0, 1, 2]) {
            Ok(job) => jobs.push(job),
            Err(why) => break why,
        }
        assert!(jobs.len() < 6, "a fifth of ten groups is two");
    };
    assert_eq!(jobs.len(), 5);
    assert!(why.contains("2 groups, but an aggregation node has 0 left"), "{why}");
    assert_eq!(jobs_shown(&manager).expect("it answers").len(), 5);
    let mut groups = Vec::new();
    for (nth, job) in jobs.iter().enumerate() {
        for number in 0..2 {
            groups.push((nth, job.group(number).expect("its share")));
        }
        for number in 2..5 {
            assert_eq!(job.group(number), Err(Failure::Quota));
        }
    }
    until("the nodes have as many groups as they may", || nodes.iter().all(|node| node.in_use() == (5, 10)));
    std::thread::scope(|scope| {
        for (seed, (nth, handles)) in groups.iter().enumerate() {
            let job = &jobs[*nth];
            scope.spawn(move || assert!(job.operate(handles, seed as u64, 40).iter().all(Result::is_ok)));
        }
        // Processes that ask meanwhile are refused.
        for name in 10..20 {
            assert!(Job::begin(&manager, name, &[2, 1]).is_err());
        }
    });
    // One job ends, so there is room for one.
    drop(jobs.remove(0));
    until("there is room for a job", || match Job::begin(&manager, 30, &[0, 1, 2]) {
        Ok(job) => {
            job.works(1, 1, 20);
            true
        }
        Err(_) => false,
    });
    for (nth, handles) in groups.iter().filter(|group| group.0 != 0) {
        assert!(jobs[nth - 1].operate(handles, 9, 20).iter().all(Result::is_ok), "the others continue");
    }
    drop(jobs);
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn a_host_that_is_not_used_makes_room_for_another() {
    let manager = serve(manager::Settings { hosts: 4, ..settings() });
    let nodes = nodes(&manager, 3);
    let many: Vec<u64> = (100..110).collect();
    let why = Job::begin(&manager, 1, &many).err().expect("more hosts than the limit");
    assert!(why.contains("limit of 4 hosts"), "{why}");
    let first = Job::begin(&manager, 2, &[0, 50]).expect("a host without a node");
    first.works(1, 1, 20);
    assert!(Job::begin(&manager, 3, &[0, 51]).is_err(), "the fourth host is in use");
    drop(first);
    for name in 4..8 {
        until("its host is free", || match Job::begin(&manager, name, &[48 + name, 0, 1]) {
            Ok(job) => {
                job.works(1, name, 20);
                true
            }
            Err(_) => false,
        });
    }
    wait_for_nothing(&manager, &nodes);
}

#[test]
fn a_state_that_cannot_be_stored_begins_no_job_and_ends_those_there_are() {
    let folder = Folder::new("full");
    let place = folder.state().parent().expect("it is in a folder").to_owned();
    let manager = serve(manager::Settings { state: Some(folder.state()), ..settings() });
    let mut nodes = nodes(&manager, 2);
    let first = Job::begin(&manager, 1, &[0, 1]).expect("a share");
    let second = Job::begin(&manager, 2, &[0, 1]).expect("a share");
    std::fs::remove_dir_all(&place).expect("it is there");
    for name in 3..6 {
        let why = Job::begin(&manager, name, &[0, 1]).err().expect("the state cannot be stored");
        assert!(why.contains("cannot store its state"), "{why}");
        assert_eq!(jobs_shown(&manager).expect("it answers").len(), 2);
    }
    drop(second);
    until("a job can end without a stored state", || nodes.iter().all(|node| node.in_use().0 == 1));
    first.works(1, 1, 20);
    std::fs::create_dir_all(&place).expect("a folder");
    nodes.push(node(&manager, 2));
    wait_for_nodes(&manager, 3);
    Job::begin(&manager, 7, &[0, 1, 2]).expect("a share").works(1, 2, 20);
    drop(first);
    wait_for_nothing(&manager, &nodes);
}
