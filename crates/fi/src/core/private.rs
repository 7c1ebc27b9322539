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
//! Cost of a receive: its record is written once and read once, 64 bytes. No more than [`RECEIVES_MAX`] are looked through;
//! where there are more, the NIC's index has them.

use std::ffi::c_void;

use super::early::Early;
use super::receive::{Place, Wanted};
use super::send::copy_small;
use super::{Core, ENDPOINT_PORTALS, KINDS, Kind, Side, Ticket};
use crate::completion::{Completion, CompletionQueue, Reading};
use crate::constants::*;
use crate::endpoint::Endpoint;
use crate::ffi::{fi_cq_tagged_entry, iovec};

/// Private receives of one place.
const RECEIVES_MAX: usize = 128;
/// How many receives go to the NIC after messages that senders brought there met private ones: they may have no lane.
const PAUSE: u32 = 64;

/// A private receive. A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Receive {
    tag: u64,
    /// Bits of the tag and of the source that must be equal.
    tag_mask: u64,
    source: u64,
    source_mask: u64,
    start: u64,
    /// Its room, below [`WANTED`].
    length: u64,
    context: *mut c_void,
}

/// Of a receive's length: a completion is wanted, and there is a queue for it.
const WANTED: u64 = 1 << 63;

impl Receive {
    #[inline(always)]
    pub fn new(
        (tag, ignore): (u64, u64),
        source: Option<u64>,
        start: u64,
        length: usize,
        context: *mut c_void,
        wanted: bool,
    ) -> Receive {
        Receive {
            tag,
            tag_mask: !ignore,
            source: source.unwrap_or(0),
            source_mask: if source.is_some() { u64::MAX } else { 0 },
            start,
            length: length as u64 | if wanted { WANTED } else { 0 },
            context,
        }
    }

    #[inline(always)]
    pub(super) fn accepts(&self, tag: u64, source: u64) -> bool {
        (self.tag ^ tag) & self.tag_mask | (self.source ^ source) & self.source_mask == 0
    }

    #[inline(always)]
    fn room(&self) -> usize {
        (self.length & !WANTED) as usize
    }

    #[inline(always)]
    fn wanted(&self) -> bool {
        self.length & WANTED != 0
    }
}

/// Receives in the order in which they were posted: a ring.
struct Receives {
    slots: Box<[Receive]>,
    /// Numbers of the first receive and of the next to be posted. Their slots are these numbers modulo [`RECEIVES_MAX`].
    head: usize,
    tail: usize,
    /// One that was taken from between others.
    spare: Receive,
}

impl Receives {
    fn new(most: usize) -> Receives {
        let empty = Receive::new((0, 0), None, 0, 0, std::ptr::null_mut(), false);
        Receives { slots: vec![empty; most].into_boxed_slice(), head: 0, tail: 0, spare: empty }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.tail - self.head
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.len() >= self.slots.len()
    }

    /// False: there is no room.
    #[inline(always)]
    fn push(&mut self, receive: Receive) -> bool {
        if self.is_full() {
            return false;
        }
        if let Some(slot) = self.slots.get_mut(self.tail % RECEIVES_MAX) {
            *slot = receive;
            self.tail += 1;
        }
        true
    }

    /// Takes the first receive that is wanted. It stays readable until the next is posted.
    #[inline(always)]
    fn take(&mut self, wants: impl Fn(&Receive) -> bool) -> Option<&Receive> {
        if self.head == self.tail {
            return None;
        }
        if !self.slots.get(self.head % RECEIVES_MAX).is_some_and(&wants) {
            return self.take_later(wants);
        }
        self.head += 1;
        self.slots.get((self.head - 1) % RECEIVES_MAX)
    }

    /// The same behind the first. Those on the side where there are fewer move up; the others keep their places.
    #[inline(never)]
    fn take_later(&mut self, wants: impl Fn(&Receive) -> bool) -> Option<&Receive> {
        let found = (self.head + 1..self.tail).find(|&at| wants(&self.slots[at % RECEIVES_MAX]))?;
        self.spare = self.slots[found % RECEIVES_MAX];
        if found - self.head < self.tail - found {
            for at in (self.head..found).rev() {
                self.slots[(at + 1) % RECEIVES_MAX] = self.slots[at % RECEIVES_MAX];
            }
            self.head += 1;
        } else {
            for at in found + 1..self.tail {
                self.slots[(at - 1) % RECEIVES_MAX] = self.slots[at % RECEIVES_MAX];
            }
            self.tail -= 1;
        }
        Some(&self.spare)
    }
}

/// Where an endpoint's messages of one kind arrive, as its owner knows it.
pub struct Front {
    /// Receives with less room may be private now: 0 while the place is closed.
    limit: usize,
    receives: Receives,
    pub(super) early: Early,
    kind: Kind,
    endpoint: *mut Endpoint,
    /// What completions need of both, while the place is open.
    queue: *mut CompletionQueue,
    flags: u64,
    /// All of a tag, or nothing of what is no tag.
    tag_mask: u64,
    names_sources: bool,
    pause: u32,
}

impl Front {
    /// Of a place that is nobody's.
    pub fn closed() -> Front {
        Front::new(Receives::new(0), Early::default(), Kind::Plain, std::ptr::null_mut())
    }

