// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A number of a machine's description, with its source.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

/// A number of a machine's description, with its source: `1.5`, or `{ value = 1.5, source = "table 3-1" }`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    pub value: f64,
    pub source: Option<String>,
}

impl Figure {
    pub fn of(value: f64) -> Figure {
        Figure { value, source: None }
    }

    /// Returns the value, if it is a whole number in this range; otherwise the requirement.
    pub fn whole(&self, least: u64, most: u64) -> Result<u64, String> {
        let value = self.value;
        if value.fract() != 0.0 || value < least as f64 || value > most as f64 {
            return Err(format!("{value} must be a whole number from {least} to {most}"));
        }
        Ok(value as u64)
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Figure, D::Error> {
        deserializer.deserialize_any(FigureVisitor)
    }
}

struct FigureVisitor;

impl<'de> Visitor<'de> for FigureVisitor {
    type Value = Figure;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number, or { value = a number, source = \"...\" }")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Figure, E> {
        if value.is_finite() && value >= 0.0 {
            Ok(Figure::of(value))
        } else {
            Err(E::custom(format!("{value} cannot be used: a number of a machine is finite and not negative")))
        }
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Figure, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Figure, E> {
        self.visit_f64(value as f64)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Figure, A::Error> {
        let (mut value, mut source) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "value" => value = Some(FigureVisitor.visit_f64(map.next_value::<f64>()?)?.value),
                "source" => source = Some(map.next_value::<String>()?),
                other => return Err(de::Error::unknown_field(other, &["value", "source"])),
            }
        }
        let value = value.ok_or_else(|| de::Error::missing_field("value"))?;
        Ok(Figure { value, source })
    }
}
