// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peer of the OpenSHMEM group: Open MPI's OpenSHMEM (Debian: `openmpi-bin`, `libopenmpi-dev`). The programs of `bench/shmem`
//! are part of this command and compiled with its `oshcc`, so both libraries run the same source.
//!
//! It is searched in the prefix that `SELVEDGE_OSHMEM` names, else in `peers/oshmem` of the installed tree or of `build`
//! below the current folder, else in PATH. An `oshrun` that does not report Open MPI is skipped, because ours has the same name.

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
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/", $name)))
    };
}

const SOURCES: [(&str, &str); 7] = [
    source!("rank.h"),
    source!("rank.c"),
    source!("shmem/pe.h"),
    source!("shmem/pe.c"),
    source!("shmem/latency.c"),
    source!("shmem/operations.c"),
    source!("shmem/collectives.c"),
];
const PROGRAMS: [&str; 3] = ["latency", "operations", "collectives"];

/// Open MPI's OpenSHMEM with the measuring programs compiled for it.
pub struct Oshmem {
    bin: PathBuf,
    /// "Open MPI 4.1.4 (OpenSHMEM)", for the report.
    pub version: String,
    directory: TempDir,
}

impl Oshmem {
    pub fn find(tree_prefix: &Path) -> Result<Oshmem> {
        let (bin, version) = places("oshmem", tree_prefix)
            .into_iter()
            .filter(|bin| bin.join("oshcc").is_file())
            .find_map(|bin| Some((bin.clone(), version_of(&bin)?)))
            .ok_or_else(|| anyhow!("Open MPI's OpenSHMEM is not installed (Debian: openmpi-bin, libopenmpi-dev)"))?;
        let directory = tempfile::Builder::new().prefix("selvedge-bench-").tempdir()?;
        fs::create_dir(directory.path().join("shmem"))?;
        for (name, text) in SOURCES {
            fs::write(directory.path().join(name), text)?;
        }
        for program in PROGRAMS {
            let mut compile = Command::new(bin.join("oshcc"));
            compile.current_dir(directory.path()).args(["-std=gnu11", "-O2", "-o", program]);
            compile.arg(format!("shmem/{program}.c")).args(["shmem/pe.c", "rank.c", "-lm"]);
            compile.env("PATH", path_with(&bin));
            output(&mut compile, HELPER_LIMIT).context("oshcc failed")?;
        }
        Ok(Oshmem { bin, version, directory })
    }

    /// Measures with each number of PEs, pinned if each has a core.
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
            command.arg(self.directory.path().join(program)).args(["--prefix", "oshmem"]);
            command.args(program_arguments(batch, scale));
            // Open MPI refuses to run as root, the user of many containers, unless both variables allow it.
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            command.env("PATH", path_with(&self.bin));
            all.extend(measurements(&mut command, limit)?);
        }
        Ok(all)
    }
}

/// The version of the `oshrun` beside this `oshcc`, if it is Open MPI's.
fn version_of(bin: &Path) -> Option<String> {
    let printed = output(Command::new(bin.join("oshrun")).arg("--version"), HELPER_LIMIT).ok()?;
    let line = printed.lines().find(|l| l.contains("Open MPI") || l.contains("OpenRTE"))?;
    let number = line.split_ascii_whitespace().last()?;
    Some(format!("Open MPI {number} (OpenSHMEM)"))
}
