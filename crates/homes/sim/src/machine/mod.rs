// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine: the description of a TOML file, checked and ready to simulate.
//!
//! | file | subject |
//! |---|---|
//! | [`figure`] | a number with its source |
//! | [`description`] | the file, key by key |
//! | [`load`] | reads and checks the file |
//! | `topology` | its section `[topology]` |
//! | `rails` | rails of nodes, in its sections `[topology]` and `[routing]` |
//! | `speeds` | links of other speeds, in its section `[link]` |
//! | `base` | a file that extends another |
//! | `congestion` | congestion control of the nodes |
//! | [`graph`] | a node as a graph of units, and the paths of messages through it |
//! | `derive` | the graph of a machine whose file names no units |
//! | [`interface`] | the path of commands from a program to its NIC |
//! | `assemble` | the units and paths that a file names |
//! | `names` | units by the names that a file gives them |
//! | `costs` | costs of host and NIC, and the sizes of their tables |
//! | `error` | errors in a description: file, line, remedy |
//!
//! The simulation reads the times and rates of this module. Each comes from exactly one key of the description.

mod assemble;
mod base;
mod congestion;
mod costs;
mod derive;
pub mod description;
mod error;
pub mod figure;
pub mod graph;
mod graphml;
pub mod interface;
pub mod load;
mod names;
mod rails;
mod speeds;
mod topology;

use std::sync::Arc;

use selvedge_fabric::{Routing, Topology};

use crate::network::NetworkConfig;
use crate::time::Time;

pub use costs::{AggregationModel, FullMailbox, Host, Matching, Mode, NicModel, SameNode, TableLimits};
pub use error::MachineError;
use graph::{Class, Graph};
pub use graphml::GraphmlError;
use interface::Interface;

/// A machine, ready to simulate.
#[derive(Clone)]
pub struct Machine {
    pub name: String,
    pub about: String,
    pub topology: Arc<Topology>,
    pub routing: Routing,
    pub network: NetworkConfig,
    pub host: Host,
    pub nic: NicModel,
    /// The units of a node, and the paths of messages through them.
    pub graph: Graph,
    /// The path of commands from a program to its NIC. `None`: `issue` of a path has it.
    pub interface: Option<Interface>,
    pub limits: TableLimits,
    /// Capacity of the aggregation nodes in its switches. `None`: its switches do not reduce.
    pub aggregation: Option<AggregationModel>,
    /// The description of the machine.
    pub description: Arc<description::Description>,
}

impl Machine {
    /// Returns the cost of a search that compares `entries` entries of a list of `length`. In host mode each also costs
    /// an access.
    pub fn search(&self, entries: u64, length: u64) -> Time {
        let each = match self.nic.mode {
            Mode::Nic => self.nic.entry_search,
            Mode::Host => self.nic.entry_search + self.host.access(length.saturating_mul(self.nic.entry_bytes)),
        };
        each * entries
    }

    /// Whether all messages between two nodes arrive in the order of sending, and none is refused.
    pub fn keeps_order(&self) -> bool {
        let errors = &self.network.errors;
        self.routing.deadlock_free()
            && self.routing.has_one_route()
            && (self.topology.rails().count() == 1 || self.network.rail_choice.keeps_order())
            && errors.loss == 0.0
            && errors.corruption == 0.0
            && self.nic.streams_max == 0
    }

    /// Returns the cost of a call that changes the NIC's tables and has an answer, such as appending an entry.
    pub fn local_command(&self) -> Time {
        match self.nic.mode {
            Mode::Nic => self.host.round_trip,
            Mode::Host => self.host.system_call + self.nic.command,
        }
    }

    /// Returns the time of a message in memory, for its sender's processor: the library, and one copy.
    pub fn copied(&self, payload_bytes: u64) -> Time {
        self.host.software_send + Time::of_bytes(payload_bytes, self.host.copy_bytes_per_s)
    }

    /// Returns the time from the program's call until the NIC has the command of a Portals operation with n bytes of
    /// payload, if nothing else is under way.
    pub fn issue(&self, payload_bytes: u64) -> Time {
        self.issue_of(Class::Request, payload_bytes)
    }

    /// Like [`Machine::issue`], of a message of any class. A payload that is read later costs no bytes here.
    pub fn issue_of(&self, class: Class, payload_bytes: u64) -> Time {
        let path = self.graph.path(class);
        let reads = path.reads(payload_bytes);
        let stage = &path.issue[usize::from(reads)];
        let inline = if reads { 0 } else { payload_bytes };
        let program: Time = stage.iter().map(|pass| pass.before + pass.latency + pass.bytes(inline)).sum();
        program + self.interface.as_ref().map_or(Time::ZERO, |interface| interface.start(payload_bytes))
    }
}
