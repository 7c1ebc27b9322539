// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receives that only this process knows of.
//!
//! What arrives through a lane its owner matches itself, so a receive that can only take such messages (it has no more room
//! than they may have bytes) need not be an entry of the NIC: no record, no index, no lock. Longer receives are posted at
//! the NIC, where a sender finds them while the program computes.
//!
//! Invariants
//! 1. A place is *open* only while the NIC has neither a receive nor an unexpected message there. Then all receives posted
//!    there are private, the oldest first, and a message from a lane takes the first that matches: the ordered list.
//! 2. What a sender brings to the NIC itself meets no private receive, and waits as unexpected. `seen` is the register of
//!    such messages when the open places were last known to have none; whoever finds another value looks again
//!    ([`Core::look_again`]) before a private receive is posted or met. A message that was brought before another of the same
//!    sender's was left in its lane is thus met before it.
//! 3. A place that is closed hands its receives to the NIC in their order, and each meets there what has waited for it.
//! 4. A message that meets none of them waits privately, too ([`super::early`]), as long as there is room.
//!
//! Cost of a receive: its record ([`super::receives`]) is written once and read once. No more than [`RECEIVES_MAX`] are looked through;
//! where there are more, the NIC's index has them.

use std::ffi::c_void;

use selvedge_shm::direct::{lane_has_data, lane_source};
use selvedge_shm::lanes::{Glimpse, Reader, Waiting};
use selvedge_shm::os::copy;

use super::early::Early;
use super::receive::{Place, Wanted};
use super::receives::{RECEIVES_MAX, Receive, Receives};
use super::{Core, ENDPOINT_PORTALS, KINDS, Kind, Side, Ticket};
use crate::completion::{Completion, CompletionQueue, Reading, Written};
use crate::constants::*;
use crate::endpoint::Endpoint;
use crate::ffi::{fi_cq_tagged_entry, iovec};

/// How many receives go to the NIC after messages that senders brought there met private ones: they may have no lane.
const PAUSE: u32 = 64;

/// Where an endpoint's messages of one kind arrive, as its owner knows it.
pub struct Front {
    /// Receives with less room are kept without a further look: 0 while the place is closed, or messages wait there. No sender looks for
    /// a receive so short at the NIC.
    at_once: usize,
    at_once_max: usize,
    /// Receives with less room may be private now: 0 while the place is closed.
    limit: usize,
    early: Early,
    kind: Kind,
    endpoint: *mut Endpoint,
    /// What completions need of both, while the place is open.
    queue: *mut CompletionQueue,
    flags: u64,
    /// All of a tag, or nothing of what is no tag.
    tag_mask: u64,
    names_sources: bool,
    pause: u32,
    receives: Receives,
}

