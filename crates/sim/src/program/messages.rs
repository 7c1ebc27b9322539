// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sending and receiving with tags, as MPI does, on the NIC's match entries.
//!
//! Up to [`super::Needs::eager_bytes_max`] a message is one put: into the posted receive, or, if there is none, into the space for
//! arrivals, from where its receive copies it. Longer ones send word first, and whoever receives fetches them (seed 000, section
//! 2.5): the target's program takes part in that.
//!
//! A synchronous send is a long one at any length: it is done when its receive has fetched it.
//!
//! Tags from [`OWN_TAGS`] on are met only by receives that name them: for collectives, which programs' receives of any tag
//! must not see.
//!
//! Match bits: bit 63, word of a long message; bits 0 to 31, the tag. The header data of word says where the payload waits,
//! and its 8 bytes how long it is.

use std::collections::VecDeque;

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::events::{Event, Taken, event_kind};
use selvedge_nic::portals::{EntrySpec, Posted, list, options};
use selvedge_nic::tables::{Side, kind};
use selvedge_nic::{Bus, Metered, Nic, NoMemory, Step};

use crate::machine::{Matching, Mode};
use crate::node::header_search;
use crate::node::{Ask, Bytes};
use crate::time::Time;

use super::memory::{ARRIVALS_AT, ARRIVALS_BYTES, Memory, landing_of};
use super::process::{Core, PORTAL_FETCH, PORTAL_MESSAGES, Process};

/// Any source; any tag.
pub const ANY: u32 = u32::MAX;

/// The first of the tags that [`ANY`] leaves out.
pub const OWN_TAGS: u32 = 1 << 31;

/// A message that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub source: u32,
    pub tag: u32,
    pub bytes: Bytes,
}

/// A send or receive that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(u32);

const WORD: u64 = 1 << 63;
/// Bytes of a word: the length of what waits.
const WORD_BYTES: u64 = 8;

#[derive(Clone, Debug)]
enum State {
    Free,
    /// A receive that is posted, of at most so many bytes.
    Posted {
        most: u64,
    },
    /// Word has come: the payload is to be fetched.
    Told {
        source: u32,
        tag: u32,
        length: u64,
        token: u64,
    },
    /// It is being fetched.
    Fetching {
        source: u32,
        tag: u32,
    },
    /// A long send that waits to be fetched.
    Offered,
    Done(Option<Message>),
}

/// The messages of a rank.
pub(super) struct Messages {
    events: u32,
    requests: Vec<State>,
    free: Vec<u32>,
    /// Long messages whose payload can be fetched now.
    told: VecDeque<u32>,
}

impl Messages {
    pub fn new(nic: &mut Nic<'_>, events: u32) -> Messages {
        let spec = EntrySpec {
            options: options::OP_PUT
                | options::MANAGE_LOCAL
                | options::EVENT_LINK_DISABLE
                | options::EVENT_COMM_DISABLE
                | options::EVENT_UNLINK_DISABLE,
            start: ARRIVALS_AT,
            length: ARRIVALS_BYTES,
            ignore_bits: u64::MAX,
            source_ignore: u64::MAX,
            ..EMPTY
        };
        let appended = nic.append(&mut NoMemory, PORTAL_MESSAGES, list::OVERFLOW, &spec);
        debug_assert!(appended.is_ok(), "a new NIC has room for its first entry");
        Messages { events, requests: Vec::new(), free: Vec::new(), told: VecDeque::new() }
    }

    fn begin(&mut self, memory: &mut Memory, state: State) -> RequestId {
        match self.free.pop() {
            Some(index) => {
                self.requests[index as usize] = state;
                RequestId(index)
            }
            None => {
                self.requests.push(state);
                memory.reserve(self.requests.len());
                RequestId(self.requests.len() as u32 - 1)
            }
        }
    }

    fn is_done(&self, request: RequestId) -> bool {
        matches!(self.requests.get(request.0 as usize), Some(State::Done(_)))
    }

    fn take_done(&mut self, request: RequestId) -> Option<Option<Message>> {
        let slot = self.requests.get_mut(request.0 as usize)?;
        if !matches!(slot, State::Done(_)) {
            return None;
        }
        let State::Done(message) = std::mem::replace(slot, State::Free) else { return None };
        self.free.push(request.0);
        Some(message)
    }
}

