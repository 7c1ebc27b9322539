// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The links of a process: to and from processes of other hosts.
//!
//! ```text
//! send ──> outgoing link: queue, frame ──> endpoint ══> endpoint ──> incoming link: check, assemble ──> sink
//!            └─ control connection ─────────────────────────────────────┘
//! ```
//!
//! | file | has |
//! |---|---|
//! | [`state`] | the state of all links: the work to make progress on, and the thread that does it |
//! | [`watch`] | control connections and the bell, in one epoll set |
//! | [`peers`], [`reader`], [`senders`] | the peers; the endpoint that reads payloads; all that senders share, under one lock |
//! | [`shared`] | the part that every thread uses |
//! | [`progress_state`] | links from peers, and the reads in flight on them, under one lock |
//! | [`payloads`], [`connections`], [`step`] | progress: of payloads that are read, of control connections, of all |
//! | [`limit`] | idle links are closed when there are too many |
//! | [`progress_thread`] | the thread that makes progress while the program computes |
//! | this one | [`Links`]: opened, used by the program, closed |
//!
//! There are two locks. The thread that makes progress holds that of [`ProgressState`]: it has the incoming links, and
//! hands packets to the sink. That of [`senders::Senders`] has peers, outgoing links and the endpoint. A thread may
//! take the second while it holds the first, never the other way round. The sink is called with only the first lock
//! held, so it may send.
//!
//! Invariants
//! 1. Packets of one peer are handed over in the order in which it sent them, one at a time.
//! 2. A lost peer stays lost. Its address belongs to a process that has ended.
//! 3. Nothing is opened before it is needed: the endpoint, its buffers and the links at the first packet in or out.
//!
//! Cost: a link has a connection at each side. A poll loads one word of state and counts itself.

mod connections;
mod limit;
mod payloads;
mod peers;
mod progress_state;
mod progress_thread;
mod reader;
mod senders;
mod shared;
mod state;
mod step;
mod strangers;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use selvedge_host::backend::Loss;
use selvedge_host::links::Page;
use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;
use selvedge_os::sync::IgnorePoison;

use progress_state::ProgressState;
use senders::Senders;
use shared::Shared;
use state::{PollCounter, State, StateWord};
use watch::Watch;

use crate::address::LinkAddress;
use crate::control::listen;
use crate::errors::{LinkError, OpenError, SendError};
use crate::greeting::NO_HOST;
use crate::ids::{NicName, PeerId};
use crate::outgoing::Flush;
use crate::payload::Source;
use crate::random::fill_random;
use crate::settings::{Progress, Settings};
use crate::sink::{ProgressCaller, Sink};
use selvedge_os::forked::ParentOnly;

/// The longest time that a process that ends waits for its last frames to be sent, and then for its peers to
/// acknowledge them.
const LAST_FRAMES_LEAVE: Duration = Duration::from_secs(5);
const LAST_ACKS: Duration = Duration::from_secs(2);

/// The time at which a packet is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendTiming {
    /// As soon as possible.
    Now,
    /// With the next packet to the same peer, or at the next poll that has nothing else to do.
    WithNext,
}

/// The links of a process.
pub struct Links {
    shared: Shared,
    progress: Mutex<ProgressState>,
    thread: Mutex<Option<JoinHandle<()>>>,
    own: Weak<Links>,
    /// The process that opened the links. A forked child has no progress thread, and must not use them.
    process: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Drained {
    /// All packets were sent.
    Sent,
    /// The peers have acknowledged them, too: the kernel may drop bytes of a process that has ended.
    Acknowledged,
}

impl Links {
    /// Listens for links. `sink` gets the packets that arrive.
    pub fn open(settings: Settings, sink: Arc<dyn Sink>) -> Result<Arc<Links>, OpenError> {
        let at = settings.at;
        let listener = ParentOnly::new(listen(at).map_err(|error| match OpenError::from(error) {
            // A permission that lacks is one for this address.
            OpenError::System(error) => OpenError::Listen { at, error },
            other => other,
        })?);
        let socket = listener.local_addr()?;
        let mut token = [0; 8];
        fill_random(&mut token)?;
        let shared = Shared {
            address: LinkAddress::new(socket, u64::from_le_bytes(token)),
            sink,
            watch: Watch::open(&listener)?,
            listener,
            senders: Mutex::new(Senders::new(settings.check)),
            state: StateWord::default(),
            polls: PollCounter::default(),
            settings,
        };
        let links = Arc::new_cyclic(|own| Links {
            progress: Mutex::new(ProgressState::new(shared.settings.faults.clone())),
            shared,
            thread: Mutex::new(None),
            own: own.clone(),
            process: std::process::id(),
        });
        if links.shared.settings.progress == Progress::Thread {
            links.start_thread()?;
        }
        Ok(links)
    }

