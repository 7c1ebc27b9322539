// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge info` and `selvedge top` as a user sees them, and how peers detect a dead rank, in jobs of two.
//!
//! The job's program is C, compiled here against the built tree (`make build`): the one in SELVEDGE_PREFIX, else
//! `build/` of this repository.

use std::fs::{self, File};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use crate::common::terminal::Terminal;
use crate::common::{Ended, Place, compile_text, wait_until};
use selvedge_host::segment::SegmentHeader;
use selvedge_nic::Register;
use selvedge_nic::registers::TableRegister;
use serde_json::Value;

/// Numbers and bytes of `PROGRAM`'s puts that match, that are unexpected, and that are dropped.
const MATCHED: u64 = 5;
const UNEXPECTED: u64 = 3;
const DROPPED: u64 = 2;
const BYTES: u64 = 16;
const STREAMED: u64 = 5000;

/// `traffic`: rank 0 puts to rank 1 as above, then both wait for the file `stop`. `stream`: before that, rank 0 makes
/// many small puts, all of which match and are only counted. `death`: rank 1 is killed by SIGKILL after the first put;
/// rank 0 continues until a put is undeliverable, and then expects the next ones to be undeliverable, too. `idle`: rank
/// 1 is killed and rank 0 calls no interface any more; `leave`: rank 1 leaves the job normally and ends, but never
/// closes its interface.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "portals4.h"
#include "selvedge.h"

#define TRY(call) do { int code_ = (call); if (code_ != 0) { \
    fprintf(stderr, "%d: %s gave %d\n", __LINE__, #call, code_); selvedge_abort(1, #call); } } while (0)

static ptl_handle_ni_t ni;
static ptl_handle_eq_t eq;
static char *memory;
static int idle;

static void file(const char *name, int make)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("PLACE"), name);
    if (make) {
        FILE *made = fopen(path, "w");
        fprintf(made, "%d\n", (int)getpid());
        fclose(made);
    } else {
        /* An idle rank leaves its interface alone; elsewhere the wait keeps it going. */
        while (access(path, F_OK) != 0) {
            ptl_event_t event;
            unsigned int which;
            if (idle)
                usleep(2000);
            else
                PtlEQPoll(&eq, 1, 2, &event, &which);
        }
    }
}

static ptl_event_t next(ptl_event_kind_t wanted)
{
    ptl_event_t event;
    unsigned int which;
    do {
        int code = PtlEQPoll(&eq, 1, 60000, &event, &which);
        if (code == PTL_EQ_EMPTY)
            selvedge_abort(1, "no event came within a minute");
        TRY(code);
    } while (event.type != wanted);
    return event;
}

static void append(ptl_match_bits_t bits, ptl_list_t list, ptl_handle_ct_t ct)
{
    ptl_handle_me_t entry;
    ptl_me_t me = { .start = memory, .length = 64, .ct_handle = ct, .uid = PTL_UID_ANY, .match_bits = bits,
                    .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM };
    me.match_id.phys.nid = PTL_NID_ANY;
    me.match_id.phys.pid = PTL_PID_ANY;
    TRY(PtlMEAppend(ni, 0, &me, list, NULL, &entry));
    next(PTL_EVENT_LINK);
}

