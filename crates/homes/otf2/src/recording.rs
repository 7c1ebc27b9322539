// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recording of a program's calls: a file for each thread of each rank, in the folder `calls` of the archive to be.
//!
//! A file is a header of [`HEADER_BYTES`] and records of [`RECORD_BYTES`], all words little-endian. The thread writes
//! them into mapped memory, so the kernel keeps every record when the program is killed. [`crate::calls`] reads them.
//!
//! Invariants
//! 1. The first word of a record is stored last, and is not 0. The first record with 0 ends the file.
//! 2. A function is named in a file before its first call there.
//! 3. A forked child writes nothing, and leaves its parent's file as it is.
//! 4. A full disk ends the recording with one message, and not the program: room is allocated before it is written.
//!
//! Costs: two records a call, a reading of the clock each; a system call for each MiB.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::archive::{Access, Atomic, Collective};
use crate::definitions::Role;

pub const HEADER_BYTES: usize = 4096;
pub const RECORD_BYTES: usize = 32;
/// Bytes that are allocated and mapped at once.
const WINDOW_BYTES: usize = 1 << 20;
/// "SELVCAL" and the version of the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SELVCAL\x01");
pub const HOST_NAME_BYTES: usize = 256;
/// No rank, and no root.
pub const NO_RANK: u32 = u32::MAX;

/// The first byte of a record.
pub mod kind {
    pub const NAME: u8 = 1;
    pub const CLASS: u8 = 2;
    pub const ENTER: u8 = 3;
    /// The start of a collective call of all ranks.
    pub const ENTER_ALL: u8 = 4;
    pub const LEAVE: u8 = 5;
}

/// The effect of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None that other ranks see.
    Plain(Role),
    /// An operation on another rank's memory; `blocking`: it is complete here when the call returns.
    Access {
        access: Access,
        blocking: bool,
    },
    Collective(Collective),
}

/// The class of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    pub effect: Effect,
    /// It completes the operations that were started before.
    pub completes: bool,
}

/// A function whose calls are recorded. One static of each exists in a process.
pub struct Function {
    pub name: &'static str,
    pub class: Class,
    /// From 1, in order of first calls; 0: not called yet.
    number: AtomicU32,
}

static NUMBERS: AtomicU32 = AtomicU32::new(1);
/// Whether this process is a child of the one that has made the recordings.
static IS_CHILD: AtomicBool = AtomicBool::new(false);
static WATCHES_FORKS: Once = Once::new();

extern "C" fn forked() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

impl Function {
    pub const fn new(name: &'static str, class: Class) -> Function {
        Function { name, class, number: AtomicU32::new(0) }
    }

    fn number(&self) -> u32 {
        let known = self.number.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let new = NUMBERS.fetch_add(1, Ordering::Relaxed);
        match self.number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new,
            Err(other) => other,
        }
    }
}

/// Arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The target, or the root of a collective operation; or [`NO_RANK`].
    pub rank: u32,
    /// Bytes that go to the target, or that this rank contributes.
    pub sent: u64,
    pub received: u64,
    /// All ranks take part in the collective operation.
    pub all: bool,
}

impl Arguments {
    pub const NONE: Arguments = Arguments { rank: NO_RANK, sent: 0, received: 0, all: false };
}

const ATOMICS: [Atomic; 7] = [
    Atomic::Accumulate,
    Atomic::Increment,
    Atomic::CompareAndSwap,
    Atomic::Swap,
    Atomic::FetchAndAdd,
    Atomic::FetchAndIncrement,
    Atomic::FetchAndAccumulate,
];
const COLLECTIVES: [Collective; 8] = [
    Collective::Barrier,
    Collective::Broadcast,
    Collective::AllGather,
    Collective::AllGatherV,
    Collective::AllToAll,
    Collective::AllReduce,
    Collective::Scan,
    Collective::ExclusiveScan,
];
const ROLES: [Role; 13] = [
    Role::Function,
    Role::Code,
    Role::Atomic,
    Role::Barrier,
    Role::OneToAll,
    Role::AllToAll,
    Role::OtherCollective,
    Role::PointToPoint,
    Role::Rma,
    Role::DataTransfer,
    Role::Allocate,
    Role::Deallocate,
    Role::Reallocate,
];

