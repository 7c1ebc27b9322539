// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has come over the units: VELO messages in the mailbox, notifications of puts, gets and reports.
//!
//! A poll empties mailbox and queue into the records of the senders, and then hands each sender's messages to this process's NIC, in
//! the order of their numbers, as messages of a ring are handed ([`crate::progress::Arriving`]).
//!
//! A long message is handed without its payload. If it matches a receive, that receive is taken off the NIC's list and the payload is
//! fetched into it; if it matches none, its header waits among the unexpected ones. An entry of another kind (persistent, counted) is
//! filled by the NIC alone: then the payload is fetched first, and later messages of the sender wait meanwhile.

use libc::iovec;
use std::ffi::c_void;

use selvedge_host::Interface;
use selvedge_host::direct::ring_request;
use selvedge_host::lock::Guard;
use selvedge_nic::portals::fail;
use selvedge_nic::rma::{Notification, code, spec};
use selvedge_nic::{Bus, NoMemory, Step};

use super::link::{BOUNCED, BOUNCES, Body, Unruly, Waiting, mailed};
use super::wire::{self, Arrival, Control, Counts, Heading, Report, Request, mtt};
use super::{Granted, Payload, Units, slots_of};
use crate::extoll::messages::Message;
use crate::flags::RECV;
use crate::operation::Operation;
use crate::pieces::total;
use crate::posted::{Arrived, Fetch, FetchEnd, Filled, Landing, PlainReceive};
use crate::progress::{Arriving, Handed};
use crate::ticket::{Kind, Ticket};
use crate::transport::Transport;

/// Polls between looks for peers that have died.
const POLLS_MAX: u32 = 256;

/// The memory of a message that has arrived: its bytes, or none if they come later; and the receives of this process.
struct FromMemory<'a> {
    interface: &'a Interface,
    bytes: Option<*const u8>,
    /// Accesses to memory that matching takes.
    accesses: &'a mut u64,
}

impl Bus for FromMemory<'_> {
    #[inline(always)]
    fn charge(&mut self, step: Step) {
        *self.accesses += u64::from(step == Step::EntrySearched);
    }

    #[inline(always)]
    fn put_mapped(&mut self, _: u64, address: u64, bytes: u64) -> bool {
        let Some(from) = self.bytes else { return true };
        // Peers can write the tables, so an address from there is checked against the mapped regions.
        if !self.interface.has_writable(address, bytes) {
            return false;
        }
        // SAFETY: the message has at least `bytes` bytes. The range is mapped for writing, as just checked, and the program gave it to
        // a receive.
        unsafe { std::ptr::copy_nonoverlapping(from, address as *mut u8, bytes as usize) };
        true
    }
}

/// What is to be done with a message outside of the NIC's lock.
enum Then {
    /// Its payload goes into this receive.
    Fill(Filled, Request),
    /// Its payload is fetched, and then it is handed to the NIC.
    FetchFirst(Heading, Request),
}

impl Transport {
    /// Takes what has come over the units. Returns whether there was anything.
    #[inline]
    pub(crate) fn take_from_units(&mut self) -> bool {
        match &self.units {
            Some(_) => self.poll_units(),
            None => false,
        }
    }

    #[inline(never)]
    fn poll_units(&mut self) -> bool {
        let mut any = self.take_mail();
        self.send_controls_again();
        any |= self.take_unit_notifications();
        any |= self.take_accesses();
        self.start_fetches();
        let due = self.units.as_mut().map(|units| std::mem::take(&mut units.due)).unwrap_or_default();
        for id in due {
            any |= self.take_messages_of(id);
        }
        let Some(units) = &mut self.units else { return any };
        units.polls = if any { 0 } else { units.polls + 1 };
        if units.polls == POLLS_MAX {
            units.polls = 0;
            self.look_after_peers();
        }
        any
    }

    /// Empties the mailbox.
    pub(super) fn take_mail(&mut self) -> bool {
        let mut any = false;
        while let Some(units) = &mut self.units {
            let Units { reader, device, .. } = &mut **units;
            let Some(message) = reader.take(device.interface(), |_| true) else { break };
            any = true;
            let id = u64::from(message.label.source().node);
            if message.label.mtt() != mtt::CONTROL {
                units.keep_or_refuse(id, &message);
                continue;
            }
            match Control::decode(message.payload()) {
                Some(Control::Ask { number }) => units.keep_question(id, number),
                Some(control) => self.take_control(id, control),
                None => units.cut_off(id),
            }
        }
        any
    }

