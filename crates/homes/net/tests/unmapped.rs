// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that unmap memory of messages on their way. That message fails, once on each side; links, other messages and
//! the process go on. Each test runs this file again, as a process of its own: other tests may map memory at the same
//! place.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use selvedge_net::{
    Check, Lent, Links, NicName, PayloadEnd, PeerId, Placement, Progress, ProgressCaller, SendTiming, Settings, Sink,
    Source,
};
use selvedge_nic::packet::{HEADER_BYTES, Packet};

/// Longer than any step here, also on a busy machine: it ends a test that hangs.
const LONG: Duration = Duration::from_secs(120);
const NIC: NicName = NicName { pid: 12, ni: 8 };
/// Payloads of which some is still to be read when the first byte has come. A link has room for two.
const BYTES: usize = 7 << 19;
const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// The end of a packet that does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At its sender.
    Unreadable,
    GivenUp,
    Placed(PayloadEnd),
}

/// The sink's answers about payloads, by their numbers from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    NotYet,
    Whole,
    At(usize),
}

#[derive(Default)]
struct Kept {
    packets: Mutex<Vec<(u64, Vec<u8>)>>,
    ends: Mutex<Vec<(u64, End)>>,
    answers: Mutex<Vec<Answer>>,
    asked: AtomicU32,
    lost: AtomicU32,
}

impl Kept {
    fn ends(&self) -> Vec<(u64, End)> {
        self.ends.lock().expect("no panic").clone()
    }

    fn answer(&self, answers: &[Answer]) {
        *self.answers.lock().expect("no panic") = answers.to_vec();
    }

    fn note(&self, packet: &[u8; HEADER_BYTES], end: End) {
        self.ends.lock().expect("no panic").push((number_of(packet), end));
    }

    fn has(&self, number: u64) -> bool {
        self.packets.lock().expect("no panic").iter().any(|(found, _)| *found == number)
    }
}

fn number_of(packet: &[u8; HEADER_BYTES]) -> u64 {
    Packet::decode(packet).expect("as it was sent").match_bits
}

impl Sink for Kept {
    fn packet(&self, _: PeerId, _: NicName, packet: &[u8; HEADER_BYTES], payload: &[u8], _: ProgressCaller) {
        self.packets.lock().expect("no panic").push((number_of(packet), payload.to_vec()));
    }

    fn payload_max(&self, _: PeerId, _: NicName, _: &[u8; HEADER_BYTES]) -> u64 {
        64 << 20
    }

    fn place(&self, _: PeerId, _: NicName, packet: &[u8; HEADER_BYTES], _: ProgressCaller, _: bool) -> Placement {
        self.asked.fetch_add(1, SeqCst);
        let number = number_of(packet);
        match self.answers.lock().expect("no panic").get(number as usize - 1) {
            Some(Answer::NotYet) => Placement::NotYet,
            Some(Answer::At(start)) => {
                let bytes = Packet::decode(packet).expect("as it was sent").payload_bytes as usize;
                Placement::At { start: *start as *mut u8, bytes, number, in_order: false }
            }
            Some(Answer::Whole) | None => Placement::Whole,
        }
    }

    fn finish(&self, _: PeerId, _: NicName, packet: &[u8; HEADER_BYTES], number: u64, end: PayloadEnd) {
        assert_eq!(number_of(packet), number);
        self.note(packet, End::Placed(end));
    }

    fn give_up(&self, _: PeerId, _: NicName, packet: &[u8; HEADER_BYTES]) {
        self.note(packet, End::GivenUp);
    }

    fn unreadable(&self, _: PeerId, _: NicName, packet: &[u8; HEADER_BYTES]) {
        self.note(packet, End::Unreadable);
    }

    fn lost(&self, _: PeerId) {
        self.lost.fetch_add(1, SeqCst);
    }
}

/// Memory of the program.
struct Memory {
    start: *mut u8,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize, fill: u8) -> Memory {
        // SAFETY: without MAP_FIXED a new mapping disturbs nothing.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, RW, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: it is mapped for writes.
        unsafe { start.cast::<u8>().write_bytes(fill, bytes) };
        Memory { start: start.cast(), bytes }
    }

    fn lent(&self) -> Source<'static> {
        // SAFETY: the links check what this breaks on purpose: it is unmapped before the peer has answered.
        Source::Lent(unsafe { Lent::new(self.start, self.bytes) })
    }

    fn unmap(&self) {
        // SAFETY: nothing in this process refers to it but the links.
        assert_eq!(unsafe { libc::munmap(self.start.cast(), self.bytes) }, 0);
    }

    fn holds(&self, byte: u8) -> bool {
        // SAFETY: it is mapped, and no read writes to it now.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }.iter().all(|found| *found == byte)
    }

    /// Whether its first byte has this value.
    fn begins_with(&self, byte: u8) -> bool {
        // SAFETY: it is mapped. A read may write to it.
        unsafe { self.start.read_volatile() == byte }
    }
}

