// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge info`: shows build, NIC limits, environment variables, capabilities of this machine, and protocols.
//!
//! Each section is one JSON value, and its text is made from that value, so the two always agree.

pub mod machine;
mod protocols;
mod sections;
mod variables;

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use selvedge_terminal::{Table, print};
use serde_json::{Map, Value};

/// Show the build, limits, environment variables, registers, protocols, and capabilities of this machine.
#[derive(clap::Args)]
pub struct Args {
    /// Sections to show [default: all but registers; with --json all]
    #[arg(value_enum, value_name = "SECTION")]
    sections: Vec<Section>,

    /// Print one JSON object with a member for each section
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Version, target, profile
    Build,
    /// The limits of a NIC, and its size in bytes
    Limits,
    /// Environment variables and their current values
    Variables,
    /// Capabilities of this kernel, limits of this user, and the directory of jobs
    Machine,
    /// The protocols and ways between two ranks, by size
    Protocols,
    /// The registers of a NIC: its counters, and those of its tables
    Registers,
}

impl Section {
    const ALL: [Section; 6] =
        [Section::Build, Section::Limits, Section::Variables, Section::Machine, Section::Protocols, Section::Registers];

    fn name(self) -> &'static str {
        match self {
            Section::Build => "build",
            Section::Limits => "limits",
            Section::Variables => "variables",
            Section::Machine => "machine",
            Section::Protocols => "protocols",
            Section::Registers => "registers",
        }
    }

    fn value(self) -> Value {
        match self {
            Section::Build => sections::build(),
            Section::Limits => sections::limits(),
            Section::Variables => variables::value(),
            Section::Machine => machine::value(),
            Section::Protocols => protocols::value(),
            Section::Registers => sections::registers(),
        }
    }

    fn text(self, value: &Value) -> String {
        match self {
            Section::Build => sections::build_text(value),
            Section::Limits => sections::limits_text(value),
            Section::Variables => variables::text(value),
            Section::Machine => machine::text(value),
            Section::Protocols => protocols::text(value),
            Section::Registers => sections::registers_text(value),
        }
    }
}

pub fn main(args: Args) -> Result<ExitCode> {
    let wanted = match args.sections.as_slice() {
        [] => Section::ALL.into_iter().filter(|&section| args.json || section != Section::Registers).collect(),
        named => named.to_vec(),
    };
    let output = if args.json {
        let members = wanted.iter().map(|section| (section.name().to_owned(), section.value()));
        format!("{:#}\n", Value::Object(members.collect::<Map<_, _>>()))
    } else {
        let texts = wanted.iter().map(|section| format!("{}\n{}", section.name(), section.text(&section.value())));
        texts.collect::<Vec<_>>().join("\n")
    };
    print(&output)?;
    Ok(ExitCode::SUCCESS)
}

/// Rows as text: indented columns without heads, in whole lines.
fn columns<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::without_heads().indented(2);
    rows.into_iter().for_each(|row| table.row(row));
    table.text()
}

/// A JSON value as text: strings without quotes, null as an empty string, no control characters.
fn plain(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// For example "3.8 MiB".
pub fn bytes_text(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes % unit == 0 => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_is_shown_under_its_own_name() {
        for section in Section::ALL {
            let named = section.to_possible_value().expect("none is hidden");
            assert_eq!(named.get_name(), section.name());
        }
    }

    #[test]
    fn bytes_are_exact_or_to_a_tenth() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (16 << 30, "16 GiB"), (3_984_588, "3.8 MiB")]
        {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
