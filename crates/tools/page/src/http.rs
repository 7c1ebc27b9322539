// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections of browsers: accepted, bounded, with or without TLS.
//!
//! # Invariants
//!
//! 1. There are at most [`CONNECTIONS_MAX`] connections, and [`CONNECTIONS_PER_ADDRESS`] of one address; others are
//!    closed at once.
//! 2. Handshake and headers must arrive within [`HANDSHAKE`] and [`HEADERS`], bodies within [`crate::guard::HANDLING`]. A
//!    browser that takes no data is dropped by the kernel after [`UNREAD_MS`].
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::guard::Peer;

const CONNECTIONS_MAX: usize = 128;
const CONNECTIONS_PER_ADDRESS: usize = 32;
const HANDSHAKE: Duration = Duration::from_secs(5);
const HEADERS: Duration = Duration::from_secs(20);
const HEADER_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
const UNREAD_MS: u32 = 20_000;
/// First byte of a TLS handshake.
const TLS_RECORD: u8 = 0x16;

type Counts = Arc<Mutex<BTreeMap<IpAddr, usize>>>;

/// A connection's place.
struct Place(Counts, IpAddr);

impl Place {
    fn take(counts: &Counts, address: IpAddr) -> Option<Place> {
        let mut by_address = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = by_address.values().sum();
        let own = by_address.get(&address).copied().unwrap_or(0);
        if all >= CONNECTIONS_MAX || own >= CONNECTIONS_PER_ADDRESS {
            return None;
        }
        by_address.insert(address, own + 1);
        Some(Place(counts.clone(), address))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_address = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match by_address.get(&self.1).copied() {
            Some(own) if own > 1 => by_address.insert(self.1, own - 1),
            _ => by_address.remove(&self.1),
        };
    }
}

/// Serves a router until the runtime ends.
pub async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, router: Router) {
    let counts = Counts::default();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // Such as no descriptors: others may end meanwhile.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(place) = Place::take(&counts, from.ip().to_canonical()) else { continue };
        let (tls, router) = (tls.clone(), router.clone());
        tokio::spawn(async move {
            let _place = place;
            connection(stream, from, tls, router).await;
        });
    }
}

async fn connection(mut stream: TcpStream, from: SocketAddr, tls: Option<TlsAcceptor>, router: Router) {
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD_MS);
    let Some(tls) = tls else { return exchange(stream, from, router).await };
    let mut first = [0];
    match timeout(HANDSHAKE, stream.peek(&mut first)).await {
        Ok(Ok(1)) if first[0] == TLS_RECORD => {}
        Ok(Ok(1)) => {
            let text = "This page needs HTTPS: write https:// before its address.\n";
            let (head, length) = ("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n", text.len());
            let answer = format!("{head}content-type: text/plain\r\ncontent-length: {length}\r\n\r\n{text}");
            let _ = timeout(HANDSHAKE, stream.write_all(answer.as_bytes())).await;
            return;
        }
        _ => return,
    }
    if let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await {
        exchange(stream, from, router).await;
    }
}

async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, from: SocketAddr, router: Router) {
    let router = router.layer(Extension(Peer(from.ip().to_canonical())));
    let service = TowerToHyperService::new(router);
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        log::debug!("page: {from}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_come_back() {
        let counts = Counts::default();
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let mut own: Vec<Place> = (0..).map_while(|_| Place::take(&counts, address(1))).collect();
        assert_eq!(own.len(), CONNECTIONS_PER_ADDRESS);
        let others: Vec<Place> = (2..200).filter_map(|last| Place::take(&counts, address(last))).collect();
        assert_eq!(own.len() + others.len(), CONNECTIONS_MAX);
        own.pop();
        assert!(Place::take(&counts, address(250)).is_some());
        drop((own, others));
        assert!(counts.lock().unwrap().is_empty());
    }
}
