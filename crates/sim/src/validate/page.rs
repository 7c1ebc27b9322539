// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results as a page, written by the run that found them: no figure in it is typed by hand.

use std::fmt::Write as _;

use super::claim::{HOLDS_PERCENT, NEAR_PERCENT, TIE_PERCENT, Verdict, short};
use super::{AxisOf, Claim, Curve, CurveLine, Results};
use crate::report::plot::{Axis, Line, Plot, Shape};
use crate::report::words;

/// What is printed of an error.
pub fn word(claim: &Claim) -> String {
    match claim.error_percent {
        Some(error) if error.is_finite() => format!("{error:+.0} %"),
        Some(_) => "never".to_owned(),
        None => String::new(),
    }
}

/// A page; its plots lie in a folder beside it as SVG files named after their curves.
pub fn markdown(results: &[Results], quick: bool, pictures: &str) -> String {
    let mut page = String::new();
    let out = &mut page;
    let _ = write!(
        out,
        "# Validation\n\n\
         What the source documents claim in numbers or in order, and what the simulator predicts. Written by `selvedge validate`.\n\n\
         The machines in `machines/` are set from figures of components, each with its source, and never from the curves predicted \
         here. Where a prediction misses, the table says so, and a note says why. Published and simulated numbers have columns of their \
         own. The thresholds were fixed before the first run: a number *holds* within {HOLDS_PERCENT} % of what was published, is *near* \
         within {NEAR_PERCENT} %, and *misses* beyond; an order holds where it is right everywhere, is near where the only exceptions are \
         ties (within {TIE_PERCENT} %), and misses otherwise. A dash marks an input of the model, or a claim without a number.\n"
    );
    if quick {
        let _ = write!(out, "\nThis was a quick run: fewer sizes and fewer nodes.\n");
    }
    let _ =
        write!(out, "\n## Summary\n\n| document | holds | near | misses | not comparable |\n|---|---|---|---|---|\n");
    for results in results {
        let count = |verdict| results.claims.iter().filter(|claim| claim.verdict == verdict).count();
        let (holds, near, misses) = (count(Verdict::Holds), count(Verdict::Near), count(Verdict::Misses));
        let rest = count(Verdict::NotComparable);
        let _ = writeln!(out, "| {} | {holds} | {near} | {misses} | {rest} |", results.document.title());
    }
    for results in results {
        let _ = write!(out, "\n## {}\n\n", results.document.title());
        out.push_str("| claim | source | what | published | simulated | unit | error | verdict |\n|---|---|---|---|---|---|---|---|\n");
        for claim in &results.claims {
            let Claim { id, source, text, published, predicted, unit, verdict, .. } = claim;
            let _ = writeln!(
                out,
                "| {id} | {source} | {text} | {published} | {predicted} | {unit} | {} | {verdict} |",
                word(claim)
            );
        }
        out.push_str("\nNotes\n\n");
        for claim in results.claims.iter().filter(|claim| !claim.note.is_empty()) {
            let _ = writeln!(out, "- **{}**: {}", claim.id, claim.note);
        }
        if !results.left_out.is_empty() {
            out.push_str("\nNot here\n\n");
            for line in &results.left_out {
                let _ = writeln!(out, "- {line}");
            }
        }
        for curve in &results.curves {
            let _ = write!(
                out,
                "\n### {}\n\n{}\n\n![{}]({pictures}/{}.svg)\n\n",
                curve.title, curve.about, curve.title, curve.name
            );
            table(out, curve);
        }
    }
    page
}

impl Curve {
    /// The curve as a picture.
    pub fn plot(&self) -> Plot {
        let axis = |axis: &AxisOf| match axis.logarithmic {
            Some(base) if axis.label.ends_with("(bytes)") => Axis::logarithmic(axis.label, base, words::bytes),
            Some(2) => Axis::logarithmic(axis.label, 2, words::plain),
            Some(base) => Axis::logarithmic(axis.label, base, words::scaled),
            None => Axis::linear(axis.label, words::plain),
        };
        let line = |line: &CurveLine| Line { name: line.name.clone(), points: line.points.clone() };
        Plot {
            name: self.name.to_owned(),
            title: self.title.clone(),
            x: axis(&self.x),
            y: axis(&self.y),
            shape: Shape::Lines(self.lines.iter().map(line).collect()),
        }
    }
}

/// The simulated numbers of a curve.
fn table(out: &mut String, curve: &Curve) {
    let mut all: Vec<f64> = curve.lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let _ = write!(out, "Simulated, {}:\n\n| {} |", curve.y.label, curve.x.label);
    for line in &curve.lines {
        let _ = write!(out, " {} |", line.name);
    }
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(curve.lines.len()));
    out.push('\n');
    for x in all {
        let _ = write!(out, "| {x} |");
        for line in &curve.lines {
            let y = line.points.iter().find(|(at, _)| *at == x).map_or(String::new(), |(_, y)| short(*y));
            let _ = write!(out, " {y} |");
        }
        out.push('\n');
    }
}
