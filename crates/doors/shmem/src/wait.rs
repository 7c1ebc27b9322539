// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for this PE's objects, and testing them (OpenSHMEM 1.6, "Point-To-Point Synchronization Routines").
//!
//! A call checks its arguments, makes a set of the objects, and polls the set's members once (test) or until they
//! satisfy the call (wait: [`World::wait`] polls, sleeps and keeps the NIC going). A poll loads this PE's own memory
//! only.
//!
//! Invariants
//! 1. Members are loaded with acquire: data written before the value that ends a wait are visible after it.
//! 2. `any` begins at an index that changes from call to call and reaches every index. So each member that satisfies
//!    its condition is returned eventually (the standard's fairness), whatever calls come between.
//! 3. `all` does not load a member again that has satisfied its condition during this call.
//! 4. An empty set ends every call at once, before its other arguments are checked.
//! 5. A test never blocks. Where PEs share cores, some of many failed tests in a row yield the core.
//!
//! Costs: a poll of a single wait is a load and a comparison without a branch on the operator. A poll of `any` or
//! `some` is O(n). All polls of an `all` are O(n) together, plus one load each. No allocation.

use std::ffi::c_int;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicI16, AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64};

use crate::check::{self, Call};
use crate::world::{World, world};
use crate::{amo, rma};

/// A type of the table "Point-to-Point Synchronization Types".
pub trait Waitable: Copy + Ord + 'static {
    /// Loads with acquire.
    ///
    /// # Safety
    /// `at` is aligned and readable.
    unsafe fn load(at: *const Self) -> Self;
}

macro_rules! waitable {
    ($($integer:ty: $atomic:ty),*) => {$(
        impl Waitable for $integer {
            #[inline(always)]
            unsafe fn load(at: *const Self) -> Self {
                // SAFETY: the contract of this function: aligned and readable. It is only loaded.
                unsafe { <$atomic>::from_ptr(at.cast_mut()) }.load(Acquire)
            }
        }
    )*};
}
waitable!(i16: AtomicI16, u16: AtomicU16, i32: AtomicI32, u32: AtomicU32, i64: AtomicI64, u64: AtomicU64);

/// `SHMEM_CMP_*`: bits for less, equal, greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comparison(u8);

impl Comparison {
    /// `SHMEM_CMP_NE`.
    const NE: Self = Self(0b101);
    /// In the order of the constants: EQ, NE, GT, GE, LT, LE are 1 to 6.
    const ALL: [Self; 6] = [Self(0b010), Self::NE, Self(0b100), Self(0b110), Self(0b001), Self(0b011)];

    #[inline(always)]
    pub(crate) fn new(call: Call, cmp: c_int) -> Option<Self> {
        let found = Self::find(cmp);
        if found.is_none() {
            check::refuse(call, "cmp", format_args!("{cmp}: not one of SHMEM_CMP_EQ to SHMEM_CMP_LE"));
        }
        found
    }

    #[inline(always)]
    fn find(cmp: c_int) -> Option<Self> {
        Self::ALL.get((cmp as u32).wrapping_sub(1) as usize).copied()
    }

    /// Whether `left cmp right`.
    #[inline(always)]
    pub(crate) fn holds<T: Ord>(self, left: T, right: T) -> bool {
        let order = 1 + u8::from(left > right) - u8::from(left < right);
        self.0 >> order & 1 != 0
    }
}

/// The values that members are compared with.
pub trait Operands<T> {
    /// # Safety
    /// `index` is below the number of members.
    unsafe fn at(&self, index: usize) -> T;
    /// Whether the caller has passed values.
    fn given(&self) -> bool;
}

/// One value for all members.
struct One<T>(T);

impl<T: Copy> Operands<T> for One<T> {
    #[inline(always)]
    unsafe fn at(&self, _: usize) -> T {
        self.0
    }
    #[inline(always)]
    fn given(&self) -> bool {
        true
    }
}

/// A value for each member: the `_vector` forms.
struct Each<T>(*const T);

