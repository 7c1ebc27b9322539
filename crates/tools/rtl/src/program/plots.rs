// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of the RTL as pictures, drawn by the simulator's plots.
//!
//! | file | contents |
//! |---|---|
//! | `area.svg` | logic of each unit and processor, with its frequency |
//! | `modules.svg` | logic of the largest modules of the engine, or of the units, beside the processors |
//! | `power.svg` | logic and SRAM of each unit, at one frequency, under recorded traffic |
//! | `queue.svg` | cycles of a match at the end of a queue of receives (seed 000, figures 11 and 12) |
//!
//! A picture without figures is not written. The cell library is the one with the most designs.

use std::path::Path;

use selvedge_document::Plot;
use selvedge_document::plot::{Axis, Line, Shape};
use serde_json::Value;

use super::FiguresError;

const ENGINE: &str = "pac";
/// Number of its largest modules that are shown.
const MODULES: usize = 20;

/// Writes all pictures that have figures.
pub fn write(designs: &[Value], figures: &Path, to: &Path) -> Result<(), FiguresError> {
    let mut plots = cells(designs).map(|library| of_cells(designs, &library)).unwrap_or_default();
    plots.extend(queue(figures)?);
    for plot in plots.iter().filter(|plot| !plot.is_empty()) {
        let path = to.join(format!("{}.svg", plot.name));
        std::fs::write(&path, plot.svg()).map_err(|error| FiguresError::Write { path, error })?;
    }
    Ok(())
}

/// The cell library with the most designs.
fn cells(designs: &[Value]) -> Option<String> {
    let all = designs.iter().filter_map(|one| one["area"].as_object()).flat_map(|areas| areas.keys());
    let count = |name: &str| designs.iter().filter(|one| one["area"][name].is_object()).count();
    all.max_by_key(|name| count(name)).cloned()
}

fn of_cells(designs: &[Value], library: &str) -> Vec<Plot> {
    let name = |one: &Value| one["name"].as_str().unwrap_or_default().to_owned();
    let is_core = |one: &&Value| one["note"].is_string();
    let kge = |one: &Value, kind: &str| one["area"][library][kind]["kge"].as_f64();

    let mut areas = Vec::new();
    for one in designs {
        for kind in ["small", "fast"] {
            let Some(area) = kge(one, kind) else { continue };
            let megahertz = frequencies(&one["timing"][library], kind);
            areas.push((format!("{}, {kind}: {megahertz}", name(one)), area));
        }
    }
    sort(&mut areas);

    // The engine contains lists, descriptors and counters; without its figures, these are shown separately.
    let has_modules = |one: &&Value| !is_core(one) && one["area"][library]["modules"].is_array();
    let engine = designs.iter().any(|one| one["name"] == ENGINE && has_modules(&one));
    let of_module = |one: &Value, row: &Value| {
        let times =
            row["instances"].as_u64().filter(|&times| times > 1).map_or(String::new(), |t| format!(", {t} times"));
        Some((format!("{}: {}{times}", name(one), row["module"].as_str()?), row["kge"].as_f64()?))
    };
    let shown = designs.iter().filter(has_modules).filter(|one| one["name"] == ENGINE || !engine);
    let rows = shown
        .flat_map(|one| one["area"][library]["modules"].as_array().into_iter().flatten().map(move |row| (one, row)));
    let mut by_module: Vec<_> = rows.filter_map(|(one, row)| of_module(one, row)).collect();
    sort(&mut by_module);
    by_module.truncate(MODULES);
    if !by_module.is_empty() {
        let cores = designs.iter().filter(is_core);
        by_module.extend(cores.filter_map(|one| Some((format!("processor {}", name(one)), kge(one, "small")?))));
    }
    sort(&mut by_module);

    let mut powers = Vec::new();
    let mut frequency = 0;
    for one in designs {
        for kind in ["small", "fast"] {
            let power = &one["power"][library][kind];
            frequency = power["frequency_mhz"].as_u64().unwrap_or(frequency);
            let traffic = &power["traffic"];
            let of = |part: &str| traffic[part].as_f64();
            powers.extend(of("logic_mw").map(|mw| (format!("{}, {kind}: logic", name(one)), mw)));
            powers.extend(
                power["idle"]["logic_mw"].as_f64().map(|mw| (format!("{}, {kind}: logic, idle", name(one)), mw)),
            );
            if kind == "fast" {
                let is_whole =
                    power["memories"].as_array().is_none_or(|all| all.iter().all(|one| one["cell"].is_string()));
                let of_it = if is_whole { "" } else { ", as far as it has macros" };
                powers.extend(of("sram_mw").map(|mw| (format!("{}: SRAM{of_it}", name(one)), mw)));
            }
        }
    }
    sort(&mut powers);

    let ranked = |file: &str, title: String, label: String, bars| Plot {
        name: file.to_owned(),
        title,
        x: Axis::linear("", plain).called(label),
        y: Axis::linear("", plain),
        shape: Shape::Ranked(bars),
    };
    let gates = "thousand gate equivalents (NAND with two inputs)";
    vec![
        ranked("area", format!("Logic without memory; MHz slow, typical ({library})"), gates.to_owned(), areas),
        ranked(
            "modules",
            format!("The largest modules, small, without memory ({library})"),
            gates.to_owned(),
            by_module,
        ),
        ranked(
            "power",
            format!("Power under recorded all-to-all traffic, {frequency} MHz ({library})"),
            "mW".to_owned(),
            powers,
        ),
    ]
}

