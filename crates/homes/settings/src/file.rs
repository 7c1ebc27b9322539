// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration file: settings below those of the environment.
//!
//! `SELVEDGE_CONFIG` names the only file; without it there are two, the user's before the machine's:
//! `$XDG_CONFIG_HOME/selvedge.toml` (else `~/.config/selvedge.toml`), and `/etc/selvedge.toml`. Both are TOML without
//! tables. A key is a variable's name in small letters without `SELVEDGE_`.
//!
//! Invariants
//! 1. A line that is not understood is an error with its file and line, and changes nothing. The other lines count.
//! 2. A simulated rank reads no file, so that a simulation gives the same results for every user.
//! 3. A program that runs with more rights than its user reads only the machine's file.
//!
//! Cost: at most two opened files a process, of at most [`BYTES_MAX`] bytes each, on first use.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use toml::de::{DeTable, DeValue};

use crate::accepted::{ANYTHING, SWITCH, accepts};
use crate::names::nearest;
use crate::report::shortened;
use crate::variables::{VARIABLES, Variable};

/// The longest file that is read.
pub const BYTES_MAX: u64 = 64 << 10;
/// The largest number of errors of one file that are kept.
const ERRORS_MAX: usize = 20;
const MACHINES: &str = "/etc/selvedge.toml";

/// The variables that describe one process or one host, which a file cannot know, or that select the file.
const NOT_IN_FILES: &[&str] = &[
    "SELVEDGE_CONFIG",
    "SELVEDGE_JOB",
    "SELVEDGE_RANK",
    "SELVEDGE_SIZE",
    "SELVEDGE_HOST",
    "SELVEDGE_HOSTS",
    "SELVEDGE_SECRET",
    "SELVEDGE_NET_ADDRESS",
    "SELVEDGE_SIM_TSC",
];

/// A setting of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub variable: &'static str,
    pub value: String,
    pub file: PathBuf,
    pub line: usize,
}

/// The settings of all files, the first of a variable first, and the errors in them.
#[derive(Debug, Default)]
pub struct Files {
    pub entries: Vec<Entry>,
    pub errors: Vec<String>,
    /// Files that `SELVEDGE_CONFIG` does not name, and that cannot be read.
    pub warnings: Vec<String>,
    /// Variables that a file leaves unset, whatever later files say.
    unset: Vec<&'static str>,
}

impl Files {
    /// The setting of a variable.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.variable == name)
    }
}

static IGNORED: AtomicBool = AtomicBool::new(false);

/// Makes this process read no file from now on. For commands that simulate.
pub fn ignore_files() {
    IGNORED.store(true, Relaxed);
}

/// The settings of the files of this process. The first call reads them.
pub fn files() -> &'static Files {
    static FOUND: OnceLock<Files> = OnceLock::new();
    static NONE: Files = Files { entries: Vec::new(), errors: Vec::new(), warnings: Vec::new(), unset: Vec::new() };
    if IGNORED.load(Relaxed) || std::env::var_os("SELVEDGE_SIM").is_some() {
        return &NONE;
    }
    FOUND.get_or_init(|| read_all(trusted_variable))
}

/// A variable that has a value; `None` in a program that runs with more rights than its user.
fn trusted_variable(name: &str) -> Option<OsString> {
    // SAFETY: `getauxval` takes an integer and has no preconditions.
    let has_rights = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    std::env::var_os(name).filter(|value| !has_rights && !value.is_empty())
}

fn read_all(variable: impl Fn(&str) -> Option<OsString>) -> Files {
    let mut found = Files::default();
    if let Some(named) = variable("SELVEDGE_CONFIG") {
        let path = PathBuf::from(named);
        match read(&path) {
            Ok(text) => parse(&path, &text, &mut found),
            Err(why) => {
                let path = path.display();
                found.errors.push(format!("SELVEDGE_CONFIG={path}: {why}; name a file, or unset the variable"));
            }
        }
        return found;
    }
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = folder.or_else(|| Some(Path::new(&variable("HOME")?).join(".config")));
    let users = folder.map(|folder| folder.join("selvedge.toml"));
    for path in users.into_iter().chain([PathBuf::from(MACHINES)]) {
        match read(&path) {
            Ok(text) => parse(&path, &text, &mut found),
            Err(ReadError::Absent) => {}
            Err(why @ ReadError::Long) => found.errors.push(format!("{}: {why}", path.display())),
            Err(why) => found.warnings.push(format!("{}: {why}; its settings do not count", path.display())),
        }
    }
    found
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("no such file")]
    Absent,
    #[error("longer than {} KiB, the limit of a configuration file", BYTES_MAX >> 10)]
    Long,
    #[error("{0}")]
    Io(std::io::Error),
}

fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    let wrong = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ReadError::Absent,
        _ => ReadError::Io(error),
    };
    // Without blocking, because the name may be that of a pipe.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let mut bytes = Vec::new();
    opened.and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(wrong)?;
    if bytes.len() as u64 > BYTES_MAX { Err(ReadError::Long) } else { Ok(bytes) }
}

/// Adds the settings of a file, below those of files before it.
fn parse(path: &Path, bytes: &[u8], found: &mut Files) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
            found.errors.push(format!("{}:{line}: not valid UTF-8; write the file as UTF-8", path.display()));
            return;
        }
    };
    let ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
    let at = |offset: usize| 1 + ends.partition_point(|end| *end < offset);
    let (table, wrong) = DeTable::parse_recoverable(text);
    let mut errors: Vec<(usize, String)> = wrong
        .iter()
        .map(|error| (at(error.span().map_or(0, |span| span.start)), format!("{}; write key = value", error.message())))
        .collect();
    let not_parsed: BTreeSet<usize> = errors.iter().map(|(line, _)| *line).collect();
    for (key, value) in table.get_ref() {
        let line = at(key.span().start);
        // The parser's errors cover the line already.
        if not_parsed.contains(&line) {
            continue;
        }
        match setting(key.get_ref(), value.get_ref()) {
            // An earlier file counts.
            Ok((variable, _)) if found.entry(variable).is_some() || found.unset.contains(&variable) => {}
            Ok((variable, Some(value))) => {
                found.entries.push(Entry { variable, value, file: path.to_owned(), line });
            }
            Ok((variable, None)) => found.unset.push(variable),
            Err(why) => errors.push((line, why)),
        }
    }
    errors.sort();
    errors.dedup_by_key(|(line, _)| *line);
    errors.truncate(ERRORS_MAX);
    found.errors.extend(errors.iter().map(|(line, why)| format!("{}:{line}: {why}", path.display())));
}

/// A variable's key in a file: its name in small letters without `SELVEDGE_`.
pub fn key_of(variable: &Variable) -> String {
    variable.name.strip_prefix("SELVEDGE_").unwrap_or(variable.name).to_ascii_lowercase()
}

/// Whether a file may set the variable.
pub fn is_for_files(variable: &Variable) -> bool {
    !NOT_IN_FILES.contains(&variable.name)
}