impl Front {
    /// Closed. No sender looks at the NIC for receives of so much room, or less.
    fn new(kind: Kind, endpoint: *mut Endpoint, small_max: usize) -> Front {
        let tag_mask = if kind == Kind::Tagged { u64::MAX } else { 0 };
        Front {
            at_once: 0,
            at_once_max: small_max.saturating_add(1),
            limit: 0,
            early: Early::new(),
            kind,
            endpoint,
            queue: std::ptr::null_mut(),
            flags: RECV | kind.flag(),
            tag_mask,
            names_sources: false,
            pause: 0,
            receives: Receives::new(),
        }
    }

    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.limit != 0
    }

    #[inline(always)]
    pub(super) fn has_receives(&self) -> bool {
        self.receives.len() != 0
    }

    /// Opens the place, which is idle, with its first receive. Others may have as much room.
    #[inline]
    pub fn open_with(&mut self, receive: Receive, room_max: usize) {
        let pushed = self.receives.push(receive);
        debug_assert!(pushed && !self.endpoint.is_null(), "a closed place has no receives");
        self.limit = room_max + 1;
        self.find_at_once();
        // SAFETY: an endpoint that is open, and enabled: what it is bound to stays.
        (self.queue, self.names_sources) = unsafe { ((*self.endpoint).rx_queue, (*self.endpoint).names_sources) };
    }

    /// Keeps a receive of a place for which that may be done. False: there is no room.
    #[inline(always)]
    pub fn keep(&mut self, receive: Receive) -> bool {
        self.receives.push(receive)
    }

    fn close(&mut self) {
        self.limit = 0;
        self.find_at_once();
    }

    fn find_at_once(&mut self) {
        self.at_once = if self.early.is_empty() { self.limit.min(self.at_once_max) } else { 0 };
    }

    /// Messages that came before their receive.
    #[inline(always)]
    pub(super) fn early(&self) -> &Early {
        &self.early
    }

    /// Changes what waits there.
    #[inline(always)]
    pub(super) fn change_early<R>(&mut self, change: impl FnOnce(&mut Early) -> R) -> R {
        let result = change(&mut self.early);
        self.find_at_once();
        result
    }

    /// Takes in messages of a lane that follow each other, up to so many, as long as each is `LONG` or none is, each is for the first
    /// receive there is, and its completion is what the program reads next; their bytes. What is otherwise stays in the lane.
    ///
    /// A function of its own: the loop has the registers to itself.
    #[inline(never)]
    pub fn take_run<const WHOLE: bool, const LONG: bool>(
        &mut self,
        reader: &mut Reader<'_>,
        portal: u8,
        sender: u64,
        most: u64,
        reading: &mut Reading,
    ) -> usize {
        let Front { receives, queue, flags, tag_mask, .. } = self;
        // SAFETY: the queue that an open endpoint is bound to, or none.
        let Some(mut written) = (unsafe { CompletionQueue::writes_next::<WHOLE>(*queue, reading) }) else { return 0 };
        let most = most.min(receives.len() as u64).min(reading.left() as u64);
        let (flags, tag_mask) = (*flags, *tag_mask);
        let mut bytes = 0;
        let mut slot = receives.head % RECEIVES_MAX;
        let before = reader.taken();
        reader.take_run::<LONG>(portal, most, |message| {
            let receive = &receives.slots[slot];
            // SAFETY: the message lies in the lane and is of this sort; there is room for one more completion.
            if !unsafe { fill_whole::<WHOLE, LONG>(receive, message, sender, (flags, tag_mask), &mut written) } {
                return false;
            }
            bytes += message.length;
            slot = (slot + 1) % RECEIVES_MAX;
            true
        });
        let taken = (reader.taken() - before) as usize;
        reading.has_written(written, taken);
        receives.head += taken;
        bytes
    }

    /// The same of one, which was seen: most come alone, and need no loop. None: it stays in the lane.
    #[inline(always)]
    pub fn take_seen<const WHOLE: bool, const LONG: bool>(
        &mut self,
        reader: &mut Reader<'_>,
        seen: Glimpse,
        sender: u64,
        reading: &mut Reading,
    ) -> Option<usize> {
        let Front { receives, queue, flags, tag_mask, .. } = self;
        // SAFETY: the queue that an open endpoint is bound to, or none.
        let mut written = unsafe { CompletionQueue::writes_next::<WHOLE>(*queue, reading) }?;
        if receives.len() == 0 || reading.left() == 0 {
            return None;
        }
        let message = reader.first::<LONG>(seen)?;
        let with = (*flags, *tag_mask);
        // SAFETY: the message lies in the lane and is of this sort; there is room for one more completion.
        if !unsafe { fill_whole::<WHOLE, LONG>(receives.first(), &message, sender, with, &mut written) } {
            return None;
        }
        reader.pass(&message);
        reading.has_written(written, 1);
        receives.head += 1;
        Some(message.length)
    }

    /// Takes the receive that a message is for, and what its completion needs.
    #[inline(always)]
    pub fn take(&mut self, tag: u64, source: u64) -> Option<Taken<'_>> {
        let Front { receives, queue, flags, tag_mask, names_sources, .. } = self;
        let receive = receives.take(move |receive| receive.accepts(tag, source))?;
        let tag = tag & *tag_mask;
        Some(Taken { receive, queue: *queue, flags: *flags, tag, names_source: *names_sources })
    }

    /// What a message of this tag needs to end a receive that was not posted.
    #[inline(always)]
    pub(super) fn taken<'a>(&self, receive: &'a Receive, tag: u64) -> Taken<'a> {
        let Front { queue, flags, tag_mask, names_sources, .. } = *self;
        Taken { receive, queue, flags, tag: tag & tag_mask, names_source: names_sources }
    }

    fn take_first(&mut self) -> Option<(Kind, Ticket, Receive)> {
        let receive = *self.receives.take(|_| true)?;
        Some((self.kind, self.ticket(&receive), receive))
    }

    fn ticket(&self, receive: &Receive) -> Ticket {
        Ticket { endpoint: self.endpoint, context: receive.context, flags: self.flags, wanted: receive.wanted() }
    }
}

