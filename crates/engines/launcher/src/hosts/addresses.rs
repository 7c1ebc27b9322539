// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The addresses by which the hosts of a job reach each other.

use std::io;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use super::wire::Hello;

/// Whether a name is that of this host, so that its agent needs no remote shell.
pub(super) fn is_this_host(name: &str) -> bool {
    let own = rustix::system::uname();
    let own = own.nodename().to_string_lossy();
    name == "localhost" || name == own || own.split_once('.').is_some_and(|(short, _)| name == short)
}

/// Whether a name means this host here, and another one on other hosts.
pub(super) fn means_this_host(name: &str) -> bool {
    let bare = name.rsplit('@').next().unwrap_or_default();
    let is_loopback = bare.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    is_this_host(name) || is_loopback || bare.starts_with("localhost")
}

/// Reasons why other hosts cannot reach a host, in words that follow its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    #[error("its name has a loopback address only; name it by a name or address that all hosts know")]
    LoopbackOnly,
    #[error("its name has no address here ({error}); name it by a name or address that all hosts know")]
    Unresolved { error: String },
}

/// The address by which the parent reaches a host. `Ok(None)`: it is this one, or only a loopback address.
pub(super) type Reached = Result<Option<IpAddr>, AddressError>;

/// The addresses of the hosts for processes of others. Empty with one host. `Err`: the number of a host without one.
///
/// The address is that of the remote shell's connection, or that of the host's name. For the launcher's own host it is
/// the source address towards the others.
pub(super) fn addresses(reached: &[Reached]) -> Result<Vec<IpAddr>, (usize, AddressError)> {
    if reached.len() == 1 {
        return Ok(Vec::new());
    }
    let other = reached.iter().flatten().flatten().next().copied();
    let own = || address_towards(other?).ok().filter(is_usable);
    let each = reached.iter().enumerate().map(|(host, reached)| match reached {
        Ok(Some(address)) => Ok(*address),
        Ok(None) => own().ok_or((host, AddressError::LoopbackOnly)),
        Err(why) => Err((host, why.clone())),
    });
    each.collect()
}

/// Finds the address by which the launcher reaches a host: that of the remote shell's connection, or that of its name.
pub(super) fn reached(name: &str, hello: Option<&Hello>) -> Reached {
    if is_this_host(name) {
        return Ok(None);
    }
    let reached = hello.and_then(|hello| hello.reached).filter(is_usable);
    if reached.is_some() {
        return Ok(reached);
    }
    let name = name.rsplit('@').next().unwrap_or_default();
    let all = (name, 0).to_socket_addrs().map_err(|error| AddressError::Unresolved { error: error.to_string() })?;
    Ok(all.map(|address| address.ip()).find(is_usable))
}

fn is_usable(address: &IpAddr) -> bool {
    !address.is_loopback() && !address.is_unspecified()
}

/// This host's source address towards another. Nothing is sent.
pub(super) fn address_towards(other: IpAddr) -> io::Result<IpAddr> {
    let socket = UdpSocket::bind(if other.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect((other, 9))?;
    Ok(socket.local_addr()?.ip())
}
