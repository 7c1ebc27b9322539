// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dumps of a link, phit by phit, and their check (seed 002, section 2.5).
//!
//! A dump is text. It shows one direction of a link at the end of its sender: the flits that the sender puts on the
//! wire, and the control characters that reach it. Times are virtual, in picoseconds; that of a flit is its begin.
//!
//! ```text
//! selvedge-phits 1
//! link FROM TO                  names without blanks
//! flit_ps N                     time of a flit on the wire
//! latency_ps N                  of the link
//! buffer_flits N                buffer of each virtual channel at the receiver
//! flow credits|stop-continue
//! unit flit|packet              what a STOP lets the sender end
//! timeout_ps N|none             retransmission
//! TIME data VC SEQUENCE head|body|tail|only MESSAGE CRC [lost]
//! TIME credit VC FLITS CRC      room for flits
//! TIME stop|continue VC CRC
//! TIME ack|retry SEQUENCE CRC   all flits up to this one have arrived; this flit and those after it again
//! TIME timeout SEQUENCE         the sender sends this flit and those after it again
//! TIME take VC FLITS            flits have left the buffer at the receiver
//! TIME down|up                  the link fails, or is repaired
//! TIME end
//! ```
//!
//! `lost` marks a flit that the wire does not deliver; flits that are on the wire when the link fails have no mark, and
//! are not shown again when it is repaired. A CRC is the CRC-32C of the words between time and CRC with a
//! blank between them; that of a damaged flit is wrong. Records are in the order of time; of one time, control
//! characters come first.
//!
//! * [`dump`]: an observer that writes a dump. [`check`]: finds the first violation of the protocol in one.

pub mod check;
pub mod dump;

/// First word of a dump, and the version of its format.
const MAGIC: &str = "selvedge-phits";
const VERSION: u32 = 1;

/// The checksum of a record.
fn crc(words: &str) -> u32 {
    crc32c::crc32c(words.as_bytes())
}

#[cfg(test)]
#[path = "phits_tests.rs"]
mod tests;
