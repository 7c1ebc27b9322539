// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts that are measured between hosts, by their names on the command line.

use super::super::mpi::batch::Batch;
use super::super::mpi::side::NetProgress;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Measurements with one name. All sides measure them, one after another, before the next part begins.
pub struct Part {
    pub name: &'static str,
    pub about: &'static str,
    pub kind: PartKind,
}

/// The sides of a part, and their measurement.
pub enum PartKind {
    /// Each MPI over our provider, and over networks that it has without us.
    Mpi { batch: Batch, with_calls: bool, with_networks: bool },
    /// A program that an MPI starts and that opens TCP connections itself.
    Bare(Batch),
    /// A program of bench/shmem, here and with Sandia OpenSHMEM.
    Pes { program: &'static str, what: &'static str, ours: &'static [Pes], arguments: &'static [&'static str] },
    /// Memory of a process that knows this number of other processes.
    Memory(&'static [u64]),
}

/// The mode of our PEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pes {
    pub progress: NetProgress,
    /// The target sleeps outside the library. Otherwise it waits in the library.
    pub is_asleep: bool,
}

impl Pes {
    const USUAL: Pes = Pes { progress: NetProgress::Thread, is_asleep: false };
    const CALLS: Pes = Pes { progress: NetProgress::Calls, is_asleep: false };
    const ASLEEP: Pes = Pes { progress: NetProgress::Thread, is_asleep: true };

    /// The part of the case names before the colon.
    pub fn label(self) -> String {
        format!("shmem{}{}", self.progress.suffix(), if self.is_asleep { "_asleep" } else { "" })
    }
}

const TWO: Batch = Batch { name: "", what: &[], processes: 2, sizes: &[], depths: &[] };

pub const PARTS: &[Part] = &[
    Part {
        name: "latency",
        about: "MPI: half a round trip of 8 B to 64 KiB; with the progress thread, and by calls",
        kind: PartKind::Mpi {
            batch: Batch { what: &["pingpong"], sizes: &[8, KIB, 16 * KIB, 64 * KIB], ..TWO },
            with_calls: true,
            with_networks: true,
        },
    },
    Part {
        name: "flow",
        about: "MPI: messages of 8 B a second, 64 in flight; bandwidth of 256 KiB to 16 MiB, 16 in flight",
        kind: PartKind::Mpi {
            batch: Batch { what: &["rate", "stream"], sizes: &[256 * KIB, MIB, 4 * MIB, 16 * MIB], ..TWO },
            with_calls: false,
            with_networks: true,
        },
    },
    Part {
        name: "overlap",
        about: "MPI: 50 receives of 1 MiB, posted before their owner computes for a second",
        kind: PartKind::Mpi {
            batch: Batch { what: &["overlap_posted"], ..TWO },
            with_calls: true,
            with_networks: true,
        },
    },
    Part {
        name: "overlap",
        about: "the same bytes by TCP, without an MPI: what the kernel leaves",
        kind: PartKind::Bare(Batch { what: &["overlap_tcp"], ..TWO }),
    },
    Part {
        name: "overlap",
        about: "OpenSHMEM: 50 puts of 1 MiB while the target computes for a second",
        kind: PartKind::Pes {
            program: "overlap",
            what: "overlap_put",
            ours: &[Pes::USUAL, Pes::CALLS],
            arguments: &[],
        },
    },
    Part {
        name: "progress",
        about: "the processor time of an MPI rank that sleeps",
        kind: PartKind::Mpi { batch: Batch { what: &["idle"], ..TWO }, with_calls: true, with_networks: true },
    },
    Part {
        name: "shmem",
        about: "OpenSHMEM: half a round trip of a counting put, and of a put with signal, 8 B",
        kind: PartKind::Pes {
            program: "latency",
            what: "counting_put,put_signal",
            ours: &[Pes::USUAL, Pes::CALLS],
            arguments: &["--sizes", "8"],
        },
    },
    Part {
        name: "shmem",
        about: "OpenSHMEM: get, fetch-and-add, put and quiet, 8 B; of a target in the library, and of one that sleeps",
        kind: PartKind::Pes {
            program: "operations",
            what: "get,fetch_add,put_quiet",
            ours: &[Pes::USUAL, Pes::ASLEEP],
            arguments: &["--sizes", "8"],
        },
    },
    Part {
        name: "memory",
        about: "the memory for each process of another host before the first message to it",
        kind: PartKind::Memory(&[1000, 10_000]),
    },
];

/// The names accepted on the command line.
pub fn names() -> clap::builder::PossibleValuesParser {
    let mut names: Vec<_> = PARTS.iter().map(|part| part.name).collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}
