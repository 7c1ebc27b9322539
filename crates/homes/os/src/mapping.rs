// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files mapped shared: segments and arenas are such files.
//!
//! Invariants:
//! 1. A [`Mapping`] owns `[base, base + reserved)` of our address space from its creation to its drop. The file fills a
//!    prefix of it and may [grow](Mapping::grow) up to `reserved`. `base` never moves, so offsets and pointers stay
//!    valid. A forked child has a copy of the mapping, and keeps the file's memory alive until it execs or ends.
//! 2. All bytes below the file's end have their space allocated: touching them never raises SIGBUS because the file
//!    system is full. Touching the rest of the reserve does raise it. No process shortens these files.
//! 3. Only our own files are mapped: regular, owned by our effective user, mode exactly 0600, not through a symbolic
//!    link. The checks are made on the opened file, so it cannot be exchanged in between.
//! 4. The maker of a file holds its descriptor. A process that has opened a file of another process holds none, so that
//!    a job may have more processes than a process may have descriptors. Such a process opens the file once more for a
//!    call that needs a descriptor, and checks that it is the same file.
//!
//! Costs: making and growing take time in proportion to the bytes (the kernel clears the pages). Reserving address space
//! costs nothing but the address space.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, Ordering};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, OFlags, SealFlags, Stat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};
use thiserror::Error;

use crate::raw;
use crate::shortage::{Need, Shortage};

/// Extra address space after an opened file's reserve. Without it, consecutive files would be mapped at the same
/// distance, a large power of two. The same offset in two files would then have addresses with equal low 28 bits. AMD's
/// processors use bits 12 to 27 to predict where a line is in the L1 cache: a copy between such addresses is 5 to 13 %
/// slower.
const SKEW_BYTES: u64 = 17 << 12;

const MODE: u32 = 0o600;

/// Reasons for which a file could not be made, opened, mapped or grown.
#[derive(Debug, Error)]
pub enum MapError {
    /// The system's error. `AlreadyExists` and `NotFound` are reported here.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error. Not a `source`: the text has it already.
        error: io::Error,
    },
    /// There is no descriptor, space, address space or permission for it.
    #[error(transparent)]
    Shortage(Shortage),
    /// The file belongs to another user.
    #[error("{}: owned by user {uid}, not by this process's user", .path.display())]
    NotOwner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// The file's permissions are not exactly 0600.
    #[error("{}: mode {mode:04o} where 0600 is required", .path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits, set-id and sticky bits included.
        mode: u32,
    },
    /// A symbolic link, folder, device, socket or pipe.
    #[error("{}: not a regular file", .path.display())]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// The file is shorter than it must be. (A process that opens a file while it is being made may see this, too.)
    #[error("{}: {bytes} bytes where at least {needed} are required", .path.display())]
    TooSmall {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The smallest sufficient size.
        needed: u64,
    },
    /// More than the reserve, or than the limit for a file.
    #[error("{}: {bytes} bytes where at most {limit} are possible", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The size that was asked for, or that the file has.
        bytes: u64,
        /// The largest that is possible.
        limit: u64,
    },
}

impl MapError {
    /// Converts an error of a system call.
    pub fn of(errno: Errno, need: Need<'_>) -> MapError {
        match (Shortage::of(errno, need), need) {
            (Some(shortage), _) => MapError::Shortage(shortage),
            (None, Need::File(path) | Need::Space(path, _) | Need::AddressSpace(path, _)) => io_error(path, errno),
            (None, Need::Object(what)) => io_error(Path::new(what), errno),
        }
    }
}

/// A file, apart from others that had its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(status: &Stat) -> FileId {
        FileId { device: status.st_dev, inode: status.st_ino }
    }
}

/// A file mapped shared at a fixed address, with room to grow.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    reserved_bytes: u64,
    file: FileRef,
    path: PathBuf,
    /// Set by `replace_with_zeroes`: the range no longer maps the file.
    replaced: AtomicBool,
}

/// The file of a mapping (invariant 4).
#[derive(Debug)]
enum FileRef {
    Own(OwnedFd),
    Peer(Box<PeerFile>),
}

