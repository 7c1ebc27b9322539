// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversion of C arguments to the types of the operations.

use std::ffi::c_void;
use std::mem::offset_of;
use std::slice;

use selvedge_messages::pieces::RemoteRange;

use crate::ffi::{fi_msg, fi_msg_tagged, fi_rma_iov, iovec};
use crate::info::IOV_LIMIT;

/// A buffer as one piece.
#[inline(always)]
pub fn piece(buf: *const c_void, len: usize) -> [iovec; 1] {
    [iovec { iov_base: buf.cast_mut(), iov_len: len }]
}

/// An array of pieces. `None`: it is too long, or null.
///
/// # Safety
/// `start` is null or an array of `count` elements, which lives as long as the result.
#[inline(always)]
pub unsafe fn array<'a, T>(start: *const T, count: usize) -> Option<&'a [T]> {
    match count {
        0 => Some(&[]),
        // SAFETY: the program's array has `count` elements and stays for the call, by this function's contract.
        _ if count <= IOV_LIMIT && !start.is_null() => Some(unsafe { slice::from_raw_parts(start, count) }),
        _ => None,
    }
}

/// Converts an untagged message's description to a tagged one.
pub fn tagged_form(msg: &fi_msg) -> fi_msg_tagged {
    fi_msg_tagged {
        msg_iov: msg.msg_iov,
        desc: msg.desc,
        iov_count: msg.iov_count,
        addr: msg.addr,
        tag: 0,
        ignore: 0,
        context: msg.context,
        data: msg.data,
    }
}

const _: () = assert!(
    size_of::<fi_rma_iov>() == size_of::<RemoteRange>()
        && offset_of!(fi_rma_iov, addr) == offset_of!(RemoteRange, offset)
        && offset_of!(fi_rma_iov, len) == offset_of!(RemoteRange, length)
        && offset_of!(fi_rma_iov, key) == offset_of!(RemoteRange, key)
);

/// Converts ranges of a peer's memory to the transport's type.
pub fn ranges(remote: &[fi_rma_iov]) -> &[RemoteRange] {
    // SAFETY: both structures have the same layout, as asserted above.
    unsafe { slice::from_raw_parts(remote.as_ptr().cast(), remote.len()) }
}
