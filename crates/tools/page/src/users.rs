// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The users file: who may look, and who may act.
//!
//! A line is `NAME:ROLE:HASH`, the hash being Argon2id's of the password; `#` begins a comment. Only its owner may read
//! the file, because hashes of weak passwords can be guessed.
//!
//! Cost of a comparison: 9 MiB and some 20 ms of a core, as Argon2id wants it; the caller bounds how many run.
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use ring::rand::SecureRandom;
use serde::Serialize;

const FILE_BYTES_MAX: u64 = 256 << 10;
const NAME_CHARS_MAX: usize = 64;
const PASSWORD_CHARS_MIN: usize = 8;
/// Longer ones would let a stranger make the hash costly.
pub const PASSWORD_BYTES_MAX: usize = 512;
const MEMORY_KIB: u32 = 9 << 10;
const PASSES: u32 = 4;
/// Limits of hashes that the file may hold.
const MEMORY_KIB_MAX: u32 = 64 << 10;
const PASSES_MAX: u32 = 16;

/// Rights of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Looks.
    Viewer,
    /// Looks, changes links, restarts daemons.
    Operator,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
        }
    }

    fn named(text: &str) -> Option<Role> {
        [Role::Viewer, Role::Operator].into_iter().find(|role| role.name() == text)
    }
}

/// Reasons for which a users file is not used or not changed.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    #[error("{}: {error}; make it with `selvedge daemon passwd FILE NAME operator`", .path.display())]
    Missing { path: PathBuf, error: io::Error },
    #[error("{}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{}: other users may read or change it; chmod 600 it", .0.display())]
    Open(PathBuf),
    #[error("{}: line {line} is not NAME:viewer|operator:HASH; make lines with `selvedge daemon passwd`", .path.display())]
    Line { path: PathBuf, line: usize },
    #[error("{}: more than {FILE_BYTES_MAX} bytes", .0.display())]
    Long(PathBuf),
    #[error("'{0}': a name has 1 to {NAME_CHARS_MAX} letters, digits, dots, dashes, underscores or @")]
    Name(String),
    #[error("a password has at least {PASSWORD_CHARS_MIN} characters, and at most {PASSWORD_BYTES_MAX} bytes")]
    Password,
    #[error("the password cannot be hashed: {0}")]
    Hash(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub role: Role,
    pub hash: String,
}

/// A users file, as it was read.
#[derive(Clone, Debug)]
pub struct Users {
    users: BTreeMap<String, User>,
    stamp: Stamp,
}

/// A file's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(Option<SystemTime>, u64, u64);

impl Stamp {
    /// The present version; `None` without a file.
    pub fn of(path: &Path) -> Option<Stamp> {
        let file = std::fs::metadata(path).ok()?;
        Some(Stamp(file.modified().ok(), file.len(), file.ino()))
    }
}

impl Users {
    pub fn read(path: &Path) -> Result<Users, UsersError> {
        let missing = |error| UsersError::Missing { path: path.to_owned(), error };
        let file = std::fs::metadata(path).map_err(missing)?;
        if file.mode() & 0o077 != 0 {
            return Err(UsersError::Open(path.to_owned()));
        }
        if file.len() > FILE_BYTES_MAX {
            return Err(UsersError::Long(path.to_owned()));
        }
        let stamp = Stamp(file.modified().ok(), file.len(), file.ino());
        let text = std::fs::read_to_string(path).map_err(missing)?;
        let mut users = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let user = parsed(line.trim()).ok_or(UsersError::Line { path: path.to_owned(), line: at + 1 })?;
            users.insert(user.0, user.1);
        }
        Ok(Users { users, stamp })
    }

    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub fn get(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }
}

fn parsed(line: &str) -> Option<(String, User)> {
    let mut parts = line.splitn(3, ':');
    let (name, role, hash) = (parts.next()?, Role::named(parts.next()?)?, parts.next()?);
    let read = PasswordHash::new(hash).ok()?;
    let params = Params::try_from(&read).ok()?;
    let is_bounded = params.m_cost() <= MEMORY_KIB_MAX && params.t_cost() <= PASSES_MAX && params.p_cost() <= 4;
    (is_name(name) && read.hash.is_some() && is_bounded)
        .then(|| (name.to_owned(), User { role, hash: hash.to_owned() }))
}

fn is_name(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_@".contains(&byte))
}

