// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Atomics on symmetric objects (OpenSHMEM 1.6, "Atomic Memory Operations", with their older names).
//!
//! In place, an atomic is the processor's own on the peer's mapping, and then a look whether the peer sleeps: the
//! express way (`hand.rs`). What is not at hand ends in a function named `.._elsewhere`. By commands it is an atomic of
//! the NIC, which runs under the lock of the target's NIC. All PEs reach an object the same way, so the two never meet
//! on one.
//!
//! Invariants
//! 1. An object is aligned to its size, or the call is refused: the processor would not keep it whole.
//! 2. Floating point moves as bits. Integers wrap.
//! 3. An update releases what the caller wrote before it, a fetch acquires what was written before the value.
//! 4. A fetching call that is refused gives 0; a non-blocking one then leaves its result alone.
//! 5. Non-blocking calls are complete when they return, which the standard allows.
//!
//! Costs, in place: the checks of the arguments, one locked instruction (`fetch`: a load; `set`: a store) and a load
//! of the line that says whether the peer sleeps. No system call, lock or allocation.

use std::ffi::c_int;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

use selvedge_transport::nic::portals::operation::{Datatype, Operation};

use crate::hand::{Hand, at_hand};
use crate::{Call, Ctx, Reach, World, check, world};

/// What the processor does atomically: bits of 4 or 8 bytes.
///
/// # Safety
/// Of every function: `at` is aligned and may be read and written, by other processes too, as an atomic of this size.
pub trait Word: Copy + 'static {
    unsafe fn load(at: *mut Self) -> Self;
    unsafe fn store(at: *mut Self, value: Self);
    unsafe fn swap(at: *mut Self, value: Self) -> Self;
    /// What was there, whether it was `cond` or not.
    unsafe fn compare_swap(at: *mut Self, cond: Self, value: Self) -> Self;
    unsafe fn add(at: *mut Self, value: Self) -> Self;
    unsafe fn and(at: *mut Self, value: Self) -> Self;
    unsafe fn or(at: *mut Self, value: Self) -> Self;
    unsafe fn xor(at: *mut Self, value: Self) -> Self;
}

macro_rules! word {
    ($($word:ty: $atomic:ty),*) => {$(
        // SAFETY: of each body: the caller's promise is the one that `from_ptr` asks for.
        impl Word for $word {
            #[inline(always)]
            unsafe fn load(at: *mut Self) -> Self {
                unsafe { <$atomic>::from_ptr(at) }.load(Acquire)
            }
            #[inline(always)]
            unsafe fn store(at: *mut Self, value: Self) {
                unsafe { <$atomic>::from_ptr(at) }.store(value, Release)
            }
            #[inline(always)]
            unsafe fn swap(at: *mut Self, value: Self) -> Self {
                unsafe { <$atomic>::from_ptr(at) }.swap(value, AcqRel)
            }
            #[inline(always)]
            unsafe fn compare_swap(at: *mut Self, cond: Self, value: Self) -> Self {
                match unsafe { <$atomic>::from_ptr(at) }.compare_exchange(cond, value, AcqRel, Acquire) {
                    Ok(old) | Err(old) => old,
                }
            }
            #[inline(always)]
            unsafe fn add(at: *mut Self, value: Self) -> Self {
                unsafe { <$atomic>::from_ptr(at) }.fetch_add(value, AcqRel)
            }
            #[inline(always)]
            unsafe fn and(at: *mut Self, value: Self) -> Self {
                unsafe { <$atomic>::from_ptr(at) }.fetch_and(value, AcqRel)
            }
            #[inline(always)]
            unsafe fn or(at: *mut Self, value: Self) -> Self {
                unsafe { <$atomic>::from_ptr(at) }.fetch_or(value, AcqRel)
            }
            #[inline(always)]
            unsafe fn xor(at: *mut Self, value: Self) -> Self {
                unsafe { <$atomic>::from_ptr(at) }.fetch_xor(value, AcqRel)
            }
        }
    )*};
}
word!(u32: AtomicU32, u64: AtomicU64);

