// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces the atomics of Open MPI's component btl/ofi where osc/rdma of Open MPI 4.1 uses them wrongly.
//!
//! 1. `MPI_Compare_and_swap` on memory of this process: if all ranks are on one host, Open MPI before 4.1.5 calls
//!    `mca_btl_ofi_acswap` with an address of the own process and without a registration, which the component reads. So
//!    the program crashes, with any transport. Such a swap is carried out here.
//! 2. In dynamic windows between hosts, Open MPI 4.1.4 takes the lock of the target's regions, and then a share of the
//!    same lock, for which it waits for ever. Such a share is granted at once, and its return is left out.
//! 3. The component ends the process when an operation is neither an addition nor a swap (`MPI_MAX`, for one). Here it is
//!    refused, and Open MPI reads, computes and writes under a lock.
//!
//! All other operations are the component's.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use selvedge_os::caller::callers;
use selvedge_os::library;

/// `mca_btl_base_rdma_completion_fn_t`: module, endpoint, result and its registration, context, data, status.
type Completion =
    Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void, *mut c_void, *mut c_void, c_int)>;
/// `mca_btl_base_module_atomic_cswap64_fn_t` (`opal/mca/btl/btl.h`): module, endpoint, result, address, registrations of
/// both, old and new value, flags, order, completion, context, data.
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
/// `mca_btl_base_module_atomic_fop64_fn_t`: as for a swap, with an operation and its operand for the values.
type Fetch = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *mut c_void,
    u64,
    *mut c_void,
    *mut c_void,
    c_int,
    u64,
    c_int,
    c_int,
    Completion,
    *mut c_void,
    *mut c_void,
) -> c_int;
/// `mca_btl_base_module_atomic_op64_fn_t`: the same without a result.
type Atomic = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    u64,
    *mut c_void,
    c_int,
    u64,
    c_int,
    c_int,
    Completion,
    *mut c_void,
    *mut c_void,
) -> c_int;

/// `MCA_BTL_ATOMIC_FLAG_32BIT`
const IS_32_BIT: c_int = 1;
/// `MCA_BTL_ATOMIC_ADD`
const ADD: c_int = 1;
/// `MCA_BTL_ATOMIC_SWAP`
const SWAP: c_int = 0x1a;
/// `OPAL_SUCCESS`
const SUCCESS: c_int = 0;
/// `OPAL_ERR_NOT_SUPPORTED`
const NOT_SUPPORTED: c_int = -8;
/// `OMPI_OSC_RDMA_LOCK_EXCLUSIVE`: the value of a lock that is taken.
const TAKEN: u64 = 1 << 63;

/// A word of another process: endpoint and address.
type Place = (*mut c_void, u64);

thread_local! {
    /// The lock that this thread was the last to try to take.
    static LOCK: Cell<Option<Place>> = const { Cell::new(None) };
    /// The lock of which this thread has a share that was granted here.
    static SHARE: Cell<Option<Place>> = const { Cell::new(None) };
}

