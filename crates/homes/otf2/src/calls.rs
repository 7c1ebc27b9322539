// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An archive made from the recordings of a job's threads.
//!
//! Each rank is a process with a location for each thread that has called the library, each function a region. Puts,
//! gets and atomics are OTF2's events of remote memory access, in one window; collective operations of all ranks have
//! their begin and end.
//!
//! Invariants
//! 1. Times of one host differ by what its clock says. Hosts are aligned by their time of day at the start of their
//!    lowest rank.
//! 2. A call that has not ended, because its program was killed, ends with the last event of its thread.
//! 3. The recordings are removed once the archive is complete.
//!
//! Costs: reads each file twice; one file in memory at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::archive::{About, Archive, ArchiveError, Completion, Events, NO_ROOT};
use crate::definitions::{Clock, Definitions, GroupKind, Location, LocationGroup, Paradigm, Region, TreeNode, Window};
use crate::recording::{
    Class, Effect, HEADER_BYTES, HOST_NAME_BYTES, MAGIC, NO_RANK, RECORD_BYTES, calls_folder, kind,
};

/// Counts of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    pub ranks: u32,
    /// Ranks without a recording.
    pub missing: Vec<u32>,
    pub calls: u64,
    /// Calls that had not ended.
    pub cut: u64,
}

impl Made {
    /// A remark on an archive that does not hold everything.
    pub fn remark(&self, folder: &Path) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(first) = self.missing.first() {
            let count = self.missing.len();
            parts.push(format!(
                "it has no calls of {count} of {} PEs, the first PE {first}: they wrote to another folder, or called nothing; \
                 hosts must share the folder",
                self.ranks
            ));
        }
        match self.cut {
            0 => {}
            1 => parts.push("one call had not ended".to_owned()),
            cut => parts.push(format!("{cut} calls had not ended")),
        }
        (!parts.is_empty()).then(|| format!("{}: {}", folder.display(), parts.join("; ")))
    }
}

/// The recording of a thread.
struct Recorded {
    path: PathBuf,
    rank: u32,
    size: u32,
    thread: u32,
    /// Monotonic clock and time of day at its start, in nanoseconds.
    monotonic: u64,
    realtime: u64,
    host: String,
    functions: BTreeMap<u32, (String, Class)>,
    /// Times of its first and last record.
    times: Option<(u64, u64)>,
}

struct Record {
    kind: u8,
    function: u32,
    /// The rank, or another number.
    number: u32,
    words: [u64; 3],
}

fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * index + byte]))
}

fn records(bytes: &[u8]) -> impl Iterator<Item = Record> {
    let records = bytes.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(RECORD_BYTES);
    records.take_while(|record| word(record, 0) != 0).map(|record| {
        let first = word(record, 0);
        Record {
            kind: first as u8,
            function: (first >> 8) as u32 & 0xff_ffff,
            number: (first >> 32) as u32,
            words: [word(record, 1), word(record, 2), word(record, 3)],
        }
    })
}

/// Reads the header and the names of a recording. `None`: the file is none, or belongs to another version.
fn read(path: PathBuf) -> io::Result<Option<Recorded>> {
    let bytes = fs::read(&path)?;
    if bytes.len() < HEADER_BYTES || word(&bytes, 0) != MAGIC {
        return Ok(None);
    }
    let name = &bytes[64..64 + HOST_NAME_BYTES];
    let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())];
    let mut recorded = Recorded {
        rank: word(&bytes, 1) as u32,
        size: (word(&bytes, 1) >> 32) as u32,
        thread: word(&bytes, 2) as u32,
        monotonic: word(&bytes, 3),
        realtime: word(&bytes, 4),
        host: String::from_utf8_lossy(name).into_owned(),
        functions: BTreeMap::new(),
        times: None,
        path,
    };
    let mut names: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for record in records(&bytes) {
        match record.kind {
            kind::NAME => {
                let name = names.entry(record.function).or_default();
                name.extend(record.words.iter().flat_map(|word| word.to_le_bytes()));
                name.truncate(record.number as usize);
            }
            kind::CLASS => {
                let name = names.remove(&record.function).unwrap_or_default();
                let name = String::from_utf8_lossy(&name).into_owned();
                if let Some(class) = Class::of_code(record.number) {
                    recorded.functions.insert(record.function, (name, class));
                }
            }
            _ => {
                let time = record.words[0];
                let (first, last) = recorded.times.unwrap_or((time, time));
                recorded.times = Some((first.min(time), last.max(time)));
            }
        }
    }
    Ok(Some(recorded))
}

