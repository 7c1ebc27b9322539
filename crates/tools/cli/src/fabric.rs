// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge fabric`: asks this host's daemon about the fabric, and changes this host's links.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use selvedge_daemon::protocol::{self, Act, Answer, Host, Link, LinkEnd, LogLine, Request, Status, Topology};
use selvedge_daemon::{ask, follow};

use crate::fabric_check;

/// Show the fabric that this host's `selvedge daemon` knows, and change this host's links.
#[derive(clap::Args)]
#[command(after_help = "`selvedge manager --show` is about aggregation nodes.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,

    /// Socket of the daemon
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// This host and its ports
    Status,
    /// All hosts: address, way, load
    Hosts,
    /// All links: ends, bytes per second, errors
    Links,
    /// Hosts and links together
    Topology {
        /// Print a graph for Graphviz
        #[arg(long, conflicts_with = "json")]
        dot: bool,
    },
    /// Events of this host, the last 1,000
    Log {
        /// Print new ones as they come
        #[arg(short, long)]
        follow: bool,
    },
    Check(fabric_check::Args),
    /// Change a link of this host
    Link {
        /// The port, as `HOST:INTERFACE` or `HOST:NUMBER`; HOST may be empty
        #[arg(value_name = "HOST:PORT")]
        port: String,
        /// `up` also ends a drain; `drain`: use the link only where no other path leads
        act: ActArg,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ActArg {
    Up,
    Down,
    Reset,
    Drain,
}

pub fn main(args: Args) -> Result<ExitCode> {
    if let Command::Check(check) = &args.command {
        return fabric_check::main(check, args.json);
    }
    match print(&args) {
        // A reader that closed the stream is no error.
        Err(error) if error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == ErrorKind::BrokenPipe) => {}
        printed => printed?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print(args: &Args) -> Result<()> {
    let socket = args.socket.clone().unwrap_or_else(|| {
        let own = protocol::own_socket();
        if own.exists() { own } else { protocol::SYSTEM_SOCKET.into() }
    });
    let request = match &args.command {
        Command::Status => Request::Status,
        Command::Hosts => Request::Hosts,
        Command::Links => Request::Links,
        Command::Topology { .. } => Request::Topology,
        Command::Check(_) => return Ok(()),
        Command::Log { .. } => Request::Log { follow: false },
        Command::Link { port, act } => {
            let act = match act {
                ActArg::Up => Act::Up,
                ActArg::Down => Act::Down,
                ActArg::Reset => Act::Reset,
                ActArg::Drain => Act::Drain,
            };
            Request::Link { port: port.clone(), act }
        }
    };
    let dot = matches!(args.command, Command::Topology { dot: true });
    let mut out = io::stdout().lock();
    if matches!(args.command, Command::Log { follow: true }) {
        let mut written = Ok(());
        follow(&socket, |answer| {
            written = show(&mut out, &answer, args.json, dot).and_then(|()| Ok(out.flush()?));
            written.is_ok()
        })?;
        return written;
    }
    show(&mut out, &ask(&socket, &request)?, args.json, dot)
}

fn show(out: &mut impl Write, answer: &Answer, json: bool, dot: bool) -> Result<()> {
    match answer {
        // A line for each, so that a log can be followed.
        Answer::Log(lines) if json => {
            lines
                .iter()
                .try_for_each(|line| Ok::<_, anyhow::Error>(writeln!(out, "{}", serde_json::to_string(line)?)?))?;
        }
        Answer::Status(status) if json => writeln!(out, "{}", serde_json::to_string_pretty(status)?)?,
        Answer::Hosts(hosts) if json => writeln!(out, "{}", serde_json::to_string_pretty(hosts)?)?,
        Answer::Links(links) if json => writeln!(out, "{}", serde_json::to_string_pretty(links)?)?,
        Answer::Topology(topology) if json => writeln!(out, "{}", serde_json::to_string_pretty(topology)?)?,
        Answer::Done(text) if json => writeln!(out, "{}", serde_json::json!({ "done": text }))?,
        Answer::Status(status) => show_status(out, status)?,
        Answer::Hosts(hosts) => show_hosts(out, hosts)?,
        Answer::Links(links) => show_links(out, links)?,
        Answer::Topology(topology) if dot => show_dot(out, topology)?,
        Answer::Topology(topology) => {
            writeln!(out, "map {}", topology.digest)?;
            show_hosts(out, &topology.hosts)?;
            writeln!(out)?;
            show_links(out, &topology.links)?;
        }
        Answer::Log(lines) => lines.iter().try_for_each(|line| show_line(out, line))?,
        Answer::Done(text) => writeln!(out, "{text}")?,
        Answer::Refused(reason) => bail!("{reason}"),
    }
    Ok(())
}

fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(header.iter().copied());
    table
}

fn show_table(out: &mut impl Write, table: &comfy_table::Table) -> io::Result<()> {
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

fn show_status(out: &mut impl Write, status: &Status) -> io::Result<()> {
    let or_none = |address: Option<std::net::IpAddr>| address.map_or("none".to_owned(), |address| address.to_string());
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    writeln!(out, "{}: host {}, address {}", status.name, status.host, or_none(status.address))?;
    writeln!(
        out,
        "map {}: {}, {}{}",
        status.digest,
        plural(status.hosts, "host"),
        plural(status.links, "link"),
        if status.is_settled { "" } else { ", changing" }
    )?;
    match status.keeps_routes {
        true => writeln!(out, "{} in table 7391", plural(status.routes, "route"))?,
        false => writeln!(out, "observes only: without CAP_NET_ADMIN it keeps no routes")?,
    }
    writeln!(out, "frames are {}", if status.is_sealed { "sealed" } else { "not sealed" })?;
    let mut ports = table(&["port", "interface", "state", "neighbour", "mtu", "round trip us", "drops", "refused"]);
    for port in &status.ports {
        let other = port.neighbour.as_ref().zip(port.neighbour_port);
        ports.add_row([
            port.port.to_string(),
            port.interface.clone(),
            format!("{}{}", port.state, if port.is_drained { ", drained" } else { "" }),
            other.map_or(String::new(), |(name, port)| format!("{name}:{port}")),
            port.mtu.map_or(String::new(), |mtu| mtu.to_string()),
            port.round_trip_us.map_or(String::new(), |us| format!("{us:.0}")),
            port.drops.to_string(),
            (port.frames_refused + port.replays).to_string(),
        ]);
    }
    writeln!(out)?;
    show_table(out, &ports)
}

fn show_hosts(out: &mut impl Write, hosts: &[Host]) -> io::Result<()> {
    let mut rows = table(&["host", "number", "address", "hops", "via", "mtu", "cpu %", "C"]);
    for host in hosts {
        rows.add_row([
            format!("{}{}", host.name, if host.is_self { " (this)" } else { "" }),
            host.host.clone(),
            host.address.map_or(String::new(), |address| address.to_string()),
            host.hops.map_or(String::new(), |hops| hops.to_string()),
            host.via.clone().unwrap_or_default(),
            host.mtu.map_or(String::new(), |mtu| mtu.to_string()),
            host.processor_percent.map_or(String::new(), |percent| format!("{percent:.0}")),
            host.temperature_c.map_or(String::new(), |degrees| format!("{degrees:.0}")),
        ]);
    }
    show_table(out, &rows)
}

fn show_links(out: &mut impl Write, links: &[Link]) -> io::Result<()> {
    let end = |end: &LinkEnd| match &end.interface {
        Some(interface) => format!("{}:{} ({interface})", end.name, end.port),
        None => format!("{}:{}", end.name, end.port),
    };
    let sent = |end: &LinkEnd| {
        let percent = end.load_percent.map_or(String::new(), |percent| format!(" ({percent:.0} %)"));
        end.sent_bytes_s.map_or(String::new(), |bytes| format!("{bytes}{percent}"))
    };
    let mut rows = table(&["end", "end", "mtu", "B/s ->", "B/s <-", "errors", ""]);
    for link in links {
        let [a, b] = &link.ends;
        rows.add_row([
            end(a),
            end(b),
            link.mtu.to_string(),
            sent(a),
            sent(b),
            (u32::from(a.errors.unwrap_or(0)) + u32::from(b.errors.unwrap_or(0))).to_string(),
            if link.is_drained { "drained".into() } else { String::new() },
        ]);
    }
    show_table(out, &rows)
}

fn show_line(out: &mut impl Write, line: &LogLine) -> Result<()> {
    let mark = if line.is_warning { "warning: " } else { "" };
    Ok(writeln!(out, "{} {mark}{}", time_of_day(line.at_s), line.text)?)
}

/// The date and time of the day in UTC.
fn time_of_day(at_s: f64) -> String {
    let milliseconds = (at_s * 1000.0) as i64;
    let (days, rest) = (milliseconds.div_euclid(86_400_000), milliseconds.rem_euclid(86_400_000));
    // Days since 1 March of the year 0, in eras of 400 years.
    let from_march = days + 719_468;
    let (era, day) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month < 10 {
        true => (era * 400 + year, month + 3),
        false => (era * 400 + year + 1, month - 9),
    };
    let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
    let (seconds, thousandths) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}.{thousandths:03}")
}

/// Quoted for Graphviz.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn show_dot(out: &mut impl Write, topology: &Topology) -> io::Result<()> {
    writeln!(out, "graph fabric {{")?;
    for host in &topology.hosts {
        writeln!(out, "    {} [label={}];", quoted(&host.host), quoted(&host.name))?;
    }
    for link in &topology.links {
        let [a, b] = &link.ends;
        let style = if link.is_drained { ", style=dashed" } else { "" };
        let (from, to) = (quoted(&a.host), quoted(&b.host));
        writeln!(out, "    {from} -- {to} [taillabel={}, headlabel={}{style}];", a.port, b.port)?;
    }
    writeln!(out, "}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_day() {
        assert_eq!(time_of_day(0.0), "1970-01-01 00:00:00.000");
        assert_eq!(time_of_day(951_868_799.5), "2000-02-29 23:59:59.500");
        assert_eq!(time_of_day(1_709_251_200.0), "2024-03-01 00:00:00.000");
        assert_eq!(time_of_day(1_735_689_599.999), "2024-12-31 23:59:59.999");
    }

    #[test]
    fn graphs_quote_names() {
        let host = |name: &str, host: &str| Host {
            name: name.into(),
            host: host.into(),
            address: None,
            is_self: false,
            hops: None,
            via: None,
            mtu: None,
            processor_percent: None,
            temperature_c: None,
        };
        let end = |host: &str, port| LinkEnd {
            name: String::new(),
            host: host.into(),
            port,
            interface: None,
            sent_bytes_s: None,
            load_percent: None,
            errors: None,
        };
        let link = Link { ends: [end("1", 0), end("2", 3)], mtu: 1500, is_drained: true };
        let hosts = vec![host("a\"b\\", "1"), host("c", "2")];
        let topology = Topology { digest: String::new(), hosts, links: vec![link] };
        let mut out = Vec::new();
        show_dot(&mut out, &topology).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(r#"    "1" [label="a\"b\\"];"#), "{text}");
        assert!(text.contains(r#"    "1" -- "2" [taillabel=0, headlabel=3, style=dashed];"#), "{text}");
    }
}