/// A receive that a message has met.
pub struct Taken<'a> {
    receive: &'a Receive,
    queue: *mut CompletionQueue,
    flags: u64,
    tag: u64,
    /// Its completion is to say who sent the message.
    pub names_source: bool,
}

impl Taken<'_> {
    /// The program that posted it will ask for its completion.
    pub(super) fn expect_reading(&self) {
        // SAFETY: the queue that an open endpoint is bound to.
        if let Some(queue) = unsafe { self.queue.as_mut() } {
            queue.expect_reading();
        }
    }

    /// Puts a message of `length` bytes into the receive and ends it; gives how many bytes there was room for. The data that
    /// came along mean something if it `has_data`.
    ///
    /// # Safety
    /// The message is readable; the receive is the program's, whose memory it promised.
    #[inline(always)]
    pub unsafe fn fill(
        &self,
        from: *const u8,
        length: usize,
        (has_data, data): (bool, u64),
        source: u64,
        reading: &mut Reading,
    ) -> usize {
        let entry = |len: usize| fi_cq_tagged_entry {
            op_context: self.receive.context,
            flags: self.flags | if has_data { REMOTE_CQ_DATA } else { 0 },
            len,
            buf: self.receive.start as *mut c_void,
            data,
            tag: self.tag,
        };
        let room = self.receive.room();
        // SAFETY: the caller's; the queue that an open endpoint is bound to.
        unsafe {
            if length > room {
                return fill_with_part(from, length, room, self.queue, entry(room));
            }
            copy::short(from, self.receive.start as *mut u8, length);
            if self.receive.wanted() {
                (*self.queue).give(reading, Completion { entry: entry(length), source });
            }
        }
        length
    }
}

/// Fills a receive with a message that is whole in its lane, if it is for it, there is room, and its end is told of: it is. False: nothing
/// has happened.
///
/// # Safety
/// The message lies in its lane and is of this sort; there is room for one more completion.
#[inline(always)]
unsafe fn fill_whole<const WHOLE: bool, const LONG: bool>(
    receive: &Receive,
    message: &Waiting,
    sender: u64,
    (flags, tag_mask): (u64, u64),
    written: &mut Written<WHOLE>,
) -> bool {
    let Waiting { envelope, length, .. } = *message;
    let is_usual = receive.has_room_and_tells(length);
    if !is_usual || !receive.accepts(envelope.match_bits, lane_source(&envelope, sender)) {
        return false;
    }
    // SAFETY: the caller's; the receive is the program's, whose memory it promised.
    unsafe {
        written.write(&fi_cq_tagged_entry {
            op_context: receive.context,
            flags: flags | if lane_has_data(&envelope) { REMOTE_CQ_DATA } else { 0 },
            len: length,
            buf: receive.start as *mut c_void,
            data: envelope.header_data,
            tag: envelope.match_bits & tag_mask,
        });
        // Last: little need be kept over it.
        message.copy_to::<LONG>(receive.start as *mut u8);
    }
    true
}

/// Fills a receive with as much of a message as it has room for: a failure, as `entry` says.
///
/// # Safety
/// As of [`Taken::fill`].
#[cold]
#[inline(never)]
unsafe fn fill_with_part(
    from: *const u8,
    length: usize,
    room: usize,
    queue: *mut CompletionQueue,
    entry: fi_cq_tagged_entry,
) -> usize {
    // SAFETY: the caller's; the queue that an open endpoint is bound to.
    unsafe {
        std::ptr::copy_nonoverlapping(from, entry.buf.cast::<u8>(), room);
        if let Some(queue) = queue.as_mut() {
            queue.push_failure(entry, length - room, ETRUNC);
        }
    }
    room
}

