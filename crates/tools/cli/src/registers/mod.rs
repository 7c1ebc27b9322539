// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge registers`: the registers of this user's NICs, as text, JSON or files (seed 002, sections 7.2 and 8.1.2).
//!
//! Reading does not affect the NICs ([`selvedge_host::inspect`]). Writing takes the NIC's lock as its peers do.
//!
//! * [`select`]: the registers that a command line names. [`values`]: their values in a snapshot.
//! * [`show`]: text and JSON. [`tree`]: a directory tree. [`write`](mod@write): writes a register.

mod select;
mod show;
mod tree;
mod values;
mod write;

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use selvedge_daemon::protocol::{DumpView, DumpWhat};
use selvedge_nic::registers::TableRegister;

use select::{NicChoice, RegisterArgument, RegisterName};
use selvedge_host::snapshot::{JobSnapshot, Snapshot, user_directory};

/// Minimum time between two refreshes of a tree.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Read and write the registers of running network interfaces, for people and scripts.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Registers to show: a name, a unit, or one value of a register with an index; or NAME=VALUE, to write a value
    #[arg(value_name = "NAME", value_parser = RegisterArgument::parse)]
    words: Vec<RegisterArgument>,

    /// Only this job
    #[arg(long, value_name = "NAME")]
    job: Option<String>,

    /// Only the NICs of this rank, or, as RANK.NI, only one of them
    #[arg(long, value_name = "RANK[.NI]", value_parser = NicChoice::parse)]
    nic: Option<NicChoice>,

    /// Print one JSON array with a record for each NIC
    #[arg(long)]
    json: bool,

    /// Write the values into files below this directory: JOB/RANK.NI/UNIT/REGISTER
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    tree: Option<PathBuf>,

    /// Refresh the tree until interrupted
    #[arg(long, value_name = "TIME", requires = "tree", value_parser = crate::values::time)]
    interval: Option<Duration>,
}

const AFTER_HELP: &str = "\
`selvedge info registers` lists the registers with their meaning. A register with an index shows all values that the NIC has; \
`mailbox_write_pointers[3]` is one of them, `mailbox_interrupts[3].mask` a part of another, `velo_tables` all of a unit.

`links` has the counters of each link of the NIC's process to a peer: links[0].peer is the rank at the other end, links[0].puts the puts \
there. Links between hosts belong to all NICs of a process, and stand with the first. `selvedge top --links` shows the same by pairs.

`blocked` has the messages that found no destination, because a port is closed or its process has ended: blocked.count of all, and the heads \
of the last 256, oldest first: blocked[0].why is 1 for a closed port, 2 for a process that has ended, 3 for a message left unread when its port was closed; source, target: EXTOLL's node, or \
host times 2^32 and process id; port, source_port: VPID or portal table entry; tag: match bits, or header of VELO; length: bytes.

A tree is replaced value by value, each by a rename, so that a reader finds a whole number. NICs that are gone leave the tree. \
Writing to its files changes no register.

NAME=VALUE writes one register of one NIC, under the lock of the NIC: mailbox_enables, mailbox_interrupts[VPID].mask, \
mailbox_interrupts[VPID].clear and flush_request. Values are decimal, or hexadecimal with 0x.";

pub fn main(args: Args) -> Result<ExitCode> {
    let parent = selvedge_job::jobs_folder();
    if args.words.iter().any(|word| word.value.is_some()) {
        return write::main(&args, &parent).map(|()| ExitCode::SUCCESS);
    }
    let written = match &args.tree {
        Some(directory) => return keep_tree(&args, &parent, directory),
        None => print(&args, &parent)?,
    };
    match written {
        // A reader that closed the stream is no error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        written => Ok(written.map(|()| ExitCode::SUCCESS)?),
    }
}

/// Reads a NIC for the daemon of the fabric, by the file of its segment.
pub fn of_nic(path: &Path, user: u32, what: DumpWhat) -> Result<DumpView, String> {
    let job = JobSnapshot::of_nic(path, user).map_err(|error| error.to_string())?;
    let all = Snapshot { when: Instant::now(), jobs: vec![job] };
    let words: Vec<RegisterArgument> = match what {
        DumpWhat::Mailbox => {
            let mailboxes = TableRegister::ALL.iter().filter(|register| register.name().starts_with("mailbox"));
            let of = |register: &TableRegister| RegisterName::Table(*register);
            mailboxes.map(|register| RegisterArgument { register: of(register), index: None, value: None }).collect()
        }
        _ => Vec::new(),
    };
    Ok(DumpView { text: show::text_of_any_width(&all, &words), value: show::json(&all, &words) })
}

fn snapshot(args: &Args, parent: &Path) -> Snapshot {
    let mut all = Snapshot::new(parent, args.job.as_deref());
    if let Some(choice) = args.nic {
        all.jobs.iter_mut().for_each(|job| job.nics.retain(|nic| choice.includes(&nic.seen)));
    }
    all
}

fn chosen(args: &Args, parent: &Path) -> Result<Snapshot> {
    let all = snapshot(args, parent);
    let place = user_directory(parent);
    match (&args.job, args.nic) {
        (Some(name), _) if all.jobs.is_empty() => bail!("there is no job {name} in {}", place.display()),
        _ if all.nic_count() != 0 => Ok(all),
        (_, Some(choice)) => bail!("no job in {} has a NIC {choice}; `selvedge top` lists all", place.display()),
        _ => bail!("there is no NIC in {}: no job runs", place.display()),
    }
}

fn print(args: &Args, parent: &Path) -> Result<io::Result<()>> {
    let all = chosen(args, parent)?;
    let mut out = io::stdout().lock();
    if args.json {
        return Ok(writeln!(out, "{:#}", show::json(&all, &args.words)));
    }
    for job in &all.jobs {
        job.refused.iter().for_each(|refused| eprintln!("{}", show::refused_text(job, refused)));
    }
    Ok(out.write_all(show::text(&all, &args.words).as_bytes()))
}

fn keep_tree(args: &Args, parent: &Path, directory: &Path) -> Result<ExitCode> {
    let mut tree = tree::Tree::open(directory)?;
    let Some(interval) = args.interval else {
        tree.update(&chosen(args, parent)?, &args.words)?;
        return Ok(ExitCode::SUCCESS);
    };
    loop {
        tree.update(&snapshot(args, parent), &args.words)?;
        sleep(interval.max(INTERVAL_MIN));
    }
}
