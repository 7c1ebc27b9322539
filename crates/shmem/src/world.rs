// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This PE in its job (OpenSHMEM 1.6, "Library Setup, Exit, and Query Routines").
//!
//! Starting up: the process finds its job, makes its symmetric memory and a NIC that offers it, moves its static data there,
//! and tells the others where everything is. Peers are attached at the first word to them.
//!
//! Invariants
//! 1. There is one [`World`], made by the first `shmem_init` and kept to the end of the process, so that references to it
//!    never dangle; after `shmem_finalize` no call reaches it.
//! 2. Whether memory is reached in place is the same at all PEs: it follows from the job's settings, and for static data
//!    from what every PE said at the start.
//! 3. What an address of the program is checked against is what this PE has committed. Memory is allocated collectively, so
//!    every PE has committed as much before any address of it is known.
//!
//! Costs: for each peer 64 bytes, and its segment and memory mapped at the first word to it.

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
use crate::hand::{self, Peer};
use crate::remote::{Commands, place_root};
use crate::symmetric::{Heap, Sizes};
use crate::{Call, check, collective, team};

/// The number of the NIC that OpenSHMEM opens: behind those that Portals programs may open.
const NI: u32 = 4;
/// How often a wait gives its core away before it sleeps. Whoever is waited for is likely to be among those that run
/// meanwhile: of 8 PEs on two cores, a sync takes a fifth of the time that sleeping and waking takes.
pub(crate) const YIELDS: usize = 50;
/// The longest sleep of a wait: what is stored through `shmem_ptr` wakes nobody.
const NAP: Duration = Duration::from_millis(1);

/// Thread levels of the standard.
pub mod thread {
    pub const SINGLE: i32 = 0;
    pub const MULTIPLE: i32 = 3;
}

/// This PE, and what it knows of the others.
pub struct World {
    me: usize,
    n_pes: usize,
    pub(crate) crowded: bool,
    pub(crate) multiple: AtomicBool,
    /// Memory is reached in place.
    pub(crate) in_place: bool,
    /// Where the program's heap starts, and bytes of it that exist here and everywhere.
    pub(crate) heap_start: usize,
    pub(crate) heap_bytes: AtomicUsize,
    /// The program's static data, and whether they are reached in place.
    pub(crate) data: Range<usize>,
    pub(crate) data_in_place: bool,
    /// Where the symmetric memory begins here.
    pub(crate) root: usize,
    pub(crate) peers: Box<[Peer]>,
    pub(crate) routes: Box<[Route]>,
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

/// The way to a PE.
pub(crate) struct Route {
    /// Its Portals id.
    pub id: u64,
    /// Its memory and NIC, once it is attached.
    pub window: OnceLock<Window<'static>>,
}

/// What a PE tells the others at the start: 8 words.
#[repr(C)]
#[derive(Clone, Copy)]
struct Card {
    id: u64,
    data_bytes: u64,
    /// Bytes between the first whole page of static data and the first variable.
    data_lead: u64,
    /// Its static data are in the shared file.
    adopted: u64,
    heap_at: u64,
    heap_bytes: u64,
    in_place: u64,
    counters: u64,
}

const CARD_WORDS: usize = 8;

static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());
/// The world, also after the end: `shmem_init` after `shmem_finalize` finds it.
static MADE: OnceLock<&'static World> = OnceLock::new();
/// `shmem_init`s that no `shmem_finalize` has answered.
static STARTED: AtomicI32 = AtomicI32::new(0);
static STARTING: Mutex<()> = Mutex::new(());
static LEVEL: AtomicI32 = AtomicI32::new(thread::SINGLE);

/// The world, while the library runs; else the call is reported.
#[inline(always)]
pub fn world(call: Call) -> Option<&'static World> {
    // SAFETY: null, or the world that is never freed.
    let world = unsafe { WORLD.load(Acquire).as_ref() };
    if world.is_none() {
        check::not_running(call, MADE.get().is_some());
    }
    world
}

