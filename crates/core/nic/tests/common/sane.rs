// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The invariants of a NIC's tables between transitions, checked the slow way.

use std::collections::BTreeSet;

use selvedge_nic::Nic;
use selvedge_nic::buddy::Buddy;
use selvedge_nic::handle::NONE;
use selvedge_nic::tables::{CLASS_SHORT, CLASSES, Entry, entry, header, slot, triggered};

/// Panics if a derived part of the tables contradicts the slots from which it is derived.
pub fn assert_sane(nic: &mut Nic<'_>) {
    free_lists(nic);
    entries(nic);
    headers(nic);
    armed(nic);
    heap(nic);
}

fn free_lists(nic: &Nic<'_>) {
    macro_rules! check {
        ($name:literal, $head:expr, $records:expr, $next:expr, $free:expr) => {{
            let mut at = $head;
            let mut seen = BTreeSet::new();
            while (at as usize) < $records.len() {
                assert!(seen.insert(at), concat!($name, ": cycle in a free list"));
                assert!($free(&$records[at as usize]), concat!($name, ": a live record is on the free list"));
                at = slot::next(at, $next(&$records[at as usize]));
            }
            let free = $records.iter().filter(|record| $free(record)).count();
            assert_eq!(free, seen.len(), concat!($name, ": a free slot is not on the free list"));
        }};
    }
    use selvedge_nic::signals::Descriptor;
    use selvedge_nic::tables::{CounterBook, Header, Pending, QueueBook, Triggered};
    use std::sync::atomic::Ordering::Relaxed;
    let (tables, control) = (&nic.tables, &nic.tables.control);
    let is_free = |word: u32| slot::status(word) == slot::FREE;
    check!("entries", control.free_entry, tables.entries, |r: &Entry| r.next, |r: &Entry| is_free(r.slot));
    check!("headers", control.free_header, tables.headers, |r: &Header| r.links[0][0], |r: &Header| is_free(r.slot));
    check!("triggered", control.free_triggered, tables.triggered, |r: &Triggered| r.next, |r: &Triggered| is_free(
        r.slot
    ));
    check!("pending", control.free_pending, tables.pending, |r: &Pending| r.next, |r: &Pending| is_free(r.slot));
    check!(
        "counters",
        control.free_counter,
        tables.counters,
        |r: &CounterBook| r.next_free,
        |r: &CounterBook| is_free(r.slot)
    );
    check!("queues", control.free_queue, tables.queues, |r: &QueueBook| r.next_free, |r: &QueueBook| is_free(r.slot));
    check!(
        "descriptors",
        control.free_descriptor,
        nic.signals.descriptors,
        |r: &Descriptor| r.next_free.load(Relaxed),
        |r: &Descriptor| is_free(r.slot.load(Relaxed))
    );
}

fn entries(nic: &Nic<'_>) {
    let tables = &nic.tables;
    let mut chained = BTreeSet::new();
    for bucket in tables.entry_buckets.iter() {
        let (mut at, mut before) = (bucket.head, NONE);
        let mut sequences = std::collections::BTreeMap::new();
        while at != NONE {
            let record = &tables.entries[at as usize];
            assert!(chained.insert(at), "an entry is on two chains");
            assert_eq!(record.prev, before, "a chain's links disagree");
            let list = slot::status(record.slot);
            assert!(list == entry::PRIORITY || list == entry::OVERFLOW, "an entry that is on no list is on a chain");
            let last = sequences.insert((record.portal, list, record.class), record.sequence);
            assert!(last.is_none_or(|last| last < record.sequence), "a chain is out of order");
            (before, at) = (at, record.next);
        }
        assert_eq!(bucket.tail, before, "a chain's tail is not its last record");
    }
    for (number, portal) in tables.portals.iter().enumerate() {
        for (list, status) in [entry::PRIORITY, entry::OVERFLOW].into_iter().enumerate() {
            let linked: Vec<u32> = (0..tables.entries.len() as u32)
                .filter(|&index| {
                    let record = &tables.entries[index as usize];
                    slot::status(record.slot) == status && usize::from(record.portal) == number
                })
                .collect();
            let short = |index: u32| tables.entries[index as usize].class == CLASS_SHORT;
            assert!(
                linked.iter().all(|&index| chained.contains(&index) != short(index)),
                "a listed entry is neither indexed nor in the short list, or both"
            );
            assert_eq!(portal.entries[list] as usize, linked.len(), "a list's length is wrong");
            let of_class = |class: usize| {
                linked.iter().filter(|&&index| usize::from(tables.entries[index as usize].class) == class).count()
            };
            for (class, record) in portal.classes.iter().enumerate() {
                assert_eq!(record.entries[list] as usize, of_class(class), "a class's count is wrong");
                let active = portal.active[list] & 1 << class != 0;
                assert_eq!(active, of_class(class) != 0, "a class's active bit is wrong");
            }
            assert_eq!(portal.others[list] as usize, of_class(CLASSES));
            if list == 0 {
                short_list(nic, number, linked);
            } else {
                assert!(!linked.iter().any(|&index| short(index)), "only priority lists have a short list");
            }
        }
    }
}

/// A priority list is its short list, in order, and behind it the indexed entries.
fn short_list(nic: &Nic<'_>, portal: usize, mut linked: Vec<u32>) {
    let (tables, slots) = (&nic.tables, nic.tables.short_list);
    let record = &tables.portals[portal];
    assert!(record.short_length() <= slots, "a short list is too long");
    linked.sort_by_key(|&index| tables.entries[index as usize].sequence);
    let listed: Vec<u32> = (0..record.short_length())
        .map(|step| record.short_head.wrapping_add(step) & (slots - 1))
        .map(|slot| tables.short_lists[portal * slots as usize + slot as usize])
        .collect();
    assert_eq!(linked[..listed.len()], listed, "a short list is not the beginning of its list");
    let indexed = linked[listed.len()..].iter().all(|&index| tables.entries[index as usize].class != CLASS_SHORT);
    assert!(indexed, "an entry in no index is not in the short list");
}

