// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of a page: a subject with its text, its plots and its table; and the list of cases that were left out.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::plots::Plot;
use super::record::{Measurement, Record};
use super::report::{COLUMNS, TEXT_COLUMNS, markdown, row};

/// A part of the page. Parts are listed from last to first; the last in the list accepts all remaining cases.
pub struct Subject {
    pub title: &'static str,
    pub about: &'static str,
    /// Whether a case belongs here. The first subject that accepts a case gets it.
    pub has: fn(&str) -> bool,
    pub plots: &'static [Plot],
}

/// A time as an axis label.
pub fn time_text(ns: f64) -> String {
    if ns < 1e3 { format!("{ns} ns") } else { format!("{} us", ns / 1e3) }
}

/// The page's last part: cases without figures, and the reasons.
pub fn left_out(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let first_lines = notes.iter().filter_map(|note| note.lines().next());
    let list: String = first_lines.map(|note| format!("- {note}\n")).collect();
    format!("## Left out\n\n{list}")
}

/// Draws a subject's plots into `directory`, and returns the text with its table.
pub fn part(subject: &Subject, records: &[&Record], measurements: &[Measurement], directory: &Path) -> Result<String> {
    let table = markdown(&COLUMNS, &TEXT_COLUMNS, records.iter().map(|record| row(record)));
    Ok(head_of_part(subject, measurements, directory)? + &table + "\n")
}

/// Draws a subject's plots into `directory`, and returns the text before its table.
pub fn head_of_part(subject: &Subject, measurements: &[Measurement], directory: &Path) -> Result<String> {
    let mut out = format!("## {}\n\n{}\n\n", subject.title, subject.about);
    for plot in subject.plots {
        if plot.draw(measurements, directory)? {
            let _ = writeln!(out, "![{}]({})\n", plot.title, plot.file);
        }
    }
    Ok(out)
}
