// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The choice of libfabric's provider for links: the first with reliable datagrams that keeps the order of sends.
//! Providers that read peers' memory are preferred.

use std::ffi::{CStr, CString, c_int};
use std::net::IpAddr;
use std::ptr;

use selvedge_libfabric::*;

/// The version of libfabric's interface that this crate uses.
const INTERFACE: u32 = 1 << 16 | 17;
/// Names of providers that never carry links: our own, those of one host, those without reliable datagrams, and
/// [`DEPRECATED`].
const UNSUITABLE: [&str; 6] = ["selvedge", "shm", "lnx", "sm2", "ofi_hook", DEPRECATED];
/// libfabric advises against this provider. Over it messages between four processes often stopped for good.
const DEPRECATED: &str = "sockets";

/// Whether the deprecated provider is asked for.
pub(super) fn is_deprecated(wanted: Option<&str>) -> bool {
    wanted.is_some_and(|name| name.split(';').any(|part| part == DEPRECATED))
}

/// Returns the name of a provider, as libfabric writes it.
///
/// # Safety
/// `info` is a structure of libfabric with a fabric attribute.
pub(super) unsafe fn provider_of(info: *const fi_info) -> String {
    // SAFETY: the caller's; the name is a C string or null.
    unsafe {
        let name = (*(*info).fabric_attr).prov_name;
        if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
    }
}

/// Returns the first suitable provider, as a structure of its own; None if there is none. Providers that read peers'
/// memory are preferred.
pub(super) fn find_provider(library: &Library, node: IpAddr, wanted: Option<&str>) -> Option<*mut fi_info> {
    let find = |caps| find_provider_with(library, node, wanted, caps);
    find(FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ).or_else(|| find(FI_MSG))
}

fn find_provider_with(library: &Library, node: IpAddr, wanted: Option<&str>, caps: u32) -> Option<*mut fi_info> {
    // SAFETY: fi_dupinfo(3) makes an empty structure of null, with all attributes. Names in it are freed by fi_freeinfo, so they are
    // made by strdup. fi_getinfo(3) reads the hints and makes a list.
    unsafe {
        let hints = (library.dupinfo)(ptr::null());
        if hints.is_null() {
            return None;
        }
        (*hints).caps = caps.into();
        (*hints).mode = FI_CONTEXT | FI_CONTEXT2;
        (*(*hints).ep_attr).type_ = FI_EP_RDM;
        (*(*hints).tx_attr).msg_order = u64::from(FI_ORDER_SAS);
        (*(*hints).rx_attr).msg_order = u64::from(FI_ORDER_SAS);
        (*(*hints).domain_attr).threading = FI_THREAD_DOMAIN;
        (*(*hints).domain_attr).resource_mgmt = FI_RM_ENABLED;
        (*(*hints).domain_attr).mr_mode = (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY) as c_int;
        let name = wanted.and_then(|name| CString::new(name).ok());
        if let Some(name) = &name {
            (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
        }
        let node = CString::new(node.to_string()).ok()?;
        let mut list: *mut fi_info = ptr::null_mut();
        let flags = FI_SOURCE | FI_NUMERICHOST;
        let mut found = (library.getinfo)(INTERFACE, node.as_ptr(), ptr::null(), flags, hints, &mut list);
        if found != 0 && wanted.is_some() {
            // Fabrics with their own kind of addresses take no node.
            found = (library.getinfo)(INTERFACE, ptr::null(), ptr::null(), 0, hints, &mut list);
        }
        (library.freeinfo)(hints);
        if found != 0 {
            return None;
        }
        let mut info = list;
        let mut chosen = None;
        while !info.is_null() {
            let provider = provider_of(info);
            let suits = !UNSUITABLE.iter().any(|name| provider.contains(name));
            if suits && !(*info).domain_attr.is_null() && (*info).caps & u64::from(FI_MSG) != 0 {
                let copy = (library.dupinfo)(info);
                chosen = (!copy.is_null()).then_some(copy);
                break;
            }
            info = (*info).next;
        }
        (library.freeinfo)(list);
        chosen
    }
}
