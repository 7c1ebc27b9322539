// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The oracle: Portals 4.3's target side as plain ordered lists, written from the specification.
//!
//! Every list is a vector that is searched from its start. The oracle shares only the values of the API and its result
//! types with the code under test.

use std::collections::{BTreeMap, VecDeque};

use selvedge_nic::portals::errors::{AppendError, UnlinkError};
use selvedge_nic::portals::{Delivery, Event, Verdict, event_kind, fail, list, options};
use selvedge_nic::tables::{Request, kind};
use selvedge_nic::{Fault, Limits};

use super::{MEMORY_AT, MEMORY_BYTES};

/// An entry to append or to search with.
#[derive(Clone, Debug)]
pub struct Spec {
    pub options: u32,
    /// Address and bytes; several for an I/O vector.
    pub pieces: Vec<(u64, u64)>,
    pub match_bits: u64,
    pub ignore_bits: u64,
    pub source: u64,
    pub source_ignore: u64,
    pub min_free: u64,
    pub user_ptr: u64,
    /// Index of one of the model's counters.
    pub counter: Option<usize>,
    pub uid: u32,
}

impl Spec {
    pub fn length(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.1).sum()
    }

    pub fn has(&self, option: u32) -> bool {
        self.options & option != 0
    }
}

/// Behaviour of the bus for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    Fine,
    /// Plain puts may take the fast path.
    Mapped,
    /// The target's memory cannot be accessed from here.
    Unreachable,
    /// The initiator has died.
    InitiatorGone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Linked,
    Draining,
    Gone,
}

#[derive(Clone, Debug)]
struct Entry {
    spec: Spec,
    portal: usize,
    state: State,
    local_offset: u64,
}

#[derive(Clone, Debug)]
struct Header {
    entry: usize,
    start: u64,
    mlength: u64,
    request: Request,
}

#[derive(Clone, Debug, Default)]
struct Portal {
    enabled: bool,
    flow_controlled: bool,
    lists: [Vec<usize>; 2],
    unexpected: Vec<Header>,
    disabled_event_waits: bool,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Model {
    limits: Limits,
    portals: Vec<Portal>,
    entries: Vec<Entry>,
    pub counters: Vec<(u64, u64)>,
    queue: VecDeque<Event>,
    queue_capacity: usize,
    lost: bool,
    pub memory: Vec<u8>,
    pub reply: Vec<u8>,
    pub registers: BTreeMap<&'static str, u64>,
}

/// The parts of an event that the specification defines.
pub fn essential(event: Event) -> Event {
    let about_entry = matches!(event.kind, event_kind::LINK | event_kind::AUTO_UNLINK | event_kind::AUTO_FREE);
    if about_entry || (event.kind == event_kind::SEARCH && event.fail == fail::NO_MATCH) {
        let Event { kind, user_ptr, fail, portal, .. } = event;
        let list = if event.kind == event_kind::SEARCH { 0 } else { event.list };
        return Event { kind, user_ptr, fail, portal, list, ..Event::default() };
    }
    if event.kind == event_kind::PT_DISABLED {
        let Event { kind, fail, portal, .. } = event;
        return Event { kind, fail, portal, ..Event::default() };
    }
    event
}

/// The address of the byte at an offset, and the number of bytes that follow it in place.
fn place(spec: &Spec, mut offset: u64) -> Option<(u64, u64)> {
    if spec.options & options::IOVEC == 0 {
        let (start, length) = spec.pieces[0];
        return Some((start.wrapping_add(offset), length.saturating_sub(offset)));
    }
    for &(start, length) in &spec.pieces {
        if offset < length {
            return Some((start + offset, length - offset));
        }
        offset -= length;
    }
    None
}

impl Model {
    pub fn new(limits: &Limits, flow_controlled: &[bool], counters: usize, queue_capacity: usize) -> Model {
        let portal = |&flow_controlled: &bool| Portal { enabled: true, flow_controlled, ..Portal::default() };
        Model {
            limits: *limits,
            portals: flow_controlled.iter().map(portal).collect(),
            entries: Vec::new(),
            counters: vec![(0, 0); counters],
            queue: VecDeque::new(),
            queue_capacity,
            lost: false,
            memory: vec![0; MEMORY_BYTES],
            reply: Vec::new(),
            registers: BTreeMap::new(),
        }
    }

