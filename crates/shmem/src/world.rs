// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This PE in its job (OpenSHMEM 1.6, "Library Setup, Exit, and Query Routines").
//!
//! At the start, a process finds its job, makes its symmetric memory and a NIC that offers it, moves its static data
//! there, and sends a [`StartRecord`] to all other PEs. It attaches a peer when it first communicates with it.
//!
//! Invariants
//! 1. There is one [`World`]. The first `shmem_init` makes it and it is never freed, so references to it stay valid.
//!    After `shmem_finalize` no call reaches it.
//! 2. Whether memory is directly mapped is the same at all PEs. It follows from the job's settings, and for static data
//!    from the start records of all PEs.
//! 3. An address of the program is checked against the memory that this PE has committed. Memory is allocated
//!    collectively, so every PE has committed as much before the program knows the address.
//!
//! Costs: 64 bytes for each peer; its segment and its memory are mapped when it is attached.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use selvedge_transport::nic::Limits;
use selvedge_transport::process::ProcessError;
use selvedge_transport::{Interface, Opened, Process, Symmetric, Window};

use crate::context::Contexts;
use crate::counting::Counters;
use crate::mapped::{self, Peer};
use crate::remote::{Commands, set_root};
use crate::symmetric::{Heap, Layout};
use crate::{Call, check, collective, team};

/// The number of the NIC that OpenSHMEM opens. Portals programs may open those below it.
const NI: u32 = 4;
/// How often a wait yields its core before it sleeps. Where PEs share cores, the PE that is waited for is likely to run
/// meanwhile, and a yield costs less than sleeping and waking.
pub(crate) const YIELDS: usize = 50;
/// The longest sleep of a wait. A store through `shmem_ptr` wakes nobody, so a wait polls again by itself.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// Thread levels of the standard.
pub mod thread {
    pub const SINGLE: i32 = 0;
    pub const MULTIPLE: i32 = 3;
}

/// This PE, and its knowledge of the others.
pub struct World {
    me: usize,
    n_pes: usize,
    pub(crate) oversubscribed: bool,
    pub(crate) multiple: AtomicBool,
    /// Peers' memory is directly mapped.
    pub(crate) memory_mapped: bool,
    /// Start of the program's heap, and the bytes of it that exist here and at every PE.
    pub(crate) heap_start: usize,
    pub(crate) heap_bytes: AtomicUsize,
    /// The program's static data, and whether they are directly mapped at peers.
    pub(crate) data: Range<usize>,
    pub(crate) data_mapped: bool,
    /// Start of the symmetric memory in this process.
    pub(crate) root: usize,
    pub(crate) peers: Box<[Peer]>,
    pub(crate) nics: Box<[PeerNic]>,
    pub(crate) interface: &'static Interface,
    pub(crate) symmetric: Symmetric,
    pub(crate) heap: Mutex<Heap>,
    pub(crate) contexts: Contexts,
    pub(crate) counters: Counters,
    pub(crate) commands: Commands,
    pub(crate) teams: team::Teams,
    process: Arc<Process>,
    opened: &'static Opened,
}

/// The NIC of a PE.
pub(crate) struct PeerNic {
    /// Its Portals id.
    pub id: u64,
    /// Its memory and its NIC, mapped here once it is attached.
    pub window: OnceLock<Window<'static>>,
}

/// The record that a PE sends to all others at the start: 8 words.
#[repr(C)]
#[derive(Clone, Copy)]
struct StartRecord {
    id: u64,
    data_bytes: u64,
    /// Bytes between the first whole page of static data and the first variable.
    data_lead: u64,
    /// Its static data are in the shared file.
    adopted: u64,
    heap_at: u64,
    heap_bytes: u64,
    memory_mapped: u64,
    counters: u64,
}

const START_RECORD_WORDS: usize = 8;

