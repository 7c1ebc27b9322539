// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Return codes (Portals 4.3, "Return Codes"), and the one place where errors become codes.
//!
//! Invariant: each error of the NIC and of the live home has exactly one code; the test below lists all of them.

use selvedge_process::nic::Full;
use selvedge_process::nic::portals::errors::{AppendError, ArmError, CounterError, PortalError, UnlinkError};
use selvedge_process::{StartError, WaitEnd};

/// The codes of `portals4.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    Ok = 0,
    ArgInvalid = 1,
    CtNoneReached = 2,
    EqDropped = 3,
    EqEmpty = 4,
    Fail = 5,
    Ignored = 6,
    InUse = 7,
    ListTooLong = 8,
    NoInit = 9,
    NoSpace = 10,
    PidInUse = 11,
    PtFull = 12,
    PtEqNeeded = 13,
    PtInUse = 14,
    Aborted = 15,
    Interrupted = 16,
}

/// The result of an API function: a value, or the code that C gets.
pub type Outcome<T = ()> = Result<T, Code>;

/// The return value for C.
pub fn code(outcome: Outcome) -> i32 {
    match outcome {
        Ok(()) => Code::Ok as i32,
        Err(code) => code as i32,
    }
}

/// For a transition that was not called through `Guard::with_revocation`, which waits until grants are revoked.
const UNREVOKED: Code = Code::Fail;

impl From<Full> for Code {
    fn from(_: Full) -> Code {
        Code::NoSpace
    }
}

impl From<AppendError> for Code {
    fn from(error: AppendError) -> Code {
        match error {
            AppendError::Portal => Code::ArgInvalid,
            AppendError::Full => Code::NoSpace,
            AppendError::TooLong => Code::ListTooLong,
            AppendError::Revoking(_) => UNREVOKED,
        }
    }
}

impl From<UnlinkError> for Code {
    fn from(error: UnlinkError) -> Code {
        match error {
            UnlinkError::Invalid => Code::ArgInvalid,
            UnlinkError::InUse => Code::InUse,
            UnlinkError::Revoking(_) => UNREVOKED,
        }
    }
}

impl From<PortalError> for Code {
    fn from(error: PortalError) -> Code {
        match error {
            PortalError::Invalid => Code::ArgInvalid,
            PortalError::InUse => Code::PtInUse,
            PortalError::Full => Code::PtFull,
            PortalError::Revoking(_) => UNREVOKED,
        }
    }
}

impl From<CounterError> for Code {
    fn from(error: CounterError) -> Code {
        match error {
            CounterError::Invalid => Code::ArgInvalid,
            CounterError::Revoking(_) => UNREVOKED,
        }
    }
}

impl From<ArmError> for Code {
    fn from(error: ArmError) -> Code {
        match error {
            ArmError::Full => Code::NoSpace,
            ArmError::Revoking(_) => UNREVOKED,
        }
    }
}

impl From<StartError> for Code {
    fn from(error: StartError) -> Code {
        match error {
            StartError::Memory => Code::ArgInvalid,
            StartError::NoSpace | StartError::Shortage => Code::NoSpace,
        }
    }
}

impl From<WaitEnd> for Code {
    fn from(end: WaitEnd) -> Code {
        match end {
            WaitEnd::TimedOut => Code::CtNoneReached,
            WaitEnd::Aborted => Code::Aborted,
            WaitEnd::Closed => Code::Interrupted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_the_code_that_the_specification_gives_it() {
        assert_eq!(Code::from(Full), Code::NoSpace);
        assert_eq!(Code::from(AppendError::Portal), Code::ArgInvalid);
        assert_eq!(Code::from(AppendError::Full), Code::NoSpace);
        assert_eq!(Code::from(AppendError::TooLong), Code::ListTooLong);
        assert_eq!(Code::from(UnlinkError::Invalid), Code::ArgInvalid);
        assert_eq!(Code::from(UnlinkError::InUse), Code::InUse);
        assert_eq!(Code::from(PortalError::Invalid), Code::ArgInvalid);
        assert_eq!(Code::from(PortalError::InUse), Code::PtInUse);
        assert_eq!(Code::from(PortalError::Full), Code::PtFull);
        assert_eq!(Code::from(StartError::Memory), Code::ArgInvalid);
        assert_eq!(Code::from(StartError::NoSpace), Code::NoSpace);
        assert_eq!(Code::from(StartError::Shortage), Code::NoSpace);
        assert_eq!(Code::from(WaitEnd::TimedOut), Code::CtNoneReached);
        assert_eq!(Code::from(WaitEnd::Aborted), Code::Aborted);
        assert_eq!(Code::from(WaitEnd::Closed), Code::Interrupted);
        assert_eq!(code(Ok(())), 0);
        assert_eq!(code(Err(Code::Interrupted)), 16);
    }
}
