// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The channel between the launcher and an agent: frames on the agent's standard input and output.
//!
//! The agent begins with one line of text, its greeting. Frames follow in both directions: two lengths and the number of
//! a host (4 bytes each, little-endian), a message as JSON, and bytes that belong to the message ([`super::wire`]).
//!
//! The agent is number 0; 1 and further are the hosts below it ([`super::tree`]). A frame to or from these is forwarded
//! as it is, except for the number.
//!
//! Invariants
//! 1. Nothing here blocks. Bytes that the other side does not take yet are kept.
//! 2. An invalid or too long frame ends the channel. It is never skipped.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::wire::{Greeting, Message, parse_greeting};

/// Room for the largest environment and command line that the kernel allows, as JSON.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// Two lengths and a number.
const HEADER_BYTES: usize = 12;
/// Largest amount of text before the greeting (from login scripts).
const NOISE_BYTES_MAX: usize = 64 << 10;

pub(super) struct Channel {
    input: OwnedFd,
    output: OwnedFd,
    incoming: Vec<u8>,
    /// Number of bytes of `incoming` that were taken.
    taken: usize,
    /// Number of bytes of `outgoing` that were written.
    written: usize,
    outgoing: Vec<u8>,
}

/// A message as it travels, with the number of its host.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) host: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Frame {
    pub(super) fn new<M: Message>(host: usize, mut message: M) -> Frame {
        let tail = message.bytes().map(std::mem::take).unwrap_or_default();
        let head = serde_json::to_vec(&message).expect("messages have string keys and no fallible parts");
        Frame { host, head, tail }
    }

    /// Whether it has this message, which carries no bytes.
    pub(super) fn has<M: Message>(&self, message: &M) -> bool {
        serde_json::to_vec(message).is_ok_and(|head| head == self.head)
    }

    pub(super) fn message<M: Message>(self) -> Result<M, ChannelError> {
        let message = serde_json::from_slice(&self.head);
        let mut message: M = message.map_err(|error| ChannelError::Garbled(error.to_string()))?;
        if let Some(bytes) = message.bytes() {
            *bytes = self.tail;
        }
        Ok(message)
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ChannelError {
    #[error("the channel has ended")]
    Closed,
    #[error("it sends {0}")]
    Garbled(String),
    /// The agent has another version.
    #[error("it has version {0}")]
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

    /// The events to poll the output for.
    pub(super) fn interest(&self) -> PollFlags {
        if self.waiting() == 0 { PollFlags::empty() } else { PollFlags::OUT }
    }

    /// The number of bytes that the other side has not read.
    pub(super) fn waiting(&self) -> usize {
        self.outgoing.len() - self.written
    }

    /// Reads bytes that have arrived, up to some 64 KiB. `Err`: nothing more will come. Earlier bytes stay.
    pub(super) fn fill(&mut self) -> Result<(), ChannelError> {
        self.incoming.drain(..std::mem::take(&mut self.taken));
        let mut chunk = [0u8; 64 << 10];
        loop {
            match rustix::io::read(&self.input, &mut chunk[..]) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(count) => {
                    self.incoming.extend_from_slice(&chunk[..count]);
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(()),
                Err(_) => return Err(ChannelError::Closed),
            }
        }
    }

    pub(super) fn fill_all(&mut self) -> Result<(), ChannelError> {
        loop {
            let before = self.incoming.len() - self.taken;
            self.fill()?;
            if self.incoming.len() == before {
                return Ok(());
            }
        }
    }

    /// The greeting, if it has come. Skips lines before it, which login scripts print.
    pub(super) fn greeting(&mut self) -> Result<Option<Greeting>, ChannelError> {
        let mut begin = self.taken;
        while let Some(length) = self.incoming[begin..].iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&self.incoming[begin..begin + length]);
            let found = parse_greeting(&line);
            begin += length + 1;
            if found.is_some() {
                self.taken = begin;
                return Ok(found);
            }
        }
        if self.incoming.len() > NOISE_BYTES_MAX {
            let text = String::from_utf8_lossy(&self.incoming[..60]).into_owned();
            return Err(ChannelError::Garbled(format!("{text:?}")));
        }
        Ok(None)
    }

    /// The next complete frame.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, ChannelError> {
        let incoming = &self.incoming[self.taken..];
        let number = |at: usize| {
            let bytes = incoming.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
        };
        let (Some(head), Some(tail)) = (number(0), number(4)) else { return Ok(None) };
        if head.saturating_add(tail) > FRAME_BYTES_MAX {
            return Err(ChannelError::Garbled(format!("a frame of {head} + {tail} bytes")));
        }
        let (body, end) = (HEADER_BYTES + head, HEADER_BYTES + head + tail);
        let Some(host) = number(8).filter(|_| incoming.len() >= end) else { return Ok(None) };
        let frame = Frame { host, head: incoming[HEADER_BYTES..body].to_vec(), tail: incoming[body..end].to_vec() };
        self.taken += end;
        Ok(Some(frame))
    }

    /// Sends a message of the agent, or to it.
    pub(super) fn send<M: Message>(&mut self, message: M) {
        self.forward(Frame::new(0, message));
    }

    /// Sends a frame, or keeps it until the other side reads. Reading detects that the other side has gone.
    pub(super) fn forward(&mut self, frame: Frame) {
        let Frame { host, head, tail } = frame;
        for number in [head.len(), tail.len(), host] {
            self.outgoing.extend_from_slice(&(number as u32).to_le_bytes());
        }
        self.outgoing.extend_from_slice(&head);
        self.outgoing.extend_from_slice(&tail);
        self.flush();
    }

    /// Sends text before the first message.
    pub(super) fn send_text(&mut self, text: &str) {
        self.outgoing.extend_from_slice(text.as_bytes());
        self.flush();
    }

    /// Sends waiting bytes as far as possible without blocking.
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
