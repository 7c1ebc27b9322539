// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon's configuration file: TOML, with the settings that an owner would otherwise give as options.
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};

use crate::settings::is_usable;

/// The file that is read if none is named, and if it exists.
pub const DEFAULT: &str = "/etc/selvedge/daemon.toml";
const BYTES_MAX: u64 = 1 << 20;

/// Settings of a file. Options of the command win.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct File {
    /// Names of interfaces, which may end in `*`.
    pub interfaces: Vec<String>,
    #[serde(deserialize_with = "usable")]
    pub address: Option<Ipv4Addr>,
    /// Beside the file, unless the path is absolute.
    pub key: Option<PathBuf>,
    pub set_sysctls: bool,
    /// Address and port of the page, or `off`.
    pub web: Option<String>,
    /// The users of the page. Beside the file, unless the path is absolute.
    pub users: Option<PathBuf>,
}

/// Reasons for which a file is not taken.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("--config {}: {error}", .path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("--config {}: {bytes} bytes are no configuration of a daemon", .path.display())]
    Length { path: PathBuf, bytes: u64 },
    #[error("{}:{line}: {reason}; `selvedge daemon --help` shows an example", .path.display())]
    Content { path: PathBuf, line: usize, reason: String },
}

impl File {
    /// Reads a file; None: the default one, if it exists.
    pub fn read(named: Option<&Path>) -> Result<File, FileError> {
        let path = named.unwrap_or(Path::new(DEFAULT));
        let failed = |error| FileError::Read { path: path.to_owned(), error };
        let bytes = match std::fs::metadata(path) {
            Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => return Ok(File::default()),
            about => about.map_err(failed)?.len(),
        };
        if bytes > BYTES_MAX {
            return Err(FileError::Length { path: path.to_owned(), bytes });
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let mut file: File = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
            FileError::Content { path: path.to_owned(), line, reason: error.message().to_owned() }
        })?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        file.key = file.key.map(|key| folder.join(key));
        file.users = file.users.map(|users| folder.join(users));
        Ok(file)
    }
}

fn usable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ipv4Addr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let address = text.parse().ok().filter(|&address| is_usable(address));
    let wrong = || format!("address {text}: give a unicast IPv4 address that other hosts can use, such as 10.1.0.1");
    address.map(Some).ok_or_else(|| serde::de::Error::custom(wrong()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<File, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.toml");
        std::fs::write(&path, text).unwrap();
        let strip = |error: FileError| error.to_string().replace(&format!("{}/", folder.path().display()), "");
        let mut file = File::read(Some(&path)).map_err(strip)?;
        file.key = file.key.map(|key| key.strip_prefix(folder.path()).map(Path::to_owned).unwrap_or(key));
        Ok(file)
    }

    #[test]
    fn settings_are_read() {
        let text =
            "interfaces = ['cable*', 'eth1']\naddress = '10.1.0.1' # ours\nkey = 'fabric.key'\nset_sysctls = true\n";
        let expected = File {
            interfaces: vec!["cable*".into(), "eth1".into()],
            address: Some(Ipv4Addr::new(10, 1, 0, 1)),
            key: Some("fabric.key".into()),
            set_sysctls: true,
            ..File::default()
        };
        assert_eq!(read(text), Ok(expected));
        assert_eq!(read(""), Ok(File::default()));
        assert_eq!(read("key = '/etc/key'").unwrap().key, Some("/etc/key".into()));
    }

    #[test]
    fn wrong_keys_and_values_name_file_and_line() {
        for (text, line, reason) in [
            ("\nset_sysctl = true", 2, "unknown field `set_sysctl`, expected one of `interfaces`"),
            ("interfaces = 'cable*'", 1, "expected a sequence"),
            ("# one\n\naddress = '127.0.0.1'", 3, "give a unicast IPv4 address"),
            ("address = 'here'", 1, "give a unicast IPv4 address"),
            ("set_sysctls = 1", 1, "expected a boolean"),
            ("key = 'a'\nkey = 'b'", 2, "duplicate key"),
            ("key = ", 1, ""),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(&format!("daemon.toml:{line}: ")) && error.contains(reason), "{text}: {error}");
            assert!(error.contains("--help"), "{error}");
        }
    }

    #[test]
    fn a_named_file_has_to_exist() {
        assert!(matches!(File::read(Some(Path::new("/nonexistent.toml"))), Err(FileError::Read { .. })));
    }
}
