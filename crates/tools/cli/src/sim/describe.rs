// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim --describe`: describes a machine without running anything on it.

use anyhow::Result;
use selvedge_sim::machine::Machine;
use selvedge_sim::report::describe::Facts;

use super::output::Output;
use super::usage::Usage;

pub fn describe(machine: &Machine, output: &Output) -> Result<u8> {
    let facts = Facts::of(machine).map_err(|error| Usage(format!("{}: {error}", machine.name)))?;
    output.write(&facts.document(machine), || facts.json(machine))?;
    Ok(0)
}