static ptl_ni_fail_t put(ptl_handle_md_t md, ptl_process_t target, ptl_match_bits_t bits)
{
    TRY(PtlPut(md, 0, 16, PTL_ACK_REQ, target, 0, bits, 0, NULL, 0));
    return next(PTL_EVENT_ACK).ni_fail_type;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    idle = strcmp(mode, "idle") == 0 || strcmp(mode, "leave") == 0;
    TRY(selvedge_init());
    TRY(PtlInit());
    TRY(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni));
    TRY(PtlEQAlloc(ni, 64, &eq));
    ptl_process_t id, ids[2];
    TRY(PtlGetPhysId(ni, &id));
    TRY(selvedge_exchange(&id, sizeof id, ids));
    memory = selvedge_alloc(64);
    memset(memory, 7, 64);
    ptl_handle_ct_t arrived;
    TRY(PtlCTAlloc(ni, &arrived));
    if (selvedge_rank() == 1) {
        ptl_pt_index_t index;
        TRY(PtlPTAlloc(ni, 0, eq, 0, &index));
        append(1, PTL_PRIORITY_LIST, arrived);
        append(2, PTL_OVERFLOW_LIST, PTL_CT_NONE);
        TRY(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 1, &index));
        ptl_handle_me_t entry;
        ptl_me_t me = { .start = memory, .length = 64, .ct_handle = arrived, .uid = PTL_UID_ANY, .ignore_bits = -1,
                        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM };
        me.match_id.phys.nid = PTL_NID_ANY;
        me.match_id.phys.pid = PTL_PID_ANY;
        TRY(PtlMEAppend(ni, 1, &me, PTL_PRIORITY_LIST, NULL, &entry));
    }
    TRY(selvedge_barrier());
    if (strcmp(mode, "stream") == 0) {
        ptl_handle_md_t md;
        ptl_md_t region = { .start = memory, .length = 64, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
        ptl_ct_event_t count;
        TRY(PtlMDBind(ni, &region, &md));
        for (int i = 0; i < 5000 && selvedge_rank() == 0; i++)
            TRY(PtlPut(md, 0, 16, PTL_NO_ACK_REQ, ids[1], 1, 3, 0, NULL, 0));
        if (selvedge_rank() == 1)
            TRY(PtlCTWait(arrived, 5000, &count));
        mode = "traffic";
    }
    if (selvedge_rank() == 1) {
        if (strcmp(mode, "traffic") != 0) {
            ptl_ct_event_t count;
            TRY(PtlCTWait(arrived, 1, &count));
            file("acked", 0);
            file("1", 1);
            if (strcmp(mode, "leave") == 0) {
                selvedge_finalize();
                _exit(0);
            }
            raise(SIGKILL);
        }
    } else {
        ptl_handle_md_t md;
        ptl_md_t region = { .start = memory, .length = 64, .eq_handle = eq, .ct_handle = PTL_CT_NONE };
        TRY(PtlMDBind(ni, &region, &md));
        TRY(put(md, ids[1], 1) == PTL_NI_OK ? 0 : 1);
        file("acked", 1);
        if (strcmp(mode, "traffic") == 0) {
            for (int i = 1; i < 5; i++)
                TRY(put(md, ids[1], 1) == PTL_NI_OK ? 0 : 1);
            for (int i = 0; i < 3; i++)
                TRY(put(md, ids[1], 2) == PTL_NI_OK ? 0 : 1);
            for (int i = 0; i < 2; i++)
                TRY(put(md, ids[1], 9) == PTL_NI_DROPPED ? 0 : 1);
        }
        if (strcmp(mode, "death") == 0) {
            /* 200 puts, far fewer than after which a sender looks for itself. They take a minute in all, should nothing else find the death. */
            int tries = 0;
            while (put(md, ids[1], 1) == PTL_NI_OK && ++tries < 200)
                usleep(tries < 100 ? 5000 : 600000);
            for (int i = 0; i < 8; i++)
                TRY(put(md, ids[1], 1) == PTL_NI_UNDELIVERABLE ? 0 : 1);
            puts("undeliverable");
            fflush(stdout);
        }
    }
    if (strcmp(mode, "traffic") == 0)
        TRY(selvedge_barrier());
    file(selvedge_rank() == 0 ? "0" : "1", 1);
    file("stop", 0);
    TRY(PtlNIFini(ni));
    PtlFini();
    selvedge_finalize();
    return 0;
}
"#;

fn program() -> &'static str {
    static PROGRAM_PATH: OnceLock<String> = OnceLock::new();
    PROGRAM_PATH.get_or_init(|| compile_text("info-top", PROGRAM, &["portals"]))
}

/// A job of the program, which ends with the test.
struct Job<'a> {
    place: &'a Place,
    launcher: Option<Child>,
}

