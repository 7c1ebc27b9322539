// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The allocator behind this library: the C library's, or another one that the program is linked with or preloads
//! (jemalloc, tcmalloc, mimalloc).
//!
//! Another allocator's `operator new` may take its own memory without `malloc`, and its `operator delete` then calls
//! `free`. So behind this library, blocks of both may come to `free`, and large ones must not be ours.
//!
//! Invariants
//! 1. The first call decides, once: if the next definition of `malloc` belongs to another object than the C library, every
//!    function of this library calls the next definition, and [`crate::pool`] stays empty.
//! 2. Calls that the search itself makes (`dlsym` may allocate) get memory of [`EARLY`].
//! 3. A library that comes before this one and replaces only some functions gets the calls of the others ([`first`]), as
//!    glibc's `reallocarray` calls the first `realloc`. None of the functions that are called so calls upwards itself.
//!
//! Costs: a load and an indirect call, as for any function of another library.

#[cfg(not(test))]
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use selvedge_os::raw;

use crate::early::EARLY;

/// The C library's functions, by glibc's second names for them.
mod c_library {
    use super::c_void;

    unsafe extern "C" {
        #[link_name = "__libc_malloc"]
        pub fn malloc(bytes: usize) -> *mut c_void;
        #[link_name = "__libc_calloc"]
        pub fn calloc(count: usize, bytes: usize) -> *mut c_void;
        #[link_name = "__libc_realloc"]
        pub fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
        #[link_name = "__libc_memalign"]
        pub fn memalign(align: usize, bytes: usize) -> *mut c_void;
        #[link_name = "__libc_free"]
        pub fn free(block: *mut c_void);
    }
}

/// The functions while the allocator is not known: they decide, and call the allocator's. Calls that come from the
/// search get early memory.
mod undecided {
    use super::{EARLY, c_void, decide, ptr};

    pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
        // SAFETY: allocating has no preconditions.
        if decide() { unsafe { super::malloc(bytes) } } else { EARLY.take(bytes, 1).cast() }
    }

    pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
        if decide() {
            // SAFETY: allocating has no preconditions.
            return unsafe { super::calloc(count, bytes) };
        }
        count.checked_mul(bytes).map_or(ptr::null_mut(), |all| EARLY.take(all, 1).cast())
    }

    pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
        if decide() {
            // SAFETY: this function has the contract of `realloc`.
            return unsafe { super::realloc(block, bytes) };
        }
        if !block.is_null() && !EARLY.holds(block.cast()) {
            return ptr::null_mut();
        }
        // SAFETY: the block is null or early.
        unsafe { super::early::realloc(block, bytes) }
    }

    pub unsafe extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
        // SAFETY: allocating has no preconditions.
        if decide() { unsafe { super::memalign(align, bytes) } } else { EARLY.take(bytes, align).cast() }
    }

    pub unsafe extern "C" fn free(block: *mut c_void) {
        if decide() {
            // SAFETY: this function has the contract of `free`.
            unsafe { super::free(block) }
        }
    }

    pub unsafe extern "C" fn usable_size(block: *mut c_void) -> usize {
        if decide() {
            // SAFETY: this function has the contract of `malloc_usable_size`.
            return unsafe { super::usable_size(block) };
        }
        // SAFETY: the block is early.
        if EARLY.holds(block.cast()) { unsafe { EARLY.size(block.cast()) } } else { 0 }
    }
}

/// The functions once the allocator is known, in a process that has early blocks.
mod early {
    use super::{EARLY, NEXT_FREE, NEXT_REALLOC, NEXT_USABLE_SIZE, Relaxed, c_void, ptr};
    use super::{Free, Realloc, UsableSize, function};

    pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
        if !block.is_null() && !EARLY.holds(block.cast()) {
            // SAFETY: this function has the contract of `realloc`, and the block is the allocator's.
            return unsafe { function::<Realloc>(NEXT_REALLOC.load(Relaxed))(block, bytes) };
        }
        // SAFETY: allocating has no preconditions; the old block is null or early, has `EARLY.size` bytes, and does not
        // overlap the new one.
        unsafe {
            let to = super::malloc(bytes);
            if !to.is_null() && !block.is_null() {
                let held = EARLY.size(block.cast());
                ptr::copy_nonoverlapping(block.cast::<u8>(), to.cast::<u8>(), held.min(bytes));
            }
            to
        }
    }

    pub unsafe extern "C" fn free(block: *mut c_void) {
        if !EARLY.holds(block.cast()) {
            // SAFETY: this function has the contract of `free`, and the block is null or the allocator's.
            unsafe { function::<Free>(NEXT_FREE.load(Relaxed))(block) }
        }
    }

    pub unsafe extern "C" fn usable_size(block: *mut c_void) -> usize {
        if EARLY.holds(block.cast()) {
            // SAFETY: C requires an allocated block, so it begins there.
            return unsafe { EARLY.size(block.cast()) };
        }
        // SAFETY: this function has the contract of `malloc_usable_size`, and the block is null or the allocator's.
        unsafe { function::<UsableSize>(NEXT_USABLE_SIZE.load(Relaxed))(block) }
    }
}

