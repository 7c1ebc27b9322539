// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory (fi_mr(3)): match entries of the NIC under the region's key, for writers, for readers, and for
//! operations that do both. Addresses of remote operations are offsets into the region.

use std::ffi::{c_int, c_void};

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::{EntrySpec, list, options};

use crate::constants::*;
use crate::core::{Core, FOLLOWED, REGION_PORTALS};
use crate::counter::Counter;
use crate::domain::Domain;
use crate::ffi::*;
use crate::object::{self, Object, Ops};
use crate::warn_line;

const ACCESS: u64 = SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE;

/// A registered region as the program holds it.
pub type Handle = Object<fid_mr, (), Region>;

/// The part that the domain's lock guards.
pub struct Region {
    start: u64,
    length: u64,
    access: u64,
    key: u64,
    /// Entries for writers, for readers, and for operations that do both. Each has a second one if it counts.
    entries: [Option<u32>; 6],
    counters: [*mut Counter; 2],
    enabled: bool,
}

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, bind, control));

pub unsafe extern "C" fn reg(
    fid: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_mr(3): the domain is open, the attributes are the program's, and it has room for the pointer. The
    // memory is its own until the region is closed.
    unsafe { register(fid, buf as u64, len as u64, access, offset, requested_key, flags, mr, context) }
}

pub unsafe extern "C" fn regv(
    fid: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    if count != 1 {
        warn_line!("a region of {count} pieces is asked for; mr_iov_limit is 1");
        return -EINVAL;
    }
    // SAFETY: fi_mr(3): the domain is open, the attributes are the program's, and it has room for the pointer. The
    // memory is its own until the region is closed.
    unsafe {
        let piece = &*iov;
        register(fid, piece.iov_base as u64, piece.iov_len as u64, access, offset, requested_key, flags, mr, context)
    }
}

pub unsafe extern "C" fn regattr(fid: *mut fid, attr: *const fi_mr_attr, flags: u64, mr: *mut *mut fid_mr) -> c_int {
    // SAFETY: fi_mr(3): the domain is open, the attributes are the program's, and it has room for the pointer. The
    // memory is its own until the region is closed.
    unsafe {
        let Some(attr) = attr.as_ref() else { return -EINVAL };
        if attr.iface != FI_HMEM_SYSTEM {
            warn_line!("memory of devices cannot be registered");
            return -ENOSYS;
        }
        let (key, context) = (attr.requested_key, attr.context);
        // The first field; newer headers have it in a union with others.
        let pieces = std::ptr::from_ref(attr).cast::<*const iovec>().read();
        regv(fid, pieces, attr.iov_count, attr.access, attr.offset, key, flags, mr, context)
    }
}

unsafe fn register(
    fid: *mut fid,
    start: u64,
    length: u64,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_mr(3): the domain is open, the attributes are the program's, and it has room for the pointer. The
    // memory is its own until the region is closed.
    unsafe {
        if (*fid).fclass != FI_CLASS_DOMAIN as usize || access & !ACCESS != 0 || offset != 0 {
            return -EINVAL;
        }
        if flags & !RMA_EVENT != 0 {
            return -EBADFLAGS;
        }
        let domain = fid.cast::<Domain>();
        let key = {
            // Under one lock, so that no other thread claims the key in between.
            let mut core = (*domain).core();
            let key = if (*domain).provider_keys { core.new_key() } else { requested_key };
            if !core.claim_key(key) {
                return -ENOKEY;
            }
            key
        };
        let head = fid_mr { fid: object::head(FI_CLASS_MR, context, &FID_OPS.0), mem_desc: std::ptr::null_mut(), key };
        let (entries, counters) = ([None; 6], [std::ptr::null_mut(); 2]);
        let region = Region { start, length, access, key, entries, counters, enabled: false };
        let made = Box::into_raw(Handle::make(head, domain, (), region));
        let handle = Handle::of(made);
        let mut held = handle.lock();
        if flags & RMA_EVENT == 0 || !handle.domain().enables_regions {
            let (core, region) = held.both();
            let failed = region.enable(core);
            if failed != 0 {
                core.release_key(key);
                drop(held);
                drop(Box::from_raw(made));
                return failed;
            }
        }
        handle.domain().uses.add();
        held.regions.push(handle.guarded());
        drop(held);
        (*made).head.mem_desc = made.cast();
        *mr = made.cast();
    }
    0
}

