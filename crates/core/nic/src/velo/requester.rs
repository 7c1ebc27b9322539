// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requester: from a store to the header of a packet (seed 002, sections 6.4.4 and 7.4).
//!
//! A message is one write-combining store of its whole length to a requester page. If an interrupt flushes the buffer
//! early, the message arrives as several writes. Each write becomes a packet of its own, whose header names its part of
//! the message. So software at the receiver can reassemble the message ([`super::reassembly`]).
//!
//! Invariants
//! 1. The requester keeps no state between two writes. A header depends on its write alone.
//! 2. The headers of all parts of a message differ in the part only.

use super::address::{AddressError, Page, RequesterAddress};
use super::header::{Extent, Header, UNIT_BYTES};

/// One write to a requester page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    pub page: Page,
    /// Bytes of the whole message.
    pub message_bytes: u32,
    /// Offset of the write in the message, in bytes.
    pub offset: u32,
    /// Bytes that were written.
    pub bytes: u32,
    pub mtt: u8,
    /// The later generation's tag; 0 on the prototype.
    pub tag: u8,
    /// The later generation's request for an interrupt.
    pub interrupt: bool,
}

/// Reasons for which a write makes no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    Address(AddressError),
    /// The message is empty, longer than the NIC's longest, or its length is not a multiple of 8.
    Length,
    /// The write is empty, not aligned to 8 bytes, or not within the message.
    Part,
    /// The message type tag has more than 2 bits.
    MessageType,
}

impl Store {
    /// The write of `bytes` bytes to this address of the prototype.
    pub fn at(address: u64, bytes: u32) -> Result<Store, StoreError> {
        let RequesterAddress { page, mtt, message_bytes, offset } =
            RequesterAddress::decode(address).map_err(StoreError::Address)?;
        Ok(Store { page, message_bytes, offset, bytes, mtt, tag: 0, interrupt: false })
    }

    /// The header of the packet, on a NIC whose longest message has `velo_bytes`.
    pub fn header(&self, velo_bytes: u32) -> Result<Header, StoreError> {
        let is_in_units = self.message_bytes % UNIT_BYTES == 0;
        if !is_in_units || self.message_bytes > velo_bytes || Extent::whole(self.message_bytes).is_none() {
            return Err(StoreError::Length);
        }
        if self.mtt > 3 {
            return Err(StoreError::MessageType);
        }
        let extent = Extent::part(self.message_bytes, self.offset, self.bytes).ok_or(StoreError::Part)?;
        let Store { page, mtt, tag, interrupt, .. } = *self;
        Ok(Header { destination: page.destination, extent, mtt, tag, multicast: false, interrupt })
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::Endpoint;
    use super::*;

    const PAGE: Page = Page { destination: Endpoint { node: 3, vpid: 9 }, source_vpid: 4 };

    fn store(message_bytes: u32, offset: u32, bytes: u32) -> Store {
        Store { page: PAGE, message_bytes, offset, bytes, mtt: 2, tag: 7, interrupt: true }
    }

    #[test]
    fn a_write_of_the_whole_length_is_the_whole_message() {
        for velo_bytes in [64, 120] {
            for length in 0..=136 {
                let header = store(length, 0, length).header(velo_bytes);
                let is_legal = length % 8 == 0 && length != 0 && length <= velo_bytes;
                assert_eq!(header.is_ok(), is_legal, "{length}");
                match header {
                    Ok(header) => assert!(header.extent.is_whole() && header.extent.message_bytes() == length),
                    Err(error) => assert_eq!(error, StoreError::Length),
                }
            }
        }
    }

    #[test]
    fn parts_have_the_whole_length_and_a_different_header() {
        let whole = store(64, 0, 64).header(64).expect("legal").word();
        let first = store(64, 0, 24).header(64).expect("legal").word();
        let second = store(64, 24, 40).header(64).expect("legal").word();
        assert!(whole != first && first != second && second != whole);
        let parts = 0xf << 59 | 0xf << 35;
        assert!(whole & !parts == first & !parts && first & !parts == second & !parts);
    }

    #[test]
    fn writes_that_are_no_part_of_the_message_are_refused() {
        for (offset, bytes) in [(0, 0), (0, 72), (8, 64), (4, 8), (0, 12), (64, 8), (u32::MAX, 8), (8, u32::MAX)] {
            assert_eq!(store(64, offset, bytes).header(64), Err(StoreError::Part), "{offset} {bytes}");
        }
        assert_eq!(Store { mtt: 4, ..store(8, 0, 8) }.header(64), Err(StoreError::MessageType));
    }

    #[test]
    fn an_address_of_the_prototype_gives_all_of_the_header() {
        let address = RequesterAddress { page: PAGE, mtt: 1, message_bytes: 32, offset: 8 };
        let store = Store::at(address.encode().expect("legal"), 24).expect("legal");
        let header = store.header(64).expect("legal");
        assert_eq!((header.destination, header.mtt, store.page), (PAGE.destination, 1, PAGE));
        assert_eq!(Some(header.extent), Extent::part(32, 8, 24));
        assert_eq!(Store::at(u64::MAX, 8), Err(StoreError::Address(AddressError::Page)));
    }
}
