// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses: `fi_getname` returns 32 bytes that name a process and an endpoint of it. They hold everything that a
//! process of any host needs to reach it, and no host's name. `fi_getinfo` returns a name of the same length, with a
//! host and a service ([`crate::name`]).

use std::ffi::c_void;
use std::net::{IpAddr, SocketAddr};

use selvedge_messages::Transport;
use selvedge_messages::ticket::ENDPOINTS_MAX;
use selvedge_process::place::own_place;
use selvedge_process::process::own_uid;
use selvedge_process::{ADDRESS_BYTES as LINK_BYTES, LinkAddress};

/// The last byte is the version.
pub(crate) const MAGIC: u16 = u16::from_le_bytes(*b"S\x02");

/// Marks a name: `endpoint` is the service, and no process is named.
pub(crate) const MAGIC_NAME: u16 = u16::from_le_bytes(*b"N\x02");

/// Marks a name of another host: `link` has the IP address of the host.
const MAGIC_REMOTE: u16 = u16::from_le_bytes(*b"R\x02");

/// The address of an endpoint; or the name of a service, to which an endpoint may be bound.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) magic: u16,
    /// The NIC's number on its host: the Portals process id.
    pub nic: u16,
    /// The endpoint's number in its domain.
    pub endpoint: u16,
    /// For an endpoint: links and token of its process. For a name: host and user, or the IP address of another host.
    link: [u8; LINK_BYTES],
}

const _: () = assert!(size_of::<Address>() == 32);

impl Address {
    /// The address of one of a transport's endpoints.
    pub fn of(transport: &Transport, endpoint: u16) -> Address {
        let (nic, link) = (transport.interface().id() as u16, transport.address().to_bytes());
        Address { magic: MAGIC, nic, endpoint, link }
    }

    /// The name of a service of this host; 0: any service. `is_private`: hidden from other hosts.
    pub fn of_service(service: u16, is_private: bool) -> Address {
        let mut link = [0; LINK_BYTES];
        link[..8].copy_from_slice(&own_place().to_le_bytes());
        link[8..12].copy_from_slice(&own_uid().to_le_bytes());
        link[12] = is_private.into();
        Address { magic: MAGIC_NAME, nic: 0, endpoint: service, link }
    }

    /// The name of a service of another host. 0: no service.
    pub fn of_service_at(node: IpAddr, service: u16) -> Address {
        let link = LinkAddress::new(SocketAddr::new(node, 0), 0).to_bytes();
        Address { magic: MAGIC_REMOTE, nic: 0, endpoint: service, link }
    }

    /// Whether the name of a service of this host is hidden from other hosts.
    pub(crate) fn is_private(&self) -> bool {
        self.link[12] != 0
    }

    /// The host and the service of a name of another host; otherwise `None`.
    pub(crate) fn elsewhere(&self) -> Option<(IpAddr, u16)> {
        (self.magic == MAGIC_REMOTE).then(|| (self.link().socket().ip(), self.endpoint))
    }

    /// The endpoint's address, from the bytes that its process sends to other hosts.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Address> {
        // SAFETY: the slice is readable in all its length.
        unsafe { Address::read(bytes.as_ptr().cast(), bytes.len()) }.filter(|address| address.magic == MAGIC)
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let head = [self.magic, self.nic, self.endpoint].map(u16::to_ne_bytes);
        head.into_iter().flatten().chain(self.link).collect()
    }

    /// The endpoint's address, from the words of [`Address::to_words`].
    pub(crate) fn from_words(words: &str) -> Option<Address> {
        let mut words = words.split_ascii_whitespace();
        let (nic, endpoint, digits) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?);
        let mut link = [0; LINK_BYTES];
        if digits.len() != 2 * LINK_BYTES {
            return None;
        }
        for (byte, two) in link.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()?;
        }
        Some(Address { magic: MAGIC, nic, endpoint, link })
    }

    /// The address as text for a file that only this user's processes read.
    pub(crate) fn to_words(self) -> String {
        let digits: String = self.link.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} {} {digits}", self.nic, self.endpoint)
    }

    /// The address of the process.
    pub fn link(&self) -> LinkAddress {
        LinkAddress::from_bytes(&self.link)
    }

    /// The name of the service `step` numbers later.
    pub(crate) fn following(self, step: u16) -> Address {
        Address { endpoint: self.endpoint.wrapping_add(step), ..self }
    }

    /// Whether this is the name of a service of this host.
    pub fn is_name(&self) -> bool {
        self.magic == MAGIC_NAME
    }

    /// The service of a name. `None`: any. `Err`: the reason why the name is no service.
    pub fn service(&self) -> Result<Option<u16>, &'static str> {
        match self.check()?.is_name() {
            true => Ok(Some(self.endpoint).filter(|&service| service != 0)),
            false => Err("it belongs to another endpoint or host; get the name of a service from fi_getinfo"),
        }
    }

    /// Reads an address from the program's memory, which may be too short or null.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes, or null.
    pub unsafe fn read(from: *const c_void, length: usize) -> Option<Address> {
        // SAFETY: `from` has `length` bytes by this function's contract, the size of an address. An address is made of
        // integers, for which any bytes are valid.
        (!from.is_null() && length == size_of::<Address>()).then(|| unsafe { from.cast::<Address>().read_unaligned() })
    }

    /// Checks an untrusted address. `Err`: the reason why it is invalid, or a name of another host.
    pub(crate) fn check(self) -> Result<Address, &'static str> {
        let place = self.link.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        match () {
            _ if self.magic == MAGIC_REMOTE => Ok(self),
            _ if self.magic != MAGIC && !self.is_name() => Err("these bytes are not an address of this provider"),
            _ if !self.is_name() && usize::from(self.endpoint) >= ENDPOINTS_MAX => {
                Err("these bytes are not an address of this provider")
            }
            _ if self.is_name() && place != own_place() => {
                Err("the name belongs to another host, or to a process with another SELVEDGE_DIR")
            }
            _ if self.is_name() && self.link[8..12] != own_uid().to_le_bytes() => Err("the name is of another user"),
            _ => Ok(self),
        }
    }
}

/// Copies as much of an address as there is room for, and stores its full length.
pub unsafe fn give(address: &Address, to: *mut c_void, room: *mut usize) -> bool {
    // SAFETY: fi_av(3), fi_cm(3): `to` has room for `*room` bytes, or is null; no more is written.
    unsafe {
        let fits = *room >= size_of::<Address>() && !to.is_null();
        if !to.is_null() {
            let bytes = (*room).min(size_of::<Address>());
            std::ptr::copy_nonoverlapping(std::ptr::from_ref(address).cast::<u8>(), to.cast(), bytes);
        }
        *room = size_of::<Address>();
        fits
    }
}
