// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Archives of recordings, as otf2-print shows them.

use std::process::Command;

use super::*;
use crate::archive::{Access, Atomic, Collective};
use crate::definitions::Role;
use crate::recording::{Arguments, Function, Stream, Thread};

static PUT: Function = Function::new("shmem_a_put_with_a_name_of_more_than_24_bytes", access(Access::Put, true));
static PUT_NBI: Function = Function::new("shmem_put_nbi", access(Access::Put, false));
static ADD: Function = Function::new("shmem_add", access(Access::Atomic(Atomic::FetchAndAdd), true));
static QUIET: Function = Function::new("shmem_quiet", Class { effect: Effect::Plain(Role::Function), completes: true });
static BARRIER: Function =
    Function::new("shmem_barrier_all", Class { effect: Effect::Collective(Collective::Barrier), completes: true });

const fn access(access: Access, blocking: bool) -> Class {
    Class { effect: Effect::Access { access, blocking }, completes: false }
}

fn to(rank: u32, sent: u64, received: u64) -> Arguments {
    Arguments { rank, sent, received, all: false }
}

/// The lines of otf2-print about events, without times; of all the archive with `-G`.
fn printed(folder: &Path, option: &[&str]) -> String {
    let anchor = crate::archive::anchor(folder);
    let run =
        Command::new("otf2-print").args(option).arg(&anchor).output().expect("otf2-print is installed (otf2-tools)");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn count(text: &str, word: &str) -> usize {
    text.lines().filter(|line| line.split_whitespace().next() == Some(word)).count()
}

fn record(folder: &Path) -> Stream {
    let calls = calls_folder(folder);
    std::fs::create_dir_all(&calls).unwrap();
    let mut first = Stream::create(&calls, Thread { rank: 0, size: 3, number: 0 }).unwrap();
    first.enter(1000, &PUT, &to(1, 64, 0));
    first.leave(1100);
    first.enter(1200, &PUT_NBI, &to(2, 8, 0));
    first.leave(1210);
    first.enter(1300, &ADD, &to(1, 8, 8));
    first.leave(1400);
    first.enter(1500, &QUIET, &Arguments::NONE);
    first.leave(1600);
    first.enter(1700, &BARRIER, &Arguments { all: true, ..Arguments::NONE });
    first.leave(1800);
    drop(first);
    let mut second = Stream::create(&calls, Thread { rank: 1, size: 3, number: 0 }).unwrap();
    second.enter(1710, &BARRIER, &Arguments { all: true, ..Arguments::NONE });
    second
}

#[test]
fn calls_become_regions_and_operations() {
    let folder = tempfile::tempdir().unwrap();
    let killed = record(folder.path());
    // Its file is as after a kill: not ended.
    let made = make(folder.path(), "a test").unwrap().unwrap();
    std::mem::forget(killed);
    assert_eq!(made, Made { ranks: 3, missing: vec![2], calls: 6, cut: 1 });
    let remark = made.remark(folder.path()).unwrap();
    assert!(remark.contains("1 of 3 PEs, the first PE 2") && remark.contains("one call had not ended"), "{remark}");
    let text = printed(folder.path(), &[]);
    for (word, times) in [
        ("ENTER", 6),
        ("LEAVE", 6),
        ("RMA_PUT", 2),
        ("RMA_ATOMIC", 1),
        ("RMA_OP_COMPLETE_BLOCKING", 2),
        ("RMA_OP_COMPLETE_NON_BLOCKING", 1),
        ("RMA_COLLECTIVE_BEGIN", 2),
        ("RMA_COLLECTIVE_END", 2),
    ] {
        assert_eq!(count(&text, word), times, "{word} in\n{text}");
    }
    let put = text.lines().find(|line| line.starts_with("RMA_PUT")).unwrap();
    assert!(put.contains("Bytes: 64") && put.contains("Matching: 0"), "{put}");
    let definitions = printed(folder.path(), &["-G"]);
    for part in ["shmem_a_put_with_a_name_of_more_than_24_bytes", "\"PE 2\"", "symmetric memory"] {
        assert!(definitions.contains(part), "{part} in\n{definitions}");
    }
    assert!(!calls_folder(folder.path()).exists());
    assert!(matches!(make(folder.path(), ""), Ok(None)));
}

#[test]
fn an_archive_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    drop(record(folder.path()));
    make(folder.path(), "a test").unwrap();
    drop(record(folder.path()));
    let error = make(folder.path(), "a test").unwrap_err().to_string();
    assert!(error.contains("holds an archive already, traces.otf2; name another folder"), "{error}");
}

#[test]
fn a_recording_of_many_calls_takes_several_windows() {
    let folder = tempfile::tempdir().unwrap();
    let calls = calls_folder(folder.path());
    std::fs::create_dir_all(&calls).unwrap();
    let mut stream = Stream::create(&calls, Thread { rank: 0, size: 1, number: 0 }).unwrap();
    for call in 0..50_000 {
        stream.enter(10 * call, &PUT, &to(0, call, 0));
        stream.leave(10 * call + 5);
    }
    drop(stream);
    let made = make(folder.path(), "a test").unwrap().unwrap();
    assert_eq!((made.calls, made.cut), (50_000, 0));
    let text = printed(folder.path(), &[]);
    assert_eq!(count(&text, "RMA_PUT"), 50_000);
    assert!(text.contains("Bytes: 49999"), "the last call");
}

#[test]
fn a_class_survives_its_code() {
    for function in [&PUT, &PUT_NBI, &ADD, &QUIET, &BARRIER] {
        assert_eq!(Class::of_code(function.class.code()), Some(function.class), "{}", function.name);
    }
    assert_eq!(Class::of_code(0xff), None);
    assert_eq!(Class::of_code(4 | 0xff << 8), None);
}
