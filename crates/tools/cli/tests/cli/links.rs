// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of links, as `selvedge top` and `selvedge registers` show them: in-place traffic of OpenSHMEM, and links
//! between hosts.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::hosts::Hosts;
use crate::common::{Ended, Place, compile, compile_text, wait_until};

/// Operations of one round of `links.c`, and their bytes.
const ATOMICS: u64 = 1000 + 10 + 1 + 1;
const PUTS: u64 = 7 + 1 + 1;
const GETS: u64 = 3;
const BYTES_OUT: u64 = 1000 * 8 + 10 * 4 + 8 + 7 * 32 + 8 + (8 + 8);
const BYTES_IN: u64 = 10 * 4 + 8 + 3 * 16;

fn selvedge(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(arguments).env("SELVEDGE_DIR", place.file("")).stdin(Stdio::null());
    command
}

fn text(place: &Place, arguments: &[&str]) -> String {
    let output = selvedge(place, arguments).output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn records(text: &str) -> Vec<Value> {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    value.as_array().expect("an array").clone()
}

/// All links of a rank.
fn links_of(nics: &[Value], rank: u64) -> Vec<Value> {
    let nics = nics.iter().filter(|nic| nic["rank"] == rank);
    nics.flat_map(|nic| nic["links"].as_array().expect("an array").clone()).collect()
}

fn link_to(nics: &[Value], rank: u64, peer: u64) -> Value {
    let links = links_of(nics, rank);
    let found: Vec<&Value> = links.iter().filter(|link| link["peer_rank"] == peer).collect();
    let [link] = found.as_slice() else { panic!("{links:?}") };
    (*link).clone()
}

fn number(link: &Value, field: &str) -> u64 {
    link[field].as_u64().unwrap_or_else(|| panic!("{field} of {link}"))
}

/// A job that ends with the test.
struct Job<'a>(&'a Place, Option<Child>);

impl Job<'_> {
    fn end(mut self) -> Ended {
        fs::write(self.0.file("stop"), "").expect("a file");
        Ended::from(self.1.take().expect("not ended").wait_with_output().expect("the launcher ends"))
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if let Some(mut launcher) = self.1.take() {
            let _ = fs::write(self.0.file("stop"), "");
            let _ = launcher.wait();
        }
    }
}

fn start<'a>(place: &'a Place, mut command: Command) -> Job<'a> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let job = Job(place, Some(child));
    place.wait_for_line("0");
    place.wait_for_line("1");
    job
}

#[test]
fn in_place_traffic_is_left_out_by_its_variable() {
    let place = Place::new("links-off");
    let program = compile(&place, "links");
    let mut command = place.run(&["-n", "2", "--timeout", "180", &program, "3"]);
    command.env("SELVEDGE_SHMEM_TRAFFIC", "0");
    let job = start(&place, command);
    let nics = records(&text(&place, &["top", "--json", "--interval", "0"]));
    let counted = |rank| links_of(&nics, rank).iter().map(|link| number(link, "operations")).sum::<u64>();
    assert_eq!((counted(0), counted(1)), (0, 0));
    assert_eq!(job.end().code, Some(0));
}

#[test]
fn in_place_traffic_of_openshmem_is_counted_exactly() {
    let place = Place::new("links");
    let program = compile(&place, "links");
    let job = start(&place, place.run(&["-n", "2", "--timeout", "180", &program, "3"]));
    let nics = records(&text(&place, &["top", "--json", "--interval", "0"]));
    let link = link_to(&nics, 0, 1);
    for (field, count) in [
        ("atomics", 3 * ATOMICS),
        ("puts", 3 * PUTS),
        ("gets", 3 * GETS),
        ("operations", 3 * (ATOMICS + PUTS + GETS)),
        ("messages", 0),
        ("bytes_out", 3 * BYTES_OUT),
        ("bytes_in", 3 * BYTES_IN),
        ("frames_out", 0),
    ] {
        assert_eq!(link[field], count, "{field}");
    }
    assert_eq!((&link["way"], &link["state"]), (&"memory".into(), &"open".into()));
    assert!(number(&link, "internal") > 0, "barriers are the library's own accesses");
    // The other PE has only taken part in barriers.
    assert_eq!(links_of(&nics, 1).iter().map(|link| number(link, "operations")).sum::<u64>(), 0);

    // The table of NICs has the operations, that of links the pairs.
    let table = text(&place, &["top", "--interval", "0.05"]);
    let operations = format!("{:.2}k", (3 * (ATOMICS + PUTS + GETS)) as f64 / 1000.0);
    let row = table.lines().find(|line| line.trim_start().starts_with("0 ")).expect("rank 0");
    assert!(row.split_whitespace().any(|word| word == operations), "{table}");
    let table = text(&place, &["top", "--links", "--interval", "0"]);
    let is_first = |line: &&str| line.split_whitespace().take(2).eq(["0", "1"]);
    let row = table.lines().find(is_first).unwrap_or_else(|| panic!("{table}"));
    assert!(row.contains("memory") && row.contains("open") && row.contains(&operations), "{table}");

    // `registers` has the same numbers.
    let registers = records(&text(&place, &["registers", "--json", "--nic", "0", "links"]));
    let links = &registers[0]["registers"]["links"];
    let at = links["links.peer"].as_array().expect("an array").iter().position(|peer| *peer == 1).expect("the link");
    assert_eq!(links["links.atomics"][at], 3 * ATOMICS);
    let one = text(&place, &["registers", "--nic", "0", &format!("links[{at}].puts")]);
    assert!(one.lines().any(|line| line.contains(&format!("links[{at}].puts")) && line.contains("27 ")), "{one}");
    assert_eq!(job.end().code, Some(0));
    assert!(place.jobs().is_empty(), "the page is gone with the job");
}

