// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The MPIs of this machine, and other launchers. An MPI is found by its launcher, in PATH, beside this command, and
//! where rpm's distributions put MPIs. Whether it uses libfabric is read from its library
//! ([`selvedge_launcher::mpirun::network`]); if it does, two ranks try it by `selvedge mpirun`.

use std::path::{Path, PathBuf};
use std::process::Command;

use selvedge_launcher::environment::{prefix, provider_directory};
use selvedge_launcher::mpirun::network::{self, Network};
use selvedge_launcher::mpirun::{Family, LAUNCHERS, of_version};
use serde::{Deserialize, Serialize};

use super::finding::Finding;
use super::trial::{Trials, VERSION_LIMIT};
use crate::bench::process::output;

/// Folders of MPIs that are in PATH only after a module was loaded.
const FURTHER: [&str; 2] = ["/usr/lib64/openmpi/bin", "/usr/lib64/mpich/bin"];
/// Launchers that belong to no MPI.
const OTHER_LAUNCHERS: [&str; 2] = ["prterun", "srun"];

/// The result of rank 0, and what its process has mapped.
#[derive(Debug, Serialize, Deserialize)]
pub struct Exchanged {
    pub is_right: bool,
    pub libfabric: Option<PathBuf>,
    pub loads_provider: bool,
    pub uses_provider: bool,
}

/// An MPI of this machine.
#[derive(Debug)]
pub struct Mpi {
    family: Family,
    version: String,
    launcher: PathBuf,
    library: Option<PathBuf>,
}

/// The folders to search, once each.
fn folders() -> Vec<PathBuf> {
    let own = std::env::current_exe().ok().and_then(|file| Some(file.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).chain(own).chain(FURTHER.map(PathBuf::from));
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in all.filter_map(|folder| folder.canonicalize().ok()) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// Finds the MPIs, each once, in the order of PATH. Also returns findings about launchers that belong to none.
pub fn find() -> (Vec<Mpi>, Vec<Finding>) {
    let (mut found, mut findings): (Vec<Mpi>, Vec<Finding>) = Default::default();
    let mut asked: Vec<PathBuf> = Vec::new();
    let launchers = folders().into_iter().flat_map(|folder| LAUNCHERS.map(|name| folder.join(name)));
    for launcher in launchers.filter(|launcher| launcher.is_file()) {
        let Ok(real) = launcher.canonicalize() else { continue };
        if asked.contains(&real) {
            continue;
        }
        asked.push(real);
        let printed = version_of(&launcher);
        let family = printed.as_ref().ok().and_then(|printed| of_version(printed));
        let (Ok(printed), Some(family)) = (&printed, family) else {
            findings.push(stranger(&launcher, printed.err()));
            continue;
        };
        let library = network::library_beside(&launcher, family);
        // A prefix has several launchers of one MPI.
        let is_same = |mpi: &Mpi| match &library {
            Some(_) => mpi.library == library,
            None => mpi.family == family && mpi.launcher.parent() == launcher.parent(),
        };
        if !found.iter().any(is_same) {
            let version = number_in(printed).unwrap_or("of an unknown version").to_owned();
            found.push(Mpi { family, version, launcher, library });
        }
    }
    findings.extend(found.is_empty().then(|| {
        Finding::note(
            "MPI",
            "no launcher of Open MPI or MPICH in PATH",
            "only MPI programs need one: `pip install mpich`, or Debian's openmpi-bin",
        )
    }));
    (found, findings)
}

/// A program under a launcher's name, which fails or says that it belongs to another MPI.
fn stranger(launcher: &Path, error: Option<String>) -> Finding {
    let shown = launcher.display();
    match error {
        Some(error) => Finding::note("launcher", format!("{shown} --version: {error}"), "see its own message"),
        None => Finding::note(
            "launcher",
            format!("{shown}: neither Open MPI's nor MPICH's by its --version"),
            "if it is, name the MPI: selvedge mpirun --mpi ... --launcher ...",
        ),
    }
}

/// The output of a launcher for `--version`.
fn version_of(launcher: &Path) -> Result<String, String> {
    let mut command = Command::new(launcher);
    // Open MPI's refuses to run as root even then.
    command.arg("--version").env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    output(&mut command, VERSION_LIMIT).map_err(|error| format!("{error:#}"))
}

/// The first word of the output that is a version: digits with dots between them.
fn number_in(printed: &str) -> Option<&str> {
    let words = printed.split(|letter: char| letter.is_ascii_whitespace() || letter == ',');
    let mut words = words.map(|word| word.trim_start_matches('v'));
    words.find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()) && word.contains('.'))
}

impl Mpi {
    fn subject(&self) -> String {
        format!("{} {}", self.family.name(), self.version)
    }

