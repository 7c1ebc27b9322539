// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeping: stale directories are removed, directories in use stay.

use std::time::Duration;

use super::*;
use crate::testing::{Other, Parent};

fn job_of(parent: &Parent, name: &str, launcher: Identity) -> JobDirectory {
    let job = JobDirectory::create_in(parent.path(), name).expect("made");
    let record = JobRecord { launcher, name: name.into(), size: 1, program: "x".into() };
    job.write_record(&record).expect("written");
    fs::write(job.arena(1), "x").expect("written");
    job
}

fn names(parent: &Parent) -> Vec<String> {
    let mut names: Vec<String> = files_in(&parent.user())
        .iter()
        .map(|path| path.file_name().unwrap_or_default().to_string_lossy().into())
        .collect();
    names.sort_unstable();
    names
}

/// Sweeps until these jobs are removed, and checks that no others are. This may take several sweeps: a child that another
/// test starts has all open directories, and so their locks, until it executes its program.
fn assert_swept(parent: &Parent, expected: &[&str]) {
    let mut swept = Vec::new();
    for _ in 0..12_000 {
        swept.extend(sweep_stale(parent.path()));
        if swept.len() >= expected.len() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    swept.sort_unstable();
    assert_eq!(swept, expected);
}

#[test]
fn without_a_directory_nothing_is_swept() {
    let parent = Parent::new();
    assert!(sweep_stale(parent.path()).is_empty());
    assert!(sweep_stale(Path::new("/nonexistent")).is_empty());
    assert!(!parent.user().exists());
}

#[test]
fn only_jobs_of_dead_launchers_are_removed() {
    let parent = Parent::new();
    let living = Other::start();
    let dead = Other::start().end();
    drop(job_of(&parent, "living", living.identity));
    drop(job_of(&parent, "dead", dead));
    drop(job_of(&parent, "reused", Identity { start: living.identity.start + 1, ..living.identity }));
    assert_swept(&parent, &["dead", "reused"]);
    assert_eq!(names(&parent), ["living"]);
    living.end();
    assert_swept(&parent, &["living"]);
}

#[test]
fn without_a_launcher_the_claimants_decide() {
    let parent = Parent::new();
    let living = Other::start();
    let dead = Other::start().end();
    for (name, claimants) in [("all-dead", vec![dead]), ("one-lives", vec![dead, living.identity]), ("empty", vec![])] {
        let job = JobDirectory::create_in(parent.path(), name).expect("made");
        for (pid, who) in (0..).zip(claimants) {
            fs::write(job.claim_file(pid), crate::records::line_of(who)).expect("written");
        }
    }
    assert_swept(&parent, &["all-dead", "empty"]);
    assert_eq!(names(&parent), ["one-lives"]);
    living.end();
}

#[test]
fn an_open_directory_stays() {
    let parent = Parent::new();
    let dead = Other::start().end();
    let open = job_of(&parent, "open", dead);
    assert!(sweep_stale(parent.path()).is_empty());
    drop(open);
    assert_swept(&parent, &["open"]);
}

#[test]
fn an_unfinished_removal_is_finished() {
    let parent = Parent::new();
    drop(job_of(&parent, "a", Identity::own()));
    fs::rename(parent.user().join("a"), parent.user().join(".gone-1-0")).expect("renamed");
    assert_swept(&parent, &[".gone-1-0"]);
    assert!(names(&parent).is_empty());
}

#[test]
fn other_files_are_not_touched() {
    let parent = Parent::new();
    let outside = Parent::new();
    drop(JobDirectory::create_in(parent.path(), "a").expect("made"));
    fs::write(parent.user().join("file"), "").expect("written");
    std::os::unix::fs::symlink(outside.path(), parent.user().join("link")).expect("made");
    assert_swept(&parent, &["a"]);
    assert_eq!(names(&parent), ["file", "link"]);
    assert!(outside.path().exists());
}

#[test]
fn sweeps_and_starts_at_the_same_time_do_not_hurt_each_other() {
    let parent = Parent::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let parent = &parent;
            scope.spawn(move || {
                for round in 0..50 {
                    let job = JobDirectory::create_in(parent.path(), &format!("job{}", round % 2)).expect("made");
                    let file = job.arena(thread);
                    fs::write(&file, "x").expect("the directory stays while it is open");
                    assert!(file.exists());
                    fs::remove_file(file).expect("only this test removes it");
                    drop(job);
                    sweep_stale(parent.path());
                }
            });
        }
    });
    let left = names(&parent);
    assert_swept(&parent, &left.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(names(&parent).is_empty());
}

