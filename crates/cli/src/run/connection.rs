// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rank's PMI socket: lines in, lines out, never waiting.
//!
//! Invariants
//! 1. What a rank does not read is kept and sent later; it cannot hold up the launcher.
//! 2. A rank that sends a line without end loses its connection, not the launcher its memory.

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

/// Whether more can come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    Open,
    Closed,
    /// Closed by us, for a line without end.
    Abused,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd) -> Connection {
        Connection { socket, incoming: Vec::new(), outgoing: Vec::new() }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What to poll for.
    pub(crate) fn interest(&self) -> PollFlags {
        if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }

    /// Takes all that has come; whole lines go to `lines`.
    pub(crate) fn receive(&mut self, lines: &mut Vec<String>) -> Link {
        let mut chunk = [0u8; 16 << 10];
        loop {
            let link = match rustix::net::recv(&self.socket, &mut chunk[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => Link::Closed,
                Ok((count, _)) => {
                    self.incoming.extend_from_slice(&chunk[..count.min(chunk.len())]);
                    Link::Open
                }
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => return Link::Open,
                Err(_) => Link::Closed,
            };
            self.cut(lines);
            if link == Link::Closed {
                return Link::Closed;
            }
            if self.incoming.len() > LINE_BYTES_MAX {
                return Link::Abused;
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
    pub(crate) fn send(&mut self, line: &str) -> Link {
        self.outgoing.extend_from_slice(line.as_bytes());
        self.outgoing.push(b'\n');
        self.flush()
    }

    /// Sends what is kept, as far as possible.
    pub(crate) fn flush(&mut self) -> Link {
        while !self.outgoing.is_empty() {
            match rustix::net::send(&self.socket, &self.outgoing, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Link::Open,
                Err(_) => return Link::Closed,
            }
        }
        Link::Open
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
    fn lines_are_whole_however_they_come() {
        let (mut connection, mut rank) = pair();
        let mut lines = Vec::new();
        for (piece, expected) in [("cmd=in", 0), ("it\ncmd=get_", 1), ("maxes\n\ncmd=finalize\n", 4)] {
            rank.write_all(piece.as_bytes()).expect("sent");
            assert_eq!(connection.receive(&mut lines), Link::Open);
            assert_eq!(lines.len(), expected);
        }
        assert_eq!(lines, ["cmd=init", "cmd=get_maxes", "", "cmd=finalize"]);
        rank.write_all(b"cmd=abort\n").expect("sent");
        drop(rank);
        assert_eq!(connection.receive(&mut lines), Link::Closed);
        assert_eq!(lines.last().map(String::as_str), Some("cmd=abort"), "said before it closed");
    }

    #[test]
    fn a_line_without_end_is_cut_off() {
        let (mut connection, mut rank) = pair();
        let writer = std::thread::spawn(move || rank.write_all(&vec![b'x'; 4 * LINE_BYTES_MAX]));
        let mut lines = Vec::new();
        let link = loop {
            match connection.receive(&mut lines) {
                Link::Open => std::thread::yield_now(),
                other => break other,
            }
        };
        assert_eq!(link, Link::Abused);
        drop(connection);
        assert!(writer.join().expect("no panic").is_err(), "its socket is closed");
        assert!(lines.is_empty());
    }

    #[test]
    fn a_rank_that_does_not_read_holds_up_nobody() {
        let (mut connection, rank) = pair();
        let line = "x".repeat(1000);
        let mut sent = 0;
        while connection.interest() == PollFlags::IN {
            assert_eq!(connection.send(&line), Link::Open);
            sent += 1;
        }
        assert_eq!(connection.send(&line), Link::Open, "kept");
        sent += 1;
        let reader = std::thread::spawn(move || BufReader::new(rank).lines().count());
        while !connection.outgoing.is_empty() {
            assert_eq!(connection.flush(), Link::Open);
            std::thread::yield_now();
        }
        drop(connection);
        assert_eq!(reader.join().expect("no panic"), sent);
    }
}
