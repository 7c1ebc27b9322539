// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine's file that extends another: `base = "extoll-ht400"` names the file beside it.
//!
//! Rules
//! 1. A key of the file replaces that of its base, including the source. Other keys of the same section stay.
//! 2. Name, description, published results and topology are the file's own. If it has no topology, it takes the base's.
//! 3. With a topology of its own, it does not take the base's speeds of classes of links, which go with the topology.
//! 4. A base may have a base; a cycle is an error.

use std::path::Path;

use toml::{Table, Value};

use super::error::MachineError;

pub(super) const KEY: &str = "base";
const DEPTH_MAX: usize = 8;
/// Keys that a base does not provide.
const OWN: [&str; 3] = ["name", "about", "published"];

/// Keys of `[link]` that go with the topology.
const CLASSES: [&str; 4] = ["local", "global", "levels", "dimensions"];

/// Merges the tables of a file with those of its base, if it has one.
pub(super) fn on_base(
    path: &Path,
    table: Table,
    read: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<Table, MachineError> {
    follow(path, table, read, DEPTH_MAX)
}

fn follow(
    path: &Path,
    mut table: Table,
    read: &dyn Fn(&Path) -> std::io::Result<String>,
    depth: usize,
) -> Result<Table, MachineError> {
    let Some(base) = table.remove(KEY) else { return Ok(table) };
    let wrong = |why: String| MachineError::Base { path: path.into(), why };
    let Some(name) = base.as_str() else { return Err(wrong("must be the name of a machine beside this file".into())) };
    if depth == 0 {
        return Err(wrong(format!("more than {DEPTH_MAX} files build on each other; is there a cycle?")));
    }
    let file = path.parent().unwrap_or(Path::new("")).join(name).with_extension("toml");
    let text = read(&file).map_err(|error| wrong(format!("cannot read {}: {error}", file.display())))?;
    let below: Table =
        toml::from_str(&text).map_err(|error| MachineError::Parse { path: file.clone(), error: Box::new(error) })?;
    let mut below = follow(&file, below, read, depth - 1)?;
    OWN.iter().for_each(|key| _ = below.remove(*key));
    if let (true, Some(link)) = (table.contains_key("topology"), below.get_mut("link").and_then(Value::as_table_mut)) {
        CLASSES.iter().for_each(|key| _ = link.remove(*key));
    }
    merge(&mut below, table);
    Ok(below)
}

/// Puts the keys of `above` over those of `below`.
fn merge(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(under)), Value::Table(over)) if is_section(&key, under) => merge(under, over),
            (_, value) => _ = below.insert(key, value),
        }
    }
}

/// Whether a table is a section, merged key by key. A figure is `{ value, source }`, and is replaced as a whole.
fn is_section(key: &str, table: &Table) -> bool {
    key != "topology" && !table.contains_key("value")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of<'a>(files: &'a [(&'a str, &'a str)]) -> impl Fn(&Path) -> std::io::Result<String> + 'a {
        |path| {
            let found = files.iter().find(|(name, _)| path == Path::new(name)).map(|(_, text)| (*text).to_owned());
            found.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
        }
    }

    fn on(files: &[(&str, &str)], text: &str) -> Result<Table, MachineError> {
        on_base(Path::new("folder/new.toml"), toml::from_str(text).unwrap(), &read_of(files))
    }

    #[test]
    fn a_file_replaces_keys_and_keeps_the_others() {
        let old = r#"
            name = "old"
            about = "it"
            [topology]
            kind = "torus"
            dimensions = [4]
            [link]
            latency_ns = { value = 1, source = "a" }
            loss = { value = 0, source = "b" }
            [unit.a]
            latency_ns = 3
            [published]
            x = 1
        "#;
        let new = r#"
            base = "old"
            name = "new"
            [topology]
            kind = "crossbar"
            nodes = 2
            [link]
            latency_ns = { value = 2 }
            [unit.b]
            latency_ns = 4
        "#;
        let expected = r#"
            name = "new"
            [topology]
            kind = "crossbar"
            nodes = 2
            [link]
            latency_ns = { value = 2 }
            loss = { value = 0, source = "b" }
            [unit.a]
            latency_ns = 3
            [unit.b]
            latency_ns = 4
        "#;
        let files = [("folder/old.toml", old)];
        assert_eq!(on(&files, new).unwrap(), toml::from_str::<Table>(expected).unwrap());
        let files =
            [("folder/old.toml", "base = 'older'\n[link]\na = 1"), ("folder/older.toml", "[link]\na = 2\nb = 3")];
        let made = on(&files, "base = 'old'").unwrap();
        assert_eq!(made, toml::from_str::<Table>("[link]\na = 1\nb = 3").unwrap());
    }

    #[test]
    fn errors_say_what_is_wrong_with_the_base() {
        let error = |files: &[(&str, &str)], text: &str| on(files, text).unwrap_err().to_string();
        assert!(error(&[], "base = 'none'").contains("folder/new.toml: base: cannot read folder/none.toml"));
        assert!(error(&[], "base = 3").contains("must be the name of a machine"));
        let circle = [("folder/a.toml", "base = 'b'"), ("folder/b.toml", "base = 'a'")];
        assert!(error(&circle, "base = 'a'").contains("cycle"));
        assert!(error(&[("folder/a.toml", "= 1")], "base = 'a'").contains("folder/a.toml"));
    }
}
