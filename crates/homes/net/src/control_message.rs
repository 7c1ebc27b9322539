// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the two sides of an open link say on its control connection, after the greeting: messages, without I/O.
//!
//! | kind | direction | meaning |
//! |---|---|---|
//! | [`Word::Taken`] | receiver to sender | all frames before this number were taken |
//! | [`Word::Again`] | receiver to sender | the same, and the frame of this number is missing |
//! | [`Word::Last`] | sender to receiver | there are no frames from this number on; say when all were taken |
//!
//! A message is its length (4 bytes), its kind (1), the number (8) and a tag (16). The tag is BLAKE3, keyed with what the greeting has
//! agreed on, over how many messages the side has said before, kind and number. So nobody else can say one, or say one again.

use crate::greeting::{GreetingError, Key, LENGTH_BYTES};

/// Kinds of messages. Those below are of the greeting.
const TAKEN: u8 = 5;
const AGAIN: u8 = 6;
const LAST: u8 = 7;
const TAG_BYTES: usize = 16;
/// Bytes of a message without its length.
const BODY_BYTES: usize = 1 + 8 + TAG_BYTES;

/// A message of an open link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Taken(u64),
    Again(u64),
    Last(u64),
}

/// The key of one direction of a connection, and how many messages went that way.
pub(crate) struct Voice {
    key: [u8; 32],
    count: u64,
}

impl Voice {
    pub fn of_sender(key: &Key) -> Voice {
        Voice { key: key.derived(b"sender  "), count: 0 }
    }

    pub fn of_receiver(key: &Key) -> Voice {
        Voice { key: key.derived(b"receiver"), count: 0 }
    }

    /// The message that says this next.
    pub fn say(&mut self, word: Word) -> Vec<u8> {
        let (kind, number) = match word {
            Word::Taken(number) => (TAKEN, number),
            Word::Again(number) => (AGAIN, number),
            Word::Last(number) => (LAST, number),
        };
        let mut bytes = (BODY_BYTES as u32).to_le_bytes().to_vec();
        bytes.push(kind);
        bytes.extend(number.to_le_bytes());
        let tag = self.tag(&bytes[LENGTH_BYTES..]);
        bytes.extend(tag);
        bytes
    }

    /// Reads the next message of the other side, without its length.
    pub fn hear(&mut self, message: &[u8]) -> Result<Word, GreetingError> {
        let (body, tag) = message.split_last_chunk::<TAG_BYTES>().ok_or(GreetingError::Malformed)?;
        let (&kind, number) = body.split_first().ok_or(GreetingError::Malformed)?;
        let number = u64::from_le_bytes(*number.first_chunk().ok_or(GreetingError::Malformed)?);
        if message.len() != BODY_BYTES || !are_equal(&self.tag(body), tag) {
            return Err(GreetingError::Malformed);
        }
        match kind {
            TAKEN => Ok(Word::Taken(number)),
            AGAIN => Ok(Word::Again(number)),
            LAST => Ok(Word::Last(number)),
            _ => Err(GreetingError::Malformed),
        }
    }

    fn tag(&mut self, body: &[u8]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.count.to_le_bytes());
        hasher.update(body);
        self.count += 1;
        shortened(&hasher.finalize())
    }
}

/// The first 16 bytes of a hash.
pub(crate) fn shortened(hash: &blake3::Hash) -> [u8; TAG_BYTES] {
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&hash.as_bytes()[..TAG_BYTES]);
    tag
}

/// Compares tags in a time that says nothing about where they differ.
pub(crate) fn are_equal(one: &[u8; TAG_BYTES], other: &[u8; TAG_BYTES]) -> bool {
    u128::from_ne_bytes(*one) ^ u128::from_ne_bytes(*other) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voices() -> (Voice, Voice) {
        let key = || Key::new(1, b"secret", [1; 32], [2; 32]);
        (Voice::of_receiver(&key()), Voice::of_receiver(&key()))
    }

    #[test]
    fn words_are_heard_as_they_were_said() {
        let (mut says, mut hears) = voices();
        for word in [Word::Taken(5), Word::Again(u64::MAX), Word::Last(0), Word::Taken(5)] {
            assert_eq!(hears.hear(&says.say(word)[LENGTH_BYTES..]), Ok(word));
        }
    }

    #[test]
    fn forged_repeated_and_damaged_words_are_refused() {
        let (mut says, mut hears) = voices();
        let first = says.say(Word::Taken(1));
        assert!(hears.hear(&first[LENGTH_BYTES..]).is_ok());
        assert_eq!(hears.hear(&first[LENGTH_BYTES..]), Err(GreetingError::Malformed), "a replay");
        let own = Voice::of_sender(&Key::new(1, b"secret", [1; 32], [2; 32])).say(Word::Taken(1));
        let (_, mut hears) = voices();
        assert!(hears.hear(&own[LENGTH_BYTES..]).is_err(), "its own word comes back");
        for at in LENGTH_BYTES..first.len() {
            let mut damaged = first.clone();
            damaged[at] ^= 4;
            let (_, mut hears) = voices();
            assert!(hears.hear(&damaged[LENGTH_BYTES..]).is_err(), "byte {at}");
        }
        assert!(hears.hear(&[]).is_err() && hears.hear(&[TAKEN; 7]).is_err());
    }
}
