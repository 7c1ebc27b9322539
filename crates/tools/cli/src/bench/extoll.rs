// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The EXTOLL group: its cases, their baselines, and its page `benchmarks-extoll.md`.
//!
//! The programs are in `bench/extoll`. `units.c` has latency by size for messages, puts and gets (figures 9-1 and 9-4
//! of seed 002), message rate (table 9-3), bandwidth by size (9-5), locks, and memory registration; `protocols.c` has
//! the overlap of puts and gets with computation (9-6) and the protocols of MPI (9-7, 9-8). The peers are the raw line,
//! which is the floor of every half round trip, and UCX's active messages.

use super::cases::{Case, Runner, Varies, case, in_turns};
use super::plots::{BANDWIDTH_BY_SIZE, PlotOf, TIME_BY_SIZE};
use super::record::{Counterpart, Figure, Rule, rule, two_crossings};
use super::subject::Subject;

const UNITS: Runner = Runner::Ranks { program: "extoll/units", processes: &[2], environment: &[] };

const PROTOCOLS: Runner = Runner::Ranks { program: "extoll/protocols", processes: &[2], environment: &[] };
const HOST: Runner =
    Runner::Ranks { program: "extoll/protocols", processes: &[2], environment: &[("SELVEDGE_MODE", "host")] };

/// An overlap case, with the time without computation.
const fn overlap(name: &'static str, about: &'static str, runner: Runner, alone: &'static [&'static str]) -> Case {
    Case { yields: alone, ..case(name, about, runner, Varies::LatencySizes) }
}

pub const CASES: &[Case] = &[
    in_turns("extoll_raw", "half a round trip of one cache line: the floor", Runner::Raw, Varies::Nothing),
    in_turns("extoll_velo", "half a round trip of VELO messages", UNITS, Varies::ShortSizes),
    in_turns("extoll_velo_rate", "8-byte VELO messages a second, one way", UNITS, Varies::Nothing),
    in_turns("extoll_put", "half a round trip of puts with a notification", UNITS, Varies::LatencySizes),
    in_turns("extoll_put_polled", "the same, 8 bytes, the target polls its memory", UNITS, Varies::Nothing),
    in_turns("extoll_immediate_put", "the same, 8 bytes in the command", UNITS, Varies::Nothing),
    in_turns("extoll_notification_put", "half a round trip of a notification's value", UNITS, Varies::Nothing),
    in_turns("extoll_get", "a whole get from a target that does not call the library", UNITS, Varies::LatencySizes),
    in_turns("extoll_lock", "a whole fetch, compare and add, likewise", UNITS, Varies::Nothing),
    case("extoll_put_bandwidth", "large puts, one after the other", UNITS, Varies::BandwidthSizes),
    case("extoll_get_bandwidth", "large gets, one after the other", UNITS, Varies::BandwidthSizes),
    Case {
        yields: &["extoll_unregister"],
        ..case("extoll_register", "registering and unregistering 1 and 1000 pages", UNITS, Varies::Nothing)
    },
    in_turns(
        "extoll_protocol_tiny",
        "half a round trip by MPI's protocols: one VELO message",
        PROTOCOLS,
        Varies::ProtocolSizes,
    ),
    in_turns("extoll_protocol_small", "the same, several VELO messages", PROTOCOLS, Varies::ProtocolSizes),
    in_turns("extoll_protocol_medium", "the same, a put into a ring, and two copies", PROTOCOLS, Varies::ProtocolSizes),
    in_turns("extoll_protocol_long", "the same, a get where the message is wanted", PROTOCOLS, Varies::ProtocolSizes),
    overlap(
        "extoll_overlap_put",
        "a put between two fences, with as much computing as it takes without",
        PROTOCOLS,
        &["extoll_overlap_put:alone"],
    ),
    overlap("extoll_overlap_get", "the same of a get", PROTOCOLS, &["extoll_overlap_get:alone"]),
    overlap(
        "extoll_overlap_put_host",
        "a put that the target's process carries out, likewise",
        HOST,
        &["extoll_overlap_put_host:alone"],
    ),
    overlap("extoll_overlap_get_host", "the same of a get", HOST, &["extoll_overlap_get_host:alone"]),
    in_turns("extoll_ucx:am_lat", "UCX active message, half a round trip", Runner::Ucx, Varies::Nothing),
    in_turns("extoll_ucx:am_rate", "UCX 8-byte active messages a second", Runner::Ucx, Varies::Nothing),
];

