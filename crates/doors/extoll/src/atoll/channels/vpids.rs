// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VPIDs of host ports: two for each. One of them is open at a time.

/// Host ports of a node, as on the chip.
pub const HOST_PORTS: u8 = 4;
/// The VPIDs of a host port: the highest of the node, because other libraries open the lowest.
pub(super) fn vpids_of(number: u8, vpids: u16) -> Option<[u16; 2]> {
    let first = vpids.checked_sub(1 + u16::from(number))?;
    Some([first, first.checked_sub(HOST_PORTS.into())?])
}

/// The host port of a VPID. `None`: it is not a host port's.
pub(super) fn number_of(vpid: u16, vpids: u16) -> Option<u8> {
    (0..HOST_PORTS).find(|number| vpids_of(*number, vpids).is_some_and(|own| own.contains(&vpid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_port_has_two_vpids_of_its_own() {
        let all: std::collections::BTreeSet<u16> =
            (0..HOST_PORTS).flat_map(|number| vpids_of(number, 16).expect("two")).collect();
        assert_eq!(all, (8..16).collect());
        for number in 0..HOST_PORTS {
            assert!(vpids_of(number, 16).expect("two").iter().all(|vpid| number_of(*vpid, 16) == Some(number)));
        }
        assert_eq!((number_of(7, 16), vpids_of(3, 7)), (None, None));
    }
}
