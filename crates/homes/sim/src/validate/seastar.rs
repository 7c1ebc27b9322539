// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seed 003: Portals on the SeaStar's processor, compared with Portals in the host's kernel.
//!
//! The machines `seastar-host` and `seastar-nic` have the same hardware. Ranks are on nodes 0, 1, 2 ... of the machine,
//! with x fastest.

use std::sync::Arc;

use super::claim::{Claim, Figure, short};
use super::lab::{ValidateError, machine, nearest};
use super::programs::groups::{Collective, Posting, collective};
use super::programs::{pairs, queues};
use super::{AxisOf, Curve, CurveLine, Plan, Results};
use crate::machine::Machine;

/// Small tables, because there are thousands of nodes; their sizes do not affect times.
const SMALL_TABLES: [(&str, &str); 2] = [("limits.entries", "32"), ("limits.headers", "32")];

struct Machines {
    host: Arc<Machine>,
    nic: Arc<Machine>,
}

impl Machines {
    fn load(overrides: &[(&str, &str)]) -> Result<Machines, ValidateError> {
        Ok(Machines { host: machine("seastar-host", overrides)?, nic: machine("seastar-nic", overrides)? })
    }

    fn both<T>(
        &self,
        mut experiment: impl FnMut(&Arc<Machine>) -> Result<T, ValidateError>,
    ) -> Result<(T, T), ValidateError> {
        Ok((experiment(&self.host)?, experiment(&self.nic)?))
    }
}

pub(super) fn run(plan: Plan, results: &mut Results, progress: &mut dyn FnMut(&str)) -> Result<(), ValidateError> {
    let machines = Machines::load(&SMALL_TABLES)?;
    progress("SeaStar: ping-pong");
    ping_pong(plan, &machines, results)?;
    progress("SeaStar: streams");
    streams(plan, &machines, results)?;
    progress("SeaStar: posted receives");
    posted_receives(plan, &machines, results)?;
    progress("SeaStar: collectives");
    collectives(plan, &machines, results)?;
    progress("SeaStar: more streams than the hardware can demultiplex");
    flow_control(plan, &machines, results)?;
    results.left_out = vec![
        "Figure 6, CORPSE against COP: the seed does not describe COP, so only CORPSE is modelled.",
        "Figure 4, where the time goes: its component times are inputs of the machines, so they cannot be predicted.",
        "The bandwidth of the second-generation SeaStar: the seed announces it, but has no measurement.",
    ];
    Ok(())
}

fn percent_less(host: f64, nic: f64) -> f64 {
    100.0 * (host - nic) / host
}

fn percent_more_bandwidth(host: f64, nic: f64) -> f64 {
    100.0 * (host / nic - 1.0)
}

