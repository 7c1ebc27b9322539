// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seed 000: PAC, an engine for Portals in hardware, compared with the same library in software.
//!
//! The machines are `pac` and `pac-list`, and the software baselines `pac-arm`, `pac-arm-hash`, `pac-desktop` and
//! `pac-desktop-hash`.

use std::sync::Arc;

use super::claim::{Claim, Figure, short};
use super::lab::{ValidateError, machine};
use super::programs::groups::{self, FirstAction};
use super::programs::{patterns, queues};
use super::{AxisOf, Curve, CurveLine, Plan, Results};
use crate::machine::Machine;
use crate::program::Needs;
use crate::time::Time;

pub(super) fn run(plan: Plan, results: &mut Results, progress: &mut dyn FnMut(&str)) -> Result<(), ValidateError> {
    progress("PAC: unexpected messages");
    worst_case(plan, results)?;
    progress("PAC: patterns of benchmarks");
    benchmarks(plan, results, progress)?;
    progress("PAC: eager and rendezvous");
    rendezvous(plan, results)?;
    results.left_out = vec![
        "Figure 14, Portals against an accelerator for MPI: the seed gives no figures of this second design.",
        "Table II and section 5.6, area and power: a simulator of time does not predict them. \
         docs/results/rtl/figures.md has those of Selvedge's engine.",
    ];
    Ok(())
}

/// Tables for the ranks of the queue study; their sizes do not affect times.
const TABLES: [(&str, &str); 2] = [("limits.entries", "32"), ("limits.headers", "64")];

fn plain(name: &str) -> Result<Arc<Machine>, ValidateError> {
    machine(name, &TABLES)
}

fn ratios(above: &[f64], below: &[f64]) -> Vec<f64> {
    above.iter().zip(below).map(|(above, below)| above / below).collect()
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Returns the length at which a message's time rises most over that at half the length, with a factor of 2 or more.
fn cliff(lengths: &[u64], times: &[f64]) -> Option<(u64, f64)> {
    let each = |n: usize| times[n] / lengths[n] as f64;
    let rises = (1..lengths.len()).filter(|n| lengths[*n] > 1024).map(|n| (lengths[n - 1], each(n) / each(n - 1)));
    rises.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, rise)| *rise >= 2.0)
}

