// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that this process takes itself, from a ring or over the units, and delivers to its NIC.

use selvedge_host::Interface;
use selvedge_host::direct::{ring_has_data, ring_request, ring_source};
use selvedge_host::rings::Envelope;
use selvedge_nic::portals::Put;
use selvedge_nic::{Bus, Nic};

use crate::posted::Filled;

/// A message that this process takes itself.
pub(crate) struct Arriving<'a> {
    pub envelope: &'a Envelope,
    /// The id of the sender's NIC.
    pub sender: u64,
    pub bytes: *const u8,
    pub length: usize,
}

/// The outcome of delivering such a message to the own NIC.
pub(crate) enum Handed {
    /// It filled a receive with this number of bytes. The receive still needs its completion.
    Filled(u64),
    /// The NIC has it, in a receive of another kind or in a buffer for unexpected messages. There may be events.
    Delivered,
    /// The NIC has no room now. Nothing has changed.
    NoRoom,
}

impl Arriving<'_> {
    /// Converts the message to a put.
    #[inline(always)]
    pub fn put(&self) -> Put {
        ring_put(self.envelope, self.length, self.sender)
    }

    /// Delivers the message to the own NIC, which the caller has locked. `bus` copies its bytes.
    #[inline(always)]
    pub fn hand_in<B: Bus>(
        &self,
        interface: &Interface,
        nic: &mut Nic<'_>,
        bus: &mut B,
        filled: &mut Vec<Filled>,
    ) -> Handed {
        let put = self.put();
        if let Some(receive) = nic.receives().take(bus, &put) {
            filled.push(Filled::by(&put, self.envelope, &receive));
            return Handed::Filled(put.length.min(receive.length));
        }
        let request = ring_request(self.envelope, self.sender, put.length);
        match interface.deliver_own(nic, self.bytes, &request) {
            Some(_) => Handed::Delivered,
            None => Handed::NoRoom,
        }
    }
}

/// Turns a message of a ring into a put request.
#[inline(always)]
pub(crate) fn ring_put(envelope: &Envelope, length: usize, sender: u64) -> Put {
    Put {
        portal: envelope.portal.into(),
        uid: ring_has_data(envelope).into(),
        initiator: ring_source(envelope, sender),
        match_bits: envelope.match_bits,
        remote_offset: 0,
        header_data: envelope.header_data,
        length: length as u64,
    }
}