    /// Empties the notification queue.
    fn take_unit_notifications(&mut self) -> bool {
        let mut any = false;
        while let Some(units) = &mut self.units {
            let signals = units.device.interface().signals();
            let Some(words) = signals.take_notification(super::VPID, &mut units.notifications_read) else { break };
            any = true;
            self.take_unit_notification(&Notification::decode(words));
        }
        any
    }

    fn take_unit_notification(&mut self, notification: &Notification) {
        let Some(units) = &mut self.units else { return };
        let Notification { word0, size, node, unit, code, error, .. } = *notification;
        let id = u64::from(node);
        match (code, unit) {
            // A command of ours was refused: its target has closed its NIC, or has died.
            (code::NOTIFICATION_PUT, _) if error != 0 => self.lose_peer(id),
            (code::BT_PUT, _) if error != 0 => {
                units.give_staging(word0);
                self.lose_peer(id);
            }
            (code::BT_GET, _) if error != 0 => self.got(id, word0, fail::UNDELIVERABLE),
            (code::NOTIFICATION_PUT, _) => match Report::decode(word0, size as u8) {
                Some(Report::Taken(taken)) => self.take_report(id, taken),
                Some(Report::Released { token }) => self.released(id, token),
                None => log::warn!("process {id} sends a report that is none"),
            },
            (code::BT_PUT, spec::COMPLETER) => {
                if units.keep_put(id, word0, size as usize + 1).is_err() {
                    units.cut_off(id);
                }
            }
            (code::BT_PUT, _) => {
                units.give_staging(word0);
            }
            (code::GET_BT_RSP, _) => self.got(id, word0, fail::OK),
            (code::BT_GET, spec::RESPONDER) => self.source_was_read(id, word0),
            _ => log::warn!("a notification of process {id} belongs to no command of this library"),
        }
    }

    /// Hands the messages of a sender to the NIC, as far as it has room. Returns whether there were any.
    fn take_messages_of(&mut self, id: u64) -> bool {
        let mut any = false;
        loop {
            // Completions keep the order of messages: the events of earlier deliveries come first.
            if self.watches[0].has_event() {
                self.take_events();
            }
            let Some((came, then)) = self.hand_in_some(id) else { break };
            any |= came;
            match then {
                None => {}
                Some(Then::Fill(filled, request)) => self.fill_later(id, &filled, request),
                Some(Then::FetchFirst(heading, request)) => {
                    self.fetch_first(id, heading, request);
                    continue;
                }
            }
            if !came {
                break;
            }
        }
        if let Some(units) = &mut self.units {
            units.send_report(id);
        }
        any
    }

