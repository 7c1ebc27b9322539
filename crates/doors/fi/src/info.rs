// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fi_getinfo` (fi_getinfo(3)): the provider's attributes, matched with a program's hints.
//!
//! There is one answer, with one kind of endpoint. Fields that the program leaves open get the best value. A value that
//! the provider cannot offer is refused (`-FI_ENODATA`), and libfabric's log names the field. Nothing is opened.
//!
//! libfabric allocates the structures of the answer (`fi_dupinfo(NULL)`) and frees them, so they have its size.
//! `prov_name` stays empty, because libfabric fills it in.

use std::ffi::{CStr, c_char, c_int, c_void};

use selvedge_host::home::has_units;
use selvedge_host::simulated::is_simulated;
use selvedge_messages::bindings::Orders;
pub use selvedge_messages::protocols::{INJECT_BYTES, MESSAGE_BYTES_MAX};
use selvedge_messages::tables::ENTRIES;
use selvedge_messages::ticket::ENDPOINTS_MAX;

use crate::constants::*;
use crate::ffi::*;
use crate::objects::address::Address;
use crate::{info_line, loader, name};

/// The capabilities of the provider outside of virtual time.
const CAPS: u64 = MSG
    | TAGGED
    | RMA
    | ATOMIC
    | READ
    | WRITE
    | RECV
    | SEND
    | REMOTE_READ
    | REMOTE_WRITE
    | DIRECTED_RECV
    | MULTI_RECV
    | RMA_EVENT
    | SOURCE
    | TRIGGER
    | COLLECTIVE
    | LOCAL_COMM
    | REMOTE_COMM;
/// The capabilities of a program that asks for none.
const CAPS_TX: u64 = MSG | TAGGED | RMA | ATOMIC | READ | WRITE | SEND | TRIGGER | COLLECTIVE;
const CAPS_RX: u64 = MSG
    | TAGGED
    | RMA
    | ATOMIC
    | RECV
    | REMOTE_READ
    | REMOTE_WRITE
    | DIRECTED_RECV
    | MULTI_RECV
    | RMA_EVENT
    | SOURCE
    | TRIGGER
    | COLLECTIVE;
const CAPS_DOMAIN: u64 = LOCAL_COMM | REMOTE_COMM;
/// The capabilities that need others, or modify them.
const PRIMARY: u64 = MSG | TAGGED | RMA | ATOMIC | COLLECTIVE;
const DIRECTIONS: u64 = READ | WRITE | RECV | SEND | REMOTE_READ | REMOTE_WRITE;

/// Every order of messages. All of them hold between two endpoints.
const ORDERS: u64 = ORDER_RAR
    | ORDER_RAW
    | ORDER_RAS
    | ORDER_WAR
    | ORDER_WAW
    | ORDER_WAS
    | ORDER_SAR
    | ORDER_SAW
    | ORDER_SAS
    | ORDER_RMA_RAR
    | ORDER_RMA_RAW
    | ORDER_RMA_WAR
    | ORDER_RMA_WAW
    | ORDER_ATOMIC_RAR
    | ORDER_ATOMIC_RAW
    | ORDER_ATOMIC_WAR
    | ORDER_ATOMIC_WAW;
/// The orders among accesses to registered memory, and between them and messages.
const ORDERS_OF_ACCESSES: u64 =
    ORDER_RAR | ORDER_RAW | ORDER_WAR | ORDER_WAW | ORDER_RMA_RAR | ORDER_RMA_RAW | ORDER_RMA_WAR | ORDER_RMA_WAW;
const ORDERS_WITH_MESSAGES: u64 = ORDER_RAS | ORDER_WAS | ORDER_SAR | ORDER_SAW;
const TX_FLAGS: u64 = COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE | MATCH_COMPLETE;
const RX_FLAGS: u64 = COMPLETION | MULTI_RECV;

