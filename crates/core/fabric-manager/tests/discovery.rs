// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Discovery, faults of cables, and events, on small fabrics.

mod common;

use common::{MS, Net, config, id, ring, torus};
use selvedge_fabric::Port;
use selvedge_fabric_manager::{Block, Boot, Cause, Config, Event, HostId, HostLoad, Manager, PortLoad, State, Timing};

/// Longest time for a loss without a carrier's help: silence, one more hello, flooding, a map.
const FOUND_NS: u64 = 500 * MS;

#[test]
fn a_torus_is_found_in_any_order_of_starts() {
    for seed in 0..20 {
        let mut net = Net::new(9, &torus(3, 3), seed);
        let mut order: Vec<usize> = (0..9).collect();
        order.sort_by_key(|&host| common::Source(seed * 100 + host as u64).word());
        for host in order {
            net.start(host);
            let pause = net.source.below(100 * MS);
            net.run(pause);
        }
        let time = net.run_until(3_000 * MS, Net::is_true);
        net.check("torus");
        assert!(time.is_some());
        assert_eq!(net.manager(4).map().0.links().len(), 18);
        let digests: Vec<u64> = (0..9).map(|host| net.manager(host).map().0.digest()).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]));
    }
}

#[test]
fn a_lost_carrier_is_found_at_once_and_its_return_restores_the_routes() {
    let mut net = Net::new(3, &ring(3), 1);
    net.start_all();
    net.run(2_000 * MS);
    net.check("start");
    net.set_carrier(0, false);
    let time = net.run_until(300 * MS, Net::is_true).expect("within 0.3 s");
    assert!(time <= 100 * MS, "{time}");
    assert_eq!(net.hosts[0].routes[&id(1)].cost, 2, "over the third host");
    net.set_carrier(0, true);
    net.run_until(500 * MS, Net::is_true).expect("the link is back");
    assert_eq!(net.hosts[0].routes[&id(1)].cost, 1);
}

#[test]
fn silent_loss_of_both_directions_or_one_is_found_at_both_ends() {
    for passes in [[false, false], [true, false], [false, true]] {
        let mut net = Net::new(3, &ring(3), 2);
        net.start_all();
        net.run(2_000 * MS);
        net.cables[1].passes = passes;
        net.run_until(FOUND_NS, Net::is_true).unwrap_or_else(|| panic!("{passes:?} is not found"));
        net.run(2_000 * MS);
        net.check("cut");
        let one_way = (0..3).filter(|&host| net.had_event(host, |event| matches!(event, Event::OneWay { .. }))).count();
        assert_eq!(one_way, usize::from(passes != [false, false]), "{passes:?}");
        net.cables[1].passes = [true; 2];
        net.run_until(1_500 * MS, Net::is_true).expect("the link is back");
    }
}

#[test]
fn a_killed_manager_leaves_the_map_and_rejoins() {
    let mut net = Net::new(4, &ring(4), 3);
    net.start_all();
    net.run(2_000 * MS);
    net.kill(2);
    net.run_until(FOUND_NS, Net::is_true).expect("the host is gone");
    net.run(7_000 * MS);
    for host in [0, 1, 3] {
        assert_eq!(net.manager(host).announcements(), 3, "nothing stays of host 2");
    }
    net.start(2);
    net.run_until(1_000 * MS, Net::is_true).expect("it is back");
}

#[test]
fn a_restart_below_the_old_sequence_number_recovers_before_the_silence_ends() {
    let mut net = Net::new(4, &ring(4), 4);
    net.start_all();
    net.run(2_000 * MS);
    // Sequence numbers grow.
    for _ in 0..5 {
        net.set_carrier(0, false);
        net.run(3_000 * MS);
        net.set_carrier(0, true);
        net.run(12_000 * MS);
    }
    net.check("before");
    net.kill(1);
    net.run(20 * MS);
    net.start(1);
    net.run_until(1_000 * MS, Net::is_true).expect("the restarted host is in the fabric");
    net.run(3_000 * MS);
    net.check("after");
    assert!(!net.had_event(1, |event| matches!(event, Event::SameHost { .. })), "{:?}", net.hosts[1].events);
    let neighbour_saw = |event: &Event| matches!(event, Event::LinkDown { cause: Cause::Reboot, .. });
    assert!(net.had_event(0, neighbour_saw) && net.had_event(2, neighbour_saw));
}

