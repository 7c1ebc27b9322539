// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The codes of the RMA unit: commands, notification bits, modifiers, connection options, and the notifications that a
//! command may request (seed 002, table 7-2). The numbers are those of the later public generation.

/// Command codes, as descriptors and notifications carry them.
pub mod code {
    /// A get of bytes, and of quadwords.
    pub const BT_GET: u8 = 0;
    pub const QW_GET: u8 = 1;
    /// A put of bytes, and of quadwords.
    pub const BT_PUT: u8 = 2;
    pub const QW_PUT: u8 = 3;
    pub const LOCK: u8 = 4;
    pub const NOTIFICATION_PUT: u8 = 5;
    pub const IMMEDIATE_PUT: u8 = 6;
    /// In notifications: the response to a get.
    pub const GET_BT_RSP: u8 = 10;
    pub const GET_QW_RSP: u8 = 11;
    /// In notifications: a lock request at its target, and its response.
    pub const LOCK_REQ: u8 = 12;
    pub const LOCK_RSP: u8 = 13;
}

/// Units that write a notification; in a notification: the unit that wrote it.
pub mod spec {
    pub const REQUESTER: u8 = 1;
    pub const RESPONDER: u8 = 2;
    pub const COMPLETER: u8 = 4;
    pub const ALL: u8 = 7;
}

/// The unit that found an error, in an error notification.
pub mod error {
    pub const REQUESTER: u8 = 1;
    pub const RESPONDER: u8 = 2;
    pub const COMPLETER: u8 = 4;
}

/// Modifiers of a command.
pub mod modifier {
    /// Multicast: the destination node is a multicast group.
    pub const MC: u8 = 1;
    /// Each fragment of the link's maximum writes a notification.
    pub const NTR: u8 = 2;
    /// The other side's memory is that of an accelerator.
    pub const ERA: u8 = 4;
    pub const EWA: u8 = 8;
}

/// Options of a connection, and of a port: the options that its program may use.
pub mod options {
    /// Traffic class.
    pub const TC: u32 = 3;
    /// Remote register access: the addresses are those of registers.
    pub const RRA: u32 = 4;
    /// Notifications raise an interrupt.
    pub const IRQ: u32 = 8;
    /// Addresses are network logical addresses. Without it they are physical.
    pub const TE: u32 = 16;
    /// Of a port: physical addresses are permitted.
    pub const PHYSICAL: u32 = 32;
    /// Of a port: failed requests for its locks are kept while there is room ([`crate::rma::locks`]).
    pub const KEEP_LOCKS: u32 = 64;
}

/// The mode of a command, as notifications show it.
pub mod mode {
    pub const RRA: u8 = 1;
    pub const IRQ: u8 = 2;
    pub const TE: u8 = 4;
    pub const EWA: u8 = 8;
    pub const NTR: u8 = 16;
    pub const ERA: u8 = 32;
}

/// The mode of a connection's options and a command's modifiers. Without the right to an option, a port gets the
/// command without it: addresses are translated, and no interrupt is raised (the later generation's masks).
pub fn mode_of(connection: u32, permitted: u32, modifiers: u8) -> u8 {
    let asks = |option: u32, mode: u8| if connection & permitted & option != 0 { mode } else { 0 };
    let physical = connection & options::TE == 0 && permitted & options::PHYSICAL != 0;
    let translates = if physical { 0 } else { mode::TE };
    let modified = |bit: u8, mode: u8| if modifiers & bit != 0 { mode } else { 0 };
    asks(options::RRA, mode::RRA)
        | asks(options::IRQ, mode::IRQ)
        | translates
        | modified(modifier::EWA, mode::EWA)
        | modified(modifier::NTR, mode::NTR)
        | modified(modifier::ERA, mode::ERA)
}

