// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim`, the network under study: routes of a file, routing strings, samples, applets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Ended, Place, compile_text};
use serde_json::Value;

fn machine(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../../machines/{name}.toml"))
}

fn sim(machine: &Path, args: &str) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["sim", "--machine"]).arg(machine).args(args.split_whitespace()).stdin(Stdio::null());
    Ended::from(command.output().expect("the command starts"))
}

fn json(ended: &Ended) -> Value {
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}:\n{}", ended.out))
}

fn hops(routes: &Value, at: usize) -> Vec<&str> {
    let hops = routes["routes"][at]["hops"].as_array().expect("hops");
    hops.iter().map(|hop| hop["to"].as_str().expect("a name")).collect()
}

#[test]
fn routing_strings_are_printed_for_each_direction() {
    let torus = machine("torus16");
    let plain = sim(&torus, "--routes 0 2");
    assert_eq!(plain.code, Some(0), "{}", plain.err);
    assert!(plain.out.contains("From node 0 to node 2") && plain.out.contains("routing string"), "{}", plain.out);
    let there_and_back = json(&sim(&torus, "--routes 0 2 --json"));
    assert_eq!(there_and_back["schema"], "selvedge.sim.routes/1");
    assert_eq!(hops(&there_and_back, 0).last(), Some(&"node 2"));
    assert_eq!(hops(&there_and_back, 1).last(), Some(&"node 0"));
    let up_down = json(&sim(&torus, "--routes 0 17 --set routing.algorithm=up-down --json"));
    assert_eq!(up_down["routing"], "up-down");
}

#[test]
fn routes_of_a_file_are_taken_and_the_wrong_ones_refused_by_line() {
    let place = Place::new("sim-routes");
    let torus = machine("torus16");
    let file = place.file("routes");
    std::fs::write(&file, "0 1 via (0,1) (1,1) (1,0) # a detour\n").unwrap();
    let given = format!("--routes-from {}", file.display());
    let routes = json(&sim(&torus, &format!("--routes 0 1 --json {given}")));
    assert_eq!(hops(&routes, 0), ["(0,1)", "(1,1)", "(1,0)", "node 1"]);
    let traffic = "--traffic neighbour --load 0.5 --skip 1us --measured 20us --json";
    let (plain, detour) = (json(&sim(&torus, traffic)), json(&sim(&torus, &format!("{traffic} {given}"))));
    let mean = |report: &Value| report["results"][0]["hops_mean"].as_f64().expect("a mean");
    assert!(mean(&detour) > mean(&plain), "{} {}", mean(&detour), mean(&plain));
    std::fs::write(&file, "\n0 1 via (5,5)\n").unwrap();
    let wrong = sim(&torus, &format!("{traffic} {given}"));
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("line 2, hop 1: no link joins (0,0) and (5,5)"), "{}", wrong.err);
}

#[test]
fn samples_are_equal_in_two_runs_and_change_nothing() {
    let place = Place::new("sim-samples");
    let torus = machine("torus16");
    let traffic = "--traffic uniform --load 0.4 --skip 1us --measured 20us";
    let files = [place.file("a.csv"), place.file("b.csv")];
    let runs = files.each_ref().map(|file| sim(&torus, &format!("{traffic} --sample 2us:{}", file.display())));
    let [a, b] = files.each_ref().map(|file| std::fs::read_to_string(file).expect("a file"));
    assert_eq!(a, b);
    let virtual_only = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.trim_start().to_lowercase().starts_with("wall")).map(str::to_owned).collect()
    };
    assert_eq!(virtual_only(&runs[0].out), virtual_only(&sim(&torus, traffic).out));
    let mut lines = a.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with("start_ns,interval_ns,channel,from,to,bytes,")));
    let mut per_interval: BTreeMap<&str, u32> = BTreeMap::new();
    lines.for_each(|line| *per_interval.entry(line.split(',').next().unwrap_or("")).or_default() += 1);
    assert!(per_interval.len() >= 10, "{per_interval:?}");
}

#[test]
fn a_program_is_sampled_as_traffic_is() {
    let place = Place::new("sim-program-samples");
    let file = place.file("samples.csv");
    let args = format!("--program all-to-all -n 16 --quiet --sample 1us:{}", file.display());
    let ended = sim(&machine("torus16"), &args);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(std::fs::read_to_string(file).expect("a file").lines().count() > 100);
}

const APPLET: &str = r#"
#include <swordfish.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (SWORDFISH_Send(0, 0, NULL, 0) != SWORDFISH_ERR_JOB || SWORDFISH_Finish() != SWORDFISH_ERR_JOB) return 3;
    if (SWORDFISH_Init(&argc, &argv) != SWORDFISH_SUCCESS) return 4;
    uint64_t begin = SWORDFISH_Time(), token = 0;
    int rank = SWORDFISH_Rank(), size = SWORDFISH_Size();
    if (rank > 0 && SWORDFISH_RecvFrom(rank - 1, &token, sizeof token, NULL) != SWORDFISH_SUCCESS) return 5;
    SWORDFISH_ConsumeTime(1000000);
    token += SWORDFISH_Time() - begin >= 1000000;
    if (SWORDFISH_Send((rank + 1) % size, 9, &token, sizeof token) != SWORDFISH_SUCCESS) return 6;
    if (rank == 0 && SWORDFISH_RecvTag(9, &token, sizeof token, NULL) != SWORDFISH_SUCCESS) return 7;
    if (rank == 0) printf("%d ranks, %d computed, %d ms\n", size, (int)token, (int)((SWORDFISH_Time() - begin) / 1000000));
    return SWORDFISH_Finish() == SWORDFISH_SUCCESS ? 0 : 8;
}
"#;

/// The same binary runs live and in virtual time, where the ranks' computing adds up to the millisecond.
#[test]
fn an_applet_runs_live_and_simulated() {
    let place = Place::new("applet");
    let program = compile_text("applet", APPLET, &["swordfish"]);
    let live = place.output(&["-n", "3", "--timeout", "60", &program]);
    assert_eq!(live.code, Some(0), "{}", live.err);
    assert!(live.out.starts_with("3 ranks, 3 computed, "), "{}", live.out);
    let run = || sim(&machine("atoll"), &format!("-n 5 --quiet -- {program}"));
    let simulated = run();
    assert_eq!((simulated.code, simulated.err.as_str()), (Some(0), ""));
    assert_eq!(simulated.out, "5 ranks, 5 computed, 5 ms\n");
    assert_eq!(simulated.out, run().out);
}
