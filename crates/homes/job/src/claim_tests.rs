// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claims: each id has at most one living holder.

use super::*;
use crate::testing::{Other, Parent, claimants, without_descriptors};

fn job(parent: &Parent) -> JobDirectory {
    JobDirectory::create_in(parent.path(), "claims").expect("made")
}

fn give_to(job: &JobDirectory, pid: u16, who: Identity) {
    fs::write(job.claim_file(pid), crate::records::line_of(who)).expect("written");
}

#[test]
fn the_preferred_id_else_the_lowest() {
    let parent = Parent::new();
    let (job, other) = (job(&parent), Other::start());
    assert_eq!(job.claim(None, 5).expect("free").pid(), 5);
    give_to(&job, 5, other.identity);
    give_to(&job, 1, other.identity);
    assert_eq!(job.claim(None, 5).expect("2 is free").pid(), 2);
    assert_eq!(job.claim(None, u16::MAX).expect("2 is free").pid(), 2, "an impossible preference");
    other.end();
}

#[test]
fn only_who_asks_for_id_0_gets_it() {
    let parent = Parent::new();
    let job = job(&parent);
    assert_eq!(job.claim(None, 0).expect("1 is free").pid(), 1, "preferred");
    let zero = job.claim(Some(0), 0).expect("free");
    assert_eq!((zero.pid(), job.claim(None, 7).expect("free").pid()), (0, 7), "the preferred id");
}

#[test]
fn an_id_in_use_is_refused_with_its_holder() {
    let parent = Parent::new();
    let (job, other) = (job(&parent), Other::start());
    give_to(&job, 9, other.identity);
    match job.claim(Some(9), 0) {
        Err(ClaimError::InUse { pid: 9, by }) => assert_eq!(by, other.identity),
        result => panic!("{result:?}"),
    }
    assert!(matches!(job.claim(Some(1025), 0), Err(ClaimError::OutOfRange { pid: 1025 })));
    assert_eq!(job.claim(Some(1024), 0).expect("the last one").pid(), 1024);
    other.end();
}

#[test]
fn a_dead_holders_id_is_taken_over() {
    let parent = Parent::new();
    let job = job(&parent);
    let dead = Other::start().end();
    give_to(&job, 9, dead);
    let claim = job.claim(Some(9), 0).expect("its holder is dead");
    assert_eq!(claimants(&job), [(9, Identity::own())]);
    claim.release();
    // Another thread that looks through the claims of this process may hold it for a moment.
    selvedge_os::testing::until(|| claimants(&job).is_empty());
}

#[test]
fn a_claim_file_of_another_form_is_replaced() {
    let parent = Parent::new();
    let job = job(&parent);
    for content in ["", "x", "1 2 3", &"9".repeat(100)] {
        fs::write(job.claim_file(2), content).expect("written");
        assert_eq!(job.claim(Some(2), 0).expect("free").pid(), 2, "{content:?}");
    }
}

#[test]
fn claims_of_one_process_to_one_id_are_one() {
    let parent = Parent::new();
    let job = job(&parent);
    let first = job.claim(Some(4), 0).expect("free");
    let second = job.claim(Some(4), 0).expect("ours");
    let third = job.claim(None, 5).expect("the one we have");
    assert_eq!((second.pid(), third.pid()), (4, 4));
    drop((first, third));
    assert_eq!(claimants(&job), [(4, Identity::own())]);
    drop(second);
    // Another thread that looks through the claims of this process may hold it for a moment.
    selvedge_os::testing::until(|| claimants(&job).is_empty());
}

#[test]
fn one_process_may_have_several_ids_and_several_jobs() {
    let parent = Parent::new();
    let job = job(&parent);
    let elsewhere = JobDirectory::create_in(parent.path(), "elsewhere").expect("made");
    let claims =
        [job.claim(Some(1), 0), job.claim(Some(2), 0), elsewhere.claim(None, 1)].map(|claim| claim.expect("free"));
    assert_eq!(claims.each_ref().map(Claim::pid), [1, 2, 1]);
    assert_eq!(claimants(&job).len(), 2);
}

#[test]
fn a_program_started_by_exec_finds_the_claim_its_own() {
    let parent = Parent::new();
    let job = job(&parent);
    give_to(&job, 3, Identity::own());
    assert_eq!(job.claim(Some(3), 0).expect("same process").pid(), 3);
}

#[test]
fn when_all_are_taken_there_are_none() {
    let parent = Parent::new();
    let (job, other) = (job(&parent), Other::start());
    (1..=PORTALS_PID_MAX).for_each(|pid| give_to(&job, pid, other.identity));
    assert!(matches!(job.claim(None, 0), Err(ClaimError::Exhausted)), "0 is free");
    give_to(&job, 700, Identity { start: other.identity.start + 1, ..other.identity });
    assert_eq!(job.claim(None, 0).expect("one holder is dead").pid(), 700);
    other.end();
}

#[test]
fn a_claim_that_was_taken_over_is_not_removed() {
    let parent = Parent::new();
    let (job, other) = (job(&parent), Other::start());
    let claim = job.claim(Some(6), 0).expect("free");
    give_to(&job, 6, other.identity);
    drop(claim);
    assert_eq!(claimants(&job), [(6, other.identity)]);
    other.end();
}

/// Threads of one process share claims, so competing claims need processes: see `tests/claims.rs`. Here, all threads
/// must get the same claim.
#[test]
fn threads_get_one_claim() {
    let parent = Parent::new();
    let job = job(&parent);
    let claims: Vec<Claim> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| job.claim(None, 3).expect("free"))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(claims.iter().all(|claim| claim.pid() == 3));
    assert_eq!(claimants(&job).len(), 1);
}

#[test]
fn out_of_descriptors_no_claim_is_replaced() {
    let parent = Parent::new();
    let (job, other) = (job(&parent), Other::start());
    give_to(&job, 3, other.identity);
    Identity::own();
    without_descriptors(|| {
        for wanted in [Some(3), Some(4), None] {
            let error = job.claim(wanted, 3).expect_err("there is no descriptor");
            assert!(matches!(error, ClaimError::Io(DirectoryError::Shortage(_))), "{error}");
            assert!(error.to_string().contains("`ulimit -n`"), "{error}");
        }
        assert!(matches!(claimant_of(&job.claim_file(3)), Err(DirectoryError::Shortage(_))));
        assert!(matches!(claimant_of(&job.claim_file(4)), Ok(None)), "absent");
    });
    assert_eq!(claimants(&job), [(3, other.identity)]);
    other.end();
}

#[test]
fn a_thousand_consecutive_ranks_have_ids_of_their_own() {
    assert_eq!([0, 1, 1023, 1024, 4095].map(id_of_rank), [1, 2, 1024, 1, 1024]);
    assert_eq!(ranks_of_id(1, 2500).collect::<Vec<_>>(), [0, 1024, 2048]);
    assert_eq!(ranks_of_id(1024, 1024).collect::<Vec<_>>(), [1023]);
    assert_eq!(ranks_of_id(1024, 1023).count(), 0);
    for rank in (0..70_000).step_by(77) {
        assert!(ranks_of_id(id_of_rank(rank), 70_000).any(|one| one == rank));
    }
}
