// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge rtl`: passes its arguments to `selvedge-rtl`, which contains the units of the RTL. That is a separate
//! program, because `make rtl` builds it only where Verilator is installed.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::bench::process::Tree;

/// Run a recorded program through the engine in SystemVerilog (replay), or show the engine's figures (report)
#[derive(clap::Args)]
#[command(disable_help_flag = true, override_usage = USAGE)]
pub struct Args {
    /// A command of selvedge-rtl, and its arguments; --help shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND [ARGS]")]
    arguments: Vec<OsString>,
}

const USAGE: &str = "\
selvedge rtl replay [--unit UNIT] [--gap CYCLES] [--json] TRACE...
       selvedge rtl report [--folder FOLDER] [--json] [--svg DIR]";

const PROGRAM: &str = "selvedge-rtl";

pub fn main(args: Args) -> Result<ExitCode> {
    let path = Tree::find()?.prefix().join("libexec/selvedge").join(PROGRAM);
    if !path.is_file() {
        bail!(
            "{}: no such file; run make rtl, which needs Verilator, or set SELVEDGE_PREFIX to the tree that has it",
            path.display()
        );
    }
    let error = Command::new(&path).args(&args.arguments).exec();
    bail!("cannot start {}: {error}", path.display())
}
