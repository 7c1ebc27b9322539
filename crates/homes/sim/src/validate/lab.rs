// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs an experiment: a machine from the files of this repository, a program on it, and the program's measurements.
//!
//! Invariant: an experiment has a result only if all ranks end with exit code 0; otherwise it is an error.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::machine::{Machine, MachineError, load};
use crate::node::{Aggregation, AggregationError, End, Options, Outcome, Simulation, SimulationError};
use crate::program::ready::{self, ProgramError};
use crate::program::{Body, Needs, Process, Results as Recorded, Tasks};
use crate::report::sheet::{Entry, EntryValue, Sheet};

use super::claim::Sensitivity;

/// The files of the machines, compiled in.
const FILES: [(&str, &str); 15] = [
    ("seastar-host", include_str!("../../../../../machines/seastar-host.toml")),
    ("seastar-nic", include_str!("../../../../../machines/seastar-nic.toml")),
    ("pac", include_str!("../../../../../machines/pac.toml")),
    ("pac-list", include_str!("../../../../../machines/pac-list.toml")),
    ("pac-arm", include_str!("../../../../../machines/pac-arm.toml")),
    ("pac-arm-hash", include_str!("../../../../../machines/pac-arm-hash.toml")),
    ("pac-desktop", include_str!("../../../../../machines/pac-desktop.toml")),
    ("pac-desktop-hash", include_str!("../../../../../machines/pac-desktop-hash.toml")),
    ("qdr-portals", include_str!("../../../../../machines/qdr-portals.toml")),
    ("extoll-ht400", include_str!("../../../../../machines/extoll-ht400.toml")),
    ("extoll-ht400-200", include_str!("../../../../../machines/extoll-ht400-200.toml")),
    ("extoll-asic500", include_str!("../../../../../machines/extoll-asic500.toml")),
    ("extoll-asic800", include_str!("../../../../../machines/extoll-asic800.toml")),
    ("switchib2", include_str!("../../../../../machines/switchib2.toml")),
    ("atoll", include_str!("../../../../../machines/atoll.toml")),
];

/// Reason why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("{what} on {machine}: {error}")]
    Simulation { what: &'static str, machine: String, error: SimulationError },
    #[error("{what} on {machine} with {ranks} ranks did not end: {how}")]
    Unfinished { what: &'static str, machine: String, ranks: u32, how: String },
    #[error("{what} on {machine} with {ranks} ranks: rank {rank} found its result wrong (code {code})")]
    Wrong { what: &'static str, machine: String, ranks: u32, rank: usize, code: i32 },
    #[error("aggregation on {machine}: {error}")]
    Aggregation { machine: String, error: AggregationError },
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("the run was interrupted")]
    Interrupted,
}

/// Returns a machine of this repository, with other values for some of its keys.
pub fn machine(name: &str, overrides: &[(&str, &str)]) -> Result<Arc<Machine>, ValidateError> {
    let text = FILES.iter().find(|(file, _)| *file == name).map_or("", |(_, text)| text);
    let overrides: Vec<_> = overrides.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let path = PathBuf::from(format!("machines/{name}.toml"));
    let read = |path: &Path| {
        let found = FILES.iter().find(|(name, _)| path.file_stem().is_some_and(|stem| stem == *name));
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    };
    Ok(Arc::new(load::from_text_and(&path, text, &overrides, &read)?))
}

/// Returns a machine's keys with assumed figures that `which` accepts, and their values, except 0, which cannot move.
pub fn assumed(machine: &Machine, which: impl Fn(&str) -> bool) -> Vec<(String, f64)> {
    let entries = Sheet::of(&machine.description).entries.into_iter();
    let number = |entry: Entry| match entry.value {
        EntryValue::Number(value) if value > 0.0 => Some((entry.key, value, entry.source)),
        _ => None,
    };
    entries
        .filter_map(number)
        .filter(|(key, _, source)| which(key) && source.as_deref().is_some_and(|source| source.starts_with("assumed")))
        .map(|(key, value, _)| (key, value))
        .collect()
}

/// Tests a claim on a machine of this repository with each of these figures halved and doubled, one at a time.
/// `predict` returns the prediction as text, and whether the claim holds.
pub fn moved(
    name: &str,
    figures: &[(String, f64)],
    predict: impl Fn(&Arc<Machine>) -> Result<(String, bool), ValidateError>,
) -> Result<Vec<Sensitivity>, ValidateError> {
    let mut all = Vec::new();
    for (key, value) in figures {
        for factor in [0.5, 2.0] {
            let machine = machine(name, &[(key, &(value * factor).to_string())])?;
            let (predicted, holds) = predict(&machine)?;
            all.push(Sensitivity { key: key.clone(), factor, predicted, holds });
        }
    }
    Ok(all)
}

/// Returns the nodes nearest to the middle of the torus, the middle first, then shell by shell of growing cubes.
pub fn nearest(machine: &Machine, count: usize) -> Vec<u32> {
    let table = machine.description.topology.dimensions.as_ref();
    let sizes: Vec<u32> = table.map_or(Vec::new(), |sizes| sizes.iter().map(|size| size.value as u32).collect());
    let distance = |node: u32| {
        let mut rest = node;
        let mut far = 0;
        for size in &sizes {
            far = far.max((rest % size).abs_diff(size / 2));
            rest /= size;
        }
        far
    };
    let mut nodes: Vec<u32> = (0..machine.topology.nodes()).collect();
    nodes.sort_by_key(|node| (distance(*node), *node));
    nodes.truncate(count);
    nodes
}

/// Measurements of the programs of an experiment, by index.
#[derive(Clone, Default)]
pub struct Notes(Rc<RefCell<Vec<f64>>>);

impl Notes {
    pub fn sized(places: usize) -> Notes {
        Notes(Rc::new(RefCell::new(vec![0.0; places])))
    }

    pub fn set(&self, place: usize, value: f64) {
        self.0.borrow_mut()[place] = value;
    }

    /// Keeps the greatest of all values at an index.
    pub fn most(&self, place: usize, value: f64) {
        let mut notes = self.0.borrow_mut();
        notes[place] = notes[place].max(value);
    }

    pub fn take(&self) -> Vec<f64> {
        self.0.borrow().clone()
    }
}

/// A program on a machine.
pub struct Experiment<'a> {
    pub what: &'static str,
    pub machine: &'a Arc<Machine>,
    pub ranks: u32,
    pub needs: Needs,
    /// The node of each rank; empty: rank r on node r.
    pub nodes: &'a [u32],
}

