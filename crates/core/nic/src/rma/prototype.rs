// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The descriptor of the prototype: 128 bits, stored at a requester address that carries the rest (seed 002, section
//! 7.5.1).
//!
//! The seed's figures 7-6 and 7-7 are lost. Its text says that the address carries the command and its modifier bits
//! below the page border, destination and source above it, and the interrupt bit beyond them; that a transfer has 1 to
//! 64 units of a quadword or a cache line; and that no transfer crosses a page. The layout is Selvedge's own:
//!
//! | where | bits | |
//! |---|---|---|
//! | address | 6:4 | command: 0 get, 1 put, 2 lock, 3 notification put, 4 immediate put |
//! | address | 9:7 | requester's, completer's, responder's notification |
//! | address | 10 | operand size: 0 quadwords, 1 cache lines |
//! | address | 16:12 | source VPID |
//! | address | 21:17 | destination VPID |
//! | address | 27:22 | destination node |
//! | address | 28 | interrupt |
//! | word 0 | 38:0 | read address; of an immediate or a notification put all 64 bits are the value; of a lock compare in 63:32, addend in 31:0 |
//! | word 0 | 63:58 | units - 1 |
//! | word 1 | 38:0 | write address; of a notification put the class in 7:0; of a lock its number in 9:0 |

use super::command::{code, options, spec};
use super::descriptor::{Descriptor, Operation};

const ADDRESS_MASK: u64 = (1 << 39) - 1;
const PAGE_BYTES: u64 = 4096;
const LINE_BYTES: u32 = 64;

/// A decoded descriptor of the prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrototypeCommand {
    pub source_vpid: u16,
    /// Options of the requester page.
    pub options: u32,
    pub descriptor: Descriptor,
}

/// Reasons for which the requester drops a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrototypeError {
    /// Unknown command.
    Command(u8),
    /// A bit of the address that is always 0 is set.
    Address,
    /// An address is not a multiple of the operand's size, or the transfer crosses a page.
    Page,
}

/// Decodes a store to a requester page.
pub fn decode(address: u64, words: &[u64; 2]) -> Result<PrototypeCommand, PrototypeError> {
    if address & 0xf != 0 || address >> 11 & 1 != 0 || address >> 29 != 0 {
        return Err(PrototypeError::Address);
    }
    let command = (address >> 4) as u8 & 7;
    let asked = address >> 7;
    let bit = |at: u64, bit: u8| if asked >> at & 1 != 0 { bit } else { 0 };
    let unit_bytes = if address >> 10 & 1 != 0 { LINE_BYTES } else { 8 };
    let bytes = ((words[0] >> 58) as u32 + 1) * unit_bytes;
    let (read, write) = (words[0] & ADDRESS_MASK, words[1] & ADDRESS_MASK);
    let (code, operation) = match command {
        0 => (code::QW_GET, Operation::Get { read, write, bytes }),
        1 => (code::QW_PUT, Operation::Put { read, write, bytes }),
        2 => {
            let (compare, add) = ((words[0] >> 32) as i32, words[0] as i32);
            (code::LOCK, Operation::Lock { number: (words[1] & 0x3ff) as u32, compare, add })
        }
        3 => (code::NOTIFICATION_PUT, Operation::NotificationPut { value: words[0], class: words[1] as u8 }),
        4 => (code::IMMEDIATE_PUT, Operation::ImmediatePut { write, value: words[0], bytes: 8 }),
        other => return Err(PrototypeError::Command(other)),
    };
    let fits = |address: u64, bytes: u32| {
        address % u64::from(unit_bytes.min(bytes)) == 0 && address % PAGE_BYTES + u64::from(bytes) <= PAGE_BYTES
    };
    let whole = match operation {
        Operation::Put { read, write, bytes } | Operation::Get { read, write, bytes } => {
            fits(read, bytes) && fits(write, bytes)
        }
        Operation::ImmediatePut { write, .. } => write % 8 == 0,
        _ => true,
    };
    if !whole {
        return Err(PrototypeError::Page);
    }
    Ok(PrototypeCommand {
        source_vpid: (address >> 12) as u16 & 0x1f,
        options: options::TE | if address >> 28 & 1 != 0 { options::IRQ } else { 0 },
        descriptor: Descriptor {
            code,
            node: (address >> 22) as u16 & 0x3f,
            vpid: (address >> 17) as u8 & 0x1f,
            spec: bit(0, spec::REQUESTER) | bit(1, spec::COMPLETER) | bit(2, spec::RESPONDER),
            modifiers: 0,
            operation,
        },
    })
}