fn frequencies(timing: &Value, kind: &str) -> String {
    let corners = timing.as_object().into_iter().flat_map(|corners| corners.values());
    let mut found: Vec<f64> = corners.filter_map(|corner| corner[kind]["frequency_mhz"].as_f64()).collect();
    found.sort_by(f64::total_cmp);
    let words: Vec<String> = found.iter().map(|megahertz| format!("{megahertz:.0}")).collect();
    if words.is_empty() { "-".to_owned() } else { format!("{} MHz", words.join(", ")) }
}

/// Cycles by queue length, as written by `examples/queue_length`.
fn queue(figures: &Path) -> Result<Option<Plot>, FiguresError> {
    let path = figures.join("queue_length.json");
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(None) };
    let whole: Value = serde_json::from_str(&text).map_err(|error| FiguresError::Malformed { path, error })?;
    let line = |(key, name): (&str, &str)| {
        let rows = whole["rows"].as_array().into_iter().flatten();
        let points = rows.filter_map(|row| Some((row["receives"].as_f64()?, row[key].as_f64()?))).collect();
        Line { name: name.to_owned(), points }
    };
    let lines = [("cycles", "key of source and bits"), ("cycles_source", "key of the source alone (seed 000)")];
    Ok(Some(Plot {
        name: "queue".to_owned(),
        title: "A match behind a queue of receives of one source".to_owned(),
        x: Axis::logarithmic("receives", 2, plain),
        y: Axis::logarithmic("cycles of the list manager", 10, plain),
        shape: Shape::Lines(lines.map(line).into_iter().filter(|line| !line.points.is_empty()).collect()),
    }))
}

fn sort(bars: &mut [(String, f64)]) {
    bars.sort_by(|a, b| b.1.total_cmp(&a.1));
}

fn plain(value: f64) -> String {
    if value >= 1.0 { format!("{value:.0}") } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn figures() -> Vec<Value> {
        let corner = |mhz: f64| json!({ "fast": { "frequency_mhz": mhz }, "small": { "frequency_mhz": mhz / 2.0 } });
        let area = |kge: f64| json!({ "small": { "kge": kge }, "fast": { "kge": 2.0 * kge }, "modules": [{ "module": "lists", "instances": 2, "kge": 3.5 }] });
        vec![
            json!({ "name": "core", "note": "a processor", "area": { "c": area(7.0) }, "timing": { "c": { "slow": corner(100.0) } } }),
            json!({
                "name": "pac", "area": { "c": area(9.0) }, "timing": { "c": { "a": corner(200.0), "slow": corner(100.0) } },
                "power": { "c": { "small": { "frequency_mhz": 100, "traffic": { "logic_mw": 4.0, "sram_mw": null }, "idle": { "logic_mw": 1.5 } } } },
            }),
        ]
    }

    #[test]
    fn pictures_name_their_designs() {
        let folder = tempfile::tempdir().expect("a folder");
        let queue = json!({ "rows": [{ "receives": 1, "cycles": 4, "cycles_source": 4 }, { "receives": 2, "cycles": 4, "cycles_source": 11 }] });
        std::fs::write(folder.path().join("queue_length.json"), queue.to_string()).expect("room");
        write(&figures(), folder.path(), folder.path()).expect("all is drawn");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("the picture");
        assert!(read("area.svg").contains("pac, fast: 100, 200 MHz"));
        assert!(read("modules.svg").contains("pac: lists, 2 times") && read("modules.svg").contains("processor core"));
        assert!(read("power.svg").contains("pac, small: logic, idle"));
        assert!(read("queue.svg").contains("key of the source alone"));
    }

    #[test]
    fn a_picture_without_figures_is_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let without = json!({ "name": "core", "area": { "c": { "small": { "kge": 7.0 } } } });
        write(&[without], folder.path(), folder.path()).expect("all is drawn");
        let written = |name: &str| folder.path().join(name).exists();
        assert!(written("area.svg") && !written("modules.svg") && !written("power.svg") && !written("queue.svg"));
    }
}