fn ping_pong(plan: Plan, machines: &Machines, results: &mut Results) -> Result<(), ValidateError> {
    let most = plan.pick(1 << 20, 1 << 16);
    let sizes: Vec<u64> =
        std::iter::once(0).chain((0..).map(|power| 1 << power).take_while(|size| *size <= most)).collect();
    let (host, nic) = machines.both(|machine| pairs::ping_pong(machine, &sizes, 0))?;
    let at =
        |times: &[f64], size: u64| sizes.iter().position(|other| *other == size).map_or(f64::NAN, |place| times[place]);
    let gain_us = |size| at(&host, size) - at(&nic, size);
    let x: Vec<f64> = sizes.iter().map(|size| *size as f64).collect();
    let gains: Vec<f64> = host.iter().zip(&nic).map(|(host, nic)| percent_less(*host, *nic)).collect();

    // The prediction depends on the cost of an interrupt.
    let interrupts = [1000.0, 1500.0, 2000.0, 2500.0, 3000.0];
    let mut by_interrupt = Vec::new();
    for interrupt in interrupts {
        let value = interrupt.to_string();
        let slower = machine("seastar-host", &[SMALL_TABLES[0], SMALL_TABLES[1], ("host.interrupt_ns", &value)])?;
        by_interrupt.push(percent_less(pairs::ping_pong(&slower, &[8], 0)?[0], at(&nic, 8)));
    }
    let sensitivity: Vec<String> = interrupts
        .iter()
        .zip(&by_interrupt)
        .map(|(ns, gain)| format!("{} us: {} %", ns / 1000.0, short(*gain)))
        .collect();
    results.claims.push(
        Claim::number(
            "seastar-1a",
            "seed 003, VII",
            "ping-pong latency is 26 % lower on the NIC (8 bytes; the seed names no size)",
            (26.0, percent_less(at(&host, 8), at(&nic, 8)), "%"),
        )
        .note(format!(
            "host {} us, NIC {} us. The gain depends on the cost of an interrupt, interrupt_ns = 2,000 (recalled). \
             Gain by this cost: {}. It also depends on the time that the NIC spends on the Portals work \
             of a command, 500 ns (derived from seed 003, IV-A).",
            short(at(&host, 8)),
            short(at(&nic, 8)),
            sensitivity.join(", ")
        )),
    );
    results.claims.push(
        Claim::number(
            "seastar-1b",
            "seed 003, VI-A",
            "one interrupt fewer saves over 1 us for extremely small messages (8 bytes)",
            (1.0, gain_us(8), "us"),
        )
        .note(format!("At 0 bytes {} us are saved, at 16 bytes {} us.", short(gain_us(0)), short(gain_us(16)))),
    );
    let larger: Vec<u64> = vec![32, 64, 128, 256, 512, 1024];
    let mean = larger.iter().map(|size| gain_us(*size)).sum::<f64>() / larger.len() as f64;
    results.claims.push(
        Claim::number(
            "seastar-1c",
            "seed 003, VI-A",
            "two interrupts fewer save nearly 3 us for larger messages (32 to 1,024 bytes)",
            (3.0, mean, "us"),
        )
        .note(format!(
            "The figure is the mean of six sizes; {} us are saved at 32 bytes, {} us at 1 KB. The model charges the \
             second interrupt in full. The real host can serve it while it is still in the kernel for the first.",
            short(gain_us(32)),
            short(gain_us(1024))
        )),
    );
    let step = |times: &[f64]| {
        let small: Vec<u64> = sizes.iter().copied().filter(|size| (1..=256).contains(size)).collect();
        let rise = |size: u64| at(times, size) - at(times, size / 2);
        small.iter().copied().skip(1).max_by(|a, b| rise(*a).total_cmp(&rise(*b))).unwrap_or(0)
    };
    results.claims.push(
        Claim::shown(
            "seastar-1d",
            "seed 003, VI-A",
            "messages change from programmed I/O to DMA between 16 and 32 bytes",
            (
                Figure::Words("16 to 32 bytes".into()),
                Figure::Words(format!("largest rise at {} bytes (host), {} bytes (NIC)", step(&host), step(&nic))),
                "",
            ),
        )
        .note("pio_bytes_max = 16 is an input, so only the height of the rise is predicted."),
    );
    let moderate: Vec<u64> = sizes.iter().copied().filter(|size| (4096..=65_536).contains(size)).collect();
    let bandwidth = |size: u64| percent_more_bandwidth(at(&host, size), at(&nic, size));
    let gained: Vec<f64> = moderate.iter().map(|size| bandwidth(*size)).collect();
    let range = gained.iter().fold((f64::MAX, f64::MIN), |(low, high), gain| (low.min(*gain), high.max(*gain)));
    let within: Vec<String> = sizes
        .iter()
        .filter(|size| **size > 0 && (10.0..=20.0).contains(&bandwidth(**size)))
        .map(|size| size.to_string())
        .collect();
    results.claims.push(
        Claim::range(
            "seastar-1e",
            "seed 003, VII",
            "ping-pong bandwidth gains 10 to 20 % over a large range of sizes (4 to 64 KB)",
            ((10.0, 20.0), range, "%"),
        )
        .note(format!(
            "The gain is within 10 to 20 % at these powers of two: {}. Beyond 1 KB the NIC saves a constant time, \
             so the gain in percent falls as 1/size. It could stay in this range over many sizes only if the NIC \
             also saved a cost for each byte or packet. The seed does not describe such a cost.",
            if within.is_empty() { "none".to_owned() } else { within.join(", ") }
        )),
    );
    let falling: Vec<u64> = sizes.iter().copied().filter(|size| *size >= 1024).collect();
    let pairs: Vec<(f64, f64)> = falling.windows(2).map(|pair| (bandwidth(pair[0]), bandwidth(pair[1]))).collect();
    results.claims.push(Claim::order(
        "seastar-1f",
        "seed 003, VI-A",
        "from 1 KB on, the gain in bandwidth falls as messages grow",
        ("falls", &pairs),
    ));
    let peak = most as f64 / at(&nic, most);
    results.claims.push(
        Claim::shown(
            "seastar-1g",
            "seed 003, VI-A",
            "peak bandwidth is over 1.1 GB/s",
            (Figure::AtLeast(1100.0), Figure::Number(peak), "MB/s"),
        )
        .note("dma_MBps = 1,100 is an input, so this figure is only shown."),
    );
    let bytes = plan.pick(1 << 20, 1 << 18);
    let one = pairs::stream(&machines.nic, &[bytes], 4)?[0] * bytes as f64;
    let both = pairs::both_ways(&machines.nic, bytes, 4)?;
    results.claims.push(Claim::number(
        "seastar-1h",
        "seed 003, VI-A",
        "both directions together have twice the bandwidth of one (1 MB messages)",
        (2.0, both / one, "times"),
    ));
    results.curves.push(Curve {
        name: "seastar-latency",
        title: "SeaStar: half a ping-pong, host against NIC".into(),
        x: AxisOf::logarithmic("message size (bytes)", 2),
        y: AxisOf::logarithmic("latency (us)", 10),
        lines: vec![CurveLine::new("host", &x, &host), CurveLine::new("NIC", &x, &nic)],
        about: "Two neighbouring nodes exchange messages with tags. The receive is posted while its message is in \
                flight. The mean of 10 round trips (2 above 64 KB), after one that is not timed."
            .into(),
    });
    let bandwidth_gains: Vec<f64> = sizes.iter().map(|size| bandwidth(*size)).collect();
    results.curves.push(Curve {
        name: "seastar-gain",
        title: "SeaStar: gain of the NIC in a ping-pong".into(),
        x: AxisOf::logarithmic("message size (bytes)", 2),
        y: AxisOf::linear("gain (%)"),
        lines: vec![
            CurveLine::new("latency, of the host's", &x, &gains),
            CurveLine::new("bandwidth, over the host's", &x[1..], &bandwidth_gains[1..]),
        ],
        about: "The same runs. Latency: percent less than the host's. Bandwidth: percent more than the host's.".into(),
    });
    results.curves.push(Curve {
        name: "seastar-gain-by-interrupt",
        title: "SeaStar: gain of the NIC at 8 bytes, by the cost of an interrupt".into(),
        x: AxisOf::linear("interrupt (ns)"),
        y: AxisOf::linear("latency gain (%)"),
        lines: vec![CurveLine::new("8 bytes", &interrupts, &by_interrupt)],
        about: "`seastar-host` with other values of `host.interrupt_ns`.".into(),
    });
    Ok(())
}

