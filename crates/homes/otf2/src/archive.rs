// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An archive being written: a folder with the anchor file `traces.otf2`, global definitions, and a file of events for
//! each location.
//!
//! Order of calls: [`Archive::create`], [`Archive::write_events`] for each location, also one without events, since readers
//! expect its file; [`Archive::finish`].
//!
//! Invariants
//! 1. An archive never replaces another: a folder with an anchor file is refused.
//! 2. Events of a location come in order of time, and each enter has its leave.
//! 3. The anchor's identifier, which the library draws from the clock and the host, is replaced by one of the contents.
//!
//! Costs: one location's chunk of events in memory, 1 MiB; 10 to 20 bytes an event on disk.

use std::ffi::{CString, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::definitions::Definitions;
use crate::library::{ArchiveObject, AttributeList, ErrorCode, EventWriter, FlushCallbacks, Library, LoadError};

/// The name of the archive within its folder, as Score-P chooses it.
const NAME: &str = "traces";
const CHUNK_EVENTS: u64 = 1 << 20;
const CHUNK_DEFINITIONS: u64 = 4 << 20;
/// `OTF2_FILEMODE_WRITE`, `OTF2_SUBSTRATE_POSIX`, `OTF2_COMPRESSION_NONE`, `OTF2_FLUSH`
const MODE_WRITE: u8 = 0;
const SUBSTRATE_POSIX: u8 = 1;
const COMPRESSION_NONE: u8 = 1;
const FLUSH: u8 = 1;
/// The only window.
const WINDOW: u32 = 0;

/// Reason why an archive was not written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error(transparent)]
    Library(#[from] LoadError),
    #[error("{} holds an archive already, {}; name another folder, or remove it", .0.display(), anchor_name())]
    Exists(PathBuf),
    #[error("{}: {cause}", .path.display())]
    Folder { path: PathBuf, cause: io::Error },
    #[error("{}: the OTF2 library could not write {what}: {cause}", .path.display())]
    Refused { path: PathBuf, what: &'static str, cause: String },
}

fn anchor_name() -> String {
    format!("{NAME}.otf2")
}

/// The anchor file of the archive in a folder.
pub fn anchor(folder: &Path) -> PathBuf {
    folder.join(anchor_name())
}

/// Checks that a folder can take an archive: it does not exist, or holds none.
///
/// # Errors
/// It holds an archive, or is no folder.
pub fn check_folder(folder: &Path) -> Result<(), ArchiveError> {
    if anchor(folder).exists() || folder.join(NAME).exists() {
        return Err(ArchiveError::Exists(folder.to_owned()));
    }
    match folder.metadata() {
        Ok(found) if !found.is_dir() => {
            let cause = io::Error::new(io::ErrorKind::NotADirectory, "not a folder; name a folder");
            Err(ArchiveError::Folder { path: folder.to_owned(), cause })
        }
        _ => Ok(()),
    }
}

/// Texts of the anchor file.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    pub machine: &'a str,
    pub description: &'a str,
}

/// An open archive.
pub struct Archive {
    library: Library,
    object: *mut ArchiveObject,
    folder: PathBuf,
}

extern "C" fn flush(_: *mut c_void, _: u8, _: u64, _: *mut c_void, _: bool) -> u8 {
    FLUSH
}

/// The library keeps its address.
static FLUSHES: FlushCallbacks = FlushCallbacks { pre: flush, post: None };

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

impl Archive {
    /// Makes an archive in a folder, which is made if it is missing.
    ///
    /// # Errors
    /// The folder has an archive, cannot be made, or there is no OTF2 library.
    pub fn create(folder: &Path, about: About<'_>) -> Result<Archive, ArchiveError> {
        check_folder(folder)?;
        let library = Library::load()?;
        let failed = |cause| ArchiveError::Folder { path: folder.to_owned(), cause };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let path = CString::new(folder.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
        let name = c_string(NAME);
        // SAFETY: the texts are C strings, and the function has this type.
        let object = unsafe {
            (library.open)(
                path.as_ptr(),
                name.as_ptr(),
                MODE_WRITE,
                CHUNK_EVENTS,
                CHUNK_DEFINITIONS,
                SUBSTRATE_POSIX,
                COMPRESSION_NONE,
            )
        };
        if object.is_null() {
            let cause = "see its message above".to_owned();
            return Err(ArchiveError::Refused { path: folder.to_owned(), what: "an archive", cause });
        }
        let archive = Archive { library, object, folder: folder.to_owned() };
        let library = &archive.library;
        let creator = c_string(concat!("Selvedge ", env!("CARGO_PKG_VERSION")));
        let (machine, description) = (c_string(about.machine), c_string(about.description));
        let what = "the archive's start";
        // SAFETY: the archive is open; the callbacks live for ever; the texts are C strings, which the library copies.
        unsafe {
            archive.done(what, (library.set_flush)(object, &FLUSHES, std::ptr::null_mut()))?;
            archive.done(what, (library.set_serial)(object))?;
            archive.done(what, (library.set_creator)(object, creator.as_ptr()))?;
            archive.done(what, (library.set_machine)(object, machine.as_ptr()))?;
            archive.done(what, (library.set_description)(object, description.as_ptr()))?;
            archive.done(what, (library.open_events)(object))?;
        }
        Ok(archive)
    }

    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    pub(crate) fn done(&self, what: &'static str, code: ErrorCode) -> Result<(), ArchiveError> {
        if code == 0 {
            return Ok(());
        }
        let cause = self.library.text_of(code);
        Err(ArchiveError::Refused { path: self.folder.clone(), what, cause })
    }

    /// Writes all events of a location by `write`. Returns their number.
    ///
    /// # Errors
    /// The library refuses an event, as when the disk is full.
    pub fn write_events(
        &mut self,
        location: u64,
        write: impl FnOnce(&mut Events<'_>) -> Result<(), ArchiveError>,
    ) -> Result<u64, ArchiveError> {
        // SAFETY: the archive is open.
        let writer = unsafe { (self.library.event_writer)(self.object, location) };
        // SAFETY: the function takes nothing.
        let attributes = unsafe { (self.library.new_attributes)() };
        if writer.is_null() || attributes.is_null() {
            let cause = "it has no memory left".to_owned();
            return Err(ArchiveError::Refused { path: self.folder.clone(), what: "events", cause });
        }
        let mut events = Events { archive: self, writer, attributes, count: 0 };
        let written = write(&mut events);
        let count = events.count;
        // SAFETY: the list and the writer are of this archive, and not used again.
        let closed = unsafe {
            (self.library.delete_attributes)(attributes);
            (self.library.close_event_writer)(self.object, writer)
        };
        written?;
        self.done("events", closed)?;
        Ok(count)
    }

    /// Writes the definitions and the anchor file.
    ///
    /// # Errors
    /// The library refuses them, as when the disk is full.
    pub fn finish(self, definitions: &Definitions) -> Result<(), ArchiveError> {
        let (library, object) = (&self.library, self.object);
        // SAFETY: the archive is open, each writer is closed once, and the archive is not used after its end.
        unsafe {
            self.done("events", (library.close_events)(object))?;
            // Readers expect a file of local definitions for each location.
            self.done("definitions", (library.open_definitions)(object))?;
            for location in 0..definitions.locations.len() as u64 {
                let writer = (library.definition_writer)(object, location);
                self.done("definitions", (library.close_definition_writer)(object, writer))?;
            }
            self.done("definitions", (library.close_definitions)(object))?;
            let writer = (library.global_writer)(object);
            definitions.write(&self, writer)?;
            self.done("definitions", (library.close_global_writer)(object, writer))?;
            self.done("its anchor", (library.close)(object))?;
        }
        self.replace_identifier()
    }

    /// Replaces the identifier that the library has drawn by a hash of the definitions and events.
    fn replace_identifier(&self) -> Result<(), ArchiveError> {
        let path = anchor(&self.folder);
        let failed = |cause| ArchiveError::Folder { path: path.clone(), cause };
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
        let mut drawn = 0;
        // SAFETY: the name is a C string; the reader is closed once, and `drawn` lives across the call.
        unsafe {
            let reader = (self.library.open_reader)(name.as_ptr());
            if reader.is_null() {
                return Err(failed(io::Error::other("the archive cannot be read back")));
            }
            let read = (self.library.read_identifier)(reader, &mut drawn);
            (self.library.close_reader)(reader);
            self.done("its identifier", read)?;
        }
        let mut bytes = std::fs::read(&path).map_err(failed)?;
        let drawn = drawn.to_ne_bytes();
        let places: Vec<usize> = (0..bytes.len().saturating_sub(7)).filter(|&at| bytes[at..at + 8] == drawn).collect();
        // A form of the file that is not known here keeps the identifier.
        if let [place] = places[..] {
            bytes[place..place + 8].fill(0);
            let mut hash = Hash::default();
            hash.add(&bytes);
            hash.add(&std::fs::read(self.folder.join(format!("{NAME}.def"))).map_err(failed)?);
            bytes[place..place + 8].copy_from_slice(&hash.0.to_ne_bytes());
            std::fs::write(&path, bytes).map_err(failed)?;
        }
        Ok(())
    }
}

/// FNV-1a, 64 bits.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// `OTF2_RmaAtomicType`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Atomic {
    Accumulate = 0,
    Increment = 1,
    CompareAndSwap = 3,
    Swap = 4,
    FetchAndAdd = 5,
    FetchAndIncrement = 6,
    FetchAndAccumulate = 7,
}

/// `OTF2_CollectiveOp`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Collective {
    Barrier = 0,
    Broadcast = 1,
    AllGather = 6,
    AllGatherV = 7,
    AllToAll = 8,
    AllReduce = 11,
    Scan = 14,
    ExclusiveScan = 15,
}

/// Operations of remote memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Put,
    Get,
    Atomic(Atomic),
}

