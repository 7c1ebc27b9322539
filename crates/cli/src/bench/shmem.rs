// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The OpenSHMEM group: its cases, what they are held against, and its page `benchmarks-shmem.md`.
//!
//! Programs are those of `bench/shmem`; the same sources are compiled with Open MPI's OpenSHMEM ([`super::oshmem`]).
//! What both measure takes turns. Names that end in `_host` are of jobs in which every PE runs its own interface, so that
//! nothing is stored into another's memory and each put is a message: what the seed measured, on a machine where an
//! increment of the other's flag costs what a message does. The seed of the patterns is 004, section 3: ping-pong (3.1), all-to-all (3.2) and the
//! pipelined stencil (3.3).

use super::cases::{Case, Library, Over, Runner, case};
use super::docs::Subject;
use super::plots::Plot;
use super::record::{Beside, Figure, Rule, rule, two_crossings};
use super::report::size;

const TWO: &[usize] = &[2];
const COLLECTIVE_COUNTS: &[usize] = &[2, 4];
const EXCHANGE_COUNTS: &[usize] = &[2, 4, 8, 16];
const STENCIL_COUNTS: &[usize] = &[2, 4, 8];

const fn ours(program: &'static str, counts: &'static [usize]) -> Runner {
    Runner::Pes { library: Library::Ours, program, counts }
}

const fn host(program: &'static str) -> Runner {
    Runner::Pes { library: Library::OursHost, program, counts: TWO }
}

const fn theirs(program: &'static str, counts: &'static [usize]) -> Runner {
    Runner::Pes { library: Library::OpenMpi, program, counts }
}

/// A case that takes turns with a peer.
const fn turn(name: &'static str, about: &'static str, runner: Runner, over: Over) -> Case {
    Case { turns: true, ..case(name, about, runner, over) }
}

const LATENCY: Runner = ours("latency", TWO);
const PEER_LATENCY: Runner = theirs("latency", TWO);
const OPERATIONS: Runner = ours("operations", TWO);
const PEER_OPERATIONS: Runner = theirs("operations", TWO);
const COLLECTIVES: Runner = ours("collectives", COLLECTIVE_COUNTS);
const PEER_COLLECTIVES: Runner = theirs("collectives", COLLECTIVE_COUNTS);
const ALLTOALL: Runner = ours("alltoall", EXCHANGE_COUNTS);
const STENCIL: Runner = ours("stencil", STENCIL_COUNTS);
const LATENCY_HOST: Runner = host("latency");
const ALLTOALL_HOST: Runner = host("alltoall");
const STENCIL_HOST: Runner = host("stencil");

