// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge fabric check`: finds the first violation of the link protocol in a dump of `selvedge sim --dump-link`.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use selvedge_sim::phits::check::{Checked, check};
use serde_json::json;

/// Name and version of the JSON's schema.
const SCHEMA: &str = "selvedge.fabric.check/1";
/// The most bytes of a dump.
const FILE_MAX: u64 = 1 << 30;
const EXIT_VIOLATION: u8 = 1;
const EXIT_NO_DUMP: u8 = 2;

/// Check a dump of a link, made by `selvedge sim --dump-link`, and name the first violation of the link protocol
#[derive(clap::Args)]
#[command(after_help = "Exit code: 0 without a violation, 1 with one, 2 for a file that is no dump.")]
pub struct Args {
    /// The dump
    file: PathBuf,
}

pub fn main(args: &Args, as_json: bool) -> Result<ExitCode> {
    match read(args) {
        Err(error) => {
            eprintln!("selvedge fabric check: {error:#}");
            Ok(ExitCode::from(EXIT_NO_DUMP))
        }
        Ok(checked) => {
            print!("{}", if as_json { json_of(&checked) } else { text(&checked) });
            Ok(checked.violation.map_or(ExitCode::SUCCESS, |_| ExitCode::from(EXIT_VIOLATION)))
        }
    }
}

fn read(args: &Args) -> Result<Checked> {
    let name = args.file.display();
    let file = std::fs::File::open(&args.file).with_context(|| name.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut bytes).with_context(|| name.to_string())?;
    if bytes.len() as u64 > FILE_MAX {
        bail!("{name}: more than {FILE_MAX} bytes; dump a shorter run");
    }
    let text =
        String::from_utf8(bytes).ok().with_context(|| format!("{name}: this is no text, and no dump of a link"))?;
    check(&text).with_context(|| name.to_string())
}

fn text(checked: &Checked) -> String {
    let Checked { link, flits, controls, violation, .. } = checked;
    let counts = format!("{flits} flits and {controls} control characters");
    match violation {
        None => format!("{link}: no violation in {counts}\n"),
        Some(found) => format!(
            "{link}: {} violated at {} ps, line {}, after {counts}: {}\n",
            found.rule, found.time_ps, found.line, found.what
        ),
    }
}

fn json_of(checked: &Checked) -> String {
    let violation = checked
        .violation
        .as_ref()
        .map(|found| json!({ "rule": found.rule, "time_ps": found.time_ps, "line": found.line, "what": found.what }));
    let value = json!({
        "schema": SCHEMA,
        "link": checked.link,
        "records": checked.records,
        "flits": checked.flits,
        "controls": checked.controls,
        "violation": violation,
    });
    format!("{value:#}\n")
}
