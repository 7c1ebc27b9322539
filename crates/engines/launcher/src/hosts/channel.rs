// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The channel between the launcher and an agent: frames on the agent's standard input and output.
//!
//! The agent begins with one line of text, [`greeting`], which tells its version in a form that stays. Frames follow in both directions:
//! two lengths (4 bytes each, little-endian), a message as JSON, and bytes that belong to the message.
//!
//! Invariants
//! 1. Nothing here blocks. What the other side does not take yet is kept.
//! 2. A frame that is too long or cannot be understood ends the channel; it is never skipped.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::agent::Start;
use super::messages::{Event, Order};

/// Changes with everything that travels through the channel.
pub(super) const PROTOCOL: u32 = 2;
/// Room for the largest environment and command line that the kernel allows, as JSON.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// The most text that may come before the greeting (from login scripts).
const NOISE_BYTES_MAX: usize = 64 << 10;
const GREETING: &str = "selvedge agent ";

/// From an agent to the launcher.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// Everything is prepared, and no rank is started yet.
    Ready,
    /// The ranks cannot be started here. The code is the job's exit code.
    Refused {
        code: u8,
        why: String,
    },
    Event(Event),
    /// Nothing else was to be said for some time.
    Alive,
    /// The job's directory is removed.
    Done,
}

/// From the launcher to an agent.
#[derive(Serialize, Deserialize)]
pub(super) enum Request {
    Start(Box<Start>),
    /// Start the ranks.
    Go,
    Order(Order),
    /// All ranks have ended: remove the job's directory, and end.
    Finish,
}

/// A message, some of which carry bytes.
pub(super) trait Message: Serialize + DeserializeOwned {
    /// The bytes that travel behind the message.
    fn bytes(&mut self) -> Option<&mut Vec<u8>>;
}

impl Message for Report {
    fn bytes(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Report::Event(Event::Output { bytes, .. }) => Some(bytes),
            _ => None,
        }
    }
}

impl Message for Request {
    fn bytes(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Request::Order(Order::Input(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

/// What an agent tells of itself and its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The same for two agents whose processes share memory.
    pub(super) identity: String,
    /// The address of this host by which the launcher has reached it, if the remote shell tells.
    pub(super) reached: Option<std::net::IpAddr>,
}

/// The first line of an agent.
pub(super) fn greeting(hello: &Hello) -> String {
    let hello = serde_json::to_string(hello).unwrap_or_default();
    format!("{GREETING}{PROTOCOL} {} {hello}\n", env!("CARGO_PKG_VERSION"))
}

/// What the first line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Greeted {
    Hello(Hello),
    /// Another version.
    Other(String),
}

fn greeted(line: &str) -> Option<Greeted> {
    let mut words = line.strip_prefix(GREETING)?.trim_end().splitn(3, ' ');
    let (protocol, version, rest) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    if version != env!("CARGO_PKG_VERSION") {
        return Some(Greeted::Other(version.to_owned()));
    }
    let hello = serde_json::from_str(rest).ok().filter(|_| protocol.parse() == Ok(PROTOCOL));
    Some(hello.map_or_else(|| Greeted::Other(format!("{version} (channel {protocol})")), Greeted::Hello))
}

/// One end of a channel.
pub(super) struct Channel {
    input: OwnedFd,
    output: OwnedFd,
    incoming: Vec<u8>,
    /// How much of `incoming` has been taken.
    taken: usize,
    /// How much of `outgoing` is written.
    written: usize,
    outgoing: Vec<u8>,
}

/// Why a channel has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("the channel has ended")]
    Closed,
    #[error("it sends {0}")]
    Garbled(String),
    /// The agent is of another version.
    #[error("it is of version {0}")]
    Version(String),
}

impl Channel {
    pub(super) fn new(input: OwnedFd, output: OwnedFd) -> Channel {
        for fd in [&input, &output] {
            let _ = rustix::io::ioctl_fionbio(fd, true);
        }
        Channel { input, output, incoming: Vec::new(), taken: 0, written: 0, outgoing: Vec::new() }
    }

