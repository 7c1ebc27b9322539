// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every benchmark case runs in a tiny version and prints plausible figures. No test checks a time against a limit.
//! Only an impossible result fails, such as a median above the 99th percentile, or a missing case.
//!
//! Needs a built tree (`make build`): the one in SELVEDGE_PREFIX, else `build/` of this repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Map, Value};

const FIELDS: [&str; 9] =
    ["case", "size_bytes", "depth", "median_ns", "p99_ns", "rate_per_s", "bandwidth_Bps", "against", "ratio"];

fn tree() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../build");
    let tree = std::env::var_os("SELVEDGE_PREFIX").map_or(here, PathBuf::from);
    assert!(tree.join("libexec/selvedge/latency").is_file(), "no built tree at {}: `make build`", tree.display());
    tree
}

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.arg("bench").args(arguments).env("SELVEDGE_PREFIX", tree());
    command.output().expect("the program starts")
}

fn errors_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

type Row = Map<String, Value>;

fn rows(output: &Output) -> Vec<Row> {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("not an array of records: {e}\n{}", errors_of(output)))
}

fn number(row: &Row, field: &str) -> Option<f64> {
    row[field].as_f64()
}

fn check(row: &Row) {
    let mut fields: Vec<&str> = row.keys().map(String::as_str).collect();
    let mut wanted = FIELDS.to_vec();
    fields.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(fields, wanted);
    assert!(row["case"].is_string() && (row["against"].is_string() || row["against"].is_null()), "{row:?}");
    for field in ["size_bytes", "depth"] {
        assert!(row[field].is_u64() || row[field].is_null(), "{field} of {row:?}");
    }
    for field in ["median_ns", "p99_ns", "rate_per_s", "bandwidth_Bps", "ratio"] {
        let sane = row[field].is_null() || number(row, field).is_some_and(|v| v.is_finite() && v > 0.0);
        assert!(sane, "{field} of {row:?}");
    }
    let figures = ["median_ns", "rate_per_s", "bandwidth_Bps", "ratio"]; // instructions have only a ratio
    assert!(figures.iter().any(|f| number(row, f).is_some()), "no figure: {row:?}");
    if let (Some(median), Some(p99)) = (number(row, "median_ns"), number(row, "p99_ns")) {
        assert!(median <= p99, "{row:?}");
    }
    assert_eq!(row["against"].is_null(), row["ratio"].is_null(), "{row:?}");
}

/// Required comparisons, and the sizes or depths that must have a row.
const EXPECTED: &[(&str, Option<&str>, usize)] = &[
    ("raw_flag", None, 1),
    ("counting_put", Some("raw_flag"), 1),
    ("counting_put_ordinary", Some("raw_flag"), 1),
    ("counting_put_ordinary", Some("counting_put"), 2),
    ("put_flag", Some("counting_put"), 2),
    ("matched_put_event", Some("raw_flag"), 1),
    ("get", Some("2 x raw_flag"), 1),
    ("fetch_atomic", Some("2 x raw_flag"), 1),
    ("bandwidth_shared", Some("memcpy_shared"), 1),
    ("bandwidth_shared_hot", Some("memcpy_shared_hot"), 1),
    ("bandwidth_cma", Some("memcpy_ordinary"), 1),
    ("match_posted", Some("match_posted Q=16"), 3),
    ("match_unexpected", Some("match_unexpected Q=16"), 3),
    ("overlap_target", Some("overlap_target:alone"), 1),
    ("overlap_target", Some("overlap_target:memcpy"), 1),
    ("overlap_target_host", Some("overlap_target_host:alone"), 1),
    ("overlap_target_host", Some("overlap_target_host:memcpy"), 1),
    ("triggered_barrier", Some("host_barrier"), 2),
    ("triggered_allreduce", Some("host_allreduce"), 2),
];

