// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages of an open link on its control connection, after the greeting, without I/O.
//!
//! | kind | direction | meaning |
//! |---|---|---|
//! | [`ControlMessage::Ack`] | receiver to sender | all frames before this number were taken |
//! | [`ControlMessage::Nack`] | receiver to sender | the same, and the frame of this number must be sent again |
//! | [`ControlMessage::End`] | sender to receiver | the last frame has a smaller number; acknowledge when all were taken |
//! | | receiver to sender | its process ends in order; the number is 0 |
//! | [`ControlMessage::Sent`] | sender to receiver | without a check: the last frame so far has a smaller number |
//! | [`ControlMessage::Rest`] | sender to receiver | as `End`, and the link closes after the acknowledgement, until it is used again |
//! | | receiver to sender | has too many links: close this one once it is idle; the number is 0 |
//!
//! A message is its length (4 bytes), its kind (1), the number (8) and a tag (16). The tag is BLAKE3 over the count of
//! earlier messages of this side, the kind and the number, with the key from the greeting. So no other process can
//! forge or replay a message.

use crate::greeting::{GreetingError, Key, LENGTH_BYTES};
use crate::tags::{TAG_BYTES, are_equal, tag_of};

/// Kinds of messages. The greeting uses those below.
const ACK: u8 = 5;
const NACK: u8 = 6;
const END: u8 = 7;
const SENT: u8 = 8;
const REST: u8 = 9;
const BODY_BYTES: usize = 1 + 8 + TAG_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlMessage {
    Ack(u64),
    Nack(u64),
    End(u64),
    Sent(u64),
    Rest(u64),
}

/// Makes or checks the tags of one direction of a connection: its key and its count of messages.
pub(crate) struct MessageSealer {
    key: [u8; 32],
    count: u64,
}

impl MessageSealer {
    pub fn for_sender(key: &Key) -> MessageSealer {
        MessageSealer { key: key.derived(b"sender  "), count: 0 }
    }

    pub fn for_receiver(key: &Key) -> MessageSealer {
        MessageSealer { key: key.derived(b"receiver"), count: 0 }
    }

    /// Encodes the next message.
    pub fn seal(&mut self, message: ControlMessage) -> Vec<u8> {
        let (kind, number) = match message {
            ControlMessage::Ack(number) => (ACK, number),
            ControlMessage::Nack(number) => (NACK, number),
            ControlMessage::End(number) => (END, number),
            ControlMessage::Sent(number) => (SENT, number),
            ControlMessage::Rest(number) => (REST, number),
        };
        let mut bytes = (BODY_BYTES as u32).to_le_bytes().to_vec();
        bytes.push(kind);
        bytes.extend(number.to_le_bytes());
        let tag = self.tag(&bytes[LENGTH_BYTES..]);
        bytes.extend(tag);
        bytes
    }

    /// Decodes the other side's next message, given without its length.
    pub fn open(&mut self, message: &[u8]) -> Result<ControlMessage, GreetingError> {
        let (body, tag) = message.split_last_chunk::<TAG_BYTES>().ok_or(GreetingError::Malformed)?;
        let (&kind, number) = body.split_first().ok_or(GreetingError::Malformed)?;
        let number = u64::from_le_bytes(*number.first_chunk().ok_or(GreetingError::Malformed)?);
        if message.len() != BODY_BYTES || !are_equal(&self.tag(body), tag) {
            return Err(GreetingError::Malformed);
        }
        match kind {
            ACK => Ok(ControlMessage::Ack(number)),
            NACK => Ok(ControlMessage::Nack(number)),
            END => Ok(ControlMessage::End(number)),
            SENT => Ok(ControlMessage::Sent(number)),
            REST => Ok(ControlMessage::Rest(number)),
            _ => Err(GreetingError::Malformed),
        }
    }

    fn tag(&mut self, body: &[u8]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.count.to_le_bytes());
        hasher.update(body);
        self.count += 1;
        tag_of(&hasher.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealers() -> (MessageSealer, MessageSealer) {
        let key = || Key::new(1, b"secret", [1; 32], [2; 32]);
        (MessageSealer::for_receiver(&key()), MessageSealer::for_receiver(&key()))
    }

    #[test]
    fn messages_are_read_as_they_were_sent() {
        let (mut sender, mut receiver) = sealers();
        use ControlMessage::{Ack, End, Nack, Rest, Sent};
        for message in [Ack(5), Nack(u64::MAX), Sent(7), End(0), Rest(2), Ack(5)] {
            assert_eq!(receiver.open(&sender.seal(message)[LENGTH_BYTES..]), Ok(message));
        }
    }

    #[test]
    fn forged_repeated_and_damaged_messages_are_refused() {
        let (mut sender, mut receiver) = sealers();
        let first = sender.seal(ControlMessage::Ack(1));
        assert!(receiver.open(&first[LENGTH_BYTES..]).is_ok());
        assert_eq!(receiver.open(&first[LENGTH_BYTES..]), Err(GreetingError::Malformed), "a replay");
        let own = MessageSealer::for_sender(&Key::new(1, b"secret", [1; 32], [2; 32])).seal(ControlMessage::Ack(1));
        let (_, mut receiver) = sealers();
        assert!(receiver.open(&own[LENGTH_BYTES..]).is_err(), "a reflected message is refused");
        for at in LENGTH_BYTES..first.len() {
            let mut damaged = first.clone();
            damaged[at] ^= 4;
            let (_, mut receiver) = sealers();
            assert!(receiver.open(&damaged[LENGTH_BYTES..]).is_err(), "byte {at}");
        }
        assert!(receiver.open(&[]).is_err() && receiver.open(&[ACK; 7]).is_err());
    }
}
