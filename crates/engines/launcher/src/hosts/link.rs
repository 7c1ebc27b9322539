// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launcher's end of an agent: the remote shell that started it, the channel, and what it prints on standard error.
//!
//! The remote shell is `ssh`, or what `SELVEDGE_RSH` names; it gets the host and a command line for that host's shell. The agent is
//! this same executable, or what `SELVEDGE_AGENT` names. On the launcher's own host (`localhost`, or its name) it starts without a remote
//! shell.
//!
//! Invariants
//! 1. The remote shell has no terminal: Ctrl-C does not reach it, and it cannot ask for passwords.
//! 2. An agent that is lost is reported once. Closing the channel ends an agent.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::channel::{Channel, Ended, Greeted, Hello, Report, Request};
use crate::report::{how, say};
use crate::signals::signal_rank;

/// How long the launcher waits for the remote shell when the channel has ended, to report how that ended.
const EXIT_WAIT: Duration = Duration::from_millis(300);
/// A longer line on standard error is printed in pieces.
const LINE_BYTES_MAX: usize = 4096;

/// Without X11, terminal and questions. A host that cannot be reached, or is lost, is noticed within 15 seconds.
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

/// How agents are started.
pub(super) struct RemoteShell {
    words: Vec<String>,
    agent: PathBuf,
    mask: libc::sigset_t,
}

