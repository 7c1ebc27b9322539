// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Published figures of a scenario, and the verdict on the study's prediction of each.
//!
//! ```toml
//! [[claim]]
//! id = "counting-3"
//! source = "seed 004, figure 3"
//! text = "data, fence and flag take twice the time of a counting put"
//! figure = "time (us)"              # a column of the table
//! where = { case = "flag" }         # the rows that count: values of axes and of x
//! over = { case = "counting" }      # compared with these rows of the same other values;
//!                                   # or against = COLUMN: compared with another column of the same rows
//! value = 2.0                       # or at_least, at_most, range = [FROM, TO], order = "greater" or "less"
//! unit = "times"
//! ```
//!
//! | key | meaning |
//! |---|---|
//! | `as` | `ratio` of the two (default with `over` and `against`), `less` or `more`: percent by which the first is less or more, `difference` |
//! | `holds` | largest error in percent; default [`selvedge_sim::validate::HOLDS_PERCENT`] |
//! | `input` | the reason why the figure is an input of the model: it proves nothing |
//! | `note` | what the prediction hangs on |
//!
//! A claim whose rows are not there *cannot be told*. `value` compares the mean over all rows; the others compare each row.

use std::collections::BTreeMap;

use selvedge_sim::validate::{Claim, Figure, Verdict};
use serde::Deserialize;
use serde_json::Value as Json;

use super::table::{self, Table};

/// A published figure, as the scenario has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub id: String,
    pub source: String,
    pub text: String,
    figure: String,
    #[serde(default, rename = "where")]
    rows: BTreeMap<String, Json>,
    over: Option<BTreeMap<String, Json>>,
    against: Option<String>,
    #[serde(rename = "as")]
    compared: Option<Compared>,
    value: Option<f64>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    range: Option<(f64, f64)>,
    order: Option<Order>,
    #[serde(default)]
    unit: String,
    holds: Option<f64>,
    input: Option<String>,
    #[serde(default)]
    note: String,
}

/// How two figures are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Compared {
    Ratio,
    Less,
    More,
    Difference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Order {
    Greater,
    Less,
}

impl Published {
    /// Checks that the claim says one thing. The error has no place in the file.
    pub fn check(&self) -> Result<(), String> {
        let given = [self.value.is_some(), self.at_least.is_some(), self.at_most.is_some(), self.range.is_some()];
        let count = given.iter().filter(|is_given| **is_given).count() + usize::from(self.order.is_some());
        if count != 1 {
            return Err("needs one of value, at_least, at_most, range and order".to_owned());
        }
        if self.over.is_some() && self.against.is_some() {
            return Err("is compared with rows or with a column; leave out `over` or `against`".to_owned());
        }
        let is_alone = self.over.is_none() && self.against.is_none();
        if is_alone && (self.order.is_some() || self.compared.is_some()) {
            return Err("needs `over` or `against`: the rows or the column with which it compares".to_owned());
        }
        if self.order.is_some() && self.compared.is_some() {
            return Err("has an order, which compares the figures themselves; leave out `as`".to_owned());
        }
        if self.holds.is_some() && self.value.is_none() {
            return Err("`holds` is the limit of a `value`".to_owned());
        }
        if self.range.is_some_and(|(from, to)| from > to) {
            return Err("`range` leads from the lesser to the greater".to_owned());
        }
        if [self.value, self.at_least, self.at_most].into_iter().flatten().any(|value| value == 0.0) {
            return Err("a published figure of 0 has no error in percent; write a range".to_owned());
        }
        Ok(())
    }

    /// Compares the claim with a table.
    pub fn judged(&self, table: &Table) -> Claim {
        let claim = match self.pairs(table) {
            Err(why) => self.untold(&why),
            Ok(pairs) => self.compare(&pairs),
        };
        let claim = match &self.input {
            Some(why) => Claim { verdict: Verdict::Input, ..claim }.note(format!("{why}. {}", self.note).trim()),
            None if claim.note.is_empty() => claim.note(self.note.as_str()),
            None => claim,
        };
        Claim { unit: self.unit.clone().into(), ..claim }
    }

