// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Halo exchange: neighbours exchange the faces of their blocks, as a stencil does before each step.
//!
//! Ranks form a grid, as near to a square or cube as their number allows; its edges are joined unless they are open.
//! Each rank has a block of cells. Its value follows from its global position and the step, so every arriving cell is
//! checked.
//!
//! With `sums` a step is an iteration of a solver of the family of conjugate gradients: the exchange, then equal parts
//! of the computing, each followed by a sum of one word over all ranks. Every sum is checked.

use std::sync::Arc;

use super::collective::{SWITCHES, in_switches, join_all};
use super::parameter::{Kind, Parameter, whole, word};
use super::{BuiltIn, Prepared, ProgramError, Setting};
use crate::program::aggregation::{JoinedGroup, Reduce};
use crate::program::collectives::Sum;
use crate::program::{Needs, Process};
use crate::random::Random;
use crate::time::Time;

pub(super) const HALO: BuiltIn = BuiltIn {
    name: "halo",
    about: "exchange of faces between neighbours of a grid of ranks",
    over: "bytes of a face",
    ranks_min: 1,
    parameters: &[
        word("dimensions", &["2", "3"], "3", "of the grid"),
        whole("cells", "16", 1, "cells of a rank in each dimension; a cell has 8 bytes"),
        whole("iterations", "10", 1, "steps"),
        Parameter {
            name: "cell-ns",
            kind: Kind::Number { least: 0.0, most: 1e6 },
            default: "1",
            about: "time of the processor to compute a cell",
        },
        word("edges", &["joined", "open"], "joined", "of the grid; open: ranks at an edge have no neighbour beyond"),
        whole("sums", "0", 0, "sums of a word over all ranks in a step"),
        word("algorithm", &["recursive-doubling", SWITCHES], "recursive-doubling", "of the sums"),
        Parameter {
            name: "sum-ns",
            kind: Kind::Number { least: 0.0, most: 1e6 },
            default: "0",
            about: "additional time of a sum: the library above, other processes of the node",
        },
        whole("eager-bytes", "8K", 0, "messages up to this length are sent at once"),
    ],
    make,
};

#[derive(Clone)]
struct Grid {
    /// Ranks in each dimension; in two dimensions the last is 1.
    ranks: [u64; 3],
    /// Cells of a rank in each dimension.
    cells: [u64; 3],
    /// Whether ranks at an edge have no neighbour beyond it.
    is_open: bool,
}

#[derive(Clone)]
struct Sums {
    count: u64,
    algorithm: &'static str,
    /// Additional time of each.
    library: Time,
    /// All ranks, as members of a group; they share the list.
    members: Arc<[u32]>,
}

fn make(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    let flat = arguments.word("dimensions") == "2";
    let (cells, iterations) = (arguments.whole("cells"), arguments.whole("iterations"));
    let grid = Grid {
        ranks: factors(setting.ranks.into(), if flat { 2 } else { 3 }),
        cells: [cells, cells, if flat { 1 } else { cells }],
        is_open: arguments.word("edges") == "open",
    };
    let sums = Sums {
        count: arguments.whole("sums"),
        algorithm: arguments.word("algorithm"),
        library: Time::from_ns_f64(arguments.number("sum-ns")),
        members: (0..setting.ranks).collect(),
    };
    if grid.cells.iter().product::<u64>() > 1 << 24 {
        return Err(arguments.refuse("cells", "a number with at most 16M cells a rank"));
    }
    let compute = Time::from_ns_f64(arguments.number("cell-ns") * grid.cells.iter().product::<u64>() as f64);
    let eager_bytes_max = arguments.whole("eager-bytes");
    let by_switches = sums.algorithm == SWITCHES;
    let needs = Needs {
        memory_bytes: if by_switches { WORD } else { 0 },
        receives: 32,
        unexpected: 16,
        windows: 0,
        eager_bytes_max,
        groups: by_switches.into(),
        ..Needs::default()
    };
    Ok(Prepared::new(needs, move |process| {
        let (grid, sums) = (grid.clone(), sums.clone());
        async move {
            let group = match join_all(&process, sums.algorithm, &sums.members).await {
                Ok(group) => group,
                Err(code) => return code,
            };
            process.barrier(TAG_BARRIER).await;
            let start = process.now();
            for step in 0..iterations {
                if !grid.exchange(&process, step).await {
                    return 1;
                }
                if sums.count == 0 {
                    process.compute(compute).await;
                }
                for part in 0..sums.count {
                    process.compute(compute / sums.count).await;
                    if let Err(code) = sums.sum(&process, group.as_ref(), step * sums.count + part).await {
                        return code;
                    }
                }
            }
            let face = (grid.face(0).count() * 8) as f64;
            process.lap("step, us", face, start, iterations, Time::as_us_f64);
            let communication = if sums.count == 0 { "exchange, us" } else { "exchange and sums, us" };
            process.lap(communication, face, start, iterations, |step| (step - compute).as_us_f64());
            0
        }
    }))
}

const TAG_BARRIER: u32 = 8;
const TAG_SUM: u32 = 9;
const WORD: usize = 8;

