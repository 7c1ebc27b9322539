// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sending and receiving with tags, as in MPI, on the NIC's match entries.
//!
//! A message of up to [`super::Needs::eager_bytes_max`] is one put: into the posted receive or, without one, into the
//! memory for unexpected messages, from where a later receive copies it. A longer message uses rendezvous: the sender
//! puts an announcement, and the receiver's program fetches the payload with a get (seed 000, section 2.5).
//!
//! A synchronous send uses rendezvous at any length: it completes when its receive has fetched the payload.
//!
//! Tags from [`super::OWN_TAGS`] on match only receives that name them. Collectives use them, so that a program's
//! receive of any tag does not match their messages.
//!
//! Match bits: bit 63, the message is an announcement; bits 0 to 31, the tag. The header data of an announcement are
//! the match bits for fetching the payload; its 8 bytes of payload are the length of the message.

use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::{EntrySpec, Event, Posted, event_kind, list, options};
use selvedge_nic::tables::{Side, kind};
use selvedge_nic::{Bus, Metered, NoMemory, Step};

use crate::machine::{Matching, Mode};
use crate::node::header_search;
use crate::node::{Bytes, RankRequest};
use crate::time::Time;

use super::memory::landing_of;
use super::process::Process;
use super::requests::{
    ANNOUNCEMENT, ANNOUNCEMENT_BYTES, EMPTY, Message, PORTAL_MESSAGES, RequestId, RequestState, receive_of,
};
use super::shared::{Core, PORTAL_FETCH};

impl Process {
    /// Starts a send.
    pub async fn isend(&self, to: u32, tag: u32, bytes: &[u8]) -> RequestId {
        let length = bytes.len() as u64;
        if length > self.core.borrow().needs.eager_bytes_max {
            return self.issend(to, tag, bytes).await;
        }
        let command = self.command(kind::PUT, to, PORTAL_MESSAGES, tag.into(), 0, length);
        self.start(command, Bytes::from_slice(bytes)).await;
        let core = &mut *self.core.borrow_mut();
        core.requests.begin(&mut core.memory, RequestState::Done(None))
    }

    /// Starts a synchronous send: it completes when the matching receive has the whole payload.
    pub async fn issend(&self, to: u32, tag: u32, bytes: &[u8]) -> RequestId {
        let length = bytes.len() as u64;
        let (request, token) = {
            let core = &mut *self.core.borrow_mut();
            let request = core.requests.begin(&mut core.memory, RequestState::Offered);
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
            let offered = core.tables.nic().lists().append(&mut NoMemory, PORTAL_FETCH, list::PRIORITY, &spec);
            assert!(offered.is_ok(), "{offered:?}: more long sends at once than the program's `Needs` state");
            (request, token)
        };
        let mut command =
            self.command(kind::PUT, to, PORTAL_MESSAGES, ANNOUNCEMENT | u64::from(tag), 0, ANNOUNCEMENT_BYTES);
        command.request.header_data = token;
        self.start(command, Bytes::from_slice(&length.to_le_bytes())).await;
        request
    }

    /// Starts a receive of at most n bytes from a rank with a tag ([`super::ANY`]: any rank, any tag).
    pub fn irecv(&self, from: u32, tag: u32, bytes: u64) -> RequestId {
        let core = &mut *self.core.borrow_mut();
        let request = core.requests.begin(&mut core.memory, RequestState::Posted { most: bytes });
        // At least the length of an announcement.
        let length = bytes.max(ANNOUNCEMENT_BYTES);
        let spec =
            EntrySpec { start: landing_of(request.0), length, user_ptr: request.0.into(), ..receive_of(from, tag) };
        core.post(&spec, request);
        request
    }

