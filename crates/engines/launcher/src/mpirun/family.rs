// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the MPI of a program from its library, and the MPI of a launcher from its `--version`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::libraries;
use crate::environment::Target;

/// A family of MPIs, which share a launcher and a set of variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Openmpi,
    Mpich,
}

impl Family {
    /// The environment of this MPI.
    pub fn target(self) -> Target {
        match self {
            Family::Openmpi => Target::Openmpi,
            Family::Mpich => Target::Mpich,
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Family::Openmpi => "Open MPI",
            Family::Mpich => "MPICH",
        }
    }

    /// The file names of its library. Debian's MPICH has one of its own.
    pub fn library_names(self) -> &'static [&'static str] {
        match self {
            Family::Openmpi => &["libmpi.so.40", "libmpi.so.80", "libmpi.so.20"],
            Family::Mpich => &["libmpi.so.12", "libmpich.so.12"],
        }
    }
}

/// The MPI library of a program.
#[derive(Debug, PartialEq, Eq)]
pub struct Library {
    /// "libmpi.so.40"
    name: String,
    /// `None`: the loader does not find the file.
    file: Option<PathBuf>,
}

/// Names of launchers. Names with a dot are Debian's, where several MPIs may be installed.
pub const LAUNCHERS: [&str; 5] = ["mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra"];

/// The MPI library that the loader finds for the program. `None` for scripts, interpreters and programs without MPI.
pub fn library_of(program: &Path) -> Option<Library> {
    let library_path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let found = libraries::find(program, &library_path, is_mpi)?;
    Some(Library { name: found.name, file: found.file })
}

/// Whether a library of this name is an MPI, and no part or binding of one.
fn is_mpi(name: &str) -> bool {
    ["libmpi.so.", "libmpich.so.", "libmpi_abi.so."].iter().any(|mpi| name.starts_with(mpi))
}

impl Library {
    /// The MPI with this ABI number. The standard's own ABI (`libmpi_abi`) may belong to any MPI.
    pub fn family(&self) -> Option<Family> {
        let families = [Family::Openmpi, Family::Mpich];
        families.into_iter().find(|family| family.library_names().contains(&self.name.as_str()))
    }

    /// Its file, if the loader finds one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Possible launchers: in a `bin` beside one of the directories above the library, the nearest first.
    pub fn launchers_beside(&self) -> Vec<PathBuf> {
        let Some(file) = &self.file else { return Vec::new() };
        let real = file.canonicalize().unwrap_or_else(|_| file.clone());
        let above = file.ancestors().skip(1).chain(real.ancestors().skip(1));
        let mut out: Vec<PathBuf> = Vec::new();
        for candidate in above.flat_map(|directory| launchers_in(&directory.join("bin"))) {
            if !out.contains(&candidate) {
                out.push(candidate);
            }
        }
        out
    }
}

/// Possible launchers in a directory.
pub fn launchers_in(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let directory = directory.to_owned();
    LAUNCHERS.into_iter().map(move |name| directory.join(name))
}

/// The MPI of a launcher, by its `--version`.
pub fn of_launcher(launcher: &Path) -> Option<Family> {
    let mut ask = Command::new(launcher);
    // Some launchers refuse to run as root even with --version.
    ask.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let output = ask.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    of_version(&String::from_utf8_lossy(&output.stdout))
}

/// The MPI of a launcher that printed this for its `--version`.
pub fn of_version(output: &str) -> Option<Family> {
    let openmpi = ["Open MPI", "OpenRTE", "PRRTE"].iter().any(|name| output.contains(name));
    let mpich = ["HYDRA", "MPICH"].iter().any(|name| output.contains(name));
    match (openmpi, mpich) {
        (true, _) => Some(Family::Openmpi),
        (false, true) => Some(Family::Mpich),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl From<(&str, Option<&str>)> for Library {
        fn from((name, file): (&str, Option<&str>)) -> Library {
            Library { name: name.to_owned(), file: file.map(PathBuf::from) }
        }
    }

    #[test]
    fn the_family_is_that_of_the_libraries_number() {
        let family = |name: &str| Library::from((name, None)).family();
        assert_eq!(family("libmpi.so.40"), Some(Family::Openmpi));
        assert_eq!(family("libmpi.so.12"), Some(Family::Mpich));
        assert_eq!(family("libmpich.so.12"), Some(Family::Mpich));
        assert_eq!(family("libmpi_abi.so.1"), None);
        assert!(Library::from(("libmpi.so.12", None)).launchers_beside().is_empty());
        assert!(["libmpi.so.40", "libmpich.so.12", "libmpi_abi.so.1"].into_iter().all(is_mpi));
        assert!(!["libmpi_cxx.so.40", "libmpicxx.so.12", "libc.so.6"].into_iter().any(is_mpi));
    }

    #[test]
    fn launchers_are_searched_from_the_library_upwards() {
        let library = Library::from(("libmpi.so.40", Some("/nowhere/prefix/lib/arch/libmpi.so.40")));
        let found = library.launchers_beside();
        let at = |path: &str| found.iter().position(|found| found == Path::new(path)).unwrap();
        assert!(at("/nowhere/prefix/lib/bin/mpirun") < at("/nowhere/prefix/bin/mpirun"));
        assert!(at("/nowhere/prefix/bin/mpirun") < at("/nowhere/bin/mpirun"));
        assert!(at("/nowhere/prefix/bin/mpirun") < at("/nowhere/prefix/bin/mpiexec"));
    }

    #[test]
    fn launchers_are_recognised_by_their_version() {
        assert_eq!(of_version("mpirun (Open MPI) 5.0.11\n"), Some(Family::Openmpi));
        assert_eq!(of_version("mpirun.openmpi (OpenRTE) 4.1.4\n"), Some(Family::Openmpi));
        assert_eq!(of_version("HYDRA build details:\n    Version:  5.0.2\n"), Some(Family::Mpich));
        assert_eq!(of_version("something else 1.0"), None);
    }
}
