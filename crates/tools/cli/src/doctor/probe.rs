// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The children of trials: each loads one library, uses it, and prints one line of JSON.
//!
//! The libraries are those of this machine, found at run time, so nothing of them is linked. A rank of an MPI needs no
//! compiler and no header: it calls eight functions of the standard, with the handles of the MPI's family.
//!
//! Invariant: a child ends by SIGALRM at its time limit, also when the process that started it is gone.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::ptr;

use anyhow::{Result, anyhow, bail, ensure};
use selvedge_launcher::environment::PROVIDER;
use selvedge_launcher::mpirun::Family;
use selvedge_libfabric::Library as Libfabric;
use serde::{Serialize, de::DeserializeOwned};

use super::libfabrics::Offers;
use super::machine::Attached;
use super::mpis::Exchanged;
use super::pairs::{BYTES, Sent};
use super::trial::LIMIT;
use crate::choice::{FAMILIES, one_of};
use crate::info::machine::attach_between_siblings;

/// Try one thing (started by `selvedge doctor`).
#[derive(clap::Args)]
pub struct ProbeArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Whether processes reach each other's memory by cross-memory attach
    Attach,
    /// Two PEs of OpenSHMEM that send each other bytes
    Pair { library: PathBuf },
    /// Two ranks of an MPI that send each other bytes
    Mpi {
        #[arg(value_parser = one_of(FAMILIES))]
        family: Family,
        library: PathBuf,
    },
    /// The version of a libfabric, and whether it loads the provider
    Libfabric {
        library: PathBuf,
        /// The provider's file
        provider: Option<PathBuf>,
    },
}

pub fn main(args: ProbeArgs) -> Result<ExitCode> {
    // SAFETY: `alarm` takes a number. The default action of SIGALRM ends this process.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(LIMIT.as_secs() as u32);
    }
    match args.what {
        What::Attach => print(&Attached { error: attach_between_siblings().err() }),
        What::Pair { library } => pair(&library),
        What::Mpi { family, library } => mpi(family, &library),
        What::Libfabric { library, provider } => print(&libfabric(&library, provider.as_deref())?),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a result as one line.
fn print<T: Serialize + DeserializeOwned>(result: &T) -> Result<()> {
    println!("{}", serde_json::to_string(result)?);
    Ok(())
}

/// A library of this process, open to its end.
struct Loaded {
    handle: *mut c_void,
    file: PathBuf,
}

impl Loaded {
    /// Loads a library for all others, as the loader does for a program's own.
    fn open(file: &Path) -> Result<Loaded> {
        let name = CString::new(file.as_os_str().as_bytes())?;
        // SAFETY: the name is a C string. Functions that run when the library is loaded are its own affair: this
        // process is a child for that. dlerror returns a C string or null.
        unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
            if handle.is_null() {
                bail!("{}", loader_error());
            }
            Ok(Loaded { handle, file: file.to_owned() })
        }
    }

    fn symbol(&self, name: &CStr) -> Result<*mut c_void> {
        // SAFETY: the handle is open, and the name is a C string.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        ensure!(!address.is_null(), "{} has no {}", self.file.display(), name.to_string_lossy());
        Ok(address)
    }
}

fn loader_error() -> String {
    // SAFETY: dlerror returns a C string of this thread, or null.
    unsafe {
        let why = libc::dlerror();
        if why.is_null() { "unknown error".to_owned() } else { CStr::from_ptr(why).to_string_lossy().into_owned() }
    }
}

/// Gives a symbol the type of its C function.
macro_rules! function {
    ($library:expr, $name:literal, fn($($argument:ty),*) -> $result:ty) => {{
        let address = $library.symbol($name)?;
        // SAFETY: the function of this name has this type, by the standard that its library follows.
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>(address) }
    }};
}

/// The bytes that a rank sends: different for each rank and place.
fn pattern(rank: c_int) -> impl Iterator<Item = u8> {
    (0..BYTES as u32).map(move |at| (at.wrapping_mul(2_654_435_761) >> 16) as u8 ^ (rank as u8 + 1))
}

fn is_pattern(bytes: &[u8], rank: c_int) -> bool {
    bytes.iter().copied().eq(pattern(rank))
}

