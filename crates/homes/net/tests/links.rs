// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links between several `Links` of one process, over libfabric's tcp on the loopback address.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use selvedge_net::greeting::{Answer, GreetingError, Hello, Key, Offer};
use selvedge_net::{
    Check, Faults, Lent, LinkAddress, Links, NicName, PayloadEnd, PeerId, Placement, Progress, ProgressCaller,
    SendError, SendTiming, Settings, Sink, Source,
};
use selvedge_nic::packet::{HEADER_BYTES, Packet};

/// The sender of a packet, its NIC, its number, its payload.
type ReceivedPacket = (PeerId, NicName, u64, Vec<u8>);

/// Longer than any step here, also on a busy machine: it ends a test that hangs.
const LONG: Duration = Duration::from_secs(300);
const PAYLOAD_MAX: u64 = 1 << 20;

/// Keeps the packets that arrive.
#[derive(Default)]
struct Kept {
    packets: Mutex<Vec<ReceivedPacket>>,
    lost: Mutex<Vec<PeerId>>,
    /// Memory for the payloads of [`PLACING`] and [`ALSO_PLACING`], by number; the finished ones, and whether their
    /// payload came.
    places: Mutex<HashMap<u64, Vec<u8>>>,
    finished: Mutex<Vec<(u64, bool)>>,
}

impl Kept {
    fn finished(&self) -> Vec<(u64, bool)> {
        self.finished.lock().expect("no panic").clone()
    }

    /// Returns the bytes that were read of a payload.
    fn placed(&self, number: u64) -> Option<Vec<u8>> {
        self.places.lock().expect("no panic").get(&number).cloned()
    }
}

impl Sink for Kept {
    fn packet(&self, from: PeerId, to: NicName, packet: &[u8; HEADER_BYTES], payload: &[u8], _: ProgressCaller) {
        let packet = Packet::decode(packet).expect("as it was sent");
        self.packets.lock().expect("no panic").push((from, to, packet.match_bits, payload.to_vec()));
    }

    fn payload_max(&self, _: PeerId, _: NicName, _: &[u8; HEADER_BYTES]) -> u64 {
        PAYLOAD_MAX
    }

    fn place(&self, _: PeerId, to: NicName, packet: &[u8; HEADER_BYTES], _: ProgressCaller, _: bool) -> Placement {
        if to == NIC {
            return Placement::Whole;
        }
        let packet = Packet::decode(packet).expect("as it was sent");
        let number = packet.match_bits;
        let mut places = self.places.lock().expect("no panic");
        let memory = places.entry(number).or_insert_with(|| vec![0; packet.payload_bytes as usize]);
        Placement::At { start: memory.as_mut_ptr(), bytes: memory.len(), number, in_order: number % 2 == 1 }
    }

    fn finish(&self, _: PeerId, _: NicName, packet: &[u8; HEADER_BYTES], number: u64, end: PayloadEnd) {
        assert_eq!(Packet::decode(packet).expect("as it was sent").match_bits, number);
        self.finished.lock().expect("no panic").push((number, end == PayloadEnd::Here));
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
        links_max: 256,
        timeout: Duration::from_secs(5),
        faults: None,
    }
}

fn open(settings: Settings) -> (Arc<Links>, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    (Links::open(settings, kept.clone()).expect("a port and libfabric"), kept)
}

fn packet(number: u64, payload_bytes: usize) -> [u8; HEADER_BYTES] {
    let (kind, payload_bytes) = (selvedge_nic::tables::kind::PUT, payload_bytes as u64);
    Packet { kind, match_bits: number, payload_bytes, ..Packet::default() }.encode(false)
}

fn payload(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u64 * 7 + number) as u8).collect()
}

const NIC: NicName = NicName { pid: 12, ni: 8 };
/// NICs that place payloads.
const PLACING: NicName = NicName { pid: 12, ni: 9 };
const ALSO_PLACING: NicName = NicName { pid: 12, ni: 10 };

