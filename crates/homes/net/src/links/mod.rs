// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The links of a process: to and from processes of other hosts.
//!
//! ```text
//! send ──> outgoing link: queue, frame ──> endpoint ══> endpoint ──> incoming link: check, assemble ──> sink
//!              └─ control connection ─────────────────────────────────────┘
//! ```
//!
//! Two locks. The *turn* belongs to the thread that makes progress: it has the incoming links, and hands packets to the sink. The
//! *state* has peers, outgoing links and the endpoint. A thread may take the state's lock while it has the turn, never the other way
//! round. The sink is called with the turn only, so it may send.
//!
//! Invariants
//! 1. Packets of one peer are handed over in the order in which it sent them, one at a time.
//! 2. A peer that was lost stays lost. Its address belongs to a process that has ended.
//! 3. Nothing is opened before it is needed: the endpoint, its buffers and the links at the first packet in or out.
//!
//! Cost: a peer without a link is some 400 bytes. A link has a connection at each side.

mod connections;
mod payloads;

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use crate::address::LinkAddress;
use crate::control::listen;
use crate::endpoint::{Arrived, Endpoint, EndpointError, Event};
use crate::faults::{FaultyNetwork, Refusals};
use crate::forked::Own;
use crate::frame::{FrameError, NicName};
use crate::greeting::NO_HOST;
use crate::incoming::{Frame, Incoming, Receiver};
use crate::outgoing::{LinkError, Outgoing};
use crate::payload::Source;
use crate::read_queue::Placement;
use crate::settings::{Check, Progress, Settings};
use connections::Token;
use payloads::Reader;

/// Polls of the program between looks at the control connections, where no thread does it: while a link is being made, and otherwise.
const POLLS_PER_CONTROL: [u32; 2] = [16, 1024];
/// Rounds in a row in which something came, between sends of what waits.
const ROUNDS_PER_FLUSH: u32 = 8;
/// Polls of a program in a row that find nothing, without a packet between them, before what waits leaves: a program that has just taken
/// a message often sends one, and a response travels with it. Then the program is at rest. The thread waits for none.
const IDLE_POLLS: u32 = 4;
/// The longest that a process waits at its end for its last frames to leave, and then for its peers to say that they have them.
const LAST_FRAMES_LEAVE: Duration = Duration::from_secs(2);
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A process of another host, as this process numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// Who makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The program, in a call.
    Program,
    /// The progress thread, while the program does what it likes.
    Thread,
}

/// When a packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// As soon as it can.
    Now,
    /// With the next packet to the same peer, or at the next poll that has nothing else to do.
    WithNext,
}

/// Takes what comes.
pub trait Sink: Send + Sync {
    /// A packet of a peer for a NIC of this process. `who` makes progress.
    fn packet(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES], payload: &[u8], who: Who);

    /// The most payload that a packet may have, in bytes. It is asked where a payload comes in several frames, before memory is used for it.
    fn payload_max(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES]) -> u64;

    /// Says where the payload of a packet goes that is still in the peer's memory. All packets of the peer before it were handed over, or placed.
    /// `may_wait`: it may answer [`Placement::NotYet`], and is asked again in a later step.
    fn place(
        &self,
        _from: PeerId,
        _to: NicName,
        _packet: &[u8; PACKET_BYTES],
        _who: Who,
        _may_wait: bool,
    ) -> Placement {
        Placement::Whole
    }

    /// Ends a packet that [`Sink::place`] has given a number. `is_there`: its payload is in its place. Otherwise it will never be, and nothing is
    /// written there any more.
    fn finish(&self, _from: PeerId, _to: NicName, _packet: &[u8; PACKET_BYTES], _number: u64, _is_there: bool) {}

    /// A peer was lost: requests to it fail, and waiters should look.
    fn lost(&self, peer: PeerId);

    /// The thread is awake: the sink may do what only this process can, and its program does not.
    fn tend(&self) {}
}