impl<'a> Job<'a> {
    fn start(place: &'a Place, options: &[&str], mode: &str) -> Job<'a> {
        let arguments = [&["-n", "2", "--timeout", "180"], options, &[program(), mode]].concat();
        let mut command = place.run(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Job { place, launcher: Some(command.spawn().expect("the launcher starts")) }
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

fn selvedge(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(arguments).env("SELVEDGE_DIR", place.file("")).stdin(Stdio::null());
    command
}

fn output(place: &Place, arguments: &[&str]) -> Output {
    selvedge(place, arguments).output().expect("the command starts")
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("not JSON: {error}\n{said}"))
}

/// The current output of `top`: the NICs, by rank, and the refused files.
fn top(place: &Place) -> (Vec<Value>, Vec<Value>) {
    let shown = json(&output(place, &["top", "--json", "--interval", "0"]));
    let records = shown.as_array().expect("an array").clone();
    records.into_iter().partition(|record| record["refused"].is_null())
}

fn traffic<'a>(place: &'a Place, options: &[&str]) -> Job<'a> {
    let job = Job::start(place, options, "traffic");
    place.wait_for_line("0");
    place.wait_for_line("1");
    job
}

#[test]
fn top_shows_what_the_ranks_have_done() {
    let place = Place::new("top");
    let job = traffic(&place, &[]);
    let (nics, refused) = top(&place);
    assert!(refused.is_empty(), "{refused:?}");
    let [from, to] = nics.as_slice() else { panic!("{nics:?}") };
    let name = place.jobs()[0].file_name().expect("a name").to_string_lossy().into_owned();
    for (nic, rank) in [(from, 0), (to, 1)] {
        for (field, value) in [
            ("job", Value::from(name.as_str())),
            ("program", program().into()),
            ("size", 2.into()),
            ("launcher_alive", true.into()),
            ("rank", rank.into()),
            ("pid", (rank + 1).into()),
            ("nid", 0.into()),
            ("ni", 2.into()),
            ("matching", true.into()),
            ("logical", false.into()),
            ("state", "ready".into()),
            ("mode", "nic".into()),
            ("packets_waiting", 0.into()),
        ] {
            assert_eq!(nic[field], value, "{field} of rank {rank}");
        }
        assert_eq!(nic["os_pid"].to_string(), place.wait_for_line(&rank.to_string()));
        assert_eq!(nic["registers"].as_object().map(|all| all.len()), Some(Register::ALL.len()));
        assert!(
            nic["per_second"].as_object().is_some_and(|all| all.values().all(Value::is_null)),
            "one look: no rates"
        );
    }
    // Dropped messages may count as requests or not.
    assert!(to["registers"]["requests"].as_u64() >= Some(MATCHED + UNEXPECTED));
    assert_eq!(from["registers"]["requests"], 0);
    for (register, count) in [
        ("matched_priority", MATCHED),
        ("matched_overflow", UNEXPECTED),
        ("unexpected", UNEXPECTED),
        ("dropped", DROPPED),
        ("bytes_in", (MATCHED + UNEXPECTED) * BYTES),
    ] {
        assert_eq!(to["registers"][register], count, "{register}");
    }
    assert_eq!((&to["unexpected_now"], &to["entries"]), (&UNEXPECTED.into(), &3.into()));
    assert_eq!((&to["portals_enabled"], &to["portals_disabled"]), (&2.into(), &0.into()));
    // The program requests no limits.
    let limits = json(&output(&place, &["info", "limits", "--json"]));
    assert_eq!(limits["limits"]["default"]["nic_bytes"], to["file_bytes"]);
    assert_eq!(job.end().code, Some(0));
    assert_eq!(top(&place), (vec![], vec![]));
}

#[test]
fn top_counts_every_put_of_a_stream_once() {
    let place = Place::new("stream");
    let job = Job::start(&place, &[], "stream");
    place.wait_for_line("0");
    place.wait_for_line("1");
    let (nics, _) = top(&place);
    let [_, to] = nics.as_slice() else { panic!("{nics:?}") };
    assert!(to["registers"]["requests"].as_u64() >= Some(STREAMED + MATCHED + UNEXPECTED));
    for (register, count) in [
        ("matched_priority", STREAMED + MATCHED),
        ("matched_overflow", UNEXPECTED),
        ("dropped", DROPPED),
        ("bytes_in", (STREAMED + MATCHED + UNEXPECTED) * BYTES),
    ] {
        assert_eq!(to["registers"][register], count, "{register}");
    }
    assert_eq!(job.end().code, Some(0));
}

#[test]
fn top_prints_a_table_once_where_there_is_no_terminal() {
    let place = Place::new("table");
    let job = traffic(&place, &["--mode", "host"]);
    let shown = output(&place, &["top", "--interval", "0.05"]);
    let text = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.status.success() && !text.contains('\x1b'), "{text}");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["1", "job,", "2", "NICs"]);
    let head = lines.iter().position(|line| line.first() == Some(&"rank")).expect("column heads");
    let [from, to] = &lines[head + 1..] else { panic!("{text}") };
    // Rank, pid, os pid, ni in three words, state, mode, three rates, the counts, job.
    assert_eq!((from[0], to[0]), ("0", "1"));
    assert_eq!(to[3..8], ["2", "me", "phys", "ready", "host"]);
    assert_eq!(to[8..11], ["0", "0", "0"], "nothing moved between the looks");
    assert_eq!(to[11..14], ["8", "3", "2"], "matched, unexpected, dropped");
    let job_name = to.last().expect("the job").to_string();
    assert!(output(&place, &["top", "--once", "--interval", "0", "--job", &job_name]).status.success());
    let other = output(&place, &["top", "--once", "--job", "no-such-job"]);
    assert_eq!((other.status.code(), other.stdout.len()), (Some(1), 0));
    assert_eq!(job.end().code, Some(0));
}

