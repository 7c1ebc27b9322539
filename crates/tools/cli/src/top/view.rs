// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows of `selvedge top`, for standard output and for the screen: cells with their text and their order.

use std::cmp::Ordering;

use selvedge_host::snapshot::printable;
use selvedge_terminal::{Cell, Table, Tone};

/// Rows under heads, and lines below them.
pub struct View {
    /// As of [`Table::new`]: `>` begins the head of a column of numbers.
    pub heads: &'static [&'static str],
    pub rows: Vec<Vec<Field>>,
    pub notes: Vec<String>,
}

/// A cell of a row.
#[derive(Clone, Debug)]
pub struct Field {
    pub text: String,
    /// The number by which rows are sorted; `None`: they are sorted by the text.
    pub number: Option<f64>,
    pub tone: Option<Tone>,
}

impl Field {
    /// Text of another process, without its control characters.
    pub fn text(text: &str) -> Field {
        Field { text: printable(text), number: None, tone: None }
    }

    /// A number that is shown in full.
    pub fn whole(number: u64) -> Field {
        Field { text: number.to_string(), number: Some(number as f64), tone: None }
    }

    /// A number in at most five characters.
    pub fn short(number: f64) -> Field {
        Field { text: short(number), number: Some(number), tone: None }
    }

    /// The same with a unit.
    pub fn with_unit(number: f64, unit: &str) -> Field {
        Field { text: format!("{} {unit}", short(number)), ..Field::short(number) }
    }

    /// A rate; unknown without an earlier snapshot.
    pub fn rate(number: Option<f64>) -> Field {
        number.map_or_else(Field::none, Field::short)
    }

    /// No number; it comes after all numbers.
    pub fn none() -> Field {
        Field { text: "-".to_owned(), number: Some(-1.0), tone: None }
    }

    /// The state of a NIC or a link, in one word.
    pub fn state(word: &str) -> Field {
        let tone = match word {
            "ready" | "open" => None,
            "closed" | "connecting" | "ending" => Some(Tone::Doubtful),
            _ => Some(Tone::Bad),
        };
        Field { tone, ..Field::text(word) }
    }

    /// The order of two fields of one column, the smaller one first.
    pub fn order(&self, other: &Field) -> Ordering {
        match (self.number, other.number) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => self.text.cmp(&other.text),
        }
    }
}

impl View {
    /// The rows as whole lines for standard output.
    pub fn text(&self) -> String {
        let mut table = Table::new(self.heads);
        let cell = |field: &Field| match field.tone {
            Some(tone) => Cell::toned(&field.text, tone),
            None => Cell::new(&field.text),
        };
        self.rows.iter().for_each(|row| table.row(row.iter().map(cell)));
        table.text()
    }
}

/// A number in at most five characters, up to 10^15: "999", "9.99k", "123M".
fn short(value: f64) -> String {
    let units = ["", "k", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (value, 0);
    // 999.5 would be printed as 1000.
    while value >= 999.5 && unit + 1 < units.len() {
        (value, unit) = (value / 1000.0, unit + 1);
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.4, "0"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (9_994.0, "9.99k"),
            (9_996.0, "10.0k"),
            (99_960.0, "100k"),
            (999_600.0, "1.00M"),
            (12_345_678.0, "12.3M"),
            (u64::MAX as f64, "18.4E"),
        ] {
            assert_eq!(short(value), text, "{value}");
            assert!(short(value).len() <= 5);
        }
    }

    #[test]
    fn numbers_are_ordered_by_value_and_text_by_letters() {
        assert_eq!(Field::short(9_994.0).order(&Field::short(12_000.0)), Ordering::Less);
        assert_eq!(Field::none().order(&Field::short(0.0)), Ordering::Less);
        assert_eq!(Field::text("b").order(&Field::text("a")), Ordering::Greater);
        assert_eq!(Field::with_unit(2.0, "us").order(&Field::none()), Ordering::Greater);
    }
}
