// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls of libfabric's tables of functions.

use selvedge_libfabric::fid;

/// Calls a function of a table of libfabric. A provider that leaves it out answers -FI_ENOSYS.
macro_rules! call {
    ($function:expr, $($argument:expr),* $(,)?) => {
        match $function {
            Some(function) => function($($argument),*),
            None => -(selvedge_libfabric::FI_ENOSYS as std::ffi::c_int) as _,
        }
    };
}
pub(super) use call;

/// Closes an object of libfabric, if there is one.
///
/// # Safety
/// It is null, or an open object that begins with a `fid`.
pub(super) unsafe fn close(object: *mut fid) {
    // SAFETY: the caller's.
    unsafe {
        if !object.is_null() {
            call!((*(*object).ops).close, object);
        }
    }
}
