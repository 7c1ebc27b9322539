// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Portal table entries (Portals 4.3, "Portal Table Entries").
//!
//! Invariant: an index is closed, disabled or enabled only after this process has delivered the messages that its NIC already
//! holds, so their events come first.

use selvedge_process::nic::handle::NONE;
use selvedge_process::nic::portals::options;

use crate::abi::PT_ANY;
use crate::codes::{Code, code};
use crate::state::{find_ni, out};

#[unsafe(no_mangle)]
pub extern "C" fn PtlPTAlloc(ni_handle: u32, flags: u32, eq_handle: u32, pt_index_req: u32, pt_index: *mut u32) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        let index = out(pt_index)?;
        if flags & !options::PT_MASK != 0 {
            return Err(Code::ArgInvalid);
        }
        let queue = ni.queue(eq_handle)?;
        if flags & options::PT_FLOWCTRL != 0 && queue == NONE {
            return Err(Code::PtEqNeeded);
        }
        let wanted = (pt_index_req != PT_ANY).then_some(pt_index_req);
        *index = ni.interface().lock().portal_table().alloc(wanted, flags, queue)?;
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlPTFree(ni_handle: u32, pt_index: u32) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        ni.interface().progress();
        Ok(ni.interface().lock().portal_table().free(pt_index)?)
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlPTDisable(ni_handle: u32, pt_index: u32) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        ni.interface().progress();
        Ok(ni.interface().lock().with_revocation(|nic| nic.portal_table().set(pt_index, false))?)
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlPTEnable(ni_handle: u32, pt_index: u32) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        ni.interface().progress();
        Ok(ni.interface().lock().portal_table().set(pt_index, true)?)
    })())
}
