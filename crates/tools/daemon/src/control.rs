// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon's UNIX socket: lines in, lines out, and no client that others wait for.
//!
//! # Invariants
//!
//! 1. There are at most [`CLIENTS_MAX`] clients, of which [`OPERATORS_MIN`] places are kept for operators, and at most
//!    [`OF_USER_MAX`] of another user. Each has some requests of [`REQUEST_BYTES_MAX`] and [`ANSWER_BYTES_MAX`] of
//!    answers in memory; one that exceeds them is closed. All together have [`ANSWERS_BYTES_MAX`] of answers: of
//!    those with answers the one with the most is closed first, and operators after all others.
//! 2. A client has one line answered in a turn of the loop, and none before it has taken the answers of those before.
//! 3. A client's user is the kernel's word, taken when it connects. Anyone may connect, as processes of all users
//!    register their NICs; acts are for operators: root and the daemon's own user.
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::event::PollFlags;
use rustix::fs::Mode;

use crate::protocol::{Answer, LogLine, REQUEST_BYTES_MAX};

const CLIENTS_MAX: usize = 1024;
const OPERATORS_MIN: usize = 64;
/// Clients of one user who is no operator.
const OF_USER_MAX: usize = CLIENTS_MAX / 2;
/// Clients that are taken in one turn of the loop.
const ACCEPTED_A_TURN: usize = 32;
const ANSWER_BYTES_MAX: usize = 8 << 20;
const ANSWERS_BYTES_MAX: usize = 32 << 20;

/// The user and the process behind a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    pub user: u32,
    /// None: it is of another PID namespace.
    pub process: Option<u32>,
}

struct Client {
    stream: UnixStream,
    user: User,
    is_operator: bool,
    follows_log: bool,
    inbox: Vec<u8>,
    /// The inbox holds a whole line, or the beginning of one that is too long.
    has_line: bool,
    outbox: Vec<u8>,
    /// Closed once its outbox is empty.
    is_over: bool,
}