#[test]
fn only_memory_of_dead_processes_is_removed() {
    let parent = Parent::new();
    let job = JobDirectory::create_in(parent.path(), "solo").expect("made");
    let dead = Other::start().end();
    let own = Identity::own();
    let kept =
        [job.arena(own.pid), job.spill(own.pid, 0), job.nic(0, 0), job.claim_file(0), job.path().join("x.arena")];
    let freed = [job.arena(dead.pid), job.spill(dead.pid, 7)];
    for file in kept.iter().chain(&freed) {
        fs::write(file, "x").expect("written");
    }
    remove_memory_of_dead_processes(&job);
    assert!(kept.iter().all(|file| file.exists()));
    assert!(!freed.iter().any(|file| file.exists()));
}

#[test]
fn dead_claimants_get_one_tombstone_each() {
    let parent = Parent::new();
    let job = JobDirectory::create_in(parent.path(), "a").expect("made");
    let living = Other::start();
    let dead = Other::start().end();
    for (pid, who) in [(0, living.identity), (1, dead)] {
        fs::write(job.claim_file(pid), crate::records::line_of(who)).expect("written");
    }
    write_missing_tombstones(&job, 5).expect("written");
    assert_eq!(job.tombstone_of(living.identity), None);
    assert_eq!(job.tombstone_of(dead).map(|stone| stone.rank), Some(5));
    write_missing_tombstones(&job, 6).expect("nothing is missing");
    assert_eq!(job.tombstone_of(dead).map(|stone| stone.rank), Some(5), "the first tombstone stays");
    living.end();
}

#[test]
fn in_a_directory_in_use_only_files_of_dead_processes_are_removed() {
    let parent = Parent::new();
    let living = Other::start();
    let dead = Other::start().end();
    let job = JobDirectory::create_in(parent.path(), "meeting").expect("made");
    for (pid, who) in [(4, dead), (41, living.identity)] {
        fs::write(job.claim_file(pid), crate::records::line_of(who)).expect("written");
        fs::write(job.nic(pid, 8), "x").expect("written");
    }
    let making = |who: Identity| job.path().join(format!("9.8.making.{}", who.pid));
    fs::write(making(dead), "x").expect("written");
    fs::write(making(living.identity), "x").expect("written");
    clear_dead_ids(&job);
    assert!(!job.claim_file(4).exists() && !job.nic(4, 8).exists() && !making(dead).exists());
    assert!(job.claim_file(41).exists() && job.nic(41, 8).exists() && making(living.identity).exists());
    living.end();
}

#[test]
fn out_of_descriptors_nothing_is_swept() {
    let parent = Parent::new();
    let living = Other::start();
    let job = JobDirectory::create_in(parent.path(), "lives").expect("made");
    fs::write(job.claim_file(1), crate::records::line_of(living.identity)).expect("written");
    let path = job.path().to_owned();
    crate::testing::without_descriptors(|| {
        assert!(is_stale(&path).is_err(), "its claims cannot be read");
        assert!(sweep_stale(parent.path()).is_empty());
        remove_memory_of_dead_processes(&job);
        clear_dead_ids(&job);
    });
    assert_eq!(crate::testing::claimants(&job), [(1, living.identity)]);
    living.end();
}
