// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links between several `Links` of one process, over libfabric's tcp on the loopback address.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use selvedge_net::{Check, LinkAddress, Links, NicName, PeerId, Progress, SendError, Settings, Sink, When, Who};
use selvedge_nic::packet::{HEADER_BYTES, Packet, Place};

/// Who sent a packet, for which NIC, its number, its payload.
type Found = (PeerId, NicName, u64, Vec<u8>);

/// Keeps what comes.
#[derive(Default)]
struct Kept {
    packets: Mutex<Vec<Found>>,
    lost: Mutex<Vec<PeerId>>,
}

impl Sink for Kept {
    fn packet(&self, from: PeerId, to: NicName, packet: &[u8; HEADER_BYTES], payload: &[u8], _: Who) {
        let packet = Packet::decode(packet).expect("as it was sent");
        self.packets.lock().expect("no panic").push((from, to, packet.match_bits, payload.to_vec()));
    }

    fn lost(&self, peer: PeerId) {
        self.lost.lock().expect("no panic").push(peer);
    }
}

fn settings(progress: Progress) -> Settings {
    Settings {
        at: Ipv4Addr::LOCALHOST.into(),
        provider: None,
        secret: b"shuttle".to_vec(),
        nid: Some(3),
        check: Check::Crc,
        progress,
        timeout: Duration::from_secs(5),
    }
}

fn open(settings: Settings) -> (Arc<Links>, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    (Links::open(settings, kept.clone()).expect("a port and libfabric"), kept)
}

fn packet(number: u64, payload_bytes: usize) -> [u8; HEADER_BYTES] {
    let packet = Packet {
        kind: selvedge_nic::tables::kind::PUT,
        fail: 0,
        operation: 0,
        datatype: 0,
        ack: 0,
        place: Place::Inline,
        portal: 0,
        uid: 0,
        initiator: 0,
        origin: 0,
        token: 0,
        match_bits: number,
        remote_offset: 0,
        header_data: 0,
        length: 0,
        operand: [0; 4],
        payload_bytes: payload_bytes as u64,
        sender: 0,
    };
    packet.encode(false)
}

fn payload(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u64 * 7 + number) as u8).collect()
}

const NIC: NicName = NicName { pid: 12, ni: 8 };

/// Polls all until `done`.
fn poll_until(links: &[&Links], what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(30), "{what}");
        for links in links {
            links.poll();
        }
    }
}

/// Now and then a packet may wait for the next.
fn when(number: u64) -> When {
    if number % 5 == 3 { When::WithNext } else { When::Now }
}

/// Sends a packet, however full the link is.
fn send(links: &Links, peer: PeerId, number: u64, bytes: usize) {
    let since = Instant::now();
    loop {
        match links.send(peer, NIC, &packet(number, bytes), &mut payload(number, bytes), when(number)) {
            Ok(()) => return,
            Err(SendError::Full) => links.poll(),
            Err(SendError::Gone) => panic!("the peer is lost"),
        }
        assert!(since.elapsed() < Duration::from_secs(30), "the link stays full");
    }
}

/// Lengths from nothing to many frames, in no order.
fn length_of(number: u64) -> usize {
    match number % 7 {
        0 => 0,
        1..4 => (number * 37 % 300) as usize,
        4 | 5 => (number * 977 % 20_000) as usize,
        _ => (number * 7919 % 200_000) as usize,
    }
}

fn check_all(kept: &Kept, from: PeerId, count: u64) {
    let packets = kept.packets.lock().expect("no panic");
    for (number, (peer, nic, found, bytes)) in (0..count).zip(packets.iter()) {
        assert_eq!((*peer, *nic, *found), (from, NIC, number), "in order");
        assert!(*bytes == payload(number, length_of(number)), "packet {number}");
    }
    assert_eq!(packets.len() as u64, count);
}

