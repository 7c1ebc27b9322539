// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers as text and as JSON.

use selvedge_terminal::Table;
use serde_json::{Map, Value, json};

use super::select::{RegisterArgument, RegisterName};
use super::values::readings;
use selvedge_host::snapshot::{JobSnapshot, NicSnapshot, Refused, Snapshot, printable};

const COLUMNS: [&str; 6] = [">rank", ">ni", "state", "register", ">value", "counts"];

/// One table for each job, with a row for each value, for standard output.
pub fn text(snapshot: &Snapshot, words: &[RegisterArgument]) -> String {
    tables(snapshot, words, Table::text)
}

/// The same for a reader whose width is not known: the daemon makes it for the commands of others.
pub fn text_of_any_width(snapshot: &Snapshot, words: &[RegisterArgument]) -> String {
    tables(snapshot, words, |table| table.text_for(None, false))
}

fn tables(snapshot: &Snapshot, words: &[RegisterArgument], text: fn(&Table) -> String) -> String {
    let jobs = snapshot.jobs.iter().filter(|job| !job.nics.is_empty());
    let shown = jobs.map(|job| format!("{}\n{}", printable(&job.name), text(&table(job, words))));
    shown.collect::<Vec<_>>().join("\n")
}

fn table(job: &JobSnapshot, words: &[RegisterArgument]) -> Table {
    let mut table = Table::new(&COLUMNS);
    for nic in &job.nics {
        for reading in readings(job, nic, words) {
            table.row([
                nic.seen.rank.to_string(),
                nic.seen.ni.to_string(),
                nic.state().to_owned(),
                reading.name(),
                reading.value.to_string(),
                reading.unit().to_owned(),
            ]);
        }
    }
    table
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