/// Two PEs: each puts its bytes into the other's memory, then checks those that it got. PE 0 prints the result of both.
fn pair(library: &Path) -> Result<()> {
    let library = Loaded::open(library)?;
    let init = function!(library, c"shmem_init", fn() -> ());
    let my_pe = function!(library, c"shmem_my_pe", fn() -> c_int);
    let n_pes = function!(library, c"shmem_n_pes", fn() -> c_int);
    let malloc = function!(library, c"shmem_malloc", fn(usize) -> *mut c_void);
    let putmem = function!(library, c"shmem_putmem", fn(*mut c_void, *const c_void, usize, c_int) -> ());
    let barrier_all = function!(library, c"shmem_barrier_all", fn() -> ());
    let finalize = function!(library, c"shmem_finalize", fn() -> ());
    // SAFETY: the calls follow OpenSHMEM: between init and finalize, on symmetric blocks of their size. Barriers order
    // a put before the other PE's read.
    let is_right = unsafe {
        init();
        let (me, pes) = (my_pe(), n_pes());
        ensure!(pes == 2, "{pes} PEs instead of 2");
        let (bytes, report) = (malloc(BYTES).cast::<u8>(), malloc(1).cast::<u8>());
        ensure!(!bytes.is_null() && !report.is_null(), "no symmetric memory");
        bytes.write_bytes(0, BYTES);
        barrier_all();
        let sent: Vec<u8> = pattern(me).collect();
        putmem(bytes.cast(), sent.as_ptr().cast(), BYTES, 1 - me);
        barrier_all();
        let mine = u8::from(is_pattern(std::slice::from_raw_parts(bytes, BYTES), 1 - me));
        putmem(report.cast(), (&raw const mine).cast(), 1, 1 - me);
        barrier_all();
        let others = report.read();
        finalize();
        if me != 0 {
            return Ok(());
        }
        mine == 1 && others == 1
    };
    print(&Sent { is_right })
}

/// Two ranks: each sends its bytes to the other, then checks those that it got. Rank 0 prints the result of both.
fn mpi(family: Family, library: &Path) -> Result<()> {
    const TAG: c_int = 7;
    let library = Loaded::open(library)?;
    // A handle is a pointer or an `int`. Both are whole registers here, and an MPI reads the part that it has declared.
    let (world, byte) = match family {
        Family::Openmpi => {
            (library.symbol(c"ompi_mpi_comm_world")? as usize, library.symbol(c"ompi_mpi_byte")? as usize)
        }
        Family::Mpich => (0x4400_0000, 0x4c00_010d),
    };
    let init = function!(library, c"MPI_Init", fn(*mut c_int, *mut c_void) -> c_int);
    let comm_rank = function!(library, c"MPI_Comm_rank", fn(usize, *mut c_int) -> c_int);
    let comm_size = function!(library, c"MPI_Comm_size", fn(usize, *mut c_int) -> c_int);
    let send = function!(library, c"MPI_Send", fn(*const c_void, c_int, usize, c_int, c_int, usize) -> c_int);
    let receive =
        function!(library, c"MPI_Recv", fn(*mut c_void, c_int, usize, c_int, c_int, usize, *mut c_void) -> c_int);
    let finalize = function!(library, c"MPI_Finalize", fn() -> c_int);
    let mut status = [0u64; 16]; // longer than any MPI's
    let (mut me, mut ranks, mut got, mut others) = (0, 0, vec![0u8; BYTES], 0u8);
    // SAFETY: the calls follow MPI: between init and finalize, each buffer has the length that is given with it, and
    // the status is longer than MPI_Status. Null for the arguments of the program is allowed.
    let result = unsafe {
        ensure!(init(ptr::null_mut(), ptr::null_mut()) == 0, "MPI_Init failed");
        comm_rank(world, &mut me);
        comm_size(world, &mut ranks);
        ensure!(ranks == 2, "{ranks} ranks instead of 2: this launcher is another MPI's");
        let sent: Vec<u8> = pattern(me).collect();
        let to_other = |bytes: &[u8]| send(bytes.as_ptr().cast(), bytes.len() as c_int, byte, 1 - me, TAG, world);
        let mut from_other = |bytes: &mut [u8]| {
            let (at, count) = (bytes.as_mut_ptr().cast(), bytes.len() as c_int);
            receive(at, count, byte, 1 - me, TAG, world, status.as_mut_ptr().cast())
        };
        let first = if me == 0 { to_other(&sent) } else { from_other(&mut got) };
        let second = if me == 0 { from_other(&mut got) } else { to_other(&sent) };
        let mine = is_pattern(&got, 1 - me);
        if me != 0 {
            to_other(&[u8::from(mine)]);
        } else {
            from_other(std::slice::from_mut(&mut others));
        }
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let exchanged = Exchanged { is_right: first == 0 && second == 0 && mine && others == 1, ..of_maps(&maps) };
        // The result counts even if the MPI does not end well.
        if me == 0 {
            print(&exchanged)?;
        }
        finalize()
    };
    ensure!(result == 0, "MPI_Finalize failed");
    Ok(())
}

