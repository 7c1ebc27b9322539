// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Atomics on symmetric objects (OpenSHMEM 1.6, "Atomic Memory Operations", with their older names).
//!
//! On directly mapped memory, an atomic is the processor's own, followed by a wake-up if the peer sleeps. This is the
//! short path (`mapped.rs`); other cases go to a function named `.._general`. By commands, it is an atomic of the NIC,
//! under the lock of the target's NIC. All PEs reach an object in the same way, so one object never sees both kinds.
//!
//! Invariants
//! 1. An object is aligned to its size, or the call is refused: the processor's atomics need it.
//! 2. Floating point moves as bits. Integers wrap.
//! 3. An update releases earlier writes of the caller. A fetch acquires the writes released with the value.
//! 4. A refused fetching call returns 0. A refused non-blocking one does not write its result.
//! 5. Non-blocking calls are complete when they return, which the standard allows.
//!
//! Costs, on mapped memory: the checks of the arguments, one locked instruction (`fetch`: a load; `set`: a store), a
//! load of the peer's sleepers word, and a store to a counter of this PE. No system call, lock or allocation.

use std::ffi::c_int;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

use crate::world::peer::Counts;
use selvedge_process::nic::arithmetic::{Datatype, Operation};

use crate::check::{self, Call};
use crate::handles::Ctx;
use crate::mapped::{Mapped, find_mapped_word};
use crate::world::address::Reach;
use crate::world::{World, world};

/// Bits of 4 or 8 bytes, which the processor changes atomically.
///
/// # Safety
/// Of every function: `at` is aligned and may be read and written as an atomic of this size, by other processes too.
pub trait Word: Copy + 'static {
    unsafe fn load(at: *mut Self) -> Self;
    unsafe fn store(at: *mut Self, value: Self);
    unsafe fn swap(at: *mut Self, value: Self) -> Self;
    /// Returns the old value, whether or not it was `cond`.
    unsafe fn compare_swap(at: *mut Self, cond: Self, value: Self) -> Self;
    unsafe fn add(at: *mut Self, value: Self) -> Self;
    unsafe fn and(at: *mut Self, value: Self) -> Self;
    unsafe fn or(at: *mut Self, value: Self) -> Self;
    unsafe fn xor(at: *mut Self, value: Self) -> Self;
    /// Count an atomic without a result, one with its old value, and a load.
    fn count_update(counts: Counts);
    fn count_fetch(counts: Counts);
    fn count_load(counts: Counts);
}

macro_rules! word {
    ($($word:ty: $atomic:ty),*) => {$(
        impl Word for $word {
            #[inline(always)]
            unsafe fn load(at: *mut Self) -> Self {
                // SAFETY: the contract of the trait is that of `from_ptr`.
                unsafe { <$atomic>::from_ptr(at) }.load(Acquire)
            }
            #[inline(always)]
            unsafe fn store(at: *mut Self, value: Self) {
                // SAFETY: the contract of the trait is that of `from_ptr`.
                unsafe { <$atomic>::from_ptr(at) }.store(value, Release)
            }
            #[inline(always)]
            unsafe fn swap(at: *mut Self, value: Self) -> Self {
                // SAFETY: the contract of the trait is that of `from_ptr`.
                unsafe { <$atomic>::from_ptr(at) }.swap(value, AcqRel)
            }
            #[inline(always)]
            unsafe fn compare_swap(at: *mut Self, cond: Self, value: Self) -> Self {
                // SAFETY: the contract of the trait is that of `from_ptr`.
                match unsafe { <$atomic>::from_ptr(at) }.compare_exchange(cond, value, AcqRel, Acquire) {
                    Ok(old) | Err(old) => old,
                }
            }
            #[inline(always)]
            unsafe fn add(at: *mut Self, value: Self) -> Self {
                // SAFETY: the contract of the trait is that of `from_ptr`.
                unsafe { <$atomic>::from_ptr(at) }.fetch_add(value, AcqRel)
            }
            #[inline(always)]
            unsafe fn and(at: *mut Self, value: Self) -> Self {
                // SAFETY: the contract of the trait is that of `from_ptr`.
                unsafe { <$atomic>::from_ptr(at) }.fetch_and(value, AcqRel)
            }
            #[inline(always)]
            unsafe fn or(at: *mut Self, value: Self) -> Self {
                // SAFETY: the contract of the trait is that of `from_ptr`.
                unsafe { <$atomic>::from_ptr(at) }.fetch_or(value, AcqRel)
            }
            #[inline(always)]
            unsafe fn xor(at: *mut Self, value: Self) -> Self {
                // SAFETY: the contract of the trait is that of `from_ptr`.
                unsafe { <$atomic>::from_ptr(at) }.fetch_xor(value, AcqRel)
            }
            #[inline(always)]
            fn count_update(counts: Counts) {
                counts.update::<{ size_of::<$word>() }>();
            }
            #[inline(always)]
            fn count_fetch(counts: Counts) {
                counts.fetch::<{ size_of::<$word>() }>();
            }
            #[inline(always)]
            fn count_load(counts: Counts) {
                counts.load::<{ size_of::<$word>() }>();
            }
        }
    )*};
}
word!(u32: AtomicU32, u64: AtomicU64);