    fn new(receives: Receives, early: Early, kind: Kind, endpoint: *mut Endpoint) -> Front {
        let tag_mask = if kind == Kind::Tagged { u64::MAX } else { 0 };
        Front {
            limit: 0,
            receives,
            early,
            kind,
            endpoint,
            queue: std::ptr::null_mut(),
            flags: RECV | kind.flag(),
            tag_mask,
            names_sources: false,
            pause: 0,
        }
    }

    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.limit != 0
    }

    /// Opens the place, which is idle, with its first receive. Others may have as much room.
    #[inline]
    pub fn open_with(&mut self, receive: Receive, room_max: usize) {
        let pushed = self.receives.push(receive);
        debug_assert!(pushed && !self.endpoint.is_null(), "a closed place has no receives");
        self.limit = room_max + 1;
        // SAFETY: an endpoint that is open, and enabled: what it is bound to stays.
        (self.queue, self.names_sources) = unsafe { ((*self.endpoint).rx_queue, (*self.endpoint).names_sources) };
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
            copy_small(from, self.receive.start as *mut u8, length);
            if self.receive.wanted() {
                (*self.queue).give(reading, Completion { entry: entry(length), source });
            }
        }
        length
    }
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
            let (receives, early) = (Receives::new(RECEIVES_MAX), Early::new());
            self.fronts[kind.portal(index) as usize] = Front::new(receives, early, kind, endpoint);
        }
    }

    pub(super) fn forget_fronts(&mut self, index: u16) {
        for kind in [Kind::Tagged, Kind::Plain] {
            self.fronts[kind.portal(index) as usize] = Front::closed();
        }
    }

    /// Keeps a receive private, or fills it with what has waited for it. False: it must be posted ([`Core::receive`]).
    ///
    /// Its endpoint has no counter for receives.
    #[inline(always)]
    pub fn receive_privately(&mut self, portal: u32, receive: Receive) -> bool {
        let waits = self.fronts.get(portal as usize).is_some_and(|front| !front.early.is_empty());
        if waits && self.meet_early(portal, receive) {
            return true;
        }
        !self.is_met_in_place(&receive) && self.keep(portal, receive)
    }

    /// Keeps a receive private, if that takes no further look: no message waits for any, and no sender looks for it at the NIC. False:
    /// nothing has happened.
    #[inline(always)]
    pub fn keep_plainly(&mut self, portal: u32, receive: Receive) -> bool {
        receive.room() <= self.small_max
            && self.fronts.get(portal as usize).is_some_and(|front| front.early.is_empty())
            && self.keep(portal, receive)
    }

    /// Whether a receive is one that senders of longer messages fill, if they find it at the NIC.
    #[inline(always)]
    pub(super) fn is_met_in_place(&self, receive: &Receive) -> bool {
        receive.room() > self.small_max && self.interface.offers(receive.start, receive.room() as u64)
    }

    /// Keeps a receive for which that is so or not.
    #[inline(always)]
    pub(super) fn keep(&mut self, portal: u32, receive: Receive) -> bool {
        let Some(front) = self.fronts.get_mut(portal as usize) else { return false };
        receive.room() < front.limit && self.kept.get() == self.seen && front.receives.push(receive)
    }

    /// Whether the place of a receive that could be private is to be opened, if it is idle.
    #[inline]
    pub(super) fn may_open_front(&mut self, portal: u32) -> bool {
        let Some(front) = self.fronts.get_mut(portal as usize) else { return false };
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
        let Some(front) = self.fronts.get_mut(portal as usize) else { return };
        front.limit = 0;
        // While it is closed nothing is added.
        while let Some((kind, ticket, receive)) = self.fronts[portal as usize].take_first() {
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
        for portal in 0..self.fronts.len() as u32 {
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
                    if self.fronts[portal as usize].is_open() && nic.unexpected_count(portal) != 0 {
                        met.push(portal);
                    }
                }
            }
        }
        for portal in met {
            let front = &mut self.fronts[portal as usize];
            if front.receives.len() != 0 {
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
            let front = &mut self.fronts[kind.portal(index) as usize];
            if let Some(&receive) = front.receives.take(|receive| receive.context == context) {
                return Some(front.ticket(&receive));
            }
        }
        None
    }
}

/// How many fronts there are: one for each portal table entry.
pub const FRONTS: usize = ENDPOINT_PORTALS as usize + KINDS as usize * super::ENDPOINTS_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn of_tag(tag: u64, number: u64) -> Receive {
        Receive::new((tag, 0), None, number, 0, std::ptr::null_mut(), false)
    }

    /// Against a plain list, over many turns of the ring, full and empty.
    #[test]
    fn receives_are_taken_as_from_a_plain_list() {
        let (mut ring, mut list) = (Receives::new(RECEIVES_MAX), Vec::new());
        let mut state = 99u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for number in 0..40_000 {
            let tag = random(8);
            // For a while more are posted than taken, then the other way round.
            if random(10) < 3 + number / 2000 % 2 * 4 {
                assert_eq!(ring.push(of_tag(tag, number)), list.len() < RECEIVES_MAX);
                if list.len() < RECEIVES_MAX {
                    list.push((tag, number));
                }
            } else {
                let expected = list.iter().position(|&(other, _)| other == tag).map(|at| list.remove(at).1);
                assert_eq!(ring.take(|receive| receive.accepts(tag, 5)).map(|receive| receive.start), expected);
            }
            assert_eq!(ring.len(), list.len());
        }
    }

    #[test]
    fn a_receive_accepts_what_its_masks_leave() {
        let receive = Receive::new((0x12, 0x0f), Some(7), 0, 16, std::ptr::null_mut(), true);
        assert!(receive.accepts(0x1f, 7) && !receive.accepts(0x22, 7) && !receive.accepts(0x12, 6));
        assert!(receive.wanted() && receive.room() == 16);
    }
}