fn worst_case(plan: Plan, results: &mut Results) -> Result<(), ValidateError> {
    let lengths: Vec<u64> = (0..=plan.pick(16, 15))
        .filter(|power| !plan.quick || power % 2 == 0 || *power > 12)
        .map(|power| 1 << power)
        .collect();
    let names = ["pac-list", "pac", "pac-arm", "pac-arm-hash", "pac-desktop", "pac-desktop-hash"];
    let mut times = Vec::new();
    for name in names {
        times.push(queues::last_of(&plain(name)?, &lengths)?);
    }
    let [list, hash, arm, arm_hash, desktop, desktop_hash] = &times[..] else { return Ok(()) };
    let (arm_ratio, desktop_ratio, hash_ratio) = (ratios(arm, list), ratios(desktop, list), ratios(arm_hash, hash));
    let from = |ratio: &[f64]| {
        let from = (0..lengths.len()).find(|n| ratio[*n..].iter().all(|ratio| *ratio >= 10.0));
        from.map_or("nowhere".to_owned(), |n| format!("from {} messages on", lengths[n]))
    };
    results.claims.push(
        Claim::at_least(
            "pac-5a",
            "seed 000, 5.2, figure 11",
            "PAC is 10 times as fast as the ARM at any length, both without hashing",
            (10.0, least(&arm_ratio), "times"),
        )
        .note(format!(
            "{} to {} times; at least 10 {}. With short lists the call takes most of the time: hundreds of \
             instructions on the ARM, a round trip of 60 ns to PAC. The work after the match (its event, which the \
             library takes) is charged to both, which favours the software.",
            short(least(&arm_ratio)),
            short(greatest(&arm_ratio)),
            from(&arm_ratio)
        )),
    );
    results.claims.push(
        Claim::at_least(
            "pac-5b",
            "seed 000, 5.2, figure 11",
            "PAC is 10 times as fast as the desktop at any length, both without hashing",
            (10.0, least(&desktop_ratio), "times"),
        )
        .note(format!(
            "{} to {} times; at least 10 {}. Before the list outgrows its cache (pac-5d), a 3 GHz core compares an \
             entry in 8.3 ns. PAC takes 4 ns, two cycles at an assumed 500 MHz.",
            short(least(&desktop_ratio)),
            short(greatest(&desktop_ratio)),
            from(&desktop_ratio)
        )),
    );
    results.claims.push(
        Claim::at_least(
            "pac-5c",
            "seed 000, 5.2, figure 11",
            "PAC is steadily 100 times as fast as the ARM at any length, both with hashing",
            (100.0, least(&hash_ratio), "times"),
        )
        .note(format!(
            "{} to {} times. The hash finds the entry at once, so neither time depends on the length. The rest is \
             the cost of a call: hundreds of instructions on the ARM, tens of cycles in PAC. The seed's simulator \
             counts instructions at a nominal rate. At 100 million a second, which may be its default, its ARM \
             would be 12 times slower than one of 1.2 GHz. The machine is not set from that rate.",
            short(least(&hash_ratio)),
            short(greatest(&hash_ratio))
        )),
    );
    let (at, rise) = cliff(&lengths, desktop).unwrap_or((u64::MAX, 1.0));
    let thin = machine("pac-desktop", &[TABLES[0], TABLES[1], ("nic.entry_bytes", "192")])?;
    let after = |cliff: Option<(u64, f64)>| match cliff {
        Some((length, rise)) => format!("after {length} ({} times)", short(rise)),
        None => format!("not below {} messages", lengths[lengths.len() - 1]),
    };
    let thin_cliff = after(cliff(&lengths, &queues::last_of(&thin, &lengths)?));
    let arm_cliff = after(cliff(&lengths, arm));
    results.claims.push(
        Claim::number(
            "pac-5d",
            "seed 000, 5.2, figure 11",
            "the desktop suffers from cache misses after 16,384 messages",
            (16_384.0, at as f64, "messages"),
        )
        .note(format!(
            "At twice this length a message costs {} times as much. The length depends on entry_bytes, 256 \
             (assumed): the cache of 6 MB holds 24,576 such entries. With entries of 192 bytes the cost rises \
             {thin_cliff}. The ARM's is predicted to rise {arm_cliff}. The seed shows no rise there: its simulator \
             counts instructions, and perhaps no cache misses.",
            short(rise)
        )),
    );
    let faster: Vec<(f64, f64)> = arm.iter().copied().zip(desktop.iter().copied()).collect();
    let short_lists: Vec<(f64, f64)> =
        lengths.iter().zip(&faster).filter(|(length, _)| **length <= 16_384).map(|(_, pair)| *pair).collect();
    results.claims.push(Claim::order(
        "pac-5e",
        "seed 000, 5.2, figure 11",
        "up to 16,384 messages the desktop is faster than the ARM",
        ("desktop < ARM", &short_lists),
    ));
    let mut fig12 = Vec::new();
    let few = [1, 2, 4, 8, 16];
    let (mut drain_list, mut drain_arm) = (Vec::new(), Vec::new());
    for length in few {
        drain_list.push(queues::drain(&plain("pac-list")?, length)?);
        drain_arm.push(queues::drain(&plain("pac-arm")?, length)?);
    }
    fig12.extend(drain_arm.iter().copied().zip(drain_list.iter().copied()));
    results.claims.push(
        Claim::order(
            "pac-5f",
            "seed 000, figure 12",
            "PAC is faster than the ARM for queues of 1, 2, 4, 8, 16, both without hashing",
            ("PAC < ARM", &fig12),
        )
        .note(format!(
            "{} to {} times as fast. All messages of a queue are received.",
            short(least(&ratios(&drain_arm, &drain_list))),
            short(greatest(&ratios(&drain_arm, &drain_list)))
        )),
    );
    let beyond: Vec<usize> = (0..lengths.len()).filter(|n| lengths[*n] >= 16).collect();
    let hashing: Vec<(f64, f64)> = beyond
        .iter()
        .flat_map(|n| [(list[*n], hash[*n]), (arm[*n], arm_hash[*n]), (desktop[*n], desktop_hash[*n])])
        .collect();
    results.claims.push(Claim::order(
        "pac-5g",
        "seed 000, 5.2",
        "from 16 messages on, hashing is faster than a list on all three machines",
        ("hash < list", &hashing),
    ));
    let x: Vec<f64> = lengths.iter().map(|length| *length as f64).collect();
    let titles = ["PAC, list", "PAC, hash", "ARM, list", "ARM, hash", "desktop, list", "desktop, hash"];
    results.curves.push(Curve {
        name: "pac-worst-case",
        title: "PAC: a receive that matches the last unexpected message".into(),
        x: AxisOf::logarithmic("unexpected messages", 2),
        y: AxisOf::logarithmic("time of the receive (ns)", 10),
        lines: titles.iter().zip(&times).map(|(title, times)| CurveLine::new(*title, &x, times)).collect(),
        about: "Three ranks send to rank 0 with descending tags, and rank 0 receives the last message. The time of \
                this one receive, by the receiver's clock. (Only the length of the list matters, so three senders \
                stand for 127.)"
            .into(),
    });
    let x: Vec<f64> = few.iter().map(|length| *length as f64).collect();
    results.curves.push(Curve {
        name: "pac-short-queues",
        title: "PAC: short queues".into(),
        x: AxisOf::logarithmic("unexpected messages", 2),
        y: AxisOf::linear("time of a receive (ns)"),
        lines: vec![CurveLine::new("PAC, list", &x, &drain_list), CurveLine::new("ARM, list", &x, &drain_arm)],
        about: "All messages are received, the last one first. The mean time of a receive.".into(),
    });
    Ok(())
}

