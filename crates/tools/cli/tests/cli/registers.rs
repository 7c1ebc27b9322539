// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge registers` as a user sees it, while two processes exchange VELO messages: text, JSON, files, writing.
//!
//! The job's program is C, compiled here against the built tree (`make build`): the one in SELVEDGE_PREFIX, else
//! `build/` of this repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use crate::common::{Ended, Place, compile_text, wait_until};
use selvedge_nic::registers::{Register, TableRegister, VERSION};
use serde_json::Value;

/// Messages from rank 0 to rank 1 before the files `0` and `1` exist, and the number of them that rank 1 reads.
const SENT: u64 = 7;
const READ: u64 = 3;

/// Mailboxes that discard accept all messages themselves, so their pointers move. Rank 0 sends SENT messages of 8
/// bytes, rank 1 reads READ of them. Then both wait for the file `stop`.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <velo2.h>
#include <velorun.h>

static void check(int ok, const char *what)
{
    if (!ok) velorun_abort(1, what);
}

static void path_of(char *path, const char *name) { snprintf(path, 4096, "%s/%s", getenv("PLACE"), name); }

int main(int argc, char **argv)
{
    velo2_port_t mailbox;
    velo2_connection_t connection;
    uint32_t own[2], all[4];
    uint64_t word = 7;
    char path[4096];
    int sent = atoi(argv[1]), read = atoi(argv[2]);
    (void)argc;
    check(velorun_init() == 0, "velorun_init");
    check(velo2_open(&mailbox) == VELO2_RET_SUCCESS, "velo2_open");
    own[0] = velo2_get_nodeid(&mailbox);
    own[1] = velo2_get_vpid(&mailbox);
    check(velorun_exchange(own, sizeof own, all) == 0, "velorun_exchange");
    int other = 1 - velorun_rank();
    check(velo2_connect(&mailbox, &connection, all[2 * other], all[2 * other + 1]) == VELO2_RET_SUCCESS, "velo2_connect");
    if (velorun_rank() == 0)
        for (int i = 0; i < sent; i++)
            while (velo2_send(&connection, &word, sizeof word, 0, 0) == VELO2_RET_TRY_AGAIN) velo2_check(&mailbox);
    check(velorun_barrier() == 0, "velorun_barrier");
    if (velorun_rank() == 1)
        for (int i = 0; i < read; i++) {
            uint32_t length, source;
            check(velo2_recv(&mailbox, &word, sizeof word, &length, &source, NULL, NULL) == VELO2_RET_SUCCESS, "velo2_recv");
        }
    path_of(path, velorun_rank() == 0 ? "0" : "1");
    FILE *made = fopen(path, "w");
    fprintf(made, "%u\n", own[1]);
    fclose(made);
    path_of(path, "stop");
    while (access(path, F_OK) != 0) usleep(2000);
    velo2_disconnect(&mailbox, &connection);
    velo2_close(&mailbox);
    velorun_finalize();
    return 0;
}
"#;

fn program() -> &'static str {
    static PROGRAM_PATH: OnceLock<String> = OnceLock::new();
    PROGRAM_PATH.get_or_init(|| compile_text("registers", PROGRAM, &["velo2", "rma2"]))
}

/// A job of the program after its exchange, which ends with the test.
struct Job<'a> {
    place: &'a Place,
    launcher: Option<Child>,
    vpid: u64,
}

