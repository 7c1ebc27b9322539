// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Saved state: what it restores, and refusal of damaged and inconsistent bytes.

mod common;

use common::{LIMITS, config, fat_tree, manager, node_address, process_address, request};
use proptest::prelude::*;
use selvedge_fabric::{AnId, NodeId, RouterId, Topology};
use selvedge_manager::{Config, GrantError, Granted, JobRequest, Manager, SavedError};
use selvedge_nic::aggregation::Limits;
use selvedge_nic::packet::crc32c;

/// A manager with jobs of all kinds, and jobs that a lost node must forget.
fn sample() -> Manager {
    let mut manager = manager(4);
    for job in 1..=4 {
        let request = JobRequest { trees: job % 3, ..request(job, &[job, 6, 10 + job]) };
        manager.begin_job(&request, u64::MAX - u64::from(job)).expect("room");
    }
    manager.router_lost(RouterId(3));
    manager.end_job(2).expect("it is there");
    manager.host_lost(NodeId(2));
    manager.process_lost(process_address(1, 1));
    manager.begin_job(&request(5, &[0, 7]), 5).expect("room");
    manager.host_lost(NodeId(9));
    manager
}

fn restore(bytes: &[u8]) -> Result<Manager, SavedError> {
    Manager::restore(bytes, fat_tree(), &config(4), node_address)
}

#[test]
fn a_state_comes_back_as_it_was() {
    let manager = sample();
    let restored = restore(&manager.save()).expect("it was saved");
    assert_eq!(restored, manager);
    assert_eq!((restored.save(), restored.start()), (manager.save(), manager.start()));
    let moved = |an: AnId| node_address(an) + 1000;
    let restored = Manager::restore(&manager.save(), fat_tree(), &config(4), moved).expect("nodes may move");
    assert_eq!(restored.start().len(), manager.start().len());
}

#[test]
fn every_changed_byte_and_every_cut_is_refused() {
    let bytes = sample().save();
    for at in 0..bytes.len() {
        assert!(restore(&bytes[..at]).is_err(), "{at}");
        for change in [1, 0x10, 0x20, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            // A digit of the checksum may be in upper case.
            let is_same = damaged.eq_ignore_ascii_case(&bytes) && at < 40;
            assert!(restore(&damaged).is_err() || is_same, "{at} ^ {change}");
        }
    }
    assert_eq!(restore(b""), Err(SavedError::NotOne));
    assert_eq!(restore(b"selvedge-manager 2 00000000 0\n"), Err(SavedError::Version { is: 2 }));
    assert_eq!(restore(&[&bytes[..], b" "].concat()), Err(SavedError::Damaged));
}

#[test]
fn a_grant_comes_back_as_it_was_and_damage_is_refused() {
    let mut manager = manager(4);
    let (granted, _) = manager.begin_job(&JobRequest { trees: 2, ..request(1, &[0, 5, 9, 15]) }, 77).expect("room");
    let bytes = granted.save();
    assert_eq!(Granted::restore(&bytes), Ok(granted));
    for at in 0..bytes.len() {
        assert!(Granted::restore(&bytes[..at]).is_err(), "{at}");
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(Granted::restore(&damaged).is_err(), "{at}");
    }
    assert_eq!(Granted::restore(&manager.save()), Err(GrantError::NotOne));
    assert_eq!(Granted::restore(b"selvedge-grant 9 00000000 0\n"), Err(GrantError::Version { is: 9 }));
    // Inconsistent files: a node above itself, a leaf that does not exist, end nodes out of order.
    let impossible = [
        r#"{"job":1,"key":7,"quota":[1,1,8],"members":[],"trees":[{"number":0,"nodes":[[0,5,0]],"leaves":[]}]}"#,
        r#"{"job":1,"key":7,"quota":[1,1,8],"members":[],"trees":[{"number":0,"nodes":[[0,5,null],[1,6,null]],"leaves":[]}]}"#,
        r#"{"job":1,"key":7,"quota":[1,1,8],"members":[],"trees":[{"number":0,"nodes":[[0,5,null]],"leaves":[[0,1]]}]}"#,
        r#"{"job":1,"key":7,"quota":[1,1,8],"members":[],"trees":[{"number":0,"nodes":[[0,5,null]],"leaves":[[3,0],[2,0]]}]}"#,
    ];
    for body in impossible {
        let file = format!("selvedge-grant 1 {:08x} {}\n{body}", crc32c(body.as_bytes()), body.len());
        assert_eq!(Granted::restore(file.as_bytes()), Err(GrantError::Impossible), "{body}");
    }
}

#[test]
fn another_network_or_other_nodes_are_refused() {
    let bytes = sample().save();
    let other = |topology: Topology, config: &Config| Manager::restore(&bytes, topology, config, node_address).err();
    let wider = Topology::fat_tree(2, 8, (1, 1), Some(20)).expect("a fat tree");
    assert_eq!(other(wider, &config(4)), Some(SavedError::OtherTrees));
    assert_eq!(other(fat_tree(), &config(3)), Some(SavedError::OtherTrees));
    let limits = Limits { operand_blocks: 100, ..LIMITS };
    assert_eq!(other(fat_tree(), &Config { limits, ..config(4) }), Some(SavedError::OtherLimits));
    let small = Topology::crossbar(4).expect("a crossbar");
    assert!(other(small, &config(4)).is_some());
}

fn with_header(body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("selvedge-manager 1 {:08x} {}\n", crc32c(body), body.len()).into_bytes();
    bytes.extend(body);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    /// Replaces any number of the state, with a right checksum: restore fails, or the manager works and saves the same
    /// bytes.
    #[test]
    fn hostile_states_do_no_harm(at in 0usize..10_000, to in prop_oneof![
        (0u64..20).prop_map(|it| it.to_string()), any::<u64>().prop_map(|it| it.to_string()),
        Just("null".into()), Just("[]".into()), Just("-1".into()), Just("4294967295".to_string()), Just("65535".to_string()),
    ]) {
        let bytes = sample().save();
        let end = bytes.iter().position(|&byte| byte == b'\n').expect("a header");
        let body = std::str::from_utf8(&bytes[end + 1..]).expect("text");
        let starts: Vec<usize> = body.char_indices().filter(|&(at, c)| {
            c.is_ascii_digit() && !body[..at].ends_with(|c: char| c.is_ascii_digit())
        }).map(|it| it.0).collect();
        let start = starts[at % starts.len()];
        let length = body[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(1);
        let changed = format!("{}{to}{}", &body[..start], &body[start + length..]);
        if let Ok(mut manager) = restore(&with_header(changed.as_bytes())) {
            prop_assert_eq!(restore(&manager.save()), Ok(manager.clone()));
            manager.start();
            manager.router_back(RouterId(3));
            let _ = manager.begin_job(&request(9, &[0, 9]), 9);
            for job in manager.jobs().map(|it| it.0).collect::<Vec<_>>() {
                manager.end_job(job).expect("it is there");
            }
            prop_assert!(manager.uses().is_empty());
        }
    }
}
