// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The greeting of a service or a session ([`crate::services`] has the messages).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::greeting::{self, GreetingError, Hello, Key, LENGTH_BYTES, Nonce, Question, Reply};
use crate::random::fill_random;

/// Reasons for which no reply came.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("no answer at {at}: {error}")]
    Connection { at: SocketAddr, error: io::Error },
    #[error("at {at}: {error}")]
    Greeting { at: SocketAddr, error: GreetingError },
}

/// A connection in its greeting. Its messages must arrive by a deadline.
pub(crate) struct Handshake {
    connection: TcpStream,
    peer: SocketAddr,
    until: Instant,
}

impl Handshake {
    pub fn connect(at: SocketAddr, patience: Duration) -> Result<Handshake, AskError> {
        let connection =
            TcpStream::connect_timeout(&at, patience).map_err(|error| AskError::Connection { at, error })?;
        Handshake::new(connection, patience)
    }

    pub fn new(connection: TcpStream, patience: Duration) -> Result<Handshake, AskError> {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let peer = connection.peer_addr().map_err(|error| AskError::Connection { at: nowhere, error })?;
        Ok(Handshake { connection, peer, until: Instant::now() + patience })
    }

    /// Asks. Returns the key of the greeting and the bytes of the reply.
    pub fn ask(&mut self, secret: &[u8]) -> Result<(Key, Vec<u8>), AskError> {
        let at = self.peer;
        let wrong = |error| AskError::Greeting { at, error };
        let hello = Hello::decode(&self.receive()?).map_err(wrong)?;
        let nonce = self.nonce()?;
        let key = Key::new(0, secret, hello.nonce, nonce);
        self.send(&Question { nonce }.encode(&key))?;
        let reply = Reply::decode(&self.receive()?, &key).map_err(wrong)?;
        Ok((key, reply.bytes))
    }

    /// Greets a connecting process, and sends it bytes. Returns the key of the greeting.
    pub fn answer(&mut self, secret: &[u8], bytes: &[u8]) -> Result<Key, AskError> {
        let hello = Hello { nonce: self.nonce()? };
        self.send(&hello.encode())?;
        let question = self.receive()?;
        match Question::decode(&question, |nonce| Key::new(0, secret, hello.nonce, nonce)) {
            Ok(key) => self.send(&Reply { bytes: bytes.to_vec() }.encode(&key)).map(|()| key),
            Err(error) => {
                self.send(&greeting::refusal(&error))?;
                Err(AskError::Greeting { at: self.peer, error })
            }
        }
    }

    /// Returns the connection, for use after the greeting.
    pub fn into_connection(self) -> (TcpStream, SocketAddr) {
        (self.connection, self.peer)
    }

    fn failed(&self, error: io::Error) -> AskError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => AskError::Greeting { at: self.peer, error: GreetingError::Ended },
            _ => AskError::Connection { at: self.peer, error },
        }
    }

    fn nonce(&self) -> Result<Nonce, AskError> {
        let mut nonce = [0; 32];
        fill_random(&mut nonce).map_err(|error| self.failed(error))?;
        Ok(nonce)
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }

    fn send(&mut self, message: &[u8]) -> Result<(), AskError> {
        // A few dozen bytes, which the kernel takes at once.
        let sent = self.left().and_then(|left| {
            self.connection.set_write_timeout(left)?;
            self.connection.write_all(message)
        });
        sent.map_err(|error| self.failed(error))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), AskError> {
        let mut filled = 0;
        while filled < bytes.len() {
            let read = self.left().and_then(|left| {
                self.connection.set_read_timeout(left)?;
                self.connection.read(&mut bytes[filled..])
            });
            match read {
                Ok(0) => return Err(self.failed(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<u8>, AskError> {
        let mut length = [0; LENGTH_BYTES];
        self.fill(&mut length)?;
        let length = greeting::length_of(&length).unwrap_or(Err(GreetingError::Malformed));
        let length = length.map_err(|error| AskError::Greeting { at: self.peer, error })?;
        let mut message = vec![0; length];
        self.fill(&mut message)?;
        Ok(message)
    }
}
