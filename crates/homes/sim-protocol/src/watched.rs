// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The descriptors whose readiness ends a thread's wait.
//!
//! Another thread of the process can look whether they are ready, and so knows that the waiting thread is asleep without
//! reading its state in `/proc`. Looking takes nothing from the descriptors: a waiting thread takes its event only when
//! its slot says that it is awake ([`crate::page::place`]).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use selvedge_os::raw;

/// Descriptors of a wait that are kept. A wait for more is [`Watched::UNKNOWN`].
pub const WATCHED: usize = 2;

/// No descriptor at this place.
const NONE: u64 = 0;
/// In the first place: the wait has other descriptors, or another cause.
const OTHERS: u64 = u64::MAX;

/// The descriptors whose readiness ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched([u64; WATCHED]);

impl Watched {
    /// Nothing but time, a signal or a word ends the wait.
    pub const NOTHING: Watched = Watched([NONE; WATCHED]);
    /// Others may not look for the event.
    pub const UNKNOWN: Watched = Watched([OTHERS; WATCHED]);

    /// A wait for these descriptors, with the events of `poll`. Negative descriptors are left out, as there.
    pub fn of(descriptors: impl Iterator<Item = (i32, i16)>) -> Watched {
        let mut words = [NONE; WATCHED];
        let used = descriptors.filter(|(fd, _)| *fd >= 0);
        for (at, (fd, events)) in used.enumerate() {
            let Some(word) = words.get_mut(at) else { return Watched::UNKNOWN };
            *word = u64::from(fd as u32 + 1) | u64::from(events as u16) << 32;
        }
        Watched(words)
    }

    pub(crate) fn store(self, into: &[AtomicU64; WATCHED]) {
        for (word, value) in into.iter().zip(self.0) {
            word.store(value, Relaxed);
        }
    }

    pub(crate) fn load(from: &[AtomicU64; WATCHED]) -> Watched {
        Watched(std::array::from_fn(|at| from[at].load(Relaxed)))
    }

    pub(crate) fn is_known(self) -> bool {
        self.0[0] != OTHERS
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Watched::NOTHING
    }

    /// Whether a descriptor is ready, or becomes ready within this real time. An error counts as ready: the thread finds
    /// it, too.
    pub(crate) fn are_ready(self, limit_ns: u32) -> bool {
        let unused = libc::pollfd { fd: -1, events: 0, revents: 0 };
        let mut polled = [unused; WATCHED];
        for (polled, word) in polled.iter_mut().zip(self.0).filter(|(_, word)| *word != NONE) {
            (polled.fd, polled.events) = ((word as u32).wrapping_sub(1) as i32, (word >> 32) as u16 as i16);
        }
        let limit = libc::timespec { tv_sec: 0, tv_nsec: limit_ns.min(999_999_999).into() };
        let arguments = [polled.as_mut_ptr() as usize, WATCHED, (&raw const limit) as usize, 0, 0, 0];
        // SAFETY: the kernel writes `WATCHED` structures at `polled` and reads the limit, which live across the call.
        let result = unsafe { raw::call(libc::SYS_ppoll, arguments) };
        result != 0 && result != -(libc::EINTR as isize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_kept_or_the_wait_is_unknown() {
        let mut ends = [0; 2];
        // SAFETY: `pipe` fills two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let watched = Watched::of([(-1, libc::POLLIN), (ends[0], libc::POLLIN)].into_iter());
        let words = [const { AtomicU64::new(7) }; WATCHED];
        watched.store(&words);
        assert_eq!(Watched::load(&words), watched);
        assert!(watched.is_known() && !watched.is_empty() && !watched.are_ready(0) && !watched.are_ready(1000));
        // SAFETY: the byte lives across the call, and the descriptor is ours.
        unsafe { libc::write(ends[1], [1u8].as_ptr().cast(), 1) };
        assert!(watched.are_ready(0) && watched.are_ready(0), "looking takes nothing");
        assert_eq!(Watched::of([(0, 1), (1, 1), (2, 1)].into_iter()), Watched::UNKNOWN);
        assert!(!Watched::UNKNOWN.is_known() && Watched::of(std::iter::empty()).is_empty());
        // SAFETY: both descriptors are ours.
        ends.into_iter().for_each(|end| assert_eq!(unsafe { libc::close(end) }, 0));
        assert!(watched.are_ready(0), "a closed descriptor ends a wait");
    }
}
