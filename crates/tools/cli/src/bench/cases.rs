// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cases: subject, program, duration and sizes. [`super::catalogue`] lists them.
//!
//! Invariant: the duration of a case depends on [`Scale`] alone.

use std::time::Duration;

/// Cases that are measured together and share a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Portals,
    Shmem,
    Extoll,
}

impl Group {
    pub const ALL: [Group; 3] = [Group::Portals, Group::Shmem, Group::Extoll];

    /// The group of a case or of a baseline that is measured with it.
    pub fn of(name: &str) -> Group {
        if name.starts_with("shmem_") || name.starts_with("oshmem:") {
            return Group::Shmem;
        }
        if name.starts_with("extoll_") { Group::Extoll } else { Group::Portals }
    }

    /// The word that selects all cases of the group. `None`: its cases run without a word.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Group::Portals => None,
            Group::Shmem => Some("shmem"),
            Group::Extoll => Some("extoll"),
        }
    }

    /// The case that measures the hardware alone with [`Runner::Raw`].
    pub fn raw(self) -> Option<&'static str> {
        match self {
            Group::Portals => Some("raw_flag"),
            Group::Shmem => None,
            Group::Extoll => Some("extoll_raw"),
        }
    }
}

/// The OpenSHMEM library that a program is compiled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    Ours,
    /// Ours in host mode: each PE runs its own interface, so a put is a message, as in a network, not a store.
    OursHost,
    OpenMpi,
}

/// The suffix of names of [`Library::OursHost`] cases; the programs do not know it.
pub const HOST_SUFFIX: &str = "_host";

/// The program of a case, and how it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// Two processes that do not use our libraries.
    Raw,
    /// `selvedge run` with a program of bench, once for each number of processes.
    Ranks { program: &'static str, processes: &'static [usize], environment: &'static [(&'static str, &'static str)] },
    /// UCX's ucx_perftest.
    Ucx,
    /// The program of bench/mpi with this MPI.
    Mpi { family: &'static str, what: &'static str },
    /// A program of bench/shmem, once for each number of PEs. Adjacent cases with the same program share a run.
    Pes { library: Library, program: &'static str, counts: &'static [usize] },
    /// Valgrind, which counts the instructions of one call.
    Instructions,
}

/// The parameter that a case varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Varies {
    Nothing,
    /// 8 B to 4 MB.
    LatencySizes,
    /// 8 B to 4 KB.
    ShortSizes,
    /// 64 KB to 16 MB.
    BandwidthSizes,
    /// 64 KB and larger, as long as two buffers fit into the caches.
    HotSizes,
    /// 8 B to 64 KB.
    ExchangeSizes,
    /// 8 B to 64 KB, in small steps around the protocol thresholds.
    ProtocolSizes,
    Depths,
}

pub struct Case {
    pub name: &'static str,
    pub about: &'static str,
    pub runner: Runner,
    pub varies: Varies,
    /// Baselines that are measured in the same run.
    pub yields: &'static [&'static str],
    /// Time of one size or depth, in budgets.
    pub weight: f64,
    /// Measured in several short turns that alternate with its peer or baseline; otherwise in one turn.
    pub turns: bool,
}

pub const fn case(name: &'static str, about: &'static str, runner: Runner, varies: Varies) -> Case {
    Case { name, about, runner, varies, yields: &[], weight: 1.0, turns: false }
}

/// A case that alternates with others of the same baseline, because a VM's core distances change.
pub const fn in_turns(name: &'static str, about: &'static str, runner: Runner, varies: Varies) -> Case {
    Case { turns: true, ..case(name, about, runner, varies) }
}

/// Cases that one run of a program measures; never empty.
pub type Batch = Vec<&'static Case>;

