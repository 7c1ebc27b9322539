// SPDX-License-Identifier: Apache-2.0 OR MIT
//! List entries and match entries: append, unlink, search (Portals 4.3, "List Entries and Lists", "Matching List
//! Entries and Matching Lists").
//!
//! Invariants
//! 1. A list entry is a match entry that ignores all match bits and every source, so both kinds share one path.
//! 2. An entry of C is checked before anything of it enters the NIC. If the append then fails, its I/O vector is freed again.

use selvedge_process::ListBus;
use selvedge_process::nic::handle::NONE;
use selvedge_process::nic::portals::{EntrySpec, options};

use crate::abi::*;
use crate::codes::{Code, Outcome, code};
use crate::state::{Kind, Ni, find, find_ni, input, out, within_addresses};

/// Values of `ptl_list_t` and `ptl_search_op_t`.
const OVERFLOW_LIST: u8 = 1;
const SEARCH_DELETE: u8 = 1;

/// A checked entry of C. Its I/O vector is not in the NIC yet.
pub struct Draft {
    spec: EntrySpec,
    vectors: Option<Vec<(u64, u64)>>,
}

impl Draft {
    /// From a list entry.
    #[inline(always)]
    fn of_le(ni: &Ni, le: *const Le, user_ptr: u64) -> Outcome<Draft> {
        let le = input(le)?;
        if ni.matching || le.options & !options::LE_MASK != 0 {
            return Err(Code::ArgInvalid);
        }
        let spec = EntrySpec {
            options: le.options,
            start: le.start as u64,
            length: le.length,
            iov: NONE,
            iov_count: 0,
            match_bits: 0,
            ignore_bits: u64::MAX,
            source: 0,
            source_ignore: u64::MAX,
            min_free: 0,
            user_ptr,
            counter: ni.counter(le.ct_handle)?,
            uid: le.uid,
        };
        Draft { spec, vectors: None }.with_memory(ni)
    }

    /// From a match entry.
    #[inline(always)]
    pub fn of_me(ni: &Ni, me: *const Me, user_ptr: u64) -> Outcome<Draft> {
        let me = input(me)?;
        if !ni.matching || me.options & !options::ME_MASK != 0 {
            return Err(Code::ArgInvalid);
        }
        let (source, source_ignore) = source_of(ni, me.match_id);
        let spec = EntrySpec {
            options: me.options,
            start: me.start as u64,
            length: me.length,
            iov: NONE,
            iov_count: 0,
            match_bits: me.match_bits,
            ignore_bits: me.ignore_bits,
            source,
            source_ignore,
            min_free: me.min_free,
            user_ptr,
            counter: ni.counter(me.ct_handle)?,
            uid: me.uid,
        };
        Draft { spec, vectors: None }.with_memory(ni)
    }

    /// Reads the I/O vector, and checks that memory under `PTL_ME_IS_ACCESSIBLE` is mapped.
    #[inline(always)]
    fn with_memory(mut self, ni: &Ni) -> Outcome<Draft> {
        if self.spec.options & options::IOVEC != 0 {
            let (vectors, bytes) = read_vectors(ni, self.spec.start, self.spec.length)?;
            self.spec.iov_count = vectors.len() as u32;
            self.spec.start = 0;
            self.spec.length = bytes;
            self.vectors = Some(vectors);
            return Ok(self);
        }
        let null = self.spec.start == 0 && self.spec.length != 0 && self.spec.length != u64::MAX;
        self.spec.length = within_addresses(self.spec.start, self.spec.length);
        let accessible = self.spec.options & options::IS_ACCESSIBLE == 0
            || selvedge_process::memory_is_readable(self.spec.start, self.spec.length);
        if null || !accessible { Err(Code::ArgInvalid) } else { Ok(self) }
    }

    /// Copies the I/O vector into the NIC, just before the entry is made.
    #[inline(always)]
    pub fn into_spec(mut self, ni: &Ni) -> Outcome<EntrySpec> {
        if let Some(vectors) = &self.vectors {
            self.spec.iov = store_vectors(ni, vectors)?;
        }
        Ok(self.spec)
    }
}

/// The source that an entry accepts, and the bits of it that it ignores.
#[inline(always)]
fn source_of(ni: &Ni, id: Process) -> (u64, u64) {
    if ni.logical {
        return if id.nid == RANK_ANY { (0, u64::MAX) } else { (id.nid.into(), 0) };
    }
    let (mut source, mut ignore) = (u64::from(id.nid) << 32 | u64::from(id.pid), 0);
    if id.nid == NID_ANY {
        ignore |= 0xffff_ffff << 32;
    }
    if id.pid == PID_ANY {
        ignore |= 0xffff_ffff;
    }
    source &= !ignore;
    (source, ignore)
}