/// Largest number of pieces of a local or remote buffer.
pub const IOV_LIMIT: usize = 8;
/// Operations of an endpoint in flight. Beyond this number calls get -FI_EAGAIN until there is room.
pub const QUEUE_SIZE: usize = 16384;
/// The length of an address or a name.
pub const ADDRESS_BYTES: usize = size_of::<Address>();
/// A private format: `FI_PROV_SPECIFIC`.
pub const ADDRESS_FORMAT: u32 = 1 << 31 | 0x5e1;

const MR_PROV_KEY: c_int = FI_MR_PROV_KEY as c_int;
/// Memory registration modes, in the form before 1.5 and in the present one, without effect here.
const MR_BASIC: c_int = 1;
const MR_SCALABLE: c_int = 2;

/// The capabilities of the provider in this process. In virtual time there are no collective operations: members of a
/// group would read each other's memory without the simulator, so the reads would take no time.
pub fn caps() -> u64 {
    if is_simulated() { CAPS & !COLLECTIVE } else { CAPS }
}

/// The field for which the provider refuses a program's hints.
type Refused = &'static str;

/// fi_getinfo.
pub unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    let Some(library) = loader::library() else { return -ENODATA };
    if flags & !(SOURCE | NUMERICHOST | PROV_ATTR_ONLY | RESCAN) != 0 {
        return -EBADFLAGS;
    }
    if flags & SOURCE != 0 && node.is_null() && service.is_null() {
        return -ENODATA;
    }
    // SAFETY: fi_getinfo(3): the strings are C strings or null, the hints are complete or null. The answer comes from
    // libfabric with all its attributes, and libfabric frees it.
    unsafe {
        let name = match name::of(node, service, flags & NUMERICHOST != 0) {
            Ok(name) => name,
            Err(why) => {
                info_line!("{why}");
                return -ENODATA;
            }
        };
        let answer = (library.dupinfo)(std::ptr::null());
        if answer.is_null() {
            return -ENOMEM;
        }
        fill(&mut *answer, version);
        let met = match hints.as_ref() {
            Some(hints) => meet(&mut *answer, hints, version),
            None => Ok(()),
        };
        let is_source = flags & SOURCE != 0;
        let is_target = !is_source && (!node.is_null() || !service.is_null());
        let named = met.and_then(|()| set_addresses(&mut *answer, hints.as_ref(), [is_source, is_target], name));
        if let Err(field) = named {
            info_line!("refused: the hints ask for an unsupported value of {field}");
            (library.freeinfo)(answer);
            return -ENODATA;
        }
        *info = answer;
    }
    0
}

/// `FI_RESCAN`, of newer headers.
const RESCAN: u64 = 1 << 35;

unsafe fn copy_name(name: &CStr) -> *mut c_char {
    // SAFETY: the name ends in NUL; strdup only reads it. libfabric frees the copy.
    unsafe { libc::strdup(name.as_ptr()) }
}