impl<'a> Job<'a> {
    fn start(place: &'a Place) -> Job<'a> {
        Job::start_with(place, SENT, READ)
    }

    fn start_with(place: &'a Place, sent: u64, read: u64) -> Job<'a> {
        let (sent, read) = (sent.to_string(), read.to_string());
        let mut command = place.run(&["-n", "2", "--timeout", "180", program(), &sent, &read]);
        command.env("SELVEDGE_FULL_MAILBOX", "discard").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut job = Job { place, launcher: Some(command.spawn().expect("the launcher starts")), vpid: 0 };
        place.wait_for_line("0");
        job.vpid = place.wait_for_line("1").parse().expect("a VPID");
        job
    }

    fn name(&self) -> String {
        self.place.jobs()[0].file_name().expect("a name").to_string_lossy().into_owned()
    }

    fn end(mut self) -> Ended {
        fs::write(self.place.file("stop"), "").expect("a file");
        Ended::from(self.launcher.take().expect("not ended yet").wait_with_output().expect("the launcher ends"))
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if let Some(mut launcher) = self.launcher.take() {
            let _ = fs::write(self.place.file("stop"), "");
            let _ = launcher.wait();
        }
    }
}

fn registers(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.arg("registers").args(arguments).env("SELVEDGE_DIR", place.file("")).stdin(Stdio::null());
    command
}

fn output(place: &Place, arguments: &[&str]) -> Output {
    registers(place, arguments).output().expect("the command starts")
}

fn json(place: &Place, arguments: &[&str]) -> Vec<Value> {
    let output = output(place, &[arguments, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("not JSON: {error}\n{said}"))
}

/// Fails as expected; returns the message.
fn refused(place: &Place, arguments: &[&str]) -> String {
    let output = output(place, arguments);
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn values_are_those_of_the_running_nics() {
    let place = Place::new("registers");
    let job = Job::start(&place);
    let nics = json(&place, &[]);
    let [from, to] = nics.as_slice() else { panic!("{nics:?}") };
    for (nic, rank) in [(from, 0), (to, 1)] {
        assert_eq!((&nic["rank"], &nic["version"], &nic["state"]), (&rank.into(), &VERSION.into(), &"ready".into()));
        assert_eq!(nic["job"], job.name());
        for register in Register::ALL {
            assert!(nic["registers"][register.block()][register.name()].is_u64(), "{register:?}");
        }
        for register in TableRegister::ALL {
            assert_eq!(
                !nic["registers"][register.block()][register.name()].is_null(),
                register.is_readable(),
                "{register:?}"
            );
        }
    }
    assert_eq!(
        (&from["registers"]["velo"]["velo_sent"], &to["registers"]["velo"]["velo_sent"]),
        (&SENT.into(), &0.into())
    );
    assert_eq!(to["registers"]["velo"]["velo_received"], SENT);
    let (tables, vpid) = (&to["registers"]["velo_tables"], job.vpid as usize);
    assert_eq!(tables["mailbox_enables"][0], 1u64 << vpid);
    assert_eq!(to["registers"]["rma_tables"]["completer_enables"][0], 1u64 << vpid);
    assert_eq!(tables["mailbox_write_pointers"][vpid], SENT);
    // The read pointer is stored only now and then.
    assert!(
        to["registers"]["velo_pages"]["mailbox_pages.read_pointer"][vpid].as_u64().is_some_and(|read| read <= READ)
    );
    assert_eq!(
        (&tables["mailbox_interrupts.interrupt"][vpid], &tables["mailbox_interrupts.mask"][vpid]),
        (&1.into(), &0.into())
    );

    // Arguments select a register, a unit, or one value.
    let one = format!("mailbox_write_pointers[{vpid}]");
    let some = json(&place, &["--nic", "1", "velo_received", "atu", &one]);
    let chosen = some[0]["registers"].as_object().expect("an object");
    assert_eq!(chosen.keys().collect::<Vec<_>>(), ["atu", "velo", "velo_tables"]);
    assert_eq!(chosen["velo_tables"]["mailbox_write_pointers"][vpid.to_string()], SENT);
    assert_eq!((some.len(), chosen["velo"].as_object().map(|unit| unit.len())), (1, Some(1)));

    let shown = output(&place, &["velo_received", &one, "--job", &job.name()]);
    let text = String::from_utf8(shown.stdout).expect("text");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], [job.name().as_str()]);
    assert_eq!(lines[1], ["rank", "ni", "state", "register", "value", "counts"]);
    let (sent, ni) = (SENT.to_string(), to["ni"].to_string());
    assert_eq!(lines[4], ["1", &ni, "ready", "velo_received", &sent, "messages"]);
    assert_eq!(lines[5], ["1", &ni, "ready", &one, &sent, "slots"]);
    assert_eq!(lines.len(), 6);
    assert_eq!(job.end().code, Some(0));
}

#[test]
fn a_mailbox_that_discards_counts_what_it_discards() {
    let place = Place::new("discard");
    let slots = u64::from(selvedge_nic::Limits::EXTOLL.mailbox_slots);
    let job = Job::start_with(&place, slots + 44, 0);
    let registers = json(&place, &["--nic", "1"])[0]["registers"].clone();
    assert_eq!(registers["velo_tables"]["mailbox_write_pointers"][job.vpid as usize], slots);
    assert_eq!(
        (&registers["velo"]["velo_received"], &registers["velo"]["velo_discarded"]),
        (&slots.into(), &44.into())
    );
    assert_eq!(job.end().code, Some(0));
}

#[test]
fn a_tree_has_a_file_for_each_value_and_follows_the_job() {
    let place = Place::new("tree");
    let job = Job::start(&place);
    let directory = place.file("tree");
    let argument = directory.to_str().expect("text");
    assert!(output(&place, &["--tree", argument]).status.success());
    let nics = json(&place, &[]);
    let ni = &nics[1]["ni"];
    let nic = directory.join(job.name()).join(format!("1.{ni}"));
    let number = |file: &str| fs::read_to_string(nic.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert_eq!(number("version"), format!("{VERSION}\n"));
    for register in Register::ALL {
        let value = &nics[1]["registers"][register.block()][register.name()];
        assert_eq!(number(&format!("{}/{}", register.block(), register.name())), format!("{value}\n"), "{register:?}");
    }
    for register in TableRegister::ALL.iter().filter(|register| register.is_readable()) {
        let file = match register.name().split_once('.') {
            Some((group, part)) => format!("{}/{group}/{}/{part}", register.block(), job.vpid),
            None if register.entries_max() == 0 => format!("{}/{}", register.block(), register.name()),
            None => format!("{}/{}/0", register.block(), register.name()),
        };
        assert!(number(&file).trim().parse::<u64>().is_ok(), "{file}");
    }
    assert_eq!(number(&format!("velo_tables/mailbox_write_pointers/{}", job.vpid)), format!("{SENT}\n"));
    // No other files, so no value is half written.
    let temporary = walk(&directory).into_iter().filter(|path| path.ends_with(".new")).count();
    assert_eq!(temporary, 0);

    // A refreshed tree loses only NICs that have ended.
    let mut keeper = registers(&place, &["--tree", argument, "--interval", "0.05"]).spawn().expect("it starts");
    fs::create_dir(directory.join("notes")).expect("a folder of the user");
    fs::write(directory.join("notes/mine"), "text").expect("written");
    assert_eq!(job.end().code, Some(0));
    wait_until("the NICs have left the tree", || !nic.exists());
    assert!(keeper.try_wait().is_ok_and(|ended| ended.is_none()), "it goes on");
    keeper.kill().expect("it runs");
    keeper.wait().expect("it ends");
    assert_eq!(fs::read_to_string(directory.join("notes/mine")).expect("still there"), "text");
    // A folder with other contents is not touched.
    let other = place.file("other");
    fs::create_dir_all(&other).expect("a folder");
    fs::write(other.join("letter"), "mine").expect("written");
    assert!(refused(&place, &["--tree", other.to_str().expect("text")]).contains("other contents"));
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn registers_are_written_under_the_lock() {
    let place = Place::new("write");
    let job = Job::start(&place);
    let vpid = job.vpid as usize;
    let group = format!("mailbox_interrupts[{vpid}]");
    let write = |words: &[&str]| {
        let done = output(&place, &[&["--nic", "1"], words].concat());
        assert!(done.status.success() && done.stdout.is_empty() && done.stderr.is_empty(), "{words:?}: {done:?}");
        let nics = json(&place, &["--nic", "1"]);
        nics[0]["registers"].clone()
    };
    let after = write(&[&format!("{group}.mask=1"), &format!("{group}.clear=1")]);
    let interrupts = |after: &Value| {
        let of = |part: &str| after["velo_tables"][format!("mailbox_interrupts.{part}")][vpid].as_u64();
        (of("interrupt"), of("mask"))
    };
    assert_eq!(interrupts(&after), (Some(0), Some(1)));
    let flushes = after["atu"]["atu_flushes"].as_u64().expect("a counter");
    let after = write(&["mailbox_enables[0]=0", "flush_request=0"]);
    assert_eq!(
        (&after["velo_tables"]["mailbox_enables"][0], &after["atu"]["atu_flushes"]),
        (&0.into(), &(flushes + 1).into())
    );
    let after = write(&[&format!("mailbox_enables[0]={:#x}", 1u64 << vpid), &format!("{group}.mask=0")]);
    assert_eq!(after["velo_tables"]["mailbox_enables"][0], 1u64 << vpid);
    assert_eq!(interrupts(&after), (Some(0), Some(0)));

    // A refused command reports the reason and changes nothing.
    let before = json(&place, &[]);
    for (words, reason) in [
        (&["--nic", "1", "requests=0"][..], "counters only grow"),
        (&["--nic", "1", "mailbox_sizes[0]=1"], "limits"),
        (&["--nic", "1", "mailbox_enables[0]=0xffff"], "no program has VPID"),
        (&["--nic", "1", "mailbox_enables[9]=0"], "no entry 9"),
        (&["--nic", "1", "flush_request=0xffffffffffffffff"], "is not a valid value"),
        (&["mailbox_enables[0]=0"], "2 NICs would be written"),
        (&["--nic", "5", "mailbox_enables[0]=0"], "selvedge top"),
        (&["--nic", "1", "--job", "none", "mailbox_enables[0]=0"], "no job none"),
    ] {
        let said = refused(&place, words);
        assert!(said.contains(reason), "{words:?}: {said}");
    }
    assert_eq!(json(&place, &[]), before);
    assert_eq!(job.end().code, Some(0));
    assert!(refused(&place, &[]).contains("no job runs"));
    assert!(refused(&place, &["nonsense"]).contains("selvedge info registers"));
}
