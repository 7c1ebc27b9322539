// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The content of a report, without its layout: sections of tables, plots, text and outputs of commands.
//!
//! The same document is printed as text, written as an HTML page or a Markdown page, and drawn as pictures. In texts,
//! backticks enclose names of the command line.
//!
//! Invariants
//! 1. In a simulation's report, measurements of the wall clock are only in sections marked with [`Section::wall`]. All
//!    other sections are equal in two runs of the same simulation.
//! 2. Names of plots are unique in a document: they name files and places of the page.

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
    /// Empty: the section begins the document, under the document's title.
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
    List(Vec<String>),
    Table(Table),
    Plot(Plot),
    Output(Output),
}

/// The lines that a command printed. The page shows them when the reader unfolds the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    pub title: String,
    pub command: String,
    pub text: String,
}

/// Rows of text, with or without column heads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
    /// Names of the plots of this document that draw numbers of the table. The page links both ways.
    pub plots: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub head: String,
    /// Whether its values are aligned to the right, like numbers.
    pub right: bool,
}

impl Document {
    /// Puts a prefix before the names of all plots, so that the document can be joined with another.
    pub fn with_prefix(mut self, prefix: &str) -> Document {
        for block in self.sections.iter_mut().flat_map(|section| &mut section.blocks) {
            match block {
                Block::Plot(plot) => plot.name.insert_str(0, prefix),
                Block::Table(table) => table.plots.iter_mut().for_each(|name| name.insert_str(0, prefix)),
                _ => {}
            }
        }
        self
    }

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

    pub fn list(mut self, items: Vec<String>) -> Section {
        self.blocks.push(Block::List(items));
        self
    }

    pub fn output(mut self, output: Output) -> Section {
        self.blocks.push(Block::Output(output));
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

    /// Adds a table, and the plots that draw its numbers.
    pub fn drawn(self, table: Table, plots: impl IntoIterator<Item = Plot>) -> Section {
        let plots: Vec<Plot> = plots.into_iter().collect();
        self.table(table.drawn_by(&plots)).plots(plots)
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
        Table { columns: heads.iter().map(column).collect(), rows: Vec::new(), plots: Vec::new() }
    }

    /// Makes a table of names and values, without heads.
    pub fn of_values() -> Table {
        Table::default()
    }

    /// Notes that these plots draw numbers of the table.
    pub fn drawn_by<'a>(mut self, plots: impl IntoIterator<Item = &'a Plot>) -> Table {
        self.plots.extend(plots.into_iter().map(|plot| plot.name.clone()));
        self
    }

    /// Removes columns without a value in any row.
    pub fn without_empty_columns(mut self) -> Table {
        let is_used = |at: usize| self.rows.iter().any(|row| row.get(at).is_some_and(|cell| !cell.is_empty()));
        let used: Vec<bool> = (0..self.columns.len()).map(is_used).collect();
        fn retain<T>(all: &mut Vec<T>, used: &[bool]) {
            let mut used = used.iter();
            all.retain(|_| used.next() != Some(&false));
        }
        retain(&mut self.columns, &used);
        self.rows.iter_mut().for_each(|row| retain(row, &used));
        self
    }

    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Adds a name and its value.
    pub fn value(&mut self, name: &str, value: impl std::fmt::Display) {
        self.rows.push(vec![name.to_owned(), value.to_string()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_columns_can_be_left_out() {
        let mut table = Table::with_heads(&["case", ">depth", ">rate"]);
        table.row(["a", "", "1"]);
        table.row(["b", "", ""]);
        let table = table.without_empty_columns();
        let heads: Vec<&str> = table.columns.iter().map(|column| &*column.head).collect();
        assert_eq!(
            (heads, &table.rows[..]),
            (vec!["case", "rate"], &[vec!["a".into(), "1".into()], vec!["b".into(), String::new()]][..])
        );
    }
}
