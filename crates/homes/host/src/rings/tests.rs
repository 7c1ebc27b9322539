// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rings: messages arrive complete and in order, and no message is overwritten before it is dequeued, whatever a sender
//! does.

use std::sync::atomic::Ordering::SeqCst;

use super::*;
use selvedge_os::copy;
use selvedge_os::testing::{Child, Folder};

const WORD: u64 = 0x1234_0000_0001;

/// Words of a ring: its second cursor, then the header of slot 0 and its first word (payload, or the payload's
/// position).
const PAYLOAD_CURSOR: usize = 1;
const HEADER: usize = 2;
const POSITION: usize = 5;

fn word(own: &Rings, number: usize) -> &AtomicU64 {
    own.ring(0).words().nth(number).expect("a ring has more words")
}

fn pair(folder: &Folder) -> (Rings, Sender) {
    let own = Rings::create(&folder.join(""), 3, 8).expect("made");
    let word = Identity::own().to_word();
    let sender =
        Rings::open(&folder.join(""), 3, 8, word).expect("no lack").expect("there").claim(word, 5).expect("room");
    (own, sender)
}

fn push(sender: &mut Sender, number: u64, length: usize) -> bool {
    let bytes: Vec<u8> = (0..length).map(|at| (at as u64 ^ number) as u8).collect();
    let envelope = Envelope { portal: 9, flags: 3, match_bits: number, header_data: !number };
    // SAFETY: `enqueue_with` passes a pointer to `length` writable bytes, and `bytes` has that length.
    sender.enqueue_with(&envelope, length, 0, |to| unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, length) })
}

fn take(own: &Rings, ring: usize) -> Option<(u64, usize)> {
    let message = own.reader(ring).poll().expect("no fault")?;
    // SAFETY: the reader has checked that the message's bytes are within its ring.
    let bytes = unsafe { std::slice::from_raw_parts(message.bytes, message.length) };
    let number = message.envelope.match_bits;
    assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == (at as u64 ^ number) as u8), "bytes of another message");
    assert_eq!(message.envelope, Envelope { portal: 9, flags: 3, match_bits: number, header_data: !number });
    own.reader(ring).dequeue(&message);
    Some((number, message.length))
}

#[test]
fn messages_come_whole_and_in_order_however_long() {
    let folder = Folder::new();
    let (own, mut sender) = pair(&folder);
    assert_eq!((own.claimed(), own.sender(0)), (1, 5));
    let lengths = [0, 1, 39, 40, 41, 64, 65, 1000, 4096, 16384, MESSAGE_BYTES_MAX];
    let (mut sent, mut taken) = (0u64, 0u64);
    for round in 0..4000usize {
        // Sometimes the sender is ahead, sometimes the owner.
        for _ in 0..round % 7 {
            if push(&mut sender, sent, lengths[sent as usize % lengths.len()]) {
                sent += 1;
            }
        }
        for _ in 0..round % 5 {
            if let Some((number, length)) = take(&own, 0) {
                assert_eq!((number, length), (taken, lengths[taken as usize % lengths.len()]));
                taken += 1;
            }
        }
    }
    while take(&own, 0).is_some() {
        taken += 1;
    }
    assert_eq!(taken, sent);
    assert!(sender.dequeued() == sender.enqueued() && sent > 3000);
}

fn bytes_of(number: u64, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u64 ^ number) as u8).collect()
}

/// Enqueues a message for a portal. Its contents repeat in a cycle of seven.
fn enqueue(sender: &mut Sender, portal: u8, number: u64, length: usize) -> bool {
    let bytes = bytes_of(number, length);
    let envelope = Envelope { portal, flags: number as u8, match_bits: number, header_data: !number };
    let turn = (number / 7) as u32;
    // SAFETY: both ranges hold this many bytes.
    unsafe {
        match length > INLINE_BYTES {
            true => return sender.enqueue_long(&envelope, bytes.as_ptr(), length, turn),
            false if !sender.has_room() => return false,
            false if copy::is_word(length) => sender.enqueue_word(&envelope, bytes.as_ptr(), length, turn),
            false => sender.enqueue(&envelope, bytes.as_ptr(), length, turn),
        }
    }
    true
}

/// As `enqueue`, for portal 9. If the ring is full, it tries the other enqueue function.
fn enqueue_either_way(sender: &mut Sender, number: u64, length: usize) -> bool {
    let envelope = Envelope { portal: 9, flags: number as u8, match_bits: number, header_data: !number };
    let bytes = bytes_of(number, length);
    enqueue(sender, 9, number, length)
        // SAFETY: `enqueue_with` passes a pointer to `length` writable bytes, and `bytes` has that length.
        || sender.enqueue_with(&envelope, length, 1, |to| unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, length) })
}

