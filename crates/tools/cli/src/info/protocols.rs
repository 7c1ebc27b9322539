// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocols between two ranks started from here: which one carries how many bytes, on which way, and the variable
//! that moves each limit. The rows are those of the code and of the settings in force.

use selvedge_host::grants::GRANTED_BYTES_MAX;
use selvedge_host::packets::RING_PAYLOAD_MAX;
use selvedge_host::{Mode, Path};
use selvedge_messages::protocols::{Limits, Protocol, Protocols, Range};
use selvedge_net::PayloadWays;
use selvedge_process::settings::{HostSettings, Settings};
use selvedge_terminal::paragraph;
use serde_json::{Value, json};

use super::machine::attach_between_siblings;
use super::{bytes_text, columns, plain};

/// The provider whose frames are long, and the one whose frames are short.
const PROVIDERS: [&str; 2] = ["tcp", "tcp;ofi_rxm"];

/// One row. `to`: the longest, in bytes; `None` if there is no limit.
struct Row {
    from: usize,
    to: Option<usize>,
    protocol: &'static str,
    way: &'static str,
    setting: Option<&'static str>,
}

/// The ways between the memories of two ranks of a host.
#[derive(Clone, Copy)]
struct Ways {
    mode: Mode,
    path: Path,
    attach: bool,
}

impl Ways {
    fn here() -> Ways {
        let settings = Settings::from_environment();
        Ways { mode: settings.mode, path: settings.path, attach: attach_between_siblings().is_ok() }
    }

    /// Whether ranks run each other's NICs and reach all of each other's memory.
    fn reaches_all(self) -> bool {
        self.mode == Mode::Nic && matches!(self.path, Path::Auto | Path::Cma) && self.attach
    }

    fn maps(self) -> bool {
        self.mode.maps_peers(self.path)
    }

    /// Whether memory that is not mapped is refused.
    fn refuses(self) -> bool {
        self.mode == Mode::Nic && self.path == Path::Shared
    }
}

pub fn value() -> Value {
    value_of(Ways::here(), &Limits::from_environment(), &HostSettings::from_environment())
}

fn value_of(ways: Ways, limits: &Limits, hosts: &HostSettings) -> Value {
    let mut groups = vec![
        group("Portals and OpenSHMEM, one host, mapped memory", &mapped(ways)),
        group("Portals and OpenSHMEM, one host, other memory", &unmapped(ways)),
        group("MPI and libfabric, one host", &messages(Protocols::new(limits, ways.reaches_all(), true), one_host)),
        group("MPI and libfabric, other hosts", &messages(Protocols::elsewhere(limits), other_hosts)),
    ];
    let providers = hosts.provider.as_deref().map_or(PROVIDERS.to_vec(), |provider| vec![provider]);
    for provider in providers {
        let rows = frames(PayloadWays::over(provider, hosts.check));
        groups.push(group(&format!("payloads to other hosts, provider {provider}"), &rows));
    }
    groups.push(group("MPI over VELO and RMA (simulated)", &messages(Protocols::over_units(limits), over_units)));
    Value::Array(groups)
}

fn group(between: &str, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({"from": row.from, "to": row.to, "protocol": row.protocol, "way": row.way, "setting": row.setting})
        })
        .collect();
    json!({"between": between, "rows": rows})
}

const ALL: Row = Row { from: 0, to: None, protocol: "", way: "", setting: None };

/// Rows of two lengths: up to a limit, and beyond.
fn split(limit: usize, short: (&'static str, &'static str), long: (&'static str, &'static str)) -> Vec<Row> {
    vec![
        Row { to: Some(limit), protocol: short.0, way: short.1, ..ALL },
        Row { from: limit + 1, protocol: long.0, way: long.1, ..ALL },
    ]
}

/// Puts to symmetric memory and to memory of `selvedge_alloc`.
fn mapped(ways: Ways) -> Vec<Row> {
    if !ways.maps() {
        return unmapped(ways);
    }
    split(
        GRANTED_BYTES_MAX as usize,
        ("in place", "stored by the sender; no lock with a grant"),
        ("in place", "stored by the sender"),
    )
}

/// Puts from or to other memory.
fn unmapped(ways: Ways) -> Vec<Row> {
    if ways.refuses() {
        return vec![Row { protocol: "refused", way: "SELVEDGE_PATH=shared", ..ALL }];
    }
    if ways.reaches_all() {
        return vec![Row { protocol: "attach", way: "copied once by the kernel (cross-memory attach)", ..ALL }];
    }
    split(
        RING_PAYLOAD_MAX,
        ("packet", "through the ring of the target's NIC"),
        ("packet", "through a file in the job's directory"),
    )
}

/// The rows of a peer of the message engine.
fn messages(rows: Protocols, way: fn(&Range) -> (&'static str, &'static str)) -> Vec<Row> {
    let row = |range: &Range| {
        let (protocol, way) = way(range);
        Row { from: range.from, to: range.to, protocol, way, setting: range.setting }
    };
    rows.ranges().iter().map(row).collect()
}

