// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Services: a program opens a service under a number that programs of other hosts know, like a port. They ask for it
//! and get bytes, for example the address of an endpoint.
//!
//! ```text
//! answering ── Hello: version, nonce ─────────────> asking
//! answering <── Question: nonce, proof ──────────── asking
//! answering ── Reply: bytes, proof ───────────────> asking      or Refusal: why
//! ```
//!
//! The key of both proofs comes from the job's secret, and the same key hides the bytes of the reply. A process without
//! a secret answers every process without one: its program has chosen a number that others can guess.
//!
//! Each service has a thread that sleeps until a process asks. It answers one process at a time, and waits at most
//! [`PATIENCE`] for its question.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use selvedge_os::shortage::{Need, Shortage};

use crate::handshake::Handshake;
use selvedge_os::forked::ParentOnly;

pub use crate::handshake::AskError;

/// The longest wait for the question of a connected process.
const PATIENCE: Duration = Duration::from_secs(2);

/// A service of this process. The drop ends it.
#[derive(Debug)]
pub struct Service {
    listener: Arc<ParentOnly<TcpListener>>,
    thread: Option<JoinHandle<()>>,
    /// The process that opened it: a forked child has no thread.
    process: u32,
}

impl Service {
    /// Sends these bytes (at most 1,024) to processes that ask at an address of this host. `Err` if the port is in use,
    /// or the system has no thread or socket.
    pub fn open(at: SocketAddr, secret: &[u8], bytes: &[u8]) -> io::Result<Service> {
        let listener = Arc::new(ParentOnly::new(TcpListener::bind(at)?));
        let (asked, secret, bytes) = (listener.clone(), secret.to_vec(), bytes.to_vec());
        let thread = selvedge_os::thread::spawn("selvedge-service", move || {
            // After its shutdown a listener fails to accept.
            while let Ok(connection) = accept(&asked) {
                if let Err(error) = answer(connection, &secret, &bytes) {
                    log::debug!("a process that asked for a service got no answer: {error}");
                }
            }
        })?;
        Ok(Service { listener, thread: Some(thread), process: std::process::id() })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
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

/// Returns the next connection. Errors of a connection are not errors of the listener.
pub(crate) fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    loop {
        match listener.accept() {
            Ok((connection, _)) => return Ok(connection),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Err(error),
            Err(error) if error.raw_os_error() == Some(libc::ENOTSOCK) => return Err(error),
            Err(error) => {
                log::debug!("a connection was not accepted: {error}");
                // Other processes wait for an answer no longer than their time limits.
                if let Some(shortage) = Shortage::of_io(&error, Need::Object("a connection")) {
                    shortage.report();
                }
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }
}

fn answer(connection: TcpStream, secret: &[u8], bytes: &[u8]) -> Result<(), AskError> {
    Handshake::new(connection, PATIENCE)?.answer(secret, bytes).map(|_| ())
}

/// Asks for the service of a number at a host.
pub fn ask(node: IpAddr, number: u16, secret: &[u8], patience: Duration) -> Result<Vec<u8>, AskError> {
    Handshake::connect(SocketAddr::new(node, number), patience)?.ask(secret).map(|(_, bytes)| bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::greeting::GreetingError;

    const SOON: Duration = Duration::from_secs(120);

    fn open(secret: &[u8]) -> (Service, IpAddr, u16) {
        let service = Service::open(([127, 0, 0, 1], 0).into(), secret, b"where it is").expect("a port is free");
        let at = service.address().expect("it listens");
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
        assert!(ask(node, number, b"of the job", SOON).is_ok(), "it still answers");
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
        assert!(matches!(error, AskError::Greeting { error: GreetingError::NotSelvedge, .. }), "{error}");
        other.join().expect("it ended");
    }
}
