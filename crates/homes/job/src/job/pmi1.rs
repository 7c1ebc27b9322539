// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client side of PMI-1, the protocol of MPICH's launchers, which `selvedge run` speaks too.
//!
//! One line of `key=value` words in each direction, over the socket `PMI_FD` or, with `PMI_PORT`, a TCP connection:
//!
//! | request | reply |
//! |---|---|
//! | `cmd=init pmi_version=1 pmi_subversion=1` | `cmd=response_to_init rc=0 ...` |
//! | `cmd=get_maxes` | `cmd=maxes kvsname_max=.. keylen_max=.. vallen_max=..` |
//! | `cmd=get_my_kvsname` | `cmd=my_kvsname kvsname=..` |
//! | `cmd=put kvsname=.. key=.. value=..` | `cmd=put_result rc=0` |
//! | `cmd=barrier_in` | `cmd=barrier_out`, when all are in |
//! | `cmd=get kvsname=.. key=..` | `cmd=get_result rc=0 value=..` |
//! | `cmd=finalize` | `cmd=finalize_ack` |
//! | `cmd=exchange_in value=..`, after `cmd=exchange_more value=..` | `cmd=exchange_out rc=0 table=..`, when all are in |
//! | `cmd=abort exitcode=..` | none |
//!
//! Only `selvedge run` knows the exchange. It writes the values of all ranks into a file ([`mod@crate::exchange_table`]). With
//! another launcher each rank asks for each value.
//!
//! A program that uses MPI, or PMI itself, uses the same socket, and some do so from another thread or finalize before
//! this library does. So nothing is sent before the first barrier or exchange. Until then rank, size and job come from
//! the environment and from the process at the other end of the socket ([`Uninitialised`]), if these are enough.
//!
//! Values are short (`vallen_max`, often 1024), so bytes are sent as base64 in parts; the first part starts with the
//! total number of characters and a `.`.
//!
//! Invariants
//! 1. Each request is one `send`, so an abort from another thread never lands inside one.
//! 2. A dead launcher is an error, never SIGPIPE.
//! 3. Input from the launcher is bounded: a line has at most 64 KiB, a value at most the length that its first part
//!    announces.

use std::env;
use std::io;
use std::net::TcpStream;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::environment::number;
use super::errors::{JobError, JoinError};
use crate::directory::JobDirectory;
use crate::names::{base64url_decode, base64url_encode};
use selvedge_os::process::Identity;

const LINE_BYTES_MAX: usize = 64 << 10;
/// Characters of an exchange's value in one line.
const EXCHANGE_CHARS: usize = 48 << 10;

/// A connection on which nothing has been sent, for a job that is known without a request.
pub(super) struct Uninitialised {
    fd: RawFd,
    rank: u32,
    size: u32,
    job_name: String,
}

impl Uninitialised {
    /// Finds the job from the environment and the socket. `None` if they do not settle it: all ranks must have the same
    /// launcher process, and that process must have no other job.
    pub(super) fn from_environment() -> Result<Option<Uninitialised>, JoinError> {
        // `selvedge run` names the job in the environment. A spawned job may share its launcher process with the job that spawned it.
        let named = env::var_os("SELVEDGE_JOB").is_some();
        let spawned = env::var("PMI_SPAWNED").is_ok_and(|text| text != "0");
        if named || spawned {
            return Ok(None);
        }
        let (Some(rank), Some(size)) = (number("PMI_RANK")?, number("PMI_SIZE")?) else { return Ok(None) };
        // Hydra starts one process for each host name that it is given, and two names may be one machine.
        if number("MPI_LOCALNRANKS")?.is_some_and(|here| here != size) {
            return Ok(None);
        }
        Ok(socket_given()?.and_then(|fd| Uninitialised::new(fd, rank, size)))
    }

    /// Names the job after the process that made the socket: the launcher, or its proxy on this machine.
    fn new(fd: RawFd, rank: u32, size: u32) -> Option<Uninitialised> {
        let launcher = peer_of(fd).filter(|_| rank < size)?;
        let job_name = format!("pmi-{}-{}", launcher.pid, launcher.start);
        Some(Uninitialised { fd, rank, size, job_name })
    }

    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd
    }

    pub(super) fn job_name(&self) -> &str {
        &self.job_name
    }

    pub(super) fn start(&self) -> Result<Pmi1, JobError> {
        Pmi1::start(LineSocket::new(self.fd), self.rank, self.size)
    }
}

