// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Process ids of a trace (nid << 32 | pid, or a rank) in the RTL's 32 bits: the number of the host in the order of the
//! trace, and the pid.
//!
//! Equal ids stay equal and different ones different, so matching gives the same results. A mask of ignored bits stays
//! the same, if it ignores all of the host or none of it.

use selvedge_nic::portals::EntrySpec;

use super::statistics::Statistics;

/// Hosts in the order of their appearance.
#[derive(Clone, Debug, Default)]
pub struct Ids {
    hosts: Vec<u32>,
}

/// Bits of a pid here; the rest is the host. libfabric's provider adds an endpoint number to its pid.
const PID_BITS: u32 = 20;
const LOW: u64 = (1 << PID_BITS) - 1;
const HOSTS: u64 = u32::MAX as u64 & !LOW;

impl Ids {
    /// Converts an id; `None` if the RTL has no room for it.
    pub fn id(&mut self, id: u64) -> Option<u64> {
        let (nid, pid) = ((id >> 32) as u32, id & u64::from(u32::MAX));
        let known = self.hosts.iter().position(|&host| host == nid);
        let number = known.unwrap_or_else(|| {
            self.hosts.push(nid);
            self.hosts.len() - 1
        });
        ((number as u64) << PID_BITS <= HOSTS && pid <= LOW).then_some((number as u64) << PID_BITS | pid)
    }

    /// Converts an id and its mask of ignored bits.
    pub fn pattern(&mut self, id: u64, ignored: u64) -> Option<(u64, u64)> {
        let host_ignored = match (ignored >> 32) as u32 {
            0 => 0,
            u32::MAX => HOSTS,
            _ => return None,
        };
        let mask = host_ignored | ignored & LOW;
        let id = id & !ignored;
        let id =
            if host_ignored == 0 { self.id(id)? } else { (id & u64::from(u32::MAX) <= LOW).then_some(id & LOW)? };
        Some((id, mask))
    }
}

impl Ids {
    /// Converts a spec to the ids and lengths of the RTL; `None` if it has no room for the ids.
    pub fn spec(&mut self, spec: &EntrySpec, statistics: &mut Statistics) -> Option<EntrySpec> {
        let (source, source_ignore) = self.pattern(spec.source, spec.source_ignore)?;
        let most = u64::from(u32::MAX);
        if spec.length > most {
            statistics.leave_out("bytes of entries above 4 GiB");
        }
        Some(EntrySpec { source, source_ignore, length: spec.length.min(most), ..*spec })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_ids_stay_different() {
        let mut ids = Ids::default();
        let of = |nid: u64, pid: u64| nid << 32 | pid;
        let all = [of(0xc0a8_0001, 1), of(0xc0a8_0001, 2), of(7, 1), 3];
        let mapped: Vec<u64> = all.iter().map(|&id| ids.id(id).unwrap()).collect();
        assert_eq!(mapped, [1, 2, 1 << 20 | 1, 2 << 20 | 3]);
        assert_eq!(ids.pattern(of(7, 9), u64::MAX), Some((0, u64::from(u32::MAX))));
        assert_eq!(ids.pattern(of(7, 9), u64::from(u32::MAX)), Some((1 << 20, LOW)));
        assert_eq!(ids.pattern(of(7, 9), 0), Some((1 << 20 | 9, 0)));
        assert_eq!(ids.pattern(of(7, 9), 1 << 40), None, "a part of the host");
        assert_eq!(ids.id(1 << 20), None, "a large pid");
    }
}
