// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge env`: prints the environment in which an installed MPI, or any program on libfabric, uses our provider
//! ([`selvedge_launcher::environment`]). It builds and starts nothing; use it as `eval "$(selvedge env openmpi)"`.
//!
//! Invariant: only lines for the shell go to standard output.

use std::process::ExitCode;

use anyhow::Result;
use selvedge_launcher::environment::{Shell, Target, libraries, prefix, provider_directory, variables};

use crate::choice::{Choice, one_of};

/// Print the environment that makes an installed MPI use Selvedge.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The MPI or library that the environment is for
    #[arg(value_parser = one_of(TARGETS), value_name = "WHOM")]
    target: Target,

    /// The syntax of the output
    #[arg(long, value_parser = one_of(SHELLS), default_value = "sh")]
    shell: Shell,
}

const AFTER_HELP: &str = "\
sh, bash, zsh:  eval \"$(selvedge env openmpi)\"
csh, tcsh:      eval `selvedge env --shell csh openmpi`
fish:           selvedge env --shell fish openmpi | source

The provider is looked for in the tree around this command, or in the one that SELVEDGE_PREFIX names. To see which \
provider a program takes, add FI_LOG_LEVEL=warn (libfabric), OMPI_MCA_opal_common_ofi_verbose=1 (Open MPI) or \
MPIR_CVAR_DEBUG_SUMMARY=1 (MPICH).";

const TARGETS: &[Choice<Target>] = &[
    Choice { name: "openmpi", value: Target::Openmpi, help: "Open MPI, 4.1 and later" },
    Choice { name: "mpich", value: Target::Mpich, help: "MPICH, 4 and later, with the netmod ofi" },
    Choice { name: "ofi", value: Target::Ofi, help: "Any program on libfabric" },
];

const SHELLS: &[Choice<Shell>] = &[
    Choice { name: "sh", value: Shell::Sh, help: "sh, bash, zsh, ksh" },
    Choice { name: "csh", value: Shell::Csh, help: "csh, tcsh" },
    Choice { name: "fish", value: Shell::Fish, help: "fish" },
    Choice { name: "json", value: Shell::Json, help: "One object, for programs" },
];

pub fn main(args: Args) -> Result<ExitCode> {
    let provider = provider_directory(&prefix()?)?;
    let mut variables = variables(args.target, &provider)?;
    variables.extend(libraries(args.target, &provider));
    print!("{}", args.shell.lines(&variables)?);
    Ok(ExitCode::SUCCESS)
}