/// Two processes, of which `a` sends.
struct Two {
    a: Arc<Links>,
    b: Arc<Links>,
    at_a: Arc<Kept>,
    at_b: Arc<Kept>,
    to_b: PeerId,
    progress: Progress,
}

impl Two {
    fn new(progress: Progress, check: Check, faults: Option<&str>) -> Two {
        let open = || {
            let kept = Arc::new(Kept::default());
            let settings = Settings {
                at: Ipv4Addr::LOCALHOST.into(),
                provider: None,
                secret: b"shuttle".to_vec(),
                nid: Some(3),
                check,
                progress,
                links_max: 256,
                timeout: Duration::from_secs(5),
                faults: faults.map(|faults| faults.parse().expect("right")),
            };
            (Links::open(settings, kept.clone()).expect("a port and libfabric"), kept)
        };
        let ((a, at_a), (b, at_b)) = (open(), open());
        let to_b = a.peer(b.address());
        Two { a, b, at_a, at_b, to_b, progress }
    }

    fn send(&self, number: u64, bytes: usize, source: Source<'_>) {
        let packet = packet(number, bytes);
        self.a.send(self.to_b, NIC, &packet, source, SendTiming::Now).expect("there is room");
    }

    fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let since = Instant::now();
        while !done() {
            assert!(since.elapsed() < LONG, "{what}: {:?} {:?}", self.at_a.ends(), self.at_b.ends());
            match self.progress {
                Progress::Calls => [&self.a, &self.b].iter().for_each(|links| links.poll()),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Waits for the ends, then sends further packets both ways, short and long.
    fn ends_with(&self, at_a: &[(u64, End)], at_b: &[(u64, End)]) {
        self.until("the ends", || self.at_a.ends().len() >= at_a.len() && self.at_b.ends().len() >= at_b.len());
        self.at_b.answer(&[]);
        let to_a = self.b.peer(self.a.address());
        for (number, bytes) in [(90, 10), (91, 10_000), (92, 40_000), (93, 1 << 20), (94, 10)] {
            let ways = [(&self.a, self.to_b), (&self.b, to_a)];
            for (links, peer) in ways {
                let (packet, mut payload) = (packet(number, bytes), vec![number as u8; bytes]);
                // The link may still hold long payloads.
                self.until("there is room", || {
                    let payload = Source::Taken(&mut payload);
                    links.send(peer, NIC, &packet, payload, SendTiming::Now).is_ok()
                });
            }
        }
        self.until("the other packets", || self.at_a.has(94) && self.at_b.has(94));
        for kept in [&self.at_a, &self.at_b] {
            for (number, payload) in kept.packets.lock().expect("no panic").iter() {
                assert!(payload.iter().all(|byte| *byte == *number as u8), "packet {number}");
            }
            assert_eq!(kept.lost.load(SeqCst), 0, "no link is lost");
        }
        assert_eq!((self.at_a.ends(), self.at_b.ends()), (at_a.to_vec(), at_b.to_vec()), "once");
        // The one that closes first waits for the other's answer.
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| self.a.close());
            while !closing.is_finished() {
                self.b.poll();
            }
        });
        self.b.close();
    }
}

fn packet(number: u64, payload_bytes: usize) -> [u8; HEADER_BYTES] {
    let (kind, payload_bytes) = (selvedge_nic::tables::kind::PUT, payload_bytes as u64);
    Packet { kind, match_bits: number, payload_bytes, ..Packet::default() }.encode(false)
}

/// Runs a test of this file in a process of its own.
fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os("SELVEDGE_TEST_PART").is_some() {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command.args(["--exact", test, "--nocapture"]).env("SELVEDGE_TEST_PART", "1").stdin(Stdio::null());
    let status = command.status().expect("this file again");
    assert!(status.success(), "{test}: {status}");
}

const WAYS: [Progress; 2] = [Progress::Calls, Progress::Thread];

