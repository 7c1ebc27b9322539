// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of sealed memory files ([`selvedge_os::shared::sealed`]) that have memory, and private copies of them.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::SeekFrom;
use selvedge_os::program::make_private;

/// Replaces pages at `start`, which map the file from `offset` on, by a private copy, in a forked child. Pages without
/// memory in the file have none in the copy. Returns false if out of memory.
///
/// # Safety
/// The requirements of [`make_private`].
pub unsafe fn copy_private(file: BorrowedFd, offset: u64, start: *mut u8, bytes: u64) -> bool {
    let parts = parts(file, offset..offset + bytes);
    let parts = parts.map(|part| (part.start - offset) as usize..(part.end - offset) as usize);
    // SAFETY: this function has the same requirements as `make_private`, and the parts lie within the range.
    unsafe { make_private(start, bytes as usize, parts) }
}

/// The parts of a range that have memory, in order; the others read as zeros.
fn parts(file: BorrowedFd, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let from = match rustix::fs::seek(file.as_fd(), SeekFrom::Data(at)) {
            Ok(from) => from,
            Err(rustix::io::Errno::NXIO) => range.end,
            // The kernel does not support the query, so all of the range counts as data.
            Err(_) => at,
        };
        let end = rustix::fs::seek(file.as_fd(), SeekFrom::Hole(from)).unwrap_or(range.end).min(range.end);
        at = end;
        (from < end).then_some(from..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_os::shared::sealed;

    #[test]
    fn parts_without_memory_are_left_out() {
        const PAGE: u64 = 4096;
        let file = sealed(c"parts", 64 * PAGE).unwrap();
        for page in [0, 3, 4, 40, 63] {
            rustix::io::pwrite(&file, &[1], page * PAGE).unwrap();
        }
        let found = |pages: Range<u64>| -> Vec<(u64, u64)> {
            let parts = parts(file.as_fd(), pages.start * PAGE..pages.end * PAGE);
            parts.map(|part| (part.start / PAGE, part.end / PAGE)).collect()
        };
        assert_eq!(found(0..64), [(0, 1), (3, 5), (40, 41), (63, 64)]);
        assert_eq!(found(4..40), [(4, 5)]);
        assert_eq!(found(1..3), []);
        assert_eq!(found(41..63), []);
        assert_eq!(found(5..5), []);
    }
}
