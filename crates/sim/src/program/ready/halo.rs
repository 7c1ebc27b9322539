// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Halo exchange: neighbours exchange the faces of their blocks, as a stencil does before each step.
//!
//! Ranks form a periodic grid, as near to a square or cube as their number allows. Each has a block of cells. The value
//! of a cell follows from its global position and from the step, so every cell that arrives is checked.

use super::parameter::{Kind, Parameter, whole, word};
use super::{Prepared, ProgramError, Ready, Setting};
use crate::program::{Needs, Process};
use crate::random::Random;
use crate::time::Time;

pub(super) const HALO: Ready = Ready {
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
            about: "what the processor takes to compute a cell",
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
}

fn make(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    let flat = arguments.word("dimensions") == "2";
    let (cells, iterations) = (arguments.whole("cells"), arguments.whole("iterations"));
    let grid = Grid {
        ranks: factors(setting.ranks.into(), if flat { 2 } else { 3 }),
        cells: [cells, cells, if flat { 1 } else { cells }],
    };
    if grid.cells.iter().product::<u64>() > 1 << 24 {
        return Err(arguments.refuse("cells", "such that a rank has at most 16M cells"));
    }
    let compute = Time::from_ns_f64(arguments.number("cell-ns") * grid.cells.iter().product::<u64>() as f64);
    let eager_bytes_max = arguments.whole("eager-bytes");
    let needs =
        Needs { memory_bytes: 0, receives: 32, unexpected: 16, windows: 0, eager_bytes_max, ..Needs::default() };
    Ok(Prepared::new(needs, move |process| {
        let grid = grid.clone();
        async move {
            process.barrier(TAG_BARRIER).await;
            let start = process.now();
            for step in 0..iterations {
                if !grid.exchange(&process, step).await {
                    return 1;
                }
                process.compute(compute).await;
            }
            let face = (grid.face(0).count() * 8) as f64;
            process.lap("step, us", face, start, iterations, Time::as_us_f64);
            process.lap("exchange, us", face, start, iterations, |step| (step - compute).as_us_f64());
            0
        }
    }))
}

const TAG_BARRIER: u32 = 8;

impl Grid {
    fn place(&self, rank: u32) -> [u64; 3] {
        let rank = u64::from(rank);
        [rank % self.ranks[0], rank / self.ranks[0] % self.ranks[1], rank / self.ranks[0] / self.ranks[1]]
    }

    fn neighbour(&self, rank: u32, dimension: usize, up: bool) -> u32 {
        let mut place = self.place(rank);
        let count = self.ranks[dimension];
        place[dimension] = (place[dimension] + if up { 1 } else { count - 1 }) % count;
        (place[0] + self.ranks[0] * (place[1] + self.ranks[1] * place[2])) as u32
    }

    /// The cells of a face across a dimension: their positions in the other two dimensions.
    fn face(&self, dimension: usize) -> impl Iterator<Item = [u64; 2]> + use<> {
        let [first, second] = [(dimension + 1) % 3, (dimension + 2) % 3].map(|other| self.cells[other]);
        (0..first).flat_map(move |a| (0..second).map(move |b| [a, b]))
    }

    /// The values of the cells at one end of a rank's block in a step.
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
        let sides = || (0..3).flat_map(|dimension| [false, true].map(|up| (dimension, up)));
        let used = |dimension: usize| self.ranks[dimension] > 1;
        for (dimension, up) in sides().filter(|(dimension, _)| used(*dimension)) {
            // The neighbour above has sent its lower face.
            let from = self.neighbour(rank, dimension, up);
            let bytes = self.face(dimension).count() as u64 * 8;
            receives.push((dimension, up, process.irecv(from, tag(dimension, !up), bytes)));
        }
        for (dimension, up) in sides().filter(|(dimension, _)| used(*dimension)) {
            let to = self.neighbour(rank, dimension, up);
            let cells = self.cells_at(rank, dimension, up, step);
            sends.push(process.isend(to, tag(dimension, up), &cells).await);
        }
        for (dimension, up, request) in receives {
            let message = process.wait(request).await;
            let from = self.neighbour(rank, dimension, up);
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

/// A number as a product of `count` factors that are as near to each other as possible, the largest first.
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
        let grid = Grid { ranks: factors(12, 3), cells: [2, 2, 2] };
        for rank in 0..12 {
            for dimension in 0..3 {
                let up = grid.neighbour(rank, dimension, true);
                assert_eq!(grid.neighbour(up, dimension, false), rank);
            }
        }
    }
}
