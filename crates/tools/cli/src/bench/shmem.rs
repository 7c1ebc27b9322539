// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The OpenSHMEM group: its cases, their baselines, and its page `benchmarks-shmem.md`.
//!
//! The programs are those of `bench/shmem`; the same sources are compiled with Open MPI's OpenSHMEM
//! ([`super::oshmem`]). Cases that both measure alternate. Names that end in `_host` are jobs in host mode: every PE
//! runs its own interface, so no PE stores into another's memory, and each put is a message. The seed measured this, on
//! a machine where an increment of a remote flag costs as much as a message. The patterns are those of seed 004,
//! section 3: ping-pong (3.1), all-to-all (3.2) and the pipelined stencil (3.3).

use selvedge_document::plot::Axis;
use selvedge_document::words;

use super::cases::{Case, Library, Runner, Varies, case};
use super::plots::{BANDWIDTH_BY_SIZE, Form, PlotOf, TIME_BY_SIZE, bandwidth_by_size};
use super::record::{Counterpart, Figure, Rule, rule, two_crossings};
use super::subject::Subject;

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

const fn turn(name: &'static str, about: &'static str, runner: Runner, over: Varies) -> Case {
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
    turn("shmem_raw", "half a round trip of one cache line in symmetric memory: the floor", LATENCY, Varies::Nothing),
    turn("shmem_put", "half a round trip, put, the target spins on its memory", LATENCY, Varies::LatencySizes),
    turn("shmem_counting_put", "the same, counting put and shmem_ct_wait", LATENCY, Varies::LatencySizes),
    turn("shmem_put_flag", "the same: put, fence, atomic increment, wait_until", LATENCY, Varies::LatencySizes),
    turn("shmem_put_signal", "the same, put with signal, SHMEM_SIGNAL_SET", LATENCY, Varies::LatencySizes),
    turn("shmem_put_signal_add", "the same, SHMEM_SIGNAL_ADD", LATENCY, Varies::LatencySizes),
    turn("oshmem:put", "Open MPI's OpenSHMEM, the same program", PEER_LATENCY, Varies::LatencySizes),
    turn("oshmem:put_flag", "likewise", PEER_LATENCY, Varies::LatencySizes),
    turn("shmem_get", "a whole get from a target that does not call the library", OPERATIONS, Varies::LatencySizes),
    turn("shmem_fetch_add", "a whole 8-byte fetch-and-add, likewise", OPERATIONS, Varies::Nothing),
    turn("shmem_atomic_add", "8-byte atomic adds, 64 between two quiets", OPERATIONS, Varies::Nothing),
    turn("shmem_p", "shmem_long_p, 64 between two quiets", OPERATIONS, Varies::Nothing),
    turn("oshmem:get", "Open MPI's OpenSHMEM, the same program", PEER_OPERATIONS, Varies::LatencySizes),
    turn("oshmem:fetch_add", "likewise", PEER_OPERATIONS, Varies::Nothing),
    turn("oshmem:atomic_add", "likewise", PEER_OPERATIONS, Varies::Nothing),
    turn("oshmem:p", "likewise", PEER_OPERATIONS, Varies::Nothing),
    turn("shmem_barrier", "shmem_barrier_all, 2 and 4 PEs", COLLECTIVES, Varies::Nothing),
    turn("shmem_sum8", "8-byte sum at every PE, 2 and 4 PEs", COLLECTIVES, Varies::Nothing),
    turn("oshmem:barrier", "Open MPI's OpenSHMEM, the same program", PEER_COLLECTIVES, Varies::Nothing),
    turn("oshmem:sum8", "likewise", PEER_COLLECTIVES, Varies::Nothing),
    case("shmem_alltoall_barrier", "all-to-all by puts and a barrier, 2 to 16 PEs", ALLTOALL, Varies::ExchangeSizes),
    case("shmem_alltoall_flags", "the same by puts, fence and flags", ALLTOALL, Varies::ExchangeSizes),
    case("shmem_alltoall_counting", "the same by counting puts", ALLTOALL, Varies::ExchangeSizes),
    case("shmem_stencil_flags", "stencil, put, fence and flag for each row, 2 to 8 PEs", STENCIL, Varies::Nothing),
    case("shmem_stencil_counting", "the same, a counting put for each row", STENCIL, Varies::Nothing),
    case("shmem_stencil_signal", "the same, a put with signal for each row", STENCIL, Varies::Nothing),
    case(
        "shmem_counting_put_host",
        "shmem_counting_put by messages instead of stores",
        LATENCY_HOST,
        Varies::LatencySizes,
    ),
    case("shmem_put_flag_host", "likewise", LATENCY_HOST, Varies::LatencySizes),
    case("shmem_put_signal_host", "likewise", LATENCY_HOST, Varies::LatencySizes),
    case("shmem_alltoall_barrier_host", "likewise, 2 PEs", ALLTOALL_HOST, Varies::ExchangeSizes),
    case("shmem_alltoall_flags_host", "likewise", ALLTOALL_HOST, Varies::ExchangeSizes),
    case("shmem_alltoall_counting_host", "likewise", ALLTOALL_HOST, Varies::ExchangeSizes),
    case("shmem_stencil_flags_host", "likewise, 2 PEs", STENCIL_HOST, Varies::Nothing),
    case("shmem_stencil_counting_host", "likewise", STENCIL_HOST, Varies::Nothing),
    case("shmem_stencil_signal_host", "likewise", STENCIL_HOST, Varies::Nothing),
    case(
        "shmem_p_instructions",
        "instructions of one shmem_long_p, by valgrind",
        Runner::Instructions,
        Varies::Nothing,
    ),
];

