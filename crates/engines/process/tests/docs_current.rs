// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the pages made from tables of the program are current.
//!
//! `docs/reference/environment.md` comes from [`VARIABLES`]. The part of `docs/design/memory.md` between the `layout` marks comes
//! from a segment that is made here, that of `docs/reference/portals.md` between the `limits` marks from [`Limits`]. `make
//! docs-pages` (UPDATE_DOCS=1) writes them anew; without it a page that differs fails its test.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use selvedge_host::segment::{Owner, Segment};
use selvedge_process::nic::registers::Registers;
use selvedge_process::nic::signals::{Counter, Descriptor, Doorbell, EventQueue};
use selvedge_process::nic::tables::{
    BlockedHead, Bucket, Control, CounterBook, Entry, HEADS, Header, Pending, PortalEntry, QueueBook, Triggered,
};
use selvedge_process::nic::{Limits, layout::BLOCK_BYTES};
use selvedge_process::settings::VARIABLES;

const MADE: &str = "<!-- Made by `make docs-pages`; not to be edited. -->\n";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn check(name: &str, wanted: &str) {
    let path = repository().join(name);
    let found = fs::read_to_string(&path).unwrap_or_default();
    if found == wanted {
        return;
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, wanted).unwrap_or_else(|error| panic!("{name}: {error}"));
        return;
    }
    let differs = found.lines().zip(wanted.lines()).find(|(is, should)| is != should);
    let (is, should) = differs.unwrap_or(("(its end)", "(more, or less)"));
    panic!("{name} is stale: run `make docs-pages`\n  it says:      {is}\n  it should be: {should}");
}

#[test]
fn environment_variables() {
    let mut page = String::from("# Environment variables\n\n");
    page.push_str(MADE);
    page.push_str(
        "\nAll variables that Selvedge reads, by subject. A process reads them once, when it first uses the library; the \
         `selvedge` command reads them when it starts. An unknown variable `SELVEDGE_*` and a malformed value are reported \
         on standard error, once a job, and the default is used. With `SELVEDGE_LOG=error` they are not. `selvedge info \
         variables` prints the values in force and where they come from. Most can also be set in a \
         [configuration file](configuration.md).\n\n\
         A size is a whole or decimal number, alone or with `K`, `M`, `G` or `T` (also `KB` or `KiB`): powers of 1,024. A \
         time is a number with `ps`, `ns`, `us`, `ms`, `s`, `min` or `h`.\n",
    );
    let mut group = "";
    for variable in VARIABLES {
        if variable.group != group {
            group = variable.group;
            let heading = format!("\n## {group}\n\n");
            assert!(!page.contains(&heading), "{}: other groups stand between {group} and it", variable.name);
            page.push_str(&heading);
        }
        let (name, values, default, text) = (variable.name, variable.values, variable.default, variable.text);
        writeln!(page, "- `{name}`: {values}; default: {default}.\\\n  {text}").expect("a string takes it");
    }
    page.push_str(
        "\n## Variables of ranks\n\n\
         `selvedge run` sets `SELVEDGE_DIR`, `SELVEDGE_JOB`, `SELVEDGE_RANK` and `SELVEDGE_SIZE` for its ranks, and \
         `SELVEDGE_MODE` and `SELVEDGE_PATH` if `--mode` and `--path` are given.\n\n\
         With `--hosts` or `--hostfile`, ranks on every host have the launcher's environment, and `--env` adds to it. \
         These variables come from the rank's own host, and are not set if that host does not have them: `HOSTNAME`, \
         `HOST`, `TMPDIR`, `USER`, `LOGNAME`, `MAIL`, `SSH_*`, `DISPLAY`, `XAUTHORITY`, `WAYLAND_DISPLAY`, `WINDOWID`, \
         `DBUS_SESSION_BUS_ADDRESS`, `XDG_RUNTIME_DIR`, `XDG_SEAT`, `XDG_VTNR`, `XDG_SESSION_*`.\n",
    );
    check("docs/reference/environment.md", &page);
}

