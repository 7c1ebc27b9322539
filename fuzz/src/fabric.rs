// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames of any content for the manager of a fabric: from the neighbour with which a port is up, from others, damaged,
//! and with wrong fields behind a right checksum.

use selvedge_fabric_manager::announcement::{Announced, Announcement, LinkEnd};
use selvedge_fabric_manager::load::{HostLoad, LoadReport, PortLoad};
use selvedge_fabric_manager::wire::{Body, Echo, Edition, Hello};
use selvedge_fabric_manager::{
    Boot, Client, Config, Effect, End, FRAME_BYTES_MAX, Frame, HostId, Limits, Manager, PORTS_MAX, Strategy, Timing,
};
use selvedge_nic::packet::crc32c;

use crate::campaign::{Fuzz, Source};

const HOSTS_MAX: u32 = 24;
const PORTS: u16 = 3;
const OWN: HostId = HostId(1);
const MS: u64 = 1_000_000;

pub struct Target {
    manager: Manager,
    now_ns: u64,
    /// The own ends, as the manager's last hellos named them.
    own: [End; PORTS as usize],
    number: u32,
    executions: u64,
}

impl Target {
    pub fn new() -> Target {
        let mut target = Target {
            manager: manager(1, 0),
            now_ns: 0,
            own: [End::default(); PORTS as usize],
            number: 0,
            executions: 0,
        };
        target.renew(1);
        target
    }

    fn renew(&mut self, boot: u64) {
        self.manager = manager(boot, self.now_ns);
        for port in 0..PORTS {
            self.manager.carrier(self.now_ns, selvedge_fabric::Port(port), Some(1500));
        }
        self.check();
    }

    /// The end that the fuzzer plays at a port.
    fn neighbour(port: u16) -> End {
        End { host: HostId(10 + u64::from(port)), boot: Boot(3), port: selvedge_fabric::Port(0), session: 1 }
    }

    fn link_up(&mut self, port: u16) {
        self.number += 1;
        let echo = Echo { end: self.own[usize::from(port)], sent_ns: self.now_ns, held_ns: 0 };
        let hello = Hello { mtu: 1500, number: self.number, sent_ns: self.now_ns, echo: Some(echo) };
        let frame = Frame { sender: Target::neighbour(port), body: Body::Hello(hello) };
        self.deliver(port, &frame.encode());
    }

    fn deliver(&mut self, port: u16, bytes: &[u8]) {
        self.manager.frame(self.now_ns, selvedge_fabric::Port(port), bytes);
        self.check();
    }

    /// Checks the limits, and the frames that the manager sends.
    fn check(&mut self) {
        let effects = self.manager.take_effects();
        assert!(effects.len() < 2_000, "{} effects of one input", effects.len());
        for effect in effects {
            if let Effect::Send { port, frame } = effect {
                assert!(frame.len() <= FRAME_BYTES_MAX);
                let frame = Frame::decode(&frame).expect("a frame that a manager made");
                self.own[usize::from(port.0)] = frame.sender;
            }
        }
        assert!(self.manager.announcements() <= HOSTS_MAX as usize, "the table exceeds its limit");
        assert!(self.manager.due_ns() > self.now_ns, "due in the past");
        assert!(self.manager.routes().count() < HOSTS_MAX as usize);
    }
}

fn manager(boot: u64, now_ns: u64) -> Manager {
    let config = Config {
        host: OWN,
        boot: Boot(boot),
        name: "fuzzed".into(),
        address: Some(std::net::Ipv4Addr::new(10, 0, 0, 1).into()),
        position: (boot % 2 == 0).then_some([0, 0]),
        ports: PORTS,
        strategy: if boot % 3 == 0 { Strategy::WestFirst } else { Strategy::UpDown },
        limits: Limits { hosts: HOSTS_MAX, leases: 8 },
        timing: Timing::default(),
    };
    Manager::new(config, now_ns)
}

fn host(source: &mut Source) -> HostId {
    HostId(if source.one_in(8) { source.nasty() } else { source.below(16) })
}

fn boot(source: &mut Source) -> Boot {
    Boot(if source.one_in(4) { source.nasty().max(1) } else { 3 })
}

