// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thousand simulated routers in virtual time.

mod common;

use common::{MS, Net, torus};
use selvedge_fabric_manager::{Map, Strategy};

/// The digest that all maps have. None: they differ, or one lacks hosts or links.
fn agreed(net: &Net, hosts: usize, links: usize) -> Option<u64> {
    let is_whole = |map: &Map| map.hosts().len() == hosts && map.links().len() == links;
    let first = net.manager(0).map().0;
    let same = (0..hosts).all(|host| net.manager(host).map().0.digest() == first.digest());
    (same && is_whole(first)).then(|| first.digest())
}

#[test]
fn a_thousand_routers_agree_within_a_second_and_reroute_around_a_loss() {
    let (width, height) = (40, 25);
    let hosts = width * height;
    let mut net = Net::new(hosts, &torus(width, height), 1);
    for host in &mut net.hosts {
        host.config.limits.hosts = hosts as u32;
        host.config.timing.lifetime_ns = 600_000 * MS;
        host.config.strategy = Strategy::UpDown;
    }
    net.start_all();
    let begin_ns = net.now_ns;
    net.run_until(1_000 * MS, |net| agreed(net, hosts, 2 * hosts).is_some()).expect("below a second");
    println!("agreed after {} ms, {} frames, {} bytes", (net.now_ns - begin_ns) / MS, net.frames, net.bytes);
    net.set_carrier(77, false);
    let begin_ns = net.now_ns;
    net.run_until(500 * MS, |net| agreed(net, hosts, 2 * hosts - 1).is_some()).expect("the loss is known");
    println!("rerouted after {} ms", (net.now_ns - begin_ns) / MS);
    // The routes of a sample, by their lengths.
    for host in [0, 77, 999] {
        assert_eq!(net.hosts[host].routes.len(), hosts - 1);
    }
    let manager = net.hosts[5].manager.as_mut().unwrap();
    let far = common::id(512);
    let path = manager.path(far).expect("a path");
    assert!(path.len() >= manager.routes().find(|route| route.to == far).unwrap().cost as usize);
}
