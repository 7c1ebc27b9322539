// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the measuring programs: finds them, limits their time, and reads their output.
//!
//! Invariant: no program outlives its time limit. It has its own process group, which is ended as a whole: first by
//! SIGTERM, so that a launcher can clean up after its ranks, then by SIGKILL.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use selvedge_settings::report::REPORTED;

use super::record::Measurement;

/// Time between two checks of a running program.
const POLL: Duration = Duration::from_millis(5);
const GRACE: Duration = Duration::from_millis(500);
/// Number of shown error lines of a failed program.
const ERROR_LINES: usize = 6;

/// The most bytes that are read of a program's output. One that prints more is stopped by its full pipe.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// A script that makes a rank of `selvedge run` the only one of its host. The program follows.
pub const ON_OWN_HOST: &str = r#"export SELVEDGE_HOST="$SELVEDGE_RANK" SELVEDGE_HOSTS="$SELVEDGE_SIZE" && exec "$@""#;

/// The installed tree that this program belongs to.
pub struct Tree {
    prefix: PathBuf,
    selvedge: PathBuf,
}

impl Tree {
    /// The tree in `SELVEDGE_PREFIX`, else the tree around this executable.
    pub fn find() -> Result<Tree> {
        let selvedge = std::env::current_exe().context("cannot find the file of this program")?;
        let prefix = match selvedge_settings::nonempty("SELVEDGE_PREFIX") {
            Some(prefix) => PathBuf::from(prefix),
            None => match selvedge.parent().and_then(Path::parent) {
                Some(prefix) => prefix.to_owned(),
                None => bail!("{} is not in an installed tree; set SELVEDGE_PREFIX to one", selvedge.display()),
            },
        };
        Ok(Tree { prefix, selvedge })
    }

    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Finds a measuring program.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let path = self.prefix.join("libexec/selvedge").join(name);
        if !path.is_file() {
            bail!("{}: no such file; run make build, or set SELVEDGE_PREFIX to the tree that has it", path.display());
        }
        Ok(path)
    }

    /// `selvedge run` for `processes` ranks of `program`; the caller adds the program's arguments.
    pub fn launch(&self, program: &str, processes: usize, pinned: bool) -> Result<Command> {
        let program = self.program(program)?;
        let mut command = self.launcher(processes, pinned);
        command.arg(program);
        Ok(command)
    }

    /// This command itself.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.selvedge);
        command.env("SELVEDGE_PREFIX", &self.prefix).env(REPORTED, "1");
        command
    }

    /// `selvedge run` for `processes` ranks; the caller adds the program. Overrides the user's modes.
    pub fn launcher(&self, processes: usize, pinned: bool) -> Command {
        let mut command = Command::new(&self.selvedge);
        command.args(["run", "-n", &processes.to_string(), "--bind", if pinned { "core" } else { "none" }]);
        command.env("SELVEDGE_PREFIX", &self.prefix).env("SELVEDGE_MODE", "nic").env_remove("SELVEDGE_PATH");
        command.env(REPORTED, "1");
        command
    }
}

/// Runs `command` to its end and returns its measurements. Fails if it fails or takes longer than `limit`.
pub fn measurements(command: &mut Command, limit: Duration) -> Result<Vec<Measurement>> {
    let output = output(command, limit)?;
    let found: Result<Vec<_>> = output.lines().filter_map(measurement).collect();
    let found = found?;
    if found.is_empty() {
        bail!("the program printed no result");
    }
    Ok(found)
}

/// Parses a line that contains a result, after any prefix of a launcher.
fn measurement(line: &str) -> Option<Result<Measurement>> {
    let start = line.find("{\"case\"")?;
    Some(serde_json::from_str(&line[start..]).with_context(|| format!("not a result: {line}")))
}

/// Returns the standard output of a program that succeeds within `limit`.
pub fn output(command: &mut Command, limit: Duration) -> Result<String> {
    let mut running = Running::start(command)?;
    let status = running.wait(limit)?;
    let (output, error_lines) = (running.output(), running.error_lines());
    match status {
        Some(status) if status.success() => Ok(output),
        Some(status) => Err(anyhow!("{status}{error_lines}")),
        None => Err(anyhow!("not finished after {:.0} s{error_lines}", limit.as_secs_f64())),
    }
}

/// A child in its own process group, with threads that read its output.
pub struct Running {
    child: Child,
    output: mpsc::Receiver<String>,
    errors: mpsc::Receiver<String>,
}

impl Running {
    pub fn start(command: &mut Command) -> Result<Running> {
        log::debug!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let output = reader(child.stdout.take());
        let errors = reader(child.stderr.take());
        Ok(Running { child, output, errors })
    }

    /// Waits for the child. `None`: the time limit was reached, and the process group has been ended.
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
            let _ = kill_process_group(group, signal); // the group may have ended meanwhile
        }
    }

    /// Ends the whole group if it still runs.
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
        printed_lines(&self.output).fold(String::new(), |all, line| all + &line + "\n")
    }

    /// The last lines of its standard error, to append to a message.
    pub fn error_lines(&self) -> String {
        let lines: Vec<String> = printed_lines(&self.errors).filter(|l| !l.trim().is_empty()).collect();
        let from = lines.len().saturating_sub(ERROR_LINES);
        lines[from..].iter().map(|line| format!("\n    {line}")).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The lines that a program printed before it ended. A daemon may keep the stream open; it is not waited for.
fn printed_lines(lines: &mpsc::Receiver<String>) -> impl Iterator<Item = String> + '_ {
    std::iter::from_fn(|| lines.recv_timeout(GRACE).ok())
}

fn reader(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    if let Some(stream) = stream {
        thread::spawn(move || {
            for line in BufReader::new(stream.take(OUTPUT_BYTES_MAX)).split(b'\n').map_while(std::result::Result::ok) {
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

    const LONG: Duration = Duration::from_secs(120);

    #[test]
    fn results_are_found_among_other_output() {
        let line = r#"{"case":"get","size_bytes":8,"depth":null,"median_ns":5.0}"#;
        let found = measurements(&mut shell(&format!("echo hello; echo '[0] {line}'")), LONG).unwrap();
        assert_eq!((found.len(), found[0].median_ns), (1, Some(5.0)));
        assert!(measurements(&mut shell("echo hello"), LONG).is_err());
        assert!(measurements(&mut shell("echo '{\"case\":'"), LONG).is_err());
    }

    #[test]
    fn a_failure_contains_the_programs_error() {
        let error = output(&mut shell("echo so that is why >&2; exit 3"), LONG).unwrap_err().to_string();
        assert!(error.contains("3") && error.contains("so that is why"), "{error}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", note.display());
        let mut limit = Duration::from_millis(400);
        // A busy machine may not have written the file yet.
        let child: i32 = loop {
            assert!(output(&mut shell(&script), limit).is_err());
            match std::fs::read_to_string(&note).unwrap_or_default().trim().parse() {
                Ok(child) => break child,
                Err(error) => assert!(limit < LONG, "it did not begin: {error}"),
            }
            limit *= 4;
        };
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
