// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim` with several jobs: the report on each, and what is refused.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Ended, Place};
use serde_json::Value;

fn sim(args: &[&str]) -> Ended {
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines/torus16.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["sim", "--machine"]).arg(machine).args(args).stdin(Stdio::null());
    Ended::from(command.output().expect("the command starts"))
}

fn json(args: &[&str]) -> Value {
    let ended = sim(&[args, &["--json"]].concat());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}");
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}:\n{}", ended.out))
}

#[test]
fn a_program_is_slowed_down_by_background() {
    let program = ["-n", "64", "--program", "all-to-all", "--sizes", "512", "--iterations", "1"];
    let plain = json(&program);
    assert!(plain.get("jobs").is_none());
    for network in ["packet", "message"] {
        let more = ["--placement", "spread", "--background", "uniform:0.5", "--network", network];
        let mut report = json(&[&program[..], &more].concat());
        let jobs = report["jobs"]["jobs"].take();
        let (solver, noise) = (&jobs[0], &jobs[1]);
        assert_eq!((&solver["name"], &noise["name"]), (&"all-to-all".into(), &"background".into()));
        assert_eq!((&solver["ranks"], &noise["ranks"]), (&64.into(), &192.into()));
        let slowdown = solver["slowdown"].as_f64().expect("it has run alone");
        assert!((1.01..10.0).contains(&slowdown), "{slowdown}");
        assert!(noise["slowdown"].is_null() && noise["background"] == true);
        let (asked, delivered) = (noise["load"]["asked"].as_f64(), noise["load"]["delivered"].as_f64());
        assert!(asked == Some(0.5) && delivered > Some(0.1), "{noise}");
        assert_eq!(report["jobs"]["shared_channels"].is_null(), network == "message");
    }
    // Rank 0 to 63 are on nodes 0 to 63 without --placement, and what runs alone is the same program.
    let beside = json(&[&program[..], &["--background", "neighbour:0.1"]].concat());
    assert_eq!(beside["jobs"]["jobs"][0]["alone"]["time_ps"], plain["virtual_time_ps"]);
}

#[test]
fn jobs_of_a_file_and_of_the_command_line_are_the_same() {
    let place = Place::new("sim-jobs");
    let text = "[[job]]\nname = \"a\"\nprogram = \"allreduce\"\nnodes = \"0-15\"\niterations = 3\n\n[[job]]\nname = \"b\"\n\
                traffic = \"incast:4\"\nmessages = 5\nnodes = \"16-31\"\n";
    std::fs::write(place.file("jobs.toml"), text).expect("a file");
    let file = place.file("jobs.toml").display().to_string();
    let without_wall = |ended: Ended| -> String {
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        ended.out.lines().filter(|line| !line.trim_start().to_lowercase().starts_with("wall")).collect()
    };
    let of_file = without_wall(sim(&["--jobs", &file]));
    let of_words = without_wall(sim(&[
        "--job",
        "a: program=allreduce nodes=0-15 iterations=3",
        "--job",
        "b: traffic=incast:4 messages=5 nodes=16-31",
    ]));
    assert_eq!(of_file, of_words);
    assert!(of_file.contains("Jobs") && of_file.contains("1.000"), "{of_file}");
    std::fs::write(place.file("jobs.toml"), text.replace("iterations", "iteration")).expect("a file");
    let ended = sim(&["--jobs", &file]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("jobs.toml:5: job a: unknown key iteration; did you mean iterations?"), "{}", ended.err);
}

#[test]
fn mistakes_in_jobs_are_refused_before_the_run() {
    for (args, part) in [
        (&["--background", "uniform:0.3"][..], "required"),
        (&["--traffic", "uniform", "--background", "uniform:0.3"], "are for programs"),
        (
            &["--job", "a: program=barrier nodes=0-3", "--job", "b: program=barrier nodes=3-4"],
            "node 3 belongs to job a",
        ),
        (&["--job", "a: program=barrier ranks=300"], "300 ranks"),
        (&["--job", "a: program=barrier"], "give its size"),
        (&["--program", "barrier", "--background", "uniform:0.3"], "no node is left"),
        (&["--program", "barrier", "-n", "4", "--job", "barrier: traffic=uniform"], "two of this name"),
        (&["--job", "a: traffic=uniform"], "--time-limit"),
        (&["--job", "a: traffic=transpose nodes=0-6 messages=1"], "square number"),
        (&["--job", "a b"], "NAME: KEY=VALUE"),
        (&["--program", "barrier", "-n", "4", "--nodes", "0-2"], "of --nodes"),
    ] {
        let ended = sim(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(part), "{args:?}: {}", ended.err);
    }
}
