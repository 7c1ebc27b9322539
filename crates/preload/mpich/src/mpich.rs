// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MPICH's own functions and numbers (its ABI, version 12 of `libmpi.so`, since MPICH 3.1).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use selvedge_os::library::{self, loaded, symbol};

/// A handle as a register holds it: MPICH's have 32 bits, those of other libraries may be pointers.
pub type Handle = usize;

pub const SUCCESS: c_int = 0;
pub const ERR_RANK: c_int = 6;
pub const ERR_OTHER: c_int = 15;
pub const ERR_NO_MEM: c_int = 34;
pub const ERR_SIZE: c_int = 51;
pub const ERR_DISP: c_int = 52;
pub const ERR_RMA_SHARED: c_int = 57;

pub const UNDEFINED: c_int = -32766;
pub const PROC_NULL: c_int = -1;
pub const COMM_TYPE_SHARED: c_int = 1;
pub const WIN_CREATE_FLAVOR: c_int = 0x66000007;
pub static WIN_FLAVOR_SHARED: c_int = 4;
const INFO_NULL: i32 = 0x1c000000;
pub const DATATYPE_NULL: i32 = 0x0c000000;
pub const BYTE: i32 = 0x4c00010d;

/// The functions of MPICH that this library calls.
pub struct Mpich {
    comm_rank: unsafe extern "C" fn(i32, *mut c_int) -> c_int,
    comm_size: unsafe extern "C" fn(i32, *mut c_int) -> c_int,
    comm_test_inter: unsafe extern "C" fn(i32, *mut c_int) -> c_int,
    comm_split: unsafe extern "C" fn(i32, c_int, c_int, *mut i32) -> c_int,
    comm_call_errhandler: unsafe extern "C" fn(i32, c_int) -> c_int,
    win_call_errhandler: unsafe extern "C" fn(i32, c_int) -> c_int,
    allgather: unsafe extern "C" fn(*const c_void, c_int, i32, *mut c_void, c_int, i32, i32) -> c_int,
    info_get: unsafe extern "C" fn(i32, *const c_char, c_int, *mut c_char, *mut c_int) -> c_int,
    win_create: unsafe extern "C" fn(*mut c_void, isize, c_int, i32, i32, *mut i32) -> c_int,
}

pub const FILES: [&CStr; 2] = [c"libmpi.so.12", c"libmpich.so.12"];

/// MPICH, if the process has loaded it. The calling program has loaded its MPI, so the first result never changes.
pub fn library() -> Option<&'static Mpich> {
    static LIBRARY: OnceLock<Option<Mpich>> = OnceLock::new();
    LIBRARY.get_or_init(find).as_ref()
}

fn find() -> Option<Mpich> {
    let handle = FILES.into_iter().find_map(loaded)?;
    // SAFETY: the library stays loaded, and MPICH's functions of these names have the types of the fields.
    unsafe {
        Some(Mpich {
            comm_rank: symbol(handle, c"PMPI_Comm_rank")?,
            comm_size: symbol(handle, c"PMPI_Comm_size")?,
            comm_test_inter: symbol(handle, c"PMPI_Comm_test_inter")?,
            comm_split: symbol(handle, c"PMPI_Comm_split")?,
            comm_call_errhandler: symbol(handle, c"PMPI_Comm_call_errhandler")?,
            win_call_errhandler: symbol(handle, c"PMPI_Win_call_errhandler")?,
            allgather: symbol(handle, c"PMPI_Allgather")?,
            info_get: symbol(handle, c"PMPI_Info_get")?,
            win_create: symbol(handle, c"PMPI_Win_create")?,
        })
    }
}

/// The function of this name that the process would have without this library.
pub struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Looks the function up in the first call that finds it. The address is code, so no ordering is needed.
    pub fn find(&self) -> Option<*mut c_void> {
        let mut found = self.found.load(Relaxed);
        if found.is_null() {
            found = library::next(self.name, FILES.into_iter().chain([c"libmpi_abi.so.1"]))?;
            self.found.store(found, Relaxed);
        }
        Some(found)
    }
}

fn checked(code: c_int) -> Result<(), c_int> {
    if code == SUCCESS { Ok(()) } else { Err(code) }
}

impl Mpich {
    pub fn rank(&self, comm: i32) -> Result<usize, c_int> {
        let mut rank = 0;
        // SAFETY: the place for the result lives across the call; MPICH checks the handle.
        checked(unsafe { (self.comm_rank)(comm, &mut rank) })?;
        Ok(rank as usize)
    }

    pub fn is_inter(&self, comm: i32) -> Result<bool, c_int> {
        let mut flag = 0;
        // SAFETY: the place for the result lives across the call; MPICH checks the handle.
        checked(unsafe { (self.comm_test_inter)(comm, &mut flag) })?;
        Ok(flag != 0)
    }

    pub fn split(&self, comm: i32, color: c_int, key: c_int) -> Result<i32, c_int> {
        let mut made = 0;
        // SAFETY: the place for the result lives across the call; MPICH checks the handle.
        checked(unsafe { (self.comm_split)(comm, color, key, &mut made) })?;
        Ok(made)
    }

    /// Collective: gathers the words of every rank.
    pub fn allgather<const N: usize>(&self, comm: i32, own: [u64; N]) -> Result<Vec<[u64; N]>, c_int> {
        let mut size = 0;
        // SAFETY: the place for the result lives across the call; MPICH checks the handle.
        checked(unsafe { (self.comm_size)(comm, &mut size) })?;
        let mut all = vec![[0; N]; size as usize];
        let bytes = size_of::<[u64; N]>() as c_int;
        // SAFETY: `own` has `bytes` bytes, and `all` has `bytes` for each rank.
        checked(unsafe {
            (self.allgather)(own.as_ptr().cast(), bytes, BYTE, all.as_mut_ptr().cast(), bytes, BYTE, comm)
        })?;
        Ok(all)
    }

    /// Whether an info object has the value `true` under this key.
    pub fn is_set(&self, info: i32, key: &CStr) -> Result<bool, c_int> {
        if info == INFO_NULL {
            return Ok(false);
        }
        let (mut value, mut found) = ([0 as c_char; 8], 0);
        // SAFETY: the key is a C string, and there is room for 7 characters and the NUL.
        checked(unsafe { (self.info_get)(info, key.as_ptr(), 7, value.as_mut_ptr(), &mut found) })?;
        // SAFETY: MPICH ends the value with a NUL; it was zero before.
        Ok(found != 0 && unsafe { CStr::from_ptr(value.as_ptr()) } == c"true")
    }

    /// Makes a window over memory.
    ///
    /// # Safety
    /// The memory stays the program's until the window is freed.
    pub unsafe fn window(&self, base: *mut u8, bytes: isize, unit: c_int, info: i32, comm: i32) -> Result<i32, c_int> {
        let mut made = 0;
        // SAFETY: the memory stays, by this function's contract; MPICH checks the rest.
        checked(unsafe { (self.win_create)(base.cast(), bytes, unit, info, comm, &mut made) })?;
        Ok(made)
    }

    /// Calls the communicator's error handler, and returns the code if that returns.
    pub fn fail(&self, comm: i32, code: c_int) -> c_int {
        // SAFETY: MPICH checks the handle.
        unsafe { (self.comm_call_errhandler)(comm, code) };
        code
    }

    pub fn fail_window(&self, win: i32, code: c_int) -> c_int {
        // SAFETY: MPICH checks the handle.
        unsafe { (self.win_call_errhandler)(win, code) };
        code
    }
}