    /// Hands messages of a sender to the NIC, under one lock, until one needs more than that. Returns whether any was handed, and what
    /// is to be done with the last one. None: there is none.
    fn hand_in_some(&mut self, id: u64) -> Option<(bool, Option<Then>)> {
        let Transport { interface, watches, filled, units, .. } = self;
        let units = units.as_mut()?;
        let slot_bytes = units.slot_bytes;
        let Granted { inbound, bounce } = units.granted.get_mut(&id)?;
        if inbound.is_fetching {
            return None;
        }
        inbound.next_message()?;
        let (mut came, mut fired) = (false, false);
        let (mut matched, mut bytes) = (0, 0);
        let mut then = None;
        let mut accesses = 0;
        {
            let nic = interface.lock_to_hand_in();
            let mut hands = Hands { interface, nic, filled, accesses: &mut accesses, sender: id };
            while let (None, Some(next)) = (&then, inbound.next_message()) {
                let heading = &next.heading;
                let handed = match &next.body {
                    // The sender waits until the payload is here.
                    Body::Long(request) if heading.reports => Outcome::Then(Then::FetchFirst(*heading, *request)),
                    Body::Long(request) => hands.long(heading, request),
                    Body::Fetched(request, bytes) => hands.fetched(heading, request, bytes),
                    Body::Bytes(bytes) => hands.whole(heading, bytes.as_ptr(), bytes.len()),
                    Body::Bounced { slot, length } => {
                        let start = bounce.at(usize::from(*slot) * slot_bytes + wire::BOUNCE_HEADING_BYTES);
                        hands.whole(heading, start.cast_const(), *length)
                    }
                    Body::Ask => break,
                };
                let is_kept = matches!(handed, Outcome::Kept);
                match handed {
                    Outcome::Filled(taken) => (matched, bytes) = (matched + 1, bytes + taken),
                    Outcome::Delivered => fired |= hands.nic.has_fired(),
                    Outcome::Kept => {}
                    Outcome::Then(next @ Then::Fill(..)) => then = Some(next),
                    Outcome::Then(next @ Then::FetchFirst(..)) => {
                        (then, inbound.is_fetching) = (Some(next), true);
                        break;
                    }
                    Outcome::NoRoom => {
                        units.due.insert(id);
                        break;
                    }
                }
                match inbound.take() {
                    Some(Body::Long(request)) if then.is_none() => {
                        units.requests.insert((id, request.token), Payload::There(request));
                    }
                    Some(Body::Fetched(request, bytes)) if is_kept => {
                        units.requests.insert((id, request.token), Payload::Here(bytes));
                    }
                    _ => {}
                }
                came = true;
                if watches[0].has_event() {
                    break;
                }
            }
            hands.nic.signals.registers.count_taken(matched, bytes);
        }
        interface.charge_accesses(accesses);
        interface.charge_copy(bytes);
        if !self.filled.is_empty() {
            self.complete_filled();
        }
        self.interface.settle(fired);
        Some((came, then))
    }

    /// A long message has matched a receive: its payload is fetched into that.
    fn fill_later(&mut self, id: u64, filled: &Filled, request: Request) {
        let Filled { user_ptr, portal, message, start, room, uses_up } = *filled;
        if let Some(units) = &mut self.units {
            units.requests.insert((id, request.token), Payload::There(request));
        }
        let Some((bindings, kind)) = self.receiver(portal) else { return };
        let message = Arrived { token: request.token, ..message };
        let piece = iovec { iov_base: start as *mut c_void, iov_len: room };
        let plain = Landing { message, kind, room, pieces: [piece].into(), bytes: None, start, multi: None };
        if let Some(receive) = PlainReceive::of(user_ptr) {
            let (context, wanted) = (PlainReceive::context(receive.0), PlainReceive::is_wanted(receive.0));
            return self.fetch(Ticket { bindings, context, flags: RECV | kind.flag(), wanted }, plain);
        }
        let number = user_ptr as usize;
        if self.is_multi(number) {
            let Some(Operation::Receive(posted)) = self.operations.get(number) else { return };
            let ticket = posted.ticket;
            self.fetch(ticket, Landing { multi: Some(number), ..plain });
            if uses_up {
                self.receive_used_up(number);
            }
            return;
        }
        if !matches!(self.operations.get(number), Some(Operation::Receive(_))) {
            return;
        }
        let Operation::Receive(posted) = self.operations.remove(number) else { return };
        let landing = match posted.pieces {
            Some(scattered) => {
                let bytes = vec![0u8; (request.length as usize).min(room)].into_boxed_slice();
                let start = bytes.as_ptr() as u64;
                Landing { pieces: scattered.pieces, bytes: Some(bytes), start, ..plain }
            }
            None => plain,
        };
        self.fetch(posted.ticket, landing);
    }

    /// Fetches the payload of a long message before it is handed to the NIC.
    fn fetch_first(&mut self, id: u64, heading: Heading, request: Request) {
        let message = Arrived::new(heading.envelope.match_bits, None, id << 8, request.length);
        self.fetch_for(FetchEnd::HandIn(id), id, Payload::There(request), &[], message);
    }

    /// Fetches a payload into memory of its own, and then scatters it over these pieces, for an end without a ticket.
    pub(crate) fn fetch_for(
        &mut self,
        ends: FetchEnd,
        sender: u64,
        payload: Payload,
        pieces: &[iovec],
        message: Arrived,
    ) {
        let room = if ends == FetchEnd::HandIn(sender) { message.length as usize } else { total(pieces) };
        let length = (message.length as usize).min(room);
        let bytes = vec![0u8; length].into_boxed_slice();
        let start = bytes.as_ptr() as u64;
        let ticket = Ticket { bindings: std::ptr::null_mut(), context: std::ptr::null_mut(), flags: 0, wanted: false };
        let landing = Landing {
            message,
            kind: Kind::Tagged,
            room,
            pieces: pieces.into(),
            bytes: Some(bytes),
            start,
            multi: None,
        };
        let fetch = Fetch { ticket, landing, source: None, ends };
        let number = self.operations.insert(Operation::Fetch(Box::new(fetch)));
        self.fetch_over_units(number, sender, payload, length as u64);
    }

