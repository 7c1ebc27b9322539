// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flow control of portal table entries (Portals 4.3, section 2.5) in the engine.

use selvedge_nic::handle::NONE;
use selvedge_nic::packet::Packet;
use selvedge_nic::portals::{EntrySpec, fail, list, options};
use selvedge_nic::registers::Register;
use selvedge_rtl::pac::words::Host;

use super::{Engine, MESSAGE, append, entry, get, put};

impl Engine {
    /// Portal table entry 0 with flow control, in this epoch, with the queue of seven events.
    fn controlled(&self, epoch: u32) -> Host {
        Host::Portal { portal: 0, status: 1, options: options::PT_FLOWCTRL, queue: self.queues[1], epoch }
    }

    /// Sets the number of taken events of the queue of seven.
    fn take(&mut self, taken: u64) {
        let reference = self.queues[1];
        self.host(&[Host::QueueHead { reference, taken }]);
    }

    /// Failure and remote offset of the answer to a put of this epoch.
    fn put_of(&mut self, epoch: u64) -> (u8, u64) {
        self.all(&[put(Packet { token: 9, operand: [0, epoch, 0, 0], ..MESSAGE })]);
        let delivery = self.both.model.created.deliveries.last().expect("a message was delivered");
        (delivery.fail, delivery.remote_offset)
    }

    fn posted(&self) -> u64 {
        self.both.model.home.queue_books[1].tail
    }
}

#[test]
fn a_message_without_an_entry_disables_until_the_host_enables() {
    for engine in [Engine::small(), Engine::whole()] {
        let Some(mut engine) = engine else { return };
        engine.host(&[engine.controlled(5)]);
        // The answer carries the new epoch.
        assert_eq!(engine.put_of(5), (fail::PT_DISABLED, 6));
        assert_eq!(engine.posted(), 1, "PT_DISABLED");
        engine.host(&[append(list::PRIORITY, entry(0, NONE))]);
        assert_eq!(engine.put_of(5), (fail::PT_DISABLED, 6));
        assert_eq!(engine.put_of(0), (fail::PT_DISABLED, 0));
        engine.all(&[get(Packet { token: 3, operand: [0, 6, 0, 0], ..MESSAGE })]);
        engine.host(&[engine.controlled(6)]);
        // A put of the earlier epoch is refused and does not end this one.
        assert_eq!(engine.put_of(5), (fail::PT_DISABLED, 6));
        assert_eq!(engine.put_of(6), (fail::OK, 16));
        assert_eq!(engine.put_of(1 << 32 | 6), (fail::PT_DISABLED, 6));
        assert_eq!(engine.posted(), 3, "PT_DISABLED, LINK, PUT");
        let counted = [
            (Register::Requests, 7),
            (Register::FlowControl, 1),
            (Register::RefusedDisabled, 6),
            (Register::MatchedPriority, 1),
            (Register::BytesIn, 24),
            (Register::Events, 3),
        ];
        for (register, count) in counted {
            assert_eq!(engine.both.counted(register), Some(count), "{register:?}");
        }
    }
}

#[test]
fn room_for_events_is_what_the_program_has_taken() {
    let Some(mut engine) = Engine::small() else { return };
    engine.host(&[engine.controlled(1), append(list::PRIORITY, entry(options::EVENT_LINK_DISABLE, NONE))]);
    for _ in 0..7 {
        assert_eq!(engine.put_of(1).0, fail::OK);
    }
    assert_eq!(engine.put_of(1), (fail::PT_DISABLED, 2));
    assert_eq!(engine.posted(), 7, "PT_DISABLED waits");
    // Neither an old head, nor one beyond the tail.
    engine.take(0);
    engine.take(8);
    engine.take(1 << 32);
    assert_eq!(engine.posted(), 7);
    engine.take(1);
    assert_eq!(engine.posted(), 8);
    engine.take(0);
    engine.host(&[Host::QueueHead { reference: NONE, taken: 0 }, engine.controlled(2)]);
    assert_eq!(engine.put_of(2).0, fail::PT_DISABLED, "PT_DISABLED takes a place");
    engine.take(8);
    assert_eq!(engine.posted(), 9);
    // Without flow control the oldest events are overwritten, and give no room.
    let free = Host::Portal { portal: 0, status: 1, options: 0, queue: engine.queues[1], epoch: 3 };
    engine.host(&[free]);
    for _ in 0..12 {
        assert_eq!(engine.put_of(0).0, fail::OK);
    }
    engine.host(&[engine.controlled(3)]);
    assert_eq!(engine.put_of(3).0, fail::PT_DISABLED);
    engine.take(engine.posted() - 6);
    assert_eq!(engine.posted(), 22);
}

