// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge completions` and the hidden `selvedge manual-pages`: what shells and `man` need of the command, made from
//! its own description.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use selvedge_process::settings::{VARIABLES, Variable};

/// Print the completions of this command for a shell
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct CompletionsArgs {
    shell: Shell,
}

const AFTER_HELP: &str = "\
bash:  source <(selvedge completions bash)
zsh:   selvedge completions zsh >FOLDER/_selvedge, in a folder of $fpath
fish:  selvedge completions fish >~/.config/fish/completions/selvedge.fish

`make install` and the packages install all three.";

/// Write the manual pages of all subcommands, of the provider and of the environment below a folder (`man1`, `man7`).
#[derive(clap::Args)]
pub struct ManualPagesArgs {
    folder: PathBuf,
}

pub fn completions_main(args: &CompletionsArgs) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "selvedge", &mut text);
    match io::stdout().lock().write_all(&text) {
        // A reader that closed the stream is no error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    Ok(ExitCode::SUCCESS)
}

pub fn manual_pages_main(args: &ManualPagesArgs) -> Result<ExitCode> {
    write_pages(&args.folder).with_context(|| format!("manual pages in {}", args.folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn write_pages(folder: &Path) -> io::Result<()> {
    let (commands, others) = (folder.join("man1"), folder.join("man7"));
    std::fs::create_dir_all(&commands)?;
    std::fs::create_dir_all(&others)?;
    clap_mangen::generate_to(command(), commands)?;
    std::fs::write(others.join("fi_selvedge.7"), provider_page())?;
    std::fs::write(others.join("selvedge-environment.7"), environment_page())
}

/// `fi_selvedge(7)`
fn provider_page() -> String {
    let own: String = VARIABLES.iter().filter(|variable| variable.group == "MPI and libfabric").map(entry).collect();
    include_str!("../../../../packaging/fi_selvedge.7")
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@VARIABLES@", own.trim_end())
}

/// `selvedge-environment(7)`
fn environment_page() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(
        ".TH selvedge-environment 7 \"\" \"Selvedge {version}\" Selvedge\n.SH NAME\nselvedge\\-environment \\- \
         variables of the environment that Selvedge reads\n.SH DESCRIPTION\nA process reads them once, when it first \
         uses the library. A malformed value is reported on standard error, and the default is used. K, M, G and T \
         after a number of bytes are powers of 1,024. \\fBselvedge info variables\\fR prints the values in force.\n"
    );
    let mut group = "";
    for variable in VARIABLES {
        if variable.group != group {
            group = variable.group;
            page.push_str(&format!(".SH {}\n", escaped(&group.to_uppercase())));
        }
        page.push_str(&entry(variable));
    }
    page.push_str(".SH SEE ALSO\n.BR selvedge (1),\n.BR fi_selvedge (7)\n");
    page
}

fn entry(variable: &Variable) -> String {
    let [name, values, default, text] = [variable.name, variable.values, variable.default, variable.text].map(escaped);
    format!(".TP\n.B {name}\n{values}; default: {default}.\n.br\n{text}\n")
}

/// Text that roff takes as it is.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// The command as the pages show it: a line for itself in each list, and no subcommand `help`.
fn command() -> Command {
    crate::Cli::command().disable_help_subcommand(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shown_subcommand_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        manual_pages_main(&ManualPagesArgs { folder: folder.path().to_owned() }).unwrap();
        let commands = folder.path().join("man1");
        for subcommand in crate::Cli::command().get_subcommands() {
            let page = commands.join(format!("selvedge-{}.1", subcommand.get_name()));
            assert_eq!(page.exists(), !subcommand.is_hide_set(), "{}", page.display());
        }
        let run = std::fs::read_to_string(commands.join("selvedge-run.1")).unwrap();
        assert!(run.contains(".SH OPTIONS") && run.contains("hosts"), "{run}");
        assert!(commands.join("selvedge-fabric-link.1").exists());
    }

    #[test]
    fn every_variable_has_an_entry() {
        let page = environment_page();
        for variable in VARIABLES {
            assert!(page.contains(&format!(".B {}\n", variable.name)), "{}", variable.name);
        }
        let provider = provider_page();
        assert!(provider.contains(".B SELVEDGE_FI_LANE_MAX\n") && !provider.contains('@'), "{provider}");
    }

    #[test]
    fn no_line_of_text_is_a_request() {
        assert_eq!(escaped(".x -1 \\"), "\\&.x \\-1 \\e");
        for line in environment_page().lines().filter(|line| line.starts_with('.')) {
            let request = line.split(' ').next().unwrap();
            assert!([".TH", ".SH", ".TP", ".B", ".br", ".BR"].contains(&request), "{line}");
        }
    }
}