#[test]
fn every_case_runs() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.html");
    let output = bench(&["--smoke", "--json", "--peers", "none", "--html", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", errors_of(&output));
    let rows = rows(&output);
    rows.iter().for_each(check);
    for (case, against, count) in EXPECTED {
        let found = rows.iter().filter(|r| r["case"] == *case && r["against"].as_str() == *against).count();
        assert_eq!(found, *count, "{case} against {against:?}\n{}", errors_of(&output));
    }
    let rate = rows.iter().find(|r| r["case"] == "message_rate").expect("message_rate");
    assert!(number(rate, "rate_per_s").is_some() && rate["depth"] == 64);
    let matched = rows.iter().find(|r| r["case"] == "match_posted" && r["depth"] == 16).expect("match_posted at 16");
    assert_eq!(number(matched, "ratio"), Some(1.0), "against itself");
    let page = std::fs::read_to_string(file).unwrap();
    for word in
        ["<h2>Latency</h2>", "<td>counting_put</td>", "href=\"#plot-latency-8\"", "id=\"plot-latency-8\"", "</html>"]
    {
        assert!(page.contains(word), "{word}: {page}");
    }
    assert!(!page.contains("src=") && !page.contains("@import"), "it needs no other file");
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_before_anything_is_measured() {
    for group in [&["--smoke"][..], &["mpi", "--smoke"], &["hosts", "--smoke"]] {
        let output = bench(&[group, &["--html", "/no/such/folder/page.html"]].concat());
        let errors = errors_of(&output);
        assert!(!output.status.success() && output.stdout.is_empty(), "{group:?}");
        assert!(errors.contains("--html /no/such/folder/page.html: there is no folder /no/such/folder"), "{errors}");
    }
}

const EXPECTED_SHMEM: &[(&str, Option<&str>, usize)] = &[
    ("shmem_raw", None, 1),
    ("shmem_put", Some("shmem_raw"), 1),
    ("shmem_counting_put", Some("shmem_raw"), 1),
    ("shmem_put_flag", Some("shmem_counting_put"), 2),
    ("shmem_put_signal", Some("shmem_counting_put"), 2),
    ("shmem_put_signal_add", Some("shmem_counting_put"), 2),
    ("shmem_get", Some("2 x shmem_raw"), 1),
    ("shmem_fetch_add", Some("2 x shmem_raw"), 1),
    ("shmem_atomic_add", None, 1),
    ("shmem_p", None, 1),
    ("shmem_barrier", None, 2),
    ("shmem_sum8", None, 2),
    ("shmem_alltoall_barrier", Some("shmem_alltoall_counting"), 8),
    ("shmem_alltoall_flags", Some("shmem_alltoall_counting"), 8),
    ("shmem_stencil_flags", Some("shmem_stencil_counting"), 3),
    ("shmem_stencil_signal", Some("shmem_stencil_counting"), 3),
    ("shmem_put_flag_host", Some("shmem_counting_put_host"), 2),
    ("shmem_put_signal_host", Some("shmem_counting_put_host"), 2),
    ("shmem_alltoall_barrier_host", Some("shmem_alltoall_counting_host"), 2),
    ("shmem_alltoall_flags_host", Some("shmem_alltoall_counting_host"), 2),
    ("shmem_stencil_flags_host", Some("shmem_stencil_counting_host"), 1),
    ("shmem_stencil_signal_host", Some("shmem_stencil_counting_host"), 1),
];

#[test]
fn every_openshmem_case_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let output = bench(&["shmem", "--smoke", "--json", "--peers", "none", "--docs", path]);
    assert!(output.status.success(), "{}", errors_of(&output));
    let rows = rows(&output);
    rows.iter().for_each(check);
    for (case, against, count) in EXPECTED_SHMEM {
        let found = rows.iter().filter(|r| r["case"] == *case && r["against"].as_str() == *against).count();
        assert_eq!(found, *count, "{case} against {against:?}\n{}", errors_of(&output));
    }
    let counted = rows.iter().any(|r| r["case"] == "shmem_p_instructions" && r["against"] == "1 instruction");
    assert!(counted || errors_of(&output).contains("valgrind"), "{}", errors_of(&output));
    let page = std::fs::read_to_string(directory.path().join("benchmarks-shmem.md")).unwrap();
    assert!(page.contains("| shmem_counting_put | 8 B |") && page.contains("shmem-latency.svg"), "{page}");
    assert!(!directory.path().join("benchmarks.md").exists(), "nothing of the other group was measured");
}

const EXPECTED_EXTOLL: &[(&str, Option<&str>, usize)] = &[
    ("extoll_raw", None, 1),
    ("extoll_velo", Some("extoll_raw"), 1),
    ("extoll_velo_rate", None, 1),
    ("extoll_put", Some("extoll_raw"), 1),
    ("extoll_put_polled", Some("extoll_raw"), 1),
    ("extoll_immediate_put", Some("extoll_raw"), 1),
    ("extoll_notification_put", Some("extoll_raw"), 1),
    ("extoll_get", Some("2 x extoll_raw"), 1),
    ("extoll_lock", Some("2 x extoll_raw"), 1),
    ("extoll_put_bandwidth", None, 1),
    ("extoll_get_bandwidth", None, 1),
    ("extoll_register", None, 2),
    ("extoll_unregister", None, 2),
    ("extoll_protocol_tiny", Some("extoll_raw"), 1),
    ("extoll_protocol_small", Some("extoll_raw"), 1),
    ("extoll_protocol_medium", Some("extoll_protocol_small"), 2),
    ("extoll_protocol_long", Some("extoll_protocol_medium"), 2),
    ("extoll_overlap_put", Some("extoll_overlap_put:alone"), 2),
    ("extoll_overlap_get", Some("extoll_overlap_get:alone"), 2),
    ("extoll_overlap_put_host", Some("extoll_overlap_put_host:alone"), 2),
    ("extoll_overlap_get_host", Some("extoll_overlap_get_host:alone"), 2),
];

#[test]
fn every_extoll_case_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let output = bench(&["extoll", "--smoke", "--json", "--peers", "none", "--docs", path]);
    assert!(output.status.success(), "{}", errors_of(&output));
    let rows = rows(&output);
    rows.iter().for_each(check);
    for (case, against, count) in EXPECTED_EXTOLL {
        let found = rows.iter().filter(|r| r["case"] == *case && r["against"].as_str() == *against).count();
        assert_eq!(found, *count, "{case} against {against:?}\n{}", errors_of(&output));
    }
    let page = std::fs::read_to_string(directory.path().join("benchmarks-extoll.md")).unwrap();
    assert!(page.contains("| extoll_velo | 8 B |") && page.contains("extoll-latency.svg"), "{page}");
}

