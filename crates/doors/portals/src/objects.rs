// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory descriptors, counting events, event queues (Portals 4.3, "Memory Descriptors", "Lightweight Counting Events",
//! "Events and Event Queues").
//!
//! Invariants
//! 1. A wait for a counter ends when successes plus failures reach the test.
//! 2. A wait whose counter or queue another thread frees returns `PTL_INTERRUPTED`, as if its interface were closed. A
//!    handle that is invalid at the call's first look returns `PTL_ARG_INVALID`.
//!
//! Costs: reading a counter or an empty queue takes no lock and makes no system call.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};

use selvedge_process::nic::handle::NONE;
use selvedge_process::nic::portals::descriptor::DescriptorView;
use selvedge_process::nic::portals::event_queue::Taken;
use selvedge_process::nic::portals::{self, options};
use selvedge_process::nic::signals::Counter;
use selvedge_process::{Subject, WaitEnd};

use crate::abi::*;
use crate::codes::{Code, Outcome, code};
use crate::lists::{read_vectors, store_vectors};
use crate::state::{Kind, Ni, find, find_ni, input, out, within_addresses};

// ---- Memory descriptors ------------------------------------------------------------------------------------------

#[unsafe(no_mangle)]
pub extern "C" fn PtlMDBind(ni_handle: u32, md: *const Md, md_handle: *mut u32) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        let (md, handle) = (input(md)?, out(md_handle)?);
        if md.options & !(options::MD_MASK) != 0 {
            return Err(Code::ArgInvalid);
        }
        let mut view = DescriptorView {
            start: md.start as u64,
            length: md.length,
            options: md.options,
            queue: ni.queue(md.eq_handle)?,
            counter: ni.counter(md.ct_handle)?,
            iov: NONE,
            iov_count: 0,
        };
        if md.options & options::IOVEC != 0 {
            let (vectors, bytes) = read_vectors(ni, view.start, view.length)?;
            (view.start, view.length, view.iov_count) = (0, bytes, vectors.len() as u32);
            view.iov = store_vectors(ni, &vectors)?;
        } else if view.start == 0 && view.length != 0 && view.length != u64::MAX {
            return Err(Code::ArgInvalid);
        } else {
            view.length = within_addresses(view.start, view.length);
        }
        let mut guard = ni.interface().lock();
        match guard.descriptors().bind(&view) {
            Ok(reference) => *handle = ni.handle(Kind::Md, reference),
            Err(full) => {
                guard.heap().free_iov(view.iov);
                return Err(full.into());
            }
        }
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlMDRelease(md_handle: u32) -> i32 {
    code((|| {
        let (ni, reference) = find(md_handle, Kind::Md)?;
        ni.interface().progress();
        ni.interface().lock().descriptors().release(reference).ok_or(Code::ArgInvalid)
    })())
}

// ---- Counting events ---------------------------------------------------------------------------------------------

