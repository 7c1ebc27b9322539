// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames read back as they were written, with payloads split anywhere, and hostile bytes are refused.

use proptest::prelude::*;

use super::*;

/// Makes a packet whose first word, in these tests, is the length of its payload.
fn packet(payload_bytes: usize, fill: u8) -> [u8; PACKET_BYTES] {
    let mut packet = [fill; PACKET_BYTES];
    packet[..8].copy_from_slice(&(payload_bytes as u64).to_le_bytes());
    packet
}

fn anything(_: NicName, _: &[u8; PACKET_BYTES]) -> u64 {
    u64::MAX
}

fn announced(packet: &[u8; PACKET_BYTES]) -> u64 {
    packet.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Writes packets with these payloads into frames of `frame_bytes`. Payloads longer than `short` become tails of that
/// length.
fn write(payloads: &[Vec<u8>], frame_bytes: usize, short: usize, seal: &Seal) -> Vec<Vec<u8>> {
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
        assert!(writer.bytes() > FRAME_HEADER_BYTES, "each frame holds a record");
        let header = FrameHeader { link: 7, key: 9, number: frames.len() as u64 };
        frames.push(match seal {
            Seal::None => {
                let bytes = writer.finish(&header, tail);
                [&buffer[..bytes], tail].concat()
            }
            seal => writer.sealed(&header, tail, seal),
        });
    }
    frames
}

fn seals() -> impl Strategy<Value = Seal> {
    prop_oneof![Just(Seal::None), Just(Seal::Crc), Just(Seal::Mac([7; 32]))]
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        lengths in proptest::collection::vec(0..4000usize, 1..20), frame_bytes in 1024..8192usize, short in 0..800usize,
        seal in seals(),
    ) {
        let payloads: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(nth, &length)| (0..length).map(|at| (at + nth) as u8).collect()).collect();
        let mut assembler = Assembler::default();
        let mut found = Vec::new();
        for (nth, frame) in write(&payloads, frame_bytes & !7, short, &seal).iter().enumerate() {
            let (header, records) = read(frame, &seal).expect("it was written");
            prop_assert_eq!(header, FrameHeader { link: 7, key: 9, number: nth as u64 });
            for record in records {
                let record = record.expect("it was written");
                assembler.take(record, announced, anything, |to, packet, payload| {
                    assert_eq!((to.ni, packet[20]), (3, to.pid as u8));
                    found.push(payload.to_vec());
                }).expect("in order");
            }
        }
        prop_assert_eq!(found, payloads);
    }

    #[test]
    fn a_flipped_bit_is_found(length in 0..600usize, at: usize, bit in 0..8u32, seal in seals()) {
        prop_assume!(seal != Seal::None);
        let mut frame = write(&[vec![5; length]], 1024, 100, &seal).remove(0);
        let at = at % frame.len();
        frame[at] ^= 1 << bit;
        prop_assert!(read(&frame, &seal).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), valid_head: bool, seal in seals()) {
        if valid_head && bytes.len() >= FRAME_HEADER_BYTES {
            bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
            let length = bytes.len() as u32;
            bytes[24..28].copy_from_slice(&length.to_le_bytes());
            bytes[28..32].fill(0);
        }
        let mut assembler = Assembler::default();
        if let Ok((_, records)) = read(&bytes, &seal) {
            for record in records.flatten() {
                let _ = assembler.take(record, announced, anything, |_, _, _| {});
            }
        }
    }
}

#[test]
fn payload_without_a_packet_and_too_much_of_it_are_refused() {
    let to = NicName { pid: 1, ni: 1 };
    let [none, one, three] = [0, 1, 3].map(|bytes| packet(bytes, 0));
    let mut assembler = Assembler::default();
    let mut take = |record| assembler.take(record, announced, anything, |_, _, _| panic!("nothing is whole"));
    assert_eq!(take(Record::GoOn { payload: &[1] }), Err(FrameError::Payload));
    assert_eq!(take(Record::Begin { to, packet: &one, payload: &[1, 2] }), Err(FrameError::Payload));
    assert_eq!(take(Record::Begin { to, packet: &three, payload: &[1] }), Ok(()));
    assert_eq!(take(Record::Begin { to, packet: &none, payload: &[] }), Err(FrameError::Payload), "one at a time");
    assert_eq!(take(Record::GoOn { payload: &[1, 2, 3] }), Err(FrameError::Payload));
}

#[test]
fn numbers_of_payloads_that_were_read_or_cannot_be_read_stand_between_packets() {
    let to = NicName { pid: 1, ni: 1 };
    let mut frame = [0; 1024];
    let mut writer = Writer::new(&mut frame);
    writer.read_count(7).expect("there is room");
    writer.packet(to, &packet(3, 0), &[1, 2, 3]).expect("there is room");
    writer.unreadable(u64::MAX).expect("there is room");
    let bytes = writer.finish(&FrameHeader::default(), &[]);
    let (_, records) = read(&frame[..bytes], &Seal::None).expect("it was written");
    let records: Vec<_> = records.map(|record| record.expect("it was written")).collect();
    let is_packet = matches!(records[1], Record::Begin { payload: &[1, 2, 3], .. });
    assert!(records[0] == Record::ReadCount(7) && is_packet && records[2] == Record::Unreadable(u64::MAX));
}

#[test]
fn a_tag_of_another_key_and_a_missing_one_are_refused() {
    let payload = [vec![1; 99]];
    let frame = write(&payload, 1024, 1000, &Seal::Mac([1; 32])).remove(0);
    assert!(read(&frame, &Seal::Mac([1; 32])).is_ok());
    assert_eq!(read(&frame, &Seal::Mac([2; 32])).err(), Some(FrameError::Checksum));
    let checked = write(&payload, 1024, 1000, &Seal::Crc).remove(0);
    assert_eq!(read(&checked, &Seal::Mac([1; 32])).err(), Some(FrameError::Checksum));
    let open = write(&payload, 1024, 1000, &Seal::None).remove(0);
    assert_eq!(read(&open, &Seal::Crc).err(), Some(FrameError::Checksum));
}

#[test]
fn more_payload_than_may_come_is_refused_before_it_is_stored() {
    let to = NicName { pid: 1, ni: 1 };
    let mut assembler = Assembler::default();
    let huge = packet(usize::MAX, 0);
    let mut take = |most: u64| {
        let record = Record::Begin { to, packet: &huge, payload: &[1] };
        assembler.take(record, announced, |_, _| most, |_, _, _| panic!("nothing is whole"))
    };
    assert_eq!(take(100), Err(FrameError::TooMuch { bytes: u64::MAX, most: 100 }));
    assert_eq!(take(u64::MAX), Ok(()));
}