pub const CASES: &[Case] = &[
    turn("shmem_raw", "half a round trip of one cache line in symmetric memory: the floor", LATENCY, Over::Nothing),
    turn("shmem_put", "half a round trip, put, the target spins on its memory", LATENCY, Over::LatencySizes),
    turn("shmem_counting_put", "the same, counting put and shmem_ct_wait", LATENCY, Over::LatencySizes),
    turn("shmem_put_flag", "the same: put, fence, atomic increment, wait_until", LATENCY, Over::LatencySizes),
    turn("shmem_put_signal", "the same, put with signal, SHMEM_SIGNAL_SET", LATENCY, Over::LatencySizes),
    turn("shmem_put_signal_add", "the same, SHMEM_SIGNAL_ADD", LATENCY, Over::LatencySizes),
    turn("oshmem:put", "Open MPI's OpenSHMEM, the same program", PEER_LATENCY, Over::LatencySizes),
    turn("oshmem:put_flag", "likewise", PEER_LATENCY, Over::LatencySizes),
    turn("shmem_get", "a whole get from a target that does not call the library", OPERATIONS, Over::LatencySizes),
    turn("shmem_fetch_add", "a whole 8-byte fetch-and-add, likewise", OPERATIONS, Over::Nothing),
    turn("shmem_atomic_add", "8-byte atomic adds, 64 between two quiets", OPERATIONS, Over::Nothing),
    turn("shmem_p", "shmem_long_p, 64 between two quiets", OPERATIONS, Over::Nothing),
    turn("oshmem:get", "Open MPI's OpenSHMEM, the same program", PEER_OPERATIONS, Over::LatencySizes),
    turn("oshmem:fetch_add", "likewise", PEER_OPERATIONS, Over::Nothing),
    turn("oshmem:atomic_add", "likewise", PEER_OPERATIONS, Over::Nothing),
    turn("oshmem:p", "likewise", PEER_OPERATIONS, Over::Nothing),
    turn("shmem_barrier", "shmem_barrier_all, 2 and 4 PEs", COLLECTIVES, Over::Nothing),
    turn("shmem_sum8", "8-byte sum at every PE, 2 and 4 PEs", COLLECTIVES, Over::Nothing),
    turn("oshmem:barrier", "Open MPI's OpenSHMEM, the same program", PEER_COLLECTIVES, Over::Nothing),
    turn("oshmem:sum8", "likewise", PEER_COLLECTIVES, Over::Nothing),
    case("shmem_alltoall_barrier", "all-to-all by puts and a barrier, 2 to 16 PEs", ALLTOALL, Over::ExchangeSizes),
    case("shmem_alltoall_flags", "the same by puts, fence and flags", ALLTOALL, Over::ExchangeSizes),
    case("shmem_alltoall_counting", "the same by counting puts", ALLTOALL, Over::ExchangeSizes),
    case("shmem_stencil_flags", "stencil, put, fence and flag for each row, 2 to 8 PEs", STENCIL, Over::Nothing),
    case("shmem_stencil_counting", "the same, a counting put for each row", STENCIL, Over::Nothing),
    case("shmem_stencil_signal", "the same, a put with signal for each row", STENCIL, Over::Nothing),
    case(
        "shmem_counting_put_host",
        "shmem_counting_put by messages instead of stores",
        LATENCY_HOST,
        Over::LatencySizes,
    ),
    case("shmem_put_flag_host", "likewise", LATENCY_HOST, Over::LatencySizes),
    case("shmem_put_signal_host", "likewise", LATENCY_HOST, Over::LatencySizes),
    case("shmem_alltoall_barrier_host", "likewise, 2 PEs", ALLTOALL_HOST, Over::ExchangeSizes),
    case("shmem_alltoall_flags_host", "likewise", ALLTOALL_HOST, Over::ExchangeSizes),
    case("shmem_alltoall_counting_host", "likewise", ALLTOALL_HOST, Over::ExchangeSizes),
    case("shmem_stencil_flags_host", "likewise, 2 PEs", STENCIL_HOST, Over::Nothing),
    case("shmem_stencil_counting_host", "likewise", STENCIL_HOST, Over::Nothing),
    case("shmem_stencil_signal_host", "likewise", STENCIL_HOST, Over::Nothing),
    case("shmem_p_instructions", "instructions of one shmem_long_p, by valgrind", Runner::Instructions, Over::Nothing),
];