fn recordings(folder: &Path) -> Result<Vec<Recorded>, ArchiveError> {
    let failed = |path: &Path, cause| ArchiveError::Folder { path: path.to_owned(), cause };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(folder, error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        found.extend(read(path.clone()).map_err(|error| failed(&path, error))?);
    }
    found.sort_by_key(|recorded| (recorded.rank, recorded.thread));
    Ok(found)
}

/// Makes the archive of a folder from the recordings in it. `None`: there are none.
///
/// # Errors
/// The folder cannot be read or written, or there is no OTF2 library.
pub fn make(folder: &Path, description: &str) -> Result<Option<Made>, ArchiveError> {
    let calls = calls_folder(folder);
    let recorded = recordings(&calls)?;
    let Some(first) = recorded.first() else { return Ok(None) };
    let hosts: Vec<String> =
        recorded.iter().map(|each| each.host.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    let machine = if hosts.len() == 1 { hosts[0].clone() } else { format!("{} hosts", hosts.len()) };
    let mut archive = Archive::create(folder, About { machine: &machine, description })?;
    let regions: BTreeSet<Region> = recorded.iter().flat_map(|each| each.functions.values()).map(region).collect();
    let regions: Vec<Region> = regions.into_iter().collect();
    // From the clock of each host to the time of day.
    let mut offsets: BTreeMap<&str, u64> = BTreeMap::new();
    for each in &recorded {
        offsets.entry(&each.host).or_insert(each.realtime.wrapping_sub(each.monotonic));
    }
    let mut made = Made { ranks: first.size, ..Made::default() };
    let mut definitions = start(&machine, &hosts);
    let mut bounds: Option<(u64, u64)> = None;
    let mut waiting = recorded.iter().peekable();
    for rank in 0..first.size {
        let threads: Vec<&Recorded> = std::iter::from_fn(|| waiting.next_if(|each| each.rank <= rank)).collect();
        let host = threads.first().map_or(0, |each| 1 + hosts.iter().position(|host| *host == each.host).unwrap_or(0));
        let group = definitions.groups.len() as u32;
        definitions.groups.push(LocationGroup {
            name: format!("PE {rank}"),
            kind: GroupKind::Process,
            node: host as u32,
        });
        definitions.window.members.push(definitions.locations.len() as u64);
        if threads.is_empty() {
            made.missing.push(rank);
            archive.write_events(definitions.locations.len() as u64, |_| Ok(()))?;
            definitions.locations.push(Location { name: format!("PE {rank}"), group, events: 0 });
        }
        for each in threads {
            let offset = offsets.get(each.host.as_str()).copied().unwrap_or(0);
            if let Some((first, last)) = each.times {
                let (first, last) = (first.wrapping_add(offset), last.wrapping_add(offset));
                let (from, to) = bounds.unwrap_or((first, last));
                bounds = Some((from.min(first), to.max(last)));
            }
            let location = definitions.locations.len() as u64;
            let name = match each.thread {
                0 => format!("PE {rank}"),
                thread => format!("PE {rank}, thread {thread}"),
            };
            let failed = |cause| ArchiveError::Folder { path: each.path.clone(), cause };
            let bytes = fs::read(&each.path).map_err(failed)?;
            let events = archive.write_events(location, |events| {
                let mut writer = ThreadWriter {
                    recorded: each,
                    regions: &regions,
                    offset,
                    events,
                    open: Vec::new(),
                    pending: Vec::new(),
                    next: 0,
                };
                let (calls, cut) = writer.write(&bytes)?;
                made.calls += calls;
                made.cut += cut;
                Ok(())
            })?;
            definitions.locations.push(Location { name, group, events });
        }
    }
    definitions.regions = regions;
    if let Some((first, last)) = bounds {
        definitions.clock = Clock { first, length: last - first, realtime_ns: first, ..definitions.clock };
    }
    archive.finish(&definitions)?;
    let failed = |cause| ArchiveError::Folder { path: calls.clone(), cause };
    for each in &recorded {
        fs::remove_file(&each.path).map_err(failed)?;
    }
    // Files of others keep the folder.
    let _ = fs::remove_dir(&calls);
    Ok(Some(made))
}

fn region((name, class): &(String, Class)) -> Region {
    Region { name: name.clone(), role: class.role(), paradigm: Paradigm::Shmem }
}

/// Definitions without processes.
fn start(machine: &str, hosts: &[String]) -> Definitions {
    let root = TreeNode { name: machine.to_owned(), class: "machine", parent: None };
    let node = |host: &String| TreeNode { name: host.clone(), class: "node", parent: Some(0) };
    Definitions {
        clock: Clock { ticks_per_second: 1_000_000_000, first: 0, length: 0, realtime_ns: u64::MAX },
        tree: std::iter::once(root).chain(hosts.iter().map(node)).collect(),
        groups: Vec::new(),
        locations: Vec::new(),
        regions: Vec::new(),
        window: Window { name: "symmetric memory".to_owned(), members: Vec::new() },
    }
}

/// A call that has not ended.
struct Open {
    region: u32,
    class: Class,
    /// Number of its operation, if it has one.
    operation: Option<u64>,
    /// Root and bytes, if it is a collective operation of all ranks.
    collective: Option<(u32, (u64, u64))>,
}

struct ThreadWriter<'a, 'b, 'c> {
    recorded: &'a Recorded,
    regions: &'a [Region],
    offset: u64,
    events: &'b mut Events<'c>,
    /// `None`: a call of a function that the file does not name.
    open: Vec<Option<Open>>,
    /// Operations that a later call completes.
    pending: Vec<u64>,
    next: u64,
}