/// Puts adjacent cases that share a program of bench/shmem into one batch, and every other case into its own.
pub fn batches(chosen: &[&'static Case]) -> Vec<Batch> {
    let together = |a: &&Case, b: &&Case| matches!(a.runner, Runner::Pes { .. }) && a.runner == b.runner;
    chosen.chunk_by(together).map(<[_]>::to_vec).collect()
}

/// Estimates the time of one turn, including program start, for the plan.
pub fn estimate(batch: &[&Case], scale: &Scale) -> Duration {
    let (runs, start_ms) = match batch[0].runner {
        Runner::Raw => (1.0, 20.0),
        Runner::Ranks { processes, .. } => (processes.len() as f64, 200.0),
        Runner::Ucx => (2.0, 500.0),
        Runner::Mpi { .. } => (1.0, 1000.0),
        Runner::Pes { library: Library::OpenMpi, counts, .. } => (counts.len() as f64, 1200.0),
        Runner::Pes { counts, .. } => (counts.len() as f64, 300.0),
        Runner::Instructions => (1.0, 5000.0),
    };
    let points = |c: &&Case| c.sizes(scale).len().max(c.depths(scale).len()).max(1) as f64 * c.budget_ms(scale);
    let ms = runs * (start_ms + batch.iter().map(points).sum::<f64>() * 1.3);
    Duration::from_secs_f64(ms / 1000.0)
}

impl Case {
    pub fn is_peer(&self) -> bool {
        matches!(self.runner, Runner::Ucx | Runner::Mpi { .. } | Runner::Pes { library: Library::OpenMpi, .. })
    }

    pub fn group(&self) -> Group {
        Group::of(self.name)
    }

    /// The case's name in its program, without the library's name.
    pub fn bare_name(&self) -> &'static str {
        let name = self.name.strip_suffix(HOST_SUFFIX).unwrap_or(self.name);
        name.strip_prefix("shmem_").or_else(|| name.strip_prefix("oshmem:")).unwrap_or(name)
    }

    /// Time for one size or depth in one turn.
    pub fn budget_ms(&self, scale: &Scale) -> f64 {
        scale.budget_ms * self.weight / if self.turns { f64::from(scale.turns) } else { 1.0 }
    }

    /// Whether `name` selects this case: by its own name, a baseline measured with it, its family, or its group.
    pub fn is_selected_by(&self, name: &str) -> bool {
        let family = || self.name.split_once(':').map(|(family, _)| family);
        let is_of_group = self.group().word() == Some(name);
        self.name == name || self.yields.contains(&name) || family() == Some(name) || is_of_group
    }

    /// Maximum time for the repetitions at one depth. Ours are always measured to the longest list.
    pub fn limit_ms(&self, scale: &Scale) -> f64 {
        if self.is_peer() { scale.peer_limit_ms } else { Scale::FULL.peer_limit_ms }
    }

    pub fn sizes(&self, scale: &Scale) -> Vec<u64> {
        match self.varies {
            Varies::LatencySizes => scale.latency_sizes.to_vec(),
            Varies::ShortSizes => scale.latency_sizes.iter().copied().filter(|s| *s <= 4 << 10).collect(),
            Varies::BandwidthSizes => scale.bandwidth_sizes.to_vec(),
            Varies::HotSizes => scale.bandwidth_sizes.iter().copied().filter(|s| *s <= 1 << 20).collect(),
            Varies::ExchangeSizes => scale.exchange_sizes.to_vec(),
            Varies::ProtocolSizes => scale.protocol_sizes.to_vec(),
            Varies::Nothing | Varies::Depths => Vec::new(),
        }
    }

    pub fn depths(&self, scale: &Scale) -> Vec<u64> {
        if self.varies == Varies::Depths { scale.depths.to_vec() } else { Vec::new() }
    }
}

/// Durations and sizes of a run.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Time for one size or depth of one case.
    pub budget_ms: f64,
    /// A peer's queue length whose repetitions would take longer is left out and reported.
    pub peer_limit_ms: f64,
    /// Time of one group; cases that do not fit are left out and reported.
    pub total: Option<Duration>,
    pub ring_bytes: u64,
    pub latency_sizes: &'static [u64],
    pub bandwidth_sizes: &'static [u64],
    pub exchange_sizes: &'static [u64],
    pub protocol_sizes: &'static [u64],
    pub depths: &'static [u64],
    /// Number of turns of cases that alternate with a peer or a baseline.
    pub turns: u32,
}

impl Scale {
    pub const FULL: Scale = Scale {
        budget_ms: 500.0,
        peer_limit_ms: 30_000.0,
        total: None,
        ring_bytes: 32 << 20,
        latency_sizes: &[8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20],
        bandwidth_sizes: &[64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20],
        exchange_sizes: &[8, 64, 512, 4 << 10, 16 << 10, 64 << 10],
        protocol_sizes: &[8, 32, 64, 112, 128, 256, 512, 1024, 1536, 2048, 2560, 3072, 4096, 8192, 16384, 65536],
        depths: &[1, 16, 256, 1024, 4096, 16384, 65536],
        turns: 5,
    };
    pub const QUICK: Scale = Scale {
        budget_ms: 60.0,
        peer_limit_ms: 1000.0,
        total: Some(Duration::from_secs(54)),
        latency_sizes: &[8, 64, 1 << 10, 16 << 10, 256 << 10, 4 << 20],
        bandwidth_sizes: &[64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20],
        exchange_sizes: &[8, 4 << 10, 64 << 10],
        protocol_sizes: &[8, 112, 512, 1024, 2048, 4096],
        turns: 3,
        ..Scale::FULL
    };
    /// Only checks that everything runs.
    pub const SMOKE: Scale = Scale {
        budget_ms: 2.0,
        peer_limit_ms: 1000.0,
        total: None,
        ring_bytes: 1 << 20,
        latency_sizes: &[8, 4096],
        bandwidth_sizes: &[64 << 10],
        exchange_sizes: &[8, 4096],
        protocol_sizes: &[8, 2048],
        depths: &[1, 16, 64],
        turns: 1,
    };
}
