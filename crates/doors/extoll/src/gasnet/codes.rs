// SPDX-License-Identifier: Apache-2.0 OR MIT
//! GASNet's error codes, their names and texts, and the one place that maps the engine's errors to them.

use std::ffi::{CStr, c_char};

use crate::gasnet::active_messages::barrier::BarrierError;
use crate::gasnet::active_messages::{OpenError, SendError};

use crate::codes::codes;

/// Base of the codes, as in the public versions of GASNet.
const BASE: i32 = 10_000;

codes! {
    texts: &'static CStr;
    NotInit = 10_001, c"GASNet is not initialised, or is already";
    Resource = 10_002, c"the system lacks a resource for the call";
    BadArg = 10_003, c"an argument is invalid, or the call is not permitted here";
    NotReady = 10_004, c"the operation has not completed yet";
    BarrierMismatch = 10_005, c"the callers of a barrier gave different names";
}

/// Reports the reason why a call is refused.
pub fn refuse(code: Code, function: &str, why: impl std::fmt::Display) -> Code {
    log::error!("{function}: {why}");
    code
}

impl From<&SendError> for Code {
    fn from(error: &SendError) -> Code {
        match error {
            SendError::NotAttached => Code::NotInit,
            SendError::Post(_) | SendError::Aborted => Code::Resource,
            SendError::NoNode { .. }
            | SendError::NoHandler { .. }
            | SendError::TooLong { .. }
            | SendError::OutsideSegment { .. }
            | SendError::Source(_)
            | SendError::Replied
            | SendError::IsReply => Code::BadArg,
        }
    }
}

impl From<&OpenError> for Code {
    fn from(error: &OpenError) -> Code {
        match error {
            OpenError::Attached => Code::NotInit,
            OpenError::Device(_) | OpenError::Process(_) | OpenError::NoRoom(_) | OpenError::NoMemory(_) => {
                Code::Resource
            }
        }
    }
}

impl From<BarrierError> for Code {
    fn from(error: BarrierError) -> Code {
        match error {
            BarrierError::Running | BarrierError::NotRunning => Code::BadArg,
            BarrierError::NotReady => Code::NotReady,
            BarrierError::Mismatch => Code::BarrierMismatch,
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_ErrorName(code: i32) -> *const c_char {
    const NAMES: [&CStr; 5] = [
        c"GASNET_ERR_NOT_INIT",
        c"GASNET_ERR_RESOURCE",
        c"GASNET_ERR_BAD_ARG",
        c"GASNET_ERR_NOT_READY",
        c"GASNET_ERR_BARRIER_MISMATCH",
    ];
    let known = usize::try_from(i64::from(code) - i64::from(BASE) - 1).ok().and_then(|at| NAMES.get(at));
    let name = if code == 0 { c"GASNET_OK" } else { known.copied().unwrap_or(c"not an error code of GASNet") };
    name.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_ErrorDesc(code: i32) -> *const c_char {
    let text = if code == 0 { Some(c"no error") } else { Code::text_of(code) };
    text.unwrap_or(c"not an error code of GASNet").as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_name_and_a_text_of_its_own() {
        // SAFETY: both functions return strings that are never freed.
        let both = |code| unsafe { (CStr::from_ptr(gasnet_ErrorName(code)), CStr::from_ptr(gasnet_ErrorDesc(code))) };
        let codes = Code::ALL.iter().map(|code| *code as i32).chain([0, BASE]);
        let (names, texts): (std::collections::BTreeSet<_>, std::collections::BTreeSet<_>) = codes.map(both).unzip();
        assert_eq!((names.len(), texts.len()), (7, 7));
        assert_eq!(both(Code::BadArg as i32).0, c"GASNET_ERR_BAD_ARG");
        assert_eq!(both(i32::MIN), both(BASE));
    }
}