/// Why there are no links.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot listen at {at}: {error}; SELVEDGE_NET_INTERFACE names another address of this host")]
    Listen { at: std::net::IpAddr, error: std::io::Error },
    #[error("links between hosts cannot be opened: {0}")]
    System(#[from] std::io::Error),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// A packet was not taken. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The peer is lost.
    Gone,
    /// Too much waits for this link already.
    Full,
}

/// The links of a process.
pub struct Links {
    address: LinkAddress,
    pub(crate) settings: Settings,
    sink: Arc<dyn Sink>,
    listener: Own<TcpListener>,
    state: Mutex<State>,
    turn: Mutex<Turn>,
    /// All control connections, the listener and `bell`.
    control: Own<OwnedFd>,
    /// Wakes the thread.
    bell: Own<OwnedFd>,
    /// The process that has opened the links.
    process: u32,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// This value, for its thread.
    own: Mutex<Weak<Links>>,
    /// Counts the program's polls, for the thread.
    pub(crate) polls: AtomicU32,
    /// The program's last poll has found something.
    has_found: AtomicBool,
    /// The program sleeps, whatever `polls` says.
    pub(crate) rests: AtomicBool,
    has_thread: AtomicBool,
    has_endpoint: AtomicBool,
    /// A link is being made, or ends, while no thread looks.
    is_greeting: AtomicBool,
    /// The thread leaves the endpoint to the program, which polls.
    pub(crate) program_polls: AtomicBool,
    /// Packets gather in a frame, and the thread knows.
    nudged: AtomicBool,
    pub(crate) closing: AtomicBool,
}

/// What senders share.
struct State {
    endpoint: Option<Endpoint>,
    /// Reads payloads.
    reader: Option<Reader>,
    /// How many readers were closed.
    readers: u64,
    /// What frames of new links carry.
    check: Check,
    peers: Vec<Peer>,
    numbers: HashMap<LinkAddress, PeerId>,
    /// Peers whose links have something to send, or are in their greetings.
    busy: Vec<PeerId>,
    /// How often the program was at rest.
    rests: u64,
    /// A packet was taken since the last round.
    has_taken: bool,
}

struct Peer {
    address: LinkAddress,
    nid: u32,
    outgoing: Outgoing,
    is_busy: bool,
    is_lost: bool,
    /// When its control connection ended.
    ended: Option<Instant>,
}

/// What the thread that makes progress has.
#[derive(Default)]
pub(crate) struct Turn {
    /// By number.
    incoming: Vec<Option<Incoming>>,
    events: Vec<Event>,
    /// By tag: the numbers of the links for which payloads are being read. The tags of this process go up.
    reads: HashMap<u64, usize>,
    next_read: u64,
    /// How many readers had been closed when those reads were started.
    readers: u64,
    /// Numbers of the links on which packets wait for their payloads.
    waiting: Vec<usize>,
    /// What frames pass before they are taken, in tests.
    faulty: Option<FaultyNetwork>,
    /// Since when no connection can be accepted, for want of descriptors.
    refuses_since: Option<Instant>,
    /// Rounds in a row in which something came.
    rounds: u32,
    /// Rounds in a row in which nothing came.
    idle_rounds: u32,
}

/// How a thread may sleep until the endpoints have something.
pub(crate) enum EndpointSleep {
    /// There is no endpoint yet.
    Closed,
    On(Vec<RawFd>),
    /// There is something to poll for.
    NotNow,
    /// The provider has no descriptor: the endpoint must be polled.
    Never,
}

