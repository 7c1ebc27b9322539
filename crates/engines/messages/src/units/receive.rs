// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Delivers a sender's messages to this process's NIC in the order of their numbers, like those of a ring
//! ([`Arriving`]).
//!
//! A long message is delivered without its payload. If it matches a receive, that receive leaves the NIC's list, and
//! the payload is fetched into it. If it matches none, its header waits in the unexpected queue. Only the NIC can fill
//! an entry of another kind (persistent, counted). Then the payload is fetched first, and later messages wait.

use selvedge_host::Interface;
use selvedge_host::direct::ring_request;
use selvedge_host::lock::Guard;
use selvedge_nic::{Bus, NoMemory, Step};

use super::credits::Body;
use super::fetch::{Fetches, Payload};
use super::grants::{Granted, Grants};
use super::wire::{self, Heading, Request};
use crate::arriving::{Arriving, Handed};
use crate::own_nic::OwnNic;
use crate::posted::Filled;

/// The outcome of delivering messages of a sender to the NIC.
pub(crate) struct HandedIn {
    /// At least one message was delivered.
    pub any: bool,
    /// Triggered operations have fired.
    pub fired: bool,
    /// The last message needs its payload.
    pub order: Option<FetchOrder>,
}

/// A fetch that a message needs, outside of the NIC's lock.
pub(crate) enum FetchOrder {
    /// Its payload goes into this receive.
    IntoReceive(Filled, Request),
    /// The payload is fetched first. Then the message is delivered to the NIC.
    BeforeMatching(Heading, Request),
}

/// The bus of a message that has arrived: reads its bytes, if they are here, and writes to this process's receives.
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
        // Peers can write the tables, so an address from a table is checked against the mapped regions.
        if !self.interface.has_writable(address, bytes) {
            return false;
        }
        // SAFETY: the message has at least `bytes` bytes. The range is mapped for writing, as just checked, and the
        // program passed it to a receive.
        unsafe { std::ptr::copy_nonoverlapping(from, address as *mut u8, bytes as usize) };
        true
    }
}

impl Grants {
    /// Delivers messages of a sender to the NIC, under one lock, until one needs more than that. `None`: there is no
    /// message. The `filled` receives need their completions.
    pub fn hand_in(
        &mut self,
        nic: &OwnNic,
        fetches: &mut Fetches,
        filled: &mut Vec<Filled>,
        (id, slot_bytes): (u64, usize),
    ) -> Option<HandedIn> {
        let interface = &nic.interface;
        let Grants { senders, due, .. } = self;
        let Granted { inbound, bounce } = senders.get_mut(&id)?;
        if inbound.is_fetching {
            return None;
        }
        inbound.next_message()?;
        let (mut came, mut fired) = (false, false);
        let (mut matched, mut bytes) = (0, 0);
        let mut order = None;
        let mut accesses = 0;
        {
            let locked = interface.lock_to_hand_in();
            let mut matcher = Matcher { interface, nic: locked, filled, accesses: &mut accesses, sender: id };
            while let (None, Some(next)) = (&order, inbound.next_message()) {
                let heading = &next.heading;
                let handed = match &next.body {
                    // The sender waits until the payload is here.
                    Body::Long(request) if heading.reports => {
                        MatchOutcome::Fetch(FetchOrder::BeforeMatching(*heading, *request))
                    }
                    Body::Long(request) => matcher.long(heading, request),
                    Body::Fetched(request, bytes) => matcher.fetched(heading, request, bytes),
                    Body::Bytes(bytes) => matcher.whole(heading, bytes.as_ptr(), bytes.len()),
                    Body::Bounced { slot, length } => {
                        let start = bounce.at(usize::from(*slot) * slot_bytes + wire::BOUNCE_HEADING_BYTES);
                        matcher.whole(heading, start.cast_const(), *length)
                    }
                    Body::Ask => break,
                };
                let is_kept = matches!(handed, MatchOutcome::Kept);
                match handed {
                    MatchOutcome::Filled(taken) => (matched, bytes) = (matched + 1, bytes + taken),
                    MatchOutcome::Delivered => fired |= matcher.nic.has_fired(),
                    MatchOutcome::Kept => {}
                    MatchOutcome::Fetch(next @ FetchOrder::IntoReceive(..)) => order = Some(next),
                    MatchOutcome::Fetch(next @ FetchOrder::BeforeMatching(..)) => {
                        (order, inbound.is_fetching) = (Some(next), true);
                        break;
                    }
                    MatchOutcome::NoRoom => {
                        due.insert(id);
                        break;
                    }
                }
                match inbound.take() {
                    Some(Body::Long(request)) if order.is_none() => {
                        fetches.keep_payload(id, request.token, Payload::There(request));
                    }
                    Some(Body::Fetched(request, bytes)) if is_kept => {
                        fetches.keep_payload(id, request.token, Payload::Here(bytes));
                    }
                    _ => {}
                }
                came = true;
                if nic.has_arrival_event() {
                    break;
                }
            }
            matcher.nic.signals.registers.count_taken(matched, bytes);
        }
        interface.charge_accesses(accesses);
        interface.charge_copy(bytes);
        Some(HandedIn { any: came, fired, order })
    }
}