#[test]
fn peers_run_or_are_reported() {
    let output = bench(&["ucx", "openmpi:pingpong", "mpich:match_unexpected", "oshmem:put", "--smoke", "--json"]);
    assert!(output.status.success(), "{}", errors_of(&output));
    let rows = rows(&output);
    rows.iter().for_each(check);
    let ucx = ["ucx:am_lat", "ucx:put_lat", "ucx:am_rate", "ucx:put_bw"];
    for peer in ucx.into_iter().chain(["openmpi:pingpong", "mpich:match_unexpected", "oshmem:put"]) {
        let measured = rows.iter().any(|r| r["case"] == peer);
        assert!(measured || errors_of(&output).contains(peer), "{peer} is neither measured nor named");
    }
}

#[test]
fn a_page_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("docs");
    let output = bench(&["counting_put", "--smoke", "--docs", path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", errors_of(&output));
    let page = std::fs::read_to_string(path.join("benchmarks.md")).unwrap();
    assert!(page.contains("| counting_put | 8 B |") && page.contains("latency.svg"));
    assert!(path.join("latency.svg").is_file());
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("counting_put") && table.contains("ratio"), "{table}");
}

#[test]
fn wrong_arguments_are_reported() {
    let output = Command::new(env!("CARGO_BIN_EXE_selvedge")).args(["bench", "no_such_case"]).output().unwrap();
    assert!(!output.status.success());
    assert!(errors_of(&output).contains("no_such_case"));
}

#[test]
fn cases_are_listed() {
    let output = Command::new(env!("CARGO_BIN_EXE_selvedge")).args(["bench", "--list"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for (case, _, _) in EXPECTED.iter().chain(EXPECTED_SHMEM) {
        assert!(text.lines().any(|line| line.split(' ').next() == Some(*case)), "{case}");
    }
}