/// The notifications that the units write, among those that a descriptor requests.
///
/// The prototype follows the rows of table 7-2, and ignores bits of other combinations. The later generation follows
/// the bit of each unit that the command passes.
pub fn effective_spec(prototype: bool, command: u8, asked: u8) -> u8 {
    use spec::{COMPLETER, REQUESTER, RESPONDER};
    let asked = asked & spec::ALL;
    let passes = match command {
        code::BT_PUT | code::QW_PUT | code::NOTIFICATION_PUT | code::IMMEDIATE_PUT => REQUESTER | COMPLETER,
        _ => spec::ALL,
    };
    if !prototype {
        return asked & passes;
    }
    match command {
        // 000, 100 and 110. The completer's bit alone is not a row.
        code::BT_PUT | code::QW_PUT if asked & REQUESTER == 0 => 0,
        code::BT_PUT | code::QW_PUT => asked & passes,
        // 000, 010 and 011. The responder's bit needs the completer's.
        code::BT_GET | code::QW_GET if asked & COMPLETER == 0 => 0,
        code::BT_GET | code::QW_GET => asked & (COMPLETER | RESPONDER),
        // 010 and 011: the completer's notification is the answer.
        code::LOCK => COMPLETER | asked & RESPONDER,
        code::IMMEDIATE_PUT => asked & COMPLETER,
        // X1X: the notification is the command.
        code::NOTIFICATION_PUT => COMPLETER,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::{COMPLETER, REQUESTER, RESPONDER};

    /// Table 7-2, row by row: command, (requester, completer, responder), the prototype's effect.
    #[test]
    fn every_row_of_table_7_2() {
        let bits = |(requester, completer, responder): (u8, u8, u8)| {
            (requester * REQUESTER) | (completer * COMPLETER) | (responder * RESPONDER)
        };
        let rows: &[(u8, (u8, u8, u8), u8)] = &[
            (code::QW_PUT, (0, 0, 0), 0),
            (code::QW_PUT, (1, 0, 0), REQUESTER),
            (code::QW_PUT, (0, 1, 0), 0),
            (code::QW_PUT, (1, 1, 0), REQUESTER | COMPLETER),
            (code::QW_PUT, (0, 0, 1), 0),
            (code::QW_PUT, (1, 0, 1), REQUESTER),
            (code::QW_PUT, (0, 1, 1), 0),
            (code::QW_PUT, (1, 1, 1), REQUESTER | COMPLETER),
            (code::QW_GET, (0, 0, 0), 0),
            (code::QW_GET, (1, 0, 0), 0),
            (code::QW_GET, (0, 1, 0), COMPLETER),
            (code::QW_GET, (1, 1, 0), COMPLETER),
            (code::QW_GET, (0, 0, 1), 0),
            (code::QW_GET, (0, 1, 1), COMPLETER | RESPONDER),
            (code::QW_GET, (1, 0, 1), 0),
            (code::QW_GET, (1, 1, 1), COMPLETER | RESPONDER),
            (code::LOCK, (0, 0, 0), COMPLETER),
            (code::LOCK, (1, 0, 0), COMPLETER),
            (code::LOCK, (0, 1, 0), COMPLETER),
            (code::LOCK, (1, 1, 0), COMPLETER),
            (code::LOCK, (0, 0, 1), COMPLETER | RESPONDER),
            (code::LOCK, (0, 1, 1), COMPLETER | RESPONDER),
            (code::LOCK, (1, 0, 1), COMPLETER | RESPONDER),
            (code::LOCK, (1, 1, 1), COMPLETER | RESPONDER),
            (code::IMMEDIATE_PUT, (0, 1, 0), COMPLETER),
            (code::IMMEDIATE_PUT, (1, 1, 1), COMPLETER),
            (code::IMMEDIATE_PUT, (1, 0, 1), 0),
            (code::NOTIFICATION_PUT, (0, 1, 0), COMPLETER),
            (code::NOTIFICATION_PUT, (1, 1, 1), COMPLETER),
            (code::NOTIFICATION_PUT, (1, 0, 0), COMPLETER),
        ];
        for &(command, asked, written) in rows {
            assert_eq!(effective_spec(true, command, bits(asked)), written, "command {command}, bits {asked:?}");
        }
    }

    #[test]
    fn the_later_generation_writes_what_the_command_passes() {
        assert_eq!(effective_spec(false, code::BT_PUT, spec::ALL), REQUESTER | COMPLETER);
        assert_eq!(effective_spec(false, code::BT_PUT, COMPLETER), COMPLETER);
        assert_eq!(effective_spec(false, code::BT_GET, 0xff), spec::ALL);
        assert_eq!(effective_spec(false, code::LOCK, 0), 0);
    }

    #[test]
    fn a_port_gets_only_the_options_that_it_has() {
        assert_eq!(mode_of(options::TE, 0, 0), mode::TE);
        assert_eq!(mode_of(0, 0, 0), mode::TE, "without the right, addresses are translated");
        assert_eq!(mode_of(0, options::PHYSICAL, 0), 0);
        assert_eq!(
            mode_of(options::RRA | options::IRQ | options::TE, options::IRQ, modifier::NTR),
            mode::TE | mode::IRQ | mode::NTR
        );
    }
}
