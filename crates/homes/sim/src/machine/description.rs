// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The description of a machine, as in its file: one struct for each table of the TOML, one field for each key.
//!
//! Every number is a [`Figure`] and may name its source. Units are in the names: `_ns` nanoseconds, `_bytes` bytes,
//! `_MBps` millions of bytes a second. An optional number defaults to 0 unless noted: no cost, or no such feature.

#![allow(non_snake_case)] // MBps is how the unit is written

use std::collections::BTreeMap;

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
    /// Default: no congestion control.
    pub congestion: Option<CongestionTable>,
    pub host: HostTable,
    pub nic: NicTable,
    /// Units of a node, by name. Without any, the node is derived from the keys of `host` and `nic`.
    #[serde(default)]
    pub unit: BTreeMap<String, UnitTable>,
    /// Paths through the units, by class of message. A class without a path gets the derived one.
    #[serde(default)]
    pub path: BTreeMap<String, PathTable>,
    pub atu: Option<AtuTable>,
    pub interface: Option<InterfaceTable>,
    pub aggregation: Option<AggregationTable>,
    #[serde(default)]
    pub limits: LimitsTable,
    /// Published results of the machine, for the reader and for `selvedge validate`. The model does not read them.
    #[serde(default)]
    pub published: toml::Table,
}

