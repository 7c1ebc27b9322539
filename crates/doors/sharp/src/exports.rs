// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `include/sharp/api/sharp_coll.h`.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use selvedge_collectives::CollectiveGroup;
use selvedge_collectives::one_host::{Pending, Shape};

use crate::context::{BYTES, CREDITS, Comm, Context};
use crate::interface::{
    BcastSpec, Caps, CommInitSpec, Config, Error, FEATURES, GatherSpec, InitSpec, ReduceSpec, Resources, SUCCESS,
    SupportMask, text,
};
use crate::operations;
use crate::requests::Request;

/// A structure that C reads. It is never written.
#[repr(transparent)]
pub struct Constant(Config);

// SAFETY: it has a pointer that is null, and does not change.
unsafe impl Sync for Constant {}

/// The default configuration.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static sharp_coll_default_config: Constant = Constant(Config {
    ib_dev_list: ptr::null(),
    user_progress_num_polls: 128,
    coll_timeout: -1,
    flags: 0,
    reserved: [0; 3],
});

/// Runs the body of an exported function. Returns its code, also after a panic.
fn call(body: impl FnOnce() -> Result<(), Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(error)) => error as c_int,
        Err(_) => Error::General as c_int,
    }
}

/// The object behind a pointer of the caller.
///
/// # Safety
/// It is null or valid for `'a`.
unsafe fn given<'a, T>(pointer: *const T) -> Result<&'a T, Error> {
    // SAFETY: by this function's contract.
    unsafe { pointer.as_ref() }.ok_or(Error::Invalid)
}

/// Stores a pointer to a new object in the caller's variable.
///
/// # Safety
/// `to` is null or can be written.
unsafe fn give<T>(to: *mut *mut T, object: impl FnOnce() -> Result<T, Error>) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::Invalid);
    }
    let object = Box::into_raw(Box::new(object()?));
    // SAFETY: by this function's contract.
    unsafe { to.write(object) };
    Ok(())
}

/// Takes an object back from the caller.
///
/// # Safety
/// `object` is null, or came from [`give`] and is not used afterwards.
unsafe fn take_back<T>(object: *mut T) -> Result<Box<T>, Error> {
    match object.is_null() {
        true => Err(Error::Invalid),
        // SAFETY: by this function's contract.
        false => Ok(unsafe { Box::from_raw(object) }),
    }
}

/// # Safety
/// The arguments are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_init(spec: *const InitSpec, context: *mut *mut Context) -> c_int {
    // SAFETY: by this function's contract.
    call(|| unsafe { give(context, || Context::new(given(spec)?)) })
}

/// # Safety
/// A context that is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_finalize(context: *mut Context) -> c_int {
    // SAFETY: by this function's contract.
    call(|| unsafe { take_back(context).map(drop) })
}

/// # Safety
/// The arguments are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_caps_query(context: *mut Context, caps: *mut Caps) -> c_int {
    call(|| {
        // SAFETY: by this function's contract.
        unsafe { given(context)? };
        if caps.is_null() {
            return Err(Error::Invalid);
        }
        let (dtypes, tag_dtypes, reduce_ops) = operations::masks();
        let support_mask = SupportMask { dtypes, tag_dtypes, reduce_ops, feature_mask: FEATURES, reserved: [0; 4] };
        let resources = Resources {
            max_osts: CREDITS as c_int,
            user_data_per_ost: BYTES as c_int,
            max_groups: Shape::MEMBERS_MAX as c_int,
            max_group_channels: 1,
            osts_per_group: CREDITS as c_int,
        };
        // SAFETY: by this function's contract.
        unsafe { caps.write(Caps { sharp_pkt_version: 1, reserved: [0; 2], support_mask, resources }) };
        Ok(())
    })
}

/// Does nothing: tests of requests advance the operations.
#[unsafe(no_mangle)]
pub extern "C" fn sharp_coll_progress(context: *mut Context) -> c_int {
    if context.is_null() { Error::Invalid as c_int } else { SUCCESS }
}

/// # Safety
/// The arguments are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_comm_init(
    context: *mut Context,
    spec: *const CommInitSpec,
    comm: *mut *mut Comm,
) -> c_int {
    // SAFETY: by this function's contract.
    call(|| unsafe { give(comm, || given(context)?.make_comm(given(spec)?)) })
}

/// # Safety
/// A communicator that is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_comm_destroy(comm: *mut Comm) -> c_int {
    // SAFETY: by this function's contract.
    call(|| unsafe { take_back(comm).map(drop) })
}

/// Starts an operation.
///
/// # Safety
/// The communicator is null or valid; the specification is null or valid.
unsafe fn begin<S>(
    comm: *mut Comm,
    spec: *const S,
    what: &'static str,
    operation: unsafe fn(&S, &CollectiveGroup) -> Result<Pending, Error>,
) -> Result<Request, Error> {
    // SAFETY: by this function's contract.
    let (comm, spec) = unsafe { (given(comm)?, given(spec)?) };
    // SAFETY: the caller keeps the buffers until the operation is over.
    let pending = unsafe { operation(spec, &comm.operations())? };
    Ok(Request::begin(comm, pending, what))
}

/// Exports both functions of an operation: the blocking and the non-blocking one.
macro_rules! operation {
    ($($wait:ident, $begin:ident: $spec:ty = $operation:path;)*) => {$(
        /// # Safety
        /// The arguments are null or valid. Buffers stay until the operation is over.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $begin(comm: *mut Comm, spec: *const $spec, handle: *mut *mut Request) -> c_int {
            // SAFETY: by this function's contract.
            call(|| unsafe { give(handle, || begin(comm, spec, stringify!($wait), $operation)) })
        }

        /// # Safety
        /// The arguments are null or valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $wait(comm: *mut Comm, spec: *const $spec) -> c_int {
            // SAFETY: by this function's contract.
            unsafe { complete(|| begin(comm, spec, stringify!($wait), $operation)) }
        }
    )*};
}