#[test]
fn parts_are_true_by_themselves_and_merge() {
    // Two triangles and two cables between them.
    let pairs = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (1, 4)];
    let mut net = Net::new(6, &pairs, 5);
    net.start_all();
    net.run(2_000 * MS);
    net.check("whole");
    net.cables[6].passes = [false; 2];
    net.set_carrier(7, false);
    net.run_until(FOUND_NS, Net::is_true).expect("two parts");
    net.run(10_000 * MS);
    assert_eq!(net.manager(0).announcements(), 3, "the other part is forgotten");
    // Something changes while they are apart.
    net.kill(5);
    net.set_carrier(0, false);
    net.run(1_000 * MS);
    net.check("apart");
    net.set_carrier(7, true);
    net.cables[6].passes = [true; 2];
    net.run_until(2_000 * MS, Net::is_true).expect("one part");
    net.check("merged");
}

#[test]
fn a_cable_to_oneself_is_blocked_and_disturbs_nothing() {
    let mut configs: Vec<Config> = (0..2).map(|host| config(host, 4)).collect();
    configs[1].ports = 1;
    let ends = [[(0, 0), (1, 0)], [(0, 1), (0, 2)]];
    let mut net = Net::with(configs, &ends, 6);
    net.start_all();
    net.run(3_000 * MS);
    net.check("a loop of cables");
    let state = |port: usize| net.manager(0).ports().nth(port).unwrap().state();
    assert_eq!(state(0), State::Up);
    assert_eq!(state(1), State::Blocked(Block::Loop { port: Port(2) }));
    assert_eq!(state(2), State::Blocked(Block::Loop { port: Port(1) }));
}

#[test]
fn of_two_hosts_with_one_number_the_elder_stays_and_nothing_else_is_disturbed() {
    // 0 - 1 - 2 - 3 - 4, and hosts 0 and 4 have one number.
    let pairs: Vec<(usize, usize)> = (0..4).map(|host| (host, host + 1)).collect();
    let mut net = Net::new(5, &pairs, 7);
    net.hosts[4].config.host = id(0);
    for host in 0..4 {
        net.start(host);
    }
    net.run(2_000 * MS);
    net.check("before");
    let generation = net.manager(1).map().1;
    net.start(4);
    net.run(10_000 * MS);
    assert!(
        net.had_event(4, |event| matches!(event, Event::SameHost { yields: true, .. })),
        "{:?}",
        net.hosts[4].events
    );
    // The others see nothing of it.
    assert_eq!(net.manager(1).map().1, generation, "{:?}", net.hosts[1].events);
    assert_eq!(net.hosts[3].routes[&id(0)].cost, 3);
    assert_eq!(net.hosts[3].routes[&id(0)].hops[0].neighbour, id(2));
    // The elder goes, and the younger one takes its place.
    net.kill(0);
    net.run(10_000 * MS);
    assert_eq!(net.hosts[3].routes[&id(0)].cost, 1);
    net.check_routes("after");
}

#[test]
fn two_parts_with_one_number_in_each_agree_after_they_merge() {
    let pairs = [(0, 1), (1, 2), (3, 4), (4, 5), (2, 5)];
    let mut net = Net::new(6, &pairs, 8);
    net.hosts[3].config.host = id(0);
    net.cables[4].carrier = false;
    net.start(0);
    net.run(50 * MS);
    (1..6).for_each(|host| net.start(host));
    net.run(3_000 * MS);
    net.set_carrier(4, true);
    net.run(10_000 * MS);
    assert!(
        net.had_event(3, |event| matches!(event, Event::SameHost { yields: true, .. })),
        "{:?}",
        net.hosts[3].events
    );
    for (host, cost) in [(1, 1), (2, 2), (5, 3), (4, 4)] {
        assert_eq!(net.hosts[host].routes[&id(0)].cost, cost, "host {host}");
    }
    let generations: Vec<u64> = [1, 2, 4, 5].map(|host| net.manager(host).map().1).to_vec();
    net.run(60_000 * MS);
    assert_eq!(generations, [1, 2, 4, 5].map(|host| net.manager(host).map().1), "it stays quiet");
}

#[test]
fn a_neighbour_with_the_own_number_is_blocked() {
    let mut net = Net::new(3, &[(0, 1), (1, 2)], 9);
    net.hosts[0].config.host = id(1);
    net.start_all();
    net.run(2_000 * MS);
    let state = net.manager(1).ports().next().unwrap().state();
    assert!(matches!(state, State::Blocked(Block::SameHost { .. })), "{state:?}");
    assert_eq!(net.hosts[1].routes.keys().copied().collect::<Vec<HostId>>(), [id(2)]);
}

