// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the units of `rtl/units.toml` with Verilator, and the shim that drives them.
//!
//! Verilator writes a C++ class for each unit into Cargo's output folder; the C++ compiler builds them with the shim. Where
//! Verilator is missing, the crate builds without the units, and its tests say which package they need.
//!
//! `SELVEDGE_RTL_DEFINES` names macros that Verilator defines (`MUTANT_12`), separated by spaces.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[derive(serde::Deserialize)]
struct Units {
    unit: Vec<Unit>,
}

/// A unit of `rtl/units.toml`, without what only the flow reads.
#[derive(serde::Deserialize)]
struct Unit {
    name: String,
    top: String,
    folder: String,
    packages: Vec<String>,
    #[serde(default)]
    parameters: BTreeMap<String, toml::Value>,
}

fn main() {
    let rtl = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by Cargo")).join("../../rtl");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by Cargo"));
    for path in ["../../rtl", "shim", "build.rs"] {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed=SELVEDGE_RTL_DEFINES");
    println!("cargo:rustc-check-cfg=cfg(verilated)");

    let text = fs::read_to_string(rtl.join("units.toml")).expect("rtl/units.toml is readable");
    let units: Units = toml::from_str(&text).expect("rtl/units.toml is right");
    let names = units.unit.iter().map(|unit| format!("{:?}", unit.name)).collect::<Vec<_>>().join(", ");
    fs::write(out.join("units.rs"), format!("&[{names}]")).expect("the output folder is writable");

    let Some(root) = verilator_root() else {
        println!("cargo:warning=Verilator is not installed (Debian's package verilator): the RTL is left out");
        return;
    };
    println!("cargo:rustc-cfg=verilated");
    let mut compile = cc::Build::new();
    compile.cpp(true).std("c++20").opt_level(2).debug(false).warnings(false).define("VL_TIME_CONTEXT", None);
    compile.include(root.join("include")).include(root.join("include/vltstd")).include("shim");
    for source in ["verilated.cpp", "verilated_threads.cpp"] {
        compile.file(root.join("include").join(source));
    }
    for unit in &units.unit {
        let folder = out.join(&unit.name);
        verilate(&rtl, &folder, unit);
        compile.include(&folder);
        for entry in fs::read_dir(&folder).expect("Verilator made it") {
            let path = entry.expect("readable").path();
            if path.extension().is_some_and(|extension| extension == "cpp") {
                compile.file(path);
            }
        }
    }
    let table = out.join("units.cpp");
    fs::write(&table, table_of(&units.unit)).expect("the output folder is writable");
    compile.file(table).compile("selvedge_rtl_units");
}

/// Verilator's folder, which has the headers that its output includes.
fn verilator_root() -> Option<PathBuf> {
    let said = Command::new("verilator").args(["--getenv", "VERILATOR_ROOT"]).output().ok()?;
    let root = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| PathBuf::from(root.trim()))
}

fn verilate(rtl: &Path, folder: &Path, unit: &Unit) {
    let _ = fs::remove_dir_all(folder);
    let mut command = Command::new("verilator");
    command.args([
        "--cc",
        "-O3",
        "--x-assign",
        "fast",
        "--x-initial",
        "unique",
        "--noassert",
        "-Wno-fatal",
        "-Wno-lint",
    ]);
    command.arg("--prefix").arg(format!("V{}", unit.name)).arg("--top-module").arg(&unit.top).arg("--Mdir").arg(folder);
    command.arg("-y").arg(rtl.join("common")).arg("-y").arg(rtl.join(&unit.folder));
    for (name, value) in &unit.parameters {
        command.arg(format!("-G{name}={value}"));
    }
    for define in env::var("SELVEDGE_RTL_DEFINES").unwrap_or_default().split_whitespace() {
        command.arg(format!("+define+{define}"));
    }
    command.arg(rtl.join("common/pac_pkg.sv")).args(unit.packages.iter().map(|package| rtl.join(package)));
    command.arg(rtl.join(&unit.folder).join(format!("{}.sv", unit.top)));
    let said = command.output().expect("Verilator starts");
    assert!(said.status.success(), "Verilator on {}:\n{}", unit.name, String::from_utf8_lossy(&said.stderr));
}

/// The C++ file that names all units.
fn table_of(units: &[Unit]) -> String {
    let mut text = String::from("#include \"unit.hpp\"\n");
    for unit in units {
        writeln!(text, "#include \"V{}.h\"", unit.name).expect("memory");
    }
    text += "Unit *selvedge_rtl_make(unsigned kind) {\n    switch (kind) {\n";
    for (kind, unit) in units.iter().enumerate() {
        writeln!(text, "    case {kind}: return new Of<V{}>;", unit.name).expect("memory");
    }
    text += "    default: return nullptr;\n    }\n}\n#include \"interface.hpp\"\n";
    text
}