/// The topology. Each kind has its own keys.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyTable {
    /// mesh, torus, hypercube, fat-tree, dragonfly, dragonfly-plus, hyperx, slim-fly, crossbar, file.
    pub kind: String,
    /// mesh, torus, hyperx: routers in each dimension.
    pub dimensions: Option<Vec<Figure>>,
    /// torus: whether each dimension wraps round; default: all.
    pub wrap: Option<Vec<bool>>,
    /// hyperx: links between two routers of a line, in each dimension; fat-tree: links to each parent, of each level
    /// below the top. Default: 1.
    pub trunks: Option<Vec<Figure>>,
    /// slim-fly: the order of its field.
    pub q: Option<Figure>,
    /// mesh, torus, hypercube, dragonfly, hyperx, slim-fly, file (GraphML without hosts).
    pub nodes_per_router: Option<Figure>,
    /// hypercube: log2 of its routers.
    pub order: Option<Figure>,
    /// fat-tree, in place of levels, radix and taper: children of a switch of each level, from the leaves to the top,
    /// and parents of a switch of each level below the top.
    pub children: Option<Vec<Figure>>,
    pub parents: Option<Vec<Figure>>,
    /// fat-tree: 2 or more.
    pub levels: Option<Figure>,
    /// fat-tree: ports of a switch.
    pub radix: Option<Figure>,
    /// fat-tree: the ratio of ports down and ports up at a leaf, as two numbers.
    pub taper: Option<Vec<Figure>>,
    /// fat-tree (default: the maximum), crossbar.
    pub nodes: Option<Figure>,
    pub groups: Option<Figure>,
    pub routers_per_group: Option<Figure>,
    pub global_links_per_router: Option<Figure>,
    /// dragonfly-plus, with groups.
    pub leaves_per_group: Option<Figure>,
    pub spines_per_group: Option<Figure>,
    pub nodes_per_leaf: Option<Figure>,
    pub global_links_per_spine: Option<Figure>,
    /// file: the path of the graph, relative to this file; GraphML, if it ends in .graphml.
    pub file: Option<String>,
    /// Ports of a node to the fabric. Default: 1.
    pub rails: Option<Figure>,
    /// packed (default): rails of a node on neighbouring ports; rail-optimised: rail k of a group of nodes on neighbouring
    /// ports; planes: rail k in copy k of the fabric.
    pub rail_layout: Option<String>,
    /// rail-optimised: nodes of a group. Default: as many as a leaf has ports to nodes.
    pub rail_group: Option<Figure>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutingTable {
    pub algorithm: String,
    /// ugal-l, ugal-g, progressive: a minimal route is taken as long as its queue exceeds that of a detour by no more
    /// than this. Default: the flits of a packet.
    pub bias_flits: Option<Figure>,
    /// hash (default), round-robin, striped: how a message chooses among the rails of its node.
    pub rail_choice: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkTable {
    pub bandwidth_MBps: Figure,
    pub latency_ns: Figure,
    /// Unit of flow control: a credit is room for one flit.
    pub flit_bytes: Figure,
    /// Overhead of each flit, within its size: framing and CRC. Default: 0.
    pub flit_overhead_bytes: Option<Figure>,
    /// full (default): the last flit of a packet takes the time of a full one; short: that of its own bytes.
    pub last_flit: Option<String>,
    /// Overhead of each packet: routing, command, checksums.
    #[serde(default)]
    pub header_bytes: Figure,
    /// Overhead of each message, independent of its packets: frames that it has once.
    #[serde(default)]
    pub frame_bytes: Figure,
    /// Longest payload of one packet.
    pub packet_bytes: Figure,
    /// Default: 1.
    #[serde(default = "one")]
    pub virtual_channels: Figure,
    /// Buffer of each virtual channel of an input.
    pub buffer_flits: Figure,
    /// credits (default), stop-continue: flow control between routers.
    pub flow_control: Option<String>,
    /// stop-continue: the fill at which the receiver asks for a STOP (default: the highest that is safe), and for a
    /// CONTINUE (default: half of it).
    pub stop_flits: Option<Figure>,
    pub continue_flits: Option<Figure>,
    /// Other speeds of some links: those between nodes and routers; those within groups and between groups
    /// (dragonfly, dragonfly-plus, slim-fly); those above each level but the top (fat-tree); those of each dimension
    /// (mesh, torus, hypercube, hyperx). A key that is left out is as above.
    pub node: Option<SpeedTable>,
    pub local: Option<SpeedTable>,
    pub global: Option<SpeedTable>,
    pub levels: Option<Vec<SpeedTable>>,
    pub dimensions: Option<Vec<SpeedTable>>,
    /// Probabilities of errors, for each packet on each link.
    #[serde(default)]
    pub loss: Figure,
    #[serde(default)]
    pub corruption: Figure,
    pub retransmission: Option<RetransmissionTable>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeedTable {
    pub bandwidth_MBps: Option<Figure>,
    pub latency_ns: Option<Figure>,
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
    /// Bandwidth within the switch, as a multiple of a link's, up to a buffer at each output. Default: no such buffer.
    pub speed_up: Option<Figure>,
    /// Output buffer of each virtual channel. Default: link.buffer_flits.
    pub output_flits: Option<Figure>,
}

/// Congestion control of the nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CongestionTable {
    /// none, ecn, receiver.
    pub control: String,
    /// Payload of echoes, requests and credits. Default: 8.
    pub control_bytes: Option<Figure>,
    /// ecn: the largest window of a sender for a destination. Default: twice what the path holds. receiver: the most
    /// credit of a receiver that is out. Default: what the path holds, and two packets.
    pub window_flits: Option<Figure>,
    /// Time after which a sender counts a packet as lost. Default: 100,000.
    pub timeout_ns: Option<Figure>,
    /// ecn: a switch marks a packet if more flits wait for its output. Default: four packets, and what a link holds.
    pub mark_flits: Option<Figure>,
    /// ecn: weight of the last round in the estimate of the share of marked flits. Default: 1/16.
    pub gain: Option<Figure>,
    /// ecn: flits by which a window grows in a round trip without marks. Default: a packet.
    pub increase_flits: Option<Figure>,
    /// receiver: flits that a flow sends without credit in a round trip. Default: what the path holds.
    pub unsolicited_flits: Option<Figure>,
}

/// Costs of the processor, its bus and its memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTable {
    /// The library above the NIC, for each message sent.
    #[serde(default)]
    pub software_send_ns: Figure,
    /// The library above the NIC, for each message received.
    #[serde(default)]
    pub software_receive_ns: Figure,
    /// A write to the device that starts a command, until the device has it.
    pub doorbell_ns: Figure,
    /// A read of the device, or a command with an answer.
    #[serde(default)]
    pub round_trip_ns: Figure,
    /// Start-up of a write of payload to the device, until the device has it.
    #[serde(default)]
    pub pio_write_ns: Figure,
    #[serde(default)]
    pub pio_MBps: Figure,
    /// Longest payload that travels with the command, and in the header of the first packet.
    #[serde(default)]
    pub pio_bytes_max: Figure,
    /// Start-up of a transfer from memory to the NIC.
    pub dma_read_ns: Figure,
    /// Start-up of a transfer from the NIC to memory.
    pub dma_write_ns: Figure,
    pub dma_MBps: Figure,
    #[serde(default)]
    pub interrupt_ns: Figure,
    #[serde(default)]
    pub system_call_ns: Figure,
    /// An access to memory, for instance to a cache line that the NIC has written.
    pub memory_access_ns: Figure,
    pub copy_MBps: Figure,
    /// The caches, smallest first.
    #[serde(default)]
    pub caches: Vec<CacheTable>,
    /// One poll of a counter or an event queue that finds nothing. Default: 10.
    #[serde(default = "ten")]
    pub poll_ns: Figure,
    /// One reading of the clock. Default: 20.
    #[serde(default = "twenty")]
    pub clock_read_ns: Figure,
    /// nic: ranks of one node reach each other through their NIC; memory: in memory. Default: nic.
    #[serde(default = "nic")]
    pub same_node: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheTable {
    pub bytes: Figure,
    pub access_ns: Figure,
}

/// The NIC: the place of matching, and the cost of each `nic::Step`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicTable {
    /// nic: the NIC itself; host: the host's processor, after an interrupt.
    pub mode: String,
    /// hash, list.
    pub matching: String,
    /// 1 (default): sending and receiving share one engine; 2: each has its own.
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
    /// One turn of the firmware's polling loop; new work waits for half a turn on average.
    #[serde(default)]
    pub polling_loop_ns: Figure,
    /// Size of a list entry, for the caches in host mode. Default: 128.
    #[serde(default = "entry_bytes")]
    pub entry_bytes: Figure,
    /// Sources whose long messages can arrive at the same time; 0: any number.
    #[serde(default)]
    pub streams_max: Figure,
    /// Room of each virtual channel that ends at the node. Default: a node accepts every packet.
    pub receive_flits: Option<Figure>,
    /// Pause of a sender between a refusal and its next attempt. Default: 10,000.
    #[serde(default = "retry_ns")]
    pub retry_ns: Figure,
    /// Treatment of a VELO message whose mailbox is full. drop (default): it is lost, and counted. block: the NIC takes
    /// nothing more from the fabric until it fits. credits: a sender has no more messages under way than fit.
    pub full_mailbox: Option<String>,
}

