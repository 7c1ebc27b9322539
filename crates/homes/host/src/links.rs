// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of this process's links: a page of shared memory that the process writes and tools read.
//!
//! A process has one page, the file `<ospid>.links` in its job's directory: a header, then a [`Record`] for each peer
//! and way to it. Within a host a record counts the operations that this process does at the peer: in the peer's memory
//! itself (OpenSHMEM, puts under grants), by running the peer's NIC, or through a ring. Between hosts it counts the
//! packets and frames of the link. The two records of a pair of processes lie in the pages of the two.
//!
//! | file | subject |
//! |---|---|
//! | here | the page and its records, for the owner |
//! | [`read`] | the same file for tools |
//!
//! Invariants
//! 1. Only the owner stores to its page. A count is a plain load and a plain store to a line that no other process
//!    writes, so it costs no locked instruction and moves no line, unless a tool looks. If two threads count in the same
//!    part of a record at the same instant, one of the counts may be lost.
//! 2. A record keeps its peer and its way. It is published last (`is_claimed`), so a reader that finds it finds both.
//! 3. When the page is full, all further peers share record 0, so that sums stay right.
//! 4. No page is no failure: without room for the file the counters are in the process's own memory.
//!
//! Cost: 640 bytes a record. The file grows by pages.

pub mod read;

use std::collections::HashMap;
use std::mem::offset_of;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, Weak};

use selvedge_nic::tables::kind;
use selvedge_os::mapping::{MapError, Mapping};
use selvedge_os::process::Identity;
use selvedge_os::shortage::Need;
use selvedge_os::sync::IgnorePoison;

/// "SELVLINK" in the file's first bytes.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"SELVLINK");
pub(crate) const VERSION: u32 = 2;
/// Records of a page, the shared one included.
pub const RECORDS_MAX: usize = 1 << 14;
pub(crate) const HEADER_BYTES: usize = size_of::<PageHeader>();
pub(crate) const RECORD_BYTES: usize = size_of::<Record>();
/// Bytes by which the file grows.
const STEP_BYTES: u64 = 4096;
/// Stands for an unknown rank, or for no NIC in particular.
pub const NONE: u32 = u32::MAX;

/// The way to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Way {
    /// Shared memory of the host.
    Memory = 1,
    /// A link between hosts.
    Network = 2,
    /// All peers for which the page had no record left.
    Others = 3,
}

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LinkState {
    Closed = 0,
    /// Connects and greets.
    Connecting = 1,
    Open = 2,
    /// The peer has closed its connection; its last frames may still come.
    Ending = 3,
    /// No packet goes there any more.
    Lost = 4,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            is_claimed: AtomicU32::new(0),
            way: AtomicU32::new(0),
            ni: AtomicU32::new(NONE),
            rank: AtomicU32::new(NONE),
            peer: AtomicU64::new(0),
            state: AtomicU32::new(LinkState::Closed as u32),
            changes: AtomicU32::new(0),
            address: Text::default(),
            why: Text::default(),
            work: Work::default(),
            sent: Sent::default(),
            received: Received::default(),
        }
    }
}

impl<const WORDS: usize> Default for Text<WORDS> {
    fn default() -> Text<WORDS> {
        Text([const { AtomicU64::new(0) }; WORDS])
    }
}

/// Text of at most `8 * (WORDS - 1)` bytes, written by one thread at a time. A reader may see parts of two texts.
#[repr(C)]
pub(crate) struct Text<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Text<WORDS> {
    fn set(&self, text: &str) {
        self.0[0].store(0, Release);
        let mut end = text.len().min(8 * (WORDS - 1));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        for (word, bytes) in self.0[1..].iter().zip(text.as_bytes()[..end].chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(eight), Relaxed);
        }
        self.0[0].store(end as u64, Release);
    }
}