impl Links {
    /// Listens for links. Packets that come are handed to `sink`.
    pub fn open(settings: Settings, sink: Arc<dyn Sink>) -> Result<Arc<Links>, OpenError> {
        let at = settings.at;
        let listener = Own::new(listen(at).map_err(|error| OpenError::Listen { at, error })?);
        let socket = listener.local_addr()?;
        let mut token = [0; 8];
        fill_random(&mut token)?;
        let system = |error: rustix::io::Errno| std::io::Error::from(error);
        let control = Own::new(epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?);
        let bell = Own::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system)?);
        epoll::add(&*control, &*listener, Token::Listener.to_data(), EventFlags::IN).map_err(system)?;
        epoll::add(&*control, &*bell, Token::Bell.to_data(), EventFlags::IN).map_err(system)?;
        let faulty = settings.faults.clone().map(FaultyNetwork::new);
        let (peers, numbers) = (Vec::new(), HashMap::new());
        let state = State {
            endpoint: None,
            reader: None,
            readers: 0,
            check: settings.check,
            peers,
            numbers,
            busy: Vec::new(),
            rests: 0,
            has_taken: false,
        };
        let links = Arc::new(Links {
            address: LinkAddress::new(socket, u64::from_le_bytes(token)),
            settings,
            sink,
            listener,
            state: Mutex::new(state),
            turn: Mutex::new(Turn { faulty, ..Turn::default() }),
            control,
            bell,
            process: std::process::id(),
            thread: Mutex::new(None),
            own: Mutex::default(),
            polls: AtomicU32::new(0),
            has_found: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            has_thread: AtomicBool::new(false),
            has_endpoint: AtomicBool::new(false),
            is_greeting: AtomicBool::new(false),
            program_polls: AtomicBool::new(false),
            nudged: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        });
        *lock(&links.own) = Arc::downgrade(&links);
        if links.settings.progress == Progress::Thread {
            links.start_thread()?;
        }
        Ok(links)
    }

    /// Starts the progress thread, if it does not run.
    fn start_thread(&self) -> std::io::Result<()> {
        let mut thread = lock(&self.thread);
        if thread.is_none() && !self.closing.load(SeqCst) {
            if let Some(links) = lock(&self.own).upgrade() {
                *thread = Some(crate::progress::start(&links)?);
                self.has_thread.store(true, SeqCst);
            }
        }
        Ok(())
    }

    /// The address at which others find this process. It is also the right to connect.
    pub fn address(&self) -> LinkAddress {
        self.address
    }

    /// The number of a peer, which is new if its address is.
    pub fn peer(&self, address: LinkAddress) -> PeerId {
        self.lock().number(address, NO_HOST)
    }

    /// The number of a peer's host in the job; None: it has none.
    pub fn nid_of(&self, peer: PeerId) -> Option<u32> {
        self.lock().peers.get(peer.0 as usize).map(|peer| peer.nid).filter(|&nid| nid != NO_HOST)
    }

    /// Whether a peer was lost.
    pub fn is_lost(&self, peer: PeerId) -> bool {
        self.lock().peers.get(peer.0 as usize).is_none_or(|peer| peer.is_lost)
    }

    /// Takes a packet for a NIC of a peer. It leaves soon; the first one connects.
    pub fn send(
        &self,
        peer: PeerId,
        to: NicName,
        packet: &[u8; PACKET_BYTES],
        payload: Source<'_>,
        when: When,
    ) -> Result<(), SendError> {
        let mut state = self.lock();
        let index = peer.0 as usize;
        let Some(target) = state.peers.get_mut(index).filter(|target| !target.is_lost) else {
            return Err(SendError::Gone);
        };
        if !target.outgoing.has_room() {
            return Err(SendError::Full);
        }
        if target.outgoing.is_closed() {
            if let Err(error) = self.connect(&mut state, peer) {
                self.lose(state, peer, &error);
                return Err(SendError::Gone);
            }
        }
        state.has_taken = true;
        let State { endpoint, peers, rests, .. } = &mut *state;
        let outgoing = &mut peers[index].outgoing;
        outgoing.note_rest(*rests);
        outgoing.push(endpoint.as_mut(), to, packet, payload);
        let flushed = match endpoint {
            Some(endpoint) if when == When::Now => outgoing.flush(endpoint, false, peer.0, &self.settings),
            _ => Ok(()),
        };
        match flushed {
            Ok(()) => {
                if outgoing.has_to_send() {
                    state.note_busy(peer);
                    drop(state);
                    if when == When::Now {
                        self.nudge();
                    }
                }
                Ok(())
            }
            Err(error) => {
                self.lose(state, peer, &error);
                Err(SendError::Gone)
            }
        }
    }

    /// Begins a link to a peer.
    fn connect(&self, state: &mut State, peer: PeerId) -> Result<(), LinkError> {
        self.open_endpoint(state).map_err(|error| LinkError::Endpoint(error.to_string()))?;
        if self.closing.load(SeqCst) {
            return Err(LinkError::Ended);
        }
        self.is_greeting.store(true, SeqCst);
        let target = &mut state.peers[peer.0 as usize];
        target.outgoing.connect(&target.address, &self.settings)?;
        self.watch(target.outgoing.control(), Token::Outgoing(peer), true);
        state.note_busy(peer);
        Ok(())
    }

    fn open_endpoint(&self, state: &mut State) -> Result<(), EndpointError> {
        if state.endpoint.is_none() && !self.closing.load(SeqCst) {
            let mut endpoint = Endpoint::open(self.settings.at, self.settings.provider.as_deref())?;
            endpoint.refusals = Refusals::new(self.settings.faults.as_ref());
            log::info!("links between hosts use libfabric's {} at {}", endpoint.provider(), self.settings.at);
            state.endpoint = Some(endpoint);
            self.has_endpoint.store(true, SeqCst);
            self.is_greeting.store(true, SeqCst);
            if self.settings.progress == Progress::ThreadLater {
                if let Err(error) = self.start_thread() {
                    log::error!("links between hosts have no thread, and wait for the program's calls: {error}");
                }
            }
        }
        Ok(())
    }

    /// Wakes the thread once, for packets that gather, unless the program polls.
    fn nudge(&self) {
        if !self.program_polls.load(SeqCst) && !self.nudged.swap(true, SeqCst) {
            self.ring();
        }
    }

    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
    }

    /// Makes progress, for a program that polls. A poll behind one that has found something does not ask libfabric: a program with several
    /// endpoints polls them in turn, and what came is for one of them. The call to the kernel would delay its answer.
    #[inline]
    pub fn poll(&self) {
        if self.rests.load(Relaxed) {
            self.rests.store(false, Relaxed);
        }
        self.polls.store(self.polls.load(Relaxed).wrapping_add(1), Relaxed);
        let is_driven = !self.has_thread.load(Relaxed);
        let is_closed = !self.has_endpoint.load(Relaxed);
        let polls = self.polls.load(Relaxed);
        let every = POLLS_PER_CONTROL[usize::from(!self.is_greeting.load(Relaxed))];
        let looks = is_driven && polls % every == 0;
        if is_closed && !looks {
            return;
        }
        if !looks && self.has_found.load(Relaxed) {
            return self.has_found.store(false, Relaxed);
        }
        let Ok(mut turn) = self.turn.try_lock() else { return };
        if looks {
            self.advance_control(&mut turn);
            self.is_greeting.store(self.waits_for_time(&turn), Relaxed);
        }
        let found = self.step(&mut turn, Who::Program);
        drop(turn);
        self.has_found.store(found, Relaxed);
        // The program may compute next, while responses to what was found wait for the next packet.
        if found && !self.lock().busy.is_empty() {
            self.nudge();
        }
    }

    /// The program goes to sleep until something comes.
    pub fn rest(&self) {
        self.rests.store(true, SeqCst);
        if self.program_polls.swap(false, SeqCst) {
            self.ring();
        }
    }

    /// Takes the turn, for the thread.
    pub(crate) fn take_turn(&self) -> MutexGuard<'_, Turn> {
        lock(&self.turn)
    }

    /// Hands over what has come. If nothing has, sends what waits. Returns whether there may be more.
    pub(crate) fn step(&self, turn: &mut Turn, who: Who) -> bool {
        self.nudged.store(false, SeqCst);
        let mut failed = Vec::new();
        let more = {
            let mut state = self.lock();
            let mut more = state.endpoint.as_mut().is_some_and(|endpoint| endpoint.poll(&mut turn.events));
            more |= state.reader.as_mut().is_some_and(|reader| reader.poll(&mut turn.events));
            let is_idle = !turn.events.iter().any(|event| matches!(event, Event::Arrived(_) | Event::Read { .. }));
            turn.rounds = if is_idle { 0 } else { turn.rounds + 1 };
            let is_busy = std::mem::take(&mut state.has_taken) || !is_idle;
            turn.idle_rounds = if is_busy { 0 } else { turn.idle_rounds + 1 };
            let is_at_rest = turn.idle_rounds >= if who == Who::Thread { 1 } else { IDLE_POLLS };
            state.rests += u64::from(is_at_rest);
            if is_at_rest || turn.rounds % ROUNDS_PER_FLUSH == ROUNDS_PER_FLUSH - 1 {
                state.send_all(&self.settings, &mut failed);
            }
            more
        };
        let found = more || !turn.events.is_empty();
        let mut frames = Vec::new();
        for event in std::mem::take(&mut turn.events) {
            match event {
                Event::Arrived(frame) => self.take_arrived(turn, frame, who, &mut frames),
                Event::Sent { tag } => self.lock().complete(tag),
                Event::Failed { tag, why } => {
                    self.lock().complete(tag);
                    failed.push((PeerId(tag), LinkError::Endpoint(why)));
                }
                Event::Read { tag, result } => self.take_read(turn, tag, result, who, &mut failed),
            }
        }
        self.take_late(turn, who, &mut frames);
        self.give_back(frames);
        self.read_payloads(turn, who, &mut failed);
        // The program takes what responses it has along with its next packet; the thread knows of no next packet.
        if who == Who::Thread && !more {
            self.lock().send_all(&self.settings, &mut failed);
        }
        for (peer, error) in failed {
            self.lose(self.lock(), peer, &error);
        }
        found
    }

    /// Gives the buffers of frames back.
    fn give_back(&self, frames: Vec<Frame>) {
        if frames.is_empty() {
            return;
        }
        let mut state = self.lock();
        let Some(endpoint) = state.endpoint.as_mut() else { return };
        let arrived = |frame| if let Frame::Arrived(frame) = frame { Some(frame) } else { None };
        for frame in frames.into_iter().filter_map(arrived) {
            if let Err(error) = endpoint.give_back(frame) {
                log::error!("{error}");
            }
        }
    }

    /// Takes a frame that has arrived, by way of the faulty network if there is one. `done` gets the frames that are used up.
    fn take_arrived(&self, turn: &mut Turn, frame: Arrived, who: Who, done: &mut Vec<Frame>) {
        let Some(mut faulty) = turn.faulty.take() else {
            return self.take_frame(turn, Frame::Arrived(frame), who, done);
        };
        faulty.take(&frame, Instant::now(), |copy| self.take_frame(turn, Frame::Copied(copy), who, done));
        turn.faulty = Some(faulty);
        done.push(Frame::Arrived(frame));
    }

    /// Takes the frames that the faulty network has held up.
    fn take_late(&self, turn: &mut Turn, who: Who, done: &mut Vec<Frame>) {
        let Some(mut faulty) = turn.faulty.take() else { return };
        faulty.release(Instant::now(), |copy| self.take_frame(turn, Frame::Copied(copy), who, done));
        turn.faulty = Some(faulty);
    }

    /// Hands a frame's packets over. `done` gets the frames that are used up.
    fn take_frame(&self, turn: &mut Turn, frame: Frame, who: Who, done: &mut Vec<Frame>) {
        let link = frame.get(4..8).and_then(|bytes| bytes.first_chunk().copied()).map(u32::from_le_bytes);
        let incoming = link.and_then(|link| turn.incoming.get_mut(link as usize)?.as_mut());
        let Some(incoming) = incoming else {
            // A damaged frame may say that it is of another link. It is repeated.
            let level = if self.settings.check == Check::None { log::Level::Warn } else { log::Level::Debug };
            log::log!(level, "a frame of {} bytes on an unknown link was dropped", frame.len());
            return done.push(frame);
        };
        if let Some(peer) = incoming.peer() {
            self.lock().peers[peer.0 as usize].outgoing.note_answer();
        }
        let taken = incoming.take(frame, &Handing { links: self, who }, done);
        if incoming.reads().is_some_and(|reads| !reads.is_empty()) {
            if let Some(number) = link.map(|link| link as usize).filter(|number| !turn.waiting.contains(number)) {
                turn.waiting.push(number);
            }
        }
        if let Err(why) = taken {
            log::warn!("a frame was dropped: {why}");
            if why != crate::incoming::Dropped::Foreign {
                if let Some(peer) = incoming.peer() {
                    self.lose(self.lock(), peer, &LinkError::Endpoint(why.to_string()));
                }
            }
        }
    }

    /// Ends a peer that does what no peer may.
    pub fn expel(&self, peer: PeerId, why: &str) {
        self.lose(self.lock(), peer, &LinkError::Expelled(why.to_owned()));
    }

    /// Marks a peer as lost.
    fn lose(&self, mut state: MutexGuard<'_, State>, peer: PeerId, why: &LinkError) {
        let target = &mut state.peers[peer.0 as usize];
        if target.is_lost {
            return;
        }
        match why {
            LinkError::Ended => log::info!("the process at {} has ended", target.address),
            why => log::warn!("the process at {} is lost: {why}", target.address),
        }
        target.is_lost = true;
        // Its requests fail now, and the program may use their memory again.
        state.stop_reading_from(peer);
        let State { endpoint, peers, .. } = &mut *state;
        let target = &mut peers[peer.0 as usize];
        if let Some(control) = target.outgoing.control() {
            let _ = epoll::delete(&*self.control, control.fd());
        }
        target.outgoing.close(endpoint.as_mut());
        drop(state);
        self.sink.lost(peer);
    }

    /// Lets the sink do what waits for this process.
    pub(crate) fn tend(&self) {
        self.sink.tend();
    }

    /// The descriptor that becomes readable with control events.
    pub(crate) fn control_descriptor(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Whether the thread may sleep until an endpoint has something.
    pub(crate) fn endpoint_sleep(&self) -> EndpointSleep {
        let mut state = self.lock();
        let State { endpoint, reader, .. } = &mut *state;
        let reader = reader.as_mut().filter(|reader| reader.is_busy()).map(Reader::endpoint);
        let mut descriptors = Vec::new();
        for endpoint in endpoint.as_mut().into_iter().chain(reader) {
            let Some(descriptor) = endpoint.wait_descriptor() else { return EndpointSleep::Never };
            if !endpoint.may_sleep() {
                return EndpointSleep::NotNow;
            }
            descriptors.push(descriptor);
        }
        if descriptors.is_empty() { EndpointSleep::Closed } else { EndpointSleep::On(descriptors) }
    }

    /// Waits until all packets have left that were taken, or until it takes too long.
    pub fn flush(&self) {
        if self.process == std::process::id() {
            self.let_leave(false);
        }
    }

    /// Lets packets leave. `ends`: waits for the word of the peers, too, that they have taken them. What the kernel has of a process
    /// that has ended may get lost.
    fn let_leave(&self, ends: bool) {
        let began = Instant::now();
        let mut left = None;
        loop {
            {
                let mut turn = self.take_turn();
                self.advance_control(&mut turn);
                self.step(&mut turn, Who::Program);
                let mut state = self.lock();
                let (mut leaves, mut unsure) = (false, false);
                for peer in state.peers.iter_mut().filter(|peer| !peer.is_lost && peer.ended.is_none()) {
                    let outgoing = &peer.outgoing;
                    leaves |= outgoing.has_to_send() || outgoing.is_on_the_way() || outgoing.waits_for_reader();
                    unsure |= peer.outgoing.waits_for_word() || ends && peer.outgoing.say_last();
                }
                if !leaves && !unsure {
                    return;
                }
                if leaves {
                    left = None;
                } else if left.get_or_insert_with(Instant::now).elapsed() > LAST_WORDS {
                    // Their programs compute, most likely. The kernel goes on for this process.
                    return log::info!("other hosts have not said that they have all packets");
                }
            }
            if began.elapsed() > LAST_FRAMES_LEAVE {
                return log::warn!("packets to other hosts have not left in time, and are lost");
            }
            std::thread::yield_now();
        }
    }

    /// Lets the last frames leave, and ends all links. Peers find this process ended.
    pub fn close(&self) {
        // A forked child has neither the thread nor the right to the links.
        if self.process != std::process::id() || self.closing.swap(true, SeqCst) {
            return;
        }
        self.ring();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
        self.let_leave(true);
        let mut turn = self.take_turn();
        for number in 0..turn.incoming.len() {
            self.drop_incoming(&mut turn, number);
        }
        let mut state = self.lock();
        state.close_reader();
        let State { endpoint, peers, .. } = &mut *state;
        for peer in peers {
            peer.outgoing.close(endpoint.as_mut());
            peer.is_lost = true;
        }
        state.endpoint = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Hands over what frames bring, for who makes progress.
struct Handing<'a> {
    links: &'a Links,
    who: Who,
}

impl Receiver for Handing<'_> {
    fn payload_max(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES]) -> u64 {
        self.links.sink.payload_max(from, to, packet)
    }

    fn packet(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES], payload: &[u8]) {
        self.links.sink.packet(from, to, packet, payload, self.who);
    }

    fn read_count(&self, peer: PeerId, count: u64) -> Result<(), FrameError> {
        let mut state = self.links.lock();
        let State { endpoint, peers, .. } = &mut *state;
        peers[peer.0 as usize].outgoing.was_read(endpoint.as_mut(), count)
    }
}

