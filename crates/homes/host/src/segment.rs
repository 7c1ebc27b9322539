// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC's memory as a file that processes map.
//!
//! The file `<pid>.<ni>.nic` in the job's directory starts with a header of 512 bytes. The tables follow, at the
//! offsets in [`Layout`]. Peers reserve address space for the largest heap; the owner grows the file.
//!
//! Invariants
//! 1. A segment is made under another name and renamed when it is complete. So a process that finds it can use it.
//! 2. A process that attaches checks the owner, mode and size of the file (`Mapping::open`), then magic, versions and
//!    limits here. If a check fails, it refuses the segment, and the error says why.
//! 3. No view extends beyond the known length of the file. The header's value for the heap's size counts only after a
//!    check against the file's size.
//! 4. The fields above the lock do not change after creation. The exceptions are `state` and the arena's fields, which
//!    only grow.

use std::cell::UnsafeCell;
use std::io::Read;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use selvedge_nic::aggregation::Membership;
use selvedge_nic::aggregation::member::Started;
use selvedge_nic::layout::{self, BLOCK_BYTES};
use selvedge_nic::portals::scatter::BLOCK_WORDS;
use selvedge_nic::registers::Registers;
use selvedge_nic::signals::{
    Counter, Descriptor, Doorbell, EventQueue, GRANTS, Grant, NOTIFICATION_WORDS, PortPointers, SLOT_WORDS,
};
use selvedge_nic::tables::{
    BlockedRing, Bucket, Control, CounterBook, Entry, Folded, Header, LOCKS, LockWaiter, PAGES, Pending, Port,
    PortalEntry, QueueBook, TlbEntry, Triggered,
};
use selvedge_nic::tap::Tapped;
use selvedge_nic::{Layout, Limits, Nic, Signals, Tables};

use crate::peer_files::SharedFile;
use crate::record;
use selvedge_os::asymmetric;
use selvedge_os::futex;
use selvedge_os::mapping::{MapError, Mapping};
use selvedge_os::process::Identity;
use selvedge_os::shared::RANGES_MAX;
use selvedge_os::shortage::{Need, Shortage};

/// "SELVEDGE" in the file's first bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SELVEDGE");
/// Version of the header.
pub const VERSION: u32 = 4;
pub(crate) const TABLES_AT: u64 = 512;
/// More than the largest segment needs, with its heap at its largest.
const SEGMENT_BYTES_MAX: u64 = 4 << 30;

#[cfg(test)]
pub(crate) const SMALL: Limits = Limits {
    entries: 16,
    headers: 8,
    descriptors: 4,
    counters: 4,
    queues: 2,
    portals: 6,
    triggered: 4,
    iovecs: 4,
    list: 16,
    short_list: 2,
    pending: 4,
    heap_blocks: 4,
    heap_blocks_max: 8,
    ..Limits::NONE
};

/// State of a NIC.
pub mod state {
    /// Its owner is alive and uses it.
    pub const READY: u32 = 1;
    /// Its owner has closed it.
    pub const CLOSED: u32 = 2;
    /// Its owner has died.
    pub const DEAD: u32 = 3;
}

/// The first bytes of a segment.
#[repr(C, align(128))]
pub struct SegmentHeader {
    pub magic: u64,
    pub version: u32,
    pub layout_version: u32,
    pub limits: Limits,
    pub ni: u32,
    /// nid << 32 | pid.
    pub id: u64,
    /// The owner's process id at the operating system.
    pub owner_pid: u32,
    pub owner_uid: u32,
    pub owner_start: u64,
    /// An address that the owner has certainly mapped: that of this segment.
    pub probe_address: u64,
    /// 1: only the owner runs this NIC.
    pub host_mode: u32,
    pub rank: u32,
    /// The owner's token, masked with its host, or 0. Peers that have the token recognise the owner's file by it
    /// ([`owner_of`]).
    pub token: u64,

    /// Fields that every process reads and that rarely change.
    pub hot: Hot,
    /// The lock: 0, or the word of its holder.
    pub lock: LockLine,
}

