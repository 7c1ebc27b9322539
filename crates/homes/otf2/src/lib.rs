// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces in OTF2, the format of Vampir, Scalasca, Cube and Trace Compass.
//!
//! | module | contents |
//! |---|---|
//! | [`archive`] | an archive being written, through the system's OTF2 library |
//! | [`definitions`] | the names and numbers that an archive's events refer to |
//! | [`library`] | the functions of that library |
//! | [`recording`] | the calls of a running program, in files that a killed program leaves readable |
//! | [`calls`] | an archive made from these files |
//!
//! Invariants
//! 1. No program links the OTF2 library. It is loaded when an archive is written.
//! 2. The same events and definitions give the same bytes in every file of the archive.

pub mod archive;
pub mod calls;
pub mod definitions;
pub mod library;
pub mod recording;

pub use archive::{Archive, ArchiveError};