/// Dequeues up to `most` messages in a run of messages that fit into their slots. Returns their numbers.
fn run(own: &Rings, portal: u8, most: u64, takes: impl Fn(u64) -> bool) -> Vec<u64> {
    run_of::<false>(own, portal, most, takes)
}

/// As `run`, for short or long messages.
fn run_of<const LONG: bool>(own: &Rings, portal: u8, most: u64, takes: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut taken = Vec::new();
    let mut reader = own.reader(0);
    let mut take = |message: &RingMessage| {
        let number = message.envelope.match_bits;
        if !takes(number) {
            return false;
        }
        let expected = Envelope { portal, flags: number as u8, match_bits: number, header_data: !number };
        assert_eq!(message.envelope, expected);
        let mut bytes = vec![0xee; message.length + 1];
        // SAFETY: the buffer is larger than any message.
        unsafe { message.copy_part::<LONG>(bytes.as_mut_ptr(), message.length) };
        assert_eq!(bytes.pop(), Some(0xee), "more was copied than the message has");
        assert_eq!(bytes, bytes_of(number, message.length));
        taken.push(number);
        true
    };
    // Every second run begins with a single message.
    let mut left = most;
    if most % 2 == 1 {
        let seen = own.poll(0).is_some_and(|seen| seen.portal() == portal && seen.is_long() == LONG);
        let first = if seen { reader.poll().expect("no fault") } else { None };
        if let Some(first) = first.filter(&mut take) {
            reader.dequeue(&first);
            left -= 1;
        }
    }
    reader.dequeue_run::<LONG>(portal, left, take);
    assert_eq!(reader.dequeued(), taken.len() as u64);
    taken
}

#[test]
fn runs_take_whole_messages_of_every_length_in_order() {
    let folder = Folder::new();
    let (own, mut sender) = pair(&folder);
    let length = |number: u64| (number as usize * 37) % (INLINE_BYTES + 1);
    let (mut sent, mut taken) = (0u64, 0u64);
    for round in 0..3000 {
        for _ in 0..round % 9 {
            sent += u64::from(enqueue_either_way(&mut sender, sent, length(sent)));
        }
        let most = round % 6;
        let got = run(&own, 9, most, |_| true);
        assert_eq!(got, (taken..(taken + most).min(sent)).collect::<Vec<_>>());
        taken += got.len() as u64;
    }
    taken += run(&own, 9, Ring::SLOTS, |_| true).len() as u64;
    assert_eq!(taken, sent);
    assert!(sender.dequeued() == sender.enqueued() && sent > 5000, "{sent}");
}

#[test]
fn runs_of_both_sorts_take_turns() {
    let folder = Folder::new();
    let (own, mut sender) = pair(&folder);
    // The share of long messages changes; some have the largest length.
    let length = |number: u64| match number % 97 {
        0 => MESSAGE_BYTES_MAX,
        _ if number % 5 < number / 500 % 6 => INLINE_BYTES + 1 + (number as usize * 53) % 3000,
        _ => (number as usize * 37) % (INLINE_BYTES + 1),
    };
    let (mut sent, mut taken, mut runs) = (0u64, 0u64, [0; 2]);
    for round in 0..4000 {
        for _ in 0..round % 9 {
            sent += u64::from(enqueue_either_way(&mut sender, sent, length(sent)));
        }
        for most in 1..round % 5 {
            let is_long = length(taken) > INLINE_BYTES;
            let polled = own.poll(0).map(|polled| (polled.portal(), polled.is_long()));
            assert_eq!(polled, (taken < sent).then_some((9, is_long)));
            let got = if is_long { run_of::<true>(&own, 9, most, |_| true) } else { run(&own, 9, most, |_| true) };
            let same =
                (taken..sent).take(most as usize).take_while(|&number| (length(number) > INLINE_BYTES) == is_long);
            assert_eq!(got, same.collect::<Vec<_>>());
            runs[usize::from(is_long)] += u32::from(got.len() > 1);
            taken += got.len() as u64;
        }
    }
    assert!(taken > 6000 && runs[0] > 100 && runs[1] > 100, "{taken} {runs:?}");
}

