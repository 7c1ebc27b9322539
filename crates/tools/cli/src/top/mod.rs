// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge top`: shows the jobs, NICs, links and counters of this user on this machine, and their changes.
//!
//! It only reads, so watched jobs are not affected. On a terminal it has a screen with keys until `q`; otherwise, or
//! where no keys can be read, it prints once. Rates need two snapshots, so printing once takes one interval, unless that is 0.
//!
//! * [`show`], [`links`]: the rows, and JSON. [`mod@view`]: cells and their order. [`state`]: keys. [`screen`]: the terminal.
//! * [`matrix`]: the traffic between ranks. [`page`]: the page that shows it in a browser.

mod links;
mod matrix;
mod page;
mod screen;
mod show;
mod state;
mod view;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};
use selvedge_host::snapshot::{Rates, Snapshot, user_directory};

use view::View;

/// The address of the page without another; 7393 is that of `selvedge sim --watch`.
const PAGE: &str = "127.0.0.1:7394";

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

    /// Serve a page with the communication matrix and the rates of the jobs, and print its address; 127.0.0.1:7394 without an address
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = PAGE,
          conflicts_with_all = ["json", "once", "links"])]
    html: Option<SocketAddr>,

    /// Only this job
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
}

const AFTER_HELP: &str = "\
On a terminal: h shows the keys: order by any column, filter, pause, links, interval. q ends it.

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
    if let Some(address) = args.html {
        return page::serve(&args, address, &parent, first).map(|()| ExitCode::SUCCESS);
    }
    let written = if args.json || args.once || !io::stdout().is_terminal() || !screen::has_keys() {
        print_once(&args, &parent, first)
    } else {
        screen::watch(&args, &parent, first)
    };
    match written {
        // A reader that closed the stream is no error, nor is a terminal that has gone.
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
    show::text(now, &view(args.links, now, rates))
}

/// The rows that are to be shown: links or NICs.
fn view(links: bool, now: &Snapshot, rates: &Rates) -> View {
    if links { links::view(now, rates) } else { show::view(now, rates) }
}
