// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the inputs and outputs of units, to run the same commands through a netlist (rtl/flow/power.py).
//!
//! If `SELVEDGE_RTL_PORTS` names a folder, each [`Unit`](crate::Unit) writes a file there when it is dropped:
//! `NAME.N.ports`, where N counts the units of this process. A reset restarts the record. Registers without a reset
//! then start at 0, so that meaningless fields of answers are equal in each run. Words of 32 bits, little-endian:
//!
//! ```text
//! file    "PTRS", words of a command, of an answer, of outside_i; then events
//! event   kind (1 command, 2 answer, 3 outside_i changes), cycle (of a command: the first in which it was offered), the port's words
//! ```
//!
//! Commands are in the order of acceptance, answers in the order of their cycles. Costs: the memory of all events.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

const MAGIC: u32 = u32::from_le_bytes(*b"PTRS");
/// The variable that names the folder.
pub const FOLDER: &str = "SELVEDGE_RTL_PORTS";

const COMMAND: u32 = 1;
const ANSWER: u32 = 2;
const OUTSIDE: u32 = 3;

static UNITS: AtomicUsize = AtomicUsize::new(0);

/// The events of a unit since its reset.
pub struct Ports {
    path: PathBuf,
    sizes: [u32; 3],
    events: Vec<u32>,
    last_outside: Vec<u32>,
}

impl Ports {
    /// Creates a unit's record, with the words of its commands, answers and `outside_i`. `None`: recording is off.
    pub fn new(unit: &str, sizes: [usize; 3]) -> Option<Ports> {
        let folder = PathBuf::from(std::env::var_os(FOLDER).filter(|folder| !folder.is_empty())?);
        let path = folder.join(format!("{unit}.{}.ports", UNITS.fetch_add(1, Ordering::Relaxed)));
        Some(Ports { path, sizes: sizes.map(|size| size as u32), events: Vec::new(), last_outside: Vec::new() })
    }

    pub fn reset(&mut self) {
        self.events.clear();
        if !self.last_outside.is_empty() {
            let words = std::mem::take(&mut self.last_outside);
            self.outside(0, &words);
        }
    }

    /// Records that `outside_i` has these words from this cycle on.
    pub fn outside(&mut self, cycle: u32, words: &[u32]) {
        if self.last_outside != words {
            self.last_outside = words.to_vec();
            self.event(OUTSIDE, cycle, words);
        }
    }

    /// Records a run: commands with their cycles of acceptance, and answers.
    pub fn run<'a>(
        &mut self,
        began: u32,
        commands: impl Iterator<Item = (&'a [u32], u32)>,
        answers: impl Iterator<Item = (u32, &'a [u32])>,
    ) {
        let mut offered = began;
        for (words, accepted) in commands {
            self.event(COMMAND, offered, words);
            offered = accepted.wrapping_add(1);
        }
        answers.for_each(|(cycle, words)| self.event(ANSWER, cycle, words));
    }

    fn event(&mut self, kind: u32, cycle: u32, words: &[u32]) {
        assert_eq!(words.len(), self.sizes[kind as usize - 1] as usize, "words of a port");
        self.events.extend([kind, cycle]);
        self.events.extend(words);
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        let head = [MAGIC].into_iter().chain(self.sizes);
        let bytes: Vec<u8> = head.chain(self.events.iter().copied()).flat_map(u32::to_le_bytes).collect();
        if let Err(error) = std::fs::write(&self.path, bytes) {
            eprintln!("selvedge rtl: {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_since_the_last_reset() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ports");
        let mut ports = Ports { path: path.clone(), sizes: [2, 1, 1], events: Vec::new(), last_outside: Vec::new() };
        ports.run(0, [([7, 7].as_slice(), 3)].into_iter(), std::iter::empty());
        ports.outside(9, &[5]);
        ports.reset();
        ports.outside(4, &[5]);
        ports.run(
            10,
            [([1, 2].as_slice(), 12), ([3, 4].as_slice(), 13)].into_iter(),
            [(15, [8].as_slice())].into_iter(),
        );
        drop(ports);
        let bytes = std::fs::read(path).expect("the file");
        let words: Vec<u32> =
            bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes"))).collect();
        let events = [3, 0, 5, 1, 10, 1, 2, 1, 13, 3, 4, 2, 15, 8];
        assert_eq!(words, [&[MAGIC, 2, 1, 1][..], &events].concat());
    }
}