/// The file of another process, and the number of bytes that it had when it was opened.
#[derive(Debug)]
struct PeerFile {
    id: FileId,
    bytes: u64,
}

// SAFETY: a Mapping is an address range and a descriptor, neither bound to a thread. It returns only raw pointers, and
// code that dereferences them must justify the access.
unsafe impl Send for Mapping {}
// SAFETY: the methods by shared reference are system calls, which the kernel orders, and an atomic flag. None makes a
// reference into the range.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes a new file of `bytes` zeroes at `path`, which must not exist yet, and maps it into a reserve of `reserved`
    /// bytes (rounded up to whole pages).
    ///
    /// On an error nothing is left at `path`, unless it was there before (`Io` with `AlreadyExists`).
    pub fn create(path: &Path, bytes: u64, reserved: u64) -> Result<Mapping, MapError> {
        Mapping::create_aligned(path, bytes, reserved, 1)
    }

    /// As `create`, but a page takes memory when it is touched. In such a file invariant 2 does not hold: if the file
    /// system has become full meanwhile, the process that touches a page gets SIGBUS.
    pub fn create_sparse(path: &Path, bytes: u64, reserved: u64) -> Result<Mapping, MapError> {
        Mapping::create_by(path, reserved, 1, |file, reserved| lengthen(file, path, bytes, reserved))
    }

    /// As `create`, at an address that is a multiple of `align`, a power of two. If the address space has no room for
    /// that, at any page.
    pub fn create_aligned(path: &Path, bytes: u64, reserved: u64, align: u64) -> Result<Mapping, MapError> {
        Mapping::create_by(path, reserved, align, |file, reserved| extend(file, path, bytes, reserved))
    }

    /// `make` gives the new file its length, within the reserve.
    fn create_by(
        path: &Path,
        reserved: u64,
        align: u64,
        make: impl FnOnce(BorrowedFd<'_>, u64) -> Result<(), MapError>,
    ) -> Result<Mapping, MapError> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(MODE);
        let failed = |errno| MapError::of(errno, Need::File(path));
        let file = retry(|| rustix::fs::open(path, flags, mode)).map_err(failed)?;
        let made = (|| {
            retry(|| rustix::fs::fchmod(&file, mode)).map_err(failed)?;
            let reserved = page_rounded(path, reserved)?;
            make(file.as_fd(), reserved)?;
            Ok((map_aligned(&file, path, reserved, align)?, reserved))
        })();
        match made {
            Ok((base, reserved_bytes)) => {
                let file = FileRef::Own(file);
                Ok(Mapping { base, reserved_bytes, file, path: path.into(), replaced: AtomicBool::new(false) })
            }
            Err(error) => {
                let _ = rustix::fs::unlink(path);
                Err(error)
            }
        }
    }

    /// Maps the file at `path`, which must be ours (see the invariants) and hold at least `minimum` bytes, into a
    /// reserve of `reserved` bytes (rounded up to whole pages, and a little more), which must be enough for it.
    pub fn open(path: &Path, minimum: u64, reserved: u64) -> Result<Mapping, MapError> {
        let reserved = page_rounded(path, reserved)?;
        let (file, status) = open_checked(path, minimum, reserved)?;
        let reserved = page_rounded(path, reserved.saturating_add(SKEW_BYTES))?;
        Mapping::of_peer(&file, &status, path, reserved)
    }

    /// Maps the present length of the file at `path`, at most `limit` bytes. Otherwise as `open`.
    pub fn open_present(path: &Path, minimum: u64, limit: u64) -> Result<Mapping, MapError> {
        let (file, status) = open_checked(path, minimum, limit)?;
        let reserved = page_rounded(path, status.st_size as u64)?;
        Mapping::of_peer(&file, &status, path, reserved)
    }

    fn of_peer(file: &OwnedFd, status: &Stat, path: &Path, reserved_bytes: u64) -> Result<Mapping, MapError> {
        let base = map(file, path, reserved_bytes)?;
        let file = FileRef::Peer(Box::new(PeerFile { id: FileId::of(status), bytes: status.st_size as u64 }));
        Ok(Mapping { base, reserved_bytes, file, path: path.into(), replaced: AtomicBool::new(false) })
    }

    /// Makes the reserve at least `reserved` bytes long, as `open` does. This may move the mapping.
    pub fn reserve(mut self, reserved: u64) -> Result<Mapping, MapError> {
        let wanted = page_rounded(&self.path, reserved.saturating_add(SKEW_BYTES))?;
        if wanted > self.reserved_bytes {
            let (old, flags) = (self.base.as_ptr().cast(), MremapFlags::MAYMOVE);
            // SAFETY: `self` owns the range, and as this function owns `self`, no code has a pointer into it.
            let moved = unsafe { rustix::mm::mremap(old, self.reserved_bytes as usize, wanted as usize, flags) };
            self.base = address(moved, &self.path, wanted)?;
            self.reserved_bytes = wanted;
        }
        Ok(self)
    }

    /// Maps a memory file that another process keeps open as `descriptor`. The file must have this inode, belong to
    /// this user, be `bytes` long, and be sealed against shortening (in place of invariant 2).
    pub fn open_sealed(pid: u32, descriptor: u32, inode: u64, bytes: u64) -> Result<Mapping, MapError> {
        let path = PathBuf::from(format!("/proc/{pid}/fd/{descriptor}"));
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let failed = |errno| MapError::of(errno, Need::File(&path));
        let file = retry(|| rustix::fs::open(&path, flags, Mode::empty())).map_err(failed)?;
        let status = rustix::fs::fstat(&file).map_err(|errno| io_error(&path, errno))?;
        check_file(&status, &path, bytes)?;
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(|errno| io_error(&path, errno))?;
        if status.st_ino != inode || !seals.contains(SealFlags::SHRINK) {
            return Err(io_error(&path, Errno::STALE));
        }
        Mapping::of_peer(&file, &status, &path, page_rounded(&path, bytes)?)
    }

    /// Makes the file at least `bytes` long. New bytes read as zeroes. `bytes` may be at most the reserve.
    ///
    /// Several processes may call it at once. After an error the file is never shorter than before. It may be longer,
    /// if a signal came, or if a file system without `fallocate` made it grow in steps.
    pub fn grow(&self, bytes: u64) -> Result<(), MapError> {
        self.with_file(|file| extend(file, &self.path, bytes, self.reserved_bytes))
    }

    /// Allocates memory of the file for this range, which may begin beyond its end: bytes before it stay a hole. In
    /// such a file invariant 2 holds for allocated ranges only.
    pub fn allocate(&self, offset: u64, bytes: u64) -> Result<(), MapError> {
        self.with_file(|file| allocate(file, &self.path, (offset, bytes), self.reserved_bytes))
    }

    /// Maps the file's first `bytes` once more, over the mapping at `at`.
    ///
    /// # Safety
    /// The caller may replace these pages, and they have the same contents as the file.
    pub unsafe fn map_over(&self, at: *mut u8, bytes: usize) -> Result<(), MapError> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        self.with_file(|file| {
            // SAFETY: the caller may replace these pages, and they have the contents of the file, by this function's
            // contract. So a reader finds the same bytes. A sanitizer does not see the call, and its redzones stay.
            let placed = unsafe { raw::mmap(at as usize, bytes, protection, flags, file.as_raw_fd(), 0) };
            match i32::try_from(placed) {
                Ok(error @ -4095..0) => {
                    let need = Need::AddressSpace(&self.path, bytes as u64);
                    Err(MapError::of(Errno::from_raw_os_error(-error), need))
                }
                _ => Ok(()),
            }
        })
    }

    /// Returns the present length of the file, which a peer may have grown.
    pub fn file_bytes(&self) -> Result<u64, MapError> {
        self.with_file(|file| file_bytes(file, &self.path))
    }

    /// Returns the length of the file when it was opened; for the maker's mapping, its present length.
    pub fn first_bytes(&self) -> Result<u64, MapError> {
        match &self.file {
            FileRef::Peer(peer) => Ok(peer.bytes),
            FileRef::Own(_) => self.file_bytes(),
        }
    }

    /// Runs `act` with a descriptor of the file. The error is `Io` with `NotFound` or ESTALE if the file has lost its
    /// name, and another process made it.
    pub fn with_file<R>(&self, act: impl FnOnce(BorrowedFd<'_>) -> Result<R, MapError>) -> Result<R, MapError> {
        if self.replaced.load(Ordering::Acquire) {
            return Err(io_error(&self.path, Errno::STALE));
        }
        match &self.file {
            FileRef::Own(file) => act(file.as_fd()),
            FileRef::Peer(peer) => {
                let (file, status) = open_checked(&self.path, 0, u64::MAX)?;
                match FileId::of(&status) == peer.id {
                    true => act(file.as_fd()),
                    false => Err(io_error(&self.path, Errno::STALE)),
                }
            }
        }
    }

    /// Returns the page-aligned start of the range.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the bytes of address space owned, in whole pages.
    pub fn reserved(&self) -> u64 {
        self.reserved_bytes
    }

    /// Puts private zero pages in place of the whole range, at the same addresses, and closes the file.
    ///
    /// It is for a segment whose owner has failed. Threads of this process that still access it read zeroes, and their
    /// stores have no effect. They never fault, because the kernel exchanges the pages under its lock. The file's pages
    /// are freed once it is unlinked and every process has closed it. Afterwards `grow` and `file_bytes` give ESTALE.
    /// See [`super::futex`] for the effect on sleepers.
    ///
    /// It makes system calls only, so a signal handler may call it. If the kernel refuses (out of memory for its own
    /// records), the range may be unmapped, and the process is aborted.
    pub fn replace_with_zeroes(&self) {
        self.replaced.store(true, Ordering::Release);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let length = self.reserved_bytes as usize;
        // SAFETY: the range belongs to this mapping alone (invariant 1), so no other mapping is replaced. Code that
        // reads it through raw pointers finds plain memory there before and after.
        let placed = unsafe {
            rustix::mm::mmap_anonymous(self.base.as_ptr().cast(), length, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        if placed.is_err() {
            let words = b"selvedge: no zero pages for a failed segment\n";
            // SAFETY: the pointer and length are those of a constant. Unlike the logger, a signal handler may call
            // `write`.
            unsafe { libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len()) };
            std::process::abort();
        }
        self.let_go_of_file();
    }

    /// Exchanges the file behind our descriptor for /dev/null. A concurrent `grow` then sees one or the other, and
    /// never a descriptor of an unrelated file.
    fn let_go_of_file(&self) {
        let FileRef::Own(file) = &self.file else { return };
        // Without a free descriptor the file stays open until the drop, which only costs its space.
        if let Ok(null) = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            // SAFETY: both descriptors are open and ours; ours stays open throughout.
            unsafe { libc::dup3(null.as_raw_fd(), file.as_raw_fd(), libc::O_CLOEXEC) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range belongs to this mapping (invariant 1). Users of pointers into it must not use them after
        // the drop.
        let done = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.reserved_bytes as usize) };
        debug_assert!(done.is_ok(), "munmap of {}: {done:?}", self.path.display());
    }
}

