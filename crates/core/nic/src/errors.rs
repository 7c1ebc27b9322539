// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors that several tables share.

/// A table holds a value that no transition writes: a hostile or broken process wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// A table, or the heap, has no room. The state is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;
