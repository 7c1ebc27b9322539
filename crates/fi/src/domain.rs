// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The domain (fi_domain(3)): one NIC, and the lock of everything that belongs to it. Comments call the time during
//! which a thread holds this lock its *turn*.
//!
//! A thread never yields its core, and in virtual time never ends its rank's turn, while it holds the lock. What a poll
//! asks for ([`Rest`]) is done after the lock is released. Otherwise a thread that polls would hold the lock most of
//! the time. A waiting thread spins. In virtual time it sleeps in the kernel, so that the simulator sees that it has
//! nothing to do.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
#[cfg(debug_assertions)]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use selvedge_shm::Interface;
use selvedge_shm::os::thread::one_thread;

use crate::constants::*;
use crate::fabric::Fabric;
use crate::ffi::*;
use crate::object::{self, Ops, Uses};
use crate::{address, atomic, completion, counter, deferred, endpoint, refuse, region, warn_line};
use selvedge_transport::Transport;
use selvedge_transport::polling::Rest;

#[repr(C)]
pub struct Domain {
    pub domain: fid_domain,
    fabric: *mut Fabric,
    /// Several threads may call at once, unless [`Domain::alone`] says that none does.
    shared: bool,
    /// 1: a thread holds the lock.
    taken: AtomicU32,
    core: UnsafeCell<Transport>,
    /// Threads that wait for the lock sleep in the kernel.
    sleeps: bool,
    /// The lock is held, or its holder needs none. A check of our own code: each thread takes the lock once at a time.
    #[cfg(debug_assertions)]
    in_turn: AtomicBool,
    /// Not 0: no lock is needed. Only one thread calls, because the program promises it or the process has no other,
    /// and nothing is to be done after a turn without a poll.
    pub alone: &'static AtomicU8,
    /// The core's interface, for threads that do not hold the lock.
    interface: Arc<Interface>,
    pub uses: Uses,
    pub caps: u64,
    /// The provider chooses the keys of regions.
    pub provider_keys: bool,
    /// Regions with counters wait for `fi_mr_enable` (`FI_MR_RMA_EVENT`).
    pub enables_regions: bool,
}

/// The value of `alone` for a domain with a single caller, ...
static ALWAYS: AtomicU8 = AtomicU8::new(1);
/// ... and for one that always needs the lock.
static NEVER: AtomicU8 = AtomicU8::new(0);

/// The guard of the domain's lock: access to the NIC and everything in flight, for one thread.
pub struct Turn<'a> {
    domain: &'a Domain,
    /// The lock was taken. No thread starts while the guard lives, so this also holds at its end.
    locked: bool,
}

