// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes and times as texts: the only readers of them, for settings and for options of commands.
//!
//! | kind | number | unit | without a unit |
//! |---|---|---|---|
//! | size | whole or decimal | `B`; `K`, `M`, `G`, `T`, each also as `KB` or `KiB`: powers of 1,024 | bytes |
//! | time | whole or decimal | `ps`, `ns`, `us`, `ms`, `s`, `min`, `h` | the caller says: seconds, or an error |
//!
//! Letters of sizes may be small or large. Spaces around number and unit do not count. Fractions of a byte are rounded up.

use std::time::Duration;

/// A text that is no size or no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    #[error("'{text}' is not a size; write a number of bytes, or one with K, M, G or T, as in 64K or 1.5GiB")]
    NotSize { text: String },
    #[error("'{text}' is more than 2^64 bytes; write a smaller size")]
    LongSize { text: String },
    #[error("'{text}' is not a time; write a number, and ps, ns, us, ms, s, min or h, as in 10us or 1.5s")]
    NotTime { text: String },
    #[error("'{text}' has no unit; add ps, ns, us, ms, s, min or h, as in 10us")]
    NoUnit { text: String },
    #[error("'{unit}' is not a unit of time; the units are ps, ns, us, ms, s, min and h")]
    NotUnit { unit: String },
    #[error("'{text}' is out of range; write a time between 0 and 500 years")]
    LongTime { text: String },
}

/// Parses a size. Returns bytes.
pub fn bytes(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    let wrong = || UnitError::NotSize { text: text.to_owned() };
    let long = || UnitError::LongSize { text: text.to_owned() };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start().to_ascii_lowercase());
    let shift = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()) {
        return number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)).ok_or_else(long);
    }
    let bytes = (number.parse::<f64>().map_err(|_| wrong())? * (1u64 << shift) as f64).ceil();
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(long()) }
}

/// The length of a time unit, in nanoseconds.
pub const SECOND: f64 = 1e9;
pub const MICROSECOND: f64 = 1e3;

/// The longest time, in nanoseconds: 500 years.
const LONGEST: f64 = 500.0 * 365.25 * 86_400.0 * SECOND;

/// Parses a time. Returns nanoseconds. A number without a unit counts units of `bare` nanoseconds.
pub fn nanoseconds(text: &str, bare: f64) -> Result<f64, UnitError> {
    let text = text.trim();
    // A number alone may have an exponent.
    let (number, unit) = match text.parse::<f64>() {
        Ok(number) if number.is_finite() => (number, bare),
        _ => {
            let end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
            let number = text[..end].trim().parse().map_err(|_| UnitError::NotTime { text: text.to_owned() })?;
            let unit = match &text[end..] {
                "ps" => 1e-3,
                "ns" => 1.0,
                "us" | "µs" | "μs" => MICROSECOND,
                "ms" => 1e6,
                "s" => SECOND,
                "min" => 60.0 * SECOND,
                "h" => 3600.0 * SECOND,
                other => return Err(UnitError::NotUnit { unit: other.to_owned() }),
            };
            (number, unit)
        }
    };
    let length: f64 = number * unit;
    if (0.0..=LONGEST).contains(&length) { Ok(length) } else { Err(UnitError::LongTime { text: text.to_owned() }) }
}

/// Parses a time that needs a unit. Returns nanoseconds.
pub fn nanoseconds_with_unit(text: &str) -> Result<f64, UnitError> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Err(UnitError::NoUnit { text: text.trim().to_owned() }),
        _ => nanoseconds(text, SECOND),
    }
}

/// Parses a time, to the nearest nanosecond. A number without a unit is in seconds.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let length = nanoseconds(text, SECOND)?;
    Duration::try_from_secs_f64(length / SECOND).map_err(|_| UnitError::LongTime { text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_units() {
        for (text, wanted) in [
            ("0", 0),
            ("4096", 4096),
            ("18446744073709551615", u64::MAX),
            ("2k", 2048),
            ("4K", 4096),
            ("4KB", 4096),
            ("4 KiB", 4096),
            ("1MiB", 1 << 20),
            ("3G", 3 << 30),
            (" 1t ", 1 << 40),
            ("512B", 512),
            ("1.5G", 3 << 29),
            (".5m", 1 << 19),
            ("3.1M", 3_250_586),
            ("0.1", 1),
        ] {
            assert_eq!(bytes(text), Ok(wanted), "{text}");
        }
        for wrong in ["", "K", "-1", "+1", "12X", "1.2.3", ".", "1e9", "1 2", "4KK", "4iB", "٣", "1µ", "nan", "inf"] {
            assert!(matches!(bytes(wrong), Err(UnitError::NotSize { .. })), "{wrong}");
        }
        for long in ["18446744073709551616", "99999999999999T", "99999999999999.5T", "16777216T"] {
            assert!(matches!(bytes(long), Err(UnitError::LongSize { .. })), "{long}");
        }
    }

    #[test]
    fn times_take_units() {
        for (text, wanted) in [
            ("250ps", 0.25),
            ("10us", 1e4),
            ("10µs", 1e4),
            ("1.5 ms", 1.5e6),
            ("1s", 1e9),
            ("2 min", 12e10),
            ("1h", 36e11),
            ("3", 3e9),
            ("0.5", 5e8),
            ("1e3", 1e12),
            ("0", 0.0),
        ] {
            assert_eq!(nanoseconds(text, SECOND), Ok(wanted), "{text}");
        }
        assert_eq!(nanoseconds("20", MICROSECOND), Ok(2e4));
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration("0.1"), Ok(Duration::from_millis(100)));
        assert!(matches!(duration("5 m"), Err(UnitError::NotUnit { .. })));
        assert_eq!(nanoseconds_with_unit("1.5ms"), Ok(1.5e6));
        assert!(matches!(nanoseconds_with_unit(" 10"), Err(UnitError::NoUnit { .. })));
        for wrong in ["", "us", "1s 2", "1,5s", "--1s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        for wrong in ["-1us", "1e300", "1e12", "nan", "inf", "nans", "-0.1"] {
            assert!(nanoseconds(wrong, SECOND).is_err(), "{wrong}");
        }
    }
}
