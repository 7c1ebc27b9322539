// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Batches: the measurements of one run of the program. Their names are those of `bench/mpi/main.c`.

use clap::builder::PossibleValuesParser;

use super::scale::MpiScale;

#[derive(Debug, Clone, Copy)]
pub struct Batch {
    pub name: &'static str,
    pub what: &'static [&'static str],
    pub processes: usize,
    pub sizes: &'static [u64],
    pub depths: &'static [u64],
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

pub const ALL: &[Batch] = &[
    Batch {
        name: "latency",
        what: &["pingpong"],
        sizes: &[0, 8, 64, 256, KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB],
        ..TWO
    },
    Batch {
        name: "latency",
        what: &["pingpong_used"],
        sizes: &[KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB],
        ..TWO
    },
    Batch { name: "latency", what: &["exchange"], sizes: &[8, 64, KIB, 4 * KIB, 16 * KIB, 64 * KIB], ..TWO },
    Batch { name: "flow", what: &["rate", "stream"], sizes: &[64 * KIB, 256 * KIB, MIB, 4 * MIB], ..TWO },
    Batch { name: "matching", what: &["last_unexpected", "last_posted"], depths: &[16, 1024, 16384], ..TWO },
    Batch {
        name: "one-sided",
        what: &["put", "get", "accumulate", "fetch_add"],
        sizes: &[8, 4 * KIB, 64 * KIB],
        ..TWO
    },
    Batch {
        name: "one-sided",
        what: &["put_created", "get_created", "accumulate_created"],
        sizes: &[8, 4 * KIB, 64 * KIB],
        ..TWO
    },
    // Its own batch, because Open MPI 4.1.4 ends with a segmentation fault over its own transport.
    Batch { name: "one-sided", what: &["compare_swap"], ..TWO },
    Batch { name: "overlap", what: &["overlap_recv", "overlap_window", "overlap_created"], ..TWO },
    Batch { name: "collectives", what: &["allreduce", "alltoall"], processes: 16, sizes: &[8, 4 * KIB], depths: &[] },
];

/// Both protocols of our provider, over the sizes around their crossover.
pub const PROTOCOLS: Batch = Batch {
    name: "protocols",
    what: &["pingpong"],
    sizes: &[64, 256, KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, MIB],
    ..TWO
};

/// `fi_pingpong`, without an MPI.
pub const FABRIC: &str = "fabric";

const TWO: Batch = Batch { name: "", what: &[], processes: 2, sizes: &[], depths: &[] };

/// The names accepted on the command line.
pub fn names() -> PossibleValuesParser {
    let mut names: Vec<_> = ALL.iter().map(|batch| batch.name).chain([PROTOCOLS.name, FABRIC]).collect();
    names.dedup();
    names.into()
}

impl Batch {
    pub fn sizes(&self, scale: &MpiScale) -> &'static [u64] {
        first_of(self.sizes, scale)
    }

    pub fn depths(&self, scale: &MpiScale) -> &'static [u64] {
        first_of(self.depths, scale)
    }

    pub fn processes(&self, scale: &MpiScale) -> usize {
        if scale.tiny { self.processes.min(4) } else { self.processes }
    }

    /// Estimates the time of one turn, including start and end of the program.
    pub fn estimate_ms(&self, scale: &MpiScale) -> f64 {
        const START_MS: f64 = 2500.0;
        let points = self.sizes(scale).len().max(self.depths(scale).len()).max(1) * self.what.len();
        START_MS + points as f64 * turn_ms(scale) * 1.5
    }
}

/// The time budget of one turn.
pub fn turn_ms(scale: &MpiScale) -> f64 {
    scale.budget_ms / f64::from(scale.turns)
}

fn first_of(all: &'static [u64], scale: &MpiScale) -> &'static [u64] {
    if scale.tiny { &all[..all.len().min(2)] } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_ascend() {
        for batch in ALL.iter().chain([&PROTOCOLS]) {
            assert!(batch.sizes.is_sorted() && batch.depths.is_sorted() && !batch.what.is_empty(), "{}", batch.name);
        }
    }

    #[test]
    fn a_smoke_run_is_small() {
        let biggest = ALL.iter().map(|batch| batch.processes(&MpiScale::SMOKE)).max();
        assert_eq!(biggest, Some(4));
        assert!(ALL.iter().all(|batch| batch.sizes(&MpiScale::SMOKE).len() <= 2));
    }
}
