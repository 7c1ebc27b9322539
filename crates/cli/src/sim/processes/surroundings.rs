// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What MPI libraries and libfabric are told, so that they come to our NIC: what `selvedge env` prints, and what each needs in
//! virtual time.
//!
//! Ranks are told of each other by PMI-1, which MPICH speaks. Open MPI speaks PMIx: `libselvedge_sim_pmix.so` answers in its place.
//! A program that is linked to neither (a script, an interpreter, one that is not of MPI) is told what both need: of what is not
//! its own it takes no notice.
//!
//! Invariant: what is set stays, by `--env` or in the environment.

use std::path::Path;

use anyhow::{Context, Result};

use crate::env::{Target, variables};
use crate::mpirun::{Family, family};

/// The MPI that a program is linked to.
pub fn mpi_of(program: &Path) -> Option<Family> {
    family::library_of(program)?.family()
}

/// Beside what `selvedge env` prints. Open MPI 4.1 asks whether its launcher is one that it knows, and takes this for Flux, whose
/// ranks are started as ours are: without a daemon of Open MPI's. Of its ways to ask for its peers it is to take PMIx.
const OPENMPI: [(&str, &str); 2] = [("FLUX_JOB_ID", "1"), ("OMPI_MCA_pmix", "^flux,isolated")];

/// Adds what a program of this MPI, or of one that is not known, is to be told.
pub fn add(mpi: Option<Family>, providers: &Path, env: &mut Vec<(String, String)>) -> Result<()> {
    let targets = match mpi {
        Some(family) => vec![family.target()],
        None => vec![Target::Mpich, Target::Openmpi],
    };
    let mut add = |name: &str, value: String| {
        if !env.iter().any(|(given, _)| given == name) && std::env::var_os(name).is_none() {
            env.push((name.to_owned(), value));
        }
    };
    for target in targets {
        if target == Target::Openmpi {
            OPENMPI.iter().for_each(|(name, value)| add(name, (*value).to_owned()));
        }
        for variable in variables(target, providers)? {
            add(variable.name, variable.value.into_string().ok().context("the path of this tree is no text")?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(mpi: Option<Family>, given: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut env = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        add(mpi, Path::new("/opt/lib/libselvedge"), &mut env).expect("a path without colons");
        env
    }

    fn value<'a>(env: &'a [(String, String)], name: &str) -> Vec<&'a str> {
        env.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str()).collect()
    }

    #[test]
    fn each_mpi_is_told_its_own_and_who_is_neither_of_both() {
        let (mpich, openmpi) = (names(Some(Family::Mpich), &[]), names(Some(Family::Openmpi), &[]));
        assert_eq!(value(&mpich, "MPIR_CVAR_NOLOCAL"), ["1"]);
        assert!(value(&mpich, "OMPI_MCA_pml").is_empty() && value(&mpich, "FLUX_JOB_ID").is_empty());
        assert_eq!((value(&openmpi, "OMPI_MCA_pml"), value(&openmpi, "FLUX_JOB_ID")), (vec!["cm"], vec!["1"]));
        assert!(value(&openmpi, "MPIR_CVAR_NOLOCAL").is_empty());
        let unknown = names(None, &[]);
        for env in [&mpich, &openmpi] {
            assert!(env.iter().all(|(name, set)| value(&unknown, name) == [set.as_str()]), "{unknown:?}");
        }
    }

    #[test]
    fn what_the_user_sets_stays() {
        let env = names(None, &[("OMPI_MCA_pml", "ob1"), ("FI_PROVIDER", "")]);
        assert_eq!((value(&env, "OMPI_MCA_pml"), value(&env, "FI_PROVIDER")), (vec!["ob1"], vec![""]));
        assert_eq!(value(&env, "OMPI_MCA_mtl"), ["ofi"]);
    }
}
