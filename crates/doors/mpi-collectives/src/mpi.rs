// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The MPI of the process: its kind, its functions under the names of the profiling interface (MPI 4.1, 15.2), and its
//! constants.
//!
//! A handle is passed as a register holds it. MPICH's handles have 32 bits, and the upper half of the register is
//! undefined: [`Mpi::handle`] clears it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use selvedge_os::library::{self, address, loaded, symbol};

/// A handle of a communicator, type or operation.
pub type Handle = usize;

pub const SUCCESS: c_int = 0;

/// The place of a handle in a table whose length is a power of two. The upper bits of a product with the golden ratio
/// depend on all bits of the handle.
#[inline]
pub fn spread(handle: Handle, places: usize) -> usize {
    (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (64 - places.ilog2())
}

/// The binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Open MPI 4 and 5: handles are addresses of objects.
    OpenMpi,
    /// MPICH 3.1 and later, and MPIs with its interface: handles are integers.
    Mpich,
}

const FILES: [(&CStr, Kind); 3] =
    [(c"libmpi.so.40", Kind::OpenMpi), (c"libmpi.so.12", Kind::Mpich), (c"libmpich.so.12", Kind::Mpich)];

type CopyAttribute = unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
type DeleteAttribute = unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void) -> c_int;

/// The functions that MPI calls for a generalized request (MPI 4.1, 13.2): when it reports the completion, when the
/// program has no handle any more, and to cancel.
pub type Query = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
pub type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
pub type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// Registers a function that the MPI calls whenever it makes progress: in every call that waits, not only for requests.
#[derive(Clone, Copy)]
enum Hook {
    /// Stays registered.
    OpenMpi(unsafe extern "C" fn(unsafe extern "C" fn() -> c_int) -> c_int),
    /// Stays registered until the function returns [`MPICH_DONE`].
    Mpich(unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void, c_int) -> c_int),
}

/// MPICH's null stream; below, the return values of a registered function.
const MPICH_STREAM_NULL: c_int = 0x3c00_0000;
pub const MPICH_GOES_ON: c_int = 0;
pub const MPICH_DONE: c_int = 1;

/// The functions that this library calls.
pub struct Mpi {
    pub kind: Kind,
    library: usize,
    comm_rank: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    comm_size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    comm_test_inter: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    comm_create_keyval: unsafe extern "C" fn(CopyAttribute, DeleteAttribute, *mut c_int, *mut c_void) -> c_int,
    comm_set_attr: unsafe extern "C" fn(Handle, c_int, *mut c_void) -> c_int,
    comm_call_errhandler: unsafe extern "C" fn(Handle, c_int) -> c_int,
    allgather: unsafe extern "C" fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle) -> c_int,
    get_library_version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
    query_thread: unsafe extern "C" fn(*mut c_int) -> c_int,
    iprobe: unsafe extern "C" fn(c_int, c_int, Handle, *mut c_int, *mut c_void) -> c_int,
    type_size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    type_get_extent: unsafe extern "C" fn(Handle, *mut isize, *mut isize) -> c_int,
    pack: unsafe extern "C" fn(*const c_void, c_int, Handle, *mut c_void, c_int, *mut c_int, Handle) -> c_int,
    unpack: unsafe extern "C" fn(*const c_void, c_int, *mut c_int, *mut c_void, c_int, Handle, Handle) -> c_int,
    grequest_start: unsafe extern "C" fn(Query, Free, Cancel, *mut c_void, *mut c_void) -> c_int,
    grequest_complete: unsafe extern "C" fn(Handle) -> c_int,
    type_dup: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    type_free: unsafe extern "C" fn(*mut Handle) -> c_int,
    hook: Option<Hook>,
    byte: Handle,
    comm_world: Handle,
    comm_null: Handle,
    datatype_null: Handle,
}

/// The MPI that the process has loaded. The calling program has loaded it, so the first result never changes.
#[inline]
pub fn library() -> Option<&'static Mpi> {
    static LIBRARY: OnceLock<Option<Mpi>> = OnceLock::new();
    LIBRARY.get_or_init(find).as_ref()
}

