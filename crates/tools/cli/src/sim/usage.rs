// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of the user.

/// An invalid command line or machine, with its remedy.
#[derive(Debug, PartialEq, Eq)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
