// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page and the JSON API of a live fabric.
//!
//! | path | answer |
//! |---|---|
//! | `GET /` | the page, which anybody may read: it holds no data |
//! | `POST /api/login`, `/api/logout`, `GET /api/session` | a session in a cookie, its token, the user's role |
//! | `GET /api/topology`, `/api/status`, `/api/ports?host=`, `/api/log` | as the daemon says |
//! | `GET /api/routes?from=&to=`, `/api/load?top=` or `?host=`, `/api/nics` | the same |
//! | `GET /api/nics/links?host=&nic=` | the links of a NIC's process |
//! | `GET /api/events` | server-sent events: `daemon`, `topology`, `load`, `log` |
//! | `POST /api/link`, `/api/restart` | an operator's act |
//! | `GET /metrics` | Prometheus text 0.0.4, with a session or a user's name and password |
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::extract::{DefaultBodyLimit, Json, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router, middleware};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use selvedge_daemon::protocol::{Act, Answer, LinksOf, LoadSeries, NicView, Request};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;

use crate::ask::AskError;
use crate::attempts::Attempts;
use crate::guard::{self, Peer, Refusal};
use crate::hub::Hub;
use crate::metrics;
use crate::page::LIVE_PAGE;
use crate::sessions::{Session, Sessions, key};
use crate::users::{PASSWORD_BYTES_MAX, Role, Stamp, User, Users, verify};

const BODY_BYTES_MAX: usize = 4096;
/// Browsers that may wait for the hash of a password.
const LOGINS_WAITING_MAX: usize = 8;
/// Hosts that are asked for their NICs.
const NIC_HOSTS_MAX: usize = 64;
/// Wrong names and passwords of programs that are known again.
const REFUSED_KEPT: usize = 64;
const TOP_DEFAULT: usize = 8;

type Answered = Result<Json<Value>, Refusal>;

/// The state of the server.
pub struct App {
    path: PathBuf,
    users: Mutex<Users>,
    sessions: Mutex<Sessions>,
    attempts: Mutex<Attempts>,
    programs: Mutex<Programs>,
    /// Programs have attempts of their own: one with an old password must not lock those at browsers out, who often come
    /// from the same address.
    program_attempts: Mutex<Attempts>,
    hashing: Semaphore,
    waiting: Semaphore,
    hub: Arc<Hub>,
    cookie: String,
    is_secure: bool,
    began: Instant,
    logins_refused: AtomicU64,
    acts: AtomicU64,
}

/// Names and passwords of programs, as hashes: they come with each request. A change of the users file empties it.
#[derive(Default)]
struct Programs {
    /// The last that were right.
    right: Option<[u8; 32]>,
    /// The last that were wrong, at most [`REFUSED_KEPT`].
    refused: VecDeque<[u8; 32]>,
}

impl Programs {
    /// Whether they are right, if that is known.
    fn known(&self, hash: &[u8; 32]) -> Option<bool> {
        let is_right = self.right.as_ref() == Some(hash);
        (is_right || self.refused.contains(hash)).then_some(is_right)
    }

    fn refuse(&mut self, hash: [u8; 32]) {
        if self.refused.contains(&hash) {
            return;
        }
        if self.refused.len() >= REFUSED_KEPT {
            self.refused.pop_front();
        }
        self.refused.push_back(hash);
    }
}

pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/api/session", get(session))
        .route("/api/login", post(login))
        .route("/api/logout", post(logout))
        .route("/api/topology", get(topology))
        .route("/api/status", get(ports))
        .route("/api/ports", get(ports))
        .route("/api/log", get(log))
        .route("/api/routes", get(routes))
        .route("/api/load", get(load))
        .route("/api/nics", get(nics))
        .route("/api/nics/links", get(nic_links))
        .route("/api/events", get(events))
        .route("/api/link", post(link))
        .route("/api/restart", post(restart))
        .route("/metrics", get(metrics_text))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(guard::same_site))
        .layer(middleware::from_fn(guard::in_time))
        .layer(middleware::map_response(async |mut response: Response| {
            guard::set_headers(response.headers_mut(), &LIVE_PAGE.policy);
            response
        }))
        .with_state(app)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl App {
    pub fn new(path: PathBuf, users: Users, hub: Arc<Hub>, port: u16, is_secure: bool) -> App {
        // Cookies do not know ports: two daemons of one host need two names.
        let cookie = format!("{}selvedge-{port}", if is_secure { "__Host-" } else { "" });
        App {
            path,
            users: Mutex::new(users),
            sessions: Mutex::default(),
            attempts: Mutex::new(Attempts::new(0)),
            programs: Mutex::default(),
            program_attempts: Mutex::new(Attempts::new(0)),
            hashing: Semaphore::new(1),
            waiting: Semaphore::new(LOGINS_WAITING_MAX),
            hub,
            cookie,
            is_secure,
            began: Instant::now(),
            logins_refused: AtomicU64::new(0),
            acts: AtomicU64::new(0),
        }
    }

    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Reads the users file again, if it has changed.
    fn refresh_users(&self) {
        let mut users = locked(&self.users);
        if Stamp::of(&self.path) == Some(users.stamp()) {
            return;
        }
        match Users::read(&self.path) {
            Ok(new) => {
                *users = new;
                locked(&self.sessions).keep(&users);
                *locked(&self.programs) = Programs::default();
            }
            // The users stay as they were: a file that is being written must not end sessions.
            Err(error) => log::warn!("page: {error}; the users stay as they were"),
        }
    }

    fn session(&self, headers: &HeaderMap) -> Result<Session, Refusal> {
        self.refresh_users();
        let secret = guard::cookie(headers, &self.cookie);
        let found = secret.and_then(|secret| locked(&self.sessions).find(self.now_ms(), secret));
        found.ok_or_else(|| Refusal::new(StatusCode::UNAUTHORIZED, "log in"))
    }

    /// The session of a user who may act, and whose page has sent this.
    fn operator(&self, headers: &HeaderMap) -> Result<Session, Refusal> {
        let session = self.session(headers)?;
        let token = headers.get(guard::TOKEN).and_then(|value| value.to_str().ok()).unwrap_or("");
        if !guard::is_same(token, &session.token) {
            let text = format!("the header {} does not hold the session's token", guard::TOKEN);
            return Err(Refusal::new(StatusCode::FORBIDDEN, text));
        }
        if session.role < Role::Operator {
            let text = format!("{} is a viewer; only operators act", session.name);
            return Err(Refusal::new(StatusCode::FORBIDDEN, text));
        }
        Ok(session)
    }

    /// The user with this name and password.
    async fn check(
        &self,
        attempts: &Mutex<Attempts>,
        from: Peer,
        name: &str,
        password: String,
    ) -> Result<User, Refusal> {
        self.refresh_users();
        let refused = |wait_s: u64| {
            let text = format!("too many attempts to log in; try again in {wait_s} s");
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, text)
        };
        let waiting = self.waiting.try_acquire();
        let _waiting =
            waiting.map_err(|_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many log in at once; try again"))?;
        locked(attempts).take(self.now_ms(), from.0).map_err(refused)?;
        let user = locked(&self.users).get(name).cloned();
        let busy = |_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server ends");
        let _turn = self.hashing.acquire().await.map_err(busy)?;
        let candidate = user.clone().filter(|_| password.len() <= PASSWORD_BYTES_MAX);
        let compared = tokio::task::spawn_blocking(move || {
            let is_right = verify(candidate.as_ref(), password.as_bytes());
            give_memory_back();
            is_right
        });
        let is_right = compared.await.unwrap_or(false);
        match user.filter(|_| is_right) {
            Some(user) => {
                locked(attempts).succeeded(from.0);
                Ok(user)
            }
            None => {
                self.logins_refused.fetch_add(1, Ordering::Relaxed);
                let shown: String = name.chars().take(64).collect();
                log::warn!("page: {}: wrong name or password, as {shown:?}", from.0);
                Err(Refusal::new(StatusCode::UNAUTHORIZED, "wrong name or password"))
            }
        }
    }

    fn set_cookie(&self, secret: &str, is_over: bool) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let over = if is_over { "; Max-Age=0" } else { "" };
        let text = format!("{}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}{over}", self.cookie);
        // A secret is letters, digits, `-` and `_`.
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }

    async fn ask(&self, request: &Request) -> Result<Answer, Refusal> {
        self.hub.ask.ask(request).await.map_err(refusal)
    }

    /// Asks the daemon of a host, or of this one if it is empty.
    async fn ask_at(&self, host: &str, request: Request) -> Result<Answer, Refusal> {
        match host {
            "" => self.ask(&request).await,
            _ => self.ask(&Request::At { host: host.to_owned(), request: Box::new(request) }).await,
        }
    }

    /// Carries an act out, in the name of its user.
    async fn act(&self, from: Peer, session: &Session, host: &str, request: Request) -> Answered {
        let by = Request::By { user: session.name.clone(), request: Box::new(request.clone()) };
        let answer = self.ask_at(host, by).await;
        self.acts.fetch_add(1, Ordering::Relaxed);
        let said = match &answer {
            Ok(Answer::Done(text)) => text.clone(),
            Ok(_) => AskError::Other.to_string(),
            Err(Refusal(_, reason)) => format!("refused: {reason}"),
        };
        log::info!(
            "page: {} ({}): {}: {said}",
            session.name,
            from.0,
            serde_json::to_string(&request).unwrap_or_default()
        );
        match answer? {
            Answer::Done(text) => Ok(Json(json!({ "done": text }))),
            _ => Err(refusal(AskError::Other)),
        }
    }
}

