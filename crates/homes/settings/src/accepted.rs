// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a setting takes a value, by the kind of values that its row of the table gives.
//!
//! This looks at the text alone. Whether a directory exists, its reader finds out, and says so.

use std::time::Duration;

use crate::units;
use crate::variables::Variable;

/// A kind of values: its words in [`Variable::values`].
pub const SIZE: &str = "bytes, with K, M, G or T";
pub const TIME: &str = "a time, in seconds without a unit";
pub const TIME_IN_MICROSECONDS: &str = "a time, in microseconds without a unit";
pub const SWITCH: &str = "0 | 1";
pub const ANYTHING: &str = "anything";

/// Whether the setting takes this value.
pub fn accepts(variable: &Variable, text: &str) -> bool {
    let text = text.trim();
    let is_hexadecimal = || text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_word = || !text.is_empty() && !text.contains(char::is_whitespace);
    let number = || text.parse::<u32>().ok();
    match variable.values {
        ANYTHING => true,
        "bytes or a fraction, with K, M, G or T" => symmetric_size(text).is_some(),
        // For messages of MPI, 0 is a length.
        SIZE => units::bytes(text).is_ok_and(|bytes| bytes > 0 || variable.name.starts_with("SELVEDGE_FI_")),
        // Probes of a silent connection are whole seconds apart.
        TIME if variable.name == "SELVEDGE_NET_TIMEOUT" => {
            units::duration(text).is_ok_and(|time| time >= Duration::from_secs(1))
        }
        TIME => units::duration(text).is_ok_and(|time| !time.is_zero()),
        TIME_IN_MICROSECONDS => units::nanoseconds(text, units::MICROSECOND).is_ok(),
        "a number" if ["SELVEDGE_CORES", "SELVEDGE_NET_LINKS"].contains(&variable.name) => {
            number().is_some_and(|count| count > 0)
        }
        "a number from 1 to 512" => number().is_some_and(|tables| (1..=512).contains(&tables)),
        "a number from 1 to 1024" => number().is_some_and(|count| (1..=1024).contains(&count)),
        "a number from 0 to 1024" => number().is_some_and(|count| count <= 1024),
        "a number up to 262144" => number().is_some_and(|count| count <= 1 << 18),
        "a number" => number().is_some(),
        // An empty value counts as not set.
        "a directory" | "a directory without an archive" | "a file" | "a file on the hosts" => {
            !text.contains('\0') && !text.contains('\n')
        }
        "a command" => true,
        "a name or an address" | "an interface or an address" | "a provider of libfabric" => {
            text.is_empty() || is_word()
        }
        "host:port" => {
            let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
            text.is_empty() || matches!(port, Some(Ok(_)))
        }
        // Launchers make secrets of 64 digits; others work, too.
        "pairs of hexadecimal digits" | "64 hexadecimal digits" => text.len() % 2 == 0 && is_hexadecimal(),
        // Their reader knows more, and its error names the setting.
        faults if faults.starts_with("loss=") => true,
        "a name" => !text.is_empty(),
        // An empty value counts as not set.
        "a region's name" => text.len() <= 128,
        words if variable.name == "SELVEDGE_LOG" => {
            // Also `target=level`, a target alone, a comma-separated list of them, and `/` before a pattern.
            let is_level = |level: &str| words.split(" | ").any(|word| word.eq_ignore_ascii_case(level.trim()));
            let is_target = |part: &str| part.trim().is_empty() || part.trim().starts_with("selvedge");
            let levels = text.split('/').next().unwrap_or(text);
            levels
                .split(',')
                .all(|part| is_target(part) && !part.contains('=') || is_level(part.rsplit('=').next().unwrap_or(part)))
        }
        words => words.split(" | ").any(|word| word == text),
    }
}

/// Parses a size as in OpenSHMEM 1.6, "Environment Variables": an integer or a decimal fraction, and a suffix, of which
/// only the first character counts.
pub fn symmetric_size(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let suffix = text.find(|c: char| !c.is_ascii_digit() && c != '.').map(|at| (at, text[at..].chars().next()));
    let counted = match suffix {
        // The suffixes of the standard have no space before them, and no bytes.
        Some((at, Some(letter))) if "kmgtKMGT".contains(letter) => &text[..=at],
        Some(_) => return None,
        None => text,
    };
    units::bytes(counted).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_as_openshmem_requires() {
        for (text, bytes) in [
            ("20m", 20_971_520),
            ("3.1M", 3_250_586),
            (".5m", 524_288),
            ("0.5m", 524_288),
            ("20kk", 20_480),
            ("0", 0),
            ("1T", 1 << 40),
            ("4096", 4096),
        ] {
            assert_eq!(symmetric_size(text), Some(bytes), "{text}");
        }
        for wrong in ["", "m", "-1", "1.2.3", "12X", "1e9", "nonsense", "99999999999999999999T", "1 K"] {
            assert_eq!(symmetric_size(wrong), None, "{wrong}");
        }
    }
}
