// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups with outstanding operations, started by the program without waiting (MPI 4.1, 6.12), and their progress.
//!
//! A peer may need this process's progress while it waits in any call of the MPI: for a message, at a window, in one of
//! the MPI's own operations. So progress in the calls that complete requests is not enough. Both MPIs have a list of
//! functions that they call whenever they make progress: `opal_progress_register` of Open MPI and `MPIX_Async_start` of
//! MPICH. [`advance`] joins it when the first operation is started.
//!
//! Invariants
//! 1. A group with an unfinished request is in the list, and is not freed; its communicator may be.
//! 2. The list's lock is taken before a group's to free a communicator, and after it to start an operation: a program
//!    does not do both at once. [`advance`] does not wait for locks: the holder of a group's lock advances that group.
//! 3. The holder of the list's lock calls no function of the MPI. The holder of a group's lock calls some that make
//!    progress, where no lock is waited for.
//!
//! Costs: a load whenever the MPI makes progress. With outstanding operations, a poll of each group that has some.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};

use selvedge_collectives::one_host::Pending;
use selvedge_host::backoff::have_cores;
use selvedge_os::sync::IgnorePoison;

use crate::component;
use crate::group::{Group, GroupState, free};
use crate::mpi::{MPICH_DONE, MPICH_GOES_ON, Mpi};
use crate::requests::Started;

static LIST: Mutex<Vec<&'static GroupState>> = Mutex::new(Vec::new());

static LISTED: AtomicUsize = AtomicUsize::new(0);

/// Whether [`advance`] is in the MPI's list.
static IS_CALLED: AtomicBool = AtomicBool::new(false);

fn list() -> MutexGuard<'static, Vec<&'static GroupState>> {
    LIST.lock().ignore_poison()
}

/// Starts an operation of a group, for a request.
pub fn start(mpi: &'static Mpi, state: &'static GroupState, group: &mut Group, operation: Pending, request: Started) {
    let number = group.operations.add(operation);
    if let Some(outcome) = group.operations.outcome(number) {
        group.operations.take(number);
        return request.end(outcome);
    }
    group.started.push((number, request));
    if !group.is_listed {
        group.is_listed = true;
        let mut list = list();
        list.push(state);
        LISTED.store(list.len(), SeqCst);
    }
    if !IS_CALLED.swap(true, SeqCst) {
        // SAFETY: the functions take no lock that anyone holds while the MPI makes progress, but for a group's, for which they do not wait.
        let is_called = unsafe { mpi.call_while_waiting(in_open_mpi, in_mpich) };
        IS_CALLED.store(is_called, SeqCst);
    }
}

/// Whether there are outstanding operations.
#[inline(always)]
pub fn are_any() -> bool {
    LISTED.load(Relaxed) != 0
}

/// Advances all outstanding operations. Returns whether some have ended.
#[inline]
pub fn advance() -> bool {
    are_any() && advance_all()
}

fn advance_all() -> bool {
    let Ok(mut list) = LIST.try_lock() else { return false };
    let mut over = Vec::new();
    list.retain(|&state| {
        let Some(group) = state else { return false };
        let Ok(mut group) = group.try_lock() else { return true };
        group.advance(&mut over);
        if !group.started.is_empty() {
            return true;
        }
        group.is_listed = false;
        if group.is_forgotten {
            drop(group);
            // SAFETY: its communicator is freed, and this was the last list that had it.
            unsafe { free(state) };
        }
        false
    });
    LISTED.store(list.len(), SeqCst);
    drop(list);
    let have_ended = !over.is_empty();
    over.into_iter().for_each(|(request, outcome)| request.end(outcome));
    have_ended
}

/// Idle polls before a yield: if each rank has a core; below, if not. The MPI polls every 200 ns or so.
const LOOKS: u32 = 400;
const LOOKS_SHARED: u32 = 4;

/// Yields after some polls without an ended operation: the MPI's wait would spin, and the peer may need this core.
#[inline]
fn yield_after_idle_looks(have_ended: bool) {
    static IN_VAIN: AtomicU32 = AtomicU32::new(0);
    if !component::is_active() {
        return;
    }
    let looks = if have_ended || !are_any() { 0 } else { IN_VAIN.load(Relaxed).saturating_add(1) };
    IN_VAIN.store(looks, Relaxed);
    if looks > if have_cores() { LOOKS } else { LOOKS_SHARED } {
        std::thread::yield_now();
    }
}

unsafe extern "C" fn in_open_mpi() -> c_int {
    yield_after_idle_looks(advance());
    0
}

unsafe extern "C" fn in_mpich(_: *mut c_void) -> c_int {
    advance();
    if LISTED.load(SeqCst) != 0 {
        return MPICH_GOES_ON;
    }
    IS_CALLED.store(false, SeqCst);
    // A thread that has started an operation meanwhile may have found `IS_CALLED` set, and not registered.
    let goes_on = LISTED.load(SeqCst) != 0 && !IS_CALLED.swap(true, SeqCst);
    if goes_on { MPICH_GOES_ON } else { MPICH_DONE }
}

/// Marks the communicator of a group as freed. Returns whether the group is still needed; then it is freed later.
pub fn keeps(state: &'static GroupState) -> bool {
    let mut list = list();
    let Some(group) = state else { return false };
    let mut group = group.lock().ignore_poison();
    group.is_forgotten = true;
    if group.started.is_empty() {
        list.retain(|&listed| !std::ptr::eq(listed, state));
        LISTED.store(list.len(), SeqCst);
        return false;
    }
    true
}
