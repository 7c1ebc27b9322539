// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names that programs agree on before they run: a node and a service (fi_getinfo(3)).
//!
//! A node is a host, by any of its names or addresses. A service is a number, like a port. An endpoint opened with such
//! a name of this host as its source is bound to the number ([`bind`]). A name that is inserted into an address vector
//! becomes the address of the endpoint bound to it ([`find`], [`resolve`]), so that endpoint must exist by then.
//!
//! Processes of this host find the address in their user's directory. If a process has links to other hosts, those
//! hosts ask at the port of the number ([`selvedge_process::hosts`]), and get the address, which is the right to send
//! to it. With a job's secret only the job's processes get it. An endpoint opened with a loopback address as its node
//! is found on this host only.

use std::ffi::{CStr, c_char, c_int};
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use selvedge_job::{Service, ServiceError};

use crate::constants::*;
use crate::objects::address::Address;
use crate::warn_line;
use selvedge_messages::Transport;
use selvedge_process::hosts;

/// The name from a program's strings. Null: this machine, and any number.
///
/// # Safety
/// Both are C strings, or null.
pub unsafe fn of(node: *const c_char, service: *const c_char, is_numeric: bool) -> Result<Address, String> {
    let [node, service] = [node, service].map(|text| match text.is_null() {
        true => None,
        // SAFETY: it is a C string, by this function's contract, since it is not null.
        false => Some(unsafe { CStr::from_ptr(text) }.to_string_lossy()),
    });
    let service = match service {
        Some(text) => text.parse().map_err(|_| format!("service {text} is not a number from 0 to {}", u16::MAX))?,
        None => 0,
    };
    let Some(node) = node else { return Ok(Address::of_service(service, false)) };
    let addresses = match is_numeric {
        true => vec![node.parse().map_err(|_| format!("node {node} is not a numeric address"))?],
        false => addresses_of(&node)?,
    };
    if let Some(own) = addresses.iter().find(|&&address| is_own(address)) {
        return Ok(Address::of_service(service, own.is_loopback()));
    }
    match addresses.first() {
        Some(&elsewhere) if hosts::wanted_by_transports() => Ok(Address::of_service_at(elsewhere, service)),
        Some(_) => Err(format!("node {node} is another host, and this process has no links: set SELVEDGE_NET=on")),
        None => Err(format!("node {node} has no address")),
    }
}

fn addresses_of(node: &str) -> Result<Vec<IpAddr>, String> {
    let found = (node, 0).to_socket_addrs().map_err(|error| format!("node {node}: {error}"))?;
    Ok(found.map(|address| address.ip()).collect())
}

/// Whether packets to this address return to this machine. Only then can a socket be bound to it.
fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// The number that an endpoint is bound to, until this is dropped.
pub struct Bound {
    _here: Service,
    /// The listener for other hosts.
    _elsewhere: Option<selvedge_process::Service>,
}

/// Binds an endpoint to its source name. `None`: it needs none. `Err`: a libfabric error.
pub fn bind(transport: &Transport, endpoint: u16, name: &Address) -> Result<Option<Bound>, c_int> {
    let Some(service) = name.service().map_err(|why| {
        warn_line!("an endpoint cannot have this source address: {why}");
        EADDRNOTAVAIL
    })?
    else {
        return Ok(None);
    };
    let address = Address::of(transport, endpoint);
    let here = transport.directory.bind_service(service, &address.to_words()).map_err(|error| {
        warn_line!("{error}");
        if matches!(error, ServiceError::InUse { .. }) { EADDRINUSE } else { EIO }
    })?;
    let hosts = transport.hosts().filter(|_| !name.is_private());
    let elsewhere = hosts.and_then(|hosts| {
        let served = hosts.serve(service, &address.to_bytes());
        served.inspect_err(|error| warn_line!("other hosts will not find service {service}: {error}")).ok()
    });
    Ok(Some(Bound { _here: here, _elsewhere: elsewhere }))
}

/// Asks another host for the endpoint bound to a name. Returns other addresses and names unchanged. `Err`: the reason
/// why there is no endpoint. Waits, so no lock must be held.
pub fn find(address: Address) -> Result<Address, String> {
    let Some((node, service)) = address.elsewhere() else { return Ok(address) };
    if service == 0 {
        return Err("the name has no service".into());
    }
    let hosts = hosts::of_transports().ok_or("this process has no links to other hosts")?;
    let bytes = hosts.ask(node, service).map_err(|error| format!("service {service} of {node}: {error}"))?;
    Address::from_bytes(&bytes).ok_or_else(|| format!("service {service} of {node} is no endpoint of this provider"))
}

/// Finds the endpoint bound to a name of this host. Returns other addresses unchanged. `Err`: why there is none.
pub fn resolve(transport: &Transport, address: Address) -> Result<Address, String> {
    if !address.is_name() {
        return Ok(address);
    }
    let Some(service) = address.service()? else { return Err("the name has no service".into()) };
    let words = transport.directory.service(service);
    words.as_deref().and_then(Address::from_words).ok_or_else(|| {
        format!("no endpoint has service {service} yet; first open the endpoint that has it as its source address")
    })
}
