// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames cut at every place, and invalid frames.

use super::*;
use crate::hosts::messages::{Event, Order};
use crate::hosts::wire::{Hello, HostPlace, Report, Request, Start, Subtree, greeting};
use crate::options::{Binding, JobOptions, MemoryPath, NicMode};
use crate::rank::runner::{Gdb, RankList};
use std::fs::File;
use std::io::Write;

fn pipe() -> (OwnedFd, OwnedFd) {
    // Other tests start processes meanwhile, which must not keep an end open.
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe")
}

/// A channel, the input of its other side, and the output of its other side.
fn channel() -> (Channel, File, OwnedFd) {
    let ((reader, theirs), (out, writer)) = (pipe(), pipe());
    (Channel::new(reader, writer), theirs.into(), out)
}

fn hello() -> Hello {
    Hello { identity: "this host".to_owned(), reached: Some([10, 0, 0, 1].into()) }
}

/// A frame of host 0 for each message.
fn frames(messages: Vec<Report>) -> Vec<u8> {
    let mut all = Vec::new();
    for mut message in messages {
        let bytes = message.bytes().map(std::mem::take).unwrap_or_default();
        let head = serde_json::to_vec(&message).expect("JSON");
        for number in [head.len(), bytes.len(), 0] {
            all.extend_from_slice(&(number as u32).to_le_bytes());
        }
        all.extend_from_slice(&head);
        all.extend_from_slice(&bytes);
    }
    all
}

fn next<M: Message>(channel: &mut Channel) -> Result<Option<M>, ChannelError> {
    let frame = channel.next()?;
    assert!(frame.as_ref().is_none_or(|frame| frame.host == 0));
    frame.map(Frame::message).transpose()
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
                match channel.greeting().expect("open") {
                    Some(Greeting::Hello(said)) => assert_eq!(said, hello()),
                    Some(other) => panic!("{other:?}"),
                    None => continue,
                }
                greeted = true;
            }
            while let Some(report) = next::<Report>(&mut channel).expect("open") {
                found.push(report);
            }
        }
        assert_eq!(found, sent(), "cut at {cut}");
        drop(theirs);
        // A process just forked by another test holds the end until it executes its program.
        let ended = loop {
            match channel.fill() {
                Ok(()) => std::thread::yield_now(),
                Err(ended) => break ended,
            }
        };
        assert!(matches!(ended, ChannelError::Closed));
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
        while let Some(request) = next::<Request>(&mut receiver).expect("open") {
            let Request::Order(order) = request else { panic!("an order") };
            found.push(order);
        }
    }
    assert_eq!(found, [Order::Input(many), Order::Signal(2)]);
    assert_eq!(sender.waiting(), 0);
}

#[test]
fn other_versions_are_told_apart() {
    let said = |line: &str| parse_greeting(line);
    assert_eq!(said("selvedge agent 1 99.0.0 whatever"), Some(Greeting::OtherVersion("99.0.0".to_owned())));
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(
        said(&format!("selvedge agent 99 {own} {{}}")),
        Some(Greeting::OtherVersion(format!("{own} (channel 99)"))),
        "the same version, built from other sources"
    );
    assert_eq!(said("selvedge agentx"), None);
    assert_eq!(said("motd"), None);
}

#[test]
fn what_is_no_frame_ends_the_channel() {
    let long = [&u32::MAX.to_le_bytes()[..], &[0; 8]].concat();
    let text = [&5u32.to_le_bytes()[..], &[0; 8], b"hello"].concat();
    let unknown = [&8u32.to_le_bytes()[..], &[0; 8], b"\"Dance\"!"].concat();
    for bytes in [long, text, unknown] {
        let (mut channel, mut theirs, _out) = channel();
        theirs.write_all(&bytes).expect("written");
        channel.fill().expect("open");
        assert!(matches!(next::<Report>(&mut channel), Err(ChannelError::Garbled(_))), "{bytes:?}");
    }
    let (mut channel, mut theirs, _out) = channel();
    theirs.write_all(&vec![b'x'; 40 << 10]).expect("written");
    channel.fill_all().expect("open");
    assert!(channel.greeting().expect("it may still come").is_none());
    theirs.write_all(&vec![b'x'; 40 << 10]).expect("written");
    channel.fill_all().expect("open");
    assert!(matches!(channel.greeting(), Err(ChannelError::Garbled(_))));
}

