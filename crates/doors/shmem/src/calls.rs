// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recording of the program's calls for a trace in OTF2, with `SELVEDGE_OTF2`.
//!
//! Each C function asks [`on`], its only cost without a recording: one branch. With a recording it tells [`enter`] and
//! [`leave`] around its work.
//!
//! Threads write to files of their own ([`selvedge_otf2::recording`]). At the end PE 0 makes the archive from those that
//! it finds. A job that is killed leaves the files, and its launcher makes the archive.

use std::cell::RefCell;
use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

pub use selvedge_otf2::recording::{Arguments, Class, Function};

use selvedge_otf2::archive::{self, Access, Atomic, Collective};
use selvedge_otf2::definitions::Role;
use selvedge_otf2::library::Library;
use selvedge_otf2::recording::{Effect, NO_RANK, Stream, Thread, calls_folder, now_ns};

use crate::check::Call;
use crate::handles::{Ctx, Team};
use crate::world::{self, World};

/// The classes of functions that the exports name.
pub mod class {
    use super::*;

    const fn access(access: Access, blocking: bool) -> Class {
        Class { effect: Effect::Access { access, blocking }, completes: false }
    }

    const fn atomic(kind: Atomic, blocking: bool) -> Class {
        access(Access::Atomic(kind), blocking)
    }

    const fn collective(collective: Collective) -> Class {
        Class { effect: Effect::Collective(collective), completes: false }
    }

    pub const PLAIN: Class = Class::plain(Role::Function);
    pub const WAIT: Class = Class::plain(Role::PointToPoint);
    pub const ALLOCATE: Class = Class::plain(Role::Allocate);
    pub const REALLOCATE: Class = Class::plain(Role::Reallocate);
    pub const DEALLOCATE: Class = Class::plain(Role::Deallocate);
    /// Functions that complete what was started before.
    pub const QUIET: Class = Class { effect: Effect::Plain(Role::Function), completes: true };
    pub const PUT: Class = access(Access::Put, true);
    pub const PUT_NBI: Class = access(Access::Put, false);
    pub const GET: Class = access(Access::Get, true);
    pub const GET_NBI: Class = access(Access::Get, false);
    pub const ACCUMULATE: Class = atomic(Atomic::Accumulate, true);
    pub const INCREMENT: Class = atomic(Atomic::Increment, true);
    pub const COMPARE_SWAP: Class = atomic(Atomic::CompareAndSwap, true);
    pub const COMPARE_SWAP_NBI: Class = atomic(Atomic::CompareAndSwap, false);
    pub const SWAP: Class = atomic(Atomic::Swap, true);
    pub const SWAP_NBI: Class = atomic(Atomic::Swap, false);
    pub const FETCH_ADD: Class = atomic(Atomic::FetchAndAdd, true);
    pub const FETCH_ADD_NBI: Class = atomic(Atomic::FetchAndAdd, false);
    pub const FETCH_INCREMENT: Class = atomic(Atomic::FetchAndIncrement, true);
    pub const FETCH_INCREMENT_NBI: Class = atomic(Atomic::FetchAndIncrement, false);
    pub const FETCH_ACCUMULATE: Class = atomic(Atomic::FetchAndAccumulate, true);
    pub const FETCH_ACCUMULATE_NBI: Class = atomic(Atomic::FetchAndAccumulate, false);
    pub const BARRIER: Class = Class { effect: Effect::Collective(Collective::Barrier), completes: true };
    pub const SYNC: Class = collective(Collective::Barrier);
    pub const BROADCAST: Class = collective(Collective::Broadcast);
    pub const COLLECT: Class = collective(Collective::AllGatherV);
    pub const FCOLLECT: Class = collective(Collective::AllGather);
    pub const ALLTOALL: Class = collective(Collective::AllToAll);
    pub const REDUCE: Class = collective(Collective::AllReduce);
    pub const SCAN: Class = collective(Collective::Scan);
    pub const EXCLUSIVE_SCAN: Class = collective(Collective::ExclusiveScan);
}

static ON: AtomicBool = AtomicBool::new(false);
static FOLDER: OnceLock<PathBuf> = OnceLock::new();
static THREADS: AtomicU32 = AtomicU32::new(0);

/// Starts of the library, which are recorded after they have ended.
static STARTS: [Function; 3] = [
    Function::new("shmem_init", class::PLAIN),
    Function::new("shmem_init_thread", class::PLAIN),
    Function::new("start_pes", class::PLAIN),
];

/// The recording of a thread.
enum Recording {
    New,
    Open(Stream),
    /// The file could not be made, or the recording has ended.
    Closed,
}

thread_local! {
    static RECORDING: RefCell<Recording> = const { RefCell::new(Recording::New) };
}

/// Whether calls are recorded.
#[inline(always)]
pub fn on() -> bool {
    ON.load(Relaxed)
}

fn stream_of<'a>(recording: &'a mut Recording, world: &World) -> Option<&'a mut Stream> {
    if let Recording::New = recording {
        let number = THREADS.fetch_add(1, Relaxed);
        let thread = Thread { rank: world.me() as u32, size: world.n_pes() as u32, number };
        let folder = FOLDER.get().map(|folder| calls_folder(folder)).unwrap_or_default();
        *recording = match Stream::create(&folder, thread) {
            Ok(stream) => Recording::Open(stream),
            Err(error) => {
                eprintln!("selvedge: SELVEDGE_OTF2={}: a thread is not recorded: {error}", folder.display());
                Recording::Closed
            }
        };
    }
    match recording {
        Recording::Open(stream) => Some(stream),
        _ => None,
    }
}

