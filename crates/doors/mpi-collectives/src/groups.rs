// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Communicators as groups of aggregation nodes: live ones, of processes that share memory; those of several hosts; or those in the switches of a
//! simulated machine.
//!
//! A communicator gets its group at the first collective operation that a node can carry out. All its processes come to that operation, so they
//! agree there, by the MPI's own operations, on whether there is a group: if one process cannot take part, none does. An attribute of the
//! communicator ends the group with it.
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

use crate::component;
use crate::mpi::{Handle, Mpi, SUCCESS, spread};
use crate::under_way::{self, Group};

/// Operations of a group under way, and the longest that its node carries out by itself.
const CREDITS: u32 = 4;
const BYTES: u32 = 16 << 10;
/// The most groups of a process: each takes a mapping and a descriptor.
const GROUPS_MAX: usize = 256;

/// What is known of a communicator. None: its operations are the MPI's.
pub type Known = Option<Mutex<Group>>;

/// All communicators that had an operation, by handle.
static KNOWN: Mutex<Option<HashMap<Handle, &'static Known>>> = Mutex::new(None);

/// Counts the communicators that were freed.
static FREED: AtomicU64 = AtomicU64::new(0);

/// A communicator of a recent operation of a thread, its group, and [`FREED`] then. As long as none was freed since, the group is there.
#[derive(Clone, Copy)]
struct Recent {
    comm: Handle,
    group: *const Known,
    freed: u64,
}

thread_local! {
    static RECENT: [Cell<Recent>; 8] =
        const { [const { Cell::new(Recent { comm: 0, group: ptr::null(), freed: 0 }) }; 8] };
}

