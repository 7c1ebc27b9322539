// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The common part of all objects: libfabric's head, the way from a C pointer to the object, the state under the
//! domain's lock, and the functions that an object does not offer.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void};
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::constants::ENOSYS;
use crate::domain::{Domain, Turn};
use crate::ffi::{fi_ops, fid};
use selvedge_transport::Transport;

/// An object of a domain: an endpoint, a completion queue, an address vector or a region. The program has a pointer to
/// it.
///
/// Several threads may call with the same object, so only `&Object` is ever made from the program's pointer.
///
/// 1. The head, the domain and `fixed` are set before the program gets the pointer. Whatever changes later in `fixed`
///    is atomic.
/// 2. `guarded` belongs to the holder of the domain's lock. [`Object::lock`] takes the lock; an operation that needs
///    none ([`Domain::alone`]) uses [`Object::guarded`].
#[repr(C)]
pub struct Object<Head, Fixed, Guarded> {
    /// The first field, because the program's pointer points here.
    pub head: Head,
    pub domain: *mut Domain,
    /// The objects that depend on this one.
    pub uses: Uses,
    pub fixed: Fixed,
    guarded: UnsafeCell<Guarded>,
}

impl<Head, Fixed, Guarded> Object<Head, Fixed, Guarded> {
    pub fn make(head: Head, domain: *mut Domain, fixed: Fixed, guarded: Guarded) -> Box<Self> {
        Box::new(Object { head, domain, uses: Uses::default(), fixed, guarded: UnsafeCell::new(guarded) })
    }

    /// The object behind the program's pointer.
    ///
    /// # Safety
    /// The pointer is to an open object of this type, which the program does not close before the call returns.
    #[inline(always)]
    pub unsafe fn of<'a, Pointer>(pointer: *mut Pointer) -> &'a Self {
        // SAFETY: the object is open by this function's contract. No `&mut` to it exists: those are made by the thread
        // that closes it.
        unsafe { &*pointer.cast::<Self>() }
    }

    /// The domain, which cannot be closed before its objects ([`Domain::uses`]).
    #[inline(always)]
    pub fn domain(&self) -> &Domain {
        // SAFETY: a domain refuses to close while an object of it is open, and this object is. Nobody makes a `&mut` to
        // a domain.
        unsafe { &*self.domain }
    }

    /// The state under the lock. Only the holder of the lock may use the pointer, or a thread that needs no lock
    /// ([`Domain::core_alone`]).
    #[inline(always)]
    pub fn guarded(&self) -> *mut Guarded {
        self.guarded.get()
    }

    /// Takes the domain's lock.
    #[inline(always)]
    pub fn lock(&self) -> Held<'_, Guarded> {
        Held { turn: self.domain().core(), guarded: self.guarded() }
    }
}

/// The domain's lock, held for one of its objects. It gives access to the domain's core and to the object's state, one
/// at a time, because the core reaches objects by its own pointers.
pub struct Held<'a, Guarded> {
    turn: Turn<'a>,
    guarded: *mut Guarded,
}

impl<'a, Guarded> Held<'a, Guarded> {
    /// The domain whose lock it is.
    pub fn domain(&self) -> &'a Domain {
        self.turn.domain()
    }

    /// The object's state. It borrows the whole guard, so no function of the core runs meanwhile.
    #[inline(always)]
    pub fn state(&mut self) -> &mut Guarded {
        // SAFETY: the lock is held, so no other thread has a reference. In this thread the core makes references to
        // objects inside of its functions only, and none of them runs while this borrow of the guard lives.
        unsafe { &mut *self.guarded }
    }

    /// The core and the object's state at once.
    ///
    /// # Safety
    /// While both are used, the core calls no function that reaches this object by a pointer of its own.
    #[inline(always)]
    pub unsafe fn both(&mut self) -> (&mut Transport, &mut Guarded) {
        // SAFETY: the lock is held, so no other thread has a reference; this thread's core does not reach the object,
        // by this function's contract. The core itself holds pointers to objects, not the objects.
        (&mut self.turn, unsafe { &mut *self.guarded })
    }
}

impl<Guarded> Deref for Held<'_, Guarded> {
    type Target = Transport;
    #[inline(always)]
    fn deref(&self) -> &Transport {
        &self.turn
    }
}

impl<Guarded> DerefMut for Held<'_, Guarded> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Transport {
        &mut self.turn
    }
}

/// The head of an object.
pub fn head(class: u32, context: *mut c_void, ops: &'static fi_ops) -> fid {
    fid { fclass: class as usize, context, ops: ptr::from_ref(ops).cast_mut() }
}

/// A table of functions that lives as long as the program.
#[repr(transparent)]
pub struct Ops<T>(pub T);
// SAFETY: the tables of libfabric hold a size and pointers to functions. They are never written after the program's
// start.
unsafe impl<T> Sync for Ops<T> {}

/// The object's table: how it is closed, bound, controlled.
pub const fn ops(
    close: unsafe extern "C" fn(*mut fid) -> c_int,
    bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
    control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
) -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close: Some(close),
        bind: Some(bind),
        control: Some(control),
        ops_open: Some(no_ops_open),
        tostr: None,
        ops_set: None,
    }
}

pub unsafe extern "C" fn no_bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    -ENOSYS
}

pub unsafe extern "C" fn no_control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    -ENOSYS
}

unsafe extern "C" fn no_ops_open(_: *mut fid, _: *const c_char, _: u64, _: *mut *mut c_void, _: *mut c_void) -> c_int {
    -ENOSYS
}

/// The unset entries of a table that newer libfabric headers have and this provider does not implement.
pub const fn rest<T: Copy>() -> T {
    // SAFETY: it is called for libfabric's tables only. They hold a size and `Option`s of functions, and all zeroes are
    // valid for both.
    unsafe { std::mem::zeroed() }
}

/// The pause between polls of a wait: first none, then a yield of the core, then short sleeps.
#[derive(Default)]
pub struct Pause(u32);

impl Pause {
    pub fn wait(&mut self) {
        self.0 = self.0.saturating_add(1);
        match self.0 {
            0..=200 => {}
            201..=2000 => std::thread::yield_now(),
            _ => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
    }
}

/// The number of objects that depend on one. It is not closed before they are.
#[derive(Default)]
pub struct Uses(AtomicU32);

impl Uses {
    pub fn add(&self) {
        self.0.fetch_add(1, SeqCst);
    }
    pub fn drop_one(&self) {
        self.0.fetch_sub(1, SeqCst);
    }
    pub fn any(&self) -> bool {
        self.0.load(SeqCst) != 0
    }
}

/// Functions of a table that the object does not offer.
#[macro_export]
macro_rules! refuse {
    ($($name:ident($($kind:ty),* $(,)?) -> $result:ty;)*) => {
        $(pub unsafe extern "C" fn $name($(_: $kind),*) -> $result { -$crate::constants::ENOSYS as $result })*
    };
}