/// The first bytes of a page.
#[repr(C, align(128))]
pub(crate) struct PageHeader {
    pub magic: u64,
    pub version: u32,
    pub owner_pid: u32,
    pub owner_start: u64,
    /// nid << 32 | pid of its NICs.
    pub id: u64,
    pub rank: u32,
    pub reserved: u32,
    /// The address at which processes of other hosts reach this one; empty without one.
    pub address: Text<8>,
}

/// The counters of one link.
#[repr(C, align(128))]
pub struct Record {
    pub(crate) is_claimed: AtomicU32,
    pub(crate) way: AtomicU32,
    /// The NIC of this process, and of the peer; [`NONE`] for a link of all of them.
    pub(crate) ni: AtomicU32,
    /// The peer's rank, or [`NONE`].
    pub(crate) rank: AtomicU32,
    /// nid << 32 | pid of the peer, as far as it is known.
    pub(crate) peer: AtomicU64,
    pub(crate) state: AtomicU32,
    /// Number of changes of the state.
    pub(crate) changes: AtomicU32,
    /// The peer's address, of a link between hosts.
    pub(crate) address: Text<12>,
    /// The reason for the state.
    pub(crate) why: Text<16>,
    pub work: Work,
    pub sent: Sent,
    pub received: Received,
}

/// Operations of this process at the peer, within the host. All that one operation counts is in one line of 64 bytes.
#[repr(C, align(128))]
#[derive(Default)]
pub struct Work {
    pub puts: AtomicU64,
    pub gets: AtomicU64,
    /// Bytes of all but `updates`, `fetches`, `loads` and `internal`.
    pub bytes_out: AtomicU64,
    pub bytes_in: AtomicU64,
    /// Other atomics than those below. Their bytes are in `bytes_out` and `bytes_in`.
    pub atomics: AtomicU64,
    /// Messages through a ring, and commands of other units.
    pub messages: AtomicU64,
    /// Accesses of the library itself, for barriers, collectives and locks, and their bytes.
    pub internal: AtomicU64,
    pub internal_bytes: AtomicU64,
    /// Atomics without a result, with one, and loads, by operands of 4 and 8 bytes: one word for a call.
    pub updates: [AtomicU64; 2],
    pub fetches: [AtomicU64; 2],
    pub loads: [AtomicU64; 2],
}

/// The sender's half of a link between hosts. One lock guards its writers.
#[repr(C, align(128))]
#[derive(Default)]
pub struct Sent {
    /// Packets taken for the link, and bytes of their payloads.
    pub packets: AtomicU64,
    pub packet_bytes: AtomicU64,
    /// Frames sent, repetitions included, and their bytes.
    pub frames: AtomicU64,
    pub frame_bytes: AtomicU64,
    /// Frames sent again.
    pub repeats: AtomicU64,
    /// The smoothed time from a frame to its acknowledgement, or of the control connection, in ns; 0 unknown.
    pub round_trip_ns: AtomicU64,
    /// Bytes and packets that wait for a frame now.
    pub queue_bytes: AtomicU64,
    pub queue_packets: AtomicU64,
    /// Frames that the receiver has not acknowledged, or the network has not taken.
    pub in_flight: AtomicU64,
}

/// The receiver's half of a link between hosts. One lock guards its writers.
#[repr(C, align(128))]
#[derive(Default)]
pub struct Received {
    pub packets: AtomicU64,
    pub packet_bytes: AtomicU64,
    /// Frames that have come from the peer, and their bytes.
    pub frames: AtomicU64,
    pub frame_bytes: AtomicU64,
    /// Frames whose check failed.
    pub damaged: AtomicU64,
    /// Frames that came again, or before an earlier one, on a link with a check.
    pub unordered: AtomicU64,
}

const _: () = {
    assert!(HEADER_BYTES == 128);
    assert!(RECORD_BYTES == 640);
    assert!(size_of::<Work>() == 128 && size_of::<Sent>() == 128 && size_of::<Received>() == 128);
    assert!(offset_of!(Work, updates) == 64);
};

/// Adds to a counter of this process's own page.
#[inline(always)]
pub fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

