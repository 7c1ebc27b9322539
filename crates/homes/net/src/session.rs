// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions: a process asks for a service of another, then the two exchange messages. The manager of aggregation has
//! sessions with nodes and jobs.
//!
//! The greeting is that of [`crate::services`], with a reply of no bytes. Then both sides send messages: 4 bytes of
//! length, the hidden bytes, a tag of 16 bytes ([`SessionCipher`]). Both keys come from the secret and the nonces, so a
//! process without the secret can neither read nor change messages. With an empty secret any process can connect.
//!
//! When the other process ends, or its host is silent for the time-out, [`Session::receive`] returns an error.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use crate::control::probe_silence;
use crate::greeting::{GreetingError, LENGTH_BYTES};
use crate::handshake::Handshake;
use crate::services::{AskError, accept};
use crate::session_cipher::SessionCipher;
use selvedge_os::forked::ParentOnly;
use selvedge_os::sync::IgnorePoison;

/// The longest greeting.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of the longest message.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// One side of a session. Any thread may send; messages are sent whole.
pub struct Session {
    stream: ParentOnly<TcpStream>,
    peer: SocketAddr,
    sending: Mutex<SessionCipher>,
    receiving: Mutex<SessionCipher>,
}

/// A listener for sessions.
#[derive(Debug)]
pub struct SessionListener {
    listener: ParentOnly<TcpListener>,
}

/// A connection before its greeting.
pub struct IncomingSession(TcpStream);

impl SessionListener {
    /// Listens at an address of this host. Port 0 takes any free port.
    pub fn open(at: SocketAddr) -> io::Result<SessionListener> {
        Ok(SessionListener { listener: ParentOnly::new(TcpListener::bind(at)?) })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for the next process that connects.
    pub fn accept(&self) -> io::Result<IncomingSession> {
        accept(&self.listener).map(IncomingSession)
    }
}

impl IncomingSession {
    /// Greets. After `silence` without a sign of the other host the session ends.
    pub fn greet(self, secret: &[u8], silence: Duration) -> Result<Session, AskError> {
        let mut handshake = Handshake::new(self.0, PATIENCE)?;
        let key = handshake.answer(secret, &[])?;
        Session::new(handshake, silence, [SessionCipher::new(&key, true), SessionCipher::new(&key, false)])
    }
}

impl Session {
    /// Begins a session with the process that listens at an address.
    pub fn connect(at: SocketAddr, secret: &[u8], silence: Duration) -> Result<Session, AskError> {
        let mut handshake = Handshake::connect(at, PATIENCE)?;
        let (key, _) = handshake.ask(secret)?;
        Session::new(handshake, silence, [SessionCipher::new(&key, false), SessionCipher::new(&key, true)])
    }

    fn new(
        handshake: Handshake,
        silence: Duration,
        [sending, receiving]: [SessionCipher; 2],
    ) -> Result<Session, AskError> {
        let (stream, peer) = handshake.into_connection();
        let ready = stream.set_read_timeout(None).and_then(|()| stream.set_write_timeout(Some(silence)));
        ready
            .and_then(|()| probe_silence(&stream, silence))
            .map_err(|error| AskError::Connection { at: peer, error })?;
        Ok(Session {
            stream: ParentOnly::new(stream),
            peer,
            sending: Mutex::new(sending),
            receiving: Mutex::new(receiving),
        })
    }

    /// Returns the other side's address.
    pub fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    /// Returns this side's address.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Sends a message. After an error the session is over.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        let mut sending = self.sending.lock().ignore_poison();
        let sealed = sending.seal(message.to_vec());
        let mut bytes = (sealed.len() as u32).to_le_bytes().to_vec();
        bytes.extend(sealed);
        // After a message that was sent in part, no other can follow.
        (&*self.stream).write_all(&bytes).inspect_err(|_| self.end())
    }

    /// Waits for the next message. After an error the session is over.
    pub fn receive(&self) -> io::Result<Vec<u8>> {
        let mut receiving = self.receiving.lock().ignore_poison();
        let mut length = [0; LENGTH_BYTES];
        (&*self.stream).read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(io::Error::other(GreetingError::Malformed));
        }
        // Takes memory only as the bytes arrive.
        let mut sealed = Vec::new();
        (&*self.stream).take(length as u64).read_to_end(&mut sealed)?;
        if sealed.len() != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        receiving.open(sealed).map_err(io::Error::other)
    }

    /// Ends the session for both sides.
    pub fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(120);

    fn pair(secrets: [&'static [u8]; 2]) -> (Result<Session, AskError>, Result<Session, AskError>) {
        let sessions = SessionListener::open(([127, 0, 0, 1], 0).into()).expect("a port is free");
        let at = sessions.address().expect("it listens");
        let other = std::thread::spawn(move || Session::connect(at, secrets[1], SOON));
        let own = sessions.accept().expect("a connection").greet(secrets[0], SOON);
        (own, other.join().expect("no panic"))
    }

    #[test]
    fn both_sides_send_and_hear_the_end() {
        let (own, other) = pair([b"s"; 2]);
        let (own, other) = (own.expect("greeted"), other.expect("greeted"));
        let long = vec![7; 1 << 20];
        let writer = std::thread::spawn({
            let long = long.clone();
            move || {
                own.send(b"one").and_then(|()| own.send(&long)).expect("sent");
                own.receive().expect("an answer")
            }
        });
        assert_eq!(other.receive().expect("a message"), b"one");
        assert_eq!(other.receive().expect("a message"), long);
        other.send(b"").expect("sent");
        assert_eq!(writer.join().expect("no panic"), b"");
        assert!(other.receive().is_err(), "the other side is gone");
    }

    #[test]
    fn another_secret_is_refused_at_both_sides() {
        let (own, other) = pair([b"s", b"t"]);
        assert!(matches!(own, Err(AskError::Greeting { error: GreetingError::Proof, .. })));
        assert!(matches!(other, Err(AskError::Greeting { error: GreetingError::Refused(_), .. })));
    }

    #[test]
    fn what_is_no_message_ends_the_session() {
        let (own, other) = pair([b"s"; 2]);
        let (own, other) = (own.expect("greeted"), other.expect("greeted"));
        (&*own.stream)
            .write_all(&[20, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20])
            .expect("sent");
        assert!(other.receive().is_err());
        (&*own.stream).write_all(&[0xff; 4]).expect("sent");
        assert!(other.receive().is_err(), "longer than any");
    }
}