impl RemoteShell {
    /// `mask`: the signal mask of the remote shell.
    pub(super) fn new(mask: libc::sigset_t) -> io::Result<RemoteShell> {
        let given = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
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

    /// The program that starts an agent on a host.
    fn program_for(&self, host: &str) -> String {
        if is_this_host(host) { self.agent.display().to_string() } else { self.name().to_owned() }
    }

    fn name(&self) -> &str {
        self.words.first().map_or("ssh", String::as_str)
    }

    fn command(&self, host: &str, words: &[&str]) -> Command {
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
        // SAFETY: `setsid` and `sigprocmask` are system calls, which are allowed between fork and exec; the mask is a value of the
        // closure.
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

/// Whether a name is that of this host, so that its agent needs no remote shell.
pub(super) fn is_this_host(name: &str) -> bool {
    let own = rustix::system::uname();
    let own = own.nodename().to_string_lossy();
    name == "localhost" || name == own || own.split_once('.').is_some_and(|(short, _)| name == short)
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

/// What comes from an agent.
#[derive(Debug)]
pub(super) enum Heard {
    Hello,
    Report(Report),
    /// It is gone, and nothing more comes. Why, in words that follow its name.
    Lost(String),
}

/// What a poll entry belongs to.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Input,
    Output,
    Errors,
}

pub(super) struct Link {
    /// The host as the user has named it.
    pub(super) name: String,
    pub(super) hello: Option<Hello>,
    shell: String,
    agent: String,
    child: Child,
    exited: Option<ExitStatus>,
    channel: Option<Channel>,
    errors: Option<OwnedFd>,
    error_text: Vec<u8>,
    done: bool,
}

impl Link {
    /// Starts an agent, with these arguments. `Err`: why, in words that follow the host's name.
    pub(super) fn start(name: &str, shell: &RemoteShell, words: &[&str]) -> Result<Link, String> {
        let program = shell.program_for(name);
        let mut child = shell.command(name, words).spawn().map_err(|error| {
            let variable = if is_this_host(name) { "SELVEDGE_AGENT" } else { "SELVEDGE_RSH" };
            format!("`{program}` cannot be started: {error}; {variable} names another program")
        })?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err("the remote shell has no pipes".to_owned());
        };
        let errors = OwnedFd::from(stderr);
        let _ = rustix::io::ioctl_fionbio(&errors, true);
        Ok(Link {
            name: name.to_owned(),
            hello: None,
            shell: program,
            agent: shell.agent.display().to_string(),
            child,
            exited: None,
            channel: Some(Channel::new(stdout.into(), stdin.into())),
            errors: Some(errors),
            error_text: Vec::new(),
            done: false,
        })
    }

    /// What tells the host from others.
    pub(super) fn identity(&self) -> Option<&str> {
        self.hello.as_ref().map(|hello| hello.identity.as_str())
    }

    /// Whether something can still come from the agent.
    pub(super) fn is_open(&self) -> bool {
        self.channel.is_some()
    }

    pub(super) fn send(&mut self, request: Request) {
        if let Some(channel) = &mut self.channel {
            channel.send(request);
        }
    }

    pub(super) fn poll_with<'a>(&'a self, add: &mut dyn FnMut(Part, BorrowedFd<'a>, PollFlags)) {
        if let Some(channel) = &self.channel {
            add(Part::Input, channel.input(), PollFlags::IN);
            add(Part::Output, channel.output(), channel.interest());
        }
        if let Some(errors) = &self.errors {
            add(Part::Errors, errors.as_fd(), PollFlags::IN);
        }
    }

    pub(super) fn serve(&mut self, part: Part, flags: PollFlags, heard: &mut Vec<Heard>) {
        match part {
            Part::Input => self.read(false, heard),
            Part::Output if flags.contains(PollFlags::ERR) => self.read(true, heard),
            Part::Output => {
                if let Some(channel) = &mut self.channel {
                    channel.flush();
                }
            }
            Part::Errors => self.read_errors(),
        }
    }

    /// A child of this process has ended, perhaps the remote shell.
    pub(super) fn child_ended(&mut self, heard: &mut Vec<Heard>) {
        if self.exited.is_none() {
            self.exited = self.child.try_wait().ok().flatten();
            if self.exited.is_some() {
                self.read(true, heard);
            }
        }
    }

    /// Handles what the agent has sent. `all`: nothing more will come.
    fn read(&mut self, all: bool, heard: &mut Vec<Heard>) {
        let Some(channel) = &mut self.channel else { return };
        let filled = if all { channel.fill_all().and(Err(Ended::Closed)) } else { channel.fill() };
        let ended = match self.take_messages(heard) {
            Ok(()) => filled,
            Err(ended) => Err(ended),
        };
        if let Err(ended) = ended {
            self.lose(&ended, heard);
        }
    }

    fn take_messages(&mut self, heard: &mut Vec<Heard>) -> Result<(), Ended> {
        let Some(channel) = &mut self.channel else { return Ok(()) };
        if self.hello.is_none() {
            match channel.greeted()? {
                Some(Greeted::Hello(hello)) => {
                    self.hello = Some(hello);
                    heard.push(Heard::Hello);
                }
                Some(Greeted::Other(version)) => return Err(Ended::Version(version)),
                None => return Ok(()),
            }
        }
        while let Some(report) = channel.next()? {
            self.done |= report == Report::Done;
            heard.push(Heard::Report(report));
        }
        Ok(())
    }

    /// The channel has ended.
    fn lose(&mut self, ended: &Ended, heard: &mut Vec<Heard>) {
        self.channel = None;
        let until = Instant::now() + EXIT_WAIT;
        while self.exited.is_none() && !self.done && Instant::now() < until {
            self.exited = self.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(2));
        }
        self.read_errors();
        if !self.done {
            heard.push(Heard::Lost(self.why(ended)));
        }
    }

    fn why(&self, ended: &Ended) -> String {
        let (shell, agent, name) = (&self.shell, &self.agent, &self.name);
        let how = self.exited.map_or_else(|| "goes on".to_owned(), how);
        match (ended, self.exited.and_then(|status| status.code())) {
            (Ended::Version(version), _) => format!(
                "it has version {version} of Selvedge, and this is {}; install the same there, or name its path by SELVEDGE_AGENT",
                env!("CARGO_PKG_VERSION")
            ),
            (Ended::Garbled(_), _) => format!("its agent cannot be understood: {ended}"),
            (Ended::Closed, _) if self.hello.is_some() => {
                format!("its agent, or the connection to it, has ended (`{shell}` {how})")
            }
            (Ended::Closed, Some(127)) => {
                format!("there is no {agent}; install Selvedge there, or name its path by SELVEDGE_AGENT")
            }
            (Ended::Closed, Some(126)) => {
                format!("{agent} cannot be executed; install Selvedge there, or name its path by SELVEDGE_AGENT")
            }
            (Ended::Closed, Some(255)) => {
                format!("it cannot be reached; `{shell} {name} true` must work, without a password")
            }
            (Ended::Closed, _) => {
                format!("no agent answered (`{shell}` {how}); `{shell} {name} {agent} info` must work")
            }
        }
    }

    /// Prints what the remote shell and the agent have to say.
    fn read_errors(&mut self) {
        let mut chunk = [0u8; 4096];
        while let Some(errors) = &self.errors {
            match rustix::io::read(errors, &mut chunk[..]) {
                Ok(count) if count > 0 => self.error_text.extend_from_slice(&chunk[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => break,
                Ok(_) | Err(_) => self.errors = None,
            }
        }
        while let Some(end) = self.error_text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.error_text.drain(..=end).collect();
            self.print_error(&line);
        }
        if self.error_text.len() > LINE_BYTES_MAX || self.errors.is_none() {
            let rest = std::mem::take(&mut self.error_text);
            self.print_error(&rest);
        }
    }

    fn print_error(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end();
        let line = line.strip_prefix("selvedge run: ").unwrap_or(line);
        if !line.is_empty() {
            say(&format!("host {}: {line}", self.name));
        }
    }

    /// Closes the channel, which ends the agent.
    pub(super) fn close(&mut self) {
        self.channel = None;
    }

    /// Waits for the end of the remote shell, and kills it at this time. False: it was killed.
    pub(super) fn wait(&mut self, until: Instant) -> bool {
        while self.exited.is_none() {
            self.exited = self.child.try_wait().ok().flatten();
            if self.exited.is_none() && Instant::now() >= until {
                signal_rank(self.child.id(), libc::SIGKILL);
                self.exited = self.child.wait().ok();
                return false;
            }
            // What it prints must not block it.
            self.read_errors();
            std::thread::sleep(Duration::from_millis(2));
        }
        self.read_errors();
        true
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
        self.wait(Instant::now());
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