/// The first definitions of functions of which others are made.
pub mod first_of {
    use super::{AtomicPtr, Free, Memalign, Realloc, c_void, first, function, ptr};

    /// # Safety
    /// The contract of the C library's function.
    pub unsafe fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
        static FIRST: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
        let first = first(&FIRST, c"realloc");
        // SAFETY: the C library has a function of this name, so one is found; it has this type and contract.
        unsafe { function::<Realloc>(first)(block, bytes) }
    }

    /// # Safety
    /// The contract of the C library's function.
    pub unsafe fn memalign(align: usize, bytes: usize) -> *mut c_void {
        static FIRST: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
        let first = first(&FIRST, c"memalign");
        // SAFETY: the C library has a function of this name, so one is found; it has this type and contract.
        unsafe { function::<Memalign>(first)(align, bytes) }
    }

    /// # Safety
    /// The contract of the C library's function.
    pub unsafe fn free(block: *mut c_void) {
        static FIRST: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
        let first = first(&FIRST, c"free");
        // SAFETY: the C library has a function of this name, so one is found; it has this type and contract.
        unsafe { function::<Free>(first)(block) }
    }
}

/// Other functions of another allocator. Without them they are made of the first definitions ([`first_of`]).
pub mod own {
    use super::{FreeAlignedSized, FreeSized, Malloc, Memalign, Own, PosixMemalign, Reallocarray};

    pub static ALIGNED_ALLOC: Own<Memalign> = Own::new(c"aligned_alloc");
    pub static POSIX_MEMALIGN: Own<PosixMemalign> = Own::new(c"posix_memalign");
    pub static VALLOC: Own<Malloc> = Own::new(c"valloc");
    pub static PVALLOC: Own<Malloc> = Own::new(c"pvalloc");
    pub static REALLOCARRAY: Own<Reallocarray> = Own::new(c"reallocarray");
    pub static FREE_SIZED: Own<FreeSized> = Own::new(c"free_sized");
    pub static FREE_ALIGNED_SIZED: Own<FreeAlignedSized> = Own::new(c"free_aligned_sized");
}

/// A function of this name, of type `F`, if the allocator is another than the C library's and has it.
pub struct Own<F> {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
    of: PhantomData<F>,
}

impl<F: Copy> Own<F> {
    const fn new(name: &'static CStr) -> Own<F> {
        Own { name, at: AtomicPtr::new(ptr::null_mut()), of: PhantomData }
    }

    #[inline(always)]
    pub fn get(&self) -> Option<F> {
        let at = if is_c_library() { ptr::null_mut() } else { self.at.load(Relaxed) };
        // SAFETY: a function of this name has this type in every allocator.
        (!at.is_null()).then(|| unsafe { function(at) })
    }

    /// Looks it up in the object that is loaded at `base`.
    fn look(&self, base: *mut c_void) {
        let next = next_of(self.name);
        if object_of(next).is_some_and(|object| object.0 == base) {
            self.at.store(next, Relaxed);
        }
    }
}

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Memalign = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;
type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
type Reallocarray = unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void;
type FreeSized = unsafe extern "C" fn(*mut c_void, usize);
type FreeAlignedSized = unsafe extern "C" fn(*mut c_void, usize, usize);

