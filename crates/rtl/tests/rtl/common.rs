// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all tests of units share.

use selvedge_rtl::Unit;
use selvedge_rtl::unit::Missing;

/// The unit, or None with a word where Verilator is missing.
pub fn unit(name: &str) -> Option<Unit> {
    match Unit::new(name) {
        Ok(unit) => Some(unit),
        Err(Missing::Verilator) => {
            eprintln!("skipped: {}", Missing::Verilator);
            None
        }
        Err(missing) => panic!("{missing}"),
    }
}