/// Fields that every sender reads, and that are rarely written.
#[repr(C, align(128))]
pub struct Hot {
    pub state: AtomicU32,
    /// Threads of the owner that sleep, or are about to sleep.
    pub sleepers: AtomicU32,
    /// Changes when sleepers must poll again.
    pub wake: AtomicU32,
    /// The number of the owner's file of shared memory for this NIC ([`crate::endpoint::arena_path`]).
    pub arena_number: AtomicU32,
    /// Heap blocks that the file holds.
    pub heap_blocks: AtomicU64,
    /// The owner's shared arena: its address in the owner, its largest possible size, and the bytes that exist.
    pub arena_base: AtomicU64,
    pub arena_reserved: AtomicU64,
    pub arena_bytes: AtomicU64,
    /// The owner's large blocks of `malloc` and its static data, if it shares them.
    pub shared: [SharedFile; RANGES_MAX],
}

/// The lock, on a cache line of its own.
#[repr(C, align(128))]
pub struct LockLine {
    pub word: AtomicU64,
}

const _: () = assert!(size_of::<SegmentHeader>() as u64 <= TABLES_AT);

/// The owner's part of a segment's header.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub id: u64,
    pub ni: u32,
    pub pid: u32,
    pub uid: u32,
    pub start: u64,
    pub host_mode: bool,
    pub rank: u32,
    pub token: u64,
}

/// Returns the word of the process that owns the segment in this file, if it has this token. Maps nothing.
pub fn owner_of(path: &Path, token: u64) -> Result<Option<u64>, Shortage> {
    let mut bytes = [0; offset_of!(SegmentHeader, token) + 8];
    if let Err(error) = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes)) {
        return Shortage::of_io(&error, Need::File(path)).map_or(Ok(None), Err);
    }
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |eight| u64::from_ne_bytes(*eight));
    let is_it = word(offset_of!(SegmentHeader, magic)) == MAGIC
        && word(offset_of!(SegmentHeader, version)) as u32 == VERSION
        && word(offset_of!(SegmentHeader, token)) == token
        && token != 0;
    let pid = word(offset_of!(SegmentHeader, owner_pid)) as u32;
    Ok(is_it.then(|| Identity { pid, start: word(offset_of!(SegmentHeader, owner_start)) }.to_word()))
}

/// Reasons for which a segment was not made or attached.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    #[error(transparent)]
    Map(#[from] MapError),
    #[error("{path}: not a NIC's segment (its first bytes are {magic:#018x})")]
    Magic { path: String, magic: u64 },
    #[error(
        "{path}: made by another version of Selvedge (segment {found}, layout {found_layout}; this one has {VERSION} and {}); \
         all processes of a job need the same",
        layout::VERSION
    )]
    Version { path: String, found: u32, found_layout: u32 },
    #[error("{path}: malformed header: its limits are impossible")]
    Limits { path: String },
    #[error("{path}: {bytes} bytes, but its header needs {needed}")]
    Size { path: String, bytes: u64, needed: u64 },
    #[error("{path}: {error}")]
    Rename { path: String, error: std::io::Error },
}

/// A segment's header before any check.
pub(crate) struct Claims {
    pub magic: u64,
    pub version: u32,
    pub layout_version: u32,
    pub limits: Limits,
}

impl Claims {
    /// Returns the layout of the tables, if this is a valid segment and its file of `bytes` bytes holds them.
    pub fn layout(&self, path: &Path, bytes: u64) -> Result<Layout, SegmentError> {
        let name = || path.display().to_string();
        if self.magic != MAGIC {
            return Err(SegmentError::Magic { path: name(), magic: self.magic });
        }
        if self.version != VERSION || self.layout_version != layout::VERSION {
            let (found, found_layout) = (self.version, self.layout_version);
            return Err(SegmentError::Version { path: name(), found, found_layout });
        }
        if !self.limits.are_sane() {
            return Err(SegmentError::Limits { path: name() });
        }
        let layout = Layout::new(&self.limits, TABLES_AT);
        if bytes < layout.initial_bytes() || layout.reserved_bytes() > SEGMENT_BYTES_MAX {
            return Err(SegmentError::Size { path: name(), bytes, needed: layout.initial_bytes() });
        }
        Ok(layout)
    }
}

