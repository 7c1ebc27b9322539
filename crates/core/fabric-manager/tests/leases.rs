// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Leases and source routes: handed out, withdrawn with their cause, free of deadlock.

mod common;

use common::{MS, Net, Source, config, id, random, ring};
use selvedge_fabric::Algorithm;
use selvedge_fabric_manager::{Client, Config, LeaseError, SourceRoutes, Strategy, Withdrawal};

fn net(strategy: Strategy) -> Net {
    let mut net = Net::new(4, &ring(4), 1);
    net.hosts.iter_mut().for_each(|host| host.config.strategy = strategy);
    net.start_all();
    net.run(2_000 * MS);
    net.check("start");
    net
}

#[test]
fn a_lease_is_withdrawn_when_its_path_changes_and_only_then() {
    for strategy in [Strategy::Shortest, Strategy::UpDown] {
        let mut net = net(strategy);
        let mut lease = |to| net.input(0, |manager, now_ns| manager.lease(now_ns, Client(7), id(to))).unwrap();
        let (near, other) = (lease(1).unwrap(), lease(3).unwrap());
        assert_eq!((near.to, near.path.len(), near.address), (id(1), 1, net.hosts[1].config.address));
        assert_eq!(near.generation, net.manager(0).map().1);
        // A link on neither path.
        net.set_carrier(1, false);
        net.run(500 * MS);
        let gone: Vec<_> = net.hosts[0].withdrawn.iter().map(|(lease, _)| lease.id).collect();
        if strategy == Strategy::Shortest {
            assert_eq!(gone, []);
            // The link of the first path.
            net.set_carrier(0, false);
            net.run(500 * MS);
            let [(lease, cause)] = &net.hosts[0].withdrawn[..] else { panic!("{:?}", net.hosts[0].withdrawn) };
            assert_eq!((lease.id, *cause), (near.id, Withdrawal::Unreachable));
        }
        net.kill(3);
        net.run(1_000 * MS);
        assert!(net.hosts[0].withdrawn.iter().any(|(lease, _)| lease.id == other.id), "{strategy:?}");
        let left = net.manager(0).leases().count();
        assert_eq!(left + net.hosts[0].withdrawn.len(), 2);
    }
}

#[test]
fn a_longer_path_is_a_new_lease() {
    let mut net = net(Strategy::Shortest);
    let lease = |net: &mut Net| net.input(0, |manager, now_ns| manager.lease(now_ns, Client(7), id(1))).unwrap();
    let first = lease(&mut net).unwrap();
    net.set_carrier(0, false);
    net.run(500 * MS);
    assert_eq!(net.hosts[0].withdrawn, [(first.clone(), Withdrawal::Rerouted)]);
    let second = lease(&mut net).unwrap();
    assert!(second.id > first.id && second.generation > first.generation);
    assert_eq!(second.path.len(), 3);
}

#[test]
fn leases_have_a_limit_and_end_with_their_client() {
    let mut net = Net::new(4, &ring(4), 1);
    net.hosts[0].config.limits.leases = 3;
    net.start_all();
    net.run(2_000 * MS);
    let mut lease = |client, to| net.input(0, |manager, now_ns| manager.lease(now_ns, Client(client), id(to))).unwrap();
    assert_eq!(lease(1, 0), Err(LeaseError::Own { host: id(0) }));
    assert_eq!(lease(1, 99), Err(LeaseError::Unreachable { host: id(99) }));
    let first = lease(1, 1).unwrap();
    lease(2, 2).unwrap();
    lease(2, 3).unwrap();
    assert_eq!(lease(3, 1), Err(LeaseError::Full { limit: 3 }));
    net.input(0, |manager, _| {
        assert!(manager.release(first.id) && !manager.release(first.id));
        manager.release_client(Client(2));
        assert_eq!(manager.leases().count(), 0);
    });
}