fn find() -> Option<Mpi> {
    let (handle, kind) = FILES.into_iter().find_map(|(file, kind)| Some((loaded(file)?, kind)))?;
    let [byte, comm_world, comm_null, datatype_null] = match kind {
        Kind::OpenMpi => [
            object(handle, c"ompi_mpi_byte")?,
            object(handle, c"ompi_mpi_comm_world")?,
            object(handle, c"ompi_mpi_comm_null")?,
            object(handle, c"ompi_mpi_datatype_null")?,
        ],
        Kind::Mpich => [0x4c00010d, 0x44000000, 0x04000000, 0x0c000000],
    };
    // SAFETY: the library stays loaded, and the functions of these names have the types of the fields in either interface: an integer handle
    // and an address are both passed in a register.
    unsafe {
        Some(Mpi {
            kind,
            library: handle as usize,
            comm_rank: symbol(handle, c"PMPI_Comm_rank")?,
            comm_size: symbol(handle, c"PMPI_Comm_size")?,
            comm_test_inter: symbol(handle, c"PMPI_Comm_test_inter")?,
            comm_create_keyval: symbol(handle, c"PMPI_Comm_create_keyval")?,
            comm_set_attr: symbol(handle, c"PMPI_Comm_set_attr")?,
            comm_call_errhandler: symbol(handle, c"PMPI_Comm_call_errhandler")?,
            allgather: symbol(handle, c"PMPI_Allgather")?,
            get_library_version: symbol(handle, c"PMPI_Get_library_version")?,
            query_thread: symbol(handle, c"PMPI_Query_thread")?,
            iprobe: symbol(handle, c"PMPI_Iprobe")?,
            type_size: symbol(handle, c"PMPI_Type_size")?,
            type_get_extent: symbol(handle, c"PMPI_Type_get_extent")?,
            pack: symbol(handle, c"PMPI_Pack")?,
            unpack: symbol(handle, c"PMPI_Unpack")?,
            grequest_start: symbol(handle, c"PMPI_Grequest_start")?,
            grequest_complete: symbol(handle, c"PMPI_Grequest_complete")?,
            type_dup: symbol(handle, c"PMPI_Type_dup")?,
            type_free: symbol(handle, c"PMPI_Type_free")?,
            hook: match kind {
                Kind::OpenMpi => symbol(handle, c"opal_progress_register").map(Hook::OpenMpi),
                Kind::Mpich => symbol(handle, c"PMPIX_Async_start").map(Hook::Mpich),
            },
            byte,
            comm_world,
            comm_null,
            datatype_null,
        })
    }
}

/// The address of an object of the MPI for the program, which may have a copy in its own memory.
fn object(library: *mut c_void, name: &CStr) -> Option<Handle> {
    // SAFETY: callers have the handle from the loader.
    let found = unsafe { address(libc::RTLD_DEFAULT, name).or_else(|| address(library, name)) };
    found.map(|address| address as Handle)
}

/// The function of this name that the process would have without this library.
pub fn next(name: &CStr) -> Option<*mut c_void> {
    let files = FILES.into_iter().map(|(file, _)| file);
    library::next(name, files.chain([c"libmpi_abi.so.0", c"libmpi_abi.so.1"]))
}

fn checked(code: c_int) -> Result<(), c_int> {
    if code == SUCCESS { Ok(()) } else { Err(code) }
}

impl Mpi {
    /// A handle, without undefined bits of its register.
    #[inline(always)]
    pub fn handle(&self, register: usize) -> Handle {
        match self.kind {
            Kind::OpenMpi => register,
            Kind::Mpich => register as u32 as usize,
        }
    }

    /// Whether it is `MPI_COMM_NULL` or 0. The MPI reports that.
    #[inline(always)]
    pub fn is_no_comm(&self, comm: Handle) -> bool {
        comm == self.comm_null || comm == 0
    }

    /// Whether it is `MPI_DATATYPE_NULL` or 0.
    pub fn is_no_type(&self, datatype: Handle) -> bool {
        datatype == self.datatype_null || datatype == 0
    }

    /// An object of the library with this name.
    pub fn object(&self, name: &CStr) -> Option<Handle> {
        object(self.library as *mut c_void, name)
    }

    /// `MPI_IN_PLACE`.
    #[inline(always)]
    pub fn in_place(&self) -> *const u8 {
        match self.kind {
            Kind::OpenMpi => ptr::without_provenance(1),
            Kind::Mpich => ptr::without_provenance(usize::MAX),
        }
    }

    pub fn err_other(&self) -> c_int {
        match self.kind {
            Kind::OpenMpi => 16,
            Kind::Mpich => 15,
        }
    }