/// A NIC's memory, mapped.
pub struct Segment {
    mapping: Mapping,
    layout: Layout,
    /// Heap blocks that the file is known to hold.
    heap_blocks: AtomicU64,
    /// The views, made once; only the lock's holder touches them.
    nic: UnsafeCell<Nic<'static>>,
    is_recorded: bool,
}

// SAFETY: only the thread that holds the NIC's lock touches the views in the cell. The rest is atomics and a mapping,
// which is Send and Sync.
unsafe impl Send for Segment {}
// SAFETY: a `&Segment` gives access to atomics, which several threads may use. It gives access to the cell only through
// `nic`, whose contract requires that the lock is held.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes a segment and the NIC in it. All its memory is allocated, so that no access fails later.
    pub fn create(path: &Path, limits: &Limits, owner: &Owner) -> Result<Segment, SegmentError> {
        Segment::create_by(path, limits, owner, Mapping::create)
    }

    /// As [`Segment::create`], but tables take memory as they are used ([`Mapping::create_sparse`]).
    pub fn create_sparse(path: &Path, limits: &Limits, owner: &Owner) -> Result<Segment, SegmentError> {
        Segment::create_by(path, limits, owner, Mapping::create_sparse)
    }

    fn create_by(
        path: &Path,
        limits: &Limits,
        owner: &Owner,
        map: impl FnOnce(&Path, u64, u64) -> Result<Mapping, MapError>,
    ) -> Result<Segment, SegmentError> {
        let layout = Layout::new(limits, TABLES_AT);
        let making = path.with_extension(format!("making.{}", owner.pid));
        let _ = std::fs::remove_file(&making);
        let mapping = map(&making, layout.initial_bytes(), layout.reserved_bytes())?;
        let base = mapping.base();
        let header = SegmentHeader {
            magic: MAGIC,
            version: VERSION,
            layout_version: layout::VERSION,
            limits: *limits,
            ni: owner.ni,
            id: owner.id,
            owner_pid: owner.pid,
            owner_uid: owner.uid,
            owner_start: owner.start,
            probe_address: base as u64,
            host_mode: owner.host_mode.into(),
            rank: owner.rank,
            token: owner.token,
            hot: Hot {
                state: AtomicU32::new(state::READY),
                sleepers: AtomicU32::new(0),
                wake: AtomicU32::new(0),
                arena_number: AtomicU32::new(0),
                heap_blocks: AtomicU64::new(limits.heap_blocks.into()),
                arena_base: AtomicU64::new(0),
                arena_reserved: AtomicU64::new(0),
                arena_bytes: AtomicU64::new(0),
                shared: Default::default(),
            },
            lock: LockLine { word: AtomicU64::new(0) },
        };
        // SAFETY: only this thread uses the mapping until the rename. It starts at a page and is larger than the
        // header.
        unsafe { base.cast::<SegmentHeader>().write(header) };
        let mut segment = Segment::new(mapping, layout);
        segment.nic.get_mut().format(limits);
        segment.set_tap(record::begin(segment.header()));
        std::fs::rename(&making, path).map_err(|error| match Shortage::of_io(&error, Need::File(path)) {
            Some(shortage) => MapError::Shortage(shortage).into(),
            None => SegmentError::Rename { path: path.display().to_string(), error },
        })?;
        Ok(segment)
    }

    /// Attaches a segment that another process made.
    pub fn open(path: &Path) -> Result<Segment, SegmentError> {
        // The header has the amount of address space that the NIC needs.
        let mapping = Mapping::open_present(path, TABLES_AT, SEGMENT_BYTES_MAX)?;
        // SAFETY: the file holds at least the header's bytes, and all its fields are integers, for which any bytes are
        // valid.
        let header = unsafe { &*mapping.base().cast::<SegmentHeader>() };
        let claims = Claims {
            magic: header.magic,
            version: header.version,
            layout_version: header.layout_version,
            limits: header.limits,
        };
        let layout = claims.layout(path, mapping.first_bytes()?)?;
        let mut segment = Segment::new(mapping.reserve(layout.reserved_bytes())?, layout);
        segment.set_tap(record::join(segment.header()));
        Ok(segment)
    }

    fn new(mapping: Mapping, layout: Layout) -> Segment {
        let blocks = layout.limits.heap_blocks;
        // SAFETY: the mapping holds what the layout describes. It is unmapped only with the segment, and the views are
        // a private field of the segment: a caller borrows them no longer than the segment.
        let nic = unsafe { views(mapping.base(), &layout, blocks.into()) };
        Segment {
            mapping,
            layout,
            heap_blocks: AtomicU64::new(blocks.into()),
            nic: UnsafeCell::new(nic),
            is_recorded: false,
        }
    }

    pub(crate) fn set_tap(&mut self, tap: Tapped<'static>) {
        self.is_recorded = tap.is_set();
        self.nic.get_mut().tap = tap;
    }

    #[inline(always)]
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Returns the header.
    #[inline(always)]
    pub fn header(&self) -> &SegmentHeader {
        // SAFETY: the mapping outlives the borrow and holds the header. Fields that other processes change are atomics.
        unsafe { &*self.mapping.base().cast::<SegmentHeader>() }
    }

    /// Returns the NIC's limits, from when the segment was made or attached.
    pub fn limits(&self) -> &Limits {
        &self.layout.limits
    }

    /// Returns the layout of the NIC's tables.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Wakes the owner if it sleeps. The caller has stored the awaited change and released the lock.
    #[inline(always)]
    pub fn ring(&self) {
        // Pairs with the heavy fence of a sleeper between its announcement and its last poll (wait.rs).
        asymmetric::light();
        if self.header().hot.sleepers.load(Relaxed) != 0 {
            self.wake_all();
        }
    }

    /// Makes sleepers poll again.
    #[cold]
    pub fn wake_all(&self) {
        let wake = &self.header().hot.wake;
        wake.fetch_add(1, SeqCst);
        futex::wake_all(wake);
    }

    /// Grows the file until it holds `blocks` heap blocks. Only the owner calls it, and updates the allocator
    /// separately.
    pub fn grow_heap(&self, blocks: u32) -> Result<(), MapError> {
        self.mapping.grow(self.layout.heap + u64::from(blocks) * BLOCK_BYTES)?;
        self.header().hot.heap_blocks.store(blocks.into(), SeqCst);
        self.heap_blocks.fetch_max(blocks.into(), SeqCst);
        Ok(())
    }

    /// Returns the number of heap blocks that may be touched. Checks whether the heap has grown.
    #[inline(always)]
    fn heap_blocks_now(&self) -> u64 {
        let known = self.heap_blocks.load(Relaxed);
        let claimed = self.header().hot.heap_blocks.load(Relaxed);
        if claimed <= known { known } else { self.heap_blocks_checked(claimed) }
    }

    #[cold]
    fn heap_blocks_checked(&self, claimed: u64) -> u64 {
        let bytes = present_bytes(&self.mapping);
        let held = bytes.saturating_sub(self.layout.heap) / BLOCK_BYTES;
        let blocks = claimed.min(held).min(self.layout.limits.heap_blocks_max.into());
        self.heap_blocks.fetch_max(blocks, SeqCst);
        self.heap_blocks.load(Relaxed)
    }

    /// Returns the address of a heap block, and the number of bytes from there that may be touched.
    pub fn heap_at(&self, block: u32) -> Option<(*mut u8, u64)> {
        let left = self.heap_blocks_now().checked_sub(block.into())?;
        let offset = self.layout.heap + u64::from(block) * BLOCK_BYTES;
        Some((self.mapping.base().wrapping_add(offset as usize), left * BLOCK_BYTES))
    }

    /// Returns the parts that are read without the lock. If the heap has grown since the last
    /// [`Segment::look_at_heap`], the owner sees all of it, and other processes see its former size.
    #[inline(always)]
    pub fn signals(&self) -> Signals<'_> {
        // SAFETY: the mapping holds what the layout describes, and the file was seen to hold this many heap blocks. The
        // mapping is unmapped only with the segment, which is borrowed. All records are atomics, so other threads may
        // change them.
        unsafe { signal_views(self.mapping.base(), &self.layout, self.heap_blocks.load(Relaxed)) }
    }

    /// Returns the NIC's registers.
    #[inline(always)]
    pub fn registers(&self) -> &Registers {
        // SAFETY: the mapping holds what the layout describes, aligned. It is unmapped only with the segment, which is
        // borrowed. Registers are atomics, so other threads may change them.
        unsafe { &*at::<Registers>(self.mapping.base(), self.layout.registers) }
    }

    /// Updates the known size of the heap.
    pub fn look_at_heap(&self) {
        self.heap_blocks_now();
    }

    /// Returns the doorbell, which shows the owner that work waits.
    #[inline(always)]
    pub fn doorbell(&self) -> &Doorbell {
        // SAFETY: the mapping holds what the layout describes, aligned. It is unmapped only with the segment, which is
        // borrowed. A doorbell consists of atomics, so other threads may change it.
        unsafe { &*at::<Doorbell>(self.mapping.base(), self.layout.doorbell) }
    }

    /// Returns the whole NIC.
    ///
    /// # Safety
    /// The caller holds the NIC's lock, or no other thread knows the segment, for as long as it uses the result.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn nic<'a>(&'a self) -> &'a mut Nic<'a> {
        let blocks = self.heap_blocks_now();
        // SAFETY: the lock makes this thread the only one that touches the cell. The views' lifetime is shortened to
        // that of the borrow. Nic is invariant only in the views that it returns, and these do not outlive the mapping.
        let nic = unsafe { &mut *self.nic.get().cast::<Nic<'a>>() };
        if nic.signals.heap.len() != blocks as usize * BLOCK_WORDS {
            self.renew_signals(nic);
        }
        nic
    }

    /// Extends the views after the heap has grown.
    #[cold]
    fn renew_signals<'a>(&'a self, nic: &mut Nic<'a>) {
        nic.signals = self.signals();
    }
}

