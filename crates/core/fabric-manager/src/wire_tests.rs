// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::announcement::{Announcement, LinkEnd};
use crate::config::PORTS_MAX;
use crate::id::NAME_BYTES_MAX;
use crate::load::{HostLoad, PortLoad};
use proptest::prelude::*;
use std::string::{String, ToString};
use std::vec;

fn end(host: u64, port: u16) -> End {
    End { host: HostId(host), boot: Boot(host + 7), port: Port(port), session: 3 }
}

/// The largest announcement that a host can make.
pub(crate) fn largest(host: u64) -> Announced {
    let link = |port| LinkEnd {
        port: Port(port),
        neighbour: HostId(host + 1),
        check: 5,
        neighbour_port: Port(PORTS_MAX - 1),
        cost: 1,
        mtu: u16::MAX,
    };
    let announcement = Announcement {
        name: "n".repeat(NAME_BYTES_MAX),
        address: Some(core::net::Ipv6Addr::LOCALHOST.into()),
        position: Some([1, 65_535]),
        links: (0..PORTS_MAX).map(link).collect(),
    };
    let edition = Edition { host: HostId(host), sequence: SEQUENCE_MAX, boot: Boot(1) };
    Announced { edition, lifetime_ms: u32::MAX, body: announcement.encode() }
}

fn samples() -> Vec<Frame> {
    let echo = Echo { end: end(9, 3), sent_ns: u64::MAX, held_ns: 1 };
    let edition = |host| Edition { host: HostId(host), sequence: host, boot: Boot(host + 1) };
    let port = |port| PortLoad {
        port: Port(port),
        sent_bytes_s: (1 << 40) - 1,
        received_bytes_s: 1,
        load_permille: (port % 2 == 0).then_some(1000),
        errors: 65_535,
        round_trip_ns: (port % 3 == 0).then_some(u32::MAX - 1),
        queue_bytes: (port % 5 == 0).then_some((1 << 24) - 2),
    };
    let report = LoadReport {
        host: HostId(4),
        boot: Boot(5),
        number: 6,
        load: HostLoad { processor_permille: 999, temperature_dc: Some(-400) },
        ports: (0..PORTS_MAX).map(port).collect(),
    };
    let bodies = [
        Body::Hello(Hello { mtu: 1500, number: 1, sent_ns: 2, echo: None }),
        Body::Hello(Hello { mtu: u32::MAX, number: u32::MAX, sent_ns: 2, echo: Some(echo) }),
        Body::Announcements(vec![largest(3)]),
        Body::Announcements(Vec::new()),
        Body::Acknowledgements((0..ACKS_MAX as u64).map(edition).collect()),
        Body::Loads(report),
        Body::Loads(LoadReport { boot: Boot(1), ..LoadReport::default() }),
    ];
    bodies.into_iter().map(|body| Frame { sender: end(2, 1), body }).collect()
}

/// Sets the checksum of changed bytes, so that the checks behind it are reached.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[CRC_AT..CRC_AT + 4].fill(0);
    let crc = crc32c(&bytes).to_le_bytes();
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc);
    bytes
}

#[test]
fn the_largest_frames_fit_and_come_back_as_they_were() {
    for frame in samples() {
        let bytes = frame.encode();
        assert!(bytes.len() <= FRAME_BYTES_MAX, "{}", bytes.len());
        assert_eq!(Frame::decode(&bytes).as_ref(), Ok(&frame));
        // Links pad short frames.
        let mut padded = bytes.clone();
        padded.resize(bytes.len() + 64, 0);
        assert_eq!(Frame::decode(&padded).as_ref(), Ok(&frame));
    }
}

#[test]
fn cut_frames_and_single_wrong_bits_are_refused() {
    for frame in samples() {
        let bytes = frame.encode();
        for length in 0..bytes.len() {
            assert!(Frame::decode(&bytes[..length]).is_err(), "{length} of {}", bytes.len());
        }
        for bit in 0..8 * bytes.len() {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::decode(&wrong).is_err(), "bit {bit}");
        }
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = samples()[0].encode();
    bytes[4] = 9;
    assert_eq!(Frame::decode(&bytes), Err(FrameError::Version { is: 9 }));
    assert!(FrameError::Version { is: 9 }.to_string().contains("version 9, not 1"));
}

