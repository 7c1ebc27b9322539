// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables in three layouts, the first of which fits: a line for each row; cells wrapped at blanks; a block for each row,
//! with a line for each of its cells.
//!
//! Invariants: 1. a number is never broken, and nothing is cut off. 2. No line ends in blanks. 3. Without a width each
//! row is one line, and its layout depends on this table alone.

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, TableComponent, Width};
use unicode_width::UnicodeWidthStr;

use crate::{has_colours, printable, width};

/// Blanks between two columns.
const GAP: u16 = 2;
/// Columns that a cell of text keeps for its longest word. Longer words, such as paths, are broken.
const WORD_MAX: usize = 20;
/// The least width that anything is fitted to.
const WIDTH_MIN: usize = 20;

/// The colour of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Doubtful,
    Bad,
}

/// A cell: text, and perhaps a colour.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Cell {
    pub fn new(text: impl Into<String>) -> Cell {
        Cell { text: printable(&text.into()), tone: None }
    }

    pub fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { tone: Some(tone), ..Cell::new(text) }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::new(text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::new(text)
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        Cell::new(text)
    }
}

#[derive(Clone, Debug, Default)]
struct Column {
    head: String,
    is_number: bool,
}

/// Rows of cells, with or without heads.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Empty: no heads.
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
    is_ruled: bool,
}

impl Table {
    /// A table with heads. A head that begins with `>` is that of a column of numbers, which is aligned to the right.
    pub fn new<S: AsRef<str>>(heads: &[S]) -> Table {
        let column = |head: &S| match head.as_ref().strip_prefix('>') {
            Some(head) => Column { head: printable(head), is_number: true },
            None => Column { head: printable(head.as_ref()), is_number: false },
        };
        Table { columns: heads.iter().map(column).collect(), ..Table::default() }
    }

    /// Names and values, or other rows without heads.
    pub fn without_heads() -> Table {
        Table::default()
    }

    /// Begins each line with blanks.
    pub fn indented(mut self, blanks: usize) -> Table {
        self.indent = blanks;
        self
    }

    /// Draws a line below the heads.
    pub fn ruled(mut self) -> Table {
        self.is_ruled = true;
        self
    }

    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as whole lines, for standard output.
    pub fn text(&self) -> String {
        self.text_for(width(), has_colours())
    }

    /// The table as whole lines, for an output of `width` columns; `None`: any number.
    pub fn text_for(&self, width: Option<usize>, colours: bool) -> String {
        let Some(width) = width.map(|width| width.max(WIDTH_MIN).saturating_sub(self.indent)) else {
            return self.lines(None, colours);
        };
        let columns = self.rows.iter().map(Vec::len).chain([self.columns.len()]).max().unwrap_or(0);
        let gaps = usize::from(GAP) * columns.saturating_sub(1);
        let sum = |word_max| (0..columns).map(|at| self.column_width(at, word_max)).sum::<usize>() + gaps;
        match () {
            () if sum(None) <= width => self.lines(None, colours),
            () if sum(Some(WORD_MAX)) <= width => self.lines(Some((width, WORD_MAX)), colours),
            // Without heads there is nothing to begin the lines of a block with.
            () if self.columns.is_empty() => {
                let share = width.saturating_sub(gaps) / columns.max(1);
                self.lines(Some((width, share.clamp(1, WORD_MAX))), colours)
            }
            () => self.blocks(width, colours),
        }
    }

