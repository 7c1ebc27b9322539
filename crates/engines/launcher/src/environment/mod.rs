// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge env`: prints the environment that makes an installed MPI, or any program on libfabric, use our provider.
//!
//! It builds and starts nothing: its output is for `eval "$(selvedge env openmpi)"`. `selvedge mpirun` sets the
//! same variables, from the same table ([`mod@variables`]).
//!
//! Invariants: 1. only lines for the shell go to standard output. 2. Nothing is printed if the provider is missing, because an
//! MPI that cannot find its provider fails with an error that does not say why.

mod shell;
mod variables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

pub use shell::{Shell, shell_word};
pub use variables::{PROVIDER, Target, Variable, libraries, variables};

/// The provider's directory below the prefix. It holds no other library of libfabric's, because libfabric loads every provider in it.
const PROVIDER_DIRECTORY: &str = "lib/libselvedge";
const PROVIDER_FILE: &str = "libselvedge-fi.so";

/// Print the environment that makes an installed MPI use Selvedge.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The MPI or library that the environment is for
    #[arg(value_enum, value_name = "WHOM")]
    target: Target,

    /// The syntax of the output
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
    variables.extend(libraries(args.target, &provider));
    print!("{}", args.shell.lines(&variables)?);
    Ok(ExitCode::SUCCESS)
}

/// `SELVEDGE_PREFIX`, else the tree around this executable.
pub fn prefix() -> Result<PathBuf> {
    if let Some(prefix) = std::env::var_os("SELVEDGE_PREFIX").filter(|prefix| !prefix.is_empty()) {
        return std::path::absolute(prefix).context("SELVEDGE_PREFIX is not a valid path");
    }
    let selvedge = std::env::current_exe().context("cannot find the file of this program")?;
    match selvedge.parent().and_then(Path::parent) {
        Some(prefix) => Ok(prefix.to_owned()),
        None => bail!("{} is not in an installed tree; set SELVEDGE_PREFIX to one", selvedge.display()),
    }
}

/// The directory for `FI_PROVIDER_PATH`.
pub fn provider_directory(prefix: &Path) -> Result<PathBuf> {
    let directory = prefix.join(PROVIDER_DIRECTORY);
    let file = directory.join(PROVIDER_FILE);
    if !file.is_file() {
        bail!("{} is not there; run make build, or set SELVEDGE_PREFIX to the tree that has it", file.display());
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