const EMPTY: EntrySpec = EntrySpec {
    options: 0,
    start: 0,
    length: 0,
    iov: NONE,
    iov_count: 0,
    match_bits: 0,
    ignore_bits: 0,
    source: 0,
    source_ignore: 0,
    min_free: 0,
    user_ptr: 0,
    counter: NONE,
    uid: u32::MAX,
};

impl Process {
    /// Begins to send.
    pub async fn isend(&self, to: u32, tag: u32, bytes: &[u8]) -> RequestId {
        let length = bytes.len() as u64;
        if length > self.core.borrow().needs.eager_bytes_max {
            return self.issend(to, tag, bytes).await;
        }
        let command = self.command(kind::PUT, to, PORTAL_MESSAGES, tag.into(), 0, length);
        self.start(command, Bytes::from_slice(bytes)).await;
        let core = &mut *self.core.borrow_mut();
        core.messages.begin(&mut core.memory, State::Done(None))
    }

    /// Begins a synchronous send: it is done when the receive that it met has all of it.
    pub async fn issend(&self, to: u32, tag: u32, bytes: &[u8]) -> RequestId {
        let length = bytes.len() as u64;
        let (request, token) = {
            let core = &mut *self.core.borrow_mut();
            let request = core.messages.begin(&mut core.memory, State::Offered);
            let token = landing_of(request.0);
            let written = core.memory.write(token, bytes);
            debug_assert!(written.is_ok(), "a request has its space");
            let spec = EntrySpec {
                options: options::OP_GET
                    | options::USE_ONCE
                    | options::EVENT_LINK_DISABLE
                    | options::EVENT_UNLINK_DISABLE
                    | options::UNEXPECTED_HDR_DISABLE,
                start: token,
                length,
                match_bits: token,
                source_ignore: u64::MAX,
                user_ptr: request.0.into(),
                ..EMPTY
            };
            core.now += core.machine.local_command();
            let offered = core.tables.nic().append(&mut NoMemory, PORTAL_FETCH, list::PRIORITY, &spec);
            assert!(offered.is_ok(), "{offered:?}: more long sends at once than the program said it needs");
            (request, token)
        };
        let mut command = self.command(kind::PUT, to, PORTAL_MESSAGES, WORD | u64::from(tag), 0, WORD_BYTES);
        command.request.header_data = token;
        self.start(command, Bytes::from_slice(&length.to_le_bytes())).await;
        request
    }

    /// Begins to receive from a rank ([`ANY`]: any) with a tag (likewise), at most so many bytes.
    pub fn irecv(&self, from: u32, tag: u32, bytes: u64) -> RequestId {
        let core = &mut *self.core.borrow_mut();
        let request = core.messages.begin(&mut core.memory, State::Posted { most: bytes });
        // Room for the word of a long message, whatever was asked for.
        let length = bytes.max(WORD_BYTES);
        let spec =
            EntrySpec { start: landing_of(request.0), length, user_ptr: request.0.into(), ..receive_of(from, tag) };
        core.post(&spec, request);
        request
    }

    /// The oldest unexpected message from a rank with a tag ([`ANY`]: any), if there is one: source, tag, bytes. A look in vain
    /// gives way to whatever happens next.
    pub async fn probe(&self, from: u32, tag: u32) -> Option<(u32, u32, u64)> {
        self.progress().await;
        let found = self.core.borrow_mut().look(&receive_of(from, tag));
        if found.is_none() {
            self.ask(Ask::Poll).await;
        }
        found
    }

    /// Looks whether a request is done; gives what was received. A look in vain gives way to whatever happens next.
    pub async fn test(&self, request: RequestId) -> Option<Option<Message>> {
        self.progress().await;
        let done = self.core.borrow_mut().messages.take_done(request);
        if done.is_none() {
            self.ask(Ask::Poll).await;
        }
        done
    }

    /// The first of these requests that is done, by its place among them, if one is.
    pub async fn done_of(&self, requests: &[RequestId]) -> Option<(usize, Option<Message>)> {
        self.progress().await;
        let mut core = self.core.borrow_mut();
        let mut each = requests.iter().enumerate();
        each.find_map(|(at, request)| core.messages.take_done(*request).map(|message| (at, message)))
    }