fn place<T: PartialEq>(all: &[T], one: &T) -> u32 {
    all.iter().position(|each| each == one).unwrap_or(0) as u32
}

impl Class {
    pub const fn plain(role: Role) -> Class {
        Class { effect: Effect::Plain(role), completes: false }
    }

    /// The role of the function as a region.
    pub fn role(self) -> Role {
        match self.effect {
            Effect::Plain(role) => role,
            Effect::Access { access: Access::Atomic(_), .. } => Role::Atomic,
            Effect::Access { .. } => Role::Rma,
            Effect::Collective(Collective::Barrier) => Role::Barrier,
            Effect::Collective(Collective::Broadcast) => Role::OneToAll,
            Effect::Collective(Collective::Scan | Collective::ExclusiveScan) => Role::OtherCollective,
            Effect::Collective(_) => Role::AllToAll,
        }
    }

    /// The class as a word: effect, its detail, and flags.
    pub(crate) fn code(self) -> u32 {
        let (effect, detail, blocking) = match self.effect {
            Effect::Plain(role) => (0, place(&ROLES, &role), false),
            Effect::Access { access: Access::Put, blocking } => (1, 0, blocking),
            Effect::Access { access: Access::Get, blocking } => (2, 0, blocking),
            Effect::Access { access: Access::Atomic(atomic), blocking } => (3, place(&ATOMICS, &atomic), blocking),
            Effect::Collective(collective) => (4, place(&COLLECTIVES, &collective), false),
        };
        effect | detail << 8 | u32::from(blocking) << 16 | u32::from(self.completes) << 17
    }

    /// The class of a word; `None` for one that no class has.
    pub(crate) fn of_code(code: u32) -> Option<Class> {
        let (detail, blocking) = ((code >> 8 & 0xff) as usize, code >> 16 & 1 != 0);
        let effect = match code & 0xff {
            0 => Effect::Plain(*ROLES.get(detail)?),
            1 => Effect::Access { access: Access::Put, blocking },
            2 => Effect::Access { access: Access::Get, blocking },
            3 => Effect::Access { access: Access::Atomic(*ATOMICS.get(detail)?), blocking },
            4 => Effect::Collective(*COLLECTIVES.get(detail)?),
            _ => return None,
        };
        Some(Class { effect, completes: code >> 17 & 1 != 0 })
    }
}

/// The folder of the recordings of an archive.
pub fn calls_folder(archive: &Path) -> PathBuf {
    archive.join("calls")
}

/// Nanoseconds of a clock of the system.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The clock of the records.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// A thread of a job's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    pub rank: u32,
    pub size: u32,
    /// From 0, in order of first calls.
    pub number: u32,
}

/// The recording of one thread.
pub struct Stream {
    file: File,
    /// The mapped window; null: the recording has ended.
    window: *mut u8,
    /// Offset of the window in the file, and of the next record in the window.
    window_at: usize,
    at: usize,
    /// By number of the function, whether the file names it.
    named: Vec<bool>,
    /// Numbers of the functions that have been entered and not left.
    open: Vec<u32>,
}

impl Stream {
    /// Makes the file of a thread in the folder of recordings, which exists.
    ///
    /// # Errors
    /// The file exists, or the disk is full.
    pub fn create(folder: &Path, thread: Thread) -> io::Result<Stream> {
        WATCHES_FORKS.call_once(|| {
            // SAFETY: `forked` stores to an atomic, which is allowed in a child of any process.
            unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        });
        let path = folder.join(format!("rank{:07}.thread{:04}", thread.rank, thread.number));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let mut stream =
            Stream { file, window: std::ptr::null_mut(), window_at: 0, at: 0, named: Vec::new(), open: Vec::new() };
        stream.map(0)?;
        let mut header = [0; HEADER_BYTES];
        // The two clocks as close to each other as can be.
        let (realtime, monotonic) = (clock_ns(libc::CLOCK_REALTIME), now_ns());
        let ids = u64::from(thread.rank) | u64::from(thread.size) << 32;
        let words = [MAGIC, ids, u64::from(thread.number), monotonic, realtime];
        for (place, word) in header.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let name = &mut header[64..64 + HOST_NAME_BYTES];
        // SAFETY: the call writes at most this many bytes; the last stays 0.
        unsafe { libc::gethostname(name.as_mut_ptr().cast(), HOST_NAME_BYTES - 1) };
        // SAFETY: the window is mapped and larger than the header.
        unsafe { std::ptr::copy_nonoverlapping(header.as_ptr(), stream.window, HEADER_BYTES) };
        stream.at = HEADER_BYTES;
        Ok(stream)
    }

