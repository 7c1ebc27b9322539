// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge run` over several hosts: placement, environment, output, input, exit codes, PMI, and ends of every kind.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::hosts::Hosts;
use crate::common::{self, Ended, Place, example, tree, wait_until};

/// Hosts and a place; ends the test if there are none.
macro_rules! hosts {
    ($count:expr, $name:expr) => {
        match Hosts::make($count) {
            Some(hosts) => (hosts, Place::new($name)),
            None => return,
        }
    };
}

fn kill(pid: &str, signal: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), pid]).status();
    assert!(status.expect("kill starts").success());
}

#[test]
fn this_host_needs_no_remote_shell() {
    let place = Place::new("hosts-here");
    let own = rustix::system::uname();
    let names = format!("localhost:1,{}:1", own.nodename().to_string_lossy());
    let run = |args: &[&str]| {
        let mut command = place.run(&[&["--hosts", &names][..], args].concat());
        command.env("SELVEDGE_RSH", "/nowhere/rsh").env("TMPDIR", "/tmp/mine");
        command
    };
    let script = "echo $SELVEDGE_RANK $TMPDIR $SELVEDGE_HOSTS; test -d $SELVEDGE_DIR/selvedge-$(id -u)/$SELVEDGE_JOB; exit $SELVEDGE_RANK";
    let ended = Ended::from(run(&["-n", "2", "--keep-going", "sh", "-c", script]).output().expect("starts"));
    assert_eq!((ended.code, ended.lines()), (Some(1), vec!["0 /tmp/mine", "1 /tmp/mine"]), "{ended:?}");
    assert_eq!(ended.reports().len(), 1, "{ended:?}");
    assert!(place.jobs().is_empty());
    let ended = Ended::from(run(&["-n", "4", &example("rank"), "hello"]).output().expect("starts"));
    assert_eq!((ended.code, ended.lines().len()), (Some(0), 4), "{ended:?}");
    let script = "echo $$ > $PLACE/$SELVEDGE_RANK; exec sleep 1000";
    let mut child = run(&["-n", "3", "sh", "-c", script]).spawn().expect("starts");
    let pids = ["0", "1", "2"].map(|rank| place.wait_for_line(rank));
    kill(&child.id().to_string(), "KILL");
    child.wait().expect("ends");
    for pid in pids {
        wait_until("the rank is gone", || !common::runs(&pid));
    }
    wait_until("the agent has removed the directory", || place.jobs().is_empty());
}

#[test]
fn ranks_are_placed_by_slots() {
    let (hosts, place) = hosts!(3, "placement");
    let file = place.file("hostfile");
    fs::write(&file, "# all\nhost2 slots=2\nhost1\nhost3:1 # last\n").expect("written");
    let file = file.to_string_lossy().into_owned();
    let script = "echo $SELVEDGE_RANK $(hostname)";
    for (args, on) in [
        (&["--hosts", "host1,host2,host3"][..], &["host1", "host1", "host2", "host2", "host3"][..]),
        (&["--hosts", "host1,host2:3,host3"], &["host1", "host2", "host2", "host2", "host3"]),
        (&["--hosts", "host3:1,host1:2"], &["host3", "host1", "host1", "host3", "host1"]),
        (&["--hostfile", &file], &["host2", "host2", "host1", "host3", "host2"]),
    ] {
        let ended = hosts.output(&place, &[args, &["-n", "5", "sh", "-c", script]].concat());
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}");
        let expected: Vec<String> = on.iter().enumerate().map(|(rank, host)| format!("{rank} {host}")).collect();
        assert_eq!(ended.lines(), expected, "{args:?}");
    }
}

