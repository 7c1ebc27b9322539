// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of the collective network, and a table of them for each version that NCCL looks up.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use selvedge_collectives::one_host::{Buffer, Shape};
use selvedge_job::own_place;

use crate::bootstrap::{Handle, Listening};
use crate::comm::{Comm, Request, Window, elements};
use crate::interface::{
    Begin, End, Error, Finalize, HANDLE_BYTES, NoVirtualDevice, Nothing, PTR_HOST, Part, Parts, Properties,
    Properties6, Properties7, Properties8, Properties9, Properties11, Properties12, SUCCESS, Table,
};
use crate::log::{self, Logger};

type Address = *mut c_void;

/// Runs the body of an exported function. Returns its code, also after a panic.
fn call(what: &str, body: impl FnOnce() -> Result<(), Error>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Error::Internal));
    match outcome {
        Ok(()) => SUCCESS,
        Err(error) => {
            if error == Error::Argument {
                log::warn(&format!("{what}: an argument is invalid"));
            }
            error as c_int
        }
    }
}

/// The object behind a pointer of the caller.
///
/// # Safety
/// It is null, or valid for `'a`.
unsafe fn given<'a, T>(pointer: *const T) -> Result<&'a T, Error> {
    // SAFETY: by this function's contract.
    unsafe { pointer.as_ref() }.ok_or(Error::Argument)
}

/// The caller's variable for a result.
///
/// # Safety
/// It is null, or can be written for `'a`.
unsafe fn place<'a, T>(pointer: *mut T) -> Result<&'a mut T, Error> {
    // SAFETY: by this function's contract.
    unsafe { pointer.as_mut() }.ok_or(Error::Argument)
}

fn give<T>(to: &mut Address, object: T) {
    *to = Box::into_raw(Box::new(object)).cast();
}

/// # Safety
/// `object` is null, or came from [`give`] as a `T` and is not used afterwards.
unsafe fn take_back<T>(object: Address) -> Result<Box<T>, Error> {
    match object.is_null() {
        true => Err(Error::Argument),
        // SAFETY: by this function's contract.
        false => Ok(unsafe { Box::from_raw(object.cast()) }),
    }
}

/// # Safety
/// The logger is null or NCCL's.
unsafe extern "C" fn init(logger: Option<Logger>) -> c_int {
    log::set(logger);
    SUCCESS
}

/// Initialises the network. The context is not used, but must not be null.
///
/// # Safety
/// The arguments are null or valid.
unsafe extern "C" fn init11(context: *mut Address, _comm: u64, logger: Option<Logger>) -> c_int {
    log::set(logger);
    call("init", || {
        // SAFETY: by this function's contract.
        *unsafe { place(context)? } = ptr::dangling_mut::<u64>().cast();
        Ok(())
    })
}

/// # Safety
/// The pointer is null or valid.
unsafe extern "C" fn devices(count: *mut c_int) -> c_int {
    call("devices", || {
        // SAFETY: by this function's contract.
        *unsafe { place(count)? } = 1;
        Ok(())
    })
}

/// # Safety
/// The pointer is null or valid.
unsafe extern "C" fn get_properties<P: Properties>(device: c_int, properties: *mut P) -> c_int {
    call("getProperties", || {
        if device != 0 || properties.is_null() {
            return Err(Error::Argument);
        }
        // SAFETY: by this function's contract.
        unsafe { properties.write(P::of(own_place())) };
        Ok(())
    })
}

/// # Safety
/// The pointers are null or valid; the handle has [`HANDLE_BYTES`].
unsafe extern "C" fn listen(device: c_int, handle: *mut c_void, listening: *mut Address) -> c_int {
    call("listen", || {
        // SAFETY: by this function's contract.
        let (handle, listening) = unsafe { (place(handle.cast::<[u8; HANDLE_BYTES]>())?, place(listening)?) };
        *listening = ptr::null_mut();
        if device != 0 {
            return Err(Error::Argument);
        }
        let made = Listening::new().map_err(|error| {
            log::warn(&format!("listen: {error}"));
            Error::System
        })?;
        *handle = made.handle.to_bytes();
        give(listening, made);
        Ok(())
    })
}