/// The wire format changes only with [`PROTOCOL`], since builds of one version may differ.
#[test]
fn words_on_the_wire_stay() {
    let start = Start {
        options: JobOptions {
            ranks: 3,
            hosts: Some("a,b".to_owned()),
            hostfile: None,
            aggregation: true,
            bind: Some(Binding::Core),
            mode: Some(NicMode::Host),
            path: Some(MemoryPath::Cma),
            env: vec![("A".to_owned(), "1".to_owned())],
            timeout: Some(std::time::Duration::from_millis(1500)),
            tag_output: true,
            keep_going: false,
            wrapper: vec!["nice".to_owned()],
            gdb: Some(Gdb { ranks: RankList::Parts(vec![(0, 1)]), commands: vec!["run".to_owned()] }),
            command: vec!["prog".into()],
        },
        job: "run-1".to_owned(),
        ranks: vec![0, 2],
        environment: vec![("B".into(), "2".into())],
        folder: "/tmp".into(),
        place: Some(HostPlace {
            host: 1,
            hosts: 2,
            address: [10, 0, 0, 2].into(),
            secret: "s".to_owned(),
            manager: Some("10.0.0.1:8".to_owned()),
        }),
    };
    let text = serde_json::to_string(&Request::Start(Box::new(start))).expect("JSON");
    let expected = concat!(
        r#"{"Start":{"args":{"ranks":3,"hosts":"a,b","hostfile":null,"aggregation":true,"bind":"Core","mode":"Host","path":"Cma","#,
        r#""env":[["A","1"]],"timeout":{"secs":1,"nanos":500000000},"tag_output":true,"keep_going":false,"#,
        r#""wrapper":["nice"],"gdb":{"ranks":{"Parts":[[0,1]]},"commands":["run"]},"#,
        r#""command":[{"Unix":[112,114,111,103]}]},"job":"run-1","ranks":[0,2],"environment":[[{"Unix":[66]},{"Unix":[50]}]],"#,
        r#""folder":"/tmp","#,
        r#""among":{"host":1,"hosts":2,"address":"10.0.0.2","secret":"s","manager":"10.0.0.1:8"}}}"#
    );
    assert_eq!(text, expected);
    let subtree = Subtree {
        name: "a".to_owned(),
        hosts: vec!["b".to_owned()],
        fanout: 32,
        shell: vec!["ssh".to_owned(), "-x".to_owned()],
        agent: "/bin/selvedge".into(),
        environment: vec![("B".into(), "2".into())],
        folder: "/tmp".into(),
    };
    let text = serde_json::to_string(&Request::Subtree(Box::new(subtree))).expect("JSON");
    let expected = concat!(
        r#"{"Subtree":{"name":"a","hosts":["b"],"fanout":32,"shell":["ssh","-x"],"agent":"/bin/selvedge","#,
        r#""environment":[[{"Unix":[66]},{"Unix":[50]}]],"folder":"/tmp"}}"#
    );
    assert_eq!(text, expected);
    let watch = Request::Watch { at: ([10, 0, 0, 1], 7).into(), host: "host a".to_owned() };
    let text = serde_json::to_string(&watch).expect("JSON");
    assert_eq!(text, r#"{"Watch":{"at":"10.0.0.1:7","host":"host a"}}"#);
    let frame = Frame::new(258, Report::Lost("why".to_owned()));
    let (mut channel, _theirs, out) = channel();
    channel.forward(frame);
    let mut bytes = [0; 64];
    let count = rustix::io::read(&out, &mut bytes[..]).expect("readable");
    let expected = [&14u32.to_le_bytes()[..], &[0; 4], &258u32.to_le_bytes(), br#"{"Lost":"why"}"#].concat();
    assert_eq!(bytes[..count], expected);
}
