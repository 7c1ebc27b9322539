// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The quantitative claims of the seeds, compared with the predictions of the simulator.
//!
//! Each experiment is a program in virtual time on one of the machines in `machines/`. The figures of a machine are
//! those of its components, never those of a predicted curve. Two figures are exceptions: each is fitted to one number
//! of seed 001, and neither number counts as a prediction. A missed claim is also a result: the table shows it with its
//! reason.
//!
//! | file | subject |
//! |---|---|
//! | `claim` | a claim, a prediction, a verdict |
//! | `lab` | runs an experiment |
//! | `programs` | the programs: ping-pong, streams, collectives, queues |
//! | `seastar` | seed 003: interrupts, posted receives, collectives, flow control |
//! | `pac` | seed 000: unexpected messages, eager and rendezvous, patterns of benchmarks |
//! | `counting` | seed 004: counting puts |
//! | `extoll` | seed 002: the EXTOLL prototype and its successors |
//! | `sharp` | seed 001: reduction in the switches |
//! | `icofoam` | seed 001: an application that reduces in them |
//! | `interfaces` | seed 002: how commands reach a NIC, the path through the kernel, full mailboxes |
//! | `atoll` | seed 002: ATOLL |
//! | `page` | the results as a Markdown page |

mod atoll;
mod claim;
mod counting;
mod extoll;
mod icofoam;
mod interfaces;
mod lab;
mod pac;
mod page;
mod programs;
mod seastar;
mod sharp;

pub use claim::{
    CROSSING_HOLDS, CROSSING_NEAR, Claim, Figure, HOLDS_PERCENT, NEAR_PERCENT, Sensitivity, TIE_PERCENT, Verdict, short,
};
pub use lab::ValidateError;

use serde::Serialize;

/// The documents whose claims are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Document {
    /// Seed 003.
    Seastar,
    /// Seed 000.
    Pac,
    /// Seed 004.
    Counting,
    /// Seed 002.
    Extoll,
    /// Seed 001.
    Sharp,
}

impl Document {
    pub const ALL: [Document; 5] =
        [Document::Seastar, Document::Pac, Document::Counting, Document::Extoll, Document::Sharp];

    pub fn title(self) -> &'static str {
        match self {
            Document::Seastar => "SeaStar: Portals on the host and on the NIC (seed 003)",
            Document::Pac => "PAC: an engine for Portals against software (seed 000)",
            Document::Counting => "Counting puts on QDR InfiniBand (seed 004)",
            Document::Extoll => "EXTOLL: messages, puts, gets and locks on the prototype (seed 002)",
            Document::Sharp => "SHArP: all-reduce in the switches (seed 001)",
        }
    }
}

/// The extent of a validation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Quick: fewer sizes and fewer nodes.
    pub quick: bool,
}

impl Plan {
    /// Returns `whole`, or in a quick run `quick`.
    pub(crate) fn pick<T>(self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }
}

/// A simulated curve, or several over the same x.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// The name of its file, without an extension.
    pub name: &'static str,
    pub title: String,
    pub x: AxisOf,
    pub y: AxisOf,
    pub lines: Vec<CurveLine>,
    /// A description of the experiment.
    pub about: String,
}

/// The quantity and the scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AxisOf {
    pub label: &'static str,
    /// Base of a logarithmic axis.
    pub logarithmic: Option<u32>,
}

impl AxisOf {
    pub(crate) const fn linear(label: &'static str) -> AxisOf {
        AxisOf { label, logarithmic: None }
    }

    pub(crate) const fn logarithmic(label: &'static str, base: u32) -> AxisOf {
        AxisOf { label, logarithmic: Some(base) }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CurveLine {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

impl CurveLine {
    pub(crate) fn new(name: impl Into<String>, x: &[f64], y: &[f64]) -> CurveLine {
        CurveLine { name: name.into(), points: x.iter().copied().zip(y.iter().copied()).collect() }
    }
}

/// The results for one document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    pub document: Document,
    pub claims: Vec<Claim>,
    pub curves: Vec<Curve>,
    /// Claims of the document that are not compared.
    pub left_out: Vec<&'static str>,
}

/// Runs the experiments of a document. `progress` is called with the name of each before it starts.
///
/// # Errors
/// An experiment does not run to its end, or a program has received wrong payload.
pub fn run(document: Document, plan: Plan, progress: &mut dyn FnMut(&str)) -> Result<Results, ValidateError> {
    let mut results = Results { document, claims: Vec::new(), curves: Vec::new(), left_out: Vec::new() };
    match document {
        Document::Seastar => seastar::run(plan, &mut results, progress)?,
        Document::Pac => pac::run(plan, &mut results, progress)?,
        Document::Counting => counting::run(plan, &mut results, progress)?,
        Document::Extoll => extoll::run(plan, &mut results, progress)?,
        Document::Sharp => sharp::run(plan, &mut results, progress)?,
    }
    Ok(results)
}

pub use page::{markdown, word};
