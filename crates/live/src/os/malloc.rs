// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where this process's large blocks of `malloc` are, if `libselvedge_rank.so` was put before the C library.

use std::mem::MaybeUninit;

/// A sealed file in memory that is mapped as a whole.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedMalloc {
    /// Where it is mapped in this process, and its bytes.
    pub base: u64,
    pub bytes: u64,
    pub descriptor: i32,
}

/// Asks that library. None: it is not there, or has no such memory.
pub fn shared() -> Option<SharedMalloc> {
    // SAFETY: a string that lives for ever.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"selvedge_shared_malloc".as_ptr()) };
    if found.is_null() {
        return None;
    }
    let mut shared = MaybeUninit::<SharedMalloc>::uninit();
    // SAFETY: the function of this name has this type (crates/rank), and has written when it gives 1.
    unsafe {
        let ask: unsafe extern "C" fn(*mut SharedMalloc) -> i32 = std::mem::transmute(found);
        (ask(shared.as_mut_ptr()) == 1).then(|| shared.assume_init())
    }
}
