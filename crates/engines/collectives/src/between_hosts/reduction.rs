// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A collective operation as a reduction in pieces, each an operation of the node.
//!
//! Cost: a copy of the vectors that the program does not have in one piece.

use std::collections::VecDeque;
use std::ops::Range;

use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::member::Pieces;
use selvedge_nic::arithmetic::{Datatype, Operation};

use crate::one_host::{Collective, Elements, Pending};

/// Vectors that are reduced in pieces, each an operation of the node.
pub struct PiecewiseReduction {
    pub(super) elements: Elements,
    /// This member's operand. `None`: it is 0.
    pub(super) from: Option<*const u8>,
    /// The destination of the result. `None`: the result is not wanted.
    pub(super) to: Option<*mut u8>,
    pub(super) pieces: Pieces,
    pub(super) left: Range<usize>,
    pub(super) started: VecDeque<u64>,
    pub(super) outcome: Result<(), Failure>,
    /// An operand or a result that the program does not have in one piece.
    pub(super) whole: Vec<u8>,
    /// The part of the result for the program, and its destination.
    pub(super) part: Option<(Range<usize>, *mut u8)>,
}

impl PiecewiseReduction {
    pub(super) fn new(
        elements: Elements,
        from: Option<*const u8>,
        to: Option<*mut u8>,
        bytes: usize,
        most: usize,
    ) -> Result<Box<PiecewiseReduction>, Failure> {
        if bytes % elements.size_bytes() != 0 {
            return Err(Failure::NoSuchOperation);
        }
        let pieces = Pieces::new(bytes, elements.size_bytes(), most)?;
        let (left, started) = (0..pieces.count(), VecDeque::new());
        let (whole, part) = (Vec::new(), None);
        Ok(Box::new(PiecewiseReduction { elements, from, to, pieces, left, started, outcome: Ok(()), whole, part }))
    }

    /// Like [`PiecewiseReduction::new`], with the part of the result that goes to a buffer.
    pub(super) fn of_part(
        elements: Elements,
        from: Option<*const u8>,
        own: Range<usize>,
        to: *mut u8,
        bytes: usize,
        most: usize,
    ) -> Result<Box<PiecewiseReduction>, Failure> {
        let mut whole = vec![0; bytes];
        let mut reducing = PiecewiseReduction::new(elements, from, Some(whole.as_mut_ptr()), bytes, most)?;
        (reducing.whole, reducing.part) = (whole, Some((own, to)));
        Ok(reducing)
    }

    pub(super) fn may_start(&self, credits: usize) -> bool {
        !self.left.is_empty() && self.started.len() < credits
    }

    /// The operand and the result of a piece. Zeros replace a missing operand, `unwanted` takes an unwanted result.
    pub(super) fn memory(&self, piece: &Range<usize>, (zeros, unwanted): (&[u8], &mut [u8])) -> (*const u8, *mut u8) {
        let operand = self.from.map_or(zeros.as_ptr(), |from| from.wrapping_add(piece.start));
        (operand, self.to.map_or(unwanted.as_mut_ptr(), |to| to.wrapping_add(piece.start)))
    }

    /// Copies the program's part of the result after all pieces have ended.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        let Some((own, to)) = &self.part else { return Ok(()) };
        copy_part(&self.whole, own.clone(), *to)
    }
}

/// Whether nodes accept an operation of `members` members: up to a length, and with elements no longer than a request.
pub(super) fn supports(operation: &Pending, members: usize, longest: u64, request_bytes: usize) -> bool {
    let bytes = match operation.collective() {
        Collective::Allgather { .. } => operation.bytes().saturating_mul(members),
        _ => operation.bytes(),
    };
    let element = match operation.collective() {
        Collective::Reduce { elements, .. } | Collective::ReduceScatter { elements, .. } => elements.size_bytes(),
        _ => 1,
    };
    bytes as u64 <= longest && (bytes == 0 || element <= request_bytes)
}

/// The reduction that copies the bytes of one member to all.
pub(super) fn bits() -> Result<Elements, Failure> {
    Elements::of_values(Operation::Bor, Datatype::Uint8).ok_or(Failure::NoSuchOperation)
}

/// Copies a part of a result to the program.
pub(super) fn copy_part(all: &[u8], part: Range<usize>, to: *mut u8) -> Result<(), Failure> {
    let part = all.get(part).ok_or(Failure::GroupMismatch)?;
    // SAFETY: the program's buffer has room for this part, by the contract of the operation's constructor.
    unsafe { to.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
    Ok(())
}