    /// Returns source, tag and bytes of the oldest unexpected message from a rank with a tag ([`super::ANY`]: any). If
    /// there is none, the rank's turn ends and the next event happens.
    pub async fn probe(&self, from: u32, tag: u32) -> Option<(u32, u32, u64)> {
        self.progress().await;
        let found = self.core.borrow_mut().peek_unexpected(&receive_of(from, tag));
        if found.is_none() {
            self.ask(RankRequest::Poll { until: Time::MAX, in_call: false }).await;
        }
        found
    }

    /// Tests a request; returns the received message. If it is not complete, the turn ends and the next event happens.
    pub async fn test(&self, request: RequestId) -> Option<Option<Message>> {
        self.progress().await;
        let done = self.core.borrow_mut().requests.take_done(request);
        if done.is_none() {
            self.ask(RankRequest::Poll { until: Time::MAX, in_call: false }).await;
        }
        done
    }

    /// Returns the index of the first of these requests that is complete, and its message.
    pub async fn done_of(&self, requests: &[RequestId]) -> Option<(usize, Option<Message>)> {
        self.progress().await;
        let mut core = self.core.borrow_mut();
        let mut each = requests.iter().enumerate();
        each.find_map(|(at, request)| core.requests.take_done(*request).map(|message| (at, message)))
    }

    /// Waits for any of these requests.
    pub async fn wait_any(&self, requests: &[RequestId]) -> (usize, Option<Message>) {
        loop {
            if let Some(done) = self.done_of(requests).await {
                return done;
            }
            self.ask(RankRequest::Wait { until: Time::MAX }).await;
        }
    }

