// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans as a trace for the Perfetto viewer (<https://ui.perfetto.dev>), in Google's "Trace Event Format", JSON.
//!
//! In the viewer each node is a process and each of its units a thread: the programs of its ranks, the host, the two
//! engines of the NIC, the wire. The fabric is another process, with a thread for each channel. Arrows (flow events)
//! connect the spans of one message in order of time: host, NIC, wire, channels, the target's NIC, and back.
//!
//! Invariants
//! 1. Spans of one thread do not overlap, as the format demands: a unit with overlapping spans has several threads.
//! 2. Each flow has exactly one start and one end; a message with only one span has no flow.
//! 3. Times are whole nanoseconds, written as microseconds with up to three decimals; exact times are in each span's
//!    arguments, in picoseconds. Starts and ends are rounded alike, so that neighbours stay neighbours.
//! 4. Two runs of the same simulation give the same bytes.
//!
//! Costs: O(spans log spans); 20 bytes a span beside the spans. The text is streamed, about 200 bytes a span with its arrow.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;

use crate::node::trace::{Span, Trace, Unit};
use crate::time::Time;

/// Names for the viewer that the spans do not contain.
pub struct Names<'a> {
    /// The title of the trace.
    pub title: &'a str,
    /// The node of each rank.
    pub nodes: &'a [u32],
    pub node: &'a dyn Fn(u32) -> String,
    pub channel: &'a dyn Fn(u32) -> String,
}

/// Counts of the written items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub spans: u64,
    /// Missing spans, beyond the limit of the trace.
    pub left_out: u64,
    pub flows: u64,
}

/// Process of the fabric. Node n is process n + 2, because process 0 has a special meaning in viewers.
pub(super) const FABRIC: u32 = 1;
/// The thread that shows a span: process; kind of unit (program, host, send engine, receive engine, wire, channel);
/// number of the rank or channel; number of the thread among those of the unit.
pub(super) type Place = (u32, u8, u32, u32);

/// Writes a trace.
pub fn write(trace: &Trace, names: &Names<'_>, out: &mut dyn Write) -> io::Result<Written> {
    let mut order: Vec<u32> = (0..trace.spans.len() as u32).collect();
    // Among spans with one start the longer comes first; equal ones in the order of recording.
    order.sort_by_key(|&at| (ns(span(trace, at).start), std::cmp::Reverse(ns(span(trace, at).end)), at));
    let (threads, places) = threads(trace, names, &order, ns);
    let chain = chain(trace, &order);
    // Above all processes: viewers take a thread with its process's number for the main thread.
    let first_thread = places.iter().map(|place| place.0).max().unwrap_or(FABRIC) + 1;
    let mut writer = Writer { out, first: true, first_thread };
    writer.begin(names.title, trace)?;
    writer.name_threads(names, &places)?;
    let mut written = Written { left_out: trace.left_out, ..Written::default() };
    for &at in &order {
        let (span, thread, link) = (span(trace, at), threads[at as usize], chain[at as usize]);
        let ids = (places[thread as usize].0, thread + first_thread);
        writer.span(span, ids)?;
        written.spans += 1;
        if link != Link::Alone {
            writer.flow(span, ids, link)?;
            written.flows += u64::from(link == Link::First);
        }
    }
    if trace.left_out > 0 {
        let last = trace.spans.iter().map(|span| ns(span.end)).max().unwrap_or(0);
        writer.left_out(last, trace.left_out)?;
    }
    writer.out.write_all(b"\n]}\n")?;
    writer.out.flush()?;
    Ok(written)
}

fn span(trace: &Trace, at: u32) -> &Span {
    &trace.spans[at as usize]
}

fn ns(time: Time) -> u64 {
    time.as_ns()
}

fn place(span: &Span, names: &Names<'_>) -> Place {
    let node = span.node + 2;
    match span.unit {
        // The span of a program names its rank.
        Unit::Program => (names.nodes.get(span.node as usize).map_or(node, |node| node + 2), 0, span.node, 0),
        Unit::Host => (node, 1, 0, 0),
        Unit::NicSend => (node, 2, 0, 0),
        Unit::NicReceive => (node, 3, 0, 0),
        Unit::Wire => (node, 4, 0, 0),
        Unit::Channel(channel) => (FABRIC, 5, channel, 0),
    }
}

/// Returns the thread of each span, which is the first free thread of its unit; and the place of each thread. `order` is
/// that of the spans' starts, and `clock` the time in the viewer's ticks.
pub(super) fn threads(
    trace: &Trace,
    names: &Names<'_>,
    order: &[u32],
    clock: impl Fn(Time) -> u64,
) -> (Vec<u32>, Vec<Place>) {
    // For each thread of a unit, the time at which it is free, and its number in order of appearance.
    let mut unit_threads: BTreeMap<Place, Vec<(u64, u32)>> = BTreeMap::new();
    let mut appeared = Vec::new();
    let mut threads = vec![0; trace.spans.len()];
    for &at in order {
        let span = span(trace, at);
        let place = place(span, names);
        let unit_threads = unit_threads.entry(place).or_default();
        let free = unit_threads.iter().position(|(end, _)| *end <= clock(span.start));
        let index = free.unwrap_or_else(|| {
            unit_threads.push((0, appeared.len() as u32));
            appeared.push((place.0, place.1, place.2, unit_threads.len() as u32 - 1));
            unit_threads.len() - 1
        });
        unit_threads[index].0 = clock(span.end).max(clock(span.start));
        threads[at as usize] = unit_threads[index].1;
    }
    // Threads get numbers in the order in which viewers show them.
    let mut sorted: Vec<u32> = (0..appeared.len() as u32).collect();
    sorted.sort_unstable_by_key(|&number| appeared[number as usize]);
    let mut numbers = vec![0; appeared.len()];
    sorted.iter().enumerate().for_each(|(number, &old)| numbers[old as usize] = number as u32);
    threads.iter_mut().for_each(|thread| *thread = numbers[*thread as usize]);
    (threads, sorted.iter().map(|&old| appeared[old as usize]).collect())
}