/// # Safety
/// The memory at `base` holds what the layout describes, and a heap of this many blocks, for the lifetime.
#[inline(always)]
unsafe fn signal_views<'a>(base: *mut u8, layout: &Layout, heap_blocks: u64) -> Signals<'a> {
    let limits = &layout.limits;
    // SAFETY: the layout's ranges are aligned and inside the memory at `base` for the lifetime, by this function's
    // contract. All records consist of atomics, for which any bytes are valid and which other threads may change.
    unsafe {
        Signals {
            doorbell: &*at::<Doorbell>(base, layout.doorbell),
            registers: &*at::<Registers>(base, layout.registers),
            counters: slice::from_raw_parts(at::<Counter>(base, layout.counters), limits.counters as usize),
            queues: slice::from_raw_parts(at::<EventQueue>(base, layout.queues), limits.queues as usize),
            descriptors: slice::from_raw_parts(at::<Descriptor>(base, layout.descriptors), limits.descriptors as usize),
            grants: slice::from_raw_parts(at::<Grant>(base, layout.grants), GRANTS),
            port_pointers: slice::from_raw_parts(at::<PortPointers>(base, layout.port_pointers), limits.vpids as usize),
            mailboxes: slice::from_raw_parts(
                at::<AtomicU64>(base, layout.mailboxes),
                limits.vpids as usize * limits.mailbox_slots as usize * SLOT_WORDS,
            ),
            notifications: slice::from_raw_parts(
                at::<AtomicU64>(base, layout.notifications),
                limits.vpids as usize * limits.notifications as usize * NOTIFICATION_WORDS,
            ),
            heap: slice::from_raw_parts(at::<AtomicU64>(base, layout.heap), heap_blocks as usize * BLOCK_WORDS),
            encodings: layout.encodings,
        }
    }
}

