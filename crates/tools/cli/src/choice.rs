// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options with a fixed list of names, for types that know nothing of command lines.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use selvedge_launcher::mpirun::Family;

/// A name on the command line, its value, and its line in the help.
pub struct Choice<T: 'static> {
    pub name: &'static str,
    pub value: T,
    pub help: &'static str,
}

/// Parses one of these names.
pub fn one_of<T: Copy + Send + Sync>(choices: &'static [Choice<T>]) -> impl TypedValueParser<Value = T> {
    let values = choices.iter().map(|choice| PossibleValue::new(choice.name).help(choice.help));
    let chosen = |name: String| choices.iter().find(|choice| choice.name == name).map(|choice| choice.value);
    PossibleValuesParser::new(values).try_map(move |name| chosen(name).ok_or("no such name"))
}

/// The MPIs that a job may use.
pub const FAMILIES: &[Choice<Family>] = &[
    Choice { name: "openmpi", value: Family::Openmpi, help: "Open MPI" },
    Choice { name: "mpich", value: Family::Mpich, help: "MPICH" },
];
