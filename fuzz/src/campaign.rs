// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Executions one after the other, each from its own seed, watched for panics and for endless loops.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time after which an execution counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// Duration and first seed of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    pub seconds: u64,
    pub seed: u64,
    /// Most executions; and fewest, however long they take.
    pub executions: u64,
    pub executions_min: u64,
}

/// A target of fuzzing.
pub trait Fuzz {
    fn execute(&mut self, source: &mut Source);
}

impl Campaign {
    /// Runs until the time or the executions are used up; returns the number of executions. Panics on failure.
    pub fn run(self, mut target: impl Fuzz) -> u64 {
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let watch = Watch::start();
        let mut seed = self.seed;
        for done in 0..self.executions {
            watch.seed.store(seed, Relaxed);
            watch.executions.store(done, Relaxed);
            let result = catch_unwind(AssertUnwindSafe(|| target.execute(&mut Source::new(seed))));
            if let Err(cause) = result {
                eprintln!("failed: run it again with --seed {seed} --executions 1");
                resume_unwind(cause);
            }
            if done + 1 >= self.executions_min && Instant::now() >= end {
                return done + 1;
            }
            seed = Source::new(seed).word();
        }
        self.executions
    }
}

/// Ends the process when an execution hangs.
struct Watch {
    seed: Arc<AtomicU64>,
    executions: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Watch {
    fn start() -> Watch {
        let watch = Watch { seed: Arc::default(), executions: Arc::default(), over: Arc::default() };
        let (seed, executions, over) = (watch.seed.clone(), watch.executions.clone(), watch.over.clone());
        std::thread::spawn(move || {
            let mut seen = (u64::MAX, Instant::now());
            while !over.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
                let now = executions.load(Relaxed);
                if now != seen.0 {
                    seen = (now, Instant::now());
                } else if seen.1.elapsed() > PATIENCE {
                    eprintln!("hangs: run it again with --seed {} --executions 1", seed.load(Relaxed));
                    std::process::abort();
                }
            }
        });
        watch
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

/// Numbers from a seed (SplitMix64).
pub struct Source(u64);

impl Source {
    pub fn new(seed: u64) -> Source {
        Source(seed)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit.max(1)
    }

    /// Returns true once in `count` times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Returns a word likely to cause errors: a limit, a small number, one bit, or anything.
    pub fn nasty(&mut self) -> u64 {
        let word = self.word();
        match word % 8 {
            0 => self.pick(&[0, 1, u64::MAX, u64::MAX - 1, 1 << 31, u64::from(u32::MAX), 1 << 63, u64::MAX >> 1]),
            1..=3 => (word >> 8) % 16,
            4 => 1 << ((word >> 8) % 64),
            5 => (word >> 8) % 100_000,
            // Two small halves: indices and statuses.
            6 => (((word >> 8) % 16) << 32) | ((word >> 16) % 16),
            _ => self.word(),
        }
    }

    pub fn nasty32(&mut self) -> u32 {
        let word = self.nasty();
        if word > u64::from(u32::MAX) { (word >> 32) as u32 } else { word as u32 }
    }
}
