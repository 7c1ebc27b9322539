// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sides other than MPI: our PEs, each on its own host; Sandia OpenSHMEM; the program that measures memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use selvedge_launcher::environment::{PROVIDER, Target};
use tempfile::TempDir;

use super::super::mpi::batch::turn_ms;
use super::super::mpi::scale::MpiScale;
use super::super::mpi::side::{INTERFACE, Provider, SeparateHosts};
use super::super::oshmem::{Oshmem, Vendor};
use super::super::peers::HELPER_LIMIT;
use super::super::process::{ON_OWN_HOST, Tree, measurements, output};
use super::super::record::Measurement;
use super::catalogue::Pes;

const LIMIT: Duration = Duration::from_secs(90);
const PEERS_SOURCE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../bench/fi/peers.c"));

/// A program of bench/shmem and what it measures.
#[derive(Clone, Copy)]
pub struct PesRun<'a> {
    pub program: &'a str,
    pub what: &'a str,
    pub arguments: &'a [&'a str],
    pub scale: &'a MpiScale,
    pub pinned: bool,
}

impl PesRun<'_> {
    fn finish(&self, command: &mut Command) -> Result<Vec<Measurement>> {
        command.args(["--what", self.what]).args(self.arguments);
        command.args(["--budget-ms", &turn_ms(self.scale).to_string()]);
        measurements(command, LIMIT)
    }

    pub fn ours(&self, tree: &Tree, pes: Pes) -> Result<Vec<Measurement>> {
        let program = tree.program(&format!("shmem/{}", self.program))?;
        let mut command = tree.launcher(2, self.pinned);
        command.args(["sh", "-c", ON_OWN_HOST, "sh"]).arg(program);
        command.env("SELVEDGE_NET_INTERFACE", INTERFACE).env("SELVEDGE_NET_PROGRESS", pes.progress.value());
        if !pes.is_asleep {
            command.arg("--inside");
        }
        let mut measured = self.finish(&mut command)?;
        for m in &mut measured {
            m.case = format!("{}:{}", pes.label(), m.case.trim_start_matches("shmem_"));
        }
        Ok(measured)
    }

    pub fn sandia(&self, tree: &Tree, sandia: &Oshmem) -> Result<Vec<Measurement>> {
        // Both sides use the same launcher, which speaks PMI-1.
        let mut command = tree.launcher(2, self.pinned);
        command.arg(sandia.program(self.program)).args(["--prefix", SANDIA, "--inside"]);
        command.env("SHMEM_OFI_PROVIDER", "tcp;ofi_rxm").env("FI_TCP_IFACE", INTERFACE);
        command.env_remove("FI_PROVIDER").env_remove("FI_PROVIDER_PATH");
        self.finish(&mut command)
    }

    /// The measurements of Sandia's library, which has no counting puts between hosts. `None`: it has none of them.
    pub fn of_sandia(self) -> Option<String> {
        let what: Vec<&str> = self.what.split(',').filter(|what| *what != "counting_put").collect();
        (!what.is_empty()).then(|| what.join(","))
    }
}

/// The part of Sandia's case names before the colon.
pub const SANDIA: &str = "sandia";

pub fn find_sandia(prefix: &Path) -> Result<Oshmem> {
    Oshmem::find(Vendor::Sandia, prefix)
}

/// The program that measures memory.
pub struct PeersProgram {
    program: PathBuf,
    _directory: TempDir,
}

impl PeersProgram {
    pub fn compile() -> Result<PeersProgram> {
        let directory = tempfile::Builder::new().prefix("selvedge-bench-").tempdir()?;
        let (source, program) = (directory.path().join("peers.c"), directory.path().join("peers"));
        fs::write(&source, PEERS_SOURCE)?;
        let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compile.args(["-std=gnu11", "-O2", "-o"]).arg(&program).arg(&source).arg("-lfabric");
        output(&mut compile, HELPER_LIMIT).context("bench/fi/peers.c does not compile (Debian: libfabric-dev)")?;
        Ok(PeersProgram { program, _directory: directory })
    }

    pub fn measure(&self, provider: &Provider, hosts: &SeparateHosts, count: u64) -> Result<Vec<Measurement>> {
        let [shell, option, script, directory] = hosts.words();
        let mut command = Command::new(shell);
        command.args([option, script, directory]).arg(&self.program).args([PROVIDER, &count.to_string()]);
        let of_fabric = |name: &str| name.starts_with("FI_");
        let variables = provider.variables(Target::Openmpi)?;
        command.envs(variables.into_iter().filter(|v| of_fabric(v.name)).map(|v| (v.name, v.value)));
        command.envs([("SELVEDGE_NET", "on"), ("SELVEDGE_NET_INTERFACE", INTERFACE)]);
        measurements(&mut command, LIMIT)
    }
}
