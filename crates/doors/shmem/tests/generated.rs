// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that the generated files agree with the table in `api/`, and the table with the specification.
//!
//! `make docs-pages` (UPDATE_DOCS=1) rewrites the headers and the page. Otherwise a difference fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[path = "../api/mod.rs"]
mod api;

use api::functions::SECTIONS;
use api::types::{self, Naming};
use api::{Row, all_functions};

/// Compares a file with its generated text, or writes it.
fn check(name: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(name);
    let found = fs::read_to_string(&path).unwrap_or_default();
    if found == wanted {
        return;
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, wanted).unwrap_or_else(|error| panic!("{name}: {error}"));
        return;
    }
    let differs = found.lines().zip(wanted.lines()).find(|(is, should)| is != should);
    let (is, should) = differs.unwrap_or(("(its end)", "(a longer or shorter text)"));
    panic!("{name} is stale: run `make docs-pages`\n  found:    {is}\n  expected: {should}");
}

#[test]
fn headers() {
    check("include/shmem.h", &api::header::shmem());
    check("include/shmemx.h", &api::header::shmemx());
}

/// The library is linked with these names, and no others.
#[test]
fn link_files_have_every_name_once() {
    let names: Vec<String> = all_functions().map(|function| function.name).collect();
    let exported = names.iter().flat_map(|name| [name.clone(), api::link::profiled(name)]);
    let map = api::link::version_script();
    let (_, rest) = map.split_once("  global:\n").expect("exported names");
    let (globals, locals) = rest.split_once("  local:\n").expect("the others");
    assert!(globals.split_whitespace().map(|name| name.trim_end_matches(';')).eq(exported), "in the table's order");
    assert_eq!(locals, "    *;\n};\n");
    let aliases = api::link::aliases();
    let (_, lines) = aliases.split_once("*/\n\n").expect("a comment first");
    assert!(lines.lines().eq(names.iter().map(|name| format!("EXTERN({name}) p{name} = {name};"))));
}

#[test]
fn reference_page() {
    check("docs/reference/shmem-api.md", &api::page::page());
}

/// `man FUNCTION` finds each function, at one page.
#[test]
fn every_function_has_a_manual_page() {
    let pages = api::manual::pages("0");
    let mut files = BTreeSet::new();
    for name in pages.iter().flat_map(|page| page.links.iter().chain([&page.name])) {
        assert!(files.insert(name.clone()), "{name}");
    }
    for function in all_functions() {
        assert!(files.contains(&function.name), "{}", function.name);
    }
    let put = pages.iter().find(|page| page.name == "shmem_put").expect("a page of puts");
    assert!(put.text.contains("void shmem_TYPE_put(TYPE *dest, const TYPE *source, size_t nelems, int pe);"));
    assert!(put.links.contains(&"shmem_ctx_longdouble_put".to_owned()), "{:?}", put.links);
    for line in pages.iter().flat_map(|page| page.text.lines()).filter(|line| line.starts_with(['.', '\''])) {
        let request = line.split(' ').next().expect("split gives one");
        assert!([".\\\"", ".TH", ".SH", ".nf", ".fi", ".B", ".PP", ".BR"].contains(&request), "{line}");
    }
}

#[test]
fn names_are_unique() {
    let mut names = BTreeSet::new();
    for function in all_functions() {
        assert!(names.insert(api::link::profiled(&function.name)), "{}", function.name);
        assert!(names.insert(function.name.clone()), "{}", function.name);
    }
    let mut headings = BTreeSet::new();
    for row in rows() {
        assert!(headings.insert(api::page::heading(row)), "{}", api::page::heading(row));
    }
}

#[test]
fn every_function_is_exported_once() {
    let rust = api::exports::exports();
    let c = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/longdouble.c")).expect("it is there");
    let mut exported: BTreeMap<&str, usize> = BTreeMap::new();
    // Without the functions within them, which are not exported.
    for definition in rust.split("#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn ").skip(1) {
        let name = definition.split('(').next().expect("a name");
        *exported.entry(name).or_default() += 1;
    }
    for function in all_functions() {
        let in_rust = exported.remove(function.name.as_str()).unwrap_or(0);
        let in_c =
            c.lines().filter(|line| !line.ends_with(';') && line.contains(&format!(" {}(", function.name))).count();
        let wanted = if api::exports::by_value(&function) { (0, 1) } else { (1, 0) };
        assert_eq!((in_rust, in_c), wanted, "{}", function.name);
    }
    assert!(exported.is_empty(), "{exported:?}");
}

