// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Variables that launchers set.

use std::env;

use super::errors::JoinError;

/// Warns if Slurm has started several processes without PMI, because they do not find each other.
pub(super) fn warn_of_srun() {
    let of = |name| number(name).ok().flatten();
    if let (Some(0), Some(count @ 2..)) = (of("SLURM_PROCID"), of("SLURM_STEP_NUM_TASKS")) {
        log::warn!(
            "srun has started {count} processes without PMI: each is a job of its own; use --mpi=pmi2 or --mpi=pmix"
        );
    }
}

pub(super) fn number(name: &'static str) -> Result<Option<u32>, JoinError> {
    let Some(value) = env::var_os(name) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(JoinError::BadVariable { name, value, wanted: "a number" }),
    }
}