#[test]
fn two_snapshots_give_rates() {
    let place = Place::new("rates");
    // There is no traffic any more, so every rate is known and 0.
    let job = traffic(&place, &[]);
    let shown = json(&output(&place, &["top", "--json", "--interval", "0.05"]));
    for nic in shown.as_array().expect("an array") {
        let rates = nic["per_second"].as_object().expect("an object");
        assert!(rates.values().all(|rate| rate.as_f64() == Some(0.0)), "{rates:?}");
    }
    assert_eq!(job.end().code, Some(0));
}

#[test]
fn top_survives_any_file_in_a_job_directory() {
    let place = Place::new("hostile");
    let job = traffic(&place, &[]);
    let directory = place.jobs().remove(0);
    let sound = fs::read(directory.join("1.2.nic")).expect("ours to read");
    let write = |name: &str, bytes: &[u8], mode: u32| {
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).mode(mode).open(directory.join(name)).expect("a file");
        std::io::Write::write_all(&mut file, bytes).expect("written");
    };
    write("2.0.nic", b"", 0o600);
    write("3.0.nic", &sound[..1000], 0o600);
    write("4.0.nic", &sound[..200_000], 0o600);
    write("5.0.nic", &[0xff; 8192], 0o600);
    write("6.0.nic", &sound, 0o600);
    write("7.0.nic", &sound, 0o640);
    symlink("1.2.nic", directory.join("8.0.nic")).expect("a link");
    fs::create_dir(directory.join("9.0.nic")).expect("a folder");
    write("\x1b[31m.nic", b"", 0o600);
    let pipe = directory.join("10.0.nic");
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().is_ok_and(|made| made.success()));
    // A valid header, followed by garbage.
    let mut corrupt = sound.clone();
    corrupt[512..].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 151 % 251) as u8);
    let ni = std::mem::offset_of!(SegmentHeader, ni);
    corrupt[ni..ni + 4].copy_from_slice(&3u32.to_ne_bytes());
    write("1.3.nic", &corrupt, 0o600);

    let (nics, refused) = top(&place);
    let files: Vec<&str> = refused.iter().filter_map(|record| record["file"].as_str()).collect();
    let expected = [
        "\x1b[31m.nic",
        "10.0.nic",
        "2.0.nic",
        "3.0.nic",
        "4.0.nic",
        "5.0.nic",
        "6.0.nic",
        "7.0.nic",
        "8.0.nic",
        "9.0.nic",
    ];
    assert_eq!(files, expected, "{refused:?}");
    let shown: Vec<String> = nics.iter().map(|nic| format!("{}.{}", nic["pid"], nic["ni"])).collect();
    assert_eq!(shown, ["1.2", "1.3", "2.2"]);
    let text = output(&place, &["top", "--once", "--interval", "0"]);
    assert!(text.status.success() && !text.stdout.contains(&0x1b));
    assert!(String::from_utf8_lossy(&text.stdout).contains("7.0.nic: mode 0640 where 0600 is required"));
    // A directory that other users may enter is not read.
    let stranger = directory.with_file_name("open");
    fs::create_dir(&stranger).expect("a folder");
    assert!(Command::new("chmod").arg("755").arg(&stranger).status().is_ok_and(|done| done.success()));
    fs::copy(directory.join("1.2.nic"), stranger.join("1.2.nic")).expect("a copy");
    assert_eq!(top(&place).0.len(), 3);
    assert_eq!(job.end().code, Some(0));
}

