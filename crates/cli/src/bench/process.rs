// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the measuring programs: where they are, how long they may take, and what they said.
//!
//! Invariant: a program never outlives its time. It has a process group of its own, which is ended as a whole: asked
//! first, so that a launcher can clean up behind its ranks, then made to.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::record::Measurement;

/// How often a running program is looked at.
const POLL: Duration = Duration::from_millis(5);
/// Between asking a program to end and ending it.
const GRACE: Duration = Duration::from_millis(500);
/// How much of what a failed program said is shown.
const COMPLAINT_LINES: usize = 6;

/// The installed tree that this program belongs to.
pub struct Tree {
    prefix: PathBuf,
    selvedge: PathBuf,
}

impl Tree {
    /// `SELVEDGE_PREFIX`, else the tree around this executable.
    pub fn find() -> Result<Tree> {
        let selvedge = std::env::current_exe().context("where is this program?")?;
        let prefix = match std::env::var_os("SELVEDGE_PREFIX") {
            Some(prefix) => PathBuf::from(prefix),
            None => match selvedge.parent().and_then(Path::parent) {
                Some(prefix) => prefix.to_owned(),
                None => bail!("{} is in no installed tree", selvedge.display()),
            },
        };
        Ok(Tree { prefix, selvedge })
    }

    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// A measuring program. Says which are missing and how they come about.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let path = self.prefix.join("libexec/selvedge").join(name);
        if !path.is_file() {
            bail!("{} is not there; `make build` builds it, SELVEDGE_PREFIX names the tree it is in", path.display());
        }
        Ok(path)
    }

    /// `selvedge run` for `processes` ranks of `program`, its arguments still to be given.
    pub fn launch(&self, program: &str, processes: usize, pinned: bool) -> Result<Command> {
        let program = self.program(program)?;
        let mut command = self.launcher(processes, pinned);
        command.arg(program);
        Ok(command)
    }

    /// This command itself.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.selvedge);
        command.env("SELVEDGE_PREFIX", &self.prefix);
        command
    }

    /// The same, the program still to be given. Modes are compared by cases of their own; what the caller's environment says
    /// would mix them up.
    pub fn launcher(&self, processes: usize, pinned: bool) -> Command {
        let mut command = Command::new(&self.selvedge);
        command.args(["run", "-n", &processes.to_string(), "--bind", if pinned { "core" } else { "none" }]);
        command.env("SELVEDGE_PREFIX", &self.prefix).env("SELVEDGE_MODE", "nic").env_remove("SELVEDGE_PATH");
        command
    }
}

/// Runs `command` to its end and returns what it measured. An error when it fails or takes longer than `limit`.
pub fn measurements(command: &mut Command, limit: Duration) -> Result<Vec<Measurement>> {
    let output = output(command, limit)?;
    let found: Result<Vec<_>> = output.lines().filter_map(measurement).collect();
    let found = found?;
    if found.is_empty() {
        bail!("it printed no result");
    }
    Ok(found)
}

/// A line that holds a result, whatever a launcher put before it.
fn measurement(line: &str) -> Option<Result<Measurement>> {
    let start = line.find("{\"case\"")?;
    Some(serde_json::from_str(&line[start..]).with_context(|| format!("not a result: {line}")))
}

/// Standard output of a program that succeeded within `limit`.
pub fn output(command: &mut Command, limit: Duration) -> Result<String> {
    let mut running = Running::start(command)?;
    let status = running.wait(limit)?;
    let (output, complaint) = (running.output(), running.complaint());
    match status {
        Some(status) if status.success() => Ok(output),
        Some(status) => Err(anyhow!("{status}{complaint}")),
        None => Err(anyhow!("not done after {:.0} s{complaint}", limit.as_secs_f64())),
    }
}

/// A child in a process group of its own, its output being read.
pub struct Running {
    child: Child,
    output: mpsc::Receiver<String>,
    complaints: mpsc::Receiver<String>,
}

impl Running {
    pub fn start(command: &mut Command) -> Result<Running> {
        log::debug!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let output = reader(child.stdout.take());
        let complaints = reader(child.stderr.take());
        Ok(Running { child, output, complaints })
    }

    /// `None` when the time was up; then the group is gone too.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            thread::sleep(POLL);
        }
        self.end();
        Ok(None)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, signal); // it may just have ended by itself
        }
    }

    /// Ends the whole group, if it has not ended by itself.
    pub fn end(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        self.signal(Signal::TERM);
        let until = Instant::now() + GRACE;
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(POLL);
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    fn output(&self) -> String {
        said(&self.output).fold(String::new(), |all, line| all + &line + "\n")
    }

    /// The last of what it said on standard error, as a tail for a message.
    pub fn complaint(&self) -> String {
        let lines: Vec<String> = said(&self.complaints).filter(|l| !l.trim().is_empty()).collect();
        let from = lines.len().saturating_sub(COMPLAINT_LINES);
        lines[from..].iter().map(|line| format!("\n    {line}")).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a program that ended has said. A daemon that it left behind may hold the stream open: that is not waited for.
fn said(lines: &mpsc::Receiver<String>) -> impl Iterator<Item = String> + '_ {
    std::iter::from_fn(|| lines.recv_timeout(GRACE).ok())
}

fn reader(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    if let Some(stream) = stream {
        thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n').map_while(std::result::Result::ok) {
                if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
    }
    receive
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn results_are_found_among_other_output() {
        let line = r#"{"case":"get","size_bytes":8,"depth":null,"median_ns":5.0}"#;
        let found = measurements(&mut shell(&format!("echo hello; echo '[0] {line}'")), LONG).unwrap();
        assert_eq!((found.len(), found[0].median_ns), (1, Some(5.0)));
        assert!(measurements(&mut shell("echo hello"), LONG).is_err());
        assert!(measurements(&mut shell("echo '{\"case\":'"), LONG).is_err());
    }

    #[test]
    fn failure_says_what_the_program_said() {
        let error = output(&mut shell("echo so that is why >&2; exit 3"), LONG).unwrap_err().to_string();
        assert!(error.contains("3") && error.contains("so that is why"), "{error}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", note.display());
        assert!(output(&mut shell(&script), Duration::from_millis(400)).is_err());
        let child: i32 = std::fs::read_to_string(note).unwrap().trim().parse().unwrap();
        let gone = || match std::fs::read_to_string(format!("/proc/{child}/stat")) {
            Err(_) => true,
            Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        };
        let until = Instant::now() + LONG;
        while !gone() && Instant::now() < until {
            thread::sleep(POLL);
        }
        assert!(gone());
    }
}
