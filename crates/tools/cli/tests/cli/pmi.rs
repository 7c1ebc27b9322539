// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge run` as its ranks see it: PMI-1, barriers without dead ranks, tombstones, aborts.

use std::process::Command;

use crate::common::{Place, example};

#[test]
fn another_implementation_of_the_client_works() {
    let place = Place::new("wire");
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: python3 is not installed");
        return;
    }
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/pmi_client.py");
    let ended = place.output(&["-n", "3", "--tag-output", "python3", client]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.lines(), ["[0] rank 0 ok", "[1] rank 1 ok", "[2] rank 2 ok"]);
}

#[test]
fn one_program_after_another() {
    let place = Place::new("sequence");
    let rank = example("rank");
    let ended = place.output(&["-n", "3", "sh", "-c", &format!("{rank} hello && {rank} hello && {rank} leave")]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.lines().len(), 6);
}

#[test]
fn survivors_pass_barriers_and_find_which_rank_is_missing() {
    let place = Place::new("survivors");
    let ended = place.output(&["-n", "4", "--keep-going", &example("rank"), "die", "2"]);
    assert_eq!(ended.code, Some(137), "{ended:?}");
    assert_eq!(ended.lines(), ["rank 0 misses rank 2", "rank 1 misses rank 2", "rank 3 misses rank 2"]);
    assert_eq!(ended.reports().len(), 1, "{ended:?}");
    assert!(ended.reports()[0].contains("rank 2 (pid ") && ended.reports()[0].ends_with("was killed by SIGKILL"));
}

#[test]
fn a_rank_that_exits_without_leaving_blocks_no_other() {
    let place = Place::new("silent");
    let ended = place.output(&["-n", "3", &example("rank"), "silent", "1"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn an_abort_ends_all_ranks_with_its_code() {
    let place = Place::new("abort");
    for keep_going in [&[][..], &["--keep-going"]] {
        for (asked, code) in [("9", 9), ("256", 1)] {
            let ended = place.output(&[keep_going, &["-n", "3", &example("rank"), "abort", "1", asked]].concat());
            assert_eq!(ended.code, Some(code), "{ended:?}");
            let reports = ended.reports();
            assert_eq!(reports.len(), 1, "{ended:?}");
            assert!(reports[0].contains("rank 1 (pid "), "{ended:?}");
            assert!(reports[0].ends_with(&format!("aborted the job with code {asked}")), "{ended:?}");
            assert!(ended.err.contains(&format!("selvedge: rank 1 aborts the job with code {asked}: as asked")));
        }
    }
}

/// Other libraries' `shmem_global_exit(0)` is such an abort, and hydra exits with 0.
#[test]
fn an_abort_with_code_0_ends_all_ranks_and_is_no_failure() {
    let place = Place::new("finish");
    let ended = place.output(&["-n", "3", &example("rank"), "abort", "1", "0"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.reports().is_empty(), "{ended:?}");
}

/// Rank 0 is a shell that waits until rank 1 has ended, and prints the tombstones.
fn tombstones_after(place: &Place, rank_1: &str) -> Vec<String> {
    let script = format!(
        "if test $SELVEDGE_RANK = 1; then echo $$ > $PLACE/pid; {rank_1}; fi; \
         while ! test -s $PLACE/pid; do sleep 0.02; done; \
         while kill -0 $(cat $PLACE/pid) 2> /dev/null; do sleep 0.02; done; \
         cd $SELVEDGE_DIR/selvedge-$(id -u)/$SELVEDGE_JOB; \
         for file in *.dead; do if test -e $file; then cat $file; fi; done"
    );
    let ended = place.output(&["-n", "2", "--keep-going", "sh", "-c", &script]);
    std::fs::remove_file(place.file("pid")).expect("written by rank 1");
    ended.lines().into_iter().map(str::to_owned).collect()
}

#[test]
fn ranks_that_ended_early_have_tombstones() {
    let place = Place::new("tombstones");
    for (rank_1, how) in [
        ("kill -KILL $$", "was killed by SIGKILL"),
        ("exit 7", "exited with status 7"),
        ("exit 0", "exited with status 0"),
    ] {
        let stones = tombstones_after(&place, rank_1);
        assert_eq!(stones.len(), 1, "{rank_1}");
        assert!(stones[0].contains("\"rank\":1") && stones[0].contains(how), "{stones:?}");
    }
    let leave = format!("exec {} leave", example("rank"));
    assert!(tombstones_after(&place, &leave).is_empty(), "it left in order");
}

#[test]
fn a_dead_claimant_below_a_rank_gets_a_tombstone_too() {
    let place = Place::new("claimant");
    // A script started this killed process, which left a claim: 2^22 is larger than every pid.
    let rank_1 = "cd $SELVEDGE_DIR/selvedge-$(id -u)/$SELVEDGE_JOB; echo 4194305 1 > 5.claim; exit 9";
    let stones = tombstones_after(&place, rank_1);
    assert_eq!(stones.len(), 2, "{stones:?}");
    assert!(stones.iter().any(|stone| stone.contains("\"pid\":4194305") && stone.contains("\"rank\":1")), "{stones:?}");
}
