// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the transitions of NICs: `SELVEDGE_RECORD` names a folder, and each NIC's transitions go to the file
//! `<nid>.<pid>.<ni>.trace` there ([`selvedge_trace`]).
//!
//! Every process that runs a NIC writes to its file: the owner, its peers, the simulator. Each writes under the NIC's
//! lock, a record by one `write` at the end of the file, so the file has the order in which the transitions took
//! effect.
//!
//! 1. The owner makes the file when it makes its NIC. A process that attaches a NIC without a file records nothing of
//!    it.
//! 2. If a file cannot be written, its recording ends with a message. The program continues.
//!
//! Costs: a tested word for each transition without recording ([`selvedge_nic::tap`]), else a system call for each
//! transition. A recorded NIC gives no grants and no lanes, and no live process stores into mapped memory of peers. So
//! all operations go through NICs, and the trace has them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use selvedge_nic::tap::{Tap, Tapped, Transition};
use selvedge_trace::{Open, Record};

use crate::segment::SegmentHeader;

const FOLDER: &str = "SELVEDGE_RECORD";
const RANK: &str = "SELVEDGE_RECORD_RANK";

struct Wanted {
    folder: PathBuf,
    rank: Option<u32>,
}

static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();

/// Returns the variables with which other processes record as this one does after [`record_to`].
pub fn settings(folder: &Path, rank: Option<u32>) -> Vec<(String, String)> {
    let rank = rank.map(|rank| (RANK.to_owned(), rank.to_string()));
    std::iter::once((FOLDER.to_owned(), folder.display().to_string())).chain(rank).collect()
}

/// Records NICs that this process attaches from now on, whatever its environment says. Only the first call counts.
pub fn record_to(folder: &Path, rank: Option<u32>) {
    let _ = WANTED.set(Some(Wanted { folder: folder.to_owned(), rank }));
}

pub fn is_wanted() -> bool {
    wanted().is_some()
}

fn wanted() -> Option<&'static Wanted> {
    let read = || {
        let folder = selvedge_settings::nonempty(FOLDER)?;
        let rank = selvedge_settings::read(RANK, None, |rank| rank.parse().ok().map(Some));
        Some(Wanted { folder: folder.into(), rank })
    };
    WANTED.get_or_init(read).as_ref()
}

/// Returns the file of a NIC in this folder.
fn file_of(wanted: &Wanted, header: &SegmentHeader) -> PathBuf {
    let SegmentHeader { id, ni, .. } = *header;
    wanted.folder.join(format!("{}.{}.{ni}.trace", id >> 32, id as u32))
}

/// Returns the rank of this process: that of its NIC, else its launcher's. A NIC under MPI does not know it.
fn own_rank(header: &SegmentHeader) -> u32 {
    let said = |name: &&str| std::env::var(name).ok()?.trim().parse().ok();
    let launchers = ["PMI_RANK", "PMIX_RANK", "SELVEDGE_RANK"];
    if header.rank != 0 { header.rank } else { launchers.iter().find_map(said).unwrap_or(0) }
}

/// Begins the trace of a NIC that this process makes. Returns its tap.
pub(crate) fn begin(header: &SegmentHeader) -> Tapped<'static> {
    let rank = own_rank(header);
    let Some(wanted) = wanted().filter(|wanted| wanted.rank.is_none_or(|one| one == rank)) else {
        return Tapped::default();
    };
    let path = file_of(wanted, header);
    match create(&path, header, rank) {
        Ok(file) => tap(file),
        Err(error) => {
            log::error!("{}: {error}; this NIC is not recorded", path.display());
            Tapped::default()
        }
    }
}

/// Returns the tap of a NIC that this process attaches.
pub(crate) fn join(header: &SegmentHeader) -> Tapped<'static> {
    let Some(path) = wanted().map(|wanted| file_of(wanted, header)) else { return Tapped::default() };
    match open_existing(&path) {
        Ok(file) => tap(file),
        Err(error) => {
            log::debug!("{}: {error}; this process's transitions of that NIC are not recorded", path.display());
            Tapped::default()
        }
    }
}

fn open_existing(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

fn create(path: &Path, header: &SegmentHeader, rank: u32) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    let program = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let open = Open {
        program: program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        rank,
        ni: header.ni,
        id: header.id,
        limits: header.limits,
    };
    let mut bytes = Vec::new();
    if file.metadata()?.len() == 0 {
        bytes.extend_from_slice(&selvedge_trace::preamble());
    }
    bytes.extend(selvedge_trace::encode(&Record::Open(open)));
    file.write_all(&bytes)?;
    Ok(file)
}

/// Makes a tap. Its recorder lives as long as the process, like the NIC's views that refer to it.
fn tap(file: File) -> Tapped<'static> {
    Tapped::new(Box::leak(Box::new(Recorder { file, has_failed: AtomicBool::new(false) })))
}

struct Recorder {
    file: File,
    has_failed: AtomicBool,
}

impl Tap for Recorder {
    fn show(&self, transition: &Transition) {
        if self.has_failed.load(Relaxed) {
            return;
        }
        if let Err(error) = (&self.file).write_all(&selvedge_trace::encode_transition(transition)) {
            self.has_failed.store(true, Relaxed);
            log::error!("a trace cannot be written: {error}; it ends here");
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_trace::Reader;

    use super::*;
    use crate::segment::{Owner, SMALL, Segment};
    use selvedge_os::process::Identity;

    fn owner(who: &Identity) -> Owner {
        let Identity { pid, start } = *who;
        Owner { id: 1 << 32 | 5, ni: 2, pid, uid: 0, start, host_mode: false, rank: 3, token: 0 }
    }

    #[test]
    fn all_who_run_a_nic_write_its_file_in_the_order_of_its_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let (nic, trace) = (folder.path().join("5.2.nic"), folder.path().join("3.2.trace"));
        let who = Identity::own();
        let mut own = Segment::create(&nic, &SMALL, &owner(&who)).expect("a segment");
        assert!(!own.is_recorded(), "recording is off by default");
        own.set_tap(tap(create(&trace, own.header(), 3).expect("a file")));
        let mut peer = Segment::open(&nic).expect("a segment");
        peer.set_tap(tap(open_existing(&trace).expect("it is there")));

        let counter = own.lock(who.to_word()).counters().alloc().expect("room");
        peer.lock(who.to_word()).counters().increment(counter, 1, 0);
        own.lock(who.to_word()).counters().increment(counter, 2, 0);
        peer.lock(who.to_word()).counters().increment(counter, 3, 0);
        drop(own);

        // Its process opens it again.
        let mut own = Segment::create(&nic, &SMALL, &owner(&who)).expect("a segment");
        own.set_tap(tap(create(&trace, own.header(), 3).expect("a file")));
        own.lock(who.to_word()).counters().alloc().expect("room");

        let records: Vec<Record> =
            Reader::open(&trace).expect("a trace").map(|record| record.expect("whole")).collect();
        let is_open = |record: &Record| matches!(record, Record::Open(open) if (open.rank, open.ni, open.id, open.limits) == (3, 2, 1 << 32 | 5, SMALL));
        let count = |success| Record::Transition(Transition::Count { counter, success, failure: 0, is_caused: false });
        let alloc = Record::Transition(Transition::CounterAlloc { counter: Some(counter) });
        assert!(is_open(&records[0]) && is_open(&records[5]), "{records:?}");
        assert_eq!(records[1..5], [alloc.clone(), count(1), count(2), count(3)]);
        assert_eq!(records[6..], [alloc]);
    }
}
