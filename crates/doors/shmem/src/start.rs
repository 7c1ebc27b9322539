// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starting and ending the library (OpenSHMEM 1.6, "Library Setup, Exit, and Query Routines").
//!
//! At the start, a process finds its job, makes its symmetric memory and a NIC that offers it, moves its static data
//! there, and sends a [`StartRecord`] to all other PEs. From these records all PEs make the same [`World`].
//!
//! Invariants
//! 1. The first start makes the world, and the process keeps it. A start after the end opens it again.
//! 2. A start ends with a barrier, so no PE continues before all NICs have their entries.
//! 3. PEs whose settings or programs do not fit together do not start.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use selvedge_os::sync::IgnorePoison;
use selvedge_otf2::recording::now_ns;
use selvedge_process::nic::Limits;
use selvedge_process::process::ProcessError;
use selvedge_process::{Interface, Opened, Process, Symmetric};

use crate::check::{self, Call};
use crate::collective::offload::register_memory;
use crate::collective::sync::barrier_all;
use crate::world::address::set_root;
use crate::world::commands::Commands;
use crate::world::contexts::Contexts;
use crate::world::counters::Counters;
use crate::world::heap::Heap;
use crate::world::layout::Layout;
use crate::world::losses::{self, HOST_NAME_BYTES, Losses};
use crate::world::peer::{MemoryStart, Peer, PeerNic};
use crate::world::teams::Teams;
use crate::world::{self, World, world};
use crate::{calls, info, mapped};

/// Number of the NIC that OpenSHMEM opens. Portals programs may open those below it.
const NI: u32 = 4;
/// The longest sleep of a wait. A store through `shmem_ptr` does not wake this PE, so a wait polls again on its own.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// Thread levels of the standard.
pub mod thread {
    pub const SINGLE: i32 = 0;
    pub const MULTIPLE: i32 = 3;
}

/// Calls of `shmem_init` not yet matched by a `shmem_finalize`.
static STARTED: AtomicI32 = AtomicI32::new(0);
static STARTING: Mutex<()> = Mutex::new(());
static LEVEL: AtomicI32 = AtomicI32::new(thread::SINGLE);
/// Whether the program has called `start_pes`: then the library ends with the program.
static FINALIZE_AT_EXIT: AtomicBool = AtomicBool::new(false);

/// Reason why the library did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("no symmetric memory: {0}")]
    Memory(String),
    #[error("{0}")]
    Setting(String),
    #[error("the PEs' settings differ: {0}")]
    Disagreement(String),
}

/// Starts the library, or counts one more start.
fn start(call: Call, level: i32) -> Result<(), StartError> {
    let _starting = STARTING.lock().ignore_poison();
    let since_ns = now_ns();
    if STARTED.load(SeqCst) == 0 {
        let world = match world::existing() {
            Some(world) => world,
            None => {
                let (world, starts) = make_world()?;
                let world = world::install(world);
                register_memory(world, starts);
                info::announce(world);
                // SAFETY: `at_exit` is a function of this object with the signature that `atexit` asks for. libc calls
                // it when the process exits or the object is unloaded, so while its code is mapped.
                unsafe { libc::atexit(at_exit) };
                world
            }
        };
        LEVEL.store(level, SeqCst);
        world.multiple.store(level == thread::MULTIPLE, SeqCst);
        world::open(Some(world));
        mapped::open(Some(world));
        calls::start(world, call, since_ns).map_err(StartError::Setting)?;
        world.process.barrier()?;
        calls::started();
    }
    STARTED.fetch_add(1, SeqCst);
    Ok(())
}