#[test]
fn jobs_may_come_and_go_meanwhile() {
    let place = Place::new("vanish");
    fs::write(place.file("stop"), "").expect("a file");
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| {
            for _ in 0..8 {
                assert_eq!(place.output(&["-n", "2", "--timeout", "180", program(), "traffic"]).code, Some(0));
            }
        });
        while !runs.is_finished() {
            let (nics, refused) = top(&place);
            assert!(refused.is_empty() && nics.len() <= 2, "{nics:?} {refused:?}");
        }
    });
}

#[test]
fn top_on_a_terminal_obeys_keys_and_gives_the_terminal_back() {
    let place = Place::new("terminal");
    let job = traffic(&place, &[]);
    for end in ["q", "\x03", "SIGTERM", "SIGHUP"] {
        let terminal = Terminal::new(24, 120);
        let before = terminal.modes();
        let mut child = terminal.start(&mut selvedge(&place, &["top", "--interval", "0.05"]));
        // Blanks are not drawn where the screen is blank, so words are awaited.
        let screen = terminal.read_until(|text| text.contains("quit") && text.contains("rank"));
        assert!(screen.starts_with("\x1b[?1049h"), "it has a screen of its own: {screen:?}");
        terminal.write("/zzz\r");
        terminal.read_until(|text| text.contains("\"zzz\""));
        terminal.write("?");
        terminal.read_until(|text| text.contains("suspend"));
        match end {
            "SIGTERM" => assert_eq!(signal_child(child.id(), libc::SIGTERM), 0),
            "SIGHUP" => assert_eq!(signal_child(child.id(), libc::SIGHUP), 0),
            keys => terminal.write(keys),
        }
        let last = terminal.read_until(|text| text.contains("\x1b[?1049l"));
        assert!(child.wait().expect("it ends").success(), "{end:?}: {last:?}");
        assert_eq!(terminal.modes(), before, "{end:?}: line editing and echo are on again");
    }
    // One that does not know its columns has a screen, too. With the terminal the command ends.
    for columns in [120, 0] {
        let terminal = Terminal::new(24, columns);
        let mut child = terminal.start(&mut selvedge(&place, &["top", "--interval", "0.05"]));
        terminal.read_until(|text| text.contains("quit") && text.contains("rank"));
        drop(terminal);
        assert!(child.wait().expect("it ends").success(), "{columns}");
    }
    assert_eq!(job.end().code, Some(0));
}

/// A signal to a child of this test.
fn signal_child(pid: u32, signal: i32) -> i32 {
    // SAFETY: `kill` takes numbers. The child is ours and not reaped, so the pid is its own.
    unsafe { libc::kill(pid as i32, signal) }
}

/// Only the launcher can have marked it, because rank 0 calls no interface after the first put.
#[test]
fn the_launcher_marks_the_nics_of_a_dead_rank() {
    for (mode, code) in [("idle", 137), ("leave", 0)] {
        let place = Place::new(mode);
        let job = Job::start(&place, &["--keep-going"], mode);
        wait_until("rank 1 is shown as dead", || {
            let (nics, _) = top(&place);
            let states: Vec<&str> = nics.iter().filter_map(|nic| nic["state"].as_str()).collect();
            states == ["ready", "dead"]
        });
        let ended = job.end();
        assert_eq!(ended.code, Some(code), "{mode}: {ended:?}");
    }
}

#[test]
fn puts_to_a_dead_rank_become_undeliverable() {
    for mode in ["nic", "host"] {
        let place = Place::new(&format!("death-{mode}"));
        let job = Job::start(&place, &["--keep-going", "--mode", mode], "death");
        let ended = job.end();
        assert_eq!((ended.code, ended.out.as_str()), (Some(137), "undeliverable\n"), "{mode}: {ended:?}");
    }
}

