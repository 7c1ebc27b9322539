// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seed 004: counting puts, compared with puts, a fence, and flags or a barrier.
//!
//! The machine is `qdr-portals`. A fence waits for acknowledgements, as on the seed's network, which does not keep
//! messages in order. Noise and imbalance of ranks are not modelled.

use std::sync::Arc;

use super::claim::{Claim, Figure, short};
use super::lab::{ValidateError, machine};
use super::programs::puts::{self, Notification, Stencil};
use super::{AxisOf, Curve, CurveLine, Plan, Results};
use crate::machine::Machine;
use crate::time::Time;

/// Returns the machine with a node for each of 60 ranks. In the seed each rank has its own helper thread (seed 004,
/// 3.3), but simulated ranks on one node would share one engine. So ranks do not share an adapter either.
fn wide() -> Result<Arc<Machine>, ValidateError> {
    machine("qdr-portals", &[TABLES[0], TABLES[1], ("topology.nodes", "60")])
}

const TABLES: [(&str, &str); 2] = [("limits.entries", "32"), ("limits.headers", "32")];
/// Processor time of a point of the stencil. Assumed: dependent additions and loads, five cycles at 3.33 GHz.
const POINT: Time = Time::from_ps(1500);

pub(super) fn run(plan: Plan, results: &mut Results, progress: &mut dyn FnMut(&str)) -> Result<(), ValidateError> {
    let machine = machine("qdr-portals", &TABLES)?;
    progress("counting puts: ping-pong");
    ping_pong(plan, &machine, results)?;
    progress("counting puts: all-to-all");
    alltoall(plan, &machine, results)?;
    progress("counting puts: stencil");
    stencil(plan, &machine, results)?;
    results.left_out = vec!["Absolute bandwidths and rates of figures 3 to 6: the seed prints curves without numbers."];
    Ok(())
}

fn ping_pong(plan: Plan, machine: &Arc<Machine>, results: &mut Results) -> Result<(), ValidateError> {
    let most = plan.pick(20, 16);
    let sizes: Vec<u64> = (0..=most).map(|power| 1 << power).collect();
    let counting = puts::ping_pong(machine, &sizes, Notification::Counting)?;
    let flags = puts::ping_pong(machine, &sizes, Notification::Flags)?;
    let ratio: Vec<f64> = flags.iter().zip(&counting).map(|(flags, counting)| flags / counting).collect();
    let eight = 3;
    results.claims.push(
        Claim::number(
            "counting-8a",
            "seed 004, 3.1, figure 3",
            "counting puts approximately halve the latency of small messages (8 bytes)",
            (2.0, ratio[eight], "times"),
        )
        .note(format!(
            "counting {} us; put, fence, flag {} us. The put, its acknowledgement and the flag cross the network \
             one after another, so there are three trips against one. A ratio of 2.0 needs an acknowledgement that \
             costs nothing, or work that both ways do for each operation and that no component of the machine has.",
            short(counting[eight]),
            short(flags[eight])
        )),
    );
    let larger: Vec<(f64, f64)> = ratio[6..].windows(2).map(|pair| (pair[0], pair[1])).collect();
    results.claims.push(
        Claim::order(
            "counting-8b",
            "seed 004, 3.1, figure 3",
            "the speed-up decreases with message size (from 64 bytes on)",
            ("falls", &larger),
        )
        .note(format!(
            "Speed-up {} at 64 bytes, {} at {} bytes.",
            short(ratio[6]),
            short(ratio[most as usize]),
            sizes[most as usize]
        )),
    );
    let x: Vec<f64> = sizes.iter().map(|size| *size as f64).collect();
    results.curves.push(Curve {
        name: "counting-ping-pong",
        title: "Counting puts: half a ping-pong".into(),
        x: AxisOf::logarithmic("message size (bytes)", 2),
        y: AxisOf::logarithmic("latency (us)", 10),
        lines: vec![CurveLine::new("counting put", &x, &counting), CurveLine::new("put, fence, flag", &x, &flags)],
        about: "Two ranks on two nodes. The mean of 10 round trips, after one that is not timed.".into(),
    });
    Ok(())
}

