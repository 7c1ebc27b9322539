// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The known name that a misspelt one stands for.

/// The longest name that is compared, so that a hostile one costs little.
const LENGTH_MAX: usize = 100;

/// The name nearest to this one, if one is near: a third of the letters may differ.
pub fn nearest(wrong: &str, names: impl Iterator<Item = String>) -> Option<String> {
    if wrong.len() > LENGTH_MAX {
        return None;
    }
    let lower = wrong.to_ascii_lowercase();
    let bare = lower.strip_prefix("selvedge_").unwrap_or(&lower);
    let distance = |name: &str| {
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix("selvedge_").unwrap_or(&name);
        // Two letters that have changed places are one mistake.
        (strsim::osa_distance(bare, name), name.len().max(bare.len()))
    };
    let near = names.map(|name| (distance(&name), name)).filter(|((changes, length), _)| changes * 3 <= *length);
    near.min_by_key(|((changes, _), _)| *changes).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::VARIABLES;

    #[test]
    fn a_slip_is_understood() {
        let near = |wrong: &str| nearest(wrong, VARIABLES.iter().map(|variable| variable.name.to_owned()));
        for (wrong, right) in [
            ("SELVEDGE_MOED", "SELVEDGE_MODE"),
            ("SELVEDGE_HEAP_BYTE", "SELVEDGE_HEAP_BYTES"),
            ("SELVEDGE_NET_TIME_OUT", "SELVEDGE_NET_TIMEOUT"),
            ("SELVEDGE_YIELD_EVRY", "SELVEDGE_YIELD_EVERY"),
            ("SELVEDGE_SYMMETRIC_SIZE", "SHMEM_SYMMETRIC_SIZE"),
            ("selvedge_log", "SELVEDGE_LOG"),
        ] {
            assert_eq!(near(wrong).as_deref(), Some(right), "{wrong}");
        }
        for unlike in ["SELVEDGE_", "SELVEDGE_FLAVOUR_OF_ICE", "SELVEDGE_XYZ", &"SELVEDGE_MODE".repeat(50)] {
            assert_eq!(near(unlike), None, "{unlike}");
        }
    }
}