    /// Columns that a column takes without breaking a line; or at least, where cells are wrapped and words longer than
    /// `word_max` broken.
    fn column_width(&self, at: usize, word_max: Option<usize>) -> usize {
        let word = |text: &str| text.split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0);
        let (head, is_number) = self.columns.get(at).map_or(("", false), |column| (&*column.head, column.is_number));
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| match word_max {
            Some(most) if !is_number => word(&cell.text).min(most),
            _ => cell.text.width(),
        });
        cells.chain([if word_max.is_some() { word(head) } else { head.width() }]).max().unwrap_or(0)
    }

    /// A line for each row, or more lines where cells do not fit. `fitted`: the width, and the longest word that is kept.
    fn lines(&self, fitted: Option<(usize, usize)>, colours: bool) -> String {
        let mut drawn = empty(fitted.map(|(width, _)| width), colours);
        if !self.columns.is_empty() {
            let bold = |column: &Column| comfy_table::Cell::new(&column.head).add_attribute(Attribute::Bold);
            drawn.set_header(self.columns.iter().map(bold));
        }
        if self.is_ruled {
            // The rule has a blank between two columns, so the rows have one, too.
            drawn.set_style(TableComponent::HeaderLines, '-').set_style(TableComponent::VerticalLines, ' ');
        }
        for row in &self.rows {
            drawn.add_row(row.iter().map(Cell::drawn));
        }
        let count = drawn.column_count();
        for (at, column) in drawn.column_iter_mut().enumerate() {
            let is_number = self.columns.get(at).is_some_and(|column| column.is_number);
            column.set_cell_alignment(if is_number { CellAlignment::Right } else { CellAlignment::Left });
            let gap = if at + 1 < count { GAP - u16::from(self.is_ruled) } else { 0 };
            column.set_padding((0, gap));
            if let Some((_, word_max)) = fitted {
                let least = self.column_width(at, Some(word_max)) as u16 + gap;
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            }
        }
        finished(&drawn, self.indent)
    }

    /// A block for each row, with a line for each cell that is not empty.
    fn blocks(&self, width: usize, colours: bool) -> String {
        let block = |row: &Vec<Cell>| {
            let mut drawn = empty(Some(width), colours);
            for (column, cell) in self.columns.iter().zip(row).filter(|(_, cell)| !cell.text.is_empty()) {
                drawn.add_row([comfy_table::Cell::new(&column.head).add_attribute(Attribute::Bold), cell.drawn()]);
            }
            if let Some(heads) = drawn.column_mut(0) {
                heads.set_padding((0, GAP));
                heads.set_constraint(ColumnConstraint::Absolute(Width::Fixed(self.heads_width(width) as u16 + GAP)));
            }
            if let Some(values) = drawn.column_mut(1) {
                values.set_padding((0, 0));
            }
            finished(&drawn, self.indent)
        };
        self.rows.iter().map(block).collect::<Vec<_>>().join("\n")
    }

    /// Columns for the heads of blocks, which stand below each other: at most half, and the numbers keep theirs.
    fn heads_width(&self, width: usize) -> usize {
        let widest = self.columns.iter().map(|column| column.head.width()).max().unwrap_or(0);
        let numbers = (0..self.columns.len()).filter(|&at| self.columns[at].is_number);
        let cells = numbers.flat_map(|at| self.rows.iter().filter_map(move |row| row.get(at)));
        let number = cells.map(|cell| cell.text.width()).max().unwrap_or(0);
        widest.min(width / 2).min(width.saturating_sub(number + usize::from(GAP))).max(1)
    }
}

impl Cell {
    fn drawn(&self) -> comfy_table::Cell {
        let cell = comfy_table::Cell::new(&self.text);
        match self.tone {
            None => cell,
            Some(Tone::Good) => cell.fg(Color::Green),
            Some(Tone::Doubtful) => cell.fg(Color::Yellow),
            Some(Tone::Bad) => cell.fg(Color::Red),
        }
    }
}