/// The variable and value of a key; no value: the variable is to be unset.
fn setting(key: &str, value: &DeValue<'_>) -> Result<(&'static str, Option<String>), String> {
    if value.is_table() {
        return Err(format!("'{}' is a table; write all settings as key = value, before any [table]", shortened(key)));
    }
    let Some(variable) = VARIABLES.iter().find(|variable| key_of(variable) == key) else {
        let keys = VARIABLES.iter().filter(|variable| is_for_files(variable)).map(key_of);
        let hint = nearest(key, keys).map_or(String::new(), |near| format!("; did you mean {near}?"));
        return Err(format!("there is no setting '{}'{hint}", shortened(key)));
    };
    if !is_for_files(variable) {
        return Err(format!("'{key}' differs between processes; set {} in the environment", variable.name));
    }
    let text = match (value, variable.values) {
        (DeValue::String(text), _) => text.to_string(),
        (DeValue::Integer(number), _) if number.radix() == 10 => number.as_str().replace('_', ""),
        (DeValue::Float(number), _) => number.as_str().replace('_', ""),
        (DeValue::Boolean(on), SWITCH) => u8::from(*on).to_string(),
        // The value of such a variable does not count, only that there is one.
        (DeValue::Boolean(false), ANYTHING) => return Ok((variable.name, None)),
        (DeValue::Boolean(true), ANYTHING) => "1".to_owned(),
        _ => return Err(format!("'{key}' takes {}, not {}", variable.values, value.type_str())),
    };
    if !accepts(variable, &text) || text.contains('\0') {
        let shown = match variable.is_secret() {
            true => "its value (not shown)".to_owned(),
            false => format!("\"{}\"", shortened(&text)),
        };
        return Err(format!("'{key}' takes {}, not {shown}", variable.values));
    }
    Ok((variable.name, Some(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn parsed(text: &[u8]) -> Files {
        let mut found = Files::default();
        parse(Path::new("/f"), text, &mut found);
        found
    }

    fn error_of(text: &str) -> String {
        let found = parsed(text.as_bytes());
        assert_eq!((found.errors.len(), found.entries.len()), (1, 0), "{text}: {found:?}");
        found.errors[0].clone()
    }

    #[test]
    fn every_form_of_a_value_is_read() {
        let text = "# comment\nmode = \"host\"\nheap_bytes = '64M' # more\nspin_us = 1_000\nnet_timeout = 1.5\n\
                    shared_malloc = false\nshmem_debug = true\nshmem_info = false\nshmem_symmetric_size = \"1.5G\"\n";
        let found = parsed(text.as_bytes());
        assert_eq!(found.errors, [""; 0]);
        let value = |name: &str| found.entry(name).map(|entry| (entry.value.as_str(), entry.line));
        assert_eq!(value("SELVEDGE_MODE"), Some(("host", 2)));
        assert_eq!(value("SELVEDGE_HEAP_BYTES"), Some(("64M", 3)));
        assert_eq!(value("SELVEDGE_SPIN_US"), Some(("1000", 4)));
        assert_eq!(value("SELVEDGE_NET_TIMEOUT"), Some(("1.5", 5)));
        assert_eq!(value("SELVEDGE_SHARED_MALLOC"), Some(("0", 6)));
        assert_eq!(value("SHMEM_DEBUG"), Some(("1", 7)));
        assert_eq!(value("SHMEM_INFO"), None);
        assert_eq!(value("SHMEM_SYMMETRIC_SIZE"), Some(("1.5G", 9)));
    }

    #[test]
    fn errors_have_file_and_line_and_a_remedy() {
        assert_eq!(error_of("\nmoed = 'nic'\n"), "/f:2: there is no setting 'moed'; did you mean mode?");
        assert_eq!(error_of("mode = 'fast'"), "/f:1: 'mode' takes nic | host, not \"fast\"");
        assert_eq!(error_of("heap_bytes = true"), "/f:1: 'heap_bytes' takes bytes, with K, M, G or T, not boolean");
        assert_eq!(
            error_of("[net]\ncheck = 'crc'"),
            "/f:1: 'net' is a table; write all settings as key = value, before any [table]"
        );
        assert!(error_of("\n\nrank = 3").contains("/f:3: 'rank' differs between processes; set SELVEDGE_RANK"));
        assert!(error_of("mode ni").starts_with("/f:1: "));
        assert!(error_of("manager_secret = 'hush'").ends_with("not its value (not shown)"));
        assert!(error_of("SELVEDGE_MODE = 'nic'").contains("did you mean mode?"));
        let twice = parsed(b"mode = 'nic'\nmode = 'host'\n");
        assert!(twice.errors.len() == 1 && twice.errors[0].starts_with("/f:2: "), "{twice:?}");
        let bytes = parsed(b"mode = 'nic'\n# \xff\n");
        assert_eq!(bytes.errors, ["/f:2: not valid UTF-8; write the file as UTF-8"]);
    }

    #[test]
    fn other_lines_count_beside_a_wrong_one() {
        let found = parsed(b"path = 'cma'\nmode = \nnothing = 1\nspin_us = 5\n");
        assert_eq!(found.errors.len(), 2, "{found:?}");
        assert!(found.errors[0].starts_with("/f:2: ") && found.errors[1].starts_with("/f:3: "), "{found:?}");
        assert_eq!(found.entries.len(), 2, "{found:?}");
    }

    #[test]
    fn hostile_texts_are_bounded() {
        let deep = format!("mode = {}", "[".repeat(30_000));
        let many: String = (0..5000).map(|n| format!("k{n} = 1\n")).collect();
        let long = "x".repeat(60_000);
        let (key, table) = (format!("{long} = 1"), format!("[{long}]\na = 1"));
        let (value, quoted) = (format!("mode = '{long}'"), format!("\"\\u001b[2J{long}\" = 1"));
        let texts = [deep.as_str(), &many, &key, &table, &value, &quoted, &long];
        let short =
            ["\"\\u0000\" = 1", "mode.a.b.c = 1", "=", "\0", "mode = \"\\u001b[2J\"", "mode = \u{1b}", "\u{1b} = 1"];
        for text in texts.into_iter().chain(short) {
            let found = parsed(text.as_bytes());
            assert!((1..=ERRORS_MAX).contains(&found.errors.len()) && found.entries.is_empty(), "{found:?}");
            for error in &found.errors {
                assert!(error.len() < 250 && !error.contains(char::is_control), "{error:?}");
            }
        }
    }

    #[test]
    fn false_in_the_first_file_undoes_true_in_the_second() {
        let both = |first: &[u8], second: &[u8]| {
            let mut found = parsed(first);
            parse(Path::new("/second"), second, &mut found);
            assert_eq!(found.errors, [""; 0]);
            found.entry("SHMEM_INFO").map(|entry| entry.file.clone())
        };
        assert_eq!(both(b"shmem_info = false", b"shmem_info = true"), None);
        assert_eq!(both(b"shmem_info = true", b"shmem_info = false"), Some("/f".into()));
        assert_eq!(both(b"", b"shmem_info = true"), Some("/second".into()));
    }

    #[test]
    fn the_first_file_wins_and_a_named_one_is_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let users = file("config/selvedge.toml", "mode = 'host'");
        file("home/.config/selvedge.toml", "mode = 'nic'");
        let named = file("named", "path = 'cma'");
        let with = |set: &[(&str, &Path)]| {
            read_all(|name| set.iter().find(|(one, _)| *one == name).map(|(_, value)| value.as_os_str().to_owned()))
        };
        let (config, home) = (folder.path().join("config"), folder.path().join("home"));
        let value = |found: &Files, name| found.entry(name).map(|entry| entry.value.clone());
        let xdg = with(&[("XDG_CONFIG_HOME", &config), ("HOME", &home)]);
        assert_eq!(xdg.entry("SELVEDGE_MODE").map(|entry| (&*entry.value, &entry.file)), Some(("host", &users)));
        assert_eq!(value(&with(&[("HOME", &home)]), "SELVEDGE_MODE"), Some("nic".into()));
        let alone = with(&[("SELVEDGE_CONFIG", &named), ("XDG_CONFIG_HOME", &config)]);
        assert_eq!((alone.entries.len(), value(&alone, "SELVEDGE_PATH")), (1, Some("cma".into())));
        let absent = with(&[("SELVEDGE_CONFIG", Path::new("/nowhere/file"))]);
        assert_eq!(absent.errors, ["SELVEDGE_CONFIG=/nowhere/file: no such file; name a file, or unset the variable"]);
        let folders = with(&[("SELVEDGE_CONFIG", &config)]);
        assert_eq!(folders.errors.len(), 1, "{folders:?}");
        let none = with(&[("SELVEDGE_CONFIG", Path::new("/dev/null")), ("XDG_CONFIG_HOME", &config)]);
        assert!(none.entries.is_empty() && none.errors.is_empty());
        let endless = with(&[("SELVEDGE_CONFIG", Path::new("/dev/zero"))]);
        assert!(endless.errors[0].contains("longer than 64 KiB"), "{endless:?}");
        std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o000)).unwrap();
        let closed = with(&[("XDG_CONFIG_HOME", &config)]);
        // Root reads all files.
        assert!(closed.errors.is_empty() && closed.entries.len() + closed.warnings.len() >= 1, "{closed:?}");
    }

    #[test]
    fn keys_differ_and_names_are_known() {
        for (at, variable) in VARIABLES.iter().enumerate() {
            assert!(VARIABLES[..at].iter().all(|other| key_of(other) != key_of(variable)), "{}", variable.name);
        }
        for name in NOT_IN_FILES {
            assert!(VARIABLES.iter().any(|variable| variable.name == *name), "{name}");
        }
    }
}