fn streams(plan: Plan, machines: &Machines, results: &mut Results) -> Result<(), ValidateError> {
    let sizes: Vec<u64> = plan.pick(vec![1, 16, 64, 256, 1024, 4096, 16_384], vec![1, 64, 1024]);
    let (host, nic) = machines.both(|machine| pairs::stream(machine, &sizes, 64))?;
    let pairs: Vec<(f64, f64)> = nic.iter().copied().zip(host.iter().copied()).collect();
    let gain: Vec<String> =
        sizes.iter().zip(&pairs).map(|(size, (nic, host))| format!("{size} bytes: {}x", short(nic / host))).collect();
    results.claims.push(
        Claim::order("seastar-1i", "seed 003, VI-A", "streams: the NIC is faster at all sizes", ("NIC > host", &pairs))
            .note(format!("Bandwidth of the NIC over that of the host: {}", gain.join(", "))),
    );
    let x: Vec<f64> = sizes.iter().map(|size| *size as f64).collect();
    let bandwidth = |rates: &[f64]| x.iter().zip(rates).map(|(size, rate)| size * rate).collect::<Vec<_>>();
    results.curves.push(Curve {
        name: "seastar-stream",
        title: "SeaStar: bandwidth of a stream".into(),
        x: AxisOf::logarithmic("message size (bytes)", 2),
        y: AxisOf::logarithmic("bandwidth (MB/s)", 10),
        lines: vec![CurveLine::new("host", &x, &bandwidth(&host)), CurveLine::new("NIC", &x, &bandwidth(&nic))],
        about: "64 messages one after another into posted receives.".into(),
    });
    Ok(())
}

