// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a simulation that runs (`selvedge sim --watch`) or of this user's jobs (`selvedge top --html`), on a
//! loopback address.
//!
//! The address that is printed holds a secret, so other users of the computer cannot look.
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;

use crate::error::PageError;
use crate::guard::{self, Refusal};
use crate::hub::Event;
use crate::page::{JOBS_PAGE, Page, WATCH_PAGE};
use crate::server::on_thread;
use crate::{http, live, sessions};

const BEHIND_MAX: usize = 64;
/// Time that browsers have to take the last event.
const LAST: Duration = Duration::from_millis(500);

/// The subject of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A simulation that runs: events `structure`, `frames` and `end`, as the head of `simulated.js` says.
    Simulation,
    /// Jobs that run: events `jobs` and `end`, as the head of `jobs.js` says.
    Jobs,
}

struct Shared {
    page: &'static Page,
    secret: String,
    sender: broadcast::Sender<Event>,
    /// All that a browser that comes later needs.
    now: Mutex<Vec<Event>>,
}

/// A page that is served.
pub struct Watch {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Watch {
    /// Serves a page, on a thread of its own.
    pub fn start(address: SocketAddr, shown: Shown) -> Result<Watch, PageError> {
        if !address.ip().is_loopback() {
            return Err(PageError::WatchAddress(address));
        }
        let listen = |error| PageError::Listen { address, error };
        let listener = TcpListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let secret = sessions::secret()
            .ok_or_else(|| PageError::Thread(std::io::Error::other("the kernel gives no random numbers")))?;
        let page = match shown {
            Shown::Simulation => &*WATCH_PAGE,
            Shown::Jobs => &*JOBS_PAGE,
        };
        let shared = Shared { page, secret, sender: broadcast::Sender::new(BEHIND_MAX), now: Mutex::default() };
        let shared = Arc::new(shared);
        let app = shared.clone();
        on_thread(async move {
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => http::serve(listener, None, router(app)).await,
                Err(error) => log::warn!("page: {error}"),
            }
        })?;
        Ok(Watch { shared, address })
    }

    /// The page's address, with its secret.
    pub fn url(&self) -> String {
        format!("http://{}/?key={}", self.address, self.shared.secret)
    }

    /// Whether somebody looks.
    pub fn is_watched(&self) -> bool {
        self.shared.sender.receiver_count() > 0
    }

    /// Sends what is new. `now`: all that a browser that comes later needs, instead of what was sent before.
    pub fn send(&self, kind: &'static str, new: &Value, now: &[(&'static str, &Value)]) {
        let mut kept = self.shared.now();
        *kept = now.iter().map(|(kind, value)| Event::new(kind, value)).collect();
        // Nobody is no error.
        let _ = self.shared.sender.send(Event::new(kind, new));
    }

    /// Sends the last event, and waits a moment for those who look.
    pub fn end(self, kind: &'static str, last: &Value, now: &[(&'static str, &Value)]) {
        self.send(kind, last, now);
        let began = Instant::now();
        while self.is_watched() && began.elapsed() < LAST {
            std::thread::sleep(LAST / 10);
        }
    }
}

impl Shared {
    fn now(&self) -> MutexGuard<'_, Vec<Event>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize)]
struct Key {
    #[serde(default)]
    key: String,
}

fn router(shared: Arc<Shared>) -> Router {
    let policy = &shared.page.policy;
    Router::new()
        .route("/", get(page))
        .route("/api/events", get(events))
        .layer(middleware::from_fn(guard::same_site))
        .layer(middleware::from_fn(guard::in_time))
        .layer(middleware::map_response(async move |mut response: Response| {
            guard::set_headers(response.headers_mut(), policy);
            response
        }))
        .with_state(shared)
}

async fn page(State(shared): State<Arc<Shared>>) -> Html<&'static str> {
    Html(&shared.page.html)
}

async fn events(State(shared): State<Arc<Shared>>, Query(given): Query<Key>) -> Result<Response, Refusal> {
    if !guard::is_same(&given.key, &shared.secret) {
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, "open the address that the command has printed"));
    }
    let (now, later) = {
        let now = shared.now();
        (now.clone(), shared.sender.subscribe())
    };
    let events = tokio_stream::iter(now)
        .chain(BroadcastStream::new(later).map_while(Result::ok))
        .map(|event| Ok::<_, std::convert::Infallible>(live::sse(&event)));
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}
