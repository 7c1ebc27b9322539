// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC whose memory a hostile process writes to between operations; and segments' files of any content.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use selvedge_host::segment::{Owner, Segment};
use selvedge_nic::Limits;
use selvedge_os::process::Identity;
use tempfile::TempDir;

use crate::campaign::{Fuzz, Source};
use crate::home::{Home, TINY, TestBus};
use crate::program::Program;

pub struct Target {
    directory: TempDir,
}

const LIMITS: Limits = Limits { counters: 3, queues: 2, portals: 3, ..TINY };

impl Target {
    pub fn new() -> Target {
        Target { directory: TempDir::new().expect("a directory") }
    }

    fn in_memory(source: &mut Source) {
        let mut home = Home::new(&LIMITS);
        let mut bus = TestBus::default();
        let mut program = Program { lies_about_vectors: source.one_in(4), ..Program::default() };
        for _ in 0..2 {
            let _ = home.nic().portal_table().alloc(None, source.word() as u32, source.below(2) as u32);
        }
        for _ in 0..source.below(60) {
            program.step(&mut home.nic(), &mut bus, source);
        }
        for _ in 0..1 + source.below(10) {
            for _ in 0..1 + source.below(6) {
                let words = home.words();
                let at = source.below(words.len() as u64) as usize;
                spoil(&mut words[at], source);
            }
            for _ in 0..source.below(20) {
                program.step(&mut home.nic(), &mut bus, source);
            }
        }
        bus.calls = 0;
        home.nic().recover(&mut bus, |word| word % 2 == 0);
        for _ in 0..source.below(40) {
            program.step(&mut home.nic(), &mut bus, source);
        }
    }

    /// Tests a NIC in a file, like a peer's segment.
    fn in_file(&self, source: &mut Source) {
        let path = self.directory.path().join("1.0.nic");
        let bytes = self.make(&path);
        let file = std::fs::File::options().write(true).open(&path).expect("the segment's file");
        for _ in 0..1 + source.below(12) {
            let at = if source.one_in(2) { source.below(64) } else { source.below(bytes / 8) };
            let word = source.nasty();
            file.write_at(&word.to_le_bytes()[..1 + source.below(8) as usize], at * 8).expect("a write");
        }
        if source.one_in(8) {
            file.set_len(source.below(bytes + 4096)).expect("another size");
        }
        let Ok(segment) = Segment::open(&path) else { return };
        assert!(segment.limits().are_sane());
        let own = Identity::own().to_word();
        if Identity::word_is_alive(segment.header().lock.word.load(Relaxed)) {
            segment.header().lock.word.store(0, Relaxed);
        }
        let mut bus = TestBus::default();
        let mut program = Program::default();
        for _ in 0..source.below(40) {
            program.step(&mut segment.lock(own), &mut bus, source);
            let _ = segment.heap_at(source.nasty32());
            let _ = segment.signals().take_event(source.nasty32());
        }
        segment.lock(own).recover(&mut bus, |_| false);
    }

    fn make(&self, path: &Path) -> u64 {
        let own = Identity::own();
        let owner = Owner { id: 1, ni: 0, pid: own.pid, uid: 0, start: own.start, host_mode: false, rank: 0, token: 0 };
        let segment = Segment::create(path, &LIMITS, &owner).expect("a segment");
        segment.layout().initial_bytes()
    }
}

fn spoil(word: &mut u64, source: &mut Source) {
    *word = match source.below(6) {
        0 => *word ^ 1 << source.below(64),
        1 => word.wrapping_add(source.below(5)).wrapping_sub(2),
        2 => *word & !0xffff_ffff | u64::from(source.nasty32()),
        3 => *word & 0xffff_ffff | u64::from(source.nasty32()) << 32,
        _ => source.nasty(),
    };
}

impl Fuzz for Target {
    fn execute(&mut self, source: &mut Source) {
        if source.one_in(16) {
            self.in_file(source);
        } else {
            Target::in_memory(source);
        }
    }
}
