// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table: a section for each chapter of the OpenSHMEM specification, a row for each family of functions. A row
//! reads
//!
//! ```text
//! /// Text of the header and of the page.
//! "prototype, with TYPE" => "rust::path::<TYPE>" [SETS, OF TYPES], further, properties;
//! ```
//!
//! where each further property is a method of `Row`: `ctx`, `deprecated("1.5")`, and so on. See the top of
//! `api/mod.rs`.

mod atomics;
mod collectives;
mod rma;
mod setup;
mod shmemx;
mod sync;

use super::Section;

macro_rules! section {
    ($title:literal, $header:ident:
        $($(#[doc = $summary:literal])+
          $prototype:literal => $rust:literal
          $([$($set:ident),+])? $(, $property:ident $(($($argument:expr),+))?)*;)*
    ) => {
        $crate::api::Section {
            title: $title,
            header: $crate::api::Header::$header,
            rows: &[$(
                $crate::api::Row::new($prototype, $rust, concat!($($summary),+))
                    $(.over(&[$(&$crate::api::types::$set),+]))?
                    $(.$property($($($argument),+)?))*
            ),*],
        }
    };
}
use section;

pub const SECTIONS: &[Section] = &[
    setup::SETUP,
    setup::THREADS,
    setup::MEMORY,
    setup::TEAMS,
    setup::CONTEXTS,
    rma::BLOCKING,
    rma::NON_BLOCKING,
    rma::COUNTING,
    atomics::BLOCKING,
    atomics::NON_BLOCKING,
    atomics::OLD,
    sync::SIGNALS,
    setup::SESSIONS,
    collectives::SYNCHRONISATION,
    collectives::EXCHANGE,
    collectives::REDUCTIONS,
    collectives::SCANS,
    collectives::ACTIVE_SETS,
    sync::WAITING,
    sync::TESTING,
    setup::ORDER,
    setup::LOCKS,
    setup::PROFILING,
    setup::CACHE,
    shmemx::COUNTING,
    shmemx::RMA,
    shmemx::SIGNALS,
    shmemx::SCANS,
    shmemx::QUERIES,
    shmemx::REGIONS,
];