    /// Waits for any of these requests.
    pub async fn wait_any(&self, requests: &[RequestId]) -> (usize, Option<Message>) {
        loop {
            if let Some(done) = self.done_of(requests).await {
                return done;
            }
            self.ask(Ask::Wait { until: Time::MAX }).await;
        }
    }

    /// Waits for a request; gives what was received.
    pub async fn wait(&self, request: RequestId) -> Option<Message> {
        loop {
            let (moved, told) = {
                let core = &mut *self.core.borrow_mut();
                if let Some(done) = core.messages.take_done(request) {
                    return done;
                }
                (core.take_events(), !core.messages.told.is_empty())
            };
            if told {
                self.progress().await;
            } else if !moved {
                self.ask(Ask::Wait { until: Time::MAX }).await;
            }
        }
    }

    pub async fn wait_all(&self, requests: &[RequestId]) -> Vec<Option<Message>> {
        let mut done = Vec::with_capacity(requests.len());
        for request in requests {
            done.push(self.wait(*request).await);
        }
        done
    }

    pub async fn send(&self, to: u32, tag: u32, bytes: &[u8]) {
        let request = self.isend(to, tag, bytes).await;
        self.wait(request).await;
    }

    pub async fn recv(&self, from: u32, tag: u32, bytes: u64) -> Message {
        let request = self.irecv(from, tag, bytes);
        self.wait(request).await.unwrap_or(Message { source: from, tag, bytes: Bytes::new() })
    }

    /// Both at once.
    pub async fn exchange(&self, to: u32, from: u32, tag: u32, bytes: &[u8]) -> Message {
        let length = bytes.len() as u64;
        let receive = self.irecv(from, tag, length);
        let is_long = length > self.core.borrow().needs.eager_bytes_max;
        let message = if is_long || self.core.borrow().messages.is_done(receive) {
            let send = self.isend(to, tag, bytes).await;
            let message = self.wait(receive).await;
            self.wait(send).await;
            message
        } else {
            // A short send is done when it has left, and nothing is to be done then but to wait.
            let command = self.command(kind::PUT, to, PORTAL_MESSAGES, tag.into(), 0, length);
            self.start_and_wait(command, Bytes::from_slice(bytes)).await;
            self.wait(receive).await
        };
        message.unwrap_or(Message { source: from, tag, bytes: Bytes::new() })
    }

    /// Takes what the NIC tells, and fetches long messages that are due. Whether there was anything.
    async fn progress(&self) -> bool {
        let mut moved = false;
        loop {
            let told = {
                let core = &mut *self.core.borrow_mut();
                moved |= core.take_events();
                core.messages.told.pop_front()
            };
            let Some(index) = told else { return moved };
            moved = true;
            let State::Told { source, tag, length, token } = self.core.borrow().messages.requests[index as usize]
            else {
                continue;
            };
            let mut command = self.command(kind::GET, source, PORTAL_FETCH, token, 0, length);
            {
                let messages = &mut self.core.borrow_mut().messages;
                command.user_ptr = index.into();
                command.sink = Side { start: landing_of(index), queue: messages.events, ..Side::NOWHERE };
                messages.requests[index as usize] = State::Fetching { source, tag };
            }
            self.start(command, Bytes::new()).await;
        }
    }
}

/// A bus that moves nothing, and counts the headers that a hash looks at.
fn counting(searched: &mut u64) -> impl Bus {
    Metered { bus: NoMemory, meter: |step| *searched += u64::from(step == Step::EntrySearched) }
}

impl Core {
    /// Posts a receive, or takes the unexpected message that is there for it.
    fn post(&mut self, spec: &EntrySpec, request: RequestId) {
        let mut searched = 0;
        let posted = self.tables.nic().post_receive(&mut counting(&mut searched), PORTAL_MESSAGES, spec);
        match posted {
            Ok(Posted::Linked(_)) => self.spend_on_search(None, searched),
            Ok(Posted::Met(header)) => {
                self.spend_on_search(Some(header), searched);
                let machine = &self.machine;
                self.now += machine.nic.event + machine.host.software_receive;
                let mut nic = self.tables.nic();
                let Some(&record) = nic.unexpected(header) else { return };
                nic.drop_unexpected(header);
                let event = Event {
                    start: record.start,
                    user_ptr: request.0.into(),
                    header_data: record.header_data,
                    match_bits: record.match_bits,
                    mlength: record.mlength,
                    initiator: record.source,
                    ..Event::default()
                };
                self.now += self.machine.host.copy(event.mlength.min(spec.length));
                self.received(&event);
            }
            Err(error) => panic!("{error:?}: more receives at once than the program said it needs"),
        }
    }