    /// This process's number in a communicator, and the number of processes. `None`: it is an intercommunicator. The
    /// program's error handler may return after an error, so the results are checked, too.
    pub fn place(&self, comm: Handle) -> Result<Option<(usize, usize)>, c_int> {
        let (mut is_inter, mut rank, mut size) = (0, 0, 0);
        // SAFETY: the places for the results live across the calls; MPI checks the handle.
        unsafe {
            checked((self.comm_test_inter)(comm, &mut is_inter))?;
            checked((self.comm_rank)(comm, &mut rank))?;
            checked((self.comm_size)(comm, &mut size))?;
        }
        let place = usize::try_from(rank).and_then(|rank| Ok((rank, usize::try_from(size)?)));
        let place = place.ok().filter(|(rank, size)| rank < size).ok_or(self.err_other())?;
        Ok((is_inter == 0).then_some(place))
    }

    /// The MPI's name and version. May be called before `MPI_Init`.
    pub fn version(&self) -> String {
        // Either MPI's limit is at most 8 KiB.
        let (mut text, mut length) = (vec![0u8; 16 << 10], 0);
        // SAFETY: there is room for the text, and for its length.
        let outcome = checked(unsafe { (self.get_library_version)(text.as_mut_ptr().cast(), &mut length) });
        text.truncate(if outcome.is_ok() { usize::try_from(length).unwrap_or(0) } else { 0 });
        String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned()
    }

    /// Whether several threads may call the MPI at once (MPI 4.1, 11.6).
    pub fn has_threads(&self) -> bool {
        const THREAD_MULTIPLE: c_int = 3;
        let mut provided = 0;
        // SAFETY: the place for the result lives across the call.
        checked(unsafe { (self.query_thread)(&mut provided) }).is_ok() && provided >= THREAD_MULTIPLE
    }

    /// Collective: gathers the words of every process.
    pub fn allgather(&self, comm: Handle, size: usize, own: &[u64]) -> Result<Vec<u64>, c_int> {
        let mut all = vec![0; own.len() * size];
        let bytes = size_of_val(own) as c_int;
        // SAFETY: `own` has `bytes` bytes, and `all` has `bytes` for each process.
        checked(unsafe {
            (self.allgather)(own.as_ptr().cast(), bytes, self.byte, all.as_mut_ptr().cast(), bytes, self.byte, comm)
        })?;
        Ok(all)
    }

    /// Makes a key of attributes that end with their communicator, and are not copied to others.
    ///
    /// # Safety
    /// `delete` may be called with every communicator and value passed to [`Mpi::set_attribute`].
    pub unsafe fn key(&self, delete: DeleteAttribute) -> Result<c_int, c_int> {
        unsafe extern "C" fn copy(
            _: Handle,
            _: c_int,
            _: *mut c_void,
            _: *mut c_void,
            _: *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: MPI gives a place for the flag.
            unsafe { flag.write(0) };
            SUCCESS
        }
        let mut key = 0;
        // SAFETY: the functions stay, and have the arguments that MPI calls them with.
        checked(unsafe { (self.comm_create_keyval)(copy, delete, &mut key, ptr::null_mut()) })?;
        Ok(key)
    }

    pub fn set_attribute(&self, comm: Handle, key: c_int, value: *mut c_void) -> Result<(), c_int> {
        // SAFETY: MPI checks the handles, and does not dereference the value.
        checked(unsafe { (self.comm_set_attr)(comm, key, value) })
    }

    /// Calls the communicator's error handler, and returns the code if that returns.
    pub fn fail(&self, comm: Handle, code: c_int) -> c_int {
        // SAFETY: MPI checks the handle.
        unsafe { (self.comm_call_errhandler)(comm, code) };
        code
    }

    /// Lets the MPI make progress: a peer may wait for messages that the program has sent, or access its windows,
    /// before it reaches the operation. `MPI_COMM_SELF` would not do: there MPICH does not poll the network.
    pub fn progress(&self) {
        // The largest tag that every MPI supports; few programs use it. A probe takes no message, but one that finds a
        // message may return without progress.
        const TAG: c_int = 32767;
        let (any_source, status_ignore) = match self.kind {
            Kind::OpenMpi => (-1, 0),
            Kind::Mpich => (-2, 1),
        };
        let mut flag = 0;
        // SAFETY: the flag lives across the call. The status is ignored, so nothing is written to it.
        unsafe { (self.iprobe)(any_source, TAG, self.comm_world, &mut flag, status_ignore as *mut c_void) };
    }

    /// Bytes of data of a type.
    pub fn type_bytes(&self, datatype: Handle) -> Result<usize, c_int> {
        let mut bytes = 0;
        // SAFETY: the place for the result lives across the call; MPI checks the handle.
        checked(unsafe { (self.type_size)(datatype, &mut bytes) })?;
        usize::try_from(bytes).map_err(|_| self.err_other())
    }

