// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The units of a node in virtual time: until when each is busy, and the items in its queue.
//!
//! Invariants
//! 1. A unit serves items in the order of their arrival. So all times are known when it comes, and a pass costs no
//!    event.
//! 2. A unit with a queue of q admits an item when the item q before it has begun. The previous unit keeps it until
//!    then.
//! 3. The processor of a rank's program has no state here: the program itself waits for it.
//!
//! Costs: O(1) for a pass. Bytes: 8 for each unit, and 8 for each place of a bounded queue.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::machine::graph::{Graph, Pass, UnitId};
use crate::time::Time;

#[derive(Clone, Debug, Default)]
pub(super) struct NodeUnits {
    /// By unit: earliest begin of its next item.
    free: SmallVec<[Time; 6]>,
    /// By unit with a bounded queue: begins of its last items, one for each place of the queue.
    begun: Box<[VecDeque<Time>]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// Time at which the first unit has admitted it. Until then it keeps its place before the stage.
    pub admitted: Time,
    pub end: Time,
}

impl NodeUnits {
    pub fn new(graph: &Graph) -> NodeUnits {
        let queues = if graph.is_bounded { graph.units.len() } else { 0 };
        NodeUnits {
            free: SmallVec::from_elem(Time::ZERO, graph.units.len()),
            begun: vec![VecDeque::new(); queues].into(),
        }
    }

    /// Passes an item through a unit; returns begin and end.
    #[inline]
    pub fn pass(&mut self, pass: &Pass, at: Time, bytes: u64) -> (Time, Time) {
        let free = &mut self.free[usize::from(pass.unit)];
        let begin = (*free).max(at + pass.before);
        let moved = pass.bytes(bytes);
        *free = begin + pass.interval + moved;
        (begin, begin + pass.latency + moved)
    }

    /// Returns the begin of an item that comes at `at`.
    pub fn begins(&self, pass: &Pass, at: Time) -> Time {
        self.free[usize::from(pass.unit)].max(at + pass.before)
    }

    /// Like [`NodeUnits::pass`], for an item that follows another of the same stream: it pays no latency.
    #[inline]
    pub fn follow(&mut self, pass: &Pass, at: Time, bytes: u64) -> Time {
        let free = &mut self.free[usize::from(pass.unit)];
        *free = (*free).max(at) + pass.occupies(bytes);
        *free
    }

    /// Occupies a unit for `time`, at `at` or later; returns the begin.
    pub fn occupy(&mut self, unit: UnitId, at: Time, time: Time) -> Time {
        let free = &mut self.free[usize::from(unit)];
        let begin = (*free).max(at);
        *free = begin + time;
        begin
    }

    pub fn prolong(&mut self, unit: UnitId, time: Time) {
        self.free[usize::from(unit)] += time;
    }

    /// Passes an item through the units of a stage, one after the other. `seen` gets begin and end of each pass.
    #[inline]
    pub fn through(
        &mut self,
        graph: &Graph,
        stage: &[Pass],
        (at, bytes): (Time, u64),
        mut seen: impl FnMut(&Pass, Time, Time),
    ) -> Passage {
        let mut passage = Passage { admitted: at, end: at };
        // The unit that has the item, and keeps it until the next one admits it.
        let mut holder: Option<UnitId> = None;
        for (number, pass) in stage.iter().enumerate() {
            if graph.units[usize::from(pass.unit)].is_processor {
                let end = passage.end + pass.latency + pass.bytes(bytes);
                seen(pass, passage.end, end);
                (passage.end, holder) = (end, None);
                continue;
            }
            let (admitted, begin, end) = self.enter(graph, pass, (passage.end, bytes), holder);
            if number == 0 {
                passage.admitted = admitted;
            }
            seen(pass, begin, end);
            (passage.end, holder) = (end, Some(pass.unit));
        }
        passage
    }

    /// Enters an item into a unit from its holder, which keeps it until there is room. Returns its times.
    #[inline]
    pub fn enter(
        &mut self,
        graph: &Graph,
        pass: &Pass,
        (at, bytes): (Time, u64),
        holder: Option<UnitId>,
    ) -> (Time, Time, Time) {
        let queue = graph.units[usize::from(pass.unit)].queue;
        if queue == 0 {
            let (begin, end) = self.pass(pass, at, bytes);
            return (at, begin, end);
        }
        let admitted = self.admitted(queue, pass.unit, at);
        if let Some(before) = holder.filter(|_| admitted > at) {
            let free = &mut self.free[usize::from(before)];
            *free = (*free).max(admitted);
        }
        let (begin, end) = self.pass(pass, admitted, bytes);
        self.begun[usize::from(pass.unit)].push_back(begin);
        (admitted, begin, end)
    }

