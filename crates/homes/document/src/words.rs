// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as text for a reader: three significant digits and a unit.

/// Formats nanoseconds: "999 ns", "1.23 us".
pub fn time_ns(ns: f64) -> String {
    match ns.abs() {
        v if v < 999.5 => format!("{} ns", digits(ns)),
        v if v < 999.5e3 => format!("{} us", digits(ns / 1e3)),
        v if v < 999.5e6 => format!("{} ms", digits(ns / 1e6)),
        _ => format!("{} s", digits(ns / 1e9)),
    }
}

/// Formats bytes: "8 B", "64 KiB", "1.50 MiB".
pub fn bytes(value: f64) -> String {
    let units = [("GiB", (1u64 << 30) as f64), ("MiB", (1u64 << 20) as f64), ("KiB", 1024.0)];
    match units.iter().find(|(_, unit)| value >= *unit) {
        Some((name, unit)) if (value / unit).fract() == 0.0 => format!("{} {name}", value / unit),
        Some((name, unit)) => format!("{} {name}", digits(value / unit)),
        None => format!("{} B", plain(value)),
    }
}

/// Formats with a decimal prefix, to which a unit may be appended: "1.23 M".
pub fn scaled(value: f64) -> String {
    match value.abs() {
        v if v >= 999.5e6 => format!("{} G", digits(value / 1e9)),
        v if v >= 999.5e3 => format!("{} M", digits(value / 1e6)),
        v if v >= 999.5 => format!("{} k", digits(value / 1e3)),
        _ => format!("{} ", plain(value)),
    }
}

pub fn rate(value: f64) -> String {
    format!("{}/s", scaled(value))
}

pub fn bytes_per_s(value: f64) -> String {
    format!("{}B/s", scaled(value))
}

/// Formats a share as a percentage.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        v if v != 0.0 && v < 0.1 => format!("{v:.3} %"),
        v if v < 10.0 => format!("{v:.2} %"),
        v => format!("{v:.1} %"),
    }
}

/// Formats a number without superfluous digits.
pub fn plain(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { digits(value) }
}

/// Formats a count: "1,234,567".
pub fn count(value: u64) -> String {
    let text = value.to_string();
    let mut grouped = String::with_capacity(text.len() * 4 / 3);
    for (at, digit) in text.chars().enumerate() {
        if at > 0 && (text.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats three significant digits.
pub fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(["0.00 ns", "8.50 ns", "1.00 us", "12.3 ms", "4.00 s"], [0.0, 8.5, 999.9, 12.3e6, 4e9].map(time_ns));
        assert_eq!(["8 B", "64 KiB", "1.50 MiB", "2 GiB"], [8.0, 65536.0, 1572864.0, 2147483648.0].map(bytes));
        assert_eq!(["5 /s", "1.20 k/s", "3.40 M/s", "1.00 G/s"], [5.0, 1200.0, 3.4e6, 1e9].map(rate));
        assert_eq!(["0.00 %", "0.010 %", "1.00 %", "55.0 %"], [0.0, 0.0001, 0.01, 0.55].map(percent));
        assert_eq!(["0", "999", "1,000", "12,345,678"], [0, 999, 1000, 12_345_678].map(count));
    }
}
