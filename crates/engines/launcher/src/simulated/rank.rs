// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rank's process: its page, its PMI connection and its output.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use selvedge_job::Identity;
use selvedge_sim_protocol::SimEnd;

use crate::rank::connection::{Connection, ConnectionState};
use crate::rank::output::{PrintedStream, Printer, STANDARD_STREAMS, Stream};

pub(super) struct RankProcess {
    pub who: Identity,
    pub page: SimEnd,
    /// A descriptor of the process, readable when it has ended.
    process: OwnedFd,
    pub connection: Option<Connection>,
    pub streams: [Option<PrintedStream>; 2],
    /// Lines to send to it at its next turn.
    pub held_lines: Vec<String>,
    pub state: RankState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RankState {
    /// It has the turn, or has made a request and waits for the turn.
    Turns,
    /// It is blocked in a PMI call.
    Blocked,
    /// It computes, and is stopped so that other ranks get a turn.
    Stopped,
    Ended,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ready {
    pub request: bool,
    pub process: bool,
    pub connection: bool,
    pub output: bool,
    pub signals: bool,
}

impl RankProcess {
    /// `tag`: mark the printed streams with this rank.
    pub fn new(
        number: u32,
        who: Identity,
        page: SimEnd,
        connection: Connection,
        streams: [Option<Stream>; 2],
    ) -> std::io::Result<RankProcess> {
        // SAFETY: `pidfd_open` takes numbers, and returns a new descriptor or an error, so nothing else owns it.
        let process = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, who.pid, 0) as i32;
            if fd < 0 {
                return Err(std::io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let (connection, held_lines) = (Some(connection), Vec::new());
        let mut targets = STANDARD_STREAMS.into_iter();
        let streams = streams.map(|stream| {
            let printer = Printer::new(targets.next()?, Some(number as usize));
            Some(PrintedStream::new(stream?, printer))
        });
        Ok(RankProcess { who, page, process, connection, streams, held_lines, state: RankState::Turns })
    }

    /// Sleeps until the rank or a signal needs handling, at most for `limit`.
    pub fn sleep(&self, signals: BorrowedFd<'_>, limit: Duration) -> Ready {
        let mut polled = vec![
            PollFd::from_borrowed_fd(self.page.wake_pipe(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.process.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals, PollFlags::IN),
        ];
        let connection = self.connection.as_ref().map(|connection| (connection.fd(), connection.interest()));
        polled.extend(connection.map(|(fd, interest)| PollFd::from_borrowed_fd(fd, interest)));
        polled.extend(self.streams.iter().flatten().map(|stream| PollFd::from_borrowed_fd(stream.fd(), PollFlags::IN)));
        let limit =
            rustix::event::Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let mut sleeps = false;
        if self.page.begin_sleep() {
            // An interrupted poll reports nothing, and the caller calls again.
            sleeps = poll(&mut polled, Some(&limit)).is_ok_and(|ready| ready > 0);
        }
        let is_ready = |at: usize| sleeps && polled.get(at).is_some_and(|polled| !polled.revents().is_empty());
        self.page.end_sleep(is_ready(0));
        let first_stream = 3 + usize::from(self.connection.is_some());
        Ready {
            request: self.page.has_request(),
            process: is_ready(1),
            signals: is_ready(2),
            connection: self.connection.is_some() && is_ready(3),
            output: (first_stream..polled.len()).any(is_ready),
        }
    }

    /// The lines that it has sent over PMI, and the state of the connection.
    pub fn receive_lines(&mut self) -> (Vec<String>, ConnectionState) {
        let mut lines = Vec::new();
        let state = self.connection.as_mut().map_or(ConnectionState::Closed, |connection| {
            connection.flush();
            connection.receive(&mut lines)
        });
        if state != ConnectionState::Open {
            self.connection = None;
        }
        (lines, state)
    }

    pub fn send_line(&mut self, line: &str) {
        if let Some(connection) = &mut self.connection {
            // A closed connection is detected at the next read.
            connection.send(line);
        }
    }

    /// Prints the output that it has written so far.
    pub fn pass_output(&mut self) {
        for stream in &mut self.streams {
            if stream.as_mut().is_some_and(|stream| !stream.pass_all_on()) {
                *stream = None;
            }
        }
    }

    /// Stops the process, which has the turn. False: it has ended instead.
    pub fn stop(&mut self) -> bool {
        self.state = RankState::Stopped;
        let pid = self.who.pid as libc::pid_t;
        // SAFETY: the process is our child and not reaped, so the pid is its own. waitid fills the zeroed siginfo_t.
        unsafe {
            libc::kill(pid, libc::SIGSTOP);
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
            while libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, flags) != 0 {
                if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                    return true;
                }
            }
            info.si_code == libc::CLD_STOPPED
        }
    }

    /// Continues the stopped process.
    pub fn resume(&mut self) {
        self.state = RankState::Turns;
        // SAFETY: the process is our child and not reaped, so its pid is still its own.
        unsafe { libc::kill(self.who.pid as libc::pid_t, libc::SIGCONT) };
    }

    /// Reaps the process, and returns its status.
    pub fn reap(&mut self) -> ExitStatus {
        self.state = RankState::Ended;
        let mut status = 0;
        // SAFETY: the process is our child, and `status` lives across the call.
        let reaped = unsafe { libc::waitpid(self.who.pid as libc::pid_t, &mut status, 0) };
        if reaped < 0 { ExitStatus::from_raw(1 << 8) } else { ExitStatus::from_raw(status) }
    }
}

/// Whether a child has ended. Does not reap it.
pub(super) fn has_ended(pid: u32) -> bool {
    // SAFETY: all bits zero is a valid siginfo_t; waitid fills it, or leaves it unchanged, and `si_pid` is then the pid or 0.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_PID, pid, &mut info, flags) != 0 || info.si_pid() != 0
    }
}
