// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams and lines of any content for the daemon of a fabric: sealed frames that are cut, changed, repeated or of
//! another key; heads of tests of a cable; requests of clients.

use selvedge_daemon::cable_test::wire::{Body, HEAD_BYTES, Head, Pattern, Tally};
use selvedge_daemon::cable_test::{Mirror, Plan, Tester};
use selvedge_daemon::protocol::Request;
use selvedge_daemon::seal::{DATAGRAM_BYTES_MAX, Opened, Seal};
use selvedge_fabric_manager::wire::Hello;
use selvedge_fabric_manager::{Boot, End, Frame, HostId};

use crate::campaign::{Fuzz, Source};

const KEY: [u8; 32] = [7; 32];
const OWN: HostId = HostId(1);
const OTHER: HostId = HostId(2);

pub struct Target {
    ours: Seal,
    theirs: Seal,
    stranger: Seal,
    /// Datagrams that were opened before.
    recorded: Vec<Vec<u8>>,
    mirror: Mirror,
    now_ns: u64,
}

impl Target {
    pub fn new() -> Target {
        Target {
            ours: Seal::new(Some(KEY), 1),
            theirs: Seal::new(Some(KEY), 1),
            stranger: Seal::new(Some([8; 32]), 1),
            recorded: Vec::new(),
            mirror: Mirror::default(),
            now_ns: 0,
        }
    }

    /// Only an unchanged new datagram of the same key opens, and only once.
    fn seals(&mut self, source: &mut Source) {
        let sender = End { host: OTHER, boot: Boot(3), port: selvedge_fabric::Port(0), session: source.nasty32() };
        let hello = Hello { number: source.nasty32(), ..Hello::default() };
        let frame = Frame { sender, body: selvedge_fabric_manager::wire::Body::Hello(hello) }.encode();
        let sealed = self.theirs.seal(&frame);
        let mut datagram = match source.below(4) {
            0 => self.stranger.seal(&frame),
            1 => random(source, DATAGRAM_BYTES_MAX + 40),
            _ => sealed.clone(),
        };
        mutate(source, &mut datagram);
        if datagram != sealed {
            assert_eq!(self.ours.open(0, &datagram), Opened::Closed);
        }
        assert_eq!(self.ours.open(0, &sealed), Opened::Frame(&frame));
        let before = self.recorded.len() as u64;
        if before > 0 {
            let at = source.below(before) as usize;
            assert_eq!(self.ours.open(0, &self.recorded[at]), Opened::Replay);
        }
        self.recorded.push(sealed);
        self.recorded.truncate(64);
    }

    /// A head that decodes is one that was encoded; a mirror never answers with more bytes than it got.
    fn heads(&mut self, source: &mut Source) {
        let pattern = source.pick(&Pattern::ALL);
        let (number, payload) = (source.nasty32(), source.below(2000) as u16);
        let body = match source.below(4) {
            0 => Body::Ask,
            1 => Body::Told(Tally { arrived: source.nasty32(), damaged: source.nasty32(), ..Tally::default() }),
            2 => Body::Echo { number, pattern, payload, damaged: source.nasty() as u16, order: source.nasty32() },
            _ => Body::Frame { number, pattern, payload },
        };
        let host = |source: &mut Source| source.pick(&[OWN, OTHER, HostId(0), HostId(u64::MAX)]);
        let head = Head { from: host(source), to: host(source), test: source.below(3), body };
        let mut datagram = head.encode().to_vec();
        head.fill(&mut datagram);
        mutate(source, &mut datagram);
        self.now_ns += source.pick(&[0, 1, 1_000_000, 100_000_000]);
        let plan = Plan { frames: 20, size: None, rate: 10_000 };
        let mut tester = Tester::new(self.now_ns, OWN, OTHER, 1, plan, vec![200, 1500], 0);
        for _ in 0..4 {
            let Some(found) = Head::decode(&datagram) else {
                self.mirror.unreadable();
                tester.unreadable();
                break;
            };
            assert_eq!(found.encode(), datagram[..HEAD_BYTES]);
            let payload = &datagram[HEAD_BYTES..];
            tester.take(self.now_ns, &found, payload);
            if let Some(answer) = self.mirror.take(self.now_ns, OWN, &found, payload) {
                let mut bytes = answer.encode().to_vec();
                answer.fill(&mut bytes);
                assert!(bytes.len() <= datagram.len(), "{} bytes answer {}", bytes.len(), datagram.len());
            }
            self.now_ns += 400_000_000;
            let _ = tester.tick(self.now_ns);
        }
    }

    /// A line is a request, which is written as it was read, or is refused.
    fn lines(source: &mut Source) {
        let lines = [
            r#"{"ask":"status"}"#,
            r#"{"ask":"log","follow":true}"#,
            r#"{"ask":"link","port":"a:eth1","act":"drain"}"#,
            r#"{"ask":"test","port":":0","count":10,"size":null,"rate":4294967295}"#,
        ];
        let mut line = source.pick(&lines).as_bytes().to_vec();
        mutate(source, &mut line);
        if let Ok(request) = serde_json::from_slice::<Request>(&line) {
            let written = serde_json::to_vec(&request).expect("a request can be written");
            assert_eq!(serde_json::from_slice::<Request>(&written).expect("and read"), request);
            if let Request::Test { count, size, rate, .. } = request {
                if let Ok(sizes) = (Plan { frames: count, size, rate }).checked(source.nasty32(), 28) {
                    assert!(!sizes.is_empty() && sizes.len() < 12, "{sizes:?}");
                }
            }
        }
    }
}

fn random(source: &mut Source, bytes_max: usize) -> Vec<u8> {
    (0..source.below(bytes_max as u64)).map(|_| source.word() as u8).collect()
}

fn mutate(source: &mut Source, bytes: &mut Vec<u8>) {
    match source.below(6) {
        0 => bytes.truncate(source.below(bytes.len() as u64) as usize),
        1 => bytes.extend(random(source, 100)),
        2 | 3 if !bytes.is_empty() => {
            let at = source.below(bytes.len() as u64) as usize;
            bytes[at] = if source.one_in(2) { source.word() as u8 } else { bytes[at] ^ 1 };
        }
        _ => {}
    }
}

impl Fuzz for Target {
    fn execute(&mut self, source: &mut Source) {
        self.seals(source);
        self.heads(source);
        Target::lines(source);
    }
}
