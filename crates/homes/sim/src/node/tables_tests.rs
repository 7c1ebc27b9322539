// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC whose tables grow against one that has whole tables from the start: the same results, the same counted steps,
//! and full at the same record.

use proptest::prelude::*;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{EntrySpec, Request, list, options};
use selvedge_nic::tables::kind;
use selvedge_nic::{Limits, Metered, NoMemory, Register, Step};

use super::*;

const LIMITS: Limits = Limits {
    entries: 40,
    headers: 50,
    descriptors: 3,
    counters: 9,
    queues: 1,
    portals: 1,
    triggered: 5,
    list: u32::MAX,
    heap_blocks: 64,
    heap_blocks_max: 64,
    ..Limits::NONE
};

const WILD: EntrySpec = EntrySpec {
    options: options::OP_PUT | options::EVENT_LINK_DISABLE | options::EVENT_UNLINK_DISABLE,
    start: 0,
    length: 1 << 40,
    iov: NONE,
    iov_count: 0,
    match_bits: 0,
    ignore_bits: u64::MAX,
    source: 0,
    source_ignore: u64::MAX,
    min_free: 0,
    user_ptr: 0,
    counter: NONE,
    uid: u32::MAX,
};

struct Home {
    tables: OwnTables,
    queue: u32,
}

impl Home {
    fn new(is_whole: bool) -> Home {
        let mut tables = OwnTables::new(&LIMITS);
        if is_whole {
            extend(&mut tables.entries, LIMITS.entries as usize - 1);
            extend(&mut tables.headers, LIMITS.headers as usize - 1);
            extend(&mut tables.counters, LIMITS.counters as usize - 1);
            extend(&mut tables.counter_books, LIMITS.counters as usize - 1);
            extend(&mut tables.triggered, LIMITS.triggered as usize - 1);
            tables.rehash();
            tables.heap = words(LIMITS.heap_blocks);
            tables.whole().heap().grow(LIMITS.heap_blocks).unwrap();
            assert_eq!(tables.folded, Folded::NONE);
        }
        let queue = match is_whole {
            true => tables.nic().queues().alloc(LIMITS.heap_blocks).unwrap(),
            false => tables.alloc_events(LIMITS.heap_blocks).unwrap(),
        };
        tables.nic().portal_table().alloc(Some(0), 0, queue).unwrap();
        let overflow = EntrySpec { options: WILD.options | options::MANAGE_LOCAL, ..WILD };
        tables.nic().lists().append(&mut NoMemory, 0, list::OVERFLOW, &overflow).unwrap();
        Home { tables, queue }
    }

    /// Executes an operation; returns its result and the searched entries.
    fn execute(&mut self, operation: &Operation) -> (String, u64) {
        let mut searched = 0;
        let mut bus = Metered { bus: NoMemory, meter: |step| searched += u64::from(step == Step::EntrySearched) };
        let result = match *operation {
            Operation::Post { tag, source, ignores } => {
                let once = WILD.options | options::USE_ONCE;
                let spec = EntrySpec {
                    options: once,
                    match_bits: tag,
                    ignore_bits: if ignores & 1 == 0 { 0 } else { u64::MAX },
                    source,
                    source_ignore: if ignores & 2 == 0 { 0 } else { u64::MAX },
                    ..WILD
                };
                let posted = self.tables.nic().receives().post(&mut bus, 0, &spec);
                if let Ok(selvedge_nic::portals::Posted::Matched(header)) = posted {
                    self.tables.nic().receives().drop_unexpected(header);
                }
                format!("{posted:?}")
            }
            Operation::Deliver { tag, source } => {
                let request = Request { kind: kind::PUT, match_bits: tag, initiator: source, ..Request::default() };
                format!("{:?}", self.tables.nic().deliver(&mut bus, &request))
            }
            Operation::Take => match self.tables.signals().take_event(self.queue) {
                Taken::Event(event, lost) => format!("{event:?} {lost}"),
                _ => String::new(),
            },
            Operation::Count => format!("{:?}", self.tables.nic().counters().alloc()),
            Operation::Arm => {
                let counter = self.tables.signals().encodings.counters.encode(0, 0);
                let action = Action::CounterIncrement { counter, success: 1, failure: 0 };
                format!("{:?}", self.tables.nic().triggered().arm(counter, 1 << 20, action).is_ok())
            }
        };
        (result, searched)
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Post { tag: u64, source: u64, ignores: u8 },
    Deliver { tag: u64, source: u64 },
    Take,
    Count,
    Arm,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let one = prop_oneof![
        8 => (0u64..40, 0u64..6, 0u8..4).prop_map(|(tag, source, ignores)| Operation::Post { tag, source, ignores }),
        8 => (0u64..40, 0u64..6).prop_map(|(tag, source)| Operation::Deliver { tag, source }),
        6 => Just(Operation::Take),
        1 => Just(Operation::Count),
        1 => Just(Operation::Arm),
    ];
    prop::collection::vec(one, 1..400)
}

proptest! {
    #[test]
    fn growing_tables_are_like_whole_ones(operations in operations()) {
        let (mut growing, mut whole) = (Home::new(false), Home::new(true));
        for operation in &operations {
            prop_assert_eq!(growing.execute(operation), whole.execute(operation), "{:?}", operation);
        }
        for register in Register::ALL {
            let count = |home: &Home| home.tables.signals().registers.get(*register);
            prop_assert_eq!(count(&growing), count(&whole), "{}", register.name());
        }
        while whole.tables.signals().queue(whole.queue).is_some() {
            let taken = growing.execute(&Operation::Take);
            prop_assert_eq!(&taken, &whole.execute(&Operation::Take));
            if taken.0.is_empty() {
                break;
            }
        }
    }
}

/// A NIC that waits for a few messages at once takes little memory, whatever its limits.
#[test]
fn an_idle_nic_is_small() {
    let limits = Limits { entries: 8192, headers: 8192, counters: 2048, triggered: 1024, queues: 64, ..LIMITS };
    let mut tables = OwnTables::new(&Limits { heap_blocks: 4096, heap_blocks_max: 4096, ..limits });
    tables.alloc_events(4096).unwrap();
    let records = size_of_val(&*tables.entries) + size_of_val(&*tables.headers) + size_of_val(&*tables.triggered);
    let counting = size_of_val(&*tables.counters) + size_of_val(&*tables.counter_books);
    let heap = size_of_val(&*tables.heap);
    assert!(records + counting + heap < 4096, "{records} {counting} {heap}");
}
