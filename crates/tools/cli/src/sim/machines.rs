// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds machines: by the path of a file, or by the name of a machine that comes with Selvedge.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use selvedge_settings::nearest;
use selvedge_sim::machine::{Machine, load};

use super::usage::Usage;
use crate::tree_files;

const FOLDER: &str = "machines";

/// The file of a machine.
pub fn find(given: &str) -> Result<PathBuf, Usage> {
    let path = Path::new(given);
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let known = known();
    if tree_files::is_path(given) {
        return Err(Usage(format!("there is no file {given}; machines by name are {}", tree_files::names(&known))));
    }
    known.get(given).cloned().ok_or_else(|| {
        let nearest = nearest(given, known.keys().cloned());
        let meant = nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        let all = tree_files::names(&known);
        Usage(format!("there is no machine '{given}'{meant}; there are {all}, or give the path of a TOML file"))
    })
}

/// All machines by name.
pub fn known() -> BTreeMap<String, PathBuf> {
    tree_files::known(FOLDER)
}

/// A machine that `--list` shows.
pub struct Described {
    pub name: String,
    pub file: PathBuf,
    /// Its description in one line; or why its file gives none.
    pub about: Result<String, String>,
}

/// All machines, by name. A file that gives no machine is in the list too, with the reason.
pub fn described() -> Vec<Described> {
    let describe = |(name, file): (String, PathBuf)| {
        let about = match load::load(&file) {
            Ok(machine) if machine.about.trim().is_empty() => Ok(shape(&machine)),
            Ok(machine) => Ok(machine.about),
            Err(error) => Err(format!("no machine: {error}")),
        };
        Described { name, file, about }
    };
    known().into_iter().map(describe).collect()
}

/// The description of a machine whose file has no `about`.
fn shape(machine: &Machine) -> String {
    format!("{} nodes; its file has no `about`", machine.topology.rails().nodes())
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_name() {
        let names = ["atoll", "cluster", "extoll-asic500", "extoll-asic800"];
        for (given, name) in [("clster", Some("cluster")), ("extoll-asic80", Some("extoll-asic800")), ("fugaku", None)]
        {
            assert_eq!(nearest(given, names.into_iter().map(str::to_owned)).as_deref(), name);
        }
    }
}
