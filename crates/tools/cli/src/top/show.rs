// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats a snapshot as a table and as JSON.
//!
//! Invariant: text from other processes (job names, programs, file names) is printed without control characters.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use selvedge_host::inspect::Inspection;
use selvedge_nic::Register;
use selvedge_nic::registers::COUNT;
use selvedge_nic::tables::{BlockedHead, blocked};
use serde_json::{Map, Value, json};

use selvedge_host::snapshot::{JobSnapshot, NicSnapshot, Rates, Snapshot, printable};

/// Column heads, in the order of [`row`].
const COLUMNS: [&str; 19] = [
    "rank", "pid", "os pid", "ni", "state", "mode", "recv/s", "B in/s", "B out/s", "match", "unexp", "drop", "fired",
    "flow", "packets", "sleep", "ops/s", "ops", "job",
];
const TEXT_COLUMNS: [usize; 4] = [3, 4, 5, 18];

/// The jobs, a table, and the refused files.
pub fn text(snapshot: &Snapshot, table: &str) -> String {
    let mut lines = vec![summary(snapshot)];
    lines.extend(snapshot.jobs.iter().map(job_line));
    if snapshot.nic_count() > 0 {
        lines.push(String::new());
        lines.extend(table.lines().map(|line| line.trim_end().to_owned()));
    }
    for job in &snapshot.jobs {
        lines.extend(job.nics.iter().filter_map(|nic| blocked_line(&nic.seen)));
        let refused = job.refused.iter().map(|refused| format!("{}/{}: {}", job.name, refused.file, refused.why));
        lines.extend(refused.map(|line| printable(&line)));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Messages of a NIC without a destination, and the last of them.
fn blocked_line(seen: &Inspection) -> Option<String> {
    let last = seen.blocked.last().filter(|_| seen.blocked_count != 0)?;
    let (count, why) = (seen.blocked_count, why_blocked(last));
    Some(format!(
        "NIC {}.{}: {count} messages found no destination; the last, {} bytes from process {} to port {} of process {}: {why}",
        seen.rank, seen.ni, last.length, last.source as u32, last.port, last.target as u32
    ))
}

fn why_blocked(head: &BlockedHead) -> &'static str {
    match head.why {
        blocked::CLOSED => "the port is closed",
        blocked::DEAD => "the process has ended",
        blocked::UNREAD => "the port was closed before it was read",
        _ => "corrupt",
    }
}

fn summary(snapshot: &Snapshot) -> String {
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!("{}, {}", plural(snapshot.jobs.len(), "job"), plural(snapshot.nic_count(), "NIC"))
}

fn job_line(job: &JobSnapshot) -> String {
    let about = match &job.record {
        Some(record) => {
            let gone = if job.launcher_alive { "" } else { ", which is gone" };
            format!("{} x {}, launcher {}{gone}", record.size, record.program, record.launcher.pid)
        }
        None => "no launcher of ours".to_owned(),
    };
    printable(&format!("  {}: {about}", job.name))
}

/// An empty table with these heads. The columns of these numbers hold text, the others numbers.
pub fn empty_table(heads: &[&str], text_columns: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(heads);
    for (at, column) in table.column_iter_mut().enumerate() {
        let text = text_columns.contains(&at);
        column.set_cell_alignment(if text { CellAlignment::Left } else { CellAlignment::Right });
        column.set_padding((0, 1));
    }
    table
}

/// A row for each NIC.
pub fn table(snapshot: &Snapshot, rates: &Rates) -> String {
    let mut table = empty_table(&COLUMNS, &TEXT_COLUMNS);
    for (job, nic) in snapshot.jobs.iter().flat_map(|job| job.nics.iter().map(move |nic| (job, nic))) {
        table.add_row(row(job, nic, rates));
    }
    table.to_string()
}

fn row(job: &JobSnapshot, nic: &NicSnapshot, rates: &Rates) -> [String; COLUMNS.len()] {
    let rate = |register| rates.per_second(job, nic, register).map_or("-".to_owned(), short);
    let seen = &nic.seen;
    let count = |register| short(seen.register(register) as f64);
    [
        seen.rank.to_string(),
        seen.pid.to_string(),
        seen.owner.pid.to_string(),
        format!("{} {} {}", seen.ni, if nic.is_matching() { "me" } else { "le" }, addressing(nic)),
        nic.state().to_owned(),
        nic.mode().to_owned(),
        rate(Register::Requests),
        rate(Register::BytesIn),
        rate(Register::BytesOut),
        short(matched(nic) as f64),
        seen.unexpected.to_string(),
        count(Register::Dropped),
        count(Register::TriggeredFired),
        count(Register::FlowControl),
        seen.packets_waiting.to_string(),
        seen.sleepers.to_string(),
        rates.operations(job, nic).map_or("-".to_owned(), short),
        short(job.links_of(nic).map(|(_, _, link)| link.operations()).fold(0, u64::wrapping_add) as f64),
        printable(&job.name),
    ]
}

fn addressing(nic: &NicSnapshot) -> &'static str {
    if nic.is_logical() { "log" } else { "phys" }
}

