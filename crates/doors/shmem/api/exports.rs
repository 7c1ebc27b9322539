// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders the C functions in Rust: each passes its name and its arguments to the Rust function of its row. With a
//! recording of calls (`src/calls.rs`) it tells that its name, class and arguments first.
//!
//! Without a recording a function is a branch and a jump. Its work is a function of its own, so that the recording takes
//! no registers from it, and a C function, which does not unwind, so that the jump is no call.
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
    statics_by_value(&mut text);
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
    let names: Vec<&str> = parameters.iter().filter_map(|parameter| Some(parameter.split_once(':')?.0)).collect();
    let (class, recorded) = recorded(function);
    let plain = format!("plain({})", names.join(", "));
    let recorded_call = match (row.never, returns.is_empty()) {
        (true, _) => format!("unsafe {{ {plain} }}"),
        (false, true) => format!("unsafe {{ {plain} }};\n        calls::leave();"),
        (false, false) => format!("let result = unsafe {{ {plain} }};\n        calls::leave();\n        result"),
    };
    let parameters = parameters.join(", ");
    writeln!(
        text,
        "\n/// {}\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({parameters}){returns} {{\n    \
         #[inline(never)]\n    unsafe extern \"C\" fn plain({parameters}){returns} {{\n        \
         // SAFETY: the contract of the C function is that of the Rust function.\n        \
         unsafe {{ {}(\"{name}\"{comma}{arguments}) }}\n    }}\n    \
         #[cold]\n    #[inline(never)]\n    unsafe extern \"C\" fn recorded({parameters}){returns} {{\n        \
         static FUNCTION: calls::Function = calls::Function::new(\"{name}\", calls::class::{class});\n        \
         calls::enter(&FUNCTION, {recorded});\n        \
         // SAFETY: the contract of the C function.\n        \
         {recorded_call}\n    }}\n    \
         // SAFETY: the contract of the C function.\n    \
         unsafe {{ if calls::on() {{ recorded({names}) }} else {{ plain({names}) }} }}\n}}",
        row.summary(),
        filled(path, element),
        names = names.join(", "),
    )
    .expect("a string takes it");
}

/// Renders the statics of the functions in `src/longdouble.c`, by their names.
fn statics_by_value(text: &mut String) {
    text.push_str("\n/// The static of a function that `longdouble.c` has.\n");
    text.push_str("fn by_value(call: Call) -> &'static calls::Function {\n    match call {\n");
    for function in all_functions().filter(by_value) {
        let (name, (class, _)) = (&function.name, recorded(&function));
        writeln!(
            text,
            "        \"{name}\" => {{ static FUNCTION: calls::Function = \
             calls::Function::new(\"{name}\", calls::class::{class}); &FUNCTION }}"
        )
        .expect("a string takes it");
    }
    text.push_str(
        "        _ => { static OTHER: calls::Function = \
         calls::Function::new(\"a call of longdouble.c\", calls::class::PLAIN); &OTHER }\n    }\n}\n",
    );
}

