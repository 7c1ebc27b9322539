// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Services: a program opens something under a number that programs of other hosts know, like a port, and those ask for it. What they get
//! are bytes, for example the address of an endpoint.
//!
//! ```text
//! answering ── Hello: version, nonce ─────────────> asking
//! answering <── Question: nonce, proof ──────────── asking
//! answering ── Reply: bytes, proof ───────────────> asking      or Refusal: why
//! ```
//!
//! The key of both proofs comes from the job's secret, and the same key hides the bytes of the reply. A process without a secret answers
//! every process without one: its program has chosen a number that others can guess.
//!
//! Each service has a thread that sleeps until somebody asks. Those that ask get their answers one after the other, and each has
//! [`PATIENCE`] to ask.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::forked::Own;
use crate::greeting::{self, GreetingError, Hello, Key, LENGTH_BYTES, Nonce, Question, Reply};
use crate::links::fill_random;
use crate::progress;

/// How long the answering side waits for one that asks.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("nobody answers at {at}: {error}")]
    Connection { at: SocketAddr, error: io::Error },
    #[error("at {at}: {error}")]
    Greeting { at: SocketAddr, error: GreetingError },
}

/// A service of this process. It ends when this is dropped.
#[derive(Debug)]
pub struct Service {
    listener: Arc<Own<TcpListener>>,
    thread: Option<JoinHandle<()>>,
    /// A forked child has no thread.
    process: u32,
}

impl Service {
    /// Answers with these bytes (at most 1,024) to those who ask at an address of this host. `Err`: the port is in use, or the system has no
    /// thread or socket.
    pub fn open(at: SocketAddr, secret: &[u8], bytes: &[u8]) -> io::Result<Service> {
        let listener = Arc::new(Own::new(TcpListener::bind(at)?));
        let (asked, secret, bytes) = (listener.clone(), secret.to_vec(), bytes.to_vec());
        let thread = progress::spawn("selvedge-service", move || {
            // Shut down, a listener accepts with an error.
            while let Ok(connection) = accept(&asked) {
                if let Err(error) = answer(connection, &secret, &bytes) {
                    log::debug!("somebody asked for a service and got no answer: {error}");
                }
            }
        })?;
        Ok(Service { listener, thread: Some(thread), process: std::process::id() })
    }

