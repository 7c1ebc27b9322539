// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions of users who have logged in.
//!
//! # Invariants
//!
//! 1. There are at most [`SESSIONS_MAX`]; a new one beyond them ends the one that was used longest ago.
//! 2. A session ends after [`IDLE_MS`] without a request, and after [`LIFE_MS`] in any case. It also ends when its user
//!    is removed from the users file, or gets another role or password.
//! 3. The table holds hashes of secrets, so a look at memory or a comparison's time gives none.
use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SecureRandom;

use crate::users::{Role, User, Users};

const SESSIONS_MAX: usize = 256;
const IDLE_MS: u64 = 30 * 60 * 1000;
const LIFE_MS: u64 = 12 * 3600 * 1000;

/// A session, without its secret.
#[derive(Clone, Debug)]
pub struct Session {
    pub name: String,
    pub role: Role,
    /// Needed for each act, and unknown to other sites.
    pub token: String,
    user: User,
    began_ms: u64,
    used_ms: u64,
}

/// All sessions, by the hash of their secret.
#[derive(Debug, Default)]
pub struct Sessions {
    open: BTreeMap<[u8; 32], Session>,
}

/// A secret of 256 bits. `None`: the kernel gives no random numbers.
pub fn secret() -> Option<String> {
    let mut bytes = [0; 32];
    ring::rand::SystemRandom::new().fill(&mut bytes).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// A hash by which secrets are compared.
pub fn key(secret: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    key
}

impl Sessions {
    /// Opens a session, and gives its secret.
    pub fn open(&mut self, now_ms: u64, name: &str, user: &User) -> Option<(String, Session)> {
        let (secret, token) = (secret()?, secret()?);
        self.open.retain(|_, session| session.is_alive(now_ms));
        while self.open.len() >= SESSIONS_MAX {
            let oldest = self.open.iter().min_by_key(|(_, session)| session.used_ms).map(|(key, _)| *key)?;
            self.open.remove(&oldest);
        }
        let (name, role, user) = (name.to_owned(), user.role, user.clone());
        let session = Session { name, role, token, user, began_ms: now_ms, used_ms: now_ms };
        self.open.insert(key(&secret), session.clone());
        Some((secret, session))
    }

    /// The session of a secret, which counts as used.
    pub fn find(&mut self, now_ms: u64, secret: &str) -> Option<Session> {
        let key = key(secret);
        let session = self.open.get_mut(&key)?;
        if !session.is_alive(now_ms) {
            self.open.remove(&key);
            return None;
        }
        session.used_ms = now_ms;
        Some(session.clone())
    }

    pub fn close(&mut self, secret: &str) {
        self.open.remove(&key(secret));
    }

    /// Ends the sessions of users that the file no longer has as they were.
    pub fn keep(&mut self, users: &Users) {
        self.open.retain(|_, session| users.get(&session.name) == Some(&session.user));
    }
}

impl Session {
    fn is_alive(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.used_ms) < IDLE_MS && now_ms.saturating_sub(self.began_ms) < LIFE_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        User { role: Role::Viewer, hash: String::new() }
    }

    #[test]
    fn sessions_end() {
        let mut sessions = Sessions::default();
        let (secret, session) = sessions.open(0, "ann", &user()).unwrap();
        assert_ne!(secret, session.token);
        assert!(sessions.find(0, "other").is_none());
        let mut now_ms = 0;
        while now_ms + IDLE_MS / 2 < LIFE_MS {
            now_ms += IDLE_MS / 2;
            assert_eq!(sessions.find(now_ms, &secret).map(|session| session.name), Some("ann".into()));
        }
        assert!(sessions.find(LIFE_MS, &secret).is_none());
        let (secret, _) = sessions.open(0, "ann", &user()).unwrap();
        assert!(sessions.find(IDLE_MS, &secret).is_none());
        let (secret, _) = sessions.open(0, "ann", &user()).unwrap();
        sessions.close(&secret);
        assert!(sessions.find(0, &secret).is_none());
    }

    #[test]
    fn the_one_used_longest_ago_makes_room() {
        let mut sessions = Sessions::default();
        let all: Vec<_> = (0..SESSIONS_MAX).map(|at| sessions.open(at as u64, "ann", &user()).unwrap().0).collect();
        assert!(sessions.find(500, &all[0]).is_some());
        sessions.open(501, "bob", &user()).unwrap();
        assert_eq!(sessions.open.len(), SESSIONS_MAX);
        assert!(sessions.find(502, &all[0]).is_some() && sessions.find(502, &all[1]).is_none());
    }

    #[test]
    fn a_changed_user_logs_in_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        crate::users::set_user(&path, "ann", Role::Viewer, "password").unwrap();
        let users = Users::read(&path).unwrap();
        let mut sessions = Sessions::default();
        let (secret, _) = sessions.open(0, "ann", users.get("ann").unwrap()).unwrap();
        sessions.keep(&users);
        assert!(sessions.find(0, &secret).is_some());
        crate::users::set_user(&path, "ann", Role::Viewer, "password2").unwrap();
        sessions.keep(&Users::read(&path).unwrap());
        assert!(sessions.find(0, &secret).is_none());
    }
}