/// Returns the x at which the second curve rises above the first, by linear interpolation between points.
fn crossing(x: &[f64], first: &[f64], second: &[f64]) -> Option<f64> {
    let above = |n: usize| second[n] - first[n];
    let n = (1..x.len()).find(|n| above(*n) > 0.0 && above(n - 1) <= 0.0)?;
    Some(x[n - 1] + (x[n] - x[n - 1]) * -above(n - 1) / (above(n) - above(n - 1)))
}

fn posted_receives(plan: Plan, machines: &Machines, results: &mut Results) -> Result<(), ValidateError> {
    let lengths: Vec<u32> =
        plan.pick(vec![0, 1, 2, 5, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200, 300], vec![0, 10, 30, 50, 80, 200]);
    let x: Vec<f64> = lengths.iter().map(|length| f64::from(*length)).collect();
    let sizes = [0, 8, 64];
    let mut times = vec![(Vec::new(), Vec::new()); sizes.len()];
    for length in &lengths {
        let (host, nic) = machines.both(|machine| pairs::ping_pong(machine, &sizes, *length))?;
        for (place, (of_host, of_nic)) in times.iter_mut().enumerate() {
            of_host.push(host[place]);
            of_nic.push(nic[place]);
        }
    }
    let slope = |times: &[f64]| {
        let last = x.len() - 1;
        1000.0 * (times[last] - times[0]) / (x[last] - x[0])
    };
    let (host, nic) = &times[1];
    results.claims.push(
        Claim::shown(
            "seastar-2a",
            "seed 003, VI-E",
            "the NIC takes approximately 30 ns for each item of the receive list",
            (Figure::Number(30.0), Figure::Number(slope(nic)), "ns"),
        )
        .note(format!(
            "entry_search_ns = 30 is an input. The host's time for an item is a prediction: {} ns.",
            short(slope(host))
        )),
    );
    let crossings: Vec<Option<f64>> = times.iter().map(|(host, nic)| crossing(&x, host, nic)).collect();
    let shown = |crossing: Option<f64>| crossing.map_or("none".to_owned(), short);
    results.claims.push(
        Claim::number(
            "seastar-2b",
            "seed 003, VI-E",
            "after 50 items the NIC is slower than the host (8 bytes; the seed names no size)",
            (50.0, crossings[1].unwrap_or(f64::INFINITY), "items"),
        )
        .note(format!(
            "At 0 bytes: {}; at 64 bytes: {} items. The crossing is the time that one interrupt fewer saves, \
             divided by the difference between the two times for an item. So it depends on interrupt_ns, too.",
            shown(crossings[0]),
            shown(crossings[2])
        )),
    );
    let thirty = lengths.iter().position(|length| *length == 30).unwrap_or(0);
    results.claims.push(Claim::order(
        "seastar-2c",
        "seed 003, VI-E",
        "with 30 receives posted, as in many codes, the NIC is faster (8 bytes)",
        ("NIC < host", &[(host[thirty], nic[thirty])]),
    ));
    let mut lines = Vec::new();
    for (size, (host, nic)) in sizes.iter().zip(&times) {
        lines.push(CurveLine::new(format!("host, {size} bytes"), &x, host));
        lines.push(CurveLine::new(format!("NIC, {size} bytes"), &x, nic));
    }
    results.curves.push(Curve {
        name: "seastar-posted",
        title: "SeaStar: latency behind receives that do not match".into(),
        x: AxisOf::linear("receives before the one that matches"),
        y: AxisOf::linear("latency (us)"),
        lines,
        about: "A ping-pong. At both ranks the receive that matches is the last of the posted receives.".into(),
    });
    Ok(())
}