operation! {
    sharp_coll_do_allreduce, sharp_coll_do_allreduce_nb: ReduceSpec = operations::allreduce;
    sharp_coll_do_reduce, sharp_coll_do_reduce_nb: ReduceSpec = operations::reduce;
    sharp_coll_do_reduce_scatter, sharp_coll_do_reduce_scatter_nb: ReduceSpec = operations::reduce_scatter;
    sharp_coll_do_allgather, sharp_coll_do_allgather_nb: GatherSpec = operations::allgather;
    sharp_coll_do_bcast, sharp_coll_do_bcast_nb: BcastSpec = operations::bcast;
}

/// Starts an operation and waits for it.
///
/// # Safety
/// The communicator of the request stays valid.
unsafe fn complete(request: impl FnOnce() -> Result<Request, Error>) -> c_int {
    let mut outcome = SUCCESS;
    let code = call(|| {
        let request = request()?;
        // SAFETY: by this function's contract.
        unsafe {
            outcome = request.wait();
            request.end();
        }
        Ok(())
    });
    if code == SUCCESS { outcome } else { code }
}

/// A barrier needs no specification.
///
/// # Safety
/// The communicator is null or valid.
unsafe fn begin_barrier(comm: *mut Comm) -> Result<Request, Error> {
    // SAFETY: by this function's contract.
    let comm = unsafe { given(comm)? };
    Ok(Request::begin(comm, Pending::barrier(), "sharp_coll_do_barrier"))
}

/// # Safety
/// The arguments are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_do_barrier_nb(comm: *mut Comm, handle: *mut *mut Request) -> c_int {
    // SAFETY: by this function's contract.
    call(|| unsafe { give(handle, || begin_barrier(comm)) })
}

/// # Safety
/// The communicator is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_do_barrier(comm: *mut Comm) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { complete(|| begin_barrier(comm)) }
}

/// Returns 1 if the operation is over, also if it has failed; else 0.
///
/// # Safety
/// The request is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_req_test(request: *mut Request) -> c_int {
    let mut is_over = true;
    call(|| {
        // SAFETY: by this function's contract.
        is_over = unsafe { given(request)?.test() }.is_some();
        Ok(())
    });
    is_over.into()
}

/// Waits, and frees the request.
///
/// # Safety
/// The request is null, or valid and not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_req_wait(request: *mut Request) -> c_int {
    let mut outcome = SUCCESS;
    let code = call(|| {
        // SAFETY: by this function's contract.
        unsafe {
            let request = take_back(request)?;
            outcome = request.wait();
            request.end();
        }
        Ok(())
    });
    if code == SUCCESS { outcome } else { code }
}

/// # Safety
/// The request is null, or valid and not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_req_free(request: *mut Request) -> c_int {
    // SAFETY: by this function's contract.
    call(|| unsafe {
        take_back(request)?.end();
        Ok(())
    })
}

/// Registers memory. There is nothing to do; the handle is the address, so that it is not null.
///
/// # Safety
/// The arguments are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_reg_mr(
    context: *mut Context,
    buffer: *mut c_void,
    _size: usize,
    handle: *mut *mut c_void,
) -> c_int {
    if context.is_null() || buffer.is_null() || handle.is_null() {
        return Error::Invalid as c_int;
    }
    // SAFETY: by this function's contract.
    unsafe { handle.write(buffer) };
    SUCCESS
}

/// As [`sharp_coll_reg_mr`]. Device memory, which the parameters would describe, is not supported.
///
/// # Safety
/// The arguments are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_reg_mr_v2(
    context: *mut Context,
    buffer: *mut c_void,
    size: usize,
    parameters: *const u64,
    handle: *mut *mut c_void,
) -> c_int {
    // SAFETY: the parameters begin with the mask of the fields that are set.
    if unsafe { parameters.as_ref() }.is_some_and(|&fields| fields != 0) {
        return Error::NotSupported as c_int;
    }
    // SAFETY: by this function's contract.
    unsafe { sharp_coll_reg_mr(context, buffer, size, handle) }
}

#[unsafe(no_mangle)]
pub extern "C" fn sharp_coll_dereg_mr(context: *mut Context, _handle: *mut c_void) -> c_int {
    if context.is_null() { Error::Invalid as c_int } else { SUCCESS }
}

#[unsafe(no_mangle)]
pub extern "C" fn sharp_coll_strerror(code: c_int) -> *const c_char {
    text(code).as_ptr()
}

/// Prints the library's settings.
///
/// # Safety
/// The stream is valid; the name is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sharp_coll_print_config(
    stream: *mut libc::FILE,
    _flags: c_int,
    _name: *const c_char,
) -> c_int {
    if stream.is_null() {
        return Error::Invalid as c_int;
    }
    let words = c"# SELVEDGE_LOG=off|error|warn|info: messages on standard error\n";
    // SAFETY: the stream is the caller's, and the text a string.
    unsafe { libc::fputs(words.as_ptr(), stream) };
    SUCCESS
}

/// Does nothing: there are no statistics.
#[unsafe(no_mangle)]
pub extern "C" fn sharp_coll_dump_stats(context: *mut Context) -> c_int {
    if context.is_null() { Error::Invalid as c_int } else { SUCCESS }
}