impl Experiment<'_> {
    pub fn run(&self, body: impl Fn(Process) -> Body) -> Result<Outcome, ValidateError> {
        let tasks = Tasks::new(self.ranks, self.machine, &self.needs, body);
        self.run_tasks(tasks).map(|(outcome, _)| outcome)
    }

    /// Makes the aggregation nodes for programs that need groups.
    fn aggregation(&self) -> Result<Option<Arc<Aggregation>>, ValidateError> {
        if self.needs.groups == 0 {
            return Ok(None);
        }
        let each_on_its_own: Vec<u32> = (0..self.ranks).collect();
        let placement = if self.nodes.is_empty() { &each_on_its_own } else { self.nodes };
        match Aggregation::new(self.machine, placement, self.needs.groups) {
            Ok(made) => Ok(Some(Arc::new(made))),
            Err(error) => Err(ValidateError::Aggregation { machine: self.machine.name.clone(), error }),
        }
    }

    fn run_tasks(&self, mut tasks: Tasks) -> Result<(Outcome, Recorded), ValidateError> {
        let (what, name, ranks) = (self.what, || self.machine.name.clone(), self.ranks);
        let aggregation = self.aggregation()?;
        if let Some(aggregation) = &aggregation {
            tasks.grant(aggregation);
        }
        let options = Options { placement: self.nodes.to_vec(), aggregation, ..Options::default() };
        let mut simulation = Simulation::new(self.machine.clone(), tasks, options)
            .map_err(|error| ValidateError::Simulation { what, machine: name(), error })?;
        let outcome = simulation.run(&mut |_| true);
        match &outcome.end {
            End::Completed => {}
            End::Interrupted | End::Died => return Err(ValidateError::Interrupted),
            End::Stuck(waiting) => {
                let how = match waiting.first() {
                    Some(first) => {
                        format!("{} ranks wait; the first, rank {}, {}", waiting.len(), first.rank, first.what)
                    }
                    None => "no event is left".to_owned(),
                };
                return Err(ValidateError::Unfinished { what, machine: name(), ranks, how });
            }
        }
        match outcome.codes.iter().position(|code| *code != Some(0)) {
            None => {
                let recorded = simulation.ranks().results();
                Ok((outcome, recorded))
            }
            Some(rank) => {
                let code = outcome.codes[rank].unwrap_or(-1);
                Err(ValidateError::Wrong { what, machine: name(), ranks, rank, code })
            }
        }
    }
}

/// Returns the results of a built-in program on a machine, rank r on node r.
pub fn built_in(
    name: &'static str,
    machine: &Arc<Machine>,
    ranks: u32,
    arguments: &[(&str, String)],
) -> Result<Recorded, ValidateError> {
    let arguments: Vec<_> = arguments.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let prepared = ready::find(name)?.prepare(ranks, machine, &arguments)?;
    let tasks = prepared.tasks(ranks, machine);
    let experiment = Experiment { what: name, machine, ranks, needs: prepared.needs, nodes: &[] };
    experiment.run_tasks(tasks).map(|(_, recorded)| recorded)
}