/// Returns the size of the file system of a folder. None if the system does not say.
pub fn file_system_bytes(folder: &Path) -> Option<u64> {
    let status = rustix::fs::statvfs(folder).ok()?;
    Some(status.f_blocks.saturating_mul(status.f_frsize)).filter(|bytes| *bytes != 0)
}

/// Returns the inode of a sealed memory file that is open in this process.
pub fn sealed_inode(descriptor: i32) -> io::Result<u64> {
    // SAFETY: the descriptor is borrowed for two calls, which fail if it is not open.
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
    rustix::fs::fcntl_get_seals(file)?;
    Ok(rustix::fs::fstat(file)?.st_ino)
}

fn io_error(path: &Path, errno: Errno) -> MapError {
    MapError::Io { path: path.into(), error: errno.into() }
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Whether a file is a regular one of this user, private, and long enough (invariant 3).
pub fn check_file(status: &Stat, path: &Path, minimum: u64) -> Result<(), MapError> {
    check_file_of(status, path, minimum, rustix::process::geteuid().as_raw())
}

/// As [`check_file`], for a file of the user `uid`.
pub fn check_file_of(status: &Stat, path: &Path, minimum: u64, uid: u32) -> Result<(), MapError> {
    let path = || path.to_path_buf();
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(MapError::NotRegular { path: path() });
    }
    if status.st_uid != uid {
        return Err(MapError::NotOwner { path: path(), uid: status.st_uid });
    }
    let mode = status.st_mode & 0o7777;
    if mode != MODE {
        return Err(MapError::Mode { path: path(), mode });
    }
    let bytes = status.st_size as u64;
    if bytes < minimum {
        return Err(MapError::TooSmall { path: path(), bytes, needed: minimum });
    }
    Ok(())
}

