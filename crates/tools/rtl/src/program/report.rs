// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge rtl report`: the figures that `make rtl-report` keeps in docs/results/rtl, as tables and as plots.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;

use super::{FiguresError, plots};

/// Print area, frequency and power of the units, beside those of small RISC cores
///
/// The figures are those that `make rtl-report` has stored. Logic and memory are separate. Each source has two
/// netlists: `small`, and `fast`, whose frequencies are shown.
#[derive(clap::Args)]
pub struct Args {
    /// The folder with the figures [default: docs/results/rtl of the current folder, or of the repository around this program]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Print the contents of the files as JSON
    #[arg(long)]
    json: bool,

    /// Write the figures as plots, one file each
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

pub fn main(args: &Args) -> ExitCode {
    let Some(folder) = args.folder.clone().or_else(find) else {
        eprintln!(
            "selvedge rtl: no figures found: run make rtl-report in the repository, or give their folder with --folder"
        );
        return ExitCode::from(crate::EXIT_INPUT);
    };
    let designs = designs(&folder);
    if let (Some(to), Ok(designs)) = (&args.svg, &designs) {
        if let Err(why) = plots::write(designs, &folder, to) {
            eprintln!("selvedge rtl: {why}");
            return ExitCode::FAILURE;
        }
    }
    match designs {
        Ok(designs) if args.json => crate::print(&format!("{:#}\n", Value::from(designs))),
        Ok(designs) => crate::print(&tables(&designs)),
        Err(why) => {
            eprintln!("selvedge rtl: {why}");
            return ExitCode::from(crate::EXIT_INPUT);
        }
    }
    ExitCode::SUCCESS
}

/// The folder of figures above the current folder or above this program.
fn find() -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let places = [std::env::current_dir().ok(), own];
    let above = places.iter().flatten().flat_map(|place| place.ancestors());
    let mut folders = above.map(|folder| folder.join("docs/results/rtl"));
    folders.find(|folder| folder.join("figures.md").is_file())
}

fn designs(folder: &Path) -> Result<Vec<Value>, FiguresError> {
    let read = |path: &Path| {
        let path = path.to_owned();
        move |error| FiguresError::Read { path, error }
    };
    let files = std::fs::read_dir(folder).map_err(read(folder))?;
    let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let mut designs = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(read(&path))?;
        let one: Value = serde_json::from_str(&text).map_err(|error| FiguresError::Malformed { path, error })?;
        if one["name"].is_string() && (one["area"].is_object() || one["fpga"].is_object()) {
            designs.push(one);
        }
    }
    if designs.is_empty() { Err(FiguresError::Empty { folder: folder.to_owned() }) } else { Ok(designs) }
}

/// A table for each library of cells, and one of the FPGA.
fn tables(designs: &[Value]) -> String {
    let keys = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let libraries: BTreeSet<String> = designs.iter().flat_map(|one| keys(&one["area"])).collect();
    let mut text = String::new();
    for library in &libraries {
        let corners: BTreeSet<String> = designs.iter().flat_map(|one| keys(&one["timing"][library])).collect();
        let mut head = vec![String::new(), "small, kGE".into(), "fast, kGE".into(), "memory, bits".into()];
        head.extend(corners.iter().map(|corner| {
            format!("MHz {}", corner.trim_start_matches(library.as_str()).trim_matches('_')).trim_end().to_owned()
        }));
        let rows = designs.iter().filter(|one| one["area"][library].is_object()).map(|one| {
            let (area, timing) = (&one["area"][library], &one["timing"][library]);
            let mut row = vec![one["name"].as_str().unwrap_or_default().to_owned()];
            row.extend([&area["small"]["kge"], &area["fast"]["kge"], &area["memory_bits"]].map(shown));
            row.extend(corners.iter().map(|corner| shown(&timing[corner]["fast"]["frequency_mhz"])));
            row
        });
        let _ = writeln!(text, "Cells {library}");
        text += &table(std::iter::once(head).chain(rows).collect());
        text.push('\n');
        text += &powers(designs, library);
    }
    let fpga: Vec<_> = designs.iter().filter(|one| one["fpga"].is_object()).collect();
    if !fpga.is_empty() {
        let head = ["", "device", "MHz", "LUT4", "flip-flops", "block memories"].map(str::to_owned).to_vec();
        let rows = fpga.iter().map(|one| {
            let (fpga, used) = (&one["fpga"], &one["fpga"]["used"]);
            let mut row = vec![one["name"].as_str().unwrap_or_default().to_owned()];
            row.extend(
                [&fpga["device"], &fpga["frequency_mhz"], &used["TRELLIS_COMB"], &used["TRELLIS_FF"], &used["DP16KD"]]
                    .map(shown),
            );
            row
        });
        text += "FPGA, after place and route\n";
        text += &table(std::iter::once(head).chain(rows).collect());
        text.push('\n');
    }
    text
}

/// Power under recorded traffic, one netlist a row.
fn powers(designs: &[Value], library: &str) -> String {
    let head = ["", "netlist", "logic, mW", "of it the clock", "idle", "SRAM, mW", "leakage, µW", "commands", "cycles"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut frequency = None;
    for one in designs {
        for kind in ["small", "fast"] {
            let power = &one["power"][library][kind];
            let Some(traffic) = power["traffic"].as_object() else { continue };
            frequency = power["frequency_mhz"].as_u64();
            let leakage = traffic["logic_leakage_mw"].as_f64().unwrap_or_default() * 1000.0;
            let mw = |value: &Value| value.as_f64().map_or("no macro".to_owned(), |mw| format!("{mw:.2}"));
            let mut row = vec![one["name"].as_str().unwrap_or_default().to_owned(), kind.to_owned()];
            row.extend([&traffic["logic_mw"], &traffic["clock_mw"], &power["idle"]["logic_mw"]].map(mw));
            row.extend([mw(&traffic["sram_mw"]), format!("{leakage:.1}")]);
            row.extend([&power["window"]["commands"], &power["window"]["cycles"]].map(shown));
            rows.push(row);
        }
    }
    let Some(frequency) = frequency else { return String::new() };
    format!("Power at {frequency} MHz under recorded all-to-all traffic, cells {library}\n{}\n", table(rows))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.1}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

/// The first row has the heads. All columns but the first hold numbers.
fn table(rows: Vec<Vec<String>>) -> String {
    let mut rows = rows.into_iter();
    let head = |(column, head): (usize, String)| if column == 0 { head } else { format!(">{head}") };
    let heads: Vec<String> = rows.next().unwrap_or_default().into_iter().enumerate().map(head).collect();
    let mut table = selvedge_terminal::Table::new(&heads);
    rows.for_each(|row| table.row(row));
    table.text()
}
