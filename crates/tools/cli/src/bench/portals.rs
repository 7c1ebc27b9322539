// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Portals group: its cases, their baselines and peers, and its page `benchmarks.md`.

use super::cases::{Case, Runner, Varies, case, in_turns};
use super::plots::{BANDWIDTH_BY_SIZE, PlotOf, TIME_BY_DEPTH, TIME_BY_SIZE, TIME_OF_EIGHT_BYTES};
use super::record::{Counterpart, Figure, Rule, rule, two_crossings};
use super::subject::Subject;

const LATENCY: Runner = ranks("latency", &[]);
const BANDWIDTH: Runner = ranks("bandwidth", &[("SELVEDGE_HEAP_BYTES", "268435456")]);
const MATCHING: Runner = ranks("matching", &[]);

const fn ranks(program: &'static str, environment: &'static [(&'static str, &'static str)]) -> Runner {
    Runner::Ranks { program, processes: &[2], environment }
}

const fn mpi(
    name: &'static str,
    about: &'static str,
    family: &'static str,
    what: &'static str,
    varies: Varies,
) -> Case {
    case(name, about, Runner::Mpi { family, what }, varies)
}

pub const CASES: &[Case] = &[
    in_turns(
        "raw_flag",
        "half a round trip of one cache line between two cores: the floor",
        Runner::Raw,
        Varies::Nothing,
    ),
    in_turns("counting_put", "half a round trip, put and counter, shared memory", LATENCY, Varies::LatencySizes),
    case("counting_put_ordinary", "the same, ordinary memory", LATENCY, Varies::LatencySizes),
    in_turns(
        "put_flag",
        "the same without counters: put, fence, flag increment, polling",
        LATENCY,
        Varies::LatencySizes,
    ),
    in_turns("matched_put_event", "half a round trip, match entry and event queue", LATENCY, Varies::Nothing),
    in_turns("get", "8 bytes fetched from a target that does not call the library", LATENCY, Varies::Nothing),
    in_turns("fetch_atomic", "8 bytes fetched and added to, likewise", LATENCY, Varies::Nothing),
    case("message_rate", "8-byte puts a second, 64 in flight", ranks("rate", &[]), Varies::Nothing),
    Case {
        yields: &["memcpy_shared"],
        weight: 2.0,
        ..case("bandwidth_shared", "large puts, shared memory", BANDWIDTH, Varies::BandwidthSizes)
    },
    Case {
        yields: &["memcpy_shared_hot"],
        ..case("bandwidth_shared_hot", "the same, two buffers that stay in the caches", BANDWIDTH, Varies::HotSizes)
    },
    Case {
        yields: &["memcpy_ordinary", "process_vm_writev"],
        weight: 2.0,
        ..case(
            "bandwidth_cma",
            "large puts, ordinary memory, by cross-memory attach",
            ranks("bandwidth", &[("SELVEDGE_PATH", "cma")]),
            Varies::BandwidthSizes,
        )
    },
    case("match_posted", "each message matches the last of Q posted entries", MATCHING, Varies::Depths),
    case("match_unexpected", "each receive matches the last of Q unexpected messages", MATCHING, Varies::Depths),
    Case {
        yields: &["overlap_target:alone", "overlap_target:memcpy"],
        weight: 6.0,
        ..case(
            "overlap_target",
            "what a computing target keeps of its speed under 1 MB puts",
            ranks("overlap", &[("SELVEDGE_MODE", "nic")]),
            Varies::Nothing,
        )
    },
    Case {
        yields: &["overlap_target_host:alone", "overlap_target_host:memcpy"],
        weight: 6.0,
        ..case(
            "overlap_target_host",
            "the same when the target runs its own interface",
            ranks("overlap", &[("SELVEDGE_MODE", "host")]),
            Varies::Nothing,
        )
    },
    Case {
        yields: &["host_barrier"],
        weight: 2.0,
        ..case("triggered_barrier", "barrier by triggered operations, 2 and 4 processes", COLLECTIVES, Varies::Nothing)
    },
    Case {
        yields: &["host_allreduce"],
        weight: 2.0,
        ..case(
            "triggered_allreduce",
            "8-byte sum by triggered operations, 2 and 4 processes",
            COLLECTIVES,
            Varies::Nothing,
        )
    },
    case("ucx:am_lat", "UCX active message, half a round trip", Runner::Ucx, Varies::Nothing),
    case("ucx:put_lat", "UCX put, half a round trip, memory polled", Runner::Ucx, Varies::Nothing),
    case("ucx:am_rate", "UCX 8-byte active messages a second", Runner::Ucx, Varies::Nothing),
    case("ucx:put_bw", "UCX put, one buffer over and over", Runner::Ucx, Varies::HotSizes),
    mpi("openmpi:pingpong", "Open MPI, half a round trip", "openmpi", "pingpong", Varies::LatencySizes),
    mpi("openmpi:bandwidth", "Open MPI, large messages", "openmpi", "bandwidth", Varies::BandwidthSizes),
    mpi("openmpi:match_posted", "Open MPI, the same pattern", "openmpi", "match_posted", Varies::Depths),
    mpi("openmpi:match_unexpected", "Open MPI, the same pattern", "openmpi", "match_unexpected", Varies::Depths),
    mpi("mpich:pingpong", "MPICH, half a round trip", "mpich", "pingpong", Varies::LatencySizes),
    mpi("mpich:bandwidth", "MPICH, large messages", "mpich", "bandwidth", Varies::BandwidthSizes),
    mpi("mpich:match_posted", "MPICH, the same pattern", "mpich", "match_posted", Varies::Depths),
    mpi("mpich:match_unexpected", "MPICH, the same pattern", "mpich", "match_unexpected", Varies::Depths),
];