    pub(super) fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    pub(super) fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// What to poll the output for.
    pub(super) fn interest(&self) -> PollFlags {
        if self.waiting() == 0 { PollFlags::empty() } else { PollFlags::OUT }
    }

    /// The bytes that wait until the other side reads.
    pub(super) fn waiting(&self) -> usize {
        self.outgoing.len() - self.written
    }

    /// Reads what has arrived, up to some 64 KiB. `Err`: nothing more will come; what came before can still be taken.
    pub(super) fn fill(&mut self) -> Result<(), Ended> {
        self.incoming.drain(..std::mem::take(&mut self.taken));
        let mut chunk = [0u8; 64 << 10];
        loop {
            match rustix::io::read(&self.input, &mut chunk[..]) {
                Ok(0) => return Err(Ended::Closed),
                Ok(count) => {
                    self.incoming.extend_from_slice(&chunk[..count]);
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(()),
                Err(_) => return Err(Ended::Closed),
            }
        }
    }

    /// Reads everything that has arrived.
    pub(super) fn fill_all(&mut self) -> Result<(), Ended> {
        loop {
            let before = self.incoming.len() - self.taken;
            self.fill()?;
            if self.incoming.len() == before {
                return Ok(());
            }
        }
    }

    /// The greeting, once it is there. Lines before it are skipped: login scripts print some.
    pub(super) fn greeted(&mut self) -> Result<Option<Greeted>, Ended> {
        let mut begin = self.taken;
        while let Some(length) = self.incoming[begin..].iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&self.incoming[begin..begin + length]);
            let found = greeted(&line);
            begin += length + 1;
            if found.is_some() {
                self.taken = begin;
                return Ok(found);
            }
        }
        if self.incoming.len() > NOISE_BYTES_MAX {
            let text = String::from_utf8_lossy(&self.incoming[..60]).into_owned();
            return Err(Ended::Garbled(format!("{text:?}")));
        }
        Ok(None)
    }

    /// The next message that is whole.
    pub(super) fn next<M: Message>(&mut self) -> Result<Option<M>, Ended> {
        let incoming = &self.incoming[self.taken..];
        let length = |at: usize| {
            let bytes = incoming.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
        };
        let (Some(head), Some(tail)) = (length(0), length(4)) else { return Ok(None) };
        if head.saturating_add(tail) > FRAME_BYTES_MAX {
            return Err(Ended::Garbled(format!("a frame of {head} + {tail} bytes")));
        }
        let end = 8 + head + tail;
        if incoming.len() < end {
            return Ok(None);
        }
        let message = serde_json::from_slice(&incoming[8..8 + head]);
        let mut message: M = message.map_err(|error| Ended::Garbled(error.to_string()))?;
        if let Some(bytes) = message.bytes() {
            *bytes = incoming[8 + head..end].to_vec();
        }
        self.taken += end;
        Ok(Some(message))
    }

    /// Sends a message, or keeps it until the other side reads. That the other side has gone is found when reading.
    pub(super) fn send<M: Message>(&mut self, mut message: M) {
        let bytes = message.bytes().map(std::mem::take).unwrap_or_default();
        let head = serde_json::to_vec(&message).expect("messages have string keys and no fallible parts");
        for part in [&head, &bytes] {
            self.outgoing.extend_from_slice(&(part.len() as u32).to_le_bytes());
        }
        self.outgoing.extend_from_slice(&head);
        self.outgoing.extend_from_slice(&bytes);
        self.flush();
    }

    /// Sends text, before the first message.
    pub(super) fn send_text(&mut self, text: &str) {
        self.outgoing.extend_from_slice(text.as_bytes());
        self.flush();
    }

    /// Sends what waits, as far as possible without blocking.
    pub(super) fn flush(&mut self) {
        while self.waiting() > 0 {
            match rustix::io::write(&self.output, &self.outgoing[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if self.waiting() == 0 {
            self.outgoing.clear();
            self.written = 0;
        } else if self.written > 1 << 20 {
            self.outgoing.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;
