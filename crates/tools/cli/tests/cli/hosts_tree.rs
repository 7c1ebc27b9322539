// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge run` over hosts whose agents start each other: seven hosts with fan-out 2, so that host 1 starts the agents
//! of hosts 2 and 3, host 4 those of 5 and 6, and host 6 that of 7.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::hosts::Hosts;
use crate::common::{Ended, Place, example, wait_until};

const HOSTS: usize = 7;
const ALL: &str = "host1,host2,host3,host4,host5,host6,host7";

/// Seven hosts and a place; ends the test if there are none.
macro_rules! hosts {
    ($name:expr) => {
        match Hosts::make(HOSTS) {
            Some(hosts) if hosts.has_remote_shell() => (hosts, Place::new($name)),
            _ => return,
        }
    };
}

fn kill(pid: &str, signal: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), pid]).status();
    assert!(status.expect("kill starts").success());
}

/// A job on these hosts, with fan-out 2. A limit keeps a failing test from hanging.
fn run_on(hosts: &Hosts, place: &Place, on: &str, args: &[&str]) -> Command {
    let limit: &[&str] = if args.contains(&"--timeout") { &[] } else { &["--timeout", "200"] };
    let mut command = hosts.run(place, &[&["--hosts", on], limit, args].concat());
    command.env("SELVEDGE_RUN_FANOUT", "2");
    command
}

fn run(hosts: &Hosts, place: &Place, args: &[&str]) -> Command {
    run_on(hosts, place, ALL, args)
}

/// The end of a job, which has to leave nothing on any host.
fn ended(hosts: &Hosts, mut command: Command) -> Ended {
    let ended = Ended::from(command.output().expect("the command starts"));
    hosts.assert_clean();
    ended
}

/// A job with a rank on each host, and children of the ranks; all run.
fn long_job(hosts: &Hosts, place: &Place, options: &[&str]) -> Child {
    started(place, |args| run(hosts, place, &[options, args].concat()))
}

