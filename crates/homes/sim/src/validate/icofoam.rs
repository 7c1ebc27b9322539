// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seed 001, table VII: OpenFOAM's icoFoam, the lid-driven cavity of one million cells, 28 processes a host.
//!
//! The pattern comes from a separate trace: Debian's OpenFOAM 1912, the tutorial's cavity and solvers (PCG with DIC for
//! the pressure, symmetric Gauss-Seidel for the momentum, two PISO corrections), under a library that counts the calls
//! of MPI; 50 x 50 cells, 20 time steps, 2, 4 and 8 processes, each with a block of the grid. With p iterations for the
//! pressure, u sweeps for the momentum, and t steps the counts of all three runs are exactly
//!
//! | calls of a process | number |
//! |---|---|
//! | all-reduce of 8 bytes | 3 p + u + 26 t + 1 |
//! | all-reduce of 16 bytes | 4 t |
//! | exchange of a field with all neighbours, 8 bytes a face between cells | p + 2 u + 15 t |
//! | the same of three fields, 24 bytes a face | 8 t, and one |
//! | bytes to and from the first process (are files changed?) | about 4 t |
//!
//! p, u, t: 2,746, 1,330, 20 with 2 processes; 2,754, 1,394, 20 with 4; 2,976, 1,498, 20 with 8. So an iteration is an
//! exchange and then three sums, with a part of the computing before each. A cube of 40^3 cells (4 processes, 921, 309,
//! 5) has the same iteration, and additionally 28 t sums and 17 t exchanges. Iterations grow with the cells of an edge:
//! a solve to the tolerance takes some 80 at 50 x 50 cells, 350 at 200 x 200, 700 at 400 x 400, and at 1,000 x 1,000
//! the first ones end at the solver's limit of 1,000; 280 in a cube of 100^3.
//!
//! Rules
//! 1. The seed gives neither iterations nor time steps of its run. They follow from the row of one host, which uses no
//!    network and so is an input: there the run takes the time that memory needs for the data of its iterations. The
//!    sweeps for the momentum (a fifth to a half of the iterations in our runs, with one sum each) and the steps
//!    themselves are left out.
//! 2. HCOLL's times are inputs: the rest beside communication is computing, the same with SHArP. So a gain is only the
//!    time that sums in the switches save.
//! 3. A host is a rank. Its 28 processes first add in shared memory, which takes the same time with both.
//!
//! Cost: three runs of 20 iterations for each row, about a second in all.

use std::sync::Arc;

use super::claim::{Claim, Figure, Sensitivity};
use super::lab::{ValidateError, built_in};
use super::{AxisOf, Curve, CurveLine, Plan, Results};
use crate::machine::Machine;

/// A row: processes, seconds with HCOLL and with SHArP, the printed gain in percent, and the name of its claim.
struct Row {
    processes: u32,
    hcoll_s: f64,
    sharp_s: f64,
    gain_percent: f64,
    id: &'static str,
}

const fn row(processes: u32, hcoll_s: f64, sharp_s: f64, gain_percent: f64, id: &'static str) -> Row {
    Row { processes, hcoll_s, sharp_s, gain_percent, id }
}

/// Rows of more than one host.
const ROWS: [Row; 8] = [
    row(56, 832.0, 824.0, 1.05, "sharp-7b"),
    row(112, 426.0, 424.0, 0.59, "sharp-7c"),
    row(224, 249.0, 248.0, 0.39, "sharp-7d"),
    row(448, 159.0, 155.0, 2.50, "sharp-7e"),
    row(896, 127.0, 121.0, 4.75, "sharp-7f"),
    row(1792, 118.0, 116.0, 1.65, "sharp-7g"),
    row(2688, 136.0, 127.0, 7.18, "sharp-7h"),
    row(3584, 174.0, 151.0, 15.2, "sharp-7i"),
];
const QUICK: [u32; 2] = [896, 3584];
const MOST: u32 = 3584;
const PROCESSES_EACH: u32 = 28;
/// Seconds of the row of one host.
const ONE_HOST_S: f64 = 1892.0;
const CELLS: f64 = 1e6;
/// Most points between two gains.
const LIMIT: f64 = 5.0;