/// Opens the file at `path`, which must be ours (see the invariants) and have `minimum` to `limit` bytes.
fn open_checked(path: &Path, minimum: u64, limit: u64) -> Result<(OwnedFd, Stat), MapError> {
    // NONBLOCK and NOCTTY: whatever the path names, the open neither blocks nor acquires a terminal.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = retry(|| rustix::fs::open(path, flags, Mode::empty())).map_err(|errno| match errno {
        Errno::LOOP | Errno::ISDIR | Errno::NXIO => MapError::NotRegular { path: path.into() },
        errno => MapError::of(errno, Need::File(path)),
    })?;
    let status = rustix::fs::fstat(&file).map_err(|errno| io_error(path, errno))?;
    check_file(&status, path, minimum)?;
    let bytes = status.st_size as u64;
    if bytes > limit {
        return Err(MapError::TooLarge { path: path.into(), bytes, limit });
    }
    Ok((file, status))
}

/// Returns the reserve in whole pages, at least one.
fn page_rounded(path: &Path, bytes: u64) -> Result<u64, MapError> {
    let page = rustix::param::page_size() as u64;
    let limit = isize::MAX as u64 & !(page - 1);
    match bytes.max(1).checked_next_multiple_of(page) {
        Some(rounded) if rounded <= limit => Ok(rounded),
        _ => Err(MapError::TooLarge { path: path.into(), bytes, limit }),
    }
}