/// The path of commands from a program to its NIC: docs/design/machine-model.md. Missing keys are derived from `host`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceTable {
    /// classical, trigger-page, io-transaction, cfcq, cfcq-data, os-synchronised, enqcmd, kernel, kernel-interrupt.
    pub way: String,
    /// Commands that the NIC's queue holds. Default: 16.
    pub places: Option<Figure>,
    /// Messages of its programs that the NIC has taken and that wait for the fabric. Default: 8.
    pub outgoing: Option<Figure>,
    /// Units of a posted write to the NIC, of a read or a write with an answer, and of the answer.
    pub posted: Option<Vec<String>>,
    pub request: Option<Vec<String>>,
    pub answer: Option<Vec<String>>,
    /// Units of the NIC's read of the rest of a command from memory.
    pub fetch: Option<Vec<String>>,
    /// Time to take the command from the NIC's queue before that read. Default: 0.
    pub dequeue_ns: Option<Figure>,
    /// The kernel's part of a call, to send and to receive. Default: host.system_call_ns.
    pub kernel_ns: Option<Figure>,
    /// Part of it under the driver's lock. Default: 0.
    pub driver_ns: Option<Figure>,
    /// From an interrupt until the program that waits for it runs. Default: 0.
    pub wake_ns: Option<Figure>,
    /// Pause before a refused command is offered again. Default: 0.
    pub retry_ns: Option<Figure>,
    /// Stores of more than 16 bytes that an interrupt splits in two, per million. Default: 0.
    pub splits_ppm: Option<Figure>,
}

