// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `pmix.h` that want a launcher.
//!
//! Calls that do not block in the standard (`.._nb`) have happened when they return, and have called back.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::session::{self, NONSENSE, abort, begin, end, is_open, tell, within};
use crate::store::Stored;
use crate::sys::{Answered, Done, ERR_NOMEM, ERR_NOT_SUPPORTED, Got, Info, KEY_BYTES, Proc, RANK_WILDCARD, Registered};
use crate::sys::{SUCCESS, Status, Value, key_at, slice_at};

/// Of the array of results of [`PMIx_Group_construct`].
const CONTEXT_ID: &[u8] = b"pmix.grp.ctxid";

fn call_back(done: Done, data: *mut c_void, status: Status) -> Status {
    match done {
        Some(done) => {
            // SAFETY: the caller's function with the caller's data.
            unsafe { done(status, data) };
            SUCCESS
        }
        None => status,
    }
}

fn not_offered(call: &str) -> Status {
    tell(|| format!("{call} is not offered by a launcher that speaks PMI-1"));
    ERR_NOT_SUPPORTED
}

// ---- beginning and end ----

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Init(process: *mut Proc, _: *const Info, _: usize) -> Status {
    match begin() {
        Ok(own) => {
            // SAFETY: null, or the caller's structure.
            if let Some(process) = unsafe { process.as_mut() } {
                *process = own;
            }
            SUCCESS
        }
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Initialized() -> c_int {
    c_int::from(is_open())
}

#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Finalize(_: *const Info, _: usize) -> Status {
    end()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Abort(code: c_int, message: *const c_char, _: *const Proc, _: usize) -> Status {
    // SAFETY: null, or a string.
    let why = unsafe { key_at(message) }.filter(|why| !why.is_empty()).unwrap_or("the program has asked for it");
    abort(code, why)
}

// ---- publishing ----

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Put(_: u8, key: *const c_char, value: *mut Value) -> Status {
    // SAFETY: null, or a string and a value.
    let (Some(key), Some(value)) = (unsafe { (key_at(key), value.as_ref()) }) else { return NONSENSE };
    // SAFETY: the caller's value.
    let Some(stored) = (unsafe { Stored::of(value) }) else {
        session::say(&format!("{key}: a value of type {} cannot be published", value.kind));
        return ERR_NOT_SUPPORTED;
    };
    within(|session| session.put(key, stored))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Store_internal(process: *const Proc, key: *const c_char, value: *mut Value) -> Status {
    // SAFETY: null, or a process, a string and a value.
    let (process, key, value) = unsafe { (process.as_ref(), key_at(key), value.as_ref()) };
    let (Some(key), Some(value)) = (key, value) else { return NONSENSE };
    // SAFETY: the caller's value.
    let Some(stored) = (unsafe { Stored::of(value) }) else { return ERR_NOT_SUPPORTED };
    within(|session| match session.rank_of(process) {
        Some(rank) => session.keep(rank, key, stored),
        None => NONSENSE,
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Commit() -> Status {
    within(|_| SUCCESS)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Fence(procs: *const Proc, count: usize, _: *const Info, _: usize) -> Status {
    tell(|| format!("fence of {count}"));
    // SAFETY: the caller's array.
    within(|session| session.fence(unsafe { slice_at(procs, count) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Fence_nb(
    procs: *const Proc,
    count: usize,
    info: *const Info,
    infos: usize,
    done: Done,
    data: *mut c_void,
) -> Status {
    // SAFETY: the caller's.
    let status = unsafe { PMIx_Fence(procs, count, info, infos) };
    call_back(done, data, status)
}

/// The value, in memory of the C library's.
unsafe fn get(process: *const Proc, key: *const c_char) -> Result<*mut Value, Status> {
    // SAFETY: null, or a process and a string.
    let (process, key) = unsafe { (process.as_ref(), key_at(key)) };
    let key = key.ok_or(NONSENSE)?;
    let mut found = Err(NONSENSE);
    let status = within(|session| {
        found = session.get(process, key);
        SUCCESS
    });
    let rank = process.map_or(RANK_WILDCARD, |process| process.rank);
    tell(|| format!("get {key} of {rank}: {}", if status == SUCCESS && found.is_ok() { "found" } else { "not found" }));
    if status != SUCCESS {
        return Err(status);
    }
    let value = found?.to_value().ok_or(ERR_NOMEM)?;
    // SAFETY: memory for one value, written whole before it is handed out.
    unsafe {
        let memory = libc::malloc(size_of::<Value>()).cast::<Value>();
        if memory.is_null() {
            return Err(ERR_NOMEM);
        }
        memory.write(value);
        Ok(memory)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Get(
    process: *const Proc,
    key: *const c_char,
    _: *const Info,
    _: usize,
    value: *mut *mut Value,
) -> Status {
    if value.is_null() {
        return NONSENSE;
    }
    // SAFETY: the caller's; `value` is not null.
    unsafe {
        match get(process, key) {
            Ok(found) => {
                *value = found;
                SUCCESS
            }
            Err(status) => {
                *value = ptr::null_mut();
                status
            }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Get_nb(
    process: *const Proc,
    key: *const c_char,
    _: *const Info,
    _: usize,
    got: Got,
    data: *mut c_void,
) -> Status {
    let Some(got) = got else { return NONSENSE };
    // SAFETY: the caller's; the value, which stays ours, is freed after the caller's function has seen it.
    unsafe {
        match get(process, key) {
            Ok(found) => {
                got(SUCCESS, found, data);
                free(found);
            }
            Err(status) => got(status, ptr::null_mut(), data),
        }
    }
    SUCCESS
}

/// # Safety
/// Of [`get`].
unsafe fn free(value: *mut Value) {
    use crate::sys::kind;
    // SAFETY: what `get` made: one allocation, and one more where the type says so.
    unsafe {
        match (*value).kind {
            kind::STRING => libc::free((*value).data.string.cast()),
            kind::BYTE_OBJECT => libc::free((*value).data.bytes.bytes.cast()),
            kind::PROC => libc::free((*value).data.process.cast()),
            _ => {}
        }
        libc::free(value.cast());
    }
}

// ---- groups ----

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Group_construct(
    _: *const c_char,
    procs: *const Proc,
    count: usize,
    _: *const Info,
    _: usize,
    results: *mut *mut Info,
    results_count: *mut usize,
) -> Status {
    let mut number = 0;
    let status = within(|session| {
        // SAFETY: the caller's array.
        match session.group(unsafe { slice_at(procs, count) }) {
            Ok(found) => {
                number = found;
                SUCCESS
            }
            Err(status) => status,
        }
    });
    if status != SUCCESS || results.is_null() || results_count.is_null() {
        return status;
    }
    let Some(value) = Stored::size(number).to_value() else { return ERR_NOMEM };
    // SAFETY: memory for one structure, zero at first, which the caller frees; places of the caller's, not null.
    unsafe {
        let info = libc::calloc(1, size_of::<Info>()).cast::<Info>();
        if info.is_null() {
            return ERR_NOMEM;
        }
        const { assert!(CONTEXT_ID.len() < KEY_BYTES) };
        ptr::copy_nonoverlapping(CONTEXT_ID.as_ptr(), (&raw mut (*info).key).cast(), CONTEXT_ID.len());
        (&raw mut (*info).value).write(value);
        *results = info;
        *results_count = 1;
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Group_destruct(_: *const c_char, _: *const Info, _: usize) -> Status {
    within(|_| SUCCESS)
}

// ---- events: none come ----

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Register_event_handler(
    _: *mut Status,
    _: usize,
    _: *mut Info,
    _: usize,
    _: *const c_void,
    done: Registered,
    data: *mut c_void,
) -> Status {
    let mut number = 0;
    let status = within(|session| {
        number = session.next_handler();
        SUCCESS
    });
    match done {
        Some(done) => {
            // SAFETY: the caller's function with the caller's data.
            unsafe { done(status, number, data) };
            SUCCESS
        }
        None if status == SUCCESS => number as Status,
        None => status,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Deregister_event_handler(_: usize, done: Done, data: *mut c_void) -> Status {
    call_back(done, data, SUCCESS)
}

#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Notify_event(
    _: Status,
    _: *const Proc,
    _: u8,
    _: *const Info,
    _: usize,
    done: Done,
    data: *mut c_void,
) -> Status {
    call_back(done, data, SUCCESS)
}

// ---- control of jobs ----

/// What Open MPI asks for is that files be removed after the end of a process that has not done so itself.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Job_control_nb(
    _: *const Proc,
    _: usize,
    _: *const Info,
    _: usize,
    done: Answered,
    data: *mut c_void,
) -> Status {
    if let Some(done) = done {
        // SAFETY: the caller's function with the caller's data; there is nothing to be released.
        unsafe { done(SUCCESS, ptr::null_mut(), 0, data, None, ptr::null_mut()) };
    }
    SUCCESS
}

// ---- not offered ----

macro_rules! refused {
    ($($name:ident($($argument:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $argument),*) -> Status {
            not_offered(stringify!($name))
        }
    )*};
}
type Any = *const c_void;
refused! {
    PMIx_Publish(Any, usize);
    PMIx_Publish_nb(Any, usize, Any, Any);
    PMIx_Lookup(Any, usize, Any, usize);
    PMIx_Lookup_nb(Any, Any, usize, Any, Any);
    PMIx_Unpublish(Any, Any, usize);
    PMIx_Unpublish_nb(Any, Any, usize, Any, Any);
    PMIx_Spawn(Any, usize, Any, usize, Any);
    PMIx_Spawn_nb(Any, usize, Any, usize, Any, Any);
    PMIx_Connect(Any, usize, Any, usize);
    PMIx_Connect_nb(Any, usize, Any, usize, Any, Any);
    PMIx_Disconnect(Any, usize, Any, usize);
    PMIx_Disconnect_nb(Any, usize, Any, usize, Any, Any);
    PMIx_Resolve_peers(Any, Any, Any, Any);
    PMIx_Resolve_nodes(Any, Any);
    PMIx_Query_info(Any, usize, Any, Any);
    PMIx_Query_info_nb(Any, usize, Any, Any);
    PMIx_Log(Any, usize, Any, usize);
    PMIx_Log_nb(Any, usize, Any, usize, Any, Any);
}