/// Maps at a multiple of `align`, inside a longer range that is reserved first.
fn map_aligned(file: &OwnedFd, path: &Path, reserved: u64, align: u64) -> Result<NonNull<u8>, MapError> {
    let page = rustix::param::page_size() as u64;
    let (Some(wide), true) = (reserved.checked_add(align), align > page) else { return map(file, path, reserved) };
    let aside = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel picks the address, so the new mapping replaces nothing.
    let range = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), wide as usize, ProtFlags::empty(), aside) };
    let Ok(range) = range else { return map(file, path, reserved) };
    let start = range as u64;
    let base = start.next_multiple_of(align);
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
    // SAFETY: inside the range that was just reserved and that no other code knows. Its ends are whole pages and are
    // unmapped.
    let placed = unsafe {
        let placed = rustix::mm::mmap(base as *mut _, reserved as usize, protection, flags | MapFlags::FIXED, file, 0);
        let (head, end) = (base - start, base + reserved);
        if head > 0 {
            let _ = rustix::mm::munmap(range, head as usize);
        }
        if start + wide > end {
            let _ = rustix::mm::munmap(end as *mut _, (start + wide - end) as usize);
        }
        placed
    };
    address(placed, path, reserved)
}

fn map(file: &OwnedFd, path: &Path, reserved: u64) -> Result<NonNull<u8>, MapError> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: the kernel picks the address, so the new mapping replaces nothing.
    let base = unsafe { rustix::mm::mmap(ptr::null_mut(), reserved as usize, protection, flags, file, 0) };
    address(base, path, reserved)
}

/// Checks the address at which the kernel has mapped `bytes` of a file.
fn address(base: rustix::io::Result<*mut core::ffi::c_void>, path: &Path, bytes: u64) -> Result<NonNull<u8>, MapError> {
    match base {
        Ok(base) => Ok(NonNull::new(base.cast()).expect("mmap gives address 0 only when asked to")),
        Err(errno) => Err(MapError::of(errno, Need::AddressSpace(path, bytes))),
    }
}