unsafe fn fill(answer: &mut fi_info, version: u32) {
    // SAFETY: libfabric has just made the structure with all its attributes, and no other code has it yet.
    unsafe {
        answer.caps = caps();
        answer.addr_format = ADDRESS_FORMAT;
        *answer.tx_attr = fi_tx_attr {
            caps: CAPS_TX & caps(),
            msg_order: ORDERS,
            inject_size: INJECT_BYTES,
            size: QUEUE_SIZE,
            iov_limit: IOV_LIMIT,
            rma_iov_limit: IOV_LIMIT,
            ..*answer.tx_attr
        };
        *answer.rx_attr = fi_rx_attr {
            caps: CAPS_RX & caps(),
            msg_order: ORDERS,
            size: QUEUE_SIZE,
            iov_limit: IOV_LIMIT,
            ..*answer.rx_attr
        };
        let ep = &mut *answer.ep_attr;
        ep.type_ = FI_EP_RDM;
        ep.protocol = FI_PROTO_UNSPEC;
        ep.protocol_version = 1;
        ep.max_msg_size = MESSAGE_BYTES_MAX;
        ep.max_order_raw_size = MESSAGE_BYTES_MAX;
        ep.max_order_war_size = MESSAGE_BYTES_MAX;
        ep.max_order_waw_size = MESSAGE_BYTES_MAX;
        ep.mem_tag_format = u64::MAX;
        ep.tx_ctx_cnt = 1;
        ep.rx_ctx_cnt = 1;
        let domain = &mut *answer.domain_attr;
        domain.name = copy_name(crate::NAME);
        domain.threading = FI_THREAD_SAFE;
        domain.control_progress = FI_PROGRESS_AUTO;
        set_data_progress(domain, FI_PROGRESS_MANUAL);
        domain.resource_mgmt = FI_RM_ENABLED;
        domain.av_type = FI_AV_TABLE;
        domain.mr_mode = 0;
        domain.mr_key_size = 8;
        domain.cq_data_size = 8;
        domain.cq_cnt = 1024;
        domain.ep_cnt = ENDPOINTS_MAX;
        domain.tx_ctx_cnt = ENDPOINTS_MAX;
        domain.rx_ctx_cnt = ENDPOINTS_MAX;
        domain.max_ep_tx_ctx = 1;
        domain.max_ep_rx_ctx = 1;
        domain.cntr_cnt = 1024;
        domain.mr_iov_limit = 1;
        domain.caps = CAPS_DOMAIN;
        domain.mr_cnt = ENTRIES as usize / 2;
        let fabric = &mut *answer.fabric_attr;
        fabric.name = copy_name(crate::NAME);
        fabric.prov_version = crate::PROVIDER_VERSION;
        fabric.api_version = version;
    }
}

/// Adjusts the answer to the hints.
unsafe fn meet(answer: &mut fi_info, hints: &fi_info, version: u32) -> Result<(), Refused> {
    if hints.caps & !caps() != 0 {
        return Err("caps");
    }
    if hints.caps != 0 {
        answer.caps = completed(hints.caps) | CAPS_DOMAIN;
    }
    if hints.addr_format != FI_FORMAT_UNSPEC && hints.addr_format != ADDRESS_FORMAT {
        return Err("addr_format");
    }
    // SAFETY: fi_getinfo(3): the attributes of the hints are the program's, or null. The answer has all of its own, and
    // no other code has it yet.
    unsafe {
        meet_fabric(&mut *answer.fabric_attr, hints.fabric_attr.as_ref())?;
        meet_domain(&mut *answer.domain_attr, hints.domain_attr.as_ref(), version)?;
        meet_endpoint(hints.ep_attr.as_ref())?;
        (*answer.tx_attr).caps = answer.caps & CAPS_TX;
        (*answer.rx_attr).caps = answer.caps & CAPS_RX;
        if let Some(wanted) = hints.tx_attr.as_ref() {
            meet_tx(&mut *answer.tx_attr, wanted, answer.caps)?;
        }
        if let Some(wanted) = hints.rx_attr.as_ref() {
            meet_rx(&mut *answer.rx_attr, wanted, answer.caps)?;
        }
    }
    Ok(())
}

/// Sets the answer's source and target: the given name, else those of the hints, else any source.
unsafe fn set_addresses(
    answer: &mut fi_info,
    hints: Option<&fi_info>,
    [is_source, is_target]: [bool; 2],
    name: Address,
) -> Result<(), Refused> {
    let of_hints = |pick: fn(&fi_info) -> (*mut c_void, usize), field: Refused| {
        let given = hints.map(pick).filter(|(address, _)| !address.is_null());
        // SAFETY: fi_getinfo(3): the address in the hints has the length that the hints say, and is not null.
        given.map(|(address, length)| unsafe { Address::read(address, length) }.ok_or(field)).transpose()
    };
    let source = match is_source {
        true => name,
        false => of_hints(|hints| (hints.src_addr, hints.src_addrlen), "src_addr (use one from fi_getinfo)")?
            .unwrap_or(Address::of_service(0, false)),
    };
    if source.service().is_err() {
        return Err(
            "src_addr (endpoints get their address when they are opened; leave it null, or use a name from fi_getinfo)",
        );
    }
    let target = match is_target {
        true => Some(name),
        false => {
            of_hints(|hints| (hints.dest_addr, hints.dest_addrlen), "dest_addr (it is no address of this provider)")?
        }
    };
    // SAFETY: both were allocated by malloc, or are null, and no other code has the answer yet.
    unsafe {
        (answer.src_addr, answer.src_addrlen) = (copy_address(source)?, ADDRESS_BYTES);
        if let Some(target) = target {
            (answer.dest_addr, answer.dest_addrlen) = (copy_address(target)?, ADDRESS_BYTES);
        }
    }
    Ok(())
}

