// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Overlap of communication and computing.
//!
//! Rank 0 and the last rank exchange messages, first without computing (time c); then each computes for time c between
//! the start of the exchange and its wait (time t for both). The overlap is (2 c - t) / c: 100 % if the NIC needs no
//! help of the program, 0 if nothing moves without the program.

use super::parameter::{whole, wholes, word};
use super::payload::{fill, is_payload_of, seed};
use super::{BuiltIn, Prepared, ProgramError, Setting};
use crate::program::{Needs, Process};
use crate::time::Time;

pub(super) const OVERLAP: BuiltIn = BuiltIn {
    name: "overlap",
    about: "share of computing that hides behind an exchange of messages",
    over: "bytes",
    ranks_min: 2,
    parameters: &[
        wholes("sizes", "64,1K,8K,64K,512K", 0, "bytes of a message"),
        whole("iterations", "5", 1, "timed exchanges"),
        word("looks", &["none", "some"], "none", "some: the program polls its messages eight times while it computes"),
        whole("eager-bytes", "8K", 0, "messages up to this length are sent at once"),
    ],
    make,
};

/// Calls of the library while a rank computes.
const PROGRESS_CALLS: u64 = 8;

fn make(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    let (sizes, iterations) = (arguments.wholes("sizes"), arguments.whole("iterations"));
    let parts = if arguments.word("looks") == "some" { PROGRESS_CALLS } else { 1 };
    let eager_bytes_max = arguments.whole("eager-bytes");
    let needs = Needs { memory_bytes: 0, receives: 8, unexpected: 8, windows: 0, eager_bytes_max, ..Needs::default() };
    Ok(Prepared::new(needs, move |process| {
        let sizes = sizes.clone();
        async move {
            let last = process.size() - 1;
            let partner = match process.rank() {
                0 => last,
                rank if rank == last => 0,
                _ => return 0,
            };
            for bytes in sizes {
                let mut times = [Time::ZERO; 2];
                for with in 0..2 {
                    let compute = times[0] * with;
                    let start = process.now();
                    for round in 0..iterations {
                        if !exchange(&process, partner, bytes, round, compute, parts).await {
                            return 1;
                        }
                    }
                    times[with as usize] = (process.now() - start) / iterations;
                }
                if process.rank() == 0 {
                    let (alone, both) = (times[0].as_us_f64(), times[1].as_us_f64());
                    process.record("exchange alone, us", bytes as f64, alone);
                    process.record("exchange and computing, us", bytes as f64, both);
                    process.record("hidden, %", bytes as f64, (2.0 * alone - both) / alone * 100.0);
                }
            }
            0
        }
    }))
}

async fn exchange(process: &Process, partner: u32, bytes: u64, round: u64, compute: Time, parts: u64) -> bool {
    let mut data = vec![0; bytes as usize];
    fill(seed(&[process.rank().into(), round, bytes]), &mut data);
    let receive = process.irecv(partner, 0, bytes);
    let send = process.isend(partner, 0, &data).await;
    let mut done = None;
    for _ in 0..parts {
        process.compute(compute / parts).await;
        if parts > 1 && done.is_none() {
            done = process.done_of(&[receive]).await.map(|(_, message)| message);
        }
    }
    let message = match done {
        Some(message) => message,
        None => process.wait(receive).await,
    };
    process.wait(send).await;
    if message.is_some_and(|message| is_payload_of(seed(&[partner.into(), round, bytes]), bytes, &message.bytes)) {
        return true;
    }
    process.wrong(format!("exchange {round} of {bytes} bytes delivered wrong bytes"));
    false
}
