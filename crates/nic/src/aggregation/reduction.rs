// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of an operation: which codes of a message mean what, and whether they fit together (seed 001, section III.F, and beyond it the
//! product and all types of [`crate::portals::operation`]).

use super::failure::Failure;
use super::message::Reduction;
use crate::portals::operation::{Datatype, Family, Operation, allowed, apply};

/// What reduces one operand into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    operation: Operation,
    datatype: Datatype,
}

impl Kernel {
    /// The arithmetic of a message. Without payload, as in a barrier, the codes mean nothing.
    pub fn new(reduction: &Reduction) -> Result<Kernel, Failure> {
        let Reduction { operation, datatype, index, bytes, .. } = *reduction;
        let codes = Operation::from_u32(operation.into()).zip(Datatype::from_u32(datatype.into()));
        let kernel = codes.map(|(operation, datatype)| Kernel { operation, datatype });
        if bytes == 0 {
            return Ok(kernel.unwrap_or(Kernel { operation: Operation::Sum, datatype: Datatype::Uint8 }));
        }
        let fits = |kernel: &Kernel| {
            let Kernel { operation, datatype } = *kernel;
            allowed(Family::Atomic, operation, datatype) && index == 0 && bytes as usize % datatype.size_bytes() == 0
        };
        kernel.filter(fits).ok_or(Failure::NoSuchOperation)
    }

    /// `into = into op from`, for each element.
    pub fn reduce(&self, into: &mut [u8], from: &[u8]) {
        apply(self.operation, self.datatype, into, from);
    }
}