#[unsafe(no_mangle)]
pub extern "C" fn PtlCTAlloc(ni_handle: u32, ct_handle: *mut u32) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        let handle = out(ct_handle)?;
        *handle = ni.handle(Kind::Ct, ni.interface().lock().counters().alloc()?);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlCTFree(ct_handle: u32) -> i32 {
    code((|| {
        let (ni, reference) = find(ct_handle, Kind::Ct)?;
        ni.interface().lock().with_revocation(|nic| nic.counters().free(reference))?;
        ni.interface().end_waits(Subject::Counter(reference));
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlCTCancelTriggered(ct_handle: u32) -> i32 {
    code((|| {
        let (ni, reference) = find(ct_handle, Kind::Ct)?;
        ni.interface().lock().triggered().cancel_all(reference).ok_or(Code::ArgInvalid)
    })())
}

#[inline(always)]
fn value_of(counter: &Counter) -> CtEvent {
    CtEvent { success: counter.arrived(), failure: counter.failure.load(Acquire) }
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlCTGet(ct_handle: u32, event: *mut CtEvent) -> i32 {
    code((|| {
        let (ni, reference) = find(ct_handle, Kind::Ct)?;
        let event = out(event)?;
        ni.interface().poll();
        *event = value_of(ni.interface().signals().counter(reference).ok_or(Code::ArgInvalid)?);
        Ok(())
    })())
}

/// The code for a missing object: `PTL_ARG_INVALID` at a call's first look, that of a closed wait later.
struct Looks {
    gone: Code,
}

impl Looks {
    fn new() -> Looks {
        Looks { gone: Code::ArgInvalid }
    }

    #[inline(always)]
    fn next(&mut self) -> Code {
        std::mem::replace(&mut self.gone, WaitEnd::Closed.into())
    }
}

/// The counter's value, if it has reached the test; the error `gone` if the counter was freed. The slot is loaded after
/// the value, so the value is not that of a later counter.
#[inline(always)]
fn reached(counter: &Counter, live: u32, test: u64, gone: Code) -> Option<Outcome<CtEvent>> {
    let value = value_of(counter);
    if counter.slot.load(Acquire) != live {
        return Some(Err(gone));
    }
    (value.success.saturating_add(value.failure) >= test).then_some(Ok(value))
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlCTWait(ct_handle: u32, test: u64, event: *mut CtEvent) -> i32 {
    code((|| {
        let (ni, reference) = find(ct_handle, Kind::Ct)?;
        let event = out(event)?;
        let (counter, live) = ni.interface().signals().counter_record(reference).ok_or(Code::ArgInvalid)?;
        let mut looks = Looks::new();
        let poll = || reached(counter, live, test, looks.next());
        let mut watch = counter.watch();
        let subject = std::iter::once(Subject::Counter(reference));
        *event = ni.interface().wait_for(subject, None, || watch.is_due(), poll)??;
        Ok(())
    })())
}

/// Index of the object at which the next poll of several objects starts: round robin, so that none starves.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// Waits for one of these objects until `poll` returns a value, or for a time in milliseconds.
fn wait_ms<T>(
    ni: &Ni,
    subjects: impl Iterator<Item = Subject> + Clone,
    timeout_ms: u32,
    poll: impl FnMut() -> Option<T>,
) -> Result<T, WaitEnd> {
    let deadline = match timeout_ms {
        0 => return ni.interface().look_once(poll),
        TIME_FOREVER => None,
        _ => Some(Instant::now() + Duration::from_millis(timeout_ms.into())),
    };
    ni.interface().wait_for(subjects, deadline, || true, poll)
}

/// The references of an array of handles, all of one interface.
fn references(handles: *const u32, size: u32, kind: Kind) -> Outcome<(&'static Ni, Vec<u32>)> {
    crate::state::initialised()?;
    if handles.is_null() || size == 0 {
        return Err(Code::ArgInvalid);
    }
    // SAFETY: not null; the clauses of `PtlCTPoll` and `PtlEQPoll` say that the array has `size` handles.
    let handles = unsafe { std::slice::from_raw_parts(handles, size as usize) };
    let (ni, _) = find(handles[0], kind)?;
    let references = handles.iter().map(|&handle| ni.reference(handle, kind, None)).collect::<Outcome<Vec<u32>>>()?;
    Ok((ni, references))
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlCTPoll(
    ct_handles: *const u32,
    tests: *const u64,
    size: u32,
    timeout_ms: u32,
    event: *mut CtEvent,
    which: *mut u32,
) -> i32 {
    code((|| {
        let (ni, references) = references(ct_handles, size, Kind::Ct)?;
        let (event, which) = (out(event)?, out(which)?);
        if tests.is_null() {
            return Err(Code::ArgInvalid);
        }
        // SAFETY: not null; the clause of `PtlCTPoll` says that the array has `size` tests.
        let tests = unsafe { std::slice::from_raw_parts(tests, size as usize) };
        let first = FIRST.fetch_add(1, Relaxed) as usize;
        let count = references.len();
        let signals = ni.interface().signals();
        let mut looks = Looks::new();
        let poll = || {
            let gone = looks.next();
            (0..count).map(|step| (first + step) % count).find_map(|index| {
                match signals.counter_record(references[index]) {
                    Some((counter, live)) => {
                        Some(reached(counter, live, tests[index], gone)?.map(|value| (index, value)))
                    }
                    None => Some(Err(Code::ArgInvalid)),
                }
            })
        };
        let subjects = references.iter().map(|&reference| Subject::Counter(reference));
        let (index, value) = wait_ms(ni, subjects, timeout_ms, poll)??;
        (*event, *which) = (value, index as u32);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlCTSet(ct_handle: u32, new_ct: CtEvent) -> i32 {
    code(change(ct_handle, |guard, reference| guard.counters().set(reference, new_ct.success, new_ct.failure)))
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlCTInc(ct_handle: u32, increment: CtEvent) -> i32 {
    if increment.success != 0 && increment.failure != 0 {
        return code(crate::state::initialised().and(Err(Code::ArgInvalid)));
    }
    code(change(ct_handle, |guard, reference| {
        guard.counters().increment(reference, increment.success, increment.failure)
    }))
}

/// Changes a counter, and runs the triggered operations that reach their threshold.
fn change(ct_handle: u32, how: impl FnOnce(&mut selvedge_process::nic::Nic<'_>, u32)) -> Outcome {
    let (ni, reference) = find(ct_handle, Kind::Ct)?;
    let interface = ni.interface();
    let mut guard = interface.lock();
    guard.signals.counter(reference).ok_or(Code::ArgInvalid)?;
    how(&mut guard, reference);
    let fired = guard.has_fired();
    drop(guard);
    interface.settle(fired);
    Ok(())
}

// ---- Event queues ------------------------------------------------------------------------------------------------

#[unsafe(no_mangle)]
pub extern "C" fn PtlEQAlloc(ni_handle: u32, count: u64, eq_handle: *mut u32) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        let handle = out(eq_handle)?;
        if count == 0 {
            return Err(Code::ArgInvalid);
        }
        let capacity = u32::try_from(count).map_err(|_| Code::NoSpace)?;
        loop {
            let mut guard = ni.interface().lock();
            match guard.queues().alloc(capacity) {
                Ok(reference) => {
                    *handle = ni.handle(Kind::Eq, reference);
                    return Ok(());
                }
                Err(full) if !guard.queues().has_free_record() => return Err(full.into()),
                Err(full) => {
                    drop(guard);
                    if !ni.interface().grow_heap(capacity) {
                        return Err(full.into());
                    }
                }
            }
        }
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlEQFree(eq_handle: u32) -> i32 {
    code((|| {
        let (ni, reference) = find(eq_handle, Kind::Eq)?;
        ni.interface().lock().queues().free(reference).ok_or(Code::ArgInvalid)?;
        ni.interface().end_waits(Subject::Queue(reference));
        Ok(())
    })())
}

#[inline(always)]
fn c_event(ni: &Ni, event: &portals::Event) -> Event {
    Event {
        start: event.start as *mut _,
        user_ptr: event.user_ptr as *mut _,
        hdr_data: event.header_data,
        match_bits: event.match_bits,
        rlength: event.rlength,
        mlength: event.mlength,
        remote_offset: event.remote_offset,
        initiator: ni.process(event.initiator),
        uid: event.uid,
        pt_index: event.portal,
        kind: event.kind,
        ptl_list: event.list,
        ni_fail_type: event.fail,
        atomic_operation: event.operation,
        atomic_type: event.datatype,
    }
}

/// Takes an event off a queue, if there is one. The outcome is `PTL_EQ_DROPPED` if earlier events were lost, and the
/// error `gone` if the queue was freed.
#[inline(always)]
fn take(ni: &Ni, reference: u32, into: &mut Event, gone: Code) -> Option<Outcome> {
    let signals = ni.interface().signals();
    match signals.take_event(reference) {
        Taken::Empty => None,
        Taken::Gone => Some(Err(gone)),
        Taken::Event(event, lost) => {
            *into = c_event(ni, &event);
            if signals.disabled_event_waits(reference) {
                ni.interface().lock().queues().post_waiting_disabled(reference);
            }
            Some(if lost { Err(Code::EqDropped) } else { Ok(()) })
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlEQGet(eq_handle: u32, event: *mut Event) -> i32 {
    code((|| {
        let (ni, reference) = find(eq_handle, Kind::Eq)?;
        let event = out(event)?;
        ni.interface().poll();
        take(ni, reference, event, Code::ArgInvalid).unwrap_or_else(|| {
            ni.interface().found_nothing();
            Err(Code::EqEmpty)
        })
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlEQWait(eq_handle: u32, event: *mut Event) -> i32 {
    code((|| {
        let (ni, reference) = find(eq_handle, Kind::Eq)?;
        let event = out(event)?;
        let mut looks = Looks::new();
        if let Some(taken) = ni.interface().glance(|| take(ni, reference, event, looks.next())) {
            return taken;
        }
        let signals = ni.interface().signals();
        let subject = std::iter::once(Subject::Queue(reference));
        loop {
            let mut poll = || match (signals.has_event(reference), looks.next()) {
                (Some(has), _) => has.then_some(Ok(())),
                (None, gone) => Some(Err(gone)),
            };
            ni.interface().wait_for(subject.clone(), None, || true, &mut poll)??;
            // `None` if another thread has taken the event.
            if let Some(taken) = take(ni, reference, event, looks.next()) {
                return taken;
            }
        }
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlEQPoll(
    eq_handles: *const u32,
    size: u32,
    timeout_ms: u32,
    event: *mut Event,
    which: *mut u32,
) -> i32 {
    code((|| {
        let (ni, references) = references(eq_handles, size, Kind::Eq)?;
        let (event, which) = (out(event)?, out(which)?);
        let first = FIRST.fetch_add(1, Relaxed) as usize;
        let count = references.len();
        let mut looks = Looks::new();
        let poll = || {
            let gone = looks.next();
            (0..count)
                .map(|step| (first + step) % count)
                .find_map(|index| Some((index, take(ni, references[index], event, gone)?)))
        };
        let subjects = references.iter().map(|&reference| Subject::Queue(reference));
        let waited = wait_ms(ni, subjects, timeout_ms, poll).map_err(|end| match Code::from(end) {
            Code::CtNoneReached => Code::EqEmpty,
            other => other,
        });
        let (index, taken) = waited?;
        if matches!(taken, Ok(()) | Err(Code::EqDropped)) {
            *which = index as u32;
        }
        taken
    })())
}