impl Sums {
    /// Runs sum `number`, whose words follow from it and from the rank. The error is an exit code.
    async fn sum(&self, process: &Process, group: Option<&JoinedGroup>, number: u64) -> Result<(), i32> {
        let (rank, size) = (u64::from(process.rank()), u64::from(process.size()));
        let mut word = ((rank + 1) * (number + 1)).to_le_bytes();
        process.spend(self.library);
        match self.algorithm {
            SWITCHES => in_switches(process, group, Reduce::WORDS, &mut word).await?,
            _ => process.allreduce(Sum::RecursiveDoubling, TAG_SUM, &mut word).await,
        }
        if u64::from_le_bytes(word) != size * (size + 1) / 2 * (number + 1) {
            return Err(process.wrong(format!("sum {number} is wrong")));
        }
        Ok(())
    }
}

impl Grid {
    fn place(&self, rank: u32) -> [u64; 3] {
        let rank = u64::from(rank);
        [rank % self.ranks[0], rank / self.ranks[0] % self.ranks[1], rank / self.ranks[0] / self.ranks[1]]
    }

    /// Returns a neighbour. `None`: it would lie beyond an open edge, or the grid has one rank in this dimension.
    fn neighbour(&self, rank: u32, dimension: usize, up: bool) -> Option<u32> {
        let mut place = self.place(rank);
        let count = self.ranks[dimension];
        let edge = if up { count - 1 } else { 0 };
        if count == 1 || (self.is_open && place[dimension] == edge) {
            return None;
        }
        place[dimension] = (place[dimension] + if up { 1 } else { count - 1 }) % count;
        Some((place[0] + self.ranks[0] * (place[1] + self.ranks[1] * place[2])) as u32)
    }

    /// Returns the cells of a face across a dimension: their positions in the other two dimensions.
    fn face(&self, dimension: usize) -> impl Iterator<Item = [u64; 2]> + use<> {
        let [first, second] = [(dimension + 1) % 3, (dimension + 2) % 3].map(|other| self.cells[other]);
        (0..first).flat_map(move |a| (0..second).map(move |b| [a, b]))
    }

    /// Returns the values of the cells at one end of a rank's block in a step.
    fn cells_at(&self, rank: u32, dimension: usize, up: bool, step: u64) -> Vec<u8> {
        let place = self.place(rank);
        let mut bytes = Vec::new();
        for others in self.face(dimension) {
            let mut cell = [0; 3];
            cell[dimension] = if up { self.cells[dimension] - 1 } else { 0 };
            [cell[(dimension + 1) % 3], cell[(dimension + 2) % 3]] = others;
            let whole: Vec<u64> = (0..3).map(|each| place[each] * self.cells[each] + cell[each]).collect();
            let number = whole[0] ^ whole[1] << 20 ^ whole[2] << 40;
            bytes.extend(Random::new(number, step).next_u64().to_le_bytes());
        }
        bytes
    }

    async fn exchange(&self, process: &Process, step: u64) -> bool {
        let rank = process.rank();
        let (mut receives, mut sends) = (Vec::new(), Vec::new());
        let sides = (0..3).flat_map(|dimension| [false, true].map(|up| (dimension, up)));
        let with = |(dimension, up)| Some((dimension, up, self.neighbour(rank, dimension, up)?));
        let neighbours: Vec<(usize, bool, u32)> = sides.filter_map(with).collect();
        for &(dimension, up, from) in &neighbours {
            // The neighbour above has sent its lower face.
            let bytes = self.face(dimension).count() as u64 * 8;
            receives.push(process.irecv(from, tag(dimension, !up), bytes));
        }
        for &(dimension, up, to) in &neighbours {
            let cells = self.cells_at(rank, dimension, up, step);
            sends.push(process.isend(to, tag(dimension, up), &cells).await);
        }
        for (request, &(dimension, up, from)) in receives.into_iter().zip(&neighbours) {
            let message = process.wait(request).await;
            let expected = self.cells_at(from, dimension, !up, step);
            if message.is_none_or(|message| message.bytes[..] != expected[..]) {
                process.wrong(format!("the face of rank {from} across dimension {dimension} is wrong in step {step}"));
                return false;
            }
        }
        process.wait_all(&sends).await;
        true
    }
}

fn tag(dimension: usize, up: bool) -> u32 {
    2 * dimension as u32 + u32::from(up)
}

/// Returns a number as a product of `count` factors that are as near to each other as possible, the largest first.
fn factors(number: u64, count: u32) -> [u64; 3] {
    let mut best = [number, 1, 1];
    for first in (1..=number).filter(|first| number % first == 0) {
        let rest = number / first;
        for second in (1..=rest).filter(|second| rest % second == 0) {
            let mut found = [first, second, rest / second];
            found.sort_by(|a, b| b.cmp(a));
            if (count == 3 || found[2] == 1) && found[0] < best[0] {
                best = found;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_as_square_as_may_be() {
        assert_eq!(factors(12, 2), [4, 3, 1]);
        assert_eq!(factors(12, 3), [3, 2, 2]);
        assert_eq!(factors(64, 3), [4, 4, 4]);
        assert_eq!(factors(7, 2), [7, 1, 1]);
        assert_eq!(factors(1, 3), [1, 1, 1]);
    }

    #[test]
    fn neighbours_are_each_others() {
        for is_open in [false, true] {
            let grid = Grid { ranks: factors(12, 3), cells: [2, 2, 2], is_open };
            for rank in 0..12 {
                for dimension in 0..3 {
                    let up = grid.neighbour(rank, dimension, true);
                    let is_last = grid.place(rank)[dimension] == grid.ranks[dimension] - 1;
                    assert_eq!(up.is_none(), is_open && is_last);
                    assert!(up.is_none_or(|up| grid.neighbour(up, dimension, false) == Some(rank)));
                }
            }
        }
    }
}
