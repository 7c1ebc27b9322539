// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of many programs at one NIC, and mailboxes that become full (seed 002, chapter 6).
//!
//! `commands`: the first half of the ranks sends VELO messages to the second half at full speed. With several ranks on
//! a node they contend for the queue of its NIC. The report of the run shows the effect of the host interface.
//!
//! `crossfire`: the two ranks of a pair send each other all their messages before they receive. If a full mailbox
//! blocks its NIC, and a full command queue stalls its writers, both are stuck for ever (figure 6-7).

use super::parameter::{whole, word};
use super::payload::{is_payload_of, payload_of, seed};
use super::{BuiltIn, Prepared, ProgramError, Setting};
use crate::machine::FullMailbox;
use crate::program::{Needs, Process};
use crate::time::Time;

pub(super) const COMMANDS: BuiltIn = BuiltIn {
    name: "commands",
    about: "commands of all ranks of a node at its NIC at once, through its host interface (seed 002, chapter 6)",
    over: "rank",
    ranks_min: 2,
    parameters: &[
        whole("bytes", "8", 1, "bytes of a message"),
        whole("count", "200", 1, "messages of each rank of the first half"),
        whole("pause-ns", "0", 0, "computing between two messages"),
    ],
    make: make_commands,
};

pub(super) const CROSSFIRE: BuiltIn = BuiltIn {
    name: "crossfire",
    about: "pairs of ranks that send to each other before they receive: full mailboxes (seed 002, figure 6-7)",
    over: "rank",
    ranks_min: 2,
    parameters: &[
        whole("bytes", "8", 1, "bytes of a message"),
        whole("count", "4K", 1, "messages of each rank"),
        word(
            "refused",
            &["wait", "receive"],
            "wait",
            "wait: the library retries until a message is sent; receive: the program receives when one is refused",
        ),
    ],
    make: make_crossfire,
};

fn prepared<F: Future<Output = i32> + 'static>(
    setting: &Setting<'_>,
    body: impl Fn(Process) -> F + Send + Sync + 'static,
) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    if setting.ranks % 2 != 0 {
        let needed = "an even number of ranks".to_owned();
        return Err(ProgramError::BadSize { program: arguments.program(), needed, ranks: setting.ranks });
    }
    let most = setting.machine.limits.velo_bytes.unwrap_or(selvedge_nic::limits::VELO_BYTES_MAX);
    if arguments.whole("bytes") > u64::from(most) {
        return Err(arguments.refuse("bytes", format!("at most {most}, the longest VELO message of this machine")));
    }
    let needs = Needs { receives: 16, unexpected: 16, units: true, ..Needs::default() };
    Ok(Prepared::new(needs, body))
}

const TAG_BARRIER: u32 = 0;

fn make_commands(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    let (bytes, count) = (arguments.whole("bytes"), arguments.whole("count"));
    let pause = Time::from_ns(arguments.whole("pause-ns"));
    prepared(setting, move |process| commands(process, bytes, count, pause))
}

async fn commands(process: Process, bytes: u64, count: u64, pause: Time) -> i32 {
    let (rank, half) = (process.rank(), process.size() / 2);
    process.barrier(TAG_BARRIER).await;
    if rank >= half {
        return receive_all(&process, rank - half, bytes, count).await;
    }
    let (mut inside, mut longest) = (Time::ZERO, Time::ZERO);
    let start = process.now();
    for number in 0..count {
        let data = payload_of(seed(&[rank.into(), number]), bytes);
        let called = process.now();
        process.velo_send(rank + half, 0, number as u8, &data).await;
        let call = process.now() - called;
        inside += call;
        longest = longest.max(call);
        process.compute(pause).await;
    }
    let time = process.now() - start;
    process.record("mean time of a call, ns", rank.into(), (inside / count).as_ns_f64());
    process.record("longest call, ns", rank.into(), longest.as_ns_f64());
    process.record("messages, 1e6/s", rank.into(), count as f64 / time.as_us_f64().max(f64::MIN_POSITIVE));
    0
}

async fn receive_all(process: &Process, from: u32, bytes: u64, count: u64) -> i32 {
    for number in 0..count {
        let message = process.velo_receive().await;
        if !is_message(&message, (from, number), bytes) {
            return process.wrong(format!("message {number} of rank {from} has wrong bytes"));
        }
    }
    0
}

fn is_message((_, tag, data): &(u8, u8, Vec<u8>), (from, number): (u32, u64), bytes: u64) -> bool {
    *tag == number as u8 && is_payload_of(seed(&[from.into(), number]), bytes, data)
}

fn make_crossfire(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    let (bytes, count) = (arguments.whole("bytes"), arguments.whole("count"));
    let receives = arguments.word("refused") == "receive";
    prepared(setting, move |process| crossfire(process, bytes, count, receives))
}

struct Received {
    from: u32,
    bytes: u64,
    count: u64,
    loses: bool,
    taken: u64,
    /// Number of the next message, if none is lost.
    next: u64,
}

impl Received {
    /// Takes a message. False: it is not one that may come now.
    fn take(&mut self, message: &(u8, u8, Vec<u8>)) -> bool {
        let most = if self.loses { self.count } else { self.next + 1 };
        let found = (self.next..most).find(|number| is_message(message, (self.from, *number), self.bytes));
        self.taken += 1;
        self.next = found.map_or(self.next, |number| number + 1);
        found.is_some()
    }
}

async fn crossfire(process: Process, bytes: u64, count: u64, receives: bool) -> i32 {
    const WRONG: &str = "a message has wrong bytes";
    let (rank, partner) = (process.rank(), process.rank() ^ 1);
    let loses = process.machine().nic.full_mailbox == FullMailbox::Drop;
    let mut received = Received { from: partner, bytes, count, loses, taken: 0, next: 0 };
    process.barrier(TAG_BARRIER).await;
    let start = process.now();
    for number in 0..count {
        let data = payload_of(seed(&[rank.into(), number]), bytes);
        if !receives {
            process.velo_send(partner, 0, number as u8, &data).await;
            continue;
        }
        while !process.velo_try_send(partner, 0, number as u8, &data).await {
            match process.velo_probe() {
                Some(message) if received.take(&message) => {}
                Some(_) => return process.wrong(WRONG),
                None => process.poll().await,
            }
        }
    }
    if loses {
        process.barrier(TAG_BARRIER).await;
        while let Some(message) = process.velo_probe() {
            if !received.take(&message) {
                return process.wrong(WRONG);
            }
        }
    }
    while !loses && received.taken < count {
        let message = process.velo_receive().await;
        if !received.take(&message) {
            return process.wrong(WRONG);
        }
    }
    let time = process.now() - start;
    process.record("messages, 1e6/s", rank.into(), received.taken as f64 / time.as_us_f64().max(f64::MIN_POSITIVE));
    process.record("messages lost", rank.into(), (count - received.taken) as f64);
    0
}
