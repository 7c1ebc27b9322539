// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric as Prometheus text, version 0.0.4.
//!
//! Values of hosts and links are of the whole fabric, those of ports and processes of this host. So one daemon is enough
//! for hosts and links, and each has its own ports and processes.
//!
//! Invariant: the series of processes are bounded: at most [`PROCESSES_MAX`] processes with three ways each. A series is
//! of one process, so its counters only grow, as long as it exists.
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use selvedge_daemon::protocol::{Host, Link, LinkEnd, NicView, PortView, Status, Topology, WayTotal};

/// Processes whose links have series: those that have registered first.
const PROCESSES_MAX: usize = 256;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counts of the page itself.
pub struct OfPage {
    pub logins_refused: u64,
    pub acts: u64,
}

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) -> Family<'_> {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { text: &mut self.0, name: name.to_owned() }
    }
}

struct Family<'a> {
    text: &'a mut String,
    name: String,
}

impl Family<'_> {
    fn value(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(&self.name);
        for (at, (label, of)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"{}\"", if at == 0 { '{' } else { ',' }, escaped(of));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// All metrics.
pub fn text(topology: &Topology, status: &Status, nics: &[NicView], page: &OfPage) -> String {
    let mut text = Text(String::new());
    of_fabric(&mut text, topology, status, page);
    of_hosts(&mut text, &topology.hosts);
    of_links(&mut text, &topology.links);
    of_ports(&mut text, &status.ports);
    of_processes(&mut text, nics);
    text.0
}

fn of_fabric(text: &mut Text, topology: &Topology, status: &Status, page: &OfPage) {
    let gauges: [(&str, &str, f64); 5] = [
        ("selvedge_fabric_hosts", "Hosts of the fabric.", topology.hosts.len() as f64),
        ("selvedge_fabric_links", "Links of the fabric that are up at both ends.", topology.links.len() as f64),
        ("selvedge_fabric_settled", "1 if the neighbours have acknowledged all.", f64::from(status.is_settled)),
        ("selvedge_daemon_routes", "Routes that this host's daemon keeps in the kernel.", status.routes as f64),
        ("selvedge_daemon_uptime_seconds", "Time since the start of this host's daemon.", status.uptime_s),
    ];
    for (name, help, value) in gauges {
        text.family(name, "gauge", help).value(&[], value);
    }
    let counters = [
        (
            "selvedge_page_logins_refused_total",
            "Attempts to log in with a wrong name or password.",
            page.logins_refused,
        ),
        ("selvedge_page_acts_total", "Acts of operators.", page.acts),
    ];
    for (name, help, value) in counters {
        text.family(name, "counter", help).value(&[], value);
    }
}

fn of_hosts(text: &mut Text, hosts: &[Host]) {
    let mut family = |name: &str, help: &str, of: &dyn Fn(&Host) -> Option<f64>| {
        let mut family = text.family(name, "gauge", help);
        for host in hosts {
            if let Some(value) = of(host) {
                family.value(&[("host", &host.name), ("id", &host.host)], value);
            }
        }
    };
    family("selvedge_host_hops", "Links on the way from this host.", &|host| host.hops.map(|hops| hops as f64));
    family("selvedge_host_processor_ratio", "Load of a host's processors.", &|host| {
        host.processor_percent.map(|percent| percent / 100.0)
    });
    family("selvedge_host_temperature_celsius", "The highest of a host's sensors.", &|host| host.temperature_c);
}

fn of_links(text: &mut Text, links: &[Link]) {
    let mut family = |name: &str, help: &str, of: &dyn Fn(&LinkEnd) -> Option<f64>| {
        let mut family = text.family(name, "gauge", help);
        for link in links {
            let [a, b] = &link.ends;
            for (from, to) in [(a, b), (b, a)] {
                let (port, to_port) = (from.port.to_string(), to.port.to_string());
                let labels = [
                    ("host", from.name.as_str()),
                    ("id", &from.host),
                    ("port", &port),
                    ("to_host", &to.name),
                    ("to_id", &to.host),
                    ("to_port", &to_port),
                ];
                if let Some(value) = of(from) {
                    family.value(&labels, value);
                }
            }
        }
    };
    family("selvedge_link_sent_bytes_per_second", "Bytes that an end of a link sends each second.", &|end| {
        end.sent_bytes_s.map(|bytes| bytes as f64)
    });
    family("selvedge_link_load_ratio", "Load of the busier direction, where the speed is known.", &|end| {
        end.load_percent.map(|percent| percent / 100.0)
    });
    family("selvedge_link_errors_per_second", "Errors of an end within the last second.", &|end| {
        end.errors.map(f64::from)
    });
    family("selvedge_link_round_trip_seconds", "Round trip between the daemons of a link.", &|end| {
        end.round_trip_us.map(|us| us / 1e6)
    });
    family("selvedge_link_queue_bytes", "Bytes that wait at an end.", &|end| end.queue_bytes.map(|bytes| bytes as f64));
}

/// A count of a port.
type Count = fn(&PortView) -> u64;

fn of_ports(text: &mut Text, ports: &[PortView]) {
    let mut family = |name: &str, kind: &str, help: &str, of: &dyn Fn(&PortView) -> u64| {
        let mut family = text.family(name, kind, help);
        for port in ports {
            let number = port.port.to_string();
            family.value(&[("port", &number), ("interface", &port.interface)], of(port));
        }
    };
    family("selvedge_port_up", "gauge", "1 if a port's link is up.", &|port| u64::from(port.state == "up"));
    family("selvedge_port_drained", "gauge", "1 if an operator has drained a port.", &|port| port.is_drained.into());
    let counters: [(&str, &str, Count); 6] = [
        ("selvedge_port_frames_sent_total", "Frames that the daemon has sent.", |port| port.frames_sent),
        ("selvedge_port_frames_received_total", "Frames that the daemon has taken.", |port| port.frames_received),
        ("selvedge_port_frames_refused_total", "Frames that were wrong or not authentic.", |port| {
            port.frames_refused + port.replays
        }),
        ("selvedge_port_hellos_lost_total", "Hellos that have not arrived.", |port| port.hellos_lost),
        ("selvedge_port_repeats_total", "Announcements that were sent again.", |port| port.repeats),
        ("selvedge_port_drops_total", "Times that the link has fallen.", |port| port.drops),
    ];
    for (name, help, of) in counters {
        family(name, "counter", help, &of);
    }
}

/// Counters of the links of processes: names here, and in the daemon's answer.
const COUNTERS: [(&str, &str, &str); 16] = [
    ("puts", "puts", "Puts to peers."),
    ("gets", "gets", "Gets from peers."),
    ("atomics", "atomics", "Atomics at peers."),
    ("messages", "messages", "Messages and packets to peers."),
    ("sent_bytes", "bytes_out", "Payload that was sent to peers or written there."),
    ("received_bytes", "bytes_in", "Payload that was read from peers or has come from other hosts."),
    ("internal", "internal", "Accesses of the library itself to memory of peers."),
    ("internal_bytes", "internal_bytes", "Bytes of these accesses."),
    ("received_packets", "packets_in", "Packets that have come from other hosts."),
    ("sent_frames", "frames_out", "Frames to other hosts, repetitions included."),
    ("sent_frame_bytes", "frame_bytes_out", "Bytes of these frames."),
    ("received_frames", "frames_in", "Frames from other hosts."),
    ("received_frame_bytes", "frame_bytes_in", "Bytes of these frames."),
    ("repeats", "repeats", "Frames that were sent again."),
    ("damaged", "damaged", "Frames whose check failed."),
    ("unordered", "unordered", "Frames that came again, or before an earlier one."),
];

/// Job, rank, process and user.
type Process = [String; 4];

/// The labels of a series of a process's links.
fn labels<'a>(of: &'a Process, way: &'a str) -> [(&'a str, &'a str); 5] {
    let [job, rank, process, user] = of;
    [("job", job), ("rank", rank), ("process", process), ("user", user), ("way", way)]
}