/// # Safety
/// As for [`signal_views`]. Also, the tables are touched only under the NIC's lock.
unsafe fn views<'a>(base: *mut u8, layout: &Layout, heap_blocks: u64) -> Nic<'a> {
    let limits = &layout.limits;
    // SAFETY: the records are plain integers, for which any bytes are valid. The layout's ranges are aligned, do not
    // overlap and are inside the memory at `base`, by this function's contract. The contract also requires that the
    // tables are touched only under the NIC's lock, so each `&mut` is the only access while it is used.
    unsafe {
        Nic {
            signals: signal_views(base, layout, heap_blocks),
            tables: Tables {
                control: &mut *at::<Control>(base, layout.control),
                portals: table::<PortalEntry>(base, layout.portals, limits.portals.into()),
                short_lists: table::<u32>(
                    base,
                    layout.short_lists,
                    u64::from(limits.portals) * u64::from(limits.short_list),
                ),
                entries: table::<Entry>(base, layout.entries, limits.entries.into()),
                entry_buckets: table::<Bucket>(base, layout.entry_buckets, layout.entry_bucket_count.into()),
                headers: table::<Header>(base, layout.headers, limits.headers.into()),
                header_buckets: table::<Bucket>(base, layout.header_buckets, layout.header_bucket_count.into()),
                folded: Folded::NONE,
                triggered: table::<Triggered>(base, layout.triggered, limits.triggered.into()),
                counters: table::<CounterBook>(base, layout.counter_books, limits.counters.into()),
                queues: table::<QueueBook>(base, layout.queue_books, limits.queues.into()),
                pending: table::<Pending>(base, layout.pending, limits.pending.into()),
                ports: table::<Port>(base, layout.ports, limits.vpids.into()),
                locks: table::<u32>(base, layout.locks, u64::from(limits.vpids) * LOCKS as u64),
                lock_waiters: table::<LockWaiter>(base, layout.lock_waiters, limits.lock_waiters.into()),
                blocked: Some(&mut *at::<BlockedRing>(base, layout.blocked)),
                memberships: table::<Membership>(base, layout.memberships, limits.memberships.into()),
                started: table::<Started>(base, layout.started, limits.started()),
                tlb: table::<TlbEntry>(base, layout.tlb, limits.tlb_entries.into()),
                address_tables: table::<u64>(
                    base,
                    layout.address_tables,
                    u64::from(limits.address_tables) * PAGES as u64,
                ),
                tlb_ways: limits.tlb_ways,
                velo_bytes: limits.velo_bytes,
                heap_map: table::<u64>(base, layout.heap_map, layout.heap_map_words),
                list_max: limits.list,
                short_list: limits.short_list,
            },
            tap: Tapped::default(),
        }
    }
}

