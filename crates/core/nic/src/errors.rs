// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of several tables.

/// A table holds a value that no transition writes: a hostile or broken process wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// A table, or the heap, is full. The state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;
