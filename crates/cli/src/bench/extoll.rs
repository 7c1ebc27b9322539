// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The EXTOLL group: its cases, their baselines, and its page `benchmarks-extoll.md`.
//!
//! The program is `bench/extoll/units.c`. The figures are those of seed 002, chapter 9: latency by size for messages, puts and gets
//! (9-1, 9-5), bandwidth by size (9-2 to 9-4), message rate (9-3), locks (9-8); and what registering memory costs. The peers are the
//! raw line, which is the floor of every half round trip, and UCX's active messages.

use super::cases::{Case, Runner, Varies, case, in_turns};
use super::docs::{Subject, time_text};
use super::plots::Plot;
use super::record::{Counterpart, Figure, Rule, rule, two_crossings};
use super::report::size;

const UNITS: Runner = Runner::Ranks { program: "extoll/units", processes: &[2], environment: &[] };

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
        plots: &[Plot {
            file: "extoll-bandwidth.svg",
            title: "Bandwidth",
            x_label: "size",
            y_label: "bandwidth",
            cases: &["extoll_put_bandwidth", "extoll_get_bandwidth"],
            point: |m| Some((m.size_bytes? as f64, m.bandwidth_bytes_per_s? / 1e9)),
            x_text: |x| size(x.round() as u64),
            y_text: |y| format!("{y} GB/s"),
            x_base: 4.0,
            y_base: 2.0,
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
        plots: &[Plot {
            file: "extoll-latency.svg",
            title: "Half a round trip; a whole get",
            x_label: "size",
            y_label: "time",
            cases: &["extoll_velo", "extoll_put", "extoll_get"],
            point: |m| Some((m.size_bytes? as f64, m.median_ns?)),
            x_text: |x| size(x.round() as u64),
            y_text: time_text,
            x_base: 4.0,
            y_base: 10.0,
        }],
    },
];