fn started(place: &Place, run: impl FnOnce(&[&str]) -> Command) -> Child {
    let script = "sleep 1001 & echo $! > $PLACE/$SELVEDGE_RANK; exec sleep 1002";
    let mut command = run(&["-n", "7", "sh", "-c", script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    for rank in 0..HOSTS {
        let rank = rank.to_string();
        place.wait_for_line(&rank);
        fs::remove_file(place.file(&rank)).expect("ours");
    }
    child
}

/// The agents on a host, by their pids on this machine. All children of theirs run.
fn agents(hosts: &Hosts, host: usize) -> Vec<String> {
    let is_agent = |line: &str| line.ends_with("selvedge agent") && line.split_whitespace().count() == 2;
    hosts.processes(host).into_iter().filter(|(_, line)| is_agent(line)).map(|(pid, _)| pid).collect()
}

fn agent(hosts: &Hosts, host: usize) -> String {
    agents(hosts, host).pop().unwrap_or_else(|| panic!("host{host} has an agent"))
}

/// Checks that one message names the lost host, the reason, and the hosts below it.
fn assert_lost(ended: &Ended, host: &str, below: &str) {
    let said: Vec<&str> = ended.reports().into_iter().filter(|line| line.contains(" is lost: ")).collect();
    let begin = format!("selvedge run: host {host} is lost: its agent, or the connection to it, has ended (");
    assert!(said.len() == 1 && said[0].starts_with(&begin) && said[0].ends_with(&format!("; {below}")), "{ended:?}");
}

/// The hosts whose agents are children of this host's.
fn children(hosts: &Hosts, host: usize) -> Vec<String> {
    let all = hosts.processes(host);
    let asked = all.iter().filter_map(|(_, line)| line.split_once("rshd.py ask ")?.1.split_whitespace().nth(1));
    let mut names: Vec<String> = asked.map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn agents_start_each_other() {
    let (hosts, place) = hosts!("tree-shape");
    let child = long_job(&hosts, &place, &[]);
    let found: Vec<Vec<String>> = (1..=HOSTS).map(|host| children(&hosts, host)).collect();
    let own: &[&[&str]] = &[&["host2", "host3"], &[], &[], &["host5", "host6"], &[], &["host7"], &[]];
    assert_eq!(found, own);
    kill(&child.id().to_string(), "TERM");
    let done = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(done.code, Some(128 + 15), "{done:?}");
    hosts.assert_clean();
    // Without the setting the launcher starts so few agents itself.
    let child = started(&place, |args| hosts.run(&place, &[&["--hosts", ALL], args].concat()));
    assert!((1..=HOSTS).all(|host| children(&hosts, host).is_empty()));
    kill(&child.id().to_string(), "INT");
    assert_eq!(child.wait_with_output().expect("ends").status.code(), Some(128 + 2));
    hosts.assert_clean();
}

#[test]
fn results_output_and_input() {
    let (hosts, place) = hosts!("tree-output");
    let hello = ended(&hosts, run(&hosts, &place, &["-n", "14", &example("rank"), "hello"]));
    let mut all: Vec<String> = (0..14).map(|rank| format!("rank {rank} of 14")).collect();
    all.sort();
    assert_eq!((hello.code, hello.lines()), (Some(0), all.iter().map(String::as_str).collect()), "{hello:?}");
    assert_eq!(hello.err, "");

    let script = "echo $SELVEDGE_RANK $(hostname) $SELVEDGE_HOST/$SELVEDGE_HOSTS $SELVEDGE_NET_ADDRESS $A; echo e >&2";
    let own = ended(&hosts, run(&hosts, &place, &["-n", "7", "--env", "A=b c", "sh", "-c", script]));
    let expected: Vec<String> = (0..HOSTS).map(|at| format!("{at} host{0} {at}/7 10.77.0.{0} b c", at + 1)).collect();
    assert_eq!(own.lines(), expected, "{own:?}");
    assert_eq!(own.err, "e\n".repeat(HOSTS));

    let numbers = ended(&hosts, run(&hosts, &place, &["-n", "7", "--tag-output", "seq", "20000"]));
    assert_eq!(numbers.code, Some(0), "{}", numbers.err);
    for rank in 0..HOSTS {
        let mark = format!("[{rank}] ");
        let numbers = numbers.out.lines().filter_map(|line| line.strip_prefix(&mark));
        assert!(numbers.eq((1..=20000).map(|number| number.to_string()).collect::<Vec<_>>()), "in order");
    }

    let input: String = (0..50_000).map(|number| format!("line {number}\n")).collect();
    let mut command = run(&hosts, &place, &["-n", "7", "--tag-output", "sh", "-c", "cat; echo end"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    let text = input.clone();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let copied = Ended::from(child.wait_with_output().expect("ends"));
    writer.join().expect("no panic").expect("taken");
    let of_0: String =
        copied.out.lines().filter_map(|line| line.strip_prefix("[0] ")).map(|line| format!("{line}\n")).collect();
    assert!(of_0 == format!("{input}end\n"), "{} of {} bytes", of_0.len(), input.len());
    hosts.assert_clean();
}

/// Ranks that print without end, on all hosts but the deepest, delay its lines and do not fill its parents' memory.
#[test]
fn a_flood_of_output_blocks_no_other_host() {
    let (hosts, place) = hosts!("tree-flood");
    let script =
        "test $SELVEDGE_RANK = 6 || exec yes; echo > $PLACE/6; read -r _ < $PLACE/go; echo quiet; exec sleep 1000";
    assert!(Command::new("mkfifo").arg(place.file("go")).status().expect("mkfifo").success());
    let mut command = run(&hosts, &place, &["-n", "7", "--tag-output", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    place.wait_for_line("6");
    // Nobody reads, so everything fills: the pipes, and 256 KiB at each agent.
    std::thread::sleep(Duration::from_secs(2));
    for host in 1..=HOSTS {
        let status = fs::read_to_string(format!("/proc/{}/status", agent(&hosts, host))).expect("it lives");
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("a field");
        let kib: u64 = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
        assert!(kib < 16 << 10, "host{host}: {line}");
    }
    fs::write(place.file("go"), "\n").expect("written");
    let mut marks = std::collections::BTreeSet::new();
    for line in output.lines() {
        let line = line.expect("text");
        let quiet = line == "[6] quiet";
        marks.insert(line);
        if quiet {
            break;
        }
    }
    assert_eq!(marks.len(), HOSTS, "each host has printed: {marks:?}");
    kill(&child.id().to_string(), "TERM");
    child.wait().expect("ends");
    hosts.assert_clean();
}

#[test]
fn exit_codes_signals_and_aborts() {
    let (hosts, place) = hosts!("tree-codes");
    let deepest = "if test $SELVEDGE_RANK = 6; then exit 3; fi; exec sleep 1000";
    let failed = ended(&hosts, run(&hosts, &place, &["-n", "7", "sh", "-c", deepest]));
    assert_eq!(failed.code, Some(3), "{failed:?}");
    assert!(failed.reports()[0].ends_with(" on host7, sh) exited with status 3"), "{failed:?}");
    let aborted = ended(&hosts, run(&hosts, &place, &["-n", "7", &example("rank"), "abort", "6", "9"]));
    assert_eq!(aborted.code, Some(9), "{aborted:?}");
    assert!(aborted.reports()[0].ends_with("aborted the job with code 9"), "{aborted:?}");
    // Survivors pass barriers after a rank of the deepest host has died.
    let silent = ended(&hosts, run(&hosts, &place, &["-n", "7", "--keep-going", &example("rank"), "silent", "6"]));
    assert_eq!(silent.code, Some(0), "{silent:?}");
    let late = ended(&hosts, run(&hosts, &place, &["-n", "7", "--timeout", "1", "sleep", "1000"]));
    assert_eq!(late.code, Some(124), "{late:?}");

    let script = "trap 'echo x >> $PLACE/got-$SELVEDGE_RANK; exit 0' INT; echo ready > $PLACE/$SELVEDGE_RANK; \
                  while :; do sleep 0.02; done";
    let child = run(&hosts, &place, &["-n", "7", "sh", "-c", script]).stderr(Stdio::piped()).spawn().expect("starts");
    (0..HOSTS).for_each(|rank| drop(place.wait_for_line(&rank.to_string())));
    kill(&child.id().to_string(), "INT");
    let handled = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(handled.code, Some(0), "all handled it: {handled:?}");
    for rank in 0..HOSTS {
        assert_eq!(fs::read_to_string(place.file(&format!("got-{rank}"))).expect("written"), "x\n");
    }
    hosts.assert_clean();
}

#[test]
fn a_lost_agent_loses_the_hosts_below_it() {
    let (hosts, place) = hosts!("tree-agent");
    for signal in ["KILL", "TERM"] {
        let child = long_job(&hosts, &place, &[]);
        kill(&agent(&hosts, 4), signal);
        let lost = Ended::from(child.wait_with_output().expect("ends"));
        assert_eq!(lost.code, Some(1), "{lost:?}");
        assert_lost(&lost, "host4", "hosts host5, host6 and host7 were reached through it");
        hosts.assert_clean();
    }
    // A host below another's is lost with fewer.
    let child = long_job(&hosts, &place, &[]);
    kill(&agent(&hosts, 6), "KILL");
    let lost = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(lost.code, Some(1), "{lost:?}");
    assert_lost(&lost, "host6", "host host7 was reached through it");
    hosts.assert_clean();

    // Agents below that are killed, too, leave children of their ranks. The launcher ends these itself.
    let child = long_job(&hosts, &place, &[]);
    kill(&agent(&hosts, 4), "STOP");
    kill(&agent(&hosts, 5), "KILL");
    kill(&agent(&hosts, 7), "KILL");
    kill(&agent(&hosts, 4), "KILL");
    let lost = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(lost.code, Some(1), "{lost:?}");
    assert_lost(&lost, "host4", "hosts host5, host6 and host7 were reached through it");
    hosts.assert_clean();

    // The others continue with --keep-going.
    let script = "echo > $PLACE/$SELVEDGE_RANK; test $SELVEDGE_RANK -ge 3 && exec sleep 1000; \
                  while ! test -e $PLACE/lost; do sleep 0.02; done; sleep 0.2; echo $SELVEDGE_RANK went on";
    let mut command = run(&hosts, &place, &["-n", "7", "--keep-going", "sh", "-c", script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    (0..HOSTS).for_each(|rank| drop(place.wait_for_line(&rank.to_string())));
    kill(&agent(&hosts, 4), "KILL");
    fs::write(place.file("lost"), "").expect("written");
    let lost = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!((lost.code, lost.lines()), (Some(1), vec!["0 went on", "1 went on", "2 went on"]), "{lost:?}");
    hosts.assert_clean();
}

#[test]
fn a_killed_launcher_leaves_nothing_in_the_tree() {
    let (hosts, place) = hosts!("tree-launcher");
    let mut child = long_job(&hosts, &place, &[]);
    assert!(hosts.processes(7).len() >= 3 && hosts.jobs(7).len() == 1);
    kill(&child.id().to_string(), "KILL");
    child.wait().expect("ends");
    hosts.assert_no_processes();
    for host in 1..=HOSTS {
        wait_until("its job directory is removed", || hosts.jobs(host).is_empty());
    }
}

/// No packet tells the hosts below one that it has vanished, and the channels stay open.
#[test]
fn a_vanished_host_is_noticed_below_it() {
    let (hosts, place) = hosts!("tree-vanished");
    let child = started(&place, |args| {
        let mut command = run(&hosts, &place, args);
        command.env("SELVEDGE_NET_TIMEOUT", "1");
        command
    });
    hosts.cut(4);
    let lost = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(lost.code, Some(1), "{lost:?}");
    let said = "host host4, through which the launcher reaches this one, no longer answers";
    assert!(
        ["host5", "host6"].iter().any(|host| lost.err.contains(&format!("selvedge run: host {host}: {said}"))),
        "{lost:?}"
    );
    assert!(!lost.err.contains("host host7: host"), "its parent is there: {lost:?}");
    hosts.assert_clean();
}

/// The login node loses its address. The hosts that it reaches itself notice it, and end those below.
#[test]
fn a_vanished_launcher_is_noticed_in_the_tree() {
    let (hosts, place) = hosts!("tree-login");
    let child = started(&place, |args| {
        let mut command = hosts.run_from_login(&place, &[&["--hosts", ALL], args].concat());
        command.env("SELVEDGE_NET_TIMEOUT", "1").env("SELVEDGE_RUN_FANOUT", "2");
        command
    });
    kill(&child.id().to_string(), "STOP");
    let words = ["ip", "address", "delete", "10.77.255.1/16", "dev", "bridge"];
    assert!(hosts.on_login(&words.map(OsStr::new)).status().expect("a command").success());
    hosts.assert_clean();
    kill(&child.id().to_string(), "CONT");
    let lost = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(lost.code, Some(1), "{lost:?}");
    for host in ["host1", "host4"] {
        assert!(lost.err.contains(&format!("host {host}: the launcher's host no longer answers")), "{lost:?}");
    }
    let said = |host: &str| lost.err.contains(&format!("host {host}: the launcher's host"));
    assert!(!["host2", "host5", "host7"].into_iter().any(said), "{lost:?}");
}

#[test]
fn a_start_that_fails_below_is_reported() {
    let (hosts, place) = hosts!("tree-errors");
    let touch = ["-n", "7", "sh", "-c", "echo $SELVEDGE_RANK >> $PLACE/started"];
    // Two hosts of the second level, and one of the third. No host is below these.
    let on = "host1,host97,host96,host4,host5,host6,host99";
    let failed = ended(&hosts, run_on(&hosts, &place, on, &touch));
    assert_eq!(failed.code, Some(1), "{failed:?}");
    for (host, parent) in [("host97", "host1"), ("host96", "host1"), ("host99", "host6")] {
        assert!(
            failed.err.contains(&format!("selvedge run: host {host}: rsh: no test host has the name {host}")),
            "{failed:?}"
        );
        let said = format!("host {host} (from {parent}): it cannot be reached; `");
        assert!(failed.err.contains(&said), "{failed:?}");
    }
    let remedy = "hosts start agents for others; with SELVEDGE_RUN_FANOUT=7 this host starts all itself";
    assert_eq!(failed.err.matches(remedy).count(), 1, "{failed:?}");
    // A host with others below it.
    let on = "host1,host2,host3,host98,host5,host6,host7";
    let failed = ended(&hosts, run_on(&hosts, &place, on, &touch));
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let last = failed.reports().last().expect("a report").to_string();
    assert!(last.contains("host host98: it cannot be reached; `"), "{failed:?}");
    assert!(last.ends_with("; hosts host5, host6 and host7 were reached through it"), "{failed:?}");

    // Another version, and no Selvedge, on one host of the second level.
    let selvedge = env!("CARGO_BIN_EXE_selvedge");
    let cases = [
        ("echo 'selvedge agent 1 99.1.0 {}'; exec cat > /dev/null", "it has version 99.1.0 of Selvedge, and this is "),
        ("exit 127", "there is no "),
        ("exit 3", "no agent answered (`"),
    ];
    for (does, said) in cases {
        let script = format!("test $(hostname) != host6 || {{ {does}; }}\nexec {selvedge} \"$@\"");
        let path = place.script("agent", &script);
        let mut command = run(&hosts, &place, &touch);
        command.env("SELVEDGE_AGENT", &path);
        let failed = ended(&hosts, command);
        assert_eq!(failed.code, Some(1), "{failed:?}");
        assert!(failed.err.contains(&format!("host host6 (from host4): {said}")), "{failed:?}");
        assert!(failed.err.contains("; host host7 was reached through it"), "{failed:?}");
    }
    // A host that refuses is named, and so is each other one.
    let refused = ended(&hosts, run(&hosts, &place, &["-n", "7", "no-such-program-anywhere"]));
    assert_eq!((refused.code, refused.err.matches("is not in PATH").count()), (Some(127), HOSTS), "{refused:?}");
    assert!(refused.err.contains("host host7 (from host6): "), "{refused:?}");
    assert!(!place.file("started").exists(), "no rank was started");
}

/// The host that is named again has hosts below it, has a parent, or is the parent.
#[test]
fn a_host_named_twice_in_the_tree_is_one_host() {
    let (hosts, place) = hosts!("tree-alias");
    let script = "echo $SELVEDGE_RANK $(hostname) $SELVEDGE_HOST/$SELVEDGE_HOSTS; ls /dev/shm/selvedge-0 | wc -l >&2";
    for (on, own) in [
        ("host1,host2,host3,alias1,host5,host6,host7", ["host1", "host2", "host3", "host1", "host5", "host6", "host7"]),
        (
            "host1,alias1,host3,host4,alias4,host6,alias3",
            ["host1", "host1", "host3", "host4", "host4", "host6", "host3"],
        ),
        ("host1,host2,host3,host4,host5,alias2,host7", ["host1", "host2", "host3", "host4", "host5", "host2", "host7"]),
    ] {
        let done = ended(&hosts, run_on(&hosts, &place, on, &["-n", "7", "sh", "-c", script]));
        let mut names: Vec<&str> = Vec::new();
        own.iter().for_each(|name| {
            if !names.contains(name) {
                names.push(name)
            }
        });
        let number = |name: &str| names.iter().position(|known| *known == name).expect("named");
        let expected: Vec<String> = own
            .iter()
            .enumerate()
            .map(|(rank, name)| format!("{rank} {name} {}/{}", number(name), names.len()))
            .collect();
        assert_eq!(
            (done.code, done.lines()),
            (Some(0), expected.iter().map(String::as_str).collect()),
            "{on}: {done:?}"
        );
        assert_eq!(done.err, "1\n".repeat(HOSTS), "one directory a host");
    }
    // The second agent of host 1 has no ranks. The hosts below it are lost with it.
    let child = started(&place, |args| run_on(&hosts, &place, "host1,host2,host3,alias1,host5,host6,host7", args));
    let agents = agents(&hosts, 1);
    assert_eq!(agents.len(), 2);
    let of_5 = |pid: &String| {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().any(|child| {
            let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            line.contains("\0host5\0")
        })
    };
    kill(agents.iter().find(|pid| of_5(pid)).expect("the parent of host 5's"), "KILL");
    let lost = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(lost.code, Some(1), "{lost:?}");
    assert_lost(&lost, "alias1", "hosts host5, host6 and host7 were reached through it");
    hosts.assert_clean();
}