/// A function of the component, which the first call looks up.
struct Component {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Component {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    fn find(&self) -> Option<*mut c_void> {
        let mut found = self.found.load(Relaxed);
        if found.is_null() {
            found = library::next(self.name, [c"mca_btl_ofi.so"].into_iter())?;
            self.found.store(found, Relaxed);
        }
        Some(found)
    }
}

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

/// Compares and swaps a word.
///
/// # Safety
/// The arguments are those of Open MPI's interface. Without a `registration` the address is one of this process.
#[allow(clippy::too_many_arguments)]
#[unsafe(no_mangle)]
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
    static COMPONENT: Component = Component::new(c"mca_btl_ofi_acswap");
    if registration.is_null() {
        // SAFETY: by this function's contract; MPI requires aligned words. Open MPI allows the completion before the
        // return. It then copies as many bytes as the flags say. With the result for operations that have no completion
        // it would copy 8, and overwrite what lies behind a program's result of 4.
        unsafe {
            swap_here(result, address, compare, value, flags);
            if let Some(complete) = completion {
                complete(module, endpoint, result, result_registration, context, data, SUCCESS);
            }
        }
        return SUCCESS;
    }
    if (compare, value) == (0, TAKEN) {
        LOCK.set(Some((endpoint, address)));
    }
    let Some(function) = COMPONENT.find() else { return NOT_SUPPORTED };
    // SAFETY: the component's function of this name has this type, and the arguments are the caller's.
    unsafe {
        let swap = std::mem::transmute::<*mut c_void, Swap>(function);
        swap(
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

/// Whether an operation takes a share of the lock that this thread has taken. Open MPI tries until it has a lock, so the
/// last one that it tried to take is taken. A program's own operation comes from another function.
fn is_share_of_own_lock(place: Place, operation: c_int, operand: u64, flags: c_int) -> bool {
    (operation, operand, flags & IS_32_BIT) == (ADD, 1, 0)
        && LOCK.get() == Some(place)
        && callers().iter().flatten().any(|caller| caller.function() == b"ompi_osc_rdma_find_dynamic_region")
}

/// Carries out an operation on a word, and fetches the old value.
///
/// # Safety
/// The arguments are those of Open MPI's interface.
#[allow(clippy::too_many_arguments)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mca_btl_ofi_afop(
    module: *mut c_void,
    endpoint: *mut c_void,
    result: *mut c_void,
    address: u64,
    result_registration: *mut c_void,
    registration: *mut c_void,
    operation: c_int,
    operand: u64,
    flags: c_int,
    order: c_int,
    completion: Completion,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    static COMPONENT: Component = Component::new(c"mca_btl_ofi_afop");
    if !matches!(operation, ADD | SWAP) {
        return NOT_SUPPORTED;
    }
    let place = (endpoint, address);
    if is_share_of_own_lock(place, operation, operand, flags) {
        SHARE.set(Some(place));
        // SAFETY: by this function's contract, the result has 8 bytes. A zero means that the lock is free.
        unsafe {
            result.cast::<u64>().write(0);
            if let Some(complete) = completion {
                complete(module, endpoint, result, result_registration, context, data, SUCCESS);
            }
        }
        return SUCCESS;
    }
    let Some(function) = COMPONENT.find() else { return NOT_SUPPORTED };
    // SAFETY: the component's function of this name has this type, and the arguments are the caller's.
    unsafe {
        let fetch = std::mem::transmute::<*mut c_void, Fetch>(function);
        fetch(
            module,
            endpoint,
            result,
            address,
            result_registration,
            registration,
            operation,
            operand,
            flags,
            order,
            completion,
            context,
            data,
        )
    }
}

/// Carries out an operation on a word.
///
/// # Safety
/// The arguments are those of Open MPI's interface.
#[allow(clippy::too_many_arguments)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mca_btl_ofi_aop(
    module: *mut c_void,
    endpoint: *mut c_void,
    address: u64,
    registration: *mut c_void,
    operation: c_int,
    operand: u64,
    flags: c_int,
    order: c_int,
    completion: Completion,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    static COMPONENT: Component = Component::new(c"mca_btl_ofi_aop");
    if !matches!(operation, ADD | SWAP) {
        return NOT_SUPPORTED;
    }
    let place = Some((endpoint, address));
    if SHARE.get() == place && (operation, operand) == (ADD, u64::MAX) {
        SHARE.set(None);
        if let Some(complete) = completion {
            // SAFETY: Open MPI allows the completion before the return.
            unsafe { complete(module, endpoint, ptr::null_mut(), ptr::null_mut(), context, data, SUCCESS) };
        }
        return SUCCESS;
    }
    if LOCK.get() == place && (operation, operand) == (ADD, TAKEN) {
        LOCK.set(None);
    }
    let Some(function) = COMPONENT.find() else { return NOT_SUPPORTED };
    // SAFETY: the component's function of this name has this type, and the arguments are the caller's.
    unsafe {
        let atomic = std::mem::transmute::<*mut c_void, Atomic>(function);
        atomic(module, endpoint, address, registration, operation, operand, flags, order, completion, context, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COMPLETED: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn complete(
        _: *mut c_void,
        _: *mut c_void,
        result: *mut c_void,
        _: *mut c_void,
        context: *mut c_void,
        _: *mut c_void,
        status: c_int,
    ) {
        assert_eq!((result, status), (context, SUCCESS), "the context of this test is the place of the result");
        COMPLETED.fetch_add(1, Relaxed);
    }

    /// Swaps without a registration; returns the old value.
    fn swapped<W: Copy>(word: &mut W, old: W, compare: u64, value: u64, flags: c_int) -> W {
        let (mut old, null, before) = (old, ptr::null_mut(), COMPLETED.load(Relaxed));
        // SAFETY: both are words of the length that the flags give.
        let code = unsafe {
            let (result, address) = ((&raw mut old).cast(), &raw mut *word as u64);
            let complete: Completion = Some(complete);
            mca_btl_ofi_acswap(
                null, null, result, address, null, null, compare, value, flags, 0, complete, result, null,
            )
        };
        assert_eq!((code, COMPLETED.load(Relaxed)), (SUCCESS, before + 1));
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

    #[test]
    fn operations_that_the_component_does_not_have_are_refused() {
        const MAX: c_int = 0x21;
        let null = ptr::null_mut();
        // SAFETY: a refused operation uses none of its arguments.
        let codes = unsafe {
            [
                mca_btl_ofi_afop(null, null, null, 0, null, null, MAX, 1, 0, 0, None, null, null),
                mca_btl_ofi_aop(null, null, 0, null, MAX, 1, 0, 0, None, null, null),
            ]
        };
        assert_eq!(codes, [NOT_SUPPORTED; 2]);
    }

    #[test]
    fn shares_for_other_functions_are_the_components() {
        let place = (ptr::null_mut(), 64);
        LOCK.set(Some(place));
        assert!(!is_share_of_own_lock(place, ADD, 1, 0), "the caller is this test");
    }
}