    fn register(&mut self, name: &'static str, count: u64) {
        *self.registers.entry(name).or_default() += count;
    }

    fn count(&mut self, counter: Option<usize>, success: u64, failure: u64) {
        if let Some(counter) = counter {
            self.counters[counter].0 += success;
            self.counters[counter].1 += failure;
        }
    }

    fn count_outcome(&mut self, spec: &Spec, ok: bool, bytes: u64) {
        match ok {
            true => self.count(spec.counter, if spec.has(options::EVENT_CT_BYTES) { bytes } else { 1 }, 0),
            false => self.count(spec.counter, 0, 1),
        }
    }

    fn room(&self) -> usize {
        self.queue_capacity - self.queue.len()
    }

    fn post(&mut self, event: Event) {
        if self.queue.len() == self.queue_capacity {
            self.queue.pop_front();
            self.lost = true;
            self.register("events_overwritten", 1);
        }
        self.queue.push_back(essential(event));
        self.register("events", 1);
    }

    /// The next event, and whether others were lost before it.
    pub fn take(&mut self) -> Option<(Event, bool)> {
        let event = self.queue.pop_front()?;
        let lost = std::mem::take(&mut self.lost);
        Some((event, lost))
    }

    /// Posts the `PT_DISABLED` events that waited for room.
    pub fn post_waiting(&mut self) {
        for portal in 0..self.portals.len() {
            if self.portals[portal].disabled_event_waits && self.room() > 0 {
                self.portals[portal].disabled_event_waits = false;
                self.post(disabled(portal));
            }
        }
    }

    pub fn set_enabled(&mut self, portal: usize, enabled: bool) {
        self.portals[portal].enabled = enabled;
    }

    fn is_free(&self, entry: usize) -> bool {
        self.entries[entry].state == State::Gone
    }

    fn about(&self, entry: usize, kind: u8, which: u8) -> Event {
        let Entry { spec, portal, .. } = &self.entries[entry];
        Event { user_ptr: spec.user_ptr, portal: *portal as u32, kind, list: which, ..Event::default() }
    }

    // ---- the program's side ----

    /// Appends an entry. Returns its number, linked or not.
    pub fn append(&mut self, portal: usize, which: u8, spec: &Spec) -> Result<usize, AppendError> {
        let used = (0..self.entries.len()).filter(|&entry| !self.is_free(entry)).count();
        if used >= self.limits.entries as usize {
            return Err(AppendError::Full);
        }
        if self.portals[portal].lists[usize::from(which)].len() >= self.limits.list as usize {
            return Err(AppendError::TooLong);
        }
        let entry = self.entries.len();
        self.entries.push(Entry { spec: spec.clone(), portal, state: State::Linked, local_offset: 0 });
        if which == list::PRIORITY && self.takes_unexpected(entry) {
            if !spec.has(options::EVENT_UNLINK_DISABLE) {
                self.post(self.about(entry, event_kind::AUTO_UNLINK, which));
            }
            self.entries[entry].state = State::Gone;
            return Ok(entry);
        }
        self.portals[portal].lists[usize::from(which)].push(entry);
        if !spec.has(options::EVENT_LINK_DISABLE) {
            self.post(self.about(entry, event_kind::LINK, which));
        }
        Ok(entry)
    }

    /// Whether earlier headers use up an appended entry.
    fn takes_unexpected(&mut self, entry: usize) -> bool {
        let Entry { spec, portal, .. } = self.entries[entry].clone();
        loop {
            let offset = self.entries[entry].local_offset;
            let found =
                self.portals[portal].unexpected.iter().position(|header| accepts(&spec, offset, &header.request));
            let Some(found) = found else { return false };
            let header = self.portals[portal].unexpected.remove(found);
            self.overflow_event(&spec, &header, None);
            self.released(header.entry);
            if spec.has(options::USE_ONCE) {
                return true;
            }
            if spec.has(options::MANAGE_LOCAL) && spec.has(options::LOCAL_INC_UH_RLENGTH) {
                let offset = &mut self.entries[entry].local_offset;
                *offset += header.request.length;
                if spec.min_free != 0 && spec.length().saturating_sub(*offset) < spec.min_free {
                    return true;
                }
            }
        }
    }