fn headers(nic: &Nic<'_>) {
    let tables = &nic.tables;
    let mut kept = vec![0u32; tables.entries.len()];
    let mut live = 0;
    for (number, portal) in tables.portals.iter().enumerate() {
        let (mut at, mut before, mut count, mut sequence) = (portal.header_head, NONE, 0, 0);
        while at != NONE {
            let record = &tables.headers[at as usize];
            assert_eq!(slot::status(record.slot), header::LIVE, "a free header is on a list");
            assert_eq!(usize::from(record.portal), number);
            assert_eq!(record.links[0][1], before, "the unexpected list's links disagree");
            assert!(record.sequence > sequence, "the unexpected list is out of order");
            assert_eq!(
                record.chained, portal.searched,
                "a header is not on the chain of every class that was searched by"
            );
            kept[record.entry as usize] += 1;
            sequence = record.sequence;
            (before, at) = (at, record.links[0][0]);
            count += 1;
            assert!(count <= tables.headers.len(), "cycle in the unexpected list");
        }
        assert_eq!(portal.header_tail, before);
        assert_eq!(portal.headers as usize, count);
        live += count;
    }
    let slots = tables.headers.iter().filter(|record| slot::status(record.slot) == header::LIVE).count();
    assert_eq!(slots, live, "a live header is on no list");
    for record in tables.headers.iter().filter(|record| slot::status(record.slot) == header::CLAIMED) {
        kept[record.entry as usize] += 1;
    }
    for (record, kept) in tables.entries.iter().zip(kept) {
        if slot::status(record.slot) != slot::FREE {
            assert_eq!(record.headers, kept, "an entry's count of headers is wrong");
        }
        assert!(slot::status(record.slot) != entry::DRAINING || kept != 0, "an entry without headers still drains");
    }
    let mut nodes = BTreeSet::new();
    for bucket in tables.header_buckets.iter() {
        let (mut at, mut before) = (bucket.head, NONE);
        while at != NONE {
            let (index, class) = (at / CLASSES as u32, (at % CLASSES as u32) as usize);
            let record = &tables.headers[index as usize];
            assert!(nodes.insert(at), "cycle in a header's chain");
            assert!(record.chained & 1 << class != 0);
            assert_eq!(record.links[1 + class][1], before, "a header chain's links disagree");
            (before, at) = (at, record.links[1 + class][0]);
        }
        assert_eq!(bucket.tail, before);
    }
    let marked: u32 =
        tables.headers.iter().filter(|r| slot::status(r.slot) == header::LIVE).map(|r| r.chained.count_ones()).sum();
    assert_eq!(marked as usize, nodes.len(), "a header's marks and chains disagree");
}

fn armed(nic: &Nic<'_>) {
    let tables = &nic.tables;
    let mut seen = BTreeSet::new();
    for book in tables.counters.iter().filter(|book| slot::status(book.slot) != slot::FREE) {
        let (mut at, mut before, mut threshold) = (book.armed_head, NONE, 0);
        let first = tables.triggered.get(at as usize).map_or(u64::MAX, |record| record.threshold);
        assert_eq!(book.threshold_next, first, "a counter's next threshold is not that of its first operation");
        while at != NONE {
            let record = &tables.triggered[at as usize];
            assert!(seen.insert(at), "an operation is on two lists");
            assert_eq!(slot::status(record.slot), triggered::ARMED);
            assert_eq!(record.prev, before);
            assert!(record.threshold >= threshold, "a counter's operations are out of order");
            threshold = record.threshold;
            (before, at) = (at, record.next);
        }
        assert_eq!(book.armed_tail, before);
    }
    let armed = tables.triggered.iter().filter(|record| slot::status(record.slot) == triggered::ARMED).count();
    assert_eq!(armed, seen.len(), "an armed operation is in no counter's list");
    let mut at = tables.control.fire_head;
    let mut queued = BTreeSet::new();
    while at != NONE {
        assert!(queued.insert(at), "cycle in the fire queue");
        assert_eq!(slot::status(tables.triggered[at as usize].slot), triggered::QUEUED);
        at = tables.triggered[at as usize].next;
    }
    let slots = tables.triggered.iter().filter(|record| slot::status(record.slot) == triggered::QUEUED).count();
    assert_eq!(slots, queued.len());
    let fired = nic.signals.doorbell.fired.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(fired as usize, queued.len(), "the doorbell's count of due operations is wrong");
}

/// Every live ring and vector is an allocation of its own.
fn heap(nic: &mut Nic<'_>) {
    let mut firsts: Vec<u32> =
        nic.tables.queues.iter().filter(|r| slot::status(r.slot) != slot::FREE).map(|r| r.ring).collect();
    let live = nic.tables.entries.iter().filter(|r| slot::status(r.slot) != slot::FREE && r.iov != NONE);
    firsts.extend(live.map(|record| record.iov));
    let heap = Buddy::attach(nic.tables.heap_map).expect("the heap's allocator is whole");
    let mut blocks = 0;
    for first in firsts {
        blocks += heap.size_of(first).expect("a live record's blocks are allocated");
    }
    assert!(blocks <= heap.blocks_now() - heap.free_blocks(), "blocks are shared");
}
