// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notes for the user on how the ranks of a simulated job behaved.

use std::collections::BTreeSet;

#[derive(Default)]
pub(super) struct Notes {
    notes: Vec<String>,
    /// Ranks that ended well, without a line to the launcher and without a request to the simulator.
    strangers: BTreeSet<u32>,
}

impl Notes {
    pub fn add(&mut self, note: String) {
        self.notes.push(note);
    }

    pub fn add_stranger(&mut self, rank: u32) {
        self.strangers.insert(rank);
    }

    /// The note on a job of `ranks` ranks, none of which has used the library: there was nothing to simulate.
    pub fn on_strangers(&self, ranks: usize, program: &str) -> Option<String> {
        (ranks > 0 && self.strangers.len() == ranks).then(|| {
            format!(
                "no rank used the library: {program} ended without a call of MPI, OpenSHMEM, Portals or EXTOLL that Selvedge \
                 answers, so nothing was simulated; start a program that is linked to one of them (ldd shows its libraries)"
            )
        })
    }

    /// All notes on a job of `ranks` ranks.
    pub fn of_job(&self, ranks: usize, program: &str) -> Vec<String> {
        let of_rank = |rank: &u32| format!("rank {rank} ended without having called the library");
        let strangers = match self.on_strangers(ranks, program) {
            Some(note) => vec![note],
            None => self.strangers.iter().map(of_rank).collect(),
        };
        self.notes.iter().cloned().chain(strangers).collect()
    }
}

/// Prints a line for the user at once.
pub(super) fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "selvedge sim: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_strangers_gets_one_note_and_others_one_for_each() {
        let mut notes = Notes::default();
        notes.add("first".to_owned());
        notes.add_stranger(1);
        assert_eq!(notes.of_job(2, "p"), ["first", "rank 1 ended without having called the library"]);
        assert!(notes.on_strangers(2, "p").is_none() && Notes::default().on_strangers(0, "p").is_none());
        notes.add_stranger(0);
        let all = notes.of_job(2, "/bin/true");
        assert!(all.len() == 2 && all[1].contains("/bin/true ended without a call"), "{all:?}");
    }
}