fn port(source: &mut Source) -> selvedge_fabric::Port {
    selvedge_fabric::Port(if source.one_in(16) { source.nasty() as u16 } else { source.below(4) as u16 })
}

fn announced(source: &mut Source) -> Announced {
    let edition = Edition { host: host(source), sequence: source.nasty(), boot: boot(source) };
    let links = source.below(6) as u16;
    let link = |at: u16| LinkEnd {
        port: selvedge_fabric::Port(at * source.pick(&[1, 1, 2, 9])),
        neighbour: host(source),
        check: if source.one_in(4) { source.nasty32() } else { Boot(3).check() },
        neighbour_port: port(source),
        cost: source.pick(&[1, 1, 1, 0, u16::MAX, 77]),
        mtu: source.nasty() as u16,
    };
    let links = (0..links).map(link).collect();
    let address = [10, 0, 0, source.below(8) as u8];
    let announcement = Announcement {
        name: ["", "a", "b\n", "fuzzed"][source.below(4) as usize].into(),
        address: source.one_in(2).then(|| address.into()),
        position: source.one_in(2).then(|| [source.below(4) as u16, source.below(4) as u16]),
        links,
    };
    Announced { edition, lifetime_ms: source.nasty32(), body: announcement.encode() }
}

fn body(source: &mut Source, own: End) -> Body {
    match source.below(8) {
        0 => {
            let end = if source.one_in(2) { own } else { End { host: host(source), ..own } };
            let echo = Echo { end, sent_ns: source.nasty(), held_ns: source.nasty() };
            let (mtu, number) = (source.nasty32(), source.nasty32());
            Body::Hello(Hello { mtu, number, sent_ns: source.nasty(), echo: source.one_in(2).then_some(echo) })
        }
        1 => {
            let edition = |_| Edition { host: host(source), sequence: source.nasty(), boot: boot(source) };
            Body::Acknowledgements((0..10).map(edition).collect())
        }
        2 => {
            let load = |at| PortLoad { port: selvedge_fabric::Port(at), errors: 1, ..PortLoad::default() };
            let ports = (0..source.below(u64::from(PORTS_MAX)) as u16).map(load).collect();
            let load = HostLoad { processor_permille: source.nasty() as u16, temperature_dc: None };
            Body::Loads(LoadReport { host: host(source), boot: boot(source), number: source.nasty(), load, ports })
        }
        _ => Body::Announcements((0..1 + source.below(4)).map(|_| announced(source)).collect()),
    }
}

impl Fuzz for Target {
    fn execute(&mut self, source: &mut Source) {
        if self.executions % 64 == 0 {
            self.renew(1 + source.below(1_000));
        }
        self.executions += 1;
        for at in 0..PORTS {
            if !source.one_in(4) {
                self.link_up(at);
            }
        }
        for _ in 0..1 + source.below(12) {
            let at = source.below(u64::from(PORTS)) as u16;
            let sender = match source.below(4) {
                0 => End { host: host(source), boot: boot(source), port: port(source), session: source.nasty32() },
                _ => Target::neighbour(at),
            };
            let mut bytes = Frame { sender, body: body(source, self.own[usize::from(at)]) }.encode();
            match source.below(6) {
                0 => bytes.truncate(source.below(bytes.len() as u64) as usize),
                1 => {
                    let at = source.below(bytes.len() as u64) as usize;
                    bytes[at] = source.word() as u8;
                    if source.one_in(2) {
                        bytes[8..12].fill(0);
                        let crc = crc32c(&bytes).to_le_bytes();
                        bytes[8..12].copy_from_slice(&crc);
                    }
                }
                _ => {}
            }
            self.deliver(at, &bytes);
        }
        self.now_ns += source.pick(&[0, 1, 20 * MS, 100 * MS, 400 * MS, 7_000 * MS]);
        match source.below(8) {
            0 => self.manager.sealed_frame(self.now_ns, port(source)),
            1 => self.manager.drain(self.now_ns, port(source), source.one_in(2)),
            2 => self.manager.reset(self.now_ns, port(source)),
            3 => _ = self.manager.lease(self.now_ns, Client(1), host(source)),
            _ => self.manager.tick(self.now_ns),
        }
        self.check();
        assert!(self.manager.leases().count() <= 8);
        if source.one_in(8) {
            self.manager.release_client(Client(1));
        }
    }
}