    fn overflow_event(&mut self, spec: &Spec, header: &Header, kind: Option<u8>) {
        let disabled = if kind.is_some() { options::EVENT_COMM_DISABLE } else { options::EVENT_OVER_DISABLE };
        if !spec.has(disabled) && !spec.has(options::EVENT_SUCCESS_DISABLE) {
            let request = &header.request;
            let event = Event {
                start: header.start,
                user_ptr: spec.user_ptr,
                mlength: header.mlength,
                kind: kind.unwrap_or(communication(request) + 1),
                list: list::OVERFLOW,
                ..about_request(request)
            };
            self.post(event);
        }
        if spec.has(options::EVENT_CT_OVERFLOW) {
            self.count_outcome(spec, true, header.mlength);
        }
    }

    /// A header is freed; its overflow entry may be free then.
    fn released(&mut self, entry: usize) {
        let Entry { portal, state, .. } = self.entries[entry];
        if state == State::Draining && !self.portals[portal].unexpected.iter().any(|header| header.entry == entry) {
            self.drained(entry);
        }
    }

    fn drained(&mut self, entry: usize) {
        if !self.entries[entry].spec.has(options::EVENT_UNLINK_DISABLE) {
            self.post(self.about(entry, event_kind::AUTO_FREE, list::OVERFLOW));
        }
        self.entries[entry].state = State::Gone;
    }

    pub fn search(&mut self, portal: usize, spec: &Spec, delete: bool) {
        let once = spec.has(options::USE_ONCE);
        let mut matches = 0;
        let mut at = 0;
        while let Some(header) = self.portals[portal].unexpected.get(at).cloned() {
            if !accepts(spec, 0, &header.request) {
                at += 1;
                continue;
            }
            matches += 1;
            if delete {
                self.portals[portal].unexpected.remove(at);
                self.overflow_event(spec, &header, None);
                self.released(header.entry);
            } else {
                self.overflow_event(spec, &header, Some(event_kind::SEARCH));
                at += 1;
            }
            if once {
                break;
            }
        }
        if matches == 0 && !spec.has(options::EVENT_COMM_DISABLE) {
            let portal = portal as u32;
            self.post(Event {
                user_ptr: spec.user_ptr,
                portal,
                kind: event_kind::SEARCH,
                fail: fail::NO_MATCH,
                ..Event::default()
            });
        }
        if spec.has(options::EVENT_CT_OVERFLOW) && (matches == 0 || !once) {
            self.count(spec.counter, 0, 1);
        }
    }

    pub fn unlink(&mut self, entry: usize) -> Result<(), UnlinkError> {
        let Entry { portal, state, .. } = self.entries[entry];
        if state == State::Gone {
            return Err(UnlinkError::Invalid);
        }
        if state == State::Draining || self.portals[portal].unexpected.iter().any(|header| header.entry == entry) {
            return Err(UnlinkError::InUse);
        }
        self.take_off(entry);
        self.entries[entry].state = State::Gone;
        Ok(())
    }

    fn take_off(&mut self, entry: usize) {
        for list in &mut self.portals[self.entries[entry].portal].lists {
            list.retain(|&other| other != entry);
        }
    }

    /// Frees a portal table entry and allocates it again. False: entries are linked.
    pub fn reopen(&mut self, portal: usize) -> bool {
        if self.portals[portal].lists.iter().any(|list| !list.is_empty()) {
            return false;
        }
        while !self.portals[portal].unexpected.is_empty() {
            let header = self.portals[portal].unexpected.remove(0);
            self.released(header.entry);
        }
        let flow_controlled = self.portals[portal].flow_controlled;
        self.portals[portal] = Portal { enabled: true, flow_controlled, ..Portal::default() };
        true
    }

    // ---- a request ----

    pub fn deliver(&mut self, request: &Request, payload: &[u8], weather: Weather) -> Verdict {
        let Some(portal) = self.portals.get(request.portal as usize).cloned() else {
            self.register("dropped", 1);
            return failed(fail::DROPPED);
        };
        if !portal.enabled {
            self.register("refused_disabled", 1);
            return failed(fail::PT_DISABLED);
        }
        let mut candidates = portal.lists[0].iter().map(|&entry| (entry, list::PRIORITY));
        let mut others = portal.lists[1].iter().map(|&entry| (entry, list::OVERFLOW));
        let matches = |&(entry, _): &(usize, u8)| {
            let entry = &self.entries[entry];
            accepts(&entry.spec, entry.local_offset, request)
        };
        let Some((entry, which)) = candidates.find(matches).or_else(|| others.find(matches)) else {
            return self.exhausted(request, false);
        };
        let spec = self.entries[entry].spec.clone();
        if spec.uid != u32::MAX && spec.uid != request.uid {
            self.register("permission_violations", 1);
            return failed(fail::PERM_VIOLATION);
        }
        let (put, get) = match request.kind {
            kind::PUT | kind::ATOMIC => (true, false),
            kind::GET => (false, true),
            _ => (true, true),
        };
        if (put && !spec.has(options::OP_PUT)) || (get && !spec.has(options::OP_GET)) {
            self.register("operation_violations", 1);
            return failed(fail::OP_VIOLATION);
        }
        self.deliver_to(entry, which, request, payload, weather)
    }

