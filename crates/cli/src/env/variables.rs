// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which variables each MPI is told by, and why these.
//!
//! libfabric: `FI_PROVIDER_PATH` says where providers lie, `FI_PROVIDER` which of them is to be seen at all.
//!
//! Open MPI (4.1 and 5 know the same names): two-sided through `pml cm` and `mtl ofi`; one-sided through `osc rdma` over
//! `btl ofi`. For ranks of one host Open MPI 5 would rather take `osc sm`, which needs no network; its priority is put
//! below that of `osc rdma`, so that it is still there for `MPI_Win_allocate_shared`, which only it can do. `osc ucx`
//! would find UCX whatever the provider is. Which provider: both the MTL and the BTL ask the same list, which has a name
//! for each of them and one for both.
//!
//! MPICH: `CH4_NETMOD` because builds have UCX too; `NOLOCAL` because it never gives the messages of one host to a network
//! otherwise. `NOLOCAL` makes each rank a host of its own: `MPI_COMM_TYPE_SHARED` has one rank. A variable of its own for the
//! provider (`MPIR_CVAR_OFI_USE_PROVIDER`) does nothing any more but print a complaint.
//!
//! All: `LD_PRELOAD` puts `libselvedge_mpi_preload.so` before the C library ([`mpi_preload`]); behind it stays what was there. In a
//! simulated machine `LD_PRELOAD` is the simulator's.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Result, bail};
use clap::ValueEnum;

/// Whom the environment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// Open MPI, 4.1 and later
    Openmpi,
    /// MPICH, 4 and later, with the netmod ofi
    Mpich,
    /// Any program on libfabric
    Ofi,
}

/// One assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    pub value: OsString,
}

/// The provider's name, as `fi_info -l` has it.
pub const PROVIDER: &str = "selvedge";

const OPENMPI: &[(&str, &str)] = &[
    ("OMPI_MCA_pml", "cm"),
    ("OMPI_MCA_mtl", "ofi"),
    ("OMPI_MCA_btl", "ofi,self"),
    ("OMPI_MCA_opal_common_ofi_provider_include", PROVIDER),
    ("OMPI_MCA_mtl_ofi_provider_include", PROVIDER),
    ("OMPI_MCA_btl_ofi_provider_include", PROVIDER),
    ("OMPI_MCA_osc", "^ucx"),
    ("OMPI_MCA_osc_rdma_priority", "8"),
    ("OMPI_MCA_osc_sm_priority", "5"),
];

const MPICH: &[(&str, &str)] = &[("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1")];

/// The whole environment, in the order in which it is printed.
pub fn variables(target: Target, provider_directory: &Path) -> Result<Vec<Variable>> {
    if provider_directory.as_os_str().as_encoded_bytes().contains(&b':') {
        bail!("libfabric would take the ':' in {} for two directories", provider_directory.display());
    }
    let own: &[(&str, &str)] = match target {
        Target::Openmpi => OPENMPI,
        Target::Mpich => MPICH,
        Target::Ofi => &[],
    };
    let mut all = vec![
        Variable { name: "FI_PROVIDER_PATH", value: provider_directory.into() },
        Variable { name: "FI_PROVIDER", value: PROVIDER.into() },
    ];
    all.extend(own.iter().map(|(name, value)| Variable { name, value: value.into() }));
    Ok(all)
}

const MPI_PRELOAD_FILE: &str = "libselvedge_mpi_preload.so";

/// What puts our library for ranks before the C library. None: it is not in this tree, or the loader could not be told of it (which
/// takes a space or a colon for the end of a name).
pub fn mpi_preload(provider_directory: &Path) -> Option<Variable> {
    let file = provider_directory.join(MPI_PRELOAD_FILE);
    if !file.is_file() || file.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte)) {
        return None;
    }
    let before = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    Some(Variable { name: "LD_PRELOAD", value: preloaded(&file, &before) })
}

/// A library before those that are preloaded already.
fn preloaded(file: &Path, before: &OsStr) -> OsString {
    let mut value = OsString::from(file);
    let others = before.to_string_lossy();
    for other in others.split([':', ' ']).filter(|other| !other.is_empty() && Path::new(other) != file) {
        value.push(":");
        value.push(other);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_preloaded_stays_behind_ours() {
        let value = |before: &str| preloaded(Path::new("/opt/m.so"), OsStr::new(before));
        assert_eq!(value(""), "/opt/m.so");
        assert_eq!(value("/a.so /b.so:/opt/m.so"), "/opt/m.so:/a.so:/b.so");
    }

    #[test]
    fn a_tree_without_the_library_does_without() {
        assert_eq!(mpi_preload(Path::new("/nowhere")), None);
        assert_eq!(mpi_preload(Path::new("/no where")), None);
    }

    fn names(target: Target) -> Vec<&'static str> {
        variables(target, Path::new("/opt/lib/libselvedge")).unwrap().into_iter().map(|v| v.name).collect()
    }

    #[test]
    fn all_are_told_where_the_provider_is() {
        for target in [Target::Openmpi, Target::Mpich, Target::Ofi] {
            let found = variables(target, Path::new("/opt/lib/libselvedge")).unwrap();
            assert_eq!((found[0].name, found[0].value.to_str()), ("FI_PROVIDER_PATH", Some("/opt/lib/libselvedge")));
            assert_eq!((found[1].name, found[1].value.to_str()), ("FI_PROVIDER", Some("selvedge")));
        }
        assert_eq!(names(Target::Ofi).len(), 2);
    }

    #[test]
    fn each_mpi_has_only_its_own() {
        assert!(names(Target::Openmpi).contains(&"OMPI_MCA_osc_sm_priority"));
        assert!(names(Target::Openmpi).iter().all(|name| !name.starts_with("MPIR_")));
        assert_eq!(names(Target::Mpich)[2..], ["MPIR_CVAR_CH4_NETMOD", "MPIR_CVAR_NOLOCAL"]);
    }

    #[test]
    fn a_directory_that_libfabric_would_split_is_refused() {
        assert!(variables(Target::Ofi, Path::new("/a:b")).unwrap_err().to_string().contains("two directories"));
    }
}