/// From the trace: sums of an iteration for the pressure.
const SUMS: u32 = 3;
/// Bytes that an iteration moves between memory and processor for a cell of a plane grid: doubles of 8 bytes, labels of
/// 4, two faces a cell; a written line is read first. Preconditioner 144 (diagonal 32; each sweep over the faces 32,
/// and the vectors 24), its sum 16, the search direction 24, the product with the matrix 88, its sum 16, the two
/// updates 48, the residual 8.
const CELL_BYTES: f64 = 344.0;
/// Memory bandwidth of a host. Assumed: two Xeon E5-2697 v3 (seed 001, V) each 4 channels of DDR4-2133, 80 % of 136
/// GB/s.
const MEMORY_GBPS: f64 = 109.0;
/// Assumed: five steps up and five down between the 28 processes of a host, each a line of another core, 100 ns.
const SHARED_MEMORY_NS: f64 = 1000.0;

/// Iterations of a simulated run.
const SIMULATED: u32 = 20;

/// Returns the iterations of the seed's run.
fn iterations() -> f64 {
    ONE_HOST_S / (CELLS * CELL_BYTES / (MEMORY_GBPS * 1e9))
}

impl Row {
    fn hosts(&self) -> u32 {
        self.processes / PROCESSES_EACH
    }

    /// Returns an iteration's microseconds: the total, and the part other than a host's computing, `compute_us`.
    fn step(
        &self,
        machine: &Arc<Machine>,
        algorithm: &str,
        compute_us: f64,
        library_ns: f64,
    ) -> Result<(f64, f64), ValidateError> {
        let cells = (CELLS / f64::from(self.hosts())).sqrt().round();
        let arguments = [
            ("dimensions", "2".to_owned()),
            ("edges", "open".to_owned()),
            ("cells", cells.to_string()),
            ("cell-ns", (1e3 * compute_us / (cells * cells)).to_string()),
            ("iterations", SIMULATED.to_string()),
            ("sums", SUMS.to_string()),
            ("algorithm", algorithm.to_owned()),
            ("sum-ns", (SHARED_MEMORY_NS + library_ns).to_string()),
        ];
        let recorded = built_in("halo", machine, self.hosts(), &arguments)?;
        let of = |series| recorded.of(series).map(|(_, us)| us).next().unwrap_or(f64::NAN);
        Ok((of("step, us"), of("exchange and sums, us")))
    }

    /// Returns microseconds of an iteration by the hosts and in the switches, if the rest of HCOLL's time is computing.
    fn steps(&self, machine: &Arc<Machine>, library_ns: f64) -> Result<(f64, f64), ValidateError> {
        let whole_us = self.hcoll_s * 1e6 / iterations();
        // Neighbours wait for each other in between, so the time of communication depends a little on the computing.
        let (_, first_us) = self.step(machine, BY_HOSTS, whole_us, library_ns)?;
        let compute_us = (whole_us - first_us).max(0.0);
        let (hosts_us, _) = self.step(machine, BY_HOSTS, compute_us, library_ns)?;
        let (switches_us, _) = self.step(machine, IN_SWITCHES, compute_us, library_ns)?;
        Ok((hosts_us, switches_us))
    }
}

const BY_HOSTS: &str = "recursive-doubling";
const IN_SWITCHES: &str = "switches";

/// Returns the gain in percent, if each of `iterations` saves `saved_us`.
fn gain(row: &Row, iterations: f64, saved_us: f64) -> f64 {
    let sharp_s = row.hcoll_s - iterations * saved_us / 1e6;
    100.0 * (row.hcoll_s / sharp_s - 1.0)
}

