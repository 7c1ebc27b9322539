// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of a scenario (after the scenario files of SWORDFISH, seed 002, section 2.7).
//!
//! ```toml
//! name = "Detours"
//! [run]                       # settings of every cell
//! machine = "dragonfly1056"
//! [[case]]                    # settings that change together
//! name = "minimal"
//! set.routing.algorithm = "minimal"
//! [sweep]                     # every combination of these values, the last key fastest
//! load = [0.1, 0.5, 1]
//! seed = { from = 1, to = 10 }
//! ```
//!
//! Rules
//! 1. A setting of a case replaces that of `[run]`. A key that is swept is neither in `[run]` nor in a case.
//! 2. Keys keep the order of the file.
//! 3. Errors name the file, the line, the section and the key.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use selvedge_settings::nearest;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::claims::Published;
use super::figures::{self, Figure};
use super::options::{Options, Setting};
use super::sweep;
use crate::sim::Usage;

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub file: PathBuf,
    pub name: String,
    pub about: String,
    /// A machine that is described in the scenario.
    pub machine: Option<Table>,
    pub run: Vec<Setting>,
    /// One case without name and settings if the file has none.
    pub cases: Vec<Case>,
    pub axes: Vec<Axis>,
    /// Columns of the table; empty: those of the kind of run.
    pub columns: Vec<String>,
    pub plots: Vec<PlotOf>,
    /// Figures that the program prints.
    pub figures: Vec<Figure>,
    /// Published figures, with which the results are compared.
    pub claims: Vec<Published>,
}

/// Settings that change together.
#[derive(Clone, Debug, Default)]
pub struct Case {
    pub name: String,
    pub settings: Vec<Setting>,
}

/// A key whose values are swept, a setting for each.
#[derive(Clone, Debug)]
pub struct Axis {
    pub key: String,
    pub values: Vec<Setting>,
}

/// A plot that the scenario asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlotOf {
    pub x: String,
    pub y: String,
    /// Keys whose values make the lines. `None`: all that vary, except for seeds.
    pub lines: Option<Vec<String>>,
    pub title: Option<String>,
}

const SECTIONS: [&str; 10] = ["name", "about", "machine", "run", "case", "sweep", "figures", "table", "plot", "claim"];

impl Scenario {
    /// Reads a file.
    pub fn read(file: &Path, options: &Options) -> Result<Scenario, Usage> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Usage(format!("{}: {error}; name the file of a scenario", file.display())))?;
        Scenario::parse(file, &text, options)
    }

    /// Reads the text of a file.
    pub fn parse(file: &Path, text: &str, options: &Options) -> Result<Scenario, Usage> {
        let reader = Reader { file, text, options };
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| reader.line(span.start));
            Usage(format!("{}:{line}: {}", file.display(), error.message()))
        })?;
        let mut scenario = Scenario {
            file: file.to_owned(),
            name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            about: String::new(),
            machine: None,
            run: Vec::new(),
            cases: Vec::new(),
            axes: Vec::new(),
            columns: Vec::new(),
            plots: Vec::new(),
            figures: Vec::new(),
            claims: Vec::new(),
        };
        for (key, value) in in_order(table.get_ref()) {
            let line = reader.line(key.span().start);
            let wrong = |why: &str| reader.wrong(line, "", key.get_ref(), why);
            match key.get_ref().as_ref() {
                "name" => scenario.name = reader.text("", key, value)?,
                "about" => scenario.about = reader.text("", key, value)?,
                "machine" => match plain(value.get_ref()) {
                    Some(Value::Table(machine)) => scenario.machine = Some(machine),
                    _ => return Err(wrong("is a section that describes a machine; a known one is named in [run]")),
                },
                "run" => {
                    let table = value.get_ref().as_table().ok_or_else(|| wrong("is a section: write [run]"))?;
                    scenario.run = reader.settings("run", table)?;
                }
                "case" => {
                    let cases = value.get_ref().as_array().ok_or_else(|| wrong("is a list: write [[case]]"))?;
                    for case in cases.iter() {
                        scenario.cases.push(reader.case(case)?);
                    }
                }
                "sweep" => {
                    let table = value.get_ref().as_table().ok_or_else(|| wrong("is a section: write [sweep]"))?;
                    reader.axes("", table, &mut scenario.axes)?;
                }
                "table" => {
                    let table = value.get_ref().as_table().ok_or_else(|| wrong("is a section: write [table]"))?;
                    scenario.columns = reader.columns(table)?;
                }
                "plot" => {
                    let plots = value.get_ref().as_array().ok_or_else(|| wrong("is a list: write [[plot]]"))?;
                    scenario.plots = plots.iter().map(|plot| reader.plot(plot)).collect::<Result<_, _>>()?;
                }
                "figures" => {
                    let table = value.get_ref().as_table().ok_or_else(|| wrong("is a section: write [figures]"))?;
                    scenario.figures = reader.figures(table)?;
                }
                "claim" => {
                    let claims = value.get_ref().as_array().ok_or_else(|| wrong("is a list: write [[claim]]"))?;
                    scenario.claims = claims.iter().map(|claim| reader.claim(claim)).collect::<Result<_, _>>()?;
                }
                other => {
                    let hint = hint(other, &SECTIONS);
                    return Err(wrong(&format!("there is no such section{hint}")));
                }
            }
        }
        scenario.check(&reader)?;
        if scenario.cases.is_empty() {
            scenario.cases.push(Case::default());
        }
        Ok(scenario)
    }

    /// The folder of the file, from which its paths lead.
    pub fn folder(&self) -> PathBuf {
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
    }

    fn check(&self, reader: &Reader<'_>) -> Result<(), Usage> {
        let mut names = BTreeSet::new();
        for case in &self.cases {
            if !names.insert(&case.name) {
                let line = case.settings.first().map_or(1, |setting| setting.line);
                return Err(reader.wrong(line, "case", "name", &format!("there are two cases '{}'", case.name)));
            }
        }
        for axis in &self.axes {
            let settings = self.run.iter().chain(self.cases.iter().flat_map(|case| &case.settings));
            if let Some(setting) = settings.into_iter().find(|setting| setting.key == axis.key) {
                let why = "is swept; leave it out here, or there";
                return Err(reader.wrong(setting.line, "run", &setting.key, why));
            }
        }
        Ok(())
    }
}

struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
    options: &'a Options,
}

type Entry<'a> = (&'a Spanned<std::borrow::Cow<'a, str>>, &'a Spanned<DeValue<'a>>);

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
    }

    fn wrong(&self, line: usize, section: &str, key: &str, why: &str) -> Usage {
        let section = if section.is_empty() { String::new() } else { format!("[{section}] ") };
        Usage(format!("{}:{line}: {section}{key}: {why}", self.file.display()))
    }

    fn text(
        &self,
        section: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<String, Usage> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.wrong(self.line(key.span().start), section, key.get_ref(), "takes text in quotes")),
        }
    }

    fn settings(&self, section: &str, table: &DeTable<'_>) -> Result<Vec<Setting>, Usage> {
        let mut settings = Vec::new();
        for (key, value) in in_order(table) {
            self.add_settings(section, key.get_ref(), self.line(key.span().start), value.get_ref(), &mut settings)?;
        }
        Ok(settings)
    }

    /// Adds a key's setting; of a table of names, one for each name.
    fn add_settings(
        &self,
        section: &str,
        key: &str,
        line: usize,
        value: &DeValue<'_>,
        settings: &mut Vec<Setting>,
    ) -> Result<(), Usage> {
        if let (true, DeValue::Table(table)) = (Options::is_table(first(key)), value) {
            for (name, value) in in_order(table) {
                let (key, line) = (format!("{key}.{}", name.get_ref()), self.line(name.span().start));
                self.add_settings(section, &key, line, value.get_ref(), settings)?;
            }
            return Ok(());
        }
        let value = plain(value).ok_or_else(|| self.wrong(line, section, key, OUT_OF_RANGE))?;
        let setting = self.options.setting(key, &value, line);
        settings.push(setting.map_err(|why| self.wrong(line, section, key, &why))?);
        Ok(())
    }

    fn case(&self, case: &Spanned<DeValue<'_>>) -> Result<Case, Usage> {
        let line = self.line(case.span().start);
        let table =
            case.get_ref().as_table().ok_or_else(|| self.wrong(line, "case", "", "is a table: write [[case]]"))?;
        let mut read = Case::default();
        for (key, value) in in_order(table) {
            match key.get_ref().as_ref() {
                "name" => read.name = self.text("case", key, value)?,
                name => {
                    let line = self.line(key.span().start);
                    self.add_settings("case", name, line, value.get_ref(), &mut read.settings)?;
                }
            }
        }
        if read.name.is_empty() {
            return Err(self.wrong(line, "case", "name", "is missing; the table shows it"));
        }
        Ok(read)
    }

    /// Adds the swept keys of a table whose own key is `above`.
    fn axes(&self, above: &str, table: &DeTable<'_>, axes: &mut Vec<Axis>) -> Result<(), Usage> {
        for (name, value) in in_order(table) {
            let (line, value) = (self.line(name.span().start), value.get_ref());
            let key = if above.is_empty() { name.get_ref().to_string() } else { format!("{above}.{}", name.get_ref()) };
            let wrong = |why: &str| self.wrong(line, "sweep", &key, why);
            let is_range = value.as_table().is_some_and(|table| table.contains_key("from"));
            if let (true, false, DeValue::Table(table)) = (Options::is_table(first(&key)), is_range, value) {
                self.axes(&key, table, axes)?;
                continue;
            }
            let value = plain(value).ok_or_else(|| wrong(OUT_OF_RANGE))?;
            let values = sweep::values(&value).map_err(|why| wrong(&why))?;
            let setting = |value: &Value| self.options.setting(&key, value, line).map_err(|why| wrong(&why));
            let values = values.iter().map(setting).collect::<Result<Vec<_>, _>>()?;
            let words: BTreeSet<_> = values.iter().map(|setting| &setting.words).collect();
            if words.len() < values.len() {
                return Err(wrong("has a value twice; leave one of them out"));
            }
            axes.push(Axis { key, values });
        }
        Ok(())
    }

    fn columns(&self, table: &DeTable<'_>) -> Result<Vec<String>, Usage> {
        let mut columns = Vec::new();
        for (key, value) in in_order(table) {
            let wrong = |why: &str| self.wrong(self.line(key.span().start), "table", key.get_ref(), why);
            if key.get_ref() != "columns" {
                return Err(wrong(&format!("there is no such key{}", hint(key.get_ref(), &["columns"]))));
            }
            columns = texts(value.get_ref()).ok_or_else(|| wrong("takes a list of names in quotes"))?;
        }
        Ok(columns)
    }

    fn figures(&self, table: &DeTable<'_>) -> Result<Vec<Figure>, Usage> {
        let mut figures = Vec::new();
        for (key, value) in in_order(table) {
            let line = self.line(key.span().start);
            let expression = self.text("figures", key, value)?;
            let figure = Figure::new(key.get_ref(), &expression);
            figures.push(figure.map_err(|why| self.wrong(line, "figures", key.get_ref(), &why))?);
            figures::check(&figures).map_err(|why| self.wrong(line, "figures", key.get_ref(), &why))?;
        }
        Ok(figures)
    }

    fn claim(&self, claim: &Spanned<DeValue<'_>>) -> Result<Published, Usage> {
        let line = self.line(claim.span().start);
        let value = plain(claim.get_ref()).ok_or_else(|| self.wrong(line, "claim", "", OUT_OF_RANGE))?;
        let name = value.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let wrong = |why: &str| self.wrong(line, "claim", &name, why);
        let read: Published = value.try_into().map_err(|error: toml::de::Error| wrong(error.message().trim()))?;
        read.check().map_err(|why| wrong(&why))?;
        Ok(read)
    }

    fn plot(&self, plot: &Spanned<DeValue<'_>>) -> Result<PlotOf, Usage> {
        let line = self.line(plot.span().start);
        let table =
            plot.get_ref().as_table().ok_or_else(|| self.wrong(line, "plot", "", "is a table: write [[plot]]"))?;
        let mut read = PlotOf { x: String::new(), y: String::new(), lines: None, title: None };
        for (key, value) in in_order(table) {
            match key.get_ref().as_ref() {
                "x" => read.x = self.text("plot", key, value)?,
                "y" => read.y = self.text("plot", key, value)?,
                "title" => read.title = Some(self.text("plot", key, value)?),
                "lines" => {
                    let lines = texts(value.get_ref());
                    read.lines = Some(lines.ok_or_else(|| self.wrong(line, "plot", "lines", "takes a list of keys"))?);
                }
                other => {
                    let why = format!("there is no such key{}", hint(other, &["x", "y", "lines", "title"]));
                    return Err(self.wrong(self.line(key.span().start), "plot", other, &why));
                }
            }
        }
        match (read.x.is_empty(), read.y.is_empty()) {
            (false, false) => Ok(read),
            (is_x, _) => {
                let key = if is_x { "x" } else { "y" };
                Err(self.wrong(line, "plot", key, "is missing; name a swept key or a column of the table"))
            }
        }
    }
}