impl Work {
    #[inline(always)]
    pub fn put(&self, bytes: u64) {
        add(&self.puts, 1);
        add(&self.bytes_out, bytes);
    }

    #[inline(always)]
    pub fn get(&self, bytes: u64) {
        add(&self.gets, 1);
        add(&self.bytes_in, bytes);
    }

    #[inline(always)]
    pub fn message(&self, bytes: u64) {
        add(&self.messages, 1);
        add(&self.bytes_out, bytes);
    }

    /// An atomic without a result, on an operand of 4 bytes or 8.
    #[inline(always)]
    pub fn update<const BYTES: usize>(&self) {
        add(&self.updates[BYTES / 8], 1);
    }

    /// An atomic that returns the old value.
    #[inline(always)]
    pub fn fetch<const BYTES: usize>(&self) {
        add(&self.fetches[BYTES / 8], 1);
    }

    /// An atomic load.
    #[inline(always)]
    pub fn load<const BYTES: usize>(&self) {
        add(&self.loads[BYTES / 8], 1);
    }

    /// An access of the library itself.
    #[inline(always)]
    pub fn internal(&self, bytes: u64) {
        add(&self.internal, 1);
        add(&self.internal_bytes, bytes);
    }

    /// A command of this process, by its kind.
    #[inline]
    pub(crate) fn command(&self, kind: u8, bytes: u64) {
        match kind {
            kind::PUT | kind::RMA_PUT | kind::RMA_NOTIFICATION_PUT | kind::RMA_IMMEDIATE_PUT => self.put(bytes),
            kind::GET | kind::RMA_GET => self.get(bytes),
            kind::ATOMIC | kind::FETCH_ATOMIC | kind::SWAP | kind::RMA_LOCK => {
                add(&self.atomics, 1);
                add(&self.bytes_out, bytes);
                if matches!(kind, kind::FETCH_ATOMIC | kind::SWAP) {
                    add(&self.bytes_in, bytes);
                }
            }
            kind::COUNTER_SET | kind::COUNTER_INCREMENT | kind::APPEND | kind::UNLINK => {}
            _ => self.message(bytes),
        }
    }
}

impl Record {
    /// Sets the state, if it is another, and its reason.
    pub fn set_state(&self, state: LinkState, why: &str) {
        if self.state.load(Relaxed) != state as u32 {
            self.why.set(why);
            self.changes.store(self.changes.load(Relaxed).wrapping_add(1), Relaxed);
            self.state.store(state as u32, Relaxed);
        }
    }

    /// Sets the peer's id, once it is known.
    #[inline]
    pub fn set_peer(&self, id: u64) {
        if self.peer.load(Relaxed) != id {
            self.peer.store(id, Relaxed);
        }
    }
}

/// The memory of a page.
enum Memory {
    Shared(Mapping),
    /// One record, which all peers share and no tool reads.
    Private(Box<Record>),
}

/// This process's page in a job.
pub struct Page {
    memory: Memory,
    path: PathBuf,
    os_pid: u32,
    claimed: Mutex<Claimed>,
}

#[derive(Default)]
struct Claimed {
    /// Records in use.
    count: usize,
    known: HashMap<Name, usize>,
    /// NICs that count here.
    users: usize,
}

/// The name of a record in its page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    pub way: Way,
    /// The NIC, or [`NONE`].
    pub ni: u32,
    /// The peer's id: nid << 32 | pid; 0 if it is not known yet.
    pub peer: u64,
    /// The peer's address, of a link between hosts.
    pub address: String,
}

static PAGES: Mutex<Vec<Weak<Page>>> = Mutex::new(Vec::new());

