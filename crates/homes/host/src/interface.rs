// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process's NIC: opened, used by all of its threads, closed.
//!
//! An [`Interface`] is made of parts, and its methods are in five files, by subject:
//!
//! | part | subject |
//! |---|---|
//! | `own`, `rings` | the NIC's memory, and the rings into it |
//! | `peers` | the NICs of other processes of this host |
//! | `outbox`, `refused`, `deferred` | packets that wait for room at their target, messages that wait for room here, replies that are due later |
//! | `waits` | threads that wait for something |
//! | `backend`, `offers` | its home |
//!
//! | file | methods |
//! |---|---|
//! | here | open, close, access to the parts |
//! | [`crate::engine`] | an operation of this process, from command to completion |
//! | [`crate::owner`] | progress of the owner: packets, dead processes |
//! | [`crate::direct`] | operations that complete in the call |
//! | [`crate::wait`] | waits |

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use selvedge_nic::signals::Doorbell;
use selvedge_nic::{Limits, Signals};
use selvedge_os::mapping::MapError;
use selvedge_os::process::Identity;
use selvedge_os::sync::IgnorePoison;
use selvedge_os::{asymmetric, cma, thread};

use crate::backend::{Backend, Loss, Offers};
use crate::config::{Config, Mode, REMOTE, kind_of};
use crate::deferred_replies::DeferredReplies;
use crate::endpoint::Endpoint;
use crate::errors::OpenError;
use crate::links::{Name, Page, Way, Work};
use crate::lock::Guard;
use crate::outbox::Outbox;
use crate::packet_queue::{Sender, Turn};
use crate::packets;
use crate::peer_files;
use crate::peers::Peers;
use crate::record;
use crate::refused_messages::RefusedMessages;
use crate::rings::Rings;
use crate::routes::OwnLanes;
use crate::segment::{Owner, Segment, SegmentError, state};
use crate::wait_list::Waits;

/// The longest wait for payloads in flight to memory that the program wants back.
const LAST_PAYLOADS: Duration = Duration::from_secs(1);

/// The longest wait for the last answers of other hosts.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

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

static OPEN: Mutex<Vec<Weak<Interface>>> = Mutex::new(Vec::new());

/// Returns the open NICs of this process. NICs inherited by `fork` belong to its parent.
pub fn open_interfaces() -> Vec<Arc<Interface>> {
    let own = std::process::id();
    let open = OPEN.lock().ignore_poison();
    open.iter().filter_map(Weak::upgrade).filter(|interface| interface.os_pid == own).collect()
}

/// Returns the open NIC number `ni` under a Portals process id. The caller has not been forked since it opened the NIC.
pub(crate) fn open_interface(pid: u32, ni: u32) -> Option<Arc<Interface>> {
    let open = OPEN.lock().ignore_poison();
    let is_meant = |interface: &Arc<Interface>| interface.id() as u32 == pid && interface.ni() == ni;
    open.iter().filter_map(Weak::upgrade).find(is_meant)
}

/// An open NIC of this process.
pub struct Interface {
    pub config: Config,
    pub(crate) own: Endpoint,
    pub(crate) rings: Rings,
    pub(crate) word: u64,
    pub(crate) os_pid: u32,
    /// Its file.
    pub path: PathBuf,
    ni: u32,
    pub(crate) peers: Peers,
    pub(crate) waits: Mutex<Waits>,
    pub(crate) closing: AtomicBool,
    /// Held by the thread that handles packets: the next ring.
    pub(crate) turn: Mutex<Turn>,
    pub(crate) refused: RefusedMessages,
    pub(crate) outbox: Outbox,
    pub(crate) deferred: DeferredReplies,
    pub(crate) last_tick: Mutex<Option<Instant>>,
    /// The next tick is due at once, because a process was lost.
    pub(crate) must_tick: AtomicBool,
    /// Number of packets of other hosts.
    pub(crate) packets_received: AtomicU32,
    /// Number of polls that found nothing.
    pub(crate) polls: AtomicU32,
    /// Number of operations started while other hosts are reached.
    pub(crate) starts: AtomicU32,
    pub(crate) spills: AtomicU64,
    pub(crate) own_lanes: OwnLanes,
    /// Counters of the links of this process.
    links: Arc<Page>,
    pub(crate) offers: Offers,
    /// As `own`, for packets of other hosts ([`crate::remote_hosts`]). None if memory is not reached that way here.
    pub(crate) seen_from_outside: OnceLock<Option<Box<Endpoint>>>,
    pub(crate) backend: Box<dyn Backend>,
}