fn of_processes(text: &mut Text, nics: &[NicView]) {
    let seen = nics.iter().filter_map(|nic| Some((nic, nic.links.as_ref()?)));
    let (mut unseen, mut rows): (u64, BTreeMap<(Process, &str), &WayTotal>) = (0, BTreeMap::new());
    for (at, (nic, links)) in seen.enumerate() {
        if at >= PROCESSES_MAX || links.unseen.is_some() {
            unseen += 1;
            continue;
        }
        let rank = nic.rank.map_or(String::new(), |rank| rank.to_string());
        let process = [nic.job.clone().unwrap_or_default(), rank, nic.process.to_string(), nic.user.to_string()];
        for total in &links.totals {
            // Two processes of different PID namespaces may have one number: the first one has the series.
            rows.entry((process.clone(), total.way.as_str())).or_insert(total);
        }
    }
    text.family("selvedge_process_links_unseen", "gauge", "Processes of this host whose links have no series here.")
        .value(&[], unseen);
    let mut family = |name: &str, kind: &str, help: &str, of: &dyn Fn(&WayTotal) -> Option<f64>| {
        let mut family = text.family(&format!("selvedge_process_{name}"), kind, help);
        for ((process, way), total) in &rows {
            if let Some(value) = of(total) {
                family.value(&labels(process, way), value);
            }
        }
    };
    family("links", "gauge", "Links of a process with peers.", &|total| Some(total.links as f64));
    for (name, counter, help) in COUNTERS {
        let of = |total: &WayTotal| Some(*total.counters.get(counter)? as f64);
        family(&format!("{name}_total"), "counter", help, &of);
    }
    let of =
        |counter: &'static str, scale: f64| move |total: &WayTotal| Some(*total.counters.get(counter)? as f64 / scale);
    let gauges = [
        ("queue_bytes", "queue_bytes", 1.0, "Bytes that wait for a frame."),
        ("queue_packets", "queue_packets", 1.0, "Packets that wait for a frame."),
        ("frames_in_flight", "in_flight", 1.0, "Frames on the way."),
        ("round_trip_seconds", "round_trip_ns", 1e9, "The longest round trip of a process's links."),
    ];
    for (name, counter, scale, help) in gauges {
        family(name, "gauge", help, &of(counter, scale));
    }
    let mut states = text.family("selvedge_process_link_states", "gauge", "Links to other hosts in each state.");
    for ((process, way), total) in &rows {
        for (state, &links) in &total.states {
            let [job, rank, process, user, way] = labels(process, way);
            states.value(&[job, rank, process, user, way, ("state", state)], links);
        }
    }
}