/// Records the start of a call.
pub fn enter(function: &'static Function, arguments: Arguments) {
    let Some(world) = world::existing() else { return };
    // A thread that has ended its data is no longer recorded.
    let _ = RECORDING.try_with(|recording| {
        if let Some(stream) = stream_of(&mut recording.borrow_mut(), world) {
            stream.enter(now_ns(), function, &arguments);
        }
    });
}

/// Records the end of the call that [`enter`] has recorded last.
pub fn leave() {
    let _ = RECORDING.try_with(|recording| {
        if let Recording::Open(stream) = &mut *recording.borrow_mut() {
            stream.leave(now_ns());
        }
    });
}

/// A recorded call, which ends when this is dropped: for functions that are not generated.
pub struct Recorded(());

impl Recorded {
    #[cold]
    pub fn enter(function: &'static Function, arguments: Arguments) -> Recorded {
        enter(function, arguments);
        Recorded(())
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        leave();
    }
}

// ---- Arguments ---------------------------------------------------------------------------------------------------

/// An operation towards a PE of a context.
pub fn access(ctx: Ctx, pe: c_int, (sent, received): (usize, usize)) -> Arguments {
    let rank = world::existing().and_then(|world| {
        let team = world.team_of(ctx)?;
        (0..team.size).contains(&pe).then(|| team.world_rank(pe))
    });
    let rank = rank.map_or(NO_RANK, |pe| pe as u32);
    Arguments { rank, sent: sent as u64, received: received as u64, all: false }
}

/// A collective operation over a team.
pub fn over_team(team: Team, root: Option<c_int>, bytes: usize) -> Arguments {
    over(team == Team::WORLD, root, bytes)
}

/// A collective operation over an active set.
pub fn over_set(size: c_int, root: Option<c_int>, bytes: usize) -> Arguments {
    over(world::existing().is_some_and(|world| world.n_pes() == size as usize), root, bytes)
}

/// A collective operation over all PEs, or over some.
pub fn over(all: bool, root: Option<c_int>, bytes: usize) -> Arguments {
    let rank = root.map_or(NO_RANK, |root| root as u32);
    Arguments { rank, sent: bytes as u64, received: bytes as u64, all }
}

// ---- Start and end -----------------------------------------------------------------------------------------------

/// The folder that the settings name, as a path from the root. `None`: no recording.
fn wanted() -> Option<PathBuf> {
    let folder = PathBuf::from(selvedge_settings::nonempty("SELVEDGE_OTF2")?);
    Some(std::path::absolute(&folder).unwrap_or(folder))
}

/// Starts the recording if the settings name a folder. `call` has started the library, since `since_ns`.
///
/// # Errors
/// The folder has an archive or cannot be written, or PE 0 finds no OTF2 library.
pub fn start(world: &World, call: Call, since_ns: u64) -> Result<(), String> {
    let Some(folder) = wanted() else { return Ok(()) };
    let named = |error: &dyn std::fmt::Display| format!("SELVEDGE_OTF2: {error}");
    archive::check_folder(&folder).map_err(|error| named(&error))?;
    if world.me() == 0 {
        Library::load().map_err(|error| named(&error))?;
    }
    let calls = calls_folder(&folder);
    std::fs::create_dir_all(&calls).map_err(|error| format!("SELVEDGE_OTF2={}: {error}", folder.display()))?;
    if FOLDER.set(folder).is_err() {
        // A start after the end is not recorded: the archive is complete.
        return Ok(());
    }
    RECORDING.with(|recording| {
        let thread = Thread { rank: world.me() as u32, size: world.n_pes() as u32, number: 0 };
        THREADS.store(1, Relaxed);
        let mut stream = Stream::create(&calls, thread).map_err(|error| {
            format!("SELVEDGE_OTF2: {}: {error}; remove the calls of an earlier run", calls.display())
        })?;
        let function = STARTS.iter().find(|function| function.name == call).unwrap_or(&STARTS[0]);
        stream.enter(since_ns, function, &Arguments::NONE);
        recording.replace(Recording::Open(stream));
        Ok(())
    })
}

/// Records the end of the start, after its barrier. From here calls are recorded.
pub fn started() {
    leave();
    let is_open = RECORDING.with(|recording| matches!(*recording.borrow(), Recording::Open(_)));
    ON.store(is_open, Relaxed);
}

/// Ends the recording at the end of the library: a barrier, and the archive at PE 0.
pub fn end(world: &World) {
    if !ON.swap(false, Relaxed) {
        return;
    }
    let _ = RECORDING.try_with(|recording| recording.replace(Recording::Closed));
    // The files of all PEs are complete after it.
    if world.process.barrier().is_err() || world.me() != 0 {
        return;
    }
    let Some(folder) = FOLDER.get() else { return };
    let program = std::env::args_os().next().unwrap_or_default();
    match selvedge_otf2::calls::make(folder, &program.to_string_lossy()) {
        Ok(made) => {
            if let Some(remark) = made.and_then(|made| made.remark(folder)) {
                eprintln!("selvedge: SELVEDGE_OTF2: {remark}");
            }
        }
        Err(error) => eprintln!("selvedge: SELVEDGE_OTF2: {error}"),
    }
}
