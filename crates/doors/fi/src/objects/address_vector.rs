// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Address vectors. In both kinds of vector an `fi_addr_t` is the number of its entry.

use selvedge_messages::Transport;
use selvedge_messages::ticket::Kind;
use selvedge_messages::transport::NotReached;

use crate::ffi::fid_av;
use crate::objects::address::Address;
use crate::objects::domain_object::Object;

/// An entry of a vector.
#[derive(Clone, Copy, Debug)]
pub struct VectorEntry {
    pub address: Address,
    /// The number of the peer in the domain.
    pub peer: u32,
    /// The source number that the endpoint puts into its requests.
    pub source: u64,
}

/// The part of an entry that messages need, kept small.
#[derive(Clone, Copy, Debug)]
pub struct PeerEntry {
    /// Equal to that of the [`VectorEntry`]. A missing entry has neither.
    pub source: u64,
    pub peer: u32,
    /// The portal table entry of its tagged messages. Those of the other kinds follow.
    pub portal: u8,
}

impl PeerEntry {
    pub(crate) const MISSING: PeerEntry = PeerEntry { source: u64::MAX, peer: u32::MAX, portal: 0 };

    pub(crate) fn of(entry: &VectorEntry) -> PeerEntry {
        let portal = Kind::Tagged.portal(entry.address.endpoint) as u8;
        PeerEntry { source: entry.source, peer: entry.peer, portal }
    }

    #[inline(always)]
    pub fn is_missing(&self) -> bool {
        self.source == u64::MAX
    }
}

/// An address vector as the program holds it.
pub type Handle = Object<fid_av, (), AddressVector>;

/// The part that the domain's lock guards.
#[derive(Default)]
pub struct AddressVector {
    pub entries: Vec<Option<VectorEntry>>,
    /// One for each entry.
    pub peer_entries: Vec<PeerEntry>,
}

impl AddressVector {
    /// Adds an entry. Returns its number. `Err`: the reason why its process cannot be reached.
    pub(crate) fn add(&mut self, transport: &mut Transport, address: Address) -> Result<u64, NotReached> {
        let (id, owner) = transport.find(address.nic, address.link())?;
        let peer = transport.peer(id, owner);
        let entry = VectorEntry { address, peer, source: id << 8 | u64::from(address.endpoint) };
        let free = self.entries.iter().position(Option::is_none).unwrap_or(self.entries.len());
        if free == self.entries.len() {
            self.entries.push(None);
            self.peer_entries.push(PeerEntry::MISSING);
        }
        self.peer_entries[free] = PeerEntry::of(&entry);
        self.entries[free] = Some(entry);
        transport.name_source(entry.source, free as u64);
        Ok(free as u64)
    }
}
