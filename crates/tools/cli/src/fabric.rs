// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge fabric`: asks this host's daemon about the fabric, and changes links of any host.
//!
//! * [`services`]: prints routes, loads, NICs and dumps. [`import`]: the cabling that should be. [`capture`]: packets.

mod capture;
mod import;
mod services;

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use selvedge_daemon::protocol::{
    self, Act, Answer, DumpWhat, Host, Link, LinkEnd, LinksOf, LogLine, Request, Status, TestReport, Topology,
};
use selvedge_daemon::{ask, ask_for, follow};
use selvedge_terminal::{Progress, Table, print as print_text};

use crate::fabric_check;
use crate::values::size_in;

/// Show the fabric that this host's `selvedge daemon` knows, and change its links.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    command: Command,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,

    /// Socket of the daemon
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,

    /// Ask the daemon of another host, by name or number: this host's daemon carries the request there
    #[arg(long = "at", value_name = "HOST", global = true)]
    host: Option<String>,
}

const AFTER_HELP: &str = "\
Changes and tests at another host, and restarts of its daemon, need daemons with a key (`selvedge daemon --key FILE`). \
`selvedge manager --show` is about aggregation nodes.";

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
    /// The way between two hosts: kernel routes, and the source route
    Routes {
        #[arg(value_name = "HOST")]
        from: String,
        #[arg(value_name = "HOST")]
        to: String,
    },
    /// Loads of all hosts and links over the last minutes: mean, greatest, last
    Load,
    /// NICs that processes of this host have registered, with the routes that they were given
    #[command(after_help = services::AFTER_HELP_NICS)]
    Nics {
        /// Print the counters of the links of their processes too
        #[arg(long)]
        links: bool,
    },
    /// Registers or mailboxes of a NIC that `nics` lists; or the routes of this host: kernel, sources, leases
    Dump {
        what: DumpArg,
        /// Number of the NIC
        #[arg(long, value_name = "NUMBER", required_if_eq_any([("what", "nic"), ("what", "mailbox")]))]
        nic: Option<u64>,
    },
    /// Execute a daemon anew, perhaps of a newer release; routes stay
    Restart {
        /// Otherwise this one
        host: Option<String>,
    },
    /// Compare the cables with a file: a cable that leads elsewhere gives a warning in the log
    #[command(after_help = import::AFTER_HELP)]
    Import {
        /// A topology that `selvedge fabric topology --json` has printed; no other format is read
        file: PathBuf,
    },
    Check(fabric_check::Args),
    /// Change a link of any host
    Link {
        /// The port, as `HOST:INTERFACE` or `HOST:NUMBER`; HOST may be empty
        #[arg(value_name = "HOST:PORT")]
        port: String,
        /// `up` also ends a drain; `drain`: use the link only where no other path leads
        act: ActArg,
    },
    /// Test a cable of any host: frames go to the neighbour and come back
    #[command(after_help = AFTER_HELP_TEST)]
    Test {
        /// The port, as `HOST:INTERFACE` or `HOST:NUMBER`; HOST may be empty
        #[arg(value_name = "HOST:PORT")]
        port: String,
        /// Frames to send
        #[arg(long, value_name = "N", default_value_t = 1000)]
        count: u32,
        /// Bytes of each IP packet; otherwise several sizes up to the MTU
        #[arg(long, value_name = "BYTES", value_parser = size_in(0..=u32::MAX))]
        size: Option<u32>,
        /// Frames in a second
        #[arg(long, value_name = "N", default_value_t = 500)]
        rate: u32,
    },
    /// Write the packets of a port of this host to a pcapng file
    #[command(after_help = AFTER_HELP_CAPTURE)]
    Capture {
        /// The port, as `HOST:INTERFACE` or `HOST:NUMBER`; HOST may be empty
        #[arg(value_name = "HOST:PORT")]
        port: String,
        #[arg(value_name = "FILE.pcapng")]
        file: PathBuf,
        /// End after this time: seconds, or a number with a unit (500ms, 5min)
        #[arg(long, value_name = "TIME", value_parser = crate::values::time)]
        seconds: Option<Duration>,
        /// End after this number of packets
        #[arg(long, value_name = "N")]
        frames: Option<u64>,
        /// Bytes of each packet to keep
        #[arg(long, value_name = "BYTES", default_value_t = 262_144, value_parser = size_in(1..=262_144))]
        snap: u32,
    },
}

const AFTER_HELP_CAPTURE: &str = "\
Wireshark, tshark and `tcpdump -r` read the file. The capture ends at a limit, or at Ctrl-C. It needs CAP_NET_RAW, and runs on the host that has \
the port.";

const AFTER_HELP_TEST: &str = "\
Each frame has one of the patterns zeros, ones, walking, counting and random. Counted are frames that were lost, damaged, out of order or \
doubled, for each direction. The link stays up, and carries other traffic meanwhile. Exit status: 0 without a fault, 1 with one.";

