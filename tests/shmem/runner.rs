// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of the OpenSHMEM suite. `tests/runner` explains how its cases run and how to choose among them.
//!
//! A variant selects the path of a PE to other PEs' symmetric memory. With `OSHCC`, `OSHCXX` and `OSHRUN` the cases run
//! on another OpenSHMEM, in one variant `other`, without the cases that need a feature of ours:
//!
//! ```text
//! OSHCC=oshcc OSHCXX=oshc++ OSHRUN="oshrun --oversubscribe" cargo test -p selvedge-shmem-tests -- rma
//! ```

mod compiler;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use selvedge_test_runner::{Exception, Start, Suite, Variant, files_with, run, tree};

/// Seconds that the launcher gives a case, and that the runner gives the launcher.
const CASE_LIMIT_S: u64 = 180;
const LAUNCHER_LIMIT_S: u64 = CASE_LIMIT_S + 30;

/// Feature of variants that map the memory of other PEs.
const MAPPED: &[&str] = &["mapped"];
/// Feature of variants with the clocks of a simulated machine.
const VIRTUAL_TIME: &[&str] = &["virtual_time"];

const NOT_SIMULATED: &[Exception] = &[
    ("data_segment::threads_that_run_already", ENDLESS),
    ("data_segment::counting_where_data_cannot_move", ENDLESS),
    ("endings::global_exit_in_a_program", "a program that a PE starts and waits for is not part of the simulation"),
    ("atomics::long_contention", LONG),
    ("atomics::exact_totals", LONG),
    ("atomics_bitwise::operations_mixed", LONG),
    ("counting::nothing_lost_under_load", LONG),
    ("strided::long_strided_bytes", LONG),
    ("strided::iget_every_shape", LONG),
];
const LONG: &str = "it sends hundreds of thousands of messages, and each takes a turn of a process: too long";
const ENDLESS: &str = "one process runs at a time, and a thread that computes without end never yields its turn";

/// Runs each PE as on its own host.
const APART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../hosts/apart");

fn main() -> ExitCode {
    run(find)
}

fn find() -> Result<Suite, String> {
    let others = tree::setting("OSHRUN").and_then(|words| words.into_string().ok());
    let is_ours = others.is_none();
    let compiler = compiler::compiler();
    if is_ours {
        let (library, c) = (tree::prefix().join("lib/libsma.so"), PathBuf::from(&compiler.c));
        tree::require([&library, &c, &tree::launcher()])?;
    }
    let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(if is_ours { "ours" } else { "other" });
    fs::create_dir_all(&output).map_err(|e| format!("{}: {e}", output.display()))?;
    Ok(Suite {
        name: "shmem",
        package: env!("CARGO_PKG_NAME"),
        test: "shmem",
        sources: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
        output,
        compiler,
        // Not the library: a program loads it at start.
        inputs: if is_ours { files_with(&tree::prefix().join("include"), &["h"]) } else { Vec::new() },
        variants: others.as_deref().map_or_else(variants, |words| vec![other(words)]),
        limit_s: LAUNCHER_LIMIT_S,
        cases_per_core: 1,
        stock: others,
        removed: &[],
        settings: &["SELVEDGE_PREFIX", "OSHCC", "OSHCXX", "OSHRUN"],
    })
}

fn variants() -> Vec<Variant> {
    let simulator = Start::Simulator { machine: "cluster", changes: &[], one_node: false, shared_file: None };
    vec![
        Variant { offers: MAPPED, ..live("in_place", &[]) },
        Variant { offers: MAPPED, crowded: true, ..live("crowded", &[]) },
        Variant { long: true, ..live("cma", &["--path", "cma"]) },
        Variant { long: true, ..live("bounce", &["--path", "bounce"]) },
        Variant { long: true, ..live("host", &["--mode", "host"]) },
        Variant { long: true, environment: over_links("hosts"), ..live("hosts", &[APART]) },
        Variant { long: true, environment: over_links("pairs"), ..live("pairs", &["env", "RANKS_OF_HOST=2", APART]) },
        Variant { offers: VIRTUAL_TIME, without: &[NOT_SIMULATED], ..variant("simulated", simulator) },
    ]
}

fn live(name: &'static str, arguments: &'static [&'static str]) -> Variant {
    let limit = CASE_LIMIT_S.to_string();
    let launcher = vec![tree::launcher().into(), "run".into(), "--timeout".into(), limit.into()];
    variant(name, Start::Launcher(launcher, arguments))
}

/// The PEs are on one host, where aggregation nodes would serve them. This makes their collectives use the links.
fn over_links(name: &'static str) -> Vec<(&'static str, OsString)> {
    vec![("SHMEM_TESTS_VARIANT", name.into()), ("SELVEDGE_SHMEM_COLLECTIVES", "0".into())]
}

fn other(words: &str) -> Variant {
    variant("other", Start::Launcher(words.split_whitespace().map(OsString::from).collect(), &[]))
}

/// Cases know the name of their variant.
fn variant(name: &'static str, start: Start) -> Variant {
    Variant { environment: vec![("SHMEM_TESTS_VARIANT", name.into())], ..Variant::new(name, start) }
}
