// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Global definitions of an archive: its clock, the tree of the system, processes and their locations, regions, and
//! the window of remote memory access.
//!
//! A definition is known by its index in its list; a location by its index, too. Rank r's operations name their target
//! by its index in [`Window::members`].
//!
//! Costs: each string is written once.

use std::collections::BTreeMap;
use std::ffi::CString;

use crate::archive::{Archive, ArchiveError};
use crate::library::{ErrorCode, GlobalWriter, Library};

const UNDEFINED: u32 = u32::MAX;
/// `OTF2_TYPE_UINT64`
const TYPE_UINT64: u8 = 4;
/// `OTF2_PARADIGM_CLASS_PROCESS`, `_ACCELERATOR`
const CLASS_PROCESS: u8 = 0;
const CLASS_ACCELERATOR: u8 = 3;
/// `OTF2_GROUP_TYPE_COMM_LOCATIONS`, `_COMM_GROUP`
const GROUP_COMM_LOCATIONS: u8 = 4;
const GROUP_COMM_GROUP: u8 = 5;

/// The names of the attributes of enter events, in order of their numbers.
pub const ATTRIBUTES: [(&str, &str); 2] =
    [("message", "number of the message that the unit works on"), ("bytes", "payload of the message, in bytes")];

/// The clock of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    pub ticks_per_second: u64,
    /// The time of the first event, in ticks.
    pub first: u64,
    /// The time from the first to the last event, in ticks.
    pub length: u64,
    /// The time of day at `first`, in nanoseconds since 1970; `u64::MAX`: none, as in virtual time.
    pub realtime_ns: u64,
}

/// A node of the system's tree: the machine, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    pub name: String,
    pub class: &'static str,
    pub parent: Option<u32>,
}

/// `OTF2_LocationGroupType`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GroupKind {
    Process = 1,
    Accelerator = 2,
}

/// A process, or the units of a NIC or a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationGroup {
    pub name: String,
    pub kind: GroupKind,
    pub node: u32,
}

/// A stream of events: a thread of a process, or a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub name: String,
    pub group: u32,
    /// The number of its events, which [`Archive::write_events`] returns.
    pub events: u64,
}

/// `OTF2_Paradigm`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Paradigm {
    User = 1,
    Hardware = 10,
    Shmem = 13,
}

/// `OTF2_RegionRole`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    Function = 1,
    Code = 4,
    Atomic = 14,
    Barrier = 15,
    OneToAll = 23,
    AllToAll = 25,
    OtherCollective = 26,
    PointToPoint = 28,
    Rma = 29,
    DataTransfer = 30,
    Artificial = 31,
    Allocate = 35,
    Deallocate = 36,
    Reallocate = 37,
}

/// A part of a program, or the work of a unit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region {
    pub name: String,
    pub role: Role,
    pub paradigm: Paradigm,
}

/// The memory that ranks reach by remote memory access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub name: String,
    /// The location of each rank.
    pub members: Vec<u64>,
}

/// All global definitions of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definitions {
    pub clock: Clock,
    pub tree: Vec<TreeNode>,
    pub groups: Vec<LocationGroup>,
    pub locations: Vec<Location>,
    pub regions: Vec<Region>,
    pub window: Window,
}