impl Page {
    /// Returns the page of this process in a job's directory, for one more NIC. The first call makes it.
    pub fn acquire(directory: &Path, id: u64, rank: u32) -> Arc<Page> {
        let own = Identity::find_own().map_or(0, |own| own.pid);
        let path = directory.join(format!("{own}.links"));
        let mut pages = PAGES.lock().ignore_poison();
        pages.retain(|page| page.strong_count() != 0);
        for page in pages.iter().filter_map(Weak::upgrade).filter(|page| page.path == path && page.os_pid == own) {
            let mut claimed = page.claimed.lock().ignore_poison();
            if claimed.users != 0 {
                claimed.users += 1;
                drop(claimed);
                return page;
            }
        }
        let page = Page::create(&path, id, rank).unwrap_or_else(|error| {
            log::warn!("the counters of this process's links are not shown: {error}");
            Page::private()
        });
        page.claimed.lock().ignore_poison().users = 1;
        let page = Arc::new(page);
        pages.push(Arc::downgrade(&page));
        page
    }

    /// Makes a page that no tool reads.
    pub fn private() -> Page {
        Page::of(Memory::Private(Box::default()), PathBuf::new())
    }

    fn of(memory: Memory, path: PathBuf) -> Page {
        Page { memory, path, os_pid: std::process::id(), claimed: Mutex::default() }
    }

    fn create(path: &Path, id: u64, rank: u32) -> Result<Page, MapError> {
        let own = Identity::find_own().map_err(MapError::Shortage)?;
        let making = path.with_extension(format!("links-making.{}", own.pid));
        for stale in [making.as_path(), path] {
            let _ = std::fs::remove_file(stale);
        }
        let mapping = Mapping::create(&making, STEP_BYTES, reserved_bytes())?;
        let header = PageHeader {
            magic: MAGIC,
            version: VERSION,
            owner_pid: own.pid,
            owner_start: own.start,
            id,
            rank,
            reserved: 0,
            address: Text::default(),
        };
        // SAFETY: the mapping starts at a page and is larger than the header, and no other process has it before the
        // rename.
        unsafe { mapping.base().cast::<PageHeader>().write(header) };
        let renamed = rustix::fs::rename(&making, path);
        renamed.map_err(|errno| MapError::of(errno, Need::File(path)))?;
        let page = Page::of(Memory::Shared(mapping), path.into());
        let shared = Name { way: Way::Others, ni: NONE, peer: 0, address: String::new() };
        page.claim_record(&mut page.claimed.lock().ignore_poison(), &shared, NONE);
        Ok(page)
    }

    /// Publishes the address at which other hosts reach this process.
    pub fn set_address(&self, address: &str) {
        if let Memory::Shared(mapping) = &self.memory {
            // SAFETY: the mapping holds the header from the start. The field is atomics.
            unsafe { &*mapping.base().cast::<PageHeader>() }.address.set(address);
        }
    }

    /// Returns the record of this name, a new one for a new name. `rank`: the peer's, or [`NONE`].
    pub fn link(self: &Arc<Page>, name: &Name, rank: u32) -> Link {
        let mut claimed = self.claimed.lock().ignore_poison();
        let known = claimed.known.get(name).copied();
        let index = known.unwrap_or_else(|| self.claim_record(&mut claimed, name, rank));
        drop(claimed);
        Link { record: self.record(index), _page: self.clone() }
    }

    fn record(&self, index: usize) -> NonNull<Record> {
        match &self.memory {
            Memory::Private(record) => NonNull::from(&**record),
            Memory::Shared(mapping) => {
                let at = mapping.base().wrapping_add(HEADER_BYTES + index * RECORD_BYTES);
                // SAFETY: the offset is within the reserve, so the address is not null.
                unsafe { NonNull::new_unchecked(at.cast()) }
            }
        }
    }

