// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jobs without a launcher. Jobs with one are tested in `tests/`.

use super::join::enter;
use super::*;
use crate::sweep::sweep_stale;
use crate::testing::Parent;

fn alone(parent: &Parent) -> Job {
    let directory = JobDirectory::create_in(parent.path(), "solo").expect("made");
    Job { inner: Arc::new(Inner::new(0, 1, Launcher::Solo, directory, AbortPath::Solo, Connection::Solo)) }
}

#[test]
fn a_single_process_is_a_whole_job() {
    let parent = Parent::new();
    let job = alone(&parent);
    assert_eq!((job.rank(), job.size(), job.name()), (0, 1, "solo"));
    assert!(!job.under_selvedge_run());
    job.barrier().expect("alone");
    assert_eq!(job.exchange(b"abc").expect("alone"), b"abc");
    assert_eq!(job.exchange_each(b"").expect("alone"), [b""]);
}

#[test]
fn a_left_job_refuses_calls_and_its_directory_is_removed() {
    let parent = Parent::new();
    let job = alone(&parent);
    job.finalize().expect("in order");
    job.finalize().expect("leaving twice has no effect");
    assert!(matches!(job.barrier(), Err(JobError::Finalized)));
    assert!(matches!(job.exchange(b"x"), Err(JobError::Finalized)));
    assert!(!job.directory().path().exists());
}

#[test]
fn a_fork_is_not_the_rank() {
    let parent = Parent::new();
    let directory = JobDirectory::create_in(parent.path(), "solo").expect("made");
    let mut inner = Inner::new(0, 1, Launcher::Solo, directory, AbortPath::Solo, Connection::Solo);
    inner.os_pid += 1;
    let job = Job { inner: Arc::new(inner) };
    assert!(matches!(job.barrier(), Err(JobError::Forked)));
    assert!(matches!(job.exchange(b"x"), Err(JobError::Forked)));
    assert!(matches!(job.finalize(), Err(JobError::Forked)));
    assert!(job.directory().path().exists());
}

#[test]
fn threads_may_call_at_the_same_time() {
    let parent = Parent::new();
    let job = alone(&parent);
    std::thread::scope(|scope| {
        for byte in 0..8u8 {
            let job = &job;
            scope.spawn(move || (0..100).for_each(|_| assert_eq!(job.exchange(&[byte]).expect("alone"), [byte])));
        }
    });
}

#[test]
fn a_process_that_ends_gives_up_its_claims() {
    let parent = Parent::new();
    let job = alone(&parent);
    let claim = job.directory().claim(None, 1).expect("free");
    job.finalize_at_exit().expect("in order");
    assert!(!job.directory().path().exists());
    drop(claim);
    let job = alone(&parent);
    let _claim = job.directory().claim(None, 1).expect("free");
    job.finalize().expect("in order");
    assert!(job.directory().claim_file(1).exists(), "it still uses its id");
}

#[test]
fn entering_a_new_job_removes_what_killed_jobs_have_left() {
    let parent = Parent::new();
    let dead = crate::testing::Other::start().end();
    let killed = JobDirectory::create_in(parent.path(), "killed").expect("made");
    std::fs::write(killed.claim_file(1), crate::records::line_of(dead)).expect("written");
    let path = killed.path().to_owned();
    drop(killed);
    let _first = enter(parent.path(), "new").expect("made");
    // A child that another test starts has all open directories, and so their locks, until it executes its program.
    for _ in 0..12_000 {
        if !path.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        sweep_stale(parent.path());
    }
    panic!("{path:?} is still there");
}
