// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments: scenarios of `selvedge study` that run real programs, with the published figures that they predict.
//!
//! They are files of `experiments/`, found by name, or any scenario by its path. Their results stay in a folder, so a
//! stopped experiment goes on where it was.

use std::path::{Path, PathBuf};

use selvedge_document::{Document, Section, Table};
use selvedge_settings::nearest;
use selvedge_sim::validate::{Claim, Verdict};

use crate::sim::Usage;
use crate::study::Experiment;
use crate::tree_files;

const FOLDER: &str = "experiments";

/// The scenario of an experiment. `documents`: other words that the command takes.
pub fn find(given: &str, documents: &[String]) -> Result<PathBuf, Usage> {
    if Path::new(given).is_file() {
        return Ok(PathBuf::from(given));
    }
    let known = tree_files::known(FOLDER);
    if let Some(file) = known.get(given) {
        return Ok(file.clone());
    }
    let all = || documents.iter().cloned().chain(known.keys().cloned());
    let meant = nearest(given, all()).map(|name| format!("; did you mean {name}?")).unwrap_or_default();
    let kind = if tree_files::is_path(given) { "file" } else { "document or experiment" };
    Err(Usage(format!(
        "there is no {kind} '{given}'{meant}; documents are {}; experiments are {}, or give the path of a scenario",
        documents.join(", "),
        tree_files::names(&known)
    )))
}

/// The folder of an experiment's results: NAME.study in `folder`, by default the current one.
pub fn results(file: &Path, folder: Option<&Path>) -> PathBuf {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    folder.unwrap_or(Path::new(".")).join(format!("{name}.study"))
}

/// The page of experiments that have run: how many claims have which verdict, and how far the numbers are from the
/// published ones; then each experiment.
pub fn page(all: &[Experiment]) -> Document {
    let mut heads = vec!["experiment", ">claims"];
    let verdicts = [Verdict::Holds, Verdict::Near, Verdict::Misses, Verdict::CannotTell, Verdict::Input];
    let names: Vec<String> = verdicts.iter().map(|verdict| format!(">{verdict}")).collect();
    heads.extend(names.iter().map(String::as_str));
    heads.extend([">median error", ">mean error"]);
    let mut summary = Table::with_heads(&heads);
    let row = |name: &str, claims: &[&Claim]| {
        let count = |verdict: &Verdict| claims.iter().filter(|claim| claim.verdict == *verdict).count().to_string();
        let (median, mean) = errors(claims);
        let cells = [name.to_owned(), claims.len().to_string()].into_iter().chain(verdicts.iter().map(count));
        cells.chain([median, mean]).collect::<Vec<_>>()
    };
    for experiment in all {
        summary.row(row(&experiment.name, &experiment.claims.iter().collect::<Vec<_>>()));
    }
    if all.len() > 1 {
        summary.row(row("all", &all.iter().flat_map(|experiment| &experiment.claims).collect::<Vec<_>>()));
    }
    let mut sections = vec![Section::new("Summary").in_summary().table(summary)];
    for experiment in all {
        sections.push(Section::new(&experiment.name).text(experiment.about.as_str()));
        sections.extend(
            experiment
                .sections
                .iter()
                .map(|section| Section { title: format!("{}: {}", experiment.name, section.title), ..section.clone() }),
        );
    }
    Document {
        title: "Experiments by unmodified programs".to_owned(),
        about: "Published figures beside what unmodified programs show on modelled machines. Written by \
                `selvedge validate`; the scenarios are in `experiments/`. The machines are set from figures of their \
                components. Errors are those of numbers that have a published number, inputs left out."
            .to_owned(),
        sections,
    }
}

/// Median and mean of the errors of claims, without their signs. Inputs prove nothing and are left out.
fn errors(claims: &[&Claim]) -> (String, String) {
    let counted = claims.iter().filter(|claim| claim.verdict != Verdict::Input);
    let mut all: Vec<f64> = counted.filter_map(|claim| claim.error_percent.map(f64::abs)).collect();
    if all.is_empty() {
        return (String::new(), String::new());
    }
    all.sort_by(f64::total_cmp);
    let middle = (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0;
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    (format!("{middle:.0} %"), format!("{mean:.0} %"))
}

/// All experiments that come with Selvedge, by name.
pub fn known() -> std::collections::BTreeMap<String, PathBuf> {
    tree_files::known(FOLDER)
}
