// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process's NIC: opened, used by all of its threads, closed.
//!
//! A peer is found by its Portals process id: its segment is the file `<pid>.<ni>.nic` in the job's directory. A peer
//! is attached at the first message to it, and stays attached. A peer that has closed or died is looked up again at the
//! next message.
//!
//! Cost per peer: one pointer, and an [`Endpoint`] for each peer that was attached.

use std::path::PathBuf;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst,
};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use std::collections::VecDeque;

use selvedge_nic::signals::Doorbell;
use selvedge_nic::{Limits, Signals};

use crate::backend::{Backend, Offers};
use crate::config::{Config, Mode, PID_LIMIT};
use crate::elsewhere::ELSEWHERE;
use crate::endpoint::Endpoint;
use crate::errors::OpenError;
use crate::lock::Guard;
use crate::os::cma;
use crate::os::process::Identity;
use crate::os::{asymmetric, thread};
use crate::packet_queue::{Held, Outgoing, Turn};
use crate::peer_files;
use crate::record;
use crate::rings::Rings;
use crate::routes::OwnLanes;
use crate::segment::{Owner, Segment, SegmentError, state};
use crate::wait::Waits;

/// The shared arena of this process, as its NICs publish it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArenaRange {
    /// The number of its file ([`crate::endpoint::arena_path`]).
    pub number: u32,
    pub base: u64,
    pub reserved: u64,
    pub bytes: u64,
}

/// Polls a queue of the own NIC with one load, of the word that the next event will set.
#[derive(Clone, Copy)]
pub struct Watch {
    word: *const AtomicU64,
    number: u64,
}

impl Watch {
    /// Whether the event has been posted.
    #[inline(always)]
    pub fn has_event(&self) -> bool {
        // SAFETY: the word is in the segment's heap, which stays mapped as long as the interface that made the watch is
        // open.
        unsafe { (*self.word).load(Relaxed) == self.number }
    }
}

/// The open NICs of this process.
static OPEN: Mutex<Vec<Weak<Interface>>> = Mutex::new(Vec::new());

/// The open NICs of this process. Those that it inherited by `fork` belong to its parent.
pub fn open_interfaces() -> Vec<Arc<Interface>> {
    let own = std::process::id();
    let open = OPEN.lock().unwrap_or_else(|poison| poison.into_inner());
    open.iter().filter_map(Weak::upgrade).filter(|interface| interface.os_pid == own).collect()
}

/// The open NIC number `ni` under a Portals process id. The caller has not been forked since it opened the NIC.
pub(crate) fn open_interface(pid: u32, ni: u32) -> Option<Arc<Interface>> {
    let open = OPEN.lock().unwrap_or_else(|poison| poison.into_inner());
    let is_meant = |interface: &Arc<Interface>| interface.id() as u32 == pid && interface.ni() == ni;
    open.iter().filter_map(Weak::upgrade).find(is_meant)
}

/// An open NIC of this process.
pub struct Interface {
    pub config: Config,
    pub(crate) own: Endpoint,
    /// The rings into this NIC.
    pub(crate) rings: Rings,
    pub(crate) word: u64,
    pub(crate) os_pid: u32,
    pub(crate) path: PathBuf,
    ni: u32,
    /// The upper half of the ids of this host.
    pub(crate) host: u64,
    peers: Box<[AtomicPtr<Endpoint>]>,
    uses: Box<[AtomicU32]>,
    /// Every endpoint that was attached. The drop of the interface frees them.
    attached: Mutex<Vec<*mut Endpoint>>,
    pub(crate) waits: Mutex<Waits>,
    pub(crate) closing: AtomicBool,
    /// Held by the thread that handles packets: the ring that is next.
    pub(crate) turn: Mutex<Turn>,
    pub(crate) held: Mutex<Held>,
    /// Messages are held. It changes under the NIC's lock.
    pub(crate) held_waits: AtomicBool,
    pub(crate) outbox: Mutex<VecDeque<Outgoing>>,
    pub(crate) outbox_waits: AtomicBool,
    pub(crate) last_tick: Mutex<Option<Instant>>,
    /// The next tick is due at once: a process was lost.
    pub(crate) must_tick: AtomicBool,
    /// Counts the packets of other hosts.
    pub(crate) taken_in: AtomicU32,
    /// Index for [`Interface::look_around`]: the peers that were checked so far.
    looked: AtomicU32,
    /// Index for [`Interface::forget_dead_askers`].
    pub(crate) lock_looks: AtomicU32,
    /// Polls that found nothing.
    pub(crate) polls: AtomicU32,
    /// Operations that were started, for [`crate::elsewhere`].
    pub(crate) starts: AtomicU32,
    pub(crate) spills: AtomicU64,
    pub(crate) own_lanes: OwnLanes,
    /// What hot paths may do without a call to the backend.
    pub(crate) offers: Offers,
    /// As `own`, for packets of other hosts ([`crate::elsewhere`]). None: memory is not reached that way here.
    pub(crate) seen_from_outside: OnceLock<Option<Box<Endpoint>>>,
    /// The home that this NIC is in.
    pub(crate) backend: Box<dyn Backend>,
}

