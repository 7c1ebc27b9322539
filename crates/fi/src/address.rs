// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses, and address vectors (fi_av(3)).
//!
//! An address is what `fi_getname` gives: 32 bytes that name a machine, a process on it and an endpoint of that process.
//! In both kinds of vector an `fi_addr_t` is the number of its entry.

use std::ffi::{c_char, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use crate::constants::*;
use crate::domain::Domain;
use crate::ffi::*;
use crate::object::{self, Ops, Uses};
use crate::warn_line;

const MAGIC: u32 = u32::from_le_bytes(*b"SLVG");

/// An endpoint, as others name it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    magic: u32,
    /// Which of its domain's endpoints.
    pub endpoint: u16,
    /// Which of the machine's NICs: the Portals process id.
    pub nic: u16,
    /// The process, as its locks name it.
    pub owner: u64,
    pub uid: u32,
    reserved: u32,
    /// The machine, and where its processes meet.
    place: u64,
}

impl Address {
    pub fn new(nic: u16, endpoint: u16, owner: u64) -> Address {
        Address {
            magic: MAGIC,
            endpoint,
            nic,
            owner,
            uid: selvedge_host::process::own_uid(),
            reserved: 0,
            place: own_place(),
        }
    }

    /// What the endpoint calls itself in requests ([`crate::core::Core::source`]).
    pub fn source(&self) -> u64 {
        u64::from(self.nic) << 8 | u64::from(self.endpoint)
    }

    /// From bytes of anybody's. `Err`: why it cannot be reached from here.
    fn check(self) -> Result<Address, &'static str> {
        match () {
            _ if self.magic != MAGIC || usize::from(self.endpoint) >= crate::core::ENDPOINTS_MAX => {
                Err("these bytes are not an address of this provider")
            }
            _ if self.place != own_place() => {
                Err("the address is of another machine, or of a process with another SELVEDGE_DIR")
            }
            _ if self.uid != selvedge_host::process::own_uid() => Err("the address is of another user's process"),
            _ => Ok(self),
        }
    }
}

/// The machine (its boot), and the directory in which its processes meet.
fn own_place() -> u64 {
    static PLACE: OnceLock<u64> = OnceLock::new();
    *PLACE.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
        selvedge_launch::parent().hash(&mut hasher);
        hasher.finish()
    })
}

/// An entry of a vector.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub address: Address,
    /// Among the domain's peers.
    pub peer: u32,
    /// What it calls itself in requests.
    pub source: u64,
}

#[repr(C)]
pub struct AddressVector {
    av: fid_av,
    pub domain: *mut Domain,
    pub entries: Vec<Option<Known>>,
    pub uses: Uses,
}

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, bind, object::no_control));
#[allow(clippy::needless_update)]
static OPS: Ops<fi_ops_av> = Ops(fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert: Some(insert),
    insertsvc: Some(insertsvc),
    insertsym: Some(insertsym),
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(straddr),
    av_set: Some(no_av_set),
    ..object::rest()
});

crate::refuse! {
    no_av_set(*mut fid_av, *mut fi_av_set_attr, *mut *mut fid_av_set, *mut c_void) -> c_int;
    insertsvc(*mut fid_av, *const c_char, *const c_char, *mut fi_addr_t, u64, *mut c_void) -> c_int;
    insertsym(*mut fid_av, *const c_char, usize, *const c_char, usize, *mut fi_addr_t, u64, *mut c_void) -> c_int;
}

/// fi_av_open.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe {
        let domain = domain.cast::<Domain>();
        if let Some(attr) = attr.as_mut() {
            if !matches!(attr.type_, FI_AV_UNSPEC | FI_AV_MAP | FI_AV_TABLE) {
                return -EINVAL;
            }
            if !attr.name.is_null() || attr.flags & READ != 0 {
                warn_line!("address vectors that processes share by name are not offered");
                return -ENOSYS;
            }
            if attr.flags & EVENT != 0 {
                warn_line!("addresses are inserted at once; an address vector with FI_EVENT is not offered");
                return -ENOSYS;
            }
            if attr.flags & !(SYMMETRIC | AV_USER_ID) != 0 {
                return -EBADFLAGS;
            }
            if attr.flags & AV_USER_ID != 0 {
                return -ENOSYS;
            }
            if attr.type_ == FI_AV_UNSPEC {
                attr.type_ = FI_AV_TABLE;
            }
        }
        (*domain).uses.add();
        let made = Box::new(AddressVector {
            av: fid_av { fid: object::head(FI_CLASS_AV, context, &FID_OPS.0), ops: (&raw const OPS.0).cast_mut() },
            domain,
            entries: Vec::new(),
            uses: Uses::default(),
        });
        *av = Box::into_raw(made).cast();
    }
    0
}