/// Reads an I/O vector of `count` elements from the program's memory; returns it and the bytes that it covers.
pub fn read_vectors(ni: &Ni, start: u64, count: u64) -> Outcome<(Vec<(u64, u64)>, u64)> {
    if count > ni.limits.max_iovecs.max(0) as u64 {
        return Err(Code::ArgInvalid);
    }
    let bytes = count * size_of::<IoVec>() as u64;
    if count != 0 && (start == 0 || start % 8 != 0 || !selvedge_process::memory_is_readable(start, bytes)) {
        return Err(Code::ArgInvalid);
    }
    let mut vectors = Vec::with_capacity(count as usize);
    let mut total = 0u64;
    for index in 0..count as usize {
        // SAFETY: `start` is aligned and `count` elements from it were just found readable; the clause of the call that got the
        // vector lets it read them.
        let vector = unsafe { (start as *const IoVec).add(index).read() };
        total = total.checked_add(vector.length).ok_or(Code::ArgInvalid)?;
        vectors.push((vector.base as u64, vector.length));
    }
    Ok((vectors, total))
}

/// Copies an I/O vector into the NIC's heap. The heap grows if it is full and can grow.
pub fn store_vectors(ni: &Ni, vectors: &[(u64, u64)]) -> Outcome<u32> {
    loop {
        match ni.interface().lock().heap().store_iov(vectors.iter().copied()) {
            Ok(iov) => return Ok(iov),
            Err(_) if ni.interface().grow_heap(vectors.len() as u32 / 8 + 1) => {}
            Err(full) => return Err(full.into()),
        }
    }
}

#[inline(always)]
fn append(ni: &Ni, kind: Kind, pt_index: u32, draft: Draft, list: u8, handle: &mut u32) -> Outcome {
    let interface = ni.interface();
    if list > OVERFLOW_LIST {
        return Err(Code::ArgInvalid);
    }
    interface.progress();
    let spec = draft.into_spec(ni)?;
    let mut guard = interface.lock();
    match guard.with_revocation(|nic| nic.lists().append(&mut ListBus, pt_index, list, &spec)) {
        Ok(reference) => *handle = ni.handle(kind, reference),
        Err(error) => {
            guard.heap().free_iov(spec.iov);
            return Err(error.into());
        }
    }
    let fired = guard.has_fired();
    drop(guard);
    interface.settle(fired);
    Ok(())
}

fn unlink(handle: u32, kind: Kind) -> Outcome {
    let (ni, reference) = find(handle, kind)?;
    ni.interface().progress();
    Ok(ni.interface().lock().with_revocation(|nic| nic.lists().unlink(reference))?)
}

fn search(ni: &Ni, pt_index: u32, draft: Draft, operation: u8) -> Outcome {
    let interface = ni.interface();
    if operation > SEARCH_DELETE {
        return Err(Code::ArgInvalid);
    }
    interface.progress();
    let mut guard = interface.lock();
    guard.lists().search(&mut ListBus, pt_index, &draft.spec, operation == SEARCH_DELETE)?;
    let fired = guard.has_fired();
    drop(guard);
    interface.settle(fired);
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlLEAppend(
    ni_handle: u32,
    pt_index: u32,
    le: *const Le,
    list: u8,
    user_ptr: u64,
    le_handle: *mut u32,
) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        append(ni, Kind::Le, pt_index, Draft::of_le(ni, le, user_ptr)?, list, out(le_handle)?)
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlLEUnlink(le_handle: u32) -> i32 {
    code(unlink(le_handle, Kind::Le))
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlLESearch(ni_handle: u32, pt_index: u32, le: *const Le, operation: u8, user_ptr: u64) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        search(ni, pt_index, Draft::of_le(ni, le, user_ptr)?, operation)
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlMEAppend(
    ni_handle: u32,
    pt_index: u32,
    me: *const Me,
    list: u8,
    user_ptr: u64,
    me_handle: *mut u32,
) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        append(ni, Kind::Me, pt_index, Draft::of_me(ni, me, user_ptr)?, list, out(me_handle)?)
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlMEUnlink(me_handle: u32) -> i32 {
    code(unlink(me_handle, Kind::Me))
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlMESearch(ni_handle: u32, pt_index: u32, me: *const Me, operation: u8, user_ptr: u64) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        search(ni, pt_index, Draft::of_me(ni, me, user_ptr)?, operation)
    })())
}
