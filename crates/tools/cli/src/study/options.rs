// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys of a scenario's runs: the options of `selvedge sim` by their long names, and the words of its command line that
//! their values become.
//!
//! | key | value |
//! |---|---|
//! | an option with a value | text or a number; options that may be given several times take a list |
//! | an option without a value | `true`, or `false` to leave it out |
//! | `set.SECTION.KEY`, `param.NAME`, `env.NAME` | the value of `--set`, `--param`, `--env` |
//! | a parameter of a built-in program | as `param.NAME` |
//! | `command` | a list: a program and its arguments. `{examples}/NAME` is a program of the tree's examples |
//!
//! The keys come from the description of the command line, so a new option of `selvedge sim` is a key as well.

use std::cell::RefCell;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, CommandFactory};
use selvedge_settings::nearest;
use selvedge_sim::program::ready;
use serde_json::Value as Json;
use toml::Value;

use crate::bench::process::Tree;

/// One key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The option, and for `set`, `param` and `env` the name that it sets: `set.link.latency_ns`.
    pub key: String,
    /// The value in tables.
    pub shown: Json,
    /// The words of the command line. Those of `command` stand behind all options.
    pub words: Vec<String>,
    /// Line in the scenario.
    pub line: usize,
}

/// How a command names a program of the tree's examples.
const EXAMPLES: &str = "{examples}/";
/// The key of the program and its arguments.
pub const COMMAND: &str = "command";
/// Options that set a value by name.
const NAMED: [&str; 3] = ["set", "param", "env"];
/// Options that print, or write files that several cells would share.
const NOT_IN_STUDIES: [&str; 20] = [
    "study",
    "describe",
    "routes",
    "list",
    "json",
    "html",
    "svg",
    "trace",
    "otf2",
    "trace-limit",
    "watch",
    "quiet",
    "verbose",
    "tag-output",
    "record",
    "record-rank",
    "sample",
    "dump-link",
    "statistics",
    "help",
];

/// The number of values that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    One,
    OneOrNothing,
    /// A list, written as one word with commas.
    Commas,
    /// A list, a word for each value.
    Several,
}

/// The options of `selvedge sim`.
pub struct Options {
    sim: clap::Command,
    /// The same, built, for the check of command lines.
    parser: RefCell<clap::Command>,
}

impl Options {
    pub fn new() -> Options {
        let sim = crate::Cli::command().find_subcommand("sim").cloned().unwrap_or_default();
        Options { parser: RefCell::new(sim.clone().no_binary_name(true)), sim }
    }

    /// Whether a key is a table of names: `set`, `param`, `env`.
    pub fn is_table(key: &str) -> bool {
        NAMED.contains(&key)
    }

    /// Checks a command line of `selvedge sim`. The error is a single line.
    pub fn check(&self, words: &[String]) -> Result<(), String> {
        let error = match self.parser.borrow_mut().try_get_matches_from_mut(words) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
                return Err("there is nothing to simulate; add traffic, program or command".to_owned());
            }
            Err(error) => error.to_string(),
        };
        let said = error.split("\n\n").next().unwrap_or_default();
        let said: Vec<&str> = said.lines().map(str::trim).collect();
        Err(said.join(" ").trim_start_matches("error: ").to_owned())
    }

    /// Makes a setting from a key and its value. The error has no place in the file.
    pub fn setting(&self, key: &str, value: &Value, line: usize) -> Result<Setting, String> {
        let (option, name) = match key.split_once('.') {
            Some((option, name)) => (option, Some(name)),
            None => (key, None),
        };
        let words = match (option, name) {
            (COMMAND, None) => command_words(value)?,
            ("set", Some(name)) => vec![format!("--set={name}={value}")],
            (option, Some(name)) if NAMED.contains(&option) => {
                vec![format!("--{option}={name}={}", with_commas(value)?)]
            }
            (_, Some(_)) => return Err(format!("'{option}' has no keys of its own; write {option} = value")),
            (option, None) if NAMED.contains(&option) => {
                return Err(format!("'{option}' needs a name, as in {option}.NAME = value"));
            }
            (option, None) => self.option_words(option, value)?,
        };
        Ok(Setting { key: key.to_owned(), shown: shown(value), words, line })
    }

    fn option_words(&self, option: &str, value: &Value) -> Result<Vec<String>, String> {
        match (self.takes(option)?, value) {
            (Takes::Nothing | Takes::OneOrNothing, Value::Boolean(true)) => Ok(vec![format!("--{option}")]),
            (Takes::Nothing | Takes::OneOrNothing, Value::Boolean(false)) => Ok(Vec::new()),
            (Takes::Nothing, _) => Err("takes true or false".to_owned()),
            (Takes::Several, Value::Array(values)) => {
                values.iter().map(|value| Ok(format!("--{option}={}", text(value)?))).collect()
            }
            (Takes::Commas, value) => Ok(vec![format!("--{option}={}", with_commas(value)?)]),
            (_, value) => Ok(vec![format!("--{option}={}", text(value)?)]),
        }
    }

    fn takes(&self, option: &str) -> Result<Takes, String> {
        if NOT_IN_STUDIES.contains(&option) {
            return Err("prints, or writes files of its own: run the cell with `selvedge sim` for it".to_owned());
        }
        let named = |arg: &&Arg| arg.get_long() == Some(option);
        let Some(arg) = self.sim.get_arguments().find(named) else {
            let known =
                self.sim.get_arguments().filter_map(Arg::get_long).filter(|name| !NOT_IN_STUDIES.contains(name));
            let known = known.chain([COMMAND]).map(str::to_owned);
            let hint = nearest(option, known).map_or_else(
                || "; its keys are the options of `selvedge sim`, as in machine, program, traffic, load".to_owned(),
                |near| format!("; did you mean {near}?"),
            );
            return Err(format!("there is no key '{option}'{hint}"));
        };
        let is_parameter =
            ready::all().iter().any(|program| program.parameters.iter().any(|parameter| parameter.name == option));
        Ok(match arg.get_action() {
            action if !action.takes_values() => Takes::Nothing,
            _ if arg.get_value_delimiter().is_some() => Takes::Commas,
            ArgAction::Append if is_parameter && arg.get_help_heading() == Some("Built-in programs") => Takes::Commas,
            ArgAction::Append => Takes::Several,
            _ if arg.get_num_args().is_some_and(|count| count.min_values() == 0) => Takes::OneOrNothing,
            _ => Takes::One,
        })
    }
}

