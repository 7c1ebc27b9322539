// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers as text and as JSON.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::{Map, Value, json};

use super::select::{RegisterArgument, RegisterName};
use super::values::readings;
use selvedge_host::snapshot::{JobSnapshot, NicSnapshot, Refused, Snapshot, printable};

/// Column heads, and whether a column holds numbers.
const COLUMNS: [(&str, bool); 6] =
    [("rank", true), ("ni", true), ("state", false), ("register", false), ("value", true), ("counts", false)];

/// One table for each job, with a row for each value.
pub fn text(snapshot: &Snapshot, words: &[RegisterArgument]) -> String {
    let jobs = snapshot.jobs.iter().filter(|job| !job.nics.is_empty());
    jobs.map(|job| format!("{}\n{}", printable(&job.name), table(job, words))).collect::<Vec<_>>().join("\n")
}

fn table(job: &JobSnapshot, words: &[RegisterArgument]) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(COLUMNS.map(|(head, _)| head));
    for (column, (_, is_number)) in table.column_iter_mut().zip(COLUMNS) {
        column.set_cell_alignment(if is_number { CellAlignment::Right } else { CellAlignment::Left });
        column.set_padding((0, 1));
    }
    for nic in &job.nics {
        for reading in readings(job, nic, words) {
            table.add_row([
                nic.seen.rank.to_string(),
                nic.seen.ni.to_string(),
                nic.state().to_owned(),
                reading.name(),
                reading.value.to_string(),
                reading.unit().to_owned(),
            ]);
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A file that was refused.
pub fn refused_text(job: &JobSnapshot, refused: &Refused) -> String {
    printable(&format!("{}/{}: {}", job.name, refused.file, refused.why))
}

/// One record for each NIC, and for each file that was refused.
pub fn json(snapshot: &Snapshot, words: &[RegisterArgument]) -> Value {
    let mut records = Vec::new();
    for job in &snapshot.jobs {
        records.extend(job.nics.iter().map(|nic| record(job, nic, words)));
        records.extend(
            job.refused.iter().map(|refused| json!({"job": job.name, "file": refused.file, "refused": refused.why})),
        );
    }
    Value::Array(records)
}

fn record(job: &JobSnapshot, nic: &NicSnapshot, words: &[RegisterArgument]) -> Value {
    let seen = &nic.seen;
    let mut record = json!({
        "job": job.name,
        "rank": seen.rank,
        "nid": seen.nid,
        "pid": seen.pid,
        "ni": seen.ni,
        "state": nic.state(),
        "version": seen.version(),
    });
    record["registers"] = registers(job, nic, words);
    record
}

/// Registers by unit and name. A register with an index is an array if all of it is wanted, else an object by index.
fn registers(job: &JobSnapshot, nic: &NicSnapshot, words: &[RegisterArgument]) -> Value {
    let mut units = Map::new();
    for reading in readings(job, nic, words).into_iter().filter(|reading| reading.register != RegisterName::Version) {
        let unit = units.entry(reading.register.unit()).or_insert_with(|| json!({}));
        let name = reading.register.to_string();
        let is_whole =
            words.is_empty() || words.iter().any(|word| word.index.is_none() && word.includes(reading.register, None));
        match reading.index {
            None => unit[name] = reading.value.into(),
            Some(index) if is_whole => {
                if index == 0 {
                    unit[&name] = json!([]);
                }
                if let Some(values) = unit[&name].as_array_mut() {
                    values.push(reading.value.into());
                }
            }
            Some(index) => unit[name][index.to_string()] = reading.value.into(),
        }
    }
    Value::Object(units)
}