fn alltoall(plan: Plan, machine: &Arc<Machine>, results: &mut Results) -> Result<(), ValidateError> {
    let sizes: Vec<u64> = plan.pick(vec![8, 64, 512, 4096, 16_384, 65_536, 262_144], vec![8, 512, 4096, 65_536]);
    let ways = [
        ("counting", Notification::Counting),
        ("fence and flags", Notification::Flags),
        ("barrier, dissemination", Notification::Dissemination),
        ("barrier, linear", Notification::Linear),
    ];
    let x: Vec<f64> = sizes.iter().map(|size| *size as f64).collect();
    let bandwidth = |machine: &Arc<Machine>, ranks: u32, sizes: &[u64]| -> Result<Vec<Vec<f64>>, ValidateError> {
        let mut all = Vec::new();
        for (_, notification) in ways {
            let mut line = Vec::new();
            for bytes in sizes {
                let time = puts::alltoall(machine, ranks, *bytes, notification)?;
                line.push((u64::from(ranks - 1) * bytes) as f64 / time);
            }
            all.push(line);
        }
        Ok(all)
    };
    let one = bandwidth(machine, 15, &sizes)?;
    let crowd_sizes: Vec<u64> = plan.pick(vec![8, 64, 512], vec![8]);
    let wide = wide()?;
    let crowd = bandwidth(&wide, 60, &crowd_sizes)?;
    let above = |lines: &[Vec<f64>], upper: usize, lower: usize| -> Vec<(f64, f64)> {
        lines[upper].iter().copied().zip(lines[lower].iter().copied()).collect()
    };
    let mut first = Vec::new();
    for lower in 1..4 {
        first.extend(above(&one, 0, lower));
        first.extend(above(&crowd, 0, lower));
    }
    results.claims.push(
        Claim::order(
            "counting-8c",
            "seed 004, 3.2, figure 4",
            "all-to-all: counting puts have the highest bandwidth at every size",
            ("counting first", &first),
        )
        .note("Compared with flags and both barriers: with 15 ranks, and with 60 ranks for sizes up to 512 bytes."),
    );
    let source = "seed 004, 3.2, figure 4";
    let why = "The seed does not name the algorithm of its barrier, and gives the overhead of global \
               synchronization as the reason. In a barrier of log2 n rounds a rank sends fewer messages than with a \
               flag to each other rank, and no rank arrives late here.";
    for (id, lower, name, note) in [
        ("counting-8d", 2, "dissemination", why),
        ("counting-8e", 3, "linear", "The barrier passes through rank 0, so one node handles 2(n - 1) messages."),
    ] {
        let mut pairs = above(&one, 1, lower);
        pairs.extend(above(&crowd, 1, lower));
        let ratios = |lines: &[Vec<f64>]| {
            let all: Vec<String> =
                above(lines, 1, lower).iter().map(|(flags, barrier)| short(flags / barrier)).collect();
            all.join(", ")
        };
        results.claims.push(
            Claim::order(
                id,
                source,
                format!("all-to-all: fence and flags beat a barrier ({name}) at every size"),
                ("flags > barrier", &pairs),
            )
            .note(format!(
                "{note} Bandwidth of flags over that of the barrier, by size: 15 ranks {}; 60 ranks {}.",
                ratios(&one),
                ratios(&crowd)
            )),
        );
    }
    let last = sizes.len() - 1;
    let lead = |n: usize| one[0][n] / one[1][n];
    results.claims.push(
        Claim::order(
            "counting-8f",
            source,
            "all-to-all: the gap closes as messages grow (8 bytes against the largest)",
            ("closes", &[(lead(0), lead(last))]),
        )
        .note(format!(
            "Bandwidth of counting puts over that of flags: {} at 8 bytes, {} at {} bytes.",
            short(lead(0)),
            short(lead(last)),
            sizes[last]
        )),
    );
    let mut lines: Vec<CurveLine> =
        ways.iter().zip(&one).map(|((name, _), line)| CurveLine::new(format!("{name}, 15 ranks"), &x, line)).collect();
    let crowd_x: Vec<f64> = crowd_sizes.iter().map(|size| *size as f64).collect();
    lines.extend(
        ways.iter().zip(&crowd).map(|((name, _), line)| CurveLine::new(format!("{name}, 60 ranks"), &crowd_x, line)),
    );
    results.curves.push(Curve {
        name: "counting-alltoall",
        title: "Counting puts: bandwidth of a rank in an all-to-all".into(),
        x: AxisOf::logarithmic("message size (bytes)", 2),
        y: AxisOf::logarithmic("bandwidth of a rank (MB/s)", 10),
        lines,
        about: "Each rank puts to all others, first to the next rank, and waits for their puts. The mean of three \
                rounds at the slowest rank, after one that is not timed."
            .into(),
    });
    Ok(())
}

