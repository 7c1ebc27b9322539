// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory in several pieces.

use crate::ffi::iovec;

/// Bytes of all pieces.
#[inline]
pub fn total(pieces: &[iovec]) -> usize {
    pieces.iter().map(|piece| piece.iov_len).sum()
}

/// Copies pieces, one after the other, to where there is room for all of them.
///
/// # Safety
/// The pieces are readable, `to` has room for them.
#[inline(always)]
pub unsafe fn gather(pieces: &[iovec], to: *mut u8) {
    let mut at = to;
    for piece in pieces {
        // SAFETY: the pieces are the program's and hold their lengths, and the other range is as long as asked for, by this function's
        // contract.
        unsafe {
            std::ptr::copy_nonoverlapping(piece.iov_base.cast::<u8>(), at, piece.iov_len);
            at = at.add(piece.iov_len);
        }
    }
}

/// Copies bytes to pieces, one after the other, as far as either goes.
///
/// # Safety
/// `from` holds `bytes` bytes, the pieces are writable.
pub unsafe fn scatter(from: *const u8, bytes: usize, pieces: &[iovec]) {
    let mut done = 0;
    for piece in pieces {
        let length = piece.iov_len.min(bytes - done);
        // SAFETY: the pieces are the program's and hold their lengths, and the other range is as long as asked for, by this function's
        // contract.
        unsafe { std::ptr::copy_nonoverlapping(from.add(done), piece.iov_base.cast::<u8>(), length) };
        done += length;
    }
}
