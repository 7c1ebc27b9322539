// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Error codes, their texts, and the one place that maps the errors of channels to them.

use std::ffi::{CStr, c_char};

use crate::atoll::channels::{ChannelError, OpenError};
use selvedge_process::device::DeviceError;
use selvedge_process::device::connection::PostError;

use crate::codes::codes;

codes! {
    texts: &'static CStr;
    Success = 0, c"success";
    Error = 1, c"the library failed";
    Port = 2, c"the port is not open";
    NoPort = 3, c"the Hostport does not exist, or all Hostports of the node are in use";
    Job = 4, c"the process cannot join a job";
    Memory = 5, c"there is no memory for the port";
    Id = 6, c"there is no such node or Hostport";
    NotAvailable = 7, c"the peer has not opened its Hostport";
    NoRoute = 8, c"all virtual connections are in use";
    Handle = 9, c"the handle names no connection";
    Route = 10, c"the route is invalid, because the peer has closed its Hostport or the fabric has changed; connect again";
    Descriptor = 11, c"the descriptor holds no message that the call accepts";
    Size = 12, c"the size exceeds the space available";
    NoSpace = 13, c"the send area has no room now";
    NoMessage = 14, c"no message matches";
    NotFast = 15, c"the next message has a header or data";
    Held = 16, c"matched messages that were not freed hold all slots of this peer";
    Pointer = 17, c"a pointer is NULL";
    Lost = 18, c"messages could not leave before the port closed, and are lost";
}

impl From<OpenError> for Code {
    fn from(error: OpenError) -> Code {
        log::error!("atoll_open: {error}");
        match error {
            OpenError::Process(_) | OpenError::Device(DeviceError::Process(_) | DeviceError::Forked) => Code::Job,
            OpenError::NoRoom(_) | OpenError::NoMemory(_) | OpenError::Device(DeviceError::TablesFull { .. }) => {
                Code::Memory
            }
            OpenError::NoSuch(_) | OpenError::AllUsed | OpenError::Device(DeviceError::PortsUsed(_)) => Code::NoPort,
            OpenError::Device(DeviceError::NotOpen | DeviceError::NotMapped { .. } | DeviceError::NoRegion { .. }) => {
                Code::Error
            }
        }
    }
}

impl From<ChannelError> for Code {
    fn from(error: ChannelError) -> Code {
        match error {
            ChannelError::NoHandle => Code::Handle,
            ChannelError::NoNode => Code::Id,
            ChannelError::NotAvailable => Code::NotAvailable,
            ChannelError::NoChannel => Code::NoRoute,
            ChannelError::Invalid | ChannelError::Post(PostError::NoNode) => Code::Route,
            ChannelError::Size => Code::Size,
            ChannelError::NoRoom => Code::NoSpace,
            ChannelError::AllHeld => Code::Held,
            ChannelError::NoMessage => Code::NoMessage,
            ChannelError::Lost => Code::Lost,
            ChannelError::Aborted => Code::Error,
            ChannelError::Post(error) => {
                log::error!("atoll: {error}");
                Code::Error
            }
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn atoll_strerror(code: i32) -> *const c_char {
    Code::text_of(code).unwrap_or(c"an unknown error").as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_no_code_has_a_text() {
        // SAFETY: the function returns a string that is never freed.
        assert_eq!(unsafe { CStr::from_ptr(atoll_strerror(-1)) }, c"an unknown error");
    }
}
