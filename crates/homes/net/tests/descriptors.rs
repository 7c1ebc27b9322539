// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that fork, and processes without free descriptors. Each test runs this file again, as a process of its
//! own.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use selvedge_net::{
    Check, LinkAddress, Links, NicName, PeerId, Progress, ProgressCaller, SendTiming, Settings, Sink, Source,
};
use selvedge_nic::packet::HEADER_BYTES;

/// Longer than any step here, also on a busy machine: it ends a test that hangs.
const LONG: Duration = Duration::from_secs(120);
const PAYLOAD_MAX: u64 = 1 << 20;

/// Counts packets and lost peers.
#[derive(Default)]
struct Counted {
    packets: AtomicU32,
    lost: AtomicU32,
}

impl Sink for Counted {
    fn packet(&self, _: PeerId, _: NicName, _: &[u8; HEADER_BYTES], _: &[u8], _: ProgressCaller) {
        self.packets.fetch_add(1, SeqCst);
    }

    fn payload_max(&self, _: PeerId, _: NicName, _: &[u8; HEADER_BYTES]) -> u64 {
        PAYLOAD_MAX
    }

    fn lost(&self, _: PeerId) {
        self.lost.fetch_add(1, SeqCst);
    }
}

fn open() -> (Arc<Links>, Arc<Counted>) {
    let settings = Settings {
        at: Ipv4Addr::LOCALHOST.into(),
        provider: None,
        secret: Vec::new(),
        nid: None,
        check: Check::None,
        progress: Progress::Thread,
        links_max: 256,
        timeout: Duration::from_secs(5),
        faults: None,
    };
    let counted = Arc::new(Counted::default());
    (Links::open(settings, counted.clone()).expect("a port and libfabric"), counted)
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a test of this file in a process of its own, with an argument.
fn again(test: &str, word: &str) -> std::process::Child {
    let own = std::env::current_exe().expect("it runs");
    let mut command = Command::new(own);
    command.args(["--exact", test, "--nocapture"]).env("SELVEDGE_TEST_PART", word).stdout(Stdio::piped());
    command.stdin(Stdio::null()).spawn().expect("this file again")
}

fn part() -> Option<String> {
    std::env::var("SELVEDGE_TEST_PART").ok()
}

#[test]
fn a_process_whose_forked_child_lives_on_is_seen_to_die() {
    if let Some(address) = part() {
        return fork_and_die(&address);
    }
    let (links, counted) = open();
    let address: String = links.address().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut parent = again("a_process_whose_forked_child_lives_on_is_seen_to_die", &address);
    let mut lines = BufReader::new(parent.stdout.take().expect("piped")).lines();
    let child = lines.find_map(|line| line.ok()?.strip_prefix("child ")?.parse::<i32>().ok()).expect("it forks");
    wait_until("the packet comes", || counted.packets.load(SeqCst) == 1);
    assert_eq!(counted.lost.load(SeqCst), 0, "it lives");
    parent.kill().expect("it is ours");
    parent.wait().expect("it is ours");
    wait_until("the death is seen", || counted.lost.load(SeqCst) == 1);
    // SAFETY: the child of the dead process is alive until it is killed here, so the number is its own.
    unsafe {
        assert_eq!(libc::kill(child, 0), 0, "the child had to live on");
        libc::kill(child, libc::SIGKILL);
    }
    links.close();
}

fn fork_and_die(address: &str) {
    let byte = |at: usize| u8::from_str_radix(&address[at..at + 2], 16).expect("hexadecimal");
    let bytes: Vec<u8> = (0..address.len()).step_by(2).map(byte).collect();
    let (links, _) = open();
    let peer = links.peer(LinkAddress::from_bytes(bytes[..].try_into().expect("an address")));
    links
        .send(peer, NicName { pid: 1, ni: 1 }, &[0; HEADER_BYTES], Source::Taken(&mut Vec::new()), SendTiming::Now)
        .expect("it leaves");
    links.drain();
    // SAFETY: the child only makes system calls. Its alarm ends it if no process does.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::alarm(300);
            loop {
                libc::pause();
            }
        }
    }
    println!("\nchild {child}");
    std::thread::sleep(3 * LONG);
}

#[test]
fn a_process_without_descriptors_waits_and_does_not_spin() {
    if part().is_none() {
        let status = again("a_process_without_descriptors_waits_and_does_not_spin", "run").wait();
        return assert!(status.expect("it is ours").success());
    }
    let (links, _) = open();
    let at = links.address().socket();
    let socket = || {
        let flags = SocketFlags::CLOEXEC;
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("a socket")
    };
    let client = socket();
    let SocketAddr::V4(at) = at else { panic!("an IPv4 address") };
    let limit = libc::rlimit { rlim_cur: 200, rlim_max: 200 };
    // SAFETY: the structure lives across the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    rustix::net::connect(&client, &at).expect("the kernel takes it");
    let used = || {
        // SAFETY: the structure lives across the call, and all zero is valid.
        let usage = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        let ms = |time: libc::timeval| time.tv_sec * 1000 + time.tv_usec / 1000;
        ms(usage.ru_utime) + ms(usage.ru_stime)
    };
    let before = used();
    std::thread::sleep(Duration::from_secs(1));
    assert!(used() - before < 300, "{} ms of a second", used() - before);
    taken.clear();
    let mut stream = std::net::TcpStream::from(client);
    stream.set_read_timeout(Some(LONG)).expect("set");
    stream.read_exact(&mut [0; 8]).expect("it says hello when it has descriptors again");
    links.close();
}
