// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts whose payload comes after their match: the state in between. The random histories of `oracle.rs` check that the
//! outcome is that of a delivery.

use crate::common::sane::assert_sane;
use crate::common::{Home, MEMORY_AT, TINY, TestBus};
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::errors::{PortalError, UnlinkError};
use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::{EntrySpec, Event, Placed, Placement, Verdict, event_kind, fail, list, options};
use selvedge_nic::tables::{Request, kind};

const PORTAL: u32 = 0;

struct Stage {
    home: Home,
    bus: TestBus,
    queue: u32,
}

impl Stage {
    fn new() -> Stage {
        Stage::with(8, 0)
    }

    fn with(events: u32, flags: u32) -> Stage {
        let mut home = Home::new(&TINY);
        let queue = home.nic().queues().alloc(events).expect("room");
        home.nic().portal_table().alloc(Some(PORTAL), flags, queue).expect("room");
        Stage { home, bus: TestBus::default(), queue }
    }

    fn append(&mut self, flags: u32, match_bits: u64) -> u32 {
        let spec = EntrySpec {
            options: options::OP_PUT | options::EVENT_LINK_DISABLE | flags,
            start: MEMORY_AT,
            length: 16,
            iov: NONE,
            iov_count: 0,
            match_bits,
            ignore_bits: 0,
            source: 0,
            source_ignore: u64::MAX,
            min_free: 0,
            user_ptr: 7,
            counter: NONE,
            uid: u32::MAX,
        };
        self.home.nic().lists().append(&mut self.bus, PORTAL, list::PRIORITY, &spec).expect("room")
    }

    fn place(&mut self, match_bits: u64) -> Placement {
        self.place_when(match_bits, false)
    }

    fn place_when(&mut self, match_bits: u64, may_wait: bool) -> Placement {
        let request = Request { kind: kind::PUT, portal: PORTAL, match_bits, length: 24, ..Request::default() };
        self.home.nic().target().place(&mut self.bus, &request, may_wait, |_, _| true)
    }

    fn placed(&mut self, match_bits: u64) -> Placed {
        match self.place(match_bits) {
            Placement::At(placed) => placed,
            other => panic!("placed as {other:?}"),
        }
    }

    fn finish(&mut self, placed: Placed, fail: u8) -> Option<(u8, u64)> {
        let delivery = self.home.nic().target().finish_placed(&mut self.bus, placed.header, fail);
        assert_sane(&mut self.home.nic());
        delivery.map(|delivery| (delivery.fail, delivery.mlength))
    }

    fn event(&mut self) -> Option<Event> {
        match self.home.nic().signals.take_event(self.queue) {
            Taken::Event(event, _) => Some(event),
            _ => None,
        }
    }
}

#[test]
fn a_receive_matches_once_and_reports_when_its_payload_is_there() {
    let mut stage = Stage::new();
    let entry = stage.append(options::USE_ONCE, 1);
    let placed = stage.placed(1);
    assert_eq!((placed.start, placed.bytes), (MEMORY_AT, 16), "cut to the entry's memory");
    assert!(!placed.in_order, "the program does not read there before the event");
    assert_eq!(stage.event(), None, "nothing has arrived");
    assert_eq!(stage.place(1), Placement::Nothing, "the entry has left its list");
    assert_eq!(stage.home.nic().lists().unlink(entry), Err(UnlinkError::InUse));
    assert_eq!(stage.home.nic().portal_table().free(PORTAL), Err(PortalError::InUse));
    // The tables are rebuilt meanwhile, because another process has died.
    stage.home.nic().recover(&mut stage.bus, |_| true);
    assert_sane(&mut stage.home.nic());
    assert_eq!(stage.finish(placed, fail::OK), Some((fail::OK, 16)));
    let event = stage.event().expect("it has arrived");
    assert_eq!((event.kind, event.user_ptr, event.mlength, event.rlength), (event_kind::PUT, 7, 16, 24));
    assert_eq!(stage.event().map(|event| event.kind), Some(event_kind::AUTO_UNLINK));
    assert_eq!(stage.event(), None);
    assert_eq!(stage.home.nic().lists().unlink(entry), Err(UnlinkError::Invalid));
    assert_eq!(stage.finish(placed, fail::OK), None, "a put is finished twice");
    assert_eq!(stage.home.nic().portal_table().free(PORTAL), Ok(()));
}