/// Number of messages that matched an entry of either list.
fn matched(nic: &NicSnapshot) -> u64 {
    nic.seen.register(Register::MatchedPriority).wrapping_add(nic.seen.register(Register::MatchedOverflow))
}

/// A number in at most five characters, up to 10^15: "999", "9.99k", "123M".
pub fn short(value: f64) -> String {
    let units = ["", "k", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (value, 0);
    // 999.5 would be printed as 1000.
    while value >= 999.5 && unit + 1 < units.len() {
        (value, unit) = (value / 1000.0, unit + 1);
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{}", units[unit])
}

/// One record for each NIC, with the links of its process, and for each refused file.
pub fn json(snapshot: &Snapshot, rates: &Rates) -> Value {
    let mut records = Vec::new();
    for job in &snapshot.jobs {
        records.extend(job.nics.iter().map(|nic| record(job, nic, rates)));
        records.extend(
            job.refused.iter().map(|refused| json!({"job": job.name, "file": refused.file, "refused": refused.why})),
        );
    }
    Value::Array(records)
}

fn record(job: &JobSnapshot, nic: &NicSnapshot, rates: &Rates) -> Value {
    let seen = &nic.seen;
    let by_name = |value: &dyn Fn(Register) -> Value| -> Map<String, Value> {
        Register::ALL.iter().map(|&register| (register.name().to_owned(), value(register))).collect()
    };
    let registers = by_name(&|register| seen.register(register).into());
    let per_second = by_name(&|register| rates.per_second(job, nic, register).into());
    debug_assert_eq!(registers.len(), COUNT);
    json!({
        "job": job.name,
        "program": job.record.as_ref().map(|record| &record.program),
        "size": job.record.as_ref().map(|record| record.size),
        "launcher_pid": job.record.as_ref().map(|record| record.launcher.pid),
        "launcher_alive": job.launcher_alive,
        "rank": seen.rank,
        "nid": seen.nid,
        "pid": seen.pid,
        "ni": seen.ni,
        "matching": nic.is_matching(),
        "logical": nic.is_logical(),
        "os_pid": seen.owner.pid,
        "os_start": seen.owner.start,
        "state": nic.state(),
        "mode": nic.mode(),
        "sleepers": seen.sleepers,
        "lock_holder": seen.lock_holder,
        "packets_waiting": seen.packets_waiting,
        "fired_waiting": seen.fired_waiting,
        "portals_enabled": seen.portals_enabled,
        "portals_disabled": seen.portals_disabled,
        "entries": seen.entries,
        "unexpected_now": seen.unexpected,
        "file_bytes": seen.file_bytes,
        "heap_bytes": seen.heap_blocks * selvedge_nic::layout::BLOCK_BYTES,
        "arena_bytes": seen.arena_bytes,
        "registers": registers,
        "per_second": per_second,
        "operations_per_second": rates.operations(job, nic),
        "links": super::links::json(job, nic, rates),
        "blocked": seen.blocked_count,
        "blocked_heads": seen.blocked.iter().map(head_record).collect::<Vec<Value>>(),
    })
}

/// The head of a message without a destination.
fn head_record(head: &BlockedHead) -> Value {
    json!({
        "number": head.number,
        "why": why_blocked(head),
        "kind": head.kind,
        "source_nid": head.source >> 32,
        "source_pid": head.source as u32,
        "source_port": head.source_port,
        "target_nid": head.target >> 32,
        "target_pid": head.target as u32,
        "port": head.port,
        "tag": head.tag,
        "header_data": head.header_data,
        "bytes": head.length,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.4, "0"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (9_994.0, "9.99k"),
            (9_996.0, "10.0k"),
            (99_960.0, "100k"),
            (999_600.0, "1.00M"),
            (12_345_678.0, "12.3M"),
            (u64::MAX as f64, "18.4E"),
        ] {
            assert_eq!(short(value), text, "{value}");
            assert!(short(value).len() <= 5);
        }
    }
}
