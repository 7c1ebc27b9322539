// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The greeting that opens a link on its control connection: messages and proofs, without I/O.
//!
//! ```text
//! receiver ── Hello: version, nonce ──────────────────────────────> sender
//! receiver <── Offer: nonce, address, provider, proof ──────────── sender
//! receiver ── Answer: link, key, endpoint, proof ─────────────────> sender      or Refusal: why
//! ```
//!
//! Both proofs are BLAKE3 over both nonces and the message, with the receiver's token and the job's secret as the key.
//! So only a process that has the receiver's address (and the secret, if there is one) can send to it, and only the
//! process of that address can answer. The sender's token and the link's key are masked with bytes of the same key, so
//! a listener on the wire learns neither.
//!
//! On the wire a message is its length (4 bytes), its kind (1 byte), and its fields in the order of the structures.
//! Numbers are little-endian. A text or a name has its length (2 bytes) before it.

use crate::address::{ADDRESS_BYTES, LinkAddress};

/// Version of greeting and frames.
pub const VERSION: u16 = 4;
/// Bytes of the longest message.
pub const MESSAGE_BYTES_MAX: usize = 4096;
pub const LENGTH_BYTES: usize = 4;

const MAGIC: [u8; 8] = *b"selvedge";
const HELLO: u8 = 1;
const OFFER: u8 = 2;
const ANSWER: u8 = 3;
const REFUSAL: u8 = 4;
const QUESTION: u8 = 5;
const REPLY: u8 = 6;

pub type Nonce = [u8; 32];
type Proof = [u8; 32];

/// Reasons for which a greeting ended without a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GreetingError {
    #[error("the peer is not Selvedge")]
    NotSelvedge,
    #[error("the peer's connection ended in the greeting: its process has ended, or did not wait")]
    Ended,
    #[error("the peer has version {theirs} of links, this process {VERSION}: install the same Selvedge on all hosts")]
    Version { theirs: u16 },
    #[error(
        "the peer's proof is wrong: it is in another job, or has another SELVEDGE_SECRET, or a new process has its port"
    )]
    Proof,
    #[error("the peer uses libfabric's provider {theirs}, not {ours}: set SELVEDGE_NET_PROVIDER alike on all hosts")]
    Provider { ours: String, theirs: String },
    #[error("the peer checks frames in another way: set SELVEDGE_NET_CHECK alike on all hosts")]
    Check,
    #[error(
        "the peer gives its address as {claimed}, but connects from another: set SELVEDGE_NET_INTERFACE on its host"
    )]
    Address { claimed: std::net::IpAddr },
    #[error("the peer gives its host the number {claimed}, but gave it {known} before")]
    Host { claimed: u32, known: u32 },
    #[error("the peer cannot take a link: {0}")]
    NotReady(String),
    #[error("the peer refused: {0}")]
    Refused(String),
    #[error("the peer's message is malformed")]
    Malformed,
}

/// The secrets that both sides of a greeting know (the receiver's token and the job's secret), and the nonces.
pub struct Key {
    key: [u8; 32],
    /// The receiver's, then the sender's.
    nonces: [Nonce; 2],
}

impl Key {
    pub fn new(receiver_token: u64, secret: &[u8], receiver: Nonce, sender: Nonce) -> Key {
        let mut hasher = blake3::Hasher::new_derive_key("selvedge 2026-11 link greeting");
        hasher.update(&receiver_token.to_le_bytes());
        hasher.update(secret);
        Key { key: *hasher.finalize().as_bytes(), nonces: [receiver, sender] }
    }

    fn hash(&self, purpose: &[u8; 8], body: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(purpose);
        for nonce in &self.nonces {
            hasher.update(nonce);
        }
        hasher.update(body);
        hasher.finalize()
    }

    pub(crate) fn derived(&self, purpose: &[u8; 8]) -> [u8; 32] {
        *self.hash(purpose, &[]).as_bytes()
    }