fn collectives(plan: Plan, machines: &Machines, results: &mut Results) -> Result<(), ValidateError> {
    // Each power of two up to 256, then each power of four.
    let doubling = |most: u32| {
        let powers = (1..).map(|power| 1u32 << power).take_while(|ranks| *ranks <= most);
        powers.filter(|ranks| *ranks <= 256 || ranks.trailing_zeros() % 2 == 0).collect::<Vec<_>>()
    };
    let bytes = 16;
    let most = plan.pick(4096, 64);
    let cases = [
        ("barrier, receive first", Collective::Barrier(Posting::Before), most, 1),
        ("allreduce, receive first", Collective::Allreduce { bytes, posting: Posting::Before }, most, 1),
        ("barrier, send first", Collective::Barrier(Posting::After), most, 1),
        ("allreduce, send first", Collective::Allreduce { bytes, posting: Posting::After }, most, 1),
        ("reduce", Collective::Reduce { bytes }, plan.pick(1024, 128), 10),
        ("allgather", Collective::Allgather { bytes }, plan.pick(256, 64), 1),
    ];
    let (mut time_lines, mut gain_lines) = (Vec::new(), Vec::new());
    let mut all_gains = Vec::new();
    for (name, which, most, rounds) in cases {
        let ranks = doubling(most);
        let (mut host, mut nic) = (Vec::new(), Vec::new());
        for ranks in &ranks {
            let both = machines.both(|machine| collective(machine, *ranks, which, rounds))?;
            host.push(both.0);
            nic.push(both.1);
        }
        let x: Vec<f64> = ranks.iter().map(|ranks| f64::from(*ranks)).collect();
        let gains: Vec<f64> = host.iter().zip(&nic).map(|(host, nic)| percent_less(*host, *nic)).collect();
        time_lines.push(CurveLine::new(format!("{name}, host"), &x, &host));
        time_lines.push(CurveLine::new(format!("{name}, NIC"), &x, &nic));
        gain_lines.push(CurveLine::new(name, &x, &gains));
        all_gains.push((ranks, host, nic, gains));
    }
    let ahead = |places: &[usize]| -> Vec<(f64, f64)> {
        places
            .iter()
            .flat_map(|place| all_gains[*place].1.iter().copied().zip(all_gains[*place].2.iter().copied()))
            .collect()
    };
    let ends = |place: usize| {
        let gains = &all_gains[place].3;
        format!("{} to {} %", short(gains[0]), short(gains[gains.len() - 1]))
    };
    let (early, late) = ([0, 1], [2, 3, 4]);
    let range = format!("2 to {most} nodes");
    results.claims.push(
        Claim::order(
            "seastar-3a",
            "seed 003, VI-B",
            "barrier, allreduce, reduce: the NIC is faster on all node counts (send first)",
            ("NIC < host", &ahead(&late)),
        )
        .note(format!(
            "{range} (reduce 2 to {}). In barrier and allreduce a rank sends, then posts its receive. Gain with the \
             fewest and with the most nodes: barrier {}, allreduce {}, reduce {}.",
            plan.pick(1024, 128),
            ends(2),
            ends(3),
            ends(4)
        )),
    );
    results.claims.push(
        Claim::order(
            "seastar-3b",
            "seed 003, VI-B",
            "barrier, allreduce: the NIC is faster on all node counts (receive first)",
            ("NIC < host", &ahead(&early)),
        )
        .note(format!(
            "{range}. A rank posts its receive, then sends, as MPI_Sendrecv does. Gain with the fewest and with the \
             most nodes: barrier {}, allreduce {}. Posting takes a round trip of 1 us to the NIC (seed 003, IV-A), \
             but 0.19 us in the host's kernel. It comes before the send, when nothing else is under way. So it \
             costs nearly all the time that one interrupt fewer saves.",
            ends(0),
            ends(1)
        )),
    );
    let growth = |gains: &dyn Fn(usize, usize) -> f64| {
        let pairs = |place: usize| (1..all_gains[place].0.len()).map(move |n| (gains(place, n), gains(place, n - 1)));
        late.iter().flat_map(|place| pairs(*place)).collect::<Vec<_>>()
    };
    let in_us = growth(&|place, n| all_gains[place].1[n] - all_gains[place].2[n]);
    let in_percent = growth(&|place, n| all_gains[place].3[n]);
    results.claims.push(
        Claim::order(
            "seastar-3c",
            "seed 003, VI-B",
            "the NIC's gain in microseconds grows with the number of nodes",
            ("grows", &in_us),
        )
        .note("The seed claims it for the barrier. Here barrier, allreduce and reduce are tested (send first)."),
    );
    results.claims.push(
        Claim::order(
            "seastar-3d",
            "seed 003, VI-B",
            "the NIC's gain in percent grows with the number of nodes",
            ("grows", &in_percent),
        )
        .note(
            "With more nodes the paths are longer, and the gain is a smaller share of the time. On a real machine \
             noise makes ranks late and messages unexpected, so the share grows. Noise is not modelled.",
        ),
    );
    let common = |place: usize| all_gains[place].3.iter().copied();
    let mut reduce_ahead: Vec<(f64, f64)> = common(4).zip(common(1)).collect();
    reduce_ahead.extend(common(4).zip(common(3)));
    results.claims.push(
        Claim::order(
            "seastar-3e",
            "seed 003, VI-B",
            "reduce gains more than allreduce does, in percent",
            ("reduce > allreduce", &reduce_ahead),
        )
        .note("Ten reductions run one after another, so they overlap. Both schedules of allreduce are compared."),
    );
    let gather = &all_gains[5];
    let last = gather.3.len() - 1;
    let top = gather.3.iter().copied().fold(f64::MIN, f64::max);
    results.claims.push(
        Claim::order(
            "seastar-3f",
            "seed 003, VI-B",
            "allgather: host and NIC converge slightly at larger numbers of nodes",
            ("gain falls from its highest", &[(top, gather.3[last])]),
        )
        .note(format!(
            "Gain in percent by number of nodes: {}",
            gather
                .0
                .iter()
                .zip(&gather.3)
                .map(|(n, gain)| format!("{n}: {}", short(*gain)))
                .collect::<Vec<_>>()
                .join(", ")
        )),
    );
    results.curves.push(Curve {
        name: "seastar-collectives",
        title: "SeaStar: collectives, host against NIC".into(),
        x: AxisOf::logarithmic("nodes", 2),
        y: AxisOf::logarithmic("time (us)", 10),
        lines: time_lines,
        about: "Barrier by dissemination, allreduce and allgather by recursive doubling, reduce by a binomial tree \
                (the mean of 10, one after another). Allreduce and reduce have 16 bytes, allgather 16 bytes of each \
                rank. The time runs from a common start until the last rank has finished. Receive first: a rank \
                posts its receive, then sends. Send first: it sends, then posts its receive."
            .into(),
    });
    results.curves.push(Curve {
        name: "seastar-collectives-gain",
        title: "SeaStar: gain of the NIC in collectives".into(),
        x: AxisOf::logarithmic("nodes", 2),
        y: AxisOf::linear("gain (% of the host's time)"),
        lines: gain_lines,
        about: "The same runs.".into(),
    });
    Ok(())
}

