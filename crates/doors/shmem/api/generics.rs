// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders the type-generic names: C11 macros that select by `_Generic`, and overloaded C++ functions.
//!
//! The type of the first pointer to elements selects the function, and whether a context comes before it. A macro reads
//! its arguments from the left and passes all of them on, so later arguments may contain commas.

use std::fmt::Write as _;

use super::functions::SECTIONS;
use super::header::{flowed, heading, list_name};
use super::types::{NUMBERS, Set};
use super::{Generic, Header, Parameter, Row, filled};

const C11: &str = include_str!("text/c11.h");
const CXX: &str = include_str!("text/cxx.h");

const WIDTH: usize = 118;

/// The type-generic names of a header.
pub fn generics(text: &mut String, header: Header) {
    text.push_str("\n#if defined(__cplusplus)\n");
    heading(text, "Type-generic names: C++");
    if header == Header::Shmem {
        text.push_str(CXX);
    }
    cxx(text, header);
    text.push_str("\n#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L\n");
    heading(text, "Type-generic names: C11");
    if header == Header::Shmem {
        text.push_str(C11);
    }
    c11(text, header);
    text.push_str("\n#endif\n");
}

fn c11(text: &mut String, header: Header) {
    for section in SECTIONS.iter().filter(|section| section.header == header) {
        let rows = section.rows.iter().filter(|row| row.generic != Generic::No);
        let lines: Vec<(String, String)> =
            rows.map(|row| (format!("{}(...)", generic_name(row)), choice(row))).collect();
        if lines.is_empty() {
            continue;
        }
        writeln!(text, "\n/* {} */", section.title).expect("a string takes it");
        let (names, choices) = (lines.iter().map(|(name, _)| name.len()), lines.iter().map(|(_, choice)| choice.len()));
        let (name_width, choice_width) = (names.max().unwrap_or(0), choices.max().unwrap_or(0));
        let width = if "#define  ".len() + name_width + choice_width <= WIDTH { name_width } else { 0 };
        for (name, choice) in lines {
            writeln!(text, "#define {name:width$} {choice}").expect("a string takes it");
        }
    }
}

/// The type-generic name of a family.
pub fn generic_name(row: &Row) -> String {
    match row.generic {
        Generic::First { name, .. } => name.into(),
        _ => row.prototype().name.whole(),
    }
}

/// The function for a first argument of the type of `Generic::First`.
fn when_first(row: &Row) -> String {
    let name = row.prototype().name;
    name.with(row.ctx, None)
}

/// The macro's text: a selection among the family's functions; in `shmemx.h`, the standard name.
fn choice(row: &Row) -> String {
    let prototype = row.prototype();
    if let Some(standard) = generic_name(row).strip_prefix("shmemx_") {
        return format!("shmem_{standard}(__VA_ARGS__)");
    }
    if let Generic::First { name, c } = row.generic {
        return format!("SELVEDGE_IF_1ST({c}, {}, {name}, __VA_ARGS__)", when_first(row));
    }
    let by = match (row.volatile, row.ctx, prototype.element_at()) {
        (true, false, Some(0)) => "BY_VOLATILE",
        (false, false, Some(0)) => "BY_1ST",
        (false, false, Some(1)) => "BY_2ND",
        (false, true, Some(0)) => "CTX_BY_1ST",
        (false, true, Some(1)) => "CTX_BY_2ND",
        _ => panic!("no macro selects by the arguments of {}", prototype.name.whole()),
    };
    let operation = prototype.name.of(None);
    format!("SELVEDGE_{by}({}, _{operation}, __VA_ARGS__)", list_name(row.sets[0], true))
}

fn cxx(text: &mut String, header: Header) {
    for section in SECTIONS.iter().filter(|section| section.header == header) {
        let mut titled = false;
        let mut done: Vec<&str> = Vec::new();
        for row in section.rows.iter().filter(|row| row.generic != Generic::No) {
            if !titled {
                writeln!(text, "\n/* {} */", section.title).expect("a string takes it");
                titled = true;
            }
            if let Generic::First { name, c } = row.generic {
                first(text, row, name, c);
                continue;
            }
            let set = row.sets[0];
            if done.contains(&set.name) {
                continue;
            }
            done.push(set.name);
            let rows: Vec<&Row> = section
                .rows
                .iter()
                .filter(|row| row.generic == Generic::Element && row.sets[0].name == set.name)
                .collect();
            overloads(text, set, &rows);
        }
    }
}