    /// Takes the next record for a name. Without room for it, record 0 serves the name.
    fn claim_record(&self, claimed: &mut Claimed, name: &Name, rank: u32) -> usize {
        let index = claimed.count;
        let Memory::Shared(mapping) = &self.memory else { return 0 };
        let end = (HEADER_BYTES + (index + 1) * RECORD_BYTES) as u64;
        if index >= RECORDS_MAX || mapping.grow(end.next_multiple_of(STEP_BYTES)).is_err() {
            return 0;
        }
        claimed.count += 1;
        claimed.known.insert(name.clone(), index);
        // SAFETY: the file has just been grown to hold the record, which consists of atomics.
        let record = unsafe { self.record(index).as_ref() };
        record.way.store(name.way as u32, Relaxed);
        record.ni.store(name.ni, Relaxed);
        record.rank.store(rank, Relaxed);
        record.peer.store(name.peer, Relaxed);
        record.address.set(&name.address);
        if name.way == Way::Memory {
            record.state.store(LinkState::Open as u32, Relaxed);
        }
        record.is_claimed.store(1, Release);
        index
    }

    /// Ends the use by one NIC. The last one removes the file.
    pub fn release(&self) {
        let mut claimed = self.claimed.lock().ignore_poison();
        claimed.users = claimed.users.saturating_sub(1);
        if claimed.users == 0 {
            self.remove();
        }
    }

    fn remove(&self) {
        if matches!(self.memory, Memory::Shared(_)) && self.os_pid == std::process::id() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if self.claimed.get_mut().ignore_poison().users != 0 {
            self.remove();
        }
    }
}

pub(crate) const fn reserved_bytes() -> u64 {
    (HEADER_BYTES + RECORDS_MAX * RECORD_BYTES) as u64
}

/// A record of this process's page, and the page, which stays mapped as long.
#[derive(Clone)]
pub struct Link {
    record: NonNull<Record>,
    _page: Arc<Page>,
}

// SAFETY: the record is in the page that the link keeps, and consists of atomics.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}

impl Deref for Link {
    type Target = Record;