unsafe fn copy_address(address: Address) -> Result<*mut c_void, Refused> {
    // SAFETY: malloc returned as many bytes as are written, or null, which is checked first.
    unsafe {
        let copy = libc::malloc(ADDRESS_BYTES).cast::<Address>();
        if copy.is_null() {
            return Err("an address (there is no memory for a copy)");
        }
        copy.write_unaligned(address);
        Ok(copy.cast())
    }
}

/// Whether the settings select a mode in which messages wait for the target's own program.
fn needs_owner() -> bool {
    let says = |name: &str, word: &str| selvedge_settings::value(name).is_some_and(|value| value == word);
    says("SELVEDGE_MODE", "host") || says("SELVEDGE_PATH", "bounce")
}

/// Adds both directions to capabilities that name none.
fn completed(caps: u64) -> u64 {
    let mut caps = caps;
    if caps & (MSG | TAGGED | COLLECTIVE) != 0 && caps & (SEND | RECV) == 0 {
        caps |= SEND | RECV;
    }
    if caps & (RMA | ATOMIC) != 0 && caps & (READ | WRITE | REMOTE_READ | REMOTE_WRITE) == 0 {
        caps |= READ | WRITE | REMOTE_READ | REMOTE_WRITE;
    }
    caps
}

unsafe fn is_other_name(name: *const c_char) -> bool {
    // SAFETY: the name in the program's hints is a C string, or null.
    unsafe { !name.is_null() && CStr::from_ptr(name) != crate::NAME }
}

unsafe fn meet_fabric(answer: &mut fi_fabric_attr, hints: Option<&fi_fabric_attr>) -> Result<(), Refused> {
    let Some(hints) = hints else { return Ok(()) };
    // SAFETY: the names in the program's hints are C strings, or null.
    unsafe {
        if is_other_name(hints.name) {
            return Err("fabric_attr->name");
        }
        if hints.prov_version > crate::PROVIDER_VERSION {
            return Err("fabric_attr->prov_version");
        }
    }
    answer.fabric = hints.fabric;
    Ok(())
}

