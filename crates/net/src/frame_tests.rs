// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames are read as they were written, cut anywhere, and hostile bytes are refused.

use proptest::prelude::*;

use super::*;

/// In these tests the first word of a packet says how much payload it has.
fn packet(payload_bytes: usize, fill: u8) -> [u8; PACKET_BYTES] {
    let mut packet = [fill; PACKET_BYTES];
    packet[..8].copy_from_slice(&(payload_bytes as u64).to_le_bytes());
    packet
}

fn announced(packet: &[u8; PACKET_BYTES]) -> u64 {
    packet.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Writes packets with these payloads into frames of `frame_bytes`, payloads that are longer than `short` as tails of that length.
fn write(payloads: &[Vec<u8>], frame_bytes: usize, short: usize, checked: bool) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut buffer = vec![0; frame_bytes];
    let (mut next, mut sent) = (0, 0);
    while next < payloads.len() {
        let mut writer = Writer::resume(&mut buffer, FRAME_HEADER_BYTES);
        let mut tail = &[][..];
        while let Some(payload) = payloads.get(next) {
            let to = NicName { pid: next as u32, ni: 3 };
            let packet = packet(payload.len(), next as u8);
            if payload.len() <= short {
                let Some(()) = writer.packet(to, &packet, payload) else { break };
                next += 1;
                continue;
            }
            let count = short.max(1).min(payload.len() - sent);
            let Some(()) = writer.before_tail(to, (sent == 0).then_some(&packet), count) else { break };
            tail = &payload[sent..sent + count];
            sent += count;
            if sent == payload.len() {
                (next, sent) = (next + 1, 0);
            }
            break;
        }
        assert!(writer.bytes() > FRAME_HEADER_BYTES, "each frame has room for something");
        let header = FrameHeader { link: 7, key: 9, number: frames.len() as u64 };
        let bytes = writer.finish(&header, tail, checked);
        frames.push([&buffer[..bytes], tail].concat());
    }
    frames
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        lengths in proptest::collection::vec(0..4000usize, 1..20), frame_bytes in 1024..8192usize, short in 0..800usize,
        checked: bool,
    ) {
        let payloads: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(nth, &length)| (0..length).map(|at| (at + nth) as u8).collect()).collect();
        let mut assembler = Assembler::default();
        let mut found = Vec::new();
        for (nth, frame) in write(&payloads, frame_bytes & !7, short, checked).iter().enumerate() {
            let (header, records) = read(frame, checked).expect("it was written");
            prop_assert_eq!(header, FrameHeader { link: 7, key: 9, number: nth as u64 });
            for record in records {
                let record = record.expect("it was written");
                assembler.take(record, announced, |to, packet, payload| {
                    assert_eq!((to.ni, packet[20]), (3, to.pid as u8));
                    found.push(payload.to_vec());
                }).expect("in order");
            }
        }
        prop_assert_eq!(found, payloads);
    }

    #[test]
    fn a_flipped_bit_is_found(length in 0..600usize, at: usize, bit in 0..8u32) {
        let mut frame = write(&[vec![5; length]], 1024, 100, true).remove(0);
        let at = at % frame.len();
        frame[at] ^= 1 << bit;
        prop_assert!(read(&frame, true).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), valid_head: bool) {
        if valid_head && bytes.len() >= FRAME_HEADER_BYTES {
            bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
            let length = bytes.len() as u32;
            bytes[24..28].copy_from_slice(&length.to_le_bytes());
            bytes[28..32].fill(0);
        }
        let mut assembler = Assembler::default();
        if let Ok((_, records)) = read(&bytes, false) {
            for record in records.flatten() {
                let _ = assembler.take(record, announced, |_, _, _| {});
            }
        }
    }
}

#[test]
fn payload_without_a_packet_and_too_much_of_it_are_refused() {
    let to = NicName { pid: 1, ni: 1 };
    let [none, one, three] = [0, 1, 3].map(|bytes| packet(bytes, 0));
    let mut assembler = Assembler::default();
    let mut take = |record| assembler.take(record, announced, |_, _, _| panic!("nothing is whole"));
    assert_eq!(take(Record::GoOn { payload: &[1] }), Err(FrameError::Payload));
    assert_eq!(take(Record::Begin { to, packet: &one, payload: &[1, 2] }), Err(FrameError::Payload));
    assert_eq!(take(Record::Begin { to, packet: &three, payload: &[1] }), Ok(()));
    assert_eq!(take(Record::Begin { to, packet: &none, payload: &[] }), Err(FrameError::Payload), "one at a time");
    assert_eq!(take(Record::GoOn { payload: &[1, 2, 3] }), Err(FrameError::Payload));
}