    /// Hides bytes from processes without the key. A second call shows them again.
    fn hide(&self, purpose: &[u8; 8], bytes: &mut [u8]) {
        let mut stream = vec![0; bytes.len()];
        blake3::Hasher::new_keyed(&self.derived(purpose)).finalize_xof().fill(&mut stream);
        bytes.iter_mut().zip(stream).for_each(|(byte, hidden)| *byte ^= hidden);
    }

    /// Returns eight bytes that only holders of the key know.
    fn mask(&self, purpose: &[u8; 8]) -> u64 {
        self.derived(purpose).first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// The receiver's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub nonce: Nonce,
}

/// The sender's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub nonce: Nonce,
    /// The number of the sender's host in the job; [`NO_HOST`] without a job.
    pub nid: u32,
    /// The address at which the sender itself listens.
    pub address: LinkAddress,
    /// How frames are checked.
    pub check: u8,
    /// Its libfabric provider.
    pub provider: String,
}

/// The number of a host in no job.
pub const NO_HOST: u32 = u32::MAX;

/// The receiver's second message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The link's number at the receiver, which its frames carry.
    pub link: u32,
    /// The link's key, which its frames carry.
    pub key: u64,
    /// The name of the receiver's endpoint.
    pub endpoint: Vec<u8>,
}

impl Hello {
    pub fn encode(&self) -> Vec<u8> {
        let mut body = MAGIC.to_vec();
        body.extend(VERSION.to_le_bytes());
        body.extend(self.nonce);
        message(HELLO, body)
    }

    pub fn decode(message: &[u8]) -> Result<Hello, GreetingError> {
        let mut body = expect(message, HELLO)?;
        body.greet()?;
        let nonce = body.take()?;
        body.end()?;
        Ok(Hello { nonce })
    }
}

impl Offer {
    pub fn encode(&self, key: &Key) -> Vec<u8> {
        let masked = self.address.with_token(self.address.token() ^ key.mask(b"address "));
        let mut body = MAGIC.to_vec();
        body.extend(VERSION.to_le_bytes());
        body.extend(self.nonce);
        body.extend(self.nid.to_le_bytes());
        body.extend(masked.to_bytes());
        body.push(self.check);
        put_counted(&mut body, self.provider.as_bytes());
        let proof: Proof = *key.hash(b"offer   ", &body).as_bytes();
        body.extend(proof);
        message(OFFER, body)
    }

    /// Reads an offer. `key_of` makes the key from the sender's nonce.
    pub fn decode(message: &[u8], key_of: impl Fn(Nonce) -> Key) -> Result<(Offer, Key), GreetingError> {
        let mut body = expect(message, OFFER)?;
        body.greet()?;
        let nonce: Nonce = body.take()?;
        let nid = u32::from_le_bytes(body.take()?);
        let address: [u8; ADDRESS_BYTES] = body.take()?;
        let [check] = body.take()?;
        let provider = body.counted()?.to_vec();
        let key = key_of(nonce);
        body.prove(&key, b"offer   ")?;
        let address = LinkAddress::from_bytes(&address);
        if address.is_nowhere() {
            return Err(GreetingError::Malformed);
        }
        let address = address.with_token(address.token() ^ key.mask(b"address "));
        let provider = String::from_utf8(provider).map_err(|_| GreetingError::Malformed)?;
        Ok((Offer { nonce, nid, address, check, provider }, key))
    }
}

impl Answer {
    pub fn encode(&self, key: &Key) -> Vec<u8> {
        let mut body = self.link.to_le_bytes().to_vec();
        body.extend((self.key ^ key.mask(b"link key")).to_le_bytes());
        put_counted(&mut body, &self.endpoint);
        let proof: Proof = *key.hash(b"answer  ", &body).as_bytes();
        body.extend(proof);
        message(ANSWER, body)
    }

    pub fn decode(message: &[u8], key: &Key) -> Result<Answer, GreetingError> {
        let mut body = expect(message, ANSWER)?;
        let link = u32::from_le_bytes(body.take()?);
        let masked = u64::from_le_bytes(body.take()?);
        let endpoint = body.counted()?.to_vec();
        body.prove(key, b"answer  ")?;
        Ok(Answer { link, key: masked ^ key.mask(b"link key"), endpoint })
    }
}