static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());
/// The world, also after the end, for a `shmem_init` that follows `shmem_finalize`.
static MADE: OnceLock<&'static World> = OnceLock::new();
/// Calls of `shmem_init` without their `shmem_finalize`.
static STARTED: AtomicI32 = AtomicI32::new(0);
static STARTING: Mutex<()> = Mutex::new(());
static LEVEL: AtomicI32 = AtomicI32::new(thread::SINGLE);

/// The world, while the library runs. None: the call has been reported.
#[inline(always)]
pub fn world(call: Call) -> Option<&'static World> {
    // SAFETY: null, or the world, which is leaked by `start` and so never freed.
    let world = unsafe { WORLD.load(Acquire).as_ref() };
    if world.is_none() {
        check::not_running(call, MADE.get().is_some());
    }
    world
}

/// The reason why the library did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("no symmetric memory: {0}")]
    Memory(String),
    #[error("{0}")]
    Setting(String),
    #[error("the PEs do not agree: {0}")]
    Disagreement(String),
}

impl World {
    #[inline(always)]
    pub fn me(&self) -> usize {
        self.me
    }

    #[inline(always)]
    pub fn n_pes(&self) -> usize {
        self.n_pes
    }

    /// There are more PEs than cores. A wake-up then costs more than a round of messages.
    #[inline(always)]
    pub fn oversubscribed(&self) -> bool {
        self.oversubscribed
    }

    /// Every PE's symmetric memory is directly mapped here.
    #[inline(always)]
    pub fn memory_mapped(&self) -> bool {
        self.memory_mapped
    }

    /// Waits until `poll` finds something: polls, then sleeps, and keeps the NIC going meanwhile. Where PEs share
    /// cores, it first yields some times, because the PE that is waited for may need this core.
    #[inline(always)]
    pub fn wait<T>(&self, poll: impl FnMut() -> Option<T>) -> T {
        self.wait_watching(|| true, poll)
    }