/// # Safety
/// As for [`listen`].
unsafe extern "C" fn listen11(_: Address, device: c_int, handle: *mut c_void, listening: *mut Address) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { listen(device, handle, listening) }
}

/// # Safety
/// The pointers are null or valid, as many handles as there are ranks.
unsafe extern "C" fn connect(
    handles: *mut Address,
    size: c_int,
    rank: c_int,
    listening: Address,
    comm: *mut Address,
) -> c_int {
    call("connect", || {
        // SAFETY: by this function's contract.
        let (comm, listening) = unsafe { (place(comm)?, given(listening.cast::<Listening>())) };
        *comm = ptr::null_mut();
        let (listening, Ok(size), Ok(rank)) = (listening?, usize::try_from(size), usize::try_from(rank)) else {
            return Err(Error::Argument);
        };
        if rank >= size || size > Shape::MEMBERS_MAX as usize || handles.is_null() {
            return Err(Error::Argument);
        }
        // SAFETY: by this function's contract.
        let handles = (0..size).map(|rank| unsafe { given(handles.add(rank).read().cast::<[u8; HANDLE_BYTES]>()) });
        let handles = handles.map(|bytes| Handle::from_bytes(bytes?).ok_or(Error::Argument));
        give(comm, Comm::connect(listening, &handles.collect::<Result<Vec<_>, _>>()?, rank)?);
        Ok(())
    })
}

/// # Safety
/// The pointer is null or valid.
unsafe extern "C" fn reduce_support(datatype: c_int, operation: c_int, supported: *mut c_int) -> c_int {
    call("reduceSupport", || {
        // SAFETY: by this function's contract.
        *unsafe { place(supported)? } = elements(datatype, operation).is_some().into();
        Ok(())
    })
}

/// Registers memory. There is nothing to do; the handle is the address, so that it is not null.
///
/// # Safety
/// The pointers are null or valid.
unsafe extern "C" fn reg_mr(comm: Address, data: Address, _: usize, kind: c_int, handle: *mut Address) -> c_int {
    call("regMr", || {
        // SAFETY: by this function's contract.
        let handle = unsafe { place(handle)? };
        *handle = ptr::null_mut();
        if comm.is_null() || data.is_null() {
            return Err(Error::Argument);
        }
        if kind != PTR_HOST {
            log::warn("regMr: only memory of the host (NCCL_PTR_HOST) can be registered");
            return Err(Error::Usage);
        }
        *handle = data;
        Ok(())
    })
}

/// # Safety
/// As for [`reg_mr`].
unsafe extern "C" fn reg_mr7(comm: Address, data: Address, bytes: c_int, kind: c_int, handle: *mut Address) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { reg_mr(comm, data, bytes.max(0) as usize, kind, handle) }
}

/// # Safety
/// As for [`reg_mr`].
unsafe extern "C" fn reg_mr_dmabuf(
    _: Address,
    _: Address,
    _: usize,
    _: c_int,
    _offset: u64,
    _descriptor: c_int,
    handle: *mut Address,
) -> c_int {
    call("regMrDmaBuf", || {
        // SAFETY: by this function's contract.
        *unsafe { place(handle)? } = ptr::null_mut();
        log::warn("regMrDmaBuf: memory of devices is not supported");
        Err(Error::Usage)
    })
}

unsafe extern "C" fn dereg_mr(comm: Address, _handle: Address) -> c_int {
    call("deregMr", || if comm.is_null() { Err(Error::Argument) } else { Ok(()) })
}

/// Starts an operation.
///
/// # Safety
/// The communicator and the request's variable are null or valid.
unsafe fn begin(
    what: &'static str,
    comm: Address,
    request: *mut Address,
    operation: impl FnOnce(&Comm) -> Result<Request, Error>,
) -> c_int {
    call(what, || {
        // SAFETY: by this function's contract.
        let (request, comm) = unsafe { (place(request)?, given(comm.cast::<Comm>())) };
        *request = ptr::null_mut();
        give(request, operation(comm?)?);
        Ok(())
    })
}