pub const RULES: &[Rule] = &[
    rule("shmem_put", "shmem_raw", Figure::Time, Beside::OnlyForEightBytes),
    rule("shmem_put", "oshmem:put", Figure::Time, Beside::SameSize),
    rule("shmem_counting_put", "shmem_raw", Figure::Time, Beside::OnlyForEightBytes),
    rule("shmem_counting_put", "oshmem:put_flag", Figure::Time, Beside::SameSize),
    rule("shmem_put_flag", "shmem_counting_put", Figure::Time, Beside::SameSize),
    rule("shmem_put_flag", "oshmem:put_flag", Figure::Time, Beside::SameSize),
    rule("shmem_put_signal", "shmem_counting_put", Figure::Time, Beside::SameSize),
    rule("shmem_put_signal_add", "shmem_counting_put", Figure::Time, Beside::SameSize),
    two_crossings("shmem_get", "shmem_raw"),
    rule("shmem_get", "oshmem:get", Figure::Time, Beside::SameSize),
    two_crossings("shmem_fetch_add", "shmem_raw"),
    rule("shmem_fetch_add", "oshmem:fetch_add", Figure::Time, Beside::Only),
    rule("shmem_atomic_add", "oshmem:atomic_add", Figure::Time, Beside::Only),
    rule("shmem_p", "oshmem:p", Figure::Rate, Beside::Only),
    rule("shmem_barrier", "oshmem:barrier", Figure::Time, Beside::SameDepth),
    rule("shmem_sum8", "oshmem:sum8", Figure::Time, Beside::SameDepth),
    rule("shmem_alltoall_barrier", "shmem_alltoall_counting", Figure::Time, Beside::SameSizeAndDepth),
    rule("shmem_alltoall_flags", "shmem_alltoall_counting", Figure::Time, Beside::SameSizeAndDepth),
    rule("shmem_stencil_flags", "shmem_stencil_counting", Figure::Time, Beside::SameDepth),
    rule("shmem_stencil_signal", "shmem_stencil_counting", Figure::Time, Beside::SameDepth),
    rule("shmem_put_flag_host", "shmem_counting_put_host", Figure::Time, Beside::SameSize),
    rule("shmem_put_signal_host", "shmem_counting_put_host", Figure::Time, Beside::SameSize),
    rule("shmem_alltoall_barrier_host", "shmem_alltoall_counting_host", Figure::Time, Beside::SameSizeAndDepth),
    rule("shmem_alltoall_flags_host", "shmem_alltoall_counting_host", Figure::Time, Beside::SameSizeAndDepth),
    rule("shmem_stencil_flags_host", "shmem_stencil_counting_host", Figure::Time, Beside::SameDepth),
    rule("shmem_stencil_signal_host", "shmem_stencil_counting_host", Figure::Time, Beside::SameDepth),
];

// ---- the page ----

