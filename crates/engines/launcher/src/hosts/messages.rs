// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages between the ranks of a host and the supervisor of the job.
//!
//! [`Event`] goes up, [`Order`] goes down. On one host they are values that functions pass. Between hosts they travel
//! through the channel of an agent ([`super::channel`]).
//!
//! Invariants
//! 1. Events of a rank come in the order in which they happened: `Ended` comes after every line that the rank has sent.
//! 2. Orders are carried out in sequence. So an answer after an [`Order::Bury`] finds the tombstone.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

/// An event of a rank. Ranks are numbered in the job.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    Started {
        rank: usize,
        pid: u32,
    },
    /// No further rank is started on this host. The code is the job's exit code.
    NotStarted {
        rank: usize,
        code: u8,
        why: String,
    },
    /// A line on its PMI socket, without the newline.
    Line {
        rank: usize,
        line: String,
    },
    /// It has sent a line that is too long. Its PMI socket is closed.
    Endless {
        rank: usize,
    },
    /// It has ended, and waits for [`Order::Bury`].
    Ended {
        rank: usize,
        status: Status,
    },
    /// Bytes of its standard output (0) or error (1).
    Output {
        rank: usize,
        which: usize,
        #[serde(skip)]
        bytes: Vec<u8>,
    },
    OutputEnded {
        rank: usize,
        which: usize,
    },
    /// The user has stopped the debugger that has the launcher's terminal. Never from another host.
    #[serde(skip)]
    Stopped,
    /// Rank 0 has taken this many bytes of its input.
    InputTaken(usize),
    /// Rank 0 takes no more input.
    InputClosed,
    /// The host is lost with all its ranks. The reason follows its name. The launcher finds this; it never travels.
    #[serde(skip)]
    HostLost(String),
}

impl Event {
    /// The rank and the stream of an output event.
    pub(crate) fn rank_and_stream(&self) -> Option<(usize, usize)> {
        match *self {
            Event::Started { rank, .. }
            | Event::NotStarted { rank, .. }
            | Event::Line { rank, .. }
            | Event::Endless { rank }
            | Event::Ended { rank, .. } => Some((rank, 0)),
            Event::Output { rank, which, .. } | Event::OutputEnded { rank, which } => Some((rank, which)),
            Event::InputTaken(_) | Event::InputClosed | Event::Stopped | Event::HostLost(_) => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Send a line on its PMI socket.
    Answer {
        rank: usize,
        line: String,
    },
    /// Write the table of an exchange, for the answers that follow.
    Table {
        number: u64,
        #[serde(skip)]
        text: Vec<u8>,
    },
    /// Record the end of a rank that has ended, end its remaining processes if it failed, and reap it.
    Bury {
        rank: usize,
        /// It had finalized, and exited with 0.
        orderly: bool,
        /// The job continues, so peers must learn of the death.
        job_goes_on: bool,
    },
    /// Record that a rank of any host has ended early, while the job goes on.
    Lost {
        rank: usize,
        has_failed: bool,
        /// Its end in words.
        how: String,
    },
    /// Send this signal to all ranks of the host.
    Signal(i32),
    Input(#[serde(skip)] Vec<u8>),
    InputEnded,
    /// This stream has no reader any more.
    CloseOutput {
        rank: usize,
        which: usize,
    },
}

/// The exit status of a process, as `wait` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "i32", into = "i32")]
pub(crate) struct Status(pub(crate) ExitStatus);

impl From<i32> for Status {
    fn from(raw: i32) -> Status {
        Status(ExitStatus::from_raw(raw))
    }
}

impl From<Status> for i32 {
    fn from(status: Status) -> i32 {
        status.0.into_raw()
    }
}