/// A type of the table "Extended AMO Types".
pub trait Atomic: Copy + 'static {
    type Word: Word;
    const DATATYPE: Datatype;
    const ZERO: Self;
    fn bits(self) -> Self::Word;
    fn from_bits(bits: Self::Word) -> Self;
}

/// A type of the tables "Standard AMO Types" and "Bitwise AMO Types".
pub trait Integer: Atomic {
    const ONE: Self;
}

macro_rules! integer {
    ($($integer:ty: $word:ty, $datatype:ident);*) => {$(
        impl Atomic for $integer {
            type Word = $word;
            const DATATYPE: Datatype = Datatype::$datatype;
            const ZERO: Self = 0;
            #[inline(always)]
            fn bits(self) -> $word { self as $word }
            #[inline(always)]
            fn from_bits(bits: $word) -> Self { bits as Self }
        }
        impl Integer for $integer {
            const ONE: Self = 1;
        }
    )*};
}
integer!(i32: u32, Int32; u32: u32, Uint32; i64: u64, Int64; u64: u64, Uint64);

macro_rules! real {
    ($($real:ty: $word:ty, $datatype:ident);*) => {$(
        impl Atomic for $real {
            type Word = $word;
            const DATATYPE: Datatype = Datatype::$datatype;
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn bits(self) -> $word { self.to_bits() }
            #[inline(always)]
            fn from_bits(bits: $word) -> Self { <$real>::from_bits(bits) }
        }
    )*};
}
real!(f32: u32, Float; f64: u64, Double);

/// An atomic with one operand: how the processor runs it, and its name in the NIC.
trait Update {
    const OPERATION: Operation;
    /// # Safety
    /// As [`Word`].
    unsafe fn run<W: Word>(at: *mut W, value: W) -> W;
}

macro_rules! update {
    ($($update:ident: $operation:ident, $run:ident);*) => {$(
        struct $update;
        impl Update for $update {
            const OPERATION: Operation = Operation::$operation;
            #[inline(always)]
            unsafe fn run<W: Word>(at: *mut W, value: W) -> W {
                // SAFETY: the contract of this function is that of `Word`.
                unsafe { W::$run(at, value) }
            }
        }
    )*};
}
update!(Swap: Swap, swap; Add: Sum, add; And: Band, and; Or: Bor, or; Xor: Bxor, xor);

/// A directly mapped object. `None`: the general path decides.
#[inline(always)]
fn find_mapped_object<T: Atomic>(ctx: Ctx, object: *const T, pe: c_int) -> Option<(*mut T::Word, Mapped)> {
    if !object.is_aligned() {
        return None;
    }
    find_mapped_word(ctx, object.cast(), size_of::<T>(), pe).map(|mapped| (mapped.at.cast(), mapped))
}

struct Target {
    world: &'static World,
    pe: usize,
    reach: Reach,
}

