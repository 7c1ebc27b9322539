// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of a port that concern its mailbox. The low 16 bits belong to the RMA unit ([`crate::rma::options`]).

/// The mailbox takes no messages.
pub const MAILBOX_DISABLED: u32 = 1 << 16;
/// Each message raises an interrupt.
pub const INTERRUPT: u32 = 1 << 17;
/// A message that finds no room stays with its sender. Without this option it is discarded, as in the seed.
pub const REFUSE: u32 = 1 << 18;
/// All options of the VELO unit.
pub const ALL: u32 = MAILBOX_DISABLED | INTERRUPT | REFUSE;
