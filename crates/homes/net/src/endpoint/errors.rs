// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of an endpoint.

use std::net::IpAddr;

use selvedge_libfabric::LoadError;

/// Reasons for which an endpoint was not opened.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error(
        "libfabric cannot be loaded: {0}. Install it (Debian: libfabric1) on every host; several hosts talk through it"
    )]
    Library(LoadError),
    #[error(
        "libfabric has no provider{} with reliable datagrams at address {node}; `fi_info -t FI_EP_RDM` lists those it \
         has, SELVEDGE_NET_PROVIDER chooses one, SELVEDGE_NET_INTERFACE the address{}", named(.wanted), hidden()
    )]
    NoProvider { wanted: Option<String>, node: IpAddr },
    #[error(
        "SELVEDGE_NET_PROVIDER=sockets: messages stop for good over libfabric's provider sockets, which it has \
         deprecated; set it to tcp;ofi_rxm, to tcp (libfabric 2), to verbs;ofi_rxm or another that `fi_info -t \
         FI_EP_RDM` lists, or unset it"
    )]
    Deprecated,
    #[error("libfabric's provider {provider} failed to {doing}: {why}")]
    Call { provider: String, doing: &'static str, why: String },
}

/// Reasons for which a frame or a read was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// There is no room now; the caller keeps the frame.
    Full,
    /// The program has unmapped the memory that is to be read to.
    Unmapped,
    /// The provider refuses it, with the reason.
    Broken(String),
}

/// Returns a note on the variable of libfabric that may hide the provider.
fn hidden() -> String {
    let given = std::env::var("FI_PROVIDER").ok().filter(|given| !given.is_empty());
    given.map_or(String::new(), |given| format!("; FI_PROVIDER={given} hides all others: add this one to it"))
}

fn named(provider: &Option<String>) -> String {
    provider.as_ref().map_or(String::new(), |name| format!(" {name}"))
}