    fn deliver_to(&mut self, entry: usize, which: u8, request: &Request, payload: &[u8], weather: Weather) -> Verdict {
        let Entry { spec, portal, local_offset, .. } = self.entries[entry].clone();
        let local = spec.has(options::MANAGE_LOCAL);
        let offset = if local { local_offset } else { request.remote_offset };
        let room = spec.length().saturating_sub(offset);
        let mut mlength = request.length.min(room);
        if mlength < request.length && !matches!(request.kind, kind::PUT | kind::GET) {
            mlength -= mlength % element_bytes(request);
        }
        let keeps_header = which == list::OVERFLOW && !spec.has(options::UNEXPECTED_HDR_DISABLE);
        let unlinks = spec.has(options::USE_ONCE) || (local && room - mlength < spec.min_free);
        let quiet = spec.has(options::EVENT_FLOWCTRL_DISABLE);
        let kept: usize = self.portals.iter().map(|portal| portal.unexpected.len()).sum();
        if keeps_header && kept >= self.limits.headers as usize {
            return self.exhausted(request, quiet);
        }
        let unlink_events = match unlinks && !spec.has(options::EVENT_UNLINK_DISABLE) {
            true if which == list::OVERFLOW && !keeps_header => 2,
            unlinks => usize::from(unlinks),
        };
        let events = usize::from(!spec.has(options::EVENT_COMM_DISABLE)) + unlink_events;
        if self.portals[portal].flow_controlled && self.room() < events {
            return self.exhausted(request, quiet);
        }
        if mlength != 0 && weather == Weather::Unreachable {
            return Verdict::Unreachable;
        }
        if mlength != 0 && weather == Weather::InitiatorGone {
            return Verdict::Initiator(Fault::Gone);
        }
        let ok = self.transfer(&spec, offset, mlength, request, payload);
        let moved = if ok { mlength } else { 0 };
        if local {
            self.entries[entry].local_offset += mlength;
        }
        let start = match spec.has(options::IOVEC) {
            true => place(&spec, offset).map_or(MEMORY_AT, |(start, _)| start),
            false => spec.pieces[0].0.wrapping_add(offset),
        };
        if keeps_header {
            self.register("unexpected", 1);
            let header = Header { entry, start, mlength: moved, request: *request };
            self.portals[portal].unexpected.push(header);
        }
        if unlinks {
            self.take_off(entry);
            self.entries[entry].state = State::Draining;
        }
        let fail = if ok { fail::OK } else { fail::SEGV };
        if !(spec.has(options::EVENT_COMM_DISABLE) || ok && spec.has(options::EVENT_SUCCESS_DISABLE)) {
            let kind = communication(request);
            let user_ptr = spec.user_ptr;
            self.post(Event { start, user_ptr, mlength: moved, kind, list: which, fail, ..about_request(request) });
        }
        if unlinks && !spec.has(options::EVENT_UNLINK_DISABLE) {
            self.post(self.about(entry, event_kind::AUTO_UNLINK, which));
        }
        if spec.has(options::EVENT_CT_COMM) {
            self.count_outcome(&spec, ok, moved);
        }
        if unlinks && which == list::PRIORITY {
            self.entries[entry].state = State::Gone;
        } else if unlinks && !keeps_header && !self.portals[portal].unexpected.iter().any(|other| other.entry == entry)
        {
            self.drained(entry);
        }
        self.register(if which == list::PRIORITY { "matched_priority" } else { "matched_overflow" }, 1);
        self.register("truncated", u64::from(mlength < request.length));
        self.register(if request.kind == kind::GET { "bytes_out" } else { "bytes_in" }, moved);
        self.register("segv", u64::from(!ok));
        let ack_disabled = spec.has(options::ACK_DISABLE);
        Verdict::Done(Delivery { fail, mlength: moved, remote_offset: offset, ack_disabled, list: which })
    }

