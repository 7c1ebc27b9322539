// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers that the tests of `selvedge run` share.

pub mod hosts;
pub mod terminal;

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A parent of job directories for one test, with a place for its files. Removed at the end.
pub struct Place(PathBuf);

impl Place {
    pub fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("selvedge-run-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a folder for the test");
        Place(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// `selvedge run` with these arguments and with its job directories in this place.
    pub fn run(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.arg("run").args(args).env("SELVEDGE_DIR", &self.0).env("PLACE", &self.0).stdin(Stdio::null());
        // SAFETY: `signal` is a system call, which is allowed between fork and exec.
        unsafe { command.pre_exec(reset_sigint) };
        command
    }

    /// Runs it to its end.
    pub fn output(&self, args: &[&str]) -> Ended {
        Ended::from(self.run(args).output().expect("the command starts"))
    }

    /// The existing job directories.
    pub fn jobs(&self) -> Vec<PathBuf> {
        let inside = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let users = inside(&self.0).filter(|path| path.to_string_lossy().contains("/selvedge-") && path.is_dir());
        let users: Vec<PathBuf> = users
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("selvedge-")))
            .collect();
        users.iter().flat_map(|user| inside(user)).collect()
    }

    /// Copies a program.
    pub fn copy_program(&self, from: &str, name: &str) -> PathBuf {
        self.program(name, &fs::read(from).expect("the program is there"))
    }

    /// Writes a shell script that can be executed.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        self.program(name, format!("#!/bin/sh\n{text}\n").as_bytes())
    }

    /// Writes a file that can be executed. A process of its own writes it: had this one opened the file, a child that
    /// another test starts now would hold it open for writing, and executing it would fail ("Text file busy").
    pub fn program(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.file(name);
        let mut writer = Command::new("sh");
        writer.args(["-c", "cat >\"$0\" && chmod 700 \"$0\""]).arg(&path).stdin(Stdio::piped());
        let mut writer = writer.spawn().expect("a shell");
        writer.stdin.take().expect("a pipe").write_all(bytes).expect("written");
        assert!(writer.wait().expect("it ends").success(), "{} is not written", path.display());
        path
    }

    /// Waits until a file exists and holds a whole line. Returns the line.
    pub fn wait_for_line(&self, name: &str) -> String {
        let mut line = String::new();
        wait_until(&format!("{name} is written"), || {
            line = fs::read_to_string(self.file(name)).unwrap_or_default();
            line.ends_with('\n')
        });
        line.trim().to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The end of a run.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    /// The lines of standard output, sorted.
    pub fn lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }

    /// The launcher's own messages.
    pub fn reports(&self) -> Vec<&str> {
        self.err.lines().filter(|line| line.starts_with("selvedge run: ")).collect()
    }
}

/// Waits until `done` holds. The limit only keeps a failing test from hanging.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("timed out waiting for: {what}");
}

/// Resets SIGINT to its default. Background jobs of a shell ignore it, and so would their processes.
fn reset_sigint() -> std::io::Result<()> {
    // SAFETY: `signal` sets the disposition of a valid signal to its default.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    Ok(())
}

/// Whether a process runs (a zombie does not).
pub fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// An example of this crate, which Cargo builds together with the tests.
pub fn example(name: &str) -> String {
    let command = Path::new(env!("CARGO_BIN_EXE_selvedge"));
    let path = command.with_file_name("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --examples", path.display());
    path.to_string_lossy().into_owned()
}

/// The installed tree that programs of tests use.
pub fn tree() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    std::env::var_os("SELVEDGE_PREFIX").map_or_else(|| workspace.join("build"), PathBuf::from)
}

/// Compiles an OpenSHMEM program of this folder as a user does. Returns its path.
pub fn compile(place: &Place, name: &str) -> String {
    let (compiler, program) = (tree().join("bin/oshcc"), place.file(name));
    assert!(compiler.exists(), "{} is missing: run `make build`, or set SELVEDGE_PREFIX", compiler.display());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/{name}.c"));
    let mut compile = Command::new(compiler);
    compile.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]).arg(source).arg("-o").arg(&program);
    assert!(compile.status().expect("oshcc starts").success());
    program.to_str().expect("a path of characters").to_owned()
}

/// Compiles the text of a C program against the tree. Returns its path, the same in every run of the tests. A
/// concurrent run keeps the file that it has opened.
pub fn compile_text(name: &str, text: &str, libraries: &[&str]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let source = path.with_extension("c");
    fs::write(&source, text).expect("the source is written");
    let (tree, compiler) = (tree(), std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    for library in libraries {
        assert!(
            tree.join(format!("lib/lib{library}.so")).exists(),
            "no built tree at {}: `make build`",
            tree.display()
        );
    }
    let made = Command::new(&compiler)
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(tree.join("include"))
        .arg(&source)
        .arg("-o")
        .arg(&path)
        .arg("-L")
        .arg(tree.join("lib"))
        .arg(format!("-Wl,-rpath,{}", tree.join("lib").display()))
        .args(libraries.iter().map(|library| format!("-l{library}")))
        .output()
        .expect("a C compiler");
    let _ = fs::remove_file(&source);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let program = path.with_file_name(name);
    fs::rename(&path, &program).expect("renamed");
    program.to_string_lossy().into_owned()
}

/// `selvedge sim` with two ranks on a machine of `machines/`.
pub fn sim_of_two(machine: &str, args: &[&str]) -> Command {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../../machines/{machine}.toml"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["sim", "-n", "2", "--quiet", "--machine"]).arg(file).args(args);
    command.env("SELVEDGE_PREFIX", tree()).stdin(Stdio::null());
    command
}

/// The report of such a run, which must complete, without the wall clock.
pub fn report_of_two(place: &Place, machine: &str, args: &[&str], program: &[&str]) -> serde_json::Value {
    let file = place.file("report.json");
    let mut command = sim_of_two(machine, args);
    command.arg("--json").arg(&file).arg("--").args(program);
    let ended = Ended::from(command.output().expect("the command starts"));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{machine} {args:?}");
    let text = fs::read_to_string(file).expect("a report");
    let mut report: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    report.as_object_mut().expect("an object").remove("wall").expect("the wall clock");
    assert_eq!(report["end"], "completed");
    report
}