/// # Safety
/// The pointers are null or valid. The request uses the buffers until it is over. The same holds for all operations.
unsafe extern "C" fn iallreduce(
    comm: Address,
    from: Address,
    to: Address,
    count: usize,
    datatype: c_int,
    operation: c_int,
    _: Address,
    _: Address,
    request: *mut Address,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe {
        begin("iallreduce", comm, request, |comm| {
            let elements = elements(datatype, operation).ok_or(Error::Argument)?;
            comm.allreduce(&elements, Buffer { from: from.cast(), to: to.cast() }, count)
        })
    }
}

/// # Safety
/// As for [`iallreduce`].
unsafe extern "C" fn iallreduce8(
    comm: Address,
    from: Address,
    to: Address,
    count: c_int,
    datatype: c_int,
    operation: c_int,
    handle_from: Address,
    handle_to: Address,
    request: *mut Address,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: by this function's contract.
    unsafe { iallreduce(comm, from, to, count, datatype, operation, handle_from, handle_to, request) }
}

/// The only part of a buffer, which must be as long as the window. NCCL passes no more.
///
/// # Safety
/// The pointer is null or valid.
unsafe fn only_part<L: Copy + TryInto<usize>>(
    parts: *const Part<L>,
    count: c_int,
    bytes: usize,
) -> Result<*mut u8, Error> {
    // SAFETY: by this function's contract.
    let part = unsafe { given(parts)? };
    if count != 1 || part.bytes.try_into().ok() != Some(bytes) {
        return Err(Error::Argument);
    }
    Ok(part.address)
}

/// # Safety
/// As for [`iallreduce`].
unsafe extern "C" fn iallgather<L: Copy + TryInto<usize>>(
    comm: Address,
    from: Address,
    count: c_int,
    parts: *const Part<L>,
    each: usize,
    offset: usize,
    bytes: usize,
    _: Address,
    request: *mut Address,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe {
        begin("iallgather", comm, request, |comm| {
            let to = only_part(parts, count, bytes)?;
            comm.allgather(Buffer { from: from.cast(), to }, Window { each, offset, bytes })
        })
    }
}

/// # Safety
/// As for [`iallreduce`].
unsafe extern "C" fn ireducescatter<L: Copy + TryInto<usize>>(
    comm: Address,
    count: c_int,
    parts: *const Part<L>,
    to: Address,
    each: usize,
    offset: usize,
    bytes: usize,
    datatype: c_int,
    operation: c_int,
    _: Address,
    request: *mut Address,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe {
        begin("ireducescatter", comm, request, |comm| {
            let elements = elements(datatype, operation).ok_or(Error::Argument)?;
            let from = only_part(parts, count, bytes)?;
            comm.reduce_scatter(&elements, Buffer { from, to: to.cast() }, Window { each, offset, bytes })
        })
    }
}

/// Flushes received data. There is nothing to do for host memory, so no request is made.
///
/// # Safety
/// The pointers are null or valid.
unsafe extern "C" fn iflush(comm: Address, _: Address, _: c_int, _: Address, request: *mut Address) -> c_int {
    call("iflush", || {
        // SAFETY: by this function's contract.
        *unsafe { place(request)? } = ptr::null_mut();
        if comm.is_null() { Err(Error::Argument) } else { Ok(()) }
    })
}

/// Tests a request, and frees it when it is over or has failed.
///
/// # Safety
/// The pointers are null or valid.
unsafe extern "C" fn test(request: Address, done: *mut c_int, bytes: *mut c_int) -> c_int {
    call("test", || {
        // SAFETY: by this function's contract.
        let (done, found) = unsafe { (place(done)?, given(request.cast::<Request>())?.test()) };
        *done = found.is_some().into();
        let Some(outcome) = found else { return Ok(()) };
        // SAFETY: by this function's contract; it is over.
        drop(unsafe { take_back::<Request>(request)? });
        let moved = outcome?;
        // SAFETY: by this function's contract.
        if let Some(bytes) = unsafe { bytes.as_mut() } {
            *bytes = moved.try_into().unwrap_or(c_int::MAX);
        }
        Ok(())
    })
}

