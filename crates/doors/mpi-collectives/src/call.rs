// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A call of a collective operation: its communicator, and whether it blocks.

use std::ffi::{c_int, c_void};

use selvedge_collectives::one_host::{Buffer, Elements, log};
use selvedge_nic::aggregation::Failure;

use crate::mpi::{Handle, Mpi, library};
use crate::types;

/// A call of an operation.
#[derive(Clone, Copy)]
pub struct Call {
    pub mpi: &'static Mpi,
    pub comm: Handle,
    pub form: Form,
    name: &'static str,
}

/// The form of a call.
#[derive(Clone, Copy)]
pub enum Form {
    /// The call waits for the operation.
    Blocking,
    /// The call starts the operation, and stores its request here.
    Nonblocking(*mut c_void),
}

impl Call {
    /// A call on a communicator. `name` is without the prefix `MPI_`.
    pub fn new(name: &'static str, form: Form, comm: usize) -> Option<Call> {
        let mpi = library()?;
        let comm = mpi.handle(comm);
        (!mpi.is_no_comm(comm)).then_some(Call { mpi, comm, form, name })
    }

    /// The reduction of a type, and the bytes of `count` elements.
    #[inline]
    pub fn elements(&self, datatype: usize, op: usize, count: c_int) -> Option<(&'static Elements, usize)> {
        let (datatype, op) = (self.mpi.handle(datatype), self.mpi.handle(op));
        let elements = types::of(self.mpi).elements(datatype, op)?;
        Some((elements, positive(count)? * elements.size_bytes()))
    }

    /// The operand and the result of a reduction.
    #[inline]
    pub fn buffer(&self, from: *const u8, to: *mut u8, result_is_used: bool) -> Option<Buffer> {
        let from = if from == self.mpi.in_place() { to } else { from };
        let is_missing = from.is_null() || (result_is_used && to.is_null());
        (!is_missing).then_some(Buffer { from, to })
    }

    /// Logs the failure of the operation.
    pub fn log(&self, failure: Failure) {
        let Call { form, name, comm, .. } = self;
        log::error(|| match form {
            Form::Blocking => format!("MPI_{name} on communicator {comm:#x}: {failure}"),
            Form::Nonblocking(_) => format!("MPI_I{} on communicator {comm:#x}: {failure}", name.to_lowercase()),
        });
    }
}

/// A count of elements; `None` unless it is positive.
pub fn positive(count: c_int) -> Option<usize> {
    usize::try_from(count).ok().filter(|&count| count > 0)
}
