// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Regions that a program has marked: their table, notes and JSON.

use selvedge_document::{Section, Table, words};
use serde_json::{Value, json};

use crate::node::Outcome;
use crate::time::Time;

/// Returns the table of the regions. `None`: the program has marked none.
pub fn section(outcome: &Outcome) -> Option<Section> {
    let reports = &outcome.regions;
    if reports.regions.is_empty() {
        return None;
    }
    let heads = ["region", ">entered", ">ranks", ">least time", ">median", ">greatest", ">messages", ">bytes"];
    let mut table = Table::with_heads(&heads);
    for region in &reports.regions {
        table.row([
            region.name.clone(),
            words::count(region.entered),
            words::count(region.ranks.into()),
            Time(region.time_ps_min).to_string(),
            Time(region.time_ps_median).to_string(),
            Time(region.time_ps_max).to_string(),
            words::count(region.messages),
            words::bytes(region.bytes as f64),
        ]);
    }
    Some(Section::new("Regions").in_summary().table(table))
}

/// Returns what was wrong with the marks, in words.
pub fn notes(outcome: &Outcome) -> Vec<String> {
    let reports = &outcome.regions;
    let mut notes = Vec::new();
    if let Some((rank, name, is_end)) = &reports.unbalanced_first {
        let what = match is_end {
            true => format!("rank {rank} ended region {name} without having begun it"),
            false => format!("rank {rank} ended inside region {name}, which ended with it"),
        };
        let more = match reports.unbalanced {
            1 => String::new(),
            count => format!(" (the first of {})", words::count(count)),
        };
        notes.push(format!("Unbalanced regions: {what}{more}."));
    }
    if reports.unnamed > 0 {
        notes.push(format!(
            "{} marks of regions have too many names: the report has the first {}.",
            words::count(reports.unnamed),
            reports.regions.len()
        ));
    }
    notes
}

/// Adds the regions to the JSON of a run.
pub fn add_json(outcome: &Outcome, all: &mut Value) {
    if !outcome.regions.regions.is_empty() {
        all["regions"] = json!(outcome.regions.regions);
    }
    if let Some(observed) = &outcome.observed {
        all["region"] = json!({ "name": observed.name, "time_ps": observed.time.0, "stretches": observed.stretches });
    }
}
