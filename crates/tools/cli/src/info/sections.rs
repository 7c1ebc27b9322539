// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sections that depend on the build alone: the build, a NIC's limits and size, its registers.

use selvedge_host::{inspect, segment};
use selvedge_nic::layout::BLOCK_BYTES;
use selvedge_nic::registers::TableRegister;
use selvedge_nic::{Limits, Register, layout};
use selvedge_terminal::Table;
use serde_json::{Map, Value, json};

use super::{bytes_text, columns, plain};

pub fn build() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "target": target(),
        "profile": if cfg!(debug_assertions) { "debug" } else { "release" },
        "segment_version": segment::VERSION,
        "layout_version": layout::VERSION,
    })
}

fn target() -> String {
    let environment = match () {
        () if cfg!(target_env = "musl") => "-musl",
        () if cfg!(target_env = "gnu") => "-gnu",
        () => "",
    };
    format!("{}-unknown-{}{environment}", std::env::consts::ARCH, std::env::consts::OS)
}

pub fn build_text(value: &Value) -> String {
    let line = |name: &str, field: &str| [name.to_owned(), plain(&value[field])];
    columns([
        line("version", "version"),
        line("target", "target"),
        line("profile", "profile"),
        line("segment version", "segment_version"),
        line("layout version", "layout_version"),
    ])
}

/// A limit: name, getter, description.
type Limit = (&'static str, fn(&Limits) -> u32, &'static str);

/// All limits, in the order of [`Limits`].
const LIMITS: [Limit; 23] = [
    ("entries", |l| l.entries, "list entries and match entries"),
    ("headers", |l| l.headers, "unexpected headers"),
    ("descriptors", |l| l.descriptors, "memory descriptors"),
    ("counters", |l| l.counters, "counting events"),
    ("queues", |l| l.queues, "event queues"),
    ("portals", |l| l.portals, "portal table entries"),
    ("triggered", |l| l.triggered, "triggered operations"),
    ("iovecs", |l| l.iovecs, "vectors of one I/O vector"),
    ("list", |l| l.list, "entries of one list"),
    ("short_list", |l| l.short_list, "a priority list of at most this length has no index"),
    ("pending", |l| l.pending, "requests that wait for another process's program"),
    ("heap_blocks", |l| l.heap_blocks, "blocks of the heap at first (events, I/O vectors, payload)"),
    ("heap_blocks_max", |l| l.heap_blocks_max, "blocks that the heap may grow to"),
    ("vpids", |l| l.vpids, "virtual process ids of the VELO and RMA units"),
    ("velo_bytes", |l| l.velo_bytes, "bytes of the longest VELO message"),
    ("mailbox_slots", |l| l.mailbox_slots, "slots of each mailbox"),
    ("notifications", |l| l.notifications, "entries of each notification queue"),
    ("address_tables", |l| l.address_tables, "global address tables, each of 1 GiB of registered memory"),
    ("tlb_entries", |l| l.tlb_entries, "translations that the TLB keeps"),
    ("tlb_ways", |l| l.tlb_ways, "entries of the TLB that an address may be in"),
    ("lock_waiters", |l| l.lock_waiters, "lock requests that fail and are kept until they succeed"),
    ("memberships", |l| l.memberships, "groups of aggregation that the process may be a member of"),
    ("member_operations", |l| l.member_operations, "operations of each that may be started and not taken"),
];

const _: () = assert!(LIMITS.len() * size_of::<u32>() == size_of::<Limits>());

fn largest() -> Limits {
    let all = u32::MAX;
    Limits {
        entries: all,
        headers: all,
        descriptors: all,
        counters: all,
        queues: all,
        portals: all,
        triggered: all,
        iovecs: all,
        list: all,
        short_list: all,
        pending: all,
        heap_blocks: all,
        heap_blocks_max: all,
        vpids: all,
        velo_bytes: all,
        mailbox_slots: all,
        notifications: all,
        address_tables: all,
        tlb_entries: all,
        tlb_ways: all,
        lock_waiters: all,
        memberships: all,
        member_operations: all,
    }
    .clamped()
}

pub fn limits() -> Value {
    let set = |limits: &Limits| {
        let layout = inspect::layout_of(limits);
        let mut members: Map<String, Value> =
            LIMITS.iter().map(|(name, get, _)| ((*name).to_owned(), get(limits).into())).collect();
        members.insert("nic_bytes".into(), layout.initial_bytes().into());
        members.insert("nic_bytes_grown".into(), layout.reserved_bytes().into());
        Value::Object(members)
    };
    let meaning: Map<String, Value> =
        LIMITS.iter().map(|(name, _, text)| ((*name).to_owned(), (*text).into())).collect();
    json!({
        "default": set(&Limits::DEFAULT),
        "largest": set(&largest()),
        "meaning": meaning,
        "heap_block_bytes": BLOCK_BYTES,
    })
}

pub fn limits_text(value: &Value) -> String {
    let (default, largest) = (&value["default"], &value["largest"]);
    let mut rows = Table::new(&["", ">default", ">largest", ""]).indented(2);
    for (name, _, text) in LIMITS {
        rows.row([name.to_owned(), plain(&default[name]), plain(&largest[name]), text.to_owned()]);
    }
    let bytes = |of: &Value, field: &str| bytes_text(of[field].as_u64().unwrap_or(0));
    for (name, field, text) in [
        ("bytes", "nic_bytes", "of a NIC at first"),
        ("", "nic_bytes_grown", "of a NIC whose heap has grown to the end"),
    ] {
        rows.row([name.to_owned(), bytes(default, field), bytes(largest, field), text.to_owned()]);
    }
    rows.text()
}

pub fn registers() -> Value {
    let counter = |r: &Register| json!({"name": r.name(), "unit": r.unit(), "text": r.text(), "block": r.block(), "address": r.offset()});
    let table = |r: &TableRegister| {
        let mut record =
            json!({"name": r.name(), "unit": r.unit(), "text": r.text(), "block": r.block(), "address": r.address()});
        if r.entries_max() != 0 {
            record["entries_max"] = r.entries_max().into();
            record["stride"] = r.stride().into();
        }
        record
    };
    Register::ALL.iter().map(counter).chain(TableRegister::ALL.iter().map(table)).collect()
}

pub fn registers_text(value: &Value) -> String {
    let rows = value.as_array().into_iter().flatten();
    columns(rows.map(|row| [plain(&row["name"]), plain(&row["unit"]), plain(&row["text"])]))
}