/// Why the library did not start.
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

    /// More PEs than cores: few wake-ups are worth more than few rounds.
    #[inline(always)]
    pub fn crowded(&self) -> bool {
        self.crowded
    }

    /// Every PE's symmetric memory is mapped here and may be written in place.
    #[inline(always)]
    pub fn in_place(&self) -> bool {
        self.in_place
    }

    /// Waits until `look` finds something: spins, then sleeps; the NIC is kept going meanwhile. Where PEs share cores, it
    /// first lets others run, since one of them is waited for, and sleeping and waking takes longer than a turn of theirs.
    #[inline(always)]
    pub fn wait<T>(&self, look: impl FnMut() -> Option<T>) -> T {
        self.wait_watching(|| true, look)
    }

    /// As `wait`; where every PE has a core, of the first looks only those are made that are due.
    #[inline(always)]
    pub fn wait_watching<T>(&self, mut is_due: impl FnMut() -> bool, mut look: impl FnMut() -> Option<T>) -> T {
        if self.crowded {
            for _ in 0..YIELDS {
                self.progress();
                if let Some(found) = look() {
                    return found;
                }
                std::thread::yield_now();
            }
        }
        loop {
            if let Ok(found) = self.interface.wait_watching(None, &mut is_due, &mut look) {
                return found;
            }
            // The interface was closed by another thread's finalize: nothing will come any more.
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// One turn of the NIC.
    #[inline(always)]
    pub fn progress(&self) {
        self.interface.poll();
    }

    /// Makes the world: everything but the last word to the others.
    fn make() -> Result<World, StartError> {
        let process = Process::current()?;
        let (me, n_pes) = (process.rank() as usize, process.size() as usize);
        check::set_up(me, check::variable("DEBUG").is_some());
        let max_counters = Counters::limit().map_err(StartError::Setting)?;
        let sizes = Sizes::plan(max_counters).map_err(StartError::Setting)?;
        let symmetric = Symmetric::create(process.directory().path(), sizes.reserved())
            .and_then(|symmetric| symmetric.commit(sizes.heap_at).map(|()| symmetric))
            .map_err(|error| StartError::Memory(error.to_string()))?;
        place_root(symmetric.base() as usize);
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
            Box::leak(Box::new(process.open_as(NI, None, &limits.clamped(), symmetric.range(), NAP)?));
        let interface: &'static Interface = &opened.interface;
        let in_place = interface.stores_in_place();
        let adopted = in_place && sizes.adopt(&symmetric);
        let commands = Commands::set_up(interface, &symmetric, &sizes.data.bytes)
            .map_err(|why| StartError::Memory(why.to_string()))?;
        let data_bytes = sizes.data.bytes.end - sizes.data.bytes.start;
        let own = Card {
            id: interface.id(),
            data_bytes,
            data_lead: sizes.data.bytes.start - sizes.data.pages.start,
            adopted: adopted.into(),
            heap_at: sizes.heap_at,
            heap_bytes: sizes.heap_bytes,
            in_place: in_place.into(),
            counters: max_counters.into(),
        };
        let cards = own.exchange(&process)?;
        own.check(&cards)?;
        // Programs that differ have no static data in common.
        let alike = cards.iter().all(|card| (card.data_bytes, card.data_lead) == (own.data_bytes, own.data_lead));
        let data = if alike { sizes.data.bytes.start as usize..sizes.data.bytes.end as usize } else { 0..0 };
        let data_in_place = alike && cards.iter().all(|card| card.adopted != 0);
        let root = symmetric.base() as usize;
        let crowded = n_pes > process.settings.cores;
        Ok(World {
            me,
            n_pes,
            crowded,
            multiple: AtomicBool::new(false),
            in_place,
            heap_start: root + sizes.heap_at as usize,
            heap_bytes: AtomicUsize::new(0),
            data_in_place,
            data,
            root,
            peers: cards.iter().map(|_| Peer::default()).collect(),
            routes: cards.iter().map(|card| Route { id: card.id, window: OnceLock::new() }).collect(),
            interface,
            heap: Mutex::new(Heap::new(sizes.heap_at, sizes.heap_bytes)),
            contexts: Contexts::new(interface, !(in_place && data_in_place))
                .map_err(|why| StartError::Memory(why.to_string()))?,
            counters: Counters::new(max_counters as usize),
            commands,
            teams: team::Teams::new(me, n_pes, in_place),
            symmetric,
            process,
            opened,
        })
    }

    /// Attaches a PE: afterwards its memory is reached in place. None: it is gone.
    #[cold]
    #[inline(never)]
    pub(crate) fn attach(&self, pe: usize) -> Option<&Window<'static>> {
        let (peer, route) = (&self.peers[pe], &self.routes[pe]);
        let window = match route.window.get() {
            Some(window) => window,
            None => {
                let window = self.interface.window(route.id)?;
                route.window.get_or_init(|| window)
            }
        };
        let root = window.memory() as usize;
        peer.heap_shift.store(root.wrapping_sub(self.root), Relaxed);
        let own_pages = self.data.start & !(page_bytes() - 1);
        let data_shift = if pe == self.me { 0 } else { root.wrapping_sub(own_pages) };
        peer.data_shift.store(data_shift, Relaxed);
        peer.sleepers.store(std::ptr::from_ref(window.sleepers()).cast_mut(), Relaxed);
        if self.in_place {
            peer.data_bytes.store(if self.data_in_place { self.data.len() } else { 0 }, Release);
            peer.heap_bytes.store(self.heap_bytes.load(SeqCst), Release);
        }
        Some(window)
    }

    /// So much of the heap exists at every PE.
    pub(crate) fn heap_has_grown(&self, bytes: usize) {
        self.heap_bytes.store(bytes, SeqCst);
        if self.in_place {
            let attached = self.peers.iter().zip(&self.routes).filter(|(_, route)| route.window.get().is_some());
            attached.for_each(|(peer, _)| peer.heap_bytes.store(bytes, Release));
        }
    }

    /// What a PE has offered of its NIC, attached at need.
    #[inline(always)]
    pub(crate) fn window(&self, pe: usize) -> Option<&Window<'static>> {
        match self.routes[pe].window.get() {
            Some(window) => Some(window),
            None => self.attach(pe),
        }
    }

    /// Wakes a PE if it sleeps. After stores to its memory in place.
    #[inline(always)]
    pub fn ring(&self, pe: usize) {
        if let Some(window) = self.routes[pe].window.get() {
            window.ring();
        }
    }
}

