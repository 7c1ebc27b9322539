// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of an operation: the codes of a message, and their compatibility (seed 001, section III.F; the
//! product and all types of [`crate::arithmetic`] go beyond it).
//!
//! | field of [`Reduction`] | contents |
//! |---|---|
//! | `operation` | number of an [`Operation`] that reduces |
//! | `datatype` | number of the values' [`Datatype`] |
//! | `index` | 0: elements are values. Else 1 + number of the indices' [`Datatype`]: elements are pairs ([`Located`]) |
//!
//! Without payload, as in a barrier, the codes mean nothing, but members must agree on them.

use super::failure::Failure;
use super::message::Reduction;
use crate::arithmetic::{Datatype, Located, Operation, apply, apply_located, reduces};

/// The function that reduces one operand into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// No payload.
    Nothing,
    Values(Operation, Datatype),
    Pairs(Operation, Located),
}

impl Reduction {
    /// A reduction of values whose result all members get.
    pub fn of_values(operation: Operation, datatype: Datatype, bytes: u32) -> Reduction {
        Reduction { operation: operation as u8, datatype: datatype as u8, index: 0, bytes, target: None }
    }

    /// A reduction of pairs whose result all members get.
    pub fn of_pairs(operation: Operation, pair: Located, bytes: u32) -> Reduction {
        let index = 1 + pair.index() as u8;
        Reduction { operation: operation as u8, datatype: pair.value() as u8, index, bytes, target: None }
    }
}

impl Kernel {
    /// The kernel for a reduction.
    #[inline]
    pub fn new(reduction: &Reduction) -> Result<Kernel, Failure> {
        let Reduction { operation, datatype, index, bytes, .. } = *reduction;
        if bytes == 0 {
            return Ok(Kernel::Nothing);
        }
        let datatype_of = |number: u8| Datatype::from_number(number.into()).ok_or(Failure::NoSuchOperation);
        let operation = Operation::from_u32(operation.into()).ok_or(Failure::NoSuchOperation)?;
        let value = datatype_of(datatype)?;
        let (kernel, is_known, element_bytes) = match index.checked_sub(1) {
            None => (Kernel::Values(operation, value), reduces(operation, value), value.size_bytes()),
            Some(index) => {
                let pair = Located::new(value, datatype_of(index)?).ok_or(Failure::NoSuchOperation)?;
                (Kernel::Pairs(operation, pair), Located::reduces(operation), pair.size_bytes())
            }
        };
        // Sizes are powers of two.
        let is_whole = bytes as usize & (element_bytes - 1) == 0;
        if is_known && is_whole { Ok(kernel) } else { Err(Failure::NoSuchOperation) }
    }

    /// `into = into op from`, for each element.
    #[inline]
    pub fn reduce(&self, into: &mut [u8], from: &[u8]) {
        match *self {
            Kernel::Nothing => {}
            Kernel::Values(operation, datatype) => apply(operation, datatype, into, from),
            Kernel::Pairs(operation, pair) => apply_located(operation, pair, into, from),
        }
    }
}