pub const SUBJECTS: &[Subject] = &[
    Subject {
        title: "Pipelined stencil",
        about: "Seed 004, section 3.3, with 256 columns and 1280 rows for each PE: about what one of 50 PEs has of the \
                seed's grid. In `_host` each PE runs its own interface, and a put is a message as it is in a network. Depth is the number of PEs, the time that of one iteration, the rate additions and \
                subtractions a second. More PEs than cores share them.",
        has: |case| case.contains("stencil"),
        plots: &[Plot {
            file: "shmem-stencil.svg",
            title: "Pipelined stencil",
            x_label: "PEs",
            y_label: "GFLOP/s",
            cases: &["shmem_stencil_counting", "shmem_stencil_signal", "shmem_stencil_flags"],
            point: |m| Some((m.depth? as f64, m.rate_per_s? / 1e9)),
            x_text: |x| format!("{x}"),
            y_text: |y| format!("{y}"),
            x_base: 2.0,
            y_base: 2.0,
        }],
    },
    Subject {
        title: "All-to-all",
        about: "Seed 004, section 3.2: every PE sends a message to every PE, itself among them, and waits for all that come \
                to it. In `_host` each PE runs its own interface, and a put is a message as it is in a network. Depth is the number of PEs, the time that of one exchange, the bandwidth what one PE sends. More \
                PEs than cores share them.",
        has: |case| case.contains("alltoall"),
        plots: &[
            Plot {
                file: "shmem-alltoall-2.svg",
                title: "All-to-all of 2 PEs",
                point: |m| Some((m.size_bytes? as f64, m.bandwidth_bytes_per_s? / 1e6)).filter(|_| m.depth == Some(2)),
                ..ALLTOALL_PLOT
            },
            Plot {
                file: "shmem-alltoall-16.svg",
                title: "All-to-all of 16 PEs",
                point: |m| Some((m.size_bytes? as f64, m.bandwidth_bytes_per_s? / 1e6)).filter(|_| m.depth == Some(16)),
                ..ALLTOALL_PLOT
            },
        ],
    },
    Subject {
        title: "Collectives",
        about: "Depth is the number of PEs. More PEs than cores share them.",
        has: |case| case.ends_with("barrier") || case.ends_with("sum8"),
        plots: &[],
    },
    Subject {
        title: "One call",
        about: "Instructions of one `shmem_long_p` to another PE, from the call to behind its return, counted by valgrind; \
                the ratio is their number.",
        has: |case| case.contains("instructions"),
        plots: &[],
    },
    Subject {
        title: "Operations on a target that does not call the library",
        about: "`get` and `fetch_add` are whole operations. Of the others 64 go out between two `shmem_quiet`, which is \
                their depth, and the time is that of one.",
        has: |case| ["get", "_add", "_p", ":p"].iter().any(|end| case.ends_with(end)) && !case.contains("signal"),
        plots: &[],
    },
    Subject {
        title: "Latency",
        about: "Half a round trip between two PEs, seed 004, section 3.1. `shmem_raw` is one cache line, stored and polled \
                through `shmem_ptr`; in `put` the target spins on the destination; the others wait as the standard \
                offers. What stands against `shmem_raw` is held against the hardware, against `shmem_counting_put` \
                against bundled synchronisation, against `oshmem` against Open MPI. In `_host` each PE runs its own \
                interface, and a put is a message as it is in a network.",
        has: |_| true,
        plots: &[
            Plot {
                file: "shmem-latency.svg",
                title: "Half a round trip",
                cases: &[
                    "shmem_put",
                    "shmem_counting_put",
                    "shmem_put_signal",
                    "shmem_put_flag",
                    "oshmem:put",
                    "oshmem:put_flag",
                ],
                ..LATENCY_PLOT
            },
            Plot {
                file: "shmem-latency-host.svg",
                title: "Half a round trip, by messages",
                cases: &["shmem_counting_put_host", "shmem_put_signal_host", "shmem_put_flag_host"],
                ..LATENCY_PLOT
            },
        ],
    },
];

const LATENCY_PLOT: Plot = Plot {
    file: "",
    title: "",
    x_label: "message size",
    y_label: "time",
    cases: &[],
    point: |m| Some((m.size_bytes? as f64, m.median_ns?)),
    x_text: |x| size(x.round() as u64),
    y_text: super::docs::time_text,
    x_base: 4.0,
    y_base: 10.0,
};

const ALLTOALL_PLOT: Plot = Plot {
    file: "",
    title: "",
    x_label: "message size",
    y_label: "bandwidth of one PE",
    cases: &["shmem_alltoall_counting", "shmem_alltoall_flags", "shmem_alltoall_barrier"],
    point: |_| None,
    x_text: |x| size(x.round() as u64),
    y_text: |y| format!("{y} MB/s"),
    x_base: 4.0,
    y_base: 10.0,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_subject() {
        let title = |case: &str| SUBJECTS.iter().find(|s| (s.has)(case)).map(|s| s.title);
        assert_eq!(title("shmem_put"), Some("Latency"));
        assert_eq!(title("shmem_put_signal_add"), Some("Latency"));
        assert_eq!(title("oshmem:put_flag"), Some("Latency"));
        assert_eq!(title("shmem_counting_put_host"), Some("Latency"));
        assert_eq!(title("oshmem:sum8"), Some("Collectives"));
        assert_eq!(title("shmem_alltoall_barrier"), Some("All-to-all"));
        assert_eq!(title("shmem_p_instructions"), Some("One call"));
        for case in ["shmem_get", "shmem_p", "oshmem:p", "shmem_atomic_add", "oshmem:fetch_add"] {
            assert_eq!(title(case), Some("Operations on a target that does not call the library"), "{case}");
        }
    }
}