#[test]
fn environment_of_ranks() {
    let (hosts, place) = hosts!(2, "hosts-environment");
    let script = "echo $SELVEDGE_RANK/$SELVEDGE_SIZE $SELVEDGE_HOST/$SELVEDGE_HOSTS $SELVEDGE_NET_ADDRESS ${#SELVEDGE_SECRET} \
                  $SELVEDGE_MODE $A $B $HOSTNAME $USER $(pwd); \
                  test -d /dev/shm/selvedge-$(id -u)/$SELVEDGE_JOB || echo no directory; \
                  echo $SELVEDGE_SECRET >> $PLACE/secrets";
    let args = ["-n", "3", "--hosts", "host1,host2", "--mode", "host", "--env", "A=b=c", "sh", "-c", script];
    let folder = place.file("a folder");
    fs::create_dir(&folder).expect("made");
    let mut command = hosts.run(&place, &args);
    command.env("B", "'quoted \"\u{e9}").env("HOSTNAME", "launcher").env("USER", "me").current_dir(&folder);
    let ended = Ended::from(command.output().expect("starts"));
    let rest = "64 host b=c 'quoted \"\u{e9}";
    let folder = folder.to_string_lossy();
    assert_eq!(
        ended.lines(),
        [
            format!("0/3 0/2 10.77.0.1 {rest} host1 tester {folder}"),
            format!("1/3 0/2 10.77.0.1 {rest} host1 tester {folder}"),
            format!("2/3 1/2 10.77.0.2 {rest} host2 tester {folder}"),
        ],
        "{ended:?}"
    );
    let secrets = fs::read_to_string(place.file("secrets")).expect("written");
    let mut secrets: Vec<&str> = secrets.lines().collect();
    secrets.dedup();
    assert!(secrets.len() == 1 && secrets[0].bytes().all(|digit| digit.is_ascii_hexdigit()), "{secrets:?}");
    // A single host has no others to reach.
    let ended =
        hosts.output(&place, &["--hosts", "host2", "sh", "-c", "echo $(hostname) $SELVEDGE_HOSTS$SELVEDGE_SECRET"]);
    assert_eq!(ended.lines(), ["host2"], "{ended:?}");
    // A job within a rank is independent.
    let selvedge = env!("CARGO_BIN_EXE_selvedge");
    let inner = format!("{selvedge} run -n 2 sh -c 'echo $SELVEDGE_RANK $SELVEDGE_HOSTS$SELVEDGE_SECRET'");
    let ended = hosts.output(&place, &["-n", "2", "--hosts", "host1,host2", "sh", "-c", &inner]);
    assert_eq!(ended.lines(), ["0", "0", "1", "1"], "{ended:?}");
}

