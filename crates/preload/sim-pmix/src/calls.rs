// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `pmix.h` that need a server. Non-blocking ones (`.._nb`) run their callback before they return.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::session::{self, abort, begin, end, is_open, log_debug, within};
use crate::store::Stored;
use crate::sys::{
    ERR_BAD_PARAM, ERR_NOMEM, ERR_NOT_SUPPORTED, Info, InfoCallback, KEY_BYTES, OperationCallback, Proc, RANK_WILDCARD,
    RegistrationCallback, ValueCallback,
};
use crate::sys::{SUCCESS, Status, Value, key_at, slice_at};

/// The key of the context id in the results of [`PMIx_Group_construct`].
const CONTEXT_ID: &[u8] = b"pmix.grp.ctxid";

fn call_back(done: OperationCallback, data: *mut c_void, status: Status) -> Status {
    match done {
        Some(done) => {
            // SAFETY: `pmix.h` gives the callback this type, and `data` is the argument that came with it.
            unsafe { done(status, data) };
            SUCCESS
        }
        None => status,
    }
}

fn not_supported(call: &str) -> Status {
    log_debug(|| format!("{call} is not supported under selvedge sim"));
    ERR_NOT_SUPPORTED
}

// ---- beginning and end ----

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Init(process: *mut Proc, _: *const Info, _: usize) -> Status {
    match begin() {
        Ok(own) => {
            // SAFETY: `pmix.h` requires `process` to be null or to point to a `pmix_proc_t` that the call may fill.
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
    // SAFETY: `pmix.h` requires `message` to be null or a C string.
    let why = unsafe { key_at(message) }.filter(|why| !why.is_empty()).unwrap_or("the program has requested it");
    abort(code, why)
}

// ---- publishing ----

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Put(_: u8, key: *const c_char, value: *mut Value) -> Status {
    // SAFETY: `pmix.h` requires `key` to be null or a C string, and `value` to be null or to point to a `pmix_value_t`.
    let (Some(key), Some(value)) = (unsafe { (key_at(key), value.as_ref()) }) else { return ERR_BAD_PARAM };
    // SAFETY: `pmix.h` requires the value's pointer, if its type has one, to be valid.
    let Some(stored) = (unsafe { Stored::of(value) }) else {
        session::report(&format!("{key}: a value of type {} cannot be published", value.kind));
        return ERR_NOT_SUPPORTED;
    };
    within(|session| session.put(key, stored))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Store_internal(process: *const Proc, key: *const c_char, value: *mut Value) -> Status {
    // SAFETY: `pmix.h` requires each pointer to be null or to point to a `pmix_proc_t`, a C string and a `pmix_value_t`.
    let (process, key, value) = unsafe { (process.as_ref(), key_at(key), value.as_ref()) };
    let (Some(key), Some(value)) = (key, value) else { return ERR_BAD_PARAM };
    // SAFETY: `pmix.h` requires the value's pointer, if its type has one, to be valid.
    let Some(stored) = (unsafe { Stored::of(value) }) else { return ERR_NOT_SUPPORTED };
    within(|session| match session.rank_of(process) {
        Some(rank) => session.store(rank, key, stored),
        None => ERR_BAD_PARAM,
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Commit() -> Status {
    within(|_| SUCCESS)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Fence(procs: *const Proc, count: usize, _: *const Info, _: usize) -> Status {
    log_debug(|| format!("fence of {count}"));
    // SAFETY: `pmix.h` requires `procs` to be null or to point to `count` entries.
    within(|session| session.fence(unsafe { slice_at(procs, count) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Fence_nb(
    procs: *const Proc,
    count: usize,
    info: *const Info,
    infos: usize,
    done: OperationCallback,
    data: *mut c_void,
) -> Status {
    // SAFETY: both functions have the same contract for these arguments in `pmix.h`.
    let status = unsafe { PMIx_Fence(procs, count, info, infos) };
    call_back(done, data, status)
}

/// Looks a value up and copies it into memory from the C library's allocator.
///
/// # Safety
/// `process` is null or points to a `pmix_proc_t`; `key` is null or a C string.
unsafe fn get(process: *const Proc, key: *const c_char) -> Result<*mut Value, Status> {
    // SAFETY: this function requires each pointer to be null or to point to a `pmix_proc_t` and a C string.
    let (process, key) = unsafe { (process.as_ref(), key_at(key)) };
    let key = key.ok_or(ERR_BAD_PARAM)?;
    let mut found = Err(ERR_BAD_PARAM);
    let status = within(|session| {
        found = session.get(process, key);
        SUCCESS
    });
    let rank = process.map_or(RANK_WILDCARD, |process| process.rank);
    log_debug(|| {
        format!("get {key} of {rank}: {}", if status == SUCCESS && found.is_ok() { "found" } else { "not found" })
    });
    if status != SUCCESS {
        return Err(status);
    }
    let value = found?.to_value().ok_or(ERR_NOMEM)?;
    // SAFETY: `malloc` returned memory for one `Value`, suitably aligned, or null, which is checked. It is written whole before it
    // is handed out.
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
        return ERR_BAD_PARAM;
    }
    // SAFETY: `value` is not null, and `pmix.h` requires it to point to a pointer. `process` and `key` are as `get` requires,
    // because `pmix.h` requires it.
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
    got: ValueCallback,
    data: *mut c_void,
) -> Status {
    let Some(got) = got else { return ERR_BAD_PARAM };
    // SAFETY: `process` and `key` are as `get` requires, because `pmix.h` requires it, and `got` is a function of this type.
    // `found` comes from `get` and is freed once, after the callback, which may only read it.
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

/// Frees a value of [`get`].
///
/// # Safety
/// Of [`get`].
unsafe fn free(value: *mut Value) {
    use crate::sys::kind;
    // SAFETY: `get` made `value` with malloc, and `kind` says which member points to a second allocation, if there is one.
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
        // SAFETY: `pmix.h` requires `procs` to be null or to point to `count` entries.
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
    // SAFETY: `calloc` returned zeroed memory for one `Info`, suitably aligned, or null, which is checked. The key fits (asserted).
    // `results` and `results_count` are not null, and `pmix.h` requires them to point to places for the results.
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
    done: RegistrationCallback,
    data: *mut c_void,
) -> Status {
    let mut number = 0;
    let status = within(|session| {
        number = session.next_handler();
        SUCCESS
    });
    match done {
        Some(done) => {
            // SAFETY: `pmix.h` gives the callback this type, and `data` is the argument that came with it.
            unsafe { done(status, number, data) };
            SUCCESS
        }
        None if status == SUCCESS => number as Status,
        None => status,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Deregister_event_handler(_: usize, done: OperationCallback, data: *mut c_void) -> Status {
    call_back(done, data, SUCCESS)
}

#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Notify_event(
    _: Status,
    _: *const Proc,
    _: u8,
    _: *const Info,
    _: usize,
    done: OperationCallback,
    data: *mut c_void,
) -> Status {
    call_back(done, data, SUCCESS)
}

// ---- control of jobs ----

/// Does nothing. Open MPI requests removal of a dead process's files; they go with the job's directory.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Job_control_nb(
    _: *const Proc,
    _: usize,
    _: *const Info,
    _: usize,
    done: InfoCallback,
    data: *mut c_void,
) -> Status {
    if let Some(done) = done {
        // SAFETY: `pmix.h` gives the callback this type. A null array of 0 results and no release function are allowed.
        unsafe { done(SUCCESS, ptr::null_mut(), 0, data, None, ptr::null_mut()) };
    }
    SUCCESS
}

// ---- not supported ----

macro_rules! unsupported {
    ($($name:ident($($argument:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $argument),*) -> Status {
            not_supported(stringify!($name))
        }
    )*};
}
type Any = *const c_void;
unsupported! {
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
