// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Link addresses: the network address of a process of another host, and the token that proves the right to connect to
//! it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes of an address.
pub const ADDRESS_BYTES: usize = 26;

/// The address of a process. It belongs to that process alone: a later process at the same port has another token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkAddress {
    /// IPv6, or an IPv4-mapped address.
    ip: Ipv6Addr,
    port: u16,
    /// Random. A process that has it may connect.
    token: u64,
}

impl LinkAddress {
    pub fn new(socket: SocketAddr, token: u64) -> LinkAddress {
        let ip = match socket.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        LinkAddress { ip, port: socket.port(), token }
    }

    /// Returns an address for a process that does not listen. Only its token identifies it.
    pub fn nowhere(token: u64) -> LinkAddress {
        LinkAddress { ip: Ipv6Addr::UNSPECIFIED, port: 0, token }
    }

    /// Whether no process listens there.
    pub fn is_nowhere(&self) -> bool {
        self.port == 0
    }

    /// Returns the IP address and port at which the process listens.
    pub fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.ip.to_canonical(), self.port)
    }

    pub fn token(&self) -> u64 {
        self.token
    }

    pub(crate) fn with_token(self, token: u64) -> LinkAddress {
        LinkAddress { token, ..self }
    }

    /// Encodes IP, port (big-endian, as in IP) and token (little-endian).
    pub fn to_bytes(&self) -> [u8; ADDRESS_BYTES] {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..16].copy_from_slice(&self.ip.octets());
        bytes[16..18].copy_from_slice(&self.port.to_be_bytes());
        bytes[18..].copy_from_slice(&self.token.to_le_bytes());
        bytes
    }

    /// Decodes the result of [`LinkAddress::to_bytes`].
    pub fn from_bytes(bytes: &[u8; ADDRESS_BYTES]) -> LinkAddress {
        let (mut ip, mut token) = ([0; 16], [0; 8]);
        ip.copy_from_slice(&bytes[..16]);
        token.copy_from_slice(&bytes[18..]);
        let port = u16::from_be_bytes([bytes[16], bytes[17]]);
        LinkAddress { ip: ip.into(), port, token: u64::from_le_bytes(token) }
    }
}

/// Omits the token, because it is a secret.
impl fmt::Debug for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.socket())
    }
}

impl fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.socket())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_from_its_bytes() {
        for text in ["10.77.0.1:4711", "[fd00::1]:1"] {
            let address = LinkAddress::new(text.parse().expect("an address"), 0x0123_4567_89ab_cdef);
            assert_eq!(LinkAddress::from_bytes(&address.to_bytes()), address);
            assert_eq!(address.to_string(), text);
            assert!(!format!("{address:?}").contains("cdef"), "the token is not printed");
        }
        assert!(LinkAddress::from_bytes(&[0; ADDRESS_BYTES]).is_nowhere());
        assert_eq!(LinkAddress::from_bytes(&LinkAddress::nowhere(5).to_bytes()).token(), 5);
    }
}