pub const RULES: &[Rule] = &[
    rule("extoll_velo", "extoll_raw", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("extoll_velo", "extoll_ucx:am_lat", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("extoll_velo_rate", "extoll_ucx:am_rate", Figure::Rate, Counterpart::Only),
    rule("extoll_put", "extoll_raw", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("extoll_put_polled", "extoll_raw", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("extoll_immediate_put", "extoll_raw", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("extoll_notification_put", "extoll_raw", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("extoll_protocol_tiny", "extoll_raw", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("extoll_protocol_small", "extoll_raw", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("extoll_protocol_medium", "extoll_protocol_small", Figure::Time, Counterpart::SameSize),
    rule("extoll_protocol_long", "extoll_protocol_medium", Figure::Time, Counterpart::SameSize),
    rule("extoll_overlap_put", "extoll_overlap_put:alone", Figure::Time, Counterpart::SameSize),
    rule("extoll_overlap_get", "extoll_overlap_get:alone", Figure::Time, Counterpart::SameSize),
    rule("extoll_overlap_put_host", "extoll_overlap_put_host:alone", Figure::Time, Counterpart::SameSize),
    rule("extoll_overlap_get_host", "extoll_overlap_get_host:alone", Figure::Time, Counterpart::SameSize),
    two_crossings("extoll_get", "extoll_raw"),
    two_crossings("extoll_lock", "extoll_raw"),
];

// ---- the page ----

pub const SUBJECTS: &[Subject] = &[
    Subject {
        title: "Registration",
        about: "One region, registered and unregistered; depth is its number of pages.",
        has: |case| case.ends_with("register"),
        plots: &[],
    },
    Subject {
        title: "Bandwidth",
        about: "One operation after the other, in one buffer. A get ends with its notification, a put with the requester's.",
        has: |case| case.ends_with("bandwidth"),
        plots: &[PlotOf {
            name: "extoll-bandwidth",
            title: "Bandwidth",
            cases: &["extoll_put_bandwidth", "extoll_get_bandwidth"],
            ..BANDWIDTH_BY_SIZE
        }],
    },
    Subject {
        title: "Overlap",
        about: "A put or get between two fences (figure 9-6 of seed 002). Between it and the second fence its initiator computes as long \
                as the whole takes without computing, `:alone`. A ratio of 1 hides all computing, a ratio of 2 nothing: the figure's \
                overlap is 2 less the ratio. In `_host` cases the target's process carries out what arrives, in its calls. In the \
                others the initiator's does, so only waiting is left to hide.",
        has: |case| case.contains("overlap"),
        plots: &[],
    },
    Subject {
        title: "Protocols",
        about: "Half a round trip by the protocols for MPI messages (section 8.6; figures 9-7 and 9-8), each with a header of 8 bytes. Tiny: one VELO \
                message. Small: several. Medium: a copy, a put into a ring with a completer notification, a copy. Long: a VELO message, and a get \
                between registered buffers.",
        has: |case| case.contains("protocol"),
        plots: &[PlotOf {
            name: "extoll-protocols",
            title: "Half a round trip by protocols",
            cases: &["extoll_protocol_tiny", "extoll_protocol_small", "extoll_protocol_medium", "extoll_protocol_long"],
            ..TIME_BY_SIZE
        }],
    },
    Subject {
        title: "Message rate",
        about: "One process sends as fast as the other receives; the time is that of one message.",
        has: |case| case.ends_with("rate"),
        plots: &[],
    },
    Subject {
        title: "Latency",
        about: "Half a round trip, except `get` and `lock`, which are whole operations on a target that does not call the library. \
                Messages beyond 120 bytes go in pieces. In `polled` and `immediate` the target polls its memory; in the others it \
                waits for a message or a notification.",
        has: |_| true,
        plots: &[PlotOf {
            name: "extoll-latency",
            title: "Half a round trip; a whole get",
            cases: &["extoll_velo", "extoll_put", "extoll_get"],
            ..TIME_BY_SIZE
        }],
    },
];
