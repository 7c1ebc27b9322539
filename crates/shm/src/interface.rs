// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process's NIC: opened, used by all of its threads, closed.
//!
//! Peers are found by their Portals process id: the file `<pid>.<ni>.nic` in the job's directory. They are attached at
//! the first message to them and kept; one that was closed or has died is looked for again at the next.
//!
//! Cost per peer: one pointer, and an [`Endpoint`] for those that were talked to.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst,
};
use std::time::{Duration, Instant};

use std::collections::VecDeque;

use selvedge_nic::signals::Doorbell;
use selvedge_nic::{Limits, Signals};
use selvedge_sim_protocol::RankEnd;

use crate::endpoint::Endpoint;
use crate::engine::Outgoing;
use crate::grants::OwnLanes;
use crate::lock::Guard;
use crate::os::cma;
use crate::os::mapping::{MapError, sealed_inode};
use crate::os::process::Identity;
use crate::os::{asymmetric, shared, thread};
use crate::segment::{Owner, Segment, SegmentError, state};
use crate::{Config, Mode, Path};

/// Portals process ids are below this: `PTL_PID_MAX` is the largest.
pub const PID_LIMIT: usize = 1025;

/// Why an interface was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no room for it.
    #[error("no room for the NIC: {0}")]
    NoSpace(SegmentError),
    #[error(transparent)]
    Segment(SegmentError),
}

impl From<SegmentError> for OpenError {
    fn from(error: SegmentError) -> OpenError {
        match error {
            SegmentError::Map(MapError::Full { .. } | MapError::TooLarge { .. } | MapError::NoAddressSpace { .. }) => {
                OpenError::NoSpace(error)
            }
            other => OpenError::Segment(other),
        }
    }
}

/// The shared arena of this process, as its NICs tell it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArenaRange {
    /// Which file it is ([`crate::endpoint::arena_path`]).
    pub number: u32,
    pub base: u64,
    pub reserved: u64,
    pub bytes: u64,
}

/// A look at a queue of one's own NIC at the cost of one load: the word that the next event will set.
#[derive(Clone, Copy)]
pub struct Watch {
    word: *const AtomicU64,
    number: u64,
}

impl Watch {
    /// Whether the event is there.
    #[inline(always)]
    pub fn has_event(&self) -> bool {
        // SAFETY: a word of the segment's heap, which is mapped as long as the interface that made the watch is open.
        unsafe { (*self.word).load(Relaxed) == self.number }
    }
}

/// An open NIC of this process.
pub struct Interface {
    pub config: Config,
    pub(crate) own: Endpoint,
    pub(crate) word: u64,
    pub(crate) os_pid: u32,
    pub(crate) path: PathBuf,
    ni: u32,
    peers: Box<[AtomicPtr<Endpoint>]>,
    uses: Box<[AtomicU32]>,
    /// Every endpoint that was attached, for the end.
    attached: Mutex<Vec<*mut Endpoint>>,
    pub(crate) waiters: AtomicU32,
    pub(crate) closing: AtomicBool,
    /// Whose turn it is to handle packets.
    pub(crate) turn: Mutex<()>,
    pub(crate) outbox: Mutex<VecDeque<Outgoing>>,
    pub(crate) outbox_waits: AtomicBool,
    pub(crate) last_tick: Mutex<Option<Instant>>,
    /// Peers that were asked whether they live.
    looked: AtomicU32,
    /// Polls that found nothing.
    pub(crate) polls: AtomicU32,
    pub(crate) spills: AtomicU64,
    pub(crate) own_lanes: OwnLanes,
    /// Targets' NICs are run from here, and their memory may be in place.
    pub(crate) has_express: bool,
    /// Where time is virtual: whom to ask for the turn.
    pub(crate) clock: Option<&'static RankEnd>,
}

// SAFETY: the raw pointers are to endpoints, which are Sync and live until the interface is dropped.
unsafe impl Send for Interface {}
// SAFETY: the tables of pointers are atomics and a locked list; the endpoints that they lead to are Sync and live until the interface is
// dropped.
unsafe impl Sync for Interface {}