#[test]
fn cabling_that_is_not_expected_gives_an_event_and_a_link() {
    let mut net = Net::new(3, &ring(3), 10);
    net.start_all();
    net.input(0, |manager, _| manager.expect(Port(0), Some((id(2), Port(1)))));
    net.run(2_000 * MS);
    net.check("miswired");
    assert!(net.had_event(0, |event| matches!(event, Event::Miswired { port: Port(0), .. })));
    // The cables of ports 0 and 1 change places at hosts 1 and 2: carriers go, then others come.
    let (a, b) = (net.cables[0].ends, net.cables[2].ends);
    net.set_carrier(0, false);
    net.set_carrier(2, false);
    let configs = net.hosts.iter().map(|host| host.config.clone()).collect();
    let swapped = [[a[0], b[0]], [(1, 1), (2, 0)], [a[1], b[1]]];
    let mut after = Net::with(configs, &swapped, 11);
    after.now_ns = net.now_ns;
    for (host, it) in net.hosts.into_iter().enumerate() {
        after.hosts[host] = it;
    }
    for cable in 0..3 {
        after.set_carrier(cable, true);
    }
    after.run_until(2_000 * MS, Net::is_true).expect("the new cabling");
    assert!(after.had_event(0, |event| matches!(event, Event::Moved { .. })));
}

#[test]
fn different_mtus_are_reported_and_routes_use_the_smaller_one() {
    let mut net = Net::new(3, &[(0, 1), (1, 2)], 12);
    net.start_all();
    net.input(2, |manager, now_ns| manager.carrier(now_ns, Port(0), Some(1400)));
    net.input(0, |manager, now_ns| manager.carrier(now_ns, Port(0), Some(9000)));
    net.input(1, |manager, now_ns| manager.carrier(now_ns, Port(0), Some(9000)));
    net.run(2_000 * MS);
    net.check("mtus");
    assert!(net.had_event(1, |event| matches!(event, Event::MtuDiffers { port: Port(1), own: 1500, other: 1400 })));
    assert_eq!(net.hosts[0].routes[&id(1)].mtu, 9000);
    assert_eq!(net.hosts[0].routes[&id(2)].mtu, 1400);
}

#[test]
fn a_port_without_a_manager_at_the_other_end_becomes_quiet_and_starts_at_once() {
    let mut net = Net::new(2, &[(0, 1)], 13);
    net.start(0);
    net.run(20_000 * MS);
    assert!(net.had_event(0, |event| matches!(event, Event::NoManager { .. })));
    let before = net.frames;
    net.run(10_000 * MS);
    assert!((9..=11).contains(&(net.frames - before)), "{}", net.frames - before);
    net.start(1);
    net.run_until(300 * MS, Net::is_true).expect("the first hello is answered");
}

#[test]
fn a_link_that_falls_often_is_blocked_for_a_while_and_returns() {
    let mut net = Net::new(3, &ring(3), 14);
    net.start_all();
    net.run(2_000 * MS);
    for fall in 1..=4 {
        let blocked = net.had_event(0, |event| matches!(event, Event::Blocked { .. }));
        assert!(!blocked, "before fall {fall}");
        net.set_carrier(0, false);
        net.run(50 * MS);
        net.set_carrier(0, true);
        net.run(250 * MS);
    }
    let state = net.manager(0).ports().next().unwrap().state();
    assert_eq!(state, State::Blocked(Block::Unstable { drops: 4 }));
    net.run_until(20_000 * MS, Net::is_true).expect("it returns");
}

#[test]
fn drained_links_are_used_only_where_no_other_leads() {
    let mut net = Net::new(4, &[(0, 1), (1, 2), (2, 0), (2, 3)], 15);
    net.start_all();
    net.run(2_000 * MS);
    net.input(0, |manager, now_ns| manager.drain(now_ns, Port(0), true));
    net.input(2, |manager, now_ns| manager.drain(now_ns, Port(2), true));
    net.run(500 * MS);
    net.check("drained");
    assert_eq!(net.hosts[0].routes[&id(1)].hops[0].neighbour, id(2));
    assert_eq!(net.hosts[0].routes[&id(3)].hops[0].neighbour, id(2), "over a drained link");
    net.input(0, |manager, now_ns| manager.drain(now_ns, Port(0), false));
    net.run(500 * MS);
    assert_eq!(net.hosts[0].routes[&id(1)].hops[0].neighbour, id(1));
}