/// Compares the rows. `library_ns`: time that MPI adds to a call.
pub(super) fn run(
    plan: Plan,
    machine: &Arc<Machine>,
    library_ns: f64,
    results: &mut Results,
) -> Result<(), ValidateError> {
    let rows: Vec<&Row> = ROWS.iter().filter(|row| !plan.quick || QUICK.contains(&row.processes)).collect();
    let iterations = iterations();
    let (mut claims, mut order, mut gains) = (Vec::new(), Vec::new(), Vec::new());
    let (mut saved, mut needed) = (Vec::new(), Vec::new());
    for row in rows {
        let (hosts_us, switches_us) = row.steps(machine, library_ns)?;
        let saved_us = hosts_us - switches_us;
        let predicted = gain(row, iterations, saved_us);
        order.push((row.hcoll_s, row.hcoll_s - iterations * saved_us / 1e6));
        gains.push((f64::from(row.processes), row.gain_percent, predicted));
        saved.push(format!("{saved_us:.2} ({})", row.processes));
        let seconds = row.hcoll_s - row.sharp_s;
        if saved_us > 0.0 {
            needed.push(format!("{:.2} ({})", seconds / saved_us, row.processes));
        }
        let moved = [0.5, 2.0].map(|factor| {
            let predicted = gain(row, factor * iterations, saved_us);
            let holds = (predicted - row.gain_percent).abs() <= LIMIT;
            Sensitivity { key: "iterations".into(), factor, predicted: format!("{predicted:.2} %"), holds }
        });
        let text = format!("icoFoam, {} processes: gain over HCOLL (limit: {LIMIT} points)", row.processes);
        let claim =
            Claim::within_points(row.id, TABLE, text, (row.gain_percent, predicted), LIMIT).moved(moved.to_vec());
        claims.push(if row.processes == MOST {
            claim.note(format!(
                "The {seconds} s that SHArP saves in the seed are {:.1} us for each of {:.1} million sums. By its \
                 table IV the hosts take only 6.01 us for a whole sum of 8 bytes. So most of this gain cannot come \
                 from the latency of sums among hosts that arrive together. The model has only that latency: it has \
                 no noise, no late processes, and no memory that 28 processes share.",
                seconds * 1e6 / iterations / f64::from(SUMS),
                iterations * f64::from(SUMS) / 1e6
            ))
        } else {
            claim
        });
    }
    results.claims.push(
        Claim::shown(
            "sharp-7",
            TABLE,
            "icoFoam: iterations of the pressure solver",
            (Figure::Words("not printed".into()), Figure::Number(iterations), ""),
        )
        .input()
        .note(format!(
            "Derived from the row of one host, {ONE_HOST_S} s: an iteration moves {CELL_BYTES} bytes a cell, at \
             {MEMORY_GBPS} GB/s from memory (assumed). Tables below repeat each gain with half and with twice the \
             iterations."
        )),
    );
    results.claims.push(
        Claim::order("sharp-7a", TABLE, "icoFoam takes longer with HCOLL than with SHArP", ("HCOLL > SHArP", &order))
            .note(format!(
                "HCOLL's times are inputs. By the hosts a sum is recursive doubling. An iteration is an exchange \
                 with neighbours and three sums of 8 bytes, as in a trace of OpenFOAM's cavity tutorial. \
                 Microseconds that the switches save in an iteration, and in brackets the number of processes: {}. \
                 Among 2, 4 and 8 hosts recursive doubling is faster than a path through the aggregation nodes, so \
                 SHArP is slower there in the model. In the seed it is 0.4 to 1 % faster. A gain that the seed \
                 prints as less than 5 % is within 5 points of no gain. Millions of iterations with which the model \
                 would save as many seconds as the seed: {}. No single number fits all rows.",
                saved.join(", "),
                needed.join(", ")
            )),
    );
    results.claims.append(&mut claims);
    let x: Vec<f64> = gains.iter().map(|gain| gain.0).collect();
    let (published, predicted): (Vec<f64>, Vec<f64>) = gains.iter().map(|gain| (gain.1, gain.2)).unzip();
    results.curves.push(Curve {
        name: "sharp-icofoam",
        title: "SHArP: gain of icoFoam".into(),
        x: AxisOf::logarithmic("processes", 2),
        y: AxisOf::linear("gain over HCOLL (%)"),
        lines: vec![CurveLine::new("simulated", &x, &predicted), CurveLine::new("seed", &x, &published)],
        about: format!(
            "Lid-driven cavity of a million cells, 28 processes a host. For each point twenty iterations are \
             simulated with one rank a host, and scaled to {:.0} thousand iterations.",
            iterations / 1e3
        ),
    });
    Ok(())
}

const TABLE: &str = "seed 001, table VII";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_relative_to_the_time_with_switches() {
        let row = row(28, 174.0, 151.0, 15.2, "x");
        // 23 s of 151: the seed prints 15.2.
        assert!((gain(&row, 1e6, 23.0) - 15.2).abs() < 0.05);
        assert_eq!(gain(&row, 1e6, 0.0), 0.0);
    }

    #[test]
    fn printed_gains_are_those_of_the_seconds() {
        for row in &ROWS {
            // Both times are rounded to a second.
            let least = 100.0 * ((row.hcoll_s - 0.5) / (row.sharp_s + 0.5) - 1.0);
            let most = 100.0 * ((row.hcoll_s + 0.5) / (row.sharp_s - 0.5) - 1.0);
            assert!((least..=most).contains(&row.gain_percent), "{}: {least} to {most}", row.processes);
        }
    }
}
