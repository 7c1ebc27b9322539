// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge run` as a user sees it: exit codes, reports, output, environment.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use crate::common::{Ended, Place, example, runs, wait_until};

#[test]
fn exit_codes_are_those_of_the_ranks() {
    let place = Place::new("codes");
    for (script, code, report) in [
        ("exit 0", 0, None),
        ("exit 3", 3, Some("exited with status 3")),
        ("exit 255", 255, Some("exited with status 255")),
        ("kill -SEGV $$", 139, Some("was killed by SIGSEGV")),
        ("kill -KILL $$", 137, Some("was killed by SIGKILL")),
    ] {
        let ended = place.output(&["sh", "-c", script]);
        assert_eq!(ended.code, Some(code), "{script}");
        match (report, ended.reports().as_slice()) {
            (None, []) => {}
            (Some(report), [line]) => {
                assert!(line.starts_with("selvedge run: rank 0 (pid ") && line.contains(", sh) "), "{line}");
                assert!(line.contains(report), "{line}");
            }
            other => panic!("{script}: {other:?}"),
        }
        assert!(place.jobs().is_empty(), "{script}");
    }
}

#[test]
fn the_first_failure_ends_the_job_and_is_the_only_one_reported() {
    let place = Place::new("first");
    let script = "echo $$ > $PLACE/$SELVEDGE_RANK; test $SELVEDGE_RANK = 1 && exit 5; exec sleep 1000";
    let ended = place.output(&["-n", "3", "sh", "-c", script]);
    assert_eq!(ended.code, Some(5));
    assert_eq!(ended.reports().len(), 1, "{ended:?}");
    assert!(ended.reports()[0].contains("rank 1 (pid "));
    for rank in ["0", "2"] {
        // A rank that was ended before it wrote its pid is dead, too.
        let pid = std::fs::read_to_string(place.file(rank)).unwrap_or_default();
        assert!(pid.is_empty() || !runs(pid.trim()), "rank {rank}");
    }
}

#[test]
fn ranks_that_ignore_sigterm_are_killed() {
    let place = Place::new("stubborn");
    let script = "trap '' TERM; echo $$ > $PLACE/$SELVEDGE_RANK; \
                  if test $SELVEDGE_RANK = 1; then while ! test -s $PLACE/0; do sleep 0.02; done; exit 5; fi; \
                  while :; do sleep 0.1; done";
    let ended = place.output(&["-n", "2", "sh", "-c", script]);
    assert_eq!(ended.code, Some(5));
    assert!(!runs(&place.wait_for_line("0")));
}

#[test]
fn processes_of_a_failed_rank_end_with_it() {
    let place = Place::new("group");
    let ended = place.output(&["sh", "-c", "sleep 1000 & echo $! > $PLACE/sleep; exit 3"]);
    assert_eq!(ended.code, Some(3));
    let pid = place.wait_for_line("sleep");
    wait_until("the sleep is gone", || !runs(&pid));
}

#[test]
fn time_limit() {
    let place = Place::new("timeout");
    let ended =
        place.output(&["-n", "2", "--timeout", "0.3", "sh", "-c", "echo $$ > $PLACE/$SELVEDGE_RANK; exec sleep 1000"]);
    assert_eq!(ended.code, Some(124));
    assert_eq!(ended.reports(), ["selvedge run: the job has reached its time limit of 0.3 s"]);
    assert!(place.jobs().is_empty());
    assert_eq!(place.output(&["--timeout", "1000", "true"]).code, Some(0));
}

#[test]
fn programs_that_cannot_be_started() {
    let place = Place::new("program");
    let plain = place.file("plain");
    std::fs::write(&plain, "text").expect("written");
    let plain = plain.to_string_lossy();
    for (program, code, said) in [
        ("no-such-program-anywhere", 127, "is not in PATH"),
        ("./no-such-program-here", 127, "./no-such-program-here does not exist"),
        (&*plain, 126, "is not executable"),
        ("/", 126, "is a directory"),
    ] {
        let ended = place.output(&["-n", "3", program]);
        assert_eq!(ended.code, Some(code), "{program}");
        assert_eq!(ended.reports().len(), 1, "{program}: one line, not one for each rank");
        assert!(ended.err.contains(said), "{}", ended.err);
    }
    assert!(place.jobs().is_empty());
}

#[test]
fn a_program_whose_interpreter_is_missing() {
    let place = Place::new("interpreter");
    let script = place.program("script", b"#!/nonexistent/interpreter\n");
    let ended = place.output(&["-n", "2", &script.to_string_lossy()]);
    assert_eq!(ended.code, Some(127), "{ended:?}");
    assert!(ended.err.contains("cannot start rank 0"), "{}", ended.err);
    assert!(place.jobs().is_empty());
}