impl Target {
    fn of<T: Atomic>(call: Call, ctx: Ctx, argument: &'static str, object: *const T, pe: c_int) -> Option<Target> {
        let world = world(call)?;
        let pe = world.pe(call, ctx, pe)?;
        if !object.is_aligned() {
            misaligned(call, argument, object.cast(), size_of::<T>());
            return None;
        }
        let reach = world.reach(call, argument, object.cast(), size_of::<T>(), pe)?;
        Some(Target { world, pe, reach })
    }
}

/// Reports an object that is not aligned to its size.
#[cold]
pub(crate) fn misaligned(call: Call, argument: &'static str, object: *const u8, bytes: usize) {
    check::refuse(call, argument, format_args!("{object:p}: not aligned to the {bytes} bytes of its type"));
}

#[inline(always)]
unsafe fn update<T: Atomic, U: Update>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    match find_mapped_object(ctx, dest, pe) {
        Some((at, mapped)) => {
            // SAFETY: `find_mapped_object` has found an aligned, mapped object; all PEs change it by such atomics.
            unsafe { U::run(at, value.bits()) };
            mapped.wake();
            T::Word::count_update(mapped.counts());
        }
        None => update_general::<T, U>(call, ctx, dest, value, pe),
    }
}

#[cold]
#[inline(never)]
fn update_general<T: Atomic, U: Update>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    let Some(Target { world, pe, reach }) = Target::of(call, ctx, "dest", dest, pe) else { return };
    match reach {
        Reach::Mapped(at) => {
            // SAFETY: `Target::of` has found an aligned, mapped object; all PEs change it by such atomics.
            unsafe { U::run(at.cast::<T::Word>(), value.bits()) };
            world.wake(pe);
            T::Word::count_update(world.counts(pe));
        }
        Reach::Nic(remote) => {
            let operand = (&raw const value).cast();
            // SAFETY: the NIC has read the operand when the call returns. `Target::of` has checked the context.
            unsafe { world.nic_atomic(ctx, remote, U::OPERATION, T::DATATYPE, operand) };
        }
    }
}

#[inline(always)]
unsafe fn fetch_update<T: Atomic, U: Update>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) -> Option<T> {
    match find_mapped_object(ctx, dest, pe) {
        Some((at, mapped)) => {
            // SAFETY: `find_mapped_object` has found an aligned, mapped object; all PEs change it by such atomics.
            let old = unsafe { U::run(at, value.bits()) };
            mapped.wake();
            T::Word::count_fetch(mapped.counts());
            Some(T::from_bits(old))
        }
        None => {
            // SAFETY: `fetch_general` passes an aligned object of the word's size in mapped symmetric memory.
            let in_place = move |at| unsafe { U::run(at, value.bits()) };
            fetch_general(call, ctx, dest, pe, in_place, U::OPERATION, value, None)
        }
    }
}

#[inline(always)]
unsafe fn swap_if<T: Atomic>(call: Call, ctx: Ctx, dest: *mut T, cond: T, value: T, pe: c_int) -> Option<T> {
    match find_mapped_object(ctx, dest, pe) {
        Some((at, mapped)) => {
            // SAFETY: `find_mapped_object` has found an aligned, mapped object; all PEs change it by such atomics.
            let old = unsafe { T::Word::compare_swap(at, cond.bits(), value.bits()) };
            mapped.wake();
            T::Word::count_fetch(mapped.counts());
            Some(T::from_bits(old))
        }
        None => {
            // SAFETY: `fetch_general` passes an aligned object of the word's size in mapped symmetric memory.
            let in_place = move |at| unsafe { T::Word::compare_swap(at, cond.bits(), value.bits()) };
            fetch_general(call, ctx, dest, pe, in_place, Operation::CompareSwap, value, Some(cond))
        }
    }
}