pub const RULES: &[Rule] = &[
    rule("shmem_put", "shmem_raw", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("shmem_put", "oshmem:put", Figure::Time, Counterpart::SameSize),
    rule("shmem_counting_put", "shmem_raw", Figure::Time, Counterpart::OnlyForEightBytes),
    rule("shmem_counting_put", "oshmem:put_flag", Figure::Time, Counterpart::SameSize),
    rule("shmem_put_flag", "shmem_counting_put", Figure::Time, Counterpart::SameSize),
    rule("shmem_put_flag", "oshmem:put_flag", Figure::Time, Counterpart::SameSize),
    rule("shmem_put_signal", "shmem_counting_put", Figure::Time, Counterpart::SameSize),
    rule("shmem_put_signal_add", "shmem_counting_put", Figure::Time, Counterpart::SameSize),
    two_crossings("shmem_get", "shmem_raw"),
    rule("shmem_get", "oshmem:get", Figure::Time, Counterpart::SameSize),
    two_crossings("shmem_fetch_add", "shmem_raw"),
    rule("shmem_fetch_add", "oshmem:fetch_add", Figure::Time, Counterpart::Only),
    rule("shmem_atomic_add", "oshmem:atomic_add", Figure::Time, Counterpart::Only),
    rule("shmem_p", "oshmem:p", Figure::Rate, Counterpart::Only),
    rule("shmem_barrier", "oshmem:barrier", Figure::Time, Counterpart::SameDepth),
    rule("shmem_sum8", "oshmem:sum8", Figure::Time, Counterpart::SameDepth),
    rule("shmem_alltoall_barrier", "shmem_alltoall_counting", Figure::Time, Counterpart::SameSizeAndDepth),
    rule("shmem_alltoall_flags", "shmem_alltoall_counting", Figure::Time, Counterpart::SameSizeAndDepth),
    rule("shmem_stencil_flags", "shmem_stencil_counting", Figure::Time, Counterpart::SameDepth),
    rule("shmem_stencil_signal", "shmem_stencil_counting", Figure::Time, Counterpart::SameDepth),
    rule("shmem_put_flag_host", "shmem_counting_put_host", Figure::Time, Counterpart::SameSize),
    rule("shmem_put_signal_host", "shmem_counting_put_host", Figure::Time, Counterpart::SameSize),
    rule("shmem_alltoall_barrier_host", "shmem_alltoall_counting_host", Figure::Time, Counterpart::SameSizeAndDepth),
    rule("shmem_alltoall_flags_host", "shmem_alltoall_counting_host", Figure::Time, Counterpart::SameSizeAndDepth),
    rule("shmem_stencil_flags_host", "shmem_stencil_counting_host", Figure::Time, Counterpart::SameDepth),
    rule("shmem_stencil_signal_host", "shmem_stencil_counting_host", Figure::Time, Counterpart::SameDepth),
];

// ---- the page ----

pub const SUBJECTS: &[Subject] = &[
    Subject {
        title: "Pipelined stencil",
        about: "Seed 004, section 3.3, with 256 columns and 1280 rows for each PE: about the share of one of 50 PEs of \
                the seed's grid. In `_host` each PE runs its own interface, and a put is a message as it is in a \
                network. Depth is the number of PEs, the time is that of one iteration, and the rate is additions and \
                subtractions a second. With more PEs than cores, PEs share cores.",
        has: |case| case.contains("stencil"),
        plots: &[PlotOf {
            name: "shmem-stencil",
            title: "Pipelined stencil",
            cases: &["shmem_stencil_counting", "shmem_stencil_signal", "shmem_stencil_flags"],
            form: Form::Lines(|m| Some((m.depth? as f64, m.rate_per_s?))),
            x: &PES,
            y: &WORK_RATE,
        }],
    },
    Subject {
        title: "All-to-all",
        about: "Seed 004, section 3.2: every PE sends a message to every PE, including itself, and waits for all \
                messages to it. In `_host` each PE runs its own interface, and a put is a message as it is in a \
                network. Depth is the number of PEs, the time is that of one exchange, and the bandwidth is that of \
                one PE's messages. With more PEs than cores, PEs share cores.",
        has: |case| case.contains("alltoall"),
        plots: &[
            PlotOf {
                name: "shmem-alltoall-2",
                title: "All-to-all of 2 PEs",
                form: Form::Lines(|m| bandwidth_by_size(m).filter(|_| m.depth == Some(2))),
                ..ALLTOALL_PLOT
            },
            PlotOf {
                name: "shmem-alltoall-16",
                title: "All-to-all of 16 PEs",
                form: Form::Lines(|m| bandwidth_by_size(m).filter(|_| m.depth == Some(16))),
                ..ALLTOALL_PLOT
            },
        ],
    },
    Subject {
        title: "Collectives",
        about: "Depth is the number of PEs. With more PEs than cores, PEs share cores.",
        has: |case| case.ends_with("barrier") || case.ends_with("sum8"),
        plots: &[],
    },
    Subject {
        title: "One call",
        about: "Instructions of one `shmem_long_p` to another PE, including the call and the return, counted by \
                valgrind; the ratio is their number.",
        has: |case| case.contains("instructions"),
        plots: &[],
    },
    Subject {
        title: "Operations on a target that does not call the library",
        about: "`get` and `fetch_add` are whole operations. The others make 64 operations between two `shmem_quiet` \
                (the depth), and the time is that of one.",
        has: |case| ["get", "_add", "_p", ":p"].iter().any(|end| case.ends_with(end)) && !case.contains("signal"),
        plots: &[],
    },
    Subject {
        title: "Latency",
        about: "Half a round trip between two PEs, seed 004, section 3.1. `shmem_raw` is one cache line, stored and polled \
                through `shmem_ptr`; in `put` the target spins on the destination; the others wait by functions of the \
                standard. The column `against` compares with the hardware (`shmem_raw`), with bundled synchronisation \
                (`shmem_counting_put`), or with Open MPI (`oshmem`). In `_host` each PE runs its own \
                interface, and a put is a message as it is in a network.",
        has: |_| true,
        plots: &[
            PlotOf {
                name: "shmem-latency",
                title: "Half a round trip",
                cases: &[
                    "shmem_put",
                    "shmem_counting_put",
                    "shmem_put_signal",
                    "shmem_put_flag",
                    "oshmem:put",
                    "oshmem:put_flag",
                ],
                ..TIME_BY_SIZE
            },
            PlotOf {
                name: "shmem-latency-host",
                title: "Half a round trip, by messages",
                cases: &["shmem_counting_put_host", "shmem_put_signal_host", "shmem_put_flag_host"],
                ..TIME_BY_SIZE
            },
        ],
    },
];

static PES: Axis = Axis::logarithmic("PEs", 2, words::plain);
static WORK_RATE: Axis = Axis::logarithmic("additions and subtractions", 10, words::rate);
static BANDWIDTH_OF_PE: Axis = Axis::logarithmic("bandwidth of one PE", 10, words::bytes_per_s);

const ALLTOALL_PLOT: PlotOf = PlotOf {
    cases: &["shmem_alltoall_counting", "shmem_alltoall_flags", "shmem_alltoall_barrier"],
    y: &BANDWIDTH_OF_PE,
    ..BANDWIDTH_BY_SIZE
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
