// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two endpoints of this process, over the provider of this machine.

use super::*;
use std::net::Ipv4Addr;

fn open() -> Endpoint {
    Endpoint::open(Ipv4Addr::LOCALHOST.into(), None).expect("libfabric's tcp")
}

#[test]
fn a_frame_arrives_as_it_was_sent() {
    let (mut sender, mut receiver) = (open(), open());
    assert!(!sender.provider().contains("selvedge"));
    let to = sender.insert(&receiver.name().expect("it has one")).expect("inserted");
    let buffer = sender.take_buffer().expect("all are free");
    sender.buffer_mut(buffer)[..4].copy_from_slice(b"warp");
    let since = std::time::Instant::now();
    while sender.send(buffer, 4, None, to, 7).is_err() {
        // The first frame connects. Both sides must make progress for that.
        sender.poll(&mut Vec::new());
        receiver.poll(&mut Vec::new());
        assert!(since.elapsed().as_secs() < 120, "no connection");
    }
    let mut events = Vec::new();
    while events.is_empty() {
        sender.poll(&mut Vec::new());
        receiver.poll(&mut events);
        assert!(since.elapsed().as_secs() < 120, "nothing came");
    }
    let Some(Completion::Received(frame)) = events.pop() else { panic!("another event") };
    assert_eq!(&*frame, b"warp");
    receiver.repost(frame).expect("posted again");
}

#[test]
fn the_tail_of_a_long_frame_follows_its_buffer() {
    let (mut sender, mut receiver) = (open(), open());
    let to = sender.insert(&receiver.name().expect("it has one")).expect("inserted");
    let payload: Arc<Vec<u8>> = Arc::new((0..LONG_FRAME_BYTES_MAX).map(|at| at as u8 ^ (at >> 8) as u8).collect());
    let since = std::time::Instant::now();
    for (bytes, range) in [(100, 7..20_007), (32, 0..LONG_FRAME_BYTES_MAX - 32), (64, 1..160_001)] {
        let buffer = sender.take_buffer().expect("all are free");
        sender.buffer_mut(buffer)[..bytes].fill(9);
        let tail = Tail { payload: payload.clone(), range: range.clone() };
        while sender.send(buffer, bytes, Some(&tail), to, 7).is_err() {
            sender.poll(&mut Vec::new());
            receiver.poll(&mut Vec::new());
            assert!(since.elapsed().as_secs() < 120, "no connection");
        }
        let (mut events, mut sent) = (Vec::new(), Vec::new());
        while events.is_empty() || sent.is_empty() {
            sender.poll(&mut sent);
            receiver.poll(&mut events);
            assert!(since.elapsed().as_secs() < 120, "nothing came");
        }
        let Some(Completion::Received(frame)) = events.pop() else { panic!("another event") };
        assert_eq!(frame[..bytes], vec![9; bytes]);
        assert!(frame[bytes..] == payload[range], "the tail is wrong");
        receiver.repost(frame).expect("posted again");
        assert!(sender.tails.iter().all(Option::is_none), "its payload is released");
    }
}

#[test]
fn a_name_of_another_length_is_refused() {
    let mut endpoint = open();
    assert!(endpoint.insert(b"short").is_err());
}

#[test]
fn a_provider_that_does_not_exist_is_named_in_the_error() {
    let error = Endpoint::open(Ipv4Addr::LOCALHOST.into(), Some("nosuch")).err().expect("refused");
    assert!(error.to_string().contains("nosuch"), "{error}");
}

#[test]
fn the_deprecated_provider_is_refused_and_others_are_named() {
    for name in ["sockets", "ofi_hook;sockets"] {
        let error = Endpoint::open(Ipv4Addr::LOCALHOST.into(), Some(name)).err().expect("refused").to_string();
        assert!(error.contains("SELVEDGE_NET_PROVIDER=sockets") && error.contains("tcp;ofi_rxm"), "{error}");
    }
}
