// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses: what `fi_getname` returns, 32 bytes that name a machine, a process on it, and an endpoint of that process.
//! `fi_getinfo` returns a name of the same form, with a machine and a service ([`crate::name`]).

use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use selvedge_transport::Transport;
use selvedge_transport::process::own_uid;
use selvedge_transport::ticket::ENDPOINTS_MAX;

pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"SLVG");

/// Marks a name: `endpoint` is the service, and there is no process.
pub(crate) const MAGIC_NAME: u32 = u32::from_le_bytes(*b"SLVN");

/// The address of an endpoint; or the name of a service, to which an endpoint may be bound.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) magic: u32,
    /// The endpoint's number in its domain.
    pub endpoint: u16,
    /// The NIC's number on the machine: the Portals process id.
    pub nic: u16,
    /// The process, by the word that names it in locks.
    pub owner: u64,
    pub uid: u32,
    pub(crate) reserved: u32,
    /// The machine, and the directory in which its processes find each other.
    pub(crate) place: u64,
}

impl Address {
    pub fn new(nic: u16, endpoint: u16, owner: u64) -> Address {
        Address { magic: MAGIC, endpoint, nic, owner, uid: own_uid(), reserved: 0, place: own_place() }
    }

    /// The address of one of a transport's endpoints.
    pub fn of(transport: &Transport, endpoint: u16) -> Address {
        Address::new(transport.interface.id() as u16, endpoint, transport.interface.word())
    }

    /// The name of a service of this machine; 0: any service.
    pub fn of_service(service: u16) -> Address {
        Address { magic: MAGIC_NAME, ..Address::new(0, service, 0) }
    }

    /// The name of the service so many numbers later.
    pub(crate) fn following(self, step: u16) -> Address {
        Address { endpoint: self.endpoint.wrapping_add(step), ..self }
    }

    pub fn is_name(&self) -> bool {
        self.magic == MAGIC_NAME
    }

    /// The service of a name; `None`: any. `Err`: why the name is no service.
    pub fn service(&self) -> Result<Option<u16>, &'static str> {
        match self.check()?.is_name() {
            true => Ok(Some(self.endpoint).filter(|&service| service != 0)),
            false => Err("it is of another endpoint; names of services come from fi_getinfo"),
        }
    }

    /// Reads an address from the program's memory, which may be too short or null.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes, or null.
    pub unsafe fn read(from: *const c_void, length: usize) -> Option<Address> {
        // SAFETY: `from` has `length` bytes by this function's contract, and an address has as many. It is made of
        // integers, which any bytes are values of.
        (!from.is_null() && length == size_of::<Address>()).then(|| unsafe { from.cast::<Address>().read_unaligned() })
    }

    /// The source number that the endpoint puts into its requests ([`Transport::source`]).
    pub fn source(&self) -> u64 {
        u64::from(self.nic) << 8 | u64::from(self.endpoint)
    }

    /// Checks the bytes of an untrusted address. `Err`: why it cannot be reached from here.
    pub(crate) fn check(self) -> Result<Address, &'static str> {
        match () {
            _ if self.magic != MAGIC && !self.is_name() => Err("these bytes are not an address of this provider"),
            _ if self.magic == MAGIC && usize::from(self.endpoint) >= ENDPOINTS_MAX => {
                Err("these bytes are not an address of this provider")
            }
            _ if self.place != own_place() => {
                Err("the address is of another machine, or of a process with another SELVEDGE_DIR")
            }
            _ if self.uid != own_uid() => Err("the address is of another user's process"),
            _ => Ok(self),
        }
    }
}

/// The machine (its boot), and the directory in which its processes find each other.
pub(crate) fn own_place() -> u64 {
    static PLACE: OnceLock<u64> = OnceLock::new();
    *PLACE.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
        selvedge_job::parent().hash(&mut hasher);
        hasher.finish()
    })
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
