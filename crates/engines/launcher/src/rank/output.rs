// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ranks' output: read from their pipes, and printed; with `--tag-output` in whole lines, marked with the rank.
//!
//! Invariants
//! 1. Lines of different ranks are never mixed, and each is written in one piece.
//! 2. A last line without a newline gets one. A line of more than 1 MiB is written in pieces of that size, so that a
//!    rank cannot use up the launcher's memory.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

const LINE_BYTES_MAX: usize = 1 << 20;

/// Cuts a stream of bytes into marked lines.
pub(crate) struct Tagger {
    tag: String,
    pending: Vec<u8>,
}

impl Tagger {
    pub(crate) fn new(rank: usize) -> Tagger {
        Tagger { tag: format!("[{rank}] "), pending: Vec::new() }
    }

    /// Adds bytes of the stream. Whole lines are appended to `out`, marked.
    pub(crate) fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.pending.extend_from_slice(&rest[..end]);
            self.put_line(out);
            rest = &rest[end + 1..];
        }
        self.pending.extend_from_slice(rest);
        while self.pending.len() > LINE_BYTES_MAX {
            let tail = self.pending.split_off(LINE_BYTES_MAX);
            self.put_line(out);
            self.pending = tail;
        }
    }

    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        if !self.pending.is_empty() {
            self.put_line(out);
        }
    }

    fn put_line(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.tag.as_bytes());
        out.append(&mut self.pending);
        out.push(b'\n');
    }
}

/// The launcher's stream for a rank's stream.
#[derive(Clone, Copy)]
pub(crate) enum StandardStream {
    Stdout,
    Stderr,
}

/// A rank's streams, in the order of arrays.
pub(crate) const STANDARD_STREAMS: [StandardStream; 2] = [StandardStream::Stdout, StandardStream::Stderr];

/// Prints a rank's stream on ours: in marked lines, or unchanged.
pub(crate) struct Printer {
    target: StandardStream,
    tagger: Option<Tagger>,
}

impl Printer {
    /// `tag`: the rank to mark lines with.
    pub(crate) fn new(target: StandardStream, tag: Option<usize>) -> Printer {
        Printer { target, tagger: tag.map(Tagger::new) }
    }

    /// Prints bytes of the stream. False: our stream is closed. The caller then closes the rank's pipe.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> bool {
        let Some(tagger) = &mut self.tagger else { return self.write(bytes) };
        let mut out = Vec::new();
        tagger.take(bytes, &mut out);
        self.write(&out)
    }

    /// Prints the last line, if it is incomplete.
    pub(crate) fn end(&mut self) {
        let mut out = Vec::new();
        if let Some(tagger) = &mut self.tagger {
            tagger.end(&mut out);
        }
        self.write(&out);
    }

    fn write(&self, out: &[u8]) -> bool {
        if out.is_empty() {
            return true;
        }
        let written = match self.target {
            StandardStream::Stdout => {
                let mut stdout = std::io::stdout().lock();
                stdout.write_all(out).and_then(|()| stdout.flush())
            }
            StandardStream::Stderr => std::io::stderr().lock().write_all(out),
        };
        written.is_ok()
    }
}

/// The pipe from a rank's standard output or error.
pub(crate) struct Stream {
    pipe: OwnedFd,
}

impl Stream {
    pub(crate) fn new(pipe: OwnedFd) -> Stream {
        let _ = rustix::io::ioctl_fionbio(&pipe, true);
        Stream { pipe }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Reads bytes that have arrived, perhaps none. `None`: the stream has ended.
    ///
    /// One read for each poll, so that a rank that writes without pause does not delay the others.
    pub(crate) fn read(&self) -> Option<Vec<u8>> {
        let mut chunk = [0u8; 16 << 10];
        loop {
            match rustix::io::read(&self.pipe, &mut chunk[..]) {
                Ok(0) => return None,
                Ok(count) => return Some(chunk[..count].to_vec()),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Some(Vec::new()),
                Err(_) => return None,
            }
        }
    }
}

/// A rank's stream that this process prints.
pub(crate) struct PrintedStream {
    stream: Stream,
    printer: Printer,
}

impl PrintedStream {
    pub(crate) fn new(stream: Stream, printer: Printer) -> PrintedStream {
        PrintedStream { stream, printer }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.fd()
    }

    /// Prints bytes that have arrived. False: the stream has ended, or ours is closed. The caller then closes the pipe.
    fn pass_on(&mut self) -> bool {
        match self.stream.read() {
            Some(bytes) => self.printer.take(&bytes),
            None => {
                self.printer.end();
                false
            }
        }
    }

    /// Prints all bytes that have arrived. False: as for [`PrintedStream::pass_on`].
    pub(crate) fn pass_all_on(&mut self) -> bool {
        loop {
            match rustix::io::ioctl_fionread(&self.stream.pipe) {
                Ok(0) => return true,
                Ok(_) if self.pass_on() => {}
                _ => return false,
            }
        }
    }

    /// Prints the last line, if it is incomplete.
    pub(crate) fn close(mut self) {
        self.printer.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagged(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut tagger, mut out) = (Tagger::new(3), Vec::new());
        for piece in pieces {
            tagger.take(piece, &mut out);
        }
        tagger.end(&mut out);
        out
    }

    #[test]
    fn lines_are_marked_wherever_they_are_cut() {
        let whole: &[u8] = b"one\n\ntwo\nlast";
        let expected = b"[3] one\n[3] \n[3] two\n[3] last\n";
        assert_eq!(tagged(&[whole]), expected);
        for cut in 0..=whole.len() {
            assert_eq!(tagged(&[&whole[..cut], &whole[cut..]]), expected, "cut at {cut}");
        }
        assert!(tagged(&[]).is_empty());
        assert_eq!(tagged(&[b"\xff\n"]), b"[3] \xff\n", "bytes stay as they are");
    }

    #[test]
    fn nothing_is_written_before_a_line_is_whole() {
        let (mut tagger, mut out) = (Tagger::new(0), Vec::new());
        tagger.take(b"half", &mut out);
        assert!(out.is_empty());
        tagger.take(b"\n", &mut out);
        assert_eq!(out, b"[0] half\n");
    }

    #[test]
    fn endless_lines_are_cut_and_nothing_is_lost() {
        let long = vec![b'x'; 2 * LINE_BYTES_MAX + 10];
        let out = tagged(&[&long]);
        assert_eq!(out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count(), 3);
        assert_eq!(out.iter().filter(|&&byte| byte == b'x').count(), long.len());
    }
}