/// Runs `in_place` on an aligned object of the word's size in mapped symmetric memory, or has the NIC do the same.
#[cold]
#[inline(never)]
fn fetch_general<T: Atomic>(
    call: Call,
    ctx: Ctx,
    dest: *mut T,
    pe: c_int,
    in_place: impl FnOnce(*mut T::Word) -> T::Word,
    operation: Operation,
    value: T,
    cond: Option<T>,
) -> Option<T> {
    let Target { world, pe, reach } = Target::of(call, ctx, "dest", dest, pe)?;
    match reach {
        Reach::Mapped(at) => {
            let old = in_place(at.cast());
            world.wake(pe);
            T::Word::count_fetch(world.counts(pe));
            Some(T::from_bits(old))
        }
        Reach::Nic(remote) => {
            let mut old = T::ZERO;
            let cond = cond.as_ref().map_or(null(), |cond| (&raw const *cond).cast());
            let (operand, into) = ((&raw const value).cast(), (&raw mut old).cast());
            // SAFETY: the command is complete when the call returns. `Target::of` has checked the context.
            unsafe { world.nic_fetch(ctx, remote, operation, T::DATATYPE, operand, cond, into) };
            Some(old)
        }
    }
}

#[inline(always)]
unsafe fn load<T: Atomic>(call: Call, ctx: Ctx, source: *const T, pe: c_int) -> Option<T> {
    match find_mapped_object(ctx, source, pe) {
        Some((at, mapped)) => {
            T::Word::count_load(mapped.counts());
            // SAFETY: `find_mapped_object` has found an aligned, mapped object; all PEs change it by such atomics.
            Some(T::from_bits(unsafe { T::Word::load(at) }))
        }
        None => load_general(call, ctx, source, pe),
    }
}

#[cold]
#[inline(never)]
fn load_general<T: Atomic>(call: Call, ctx: Ctx, source: *const T, pe: c_int) -> Option<T> {
    let Target { world, pe, reach } = Target::of(call, ctx, "source", source, pe)?;
    match reach {
        Reach::Mapped(at) => {
            T::Word::count_load(world.counts(pe));
            // SAFETY: `Target::of` has found an aligned, mapped object; all PEs change it by such atomics.
            Some(T::from_bits(unsafe { T::Word::load(at.cast()) }))
        }
        Reach::Nic(remote) => {
            let mut value = T::ZERO;
            // SAFETY: the result is on this stack, and the command is complete when the call returns. `Target::of` has
            // checked the context. A get holds the same lock as the NIC's atomics, so it never sees half of one.
            unsafe { world.nic_get(ctx, remote, (&raw mut value).cast(), size_of::<T>()) };
            Some(value)
        }
    }
}

#[cold]
#[inline(never)]
fn store_general<T: Atomic>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    let Some(Target { world, pe, reach }) = Target::of(call, ctx, "dest", dest, pe) else { return };
    match reach {
        Reach::Mapped(at) => {
            // SAFETY: `Target::of` has found an aligned, mapped object; all PEs change it by such atomics.
            unsafe { T::Word::store(at.cast(), value.bits()) };
            world.wake(pe);
            T::Word::count_update(world.counts(pe));
        }
        // SAFETY: the value is on this stack, and the NIC has read it when the call returns. `Target::of` has checked
        // the context. A put holds the same lock as the NIC's atomics.
        Reach::Nic(remote) => unsafe { world.nic_put(ctx, remote, (&raw const value).cast(), size_of::<T>()) },
    }
}

/// Writes the result of a non-blocking fetch.
#[inline(always)]
unsafe fn write_fetched<T: Atomic>(call: Call, fetch: *mut T, fetched: impl FnOnce() -> Option<T>) {
    if fetch.is_null() {
        check::refuse(call, "fetch", format_args!("null"));
    } else if let Some(value) = fetched() {
        // SAFETY: not null; by the fetches' clause `fetch` is an object for the result, perhaps misaligned.
        unsafe { fetch.write_unaligned(value) };
    }
}

/// `shmem_atomic_fetch`.
///
/// # Safety
/// Of all functions here: a `fetch` argument may be written. Everything else is checked.
#[inline(always)]
pub unsafe fn fetch<T: Atomic>(call: Call, ctx: Ctx, source: *const T, pe: c_int) -> T {
    // SAFETY: `load` checks all of its arguments.
    unsafe { load(call, ctx, source, pe) }.unwrap_or(T::ZERO)
}

