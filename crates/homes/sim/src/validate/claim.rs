// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A claim of a seed, the prediction of the simulator, and the verdict.
//!
//! Invariants
//! 1. Published and simulated figures are in separate fields: [`Claim::published`], [`Claim::predicted`].
//! 2. Verdicts follow from two thresholds ([`HOLDS_PERCENT`], [`NEAR_PERCENT`]) that were fixed before the first run.
//! 3. A figure that is an input of the model, or the sum of inputs, has no verdict: the model does not predict it.
//! 4. A figure that the source contradicts elsewhere is shown apart, and has no verdict.
//! 5. A claim that is tested against its assumed figures lists its result with each of them halved and doubled
//!    ([`Sensitivity`]).

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// Largest error of a prediction that holds, in percent of the published number.
pub const HOLDS_PERCENT: f64 = 15.0;
/// Largest error of a prediction that is near, in percent of the published number.
pub const NEAR_PERCENT: f64 = 35.0;
/// In a claimed order, two values that differ by at most this, in percent, are a tie.
pub const TIE_PERCENT: f64 = 2.0;

/// A crossing of two curves holds within this factor of the published size.
pub const CROSSING_HOLDS: f64 = 1.5;
/// A crossing is near within this factor of the published size.
pub const CROSSING_NEAR: f64 = 2.25;

/// A prediction with one assumed figure halved or doubled.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// The key of the machine.
    pub key: String,
    /// Factor of the figure.
    pub factor: f64,
    pub predicted: String,
    /// Whether the claim still holds.
    pub holds: bool,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within [`HOLDS_PERCENT`], or the order is right everywhere.
    Holds,
    /// Within [`NEAR_PERCENT`], or the order is right except for ties.
    Near,
    Misses,
    /// An input of the model, or the sum of inputs. It is shown, and proves nothing.
    Input,
    /// The source contradicts it in another place.
    Contradicted,
    /// Something is missing that the claim needs; its note says what.
    CannotTell,
    /// A figure that is only shown.
    NotComparable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Verdict::Holds => "holds",
            Verdict::Near => "near",
            Verdict::Misses => "misses",
            Verdict::Input => "input",
            Verdict::Contradicted => "apart",
            Verdict::CannotTell => "cannot tell",
            Verdict::NotComparable => "-",
        })
    }
}

/// A published or predicted figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    Number(f64),
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// From, to.
    Range(f64, f64),
    /// Text, for an order or a shape.
    Words(String),
}

impl fmt::Display for Figure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Number(value) => out.write_str(&short(*value)),
            Figure::AtLeast(value) => write!(out, ">= {}", short(*value)),
            Figure::AtMost(value) => write!(out, "<= {}", short(*value)),
            Figure::Range(from, to) => write!(out, "{} to {}", short(*from), short(*to)),
            Figure::Words(words) => out.write_str(words),
        }
    }
}

/// Formats a number with three significant digits, or more if it has more digits before the point.
pub fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A claim and its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// For instance `seastar-1a`.
    pub id: Cow<'static, str>,
    /// For instance "seed 003, VII".
    pub source: Cow<'static, str>,
    pub text: String,
    pub published: Figure,
    pub predicted: Figure,
    pub unit: Cow<'static, str>,
    /// Error of the prediction, in percent of the published number.
    pub error_percent: Option<f64>,
    pub verdict: Verdict,
    /// Predictions with other values of assumed figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Sensitivity>,
    /// Reason for a miss, or the figures that the prediction depends on.
    pub note: String,
}

impl Claim {
    fn new(
        id: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        published: Figure,
    ) -> Claim {
        Claim {
            id: id.into(),
            source: source.into(),
            text: text.into(),
            published,
            predicted: Figure::Words(String::new()),
            unit: "".into(),
            error_percent: None,
            verdict: Verdict::NotComparable,
            moved: Vec::new(),
            note: String::new(),
        }
    }

