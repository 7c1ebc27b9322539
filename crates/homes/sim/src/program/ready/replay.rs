// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replay of a trace file, which lists the operations of each rank.
//!
//! ```text
//! selvedge-trace 1
//! ranks 2
//! # rank operation arguments, separated by commas or spaces; * stands for every rank
//! 0 compute 1500          ns
//! 0 send 1 4096 7         to rank, bytes, tag; isend likewise
//! 1 irecv 0 4096 7        from rank, bytes, tag (*: any rank, any tag); recv likewise
//! 1 waitall               for all started requests
//! * barrier
//! * allreduce 64          bytes, whole words of 8
//! * broadcast 1024        bytes, from rank 0
//! end
//! ```
//!
//! Before anything runs, a trace is checked: every send has a receive and every receive a send, all ranks call the same
//! collectives in the same order, and the file ends with `end`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parameter::{Kind, Parameter, whole};
use super::payload::{is_payload_of, payload_of, seed};
use super::{BuiltIn, Prepared, ProgramError, Setting};
use crate::program::collectives::Sum;
use crate::program::{ANY, OWN_TAGS};
use crate::program::{Message, Needs, Process, RequestId};
use crate::time::Time;

pub(super) const REPLAY: BuiltIn = BuiltIn {
    name: "replay",
    about: "operations of a trace file: computing, messages, collectives",
    over: "rank",
    ranks_min: 1,
    parameters: &[
        Parameter { name: "trace", kind: Kind::File, default: "", about: "the file" },
        whole("eager-bytes", "8K", 0, "messages up to this length are sent at once"),
    ],
    make,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Compute(Time),
    Send { to: u32, bytes: u64, tag: u32, waits: bool },
    Receive { from: u32, bytes: u64, tag: u32, waits: bool },
    WaitAll,
    Barrier,
    Allreduce(u64),
    Broadcast(u64),
}

/// The operations of each rank, with their line numbers.
#[derive(Debug, Default)]
struct Trace {
    ranks: Vec<Vec<(usize, Operation)>>,
}

const TAG_COLLECTIVE: u32 = OWN_TAGS;
const RANKS_MAX: u32 = 1 << 20;
const BYTES_MAX: u64 = 1 << 30;

fn make(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let file = setting.arguments.text("trace");
    let text = std::fs::read_to_string(file)
        .map_err(|error| ProgramError::Unreadable { file: file.to_owned(), why: error.to_string() })?;
    let trace = Trace::read(&text)
        .and_then(|trace| trace.check().map(|()| trace))
        .map_err(|(line, what)| ProgramError::Trace { file: file.to_owned(), line, what })?;
    let traced = trace.ranks.len() as u32;
    if traced != setting.ranks {
        let (program, needed) = (setting.arguments.program(), format!("the {traced} ranks of its trace"));
        return Err(ProgramError::BadSize { program, needed, ranks: setting.ranks });
    }
    let eager_bytes_max = setting.arguments.whole("eager-bytes");
    let needs: Vec<Needs> = (0..traced).map(|rank| trace.needs(rank, eager_bytes_max)).collect();
    let most = Needs {
        receives: needs.iter().map(|needs| needs.receives).max().unwrap_or(0),
        unexpected: needs.iter().map(|needs| needs.unexpected).max().unwrap_or(0),
        ..needs[0]
    };
    let trace = Arc::new(trace);
    let mut prepared = Prepared::new(most, move |process| {
        let trace = Arc::clone(&trace);
        async move { replay(&process, &trace.ranks[process.rank() as usize]).await }
    });
    prepared.needs_of = Some(Arc::new(move |rank| needs[rank as usize]));
    Ok(prepared)
}

async fn replay(process: &Process, operations: &[(usize, Operation)]) -> i32 {
    let mut begun: Vec<(usize, RequestId)> = Vec::new();
    for &(line, operation) in operations {
        match operation {
            Operation::Compute(time) => process.compute(time).await,
            Operation::Send { to, bytes, tag, waits } => {
                let data = payload_of(stamp(process.rank(), to, tag), bytes);
                let request = process.isend(to, tag, &data).await;
                if waits {
                    process.wait(request).await;
                } else {
                    begun.push((line, request));
                }
            }
            Operation::Receive { from, bytes, tag, waits } => {
                let request = process.irecv(from, tag, bytes);
                if !waits {
                    begun.push((line, request));
                } else if !check(process, line, process.wait(request).await) {
                    return 1;
                }
            }
            Operation::WaitAll => {
                for (line, request) in std::mem::take(&mut begun) {
                    if !check(process, line, process.wait(request).await) {
                        return 1;
                    }
                }
            }
            Operation::Barrier => process.barrier(TAG_COLLECTIVE).await,
            Operation::Allreduce(bytes) => {
                let mut words = (u64::from(process.rank()) + 1).to_le_bytes().repeat(bytes as usize / 8);
                process.allreduce(Sum::RecursiveDoubling, TAG_COLLECTIVE, &mut words).await;
                let size = u64::from(process.size());
                if words != (size * (size + 1) / 2).to_le_bytes().repeat(bytes as usize / 8) {
                    return process.wrong(format!("the sum of line {line} is wrong"));
                }
            }
            Operation::Broadcast(bytes) => {
                let stamp = seed(&[bytes]);
                let mut data = if process.rank() == 0 { payload_of(stamp, bytes) } else { vec![0; bytes as usize] };
                process.broadcast(TAG_COLLECTIVE, &mut data).await;
                if !is_payload_of(stamp, bytes, &data) {
                    return process.wrong(format!("the broadcast of line {line} delivered wrong bytes"));
                }
            }
        }
    }
    process.record("end, us", f64::from(process.rank()), process.now().as_us_f64());
    0
}