/// `shmem_atomic_fetch_nbi`.
#[inline(always)]
pub unsafe fn fetch_nbi<T: Atomic>(call: Call, ctx: Ctx, fetch: *mut T, source: *const T, pe: c_int) {
    // SAFETY: the contract of this function lets it write `fetch`; everything else is checked.
    unsafe { write_fetched(call, fetch, || load(call, ctx, source, pe)) }
}

/// `shmem_atomic_set`.
#[inline(always)]
pub unsafe fn set<T: Atomic>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    match find_mapped_object(ctx, dest, pe) {
        Some((at, mapped)) => {
            // SAFETY: `find_mapped_object` has found an aligned, mapped object; all PEs change it by such atomics.
            unsafe { T::Word::store(at, value.bits()) };
            mapped.wake();
            T::Word::count_update(mapped.counts());
        }
        None => store_general(call, ctx, dest, value, pe),
    }
}

/// `shmem_atomic_compare_swap`.
#[inline(always)]
pub unsafe fn compare_swap<T: Integer>(call: Call, ctx: Ctx, dest: *mut T, cond: T, value: T, pe: c_int) -> T {
    // SAFETY: `swap_if` checks all of its arguments.
    unsafe { swap_if(call, ctx, dest, cond, value, pe) }.unwrap_or(T::ZERO)
}

/// `shmem_atomic_compare_swap_nbi`.
#[inline(always)]
pub unsafe fn compare_swap_nbi<T: Integer>(
    call: Call,
    ctx: Ctx,
    fetch: *mut T,
    dest: *mut T,
    cond: T,
    value: T,
    pe: c_int,
) {
    // SAFETY: the contract of this function lets it write `fetch`; everything else is checked.
    unsafe { write_fetched(call, fetch, || swap_if(call, ctx, dest, cond, value, pe)) }
}

/// `shmem_atomic_swap`.
#[inline(always)]
pub unsafe fn swap<T: Atomic>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) -> T {
    // SAFETY: `fetch_update` checks all of its arguments.
    unsafe { fetch_update::<T, Swap>(call, ctx, dest, value, pe) }.unwrap_or(T::ZERO)
}

/// `shmem_atomic_swap_nbi`.
#[inline(always)]
pub unsafe fn swap_nbi<T: Atomic>(call: Call, ctx: Ctx, fetch: *mut T, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the contract of this function lets it write `fetch`; everything else is checked.
    unsafe { write_fetched(call, fetch, || fetch_update::<T, Swap>(call, ctx, dest, value, pe)) }
}

/// `shmem_atomic_fetch_inc`.
#[inline(always)]
pub unsafe fn fetch_inc<T: Integer>(call: Call, ctx: Ctx, dest: *mut T, pe: c_int) -> T {
    // SAFETY: `fetch_add` without a result to write checks all of its arguments.
    unsafe { fetch_add(call, ctx, dest, T::ONE, pe) }
}

/// `shmem_atomic_fetch_inc_nbi`.
#[inline(always)]
pub unsafe fn fetch_inc_nbi<T: Integer>(call: Call, ctx: Ctx, fetch: *mut T, dest: *mut T, pe: c_int) {
    // SAFETY: the contract of this function lets it write `fetch`; everything else is checked.
    unsafe { fetch_add_nbi(call, ctx, fetch, dest, T::ONE, pe) }
}

/// `shmem_atomic_inc`.
#[inline(always)]
pub unsafe fn inc<T: Integer>(call: Call, ctx: Ctx, dest: *mut T, pe: c_int) {
    // SAFETY: `add` checks all of its arguments.
    unsafe { add(call, ctx, dest, T::ONE, pe) }
}