    /// As `wait`. Where every PE has a core, the first polls are left out while `is_due` says no.
    #[inline(always)]
    pub fn wait_watching<T>(&self, mut is_due: impl FnMut() -> bool, mut poll: impl FnMut() -> Option<T>) -> T {
        if self.oversubscribed {
            for _ in 0..YIELDS {
                self.progress();
                if let Some(found) = poll() {
                    return found;
                }
                std::thread::yield_now();
            }
        }
        loop {
            if let Ok(found) = self.interface.wait_watching(None, &mut is_due, &mut poll) {
                return found;
            }
            // Another thread's finalize has closed the interface, so nothing can arrive any more.
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Lets the NIC take in what has arrived.
    #[inline(always)]
    pub fn progress(&self) {
        self.interface.poll();
    }

    /// Makes the world, all but the barrier that ends the start.
    fn make() -> Result<World, StartError> {
        let process = Process::current()?;
        let (me, n_pes) = (process.rank() as usize, process.size() as usize);
        check::set_up(me, check::variable("DEBUG").is_some());
        let max_counters = Counters::limit().map_err(StartError::Setting)?;
        let sizes = Layout::plan(max_counters).map_err(StartError::Setting)?;
        let symmetric = Symmetric::create(process.directory().path(), sizes.reserved())
            .and_then(|symmetric| symmetric.commit(sizes.heap_at).map(|()| symmetric))
            .map_err(|error| StartError::Memory(error.to_string()))?;
        set_root(symmetric.base() as usize);
        let limits = Limits {
            entries: 2 * max_counters + 16,
            headers: 16,
            descriptors: 16,
            counters: max_counters + Contexts::MAX + 16,
            queues: 4,
            portals: 4,
            list: 2 * max_counters + 16,
            ..Limits::DEFAULT
        };
        let opened: &'static Opened =
            Box::leak(Box::new(process.open_as(NI, None, &limits.clamped(), symmetric.range(), SLEEP_MAX)?));
        let interface: &'static Interface = &opened.interface;
        let memory_mapped = interface.stores_in_place();
        let adopted = memory_mapped && sizes.adopt(&symmetric);
        let commands = Commands::set_up(interface, &symmetric, &sizes.data.bytes)
            .map_err(|why| StartError::Memory(why.to_string()))?;
        let data_bytes = sizes.data.bytes.end - sizes.data.bytes.start;
        let own = StartRecord {
            id: interface.id(),
            data_bytes,
            data_lead: sizes.data.bytes.start - sizes.data.pages.start,
            adopted: adopted.into(),
            heap_at: sizes.heap_at,
            heap_bytes: sizes.heap_bytes,
            memory_mapped: memory_mapped.into(),
            counters: max_counters.into(),
        };
        let records = own.exchange(&process)?;
        own.check(&records)?;
        // PEs that run different programs have no static data in common.
        let alike =
            records.iter().all(|record| (record.data_bytes, record.data_lead) == (own.data_bytes, own.data_lead));
        let data = if alike { sizes.data.bytes.start as usize..sizes.data.bytes.end as usize } else { 0..0 };
        let data_mapped = alike && records.iter().all(|record| record.adopted != 0);
        let root = symmetric.base() as usize;
        let oversubscribed = n_pes > process.settings.cores;
        Ok(World {
            me,
            n_pes,
            oversubscribed,
            multiple: AtomicBool::new(false),
            memory_mapped,
            heap_start: root + sizes.heap_at as usize,
            heap_bytes: AtomicUsize::new(0),
            data_mapped,
            data,
            root,
            peers: records.iter().map(|_| Peer::default()).collect(),
            nics: records.iter().map(|record| PeerNic { id: record.id, window: OnceLock::new() }).collect(),
            interface,
            heap: Mutex::new(Heap::new(sizes.heap_at, sizes.heap_bytes)),
            contexts: Contexts::new(interface, !(memory_mapped && data_mapped))
                .map_err(|why| StartError::Memory(why.to_string()))?,
            counters: Counters::new(max_counters as usize),
            commands,
            teams: team::Teams::new(me, n_pes, memory_mapped),
            symmetric,
            process,
            opened,
        })
    }

    /// Attaches a PE, so that its memory is mapped here if it may be. None: the PE is gone.
    #[cold]
    #[inline(never)]
    pub(crate) fn attach(&self, pe: usize) -> Option<&Window<'static>> {
        let (peer, nic) = (&self.peers[pe], &self.nics[pe]);
        let window = match nic.window.get() {
            Some(window) => window,
            None => {
                let window = self.interface.window(nic.id)?;
                nic.window.get_or_init(|| window)
            }
        };
        let root = window.memory() as usize;
        peer.heap_shift.store(root.wrapping_sub(self.root), Relaxed);
        let own_pages = self.data.start & !(page_bytes() - 1);
        let data_shift = if pe == self.me { 0 } else { root.wrapping_sub(own_pages) };
        peer.data_shift.store(data_shift, Relaxed);
        peer.sleepers.store(std::ptr::from_ref(window.sleepers()).cast_mut(), Relaxed);
        if self.memory_mapped {
            peer.data_bytes.store(if self.data_mapped { self.data.len() } else { 0 }, Release);
            peer.heap_bytes.store(self.heap_bytes.load(SeqCst), Release);
        }
        Some(window)
    }

    /// Records that so many bytes of the heap exist at every PE.
    pub(crate) fn heap_has_grown(&self, bytes: usize) {
        self.heap_bytes.store(bytes, SeqCst);
        if self.memory_mapped {
            let attached = self.peers.iter().zip(&self.nics).filter(|(_, nic)| nic.window.get().is_some());
            attached.for_each(|(peer, _)| peer.heap_bytes.store(bytes, Release));
        }
    }

    /// The mapped NIC and memory of a PE, attached if it is not yet.
    #[inline(always)]
    pub(crate) fn window(&self, pe: usize) -> Option<&Window<'static>> {
        match self.nics[pe].window.get() {
            Some(window) => Some(window),
            None => self.attach(pe),
        }
    }

    /// Wakes a PE if it sleeps. The caller has made its stores to mapped memory before.
    #[inline(always)]
    pub fn wake(&self, pe: usize) {
        if let Some(window) = self.nics[pe].window.get() {
            window.ring();
        }
    }
}

