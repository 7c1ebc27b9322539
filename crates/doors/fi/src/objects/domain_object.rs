// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Objects of a domain: how a C pointer leads to the object, and the object's state under the domain's lock.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use selvedge_messages::Transport;

use crate::objects::domain::{Domain, DomainGuard};
use crate::objects::object::Uses;

/// An object of a domain: an endpoint, a completion queue, an address vector or a region. The program points to it.
///
/// Several threads may call with the same object, so only `&Object` is ever made from the program's pointer.
///
/// 1. Head, domain and `fixed` are set before the program gets the pointer. Later changes in `fixed` are atomic.
/// 2. `guarded` belongs to the holder of the domain's lock. [`Object::lock`] takes the lock. An operation that needs
///    none ([`Domain::alone`]) uses [`Object::guarded`].
#[repr(C)]
pub struct Object<Head, Fixed, Guarded> {
    /// The first field, because the program's pointer points here.
    pub head: Head,
    pub domain: *mut Domain,
    /// The objects that depend on this one.
    pub uses: Uses,
    pub fixed: Fixed,
    pub(crate) guarded: UnsafeCell<Guarded>,
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
        // SAFETY: the object is open by this function's contract. Only its closing thread makes a `&mut` to it.
        unsafe { &*pointer.cast::<Self>() }
    }

    /// The domain, which cannot be closed before its objects ([`Domain::uses`]).
    #[inline(always)]
    pub fn domain(&self) -> &Domain {
        // SAFETY: a domain does not close while an object of it is open, and this one is. No `&mut` to a domain exists.
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
    pub fn lock(&self) -> ObjectGuard<'_, Guarded> {
        ObjectGuard { domain_guard: self.domain().core(), guarded: self.guarded() }
    }
}

/// The domain's lock, held for one of its objects. It gives access to the domain's core and to the object's state, one
/// at a time, because the transport reaches objects by its own pointers.
pub struct ObjectGuard<'a, Guarded> {
    pub(crate) domain_guard: DomainGuard<'a>,
    pub(crate) guarded: *mut Guarded,
}

impl<'a, Guarded> ObjectGuard<'a, Guarded> {
    /// The domain whose lock it is.
    pub fn domain(&self) -> &'a Domain {
        self.domain_guard.domain()
    }

    /// The object's state. It borrows the whole guard, so no function of the transport runs meanwhile.
    #[inline(always)]
    pub fn state(&mut self) -> &mut Guarded {
        // SAFETY: the lock is held, so no other thread has a reference. In this thread the transport makes references to
        // objects inside of its functions only, and none of them runs while this borrow of the guard lives.
        unsafe { &mut *self.guarded }
    }

    /// The core and the object's state at once.
    ///
    /// # Safety
    /// While both are used, the transport calls no function that reaches this object by a pointer of its own.
    #[inline(always)]
    pub unsafe fn both(&mut self) -> (&mut Transport, &mut Guarded) {
        // SAFETY: the lock is held, so no other thread has a reference; this thread's transport does not reach the object,
        // by this function's contract. The transport itself holds pointers to objects, not the objects.
        (&mut self.domain_guard, unsafe { &mut *self.guarded })
    }
}

impl<Guarded> Deref for ObjectGuard<'_, Guarded> {
    type Target = Transport;
    #[inline(always)]
    fn deref(&self) -> &Transport {
        &self.domain_guard
    }
}

impl<Guarded> DerefMut for ObjectGuard<'_, Guarded> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Transport {
        &mut self.domain_guard
    }
}