static MALLOC: AtomicPtr<c_void> = AtomicPtr::new(undecided::malloc as *mut c_void);
static CALLOC: AtomicPtr<c_void> = AtomicPtr::new(undecided::calloc as *mut c_void);
static REALLOC: AtomicPtr<c_void> = AtomicPtr::new(undecided::realloc as *mut c_void);
static MEMALIGN: AtomicPtr<c_void> = AtomicPtr::new(undecided::memalign as *mut c_void);
static FREE: AtomicPtr<c_void> = AtomicPtr::new(undecided::free as *mut c_void);
static USABLE_SIZE: AtomicPtr<c_void> = AtomicPtr::new(undecided::usable_size as *mut c_void);
/// The allocator's own functions, where those above first look for early blocks.
static NEXT_REALLOC: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static NEXT_FREE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static NEXT_USABLE_SIZE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The thread that decides; 0 before, [`DECIDED`] afterwards.
static DECIDER: AtomicI32 = AtomicI32::new(0);
const DECIDED: i32 = -1;
/// The object that has the other allocator's `malloc`: its name. Null: the C library allocates.
static OTHER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Converts an address to a function.
///
/// # Safety
/// `F` is a function pointer, and a function of this type is at the address.
#[inline(always)]
unsafe fn function<F: Copy>(address: *mut c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: `F` has the size of a pointer and is the type of the function there.
    unsafe { std::mem::transmute_copy(&address) }
}

/// `malloc` of the allocator behind this library. So do the functions below.
///
/// # Safety
/// The contract of the C library's function.
#[inline(always)]
pub unsafe fn malloc(bytes: usize) -> *mut c_void {
    // SAFETY: the pointer is always a function of this type, with this contract.
    unsafe { function::<Malloc>(MALLOC.load(Relaxed))(bytes) }
}

/// # Safety
/// The contract of the C library's function.
#[inline(always)]
pub unsafe fn calloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: the pointer is always a function of this type, with this contract.
    unsafe { function::<Calloc>(CALLOC.load(Relaxed))(count, bytes) }
}

/// # Safety
/// The contract of the C library's function; the block is not in the pool.
#[inline(always)]
pub unsafe fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the pointer is always a function of this type, with this contract.
    unsafe { function::<Realloc>(REALLOC.load(Relaxed))(block, bytes) }
}

/// # Safety
/// The contract of the C library's function.
#[inline(always)]
pub unsafe fn memalign(align: usize, bytes: usize) -> *mut c_void {
    // SAFETY: the pointer is always a function of this type, with this contract.
    unsafe { function::<Memalign>(MEMALIGN.load(Relaxed))(align, bytes) }
}

/// # Safety
/// The contract of the C library's function; the block is not in the pool.
#[inline(always)]
pub unsafe fn free(block: *mut c_void) {
    // SAFETY: the pointer is always a function of this type, with this contract.
    unsafe { function::<Free>(FREE.load(Relaxed))(block) }
}

/// # Safety
/// The contract of `malloc_usable_size`; the block is not in the pool.
#[inline(always)]
pub unsafe fn usable_size(block: *mut c_void) -> usize {
    // SAFETY: the pointer is always a function of this type, with this contract.
    unsafe { function::<UsableSize>(USABLE_SIZE.load(Relaxed))(block) }
}

/// Whether the C library allocates, so that large blocks may come from the pool. False while this thread looks.
#[inline(always)]
pub fn is_c_library() -> bool {
    (DECIDER.load(Acquire) == DECIDED || decide()) && OTHER.load(Relaxed).is_null()
}

/// The name of the object that has another allocator.
pub fn other() -> Option<&'static CStr> {
    let name = OTHER.load(Relaxed);
    // SAFETY: the name is a C string of the loader, which keeps it while the object is loaded. An object that the program
    // was started with stays loaded.
    (!is_c_library() && !name.is_null()).then(|| unsafe { CStr::from_ptr(name.cast()) })
}

/// Finds the allocator, once. Returns false in a call that the search itself makes.
#[cold]
pub fn decide() -> bool {
    // SAFETY: the system call takes no arguments.
    let me = unsafe { raw::call(libc::SYS_gettid, [0; 6]) } as i32;
    match DECIDER.compare_exchange(0, me, Acquire, Acquire) {
        Ok(_) => {
            look();
            DECIDER.store(DECIDED, Release);
            true
        }
        Err(DECIDED) => true,
        Err(decider) if decider == me => false,
        Err(_) => {
            while DECIDER.load(Acquire) != DECIDED {
                // SAFETY: the system call takes no arguments.
                unsafe { raw::call(libc::SYS_sched_yield, [0; 6]) };
            }
            true
        }
    }
}