    /// The payload that had to be fetched first is there, or is not.
    pub(crate) fn fetched_first(&mut self, id: u64, bytes: Box<[u8]>, failed: u8) {
        let Some(units) = &mut self.units else { return };
        let Some(granted) = units.granted.get_mut(&id) else { return };
        granted.inbound.is_fetching = false;
        units.due.insert(id);
        if failed != fail::OK {
            log::error!("a message of process {id} is lost: its payload could not be fetched");
            granted.inbound.take();
            return;
        }
        granted.inbound.fetched(bytes.into_vec());
    }
}

/// What became of a message that was handed to the NIC.
enum Outcome {
    /// It has filled a receive, with so many bytes.
    Filled(u64),
    /// The NIC has it.
    Delivered,
    /// It is a long one, and unexpected: the NIC has its header.
    Kept,
    /// It is a long one, and its payload is to be fetched.
    Then(Then),
    /// There is no room for it now.
    NoRoom,
}

/// Hands messages of one sender to the NIC, which is locked.
struct Hands<'a> {
    interface: &'a Interface,
    nic: Guard<'a>,
    filled: &'a mut Vec<Filled>,
    accesses: &'a mut u64,
    sender: u64,
}

impl Hands<'_> {
    /// A message with its payload.
    fn whole(&mut self, heading: &Heading, bytes: *const u8, length: usize) -> Outcome {
        let Hands { interface, nic, filled, accesses, sender } = self;
        **accesses += 1;
        let arriving = Arriving { envelope: &heading.envelope, sender: *sender, bytes, length };
        let mut bus = FromMemory { interface, bytes: Some(bytes), accesses };
        match arriving.hand_in(interface, nic, &mut bus, filled) {
            Handed::Filled(taken) => Outcome::Filled(taken),
            Handed::Delivered => Outcome::Delivered,
            Handed::NoRoom => Outcome::NoRoom,
        }
    }

    /// A long message without its payload.
    fn long(&mut self, heading: &Heading, request: &Request) -> Outcome {
        let Hands { interface, nic, accesses, sender, .. } = self;
        **accesses += 1;
        let length = request.length as usize;
        let arriving = Arriving { envelope: &heading.envelope, sender: *sender, bytes: std::ptr::null(), length };
        let put = arriving.put();
        if let Some(receive) = nic.receives().take(&mut FromMemory { interface, bytes: None, accesses }, &put) {
            return Outcome::Then(Then::Fill(Filled::by(&put, &heading.envelope, &receive), *request));
        }
        match self.has_receive(heading, request) {
            true => Outcome::Then(Then::FetchFirst(*heading, *request)),
            false => self.header(heading, request),
        }
    }

    /// A long message whose payload was fetched first. Another message may have taken its receive meanwhile. Then its payload stays
    /// here, because it may be longer than a buffer for unexpected messages.
    fn fetched(&mut self, heading: &Heading, request: &Request, bytes: &[u8]) -> Outcome {
        match self.has_receive(heading, request) {
            true => self.whole(heading, bytes.as_ptr(), bytes.len()),
            false => self.header(heading, request),
        }
    }

    /// Whether a long message matches a receive.
    fn has_receive(&mut self, heading: &Heading, request: &Request) -> bool {
        let header = ring_request(&heading.envelope, self.sender, request.length);
        self.nic.receives().has_receive(&mut NoMemory, header.portal, &(&header).into())
    }

    /// The header of a long message that matches no receive. The NIC reads no payload of a message with a token.
    fn header(&mut self, heading: &Heading, request: &Request) -> Outcome {
        let mut header = ring_request(&heading.envelope, self.sender, request.length);
        header.operand[0] = request.token.into();
        match self.interface.deliver_own(&mut self.nic, std::ptr::null(), &header) {
            Some(_) => Outcome::Kept,
            None => Outcome::NoRoom,
        }
    }
}