/// The libfabric of a process, and the use of our provider, by its mappings: the provider is loaded, and has made a
/// NIC.
pub fn of_maps(maps: &str) -> Exchanged {
    let files = || maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let has_name =
        |file: &Path, wanted: fn(&str) -> bool| file.file_name().and_then(|name| name.to_str()).is_some_and(wanted);
    Exchanged {
        is_right: false,
        libfabric: files().find(|file| has_name(file, |name| name.starts_with("libfabric"))).map(Path::to_owned),
        loads_provider: files().any(|file| has_name(file, |name| name == "libselvedge-fi.so")),
        uses_provider: files().any(|file| has_name(file, |name| name.ends_with(".nic"))),
    }
}

/// Loads a libfabric and asks it for our provider. The environment names the provider's folder.
fn libfabric(library: &Path, provider: Option<&Path>) -> Result<Offers> {
    let loaded = Loaded::open(library)?;
    let version_number = function!(loaded, c"fi_version", fn() -> u32);
    // SAFETY: the function takes nothing.
    let number = unsafe { version_number() };
    let version = format!("{}.{}", number >> 16, number & 0xffff);
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let file = of_maps(&maps).libfabric.unwrap_or_else(|| library.to_owned());
    let offers =
        Libfabric::of_process().ok_or_else(|| anyhow!("it lacks functions of libfabric 1.17")).and_then(has_provider);
    // libfabric says nothing about a provider that the loader refuses, unless it logs.
    let refused = provider.and_then(|provider| Loaded::open(provider).err()).map(|error| error.to_string());
    let (has_provider, error) = match offers {
        Ok(true) => (true, None),
        Ok(false) => (false, refused),
        Err(error) => (false, Some(refused.unwrap_or_else(|| error.to_string()))),
    };
    Ok(Offers { file, version, has_provider, error })
}

fn has_provider(library: Libfabric) -> Result<bool> {
    let mut list = ptr::null_mut();
    // SAFETY: fi_getinfo(3) takes null for node, service and hints, and returns a list that fi_freeinfo frees. Names in
    // it are C strings or null.
    unsafe {
        let code = (library.getinfo)(library.version, ptr::null(), ptr::null(), 0, ptr::null(), &mut list);
        // FI_ENODATA: there is no provider.
        if code == -libc::ENODATA {
            return Ok(false);
        }
        ensure!(code == 0, "fi_getinfo: {}", library.error_text(code));
        let (mut found, mut info) = (false, list);
        while !info.is_null() {
            let attributes = (*info).fabric_attr;
            let name: *const c_char = if attributes.is_null() { ptr::null() } else { (*attributes).prov_name };
            found |= !name.is_null() && CStr::from_ptr(name).to_bytes() == PROVIDER.as_bytes();
            info = (*info).next;
        }
        (library.freeinfo)(list);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_differs_by_rank_and_place() {
        let bytes: Vec<u8> = pattern(0).collect();
        assert!(bytes.len() == BYTES && is_pattern(&bytes, 0) && !is_pattern(&bytes, 1));
        let mut moved = bytes.clone();
        moved.rotate_left(4096);
        assert!(!is_pattern(&moved, 0) && !is_pattern(&vec![0; BYTES], 0) && !is_pattern(&bytes[1..], 0));
    }

    #[test]
    fn mappings_show_libfabric_and_provider() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libfabric.so.1.20.0\n\
                    7f02-7f03 r-xp 00000000 08:01 2 /a b/lib/libselvedge/libselvedge-fi.so\n\
                    7f04-7f05 rw-s 00000000 00:1b 3 /dev/shm/selvedge-0/x/1.8.nic\n7f06-7f07 rw-p 0 00:00 0 [heap]\n";
        let found = of_maps(maps);
        assert_eq!(found.libfabric.as_deref(), Some(Path::new("/usr/lib/libfabric.so.1.20.0")));
        assert!(found.loads_provider && found.uses_provider);
        let found = of_maps("7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libfabric-8f2a.so.1\n");
        assert!(found.libfabric.is_some() && !found.loads_provider && !found.uses_provider);
    }

    #[test]
    fn a_library_that_cannot_be_loaded_is_named() {
        let error = Loaded::open(Path::new("/nowhere/libmpi.so")).err().unwrap().to_string();
        assert!(error.contains("/nowhere/libmpi.so"), "{error}");
    }
}