/// The group of a communicator. None: its operations are the MPI's. A communicator's operations come one after the other, and it is not freed
/// under one, so nobody else uses what this returns, but who carries on those that have been started.
#[inline]
pub fn of(mpi: &'static Mpi, comm: Handle) -> Option<MutexGuard<'static, Group>> {
    known_of(mpi, comm, look_up)?.as_ref()?.lock().ok()
}

/// The group of a communicator, for operations that do not wait. None: they are the MPI's, also if the communicator has had none that waits: a
/// group cannot be agreed on without waiting, and when it is there would depend on the time, and so would the bits of results.
pub fn of_operations_under_way(mpi: &'static Mpi, comm: Handle) -> Option<&'static Known> {
    known_of(mpi, comm, |mpi, comm| known(|all| all.get(&comm).copied()).or_else(|| say_that_none_waited(mpi, comm)))
}

/// Says it once of a communicator, at its first process.
#[cold]
fn say_that_none_waited(mpi: &'static Mpi, comm: Handle) -> Option<&'static Known> {
    static SAID: Mutex<Vec<Handle>> = Mutex::new(Vec::new());
    if log::has_info() {
        let mut said = SAID.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let (false, Ok(Some((0, size)))) = (said.contains(&comm), mpi.place(comm)) {
            log::info(|| {
                let name = format!("communicator {comm:#x}, process 0 of {size}");
                format!(
                    "{name}: its non-blocking operations are the MPI's until it has had a blocking one, which makes its group"
                )
            });
            said.push(comm);
        }
    }
    None
}

#[inline]
fn known_of(
    mpi: &'static Mpi,
    comm: Handle,
    look_up: impl FnOnce(&'static Mpi, Handle) -> Option<&'static Known>,
) -> Option<&'static Known> {
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
fn look_up(mpi: &'static Mpi, comm: Handle) -> Option<&'static Known> {
    match known(|all| all.get(&comm).copied()) {
        Some(group) => Some(group),
        None => remember(mpi, comm),
    }
}

fn known<T>(with: impl FnOnce(&mut HashMap<Handle, &'static Known>) -> T) -> T {
    let mut all = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    with(all.get_or_insert_default())
}

/// Makes the group of a communicator. None: MPI does not know the communicator.
fn remember(mpi: &'static Mpi, comm: Handle) -> Option<&'static Known> {
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
                    group.between()
                )
            }),
            Err(reason) => log::info(|| format!("{}: its collective operations are the MPI's: {reason}", name())),
        }
    }
    let group: &'static Known = Box::leak(Box::new(group.ok().map(Mutex::new)));
    known(|all| all.insert(comm, group));
    if component::is_active() {
        return Some(group);
    }
    // Without the attribute a later communicator with this handle would find this group.
    let key = key(mpi);
    let is_set = key.is_some_and(|key| mpi.set_attribute(comm, key, ptr::from_ref(group).cast_mut().cast()).is_ok());
    if !is_set {
        log::warn(|| format!("communicator {comm:#x} has no attribute for its group"));
    }
    Some(group)
}

/// Why the non-blocking operations of groups are the MPI's. All processes say the same.
pub fn leaves_nonblocking(mpi: &Mpi) -> Option<&'static str> {
    (!mpi.calls_while_waiting()).then_some("this MPI calls nobody while it waits")
}

/// The key of the attribute that ends groups.
fn key(mpi: &'static Mpi) -> Option<c_int> {
    static KEY: OnceLock<Option<c_int>> = OnceLock::new();
    // SAFETY: `forget` takes what `remember` gives.
    *KEY.get_or_init(|| unsafe { mpi.key(forget) }.ok())
}

/// A communicator ends.
///
/// # Safety
/// MPI calls it with a communicator and what `remember` has set there.
unsafe extern "C" fn forget(comm: Handle, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    end(crate::mpi::library().map_or(comm, |mpi| mpi.handle(comm)));
    SUCCESS
}

/// A communicator ends.
pub fn end(comm: Handle) {
    if let Some(group) = known(|all| all.remove(&comm)) {
        FREED.fetch_add(1, AcqRel);
        if !under_way::keeps(group) {
            // SAFETY: no table gives it any more, and the communicator has no operation under way.
            unsafe { free(group) };
        }
    }
}

/// Ends a group.
///
/// # Safety
/// `remember` has leaked it, and nobody has it any more.
pub unsafe fn free(group: &'static Known) {
    // SAFETY: by this function's contract.
    drop(unsafe { Box::from_raw(ptr::from_ref(group).cast_mut()) });
}

/// Whether a group is that of a communicator. Both may have ended.
pub fn is_of(comm: Handle, group: *const Known) -> bool {
    known(|all| all.get(&comm).is_some_and(|&known| ptr::eq(known, group)))
}

/// The processes of a communicator talk to each other by the MPI's own operations.
struct MpiBootstrap {
    mpi: &'static Mpi,
    comm: Handle,
    size: usize,
}

impl Bootstrap for MpiBootstrap {
    fn allgather(&mut self, own: &[u64]) -> Result<Vec<u64>, String> {
        self.mpi.gather(self.comm, self.size, own).map_err(|code| format!("MPI_Allgather gave {code}"))
    }
}

/// Agrees with the other processes on a group. The error says why there is none.
fn establish(mpi: &'static Mpi, comm: Handle, rank: usize, size: usize) -> Result<Group, String> {
    let has_room = || known(|all| all.values().filter(|group| group.is_some()).count()) < GROUPS_MAX;
    let is_off = std::env::var_os("SELVEDGE_MPI_COLLECTIVES").is_some_and(|value| value == "0");
    // In virtual time a thread that waits for a node's result may miss what other threads of the process have brought.
    let has_threads = is_simulated() && mpi.has_threads();
    let reasons = [
        (is_off, "SELVEDGE_MPI_COLLECTIVES is 0"),
        (!has_room(), "this process has as many groups as it may"),
        (has_threads, "its program has MPI_THREAD_MULTIPLE, and in virtual time groups do not take several threads"),
    ];
    let refuses = reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason));
    let bootstrap = &mut MpiBootstrap { mpi, comm, size };
    CollectiveGroup::form((rank, size), refuses, (CREDITS, BYTES), bootstrap).map(Group::new)
}
