// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A result as a document: sections of tables, plots and text, and their layouts. Simulations, studies, benchmarks and
//! the figures of the RTL are shown by it.
//!
//! | file | subject |
//! |---|---|
//! | `document` | the content, without its layout |
//! | [`plot`] | pictures (SVG), the only user of `plotters` |
//! | [`html`], [`markdown`] | the document as a page |
//! | [`words`] | numbers with a unit, as text |
//!
//! Rule: no code here reads a clock or a file, so that equal documents have equal layouts, byte by byte.

mod document;
pub mod html;
pub mod markdown;
pub mod plot;
pub mod words;

pub use document::{Block, Column, Document, Output, Section, Table};
pub use plot::Plot;
