// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge top --html`: serves a page with the communication matrix and the rates of running jobs.
//!
//! Invariants: 1. the command takes snapshots only while a browser has the page open. 2. It ends at SIGINT, SIGTERM or
//! SIGHUP, and with `--job` when that job has ended; open pages keep its last picture.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use selvedge_host::snapshot::{Rates, Snapshot, user_directory};
use selvedge_page::{Shown, Watch};
use serde_json::{Value, json};

use super::{Args, INTERVAL_MIN, matrix};

/// Time after which a signal, or a browser that comes, is noticed.
const LOOK: Duration = Duration::from_millis(50);

/// Serves the page until a signal or the end of the job.
pub fn serve(args: &Args, address: SocketAddr, parent: &Path, first: Snapshot) -> Result<()> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, is_over.clone())?;
    }
    let page = Watch::start(address, Shown::Jobs).context("--html")?;
    writeln!(io::stdout(), "{}", page.url())?;
    let (interval, mut earlier) = (args.interval.max(INTERVAL_MIN), first);
    let (mut last, mut looked) = (picture(&earlier, None, interval), Instant::now());
    page.send("jobs", &last, &[("jobs", &last)]);
    let mut was_watched = false;
    while !is_over.load(Relaxed) {
        sleep(LOOK.min(interval));
        let comes = page.is_watched() && !was_watched;
        was_watched = page.is_watched();
        if looked.elapsed() < interval && !comes {
            continue;
        }
        looked = Instant::now();
        if !was_watched {
            if args.job.as_ref().is_some_and(|job| !user_directory(parent).join(job).is_dir()) {
                break;
            }
            continue;
        }
        let now = Snapshot::new(parent, args.job.as_deref());
        if args.job.is_some() && now.jobs.is_empty() {
            break;
        }
        last = picture(&now, Some(&earlier), interval);
        page.send("jobs", &last, &[("jobs", &last)]);
        earlier = now;
    }
    page.end("end", &last, &[("jobs", &last), ("end", &last)]);
    Ok(())
}

fn picture(now: &Snapshot, earlier: Option<&Snapshot>, interval: Duration) -> Value {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "at_s": since.as_secs_f64(),
        "interval_s": interval.as_secs_f64(),
        "jobs": matrix::json(now, &Rates::between(earlier, now)),
    })
}
