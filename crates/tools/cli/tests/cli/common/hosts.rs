// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Test hosts (tests/hosts) for one test: several hosts on this machine, removed however the test ends.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Ended, Place};

/// A set of hosts: `host1`, `host2`, ...
pub struct Hosts {
    keeper: Child,
    set: PathBuf,
    count: usize,
}

fn tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/hosts").join(name)
}

impl Hosts {
    /// Makes hosts; `None`, after printing the reason, if that is not allowed.
    pub fn make(count: usize) -> Option<Hosts> {
        let mut keeper = Command::new(tool("hosts.sh"));
        keeper.args(["hold", &count.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = keeper.spawn().expect("a shell");
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
        if line.is_empty() {
            let code = keeper.wait().expect("ends").code();
            let mut why = String::new();
            keeper.stderr.take().expect("piped").read_to_string(&mut why).expect("text");
            assert_eq!(code, Some(77), "{why}");
            println!("skipped: {}", why.trim());
            return None;
        }
        Some(Hosts { keeper, set: line.trim().into(), count })
    }

    /// `selvedge run` with these arguments on these hosts.
    pub fn run(&self, place: &Place, args: &[&str]) -> Command {
        let mut command = place.run(args);
        // Job directories are in memory that each host has for itself.
        command.env_remove("SELVEDGE_DIR").env("SELVEDGE_TEST_HOSTS", &self.set).env("SELVEDGE_RSH", tool("rsh"));
        command
    }

    /// `selvedge run` with these arguments on the login node.
    pub fn run_from_login(&self, place: &Place, args: &[&str]) -> Command {
        let run = self.run(place, args);
        let mut command = self.on_login(&[run.get_program()]);
        command.args(run.get_args()).stdin(Stdio::null());
        for (name, value) in run.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// A command on the login node.
    pub fn on_login(&self, words: &[&OsStr]) -> Command {
        let mut command = Command::new(tool("hosts.sh"));
        command.arg("login").arg(&self.set).args(words);
        command
    }

    /// Cuts the network of a host.
    pub fn cut(&self, host: usize) {
        let status = Command::new(tool("hosts.sh")).arg("cut").arg(&self.set).arg(host.to_string()).status();
        assert!(status.expect("a shell").success());
    }

    /// Whether hosts can start commands on each other; prints the reason if not.
    pub fn has_remote_shell(&self) -> bool {
        let has = self.set.join("rsh.socket").exists();
        if !has {
            println!("skipped: hosts cannot start commands on each other without python3");
        }
        has
    }

    /// Runs it to its end, and checks that nothing is left on any host.
    pub fn output(&self, place: &Place, args: &[&str]) -> Ended {
        let ended = Ended::from(self.run(place, args).output().expect("the command starts"));
        self.assert_clean();
        ended
    }

    /// The first process of a host, by its pid on this machine.
    fn first_process(&self, host: usize) -> String {
        fs::read_to_string(self.set.join(format!("host{host}"))).expect("a host").trim().to_owned()
    }

    /// Processes on a host, without those that form the host: pids on this machine, with their command lines.
    pub fn processes(&self, host: usize) -> Vec<(String, String)> {
        let first = self.first_process(host);
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = namespace(&first);
        let all = fs::read_dir("/proc").expect("readable").flatten().map(|entry| entry.file_name().into_string());
        let pids = all.flatten().filter(|pid| pid.bytes().all(|digit| digit.is_ascii_digit()));
        pids.filter(|pid| *pid != first && namespace(pid) == own)
            .map(|pid| {
                let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
                (pid, line.trim().to_owned())
            })
            .filter(|(pid, line)| line != "sleep 1000000" && super::runs(pid))
            .collect()
    }

    /// The job directories on a host.
    pub fn jobs(&self, host: usize) -> Vec<PathBuf> {
        let memory = PathBuf::from(format!("/proc/{}/root/dev/shm", self.first_process(host)));
        let inside = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let of_users = inside(memory).filter(|path| path.to_string_lossy().contains("/dev/shm/selvedge-"));
        of_users.flat_map(inside).collect()
    }

    /// Checks that no process and no job is left on any host.
    pub fn assert_clean(&self) {
        self.assert_no_processes();
        for host in 1..=self.count {
            assert!(self.jobs(host).is_empty(), "host{host}: {:?}", self.jobs(host));
        }
    }

    pub fn assert_no_processes(&self) {
        for host in 1..=self.count {
            super::wait_until(&format!("host{host} has no processes"), || self.processes(host).is_empty());
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