/// A type of the table "Extended AMO Types".
pub trait Atomic: Copy + 'static {
    type Word: Word;
    const DATATYPE: Datatype;
    /// What a refused fetch gives.
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

/// What an atomic with one operand does, said to the processor and to the NIC.
trait Update {
    const OPERATION: Operation;
    /// # Safety
    /// As of [`Word`].
    unsafe fn run<W: Word>(at: *mut W, value: W) -> W;
}

macro_rules! update {
    ($($update:ident: $operation:ident, $run:ident);*) => {$(
        struct $update;
        impl Update for $update {
            const OPERATION: Operation = Operation::$operation;
            #[inline(always)]
            unsafe fn run<W: Word>(at: *mut W, value: W) -> W {
                // SAFETY: as promised by the caller.
                unsafe { W::$run(at, value) }
            }
        }
    )*};
}
update!(Swap: Swap, swap; Add: Sum, add; And: Band, and; Or: Bor, or; Xor: Bxor, xor);

/// An object at hand. None: it goes the general way.
#[inline(always)]
fn near<T: Atomic>(ctx: Ctx, object: *const T, pe: c_int) -> Option<(*mut T::Word, Hand)> {
    if !object.is_aligned() {
        return None;
    }
    at_hand(ctx, object.cast(), size_of::<T>(), pe).map(|hand| (hand.at.cast(), hand))
}

/// Where an atomic goes, checked.
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

/// Reports an object that nothing could change atomically.
#[cold]
pub(crate) fn misaligned(call: Call, argument: &'static str, object: *const u8, bytes: usize) {
    check::refuse(call, argument, format_args!("{object:p}: not aligned to the {bytes} bytes of its type"));
}

#[inline(always)]
unsafe fn update<T: Atomic, U: Update>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    match near(ctx, dest, pe) {
        Some((at, hand)) => {
            // SAFETY: a symmetric object of this size, and aligned.
            unsafe { U::run(at, value.bits()) };
            hand.ring();
        }
        None => update_elsewhere::<T, U>(call, ctx, dest, value, pe),
    }
}

#[cold]
#[inline(never)]
fn update_elsewhere<T: Atomic, U: Update>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    let Some(Target { world, pe, reach }) = Target::of(call, ctx, "dest", dest, pe) else { return };
    match reach {
        Reach::InPlace(at) => {
            // SAFETY: a symmetric object of this size, and aligned.
            unsafe { U::run(at.cast::<T::Word>(), value.bits()) };
            world.ring(pe);
        }
        Reach::Nic(spot) => {
            let operand = (&raw const value).cast();
            // SAFETY: the operand lies on this stack, and has been read when the call returns.
            unsafe { world.nic_atomic(ctx, spot, U::OPERATION, T::DATATYPE, operand) };
        }
    }
}

#[inline(always)]
unsafe fn fetch_update<T: Atomic, U: Update>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) -> Option<T> {
    match near(ctx, dest, pe) {
        Some((at, hand)) => {
            // SAFETY: a symmetric object of this size, and aligned.
            let old = unsafe { U::run(at, value.bits()) };
            hand.ring();
            Some(T::from_bits(old))
        }
        None => {
            // SAFETY: promised by `fetch_elsewhere`.
            let in_place = move |at| unsafe { U::run(at, value.bits()) };
            fetch_elsewhere(call, ctx, dest, pe, in_place, U::OPERATION, value, None)
        }
    }
}

#[inline(always)]
unsafe fn swap_if<T: Atomic>(call: Call, ctx: Ctx, dest: *mut T, cond: T, value: T, pe: c_int) -> Option<T> {
    match near(ctx, dest, pe) {
        Some((at, hand)) => {
            // SAFETY: a symmetric object of this size, and aligned.
            let old = unsafe { T::Word::compare_swap(at, cond.bits(), value.bits()) };
            hand.ring();
            Some(T::from_bits(old))
        }
        None => {
            // SAFETY: promised by `fetch_elsewhere`.
            let in_place = move |at| unsafe { T::Word::compare_swap(at, cond.bits(), value.bits()) };
            fetch_elsewhere(call, ctx, dest, pe, in_place, Operation::CompareSwap, value, Some(cond))
        }
    }
}

