// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host's statement about itself and its links, and its bytes.
//!
//! | bytes | |
//! |---|---|
//! | 1 | flags: 1 has a position, 2 an IPv4 address, 4 an IPv6 address |
//! | 1, n | name: length, UTF-8 without control characters |
//! | 4 or 16 | address |
//! | 2, 2 | position: column, row |
//! | 1 | number of links |
//! | 20 each | own port, host, check of the boot, port of the neighbour, cost, MTU (65,535: that or more) |
//!
//! # Invariants
//!
//! 1. Own ports ascend, so each has at most one link. No link leads to the host itself. No cost is 0.
//! 2. A decoded announcement encodes to the same bytes.
use crate::config::PORTS_MAX;
use crate::id::{HostId, NAME_BYTES_MAX, is_name};
use crate::wire::{ANNOUNCED_BYTES, Edition, FRAME_BYTES_MAX, HEADER_BYTES, Reader};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use selvedge_fabric::Port;

/// The longest body.
pub(crate) const BODY_BYTES_MAX: usize = 1 + 1 + NAME_BYTES_MAX + 16 + 4 + 1 + PORTS_MAX as usize * LINK_BYTES;
const LINK_BYTES: usize = 20;
const _: () = assert!(HEADER_BYTES + ANNOUNCED_BYTES + BODY_BYTES_MAX <= FRAME_BYTES_MAX);

/// Cost of a link that is used only where no other path leads: more than a path through all hosts.
pub const DRAINED: u16 = 0xffff;

/// A host's statement about itself and its links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    pub name: String,
    pub address: Option<IpAddr>,
    pub position: Option<[u16; 2]>,
    /// By own port, ascending.
    pub links: Vec<LinkEnd>,
}

/// A link, as one of its ends announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    pub port: Port,
    pub neighbour: HostId,
    /// [`Boot::check`](crate::id::Boot::check) of the neighbour.
    pub check: u32,
    pub neighbour_port: Port,
    /// 1, or [`DRAINED`].
    pub cost: u16,
    pub mtu: u16,
}

/// An announcement as it travels: encoded, with its edition and the rest of its lifetime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    pub edition: Edition,
    pub lifetime_ms: u32,
    pub body: Box<[u8]>,
}

impl Announcement {
    pub fn encode(&self) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(80 + LINK_BYTES * self.links.len());
        let address = match self.address {
            None => 0,
            Some(IpAddr::V4(_)) => 2,
            Some(IpAddr::V6(_)) => 4,
        };
        bytes.extend([u8::from(self.position.is_some()) | address, self.name.len() as u8]);
        bytes.extend_from_slice(self.name.as_bytes());
        match self.address {
            None => {}
            Some(IpAddr::V4(address)) => bytes.extend(address.octets()),
            Some(IpAddr::V6(address)) => bytes.extend(address.octets()),
        }
        for part in self.position.into_iter().flatten() {
            bytes.extend(part.to_le_bytes());
        }
        bytes.push(self.links.len() as u8);
        for link in &self.links {
            bytes.extend(link.port.0.to_le_bytes());
            bytes.extend(link.neighbour.0.to_le_bytes());
            bytes.extend(link.check.to_le_bytes());
            bytes.extend(link.neighbour_port.0.to_le_bytes());
            bytes.extend(link.cost.to_le_bytes());
            bytes.extend(link.mtu.to_le_bytes());
        }
        bytes.into()
    }

    /// Decodes the body of an announcement of a host. None: it is malformed.
    pub fn decode(host: HostId, bytes: &[u8]) -> Option<Announcement> {
        let mut reader = Reader { rest: bytes };
        let flags = reader.u8()?;
        if flags > 7 || flags & 6 == 6 {
            return None;
        }
        let length = usize::from(reader.u8()?);
        let name = core::str::from_utf8(reader.take(length)?).ok().filter(|name| is_name(name))?;
        let address = match flags & 6 {
            2 => Some(IpAddr::from(<[u8; 4]>::try_from(reader.take(4)?).ok()?)),
            4 => Some(IpAddr::from(<[u8; 16]>::try_from(reader.take(16)?).ok()?)),
            _ => None,
        };
        let position = match flags & 1 {
            1 => Some([reader.u16()?, reader.u16()?]),
            _ => None,
        };
        let count = reader.u8()?;
        if u16::from(count) > PORTS_MAX {
            return None;
        }
        let mut links: Vec<LinkEnd> = Vec::with_capacity(count.into());
        for _ in 0..count {
            let link = LinkEnd {
                port: Port(reader.u16()?),
                neighbour: HostId(reader.u64()?),
                check: reader.u32()?,
                neighbour_port: Port(reader.u16()?),
                cost: reader.u16()?,
                mtu: reader.u16()?,
            };
            let follows = links.last().is_none_or(|last| last.port < link.port);
            let is_valid = link.neighbour != host && link.cost != 0 && link.port.0 < PORTS_MAX;
            if !follows || !is_valid || link.neighbour_port.0 >= PORTS_MAX {
                return None;
            }
            links.push(link);
        }
        let whole = Announcement { name: name.into(), address, position, links };
        reader.rest.is_empty().then_some(whole)
    }
}
