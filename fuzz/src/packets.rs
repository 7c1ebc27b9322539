// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of any content: decoded, and enqueued in a ring whose owner then handles them.

use std::sync::Arc;

use selvedge_host::interface::ArenaRange;
use selvedge_host::{Config, Interface, Mode, Path, SharedMemory};
use selvedge_nic::Limits;
use selvedge_nic::handle::NONE;
use selvedge_nic::packet::{HEADER_BYTES, Packet, Place, RESPONSE};
use selvedge_nic::portals::{EntrySpec, options};
use selvedge_nic::tables::{Command, Request, Side, kind};
use tempfile::TempDir;

use crate::campaign::{Fuzz, Source};

const LIMITS: Limits = Limits { heap_blocks: 256, heap_blocks_max: 256, ..crate::home::TINY };

pub struct Target {
    interface: Arc<Interface>,
    /// The program's memory, which entries and descriptors describe.
    memory: Vec<u8>,
    /// Bytes around it that must stay unchanged.
    guard_bytes: usize,
    executions: u64,
    _directory: TempDir,
}

impl Target {
    pub fn new() -> Target {
        let directory = TempDir::new().expect("a directory");
        Target {
            interface: open(&directory),
            memory: vec![0xee; 3 * 4096],
            guard_bytes: 4096,
            executions: 0,
            _directory: directory,
        }
    }

    fn start(&self) -> u64 {
        self.memory.as_ptr() as u64 + self.guard_bytes as u64
    }

    /// Makes a fresh NIC with entries on both lists.
    fn renew(&mut self) {
        self.interface.shut();
        self.interface = open(&self._directory);
        let start = self.start();
        let mut nic = self.interface.lock();
        let queue = nic.queues().alloc(8).expect("room");
        for flags in [0, options::PT_FLOWCTRL] {
            let portal = nic.portal_table().alloc(None, flags, queue).expect("room");
            for (which, options) in [(0, options::USE_ONCE), (0, 0), (1, options::MANAGE_LOCAL)] {
                let spec = EntrySpec {
                    options: options | options::OP_PUT | options::OP_GET,
                    start,
                    length: 4096,
                    iov: NONE,
                    iov_count: 0,
                    match_bits: u64::from(which),
                    ignore_bits: 2,
                    source: 0,
                    source_ignore: u64::MAX,
                    min_free: 64,
                    user_ptr: 0,
                    counter: NONE,
                    uid: u32::MAX,
                };
                let _ = nic.lists().append(&mut selvedge_nic::NoMemory, portal, which, &spec);
            }
        }
        drop(nic);
        self.interface.settle(false);
    }

    /// Makes requests of this process that wait for an answer, so that responses find some.
    fn pend(&self, source: &mut Source) -> u64 {
        let memory = Side { start: self.start(), ..Side::NOWHERE };
        let request = Request { kind: 1 + source.below(5) as u8, length: source.below(4096), ..Request::default() };
        let command = Command { request, target: 1, user_ptr: 0, source: Side::NOWHERE, sink: memory };
        self.interface.lock().pending_mut().add(&command, 1).unwrap_or(0)
    }

    fn packet(&self, source: &mut Source) -> Packet {
        let token = if source.one_in(2) { self.pend(source) } else { source.nasty() };
        Packet {
            kind: if source.one_in(3) { RESPONSE } else { kind::PUT + source.below(5) as u8 },
            fail: source.below(8) as u8,
            operation: source.below(20) as u8,
            datatype: source.below(16) as u8,
            ack: source.below(4) as u8,
            place: match source.below(6) {
                1 => Place::Spill(source.nasty()),
                _ => Place::Inline,
            },
            portal: source.below(3) as u32,
            uid: source.nasty32(),
            initiator: source.nasty(),
            origin: if source.one_in(2) { self.interface.id() } else { source.nasty() },
            token,
            match_bits: source.below(4),
            remote_offset: source.nasty(),
            header_data: source.word(),
            length: source.nasty(),
            operand: [source.nasty(); 4],
            payload_bytes: if source.one_in(2) { source.below(129) } else { source.nasty() },
            sender: if source.one_in(2) { std::process::id() } else { source.nasty32() },
        }
    }
}

fn open(directory: &TempDir) -> Arc<Interface> {
    let config = Config {
        mode: Mode::Host,
        path: Path::Bounce,
        spin_ns: 0,
        nap_ns: 1_000_000,
        directory: directory.path().to_path_buf(),
        nid: 0,
        token: 0,
    };
    Interface::open(Box::new(SharedMemory), config, 0, 1, 0, &LIMITS, ArenaRange::default()).expect("an interface")
}

fn decode(source: &mut Source, packet: &Packet) -> [u8; HEADER_BYTES] {
    let mut bytes = packet.encode(source.one_in(2));
    for _ in 0..source.below(4) {
        bytes[source.below(HEADER_BYTES as u64) as usize] = source.word() as u8;
    }
    if source.one_in(16) {
        for byte in &mut bytes[2..] {
            *byte = source.word() as u8;
        }
    }
    if let Ok(decoded) = Packet::decode(&bytes) {
        assert_eq!(Packet::decode(&decoded.encode(true)), Ok(decoded), "a decoded packet can be encoded again");
    }
    bytes
}

impl Fuzz for Target {
    fn execute(&mut self, source: &mut Source) {
        if self.executions % 64 == 0 {
            self.renew();
        }
        self.executions += 1;
        for _ in 0..1 + source.below(6) {
            let packet = self.packet(source);
            let bytes = decode(source, &packet);
            let payload = source.pick(&[0, 0, 8, 120, 4000]);
            let mut message = bytes.to_vec();
            message.extend((0..source.below(payload + 1)).map(|_| source.word() as u8));
            if source.one_in(32) {
                message.truncate(105 + source.below(23) as usize);
            }
            if !self.interface.enqueue_bytes(&message) {
                break;
            }
        }
        self.interface.progress();
        assert!(!self.interface.signals().doorbell.has_packets(), "a packet stayed");
        let (before, after) = (&self.memory[..self.guard_bytes], &self.memory[2 * self.guard_bytes..]);
        assert!(before.iter().chain(after).all(|&byte| byte == 0xee), "bytes outside of any entry were written");
        let mut nic = self.interface.lock();
        for portal in 0..2 {
            let _ = nic.portal_table().set(portal, true);
        }
    }
}