impl Units {
    /// Keeps a VELO message of a sender until its turn. A sender without a grant means an earlier NIC with this id,
    /// which is closed: this process answers so.
    fn keep_or_refuse(&mut self, id: u64, message: &Message) {
        if !self.granted.contains_key(&id) {
            log::debug!("a message of process {id} is for a NIC that is closed");
            self.control(id, Control::Closed);
        } else if self.keep(id, message).is_err() {
            self.cut_off(id);
        }
    }

    /// Keeps a VELO message of a sender until its turn.
    fn keep(&mut self, id: u64, message: &Message) -> Result<(), Unruly> {
        let granted = self.granted.get_mut(&id).ok_or(Unruly)?;
        self.due.insert(id);
        let (bytes, mtt) = (message.payload(), message.label.mtt());
        let (number, is_short) = wire::of_tag(message.label.tag());
        let room = slots_of(bytes.len());
        if mtt == mtt::SMALL && !granted.inbound.begins() {
            return granted.inbound.go_on(number, bytes, room);
        }
        let waiting = |heading, body| Waiting { number, heading, body, room: mailed(room) };
        match wire::decode(mtt, is_short, bytes).ok_or(Unruly)? {
            Arrival::Tiny(heading, payload) => granted.inbound.arrive(waiting(heading, Body::Bytes(payload.to_vec()))),
            Arrival::First(heading, length, segments, payload) => {
                granted.inbound.begin(waiting(heading, Body::Bytes(payload.to_vec())), length, segments)
            }
            Arrival::Long(heading, request) => granted.inbound.arrive(waiting(heading, Body::Long(request))),
        }
    }

    /// Keeps a sender's question for a report until the messages before it are taken.
    fn keep_question(&mut self, id: u64, number: u8) {
        let Some(granted) = self.granted.get_mut(&id) else { return self.control(id, Control::Closed) };
        let (heading, room) = (Heading::default(), Counts::default());
        if granted.inbound.arrive(Waiting { number, heading, body: Body::Ask, room }).is_err() {
            return self.cut_off(id);
        }
        self.due.insert(id);
    }

    /// A put of a sender has been written to this network logical address.
    fn keep_put(&mut self, id: u64, nla: u64, bytes: usize) -> Result<(), Unruly> {
        let granted = self.granted.get_mut(&id).ok_or(Unruly)?;
        let offset = nla.checked_sub(granted.bounce.nla()).ok_or(Unruly)?;
        let slot = offset / self.slot_bytes as u64;
        let is_slot = offset % self.slot_bytes as u64 == 0 && slot < BOUNCES.into() && bytes <= self.slot_bytes;
        if !is_slot || bytes < wire::BOUNCE_HEADING_BYTES {
            return Err(Unruly);
        }
        let mut begin = [0; wire::BOUNCE_HEADING_BYTES];
        // SAFETY: the slot is within the block, and the unit has written it before the notification. A sender that breaks the rules
        // may write it again meanwhile; then the bytes are wrong, and they are checked.
        unsafe { std::ptr::copy_nonoverlapping(granted.bounce.at(offset as usize), begin.as_mut_ptr(), begin.len()) };
        let (heading, number, length) = wire::decode_bounced(&begin).ok_or(Unruly)?;
        if length != bytes - wire::BOUNCE_HEADING_BYTES {
            return Err(Unruly);
        }
        self.due.insert(id);
        let body = Body::Bounced { slot: slot as u16, length };
        granted.inbound.bounce(Waiting { number, heading, body, room: BOUNCED })
    }

    /// Reports to a sender what was taken, if it is due.
    fn send_report(&mut self, id: u64) {
        let Some(taken) = self.granted.get(&id).and_then(|granted| granted.inbound.due()) else { return };
        if !self.report(id, Report::Taken(taken)) {
            self.due.insert(id);
            return;
        }
        if let Some(granted) = self.granted.get_mut(&id) {
            granted.inbound.reported(taken);
        }
    }

    /// Takes no more messages of a sender that breaks the rules.
    #[cold]
    fn cut_off(&mut self, id: u64) {
        log::warn!("process {id} has sent what is not a message; no more of its messages are taken");
        self.granted.remove(&id);
        self.due.remove(&id);
    }
}
