// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures that a program prints: a scenario names them, each with a regular expression for a line of the output.
//!
//! ```toml
//! [figures]
//! "time (us)" = '^ *(?P<bytes>\d+) +([0-9.]+)$'   # 8  1.69
//! ```
//!
//! The group without a name is the figure. A named group is its x: the table has a row for each, in a column of that
//! name. Figures without one have one value for each cell: the mean of all lines that match.
//!
//! Invariant: figures with an x share its name, as all rows of a table do.

use regex::Regex;
use serde_json::{Value, json};

/// A figure of a program's output.
#[derive(Clone, Debug)]
pub struct Figure {
    pub name: String,
    line: Regex,
    /// Number of the group that is the figure, and name of the group that is its x.
    group: usize,
    x: Option<String>,
}

impl Figure {
    /// Makes a figure from its name and its expression. The error has no place in the file.
    pub fn new(name: &str, expression: &str) -> Result<Figure, String> {
        let line = Regex::new(expression).map_err(|error| {
            let said = error.to_string();
            format!("is no regular expression: {}", said.lines().last().unwrap_or_default().trim())
        })?;
        let named: Vec<&str> = line.capture_names().flatten().collect();
        let unnamed: Vec<usize> =
            line.capture_names().enumerate().skip(1).filter(|(_, name)| name.is_none()).map(|(at, _)| at).collect();
        let ([group], [] | [_]) = (&unnamed[..], &named[..]) else {
            return Err("needs one group for the number, and for rows by x one more with a name, as in \
                        '^ *(?P<bytes>\\d+) +([0-9.]+)'"
                .to_owned());
        };
        let (group, x) = (*group, named.first().map(|name| (*name).to_owned()));
        Ok(Figure { name: name.to_owned(), line, group, x })
    }

    /// The value that a line has, and its x.
    fn of(&self, line: &str) -> Option<(Option<f64>, f64)> {
        let found = self.line.captures(line)?;
        let number = |text: &str| text.replace(',', "").parse::<f64>().ok().filter(|number| number.is_finite());
        let x = match &self.x {
            Some(name) => Some(number(found.name(name)?.as_str())?),
            None => None,
        };
        Some((x, number(found.get(self.group)?.as_str())?))
    }
}

/// Refuses figures whose x have different names.
pub fn check(figures: &[Figure]) -> Result<(), String> {
    let mut names = figures.iter().filter_map(|figure| figure.x.as_ref());
    let Some(first) = names.next() else { return Ok(()) };
    match names.find(|name| *name != first) {
        Some(other) => Err(format!("the x of figures is `{first}` and `{other}`; give both groups one name")),
        None => Ok(()),
    }
}

/// Adds the figures of an output to the report of its cell. Returns the names of those that no line has.
pub fn add<'f>(figures: &'f [Figure], output: &str, report: &mut Value) -> Vec<&'f str> {
    let (mut series, mut missing) = (Vec::new(), Vec::new());
    for figure in figures {
        let found: Vec<(Option<f64>, f64)> = output.lines().filter_map(|line| figure.of(line)).collect();
        if found.is_empty() {
            missing.push(figure.name.as_str());
        } else if figure.x.is_some() {
            let points: Vec<Value> = found.iter().map(|(x, y)| json!([x, y])).collect();
            series.push(json!({ "name": figure.name, "points": points }));
        } else {
            let mean = found.iter().map(|(_, y)| y).sum::<f64>() / found.len() as f64;
            report[&figure.name] = json!(mean);
        }
    }
    let x = figures.iter().find_map(|figure| figure.x.clone()).unwrap_or_default();
    report["results"] = json!({ "x": x, "series": series });
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_their_lines() {
        let figures = [
            Figure::new("put (us)", r"^ *(?P<bytes>\d+) +([0-9.]+)").unwrap(),
            Figure::new("rate", r"^rank \d+: ([0-9.,]+) puts/s$").unwrap(),
            Figure::new("absent", r"^never (\d+)").unwrap(),
        ];
        let mut report = json!({ "end": "completed", "results": {} });
        let output =
            "     bytes   put\n         8   1.69  2.0\n      4096   4.16\nrank 0: 1,000 puts/s\nrank 1: 3,000 puts/s\n";
        assert_eq!(add(&figures, output, &mut report), ["absent"]);
        assert_eq!(report["rate"], 2000.0);
        let expected =
            json!({ "x": "bytes", "series": [{ "name": "put (us)", "points": [[8.0, 1.69], [4096.0, 4.16]] }] });
        assert_eq!(report["results"], expected);
    }

    #[test]
    fn an_expression_that_names_no_number_is_refused() {
        for (expression, why) in [
            ("[", "is no regular expression"),
            ("abc", "needs one group"),
            ("(a)(b)", "needs one group"),
            ("(?P<x>a)", "needs one group"),
        ] {
            let said = Figure::new("f", expression).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let two = [Figure::new("a", r"(?P<bytes>\d+) (\d)").unwrap(), Figure::new("b", r"(?P<size>\d+) (\d)").unwrap()];
        assert!(check(&two).unwrap_err().contains("`bytes` and `size`") && check(&two[..1]).is_ok());
    }
}
