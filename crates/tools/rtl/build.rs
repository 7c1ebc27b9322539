// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the units of `rtl/units.toml` with Verilator, and the shim that drives them.
//!
//! Each unit sits in a harness that registers its inputs, so that Verilator evaluates the logic behind them once a
//! cycle instead of twice. Verilator writes a C++ class for each unit into Cargo's output folder; the C++ compiler
//! builds them with the shim. Without Verilator, the crate has no units, and its tests name the package.
//!
//! | variable | effect |
//! |---|---|
//! | `SELVEDGE_RTL_NETLISTS` | folder of gate netlists (rtl/flow/gates.py): a unit with a netlist is built from it, with the cells of `cells.v` and the memories of the RTL |
//! | `SELVEDGE_RTL_DEFINES` | macros for the sources (`MUTANT_12`), separated by spaces |
//! | `SELVEDGE_RTL_FOLDERS` | folders of `rtl/` whose units are built; default: all |
//! | `SELVEDGE_RTL_LARGE` | also builds units that tests do not need (`large` in units.toml) |
//! | `SELVEDGE_RTL_COVERAGE` | counts statements and toggles (rtl/flow/coverage.py) |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[derive(serde::Deserialize)]
struct Units {
    unit: Vec<Unit>,
}

/// A unit of `rtl/units.toml`, without the keys that only the flow reads.
#[derive(serde::Deserialize)]
struct Unit {
    name: String,
    top: String,
    folder: String,
    #[serde(default)]
    uses: Vec<String>,
    packages: Vec<String>,
    #[serde(default)]
    large: bool,
    #[serde(default)]
    parameters: BTreeMap<String, toml::Value>,
}

fn main() {
    let rtl = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by Cargo")).join("../../../rtl");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by Cargo"));
    for path in ["../../../rtl/units.toml", "../../../rtl/common", "shim", "build.rs"] {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed=SELVEDGE_RTL_DEFINES");
    println!("cargo:rerun-if-env-changed=SELVEDGE_RTL_NETLISTS");
    if let Some(netlists) = netlists() {
        println!("cargo:rerun-if-changed={}", netlists.display());
    }
    println!("cargo:rerun-if-env-changed=SELVEDGE_RTL_FOLDERS");
    println!("cargo:rerun-if-env-changed=SELVEDGE_RTL_LARGE");
    println!("cargo:rerun-if-env-changed=SELVEDGE_RTL_COVERAGE");
    println!("cargo:rustc-check-cfg=cfg(verilated)");

    let text = fs::read_to_string(rtl.join("units.toml")).expect("rtl/units.toml is readable");
    let mut units: Units = toml::from_str(&text).expect("rtl/units.toml is valid");
    if let Ok(folders) = env::var("SELVEDGE_RTL_FOLDERS") {
        units.unit.retain(|unit| folders.split_whitespace().any(|folder| folder == unit.folder));
    }
    units.unit.retain(|unit| !unit.large || env::var_os("SELVEDGE_RTL_LARGE").is_some());
    for unit in &units.unit {
        println!("cargo:rerun-if-changed=../../../rtl/{}", unit.folder);
        unit.uses.iter().for_each(|folder| println!("cargo:rerun-if-changed=../../../rtl/{folder}"));
    }
    let names = units.unit.iter().map(|unit| format!("{:?}", unit.name)).collect::<Vec<_>>().join(", ");
    fs::write(out.join("units.rs"), format!("&[{names}]")).expect("the output folder is writable");

    let Some(root) = verilator_root() else {
        // Runs this script at each build, because Verilator may be installed later.
        println!("cargo:rerun-if-changed={}", out.join("missing").display());
        println!("cargo:warning=Verilator is not installed (Debian's package verilator): the RTL is left out");
        return;
    };
    println!("cargo:rustc-cfg=verilated");
    let mut compile = cc::Build::new();
    compile.cpp(true).std("c++20").opt_level(1).debug(false).warnings(false).define("VL_TIME_CONTEXT", None);
    compile.include(root.join("include")).include(root.join("include/vltstd")).include("shim");
    for source in ["verilated.cpp", "verilated_threads.cpp"] {
        compile.file(root.join("include").join(source));
    }
    if coverage() {
        // The counters make so much code that the C++ compiler takes ten times as long with optimisation.
        compile.opt_level(0);
        compile.file(root.join("include/verilated_cov.cpp")).define("VM_COVERAGE", "1");
    }
    for unit in &units.unit {
        let folder = out.join(&unit.name);
        verilate(&rtl, &folder, unit);
        compile.include(&folder);
        compile.file(all_of(&folder));
    }
    let table = out.join("units.cpp");
    fs::write(&table, table_of(&units.unit)).expect("the output folder is writable");
    compile.file(table).compile("selvedge_rtl_units");
}

/// Verilator's folder, with the headers that its output includes.
fn verilator_root() -> Option<PathBuf> {
    let said = Command::new("verilator").args(["--getenv", "VERILATOR_ROOT"]).output().ok()?;
    let root = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| PathBuf::from(root.trim()))
}

