// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine as its file describes it: one struct for each table of the TOML, one field for each key.
//!
//! Every number is a [`Figure`] and may name its source. Units are in the names: `_ns` nanoseconds, `_bytes` bytes, `_MBps`
//! millions of bytes a second. Optional numbers default to 0, which means: costs nothing, or does not apply.

#![allow(non_snake_case)] // MBps is how the unit is written

use serde::Deserialize;

use super::figure::Figure;

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    pub name: String,
    #[serde(default)]
    pub about: String,
    pub topology: TopologyTable,
    pub routing: RoutingTable,
    pub link: LinkTable,
    pub switch: SwitchTable,
    pub host: HostTable,
    pub nic: NicTable,
    #[serde(default)]
    pub limits: LimitsTable,
    /// What was published about the machine. For the reader and for `selvedge validate`; the model never sees it.
    #[serde(default)]
    pub published: toml::Table,
}

/// Which nodes and routers there are. Each kind has its own keys.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyTable {
    /// mesh, torus, hypercube, fat-tree, dragonfly, crossbar, file.
    pub kind: String,
    /// mesh, torus: routers in each dimension.
    pub dimensions: Option<Vec<Figure>>,
    /// torus: which dimensions close to a ring; all, where it is left out.
    pub wrap: Option<Vec<bool>>,
    /// mesh, torus, hypercube, dragonfly.
    pub nodes_per_router: Option<Figure>,
    /// hypercube: log2 of its routers.
    pub order: Option<Figure>,
    /// fat-tree: 2 or 3.
    pub levels: Option<Figure>,
    /// fat-tree: ports of a switch.
    pub radix: Option<Figure>,
    /// fat-tree: ports down for so many up, at a leaf.
    pub taper: Option<Vec<Figure>>,
    /// fat-tree (else as many as fit), crossbar.
    pub nodes: Option<Figure>,
    pub groups: Option<Figure>,
    pub routers_per_group: Option<Figure>,
    pub global_links_per_router: Option<Figure>,
    /// file: the graph's file, beside this one.
    pub file: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutingTable {
    pub algorithm: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkTable {
    pub bandwidth_MBps: Figure,
    pub latency_ns: Figure,
    /// The unit of flow control: a credit is room for one flit.
    pub flit_bytes: Figure,
    /// Of each packet: routing, command, checksums.
    #[serde(default)]
    pub header_bytes: Figure,
    /// The most payload of one packet.
    pub packet_bytes: Figure,
    #[serde(default = "one")]
    pub virtual_channels: Figure,
    /// Of each virtual channel of an input.
    pub buffer_flits: Figure,
    /// Probabilities, for each packet and link.
    #[serde(default)]
    pub loss: Figure,
    #[serde(default)]
    pub corruption: Figure,
    pub retransmission: Option<RetransmissionTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetransmissionTable {
    pub timeout_ns: Figure,
    pub window_flits: Figure,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchTable {
    pub latency_ns: Figure,
    /// round-robin, fifo.
    pub arbitration: Option<String>,
    /// cut-through, wormhole.
    pub switching: Option<String>,
}

/// What the processor pays, and what its bus and memory do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTable {
    /// The library above the NIC, for each message sent.
    #[serde(default)]
    pub software_send_ns: Figure,
    /// ... and received.
    #[serde(default)]
    pub software_receive_ns: Figure,
    /// A write to the device that starts a command, until the device has it.
    pub doorbell_ns: Figure,
    /// A read of the device, or a command whose answer is waited for.
    #[serde(default)]
    pub round_trip_ns: Figure,
    /// Start-up of a write of payload to the device, until the device has it.
    #[serde(default)]
    pub pio_write_ns: Figure,
    #[serde(default)]
    pub pio_MBps: Figure,
    /// Payload up to so many bytes travels with the command, and inside the first packet's header.
    #[serde(default)]
    pub pio_bytes_max: Figure,
    /// Start-up of a transfer from memory to the NIC.
    pub dma_read_ns: Figure,
    /// ... from the NIC to memory.
    pub dma_write_ns: Figure,
    pub dma_MBps: Figure,
    #[serde(default)]
    pub interrupt_ns: Figure,
    #[serde(default)]
    pub system_call_ns: Figure,
    /// A cache line that the NIC has written.
    pub memory_access_ns: Figure,
    pub copy_MBps: Figure,
    /// Smallest first.
    #[serde(default)]
    pub caches: Vec<CacheTable>,
    /// One look at a counter or an event that is not there.
    #[serde(default = "ten")]
    pub poll_ns: Figure,
    /// One reading of the clock.
    #[serde(default = "twenty")]
    pub clock_read_ns: Figure,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheTable {
    pub bytes: Figure,
    pub access_ns: Figure,
}

/// Who matches, and what each step of `nic::Step` costs there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicTable {
    /// nic: the NIC itself; host: the host's processor, after an interrupt.
    pub mode: String,
    /// hash, list.
    pub matching: String,
    /// 1: sending and receiving share one engine; 2: each has its own.
    #[serde(default = "one")]
    pub processors: Figure,
    /// Taking a command.
    pub command_ns: Figure,
    /// Taking a packet's header.
    pub header_ns: Figure,
    pub entry_search_ns: Figure,
    #[serde(default)]
    pub table_access_ns: Figure,
    /// Programming a transfer.
    #[serde(default)]
    pub transfer_ns: Figure,
    #[serde(default)]
    pub event_ns: Figure,
    #[serde(default)]
    pub counter_ns: Figure,
    /// One turn of a loop that looks for work; half of it is waited on average.
    #[serde(default)]
    pub polling_loop_ns: Figure,
    /// Of a list entry, for the caches: host mode.
    #[serde(default = "entry_bytes")]
    pub entry_bytes: Figure,
    /// Long messages from distinct sources that can arrive at once; 0: any number.
    #[serde(default)]
    pub streams_max: Figure,
    /// How long after a refusal a sender tries again.
    #[serde(default = "retry_ns")]
    pub retry_ns: Figure,
}

/// Sizes of each simulated NIC's tables; 0 or left out: as the program needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsTable {
    pub entries: Option<Figure>,
    pub headers: Option<Figure>,
    pub descriptors: Option<Figure>,
    pub counters: Option<Figure>,
    pub queues: Option<Figure>,
    pub portals: Option<Figure>,
    pub triggered: Option<Figure>,
}

fn one() -> Figure {
    Figure::of(1.0)
}

fn ten() -> Figure {
    Figure::of(10.0)
}

fn twenty() -> Figure {
    Figure::of(20.0)
}

fn entry_bytes() -> Figure {
    Figure::of(128.0)
}

fn retry_ns() -> Figure {
    Figure::of(10_000.0)
}