const COLLECTIVES: Runner = Runner::Ranks { program: "collectives", processes: &[2, 4], environment: &[] };

pub const RULES: &[Rule] = &[
    rule("counting_put", "raw_flag", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("counting_put_ordinary", "raw_flag", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("counting_put_ordinary", "counting_put", Figure::Time, Counterpart::SameSize),
    rule("put_flag", "counting_put", Figure::Time, Counterpart::SameSize),
    rule("matched_put_event", "raw_flag", Figure::Time, Counterpart::OnlyForEightBytes),
    two_crossings("get", "raw_flag"),
    two_crossings("fetch_atomic", "raw_flag"),
    rule("message_rate", "ucx:am_rate", Figure::Rate, Counterpart::Only),
    rule("bandwidth_shared", "memcpy_shared", Figure::Bandwidth, Counterpart::SameSize),
    rule("bandwidth_shared_hot", "memcpy_shared_hot", Figure::Bandwidth, Counterpart::SameSize),
    rule("bandwidth_cma", "memcpy_ordinary", Figure::Bandwidth, Counterpart::SameSize),
    rule("bandwidth_cma", "process_vm_writev", Figure::Bandwidth, Counterpart::SameSize),
    rule("match_posted", "match_posted", Figure::Time, Counterpart::DepthSixteen),
    rule("match_unexpected", "match_unexpected", Figure::Time, Counterpart::DepthSixteen),
    rule("overlap_target", "overlap_target:alone", Figure::Rate, Counterpart::Only),
    rule("overlap_target", "overlap_target:memcpy", Figure::Time, Counterpart::Only),
    rule("overlap_target_host", "overlap_target_host:alone", Figure::Rate, Counterpart::Only),
    rule("overlap_target_host", "overlap_target_host:memcpy", Figure::Time, Counterpart::Only),
    rule("triggered_barrier", "host_barrier", Figure::Time, Counterpart::SameDepth),
    rule("triggered_allreduce", "host_allreduce", Figure::Time, Counterpart::SameDepth),
    rule("ucx:am_lat", "counting_put", Figure::Time, Counterpart::SameSize),
    rule("ucx:put_lat", "counting_put", Figure::Time, Counterpart::SameSize),
    rule("ucx:put_bw", "bandwidth_shared_hot", Figure::Bandwidth, Counterpart::SameSize),
    rule("openmpi:pingpong", "matched_put_event", Figure::Time, Counterpart::SameSizeOfEightBytes),
    rule("openmpi:pingpong", "counting_put_ordinary", Figure::Time, Counterpart::SameSize),
    rule("openmpi:bandwidth", "bandwidth_cma", Figure::Bandwidth, Counterpart::SameSize),
    rule("openmpi:match_posted", "openmpi:match_posted", Figure::Time, Counterpart::DepthSixteen),
    rule("openmpi:match_posted", "match_posted", Figure::Time, Counterpart::SameDepth),
    rule("openmpi:match_unexpected", "openmpi:match_unexpected", Figure::Time, Counterpart::DepthSixteen),
    rule("openmpi:match_unexpected", "match_unexpected", Figure::Time, Counterpart::SameDepth),
    rule("mpich:pingpong", "matched_put_event", Figure::Time, Counterpart::SameSizeOfEightBytes),
    rule("mpich:pingpong", "counting_put_ordinary", Figure::Time, Counterpart::SameSize),
    rule("mpich:bandwidth", "bandwidth_cma", Figure::Bandwidth, Counterpart::SameSize),
    rule("mpich:match_posted", "mpich:match_posted", Figure::Time, Counterpart::DepthSixteen),
    rule("mpich:match_posted", "match_posted", Figure::Time, Counterpart::SameDepth),
    rule("mpich:match_unexpected", "mpich:match_unexpected", Figure::Time, Counterpart::DepthSixteen),
    rule("mpich:match_unexpected", "match_unexpected", Figure::Time, Counterpart::SameDepth),
];

// ---- the page ----

pub const SUBJECTS: &[Subject] = &[
    Subject {
        title: "Matching",
        about: "Messages are sent with descending tags and received with ascending ones, so that an engine that \
                searches its list in order finds each message at the end. Depth is the number of entries or messages; the time is that of \
                one message.",
        has: |case| case.contains("match_posted") || case.contains("match_unexpected"),
        plots: &[
            PlotOf {
                name: "match_unexpected",
                title: "Time per message, last of Q unexpected",
                cases: &["match_unexpected", "openmpi:match_unexpected", "mpich:match_unexpected"],
                ..TIME_BY_DEPTH
            },
            PlotOf {
                name: "match_posted",
                title: "Time per message, last of Q posted",
                cases: &["match_posted", "openmpi:match_posted", "mpich:match_posted"],
                ..TIME_BY_DEPTH
            },
        ],
    },
    Subject {
        title: "Bandwidth",
        about: "Every method takes its buffers in turn from pools of equal length, and the methods take turns in one \
                loop. The `_hot` cases and `ucx:put_bw` use so few buffers that they stay in the caches.",
        has: |case| ["bandwidth", "memcpy_", "process_vm", "put_bw"].iter().any(|part| case.contains(part)),
        plots: &[
            PlotOf {
                name: "bandwidth",
                title: "Bandwidth",
                cases: &[
                    "bandwidth_shared",
                    "memcpy_shared",
                    "bandwidth_cma",
                    "memcpy_ordinary",
                    "process_vm_writev",
                    "openmpi:bandwidth",
                    "mpich:bandwidth",
                ],
                ..BANDWIDTH_BY_SIZE
            },
            PlotOf {
                name: "bandwidth-hot",
                title: "Bandwidth of buffers in the caches",
                cases: &["bandwidth_shared_hot", "memcpy_shared_hot", "ucx:put_bw"],
                ..BANDWIDTH_BY_SIZE
            },
        ],
    },
    Subject {
        title: "Computing targets",
        about: "One process computes while the other puts 1 MB buffers into its memory at a fixed pace. The rate is \
                pieces of work a second; its ratio is the share of the undisturbed rate. The time is the cost of one \
                put at its initiator.",
        has: |case| case.starts_with("overlap_target"),
        plots: &[],
    },
    Subject {
        title: "Collectives",
        about: "Depth is the number of processes. In the host-driven cases the program sends every message of the same \
                algorithms. With more processes than cores, processes share cores.",
        has: |case| case.contains("barrier") || case.contains("allreduce"),
        plots: &[],
    },
    Subject {
        title: "Message rate",
        about: "Depth is the number of messages in flight.",
        has: |case| case.contains("_rate"),
        plots: &[],
    },
    Subject {
        title: "Latency",
        about: "Half a round trip, except `get` and `fetch_atomic`, which are whole operations on a target that does \
                not call the library. Cases that are compared with `raw_flag` take turns with it in several runs, of \
                which the quickest one counts.",
        has: |_| true,
        plots: &[
            PlotOf {
                name: "latency-8",
                title: "8 bytes: half a round trip; a whole get or fetch_atomic",
                cases: &[
                    "raw_flag",
                    "counting_put",
                    "counting_put_ordinary",
                    "put_flag",
                    "matched_put_event",
                    "get",
                    "fetch_atomic",
                    "ucx:am_lat",
                    "ucx:put_lat",
                    "openmpi:pingpong",
                    "mpich:pingpong",
                ],
                ..TIME_OF_EIGHT_BYTES
            },
            PlotOf {
                name: "latency",
                title: "Half a round trip",
                cases: &["counting_put", "counting_put_ordinary", "put_flag", "openmpi:pingpong", "mpich:pingpong"],
                ..TIME_BY_SIZE
            },
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_one_subject() {
        let title = |case: &str| SUBJECTS.iter().find(|s| (s.has)(case)).map(|s| s.title);
        assert_eq!(title("match_posted"), Some("Matching"));
        assert_eq!(title("overlap_target:memcpy"), Some("Computing targets"));
        assert_eq!(title("memcpy_shared"), Some("Bandwidth"));
        assert_eq!(title("message_rate"), Some("Message rate"));
        assert_eq!(title("matched_put_event"), Some("Latency"));
    }
}
