// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The header of the manager's files: kind, version, checksum, length.
//!
//! ```text
//! <kind> <version> <CRC-32C of the body, 8 hexadecimal digits> <bytes of the body>\n
//! <the body, as JSON>
//! ```

use selvedge_nic::packet::crc32c;
use serde::Serialize;

/// Reasons for which bytes are not a file of the expected kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("file of another kind")]
    NotOne,
    #[error("unknown version {is}")]
    Version { is: u32 },
    #[error("damaged file")]
    Damaged,
}

/// Makes a file of a kind.
pub fn close(what: &str, version: u32, body: &impl Serialize) -> Vec<u8> {
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut bytes = format!("{what} {version} {:08x} {}\n", crc32c(&body), body.len()).into_bytes();
    bytes.extend(body);
    bytes
}

/// Returns the body of a file of a kind, checked.
pub fn open<'a>(what: &str, version: u32, bytes: &'a [u8]) -> Result<&'a [u8], FrameError> {
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or(FrameError::NotOne)?;
    let (header, body) = (&bytes[..end], &bytes[end + 1..]);
    let header = std::str::from_utf8(header).map_err(|_| FrameError::NotOne)?;
    let mut words = header.split(' ');
    if words.next() != Some(what) {
        return Err(FrameError::NotOne);
    }
    let is = words.next().and_then(|word| word.parse().ok()).ok_or(FrameError::Damaged)?;
    if is != version {
        return Err(FrameError::Version { is });
    }
    let sum = words.next().filter(|word| word.len() == 8).and_then(|word| u32::from_str_radix(word, 16).ok());
    let length = words.next().and_then(|word| word.parse().ok());
    let is_whole = sum == Some(crc32c(body)) && length == Some(body.len()) && words.next().is_none();
    if is_whole { Ok(body) } else { Err(FrameError::Damaged) }
}
