// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon's UNIX socket: lines in, lines out, and no client that others wait for.
//!
//! # Invariants
//!
//! 1. There are at most [`CLIENTS_MAX`] clients. Each has at most one request of [`REQUEST_BYTES_MAX`] and
//!    [`ANSWER_BYTES_MAX`] of answers in memory; one that exceeds them, or does not read, is closed.
//! 2. A client's user is the kernel's word, taken when it connects.
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use crate::protocol::{Answer, LogLine, REQUEST_BYTES_MAX};

const CLIENTS_MAX: usize = 64;
const ANSWER_BYTES_MAX: usize = 8 << 20;

struct Client {
    stream: UnixStream,
    is_operator: bool,
    follows_log: bool,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    /// Closed once its outbox is empty.
    is_over: bool,
}

/// A request's line, and its client.
pub struct Line {
    pub client: u64,
    pub is_operator: bool,
    pub text: Vec<u8>,
}

/// The socket and its clients.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    clients: BTreeMap<u64, Client>,
    last: u64,
}

impl Control {
    /// Listens at a path, whose file a daemon that was killed may have left.
    pub fn listen(path: &Path) -> io::Result<Control> {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(ErrorKind::AddrInUse, "a daemon runs there; end it, or give another --socket"));
        }
        let is_socket = |file: std::fs::Metadata| std::os::unix::fs::FileTypeExt::is_socket(&file.file_type());
        if std::fs::symlink_metadata(path).is_ok_and(is_socket) {
            std::fs::remove_file(path)?;
        }
        // The file never has more rights than these, not even for a moment.
        let before = rustix::process::umask(Mode::from_raw_mode(0o117));
        let listener = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = listener?;
        listener.set_nonblocking(true)?;
        Ok(Control { listener, path: path.to_owned(), clients: BTreeMap::new(), last: 0 })
    }

    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The clients, and whether each has something to write.
    pub fn descriptors(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>, bool)> {
        self.clients.iter().map(|(&id, client)| (id, client.stream.as_fd(), !client.outbox.is_empty()))
    }

    pub fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() >= CLIENTS_MAX || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let own = rustix::process::geteuid().as_raw();
            let is_operator = user_of(&stream).is_some_and(|user| user == 0 || user == own);
            let (inbox, outbox) = (Vec::new(), Vec::new());
            self.last += 1;
            let client = Client { stream, is_operator, follows_log: false, inbox, outbox, is_over: false };
            self.clients.insert(self.last, client);
        }
    }

    /// Reads from a client, and returns its complete lines.
    pub fn read(&mut self, id: u64) -> Vec<Line> {
        let Some(client) = self.clients.get_mut(&id) else { return Vec::new() };
        let mut buffer = [0; REQUEST_BYTES_MAX];
        match client.stream.read(&mut buffer) {
            Ok(0) => client.is_over = true,
            Ok(bytes) if !client.is_over => client.inbox.extend(&buffer[..bytes]),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => {
                self.clients.remove(&id);
                return Vec::new();
            }
        }
        let mut lines = Vec::new();
        while let Some(end) = client.inbox.iter().position(|&byte| byte == b'\n') {
            let text = client.inbox.drain(..=end).take(end).collect();
            lines.push(Line { client: id, is_operator: client.is_operator, text });
        }
        if client.inbox.len() >= REQUEST_BYTES_MAX {
            client.inbox.clear();
            client.is_over = true;
            let refused = Answer::Refused(format!("a request has at most {REQUEST_BYTES_MAX} bytes"));
            self.answer(id, &refused);
        }
        self.close_if_over(id);
        lines
    }

    pub fn answer(&mut self, id: u64, answer: &Answer) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if serde_json::to_writer(&mut client.outbox, answer).is_err() || client.outbox.len() > ANSWER_BYTES_MAX {
            self.clients.remove(&id);
            return;
        }
        client.outbox.push(b'\n');
        self.write(id);
    }

    /// Whether a client still waits for an answer.
    pub fn has(&self, id: u64) -> bool {
        self.clients.get(&id).is_some_and(|client| !client.is_over)
    }

    pub fn follow_log(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.follows_log = true;
        }
    }

    /// Sends a line of the log to those who follow it.
    pub fn log(&mut self, line: &LogLine) {
        let followers: Vec<u64> =
            self.clients.iter().filter(|(_, client)| client.follows_log).map(|(&id, _)| id).collect();
        for id in followers {
            self.answer(id, &Answer::Log(vec![line.clone()]));
        }
    }

    /// Writes what a client's socket takes.
    pub fn write(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        while !client.outbox.is_empty() {
            match client.stream.write(&client.outbox) {
                Ok(bytes) if bytes > 0 => drop(client.outbox.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                _ => {
                    self.clients.remove(&id);
                    return;
                }
            }
        }
        self.close_if_over(id);
    }

    fn close_if_over(&mut self, id: u64) {
        if self.clients.get(&id).is_some_and(|client| client.is_over && client.outbox.is_empty()) {
            self.clients.remove(&id);
        }
    }
}

