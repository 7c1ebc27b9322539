// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim --study`: the scenario of seed 002, figures 2-20 to 2-22, whose cells are kept only until its report is
//! written.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use selvedge_os::process::cores_allowed;
use selvedge_sim::report;
use selvedge_sim::report::Wall;
use selvedge_sim::traffic::study::{StudyConfig, StudyPoint, StudyRun};
use serde_json::Value;

use super::cells::Cells;
use super::options::Options;
use super::scenario::Scenario;
use super::store::Store;
use super::{EXIT_INTERRUPTED, Study};
use crate::sim::{Interrupt, memory_peak_bytes};

/// The scenario. A user may copy and change it.
const SCENARIO: &str = include_str!("../../../../../examples/studies/blocking.toml");
const SEED: &str = "seed";

/// The report of the study, and the exit code.
pub fn report(seed: u64, quiet: bool) -> Result<(report::Study, u8)> {
    let (options, started) = (Options::new(), Instant::now());
    let mut scenario = Scenario::parse(Path::new("blocking.toml"), SCENARIO, &options)?;
    for axis in scenario.axes.iter_mut().filter(|axis| axis.key == SEED) {
        for (number, value) in axis.values.iter_mut().enumerate() {
            value.words = vec![format!("--seed={}", seed.wrapping_add(number as u64))];
        }
    }
    let place = tempfile::tempdir().context("cannot make a folder for the cells")?;
    let cells = Cells::of(&scenario, place.path(), &options)?;
    let (store, interrupt) = (Store::new(place.path()), Interrupt::listen()?);
    let folder = place.path().to_owned();
    let study = Study { folder, store: &store, interrupt: &interrupt, jobs: cores_allowed(), quiet };
    let _lock = study.prepare(&cells)?;
    let all: Vec<_> = cells.cells.iter().collect();
    if study.run(&all, &|cell| cells.words(cell))? > 0 {
        return Err(anyhow!(
            "cells of the study failed; `selvedge study` with examples/studies/blocking.toml keeps their output"
        ));
    }
    let (points, missing) = points(&scenario, &cells, &store)?;
    let config = StudyConfig { seed, ..StudyConfig::default() };
    let wall =
        Wall { seconds: started.elapsed().as_secs_f64(), memory_peak_bytes: memory_peak_bytes(), more: Vec::new() };
    let exit_code = if missing > 0 { EXIT_INTERRUPTED } else { 0 };
    Ok((report::Study { config, points, missing, wall: Some(wall) }, exit_code))
}

/// The points of the figures, each from the cells of its seeds, and the number of points that have cells without results.
fn points(scenario: &Scenario, cells: &Cells, store: &Store) -> Result<(Vec<StudyPoint>, usize)> {
    let seeds = scenario.axes.iter().find(|axis| axis.key == SEED).map_or(1, |axis| axis.values.len());
    let (mut points, mut missing) = (Vec::new(), 0);
    for cells in cells.cells.chunks(seeds) {
        let reports: Option<Vec<Value>> = cells.iter().map(|cell| store.report(&cell.id)).collect();
        match reports {
            Some(reports) => points.push(point(&reports).context("a report of traffic without its figures")?),
            None => missing += 1,
        }
    }
    Ok((points, missing))
}

fn point(reports: &[Value]) -> Option<StudyPoint> {
    let first = &reports[0];
    // "torus 16x16"
    let topology = first["machine"]["topology"].as_str()?.split(' ').next()?;
    let routing = first["machine"]["routing"].as_str()?;
    let locality = first["pattern"].as_str()?.strip_prefix("locality:")?.parse().ok()?;
    let runs = reports.iter().map(|report| run(&report["results"][0]));
    Some(StudyPoint::of(topology, routing, locality, &runs.collect::<Option<Vec<_>>>()?))
}

fn run(result: &Value) -> Option<StudyRun> {
    let number = |name: &str| result[name].as_f64();
    Some(StudyRun {
        blocking_rate: number("blocking_rate")?,
        blocking_time_mean_ns: number("blocking_time_mean_ns")?,
        deadlock_probability: number("deadlock_probability")?,
        deadlocks: result["deadlocks"].as_u64()?,
        cycle_length_mean: number("cycle_length_mean")?,
        latency_mean_ns: result["latency"]["mean_ns"].as_f64()?,
        accepted: number("accepted")?,
        packets: result["packets"].as_u64()?,
    })
}
