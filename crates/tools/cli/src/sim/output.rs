// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outputs of a simulation: tables, JSON, plots, a page, a timeline.
//!
//! Output paths are checked before a simulation begins, so that a missing folder does not lose its results.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use selvedge_document::{Document, html};
use selvedge_otf2::archive;
use selvedge_otf2::library::Library;
use selvedge_sim::report::Heat;
use serde_json::Value;

use super::text;
use super::usage::Usage;
use crate::json::{STANDARD, replaces_tables};

const WATCHED: &str = "127.0.0.1:7393";

/// The outputs of a simulation.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Output {
    /// Write JSON to FILE; without FILE, to standard output in place of the tables
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STANDARD, help_heading = "Output")]
    json: Option<PathBuf>,

    /// Write an HTML page, as one file for any browser
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,

    /// Write the plots as SVG into a folder, which is created if missing
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    svg: Option<PathBuf>,

    /// Write a timeline for the Perfetto viewer, ui.perfetto.dev; compressed by gzip if FILE ends in .gz, which the viewer
    /// reads too
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub trace: Option<PathBuf>,

    /// Write the timeline as an archive in OTF2 into a folder, for Vampir, Scalasca or Trace Compass; needs the OTF2 library
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub otf2: Option<PathBuf>,

    /// Serve the topology and the loads of its links while a program runs, on a loopback address
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = WATCHED,
          help_heading = "Output")]
    pub watch: Option<SocketAddr>,

    /// Maximum number of spans in the timeline (--trace, --otf2)
    #[arg(long, value_name = "SPANS", default_value_t = 1_000_000, help_heading = "Output",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub trace_limit: u32,

    /// Whether the heat of links is wanted without a page of its own.
    #[arg(skip)]
    pub draws_links: bool,

    /// Print no table and no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    /// Print every table
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Output")]
    pub verbose: bool,
}

impl Output {
    /// Checks that the output files can be written, and the archive.
    pub fn check(&self) -> Result<(), Usage> {
        let files = [("--json", &self.json), ("--html", &self.html), ("--trace", &self.trace)];
        for (option, file) in files {
            let Some(file) = file.as_deref().filter(|file| *file != Path::new(STANDARD)) else { continue };
            check_file(option, file)?;
            if option == "--json" && is_program(file) {
                let file = file.display();
                return Err(Usage(format!("--json {file}: that is a program; write `--json -- {file}`")));
            }
        }
        if let Some(folder) = &self.otf2 {
            let wrong = |error: String| Usage(format!("--otf2: {error}"));
            archive::check_folder(folder).map_err(|error| wrong(error.to_string()))?;
            Library::load().map_err(|error| wrong(error.to_string()))?;
        }
        match &self.svg {
            Some(folder) if folder.exists() && !folder.is_dir() => {
                Err(Usage(format!("--svg {}: not a folder; name a folder", folder.display())))
            }
            _ => Ok(()),
        }
    }

    /// Number of spans to keep; 0 without a timeline.
    pub fn spans(&self) -> usize {
        if self.trace.is_some() || self.otf2.is_some() { self.trace_limit as usize } else { 0 }
    }

    /// Whether a page shows the heat of links.
    pub fn shows_links(&self) -> bool {
        self.html.is_some() || self.watch.is_some() || self.draws_links
    }

    /// Writes the outputs of a run, whose page shows the heat of its links.
    pub fn write_with_links(
        &self,
        document: &Document,
        heat: Option<&Heat>,
        json: impl FnOnce() -> Value,
    ) -> Result<()> {
        let drawn = heat.map(|heat| drawn(heat, &document.title));
        self.write_all(document, drawn.as_ref(), json)
    }

    /// Writes all outputs except the timeline. Calls `json` only if JSON is written.
    pub fn write(&self, document: &Document, json: impl FnOnce() -> Value) -> Result<()> {
        self.write_all(document, None, json)
    }

