// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rank: its process, its wire, what it says and is told.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::event::{PollFd, PollFlags, poll};
use selvedge_job::Identity;
use selvedge_sim_protocol::SimEnd;

use crate::run::connection::{Connection, Link};
use crate::run::output::Stream;

/// A rank whose process has been started.
pub(super) struct Rank {
    pub who: Identity,
    pub wire: SimEnd,
    /// Readable when the process has ended.
    process: OwnedFd,
    pub connection: Option<Connection>,
    pub streams: [Option<Stream>; 2],
    /// Said to it when it next has the turn.
    pub held: Vec<String>,
    pub standing: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// It has asked for something, and waits for the turn; or has it.
    Turns,
    /// In a call of the launcher's.
    Blocked,
    /// It computes, and has been stopped so that others have a turn.
    Stopped,
    Ended,
}

/// What there is to be heard of a rank.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ready {
    pub wire: bool,
    pub process: bool,
    pub connection: bool,
    pub output: bool,
    pub signals: bool,
}

impl Rank {
    pub fn new(
        who: Identity,
        wire: SimEnd,
        connection: Connection,
        streams: [Option<Stream>; 2],
    ) -> std::io::Result<Rank> {
        // SAFETY: no memory is involved; a new descriptor, ours.
        let process = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, who.pid, 0) as i32;
            if fd < 0 {
                return Err(std::io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let (connection, held) = (Some(connection), Vec::new());
        Ok(Rank { who, wire, process, connection, streams, held, standing: Standing::Turns })
    }

    /// Sleeps until there is something to hear, for so many milliseconds at most.
    pub fn sleep(&self, signals: BorrowedFd<'_>, limit_ms: u32) -> Ready {
        let mut ready = Ready::default();
        let mut polled = vec![
            PollFd::from_borrowed_fd(self.wire.wake_pipe(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.process.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals, PollFlags::IN),
        ];
        let connection = self.connection.as_ref().map(|connection| (connection.fd(), connection.interest()));
        polled.extend(connection.map(|(fd, interest)| PollFd::from_borrowed_fd(fd, interest)));
        polled.extend(self.streams.iter().flatten().map(|stream| PollFd::from_borrowed_fd(stream.fd(), PollFlags::IN)));
        let limit = rustix::event::Timespec {
            tv_sec: i64::from(limit_ms / 1000),
            tv_nsec: i64::from(limit_ms % 1000) * 1_000_000,
        };
        if self.wire.begin_sleep() {
            // An interrupted poll says nothing, and is made again by the caller.
            let _ = poll(&mut polled, Some(&limit));
        }
        self.wire.end_sleep();
        ready.wire = self.wire.has_asked();
        let is_ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        (ready.process, ready.signals) = (is_ready[1], is_ready[2]);
        let rest = &is_ready[3..];
        let (connections, streams) = rest.split_at(usize::from(self.connection.is_some()));
        ready.connection = connections.contains(&true);
        ready.output = streams.contains(&true);
        ready
    }

    /// The lines that it has said over PMI; whether it goes on doing so.
    pub fn hear(&mut self) -> (Vec<String>, Link) {
        let mut lines = Vec::new();
        let link = self.connection.as_mut().map_or(Link::Closed, |connection| {
            connection.flush();
            connection.receive(&mut lines)
        });
        if link != Link::Open {
            self.connection = None;
        }
        (lines, link)
    }

    pub fn say(&mut self, line: &str) {
        if let Some(connection) = &mut self.connection {
            // A closed one is noticed when it is next read.
            connection.send(line);
        }
    }

    /// Passes on what it has written so far.
    pub fn pass_output(&mut self) {
        for stream in &mut self.streams {
            if stream.as_mut().is_some_and(|stream| !stream.pass_all_on()) {
                *stream = None;
            }
        }
    }

    /// Stops the process, which has the turn. False: it has ended instead.
    pub fn stop(&mut self) -> bool {
        self.standing = Standing::Stopped;
        let pid = self.who.pid as libc::pid_t;
        // SAFETY: a child of ours that is not reaped; all-zero is a valid siginfo_t, which waitid fills.
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

    /// Lets it go on that was stopped.
    pub fn go_on(&mut self) {
        self.standing = Standing::Turns;
        // SAFETY: as above.
        unsafe { libc::kill(self.who.pid as libc::pid_t, libc::SIGCONT) };
    }

    /// Takes the process's status, which has ended.
    pub fn reap(&mut self) -> ExitStatus {
        self.standing = Standing::Ended;
        let mut status = 0;
        // SAFETY: a child of ours; the status is this frame's.
        let reaped = unsafe { libc::waitpid(self.who.pid as libc::pid_t, &mut status, 0) };
        if reaped < 0 { ExitStatus::from_raw(1 << 8) } else { ExitStatus::from_raw(status) }
    }
}
