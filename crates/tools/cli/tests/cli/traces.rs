// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces in OTF2 of simulated runs and of live OpenSHMEM programs (`traced.c`), as otf2-print shows them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Ended, Place, compile, tree};

/// The output of otf2-print, which must not complain.
fn printed(folder: &Path, options: &[&str]) -> String {
    let mut command = Command::new("otf2-print");
    let run =
        command.args(options).arg(folder.join("traces.otf2")).output().expect("otf2-print is installed (setup.sh)");
    let ended = Ended::from(run);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{}", folder.display());
    ended.out
}

/// The events of a kind.
fn events<'a>(text: &'a str, kind: &'a str) -> Vec<&'a str> {
    text.lines().filter(|line| line.split_whitespace().next() == Some(kind)).collect()
}

fn simulate(args: &[&str], folder: &Path) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["sim", "--quiet", "--json", "--otf2"]).arg(folder).args(args).env("SELVEDGE_PREFIX", tree());
    Ended::from(command.output().expect("the command starts"))
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for below in ["", "traces"] {
        for entry in
            fs::read_dir(folder.join(below)).expect("a folder").flatten().filter(|entry| entry.path().is_file())
        {
            let name = format!("{below}/{}", entry.file_name().to_string_lossy());
            files.push((name, fs::read(entry.path()).expect("a file")));
        }
    }
    files.sort();
    files
}

#[test]
fn a_simulated_run_gives_the_same_archive_twice() {
    let place = Place::new("otf2-sim");
    let args = ["-n", "4", "--machine", "torus16", "--program", "halo", "--iterations", "3"];
    let [once, again] = ["once", "again"].map(|name| {
        let (folder, kept) = (place.file("archive"), place.file(name));
        let ended = simulate(&args, &folder);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        // The folder's name is no part of it.
        fs::rename(&folder, &kept).expect("renamed");
        (ended, kept)
    });
    assert!(files(&once.1) == files(&again.1), "the archives differ");
    let report: Value = serde_json::from_str(&once.0.out).expect("JSON");
    let text = printed(&once.1, &[]);
    let enters = events(&text, "ENTER").len();
    // Each span, and the program of each rank.
    assert_eq!(enters as u64, report["spans"]["kept"].as_u64().expect("spans") + 4, "{:#}", report["spans"]);
    assert_eq!(enters, events(&text, "LEAVE").len());
    let puts = events(&text, "RMA_PUT");
    assert_eq!(puts.len() as u64, report["messages"]["delivered"].as_u64().expect("messages"));
    assert_eq!(events(&text, "RMA_OP_COMPLETE_REMOTE").len(), puts.len());
    let bytes = |line: &&str| line.split("Bytes: ").nth(1).and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
    let payload: u64 = puts.iter().map(|line| bytes(line).expect("bytes")).sum();
    assert_eq!(Some(payload), report["messages"]["payload_bytes"].as_u64());
    let definitions = printed(&once.1, &["-G"]);
    for part in [
        "Ticks per Seconds: 1000000000000",
        "\"torus16\"",
        "\"rank 3\"",
        "Type: ACCELERATOR_STREAM",
        "Class: \"fabric\"",
    ] {
        assert!(definitions.contains(part), "{part} in\n{definitions}");
    }
    let virtual_time = format!("Length: {}", report["virtual_time_ps"]);
    assert!(definitions.contains(&virtual_time), "{virtual_time} in\n{definitions}");
}

#[test]
fn an_archive_is_not_overwritten_and_traffic_has_none() {
    let place = Place::new("otf2-refused");
    let folder = place.file("archive");
    let args = ["-n", "2", "--machine", "pac", "--program", "ping-pong", "--trace-limit", "100"];
    let ended = simulate(&args, &folder);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("a larger --trace-limit keeps more"), "{}", ended.out);
    let ended = simulate(&args, &folder);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("holds an archive already, traces.otf2; name another folder"), "{}", ended.err);
    let ended = simulate(&["--machine", "torus16", "--traffic", "uniform"], &place.file("other"));
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("--otf2 is for programs"), "{}", ended.err);
    let ended = place.output(&["-n", "2", "--otf2", folder.to_str().expect("a path"), "true"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("holds an archive already"), "{}", ended.err);
}

#[test]
fn calls_of_a_live_program_are_events() {
    let place = Place::new("otf2-live");
    let (program, folder) = (compile(&place, "traced"), place.file("archive"));
    let path = folder.to_str().expect("a path");
    let ended = place.output(&["-n", "3", "--otf2", path, &program]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert_eq!(ended.out.matches("interposed 1").count(), 3, "{}", ended.out);
    let text = printed(&folder, &[]);
    let count = |kind: &str, part: &str| events(&text, kind).iter().filter(|line| line.contains(part)).count();
    assert_eq!(events(&text, "ENTER").len(), events(&text, "LEAVE").len());
    for (name, calls) in [
        ("shmem_init", 3),
        ("shmem_putmem", 3),
        ("shmem_long_put_nbi", 3),
        ("shmem_long_atomic_inc", 3),
        ("shmem_longdouble_g", 3),
        ("shmem_ctx_putmem", 2),
        ("shmem_finalize", 3),
    ] {
        assert_eq!(count("ENTER", &format!("\"{name}\"")), calls, "{name} in\n{text}");
    }
    assert_eq!(
        (count("RMA_PUT", "Bytes: 10,"), count("RMA_PUT", "Bytes: 8,"), count("RMA_PUT", "Bytes: 77,")),
        (3, 3, 2)
    );
    // PE 1 of the team of PEs 0 and 2 is PE 2 of the world.
    assert_eq!(
        events(&text, "RMA_PUT").iter().filter(|line| line.contains("Bytes: 77,") && line.contains("\"PE 2\"")).count(),
        2
    );
    assert_eq!((count("RMA_GET", "Bytes: 300,"), count("RMA_GET", "Bytes: 16,")), (3, 3));
    assert_eq!((count("RMA_ATOMIC", "FETCH_AND_ADD"), count("RMA_ATOMIC", " INCREMENT")), (3, 3));
    assert_eq!(count("RMA_OP_COMPLETE_NON_BLOCKING", ""), 3);
    assert_eq!(count("RMA_COLLECTIVE_END", "BARRIER"), 3);
    assert_eq!(count("RMA_COLLECTIVE_END", "ALLREDUCE"), 3);
    assert!(!folder.join("calls").exists(), "the records are removed");
}

#[test]
fn a_killed_program_leaves_its_calls() {
    let place = Place::new("otf2-killed");
    let (program, folder) = (compile(&place, "traced"), place.file("archive"));
    let ended = place.output(&["-n", "3", "--otf2", folder.to_str().expect("a path"), &program, "die"]);
    assert_eq!(ended.code, Some(128 + libc::SIGKILL), "{}", ended.err);
    assert!(
        (ended.err.contains("calls had not ended") || ended.err.contains("one call had not ended")),
        "{}",
        ended.err
    );
    let text = printed(&folder, &[]);
    let count = |name: &str| events(&text, "ENTER").iter().filter(|line| line.contains(name)).count();
    assert_eq!(count("\"shmem_long_sum_reduce\""), 3, "{text}");
    assert_eq!(events(&text, "ENTER").len(), events(&text, "LEAVE").len());
}