    /// Allocates and maps the window at an offset.
    fn map(&mut self, offset: usize) -> io::Result<()> {
        self.unmap();
        let descriptor = self.file.as_raw_fd();
        // SAFETY: the descriptor is open. The call allocates room, so that no store finds the disk full.
        let failed = unsafe { libc::posix_fallocate(descriptor, offset as i64, WINDOW_BYTES as i64) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        let (null, access) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping of room that the file has.
        let window =
            unsafe { libc::mmap(null, WINDOW_BYTES, access, libc::MAP_SHARED, descriptor, offset as libc::off_t) };
        if window == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        (self.window, self.window_at, self.at) = (window.cast(), offset, 0);
        Ok(())
    }

    fn unmap(&mut self) {
        if !self.window.is_null() {
            // SAFETY: the window is mapped with this length, and not used again.
            unsafe { libc::munmap(self.window.cast(), WINDOW_BYTES) };
            self.window = std::ptr::null_mut();
        }
    }

    fn push(&mut self, first: u64, others: [u64; 3]) {
        if self.window.is_null() || IS_CHILD.load(Ordering::Relaxed) {
            return;
        }
        if self.at == WINDOW_BYTES {
            let next = self.window_at + WINDOW_BYTES;
            if let Err(error) = self.map(next) {
                eprintln!("selvedge: the recording of calls has ended: {error}; give SELVEDGE_OTF2 a folder with room");
                return;
            }
        }
        // SAFETY: the window is mapped, and `at` is a multiple of the record's size below its end. Only this thread
        // writes there. Release: a reader after a kill sees the other words if it sees the first.
        unsafe {
            let record = self.window.add(self.at).cast::<u64>();
            for (index, word) in others.into_iter().enumerate() {
                record.add(index + 1).write(word.to_le());
            }
            AtomicU64::from_ptr(record).store(first.to_le(), Ordering::Release);
        }
        self.at += RECORD_BYTES;
    }

    fn name(&mut self, number: u32, function: &Function) {
        let index = number as usize;
        if self.named.get(index).copied().unwrap_or(false) {
            return;
        }
        self.named.resize(self.named.len().max(index + 1), false);
        self.named[index] = true;
        let length = function.name.len() as u32;
        for part in function.name.as_bytes().chunks(RECORD_BYTES - 8) {
            let mut bytes = [0; RECORD_BYTES - 8];
            bytes[..part.len()].copy_from_slice(part);
            let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]));
            self.push(first_word(kind::NAME, number, length), [word(0), word(1), word(2)]);
        }
        self.push(first_word(kind::CLASS, number, function.class.code()), [0; 3]);
    }

    /// Records the start of a call.
    pub fn enter(&mut self, time_ns: u64, function: &Function, arguments: &Arguments) {
        let number = function.number();
        self.name(number, function);
        self.open.push(number);
        let kind = if arguments.all { kind::ENTER_ALL } else { kind::ENTER };
        self.push(first_word(kind, number, arguments.rank), [time_ns, arguments.sent, arguments.received]);
    }

    /// Records the end of the last call that has started.
    pub fn leave(&mut self, time_ns: u64) {
        if let Some(number) = self.open.pop() {
            self.push(first_word(kind::LEAVE, number, 0), [time_ns, 0, 0]);
        }
    }

    /// Ends the calls that have not ended, and the recording.
    pub fn end(&mut self) {
        while !self.open.is_empty() {
            self.leave(now_ns());
        }
        if !self.window.is_null() {
            let length = self.window_at + self.at;
            self.unmap();
            if IS_CHILD.load(Ordering::Relaxed) {
                return;
            }
            // A longer file ends with records of 0, which mean the same.
            let _ = self.file.set_len(length as u64);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end();
    }
}

fn first_word(kind: u8, function: u32, rank: u32) -> u64 {
    u64::from(kind) | u64::from(function & 0xff_ffff) << 8 | u64::from(rank) << 32
}