// SAFETY: the raw pointers are to endpoints, which are Sync and live until the interface is dropped.
unsafe impl Send for Interface {}
// SAFETY: the tables of pointers are atomics and a locked list. They point to endpoints, which are Sync and live until
// the interface is dropped.
unsafe impl Sync for Interface {}

impl Interface {
    /// Opens the NIC number `ni` of this process under the Portals process id `pid`, in a home ([`crate::home`]).
    pub fn open(
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
        // Stores into mapped memory would be missing from the trace.
        offers.maps_peers &= !record::is_wanted();
        let identity = Identity::find_own().map_err(OpenError::Shortage)?;
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
        // A simulated job has many NICs on one computer, and each uses little of its tables.
        let create = if offers.is_simulated { Segment::create_sparse } else { Segment::create };
        let segment = create(&path, &limits, &owner)?;
        // A simulated job is read in the report of its run.
        let links = match offers.is_simulated {
            true => Arc::new(Page::private()),
            false => Page::acquire(&config.directory, owner.id, rank),
        };
        let own = Endpoint::new(segment, true, &config.directory);
        let peers = Peers::new(config.nid, config.directory.clone(), ni, identity.to_word());
        let interface = Arc::new(Interface {
            own,
            rings,
            word: identity.to_word(),
            os_pid: identity.pid,
            path,
            ni,
            peers,
            waits: Mutex::default(),
            closing: AtomicBool::new(false),
            turn: Mutex::new(Turn::default()),
            refused: RefusedMessages::default(),
            outbox: Outbox::default(),
            deferred: DeferredReplies::default(),
            last_tick: Mutex::new(None),
            must_tick: AtomicBool::new(false),
            packets_received: AtomicU32::new(0),
            polls: AtomicU32::new(0),
            starts: AtomicU32::new(0),
            spills: AtomicU64::new(u64::from(ni) << 32),
            own_lanes: OwnLanes::default(),
            links,
            offers,
            seen_from_outside: OnceLock::new(),
            backend,
            config,
        });
        interface.publish_arena(arena);
        interface.backend.announce(&interface)?;
        let mut open = OPEN.lock().ignore_poison();
        open.retain(|other| other.strong_count() > 0);
        open.push(Arc::downgrade(&interface));
        drop(open);
        if !interface.is_simulated() {
            selvedge_job::fabric::register(kind_of(ni), &interface.path);
        }
        Ok(interface)
    }

    /// Returns nid << 32 | pid.
    pub fn id(&self) -> u64 {
        self.own.id
    }

    /// Watches for the next event of a queue. Make a new watch after events have been dequeued.
    pub fn watch(&self, queue: u32) -> Option<Watch> {
        let (word, number) = self.signals().next_event(queue)?;
        Some(Watch { word, number })
    }

    pub(crate) fn ni(&self) -> u32 {
        self.ni
    }

    /// Returns the page with the counters of this process's links.
    pub fn links(&self) -> &Arc<Page> {
        &self.links
    }

