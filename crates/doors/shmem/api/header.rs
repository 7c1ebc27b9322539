// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders `include/shmem.h` and `include/shmemx.h`.
//!
//! A family of functions is declared once, for all its types, by a macro applied to a list of types; so the header can
//! be read from top to bottom. Every name without a type in it is a real function, in C and C++.

use std::fmt::Write as _;

use super::constants::GROUPS;
use super::functions::SECTIONS;
use super::generics;
use super::types::{Naming, SETS, Set, Type};
use super::{Header, Row, Section, filled};

/// Columns of a line; two less where a backslash follows.
const WIDTH: usize = 118;

const SHMEM_BEGINS: &str = include_str!("text/shmem_begins.h");
const SHMEM_TYPES: &str = include_str!("text/shmem_types.h");
const SHMEM_DECLARES: &str = include_str!("text/shmem_declares.h");
const SHMEMX_BEGINS: &str = include_str!("text/shmemx_begins.h");

/// `include/shmem.h`
pub fn shmem() -> String {
    let mut text = String::from(SHMEM_BEGINS);
    constants(&mut text);
    text.push_str(SHMEM_TYPES);
    for set in SETS.iter().filter(|set| set.types.len() > 1) {
        list(&mut text, set);
    }
    text.push_str(SHMEM_DECLARES);
    body(text, Header::Shmem, "SHMEM_H")
}

/// `include/shmemx.h`
pub fn shmemx() -> String {
    body(String::from(SHMEMX_BEGINS), Header::Shmemx, "SHMEMX_H")
}

/// Declares the functions, then their type-generic names.
fn body(mut text: String, header: Header, guard: &str) -> String {
    text.push_str("\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    for section in SECTIONS.iter().filter(|section| section.header == header) {
        heading(&mut text, section.title);
        declarations(&mut text, section);
    }
    text.push_str("\n#ifdef __cplusplus\n} /* extern \"C\" */\n#endif\n");
    generics::generics(&mut text, header);
    writeln!(text, "\n#endif /* {guard} */").expect("a string takes it");
    text
}

/// A line of dashes with a title in it.
pub fn heading(text: &mut String, title: &str) {
    let dashes = "-".repeat(WIDTH - 12 - title.len());
    writeln!(text, "\n/* ---- {title} {dashes} */").expect("a string takes it");
}

fn constants(text: &mut String) {
    for group in GROUPS {
        writeln!(text, "\n/* {}. */", group.title).expect("a string takes it");
        let name_width = group.constants.iter().map(|constant| constant.name.len()).max().unwrap_or(0);
        let value_width = group.constants.iter().map(|constant| constant.value.len()).max().unwrap_or(0);
        for constant in group.constants {
            let (name, value, summary) = (constant.name, constant.value, constant.summary);
            writeln!(text, "#define {name:name_width$} {value:value_width$} /* {summary} */")
                .expect("a string takes it");
        }
    }
    text.push_str("\n/* The same constants by their old names (deprecated since 1.3). */\n");
    let old = GROUPS.iter().flat_map(|group| group.constants).filter(|constant| constant.underscored);
    let width = old.clone().map(|constant| constant.name.len()).max().unwrap_or(0);
    for constant in old {
        writeln!(text, "#define _{:width$} {}", constant.name, constant.name).expect("a string takes it");
    }
}

/// The name of the list of a set's types, without `SELVEDGE_`. `distinct`: only its different types.
pub fn list_name(set: &Set, distinct: bool) -> String {
    let split = distinct && !set.repeated().is_empty();
    format!("{}{}", set.name, if split { "_DISTINCT" } else { "" })
}

fn list(text: &mut String, set: &Set) {
    let apply =
        |types: Vec<&Type>| types.iter().map(|this| format!("X({}, {}, Y)", this.c, this.name)).collect::<Vec<_>>();
    let (all, distinct) = (list_name(set, false), list_name(set, true));
    writeln!(text, "\n/* {} */", words(set)).expect("a string takes it");
    list_macro(text, &distinct, &apply(set.distinct()));
    if all != distinct {
        let mut types = apply(set.repeated());
        types.insert(0, format!("SELVEDGE_{distinct}(X, Y)"));
        list_macro(text, &all, &types);
    }
}

fn list_macro(text: &mut String, name: &str, types: &[String]) {
    let lines = flowed(types, " ", "    ", "    ", WIDTH - 2);
    writeln!(text, "#define SELVEDGE_{name}(X, Y) \\\n{}", lines.join(" \\\n")).expect("a string takes it");
}

fn words(set: &Set) -> String {
    set.title.replace('`', "")
}

/// Declares the functions of a section: those without types in order, families by sets of types.
fn declarations(text: &mut String, section: &Section) {
    let mut done: Vec<&str> = Vec::new();
    for row in section.rows {
        if row.sets.is_empty() {
            plain(text, row);
        }
        for set in row.sets {
            if done.contains(&set.name) {
                continue;
            }
            done.push(set.name);
            let rows = section.rows.iter().filter(|row| row.sets.iter().any(|other| other.name == set.name));
            match set.types {
                [_] => single(text, set, rows),
                _ => family(text, set, rows),
            }
        }
    }
}