    /// Returns the time at which a unit admits an item that comes at `at`.
    #[inline]
    fn admitted(&mut self, queue: u32, unit: UnitId, at: Time) -> Time {
        let begun = &mut self.begun[usize::from(unit)];
        while begun.len() > queue as usize {
            begun.pop_front();
        }
        if begun.len() == queue as usize { begun.front().map_or(at, |begin| at.max(*begin)) } else { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::graph::{Path, Unit};

    fn ns(ns: u64) -> Time {
        Time::from_ns(ns)
    }

    fn graph(queues: &[u32]) -> Graph {
        let unit = |queue: &u32| Unit { name: String::new(), queue: *queue, is_processor: false };
        Graph {
            units: queues.iter().map(unit).collect(),
            paths: std::array::from_fn(|_| Path::default()),
            translation: None,
            is_bounded: queues.iter().any(|queue| *queue > 0),
        }
    }

    #[test]
    fn a_unit_with_a_short_interval_pipelines() {
        let graph = graph(&[0]);
        let mut units = NodeUnits::new(&graph);
        let pass = Pass { interval: ns(20), ..Pass::delay(0, ns(150)) };
        let ends: Vec<Time> = (0..4).map(|_| units.through(&graph, &[pass], (ns(0), 8), |_, _, _| ()).end).collect();
        assert_eq!(ends, [150, 170, 190, 210].map(ns));
        // If the interval equals the latency, as by default, nothing overlaps.
        let mut units = NodeUnits::new(&graph);
        let ends: Vec<Time> =
            (0..3).map(|_| units.through(&graph, &[Pass::work(0, ns(150))], (ns(0), 8), |_, _, _| ()).end).collect();
        assert_eq!(ends, [150, 300, 450].map(ns));
    }

    #[test]
    fn bytes_take_their_time_apart_from_items() {
        let graph = graph(&[0]);
        let mut units = NodeUnits::new(&graph);
        let pass = Pass { interval: ns(10), bytes_per_s: 1_000_000_000, ..Pass::delay(0, ns(100)) };
        assert_eq!(units.through(&graph, &[pass], (ns(0), 64), |_, _, _| ()).end, ns(164));
        assert_eq!(units.through(&graph, &[pass], (ns(0), 64), |_, _, _| ()).end, ns(74 + 164));
        assert_eq!(units.follow(&pass, ns(0), 64), ns(3 * 74), "a following item pays no latency");
    }

    #[test]
    fn a_full_queue_holds_back_the_unit_before_it() {
        let graph = graph(&[0, 1]);
        let mut units = NodeUnits::new(&graph);
        let (fast, slow) = (Pass::work(0, ns(10)), Pass::work(1, ns(100)));
        let passages: Vec<Passage> =
            (0..4).map(|_| units.through(&graph, &[fast, slow], (ns(0), 0), |_, _, _| ())).collect();
        // Items begin with the slow unit at 10, 110, 210, 310. One may wait, so the third is kept by the fast one until 110, and
        // the fourth begins there only then.
        assert_eq!(passages.iter().map(|passage| passage.end).collect::<Vec<_>>(), [110, 210, 310, 410].map(ns));
        assert_eq!(units.free[0], ns(210));
        let mut unbounded = NodeUnits::new(&super::tests::graph(&[0, 0]));
        for _ in 0..4 {
            unbounded.through(&super::tests::graph(&[0, 0]), &[fast, slow], (ns(0), 0), |_, _, _| ());
        }
        assert_eq!(unbounded.free[0], ns(40), "without a bound nothing is held");
    }

    #[test]
    fn a_full_queue_holds_back_what_comes_from_outside() {
        let graph = graph(&[2]);
        let mut units = NodeUnits::new(&graph);
        let stage = [Pass::work(0, ns(100))];
        let admitted: Vec<Time> =
            (0..5).map(|_| units.through(&graph, &stage, (ns(0), 0), |_, _, _| ()).admitted).collect();
        assert_eq!(admitted, [0, 0, 0, 100, 200].map(ns));
    }
}
