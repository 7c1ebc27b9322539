// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The variables for each MPI, and the reasons for them.
//!
//! libfabric: `FI_PROVIDER_PATH` is the directory of providers. `FI_PROVIDER` hides all but ours, for the MPI, and
//! those that carry our links to other hosts: tcp with ofi_rxm, or the provider in `SELVEDGE_NET_PROVIDER`.
//! `FI_OFI_RXM_MSG_RX_SIZE` keeps the memory of ofi_rxm small; ranks of `selvedge run` get it, too.
//!
//! Open MPI (4.1 and 5 use the same names): two-sided through `pml cm` and `mtl ofi`; one-sided through `osc rdma` over
//! `btl ofi`. For ranks of one host Open MPI 5 prefers `osc sm`, which needs no network. Its priority is set below that
//! of `osc rdma`, so that it is still available for `MPI_Win_allocate_shared`, which only it supports. Open MPI 4.1 has
//! `osc pt2pt`, too, with the fixed priority 10: it sends messages, and fails with `MPI_THREAD_MULTIPLE`. `osc ucx`
//! would use UCX with any provider. For the provider, both the MTL and the BTL read the same list. It has a name for
//! each of them and one for both. The launcher of Open MPI 5 gives its variables only to processes of its own host, and
//! no variable named with `-x` to spawned processes. Its PMIx takes the names of more from
//! `PMIX_MCA_pmdl_ompi_include_envars`, and gives those to all processes on all hosts ([`PASSED_ON`]). Open MPI 4.1
//! needs `-x` for variables that do not begin with `OMPI_`.
//!
//! MPICH: `CH4_NETMOD` because some builds have UCX, too; `NOLOCAL` because otherwise messages within a host use no
//! network. `NOLOCAL` makes each rank a host of its own: `libselvedge_mpich_preload.so` still gives programs their
//! communicators and windows of shared memory. It also keeps the data of long puts and gets whole, which
//! `MPIR_CVAR_CH4_OFI_AM_LONG_FORCE_PIPELINE` does not: some of those end by a failed assertion of MPICH's. MPICH's own
//! variable for the provider (`MPIR_CVAR_OFI_USE_PROVIDER`) only warns.
//!
//! Both: `libselvedge_mpi_collectives.so` carries out collective operations within a host. Open MPI 4.1 also finds our
//! component ([`component`]), which takes over if it was built for exactly this version of the MPI.
//!
//! All: `LD_PRELOAD` puts `libselvedge_mpi_preload.so` before the C library ([`preloads`]), behind the libraries that it
//! already names ([`mod@crate::preload`]). `ASAN_OPTIONS` and `TSAN_OPTIONS` are for programs with sanitizers. On a
//! simulated machine the simulator sets all three.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::EnvironmentError;
use crate::executable::Executable;
use crate::preload::{LD_PRELOAD, Preloads, options};

/// The MPI or library that the environment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Open MPI, 4.1 and later.
    Openmpi,
    /// MPICH, 4 and later, with the netmod ofi.
    Mpich,
    /// Any program on libfabric.
    Ofi,
}

/// One assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    pub value: OsString,
}

/// The provider's name, as `fi_info -l` prints it.
pub const PROVIDER: &str = "selvedge";

const OPENMPI: &[(&str, &str)] = &[
    ("OMPI_MCA_pml", "cm"),
    ("OMPI_MCA_mtl", "ofi"),
    ("OMPI_MCA_btl", "ofi,self"),
    ("OMPI_MCA_opal_common_ofi_provider_include", PROVIDER),
    ("OMPI_MCA_mtl_ofi_provider_include", PROVIDER),
    ("OMPI_MCA_btl_ofi_provider_include", PROVIDER),
    ("OMPI_MCA_osc", "^ucx"),
    ("OMPI_MCA_osc_rdma_priority", "50"),
    ("OMPI_MCA_osc_sm_priority", "5"),
];

/// The variables that Open MPI 5 gives to processes of other hosts and to spawned ones. The first two are PMIx's own.
const PASSED_ON: &str = "OMPI_*,OPAL_*,FI_*,SELVEDGE_*,LD_PRELOAD,ASAN_OPTIONS,TSAN_OPTIONS";
const PASS_ON: &str = "PMIX_MCA_pmdl_ompi_include_envars";

const MPICH: &[(&str, &str)] = &[("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1")];

