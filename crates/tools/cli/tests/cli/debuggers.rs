// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge run --gdb` and `--wrapper`, with real debuggers. A tool that is missing skips its test, with a message.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::{Ended, Place, wait_until};

/// Whether a tool is installed, and may trace here.
fn has(tool: &str, check: &[&str]) -> bool {
    let found = Command::new(tool).args(check).stdin(Stdio::null()).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {tool} is not installed, or may not trace here");
    }
    found
}

fn has_gdb() -> bool {
    has("gdb", &["--batch", "-ex", "run", "-ex", "quit $_exitcode", "--args", "/bin/true"])
}

/// A program that ends with the number of its first argument: a status, or 100 + a signal. With a second argument only
/// that rank does, and others end with 0. It is compiled for a debugger.
fn ending(place: &Place) -> String {
    let text = "#include <signal.h>\n#include <stdlib.h>\n\
                static void crash(int number) { raise(number); }\n\
                int main(int count, char **words) {\n\
                int own = count > 2 ? atoi(words[2]) == atoi(getenv(\"SELVEDGE_RANK\")) : 1;\n\
                int code = own && count > 1 ? atoi(words[1]) : 0;\n\
                if (code > 100) crash(code - 100);\n\
                return code; }\n";
    let (source, program) = (place.file("ending.c"), place.file("ending"));
    std::fs::write(&source, text).expect("written");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(compiler).args(["-g", "-O0", "-o"]).args([&program, &source]).status();
    assert!(status.expect("a C compiler").success());
    program.to_string_lossy().into_owned()
}

#[test]
fn a_wrapper_runs_each_rank() {
    let place = Place::new("wrapper");
    let wrapper = "sh -c 'echo \"{rank} of $SELVEDGE_RANK\"; exec \"$@\"' name";
    let ended = place.output(&["-n", "2", "--wrapper", wrapper, "echo", "run"]);
    assert_eq!(ended.lines(), ["0 of 0", "1 of 1", "run", "run"], "{ended:?}");
    let ended = place.output(&["-n", "2", "--wrapper", wrapper, "sh", "-c", "exit $SELVEDGE_RANK"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("rank 1 (pid ") && ended.err.contains("exited with status 1"), "{ended:?}");
    // A wrapper that stays is the rank, and the program its child: both end with the job.
    let script = "echo $$ > $PLACE/pid; test $SELVEDGE_RANK = 1 && kill -SEGV $$; exec sleep 1000";
    let ended = place.output(&["-n", "2", "--wrapper", "sh -c '\"$@\"; exit $?' name", "sh", "-c", script]);
    assert_eq!(ended.code, Some(139), "{ended:?}");
    assert!(place.jobs().is_empty());
}

#[test]
fn wrappers_and_debuggers_that_cannot_be() {
    let place = Place::new("runners");
    for (args, code, words) in [
        (&["--wrapper", "no-such-wrapper -q", "true"][..], 127, "--wrapper: no-such-wrapper is not in PATH"),
        (&["--wrapper", "", "true"], 2, "give a command"),
        (&["--wrapper", "a 'b", "true"], 2, "a quote is not closed"),
        (&["--wrapper", "nice", "--gdb", "0", "true"], 2, "cannot be used with"),
        (&["--gdb", "x", "true"], 2, "write ranks as 0, 0,2-3 or all"),
        (&["-n", "2", "--gdb", "0-2", "true"], 2, "there is no rank 2; the job has ranks 0 to 1"),
        (&["--gdb-command", "bt", "true"], 2, "--gdb <RANKS>"),
        (&["--hosts", "a,b", "--gdb", "0", "true"], 2, "give gdb's commands"),
    ] {
        let ended = place.output(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        assert!(ended.err.contains(words), "{args:?}: {ended:?}");
    }
    assert!(place.jobs().is_empty());
}

#[test]
fn valgrind_runs_a_rank() {
    let place = Place::new("valgrind");
    if has("valgrind", &["--version"]) {
        let ended = place.output(&["--wrapper", "valgrind -q --error-exitcode=9", &ending(&place), "5"]);
        assert_eq!(ended.code, Some(5), "{ended:?}");
    }
}

#[test]
fn gdb_runs_its_commands_and_ends_as_the_program() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("gdb-batch");
    let program = ending(&place);
    let batch = ["-n", "2", "--gdb", "1", "--gdb-command", "run", "--gdb-command", "bt"];
    let ended = place.output(&[&batch[..], &[&program, "111", "1"]].concat());
    assert_eq!(ended.code, Some(139), "{ended:?}");
    assert!(ended.out.contains("in crash (number=11)"), "{ended:?}");
    assert!(ended.err.contains("rank 1 (pid ") && ended.err.contains("exited with status 139"), "{ended:?}");
    let tagged = place.output(&[&["--tag-output"], &batch[..], &[&program, "7", "1"]].concat());
    assert_eq!(tagged.code, Some(7), "{tagged:?}");
    assert!(tagged.out.lines().all(|line| line.starts_with("[1] ")), "{tagged:?}");
    assert_eq!(place.output(&[&batch[..], &[&program]].concat()).code, Some(0));
    assert!(place.jobs().is_empty());
}

#[test]
fn gdb_of_one_rank_has_the_standard_input() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("gdb-input");
    let program = ending(&place);
    for (words, code) in [(["7", "1"], 7), (["111", "1"], 139), (["0", "1"], 0)] {
        let mut command = place.run(&["-n", "2", "--tag-output", "--gdb", "1", &program]);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        child.stdin.take().expect("a pipe").write_all(b"break crash\nrun\ncontinue\ncontinue\n").expect("taken");
        let ended = Ended::from(child.wait_with_output().expect("ends"));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.out.contains("Breakpoint 1") && !ended.out.contains("[1] "), "{ended:?}");
    }
}