impl StartRecord {
    /// Sends this record to all PEs and returns the records of all.
    fn exchange(&self, process: &Process) -> Result<Vec<StartRecord>, StartError> {
        let words = [
            self.id,
            self.data_bytes,
            self.data_lead,
            self.adopted,
            self.heap_at,
            self.heap_bytes,
            self.memory_mapped,
            self.counters,
        ];
        let own: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let all = process.exchange(&own)?;
        let record = |bytes: &[u8]| {
            let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
            let mut next = || words.next().unwrap_or_default();
            StartRecord {
                id: next(),
                data_bytes: next(),
                data_lead: next(),
                adopted: next(),
                heap_at: next(),
                heap_bytes: next(),
                memory_mapped: next(),
                counters: next(),
            }
        };
        Ok(all.chunks_exact(START_RECORD_WORDS * 8).map(record).collect())
    }

    /// Refuses records that differ in what all PEs must have in common.
    fn check(&self, records: &[StartRecord]) -> Result<(), StartError> {
        for (pe, record) in records.iter().enumerate() {
            let same = |what: &str, own: u64, theirs: u64| {
                if own == theirs {
                    return Ok(());
                }
                Err(StartError::Disagreement(format!("{what} is {own} here and {theirs} at PE {pe}")))
            };
            same("SHMEM_SYMMETRIC_SIZE", self.heap_bytes, record.heap_bytes)?;
            same("SELVEDGE_SHMEM_COUNTERS", self.counters, record.counters)?;
            same(
                "whether memory is directly mapped (SELVEDGE_MODE, SELVEDGE_PATH)",
                self.memory_mapped,
                record.memory_mapped,
            )?;
            // The heap follows the static data. Where its offset differs, the programs differ, and no offset would fit
            // both.
            same("the size of the program's static data", self.heap_at, record.heap_at)?;
        }
        Ok(())
    }
}