/// A used-up entry needs room for AUTO_UNLINK; one of the overflow list without headers also for AUTO_FREE.
#[test]
fn each_event_of_a_message_needs_room() {
    let quiet = options::EVENT_LINK_DISABLE | options::EVENT_FLOWCTRL_DISABLE;
    let once = quiet | options::USE_ONCE;
    for (which, options, events) in [
        (list::PRIORITY, quiet, 1),
        (list::PRIORITY, once, 2),
        (list::PRIORITY, once | options::EVENT_UNLINK_DISABLE, 1),
        (list::PRIORITY, once | options::EVENT_COMM_DISABLE, 1),
        (list::PRIORITY, once | options::EVENT_COMM_DISABLE | options::EVENT_UNLINK_DISABLE, 0),
        (list::OVERFLOW, once, 2),
        (list::OVERFLOW, once | options::UNEXPECTED_HDR_DISABLE, 3),
        (list::OVERFLOW, once | options::UNEXPECTED_HDR_DISABLE | options::EVENT_COMM_DISABLE, 2),
    ] {
        for room in 0..4 {
            let Some(mut engine) = Engine::small() else { return };
            let filler = EntrySpec { match_bits: 6, ..entry(options::EVENT_LINK_DISABLE, NONE) };
            engine.host(&[engine.controlled(1), append(list::PRIORITY, filler)]);
            engine.all(&(0..7 - room).map(|_| put(Packet { match_bits: 6, ..MESSAGE })).collect::<Vec<_>>());
            engine.host(&[append(which, entry(options, NONE))]);
            let expected = if room < events { fail::PT_DISABLED } else { fail::OK };
            assert_eq!(engine.put_of(1).0, expected, "list {which}, options {options:#x}, room {room}");
            // No event reports the disabling, as the entry requests.
            let posted = if room < events { 7 - room } else { 7 - room + events };
            assert_eq!(engine.posted(), posted, "list {which}, options {options:#x}, room {room}");
        }
    }
}

#[test]
fn a_message_without_a_free_header_disables() {
    let Some(mut engine) = Engine::small() else { return };
    let local = EntrySpec { length: 1 << 20, ..entry(options::MANAGE_LOCAL | options::EVENT_LINK_DISABLE, NONE) };
    engine.host(&[engine.controlled(1), append(list::OVERFLOW, local)]);
    for _ in 0..4 {
        assert_eq!(engine.put_of(1).0, fail::OK);
    }
    assert_eq!(engine.put_of(1), (fail::PT_DISABLED, 2));
    assert_eq!(engine.posted(), 5);
}

/// Events that wait for a queue are posted in the order of their portal table entries; a freed entry's is not.
#[test]
fn events_that_wait_are_posted_in_the_order_of_entries() {
    let Some(mut engine) = Engine::small() else { return };
    let set = |engine: &Engine, portal: u32, status: u8, queue: usize| Host::Portal {
        portal,
        status,
        options: options::PT_FLOWCTRL,
        queue: engine.queues[queue],
        epoch: 1,
    };
    engine.host(&[
        set(&engine, 0, 1, 1),
        set(&engine, 1, 1, 1),
        set(&engine, 2, 1, 0),
        set(&engine, 3, 1, 1),
        append(list::PRIORITY, EntrySpec { match_bits: 6, ..entry(options::EVENT_LINK_DISABLE, NONE) }),
    ]);
    engine.all(&(0..7).map(|_| put(Packet { match_bits: 6, ..MESSAGE })).collect::<Vec<_>>());
    engine.all(&[3, 2, 1, 0].map(|portal| put(Packet { token: 1, portal, ..MESSAGE })));
    assert_eq!(engine.posted(), 7);
    engine.host(&[set(&engine, 1, 0, 1)]);
    engine.take(1);
    assert_eq!(engine.posted(), 8);
    engine.take(7);
    assert_eq!(engine.posted(), 9);
}

/// Cycles from a message's last frame to its retirement, alone, and in a stream.
#[test]
fn cycles_of_messages_with_flow_control() {
    let Some(mut engine) = Engine::whole() else { return };
    let quiet = options::EVENT_LINK_DISABLE | options::EVENT_COMM_DISABLE;
    engine.host(&[engine.controlled(1), append(list::PRIORITY, entry(quiet, NONE))]);
    let mut cycles = |count: usize| {
        engine.all(&vec![put(MESSAGE); count]);
        let timings = engine.both.timings();
        let (first, last) = (timings[timings.len() - count], timings[timings.len() - 1]);
        (last.retired - first.accepted, count as u32)
    };
    assert_eq!(cycles(1).0, 27, "alone");
    let (total, count) = cycles(50);
    assert_eq!((total - 27) / (count - 1), 24, "each further one");
}
