// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim --fail-link` and `--fail-router`, from the command line to the report.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The exit code, the output without lines of the wall clock, and the errors.
fn sim(machine: &Path, line: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["sim", "--machine"]).arg(machine).args(line.split_whitespace());
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| !line.trim_start().to_lowercase().starts_with("wall"));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), lines.map(|line| format!("{line}\n")).collect(), errors)
}

fn machines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines")
}

/// Three hosts that are joined by three cables; links and hosts as those of torus16.
fn triangle(folder: &Path) -> PathBuf {
    let graph = "router a\nrouter b\nrouter c\nlink a b\nlink b c\nlink a c\nnode x a\nnode y b\nnode z c\n";
    std::fs::write(folder.join("triangle.graph"), graph).expect("a file");
    let torus = std::fs::read_to_string(machines().join("torus16.toml")).expect("a machine");
    let links = torus.find("[link]").expect("a section");
    let head = "name = \"triangle\"\nabout = \"three hosts\"\n[topology]\nkind = \"file\"\nfile = \"triangle.graph\"\n\
                [routing]\nalgorithm = \"up-down\"\n";
    let file = folder.join("triangle.toml");
    std::fs::write(&file, format!("{head}{}", &torus[links..])).expect("a file");
    file
}

fn json(machine: &Path, line: &str) -> Value {
    let (code, text, errors) = sim(machine, &format!("{line} --json"));
    assert_eq!(code, Some(0), "{errors}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The page's data: vertices, links with the times of failures, and frames.
fn drawn(folder: &Path, machine: &Path, line: &str) -> Value {
    let file = folder.join("report.html");
    let (code, _, errors) = sim(machine, &format!("{line} --html {}", file.display()));
    assert_eq!(code, Some(0), "{errors}");
    let page = std::fs::read_to_string(file).expect("a report");
    let data = page.split("<script").find_map(|part| {
        let from = part.find("{\"frames\"")?;
        serde_json::Deserializer::from_str(&part[from..]).into_iter().next()?.ok()
    });
    data.unwrap_or_else(|| panic!("no topology in {} bytes", page.len()))
}

#[test]
fn pages_of_traffic_and_programs_draw_links_that_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = triangle(folder.path());
    for line in [
        "--traffic uniform --load 0.1 --load 0.3 --skip 0us --measured 2ms --fail-link a-b@100us-300us",
        "-n 3 --program barrier --fail-link a-b@100us-300us",
    ] {
        let data = drawn(folder.path(), &machine, line);
        let links = data["links"].as_array().expect("links");
        assert_eq!((data["vertices"].as_array().map(Vec::len), links.len()), (Some(3), 3), "{line}");
        let failures = serde_json::json!([[100_000.0, false], [300_000.0, true]]);
        assert_eq!(links.iter().filter(|link| link[3] == failures).count(), 1, "{line}: {links:?}");
        let (ends, heat) = (&data["frames"]["ends_ns"], data["frames"]["heat"].as_str().expect("digits"));
        assert_eq!(heat.len(), ends.as_array().expect("times").len() * 2 * 3);
        assert!(heat.chars().any(|digit| digit != 'A'), "{line}: no link was used");
    }
}

#[test]
fn a_triangle_without_a_link_loses_what_was_lost_before_its_routers_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = triangle(folder.path());
    let line = "--traffic uniform --load 0.3 --skip 0us --measured 4ms --drain 10ms --fail-link a-b@1ms-3ms";
    let result = |more: &str| json(&machine, &format!("{line} {more}"))["results"][0].clone();
    let (fixed, rerouted) = (result("--no-reroute"), result(""));
    let (waits, now) = (fixed["lost"].as_u64().unwrap(), rerouted["lost"].as_u64().unwrap());
    assert!(waits > 50 && now <= 2, "{waits}, {now}");
    assert!(fixed.get("rerouting").is_none() && fixed["lost_by_reason"].get("unreachable").is_none());
    let episodes = rerouted["rerouting"]["episodes"].as_array().unwrap();
    let changes: Vec<&str> = episodes.iter().map(|one| one["changes"][0].as_str().unwrap()).collect();
    assert_eq!(changes, ["link a-b fails", "link a-b returns"]);
    assert!(episodes.iter().all(|one| one["converged_ps"].as_u64().is_some_and(|time| time < 1_000_000_000)));
    // By hellos: what comes in the time of silence waits, and is lost when it is over or after 1 ms.
    let line = "--traffic uniform --load 0.3 --skip 0us --measured 8ms --drain 10ms --fail-link a-b@1ms";
    let result = |more: &str| json(&machine, &format!("{line} {more}"))["results"][0].clone();
    let (fixed, hellos) = (result("--no-reroute"), result("--fault-detection hellos"));
    let first = &hellos["rerouting"]["episodes"][0];
    let silence = hellos["rerouting"]["silence_ps"].as_u64().unwrap();
    assert!(first["noticed_ps"].as_u64().is_some_and(|time| time <= silence + 1000), "{first}");
    let (waits, found) = (fixed["lost"].as_u64().unwrap(), hellos["lost"].as_u64().unwrap());
    assert!(found > now && found * 2 < waits, "{found} of {waits}");
}

#[test]
fn the_report_has_a_row_for_each_change_and_two_runs_are_equal() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = triangle(folder.path());
    let page = folder.path().join("report.html");
    let line = format!("--traffic uniform --measured 2ms --fail-router c@500us --html {}", page.display());
    let (code, text, errors) = sim(&machine, &line);
    assert_eq!(code, Some(0), "{errors}");
    let row = text.lines().find(|line| line.contains("router c fails")).unwrap_or_else(|| panic!("{text}"));
    assert!(row.contains("+0.000 ns") && row.contains("unreachable") && row.contains("2 routers"), "{row}");
    assert!(text.contains("failed router") && text.contains("c from 500.000 us"), "{text}");
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("Rerouting") && html.contains("router c fails"));
    assert_eq!(sim(&machine, &line).1, text);
}

#[test]
fn programs_go_on_in_both_models() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = triangle(folder.path());
    for network in ["packet", "message"] {
        let line = format!("-n 3 --program all-to-all --sizes 64 --network {network}");
        // The link is gone before the run, so nothing is lost.
        let report = json(&machine, &format!("{line} --fail-link a-b@0us"));
        let episode = &report["rerouting"]["episodes"][0];
        assert_eq!((report["end"].as_str(), report["messages"]["lost"].as_u64()), (Some("completed"), Some(0)));
        assert_eq!((episode["converged_ps"].as_u64(), episode["routers_rerouted"].as_u64()), (Some(0), Some(3)));
        assert!(json(&machine, &line).get("rerouting").is_none());
    }
}

#[test]
fn wrong_values_name_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |machine: &Path, line: &str| {
        let (code, _, errors) = sim(machine, line);
        assert_eq!(code, Some(2), "{errors}");
        errors
    };
    let machine = triangle(folder.path());
    assert!(refused(&machine, "--traffic uniform --fail-router d").contains("routers 0 to 2, the first named a"));
    assert!(refused(&machine, "--traffic uniform --fail-router a@2us-1us").contains("must be after the first"));
    assert!(refused(&machine, "--describe --fail-router a").contains("--fail-router"));
    let torus = machines().join("torus16.toml");
    let large = "--set topology.dimensions=[64,64] --traffic uniform --fail-router 5";
    assert!(refused(&torus, large).contains("--no-reroute"));
}