impl Region {
    /// Links the region's entries, so that others can access the memory. If entries are linked already, new ones with
    /// the current counters replace them. The old ones are unlinked after the new ones are there.
    fn enable(&mut self, core: &mut Core) -> c_int {
        let rights = [REMOTE_WRITE, REMOTE_READ, REMOTE_WRITE | REMOTE_READ];
        let operations = [options::OP_PUT, options::OP_GET, options::OP_PUT | options::OP_GET];
        let (mut made, mut no_room) = ([None; 6], false);
        for (place, portal) in REGION_PORTALS.into_iter().enumerate() {
            if self.access & rights[place] != rights[place] {
                continue;
            }
            let operations = operations[place];
            // A fetching atomic counts as a read (fi_endpoint(3)).
            let index = place.min(1);
            // SAFETY: a counter refuses to close while something is bound to it.
            let counter = unsafe {
                self.counters[index].as_ref().map_or(core.remote_counters[index], |counter| counter.reference)
            };
            let quiet = options::EVENT_LINK_DISABLE | options::EVENT_COMM_DISABLE | options::EVENT_UNLINK_DISABLE;
            let spec = EntrySpec {
                options: operations | quiet | options::NO_TRUNCATE,
                start: self.start,
                length: self.length,
                iov: NONE,
                iov_count: 0,
                match_bits: self.key,
                ignore_bits: 0,
                source: 0,
                source_ignore: u64::MAX,
                min_free: 0,
                user_ptr: 0,
                counter: NONE,
                uid: u32::MAX,
            };
            // An operation counts once, by its last request.
            let last = EntrySpec { options: spec.options | options::EVENT_CT_COMM, counter, ..spec };
            let specs = match counter {
                NONE => [Some(spec), None],
                _ => [
                    Some(EntrySpec { source_ignore: !FOLLOWED, ..last }),
                    Some(EntrySpec { source: FOLLOWED, source_ignore: !FOLLOWED, ..spec }),
                ],
            };
            for (slot, spec) in made[2 * place..].iter_mut().zip(specs) {
                let Some(spec) = spec else { continue };
                *slot = core.append(portal, list::PRIORITY, &spec);
                no_room |= slot.is_none();
            }
        }
        if no_room {
            warn_line!("no room for another registered region");
            for entry in made {
                core.unlink(entry);
            }
            return -ENOSPC;
        }
        for entry in std::mem::replace(&mut self.entries, made) {
            core.unlink(entry);
        }
        self.enabled = true;
        0
    }
}

/// Called when endpoints have changed their counters for others' accesses. Regions without their own counter then count
/// at the new ones.
pub fn recount(core: &mut Core) -> c_int {
    let mut outcome = 0;
    for region in core.regions.clone() {
        // SAFETY: a region takes itself off the list before it is closed, under the lock that is held here. `enable`
        // makes match entries of the NIC and reaches no region but its own.
        let region = unsafe { &mut *region };
        if region.enabled {
            outcome = outcome.min(region.enable(core));
        }
    }
    outcome
}

unsafe extern "C" fn bind(fid: *mut fid, bound: *mut fid, flags: u64) -> c_int {
    // SAFETY: fi_mr_bind(3): both objects are open, and the class in the head of one says what it is. `enable` reaches
    // no region but its own.
    unsafe {
        match (*bound).fclass as u32 {
            FI_CLASS_EP => 0,
            FI_CLASS_CNTR => {
                if flags == 0 || flags & !(REMOTE_WRITE | REMOTE_READ) != 0 {
                    return -EBADFLAGS;
                }
                let counter = bound.cast::<Counter>();
                let mut held = Handle::of(fid).lock();
                let (core, region) = held.both();
                for (index, right) in [REMOTE_WRITE, REMOTE_READ].into_iter().enumerate() {
                    if flags & right != 0 && region.counters[index].is_null() {
                        region.counters[index] = counter;
                        (*counter).uses.add();
                    }
                }
                if region.enabled { region.enable(core) } else { 0 }
            }
            _ => -EINVAL,
        }
    }
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: fi_control(3): the region is open, and the argument is what the command asks for. `enable` reaches no
    // region but its own.
    unsafe {
        let handle = Handle::of(fid);
        match command as u32 {
            FI_ENABLE => {
                let mut held = handle.lock();
                let (core, region) = held.both();
                if region.enabled { 0 } else { region.enable(core) }
            }
            FI_REFRESH => 0,
            FI_GET_RAW_MR => {
                let raw = &mut *arg.cast::<fi_mr_raw_attr>();
                if raw.key_size.is_null() || raw.raw_key.is_null() {
                    return -EINVAL;
                }
                if *raw.key_size < 8 {
                    *raw.key_size = 8;
                    return -ETOOSMALL;
                }
                *raw.key_size = 8;
                raw.raw_key.cast::<u64>().write_unaligned(handle.head.key);
                if !raw.base_addr.is_null() {
                    *raw.base_addr = 0;
                }
                0
            }
            _ => -ENOSYS,
        }
    }
}

/// fi_mr_map_raw: the raw key is the key itself.
pub unsafe fn map_raw(raw: *mut fi_mr_map_raw) -> c_int {
    // SAFETY: fi_mr_map_raw(3): the structure is the program's, and its pointers are to as many bytes as it says, or
    // null.
    unsafe {
        let raw = &*raw;
        if raw.raw_key.is_null() || raw.key.is_null() || raw.key_size != 8 {
            return -EINVAL;
        }
        *raw.key = raw.raw_key.cast::<u64>().read_unaligned();
    }
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the region was made by `register`, and no other thread uses it any more. `unlink` reaches no
    // region.
    unsafe {
        let handle = Handle::of(fid);
        let mut held = handle.lock();
        let (core, region) = held.both();
        for entry in &mut region.entries {
            core.unlink(entry.take());
        }
        core.release_key(region.key);
        for counter in region.counters.iter().filter(|counter| !counter.is_null()) {
            (**counter).uses.drop_one();
        }
        held.regions.retain(|&other| other != handle.guarded());
        drop(held);
        handle.domain().uses.drop_one();
        drop(Box::from_raw(fid.cast::<Handle>()));
    }
    0
}
