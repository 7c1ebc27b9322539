// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of the fabric and how it came to rest again, as a section of a report.

use selvedge_document::{Section, Table, words};

use std::collections::BTreeMap;

use crate::network::LossReason;
use crate::rerouting::{Episode, ReroutingReport};
use crate::time::Time;

/// Returns the section of runs with managers: each with its name, which is empty if there is only one.
pub fn section(runs: &[(String, &ReroutingReport)]) -> Option<Section> {
    let (_, first) = runs.first()?;
    let text = format!(
        "Routers notice a failed link {}. Hellos every {}, silence after {}. The routes of a fabric without some links are \
         {}. Times are from the change; a row ends when all routers have the true map of their part. A fault at \
         time 0 was there before the run.",
        first.detection.words(),
        Time(first.hello_ps),
        Time(first.silence_ps),
        first.routes
    );
    let mut heads = vec!["change", ">at", ">noticed", ">converged", ">rerouted", ">frames"];
    heads.extend([">lost until then", ">later"]);
    let is_named = runs.iter().any(|(name, _)| !name.is_empty());
    if is_named {
        heads.insert(0, ">load");
    }
    let mut table = Table::with_heads(&heads);
    for (name, report) in runs {
        for episode in &report.episodes {
            let row = row(episode);
            table.row(is_named.then(|| name.clone()).into_iter().chain(row));
        }
    }
    let maps = |of: fn(&ReroutingReport) -> u64| runs.iter().map(|(_, report)| of(report)).sum::<u64>();
    let (with, without) = (maps(|report| report.maps_with_detours), maps(|report| report.maps_without));
    let mut section = Section::new("Rerouting").in_summary().text(text);
    if with + without > 0 {
        let (with, without) = (words::count(with), words::count(without));
        section = section.text(format!("Maps that packets followed: {with} with detours, {without} without."));
    }
    Some(match table.rows.is_empty() {
        true => section.text("No link between routers, and no router, failed before the end."),
        false => section.table(table),
    })
}

fn row(episode: &Episode) -> [String; 8] {
    let mut changes = episode.changes.join(", ");
    if episode.more_changes > 0 {
        changes.push_str(&format!(" and {} more", words::count(episode.more_changes)));
    }
    let after = |time: Option<u64>, never: &str| time.map_or(never.to_owned(), |time| format!("+{}", Time(time)));
    [
        changes,
        Time(episode.at_ps).to_string(),
        after(episode.noticed_ps, "-"),
        after(episode.converged_ps, "not yet"),
        format!("{} routers", words::count(episode.routers_rerouted)),
        words::count(episode.frames),
        lost(&episode.lost_until_converged),
        lost(&episode.lost_later),
    ]
}

fn lost(counts: &BTreeMap<LossReason, u64>) -> String {
    let some = counts.iter().filter(|(_, count)| **count > 0);
    let words: Vec<String> = some.map(|(why, count)| format!("{} {}", words::count(*count), why.words())).collect();
    if words.is_empty() { "0".to_owned() } else { words.join(", ") }
}
