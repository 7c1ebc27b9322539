// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The installed MPIs, and the two sides on which each is measured: over its own transport, and over a libfabric provider.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::MpiScale;
use super::batch::{Batch, turn_ms};
use crate::bench::peers::{compile, installed, path_with};
use crate::bench::process::measurements;
use crate::bench::record::Measurement;
use crate::env::{Target, Variable, preload, provider_directory, variables};
use crate::mpirun::Family;

/// A run may take its estimated time times the factor, plus the extra time, before it is ended.
const EXTRA_FACTOR: f64 = 6.0;
const EXTRA_TIME: Duration = Duration::from_secs(60);
/// The provider's thresholds between its two protocols, and the values with which no message, or every message, goes through a ring.
const THRESHOLDS: [&str; 2] = ["SELVEDGE_FI_LANE_MAX", "SELVEDGE_FI_SMALL_MAX"];
const RING_NEVER: &str = "0";
const RING_ALWAYS: &str = "4294967296";

/// The provider of `FI_PROVIDER`.
#[derive(Debug)]
pub struct Provider {
    /// `None`: it is one of libfabric's own.
    directory: Option<PathBuf>,
    name: String,
}

impl Provider {
    /// Finds our provider, unless another is named.
    pub fn find(name: Option<&str>, prefix: &Path) -> Result<Provider> {
        Ok(match name {
            Some(name) => Provider { directory: None, name: name.to_owned() },
            None => Provider { directory: Some(provider_directory(prefix)?), name: "selvedge".to_owned() },
        })
    }

    pub fn is_ours(&self) -> bool {
        self.directory.is_some()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The variables of `selvedge env` for our provider; for another, the same with its name instead of ours.
    pub fn variables(&self, target: Target) -> Result<Vec<Variable>> {
        let place = self.directory.as_deref().unwrap_or(Path::new(""));
        let mut all = variables(target, place)?;
        all.extend(self.directory.as_deref().and_then(|place| preload(target, place)));
        if !self.is_ours() {
            all.retain(|variable| variable.name != "FI_PROVIDER_PATH");
            // Ours is named together with those that carry its links.
            let named = |variable: &&mut Variable| variable.value == "selvedge" || variable.name == "FI_PROVIDER";
            all.iter_mut().filter(named).for_each(|variable| variable.value = self.name.clone().into());
        }
        Ok(all)
    }
}

/// The transport that an MPI is measured over.
pub enum Transport<'a> {
    Own,
    Over(&'a Provider),
    /// Our provider with one protocol for every message: `lane` (through a ring) or `direct`.
    Forced {
        provider: &'a Provider,
        protocol: &'static str,
        ring_max: &'static str,
    },
}

impl<'a> Transport<'a> {
    pub fn protocols(provider: &'a Provider) -> [Transport<'a>; 2] {
        [("lane", RING_ALWAYS), ("direct", RING_NEVER)].map(|(protocol, ring_max)| Transport::Forced {
            provider,
            protocol,
            ring_max,
        })
    }

    /// The part of its cases' names before the colon.
    pub fn prefix(&self, stock: &InstalledMpi) -> String {
        match self {
            Transport::Own => format!("{}_own", stock.label),
            Transport::Over(_) => stock.label.clone(),
            Transport::Forced { protocol, .. } => (*protocol).to_owned(),
        }
    }

    fn set(&self, command: &mut Command, target: Target) -> Result<()> {
        let provider = match self {
            Transport::Own => {
                // Variables of the user must not make this side use our provider.
                for Variable { name, .. } in variables(target, Path::new("/"))? {
                    command.env_remove(name);
                }
                return Ok(());
            }
            Transport::Over(provider) | Transport::Forced { provider, .. } => provider,
        };
        command.envs(provider.variables(target)?.into_iter().map(|variable| (variable.name, variable.value)));
        for threshold in THRESHOLDS {
            match self {
                Transport::Forced { ring_max, .. } => command.env(threshold, ring_max),
                _ => command.env_remove(threshold),
            };
        }
        Ok(())
    }
}

/// An installed MPI with the measuring program compiled for it.
pub struct InstalledMpi {
    family: Family,
    bin: PathBuf,
    /// Such as "Open MPI 5.0.11".
    pub version: String,
    /// Such as "openmpi5".
    pub label: String,
    program: PathBuf,
    _directory: TempDir,
}

impl InstalledMpi {
    pub fn find(family: Family, prefix: &Path) -> Vec<Result<InstalledMpi>> {
        let name = match family {
            Family::Openmpi => "openmpi",
            Family::Mpich => "mpich",
        };
        let found = installed(name, prefix).into_iter();
        found
            .map(|(bin, version)| {
                let (directory, program) = compile(&bin).with_context(|| version.clone())?;
                let label = label(name, &version);
                Ok(InstalledMpi { family, bin, version, label, program, _directory: directory })
            })
            .collect()
    }

    pub fn measure(&self, side: &Transport, batch: &Batch, scale: &MpiScale, pinned: bool) -> Result<Vec<Measurement>> {
        let (processes, list) =
            (batch.processes(scale), |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>().join(","));
        let mut command = Command::new(self.bin.join("mpiexec"));
        command.args(["-n", &processes.to_string()]);
        let (pinned, target) = (pinned && processes == 2, self.target());
        match self.family {
            Family::Openmpi if pinned => command.args(["--bind-to", "core"]),
            Family::Openmpi => command.args(["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]),
            Family::Mpich => command.args(["-bind-to", if pinned { "core" } else { "none" }]),
        };
        command.arg(&self.program).args(["--prefix", &side.prefix(self), "--what", &batch.what.join(",")]);
        command.args(["--budget-ms", &turn_ms(scale).to_string()]);
        for (option, values) in [("--sizes", batch.sizes(scale)), ("--depths", batch.depths(scale))] {
            if !values.is_empty() {
                command.args([option, &list(values)]);
            }
        }
        side.set(&mut command, target)?;
        // Open MPI refuses to run as root, the user of many containers, unless both variables allow it.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("PATH", path_with(&self.bin));
        let limit = Duration::from_secs_f64(batch.estimate_ms(scale) * EXTRA_FACTOR / 1000.0) + EXTRA_TIME;
        measurements(&mut command, limit)
    }

    fn target(&self) -> Target {
        match self.family {
            Family::Openmpi => Target::Openmpi,
            Family::Mpich => Target::Mpich,
        }
    }
}

/// The label of an MPI. Open MPI 4 and 5 are measured apart, because they differ much; of MPICH one is enough.
fn label(name: &str, version: &str) -> String {
    let number = version.split_ascii_whitespace().last().and_then(|number| number.split('.').next());
    match (name, number) {
        ("openmpi", Some(number)) => format!("openmpi{number}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_differ_have_names_that_differ() {
        assert_eq!(label("openmpi", "Open MPI 4.1.4"), "openmpi4");
        assert_eq!(label("openmpi", "Open MPI 5.0.11"), "openmpi5");
        assert_eq!(label("mpich", "MPICH 5.0.2"), "mpich");
    }

    #[test]
    fn another_provider_takes_every_place_of_ours() {
        let other = Provider::find(Some("tcp"), Path::new("/nowhere")).unwrap();
        let all = other.variables(Target::Openmpi).unwrap();
        assert!(all.iter().all(|variable| variable.name != "FI_PROVIDER_PATH" && variable.value != "selvedge"));
        assert_eq!(all.iter().filter(|variable| variable.value == "tcp").count(), 4);
        assert!(Provider::find(None, Path::new("/nowhere")).is_err());
    }
}