fn look() {
    let next = next_of(c"malloc");
    let other = object_of(next).filter(|object| object_of_c_library().is_some_and(|(base, _)| base != object.0));
    let found = |name: &CStr, own: *mut c_void| match other {
        Some(_) => Some(next_of(name)).filter(|found| !found.is_null()).unwrap_or(own),
        None => own,
    };
    if let Some((base, name)) = other {
        OTHER.store(name, Relaxed);
        own::ALIGNED_ALLOC.look(base);
        own::POSIX_MEMALIGN.look(base);
        own::VALLOC.look(base);
        own::PVALLOC.look(base);
        own::REALLOCARRAY.look(base);
        own::FREE_SIZED.look(base);
        own::FREE_ALIGNED_SIZED.look(base);
    }
    let usable_size = next_of(c"malloc_usable_size");
    let usable_size = if usable_size.is_null() { unknown_size as *mut c_void } else { usable_size };
    NEXT_REALLOC.store(found(c"realloc", c_library::realloc as *mut c_void), Relaxed);
    NEXT_FREE.store(found(c"free", c_library::free as *mut c_void), Relaxed);
    NEXT_USABLE_SIZE.store(usable_size, Relaxed);
    MALLOC.store(found(c"malloc", c_library::malloc as *mut c_void), Relaxed);
    CALLOC.store(found(c"calloc", c_library::calloc as *mut c_void), Relaxed);
    MEMALIGN.store(found(c"memalign", c_library::memalign as *mut c_void), Relaxed);
    let with_early = EARLY.is_used();
    let choose = |next: &AtomicPtr<c_void>, careful| if with_early { careful } else { next.load(Relaxed) };
    REALLOC.store(choose(&NEXT_REALLOC, early::realloc as *mut c_void), Relaxed);
    FREE.store(choose(&NEXT_FREE, early::free as *mut c_void), Relaxed);
    USABLE_SIZE.store(choose(&NEXT_USABLE_SIZE, early::usable_size as *mut c_void), Relaxed);
}

unsafe extern "C" fn unknown_size(_: *mut c_void) -> usize {
    0
}

/// The object that has an address: where it is loaded, and its name.
fn object_of(address: *mut c_void) -> Option<(*mut c_void, *mut c_void)> {
    // SAFETY: the record is plain data, and zeros are a value of it; `dladdr` writes it for any address.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        let known = libc::dladdr(address, &raw mut found) != 0;
        known.then_some((found.dli_fbase, found.dli_fname.cast_mut().cast()))
    }
}

/// The object that is the C library, by a function that no other library replaces.
fn object_of_c_library() -> Option<(*mut c_void, *mut c_void)> {
    object_of(libc::gnu_get_libc_version as *mut c_void)
}

fn next_of(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string, and `dlsym` only reads it.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// The name of an object before this library that has the program's `malloc`.
pub fn before() -> Option<&'static CStr> {
    static FIRST: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let (base, name) = object_of(first(&FIRST, c"malloc"))?;
    let own = object_of(before as *mut c_void)?;
    // SAFETY: the name is a C string of the loader; the program was started with the object, so it stays loaded.
    (base != own.0 && !name.is_null()).then(|| unsafe { CStr::from_ptr(name.cast()) })
}

/// The first function of this name in all libraries: this one's, or that of a library before it. Null if there is none.
/// The first call looks it up and caches it.
pub fn first(kept: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let mut function = kept.load(Relaxed);
    if function.is_null() {
        // SAFETY: the name is a C string, and `dlsym` only reads it.
        function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        kept.store(function, Relaxed);
    }
    function
}

/// The function of this name in the libraries after this one, or null. The first call looks it up and caches it.
pub fn next(kept: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let mut function = kept.load(Relaxed);
    if function.is_null() {
        function = next_of(name);
        kept.store(function, Relaxed);
    }
    function
}

/// Allocates Rust's memory from the allocator behind this library.
#[cfg(not(test))]
pub struct Allocator;

/// The alignment of blocks of at least as many bytes.
#[cfg(not(test))]
const ALIGN: usize = 16;

#[cfg(not(test))]
fn suits_malloc(layout: Layout) -> bool {
    layout.align() <= ALIGN.min(layout.size())
}

// SAFETY: every method calls the allocator behind this library, whose blocks all go back to its `free`; `malloc` aligns as
// `suits_malloc` says, and other layouts use `memalign`.
#[cfg(not(test))]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: allocating has no preconditions; `layout.align()` is a power of two.
        unsafe {
            if suits_malloc(layout) { malloc(layout.size()) } else { memalign(layout.align(), layout.size()) }.cast()
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if suits_malloc(layout) {
            // SAFETY: allocating has no preconditions; `layout.align()` is a power of two.
            return unsafe { calloc(1, layout.size()).cast() };
        }
        // SAFETY: `alloc` returned null or a block of `layout.size()` bytes.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: `GlobalAlloc` requires that `block` came from this allocator, which always uses the same one.
        unsafe { free(block.cast()) }
    }
}
