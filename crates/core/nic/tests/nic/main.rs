// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the NIC, in one program: each further test program would compile the NIC and the shared modules again.

#[path = "../common/mod.rs"]
mod common;

mod aggregation;
mod aggregation_hostile;
mod atu;
mod flow_control;
mod grants;
mod lanes;
mod limits;
mod oracle;
mod placement;
mod receive;
mod recovery;
mod registers;
mod ring;
mod rma;
mod rma_hostile;
mod rma_locks;
mod rma_memory;
mod rma_queue;
mod tap;
mod triggered;
mod velo;