impl Definitions {
    /// Writes the definitions.
    pub(crate) fn write(&self, archive: &Archive, to: *mut GlobalWriter) -> Result<(), ArchiveError> {
        let mut writer = Writer { archive, to, strings: BTreeMap::new() };
        let library = archive.library();
        writer.clock(library, self.clock)?;
        for (paradigm, name, class) in [
            (Paradigm::User, "program", CLASS_PROCESS),
            (Paradigm::Hardware, "hardware", CLASS_ACCELERATOR),
            (Paradigm::Shmem, "SHMEM", CLASS_PROCESS),
        ] {
            let name = writer.string(name)?;
            // SAFETY: the writer is the archive's, and open.
            writer.done(unsafe { (library.define_paradigm)(to, paradigm as u8, name, class) })?;
        }
        for (number, (name, description)) in ATTRIBUTES.iter().enumerate() {
            let (name, description) = (writer.string(name)?, writer.string(description)?);
            // SAFETY: as above.
            writer.done(unsafe { (library.define_attribute)(to, number as u32, name, description, TYPE_UINT64) })?;
        }
        for (number, node) in self.tree.iter().enumerate() {
            let (name, class) = (writer.string(&node.name)?, writer.string(node.class)?);
            let parent = node.parent.unwrap_or(UNDEFINED);
            // SAFETY: as above.
            writer.done(unsafe { (library.define_tree_node)(to, number as u32, name, class, parent) })?;
        }
        for (number, group) in self.groups.iter().enumerate() {
            let (name, kind) = (writer.string(&group.name)?, group.kind as u8);
            // SAFETY: as above.
            writer.done(unsafe {
                (library.define_location_group)(to, number as u32, name, kind, group.node, UNDEFINED)
            })?;
        }
        for (number, location) in self.locations.iter().enumerate() {
            let name = writer.string(&location.name)?;
            // The kinds of locations have the numbers of the kinds of their groups: thread, stream.
            let kind = self.groups[location.group as usize].kind as u8;
            // SAFETY: as above.
            writer.done(unsafe {
                (library.define_location)(to, number as u64, name, kind, location.events, location.group)
            })?;
        }
        let empty = writer.string("")?;
        for (number, region) in self.regions.iter().enumerate() {
            let name = writer.string(&region.name)?;
            let (role, paradigm) = (region.role as u8, region.paradigm as u8);
            // SAFETY: as above.
            writer.done(unsafe {
                (library.define_region)(to, number as u32, name, name, empty, role, paradigm, 0, empty, 0, 0)
            })?;
        }
        writer.window(library, &self.window)
    }
}

struct Writer<'a> {
    archive: &'a Archive,
    to: *mut GlobalWriter,
    strings: BTreeMap<String, u32>,
}

impl Writer<'_> {
    fn done(&self, code: ErrorCode) -> Result<(), ArchiveError> {
        self.archive.done("its definitions", code)
    }

    /// Returns the number of a string, which is defined once.
    fn string(&mut self, text: &str) -> Result<u32, ArchiveError> {
        if let Some(&number) = self.strings.get(text) {
            return Ok(number);
        }
        let number = self.strings.len() as u32;
        // A name with a zero is cut there.
        let c_text = CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default();
        // SAFETY: the writer is the archive's, and open; the text is a C string.
        self.done(unsafe { (self.archive.library().define_string)(self.to, number, c_text.as_ptr()) })?;
        self.strings.insert(text.to_owned(), number);
        Ok(number)
    }

    fn clock(&self, library: &Library, clock: Clock) -> Result<(), ArchiveError> {
        let Clock { ticks_per_second, first, length, realtime_ns } = clock;
        // SAFETY: as in `string`.
        self.done(unsafe { (library.define_clock)(self.to, ticks_per_second, first, length, realtime_ns) })
    }

    /// Defines the locations that communicate, all of them as a communicator, and its window.
    fn window(&mut self, library: &Library, window: &Window) -> Result<(), ArchiveError> {
        let (to, count, shmem) = (self.to, window.members.len() as u32, Paradigm::Shmem as u8);
        let ranks: Vec<u64> = (0..u64::from(count)).collect();
        let (name, empty) = (self.string(&window.name)?, self.string("")?);
        let groups = [(GROUP_COMM_LOCATIONS, &window.members), (GROUP_COMM_GROUP, &ranks)];
        for (number, (kind, members)) in groups.into_iter().enumerate() {
            // SAFETY: as in `string`; `members` has `count` numbers.
            self.done(unsafe {
                (library.define_group)(to, number as u32, empty, kind, shmem, 0, count, members.as_ptr())
            })?;
        }
        // SAFETY: as in `string`.
        self.done(unsafe { (library.define_communicator)(to, 0, name, 1, UNDEFINED, 0) })?;
        // SAFETY: as in `string`.
        self.done(unsafe { (library.define_window)(to, 0, name, 0, 0) })
    }
}
