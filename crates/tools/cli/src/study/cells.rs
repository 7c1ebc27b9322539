// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cells of a scenario: every case with every combination of the swept values.
//!
//! Rules
//! 1. Cells stand in the order of cases, then of swept keys, the last one fastest.
//! 2. Before anything runs, each value is checked once on a command line of `selvedge sim`.
//! 3. Cells with one id are one simulation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::identity::Identity;
use super::options::{COMMAND, Options, Setting};
use super::scenario::{Case, Scenario};
use crate::sim::{Usage, machines};

/// Most cells of a study.
const CELLS_MAX: usize = 1 << 20;
/// Exit codes of `selvedge sim` at its limit of virtual time, and of a rank that `--kill` killed.
const TIME_LIMIT: i32 = 124;
const KILLED: i32 = 137;

/// A simulation of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Hash of all that determines its results ([`super::identity`]).
    pub id: String,
    /// Values of the study's axes.
    pub values: Vec<Json>,
    /// Words behind `selvedge sim`: its options, then the program.
    pub options: Vec<String>,
    pub command: Vec<String>,
    /// Exit codes of a cell whose results count.
    pub exit_codes: Vec<i32>,
}

/// The cells of a scenario, and the names of their axes: `case` if cases have names, then the swept keys.
#[derive(Clone, Debug)]
pub struct Cells {
    pub axes: Vec<String>,
    pub cells: Vec<Cell>,
    /// Text of the machine that the scenario describes.
    pub machine: Option<String>,
}

/// The settings of one cell, by key.
type Settings<'a> = BTreeMap<&'a str, &'a Setting>;

impl Cells {
    /// Makes the cells. `folder` is that of the study, which has the scenario's own machine.
    pub fn of(scenario: &Scenario, folder: &Path, options: &Options) -> Result<Cells, Usage> {
        let combinations = scenario.axes.iter().try_fold(1usize, |count, axis| count.checked_mul(axis.values.len()));
        let count = combinations.and_then(|count| count.checked_mul(scenario.cases.len()));
        let Some(combinations) = combinations.filter(|_| count.is_some_and(|count| count <= CELLS_MAX)) else {
            let (file, axes) = (scenario.file.display(), scenario.axes.len());
            return Err(Usage(format!(
                "{file}: {axes} swept keys make more than {CELLS_MAX} cells; sweep fewer values, or cut the scenario"
            )));
        };
        for case in &scenario.cases {
            check(scenario, case, options)?;
        }
        let machine = own_machine(scenario)?;
        let mut identity = Identity::new(scenario.folder());
        let mut cells = Vec::new();
        for case in &scenario.cases {
            for number in 0..combinations {
                let chosen = combination(scenario, number);
                let settings = settings_of(scenario, case, &chosen);
                let machine = machine_of(scenario, &settings, machine.as_deref(), folder)?;
                cells.push(cell(scenario, case, &chosen, &settings, machine, &mut identity)?);
            }
        }
        let has_cases = scenario.cases.iter().any(|case| !case.name.is_empty());
        let axes = has_cases.then(|| "case".to_owned()).into_iter();
        Ok(Cells { axes: axes.chain(scenario.axes.iter().map(|axis| axis.key.clone())).collect(), cells, machine })
    }

    /// A cell's values in words, for messages.
    pub fn words(&self, cell: &Cell) -> String {
        let word = |(axis, value): (&String, &Json)| match value {
            Json::String(text) => format!("{axis}={text}"),
            value => format!("{axis}={value}"),
        };
        let words: Vec<String> = self.axes.iter().zip(&cell.values).map(word).collect();
        if words.is_empty() { "the only cell".to_owned() } else { words.join(" ") }
    }
}

/// The swept values of a combination.
fn combination(scenario: &Scenario, mut number: usize) -> Vec<&Setting> {
    let mut chosen: Vec<&Setting> = Vec::new();
    for axis in scenario.axes.iter().rev() {
        chosen.push(&axis.values[number % axis.values.len()]);
        number /= axis.values.len();
    }
    chosen.reverse();
    chosen
}

fn settings_of<'a>(scenario: &'a Scenario, case: &'a Case, chosen: &[&'a Setting]) -> Settings<'a> {
    let all = scenario.run.iter().chain(&case.settings).chain(chosen.iter().copied());
    all.map(|setting| (setting.key.as_str(), setting)).collect()
}

