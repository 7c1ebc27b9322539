// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces `mca_btl_ofi_acswap`, the compare-and-swap of Open MPI's component btl/ofi.
//!
//! `MPI_Compare_and_swap` on the own part of a window: if all ranks are on one host, Open MPI 4.1 (before 4.1.5) calls
//! this function with an address of the own process and without a registration, which the component reads. So the
//! program crashes, with any transport. Such a swap is carried out here. All others are the component's.
//!
//! The component's own reference to the function goes through the loader, which prefers a preloaded library.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use selvedge_os::library;

/// `mca_btl_base_rdma_completion_fn_t`. It is only passed on.
type Completion = Option<unsafe extern "C" fn()>;
type Swap = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *mut c_void,
    u64,
    *mut c_void,
    *mut c_void,
    u64,
    u64,
    c_int,
    c_int,
    Completion,
    *mut c_void,
    *mut c_void,
) -> c_int;

/// `MCA_BTL_ATOMIC_FLAG_32BIT`
const IS_32_BIT: c_int = 1;
/// The operation has ended, and the completion function is not called.
const COMPLETE: c_int = 1;
/// `OPAL_ERR_NOT_SUPPORTED`
const NOT_SUPPORTED: c_int = -8;

/// Compares and swaps a word of this process, and stores the old value at `result`.
///
/// # Safety
/// `address` and `result` are aligned words of 4 or 8 bytes, as the flags say.
unsafe fn swap_here(result: *mut c_void, address: u64, compare: u64, value: u64, flags: c_int) {
    // SAFETY: by this function's contract. The window is memory of this process.
    unsafe {
        if flags & IS_32_BIT == 0 {
            let word = AtomicU64::from_ptr(address as *mut u64);
            let (Ok(old) | Err(old)) = word.compare_exchange(compare, value, SeqCst, SeqCst);
            result.cast::<u64>().write(old);
        } else {
            let word = AtomicU32::from_ptr(address as *mut u32);
            let (Ok(old) | Err(old)) = word.compare_exchange(compare as u32, value as u32, SeqCst, SeqCst);
            result.cast::<u32>().write(old);
        }
    }
}

/// `mca_btl_base_module_atomic_cswap64_fn_t` (`opal/mca/btl/btl.h`).
///
/// # Safety
/// The arguments are those of Open MPI's interface. Without a `registration` the address is one of this process.
#[allow(clippy::too_many_arguments)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mca_btl_ofi_acswap(
    module: *mut c_void,
    endpoint: *mut c_void,
    result: *mut c_void,
    address: u64,
    result_registration: *mut c_void,
    registration: *mut c_void,
    compare: u64,
    value: u64,
    flags: c_int,
    order: c_int,
    completion: Completion,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if registration.is_null() {
        // SAFETY: by this function's contract; MPI requires aligned words.
        unsafe { swap_here(result, address, compare, value, flags) };
        return COMPLETE;
    }
    let mut next = NEXT.load(Relaxed);
    if next.is_null() {
        let Some(found) = library::next(c"mca_btl_ofi_acswap", [c"mca_btl_ofi.so"].into_iter()) else {
            return NOT_SUPPORTED;
        };
        next = found;
        NEXT.store(next, Relaxed);
    }
    // SAFETY: the component's function of this name has this type, and the arguments are the caller's.
    unsafe {
        std::mem::transmute::<*mut c_void, Swap>(next)(
            module,
            endpoint,
            result,
            address,
            result_registration,
            registration,
            compare,
            value,
            flags,
            order,
            completion,
            context,
            data,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Swaps without a registration; returns the old value.
    fn swapped<W: Copy>(word: &mut W, old: W, compare: u64, value: u64, flags: c_int) -> W {
        let (mut old, null) = (old, std::ptr::null_mut());
        // SAFETY: both are words of the length that the flags give.
        let code = unsafe {
            let (result, address) = ((&raw mut old).cast(), &raw mut *word as u64);
            mca_btl_ofi_acswap(null, null, result, address, null, null, compare, value, flags, 0, None, null, null)
        };
        assert_eq!(code, COMPLETE);
        old
    }

    #[test]
    fn words_of_this_process_are_swapped_here() {
        let mut word = 7u64 << 40;
        assert_eq!(swapped(&mut word, 0, 3, 4, 0), 7 << 40);
        assert_eq!(swapped(&mut word, 0, 7 << 40, 4, 0), 7 << 40);
        assert_eq!(word, 4);
        let mut words = [1u32, 2];
        assert_eq!(swapped(&mut words[0], 0, u64::from(u32::MAX) << 32 | 1, 9, IS_32_BIT), 1);
        assert_eq!(words, [9, 2]);
    }
}