impl ThreadWriter<'_, '_, '_> {
    /// Writes the events of the thread. Returns the number of calls, and of those that had not ended.
    fn write(&mut self, bytes: &[u8]) -> Result<(u64, u64), ArchiveError> {
        let (mut calls, mut last) = (0, 0);
        for record in records(bytes) {
            let time = record.words[0].wrapping_add(self.offset);
            match record.kind {
                kind::ENTER | kind::ENTER_ALL => {
                    calls += u64::from(self.enter(time, &record)?);
                    last = time;
                }
                kind::LEAVE => {
                    self.leave(time)?;
                    last = time;
                }
                _ => {}
            }
        }
        let cut = self.open.len() as u64;
        while !self.open.is_empty() {
            self.leave(last)?;
        }
        Ok((calls, cut))
    }

    /// Returns whether the file names the function, as it does unless it is damaged.
    fn enter(&mut self, time: u64, record: &Record) -> Result<bool, ArchiveError> {
        let function = self.recorded.functions.get(&record.function);
        let place = function.and_then(|function| self.regions.binary_search(&region(function)).ok());
        let (Some(&(_, class)), Some(place)) = (function, place) else {
            self.open.push(None);
            return Ok(false);
        };
        let bytes = (record.words[1], record.words[2]);
        self.events.enter(time, place as u32, &[])?;
        let mut open = Open { region: place as u32, class, operation: None, collective: None };
        match class.effect {
            Effect::Access { access, .. } if record.number < self.recorded.size => {
                self.events.access(time, access, record.number, bytes, self.next)?;
                open.operation = Some(self.next);
                self.next += 1;
            }
            Effect::Collective(_) if record.kind == kind::ENTER_ALL => {
                self.events.begin_collective(time)?;
                let root = if record.number == NO_RANK { NO_ROOT } else { record.number };
                open.collective = Some((root, bytes));
            }
            _ => {}
        }
        self.open.push(Some(open));
        Ok(true)
    }

    fn leave(&mut self, time: u64) -> Result<(), ArchiveError> {
        let Some(open) = self.open.pop().flatten() else { return Ok(()) };
        match (open.class.effect, open.operation, open.collective) {
            (Effect::Access { blocking: true, .. }, Some(operation), _) => {
                self.events.complete(time, Completion::Blocking, operation)?;
            }
            (Effect::Access { blocking: false, .. }, Some(operation), _) => self.pending.push(operation),
            (Effect::Collective(collective), _, Some((root, bytes))) => {
                self.events.end_collective(time, collective, root, bytes)?;
            }
            _ => {}
        }
        if open.class.completes {
            for operation in std::mem::take(&mut self.pending) {
                self.events.complete(time, Completion::NonBlocking, operation)?;
            }
        }
        self.events.leave(time, open.region)
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