/// Checks a case with the first value of each key, then each other value.
fn check(scenario: &Scenario, case: &Case, options: &Options) -> Result<(), Usage> {
    let first: Vec<&Setting> = combination(scenario, 0);
    let run = |chosen: &[&Setting], own: Option<&Setting>| {
        let settings = settings_of(scenario, case, chosen);
        let mut words = words_of(&settings);
        // Its own machine, or none, which is an error of its own.
        if !settings.contains_key("machine") {
            words.insert(0, "--machine=machine.toml".to_owned());
        }
        words.extend(command_of(&settings));
        options.check(&words).map_err(|why| {
            let of = |setting: &&&Setting| why.contains(&format!("--{} ", option(&setting.key)));
            let blamed = own.or_else(|| settings.values().find(of).copied());
            let line = blamed.or_else(|| case.settings.first()).or_else(|| scenario.run.first());
            let place = line.map_or(String::new(), |setting| format!(":{}", setting.line));
            let key = blamed.map_or(String::new(), |setting| format!("{}: ", setting.key));
            Usage(format!("{}{place}: {key}{why}", scenario.file.display()))
        })
    };
    run(&first, None)?;
    for (at, axis) in scenario.axes.iter().enumerate() {
        for value in &axis.values[1..] {
            let mut chosen = first.clone();
            chosen[at] = value;
            run(&chosen, Some(value))?;
        }
    }
    Ok(())
}

fn option(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

fn words_of(settings: &Settings<'_>) -> Vec<String> {
    let options = settings.values().filter(|setting| setting.key != COMMAND);
    options.flat_map(|setting| setting.words.iter().cloned()).collect()
}

/// The program, behind a word that ends the options.
fn command_of(settings: &Settings<'_>) -> Vec<String> {
    let command = settings.get(COMMAND).map_or(&[][..], |setting| &setting.words);
    let end = (!command.is_empty()).then(|| "--".to_owned());
    end.into_iter().chain(command.iter().cloned()).collect()
}

fn cell(
    scenario: &Scenario,
    case: &Case,
    chosen: &[&Setting],
    settings: &Settings<'_>,
    (machine, text): (PathBuf, Option<&str>),
    identity: &mut Identity,
) -> Result<Cell, Usage> {
    let id = identity.of(settings.values().copied(), &machine, text);
    let id = id.map_err(|(path, error)| Usage(format!("{}: cannot read {path}: {error}", scenario.file.display())))?;
    let mut options = vec![format!("--machine={}", machine.display())];
    options.extend(words_of(settings).into_iter().filter(|word| !word.starts_with("--machine=")));
    let mut exit_codes = vec![0];
    exit_codes.extend(settings.contains_key("time-limit").then_some(TIME_LIMIT));
    exit_codes.extend(settings.contains_key("kill").then_some(KILLED));
    let name = (!case.name.is_empty()).then(|| Json::from(case.name.as_str()));
    let values = name.into_iter().chain(chosen.iter().map(|setting| setting.shown.clone())).collect();
    Ok(Cell { id, values, options, command: command_of(settings), exit_codes })
}

/// The file of a cell's machine, and its text if the scenario describes it.
fn machine_of<'t>(
    scenario: &Scenario,
    settings: &Settings<'_>,
    text: Option<&'t str>,
    folder: &Path,
) -> Result<(PathBuf, Option<&'t str>), Usage> {
    match (settings.get("machine"), text) {
        (Some(setting), _) => Ok((find_machine(scenario, setting)?, None)),
        (None, Some(text)) => Ok((folder.join(super::store::MACHINE), Some(text))),
        (None, None) => {
            let file = scenario.file.display();
            Err(Usage(format!("{file}: [run] machine: is missing; name one, or describe one in [machine]")))
        }
    }
}

/// Text of the machine that the scenario describes. Its file will be in another folder, so its paths become absolute.
fn own_machine(scenario: &Scenario) -> Result<Option<String>, Usage> {
    let Some(mut machine) = scenario.machine.clone() else { return Ok(None) };
    machine.entry("name").or_insert_with(|| scenario.name.as_str().into());
    if let Some(base) = machine.get("base").and_then(|base| base.as_str()) {
        let beside = scenario.folder().join(base).with_extension("toml");
        let found = if beside.is_file() { Ok(beside) } else { machines::find(base) };
        let path = found.map_err(|error| Usage(format!("{}: [machine] base: {error}", scenario.file.display())))?;
        let path = std::path::absolute(&path).unwrap_or(path);
        machine.insert("base".to_owned(), path.display().to_string().into());
    }
    if let Some(file) = machine.get_mut("topology").and_then(|topology| topology.get_mut("file")) {
        if let Some(name) = file.as_str() {
            *file = scenario.folder().join(name).display().to_string().into();
        }
    }
    Ok(Some(machine.to_string()))
}

/// The file of a machine: beside the scenario, or a machine by name.
fn find_machine(scenario: &Scenario, setting: &Setting) -> Result<PathBuf, Usage> {
    let given = setting.words[0].trim_start_matches("--machine=");
    let beside = scenario.folder().join(given);
    let found = if beside.is_file() { Ok(beside) } else { machines::find(given) };
    let found = found.and_then(|path| path.canonicalize().map_err(|error| Usage(format!("{given}: {error}"))));
    found.map_err(|error| Usage(format!("{}:{}: machine: {error}", scenario.file.display(), setting.line)))
}

#[cfg(test)]
#[path = "cells_tests.rs"]
mod tests;