fn empty(width: Option<usize>, colours: bool) -> comfy_table::Table {
    let mut drawn = comfy_table::Table::new();
    drawn.load_preset(NOTHING);
    match width {
        Some(width) => {
            drawn.set_content_arrangement(ContentArrangement::Dynamic);
            drawn.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        }
        None => {
            drawn.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    if colours {
        drawn.enforce_styling();
    } else {
        drawn.force_no_tty();
    }
    drawn
}

fn finished(drawn: &comfy_table::Table, indent: usize) -> String {
    let blanks = " ".repeat(indent);
    let line = |line: String| format!("{}\n", format!("{blanks}{line}").trim_end());
    drawn.lines().map(line).collect()
}

/// A paragraph as whole lines for standard output, each with blanks before it.
pub fn paragraph(text: &str, indent: usize) -> String {
    paragraph_for(text, indent, width())
}

/// A paragraph as whole lines, for an output of `width` columns; `None`: one line.
pub fn paragraph_for(text: &str, indent: usize, width: Option<usize>) -> String {
    let mut table = Table::without_heads().indented(indent);
    table.row([text]);
    table.text_for(width, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&["case", ">size", "what it measures", ">round trip ns"]);
        table.row(["put", "8", "a put of eight bytes from one rank to its neighbour", "123456789"]);
        table.row(["counting_put_of_a_long_name", "65536", "many", "7"]);
        table
    }

    fn widest(text: &str) -> usize {
        text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0)
    }

    #[test]
    fn a_pipe_gets_a_line_for_each_row() {
        let text = sample().text_for(None, false);
        assert_eq!(text.lines().count(), 3, "{text}");
        let second = "counting_put_of_a_long_name  65536  many";
        assert!(text.lines().nth(2).is_some_and(|line| line.starts_with(second) && line.ends_with("  7")), "{text}");
        let text = sample().ruled().indented(2).text_for(None, false);
        assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("  ---")), "{text}");
        // The rule of a column begins below its head.
        let at = |line: usize, found: &str| text.lines().nth(line).and_then(|line| line.rfind(found));
        assert_eq!(at(1, " -").map(|blank| blank + 1), at(0, "round trip ns"), "{text}");
        assert!(text.lines().all(|line| line.starts_with("  ") && line.trim_end() == line), "{text}");
    }

    #[test]
    fn every_width_is_kept_and_no_number_broken() {
        for width in [0, 1, 20, 30, 40, 60, 79, 80, 100, 132, 200] {
            let text = sample().text_for(Some(width), false);
            assert!(widest(&text) <= width.max(WIDTH_MIN), "{width}:\n{text}");
            assert!(widest(&sample().ruled().text_for(Some(width), false)) <= width.max(WIDTH_MIN), "{width}");
            for number in ["65536", "123456789"] {
                assert!(text.split_whitespace().any(|word| word == number), "{width}: {number}\n{text}");
            }
            // Nothing is cut off: letters that no head has.
            let letters = |text: &str| text.chars().filter(|letter| "qxj0123456789_".contains(*letter)).count();
            assert_eq!(letters(&text), letters(&sample().text_for(None, false)), "{width}:\n{text}");
            assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
        }
        assert_eq!(sample().text_for(Some(200), false), sample().text_for(None, false));
    }

    #[test]
    fn what_cannot_be_wrapped_becomes_blocks() {
        let wrapped = sample().text_for(Some(80), false);
        assert!(wrapped.lines().next().is_some_and(|line| line.starts_with("case")), "{wrapped}");
        let blocks = sample().text_for(Some(40), false);
        assert!(blocks.contains("round trip ns     123456789\n\ncase"), "{blocks}");
        assert!(blocks.lines().next().is_some_and(|line| line == "case              put"), "{blocks}");
    }

    #[test]
    fn colours_are_only_where_they_are_wanted() {
        let mut table = Table::new(&["state"]);
        table.row([Cell::toned("dead\u{1b}[2J", Tone::Bad)]);
        assert_eq!(table.text_for(None, false), "state\ndead?[2J\n");
        let coloured = table.text_for(None, true);
        assert!(coloured.contains("\u{1b}[") && coloured.contains("dead?[2J"), "{coloured:?}");
    }

    #[test]
    fn values_without_heads_are_wrapped() {
        let mut table = Table::without_heads().indented(1);
        table.row(["kernel", "a long text about the kernel of this machine"]);
        assert_eq!(table.text_for(None, false).lines().count(), 1);
        let text = table.text_for(Some(30), false);
        assert!(widest(&text) <= 30 && text.lines().count() > 1, "{text}");
        let mut table = Table::without_heads();
        table.row(["a_name_of_more_than_twenty_letters", "/a/path/of/more/than/twenty/letters"]);
        assert!(widest(&table.text_for(Some(40), false)) <= 40, "{}", table.text_for(Some(40), false));
        assert!(Table::new(&["a", "b"]).text_for(Some(80), false).starts_with("a"));
        assert!(Table::without_heads().is_empty());
    }

    #[test]
    fn paragraphs_are_wrapped_at_blanks() {
        let text = paragraph_for("one two three four five six seven", 2, Some(20));
        assert_eq!(text, "  one two three four\n  five six seven\n");
        assert_eq!(paragraph_for("one two", 1, None), " one two\n");
    }
}