fn remark(row: &Row) -> String {
    match row.since {
        Some(version) => format!("{} (Deprecated since {version}.)", row.summary()),
        None => row.summary(),
    }
}

fn plain(text: &mut String, row: &Row) {
    text.push('\n');
    push_lines(text, &comment(&remark(row), "", WIDTH), "");
    for function in row.functions() {
        let context = if function.ctx { "shmem_ctx_t ctx, " } else { "" };
        let parameters = format!("{context}{}", function.prototype.parameter_text()).replace(", void", "");
        push_lines(text, &declaration(row, "SELVEDGE_FN", &function.name, &parameters, "void", "", WIDTH), "");
    }
}

/// Declares the functions of a set of one type: bytes.
fn single<'a>(text: &mut String, set: &Set, rows: impl Iterator<Item = &'a Row>) {
    writeln!(text, "\n/* The same for {}. */", words(set)).expect("a string takes it");
    for row in rows {
        for function in
            row.functions().iter().filter(|function| function.element.is_some_and(|of| of.name == set.types[0].name))
        {
            let parameters = function.prototype.parameter_text();
            push_lines(
                text,
                &declaration(row, "SELVEDGE_FN", &function.name, &parameters, set.types[0].c, "", WIDTH),
                "",
            );
        }
    }
}

fn family<'a>(text: &mut String, set: &Set, rows: impl Iterator<Item = &'a Row>) {
    let rows: Vec<&Row> = rows.collect();
    let repeats = set.naming == Naming::Suffix && rows.iter().all(|row| row.sets[0].naming == Naming::Infix);
    let summary = words(set);
    let summary = if repeats { format!("The same for elements of {summary}.") } else { format!("For {summary}.") };
    writeln!(text, "\n/* {summary} */\n#define SELVEDGE_F(TYPE, T, P) \\").expect("a string takes it");
    for row in &rows {
        let prototype = row.prototype();
        if !repeats {
            push_lines(text, &comment(&remark(row), "    ", WIDTH - 2), " \\");
        }
        let name = prototype.name.of(Some((set.naming, "T")));
        // The preprocessor pastes T into the name.
        let name = match set.naming {
            Naming::Infix => name.replacen("T_", "T##_", 1),
            Naming::Suffix => {
                let (verb, rest) = (&prototype.name.verb, &prototype.name.rest);
                if rest.is_empty() { format!("{verb}##T") } else { format!("{verb}##T##{rest}") }
            }
        };
        let (declare, name) =
            if row.ctx { ("SELVEDGE_CTX_FN", format!("P, {name}")) } else { ("SELVEDGE_FN", format!("P##{name}")) };
        let parameters = prototype.parameter_text();
        push_lines(text, &declaration(row, declare, &name, &parameters, "TYPE", "    ", WIDTH - 2), " \\");
    }
    // The last line of the macro is not continued.
    text.truncate(text.trim_end_matches(" \\\n").len());
    let prefix = rows[0].prototype().name.prefix;
    writeln!(text, "\nSELVEDGE_{}(SELVEDGE_F, {prefix})\n#undef SELVEDGE_F", list_name(set, false))
        .expect("a string takes it");
}

/// The lines that declare a function or a family.
fn declaration(
    row: &Row,
    declare: &str,
    name: &str,
    parameters: &str,
    element: &str,
    indent: &str,
    width: usize,
) -> Vec<String> {
    let returns = filled(&row.prototype().returns, element);
    let never = if row.never { "SELVEDGE_NEVER " } else { "" };
    let begins = format!("{declare}({never}{returns}, {name}, ");
    let parameters = filled(parameters, element);
    let words: Vec<String> = parameters.split(", ").map(str::to_owned).collect();
    let hanging = " ".repeat(indent.len() + declare.len() + 1);
    let mut lines = flowed(&words, ", ", &format!("{indent}{begins}"), &hanging, width - 1);
    lines.last_mut().expect("there is one").push(')');
    lines
}

/// The lines of a comment.
pub fn comment(summary: &str, indent: &str, width: usize) -> Vec<String> {
    let words: Vec<String> = summary.split(' ').map(str::to_owned).collect();
    let mut lines = flowed(&words, " ", &format!("{indent}/* "), &format!("{indent} * "), width - 3);
    lines.last_mut().expect("there is one").push_str(" */");
    lines
}

/// Joins words with separators into lines of at most `width` columns.
pub fn flowed(words: &[String], separator: &str, first: &str, hanging: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::from(first)];
    let mut empty = true;
    for word in words {
        let line = lines.last_mut().expect("there is one");
        if empty {
            line.push_str(word);
        } else if line.len() + separator.len() + word.len() <= width {
            line.push_str(separator);
            line.push_str(word);
        } else {
            line.push_str(separator.trim_end());
            lines.push(format!("{hanging}{word}"));
        }
        empty = false;
    }
    lines
}

fn push_lines(text: &mut String, lines: &[String], ends: &str) {
    for line in lines {
        writeln!(text, "{line}{ends}").expect("a string takes it");
    }
}
