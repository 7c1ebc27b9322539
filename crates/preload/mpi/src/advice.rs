// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces `madvise` for memory that this library shares: it behaves as private, anonymous memory does (madvise(2)).
//!
//! The kernel's own behaviour is that of a file: after `MADV_DONTNEED` the file's contents come back, and `MADV_FREE` and
//! `MADV_WIPEONFORK` are refused.
//!
//! Invariants
//! 1. `MADV_DONTNEED` and `MADV_FREE` punch holes into the file: pages read as zeros, here and at peers, and their memory
//!    is free.
//! 2. A page with `MADV_WIPEONFORK` is zero in forked children, until `MADV_KEEPONFORK` or the end of its block.
//! 3. Other advice, other memory, and the memory of a forked child go to the kernel unchanged.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use selvedge_os::raw;

use crate::altered::Place;
use crate::mappings::{MADVISE, pages, punch, shared_parts};
use crate::pool::POOL;
use crate::process::keeping_errno;

/// `MADV_DONTNEED_LOCKED`, which the `libc` crate does not have.
const DONTNEED_LOCKED: c_int = 24;

/// Splits a range at the ends of the shared parts, which are in ascending order or not.
fn split(range: Range<u64>, shared: &[(Range<u64>, Place)]) -> impl Iterator<Item = (Range<u64>, Option<Place>)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let here = shared.iter().find(|(part, _)| part.contains(&at));
        let next = shared.iter().map(|(part, _)| part.start).filter(|start| *start > at).min();
        let end = here.map_or(next.unwrap_or(range.end), |(part, _)| part.end);
        let part = at..end;
        at = end;
        (part.start < part.end).then_some((part, here.map(|(_, place)| *place)))
    })
}

/// Follows advice for one shared part. Returns the kernel's result.
///
/// # Safety
/// The requirements of `madvise`.
unsafe fn advise_shared(part: &Range<u64>, place: &Place, advice: c_int) -> isize {
    let bytes = part.end - part.start;
    // SAFETY: this function has the requirements of `madvise`. The kernel checks the range and the advice.
    let kernel = |advice| unsafe { raw::madvise(part.start, bytes, advice) };
    match advice {
        libc::MADV_WIPEONFORK | libc::MADV_KEEPONFORK => {
            let checked = kernel(libc::MADV_KEEPONFORK);
            if checked == 0 {
                POOL.alter(|altered| match advice {
                    libc::MADV_WIPEONFORK => altered.wiped.add(part.clone()),
                    _ => altered.wiped.remove(part),
                });
            }
            checked
        }
        libc::MADV_DONTNEED | DONTNEED_LOCKED | libc::MADV_FREE => {
            let dropped = kernel(if advice == libc::MADV_FREE { libc::MADV_DONTNEED } else { advice });
            // ENOMEM: it has dropped those pages that are mapped.
            if dropped != 0 && dropped != -(libc::ENOMEM as isize) {
                return dropped;
            }
            match punch(place.file_at(part.start), bytes) {
                0 => dropped,
                failed => failed,
            }
        }
        // Only for memory of a file.
        libc::MADV_REMOVE => -(libc::EINVAL as isize),
        _ => {
            if matches!(advice, libc::MADV_DONTFORK | libc::MADV_DONTDUMP | libc::MADV_RANDOM | libc::MADV_SEQUENTIAL) {
                POOL.alter(|altered| altered.change(part.clone()));
            }
            kernel(advice)
        }
    }
}

/// Follows advice as the kernel does: all parts. Returns 0, or -1 with the first error. `call` makes the call that the
/// program has made, where it concerns other memory only.
///
/// # Safety
/// The requirements of `madvise`.
pub unsafe fn advise(start: usize, bytes: usize, advice: c_int, call: impl FnOnce() -> isize) -> isize {
    let range = pages(start, bytes);
    let mut shared = shared_parts(&range);
    let (Some(first), second) = (shared.next(), shared.next()) else { return call() };
    let shared = [first.clone(), second.unwrap_or(first)];
    let mut result = 0;
    for (part, place) in split(range, &shared) {
        let followed = match place {
            // SAFETY: this function has the requirements of `advise_shared`.
            Some(place) => keeping_errno(|| unsafe { advise_shared(&part, &place, advice) }),
            // SAFETY: this function has the requirements of `madvise`.
            None => unsafe { raw::madvise(part.start, part.end - part.start, advice) },
        };
        if result == 0 {
            result = followed;
        }
    }
    raw::checked(result) as isize
}

/// POSIX has `posix_madvise` instead, whose advice never drops contents.
#[cfg_attr(test, allow(dead_code))]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    let words = [start as usize, bytes, advice as usize, 0, 0, 0];
    // SAFETY: this function has the contract of `madvise`.
    unsafe { advise(start as usize, bytes, advice, || MADVISE.call(words)) as c_int }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use selvedge_os::shared::{Lost, SharedRange};

    use super::*;

    #[test]
    fn ranges_are_split_at_the_ends_of_shared_ones() {
        static LOST: OnceLock<Lost> = OnceLock::new();
        // SAFETY: the record consists of numbers, for which zeros are values.
        let lost = LOST.get_or_init(|| unsafe { std::mem::zeroed() });
        let place = |descriptor| Place { range: SharedRange { descriptor, ..Default::default() }, lost };
        let found = |range: Range<u64>, shared: &[(Range<u64>, Place)]| -> Vec<(u64, u64, i32)> {
            let parts = split(range, shared);
            parts.map(|(part, place)| (part.start, part.end, place.map_or(0, |place| place.range.descriptor))).collect()
        };
        assert_eq!(found(0..100, &[]), [(0, 100, 0)]);
        assert_eq!(found(120..130, &[(120..130, place(7))]), [(120, 130, 7)]);
        let both = [(200..210, place(8)), (100..150, place(7))];
        assert_eq!(found(90..300, &both), [(90, 100, 0), (100, 150, 7), (150, 200, 0), (200, 210, 8), (210, 300, 0)]);
        assert_eq!(found(5..5, &[]), []);
    }
}