impl Client {
    /// Takes the first whole line of the inbox.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.inbox.iter().position(|&byte| byte == b'\n');
        let line = end.map(|end| self.inbox.drain(..=end).take(end).collect());
        self.has_line = self.inbox.contains(&b'\n') || self.inbox.len() >= REQUEST_BYTES_MAX;
        line
    }
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
    /// Clients that have gone since the last [`Control::take_gone`].
    gone: Vec<u64>,
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
        let before = rustix::process::umask(Mode::from_raw_mode(0o111));
        let listener = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = listener?;
        listener.set_nonblocking(true)?;
        Ok(Control { listener, path: path.to_owned(), clients: BTreeMap::new(), gone: Vec::new(), last: 0 })
    }

    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The clients, and what each waits for. One that has not taken its answers, or has a line to be answered, is not
    /// read.
    pub fn descriptors(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>, PollFlags)> {
        self.clients.iter().map(|(&id, client)| {
            let takes = if client.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let is_read = !client.is_over && !client.has_line && client.outbox.is_empty();
            let says = if is_read { PollFlags::IN } else { PollFlags::empty() };
            (id, client.stream.as_fd(), takes | says)
        })
    }

    /// Whether [`Control::read`] has a line of a client without a look at its socket.
    pub fn has_line(&self, id: u64) -> bool {
        self.clients.get(&id).is_some_and(|client| client.has_line && client.outbox.is_empty())
    }

    pub fn user(&self, id: u64) -> Option<User> {
        Some(self.clients.get(&id)?.user)
    }

    /// The clients that have gone since the last call.
    pub fn take_gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }

    fn remove(&mut self, id: u64) {
        if self.clients.remove(&id).is_some() {
            self.gone.push(id);
        }
    }

    /// Takes new clients, at most [`ACCEPTED_A_TURN`]: a user who connects again and again holds nobody up.
    pub fn accept(&mut self) {
        for _ in 0..ACCEPTED_A_TURN {
            let Ok((stream, _)) = self.listener.accept() else { return };
            let Some(user) = user_of(&stream) else { continue };
            let is_operator = user.user == 0 || user.user == rustix::process::geteuid().as_raw();
            if !self.has_place(user.user, is_operator) || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let (inbox, outbox) = (Vec::new(), Vec::new());
            self.last += 1;
            let (follows_log, has_line, is_over) = (false, false, false);
            let client = Client { stream, user, is_operator, follows_log, inbox, has_line, outbox, is_over };
            self.clients.insert(self.last, client);
        }
    }

    fn has_place(&self, user: u32, is_operator: bool) -> bool {
        let of_user = || self.clients.values().filter(|client| client.user.user == user).count();
        match is_operator {
            true => self.clients.len() < CLIENTS_MAX,
            false => self.clients.len() < CLIENTS_MAX - OPERATORS_MIN && of_user() < OF_USER_MAX,
        }
    }

    pub fn has(&self, id: u64) -> bool {
        self.clients.contains_key(&id)
    }

    /// Returns the next line of a client, which it reads if no whole line is there. A client that has not taken its
    /// answers has none.
    pub fn read(&mut self, id: u64) -> Option<Line> {
        let client = self.clients.get_mut(&id).filter(|client| client.outbox.is_empty())?;
        if !client.has_line {
            let mut buffer = [0; REQUEST_BYTES_MAX];
            match client.stream.read(&mut buffer) {
                Ok(0) => client.is_over = true,
                Ok(bytes) if !client.is_over => client.inbox.extend(&buffer[..bytes]),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => {
                    self.remove(id);
                    return None;
                }
            }
        }
        let is_operator = client.is_operator;
        let line = client.take_line().map(|text| Line { client: id, is_operator, text });
        if line.is_none() && client.has_line {
            client.inbox.clear();
            (client.has_line, client.is_over) = (false, true);
            let refused = Answer::Refused(format!("a request has at most {REQUEST_BYTES_MAX} bytes"));
            self.answer(id, &refused);
        }
        self.close_if_over(id);
        line
    }

    /// Answers a client, which may be closed for it.
    pub fn answer(&mut self, id: u64, answer: &Answer) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let is_written = serde_json::to_writer(&mut client.outbox, answer).is_ok();
        if !is_written || client.outbox.len() > ANSWER_BYTES_MAX {
            self.remove(id);
            return;
        }
        client.outbox.push(b'\n');
        self.write(id);
        while self.clients.values().map(|client| client.outbox.len()).sum::<usize>() > ANSWERS_BYTES_MAX {
            // Otherwise a user whose clients take no answers has an operator's large one closed.
            let key = |client: &Client| (!client.is_operator && !client.outbox.is_empty(), client.outbox.len());
            let most = self.clients.iter().max_by_key(|(_, client)| key(client)).map(|(&id, _)| id);
            most.into_iter().for_each(|id| self.remove(id));
        }
    }

    pub fn follow_log(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.follows_log = true;
        }
    }

    /// Sends a line of the log to the clients that follow it.
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
                    self.remove(id);
                    return;
                }
            }
        }
        self.close_if_over(id);
    }

    fn close_if_over(&mut self, id: u64) {
        if self.clients.get(&id).is_some_and(|client| client.is_over && client.outbox.is_empty()) {
            self.remove(id);
        }
    }
}

