// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pipelined stencil: Synch_p2p of the Parallel Research Kernels (seed 004, section 3.3).
//!
//! Each rank has a strip of columns of A(i, j) = A(i - 1, j) + A(i, j - 1) - A(i - 1, j - 1). When it has computed its
//! part of a row, or of a group of rows, it sends its last column to the next rank. A(i, 0) = i and A(0, j) = j, so
//! A(i, j) = i + j; this checks the arriving columns. The corner returns to rank 0, which then starts the next sweep.

use super::parameter::{Kind, Parameter, whole, word};
use super::{BuiltIn, Prepared, ProgramError, Setting};
use crate::program::{Needs, Process};
use crate::time::Time;

pub(super) const WAVEFRONT: BuiltIn = BuiltIn {
    name: "wavefront",
    about: "pipelined stencil: each rank waits for its left neighbour's column (seed 004, section 3.3)",
    over: "ranks",
    ranks_min: 1,
    parameters: &[
        whole("columns", "1280", 1, "columns of the whole, shared among the ranks"),
        whole("rows", "128", 2, "rows"),
        whole("group", "1", 1, "rows sent together"),
        whole("iterations", "2", 1, "sweeps"),
        word("how", &["counting", "flag", "messages"], "counting", "counting puts; put, fence and flag; messages"),
        Parameter {
            name: "cell-ns",
            kind: Kind::Number { least: 0.0, most: 1e6 },
            default: "1",
            about: "time of the processor to compute a cell",
        },
    ],
    make,
};

#[derive(Clone)]
struct Pipeline {
    columns: u64,
    rows: u64,
    group: u64,
    iterations: u64,
    how: &'static str,
    cell_ns: f64,
}

/// Address of the column from the left neighbour; a flag lies before it.
const COLUMN_AT: u64 = 8;
const TAG_COLUMN: u32 = 0;
const TAG_CORNER: u32 = 1;
const TAG_BARRIER: u32 = 2;

fn make(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    let pipeline = Pipeline {
        columns: arguments.whole("columns"),
        rows: arguments.whole("rows"),
        group: arguments.whole("group"),
        iterations: arguments.whole("iterations"),
        how: arguments.word("how"),
        cell_ns: arguments.number("cell-ns"),
    };
    if pipeline.columns < u64::from(setting.ranks) {
        return Err(arguments.refuse("columns", "at least as many as there are ranks"));
    }
    if pipeline.columns.saturating_mul(pipeline.rows) > 1 << 28 {
        return Err(arguments.refuse("rows", "a number with at most 256M cells in all"));
    }
    let needs = Needs {
        memory_bytes: (COLUMN_AT + 8 * pipeline.rows) as usize,
        receives: 8,
        unexpected: pipeline.rows as u32 + 8,
        windows: 1,
        eager_bytes_max: u64::MAX,
        ..Needs::default()
    };
    Ok(Prepared::new(needs, move |process| {
        let pipeline = pipeline.clone();
        async move { pipeline.run(&process).await }
    }))
}

impl Pipeline {
    async fn run(&self, process: &Process) -> i32 {
        let (rank, size) = (u64::from(process.rank()), u64::from(process.size()));
        let (first, last) = (self.columns * rank / size, self.columns * (rank + 1) / size);
        let width = (last - first) as usize;
        // The row above, with the column on the left; rank 0 owns column 0.
        let mut above = vec![0.0; width + 1];
        let mut handed = 0;
        process.barrier(TAG_BARRIER).await;
        let start = process.now();
        for iteration in 0..self.iterations {
            for (at, value) in above.iter_mut().enumerate() {
                *value = (first + at as u64) as f64 - 1.0;
            }
            if rank == 0 {
                above[0] = 0.0;
            }
            let mut row = 1;
            while row < self.rows {
                let rows = self.group.min(self.rows - row);
                handed += 1;
                let mut left = Vec::new();
                if rank > 0 {
                    left = self.take(process, rank as u32 - 1, row, rows, handed).await;
                    let expected = (row..row + rows).map(|row| (row + first - 1) as f64);
                    if !left.iter().copied().eq(expected) {
                        return process
                            .wrong(format!("column {} is wrong at row {row} of sweep {iteration}", first - 1));
                    }
                }
                let mut right = Vec::new();
                for at in 0..rows {
                    sweep(&mut above, left.get(at as usize).copied(), (row + at) as f64);
                    right.push(above[width]);
                }
                let cells = rows * width as u64;
                process.compute(Time::from_ns_f64(self.cell_ns * cells as f64)).await;
                if rank + 1 < size {
                    self.send_column(process, rank as u32 + 1, row, &right).await;
                }
                row += rows;
            }
            let mut corner = above[width];
            if size > 1 && rank + 1 == size {
                process.send(0, TAG_CORNER, &corner.to_le_bytes()).await;
            }
            if size > 1 && rank == 0 {
                let message = process.recv(size as u32 - 1, TAG_CORNER, 8).await;
                corner = number(&message.bytes);
            }
            let expected = (self.rows + self.columns - 2) as f64;
            if (rank == 0 || rank + 1 == size) && corner != expected {
                return process.wrong(format!("the corner of sweep {iteration} is {corner}, not {expected}"));
            }
        }
        let flops = 2.0 * (self.columns * (self.rows - 1)) as f64;
        process.lap("GFLOP/s", size as f64, start, self.iterations, |time| flops / time.as_ns_f64());
        process.lap("sweep, us", size as f64, start, self.iterations, Time::as_us_f64);
        0
    }

    async fn take(&self, process: &Process, from: u32, row: u64, rows: u64, handed: u64) -> Vec<f64> {
        match self.how {
            "messages" => {
                let message = process.recv(from, TAG_COLUMN, 8 * rows).await;
                return message.bytes.chunks_exact(8).map(number).collect();
            }
            "counting" => process.wait_count(0, handed).await,
            _ => {
                process.wait_word(0, handed).await;
                // The left neighbour may be ahead, but not beyond the last row.
                if process.word(0) > self.iterations * (self.rows - 1).div_ceil(self.group) {
                    return Vec::new();
                }
            }
        }
        let at = (COLUMN_AT + 8 * row) as usize;
        process.memory()[at..at + 8 * rows as usize].chunks_exact(8).map(number).collect()
    }

    async fn send_column(&self, process: &Process, to: u32, row: u64, column: &[f64]) {
        let bytes: Vec<u8> = column.iter().flat_map(|value| value.to_le_bytes()).collect();
        let at = COLUMN_AT + 8 * row;
        match self.how {
            "messages" => process.send(to, TAG_COLUMN, &bytes).await,
            "counting" => process.put_counting(to, 0, at, &bytes).await,
            _ => {
                process.put_acknowledged(to, at, &bytes).await;
                process.fence().await;
                process.add(to, 0, 1).await;
            }
        }
    }
}

/// Computes the next row over the one above. Without a left column, the first element is in column 0.
fn sweep(above: &mut [f64], left: Option<f64>, row: f64) {
    let mut before_above = above[0];
    let mut at = 1;
    match left {
        Some(value) => above[0] = value,
        None => {
            before_above = above[1];
            above[1] = row;
            at = 2;
        }
    }
    while at < above.len() {
        let old = above[at];
        above[at] = old + above[at - 1] - before_above;
        before_above = old;
        at += 1;
    }
}

fn number(bytes: &[u8]) -> f64 {
    bytes.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes))
}
