// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peers of OpenSHMEM: Open MPI's OpenSHMEM (Debian: `openmpi-bin`, `libopenmpi-dev`), and between hosts Sandia
//! OpenSHMEM. The peer's `oshcc` compiles the programs of `bench/shmem`, which are part of this command.
//!
//! Search order: the prefix in `SELVEDGE_OSHMEM` or `SELVEDGE_SANDIA`, else `peers/oshmem` or `peers/sandia` of the
//! installed tree or of `build` below the current folder, else PATH. Another library's `oshcc` there is skipped; ours
//! has the same name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tempfile::TempDir;

use super::cases::{Case, Scale};
use super::peers::{HELPER_LIMIT, path_with, places, program_arguments};
use super::process::{measurements, output};
use super::record::Measurement;

macro_rules! source {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../bench/", $name)))
    };
}

const SOURCES: [(&str, &str); 10] = [
    source!("rank.h"),
    source!("rank.c"),
    source!("away.h"),
    source!("away.c"),
    source!("shmem/pe.h"),
    source!("shmem/pe.c"),
    source!("shmem/latency.c"),
    source!("shmem/operations.c"),
    source!("shmem/collectives.c"),
    source!("shmem/overlap.c"),
];
const PROGRAMS: [&str; 4] = ["latency", "operations", "collectives", "overlap"];

/// The vendor of an OpenSHMEM library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    OpenMpi,
    Sandia,
}

impl Vendor {
    /// The name in `SELVEDGE_OSHMEM` and `peers/oshmem`.
    fn family(self) -> &'static str {
        match self {
            Vendor::OpenMpi => "oshmem",
            Vendor::Sandia => "sandia",
        }
    }

    fn missing(self) -> &'static str {
        match self {
            Vendor::OpenMpi => "Open MPI's OpenSHMEM is not installed (Debian: openmpi-bin, libopenmpi-dev)",
            Vendor::Sandia => {
                "Sandia OpenSHMEM is not installed; run bench/get-peers.sh, or set SELVEDGE_SANDIA to its prefix"
            }
        }
    }

    /// The version beside this `oshcc`, if it is this vendor's.
    fn version(self, bin: &Path) -> Option<String> {
        match self {
            Vendor::OpenMpi => {
                let printed = output(Command::new(bin.join("oshrun")).arg("--version"), HELPER_LIMIT).ok()?;
                let line = printed.lines().find(|l| l.contains("Open MPI") || l.contains("OpenRTE"))?;
                let number = line.split_ascii_whitespace().last()?;
                Some(format!("Open MPI {number} (OpenSHMEM)"))
            }
            Vendor::Sandia => {
                let package = bin.parent()?.join("lib/pkgconfig/sandia-openshmem.pc");
                let text = fs::read_to_string(package).ok()?;
                let number = text.lines().find_map(|line| line.strip_prefix("Version:"))?;
                Some(format!("Sandia OpenSHMEM {}", number.trim()))
            }
        }
    }
}

/// An OpenSHMEM with the measuring programs compiled for it.
pub struct Oshmem {
    bin: PathBuf,
    /// "Open MPI 4.1.4 (OpenSHMEM)", for the report.
    pub version: String,
    directory: TempDir,
}

impl Oshmem {
    pub fn find(vendor: Vendor, tree_prefix: &Path) -> Result<Oshmem> {
        let (bin, version) = places(vendor.family(), tree_prefix)
            .into_iter()
            .filter(|bin| bin.join("oshcc").is_file())
            .find_map(|bin| Some((bin.clone(), vendor.version(&bin)?)))
            .ok_or_else(|| anyhow!(vendor.missing()))?;
        let directory = tempfile::Builder::new().prefix("selvedge-bench-").tempdir()?;
        fs::create_dir(directory.path().join("shmem"))?;
        for (name, text) in SOURCES {
            fs::write(directory.path().join(name), text)?;
        }
        for program in PROGRAMS {
            let mut compile = Command::new(bin.join("oshcc"));
            compile.current_dir(directory.path()).args(["-std=gnu11", "-O2", "-o", program]);
            compile.arg(format!("shmem/{program}.c")).args(["shmem/pe.c", "rank.c", "away.c", "-lm"]);
            compile.env("PATH", path_with(&bin));
            output(&mut compile, HELPER_LIMIT).context("oshcc failed")?;
        }
        Ok(Oshmem { bin, version, directory })
    }

    /// A measuring program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Measures with Open MPI's launcher and each number of PEs, pinned if each has a core.
    pub fn measure(
        &self,
        program: &str,
        counts: &[usize],
        batch: &[&Case],
        scale: &Scale,
        cores: usize,
        limit: Duration,
    ) -> Result<Vec<Measurement>> {
        let mut all = Vec::new();
        for &count in counts {
            let mut command = Command::new(self.bin.join("oshrun"));
            command.args(["-n", &count.to_string()]);
            match count <= cores {
                true => command.args(["--bind-to", "core"]),
                false => command.args(["--bind-to", "none", "--oversubscribe"]),
            };
            command.arg(self.program(program)).args(["--prefix", "oshmem"]);
            command.args(program_arguments(batch, scale));
            // Open MPI refuses to run as root, the user of many containers, unless both variables allow it.
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            command.env("PATH", path_with(&self.bin));
            all.extend(measurements(&mut command, limit)?);
        }
        Ok(all)
    }
}