#[test]
fn names_are_unique() {
    for (at, variable) in VARIABLES.iter().enumerate() {
        assert!(VARIABLES[..at].iter().all(|other| other.name != variable.name), "{}", variable.name);
    }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn layout_table() -> String {
    let folder = std::env::temp_dir().join(format!("selvedge-layout-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the segment");
    let limits = Limits::DEFAULT;
    let owner = Owner { id: 0, ni: 0, pid: std::process::id(), uid: 0, start: 0, host_mode: false, rank: 0, token: 0 };
    let segment = Segment::create(&folder.join("0.0.nic"), &limits, &owner).expect("a segment");
    let layout = *segment.layout();
    drop(segment);
    fs::remove_dir_all(&folder).expect("it goes again");

    let rows: &[(u64, &str, u64, usize, &str)] = &[
        (layout.control, "control", 1, size_of::<Control>(), "lock"),
        (layout.doorbell, "doorbell", 1, size_of::<Doorbell>(), "anyone reads"),
        (layout.registers, "registers", 1, size_of::<Registers>(), "anyone reads"),
        (layout.portals, "portal table", limits.portals.into(), size_of::<PortalEntry>(), "lock"),
        (
            layout.short_lists,
            "short lists",
            u64::from(limits.portals) * u64::from(limits.short_list),
            size_of::<u32>(),
            "lock",
        ),
        (layout.counters, "counters", limits.counters.into(), size_of::<Counter>(), "anyone reads"),
        (layout.queues, "event queues", limits.queues.into(), size_of::<EventQueue>(), "anyone reads"),
        (layout.descriptors, "memory descriptors", limits.descriptors.into(), size_of::<Descriptor>(), "anyone reads"),
        (layout.counter_books, "books of the counters", limits.counters.into(), size_of::<CounterBook>(), "lock"),
        (layout.queue_books, "books of the queues", limits.queues.into(), size_of::<QueueBook>(), "lock"),
        (layout.entries, "list entries", limits.entries.into(), size_of::<Entry>(), "lock"),
        (layout.entry_buckets, "their index", layout.entry_bucket_count.into(), size_of::<Bucket>(), "lock"),
        (layout.headers, "unexpected headers", limits.headers.into(), size_of::<Header>(), "lock"),
        (layout.header_buckets, "their index", layout.header_bucket_count.into(), size_of::<Bucket>(), "lock"),
        (layout.triggered, "triggered operations", limits.triggered.into(), size_of::<Triggered>(), "lock"),
        (layout.pending, "requests that wait for a response", limits.pending.into(), size_of::<Pending>(), "lock"),
        (layout.blocked, "heads of messages without a destination", HEADS as u64 + 1, size_of::<BlockedHead>(), "lock"),
        (layout.heap_map, "the heap's allocator", layout.heap_map_words, 8, "lock"),
        (layout.heap, "heap", limits.heap_blocks.into(), BLOCK_BYTES as usize, "anyone reads"),
    ];
    let mut table = String::from(
        "| offset | table | records | bytes each | bytes | guarded by |\n|---:|---|---:|---:|---:|---|\n\
         | 0 | header: identity, limits, state, lock | 1 | 512 | 512 | see above |\n",
    );
    assert_eq!(rows[0].0, 512, "the header's row");
    for &(offset, name, records, bytes, guard) in rows {
        let total = records * bytes as u64;
        let figures = [offset, records, bytes as u64, total].map(grouped);
        let [offset, records, bytes, total] = figures;
        writeln!(table, "| {offset} | {name} | {records} | {bytes} | {total} | {guard} |").expect("a string takes it");
    }
    let (initial, reserved) = (layout.initial_bytes(), layout.reserved_bytes());
    writeln!(
        table,
        "\nIn all {} bytes ({:.1} MiB) when it is made; the heap may grow until the segment has {} bytes ({:.1} MiB), for which \
         peers reserve address space.",
        grouped(initial),
        initial as f64 / f64::from(1 << 20),
        grouped(reserved),
        reserved as f64 / f64::from(1 << 20),
    )
    .expect("a string takes it");
    table
}

fn limits_table() -> String {
    let (usual, most) = (Limits::DEFAULT, EVERYTHING.clamped());
    let rows = [
        ("max_entries", usual.entries, most.entries),
        ("max_unexpected_headers", usual.headers, most.headers),
        ("max_mds", usual.descriptors, most.descriptors),
        ("max_cts", usual.counters, most.counters),
        ("max_eqs", usual.queues, most.queues),
        ("max_pt_index", usual.portals - 1, most.portals - 1),
        ("max_iovecs", usual.iovecs, most.iovecs),
        ("max_list_size", usual.list, most.list.min(i32::MAX as u32)),
        ("max_triggered_ops", usual.triggered, most.triggered),
    ];
    let mut table = String::from("| limit | default | most |\n|---|---:|---:|\n");
    for (name, usual, most) in rows {
        let [usual, most] = [usual, most].map(|number| grouped(number.into()));
        writeln!(table, "| `{name}` | {usual} | {most} |").expect("a string takes it");
    }
    table
}

const EVERYTHING: Limits = Limits {
    entries: u32::MAX,
    headers: u32::MAX,
    descriptors: u32::MAX,
    counters: u32::MAX,
    queues: u32::MAX,
    portals: u32::MAX,
    triggered: u32::MAX,
    iovecs: u32::MAX,
    list: u32::MAX,
    short_list: u32::MAX,
    pending: u32::MAX,
    heap_blocks: u32::MAX,
    heap_blocks_max: u32::MAX,
    ..Limits::NONE
};

fn check_part(name: &str, part: &str, wanted: &str) {
    let (begins, ends) = (format!("<!-- {part}: made by `make docs-pages` -->\n"), format!("<!-- end of {part} -->\n"));
    let page = fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (before, rest) = page.split_once(&begins).unwrap_or_else(|| panic!("{name} lacks {begins}"));
    let (_, after) = rest.split_once(&ends).unwrap_or_else(|| panic!("{name} lacks {ends}"));
    check(name, &format!("{before}{begins}\n{wanted}\n{ends}{after}"));
}

#[test]
fn memory_layout() {
    check_part("docs/design/memory.md", "layout", &layout_table());
}

#[test]
fn limits() {
    check_part("docs/reference/portals.md", "limits", &limits_table());
}
