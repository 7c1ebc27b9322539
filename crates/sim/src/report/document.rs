// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a report says, without how it looks: sections of tables, plots and words.
//!
//! One document is printed as text, written as a page and drawn as pictures; so none of the three can say what the
//! others do not know.
//!
//! Invariant: what was measured with the wall clock stands in sections that are marked so ([`Section::wall`]), and
//! nowhere else. All others are equal in two runs of the same simulation.

use super::plot::Plot;

/// A report.
#[derive(Clone, Debug, Default)]
pub struct Document {
    pub title: String,
    /// A sentence or two under the title.
    pub about: String,
    pub sections: Vec<Section>,
}

/// A part of it.
#[derive(Clone, Debug, Default)]
pub struct Section {
    pub title: String,
    /// Whether it belongs to what a terminal shows; all of it is on the page.
    pub summary: bool,
    /// Whether it depends on how fast this computer was.
    pub wall: bool,
    /// Whether the page shows it only on request.
    pub folded: bool,
    pub blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
pub enum Block {
    Text(String),
    Table(Table),
    Plot(Plot),
}

/// Rows of text under heads. A table of names and values has no heads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub head: String,
    /// Whether its values stand to the right, as numbers do.
    pub right: bool,
}

impl Document {
    /// All plots, in order.
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

    /// Also on a terminal.
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
    /// With heads; one that begins with `>` stands above numbers.
    pub fn with_heads(heads: &[&str]) -> Table {
        let column = |head: &&str| match head.strip_prefix('>') {
            Some(head) => Column { head: head.to_owned(), right: true },
            None => Column { head: (*head).to_owned(), right: false },
        };
        Table { columns: heads.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Names and values, two to a row.
    pub fn of_values() -> Table {
        Table::default()
    }

    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// A name and its value.
    pub fn value(&mut self, name: &str, value: impl std::fmt::Display) {
        self.rows.push(vec![name.to_owned(), value.to_string()]);
    }
}