/// Completion of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// At the initiator, when the call that started it returns.
    Blocking,
    /// At the initiator, in a later call.
    NonBlocking,
    /// At the target.
    Remote,
}

/// The number of no root.
pub const NO_ROOT: u32 = u32::MAX;

/// The events of one location. Times are ticks of the archive's clock.
pub struct Events<'a> {
    archive: &'a Archive,
    writer: *mut EventWriter,
    attributes: *mut AttributeList,
    count: u64,
}

impl Events<'_> {
    fn written(&mut self, code: ErrorCode) -> Result<(), ArchiveError> {
        self.count += 1;
        self.archive.done("events", code)
    }

    /// Enters a region. `attributes` are values of [`crate::definitions::ATTRIBUTES`], in their order.
    pub fn enter(&mut self, time: u64, region: u32, attributes: &[u64]) -> Result<(), ArchiveError> {
        let library = &self.archive.library;
        for (number, value) in attributes.iter().enumerate() {
            // SAFETY: the list lives until the location's events are written. Each event empties it.
            let code = unsafe { (library.add_attribute)(self.attributes, number as u32, *value) };
            self.archive.done("events", code)?;
        }
        // SAFETY: the writer is open, and so is the list.
        self.written(unsafe { (library.enter)(self.writer, self.attributes, time, region) })
    }

    pub fn leave(&mut self, time: u64, region: u32) -> Result<(), ArchiveError> {
        // SAFETY: the writer is open; no list is a list without attributes.
        self.written(unsafe { (self.archive.library.leave)(self.writer, std::ptr::null_mut(), time, region) })
    }

    /// Starts an operation towards a rank, with bytes that go there and bytes that come back. `number` connects it with
    /// its completion.
    pub fn access(
        &mut self,
        time: u64,
        access: Access,
        rank: u32,
        (sent, received): (u64, u64),
        number: u64,
    ) -> Result<(), ArchiveError> {
        let (library, to, none) = (&self.archive.library, self.writer, std::ptr::null_mut());
        // SAFETY: the writer is open; no list is a list without attributes.
        let code = unsafe {
            match access {
                Access::Put => (library.put)(to, none, time, WINDOW, rank, sent, number),
                Access::Get => (library.get)(to, none, time, WINDOW, rank, received, number),
                Access::Atomic(kind) => {
                    (library.atomic)(to, none, time, WINDOW, rank, kind as u8, sent, received, number)
                }
            }
        };
        self.written(code)
    }

    pub fn complete(&mut self, time: u64, completion: Completion, number: u64) -> Result<(), ArchiveError> {
        let (library, to, none) = (&self.archive.library, self.writer, std::ptr::null_mut());
        let function = match completion {
            Completion::Blocking => library.complete_blocking,
            Completion::NonBlocking => library.complete_non_blocking,
            Completion::Remote => library.complete_remote,
        };
        // SAFETY: the writer is open; no list is a list without attributes.
        self.written(unsafe { function(to, none, time, WINDOW, number) })
    }

    pub fn begin_collective(&mut self, time: u64) -> Result<(), ArchiveError> {
        // SAFETY: the writer is open; no list is a list without attributes.
        self.written(unsafe { (self.archive.library.collective_begin)(self.writer, std::ptr::null_mut(), time) })
    }

    /// Ends a collective operation of all ranks; `root` is [`NO_ROOT`] for one without.
    pub fn end_collective(
        &mut self,
        time: u64,
        operation: Collective,
        root: u32,
        (sent, received): (u64, u64),
    ) -> Result<(), ArchiveError> {
        // OTF2_RMA_SYNC_LEVEL_PROCESS
        let (function, level) = (self.archive.library.collective_end, 1);
        // SAFETY: the writer is open; no list is a list without attributes.
        self.written(unsafe {
            function(self.writer, std::ptr::null_mut(), time, operation as u8, level, WINDOW, root, sent, received)
        })
    }
}