impl Domain {
    /// Takes the lock. A thread takes it once at a time. A second guard would wait for the first or, where no lock is
    /// needed ([`Domain::alone`]), alias its memory.
    #[inline(always)]
    pub fn core(&self) -> Turn<'_> {
        let locked = self.shared && self.alone.load(Relaxed) == 0;
        if locked && self.taken.swap(1, Acquire) != 0 {
            self.wait_for_turn();
        }
        #[cfg(debug_assertions)]
        assert!(!self.in_turn.swap(true, Relaxed), "a thread takes one turn at a time");
        Turn { domain: self, locked }
    }

    /// Whether only one thread ever calls, by the program's promise.
    pub fn has_one_caller(&self) -> bool {
        std::ptr::eq(self.alone, &ALWAYS)
    }

    /// The core, where no lock is needed ([`Domain::alone`]).
    ///
    /// # Safety
    /// The domain is open. This thread does not hold its lock, and does not take it while the core is borrowed.
    #[inline(always)]
    pub unsafe fn core_alone<'a>(domain: *mut Domain) -> &'a mut Transport {
        // SAFETY: the domain is open by this function's contract, and nothing makes a `&mut` to it.
        let domain = unsafe { &*domain };
        debug_assert!(domain.alone.load(Relaxed) != 0);
        #[cfg(debug_assertions)]
        assert!(!domain.in_turn.load(Relaxed), "the core is borrowed while a turn is under way");
        // SAFETY: no other thread calls, by the program's promise or because there is none ([`Domain::alone`]). This
        // thread does not hold the lock, by this function's contract, so this is the only reference to the core.
        let core = unsafe { &mut *domain.core.get() };
        debug_assert!(core.rest == Rest::None);
        core
    }

    #[cold]
    fn wait_for_turn(&self) {
        let mut looks = 0u32;
        while self.taken.load(Relaxed) != 0 || self.taken.swap(1, Acquire) != 0 {
            if self.sleeps {
                futex(&self.taken, libc::FUTEX_WAIT, 1);
                continue;
            }
            looks += 1;
            if looks % 64 == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    #[inline(always)]
    fn give_back(&self, locked: bool) {
        #[cfg(debug_assertions)]
        self.in_turn.store(false, Relaxed);
        if locked {
            self.taken.store(0, Release);
        }
    }

    /// Releases the lock, and then does what a poll has asked for.
    #[cold]
    #[inline(never)]
    fn give_back_and(&self, locked: bool, rest: Rest) {
        self.give_back(locked);
        if locked && self.sleeps {
            futex(&self.taken, libc::FUTEX_WAKE, 1);
        }
        match rest {
            Rest::None | Rest::Wake => {}
            Rest::Yield => std::thread::yield_now(),
            Rest::Poll => self.interface.poll(),
            Rest::Found => self.interface.found_something(),
        }
    }
}

impl<'a> Turn<'a> {
    /// The domain whose lock this is.
    pub fn domain(&self) -> &'a Domain {
        self.domain
    }
}

impl Deref for Turn<'_> {
    type Target = Transport;
    #[inline(always)]
    fn deref(&self) -> &Transport {
        // SAFETY: no other thread has a guard until this one is dropped: the lock excludes them, or the program
        // promises that none calls, or there is none. References from this guard borrow it, so a `&mut` from it is not
        // alive here.
        unsafe { &*self.domain.core.get() }
    }
}

impl DerefMut for Turn<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Transport {
        // SAFETY: no other thread has a guard until this one is dropped: the lock excludes them, or the program
        // promises that none calls, or there is none. The result borrows the guard mutably, and a thread has one guard
        // at a time.
        unsafe { &mut *self.domain.core.get() }
    }
}

impl Drop for Turn<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.rest == Rest::None {
            return self.domain.give_back(self.locked);
        }
        let next = if self.domain.sleeps { Rest::Wake } else { Rest::None };
        let rest = std::mem::replace(&mut self.rest, next);
        self.domain.give_back_and(self.locked, rest);
    }
}

/// A futex call: sleeps while the word has this value, or wakes so many sleepers.
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is borrowed for the call, so it is mapped; without a time limit the kernel reads no other memory
    // of ours.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, std::ptr::null::<libc::timespec>()) };
}

refuse! {
    no_scalable_ep(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int;
    no_poll_open(*mut fid_domain, *mut fi_poll_attr, *mut *mut fid_poll) -> c_int;
    no_stx_ctx(*mut fid_domain, *mut fi_tx_attr, *mut *mut fid_stx, *mut c_void) -> c_int;
    no_srx_ctx(*mut fid_domain, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
    no_collective(*mut fid_domain, fi_collective_op, *mut fi_collective_attr, u64) -> c_int;
}

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, bind, control));
#[allow(clippy::needless_update)]
static OPS: Ops<fi_ops_domain> = Ops(fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: Some(address::open),
    cq_open: Some(completion::open),
    endpoint: Some(endpoint::open),
    scalable_ep: Some(no_scalable_ep),
    cntr_open: Some(counter::open),
    poll_open: Some(no_poll_open),
    stx_ctx: Some(no_stx_ctx),
    srx_ctx: Some(no_srx_ctx),
    query_atomic: Some(atomic::query),
    query_collective: Some(no_collective),
    endpoint2: Some(endpoint2),
    ..object::rest()
});
static MR_OPS: Ops<fi_ops_mr> = Ops(fi_ops_mr {
    size: size_of::<fi_ops_mr>(),
    reg: Some(region::reg),
    regv: Some(region::regv),
    regattr: Some(region::regattr),
});

