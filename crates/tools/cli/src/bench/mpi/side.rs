// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The installed MPIs, and the transports that each is measured over: its own, and a libfabric provider; between hosts,
//! our provider and a network of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use selvedge_launcher::environment::{Target, Variable, libraries, provider_directory, variables};
use selvedge_launcher::mpirun::Family;
use tempfile::TempDir;

use super::batch::{Batch, turn_ms};
use super::scale::MpiScale;
use crate::bench::peers::{compile, installed, path_with};
use crate::bench::process::measurements;
use crate::bench::record::Measurement;

/// A run is ended after its estimated time times the factor, plus the extra time.
const EXTRA_FACTOR: f64 = 6.0;
const EXTRA_TIME: Duration = Duration::from_secs(60);
/// The provider's protocol thresholds, and the values that send no message, or every message, through a ring.
const THRESHOLDS: [&str; 2] = ["SELVEDGE_FI_LANE_MAX", "SELVEDGE_FI_SMALL_MAX"];
const RING_NEVER: &str = "0";
const RING_ALWAYS: &str = "4294967296";

/// A provider that `FI_PROVIDER` selects.
#[derive(Debug)]
pub struct Provider {
    /// `None`: one of libfabric's own.
    directory: Option<PathBuf>,
    name: String,
}

impl Provider {
    /// Finds our provider, unless `name` selects another.
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

    /// The variables of `selvedge env`, with the name of this provider.
    pub fn variables(&self, target: Target) -> Result<Vec<Variable>> {
        let place = self.directory.as_deref().unwrap_or(Path::new(""));
        let mut all = variables(target, place)?;
        all.extend(self.directory.iter().flat_map(|place| libraries(target, place)));
        if !self.is_ours() {
            all.retain(|variable| variable.name != "FI_PROVIDER_PATH");
            // Ours appears in one list with the providers that carry its links.
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
    /// Our provider, with each rank as if on a host of its own.
    SeparateHosts {
        provider: &'a Provider,
        hosts: &'a SeparateHosts,
        progress: NetProgress,
    },
    /// Without our provider: a network of the MPI's, or of libfabric's, over the same interface.
    Network(&'static Network),
    /// The same for a program that opens TCP connections itself.
    Bare(&'static Network),
}

/// Makes progress on links to other hosts: a thread, or the program's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetProgress {
    Thread,
    Calls,
}

impl NetProgress {
    /// The value of `SELVEDGE_NET_PROGRESS`.
    pub fn value(self) -> &'static str {
        match self {
            NetProgress::Thread => "thread",
            NetProgress::Calls => "calls",
        }
    }

    /// Suffix of the case names. The thread is the default.
    pub fn suffix(self) -> &'static str {
        match self {
            NetProgress::Thread => "",
            NetProgress::Calls => "_calls",
        }
    }
}

/// Makes two ranks of this host treat each other as remote: each has its own job directory without the other's segment.
pub struct SeparateHosts {
    directory: TempDir,
}

/// The interface between the two simulated hosts.
pub const INTERFACE: &str = "lo";

/// Runs its arguments in the directory of its rank. `$0` is the parent.
const IN_OWN_DIRECTORY: &str = r#"SELVEDGE_DIR=$0/${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} && mkdir -p "$SELVEDGE_DIR" && export SELVEDGE_DIR && exec "$@""#;

impl SeparateHosts {
    pub fn new() -> Result<SeparateHosts> {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("selvedge-bench-");
        let shared = Path::new("/dev/shm");
        let directory = if shared.is_dir() { builder.tempdir_in(shared) } else { builder.tempdir() }?;
        Ok(SeparateHosts { directory })
    }

    /// The words before a rank's program.
    pub fn words(&self) -> [&OsStr; 4] {
        ["sh".as_ref(), "-c".as_ref(), IN_OWN_DIRECTORY.as_ref(), self.directory.path().as_os_str()]
    }
}

/// A network that an MPI can use without us.
pub struct Network {
    pub label: &'static str,
    openmpi: &'static [(&'static str, &'static str)],
    /// `None`: MPICH does not have it.
    mpich: Option<&'static [(&'static str, &'static str)]>,
}

impl Network {
    /// Open MPI's own TCP.
    pub const TCP: Network = Network {
        label: "tcp",
        openmpi: &[("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,tcp"), ("OMPI_MCA_btl_tcp_if_include", INTERFACE)],
        mpich: None,
    };

