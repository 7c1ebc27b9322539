// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that issues arbitrary commands to its NIC: stale references, others' references, absurd sizes.
//!
//! The tables stay sane (except blocks of the heap, when it forges I/O vectors).

use crate::campaign::{Fuzz, Source};
use crate::home::{Home, TINY, TestBus};
use crate::program::Program;
use crate::sane;

pub struct Target;

impl Fuzz for Target {
    fn execute(&mut self, source: &mut Source) {
        let mut limits = TINY;
        (limits.counters, limits.queues, limits.portals) = (3, 2, 3);
        let mut home = Home::new(&limits);
        let mut bus = TestBus::default();
        let mut program = Program { lies_about_vectors: source.one_in(4), ..Program::default() };
        for _ in 0..2 {
            let _ = home.nic().portal_table().alloc(None, source.word() as u32, source.below(2) as u32);
        }
        for _ in 0..source.below(200) {
            program.step(&mut home.nic(), &mut bus, source);
            if !program.lies_about_vectors && source.one_in(16) {
                sane::assert_sane(&mut home.nic());
            }
        }
        if !program.lies_about_vectors {
            sane::assert_sane(&mut home.nic());
        }
    }
}