fn start_or_die(call: Call, level: i32) {
    if let Err(error) = start(call, level) {
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

/// `start_pes`: as `shmem_init`, but without a `shmem_finalize`: the library ends with the program.
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
    match start(call, requested) {
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
    barrier_all(call);
    if STARTED.load(SeqCst) == 1 {
        calls::end(world);
        world.teams.release_all();
        mapped::open(None);
        world::open(None);
    }
    STARTED.fetch_sub(1, SeqCst);
}

/// Runs at the end of the program. Finalizes a program that called `start_pes`. One that forgot `shmem_finalize` just
/// ends, and its memory stays mapped at its peers. It does not leave the job in order, so that PEs that wait for it
/// notice its end.
extern "C" fn at_exit() {
    let _ = std::panic::catch_unwind(|| {
        let Some(world) = world::existing() else { return };
        if world.process.is_forked_child() {
            return;
        }
        if FINALIZE_AT_EXIT.load(SeqCst) && STARTED.load(SeqCst) > 0 {
            STARTED.store(1, SeqCst);
            finalize("shmem_finalize");
        }
        world.symmetric.forget();
        world.opened.interface.shut();
        if STARTED.load(SeqCst) > 0 {
            world.process.end_unfinalized();
        } else {
            world.process.finalize_at_exit();
        }
    });
}

pub fn global_exit(call: Call, status: c_int) -> ! {
    match world::existing() {
        Some(world) => world.process.end_all(status),
        None => {
            check::not_running(call, false);
            std::process::exit(status)
        }
    }
}

// ---- The thread level and the state -----------------------------------------------------------------------------

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

// ---- Making the world --------------------------------------------------------------------------------------------

/// Makes the world, except for the barrier that ends the start. Also returns where each PE's memory begins.
fn make_world() -> Result<(World, Vec<MemoryStart>), StartError> {
    let process = Process::current()?;
    let (me, n_pes) = (process.rank() as usize, process.size() as usize);
    check::set_up(me, check::variable("DEBUG").is_some());
    let max_counters = Counters::limit().map_err(StartError::Setting)?;
    let sizes = Layout::plan(max_counters, n_pes).map_err(StartError::Setting)?;
    let symmetric = Symmetric::create(process.directory().path(), sizes.reserved())
        .and_then(|symmetric| symmetric.commit(sizes.heap_at).map(|()| symmetric))
        .map_err(|error| StartError::Memory(error.to_string()))?;
    set_root(symmetric.base() as usize);
    // Counting puts by commands match entries: two for each counter. By stores they match none.
    let entries = if process.stores_in_place() { 64 } else { 2 * max_counters + 16 };
    let limits = Limits {
        entries,
        headers: 16,
        descriptors: 16,
        counters: max_counters + Contexts::MAX + 16,
        queues: 4,
        portals: 4,
        list: entries,
        // No PE makes lists of pieces, event queues or triggered operations at this NIC.
        triggered: 16,
        iovecs: 16,
        heap_blocks: 64,
        heap_blocks_max: 64,
        ..Limits::DEFAULT
    };
    let maps_peers = process.maps_peers();
    // Must happen before other threads run, such as that of links to other hosts.
    let adopted = maps_peers && sizes.adopt(&symmetric);
    let opened: &'static Opened =
        Box::leak(Box::new(process.open_hidden(NI, &limits.clamped(), symmetric.range(), SLEEP_MAX)?));
    let interface: &'static Interface = &opened.interface;
    let memory_mapped = interface.stores_in_place();
    let near_mapped = maps_peers && !memory_mapped;
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
        cores: process.settings.cores as u64,
        pid: std::process::id().into(),
        root: symmetric.base() as u64,
        data_at: sizes.data.bytes.start,
        host_name: losses::own_host_name(),
    };
    let records = own.exchange(&process)?;
    own.check(&records)?;
    // PEs that run different programs have no common static data.
    let alike = records.iter().all(|record| (record.data_bytes, record.data_lead) == (own.data_bytes, own.data_lead));
    let data = if alike { sizes.data.bytes.start as usize..sizes.data.bytes.end as usize } else { 0..0 };
    let data_mapped = alike && records.iter().all(|record| record.adopted != 0);
    let is_near = |record: &StartRecord| record.id >> 32 == own.id >> 32;
    let root = symmetric.base() as usize;
    let oversubscribed = is_oversubscribed(&records);
    let starts = records.iter().map(StartRecord::memory).collect();
    let record = process.directory().record();
    let is_recorded = record.map_err(|error| StartError::Setting(error.to_string()))?.is_some();
    let world = World {
        me,
        n_pes,
        oversubscribed,
        multiple: AtomicBool::new(false),
        memory_mapped,
        near_mapped,
        heap_start: root + sizes.heap_at as usize,
        heap_bytes: AtomicUsize::new(0),
        data_mapped,
        data,
        root,
        peers: records.iter().map(|_| Peer::default()).collect(),
        nics: records
            .iter()
            .map(|record| PeerNic { id: record.id, is_near: is_near(record), window: OnceLock::new() })
            .collect(),
        interface,
        heap: Mutex::new(Heap::new(sizes.heap_at, sizes.heap_bytes)),
        contexts: Contexts::new(interface, !(memory_mapped && data_mapped))
            .map_err(|why| StartError::Memory(why.to_string()))?,
        counters: Counters::new(max_counters as usize),
        counts_in_place: process.settings.counts_in_place,
        commands,
        teams: Teams::new(me, n_pes, |pe| memory_mapped || (near_mapped && is_near(&records[pe]))),
        losses: Losses::new(
            records.iter().map(|record| record.host_name).collect(),
            is_recorded,
            me,
            records.iter().map(|record| record.id),
        ),
        symmetric,
        process,
        opened,
    };
    Ok((world, starts))
}

/// Whether any host has more PEs than cores. The result is the same at all PEs, so they choose the same algorithms.
fn is_oversubscribed(records: &[StartRecord]) -> bool {
    let mut pes_of_hosts = BTreeMap::<u64, u64>::new();
    for record in records {
        *pes_of_hosts.entry(record.id >> 32).or_default() += 1;
    }
    records.iter().any(|record| pes_of_hosts.get(&(record.id >> 32)).is_some_and(|&pes| pes > record.cores))
}

/// The record that a PE sends to all others at the start: 12 words, and the name of its host.
#[repr(C)]
#[derive(Clone, Copy)]
struct StartRecord {
    id: u64,
    data_bytes: u64,
    /// Bytes between the first whole page of static data and the first variable.
    data_lead: u64,
    /// Whether its static data are in the shared file.
    adopted: u64,
    heap_at: u64,
    heap_bytes: u64,
    memory_mapped: u64,
    counters: u64,
    /// Number of cores that it may use.
    cores: u64,
    pid: u64,
    /// The start of its symmetric memory, and of its static data.
    root: u64,
    data_at: u64,
    host_name: [u8; HOST_NAME_BYTES],
}

const START_RECORD_BYTES: usize = 12 * 8 + HOST_NAME_BYTES;

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
            self.cores,
            self.pid,
            self.root,
            self.data_at,
        ];
        let own: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain(self.host_name).collect();
        let all = process.exchange(&own)?;
        let record = |bytes: &[u8]| {
            let (words, name) = bytes.split_at(START_RECORD_BYTES - HOST_NAME_BYTES);
            let mut words = words.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
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
                cores: next(),
                pid: next(),
                root: next(),
                data_at: next(),
                host_name: name.try_into().unwrap_or_default(),
            }
        };
        Ok(all.chunks_exact(START_RECORD_BYTES).map(record).collect())
    }

    fn memory(&self) -> MemoryStart {
        MemoryStart { pid: self.pid as u32, root: self.root, data: self.data_at }
    }

    /// Compares this record with those of all PEs. An error names a setting that differs.
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
            // The heap follows the static data. If its offset differs, the programs differ.
            same("the size of the program's static data", self.heap_at, record.heap_at)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_crowded_host_makes_the_job_oversubscribed() {
        let at = |host: u64, cores| StartRecord {
            id: host << 32 | 1,
            data_bytes: 0,
            data_lead: 0,
            adopted: 0,
            heap_at: 0,
            heap_bytes: 0,
            memory_mapped: 0,
            counters: 0,
            cores,
            pid: 0,
            root: 0,
            data_at: 0,
            host_name: [0; HOST_NAME_BYTES],
        };
        assert!(!is_oversubscribed(&[at(0, 2), at(0, 2), at(1, 1)]));
        assert!(is_oversubscribed(&[at(0, 2), at(0, 2), at(1, 1), at(1, 1)]), "host 1 has one core");
        assert!(is_oversubscribed(&[at(0, 2), at(0, 2), at(0, 2), at(1, 16)]), "host 0 has two cores");
        assert!(!is_oversubscribed(&[at(0, 16), at(0, 16), at(0, 16), at(1, 1)]));
    }
}
