// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups with operations that the program has started and does not wait for (MPI 4.1, 6.12), and who carries them on.
//!
//! Another process may wait for this one while this one waits in any call of the MPI's: for a message, at a window, in an operation of its own. So
//! the calls that complete requests do not suffice. Both MPIs have a list of functions that they call whenever they make progress, and
//! [`carry_on`] joins it: `opal_progress_register` of Open MPI, by which its own parts make progress, and `MPIX_Async_start` of MPICH. Before the
//! first operation is started neither list has it.
//!
//! Invariants
//! 1. A group with a request that is not over is in the list of those under way, and is not freed: the communicator may be.
//! 2. The list's lock is taken before a group's by who frees its communicator, and after it by who starts an operation: a program does not do
//!    both at once. Who carries on waits for no lock: the holder of a group's carries it on.
//! 3. Whoever holds the list's lock calls no function of the MPI. Whoever holds a group's calls such as make progress: there nobody waits for it.
//!
//! Costs: a load whenever the MPI makes progress. With operations under way, a look at each group that has some.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use selvedge_collectives::CollectiveGroup;
use selvedge_collectives::one_host::{Pending, ProgressHook};
use selvedge_nic::aggregation::Failure;

use crate::component;
use crate::groups::{self, Known};
use crate::mpi::{MPICH_DONE, MPICH_GOES_ON, Mpi};
use crate::requests::Started;

/// A group and its requests.
pub struct Group {
    operations: CollectiveGroup,
    /// The requests that are not over, with their numbers among the operations.
    started: Vec<(u64, Started)>,
    is_listed: bool,
    /// Its communicator is freed.
    is_forgotten: bool,
}

// SAFETY: an operation under way has addresses of the program's buffers, which any of its threads may use.
unsafe impl Send for Group {}

impl Group {
    pub fn new(operations: CollectiveGroup) -> Group {
        Group { operations, started: Vec::new(), is_listed: false, is_forgotten: false }
    }

    /// This process's number, and how many there are.
    #[inline]
    pub fn rank(&self) -> usize {
        self.operations.rank()
    }

    #[inline]
    pub fn size(&self) -> usize {
        self.operations.size()
    }

    /// For the log: between what the nodes are, if not between processes of a host.
    pub fn between(&self) -> String {
        match self.operations.hosts() {
            Some(hosts @ 2..) => format!(" of {hosts} hosts"),
            _ => String::new(),
        }
    }

    /// Whether an operation is the group's. Else it is the MPI's, at all processes.
    #[inline]
    pub fn supports(&self, operation: &Pending) -> bool {
        self.operations.supports(operation)
    }

    /// Carries an operation out, behind those under way, which go on meanwhile.
    #[inline]
    pub fn complete(&mut self, operation: Pending, idle: ProgressHook<'_>) -> Result<(), Failure> {
        let started = &mut self.started;
        self.operations.complete(operation, idle, &mut |number, outcome| {
            if let Some(at) = started.iter().position(|(of, _)| *of == number) {
                started.remove(at).1.end(outcome);
            }
        })
    }

    /// Carries on what is under way. Requests that are over go to `over`.
    fn carry_on(&mut self, over: &mut Vec<(Started, Result<(), Failure>)>) {
        self.operations.advance();
        let mut at = 0;
        while let Some(&(number, _)) = self.started.get(at) {
            match self.operations.outcome(number) {
                None => at += 1,
                Some(outcome) => {
                    self.operations.take(number);
                    over.push((self.started.remove(at).1, outcome));
                }
            }
        }
    }
}

/// Groups with operations under way.
static LIST: Mutex<Vec<&'static Known>> = Mutex::new(Vec::new());

/// How many those are.
static LISTED: AtomicUsize = AtomicUsize::new(0);

/// Whether [`carry_on`] is on the MPI's list.
static IS_CALLED: AtomicBool = AtomicBool::new(false);

fn list() -> MutexGuard<'static, Vec<&'static Known>> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts an operation of a group, for a request.
pub fn start(mpi: &'static Mpi, known: &'static Known, group: &mut Group, operation: Pending, request: Started) {
    let number = group.operations.add(operation);
    if let Some(outcome) = group.operations.outcome(number) {
        group.operations.take(number);
        return request.end(outcome);
    }
    group.started.push((number, request));
    if !group.is_listed {
        group.is_listed = true;
        let mut list = list();
        list.push(known);
        LISTED.store(list.len(), SeqCst);
    }
    if !IS_CALLED.swap(true, SeqCst) {
        // SAFETY: the functions take no lock that anyone holds while the MPI makes progress, but for a group's, for which they do not wait.
        let is_called = unsafe { mpi.call_while_waiting(in_open_mpi, in_mpich) };
        IS_CALLED.store(is_called, SeqCst);
    }
}

/// Whether operations are under way.
#[inline(always)]
pub fn are_some() -> bool {
    LISTED.load(Relaxed) != 0
}

/// Carries on all operations under way. Returns whether some have ended.
#[inline]
pub fn carry_on() -> bool {
    are_some() && carry_on_all()
}

fn carry_on_all() -> bool {
    let Ok(mut list) = LIST.try_lock() else { return false };
    let mut over = Vec::new();
    list.retain(|&known| {
        let Some(group) = known else { return false };
        let Ok(mut group) = group.try_lock() else { return true };
        group.carry_on(&mut over);
        if !group.started.is_empty() {
            return true;
        }
        group.is_listed = false;
        if group.is_forgotten {
            drop(group);
            // SAFETY: its communicator is freed, and this was the last list that had it.
            unsafe { groups::free(known) };
        }
        false
    });
    LISTED.store(list.len(), SeqCst);
    drop(list);
    let have_ended = !over.is_empty();
    over.into_iter().for_each(|(request, outcome)| request.end(outcome));
    have_ended
}

unsafe extern "C" fn in_open_mpi() -> c_int {
    component::let_others_run(carry_on());
    0
}

unsafe extern "C" fn in_mpich(_: *mut c_void) -> c_int {
    carry_on();
    if LISTED.load(SeqCst) != 0 {
        return MPICH_GOES_ON;
    }
    IS_CALLED.store(false, SeqCst);
    // Who has started an operation in between may have found that it was.
    let goes_on = LISTED.load(SeqCst) != 0 && !IS_CALLED.swap(true, SeqCst);
    if goes_on { MPICH_GOES_ON } else { MPICH_DONE }
}

/// The communicator of a group is freed. Returns whether the group is still needed, and is freed later.
pub fn keeps(group: &'static Known) -> bool {
    let mut list = list();
    let Some(known) = group else { return false };
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.is_forgotten = true;
    if known.started.is_empty() {
        list.retain(|&listed| !std::ptr::eq(listed, group));
        LISTED.store(list.len(), SeqCst);
        return false;
    }
    true
}
