// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole runs of `selvedge sim`: memory for each node, and the same result on a computer that is busy
//! with other work.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Ended, Place};
use serde_json::Value;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn sim(machine: &str, args: &[&str]) -> Command {
    let file = workspace().join(format!("machines/{machine}.toml"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["sim", "--machine"]).arg(file).args(args).stdin(Stdio::null());
    command
}

/// The built tree.
fn tree() -> PathBuf {
    std::env::var_os("SELVEDGE_PREFIX").map_or_else(|| workspace().join("build"), PathBuf::from)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

/// A network alone has no NIC tables: a node costs its router, its links and the packets on them. A machine of this size may cost
/// 64 KiB a node with everything on it; its network must stay below an eighth of that.
#[test]
fn a_network_of_65536_nodes_takes_few_bytes_for_each() {
    const NODES: u64 = 65_536;
    let args = "--set topology.dimensions=[32,32,64] --traffic uniform --load 0.2 --skip 1us --measured 4us --json";
    let args: Vec<&str> = args.split(' ').collect();
    let ended = Ended::from(sim("torus16", &args).output().expect("the command starts"));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let report = json(&ended.out);
    assert_eq!(report["machine"]["nodes"], NODES);
    let result = &report["results"][0];
    // The longest path across 32 x 32 x 64 has 8 + 8 + 16 links, and so 33 routers.
    let hops = result["hops_mean"].as_f64().expect("a mean");
    assert!((32.0..34.0).contains(&hops), "{hops} hops");
    assert!(result["packets"].as_u64() > Some(NODES / 20) && result["stopped"].is_null(), "{result}");
    let whole = &result["whole_run"];
    assert_eq!(
        whole["injected"].as_u64(),
        Some(whole["delivered"].as_u64().unwrap() + whole["under_way"].as_u64().unwrap())
    );
    // The command reads the peak memory of its own process (VmHWM) at its end.
    let peak = report["wall"]["memory_peak_bytes"].as_u64().expect("Linux tells it");
    assert!(peak / NODES <= 8 << 10, "{} bytes for each node", peak / NODES);
}

/// Keeps every processor busy until it is dropped, with two threads for each.
struct Load {
    over: &'static AtomicBool,
    threads: Vec<std::thread::JoinHandle<u64>>,
}

impl Load {
    fn new() -> Load {
        let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let count = 2 * std::thread::available_parallelism().map_or(2, usize::from);
        let spin = move || {
            let mut rounds = 0u64;
            while !over.load(Ordering::Relaxed) {
                rounds = std::hint::black_box(rounds + 1);
            }
            rounds
        };
        Load { over, threads: (0..count).map(|_| std::thread::spawn(spin)).collect() }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            assert!(thread.join().is_ok_and(|rounds| rounds > 0), "a thread that was to be busy was not");
        }
    }
}

/// The results of a run, without those of the wall clock.
#[derive(PartialEq)]
struct Results {
    printed: String,
    report: Value,
    timeline: Vec<u8>,
}

fn run_example(place: &Place, name: &str, args: &[&str]) -> Results {
    let tree = tree();
    let program = tree.join("examples").join(name);
    assert!(program.exists(), "{} is missing: run `make build`, or set SELVEDGE_PREFIX", program.display());
    let (report, timeline) = (place.file("report.json"), place.file("timeline.json"));
    let mut command = sim("torus16", &["-n", "6", "--quiet", "--json"]);
    command.arg(&report).arg("--trace").arg(&timeline).arg("--").arg(program).args(args);
    let ended = Ended::from(command.env("SELVEDGE_PREFIX", tree).output().expect("the command starts"));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{name}");
    let mut report = json(&std::fs::read_to_string(report).expect("a report"));
    report.as_object_mut().expect("an object").remove("wall").expect("what the clock says");
    Results { printed: ended.out, report, timeline: std::fs::read(timeline).expect("a timeline") }
}

#[test]
fn real_processes_do_the_same_on_a_computer_that_is_busy() {
    for (name, args) in [("halo2d", &["64", "20"][..]), ("triggered_barrier", &["100"])] {
        let place = Place::new(&format!("busy-{name}"));
        let idle = run_example(&place, name, args);
        let busy = {
            let _load = Load::new();
            run_example(&place, name, args)
        };
        assert!(idle.report["messages"]["delivered"].as_u64() > Some(10) && !idle.printed.is_empty(), "{name}");
        assert_eq!(idle.printed, busy.printed, "{name}");
        assert_eq!(idle.report["hash"], busy.report["hash"], "{name}");
        assert!(idle == busy, "{name}: the reports or the timelines differ:\n{:#}\n{:#}", idle.report, busy.report);
    }
}

#[test]
fn switches_reduce_for_programs_on_machines_that_say_so() {
    let refused = |machine: &str, args: &[&str]| {
        let output = sim(machine, args).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = refused("pac", &["-n", "2", "--aggregation", "--", "true"]);
    assert!(text.contains("pac has no aggregation nodes: add a section [aggregation] to its file"), "{text}");
    let text = refused("switchib2", &["-n", "2", "--aggregation", "--program", "allreduce"]);
    assert!(text.contains("built-in programs have --algorithm switches"), "{text}");
    // More than there is room for is refused; without a number there are as many as fit.
    let text = refused("quantum", &["-n", "2", "--aggregation=16", "--", "true"]);
    assert!(text.contains("form fewer groups"), "{text}");
    let mut fits = sim("quantum", &["-n", "2", "--aggregation", "--quiet", "--", "true"]);
    let output = fits.env("SELVEDGE_PREFIX", tree()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
