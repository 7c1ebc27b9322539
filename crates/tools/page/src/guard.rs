// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules for each request: its origin, its session, its time; and the headers of each answer.
use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Time for a request's body and its answer's head.
pub const HANDLING: Duration = Duration::from_secs(15);
/// Header with a session's token.
pub const TOKEN: &str = "x-selvedge-token";

/// Address of the browser.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// A refusal, as JSON.
#[derive(Debug)]
pub struct Refusal(pub StatusCode, pub String);

impl Refusal {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Refusal {
        Refusal(status, text.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, axum::Json(json!({ "error": self.1 }))).into_response()
    }
}

/// Headers of all answers.
pub fn set_headers(headers: &mut HeaderMap, policy: &HeaderValue) {
    let fixed = [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-frame-options", "DENY"),
    ];
    for (name, value) in fixed {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy.clone());
}

/// Bounds the time of a request.
pub async fn in_time(request: Request<Body>, next: Next) -> Response {
    match tokio::time::timeout(HANDLING, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refusal::new(StatusCode::REQUEST_TIMEOUT, "the request took too long").into_response(),
    }
}

/// Refuses requests that change something and come from another site's page, and requests of names with which another
/// site could reach this server.
pub async fn same_site(request: Request<Body>, next: Next) -> Response {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD);
    let checked = if is_safe { Ok(()) } else { check_origin(request.headers()) };
    match checked {
        Ok(()) => next.run(request).await,
        Err(text) => Refusal::new(StatusCode::FORBIDDEN, text).into_response(),
    }
}

fn check_origin(headers: &HeaderMap) -> Result<(), &'static str> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    if text(HeaderName::from_static("sec-fetch-site")).is_some_and(|site| site != "same-origin") {
        return Err("a page of another site has sent this");
    }
    let host = text(header::HOST).unwrap_or("");
    let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, rest)| rest == host && !host.is_empty());
    if text(header::ORIGIN).is_some_and(|origin| !is_own(origin)) {
        return Err("a page of another site has sent this");
    }
    // A form of another site cannot send JSON.
    let is_json = text(header::CONTENT_TYPE).is_some_and(|kind| kind.split(';').next() == Some("application/json"));
    if is_json { Ok(()) } else { Err("requests are application/json") }
}

/// The value of a cookie.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value)
}

/// Whether two texts are equal, in a time that does not tell where they differ.
pub fn is_same(a: &str, b: &str) -> bool {
    crate::sessions::key(a) == crate::sessions::key(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn other_sites_are_refused() {
        let base = [("host", "a:7392"), ("content-type", "application/json; charset=utf-8")];
        let with = |more: &[(&str, &str)]| check_origin(&headers(&[&base, more].concat()));
        assert!(with(&[]).is_ok());
        assert!(with(&[("origin", "https://a:7392"), ("sec-fetch-site", "same-origin")]).is_ok());
        for more in [
            ("origin", "https://b"),
            ("origin", "https://a"),
            ("origin", "null"),
            ("origin", ""),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "none"),
        ] {
            assert!(with(&[more]).is_err(), "{more:?}");
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
            assert!(check_origin(&headers(&[("host", "a"), ("content-type", kind)])).is_err(), "{kind}");
        }
        assert!(check_origin(&headers(&[])).is_err());
    }

    #[test]
    fn cookies_are_found_among_others() {
        let all = headers(&[("cookie", "a=1; s=x=y;b"), ("cookie", "t=2")]);
        assert_eq!((cookie(&all, "s"), cookie(&all, "t"), cookie(&all, "b")), (Some("x=y"), Some("2"), None));
        assert!(is_same("a", "a") && !is_same("a", "b"));
    }
}