fn flow_control(plan: Plan, machines: &Machines, results: &mut Results) -> Result<(), ValidateError> {
    let unlimited = machine("seastar-nic", &[SMALL_TABLES[0], SMALL_TABLES[1], ("nic.streams_max", "0")])?;
    let senders: Vec<u32> = plan.pick(vec![128, 256, 257, 300, 342, 512], vec![256, 300]);
    let near = nearest(&machines.nic, 520);
    let bytes = 8192;
    let (mut with, mut without, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for senders in &senders {
        let limited = queues::incast(&machines.nic, &near, *senders, bytes, 1)?;
        let free = queues::incast(&unlimited, &near, *senders, bytes, 1)?;
        with.push(limited.time_us);
        without.push(free.time_us);
        refused.push(limited.refused as f64);
    }
    // Several messages of each pair, to check their order.
    let many = 512;
    let ordered = queues::incast(&machines.nic, &near, many, bytes, 2)?;
    let ordered_free = queues::incast(&unlimited, &near, many, bytes, 2)?;
    let runs: Vec<String> =
        senders.iter().zip(&refused).map(|(senders, refused)| format!("{senders}: {refused}")).collect();
    results.claims.push(
        Claim::fact(
            "seastar-4a",
            "seed 003, III-D",
            "with more than 256 streams no message is lost or repeated, and pairs keep order",
            (
                "lossless",
                format!("in each of {} runs every message arrived once, whole and in order", senders.len() + 1),
                ordered.refused > 0,
            ),
        )
        .note(format!(
            "The receiver compares every byte, and a wrong byte ends the run with an error. With {many} senders of \
             2 messages each, messages were refused {} times and sent again.",
            ordered.refused
        )),
    );
    let by_senders = || senders.iter().zip(&refused);
    let idle = by_senders().all(|(senders, refused)| *senders > 256 || *refused == 0.0);
    let at_work = refused.last().is_some_and(|refused| *refused > 0.0);
    results.claims.push(
        Claim::fact(
            "seastar-4b",
            "seed 003, III-D",
            "up to 256 senders no message is refused; with many more senders some are",
            ("256", format!("refusals by senders: {}", runs.join(", ")), idle && at_work),
        )
        .note(
            "streams_max = 256 is an input. The model predicts that the protocol does nothing up to this limit, and \
             works above it. With a few more than 256 senders there are still no more than 256 streams at once: \
             those of the nearest senders end before those of the farthest begin.",
        ),
    );
    let costs: Vec<String> = senders
        .iter()
        .zip(with.iter().zip(&without))
        .filter(|(senders, _)| **senders > 256)
        .map(|(senders, (with, without))| format!("{senders}: {}x", short(with / without)))
        .collect();
    results.claims.push(
        Claim::shown(
            "seastar-4c",
            "seed 003, III-D",
            "cost of more than 256 streams at once",
            (
                Figure::Words("no figure".into()),
                Figure::Words(format!("time over that without a limit: {}", costs.join(", "))),
                "",
            ),
        )
        .note(format!(
            "All senders send {bytes} bytes at once. The receiver's bus, 1.1 GB/s, is the bottleneck: messages that \
             are sent again arrive before it is idle. {many} senders with two messages of 8 KB each: {}x. A refused \
             message has crossed the network. It is sent again after retry_ns, 10,000 (assumed; the seed leaves a \
             backoff to future work).",
            short(ordered.time_us / ordered_free.time_us)
        )),
    );
    let sizes = [0, 8, 64, 1024];
    let limited = pairs::ping_pong(&machines.nic, &sizes, 0)?;
    let free = pairs::ping_pong(&unlimited, &sizes, 0)?;
    let worst = limited.iter().zip(&free).map(|(with, without)| 100.0 * (with - without) / without).fold(0.0, f64::max);
    results.claims.push(
        Claim::fact(
            "seastar-4d",
            "seed 003, VI-A",
            "the protocol has a measurable but minimal effect on a ping-pong",
            ("minimal", format!("{} % at most, 0 to 1,024 bytes", short(worst)), worst <= super::TIE_PERCENT),
        )
        .note("The model charges no time for the protocol's bookkeeping, so the measured effect is 0 here."),
    );
    let x: Vec<f64> = senders.iter().map(|senders| f64::from(*senders)).collect();
    results.curves.push(Curve {
        name: "seastar-incast",
        title: "SeaStar: many senders, one receiver".into(),
        x: AxisOf::linear("senders at once"),
        y: AxisOf::linear("time (us)"),
        lines: vec![
            CurveLine::new("256 streams and the protocol", &x, &with),
            CurveLine::new("streams without limit", &x, &without),
        ],
        about: format!(
            "Each sender sends {bytes} bytes to one node in the middle of the machine. The time runs from the first \
             send to the last receive. The senders are the nodes around the receiver, in growing cubes. (The \
             simulated routers merge streams by turns, the real router by age. With senders further away, near \
             streams would end before far ones begin, and fewer would meet.)"
        ),
    });
    Ok(())
}
