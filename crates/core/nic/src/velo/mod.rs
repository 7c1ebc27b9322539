// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VELO unit: short messages between two programs, without a posted receive (seed 002, section 7.4).
//!
//! A sender stores a message of 8 to 64 bytes (120 on the later generation) to its requester page. The requester makes
//! one packet of it. The completer at the target writes it to the mailbox of the destination's virtual process id
//! (VPID). The receiver polls one word of its mailbox.
//!
//! The path of a message:
//!
//! 1. [`address`]: the fields of a store's address. [`requester`]: from a store to a [`Header`].
//! 2. [`header`]: the header word of a packet, and the status word of a slot.
//! 3. [`completer`]: the transition that writes a message to a mailbox, for the holder of the NIC's lock.
//! 4. [`slots`]: the words of a mailbox, and the order in which both ends store them.
//! 5. [`mailbox`]: the receiver, without the lock. [`reassembly`]: messages whose store an interrupt has split.
//!
//! [`command`] makes a NIC's command from a message. [`ports`] opens VPIDs, with [`options`]; [`recover`] repairs the
//! mailboxes after a holder of the lock has died.

pub mod address;
pub mod command;
pub mod completer;
pub mod header;
pub mod mailbox;
pub mod options;
pub mod ports;
pub mod reassembly;
pub mod recover;
pub mod requester;
pub mod slots;

pub use address::{AddressError, Page, RequesterAddress};
pub use command::Outgoing;
pub use completer::{Received, Velo, VeloMessage};
pub use header::{Endpoint, Extent, Header, Label, Malformed, Status};
pub use mailbox::Mailbox;
pub use ports::{PortError, PortId, Ports};
pub use reassembly::{Reassembler, ReassemblyError};
pub use requester::{Store, StoreError};

const _: () = {
    assert!(header::MESSAGE_BYTES_MAX == crate::limits::VELO_BYTES_MAX);
    assert!(slots::SLOT_WORDS == crate::signals::SLOT_WORDS);
};