fn stamp(from: u32, to: u32, tag: u32) -> u64 {
    seed(&[from.into(), to.into(), tag.into()])
}

/// Checks a received message; `None`: the request is a send, which returns no message.
fn check(process: &Process, line: usize, message: Option<Message>) -> bool {
    let Some(message) = message else { return true };
    let bytes = message.bytes.len() as u64;
    if is_payload_of(stamp(message.source, process.rank(), message.tag), bytes, &message.bytes) {
        return true;
    }
    process.wrong(format!("line {line} received a message other than the one that rank {} sent", message.source));
    false
}

// ---- Reading -------------------------------------------------------------------------------------------------------

/// An error in a trace: its line and reason.
type Complaint = (usize, String);

impl Trace {
    fn read(text: &str) -> Result<Trace, Complaint> {
        let mut trace = Trace::default();
        let (mut has_head, mut has_end, mut last) = (false, false, 1);
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            let words: Vec<&str> = line
                .split('#')
                .next()
                .unwrap_or("")
                .split(|letter: char| letter == ',' || letter.is_whitespace())
                .filter(|word| !word.is_empty())
                .collect();
            if words.is_empty() {
                continue;
            }
            last = number;
            let complain = |what: String| Err((number, what));
            if has_end {
                return complain("text after end; remove it".to_owned());
            }
            match words[..] {
                ["selvedge-trace", "1"] if !has_head => has_head = true,
                _ if !has_head => return complain("a trace begins with: selvedge-trace 1".to_owned()),
                ["ranks", count] if trace.ranks.is_empty() => {
                    let count =
                        in_range(count, "a number of ranks", 1, RANKS_MAX.into()).map_err(|what| (number, what))?;
                    trace.ranks = vec![Vec::new(); count as usize];
                }
                _ if trace.ranks.is_empty() => {
                    return complain("the number of ranks must come first, as in: ranks 4".to_owned());
                }
                ["end"] => has_end = true,
                [rank, operation, ref arguments @ ..] => {
                    let ranks = trace.ranks.len() as u32;
                    let operation = parse(operation, arguments, ranks).map_err(|what| (number, what))?;
                    let of = if rank == "*" {
                        0..ranks
                    } else {
                        let rank = rank_of(rank, ranks).map_err(|what| (number, what))?;
                        rank..rank + 1
                    };
                    for rank in of {
                        trace.ranks[rank as usize].push((number, operation));
                    }
                }
                _ => return complain("a line must be: rank operation arguments".to_owned()),
            }
        }
        if !has_end {
            return Err((last, "the trace is cut short: its last line must be end".to_owned()));
        }
        Ok(trace)
    }

    /// Checks that every message has a sender and a receiver, and that all ranks call the same collectives.
    fn check(&self) -> Result<(), Complaint> {
        let collectives = |rank: usize| {
            let all = self.ranks[rank].iter().filter(|(_, operation)| {
                matches!(operation, Operation::Barrier | Operation::Allreduce(_) | Operation::Broadcast(_))
            });
            all.copied().collect::<Vec<_>>()
        };
        let first = collectives(0);
        for rank in 1..self.ranks.len() {
            let own = collectives(rank);
            let differs = (0..first.len().max(own.len())).find(|at| {
                own.get(*at).map(|(_, operation)| operation) != first.get(*at).map(|(_, operation)| operation)
            });
            if let Some(at) = differs {
                let line = own.get(at).or(first.get(at)).map_or(1, |(line, _)| *line);
                return Err((
                    line,
                    format!("rank {rank} and rank 0 do not call the same collectives in the same order"),
                ));
            }
        }
        // By sender, receiver and tag: the lines of sends without a receive so far.
        let mut sent: BTreeMap<(u32, u32, u32), Vec<usize>> = BTreeMap::new();
        let takes_any = |rank: u32| {
            let any = |operation: &Operation| matches!(operation, Operation::Receive { from, tag, .. } if *from == ANY || *tag == ANY);
            self.ranks[rank as usize].iter().any(|(_, operation)| any(operation))
        };
        for (rank, operations) in self.ranks.iter().enumerate() {
            for &(line, operation) in operations {
                if let Operation::Send { to, tag, .. } = operation {
                    sent.entry((rank as u32, to, tag)).or_default().push(line);
                }
            }
        }
        for lines in sent.values_mut() {
            lines.reverse();
        }
        for rank in (0..self.ranks.len() as u32).filter(|rank| !takes_any(*rank)) {
            for &(line, operation) in &self.ranks[rank as usize] {
                if let Operation::Receive { from, tag, .. } = operation {
                    if sent.get_mut(&(from, rank, tag)).and_then(Vec::pop).is_none() {
                        return Err((line, format!("rank {from} sends no such message to rank {rank}")));
                    }
                }
            }
        }
        let unreceived = sent.iter().filter(|((_, to, _), _)| !takes_any(*to));
        match unreceived.filter_map(|((_, to, _), lines)| lines.last().map(|line| (*line, *to))).min() {
            Some((line, to)) => Err((line, format!("rank {to} does not receive this message"))),
            None => Ok(()),
        }
    }

    fn needs(&self, rank: u32, eager_bytes_max: u64) -> Needs {
        let (mut begun, mut most, mut unexpected) = (0, 0, 0);
        for (_, operation) in &self.ranks[rank as usize] {
            match operation {
                Operation::WaitAll => begun = 0,
                Operation::Send { waits: false, .. } | Operation::Receive { waits: false, .. } => begun += 1,
                _ => {}
            }
            most = most.max(begun);
        }
        for (_, operation) in self.ranks.iter().flatten() {
            unexpected += u32::from(matches!(operation, Operation::Send { to, .. } if *to == rank));
        }
        let collectives = self.ranks.len().ilog2() + 2;
        Needs {
            memory_bytes: 0,
            receives: most + 2 * collectives + 8,
            unexpected: unexpected + 4 * collectives + 8,
            windows: 0,
            triggered: 0,
            eager_bytes_max,
            units: false,
            groups: 0,
        }
    }
}