/// Encodes a command as a requester address and words. None: the prototype has no such command.
pub fn encode(command: &PrototypeCommand) -> Option<(u64, [u64; 2])> {
    let descriptor = &command.descriptor;
    let number = |at: u64, value: u64, bits: u32| if value >> bits == 0 { Some(value << at) } else { None };
    let mut lines = 0;
    let mut units = |bytes: u32| {
        let unit_bytes = if bytes % LINE_BYTES == 0 { LINE_BYTES } else { 8 };
        lines = u64::from(unit_bytes == LINE_BYTES) << 10;
        let whole = bytes % 8 == 0 && (1..=64).contains(&(bytes / unit_bytes));
        whole.then(|| u64::from(bytes / unit_bytes - 1) << 58)
    };
    let (kind, words) = match descriptor.operation {
        Operation::Get { read, write, bytes } => (0, [number(0, read, 39)? | units(bytes)?, number(0, write, 39)?]),
        Operation::Put { read, write, bytes } => (1, [number(0, read, 39)? | units(bytes)?, number(0, write, 39)?]),
        Operation::Lock { number: lock, compare, add } => {
            (2, [u64::from(compare as u32) << 32 | u64::from(add as u32), number(0, lock.into(), 10)?])
        }
        Operation::NotificationPut { value, class } => (3, [value, class.into()]),
        Operation::ImmediatePut { write, value, bytes: 8 } => (4, [value, number(0, write, 39)?]),
        Operation::ImmediatePut { .. } => return None,
    };
    let asks = |unit: u8, at: u64| u64::from(descriptor.spec & unit != 0) << at;
    let address = kind << 4
        | asks(spec::REQUESTER, 7)
        | asks(spec::COMPLETER, 8)
        | asks(spec::RESPONDER, 9)
        | lines
        | number(12, command.source_vpid.into(), 5)?
        | number(17, descriptor.vpid.into(), 5)?
        | number(22, descriptor.node.into(), 6)?
        | u64::from(command.options & options::IRQ != 0) << 28;
    // The decoder checks the rules of pages and operands.
    decode(address, &words).is_ok().then_some((address, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_store_decodes_or_is_refused(address: u64, words: [u64; 2]) {
            if let Ok(command) = decode(address % (1 << 30), &words) {
                if let Some((address, words)) = encode(&command) {
                    prop_assert_eq!(decode(address, &words), Ok(command));
                }
            }
        }

        #[test]
        fn transfers_of_whole_units_within_a_page_are_commands(page in 0..1u64 << 27, first in 0..64u64, lines in 1..=64u64) {
            let lines = lines.min(64 - first);
            let at = (page << 12) | (first * 64);
            let operation = Operation::Put { read: at, write: at, bytes: lines as u32 * 64 };
            let descriptor = Descriptor { code: code::QW_PUT, node: 5, vpid: 3, spec: spec::REQUESTER, modifiers: 0, operation };
            let command = PrototypeCommand { source_vpid: 7, options: options::TE, descriptor };
            let (address, words) = encode(&command).expect("it is a command");
            prop_assert_eq!(decode(address, &words), Ok(command));
        }
    }

    #[test]
    fn a_transfer_across_a_page_is_refused() {
        let operation = Operation::Get { read: 4096 - 64, write: 0, bytes: 128 };
        let descriptor = Descriptor { code: code::QW_GET, node: 0, vpid: 0, spec: 0, modifiers: 0, operation };
        assert_eq!(encode(&PrototypeCommand { source_vpid: 0, options: options::TE, descriptor }), None);
        let address = 1 << 10;
        assert_eq!(decode(address, &[(4096 - 64) | (1 << 58), 0]), Err(PrototypeError::Page));
    }
}