unsafe fn meet_domain(
    answer: &mut fi_domain_attr,
    hints: Option<&fi_domain_attr>,
    version: u32,
) -> Result<(), Refused> {
    let old = version < (1 << 16 | 5);
    let Some(hints) = hints else {
        // Before 1.5, a program without hints gets memory as with FI_MR_SCALABLE.
        if old {
            answer.mr_mode = MR_SCALABLE;
        }
        return Ok(());
    };
    // SAFETY: the name in the program's hints is a C string, or null.
    if unsafe { is_other_name(hints.name) } {
        return Err("domain_attr->name");
    }
    answer.domain = hints.domain;
    if hints.threading != FI_THREAD_UNSPEC {
        if hints.threading > FI_THREAD_ENDPOINT {
            return Err("domain_attr->threading");
        }
        answer.threading = hints.threading;
    }
    if hints.control_progress > FI_PROGRESS_MANUAL || data_progress(hints) > FI_PROGRESS_MANUAL {
        return Err("domain_attr->control_progress or data_progress");
    }
    if data_progress(hints) == FI_PROGRESS_AUTO && needs_owner() {
        return Err("domain_attr->data_progress (AUTO, with SELVEDGE_MODE=host or SELVEDGE_PATH=bounce)");
    }
    if hints.control_progress != FI_PROGRESS_UNSPEC {
        answer.control_progress = hints.control_progress;
    }
    if data_progress(hints) != FI_PROGRESS_UNSPEC {
        set_data_progress(answer, data_progress(hints));
    }
    if hints.resource_mgmt > FI_RM_ENABLED {
        return Err("domain_attr->resource_mgmt");
    }
    match hints.av_type {
        FI_AV_UNSPEC => {}
        FI_AV_MAP | FI_AV_TABLE => answer.av_type = hints.av_type,
        _ => return Err("domain_attr->av_type"),
    }
    // FI_MR_BASIC asks for virtual addresses without a bit for them. FI_MR_SCALABLE is the provider's default.
    match hints.mr_mode {
        MR_BASIC => return Err("domain_attr->mr_mode (FI_MR_BASIC: set the single bits instead)"),
        MR_SCALABLE => answer.mr_mode = MR_SCALABLE,
        bits if old && bits == 0 => answer.mr_mode = MR_SCALABLE,
        bits if bits & (MR_BASIC | MR_SCALABLE) != 0 => return Err("domain_attr->mr_mode (old and new bits together)"),
        bits => answer.mr_mode = bits & (MR_PROV_KEY | FI_MR_RMA_EVENT as c_int),
    }
    let within = [
        (hints.mr_key_size <= 8, "domain_attr->mr_key_size"),
        (hints.cq_data_size <= 8, "domain_attr->cq_data_size"),
        (hints.cq_cnt <= answer.cq_cnt, "domain_attr->cq_cnt"),
        (hints.ep_cnt <= answer.ep_cnt, "domain_attr->ep_cnt"),
        (hints.tx_ctx_cnt <= answer.tx_ctx_cnt, "domain_attr->tx_ctx_cnt"),
        (hints.rx_ctx_cnt <= answer.rx_ctx_cnt, "domain_attr->rx_ctx_cnt"),
        (hints.max_ep_tx_ctx <= 1, "domain_attr->max_ep_tx_ctx"),
        (hints.max_ep_rx_ctx <= 1, "domain_attr->max_ep_rx_ctx"),
        (hints.max_ep_stx_ctx == 0, "domain_attr->max_ep_stx_ctx"),
        (hints.max_ep_srx_ctx == 0, "domain_attr->max_ep_srx_ctx"),
        (hints.cntr_cnt <= answer.cntr_cnt, "domain_attr->cntr_cnt"),
        (hints.mr_iov_limit <= 1, "domain_attr->mr_iov_limit"),
        (hints.caps & !CAPS_DOMAIN == 0, "domain_attr->caps"),
        (hints.auth_key_size == 0, "domain_attr->auth_key_size"),
        (hints.max_err_data == 0, "domain_attr->max_err_data"),
        (hints.mr_cnt <= answer.mr_cnt, "domain_attr->mr_cnt"),
    ];
    within.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, field)| Err(field))
}

fn meet_endpoint(hints: Option<&fi_ep_attr>) -> Result<(), Refused> {
    let Some(hints) = hints else { return Ok(()) };
    let within = [
        (matches!(hints.type_, FI_EP_UNSPEC | FI_EP_RDM), "ep_attr->type"),
        (hints.protocol == FI_PROTO_UNSPEC, "ep_attr->protocol"),
        (hints.protocol_version <= 1, "ep_attr->protocol_version"),
        (hints.max_msg_size <= MESSAGE_BYTES_MAX, "ep_attr->max_msg_size"),
        (hints.msg_prefix_size == 0, "ep_attr->msg_prefix_size"),
        (hints.max_order_raw_size <= MESSAGE_BYTES_MAX, "ep_attr->max_order_raw_size"),
        (hints.max_order_war_size <= MESSAGE_BYTES_MAX, "ep_attr->max_order_war_size"),
        (hints.max_order_waw_size <= MESSAGE_BYTES_MAX, "ep_attr->max_order_waw_size"),
        (hints.tx_ctx_cnt <= 1, "ep_attr->tx_ctx_cnt"),
        (hints.rx_ctx_cnt <= 1, "ep_attr->rx_ctx_cnt"),
        (hints.auth_key_size == 0, "ep_attr->auth_key_size"),
    ];
    within.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, field)| Err(field))
}