#[test]
fn invalid_command_lines() {
    let place = Place::new("usage");
    for args in [
        &[][..],
        &["-n", "2"],
        &["--frobnicate", "true"],
        &["-n", "0", "true"],
        &["-n", "two", "true"],
        &["--timeout", "0", "true"],
        &["--timeout", "-1", "true"],
        &["--timeout", "nan", "true"],
        &["--env", "NAME", "true"],
        &["--env", "=value", "true"],
        &["--bind", "socket", "true"],
        &["--mode", "both", "true"],
        &["--path", "warp", "true"],
    ] {
        let ended = place.output(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert!(ended.err.contains("error:"), "{args:?}");
    }
    let crowded = place.output(&["-n", "1025", "true"]);
    assert_eq!(crowded.code, Some(2), "{crowded:?}");
    assert!(crowded.err.contains("1025 ranks of a job are too many for this host"), "{crowded:?}");
}

#[test]
fn arguments_after_the_program_belong_to_it() {
    let place = Place::new("args");
    assert_eq!(place.output(&["echo", "-n", "7", "--timeout", "x", "--help"]).out, "7 --timeout x --help");
    assert_eq!(place.output(&["-n", "1", "--", "echo", "--", "a"]).out, "-- a\n");
}

#[test]
fn environment_of_a_rank() {
    let place = Place::new("environment");
    let script = "echo $SELVEDGE_RANK $SELVEDGE_SIZE $PMI_RANK $PMI_SIZE $SELVEDGE_MODE $SELVEDGE_PATH $A; \
                  test -d $SELVEDGE_DIR/selvedge-$(id -u)/$SELVEDGE_JOB && test -S /proc/self/fd/$PMI_FD \
                  && test -z \"$PMIX_NAMESPACE$PMI_PORT\" || echo wrong";
    let args = ["-n", "2", "--mode", "host", "--path", "cma", "--env", "A=x", "--env", "A=b=c", "sh", "-c", script];
    let mut command = place.run(&args);
    command.env("PMIX_NAMESPACE", "outer").env("PMI_PORT", "outer:1").env("SELVEDGE_MODE", "nic");
    let ended = Ended::from(command.output().expect("starts"));
    assert_eq!(ended.lines(), ["0 2 0 2 host cma b=c", "1 2 1 2 host cma b=c"], "{ended:?}");
}

#[test]
fn the_job_has_a_record_while_it_runs() {
    let place = Place::new("record");
    let ended = place.output(&["-n", "2", "sh", "-c", "cat $SELVEDGE_DIR/selvedge-$(id -u)/$SELVEDGE_JOB/job"]);
    let line = ended.lines()[0];
    for part in ["\"size\":2", "\"program\":\"sh\"", "\"name\":\"run-", "\"pid\":", "\"start\":"] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn output_in_whole_marked_lines() {
    let place = Place::new("tags");
    let script = "for i in 1 2 3; do printf a$SELVEDGE_RANK; sleep 0.01; echo b; done; echo e >&2; printf last";
    let ended = place.output(&["-n", "3", "--tag-output", "sh", "-c", script]);
    assert_eq!(ended.code, Some(0));
    let expected: Vec<String> = (0..3)
        .flat_map(|rank| {
            let line = format!("[{rank}] a{rank}b");
            [line.clone(), line.clone(), line, format!("[{rank}] last")]
        })
        .collect();
    assert_eq!(ended.lines(), expected);
    let mut errors: Vec<&str> = ended.err.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["[0] e", "[1] e", "[2] e"]);
}

#[test]
fn much_output_is_complete() {
    let place = Place::new("much");
    let ended = place.output(&["-n", "4", "--tag-output", "seq", "20000"]);
    assert_eq!(ended.out.lines().count(), 4 * 20000);
    for rank in 0..4 {
        let mark = format!("[{rank}] ");
        let numbers = ended.out.lines().filter_map(|line| line.strip_prefix(&mark));
        assert!(numbers.eq((1..=20000).map(|number| number.to_string()).collect::<Vec<_>>()), "in order");
    }
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_job() {
    let place = Place::new("reader");
    let mut child =
        place.run(&["--tag-output", "yes"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("ends").code(), Some(128 + 13));
}

#[test]
fn input_goes_to_rank_0() {
    let place = Place::new("input");
    let mut child = place
        .run(&["-n", "3", "--tag-output", "sh", "-c", "cat; echo end"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("piped").write_all(b"one\ntwo\n").expect("taken");
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(ended.lines(), ["[0] end", "[0] one", "[0] two", "[1] end", "[2] end"]);
}

#[test]
fn binding() {
    let place = Place::new("bind");
    let script = "sed -n 's/Cpus_allowed_list:[[:space:]]*//p' /proc/self/status";
    let cores = |args: &[&str]| -> Vec<String> {
        let ended = place.output(&[args, &["--tag-output", "sh", "-c", script]].concat());
        ended.lines().into_iter().map(str::to_owned).collect()
    };
    let free = cores(&["--bind", "none"]);
    let pinned = cores(&["-n", "2", "--bind", "core"]);
    assert_eq!(pinned.len(), 2);
    assert!(pinned.iter().all(|line| line[4..].parse::<u32>().is_ok()), "one core each: {pinned:?}");
    let several = free[0].contains([',', '-']);
    assert_eq!(pinned[0][4..] != pinned[1][4..], several, "different ones if there are several: {pinned:?}");
    assert_eq!(cores(&["-n", "1000", "--bind", "none"]).len(), 1000);
}

#[test]
fn signals_are_passed_on_once() {
    let place = Place::new("signals");
    let script = "trap 'echo x >> $PLACE/got-$SELVEDGE_RANK; exit 0' INT; echo ready > $PLACE/$SELVEDGE_RANK; \
                  while :; do sleep 0.02; done";
    let child = place.run(&["-n", "2", "sh", "-c", script]).stderr(Stdio::piped()).spawn().expect("starts");
    place.wait_for_line("0");
    place.wait_for_line("1");
    kill(child.id(), "INT");
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(ended.code, Some(0), "both dealt with it: {ended:?}");
    assert_eq!(ended.reports(), ["selvedge run: SIGINT passed on to the ranks; send it again to kill them"]);
    for rank in ["got-0", "got-1"] {
        assert_eq!(std::fs::read_to_string(place.file(rank)).expect("written"), "x\n");
    }
}

#[test]
fn a_second_signal_kills() {
    let place = Place::new("second-signal");
    let script = "trap 'echo x > $PLACE/got-$SELVEDGE_RANK' TERM; echo ready > $PLACE/$SELVEDGE_RANK; \
                  while :; do sleep 0.02; done";
    let child = place.run(&["-n", "2", "sh", "-c", script]).stderr(Stdio::piped()).spawn().expect("starts");
    place.wait_for_line("0");
    place.wait_for_line("1");
    kill(child.id(), "TERM");
    place.wait_for_line("got-0");
    place.wait_for_line("got-1");
    kill(child.id(), "TERM");
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(ended.code, Some(128 + 15), "{ended:?}");
    assert!(place.jobs().is_empty());
}

#[test]
fn a_killed_launcher_leaves_no_ranks_and_the_next_one_sweeps() {
    let place = Place::new("killed");
    let mut child = place
        .run(&["-n", "3", "sh", "-c", "echo $$ > $PLACE/$SELVEDGE_RANK; exec sleep 1000"])
        .spawn()
        .expect("starts");
    let pids = ["0", "1", "2"].map(|rank| place.wait_for_line(rank));
    assert!(pids.iter().all(|pid| runs(pid)));
    kill(child.id(), "KILL");
    child.wait().expect("ends");
    for pid in pids {
        wait_until("the rank is gone", || !runs(&pid));
    }
    assert_eq!(place.jobs().len(), 1, "no process was left to remove it");
    assert_eq!(place.output(&["true"]).code, Some(0));
    assert!(place.jobs().is_empty());
}

#[test]
fn a_running_job_is_not_swept() {
    let place = Place::new("unswept");
    let mut child =
        place.run(&["sh", "-c", "echo $$ > $PLACE/0; exec cat"]).stdin(Stdio::piped()).spawn().expect("starts");
    place.wait_for_line("0");
    assert_eq!(place.output(&["true"]).code, Some(0));
    assert_eq!(place.jobs().len(), 1);
    drop(child.stdin.take());
    assert!(child.wait().expect("ends").success());
    assert!(place.jobs().is_empty());
}

#[test]
fn a_launcher_started_with_sigchld_ignored_still_detects_deaths() {
    let place = Place::new("sigchld");
    let mut command = place.run(&["sh", "-c", "exit 4"]);
    // SAFETY: the closure makes one system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            Ok(())
        });
    }
    assert_eq!(command.status().expect("starts").code(), Some(4));
}

#[test]
fn a_job_directory_of_others_is_refused() {
    let place = Place::new("open");
    let user = place.output(&["sh", "-c", "id -u"]).out.trim().to_owned();
    let directory = place.file(&format!("selvedge-{user}"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&directory, mode).expect("ours");
    let ended = place.output(&["true"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("has mode 0777"), "{}", ended.err);
}

#[test]
fn ranks_find_each_other() {
    let place = Place::new("hello");
    for ranks in [1, 2, 24] {
        let ended = place.output(&["-n", &ranks.to_string(), &example("rank"), "hello"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let mut expected: Vec<String> = (0..ranks).map(|rank| format!("rank {rank} of {ranks}")).collect();
        expected.sort_unstable();
        assert_eq!(ended.lines(), expected);
    }
}

fn kill(pid: u32, signal: &str) {
    let status = std::process::Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
    assert!(status.expect("kill starts").success());
}
