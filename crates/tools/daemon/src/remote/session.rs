// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A conversation of two daemons over a stream of bytes, as a value: greetings, then messages in sealed records.
//!
//! Each side opens with a greeting: the daemon that connects, with the host that it wants; the other one, with its own.
//!
//! | bytes | greeting |
//! |---|---|
//! | 4 | `SVr1` |
//! | 1 | 1: this side has a key; 0: it has none |
//! | 32 | random |
//! | 8 | number of the host, little-endian |
//!
//! | bytes | record |
//! |---|---|
//! | 4 | little-endian: length of the body; the highest bit: the message goes on in the next record |
//! | 16 | with a key: the first bytes of keyed BLAKE3 over direction, number of the record, length and body |
//! | n | the body |
//!
//! # Invariants
//!
//! 1. The key of the seals is that of the conversation: keyed BLAKE3 of both random numbers and of the host that
//!    answers, under the key of the fabric, which never crosses the network. So a record of another conversation, to
//!    another host, in the other direction or in another place is refused.
//! 2. The sides have keys or have none; otherwise nothing but greetings is taken.
//! 3. At most a record and a message of the limit are in memory, whatever arrives. Nothing of a message is given out
//!    before its last record is checked.
use selvedge_fabric_manager::HostId;

const MAGIC: [u8; 4] = *b"SVr1";
const NONCE_BYTES: usize = 32;
const GREETING_BYTES: usize = 4 + 1 + NONCE_BYTES + 8;
const LENGTH_BYTES: usize = 4;
const TAG_BYTES: usize = 16;
const RECORD_BYTES_MAX: usize = 1 << 15;
const CONTINUES: u32 = 1 << 31;

/// Random bytes, new for each conversation.
pub type Nonce = [u8; NONCE_BYTES];

/// Reasons for which a conversation ends. The text is for people at the host that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("what answers there is no daemon of this release")]
    Magic,
    #[error("it takes sealed requests only: start this host's daemon with the fabric's key (--key FILE)")]
    OnlyOtherHasKey,
    #[error("its daemon has no key: start it with the fabric's key (--key FILE)")]
    OnlyOwnHasKey,
    #[error("another host answers at its address")]
    OtherHost,
    #[error("the answer is not sealed with this daemon's key: give both the same --key FILE")]
    Tag,
    #[error("the answer is longer than {limit} bytes")]
    Length { limit: usize },
}

/// One side of a conversation.
#[derive(Debug)]
pub struct Session {
    key: Option<[u8; 32]>,
    asks: bool,
    /// This side's random number, and the host that it wants or is.
    nonce: Nonce,
    host: HostId,
    is_greeted: bool,
    /// Numbers of the next records.
    sent: u64,
    received: u64,
    inbox: Vec<u8>,
    message: Vec<u8>,
    message_bytes_max: usize,
    /// Messages that wait for the other side's greeting.
    held: Vec<u8>,
    /// Bytes for the stream.
    pub outbox: Vec<u8>,
}

impl Session {
    /// The side that connects, with its request.
    pub fn ask(key: Option<[u8; 32]>, host: HostId, nonce: Nonce, request: &[u8], answer_bytes_max: usize) -> Session {
        Session { held: request.to_vec(), ..Session::new(key, true, host, nonce, answer_bytes_max) }
    }

    /// The side that answers.
    pub fn answer(key: Option<[u8; 32]>, own: HostId, nonce: Nonce, request_bytes_max: usize) -> Session {
        Session::new(key, false, own, nonce, request_bytes_max)
    }

    fn new(key: Option<[u8; 32]>, asks: bool, host: HostId, nonce: Nonce, message_bytes_max: usize) -> Session {
        let mut outbox = Vec::with_capacity(GREETING_BYTES);
        outbox.extend(MAGIC);
        outbox.push(key.is_some().into());
        outbox.extend(nonce);
        outbox.extend(host.0.to_le_bytes());
        Session {
            key,
            asks,
            nonce,
            host,
            is_greeted: false,
            sent: 0,
            received: 0,
            inbox: Vec::new(),
            message: Vec::new(),
            message_bytes_max,
            held: Vec::new(),
            outbox,
        }
    }

    /// Whether all that the other side said is sealed.
    pub fn is_sealed(&self) -> bool {
        self.key.is_some()
    }

