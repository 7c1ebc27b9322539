// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptors to wait for, each with its source.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Descriptors to wait for. `S`: the source of an event, which handles it.
pub(super) struct PollSet<'fd, S> {
    sources: Vec<S>,
    polled: Vec<PollFd<'fd>>,
}

impl<S> Default for PollSet<'_, S> {
    fn default() -> Self {
        PollSet { sources: Vec::new(), polled: Vec::new() }
    }
}

impl<'fd, S> PollSet<'fd, S> {
    pub(super) fn add(&mut self, source: S, fd: BorrowedFd<'fd>, flags: PollFlags) {
        self.sources.push(source);
        self.polled.push(PollFd::from_borrowed_fd(fd, flags));
    }

    /// Waits for an event, until this time. Returns the sources with an event, in the order in which they were added.
    /// Returns none after the time has come or a signal has interrupted the wait.
    pub(super) fn wait(mut self, until: Option<Instant>) -> io::Result<Vec<(S, PollFlags)>> {
        match poll(&mut self.polled, until.map(time_until).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = self.sources.into_iter().zip(self.polled.iter().map(PollFd::revents));
        Ok(ready.filter(|(_, flags)| !flags.is_empty()).collect())
    }
}

/// The time to wait until then. Rounded up to a millisecond, because waking too early would only mean waiting again.
pub(super) fn time_until(when: Instant) -> Timespec {
    let wait = when.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    Timespec { tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(wait.subsec_nanos()) }
}
