// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Communicators as groups of aggregation nodes: live nodes, for processes that share memory or are on several hosts,
//! or those in the switches of a simulated machine.
//!
//! A communicator forms its group at the first collective operation that a node can carry out. All its processes take
//! part in that operation, so they agree on a group there, by the MPI's own operations: if one process refuses, there
//! is none. An attribute of the communicator ends the group with it.
//!
//! Costs: some 100 us and a memory file for a communicator's first operation; a comparison for each later one.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Mutex, MutexGuard, OnceLock};

use selvedge_collectives::CollectiveGroup;
use selvedge_collectives::one_host::{Bootstrap, log};
use selvedge_host::simulated::is_simulated;
use selvedge_os::sync::IgnorePoison;

use crate::group::{Group, GroupState, free};
use crate::mpi::{Handle, Mpi, SUCCESS, spread};
use crate::{component, outstanding};

/// Operations that a live group has under way; below, bytes of the longest that its node carries out itself.
const CREDITS: u32 = 4;
const BYTES: u32 = 16 << 10;
/// Limit of a process's groups: each takes a mapping and a descriptor.
const GROUPS_MAX: usize = 256;

/// All communicators that had an operation, by handle.
static GROUPS: Mutex<Option<HashMap<Handle, &'static GroupState>>> = Mutex::new(None);

static FREED: AtomicU64 = AtomicU64::new(0);

/// A communicator that a thread has used, its group, and [`FREED`] then: if that is unchanged, the group exists.
#[derive(Clone, Copy)]
struct Recent {
    comm: Handle,
    group: *const GroupState,
    freed: u64,
}

thread_local! {
    static RECENT: [Cell<Recent>; 8] =
        const { [const { Cell::new(Recent { comm: 0, group: ptr::null(), freed: 0 }) }; 8] };
}

