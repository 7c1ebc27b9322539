// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hostile bytes for the conversation of two daemons: changed, cut, repeated and invented ones, to either side, with and
//! without a key. With a key, a side gives out only what the other one said, in order.

use selvedge_daemon::session::Session;
use selvedge_fabric_manager::HostId;

use crate::campaign::{Fuzz, Source};

const HOST: HostId = HostId(7);
const MESSAGE_BYTES_MAX: usize = 100_000;

pub struct Target;

/// One side, what it has said, and how much of that the other one has given out.
struct Side {
    session: Session,
    said: Vec<Vec<u8>>,
    heard: usize,
}

fn bytes(source: &mut Source, count: u64) -> Vec<u8> {
    let count = source.below(count);
    (0..count).map(|_| source.below(256) as u8).collect()
}

/// Changes bytes on their way.
fn disturb(source: &mut Source, mut sent: Vec<u8>) -> Vec<u8> {
    match source.below(8) {
        0 if !sent.is_empty() => {
            let at = source.below(sent.len() as u64) as usize;
            sent[at] ^= 1 << source.below(8);
        }
        1 => sent.truncate(source.below(sent.len() as u64 + 1) as usize),
        2 => sent.extend(sent.clone()),
        3 => sent = bytes(source, 200),
        4 => {
            let word = source.nasty32();
            let at = source.below(sent.len() as u64 + 1) as usize;
            sent.splice(at..at, word.to_le_bytes());
        }
        _ => {}
    }
    sent
}

impl Fuzz for Target {
    fn execute(&mut self, source: &mut Source) {
        let key = source.one_in(2).then_some([9; 32]);
        let request = bytes(source, 300);
        let mut nonce = [0; 32];
        nonce.fill_with(|| source.below(256) as u8);
        let asks = Session::ask(key, HOST, nonce, &request, MESSAGE_BYTES_MAX);
        let answers = Session::answer(key, HOST, [2; 32], MESSAGE_BYTES_MAX);
        let mut sides = [
            Side { session: asks, said: vec![request], heard: 0 },
            Side { session: answers, said: Vec::new(), heard: 0 },
        ];
        let mut is_greeted = false;
        for _ in 0..source.below(12) {
            let from = source.below(2) as usize;
            // The side that answers speaks once it was greeted, as the daemon does.
            if is_greeted && source.one_in(3) {
                let count = source.pick(&[0, 10, 40_000]);
                let message = vec![source.below(256) as u8; count];
                sides[from].session.send(&message);
                sides[from].said.push(message);
            }
            let sent = std::mem::take(&mut sides[from].session.outbox);
            let sent = disturb(source, sent);
            let heard = sides[1 - from].session.take(&sent);
            let Ok(messages) = heard else { return };
            is_greeted |= from == 0 && !sent.is_empty() && !messages.is_empty();
            for message in messages {
                assert!(message.len() <= MESSAGE_BYTES_MAX);
                let next = sides[from].said.get(sides[from].heard);
                sides[from].heard += 1;
                assert!(key.is_none() || next == Some(&message), "a message that no holder of the key has said");
            }
        }
    }
}