// SAFETY: the raw pointers are to endpoints, which are Sync and live until the interface is dropped.
unsafe impl Send for Interface {}
// SAFETY: the tables of pointers are atomics and a locked list. They point to endpoints, which are Sync and live until
// the interface is dropped.
unsafe impl Sync for Interface {}

impl Interface {
    /// Opens the NIC number `ni` of this process under the Portals process id `pid`, in a given home.
    pub(crate) fn open_in(
        backend: Box<dyn Backend>,
        config: Config,
        ni: u32,
        pid: u16,
        rank: u32,
        limits: &Limits,
        arena: ArenaRange,
    ) -> Result<Arc<Interface>, OpenError> {
        let config = backend.configure(config);
        let limits = backend.size(limits);
        let mut offers = backend.offers(&config);
        // What is stored into mapped memory is in no trace.
        offers.maps_peers &= !record::is_wanted();
        let identity = Identity::own();
        asymmetric::register();
        thread::watch_forks();
        if offers.admits_attach {
            cma::admit_peers();
        }
        // SAFETY: geteuid takes no pointer and cannot fail.
        let uid = unsafe { libc::geteuid() };
        let owner = Owner {
            id: u64::from(config.nid) << 32 | u64::from(pid),
            ni,
            pid: identity.pid,
            uid,
            start: identity.start,
            host_mode: config.mode == Mode::Host,
            rank,
            token: config.token,
        };
        let path = config.directory.join(format!("{pid}.{ni}.nic"));
        // The rings come before the segment, so that a peer that finds the segment finds them too.
        let rings = Rings::create(&config.directory, pid.into(), ni).map_err(SegmentError::Map)?;
        let segment = Segment::create(&path, &limits, &owner)?;
        let own = Endpoint::new(segment, true, &config.directory);
        let peers: Box<[AtomicPtr<Endpoint>]> = (0..PID_LIMIT).map(|_| AtomicPtr::default()).collect();
        let interface = Arc::new(Interface {
            own,
            rings,
            word: identity.to_word(),
            os_pid: identity.pid,
            path,
            ni,
            host: u64::from(config.nid) << 32,
            peers,
            uses: (0..PID_LIMIT).map(|_| AtomicU32::new(0)).collect(),
            attached: Mutex::new(Vec::new()),
            waits: Mutex::default(),
            closing: AtomicBool::new(false),
            turn: Mutex::new(Turn::default()),
            held: Mutex::default(),
            held_waits: AtomicBool::new(false),
            outbox: Mutex::new(VecDeque::new()),
            outbox_waits: AtomicBool::new(false),
            last_tick: Mutex::new(None),
            must_tick: AtomicBool::new(false),
            taken_in: AtomicU32::new(0),
            looked: AtomicU32::new(0),
            lock_looks: AtomicU32::new(0),
            polls: AtomicU32::new(0),
            starts: AtomicU32::new(0),
            spills: AtomicU64::new(u64::from(ni) << 32),
            own_lanes: OwnLanes::default(),
            offers,
            seen_from_outside: OnceLock::new(),
            backend,
            config,
        });
        interface.publish_arena(arena);
        interface.backend.announce(&interface)?;
        let mut open = OPEN.lock().unwrap_or_else(|poison| poison.into_inner());
        open.retain(|other| other.strong_count() > 0);
        open.push(Arc::downgrade(&interface));
        Ok(interface)
    }

    /// nid << 32 | pid.
    pub fn id(&self) -> u64 {
        self.own.id
    }

    /// Watches for the next event of a queue. Make a new watch after events have been dequeued.
    pub fn watch(&self, queue: u32) -> Option<Watch> {
        let (word, number) = self.signals().next_event(queue)?;
        Some(Watch { word, number })
    }