    fn untold(&self, why: &str) -> Claim {
        let published = match (self.value.or(self.at_least), self.at_most, self.range) {
            (Some(value), ..) => Figure::Number(value),
            (None, Some(value), _) => Figure::AtMost(value),
            (None, None, Some((from, to))) => Figure::Range(from, to),
            (None, None, None) => Figure::Words(self.order_words().to_owned()),
        };
        let figures = (published, Figure::Words(String::new()), "");
        let claim = Claim::shown(self.id.clone(), self.source.clone(), self.text.clone(), figures).note(why);
        Claim { verdict: Verdict::CannotTell, ..claim }
    }

    fn order_words(&self) -> &'static str {
        if self.order == Some(Order::Less) { "less" } else { "greater" }
    }

    fn compare(&self, pairs: &[(f64, Option<f64>)]) -> Claim {
        let (id, source, text) = (self.id.clone(), self.source.clone(), self.text.clone());
        if let Some(order) = self.order {
            let pairs: Vec<(f64, f64)> = pairs.iter().filter_map(|(a, b)| Some((*a, (*b)?))).collect();
            let pairs: Vec<_> = match order {
                Order::Greater => pairs,
                Order::Less => pairs.into_iter().map(|(a, b)| (b, a)).collect(),
            };
            return Claim::order(id, source, text, (self.order_words(), &pairs));
        }
        let values: Vec<f64> = pairs.iter().map(|pair| self.value_of(*pair)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match (self.value, self.at_least, self.at_most, self.range) {
            (Some(value), ..) => match self.holds {
                Some(limit) => Claim::within(id, source, text, (value, mean, ""), limit),
                None => Claim::number(id, source, text, (value, mean, "")),
            },
            (_, Some(value), ..) => Claim::at_least(id, source, text, (value, least, "")),
            (_, _, Some(value), _) => Claim::at_most(id, source, text, (value, most, "")),
            (.., range) => Claim::range(id, source, text, (range.unwrap_or_default(), (least, most), "")),
        }
    }

    fn value_of(&self, (a, b): (f64, Option<f64>)) -> f64 {
        let Some(b) = b else { return a };
        match self.compared.unwrap_or(Compared::Ratio) {
            Compared::Ratio => a / b,
            Compared::Less => 100.0 * (b - a) / b,
            Compared::More => 100.0 * (a - b) / b,
            Compared::Difference => a - b,
        }
    }

    /// The figure of each row that counts, and that of the row it is compared with.
    fn pairs(&self, table: &Table) -> Result<Vec<(f64, Option<f64>)>, String> {
        let column_of = |name: &String| table.at(name).ok_or_else(|| format!("the table has no column {name}"));
        let column = column_of(&self.figure)?;
        let against = self.against.as_ref().map(column_of).transpose()?;
        // Rows are compared where all else is equal.
        let named: Vec<usize> = self
            .rows
            .keys()
            .chain(self.over.iter().flat_map(BTreeMap::keys))
            .map(column_of)
            .collect::<Result<_, _>>()?;
        let places = table.axes.len() + usize::from(table.has_x);
        let rest = |row: &[Json]| -> Vec<String> {
            let others = (0..places).filter(|at| !named.contains(at) && *at != column);
            others.map(|at| table::words(&row[at])).collect()
        };
        let of = |filter: &BTreeMap<String, Json>| -> Vec<(Vec<String>, f64, Option<f64>)> {
            let fits = |row: &&Vec<Json>| {
                filter.iter().all(|(name, value)| table.at(name).is_some_and(|at| is_same(&row[at], value)))
            };
            let rows = table.rows.iter().filter(fits);
            rows.filter_map(|row| {
                let other = against.map(|at| row[at].as_f64());
                if other == Some(None) { None } else { Some((rest(row), row[column].as_f64()?, other.flatten())) }
            })
            .collect()
        };
        let counted = of(&self.rows);
        let pairs: Vec<(f64, Option<f64>)> = match &self.over {
            None => counted.iter().map(|(_, value, other)| (*value, *other)).collect(),
            Some(over) => {
                let over = of(over);
                let beside =
                    |key: &Vec<String>| over.iter().find(|(other, ..)| other == key).map(|(_, value, _)| *value);
                counted.iter().filter_map(|(key, value, _)| Some((*value, Some(beside(key)?)))).collect()
            }
        };
        if pairs.is_empty() { Err("no finished cell has the figure".to_owned()) } else { Ok(pairs) }
    }
}