#[test]
fn any_file_in_place_of_a_page_is_survived() {
    let place = Place::new("links-hostile");
    let program = compile(&place, "links");
    let job = start(&place, place.run(&["-n", "2", "--timeout", "180", &program]));
    let directory = place.jobs().remove(0);
    let own = place.wait_for_line("0");
    let sound = fs::read(directory.join(format!("{own}.links"))).expect("ours to read");
    let write = |name: &str, bytes: &[u8], mode: u32| {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode).open(directory.join(name)).expect("a file");
        std::io::Write::write_all(&mut file, bytes).expect("written");
    };
    write("1.links", b"", 0o600);
    write("2.links", &[0xff; 8192], 0o600);
    write("3.links", &sound, 0o600);
    write("4.links", &sound, 0o644);
    std::os::unix::fs::symlink(format!("{own}.links"), directory.join("5.links")).expect("a link");
    // A process that names itself, with garbage for records: numbers and text without meaning.
    let mut garbage = sound.clone();
    garbage[128..].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 151 % 251) as u8);
    garbage[128..132].copy_from_slice(&1u32.to_ne_bytes());
    garbage[12..16].copy_from_slice(&6u32.to_ne_bytes());
    write("6.links", &garbage, 0o600);
    let records = records(&text(&place, &["top", "--json", "--interval", "0"]));
    let refused: Vec<&str> = records.iter().filter_map(|record| record["file"].as_str()).collect();
    assert_eq!(refused, ["1.links", "2.links", "3.links", "4.links", "5.links"], "{records:?}");
    assert_eq!(link_to(&records, 0, 1)["atomics"], ATOMICS);
    let shown = text(&place, &["top", "--links", "--interval", "0"]);
    assert!(shown.contains("corrupt") && shown.chars().all(|one| one == '\n' || !one.is_control()), "{shown}");
    for file in 1..=6 {
        fs::remove_file(directory.join(format!("{file}.links"))).expect("ours");
    }
    assert_eq!(job.end().code, Some(0));
}

/// Runs `links.c` on two hosts. Returns the links of rank 0 to rank 1 and back, when both are at rest.
fn between_hosts(name: &str, variables: &[(&str, &str)]) -> Option<(Value, Value)> {
    let hosts = Hosts::make(2)?;
    let place = Place::new(name);
    let program = compile(&place, "links");
    let mut command = hosts.run(&place, &["-n", "2", "--hosts", "host1,host2", "--timeout", "180", &program, "2"]);
    command.envs(variables.iter().copied());
    let job = start(&place, command);
    let top = |host: &str| {
        let script = format!("{} top --json --interval 0", env!("CARGO_BIN_EXE_selvedge"));
        let ended = hosts.run(&place, &["--hosts", host, "sh", "-c", &script]).output().expect("starts");
        records(&String::from_utf8_lossy(&ended.stdout))
    };
    let mut seen = (Value::Null, Value::Null);
    wait_until("what one side has sent, the other has", || {
        let (first, second) = (top("host1"), top("host2"));
        let network = |nics: &[Value], rank| {
            links_of(nics, rank).into_iter().find(|link| link["way"] == "network").unwrap_or_default()
        };
        seen = (network(&first, 0), network(&second, 1));
        let (from, to) = (&seen.0, &seen.1);
        let is_clean = variables.is_empty();
        let same = |a: &Value, b: &Value| a == b && !a.is_null();
        same(&from["messages"], &to["packets_in"])
            && same(&to["messages"], &from["packets_in"])
            && (!is_clean || same(&from["frame_bytes_out"], &to["frame_bytes_in"]))
            && from["queue_bytes"] == 0
    });
    assert_eq!(job.end().code, Some(0));
    Some(seen)
}

