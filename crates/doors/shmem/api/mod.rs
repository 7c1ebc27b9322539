// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every function of the OpenSHMEM interface, as a table, and the files that are generated from it.
//!
//! | file | subject |
//! |---|---|
//! | `types.rs` | the C types and the sets of types of families of functions |
//! | `functions/` | the table: a row is a family of functions; **add a function here, in one line** |
//! | `constants.rs` | constants and handles |
//! | `header.rs` | renders `include/shmem.h` and `include/shmemx.h` |
//! | `generics.rs` | renders their type-generic names, for C11 and for C++ |
//! | `exports.rs` | renders the C functions in Rust, which `src/exports.rs` includes |
//! | `link.rs` | renders `libsma.ld` and `libsma.map`, with which `libsma.so` is linked |
//! | `link_files.rs` | the program that writes these two |
//! | `manual.rs` | renders the manual pages of section 3 |
//! | `manual_pages.rs` | the program that writes them |
//! | `page.rs` | renders `docs/reference/shmem-api.md` |
//!
//! The library itself does not contain this module. `build.rs` includes it for the exports, `link_files.rs` for the
//! linker, `tests/generated.rs` for the checked-in files.
//!
//! A row is a prototype in C, with `TYPE` as the type of an element, and the Rust function behind it:
//!
//! ```text
//! /// Copies nelems elements from source to dest at PE pe. Returns when source may be reused.
//! "void shmem_put(TYPE *dest, const TYPE *source, size_t nelems, int pe)" => "rma::put::<TYPE>" [RMA, BLOCKS], ctx;
//! ```
//!
//! stands for `shmem_int_put` and 23 more, `shmem_put32` and 4 more, `shmem_putmem`, each of them again as
//! `shmem_ctx_int_put(ctx, ..)`, and the type-generic `shmem_put`. The Rust function gets the name of the C function,
//! the context (with `ctx` or `default_ctx`), and the arguments in C's order.
//!
//! Invariants (`tests/generated.rs` checks them)
//! 1. No two functions have the same name.
//! 2. Rendered files depend on the table and its order only.

#![allow(dead_code)] // each of the including programs uses a part of it

pub mod constants;
pub mod exports;
pub mod functions;
pub mod generics;
pub mod header;
pub mod link;
pub mod manual;
pub mod page;
pub mod types;

use types::{Naming, Set, Type};

/// The header that declares a section.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Header {
    Shmem,
    Shmemx,
}

/// The functions of one chapter of the specification.
pub struct Section {
    pub title: &'static str,
    pub header: Header,
    pub rows: &'static [Row],
}

/// The argument by which a type-generic name selects its function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Generic {
    /// There is no type-generic name.
    No,
    /// By the type of the first pointer to `TYPE`, and by whether a context comes first.
    Element,
    /// The generic `name` selects this function if the first argument is a `c`, else the C function `name`.
    First { name: &'static str, c: &'static str },
}

/// A family of functions.
pub struct Row {
    /// The prototype in C. `TYPE` is the type of an element; the name is that of the type-generic function.
    pub prototype: &'static str,
    /// Path and generics of the Rust function, `TYPE` being the element. Ends in `()` if it takes no arguments.
    pub rust: &'static str,
    /// The text of the header and of the page: effect, errors, section of the specification.
    pub summary: &'static str,
    /// The sets of types of the family; empty if it is one function.
    pub sets: &'static [&'static Set],
    /// Whether there is a form with a context as its first argument.
    pub ctx: bool,
    /// Whether the Rust function takes a context: the default one for a C function without context.
    pub rust_ctx: bool,
    pub generic: Generic,
    /// Whether the type-generic name accepts a `volatile` object.
    pub volatile: bool,
    /// Whether the function never returns.
    pub never: bool,
    /// Deprecated since this version of the specification.
    pub since: Option<&'static str>,
}

impl Row {
    pub const fn new(prototype: &'static str, rust: &'static str, summary: &'static str) -> Row {
        Row {
            prototype,
            rust,
            summary,
            sets: &[],
            ctx: false,
            rust_ctx: false,
            generic: Generic::No,
            volatile: false,
            never: false,
            since: None,
        }
    }

    /// A family over these sets of types, with a type-generic name if one of the sets has types.
    pub const fn over(self, sets: &'static [&'static Set]) -> Row {
        let generic = match sets[0].naming {
            Naming::Infix => Generic::Element,
            Naming::Suffix => Generic::No,
        };
        Row { sets, generic, ..self }
    }

    pub const fn ctx(self) -> Row {
        Row { ctx: true, rust_ctx: true, ..self }
    }

    pub const fn default_ctx(self) -> Row {
        Row { rust_ctx: true, ..self }
    }

    pub const fn no_generic(self) -> Row {
        Row { generic: Generic::No, ..self }
    }

    /// Makes the type-generic `name` select this function if its first argument is a `c`.
    pub const fn when_first_is(self, c: &'static str, name: &'static str) -> Row {
        Row { generic: Generic::First { name, c }, ..self }
    }

    pub const fn volatile(self) -> Row {
        Row { volatile: true, ..self }
    }

    pub const fn never(self) -> Row {
        Row { never: true, ..self }
    }

    pub const fn deprecated(self, since: &'static str) -> Row {
        Row { since: Some(since), ..self }
    }

    /// The summary, on one line.
    pub fn summary(&self) -> String {
        self.summary.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub fn prototype(&self) -> Prototype {
        Prototype::parse(self.prototype)
    }

    /// Every function of the family.
    pub fn functions(&self) -> Vec<Function<'_>> {
        let forms: &[bool] = if self.ctx { &[false, true] } else { &[false] };
        let of = |ctx: bool, element: Option<(Naming, &'static Type)>| {
            let prototype = self.prototype();
            let name = prototype.name.with(ctx, element.map(|(naming, element)| (naming, element.name)));
            Function { row: self, name, ctx, element: element.map(|(_, element)| element), prototype }
        };
        let mut functions = Vec::new();
        for set in self.sets {
            for element in set.types {
                functions.extend(forms.iter().map(|&ctx| of(ctx, Some((set.naming, element)))));
            }
        }
        if self.sets.is_empty() {
            functions.extend(forms.iter().map(|&ctx| of(ctx, None)));
        }
        functions
    }
}