macro_rules! updates {
    ($($update:ident: $plain:ident, $fetch:ident, $nbi:ident);*) => {$(
        #[doc = concat!("`shmem_atomic_", stringify!($plain), "`.")]
        #[inline(always)]
        pub unsafe fn $plain<T: Integer>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
            // SAFETY: `update` checks all of its arguments.
            unsafe { update::<T, $update>(call, ctx, dest, value, pe) }
        }

        #[doc = concat!("`shmem_atomic_", stringify!($fetch), "`.")]
        #[inline(always)]
        pub unsafe fn $fetch<T: Integer>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) -> T {
            // SAFETY: `fetch_update` checks all of its arguments.
            unsafe { fetch_update::<T, $update>(call, ctx, dest, value, pe) }.unwrap_or(T::ZERO)
        }

        #[doc = concat!("`shmem_atomic_", stringify!($nbi), "`.")]
        #[inline(always)]
        pub unsafe fn $nbi<T: Integer>(call: Call, ctx: Ctx, fetch: *mut T, dest: *mut T, value: T, pe: c_int) {
            // SAFETY: the contract of this function lets it write `fetch`; everything else is checked.
            unsafe { write_fetched(call, fetch, || fetch_update::<T, $update>(call, ctx, dest, value, pe)) }
        }
    )*};
}
updates!(
    Add: add, fetch_add, fetch_add_nbi;
    And: and, fetch_and, fetch_and_nbi;
    Or: or, fetch_or, fetch_or_nbi;
    Xor: xor, fetch_xor, fetch_xor_nbi
);

#[cfg(test)]
mod tests {
    use selvedge_process::nic::portals::operation::{Family, allowed};

    use super::*;

    fn run<T: Atomic, U: Update>(before: T, value: T) -> (T, T) {
        let mut word = before.bits();
        // SAFETY: an aligned word on this stack.
        let old = unsafe { U::run(&raw mut word, value.bits()) };
        (T::from_bits(old), T::from_bits(word))
    }

    #[test]
    fn updates_give_the_old_value_and_store_the_new() {
        assert_eq!(run::<i32, Add>(-1, 5), (-1, 4));
        assert_eq!(run::<i32, Add>(i32::MAX, 1), (i32::MAX, i32::MIN));
        assert_eq!(run::<u64, Add>(u64::MAX, 2), (u64::MAX, 1));
        assert_eq!(run::<i64, And>(-1, 0xff), (-1, 0xff));
        assert_eq!(run::<u32, Or>(0xf0, 0x0f), (0xf0, 0xff));
        assert_eq!(run::<u32, Xor>(0xff, 0x0f), (0xff, 0xf0));
        assert_eq!(run::<f64, Swap>(-0.0, 2.5), (-0.0, 2.5));
    }

    #[test]
    fn floating_point_keeps_its_bits() {
        let nan = f32::from_bits(0x7fa0_0001);
        let (old, new) = run::<f32, Swap>(nan, -0.0);
        assert_eq!((old.to_bits(), new.to_bits()), (0x7fa0_0001, 0x8000_0000));
    }

    #[test]
    fn compare_swap_changes_only_what_it_expects() {
        let mut word = 7u64;
        // SAFETY: an aligned word on this stack.
        unsafe {
            assert_eq!(Word::compare_swap(&raw mut word, 6, 1), 7);
            assert_eq!(word, 7);
            assert_eq!(Word::compare_swap(&raw mut word, 7, 1), 7);
        }
        assert_eq!(word, 1);
    }

    /// The NIC has every operation that these functions use.
    #[test]
    fn the_nic_has_every_operation() {
        fn integers<T: Integer>() {
            assert_eq!(T::DATATYPE.size_bytes(), size_of::<T>());
            assert_eq!(size_of::<T::Word>(), size_of::<T>());
            for operation in [Add::OPERATION, And::OPERATION, Or::OPERATION, Xor::OPERATION] {
                assert!(allowed(Family::Atomic, operation, T::DATATYPE));
                assert!(allowed(Family::FetchAtomic, operation, T::DATATYPE));
            }
            assert!(allowed(Family::Swap, Operation::CompareSwap, T::DATATYPE));
            assert!(allowed(Family::Swap, Operation::Swap, T::DATATYPE));
        }
        integers::<i32>();
        integers::<u32>();
        integers::<i64>();
        integers::<u64>();
        assert!(allowed(Family::Swap, Operation::Swap, f32::DATATYPE));
        assert!(allowed(Family::Swap, Operation::Swap, f64::DATATYPE));
    }
}