fn poll_until(links: &[&Links], what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < LONG, "{what}");
        for links in links {
            links.poll();
        }
    }
}

/// Lets some packets wait for the next.
fn when(number: u64) -> SendTiming {
    if number % 5 == 3 { SendTiming::WithNext } else { SendTiming::Now }
}

/// Sends a packet, and retries while the link is full.
fn send(links: &Links, peer: PeerId, number: u64, bytes: usize) {
    let since = Instant::now();
    loop {
        match links.send(peer, NIC, &packet(number, bytes), Source::Taken(&mut payload(number, bytes)), when(number)) {
            Ok(()) => return,
            Err(SendError::Full) => links.poll(),
            Err(SendError::Gone) => panic!("the peer is lost"),
        }
        assert!(since.elapsed() < LONG, "the link stays full");
    }
}

/// Returns lengths from zero to many frames, in no order.
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
    let ways =
        [Progress::Calls, Progress::Thread].map(|progress| [Check::Crc, Check::None].map(|check| (progress, check)));
    for (progress, check) in ways.into_iter().flatten() {
        let one = || open(Settings { check, ..settings(progress) });
        let ((a, at_a), (b, at_b)) = (one(), one());
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
        // With progress threads no call polls.
        let since = Instant::now();
        let count = |kept: &Kept| kept.packets.lock().expect("no panic").len() as u64;
        while (count(&at_a), count(&at_b)) != (COUNT, COUNT) {
            assert!(since.elapsed() < LONG, "all come: {} {}", count(&at_a), count(&at_b));
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
    for check in [Check::Crc, Check::None] {
        let one = |progress| open(Settings { check, ..settings(progress) });
        let ((a, at_a), (b, _)) = (one(Progress::Calls), one(Progress::Thread));
        let to_a = b.peer(a.address());
        // Sending and closing wait for the receiver, so that nothing is lost.
        let sender = std::thread::spawn(move || {
            (0..200).for_each(|number| send(&b, to_a, number, length_of(number)));
            b.close();
        });
        poll_until(&[&a], "the end of the peer", || !at_a.lost.lock().expect("no panic").is_empty());
        sender.join().expect("no panic");
        let peer = at_a.lost.lock().expect("no panic")[0];
        check_all(&at_a, peer, 200);
        assert!(a.is_lost(peer));
        assert_eq!(
            a.send(peer, NIC, &packet(0, 0), Source::Taken(&mut Vec::new()), SendTiming::Now),
            Err(SendError::Gone)
        );
        a.close();
    }
}

/// Sends packets both ways through a faulty network; all must arrive, in order, once.
fn exchange(faults: &str, check: Check, progress: Progress, count: u64) {
    let with = |seed: u64| {
        let faults: Faults = format!("{faults},seed={seed}").parse().expect("right");
        open(Settings { faults: Some(faults), check, ..settings(progress) })
    };
    let ((a, at_a), (b, at_b)) = (with(1), with(2));
    let (to_b, to_a) = (a.peer(b.address()), b.peer(a.address()));
    std::thread::scope(|scope| {
        for (links, peer) in [(&a, to_b), (&b, to_a)] {
            scope.spawn(move || (0..count).for_each(|number| send(links, peer, number, length_of(number))));
        }
        let came = |kept: &Kept| kept.packets.lock().expect("no panic").len() as u64;
        let since = Instant::now();
        while came(&at_a) < count || came(&at_b) < count {
            let lost = at_a.lost.lock().expect("no panic").len() + at_b.lost.lock().expect("no panic").len();
            assert!(lost == 0, "{faults}: a link broke");
            assert!(since.elapsed() < LONG, "{faults}: {} {}", came(&at_a), came(&at_b));
            match progress {
                Progress::Calls => [&a, &b].iter().for_each(|links| links.poll()),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    });
    check_all(&at_b, b.peer(a.address()), count);
    check_all(&at_a, a.peer(b.address()), count);
    // Each closes while the other answers.
    std::thread::scope(|scope| {
        scope.spawn(|| a.close());
        b.close();
    });
    check_all(&at_b, b.peer(a.address()), count);
}

#[test]
fn lost_frames_are_repeated() {
    exchange("loss=0.05", Check::Crc, Progress::Calls, 1000);
}

#[test]
fn damaged_frames_are_repeated() {
    exchange("corrupt=0.05", Check::Crc, Progress::Thread, 1000);
    exchange("corrupt=0.05", Check::Mac, Progress::Calls, 1000);
}

#[test]
fn doubled_frames_are_taken_once() {
    exchange("double=0.2", Check::Crc, Progress::Calls, 1000);
}

#[test]
fn swapped_frames_are_put_in_order() {
    exchange("reorder=0.1", Check::Crc, Progress::Thread, 1000);
}

#[test]
fn late_frames_need_no_check() {
    exchange("delay=2ms", Check::None, Progress::Calls, 1000);
    exchange("delay=2ms", Check::Mac, Progress::Thread, 1000);
}

#[test]
fn all_faults_at_once() {
    let faults = "loss=0.02,corrupt=0.02,double=0.02,reorder=0.02,delay=1ms";
    for (check, progress) in
        [(Check::Crc, Progress::Thread), (Check::Mac, Progress::Calls), (Check::Mac, Progress::Thread)]
    {
        exchange(faults, check, progress, 2000);
    }
}

#[test]
fn without_a_check_a_doubled_frame_breaks_the_link() {
    let faults = "double=0.2".parse().expect("right");
    let (a, _) = open(Settings { check: Check::None, ..settings(Progress::Calls) });
    let (b, at_b) = open(Settings { check: Check::None, faults: Some(faults), ..settings(Progress::Calls) });
    let to_b = a.peer(b.address());
    for number in 0..200 {
        while a.send(to_b, NIC, &packet(number, 9000), Source::Taken(&mut payload(number, 9000)), SendTiming::Now)
            == Err(SendError::Full)
        {
            a.poll();
            b.poll();
        }
        a.poll();
        b.poll();
    }
    poll_until(&[&a, &b], "it is found", || !at_b.lost.lock().expect("no panic").is_empty());
    let packets = at_b.packets.lock().expect("no panic");
    assert!(packets.iter().zip(0..).all(|(found, number)| found.2 == number), "in order up to it");
    a.close();
    b.close();
}

/// The receiver makes no calls for a while: nothing is lost, and the link does not break.
#[test]
fn without_a_check_a_lost_frame_breaks_the_link() {
    let faults: Faults = "loss=0.2,seed=3".parse().expect("right");
    let patience = Duration::from_millis(300);
    let plain = |faults| open(Settings { check: Check::None, timeout: patience, faults, ..settings(Progress::Calls) });
    let ((a, _), (b, at_b)) = (plain(None), plain(Some(faults)));
    let to_b = a.peer(b.address());
    let mut number = 0;
    let since = Instant::now();
    while at_b.lost.lock().expect("no panic").is_empty() {
        assert!(since.elapsed() < LONG, "the missing frame is not noticed");
        if a.send(to_b, NIC, &packet(number, 9), Source::Taken(&mut payload(number, 9)), SendTiming::Now) == Ok(()) {
            number += 1;
        }
        [&a, &b].iter().for_each(|links| links.poll());
        std::thread::sleep(Duration::from_millis(1));
    }
    let came = at_b.packets.lock().expect("no panic").len() as u64;
    assert!(since.elapsed() > patience && came < number, "{came} of {number}");
    a.close();
    b.close();
}

#[test]
fn a_receiver_that_computes_gets_everything_later() {
    let ((a, at_a), (b, at_b)) = (open(settings(Progress::Thread)), open(settings(Progress::Calls)));
    let to_b = a.peer(b.address());
    send(&a, to_b, 0, length_of(0));
    poll_until(&[&b], "the first", || !at_b.packets.lock().expect("no panic").is_empty());
    for number in 1..50 {
        send(&a, to_b, number, length_of(number));
    }
    std::thread::sleep(Duration::from_millis(1500));
    poll_until(&[&b], "the others", || at_b.packets.lock().expect("no panic").len() == 50);
    check_all(&at_b, b.peer(a.address()), 50);
    assert!(at_a.lost.lock().expect("no panic").is_empty());
    b.close();
    a.close();
}

/// Both have unread input in their sockets when they end. The kernel resets such a connection.
#[test]
fn the_last_packets_of_a_process_that_has_unread_input_arrive() {
    for round in 0..5 {
        let plain = || Settings { check: Check::None, ..settings(Progress::Calls) };
        let ((a, _), (b, at_b)) = (open(plain()), open(Settings { progress: Progress::Thread, ..plain() }));
        let (to_b, to_a) = (a.peer(b.address()), b.peer(a.address()));
        for number in 0..100 {
            send(&b, to_a, number, length_of(number));
            send(&a, to_b, number, length_of(number));
        }
        a.close();
        let since = Instant::now();
        while at_b.lost.lock().expect("no panic").is_empty() {
            assert!(since.elapsed() < LONG, "round {round}: the end is seen");
            std::thread::sleep(Duration::from_millis(1));
        }
        check_all(&at_b, to_a, 100);
        b.close();
    }
}

#[test]
fn nobody_is_there() {
    let (a, at_a) = open(settings(Progress::Calls));
    let (b, _) = open(settings(Progress::Calls));
    let to_b = a.peer(b.address());
    b.close();
    drop(b);
    let _ = a.send(to_b, NIC, &packet(0, 0), Source::Taken(&mut Vec::new()), SendTiming::Now);
    poll_until(&[&a], "the refusal", || *at_a.lost.lock().expect("no panic") == [to_b]);
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
        let _ = a.send(peer, NIC, &packet(0, 0), Source::Taken(&mut Vec::new()), SendTiming::Now);
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

/// More connections that say nothing than a process keeps. Members get in, even if they were closed for others' sake.
#[test]
fn a_flood_of_strangers_keeps_no_member_out() {
    use std::io::Write;
    let (b, at_b) = open(settings(Progress::Thread));
    let connect = || std::net::TcpStream::connect(b.address().socket()).expect("it listens");
    let mut strangers: Vec<_> = (0..350).map(|_| connect()).collect();
    let members: Vec<_> = (0..4).map(|_| open(settings(Progress::Calls))).collect();
    for (number, (member, _)) in (0..).zip(&members) {
        send(member, member.peer(b.address()), number, 0);
        for at in 0..strangers.len() / members.len() {
            let mut stranger = connect();
            // Some begin a message.
            let _ = stranger.write_all(&[40, 0, 0, 0, 2][..at % 6]);
            strangers[at] = stranger;
        }
    }
    let polled: Vec<&Links> = members.iter().map(|(links, _)| &**links).collect();
    poll_until(&polled, "all packets come", || at_b.packets.lock().expect("no panic").len() == members.len());
    for (links, kept) in &members {
        assert!(kept.lost.lock().expect("no panic").is_empty());
        links.close();
    }
    b.close();
}

/// A relay closes the first connections, as a process does that strangers flood.
#[test]
fn a_connection_that_is_closed_before_its_greeting_is_made_again() {
    let ((a, at_a), (b, at_b)) = (open(settings(Progress::Calls)), open(settings(Progress::Thread)));
    let relay = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = LinkAddress::new(relay.local_addr().expect("bound"), b.address().token());
    let to = b.address().socket();
    let relaying = std::thread::spawn(move || {
        for _ in 0..3 {
            drop(relay.accept().expect("a connection"));
        }
        let (one, _) = relay.accept().expect("a connection");
        let other = std::net::TcpStream::connect(to).expect("it listens");
        let pairs = [(&one, &other), (&other, &one)];
        std::thread::scope(|scope| {
            for (mut from, mut into) in pairs {
                scope.spawn(move || {
                    let _ = std::io::copy(&mut from, &mut into);
                    let _ = into.shutdown(std::net::Shutdown::Both);
                });
            }
        });
    });
    send(&a, a.peer(address), 0, 10);
    poll_until(&[&a], "the packet comes", || !at_b.packets.lock().expect("no panic").is_empty());
    assert!(at_a.lost.lock().expect("no panic").is_empty());
    a.close();
    b.close();
    relaying.join().expect("it has ended");
}

/// Greets as a member of the job with any claim. Returns the answer, or the error.
fn greet(links: &Links, address: LinkAddress, nid: u32) -> Result<(std::net::TcpStream, Answer), GreetingError> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(links.address().socket()).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("set");
    let read = |mut stream: &std::net::TcpStream| {
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("a message");
        let mut message = vec![0; u32::from_le_bytes(length) as usize];
        stream.read_exact(&mut message).expect("a message");
        message
    };
    let hello = Hello::decode(&read(&stream)).expect("it says hello");
    let key = Key::new(links.address().token(), b"shuttle", hello.nonce, [5; 32]);
    // Its provider is the default one.
    let endpoint = selvedge_net::endpoint::Endpoint::open(Ipv4Addr::LOCALHOST.into(), None).expect("libfabric's tcp");
    let provider = endpoint.provider().to_owned();
    let offer = Offer { nonce: [5; 32], nid, address, check: 1, provider };
    stream.write_all(&offer.encode(&key)).expect("it leaves");
    let answer = Answer::decode(&read(&stream), &key)?;
    Ok((stream, answer))
}

#[test]
fn a_member_that_claims_to_be_another_is_refused() {
    let ((a, at_a), (b, _)) = (open(settings(Progress::Thread)), open(settings(Progress::Calls)));
    let refused = |result: Result<_, GreetingError>| match result {
        Err(GreetingError::Refused(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken"),
    };
    let elsewhere = LinkAddress::new("127.0.0.2:5000".parse().expect("an address"), 7);
    let why = refused(greet(&a, elsewhere, 3).map(drop));
    assert!(why.contains("127.0.0.2") && why.contains("connects from another"), "{why}");
    let here = LinkAddress::new("127.0.0.1:5000".parse().expect("an address"), 7);
    let first = greet(&a, here, 3).expect("the same as any");
    let why = refused(greet(&a, here, 4).map(drop));
    assert!(why.contains("number 4") && why.contains("3 before"), "{why}");
    // Neither the impostor's target nor any other peer was harmed.
    assert!(at_a.lost.lock().expect("no panic").is_empty());
    send(&b, b.peer(a.address()), 0, 0);
    poll_until(&[&b], "another peer is served", || at_a.packets.lock().expect("no panic").len() == 1);
    drop(first);
    b.close();
    a.close();
}

#[test]
fn a_member_that_announces_too_much_is_lost_and_the_others_go_on() {
    // Payloads in frames, and payloads that are read.
    for check in [Check::Crc, Check::None] {
        let one = |progress| open(Settings { check, ..settings(progress) });
        let ((a, at_a), (b, _), (c, _)) = (one(Progress::Thread), one(Progress::Calls), one(Progress::Calls));
        let (from_b, from_c) = (b.peer(a.address()), c.peer(a.address()));
        send(&c, from_c, 0, 0);
        let bytes = PAYLOAD_MAX as usize + 1;
        b.send(from_b, NIC, &packet(0, bytes), Source::Taken(&mut payload(0, bytes)), SendTiming::Now)
            .expect("it leaves");
        poll_until(&[&b, &c], "its end", || *at_a.lost.lock().expect("no panic") == [a.peer(b.address())]);
        let came = || at_a.packets.lock().expect("no panic").len();
        for number in 1..10 {
            send(&c, from_c, number, length_of(number));
        }
        poll_until(&[&b, &c], "the others", || came() == 10);
        check_all(&at_a, a.peer(c.address()), 10);
        for links in [a, b, c] {
            links.close();
        }
    }
}

#[test]
fn long_payloads_are_read_in_order_from_where_they_lie() {
    long_payloads("refuse=0");
}

/// Some or all payloads are sent in frames.
#[test]
fn long_payloads_come_in_order_where_memory_is_not_exposed() {
    long_payloads("refuse=0.5");
    long_payloads("refuse=1");
}

/// Sends packets of the longest payload, lent and taken, and short ones behind them.
fn long_payloads(faults: &str) {
    for progress in [Progress::Calls, Progress::Thread] {
        let faults: Faults = faults.parse().expect("right");
        let one = || open(Settings { check: Check::None, faults: Some(faults.clone()), ..settings(progress) });
        let ((a, _), (b, at_b)) = (one(), one());
        let to_b = a.peer(b.address());
        let lent: Vec<Vec<u8>> = (0..40).map(|number| payload(number, PAYLOAD_MAX as usize)).collect();
        let came = || at_b.packets.lock().expect("no panic").len();
        for number in 0..40 {
            let bytes = if number % 4 == 3 { 9 } else { PAYLOAD_MAX as usize };
            let since = Instant::now();
            let mut copied = payload(number, bytes);
            loop {
                let source = match number % 2 {
                    // A full link leaves it alone.
                    0 => Source::Taken(&mut copied),
                    // SAFETY: `lent` lives until all have come.
                    _ => Source::Lent(unsafe { Lent::new(lent[number as usize].as_ptr(), bytes) }),
                };
                match a.send(to_b, NIC, &packet(number, bytes), source, SendTiming::Now) {
                    Ok(()) => break,
                    Err(SendError::Full) => [&a, &b].iter().for_each(|links| links.poll()),
                    Err(SendError::Gone) => panic!("the peer is lost"),
                }
                assert!(since.elapsed() < LONG, "the link stays full");
            }
        }
        poll_until(&[&a, &b], "all come", || came() == 40);
        for (number, (_, _, found, bytes)) in (0..).zip(at_b.packets.lock().expect("no panic").iter()) {
            let length = if number % 4 == 3 { 9 } else { PAYLOAD_MAX as usize };
            assert_eq!(*found, number, "in order");
            assert!(*bytes == payload(number, length), "packet {number}");
        }
        a.close();
        b.close();
    }
}

/// Sends a payload that the receiver reads.
fn send_long(links: &Links, peer: PeerId, to: NicName, number: u64) {
    let bytes = PAYLOAD_MAX as usize;
    let sent =
        links.send(peer, to, &packet(number, bytes), Source::Taken(&mut payload(number, bytes)), SendTiming::Now);
    assert_eq!(sent, Ok(()));
}

/// Two processes with links open in both directions, because `b` has read from `a`. They make progress only when
/// polled.
struct Two {
    a: Arc<Links>,
    b: Arc<Links>,
    to_b: PeerId,
    at_b: Arc<Kept>,
}

impl Two {
    fn new() -> Two {
        let one = || open(Settings { check: Check::None, ..settings(Progress::Calls) });
        let ((a, _), (b, at_b)) = (one(), one());
        let to_b = a.peer(b.address());
        for number in 0..4 {
            send_long(&a, to_b, if number == 3 { NIC } else { PLACING }, number);
        }
        let came = || (at_b.finished().len(), at_b.packets.lock().expect("no panic").len());
        poll_until(&[&a, &b], "all come", || came() == (3, 1));
        Two { a, b, to_b, at_b }
    }

    /// Lets `b` start to read from `a`, which makes no progress, then stops it. Nothing may be written any more,
    /// whatever `a` does.
    fn stopped(stop: impl Fn(&Links, PeerId)) -> Two {
        let two = Two::new();
        let Two { a, b, to_b, at_b } = &two;
        send_long(a, *to_b, PLACING, 10);
        send_long(a, *to_b, ALSO_PLACING, 11);
        let since = Instant::now();
        let is_placed = || at_b.placed(10).is_some() && since.elapsed() > Duration::from_millis(20);
        poll_until(&[b], "it is placed", is_placed);
        assert_eq!(at_b.finished().len(), 3, "the sender has not answered");
        stop(b, b.peer(a.address()));
        let is_untouched = || at_b.placed(10) == Some(vec![0; PAYLOAD_MAX as usize]);
        assert!(is_untouched(), "the sender has not answered");
        let since = Instant::now();
        poll_until(&[a, b], "time passes", || since.elapsed() > Duration::from_millis(300));
        assert!(is_untouched(), "the NIC has its memory back");
        two
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        self.a.close();
        self.b.close();
    }
}

#[test]
fn payloads_are_read_to_where_the_sink_says() {
    let two = Two::new();
    assert_eq!(two.at_b.finished(), [0, 1, 2].map(|number| (number, true)), "in order");
    for number in 0..3 {
        assert!(two.at_b.placed(number) == Some(payload(number, PAYLOAD_MAX as usize)), "payload {number}");
    }
}

#[test]
fn a_nic_that_closes_has_its_memory_back_and_others_get_their_payload() {
    let two = Two::stopped(|b, _| b.stop_reading_to(PLACING));
    poll_until(&[&two.a, &two.b], "the other payload is there", || two.at_b.finished().len() == 5);
    assert_eq!(two.at_b.finished()[3..], [(10, false), (11, true)]);
    assert!(two.at_b.placed(11) == Some(payload(11, PAYLOAD_MAX as usize)), "it is read after the other was given up");
}

#[test]
fn nothing_is_written_for_a_peer_that_is_lost() {
    let two = Two::stopped(|b, peer| b.disconnect(peer, "a test"));
    let finished = two.at_b.finished();
    assert_eq!(finished[3..4], [(10, false)]);
    assert!(finished[4..].iter().all(|&(number, is_there)| number == 11 && !is_there));
    assert!(two.at_b.placed(11).is_none_or(|memory| memory.iter().all(|&byte| byte == 0)));
}

/// A member sends impossible messages after a correct greeting.
#[test]
fn a_member_that_says_impossible_words_is_lost() {
    use std::io::Write;
    let (a, at_a) = open(settings(Progress::Thread));
    let here = LinkAddress::new("127.0.0.1:5000".parse().expect("an address"), 7);
    for words in [
        &[0xff; 40][..],
        &[25, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24],
    ] {
        let before = at_a.lost.lock().expect("no panic").len();
        let member = LinkAddress::new(here.socket(), before as u64);
        let (mut stream, answer) = greet(&a, member, 3).expect("the same as any");
        assert!(!answer.endpoint.is_empty());
        stream.write_all(words).expect("it leaves");
        poll_until(&[], "it is lost", || at_a.lost.lock().expect("no panic").len() == before + 1);
    }
    a.close();
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
            assert!(since.elapsed() < LONG, "all come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    for (links, _) in &all {
        links.close();
    }
}

/// A process sends to more peers than it may have links to, in turns, and they answer. Links are closed and opened again;
/// all packets arrive in order, also payloads that the receiver reads.
#[test]
fn idle_links_beyond_the_limit_are_closed_and_open_again_without_loss() {
    const PEERS: usize = 6;
    const ROUNDS: u64 = 12;
    let ways = [(Check::None, Progress::Thread), (Check::None, Progress::Calls), (Check::Crc, Progress::Thread)];
    for (check, progress) in ways {
        let one = |links_max| open(Settings { check, links_max, ..settings(progress) });
        let (a, at_a) = one(2);
        let peers: Vec<_> = (0..PEERS).map(|_| one(256)).collect();
        let all: Vec<&Links> = peers.iter().map(|(links, _)| &**links).chain([&*a]).collect();
        let count = |kept: &Kept| kept.packets.lock().expect("no panic").len() as u64;
        for round in 0..ROUNDS {
            for (b, at_b) in &peers {
                let (to_b, to_a) = (a.peer(b.address()), b.peer(a.address()));
                send(&a, to_b, round, length_of(round));
                poll_until(&all, "it arrives", || count(at_b) == round + 1);
                let before = count(&at_a);
                send(b, to_a, round, length_of(round));
                poll_until(&all, "the answer arrives", || count(&at_a) > before);
            }
            poll_until(&all, "idle links are closed", || a.in_use() <= 2);
        }
        // The last packets go while links are being closed.
        for (b, _) in &peers {
            send(&a, a.peer(b.address()), ROUNDS, length_of(ROUNDS));
        }
        std::thread::scope(|scope| {
            scope.spawn(|| a.close());
            poll_until(&all[..PEERS], "the last arrive", || peers.iter().all(|(_, at_b)| count(at_b) == ROUNDS + 1));
        });
        for (b, at_b) in &peers {
            check_all(at_b, b.peer(a.address()), ROUNDS + 1);
            let lost = at_a.lost.lock().expect("no panic");
            assert!(lost.is_empty(), "no peer was lost: {lost:?}");
            b.close();
        }
    }
}

/// A process that has too many links from others asks their senders to close idle ones.
#[test]
fn a_receiver_with_too_many_links_has_idle_ones_closed() {
    for check in [Check::None, Check::Mac] {
        let one = |links_max| open(Settings { check, links_max, ..settings(Progress::Thread) });
        let (a, at_a) = one(1);
        let peers: Vec<_> = (0..4).map(|_| one(256)).collect();
        for round in 0..3 {
            for (b, _) in &peers {
                send(b, b.peer(a.address()), round, length_of(round));
            }
            let count = || at_a.packets.lock().expect("no panic").len() as u64;
            poll_until(&[], "all arrive", || count() == (round + 1) * 4);
            let in_use = || peers.iter().map(|(b, _)| b.in_use()).sum::<usize>();
            poll_until(&[], "three are closed", || in_use() <= 1);
        }
        assert!(at_a.lost.lock().expect("no panic").is_empty());
        peers.iter().for_each(|(b, _)| b.close());
        a.close();
    }
}

/// The end of a peer whose link was closed is noticed at the next packet, and at once while an answer is awaited.
#[test]
fn the_end_of_a_peer_with_a_closed_link_is_noticed() {
    let one = |links_max| open(Settings { check: Check::None, links_max, ..settings(Progress::Thread) });
    let (a, at_a) = one(1);
    let [(b, at_b), (c, at_c), (d, _)] = [one(256), one(256), one(256)];
    let to = [&b, &c, &d].map(|links| a.peer(links.address()));
    let came = |kept: &Kept| !kept.packets.lock().expect("no panic").is_empty();
    send(&a, to[0], 0, 8);
    send(&a, to[1], 0, 8);
    poll_until(&[], "both come", || came(&at_b) && came(&at_c));
    poll_until(&[], "an idle link is closed", || a.in_use() <= 1);
    // An answer is awaited from both: their links open again, and stay.
    poll_until(&[], "both links are open", || a.answers(to[0]) && a.answers(to[1]) && a.in_use() == 2);
    b.close();
    poll_until(&[], "its end is noticed", || !a.answers(to[0]) && at_a.lost.lock().expect("no panic").contains(&to[0]));
    assert!(a.answers(to[1]));
    // Nothing is awaited from the third; a packet to it after its end finds out.
    send(&a, to[2], 0, 8);
    poll_until(&[], "idle links are closed", || a.in_use() <= 1);
    d.close();
    drop(d); // its listener ends with its process
    let since = Instant::now();
    while !at_a.lost.lock().expect("no panic").contains(&to[2]) {
        let _ = a.send(to[2], NIC, &packet(1, 8), Source::Taken(&mut payload(1, 8)), SendTiming::Now);
        assert!(since.elapsed() < LONG, "the third's end is noticed");
        std::thread::sleep(Duration::from_millis(1));
    }
    c.close();
    a.close();
}
