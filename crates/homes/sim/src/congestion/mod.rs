// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion control: how fast a node may send to each of its destinations.
//!
//! | file | subject |
//! |---|---|
//! | `config` | the controls and their parameters |
//! | `header` | the part of a packet's header that a control reads and writes |
//! | `window` | a sender's window under ECN: DCTCP's estimate, Swift's windows below a packet |
//! | `credits` | a receiver that hands out credits, and what a sender does with them: as NDP and EQDS |
//! | `flow` | the packets of a node for one destination, and their permission to leave |
//! | `endpoint` | a node: its flows in turn, its control packets, its timers |
//!
//! Everything here is state of one node. It changes by packets that the node injects, by packets that arrive at it, and
//! by its own timers; it knows no other node and no switch. `network/edges.rs` joins it to the fabric, and switches mark
//! packets in `network/adaptive.rs`. docs/design/congestion.md has formulas and sources.
//!
//! # Invariants
//!
//! 1. Packets of one flow leave in the order in which they were injected.
//! 2. A packet that the fabric delivers or loses gives its flits back to the window or to the receiver's credit, once.
//! 3. Flits that a flow waits to send = credit + announced flits without credit + flits not announced + free flits.
//!
//! # Costs
//!
//! ECN: one control packet for each packet. Receiver: one credit for each full packet beyond the unsolicited window, and
//! a request for many. Bytes: about 200 for each flow in use.

mod config;
mod credits;
mod endpoint;
mod flow;
mod header;
mod window;

pub use config::{CongestionConfig, Control, Ecn, ReceiverDriven};
pub(crate) use endpoint::{Endpoint, Rules};
pub use header::{Header, Kind};
