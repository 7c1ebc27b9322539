// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The remote shell that starts agents: `ssh`, or the command in `SELVEDGE_RSH`. It gets the host and a command line.
//!
//! The agent is this same executable, or the one in `SELVEDGE_AGENT`. On the own host (`localhost`, or its name) it starts
//! without a remote shell. An agent that starts others has both from the launcher ([`super::wire::Subtree`]).
//!
//! Invariant: the remote shell has no terminal: Ctrl-C does not reach it, and it cannot ask for passwords.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::addresses::is_this_host;

/// Without X11, terminal and questions. A host that is unreachable or lost is noticed within 15 seconds.
const SSH: [&str; 10] = [
    "ssh",
    "-x",
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oLogLevel=ERROR",
    "-oControlMaster=no",
    "-oClearAllForwardings=yes",
];

/// The commands that start agents.
pub(super) struct RemoteShell {
    pub(super) words: Vec<String>,
    pub(super) agent: PathBuf,
    /// The signal mask of the remote shell.
    pub(super) mask: libc::sigset_t,
}

impl RemoteShell {
    /// That of the settings.
    pub(super) fn new(mask: libc::sigset_t) -> io::Result<RemoteShell> {
        let given = |name: &str| selvedge_settings::text(name).filter(|value| !value.trim().is_empty());
        let words = match given("SELVEDGE_RSH") {
            Some(given) => given.split_ascii_whitespace().map(str::to_owned).collect(),
            None => SSH.map(str::to_owned).to_vec(),
        };
        let agent = match given("SELVEDGE_AGENT") {
            Some(given) => PathBuf::from(given),
            None => std::env::current_exe()?,
        };
        Ok(RemoteShell { words, agent, mask })
    }

    pub(super) fn program_for(&self, host: &str) -> String {
        if is_this_host(host) { self.agent.display().to_string() } else { self.name().to_owned() }
    }

    fn name(&self) -> &str {
        self.words.first().map_or("ssh", String::as_str)
    }

    pub(super) fn command(&self, host: &str, words: &[&str]) -> Command {
        let mut command;
        if is_this_host(host) {
            command = Command::new(&self.agent);
            command.arg("agent").args(words);
        } else {
            command = Command::new(self.name());
            command.args(&self.words[1..]).arg(host).arg(quoted(&self.agent.to_string_lossy())).arg("agent");
            command.args(words.iter().map(|word| quoted(word)));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mask = self.mask;
        // SAFETY: `setsid` and `sigprocmask` are system calls, allowed after fork; the closure owns the mask.
        unsafe {
            command.pre_exec(move || {
                libc::setsid();
                libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
                Ok(())
            });
        }
        command
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        assert_eq!(quoted("/usr/bin/selvedge"), "/usr/bin/selvedge");
        assert_eq!(quoted("/my files/$x"), "'/my files/$x'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
