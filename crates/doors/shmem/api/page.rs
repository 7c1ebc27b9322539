// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders `docs/reference/shmem-api.md`: every family with its prototypes, text, types and type-generic name, under a
//! heading that links can name (`shmem-api.md#shmem_put`).

use std::fmt::Write as _;

use super::constants::GROUPS;
use super::functions::SECTIONS;
use super::generics::generic_name;
use super::types::{Naming, SETS, Set};
use super::{Generic, Header, Row, Section, all_functions, filled, in_c};

const BEGINS: &str = include_str!("text/page_begins.md");

/// `docs/reference/shmem-api.md`
pub fn page() -> String {
    let mut text = String::from(BEGINS);
    contents(&mut text);
    sets(&mut text);
    constants(&mut text);
    for section in SECTIONS {
        write!(text, "\n## {}\n", title(section)).expect("a string takes it");
        for row in section.rows {
            family(&mut text, row);
        }
    }
    text
}

fn title(section: &Section) -> String {
    match section.header {
        Header::Shmem => section.title.into(),
        Header::Shmemx => format!("`shmemx.h`: {}", section.title),
    }
}

/// The number of functions of a section.
pub fn count(section: &Section) -> usize {
    section.rows.iter().map(|row| row.functions().len()).sum()
}

fn contents(text: &mut String) {
    text.push_str("\n## Contents\n\n| chapter | families | functions |\n|---|---:|---:|\n");
    for section in SECTIONS {
        let (title, families, functions) = (title(section), section.rows.len(), count(section));
        writeln!(text, "| [{title}](#{}) | {families} | {functions} |", anchor(&title)).expect("a string takes it");
    }
    let families: usize = SECTIONS.iter().map(|section| section.rows.len()).sum();
    writeln!(text, "| total | {families} | {} |", all_functions().count()).expect("a string takes it");
}

fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading.chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-")
}

fn sets(text: &mut String) {
    text.push_str(
        "\n## Types\n\nThe types that TYPE stands for; in parentheses, the name in function names if it differs.\n\n\
         | set | types |\n|---|---|\n",
    );
    for set in SETS.iter().filter(|set| set.naming == Naming::Infix && set.title.starts_with("the ")) {
        let types = set.types.iter().map(|this| {
            let c = in_c(this.c);
            if c == this.name { format!("`{c}`") } else { format!("`{c}` ({})", this.name) }
        });
        writeln!(text, "| {} | {} |", set.title, types.collect::<Vec<_>>().join(", ")).expect("a string takes it");
    }
}

fn constants(text: &mut String) {
    text.push_str(
        "\n## Constants\n\nA star marks a constant that also has its old name, with an underscore in front \
                   (`_SHMEM_CMP_EQ`, deprecated since 1.3).\n",
    );
    for group in GROUPS {
        writeln!(text, "\n{}:\n\n| constant | value | meaning |\n|---|---|---|", marked(group.title))
            .expect("a string takes it");
        for constant in group.constants {
            let star = if constant.underscored { " \\*" } else { "" };
            writeln!(text, "| `{}`{star} | `{}` | {} |", constant.name, constant.value, marked(constant.summary))
                .expect("a string takes it");
        }
    }
}

fn family(text: &mut String, row: &Row) {
    writeln!(text, "\n### {}\n\n```c", heading(row)).expect("a string takes it");
    for line in prototypes(row) {
        writeln!(text, "{line}").expect("a string takes it");
    }
    writeln!(text, "```\n\n{}", marked(&row.summary())).expect("a string takes it");
    let mut notes: Vec<String> = row.sets.iter().filter_map(|set| of_types(set)).collect();
    if row.ctx {
        notes.push(
            "Also with a context: `shmem_ctx_..(shmem_ctx_t ctx, ..)`.".replace("shmem_", row.prototype().name.prefix),
        );
    }
    match row.generic {
        Generic::No => {}
        Generic::Element if row.ctx => {
            notes.push(format!("C11, C++: `{}`, with or without a context.", generic_name(row)));
        }
        Generic::Element => notes.push(format!("C11, C++: `{}`.", generic_name(row))),
        Generic::First { name, c } => notes.push(format!("C11, C++: `{name}`, if a `{c}` comes first.")),
    }
    if let Some(version) = row.since {
        notes.push(format!("Deprecated since {version}."));
    }
    match row.functions().len() {
        1 => {}
        functions => notes.push(format!("{functions} functions.")),
    }
    if !notes.is_empty() {
        writeln!(text, "\n{}", notes.join(" ")).expect("a string takes it");
    }
}

/// Marks names of C as code, and escapes stars.
fn marked(text: &str) -> String {
    let word = |word: &str| {
        let name = word.trim_matches(['(', ')', '.', ',', ';', ':']);
        if name.contains('_') || (name.starts_with('*') && name.len() > 1) {
            word.replacen(name, &format!("`{name}`"), 1)
        } else {
            word.replace('*', "\\*")
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The heading of a family.
pub fn heading(row: &Row) -> String {
    let name = row.prototype().name;
    match row.sets {
        [] => {
            let whole = name.whole();
            let typed = |row: &Row| row.sets.iter().any(|set| set.naming == Naming::Infix);
            let taken = SECTIONS
                .iter()
                .flat_map(|section| section.rows)
                .any(|other| typed(other) && other.prototype().name.whole() == whole);
            if taken { format!("{whole} (long)") } else { whole }
        }
        [set, ..] if set.naming == Naming::Suffix => name.with(false, Some((set.naming, size(set)))),
        _ => name.whole(),
    }
}

/// The size in names of functions.
fn size(set: &Set) -> &str {
    match set.types {
        [only] => only.name,
        _ => "SIZE",
    }
}

fn of_types(set: &Set) -> Option<String> {
    match (set.naming, set.types) {
        (Naming::Suffix, [_]) => None,
        (Naming::Suffix, _) => Some(format!("SIZE: {}.", set.title.replace(" (`mem`)", ""))),
        (Naming::Infix, _) if set.title.starts_with("the ") => Some(format!("TYPE: [{}](#types).", set.title)),
        (Naming::Infix, _) => Some(format!("TYPE: {}.", set.title)),
    }
}

/// The prototypes of a family without contexts, in C; long ones on several lines.
pub fn prototypes(row: &Row) -> Vec<String> {
    let mut lines = Vec::new();
    let mut of = |element: Option<(Naming, &str)>, c: &str| {
        let prototype = row.prototype();
        let returns = filled(&prototype.returns, c);
        let space = if returns.ends_with('*') { "" } else { " " };
        let head = format!("{returns}{space}{}(", prototype.name.with(false, element));
        let words: Vec<String> = filled(&prototype.parameter_text(), c).split(", ").map(str::to_owned).collect();
        let hanging = " ".repeat(head.len());
        lines.append(&mut super::header::flowed(&words, ", ", &head, &hanging, 98));
        lines.last_mut().expect("there is one").push_str(");");
    };
    for set in row.sets {
        match set.naming {
            Naming::Infix => of(Some((set.naming, "TYPE")), "TYPE"),
            Naming::Suffix => {
                let bytes = set.types.iter().any(|this| this.name == "mem");
                if set.types.len() > 1 {
                    of(Some((set.naming, "SIZE")), "void");
                }
                if bytes {
                    of(Some((set.naming, "mem")), "void");
                }
            }
        }
    }
    if row.sets.is_empty() {
        of(None, "");
    }
    lines
}