#[test]
fn a_sender_unmaps_a_payload_before_it_is_read() {
    alone("a_sender_unmaps_a_payload_before_it_is_read", || {
        for (progress, bytes) in WAYS.into_iter().flat_map(|way| [40_000, 1 << 20].map(|bytes| (way, bytes))) {
            let two = Two::new(progress, Check::None, None);
            let payload = Memory::new(bytes, 1);
            two.at_b.answer(&[Answer::NotYet]);
            two.send(1, bytes, payload.lent());
            two.until("it is announced", || two.at_b.asked.load(SeqCst) > 0);
            payload.unmap();
            two.at_b.answer(&[]);
            two.ends_with(&[(1, End::Unreadable)], &[(1, End::GivenUp)]);
        }
    });
}

#[test]
fn a_sender_unmaps_a_payload_that_is_being_read_and_another_goes_on() {
    alone("a_sender_unmaps_a_payload_that_is_being_read_and_another_goes_on", || {
        let two = Two::new(Progress::Calls, Check::None, None);
        let (one, other, place) = (Memory::new(BYTES, 1), Memory::new(BYTES, 2), Memory::new(BYTES, 0));
        two.at_b.answer(&[Answer::At(place.start as usize), Answer::Whole]);
        two.send(1, BYTES, one.lent());
        two.send(2, BYTES, other.lent());
        two.until("it is being read", || place.begins_with(1));
        assert_eq!(two.at_b.ends(), [], "some is still to be read");
        one.unmap();
        two.until("the other comes", || two.at_b.has(2));
        two.ends_with(&[(1, End::Unreadable)], &[(1, End::Placed(PayloadEnd::Lost))]);
    });
}

#[test]
fn a_sender_unmaps_a_part_of_a_payload_before_its_link_is_open() {
    alone("a_sender_unmaps_a_part_of_a_payload_before_its_link_is_open", || {
        for progress in WAYS {
            let two = Two::new(progress, Check::None, None);
            let payload = Memory::new(1 << 20, 1);
            two.at_b.answer(&[Answer::NotYet]);
            two.send(1, payload.bytes, payload.lent());
            Memory { start: payload.start.wrapping_add(300 << 10), bytes: 8192 }.unmap();
            two.ends_with(&[(1, End::Unreadable)], &[]);
        }
    });
}

#[test]
fn a_sender_unmaps_a_payload_that_the_provider_does_not_expose() {
    alone("a_sender_unmaps_a_payload_that_the_provider_does_not_expose", || {
        let two = Two::new(Progress::Calls, Check::None, Some("refuse=1"));
        let (payload, other) = (Memory::new(1 << 20, 1), Memory::new(1 << 20, 2));
        two.send(1, payload.bytes, payload.lent());
        two.send(2, other.bytes, other.lent());
        payload.unmap();
        two.until("the other comes", || two.at_b.has(2));
        two.ends_with(&[(1, End::Unreadable)], &[]);
    });
}

#[test]
fn a_payload_that_is_copied_in_the_call_may_be_unmapped_after_it() {
    alone("a_payload_that_is_copied_in_the_call_may_be_unmapped_after_it", || {
        let with_a_check = [Check::Crc, Check::Mac].map(|check| [10_000, 40_000, 1 << 20].map(|bytes| (check, bytes)));
        for (check, bytes) in with_a_check.into_iter().flatten().chain([(Check::None, 10_000)]) {
            let two = Two::new(Progress::Calls, check, None);
            let payload = Memory::new(bytes, 1);
            two.send(1, bytes, payload.lent());
            payload.unmap();
            two.until("it comes", || two.at_b.has(1));
            two.ends_with(&[], &[]);
        }
    });
}

#[test]
fn a_receiver_unmaps_the_place_of_a_payload_and_another_goes_on() {
    alone("a_receiver_unmaps_the_place_of_a_payload_and_another_goes_on", || {
        let two = Two::new(Progress::Calls, Check::None, None);
        let (one, other) = (Memory::new(BYTES, 0), Memory::new(BYTES, 0));
        two.at_b.answer(&[Answer::At(one.start as usize), Answer::At(other.start as usize)]);
        for number in [1, 2] {
            two.send(number, BYTES, Source::Taken(&mut vec![number as u8; BYTES]));
        }
        two.until("it is being read", || one.begins_with(1));
        assert_eq!(two.at_b.ends(), [], "some is still to be read");
        one.unmap();
        two.until("the other comes", || two.at_b.ends().len() == 2);
        assert!(other.holds(2), "the other payload is whole");
        two.ends_with(&[], &[(1, End::Placed(PayloadEnd::Unmapped)), (2, End::Placed(PayloadEnd::Here))]);
    });
}

