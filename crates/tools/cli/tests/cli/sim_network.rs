// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim`, the network under study: routes of a file, routing strings, samples, dumps of links, statistics
//! plug-ins, applets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Ended, Place, compile_text};
use serde_json::Value;

fn machine(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../../machines/{name}.toml"))
}

fn sim(machine: &Path, args: &str) -> Ended {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../build");
    let tree = std::env::var_os("SELVEDGE_PREFIX").map_or(built, PathBuf::from);
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command
        .env("SELVEDGE_PREFIX", tree)
        .args(["sim", "--machine"])
        .arg(machine)
        .args(args.split_whitespace())
        .stdin(Stdio::null());
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
fn traffic_on_several_threads_has_the_same_report() {
    let dragonfly = machine("dragonfly1056");
    let traffic = "--traffic uniform --load 0.5 --skip 500ns --measured 1us --drain 10us --json";
    let [one, two] = [1, 2].map(|threads| sim(&dragonfly, &format!("{traffic} --threads {threads}")));
    let without_wall = |ended: &Ended| {
        let mut report = json(ended);
        report.as_object_mut().expect("a report").remove("wall").expect("wall times");
        report
    };
    assert_eq!(without_wall(&one), without_wall(&two));
    assert!(json(&one)["results"][0]["packets"].as_u64().expect("packets") > 1_000);
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

fn check(file: &Path) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["fabric", "check"]).arg(file).stdin(Stdio::null());
    Ended::from(command.output().expect("the command starts"))
}

/// The defect of ATOLL's links (seed 002, section 2.5): found in the dump, gone with the correction.
#[test]
fn the_dump_of_a_link_shows_its_defect_and_its_cure() {
    let place = Place::new("sim-dump");
    let traffic = "--set topology.dimensions=[4] --set topology.wrap=[false] --set routing.algorithm=dimension-order \
                   --set topology.nodes_per_router=2 --set link.flow_control=stop-continue \
                   --set switch.switching=wormhole --set link.buffer_flits=12 --set link.flit_bytes=32 \
                   --set link.latency_ns=10 --set link.packet_bytes=240 --message-bytes 240 \
                   --traffic uniform --load 0.9 --skip 1us --measured 1ms --drain 20ms --json";
    let run = |file: &str, more: &str| {
        let (name, file) = (file, place.file(file));
        let ended = sim(&machine("atoll"), &format!("{traffic} --dump-link 1-2:{} {more}", file.display()));
        let report = json(&ended);
        assert!(report["results"][0]["packets"].as_u64() > Some(1000), "{name}");
        (report["results"][0]["lost"].as_u64().expect("a count"), check(&file))
    };
    let (lost, checked) = run("sound", "");
    assert_eq!((lost, checked.code), (0, Some(0)), "{}", checked.out);
    assert!(checked.out.contains("(1) -> (2): no violation in "), "{}", checked.out);
    let (lost, checked) = run("defect", "--link-fault stop-continue@1-2");
    assert!(lost > 0);
    assert_eq!(checked.code, Some(1), "{}", checked.err);
    assert!(
        checked.out.contains("order of control violated at ") && checked.out.contains("STOP follows STOP"),
        "{}",
        checked.out
    );
    let (lost, checked) = run("cured", "--link-fault stop-continue@1-2 --link-correction 1-2");
    assert_eq!((lost, checked.code), (0, Some(0)), "{}", checked.out);
    let none = check(&machine("atoll"));
    assert_eq!(none.code, Some(2));
    assert!(none.err.contains("line 1: this is no dump of a link"), "{}", none.err);
    let credits = sim(&machine("atoll"), "--describe --link-fault stop-continue@0-1");
    assert!(credits.code == Some(2) && credits.err.contains("--link-fault: it is for programs"), "{}", credits.err);
    let credits = sim(&machine("atoll"), "--traffic uniform --link-fault stop-continue@0-1");
    assert!(credits.code == Some(2) && credits.err.contains("link.flow_control=stop-continue"), "{}", credits.err);
}

/// Compiles a plug-in.
fn plug_in(place: &Place, name: &str, source: &Path, flags: &[&str]) -> PathBuf {
    let (file, compiler) = (place.file(name), std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include");
    let mut command = Command::new(compiler);
    command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"]).arg(include);
    let made = command.args(flags).arg(source).arg("-o").arg(&file).output().expect("a C compiler");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    file
}

#[test]
fn a_statistics_plug_in_counts_what_the_report_counts() {
    let place = Place::new("sim-statistics");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/statistics/hops.c");
    let (plugin, table) = (plug_in(&place, "hops.so", &source, &[]), place.file("hops.csv"));
    let args = format!("--program all-to-all -n 64 --json --statistics {}:{}", plugin.display(), table.display());
    let report = json(&sim(&machine("torus16"), &args));
    let text = std::fs::read_to_string(&table).expect("a table");
    let fabric = &report["network"];
    let counted = |name: &str| fabric[name].as_u64().unwrap_or_else(|| panic!("{name}: {fabric}"));
    let injected = counted("packets_injected");
    // Each packet also leaves its node.
    let words = format!(
        "# {injected} injected, {} hops, {} blocked, 0 lost, in ",
        counted("packet_hops") + injected,
        counted("blocked")
    );
    assert!(text.contains(&words), "{words}\n{text}");
    let rows = text.lines().skip(1).filter(|line| !line.starts_with('#'));
    let packets: u64 =
        rows.map(|row| row.split(',').nth(1).and_then(|word| word.parse::<u64>().ok()).expect("a row")).sum();
    assert_eq!(packets, counted("packets_delivered"));
}

#[test]
fn a_plug_in_that_is_missing_or_of_another_version_gives_the_remedy() {
    let place = Place::new("sim-plug-ins");
    let torus = machine("torus16");
    let refused = |plugin: &Path| {
        let ended = sim(&torus, &format!("--traffic uniform --statistics {}", plugin.display()));
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        ended.err
    };
    let missing = refused(&place.file("none.so"));
    assert!(missing.contains("No such file") && missing.contains("give the path of a shared object"), "{missing}");
    let source = place.file("plugin.c");
    std::fs::write(
        &source,
        "#include <selvedge_statistics.h>\n\
         static const selvedge_statistics_plugin plugin = {.size = sizeof plugin, .version = VERSION};\n\
         const selvedge_statistics_plugin *selvedge_statistics(void) { return &plugin; }\n",
    )
    .expect("a source");
    let other = refused(&plug_in(&place, "other.so", &source, &["-DVERSION=7"]));
    assert!(other.contains("of version 7") && other.contains("compile it against"), "{other}");
    let empty = plug_in(&place, "empty.so", &source, &["-DVERSION=1"]);
    let ended = sim(
        &torus,
        &format!("--traffic uniform --load 0.1 --skip 1us --measured 5us --statistics {}", empty.display()),
    );
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    std::fs::write(&source, "int selvedge_other;\n").expect("a source");
    let without = refused(&plug_in(&place, "without.so", &source, &[]));
    assert!(without.contains("has no function selvedge_statistics"), "{without}");
}