    fn write_all(&self, document: &Document, drawn: Option<&html::Drawn>, json: impl FnOnce() -> Value) -> Result<()> {
        if let Some(file) = &self.html {
            write_file(file, html::page(document, drawn).as_bytes())?;
        }
        if let Some(folder) = &self.svg {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            for plot in document.plots() {
                write_file(&folder.join(format!("{}.svg", plot.name)), plot.svg().as_bytes())?;
            }
        }
        if let Some(file) = &self.json {
            crate::json::write(file, &json())?;
        }
        if replaces_tables(self.json.as_deref()) { Ok(()) } else { self.print(document) }
    }

    fn print(&self, document: &Document) -> Result<()> {
        if self.quiet { Ok(()) } else { print(&text::text(document, self.verbose)) }
    }
}

/// Returns the drawing of a topology and the heat of its links, for a page.
pub fn drawn(heat: &Heat, title: &str) -> html::Drawn {
    let parts = selvedge_page::simulation_report(&heat.json(title));
    html::Drawn { style: parts.style.to_owned(), body: parts.body, script: parts.script, section: 0 }
}

/// Checks that the file of an option can be written, before the work that it is to hold.
pub fn check_file(option: &str, file: &Path) -> Result<(), Usage> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Usage(format!("{option} {}: there is no folder {}", file.display(), folder.display())));
    }
    match file.is_dir() {
        true => Err(Usage(format!("{option} {} is a folder; name a file", file.display()))),
        false => Ok(()),
    }
}

/// Whether a file can be executed, and is no JSON on a file system where all files can.
fn is_program(path: &Path) -> bool {
    let is_executable = |found: std::fs::Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
    let mut first = [0];
    path.metadata().is_ok_and(is_executable)
        && !(File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok()
            && matches!(first, [b'{' | b'[']))
}

/// Prints on standard output. A reader that closed it is no error.
pub fn print(text: &str) -> Result<()> {
    selvedge_terminal::print(text).context("cannot write to standard output")
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file piece by piece, compressed if its name ends in `.gz`.
pub fn stream<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> Result<T> {
    let context = || format!("cannot write {}", path.display());
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).with_context(context)?);
    let written = if path.extension().is_some_and(|extension| extension == "gz") {
        let encoder = GzEncoder::new(&mut out, Compression::default());
        let mut buffered = BufWriter::with_capacity(1 << 16, encoder);
        write(&mut buffered).and_then(|written| buffered.into_inner()?.finish().map(|_| written))
    } else {
        write(&mut out)
    };
    let written = written.with_context(context)?;
    out.flush().with_context(context)?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;

    #[test]
    fn files_are_compressed_by_their_name() {
        let folder = tempfile::tempdir().unwrap();
        let text = "a span ".repeat(10_000);
        for (name, is_compressed) in [("t.json", false), ("t.json.gz", true), ("gz", false)] {
            let path = folder.path().join(name);
            let written = stream(&path, |out| out.write_all(text.as_bytes()).map(|()| 7)).unwrap();
            assert_eq!(written, 7);
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(bytes.len() < text.len() / 10, is_compressed, "{name}");
            let mut read = String::new();
            let again = if is_compressed {
                GzDecoder::new(&bytes[..]).read_to_string(&mut read)
            } else {
                (&bytes[..]).read_to_string(&mut read)
            };
            assert_eq!((again.unwrap(), read == text), (text.len(), true), "{name}");
        }
        assert!(stream(&folder.path().join("no/t.json.gz"), |_| Ok(())).is_err());
    }

    #[test]
    fn a_program_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        for (text, mode, is_refused) in
            [("#!/bin/sh\n", 0o755, true), ("#!/bin/sh\n", 0o644, false), ("{}", 0o755, false)]
        {
            let path = folder.path().join("file");
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let checked = Output { json: Some(path), ..Output::default() }.check();
            assert_eq!(checked.is_err(), is_refused, "{text} {mode:o}");
        }
    }
}