/// Whether a value of the table is the one that a claim names. Numbers are equal as numbers.
fn is_same(value: &Json, named: &Json) -> bool {
    match (value.as_f64(), named.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => table::words(value) == table::words(named),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn published(text: &str) -> Published {
        let head = "id = 'a'\nsource = 's'\ntext = 't'\nfigure = 'us'\n";
        let claim: Published = toml::from_str(&format!("{head}{text}")).unwrap();
        claim.check().unwrap();
        claim
    }

    fn table() -> Table {
        let row = |case: &str, bytes: u32, us: f64| vec![json!(case), json!(bytes), json!(us)];
        Table {
            axes: vec!["case".into()],
            columns: vec!["bytes".into(), "us".into()],
            has_x: true,
            rows: vec![row("flag", 8, 2.0), row("flag", 64, 3.0), row("counting", 8, 1.0), row("counting", 64, 1.6)],
        }
    }

    fn verdict(text: &str) -> Verdict {
        published(text).judged(&table()).verdict
    }

    const FLAG_OVER: &str = "where = { case = 'flag' }\nover = { case = 'counting' }\n";

    #[test]
    fn rows_are_compared_where_all_else_is_equal() {
        let claim = published(&format!("{FLAG_OVER}value = 1.94\nunit = 'times'")).judged(&table());
        // The mean of 2.0 and 1.875.
        assert_eq!((claim.predicted, claim.unit.as_ref()), (Figure::Number(1.9375), "times"));
        let at_8 = "where = { case = 'flag', bytes = 8 }\nover = { case = 'counting', bytes = 8 }\n";
        assert_eq!(verdict(&format!("{at_8}value = 2")), Verdict::Holds);
        assert_eq!(verdict(&format!("{at_8}value = 1.5")), Verdict::Near);
        assert_eq!(verdict(&format!("{at_8}value = 1.9\nholds = 2")), Verdict::Misses);
        assert_eq!(verdict(&format!("{at_8}value = 100\nas = 'more'")), Verdict::Holds);
        assert_eq!(verdict(&format!("{FLAG_OVER}range = [1.8, 2.0]")), Verdict::Holds);
        assert_eq!(verdict(&format!("{FLAG_OVER}at_least = 2.0")), Verdict::Near);
        assert_eq!(verdict(&format!("{FLAG_OVER}at_most = 2.0")), Verdict::Holds);
        assert_eq!(verdict(&format!("{FLAG_OVER}order = 'greater'")), Verdict::Holds);
        assert_eq!(verdict(&format!("{FLAG_OVER}order = 'less'")), Verdict::Misses);
        assert_eq!(verdict("where = { case = 'flag', bytes = 8 }\nvalue = 2\ninput = 'it is given'"), Verdict::Input);
    }

    #[test]
    fn columns_of_one_row_are_compared() {
        let mut table = table();
        table.columns.push("other".into());
        for row in &mut table.rows {
            row.push(json!(row[2].as_f64().unwrap() * 2.0));
        }
        let verdict = |text: &str| published(text).judged(&table).verdict;
        assert_eq!(verdict("against = 'other'\norder = 'less'"), Verdict::Holds);
        assert_eq!(verdict("against = 'other'\norder = 'greater'"), Verdict::Misses);
        assert_eq!(verdict("against = 'other'\nvalue = 0.5"), Verdict::Holds);
        assert_eq!(verdict("against = 'absent'\nvalue = 0.5"), Verdict::CannotTell);
    }

    #[test]
    fn what_is_not_there_cannot_be_told() {
        assert_eq!(verdict("where = { case = 'signal' }\nvalue = 2"), Verdict::CannotTell);
        assert_eq!(verdict("where = { bits = 2 }\nvalue = 2"), Verdict::CannotTell);
    }

    #[test]
    fn a_claim_says_one_thing() {
        let wrong = |text: &str| {
            let head = "id = 'a'\nsource = 's'\ntext = 't'\nfigure = 'us'\n";
            toml::from_str::<Published>(&format!("{head}{text}")).unwrap().check().unwrap_err()
        };
        assert!(wrong("").contains("needs one of"));
        assert!(wrong("value = 1\nat_least = 2").contains("needs one of"));
        assert!(wrong("order = 'less'").contains("over"));
        assert!(wrong("order = 'less'\nover = {}\nagainst = 'b'").contains("leave out"));
        assert!(wrong("value = 0").contains("write a range"));
        assert!(wrong("range = [2, 1]").contains("lesser"));
    }
}