impl Interface {
    /// Opens the NIC number `ni` of this process under the Portals process id `pid`.
    pub fn open(
        config: Config,
        ni: u32,
        pid: u16,
        rank: u32,
        limits: &Limits,
        arena: ArenaRange,
    ) -> Result<Interface, OpenError> {
        let clock = RankEnd::of_process();
        let config = crate::simulated::configured(config, clock.is_some());
        let identity = Identity::own();
        asymmetric::register();
        thread::tell_forks();
        if config.mode == Mode::Nic && matches!(config.path, Path::Auto | Path::Cma) {
            cma::admit_peers();
        }
        // SAFETY: geteuid only reads.
        let uid = unsafe { libc::geteuid() };
        let owner = Owner {
            id: pid.into(),
            ni,
            pid: identity.pid,
            uid,
            start: identity.start,
            host_mode: config.mode == Mode::Host,
            rank,
        };
        let path = config.directory.join(format!("{pid}.{ni}.nic"));
        let segment = Segment::create(&path, &crate::simulated::sized(limits, clock.is_some()), &owner)?;
        let own = Endpoint::new(segment, true, &config.directory);
        let peers: Box<[AtomicPtr<Endpoint>]> = (0..PID_LIMIT).map(|_| AtomicPtr::default()).collect();
        let interface = Interface {
            own,
            word: identity.to_word(),
            os_pid: identity.pid,
            path,
            ni,
            peers,
            uses: (0..PID_LIMIT).map(|_| AtomicU32::new(0)).collect(),
            attached: Mutex::new(Vec::new()),
            waiters: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            turn: Mutex::new(()),
            outbox: Mutex::new(VecDeque::new()),
            outbox_waits: AtomicBool::new(false),
            last_tick: Mutex::new(None),
            looked: AtomicU32::new(0),
            polls: AtomicU32::new(0),
            spills: AtomicU64::new(u64::from(ni) << 32),
            own_lanes: OwnLanes::default(),
            has_express: clock.is_none()
                && config.mode == Mode::Nic
                && matches!(config.path, Path::Auto | Path::Shared),
            clock,
            config,
        };
        interface.tell_arena(arena);
        interface.tell_shared();
        interface.announce()?;
        Ok(interface)
    }

    /// nid << 32 | pid.
    pub fn id(&self) -> u64 {
        self.own.id
    }

    /// Watches for the next event of a queue. To be made anew when events have been taken.
    pub fn watch(&self, queue: u32) -> Option<Watch> {
        let (word, number) = self.signals().next_event(queue)?;
        Some(Watch { word, number })
    }

    /// Its number among the NICs of its process.
    pub(crate) fn ni(&self) -> u32 {
        self.ni
    }

    /// The limits that were granted.
    pub fn limits(&self) -> &Limits {
        self.own.segment.limits()
    }

    /// The NIC, locked. Operations that may fire triggered ones end with [`Interface::settle`].
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_> {
        if let Some(clock) = self.clock {
            charge_call(clock);
        }
        self.own.segment.lock(self.word)
    }