    /// Tries the MPI. Also returns the libfabric that its ranks have loaded.
    pub fn examine(&self, trials: &Trials) -> (Finding, Option<PathBuf>) {
        let (subject, launcher) = (self.subject(), self.launcher.display());
        let Some(library) = &self.library else {
            let remedy = format!("selvedge mpirun --launcher {launcher} may work for a program that is linked to it");
            return (Finding::note(&subject, format!("{launcher}: its library is not beside it"), remedy), None);
        };
        if let Network::Other(has) = network::of_library(library, self.family) {
            let found = format!("{launcher}: {has}, without libfabric: cannot load the provider");
            return (Finding::note(&subject, found, network::remedy(self.family)), None);
        }
        if let Err(error) = prefix().and_then(|prefix| provider_directory(&prefix)) {
            return (
                Finding::note(&subject, format!("{launcher}: not tried, there is no provider"), error.to_string()),
                None,
            );
        }
        match trials.run::<Exchanged>(&mut self.trial(trials, library)) {
            Ok(exchanged) => (self.finding(&exchanged), exchanged.libfabric),
            Err(error) => {
                let remedy = format!("see what {launcher} says about a program of its own without Selvedge");
                (
                    Finding::problem(
                        &subject,
                        format!("{launcher}: two ranks over the provider failed: {error}"),
                        remedy,
                    ),
                    None,
                )
            }
        }
    }

    fn trial(&self, trials: &Trials, library: &Path) -> Command {
        let (family, options): (_, &[&str]) = match self.family {
            Family::Openmpi => ("openmpi", &["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]),
            Family::Mpich => ("mpich", &["-bind-to", "none"]),
        };
        let mut command = trials.selvedge();
        command.args(["mpirun", "--mpi", family, "--launcher"]).arg(&self.launcher).args(["-n", "2"]).args(options);
        command.arg(trials.executable()).args(["probe", "mpi", family]).arg(library);
        command
    }

    fn finding(&self, exchanged: &Exchanged) -> Finding {
        let (subject, launcher) = (self.subject(), self.launcher.display());
        match exchanged {
            Exchanged { is_right: false, .. } => Finding::problem(
                &subject,
                format!("{launcher}: two ranks sent each other 1 MiB, and bytes are wrong"),
                "do not use this MPI with Selvedge, and report this",
            ),
            Exchanged { uses_provider: true, .. } => {
                Finding::ok(&subject, format!("{launcher}: loads the provider, 1 MiB each way is right"))
            }
            Exchanged { loads_provider: true, .. } => Finding::problem(
                &subject,
                format!("{launcher}: loads the provider, but communicates without it"),
                "FI_LOG_LEVEL=warn selvedge mpirun ... shows what it misses",
            ),
            _ => Finding::problem(
                &subject,
                format!("{launcher}: does not load the provider"),
                "FI_LOG_LEVEL=warn selvedge mpirun ... shows libfabric's reason",
            ),
        }
    }
}

/// The launchers that belong to no MPI.
pub fn other_launchers() -> impl Iterator<Item = Finding> {
    let file = |name: &str| folders().into_iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    OTHER_LAUNCHERS.into_iter().filter_map(move |name| {
        let launcher = file(name)?;
        Some(match version_of(&launcher) {
            Ok(printed) => Finding::ok(name, format!("{} {}", launcher.display(), number_in(&printed).unwrap_or(""))),
            Err(error) => stranger(&launcher, Some(error)),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_launchers_print() {
        for (printed, number) in [
            ("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", "4.1.4"),
            ("mpirun (Open MPI) 5.0.11\n", "5.0.11"),
            (
                "HYDRA build details:\n    Version:                                 5.0.2\n    Release Date: x\n",
                "5.0.2",
            ),
            ("prterun (PRRTE) 3.0.13\n", "3.0.13"),
            ("slurm 22.05.8\n", "22.05.8"),
            ("Open MPI v4.1.4, package: Debian OpenMPI", "4.1.4"),
        ] {
            assert_eq!(number_in(printed), Some(number));
        }
        assert_eq!(number_in("something else 7\n"), None);
    }

    #[test]
    fn the_result_of_the_ranks_is_the_state() {
        let mpi = Mpi { family: Family::Mpich, version: "5.0".into(), launcher: "/a/mpirun".into(), library: None };
        let with = |is_right, loads_provider, uses_provider| {
            mpi.finding(&Exchanged { is_right, libfabric: None, loads_provider, uses_provider })
        };
        assert!(with(true, true, true).remedy.is_none());
        for (bad, words) in [
            (with(false, true, true), "wrong"),
            (with(true, true, false), "without it"),
            (with(true, false, false), "not load"),
        ] {
            assert!(bad.remedy.is_some() && bad.found.contains(words), "{bad:?}");
        }
    }
}