impl Card {
    /// Gives every PE everyone's card.
    fn exchange(&self, process: &Process) -> Result<Vec<Card>, StartError> {
        let words = [
            self.id,
            self.data_bytes,
            self.data_lead,
            self.adopted,
            self.heap_at,
            self.heap_bytes,
            self.in_place,
            self.counters,
        ];
        let own: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let all = process.exchange(&own)?;
        let card = |bytes: &[u8]| {
            let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
            let mut next = || words.next().unwrap_or_default();
            Card {
                id: next(),
                data_bytes: next(),
                data_lead: next(),
                adopted: next(),
                heap_at: next(),
                heap_bytes: next(),
                in_place: next(),
                counters: next(),
            }
        };
        Ok(all.chunks_exact(CARD_WORDS * 8).map(card).collect())
    }

    /// What all must have alike.
    fn check(&self, cards: &[Card]) -> Result<(), StartError> {
        for (pe, card) in cards.iter().enumerate() {
            let same = |what: &str, own: u64, theirs: u64| {
                if own == theirs {
                    return Ok(());
                }
                Err(StartError::Disagreement(format!("{what} is {own} here and {theirs} at PE {pe}")))
            };
            same("SHMEM_SYMMETRIC_SIZE", self.heap_bytes, card.heap_bytes)?;
            same("SELVEDGE_SHMEM_COUNTERS", self.counters, card.counters)?;
            same("whether memory is reached in place (SELVEDGE_MODE, SELVEDGE_PATH)", self.in_place, card.in_place)?;
            // The heap's place follows the static data; where that differs the programs do, and offsets would not agree.
            same("the size of the program's static data", self.heap_at, card.heap_at)?;
        }
        Ok(())
    }
}

pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf only reads.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

// ---- Starting and ending -----------------------------------------------------------------------------------------

/// Starts the library, or counts one more start.
fn start(level: i32) -> Result<(), StartError> {
    let _turn = STARTING.lock().unwrap_or_else(|poison| poison.into_inner());
    if STARTED.load(SeqCst) == 0 {
        if MADE.get().is_none() {
            let world: &'static World = Box::leak(Box::new(World::make()?));
            crate::info::announce(world);
            let _ = MADE.set(world);
            // SAFETY: a function of this object; libc runs it at exit, or when the object is unloaded.
            unsafe { libc::atexit(at_exit) };
        }
        let world = MADE.get().copied().unwrap_or_else(|| unreachable!("just made"));
        LEVEL.store(level, SeqCst);
        world.multiple.store(level == thread::MULTIPLE, SeqCst);
        WORLD.store(std::ptr::from_ref(world).cast_mut(), Release);
        hand::open(Some(world));
        // Nobody goes on before everyone's NIC has its entries.
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

/// `start_pes`: as `shmem_init`; who calls it never calls `shmem_finalize`, so the end of the program does.
pub fn start_pes(call: Call, _n_pes: c_int) {
    if STARTED.load(SeqCst) == 0 {
        FINALIZE_AT_EXIT.store(true, SeqCst);
        start_or_die(call, thread::SINGLE);
    }
}

pub unsafe fn init_thread(call: Call, requested: c_int, provided: *mut c_int) -> c_int {
    if !(thread::SINGLE..=thread::MULTIPLE).contains(&requested) {
        check::refuse(call, "requested", format_args!("{requested}: no thread level"));
        return 1;
    }
    match start(requested) {
        Ok(()) => {
            // SAFETY: null, or the caller's.
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
    // Each is a barrier; the last one also ends the library.
    collective::barrier_all(call);
    if STARTED.load(SeqCst) == 1 {
        team::release_all(world);
        hand::open(None);
        WORLD.store(std::ptr::null_mut(), Release);
    }
    STARTED.fetch_sub(1, SeqCst);
}

static FINALIZE_AT_EXIT: AtomicBool = AtomicBool::new(false);

/// The program ends. One that called `start_pes` is finalized; one that forgot `shmem_finalize` just goes, and its memory
/// stays mapped at its peers.
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
        // SAFETY: null, or the caller's.
        if let Some(provided) = unsafe { provided.as_mut() } {
            *provided = LEVEL.load(SeqCst);
        }
    }
}

pub unsafe fn query_initialized(_call: Call, initialized: *mut c_int) {
    // SAFETY: null, or the caller's.
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

/// `shmem_ptr`: a PE's object as this PE may load and store it, or null.
pub fn ptr(call: Call, dest: *const c_void, pe: c_int) -> *mut c_void {
    let Some(world) = world(call) else { return std::ptr::null_mut() };
    if pe as usize >= world.n_pes {
        check::refuse(call, "pe", format_args!("{pe}: there are {} PEs", world.n_pes));
        return std::ptr::null_mut();
    }
    world.pointer(dest.cast(), pe as usize).cast()
}