pub(crate) fn page_bytes() -> usize {
    // SAFETY: `sysconf` takes a number and touches no memory of the program.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

// ---- Starting and ending -----------------------------------------------------------------------------------------

/// Starts the library, or counts one more start.
fn start(level: i32) -> Result<(), StartError> {
    let _starting = STARTING.lock().unwrap_or_else(|poison| poison.into_inner());
    if STARTED.load(SeqCst) == 0 {
        if MADE.get().is_none() {
            let world: &'static World = Box::leak(Box::new(World::make()?));
            crate::info::announce(world);
            let _ = MADE.set(world);
            // SAFETY: `at_exit` is a function of this object with the signature that `atexit` asks for. libc calls it
            // when the process exits or the object is unloaded, so while its code is mapped.
            unsafe { libc::atexit(at_exit) };
        }
        let world = MADE.get().copied().unwrap_or_else(|| unreachable!("just made"));
        LEVEL.store(level, SeqCst);
        world.multiple.store(level == thread::MULTIPLE, SeqCst);
        WORLD.store(std::ptr::from_ref(world).cast_mut(), Release);
        mapped::open(Some(world));
        // No PE goes on before the NICs of all have their entries.
        world.process.barrier()?;
    }
    STARTED.fetch_add(1, SeqCst);
    Ok(())
}

fn start_or_die(call: Call, level: i32) {
    if let Err(error) = start(level) {
        eprintln!("selvedge: {call}: {error}");
        match Process::existing() {
            Some(process) => process.abort(1, &format!("{call} failed: {error}")),
            None => std::process::exit(1),
        }
    }
}

pub fn init(call: Call) {
    start_or_die(call, thread::SINGLE);
}

/// `start_pes`: as `shmem_init`. A program that calls it never calls `shmem_finalize`, so the end of the program does.
pub fn start_pes(call: Call, _n_pes: c_int) {
    if STARTED.load(SeqCst) == 0 {
        FINALIZE_AT_EXIT.store(true, SeqCst);
        start_or_die(call, thread::SINGLE);
    }
}

pub unsafe fn init_thread(call: Call, requested: c_int, provided: *mut c_int) -> c_int {
    if !(thread::SINGLE..=thread::MULTIPLE).contains(&requested) {
        check::refuse(
            call,
            "requested",
            format_args!("{requested}: not one of SHMEM_THREAD_SINGLE to SHMEM_THREAD_MULTIPLE"),
        );
        return 1;
    }
    match start(requested) {
        Ok(()) => {
            // SAFETY: null, or the `int` that the clause of `shmem_init_thread` says is written.
            if let Some(provided) = unsafe { provided.as_mut() } {
                *provided = LEVEL.load(SeqCst);
            }
            0
        }
        Err(error) => {
            eprintln!("selvedge: {call}: {error}");
            1
        }
    }
}

pub fn finalize(call: Call) {
    let Some(world) = world(call) else { return };
    // Each finalize is a barrier; the last one also ends the library.
    collective::barrier_all(call);
    if STARTED.load(SeqCst) == 1 {
        team::release_all(world);
        mapped::open(None);
        WORLD.store(std::ptr::null_mut(), Release);
    }
    STARTED.fetch_sub(1, SeqCst);
}

static FINALIZE_AT_EXIT: AtomicBool = AtomicBool::new(false);

/// Ends the library with the program. A program that called `start_pes` is finalized here. One that forgot
/// `shmem_finalize` just ends, and its memory stays mapped at its peers.
extern "C" fn at_exit() {
    let _ = std::panic::catch_unwind(|| {
        let Some(world) = MADE.get() else { return };
        if world.process.is_forked_child() {
            return;
        }
        if FINALIZE_AT_EXIT.load(SeqCst) && STARTED.load(SeqCst) > 0 {
            STARTED.store(1, SeqCst);
            finalize("shmem_finalize");
        }
        world.symmetric.forget();
        world.opened.interface.shut();
        world.process.finalize();
    });
}

pub fn global_exit(call: Call, status: c_int) -> ! {
    match MADE.get() {
        Some(world) => world.process.end_all(status),
        None => {
            check::not_running(call, false);
            std::process::exit(status)
        }
    }
}

// ---- Queries -----------------------------------------------------------------------------------------------------

pub unsafe fn query_thread(call: Call, provided: *mut c_int) {
    if world(call).is_some() {
        // SAFETY: null, or the `int` that the clause of `shmem_query_thread` says is written.
        if let Some(provided) = unsafe { provided.as_mut() } {
            *provided = LEVEL.load(SeqCst);
        }
    }
}

pub unsafe fn query_initialized(_call: Call, initialized: *mut c_int) {
    // SAFETY: null, or the `int` that the clause of `shmem_query_initialized` says is written.
    if let Some(initialized) = unsafe { initialized.as_mut() } {
        *initialized = c_int::from(STARTED.load(SeqCst) > 0);
    }
}

#[inline]
pub fn my_pe(call: Call) -> c_int {
    world(call).map_or(-1, |world| world.me as c_int)
}

#[inline]
pub fn n_pes(call: Call) -> c_int {
    world(call).map_or(-1, |world| world.n_pes as c_int)
}

pub fn pe_accessible(call: Call, pe: c_int) -> c_int {
    world(call).map_or(0, |world| c_int::from((pe as usize) < world.n_pes))
}

pub fn addr_accessible(call: Call, address: *const c_void, pe: c_int) -> c_int {
    let Some(world) = world(call) else { return 0 };
    c_int::from((pe as usize) < world.n_pes && world.find(address.cast(), 1).is_some())
}

/// `shmem_ptr`: the address at which this PE may load and store an object of another PE, or null.
pub fn ptr(call: Call, dest: *const c_void, pe: c_int) -> *mut c_void {
    let Some(world) = world(call) else { return std::ptr::null_mut() };
    if pe as usize >= world.n_pes {
        check::refuse(call, "pe", format_args!("{pe}: there are {} PEs", world.n_pes));
        return std::ptr::null_mut();
    }
    world.pointer(dest.cast(), pe as usize).cast()
}