unsafe extern "C" fn insert(
    av: *mut fid_av,
    addr: *const c_void,
    count: usize,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's pointers: `count` addresses, and room for as many numbers or null.
    unsafe {
        if flags & !(MORE | SYNC_ERR) != 0 {
            return -EBADFLAGS;
        }
        // With FI_SYNC_ERR the context is room for the error of each address.
        let errors = if flags & SYNC_ERR != 0 { context.cast::<c_int>() } else { std::ptr::null_mut() };
        let av = &mut *av.cast::<AddressVector>();
        let mut core = (*av.domain).core();
        let mut inserted = 0;
        for index in 0..count {
            let bytes = addr.cast::<Address>().add(index).read_unaligned();
            let number = match bytes.check() {
                Ok(address) => {
                    let peer = core.peer(address.nic.into(), address.owner);
                    let known = Known { address, peer, source: address.source() };
                    let free = av.entries.iter().position(Option::is_none).unwrap_or(av.entries.len());
                    if free == av.entries.len() {
                        av.entries.push(None);
                    }
                    av.entries[free] = Some(known);
                    core.name_source(&address, free as u64);
                    inserted += 1;
                    free as u64
                }
                Err(why) => {
                    warn_line!("address {index} of {count} is not inserted: {why}");
                    ADDR_ANY
                }
            };
            if !fi_addr.is_null() {
                *fi_addr.add(index) = number;
            }
            if !errors.is_null() {
                *errors.add(index) = if number == ADDR_ANY { EINVAL } else { 0 };
            }
        }
        inserted
    }
}

unsafe extern "C" fn remove(av: *mut fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe {
        if flags != 0 {
            return -EBADFLAGS;
        }
        let av = &mut *av.cast::<AddressVector>();
        let mut core = (*av.domain).core();
        for index in 0..count {
            let number = *fi_addr.add(index);
            let Some(entry) = usize::try_from(number).ok().and_then(|at| av.entries.get_mut(at)) else {
                return -EINVAL;
            };
            let Some(known) = entry.take() else { return -EINVAL };
            core.forget_source(&known.address, number);
        }
    }
    0
}

unsafe extern "C" fn lookup(av: *mut fid_av, fi_addr: fi_addr_t, addr: *mut c_void, addrlen: *mut usize) -> c_int {
    // SAFETY: the caller's pointers; no more is written than there is room for.
    unsafe {
        let av = &*av.cast::<AddressVector>();
        let known = usize::try_from(fi_addr).ok().and_then(|at| av.entries.get(at)).copied().flatten();
        let Some(known) = known else { return -EINVAL };
        give(&known.address, addr, addrlen);
    }
    0
}

/// Copies as much of an address as there is room for, and says how long it is.
pub unsafe fn give(address: &Address, to: *mut c_void, room: *mut usize) -> bool {
    // SAFETY: the caller's: `to` has room for `*room` bytes.
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

unsafe extern "C" fn straddr(_: *mut fid_av, addr: *const c_void, buf: *mut c_char, len: *mut usize) -> *const c_char {
    // SAFETY: the caller's pointers: an address, and room for `*len` characters.
    unsafe {
        let address = addr.cast::<Address>().read_unaligned();
        let text = format!("selvedge://{}/{}/{}.{}\0", address.uid, address.owner >> 32, address.nic, address.endpoint);
        let room = *len;
        if room != 0 {
            let bytes = text.len().min(room);
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buf, bytes);
            *buf.add(bytes - 1) = 0;
        }
        *len = text.len();
        buf
    }
}

unsafe extern "C" fn bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    -ENOSYS
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: an object of `open`, which its owner gives up.
    unsafe {
        let av = fid.cast::<AddressVector>();
        if (*av).uses.any() {
            return -EBUSY;
        }
        let core = &mut (*(*av).domain).core();
        for (number, known) in (*av).entries.iter().enumerate() {
            if let Some(known) = known {
                core.forget_source(&known.address, number as u64);
            }
        }
        (*(*av).domain).uses.drop_one();
        drop(Box::from_raw(av));
    }
    0
}