#[test]
fn links_between_hosts_show_frames_and_bytes() {
    let Some((from, to)) = between_hosts("links-hosts", &[]) else { return };
    for (a, b) in [(&from, &to), (&to, &from)] {
        assert_eq!((&a["state"], &a["why"]), (&"open".into(), &"".into()));
        assert_eq!((&a["frames_out"], &a["frame_bytes_out"]), (&b["frames_in"], &b["frame_bytes_in"]));
        assert!(number(a, "frames_out") > 0 && number(a, "frame_bytes_out") > number(a, "bytes_out"), "{a}");
        assert_eq!((&a["repeats"], &a["damaged"]), (&0.into(), &0.into()));
        assert!(number(a, "round_trip_ns") > 0, "{a}");
    }
    // Each operation of PE 0 is a packet, and so is each answer. Barriers add some.
    let operations = 2 * (ATOMICS + PUTS + GETS);
    assert!(number(&from, "messages") >= operations && number(&to, "messages") >= operations, "{from} {to}");
    assert!(number(&from, "bytes_out") >= 2 * BYTES_OUT && number(&from, "bytes_in") >= 2 * BYTES_IN, "{from}");
}

#[test]
fn links_between_hosts_show_damage_and_repetition() {
    let faults = [("SELVEDGE_NET_CHECK", "crc"), ("SELVEDGE_NET_FAULTS", "loss=0.02,corrupt=0.05,double=0.02,seed=7")];
    let Some((from, to)) = between_hosts("links-faults", &faults) else { return };
    assert!(number(&from, "repeats") > 0, "{from}");
    assert!(number(&to, "damaged") > 0 && number(&to, "unordered") > 0, "{to}");
    assert!(number(&from, "round_trip_ns") > 0, "{from}");
    assert!(number(&from, "frames_out") > number(&from, "repeats"), "{from}");
}

/// Rank 1 opens two mailboxes and closes one. Then rank 0 sends 300 messages of 24 bytes there, and two of 8 bytes to the
/// other one, which rank 1 closes without reading them.
const TO_A_CLOSED_PORT: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <velo2.h>
#include <velorun.h>

static void check(int ok, const char *what)
{
    if (!ok) velorun_abort(1, what);
}

int main(void)
{
    velo2_port_t mailbox, second, third;
    velo2_connection_t connection, other;
    uint32_t own[3], all[6];
    uint64_t words[3] = { 7, 8, 9 };
    char path[4096];
    check(velorun_init() == 0, "velorun_init");
    check(velo2_open(&mailbox) == VELO2_RET_SUCCESS, "velo2_open");
    check(velo2_open(&second) == VELO2_RET_SUCCESS, "velo2_open");
    own[0] = velo2_get_nodeid(&mailbox);
    own[1] = velo2_get_vpid(&mailbox);
    own[2] = velo2_get_vpid(&second);
    check(velorun_exchange(own, sizeof own, all) == 0, "velorun_exchange");
    int rank = velorun_rank();
    if (rank == 0) {
        check(velo2_connect(&mailbox, &connection, all[3], all[4]) == VELO2_RET_SUCCESS, "velo2_connect");
        check(velo2_connect(&mailbox, &other, all[3], all[5]) == VELO2_RET_SUCCESS, "velo2_connect");
    }
    check(velorun_barrier() == 0, "velorun_barrier");
    if (rank == 1) velo2_close(&mailbox);
    check(velorun_barrier() == 0, "velorun_barrier");
    if (rank == 0) {
        for (int i = 0; i < 300; i++)
            velo2_send(&connection, words, sizeof words, 0, 0);
        for (int i = 0; i < 2; i++)
            check(velo2_send(&other, words, 8, 5, 1) == VELO2_RET_SUCCESS, "velo2_send");
    }
    check(velorun_barrier() == 0, "velorun_barrier");
    if (rank == 1) {
        check(velo2_open(&third) == VELO2_RET_SUCCESS, "another port keeps the NIC open");
        velo2_close(&second);
    }
    snprintf(path, sizeof path, "%s/%d", getenv("PLACE"), rank);
    FILE *made = fopen(path, "w");
    fprintf(made, "%u\n", own[1]);
    fclose(made);
    snprintf(path, sizeof path, "%s/stop", getenv("PLACE"));
    while (access(path, F_OK) != 0) usleep(2000);
    velorun_finalize();
    return 0;
}
"#;

