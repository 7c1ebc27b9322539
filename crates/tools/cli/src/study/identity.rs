// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The id of a cell: a hash of all that determines its results.
//!
//! 1. This command: its version, and a checksum of its executable.
//! 2. The cell's settings, in the order of their keys. Those that change no result do not count ([`WITHOUT_EFFECT`]).
//! 3. The text of its machine, of the machines that this one builds on, and of its graph.
//! 4. The contents of each file that a setting names, and of the program.
//!
//! So an edited file changes the ids of the cells that use it, and no others. Names of folders do not count. Libraries that a
//! real program loads, and files that it opens by itself, are not seen.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use toml::Table;

use super::options::{COMMAND, Setting};

/// Settings that change no result.
const WITHOUT_EFFECT: [&str; 1] = ["threads"];
/// Most machines that build on each other, as in the loader.
const BASES_MAX: usize = 8;
const ID_CHARS: usize = 32;

/// Makes ids. Each file is read once.
pub struct Identity {
    /// Folder from which paths lead.
    folder: PathBuf,
    build: String,
    contents: HashMap<PathBuf, blake3::Hash>,
}

type Unreadable = (String, io::Error);

impl Identity {
    pub fn new(folder: PathBuf) -> Identity {
        Identity { folder, build: build(), contents: HashMap::new() }
    }

    /// The id of a cell. `text`: its machine, if the scenario describes it.
    pub fn of<'a>(
        &mut self,
        settings: impl Iterator<Item = &'a Setting>,
        machine: &Path,
        text: Option<&str>,
    ) -> Result<String, Unreadable> {
        let mut hash = blake3::Hasher::new();
        add(&mut hash, &self.build);
        let from = machine.parent().unwrap_or(Path::new("")).to_owned();
        match text {
            Some(text) => self.add_machine(&mut hash, text, &from, BASES_MAX)?,
            None => self.add_machine_file(&mut hash, machine, BASES_MAX)?,
        }
        let folder = self.folder.clone();
        for setting in settings.filter(|setting| !WITHOUT_EFFECT.contains(&setting.key.as_str())) {
            add(&mut hash, &setting.key);
            let is_command = setting.key == COMMAND;
            for (number, word) in setting.words.iter().enumerate() {
                // The machine's text counts, not its name.
                if setting.key == "machine" {
                    continue;
                }
                add(&mut hash, word);
                if let Some(program) = Some(word).filter(|_| is_command && number == 0 && !word.contains('/')) {
                    if let Some(path) = in_path(program) {
                        self.add_file(&mut hash, &path)?;
                    }
                    continue;
                }
                for name in names_in(word) {
                    let graph = setting.key.starts_with("set.").then(|| from.join(name));
                    let files = [Some(folder.join(name)), graph];
                    if let Some(file) = files.into_iter().flatten().find(|file| file.is_file()) {
                        self.add_file(&mut hash, &file)?;
                    }
                }
            }
        }
        Ok(hash.finalize().to_hex()[..ID_CHARS].to_owned())
    }

    fn add_machine_file(&mut self, hash: &mut blake3::Hasher, file: &Path, depth: usize) -> Result<(), Unreadable> {
        let text = std::fs::read_to_string(file).map_err(|error| (file.display().to_string(), error))?;
        self.add_machine(hash, &text, file.parent().unwrap_or(Path::new("")), depth)
    }

    /// Adds a machine's text, its base and its graph. A text that is no TOML is refused when the cell runs.
    fn add_machine(
        &mut self,
        hash: &mut blake3::Hasher,
        text: &str,
        from: &Path,
        depth: usize,
    ) -> Result<(), Unreadable> {
        add(hash, text);
        let table: Table = text.parse().unwrap_or_default();
        let graph = table.get("topology").and_then(|topology| topology.get("file")).and_then(|file| file.as_str());
        if let Some(graph) = graph.map(|graph| from.join(graph)).filter(|graph| graph.is_file()) {
            self.add_file(hash, &graph)?;
        }
        let base = table.get("base").and_then(|base| base.as_str()).filter(|_| depth > 0);
        let base = base.map(|base| from.join(base).with_extension("toml")).filter(|base| base.is_file());
        base.map_or(Ok(()), |base| self.add_machine_file(hash, &base, depth - 1))
    }

    fn add_file(&mut self, hash: &mut blake3::Hasher, file: &Path) -> Result<(), Unreadable> {
        if !self.contents.contains_key(file) {
            let content = content(file).map_err(|error| (file.display().to_string(), error))?;
            self.contents.insert(file.to_owned(), content);
        }
        hash.update(self.contents[file].as_bytes());
        Ok(())
    }
}

/// The hash of a file.
fn content(file: &Path) -> io::Result<blake3::Hash> {
    let mut hash = blake3::Hasher::new();
    let mut file = BufReader::with_capacity(1 << 16, File::open(file)?);
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(hash.finalize());
        }
        hash.update(bytes);
        let count = bytes.len();
        file.consume(count);
    }
}

/// Adds a text and its end, so that "ab", "c" differs from "a", "bc".
fn add(hash: &mut blake3::Hasher, text: &str) {
    hash.update(&(text.len() as u64).to_le_bytes());
    hash.update(text.as_bytes());
}

/// The texts of a word that may name a file: the word, and what follows an equals sign or stands in quotes.
fn names_in(word: &str) -> impl Iterator<Item = &str> {
    let after = word.match_indices('=').map(|(at, _)| word[at + 1..].trim_matches('"'));
    std::iter::once(word).chain(after).filter(|name| !name.is_empty())
}

/// The file of a program by its name.
fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The version and a checksum of the executable, so that a command that was built anew runs its cells anew.
fn build() -> String {
    let executable = std::env::current_exe().and_then(std::fs::read).unwrap_or_default();
    format!("selvedge {} {:08x} {}", env!("CARGO_PKG_VERSION"), crc32c::crc32c(&executable), executable.len())
}