fn file_bytes(file: BorrowedFd<'_>, path: &Path) -> Result<u64, MapError> {
    let status = rustix::fs::fstat(file).map_err(|errno| io_error(path, errno))?;
    Ok(status.st_size as u64)
}

/// Makes a new file `bytes` long without allocating memory for it. The file system must have room for all of it now.
fn lengthen(file: BorrowedFd<'_>, path: &Path, bytes: u64, reserved: u64) -> Result<(), MapError> {
    let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX).min(reserved);
    if bytes > limit {
        return Err(MapError::TooLarge { path: path.into(), bytes, limit });
    }
    let failed = |errno| growth_error(path, bytes, limit, errno);
    let status = rustix::fs::fstatvfs(file).map_err(failed)?;
    if status.f_bavail.saturating_mul(status.f_frsize) < bytes {
        return Err(failed(Errno::NOSPC));
    }
    retry(|| rustix::fs::ftruncate(file, bytes)).map_err(failed)
}

/// Allocates the file up to `bytes`. Never shortens it.
fn extend(file: BorrowedFd<'_>, path: &Path, bytes: u64, reserved: u64) -> Result<(), MapError> {
    // Beyond RLIMIT_FSIZE the kernel would send SIGXFSZ, whose default is to end the process.
    let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX).min(reserved);
    if bytes > limit {
        return Err(MapError::TooLarge { path: path.into(), bytes, limit });
    }
    let mut step = u64::MAX;
    loop {
        let present = file_bytes(file, path)?;
        if present >= bytes {
            return Ok(());
        }
        let part = (bytes - present).min(step);
        match rustix::fs::fallocate(file, FallocateFlags::empty(), present, part) {
            Ok(()) => {}
            // When a signal comes, a tmpfs frees what it had allocated so far. Smaller steps succeed even if signals
            // come at regular intervals (a profiler).
            Err(Errno::INTR) => step = (part / 2).max(1 << 20),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return extend_by_writing(file, path, bytes),
            Err(errno) => return Err(growth_error(path, bytes, limit, errno)),
        }
    }
}

/// Allocates a range of the file, which may end beyond it. Existing bytes stay.
fn allocate(file: BorrowedFd<'_>, path: &Path, (offset, bytes): (u64, u64), reserved: u64) -> Result<(), MapError> {
    let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX).min(reserved);
    let end = offset.saturating_add(bytes);
    if end > limit {
        return Err(MapError::TooLarge { path: path.into(), bytes: end, limit });
    }
    match retry(|| rustix::fs::fallocate(file, FallocateFlags::empty(), offset, bytes)) {
        Ok(()) => Ok(()),
        // The last byte makes the file long enough. A page is then allocated when it is touched.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) if file_bytes(file, path)? < end => {
            let written = retry(|| rustix::io::pwrite(file, &[0], end - 1));
            written.map(|_| ()).map_err(|errno| growth_error(path, end, limit, errno))
        }
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(growth_error(path, end, limit, errno)),
    }
}

/// Writes the zeroes, for file systems without `fallocate`. The lock serialises two growing processes. Otherwise the
/// slower one could write zeroes over data that the faster one's program has already stored.
fn extend_by_writing(file: BorrowedFd<'_>, path: &Path, bytes: u64) -> Result<(), MapError> {
    static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
    retry(|| rustix::fs::flock(file, FlockOperation::LockExclusive)).map_err(|errno| io_error(path, errno))?;
    let written = (|| {
        loop {
            let present = file_bytes(file, path)?;
            if present >= bytes {
                return Ok(());
            }
            let part = (bytes - present).min(ZEROES.len() as u64) as usize;
            match retry(|| rustix::io::pwrite(file, &ZEROES[..part], present)) {
                Ok(_) => {}
                Err(errno) => return Err(growth_error(path, bytes, u64::MAX, errno)),
            }
        }
    })();
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
    written
}

fn growth_error(path: &Path, bytes: u64, limit: u64, errno: Errno) -> MapError {
    match errno {
        Errno::FBIG => MapError::TooLarge { path: path.into(), bytes, limit },
        errno => MapError::of(errno, Need::Space(path, bytes)),
    }
}

#[cfg(test)]
#[path = "mapping_tests.rs"]
mod tests;