/// The user who has connected. Not rustix's function: it takes no client of another PID namespace, whose process has
/// the number 0 here.
fn user_of(stream: &UnixStream) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `peer`, which lives across the call, as `bytes` does.
    let done = unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        libc::getsockopt(stream.as_raw_fd(), level, name, (&raw mut peer).cast(), &raw mut bytes)
    };
    (done == 0 && peer.uid != u32::MAX).then_some(peer.uid)
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;

    fn served(control: &mut Control) -> Vec<Line> {
        control.accept();
        let ids: Vec<u64> = control.descriptors().map(|(id, ..)| id).collect();
        ids.into_iter().flat_map(|id| control.read(id)).collect()
    }

    #[test]
    fn lines_come_in_and_answers_go_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut control = Control::listen(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(Control::listen(&path).err().map(|error| error.kind()), Some(ErrorKind::AddrInUse));
        // The probe of the second daemon is a client that has ended.
        let _ = served(&mut control);
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"one\ntwo\nthr").unwrap();
        let lines = served(&mut control);
        assert_eq!(lines.iter().map(|line| line.text.as_slice()).collect::<Vec<_>>(), [b"one", b"two"]);
        assert!(lines[0].is_operator);
        client.write_all(b"ee\n").unwrap();
        assert_eq!(served(&mut control)[0].text, b"three");
        control.answer(lines[0].client, &Answer::Done("did".into()));
        let mut line = String::new();
        BufReader::new(&client).read_line(&mut line).unwrap();
        assert_eq!(line, "{\"done\":\"did\"}\n");
        drop(client);
        let _ = served(&mut control);
        assert_eq!(control.descriptors().count(), 0);
        drop(control);
        assert!(!path.exists());
    }

    #[test]
    fn a_killed_daemons_file_is_replaced_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(Control::listen(&path).unwrap());
        std::fs::write(&path, "text").unwrap();
        assert!(Control::listen(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    }

    #[test]
    fn clients_that_exceed_limits_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut control = Control::listen(&path).unwrap();
        let mut long = UnixStream::connect(&path).unwrap();
        long.write_all(&[b'x'; REQUEST_BYTES_MAX]).unwrap();
        let _ = served(&mut control);
        let mut said = String::new();
        long.read_to_string(&mut said).unwrap();
        assert!(said.contains("at most"), "{said}");
        // One that follows the log and never reads.
        let _idle = UnixStream::connect(&path).unwrap();
        let _ = served(&mut control);
        let id = control.descriptors().next().unwrap().0;
        control.follow_log(id);
        let line = LogLine { at_s: 0.0, is_warning: false, text: "x".repeat(1 << 16) };
        for _ in 0..1000 {
            control.log(&line);
        }
        assert_eq!(control.descriptors().count(), 0);
        // More than there may be.
        let many: Vec<UnixStream> = (0..CLIENTS_MAX + 1).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let _ = served(&mut control);
        assert_eq!((control.descriptors().count(), many.len()), (CLIENTS_MAX, CLIENTS_MAX + 1));
    }
}