fn meet_tx(answer: &mut fi_tx_attr, hints: &fi_tx_attr, caps: u64) -> Result<(), Refused> {
    let within = [
        (completed(hints.caps) & !(caps & CAPS_TX | DIRECTIONS) == 0, "tx_attr->caps"),
        (hints.op_flags & !TX_FLAGS == 0, "tx_attr->op_flags"),
        (hints.msg_order & !ORDERS == 0, "tx_attr->msg_order"),
        (hints.inject_size <= INJECT_BYTES, "tx_attr->inject_size"),
        (hints.size <= QUEUE_SIZE, "tx_attr->size"),
        (hints.iov_limit <= IOV_LIMIT, "tx_attr->iov_limit"),
        (hints.rma_iov_limit <= IOV_LIMIT, "tx_attr->rma_iov_limit"),
        (hints.comp_order == 0, "tx_attr->comp_order (completions come in the order in which operations end)"),
    ];
    if let Some((_, field)) = within.iter().find(|(holds, _)| !holds) {
        return Err(field);
    }
    if hints.caps != 0 {
        answer.caps = completed(hints.caps) & caps & CAPS_TX;
    }
    answer.op_flags = hints.op_flags;
    answer.msg_order = order_for(hints.msg_order);
    Ok(())
}

fn meet_rx(answer: &mut fi_rx_attr, hints: &fi_rx_attr, caps: u64) -> Result<(), Refused> {
    let within = [
        (completed(hints.caps) & !(caps & CAPS_RX | DIRECTIONS) == 0, "rx_attr->caps"),
        (hints.op_flags & !RX_FLAGS == 0, "rx_attr->op_flags"),
        (hints.msg_order & !ORDERS == 0, "rx_attr->msg_order"),
        (hints.size <= QUEUE_SIZE, "rx_attr->size"),
        (hints.iov_limit <= IOV_LIMIT, "rx_attr->iov_limit"),
        (hints.comp_order == 0, "rx_attr->comp_order (completions come in the order in which operations end)"),
        (hints.total_buffered_recv == 0, "rx_attr->total_buffered_recv"),
    ];
    if let Some((_, field)) = within.iter().find(|(holds, _)| !holds) {
        return Err(field);
    }
    if hints.caps != 0 {
        answer.caps = completed(hints.caps) & caps & CAPS_RX;
    }
    answer.op_flags = hints.op_flags;
    answer.msg_order = order_for(hints.msg_order);
    Ok(())
}

/// The order of messages in the answer: every order, unless more order makes operations wait for each other. Then it is
/// the order that the program asks for.
fn order_for(asked: u64) -> u64 {
    if asked != 0 && has_units() { asked } else { ORDERS }
}

/// The ordering between operation classes for this order of messages.
pub fn orders(msg_order: u64) -> Orders {
    Orders { messages: msg_order & ORDERS_WITH_MESSAGES != 0, accesses: msg_order & ORDERS_OF_ACCESSES != 0 }
}

/// `data_progress`, which newer headers have in a union at the same place.
pub(crate) fn data_progress(attr: &fi_domain_attr) -> u32 {
    // SAFETY: in all versions of libfabric a field of this type follows `control_progress` within the structure.
    unsafe { *(&raw const attr.control_progress).add(1) }
}

fn set_data_progress(attr: &mut fi_domain_attr, progress: u32) {
    // SAFETY: libfabric's structure has a field of this type after `control_progress` in all versions. The pointer is
    // made from the whole structure, which is borrowed for writing.
    unsafe {
        let at = std::mem::offset_of!(fi_domain_attr, control_progress) + size_of::<u32>();
        std::ptr::from_mut(attr).cast::<u8>().add(at).cast::<u32>().write(progress);
    }
}

/// The primary capabilities. An endpoint needs at least one.
pub const fn primary(caps: u64) -> u64 {
    caps & PRIMARY
}