/// Returns the process that made this socket pair; `None` if it is not a visible process of this machine.
fn peer_of(fd: RawFd) -> Option<Identity> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` and `bytes` live across the call, and `bytes` is the size of `peer`. A bad descriptor is an error.
    let failed = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut bytes) != 0
    };
    let pid = u32::try_from(peer.pid).ok().filter(|&pid| pid != 0 && !failed)?;
    Identity::of(pid)
}

pub(super) struct Pmi1 {
    socket: LineSocket,
    rank: u32,
    size: u32,
    kvs_name: String,
    /// Longest value put, in characters.
    value_chars_max: usize,
}

impl Pmi1 {
    /// Connects if the environment names a PMI-1 launcher.
    pub(super) fn from_environment() -> Result<Option<Pmi1>, JoinError> {
        if let Some(fd) = socket_given()? {
            let need = |name| number(name)?.ok_or(JoinError::BadVariable { name, value: String::new(), wanted: "set" });
            let (rank, size) = (need("PMI_RANK")?, need("PMI_SIZE")?);
            return Ok(Some(Pmi1::start(LineSocket::new(fd), rank, size)?));
        }
        match env::var("PMI_PORT") {
            Ok(address) => Ok(Some(Pmi1::connect(&address)?)),
            Err(_) => Ok(None),
        }
    }

    /// Connects by the older method: a TCP connection on which the launcher first sends this process's rank and the job's size.
    fn connect(address: &str) -> Result<Pmi1, JoinError> {
        let id = number("PMI_ID")?.or(number("PMI_RANK")?).unwrap_or(0);
        let stream = TcpStream::connect(address).map_err(|error| JobError::Io { doing: "connect to", error })?;
        let _ = stream.set_nodelay(true);
        let mut socket = LineSocket::new(stream.into_raw_fd());
        socket.ask(&format!("cmd=initack pmiid={id}"), "initack")?;
        let (mut rank, mut size) = (id, None);
        // The launcher sends three lines `cmd=set name=value`: size, rank, debug.
        for _ in 0..3 {
            let line = socket.line()?;
            if let Some(given) = word(&line, "size") {
                size = given.parse().ok();
            }
            if let Some(given) = word(&line, "rank").and_then(|given| given.parse().ok()) {
                rank = given;
            }
        }
        let size = match size {
            Some(size) => size,
            None => number("PMI_SIZE")?.unwrap_or(1),
        };
        Ok(Pmi1::start(socket, rank, size)?)
    }

    fn start(mut socket: LineSocket, rank: u32, size: u32) -> Result<Pmi1, JobError> {
        if rank >= size {
            return Err(refused("PMI_SIZE", &format!("rank {rank} of {size}")));
        }
        let init = socket.ask(&marked("cmd=init pmi_version=1 pmi_subversion=1"), "response_to_init")?;
        check_rc("init", &init)?;
        let maxes = socket.ask("cmd=get_maxes", "maxes")?;
        let vallen = word(&maxes, "vallen_max").and_then(|text| text.parse::<usize>().ok()).unwrap_or(256);
        let answer = socket.ask("cmd=get_my_kvsname", "my_kvsname")?;
        let kvs_name = word(&answer, "kvsname").ok_or_else(|| refused("get_my_kvsname", &answer))?.to_owned();
        // The limit may or may not count a terminating zero. Hydra's buffer holds the whole line in 64 KiB.
        let value_chars_max = vallen.saturating_sub(1).clamp(32, 32 << 10);
        Ok(Pmi1 { socket, rank, size, kvs_name, value_chars_max })
    }

    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    pub(super) fn kvs_name(&self) -> &str {
        &self.kvs_name
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.fd
    }

    pub(super) fn barrier(&mut self) -> Result<(), JobError> {
        let answer = self.socket.ask("cmd=barrier_in", "barrier_out")?;
        check_rc("barrier_in", &answer)
    }

    /// Gathers the bytes of every rank by one request. A rank that has ended without giving any has `None`. `Ok(None)`: this
    /// launcher knows no such request, and answers all ranks so.
    pub(super) fn exchange(
        &mut self,
        mine: &[u8],
        directory: &JobDirectory,
    ) -> Result<Option<Vec<Option<Vec<u8>>>>, JobError> {
        let text = base64url_encode(mine);
        let (parts, last) = text.split_at(text.len() - text.len() % EXCHANGE_CHARS);
        for part in parts.as_bytes().chunks(EXCHANGE_CHARS) {
            self.socket.send(&format!("cmd=exchange_more value={}", String::from_utf8_lossy(part)))?;
            if check_rc("exchange_more", &self.socket.line()?).is_err() {
                return Ok(None);
            }
        }
        self.socket.send(&format!("cmd=exchange_in value={last}"))?;
        let answer = self.socket.line()?;
        if word(&answer, "cmd") != Some("exchange_out") {
            return Ok(None);
        }
        let number = word(&answer, "table").and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| refused("exchange_in", &answer))?;
        directory.read_exchange(number).map(Some).map_err(JobError::NoTable)
    }

    /// Publishes bytes under a name. Other ranks see them after the next barrier.
    pub(super) fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), JobError> {
        for (part, value) in split_value(bytes, self.value_chars_max).iter().enumerate() {
            let key = key(name, part);
            let request = format!("cmd=put kvsname={} key={key} value={value}", self.kvs_name);
            let answer = self.socket.ask(&request, "put_result")?;
            check_rc("put", &answer)?;
        }
        Ok(())
    }

    /// Returns the bytes that were published under a name; None if there are none.
    pub(super) fn get(&mut self, name: &str) -> Result<Option<Vec<u8>>, JobError> {
        let Some(first) = self.get_part(name, 0)? else { return Ok(None) };
        let bad = || refused("get", "a value that no Selvedge rank has put");
        let (length, start) = first.split_once('.').ok_or_else(bad)?;
        let length: usize = length.parse().map_err(|_| bad())?;
        let mut text = start.to_owned();
        for part in 1.. {
            if text.len() >= length {
                break;
            }
            let more = self.get_part(name, part)?.unwrap_or_default();
            if more.is_empty() {
                return Err(bad());
            }
            text.push_str(&more);
        }
        if text.len() != length {
            return Err(bad());
        }
        base64url_decode(&text).map(Some).ok_or_else(bad)
    }

    fn get_part(&mut self, name: &str, part: usize) -> Result<Option<String>, JobError> {
        let request = format!("cmd=get kvsname={} key={}", self.kvs_name, key(name, part));
        let answer = self.socket.ask(&request, "get_result")?;
        if word(&answer, "rc").is_some_and(|rc| rc != "0") {
            return Ok(None);
        }
        word(&answer, "value").map(|value| Some(value.to_owned())).ok_or_else(|| refused("get", &answer))
    }

    pub(super) fn finalize(mut self) -> Result<(), JobError> {
        self.socket.ask(&marked("cmd=finalize"), "finalize_ack").map(|_| ())
    }
}

/// Marks a line for `selvedge run` as sent by this library and not by the program, which uses the same socket. Other
/// launchers get the line without the mark.
fn marked(line: &str) -> String {
    let ours = std::env::var_os("SELVEDGE_JOB").is_some();
    if ours { format!("{line} library=selvedge") } else { line.to_owned() }
}

/// Asks the launcher to end the job. A failure is ignored, because this process ends next.
pub(super) fn send_abort(fd: RawFd, code: i32) {
    let _ = LineSocket::new(fd).send(&format!("cmd=abort exitcode={code}"));
}

/// Reports to the launcher that the job is finished. `selvedge run` then exits with this code, even if it is 0.
pub(super) fn send_end(fd: RawFd, code: i32) {
    let ours = std::env::var_os("SELVEDGE_JOB").is_some();
    let end = if ours { " end=asked" } else { "" };
    let _ = LineSocket::new(fd).send(&format!("cmd=abort exitcode={code}{end}"));
}

fn key(name: &str, part: usize) -> String {
    format!("selvedge-{name}-{part}")
}

/// Encodes bytes as values of at most `chars_max` characters; the first announces the total number.
fn split_value(bytes: &[u8], chars_max: usize) -> Vec<String> {
    let text = base64url_encode(bytes);
    let head = format!("{}.", text.len());
    let (start, rest) = text.split_at(text.len().min(chars_max - head.len()));
    let mut values = vec![head + start];
    values.extend(rest.as_bytes().chunks(chars_max).map(|part| String::from_utf8_lossy(part).into_owned()));
    values
}

/// Returns the socket of `PMI_FD`. A number that is not a socket was inherited from an outer launcher, whose variable
/// the inner launcher did not remove.
fn socket_given() -> Result<Option<RawFd>, JoinError> {
    let Some(number) = number("PMI_FD")? else { return Ok(None) };
    let Ok(raw) = RawFd::try_from(number) else { return Ok(None) };
    // SAFETY: `raw` came from an unsigned number, so it is not -1. The borrow is used only for `fstat`, which fails on a closed
    // descriptor.
    let fd = unsafe { BorrowedFd::borrow_raw(raw) };
    let socket = rustix::fs::fstat(fd)
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Socket);
    if !socket {
        log::debug!("PMI_FD={raw} is not a socket; looking for another launcher");
    }
    Ok(socket.then_some(raw))
}

fn check_rc(asked: &str, answer: &str) -> Result<(), JobError> {
    match word(answer, "rc") {
        None | Some("0") => Ok(()),
        Some(_) => Err(refused(asked, answer)),
    }
}

fn refused(asked: &str, answer: &str) -> JobError {
    let short = |text: &str| text.chars().take(200).collect();
    JobError::Protocol { asked: short(asked), answer: short(answer) }
}

/// Returns the value of `key=value` in a line.
fn word<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// Sends and receives lines over a socket. The socket stays open for the life of the process, because an MPI library in the
/// same process may use it too.
struct LineSocket {
    fd: RawFd,
    pending: Vec<u8>,
}

impl LineSocket {
    fn new(fd: RawFd) -> LineSocket {
        LineSocket { fd, pending: Vec::new() }
    }

    fn ask(&mut self, request: &str, reply: &str) -> Result<String, JobError> {
        self.send(request)?;
        let answer = self.line()?;
        if word(&answer, "cmd") == Some(reply) { Ok(answer) } else { Err(refused(request, &answer)) }
    }

    fn send(&self, request: &str) -> Result<(), JobError> {
        let line = format!("{request}\n");
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match rustix::net::send(self.borrow(), rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = &rest[count..],
                Err(error) => self.handle_error(error, "write to", PollFlags::OUT)?,
            }
        }
        Ok(())
    }

    fn line(&mut self) -> Result<String, JobError> {
        loop {
            if let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.pending.len() > LINE_BYTES_MAX {
                return Err(refused("anything", "a line without end"));
            }
            let mut chunk = [0u8; 4096];
            match rustix::net::recv(self.borrow(), &mut chunk[..], RecvFlags::empty()) {
                Ok((0, _)) => return Err(JobError::LauncherGone),
                Ok((count, _)) => self.pending.extend_from_slice(&chunk[..count.min(chunk.len())]),
                Err(error) => self.handle_error(error, "read from", PollFlags::IN)?,
            }
        }
    }

    /// Handles an error of the socket: continues after an interruption, waits if the socket is non-blocking, else fails.
    fn handle_error(&self, error: Errno, doing: &'static str, ready: PollFlags) -> Result<(), JobError> {
        match error {
            Errno::INTR => Ok(()),
            Errno::WOULDBLOCK => {
                let _ = rustix::event::poll(&mut [PollFd::from_borrowed_fd(self.borrow(), ready)], None);
                Ok(())
            }
            Errno::PIPE | Errno::CONNRESET => Err(JobError::LauncherGone),
            error => Err(JobError::Io { doing, error: io::Error::from(error) }),
        }
    }

    fn borrow(&self) -> BorrowedFd<'_> {
        // SAFETY: `fd` is the launcher's socket, checked open and not -1, or a TCP socket that this crate opened. It is never
        // closed while the process lives.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

#[cfg(test)]
#[path = "../pmi1_tests.rs"]
mod tests;