#[test]
fn info_shows_the_limits_and_registers() {
    let place = Place::new("info");
    let shown = json(&output(&place, &["info", "--json"]));
    assert_eq!(shown["build"]["version"], env!("CARGO_PKG_VERSION"));
    let target = shown["build"]["target"].as_str().expect("text");
    assert!(target.starts_with(std::env::consts::ARCH) && target.contains(std::env::consts::OS), "{target}");
    for (name, default, largest) in [("entries", 8192, 1 << 20), ("portals", 64, 1 << 16)] {
        let limits = &shown["limits"];
        assert_eq!((&limits["default"][name], &limits["largest"][name]), (&default.into(), &largest.into()), "{name}");
        assert!(limits["meaning"][name].is_string());
    }
    let machine = &shown["machine"];
    assert!(machine["cores_allowed"].as_u64() >= Some(1) && machine["open_files"].as_u64() > Some(2));
    assert!(machine["job_directory"].as_str().is_some_and(|path| Path::new(path).starts_with(place.file(""))));
    assert!(machine["job_directory_parent"]["free_bytes"].as_u64() > Some(0));
    for field in ["cma_between_siblings", "membarrier_global_expedited", "madv_populate"] {
        assert!(machine[field].is_boolean(), "{field}");
    }
    assert_eq!(machine["cma_error"].is_null(), machine["cma_between_siblings"] == true);

    let names: Vec<&str> =
        shown["registers"].as_array().expect("an array").iter().filter_map(|r| r["name"].as_str()).collect();
    let described = Register::ALL.iter().map(|r| r.name()).chain(TableRegister::ALL.iter().map(|r| r.name()));
    assert_eq!(names, described.collect::<Vec<_>>());
    let text = |arguments: &[&str]| String::from_utf8(output(&place, arguments).stdout).expect("text");
    let (registers, all) = (text(&["info", "registers"]), text(&["info"]));
    for register in Register::ALL {
        let line = registers.lines().find(|line| line.split_whitespace().next() == Some(register.name()));
        assert!(line.is_some_and(|line| line.contains(register.unit()) && line.ends_with(register.text())), "{line:?}");
    }
    for section in ["build", "limits", "variables", "machine"] {
        assert!(all.lines().any(|line| line == section), "{section}");
    }
}

#[test]
fn info_shows_the_variables_in_force() {
    let place = Place::new("variables");
    let mut command = selvedge(&place, &["info", "variables", "--json"]);
    for name in ["SELVEDGE_PATH", "SELVEDGE_JOB", "SELVEDGE_RANK", "SELVEDGE_LOG"] {
        command.env_remove(name);
    }
    command.env("SELVEDGE_SPIN_US", "7").env("SELVEDGE_HEAP_BYTES", "64M").env("SELVEDGE_MODE", "fast");
    let done = command.output().expect("the command starts");
    let shown = json(&done);
    let of = |name: &str| {
        let all = shown["variables"].as_array().expect("an array");
        all.iter().find(|variable| variable["name"] == name).unwrap_or_else(|| panic!("{name} is missing"))
    };
    for (name, set, understood, in_force) in [
        ("SELVEDGE_SPIN_US", Some("7"), true, "7"),
        ("SELVEDGE_HEAP_BYTES", Some("64M"), true, "64 MiB"),
        ("SELVEDGE_MODE", Some("fast"), false, "nic"),
        ("SELVEDGE_PATH", None, true, "auto"),
        ("SELVEDGE_LOG", None, true, "warn"),
    ] {
        let variable = of(name);
        assert_eq!(variable["set"].as_str(), set, "{name}");
        assert_eq!((&variable["understood"], &variable["in_force"]), (&understood.into(), &in_force.into()), "{name}");
    }
    // The library itself also reports the invalid value.
    let complaints = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(complaints.lines().count(), 1, "{complaints}");
    assert!(complaints.contains("SELVEDGE_MODE=fast is not a valid value"), "{complaints}");
    let text = selvedge(&place, &["info", "variables"]).env("SELVEDGE_MODE", "fast").output().expect("it starts");
    assert!(String::from_utf8_lossy(&text.stdout).contains("SELVEDGE_MODE = nic   !! \"fast\" is not understood"));
}