    /// Starts the progress thread, unless it runs. It ends when the links are closed.
    fn start_thread(&self) -> std::io::Result<()> {
        let mut thread = self.thread.lock().ignore_poison();
        if thread.is_none() && !self.shared.state.load().is_closing() {
            if let Some(links) = self.own.upgrade() {
                let run = move || progress_thread::run(&links.shared, &links.progress);
                *thread = Some(selvedge_os::thread::spawn("selvedge-links", run)?);
                // The thread sets this, too, but this thread may look first.
                self.shared.state.thread_started();
            }
        }
        Ok(())
    }

    /// Starts the progress thread at the first link, if the settings want that and the endpoint was opened since
    /// `before`.
    fn start_thread_at_first_link(&self, before: State) {
        let is_wanted = self.shared.settings.progress == Progress::ThreadLater;
        if is_wanted && !before.has_endpoint() && self.shared.state.load().has_endpoint() {
            if let Err(error) = self.start_thread() {
                log::error!("links between hosts progress only in the program's calls, for want of a thread: {error}");
            }
        }
    }

    /// Counts the links in this page of this process, for tools.
    pub fn count_in(&self, page: &Arc<Page>) {
        page.set_address(&self.shared.address.socket().to_string());
        self.shared.lock().count_in(page);
    }

    /// Returns the address of this process for others. It is also the right to connect.
    pub fn address(&self) -> LinkAddress {
        self.shared.address
    }

    /// Returns the number of a peer, a new one if the address is new.
    pub fn peer(&self, address: LinkAddress) -> PeerId {
        self.shared.lock().peers.number_of(address, NO_HOST)
    }

    /// Returns the address of a peer.
    pub fn address_of(&self, peer: PeerId) -> Option<LinkAddress> {
        Some(self.shared.lock().peers.get(peer)?.address).filter(|address| !address.is_nowhere())
    }

    /// Returns the number of links to peers that have a connection, or make one.
    pub fn in_use(&self) -> usize {
        self.shared.lock().peers.in_use()
    }

    /// Returns the number of a peer's host in the job; None if it has none.
    pub fn nid_of(&self, peer: PeerId) -> Option<u32> {
        self.shared.lock().peers.nid_of(peer)
    }

    /// Whether a peer was lost.
    pub fn is_lost(&self, peer: PeerId) -> bool {
        self.shared.is_lost(peer)
    }

    /// Returns the end of a peer that has ended or is lost.
    pub fn loss_of(&self, peer: PeerId) -> Option<Loss> {
        self.shared.lock().peers.get(peer)?.loss.as_deref().cloned()
    }

    /// Whether a peer, from which this process awaits answers, may still send them. If the link to it rests, it is opened
    /// again, so that its end is noticed.
    pub fn answers(&self, peer: PeerId) -> bool {
        let mut senders = self.shared.lock();
        let Some(target) = senders.peers.get_mut(peer) else { return false };
        let connection = &target.outgoing.connection;
        if connection.is_lost() {
            return false;
        }
        if connection.is_in_use() {
            target.asked_about = Some(Instant::now());
        }
        !connection.is_resting() || self.connect(senders, peer).is_some()
    }

    /// Opens the link to a peer, unless it is open, so that the kernel finds out if the peer's host is lost.
    pub fn watch(&self, peer: PeerId) {
        let mut senders = self.shared.lock();
        let Some(target) = senders.peers.get_mut(peer) else { return };
        target.is_watched = true;
        if target.outgoing.connection.is_closed() {
            let _ = self.connect(senders, peer);
        }
    }

    /// Connects to a peer for the first time, or again. None: the peer is lost.
    fn connect<'a>(&'a self, mut senders: MutexGuard<'a, Senders>, peer: PeerId) -> Option<MutexGuard<'a, Senders>> {
        let before = self.shared.state.load();
        let connected = self.shared.connect(&mut senders, peer);
        self.start_thread_at_first_link(before);
        match connected {
            Ok(()) => Some(senders),
            Err(error) => {
                self.shared.lose(senders, peer, &error);
                None
            }
        }
    }