    /// libfabric's reliable datagrams over TCP, the provider that carries our links.
    pub const RXM: Network = Network {
        label: "rxm",
        openmpi: &[
            ("FI_PROVIDER", "tcp,ofi_rxm"),
            ("FI_TCP_IFACE", INTERFACE),
            ("OMPI_MCA_pml", "cm"),
            ("OMPI_MCA_mtl", "ofi"),
            ("OMPI_MCA_btl", "self"),
            ("OMPI_MCA_mtl_ofi_provider_include", "tcp;ofi_rxm"),
            ("OMPI_MCA_opal_common_ofi_provider_include", "tcp;ofi_rxm"),
        ],
        mpich: Some(&[
            ("FI_PROVIDER", "tcp,ofi_rxm"),
            ("FI_TCP_IFACE", INTERFACE),
            ("MPIR_CVAR_CH4_NETMOD", "ofi"),
            ("MPIR_CVAR_NOLOCAL", "1"),
        ]),
    };

    fn variables(&self, target: Target) -> &'static [(&'static str, &'static str)] {
        match target {
            Target::Mpich => self.mpich.unwrap_or_default(),
            Target::Openmpi | Target::Ofi => self.openmpi,
        }
    }
}

impl<'a> Transport<'a> {
    pub fn protocols(provider: &'a Provider) -> [Transport<'a>; 2] {
        [("lane", RING_ALWAYS), ("direct", RING_NEVER)].map(|(protocol, ring_max)| Transport::Forced {
            provider,
            protocol,
            ring_max,
        })
    }

    /// The part of the case names before the colon.
    pub fn prefix(&self, stock: &InstalledMpi) -> String {
        match self {
            Transport::Own => format!("{}_own", stock.label),
            Transport::Over(_) => stock.label.clone(),
            Transport::Forced { protocol, .. } => (*protocol).to_owned(),
            Transport::SeparateHosts { progress, .. } => format!("{}{}", stock.label, progress.suffix()),
            Transport::Network(network) => format!("{}_{}", stock.label, network.label),
            Transport::Bare(_) => "bare_tcp".to_owned(),
        }
    }

    /// Whether it measures our provider.
    pub fn is_ours(&self) -> bool {
        !matches!(self, Transport::Own | Transport::Network(_) | Transport::Bare(_))
    }

    fn set(&self, command: &mut Command, target: Target) -> Result<()> {
        let provider = match self {
            Transport::Own | Transport::Network(_) | Transport::Bare(_) => {
                // Variables of the user must not make this side use our provider.
                for Variable { name, .. } in variables(target, Path::new("/"))? {
                    command.env_remove(name);
                }
                if let Transport::Network(network) | Transport::Bare(network) = self {
                    command.envs(network.variables(target).iter().copied());
                }
                return Ok(());
            }
            Transport::Over(provider)
            | Transport::Forced { provider, .. }
            | Transport::SeparateHosts { provider, .. } => provider,
        };
        if let Transport::SeparateHosts { progress, .. } = self {
            command.envs([("SELVEDGE_NET", "on"), ("SELVEDGE_NET_INTERFACE", INTERFACE)]);
            command.env("SELVEDGE_NET_PROGRESS", progress.value());
        }
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
    /// For example "Open MPI 5.0.11".
    pub version: String,
    /// For example "openmpi5".
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

    /// The networks that it can use without us.
    pub fn networks(&self) -> Vec<&'static Network> {
        let all = [const { &Network::TCP }, const { &Network::RXM }];
        all.into_iter().filter(|network| self.family == Family::Openmpi || network.mpich.is_some()).collect()
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
        if let Transport::SeparateHosts { hosts, .. } = side {
            command.args(hosts.words());
        }
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

/// The label of an MPI. Open MPI 4 and 5 are measured separately, because they differ much; one MPICH is enough.
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