#[test]
fn messages_for_a_closed_port_leave_their_heads() {
    let place = Place::new("blocked");
    let program = compile_text("blocked-ports", TO_A_CLOSED_PORT, &["velo2"]);
    let job = start(&place, place.run(&["-n", "2", "--timeout", "180", &program]));
    let port: u64 = place.wait_for_line("1").parse().expect("a port");
    let nics = records(&text(&place, &["top", "--json", "--interval", "0"]));
    let nic = nics.iter().find(|nic| nic["rank"] == 1).expect("rank 1");
    let heads = nic["blocked_heads"].as_array().expect("an array");
    assert_eq!((&nic["blocked"], heads.len()), (&302.into(), 256));
    for (head, number) in heads[..254].iter().zip(47..) {
        assert_eq!((&head["number"], &head["port"], &head["bytes"]), (&number.into(), &port.into(), &24.into()));
        assert_eq!((&head["why"], &head["source_nid"]), (&"the port is closed".into(), &0.into()));
    }
    for head in &heads[254..] {
        let why = "the port was closed before it was read".into();
        assert_eq!((&head["why"], &head["bytes"], &head["source_nid"]), (&why, &8.into(), &0.into()));
    }
    assert_eq!(nics.iter().find(|nic| nic["rank"] == 0).expect("rank 0")["blocked"], 0);
    let table = text(&place, &["top", "--interval", "0"]);
    assert!(table.contains("302 messages found no destination") && table.contains("closed before"), "{table}");
    let registers = records(&text(&place, &["registers", "--json", "--nic", "1", "blocked"]));
    let blocked = &registers[0]["registers"]["blocked"];
    assert_eq!((&blocked["blocked.count"], &blocked["blocked.number"][255]), (&302.into(), &302.into()));
    let ended = job.end();
    assert_eq!(ended.code, Some(0));
    assert!(ended.err.contains("was dropped: it is closed"), "{}", ended.err);
}

/// Reads lines of an answer until one begins with `start`, and returns its rest.
fn line_of(reader: &mut impl BufRead, start: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(reader.read_line(&mut line).expect("an answer") > 0, "it ended before {start}");
        if let Some(rest) = line.strip_prefix(start) {
            return rest.trim().to_owned();
        }
    }
}

fn asked(address: &str, path: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).expect("the page is served");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").expect("asked");
    BufReader::new(stream)
}

#[test]
fn the_page_of_a_job_has_its_matrix() {
    let place = Place::new("links-page");
    let program = compile(&place, "links");
    let job = start(&place, place.run(&["-n", "2", "--timeout", "180", &program, "3"]));
    let name = place.jobs()[0].file_name().expect("a name").to_string_lossy().into_owned();
    let arguments = ["top", "--html=127.0.0.1:0", "--job", &name, "--interval", "50ms"];
    let mut command =
        selvedge(&place, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let url = line_of(&mut BufReader::new(command.stdout.take().expect("a pipe")), "http://");
    let (address, key) = url.split_once("/?").expect("an address with a key");
    assert!(line_of(&mut asked(address, "/"), "HTTP/1.1 ").starts_with("200"));
    assert!(line_of(&mut asked(address, "/api/events"), "HTTP/1.1 ").starts_with("401"), "the key is needed");

    let mut events = asked(address, &format!("/api/events?{key}"));
    let picture = |text: &str| serde_json::from_str::<Value>(text).expect("JSON")["jobs"][0].clone();
    let first = picture(&line_of(&mut events, "data: "));
    assert_eq!((&first["size"], &first["block"], &first["name"]), (&json!(2), &json!(1), &json!(name)));
    // Rank 0 is the only one to start operations. What its gets bring goes from rank 1 to rank 0.
    let cell = |from: u64, to: u64| {
        let cells = first["cells"].as_array().expect("cells");
        let found = cells.iter().find(|cell| cell[0] == from && cell[1] == to).expect("a cell");
        (found[2].as_u64().expect("operations"), found[3].as_u64().expect("bytes"))
    };
    assert_eq!(cell(0, 1), (3 * (ATOMICS + PUTS + GETS), 3 * BYTES_OUT));
    assert_eq!(cell(1, 0), (0, 3 * BYTES_IN));
    let ranks = first["ranks"].as_array().expect("ranks").clone();
    assert_eq!(ranks.iter().map(|rank| rank["rank"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert_eq!((&ranks[1]["bytes_in"], &ranks[1]["state"]), (&json!(3 * BYTES_OUT), &json!("ready")));
    // A second picture has rates, which are 0: the program waits.
    let mut later = picture(&line_of(&mut events, "data: "));
    while later["cells"][0][4].is_null() {
        later = picture(&line_of(&mut events, "data: "));
    }
    assert_eq!((later["cells"][0][4].as_f64(), later["cells"][0][5].as_f64()), (Some(0.0), Some(0.0)));

    assert_eq!(job.end().code, Some(0));
    assert_eq!(line_of(&mut events, "event: end"), "");
    assert_eq!(command.wait().expect("it ends with its job").code(), Some(0));
}

#[test]
fn a_page_is_served_on_this_host_only() {
    let place = Place::new("links-page-wrong");
    let refused = selvedge(&place, &["top", "--html=0.0.0.0:0"]).output().expect("starts");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("0.0.0.0:0"), "{said}");
}