/// Returns the megabytes of a hash to the kernel: the C library would keep them for the next one.
fn give_memory_back() {
    // SAFETY: the function takes a number, and only returns pages that nothing uses.
    unsafe { libc::malloc_trim(0) };
}

fn refusal(error: AskError) -> Refusal {
    let status = match error {
        AskError::Refused(_) => StatusCode::BAD_REQUEST,
        _ => StatusCode::BAD_GATEWAY,
    };
    Refusal::new(status, error.to_string())
}

fn other(_: Answer) -> Refusal {
    refusal(AskError::Other)
}

async fn page() -> Html<&'static str> {
    Html(&LIVE_PAGE.html)
}

fn described(session: &Session) -> Value {
    json!({ "name": session.name, "role": session.role, "token": session.token })
}

async fn session(State(app): State<Arc<App>>, headers: HeaderMap) -> Answered {
    Ok(Json(described(&app.session(&headers)?)))
}

#[derive(Deserialize)]
struct Login {
    name: String,
    password: String,
}

async fn login(
    State(app): State<Arc<App>>,
    Extension(from): Extension<Peer>,
    Json(given): Json<Login>,
) -> Result<Response, Refusal> {
    let user = app.check(&app.attempts, from, &given.name, given.password).await?;
    let opened = locked(&app.sessions).open(app.now_ms(), &given.name, &user);
    let (secret, session) =
        opened.ok_or_else(|| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the kernel gives no random numbers"))?;
    log::info!("page: {} ({}) has logged in", session.name, from.0);
    Ok(([(header::SET_COOKIE, app.set_cookie(&secret, false))], Json(described(&session))).into_response())
}

async fn logout(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    if let Some(secret) = guard::cookie(&headers, &app.cookie) {
        locked(&app.sessions).close(secret);
    }
    ([(header::SET_COOKIE, app.set_cookie("", true))], Json(json!({}))).into_response()
}

async fn topology(State(app): State<Arc<App>>, headers: HeaderMap) -> Answered {
    app.session(&headers)?;
    match app.ask(&Request::Topology).await? {
        Answer::Topology(topology) => Ok(Json(json!(topology))),
        answer => Err(other(answer)),
    }
}

#[derive(Deserialize)]
struct OfHost {
    #[serde(default)]
    host: String,
}

async fn ports(State(app): State<Arc<App>>, headers: HeaderMap, Query(of): Query<OfHost>) -> Answered {
    app.session(&headers)?;
    match app.ask_at(&of.host, Request::Status).await? {
        Answer::Status(status) => Ok(Json(json!(status))),
        answer => Err(other(answer)),
    }
}

async fn log(State(app): State<Arc<App>>, headers: HeaderMap, Query(of): Query<OfHost>) -> Answered {
    app.session(&headers)?;
    match app.ask_at(&of.host, Request::Log { follow: false }).await? {
        Answer::Log(lines) => Ok(Json(json!(lines))),
        answer => Err(other(answer)),
    }
}

#[derive(Deserialize)]
struct Pair {
    from: String,
    to: String,
}

async fn routes(State(app): State<Arc<App>>, headers: HeaderMap, Query(pair): Query<Pair>) -> Answered {
    app.session(&headers)?;
    match app.ask(&Request::Routes { from: pair.from, to: pair.to }).await? {
        Answer::Route(route) => Ok(Json(json!(route))),
        answer => Err(other(answer)),
    }
}

#[derive(Deserialize)]
struct LoadOf {
    host: Option<String>,
    top: Option<usize>,
}

/// Loads over the last minutes: those of a host, or those of the busiest ends of links.
async fn load(State(app): State<Arc<App>>, headers: HeaderMap, Query(of): Query<LoadOf>) -> Answered {
    app.session(&headers)?;
    let Answer::Load(mut series) = app.ask(&Request::Load).await? else { return Err(refusal(AskError::Other)) };
    match of.host {
        Some(host) => series.retain(|one| one.host == host || one.name == host),
        None => {
            series.retain(|one| one.port.is_some());
            let sent = |one: &LoadSeries| one.sent_bytes_s.iter().fold(0u64, |sum, &sent| sum.saturating_add(sent));
            series.sort_by_cached_key(|one| std::cmp::Reverse(sent(one)));
            series.truncate(of.top.unwrap_or(TOP_DEFAULT).min(64));
        }
    }
    Ok(Json(json!(series)))
}

/// A NIC, and the number of its host.
fn nic_at(nic: &NicView, host: &str) -> Value {
    let mut value = json!(nic);
    value["at"] = host.into();
    value
}

/// The NICs of this host and of others, with the sums of their processes' links; hosts that have not answered are named.
async fn nics(State(app): State<Arc<App>>, headers: HeaderMap) -> Answered {
    app.session(&headers)?;
    let Answer::Topology(topology) = app.ask(&Request::Topology).await? else {
        return Err(refusal(AskError::Other));
    };
    let mut tasks = Vec::new();
    let left_out = topology.hosts.len().saturating_sub(NIC_HOSTS_MAX);
    for host in topology.hosts.into_iter().take(NIC_HOSTS_MAX) {
        let app = app.clone();
        tasks.push(tokio::spawn(async move {
            let id = if host.is_self { "" } else { host.host.as_str() };
            let answer = app.ask_at(id, Request::Nics { links: LinksOf::Totals }).await;
            (host, answer)
        }));
    }
    let (mut nics, mut silent) = (Vec::new(), Vec::new());
    for task in tasks {
        match task.await {
            Ok((host, Ok(Answer::Nics(found)))) => nics.extend(found.iter().map(|nic| nic_at(nic, &host.host))),
            Ok((host, Err(Refusal(_, reason)))) => silent.push(json!({ "name": host.name, "reason": reason })),
            _ => {}
        }
    }
    Ok(Json(json!({ "nics": nics, "silent": silent, "left_out": left_out })))
}

#[derive(Deserialize)]
struct OfNic {
    #[serde(default)]
    host: String,
    nic: u64,
}

/// The links of a NIC's process, which stand with the first NIC of the process.
async fn nic_links(State(app): State<Arc<App>>, headers: HeaderMap, Query(of): Query<OfNic>) -> Answered {
    app.session(&headers)?;
    let Answer::Nics(nics) = app.ask_at(&of.host, Request::Nics { links: LinksOf::All }).await? else {
        return Err(refusal(AskError::Other));
    };
    let found = nics.iter().find(|nic| nic.id == of.nic);
    let gone = || Refusal::new(StatusCode::NOT_FOUND, format!("NIC {} is not registered any more", of.nic));
    found.map(|nic| Json(nic_at(nic, &of.host))).ok_or_else(gone)
}

async fn events(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, Refusal> {
    app.session(&headers)?;
    let (now, later) = app.hub.follow();
    // The stream ends with its session, and when the browser has fallen behind.
    let events = tokio_stream::iter(now)
        .chain(BroadcastStream::new(later).map_while(Result::ok))
        .take_while(move |_| app.session(&headers).is_ok())
        .map(|event| Ok::<_, std::convert::Infallible>(sse(&event)));
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

pub fn sse(event: &crate::hub::Event) -> axum::response::sse::Event {
    axum::response::sse::Event::default().event(event.kind).data(&event.data)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkAct {
    /// Name or number; empty: this host.
    #[serde(default)]
    host: String,
    port: u16,
    act: Act,
}

async fn link(
    State(app): State<Arc<App>>,
    Extension(from): Extension<Peer>,
    headers: HeaderMap,
    Json(wanted): Json<LinkAct>,
) -> Answered {
    let session = app.operator(&headers)?;
    let request = Request::Link { port: format!(":{}", wanted.port), act: wanted.act };
    app.act(from, &session, &wanted.host, request).await
}

async fn restart(
    State(app): State<Arc<App>>,
    Extension(from): Extension<Peer>,
    headers: HeaderMap,
    Json(of): Json<OfHost>,
) -> Answered {
    let session = app.operator(&headers)?;
    app.act(from, &session, &of.host, Request::Restart).await
}

/// Prometheus sends a name and a password with each request: they are compared once, and then by a hash.
async fn program(app: &App, from: Peer, headers: &HeaderMap) -> Result<(), Refusal> {
    let unknown = || Refusal::new(StatusCode::UNAUTHORIZED, "give a user's name and password");
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).ok_or_else(unknown)?;
    let encoded = given.strip_prefix("Basic ").ok_or_else(unknown)?;
    app.refresh_users();
    let hash = key(encoded);
    match locked(&app.programs).known(&hash) {
        Some(true) => return Ok(()),
        Some(false) => {
            app.logins_refused.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, "wrong name or password"));
        }
        None => {}
    }
    let decoded = BASE64_STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.ok_or_else(unknown)?;
    let (name, password) = decoded.split_once(':').ok_or_else(unknown)?;
    let stamp = locked(&app.users).stamp();
    let checked = app.check(&app.program_attempts, from, name, password.to_owned()).await;
    // The users may have changed meanwhile.
    let users = locked(&app.users);
    if users.stamp() == stamp {
        match &checked {
            Ok(_) => locked(&app.programs).right = Some(hash),
            Err(Refusal(StatusCode::UNAUTHORIZED, _)) => locked(&app.programs).refuse(hash),
            Err(_) => {}
        }
    }
    checked.map(|_| ())
}

async fn metrics_text(
    State(app): State<Arc<App>>,
    Extension(from): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    if app.session(&headers).is_err() {
        program(&app, from, &headers).await.map_err(|refusal| {
            let asks = [(header::WWW_AUTHENTICATE, "Basic realm=\"selvedge\", charset=\"UTF-8\"")];
            (asks, refusal).into_response()
        })?;
    }
    let (topology, status) = (app.ask(&Request::Topology).await, app.ask(&Request::Status).await);
    let nics = app.ask(&Request::Nics { links: LinksOf::Totals }).await;
    let topology = match topology.map_err(IntoResponse::into_response)? {
        Answer::Topology(topology) => topology,
        answer => return Err(other(answer).into_response()),
    };
    let status = match status.map_err(IntoResponse::into_response)? {
        Answer::Status(status) => status,
        answer => return Err(other(answer).into_response()),
    };
    let nics = match nics.map_err(IntoResponse::into_response)? {
        Answer::Nics(nics) => nics,
        answer => return Err(other(answer).into_response()),
    };
    let page = metrics::OfPage {
        logins_refused: app.logins_refused.load(Ordering::Relaxed),
        acts: app.acts.load(Ordering::Relaxed),
    };
    let kind = [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
    Ok((kind, metrics::text(&topology, &status, &nics, &page)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_wrong_passwords_of_programs_are_known() {
        let mut programs = Programs { right: Some([255; 32]), ..Programs::default() };
        for last in 0..=REFUSED_KEPT as u8 {
            programs.refuse([last; 32]);
            programs.refuse([last; 32]);
        }
        assert_eq!(programs.refused.len(), REFUSED_KEPT);
        assert_eq!(
            [255, 0, 1, 64, 65].map(|hash| programs.known(&[hash; 32])),
            [Some(true), None, Some(false), Some(false), None]
        );
    }
}