#[test]
fn wrong_fields_behind_a_right_checksum_are_refused() {
    let refused = |frame: &Frame, at: usize, with: &[u8]| {
        let mut bytes = frame.encode();
        bytes[at..at + with.len()].copy_from_slice(with);
        assert!(Frame::decode(&resealed(bytes)).is_err(), "byte {at}");
    };
    let frames = samples();
    refused(&frames[0], 5, &[77]); // kind
    refused(&frames[0], 20, &[0; 8]); // boot 0 of the sender
    let (announced, body) = (HEADER_BYTES, HEADER_BYTES + ANNOUNCED_BYTES);
    refused(&frames[2], announced + 8, &[0; 8]); // boot 0 of an announcement
    refused(&frames[2], announced + 16, &u64::MAX.to_le_bytes()); // a sequence number without a next one
    refused(&frames[2], announced + 28, &[255, 255]); // length
    refused(&frames[2], body, &[8]); // flags
    refused(&frames[2], body, &[7]); // two addresses
    refused(&frames[2], body + 2, &[10]); // a control character in the name
    refused(&frames[2], body + 2, &[0xff]); // not UTF-8
    let links = body + 2 + NAME_BYTES_MAX + 16 + 4;
    refused(&frames[2], links, &[PORTS_MAX as u8 + 1]); // number of links
    refused(&frames[2], links + 1, &[9, 0]); // ports that do not ascend
    refused(&frames[2], links + 1 + 2, &3u64.to_le_bytes()); // a link to itself
    refused(&frames[2], links + 1 + 14, &[PORTS_MAX as u8, 0]); // a port beyond the limit
    refused(&frames[2], links + 1 + 16, &[0, 0]); // cost 0
    let loads = HEADER_BYTES + 28;
    refused(&frames[5], loads, &[255]);
    refused(&frames[5], loads + 1, &[9, 0]);
}

#[test]
fn names_are_cut_between_letters_and_without_control_characters() {
    let long = "ä".repeat(40);
    let fitted = crate::id::fitted_name(&long);
    assert_eq!(fitted.chars().count(), NAME_BYTES_MAX / 2);
    assert_eq!(crate::id::fitted_name("a\n\u{1b}[31mb"), "a[31mb");
    assert!(!crate::id::is_name("a\u{7f}") && crate::id::is_name(""));
}

proptest! {
    #[test]
    fn any_bytes_give_a_frame_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..1300), kind in 0u8..6) {
        let _ = Frame::decode(&bytes);
        // With a right header, so that the bodies are reached.
        let length = (HEADER_BYTES + bytes.len()).min(FRAME_BYTES_MAX);
        let mut whole = Vec::from(MAGIC);
        whole.extend([VERSION, kind]);
        whole.extend((length as u16).to_le_bytes());
        whole.extend([0; 4]);
        put_end(&mut whole, end(1, 0));
        whole.extend(&bytes);
        whole.truncate(length);
        if let Ok(frame) = Frame::decode(&resealed(whole.clone())) {
            prop_assert_eq!(frame.encode(), resealed(whole));
        }
    }

    #[test]
    fn announcements_come_back_as_they_were(
        name in "[a-zA-Zß€ ]{0,16}", ports in proptest::collection::btree_set(0..PORTS_MAX, 0..48), ip in any::<Option<core::net::IpAddr>>(),
        position in any::<Option<[u16; 2]>>(), cost in 1u16.., mtu in any::<u16>()
    ) {
        let link = |port| LinkEnd { port: Port(port), neighbour: HostId(2), check: 9, neighbour_port: Port(0), cost, mtu };
        let name: String = crate::id::fitted_name(&name);
        let announcement = Announcement { name, address: ip, position, links: ports.into_iter().map(link).collect() };
        prop_assert_eq!(Announcement::decode(HostId(1), &announcement.encode()), Some(announcement));
    }
}