/// The receive buffers of `ofi_rxm`, unless the user has set their number. With its own number, 128, an endpoint of
/// libfabric 1.17 takes 88 MB at its first message; with 64 it takes 36 MB.
const RECEIVES_OF_RXM: (&str, &str) = ("FI_OFI_RXM_MSG_RX_SIZE", "64");

/// Settings of libfabric for processes whose links it carries.
pub(crate) fn of_links() -> Variable {
    let (name, value) = RECEIVES_OF_RXM;
    Variable { name, value: std::env::var_os(name).unwrap_or_else(|| value.into()) }
}

/// The whole environment, in the order in which it is printed.
pub fn variables(target: Target, provider_directory: &Path) -> Result<Vec<Variable>, EnvironmentError> {
    if provider_directory.as_os_str().as_encoded_bytes().contains(&b':') {
        return Err(EnvironmentError::Colon { directory: provider_directory.to_owned() });
    }
    let own: &[(&str, &str)] = match target {
        Target::Openmpi => OPENMPI,
        Target::Mpich => MPICH,
        Target::Ofi => &[],
    };
    let named = selvedge_settings::text("SELVEDGE_NET_PROVIDER");
    let mut all = vec![
        Variable { name: "FI_PROVIDER_PATH", value: provider_directory.into() },
        Variable { name: "FI_PROVIDER", value: providers(target, named.as_deref()).into() },
    ];
    all.extend(own.iter().map(|(name, value)| Variable { name, value: value.into() }));
    if target != Target::Ofi {
        all.push(of_links());
    }
    if target == Target::Openmpi {
        let before = std::env::var(PASS_ON).unwrap_or_default();
        all.push(Variable { name: PASS_ON, value: passed_on(&before).into() });
    }
    Ok(all)
}

/// The names of the variables to pass on: ours, and those that the user has already named.
fn passed_on(before: &str) -> String {
    let ours = || PASSED_ON.split(',');
    let others = before.split(',').filter(|name| !name.is_empty() && ours().all(|our| our != *name));
    ours().chain(others).collect::<Vec<_>>().join(",")
}

/// The providers that libfabric offers: ours, and those that carry links. Other programs may take the first one, which
/// must be ours. Their processes reach other hosts if they name our provider themselves and `FI_PROVIDER` has both.
fn providers(target: Target, of_links: Option<&str>) -> String {
    if target == Target::Ofi {
        return PROVIDER.to_owned();
    }
    let of_links = of_links.filter(|given| !given.is_empty()).unwrap_or("tcp;ofi_rxm");
    format!("{PROVIDER},{}", of_links.replace(';', ","))
}

/// The libraries that are loaded before the C library and before the MPI.
fn preloaded_files(target: Target) -> &'static [&'static str] {
    match target {
        Target::Mpich => {
            &["libselvedge_mpi_preload.so", "libselvedge_mpi_collectives.so", "libselvedge_mpich_preload.so"]
        }
        Target::Openmpi => {
            &["libselvedge_mpi_preload.so", "libselvedge_mpi_collectives.so", "libselvedge_openmpi_preload.so"]
        }
        Target::Ofi => &["libselvedge_mpi_preload.so"],
    }
}

/// The variables that load our libraries into the processes.
pub fn libraries(target: Target, provider_directory: &Path) -> impl Iterator<Item = Variable> {
    let preloads = preloads(target, provider_directory);
    let set = preloads.iter().flat_map(|preloads| {
        let variable = |name: &str| std::env::var_os(name).unwrap_or_default();
        let libraries = (LD_PRELOAD, preloads.value(&variable(LD_PRELOAD), &Executable::default()));
        [libraries].into_iter().chain(options(variable)).map(|(name, value)| Variable { name, value })
    });
    set.chain(component(target, provider_directory)).collect::<Vec<_>>().into_iter()
}

/// The directories in which Open MPI looks for components: its own, those that the user has named, and ours if the tree
/// has one. The user's own directory is last, because Open MPI ends its search at a missing directory. `None`: our path
/// has a colon, which would end the name.
fn component(target: Target, provider_directory: &Path) -> Option<Variable> {
    let directory = provider_directory.parent()?.join("openmpi");
    let is_there = target == Target::Openmpi && directory.join("mca_coll_selvedge.so").is_file();
    if !is_there || directory.as_os_str().as_encoded_bytes().contains(&b':') {
        return None;
    }
    let before = std::env::var_os(COMPONENT_PATH).unwrap_or_default();
    Some(Variable { name: COMPONENT_PATH, value: component_path(&directory, &before) })
}

