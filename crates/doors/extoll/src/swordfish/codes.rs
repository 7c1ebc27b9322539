// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Error codes of applets, their texts, and the one place that maps those of PALMS to them.

use std::ffi::CStr;

use crate::atoll::channels::ChannelError;
use crate::atoll::codes as palms;
use crate::codes::codes;

codes! {
    texts: &'static CStr;
    Success = 0, c"success";
    Error = 1, c"the library failed";
    Job = 2, c"the process has not joined a job: call SWORDFISH_Init first";
    Rank = 3, c"there is no such rank";
    Size = 4, c"the message is longer than the room, or than 2 GiB";
    NoMessage = 5, c"no message has arrived";
    Pointer = 6, c"a pointer is NULL";
    Lost = 7, c"the peer has left, or messages could not leave";
    Full = 8, c"messages that no receive has selected take more than 256 MiB: receive some of them";
}

impl From<palms::Code> for Code {
    fn from(code: palms::Code) -> Code {
        match code {
            palms::Code::Job | palms::Code::Port => Code::Job,
            palms::Code::Id => Code::Rank,
            palms::Code::Size => Code::Size,
            palms::Code::NoMessage => Code::NoMessage,
            palms::Code::Pointer => Code::Pointer,
            palms::Code::Route | palms::Code::NotAvailable | palms::Code::Lost => Code::Lost,
            other => {
                log::error!("swordfish: {}", other.text().to_string_lossy());
                Code::Error
            }
        }
    }
}

impl From<ChannelError> for Code {
    fn from(error: ChannelError) -> Code {
        palms::Code::from(error).into()
    }
}
