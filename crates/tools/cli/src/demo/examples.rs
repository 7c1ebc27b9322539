// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The examples of the demonstration. Each checks its own results, and fails when a byte is wrong.

use std::ffi::OsString;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use selvedge_document::Output;

use crate::bench::process::{self, Tree};
use crate::sim;

/// An example, and how it is started.
pub struct Example {
    /// Its subject.
    pub title: &'static str,
    pub ranks: usize,
    /// Its program below `examples/`; the source is beside it, with `.c`.
    pub program: &'static str,
    /// Arguments of a short run.
    smoke: &'static [&'static str],
}

const EXAMPLES: [Example; 7] = [
    Example { title: "a put that its receiver detects by a counter", ranks: 2, program: "hello_put", smoke: &[] },
    Example {
        title: "barriers and sums that finish while the ranks compute",
        ranks: 4,
        program: "triggered_barrier",
        smoke: &["20"],
    },
    Example { title: "protocols for a two-sided message", ranks: 2, program: "protocols", smoke: &["5"] },
    Example {
        title: "OpenSHMEM, two ways to detect that a put has arrived",
        ranks: 2,
        program: "shmem/pingpong",
        smoke: &["20"],
    },
    Example {
        title: "OpenSHMEM, a stencil with flags, counting puts, puts with signals",
        ranks: 4,
        program: "shmem/stencil",
        smoke: &["128", "128", "2"],
    },
    Example { title: "EXTOLL's messages, puts and gets", ranks: 2, program: "extoll/pingpong", smoke: &["50"] },
    Example {
        title: "heat flow in tiles, halos exchanged by counting puts",
        ranks: 4,
        program: "halo2d",
        smoke: &["128", "10"],
    },
];

/// The program that runs unmodified on the simulated machine, and its arguments.
const SIMULATED: (&str, [&str; 2]) = ("halo2d", ["256", "20"]);
/// A machine whose whole topology can be seen, with a rank on each node.
const MACHINE: &str = "extoll-asic500";
const RANKS: &str = "64";

const TIME_LIMIT: Duration = Duration::from_secs(120);

/// An example whose program is there.
pub struct Found {
    pub of: &'static Example,
    path: PathBuf,
}

/// A finished run of an example.
pub struct Ran {
    pub output: Output,
    pub failure: Option<String>,
}

/// The finished run on the simulated machine.
pub struct Simulated {
    /// Lines that the program printed.
    pub output: Output,
    /// The report. The error says why there is none.
    pub report: Result<sim::Report, String>,
}

/// Finds the programs of all examples.
pub fn find(tree: &Tree) -> Result<Vec<Found>> {
    EXAMPLES.iter().map(|of| Ok(Found { of, path: program(tree, of.program)? })).collect()
}

fn program(tree: &Tree, name: &str) -> Result<PathBuf> {
    let path = tree.prefix().join("examples").join(name);
    if !path.is_file() {
        bail!(
            "{}: no such file; an install has no examples: run make demo in the source, or set SELVEDGE_PREFIX to the \
             tree build/ that make build has made there",
            path.display()
        );
    }
    Ok(path)
}

impl Found {
    /// Runs the example to its end. A failure is a part of the result.
    pub fn run(&self, tree: &Tree, smoke: bool) -> Ran {
        let Example { title, ranks, program, smoke: arguments } = self.of;
        let arguments = if smoke { arguments } else { &[][..] };
        let mut command = tree.command();
        command.args(["run", "-n", &ranks.to_string(), "--timeout", "60"]).arg(&self.path).args(arguments);
        let printed = process::output(&mut command, TIME_LIMIT);
        let failure = printed.as_ref().err().map(|error| format!("{program}: {error:#}"));
        let words: String = arguments.iter().map(|argument| format!(" {argument}")).collect();
        Ran {
            output: Output {
                title: format!("examples/{program}.c: {title}"),
                command: format!("selvedge run -n {ranks} examples/{program}{words}"),
                text: printed.unwrap_or_else(|error| format!("{error:#}")),
            },
            failure,
        }
    }
}

/// Runs an example on the simulated machine.
pub fn simulate(tree: &Tree) -> Result<Simulated> {
    let (name, arguments) = SIMULATED;
    let mut words: Vec<OsString> = ["-n", RANKS, "--machine", MACHINE, "--"].map(OsString::from).to_vec();
    words.push(program(tree, name)?.into());
    words.extend(arguments.map(OsString::from));
    let mut printed = tempfile::tempfile().context("no file for the output of a simulated program")?;
    let report = match sim::report(&words, printed.try_clone()?) {
        Ok(Ok(report)) if report.exit_code == 0 => Ok(report),
        Ok(Ok(report)) if report.exit_code == sim::EXIT_INTERRUPTED => bail!("interrupted"),
        Ok(Ok(sim::Report { exit_code, .. }) | Err(exit_code)) => Err(format!("exit code {exit_code}")),
        Err(error) => Err(format!("{error:#}")),
    };
    let mut text = Vec::new();
    printed.rewind().and_then(|()| printed.read_to_end(&mut text)).context("cannot read what the program printed")?;
    Ok(Simulated {
        output: Output {
            title: format!("examples/{name}.c, the same binary, on {RANKS} nodes of {MACHINE}"),
            command: format!("selvedge sim -n {RANKS} --machine {MACHINE} -- examples/{name} {}", arguments.join(" ")),
            text: String::from_utf8_lossy(&text).into_owned(),
        },
        report,
    })
}

impl Simulated {
    pub fn failure(&self) -> Option<String> {
        self.report.as_ref().err().map(|error| format!("{}: {error}", self.output.command))
    }

    /// A line for the terminal.
    pub fn words(&self) -> String {
        let end = if self.report.is_ok() { "right" } else { "FAILED" };
        format!("  {end:6}  simulated: {}", self.output.title)
    }
}