#[test]
fn an_entry_that_stays_takes_several_and_is_held_until_the_last_is_there() {
    let mut stage = Stage::new();
    let entry = stage.append(0, 1);
    let [first, second] = [stage.placed(1), stage.placed(1)];
    assert!(first.in_order && second.in_order, "the program may look there");
    assert_eq!(stage.finish(second, fail::OK), Some((fail::OK, 16)));
    assert_eq!(stage.home.nic().lists().unlink(entry), Err(UnlinkError::InUse));
    stage.home.nic().receives().clear_priority(PORTAL).expect("no grants");
    assert_eq!(stage.finish(first, fail::OK), Some((fail::OK, 16)));
    assert_eq!(stage.home.nic().lists().unlink(entry), Ok(()));
}

#[test]
fn a_payload_that_never_comes_fails_the_put_at_its_entry() {
    let mut stage = Stage::new();
    stage.append(options::USE_ONCE | options::EVENT_UNLINK_DISABLE, 1);
    let placed = stage.placed(1);
    assert_eq!(stage.finish(placed, fail::UNDELIVERABLE), Some((fail::UNDELIVERABLE, 0)));
    let event = stage.event().expect("a failure");
    assert_eq!((event.kind, event.fail, event.mlength), (event_kind::PUT, fail::UNDELIVERABLE, 0));
}

#[test]
fn a_put_that_no_entry_takes_yet_can_wait_for_one() {
    let mut stage = Stage::new();
    assert_eq!(stage.place_when(1, true), Placement::NotYet);
    assert_eq!(stage.event(), None, "nothing has changed");
    stage.append(options::USE_ONCE, 1);
    assert!(matches!(stage.place_when(1, true), Placement::At(_)));
}

#[test]
fn what_no_entry_takes_is_not_fetched_and_what_a_delivery_has_to_decide_is() {
    let mut stage = Stage::new();
    assert_eq!(stage.place(1), Placement::Nothing, "no entry");
    stage.append(options::MANAGE_LOCAL, 2);
    assert_eq!(stage.place(2), Placement::Whole, "the message moves the entry's offset");
    stage.append(0, 3);
    let request = Request { kind: kind::PUT, portal: PORTAL, match_bits: 3, length: 8, ..Request::default() };
    let nic = &mut stage.home.nic();
    assert_eq!(
        nic.target().place(&mut stage.bus, &request, false, |_, _| false),
        Placement::Whole,
        "memory that is out of reach"
    );
    assert_eq!(
        nic.target().place(&mut stage.bus, &Request { kind: kind::GET, ..request }, false, |_, _| true),
        Placement::Whole
    );
    assert_eq!(
        nic.target().place(&mut stage.bus, &Request { portal: 99, ..request }, false, |_, _| true),
        Placement::Nothing
    );
    assert_eq!(nic.target().finish_placed(&mut stage.bus, 0, fail::OK), None, "nothing was placed");
    assert_eq!(nic.target().finish_placed(&mut stage.bus, u64::MAX, fail::OK), None);
}

#[test]
fn with_flow_control_its_events_have_room_until_it_is_finished() {
    let mut stage = Stage::with(3, options::PT_FLOWCTRL);
    stage.append(options::USE_ONCE, 1);
    stage.append(options::USE_ONCE, 2);
    let placed = stage.placed(1);
    assert_eq!(stage.place(2), Placement::Nothing, "room for one event is left, and it needs two");
    let request = Request { kind: kind::PUT, portal: PORTAL, match_bits: 2, ..Request::default() };
    let refused = stage.home.nic().deliver(&mut stage.bus, &request);
    assert!(matches!(refused, Verdict::Done(delivery) if delivery.fail == fail::PT_DISABLED), "{refused:?}");
    assert_eq!(stage.finish(placed, fail::OK), Some((fail::OK, 16)));
    let events: Vec<u8> = std::iter::from_fn(|| stage.event()).map(|event| event.kind).collect();
    assert_eq!(events[events.len() - 2..], [event_kind::PUT, event_kind::AUTO_UNLINK]);
    stage.home.nic().portal_table().set(PORTAL, true).expect("it is there");
    let placed = stage.placed(2);
    assert_eq!(stage.finish(placed, fail::OK), Some((fail::OK, 16)));
}