/// Whether the password is the one of the hash. Without a user it takes as long, and is false.
pub fn verify(user: Option<&User>, password: &[u8]) -> bool {
    // A hash of nothing that anybody knows, of the same cost.
    const NOBODY: &str = "$argon2id$v=19$m=9216,t=4,p=1$c2VsdmVkZ2UgcGFnZQ$v5a6i1qR7xX2mGZ2i2H0Q1o1J1uKX5b3m4oZ1m2m1pE";
    let text = user.map_or(NOBODY, |user| &user.hash);
    let Ok(hash) = PasswordHash::new(text) else { return false };
    let is_right = Argon2::default().verify_password(password, &hash).is_ok();
    is_right && user.is_some()
}

fn hash(password: &str) -> Result<String, UsersError> {
    let fail = |error: &dyn std::fmt::Display| UsersError::Hash(error.to_string());
    let mut salt = [0; 16];
    ring::rand::SystemRandom::new().fill(&mut salt).map_err(|error| fail(&error))?;
    let salt = SaltString::encode_b64(&salt).map_err(|error| fail(&error))?;
    let params = Params::new(MEMORY_KIB, PASSES, 1, None).map_err(|error| fail(&error))?;
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    Ok(argon.hash_password(password.as_bytes(), &salt).map_err(|error| fail(&error))?.to_string())
}

/// Adds a user to the file, or replaces it. The file is made if missing, and is never half written.
pub fn set_user(path: &Path, name: &str, role: Role, password: &str) -> Result<(), UsersError> {
    if !is_name(name) {
        return Err(UsersError::Name(name.to_owned()));
    }
    if password.chars().count() < PASSWORD_CHARS_MIN || password.len() > PASSWORD_BYTES_MAX {
        return Err(UsersError::Password);
    }
    let file = |error| UsersError::File { path: path.to_owned(), error };
    let mut text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(file(error)),
    };
    let own = format!("{name}:");
    let mut kept: String = text.lines().filter(|line| !line.starts_with(&own)).flat_map(|line| [line, "\n"]).collect();
    let _ = writeln!(kept, "{name}:{}:{}", role.name(), hash(password)?);
    std::mem::swap(&mut text, &mut kept);
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(UsersError::Long(path.to_owned()));
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(file)?;
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".new");
    let part = PathBuf::from(part);
    let _ = std::fs::remove_file(&part);
    let mut new = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part).map_err(file)?;
    new.write_all(text.as_bytes()).and_then(|()| new.sync_all()).map_err(file)?;
    std::fs::rename(&part, path).map_err(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn users_are_added_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/users");
        assert!(Users::read(&path).unwrap_err().to_string().contains("selvedge daemon passwd"));
        set_user(&path, "ann", Role::Viewer, "first password").unwrap();
        set_user(&path, "bob", Role::Viewer, "second password").unwrap();
        let before = Stamp::of(&path);
        set_user(&path, "ann", Role::Operator, "third password").unwrap();
        assert_ne!(Stamp::of(&path), before);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let users = Users::read(&path).unwrap();
        assert_eq!(Some(users.stamp()), Stamp::of(&path));
        let ann = users.get("ann");
        assert_eq!(ann.map(|user| user.role), Some(Role::Operator));
        assert!(verify(ann, b"third password"));
        assert!(!verify(ann, b"first password") && !verify(ann, b""));
        assert_eq!(users.get("bob").map(|user| user.role), Some(Role::Viewer));
        assert!(users.get("eve").is_none() && !verify(None, b""));
    }

    #[test]
    fn wrong_files_names_and_passwords_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        for name in ["", "a b", "a:b", "\u{e9}", &"x".repeat(65)] {
            assert!(matches!(set_user(&path, name, Role::Viewer, "long enough"), Err(UsersError::Name(_))), "{name}");
        }
        assert!(matches!(set_user(&path, "a", Role::Viewer, "short"), Err(UsersError::Password)));
        assert!(matches!(set_user(&path, "a", Role::Viewer, &"x".repeat(513)), Err(UsersError::Password)));
        set_user(&path, "a", Role::Viewer, "long enough").unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        let hash = good.trim().rsplit(':').next().unwrap().to_owned();
        let costly = hash.replace("m=9216", "m=999999");
        for wrong in ["a", "a:viewer", "a:viewer:x", &format!("a:admin:{hash}"), &format!("a:viewer:{costly}")] {
            std::fs::write(&path, wrong).unwrap();
            assert!(matches!(Users::read(&path), Err(UsersError::Line { line: 1, .. })), "{wrong}");
        }
        std::fs::write(&path, format!("# users\n\n{good}")).unwrap();
        assert!(Users::read(&path).unwrap().get("a").is_some());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Users::read(&path).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn nobody_costs_as_much_as_a_user() {
        let nobody = verify(None, b"x");
        assert!(!nobody);
        let text = hash("some password").unwrap();
        assert!(text.starts_with("$argon2id$v=19$m=9216,t=4,p=1$"), "{text}");
    }
}