#[test]
fn a_run_ends_before_what_is_not_for_it_and_where_numbers_begin_anew() {
    let folder = Folder::new();
    let owner = Identity::own().to_word();
    let own = Rings::create(&folder.join(""), 3, 8).expect("made");
    // As if this many messages had been sent and dequeued.
    own.mapping.allocate(HEADER_BYTES, RING_BYTES).expect("memory");
    own.ring(0).set_cursors(u64::from(u32::MAX) - 4, 0);
    let mut sender =
        Rings::open(&folder.join(""), 3, 8, owner).expect("no lack").expect("there").claim(owner, 5).expect("room");
    for (number, portal) in [(1, 9), (2, 9), (3, 10), (4, 9)] {
        assert!(enqueue(&mut sender, portal, number, 8));
    }
    assert_eq!(run(&own, 9, 8, |number| number != 2), [1]);
    assert_eq!(run(&own, 9, 8, |_| true), [2]);
    assert_eq!(run(&own, 9, 8, |_| true), [0u64; 0]);
    assert_eq!(run(&own, 10, 8, |_| true), [3]);
    assert!(push(&mut sender, 5, INLINE_BYTES + 1) && enqueue(&mut sender, 9, 6, 3));
    // Number 4 is the last before the numbers start over.
    assert_eq!(run(&own, 9, 8, |_| true), [4]);
    assert_eq!(run(&own, 9, 8, |_| true), [0u64; 0], "longer than a slot");
    assert_eq!(take(&own, 0), Some((5, INLINE_BYTES + 1)));
    assert_eq!(run(&own, 9, 8, |_| true), [6]);
}

/// The thread that polls a message does not hold the lock yet: another thread may dequeue the message first.
#[test]
fn what_was_seen_is_read_once_and_only_while_it_is_the_next() {
    let folder = Folder::new();
    let (own, mut sender) = pair(&folder);
    assert!(own.poll(0).is_none());
    assert!(push(&mut sender, 1, 8) && push(&mut sender, 2, INLINE_BYTES + 1));
    let (seen, later) = (own.poll(0).expect("there"), own.poll(0).expect("there"));
    let mut reader = own.reader_from(0, seen).expect("the message is still there");
    assert!(!seen.is_long(), "the slot holds all of it");
    let first = reader.poll().expect("no fault").expect("there");
    assert_eq!((first.envelope.match_bits, first.length), (1, 8));
    reader.dequeue(&first);
    assert!(own.reader_from(0, later).is_none(), "it was taken");
    let seen = own.poll(0).expect("there");
    assert!(seen.is_long() && own.reader_from(0, seen).is_some());
    assert_eq!(take(&own, 0), Some((2, INLINE_BYTES + 1)));
    assert!(own.reader_from(0, seen).is_none() && own.poll(0).is_none());
}

#[test]
fn a_full_ring_takes_no_more_until_something_was_taken() {
    let folder = Folder::new();
    let (own, mut sender) = pair(&folder);
    let held = (0..).take_while(|&number| push(&mut sender, number, 8)).count() as u64;
    assert_eq!(held, Ring::SLOTS);
    assert_eq!(take(&own, 0), Some((0, 8)));
    assert!(push(&mut sender, held, 8) && !push(&mut sender, held, 8));
    while take(&own, 0).is_some() {}
    let large = (0..).take_while(|&number| push(&mut sender, number, MESSAGE_BYTES_MAX)).count() as u64;
    assert_eq!(large, Ring::PAYLOAD_BYTES / MESSAGE_BYTES_MAX as u64);
    assert!(!push(&mut sender, 0, MESSAGE_BYTES_MAX + 1));
}

#[test]
fn a_dead_senders_messages_are_taken_and_its_lane_is_given_to_another() {
    let folder = Folder::new();
    let own = Rings::create(&folder.join(""), 3, 8).expect("made");
    let owner = Identity::own().to_word();
    let directory = folder.join("");
    let child = Child::fork(|| {
        let word = Identity::own().to_word();
        let rings = Rings::open(&directory, 3, 8, owner).expect("no lack").expect("there");
        let mut sender = rings.claim(word, 6).expect("room");
        i32::from(!(push(&mut sender, 1, 8) && push(&mut sender, 2, 100)))
    });
    assert_eq!(child.exit_code(), Some(0));
    own.clear_dead();
    assert_eq!(own.claimed(), 1, "its messages are not lost");
    assert_eq!((take(&own, 0), take(&own, 0)), (Some((1, 8)), Some((2, 100))));
    own.clear_dead();
    assert_eq!(own.claimed(), 0);
    let mut sender =
        Rings::open(&folder.join(""), 3, 8, owner).expect("no lack").expect("there").claim(WORD, 7).expect("room");
    assert!(push(&mut sender, 3, 50));
    assert_eq!((own.sender(0), take(&own, 0)), (7, Some((3, 50))));
}

