// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The content of a report, without its layout: sections of tables, plots and text.
//!
//! The same document is printed as text, written as an HTML page and drawn as pictures.
//!
//! Invariant: measurements of the wall clock are only in sections marked with [`Section::wall`]. All other sections are
//! equal in two runs of the same simulation.

use crate::Plot;

/// A report.
#[derive(Clone, Debug, Default)]
pub struct Document {
    pub title: String,
    /// A sentence or two under the title.
    pub about: String,
    pub sections: Vec<Section>,
}

/// A section of a report.
#[derive(Clone, Debug, Default)]
pub struct Section {
    pub title: String,
    /// Whether a terminal shows it; the page has all sections.
    pub summary: bool,
    /// Whether it depends on the speed of the computer that ran the simulation.
    pub wall: bool,
    /// Whether the page shows it only when the reader unfolds it.
    pub folded: bool,
    pub blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
pub enum Block {
    Text(String),
    Table(Table),
    Plot(Plot),
}

/// Rows of text, with or without column heads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub head: String,
    /// Whether its values are aligned to the right, like numbers.
    pub right: bool,
}

impl Document {
    /// Returns all plots, in order.
    pub fn plots(&self) -> impl Iterator<Item = &Plot> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.filter_map(|block| match block {
            Block::Plot(plot) => Some(plot),
            _ => None,
        })
    }
}

impl Section {
    pub fn new(title: &str) -> Section {
        Section { title: title.to_owned(), ..Section::default() }
    }

    /// Marks the section as one that a terminal shows.
    pub fn in_summary(mut self) -> Section {
        self.summary = true;
        self
    }

    pub fn of_wall(mut self) -> Section {
        self.wall = true;
        self
    }

    pub fn folded(mut self) -> Section {
        self.folded = true;
        self
    }

    pub fn text(mut self, text: impl Into<String>) -> Section {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    pub fn table(mut self, table: Table) -> Section {
        self.blocks.push(Block::Table(table));
        self
    }

    pub fn plot(mut self, plot: Plot) -> Section {
        self.blocks.push(Block::Plot(plot));
        self
    }

    pub fn plots(mut self, plots: impl IntoIterator<Item = Plot>) -> Section {
        self.blocks.extend(plots.into_iter().map(Block::Plot));
        self
    }
}

impl Table {
    /// Makes a table with heads; a head that begins with `>` is that of a column of numbers.
    pub fn with_heads(heads: &[&str]) -> Table {
        let column = |head: &&str| match head.strip_prefix('>') {
            Some(head) => Column { head: head.to_owned(), right: true },
            None => Column { head: (*head).to_owned(), right: false },
        };
        Table { columns: heads.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Makes a table of names and values, without heads.
    pub fn of_values() -> Table {
        Table::default()
    }

    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Adds a name and its value.
    pub fn value(&mut self, name: &str, value: impl std::fmt::Display) {
        self.rows.push(vec![name.to_owned(), value.to_string()]);
    }
}
