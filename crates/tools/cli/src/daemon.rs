// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge daemon`: the daemon of a fabric without switches (seed 002, section 2.3). It runs until a signal ends it.
//!
//! The first line on standard output is `ready`: then its socket takes requests.

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use selvedge_daemon::{File, Settings, protocol};
use selvedge_process::process::start_logging;

use crate::daemon_page::{self, PageArgs, PasswdArgs};

/// Find the hosts at this host's cables, and keep routes to all hosts behind them.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Use only this interface, or those whose names start so (`cable*`); may be given several times
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,

    /// Address of this host in the fabric; otherwise one below 10.0.0.0/8 that its name and machine id give
    #[arg(long, value_name = "IPV4")]
    address: Option<Ipv4Addr>,

    /// Seal frames between neighbours, and requests between hosts, with the key in this file, which all hosts have
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Take settings from this file; otherwise from /etc/selvedge/daemon.toml if it exists. Options win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Set `ip_forward` and `rp_filter` as the fabric needs them; otherwise a warning names them
    #[arg(long)]
    set_sysctls: bool,

    /// Socket for `selvedge fabric`; for root /run/selvedge-daemon.sock, otherwise in XDG_RUNTIME_DIR
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Folder with sensors and speeds
    #[arg(long, value_name = "FOLDER", default_value = "/sys", hide = true)]
    sysfs: PathBuf,

    #[command(flatten)]
    page: PageArgs,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Add or change a user of the page
    Passwd(PasswdArgs),
}

const AFTER_HELP: &str = "\
For hosts that are joined by cables and not by a switch: start one on each. It needs CAP_NET_ADMIN to keep routes, and observes without. \
Programs use the fabric with SELVEDGE_NET_INTERFACE=lo:selvedge. SELVEDGE_LOG=warn prints less. `selvedge manager` is another program: \
it manages aggregation nodes.

A configuration file:
  interfaces = [\"cable*\", \"eth1\"]
  address = \"10.1.0.1\"
  key = \"fabric.key\"        # beside this file
  set_sysctls = true
  web = \"127.0.0.1:7392\"    # or \"off\"
  users = \"users\"           # beside this file

The page shows the fabric in a browser. Its users are made by `selvedge daemon passwd FILE NAME viewer|operator`.";

pub fn main(args: Args) -> Result<ExitCode> {
    if let Some(Command::Passwd(given)) = &args.command {
        return daemon_page::passwd(given);
    }
    start_logging("info");
    let file = File::read(args.config.as_deref())?;
    let socket = args.socket.clone().unwrap_or_else(protocol::own_socket);
    let page = daemon_page::server(&args.page, &file, &socket)?;
    let args = Arc::new(args);
    let again = args.clone();
    let settings = Settings {
        interfaces: if args.interfaces.is_empty() { file.interfaces } else { args.interfaces.clone() },
        address: args.address.or(file.address),
        key: args.key.clone().or(file.key),
        set_sysctls: args.set_sysctls || file.set_sysctls,
        socket,
        sysfs: args.sysfs.clone(),
        read_nic: crate::registers::of_nic,
        check_start: Arc::new(move || check(&again).map_err(|error| format!("{error:#}"))),
    };
    selvedge_daemon::run(settings, || {
        if let Some(Err(error)) = page.map(selvedge_page::Server::start) {
            log::warn!("{error}");
        }
        // A closed standard output is no error, because the starter may have ended.
        let mut out = std::io::stdout();
        let _ = writeln!(out, "ready").and_then(|()| out.flush());
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Says why a daemon with these options would not start: reads its configuration, key, users and certificate.
fn check(args: &Args) -> Result<()> {
    let file = File::read(args.config.as_deref())?;
    let socket = args.socket.clone().unwrap_or_else(protocol::own_socket);
    if let Some(key) = args.key.as_ref().or(file.key.as_ref()) {
        selvedge_daemon::seal::read_keys(key)?;
    }
    daemon_page::check(&args.page, &file, &socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Whole {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_start_is_checked_with_the_files_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (config, key) = (folder.path().join("daemon.toml"), folder.path().join("key"));
        let write = |path: &PathBuf, text: &str| std::fs::write(path, text).unwrap();
        write(&config, "key = \"key\"\nweb = \"off\"\n");
        write(&key, &"k".repeat(64));
        let args = Whole::parse_from(["daemon", "--config", config.to_str().unwrap()]).args;
        check(&args).unwrap();
        write(&key, "short");
        assert!(check(&args).unwrap_err().to_string().contains("key"));
        write(&config, "interface = 7\n");
        assert!(check(&args).unwrap_err().to_string().contains("daemon.toml"));
        write(&config, "users = \"users\"\n");
        write(&folder.path().join("users"), "no user");
        let plain = ["daemon", "--config", config.to_str().unwrap(), "--web-plain", "--web", "127.0.0.1:1"];
        assert!(format!("{:#}", check(&Whole::parse_from(plain).args).unwrap_err()).contains("users"));
    }
}