/// Runs `in_place` on a symmetric object of the right size, aligned; or has the NIC do the same.
#[cold]
#[inline(never)]
fn fetch_elsewhere<T: Atomic>(
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
        Reach::InPlace(at) => {
            let old = in_place(at.cast());
            world.ring(pe);
            Some(T::from_bits(old))
        }
        Reach::Nic(spot) => {
            let mut old = T::ZERO;
            let cond = cond.as_ref().map_or(null(), |cond| (&raw const *cond).cast());
            let (operand, into) = ((&raw const value).cast(), (&raw mut old).cast());
            // SAFETY: operands and result lie on this stack, and the command is complete on return.
            unsafe { world.nic_fetch(ctx, spot, operation, T::DATATYPE, operand, cond, into) };
            Some(old)
        }
    }
}

#[inline(always)]
unsafe fn load<T: Atomic>(call: Call, ctx: Ctx, source: *const T, pe: c_int) -> Option<T> {
    match near(ctx, source, pe) {
        // SAFETY: a symmetric object of this size, and aligned.
        Some((at, _)) => Some(T::from_bits(unsafe { T::Word::load(at) })),
        None => load_elsewhere(call, ctx, source, pe),
    }
}

#[cold]
#[inline(never)]
fn load_elsewhere<T: Atomic>(call: Call, ctx: Ctx, source: *const T, pe: c_int) -> Option<T> {
    let Target { world, reach, .. } = Target::of(call, ctx, "source", source, pe)?;
    match reach {
        // SAFETY: a symmetric object of this size, and aligned.
        Reach::InPlace(at) => Some(T::from_bits(unsafe { T::Word::load(at.cast()) })),
        Reach::Nic(spot) => {
            let mut value = T::ZERO;
            // SAFETY: the result lies on this stack, and the command is complete on return. A get holds the same lock
            // as the NIC's atomics.
            unsafe { world.nic_get(ctx, spot, (&raw mut value).cast(), size_of::<T>()) };
            Some(value)
        }
    }
}

#[cold]
#[inline(never)]
fn store_elsewhere<T: Atomic>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    let Some(Target { world, pe, reach }) = Target::of(call, ctx, "dest", dest, pe) else { return };
    match reach {
        Reach::InPlace(at) => {
            // SAFETY: a symmetric object of this size, and aligned.
            unsafe { T::Word::store(at.cast(), value.bits()) };
            world.ring(pe);
        }
        // SAFETY: the value may be reused on return. A put holds the same lock as the NIC's atomics.
        Reach::Nic(spot) => unsafe { world.nic_put(ctx, spot, (&raw const value).cast(), size_of::<T>()) },
    }
}

/// Hands a fetched value to a non-blocking call.
#[inline(always)]
unsafe fn hand_over<T: Atomic>(call: Call, fetch: *mut T, fetched: impl FnOnce() -> Option<T>) {
    if fetch.is_null() {
        check::refuse(call, "fetch", format_args!("null"));
    } else if let Some(value) = fetched() {
        // SAFETY: the caller says where the result goes; it need not be aligned.
        unsafe { fetch.write_unaligned(value) };
    }
}

/// `shmem_atomic_fetch`.
///
/// # Safety
/// Of this and every other function here: `fetch`, where there is one, may be written. Everything else is checked.
#[inline(always)]
pub unsafe fn fetch<T: Atomic>(call: Call, ctx: Ctx, source: *const T, pe: c_int) -> T {
    // SAFETY: the caller's.
    unsafe { load(call, ctx, source, pe) }.unwrap_or(T::ZERO)
}

/// `shmem_atomic_fetch_nbi`.
#[inline(always)]
pub unsafe fn fetch_nbi<T: Atomic>(call: Call, ctx: Ctx, fetch: *mut T, source: *const T, pe: c_int) {
    // SAFETY: the caller's.
    unsafe { hand_over(call, fetch, || load(call, ctx, source, pe)) }
}

