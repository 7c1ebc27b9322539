// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document as a Markdown page. Its plots are files beside the page, named after them: `NAME.svg`.
//!
//! Texts are taken as they are: a document's backticks are Markdown's.

use std::fmt::Write;

use crate::{Block, Document, Table};

/// Returns the page of a document.
pub fn page(document: &Document) -> String {
    // Writing to a string does not fail.
    let mut out = format!("# {}\n", document.title);
    if !document.about.is_empty() {
        let _ = write!(out, "\n{}\n", document.about);
    }
    for section in &document.sections {
        if !section.title.is_empty() {
            let _ = write!(out, "\n## {}\n", section.title);
        }
        for block in &section.blocks {
            out.push('\n');
            let _ = match block {
                Block::Text(text) => writeln!(out, "{text}"),
                Block::List(items) => items.iter().try_for_each(|item| writeln!(out, "- {item}")),
                Block::Table(table) => add_table(&mut out, table),
                Block::Plot(plot) => writeln!(out, "![{}]({}.svg)", plot.title, plot.name),
                Block::Output(output) => {
                    writeln!(out, "{}\n\n```text\n$ {}\n{}\n```", output.title, output.command, output.text.trim_end())
                }
            };
        }
    }
    out
}

fn add_table(out: &mut String, table: &Table) -> std::fmt::Result {
    let cells = |cells: &[String]| cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | ");
    if table.columns.is_empty() {
        let columns = table.rows.first().map_or(1, Vec::len);
        writeln!(out, "{}|\n{}|", "| ".repeat(columns), "|---".repeat(columns))?;
    } else {
        let heads: Vec<String> = table.columns.iter().map(|column| column.head.clone()).collect();
        let rules: Vec<&str> = table.columns.iter().map(|column| if column.right { "---:" } else { "---" }).collect();
        writeln!(out, "| {} |\n|{}|", cells(&heads), rules.join("|"))?;
    }
    table.rows.iter().try_for_each(|row| writeln!(out, "| {} |", cells(row)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Line, Shape};
    use crate::{Output, Plot, Section, words};

    #[test]
    fn a_page_has_every_kind_of_block() {
        let mut values = Table::of_values();
        values.value("host", "a|b");
        let mut figures = Table::with_heads(&["case", ">median"]);
        figures.row(["put", "1 us"]);
        let plot = Plot {
            name: "latency".into(),
            title: "Latency".into(),
            x: Axis::linear("x", words::plain),
            y: Axis::linear("y", words::plain),
            shape: Shape::Lines(vec![Line { name: "put".into(), points: vec![(1.0, 2.0)] }]),
        };
        let output = Output { title: "A run".into(), command: "true".into(), text: "said\n".into() };
        let sections = vec![
            Section::new("").table(values).text("Of `this` machine."),
            Section::new("Latency").drawn(figures, vec![plot]).list(vec!["one".into(), "two".into()]).output(output),
        ];
        let page = page(&Document { title: "Title".into(), about: "About.".into(), sections });
        let wanted = "# Title\n\nAbout.\n\n| | |\n|---|---|\n| host | a\\|b |\n\nOf `this` machine.\n\n## Latency\n\n\
                      | case | median |\n|---|---:|\n| put | 1 us |\n\n![Latency](latency.svg)\n\n- one\n- two\n\n\
                      A run\n\n```text\n$ true\nsaid\n```\n";
        assert_eq!(page, wanted);
    }
}