#[test]
fn gdb_of_one_rank_has_the_terminal() {
    if !has_gdb() || !has("script", &["--version"]) {
        return;
    }
    let place = Place::new("gdb-terminal");
    let (selvedge, program) = (env!("CARGO_BIN_EXE_selvedge"), ending(&place));
    let line = format!("{selvedge} run -n 2 --gdb 0 {program} 7 0; echo code $?; stty -a");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("SELVEDGE_DIR", place.file("")).env("TERM", "dumb");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut keys = child.stdin.take().expect("a pipe");
    keys.write_all(b"run\nquit\n").expect("taken");
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    assert!(ended.out.contains("exited with code 07") && ended.out.contains("code 7"), "{ended:?}");
    assert!(ended.out.contains(" icanon ") && ended.out.contains(" echo "), "the terminal's modes: {ended:?}");
}

#[test]
fn several_ranks_have_panes_of_tmux() {
    if !has_gdb() || !has("tmux", &["-V"]) {
        return;
    }
    let place = Place::new("gdb-panes");
    let (selvedge, program) = (env!("CARGO_BIN_EXE_selvedge"), ending(&place));
    let tmux = |args: &[&str]| {
        let mut command = Command::new("tmux");
        command.args(["-f", "/dev/null", "-S"]).arg(place.file("tmux")).args(args).env_remove("TMUX");
        Ended::from(command.env("SELVEDGE_DIR", place.file("")).output().expect("tmux starts"))
    };
    let (code, said) = (place.file("code"), place.file("said"));
    let line = format!(
        "{selvedge} run -n 2 --gdb all {program} 7 1 2> {}; echo $? > {}; sleep 1000",
        said.display(),
        code.display()
    );
    let started = tmux(&["new-session", "-d", "-x", "160", "-y", "50", &line]);
    assert_eq!(started.code, Some(0), "{started:?}");
    let shown = |pane: &str| tmux(&["capture-pane", "-p", "-t", pane]).out;
    // Each is answered before the next one is typed: Ctrl-C discards what the terminal has read.
    let say = |pane: &str, keys: &[&str], answer: &str| {
        tmux(&[&["send-keys", "-t", pane], keys].concat());
        wait_until(answer, || shown(pane).contains(answer));
    };
    for pane in [":0.1", ":0.2"] {
        wait_until("gdb asks", || shown(pane).contains("(gdb)"));
        say(pane, &["show environment SELVEDGE_RANK", "Enter"], "SELVEDGE_RANK = ");
    }
    // Rank 0 first: the job ends with rank 1, whose code is not 0.
    let first = if shown(":0.1").contains("SELVEDGE_RANK = 0") { ":0.1" } else { ":0.2" };
    // Ctrl-C reaches a debugger in its window, and does not end the job.
    say(first, &["C-c"], "Quit");
    say(first, &["run", "Enter"], ") exited ");
    tmux(&["send-keys", "-t", first, "quit", "Enter"]);
    wait_until("one pane is closed", || tmux(&["list-panes"]).out.lines().count() == 2);
    say(":0.1", &["run", "Enter"], ") exited ");
    tmux(&["send-keys", "-t", ":0.1", "quit", "Enter"]);
    assert_eq!(place.wait_for_line("code"), "7", "{:?}", std::fs::read_to_string(&said));
    wait_until("both panes are closed", || tmux(&["list-panes"]).out.lines().count() == 1);
    tmux(&["kill-server"]);
}

#[test]
fn several_ranks_without_windows_are_told_what_to_do() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("gdb-windows");
    let mut command = place.run(&["-n", "3", "--gdb", "0-1", "true"]);
    command.env_remove("TMUX").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let ended = Ended::from(command.output().expect("starts"));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("2 ranks need a window each") && ended.err.contains("start tmux first"), "{ended:?}");
    assert!(place.jobs().is_empty());
}
