// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attempts to log in: bounded for each address, and in all.
//!
//! # Invariants
//!
//! 1. An address has [`PER_ADDRESS`] attempts, and gets one back each [`ADDRESS_REFILL_MS`]. All have [`IN_ALL`], and get
//!    one back each [`ALL_REFILL_MS`]. An attempt that succeeds counts for nothing.
//! 2. An address from which somebody has logged in is not held up by the attempts of others.
//! 3. The table holds at most those addresses that the limit of all lets through while one refills: some hundred.
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const PER_ADDRESS: f64 = 5.0;
const ADDRESS_REFILL_MS: f64 = 30_000.0;
const IN_ALL: f64 = 30.0;
const ALL_REFILL_MS: f64 = 2_000.0;
const KNOWN_MAX: usize = 64;
/// Above this the addresses that have all their attempts are forgotten.
const ADDRESSES_KEPT: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at_ms: u64,
}

impl Bucket {
    fn refilled(self, now_ms: u64, most: f64, refill_ms: f64) -> Bucket {
        let more = now_ms.saturating_sub(self.at_ms) as f64 / refill_ms;
        Bucket { left: (self.left + more).min(most), at_ms: now_ms }
    }

    /// Seconds until there is an attempt.
    fn wait_s(self, refill_ms: f64) -> u64 {
        ((1.0 - self.left).max(0.0) * refill_ms / 1000.0).ceil() as u64
    }
}

/// Attempts to log in of one kind of users: those at browsers, or programs.
#[derive(Debug)]
pub struct Attempts {
    all: Bucket,
    by_address: BTreeMap<IpAddr, Bucket>,
    known: BTreeSet<IpAddr>,
}

impl Attempts {
    pub fn new(now_ms: u64) -> Attempts {
        let all = Bucket { left: IN_ALL, at_ms: now_ms };
        Attempts { all, by_address: BTreeMap::new(), known: BTreeSet::new() }
    }

    /// Takes an attempt, or gives the seconds after which there is one.
    pub fn take(&mut self, now_ms: u64, from: IpAddr) -> Result<(), u64> {
        let from = network(from);
        self.all = self.all.refilled(now_ms, IN_ALL, ALL_REFILL_MS);
        let full = Bucket { left: PER_ADDRESS, at_ms: now_ms };
        let own = self.by_address.get(&from).map_or(full, |b| b.refilled(now_ms, PER_ADDRESS, ADDRESS_REFILL_MS));
        let is_known = self.known.contains(&from);
        if own.left < 1.0 {
            return Err(own.wait_s(ADDRESS_REFILL_MS).max(1));
        }
        if self.all.left < 1.0 && !is_known {
            return Err(self.all.wait_s(ALL_REFILL_MS).max(1));
        }
        if self.by_address.len() >= ADDRESSES_KEPT {
            self.by_address.retain(|_, b| b.refilled(now_ms, PER_ADDRESS, ADDRESS_REFILL_MS).left < PER_ADDRESS);
        }
        self.by_address.insert(from, Bucket { left: own.left - 1.0, at_ms: now_ms });
        if !is_known {
            self.all.left -= 1.0;
        }
        Ok(())
    }

    /// Notes that the attempt was right.
    pub fn succeeded(&mut self, from: IpAddr) {
        let from = network(from);
        self.by_address.remove(&from);
        if !self.known.contains(&from) {
            self.all.left = (self.all.left + 1.0).min(IN_ALL);
            if self.known.len() < KNOWN_MAX {
                self.known.insert(from);
            }
        }
    }
}

/// One host can have all addresses of an IPv6 network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + last).into())
    }

    #[test]
    fn an_address_has_five_and_gets_them_back_slowly() {
        let mut attempts = Attempts::new(0);
        (0..5).for_each(|_| attempts.take(0, address(1)).unwrap());
        assert_eq!(attempts.take(0, address(1)), Err(30));
        assert_eq!(attempts.take(29_000, address(1)), Err(1));
        attempts.take(30_001, address(1)).unwrap();
        assert!(attempts.take(30_002, address(1)).is_err());
        attempts.take(30_002, address(2)).unwrap();
        attempts.succeeded(address(2));
        (0..5).for_each(|_| attempts.take(30_003, address(2)).unwrap());
    }

    #[test]
    fn many_addresses_share_a_limit_that_known_ones_do_not_feel() {
        let mut attempts = Attempts::new(0);
        attempts.take(0, address(9999)).unwrap();
        attempts.succeeded(address(9999));
        let through = (0..5000).filter(|&last| attempts.take(0, address(last)).is_ok()).count();
        assert_eq!(through, 30);
        assert!(attempts.take(0, address(7000)).is_err());
        attempts.take(0, address(9999)).unwrap();
        // An hour of it: the table stays small.
        for second in 0..3600 {
            for last in 0..20 {
                let _ = attempts.take(second * 1000, address(10_000 + second as u32 * 20 + last));
            }
        }
        assert!(attempts.by_address.len() <= ADDRESSES_KEPT, "{}", attempts.by_address.len());
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let mut attempts = Attempts::new(0);
        for last in 0..5 {
            attempts.take(0, format!("2001:db8::{last:x}").parse().unwrap()).unwrap();
        }
        assert!(attempts.take(0, "2001:db8::ffff".parse().unwrap()).is_err());
        attempts.take(0, "2001:db8:0:1::1".parse().unwrap()).unwrap();
        (0..5).for_each(|_| attempts.take(0, "10.0.0.1".parse().unwrap()).unwrap());
        assert!(attempts.take(0, "::ffff:10.0.0.1".parse().unwrap()).is_err());
    }
}