#[test]
fn a_disabled_port_and_a_stopped_manager_are_found_at_once() {
    let mut net = Net::new(3, &ring(3), 16);
    net.start_all();
    net.run(2_000 * MS);
    net.input(0, |manager, now_ns| manager.enable(now_ns, Port(0), false));
    net.run(60 * MS);
    assert_eq!(net.hosts[1].routes[&id(0)].hops[0].neighbour, id(2));
    net.input(0, |manager, now_ns| manager.enable(now_ns, Port(0), true));
    net.run_until(500 * MS, Net::is_true).expect("enabled");
    net.input(2, |manager, now_ns| manager.stop(now_ns));
    net.run(60 * MS);
    assert!(!net.hosts[0].routes.contains_key(&id(2)));
    net.input(0, |manager, now_ns| manager.reset(now_ns, Port(0)));
    net.run(500 * MS);
    assert_eq!(net.hosts[0].routes[&id(1)].cost, 1, "a reset link is up again");
}

#[test]
fn names_and_addresses_that_two_hosts_have_are_reported() {
    let mut net = Net::new(3, &ring(3), 17);
    net.hosts[1].config.name = "h2".into();
    net.hosts[2].config.address = net.hosts[1].config.address;
    net.start_all();
    net.run(2_000 * MS);
    net.check("names");
    assert!(net.had_event(0, |event| matches!(event, Event::SameName { name, .. } if name == "h2")));
    assert!(net.had_event(0, |event| matches!(event, Event::SameAddress { hosts, .. } if *hosts == [id(1), id(2)])));
    assert!(net.hosts[0].routes[&id(1)].address.is_some() && net.hosts[0].routes[&id(2)].address.is_none());
    assert!(net.hosts[1].routes[&id(2)].address.is_none(), "no route to the own address");
    assert!(net.hosts[2].routes[&id(1)].address.is_none(), "no route to the own address");
}

#[test]
fn a_host_that_returns_with_another_name_and_address_is_reported_and_its_routes_are_replaced() {
    let mut net = Net::new(4, &ring(4), 18);
    net.start_all();
    net.run(2_000 * MS);
    let old = net.hosts[1].config.address;
    // Before its silence ends; and long after.
    for (round, away) in [(1u8, 10), (2, 5_000)] {
        net.kill(1);
        net.run(away * MS);
        let before = net.hosts[1].config.address;
        net.hosts[1].config.name = format!("other{round}");
        net.hosts[1].config.address = Some(std::net::Ipv4Addr::new(10, 9, 9, round).into());
        net.start(1);
        net.run(2_000 * MS);
        net.check("renumbered");
        let now = net.hosts[1].config.address;
        for host in [0, 2, 3] {
            assert!(net.had_event(host, |event| matches!(event, Event::Renumbered { host, before: from, after, .. }
                if (*host, *from, *after) == (id(1), before, now))));
            assert!(net.had_event(host, |event| matches!(event, Event::Renamed { host, after, .. }
                if *host == id(1) && *after == format!("other{round}"))));
            assert_eq!(net.hosts[host].routes[&id(1)].address, now);
            assert!(net.hosts[host].routes.values().all(|route| route.address != old), "nothing stale");
        }
    }
    let lines = |host: usize| net.hosts[host].events.iter().map(Event::to_string).collect::<Vec<_>>();
    let line = "(other2) has another address: 10.9.9.2, before 10.9.9.1; its routes are replaced";
    assert!(lines(3).iter().any(|text| text.contains(line)), "{:?}", lines(3));
}

#[test]
fn a_change_crosses_a_link_at_most_twice() {
    for seed in 0..10 {
        let mut net = Net::new(16, &torus(4, 4), seed);
        net.start_all();
        net.run(3_000 * MS);
        net.crossings = Some(Default::default());
        let cable = net.source.below(32) as usize;
        net.set_carrier(cable, false);
        net.run(2_000 * MS);
        net.check("cut");
        let crossings = net.crossings.take().unwrap();
        assert!(crossings.len() >= 2 * 31, "both ends' announcements reach all");
        assert!(crossings.values().all(|&times| times <= 2), "{crossings:?}");
        // A link that comes up: its own cable carries one table each way besides.
        net.crossings = Some(Default::default());
        net.set_carrier(cable, true);
        net.run(2_000 * MS);
        net.check("back");
        let crossings = net.crossings.take().unwrap();
        assert!(crossings.iter().all(|((on, _), &times)| times <= if *on == cable { 4 } else { 2 }), "{crossings:?}");
    }
}