/// The sizes of the tables of types, from the specification.
#[test]
fn sets_are_the_specifications() {
    let sizes = [
        (&types::RMA, 24, 14),
        (&types::AMO, 12, 6),
        (&types::AMO_EXTENDED, 14, 8),
        (&types::AMO_BITWISE, 7, 5),
        (&types::SYNC, 14, 8),
        (&types::BITWISE, 14, 9),
        (&types::NUMBERS, 26, 16),
        (&types::INTEGERS_OLD, 4, 4),
        (&types::REALS_OLD, 7, 7),
        (&types::NUMBERS_OLD, 9, 9),
        (&types::SIZES, 5, 5),
    ];
    for (set, all, distinct) in sizes {
        assert_eq!((set.types.len(), set.distinct().len()), (all, distinct), "{}", set.name);
        assert_eq!(set.distinct().len() + set.repeated().len(), all, "{}", set.name);
    }
}

/// The numbers of functions of the specification's chapters.
#[test]
fn chapters_are_complete() {
    let functions = |title: &str| {
        let section = SECTIONS.iter().find(|section| section.title == title);
        api::page::count(section.unwrap_or_else(|| panic!("no section {title}")))
    };
    let (rma, sizes, forms) = (24, 5, 2);
    // put, get, p, g, and four strided ones; no p and g by size; put and get by bytes, too.
    assert_eq!(functions("Remote memory access"), forms * (8 * rma + 6 * sizes + 2));
    assert_eq!(functions("Non-blocking remote memory access"), forms * 2 * (rma + sizes + 1));
    assert_eq!(functions("Atomic memory operations"), forms * (3 * 14 + 5 * 12 + 6 * 7));
    assert_eq!(functions("Non-blocking atomic memory operations"), forms * (2 * 14 + 3 * 12 + 3 * 7));
    // More types than the specification has.
    assert_eq!(functions("Atomic memory operations by their old names"), 3 * 14 + 5 * 12);
    assert_eq!(functions("Signalling"), forms * 2 * (rma + sizes + 1) + forms * 2 + 2);
    assert_eq!(functions("Collectives: moving data"), 5 * (rma + 1));
    assert_eq!(functions("Collectives: reductions"), 3 * 14 + 2 * 24 + 2 * 26);
    assert_eq!(functions("Collectives: scans"), 2 * 26);
    assert_eq!(functions("Collectives over active sets"), 2 + 5 * 2 + 3 * 4 + 2 * 7 + 2 * 9);
    assert_eq!(functions("Point-to-point synchronisation: waiting"), 7 * 14 + 1 + 4 + 1);
    assert_eq!(functions("Point-to-point synchronisation: testing"), 7 * 14);
    assert_eq!(functions("Selvedge: counting puts"), 6 + forms * (4 * rma + 3 * (sizes + 1)));
}

#[test]
fn names_are_put_together_as_in_c() {
    let names: BTreeSet<String> = all_functions().map(|function| function.name).collect();
    for name in [
        "shmem_init",
        "start_pes",
        "_my_pe",
        "shfree",
        "shmem_longlong_put",
        "shmem_ctx_putmem_nbi",
        "shmem_put128_signal_nbi",
        "shmem_ctx_size_p_ct",
        "shmem_ctx_iget8",
        "shmem_ptrdiff_atomic_compare_swap_nbi",
        "shmem_alltoallsmem",
        "shmem_alltoalls64",
        "shmem_fcollectmem",
        "shmem_complexd_prod_to_all",
        "shmem_wait",
        "shmem_short_wait",
        "shmem_wait_until",
        "shmem_ushort_test",
        "shmem_ctx_pe_quiet",
        "shmem_team_sync",
        "shmem_sync",
        "shmemx_putmem_ct",
        "shmemx_ctx_uint8_ibget",
    ] {
        assert!(names.contains(name), "{name}");
    }
    // There is no atomic for short, and no type-generic name is a function.
    for name in ["shmem_short_atomic_add", "shmem_put", "shmem_float_atomic_add", "shmem_int_atomic_xor", "shmem_swap"]
    {
        assert!(!names.contains(name), "{name}");
    }
}

#[test]
fn rows_are_well_formed() {
    for row in rows() {
        let prototype = row.prototype();
        let name = prototype.name.whole();
        let typed = row.prototype.contains("TYPE");
        assert_eq!(typed, !row.sets.is_empty(), "{name}: TYPE and sets of types go together");
        assert_eq!(typed, row.rust.contains("TYPE"), "{name}: so do TYPE in C and in Rust");
        assert!(!row.summary().is_empty() && row.summary().ends_with('.'), "{name}: has a summary");
        assert!(!row.volatile || row.sets[0].naming == Naming::Infix, "{name}: volatile is of type-generic names");
    }
}

fn rows() -> impl Iterator<Item = &'static Row> {
    SECTIONS.iter().flat_map(|section| section.rows)
}