fn one_host(range: &Range) -> (&'static str, &'static str) {
    match range.protocol {
        Protocol::Ring if range.is_inline => ("inline", "in a slot of the receiver's ring"),
        Protocol::Ring => ("ring", "copied into the receiver's ring"),
        Protocol::DirectElseRing => ("direct, ring", "into a posted receive if mapped, else the ring"),
        Protocol::Direct => ("direct", "into the posted receive or a buffer"),
        Protocol::Rendezvous => ("rendezvous", "into the posted receive; else fetched by it"),
        _ => over_units(range),
    }
}

fn other_hosts(range: &Range) -> (&'static str, &'static str) {
    match range.protocol {
        Protocol::Direct => ("packet", "with its payload, see below"),
        Protocol::Rendezvous => ("rendezvous", "its payload is fetched by the receive"),
        _ => one_host(range),
    }
}

fn over_units(range: &Range) -> (&'static str, &'static str) {
    match range.protocol {
        Protocol::Tiny => ("tiny", "one VELO message"),
        Protocol::Small => ("small", "VELO messages"),
        Protocol::Medium => ("medium", "copied, then a put into the receiver's memory"),
        Protocol::Long => ("long", "fetched by the receiver with gets"),
        _ => one_host(range),
    }
}

/// Payloads in frames of links.
fn frames(ways: PayloadWays) -> Vec<Row> {
    let mut rows = split(
        ways.copied_max,
        ("frame", "copied into a frame with others"),
        ("frames", "sent from the program's memory"),
    );
    match ways.read_min {
        Some(least) => {
            rows[1].to = Some(least - 1);
            rows.push(Row {
                from: least,
                protocol: "read",
                way: "read by the receiver, if the provider can read",
                ..ALL
            });
        }
        // With a check none is read.
        None => rows[1].setting = Some("SELVEDGE_NET_CHECK"),
    }
    rows
}

pub fn text(value: &Value) -> String {
    let group = |group: &Value| {
        let rows = group["rows"].as_array().into_iter().flatten();
        let rows = rows.map(|row| {
            let end = |field: &str| row[field].as_u64().map(bytes_or_kib);
            let range = match (end("from"), end("to")) {
                (Some(from), Some(to)) => format!("{from} to {to}"),
                (from, _) => format!("{} and more", from.unwrap_or_default()),
            };
            let setting = row["setting"].as_str().map_or(String::new(), |name| format!(" ({name})"));
            [range, plain(&row["protocol"]), format!("{}{setting}", plain(&row["way"]))]
        });
        paragraph(&plain(&group["between"]), 1) + &columns(rows)
    };
    value.as_array().into_iter().flatten().map(group).collect()
}

/// Bytes exactly: "2 KiB", "105 B", "2049 B".
fn bytes_or_kib(bytes: u64) -> String {
    if bytes % 1024 == 0 { bytes_text(bytes) } else { format!("{bytes} B") }
}

#[cfg(test)]
mod tests {
    use selvedge_net::Check;

    use super::*;

    const ALL_WAYS: Ways = Ways { mode: Mode::Nic, path: Path::Auto, attach: true };

    fn protocols(rows: &[Row]) -> Vec<&'static str> {
        rows.iter().map(|row| row.protocol).collect()
    }

    #[test]
    fn puts_follow_mode_path_and_kernel() {
        assert_eq!(protocols(&mapped(ALL_WAYS)), ["in place", "in place"]);
        assert_eq!(protocols(&unmapped(ALL_WAYS)), ["attach"]);
        for ways in [
            Ways { mode: Mode::Host, ..ALL_WAYS },
            Ways { path: Path::Bounce, ..ALL_WAYS },
            Ways { path: Path::Cma, attach: false, ..ALL_WAYS },
        ] {
            assert_eq!(protocols(&mapped(ways)), ["packet", "packet"]);
            assert_eq!(protocols(&unmapped(ways)), ["packet", "packet"]);
        }
        let shared = Ways { path: Path::Shared, ..ALL_WAYS };
        assert_eq!((protocols(&mapped(shared))[0], protocols(&unmapped(shared))[0]), ("in place", "refused"));
    }

    #[test]
    fn payloads_are_read_unless_they_are_checked() {
        for (provider, least) in [("tcp", (64 << 10) + 1), ("tcp;ofi_rxm", 24 << 10)] {
            let rows = frames(PayloadWays::over(provider, Check::None));
            assert_eq!(
                (protocols(&rows), rows[2].from, rows[1].to),
                (vec!["frame", "frames", "read"], least, Some(least - 1))
            );
        }
        let rows = frames(PayloadWays::over("tcp", Check::Mac));
        assert_eq!((protocols(&rows), rows[1].to), (vec!["frame", "frames"], None));
    }

    #[test]
    fn rows_follow_each_other_and_fit() {
        let value = value_of(ALL_WAYS, &Limits::from_environment(), &HostSettings::from_environment());
        for group in value.as_array().unwrap() {
            let rows = group["rows"].as_array().unwrap();
            assert!(rows[0]["from"] == 0 && rows.last().unwrap()["to"].is_null(), "{group}");
            for pair in rows.windows(2) {
                assert_eq!(pair[0]["to"].as_u64().unwrap() + 1, pair[1]["from"].as_u64().unwrap(), "{group}");
            }
            assert!(rows.iter().all(|row| row["way"] != "" && row["protocol"] != ""), "{group}");
        }
        let text = text(&value);
        assert!(
            text.lines().filter(|line| !line.contains("SELVEDGE_")).all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
}