const COMPONENT_PATH: &str = "OMPI_MCA_mca_base_component_path";

fn component_path(ours: &Path, before: &OsStr) -> OsString {
    if before.is_empty() {
        return [OsStr::new("SYSTEM_DEFAULT"), ours.as_os_str(), OsStr::new("USER_DEFAULT")].join(OsStr::new(":"));
    }
    if std::env::split_paths(before).any(|directory| directory == ours) {
        return before.to_owned();
    }
    [ours.as_os_str(), before].join(OsStr::new(":"))
}

/// Our libraries before the C library and before the MPI. `None`: this tree has none of them, or their path has a space
/// or a colon, at which the loader would end the name.
pub fn preloads(target: Target, provider_directory: &Path) -> Option<Preloads> {
    let files = preloaded_files(target).iter().map(|file| provider_directory.join(file)).filter(|file| file.is_file());
    let ours: Vec<_> = files.collect();
    let splits = |file: &PathBuf| file.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte));
    (!ours.is_empty() && !ours.iter().any(splits)).then(|| Preloads { ours, ..Preloads::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_component_is_found_beside_others() {
        let value = |before: &str| component_path(Path::new("/opt/openmpi"), OsStr::new(before));
        assert_eq!(value(""), "SYSTEM_DEFAULT:/opt/openmpi:USER_DEFAULT");
        assert_eq!(value("/a:/b"), "/opt/openmpi:/a:/b");
        assert_eq!(value(value("/a").to_str().unwrap()), value("/a"));
        assert_eq!(value(value("").to_str().unwrap()), value(""));
    }

    #[test]
    fn a_tree_without_the_library_does_without() {
        assert_eq!(libraries(Target::Openmpi, Path::new("/nowhere/lib")).count(), 0);
        assert!(preloads(Target::Mpich, Path::new("/nowhere")).is_none());
    }

    fn names(target: Target) -> Vec<&'static str> {
        variables(target, Path::new("/opt/lib/libselvedge")).unwrap().into_iter().map(|v| v.name).collect()
    }

    #[test]
    fn every_target_gets_the_providers_directory() {
        for target in [Target::Openmpi, Target::Mpich, Target::Ofi] {
            let found = variables(target, Path::new("/opt/lib/libselvedge")).unwrap();
            assert_eq!((found[0].name, found[0].value.to_str()), ("FI_PROVIDER_PATH", Some("/opt/lib/libselvedge")));
            let providers = if target == Target::Ofi { "selvedge" } else { "selvedge,tcp,ofi_rxm" };
            assert_eq!((found[1].name, found[1].value.to_str()), ("FI_PROVIDER", Some(providers)));
        }
        assert_eq!(names(Target::Ofi).len(), 2);
    }

    #[test]
    fn the_provider_of_links_can_be_chosen() {
        assert_eq!(providers(Target::Mpich, Some("verbs;ofi_rxm")), "selvedge,verbs,ofi_rxm");
        assert_eq!(providers(Target::Mpich, Some("")), providers(Target::Openmpi, None));
    }

    #[test]
    fn what_the_user_passes_on_stays() {
        assert_eq!(passed_on(""), PASSED_ON);
        assert_eq!(passed_on("UCX_*,FI_*"), format!("{PASSED_ON},UCX_*"));
        assert_eq!(passed_on(&passed_on("UCX_*")), passed_on("UCX_*"));
    }

    #[test]
    fn each_mpi_gets_only_its_own_variables() {
        assert!(names(Target::Openmpi).contains(&"OMPI_MCA_osc_sm_priority"));
        assert!(names(Target::Openmpi).contains(&PASS_ON) && !names(Target::Ofi).contains(&PASS_ON));
        assert!(names(Target::Openmpi).iter().all(|name| !name.starts_with("MPIR_")));
        assert_eq!(names(Target::Mpich)[2..], ["MPIR_CVAR_CH4_NETMOD", "MPIR_CVAR_NOLOCAL", "FI_OFI_RXM_MSG_RX_SIZE"]);
    }

    #[test]
    fn a_directory_that_libfabric_would_split_is_refused() {
        assert!(variables(Target::Ofi, Path::new("/a:b")).unwrap_err().to_string().contains("two directories"));
    }
}