/// A unit of a node; or, with `of`, other costs of a unit for some paths.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitTable {
    /// Time through the unit.
    pub latency_ns: Figure,
    /// From the begin of an item to that of the next. Default: the latency.
    pub interval_ns: Option<Figure>,
    /// Its bandwidth. Default: bytes take no time.
    pub MBps: Option<Figure>,
    /// Items that may wait before it. Default: 0, any number.
    pub queue: Option<Figure>,
    /// processor: the processor of a rank's program.
    pub on: Option<String>,
    /// The actual unit: paths that name this one pass that unit at these costs.
    pub of: Option<String>,
    /// It interrupts the node's processor. Default: false.
    #[serde(default)]
    pub interrupt: bool,
    /// The unit keeps a message until the last byte has left the node; the interval begins there. At a target: the
    /// answer's last byte. Default: false.
    #[serde(default)]
    pub until_sent: bool,
    /// In `header`: the message's bytes pass through it, delayed by its latency. Default: false.
    #[serde(default)]
    pub carries_data: bool,
}

/// The path of a class of messages: the units of each stage, in order.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathTable {
    /// Longest payload that travels with the command. Default: 0, all is read from memory.
    pub inline_bytes: Option<Figure>,
    /// Bytes on the wire beside the payload, without the link's overhead. Default: 0.
    pub frame_bytes: Option<Figure>,
    /// Size of the items in which the payload is written. Default: one item.
    pub slot_bytes: Option<Figure>,
    #[serde(default)]
    pub issue: Vec<String>,
    #[serde(default)]
    pub command: Vec<String>,
    #[serde(default)]
    pub read: Vec<String>,
    #[serde(default)]
    pub header: Vec<String>,
    #[serde(default)]
    pub packet: Vec<String>,
    #[serde(default)]
    pub write: Vec<String>,
    #[serde(default)]
    pub notify: Vec<String>,
    #[serde(default)]
    pub receive: Vec<String>,
}

/// The address translation unit: the unit of the graph, and the costs of a translation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtuTable {
    pub unit: String,
    /// With the entry in the TLB.
    pub hit_ns: Figure,
    pub hit_interval_ns: Figure,
    /// With an entry read from its table in memory.
    pub miss_ns: Figure,
    pub miss_interval_ns: Figure,
}

/// Aggregation nodes in the switches. Their costs are the paths `aggregation_request`, `aggregation`,
/// `aggregation_result` and `aggregation_multicast`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregationTable {
    /// Trees that a node is part of. Default: 64.
    pub trees: Option<Figure>,
    /// Children of a group at a node. Default: as many as the largest switch has ports.
    pub children: Option<Figure>,
    /// Operations of a group that may be under way. Default: 16.
    pub credits: Option<Figure>,
    /// Longest payload of a request. Default: 256.
    pub payload_bytes: Option<Figure>,
    /// Inner ports between a switch and its node, each with units of its own. With one for each port of the switch,
    /// each link of the switch has its own. Default: 1.
    #[serde(default = "one")]
    pub ports: Figure,
    /// How results reach members: `tree`, `multicast` or `both`. Default: `tree`.
    pub distribution: Option<String>,
}

/// Sizes of the tables of each simulated NIC; 0 or missing: as the program needs.
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
    /// The longest VELO message.
    pub velo_bytes: Option<Figure>,
    pub mailbox_slots: Option<Figure>,
    /// Entries of the TLB, and entries that an address may be in.
    pub tlb_entries: Option<Figure>,
    pub tlb_ways: Option<Figure>,
    /// Failing lock requests of the RMA unit that a NIC keeps until they succeed; 0: none.
    pub lock_waiters: Option<Figure>,
}

fn one() -> Figure {
    Figure::of(1.0)
}

fn nic() -> String {
    "nic".to_owned()
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