    /// Takes a packet for a NIC of a peer. It is sent soon; the first one connects.
    pub fn send(
        &self,
        peer: PeerId,
        to: NicName,
        packet: &[u8; PACKET_BYTES],
        payload: Source<'_>,
        timing: SendTiming,
    ) -> Result<(), SendError> {
        let shared = &self.shared;
        let mut senders = shared.lock();
        let Some(target) = senders.peers.get(peer).filter(|target| !target.outgoing.connection.is_lost()) else {
            return Err(SendError::Gone);
        };
        if !target.outgoing.has_room() {
            return Err(SendError::Full);
        }
        if target.outgoing.connection.is_closed() {
            senders = self.connect(senders, peer).ok_or(SendError::Gone)?;
        }
        let rest = senders.note_taken();
        let id = senders.peers.nid_of(peer).map(|nid| u64::from(nid) << 32 | u64::from(to.pid));
        let Senders { endpoint, peers, .. } = &mut *senders;
        let outgoing = &mut peers[peer].outgoing;
        outgoing.note_rest(rest);
        outgoing.note_packet(payload.bytes().len(), id);
        outgoing.push(endpoint.as_mut(), to, packet, payload);
        let flushed = match endpoint {
            Some(endpoint) if timing == SendTiming::Now => {
                outgoing.flush(endpoint, Flush::AtOnce, peer.0, &shared.settings)
            }
            _ => Ok(()),
        };
        match flushed {
            Ok(()) => {
                if outgoing.has_to_send() {
                    peers.mark_busy(peer);
                    drop(senders);
                    if timing == SendTiming::Now {
                        shared.wake();
                    }
                }
                Ok(())
            }
            Err(error) => {
                shared.lose(senders, peer, &error);
                Err(SendError::Gone)
            }
        }
    }

    /// Makes progress, for a program that polls. After a poll that found something, the next one does not call
    /// libfabric: a program with several endpoints polls them in turn, the packet was for one of them, and the call to
    /// the kernel would delay its answer.
    #[inline]
    pub fn poll(&self) {
        let shared = &self.shared;
        let state = shared.state.load();
        if state.is_program_asleep() {
            shared.state.program_wakes();
        }
        let (number, has_found) = shared.polls.count();
        let looks = state.looks_at_control(number);
        if !state.has_endpoint() && !looks {
            return;
        }
        if !looks && has_found {
            return shared.polls.set_found(false);
        }
        let Ok(mut progress) = self.progress.try_lock() else { return };
        if looks {
            progress.advance_control(shared);
            self.start_thread_at_first_link(state);
            shared.state.settled(progress.waits_for_time(shared));
        }
        let found = progress.step(shared, ProgressCaller::Program);
        drop(progress);
        shared.polls.set_found(found);
        // The program may compute next, while responses to these packets wait for the next packet.
        if found && shared.lock().peers.has_busy() {
            shared.wake();
        }
    }

    /// Notes that the program sleeps until something arrives.
    pub fn program_sleeps(&self) {
        if self.shared.state.program_sleeps() {
            self.shared.watch.ring();
        }
    }

    /// Ends the links with a peer that breaks the protocol. The peer is then lost.
    pub fn disconnect(&self, peer: PeerId, why: &str) {
        self.shared.lose(self.shared.lock(), peer, &LinkError::Disconnected(why.to_owned()));
    }

    /// Stops reads into memory of a NIC of this process. When it returns, nothing is written there any more.
    pub fn stop_reading_to(&self, nic: NicName) {
        if self.process == std::process::id() {
            self.progress.lock().ignore_poison().stop_reading_to(&self.shared, nic);
        }
    }

    /// Waits until all packets taken so far were sent, or until it takes too long.
    pub fn drain(&self) {
        if self.process == std::process::id() {
            self.drain_until(Drained::Sent);
        }
    }

    fn drain_until(&self, goal: Drained) {
        let shared = &self.shared;
        let began = Instant::now();
        let mut sent_at = None;
        loop {
            {
                let mut progress = self.progress.lock().ignore_poison();
                let before = shared.state.load();
                progress.advance_control(shared);
                self.start_thread_at_first_link(before);
                progress.step(shared, ProgressCaller::Program);
                let mut senders = shared.lock();
                let (mut is_sending, mut is_unsure) = (false, false);
                for (_, peer) in senders.peers.iter_mut() {
                    let link = &mut peer.outgoing;
                    if link.connection.is_lost() || link.connection.ending_since().is_some() {
                        continue;
                    }
                    is_sending |= link.is_sending();
                    is_unsure |= link.waits_for_ack()
                        || goal == Drained::Acknowledged && (link.connection.is_closing() || link.announce_end());
                }
                if !is_sending && !is_unsure {
                    return;
                }
                if is_sending {
                    sent_at = None;
                } else if sent_at.get_or_insert_with(Instant::now).elapsed() > LAST_ACKS {
                    // Most likely the programs of the peers compute. The kernel still sends for this process.
                    return log::info!("other hosts have not acknowledged all packets in time");
                }
            }
            if began.elapsed() > LAST_FRAMES_LEAVE {
                return log::warn!("some packets to other hosts were not sent in time, and are lost");
            }
            std::thread::yield_now();
        }
    }

    /// Sends the last frames, and ends all links. Peers see that this process has ended.
    pub fn close(&self) {
        if self.process != std::process::id() || !self.shared.state.close() {
            return;
        }
        self.shared.watch.ring();
        let thread = self.thread.lock().ignore_poison().take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
        self.drain_until(Drained::Acknowledged);
        let mut progress = self.progress.lock().ignore_poison();
        progress.drop_all_incoming(&self.shared);
        self.shared.lock().close();
    }
}