fn command_words(value: &Value) -> Result<Vec<String>, String> {
    let words = value.as_array().filter(|words| !words.is_empty());
    let words = words.ok_or(r#"takes a list of a program and its arguments, as in ["./solver", "-n", "100"]"#)?;
    let mut words = words.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    if let Some(name) = words[0].strip_prefix(EXAMPLES) {
        let tree = Tree::find().map_err(|error| error.to_string())?;
        let program = tree.prefix().join("examples").join(name);
        if !program.is_file() {
            return Err(format!(
                "{}: no such file; run make build, or set SELVEDGE_PREFIX to a tree that was built with its examples",
                program.display()
            ));
        }
        words[0] = program.display().to_string();
    }
    Ok(words)
}

/// The text of a single value.
fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(_) | Value::Float(_) => Ok(value.to_string()),
        Value::Boolean(_) => Err("takes a value, not true or false".to_owned()),
        Value::Array(_) => Err("takes one value, not a list".to_owned()),
        Value::Table(_) | Value::Datetime(_) => Err(format!("takes text or a number, not a {}", value.type_str())),
    }
}

fn with_commas(value: &Value) -> Result<String, String> {
    match value {
        Value::Array(values) => Ok(values.iter().map(text).collect::<Result<Vec<_>, _>>()?.join(",")),
        Value::Boolean(is_set) => Ok(is_set.to_string()),
        value => text(value),
    }
}

/// A value as tables show it: numbers stay numbers, lists become text.
fn shown(value: &Value) -> Json {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Boolean(is_set) => (*is_set).into(),
        Value::Array(values) if values.is_empty() => "none".into(),
        Value::Array(values) => {
            let texts: Vec<String> =
                values.iter().map(|value| text(value).unwrap_or_else(|_| value.to_string())).collect();
            texts.join(" ").into()
        }
        Value::Table(_) | Value::Datetime(_) => value.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<String>, String> {
        let table: toml::Table = line.parse().unwrap();
        let (key, value) = table.iter().next().unwrap();
        Options::new().setting(key, value, 1).map(|setting| setting.words)
    }

    #[test]
    fn values_become_words_of_the_command_line() {
        for (line, expected) in [
            ("load = 0.3", &["--load=0.3"][..]),
            ("load = [0.1, 0.2]", &["--load=0.1,0.2"]),
            ("machine = 'torus16'", &["--machine=torus16"]),
            ("no-reroute = true", &["--no-reroute"]),
            ("no-reroute = false", &[]),
            ("aggregation = true", &["--aggregation"]),
            ("aggregation = 4", &["--aggregation=4"]),
            ("fail-link = ['0-1@1us', '1-2@2us']", &["--fail-link=0-1@1us", "--fail-link=1-2@2us"]),
            ("fail-link = []", &[]),
            ("sizes = [8, '1K']", &["--sizes=8,1K"]),
            ("'set.routing.algorithm' = 'minimal'", &["--set=routing.algorithm=\"minimal\""]),
            ("'set.topology.dimensions' = [4, 4]", &["--set=topology.dimensions=[4, 4]"]),
            ("'param.sizes' = [8, 64]", &["--param=sizes=8,64"]),
            ("command = ['./a', '-x', 3]", &["./a", "-x", "3"]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn mistakes_have_a_remedy() {
        for (line, part) in [
            ("laod = 1", "did you mean load?"),
            ("message_bytes = 1", "did you mean message-bytes?"),
            ("flavour = 1", "options of `selvedge sim`"),
            ("json = 'a'", "run the cell with `selvedge sim`"),
            ("no-reroute = 3", "true or false"),
            ("seed = [1, 2]", "one value, not a list"),
            ("machine = true", "takes a value"),
            ("set = 1", "set.NAME = value"),
            ("command = 'a b'", "list"),
            ("command = ['{examples}/nothing']", "no such file; run make build"),
            ("'load.x' = 1", "load = value"),
        ] {
            let error = words(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn command_lines_are_checked_and_the_error_is_one_line() {
        let options = Options::new();
        let check = |line: &str| options.check(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(check("--machine=torus16 --traffic=uniform --load=0.5"), Ok(()));
        assert!(check("--machine=torus16").unwrap_err().contains("add traffic, program or command"));
        let error = check("--machine=torus16 --traffic=uniform --load=2").unwrap_err();
        assert!(error.contains("'2'") && error.contains("--load") && !error.contains('\n'), "{error}");
        let error = check("--machine=torus16 --program=allreduce --placement=any").unwrap_err();
        assert!(error.contains("round-robin") && !error.contains('\n'), "{error}");
    }
}
