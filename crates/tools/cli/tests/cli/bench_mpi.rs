// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge bench mpi`: missing parts are reported before anything is measured. If an MPI and libfabric are installed,
//! the MPI is measured over its own transport and over a libfabric provider, and both are compared. The provider is
//! libfabric's `tcp`, so no built tree is needed. No test checks a time against a limit.

use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &[&str], environment: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["bench", "mpi"]).args(arguments).envs(environment.iter().copied());
    command.output().expect("the program starts")
}

fn errors_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_missing_provider_is_reported_first() {
    let tree = tempfile::tempdir().unwrap();
    let output = bench(&["--smoke"], &[("SELVEDGE_PREFIX", tree.path())]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors_of(&output).contains("libselvedge-fi.so: no such file"), "{}", errors_of(&output));
}

#[test]
fn without_an_mpi_it_reports_how_to_get_one() {
    let tree = tempfile::tempdir().unwrap();
    let nowhere = [
        ("SELVEDGE_PREFIX", tree.path()),
        ("SELVEDGE_OPENMPI", Path::new("/nonexistent")),
        ("SELVEDGE_MPICH", Path::new("/nonexistent")),
    ];
    let output = bench(&["--smoke", "--provider", "tcp"], &nowhere);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors_of(&output).contains("make peers"), "{}", errors_of(&output));
    assert_eq!(bench(&["--smoke", "no-such-thing"], &nowhere).status.code(), Some(2));
}

#[test]
fn both_sides_are_measured_and_compared() {
    let prefix = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../build/peers/mpich");
    if !prefix.join("bin/mpicc").is_file() {
        eprintln!("skipped: no MPICH in build/peers (`make peers`)");
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    let json = tree.path().join("records.json");
    let arguments = ["--smoke", "--provider", "tcp", "--mpi", "mpich", "latency", "--json", json.to_str().unwrap()];
    let output = bench(&arguments, &[("SELVEDGE_PREFIX", tree.path()), ("SELVEDGE_MPICH", &prefix)]);
    assert!(output.status.success(), "{}", errors_of(&output));
    let records: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let records = records.as_array().unwrap();
    let compared = |record: &&serde_json::Value| record["against"] == "mpich_own:pingpong";
    let compared: Vec<_> = records.iter().filter(compared).collect();
    assert_eq!(compared.len(), 2, "{records:?}");
    assert!(compared.iter().all(|r| r["case"] == "mpich:pingpong" && r["ratio"].as_f64().is_some_and(|v| v > 0.0)));
}
