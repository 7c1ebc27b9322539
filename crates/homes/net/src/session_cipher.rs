// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encryption of a session's messages ([`crate::session`]), without I/O.

use crate::greeting::{GreetingError, Key};
use crate::tags::{TAG_BYTES, are_equal, tag_of};

/// One direction of a session. Messages are encrypted and have a tag that only holders of the key can make. Each has a
/// number, so none can be left out, changed or replayed.
pub(crate) struct SessionCipher {
    hiding: [u8; 32],
    tagging: [u8; 32],
    next: u64,
}

impl SessionCipher {
    /// Makes the cipher of the direction from the listening side to the connecting side (`from_answering`), or of the
    /// other one.
    pub fn new(key: &Key, from_answering: bool) -> SessionCipher {
        let [hiding, tagging] = match from_answering {
            true => [b"hide out", b"tag  out"],
            false => [b"hide in ", b"tag  in "],
        };
        SessionCipher { hiding: key.derived(hiding), tagging: key.derived(tagging), next: 0 }
    }

    fn hide(&self, bytes: &mut [u8]) {
        let mut stream = vec![0; bytes.len()];
        let mut hasher = blake3::Hasher::new_keyed(&self.hiding);
        hasher.update(&self.next.to_le_bytes()).finalize_xof().fill(&mut stream);
        bytes.iter_mut().zip(stream).for_each(|(byte, hidden)| *byte ^= hidden);
    }

    fn tag(&self, hidden: &[u8]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.tagging);
        hasher.update(&self.next.to_le_bytes()).update(hidden);
        tag_of(&hasher.finalize())
    }

    /// Encrypts the next message of this direction, without its length.
    pub fn seal(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        self.hide(&mut bytes);
        let tag = self.tag(&bytes);
        bytes.extend(tag);
        self.next += 1;
        bytes
    }

    /// Decrypts the next message of this direction.
    pub fn open(&mut self, mut sealed: Vec<u8>) -> Result<Vec<u8>, GreetingError> {
        let (hidden, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or(GreetingError::Malformed)?;
        if !are_equal(tag, &self.tag(hidden)) {
            return Err(GreetingError::Proof);
        }
        sealed.truncate(sealed.len() - TAG_BYTES);
        self.hide(&mut sealed);
        self.next += 1;
        Ok(sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_messages_are_read_once_in_their_order_and_unchanged() {
        let key = Key::new(7, b"s", [1; 32], [2; 32]);
        let [mut sent, mut read] = [(); 2].map(|()| SessionCipher::new(&key, true));
        let first = sent.seal(b"the first".to_vec());
        let second = sent.seal(Vec::new());
        assert!(!first.windows(5).any(|part| part == b"first"), "it is hidden");
        assert_eq!(read.open(second.clone()), Err(GreetingError::Proof), "out of its turn");
        assert_eq!(
            SessionCipher::new(&key, false).open(first.clone()),
            Err(GreetingError::Proof),
            "the other direction's"
        );
        for at in 0..8 * first.len() {
            let mut changed = first.clone();
            changed[at / 8] ^= 1 << (at % 8);
            assert_eq!(read.open(changed), Err(GreetingError::Proof));
        }
        assert_eq!(read.open(first.clone()).as_deref(), Ok(&b"the first"[..]));
        assert_eq!(read.open(first), Err(GreetingError::Proof), "again");
        assert_eq!(read.open(second).as_deref(), Ok(&b""[..]));
        assert_eq!(read.open(vec![0; TAG_BYTES - 1]), Err(GreetingError::Malformed));
    }
}
