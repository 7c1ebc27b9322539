// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A manager with a map of a thousand hosts, flooded with frames that are damaged, replayed or forged.
//!
//! The work for a frame is bounded: it is decoded once, looked up, and answered at most once; and however many frames
//! come, maps are made no more often than the times of the configuration allow.

mod common;

use common::{MS, Source, config, id, torus};
use selvedge_fabric::Port;
use selvedge_fabric_manager::announcement::{Announced, Announcement, LinkEnd};
use selvedge_fabric_manager::wire::{Body, Edition};
use selvedge_fabric_manager::{Boot, Config, Effect, End, Frame, KnownFabric, Manager};
use std::time::Instant;

const WIDTH: usize = 40;
const HEIGHT: usize = 25;
const HOSTS: usize = WIDTH * HEIGHT;
/// Frames of a flood, and the time between two: 200,000 a second, more than 100 Mbit/s.
const FRAMES: u64 = 20_000;
const APART_NS: u64 = 5_000;

fn at_rest() -> Manager {
    let mut used = vec![0u16; HOSTS];
    let mut take = |host: usize| {
        used[host] += 1;
        (id(host), Port(used[host] - 1))
    };
    let links: Vec<_> = torus(WIDTH, HEIGHT).iter().map(|&(a, b)| [take(a), take(b)]).collect();
    let mut configs: Vec<Config> = (0..HOSTS).map(|host| Config { boot: Boot(7), ..config(host, 4) }).collect();
    configs.iter_mut().for_each(|config| config.limits.hosts = HOSTS as u32);
    let fabric = KnownFabric::new(&configs, &links, 1500);
    let mut manager = Manager::at_rest(configs.swap_remove(0), 0, &fabric);
    manager.tick(0);
    manager.take_effects();
    assert_eq!(manager.map().0.hosts().len(), HOSTS);
    manager
}

/// Gives a manager a flood at its first port. Returns the frames that it sends, and the maps that it makes.
fn flood(name: &str, mut manager: Manager, mut frame: impl FnMut(u64, End) -> Vec<u8>) -> (Manager, u64, u64) {
    let neighbour = manager.ports().next().and_then(|port| port.up()).expect("a neighbour");
    let before = manager.map().1;
    let (mut sent, mut spent, mut worst) = (0, 0, 0);
    for number in 0..FRAMES {
        let now_ns = number * APART_NS;
        let bytes = frame(number, neighbour);
        let began = Instant::now();
        if manager.due_ns() <= now_ns {
            manager.tick(now_ns);
        }
        manager.frame(now_ns, Port(0), &bytes);
        let took = began.elapsed().as_nanos() as u64;
        (spent, worst) = (spent + took, took.max(worst));
        let effects = manager.take_effects();
        sent += effects.iter().filter(|effect| matches!(effect, Effect::Send { .. })).count() as u64;
    }
    let maps = manager.map().1 - before;
    println!("{name}: {} ns a frame, {worst} ns at most, {sent} frames sent, {maps} maps", spent / FRAMES);
    assert!(sent < FRAMES / 4, "{name}: {sent} answers");
    let limit = FRAMES * APART_NS / manager.config().timing.settle_ns;
    assert!(maps <= limit + 2, "{name}: {maps} maps, {limit} are allowed");
    assert!(manager.announcements() <= HOSTS, "{name}");
    (manager, sent, maps)
}

fn announced(host: usize, sequence: u64, announcement: &Announcement) -> Announced {
    let edition = Edition { host: id(host), sequence, boot: Boot(7) };
    Announced { edition, lifetime_ms: 60_000, body: announcement.encode() }
}

#[test]
fn the_work_for_damaged_replayed_and_forged_frames_is_bounded() {
    let manager = at_rest();
    let digest = manager.map().0.digest();
    let link = LinkEnd {
        port: Port(0),
        neighbour: id(1),
        check: Boot(7).check(),
        neighbour_port: Port(0),
        cost: 1,
        mtu: 1500,
    };
    let whole = Announcement { name: "n".into(), links: vec![link; 4], ..Announcement::default() };

    let mut source = Source(1);
    let (after, ..) = flood("damaged", manager.clone(), |number, sender| {
        let all = (0..8).map(|at| announced((number as usize + at) % HOSTS, 1 << 40, &whole)).collect();
        let mut bytes = Frame { sender, body: Body::Announcements(all) }.encode();
        let at = source.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << source.below(8);
        bytes.truncate(bytes.len() - source.below(40) as usize);
        bytes
    });
    assert_eq!(after.map().0.digest(), digest, "damaged frames change nothing");

    let (after, _, maps) = flood("replayed", manager.clone(), |number, sender| {
        let all = (0..8).map(|at| announced((8 * number as usize + at) % HOSTS, 0, &whole)).collect();
        Frame { sender, body: Body::Announcements(all) }.encode()
    });
    assert_eq!((after.map().0.digest(), maps), (digest, 0), "old announcements change nothing");

    // A neighbour that has the key, or a fabric without one: announcements of hosts that would lose their links.
    let (mut after, _, maps) = flood("forged", manager, |number, sender| {
        let host = 1 + number as usize % (HOSTS - 1);
        let bare = Announcement { name: format!("x{number}"), ..Announcement::default() };
        let all = vec![announced(host, 1 << 40 | number, &bare)];
        Frame { sender, body: Body::Announcements(all) }.encode()
    });
    assert!(maps > 0, "they are taken");
    // The own links are up still, and the next map is made in time.
    after.tick(FRAMES * APART_NS + 1_000 * MS);
    assert!(after.due_ns() > FRAMES * APART_NS + 1_000 * MS);
}
