// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers as a directory tree, as EXTOLL's driver had them in sysfs (seed 002, section 8.1.2).
//!
//! ```text
//! DIR/JOB/RANK.NI/version
//! DIR/JOB/RANK.NI/portals/requests
//! DIR/JOB/RANK.NI/velo_tables/mailbox_write_pointers/3
//! DIR/JOB/RANK.NI/velo_tables/mailbox_interrupts/3/mask
//! DIR/JOB/RANK.NI/links/0/puts
//! ```
//!
//! Each file holds a decimal number and a newline. Invariants
//! 1. A file is replaced by a rename, so a reader finds the whole old value or the whole new one.
//! 2. A directory with other contents is refused and not changed. A file of its own marks a tree.
//! 3. The directory of a NIC exists while its segment does. It always has the file `version`; only directories with
//!    that file are removed.
//!
//! Cost: a file and a rename for each value that has changed since the last update.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::select::{RegisterArgument, RegisterName, VERSION};
use super::values::{Reading, readings};
use selvedge_host::snapshot::{JobSnapshot, NicSnapshot, Snapshot};

const MARK: &str = ".selvedge-registers";
const NEW: &str = ".new";

/// A tree and its contents.
pub struct Tree {
    directory: PathBuf,
    /// The value of each file of this run.
    written: BTreeMap<PathBuf, u64>,
}

impl Tree {
    /// Opens a new tree, or one of an earlier run.
    pub fn open(directory: &Path) -> Result<Tree> {
        let place = || directory.display().to_string();
        fs::create_dir_all(directory).with_context(place)?;
        let mark = directory.join(MARK);
        let is_empty = fs::read_dir(directory).with_context(place)?.next().is_none();
        if !is_empty && !mark.is_file() {
            bail!("{}: this directory has other contents; give an empty or new one for the tree", place());
        }
        fs::write(&mark, "Made by `selvedge registers --tree`.\n").with_context(|| mark.display().to_string())?;
        Ok(Tree { directory: directory.to_owned(), written: BTreeMap::new() })
    }

    /// Updates the tree to the snapshot. The directory of a vanished NIC is removed.
    pub fn update(&mut self, snapshot: &Snapshot, words: &[RegisterArgument]) -> Result<()> {
        let mut present = BTreeSet::new();
        for job in &snapshot.jobs {
            for nic in &job.nics {
                let place = self.directory.join(&job.name).join(nic_name(job, nic));
                self.update_nic(&place, job, nic, words)?;
                present.insert(place);
            }
        }
        self.remove_all_but(&present)
    }

    fn update_nic(
        &mut self,
        place: &Path,
        job: &JobSnapshot,
        nic: &NicSnapshot,
        words: &[RegisterArgument],
    ) -> Result<()> {
        self.store(place.join(VERSION), nic.seen.version())?;
        for reading in readings(job, nic, words) {
            if reading.register != RegisterName::Version {
                self.store(place.join(file_of(&reading)), reading.value)?;
            }
        }
        Ok(())
    }

    fn store(&mut self, path: PathBuf, value: u64) -> Result<()> {
        if self.written.get(&path) == Some(&value) {
            return Ok(());
        }
        let name = || path.display().to_string();
        let folder = path.parent().unwrap_or(&self.directory);
        let new = folder.join(NEW);
        let text = format!("{value}\n");
        match fs::write(&new, &text) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(folder).with_context(name)?;
                fs::write(&new, &text).with_context(name)?;
            }
            written => written.with_context(name)?,
        }
        fs::rename(&new, &path).with_context(name)?;
        self.written.insert(path, value);
        Ok(())
    }

    fn remove_all_but(&mut self, present: &BTreeSet<PathBuf>) -> Result<()> {
        for job in folders(&self.directory) {
            for nic in folders(&job) {
                if !present.contains(&nic) && nic.join(VERSION).is_file() {
                    fs::remove_dir_all(&nic).with_context(|| nic.display().to_string())?;
                    self.written.retain(|path, _| !path.starts_with(&nic));
                }
            }
            // Fails while the job has NICs, or files that are not ours.
            let _ = fs::remove_dir(&job);
        }
        Ok(())
    }
}

/// The subdirectories of a directory, without links.
fn folders(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// Rank and number of the NIC. If two NICs of a job share both, the process id is added.
fn nic_name(job: &JobSnapshot, nic: &NicSnapshot) -> String {
    let name = |nic: &NicSnapshot| format!("{}.{}", nic.seen.rank, nic.seen.ni);
    let own = name(nic);
    if job.nics.iter().filter(|other| name(other) == own).count() > 1 { format!("{own}.{}", nic.seen.pid) } else { own }
}

/// The file of a value: its unit, its name, and its index after the name or after the group.
fn file_of(reading: &Reading) -> PathBuf {
    let name = reading.register.to_string();
    let (group, part) = name.split_once('.').map_or((name.as_str(), None), |(group, part)| (group, Some(part)));
    let unit = reading.register.unit();
    // The groups of links and blocked messages have the name of their unit.
    let mut path = if group == unit { PathBuf::from(unit) } else { Path::new(unit).join(group) };
    path.extend(reading.index.map(|index| index.to_string()));
    path.extend(part);
    path
}

#[cfg(test)]
mod tests {
    use selvedge_host::links::read::LinkCounter;
    use selvedge_nic::Register;
    use selvedge_nic::registers::TableRegister;

    use super::*;

    #[test]
    fn each_value_has_a_file() {
        for (register, index, file) in [
            (RegisterName::Counter(Register::Requests), None, "portals/requests"),
            (RegisterName::Table(TableRegister::MailboxSizes), Some(3), "velo_tables/mailbox_sizes/3"),
            (
                RegisterName::Table(TableRegister::MailboxInterruptsMask),
                Some(3),
                "velo_tables/mailbox_interrupts/3/mask",
            ),
            (RegisterName::Table(TableRegister::LockBase), None, "rma_tables/lock_base"),
            (RegisterName::Link(LinkCounter::Puts), Some(4), "links/4/puts"),
        ] {
            assert_eq!(file_of(&Reading { register, index, value: 0 }), Path::new(file));
        }
    }

    #[test]
    fn a_directory_of_others_is_refused_and_stays_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("letter"), "mine").expect("written");
        let said = Tree::open(folder.path()).err().expect("refused").to_string();
        assert!(said.contains("other contents"), "{said}");
        let left: Vec<_> =
            fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["letter"]);
    }

    #[test]
    fn only_directories_of_nics_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("tree");
        let mut tree = Tree::open(&place).expect("new");
        for (name, file) in [("gone/0.2", "version"), ("gone/other", "file"), ("ended/1.0", "version")] {
            fs::create_dir_all(place.join(name).join("velo")).expect("made");
            fs::write(place.join(name).join(file), "9\n").expect("written");
        }
        tree.remove_all_but(&BTreeSet::new()).expect("ours");
        assert!(place.join("gone/other/file").is_file());
        assert!(!place.join("gone/0.2").exists() && !place.join("ended").exists());
        drop(tree);
        Tree::open(&place).expect("a tree of an earlier run");
    }
}
