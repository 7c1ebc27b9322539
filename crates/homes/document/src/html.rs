// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document as one HTML page, without other files or external resources. Only a drawing that is given has a script.
//!
//! Colours follow the reader's setting, light or dark. Long sections can be folded (`<details>`).

use std::fmt::Write;

use crate::plot::escaped;
use crate::{Block, Document, Section, Table};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2126;--dim:#5d6670;--paper:#fff;--line:#d8dce0;--stripe:#f5f7f8}
@media(prefers-color-scheme:dark){:root{--ink:#dfe3e8;--dim:#98a2ad;--paper:#16191d;--line:#343a41;--stripe:#1d2126}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:66rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin-bottom:.2rem;overflow-wrap:anywhere}h2,summary{font-size:1.15rem;font-weight:600;margin:1.8rem 0 .5rem}
summary{cursor:pointer}.about,.note{color:var(--dim)}nav a{margin-right:1em}a{color:inherit}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.4rem 0 1rem}
td,th{padding:.15rem .7rem .15rem .4rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{color:var(--dim);font-weight:600}tbody tr:nth-child(even){background:var(--stripe)}.r{text-align:right}td.r,td.n{white-space:nowrap}td.n{color:var(--dim)}
svg{max-width:100%;height:auto;color:var(--ink)}figure{margin:.5rem 0 1.2rem}";

/// A part of the page that comes from elsewhere, such as a drawing of the topology: its style, its markup, which stands
/// before all sections, and its script, which stands at the end.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    pub style: String,
    pub body: String,
    pub script: String,
}

/// Returns the page of a document.
pub fn page(document: &Document, drawn: Option<&Drawn>) -> String {
    let title = escaped(&document.title);
    let mut out = String::new();
    let style = drawn.map_or("", |drawn| &drawn.style);
    let head = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
                <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
    // Writing to a string does not fail.
    let _ =
        write!(out, "{head}<title>{title}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n");
    if !document.about.is_empty() {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", escaped(&document.about));
    }
    out.push_str("<nav>");
    for (number, section) in document.sections.iter().enumerate() {
        let _ = write!(out, "<a href=\"#s{number}\">{}</a>", escaped(&section.title));
    }
    out.push_str("</nav>\n");
    if let Some(drawn) = drawn {
        let _ = writeln!(out, "{}", drawn.body);
    }
    for (number, section) in document.sections.iter().enumerate() {
        add_section(&mut out, number, section);
    }
    if let Some(drawn) = drawn {
        let _ = writeln!(out, "<script>{}</script>", drawn.script);
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn add_section(out: &mut String, number: usize, section: &Section) {
    let title = escaped(&section.title);
    let _ = match section.folded {
        true => writeln!(out, "<details id=\"s{number}\"><summary>{title}</summary>"),
        false => writeln!(out, "<section id=\"s{number}\"><h2>{title}</h2>"),
    };
    if section.wall {
        out.push_str("<p class=\"note\">Measured on the computer that ran the simulation; another run differs.</p>\n");
    }
    for block in &section.blocks {
        match block {
            Block::Text(text) => {
                let _ = writeln!(out, "<p>{}</p>", escaped(text));
            }
            Block::Table(table) => add_table(out, table),
            Block::Plot(plot) => {
                let _ = writeln!(out, "<figure>{}</figure>", plot.inline_svg());
            }
        }
    }
    out.push_str(if section.folded { "</details>\n" } else { "</section>\n" });
}

fn add_table(out: &mut String, table: &Table) {
    out.push_str("<div class=\"scroll\"><table>\n");
    let class = |at: usize| match table.columns.get(at) {
        Some(column) if column.right => " class=\"r\"",
        // The name of a value.
        None if at == 0 => " class=\"n\"",
        _ => "",
    };
    if !table.columns.is_empty() {
        out.push_str("<thead><tr>");
        for (at, column) in table.columns.iter().enumerate() {
            let _ = write!(out, "<th{}>{}</th>", class(at), escaped(&column.head));
        }
        out.push_str("</tr></thead>\n");
    }
    out.push_str("<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(at), escaped(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}
