// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parameters of programs, and their syntax.
//!
//! | kind | written |
//! |---|---|
//! | a whole number | `64`, `64K` (of 1,024), `4M` |
//! | whole numbers | `0,8,64`; `1..64K`: the powers of two from the first to the last |
//! | a number | `0.5` |
//! | numbers | `0.1,0.5` |
//! | a word | one of a list |
//! | a file | its path |

use super::error::{ProgramError, listed};

/// A parameter of a program.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    /// Default, as a user would write it; empty: the parameter is required.
    pub default: &'static str,
    pub about: &'static str,
}

/// Makes a parameter that is a whole number; shorthand for tables of parameters.
pub(super) const fn whole(name: &'static str, default: &'static str, least: u64, about: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Whole { least, most: MOST }, default, about }
}

pub(super) const fn wholes(name: &'static str, default: &'static str, least: u64, about: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Wholes { least, most: MOST }, default, about }
}

pub(super) const fn word(
    name: &'static str,
    words: &'static [&'static str],
    default: &'static str,
    about: &'static str,
) -> Parameter {
    Parameter { name, kind: Kind::Word(words), default, about }
}

/// Largest whole number; a larger one counts as a typing error.
const MOST: u64 = 1 << 30;

/// The values that a parameter may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Whole { least: u64, most: u64 },
    Wholes { least: u64, most: u64 },
    Number { least: f64, most: f64 },
    Numbers { least: f64, most: f64 },
    Word(&'static [&'static str]),
    File,
}

const VALUES_MAX: usize = 256;

#[derive(Clone, Debug)]
enum Value {
    Wholes(Vec<u64>),
    Numbers(Vec<f64>),
    Word(&'static str),
    Text(String),
}

/// The arguments of a program, and the defaults of its other parameters.
pub(crate) struct Arguments<'a> {
    program: &'static str,
    parameters: &'a [Parameter],
    values: Vec<(String, Value)>,
}

impl<'a> Arguments<'a> {
    pub fn parse(
        program: &'static str,
        parameters: &'a [Parameter],
        given: &[(String, String)],
    ) -> Result<Arguments<'a>, ProgramError> {
        for (at, (name, _)) in given.iter().enumerate() {
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
                let there = listed(parameters.iter().map(|parameter| parameter.name));
                return Err(ProgramError::NoSuchParameter { program, name: name.clone(), there });
            };
            if given[..at].iter().any(|(other, _)| other == name) {
                return Err(ProgramError::GivenTwice { program, name: parameter.name });
            }
        }
        let mut values = Vec::new();
        for parameter in parameters {
            let text = given.iter().find(|(name, _)| name == parameter.name).map(|(_, value)| value.as_str());
            let text = text.unwrap_or(parameter.default);
            let value = parameter.kind.parse(text).ok_or_else(|| ProgramError::BadValue {
                program,
                name: parameter.name,
                value: text.to_owned(),
                expected: parameter.kind.to_string(),
            })?;
            values.push((text.to_owned(), value));
        }
        Ok(Arguments { program, parameters, values })
    }

    /// Returns every parameter with its value.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        self.parameters.iter().zip(&self.values).map(|(parameter, (text, _))| (parameter.name, text.clone())).collect()
    }

    pub fn program(&self) -> &'static str {
        self.program
    }

    /// Returns the error for a value that the program itself refuses.
    pub fn refuse(&self, name: &'static str, expected: impl Into<String>) -> ProgramError {
        let value = self.parameters.iter().zip(&self.values).find(|(parameter, _)| parameter.name == name);
        let value = value.map_or_else(String::new, |(_, (text, _))| text.clone());
        ProgramError::BadValue { program: self.program, name, value, expected: expected.into() }
    }

    fn value(&self, name: &str) -> &Value {
        let found = self.parameters.iter().zip(&self.values).find(|(parameter, _)| parameter.name == name);
        let Some((_, (_, value))) = found else {
            panic!("{} asks for {name}, which it does not declare", self.program)
        };
        value
    }

    pub fn wholes(&self, name: &str) -> Vec<u64> {
        match self.value(name) {
            Value::Wholes(values) => values.clone(),
            _ => Vec::new(),
        }
    }

    pub fn whole(&self, name: &str) -> u64 {
        self.wholes(name).first().copied().unwrap_or(0)
    }

    pub fn numbers(&self, name: &str) -> Vec<f64> {
        match self.value(name) {
            Value::Numbers(values) => values.clone(),
            _ => Vec::new(),
        }
    }

    pub fn number(&self, name: &str) -> f64 {
        self.numbers(name).first().copied().unwrap_or(0.0)
    }

    pub fn word(&self, name: &str) -> &'static str {
        match self.value(name) {
            Value::Word(word) => word,
            _ => "",
        }
    }

    pub fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Value::Text(text) => text,
            _ => "",
        }
    }
}

