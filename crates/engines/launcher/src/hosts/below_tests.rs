// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routing of frames through children that are shell scripts. Most send back what they get, as if it came from the hosts
//! below them.

use super::*;
use crate::hosts::messages::{Event, Order};
use crate::hosts::poll_set::PollSet;
use crate::hosts::tree::parts;
use crate::hosts::wire::{Report, greeting};

const ECHO: &str = "printf '%s\\n' \"$GREETING\"; exec cat";

/// `hosts` hosts, numbered from 1, whose agents are this script.
fn below(hosts: usize, fanout: usize, script: &str) -> Below {
    let hello = Hello { identity: "a host".to_owned(), reached: None };
    let script = format!("GREETING='{}'; {script}", greeting(&hello).trim());
    let order = Subtree {
        name: "parent".to_owned(),
        // The name of no host: it has no address, so nothing is watched.
        hosts: (1..=hosts).map(|host| format!("host{host}.invalid")).collect(),
        fanout,
        shell: vec!["sh".to_owned(), "-c".to_owned(), script],
        agent: "agent".into(),
        environment: Vec::new(),
        folder: "/".into(),
    };
    // SAFETY: all bits zero is an empty set of signals.
    let mut below = Below::new(order, 1, unsafe { std::mem::zeroed() }).expect("a limit");
    parts(1..hosts + 1, fanout).into_iter().for_each(|part| below.start(part).expect("a shell"));
    below
}

/// Serves once. Without `with_input` messages stay in the channels.
fn serve(below: &mut Below, with_input: bool, events: &mut Vec<(usize, LinkEvent)>) {
    let mut polled = PollSet::default();
    below.poll_with(with_input, &mut |part, fd, flags| polled.add(part, fd, flags));
    let until = Instant::now() + Duration::from_millis(100);
    for (part, flags) in polled.wait(Some(until)).expect("it polls") {
        below.serve(part, flags, events);
    }
}

/// Serves until this holds for the events, and returns them.
fn until(below: &mut Below, done: impl Fn(&[(usize, LinkEvent)]) -> bool) -> Vec<(usize, LinkEvent)> {
    let mut events = Vec::new();
    while !done(&events) {
        serve(below, true, &mut events);
    }
    events
}

fn greeted(below: &mut Below, children: usize) {
    let is_hello = |(_, event): &(usize, LinkEvent)| matches!(event, LinkEvent::Hello(_));
    let events = until(below, |events| events.iter().filter(|event| is_hello(event)).count() == children);
    let hosts: Vec<usize> = events.iter().filter(|event| is_hello(event)).map(|(host, _)| *host).collect();
    let mut sorted = hosts;
    sorted.sort_unstable();
    assert_eq!(sorted, below.branches.iter().map(|branch| branch.part.start).collect::<Vec<_>>());
}

fn output(host: usize, size: usize) -> Report {
    Report::Event(Event::Output { rank: host, which: 0, bytes: vec![host as u8; size] })
}

#[test]
fn frames_go_to_their_hosts_and_come_from_them() {
    let mut below = below(7, 2, ECHO);
    assert_eq!(below.branches.iter().map(|branch| branch.part.clone()).collect::<Vec<_>>(), [1..4, 4..8]);
    let frames = (1..=7).flat_map(|host| [(host, 3), (host, 300 << 10), (host, 0)]);
    frames.clone().for_each(|(host, size)| below.send(Frame::new(host, output(host, size))));
    let is_output = |frame: &Frame| frame.has(&output(frame.host, 0));
    let frames_of = |events: &[(usize, LinkEvent)]| -> usize {
        events.iter().filter(|(_, event)| matches!(event, LinkEvent::Frame(frame) if is_output(frame))).count()
    };
    let events = until(&mut below, |events| frames_of(events) == 21);
    let mut orders = Vec::new();
    let mut found: Vec<Vec<usize>> = vec![Vec::new(); 8];
    for (host, event) in events {
        let LinkEvent::Frame(frame) = event else { continue };
        assert_eq!(frame.host, host);
        if is_output(&frame) {
            let Ok(Report::Event(Event::Output { rank, bytes, .. })) = frame.message() else { panic!("output") };
            assert!(rank == host && bytes.iter().all(|&byte| usize::from(byte) == host));
            found[host].push(bytes.len());
        } else if let Ok(Request::Subtree(order)) = frame.message() {
            orders.push((host, order.name, order.hosts.join(" ")));
        }
    }
    assert!(found[1..].iter().all(|sizes| *sizes == [3, 300 << 10, 0]), "in order: {found:?}");
    let order = |host: usize, hosts: &str| (host, format!("host{host}.invalid"), hosts.to_owned());
    orders.sort();
    let wanted = [order(1, "host2.invalid host3.invalid"), order(4, "host5.invalid host6.invalid host7.invalid")];
    assert_eq!(orders, wanted, "each child gets the hosts below it");
    // There is no such host.
    below.send(Frame::new(8, output(8, 1)));
    below.send(Frame::new(0, output(0, 1)));
}

#[test]
fn a_child_that_does_not_read_blocks_no_other() {
    let does = "case $0 in host1.invalid) printf '%s\\n' \"$GREETING\"; exec sleep 1000;; esac; ";
    let mut below = below(2, 2, &format!("{does}{ECHO}"));
    greeted(&mut below, 2);
    below.send(Frame::new(1, Request::Order(Order::Input(vec![1; 1 << 20]))));
    below.send(Frame::new(2, output(2, 1 << 20)));
    let events = until(&mut below, |events| !events.is_empty());
    assert!(matches!(&events[..], [(2, LinkEvent::Frame(_))]), "{events:?}");
}

#[test]
fn messages_wait_in_the_channel_while_they_are_not_wanted() {
    let mut below = below(1, 2, ECHO);
    greeted(&mut below, 1);
    below.send(Frame::new(1, output(1, 10)));
    let mut events = Vec::new();
    (0..3).for_each(|_| serve(&mut below, false, &mut events));
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(until(&mut below, |events| !events.is_empty()).len(), 1);
}

#[test]
fn a_child_with_a_message_of_no_host_below_it_is_lost() {
    let does = r"printf '\005\0\0\0\0\0\0\0\004\0\0\0hello'; exec sleep 1000";
    let mut below = below(4, 1, &format!("printf '%s\\n' \"$GREETING\"; {does}"));
    let lost = |events: &[(usize, LinkEvent)]| events.iter().any(|(_, event)| matches!(event, LinkEvent::Lost(_)));
    let events = until(&mut below, lost);
    let Some((1, LinkEvent::Lost(why))) = events.last() else { panic!("{events:?}") };
    assert!(why.contains("an invalid message") && why.contains("of host 4 below it"), "{why}");
    assert!(!below.is_open());
}
