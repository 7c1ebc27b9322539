// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers of groups in a job. The first member of a group chooses the number, from its own range.
//!
//! Invariants
//! 1. No two processes of a job choose the same number.
//! 2. A process does not choose the number of a group that it is still a member of. It is never a member of two groups
//!    of a job with the same number.
//! 3. A process chooses each of its numbers once before it chooses one again. So slow members have left a group long
//!    before its number is reused.
//!
//! Cost: O(log groups).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use selvedge_os::sync::IgnorePoison;

/// Number of group numbers in a job.
const NUMBERS: u64 = 1 << 32;

/// Numbers in use by this process, by job.
static USED: Mutex<BTreeMap<u32, Numbers>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Numbers {
    next: u64,
    open: BTreeSet<u32>,
}

impl Numbers {
    /// Takes a number of this process, one of `processes`. `None`: none is free.
    fn take(&mut self, process: u64, processes: u64) -> Option<u32> {
        let each = if process < processes { NUMBERS / processes } else { 0 };
        // Try one more number than are in use.
        for _ in 0..each.min(self.open.len() as u64 + 1) {
            let serial = self.next % each;
            self.next = serial + 1;
            let number = u32::try_from(process.checked_mul(each)?.checked_add(serial)?).ok()?;
            if self.open.insert(number) {
                return Some(number);
            }
        }
        None
    }
}

/// The number of a group that this process is a member of. Dropping it frees the number.
#[derive(Debug)]
pub struct GroupNumber {
    job: u32,
    number: u32,
}

impl GroupNumber {
    /// Takes a number for a group whose first member is this process. `None`: all are in use.
    pub fn take(job: u32, process: u64, processes: u64) -> Option<GroupNumber> {
        with(job, |used| used.take(process, processes)).map(|number| GroupNumber { job, number })
    }

    /// Claims the number that the first member has chosen. `None`: this process is a member of such a group of the job.
    pub fn claim(job: u32, number: u32) -> Option<GroupNumber> {
        with(job, |used| used.open.insert(number)).then_some(GroupNumber { job, number })
    }

    pub fn get(&self) -> u32 {
        self.number
    }
}

impl Drop for GroupNumber {
    fn drop(&mut self) {
        with(self.job, |used| used.open.remove(&self.number));
    }
}

fn with<T>(job: u32, work: impl FnOnce(&mut Numbers) -> T) -> T {
    work(USED.lock().ignore_poison().entry(job).or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Numbers {
        Numbers::default()
    }

    #[test]
    fn a_number_in_use_is_passed_over_and_one_that_is_free_comes_again() {
        // Four numbers for each process.
        let processes = NUMBERS / 4;
        let mut numbers = numbers();
        let taken: Vec<_> = (0..5).map(|_| numbers.take(2, processes)).collect();
        assert_eq!(taken, [Some(8), Some(9), Some(10), Some(11), None]);
        numbers.open.remove(&10);
        assert_eq!(numbers.take(2, processes), Some(10));
        for free in [8, 11] {
            numbers.open.remove(&free);
        }
        assert_eq!([numbers.take(2, processes), numbers.take(2, processes)], [Some(11), Some(8)]);
    }

    #[test]
    fn processes_have_numbers_of_their_own() {
        for processes in [1, 3, 1000, NUMBERS] {
            let last = numbers().take(processes - 1, processes).expect("a number");
            let first = numbers().take(0, processes).expect("a number");
            assert!(processes == 1 || u64::from(last) >= NUMBERS / processes && first == 0);
        }
        assert_eq!(numbers().take(0, NUMBERS + 1), None);
        assert_eq!(numbers().take(3, 3), None, "a process outside of the job");
    }

    #[test]
    fn a_claimed_number_is_claimed_once_until_it_is_dropped() {
        let claimed = GroupNumber::claim(1, u32::MAX).expect("the number is free");
        assert!(GroupNumber::claim(1, u32::MAX).is_none());
        assert!(GroupNumber::claim(2, u32::MAX).is_some(), "another job has numbers of its own");
        drop(claimed);
        assert!(GroupNumber::claim(1, u32::MAX).is_some());
    }
}