/// The place is unmapped before its first read, or when reads have started and the sender has not answered.
#[test]
fn a_receiver_unmaps_a_place_before_the_first_byte_comes() {
    alone("a_receiver_unmaps_a_place_before_the_first_byte_comes", || {
        for (bytes, is_early) in [40_000, 1 << 20].into_iter().flat_map(|bytes| [(bytes, true), (bytes, false)]) {
            let two = Two::new(Progress::Calls, Check::None, None);
            let (first, place) = (Memory::new(bytes, 0), Memory::new(bytes, 0));
            let at_first = Answer::At(first.start as usize);
            two.at_b.answer(&[at_first, Answer::NotYet]);
            // The first one connects.
            two.send(1, bytes, Source::Taken(&mut vec![1; bytes]));
            two.until("the first comes", || two.at_b.ends().len() == 1);
            let asked = two.at_b.asked.load(SeqCst);
            two.send(2, bytes, Source::Taken(&mut vec![2; bytes]));
            two.until("the second is announced", || two.at_b.asked.load(SeqCst) > asked);
            if is_early {
                place.unmap();
            }
            two.at_b.answer(&[at_first, Answer::At(place.start as usize)]);
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(20) {
                two.b.poll();
            }
            if !is_early {
                place.unmap();
            }
            two.ends_with(&[], &[(1, End::Placed(PayloadEnd::Here)), (2, End::Placed(PayloadEnd::Unmapped))]);
        }
    });
}

/// The sockets of this process, by their descriptors.
fn sockets() -> Vec<i32> {
    let files = std::fs::read_dir("/proc/self/fd").expect("there is one").flatten();
    let is_socket = |file: &std::fs::DirEntry| {
        std::fs::read_link(file.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    files.filter(is_socket).filter_map(|file| file.file_name().to_str()?.parse().ok()).collect()
}

/// Breaks the connections over which payloads are read, this number of times.
fn breaks_reads(times: usize, at_a: &[(u64, End)], at_b: &[(u64, End)]) {
    let two = Two::new(Progress::Calls, Check::None, None);
    let places = [Memory::new(BYTES, 0), Memory::new(BYTES, 0)];
    two.at_b.answer(&[Answer::NotYet]);
    for number in [1, 2] {
        two.send(number, BYTES, Source::Taken(&mut vec![number as u8; BYTES]));
    }
    two.until("they are announced", || two.at_b.asked.load(SeqCst) > 0);
    // Those of frames, and the control connections in both directions.
    two.b.watch(two.b.peer(two.a.address()));
    let since = Instant::now();
    two.until("time passes", || since.elapsed() > Duration::from_millis(100));
    let others = sockets();
    two.at_b.answer(&places.each_ref().map(|place| Answer::At(place.start as usize)));
    for _ in 0..times {
        let found = || sockets().into_iter().filter(|socket| !others.contains(socket)).collect::<Vec<_>>();
        two.until("a part is read", || places.iter().any(|place| place.begins_with(1) || place.begins_with(2)));
        for socket in found() {
            // SAFETY: the descriptor is one of libfabric's. Its connection ends, and it stays open.
            unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
        }
        for place in &places {
            // SAFETY: it is mapped for writes. The connection has ended, so no read writes to it.
            unsafe { place.start.write_volatile(0) };
        }
    }
    two.until("both end", || two.at_b.ends().len() == 2);
    for (number, place) in (1..).zip(&places) {
        assert!(!at_b.contains(&(number, End::Placed(PayloadEnd::Here))) || place.holds(number as u8));
    }
    two.ends_with(at_a, at_b);
}

#[test]
fn reads_whose_connection_breaks_start_again() {
    alone("reads_whose_connection_breaks_start_again", || {
        let both = [1, 2].map(|number| (number, End::Placed(PayloadEnd::Here)));
        breaks_reads(1, &[], &both);
    });
}

#[test]
fn a_payload_whose_reads_fail_twice_is_given_up_alone() {
    alone("a_payload_whose_reads_fail_twice_is_given_up_alone", || {
        breaks_reads(2, &[], &[(1, End::Placed(PayloadEnd::Lost)), (2, End::Placed(PayloadEnd::Here))]);
    });
}