#[inline(always)]
fn at<T>(base: *mut u8, offset: u64) -> *mut T {
    base.wrapping_add(offset as usize).cast()
}

/// # Safety
/// As for [`views`].
unsafe fn table<'a, T>(base: *mut u8, offset: u64, count: u64) -> &'a mut [T] {
    // SAFETY: the layout puts `count` aligned records at the offset, apart from all others. Only the lock's holder
    // touches them, by this function's contract.
    unsafe { slice::from_raw_parts_mut(at::<T>(base, offset), count as usize) }
}

/// Returns the length of a file that a peer may have grown; 0 if the peer has removed it. Without a descriptor to look,
/// it ends the process: the peer's memory would be taken for smaller than it is.
pub(crate) fn present_bytes(mapping: &Mapping) -> u64 {
    match mapping.file_bytes() {
        Ok(bytes) => bytes,
        Err(MapError::Shortage(shortage)) => shortage.end_process(),
        Err(_) => 0,
    }
}

/// Marks the NICs of an ended process as dead, and makes all waiters of the job poll again. For launchers. After an
/// error some NICs were not looked at: peers find out themselves, later.
pub fn mark_dead(directory: &Path, os_pid: u32) -> Result<(), Shortage> {
    let files = match std::fs::read_dir(directory) {
        Ok(files) => files,
        Err(error) => return Shortage::of_io(&error, Need::File(directory)).map_or(Ok(()), Err),
    };
    let is_nic = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "nic");
    let paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).filter(is_nic).collect();
    let mut lack = None;
    let mut each = |visit: fn(&Segment, u32)| {
        for path in &paths {
            match Segment::open(path) {
                Ok(segment) => visit(&segment, os_pid),
                Err(SegmentError::Map(MapError::Shortage(shortage))) => lack = Some(shortage),
                // Its owner has closed it.
                Err(_) => {}
            }
        }
    };
    each(|segment, os_pid| {
        if segment.header().owner_pid == os_pid {
            segment.header().hot.state.store(state::DEAD, SeqCst);
        }
    });
    each(|segment, _| segment.wake_all());
    lack.map_or(Ok(()), Err)
}