/// The group of a communicator. `None`: the MPI carries out its operations. A communicator's operations do not overlap,
/// and it is not freed during one. So only the progress of started operations uses the result at the same time.
#[inline]
pub fn of(mpi: &'static Mpi, comm: Handle) -> Option<MutexGuard<'static, Group>> {
    find(mpi, comm, find_or_make)?.as_ref()?.lock().ok()
}

/// The group of a communicator, for non-blocking operations. `None`: the MPI carries them out, also before the
/// communicator's first blocking one. A group cannot form without waiting. If it formed in the background, timing would
/// decide which operations it gets, and so the bits of results.
pub fn for_nonblocking(mpi: &'static Mpi, comm: Handle) -> Option<&'static GroupState> {
    find(mpi, comm, |mpi, comm| with_groups(|all| all.get(&comm).copied()).or_else(|| log_missing_group(mpi, comm)))
}

/// Logs once, at the communicator's process 0, that it has no group yet.
#[cold]
fn log_missing_group(mpi: &'static Mpi, comm: Handle) -> Option<&'static GroupState> {
    static SAID: Mutex<Vec<Handle>> = Mutex::new(Vec::new());
    if log::has_info() {
        let mut said = SAID.lock().ignore_poison();
        if let (false, Ok(Some((0, size)))) = (said.contains(&comm), mpi.place(comm)) {
            log::info(|| {
                let name = format!("communicator {comm:#x}, process 0 of {size}");
                format!("{name}: its non-blocking operations are the MPI's until a blocking one makes its group")
            });
            said.push(comm);
        }
    }
    None
}

#[inline]
fn find(
    mpi: &'static Mpi,
    comm: Handle,
    look_up: impl FnOnce(&'static Mpi, Handle) -> Option<&'static GroupState>,
) -> Option<&'static GroupState> {
    RECENT.with(|all| {
        let cell = &all[spread(comm, all.len())];
        let (recent, freed) = (cell.get(), FREED.load(Acquire));
        if recent.comm == comm && recent.freed == freed && !recent.group.is_null() {
            // SAFETY: no group has ended since it was found.
            return Some(unsafe { &*recent.group });
        }
        let group = look_up(mpi, comm)?;
        cell.set(Recent { comm, group, freed });
        Some(group)
    })
}

#[cold]
fn find_or_make(mpi: &'static Mpi, comm: Handle) -> Option<&'static GroupState> {
    match with_groups(|all| all.get(&comm).copied()) {
        Some(group) => Some(group),
        None => make(mpi, comm),
    }
}

fn with_groups<T>(with: impl FnOnce(&mut HashMap<Handle, &'static GroupState>) -> T) -> T {
    let mut all = GROUPS.lock().ignore_poison();
    with(all.get_or_insert_default())
}

/// Makes the group of a communicator. `None`: the MPI rejects the communicator.
fn make(mpi: &'static Mpi, comm: Handle) -> Option<&'static GroupState> {
    let place = mpi.place(comm).ok()?;
    let group = match place {
        None => Err("it is an intercommunicator".to_owned()),
        Some((_, 1)) => Err("it has one process".to_owned()),
        Some((rank, size)) => establish(mpi, comm, rank, size),
    };
    if let Some((rank, size)) = place.filter(|&(_, size)| size > 1) {
        let name = || format!("communicator {comm:#x}, process {rank} of {size}");
        match &group {
            Ok(_) if rank != 0 => {}
            Ok(group) => log::info(|| {
                let nonblocking = match leaves_nonblocking(mpi) {
                    None => "the non-blocking ones, too".to_owned(),
                    Some(reason) => format!("the non-blocking ones are the MPI's: {reason}"),
                };
                format!(
                    "{}: its collective operations go through aggregation nodes{}; {nonblocking}",
                    name(),
                    group.extent()
                )
            }),
            Err(reason) => log::info(|| format!("{}: its collective operations are the MPI's: {reason}", name())),
        }
    }
    let group: &'static GroupState = Box::leak(Box::new(group.ok().map(Mutex::new)));
    with_groups(|all| all.insert(comm, group));
    if component::is_active() {
        return Some(group);
    }
    // Without the attribute, a later communicator with this handle would get this group.
    let key = key(mpi);
    let is_set = key.is_some_and(|key| mpi.set_attribute(comm, key, ptr::from_ref(group).cast_mut().cast()).is_ok());
    if !is_set {
        log::warn(|| format!("communicator {comm:#x} has no attribute for its group"));
    }
    Some(group)
}

/// The reason why non-blocking operations are left to the MPI. The same at all processes.
pub fn leaves_nonblocking(mpi: &Mpi) -> Option<&'static str> {
    (!mpi.calls_while_waiting()).then_some("this MPI has no progress hook")
}

fn key(mpi: &'static Mpi) -> Option<c_int> {
    static KEY: OnceLock<Option<c_int>> = OnceLock::new();
    // SAFETY: `forget` takes what `make` gives.
    *KEY.get_or_init(|| unsafe { mpi.key(forget) }.ok())
}

/// Ends the group of a communicator.
///
/// # Safety
/// MPI calls it with a communicator and the value that `make` has set there.
unsafe extern "C" fn forget(comm: Handle, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    end(crate::mpi::library().map_or(comm, |mpi| mpi.handle(comm)));
    SUCCESS
}

/// Ends the group of a communicator.
pub fn end(comm: Handle) {
    if let Some(group) = with_groups(|all| all.remove(&comm)) {
        FREED.fetch_add(1, AcqRel);
        if !outstanding::keeps(group) {
            // SAFETY: no table gives it any more, and the communicator has no operation under way.
            unsafe { free(group) };
        }
    }
}

/// Whether this group belongs to this communicator. Both may have ended.
pub fn is_of(comm: Handle, group: *const ()) -> bool {
    with_groups(|all| all.get(&comm).is_some_and(|&state| ptr::eq(ptr::from_ref(state).cast(), group)))
}

struct MpiBootstrap {
    mpi: &'static Mpi,
    comm: Handle,
    size: usize,
}

impl Bootstrap for MpiBootstrap {
    fn allgather(&mut self, own: &[u64]) -> Result<Vec<u64>, String> {
        self.mpi.allgather(self.comm, self.size, own).map_err(|code| format!("MPI_Allgather returned {code}"))
    }
}

/// Agrees with the other processes on a group. The error is the reason why there is none.
fn establish(mpi: &'static Mpi, comm: Handle, rank: usize, size: usize) -> Result<Group, String> {
    let has_room = || with_groups(|all| all.values().filter(|group| group.is_some()).count()) < GROUPS_MAX;
    let is_off = !selvedge_settings::switch("SELVEDGE_MPI_COLLECTIVES", true);
    // In virtual time, a waiting thread may miss arrivals that another thread of the process takes.
    let has_threads = is_simulated() && mpi.has_threads();
    let reasons = [
        (is_off, "SELVEDGE_MPI_COLLECTIVES is 0"),
        (!has_room(), "this process has reached its limit of groups"),
        (has_threads, "its program has MPI_THREAD_MULTIPLE, and in virtual time groups do not support several threads"),
    ];
    let refuses = reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason));
    let bootstrap = &mut MpiBootstrap { mpi, comm, size };
    CollectiveGroup::form((rank, size), refuses, (CREDITS, BYTES), bootstrap).map(Group::new)
}