    /// What can be read without the lock.
    #[inline(always)]
    pub fn signals(&self) -> Signals<'_> {
        self.own.segment.signals()
    }

    #[inline(always)]
    pub(crate) fn bell(&self) -> &Doorbell {
        self.own.segment.doorbell()
    }

    /// Publishes the memory that this NIC offers to peers: once said which file it is, it may only grow.
    pub fn tell_arena(&self, arena: ArenaRange) {
        let hot = &self.own.segment.header().hot;
        if hot.arena_base.load(SeqCst) != 0 && hot.arena_number.load(SeqCst) != arena.number {
            return;
        }
        hot.arena_number.store(arena.number, SeqCst);
        hot.arena_reserved.store(arena.reserved, SeqCst);
        hot.arena_base.store(arena.base, SeqCst);
        hot.arena_bytes.store(arena.bytes, SeqCst);
    }

    /// Publishes which of the program's own memory lies in files.
    fn tell_shared(&self) {
        if self.clock.is_some() {
            return;
        }
        for (file, range) in self.own.segment.header().hot.shared.iter().zip(shared::ranges()) {
            let Ok(inode) = sealed_inode(range.descriptor) else { continue };
            file.base.store(range.base, SeqCst);
            file.inode.store(inode, SeqCst);
            file.descriptor.store(range.descriptor as u32, SeqCst);
            file.bytes.store(range.bytes, SeqCst);
        }
    }

    /// Lets the heap grow so that `blocks` more may fit. False: there is no room.
    pub fn grow_heap(&self, blocks: u32) -> bool {
        let (now, ..) = self.lock().heap_blocks();
        let most = self.limits().heap_blocks_max;
        let wanted = now
            .saturating_add(blocks.checked_next_power_of_two().unwrap_or(u32::MAX))
            .max(now.saturating_mul(2))
            .min(most);
        if wanted <= now {
            return false;
        }
        match self.own.segment.grow_heap(wanted) {
            Ok(()) => self.lock().heap_grow(wanted).is_ok(),
            Err(error) => {
                log::error!("the NIC's heap cannot grow: {error}");
                false
            }
        }
    }

    /// The endpoint of a process; None if it is not there.
    #[inline(always)]
    pub(crate) fn endpoint(&self, id: u64) -> Option<&Endpoint> {
        if id == self.own.id {
            return Some(&self.own);
        }
        let slot = self.peers.get(usize::try_from(id).ok()?)?;
        let uses = &self.uses[id as usize];
        let count = uses.load(Relaxed);
        uses.store(count.wrapping_add(1), Relaxed);
        // SAFETY: a pointer in the table is to an endpoint that lives until the interface is dropped.
        match unsafe { slot.load(Acquire).as_ref() } {
            Some(peer) if peer.is_ready() && !self.due_for_look(count) => Some(peer),
            known => self.attach(id, known),
        }
    }

    #[cold]
    fn attach(&self, id: u64, known: Option<&Endpoint>) -> Option<&Endpoint> {
        if let Some(peer) = known {
            if peer.look_alive() {
                // SAFETY: a pointer in the table is to an endpoint that lives until the interface is dropped.
                return unsafe { self.peers[id as usize].load(Acquire).as_ref() };
            }
        }
        let path = self.config.directory.join(format!("{id}.{}.nic", self.ni));
        let segment = match Segment::open(&path) {
            Ok(segment) => segment,
            Err(error) => {
                log::debug!("process {id} cannot be reached: {error}");
                return None;
            }
        };
        let header = segment.header();
        if header.id != id || header.ni != self.ni || header.hot.state.load(SeqCst) != state::READY {
            return None;
        }
        let peer = Box::new(Endpoint::new(segment, false, &self.config.directory));
        if !peer.look_alive() {
            return None;
        }
        let mut attached = self.attached.lock().unwrap_or_else(|poison| poison.into_inner());
        let pointer = Box::into_raw(peer);
        attached.push(pointer);
        self.peers[id as usize].store(pointer, SeqCst);
        // SAFETY: `Box::into_raw` made the pointer above, and only the drop of the interface frees it.
        Some(unsafe { &*pointer })
    }

    /// Whether the process `responder` still answers for the id.
    pub(crate) fn answers(&self, id: u64, responder: u64) -> bool {
        let slot = usize::try_from(id).ok().and_then(|pid| self.peers.get(pid));
        // SAFETY: a pointer in the table is to an endpoint that lives until the interface is dropped.
        match slot.and_then(|slot| unsafe { slot.load(Acquire).as_ref() }) {
            Some(peer) if peer.owner() == responder => peer.look_alive(),
            // Another process has the id by now, or only others than this one have sent there.
            _ => Identity::word_is_alive(responder),
        }
    }

    /// Asks of a tenth of the peers whether they live, of others the next time: a death is noticed though few
    /// operations go there.
    pub(crate) fn look_around(&self) {
        let attached = self.attached.lock().unwrap_or_else(|poison| poison.into_inner());
        let (count, share) = (attached.len(), attached.len().div_ceil(10));
        let first = self.looked.fetch_add(share as u32, Relaxed) as usize;
        for step in 0..share {
            // SAFETY: a pointer in the list is to an endpoint that lives until the interface is dropped.
            unsafe { &*attached[first.wrapping_add(step) % count] }.look_alive();
        }
    }

    /// Makes this process's waiters look again.
    pub fn wake(&self) {
        if let Some(clock) = self.clock {
            clock.wake_threads();
        }
        self.own.segment.wake_all();
    }

    /// Closes the NIC: peers find it gone, waits end, the file goes. Nothing may be started afterwards.
    pub fn shut(&self) {
        let give_up = Instant::now() + Duration::from_secs(1);
        while self.outbox_waits.load(SeqCst) && Instant::now() < give_up {
            self.progress();
            std::thread::sleep(Duration::from_micros(100));
        }
        self.closing.store(true, SeqCst);
        let _ = std::fs::remove_file(&self.path);
        {
            let mut guard = self.lock();
            self.own.segment.header().hot.state.store(state::CLOSED, SeqCst);
            // No grant is given from here on: whoever asks for one looks at the state first, under the lock.
            let _ = guard.with_revocation(|nic| nic.revoke_all());
        }
        self.withdraw();
        while self.waiters.load(SeqCst) != 0 {
            self.wake();
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        let attached = std::mem::take(self.attached.get_mut().unwrap_or_else(|poison| poison.into_inner()));
        for pointer in attached {
            // SAFETY: made by Box::into_raw in `attach`, taken once, here.
            let peer = unsafe { Box::from_raw(pointer) };
            self.give_up_grants(&peer);
        }
        crate::endpoint::forget_own_memory();
    }
}

/// A simulated rank pays for each call.
#[cold]
fn charge_call(clock: &RankEnd) {
    clock.charge_call();
}