    /// Spends what it takes to ask the NIC for the unexpected message `found`, with a hash that looked at so many headers or, where
    /// the machine has none, by a walk of the list.
    fn spend_on_search(&mut self, found: Option<u32>, hashed: u64) {
        let (searched, length) = match (self.machine.nic.matching, self.machine.nic.mode) {
            (Matching::List, _) => header_search(&self.tables.nic(), PORTAL_MESSAGES, found),
            // How long the list is matters to a processor's caches only.
            (Matching::Hash, Mode::Nic) => (hashed, 0),
            (Matching::Hash, Mode::Host) => {
                (hashed, self.tables.nic().portal(PORTAL_MESSAGES).map_or(0, |portal| u64::from(portal.headers)))
            }
        };
        self.now += self.machine.local_command() + self.machine.search(searched, length);
    }

    fn take_events(&mut self) -> bool {
        let mut taken = false;
        loop {
            let event = match self.tables.signals().take_event(self.messages.events) {
                Taken::Event(event, _) => event,
                Taken::Empty | Taken::Gone => return taken,
            };
            taken = true;
            match event.kind {
                event_kind::PUT => self.received(&event),
                event_kind::GET => {
                    let index = event.user_ptr as u32;
                    self.memory.take(landing_of(index));
                    self.messages.requests[index as usize] = State::Done(None);
                }
                event_kind::REPLY => {
                    let index = event.user_ptr as u32;
                    let bytes = self.memory.take(landing_of(index));
                    let slot = &mut self.messages.requests[index as usize];
                    if let State::Fetching { source, tag } = *slot {
                        *slot = State::Done(Some(Message { source, tag, bytes }));
                    }
                }
                _ => {}
            }
        }
    }

    /// A message has come for a request: whole, or word of it.
    fn received(&mut self, event: &Event) {
        let mut bytes = if event.mlength == 0 { Bytes::new() } else { self.memory.take(event.start) };
        let index = event.user_ptr as u32;
        let Some(slot) = self.messages.requests.get_mut(index as usize) else { return };
        let State::Posted { most } = *slot else { return };
        let (source, tag) = (event.initiator as u32, event.match_bits as u32);
        if event.match_bits & WORD != 0 {
            let length = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)).min(most);
            *slot = State::Told { source, tag, length, token: event.header_data };
            self.messages.told.push_back(index);
        } else {
            bytes.truncate(most as usize);
            *slot = State::Done(Some(Message { source, tag, bytes }));
        }
    }

    /// The unexpected message that a receive would meet.
    fn look(&mut self, spec: &EntrySpec) -> Option<(u32, u32, u64)> {
        let mut searched = 0;
        let found = self.tables.nic().find_unexpected(&mut counting(&mut searched), PORTAL_MESSAGES, spec);
        self.spend_on_search(found, searched);
        let nic = self.tables.nic();
        let record = nic.unexpected(found?)?;
        let word = || self.memory.arrival(record.start).and_then(|bytes| bytes.first_chunk().copied());
        let bytes = if record.match_bits & WORD == 0 { record.mlength } else { u64::from_le_bytes(word()?) };
        Some((record.source as u32, record.match_bits as u32, bytes))
    }
}

/// A receive, but for where it puts what.
fn receive_of(from: u32, tag: u32) -> EntrySpec {
    let any = |value: u32| value == ANY;
    EntrySpec {
        options: options::OP_PUT | options::USE_ONCE | options::EVENT_LINK_DISABLE | options::EVENT_UNLINK_DISABLE,
        match_bits: if any(tag) { 0 } else { tag.into() },
        ignore_bits: WORD | if any(tag) { u64::from(OWN_TAGS - 1) } else { 0 },
        source: if any(from) { 0 } else { from.into() },
        source_ignore: if any(from) { u64::MAX } else { 0 },
        ..EMPTY
    }
}
