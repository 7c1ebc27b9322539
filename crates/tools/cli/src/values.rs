// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of options that several commands have: times, sizes within a range.

use std::ops::RangeInclusive;
use std::time::Duration;

use selvedge_settings::units::{self, UnitError};

/// A time. A number without a unit is in seconds.
pub fn time(text: &str) -> Result<Duration, UnitError> {
    units::duration(text)
}

/// A time above 0.
pub fn time_above_zero(text: &str) -> Result<Duration, String> {
    let time = units::duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("give a time above 0, as in 10 (seconds) or 500ms".to_owned()) } else { Ok(time) }
}

/// A size within a range, in bytes.
pub fn size_in(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        let bytes = units::bytes(text).map_err(|error| error.to_string())?;
        let fits = u32::try_from(bytes).ok().filter(|bytes| range.contains(bytes));
        fits.ok_or_else(|| format!("{bytes} bytes: give {} to {} bytes", range.start(), range.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_bounds() {
        assert_eq!(time_above_zero("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(time_above_zero("2"), Ok(Duration::from_secs(2)));
        assert!(time_above_zero("0").is_err() && time_above_zero("-1").is_err() && time_above_zero("soon").is_err());
        let size = size_in(64..=1 << 20);
        assert_eq!((size("64"), size("4K"), size("1MiB")), (Ok(64), Ok(4096), Ok(1 << 20)));
        assert!(size("63").unwrap_err().contains("64 to 1048576") && size("8G").is_err() && size("much").is_err());
    }
}
