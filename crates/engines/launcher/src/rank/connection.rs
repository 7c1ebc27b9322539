// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rank's PMI socket: receives and sends lines, and never blocks.
//!
//! Invariants
//! 1. Lines that a rank does not read are kept and sent later, so a rank cannot block the launcher.
//! 2. A rank that sends an endless line loses its connection, so it cannot use up the launcher's memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

const LINE_BYTES_MAX: usize = 64 << 10;

pub(crate) struct Connection {
    socket: OwnedFd,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

/// Whether more lines can arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConnectionState {
    Open,
    Closed,
    /// The rank has sent a line that is too long.
    TooLong,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd) -> Connection {
        Connection { socket, incoming: Vec::new(), outgoing: Vec::new() }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn interest(&self) -> PollFlags {
        if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }

    /// Reads all bytes that have arrived, and appends whole lines to `lines`.
    pub(crate) fn receive(&mut self, lines: &mut Vec<String>) -> ConnectionState {
        let mut chunk = [0u8; 16 << 10];
        loop {
            let state = match rustix::net::recv(&self.socket, &mut chunk[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => ConnectionState::Closed,
                Ok((count, _)) => {
                    self.incoming.extend_from_slice(&chunk[..count.min(chunk.len())]);
                    ConnectionState::Open
                }
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => return ConnectionState::Open,
                Err(_) => ConnectionState::Closed,
            };
            self.cut(lines);
            if state == ConnectionState::Closed {
                return ConnectionState::Closed;
            }
            if self.incoming.len() > LINE_BYTES_MAX {
                return ConnectionState::TooLong;
            }
        }
    }

    fn cut(&mut self, lines: &mut Vec<String>) {
        let Some(last) = self.incoming.iter().rposition(|&byte| byte == b'\n') else { return };
        let whole: Vec<u8> = self.incoming.drain(..=last).collect();
        let texts = whole[..last].split(|&byte| byte == b'\n');
        lines.extend(texts.map(|line| String::from_utf8_lossy(line).into_owned()));
    }

    /// Sends a line, or keeps it until the rank reads.
    pub(crate) fn send(&mut self, line: &str) -> ConnectionState {
        self.outgoing.extend_from_slice(line.as_bytes());
        self.outgoing.push(b'\n');
        self.flush()
    }

    /// Sends kept lines as far as possible without blocking.
    pub(crate) fn flush(&mut self) -> ConnectionState {
        while !self.outgoing.is_empty() {
            match rustix::net::send(&self.socket, &self.outgoing, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return ConnectionState::Open,
                Err(_) => return ConnectionState::Closed,
            }
        }
        ConnectionState::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;

    fn pair() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        (Connection::new(ours.into()), theirs)
    }

    #[test]
    fn lines_are_whole_wherever_they_are_cut() {
        let (mut connection, mut rank) = pair();
        let mut lines = Vec::new();
        for (piece, expected) in [("cmd=in", 0), ("it\ncmd=get_", 1), ("maxes\n\ncmd=finalize\n", 4)] {
            rank.write_all(piece.as_bytes()).expect("sent");
            assert_eq!(connection.receive(&mut lines), ConnectionState::Open);
            assert_eq!(lines.len(), expected);
        }
        assert_eq!(lines, ["cmd=init", "cmd=get_maxes", "", "cmd=finalize"]);
        rank.write_all(b"cmd=abort\n").expect("sent");
        drop(rank);
        assert_eq!(connection.receive(&mut lines), ConnectionState::Closed);
        assert_eq!(lines.last().map(String::as_str), Some("cmd=abort"), "sent before it closed");
    }

    #[test]
    fn a_line_without_end_closes_the_connection() {
        let (mut connection, mut rank) = pair();
        let writer = std::thread::spawn(move || rank.write_all(&vec![b'x'; 4 * LINE_BYTES_MAX]));
        let mut lines = Vec::new();
        let state = loop {
            match connection.receive(&mut lines) {
                ConnectionState::Open => std::thread::yield_now(),
                other => break other,
            }
        };
        assert_eq!(state, ConnectionState::TooLong);
        drop(connection);
        assert!(writer.join().expect("no panic").is_err(), "its socket is closed");
        assert!(lines.is_empty());
    }

    #[test]
    fn a_rank_that_does_not_read_blocks_nothing() {
        let (mut connection, rank) = pair();
        let line = "x".repeat(1000);
        let mut sent = 0;
        while connection.interest() == PollFlags::IN {
            assert_eq!(connection.send(&line), ConnectionState::Open);
            sent += 1;
        }
        assert_eq!(connection.send(&line), ConnectionState::Open, "kept");
        sent += 1;
        let reader = std::thread::spawn(move || BufReader::new(rank).lines().count());
        while !connection.outgoing.is_empty() {
            assert_eq!(connection.flush(), ConnectionState::Open);
            std::thread::yield_now();
        }
        drop(connection);
        assert_eq!(reader.join().expect("no panic"), sent);
    }
}