    /// Bytes from one element of a type to the next.
    pub fn type_extent(&self, datatype: Handle) -> Result<isize, c_int> {
        let (mut low, mut extent) = (0, 0);
        // SAFETY: the places for the results live across the call; MPI checks the handle.
        checked(unsafe { (self.type_get_extent)(datatype, &mut low, &mut extent) })?;
        Ok(extent)
    }

    /// Gathers the data of a buffer.
    ///
    /// # Safety
    /// The buffer has `count` elements of the type.
    pub unsafe fn pack(
        &self,
        from: *const u8,
        count: c_int,
        datatype: Handle,
        into: &mut [u8],
        comm: Handle,
    ) -> Result<(), c_int> {
        let (mut at, bytes) = (0, into.len() as c_int);
        // SAFETY: by this function's contract; MPI writes within `bytes`.
        checked(unsafe { (self.pack)(from.cast(), count, datatype, into.as_mut_ptr().cast(), bytes, &mut at, comm) })
    }

    /// Scatters data to a buffer.
    ///
    /// # Safety
    /// The buffer has `count` elements of the type.
    pub unsafe fn unpack(
        &self,
        from: &[u8],
        to: *mut u8,
        count: c_int,
        datatype: Handle,
        comm: Handle,
    ) -> Result<(), c_int> {
        let (mut at, bytes) = (0, from.len() as c_int);
        // SAFETY: by this function's contract; MPI reads within `bytes`.
        checked(unsafe { (self.unpack)(from.as_ptr().cast(), bytes, &mut at, to.cast(), count, datatype, comm) })
    }

    /// A communicator for calls that accept any.
    pub fn comm_world(&self) -> Handle {
        self.comm_world
    }

    pub fn err_in_status(&self) -> c_int {
        match self.kind {
            Kind::OpenMpi => 18,
            Kind::Mpich => 17,
        }
    }

    /// Duplicates a type. The duplicate stays valid when the program frees its own.
    pub fn type_dup(&self, datatype: Handle) -> Result<Handle, c_int> {
        let mut copy = 0;
        // SAFETY: the place for the result lives across the call, and is as long as a handle of any MPI.
        checked(unsafe { (self.type_dup)(datatype, &mut copy) })?;
        Ok(copy)
    }

    pub fn type_free(&self, mut datatype: Handle) {
        // SAFETY: the place for the handle lives across the call.
        unsafe { (self.type_free)(&mut datatype) };
    }

    /// Starts a generalized request, stores its handle in `request`, and returns it.
    ///
    /// # Safety
    /// `request` can be written for a handle. The functions take `state`, which lives until MPI has called `free`.
    pub unsafe fn start_request(
        &self,
        (query, free, cancel): (Query, Free, Cancel),
        state: *mut c_void,
        request: *mut c_void,
    ) -> Result<Handle, c_int> {
        // SAFETY: by this function's contract.
        unsafe {
            checked((self.grequest_start)(query, free, cancel, state, request))?;
            Ok(match self.kind {
                Kind::OpenMpi => request.cast::<usize>().read(),
                Kind::Mpich => request.cast::<u32>().read() as usize,
            })
        }
    }

    /// Completes a generalized request. MPI may call `free` before this returns.
    ///
    /// # Safety
    /// It is such a request, and was not completed before.
    pub unsafe fn complete_request(&self, request: Handle) {
        // SAFETY: by this function's contract.
        unsafe { (self.grequest_complete)(request) };
    }

    /// Whether this MPI has a progress hook for [`Mpi::call_while_waiting`].
    pub fn calls_while_waiting(&self) -> bool {
        self.hook.is_some()
    }

    /// Makes the MPI call a function whenever it makes progress: `until_done`, if its hook ends when that returns
    /// [`MPICH_DONE`]; else `always`. Returns whether it was registered.
    ///
    /// # Safety
    /// The functions may be called in any call of the MPI, at any time.
    pub unsafe fn call_while_waiting(
        &self,
        always: unsafe extern "C" fn() -> c_int,
        until_done: unsafe extern "C" fn(*mut c_void) -> c_int,
    ) -> bool {
        // SAFETY: the functions stay, and have the arguments that the MPI calls them with.
        let code = unsafe {
            match self.hook {
                Some(Hook::OpenMpi(register)) => register(always),
                Some(Hook::Mpich(start)) => start(until_done, ptr::null_mut(), MPICH_STREAM_NULL),
                None => self.err_other(),
            }
        };
        code == SUCCESS
    }
}