impl Core {
    /// A front for each place where messages can arrive.
    pub(super) fn open_fronts(&mut self, index: u16, endpoint: *mut Endpoint) {
        for kind in [Kind::Tagged, Kind::Plain] {
            self.fronts.set(kind.portal(index), Some(Front::new(kind, endpoint, self.small_max)));
        }
    }

    pub(super) fn forget_fronts(&mut self, index: u16) {
        for kind in [Kind::Tagged, Kind::Plain] {
            self.fronts.set(kind.portal(index), None);
        }
    }

    /// Where an endpoint's messages of a kind arrive; null: it is closed.
    pub fn front_of(&self, index: u16, kind: Kind) -> *mut Front {
        self.fronts.places[kind.portal(index) as usize]
    }

    /// Keeps a receive private, or fills it with what has waited for it. False: it must be posted ([`Core::receive`]).
    ///
    /// Its endpoint has no counter for receives.
    #[inline(always)]
    pub fn receive_privately(&mut self, portal: u32, receive: Receive) -> bool {
        let waits = self.fronts.get(portal).is_some_and(|front| !front.early.is_empty());
        if waits && self.meet_early(portal, receive) {
            return true;
        }
        !self.is_met_in_place(&receive) && self.keep(portal, receive)
    }

    /// Whether a receive with so much room can be kept private in a place of ours without a further look: no message waits for any, and
    /// no sender looks for it at the NIC.
    #[inline(always)]
    pub fn keeps_at_once(&self, front: &Front, room: usize) -> bool {
        room < front.at_once && self.kept.get() == self.seen
    }

    /// Whether a receive is one that senders of longer messages fill, if they find it at the NIC.
    #[inline(always)]
    pub(super) fn is_met_in_place(&self, receive: &Receive) -> bool {
        receive.room() > self.small_max && self.interface.offers(receive.start, receive.room() as u64)
    }

    /// Keeps a receive for which that is so or not.
    #[inline(always)]
    pub(super) fn keep(&mut self, portal: u32, receive: Receive) -> bool {
        let Some(front) = self.fronts.get_mut(portal) else { return false };
        receive.room() < front.limit && self.kept.get() == self.seen && front.receives.push(receive)
    }

    /// Whether the place of a receive that could be private is to be opened, if it is idle.
    #[inline]
    pub(super) fn may_open_front(&mut self, portal: u32) -> bool {
        let Some(front) = self.fronts.get_mut(portal) else { return false };
        if front.is_open() || !self.may_be_private || self.lanes.claimed() == 0 {
            return false;
        }
        let paused = front.pause != 0;
        front.pause = front.pause.saturating_sub(1);
        !paused
    }

    /// Posts all receives of a place at the NIC: from now on its messages are matched there.
    #[cold]
    pub(super) fn close_front(&mut self, portal: u32) {
        if let Some(front) = self.fronts.get_mut(portal) {
            front.close();
        }
        // While it is closed nothing is added.
        while let Some((kind, ticket, receive)) = self.fronts.get_mut(portal).and_then(Front::take_first) {
            let piece = [iovec { iov_base: receive.start as *mut c_void, iov_len: receive.room() }];
            let wanted = Wanted {
                kind,
                source: (receive.source_mask != 0).then_some(receive.source),
                tag: receive.tag,
                ignore: !receive.tag_mask,
                pieces: &piece,
                ticket,
                multi: None,
            };
            if self.post(&wanted, Place::Nic) < 0 {
                // The program was told that it was taken.
                let entry =
                    fi_cq_tagged_entry { op_context: ticket.context, flags: ticket.flags, ..Default::default() };
                self.fail(&ticket, Side::Receive, entry, 0, ENOMEM);
            }
        }
    }

