// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts that all tests of units share.

use proptest::prelude::ProptestConfig;
use selvedge_rtl::Unit;
use selvedge_rtl::unit::Missing;

/// The unit; `None` after a message if Verilator is missing.
pub fn unit(name: &str) -> Option<Unit> {
    built(Unit::new(name))
}

/// The lockstep of a unit; `None` after a message if Verilator is missing.
pub fn built<T>(made: Result<T, Missing>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(Missing::Verilator) => {
            eprintln!("skipped: {}", Missing::Verilator);
            None
        }
        Err(missing) => panic!("{missing}"),
    }
}

/// At most this number of random histories, fewer with `PROPTEST_CASES`: coverage counts and gate netlists are slow.
pub fn histories(most: u32) -> ProptestConfig {
    let fewer = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok());
    ProptestConfig::with_cases(fewer.map_or(most, |count: u32| count.min(most)))
}