impl State {
    fn number(&mut self, address: LinkAddress, nid: u32) -> PeerId {
        let next = PeerId(self.peers.len() as u32);
        let number = *self.numbers.entry(address).or_insert(next);
        if number == next {
            // Most peers of a large job are never met: no room for as many again.
            if self.peers.len() == self.peers.capacity() {
                self.peers.reserve_exact(self.peers.len() / 4 + 16);
            }
            let outgoing = Outgoing::new(self.check);
            self.peers.push(Peer { address, nid, outgoing, is_busy: false, is_lost: false, ended: None });
        }
        if nid != NO_HOST {
            self.peers[number.0 as usize].nid = nid;
        }
        number
    }

    /// Sends what waits. `failed` gets the links that have broken.
    fn send_all(&mut self, settings: &Settings, failed: &mut Vec<(PeerId, LinkError)>) {
        for peer in std::mem::take(&mut self.busy) {
            let State { endpoint: Some(endpoint), peers, .. } = &mut *self else { return };
            let target = &mut peers[peer.0 as usize];
            target.is_busy = false;
            match target.outgoing.flush(endpoint, true, peer.0, settings) {
                Ok(()) if target.outgoing.has_to_send() => self.note_busy(peer),
                Ok(()) => {}
                Err(error) => failed.push((peer, error)),
            }
        }
    }

    /// A frame of a peer has completed.
    fn complete(&mut self, peer: u32) {
        if let Some(peer) = self.peers.get_mut(peer as usize) {
            peer.outgoing.has_completed();
        }
    }

    fn note_busy(&mut self, peer: PeerId) {
        let target = &mut self.peers[peer.0 as usize];
        if !target.is_busy {
            target.is_busy = true;
            self.busy.push(peer);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// Fills at most 256 bytes from the kernel's generator.
pub fn fill_random(bytes: &mut [u8]) -> std::io::Result<()> {
    let filled = rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty())?;
    // Up to 256 bytes come at once, and never fewer.
    if filled == bytes.len() { Ok(()) } else { Err(std::io::Error::other("the kernel gave too few random bytes")) }
}
