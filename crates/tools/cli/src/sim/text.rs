// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A report as text for a terminal: its summary, or all of its tables.
//!
//! Invariant: the layout of a table does not depend on other tables, and no line ends in blanks. So a line without
//! wall-clock values is the same in two runs, on terminals of one width.

use selvedge_document::{Block, Document, Table};
use selvedge_terminal::paragraph;

/// The report as text. `all`: includes sections and tables that are not in the summary.
pub fn text(document: &Document, all: bool) -> String {
    let mut out = String::new();
    for section in document.sections.iter().filter(|section| all || section.summary) {
        let mut body = String::new();
        let mut tables = 0;
        for block in &section.blocks {
            match block {
                Block::Text(text) => body.push_str(&paragraph(text, 2)),
                // The first of several tables is the summary.
                Block::Table(shown) if all || tables == 0 => {
                    tables += 1;
                    body.push_str(&table(shown, 2));
                }
                Block::List(items) => items.iter().for_each(|item| body.push_str(&paragraph(item, 2))),
                Block::Table(_) | Block::Plot(_) | Block::Output(_) => {}
            }
        }
        if !body.is_empty() {
            // Every line about the wall clock begins with "wall".
            let mark = if section.wall && !section.title.starts_with("Wall") { "Wall clock: " } else { "" };
            let title = paragraph(&format!("{mark}{}", section.title), 0);
            out.push_str(&format!("{}{title}{body}", if out.is_empty() { "" } else { "\n" }));
        }
    }
    out
}

/// Returns a table for a terminal, with blanks before each line.
pub fn table(table: &Table, indent: usize) -> String {
    let mark = |right| if right { ">" } else { "" };
    let heads: Vec<String> =
        table.columns.iter().map(|column| format!("{}{}", mark(column.right), column.head)).collect();
    let mut drawn = selvedge_terminal::Table::new(&heads).indented(indent).ruled();
    table.rows.iter().for_each(|row| drawn.row(row));
    drawn.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_document::Section;
    use selvedge_sim::report::Wall;

    #[test]
    fn lines_of_the_wall_clock_can_be_recognised() {
        let document = |seconds, more: &[(&str, f64)]| {
            let mut values = Table::of_values();
            values.value("virtual time", "1.000 us");
            values.value("control", "a\u{1b}[2Jb");
            let mut heads = Table::with_heads(&["channel", ">flits"]);
            heads.row(["a", "1"]);
            let more = more.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            let wall = Wall { seconds, memory_peak_bytes: Some(1 << 20), more };
            let sections = vec![
                Section::new("Run").in_summary().table(values).table(heads),
                wall.section(1000, 10),
                Section::new("Page only").text("hidden"),
            ];
            Document { title: "t".into(), about: String::new(), sections }
        };
        let (one, other) =
            (text(&document(1.0, &[]), false), text(&document(123.0, &[("ns_per_call_of_a_rank", 5.0)]), false));
        let kept = |text: &str| -> Vec<String> {
            text.lines()
                .filter(|line| !line.trim_start().to_lowercase().starts_with("wall"))
                .map(str::to_owned)
                .collect()
        };
        assert_ne!(one, other);
        assert_eq!(kept(&one), kept(&other));
        assert!(one.contains("virtual time  1.000 us") && one.contains("a?[2Jb") && !one.contains("hidden"), "{one}");
        assert!(!one.contains("channel") && text(&document(1.0, &[]), true).contains("channel"));
        assert!(one.lines().all(|line| line.trim_end() == line));
    }
}
