// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders the C functions in Rust: each passes its name and its arguments to the Rust function of its row.
//!
//! Rust cannot pass or return a `long double` by value as C does. Functions that do are in `src/longdouble.c`.

use std::fmt::Write as _;

use super::{Function, Parameter, all_functions, filled};

/// The text that `src/exports.rs` includes.
pub fn exports() -> String {
    let mut text = String::from("// Made by build.rs from the table in api/.\n");
    for function in all_functions().filter(|function| !by_value(function)) {
        export(&mut text, &function);
    }
    text
}

/// Whether a `long double` is passed by value, so that the function is in `src/longdouble.c`.
pub fn by_value(function: &Function) -> bool {
    let prototype = &function.prototype;
    let bare = prototype.returns == "TYPE" || prototype.parameters.iter().any(|parameter| parameter.c == "TYPE");
    bare && function.element.is_some_and(|element| element.rust == "LongDouble")
}

fn export(text: &mut String, function: &Function) {
    let Function { row, name, element, prototype, .. } = function;
    let element = element.map_or("", |element| element.rust);
    let (path, arguments) = match row.rust.strip_suffix("()") {
        Some(path) => (path, String::new()),
        None => {
            let context = match (row.rust_ctx, function.ctx) {
                (false, _) => None,
                (true, false) => Some("Ctx::DEFAULT"),
                (true, true) => Some("ctx"),
            };
            let own = prototype.parameters.iter().map(|parameter| parameter.name.as_str());
            (row.rust, context.into_iter().chain(own).collect::<Vec<_>>().join(", "))
        }
    };
    let unused = if arguments.is_empty() { "_" } else { "" };

    let mut parameters: Vec<String> = Vec::new();
    if function.ctx {
        parameters.push("ctx: Ctx".into());
    }
    for Parameter { c, name } in &prototype.parameters {
        parameters.push(format!("{unused}{name}: {}", in_rust(c, element)));
    }
    let returns = match prototype.returns.as_str() {
        "void" if row.never => " -> !".into(),
        "void" => String::new(),
        c => format!(" -> {}", in_rust(c, element)),
    };
    let comma = if arguments.is_empty() { "" } else { ", " };
    writeln!(
        text,
        "\n/// {}\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({}){returns} {{\n    \
         // SAFETY: the contract of the C function is that of the Rust function.\n    \
         unsafe {{ {}(\"{name}\"{comma}{arguments}) }}\n}}",
        row.summary(),
        parameters.join(", "),
        filled(path, element),
    )
    .expect("a string takes it");
}

/// The Rust type for a C type of a parameter or result.
fn in_rust(c: &str, element: &str) -> String {
    if let Some(target) = c.strip_suffix('*') {
        let target = target.trim();
        return match target.strip_prefix("const ") {
            Some(target) => format!("*const {}", in_rust(target, element)),
            None => format!("*mut {}", in_rust(target, element)),
        };
    }
    let rust = match c {
        "TYPE" => element,
        "void" => "c_void",
        "char" => "c_char",
        "int" => "c_int",
        "long" => "c_long",
        "double" => "f64",
        "uint64_t" => "u64",
        "size_t" => "usize",
        "ptrdiff_t" => "isize",
        "shmem_ctx_t" => "Ctx",
        "shmem_team_t" => "Team",
        "shmem_ct_t" | "shmemx_ct_t" => "Ct",
        // Structures of one member are passed as pointers to it.
        "shmem_team_config_t" => "c_int",
        "shmem_ctx_session_config_t" => "usize",
        _ => panic!("no Rust type is known for C's {c}"),
    };
    rust.into()
}
