// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames, wherever they are cut, and what is no frame.

use super::*;
use std::fs::File;
use std::io::Write;

fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe().expect("a pipe")
}

/// A channel, what the other side writes into, and what it reads from.
fn channel() -> (Channel, File, OwnedFd) {
    let ((reader, theirs), (out, writer)) = (pipe(), pipe());
    (Channel::new(reader, writer), theirs.into(), out)
}

fn hello() -> Hello {
    Hello { identity: "this host".to_owned(), reached: Some([10, 0, 0, 1].into()) }
}

fn frames(messages: Vec<Report>) -> Vec<u8> {
    let mut all = Vec::new();
    for mut message in messages {
        let bytes = message.bytes().map(std::mem::take).unwrap_or_default();
        let head = serde_json::to_vec(&message).expect("JSON");
        for part in [&head, &bytes] {
            all.extend_from_slice(&(part.len() as u32).to_le_bytes());
        }
        all.extend_from_slice(&head);
        all.extend_from_slice(&bytes);
    }
    all
}

#[test]
fn messages_are_whole_wherever_they_are_cut() {
    let sent = || {
        vec![
            Report::Ready,
            Report::Event(Event::Output { rank: 3, which: 1, bytes: b"\0\xff\n".to_vec() }),
            Report::Event(Event::Line { rank: 1, line: "cmd=get \"x\"".to_owned() }),
            Report::Refused { code: 127, why: "none".to_owned() },
            Report::Done,
        ]
    };
    let mut stream = b"Welcome!\n".to_vec();
    stream.extend_from_slice(greeting(&hello()).as_bytes());
    stream.extend_from_slice(&frames(sent()));
    for cut in 0..stream.len() {
        let (mut channel, mut theirs, _out) = channel();
        let mut found = Vec::new();
        let mut greeted = false;
        for piece in [&stream[..cut], &stream[cut..]] {
            theirs.write_all(piece).expect("written");
            channel.fill_all().expect("open");
            if !greeted {
                match channel.greeted().expect("open") {
                    Some(Greeted::Hello(said)) => assert_eq!(said, hello()),
                    Some(other) => panic!("{other:?}"),
                    None => continue,
                }
                greeted = true;
            }
            while let Some(report) = channel.next::<Report>().expect("open") {
                found.push(report);
            }
        }
        assert_eq!(found, sent(), "cut at {cut}");
        drop(theirs);
        assert!(matches!(channel.fill(), Err(Ended::Closed)));
    }
}

#[test]
fn requests_arrive_as_they_were_sent() {
    let ((reader, writer), (unused_reader, unused_writer)) = (pipe(), pipe());
    let mut sender = Channel::new(unused_reader, writer);
    let mut receiver = Channel::new(reader, unused_writer);
    let many = vec![7u8; 300 << 10];
    sender.send(Request::Order(Order::Input(many.clone())));
    sender.send(Request::Order(Order::Signal(2)));
    assert!(sender.waiting() > 0, "a pipe takes less");
    let mut found = Vec::new();
    while found.len() < 2 {
        sender.flush();
        receiver.fill().expect("open");
        while let Some(request) = receiver.next::<Request>().expect("open") {
            let Request::Order(order) = request else { panic!("an order") };
            found.push(order);
        }
    }
    assert_eq!(found, [Order::Input(many), Order::Signal(2)]);
    assert_eq!(sender.waiting(), 0);
}

#[test]
fn other_versions_are_told_apart() {
    let said = |line: &str| greeted(line);
    assert_eq!(said("selvedge agent 1 99.0.0 whatever"), Some(Greeted::Other("99.0.0".to_owned())));
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(
        said(&format!("selvedge agent 99 {own} {{}}")),
        Some(Greeted::Other(format!("{own} (channel 99)"))),
        "the same version, built from other sources"
    );
    assert_eq!(said("selvedge agentx"), None);
    assert_eq!(said("motd"), None);
}

#[test]
fn what_is_no_frame_ends_the_channel() {
    let long = [&u32::MAX.to_le_bytes()[..], &[0; 4]].concat();
    let text = [&5u32.to_le_bytes()[..], &0u32.to_le_bytes(), b"hello"].concat();
    let unknown = [&8u32.to_le_bytes()[..], &0u32.to_le_bytes(), b"\"Dance\"!"].concat();
    for bytes in [long, text, unknown] {
        let (mut channel, mut theirs, _out) = channel();
        theirs.write_all(&bytes).expect("written");
        channel.fill().expect("open");
        assert!(matches!(channel.next::<Report>(), Err(Ended::Garbled(_))), "{bytes:?}");
    }
    let (mut channel, mut theirs, _out) = channel();
    theirs.write_all(&vec![b'x'; 40 << 10]).expect("written");
    channel.fill_all().expect("open");
    assert!(channel.greeted().expect("it may still come").is_none());
    theirs.write_all(&vec![b'x'; 40 << 10]).expect("written");
    channel.fill_all().expect("open");
    assert!(matches!(channel.greeted(), Err(Ended::Garbled(_))));
}