    /// The number of this NIC among the NICs of its process.
    pub(crate) fn ni(&self) -> u32 {
        self.ni
    }

    /// The limits that were granted.
    pub fn limits(&self) -> &Limits {
        self.own.segment.limits()
    }

    /// Locks the NIC. An operation that may fire triggered operations must end with [`Interface::settle`].
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_> {
        if self.offers.charges_calls {
            self.charge_call();
        }
        self.own.segment.lock(self.word)
    }

    /// Locks the NIC to make a command of a descriptor, which is started next. With hardware this is the store of the
    /// descriptor: its price is that of the command, and no call has one.
    #[inline(always)]
    pub fn lock_to_post(&self) -> Guard<'_> {
        self.own.segment.lock(self.word)
    }

    /// Locks the NIC to hand it a message that the program's library has received itself. The program matches it, in memory: the
    /// caller charges the accesses ([`Interface::charge_accesses`]), and no call has a price.
    #[inline(always)]
    pub fn lock_to_hand_in(&self) -> Guard<'_> {
        self.own.segment.lock(self.word)
    }

    /// Not inlined in `lock`, which runs often where calls have no price.
    #[cold]
    fn charge_call(&self) {
        self.backend.charge_call();
    }

    /// The parts of the NIC that are read without the lock.
    #[inline(always)]
    pub fn signals(&self) -> Signals<'_> {
        self.own.segment.signals()
    }

    /// The rings into this NIC.
    #[inline(always)]
    pub fn rings(&self) -> &Rings {
        &self.rings
    }

    #[inline(always)]
    pub(crate) fn bell(&self) -> &Doorbell {
        self.own.segment.doorbell()
    }

    /// Publishes the memory that this NIC offers to peers. The number of its file is fixed after the first call; the
    /// size may only grow.
    pub fn publish_arena(&self, arena: ArenaRange) {
        let hot = &self.own.segment.header().hot;
        if hot.arena_base.load(SeqCst) != 0 && hot.arena_number.load(SeqCst) != arena.number {
            return;
        }
        hot.arena_number.store(arena.number, SeqCst);
        hot.arena_reserved.store(arena.reserved, SeqCst);
        hot.arena_base.store(arena.base, SeqCst);
        hot.arena_bytes.store(arena.bytes, SeqCst);
    }

    /// Publishes which of the program's own memory is in files.
    pub(crate) fn publish_shared(&self) {
        peer_files::publish(&self.own.segment.header().hot.shared);
    }

    /// Grows the heap so that `blocks` more may fit. False: there is no room.
    pub fn grow_heap(&self, blocks: u32) -> bool {
        let (now, ..) = self.lock().heap().blocks();
        let most = self.limits().heap_blocks_max;
        let wanted = now
            .saturating_add(blocks.checked_next_power_of_two().unwrap_or(u32::MAX))
            .max(now.saturating_mul(2))
            .min(most);
        if wanted <= now {
            return false;
        }
        match self.own.segment.grow_heap(wanted) {
            Ok(()) => self.lock().heap().grow(wanted).is_ok(),
            Err(error) => {
                log::error!("the NIC's heap cannot grow: {error}");
                false
            }
        }
    }

    /// The endpoint of a process. None if the process has no open NIC.
    #[inline(always)]
    pub(crate) fn endpoint(&self, id: u64) -> Option<&Endpoint> {
        if id == self.own.id {
            return Some(&self.own);
        }
        let place = self.place(id) as usize;
        let slot = self.peers.get(place)?;
        let uses = &self.uses[place];
        let count = uses.load(Relaxed);
        uses.store(count.wrapping_add(1), Relaxed);
        // SAFETY: the table points to endpoints that live until the interface is dropped.
        match unsafe { slot.load(Acquire).as_ref() } {
            Some(peer) if peer.is_ready() && !self.due_for_look(count) => Some(peer),
            known => self.attach(id, known),
        }
    }

    /// Whether this NIC has links to other hosts.
    pub fn has_carrier(&self) -> bool {
        self.offers.has_carrier
    }

    /// Whether an operation to this id finds a NIC. True if only the home, or another host, knows.
    pub fn has_peer(&self, id: u64) -> bool {
        !self.offers.executes_here || self.way_to(id).is_some()
    }

    #[cold]
    fn attach(&self, id: u64, known: Option<&Endpoint>) -> Option<&Endpoint> {
        if let Some(peer) = known {
            if peer.look_alive() {
                // SAFETY: the table points to endpoints that live until the interface is dropped.
                return unsafe { self.peers[self.place(id) as usize].load(Acquire).as_ref() };
            }
        }
        let path = self.config.directory.join(format!("{}.{}.nic", id as u32, self.ni));
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
        // Another thread may have attached the peer meanwhile. A process has one endpoint for a peer, because it has one
        // ring for packets there.
        // SAFETY: the table points to endpoints that live until the interface is dropped.
        let other = unsafe { self.peers[self.place(id) as usize].load(Acquire).as_ref() };
        let is_new = |other: &&Endpoint| known.is_none_or(|known| !std::ptr::eq(known, *other));
        if let Some(other) = other.filter(is_new).filter(|other| other.owner() == peer.owner()) {
            return Some(other);
        }
        let pointer = Box::into_raw(peer);
        attached.push(pointer);
        self.peers[self.place(id) as usize].store(pointer, SeqCst);
        // SAFETY: `Box::into_raw` made the pointer above, and only the drop of the interface frees it.
        Some(unsafe { &*pointer })
    }

    /// Whether the process `responder` still owns the id.
    pub(crate) fn answers(&self, id: u64, responder: u64) -> bool {
        if responder == ELSEWHERE {
            return self.answers_elsewhere(id);
        }
        let slot = self.peers.get(self.place(id) as usize);
        // SAFETY: the table points to endpoints that live until the interface is dropped.
        match slot.and_then(|slot| unsafe { slot.load(Acquire).as_ref() }) {
            Some(peer) if peer.owner() == responder => peer.look_alive(),
            // Another process has the id by now, or another process sent the request.
            _ => Identity::word_is_alive(responder),
        }
    }

    /// Checks whether a tenth of the peers are alive; the next call checks the next tenth. So a death is found even if
    /// few operations go to that peer.
    pub(crate) fn look_around(&self) {
        let attached = self.attached.lock().unwrap_or_else(|poison| poison.into_inner());
        let (count, share) = (attached.len(), attached.len().div_ceil(10));
        let first = self.looked.fetch_add(share as u32, Relaxed) as usize;
        for step in 0..share {
            // SAFETY: the list points to endpoints that live until the interface is dropped.
            unsafe { &*attached[first.wrapping_add(step) % count] }.look_alive();
        }
    }

    /// Makes the waiters of this process poll again.
    pub fn wake(&self) {
        self.backend.wake_threads(self);
    }

    /// Gives up this process's rings at other NICs, because another NIC may take its id afterwards.
    fn give_up_rings(&self) {
        self.own.packets.give_up();
        let attached = self.attached.lock().unwrap_or_else(|poison| poison.into_inner());
        for &peer in attached.iter() {
            // SAFETY: as in `endpoint`.
            unsafe { &*peer }.packets.give_up();
        }
    }

    /// Closes the NIC: peers see it closed, waits end, and its file is removed. No operation may be started afterwards.
    pub fn shut(&self) {
        let give_up = Instant::now() + Duration::from_secs(1);
        while self.outbox_waits.load(SeqCst) && Instant::now() < give_up {
            self.progress();
            std::thread::sleep(Duration::from_micros(100));
        }
        if let Some(carrier) = &self.config.carrier {
            self.await_answers();
            carrier.flush();
        }
        self.closing.store(true, SeqCst);
        if let Some(carrier) = &self.config.carrier {
            carrier.let_go(self.id() as u32, self.ni());
        }
        let _ = std::fs::remove_file(&self.path);
        {
            let mut guard = self.lock();
            self.own.segment.header().hot.state.store(state::CLOSED, SeqCst);
            // No grant is given after this: a process that requests one checks the state first, under the lock.
            let _ = guard.with_revocation(|nic| nic.grants().revoke_all());
        }
        self.rings.shut();
        self.give_up_rings();
        self.backend.withdraw(self);
        self.see_off(|waits| waits.count != 0);
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        let attached = std::mem::take(self.attached.get_mut().unwrap_or_else(|poison| poison.into_inner()));
        for pointer in attached {
            // SAFETY: `Box::into_raw` made the pointer in `attach`. Each pointer is taken from the list once, here.
            let peer = unsafe { Box::from_raw(pointer) };
            self.give_up_grants(&peer);
        }
        crate::endpoint::forget_own_memory();
    }
}
