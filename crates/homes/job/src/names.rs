// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text that passes through launchers: names of jobs, and bytes put into a launcher's key-value space.
//!
//! Invariants
//! 1. A job name is one file name: 1 to 64 of `A-Z a-z 0-9 . _ -`, not starting with a dot. Two different
//!    names given by launchers give two different job names: a hash of the original is appended if a byte was cut or replaced.
//! 2. Encoded bytes hold no space, `=`, `;` or newline, which have a meaning in PMI-1's line format (base64 with
//!    the URL alphabet, RFC 4648 section 5, without padding).

pub(crate) const JOB_NAME_BYTES_MAX: usize = 64;

/// Whether `name` can be the name of a job's directory without a change.
pub(crate) fn is_job_name(name: &str) -> bool {
    (1..=JOB_NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Makes a job name from a launcher's own name of a job (PMI key-value space, PMIx namespace).
///
/// A valid name is kept. Otherwise invalid bytes become `_`, the rest is cut to length, and a hash of the original is
/// appended.
pub fn job_name_from(foreign: &str) -> String {
    if is_job_name(foreign) {
        return foreign.to_owned();
    }
    let mut name: String = foreign
        .bytes()
        .take(JOB_NAME_BYTES_MAX - 17)
        .map(|byte| if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) { byte as char } else { '_' })
        .collect();
    if name.is_empty() || name.starts_with('.') {
        name.insert(0, 'j');
        name.truncate(JOB_NAME_BYTES_MAX - 17);
    }
    format!("{name}-{:016x}", fnv1a(foreign.as_bytes()))
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes bytes as text of `(4 * bytes + 2) / 3` characters.
pub fn base64url_encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(base64url_chars(bytes.len()));
    for group in bytes.chunks(3) {
        let word = group.iter().enumerate().fold(0u32, |word, (at, &byte)| word | u32::from(byte) << (16 - 8 * at));
        for at in 0..=group.len() {
            text.push(ALPHABET[(word >> (18 - 6 * at)) as usize & 63] as char);
        }
    }
    text
}

/// Returns the length of [`base64url_encode`]'s text for a number of bytes.
pub(crate) fn base64url_chars(bytes: usize) -> usize {
    bytes / 3 * 4 + [0, 2, 3][bytes % 3]
}

/// Decodes the text of [`base64url_encode`]; `None` for other text.
pub fn base64url_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        if group.len() == 1 {
            return None;
        }
        let mut word = 0u32;
        for (at, &character) in group.iter().enumerate() {
            word |= value_of(character)? << (18 - 6 * at);
        }
        let kept = group.len() - 1;
        if kept < 3 && word & (0x00ff_ffff >> (8 * kept)) != 0 {
            return None;
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..1 + kept]);
    }
    Some(bytes)
}

fn value_of(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_kept() {
        for name in ["solo", "kvs_5779_0", "run-12-ab.c"] {
            assert_eq!(job_name_from(name), name);
        }
    }

    #[test]
    fn invalid_names_become_valid_and_stay_different() {
        let long = "x".repeat(300);
        let invalid =
            ["", ".", "..", ".hidden", "prterun-host-5779@1", "prterun-host-5779#1", "a/b", "../../etc", "é", &long];
        let names: Vec<String> = invalid.iter().map(|foreign| job_name_from(foreign)).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(is_job_name(name), "{name:?}");
            assert!(!names[..at].contains(name), "{name:?} twice");
        }
        assert!(names[4].starts_with("prterun-host-5779_1-"));
    }

    #[test]
    fn base64_agrees_with_rfc_4648() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64url_encode(plain.as_bytes()), text);
            assert_eq!(base64url_chars(plain.len()), text.len());
            assert_eq!(base64url_decode(text).as_deref(), Some(plain.as_bytes()));
        }
        assert_eq!(base64url_encode(&[0xff, 0xfe, 0xfd]), "__79");
    }

    #[test]
    fn base64_round_trips_every_byte_at_every_place() {
        for byte in 0..=255u8 {
            for (before, after) in [(0, 0), (1, 0), (2, 0), (0, 2), (3, 1)] {
                let bytes: Vec<u8> = [vec![7; before], vec![byte], vec![9; after]].concat();
                assert_eq!(base64url_decode(&base64url_encode(&bytes)), Some(bytes));
            }
        }
    }

    #[test]
    fn base64_refuses_text_that_it_does_not_make() {
        for bad in ["Z", "Zm9vY", "Zg==", "Z+", "Zh", "Zm9=", "a b", "Zm9"] {
            assert_eq!(base64url_decode(bad), None, "{bad:?}");
        }
    }
}