    #[inline(always)]
    fn deref(&self) -> &Record {
        // SAFETY: the page holds the record and stays mapped as long as the link. It consists of atomics.
        unsafe { self.record.as_ref() }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Link({:#x})", self.peer.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use selvedge_os::testing::{Child, Folder};

    use super::read::{LinkCounter, PageError, inspect_page, inspect_page_within};
    use super::*;

    fn name(peer: u64) -> Name {
        Name { way: Way::Memory, ni: 2, peer, address: String::new() }
    }

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn path_in(folder: &Folder) -> PathBuf {
        folder.join(format!("{}.links", std::process::id()))
    }

    #[test]
    fn a_page_shows_what_was_counted() {
        let folder = Folder::new();
        let page = Page::acquire(&folder.join(""), 7, 3);
        assert!(Arc::ptr_eq(&page, &Page::acquire(&folder.join(""), 7, 3)), "one page for all NICs");
        page.set_address("10.0.0.1:99");
        let link = page.link(&name(5), 4);
        link.work.put(100);
        link.work.get(7);
        link.work.message(1);
        link.work.update::<8>();
        link.work.fetch::<4>();
        link.work.load::<8>();
        link.work.command(kind::SWAP, 16);
        link.work.internal(3);
        let far = Name { way: Way::Network, ni: NONE, peer: 0, address: "10.0.0.2:1".into() };
        let far = page.link(&far, NONE);
        add(&far.sent.frames, 9);
        add(&far.received.damaged, 2);
        far.set_state(LinkState::Lost, "the cable was cut");
        // The same name is the same record.
        page.link(&name(5), 4).work.put(1);
        let seen = inspect_page(&path_in(&folder), uid()).expect("a page");
        assert_eq!((seen.owner, seen.id, seen.rank), (Identity::own(), 7, 3));
        assert_eq!(seen.address, "10.0.0.1:99");
        let [others, near, far] = seen.links.as_slice() else { panic!("{seen:?}") };
        assert!(others.way == Some(Way::Others) && !others.is_used());
        assert_eq!((near.way, near.ni, near.peer, near.peer_rank), (Some(Way::Memory), Some(2), 5, Some(4)));
        for (counter, value) in [
            (LinkCounter::Puts, 2),
            (LinkCounter::Gets, 1),
            (LinkCounter::Messages, 1),
            (LinkCounter::Atomics, 4),
            (LinkCounter::BytesOut, 101 + 1 + 8 + 4 + 16),
            (LinkCounter::BytesIn, 7 + 4 + 8 + 16),
            (LinkCounter::Internal, 1),
            (LinkCounter::InternalBytes, 3),
            (LinkCounter::FramesOut, 0),
        ] {
            assert_eq!(near.get(counter), value, "{counter:?}");
        }
        assert_eq!((far.way, far.ni, far.peer_rank), (Some(Way::Network), None, None));
        assert_eq!((far.state, far.why.as_str()), (Some(LinkState::Lost), "the cable was cut"));
        assert_eq!((far.get(LinkCounter::FramesOut), far.get(LinkCounter::Damaged)), (9, 2));
        page.release();
        assert!(path_in(&folder).exists(), "a NIC still counts here");
        page.release();
        assert!(!path_in(&folder).exists());
    }

    #[test]
    fn further_peers_of_a_full_page_share_a_record() {
        let folder = Folder::new();
        let page = Page::acquire(&folder.join(""), 7, 3);
        for peer in 0..RECORDS_MAX as u64 + 10 {
            page.link(&name(peer), NONE).work.put(1);
        }
        let seen = inspect_page(&path_in(&folder), uid()).expect("a page");
        assert_eq!(seen.links.len(), RECORDS_MAX);
        assert_eq!(seen.links[0].get(LinkCounter::Puts), 11);
        let sum: u64 = seen.links.iter().map(|link| link.get(LinkCounter::Puts)).sum();
        assert_eq!(sum, RECORDS_MAX as u64 + 10);
    }

    #[test]
    fn a_reader_of_many_pages_reads_no_more_than_it_may() {
        let folder = Folder::new();
        let page = Page::acquire(&folder.join(""), 7, 3);
        page.link(&name(5), 4).work.put(1);
        let mut budget = STEP_BYTES + 1;
        let seen = inspect_page_within(&path_in(&folder), uid(), &mut budget).expect("a page");
        assert_eq!((seen.links.len(), budget), (2, 1));
        let refused = inspect_page_within(&path_in(&folder), uid(), &mut budget);
        assert!(matches!(refused, Err(PageError::Budget { bytes: STEP_BYTES, left: 1 })), "{refused:?}");
        assert_eq!(budget, 1);
    }

    #[test]
    fn without_a_file_counting_goes_on() {
        let folder = Folder::new();
        let page = Page::acquire(&folder.join("missing"), 7, 3);
        let link = page.link(&name(5), 4);
        link.work.put(1);
        page.link(&name(6), 4).work.put(1);
        assert_eq!(link.work.puts.load(SeqCst), 2, "all peers share the record");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = Text::<3>::default();
        text.set("0123456789abcde\u{e9}");
        assert_eq!(text.0[0].load(SeqCst), 15);
    }

    /// A process may be killed at any instruction. Its page is read all the same.
    #[test]
    fn the_page_of_a_killed_process_is_readable() {
        let folder = Folder::new();
        let directory = folder.join("");
        for round in 0..10u64 {
            let child = Child::fork(|| {
                let page = Page::acquire(&directory, 8, 1);
                for peer in 0..u64::MAX {
                    let link = page.link(&name(peer % 5000), 9);
                    link.work.put(8);
                    link.set_state(if peer % 2 == 0 { LinkState::Lost } else { LinkState::Open }, "why \u{e9}");
                }
                0
            });
            let path = folder.join(format!("{}.links", child.pid()));
            let mut looks = 0;
            while looks < 20 + round {
                match inspect_page(&path, uid()) {
                    Ok(seen) => looks += u64::from(!seen.links.is_empty()),
                    Err(PageError::File(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            child.kill();
            assert_eq!(child.exit_code(), None);
            let seen = inspect_page(&path, uid()).expect("a page");
            let whole = seen.links.iter().skip(1).all(|link| link.way == Some(Way::Memory) && link.ni == Some(2));
            assert!(whole && seen.owner.pid != std::process::id());
        }
    }
}