/// The question of a process that asks for a service ([`crate::services`]). Its key has no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    pub nonce: Nonce,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub bytes: Vec<u8>,
}

impl Question {
    pub fn encode(&self, key: &Key) -> Vec<u8> {
        let mut body = MAGIC.to_vec();
        body.extend(VERSION.to_le_bytes());
        body.extend(self.nonce);
        let proof: Proof = *key.hash(b"question", &body).as_bytes();
        body.extend(proof);
        message(QUESTION, body)
    }

    /// Reads a question. Returns the key that `key_of` makes from its nonce.
    pub fn decode(message: &[u8], key_of: impl Fn(Nonce) -> Key) -> Result<Key, GreetingError> {
        let mut body = expect(message, QUESTION)?;
        body.greet()?;
        let key = key_of(body.take()?);
        body.prove(&key, b"question")?;
        Ok(key)
    }
}

impl Reply {
    pub fn encode(&self, key: &Key) -> Vec<u8> {
        let mut hidden = self.bytes.clone();
        key.hide(b"reply by", &mut hidden);
        let mut body = Vec::new();
        put_counted(&mut body, &hidden);
        let proof: Proof = *key.hash(b"reply   ", &body).as_bytes();
        body.extend(proof);
        message(REPLY, body)
    }

    pub fn decode(message: &[u8], key: &Key) -> Result<Reply, GreetingError> {
        let mut body = expect(message, REPLY)?;
        let mut bytes = body.counted()?.to_vec();
        body.prove(key, b"reply   ")?;
        key.hide(b"reply by", &mut bytes);
        Ok(Reply { bytes })
    }
}

/// Encodes the receiver's refusal of a link.
pub fn refusal(why: &GreetingError) -> Vec<u8> {
    let mut body = Vec::new();
    put_counted(&mut body, why.to_string().as_bytes());
    message(REFUSAL, body)
}

/// Returns the length of the message that these bytes begin; None if too few have come.
pub fn length_of(bytes: &[u8]) -> Option<Result<usize, GreetingError>> {
    let length = u32::from_le_bytes(*bytes.first_chunk::<LENGTH_BYTES>()?) as usize;
    Some(if length == 0 || length > MESSAGE_BYTES_MAX { Err(GreetingError::NotSelvedge) } else { Ok(length) })
}

fn message(kind: u8, body: Vec<u8>) -> Vec<u8> {
    let mut bytes = (body.len() as u32 + 1).to_le_bytes().to_vec();
    bytes.push(kind);
    bytes.extend(body);
    bytes
}

fn put_counted(body: &mut Vec<u8>, bytes: &[u8]) {
    let length = bytes.len().min(1024);
    body.extend((length as u16).to_le_bytes());
    body.extend(&bytes[..length]);
}

/// Returns the body of a message (without its length), which must be of this kind.
fn expect(message: &[u8], kind: u8) -> Result<Body<'_>, GreetingError> {
    match message.split_first() {
        Some((&found, rest)) if found == kind => Ok(Body { whole: rest, rest }),
        Some((&REFUSAL, rest)) => {
            let text = Body { whole: rest, rest }.counted()?;
            Err(GreetingError::Refused(String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect()))
        }
        _ => Err(GreetingError::NotSelvedge),
    }
}

