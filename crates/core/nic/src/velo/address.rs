// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requester address of the prototype: the fields of a message in the address of its store (seed 002, section 7.4).
//!
//! The seed's figure of the bits (7-4) is lost. Its text says this: the bits of the page hold the destination's node
//! and VPID and the source's VPID; bits 11 to 6 hold the length and the message type tag; there are 64 nodes and 32
//! VPIDs. The order of the fields is Selvedge's own:
//!
//! | bits  | field                                                   |
//! |-------|---------------------------------------------------------|
//! | 27:22 | destination node                                        |
//! | 21:17 | destination VPID                                        |
//! | 16:12 | source VPID                                             |
//! | 11:10 | message type tag (MTT)                                  |
//! | 9:6   | length of the message in units of 8 bytes, 1..8         |
//! | 5:0   | offset of the store in the message, a multiple of 8     |
//!
//! Invariants
//! 1. The bits of the page hold all fields that need permission. So the home grants it by mapping the page, and the
//!    program cannot forge its source or its destination.
//! 2. `decode` accepts the results of `encode`, and nothing else.

use super::header::{Endpoint, UNIT_BYTES};

/// Bits of an offset in a page.
pub const PAGE_BITS: u32 = 12;
/// Number of nodes in the address space.
pub const NODES: u16 = 1 << 6;
/// Number of VPIDs in the address space.
pub const VPIDS: u16 = 1 << 5;
/// The longest message of an address. A longer one needs a header word from software, as on the later generation.
pub const BYTES_MAX: u32 = 64;
/// Bytes of all pages: 256 MiB.
pub const SPACE_BYTES: u64 = (NODES as u64 * VPIDS as u64 * VPIDS as u64) << PAGE_BITS;

/// The right of a requester page: messages from one VPID of this node to one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub destination: Endpoint,
    pub source_vpid: u16,
}

/// A decoded address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequesterAddress {
    pub page: Page,
    pub mtt: u8,
    /// Bytes of the whole message.
    pub message_bytes: u32,
    /// Offset of the store in the message, in bytes.
    pub offset: u32,
}

/// Reasons for which there is no such address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// The node or a VPID is too large, or the address is behind the last page.
    Page,
    /// The message type tag has more than 2 bits.
    MessageType,
    /// The length is 0, more than 64 bytes, or not a multiple of 8.
    Length,
    /// The offset is not a multiple of 8, or not in the message.
    Offset,
}

impl Page {
    /// The address of the page.
    pub fn address(self) -> Result<u64, AddressError> {
        let Endpoint { node, vpid } = self.destination;
        if node >= NODES || vpid >= VPIDS || self.source_vpid >= VPIDS {
            return Err(AddressError::Page);
        }
        Ok(u64::from(node) << 22 | u64::from(vpid) << 17 | u64::from(self.source_vpid) << 12)
    }
}

impl RequesterAddress {
    /// The address, from the start of the requester's address space.
    pub fn encode(&self) -> Result<u64, AddressError> {
        let page = self.page.address()?;
        if self.mtt > 3 {
            return Err(AddressError::MessageType);
        }
        if self.message_bytes == 0 || self.message_bytes > BYTES_MAX || self.message_bytes % UNIT_BYTES != 0 {
            return Err(AddressError::Length);
        }
        if self.offset % UNIT_BYTES != 0 || self.offset >= self.message_bytes {
            return Err(AddressError::Offset);
        }
        let units = u64::from(self.message_bytes / UNIT_BYTES);
        Ok(page | u64::from(self.mtt) << 10 | units << 6 | u64::from(self.offset))
    }

    /// Decodes an address.
    pub fn decode(address: u64) -> Result<RequesterAddress, AddressError> {
        if address >= SPACE_BYTES {
            return Err(AddressError::Page);
        }
        let vpid = |at: u32| (address >> at) as u16 % VPIDS;
        let destination = Endpoint { node: (address >> 22) as u16, vpid: vpid(17) };
        let decoded = RequesterAddress {
            page: Page { destination, source_vpid: vpid(12) },
            mtt: (address >> 10) as u8 & 3,
            message_bytes: (address >> 6) as u32 % 16 * UNIT_BYTES,
            offset: address as u32 % 64,
        };
        decoded.encode().map(|_| decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_page_decodes_to_what_encodes_to_it_or_is_refused() {
        let pages = [0, 1, 31, 32, 1023, 1024, 4097, 0xfffe, 0xffff];
        for page in pages {
            let decodable = (0..1u64 << PAGE_BITS)
                .map(|low| page << PAGE_BITS | low)
                .filter(|&address| match RequesterAddress::decode(address) {
                    Ok(decoded) => {
                        assert_eq!(decoded.encode(), Ok(address));
                        true
                    }
                    Err(error) => {
                        assert!(matches!(error, AddressError::Length | AddressError::Offset));
                        false
                    }
                })
                .count();
            // Four tags; a message of n units has n offsets.
            assert_eq!(decodable, 4 * 36);
        }
        for address in [SPACE_BYTES, SPACE_BYTES | 64, u64::MAX] {
            assert_eq!(RequesterAddress::decode(address), Err(AddressError::Page));
        }
    }

    #[test]
    fn every_page_is_of_one_source_and_one_destination() {
        let mut next = 0;
        for (node, vpid, source_vpid) in
            (0..NODES).flat_map(|n| (0..VPIDS).flat_map(move |v| (0..VPIDS).map(move |s| (n, v, s))))
        {
            let page = Page { destination: Endpoint { node, vpid }, source_vpid };
            assert_eq!(page.address(), Ok(next << PAGE_BITS));
            assert_eq!(RequesterAddress::decode(next << PAGE_BITS | 8 << 6).map(|address| address.page), Ok(page));
            next += 1;
        }
        assert_eq!(next << PAGE_BITS, SPACE_BYTES);
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let page = Page { destination: Endpoint { node: 63, vpid: 31 }, source_vpid: 31 };
        let good = RequesterAddress { page, mtt: 3, message_bytes: 64, offset: 56 };
        assert!(good.encode().is_ok());
        let far = Page { destination: Endpoint { node: 64, vpid: 0 }, source_vpid: 0 };
        assert_eq!(RequesterAddress { page: far, ..good }.encode(), Err(AddressError::Page));
        assert_eq!(Page { source_vpid: 32, ..page }.address(), Err(AddressError::Page));
        assert_eq!(RequesterAddress { mtt: 4, ..good }.encode(), Err(AddressError::MessageType));
        for message_bytes in [0, 12, 72, u32::MAX] {
            assert_eq!(RequesterAddress { message_bytes, ..good }.encode(), Err(AddressError::Length));
        }
        for offset in [4, 64, u32::MAX] {
            assert_eq!(RequesterAddress { offset, ..good }.encode(), Err(AddressError::Offset));
        }
    }
}