impl<T: Copy> Operands<T> for Each<T> {
    #[inline(always)]
    unsafe fn at(&self, index: usize) -> T {
        // SAFETY: the clause of the `_vector` forms says that there is a value for each member, and `index` is below
        // their number. `WaitSet::new` has refused null.
        unsafe { self.0.add(index).read_unaligned() }
    }
    #[inline(always)]
    fn given(&self) -> bool {
        !self.0.is_null()
    }
}

/// The checked, non-empty wait set or test set of a call.
struct WaitSet<T, B> {
    ivars: *const T,
    nelems: usize,
    status: *const c_int,
    comparison: Comparison,
    operands: B,
}

/// Reason why a call has no set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NoSet {
    Empty,
    Refused,
}

/// The world and the set of a call, or the reason why there is no set.
type Made<T, B> = Result<(&'static World, WaitSet<T, B>), NoSet>;

impl<T: Waitable, B: Operands<T>> WaitSet<T, B> {
    #[inline]
    fn new(call: Call, ivars: *const T, nelems: usize, status: *const c_int, cmp: c_int, operands: B) -> Made<T, B> {
        let world = world(call).ok_or(NoSet::Refused)?;
        // SAFETY: the clause of the call says that `status` is null or has `nelems` elements; the index is below that.
        if (0..nelems).all(|index| unsafe { excluded(status, index) }) {
            return Err(NoSet::Empty);
        }
        let comparison = Comparison::new(call, cmp).ok_or(NoSet::Refused)?;
        if !operands.given() {
            check::refuse(call, "cmp_values", format_args!("null"));
            return Err(NoSet::Refused);
        }
        check_local(world, call, "ivars", ivars, nelems).ok_or(NoSet::Refused)?;
        Ok((world, Self { ivars, nelems, status, comparison, operands }))
    }

    #[inline(always)]
    fn includes(&self, index: usize) -> bool {
        // SAFETY: `index` is below `nelems`, the number of elements of `status` if it is not null.
        !unsafe { excluded(self.status, index) }
    }

    #[inline(always)]
    fn holds(&self, index: usize) -> bool {
        // SAFETY: `index` is below `nelems`, and `check_local` has found all of `ivars` aligned in this PE's symmetric
        // memory. A vector has `nelems` values.
        let (value, operand) = unsafe { (T::load(self.ivars.add(index)), self.operands.at(index)) };
        self.comparison.holds(value, operand)
    }

    /// Returns `Some` if all members from `*next` on satisfy their conditions. Advances `*next` past those that do.
    #[inline(always)]
    fn all(&self, next: &mut usize) -> Option<()> {
        while *next < self.nelems {
            if self.includes(*next) && !self.holds(*next) {
                return None;
            }
            *next += 1;
        }
        Some(())
    }

    /// A member that satisfies its condition. The search begins at `begin` and wraps around.
    #[inline(always)]
    fn any(&self, begin: usize) -> Option<usize> {
        (begin..self.nelems).chain(0..begin).find(|&index| self.includes(index) && self.holds(index))
    }

    /// Writes the indices of all members that satisfy their conditions. Returns their number, `None` if it is zero.
    #[inline(always)]
    fn some(&self, indices: *mut usize) -> Option<usize> {
        let mut found = 0;
        for index in 0..self.nelems {
            if self.includes(index) && self.holds(index) {
                // SAFETY: not null; by the clause `indices` has room for `nelems`, and `found <= index < nelems`.
                unsafe { indices.add(found).write_unaligned(index) };
                found += 1;
            }
        }
        (found != 0).then_some(found)
    }

    /// The index at which this call's search begins.
    #[inline(always)]
    fn begin(&self) -> usize {
        if self.nelems == 1 { 0 } else { scale(turn(), self.nelems) }
    }
}

/// # Safety
/// `status` is null or has more than `index` elements.
#[inline(always)]
unsafe fn excluded(status: *const c_int, index: usize) -> bool {
    // SAFETY: not null, so the contract of this function gives it more than `index` elements.
    !status.is_null() && unsafe { status.add(index).read() } != 0
}

/// A number that differs from call to call. It advances by the golden ratio, so any regular selection of calls (each
/// second, each third) gets numbers that are spread over all values.
#[inline(always)]
fn turn() -> u64 {
    static TURN: AtomicU64 = AtomicU64::new(0);
    let turn = TURN.load(Relaxed);
    TURN.store(turn.wrapping_add(0x9e37_79b9_7f4a_7c15), Relaxed);
    turn
}

/// Scales a 64-bit fraction to a number below `n`.
#[inline(always)]
fn scale(fraction: u64, n: usize) -> usize {
    ((u128::from(fraction) * n as u128) >> 64) as usize
}

/// Checks that `nelems` objects are aligned and in this PE's own symmetric memory.
#[inline(always)]
pub(crate) fn check_local<T>(
    world: &World,
    call: Call,
    argument: &'static str,
    at: *const T,
    nelems: usize,
) -> Option<()> {
    if !at.is_aligned() {
        amo::misaligned(call, argument, at.cast(), size_of::<T>());
        return None;
    }
    let bytes = rma::bytes_of::<T>(call, nelems)?;
    world.sym(call, argument, at.cast(), bytes).map(drop)
}

/// Lets the NIC handle arrivals, after a failed test. Where PEs share cores it yields now and then, because the
/// awaited PE may need this core.
pub(crate) fn after_failed_test(world: &World) {
    const TESTS_PER_YIELD: u32 = 64;
    static MISSES: AtomicU32 = AtomicU32::new(0);
    world.progress();
    if world.oversubscribed() {
        let misses = MISSES.load(Relaxed).wrapping_add(1);
        MISSES.store(misses, Relaxed);
        if misses % TESTS_PER_YIELD == 0 {
            std::thread::yield_now();
        }
    }
}

#[inline(always)]
fn once<R>(world: &World, poll: impl FnOnce() -> Option<R>) -> Option<R> {
    let found = poll();
    if found.is_none() {
        after_failed_test(world);
    }
    found
}

/// Polls until `poll` returns a value. Success at the first poll has no other costs.
#[inline(always)]
fn until<R>(world: &World, mut poll: impl FnMut() -> Option<R>) -> R {
    match poll() {
        Some(found) => found,
        None => world.wait(poll),
    }
}

/// Waits for one object of this PE. Returns the value that satisfied the condition.
#[inline(always)]
pub(crate) unsafe fn wait_for<T: Waitable>(
    call: Call,
    argument: &'static str,
    ivar: *const T,
    comparison: Comparison,
    value: T,
) -> Option<T> {
    let world = world(call)?;
    check_local(world, call, argument, ivar, 1)?;
    Some(until(world, || {
        // SAFETY: `check_local` has found an aligned object in this PE's symmetric memory.
        let found = unsafe { T::load(ivar) };
        comparison.holds(found, value).then_some(found)
    }))
}

/// `shmem_wait_until`.
///
/// # Safety
/// Of all functions here: `status` is null or has `nelems` elements, `values` has `nelems` elements, and `indices` has
/// room for `nelems`. `ivars` is checked.
#[inline(always)]
pub unsafe fn wait_until<T: Waitable>(call: Call, ivar: *mut T, cmp: c_int, value: T) {
    let Some(comparison) = Comparison::new(call, cmp) else { return };
    // SAFETY: `wait_for` checks all of its arguments.
    unsafe { wait_for(call, "ivar", ivar, comparison, value) };
}

/// `shmem_wait`: waits until the value differs.
#[inline(always)]
pub unsafe fn wait_ne<T: Waitable>(call: Call, ivar: *mut T, value: T) {
    // SAFETY: `wait_for` checks all of its arguments.
    unsafe { wait_for(call, "ivar", ivar, Comparison::NE, value) };
}

/// `shmem_test`.
#[inline(always)]
pub unsafe fn test<T: Waitable>(call: Call, ivar: *mut T, cmp: c_int, value: T) -> c_int {
    let Some(comparison) = Comparison::new(call, cmp) else { return 0 };
    let Some(world) = world(call) else { return 0 };
    if check_local(world, call, "ivar", ivar, 1).is_none() {
        return 0;
    }
    // SAFETY: `check_local` has found an aligned object in this PE's symmetric memory.
    let poll = || comparison.holds(unsafe { T::load(ivar) }, value).then_some(());
    c_int::from(once(world, poll).is_some())
}

fn wait_all<T: Waitable, B: Operands<T>>(set: Made<T, B>) {
    if let Ok((world, set)) = set {
        let mut next = 0;
        until(world, || set.all(&mut next));
    }
}

fn test_all_of<T: Waitable, B: Operands<T>>(set: Made<T, B>) -> c_int {
    match set {
        Ok((world, set)) => c_int::from(once(world, || set.all(&mut 0)).is_some()),
        Err(NoSet::Empty) => 1,
        Err(NoSet::Refused) => 0,
    }
}

fn wait_any<T: Waitable, B: Operands<T>>(set: Made<T, B>) -> usize {
    let Ok((world, set)) = set else { return usize::MAX };
    let begin = set.begin();
    until(world, || set.any(begin))
}

fn test_any_of<T: Waitable, B: Operands<T>>(set: Made<T, B>) -> usize {
    let Ok((world, set)) = set else { return usize::MAX };
    once(world, || set.any(set.begin())).unwrap_or(usize::MAX)
}

fn wait_some<T: Waitable, B: Operands<T>>(call: Call, indices: *mut usize, set: Made<T, B>) -> usize {
    match set {
        Ok((world, set)) if room(call, indices) => until(world, || set.some(indices)),
        _ => 0,
    }
}

fn test_some_of<T: Waitable, B: Operands<T>>(call: Call, indices: *mut usize, set: Made<T, B>) -> usize {
    match set {
        Ok((world, set)) if room(call, indices) => once(world, || set.some(indices)).unwrap_or(0),
        _ => 0,
    }
}

fn room(call: Call, indices: *mut usize) -> bool {
    if indices.is_null() {
        check::refuse(call, "indices", format_args!("null"));
    }
    !indices.is_null()
}

macro_rules! sets {
    ($($what:literal $name:ident $vector:ident $run:ident -> $result:ty;)*) => {$(
        #[doc = concat!("`shmem_", stringify!($name), "`", $what, ".")]
        pub unsafe fn $name<T: Waitable>(
            call: Call,
            ivars: *mut T,
            nelems: usize,
            status: *const c_int,
            cmp: c_int,
            value: T,
        ) -> $result {
            $run(WaitSet::new(call, ivars, nelems, status, cmp, One(value)))
        }

        #[doc = concat!("`shmem_", stringify!($vector), "`", $what, ".")]
        pub unsafe fn $vector<T: Waitable>(
            call: Call,
            ivars: *mut T,
            nelems: usize,
            status: *const c_int,
            cmp: c_int,
            values: *const T,
        ) -> $result {
            $run(WaitSet::new(call, ivars, nelems, status, cmp, Each(values)))
        }
    )*};
}
sets! {
    "" wait_until_all wait_until_all_vector wait_all -> ();
    ": the index, or `SIZE_MAX` of an empty set" wait_until_any wait_until_any_vector wait_any -> usize;
    ": 1 also of an empty set" test_all test_all_vector test_all_of -> c_int;
    ": the index, or `SIZE_MAX`" test_any test_any_vector test_any_of -> usize;
}

macro_rules! sets_with_indices {
    ($($name:ident $vector:ident $run:ident;)*) => {$(
        #[doc = concat!("`shmem_", stringify!($name), "`: the number of indices written.")]
        pub unsafe fn $name<T: Waitable>(
            call: Call,
            ivars: *mut T,
            nelems: usize,
            indices: *mut usize,
            status: *const c_int,
            cmp: c_int,
            value: T,
        ) -> usize {
            $run(call, indices, WaitSet::new(call, ivars, nelems, status, cmp, One(value)))
        }

        #[doc = concat!("`shmem_", stringify!($vector), "`: the number of indices written.")]
        pub unsafe fn $vector<T: Waitable>(
            call: Call,
            ivars: *mut T,
            nelems: usize,
            indices: *mut usize,
            status: *const c_int,
            cmp: c_int,
            values: *const T,
        ) -> usize {
            $run(call, indices, WaitSet::new(call, ivars, nelems, status, cmp, Each(values)))
        }
    )*};
}
sets_with_indices! {
    wait_until_some wait_until_some_vector wait_some;
    test_some test_some_vector test_some_of;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_those_of_c() {
        fn check<T: Ord + Copy>(values: &[T]) {
            for &left in values {
                for &right in values {
                    let expected =
                        [left == right, left != right, left > right, left >= right, left < right, left <= right];
                    for (cmp, expected) in (1..).zip(expected) {
                        assert_eq!(Comparison::find(cmp).map(|cmp| cmp.holds(left, right)), Some(expected), "{cmp}");
                    }
                }
            }
        }
        check(&[i16::MIN, -1, 0, 1, i16::MAX]);
        check(&[0, 1, u16::MAX - 1, u16::MAX]);
        check(&[i64::MIN, -1, 0, 1, i64::MAX]);
        check(&[0, 1, u64::MAX / 2, u64::MAX]);
    }

    #[test]
    fn other_comparisons_are_none() {
        for cmp in [0, 7, -1, c_int::MIN, c_int::MAX] {
            assert_eq!(Comparison::find(cmp), None, "{cmp}");
        }
        assert_eq!(Comparison::find(2), Some(Comparison::NE));
    }

    fn set<B: Operands<i32>>(ivars: &[i32], status: &[c_int], cmp: c_int, operands: B) -> WaitSet<i32, B> {
        let comparison = Comparison::find(cmp).expect("a comparison");
        WaitSet { ivars: ivars.as_ptr(), nelems: ivars.len(), status: status.as_ptr(), comparison, operands }
    }

    #[test]
    fn looks_pass_over_what_is_excluded() {
        let (ivars, status) = ([5, 1, 5, 0, 5], [0, 0, 1, 1, 0]);
        let set = set(&ivars, &status, 1, One(5));
        let begins: Vec<_> = (0..5).map(|begin| set.any(begin)).collect();
        assert_eq!(begins, [Some(0), Some(4), Some(4), Some(4), Some(4)]);
        let mut indices = [9; 5];
        assert_eq!(set.some(indices.as_mut_ptr()), Some(2));
        assert_eq!(indices, [0, 4, 9, 9, 9]);
        let mut next = 0;
        assert_eq!((set.all(&mut next), next), (None, 1));
    }

    #[test]
    fn all_goes_on_where_it_stopped_and_vectors_compare_each_with_its_own() {
        let (mut ivars, none) = ([3, 0, 7], [0; 3]);
        let values = [3, 4, 7];
        let first = set(&ivars, &none, 1, Each(values.as_ptr()));
        let mut next = 0;
        assert_eq!((first.all(&mut next), next), (None, 1));
        // The first member changes after it has satisfied its condition. Once is enough.
        ivars = [0, 4, 7];
        let then = set(&ivars, &none, 1, Each(values.as_ptr()));
        assert_eq!((then.all(&mut next), next), (Some(()), 3));
        assert_eq!(then.all(&mut 0), None);
        assert_eq!(then.some([0; 3].as_mut_ptr()), Some(2));
        assert_eq!(set(&ivars, &none, 3, One(7)).any(1), None);
    }

    #[test]
    fn a_fraction_of_n_is_below_n() {
        assert_eq!((scale(0, 3), scale(u64::MAX, 3)), (0, 2));
        assert_eq!(scale(u64::MAX, usize::MAX), usize::MAX - 1);
    }

    /// Any regular selection of calls (each second, each third) begins at all indices.
    #[test]
    fn every_index_has_its_turn() {
        for step in 1..=16u64 {
            for n in [2, 3, 5, 8, 31, 64] {
                let mut seen = vec![false; n];
                for call in 0..40 * n as u64 {
                    seen[scale((call * step).wrapping_mul(0x9e37_79b9_7f4a_7c15), n)] = true;
                }
                assert!(seen.iter().all(|&seen| seen), "step {step}, n {n}");
            }
        }
    }
}