    /// Where it listens.
    pub fn at(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        let ended = rustix::net::shutdown(&**self.listener, rustix::net::Shutdown::Both);
        if let (Ok(()), Some(thread)) = (ended, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// The next connection. Errors of a connection are no errors of the listener.
fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    loop {
        match listener.accept() {
            Ok((connection, _)) => return Ok(connection),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Err(error),
            Err(error) if error.raw_os_error() == Some(libc::ENOTSOCK) => return Err(error),
            Err(error) => {
                log::debug!("a connection was not accepted: {error}");
                // Descriptors may have run out.
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }
}

fn answer(connection: TcpStream, secret: &[u8], bytes: &[u8]) -> Result<(), AskError> {
    let mut talk = Talk::new(connection, PATIENCE)?;
    let hello = Hello { nonce: talk.nonce()? };
    talk.send(&hello.encode())?;
    let question = talk.receive()?;
    match Question::decode(&question, |nonce| Key::new(0, secret, hello.nonce, nonce)) {
        Ok(key) => talk.send(&Reply { bytes: bytes.to_vec() }.encode(&key)),
        Err(error) => {
            talk.send(&greeting::refusal(&error))?;
            Err(AskError::Greeting { at: talk.with, error })
        }
    }
}

/// Asks for the service of a number at a host.
pub fn ask(node: IpAddr, number: u16, secret: &[u8], patience: Duration) -> Result<Vec<u8>, AskError> {
    let at = SocketAddr::new(node, number);
    let wrong = |error| AskError::Greeting { at, error };
    let connection = TcpStream::connect_timeout(&at, patience).map_err(|error| AskError::Connection { at, error })?;
    let mut talk = Talk::new(connection, patience)?;
    let hello = Hello::decode(&talk.receive()?).map_err(wrong)?;
    let nonce = talk.nonce()?;
    let key = Key::new(0, secret, hello.nonce, nonce);
    talk.send(&Question { nonce }.encode(&key))?;
    Ok(Reply::decode(&talk.receive()?, &key).map_err(wrong)?.bytes)
}

/// A connection whose messages have to be there by some time.
struct Talk {
    connection: TcpStream,
    with: SocketAddr,
    until: Instant,
}

impl Talk {
    fn new(connection: TcpStream, patience: Duration) -> Result<Talk, AskError> {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let with = connection.peer_addr().map_err(|error| AskError::Connection { at: nowhere, error })?;
        Ok(Talk { connection, with, until: Instant::now() + patience })
    }

    fn failed(&self, error: io::Error) -> AskError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => AskError::Greeting { at: self.with, error: GreetingError::Ended },
            _ => AskError::Connection { at: self.with, error },
        }
    }

    fn nonce(&self) -> Result<Nonce, AskError> {
        let mut nonce = [0; 32];
        fill_random(&mut nonce).map_err(|error| self.failed(error))?;
        Ok(nonce)
    }

    /// The time that is left.
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

    /// The next message, without its length.
    fn receive(&mut self) -> Result<Vec<u8>, AskError> {
        let mut length = [0; LENGTH_BYTES];
        self.fill(&mut length)?;
        let length = greeting::length_of(&length).unwrap_or(Err(GreetingError::Malformed));
        let length = length.map_err(|error| AskError::Greeting { at: self.with, error })?;
        let mut message = vec![0; length];
        self.fill(&mut message)?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn open(secret: &[u8]) -> (Service, IpAddr, u16) {
        let service = Service::open(([127, 0, 0, 1], 0).into(), secret, b"where it is").expect("a port is free");
        let at = service.at().expect("it listens");
        (service, at.ip(), at.port())
    }

    #[test]
    fn who_has_the_secret_gets_the_bytes() {
        for secret in [&b""[..], b"of the job"] {
            let (service, node, number) = open(secret);
            for _ in 0..3 {
                assert_eq!(ask(node, number, secret, SOON).expect("an answer"), b"where it is");
            }
            drop(service);
            assert!(matches!(ask(node, number, secret, SOON), Err(AskError::Connection { .. })), "it has ended");
        }
    }

    #[test]
    fn who_has_another_secret_is_refused() {
        let (_service, node, number) = open(b"of the job");
        for secret in [&b""[..], b"of another"] {
            let error = ask(node, number, secret, SOON).expect_err("no answer");
            assert!(matches!(error, AskError::Greeting { error: GreetingError::Refused(_), .. }), "{error}");
        }
        assert!(ask(node, number, b"of the job", SOON).is_ok(), "it goes on");
    }

    #[test]
    fn who_says_nothing_or_nonsense_holds_up_nobody_for_long() {
        let (_service, node, number) = open(b"");
        let silent = TcpStream::connect((node, number)).expect("it listens");
        let mut noisy = TcpStream::connect((node, number)).expect("it listens");
        noisy.write_all(&[0xff; 100]).expect("it is sent");
        assert_eq!(ask(node, number, b"", SOON).expect("an answer"), b"where it is");
        drop((silent, noisy));
    }

    #[test]
    fn a_port_in_use_is_an_error() {
        let (_service, node, number) = open(b"");
        assert!(Service::open((node, number).into(), b"", b"x").is_err());
    }

    #[test]
    fn what_is_no_service_is_told_from_one() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let at = listener.local_addr().expect("it listens");
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(b"220 mail.example ESMTP\r\n").expect("it is sent");
        });
        let error = ask(at.ip(), at.port(), b"", SOON).expect_err("no answer");
        assert!(matches!(error, AskError::Greeting { error: GreetingError::Stranger, .. }), "{error}");
        other.join().expect("it ended");
    }
}
