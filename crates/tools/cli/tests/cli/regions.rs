// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Regions that programs mark: in simulated runs, and live (`regions.c`).

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::common::{Ended, Place, compile, compile_text, report_of_two, tree};

fn simulate(args: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["sim", "-n", "3", "--machine", "cluster", "--quiet", "--json"]).args(args);
    Ended::from(command.env("SELVEDGE_PREFIX", tree()).output().expect("the command starts"))
}

/// The report, without the program's line before it.
fn report(ended: &Ended) -> Value {
    let text = ended.out.replacen("done\n", "", 1);
    let mut report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {ended:?}"));
    report.as_object_mut().expect("an object").remove("wall");
    report
}

#[test]
fn a_run_has_a_table_of_its_regions() {
    let place = Place::new("regions-sim");
    let program = compile(&place, "regions");
    let ended = simulate(&["--", &program]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let whole = report(&ended);
    let regions = whole["regions"].as_array().expect("regions");
    let region = |at: usize, key: &str| regions[at][key].as_u64().expect("a number");
    assert_eq!((&regions[0]["name"], &regions[1]["name"], regions.len()), (&"puts".into(), &"gets".into(), 2));
    for (at, entered, messages, bytes) in [(0, 3, 9, 360), (1, 4, 8, 64)] {
        assert_eq!((region(at, "entered"), region(at, "ranks")), (entered, 3));
        assert_eq!((region(at, "messages"), region(at, "bytes")), (messages, bytes), "{:#}", regions[at]);
        assert!(region(at, "time_ps_min") > 0 && region(at, "time_ps_min") <= region(at, "time_ps_median"));
    }
    // PE 0 is in the second one twice.
    assert!(region(1, "time_ps_max") > region(1, "time_ps_median") * 3 / 2, "{:#}", regions[1]);
    assert!(whole["region"].is_null());
}

#[test]
fn a_report_may_be_about_one_region() {
    let place = Place::new("regions-one");
    let program = compile(&place, "regions");
    let whole = report(&simulate(&["--", &program]));
    let timeline = place.file("timeline.json");
    let args = ["--region", "puts", "--trace", timeline.to_str().expect("a path"), "--", &program];
    let (ended, again) = (simulate(&args), simulate(&args));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let puts = report(&ended);
    assert_eq!(puts, report(&again));
    // The run is the same.
    for same in ["virtual_time_ps", "hash", "rank_ends_ps", "regions"] {
        assert_eq!(puts[same], whole[same], "{same}");
    }
    // All ranks are in the region at about the same time: its messages are those of the region.
    assert_eq!((&puts["messages"]["delivered"], &puts["messages"]["payload_bytes"]), (&9.into(), &360.into()));
    assert_eq!(puts["messages"]["latency"]["count"], 9, "{:#}", puts["messages"]["latency"]);
    let (time, virtual_time) = (puts["region"]["time_ps"].as_u64(), puts["virtual_time_ps"].as_u64());
    assert!(time > Some(0) && time < virtual_time, "{:#}", puts["region"]);
    assert!(
        puts["network"]["packets_injected"].as_u64() < whole["network"]["packets_injected"].as_u64(),
        "{:#}",
        puts["network"]
    );
    assert!(puts["registers"]["requests"] == 9, "{:#}", puts["registers"]);
    let timeline: Value = serde_json::from_slice(&fs::read(&timeline).expect("a timeline")).expect("JSON");
    let events = timeline["traceEvents"].as_array().expect("events");
    let sends = |bytes: u64| {
        let of_size = |event: &&Value| event["name"] == "send" && event["args"]["bytes"] == bytes;
        events.iter().filter(of_size).count()
    };
    // The first ranks to leave it are in the barrier behind it while the last is inside.
    assert!(sends(40) == 9 && sends(8) < 6, "{} and {}: spans outside of the region are left out", sends(40), sends(8));
}

#[test]
fn a_region_that_no_rank_enters_is_an_error() {
    let place = Place::new("regions-none");
    let program = compile(&place, "regions");
    let ended = simulate(&["--region", "solve", "--", &program]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("--region solve: no rank has entered it; the program has marked puts, gets"),
        "{ended:?}"
    );
    for what in [["--program", "ping-pong"], ["--traffic", "uniform"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["sim", "--machine", "torus16", "--region", "solve"]).args(what);
        let ended = Ended::from(command.output().expect("the command starts"));
        assert_eq!(ended.code, Some(2), "{what:?}");
        assert!(ended.err.contains("mark no regions"), "{}", ended.err);
    }
}

#[test]
fn unbalanced_regions_give_one_note_and_a_switch_gives_none() {
    let place = Place::new("regions-unbalanced");
    let program = compile(&place, "regions");
    for (how, wanted) in [
        ("open", Some("rank 1 ended inside region puts, which ended with it")),
        ("end", Some("rank 0 ended region gets without having begun it")),
        ("pcontrol", None),
    ] {
        let ended = simulate(&["--", &program, how]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let report = report(&ended);
        let notes: Vec<&str> = report["notes"].as_array().expect("notes").iter().filter_map(Value::as_str).collect();
        let unbalanced: Vec<_> = notes.iter().filter(|note| note.starts_with("Unbalanced regions: ")).collect();
        assert_eq!(unbalanced.len(), usize::from(wanted.is_some()), "{how}: {notes:?}");
        assert!(wanted.is_none_or(|wanted| unbalanced[0].contains(wanted)), "{how}: {notes:?}");
        if how == "pcontrol" {
            let main = &report["regions"][1];
            assert_eq!((&main["name"], &main["entered"], &main["messages"]), (&"main".into(), &3.into(), &9.into()));
        }
    }
}

#[test]
fn live_counters_are_those_of_the_region() {
    let place = Place::new("regions-live");
    let program = compile(&place, "regions");
    let run = |region: &str, how: &[&str]| {
        let mut command = place.run(&[&["-n", "3", "--path", "shared", &program][..], how].concat());
        Ended::from(command.env("SELVEDGE_REGION", region).output().expect("the command starts"))
    };
    let lines = |ended: &Ended| {
        let mut lines: Vec<String> = ended.err.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let ended = run("puts", &[]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "done\n"));
    for (rank, line) in lines(&ended).iter().enumerate() {
        assert!(line.starts_with(&format!("selvedge: rank {rank}: region puts: entered 1, 0.")), "{line}");
        assert!(line.contains("links: puts 3, bytes_out 120"), "{line}");
    }
    let gets = lines(&run("gets", &[]));
    assert!(gets[0].contains("entered 2, ") && gets[0].contains("gets 4, bytes_in 32"), "{gets:?}");
    assert!(gets[1].contains("entered 1, ") && gets[1].contains("gets 2, bytes_in 16"), "{gets:?}");
    let open = lines(&run("puts", &["open"]));
    assert_eq!(open.iter().filter(|line| line.contains("was not ended before the process")).count(), 1, "{open:?}");
    let end = lines(&run("gets", &["end"]));
    assert_eq!(end.iter().filter(|line| line.contains("was ended without having begun")).count(), 1, "{end:?}");
    let main = lines(&run("main", &["pcontrol"]));
    assert!(main.iter().all(|line| line.contains("region main: entered 1") && line.contains("puts 3")), "{main:?}");
    let none = lines(&run("solve", &[]));
    assert_eq!(none[0], "selvedge: rank 0: region solve was not entered");
}

/// Rank 0 puts 4 blocks of 16 bytes in its region, and 2 outside.
const PORTALS: &str = r#"
#include <stddef.h>
#include <portals4.h>
#include <selvedge.h>

static void puts_of(ptl_handle_md_t md, ptl_process_t target, int count, ptl_handle_ct_t done, int *sent)
{
    for (int i = 0; i < count; i++)
        PtlPut(md, 0, 16, PTL_CT_ACK_REQ, target, 0, 0, 0, NULL, 0);
    *sent += count;
    ptl_ct_event_t event;
    PtlCTWait(done, *sent, &event);
}

int main(void)
{
    ptl_handle_ni_t ni;
    ptl_pt_index_t portal;
    ptl_handle_le_t le;
    ptl_handle_md_t md;
    ptl_handle_ct_t done;
    ptl_process_t ids[2], own;
    static char from[16], to[16];
    int sent = 0;

    selvedge_init();
    PtlInit();
    PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni);
    PtlPTAlloc(ni, 0, PTL_EQ_NONE, 0, &portal);
    ptl_le_t entry = {.start = to, .length = sizeof to, .ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY, .options = PTL_LE_OP_PUT};
    PtlLEAppend(ni, portal, &entry, PTL_PRIORITY_LIST, NULL, &le);
    PtlCTAlloc(ni, &done);
    ptl_md_t descriptor = {.start = from, .length = sizeof from, .options = PTL_MD_EVENT_CT_ACK,
                           .eq_handle = PTL_EQ_NONE, .ct_handle = done};
    PtlMDBind(ni, &descriptor, &md);
    PtlGetPhysId(ni, &own);
    selvedge_exchange(&own, sizeof own, ids);
    selvedge_region_begin(NULL); /* ignored */
    if (selvedge_rank() == 0) {
        puts_of(md, ids[1], 1, done, &sent);
        selvedge_region_begin("puts");
        puts_of(md, ids[1], 4, done, &sent);
        selvedge_region_end("puts");
        puts_of(md, ids[1], 1, done, &sent);
    }
    selvedge_barrier();
    PtlNIFini(ni);
    PtlFini();
    selvedge_finalize();
    return 0;
}
"#;

#[test]
fn a_portals_program_marks_regions() {
    let place = Place::new("regions-portals");
    let program = compile_text("regions-portals", PORTALS, &["portals"]);
    let report = report_of_two(&place, "cluster", &["--region", "puts"], &[&program]);
    let region = &report["regions"][0];
    assert_eq!((&region["name"], &region["entered"], &region["ranks"]), (&"puts".into(), &1.into(), &1.into()));
    assert_eq!((&region["messages"], &region["bytes"]), (&4.into(), &64.into()), "{region:#}");
    assert_eq!((&report["messages"]["delivered"], &report["registers"]["requests"]), (&4.into(), &4.into()));
    // Live, the region is that of rank 0 alone.
    let mut command = place.run(&["-n", "2", &program]);
    let ended = Ended::from(command.env("SELVEDGE_REGION", "puts").output().expect("the command starts"));
    let mut lines: Vec<&str> = ended.err.lines().collect();
    lines.sort_unstable();
    assert!(
        lines[0].starts_with("selvedge: rank 0: region puts: entered 1, ") && lines[0].contains("puts 4"),
        "{lines:?}"
    );
    assert_eq!(lines[1], "selvedge: rank 1: region puts was not entered");
}