    /// Takes bytes of the stream, and returns the messages that they complete.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Broken> {
        self.inbox.extend(bytes);
        let mut taken = 0;
        if !self.is_greeted {
            let Some((greeting, _)) = self.inbox.split_first_chunk::<GREETING_BYTES>() else { return Ok(Vec::new()) };
            let greeting = *greeting;
            taken = GREETING_BYTES;
            self.greet(&greeting)?;
        }
        let mut messages = Vec::new();
        loop {
            let rest = &self.inbox[taken..];
            let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else { break };
            let word = u32::from_le_bytes(*length);
            let (continues, length) = (word & CONTINUES != 0, (word & !CONTINUES) as usize);
            if length > RECORD_BYTES_MAX || self.message.len() + length > self.message_bytes_max {
                return Err(Broken::Length { limit: self.message_bytes_max });
            }
            let tag_bytes = if self.key.is_some() { TAG_BYTES } else { 0 };
            let Some((tag, body)) = rest.get(..tag_bytes + length).map(|record| record.split_at(tag_bytes)) else {
                break;
            };
            if let Some(key) = &self.key {
                let wanted = seal(key, !self.asks, self.received, word, body);
                // Without an end at the first difference, so the time tells nothing.
                if wanted.iter().zip(tag).fold(0, |all, (a, b)| all | a ^ b) != 0 {
                    return Err(Broken::Tag);
                }
            }
            self.received += 1;
            self.message.extend(body);
            taken += LENGTH_BYTES + tag_bytes + length;
            if !continues {
                messages.push(std::mem::take(&mut self.message));
            }
        }
        self.inbox.drain(..taken);
        Ok(messages)
    }

    /// Takes the other side's greeting.
    fn greet(&mut self, greeting: &[u8; GREETING_BYTES]) -> Result<(), Broken> {
        let (magic, rest) = greeting.split_at(MAGIC.len());
        let (has_key, rest) = (rest[0] != 0, &rest[1..]);
        let (nonce, host) = rest.split_at(NONCE_BYTES);
        let host = HostId(host.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)));
        if magic != MAGIC || greeting[MAGIC.len()] > 1 {
            return Err(Broken::Magic);
        }
        match (self.key.is_some(), has_key) {
            (false, true) => return Err(Broken::OnlyOtherHasKey),
            (true, false) => return Err(Broken::OnlyOwnHasKey),
            _ => {}
        }
        // The side that answers seals with its own number, so a wish for another host ends here or at the first seal.
        if host != self.host {
            return Err(Broken::OtherHost);
        }
        self.key = self.key.map(|key| {
            let (first, second) = if self.asks { (&self.nonce[..], nonce) } else { (nonce, &self.nonce[..]) };
            let mut hasher = blake3::Hasher::new_keyed(&key);
            hasher.update(&MAGIC).update(first).update(second).update(&self.host.0.to_le_bytes());
            *hasher.finalize().as_bytes()
        });
        self.is_greeted = true;
        if self.asks {
            let held = std::mem::take(&mut self.held);
            self.send(&held);
        }
        Ok(())
    }

    /// Sends a message, once the other side has greeted.
    pub fn send(&mut self, message: &[u8]) {
        let mut bodies = message.chunks(RECORD_BYTES_MAX).peekable();
        // An empty message is one empty record.
        let mut next = bodies.next().or(Some(&[]));
        while let Some(body) = next {
            next = bodies.next();
            let word = body.len() as u32 | if next.is_some() { CONTINUES } else { 0 };
            self.outbox.extend(word.to_le_bytes());
            if let Some(key) = &self.key {
                self.outbox.extend(seal(key, self.asks, self.sent, word, body));
            }
            self.sent += 1;
            self.outbox.extend(body);
        }
    }
}