/// The class of a function in a recording, by its Rust function, and its recorded arguments.
fn recorded(function: &Function) -> (&'static str, String) {
    let path = function.row.rust.trim_end_matches("()").split("::<").next().unwrap_or_default();
    let class = class_of(path);
    let parameter = |name: &str| function.prototype.parameters.iter().find(|parameter| parameter.name == name);
    let has = |name: &str| parameter(name).is_some();
    let size = function.element.map_or("8".into(), |element| format!("size_of::<{}>()", element.rust));
    let count = ["nelems", "nreduce", "nblocks"].into_iter().find(|name| has(name));
    let bytes = match count {
        Some("nblocks") => format!("nblocks.wrapping_mul(bsize).wrapping_mul({size})"),
        Some(count) if parameter(count).is_some_and(|parameter| parameter.c == "int") => {
            format!("({count} as usize).wrapping_mul({size})")
        }
        Some(count) => format!("{count}.wrapping_mul({size})"),
        None => size,
    };
    let ctx = if function.ctx { "ctx" } else { "Ctx::DEFAULT" };
    let root = if has("pe_root") { "Some(pe_root)" } else { "None" };
    let arguments = match class {
        "PUT" | "PUT_NBI" | "ACCUMULATE" | "INCREMENT" => format!("calls::access({ctx}, pe, ({bytes}, 0))"),
        "GET" | "GET_NBI" => format!("calls::access({ctx}, pe, (0, {bytes}))"),
        _ if has("pe") && class != "PLAIN" => format!("calls::access({ctx}, pe, ({bytes}, {bytes}))"),
        "BARRIER" | "SYNC" if has("team") => "calls::over_team(team, None, 0)".into(),
        "BARRIER" | "SYNC" if has("pe_size") => "calls::over_set(pe_size, None, 0)".into(),
        "BARRIER" | "SYNC" => "calls::over(true, None, 0)".into(),
        _ if path.starts_with("collective::") => format!("calls::over_team(team, {root}, {bytes})"),
        _ if path.starts_with("active_set::") => format!("calls::over_set(pe_size, {root}, {bytes})"),
        _ => "calls::Arguments::NONE".into(),
    };
    (class, arguments)
}

/// The name of a class in `src/calls.rs`.
fn class_of(path: &str) -> &'static str {
    let (file, verb) = path.split_once("::").unwrap_or_default();
    match (file, verb) {
        ("rma" | "counting" | "signal", "put" | "p" | "iput" | "ibput" | "put_signal") => "PUT",
        ("rma" | "counting" | "signal", "put_nbi" | "put_signal_nbi") => "PUT_NBI",
        ("rma", "get" | "g" | "iget" | "ibget") | ("counting", "get_and_count") => "GET",
        ("rma", "get_nbi") => "GET_NBI",
        ("amo", "add" | "and" | "or" | "xor" | "set") | ("signal", "signal_add" | "signal_set") => "ACCUMULATE",
        ("amo", "inc") => "INCREMENT",
        ("amo", "fetch" | "fetch_and" | "fetch_or" | "fetch_xor") => "FETCH_ACCUMULATE",
        ("amo", "fetch_nbi" | "fetch_and_nbi" | "fetch_or_nbi" | "fetch_xor_nbi") => "FETCH_ACCUMULATE_NBI",
        ("amo", "fetch_add") => "FETCH_ADD",
        ("amo", "fetch_add_nbi") => "FETCH_ADD_NBI",
        ("amo", "fetch_inc") => "FETCH_INCREMENT",
        ("amo", "fetch_inc_nbi") => "FETCH_INCREMENT_NBI",
        ("amo", "swap") => "SWAP",
        ("amo", "swap_nbi") => "SWAP_NBI",
        ("amo", "compare_swap") => "COMPARE_SWAP",
        ("amo", "compare_swap_nbi") => "COMPARE_SWAP_NBI",
        ("amo", other) => panic!("no class is known for amo::{other}"),
        ("collective", "barrier_all") | ("active_set", "barrier") => "BARRIER",
        ("collective", "sync_all") | ("team" | "active_set", "sync") => "SYNC",
        ("collective" | "active_set", "broadcast") => "BROADCAST",
        ("collective" | "active_set", "collect") => "COLLECT",
        ("collective" | "active_set", "fcollect") => "FCOLLECT",
        ("collective" | "active_set", "alltoall" | "alltoalls") => "ALLTOALL",
        ("collective", "reduce") | ("active_set", "to_all") => "REDUCE",
        ("collective", "inscan") => "SCAN",
        ("collective", "exscan") => "EXCLUSIVE_SCAN",
        ("collective" | "active_set", other) => panic!("no class is known for {file}::{other}"),
        ("order", "quiet" | "pe_quiet") | ("context", "destroy") | ("start", "finalize") => "QUIET",
        ("symmetric", "free") => "DEALLOCATE",
        ("symmetric", "realloc") => "REALLOCATE",
        ("symmetric", _) => "ALLOCATE",
        ("wait", verb) if verb.starts_with("wait") => "WAIT",
        ("signal", "wait_until") | ("counting", "wait") => "WAIT",
        _ => "PLAIN",
    }
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