unsafe extern "C" fn endpoint2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -EBADFLAGS;
    }
    // SAFETY: fi_endpoint2(3): the domain is open, the information is libfabric's with its attributes, and the program
    // has room for the pointer.
    unsafe { endpoint::open(domain, info, ep, context) }
}

/// fi_domain.
pub unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_domain(3): the fabric is open, the information is libfabric's with its attributes, and the program has
    // room for the pointer.
    unsafe {
        let Some(info) = info.as_ref() else { return -EINVAL };
        let Some(attr) = info.domain_attr.as_ref() else { return -EINVAL };
        if !attr.name.is_null() && std::ffi::CStr::from_ptr(attr.name.cast::<c_char>()) != crate::NAME {
            return -EINVAL;
        }
        let mut core = match Transport::open() {
            Ok(core) => core,
            Err(error) => {
                warn_line!("no domain: {error}");
                return -ENOMEM;
            }
        };
        let shared = attr.threading != FI_THREAD_DOMAIN;
        core.wait_beside_threads(shared);
        let alone = match (core.interface.is_simulated(), shared) {
            (true, _) => &NEVER,
            (false, true) => one_thread(),
            (false, false) => &ALWAYS,
        };
        let fabric = fabric.cast::<Fabric>();
        (*fabric).uses.add();
        let made = Box::new(Domain {
            domain: fid_domain {
                fid: object::head(FI_CLASS_DOMAIN, context, &FID_OPS.0),
                ops: (&raw const OPS.0).cast_mut(),
                mr: (&raw const MR_OPS.0).cast_mut(),
            },
            fabric,
            shared,
            taken: AtomicU32::new(0),
            #[cfg(debug_assertions)]
            in_turn: AtomicBool::new(false),
            sleeps: core.interface.is_simulated(),
            alone,
            interface: Arc::clone(&core.interface),
            core: UnsafeCell::new(core),
            uses: Uses::default(),
            caps: info.caps,
            provider_keys: attr.mr_mode & FI_MR_PROV_KEY as c_int != 0,
            enables_regions: attr.mr_mode & FI_MR_RMA_EVENT as c_int != 0,
        });
        *domain = Box::into_raw(made).cast();
    }
    0
}

unsafe extern "C" fn bind(_: *mut fid, bound: *mut fid, flags: u64) -> c_int {
    // Event queues report asynchronous events, and there are none here.
    // SAFETY: fi_domain_bind(3): the object is open, so its head is there, or the pointer is null.
    let is_eq = unsafe { !bound.is_null() && (*bound).fclass == FI_CLASS_EQ as usize };
    match (is_eq, flags) {
        (true, 0) => 0,
        (true, FI_REG_MR_FLAG) => {
            warn_line!("memory is registered at once; no event tells of it");
            -EOPNOTSUPP
        }
        (true, _) => -EBADFLAGS,
        (false, _) => -EINVAL,
    }
}

/// `FI_REG_MR`, deprecated in libfabric 2.
const FI_REG_MR_FLAG: u64 = 1 << 59;

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: fi_control(3): the domain is open, and the argument is what the command asks for.
    unsafe {
        if command as u32 == FI_MAP_RAW_MR {
            return region::map_raw(arg.cast());
        }
        if command as u32 == FI_UNMAP_KEY {
            return 0;
        }
        deferred::control(&*fid.cast::<Domain>(), command, arg)
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the domain was made by `open`, no object depends on it, and no other thread uses it any more.
    unsafe {
        let domain = fid.cast::<Domain>();
        if (*domain).uses.any() {
            return -EBUSY;
        }
        (*(*domain).fabric).uses.drop_one();
        drop(Box::from_raw(domain));
    }
    0
}
