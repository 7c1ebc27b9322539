// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Service numbers: at most one living process has a number, and a dead process has none.

use super::*;
use crate::testing::{Other, Parent};

fn job(parent: &Parent) -> JobDirectory {
    JobDirectory::create_in(parent.path(), "services").expect("made")
}

fn give_to(job: &JobDirectory, service: u16, who: Identity) {
    fs::write(job.service_file(service), format!("{}theirs\n", crate::records::line_of(who))).expect("written");
}

#[test]
fn what_is_bound_is_found_until_it_is_dropped() {
    let parent = Parent::new();
    let job = job(&parent);
    assert_eq!(job.service(9228), None);
    let service = job.bind_service(9228, "here").expect("free");
    assert_eq!(job.service(9228).as_deref(), Some("here"));
    assert_eq!(job.service(9229), None);
    drop(service);
    assert_eq!(job.service(9228), None);
    assert!(!job.service_file(9228).exists());
}

#[test]
fn a_number_in_use_is_refused_with_its_holder() {
    let parent = Parent::new();
    let (job, other) = (job(&parent), Other::start());
    give_to(&job, 1, other.identity);
    assert_eq!(job.service(1).as_deref(), Some("theirs"));
    assert!(matches!(job.bind_service(1, "x"), Err(ServiceError::InUse { service: 1, by }) if by == other.identity));
    let _own = job.bind_service(2, "x").expect("free");
    assert!(matches!(job.bind_service(2, "y"), Err(ServiceError::InUse { service: 2, .. })), "our own, twice");
    other.end();
}

#[test]
fn a_dead_holders_number_is_free() {
    let parent = Parent::new();
    let job = job(&parent);
    let dead = Other::start().end();
    give_to(&job, 1, dead);
    assert_eq!(job.service(1), None);
    let _service = job.bind_service(1, "ours").expect("its holder is dead");
    assert_eq!(job.service(1).as_deref(), Some("ours"));
}

#[test]
fn what_a_program_left_that_became_ours_by_exec_is_free() {
    let parent = Parent::new();
    let job = job(&parent);
    give_to(&job, 1, Identity::own());
    let _service = job.bind_service(1, "ours").expect("nothing of this program has it");
}

#[test]
fn a_file_of_another_form_is_replaced() {
    let parent = Parent::new();
    let job = job(&parent);
    for content in ["", "x", "1 2 3\nx", &"9".repeat(1000)] {
        fs::write(job.service_file(2), content).expect("written");
        assert_eq!(job.service(2), None, "{content:?}");
        drop(job.bind_service(2, "ours").expect("free"));
    }
}

#[test]
fn bindings_of_the_dead_are_cleared() {
    let parent = Parent::new();
    let (job, other) = (job(&parent), Other::start());
    let dead = Other::start().end();
    give_to(&job, 1, dead);
    give_to(&job, 2, other.identity);
    crate::clear_dead_ids(&job);
    assert!(!job.service_file(1).exists());
    assert!(job.service_file(2).exists());
    other.end();
}
