// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory in several pieces.

use libc::iovec;

/// A range of a peer's registered memory. It has the layout of libfabric's `fi_rma_iov`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RemoteRange {
    /// Offset into the region.
    pub offset: u64,
    pub length: usize,
    pub key: u64,
}

/// The number of bytes in all pieces.
#[inline]
pub fn total(pieces: &[iovec]) -> usize {
    pieces.iter().map(|piece| piece.iov_len).sum()
}

/// Copies all pieces, in order, to one buffer.
///
/// # Safety
/// The pieces are readable, and `to` has room for all of them.
#[inline(always)]
pub unsafe fn gather(pieces: &[iovec], to: *mut u8) {
    let mut at = to;
    for piece in pieces {
        // SAFETY: by this function's contract the pieces are readable, and `to` has room for all of them.
        unsafe {
            std::ptr::copy_nonoverlapping(piece.iov_base.cast::<u8>(), at, piece.iov_len);
            at = at.add(piece.iov_len);
        }
    }
}

/// Copies bytes to the pieces, in order, until the bytes or the pieces end.
///
/// # Safety
/// `from` is readable for `bytes` bytes, and the pieces are writable.
pub unsafe fn scatter(from: *const u8, bytes: usize, pieces: &[iovec]) {
    let mut done = 0;
    for piece in pieces {
        let length = piece.iov_len.min(bytes - done);
        // SAFETY: by this function's contract `from` is readable for `bytes` bytes and the pieces are writable.
        // `length` is at most the bytes left in `from`, and at most the length of this piece.
        unsafe { std::ptr::copy_nonoverlapping(from.add(done), piece.iov_base.cast::<u8>(), length) };
        done += length;
    }
}

/// Visits the ranges that local and remote pieces have in common. The arguments are the local address, the remote
/// address, the key, the bytes, and whether more ranges follow. There is at least one visit, even for no bytes.
pub(crate) fn each_common(
    pieces: &[iovec],
    remote: &[RemoteRange],
    mut visit: impl FnMut(u64, u64, u64, u64, bool) -> bool,
) {
    let (mut here, mut at_here) = (0, 0);
    let mut left = total(pieces);
    for there in remote {
        let mut at = 0;
        while at < there.length {
            while here < pieces.len() && at_here == pieces[here].iov_len {
                (here, at_here) = (here + 1, 0);
            }
            let Some(piece) = pieces.get(here) else { return };
            let bytes = (piece.iov_len - at_here).min(there.length - at);
            left -= bytes;
            let (from, to) = (piece.iov_base as u64 + at_here as u64, there.offset + at as u64);
            if !visit(from, to, there.key, bytes as u64, left != 0) || left == 0 {
                return;
            }
            at += bytes;
            at_here += bytes;
        }
    }
    if let Some(there) = remote.first() {
        visit(0, there.offset, there.key, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces_of(memory: &mut [u8], lengths: &[usize]) -> Vec<iovec> {
        let mut at = memory.as_mut_ptr();
        let piece = |&iov_len: &usize| {
            let piece = iovec { iov_base: at.cast(), iov_len };
            at = at.wrapping_add(iov_len);
            piece
        };
        lengths.iter().map(piece).collect()
    }

    #[test]
    fn what_is_scattered_is_gathered_again() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut memory = vec![0u8; 100];
        let pieces = pieces_of(&mut memory, &[0, 1, 40, 0, 59]);
        assert_eq!(total(&pieces), 100);
        let mut copy = vec![0u8; 100];
        // SAFETY: the pieces and the buffers have 100 bytes each.
        unsafe {
            scatter(bytes.as_ptr(), 100, &pieces);
            gather(&pieces, copy.as_mut_ptr());
        }
        assert_eq!(copy, bytes);
    }

    #[test]
    fn scattering_ends_with_the_bytes_or_the_pieces() {
        let bytes = [1u8; 10];
        let mut memory = vec![0u8; 8];
        let pieces = pieces_of(&mut memory, &[3, 3]);
        // SAFETY: the source has as many bytes as given, and the pieces are in `memory`.
        unsafe { scatter(bytes.as_ptr(), 4, &pieces) };
        assert_eq!(memory, [1, 1, 1, 1, 0, 0, 0, 0]);
        let pieces = pieces_of(&mut memory, &[3, 3]);
        // SAFETY: the source has as many bytes as given, and the pieces are in `memory`.
        unsafe { scatter(bytes.as_ptr(), 10, &pieces) };
        assert_eq!(memory, [1, 1, 1, 1, 1, 1, 0, 0]);
    }
}