/// One C function.
pub struct Function<'a> {
    pub row: &'a Row,
    pub name: String,
    /// Whether its first argument is a context.
    pub ctx: bool,
    pub element: Option<&'static Type>,
    pub prototype: Prototype,
}

/// A C function's name in parts: `shmem_` `put` `_nbi`.
#[derive(Clone, Debug)]
pub struct Name {
    pub prefix: &'static str,
    pub verb: String,
    pub rest: String,
}

impl Name {
    fn parse(name: &str) -> Name {
        let prefix = ["shmem_", "shmemx_"].into_iter().find(|prefix| name.starts_with(prefix)).unwrap_or("");
        let bare = &name[prefix.len()..];
        let verb_ends = if prefix.is_empty() { bare.len() } else { bare.find('_').unwrap_or(bare.len()) };
        Name { prefix, verb: bare[..verb_ends].into(), rest: bare[verb_ends..].into() }
    }

    /// The name without a type.
    pub fn whole(&self) -> String {
        format!("{}{}{}", self.prefix, self.verb, self.rest)
    }

    /// The rest of the name after the prefix and the context, for a type of this name.
    pub fn of(&self, element: Option<(Naming, &str)>) -> String {
        let (verb, rest) = (&self.verb, &self.rest);
        match element {
            None => format!("{verb}{rest}"),
            Some((Naming::Infix, name)) => format!("{name}_{verb}{rest}"),
            Some((Naming::Suffix, name)) => format!("{verb}{name}{rest}"),
        }
    }

    pub fn with(&self, ctx: bool, element: Option<(Naming, &str)>) -> String {
        format!("{}{}{}", self.prefix, if ctx { "ctx_" } else { "" }, self.of(element))
    }
}

/// A parameter: its C type, which ends in `*` for a pointer, and its name.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub c: String,
    pub name: String,
}

impl Parameter {
    /// The parameter in C.
    pub fn text(&self) -> String {
        let space = if self.c.ends_with('*') { "" } else { " " };
        format!("{}{space}{}", self.c, self.name)
    }
}

/// A parsed prototype.
#[derive(Clone, Debug)]
pub struct Prototype {
    pub returns: String,
    pub name: Name,
    pub parameters: Vec<Parameter>,
    /// Whether it ends in `...`.
    pub variadic: bool,
}

impl Prototype {
    /// # Panics
    /// If the text is not a prototype. `build.rs` then fails with it.
    pub fn parse(text: &str) -> Prototype {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let broken = || -> ! { panic!("not a prototype: {text}") };
        let Some((head, tail)) = text.split_once('(') else { broken() };
        let Some(inside) = tail.strip_suffix(')') else { broken() };
        let (returns, name) = declared(head).unwrap_or_else(|| broken());
        let mut parameters = Vec::new();
        let mut variadic = false;
        for parameter in inside.split(", ").filter(|&text| text != "void") {
            if parameter == "..." {
                variadic = true;
                continue;
            }
            let (c, name) = declared(parameter).unwrap_or_else(|| broken());
            parameters.push(Parameter { c, name });
        }
        Prototype { returns, name: Name::parse(&name), parameters, variadic }
    }

    /// The parameters in C, `void` if there are none.
    pub fn parameter_text(&self) -> String {
        let mut texts: Vec<String> = self.parameters.iter().map(Parameter::text).collect();
        if self.variadic {
            texts.push("...".into());
        }
        if texts.is_empty() { "void".into() } else { texts.join(", ") }
    }

    /// The index of the first parameter that is a pointer to elements.
    pub fn element_at(&self) -> Option<usize> {
        self.parameters.iter().position(|parameter| parameter.c.contains("TYPE") && parameter.c.ends_with('*'))
    }
}

/// Splits a declaration into its type and the name at its end.
fn declared(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    let name_begins = text.rfind(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')? + 1;
    let (c, name) = text.split_at(name_begins);
    if name.is_empty() || c.trim().is_empty() {
        return None;
    }
    Some((c.trim().into(), name.into()))
}

/// A type with `TYPE` filled in.
pub fn filled(text: &str, element: &str) -> String {
    text.replace("TYPE", element)
}

/// The C name of a type, without the header's own names.
pub fn in_c(c: &str) -> &str {
    match c {
        "shmem_impl_complexd" => "double _Complex",
        "shmem_impl_complexf" => "float _Complex",
        c => c,
    }
}

/// The functions of the whole table.
pub fn all_functions() -> impl Iterator<Item = Function<'static>> {
    functions::SECTIONS.iter().flat_map(|section| section.rows).flat_map(Row::functions)
}