/// The reader may be killed after any of its stores. The message is then dequeued again, and those behind it are
/// unchanged.
#[test]
fn a_message_is_whole_whose_bytes_were_given_back_already() {
    let folder = Folder::new();
    let (own, mut sender) = pair(&folder);
    assert!((1..4).all(|number| push(&mut sender, number, 1000)));
    own.ring(0).set_cursors(0, 1024);
    assert_eq!([(); 3].map(|()| take(&own, 0)), [1, 2, 3].map(|number| Some((number, 1000))));
    assert_eq!(word(&own, PAYLOAD_CURSOR).load(SeqCst), 3 * 1024);
}

#[test]
fn ends_may_be_closed_while_both_processes_go_on() {
    let folder = Folder::new();
    let (directory, owner) = (folder.join(""), Identity::own().to_word());
    let claim = || Rings::open(&directory, 3, 8, owner).expect("no lack").expect("there").claim(owner, 5);
    let own = Rings::create(&directory, 3, 8).expect("made");
    for round in 0..2 * RINGS as u64 {
        let mut sender = claim().expect("room");
        assert!(push(&mut sender, round, 8) && sender.is_open() && !sender.is_closed());
        drop(sender);
        own.clear_dead();
        assert_eq!(own.claimed(), 1, "its messages are not lost");
        assert_eq!(take(&own, 0), Some((round, 8)));
        own.clear_dead();
        assert_eq!(own.claimed(), 0);
    }
    let sender = claim().expect("room");
    own.set_bypass(true);
    assert!(!sender.is_open() && !sender.is_closed());
    drop(own);
    assert!(!sender.is_open() && sender.is_closed());
    let own = Rings::create(&directory, 3, 8).expect("made");
    assert!(sender.is_closed(), "those of before");
    assert!(push(&mut claim().expect("room"), 1, 8) && take(&own, 0) == Some((1, 8)));
}

#[test]
fn rings_of_another_process_or_version_are_refused_and_all_can_be_claimed() {
    let folder = Folder::new();
    let own = Rings::create(&folder.join(""), 3, 8).expect("made");
    let owner = Identity::own().to_word();
    assert!(Rings::open(&folder.join(""), 3, 8, owner ^ 1).expect("no lack").is_none());
    assert!(Rings::open(&folder.join(""), 4, 8, owner).expect("no lack").is_none());
    let senders: Vec<Sender> =
        (0..RINGS).filter_map(|_| Rings::open(&folder.join(""), 3, 8, owner).ok()??.claim(owner, 1)).collect();
    assert_eq!((senders.len(), own.claimed()), (RINGS, u64::MAX));
    assert!(Rings::open(&folder.join(""), 3, 8, owner).expect("no lack").expect("there").claim(owner, 1).is_none());
}

#[test]
fn what_no_sender_writes_is_a_fault() {
    let folder = Folder::new();
    let (own, mut sender) = pair(&folder);
    assert!(push(&mut sender, 1, 8));
    word(&own, HEADER).store(1 | 9 << 32 | (MESSAGE_BYTES_MAX as u64 + 1) << 48, SeqCst);
    assert_eq!(own.reader(0).poll().map(|_| ()), Err(Fault));
    assert_eq!(run_of::<true>(&own, 9, 8, |_| true), [0u64; 0]);
    // The payload would end beyond the ring.
    word(&own, HEADER).store(1 | 9 << 32 | 200 << 48, SeqCst);
    word(&own, POSITION).store(7 * Ring::PAYLOAD_BYTES - 199, SeqCst);
    assert_eq!(own.reader(0).poll().map(|_| ()), Err(Fault));
    assert_eq!(run_of::<true>(&own, 9, 8, |_| true), [0u64; 0]);
    word(&own, POSITION).store(7 * Ring::PAYLOAD_BYTES - 200, SeqCst);
    assert!(own.reader(0).poll().is_ok_and(|message| message.is_some()));
    own.close(0);
    assert_eq!(own.claimed(), 0);
}

#[test]
fn without_descriptors_rings_are_not_called_absent() {
    let folder = Folder::new();
    let _own = Rings::create(&folder.join(""), 3, 8).expect("made");
    let owner = Identity::own().to_word();
    let open = || Rings::open(&folder.join(""), 3, 8, owner);
    let opened = open().expect("no lack").expect("there");
    selvedge_os::testing::in_child(|| {
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a structure of this frame; the limit is this child's alone.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
        assert_eq!(open().expect_err("a lack").errno(), libc::EMFILE);
        let claimed = opened.claim_packets(5, owner);
        assert!(matches!(claimed, Err(ClaimError::Shortage(_))), "{:?}", claimed.err());
        assert_eq!(opened.packets_claimed(0), 0);
    });
    let again = opened.claim_packets(5, owner);
    assert!(again.is_ok(), "the lack has passed: {:?}", again.err());
}
