// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of an agent at its parent, the launcher or another agent: the remote shell that started it, the channel, and
//! the agent's standard error.
//!
//! Invariant: a lost agent is reported once. Closing the channel ends an agent.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::addresses::is_this_host;
use super::channel::{Channel, ChannelError, Frame};
use super::remote_shell::RemoteShell;
use super::wire::{Greeting, Hello, Report};
use crate::report::{describe_end, say};
use crate::signals::signal_rank;

/// Time for the remote shell to end after the channel has ended, so that its exit status can be reported.
const EXIT_WAIT: Duration = Duration::from_millis(300);
/// A longer line on standard error is printed in pieces.
const LINE_BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub(super) enum LinkEvent {
    Hello(Hello),
    /// A message of the agent, or of one below it.
    Frame(Frame),
    /// The agent is gone, and nothing more comes. The reason follows its name.
    Lost(String),
}

/// The part of an agent that owns a poll entry.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Input,
    Output,
    Errors,
}

/// Reasons why no agent was started, in words that follow the host's name.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("`{program}` cannot be started: {error}; {variable} names another program")]
    Program { program: String, error: io::Error, variable: &'static str },
    #[error("the remote shell has no pipes")]
    NoPipes,
}

pub(super) struct Link {
    /// The host as the user has named it.
    pub(super) name: String,
    /// The hosts below it.
    below: Vec<String>,
    has_greeted: bool,
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
    /// Starts an agent with further hosts below it, whose agents it will start.
    pub(super) fn start(name: &str, below: &[String], shell: &RemoteShell, words: &[&str]) -> Result<Link, StartError> {
        let program = shell.program_for(name);
        let mut child = shell.command(name, words).spawn().map_err(|error| {
            let variable = if is_this_host(name) { "SELVEDGE_AGENT" } else { "SELVEDGE_RSH" };
            StartError::Program { program: program.clone(), error, variable }
        })?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(StartError::NoPipes);
        };
        let errors = OwnedFd::from(stderr);
        let _ = rustix::io::ioctl_fionbio(&errors, true);
        Ok(Link {
            name: name.to_owned(),
            below: below.to_vec(),
            has_greeted: false,
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

    /// Whether there is an agent, as far as is known.
    pub(super) fn has_agent(&self) -> bool {
        self.has_greeted
    }

    pub(super) fn is_open(&self) -> bool {
        self.channel.is_some()
    }

    pub(super) fn send(&mut self, frame: Frame) {
        if let Some(channel) = &mut self.channel {
            channel.forward(frame);
        }
    }

    /// Adds its descriptors to a poll. Without `with_input` its messages stay in the channel.
    pub(super) fn poll_with<'a>(&'a self, with_input: bool, add: &mut dyn FnMut(Part, BorrowedFd<'a>, PollFlags)) {
        if let Some(channel) = &self.channel {
            if with_input {
                add(Part::Input, channel.input(), PollFlags::IN);
            }
            add(Part::Output, channel.output(), channel.interest());
        }
        if let Some(errors) = &self.errors {
            add(Part::Errors, errors.as_fd(), PollFlags::IN);
        }
    }

    pub(super) fn serve(&mut self, part: Part, flags: PollFlags, events: &mut Vec<LinkEvent>) {
        match part {
            Part::Input => self.read(false, events),
            Part::Output if flags.contains(PollFlags::ERR) => self.read(true, events),
            Part::Output => {
                if let Some(channel) = &mut self.channel {
                    channel.flush();
                }
            }
            Part::Errors => self.read_errors(),
        }
    }

    pub(super) fn child_ended(&mut self, events: &mut Vec<LinkEvent>) {
        if self.exited.is_none() {
            self.exited = self.child.try_wait().ok().flatten();
            if self.exited.is_some() {
                self.read(true, events);
            }
        }
    }

    /// Handles messages of the agent. `all`: nothing more will come.
    fn read(&mut self, all: bool, events: &mut Vec<LinkEvent>) {
        let Some(channel) = &mut self.channel else { return };
        let filled = if all { channel.fill_all().and(Err(ChannelError::Closed)) } else { channel.fill() };
        let ended = match self.take_messages(events) {
            Ok(()) => filled,
            Err(ended) => Err(ended),
        };
        if let Err(ended) = ended {
            self.lose(&ended, events);
        }
    }

    fn take_messages(&mut self, events: &mut Vec<LinkEvent>) -> Result<(), ChannelError> {
        let Some(channel) = &mut self.channel else { return Ok(()) };
        if !self.has_greeted {
            match channel.greeting()? {
                Some(Greeting::Hello(hello)) => {
                    self.has_greeted = true;
                    events.push(LinkEvent::Hello(hello));
                }
                Some(Greeting::OtherVersion(version)) => return Err(ChannelError::Version(version)),
                None => return Ok(()),
            }
        }
        while let Some(frame) = channel.next()? {
            if frame.host > self.below.len() {
                return Err(ChannelError::Garbled(format!("a message of host {} below it", frame.host)));
            }
            self.done |= frame.host == 0 && frame.has(&Report::Done);
            events.push(LinkEvent::Frame(frame));
        }
        Ok(())
    }

    /// Closes the channel for this reason.
    pub(super) fn lose(&mut self, ended: &ChannelError, events: &mut Vec<LinkEvent>) {
        self.channel = None;
        let until = Instant::now() + EXIT_WAIT;
        while self.exited.is_none() && !self.done && Instant::now() < until {
            self.exited = self.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(2));
        }
        self.read_errors();
        if !self.done {
            events.push(LinkEvent::Lost(self.why(ended)));
        }
    }

    fn why(&self, ended: &ChannelError) -> String {
        let (shell, agent, name) = (&self.shell, &self.agent, &self.name);
        let how = self.exited.map_or_else(|| "is still running".to_owned(), describe_end);
        match (ended, self.exited.and_then(|status| status.code())) {
            (ChannelError::Version(version), _) => format!(
                "it has version {version} of Selvedge, and this is {}; install the same there, or name its path by SELVEDGE_AGENT",
                env!("CARGO_PKG_VERSION")
            ),
            (ChannelError::Garbled(_), _) => format!("its agent sent an invalid message: {ended}"),
            (ChannelError::Closed, _) if self.has_greeted => {
                format!("its agent, or the connection to it, has ended (`{shell}` {how})")
            }
            (ChannelError::Closed, Some(127)) => {
                format!("there is no {agent}; install Selvedge there, or name its path by SELVEDGE_AGENT")
            }
            (ChannelError::Closed, Some(126)) => {
                format!("{agent} cannot be executed; install Selvedge there, or name its path by SELVEDGE_AGENT")
            }
            (ChannelError::Closed, Some(255)) => {
                format!("it cannot be reached; `{shell} {name} true` must work, without a password")
            }
            (ChannelError::Closed, _) => {
                format!("no agent answered (`{shell}` {how}); `{shell} {name} {agent} info` must work")
            }
        }
    }

    /// Prints the messages of the remote shell and of the agent.
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
        // An agent has put a host's name before the lines from below it.
        let named = line.strip_prefix("host ").and_then(|rest| rest.split_once(": "));
        if named.is_some_and(|(name, _)| self.below.iter().any(|below| below == name)) {
            say(line);
        } else if !line.is_empty() {
            say(&format!("host {}: {line}", self.name));
        }
    }

    /// Closes the channel, which ends the agent.
    pub(super) fn close(&mut self) {
        self.channel = None;
    }

    /// Waits for the end of the remote shell until this time, and then kills it. False: it was killed.
    pub(super) fn wait(&mut self, until: Instant) -> bool {
        while self.exited.is_none() {
            self.exited = self.child.try_wait().ok().flatten();
            if self.exited.is_none() && Instant::now() >= until {
                signal_rank(self.child.id(), libc::SIGKILL);
                self.exited = self.child.wait().ok();
                return false;
            }
            // Read its output, so that the output cannot block it.
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
