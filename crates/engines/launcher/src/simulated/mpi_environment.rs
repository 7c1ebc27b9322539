// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Variables that make MPI libraries and libfabric use our NIC: those that `selvedge env` prints, and those that each
//! MPI needs in addition in virtual time.
//!
//! Ranks find each other by PMI-1, which MPICH uses. Open MPI needs PMIx, which `libselvedge_sim_pmix.so` replaces. A
//! program that is linked to neither (a script, an interpreter, a program without MPI) gets the variables of both. Each
//! MPI ignores those of the other.
//!
//! Invariant: a variable that is set, by `--env` or in the environment, keeps its value.

use std::path::Path;

use crate::environment::{EnvironmentError, PROVIDER, Target, variables};
use crate::mpirun::{Family, library_of};

/// The MPI that a program is linked to.
pub fn mpi_of(program: &Path) -> Option<Family> {
    library_of(program)?.family()
}

/// In addition to the variables of `selvedge env`. Open MPI 4.1 checks for launchers that it knows. The first makes
/// ours look like Flux, which also starts ranks without a daemon of Open MPI. The second selects PMIx.
const OPENMPI: [(&str, &str); 2] = [("FLUX_JOB_ID", "1"), ("OMPI_MCA_pmix", "^flux,isolated")];

/// The node that hwloc finds, in the libraries of MPIs: one core and no devices, as each rank has it. Otherwise every
/// rank would read the devices of this computer, by plug-ins that load libraries of graphics. Without the last two
/// variables hwloc looks for devices all the same.
const HWLOC: [(&str, &str); 3] =
    [("HWLOC_SYNTHETIC", "core:1"), ("HWLOC_COMPONENTS", "-linux"), ("HWLOC_PLUGINS_PATH", "/nonexistent")];

/// Adds the variables for a program of this MPI, or of an unknown one.
pub fn add(mpi: Option<Family>, providers: &Path, env: &mut Vec<(String, String)>) -> Result<(), EnvironmentError> {
    let targets = match mpi {
        Some(family) => vec![family.target()],
        None => vec![Target::Mpich, Target::Openmpi],
    };
    // A user who sets one of them describes the node in another way.
    let is_set = |name: &str| env.iter().any(|(given, _)| given == name) || std::env::var_os(name).is_some();
    if !HWLOC.iter().any(|(name, _)| is_set(name)) && !is_set("HWLOC_XMLFILE") {
        env.extend(HWLOC.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    let mut add = |name: &str, value: String| {
        if !env.iter().any(|(given, _)| given == name) && std::env::var_os(name).is_none() {
            env.push((name.to_owned(), value));
        }
    };
    // A simulated rank has no links, and a program that takes the first provider must find ours.
    add("FI_PROVIDER", PROVIDER.to_owned());
    for target in targets {
        if target == Target::Openmpi {
            OPENMPI.iter().for_each(|(name, value)| add(name, (*value).to_owned()));
        }
        for variable in variables(target, providers)? {
            add(variable.name, variable.value.into_string().map_err(|_| EnvironmentError::TreeNotText)?);
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
    fn each_mpi_gets_its_own_variables_and_an_unknown_program_gets_all() {
        let (mpich, openmpi) = (names(Some(Family::Mpich), &[]), names(Some(Family::Openmpi), &[]));
        assert_eq!(value(&mpich, "MPIR_CVAR_NOLOCAL"), ["1"]);
        assert!(value(&mpich, "OMPI_MCA_pml").is_empty() && value(&mpich, "FLUX_JOB_ID").is_empty());
        assert_eq!((value(&openmpi, "OMPI_MCA_pml"), value(&openmpi, "FLUX_JOB_ID")), (vec!["cm"], vec!["1"]));
        assert!(value(&openmpi, "MPIR_CVAR_NOLOCAL").is_empty());
        assert_eq!(
            (value(&mpich, "FI_PROVIDER"), value(&openmpi, "FI_PROVIDER")),
            (vec!["selvedge"], vec!["selvedge"])
        );
        let unknown = names(None, &[]);
        for env in [&mpich, &openmpi] {
            assert!(env.iter().all(|(name, set)| value(&unknown, name) == [set.as_str()]), "{unknown:?}");
        }
    }

    #[test]
    fn hwloc_finds_one_core_unless_the_user_describes_the_node() {
        let of_user = [("HWLOC_COMPONENTS", "-gl")];
        for (given, cores) in [(&of_user[..0], vec!["core:1"]), (&of_user, vec![])] {
            assert_eq!(value(&names(None, given), "HWLOC_SYNTHETIC"), cores);
        }
    }

    #[test]
    fn variables_of_the_user_stay() {
        let env = names(None, &[("OMPI_MCA_pml", "ob1"), ("FI_PROVIDER", "")]);
        assert_eq!((value(&env, "OMPI_MCA_pml"), value(&env, "FI_PROVIDER")), (vec!["ob1"], vec![""]));
        assert_eq!(value(&env, "OMPI_MCA_mtl"), ["ofi"]);
    }
}