/// The seal of a record; `asks`: of the side that connects.
fn seal(key: &[u8; 32], asks: bool, number: u64, word: u32, body: &[u8]) -> [u8; TAG_BYTES] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&[asks.into()]).update(&number.to_le_bytes()).update(&word.to_le_bytes()).update(body);
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&hasher.finalize().as_bytes()[..TAG_BYTES]);
    tag
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: HostId = HostId(7);
    const LIMIT: usize = 1 << 20;

    fn pair(asks: Option<[u8; 32]>, answers: Option<[u8; 32]>, request: &[u8]) -> (Session, Session) {
        (Session::ask(asks, OWN, [1; 32], request, LIMIT), Session::answer(answers, OWN, [2; 32], LIMIT))
    }

    /// Moves all bytes of a side to the other, and returns the messages.
    fn carry(from: &mut Session, to: &mut Session) -> Result<Vec<Vec<u8>>, Broken> {
        to.take(&std::mem::take(&mut from.outbox))
    }

    #[test]
    fn messages_cross_with_and_without_keys() {
        for key in [None, Some([9; 32])] {
            let (mut asks, mut answers) = pair(key, key, b"request");
            assert_eq!(carry(&mut asks, &mut answers), Ok(vec![]));
            assert_eq!(carry(&mut answers, &mut asks), Ok(vec![]));
            assert_eq!(carry(&mut asks, &mut answers), Ok(vec![b"request".to_vec()]));
            let long = vec![5; 3 * RECORD_BYTES_MAX + 1];
            answers.send(&long);
            answers.send(b"");
            answers.send(b"more");
            // Byte by byte.
            let mut found = Vec::new();
            for byte in std::mem::take(&mut answers.outbox) {
                found.extend(asks.take(&[byte]).unwrap());
            }
            assert_eq!(found, [long, vec![], b"more".to_vec()]);
        }
    }

    #[test]
    fn sides_with_other_keys_or_hosts_hear_no_message() {
        let (mut asks, mut answers) = pair(Some([1; 32]), Some([2; 32]), b"request");
        carry(&mut asks, &mut answers).unwrap();
        carry(&mut answers, &mut asks).unwrap();
        assert_eq!(carry(&mut asks, &mut answers), Err(Broken::Tag));
        let (mut asks, mut answers) = pair(Some([1; 32]), None, b"request");
        assert_eq!(carry(&mut answers, &mut asks), Err(Broken::OnlyOwnHasKey));
        assert_eq!(carry(&mut asks, &mut answers), Err(Broken::OnlyOtherHasKey));
        let mut other = Session::answer(None, HostId(8), [2; 32], LIMIT);
        let (mut asks, _) = pair(None, None, b"request");
        assert_eq!(carry(&mut other, &mut asks), Err(Broken::OtherHost));
        assert_eq!(carry(&mut asks, &mut other), Err(Broken::OtherHost));
    }

    #[test]
    fn a_recorded_conversation_is_worth_nothing() {
        let key = Some([9; 32]);
        let (mut asks, mut answers) = pair(key, key, b"restart");
        let mut recorded = asks.outbox.clone();
        carry(&mut asks, &mut answers).unwrap();
        carry(&mut answers, &mut asks).unwrap();
        recorded.extend(&asks.outbox);
        assert_eq!(carry(&mut asks, &mut answers).unwrap().len(), 1);
        // Sent again at another time, and to another host.
        let mut later = Session::answer(key, OWN, [3; 32], LIMIT);
        assert_eq!(later.take(&recorded), Err(Broken::Tag));
        // The same record twice in one conversation.
        let (mut asks, mut answers) = pair(key, key, b"restart");
        carry(&mut asks, &mut answers).unwrap();
        carry(&mut answers, &mut asks).unwrap();
        let record = asks.outbox.clone();
        assert_eq!(answers.take(&record).unwrap().len(), 1);
        assert_eq!(answers.take(&record), Err(Broken::Tag));
        // Its own records, sent back.
        answers.send(b"done");
        let answer = answers.outbox.clone();
        assert_eq!(answers.take(&answer), Err(Broken::Tag));
    }

    #[test]
    fn a_key_never_crosses() {
        let key = *b"0123456789abcdef0123456789abcdef";
        let (mut asks, mut answers) = pair(Some(key), Some(key), b"request");
        let mut crossed = asks.outbox.clone();
        carry(&mut asks, &mut answers).unwrap();
        crossed.extend(&answers.outbox);
        carry(&mut answers, &mut asks).unwrap();
        crossed.extend(&asks.outbox);
        assert!(!crossed.windows(8).any(|window| key.windows(8).any(|part| part == window)));
    }

    #[test]
    fn lengths_are_bounded() {
        let (mut asks, _) = pair(None, None, b"");
        let mut answers = Session::answer(None, OWN, [2; 32], 100);
        carry(&mut asks, &mut answers).unwrap();
        assert_eq!(answers.take(&101u32.to_le_bytes()), Err(Broken::Length { limit: 100 }));
        let mut answers = Session::answer(None, OWN, [2; 32], 100);
        asks.outbox = Session::ask(None, OWN, [1; 32], b"", LIMIT).outbox;
        carry(&mut asks, &mut answers).unwrap();
        // Records that go on and on.
        let mut record = (60 | CONTINUES).to_le_bytes().to_vec();
        record.extend([0; 60]);
        assert_eq!(answers.take(&record), Ok(vec![]));
        assert_eq!(answers.take(&record), Err(Broken::Length { limit: 100 }));
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_or_wait(
            bytes in proptest::collection::vec(any::<u8>(), 0..400), greets in any::<bool>(), has_key in any::<bool>(),
            cut in 1usize..50
        ) {
            let key = has_key.then_some([9; 32]);
            let mut answers = Session::answer(key, OWN, [2; 32], 100);
            if greets {
                let (asks, _) = pair(key, None, b"");
                answers.take(&asks.outbox).unwrap();
            }
            for part in bytes.chunks(cut) {
                match answers.take(part) {
                    Ok(messages) => prop_assert!(messages.is_empty() || !has_key, "a message without the key"),
                    Err(_) => break,
                }
            }
            prop_assert!(answers.inbox.len() <= LENGTH_BYTES + TAG_BYTES + RECORD_BYTES_MAX + cut);
        }

        #[test]
        fn any_change_of_a_sealed_conversation_is_refused(at in 0usize..200, bit in 0u8..8) {
            let key = Some([9; 32]);
            let (mut asks, mut answers) = pair(key, key, &[4; 80]);
            let greeting = std::mem::take(&mut asks.outbox);
            let mut said = greeting.clone();
            carry(&mut answers, &mut asks).unwrap();
            said.extend(&asks.outbox);
            let at = at % said.len();
            said[at] ^= 1 << bit;
            let heard = answers.take(&said);
            prop_assert!(heard.is_err() || heard == Ok(vec![]), "{:?}", heard);
        }
    }
}