    /// Compares a number with a number.
    pub fn number(
        id: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        (published, predicted, unit): (f64, f64, &'static str),
    ) -> Claim {
        let error = 100.0 * (predicted - published) / published;
        let verdict = graded(error.abs());
        Claim {
            predicted: Figure::Number(predicted),
            unit: unit.into(),
            error_percent: Some(error),
            verdict,
            ..Claim::new(id, source, text, Figure::Number(published))
        }
    }

    /// Compares a number with a lower bound; a number above it has no error.
    pub fn at_least(
        id: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        (published, predicted, unit): (f64, f64, &'static str),
    ) -> Claim {
        let error = (100.0 * (predicted - published) / published).min(0.0);
        Claim {
            predicted: Figure::Number(predicted),
            unit: unit.into(),
            error_percent: Some(error),
            verdict: if error < 0.0 { worse_than_holds(graded(-error), -error) } else { Verdict::Holds },
            ..Claim::new(id, source, text, Figure::AtLeast(published))
        }
    }

    /// Compares a number with an upper bound; a number below it has no error.
    pub fn at_most(
        id: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        (published, predicted, unit): (f64, f64, &'static str),
    ) -> Claim {
        let error = (100.0 * (predicted - published) / published).max(0.0);
        Claim {
            predicted: Figure::Number(predicted),
            unit: unit.into(),
            error_percent: Some(error),
            verdict: if error > 0.0 { worse_than_holds(graded(error), error) } else { Verdict::Holds },
            ..Claim::new(id, source, text, Figure::AtMost(published))
        }
    }

    /// Compares a range with a range; the error is that of the end with the larger error.
    pub fn range(
        id: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        (published, predicted, unit): ((f64, f64), (f64, f64), &'static str),
    ) -> Claim {
        let beyond = |value: f64| match value {
            _ if value < published.0 => 100.0 * (value - published.0) / published.0,
            _ if value > published.1 => 100.0 * (value - published.1) / published.1,
            _ => 0.0,
        };
        let (low, high) = (beyond(predicted.0), beyond(predicted.1));
        let error = if low.abs() > high.abs() { low } else { high };
        let shown = if predicted.0 == predicted.1 {
            Figure::Number(predicted.0)
        } else {
            Figure::Range(predicted.0, predicted.1)
        };
        Claim {
            predicted: shown,
            unit: unit.into(),
            error_percent: Some(error),
            verdict: graded(error.abs()),
            ..Claim::new(id, source, text, Figure::Range(published.0, published.1))
        }
    }

    /// Checks an order; each pair is (the value that must be greater, the value that must be less).
    pub fn order(
        id: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        (published, pairs): (&str, &[(f64, f64)]),
    ) -> Claim {
        let right = pairs.iter().filter(|(more, less)| more > less).count();
        let tied = |(more, less): &&(f64, f64)| more <= less && (less - more) <= less.abs() * TIE_PERCENT / 100.0;
        let ties = pairs.iter().filter(tied).count();
        let verdict = match pairs.len() {
            0 => Verdict::NotComparable,
            all if right == all => Verdict::Holds,
            all if right + ties == all && right > 0 => Verdict::Near,
            _ => Verdict::Misses,
        };
        let predicted = match ties {
            0 => format!("right in {right} of {}", pairs.len()),
            _ => format!("right in {right} of {}, {ties} tied", pairs.len()),
        };
        Claim {
            predicted: Figure::Words(predicted),
            verdict,
            ..Claim::new(id, source, text, Figure::Words(published.to_owned()))
        }
    }

    /// Checks a fact, which is true or false.
    pub fn fact(
        id: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        (published, predicted, so): (&str, String, bool),
    ) -> Claim {
        Claim {
            predicted: Figure::Words(predicted),
            verdict: if so { Verdict::Holds } else { Verdict::Misses },
            ..Claim::new(id, source, text, Figure::Words(published.to_owned()))
        }
    }

    /// Shows a figure without a verdict: an input, or a number without a published counterpart.
    pub fn shown(
        id: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        (published, predicted, unit): (Figure, Figure, &'static str),
    ) -> Claim {
        Claim { predicted, unit: unit.into(), ..Claim::new(id, source, text, published) }
    }

    /// Compares two numbers by their own limit, in percent. Near within twice the limit.
    pub fn within(
        id: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        figures: (f64, f64, &'static str),
        limit_percent: f64,
    ) -> Claim {
        let mut claim = Claim::number(id, source, text, figures);
        let error = claim.error_percent.map_or(f64::INFINITY, f64::abs);
        claim.verdict = match error {
            _ if error <= limit_percent => Verdict::Holds,
            _ if error <= 2.0 * limit_percent => Verdict::Near,
            _ => Verdict::Misses,
        };
        claim
    }

    /// Compares two percentages by the points between them, as errors of small ones are large. Near within twice the
    /// limit.
    pub fn within_points(
        id: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        (published, predicted): (f64, f64),
        limit: f64,
    ) -> Claim {
        let verdict = match (predicted - published).abs() {
            points if points <= limit => Verdict::Holds,
            points if points <= 2.0 * limit => Verdict::Near,
            _ => Verdict::Misses,
        };
        Claim {
            predicted: Figure::Number(predicted),
            unit: "%".into(),
            verdict,
            ..Claim::new(id, source, text, Figure::Number(published))
        }
    }

    /// Compares a size at which two curves cross. It holds within a factor of [`CROSSING_HOLDS`] and is near within
    /// [`CROSSING_NEAR`], because figures are read at sizes a factor of two apart. `None`: the curves do not cross.
    pub fn crossing(
        id: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        (published, predicted): (f64, Option<f64>),
    ) -> Claim {
        let Some(predicted) = predicted else {
            return Claim {
                predicted: Figure::Words("no crossing".to_owned()),
                unit: "bytes".into(),
                verdict: Verdict::Misses,
                ..Claim::new(id, source, text, Figure::Number(published))
            };
        };
        let factor = (predicted / published).max(published / predicted);
        let verdict = match factor {
            _ if factor <= CROSSING_HOLDS => Verdict::Holds,
            _ if factor <= CROSSING_NEAR => Verdict::Near,
            _ => Verdict::Misses,
        };
        Claim { verdict, ..Claim::number(id, source, text, (published, predicted, "bytes")) }
    }

    /// Marks the claim as an input of the model: its error is shown, and it has no verdict.
    pub fn input(self) -> Claim {
        Claim { verdict: Verdict::Input, ..self }
    }

    /// Marks the claim as contradicted by its source, with the reason.
    pub fn contradicted(self, why: impl Into<String>) -> Claim {
        Claim { verdict: Verdict::Contradicted, ..self }.note(why)
    }

    /// Adds predictions with assumed figures halved or doubled. If one does not hold, the claim is near at best.
    pub fn moved(mut self, moved: Vec<Sensitivity>) -> Claim {
        if self.verdict == Verdict::Holds && moved.iter().any(|moved| !moved.holds) {
            self.verdict = Verdict::Near;
        }
        self.moved = moved;
        self
    }

    pub fn note(mut self, note: impl Into<String>) -> Claim {
        self.note = note.into();
        self
    }
}

fn graded(error_percent: f64) -> Verdict {
    match error_percent {
        _ if error_percent <= HOLDS_PERCENT => Verdict::Holds,
        _ if error_percent <= NEAR_PERCENT => Verdict::Near,
        _ => Verdict::Misses,
    }
}

/// Lowers a verdict that holds: a missed bound does not hold, however small the difference.
fn worse_than_holds(verdict: Verdict, missing_percent: f64) -> Verdict {
    if verdict == Verdict::Holds && missing_percent > TIE_PERCENT { Verdict::Near } else { verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_their_thresholds() {
        let verdict = |predicted| Claim::number("x", "y", "", (100.0, predicted, "")).verdict;
        assert_eq!(verdict(115.0), Verdict::Holds);
        assert_eq!(verdict(84.0), Verdict::Near);
        assert_eq!(verdict(136.0), Verdict::Misses);
        let least = |predicted| Claim::at_least("x", "y", "", (10.0, predicted, "")).verdict;
        assert_eq!(
            (least(400.0), least(9.9), least(9.0), least(6.0)),
            (Verdict::Holds, Verdict::Holds, Verdict::Near, Verdict::Misses)
        );
    }

    #[test]
    fn limits_of_a_claim_and_crossings_have_their_own_thresholds() {
        let within = |predicted| Claim::within("x", "y", "", (100.0, predicted, ""), 10.0).verdict;
        assert_eq!((within(110.0), within(81.0), within(79.0)), (Verdict::Holds, Verdict::Near, Verdict::Misses));
        let points = |predicted| Claim::within_points("x", "y", "", (2.0, predicted), 5.0).verdict;
        assert_eq!((points(-3.0), points(11.0), points(12.5)), (Verdict::Holds, Verdict::Near, Verdict::Misses));
        let crossing = |predicted| Claim::crossing("x", "y", "", (400.0, predicted)).verdict;
        assert_eq!((crossing(Some(600.0)), crossing(Some(266.0))), (Verdict::Holds, Verdict::Near));
        assert_eq!((crossing(Some(901.0)), crossing(None)), (Verdict::Misses, Verdict::Misses));
    }

    #[test]
    fn an_assumption_that_decides_makes_a_claim_near_and_an_input_proves_nothing() {
        let moved = |holds| Sensitivity { key: "unit.x".into(), factor: 0.5, predicted: String::new(), holds };
        let claim = || Claim::order("x", "y", "", ("", &[(2.0, 1.0)]));
        assert_eq!(claim().moved(vec![moved(true)]).verdict, Verdict::Holds);
        assert_eq!(claim().moved(vec![moved(true), moved(false)]).verdict, Verdict::Near);
        assert_eq!(claim().input().verdict, Verdict::Input);
        assert_eq!(claim().contradicted("why").verdict, Verdict::Contradicted);
    }

    #[test]
    fn an_order_holds_everywhere_or_is_near_where_it_ties() {
        let verdict = |pairs: &[(f64, f64)]| Claim::order("x", "y", "", ("", pairs)).verdict;
        assert_eq!(verdict(&[(2.0, 1.0), (3.0, 2.0)]), Verdict::Holds);
        assert_eq!(verdict(&[(2.0, 1.0), (2.0, 2.01)]), Verdict::Near);
        assert_eq!(verdict(&[(2.0, 1.0), (1.0, 2.0)]), Verdict::Misses);
        assert_eq!(verdict(&[]), Verdict::NotComparable);
    }

    #[test]
    fn a_range_errs_by_its_further_end() {
        let claim = Claim::range("x", "y", "", ((10.0, 20.0), (5.0, 22.0), "%"));
        assert_eq!(claim.error_percent, Some(-50.0));
        assert_eq!(claim.verdict, Verdict::Misses);
    }
}