/// `shmem_atomic_set`.
#[inline(always)]
pub unsafe fn set<T: Atomic>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    match near(ctx, dest, pe) {
        Some((at, hand)) => {
            // SAFETY: a symmetric object of this size, and aligned.
            unsafe { T::Word::store(at, value.bits()) };
            hand.ring();
        }
        None => store_elsewhere(call, ctx, dest, value, pe),
    }
}

/// `shmem_atomic_compare_swap`.
#[inline(always)]
pub unsafe fn compare_swap<T: Integer>(call: Call, ctx: Ctx, dest: *mut T, cond: T, value: T, pe: c_int) -> T {
    // SAFETY: the caller's.
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
    // SAFETY: the caller's.
    unsafe { hand_over(call, fetch, || swap_if(call, ctx, dest, cond, value, pe)) }
}

/// `shmem_atomic_swap`.
#[inline(always)]
pub unsafe fn swap<T: Atomic>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) -> T {
    // SAFETY: the caller's.
    unsafe { fetch_update::<T, Swap>(call, ctx, dest, value, pe) }.unwrap_or(T::ZERO)
}

/// `shmem_atomic_swap_nbi`.
#[inline(always)]
pub unsafe fn swap_nbi<T: Atomic>(call: Call, ctx: Ctx, fetch: *mut T, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the caller's.
    unsafe { hand_over(call, fetch, || fetch_update::<T, Swap>(call, ctx, dest, value, pe)) }
}

/// `shmem_atomic_fetch_inc`.
#[inline(always)]
pub unsafe fn fetch_inc<T: Integer>(call: Call, ctx: Ctx, dest: *mut T, pe: c_int) -> T {
    // SAFETY: the caller's.
    unsafe { fetch_add(call, ctx, dest, T::ONE, pe) }
}

/// `shmem_atomic_fetch_inc_nbi`.
#[inline(always)]
pub unsafe fn fetch_inc_nbi<T: Integer>(call: Call, ctx: Ctx, fetch: *mut T, dest: *mut T, pe: c_int) {
    // SAFETY: the caller's.
    unsafe { fetch_add_nbi(call, ctx, fetch, dest, T::ONE, pe) }
}

/// `shmem_atomic_inc`.
#[inline(always)]
pub unsafe fn inc<T: Integer>(call: Call, ctx: Ctx, dest: *mut T, pe: c_int) {
    // SAFETY: the caller's.
    unsafe { add(call, ctx, dest, T::ONE, pe) }
}

macro_rules! updates {
    ($($update:ident: $plain:ident, $fetch:ident, $nbi:ident);*) => {$(
        #[doc = concat!("`shmem_atomic_", stringify!($plain), "`.")]
        #[inline(always)]
        pub unsafe fn $plain<T: Integer>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
            // SAFETY: the caller's.
            unsafe { update::<T, $update>(call, ctx, dest, value, pe) }
        }

        #[doc = concat!("`shmem_atomic_", stringify!($fetch), "`.")]
        #[inline(always)]
        pub unsafe fn $fetch<T: Integer>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) -> T {
            // SAFETY: the caller's.
            unsafe { fetch_update::<T, $update>(call, ctx, dest, value, pe) }.unwrap_or(T::ZERO)
        }

        #[doc = concat!("`shmem_atomic_", stringify!($nbi), "`.")]
        #[inline(always)]
        pub unsafe fn $nbi<T: Integer>(call: Call, ctx: Ctx, fetch: *mut T, dest: *mut T, value: T, pe: c_int) {
            // SAFETY: the caller's.
            unsafe { hand_over(call, fetch, || fetch_update::<T, $update>(call, ctx, dest, value, pe)) }
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
    use selvedge_transport::nic::portals::operation::{Family, allowed};

    use super::*;

    fn run<T: Atomic, U: Update>(before: T, value: T) -> (T, T) {
        let mut word = before.bits();
        // SAFETY: a local word, aligned.
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
        // SAFETY: a local word, aligned.
        unsafe {
            assert_eq!(Word::compare_swap(&raw mut word, 6, 1), 7);
            assert_eq!(word, 7);
            assert_eq!(Word::compare_swap(&raw mut word, 7, 1), 7);
        }
        assert_eq!(word, 1);
    }

    /// What the NIC is asked for is what it has.
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