struct Body<'a> {
    whole: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    fn greet(&mut self) -> Result<(), GreetingError> {
        if self.take::<8>().map_err(|_| GreetingError::NotSelvedge)? != MAGIC {
            return Err(GreetingError::NotSelvedge);
        }
        match u16::from_le_bytes(self.take()?) {
            VERSION => Ok(()),
            theirs => Err(GreetingError::Version { theirs }),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], GreetingError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(GreetingError::Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn counted(&mut self) -> Result<&'a [u8], GreetingError> {
        let length = usize::from(u16::from_le_bytes(self.take()?));
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(GreetingError::Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Checks the proof of the bytes before it, and that the message ends there.
    fn prove(&mut self, key: &Key, purpose: &[u8; 8]) -> Result<(), GreetingError> {
        let proven = &self.whole[..self.whole.len() - self.rest.len()];
        let is_right = blake3::Hash::from_bytes(self.take()?) == key.hash(purpose, proven);
        self.end()?;
        if is_right { Ok(()) } else { Err(GreetingError::Proof) }
    }

    fn end(&self) -> Result<(), GreetingError> {
        if self.rest.is_empty() { Ok(()) } else { Err(GreetingError::Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RECEIVER: u64 = 0x1122_3344_5566_7788;

    fn offer() -> Offer {
        let address = LinkAddress::new("10.77.0.2:99".parse().expect("an address"), 0xabcd_ef01_2345_6789);
        Offer { nonce: [2; 32], nid: 4, address, check: 0, provider: "tcp;ofi_rxm".to_owned() }
    }

    fn key(secret: &'static [u8]) -> impl Fn(Nonce) -> Key {
        move |nonce| Key::new(RECEIVER, secret, [1; 32], nonce)
    }

    #[test]
    fn a_greeting_reads_back() {
        let hello = Hello { nonce: [1; 32] };
        assert_eq!(Hello::decode(&hello.encode()[LENGTH_BYTES..]), Ok(hello));
        let sent = offer().encode(&key(b"s")([2; 32]));
        assert_eq!(length_of(&sent), Some(Ok(sent.len() - LENGTH_BYTES)));
        assert!(!sent.windows(8).any(|part| part == offer().address.token().to_le_bytes()), "the token is masked");
        let (read, key) = Offer::decode(&sent[LENGTH_BYTES..], key(b"s")).expect("the proof is right");
        assert_eq!(read, offer());
        let answer = Answer { link: 5, key: 77, endpoint: vec![9; 28] };
        assert_eq!(Answer::decode(&answer.encode(&key)[LENGTH_BYTES..], &key), Ok(answer));
    }

    #[test]
    fn another_secret_another_token_and_another_nonce_are_refused() {
        let sent = offer().encode(&key(b"s")([2; 32]));
        let message = &sent[LENGTH_BYTES..];
        let refused = |key: &dyn Fn(Nonce) -> Key| Offer::decode(message, key).err();
        assert_eq!(refused(&key(b"t")), Some(GreetingError::Proof));
        assert_eq!(refused(&|nonce| Key::new(RECEIVER + 1, b"s", [1; 32], nonce)), Some(GreetingError::Proof));
        assert_eq!(refused(&|nonce| Key::new(RECEIVER, b"s", [7; 32], nonce)), Some(GreetingError::Proof), "a replay");
    }

    #[test]
    fn a_refusal_says_why() {
        let sent = refusal(&GreetingError::Version { theirs: 9 });
        let Err(GreetingError::Refused(why)) = Answer::decode(&sent[LENGTH_BYTES..], &key(b"")([0; 32])) else {
            panic!("it is a refusal");
        };
        assert!(why.contains("version 9"), "{why}");
    }

    #[test]
    fn another_version_and_strangers_are_told_apart() {
        let mut sent = Hello { nonce: [1; 32] }.encode();
        sent[LENGTH_BYTES + 9] = 77;
        assert_eq!(Hello::decode(&sent[LENGTH_BYTES..]), Err(GreetingError::Version { theirs: 77 }));
        assert_eq!(Hello::decode(b"HTTP/1.1 400 Bad Request"), Err(GreetingError::NotSelvedge));
        assert_eq!(length_of(b"HTTP/1.1 "), Some(Err(GreetingError::NotSelvedge)));
        assert_eq!(length_of(b"HT"), None);
    }

    proptest! {
        #[test]
        fn any_change_of_an_offer_is_refused(at: usize, bit in 0..8u32) {
            let mut sent = offer().encode(&key(b"s")([2; 32]));
            let message = &mut sent[LENGTH_BYTES..];
            let at = at % message.len();
            message[at] ^= 1 << bit;
            prop_assert!(Offer::decode(message, key(b"s")).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 1..5u8) {
            let mut message = bytes;
            message.insert(0, kind);
            let _ = (Hello::decode(&message), Offer::decode(&message, key(b"")).is_ok());
            let _ = Answer::decode(&message, &key(b"")([0; 32]));
        }
    }
}
