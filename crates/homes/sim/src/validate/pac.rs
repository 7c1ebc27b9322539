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
        "Figure 14, Portals against an accelerator for MPI: a second design, of which the seed gives no figures.",
        "Table II and section 5.6, area and power: a simulator of time does not predict them. docs/results/rtl/figures.md has those of our engine.",
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
            "PAC without hashing is 10 times as fast as the ARM without hashing (least over all lengths)",
            (10.0, least(&arm_ratio), "times"),
        )
        .note(format!(
            "{} to {} times; 10 and more {}. Short lists are dominated by the call: hundreds of instructions against a round trip \
             of 60 ns. What comes after the match (its event, the library that takes it in) is charged to both, which favours software.",
            short(least(&arm_ratio)),
            short(greatest(&arm_ratio)),
            from(&arm_ratio)
        )),
    );
    results.claims.push(
        Claim::at_least(
            "pac-5b",
            "seed 000, 5.2, figure 11",
            "PAC without hashing is 10 times as fast as the desktop without hashing (least over all lengths)",
            (10.0, least(&desktop_ratio), "times"),
        )
        .note(format!(
            "{} to {} times; 10 and more {}. Before its cliff a 3 GHz core compares an entry in 8.3 ns; PAC's 4 ns are two \
             cycles of an assumed 500 MHz.",
            short(least(&desktop_ratio)),
            short(greatest(&desktop_ratio)),
            from(&desktop_ratio)
        )),
    );
    results.claims.push(
        Claim::at_least(
            "pac-5c",
            "seed 000, 5.2, figure 11",
            "PAC with hashing is 100 times as fast as the ARM with hashing, steadily (least over all lengths)",
            (100.0, least(&hash_ratio), "times"),
        )
        .note(format!(
            "{} to {} times. With a hash that finds the entry at once neither depends on the length, and what is left is the \
             cost of a call: hundreds of instructions against tens of cycles. The seed's simulator counts instructions at a nominal \
             rate; at 100 million a second, which may be its default, its ARM would be 12 times slower than 1.2 GHz. The machine is \
             not set from that.",
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
            "A message costs {} times as much at twice the length. It is entry_bytes, 256 (assumed), that places the cliff: 6 MB \
             hold 24,576 entries; with 192 bytes it is {thin_cliff}. The ARM's cliff is predicted {arm_cliff}; the seed shows none, \
             whose simulator counts instructions and perhaps no misses.",
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
            "PAC is faster than the ARM for queues of 1, 2, 4, 8, 16, without hashing, all received",
            ("PAC < ARM", &fig12),
        )
        .note(format!(
            "{} to {} times as fast",
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
        "hashing is faster than a list on all three, from 16 messages on",
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
        about: "Three ranks send to rank 0 with descending tags; it receives the last of them. Time of that one receive, by the \
                receiver's clock. (With a list all that matters is its length, so three senders do for 127.)"
            .into(),
    });
    let x: Vec<f64> = few.iter().map(|length| *length as f64).collect();
    results.curves.push(Curve {
        name: "pac-short-queues",
        title: "PAC: short queues".into(),
        x: AxisOf::logarithmic("unexpected messages", 2),
        y: AxisOf::linear("time of a receive (ns)"),
        lines: vec![CurveLine::new("PAC, list", &x, &drain_list), CurveLine::new("ARM, list", &x, &drain_arm)],
        about: "All of them are received, the last first; the mean of a receive.".into(),
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
    let what = |ranks: u32, hash: &str| {
        format!(
            "PAC {hash} against the ARM without, {ranks} nodes, whole communication time (geometric mean of five patterns)"
        )
    };
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
            Claim::number(ids[place].0, source, what(*ranks, "without hashing"), (published[place].0, mean(speedups, 1), "times"))
                .note(format!(
                    "{}. As in pac-5c: an instruction-counting simulator at a nominal rate may explain a factor of 12; the rest would \
                     need lists far longer than a class S run of so many ranks makes.",
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
                "{}. At 4 ns an entry, lists of at most {} hardly matter to PAC.",
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
        "PAC with hashing is not behind PAC without, which is ahead of the ARM, in every pattern",
        ("hash >= list > 1", &order),
    ));
    if let [small, large] = &at_platform[..] {
        let larger: Vec<(f64, f64)> = [1, 2].iter().map(|which| (mean(large, *which), mean(small, *which))).collect();
        results.claims.push(
            Claim::order(
                "pac-6f",
                "seed 000, 5.3",
                "the speed-up is greater on 128 nodes than on 32 (geometric mean, without and with hashing)",
                ("128 > 32", &larger),
            )
            .note(format!(
                "without hashing {} against {}, with it {} against {}",
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
            "hashing in software speeds the ARM up by 10 to 30 %, by pattern",
            ((10.0, 30.0), (least(&gains), greatest(&gains)), "%"),
        )
        .note("Where receives are posted in the order in which messages come, the first entry matches, and a hash finds nothing to save: see pac-6h."),
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
            format!("what lists could add: an all-to-all of 8 bytes on {ranks} nodes whose messages are all unexpected, against the ARM without hashing"),
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
        .note("In the patterns above receives are posted before messages come, and matched near the head of the list. Ranks that compute come late; that is not modelled."),
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
            "all-to-all of 8 KB: rendezvous with eager limit 0 is fastest, then limit 4096, then eager (messages unexpected)",
            ("0 < 4096 < eager", &order(0)),
        )
        .note(
            "The schedule: all messages are sent, and have come, before receives are posted. The seed's PAC copies out of its \
             buffer by itself; here the processor does.",
        ),
    );
    let expected = order(1);
    let right = expected.iter().filter(|(more, less)| more > less).count();
    results.claims.push(
        Claim::shown(
            "pac-7b",
            "seed 000, 5.5",
            "the same with receives posted first: no order is claimed",
            (
                Figure::Words("none".into()),
                Figure::Words(format!("the same order in {right} of {}", expected.len())),
                "",
            ),
        )
        .note("Where every message is expected, rendezvous only adds a round trip: the claim is one about unexpected messages."),
    );
    results.curves.push(Curve {
        name: "pac-rendezvous",
        title: "PAC: all-to-all of 8 KB, eager against rendezvous".into(),
        x: AxisOf::logarithmic("nodes", 2),
        y: AxisOf::logarithmic("time (us)", 10),
        lines,
        about: "Each pair exchanges 8 KB. `unexpected`: sent before receives are posted, and timed without the pause between; \
                `expected`: receives first. With limit 4096 half of each message goes at once and half is fetched. Contents are compared."
            .into(),
    });
    Ok(())
}
