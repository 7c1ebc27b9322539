// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The aggregation manager as a service: sessions report nodes and jobs to it, and it carries out the actions of the
//! [`Manager`](selvedge_manager::Manager).
//!
//! A place identifies a host. The host gets the next number when the manager first sees a node or a process of it. Its
//! aggregation node exists as long as its session. A job begins when the first of its processes asks for its share, and
//! ends with the last of their sessions.
//!
//! | file | subject |
//! |---|---|
//! | [`settings`] | settings, and errors at the start |
//! | [`state`] | the state, and its changes |
//! | [`report`] | the state as text |
//! | [`requests`] | the threads: sessions with nodes, processes and users |
//!
//! Each file uses only files above it.
//!
//! Invariant: a node that sends nothing for the time of silence is lost.
//!
//! After a restart of the service nodes and processes reconnect. Those that have not reconnected after
//! [`Settings::grace`] are lost, and their jobs end.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use log::warn;
use selvedge_net::session::SessionListener;

mod report;
mod requests;
mod settings;
mod state;

use requests::RequestHandler;
pub use settings::{GRACE, ServiceError, Settings};
use state::State;

/// The service.
pub struct Service {
    sessions: SessionListener,
    handler: Arc<RequestHandler>,
}

impl Service {
    /// Starts to listen, with the stored state, if any.
    pub fn open(at: SocketAddr, settings: Settings) -> Result<Service, ServiceError> {
        let settings = Arc::new(settings);
        let state = State::new(settings.clone())?;
        let sessions = SessionListener::open(at).map_err(|error| ServiceError::Listen { at, error })?;
        let is_back = !state.hosts.is_empty();
        let grace_until = is_back.then(|| Instant::now() + settings.grace);
        let handler =
            Arc::new(RequestHandler { settings, state: Mutex::new(state), grace_until, returned: Condvar::new() });
        if is_back {
            let handler = handler.clone();
            start("selvedge-return", move || {
                std::thread::sleep(handler.settings.grace);
                handler.end_grace_period();
            });
        }
        Ok(Service { sessions, handler })
    }

    /// The address of the listener.
    pub fn at(&self) -> io::Result<SocketAddr> {
        self.sessions.address()
    }

    /// Serves until the listener fails.
    pub fn run(self) -> io::Error {
        loop {
            match self.sessions.accept() {
                Ok(visitor) => {
                    let handler = self.handler.clone();
                    start("selvedge-session", move || handler.receive(visitor));
                }
                Err(error) => return error,
            }
        }
    }
}

/// Starts a thread. If none can be started, `work` is dropped, which ends the session that it holds.
fn start(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(work) {
        warn!("a thread cannot be started: {error}");
    }
}
