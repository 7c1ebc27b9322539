// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of `selvedge daemon`: its options, and `selvedge daemon passwd`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use selvedge_daemon::File;
use selvedge_page::{Role, Server, Settings};

const ADDRESS: &str = "127.0.0.1:7392";

/// Options of the page.
#[derive(clap::Args)]
pub struct PageArgs {
    /// Serve the manager's page here, or `off`; otherwise on 127.0.0.1:7392 if the users file exists
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = place, help_heading = "Page")]
    web: Option<Place>,

    /// Users of the page; for root /etc/selvedge/users, otherwise in ~/.config/selvedge
    #[arg(long, value_name = "FILE", help_heading = "Page")]
    users: Option<PathBuf>,

    /// Certificate of the page, as PEM; otherwise one that is made at the first start, beside the users file
    #[arg(long, value_name = "FILE", requires = "web_key", help_heading = "Page")]
    web_certificate: Option<PathBuf>,

    /// Private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "web_certificate", help_heading = "Page")]
    web_key: Option<PathBuf>,

    /// Serve the page without HTTPS, which is possible on loopback addresses only
    #[arg(long, help_heading = "Page")]
    web_plain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Off,
    At(SocketAddr),
}

fn place(text: &str) -> Result<Place, String> {
    match text {
        "off" => Ok(Place::Off),
        _ => text.parse().map(Place::At).map_err(|_| format!("give an address and a port, such as {ADDRESS}, or off")),
    }
}

/// Adds a user of the page to a file, or changes one: reads the password from the terminal, or a line from standard
/// input.
#[derive(clap::Args)]
pub struct PasswdArgs {
    /// The users file, which is made if missing
    file: PathBuf,
    /// Letters, digits, dots, dashes, underscores, @
    name: String,
    /// A viewer looks; an operator also changes links and restarts daemons
    role: RoleArg,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum RoleArg {
    Viewer,
    Operator,
}

pub fn passwd(args: &PasswdArgs) -> Result<ExitCode> {
    let password = match io::stdin().is_terminal() {
        true => {
            let first = hidden("password: ")?;
            if hidden("the same again: ")? != first {
                bail!("the two passwords differ; nothing is changed");
            }
            first
        }
        false => line()?,
    };
    let role = match args.role {
        RoleArg::Viewer => Role::Viewer,
        RoleArg::Operator => Role::Operator,
    };
    selvedge_page::set_user(&args.file, &args.name, role, &password)?;
    println!("{} is in {}; a daemon that runs takes the change at once", args.name, args.file.display());
    Ok(ExitCode::SUCCESS)
}

fn line() -> Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("cannot read the password")?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads a line that the terminal does not show.
fn hidden(prompt: &str) -> Result<String> {
    eprint!("{prompt}");
    io::stderr().flush()?;
    let before = tcgetattr(io::stdin()).context("cannot ask the terminal")?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(io::stdin(), OptionalActions::Now, &silent)?;
    let read = line();
    tcsetattr(io::stdin(), OptionalActions::Now, &before)?;
    eprintln!();
    read
}

/// The users file of root, or of this user.
fn users_default() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/etc/selvedge/users");
    }
    let folder = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let home = || Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".config");
    folder.unwrap_or_else(home).join("selvedge/users")
}

/// The settings that the options ask for, and whether an option or the file asks for the page.
fn settings(args: &PageArgs, file: &File, socket: &Path) -> Result<Option<(Settings, bool)>> {
    let users = args.users.as_ref().or(file.users.as_ref()).cloned();
    let in_file = file
        .web
        .as_deref()
        .map(place)
        .transpose()
        .map_err(|reason| anyhow!("web of the configuration file: {reason}"))?;
    let web = args.web.or(in_file);
    let is_asked = web.is_some() || users.is_some();
    let users = users.unwrap_or_else(users_default);
    let address = match web {
        Some(Place::Off) => return Ok(None),
        Some(Place::At(address)) => address,
        None if is_asked || users.exists() => ADDRESS.parse().context("address of the page")?,
        None => return Ok(None),
    };
    let settings = Settings {
        address,
        users,
        certificate: args.web_certificate.clone().zip(args.web_key.clone()),
        is_plain: args.web_plain,
        socket: socket.to_owned(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    Ok(Some((settings, is_asked)))
}

/// Says why a daemon with these options would not start because of its page.
pub fn check(args: &PageArgs, file: &File, socket: &Path) -> Result<()> {
    match settings(args, file, socket)? {
        Some((settings, true)) => Server::check(&settings).context("page"),
        _ => Ok(()),
    }
}

/// The server that the options ask for, ready to start. The default address is no reason to fail.
pub fn server(args: &PageArgs, file: &File, socket: &Path) -> Result<Option<Server>> {
    let Some((settings, is_asked)) = settings(args, file, socket)? else { return Ok(None) };
    match Server::bind(settings) {
        Ok(server) => Ok(Some(server)),
        Err(error) if is_asked => Err(error).context("page"),
        Err(error) => {
            log::warn!("page: not served: {error}");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_off_or_at_an_address() {
        assert_eq!(place("off"), Ok(Place::Off));
        assert_eq!(place("[::]:80"), Ok(Place::At("[::]:80".parse().unwrap())));
        for wrong in ["", "80", "localhost", "1.2.3.4"] {
            assert!(place(wrong).unwrap_err().contains(ADDRESS), "{wrong}");
        }
    }
}
