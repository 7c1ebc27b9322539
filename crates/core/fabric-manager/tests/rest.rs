// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Managers that start in a fabric at rest, beside managers that discover it.

mod common;

use common::{MS, Net, torus};
use selvedge_fabric_manager::{Boot, Cause, Event, Strategy};

fn net(at_rest: bool) -> Net {
    let mut net = Net::new(24, &torus(6, 4), 3);
    for host in &mut net.hosts {
        host.config.strategy = Strategy::UpDown;
    }
    net.start_all();
    if at_rest {
        // The boots of the others, so that the maps are equal.
        let boots: Vec<Boot> = (0..24).map(|host| net.manager(host).config().boot).collect();
        let mut resting = Net::new(24, &torus(6, 4), 3);
        for (host, boot) in resting.hosts.iter_mut().zip(boots) {
            (host.config.strategy, host.config.boot) = (Strategy::UpDown, boot);
        }
        resting.start_at_rest();
        return resting;
    }
    net.run(1_000 * MS);
    net.check("discovered");
    net
}

fn digests(net: &Net) -> Vec<u64> {
    (0..24).map(|host| net.manager(host).map().0.digest()).collect()
}

#[test]
fn a_fabric_at_rest_has_the_map_of_a_discovery_and_nothing_to_send() {
    let (found, mut rest) = (net(false), net(true));
    assert_eq!(digests(&found), digests(&rest));
    assert!((0..24).all(|host| rest.manager(host).is_settled()));
    let (frames, before) = (rest.frames, digests(&rest));
    assert_eq!(frames, 0);
    rest.run(1_000 * MS);
    // One hello of each end in 100 ms, and no event.
    assert_eq!((rest.frames, digests(&rest)), (96 * 10, before));
    assert!(rest.hosts.iter().all(|host| host.events.is_empty()));
}

#[test]
fn a_fabric_at_rest_reroutes_as_one_that_was_discovered() {
    let (mut found, mut rest) = (net(false), net(true));
    for cut in [3, 17] {
        for net in [&mut found, &mut rest] {
            net.cables[cut].passes = [false, true];
            net.run(1_000 * MS);
        }
        assert_eq!(digests(&found), digests(&rest), "{cut}");
        let path = |net: &mut Net| net.hosts[2].manager.as_mut().unwrap().path(common::id(21));
        assert!(path(&mut rest).is_some() && path(&mut rest) == path(&mut found));
    }
    let silent = |event: &Event| matches!(event, Event::LinkDown { cause: Cause::Silence, .. });
    assert!((0..24).any(|host| rest.had_event(host, silent)));
    // The cables' return, and a host that starts anew.
    rest.cables.iter_mut().for_each(|cable| cable.passes = [true; 2]);
    rest.start(5);
    rest.run(2_000 * MS);
    let all = digests(&rest);
    assert!(all.iter().all(|&digest| digest == all[0]));
    assert_eq!(rest.manager(0).map().0.links().len(), 48);
    // Without routes by destination, but for the host that has started by itself.
    assert_eq!((rest.hosts[0].routes.len(), rest.hosts[5].routes.len()), (0, 23));
}