fn stencil(plan: Plan, machine: &Arc<Machine>, results: &mut Results) -> Result<(), ValidateError> {
    let wide = wide()?;
    let grid = Stencil { columns: 12_800, rows: plan.pick(1280, 256), point: POINT, per_node: 1 };
    let nodes: Vec<u32> = plan.pick(vec![1, 2, 4, 6, 8, 10, 12, 15], vec![1, 4, 15]);
    let ranks: Vec<f64> = nodes.iter().map(|nodes| f64::from(4 * nodes)).collect();
    let rate = |machine: &Arc<Machine>, grid: Stencil, notification| -> Result<Vec<f64>, ValidateError> {
        nodes.iter().map(|nodes| puts::stencil(machine, 4 * nodes, grid, notification)).collect()
    };
    let counting = rate(&wide, grid, Notification::Counting)?;
    let flags = rate(&wide, grid, Notification::Flags)?;
    let last = nodes.len() - 1;
    let shared = Stencil { per_node: 4, ..grid };
    let (shared_counting, shared_flags) = (
        puts::stencil(machine, 60, shared, Notification::Counting)?,
        puts::stencil(machine, 60, shared, Notification::Flags)?,
    );
    let rising: Vec<(f64, f64)> = counting.windows(2).map(|pair| (pair[1], pair[0])).collect();
    results.claims.push(
        Claim::order(
            "counting-8g",
            "seed 004, 3.3, figure 5",
            "stencil of 12,800 x 1,280: with counting puts each step from 1 to 15 nodes gains",
            ("keeps scaling", &rising),
        )
        .note(format!(
            "{} to {} GFLOP/s with 4 to 60 ranks, 4 for each node. A point is assumed to cost 1.5 ns. The seed \
             prints no rates.{}",
            short(counting[0]),
            short(counting[last]),
            plan.pick("", " 256 rows in this quick run.")
        )),
    );
    let scaled = |rates: &[f64]| rates[last] / rates[0];
    results.claims.push(
        Claim::order(
            "counting-8h",
            "seed 004, 3.3, figure 5",
            "flags scale poorly: less than counting puts, and less than half of 15 times",
            ("flags scale less", &[(scaled(&counting), scaled(&flags)), (7.5, scaled(&flags))]),
        )
        .note(format!(
            "From 4 to 60 ranks the rate grows {} times with counting puts, {} times with flags; 15 times is ideal. \
             At 60 ranks counting puts have {} times the rate of flags. Each rank has its own engine, as each PE of \
             the seed has a helper thread. If the four ranks of a node shared one engine, the rates at 60 ranks \
             would be {} (counting) and {} GFLOP/s (flags).",
            short(scaled(&counting)),
            short(scaled(&flags)),
            short(counting[last] / flags[last]),
            short(shared_counting),
            short(shared_flags)
        )),
    );
    let widths: Vec<u32> = plan.pick(vec![12_800, 25_600, 51_200, 102_400, 204_800], vec![12_800, 51_200]);
    let mut lead = Vec::new();
    for columns in &widths {
        let grid = Stencil { columns: *columns, rows: plan.pick(320, 128), ..grid };
        let rate = |notification| puts::stencil(&wide, 48, grid, notification);
        lead.push(rate(Notification::Counting)? / rate(Notification::Flags)?);
    }
    let falling: Vec<(f64, f64)> = lead.windows(2).map(|pair| (pair[0], pair[1])).collect();
    results.claims.push(
        Claim::order(
            "counting-8i",
            "seed 004, 3.3, figure 6",
            "48 ranks: the lead of counting puts falls as the first dimension grows",
            ("falls", &falling),
        )
        .note(format!(
            "Rate of counting puts over that of flags: {} at 12,800 columns, {} at {} columns.",
            short(lead[0]),
            short(lead[lead.len() - 1]),
            widths[widths.len() - 1]
        )),
    );
    results.claims.push(Claim::shown(
        "counting-8j",
        "seed 004, 3.3, figure 5",
        "rates of the stencil at 60 ranks",
        (
            Figure::Words("not printed".into()),
            Figure::Words(format!("counting {}, flags {}", short(counting[last]), short(flags[last]))),
            "GFLOP/s",
        ),
    ));
    results.curves.push(Curve {
        name: "counting-stencil",
        title: "Counting puts: a pipelined stencil".into(),
        x: AxisOf::linear("ranks"),
        y: AxisOf::linear("GFLOP/s"),
        lines: vec![CurveLine::new("counting puts", &ranks, &counting), CurveLine::new("flags", &ranks, &flags)],
        about: format!(
            "12,800 columns in strips, one for each rank, and {} rows. A rank computes its part of a row, then \
             notifies the next rank.",
            grid.rows
        ),
    });
    let x: Vec<f64> = widths.iter().map(|columns| f64::from(*columns)).collect();
    results.curves.push(Curve {
        name: "counting-stencil-size",
        title: "Counting puts: their lead in the stencil, by size".into(),
        x: AxisOf::logarithmic("columns", 2),
        y: AxisOf::linear("rate over that with flags"),
        lines: vec![CurveLine::new("48 ranks", &x, &lead)],
        about: "Fewer rows than above: once the pipeline is full, the lead does not depend on their number.".into(),
    });
    Ok(())
}