/// # Safety
/// A communicator that is not used afterwards.
unsafe extern "C" fn close_coll(comm: Address) -> c_int {
    // SAFETY: by this function's contract.
    call("closeColl", || unsafe { take_back::<Comm>(comm).map(drop) })
}

/// # Safety
/// An object of [`listen`] that is not used afterwards.
unsafe extern "C" fn close_listen(listening: Address) -> c_int {
    // SAFETY: by this function's contract.
    call("closeListen", || unsafe { take_back::<Listening>(listening).map(drop) })
}

unsafe extern "C" fn finalize(_context: Address) -> c_int {
    SUCCESS
}

/// The functions common to all versions.
macro_rules! begin {
    ($init:ident, $properties:ty, $listen:ident, $reg_mr:ident, $iallreduce:ident) => {
        Begin {
            name: c"Selvedge".as_ptr(),
            init: $init,
            devices,
            get_properties: get_properties::<$properties>,
            listen: $listen,
            connect,
            reduce_support,
            reg_mr: $reg_mr,
            reg_mr_dmabuf,
            dereg_mr,
            iallreduce: $iallreduce,
        }
    };
}

type Init = unsafe extern "C" fn(Option<Logger>) -> c_int;
type Init11 = unsafe extern "C" fn(*mut Address, u64, Option<Logger>) -> c_int;
type Listen = unsafe extern "C" fn(c_int, *mut c_void, *mut Address) -> c_int;
type Listen11 = unsafe extern "C" fn(Address, c_int, *mut c_void, *mut Address) -> c_int;

const END: End = End { iflush, test, close_coll, close_listen };
const PARTS8: Parts<u32> = Parts { iallgather: iallgather::<u32>, ireducescatter: ireducescatter::<u32> };
const PARTS: Parts<usize> = Parts { iallgather: iallgather::<usize>, ireducescatter: ireducescatter::<usize> };

/// Exports a table under the name that NCCL looks up.
macro_rules! table {
    ($name:ident: $begin:ty, $parts:ty, $virtual:ty, $finalize:ty = $functions:expr, $part:expr, $device:expr, $end:expr) => {
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static $name: Table<$begin, $parts, $virtual, $finalize> =
            Table { begin: $functions, parts: $part, end: END, virtual_device: $device, finalize: $end };
    };
}

table!(ncclCollNetPlugin_v6: Begin<Init, Properties6, Listen, c_int, c_int>, Nothing, Nothing, Nothing
    = begin!(init, Properties6, listen, reg_mr7, iallreduce8), Nothing, Nothing, Nothing);
table!(ncclCollNetPlugin_v7: Begin<Init, Properties7, Listen, c_int, c_int>, Nothing, Nothing, Nothing
    = begin!(init, Properties7, listen, reg_mr7, iallreduce8), Nothing, Nothing, Nothing);
table!(ncclCollNetPlugin_v8: Begin<Init, Properties8, Listen, usize, c_int>, Parts<u32>, Nothing, Nothing
    = begin!(init, Properties8, listen, reg_mr, iallreduce8), PARTS8, Nothing, Nothing);
table!(ncclCollNetPlugin_v9: Begin<Init, Properties9, Listen, usize, usize>, Parts<usize>, NoVirtualDevice, Nothing
    = begin!(init, Properties9, listen, reg_mr, iallreduce), PARTS, NoVirtualDevice::new(), Nothing);
table!(ncclCollNetPlugin_v10: Begin<Init, Properties9, Listen, usize, usize>, Parts<usize>, NoVirtualDevice, Nothing
    = begin!(init, Properties9, listen, reg_mr, iallreduce), PARTS, NoVirtualDevice::new(), Nothing);
table!(ncclCollNetPlugin_v11: Begin<Init11, Properties11, Listen11, usize, usize>, Parts<usize>, NoVirtualDevice, Finalize
    = begin!(init11, Properties11, listen11, reg_mr, iallreduce), PARTS, NoVirtualDevice::new(), finalize);
table!(ncclCollNetPlugin_v12: Begin<Init11, Properties12, Listen11, usize, usize>, Parts<usize>, NoVirtualDevice, Finalize
    = begin!(init11, Properties12, listen11, reg_mr, iallreduce), PARTS, NoVirtualDevice::new(), finalize);
