// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge env`: prints the environment that makes an installed MPI, or any program on libfabric, use our provider.
//!
//! Nothing is built and nothing is started: the lines are for `eval "$(selvedge env openmpi)"`. `selvedge mpirun` sets the
//! same variables, from the same table ([`mod@variables`]).
//!
//! Invariants: 1. only lines for the shell go to standard output. 2. Nothing is printed unless the provider is there: an
//! MPI that is told to use a provider that it cannot find fails with a message that does not say why.

mod shell;
mod variables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

pub use shell::{Shell, shell_word};
pub use variables::{Target, Variable, mpi_preload, variables};

/// Below the prefix. It has a directory of its own because libfabric loads every provider in the directory it is given.
const PROVIDER_DIRECTORY: &str = "lib/libselvedge";
const PROVIDER_FILE: &str = "libselvedge-fi.so";

/// Print the environment that makes an installed MPI use Selvedge.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// For whom
    #[arg(value_enum, value_name = "WHOM")]
    target: Target,

    /// Whose syntax
    #[arg(long, value_enum, default_value_t = Shell::Sh)]
    shell: Shell,
}

const AFTER_HELP: &str = "\
sh, bash, zsh:  eval \"$(selvedge env openmpi)\"
csh, tcsh:      eval `selvedge env --shell csh openmpi`
fish:           selvedge env --shell fish openmpi | source

The provider is looked for in the tree around this command, or in the one that SELVEDGE_PREFIX names. To see which \
provider a program takes, add FI_LOG_LEVEL=warn (libfabric), OMPI_MCA_opal_common_ofi_verbose=1 (Open MPI) or \
MPIR_CVAR_DEBUG_SUMMARY=1 (MPICH).";

pub fn main(args: Args) -> Result<ExitCode> {
    let provider = provider_directory(&prefix()?)?;
    let mut variables = variables(args.target, &provider)?;
    variables.extend(mpi_preload(&provider));
    print!("{}", args.shell.lines(&variables)?);
    Ok(ExitCode::SUCCESS)
}

/// `SELVEDGE_PREFIX`, else the tree around this executable.
pub fn prefix() -> Result<PathBuf> {
    if let Some(prefix) = std::env::var_os("SELVEDGE_PREFIX").filter(|prefix| !prefix.is_empty()) {
        return std::path::absolute(prefix).context("SELVEDGE_PREFIX names no place");
    }
    let selvedge = std::env::current_exe().context("where is this program?")?;
    match selvedge.parent().and_then(Path::parent) {
        Some(prefix) => Ok(prefix.to_owned()),
        None => bail!("{} is in no installed tree; SELVEDGE_PREFIX can name one", selvedge.display()),
    }
}

/// What `FI_PROVIDER_PATH` has to name.
pub fn provider_directory(prefix: &Path) -> Result<PathBuf> {
    let directory = prefix.join(PROVIDER_DIRECTORY);
    let file = directory.join(PROVIDER_FILE);
    if !file.is_file() {
        bail!("{} is not there; `make build` builds it, SELVEDGE_PREFIX names the tree it is in", file.display());
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_without_the_provider_is_refused() {
        let tree = tempfile::tempdir().unwrap();
        let error = provider_directory(tree.path()).unwrap_err().to_string();
        assert!(error.contains("libselvedge-fi.so") && error.contains("SELVEDGE_PREFIX"), "{error}");
        let directory = tree.path().join("lib/libselvedge");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("libselvedge-fi.so"), "").unwrap();
        assert_eq!(provider_directory(tree.path()).unwrap(), directory);
    }
}