    /// Waits for a request; returns the received message.
    pub async fn wait(&self, request: RequestId) -> Option<Message> {
        loop {
            let (moved, must_fetch) = {
                let core = &mut *self.core.borrow_mut();
                if let Some(done) = core.requests.take_done(request) {
                    return done;
                }
                (core.take_events(), !core.requests.announced.is_empty())
            };
            if must_fetch {
                self.progress().await;
            } else if !moved {
                self.ask(RankRequest::Wait { until: Time::MAX }).await;
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

    /// Sends to one rank and receives from another at the same time.
    pub async fn exchange(&self, to: u32, from: u32, tag: u32, bytes: &[u8]) -> Message {
        let length = bytes.len() as u64;
        let receive = self.irecv(from, tag, length);
        let is_long = length > self.core.borrow().needs.eager_bytes_max;
        let message = if is_long || self.core.borrow().requests.is_done(receive) {
            let send = self.isend(to, tag, bytes).await;
            let message = self.wait(receive).await;
            self.wait(send).await;
            message
        } else {
            // A short send is complete when the NIC has it, so the rank can wait at once.
            let command = self.command(kind::PUT, to, PORTAL_MESSAGES, tag.into(), 0, length);
            self.start_and_wait(command, Bytes::from_slice(bytes)).await;
            self.wait(receive).await
        };
        message.unwrap_or(Message { source: from, tag, bytes: Bytes::new() })
    }

    /// Processes the NIC's events, and fetches announced messages. False: nothing to do.
    async fn progress(&self) -> bool {
        let mut moved = false;
        loop {
            let announced = {
                let core = &mut *self.core.borrow_mut();
                moved |= core.take_events();
                core.requests.announced.pop_front()
            };
            let Some(index) = announced else { return moved };
            moved = true;
            let RequestState::Announced { source, tag, length, token } =
                self.core.borrow().requests.states[index as usize]
            else {
                continue;
            };
            let mut command = self.command(kind::GET, source, PORTAL_FETCH, token, 0, length);
            {
                let requests = &mut self.core.borrow_mut().requests;
                command.user_ptr = index.into();
                command.sink = Side { start: landing_of(index), queue: requests.events, ..Side::NOWHERE };
                requests.states[index as usize] = RequestState::Fetching { source, tag };
            }
            self.start(command, Bytes::new()).await;
        }
    }
}

/// Makes a bus without memory that counts the headers that a search by hash compares.
fn counting(searched: &mut u64) -> impl Bus {
    Metered { bus: NoMemory, meter: |step| *searched += u64::from(step == Step::EntrySearched) }
}

impl Core {
    /// Posts a receive, or takes the unexpected message that matches it.
    fn post(&mut self, spec: &EntrySpec, request: RequestId) {
        let mut searched = 0;
        let posted = self.tables.nic().receives().post(&mut counting(&mut searched), PORTAL_MESSAGES, spec);
        match posted {
            Ok(Posted::Linked(_)) => self.spend_on_search(None, searched),
            Ok(Posted::Matched(header)) => {
                self.spend_on_search(Some(header), searched);
                let machine = &self.machine;
                self.now += machine.nic.event + machine.host.software_receive;
                let mut nic = self.tables.nic();
                let Some(&record) = nic.unexpected(header) else { return };
                nic.receives().drop_unexpected(header);
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
            Err(error) => panic!("{error:?}: more receives at once than the program's `Needs` state"),
        }
    }

    /// Spends the time of a search for the unexpected message `found`: by hash, which has compared `hashed` headers,
    /// or, on a machine without a hash, by a search of the list.
    fn spend_on_search(&mut self, found: Option<u32>, hashed: u64) {
        let (searched, length) = match (self.machine.nic.matching, self.machine.nic.mode) {
            (Matching::List, _) => header_search(&self.tables.nic(), PORTAL_MESSAGES, found),
            // The length of the list matters only for the caches of a processor.
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
            let event = match self.tables.signals().take_event(self.requests.events) {
                Taken::Event(event, _) => event,
                Taken::Empty | Taken::Gone => return taken,
            };
            taken = true;
            match event.kind {
                event_kind::PUT => self.received(&event),
                event_kind::GET => {
                    let index = event.user_ptr as u32;
                    self.memory.take(landing_of(index));
                    self.requests.states[index as usize] = RequestState::Done(None);
                }
                event_kind::REPLY => {
                    let index = event.user_ptr as u32;
                    let bytes = self.memory.take(landing_of(index));
                    let slot = &mut self.requests.states[index as usize];
                    if let RequestState::Fetching { source, tag } = *slot {
                        *slot = RequestState::Done(Some(Message { source, tag, bytes }));
                    }
                }
                _ => {}
            }
        }
    }

    /// Handles the arrival of a message for a receive, or of its announcement.
    fn received(&mut self, event: &Event) {
        let mut bytes = if event.mlength == 0 { Bytes::new() } else { self.memory.take(event.start) };
        let index = event.user_ptr as u32;
        let Some(slot) = self.requests.states.get_mut(index as usize) else { return };
        let RequestState::Posted { most } = *slot else { return };
        let (source, tag) = (event.initiator as u32, event.match_bits as u32);
        if event.match_bits & ANNOUNCEMENT != 0 {
            let length = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)).min(most);
            *slot = RequestState::Announced { source, tag, length, token: event.header_data };
            self.requests.announced.push_back(index);
        } else {
            bytes.truncate(most as usize);
            *slot = RequestState::Done(Some(Message { source, tag, bytes }));
        }
    }

    /// Returns the unexpected message that a receive would match.
    fn peek_unexpected(&mut self, spec: &EntrySpec) -> Option<(u32, u32, u64)> {
        let mut searched = 0;
        let found = self.tables.nic().receives().find_unexpected(&mut counting(&mut searched), PORTAL_MESSAGES, spec);
        self.spend_on_search(found, searched);
        let nic = self.tables.nic();
        let record = nic.unexpected(found?)?;
        let word = || self.memory.arrival(record.start).and_then(|bytes| bytes.first_chunk().copied());
        let bytes = if record.match_bits & ANNOUNCEMENT == 0 { record.mlength } else { u64::from_le_bytes(word()?) };
        Some((record.source as u32, record.match_bits as u32, bytes))
    }
}