/// The user who has connected. Not rustix's function: it takes no client of another PID namespace, whose process has
/// the number 0 here.
fn user_of(stream: &UnixStream) -> Option<User> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `peer`, which lives across the call, as `bytes` does.
    let done = unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        libc::getsockopt(stream.as_raw_fd(), level, name, (&raw mut peer).cast(), &raw mut bytes)
    };
    let process = u32::try_from(peer.pid).ok().filter(|&process| process != 0);
    (done == 0 && peer.uid != u32::MAX).then_some(User { user: peer.uid, process })
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
        let all = |id| std::iter::from_fn(|| control.read(id)).collect::<Vec<_>>();
        ids.into_iter().flat_map(all).collect()
    }

    #[test]
    fn lines_come_in_and_answers_go_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut control = Control::listen(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
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
    fn a_call_gives_one_line_and_none_while_answers_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut control = Control::listen(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"one\ntwo\nthree\n").unwrap();
        control.accept();
        let id = control.descriptors().next().unwrap().0;
        assert!(!control.has_line(id));
        assert_eq!(control.read(id).unwrap().text, b"one");
        let wanted = |control: &Control| control.descriptors().next().unwrap().2;
        assert_eq!((control.has_line(id), wanted(&control)), (true, PollFlags::empty()));
        // More than the socket takes.
        control.answer(id, &Answer::Done("x".repeat(1 << 20)));
        assert!(control.read(id).is_none() && !control.has_line(id));
        assert_eq!(wanted(&control), PollFlags::OUT);
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") {
            control.write(id);
            let mut buffer = [0; 1 << 16];
            let bytes = client.read(&mut buffer).unwrap();
            answer.extend(&buffer[..bytes]);
        }
        assert_eq!(control.read(id).unwrap().text, b"two");
        assert_eq!(control.read(id).unwrap().text, b"three");
        assert!(!control.has_line(id) && wanted(&control) == PollFlags::IN);
        // A client that is removed has no lines left.
        client.write_all(b"four\nfive\n").unwrap();
        assert_eq!(control.read(id).unwrap().text, b"four");
        control.answer(id, &Answer::Done("x".repeat(ANSWER_BYTES_MAX)));
        assert!(control.read(id).is_none() && !control.has(id));
    }

    #[test]
    fn the_client_with_the_most_answers_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut control = Control::listen(&path).unwrap();
        let _idle: Vec<UnixStream> = (0..6).map(|_| UnixStream::connect(&path).unwrap()).collect();
        control.accept();
        // Each has less than one may have; the third has the most.
        let answer = |mib: usize| Answer::Done("x".repeat(mib << 20));
        for (id, mib) in [(1, 6), (2, 6), (3, 7), (4, 6), (5, 6)] {
            control.answer(id, &answer(mib));
        }
        assert_eq!(control.clients.len(), 6);
        control.answer(6, &answer(3));
        assert_eq!(control.take_gone(), [3]);
        assert!(control.has(6));
        // A client of another user makes room for an operator's answer, though it has less than others.
        control.clients.get_mut(&4).unwrap().is_operator = false;
        let mut gone = Vec::new();
        for id in [1, 2, 5, 6, 6, 6, 6] {
            control.answer(id, &answer(1));
            gone.extend(control.take_gone());
        }
        assert_eq!(gone, [4]);
    }

    #[test]
    fn a_user_who_is_no_operator_has_half_of_the_places() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut control = Control::listen(&path).unwrap();
        let add = |control: &mut Control, user: u32| {
            let streams: Vec<UnixStream> = (0..8).map(|_| UnixStream::connect(&path).unwrap()).collect();
            control.accept();
            let own = control.last - 7..;
            control.clients.range_mut(own).for_each(|(_, client)| client.user.user = user);
            streams
        };
        let mut streams = Vec::new();
        while control.has_place(7, false) {
            streams.push(add(&mut control, 7));
        }
        assert_eq!(control.clients.len(), OF_USER_MAX);
        assert!(control.has_place(8, false) && control.has_place(0, true));
        while control.has_place(8, false) {
            streams.push(add(&mut control, 8));
        }
        assert_eq!(control.clients.len(), CLIENTS_MAX - OPERATORS_MIN);
        assert!(!control.has_place(9, false) && control.has_place(0, true));
    }

    #[test]
    fn a_turn_takes_some_clients_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut control = Control::listen(&path).unwrap();
        let _many: Vec<UnixStream> = (0..ACCEPTED_A_TURN + 1).map(|_| UnixStream::connect(&path).unwrap()).collect();
        control.accept();
        assert_eq!(control.clients.len(), ACCEPTED_A_TURN);
        control.accept();
        assert_eq!(control.clients.len(), ACCEPTED_A_TURN + 1);
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
        assert_eq!(control.take_gone().len(), 2);
        // More than there may be.
        let many: Vec<UnixStream> = (0..CLIENTS_MAX + 1)
            .map(|_| {
                let stream = UnixStream::connect(&path).unwrap();
                control.accept();
                stream
            })
            .collect();
        assert_eq!((control.descriptors().count(), many.len()), (CLIENTS_MAX, CLIENTS_MAX + 1));
    }
}
