// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls of an address vector (fi_av(3)). In both kinds of vector an `fi_addr_t` is the number of its entry.

use std::ffi::{c_char, c_int, c_void};

use crate::calls::av_set;
use crate::constants::*;
use crate::ffi::*;
use crate::objects::address::{Address, give};
use crate::objects::address_vector::{AddressVector, Handle, PeerEntry};
use crate::objects::domain::Domain;
use crate::objects::object::{self, Ops};
use crate::{name, warn_line};

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
    av_set: Some(av_set::open),
    ..object::rest()
});

/// fi_av_open.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_av_open: the domain is open; the program gives attributes or null, and room for the pointer.
    unsafe {
        let domain = domain.cast::<Domain>();
        if let Some(attr) = attr.as_mut() {
            if !matches!(attr.type_, FI_AV_UNSPEC | FI_AV_MAP | FI_AV_TABLE) {
                return -EINVAL;
            }
            if !attr.name.is_null() || attr.flags & READ != 0 {
                warn_line!("shared address vectors (fi_av_attr.name) are not offered; leave the name NULL");
                return -ENOSYS;
            }
            if attr.flags & EVENT != 0 {
                warn_line!("address vectors with FI_EVENT are not offered: addresses are inserted at once");
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
        let head = fid_av { fid: object::head(FI_CLASS_AV, context, &FID_OPS.0), ops: (&raw const OPS.0).cast_mut() };
        let made = Handle::make(head, domain, (), AddressVector::default());
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
    if addr.is_null() && count != 0 {
        // A program may pass a `dest_addr` that fi_getinfo has not filled.
        crate::warn_line!("fi_av_insert: no addresses given (null)");
        return -EINVAL;
    }
    // SAFETY: fi_av(3): the vector is open, and the pointers are to the program's `count` addresses and its room for
    // `count` numbers, or null.
    unsafe {
        let addresses = (0..count).map(|index| Ok(addr.cast::<Address>().add(index).read_unaligned()));
        insert_all(av, addresses, fi_addr, flags, context)
    }
}

/// fi_av_insertsvc.
unsafe extern "C" fn insertsvc(
    av: *mut fid_av,
    node: *const c_char,
    service: *const c_char,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_av(3): the vector is open, and the program gives C strings and room for a number, or null.
    unsafe {
        if service.is_null() {
            return -EINVAL;
        }
        insert_all(av, std::iter::once(name::of(node, service, false)), fi_addr, flags, context)
    }
}

/// fi_av_insertsym: consecutive services of one node. Nodes after the first are refused.
unsafe extern "C" fn insertsym(
    av: *mut fid_av,
    node: *const c_char,
    nodes: usize,
    service: *const c_char,
    services: usize,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_av(3): the vector is open, and the program gives C strings and room for the numbers, or null.
    unsafe {
        if node.is_null() || service.is_null() {
            return -EINVAL;
        }
        let first = name::of(node, service, false);
        let names = (0..nodes * services).map(|index| match (&first, u16::try_from(index)) {
            _ if index >= services => Err("fi_av_insertsym inserts one node only".to_owned()),
            (Ok(first), Ok(step)) => Ok(first.following(step)),
            (Ok(_), Err(_)) => Err("there is no such service".to_owned()),
            (Err(why), _) => Err(why.clone()),
        });
        insert_all(av, names, fi_addr, flags, context)
    }
}

/// Inserts the addresses that can be reached. Returns their number.
unsafe fn insert_all(
    av: *mut fid_av,
    addresses: impl Iterator<Item = Result<Address, String>>,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_av(3): the vector is open. There is room for a number for each address, or null, and with FI_SYNC_ERR
    // for an error for each. The transport holds no pointer to a vector, so `both` may be used.
    unsafe {
        if flags & !(MORE | SYNC_ERR) != 0 {
            return -EBADFLAGS;
        }
        let errors = if flags & SYNC_ERR != 0 { context.cast::<c_int>() } else { std::ptr::null_mut() };
        let found: Vec<_> = addresses.map(|address| name::find(address?.check()?)).collect();
        let mut guard = Handle::of(av).lock();
        let (transport, vector) = guard.both();
        let mut inserted = 0;
        for (index, address) in found.into_iter().enumerate() {
            let reached = address.and_then(|address| name::resolve(transport, address));
            let added = reached.and_then(|address| vector.add(transport, address).map_err(|why| why.to_string()));
            let number = match added {
                Ok(number) => {
                    inserted += 1;
                    number
                }
                Err(why) => {
                    warn_line!("address {index} is not inserted: {why}");
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
    // SAFETY: fi_av_remove: the vector is open, with `count` numbers given. The transport has no pointer to it.
    unsafe {
        if flags != 0 {
            return -EBADFLAGS;
        }
        let mut guard = Handle::of(av).lock();
        let (transport, vector) = guard.both();
        for index in 0..count {
            let number = *fi_addr.add(index);
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let Some(entry) = vector.entries.get_mut(at).and_then(Option::take) else { return -EINVAL };
            vector.peer_entries[at] = PeerEntry::MISSING;
            transport.forget_source(entry.source, number);
        }
    }
    0
}

unsafe extern "C" fn lookup(av: *mut fid_av, fi_addr: fi_addr_t, addr: *mut c_void, addrlen: *mut usize) -> c_int {
    // SAFETY: fi_av(3): the vector is open, and the program has room for `*addrlen` bytes; no more is written.
    unsafe {
        let mut guard = Handle::of(av).lock();
        let entries = &guard.state().entries;
        let entry = usize::try_from(fi_addr).ok().and_then(|at| entries.get(at)).copied().flatten();
        let Some(entry) = entry else { return -EINVAL };
        give(&entry.address, addr, addrlen);
    }
    0
}

unsafe extern "C" fn straddr(_: *mut fid_av, addr: *const c_void, buf: *mut c_char, len: *mut usize) -> *const c_char {
    // SAFETY: fi_av(3): the vector is open, and the pointers are to the program's address and its room for `*len`
    // characters; no more is written.
    unsafe {
        let address = addr.cast::<Address>().read_unaligned();
        let text = match address.elsewhere() {
            Some((node, service)) => format!("selvedge://{node}/service/{service}\0"),
            None if address.is_name() => format!("selvedge://service/{}\0", address.endpoint),
            None => format!("selvedge://{}/{}.{}\0", address.link(), address.nic, address.endpoint),
        };
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
    // SAFETY: fi_close: the vector was made by `open`, and no other thread uses it any more. No endpoint is bound to
    // it, and the transport holds no pointer to a vector.
    unsafe {
        let handle = Handle::of(fid);
        if handle.uses.any() {
            return -EBUSY;
        }
        let mut guard = handle.lock();
        let (transport, vector) = guard.both();
        for (number, entry) in vector.entries.iter().enumerate() {
            if let Some(entry) = entry {
                transport.forget_source(entry.source, number as u64);
            }
        }
        drop(guard);
        handle.domain().uses.drop_one();
        drop(Box::from_raw(fid.cast::<Handle>()));
    }
    0
}