impl Kind {
    fn parse(&self, text: &str) -> Option<Value> {
        match *self {
            Kind::Whole { least, most } => {
                let value = count_of(text)?;
                (least..=most).contains(&value).then(|| Value::Wholes(vec![value]))
            }
            Kind::Wholes { least, most } => {
                let mut values = Vec::new();
                for part in text.split(',') {
                    match part.split_once("..") {
                        Some((from, to)) => values.extend(powers(count_of(from)?, count_of(to)?)),
                        None => values.push(count_of(part)?),
                    }
                }
                let fit = values.iter().all(|value| (least..=most).contains(value));
                (fit && !values.is_empty() && values.len() <= VALUES_MAX).then_some(Value::Wholes(values))
            }
            Kind::Number { least, most } => {
                let value: f64 = text.trim().parse().ok()?;
                (least..=most).contains(&value).then(|| Value::Numbers(vec![value]))
            }
            Kind::Numbers { least, most } => {
                let values: Vec<f64> =
                    text.split(',').map(|part| part.trim().parse().ok()).collect::<Option<Vec<f64>>>()?;
                let fit = values.iter().all(|value| (least..=most).contains(value));
                (fit && values.len() <= VALUES_MAX).then_some(Value::Numbers(values))
            }
            Kind::Word(words) => words.iter().find(|word| **word == text).map(|word| Value::Word(word)),
            Kind::File => (!text.is_empty()).then(|| Value::Text(text.to_owned())),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Whole { least, most } => write!(out, "a whole number from {least} to {most}"),
            Kind::Wholes { least, most } => {
                write!(out, "whole numbers from {least} to {most}: 0,8,64 or 1..64K (powers of two)")
            }
            Kind::Number { least, most } => write!(out, "a number from {least} to {most}"),
            Kind::Numbers { least, most } => write!(out, "numbers from {least} to {most}: 0.1,0.5"),
            Kind::Word(words) => write!(out, "one of {}", words.join(", ")),
            Kind::File => write!(out, "the path of a file"),
        }
    }
}

fn count_of(text: &str) -> Option<u64> {
    selvedge_settings::units::bytes(text).ok()
}

fn powers(from: u64, to: u64) -> impl Iterator<Item = u64> {
    let first = from.max(1).checked_next_power_of_two();
    std::iter::successors(first, |value| value.checked_mul(2)).take_while(move |value| *value <= to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wholes(text: &str) -> Option<Vec<u64>> {
        match (Kind::Wholes { least: 0, most: 1 << 20 }).parse(text)? {
            Value::Wholes(values) => Some(values),
            _ => None,
        }
    }

    #[test]
    fn lists_are_written_as_ranges_or_one_by_one() {
        assert_eq!(wholes("0, 8,1K"), Some(vec![0, 8, 1024]));
        assert_eq!(wholes("0,3..17"), Some(vec![0, 4, 8, 16]));
        assert_eq!(wholes("1..2m"), None, "beyond the most");
        assert_eq!(wholes("8.."), None);
        assert_eq!(wholes(""), None);
        assert_eq!(wholes("9..10"), None, "no power of two between them");
        assert_eq!(wholes("18446744073709551615K"), None);
    }

    #[test]
    fn numbers_are_checked() {
        let kind = Kind::Number { least: 0.0, most: 1.0 };
        assert!(kind.parse("0.5").is_some());
        assert!(kind.parse("1.5").is_none());
        assert!(kind.parse("NaN").is_none());
        assert!(Kind::Numbers { least: 0.0, most: 1.0 }.parse("0.5,x").is_none());
    }
}