#[test]
fn output_and_input() {
    let (hosts, place) = hosts!(2, "hosts-output");
    let on_two = ["-n", "4", "--hosts", "host1,host2"];
    let ended = hosts.output(&place, &[&on_two[..], &["--tag-output", "seq", "20000"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for rank in 0..4 {
        let mark = format!("[{rank}] ");
        let numbers = ended.out.lines().filter_map(|line| line.strip_prefix(&mark));
        assert!(numbers.eq((1..=20000).map(|number| number.to_string()).collect::<Vec<_>>()), "in order");
    }
    let ended = hosts.output(&place, &[&on_two[..], &["sh", "-c", "echo o; echo e >&2"]].concat());
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("o\no\no\no\n", "e\ne\ne\ne\n"));

    let input: String = (0..50_000).map(|number| format!("line {number}\n")).collect();
    let mut child = hosts
        .run(&place, &[&on_two[..], &["--tag-output", "sh", "-c", "cat; echo end"]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    let text = input.clone();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    writer.join().expect("no panic").expect("taken");
    let of_0: String =
        ended.out.lines().filter_map(|line| line.strip_prefix("[0] ")).map(|line| format!("{line}\n")).collect();
    assert!(of_0 == format!("{input}end\n"), "{} of {} bytes", of_0.len(), input.len());
    assert_eq!(ended.out.lines().filter(|line| line.ends_with("] end")).count(), 4);

    // A rank that does not read, and a reader that closes its stream, end only themselves.
    let mut child = hosts
        .run(&place, &["--hosts", "host1,host2", "-n", "2", "true"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    let _ = stdin.write_all(&vec![b'x'; 1 << 20]);
    assert!(child.wait().expect("ends").success());
    let mut child = hosts
        .run(&place, &["--hosts", "host1", "yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("ends").code(), Some(128 + 13));
    hosts.assert_clean();
}

#[test]
fn exit_codes_and_reports() {
    let (hosts, place) = hosts!(2, "hosts-codes");
    let rank_1 = |script: &str| format!("if test $SELVEDGE_RANK = 1; then {script}; fi; exec sleep 1000");
    let on_two = ["-n", "2", "--hosts", "host1,host2"];
    for (script, code, said) in [
        ("exit 3", 3, "(pid PID on host2, sh) exited with status 3"),
        ("kill -SEGV $$", 139, "(pid PID on host2, sh) was killed by SIGSEGV"),
    ] {
        let ended = hosts.output(&place, &[&on_two[..], &["sh", "-c", &rank_1(script)]].concat());
        assert_eq!(ended.code, Some(code), "{ended:?}");
        let reports = ended.reports();
        assert_eq!(reports.len(), 1, "{ended:?}");
        let words: Vec<&str> = said.split("PID").collect();
        assert!(words.iter().all(|word| reports[0].contains(word)), "{reports:?}");
    }
    let lives = "test $SELVEDGE_RANK = 1 && exit 5; sleep 0.3; echo went on";
    let ended = hosts.output(&place, &[&on_two[..], &["--keep-going", "sh", "-c", lives]].concat());
    assert_eq!((ended.code, ended.out.as_str()), (Some(5), "went on\n"), "{ended:?}");
    let ended = hosts.output(&place, &[&on_two[..], &["--timeout", "0.7", "sleep", "1000"]].concat());
    assert_eq!(ended.code, Some(124), "{ended:?}");
    assert_eq!(ended.reports(), ["selvedge run: the job has reached its time limit of 0.7 s"]);
    let stubborn = "trap '' TERM; test $SELVEDGE_RANK = 1 && { sleep 0.3; exit 5; }; while :; do sleep 0.1; done";
    let ended = hosts.output(&place, &[&on_two[..], &["sh", "-c", stubborn]].concat());
    assert_eq!(ended.code, Some(5), "{ended:?}");
    let ended = hosts.output(&place, &[&on_two[..], &[&example("rank"), "abort", "1", "9"]].concat());
    assert_eq!(ended.code, Some(9), "{ended:?}");
    let report = ended.reports()[0];
    assert!(report.contains(" on host2, ") && report.ends_with("aborted the job with code 9"), "{ended:?}");
}

#[test]
fn pmi_across_hosts() {
    let (hosts, place) = hosts!(3, "hosts-pmi");
    let ended = hosts.output(&place, &["-n", "7", "--hosts", "host1,host2,host3", &example("rank"), "hello"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.lines(), (0..7).map(|rank| format!("rank {rank} of 7")).collect::<Vec<_>>());
    if Command::new("python3").arg("--version").output().is_ok() {
        let client = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/pmi_client.py");
        let mapping = "MAPPING=(vector,(0,1,1),(1,1,2))";
        let args = ["-n", "3", "--hosts", "host1,host2:2", "--env", mapping, "--tag-output", "python3", client];
        let ended = hosts.output(&place, &args);
        assert_eq!(ended.lines(), ["[0] rank 0 ok", "[1] rank 1 ok", "[2] rank 2 ok"], "{ended:?}");
    }
    let compiler = tree().join("peers/mpich/bin/mpicc");
    if compiler.exists() {
        let (source, program) =
            (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/mpi_hosts.c"), place.file("mpi_hosts"));
        let made = Command::new(compiler).args([source, "-o"]).arg(&program).status().expect("mpicc starts");
        assert!(made.success());
        let ended = hosts.output(&place, &["-n", "4", "--hosts", "host1,host2:2", &program.to_string_lossy()]);
        let ranks =
            ["0 of 4 on host1 sum 10", "1 of 4 on host2 sum 10", "2 of 4 on host2 sum 10", "3 of 4 on host1 sum 10"];
        assert_eq!(ended.lines(), ranks, "{ended:?}");
    } else {
        println!("without MPICH: it is not there (make peers)");
    }
    // Survivors pass barriers after a rank of another host has died.
    let args = ["-n", "3", "--hosts", "host1,host2,host3", "--keep-going", &example("rank"), "silent", "1"];
    let ended = hosts.output(&place, &args);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn signals_reach_all_hosts() {
    let (hosts, place) = hosts!(2, "hosts-signals");
    let script = "trap 'echo x >> $PLACE/got-$SELVEDGE_RANK; exit 0' INT; echo ready > $PLACE/$SELVEDGE_RANK; \
                  while :; do sleep 0.02; done";
    let child = hosts
        .run(&place, &["-n", "2", "--hosts", "host1,host2", "sh", "-c", script])
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    place.wait_for_line("0");
    place.wait_for_line("1");
    kill(&child.id().to_string(), "INT");
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(ended.code, Some(0), "both dealt with it: {ended:?}");
    assert_eq!(ended.reports(), ["selvedge run: SIGINT passed on to the ranks; send it again to kill them"]);
    for rank in ["got-0", "got-1"] {
        assert_eq!(fs::read_to_string(place.file(rank)).expect("written"), "x\n");
    }
    hosts.assert_clean();
}

#[test]
fn a_stopped_launcher_stops_all_hosts() {
    let (hosts, place) = hosts!(3, "hosts-stopped");
    let child = long_job(&hosts, &place, &[]);
    let launcher = child.id().to_string();
    let rank = process(&hosts, 2, "sleep 1002");
    let is_stopped = |process: &str| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it lives");
        stat.rsplit_once(") ").expect("a name").1.starts_with('T')
    };
    kill(&launcher, "TSTP");
    wait_until("the rank is stopped", || is_stopped(&rank));
    // The launcher stops itself after its ranks. An earlier SIGCONT would be lost.
    wait_until("the launcher is stopped", || is_stopped(&launcher));
    kill(&launcher, "CONT");
    wait_until("the rank goes on", || !is_stopped(&rank));
    kill(&launcher, "TERM");
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(ended.code, Some(128 + 15), "{ended:?}");
    hosts.assert_clean();
}

/// Starts a job of three ranks with children of their own on three hosts, and waits until they run.
fn long_job(hosts: &Hosts, place: &Place, options: &[&str]) -> std::process::Child {
    started(place, options, |args| hosts.run(place, args))
}

fn started(place: &Place, options: &[&str], run: impl FnOnce(&[&str]) -> Command) -> std::process::Child {
    let script = "sleep 1001 & echo $! > $PLACE/$SELVEDGE_RANK; exec sleep 1002";
    let args = [options, &["-n", "3", "--hosts", "host1,host2,host3", "sh", "-c", script]].concat();
    let child = run(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    for rank in ["0", "1", "2"] {
        place.wait_for_line(rank);
        fs::remove_file(place.file(rank)).expect("ours");
    }
    child
}

/// The process on a host whose command line ends with `what`, except shells. It may not have started yet: during exec a
/// process has no command line for a moment.
fn process(hosts: &Hosts, host: usize, what: &str) -> String {
    let mut found = None;
    wait_until(&format!("{what} runs on host {host}"), || {
        let all = hosts.processes(host);
        found = all.into_iter().find(|(_, line)| line.ends_with(what) && !line.starts_with("sh "));
        found.is_some()
    });
    found.expect("it was found").0
}

#[test]
fn a_killed_launcher_leaves_nothing() {
    let (hosts, place) = hosts!(3, "hosts-launcher");
    let mut child = long_job(&hosts, &place, &[]);
    assert!(hosts.processes(2).len() >= 3 && hosts.jobs(2).len() == 1);
    kill(&child.id().to_string(), "KILL");
    child.wait().expect("ends");
    hosts.assert_no_processes();
    for host in 1..=3 {
        wait_until("its job directory is removed", || hosts.jobs(host).is_empty());
    }
}

/// The login node loses its address, while the hosts still reach each other. No packet tells them.
#[test]
fn a_launcher_whose_host_vanishes_leaves_nothing() {
    let (hosts, place) = hosts!(3, "hosts-vanished");
    let child = started(&place, &[], |args| {
        let mut command = hosts.run_from_login(&place, args);
        command.env("SELVEDGE_NET_TIMEOUT", "1");
        command
    });
    // A stopped launcher is still alive.
    kill(&child.id().to_string(), "STOP");
    std::thread::sleep(Duration::from_secs(5));
    (1..=3).for_each(|host| assert!(hosts.processes(host).len() >= 3, "host{host} goes on"));
    let words = ["ip", "address", "delete", "10.77.255.1/16", "dev", "bridge"];
    assert!(hosts.on_login(&words.map(OsStr::new)).status().expect("a command").success());
    hosts.assert_clean();
    kill(&child.id().to_string(), "CONT");
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for host in 1..=3 {
        assert!(ended.err.contains(&format!("host host{host} is lost")), "{ended:?}");
        assert!(ended.err.contains(&format!("host host{host}: the launcher's host no longer answers")), "{ended:?}");
    }
}

#[test]
fn a_killed_rank_ends_the_job() {
    let (hosts, place) = hosts!(3, "hosts-rank");
    let child = long_job(&hosts, &place, &[]);
    kill(&process(&hosts, 3, "sleep 1002"), "KILL");
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(ended.code, Some(137), "{ended:?}");
    assert!(ended.err.contains("on host3, sh) was killed by SIGKILL"), "{ended:?}");
    hosts.assert_clean();
}

#[test]
fn a_lost_agent_or_remote_shell_ends_the_job() {
    let (hosts, place) = hosts!(3, "hosts-agent");
    for signal in ["KILL", "TERM"] {
        let child = long_job(&hosts, &place, &[]);
        kill(&process(&hosts, 2, "selvedge agent"), signal);
        let ended = Ended::from(child.wait_with_output().expect("ends"));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        // The host's shell may print something first.
        let lost = "selvedge run: host host2 is lost: its agent, or the connection to it, has ended";
        assert!(ended.reports().last().is_some_and(|line| line.starts_with(lost)), "{ended:?}");
        hosts.assert_clean();
    }

    let child = long_job(&hosts, &place, &[]);
    let shells = Command::new("pgrep").args(["-P", &child.id().to_string()]).output().expect("pgrep");
    let shells = String::from_utf8_lossy(&shells.stdout).into_owned();
    kill(shells.lines().next().expect("three"), "KILL");
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("host host1 is lost") && ended.err.contains("was killed by SIGKILL"), "{ended:?}");
    hosts.assert_clean();

    // The others continue with --keep-going.
    let script = "echo > $PLACE/$SELVEDGE_RANK; test $SELVEDGE_RANK = 2 && exec sleep 1000; \
                  while ! test -e $PLACE/lost; do sleep 0.02; done; sleep 0.2; echo $SELVEDGE_RANK went on";
    let args = ["-n", "3", "--hosts", "host1,host2,host3", "--keep-going", "sh", "-c", script];
    let mut command = hosts.run(&place, &args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    for rank in ["0", "1", "2"] {
        place.wait_for_line(rank);
    }
    kill(&process(&hosts, 3, "selvedge agent"), "KILL");
    fs::write(place.file("lost"), "").expect("written");
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!((ended.code, ended.lines()), (Some(1), vec!["0 went on", "1 went on"]), "{ended:?}");
    hosts.assert_clean();
}

#[test]
fn hosts_that_cannot_be_used() {
    let (hosts, place) = hosts!(2, "hosts-errors");
    let on_two = ["-n", "2", "--hosts", "host1,host2"];
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let ended = Ended::from(hosts.run(&place, args).envs(variables.iter().copied()).output().expect("starts"));
        hosts.assert_clean();
        (ended.code, ended.err)
    };
    let touch = ["sh", "-c", "echo $SELVEDGE_RANK >> $PLACE/started"];
    let two = [&on_two[..], &touch].concat();

    let (code, said) = run(&[&["-n", "4", "--hosts", "host1,host7,host2,host8"][..], &touch].concat(), &[]);
    assert_eq!(code, Some(1), "{said}");
    for host in ["host7", "host8"] {
        assert!(said.contains(&format!("host {host}: rsh: no test host has the name {host}")), "{said}");
        assert!(said.contains(&format!("host {host}: it cannot be reached; `")), "{said}");
    }
    let (code, said) = run(&two, &[("SELVEDGE_AGENT", "/nowhere/selvedge")]);
    assert_eq!(code, Some(1), "{said}");
    for host in ["host1", "host2"] {
        assert!(
            said.contains(&format!("host {host}: there is no /nowhere/selvedge; install Selvedge there")),
            "{said}"
        );
    }
    let other = script(&place, "other", "echo 'selvedge agent 1 99.1.0 {}'; cat > /dev/null");
    let (code, said) = run(&two, &[("SELVEDGE_AGENT", &other)]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("host host1: it has version 99.1.0 of Selvedge, and this is "), "{said}");
    let (code, said) = run(&two, &[("SELVEDGE_RSH", "/nowhere/rsh -x")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("host host1: `/nowhere/rsh` cannot be started") && said.contains("SELVEDGE_RSH"), "{said}");
    // A launcher on one of the hosts.
    let selvedge = env!("CARGO_BIN_EXE_selvedge");
    let inner = format!("SELVEDGE_RSH=/nowhere/rsh {selvedge} run -n 2 --hosts host1,host2 true");
    let (code, said) = run(&["--hosts", "host1", "sh", "-c", &inner], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("host host2: `/nowhere/rsh` cannot be started") && !said.contains("host host1: `"), "{said}");
    let talks = script(&place, "talks", "echo welcome; echo; exit 3");
    let (code, said) = run(&two, &[("SELVEDGE_AGENT", &talks)]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no agent answered (") && said.contains("exited with status 3"), "{said}");

    // Addresses that are not the host's own, or unknown.
    let selvedge = env!("CARGO_BIN_EXE_selvedge");
    let moved = script(&place, "moved", &format!("SSH_CONNECTION='10.0.0.1 1 10.77.0.9 22' exec {selvedge} \"$@\""));
    let (code, said) = run(&two, &[("SELVEDGE_AGENT", &moved)]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("host host2: 10.77.0.9, at which other hosts must reach it, is not one of its addresses"),
        "{said}"
    );
    let silent = script(&place, "silent", &format!("unset SSH_CONNECTION; exec {selvedge} \"$@\""));
    let (code, said) = run(&two, &[("SELVEDGE_AGENT", &silent)]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("host host1: its name has no address here"), "{said}");

    // A remote shell that hangs.
    let hangs = script(&place, "hangs", "echo $$ >> $PLACE/hanging; exec sleep 1003");
    let limited = [&["--timeout", "0.3"], &two[..]].concat();
    let (code, said) = run(&limited, &[("SELVEDGE_RSH", &hangs)]);
    assert_eq!((code, said.as_str()), (Some(124), "selvedge run: the job has reached its time limit of 0.3 s\n"));
    let child = hosts.run(&place, &two).env("SELVEDGE_RSH", &hangs).stderr(Stdio::piped()).spawn().expect("starts");
    let hanging = || fs::read_to_string(place.file("hanging")).unwrap_or_default();
    wait_until("two more hang", || hanging().lines().count() == 4);
    kill(&child.id().to_string(), "INT");
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    assert_eq!(
        (ended.code, ended.reports()),
        (Some(130), vec!["selvedge run: SIGINT; the job is not started"]),
        "{ended:?}"
    );
    assert!(hanging().lines().all(|pid| !common::runs(pid)));

    // The program, and the folder, on one host only.
    let here = only_on(&hosts, &place, 1);
    let (code, said) = run(&[&on_two[..], &[&format!("{here}/prog")]].concat(), &[]);
    assert_eq!(code, Some(127), "{said}");
    assert!(said.contains(&format!("host host2: {here}/prog does not exist")), "{said}");
    assert!(!said.contains("host1"), "{said}");
    let (code, said) = run(&[&on_two[..], &["no-such-program-anywhere"]].concat(), &[]);
    assert_eq!((code, said.matches("is not in PATH").count()), (Some(127), 2), "{said}");
    let own = std::path::Path::new("/dev/shm").join(format!("selvedge-test-{}", std::process::id()));
    fs::create_dir(&own).expect("made");
    let ended = Ended::from(hosts.run(&place, &two).current_dir(&own).output().expect("starts"));
    fs::remove_dir(&own).expect("empty");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for host in ["host1", "host2"] {
        let said = format!("host {host}: cannot enter the folder {}", own.display());
        assert!(ended.err.contains(&said), "{ended:?}");
    }
    let (code, said) = run(&two, &[("SELVEDGE_DIR", &here)]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("host host2: cannot make the job's directory"), "{said}");
    // A folder that all hosts share cannot hold per-host files.
    let shared = place.file("shared");
    fs::create_dir(&shared).expect("made");
    let (code, said) = run(&two, &[("SELVEDGE_DIR", &shared.to_string_lossy())]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is shared with another host"), "{said}");

    let file = place.file("hostfile");
    fs::write(&file, "host1\nhost2 slots=many\n").expect("written");
    let (code, said) = run(&["--hostfile", &file.to_string_lossy(), "true"], &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("hostfile, line 2: `many` is not a number of slots"), "{said}");
    assert!(!place.file("started").exists(), "no rank was started");
}

/// A folder that exists on every host, and holds an executable `prog` on one.
fn only_on(hosts: &Hosts, place: &Place, host: usize) -> String {
    let folder = "/dev/shm/only";
    let script = format!("mkdir -m 700 {folder} && cp /bin/true {folder}/prog && : > {folder}/here");
    let ended = Ended::from(
        hosts.run(place, &["--hosts", &format!("host{host}"), "sh", "-c", &script]).output().expect("starts"),
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    folder.to_owned()
}

fn script(place: &Place, name: &str, text: &str) -> String {
    place.script(name, text).to_string_lossy().into_owned()
}

#[test]
fn two_names_of_one_host_are_one_host() {
    let (hosts, place) = hosts!(2, "hosts-alias");
    let script = "echo $SELVEDGE_RANK $(hostname) $SELVEDGE_HOST/$SELVEDGE_HOSTS; ls /dev/shm/selvedge-0 | wc -l";
    let ended = hosts.output(&place, &["-n", "3", "--hosts", "host1,alias1,host2", "sh", "-c", script]);
    assert_eq!(ended.lines(), ["0 host1 0/2", "1", "1", "1", "1 host1 0/2", "2 host2 1/2"], "{ended:?}");
    // Output of login scripts does no harm.
    let selvedge = env!("CARGO_BIN_EXE_selvedge");
    let talks = self::script(&place, "talks", &format!("echo welcome; echo to all >&2; exec {selvedge} \"$@\""));
    let mut command = hosts.run(&place, &["-n", "2", "--hosts", "host1,host2", "hostname"]);
    let ended = Ended::from(command.env("SELVEDGE_AGENT", talks).output().expect("starts"));
    assert_eq!((ended.code, ended.lines()), (Some(0), vec!["host1", "host2"]), "{ended:?}");
    assert_eq!(ended.reports().len(), 2, "{ended:?}");
    // Several concurrent jobs on the same hosts.
    let args = ["-n", "4", "--hosts", "host1,host2", &example("rank"), "hello"];
    let jobs: Vec<_> =
        (0..3).map(|_| hosts.run(&place, &args).stdout(Stdio::piped()).spawn().expect("starts")).collect();
    for job in jobs {
        let ended = Ended::from(job.wait_with_output().expect("ends"));
        assert_eq!((ended.code, ended.lines().len()), (Some(0), 4), "{ended:?}");
    }
    hosts.assert_clean();
}
