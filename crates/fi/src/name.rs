// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names that programs agree on before they run: a node and a service (fi_getinfo(3)).
//!
//! The node is this machine, by any of its names or addresses. The service is a number, like a port. An endpoint that
//! is opened with such a name as its source is bound to the number ([`bind`]). A name that is inserted into an
//! address vector becomes the address of the endpoint that is bound to it ([`resolve`]), so that endpoint must
//! exist by then.

use std::ffi::{CStr, c_char, c_int};
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use selvedge_job::{Service, ServiceError};

use crate::constants::*;
use crate::objects::address::Address;
use crate::warn_line;
use selvedge_transport::Transport;

/// The name from a program's strings; null: this machine, and any number.
///
/// # Safety
/// Both are C strings, or null.
pub unsafe fn of(node: *const c_char, service: *const c_char, is_numeric: bool) -> Result<Address, String> {
    let [node, service] = [node, service].map(|text| match text.is_null() {
        true => None,
        // SAFETY: it is a C string, by this function's contract, since it is not null.
        false => Some(unsafe { CStr::from_ptr(text) }.to_string_lossy()),
    });
    if let Some(node) = node {
        let addresses = match is_numeric {
            true => vec![node.parse().map_err(|_| format!("node {node} is not an address in digits"))?],
            false => addresses_of(&node)?,
        };
        if !addresses.into_iter().any(is_own) {
            return Err(format!(
                "node {node} is another machine; this provider's endpoints are processes of one machine"
            ));
        }
    }
    let service = match service {
        Some(text) => text.parse().map_err(|_| format!("service {text} is not a number from 0 to {}", u16::MAX))?,
        None => 0,
    };
    Ok(Address::of_service(service))
}

fn addresses_of(node: &str) -> Result<Vec<IpAddr>, String> {
    let found = (node, 0).to_socket_addrs().map_err(|error| format!("node {node}: {error}"))?;
    Ok(found.map(|address| address.ip()).collect())
}

/// Whether packets to this address come back to this machine. Then a socket can be bound to it.
fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Binds an endpoint to its source name; `None`: it needs none. `Err`: a libfabric error.
pub fn bind(transport: &Transport, endpoint: u16, name: &Address) -> Result<Option<Service>, c_int> {
    let Some(service) = name.service().map_err(|why| {
        warn_line!("an endpoint cannot have this source address: {why}");
        EADDRNOTAVAIL
    })?
    else {
        return Ok(None);
    };
    let address = Address::of(transport, endpoint);
    transport.directory.bind_service(service, &address.to_words()).map(Some).map_err(|error| {
        warn_line!("{error}");
        if matches!(error, ServiceError::InUse { .. }) { EADDRINUSE } else { EIO }
    })
}

/// The endpoint that is bound to a name; other addresses stay as they are. `Err`: why there is none.
pub fn resolve(transport: &Transport, address: Address) -> Result<Address, String> {
    if !address.is_name() {
        return Ok(address);
    }
    let Some(service) = address.service()? else { return Err("it names no service".into()) };
    let words = transport.directory.service(service);
    words.as_deref().and_then(Address::from_words).ok_or_else(|| {
        format!("no endpoint has service {service} yet: open the endpoint that has it as its source address first")
    })
}