    /// No receive is private any more: others are to match what comes.
    pub(super) fn close_fronts(&mut self) {
        self.may_be_private = false;
        for portal in 0..FRONTS as u32 {
            self.close_front(portal);
        }
    }

    /// Messages wait as unexpected that were not known of: places where there are some are closed.
    #[cold]
    pub(super) fn look_again(&mut self) {
        if !self.may_be_private {
            self.seen = self.kept.get();
            return;
        }
        let mut met = Vec::new();
        {
            let nic = self.interface.lock();
            self.seen = self.kept.get();
            for (index, _) in self.endpoints.iter().enumerate().filter(|(_, endpoint)| !endpoint.is_null()) {
                for kind in [Kind::Tagged, Kind::Plain] {
                    let portal = kind.portal(index as u16);
                    if self.fronts.is_open(portal) && nic.unexpected_count(portal) != 0 {
                        met.push(portal);
                    }
                }
            }
        }
        for portal in met {
            if let Some(front) = self.fronts.get_mut(portal).filter(|front| front.receives.len() != 0) {
                front.pause = PAUSE;
            }
            self.close_front(portal);
        }
    }

    /// Takes back a private receive with this context.
    pub(super) fn cancel_privately(&mut self, endpoint: *mut Endpoint, context: *mut c_void) -> Option<Ticket> {
        // SAFETY: an endpoint that is open.
        let index = unsafe { (*endpoint).index };
        for kind in [Kind::Tagged, Kind::Plain] {
            let Some(front) = self.fronts.get_mut(kind.portal(index)) else { continue };
            if let Some(&receive) = front.receives.take(|receive| receive.context == context) {
                return Some(front.ticket(&receive));
            }
        }
        None
    }
}

/// How many places there are: one for each portal table entry that a lane's message can name.
const FRONTS: usize = 1 << u8::BITS;

const _: () = assert!(ENDPOINT_PORTALS as usize + KINDS as usize * super::ENDPOINTS_MAX <= FRONTS);

/// The fronts of a domain, by portal table entry. Each stays where it is as long as its endpoint is open, which knows it, too.
pub struct Fronts {
    /// Null where no messages arrive.
    places: Box<[*mut Front; FRONTS]>,
}

impl Fronts {
    pub fn new() -> Fronts {
        Fronts { places: Box::new([std::ptr::null_mut(); FRONTS]) }
    }

    fn set(&mut self, portal: u32, front: Option<Front>) {
        let made = front.map_or(std::ptr::null_mut(), |front| Box::into_raw(Box::new(front)));
        let old = std::mem::replace(&mut self.places[portal as usize], made);
        if !old.is_null() {
            // SAFETY: made here, and nobody's any more.
            drop(unsafe { Box::from_raw(old) });
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, portal: u32) -> Option<&Front> {
        // SAFETY: null or made here; whoever has the domain's turn has its fronts.
        self.places.get(portal as usize).and_then(|&front| unsafe { front.as_ref() })
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, portal: u32) -> Option<&mut Front> {
        // SAFETY: as above.
        self.places.get(portal as usize).and_then(|&front| unsafe { front.as_mut() })
    }

    #[inline(always)]
    pub(super) fn is_open(&self, portal: u32) -> bool {
        self.get(portal).is_some_and(Front::is_open)
    }

    /// The place that a lane's message names.
    #[inline(always)]
    pub(super) fn of_lane(&self, portal: u8) -> Option<&Front> {
        // SAFETY: as above.
        unsafe { self.places[portal as usize].as_ref() }
    }

    /// The same to change it.
    #[inline(always)]
    pub(super) fn of_lane_mut(&mut self, portal: u8) -> Option<&mut Front> {
        // SAFETY: as above.
        unsafe { self.places[portal as usize].as_mut() }
    }

    /// All places, with their portal table entries.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Front)> {
        // SAFETY: as above; each place is another front.
        (0..)
            .zip(self.places.iter())
            .filter_map(|(portal, &front)| unsafe { front.as_mut() }.map(|front| (portal, front)))
    }
}

impl Drop for Fronts {
    fn drop(&mut self) {
        for portal in 0..FRONTS as u32 {
            self.set(portal, None);
        }
    }
}