fn netlists() -> Option<PathBuf> {
    env::var_os("SELVEDGE_RTL_NETLISTS").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

fn coverage() -> bool {
    env::var_os("SELVEDGE_RTL_COVERAGE").is_some_and(|folder| !folder.is_empty())
}

fn verilate(rtl: &Path, folder: &Path, unit: &Unit) {
    let _ = fs::remove_dir_all(folder);
    let mut command = Command::new("verilator");
    command.args(["--cc", "-O3", "--x-assign", "fast", "--x-initial", "unique", "--assert", "-Wno-fatal", "-Wno-lint"]);
    command.arg("--prefix").arg(format!("V{}", unit.name)).arg("--top-module").arg("harness").arg("--Mdir").arg(folder);
    if coverage() {
        command.args(["--coverage-line", "--coverage-toggle"]);
    }
    for folder in ["common", &unit.folder].into_iter().chain(unit.uses.iter().map(String::as_str)) {
        command.arg("-y").arg(rtl.join(folder));
    }
    for define in env::var("SELVEDGE_RTL_DEFINES").unwrap_or_default().split_whitespace() {
        command.arg(format!("+define+{define}"));
    }
    command.arg(rtl.join("common/pac_pkg.sv")).args(unit.packages.iter().map(|package| rtl.join(package)));
    let top = rtl.join(&unit.folder).join(format!("{}.sv", unit.top));
    let text = fs::read_to_string(&top).expect("the unit's top is readable");
    let parameters =
        match netlists().map(|netlists| (netlists.join(format!("{}.v", unit.name)), netlists.join("cells.v"))) {
            // A netlist has fixed parameters.
            Some((netlist, cells)) if netlist.exists() => {
                // Verilator 5.006 misreads a tree of XNOR cells if it treats it as an operation on constant bits.
                command.arg("-fno-const-bit-op-tree").arg(cells).arg(netlist);
                BTreeMap::new()
            }
            _ => {
                command.arg(top);
                unit.parameters.clone()
            }
        };
    let harness = folder.with_extension("sv");
    fs::write(&harness, harness_of(unit, &parameters, &text)).expect("the output folder is writable");
    command.arg(harness);
    let said = command.output().expect("Verilator starts");
    assert!(said.status.success(), "Verilator on {}:\n{}", unit.name, String::from_utf8_lossy(&said.stderr));
}

/// A module with the unit's ports, which registers the inputs.
fn harness_of(unit: &Unit, parameters: &BTreeMap<String, toml::Value>, top: &str) -> String {
    // The type of a port, if the unit has it.
    let port = |direction: &str, name: &str| {
        let mut words = top.lines().filter_map(|line| line.split("//").next()).map(|line| line.replace(',', " "));
        words.find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.first() == Some(&direction) && words.last() == Some(&name))
                .then(|| words[1..words.len() - 1].join(" "))
        })
    };
    let packages: String = unit.packages.iter().map(|package| format!("  import {}::*;\n", stem(package))).collect();
    let parameters: Vec<String> = parameters.iter().map(|(name, value)| format!(".{name}({value})")).collect();
    let (outside_in, outside_out) = (port("input", "outside_i"), port("output", "outside_o"));
    let [command, answer, trace] = [("input", "command_i"), ("output", "answer_o"), ("output", "trace_o")]
        .map(|(direction, name)| port(direction, name).unwrap_or_else(|| panic!("{} has no port {name}", unit.top)));
    let mut ports = String::new();
    let mut registers = String::from("    command_valid_q <= command_valid_i;\n    command_q <= command_i;\n");
    let mut declared = format!("  logic command_valid_q;\n  {command} command_q;\n");
    let mut connected = String::new();
    if let Some(kind) = outside_in {
        ports += &format!("  input {kind} outside_i,\n");
        declared += &format!("  {kind} outside_q;\n");
        registers += "    outside_q <= outside_i;\n";
        connected += "      .outside_i(outside_q),\n";
    }
    if let Some(kind) = outside_out {
        ports += &format!("  output {kind} outside_o,\n");
        connected += "      .outside_o,\n";
    }
    format!(
        "module harness\n{packages}(\n  input logic clk_i, rst_ni, command_valid_i,\n  output logic command_ready_o,\n{ports}\
         \x20 input {command} command_i,\n  output logic answer_valid_o,\n  output {answer} answer_o,\n  output {trace} trace_o\n);\n\
         {declared}  always_ff @(posedge clk_i) begin\n{registers}  end\n  {} #({}) u_unit (\n      .clk_i, .rst_ni,\n\
         \x20     .command_valid_i(command_valid_q), .command_i(command_q), .command_ready_o,\n{connected}\
         \x20     .answer_valid_o, .answer_o, .trace_o\n  );\nendmodule\n",
        unit.top,
        parameters.join(", ")
    )
}

/// The name of a file without folder and extension: that of its package.
fn stem(path: &str) -> &str {
    Path::new(path).file_stem().and_then(|stem| stem.to_str()).expect("a path of UTF-8")
}

/// A C++ file that includes all files of a unit. Verilator writes many small ones with the same headers.
fn all_of(folder: &Path) -> PathBuf {
    let paths = fs::read_dir(folder).expect("Verilator made it").map(|entry| entry.expect("readable").path());
    let sources = paths.filter(|path| path.extension().is_some_and(|extension| extension == "cpp"));
    let mut lines: Vec<String> = sources.map(|path| format!("#include {path:?}\n")).collect();
    lines.sort_unstable();
    let all = folder.join("all.cpp");
    fs::write(&all, lines.concat()).expect("the output folder is writable");
    all
}

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
