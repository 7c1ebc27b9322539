// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TOML files that come with Selvedge, by name: machines, experiments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of a folder such as `machines` by their names without an ending. It is looked for in the current folder,
/// in the installed tree, and in every folder above the executable, for a build folder. The first one with a name wins.
pub fn known(folder: &str) -> BTreeMap<String, PathBuf> {
    let mut known = BTreeMap::new();
    for folder in folders(folder) {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "toml") {
                if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
                    known.entry(name.to_owned()).or_insert_with(|| path.clone());
                }
            }
        }
    }
    known
}

fn folders(folder: &str) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(folder)];
    let prefix = selvedge_launcher::environment::prefix().ok();
    let executable = std::env::current_exe().unwrap_or_default();
    for tree in prefix.iter().map(PathBuf::as_path).chain(executable.ancestors().skip(1)) {
        folders.push(tree.join("share/selvedge").join(folder));
        folders.push(tree.join(folder));
    }
    folders
}

/// The names, for an error.
pub fn names(known: &BTreeMap<String, PathBuf>) -> String {
    if known.is_empty() {
        return "none found; set SELVEDGE_PREFIX to the tree that has them".to_owned();
    }
    known.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Whether a word is the path of a file, and not a name.
pub fn is_path(word: &str) -> bool {
    Path::new(word).is_file() || word.contains('/') || word.ends_with(".toml")
}
