// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! SystemRDL component definitions
#![allow(non_camel_case_types)] // needed for type normalization suffixes

use super::_root; // alias to root module of generated code

pub mod selvedge_nic;
pub mod selvedge_portals;
pub mod selvedge_velo;
pub mod selvedge_rma;
pub mod selvedge_atu;
pub mod selvedge_velo_tables;
pub mod selvedge_interrupts;
pub mod selvedge_velo_pages;
pub mod selvedge_rma_tables;
pub mod selvedge_rma_pages;
pub mod selvedge_atu_tables;
pub mod selvedge_flush_kind;
pub mod selvedge_flush_mode;
