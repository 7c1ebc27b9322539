// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon's program, executed anew in this process.
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, access};

/// The file of this program, perhaps of a newer release.
fn program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    // The kernel marks a program whose file was replaced.
    let text = path.to_string_lossy().into_owned();
    Ok(text.strip_suffix(" (deleted)").map_or(path, Into::into))
}

/// Says why the program cannot be executed.
pub fn check() -> Result<(), String> {
    let path = program().map_err(|error| format!("this program's file: {error}"))?;
    access(&path, Access::EXEC_OK).map_err(|error| format!("{}: {error}; install it again", path.display()))
}

/// Replaces this process by a new one of the same program and arguments. It returns the reason for which it has not.
pub fn execute_anew() -> io::Error {
    match program() {
        Ok(path) => execute(&path),
        Err(error) => error,
    }
}

fn execute(path: &Path) -> io::Error {
    let error = Command::new(path).args(std::env::args_os().skip(1)).exec();
    // `exec` has set it to its default, so that a client that goes would end the daemon.
    // SAFETY: no handler runs: the signal is ignored, as the runtime of Rust had set it.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_execution_leaves_broken_pipes_ignored() {
        check().unwrap();
        // In a process of its own: for a moment a broken pipe ends the process.
        const PART: &str = "SELVEDGE_TEST_PART";
        if std::env::var_os(PART).is_none() {
            let test = "execution::tests::a_failed_execution_leaves_broken_pipes_ignored";
            let again = Command::new(program().unwrap()).args(["--exact", test]).env(PART, "1").output().unwrap();
            assert!(again.status.success() && String::from_utf8_lossy(&again.stdout).contains("1 passed"));
            return;
        }
        assert_eq!(execute(Path::new("/no/such/program")).kind(), io::ErrorKind::NotFound);
        // SAFETY: all bits zero is a valid `sigaction`, into which the kernel writes.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action);
            action
        };
        assert_eq!(action.sa_sigaction, libc::SIG_IGN);
    }
}