    fn exhausted(&mut self, request: &Request, quiet: bool) -> Verdict {
        let index = request.portal as usize;
        if !self.portals[index].flow_controlled {
            self.register("dropped", 1);
            return failed(fail::DROPPED);
        }
        self.portals[index].enabled = false;
        self.register("flow_control", 1);
        self.register("refused_disabled", 1);
        if !quiet && self.room() > 0 {
            self.post(disabled(index));
        } else if !quiet {
            self.portals[index].disabled_event_waits = true;
        }
        failed(fail::PT_DISABLED)
    }

    /// Moves bytes one by one. False: some of the memory is not mapped.
    fn transfer(&mut self, spec: &Spec, offset: u64, mlength: u64, request: &Request, payload: &[u8]) -> bool {
        let Some(bytes) = (0..mlength).map(|at| self.byte_at(spec, offset + at)).collect::<Option<Vec<usize>>>() else {
            return false;
        };
        let before: Vec<u8> = bytes.iter().map(|&at| self.memory[at]).collect();
        if matches!(request.kind, kind::GET | kind::FETCH_ATOMIC | kind::SWAP) {
            self.reply = before.clone();
        }
        let after = match request.kind {
            kind::PUT => payload[..bytes.len()].to_vec(),
            kind::GET => before,
            _ => combined(request, &before, payload),
        };
        for (at, byte) in bytes.into_iter().zip(after) {
            self.memory[at] = byte;
        }
        true
    }

    fn byte_at(&self, spec: &Spec, offset: u64) -> Option<usize> {
        let (address, _) = place(spec, offset)?;
        let at = usize::try_from(address.checked_sub(MEMORY_AT)?).ok()?;
        (at < self.memory.len()).then_some(at)
    }
}

fn accepts(spec: &Spec, local_offset: u64, request: &Request) -> bool {
    let bits = (spec.match_bits ^ request.match_bits) & !spec.ignore_bits == 0;
    let source = (spec.source ^ request.initiator) & !spec.source_ignore == 0;
    let offset = if spec.has(options::MANAGE_LOCAL) { local_offset } else { request.remote_offset };
    let fits = spec.length() >= offset && spec.length() - offset >= request.length;
    bits && source && (fits || !spec.has(options::NO_TRUNCATE))
}

fn failed(fail: u8) -> Verdict {
    Verdict::Done(Delivery { fail, mlength: 0, remote_offset: 0, ack_disabled: false, list: list::PRIORITY })
}

fn disabled(portal: usize) -> Event {
    Event { kind: event_kind::PT_DISABLED, portal: portal as u32, fail: fail::PT_DISABLED, ..Event::default() }
}

fn communication(request: &Request) -> u8 {
    match request.kind {
        kind::PUT => event_kind::PUT,
        kind::GET => event_kind::GET,
        kind::ATOMIC => event_kind::ATOMIC,
        _ => event_kind::FETCH_ATOMIC,
    }
}

fn about_request(request: &Request) -> Event {
    Event {
        header_data: request.header_data,
        match_bits: request.match_bits,
        rlength: request.length,
        remote_offset: request.remote_offset,
        initiator: request.initiator,
        uid: request.uid,
        portal: request.portal,
        operation: request.operation,
        datatype: request.datatype,
        ..Event::default()
    }
}

/// Values of `ptl_op_t` and `ptl_datatype_t` that the histories use.
pub const SUM: u8 = 2;
pub const SWAP: u8 = 10;
pub const COMPARE_SWAP: u8 = 11;
pub const UINT8: u8 = 1;
pub const UINT64: u8 = 8;

fn element_bytes(request: &Request) -> u64 {
    if request.datatype == UINT64 { 8 } else { 1 }
}

fn combined(request: &Request, before: &[u8], payload: &[u8]) -> Vec<u8> {
    let size = element_bytes(request) as usize;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
    let mut after = Vec::new();
    for (old, new) in before.chunks(size).zip(payload.chunks(size)) {
        let result = match request.operation {
            SUM => number(old).wrapping_add(number(new)),
            COMPARE_SWAP if number(old) != request.operand[0] => number(old),
            _ => number(new),
        };
        after.extend_from_slice(&result.to_le_bytes()[..size]);
    }
    after
}
