// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Subcommands of `selvedge-rtl` that need no unit.

mod plots;
pub mod report;
