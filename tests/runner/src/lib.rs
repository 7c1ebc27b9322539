// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runner of the C test suites.
//!
//! A suite is a folder of C programs. Each program is a family of cases (`tests/include/check.h`), and the suite's
//! table ([`Suite`]) sets how to compile a program and in which variants to run a case. Each pair of variant and case
//! is a test, named `variant::family::case`, so the usual filters choose among them:
//!
//! ```text
//! cargo test -p selvedge-conformance                      everything
//! cargo test -p selvedge-conformance -- cma::lists        one family in one variant
//! cargo test -p selvedge-conformance -- --list
//! ```
//!
//! The libraries and the launcher come from the built tree ([`tree`]).
//!
//! 1. A family that does not compile is one failed test, `compile::family`; the other families still run.
//! 2. A case passes only if its job ends with the case's status (0 only if every rank has it) and prints the text that
//!    the case requires.
//! 3. A failure shows the rule of the case, the job's output, and the commands that repeat the case alone. The output
//!    stays in a file in the target folder.
//! 4. An incomplete setup ends the whole run with a failure: as a failed test, a filter could hide it.

mod case;
mod compile;
pub mod process;
mod suite;
pub mod tree;

pub use case::Case;
pub use compile::{Compiler, compile_once, files_with};
pub use suite::{Exception, Start, Suite, Variant, run};
