// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge top`: shows the jobs, NICs, links and counters of this user on this machine, and their changes.
//!
//! It only reads, so watched jobs are not affected. On a terminal it redraws until it is interrupted; otherwise it
//! prints once. Rates need two snapshots, so printing once takes one interval, unless that is 0.

mod links;
mod show;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};

use selvedge_host::snapshot::{Rates, Snapshot, user_directory};

/// Minimum time between two draws.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Watch this user's jobs, network interfaces and their counters.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print one JSON array of records with every register, instead of the table
    #[arg(long)]
    json: bool,

    /// Print once and end; the default when standard output is not a terminal
    #[arg(long)]
    once: bool,

    /// Time between two snapshots; 0 with --once or --json: one snapshot, without rates
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = crate::values::time)]
    interval: Duration,

    /// Show the links of each process to its peers instead of the NICs
    #[arg(long)]
    links: bool,

    /// Only this job
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
}

const AFTER_HELP: &str = "\
Columns: ni: its number, with (me) or without (le) matching, logical or physical; recv: requests that arrived; B in and B out: bytes written to its memory, \
and read from it for others; match: requests that met a list entry; unexp: headers on unexpected lists now; drop: messages dropped; fired: \
triggered operations; flow: times that flow control disabled a portal table entry; packets: those that wait for the \
process; sleep: its threads that sleep in a wait; ops/s and ops: puts, gets, atomics and messages that its program has started, by commands, through \
rings, or in the memory of its peers itself. State `dead`: the process has ended, and its NIC is marked; `gone`: it has ended, and no \
process has marked its NIC yet.

With --links there is a row for each process and peer, as the process counts: from, to: ranks, or the address of a peer of another \
job; way: memory (this host, by the NIC of this number) or network (a link between hosts, of all NICs); ops, B out, B in: operations started, and their \
payload; frames, repeats, damaged: frames sent and come, frames sent again, frames come damaged; rtt: smoothed round trip; queue: bytes that wait. \
A program with several threads may lose a count when two of them use one peer at the same instant. SELVEDGE_SHMEM_TRAFFIC=0 leaves out what OpenSHMEM \
does in the memory of its peers, and saves up to a nanosecond each.";

pub fn main(args: Args) -> Result<ExitCode> {
    let parent = selvedge_job::jobs_folder();
    let only = args.job.as_deref();
    let first = Snapshot::new(&parent, only);
    if let (Some(name), true) = (only, first.jobs.is_empty()) {
        bail!("there is no job {name} in {}", user_directory(&parent).display());
    }
    let written = if args.json || args.once || !io::stdout().is_terminal() {
        print_once(&args, &parent, first)
    } else {
        watch(&args, &parent, first)
    };
    match written {
        // A reader that closed the stream is no error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        written => Ok(written.map(|()| ExitCode::SUCCESS)?),
    }
}

fn print_once(args: &Args, parent: &Path, first: Snapshot) -> io::Result<()> {
    let (earlier, now) = if args.interval.is_zero() {
        (None, first)
    } else {
        sleep(args.interval);
        (Some(first), Snapshot::new(parent, args.job.as_deref()))
    };
    let rates = Rates::between(earlier.as_ref(), &now);
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", show::json(&now, &rates))
    } else {
        out.write_all(text(args, &now, &rates).as_bytes())
    }
}

fn text(args: &Args, now: &Snapshot, rates: &Rates) -> String {
    let table = if args.links { links::table(now, rates) } else { show::table(now, rates) };
    show::text(now, &table)
}

fn watch(args: &Args, parent: &Path, first: Snapshot) -> io::Result<()> {
    let mut now = first;
    let mut earlier: Option<Snapshot> = None;
    // Clear the screen once. Later draws overwrite the earlier one, which avoids flicker.
    io::stdout().write_all(b"\x1b[2J")?;
    loop {
        let text = text(args, &now, &Rates::between(earlier.as_ref(), &now));
        let head = format!("{}, every {} s", user_directory(parent).display(), args.interval.as_secs_f64());
        draw(&format!("{head}: {text}"))?;
        sleep(args.interval.max(INTERVAL_MIN));
        earlier = Some(now);
        now = Snapshot::new(parent, args.job.as_deref());
    }
}

/// Draws the lines over the earlier ones, cut to the terminal's size.
fn draw(text: &str) -> io::Result<()> {
    let (columns, rows) = terminal_size();
    let count = text.lines().count();
    let mut screen = String::from("\x1b[H");
    for (at, line) in text.lines().take(rows).enumerate() {
        if at + 1 == rows && count > rows {
            screen.push_str(&format!("... {} more lines", count - at));
        } else {
            screen.extend(line.chars().take(columns));
        }
        screen.push_str("\x1b[K");
        if at + 1 < rows.min(count) {
            screen.push_str("\r\n");
        }
    }
    screen.push_str("\x1b[J");
    let mut out = io::stdout().lock();
    out.write_all(screen.as_bytes())?;
    out.flush()
}

/// Columns and rows of the terminal; unlimited if unknown.
fn terminal_size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (usize::MAX, usize::MAX),
    }
}
