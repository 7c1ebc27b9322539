// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Error numbers: the only place that maps the errors of the message engine to libfabric's (fi_errno(3)).

use std::ffi::c_int;

use selvedge_messages::error::{Fault, Refusal};
use selvedge_messages::transport::OpenError;

use crate::constants::*;

/// The number for a call that was refused.
pub const fn errno_of_refusal(refusal: Refusal) -> c_int {
    match refusal {
        Refusal::NoRoom => EAGAIN,
        Refusal::Invalid => EINVAL,
        Refusal::TooLong => EMSGSIZE,
        Refusal::PeerGone => EHOSTDOWN,
        Refusal::NotMapped => EFAULT,
        Refusal::NoEndpoint => EOPBADSTATE,
        Refusal::NoMemory => ENOMEM,
    }
}

/// The number in the completion of an operation that has failed.
pub const fn errno_of_fault(fault: Fault) -> c_int {
    match fault {
        Fault::NoRoom => EAGAIN,
        Fault::Invalid => EINVAL,
        Fault::TooLong => EMSGSIZE,
        Fault::Truncated => ETRUNC,
        Fault::PeerGone => EHOSTDOWN,
        Fault::Unreachable => EHOSTUNREACH,
        Fault::NotMapped => EFAULT,
        Fault::NotPermitted => EACCES,
        Fault::NoKey => ENOKEY,
        Fault::Cancelled => ECANCELED,
        Fault::NoMessage => ENOMSG,
        Fault::TablesFull => ENOSPC,
        Fault::NoMemory => ENOMEM,
        Fault::Unsupported => EOPNOTSUPP,
        Fault::Other => EIO,
    }
}

/// The number for a domain that could not be opened: the system's own for the lack of a local resource.
pub fn errno_of_open(error: &OpenError) -> c_int {
    match (error.shortage(), error) {
        (Some(shortage), _) => shortage.errno(),
        // The job's directory cannot be used, or all ids are taken.
        (None, OpenError::Join(_)) => EPERM,
        (None, OpenError::Nic(_)) => EIO,
        (None, OpenError::Path) => EINVAL,
        (None, OpenError::Tables) => EOVERRUN,
    }
}

/// The result of a call that moves data: 0, or a negative number.
#[inline(always)]
pub fn result_of(outcome: Result<(), Refusal>) -> isize {
    match outcome {
        Ok(()) => 0,
        Err(refusal) => -(errno_of_refusal(refusal) as isize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_a_number_of_its_own() {
        let numbers = Refusal::ALL.map(errno_of_refusal);
        assert_eq!(numbers, [EAGAIN, EINVAL, EMSGSIZE, EHOSTDOWN, EFAULT, EOPBADSTATE, ENOMEM]);
        for refusal in Refusal::ALL {
            assert_eq!(result_of(Err(refusal)), -(errno_of_refusal(refusal) as isize));
            assert_eq!(numbers.iter().filter(|number| **number == errno_of_refusal(refusal)).count(), 1);
        }
        assert_eq!(result_of(Ok(())), 0);
    }

    #[test]
    fn each_fault_has_a_number_of_its_own() {
        let numbers = Fault::ALL.map(errno_of_fault);
        let wanted = [
            EAGAIN,
            EINVAL,
            EMSGSIZE,
            ETRUNC,
            EHOSTDOWN,
            EHOSTUNREACH,
            EFAULT,
            EACCES,
            ENOKEY,
            ECANCELED,
            ENOMSG,
            ENOSPC,
            ENOMEM,
            EOPNOTSUPP,
            EIO,
        ];
        assert_eq!(numbers, wanted);
        for number in numbers {
            assert!(number > 0);
            assert_eq!(numbers.iter().filter(|other| **other == number).count(), 1);
        }
    }
}
