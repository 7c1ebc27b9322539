// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual time: picoseconds since the start of a simulation, as an integer. It covers 213 days.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// A point in virtual time, or a duration, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    pub const ZERO: Time = Time(0);
    /// The end of virtual time; also "never".
    pub const MAX: Time = Time(u64::MAX);

    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    pub const fn from_ns(ns: u64) -> Time {
        Time(ns.saturating_mul(1000))
    }

    /// Converts nanoseconds with a fraction, rounded to the nearest picosecond. Negative numbers and NaN give 0.
    pub fn from_ns_f64(ns: f64) -> Time {
        Time((ns * 1000.0).round().max(0.0) as u64)
    }

    pub fn from_seconds_f64(seconds: f64) -> Time {
        Time::from_ns_f64(seconds * 1e9)
    }

    /// Returns the time of `bytes` at `bytes_per_s`, rounded up. Without bandwidth: [`Time::MAX`].
    pub fn of_bytes(bytes: u64, bytes_per_s: u64) -> Time {
        if bytes_per_s == 0 {
            return if bytes == 0 { Time::ZERO } else { Time::MAX };
        }
        const PS: u64 = 1_000_000_000_000;
        if let Some(product) = bytes.checked_mul(PS) {
            return Time(product.div_ceil(bytes_per_s));
        }
        let ps = (u128::from(bytes) * u128::from(PS)).div_ceil(u128::from(bytes_per_s));
        Time(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Returns whole nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1000
    }

    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    pub fn as_seconds_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }

    /// Multiplies the time by a factor, for instance a time measured on a machine of another speed.
    pub fn scaled(self, factor: f64) -> Time {
        Time((self.0 as f64 * factor).round().max(0.0) as u64)
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        self.saturating_sub(other)
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, times: u64) -> Time {
        Time(self.0.saturating_mul(times))
    }
}

impl Div<u64> for Time {
    type Output = Time;
    fn div(self, by: u64) -> Time {
        Time(self.0 / by.max(1))
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(times: I) -> Time {
        times.fold(Time::ZERO, Add::add)
    }
}

/// Prints in the unit that gives one to three digits before the point.
impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000_000 => (ps / 1e3, "ns"),
            1_000_000..1_000_000_000 => (ps / 1e6, "us"),
            1_000_000_000..1_000_000_000_000 => (ps / 1e9, "ms"),
            _ => (ps / 1e12, "s"),
        };
        write!(out, "{value:.*} {unit}", out.precision().unwrap_or(3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_as_long_as_their_bandwidth_says() {
        assert_eq!(Time::of_bytes(1, 1_000_000_000), Time::from_ns(1));
        assert_eq!(Time::of_bytes(1, 3_000_000_000), Time::from_ps(334));
        assert_eq!(Time::of_bytes(0, 0), Time::ZERO);
        assert_eq!(Time::of_bytes(1, 0), Time::MAX);
        assert_eq!(Time::of_bytes(u64::MAX, 1), Time::MAX);
    }

    #[test]
    fn times_are_shown_in_a_unit_that_suits_them() {
        assert_eq!(Time::from_ns(999).to_string(), "999.000 ns");
        assert_eq!(format!("{:.1}", Time::from_ns(1500)), "1.5 us");
        assert_eq!(Time::from_ns(2_000_000_000).to_string(), "2.000 s");
    }
}