#[derive(Clone, Copy, clap::ValueEnum)]
enum ActArg {
    Up,
    Down,
    Reset,
    Drain,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DumpArg {
    Nic,
    Mailbox,
    Routes,
}

pub fn main(args: Args) -> Result<ExitCode> {
    match print(&args) {
        // A reader that closed the stream is no error.
        Err(error) if error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == ErrorKind::BrokenPipe) => {
            Ok(ExitCode::SUCCESS)
        }
        printed => printed,
    }
}

fn print(args: &Args) -> Result<ExitCode> {
    let socket = args.socket.clone().unwrap_or_else(|| {
        let own = protocol::own_socket();
        if own.exists() { own } else { protocol::SYSTEM_SOCKET.into() }
    });
    let request = match &args.command {
        Command::Status => Request::Status,
        Command::Hosts => Request::Hosts,
        Command::Links => Request::Links,
        Command::Topology { .. } => Request::Topology,
        Command::Check(check) => return fabric_check::main(check, args.json),
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
        Command::Routes { from, to } => Request::Routes { from: from.clone(), to: to.clone() },
        Command::Load => Request::Load,
        Command::Nics { links } => Request::Nics { links: if *links { LinksOf::All } else { LinksOf::None } },
        Command::Dump { what, nic } => {
            let what = match what {
                DumpArg::Nic => DumpWhat::Nic,
                DumpArg::Mailbox => DumpWhat::Mailbox,
                DumpArg::Routes => DumpWhat::Routes,
            };
            Request::Dump { what, nic: *nic }
        }
        Command::Restart { .. } => Request::Restart,
        Command::Import { file } => {
            let told = import::main(&socket, file)?;
            if args.json {
                crate::json::print(&told)?;
            } else {
                print_text(
                    &told.iter().map(|told| format!("{}: {} cables\n", told.host, told.cables)).collect::<String>(),
                )?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        Command::Test { port, count, size, rate } => {
            Request::Test { port: port.clone(), count: *count, size: *size, rate: *rate }
        }
        Command::Capture { port, file, seconds, frames, snap } => {
            let limits = capture::Limits { seconds: *seconds, frames: *frames, snap: *snap };
            return capture_port(&socket, port, file, &limits, args.json);
        }
    };
    let request = match at(args) {
        Some(host) => Request::At { host, request: Box::new(request) },
        None => request,
    };
    let dot = matches!(args.command, Command::Topology { dot: true });
    let mut out = io::stdout().lock();
    if matches!(args.command, Command::Log { follow: true }) {
        let mut written = Ok(());
        let request = match at(args) {
            Some(host) => Request::At { host, request: Box::new(Request::Log { follow: true }) },
            None => Request::Log { follow: true },
        };
        follow(&socket, &request, |answer| {
            written = show(&mut out, &answer, args.json, dot).and_then(|()| Ok(out.flush()?));
            written.is_ok()
        })?;
        return written.map(|()| ExitCode::SUCCESS);
    }
    let time = Duration::from_secs(request.seconds());
    let progress = if time.is_zero() { Progress::hidden() } else { Progress::work() };
    progress.say(format!("frames go to the neighbour and come back, for {} s", time.as_secs()));
    let answer = ask_for(&socket, &request, time)?;
    drop(progress);
    show(&mut out, &answer, args.json, dot)?;
    let has_fault = matches!(&answer, Answer::Tested(report) if !report.is_clean());
    Ok(if has_fault { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn capture_port(socket: &Path, port: &str, file: &Path, limits: &capture::Limits, json: bool) -> Result<ExitCode> {
    let Answer::Status(status) = ask(socket, &Request::Status)? else {
        bail!("the daemon's answer is of another kind")
    };
    let interface = &status.port_named(port).map_err(anyhow::Error::msg)?.interface;
    let captured = capture::capture(interface, file, limits, || {
        eprintln!("captures {interface}; Ctrl-C ends it");
    })?;
    let capture::Captured { frames, bytes, dropped, .. } = &captured;
    let mut out = io::stdout().lock();
    match json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&captured)?)?,
        false => {
            writeln!(
                out,
                "{interface}: {frames} packets, {bytes} bytes, {dropped} dropped by the kernel, in {}",
                file.display()
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The host whose daemon is to answer; None: this one.
fn at(args: &Args) -> Option<String> {
    let named = match &args.command {
        Command::Link { port, .. } | Command::Test { port, .. } => {
            port.split_once(':').map(|(host, _)| host.to_owned())
        }
        Command::Restart { host } => host.clone(),
        _ => None,
    };
    named.filter(|host| !host.is_empty()).or_else(|| args.host.clone())
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
        Answer::Route(route) if json => writeln!(out, "{}", serde_json::to_string_pretty(route)?)?,
        Answer::Load(series) if json => writeln!(out, "{}", serde_json::to_string_pretty(series)?)?,
        Answer::Nics(nics) if json => writeln!(out, "{}", serde_json::to_string_pretty(nics)?)?,
        Answer::Dump(dump) if json => writeln!(out, "{:#}", dump.value)?,
        Answer::Tested(report) if json => writeln!(out, "{}", serde_json::to_string_pretty(report)?)?,
        Answer::Tested(report) => show_test(out, report)?,
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
        Answer::Route(route) => services::show_route(out, route)?,
        Answer::Load(series) => services::show_load(out, series)?,
        Answer::Nics(nics) => services::show_nics(out, nics)?,
        Answer::Dump(dump) => write!(out, "{}", dump.text)?,
        Answer::Done(text) => writeln!(out, "{text}")?,
        Answer::Registered { .. } | Answer::Lease(_) | Answer::Withdrawn { .. } => bail!("the answer is for a process"),
        Answer::Refused(reason) => bail!("{reason}"),
    }
    Ok(())
}

fn show_table(out: &mut impl Write, table: &Table) -> io::Result<()> {
    out.write_all(table.text().as_bytes())
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
    let mut ports =
        Table::new(&[">port", "interface", "state", "neighbour", ">mtu", ">round trip us", ">drops", ">refused"]);
    for port in &status.ports {
        let other = port.neighbour.as_ref().zip(port.neighbour_port);
        ports.row([
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
    let mut rows = Table::new(&["host", "number", "address", ">hops", "via", ">mtu", ">cpu %", ">C"]);
    for host in hosts {
        rows.row([
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
    let us = |end: &LinkEnd| end.round_trip_us.map_or(String::new(), |us| format!("{us:.0}"));
    let queue = |end: &LinkEnd| end.queue_bytes.map_or(String::new(), |bytes| bytes.to_string());
    let both = |of: &dyn Fn(&LinkEnd) -> String, [a, b]: &[LinkEnd; 2]| match (of(a), of(b)) {
        (a, b) if a.is_empty() && b.is_empty() => String::new(),
        (a, b) => format!("{a} {b}"),
    };
    let mut rows =
        Table::new(&["end", "end", ">mtu", ">B/s ->", ">B/s <-", "round trips us", "queues B", ">errors", ""]);
    for link in links {
        let [a, b] = &link.ends;
        rows.row([
            end(a),
            end(b),
            link.mtu.to_string(),
            sent(a),
            sent(b),
            both(&us, &link.ends),
            both(&queue, &link.ends),
            (u32::from(a.errors.unwrap_or(0)) + u32::from(b.errors.unwrap_or(0))).to_string(),
            if link.is_drained { "drained".into() } else { String::new() },
        ]);
    }
    show_table(out, &rows)
}

fn show_test(out: &mut impl Write, report: &TestReport) -> io::Result<()> {
    let TestReport { interface, neighbour, sent, returned, seconds, .. } = report;
    writeln!(out, "{interface} to {neighbour}: {returned} of {sent} frames came back, {seconds:.1} s")?;
    let mut ways = Table::new(&["", ">lost", ">damaged", ">out of order", ">doubled"]);
    let there = report.there.as_ref().map(|there| ("there", there));
    for (name, way) in
        there.into_iter().chain([(if there.is_some() { "back" } else { "there and back" }, &report.back)])
    {
        let counts = [way.lost, way.damaged, way.disordered, way.duplicates];
        ways.row([name.to_owned()].into_iter().chain(counts.map(|count| count.to_string())));
    }
    show_table(out, &ways)?;
    if there.is_none() {
        writeln!(out, "{neighbour} has not told what arrived there")?;
    }
    let mut rows = Table::new(&["frames", ">sent", ">lost", ">damaged"]);
    for row in &report.sizes {
        rows.row([format!("{} bytes", row.size), row.sent.to_string(), row.lost.to_string(), row.damaged.to_string()]);
    }
    for row in &report.patterns {
        rows.row([row.pattern.clone(), row.sent.to_string(), row.lost.to_string(), row.damaged.to_string()]);
    }
    writeln!(out)?;
    show_table(out, &rows)?;
    writeln!(out)?;
    if let Some(times) = report.round_trip_us {
        let mut rows = Table::new(&["round trip us", ">min", ">50 %", ">90 %", ">99 %", ">99.9 %", ">max"]);
        let times = [times.min, times.p50, times.p90, times.p99, times.p999, times.max];
        rows.row([String::new()].into_iter().chain(times.map(|us| format!("{us:.0}"))));
        show_table(out, &rows)?;
    }
    if report.falls > 0 {
        writeln!(out, "the link fell meanwhile: {} times", report.falls)?;
    }
    if report.interface_errors > 0 {
        writeln!(
            out,
            "{interface} has refused {} wrong frames meanwhile, which count as lost",
            report.interface_errors
        )?;
    }
    Ok(())
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
            round_trip_us: None,
            queue_bytes: None,
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
