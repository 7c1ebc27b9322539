// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NICs of a snapshot, as rows and as JSON.
//!
//! Invariant: text from other processes (job names, programs, file names) is printed without control characters.

use selvedge_host::inspect::Inspection;
use selvedge_nic::Register;
use selvedge_nic::registers::COUNT;
use selvedge_nic::tables::{BlockedHead, blocked};
use selvedge_terminal::paragraph;
use serde_json::{Map, Value, json};

use selvedge_host::snapshot::{JobSnapshot, NicSnapshot, Rates, Snapshot, printable};

use super::view::{Field, View};

/// Column heads, in the order of [`row`].
const COLUMNS: [&str; 19] = [
    ">rank", ">pid", ">os pid", "ni", "state", "mode", ">recv/s", ">B in/s", ">B out/s", ">match", ">unexp", ">drop",
    ">fired", ">flow", ">packets", ">sleep", ">ops/s", ">ops", "job",
];

/// The jobs, their rows, and the notes, as whole lines for standard output.
pub fn text(snapshot: &Snapshot, view: &View) -> String {
    let mut text: String = heading(snapshot).iter().map(|line| format!("{line}\n")).collect();
    if snapshot.nic_count() > 0 {
        text += &format!("\n{}", view.text());
    }
    view.notes.iter().chain(&notes(snapshot)).for_each(|note| text += &paragraph(note, 0));
    text
}

/// The number of jobs and NICs, and a line for each job.
pub fn heading(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = vec![summary(snapshot)];
    lines.extend(snapshot.jobs.iter().map(job_line));
    lines
}

/// Lines below the rows: messages without a destination, and refused files.
pub fn notes(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for job in &snapshot.jobs {
        lines.extend(job.nics.iter().filter_map(|nic| blocked_line(&nic.seen)));
        let refused = job.refused.iter().map(|refused| format!("{}/{}: {}", job.name, refused.file, refused.why));
        lines.extend(refused.map(|line| printable(&line)));
    }
    lines
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

/// A row for each NIC.
pub fn view(snapshot: &Snapshot, rates: &Rates) -> View {
    let nics = snapshot.jobs.iter().flat_map(|job| job.nics.iter().map(move |nic| (job, nic)));
    let rows = nics.map(|(job, nic)| row(job, nic, rates).to_vec()).collect();
    View { heads: &COLUMNS, rows, notes: Vec::new() }
}

fn row(job: &JobSnapshot, nic: &NicSnapshot, rates: &Rates) -> [Field; COLUMNS.len()] {
    let rate = |register| Field::rate(rates.per_second(job, nic, register));
    let seen = &nic.seen;
    let count = |register| Field::short(seen.register(register) as f64);
    let operations = job.links_of(nic).map(|(_, _, link)| link.operations()).fold(0, u64::wrapping_add);
    [
        Field::whole(seen.rank.into()),
        Field::whole(seen.pid.into()),
        Field::whole(seen.owner.pid.into()),
        Field::text(&format!("{} {} {}", seen.ni, if nic.is_matching() { "me" } else { "le" }, addressing(nic))),
        Field::state(nic.state()),
        Field::text(nic.mode()),
        rate(Register::Requests),
        rate(Register::BytesIn),
        rate(Register::BytesOut),
        Field::short(matched(nic) as f64),
        Field::whole(seen.unexpected),
        count(Register::Dropped),
        count(Register::TriggeredFired),
        count(Register::FlowControl),
        Field::whole(seen.packets_waiting),
        Field::whole(seen.sleepers.into()),
        Field::rate(rates.operations(job, nic)),
        Field::short(operations as f64),
        Field::text(&job.name),
    ]
}

fn addressing(nic: &NicSnapshot) -> &'static str {
    if nic.is_logical() { "log" } else { "phys" }
}

/// Number of messages that matched an entry of either list.
fn matched(nic: &NicSnapshot) -> u64 {
    nic.seen.register(Register::MatchedPriority).wrapping_add(nic.seen.register(Register::MatchedOverflow))
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
