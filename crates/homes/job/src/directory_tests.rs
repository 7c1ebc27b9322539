// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Job directories: how they are made, which are refused, when they are removed.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

use super::*;
use crate::testing::{Other, Parent, claimants};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

#[test]
fn made_for_us_alone_and_opened_again() {
    let parent = Parent::new();
    assert!(matches!(JobDirectory::open_in(parent.path(), "a"), Err(DirectoryError::Missing { .. })));
    let made = JobDirectory::create_in(parent.path(), "a").expect("made");
    assert_eq!(made.path(), parent.user().join("a"));
    assert_eq!((mode(&parent.user()), mode(made.path())), (0o700, 0o700));
    let again = JobDirectory::create_in(parent.path(), "a").expect("already there");
    let opened = JobDirectory::open_in(parent.path(), "a").expect("there");
    assert_eq!((again.path(), opened.name()), (made.path(), "a"));
}

#[test]
fn names_of_files() {
    let parent = Parent::new();
    let job = JobDirectory::create_in(parent.path(), "a").expect("made");
    for (path, name) in [
        (job.nic(7, 3), "7.3.nic"),
        (job.arena(4711), "4711.arena"),
        (job.tombstone(4711), "4711.dead"),
        (job.spill(4711, 2), "4711.2.spill"),
        (job.claim_file(1023), "1023.claim"),
    ] {
        assert_eq!(path, job.path().join(name));
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let parent = Parent::new();
    for name in ["", ".", "..", "a/b", "/tmp", ".hidden", "a b"] {
        let made = JobDirectory::create_in(parent.path(), name);
        assert!(matches!(made, Err(DirectoryError::BadName { .. })), "{name:?}");
    }
    assert!(!parent.user().exists());
}

#[test]
fn a_directory_that_others_may_enter_is_refused() {
    let parent = Parent::new();
    drop(JobDirectory::create_in(parent.path(), "a").expect("made"));
    for path in [parent.user(), parent.user().join("a")] {
        for open in [0o750, 0o701, 0o770] {
            set_mode(&path, open);
            for result in [JobDirectory::open_in(parent.path(), "a"), JobDirectory::create_in(parent.path(), "a")] {
                match result {
                    Err(DirectoryError::TooOpen { path: named, mode }) => {
                        assert_eq!((named, mode), (path.clone(), open))
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        set_mode(&path, 0o700);
    }
    JobDirectory::open_in(parent.path(), "a").expect("the mode is right again");
}

#[test]
fn links_and_files_in_the_place_of_directories_are_refused() {
    let parent = Parent::new();
    let real = parent.path().join("elsewhere");
    fs::create_dir(&real).expect("made");
    std::os::unix::fs::symlink(&real, parent.user()).expect("made");
    let made = JobDirectory::create_in(parent.path(), "a");
    assert!(matches!(made, Err(DirectoryError::NotADirectory { what: "symbolic link", .. })), "{made:?}");
    fs::remove_file(parent.user()).expect("removed");
    assert_eq!(fs::read_dir(&real).expect("there").count(), 0);

    drop(JobDirectory::create_in(parent.path(), "b").expect("made"));
    fs::write(parent.user().join("a"), "").expect("written");
    let made = JobDirectory::create_in(parent.path(), "a");
    assert!(matches!(made, Err(DirectoryError::NotADirectory { what: "file", .. })), "{made:?}");
}

#[test]
fn another_users_directory_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make another user's directory");
        return;
    }
    let parent = Parent::new();
    fs::DirBuilder::new().mode(0o700).create(parent.user()).expect("made");
    std::os::unix::fs::chown(parent.user(), Some(12345), None).expect("root may");
    let made = JobDirectory::create_in(parent.path(), "a");
    assert!(matches!(made, Err(DirectoryError::NotOurs { owner_uid: 12345, own_uid: 0, .. })), "{made:?}");
}

#[test]
fn an_unusable_parent_is_named() {
    let error = JobDirectory::create_in(Path::new("/proc"), "a").expect_err("nothing can be made there").to_string();
    assert!(error.starts_with("cannot make /proc/") && error.ends_with("in which you can make files"), "{error}");
    let error = JobDirectory::create_in(Path::new("/nonexistent/parent"), "a").expect_err("nowhere");
    assert_eq!(error.to_string(), "/nonexistent/parent: no such folder; create it, or set SELVEDGE_DIR to another one");
}

/// Printers of errors append `source()`.
#[test]
fn the_cause_is_in_the_text_once() {
    for errno in [rustix::io::Errno::IO, rustix::io::Errno::XDEV] {
        let error = DirectoryError::io("make", Path::new("/full"), errno);
        assert!(error.to_string().ends_with(&io::Error::from(errno).to_string()), "{error}");
        assert!(std::error::Error::source(&error).is_none(), "{error}");
    }
}

#[test]
fn records_and_tombstones_are_read_as_written() {
    let parent = Parent::new();
    let job = JobDirectory::create_in(parent.path(), "a").expect("made");
    assert_eq!(job.record().expect("read"), None);
    let own = Identity::own();
    let record = JobRecord { launcher: own, name: "a".into(), size: 5, program: "./x \"y\"\n".into() };
    job.write_record(&record).expect("written");
    assert_eq!(job.record().expect("read"), Some(record));
    assert_eq!(mode(&job.path().join("job")), 0o600);

    assert_eq!(job.tombstone_of(own), None);
    let stone = Tombstone { who: own, rank: 3, how: "was killed by SIGSEGV".into() };
    job.write_tombstone(&stone).expect("written");
    assert_eq!(job.tombstone_of(own), Some(stone));
    let later = Identity { start: own.start + 1, ..own };
    assert_eq!(job.tombstone_of(later), None, "the pid was reused");
    let names: Vec<_> = fs::read_dir(job.path()).expect("there").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names.len(), 2, "no temporary files: {names:?}");
}

#[test]
fn lost_ranks_are_read_as_written_and_bounded() {
    let parent = Parent::new();
    let job = JobDirectory::create_in(parent.path(), "a").expect("made");
    assert_eq!(job.lost_ranks().expect("readable"), []);
    let lost: Vec<_> =
        (0..100).map(|rank| LostRank { rank, has_failed: rank != 0, how: format!("\"{rank}\"\n") }).collect();
    job.write_lost_ranks(&lost).expect("written");
    assert_eq!(job.lost_ranks().expect("readable"), lost[..64]);
    fs::write(job.path().join("lost"), "{\"rank\":3}\nx\n{\"rank\":4,\"failed\":true,\"how\":\"x\"}\n")
        .expect("written");
    assert_eq!(job.lost_ranks().expect("readable"), [LostRank { rank: 4, has_failed: true, how: "x".into() }]);
}

#[test]
fn damaged_records_are_no_records() {
    let parent = Parent::new();
    let job = JobDirectory::create_in(parent.path(), "a").expect("made");
    for bad in ["", "{", "[]", "{\"pid\":1}", "{\"pid\":-1,\"start\":2,\"name\":\"a\",\"size\":1,\"program\":\"x\"}"] {
        fs::write(job.path().join("job"), bad).expect("written");
        assert_eq!(job.record().expect("read"), None, "{bad}");
    }
}

#[test]
fn an_unused_directory_is_cleared_of_files_of_dead_processes() {
    let parent = Parent::new();
    let first = JobDirectory::create_in(parent.path(), "solo").expect("made");
    let dead = Other::start().end();
    fs::write(first.claim_file(0), crate::records::line_of(dead)).expect("written");
    fs::write(first.arena(dead.pid), "x").expect("written");
    let second = JobDirectory::create_in(parent.path(), "solo").expect("there");
    assert!(second.arena(dead.pid).exists(), "the first has it open");
    drop((first, second));
    let third = JobDirectory::create_in(parent.path(), "solo").expect("there");
    assert_eq!(fs::read_dir(third.path()).expect("there").count(), 0);
}

#[test]
fn a_living_claimant_keeps_the_files_even_without_a_lock() {
    let parent = Parent::new();
    let first = JobDirectory::create_in(parent.path(), "solo").expect("made");
    let other = Other::start();
    fs::write(first.claim_file(0), crate::records::line_of(other.identity)).expect("written");
    drop(first);
    let second = JobDirectory::create_in(parent.path(), "solo").expect("there");
    assert_eq!(claimants(&second), [(0, other.identity)]);
    other.end();
}

#[test]
fn the_last_to_leave_removes_it() {
    let parent = Parent::new();
    let first = JobDirectory::create_in(parent.path(), "solo").expect("made");
    let second = JobDirectory::create_in(parent.path(), "solo").expect("there");
    assert!(!first.leave(false));
    assert!(second.path().exists());
    assert!(second.leave(false));
    assert!(!second.path().exists());
}

#[test]
fn a_claim_keeps_it_unless_its_holder_is_ending() {
    let parent = Parent::new();
    let job = JobDirectory::create_in(parent.path(), "solo").expect("made");
    let claim = job.claim(None, 0).expect("free");
    assert!(!job.leave(false));
    assert!(job.leave(true));
    drop(claim);
    assert!(!job.path().exists());
}

#[test]
fn removal_is_complete_and_does_not_follow_links() {
    let parent = Parent::new();
    let outside = parent.path().join("outside");
    fs::write(&outside, "kept").expect("written");
    let job = JobDirectory::create_in(parent.path(), "a").expect("made");
    fs::write(job.nic(0, 0), "x").expect("written");
    std::os::unix::fs::symlink(&outside, job.path().join("link")).expect("made");
    job.remove().expect("removed");
    assert_eq!(fs::read_dir(parent.user()).expect("there").count(), 0);
    assert!(outside.exists());
}
