// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of names when processes lie. All processes are this one; their links use the loopback interface.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use selvedge_nic::tables::kind;

use super::names::handing_in;
use super::*;
use crate::{Check, PeerId, Progress};

/// The launcher's key space.
type Board = Arc<Mutex<HashMap<String, Vec<u8>>>>;

fn open(nid: u32, board: &Board) -> Arc<RemoteHosts> {
    let settings = Settings {
        at: std::net::Ipv4Addr::LOCALHOST.into(),
        provider: None,
        secret: b"weft".to_vec(),
        nid: Some(nid),
        check: Check::None,
        progress: Progress::Thread,
        links_max: 256,
        timeout: Duration::from_secs(5),
        faults: None,
    };
    let board = board.clone();
    let names = Names::of_job(Box::new(move |name, _| board.lock().expect("no panic").get(name).cloned()));
    RemoteHosts::open(settings, names).expect("links")
}

fn publish(board: &Board, hosts: &RemoteHosts, id: u64) {
    let (name, address) = hosts.publication(id);
    board.lock().expect("no panic").insert(name, address.to_vec());
}

fn request_of(origin: u64) -> Packet {
    Packet { kind: kind::PUT, origin, ..Packet::default() }
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_found(hosts: &RemoteHosts, id: u64, peer: PeerId) -> bool {
    matches!(hosts.names.find(&hosts.links, id), Lookup::Peer(found) if found == peer)
}

#[test]
fn who_takes_the_id_of_another_is_found_out_and_lost() {
    let board = Board::default();
    let (asked, right, liar) = (open(0, &board), open(1, &board), open(1, &board));
    let id = 1 << 32 | 7;
    let to = NicName { pid: 3, ni: 0 };
    let (of_right, of_liar) = (asked.links.peer(right.address()), asked.links.peer(liar.address()));
    publish(&board, &right, id);
    // No other claim on this id is known, so the liar is believed at first.
    let there = liar.links.peer(asked.address());
    liar.links
        .send(there, to, &request_of(id).encode(false), Source::Taken(&mut Vec::new()), SendTiming::Now)
        .expect("it leaves");
    wait_until("the lie arrives", || asked.names.is_peer(id, of_liar));
    assert!(asked.names.rename(&asked.links, of_right, request_of(id)).is_err(), "another peer has the id");
    // The first request to that id looks it up.
    assert!(is_found(&asked, id, of_right));
    assert!(asked.links.is_lost(of_liar) && !asked.links.is_lost(of_right));
    assert_eq!(asked.names.rename(&asked.links, of_right, request_of(id)).map(|packet| packet.origin), Ok(id));
    assert!(asked.names.rename(&asked.links, of_liar, request_of(id)).is_err());
    // An id of another host is never believed.
    assert!(asked.names.rename(&asked.links, of_right, request_of(2 << 32 | 7)).is_err());
    [asked, right, liar].iter().for_each(|hosts| hosts.close());
}

#[test]
fn a_thread_that_must_not_ask_the_launcher_leaves_it_to_the_program() {
    let board = Board::default();
    let (asks, target) = (open(0, &board), open(1, &board));
    let id = 1 << 32 | 9;
    publish(&board, &target, id);
    let send = |id| asks.send(id, 0, &request_of(1), Source::Taken(&mut Vec::new()));
    handing_in(|| {
        assert!(asks.answers(id), "it may");
        assert!(matches!(send(id), Err(PostError::Full)));
    });
    assert!(send(id).is_ok());
    assert!(!asks.answers(1 << 32 | 10), "no process has published it");
    assert!(matches!(send(1 << 32 | 10), Err(PostError::Gone)));
    [asks, target].iter().for_each(|hosts| hosts.close());
}
