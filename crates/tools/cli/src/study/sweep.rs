// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of a swept key: a list, or a range.
//!
//! | written | values |
//! |---|---|
//! | `[1, 2, 8]` | these |
//! | `{ from = 1, to = 10 }` | whole numbers |
//! | `{ from = 0.1, to = 0.9, step = 0.1 }` | the first, and each one a step above the last |
//! | `{ from = 8, to = 64, times = 2 }` | the first, and each one so many times the last |

use toml::Value;

/// Most values of one key.
const VALUES_MAX: usize = 1 << 16;
/// Digits to which steps are rounded, so that 0.1 and twice 0.1 make 0.3.
const DIGITS: i32 = 12;

/// The values of a key. The error has no place in the file.
pub fn values(given: &Value) -> Result<Vec<Value>, String> {
    match given {
        Value::Array(values) if values.is_empty() => Err("has no values; give at least one".to_owned()),
        Value::Array(values) => Ok(values.clone()),
        Value::Table(range) => of_range(range),
        _ => Err("takes a list of values, or a range { from, to }; a single value belongs to [run]".to_owned()),
    }
}

fn of_range(range: &toml::Table) -> Result<Vec<Value>, String> {
    if let Some(other) = range.keys().find(|key| !["from", "to", "step", "times"].contains(&key.as_str())) {
        return Err(format!("a range has no '{other}'; its keys are from, to, and step or times"));
    }
    let number = |key: &str| match range.get(key) {
        None => Ok(None),
        Some(Value::Integer(number)) => Ok(Some(*number as f64)),
        Some(Value::Float(number)) if number.is_finite() => Ok(Some(*number)),
        Some(_) => Err(format!("{key} of a range is a number")),
    };
    let (from, to) = match (number("from")?, number("to")?) {
        (Some(from), Some(to)) if from <= to => (from, to),
        (Some(_), Some(_)) => return Err("from of a range is at most to".to_owned()),
        _ => return Err("a range needs from and to".to_owned()),
    };
    let is_whole = range.values().all(Value::is_integer);
    let value = |number: f64| match is_whole {
        true => Value::Integer(number.round() as i64),
        false => Value::Float(rounded(number)),
    };
    let (step, times) = (number("step")?, number("times")?);
    let of: Box<dyn Fn(usize) -> f64> = match (step, times) {
        (Some(_), Some(_)) => return Err("a range has step or times, not both".to_owned()),
        (Some(step), None) if step <= 0.0 => return Err("step of a range is above 0".to_owned()),
        (None, Some(times)) if times <= 1.0 || from <= 0.0 => {
            return Err("times of a range is above 1, and from above 0".to_owned());
        }
        (None, Some(times)) => Box::new(move |count| from * times.powi(count as i32)),
        (step, None) => Box::new(move |count| from + step.unwrap_or(1.0) * count as f64),
    };
    let within = |number: &f64| rounded(*number) <= rounded(to);
    let values: Vec<Value> = (0..=VALUES_MAX).map(of).take_while(within).map(value).collect();
    if values.len() > VALUES_MAX {
        return Err(format!("a range has at most {VALUES_MAX} values; take larger steps"));
    }
    Ok(values)
}

fn rounded(number: f64) -> f64 {
    if number == 0.0 {
        return 0.0;
    }
    let digits = (DIGITS - 1 - number.abs().log10().floor() as i32).max(0) as usize;
    format!("{number:.digits$}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<String, String> {
        let table: toml::Table = format!("v = {text}").parse().unwrap();
        values(&table["v"]).map(|values| Value::Array(values).to_string())
    }

    #[test]
    fn ranges_are_lists() {
        for (range, list) in [
            ("{ from = 1, to = 4 }", "[1, 2, 3, 4]"),
            ("{ from = 8, to = 70, times = 2 }", "[8, 16, 32, 64]"),
            ("{ from = 0.1, to = 0.7, step = 0.2 }", "[0.1, 0.3, 0.5, 0.7]"),
            ("{ from = 0, to = 1, step = 0.5 }", "[0.0, 0.5, 1.0]"),
            ("{ from = 3, to = 3 }", "[3]"),
            ("[1, 'a', [2, 3]]", "[1, \"a\", [2, 3]]"),
        ] {
            assert_eq!(of(range).as_deref(), Ok(list), "{range}");
        }
    }

    #[test]
    fn bad_ranges_are_refused() {
        for (range, part) in [
            ("{ from = 2, to = 1 }", "at most"),
            ("{ from = 2 }", "needs from and to"),
            ("{ from = 0, to = 1, step = 0 }", "above 0"),
            ("{ from = 1, to = 8, times = 1 }", "above 1"),
            ("{ from = 1, to = 8, times = 2, step = 1 }", "not both"),
            ("{ from = 1, to = 8, by = 2 }", "'by'"),
            ("{ from = 'a', to = 8 }", "number"),
            ("{ from = 1, to = 100000000 }", "larger steps"),
            ("[]", "at least one"),
            ("3", "belongs to [run]"),
        ] {
            let error = of(range).unwrap_err();
            assert!(error.contains(part), "{range}: {error}");
        }
    }
}