fn benchmarks(plan: Plan, results: &mut Results, progress: &mut dyn FnMut(&str)) -> Result<(), ValidateError> {
    let platforms: &[u32] = plan.pick(&[32, 128], &[32]);
    let mut at_platform = Vec::new();
    for ranks in platforms {
        progress(&format!("PAC: patterns of benchmarks on {ranks} nodes"));
        let mut speedups = Vec::new();
        for pattern in patterns::ALL {
            let time = |name| patterns::time(&plain(name)?, *ranks, pattern);
            let arm = time("pac-arm")?;
            speedups.push([arm / time("pac-arm-hash")?, arm / time("pac-list")?, arm / time("pac")?]);
        }
        at_platform.push(speedups);
    }
    let published = [(50.0, 130.0), (80.0, 200.0)];
    let ids = [("pac-6a", "pac-6b"), ("pac-6c", "pac-6d")];
    let what =
        |ranks: u32, hash: &str| format!("PAC {hash}, {ranks} nodes: speed-up of communication over the ARM without");
    let mean = |speedups: &[[f64; 3]], which: usize| {
        (speedups.iter().map(|speedups| speedups[which].ln()).sum::<f64>() / speedups.len() as f64).exp()
    };
    for (place, (ranks, speedups)) in platforms.iter().zip(&at_platform).enumerate() {
        let each = |which: usize| {
            let each = patterns::ALL.iter().zip(speedups);
            each.map(|(pattern, speedups)| format!("{} {}", pattern.name(), short(speedups[which])))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let source = "seed 000, 5.3, figure 13";
        results.claims.push(
            Claim::number(
                ids[place].0,
                source,
                what(*ranks, "without hashing"),
                (published[place].0, mean(speedups, 1), "times"),
            )
            .note(format!(
                "Whole communication time, the geometric mean of five patterns: {}. As in pac-5c, a simulator that \
                 counts instructions at a nominal rate may explain a factor of 12. The rest would need lists far \
                 longer than those of a class S run with this number of ranks.",
                each(1)
            )),
        );
        results.claims.push(
            Claim::number(
                ids[place].1,
                source,
                what(*ranks, "with hashing"),
                (published[place].1, mean(speedups, 2), "times"),
            )
            .note(format!(
                "Whole communication time, the geometric mean of five patterns: {}. PAC takes 4 ns for an entry, so \
                 lists of at most {} entries hardly matter to it, and hashing hardly helps.",
                each(2),
                ranks - 1
            )),
        );
    }
    let all = || at_platform.iter().flatten();
    let order: Vec<(f64, f64)> = all().flat_map(|each| [(each[2] * 1.000_001, each[1]), (each[1], 1.0)]).collect();
    results.claims.push(Claim::order(
        "pac-6e",
        "seed 000, 5.3, figure 13",
        "every pattern: PAC with hashing is no slower than without, and both beat the ARM",
        ("hash >= list > 1", &order),
    ));
    if let [small, large] = &at_platform[..] {
        let larger: Vec<(f64, f64)> = [1, 2].iter().map(|which| (mean(large, *which), mean(small, *which))).collect();
        results.claims.push(
            Claim::order(
                "pac-6f",
                "seed 000, 5.3",
                "the speed-up is greater on 128 nodes than on 32, without and with hashing",
                ("128 > 32", &larger),
            )
            .note(format!(
                "Geometric means of the patterns: without hashing {} against {}, with hashing {} against {}.",
                short(larger[0].0),
                short(larger[0].1),
                short(larger[1].0),
                short(larger[1].1)
            )),
        );
    }
    let gains: Vec<f64> = all().map(|each| 100.0 * (each[0] - 1.0)).collect();
    results.claims.push(
        Claim::range(
            "pac-6g",
            "seed 000, 5.3, figure 13",
            "hashing in software speeds the ARM up by 10 to 30 %, depending on the pattern",
            ((10.0, 30.0), (least(&gains), greatest(&gains)), "%"),
        )
        .note(
            "If receives are posted in the order in which messages arrive, the first entry matches, and a hash \
             saves nothing. pac-6h shows the opposite case.",
        ),
    );
    // The largest effect of lists: every message of an all-to-all is unexpected.
    let ranks = platforms[platforms.len() - 1];
    let crowded = |name| patterns::unexpected_alltoall(&plain(name)?, ranks);
    let (arm, arm_hash, list, hash) =
        (crowded("pac-arm")?, crowded("pac-arm-hash")?, crowded("pac-list")?, crowded("pac")?);
    results.claims.push(
        Claim::shown(
            "pac-6h",
            "seed 000, 5.3",
            format!("largest effect of lists: all-to-all of 8 bytes, {ranks} nodes, all unexpected"),
            (
                Figure::Words("no figure".into()),
                Figure::Words(format!(
                    "ARM with hashing {}, PAC without {}, PAC with {}",
                    short(arm / arm_hash),
                    short(arm / list),
                    short(arm / hash)
                )),
                "times",
            ),
        )
        .note(
            "Speed-up over the ARM without hashing, with receives posted in the reverse order of arrival. In the \
             patterns above receives are posted before messages arrive, and match near the head of the list. Ranks \
             that compute arrive late, which is not modelled.",
        ),
    );
    let mut lines = Vec::new();
    let x: Vec<f64> = (1..=patterns::ALL.len()).map(|n| n as f64).collect();
    for (ranks, speedups) in platforms.iter().zip(&at_platform) {
        for (which, name) in ["ARM, hash", "PAC, list", "PAC, hash"].into_iter().enumerate() {
            let values: Vec<f64> = speedups.iter().map(|speedups| speedups[which]).collect();
            lines.push(CurveLine::new(format!("{name}, {ranks}"), &x, &values));
        }
    }
    results.curves.push(Curve {
        name: "pac-patterns",
        title: "PAC: speed-up of communication against the ARM without hashing".into(),
        x: AxisOf::linear("pattern (1 IS, 2 FT, 3 EP, 4 DT, 5 MD)"),
        y: AxisOf::linear("speed-up"),
        lines,
        about: patterns::ABOUT.into(),
    });
    Ok(())
}

fn rendezvous(plan: Plan, results: &mut Results) -> Result<(), ValidateError> {
    const BYTES: usize = 8192;
    let machine = plain("pac")?;
    let nodes: Vec<u32> = plan.pick(vec![8, 16, 32, 64, 128], vec![8, 16]);
    // Parts of a message, and the longest eager message.
    let ways: [(&str, &[usize], u64); 3] = [
        ("rendezvous, eager limit 0", &[BYTES], 0),
        ("rendezvous, eager limit 4096", &[4096, BYTES - 4096 + 1], 4096),
        ("eager", &[BYTES], u64::MAX),
    ];
    let mut lines = Vec::new();
    let mut times = Vec::new();
    for first in [FirstAction::Sends, FirstAction::Receives] {
        for (name, parts, eager) in ways {
            let mut line = Vec::new();
            for ranks in &nodes {
                let needs = Needs {
                    memory_bytes: 0,
                    receives: 4 * ranks,
                    unexpected: 4 * ranks,
                    eager_bytes_max: eager,
                    ..Needs::default()
                };
                let pause = Time::from_ns(5_000) * u64::from(*ranks);
                let time = groups::measured("all-to-all", &machine, *ranks, needs, 1, move |process| {
                    Box::pin(async move { i32::from(!groups::alltoall(&process, parts, first, pause).await) })
                })?;
                line.push(time - if first == FirstAction::Sends { pause.as_us_f64() } else { 0.0 });
            }
            let x: Vec<f64> = nodes.iter().map(|ranks| f64::from(*ranks)).collect();
            let word = if first == FirstAction::Sends { "unexpected" } else { "expected" };
            lines.push(CurveLine::new(format!("{name}, {word}"), &x, &line));
            times.push(line);
        }
    }
    let order = |which: usize| {
        let three = &times[3 * which..3 * which + 3];
        (0..nodes.len()).flat_map(|n| [(three[1][n], three[0][n]), (three[2][n], three[1][n])]).collect::<Vec<_>>()
    };
    results.claims.push(
        Claim::order(
            "pac-7a",
            "seed 000, 5.5, figure 15",
            "unexpected 8 KB all-to-all: rendezvous (eager limit 0, then 4096) beats eager",
            ("0 < 4096 < eager", &order(0)),
        )
        .note(
            "All messages are sent and have arrived before receives are posted. In the seed PAC copies a message \
             out of its buffer. Here the processor copies it.",
        ),
    );
    let expected = order(1);
    let right = expected.iter().filter(|(more, less)| more > less).count();
    results.claims.push(
        Claim::shown(
            "pac-7b",
            "seed 000, 5.5",
            "the same with receives posted first: the seed claims no order",
            (
                Figure::Words("none".into()),
                Figure::Words(format!("the same order in {right} of {}", expected.len())),
                "",
            ),
        )
        .note(
            "If every message is expected, rendezvous only adds a round trip. The seed's order is one of unexpected \
             messages.",
        ),
    );
    results.curves.push(Curve {
        name: "pac-rendezvous",
        title: "PAC: all-to-all of 8 KB, eager against rendezvous".into(),
        x: AxisOf::logarithmic("nodes", 2),
        y: AxisOf::logarithmic("time (us)", 10),
        lines,
        about: "Each pair of ranks exchanges 8 KB. `unexpected`: all messages are sent before receives are posted, \
                and the pause in between is not timed. `expected`: receives are posted first. With eager limit 4096 \
                half of each message is sent at once, and half is fetched. Contents are compared."
            .into(),
    });
    Ok(())
}
