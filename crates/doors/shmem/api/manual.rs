// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders the manual pages of section 3: one for each family of functions, and under each function's name a link to
//! the page of its family, so that `man shmem_int_put` shows `shmem_put.3`. `manual_pages.rs` writes them.

use std::fmt::Write as _;

use super::functions::SECTIONS;
use super::generics::generic_name;
use super::page::{heading, prototypes};
use super::types::{Naming, Set};
use super::{Generic, Header, Row, in_c};

/// A manual page, and the names under which it is found.
pub struct ManualPage {
    /// Without `.3`.
    pub name: String,
    pub text: String,
    /// Functions of the page that are not its own name.
    pub links: Vec<String>,
}

/// A page for each family. The families of one name, as `shmem_wait` with and without a type, share one.
pub fn pages(version: &str) -> Vec<ManualPage> {
    let mut families: Vec<(String, Header, Vec<&Row>)> = Vec::new();
    for section in SECTIONS {
        for row in section.rows {
            let heading = heading(row);
            let name = heading.split(' ').next().expect("split gives one").to_owned();
            match families.iter_mut().find(|family| family.0 == name) {
                Some((.., rows)) => rows.push(row),
                None => families.push((name, section.header, vec![row])),
            }
        }
    }
    let names: Vec<String> = families.iter().map(|family| family.0.clone()).collect();
    let mut pages: Vec<ManualPage> = Vec::new();
    for (name, header, rows) in &families {
        let functions = rows.iter().flat_map(|row| row.functions()).map(|function| function.name);
        // Where another page has the function's name, as shmem_put has none of its own type, that page stays.
        let links = functions.filter(|function| !names.contains(function)).collect();
        pages.push(ManualPage { name: name.clone(), text: page(name, *header, rows, version), links });
    }
    pages
}

fn page(name: &str, header: Header, rows: &[&Row], version: &str) -> String {
    let mut text = String::from(".\\\" Made by `make build` from the table in crates/doors/shmem/api.\n");
    let mut line = |line: &str| writeln!(text, "{line}").expect("a string takes it");
    line(&format!(".TH {name} 3 \"\" \"Selvedge {version}\" OpenSHMEM"));
    line(".SH NAME");
    line(&format!("{name} \\- {}", escaped(&title(&rows[0].summary()))));
    line(".SH SYNOPSIS\n.nf");
    let file = if header == Header::Shmem { "shmem.h" } else { "shmemx.h" };
    line(&format!(".B #include <{file}>\n.PP"));
    for row in rows {
        prototypes(row).iter().for_each(|prototype| line(&format!("\\fB{}\\fR", escaped(prototype))));
    }
    line(".fi\n.PP\nCompile and link with \\fBoshcc\\fR; run with \\fBselvedge run\\fR or \\fBoshrun\\fR.");
    line(".SH DESCRIPTION");
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            line(".PP");
        }
        line(&escaped(&row.summary()));
        for note in notes(row) {
            line(&format!(".PP\n{}", escaped(&note)));
        }
    }
    line(".SH ERRORS\nA call with an invalid argument does nothing. The first such call of a process is reported on");
    line("standard error; with \\fBSHMEM_DEBUG\\fR set, each is.");
    line(".SH SEE ALSO\n.BR selvedge\\-run (1)");
    text
}

/// The first sentence, as the title of a page.
fn title(summary: &str) -> String {
    let end = summary.find(". ").unwrap_or(summary.len());
    let sentence = summary[..end].trim_end_matches('.');
    let mut letters = sentence.chars();
    let first = letters.next().map(|letter| letter.to_lowercase().to_string()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

fn notes(row: &Row) -> Vec<String> {
    let mut notes: Vec<String> = row.sets.iter().filter_map(|set| of_types(set)).collect();
    let prefix = row.prototype().name.prefix;
    if row.ctx {
        notes.push(format!("Also with a context as the first argument: {prefix}ctx_..(shmem_ctx_t ctx, ..)."));
    }
    match row.generic {
        Generic::No => {}
        Generic::Element => notes.push(format!("In C11 and C++, {} selects by the type.", generic_name(row))),
        Generic::First { name, c } => {
            notes.push(format!("In C11 and C++, {name} selects this function if a {c} comes first."));
        }
    }
    notes.extend(row.since.map(|version| format!("Deprecated since OpenSHMEM {version}.")));
    notes
}

fn of_types(set: &Set) -> Option<String> {
    if let (Naming::Suffix, [_]) = (set.naming, set.types) {
        return None;
    }
    let types = set.types.iter().map(|this| {
        let c = in_c(this.c);
        if c == this.name || set.naming == Naming::Suffix {
            this.name.to_owned()
        } else {
            format!("{c} ({})", this.name)
        }
    });
    let word = if set.naming == Naming::Suffix { "SIZE" } else { "TYPE" };
    Some(format!("{word} is one of {}.", types.collect::<Vec<_>>().join(", ")))
}

/// Text that roff takes as it is.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