/// The overload of `Generic::First`. The other function is the C function itself.
fn first(text: &mut String, row: &Row, name: &str, c: &str) {
    let prototype = row.prototype();
    let mut arguments: Vec<&str> = prototype.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let mut parameters = prototype.parameter_text();
    if row.ctx {
        arguments.insert(0, "ctx");
        parameters = format!("{c} ctx, {parameters}");
    }
    writeln!(
        text,
        "inline {} {name}({parameters})\n{{\n    return {}({});\n}}",
        prototype.returns,
        when_first(row),
        arguments.join(", "),
    )
    .expect("a string takes it");
}

/// Overloads the names of families for the types of a set.
fn overloads(text: &mut String, set: &Set, rows: &[&Row]) {
    let mut lines = vec!["#define SELVEDGE_F(TYPE, T, P)".to_owned()];
    for row in rows {
        let prototype = row.prototype();
        let mut parameters = prototype.parameter_text();
        let mut arguments: Vec<String> = prototype.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        if row.volatile {
            parameters = format!("volatile {parameters}");
            arguments[0] = format!("const_cast<TYPE *>({})", arguments[0]);
        }
        lines.append(&mut overload(row, &arguments, &parameters));
    }
    let prefix = rows[0].prototype().name.prefix;
    let list = list_name(set, true);
    writeln!(text, "{}\nSELVEDGE_{list}(SELVEDGE_F, {prefix})\n#undef SELVEDGE_F", lines.join(" \\\n"))
        .expect("a string takes it");
    if set.name == NUMBERS.name {
        std_complex(text, rows, prefix);
    }
}

/// Overloads the names for `std::complex`, which has the layout of C's complex numbers.
fn std_complex(text: &mut String, rows: &[&Row], prefix: &str) {
    let mut lines = vec!["#define SELVEDGE_F(PART, T, P)".to_owned()];
    for row in rows {
        let prototype = row.prototype();
        let argument = |parameter: &Parameter| match parameter.c.strip_suffix(" *") {
            Some(target) => format!("shmem_impl_as<{}>({})", filled(target, "shmem_impl_##T"), parameter.name),
            None => parameter.name.clone(),
        };
        let arguments: Vec<String> = prototype.parameters.iter().map(argument).collect();
        lines.push("    template <template <typename> class Complex>".into());
        lines.append(&mut overload(row, &arguments, &filled(&prototype.parameter_text(), "Complex<PART>")));
    }
    let uses = ["double, complexd", "float, complexf"].map(|types| format!("SELVEDGE_F({types}, {prefix})\n"));
    writeln!(text, "{}\n{}#undef SELVEDGE_F", lines.join(" \\\n"), uses.concat()).expect("a string takes it");
}

/// The lines of a macro that overload a family's name.
fn overload(row: &Row, arguments: &[String], parameters: &str) -> Vec<String> {
    let prototype = row.prototype();
    let overload = if row.ctx { "SELVEDGE_CTX_OVERLOAD" } else { "SELVEDGE_OVERLOAD" };
    let begins = format!("    {overload}({}, P, T, {}, (", prototype.returns, prototype.name.of(None));
    let whole = format!("{begins}{}), {parameters})", arguments.join(", "));
    if whole.len() <= WIDTH - 2 {
        return vec![whole];
    }
    let hanging = " ".repeat(overload.len() + 5);
    let mut lines = flowed(arguments, ", ", &begins, &format!("{hanging} "), WIDTH - 4);
    lines.last_mut().expect("there is one").push_str("),");
    let parameters: Vec<String> = parameters.split(", ").map(str::to_owned).collect();
    lines.append(&mut flowed(&parameters, ", ", &hanging, &hanging, WIDTH - 3));
    lines.last_mut().expect("there is one").push(')');
    lines
}