/// Returns the name of a thread.
pub(super) fn thread_name(names: &Names<'_>, (_, unit, which, index): Place) -> String {
    let name = match unit {
        0 => format!("rank {which}"),
        1 => "host".to_owned(),
        2 => "NIC, sending".to_owned(),
        3 => "NIC, receiving".to_owned(),
        4 => "on the wire".to_owned(),
        _ => (names.channel)(which),
    };
    if index == 0 { name } else { format!("{name} ({})", index + 1) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Alone,
    First,
    Middle,
    Last,
}

fn chain(trace: &Trace, order: &[u32]) -> Vec<Link> {
    let mut links = vec![Link::Alone; trace.spans.len()];
    let mut last: BTreeMap<u64, u32> = BTreeMap::new();
    for &at in order {
        let message = span(trace, at).message;
        if message == 0 {
            continue;
        }
        if let Some(before) = last.insert(message, at) {
            let link = &mut links[before as usize];
            *link = if *link == Link::Alone { Link::First } else { Link::Middle };
            links[at as usize] = Link::Last;
        }
    }
    links
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    first: bool,
    /// The number of the first thread.
    first_thread: u32,
}

impl Writer<'_> {
    fn begin(&mut self, title: &str, trace: &Trace) -> io::Result<()> {
        let about = json!({ "title": title, "spans": trace.spans.len(), "spans_left_out": trace.left_out });
        write!(self.out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[")
    }

    fn next(&mut self) -> io::Result<()> {
        self.out.write_all(if std::mem::take(&mut self.first) { b"\n" } else { b",\n" })
    }

    /// Writes the names of processes and threads, and the order in which viewers show them.
    fn name_threads(&mut self, names: &Names<'_>, places: &[Place]) -> io::Result<()> {
        let mut process = 0;
        for (number, &(pid, unit, which, index)) in places.iter().enumerate() {
            if pid != process {
                process = pid;
                let name = if pid == FABRIC { "fabric".to_owned() } else { (names.node)(pid - 2) };
                // The fabric is shown last.
                let place = if pid == FABRIC { self.first_thread } else { pid };
                self.name("process_name", pid, 0, json!({ "name": name }))?;
                self.name("process_sort_index", pid, 0, json!({ "sort_index": place }))?;
            }
            let name = thread_name(names, (pid, unit, which, index));
            let tid = number as u32 + self.first_thread;
            self.name("thread_name", pid, tid, json!({ "name": name }))?;
            self.name("thread_sort_index", pid, tid, json!({ "sort_index": number }))?;
        }
        Ok(())
    }

    fn name(&mut self, what: &str, pid: u32, tid: u32, args: serde_json::Value) -> io::Result<()> {
        self.next()?;
        write!(self.out, "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{pid},\"tid\":{tid},\"args\":{args}}}")
    }

    fn span(&mut self, span: &Span, (pid, tid): (u32, u32)) -> io::Result<()> {
        let (start, end) = (ns(span.start), ns(span.end).max(ns(span.start)));
        self.next()?;
        write!(
            self.out,
            "{{\"ph\":\"X\",\"name\":{},\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"dur\":{},\"args\":{{\"start_ps\":{},\"dur_ps\":{}",
            json!(span.name),
            Micros(start),
            Micros(end - start),
            span.start.0,
            span.end.0.saturating_sub(span.start.0)
        )?;
        if span.message != 0 {
            write!(self.out, ",\"message\":{},\"bytes\":{}", span.message, span.bytes)?;
        }
        self.out.write_all(b"}}")
    }

    /// Writes an end of an arrow; viewers bind it to the span written before it, the last one if it says so.
    fn flow(&mut self, span: &Span, (pid, tid): (u32, u32), link: Link) -> io::Result<()> {
        let phase = match link {
            Link::First => "\"s\"",
            Link::Last => "\"f\",\"bp\":\"e\"",
            Link::Middle | Link::Alone => "\"t\"",
        };
        self.next()?;
        write!(
            self.out,
            "{{\"ph\":{phase},\"cat\":\"m\",\"name\":\"message\",\"id\":{},\"pid\":{pid},\"tid\":{tid},\"ts\":{}}}",
            span.message,
            Micros(ns(span.start))
        )
    }

    fn left_out(&mut self, at_ns: u64, count: u64) -> io::Result<()> {
        let name = format!("{count} spans are left out from here on; a higher --trace-limit keeps more");
        self.next()?;
        write!(
            self.out,
            "{{\"ph\":\"i\",\"s\":\"g\",\"name\":{},\"pid\":{FABRIC},\"tid\":0,\"ts\":{}}}",
            json!(name),
            Micros(at_ns)
        )
    }
}

struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.0 / 1000)?;
        match self.0 % 1000 {
            0 => Ok(()),
            part if part % 100 == 0 => write!(out, ".{}", part / 100),
            part if part % 10 == 0 => write!(out, ".{:02}", part / 10),
            part => write!(out, ".{part:03}"),
        }
    }
}