const OUT_OF_RANGE: &str = "has a number out of range, or a date; write text in quotes";

fn first(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

fn hint(wrong: &str, known: &[&str]) -> String {
    let near = nearest(wrong, known.iter().map(|name| (*name).to_owned()));
    near.map_or_else(|| format!("; there are {}", known.join(", ")), |near| format!("; did you mean {near}?"))
}

/// The entries of a table in the order of the file.
fn in_order<'a>(table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    let text = |value: &Spanned<DeValue<'_>>| value.get_ref().as_str().map(str::to_owned);
    value.as_array()?.iter().map(text).collect()
}

/// A value without its places. `None`: a number out of range, or a date.
fn plain(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => Value::Integer(i64::from_str_radix(number.as_str(), number.radix()).ok()?),
        DeValue::Float(number) => Value::Float(number.as_str().parse().ok()?),
        DeValue::Boolean(is_set) => Value::Boolean(*is_set),
        DeValue::Datetime(_) => return None,
        DeValue::Array(values) => {
            Value::Array(values.iter().map(|value| plain(value.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(table) => {
            let entry = |(key, value): Entry<'_>| Some((key.get_ref().to_string(), plain(value.get_ref())?));
            Value::Table(in_order(table).into_iter().map(entry).collect::<Option<_>>()?)
        }
    })
}

#[cfg(test)]
#[path = "scenario_tests.rs"]
mod tests;