fn parse(operation: &str, arguments: &[&str], ranks: u32) -> Result<Operation, String> {
    let any = |text: &str| text == "*";
    let bytes_of = |text: &str| in_range(text, "a number of bytes", 0, BYTES_MAX);
    let tag_of = |text: &str| in_range(text, "a tag", 0, u64::from(TAG_COLLECTIVE) - 1).map(|tag| tag as u32);
    let waits = !operation.starts_with('i');
    Ok(match (operation, arguments) {
        ("compute", [time]) => {
            let time: f64 = time
                .parse()
                .ok()
                .filter(|time| (0.0..1e15).contains(time))
                .ok_or_else(|| format!("{time:?} is not a time: give nanoseconds, 0 or more"))?;
            Operation::Compute(Time::from_ns_f64(time))
        }
        ("send" | "isend", [to, bytes, tag]) => {
            Operation::Send { to: rank_of(to, ranks)?, bytes: bytes_of(bytes)?, tag: tag_of(tag)?, waits }
        }
        ("recv" | "irecv", [from, bytes, tag]) => Operation::Receive {
            from: if any(from) { ANY } else { rank_of(from, ranks)? },
            bytes: bytes_of(bytes)?,
            tag: if any(tag) { ANY } else { tag_of(tag)? },
            waits,
        },
        ("waitall", []) => Operation::WaitAll,
        ("barrier", []) => Operation::Barrier,
        ("allreduce", [bytes]) => {
            let length = bytes_of(bytes)?;
            if length % 8 != 0 {
                return Err(format!("an allreduce of {length} bytes: give a multiple of 8"));
            }
            Operation::Allreduce(length)
        }
        ("broadcast", [bytes]) => Operation::Broadcast(bytes_of(bytes)?),
        _ => {
            return Err(format!(
                "{operation:?} with {} arguments must be one of: compute NS, send|isend TO BYTES TAG, recv|irecv FROM BYTES TAG, \
                 waitall, barrier, allreduce BYTES, broadcast BYTES",
                arguments.len()
            ));
        }
    })
}

fn rank_of(text: &str, ranks: u32) -> Result<u32, String> {
    let rank = text.parse().ok().filter(|rank| *rank < ranks);
    rank.ok_or_else(|| format!("there is no rank {text}: the trace has ranks 0 to {}", ranks - 1))
}

fn in_range(text: &str, what: &str, least: u64, most: u64) -> Result<u64, String> {
    let value = text.parse().ok().filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| format!("{text:?} is not {what} from {least} to {most}"))
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