#[test]
fn a_fabric_without_changes_sends_hellos_and_renewals_only() {
    let mut net = Net::new(9, &torus(3, 3), 1);
    net.start_all();
    net.run(3_000 * MS);
    let (frames, before) = (net.frames, net.manager(0).map().1);
    net.run(100_000 * MS);
    net.check("later");
    assert_eq!(net.manager(0).map().1, before, "no new map");
    // 36 ports send ten hellos each second; each host renews every 30 s, and 36 ports pass it on and acknowledge.
    let hellos = 36 * 10 * 100;
    let renewals = 9 * 4 * 2 * 36;
    assert!(net.frames - frames <= hellos + renewals, "{} frames", net.frames - frames);
}

#[test]
fn loads_reach_every_host_and_end_with_theirs() {
    let mut net = Net::new(9, &torus(3, 3), 20);
    net.start_all();
    net.run(2_000 * MS);
    for second in 1..4u16 {
        for host in 0..9u16 {
            let port =
                PortLoad { port: Port(2), sent_bytes_s: 1_000, load_permille: Some(second), ..PortLoad::default() };
            // Ports that the host does not have, and one twice.
            let ports = [port, PortLoad { port: Port(77), ..port }, port, PortLoad { port: Port(0), ..port }];
            let load = HostLoad { processor_permille: 100 * second + host, temperature_dc: Some(400) };
            net.input(host.into(), |manager, now_ns| manager.loads(now_ns, load, &ports));
        }
        net.run(1_000 * MS);
    }
    let reports = |net: &Net| -> Vec<_> { net.manager(4).load_reports().cloned().collect() };
    let all = reports(&net);
    assert_eq!(all.len(), 9);
    for (host, report) in all.iter().enumerate() {
        assert_eq!((report.host, report.number), (id(host), 3));
        assert_eq!(report.load.processor_permille, 300 + host as u16);
        assert_eq!(report.ports.iter().map(|load| load.port.0).collect::<Vec<_>>(), [0, 2]);
    }
    // A host that starts later gets the last reports with the table.
    net.kill(4);
    net.run(1_000 * MS);
    net.start(4);
    net.run(1_000 * MS);
    assert_eq!(reports(&net).len(), 8, "all but its own");
    net.kill(0);
    net.run(8_000 * MS);
    assert_eq!(reports(&net).len(), 7);
}

#[test]
fn a_full_table_leaves_further_hosts_out_and_stays_whole() {
    let mut net = Net::new(6, &ring(6), 18);
    net.hosts[0].config.limits.hosts = 4;
    net.start_all();
    net.run(3_000 * MS);
    assert_eq!(net.manager(0).announcements(), 4);
    assert!(net.had_event(0, |event| matches!(event, Event::TableFull { limit: 4, .. })));
    for host in 1..6 {
        assert_eq!(net.untrue(host), None);
    }
}

#[test]
fn faster_times_give_faster_convergence() {
    let mut net = Net::new(9, &torus(3, 3), 19);
    for host in &mut net.hosts {
        host.config.timing = Timing::default().faster(100);
    }
    net.cables.iter_mut().for_each(|cable| cable.delay_ns = 1_000);
    net.start_all();
    net.run_until(50 * MS, Net::is_true).expect("within 50 ms");
    net.cables[3].passes = [false; 2];
    net.run_until(10 * MS, Net::is_true).expect("found within 10 ms");
}

#[test]
fn time_that_stands_or_goes_back_and_ports_that_do_not_exist_do_no_harm() {
    let mut manager = Manager::new(Config { boot: Boot(1), ..config(0, 2) }, u64::MAX);
    for now_ns in [u64::MAX, 0, 5, u64::MAX - 1] {
        manager.carrier(now_ns, Port(0), Some(1500));
        manager.carrier(now_ns, Port(7), Some(1500));
        manager.frame(now_ns, Port(9), &[1, 2, 3]);
        manager.sealed_frame(now_ns, Port(0));
        manager.enable(now_ns, Port(60_000), false);
        manager.drain(now_ns, Port(3), true);
        manager.reset(now_ns, Port(3));
        manager.tick(now_ns);
    }
    assert!(manager.take_effects().len() < 10);
}
