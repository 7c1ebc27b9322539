// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all tests of units share.

use selvedge_rtl::Unit;
use selvedge_rtl::unit::Missing;

/// The unit, or None with a word where Verilator is missing.
pub fn unit(name: &str) -> Option<Unit> {
    built(Unit::new(name))
}

/// What stands on a unit, or None with a word where Verilator is missing.
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