#[test]
fn source_routes_of_any_fabric_reach_every_host_and_have_no_cycle() {
    for seed in 0..30 {
        let mut source = Source(seed);
        let hosts = 3 + source.below(20) as usize;
        let pairs = random(hosts, hosts, &mut source);
        let mut net = Net::new(hosts, &pairs, seed);
        net.start_all();
        net.run(2_000 * MS);
        net.check("random");
        let map = net.manager(0).map().0.clone();
        // Making them checks for cycles.
        let routes = SourceRoutes::new(&map, Strategy::UpDown, 1).expect("no cycle");
        assert_eq!(routes.algorithm(), Algorithm::UpDown);
        for from in 0..hosts {
            for to in (0..hosts).filter(|&to| to != from) {
                let path = routes.path(&map, id(from), id(to)).expect("a path");
                let mut at = from;
                let ports: Vec<u16> = path.iter().map(|hop| hop.port.0).collect();
                ports.iter().for_each(|&port| at = net.other_end(at, port).expect("a cable"));
                assert_eq!(at, to, "seed {seed}");
            }
        }
        let other = net.manager(hosts - 1).map().0.clone();
        let same = SourceRoutes::new(&other, Strategy::UpDown, 1).unwrap();
        assert_eq!(same.path(&other, id(0), id(1)), routes.path(&map, id(0), id(1)), "equal on every host");
    }
}

/// A mesh whose hosts announce their positions.
fn mesh(width: usize, height: usize) -> Net {
    let at = |x: usize, y: usize| y * width + x;
    let place = |host: usize| [(host % width) as u16, (host / width) as u16];
    let configs: Vec<Config> = (0..width * height)
        .map(|host| Config { position: Some(place(host)), strategy: Strategy::WestFirst, ..config(host, 4) })
        .collect();
    let mut ends = Vec::new();
    for y in 0..height {
        for x in 0..width {
            if x + 1 < width {
                ends.push([(at(x, y), 0), (at(x + 1, y), 1)]);
            }
            if y + 1 < height {
                ends.push([(at(x, y), 2), (at(x, y + 1), 3)]);
            }
        }
    }
    Net::with(configs, &ends, 1)
}

#[test]
fn west_first_holds_on_a_mesh_with_a_missing_link_and_gives_way_where_it_cannot() {
    let mut net = mesh(4, 3);
    net.start_all();
    net.run(2_000 * MS);
    net.check("mesh");
    let algorithm = |net: &Net| {
        let map = net.manager(5).map().0;
        SourceRoutes::new(map, Strategy::WestFirst, 1).expect("no cycle").algorithm()
    };
    assert_eq!(algorithm(&net), Algorithm::WestFirst);
    // A link north of host 5: rows and columns around it remain.
    let vertical = net.cables.iter().position(|cable| cable.ends[0] == (5, 2)).unwrap();
    net.set_carrier(vertical, false);
    net.run(500 * MS);
    assert_eq!(algorithm(&net), Algorithm::WestFirst);
    // Without its link west, nothing leads west from host 5 first: packets would have to turn west later.
    let west = net.cables.iter().position(|cable| cable.ends == [(0, 0), (1, 1)]).unwrap();
    net.set_carrier(west, false);
    net.run(500 * MS);
    assert_eq!(algorithm(&net), Algorithm::UpDown);
    net.input(5, |manager, _| {
        let routes = manager.source_routes().expect("routes");
        assert!(routes.instead().expect("a reason").contains("west-first"));
    });
}

#[test]
fn the_loss_of_one_link_of_a_triangle_leaves_the_other_path() {
    let mut net = Net::new(3, &ring(3), 1);
    net.hosts.iter_mut().for_each(|host| host.config.strategy = Strategy::UpDown);
    net.start_all();
    net.run(1_000 * MS);
    for cable in 0..3 {
        net.set_carrier(cable, false);
        net.run(500 * MS);
        let (a, b) = (net.cables[cable].ends[0].0, net.cables[cable].ends[1].0);
        let path = net.input(a, |manager, _| manager.path(id(b))).flatten().expect("over the third host");
        assert_eq!(path.len(), 2);
        net.set_carrier(cable, true);
        net.run(12_000 * MS);
        net.check("back");
    }
}