#[test]
fn packets_of_all_lengths_arrive_in_order_both_ways() {
    for progress in [Progress::Calls, Progress::Thread] {
        let ((a, at_a), (b, at_b)) = (open(settings(progress)), open(settings(progress)));
        let (to_b, to_a) = (a.peer(b.address()), b.peer(a.address()));
        const COUNT: u64 = 500;
        std::thread::scope(|scope| {
            for (links, peer) in [(&a, to_b), (&b, to_a)] {
                scope.spawn(move || (0..COUNT).for_each(|number| send(links, peer, number, length_of(number))));
            }
            let count = |kept: &Kept| kept.packets.lock().expect("no panic").len() as u64;
            if progress == Progress::Calls {
                poll_until(&[&a, &b], "all come", || count(&at_a) == COUNT && count(&at_b) == COUNT);
            }
        });
        // With threads nobody else polls.
        let since = Instant::now();
        let count = |kept: &Kept| kept.packets.lock().expect("no panic").len() as u64;
        while (count(&at_a), count(&at_b)) != (COUNT, COUNT) {
            assert!(since.elapsed() < Duration::from_secs(30), "all come: {} {}", count(&at_a), count(&at_b));
            std::thread::sleep(Duration::from_millis(1));
        }
        check_all(&at_b, b.peer(a.address()), COUNT);
        check_all(&at_a, a.peer(b.address()), COUNT);
        assert_eq!(a.nid_of(to_b), Some(3), "it said so in its greeting");
        a.close();
        b.close();
    }
}

#[test]
fn a_peer_that_ends_is_lost_after_its_last_packets() {
    let ((a, at_a), (b, _)) = (open(settings(Progress::Calls)), open(settings(Progress::Thread)));
    let to_a = b.peer(a.address());
    for number in 0..200 {
        send(&b, to_a, number, length_of(number));
    }
    // Closing waits until everything has left, so that nothing is lost.
    let closer = std::thread::spawn(move || b.close());
    poll_until(&[&a], "the end is seen", || !at_a.lost.lock().expect("no panic").is_empty());
    closer.join().expect("no panic");
    let peer = at_a.lost.lock().expect("no panic")[0];
    check_all(&at_a, peer, 200);
    assert!(a.is_lost(peer));
    assert_eq!(a.send(peer, NIC, &packet(0, 0), &mut Vec::new(), When::Now), Err(SendError::Gone));
    a.close();
}

#[test]
fn nobody_is_there() {
    let (a, at_a) = open(settings(Progress::Calls));
    let (b, _) = open(settings(Progress::Calls));
    let to_b = a.peer(b.address());
    b.close();
    drop(b);
    let _ = a.send(to_b, NIC, &packet(0, 0), &mut Vec::new(), When::Now);
    poll_until(&[&a], "the refusal is seen", || *at_a.lost.lock().expect("no panic") == [to_b]);
    a.close();
}

#[test]
fn another_secret_or_another_token_opens_no_link() {
    let (a, at_a) = open(settings(Progress::Calls));
    let (b, at_b) = open(Settings { secret: b"bobbin".to_vec(), ..settings(Progress::Thread) });
    let (c, at_c) = open(settings(Progress::Thread));
    let forged = LinkAddress::new(c.address().socket(), c.address().token() ^ 1);
    let strangers = [a.peer(b.address()), a.peer(forged)];
    for peer in strangers {
        let _ = a.send(peer, NIC, &packet(0, 0), &mut Vec::new(), When::Now);
    }
    poll_until(&[&a], "both are refused", || at_a.lost.lock().expect("no panic").len() == 2);
    for (links, kept) in [(b, at_b), (c, at_c)] {
        assert!(kept.packets.lock().expect("no panic").is_empty());
        links.close();
    }
    a.close();
}

#[test]
fn a_stranger_disturbs_nobody() {
    use std::io::Write;
    let ((a, _), (b, at_b)) = (open(settings(Progress::Calls)), open(settings(Progress::Thread)));
    let mut strangers = Vec::new();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 100], &[0; 9000], &[]] {
        let mut stranger = std::net::TcpStream::connect(b.address().socket()).expect("it listens");
        let _ = stranger.write_all(bytes);
        strangers.push(stranger);
    }
    let to_b = a.peer(b.address());
    send(&a, to_b, 0, 0);
    poll_until(&[&a], "the packet comes", || !at_b.packets.lock().expect("no panic").is_empty());
    a.close();
    b.close();
}

#[test]
fn many_wire_up_at_once() {
    let all: Vec<_> = (0..12).map(|_| open(settings(Progress::Thread))).collect();
    for (from, _) in &all {
        for (to, _) in &all {
            if !Arc::ptr_eq(from, to) {
                send(from, from.peer(to.address()), 0, 0);
            }
        }
    }
    let since = Instant::now();
    for (_, kept) in &all {
        while kept.packets.lock().expect("no panic").len() != 11 {
            assert!(since.elapsed() < Duration::from_secs(30), "all come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    for (links, _) in &all {
        links.close();
    }
}