    /// Returns the counters of this NIC's operations at a process of this host.
    #[inline(always)]
    pub(crate) fn work_at<'a>(&self, peer: &'a Endpoint) -> &'a Work {
        match peer.link.get() {
            Some(link) => &link.work,
            None => self.open_link(peer),
        }
    }

    #[cold]
    fn open_link<'a>(&self, peer: &'a Endpoint) -> &'a Work {
        let name = Name { way: Way::Memory, ni: self.ni, peer: peer.id, address: String::new() };
        &peer.link.get_or_init(|| self.links.link(&name, peer.segment.header().rank)).work
    }

    /// Returns the limits that were granted.
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
    /// descriptor: the price is that of the command, and the call has none.
    #[inline(always)]
    pub fn lock_to_post(&self) -> Guard<'_> {
        self.own.segment.lock(self.word)
    }

    /// Locks the NIC to hand it a message that the program's library has received itself. The program matches it, in
    /// memory: the caller charges the accesses ([`Interface::charge_accesses`]), and the call has no price.
    #[inline(always)]
    pub fn lock_to_hand_in(&self) -> Guard<'_> {
        self.own.segment.lock(self.word)
    }

    /// Not inlined in `lock`, which is hot if calls have no price.
    #[cold]
    fn charge_call(&self) {
        self.backend.charge_call();
    }

    /// Returns the parts of the NIC that are read without the lock.
    #[inline(always)]
    pub fn signals(&self) -> Signals<'_> {
        self.own.segment.signals()
    }

    /// Returns the rings into this NIC.
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

    /// Publishes the parts of the program's own memory that are in files.
    pub(crate) fn publish_shared(&self) {
        peer_files::publish(&self.own.segment.header().hot.shared);
    }

    /// Grows the heap by room for `blocks` more. False if there is no room.
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
            Err(MapError::Shortage(shortage)) => {
                shortage.report();
                false
            }
            Err(error) => {
                log::error!("the NIC's heap cannot grow: {error}");
                false
            }
        }
    }

    /// Returns the endpoint of a process of this host. None if the process has no open NIC.
    #[inline(always)]
    pub(crate) fn endpoint(&self, id: u64) -> Option<&Endpoint> {
        if id == self.own.id { Some(&self.own) } else { self.peers.get(id) }
    }

    /// Returns the names of this process as a sender of packets.
    pub(crate) fn sender(&self) -> Sender<'_> {
        let pid = self.own.id as u32 as usize;
        Sender { word: self.word, pid, os_pid: self.os_pid, directory: &self.config.directory, spills: &self.spills }
    }

    // ---- other hosts ----

    /// Whether this NIC reaches NICs of other hosts.
    pub fn reaches_hosts(&self) -> bool {
        self.offers.reaches_hosts
    }

    /// Whether an id is that of another host, and packets get there.
    #[inline(always)]
    pub fn is_remote(&self, id: u64) -> bool {
        self.offers.reaches_hosts && self.peers.is_remote(id)
    }

    /// Whether a process of another host may still answer. Asks the launcher for its address if necessary.
    #[cold]
    pub fn answers_remotely(&self, id: u64) -> bool {
        self.is_remote(id) && self.backend.answers(id)
    }

    /// Finds the address of a process of another host, before a thread that must not ask the launcher sends to it.
    #[inline(always)]
    pub fn resolve_remote(&self, id: u64) {
        if self.is_remote(id) {
            self.answers_remotely(id);
        }
    }

    /// Returns the end of a process of another host, if this process knows of it.
    #[cold]
    pub fn remote_loss(&self, id: u64) -> Option<Loss> {
        if self.is_remote(id) { self.backend.loss(id) } else { None }
    }

    /// Watches a process of another host, so that the loss of its host is noticed.
    #[cold]
    pub fn watch_remote(&self, id: u64) {
        if self.is_remote(id) {
            self.backend.watch(id);
        }
    }

    /// Whether an operation to this id finds a NIC. True if only the home, or another host, can tell.
    pub fn has_peer(&self, id: u64) -> bool {
        !self.offers.executes_here || self.endpoint(id).is_some() || self.answers_remotely(id)
    }

    /// Whether the process `responder` still owns the id.
    pub(crate) fn answers(&self, id: u64, responder: u64) -> bool {
        match responder {
            REMOTE => self.answers_remotely(id),
            responder if id == self.own.id => Identity::word_is_alive(responder),
            responder => self.peers.answers(id, responder),
        }
    }

    /// Whether other processes send packets to this NIC. Only its own program handles packets.
    pub fn gets_packets(&self) -> bool {
        self.rings.get_packets()
    }

    /// Enqueues any bytes for the own NIC as a packet, for a test that plays a hostile peer. False if there is no room.
    pub fn enqueue_bytes(&self, bytes: &[u8]) -> bool {
        packets::enqueue_bytes(&self.own, &self.sender(), bytes)
    }

    /// Repeats `is_done` while payloads of other hosts are in flight to memory of this NIC's program. Waits for them,
    /// but not for long; then they are given up.
    pub fn retry_while_fetching(&self, is_done: impl Fn() -> bool) {
        let give_up = Instant::now() + LAST_PAYLOADS;
        while !is_done() {
            if !self.offers.reaches_hosts {
                return;
            }
            if Instant::now() >= give_up {
                self.backend.stop_fetching(self);
                is_done();
                return;
            }
            self.progress();
            std::thread::yield_now();
        }
    }

    /// Waits until processes of other hosts have answered the requests of this NIC, but not for long. If this process
    /// ended earlier, requests could be lost in the kernel's buffers.
    fn await_answers(&self) {
        let give_up = Instant::now() + LAST_ANSWERS;
        let waits = || {
            let guard = self.own.segment.lock(self.word);
            let mut waits = false;
            guard.pending().find(|target, responder| {
                waits |= responder == REMOTE && self.peers.is_remote(target);
                false
            });
            waits
        };
        while waits() && Instant::now() < give_up {
            self.progress();
            self.tick();
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    // ---- the home ----

    /// Whether a full mailbox of another node stops its senders, so that no message is lost.
    pub fn mailboxes_refuse(&self) -> bool {
        self.offers.mailboxes_refuse
    }

    /// Whether time is virtual.
    #[inline(always)]
    pub fn is_simulated(&self) -> bool {
        self.offers.is_simulated
    }

    /// Whether all of this job's processes may store directly to each other's memory. Processes of several hosts may
    /// not.
    pub fn stores_in_place(&self) -> bool {
        self.offers.maps_peers && !self.offers.reaches_hosts
    }

    /// Whether all of a range is this process's own shared memory.
    pub fn is_own_shared(&self, start: u64, bytes: u64) -> bool {
        self.own.in_place(start, bytes, self.config.path).is_some()
    }

    /// Makes the waiters of this process poll again.
    pub fn wake(&self) {
        self.backend.wake_threads(self);
    }

    /// Closes the NIC: peers see it closed, waits end, and its file is removed. No operation may be started afterwards.
    pub fn shut(&self) {
        let give_up = Instant::now() + Duration::from_secs(1);
        while self.outbox.any() && Instant::now() < give_up {
            self.progress();
            std::thread::sleep(Duration::from_micros(100));
        }
        if self.offers.reaches_hosts {
            self.await_answers();
            self.backend.drain();
        }
        self.closing.store(true, SeqCst);
        if self.offers.reaches_hosts {
            self.backend.stop_fetching(self);
        }
        let _ = std::fs::remove_file(&self.path);
        selvedge_job::fabric::unregister(&self.path);
        {
            let mut guard = self.lock();
            self.own.segment.header().hot.state.store(state::CLOSED, SeqCst);
            // No grant is given after this: a process that requests one checks the state first, under the lock.
            let _ = guard.with_revocation(|nic| nic.grants().revoke_all());
        }
        self.rings.shut();
        self.own.packets.give_up();
        self.peers.give_up_rings();
        self.backend.withdraw(self);
        self.links.release();
        self.see_off(|waits| waits.count != 0);
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        crate::endpoint::forget_own_memory();
    }
}
