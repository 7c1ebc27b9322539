// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The identity of this host: its number, its boot, its name, the address that the number gives.
use std::net::Ipv4Addr;
use std::time::{SystemTime, UNIX_EPOCH};

use selvedge_fabric_manager::{Boot, HostId};

/// The number of this host: a hash of its machine id and its name. Clones of one disk have one machine id, and need
/// two names in any case.
pub fn host_id(machine_id: &str, name: &str) -> HostId {
    let mut hasher = blake3::Hasher::new_derive_key("selvedge daemon: number of a host, 1");
    hasher.update(machine_id.trim().as_bytes()).update(&[0]).update(name.as_bytes());
    HostId(word(&hasher).max(1))
}

/// The machine id of systemd; empty where there is none.
pub fn machine_id() -> String {
    let read = |path| std::fs::read_to_string(path).ok().filter(|id: &String| !id.trim().is_empty());
    read("/etc/machine-id").or_else(|| read("/var/lib/dbus/machine-id")).unwrap_or_default()
}

pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64)
}

/// The number of this start: the time, so it grows.
pub fn boot(wall_ns: u64) -> Boot {
    Boot(wall_ns.max(1))
}

/// An address within 10.0.0.0/8 that the number gives, outside of this host's networks: the first that fits.
pub fn address(host: HostId, networks: &[(Ipv4Addr, u8)]) -> Ipv4Addr {
    let nth = |number: u8| {
        let mut hasher = blake3::Hasher::new_derive_key("selvedge daemon: address of a host, 1");
        hasher.update(&host.0.to_le_bytes()).update(&[number]);
        let [a, b, c, ..] = word(&hasher).to_le_bytes();
        Ipv4Addr::new(10, a, b, c.clamp(1, 254))
    };
    let is_free = |address: &Ipv4Addr| !networks.iter().any(|&(network, bits)| is_within(*address, network, bits));
    (0..64).map(nth).find(is_free).unwrap_or_else(|| nth(0))
}

fn is_within(address: Ipv4Addr, network: Ipv4Addr, bits: u8) -> bool {
    let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
    u32::from(address) & mask == u32::from(network) & mask
}

fn word(hasher: &blake3::Hasher) -> u64 {
    hasher.finalize().as_bytes()[..8].iter().fold(0, |all, &byte| all << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_by_machine_and_by_name() {
        let host = host_id("a\n", "x");
        assert_eq!(host, host_id("a", "x"));
        assert_ne!(host, host_id("a", "y"));
        assert_ne!(host, host_id("b", "x"));
    }

    #[test]
    fn addresses_avoid_the_hosts_networks() {
        let host = host_id("a", "x");
        let first = address(host, &[]);
        assert_eq!(first.octets()[0], 10);
        assert_eq!(first, address(host, &[(Ipv4Addr::new(192, 168, 0, 1), 16)]));
        let [_, a, ..] = first.octets();
        let other = address(host, &[(Ipv4Addr::new(10, a, 0, 1), 16)]);
        assert_ne!(other.octets()[1], a);
        assert_eq!(first, address(host, &[(Ipv4Addr::new(10, 0, 0, 1), 8)]), "no address is free");
    }

    #[test]
    fn networks_of_all_lengths() {
        let address = Ipv4Addr::new(10, 1, 2, 3);
        assert!(is_within(address, Ipv4Addr::new(99, 0, 0, 0), 0));
        assert!(is_within(address, address, 32));
        assert!(!is_within(address, Ipv4Addr::new(10, 1, 2, 2), 32));
        assert!(is_within(address, Ipv4Addr::new(10, 1, 2, 2), 31));
    }
}