/// The outcome of delivering one message to the NIC.
enum MatchOutcome {
    /// It filled a receive with this number of bytes.
    Filled(u64),
    Delivered,
    /// A long message is unexpected: the NIC has its header.
    Kept,
    /// A long message needs its payload fetched.
    Fetch(FetchOrder),
    NoRoom,
}

/// Delivers messages of one sender to the NIC, which is locked.
struct Matcher<'a> {
    interface: &'a Interface,
    nic: Guard<'a>,
    filled: &'a mut Vec<Filled>,
    accesses: &'a mut u64,
    sender: u64,
}

impl Matcher<'_> {
    /// Delivers a message with its payload.
    fn whole(&mut self, heading: &Heading, bytes: *const u8, length: usize) -> MatchOutcome {
        let Matcher { interface, nic, filled, accesses, sender } = self;
        **accesses += 1;
        let arriving = Arriving { envelope: &heading.envelope, sender: *sender, bytes, length };
        let mut bus = FromMemory { interface, bytes: Some(bytes), accesses };
        match arriving.hand_in(interface, nic, &mut bus, filled) {
            Handed::Filled(taken) => MatchOutcome::Filled(taken),
            Handed::Delivered => MatchOutcome::Delivered,
            Handed::NoRoom => MatchOutcome::NoRoom,
        }
    }

    /// Delivers a long message without its payload.
    fn long(&mut self, heading: &Heading, request: &Request) -> MatchOutcome {
        let Matcher { interface, nic, accesses, sender, .. } = self;
        **accesses += 1;
        let length = request.length as usize;
        let arriving = Arriving { envelope: &heading.envelope, sender: *sender, bytes: std::ptr::null(), length };
        let put = arriving.put();
        if let Some(receive) = nic.receives().take(&mut FromMemory { interface, bytes: None, accesses }, &put) {
            return MatchOutcome::Fetch(FetchOrder::IntoReceive(
                Filled::by(&put, &heading.envelope, &receive),
                *request,
            ));
        }
        match self.has_receive(heading, request) {
            true => MatchOutcome::Fetch(FetchOrder::BeforeMatching(*heading, *request)),
            false => self.header(heading, request),
        }
    }

    /// Delivers a long message whose payload was fetched first. Another message may have taken its receive meanwhile.
    /// Then the payload stays here, because it may be longer than a buffer for unexpected messages.
    fn fetched(&mut self, heading: &Heading, request: &Request, bytes: &[u8]) -> MatchOutcome {
        match self.has_receive(heading, request) {
            true => self.whole(heading, bytes.as_ptr(), bytes.len()),
            false => self.header(heading, request),
        }
    }

    fn has_receive(&mut self, heading: &Heading, request: &Request) -> bool {
        let header = ring_request(&heading.envelope, self.sender, request.length);
        self.nic.receives().has_receive(&mut NoMemory, header.portal, &(&header).into())
    }

    /// Adds the header of a long message that matches no receive. The NIC reads no payload of a message with a token.
    fn header(&mut self, heading: &Heading, request: &Request) -> MatchOutcome {
        let mut header = ring_request(&heading.envelope, self.sender, request.length);
        header.operand[0] = request.token.into();
        match self.interface.deliver_own(&mut self.nic, std::ptr::null(), &header) {
            Some(_) => MatchOutcome::Kept,
            None => MatchOutcome::NoRoom,
        }
    }
}
